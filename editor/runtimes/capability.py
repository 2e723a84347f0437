"""Asks runtimes which ops a device can run, tries what they claim in a process of its own, and keeps the answers.

A claim does not prove that an op runs: ONNX Runtime assigns ops to providers that fail on their first run, OpenVINO
imports ops that it computes wrongly. So every op that is not too large runs once on values that ONNX Runtime's CPU provider
accepts; what it computes is the measure.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, helper

from editor import limits
from editor.custom_ops import stamps
from editor.devices.device import Device
from editor.devices.discovery import devices_of, sources
from editor.errors import ExecutionError, ModelError
from editor.files import cache_folder, file_state, keep_json, kept_json
from editor.graph.attributes import bodies_of
from editor.graph.external_data import load_external_data
from editor.graph.flops import op_bytes, op_flops
from editor.graph.graph import Graph
from editor.graph.model_file import read_again
from editor.runtimes.base import Capability, CompileOptions, SubModel
from editor.runtimes.op_models import (
    MAX_IR_VERSION,
    Group,
    ProbeModels,
    ask,
    failures,
)
from editor.runtimes.protocols import Runtime
from editor.runtimes.trial_values import (
    ALL_BITS,
    KEPT_BITS,
    has_lengths,
    is_random,
    makes_another_of_nan,
    narrowed_kind,
    odd_inputs,
    trial_inputs,
    wrong_output,
)
from editor.runtimes.values import to_numpy
from editor.sandbox.worker import IsolatedProcess, ProcessEndedError
from editor.version import VERSION

_FIRST_BATCH, _LARGEST_BATCH = 4, 24
"""Ops that are compiled and run together; how many after the first follows from the time that these took."""
_FIRST_FLOPS = 2e7
"""Largest op that is run before it is known how fast the device is: drivers in software may be a thousand times slower."""
_SLOW = 0.5
"""Seconds of a batch from which on the slowest pace counts, and not the last."""
_UNSTABLE = frozenset({"NonMaxSuppression", "Unique", "Dropout", "Multinomial", "Bernoulli"})
"""Ops whose results may differ between correct runtimes, beside those that ONNX calls random."""


@dataclass(frozen=True)
class Fragment:
    """One op with its operands, as a model of its own."""

    model: bytes
    may_run: bool
    """Whether it is small enough to run."""
    flops: float = 0.0
    """Estimated work of a run."""
    is_kept: bool = False
    """Whether the graph shows that no whole number of it, and no float64, is one that a device may narrow."""


@dataclass(frozen=True)
class OpCheck:
    """The answer about one op on one device."""

    reason: str
    """"" where the device can run it, as far as is known"""
    final: bool = True
    """False where there was no time to ask."""
    remark: str = ""
    """What it makes of NaN and infinities, where that is another than elsewhere"""


class Refused(Exception):
    """A runtime refuses a model; the message is the reason."""


def judge(device: Device, fragments: Sequence[Fragment], seconds: float) -> list[OpCheck]:
    """[fragment] what came of it.

    Args:
        device: a real device.
        fragments: ops with names that are unique among them.
        seconds: after which no further ops are run; of those the claim is believed.

    Raises:
        ExecutionError: there is no such runtime in this process.
    """
    from editor.runtimes.registry import runtime_of  # which imports the runtimes, and they this

    runtime = runtime_of(device.runtime)
    models = [ModelProto.FromString(fragment.model) for fragment in fragments]
    claims = _claims(models, runtime, device)
    verdicts = [OpCheck(reason) for reason in claims]
    able = [i for i, fragment in enumerate(fragments) if not claims[i] and fragment.may_run]
    pace = _Pace(seconds)

    def urgency(i: int) -> tuple[bool, float]:
        """Small ops first, and of these the ones whose claims are wrong most often."""
        flops = fragments[i].flops
        return flops > _FIRST_FLOPS or not has_lengths(models[i]), flops

    for batch in pace.batches(sorted(able, key=urgency), [f.flops for f in fragments]):
        bits = [KEPT_BITS if fragments[i].is_kept else ALL_BITS for i in batch]
        found = _try([models[i] for i in batch], runtime, device, bits)
        for i, check in zip(batch, found, strict=True):
            verdicts[i] = check
        wrong = [i for i in batch if _WRONGLY in verdicts[i].reason and not fragments[i].is_kept]
        for i, reason in zip(
            wrong, _how_far([models[i] for i in wrong], runtime, device), strict=True
        ):
            verdicts[i] = OpCheck(reason or verdicts[i].reason)
    return verdicts


def _how_far(models: Sequence[ModelProto], runtime: Runtime, device: Device) -> list[str]:
    """[model] how its op is narrowed, where a device that is wrong on all values is right on smaller ones; else ""."""
    reasons = [""] * len(models)
    for bits, meaning in (
        (24, "through float32: {op} is right only for whole numbers up to 2^24"),
        (31, "as a narrower type: {op} is right only for whole numbers below 2^31"),
    ):
        which = [i for i, model in enumerate(models) if narrowed_kind(model)]
        found = _try([models[i] for i in which], runtime, device, [bits] * len(which))
        for i, check in zip(which, found, strict=True):
            kind, op = narrowed_kind(models[i]), models[i].graph.node[-1].op_type
            if check.reason:
                continue
            how = (
                f"as float32: {op} is right only to 7 digits"
                if kind == "float64"
                else meaning.format(op=op)
            )
            reasons[i] = f"{device.title} computes {kind} {how}"
    return reasons


class _Pace:
    """Chooses what is run next so that the time suffices, by what was run before: small ops first."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def batches(self, order: Sequence[int], flops: Sequence[float]) -> Iterator[list[int]]:
        """Yields what to run now, as long as there is time for more.

        Args:
            order: fragments, the smallest first.
            flops: [fragment] its work.
        """
        count, per_flop, start = _FIRST_BATCH, 0.0, 0
        while start < len(order) and time.monotonic() < self._end:
            left = self._end - time.monotonic()
            most = max(left / per_flop, _FIRST_FLOPS) if per_flop else _FIRST_FLOPS
            batch: list[int] = []
            for i in order[start : start + count]:
                if sum(flops[j] for j in batch) + flops[i] > most:
                    break
                batch.append(i)
            if not batch:  # all that follow are larger
                return
            begin = time.monotonic()
            yield batch
            spent = time.monotonic() - begin
            start += len(batch)
            work = sum(flops[i] for i in batch)
            if work > _FIRST_FLOPS / 100:  # less says more about compiling than about running
                per_flop = max(per_flop, spent / work) if spent > _SLOW else spent / work
            each = spent / len(batch)
            count = (
                int(min(max((self._end - time.monotonic()) / 2 / each, 1), _LARGEST_BATCH))
                if each
                else _LARGEST_BATCH
            )


