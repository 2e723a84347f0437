"""Partitioned models compute what the whole model computes, on the real runtimes."""

from __future__ import annotations

import random
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from conftest import EXAMPLES, MANIFEST, ODDITIES, REAL, make_inputs, write_dag

import editor
from editor.execution.cut import Cutter
from editor.execution.executor import compile_placement, compile_whole
from editor.execution.inputs import read_inputs
from editor.execution.invented_inputs import random_inputs
from editor.execution.measure.benchmark import Benchmark
from editor.execution.measure.mismatch import compare
from editor.graph.graph import Graph
from editor.workspace.plan import Plan

UNUSUAL = {"external_is_itself.onnx", "old_opset_6.onnx", "chain_20k.onnx"}
"""Refused as unsafe; with an op that ONNX Runtime can only optimise away; 20,000 sessions."""
RUNNABLE = sorted(
    name
    for name, entry in MANIFEST.items()
    if entry["checks"].get("ort_run") == "ok" and (ODDITIES / name).exists() and name not in UNUSUAL
)


def scattered(graph: Graph, seed: int, table: list[dict[str, Any]] = REAL) -> Plan:
    """Every op on a random device that can run it, in runs of random length."""
    rng = random.Random(seed)
    free = editor.partition(graph, [*table, {"name": "fallback", "backendName": "CPU"}])
    able, pins, left, device = free.placement.constraints.able, {}, 0, 0
    for op in graph.order.tolist():
        if not left:
            device, left = rng.randrange(len(table)), rng.choice([1, 2, 5, 20])
        left -= 1
        if not graph.op_is_constant[op] and able[op, device]:
            pins[graph.op_keys[op]] = table[device]["name"]
    return free.repin(pins)


def whole(graph: Graph, inputs: dict[str, Any]) -> dict[str, Any]:
    return compile_whole(graph, editor.load_devices("HETERO:CPU")[0]).run(inputs)


def bound(path: Path, inputs: dict[str, Any]) -> Graph:
    """The model with its symbols bound to the sizes of the inputs."""
    graph = editor.load_model(path)
    define = {}
    for t in graph.inputs.tolist():
        value = inputs[graph.tensor_names[t]]
        for axis, size in enumerate(graph.tensor_shapes[t] or ()):
            if isinstance(size, str):
                define[size if size != "?" else f"{graph.tensor_names[t]}[{axis}]"] = value.shape[
                    axis
                ]
    return editor.load_model(path, define) if define else graph


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("model", ["mobilenetv2", "whisper-tiny-decoder", "resnet50"])
def test_real_networks_split_over_three_runtimes_compute_the_same(model: str, seed: int) -> None:
    define = {"resnet50": {"batch": 1}, "whisper-tiny-decoder": {"batch": 1, "sequence": 8}}.get(
        model, {}
    )
    graph = editor.load_model(EXAMPLES / "models" / f"{model}.onnx", define)
    inputs = random_inputs(graph, seed)
    plan = scattered(graph, seed)
    used = {s.device for s in plan.subgraphs}
    assert {"ort", "ov", "ref"} <= used and len(plan.subgraphs) > 3
    result = compare("whole", whole(graph, inputs), plan.run(inputs))
    assert result.within_tolerance and result.max_relative < 1e-4
    assert any(np.ptp(value) > 0 for value in plan.run(inputs).values())


@pytest.mark.parametrize("name", RUNNABLE)
def test_unusual_models_compute_the_same_with_one_op_per_subgraph(name: str) -> None:
    inputs = make_inputs(MANIFEST[name]["inputs"])
    graph = bound(ODDITIES / name, inputs)
    if graph.unbound:
        pytest.fail(f"{graph.unbound} cannot be bound")
    two = [{"name": "A", "backendName": "CPU"}, {"name": "B", "backendName": "CPU"}]
    plan = editor.partition(
        graph,
        two,
        pins={k: "AB"[i % 2] for i, k in enumerate(graph.op_keys) if not graph.op_is_constant[i]},
    )
    expected, actual = whole(graph, inputs), plan.run(inputs)
    # Whole, ONNX Runtime computes a quantised Conv in integers; cut, in floats: one step of the quantisation apart.
    allowed = 0.01 if name == "qdq_int8.onnx" else 1e-5
    assert compare("whole", expected, actual).max_relative <= allowed
    assert list(actual) == [graph.tensor_names[t] for t in dict.fromkeys(graph.outputs.tolist())]


