"""Automatic, manual, and both at once; the two published Glow cases to the byte."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import EXAMPLES, GOLDEN, ODDITIES

import editor
from editor.devices.table import load_devices
from editor.exports.glow import partition_log
from editor.graph.graph import Graph
from editor.placement.placement import Settings, solve

AB = [{"name": "A", "backendName": "CPU"}, {"name": "B", "backendName": "CPU"}]


@pytest.mark.parametrize(
    ("table", "device"), [("glow-cpu-first", "Device1"), ("glow-opencl-first", "Device2")]
)
def test_glow_mobilenet_is_one_partition_in_either_order(
    reference_models: Path, table: str, device: str
) -> None:
    plan = editor.partition(
        editor.load_model(reference_models / "mobilenetv2-7.onnx"),
        EXAMPLES / "devices" / f"{table}.yaml",
    )
    (only,) = plan.subgraphs
    memory = only.memory
    assert only.device == device
    assert (memory.total, memory.input, memory.input_count, memory.output, memory.constants) == (
        14557376,
        602112,
        1,
        4000,
        13951264,
    )
    assert partition_log(plan.placement) == (GOLDEN / f"mobilenetv2-{table}.log").read_text()


def test_glow_fcn_is_three_partitions(reference_models: Path) -> None:
    plan = editor.partition(
        editor.load_model(reference_models / "fcn.onnx"),
        EXAMPLES / "devices" / "glow-opencl-first.yaml",
    )
    found = [
        (
            s.device,
            s.memory.total,
            s.memory.input,
            s.memory.input_count,
            s.memory.output,
            s.memory.constants,
        )
        for s in plan.subgraphs
    ]
    assert found == [
        ("Device2", 217777448, 602112, 1, 131712, 217043624),
        ("Device1", 8561280, 131712, 2, 8429568, 0),
        ("Device2", 16859136, 8429568, 2, 8429568, 0),
    ]
    assert partition_log(plan.placement) == (GOLDEN / "fcn-glow-opencl-first.log").read_text()


def test_glow_fcn_cpu_first_is_one_partition(reference_models: Path) -> None:
    plan = editor.partition(
        editor.load_model(reference_models / "fcn.onnx"),
        EXAMPLES / "devices" / "glow-cpu-first.yaml",
    )
    assert [s.device for s in plan.subgraphs] == ["Device1"]


def test_pins_and_policy_combine(dag: Callable[..., Graph]) -> None:
    graph = dag([[], [0], [1], [2], [3]])
    plan = editor.partition(graph, AB)
    assert set(plan.affinity.values()) == {"A"} and len(plan.subgraphs) == 1
    painted = plan.repin({"t2": "B"})
    assert painted.affinity == {"t0": "A", "t1": "A", "t2": "B", "t3": "A", "t4": "A"}
    assert [(s.device, s.ops) for s in painted.subgraphs] == [
        ("A", ("t0", "t1")),
        ("B", ("t2",)),
        ("A", ("t3", "t4")),
    ]
    assert painted.repin({"t2": None}).affinity == plan.affinity
    assert plan.pins == {}, "a plan never changes"


def test_boundaries_and_transfers(dag: Callable[..., Graph]) -> None:
    plan = editor.partition(dag([[], [0], [0], [0, 1, 2]]), AB, pins={"t1": "B", "t2": "B"})
    by_tensor = {b.tensor: b for b in plan.boundaries}
    assert set(by_tensor) == {"t0", "t1", "t2"}
    assert by_tensor["t0"].to_devices == ("B",), "t0 goes to B once, and stays on A for t3"
    assert by_tensor["t0"].targets == (1, 2)
    assert plan.placement.division.bytes_moved == 3 * 16
    assert plan.subgraphs[2].memory.input_from_peers == 1


def test_why_answers_for_every_op(whisper: Graph) -> None:
    plan = editor.partition(whisper, EXAMPLES / "devices" / "runtimes.yaml")
    for key in whisper.op_keys:
        answer = plan.why(key)
        assert answer.device == plan.affinity[key]
        assert answer.because
        assert all(v.allowed or v.reason for v in answer.verdicts)
    softmax = next(k for i, k in enumerate(whisper.op_keys) if whisper.op_types[i] == "Softmax")
    assert "excludes Softmax on OpenVINO" in str(plan.why(softmax))


def test_capability_reasons_come_from_the_runtime() -> None:
    graph = editor.load_model(ODDITIES / "custom_op.onnx")
    foo = next(k for i, k in enumerate(graph.op_keys) if graph.op_types[i] == "Foo")
    with pytest.raises(editor.UnsupportedOpError) as error:
        editor.partition(graph, "HETERO:CPU,openvino,Interpreter")
    for cause in (
        "Foo",
        "CPU: ONNX Runtime",
        "openvino: OpenVINO: no conversion rule",
        "Interpreter: ONNX reference",
    ):
        assert cause in str(error.value)
    plan = editor.partition(graph, "HETERO:CPU,NPU")
    assert plan.affinity[foo] == "NPU"
    assert "not a registered function/op" in str(plan.why(foo))


def test_a_device_that_cannot_run_an_op_is_refused_unless_forced(whisper: Graph) -> None:
    plan = editor.partition(whisper, EXAMPLES / "devices" / "runtimes.yaml")
    softmax = next(k for i, k in enumerate(whisper.op_keys) if whisper.op_types[i] == "Softmax")
    with pytest.raises(editor.PinError, match="excludes Softmax on OpenVINO"):
        plan.repin({softmax: "OpenVINO"})
    forced = plan.repin({softmax: "OpenVINO"}, force=True)
    assert forced.affinity[softmax] == "OpenVINO"
    assert forced.why(softmax).forced and "by force" in forced.why(softmax).because


@pytest.mark.parametrize(
    ("pins", "cause"),
    [
        ({"t9": "A"}, "no op with the key 't9'"),
        ({"n0": "A"}, "pins use its key"),
        ({"t0": "Z"}, "unknown device 'Z'"),
    ],
)
def test_invalid_pins_are_errors(
    dag: Callable[..., Graph], pins: dict[str, str], cause: str
) -> None:
    with pytest.raises(editor.PinError, match=cause):
        editor.partition(dag([[], [0]]), AB, pins=pins)


def test_pins_work_at_every_level(dag: Callable[..., Graph]) -> None:
    table = [
        {"name": "A", "backendName": "CPU", "unit": 0},
        {"name": "B", "backendName": "CPU", "unit": 1},
        {"name": "C", "backendName": "openvino", "unit": 1},
    ]
    plan = editor.partition(
        dag([[], [0], [1], [2]]),
        table,
        pins={"t1": "unit:1", "t2": "codegen:openvino", "t3": "openvino"},
    )
    assert plan.affinity == {"t0": "A", "t1": "B", "t2": "C", "t3": "C"}


def test_the_error_names_unbound_sizes() -> None:
    graph = editor.load_model(EXAMPLES / "models" / "resnet50.onnx")
    with pytest.raises(editor.UnboundSymbolError, match="--define batch=1") as error:
        solve(graph, load_devices("HETERO:CPU"), Settings())
    assert error.value.symbols == ("batch",)


def test_a_pinned_constant_has_its_own_device(mobilenet: Graph) -> None:
    constant = next(k for i, k in enumerate(mobilenet.op_keys) if mobilenet.op_is_constant[i])
    plan = editor.partition(mobilenet, AB, pins={constant: "B"})
    assert plan.affinity[constant] == "B"
    assert sum(constant in s.ops for s in plan.subgraphs) == 1
    assert plan.why(constant).pinned == "B"


@pytest.mark.parametrize(
    "name",
    [
        "zero_nodes",
        "input_is_output",
        "disconnected_components",
        "unused_things",
        "output_also_consumed",
        "duplicate_node_names",
    ],
)
def test_unusual_graphs_can_be_partitioned(name: str) -> None:
    plan = editor.partition(editor.load_model(ODDITIES / f"{name}.onnx"), AB)
    assert sorted({k for s in plan.subgraphs for k in s.ops}) == sorted(
        k for i, k in enumerate(plan.graph.op_keys) if not plan.graph.op_is_constant[i]
    )


def test_two_thousand_alternating_ops_are_partitioned_quickly(dag: Callable[..., Graph]) -> None:
    graph = dag([[]] + [[i] for i in range(1999)])
    plan = editor.partition(graph, AB, pins={f"t{i}": "B" for i in range(1, 2000, 2)})
    assert len(plan.subgraphs) == 2000
    assert [s.depends_on for s in plan.subgraphs[1:]] == [(i,) for i in range(1999)]


def test_a_pinned_op_makes_fewer_subgraphs_than_in_openvino(dag: Callable[..., Graph]) -> None:
    """Six ops a->{b,e} c->{d,f} b->f d->e: OpenVINO makes four subgraphs, three suffice."""
    a, b, c, d = 0, 1, 2, 3
    graph = dag([[], [a], [], [c], [a, d], [c, b]])
    plan = editor.partition(graph, AB, pins={"t1": "B", "t2": "B", "t5": "B"})
    assert len(plan.subgraphs) == 3
    assert (b, c, d) == (1, 2, 3)