def _claims(models: Sequence[ModelProto], runtime: Runtime, device: Device) -> list[str]:
    """[model] what the runtime says against it, or ""."""
    named = runtime.refusals(merged(models), device) if models else {}
    if isinstance(named, Mapping) and set(named) <= {model.graph.node[-1].name for model in models}:
        return [named.get(model.graph.node[-1].name, "") for model in models]

    def check(indices: Sequence[int]) -> None:
        reason = runtime.refusal(merged([models[i] for i in indices]), device)
        if reason:
            raise Refused(reason)

    refused = _failures(range(len(models)), check)
    return [refused.get(i, "") for i in range(len(models))]


def _try(
    models: Sequence[ModelProto], runtime: Runtime, device: Device, bits: Sequence[int]
) -> list[OpCheck]:
    """[model] why the device does not compute what it should, or "", and what it makes of NaN."""
    feeds = [trial_inputs(model, wide) for model, wide in zip(models, bits, strict=True)]
    odd = [feed and odd_inputs(model, feed) for model, feed in zip(models, feeds, strict=True)]
    expected: dict[int, Mapping[str, Any]] = {}
    expected_of_odd: dict[int, Mapping[str, Any]] = {}

    def together(indices: Sequence[int]) -> tuple[ModelProto, list[dict[str, Any]]]:
        """One model of several, with their inputs; and with odd ones, if any of them has such."""
        usual = {k: v for i in indices for k, v in (feeds[i] or {}).items()}
        rare = {k: v for i in indices for k, v in (odd[i] or feeds[i] or {}).items()}
        runs = [usual, rare] if any(odd[i] for i in indices) else [usual]
        return merged([models[i] for i in indices]), runs

    def results_of(i: int, values: Mapping[str, Any]) -> dict[str, Any]:
        return {output.name: values[output.name] for output in models[i].graph.output}

    def reference(indices: Sequence[int]) -> None:
        from editor.runtimes.onnxruntime.options import run_once

        model, runs = together(indices)
        found = [run_once(model, run) for run in runs]
        for i in indices:
            expected[i] = results_of(i, found[0])
            if odd[i]:
                expected_of_odd[i] = results_of(i, found[1])

    # An op that ONNX Runtime does not run on these values says nothing about the device, unless they are the right ones.
    unknown = _failures([i for i, feed in enumerate(feeds) if feed is not None], reference)
    checks = [OpCheck("")] * len(models)
    for i, reason in unknown.items():
        if has_lengths(models[i]):
            cause = reason.rpartition("Status Message: ")[2]
            checks[i] = OpCheck(f"not tried, for ONNX Runtime refuses these sizes: {cause}")

    def run(indices: Sequence[int]) -> None:
        model, runs = together(indices)
        found = _run(model, runs, runtime, device)
        for i in indices:
            reason = _difference(models[i], expected[i], found[0], runtime, device, bits[i])
            remark = _remark(models[i], expected_of_odd.get(i), found[1:], device)
            checks[i] = OpCheck(reason, remark="" if reason else remark)

    for i, reason in _failures(sorted(expected), run).items():
        checks[i] = OpCheck(reason)
    return checks


