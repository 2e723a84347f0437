"""What a run holds in each device's memory, against a count by hand of every op's moment."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from conftest import save_net, write_dag
from decoders import plain_decoder
from hypothesis import given, settings
from hypothesis import strategies as st

import editor
from editor.graph.graph import Graph
from editor.graph.proposed_sizes import proposed_sizes
from editor.graph.states import states_of
from editor.placement.fallbacks import chosen_elsewhere
from editor.placement.placement import Placement
from editor.placement.run_memory import BOUNDARY, COPY, INNER, INPUT, OUTPUT, RunMemory
from editor.runtimes.base import Capability, MemoryOverhead
from editor.text import parse_bytes

SIZE = 16
"""Bytes of each tensor of a ``write_dag`` model."""
APART = [{"name": n, "backendName": "NPU"} for n in "ABC"]
TOGETHER = [{"name": n, "backendName": "CPU"} for n in "ABC"]


def write_mlp(path: Path, layers: int, width: int) -> Path:
    """Layers of a MatMul with weights of its own, and Erf and Neg in turns."""
    nodes, weights, before = [], [], "x"
    for layer in range(layers):
        name = f"layers.{layer}"
        weights.append(
            onnx.numpy_helper.from_array(np.ones((width, width), np.float32), f"{name}.weight")
        )
        nodes.append(
            onnx.helper.make_node(
                "MatMul", [before, f"{name}.weight"], [f"{name}/MatMul"], f"{name}/MatMul"
            )
        )
        before = f"{name}/MatMul"
        for step in range(12):
            kind = "Neg" if step % 2 else "Erf"
            nodes.append(
                onnx.helper.make_node(
                    kind, [before], [f"{name}/{kind}{step}"], f"{name}/{kind}{step}"
                )
            )
            before = f"{name}/{kind}{step}"
    value = onnx.helper.make_tensor_value_info
    return save_net(
        path,
        nodes,
        [value("x", onnx.TensorProto.FLOAT, [8, width])],
        [value(before, onnx.TensorProto.FLOAT, [8, width])],
        weights,
        name="mlp",
    )


def plan_of(
    predecessors: list[list[int]], devices: list[int], table: list[dict[str, str]], kind: str
) -> Placement:
    with tempfile.TemporaryDirectory() as folder:
        graph = editor.load_model(
            write_dag(Path(folder) / "dag.onnx", predecessors, [kind] * len(predecessors))
        )
    pins = {f"t{i}": table[d]["name"] for i, d in enumerate(devices)}
    answers = [Capability.everything(graph) for _ in table]
    return editor.partition(graph, table, pins=pins, capabilities=answers).placement


def counted_by_hand(placement: Placement, apart: bool) -> np.ndarray:
    """[device, moment] bytes, tensor by tensor and moment by moment."""
    graph, number = placement.graph, placement.division.subgraph_of_op.tolist()
    order = sorted(range(len(graph)), key=lambda op: (number[op], graph.rank[op]))
    device = placement.assignment.device.tolist()
    live = np.zeros((len(placement.devices), len(order)), np.int64)
    for tensor in range(len(graph.tensor_names)):
        producer = int(graph.tensor_producer[tensor])
        readers = graph.readers[tensor].tolist()
        subgraph = number[producer] if producer >= 0 else -1
        away = [op for op in readers if number[op] != subgraph]
        ends = [order.index(op) for op in readers if number[op] == subgraph]
        ends += [max(i for i, op in enumerate(order) if number[op] == number[a]) for a in away]
        if producer >= 0:
            begin = order.index(producer)
            end = len(order) - 1 if tensor in graph.outputs.tolist() else max([begin, *ends])
            live[device[producer], begin : end + 1] += SIZE
        if producer < 0 and not apart:
            away = sorted(away, key=lambda op: number[op])
            homes = {device[away[0]]: away} if away else {}
        else:
            homes = {d: [a for a in away if device[a] == d] for d in {device[a] for a in away}}
            homes = homes if apart or producer < 0 else {}
        for home, reading in homes.items():
            if producer < 0 or home != device[producer]:
                numbers = [number[a] for a in reading]
                begin = min(i for i, op in enumerate(order) if number[op] == min(numbers))
                end = max(i for i, op in enumerate(order) if number[op] == max(numbers))
                live[home, begin : end + 1] += SIZE
    return live


@st.composite
def divided(draw: st.DrawFn) -> tuple[list[list[int]], list[int]]:
    count = draw(st.integers(1, 14))
    predecessors = [
        sorted(draw(st.sets(st.integers(0, i - 1), max_size=3))) if i else [] for i in range(count)
    ]
    return predecessors, draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))


@settings(max_examples=60)
@given(divided(), st.booleans())
def test_each_moment_holds_what_is_still_read(
    problem: tuple[list[list[int]], list[int]], apart: bool
) -> None:
    placement = plan_of(
        *problem, APART if apart else TOGETHER, "Mean"
    )  # Mean never overwrites what it reads
    memory = placement.run_memory
    assert [d.live.tolist() for d in memory.devices] == counted_by_hand(placement, apart).tolist()
    assert memory.peaks == {d.device: int(d.live.max()) for d in memory.devices}
    for i, device in enumerate(memory.devices):
        assert sum(t.bytes for t in memory.at_peak(i)) == device.peak


@settings(max_examples=40)
@given(divided(), st.booleans())
def test_overwriting_never_needs_more_and_never_less_than_what_a_later_op_reads(
    problem: tuple[list[list[int]], list[int]], apart: bool
) -> None:
    table = APART if apart else TOGETHER
    apiece = plan_of(*problem, table, "Mean").run_memory
    placement = plan_of(*problem, table, "Sum")
    graph, memory = placement.graph, placement.run_memory
    total = np.array([d.live for d in memory.devices]).sum(axis=0)
    assert (total <= np.array([d.live for d in apiece.devices]).sum(axis=0)).all()
    order = memory.ops.tolist()
    for moment, op in enumerate(order):
        later = {
            t
            for after in order[moment + 1 :]
            for t in graph.op_reads[after].tolist()
            if graph.tensor_producer[t] >= 0
        }
        made = {t for before in order[: moment + 1] for t in graph.op_outputs[before].tolist()}
        assert total[moment] >= SIZE * len(later & made | set(graph.op_outputs[op].tolist()))


def test_tensors_at_the_peak_are_named_with_what_they_are(dag: Callable[..., Graph]) -> None:
    graph = dag([[], [0], [0, 1], [2], [1, 3]], ["Mean"] * 5)
    plan = editor.partition(
        graph, APART[:2], pins={"t2": "B"}, capabilities=[Capability.everything(graph)] * 2
    )
    b = {held.tensor: held.kind for held in plan.run_memory.at_peak(1)}
    assert b["t0"] == COPY and b["t2"] == BOUNDARY
    whole = editor.partition(
        graph, APART[:1], capabilities=[Capability.everything(graph)]
    ).run_memory
    assert {each.kind for each in whole.at_peak(0)} == {INNER, INPUT}, (
        "one subgraph reads x until it ends"
    )
    assert [each.first for each in whole.at_peak(0) if each.kind == INPUT] == [-1]
    single = editor.partition(dag([[]], ["Mean"]), APART[:1]).run_memory
    assert {each.kind for each in single.at_peak(0)} == {INPUT, OUTPUT}


def test_constants_count_once_for_a_device_however_many_subgraphs_read_them(
    mobilenet: Graph,
) -> None:
    keys = [
        mobilenet.op_keys[op] for op in mobilenet.order.tolist() if not mobilenet.op_is_constant[op]
    ]
    pins = {key: "AB"[i // 10 % 2] for i, key in enumerate(keys)}
    apart = editor.partition(
        mobilenet, APART[:2], pins=pins, capabilities=[Capability.everything(mobilenet)] * 2
    )
    whole = editor.partition(mobilenet, APART[:1], capabilities=[Capability.everything(mobilenet)])
    split = [d.constants for d in apart.run_memory.devices]
    assert len(apart.subgraphs) > 4
    assert sum(split) == pytest.approx(whole.run_memory.devices[0].constants, rel=0.01), (
        "few constants are shared by devices"
    )
    assert min(split) > 0
    assert (
        repr(whole.run_memory).startswith("RunMemory\nA: peak 20.57 MB, ")
        and len(repr(apart.run_memory)) < 200
    )


def test_a_device_that_plans_int8_holds_a_quarter(mobilenet: Graph) -> None:
    answers = [Capability.everything(mobilenet)]
    floats = editor.partition(
        mobilenet, [{"name": "N", "backendName": "NPU"}], capabilities=answers
    ).run_memory
    quarter = editor.partition(
        mobilenet, [{"name": "N", "backendName": "NPU", "assumes": "int8"}], capabilities=answers
    ).run_memory
    assert quarter.peaks["N"] == pytest.approx(floats.peaks["N"] / 4, rel=0.001)


def test_devices_of_one_memory_are_counted_together(dag: Callable[..., Graph]) -> None:
    graph = dag([[], [0], [1], [2]], ["Mean"] * 4)
    plan = editor.partition(graph, TOGETHER[:2], pins={"t1": "B", "t3": "B"})
    memory = plan.run_memory
    assert memory.shared == ((0, 1),)
    assert (
        memory.peak_of((0, 1))
        == int(sum(d.live for d in memory.devices).max())
        <= sum(memory.peaks.values())
    )
    apart = editor.partition(
        graph,
        APART[:2],
        pins={"t1": "B", "t3": "B"},
        capabilities=[Capability.everything(graph)] * 2,
    )
    assert apart.run_memory.shared == ()
    assert sum(apart.run_memory.peaks.values()) > memory.peak_of((0, 1)), "copies"


def test_what_runtimes_take_beside_constants_and_tensors_is_estimated_apart(
    mobilenet: Graph,
) -> None:
    def memory_on(table: list[dict[str, str]]) -> RunMemory:
        return editor.partition(
            mobilenet, table, capabilities=[Capability.everything(mobilenet)] * len(table)
        ).run_memory

    planned, ort, twice = (
        memory_on(APART[:1]),
        memory_on(TOGETHER[:1]),
        memory_on([{"name": "O", "backendName": "openvino"}]),
    )
    assert planned.peaks["A"] == ort.peaks["A"] == twice.peaks["O"], (
        "what a plan needs is the same everywhere"
    )
    assert planned.taken_by([0]) == planned.peaks["A"], "nothing is known of a planned device"
    assert ort.taken_by([0]) > ort.peaks["A"]
    assert twice.devices[0].at_rest > 2 * twice.devices[0].constants, (
        "weights as they came, and as its kernels want them"
    )
    assert twice.devices[0].apart == int(twice.devices[0].live.max()), "one subgraph"
    keys = [
        mobilenet.op_keys[op] for op in mobilenet.order.tolist() if not mobilenet.op_is_constant[op]
    ]
    halves = dict.fromkeys(keys[30:60], "O")
    split = editor.partition(
        mobilenet,
        [TOGETHER[0], {"name": "O", "backendName": "openvino"}],
        pins=halves,
        capabilities=[Capability.everything(mobilenet)] * 2,
    ).run_memory
    assert int(split.devices[0].live.max()) < split.devices[0].apart, (
        "before and behind the other device's"
    )
    both = memory_on([TOGETHER[0], {"name": "O", "backendName": "openvino"}])
    assert both.taken_by([0, 1]) == both.taken_by([0]), "a device without ops takes nothing"


def test_a_device_with_memory_of_its_own_takes_memory_for_each_subgraph_and_on_the_host(
    dag: Callable[..., Graph],
) -> None:
    graph = dag([[], [0], [1], [2], [3]], ["Mean"] * 5)
    table = [{"name": "GPU", "backendName": "GPU"}, TOGETHER[0]]
    plan = editor.partition(
        graph, table, pins={"t1": "A", "t3": "A"}, capabilities=[Capability.everything(graph)] * 2
    )
    assert [s.device for s in plan.subgraphs] == ["GPU", "A", "GPU", "A", "GPU"]
    gpu, cpu = plan.run_memory.devices
    known = replace(
        plan.run_memory,
        devices=(
            replace(
                gpu,
                overhead=MemoryOverhead(
                    bytes_per_subgraph=1000, first_bytes=500, host_bytes=70_000
                ),
            ),
            cpu,
        ),
    )
    assert known.host == frozenset({1}) and known.shared == ()
    assert known.taken_by([0]) == gpu.peak + 3 * 1000 + 500
    assert known.taken_by([1]) == plan.run_memory.taken_by([1]) + 70_000
    alone = replace(known, devices=(known.devices[0], replace(cpu, ops=0)))
    assert alone.taken_by([1]) < 70_000, (
        "where nothing computes in host memory, it is not what is asked about"
    )


def test_the_policy_memory_leaves_large_tensors_to_the_device_that_has_room(
    mobilenet: Graph,
) -> None:
    table = [{"name": "NPU", "memory": "8MiB"}, {"name": "CPU"}]
    plan = editor.partition(
        mobilenet, table, policy="memory", capabilities=[Capability.everything(mobilenet)] * 2
    )
    whole = editor.partition(mobilenet, table, capabilities=[Capability.everything(mobilenet)] * 2)
    assert whole.run_memory.peaks["NPU"] > 8 << 20 >= plan.run_memory.peaks["NPU"]
    assert plan.placement.op_counts["NPU"] > 40
    elsewhere = {name: len(ops) for name, ops in chosen_elsewhere(plan.placement).items()}
    assert elsewhere == {"NPU": plan.placement.op_counts["CPU"]}, "no runtime refuses them"
    small = editor.partition(
        mobilenet,
        [{"name": "CPU"}, {"name": "NPU", "memory": "5MB", "peakCompute": "1e16"}],
        policy="memory",
        capabilities=[Capability.everything(mobilenet)] * 2,
    )
    because = [small.why(key).because for key, device in small.affinity.items() if device == "CPU"]
    assert any(
        text.startswith("no room on NPU, which is faster for it: ") and "of 5 MB are taken" in text
        for text in because
    )
    alone = [
        {"name": "NPU", "memory": "16MB"}
    ]  # enough for the constants, not for the tensors beside them
    over = r"NPU is over by [\d.]+ MB: .* of constants and .* at once, without what runtimes add, where the limit is 16 MB"
    with pytest.raises(editor.EditorError, match=over) as error:
        editor.partition(
            mobilenet, alone, policy="memory", capabilities=[Capability.everything(mobilenet)]
        )
    assert "Heaviest tensors there: " in str(error.value), "constants alone would fit"


def test_layers_that_repeat_fill_a_device_as_far_as_there_is_room(tmp_path: Path) -> None:
    """None of them went there: what keeps one off by its bytes keeps off all. And the reason was said to be transfers."""
    graph = editor.load_model(write_mlp(tmp_path / "mlp.onnx", layers=8, width=256))
    table = [
        {
            "name": "NPU",
            "peakCompute": "1e13",
            "peakDramBw": "1e11",
            "link": {"bandwidth": "1e10", "latency": "1e-4"},
            "nonSupportedNodes": "Erf",
        },
        {"name": "CPU", "peakCompute": "1e9", "peakDramBw": "1e9"},
    ]
    able = [Capability.everything(graph)] * 2
    whole = editor.partition(graph, table, policy="optimal", capabilities=able)
    limit = int(whole.run_memory.peaks["NPU"] * 0.6)
    assert all(device == "NPU" for key, device in whole.affinity.items() if "MatMul" in key)
    plan = editor.partition(
        graph, [{**table[0], "memory": str(limit)}, table[1]], policy="memory", capabilities=able
    )
    assert plan.run_memory.peaks["NPU"] <= limit
    assert sum("MatMul" in key and device == "NPU" for key, device in plan.affinity.items()) == 4
    left = [key for key, device in plan.affinity.items() if device == "CPU" and "MatMul" in key]
    assert left and all(plan.why(key).because.startswith("no room on NPU") for key in left)


def test_the_error_names_pins_where_there_are_some(mobilenet: Graph) -> None:
    """ "The model does not fit" was false: 2,081 pins were the cause."""
    table = [{"name": "NPU", "memory": "1 MB"}, {"name": "GPU", "memory": "64 MB"}]
    pins = dict.fromkeys(editor.partition(mobilenet, table, policy="memory").affinity, "NPU")
    with pytest.raises(
        editor.EditorError,
        match=f"{len(pins)} ops are held by pins or rules: with fewer of them it may fit",
    ):
        editor.partition(mobilenet, table, policy="memory", pins=pins)


def test_the_error_does_not_blame_a_pin_that_takes_little(mobilenet: Graph) -> None:
    table = [{"name": "NPU", "memory": "8 MB"}, {"name": "GPU", "memory": "7.5 MB"}]
    small = next(key for key in editor.partition(mobilenet, [{"name": "GPU"}]).affinity)
    with pytest.raises(editor.EditorError) as error:
        editor.partition(mobilenet, table, policy="memory", pins={small: "NPU"})
    assert "held by pins" not in str(error.value)
    assert "What helps: more memory for NPU or another device." in str(error.value).splitlines()


def test_the_error_is_about_the_closest_placement_and_not_about_all_on_one_device(
    mobilenet: Graph,
) -> None:
    whole = editor.partition(
        mobilenet, [{"name": "NPU"}], capabilities=[Capability.everything(mobilenet)]
    )
    limit = int(
        whole.run_memory.peaks["NPU"] * 0.35
    )  # two of them hold the constants, but not the first tensors beside them
    with pytest.raises(editor.EditorError, match="closest placement") as error:
        editor.partition(
            mobilenet,
            [{"name": "NPU", "memory": str(limit)}, {"name": "GPU", "memory": str(limit)}],
            policy="memory",
            capabilities=[Capability.everything(mobilenet)] * 2,
        )
    found = re.findall(r"over by ([\d.]+ [kM]?B):", str(error.value))
    assert found and "held by pins" not in str(error.value)
    for excess in found:
        assert 0 < (parse_bytes(excess) or 0) < limit, "all on one device would be over by more"


def test_a_state_is_held_until_its_step_ends(tmp_path: Path) -> None:
    """Cutting a device's layers apart made room: a painted layer let a longer context "fit" than the longest one found."""
    graph = editor.load_model(plain_decoder(tmp_path / "decoder.onnx"))
    graph = editor.load_model(graph.path, define=proposed_sizes(graph))
    table = [{"name": "A", "backendName": "CPU"}, {"name": "B", "backendName": "CPU"}]
    whole = editor.partition(graph, table)
    placed = whole.placement.placed_ops
    middle = graph.op_keys[placed[len(placed) // 2]]
    for plan in (whole, editor.partition(graph, table, pins={middle: "B"})):
        held = 0
        for state in states_of(graph):
            both = [graph.tensor_index[name] for name in (state.input, state.output)]
            if all(plan.placement.device_of_op[graph.readers[both[0]].tolist()] == 0):
                held += int(graph.tensor_bytes[both].sum())
        assert held and plan.run_memory.devices[0].live[-1] >= held
    assert len(plan.placement.subgraphs) > 1
