"""Which ops are off their preferred device, grouped by reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import write_dag
from hypothesis import given
from hypothesis import strategies as st

import editor
from editor.placement.device_profile import costs_of
from editor.placement.fallbacks import chosen_elsewhere, fallbacks
from editor.workspace.plan import Plan

TABLE = [
    {"name": "NPU", "nonSupportedNodes": "Tanh"},
    {"name": "GPU", "nonSupportedNodes": "Relu,Tanh"},
    {"name": "CPU"},
]


def found(plan: Plan) -> dict[tuple[str, str], list[int]]:
    costs = costs_of(plan.graph, plan.devices, "estimate")
    return {(f.wanted, f.op_type): list(f.ops) for f in fallbacks(plan.placement, costs)}


def test_ops_are_grouped_by_the_device_that_refuses_them_and_why(tmp_path: Path) -> None:
    types = ["Relu", "Tanh", "Relu", "Tanh", "Relu"]
    graph = editor.load_model(
        write_dag(tmp_path / "net.onnx", [[i - 1] if i else [] for i in range(5)], types)
    )
    plan = editor.partition(graph, TABLE)
    (fallback,) = fallbacks(plan.placement, costs_of(graph, plan.devices, "estimate"))
    assert (fallback.wanted, fallback.op_type, fallback.ops, fallback.devices) == (
        "NPU",
        "Tanh",
        (1, 3),
        ("CPU",),
    )
    assert "excludes Tanh on NPU" in fallback.reason and fallback.subgraphs == 2
    assert fallback.bytes == plan.placement.division.bytes_moved and fallback.seconds > 0


def test_what_all_fallbacks_cost_is_known_from_the_plan_without_them(tmp_path: Path) -> None:
    graph = editor.load_model(
        write_dag(
            tmp_path / "net.onnx",
            [[i - 1] if i else [] for i in range(5)],
            ["Relu", "Tanh", "Relu", "Tanh", "Relu"],
        )
    )
    plan, wanted = (
        editor.partition(graph, TABLE),
        editor.partition(graph, [{"name": "NPU"}, *TABLE[1:]]),
    )
    costs = costs_of(graph, plan.devices, "estimate")
    (row,) = fallbacks(plan.placement, costs)
    best = wanted.placement.price(costs).total
    assert row.seconds == pytest.approx(plan.placement.price(costs).total - best)
    assert row.seconds > 0


def test_the_rows_add_up_to_what_all_fallbacks_cost(tmp_path: Path) -> None:
    """Each row was what it would cost alone: 28 ms of rows in a run of 7 ms."""
    types = ["Relu", "Tanh", "Neg", "Tanh", "Relu", "Exp"]
    graph = editor.load_model(
        write_dag(tmp_path / "net.onnx", [[i - 1] if i else [] for i in range(6)], types)
    )
    table = [{"name": "NPU", "nonSupportedNodes": "Neg,Tanh,Exp"}, {"name": "CPU"}]
    plan = editor.partition(graph, table)
    costs = costs_of(graph, plan.devices, "estimate")
    rows = fallbacks(plan.placement, costs)
    best = editor.partition(graph, [{"name": "NPU"}, table[1]]).placement.price(costs).total
    lost = plan.placement.price(costs).total - best
    assert {f.op_type for f in rows} == {"Neg", "Tanh", "Exp"}
    assert sum(f.seconds for f in rows) == pytest.approx(lost)
    assert all(0 < f.seconds < lost for f in rows)
    device = plan.placement.assignment.device
    for row in rows:
        ops = list(row.ops)
        own = float((costs.op[ops, device[ops]] - costs.op[ops, 0]).sum())
        assert row.own_seconds == pytest.approx(own)
        time = r"([+−][\d.]+ [mµ]?s|0)"
        assert re.fullmatch(rf"ops {time}, overhead {time}", row.parts)


def test_ops_of_several_types_with_one_reason_are_one_row_with_the_way_out(tmp_path: Path) -> None:
    graph = editor.load_model(
        write_dag(tmp_path / "net.onnx", [[], [0], [1]], ["Relu", "Tanh", "Relu"])
    )
    entry = {"name": "NPU", "dtypes": "int8,uint8"}
    plan = editor.partition(graph, [entry, {"name": "CPU"}])
    (row,) = fallbacks(plan.placement, costs_of(graph, plan.devices, "estimate"))
    assert row.op_types == ("Relu", "Tanh") and row.ops == (0, 1, 2)
    assert row.plan_as == "int8"
    assert found(editor.partition(graph, [{**entry, "assumes": "int8"}, {"name": "CPU"}])) == {}


def test_ops_that_are_faster_where_they_fell_have_lost_nothing(tmp_path: Path) -> None:
    """Each row had lost the launch of the one subgraph that runs everything, on a device that is faster at all of it."""
    graph = editor.load_model(
        write_dag(
            tmp_path / "net.onnx",
            [[i - 1] if i else [] for i in range(5)],
            ["Relu", "Tanh", "Relu", "Tanh", "Relu"],
        )
    )
    slow = [{"name": "NPU", "nonSupportedNodes": "Relu,Tanh", "peakDramBw": 10}, {"name": "GPU"}]
    plan = editor.partition(graph, slow)
    costs = costs_of(graph, plan.devices, "estimate")
    rows = fallbacks(plan.placement, costs)
    assert {f.op_type for f in rows} == {"Relu", "Tanh"}
    assert all(f.seconds < 0 and f.lost.endswith("faster here") for f in rows)
    for row in rows:
        assert re.match(r"ops −\S+ \S+, overhead ", row.parts)


def test_only_what_a_document_says_has_its_address(tmp_path: Path) -> None:
    graph = editor.load_model(write_dag(tmp_path / "net.onnx", [[], [0]], ["Relu", "Tanh"]))
    preset = {"name": "NPU", "preset": "edgetpu", "assumes": "int8"}
    for refused, cited in (({"nonSupportedNodes": "Relu"}, False), ({}, True)):
        plan = editor.partition(graph, [{**preset, **refused}, {"name": "CPU"}])
        rows = [
            f
            for f in fallbacks(plan.placement, costs_of(graph, plan.devices, "estimate"))
            if f.op_type == ("Tanh" if cited else "Relu")
        ]
        assert all(f.source.startswith("https://") == cited for f in rows), (
            "the table says so, not the document of the preset"
        )


def test_pinned_ops_are_no_fallbacks(tmp_path: Path) -> None:
    graph = editor.load_model(write_dag(tmp_path / "net.onnx", [[], [0]], ["Relu", "Tanh"]))
    assert found(editor.partition(graph, TABLE)) == {("NPU", "Tanh"): [1]}
    assert found(editor.partition(graph, TABLE, pins={graph.op_keys[1]: "CPU"})) == {}


@given(st.lists(st.sampled_from(["Relu", "Tanh", "Neg"]), min_size=1, max_size=12))
def test_every_op_that_an_earlier_device_refuses_is_in_one_group(
    tmp_path_factory: pytest.TempPathFactory, types: list[str]
) -> None:
    path = write_dag(
        tmp_path_factory.mktemp("m") / "net.onnx",
        [[i - 1] if i else [] for i in range(len(types))],
        types,
    )
    plan = editor.partition(editor.load_model(path), TABLE)
    ops = sorted(op for group in found(plan).values() for op in group)
    assert ops == [i for i, kind in enumerate(types) if kind == "Tanh"]


def test_an_op_that_the_policy_moved_is_no_fallback_of_a_later_device(tmp_path: Path) -> None:
    """With two NPUs such ops stood in both lists, and the page counted 440 of 402 ops."""
    path = write_dag(tmp_path / "net.onnx", [[], [0], [1]], ["Relu", "Tanh", "Relu"])
    slow = {"name": "NPU", "nonSupportedNodes": "Tanh", "peakDramBw": "1", "peakCompute": "1"}
    plan = editor.partition(path, [slow, *TABLE[1:]], policy="optimal")
    assert set(plan.affinity.values()) == {"CPU"}
    assert found(plan) == {("NPU", "Tanh"): [1]}
    assert chosen_elsewhere(plan.placement) == {"NPU": [0, 2]}


def test_reports_begin_with_fallbacks(tmp_path: Path) -> None:
    graph = editor.load_model(write_dag(tmp_path / "net.onnx", [[], [0]], ["Relu", "Tanh"]))
    plan = editor.partition(graph, TABLE)
    (text,) = plan.export("md", tmp_path)
    said = text.read_text()
    assert (
        said.index("## Fallbacks") < said.index("<summary>Subgraphs")
        and "| NPU | the device table excludes Tanh on NPU" in said
    )
    (page,) = plan.export("html", tmp_path)
    assert "excludes Tanh on NPU" in page.read_text()


def test_a_rule_does_not_hide_why_its_ops_are_not_on_the_first_device(tmp_path: Path) -> None:
    graph = editor.load_model(write_dag(tmp_path / "net.onnx", [[], [0]], ["Relu", "Tanh"]))
    costs = costs_of(graph, editor.partition(graph, TABLE).devices, "estimate")
    (before,) = fallbacks(editor.partition(graph, TABLE).placement, costs)
    ruled = editor.partition(graph, TABLE, rules=[{"type": "Tanh", "to": "CPU"}])
    (after,) = fallbacks(ruled.placement, costs)
    assert (after.reason, after.ops, after.by_rule) == (before.reason, before.ops, 1)
    assert before.by_rule == 0
    assert found(editor.partition(graph, TABLE, rules=[{"type": "Relu", "to": "CPU"}])) == {
        ("NPU", "Tanh"): [1]
    }, "the first device could run it, the rule alone keeps it away"