def _run(
    model: ModelProto, runs: Sequence[Mapping[str, Any]], runtime: Runtime, device: Device
) -> list[dict[str, Any]]:
    """[run] outputs of a model by name."""
    inputs = tuple(value.name for value in model.graph.input)
    outputs = tuple(value.name for value in model.graph.output)
    submodel = SubModel(model, inputs, outputs, Path(), "this op")
    found = []
    try:
        executable = runtime.compile(submodel, device, CompileOptions())
        for feeds in runs:
            results = executable.run([feeds[name] for name in inputs])
            # Outputs may be the memory of the device, which the next run writes to.
            values = [to_numpy(value) for value in results]
            found.append(
                {
                    name: value.copy() if isinstance(value, np.ndarray) else value
                    for name, value in zip(outputs, values, strict=True)
                }
            )
        return found
    except ExecutionError as error:
        raise Refused(
            f"it failed when it was tried: {str(error).removeprefix(f'this op on {device.name}: ')}"
        ) from error


_WRONGLY = "wrongly"


def _difference(
    model: ModelProto,
    expected: Mapping[str, Any],
    actual: Mapping[str, Any],
    runtime: Runtime,
    device: Device,
    bits: int,
) -> str:
    """Returns the fault of the outputs of an op, or ""."""
    node = model.graph.node[-1]
    if node.op_type in _UNSTABLE or bodies_of(node) or is_random(node):
        return ""
    for name, value in expected.items():
        if node.op_type == "TopK" and name != node.output[0]:  # which of equal values is first
            continue
        wrong = wrong_output(value, actual[name], runtime.precision(device), node.op_type, bits)
        if wrong:
            return f"{device.title} computes {node.op_type} {_WRONGLY}: {wrong} (compared with ONNX Runtime on the CPU)"
    return ""


def _remark(
    model: ModelProto,
    expected: Mapping[str, Any] | None,
    found: Sequence[Mapping[str, Any]],
    device: Device,
) -> str:
    """Returns what the device makes of NaN and infinities, or "" where it is what ONNX Runtime makes of them."""
    if expected is None or not found:
        return ""
    wrong = makes_another_of_nan(list(expected.values()), [found[0][output] for output in expected])
    return f"{device.title} {wrong} in {model.graph.node[-1].op_type}" if wrong else ""


