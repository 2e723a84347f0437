"""Wires between machines as costs: types on the wire, fallbacks, hints, reports. The machines need not be there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import save_net, write_dag
from onnx import TensorProto, helper

import editor
from editor.exports.report import link_usage
from editor.placement.device_profile import costs_of
from editor.placement.fallbacks import fallbacks, hints
from editor.placement.wires import Wire, load_wires, save_wires, wires_path
from editor.workspace.plan import Plan

SLOW = Wire((0.0, 1e6), (0.02, 1.02), "2026-11-23")
"""1 MB/s and 20 ms."""
FAST = Wire((0.0, 1e6), (0.001, 0.011), "2026-11-23")
ELEMENTS = 1 << 16


@pytest.fixture(autouse=True)
def wires() -> Iterator[None]:
    """Links of known speed between every two of three machines, and the editor's."""
    before, names = load_wires(), ("", "edge", "hub", "server")
    save_wires({(a, b): SLOW if "edge" in (a, b) else FAST for a in names for b in names if a != b})
    yield
    wires_path().unlink()
    save_wires(before)


def table(*names: str, **keys: str) -> list[dict[str, str]]:
    return [{"name": name, **keys} for name in names]


def chain(
    path: Path, kind: int = TensorProto.FLOAT, types: tuple[str, ...] = ("Relu", "Tanh", "Relu")
) -> editor.Graph:
    """Ops one after the other; tensor ``t1`` is the output of the first."""
    nodes = [
        helper.make_node(each, [f"t{i}" if i else "x"], [f"t{i + 1}"])
        for i, each in enumerate(types)
    ]
    ends = [
        helper.make_tensor_value_info(name, kind, [ELEMENTS]) for name in ("x", f"t{len(types)}")
    ]
    return editor.load_model(save_net(path, nodes, ends[:1], ends[1:], name="chain"))


def transfers(plan: Plan) -> float:
    """Seconds of all transfers, by shapes, links and peaks."""
    return plan.placement.price(costs_of(plan.graph, plan.devices, "estimate")).transfers


@pytest.mark.parametrize(
    ("kind", "wire_type", "size"),
    [
        (TensorProto.FLOAT, "", 4),
        (TensorProto.FLOAT, "float16", 2),
        (TensorProto.FLOAT, "int8", 1),
        (TensorProto.FLOAT16, "float16", 2),
        (TensorProto.FLOAT16, "int8", 1),
        (TensorProto.DOUBLE, "int8", 8),
    ],
)
def test_a_boundary_costs_the_bytes_that_travel(
    tmp_path: Path, kind: int, wire_type: str, size: int
) -> None:
    graph = chain(tmp_path / "chain.onnx", kind)
    entries = table("edge/CPU", "server/CPU", **({"wireType": wire_type} if wire_type else {}))
    split = editor.partition(
        graph, entries, pins={"t1": "edge/CPU", "t2": "server/CPU", "t3": "server/CPU"}
    )
    plain = editor.partition(graph, table("edge/CPU", "server/CPU"), pins=split.pins)
    (way,) = link_usage(split.placement, costs_of(graph, split.devices, "estimate"))
    own = {TensorProto.FLOAT: 4, TensorProto.FLOAT16: 2, TensorProto.DOUBLE: 8}[kind]
    assert (way.name, way.tensors, way.bytes, way.sent) == (
        "edge -> server",
        1,
        own * ELEMENTS,
        size * ELEMENTS,
    )
    assert way.travel_as == ((wire_type,) if size < own else ())
    assert way.seconds == pytest.approx(0.02 + size * ELEMENTS / 1e6)
    assert transfers(plain) - transfers(split) == pytest.approx((own - size) * ELEMENTS / 1e6), (
        "graph inputs and outputs keep their type"
    )


def test_only_what_leaves_the_device_that_allows_it_is_narrowed(tmp_path: Path) -> None:
    graph = chain(tmp_path / "chain.onnx")
    entries = [{"name": "edge/CPU", "wireType": "int8"}, {"name": "server/CPU"}]
    plan = editor.partition(
        graph, entries, pins={"t1": "edge/CPU", "t2": "server/CPU", "t3": "edge/CPU"}
    )
    ways = {
        way.name: way
        for way in link_usage(plan.placement, costs_of(graph, plan.devices, "estimate"))
    }
    assert ways["edge -> server"].travel_as == ("int8",) and ways["server -> edge"].travel_as == ()
    assert ways["edge -> server"].sent * 4 == ways["server -> edge"].sent