SHAPE_CHAIN = """
<ir_version: 8, opset_import: ["": 18]>
chain (float[3,4] x) => (float[3,1] y) {
    one = Constant <value = int64[1] {1}> ()
    zero = Constant <value = int64[1] {0}> ()
    shape = Shape (x)
    rank = Size (shape)
    left = Sub (rank, one)
    prefix = Slice (shape, zero, one)
    suffix = ConstantOfShape <value = int64[1] {1}> (left)
    target = Concat <axis = 0> (prefix, suffix)
    mean = ReduceMean <keepdims = 1> (x, one)
    y = Reshape (mean, target)
}
"""


def test_values_determined_by_shapes_are_constants_across_a_cut(tmp_path: Path) -> None:
    onnx.save(onnx.parser.parse_model(SHAPE_CHAIN), tmp_path / "chain.onnx")
    graph = editor.load_model(tmp_path / "chain.onnx")
    plan = editor.partition(
        graph,
        REAL,
        pins={
            "left": "ort",
            "mean": "ref",
            "prefix": "ref",
            "suffix": "ov",
            "target": "ov",
            "y": "ov",
        },
    )
    crossing = {b.tensor for b in plan.placement.boundaries}
    assert {"left", "prefix", "mean"} <= crossing  # the plan says what crosses, however it is run
    home = next(s for s in plan.subgraphs if "y" in s.outputs)
    cutter = Cutter.open(graph)
    assert "left" in cutter.submodel(plan.placement, home).inputs
    last = cutter.submodel(plan.placement, home, fold_shapes=True)
    assert "left" not in last.inputs and "mean" in last.inputs
    value = next(t for t in last.model.graph.initializer if t.name == "left")
    assert onnx.numpy_helper.to_array(value).tolist() == [1]
    inputs = random_inputs(
        graph
    )  # OpenVINO alone refuses a Reshape to a rank that only a run tells
    assert np.allclose(plan.run(inputs)["y"], inputs["x"].mean(axis=1, keepdims=True), atol=1e-6)


def test_a_folded_shape_that_a_runtime_refuses_becomes_an_input(tmp_path: Path) -> None:
    text = """
    <ir_version: 8, opset_import: ["": 18]>
    loose (float[3,4] x) => (int64[3] y) {
        zero = Constant <value = int64[1] {0}> ()
        one = Constant <value = int64[1] {1}> ()
        shape = Shape (x)
        size = Slice (shape, zero, one)
        y = Range (zero, size, one)
    }
    """  # ONNX Runtime refuses a constant of one dimension where the specification wants none, but computes with it
    onnx.save(onnx.parser.parse_model(text), tmp_path / "loose.onnx")
    graph = editor.load_model(tmp_path / "loose.onnx")
    plan = editor.partition(graph, REAL, pins={"shape": "ref", "size": "ref", "y": "ort"})
    assert plan.run(random_inputs(graph))["y"].tolist() == [0, 1, 2]


def test_only_values_determined_by_static_shapes_are_folded(tmp_path: Path) -> None:
    text = """
    <ir_version: 8, opset_import: ["": 18]>
    some (float[n,2,3] x, int64[2] fed) => (int64[3] a, int64[2] b, int64[1] c, float d) {
        one = Constant <value = int64[1] {1}> ()
        shape = Shape (x)
        a = Neg (shape)
        tail = Shape <start = 1, end = 9> (x)
        b = Add (tail, fed)
        places = NonZero (x)
        found = Shape (places)
        c = Gather (found, one)
        floats = Cast <to = 1> (tail)
        d = ReduceSum <keepdims = 0> (floats)
    }
    """
    onnx.save(onnx.parser.parse_model(text), tmp_path / "some.onnx")
    sizes = {"shape": [5, 2, 3], "a": [-5, -2, -3], "tail": [2, 3]}
    for define, expected in (({"n": 5}, {"one": [1], **sizes}), ({}, {"one": [1]})):
        known = Cutter.open(editor.load_model(tmp_path / "some.onnx", define)).known
        assert {
            name: onnx.numpy_helper.to_array(t).tolist() for name, t in known.items()
        } == expected