def _failures(indices: Sequence[int], check: Callable[[Sequence[int]], None]) -> dict[int, str]:
    """Index -> reason, of those for which a check raises an error; they are checked together as far as they pass."""

    def reason_of(subset: Sequence[int]) -> str:
        try:
            check(subset)
        except Refused as error:
            return str(error)
        except Exception as error:  # noqa: BLE001  # runtimes raise whatever they like
            return f"{type(error).__name__}: {error}"
        return ""

    return dict(failures(indices, reason_of))


def merged(models: Sequence[ModelProto]) -> ModelProto:
    """One model with the nodes of several whose names differ; what has the same name is there once."""
    graph = GraphProto(name="probe")
    seen: set[str] = set()

    def is_new(name: str) -> bool:
        return name not in seen and not seen.add(name)  # type: ignore[func-returns-value]

    for model in models:
        graph.initializer.extend(t for t in model.graph.initializer if is_new(f"value {t.name}"))
        graph.input.extend(v for v in model.graph.input if is_new(f"value {v.name}"))
        graph.node.extend(n for n in model.graph.node if is_new(f"node {n.name or n.output[0]}"))
        graph.output.extend(model.graph.output)
    result = helper.make_model(
        graph, opset_imports=list(models[0].opset_import), ir_version=models[0].ir_version
    )
    result.functions.extend(models[0].functions)
    return result


_FORMAT = 7
"""Raise it when ops are tried in another way: earlier answers are then asked for again."""
_MAX_ANSWERS = 20_000
_MAX_FILE_BYTES = 32 << 20
_CRASH_KEPT = 86_400.0
"""Seconds."""
_MAY_PASS = ("when it was tried",)
"""In reasons that may not hold tomorrow."""
_DRIVER_SETTINGS = ("VK_", "LD_", "ORT_", "CUDA_", "NVIDIA_", "QNN_", "OPENVINO_")

_open: dict[Path, Answers] = {}


