"""Tests an adapter: conformance of a runtime."""

from __future__ import annotations

import gc
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, helper

from editor import operating_system
from editor.devices.device import Device
from editor.devices.discovery import devices_of
from editor.devices.table import load_devices
from editor.errors import EditorError, ExecutionError
from editor.execution.compiled_plan import convert
from editor.execution.executor import compile_whole
from editor.graph.graph import Graph
from editor.graph.loading import load_model
from editor.placement.placement import Settings, solve
from editor.runtimes.base import CompileOptions, SubModel
from editor.runtimes.op_models import small_model
from editor.runtimes.protocols import API_VERSION, Executable
from editor.runtimes.registry import capability, runtime_of
from editor.runtimes.trial_values import is_random
from editor.runtimes.values import to_numpy
from editor.text import pluralize


def backend_cases(
    most: int | None = None,
) -> Iterator[tuple[Any, Mapping[str, Any], Mapping[str, Any]]]:
    """Cases with tensors of numbers, in the order of their names, with the inputs and the outputs of each by name.

    Args:
        most: how many, spread over all; None for all.
    """
    from onnx.backend.test import loader

    warnings.simplefilter("ignore")  # of the functions that make the cases
    tests: list[Any] = sorted(loader.load_node_model_tests(), key=lambda test: str(test.name))
    step = max(len(tests) // most, 1) if most else 1
    for test in tests[::step]:
        if any(is_random(node) for node in test.model.graph.node):
            continue
        for inputs, outputs in test.data_sets[:1]:
            if all(
                isinstance(v, np.ndarray) and v.dtype.kind in "biuf" for v in (*inputs, *outputs)
            ):
                graph = test.model.graph
                given = dict(zip((i.name for i in graph.input), inputs, strict=False))
                expected = dict(zip((o.name for o in graph.output), outputs, strict=False))
                yield test, given, expected


_NOWHERE = "com.example.nowhere"
"""A domain of ops that no runtime has."""
_SHAPE = (2, 4)
"""Of the inputs and outputs of small models."""
_ROUNDS = 15
_MAX_GROWTH = 96 << 20
"""Bytes that compiling, running and dropping a small model ``_ROUNDS`` times may leave behind."""
_MAX_BROKEN = 0.1
"""Share of the cases, to those that pass, that may fail to compile or run although their ops were taken."""
_SHOWN = 8
"""Failed cases that are named."""


@dataclass(frozen=True)
class Finding:
    """The result of one check on one device."""

    device: str
    check: str
    ok: bool
    text: str
    """What was seen, or what is wrong."""


class Wrong(Exception):
    """A check failed; the message says what was expected."""


def check_runtime(
    name: str, cases: int | None = None, report: Callable[[str], None] | None = None
) -> Iterator[Finding]:
    """Checks every device of a runtime; findings in the order of the checks.

    Args:
        name: of the runtime, as in ``backendName``.
        cases: most backend cases to run; None for all.
        report: told what is being checked.

    Raises:
        ExecutionError: there is no such runtime.
    """
    runtime = runtime_of(name)
    if runtime.api_version != API_VERSION:
        yield Finding(
            "",
            "version",
            False,
            f"api_version is {runtime.api_version}, this editor has {API_VERSION}",
        )
        return
    available = devices_of(runtime)
    if not available:
        yield Finding("", "devices", False, "devices() lists none; is the library installed?")
    with tempfile.TemporaryDirectory(prefix="hetero-adapter-") as folder:
        for entry in available:
            try:
                device = load_devices([{"name": entry.name, "backendName": entry.name}])[0]
            except EditorError as error:
                yield Finding(
                    entry.name, "devices", False, f"resolve() does not know its own name: {error}"
                )
                continue
            if device.runtime != name or device.planned:
                given = (
                    f"resolve() gives {device.runtime or 'no runtime'}, present: {device.present}"
                )
                yield Finding(entry.name, "devices", False, given)
                continue
            yield Finding(entry.name, "devices", True, f"{entry.description} [{entry.details}]")
            for title, check in _Checks(device, Path(folder), cases).all():
                if report:
                    report(f"{entry.name}: {title}")
                yield _finding(entry.name, title, check)


def _finding(device: str, title: str, check: Callable[[], str]) -> Finding:
    try:
        return Finding(device, title, True, check())
    except (Wrong, EditorError) as error:
        return Finding(device, title, False, str(error))
    except Exception as error:  # noqa: BLE001  # an adapter may raise anything; that is what is looked for
        return Finding(
            device, title, False, f"{type(error).__name__} instead of an EditorError: {error}"
        )


class _Checks:
    def __init__(self, device: Device, folder: Path, cases: int | None) -> None:
        self.device, self.folder, self.cases = device, folder, cases
        self.runtime = runtime_of(device.runtime)
        self._graph: Graph | None = None

    def all(self) -> list[tuple[str, Callable[[], str]]]:
        """The checks by title."""
        return [
            ("capability", self.refuses_unknown_ops),
            ("results", self.computes_a_small_net),
            ("clones", self.clones_are_independent),
            ("threads", self.threads_do_not_change_results),
            ("values", self.values_of_others_are_taken),
            ("errors", self.errors_are_execution_errors),
            ("memory", self.memory_is_given_back),
            ("split", self.a_split_computes_the_same),
            ("exactness", self.backend_cases_are_exact),
        ]

    def _net(self) -> Graph:
        """A small net of the first few ops that the device takes, among common ones."""
        if self._graph is None:
            kinds = ("Relu", "Abs", "Neg", "Exp", "Sigmoid", "Tanh")
            able = [kind for kind in kinds if self._takes(kind)]
            if len(able) < 2:
                raise Wrong(
                    f"the device takes none or one of {', '.join(kinds)}; the other checks need two"
                )
            nodes = [
                helper.make_node(kind, [f"t{i}"], [f"t{i + 1}"], f"op{i}")
                for i, kind in enumerate(able[:4])
            ]
            self._graph = self._load("net", nodes, f"t{len(nodes)}")
        return self._graph

    def _takes(self, kind: str) -> bool:
        graph = self._load(kind, [helper.make_node(kind, ["t0"], ["t1"])], "t1")
        return bool(capability(graph, self.device).mask.all())

    def _load(
        self, name: str, nodes: Sequence[NodeProto], output: str, opsets: Sequence[Any] = ()
    ) -> Graph:
        path = self.folder / f"{name}.onnx"
        onnx.save(small_model(nodes, _SHAPE, ("t0", output), opsets), path)
        return load_model(path)

    def _compile(self, options: CompileOptions | None = None) -> tuple[Executable, SubModel]:
        model = onnx.load(self._net().path)
        submodel = SubModel(
            model, ("t0",), (model.graph.output[0].name,), self.folder, "a small net"
        )
        return self.runtime.compile(submodel, self.device, options or CompileOptions()), submodel

    def _expected(self, x: Any) -> Any:
        cpu = load_devices("HETERO:CPU")[0]
        return next(iter(compile_whole(self._net(), cpu).run({"t0": x}).values()))

    def refuses_unknown_ops(self) -> str:
        """An op of an unknown domain is refused with a reason, and every refusal has one."""
        nodes = [
            helper.make_node("NoSuchOp", ["t0"], ["t1"], domain=_NOWHERE),
            helper.make_node("Relu", ["t1"], ["t2"]),
        ]
        graph = self._load("unknown", nodes, "t2", [helper.make_opsetid(_NOWHERE, 1)])
        answer = capability(graph, self.device)
        if answer.mask[0]:
            raise Wrong("an op of an unknown domain is claimed")
        if any(
            bool(reason) == bool(able)
            for reason, able in zip(answer.reasons, answer.mask.tolist(), strict=True)
        ):
            raise Wrong("an op that is refused has no reason, or one that is taken has")
        return f"refused: {answer.reasons[0]}"

    def computes_a_small_net(self) -> str:
        """Results are those of ONNX Runtime, in every run."""
        compiled, x = compile_whole(self._net(), self.device), _values(0)
        for seed in range(3):
            x = _values(seed)
            _compare(self._expected(x), next(iter(compiled.run({"t0": x}).values())), f"run {seed}")
        return f"{len(self._net())} ops, 3 runs"

    def clones_are_independent(self) -> str:
        """Instances in two threads do not write into each other's results."""
        first, _ = self._compile()
        second = first.clone()
        expected = [self._expected(_values(seed)) for seed in range(2)]

        def work(executable: Executable, seed: int) -> None:
            for _ in range(_ROUNDS):
                _compare(
                    expected[seed], to_numpy(executable.run([_values(seed)])[0]), f"clone {seed}"
                )

        with ThreadPoolExecutor(2) as pool:
            for job in [pool.submit(work, first, 0), pool.submit(work, second, 1)]:
                job.result()
        held = first.run([_values(0)])[0]
        second.run([_values(1)])
        _compare(expected[0], to_numpy(held), "a result after a run of the clone")
        return f"2 threads, {_ROUNDS} runs each"

    def threads_do_not_change_results(self) -> str:
        """The number of threads is a setting of speed."""
        for threads in (1, 2):
            executable, _ = self._compile(CompileOptions(threads))
            _compare(
                self._expected(_values(0)),
                to_numpy(executable.run([_values(0)])[0]),
                f"{threads} threads",
            )
        return "1 and 2"

    def values_of_others_are_taken(self) -> str:
        """Arrays that are not contiguous, not writable, and values of ONNX Runtime."""
        executable, _ = self._compile()
        wide = np.zeros((2, 8), np.float32)
        wide[:, ::2] = _values(0)
        frozen = _values(0)
        frozen.flags.writeable = False
        given = {
            "a view": wide[:, ::2],
            "a read-only array": frozen,
            "converted": convert(_values(0), self.device),
        }
        for name, value in given.items():
            _compare(self._expected(_values(0)), to_numpy(executable.run([value])[0]), name)
        return "views, read-only arrays, converted values"

    def errors_are_execution_errors(self) -> str:
        """What cannot be compiled or run raises ``ExecutionError`` with the name of the sub-model."""
        node = helper.make_node("NoSuchOp", ["t0"], ["t1"], "op0", domain=_NOWHERE)
        model = small_model([node], _SHAPE, ("t0", "t1"), [helper.make_opsetid(_NOWHERE, 1)])
        submodel = SubModel(model, ("t0",), ("t1",), self.folder, "subgraph 7")
        try:
            self.runtime.compile(submodel, self.device, CompileOptions()).run([_values(0)])
        except ExecutionError as error:
            if "subgraph 7" not in str(error):
                raise Wrong(f"the message does not say {submodel.label!r}: {error}") from None
            return str(error)
        raise Wrong("an op that no runtime has was compiled and run")

    def memory_is_given_back(self) -> str:
        """Compiling, running and dropping a model again and again does not fill the memory."""
        before = 0
        for i in range(_ROUNDS + 5):
            if i == 5:
                gc.collect()
                before = operating_system.memory_of(os.getpid())
            executable, _ = self._compile()
            executable.run([_values(0)])
            del executable
        gc.collect()
        growth = operating_system.memory_of(os.getpid()) - before
        if growth > _MAX_GROWTH:
            raise Wrong(f"{growth >> 20} MiB are left after {_ROUNDS} small models")
        return f"{max(growth, 0) >> 20} MiB after {_ROUNDS} models"

    def a_split_computes_the_same(self) -> str:
        """Values cross between this device and ONNX Runtime on the CPU, in both directions."""
        from editor.execution.executor import compile_placement

        graph = self._net()
        cpu = replace(
            load_devices("HETERO:CPU")[0], name="the CPU" if self.device.name == "CPU" else "CPU"
        )
        pins = {key: (self.device, cpu)[i % 2].name for i, key in enumerate(graph.op_keys)}
        placement = solve(graph, [self.device, cpu], Settings(pins=pins))
        compiled = compile_placement(placement, as_cut=True)
        for seed in range(2):
            _compare(
                self._expected(_values(seed)),
                next(iter(compiled.run({"t0": _values(seed)}).values())),
                "a split",
            )
        return pluralize(len(placement.subgraphs), "subgraph")

    def backend_cases_are_exact(self) -> str:
        """The cases of the ONNX package whose ops the device takes come out as ONNX says.

        A few that cannot be compiled although each op was taken by itself are named, and no failure.
        """
        passed, refused, failed, broken = 0, 0, list[str](), list[str]()
        for case, given, expected in backend_cases(self.cases):
            try:
                wrong = self._run_case(case, given, expected)
            except EditorError as error:
                broken.append(f"{case.name}: {' '.join(str(error).split())[:160]}")
                continue
            passed, refused = passed + (wrong == ""), refused + (wrong is None)
            if wrong:
                failed.append(f"{case.name}: {wrong}")
        text = f"{passed} cases pass, {refused} are refused"
        if broken:
            text += f", {len(broken)} are not compiled or run although their ops were taken: {_named(broken)}"
        if failed or not passed or len(broken) > _MAX_BROKEN * passed:
            raise Wrong(f"{text}, {len(failed)} are wrong: {_named(failed)}" if failed else text)
        return text

    def _run_case(
        self, case: Any, given: Mapping[str, Any], outputs: Mapping[str, Any]
    ) -> str | None:
        """ "" where the case passes, None where the device refuses it, else what is wrong.

        Raises:
            ExecutionError: it is not compiled, or fails while it runs.
        """
        path = self.folder / "case.onnx"
        path.write_bytes(case.model.SerializeToString())
        try:
            graph = load_model(path)
            if graph.unbound or not capability(graph, self.device).mask.all():
                return None
        except EditorError:
            return None
        results = compile_whole(graph, self.device).run(given)
        try:
            for (name, expected), actual in zip(outputs.items(), results.values(), strict=True):
                np.testing.assert_allclose(
                    np.asarray(actual, np.float64),
                    np.asarray(expected, np.float64),
                    rtol=max(case.rtol, 1e-3),
                    atol=max(case.atol, 1e-5),
                    err_msg=name,
                )
        except (AssertionError, TypeError, ValueError) as error:
            return " ".join(str(error).split())[:160]
        return ""


def _named(cases: Sequence[str]) -> str:
    return "; ".join(cases[:_SHOWN]) + ("; ..." if len(cases) > _SHOWN else "")


def _values(seed: int) -> Any:
    return np.random.default_rng(seed).uniform(-2, 2, _SHAPE).astype(np.float32)


def _compare(expected: Any, actual: Any, what: str) -> None:
    actual = np.asarray(actual)
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        raise Wrong(
            f"{what}: {actual.dtype} {list(actual.shape)} instead of {expected.dtype} {list(expected.shape)}"
        )
    if not np.allclose(actual, expected, rtol=1e-3, atol=1e-5):
        raise Wrong(
            f"{what}: differs from ONNX Runtime by up to {float(np.max(np.abs(actual - expected))):.2g}"
        )