def test_the_error_names_an_op_that_the_runtime_cannot_run() -> None:
    graph = editor.load_model(ODDITIES / "old_opset_6.onnx")
    with pytest.raises(
        editor.UnsupportedOpError, match="(?s)Dropout.*Could not find an implementation"
    ):
        editor.partition(graph, "HETERO:CPU")
    inputs = make_inputs(MANIFEST["old_opset_6.onnx"]["inputs"])
    plan = editor.partition(graph, "HETERO:CPU,openvino")
    assert compare("whole", whole(graph, inputs), plan.run(inputs)).within_tolerance


def test_results_stay_valid_after_the_next_run(mobilenet: Graph) -> None:
    plan = editor.partition(mobilenet, "HETERO:openvino")
    first, second = random_inputs(mobilenet, 1), random_inputs(mobilenet, 2)
    kept = plan.run(first)
    copy = {k: v.copy() for k, v in kept.items()}
    plan.run(second)
    assert all((kept[k] == copy[k]).all() for k in kept)


DEFAULTS = """
<ir_version: 8, opset_import: ["": 18]>
defaults (float[2,3] x, float[3] w, float[3] kept) => (float[2,3] y, float[2,3] z, float[3] w)
<float[3] w = {1, 2, 3}, float[3] kept = {5, 5, 5}> {
    less = Neg (w)
    still = Exp (kept)
    first = Mul (x, less)
    y = Add (first, still)
    z = Sub (y, less)
}
"""


@pytest.mark.parametrize(
    ("requests", "entry", "value"),
    [(1, "session.force_spinning_stop", "1"), (4, "session.intra_op.allow_spinning", "0")],
)
def test_threads_spin_during_a_run_and_only_where_no_other_run_needs_the_cores(
    mobilenet: Graph, requests: int, entry: str, value: str
) -> None:
    plan = editor.partition(mobilenet, "HETERO:CPU")
    for compiled in (
        plan.compile(requests=requests),
        compile_whole(mobilenet, plan.devices[0], requests=requests),
    ):
        session: Any = compiled.steps[0].executable
        assert session.session.get_session_options().get_session_config_entry(entry) == value