class Answers:
    """Answers of one device."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stored = _read(path)

    @classmethod
    def of(cls, device: Device) -> Answers:
        """Of a real device; read once per process."""
        hardware = [
            (d.version, d.hardware)
            for source in sources()
            if source.name == device.runtime
            for d in devices_of(source)
            if d.provider == device.provider and str(d.index) == (device.index or "0")
        ]
        environment = sorted(
            (n, v) for n, v in os.environ.items() if n.startswith(_DRIVER_SETTINGS)
        )
        libraries = stamps(device.custom_ops)
        identity = repr((_FORMAT, VERSION, device.settings, libraries, hardware, environment))
        path = (
            cache_folder("capability")
            / f"{hashlib.sha256(identity.encode()).hexdigest()[:32]}.json"
        )
        if path not in _open:
            _open[path] = cls(path)
        return _open[path]

    def get(self, key: str) -> OpCheck | None:
        """The answer about an op; None where there is none."""
        entry = self._stored.get(key)
        return None if entry is None else OpCheck(entry[0], remark=entry[2])

    def add(self, verdicts: Mapping[str, OpCheck]) -> None:
        """Keeps answers, with those that other processes have added meanwhile."""
        now = time.time()
        self._stored = {
            **_read(self.path),
            **self._stored,
            **{key: (v.reason, now, v.remark) for key, v in verdicts.items()},
        }
        keep_json(self.path, dict(list(self._stored.items())[-_MAX_ANSWERS:]))


def _read(path: Path) -> dict[str, tuple[str, float, str]]:
    now, stored = time.time(), kept_json(path, _MAX_FILE_BYTES)
    try:
        return {
            str(key): (str(reason), float(when), str(remark))
            for key, (reason, when, remark) in stored.items()
            if not any(words in reason for words in _MAY_PASS) or 0 <= now - when < _CRASH_KEPT
        }
    except (ValueError, TypeError, AttributeError):
        return {}


_PREFIX = "op"
_MOST_BYTES = 1 << 30


def whole_model(graph: Graph) -> bytes:
    """The model with its weights, its sizes as they were chosen, and nodes named by the number of their op.

    Raises:
        ModelError: it is too large for a copy in memory, or its weights cannot be read.
    """
    model = read_again(graph)  # which refuses weights in files outside the folder of the model
    constants = int(graph.tensor_bytes[graph.tensor_is_constant].clip(min=0).sum())
    if max(constants, model.ByteSize()) > _MOST_BYTES:
        raise ModelError(f"{graph.path.name} is too large for that")
    load_external_data(model, graph.folder)
    for op, node in enumerate(model.graph.node):
        node.name = f"{_PREFIX}{op}"
    for value in model.graph.input:
        shape = (
            graph.tensor_shapes[graph.tensor_index[value.name]]
            if value.name in graph.tensor_index
            else None
        )
        for dim, size in zip(value.type.tensor_type.shape.dim, shape or (), strict=False):
            if isinstance(size, int):
                dim.dim_value = size
    model.ir_version = min(model.ir_version, MAX_IR_VERSION)
    data: bytes = model.SerializeToString(deterministic=True)
    return data


def refusals_of_whole(device: Device, model: bytes) -> dict[str, str] | str:
    """Op, as text -> why the device leaves it to others; or why it cannot be given the model at all."""
    from editor.runtimes.registry import runtime_of  # which imports the runtimes, and they this

    runtime, whole = runtime_of(device.runtime), ModelProto.FromString(model)
    found = runtime.refusals(whole, device)
    if found is None:
        found = runtime.refusal(whole, device) or f"{device.title} does not say which ops it takes"
    if isinstance(found, str):
        return found
    return {
        name.removeprefix(_PREFIX): reason
        for name, reason in found.items()
        if name.removeprefix(_PREFIX).isdigit()
    }


TRY_SECONDS = 1.5
"""To run ops, per model and device; of the rest the runtime's claim is believed."""
_ANSWER_SECONDS = 12.0
"""Until a process that tries many ops counts as hung."""
_SINGLE_SECONDS = 5.0
_ALL_SECONDS = 20.0
"""For one device of a model, crashes included."""
_SHARE_FOR_WHOLE = 0.6
"""Of the limit of time, for a device that is asked about the whole model at once; it has to compile all of it."""
_MAX_FLOPS = 1e9
_MAX_BYTES = 32 << 20
_MAX_OPERANDS = 256
"""Largest op that is run; of larger ones the runtime's claim is believed."""

_lock = threading.Lock()
_process: IsolatedProcess | None = None
_report: list[Callable[[str], None]] = []


def on_asking(report: Callable[[str], None]) -> None:
    """From now on ``report`` is told who is asked, before a device is asked about ops that it has not been asked about."""
    _report[:] = [report]


def capability_of(graph: Graph, runtime: Runtime, device: Device) -> Capability:
    """The ops of a graph that a device can run.

    Raises:
        ExecutionError: the runtime is not installed.
    """
    if not runtime.is_tried(device):
        return Capability.of_reasons(ask(graph, lambda model: runtime.refusal(model, device)))
    probe = ProbeModels.of(graph)
    reasons, groups = probe.sound_groups(any_rank=False)
    answers = Answers.of(device)
    if runtime.depends_on_neighbours(device):
        whole = _as_a_whole(graph, device, answers)
        return Capability.of_reasons(
            [
                own or (whole if isinstance(whole, str) else whole.get(op, ""))
                for op, own in enumerate(reasons)
            ]
        )
    keys = [probe.key(group.example) for group in groups]
    verdicts = [answers.get(key) for key in keys]
    open_groups = [i for i, verdict in enumerate(verdicts) if verdict is None]
    if open_groups:
        if _report:
            _report[0](
                f"asking {device.name} ({device.title}) about {len(open_groups)} kinds of ops"
            )
        try:
            with _lock:
                found = _Trial(graph, device).verdicts(probe, [groups[i] for i in open_groups])
        except (
            ExecutionError
        ):  # another package's, which this process knows and a fresh one does not
            return Capability.of_reasons(ask(graph, lambda model: runtime.refusal(model, device)))
        if not runtime.memory_space(
            device
        ).is_host:  # the process would keep some of the memory of the device
            _isolated(0).close()
        for i, verdict in zip(open_groups, found, strict=True):
            verdicts[i] = verdict
        answers.add(
            {
                keys[i]: verdict
                for i, verdict in zip(open_groups, found, strict=True)
                if verdict.final
            }
        )
    remarks = [""] * len(graph)
    for group, known in zip(groups, verdicts, strict=True):
        for op in group.ops:
            reasons[op], remarks[op] = (known.reason, known.remark) if known else ("", "")
    return Capability.of_reasons(reasons, remarks)


