"""Public functions of the package answer odd values with an ``EditorError``, not with what an inner line happens to raise."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import write_dag

import editor
from editor.errors import EditorError
from editor.workspace.plan import Plan

ODD: dict[str, Any] = {
    "None": None,
    "5": 5,
    "-1": -1,
    "nan": float("nan"),
    "inf": float("inf"),
    "''": "",
    "x": "x",
    "NUL": "\0",
    "surrogate": "\ud800",
    "[]": [],
    "{}": {},
    "object": object(),
    "True": True,
    "bytes": b"x",
    "[None]": [None],
    "[5]": [5],
    "{5: 5}": {5: 5},
    "{'x': None}": {"x": None},
    "{'x': 5}": {"x": 5},
    "{'t0': 5}": {"t0": 5},
    "{'t0': 'x'}": {"t0": "x"},
    "{'t0': []}": {"t0": []},
    "{'to': 5}": [{"to": 5}],
    "[{}]": [{}],
    "[[]]": [[]],
    "set": {"x"},
    "array": np.zeros(3),
    "function": len,
    "type": int,
    "1e400": 10**400,
    "tuple": ("x", 5),
}


def calls(plan: Plan, out: Path) -> dict[str, Callable[[Any], object]]:
    """Each public function with one argument to put an odd value in."""
    g, x, named = plan.graph, {"x": np.zeros(4, np.float32)}, "HETERO:CPU"
    compiled = plan.compile()
    return {
        "load_model(v)": editor.load_model,
        "load_model(define=v)": lambda v: editor.load_model(g.path, v),
        "load_model(define={n: v})": lambda v: editor.load_model(g.path, {"n": v}),
        "load_devices(v)": editor.load_devices,
        "load_plan(v)": editor.load_plan,
        "load_devices([{name: v}])": lambda v: editor.load_devices([{"name": v}]),
        "load_devices([{backendName: v}])": lambda v: editor.load_devices(
            [{"name": "a", "backendName": v}]
        ),
        "partition(v)": lambda v: editor.partition(v, named),
        "partition(devices)": lambda v: editor.partition(g, v),
        **{
            f"partition({name})": lambda v, name=name: editor.partition(g, named, **{name: v})
            for name in (
                "policy",
                "pins",
                "rules",
                "subgraphs",
                "policy_options",
                "forced",
                "capabilities",
            )
        },
        **{
            f"partition(policy_options={{{name}}})": lambda v, name=name, policy=policy: (
                editor.partition(g, "HETERO:CPU,NPU", policy, policy_options={name: v})
            )
            for name in ("search", "objective", "costs", "codegen", "odd")
            for policy in ("optimal", "memory")
        },
        "partition(pins={t0: v})": lambda v: editor.partition(g, named, pins={"t0": v}),
        "partition(rules=[{type: v}])": lambda v: editor.partition(
            g, named, rules=[{"type": v, "to": "CPU"}]
        ),
        "partition(rules=[{to: v}])": lambda v: editor.partition(
            g, named, rules=[{"type": "Neg", "to": v}]
        ),
        "why": plan.why,
        "repin": plan.repin,
        "repin({t0: v})": lambda v: plan.repin({"t0": v}),
        "repin({v: CPU})": lambda v: plan.repin({v: "CPU"}),
        "repin(force)": lambda v: plan.repin({}, v),
        "import_affinities": plan.import_affinities,
        "import_profile": plan.import_profile,
        **{
            f"import_profile({name})": lambda v, name=name: plan.import_profile(
                out / "times.csv", **{name: v}
            )
            for name in ("device", "machine", "day")
        },
        "compile(threads)": plan.compile,
        "compile(requests)": lambda v: plan.compile(requests=v),
        "run": plan.run,
        "run({x: v})": lambda v: plan.run({"x": v}),
        "run({v: x})": lambda v: plan.run({v: x["x"]}),
        **{
            f"benchmark({name})": lambda v, name=name: plan.benchmark(**{"seconds": 0.05, name: v})
            for name in ("seconds", "mode", "requests", "threads", "inputs")
        },
        "benchmark(requests, throughput)": lambda v: plan.benchmark(0.05, "throughput", v),
        "export": lambda v: plan.export(v, out),
        "export(out_dir)": lambda v: plan.export("csv", inside(out, v)),
        **{
            f"export({form}, {name})": lambda v, form=form, name=name: plan.export(
                form, out, **{name: v}
            )
            for form, name in (
                ("dot", "dag"),
                ("dot", "colour_by"),
                ("log", "sidecar"),
                ("onnxruntime", "assignment"),
                ("onnxruntime", "budget"),
                ("html", "compare"),
                ("html", "measured"),
                ("md", "measured"),
                ("json", "measured"),
                ("csv", "odd"),
            )
        },
        "write_kit": lambda v: plan.write_kit(inside(out, v)),
        "write_kit(device)": lambda v: plan.write_kit(out / "kit", v),
        "write_kit(runtime)": lambda v: plan.write_kit(out / "kit", "CPU", v),
        "save": lambda v: plan.save(inside(out, v)),
        "to_json": lambda v: plan.to_json(inside(out, v)),
        "at_sizes": plan.at_sizes,
        "at_sizes({n: v})": lambda v: plan.at_sizes({"n": v}),
        "at_sizes([{n: v}])": lambda v: plan.at_sizes([{"n": v}]),
        "Plan": editor.Plan,
        "compiled.run": compiled.run,
        "compiled.run({x: v})": lambda v: compiled.run({"x": v}),
        "compiled.run_timed": compiled.run_timed,
        "compiled.run_timed({x: v})": lambda v: compiled.run_timed({"x": v}),
        "compiled.capture": lambda v: compiled.capture(v, ["t0"]),
        "compiled.capture(names)": lambda v: compiled.capture(x, v),
    }


def inside(out: Path, value: Any) -> Any:
    """Text as a path below a folder of the test; other values as they are."""
    return f"{out}/{value}" if isinstance(value, str) else value


def problems(plan: Plan, out: Path) -> Iterator[str]:
    for name, call in calls(plan, out).items():
        for shown, value in ODD.items():
            if "{v:" in name and type(value).__hash__ is None:
                continue  # Python itself makes no such mapping
            try:
                call(value)
            except EditorError as error:
                if not str(error).strip():
                    yield f"{name} with {shown}: an error without a message"
            except Exception as error:  # noqa: BLE001  # what the test is about
                yield f"{name} with {shown}: {type(error).__name__}: {error}"


def test_odd_values_are_refused_or_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "times.csv").write_text("op,microseconds\nt0,5\nt1,6\n")
    plan = editor.partition(write_dag(tmp_path / "m.onnx", [[], [0], [0, 1]]), "HETERO:CPU,NPU")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert list(problems(plan, tmp_path)) == []


def test_an_empty_table_and_inputs_that_are_missing(tmp_path: Path) -> None:
    graph = editor.load_model(write_dag(tmp_path / "m.onnx", [[], [0]]))
    with pytest.raises(EditorError, match="no devices"):
        editor.partition(graph, [])
    plan = editor.partition(graph, "HETERO:CPU")
    with pytest.raises(EditorError, match="missing: x"):
        plan.run({})
    with pytest.raises(EditorError, match="mapping"):
        plan.run(None)  # type: ignore[arg-type]
    assert isinstance(plan.pins, Mapping)