@pytest.mark.parametrize("form", ["contiguous", "strided"])
def test_changes_to_an_input_array_between_runs_take_effect(mobilenet: Graph, form: str) -> None:
    """Arrays that come again are not bound again: what matters is what is in them."""
    two = [
        {"name": n, "backendName": "onnxruntime", "provider": "CPUExecutionProvider"} for n in "AB"
    ]
    pins = {key: "AB"[i // 20 % 2] for i, key in enumerate(mobilenet.op_keys)}
    compiled = compile_placement(editor.partition(mobilenet, two, pins=pins).placement, 1)
    name, first = next(iter(random_inputs(mobilenet).items()))
    mine = np.array(first) if form == "contiguous" else np.repeat(first, 2, axis=-1)[..., ::2]
    for seed in range(6):
        mine[...] = next(
            iter(random_inputs(mobilenet, seed // 2).values())
        )  # every other run the same
        found = compiled.run({name: mine})
        fresh = {name: np.ascontiguousarray(mine)} if seed % 2 else {name: mine.copy()}
        expected = compile_whole(mobilenet, compiled.steps[0].runs_on, 1).run(fresh)
        for key, value in expected.items():
            assert np.allclose(found[key], value, rtol=1e-4, atol=1e-5)
    assert compiled._fixed is not None, "the quick way was tested"


@pytest.mark.parametrize(
    "kind", ["BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E5M2", "FLOAT16", "BOOL", "INT4", "UINT4", "STRING"]
)
def test_results_of_every_type_are_correct_in_repeated_runs(kind: str, tmp_path: Path) -> None:
    """From the second run on a plan may take a quicker way, which must know the types that numpy lacks."""
    number = getattr(onnx.TensorProto, kind)
    nodes = [
        onnx.helper.make_node("Neg", ["x"], ["less"], "less"),
        onnx.helper.make_node("Cast", ["less"], ["y"], "y", to=number),
        onnx.helper.make_node("Add", ["x", "less"], ["z"], "z"),
    ]
    infos = [
        onnx.helper.make_tensor_value_info(name, kind, [4])
        for name, kind in (
            ("x", onnx.TensorProto.FLOAT),
            ("y", number),
            ("z", onnx.TensorProto.FLOAT),
        )
    ]
    model = onnx.helper.make_model(
        onnx.helper.make_graph(nodes, "types", infos[:1], infos[1:]),
        ir_version=10,
        opset_imports=[onnx.helper.make_opsetid("", 21)],
    )
    path = tmp_path / "types.onnx"
    onnx.save(model, path)
    two = [
        {"name": n, "backendName": "onnxruntime", "provider": "CPUExecutionProvider"} for n in "AB"
    ]
    pins = {"less": "A", "y": "B", "z": "A"}
    compiled = compile_placement(
        editor.partition(editor.load_model(path), two, pins=pins).placement, 1
    )
    reference = onnx.reference.ReferenceEvaluator(model)
    array = np.zeros(4, np.float32)
    for values in ([1, -2, 0, 3], [1, -2, 0, 3], [-4, 5, 1, 0]):
        for x in (
            array,
            np.zeros(4, np.float32),
        ):  # an array that comes again, and one that does not
            x[:] = values
            found = compiled.run({"x": x})
            for name, expected in zip("yz", reference.run(None, {"x": x}), strict=True):
                assert list(map(float, found[name])) == list(
                    map(float, expected)
                )  # texts of numbers too


def test_overridable_initializers_can_be_replaced(tmp_path: Path) -> None:
    path = tmp_path / "defaults.onnx"
    onnx.save(onnx.parser.parse_model(DEFAULTS), path)
    graph = editor.load_model(path)
    x, w = random_inputs(graph)["x"], np.array([7, 8, 9], np.float32)

    def expected(w: Any) -> dict[str, Any]:
        y = x * -w + np.exp(np.float32(5))
        return {"y": y, "z": y + w, "w": w}

    for pins in (
        {"first": "ort", "y": "ov", "z": "ref"},
        {"first": "ort", "y": "ort", "z": "ort"},
        {"first": "ov", "y": "ref", "z": "ort", "less": "ov"},
    ):
        plan = editor.partition(graph, REAL, pins=pins)
        for given in (None, w, w, w + 1, None):
            result = plan.run({"x": x} if given is None else {"x": x, "w": given})
            default = np.array([1, 2, 3], np.float32)
            assert compare(
                "by hand", expected(default if given is None else given), result
            ).within_tolerance
    twins = [
        {"name": n, "backendName": "CPU"} for n in "AB"
    ]  # cut from ONNX Runtime's optimized graph
    plan = editor.partition(graph, twins, pins={"first": "A", "y": "B", "z": "A"})
    for _ in range(3):
        assert compare("by hand", expected(w), plan.run({"x": x, "w": w})).within_tolerance
    (measured,) = Benchmark({"p": plan.placement}, seconds=0.1, inputs={"x": x, "w": w}).run()
    assert measured.difference is not None and measured.difference.within_tolerance
    with pytest.raises(editor.ExecutionError, match="'w' must have the shape 3, not 4"):
        plan.run({"x": x, "w": np.ones(4, np.float32)})
    with pytest.raises(editor.ExecutionError, match="inputs are missing: x"):
        plan.run({"w": w})


def test_an_input_file_can_replace_an_initializer(tmp_path: Path) -> None:
    graph = editor.load_model(ODDITIES / "initializer_as_default_input.onnx")
    inputs = make_inputs(MANIFEST["initializer_as_default_input.onnx"]["inputs"])
    names = [graph.tensor_names[t] for t in np.flatnonzero(graph.tensor_overridable)]
    shapes = [graph.tensor_shapes[graph.tensor_index[n]] for n in names]
    fed = {n: np.full(s, 0.5, np.float32) for n, s in zip(names, shapes, strict=True)}
    np.savez(tmp_path / "in.npz", **inputs, **fed)
    session = onnxruntime.InferenceSession(graph.path, providers=["CPUExecutionProvider"])
    expected = dict(
        zip(
            [o.name for o in session.get_outputs()],
            session.run(None, {**inputs, **fed}),
            strict=True,
        )
    )
    plan = editor.partition(graph, "HETERO:openvino,CPU")
    assert compare(
        "unsplit", expected, plan.run(read_inputs(graph, tmp_path / "in.npz"))
    ).within_tolerance
    assert not compare("unsplit", expected, plan.run(inputs)).within_tolerance


def test_results_of_the_interpreter_stay_valid_after_the_next_run(tmp_path: Path) -> None:
    text = """
    <ir_version: 8, opset_import: ["": 18]>
    views (float[2,3] x) => (float[6] y) {
        s = Constant <value = int64[1] {-1}> ()
        a = Neg (x)
        y = Reshape (a, s)
    }
    """
    onnx.save(onnx.parser.parse_model(text), tmp_path / "views.onnx")
    plan = editor.partition(
        editor.load_model(tmp_path / "views.onnx"), REAL, pins={"a": "ort", "y": "ref"}
    )
    results = [plan.run({"x": np.full((2, 3), i, np.float32)})["y"] for i in range(4)]
    assert [r[0] for r in results] == [0, -1, -2, -3]


@pytest.mark.parametrize("place", ["beside", "linked", "elsewhere"])
def test_openvino_reads_external_weights(tmp_path: Path, place: str) -> None:
    other = Path("/dev/shm")
    folder = tmp_path
    if place == "elsewhere":  # no second name for a file across file systems
        if not other.is_dir() or other.stat().st_dev == Path(tempfile.gettempdir()).stat().st_dev:
            pytest.skip("one file system only")
        folder = Path(tempfile.mkdtemp(dir=other))
    try:
        rng = np.random.default_rng(0)
        weight = onnx.numpy_helper.from_array(rng.standard_normal((64, 64)).astype(np.float32), "w")
        info = [onnx.helper.make_tensor_value_info(n, 1, [2, 64]) for n in "xy"]
        nodes = [
            onnx.helper.make_node("MatMul", ["x", "w"], ["a"]),
            onnx.helper.make_node("MatMul", ["a", "w"], ["y"]),
        ]
        model = onnx.helper.make_model(
            onnx.helper.make_graph(nodes, "g", info[:1], info[1:], [weight]),
            ir_version=8,
            opset_imports=[onnx.helper.make_opsetid("", 18)],
        )
        onnx.save(
            model, folder / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0
        )
        if place == "linked":
            (folder / "w.bin").rename(folder / "blob")
            (folder / "w.bin").symlink_to(folder / "blob")
        graph = editor.load_model(folder / "m.onnx")
        inputs = random_inputs(graph)
        plan = editor.partition(graph, REAL, pins={"a": "ov", "y": "ort"})
        expected = (
            inputs["x"] @ onnx.numpy_helper.to_array(weight) @ onnx.numpy_helper.to_array(weight)
        )
        assert np.allclose(plan.run(inputs)["y"], expected, atol=1e-2)
        assert compare(
            "whole", {"y": expected}, compile_whole(graph, plan.devices[1]).run(inputs)
        ).within_tolerance
    finally:
        if place == "elsewhere":
            shutil.rmtree(folder)


def test_the_error_names_the_wrong_input(mobilenet: Graph) -> None:
    plan = editor.partition(mobilenet, "HETERO:CPU")
    good = random_inputs(mobilenet)
    with pytest.raises(editor.ExecutionError, match="inputs are missing: pixel_values"):
        plan.run({})
    with pytest.raises(editor.ExecutionError, match="must have the shape 1x3x224x224"):
        plan.run({"pixel_values": good["pixel_values"][:, :, :10]})
    with pytest.raises(editor.ExecutionError, match="must be float32"):
        plan.run({"pixel_values": good["pixel_values"].astype(np.float64)})
    with pytest.raises(editor.ExecutionError, match="no input 'z'"):
        plan.run({**good, "z": good["pixel_values"]})


def test_running_a_forced_pin_reports_the_refusing_runtime() -> None:
    graph = editor.load_model(ODDITIES / "custom_op.onnx")
    plan = editor.partition(graph, "HETERO:CPU,NPU")
    foo = next(k for i, k in enumerate(graph.op_keys) if graph.op_types[i] == "Foo")
    with pytest.raises(editor.ExecutionError, match="boundary tensor .*unknown.*Foo.*not a regis"):
        plan.repin({foo: "CPU"}, force=True).run(random_inputs(graph))
    plan = plan.repin(dict.fromkeys(plan.affinity, "CPU"), force=True)
    with pytest.raises(editor.ExecutionError, match="subgraph .* on CPU"):
        plan.run(random_inputs(graph))


def test_a_changed_model_file_is_detected(mobilenet: Graph, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(mobilenet.path.read_bytes())
    plan = editor.partition(editor.load_model(path), "HETERO:CPU")
    path.write_bytes((EXAMPLES / "models" / "resnet50.onnx").read_bytes())
    with pytest.raises(editor.ExecutionError, match="changed since it was opened"):
        plan.compile()


def test_a_difference_outside_the_tolerance_is_detected() -> None:
    expected = {"y": np.ones(4, np.float32), "n": np.array([1, 2])}
    same = compare("r", expected, {"y": expected["y"] * (1 + 1e-6), "n": expected["n"]})
    assert same.within_tolerance and 0 < same.max_absolute < 1e-5
    assert not compare(
        "r", expected, {"y": expected["y"] * 1.01, "n": expected["n"]}
    ).within_tolerance
    assert not compare("r", expected, {"y": expected["y"], "n": expected["n"] + 1}).within_tolerance
    assert not compare(
        "r", expected, {"y": expected["y"] * np.nan, "n": expected["n"]}
    ).within_tolerance
    assert not compare("r", expected, {"y": expected["y"][:2], "n": expected["n"]}).within_tolerance


@pytest.mark.parametrize("mode", ["latency", "throughput"])
def test_a_benchmark_measures_subgraphs_transfers_and_baselines(
    mobilenet: Graph, mode: str
) -> None:
    table = [
        {"name": "NPU", "supportedNodes": "Conv"},
        {"name": "ov", "backendName": "openvino"},
        {"name": "ort", "backendName": "CPU"},
    ]
    plan = editor.partition(mobilenet, table, pins={"logits": "ort"})
    events: list[dict[str, Any]] = []
    (result,) = Benchmark(
        {"p": plan.placement}, seconds=0.5, mode=mode, requests=2, on_event=events.append
    ).run()
    assert [s.id for s in result.subgraphs] == list(range(len(plan.subgraphs)))
    assert all(s.estimated == (s.device == "NPU") for s in result.subgraphs) and result.estimated
    assert all(
        0 < s.time.min <= s.time.median <= s.time.p90 <= s.time.p99 <= s.time.max
        for s in result.subgraphs
    )
    assert {(t.from_device, t.to_device) for t in result.transfers} >= {
        ("NPU", "ov"),
        ("ov", "NPU"),
    }
    assert [b.device for b in result.baselines] == ["ov", "ort"]
    assert all(b.time is not None and b.time.median > 0 for b in result.baselines)
    assert result.difference is not None and result.difference.within_tolerance
    assert sum(s.share for s in result.subgraphs) + sum(t.share for t in result.transfers) <= 1.0001
    assert result.runs >= (5 if mode == "latency" else 2) and result.throughput > 0
    assert (result.predicted is None) == (mode == "throughput"), (
        "the prediction is of one request alone"
    )
    samples = [e for e in events if e["kind"] == "sample"]
    assert {e["name"] for e in samples} == {"p", "ov", "ort"}
    text = result.text()
    assert text.startswith(
        f"Outputs match those of the unsplit model on {result.difference.reference}"
    )
    assert "NPU (" in text and "ran on ONNX Runtime, CPU as stand-in" in text
    assert "tolerance 0.001 relative" in text, "what a difference is held against"
    timed = [
        line
        for line in text.splitlines()
        if re.search(r"\d (m|µ|n)?s\b|microseconds|requests/s", line)
    ]
    assert [line.partition(":")[0].partition(" (")[0] for line in timed] == [
        "The plan",
        "Unsplit on ov",
        "Unsplit on ort",
    ], "a stand-in has no speed"
    assert timed[0].endswith("(estimate from shapes)") and timed[1].endswith("(measurement)")


def test_a_plan_of_one_subgraph_shares_the_measurement_of_its_baseline(mobilenet: Graph) -> None:
    """They are the same thing, so they are measured as one and cannot differ by chance."""
    whole = editor.partition(mobilenet, REAL[:2])
    other = editor.partition(mobilenet, [REAL[1], REAL[0]])
    events: list[dict[str, Any]] = []
    results = Benchmark(
        {"ort": whole.placement, "ov": other.placement, "again": whole.placement},
        0.3,
        on_event=events.append,
    ).run()
    for result, device in zip(results, ("ort", "ov", "ort"), strict=True):
        baseline = {b.device: b for b in result.baselines}[device]
        assert len(result.subgraphs) == 1 and baseline.time == result.total
    assert results[0].total == results[2].total != results[1].total
    samples = [(e["name"], e["plan"]) for e in events if e["kind"] == "sample"]
    assert {("ort", 0), ("again", 2), ("ort", None), ("ov", 1), ("ov", None)} == set(samples), (
        "the live page hears of all"
    )
    told = sum(e["runs"] for e in events if e["kind"] == "sample")
    assert told == results[0].runs + results[1].runs, "each run is counted once"


def test_a_slow_baseline_does_not_make_a_short_benchmark_long(mobilenet: Graph) -> None:
    """Three seconds took 36: the Interpreter ran the whole model in every round."""
    convs = [key for op, key in enumerate(mobilenet.op_keys) if mobilenet.op_types[op] == "Conv"]
    plan = editor.partition(mobilenet, REAL, pins=dict.fromkeys(convs[::20], "ref"))
    events: list[dict[str, Any]] = []
    (result,) = Benchmark({"p": plan.placement}, 0.5, on_event=events.append).run()
    slow, fast = ({b.device: b for b in result.baselines}[name].time for name in ("ref", "ort"))
    assert (
        slow is not None
        and fast is not None
        and slow.median > 1.5 * result.total.median > fast.median
    )
    assert "ref" not in {e["name"] for e in events if e["kind"] == "sample"} and result.runs >= 6


def test_progress_is_not_whole_before_there_are_enough_runs(mobilenet: Graph) -> None:
    """ "Measuring 100 %" stood there from the second of ten long runs."""
    plan, events = editor.partition(mobilenet, "HETERO:CPU"), list[dict[str, Any]]()
    Benchmark({"p": plan.placement}, 0.001, on_event=events.append).run()
    shares = [e["progress"] for e in events if e["kind"] == "sample" and e["name"] == "p"]
    assert shares[0] < 0.5 and shares[-1] == 1.0


def test_a_string_that_is_no_text_is_named() -> None:
    """It was a traceback on the command line."""
    plan = editor.partition(editor.load_model(ODDITIES / "string_not_utf8.onnx"), "HETERO:CPU")
    with pytest.raises(
        editor.ExecutionError, match="not UTF-8 and cannot be read: byte 0xff at position 0"
    ):
        plan.run(random_inputs(plan.graph))
    with pytest.raises(editor.ExecutionError, match="not UTF-8"):
        plan.benchmark(seconds=0.1)


def test_a_baseline_that_cannot_run_the_model_has_a_reason() -> None:
    graph = editor.load_model(ODDITIES / "string_tensors.onnx")
    result = editor.partition(graph, "HETERO:CPU,openvino").benchmark(seconds=0.1)
    by_device = {b.device: b for b in result.baselines}
    assert by_device["CPU"].time is not None
    assert (
        by_device["openvino"].time is None
        and "cannot run the whole model" in by_device["openvino"].problem
    )


def test_invalid_benchmark_settings_are_errors(mobilenet: Graph) -> None:
    plan = editor.partition(mobilenet, "HETERO:CPU")
    for arguments in ({"mode": "fastest"}, {"seconds": 0}, {"mode": "throughput", "requests": 0}):
        with pytest.raises(editor.EditorError):
            plan.benchmark(**arguments)


@pytest.mark.parametrize("device", ["CPU", "OpenVINO.CPU"])
def test_weights_that_are_not_there_are_named_and_not_by_the_runtime(
    device: str, tmp_path: Path
) -> None:
    model = onnx.load(write_dag(tmp_path / "m.onnx", [[], [0]]))
    weight = model.graph.initializer.add(name="w", data_type=1, dims=[4], data_location=1)
    weight.external_data.add(key="location", value="m.onnx.data")
    onnx.save(model, tmp_path / "m.onnx")
    plan = editor.partition(editor.load_model(tmp_path / "m.onnx"), f"HETERO:{device}")
    for compile_it in (
        lambda: compile_placement(plan.placement),
        lambda: compile_whole(plan.graph, plan.devices[0]),
    ):
        with pytest.raises(
            editor.ExecutionError,
            match=r"m.onnx cannot run: the weights in m.onnx.data are not here; put",
        ):
            compile_it()
    (tmp_path / "m.onnx.data").write_bytes(b"\0" * 10)
    weight.external_data.add(key="length", value="16")
    onnx.save(model, tmp_path / "m.onnx")
    graph = editor.load_model(tmp_path / "m.onnx")
    assert "the weights in m.onnx.data (cut short: 10 of 16 bytes) are not here" in graph.notes[0]
    plan = editor.partition(graph, f"HETERO:{device}")
    with pytest.raises(
        editor.ExecutionError, match=r"m.onnx cannot run: the weights in m.onnx.data \(cut short"
    ):
        compile_placement(plan.placement)
    for form in ("onnx", "onnxruntime", "openvino", "tvm", "split"):
        with pytest.raises(
            editor.ExportError, match=r"m.onnx cannot be exported with its weights: .*\(cut short"
        ):
            plan.export(form, tmp_path / form)
    with pytest.raises(editor.ExportError, match="cut short"):
        plan.write_kit(tmp_path / "kit", device)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["mobilenetv2", "whisper-tiny-decoder"])
def test_constants_that_are_pinned_run_whatever_they_read(name: str, seed: int) -> None:
    """A pinned constant reads constants that nothing but constants reads: these have to come with it."""
    define = {"batch": 1, "sequence": 8} if "whisper" in name else {}
    graph = editor.load_model(EXAMPLES / "models" / f"{name}.onnx", define)
    devices = [
        {"name": name, "backendName": "CPU"} for name in "AB"
    ]  # OpenVINO rounds the quotient of Mod
    able = editor.partition(graph, devices).placement.constraints.able
    chosen = random.Random(seed)
    constants = np.flatnonzero(graph.op_is_constant & able.all(axis=1)).tolist()
    pinned = chosen.sample(constants, len(constants) // 3)
    pins = {graph.op_keys[op]: chosen.choice("AB") for op in pinned}
    assert any(graph.op_is_constant[graph.predecessors[op]].any() for op in pinned)
    plan = editor.partition(graph, devices, pins=pins)
    inputs = random_inputs(graph)
    expected = compile_whole(graph, plan.devices[0]).run(inputs)
    assert compare("", expected, compile_placement(plan.placement).run(inputs)).within_tolerance