def _as_a_whole(graph: Graph, device: Device, answers: Answers) -> Mapping[int, str] | str:
    """Op -> why the device leaves it to others; or why nothing is known about any op."""
    try:
        model = whole_model(graph)
    except ModelError as error:
        return f"{device.title} can be asked about whole models only: {error}"
    key = f"whole:{hashlib.sha256(model).hexdigest()[:32]}"
    known = answers.get(key)
    if known is None:
        if _report:
            _report[0](f"asking {device.name} ({device.title}) about the whole model")
        limit = limits.current()
        seconds, memory = limit.seconds * _SHARE_FOR_WHOLE, limit.bytes_for(len(model))
        try:
            with _lock:
                answer = _isolated(memory).call(seconds, refusals_of_whole, device, model)
        except (
            ExecutionError
        ):  # another package's, which this process knows and a fresh one does not
            answer = refusals_of_whole(device, model)
        except ProcessEndedError as error:
            answer = f"{device.title} {error}, with the whole model"
        known = OpCheck(json.dumps(answer))
        answers.add({key: known})
    stored = json.loads(known.reason)
    return (
        stored
        if isinstance(stored, str)
        else {int(op): str(reason) for op, reason in stored.items()}
    )


class _Trial:
    """Tries the ops of one graph on one device."""

    def __init__(self, graph: Graph, device: Device) -> None:
        self.graph, self.device = graph, device
        self.end = time.monotonic() + _ALL_SECONDS
        self.memory = limits.current().bytes_for((file_state(graph.path) or (0, 0))[1])

    def verdicts(self, probe: ProbeModels, groups: Sequence[Group]) -> list[OpCheck]:
        """[group] what came of it."""
        flops, moved = op_flops(self.graph), op_bytes(self.graph)
        constant = self.graph.op_is_constant  # these are folded before anything runs
        few = np.diff(self.graph.op_inputs.ptr) <= _MAX_OPERANDS
        small = (flops <= _MAX_FLOPS) & (moved >= 0) & (moved <= _MAX_BYTES) & few & ~constant
        fragments = [
            Fragment(
                probe.model([g.example]).SerializeToString(),
                bool(small[g.example]),
                float(flops[g.example]),
                bool(probe.kept[g.example]),
            )
            for g in groups
        ]
        try:
            return self._call(fragments, _ANSWER_SECONDS)
        except ProcessEndedError:  # one of them is at fault
            return [self._alone(fragment) for fragment in fragments]

    def _alone(self, fragment: Fragment) -> OpCheck:
        left = self.end - time.monotonic()
        if left <= 0:
            return OpCheck(
                f"{self.device.title} was not tried: other ops crashed it or made it hang",
                final=False,
            )
        try:
            return self._call([fragment], min(_SINGLE_SECONDS, left))[0]
        except ProcessEndedError as error:
            return OpCheck(f"{self.device.title} {error}")

    def _call(self, fragments: Sequence[Fragment], seconds: float) -> list[OpCheck]:
        return _isolated(self.memory).call(seconds, judge, self.device, fragments, TRY_SECONDS)


def _isolated(memory: int) -> IsolatedProcess:
    """The process that tries ops for this one; its imports take most of a second, so it is kept."""
    global _process
    if _process is None:
        _process = IsolatedProcess(memory)
    _process.memory = memory
    return _process