def test_optimal_weighs_the_narrower_tensor(tmp_path: Path) -> None:
    """The hub saves 0.35 s; there and back a float tensor takes 0.56 s, an int8 tensor 0.17 s."""
    graph = chain(tmp_path / "chain.onnx")
    chosen = {}
    for wire_type in ("", "int8"):
        keys = {"wireType": wire_type} if wire_type else {}
        entries = [{"name": "edge/CPU", "peakDramBw": "1.5e6", **keys}, {"name": "hub/CPU", **keys}]
        plan = editor.partition(
            graph, entries, policy="optimal", pins={"t1": "edge/CPU", "t3": "edge/CPU"}
        )
        chosen[wire_type] = plan.affinity["t2"]
    assert chosen == {"": "edge/CPU", "int8": "hub/CPU"}


def test_a_fallback_across_a_wire_costs_the_wire(tmp_path: Path) -> None:
    graph = chain(tmp_path / "chain.onnx")
    lost = {}
    for other in ("edge/GPU", "server/CPU"):
        plan = editor.partition(
            graph, [{"name": "edge/CPU", "nonSupportedNodes": "Tanh"}, {"name": other}]
        )
        (fallback,) = fallbacks(plan.placement, costs_of(graph, plan.devices, "estimate"))
        assert fallback.devices == (other,) and fallback.op_type == "Tanh"
        lost[other] = fallback.seconds
    there_and_back = 2 * (0.02 + 4 * ELEMENTS / 1e6)
    assert lost["edge/GPU"] < 0.1 < there_and_back <= lost["server/CPU"] < there_and_back + 0.1


def test_a_fallback_across_a_wire_counts_each_machine_once(tmp_path: Path) -> None:
    """A tensor that two devices of one machine read travels once."""
    graph = editor.load_model(
        write_dag(tmp_path / "net.onnx", [[], [0], [0]], ["Relu", "Tanh", "Neg"])
    )
    entries = [
        {"name": "edge/CPU", "nonSupportedNodes": "Tanh,Neg"},
        {"name": "server/CPU", "nonSupportedNodes": "Neg"},
        {"name": "server/GPU"},
    ]
    plan = editor.partition(graph, entries)
    (way,) = link_usage(plan.placement, costs_of(graph, plan.devices, "estimate"))
    assert (way.name, way.tensors) == ("edge -> server", 1)


def test_hints_remove_the_transfer_that_takes_longest_not_the_largest(tmp_path: Path) -> None:
    """Between two devices of a machine nothing travels; the way over the wire is what a hint saves."""
    graph = chain(tmp_path / "chain.onnx", types=("Relu", "Tanh", "Relu", "Tanh"))
    plan = editor.partition(
        graph,
        table("edge/CPU", "server/CPU", "server/GPU"),
        pins={"t1": "edge/CPU", "t2": "server/CPU", "t3": "server/GPU", "t4": "edge/CPU"},
    )
    best = hints(plan.placement)[0]
    assert best.seconds >= 0.02 + 4 * ELEMENTS / 1e6, "a way over the slow wire"


def test_reports_list_wires(tmp_path: Path) -> None:
    graph = chain(tmp_path / "chain.onnx")
    plan = editor.partition(
        graph,
        table("edge/CPU", "server/CPU", wireType="float16"),
        pins={"t1": "edge/CPU", "t2": "server/CPU", "t3": "server/CPU"},
    )
    (text,) = plan.export("md", tmp_path)
    said = text.read_text()
    assert (
        "## Wires" in said and "| edge -&gt; server | 1 | 262.1 kB | 131.1 kB as float16 |" in said
    )
    alone = editor.partition(graph, "HETERO:CPU")
    (text,) = alone.export("md", tmp_path)
    assert "## Wires" not in text.read_text()


def test_costs_of_three_machines_are_those_of_the_way_that_is_taken(tmp_path: Path) -> None:
    graph = chain(tmp_path / "chain.onnx")
    seconds = {}
    for last in ("server/CPU", "hub/CPU"):
        plan = editor.partition(
            graph,
            table("edge/CPU", "hub/CPU", "server/CPU"),
            pins={"t1": "hub/CPU", "t2": "hub/CPU", "t3": last},
        )
        seconds[last] = transfers(plan)
    assert seconds["server/CPU"] - seconds["hub/CPU"] == pytest.approx(0.001 + 4 * ELEMENTS / 1e8)
