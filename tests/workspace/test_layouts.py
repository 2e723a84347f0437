"""Layouts beside each other, and hints that keep their promise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import EXAMPLES, write_layers

import editor
from editor.exports.report import write_comparison
from editor.graph.graph import Graph
from editor.kinds import Basis, Kind
from editor.placement.costs import estimate, price
from editor.placement.device_profile import (
    DeviceProfile,
    basis_of,
    best_source,
    costs_of,
    save_profile,
)
from editor.placement.fallbacks import hints
from editor.placement.placement import Placement, solve
from editor.web.panels.suggestions import _named
from editor.workspace.layouts import (
    OF_OTHER_TOOLS,
    READY_MADE,
    differing,
    duplicate_layouts,
    figures,
    ready_made,
)

BOX = [{"name": "GPU"}, {"name": "CPU"}]


@pytest.fixture
def painted(mobilenet: Graph) -> Placement:
    keys = [mobilenet.op_keys[op] for op in mobilenet.order if not mobilenet.op_is_constant[op]]
    return editor.partition(mobilenet, BOX, pins={keys[20]: "CPU", keys[60]: "CPU"}).placement


def latency(placement: Placement) -> float:
    return price(
        placement.graph,
        estimate(placement.graph, placement.devices),
        placement.assignment.device,
        np.flatnonzero(placement.constraints.placed),
    ).total


def test_ops_that_differ_are_ops_of_the_model_and_no_pinned_constants(mobilenet: Graph) -> None:
    """ "258 ops elsewhere" was said of a model of 100 ops."""
    table = [{"name": "A", "backendName": "CPU"}, {"name": "B", "backendName": "CPU"}]
    pins = dict.fromkeys(mobilenet.op_keys, "B")  # the constants too
    all_on_b = editor.partition(mobilenet, table, pins=pins).placement
    all_on_a = editor.partition(mobilenet, table).placement
    assert len(all_on_b.placed_ops) > 100
    assert len(differing(all_on_b, all_on_a)) == len(differing(all_on_a, all_on_b)) == 100


def test_hints_for_throughput_shorten_the_time_between_requests(mobilenet: Graph) -> None:
    """They shortened one run, by moving everything to one device."""
    table = [{"name": "A", "backendName": "GPU"}, {"name": "B", "backendName": "GPU"}]
    stages = editor.partition(mobilenet, table, policy="pipeline").placement
    costs = estimate(mobilenet, stages.devices)
    for_one_run = solve(
        mobilenet,
        stages.devices,
        replace(
            stages.settings,
            policy="priority",
            pins={
                mobilenet.op_keys[op]: stages.devices[stages.assignment.device[op]].name
                for op in stages.placed_ops
            },
        ),
    )
    assert hints(for_one_run) and not hints(for_one_run)[0].throughput
    for hint in hints(stages):
        pins = {mobilenet.op_keys[op]: hint.device for op in hint.ops}
        after = solve(mobilenet, stages.devices, replace(stages.settings, pins=pins))
        saved = stages.busiest_seconds(costs) - after.busiest_seconds(costs)
        assert hint.throughput and saved == pytest.approx(hint.seconds) and saved > 0


def test_runtimes_of_one_processor_take_turns_on_it(mobilenet: Graph) -> None:
    """Two halves on two runtimes of one CPU promised twice the requests; each device of its own keeps its promise."""
    half = [mobilenet.op_keys[op] for op in mobilenet.order if not mobilenet.op_is_constant[op]][
        :50
    ]
    for second, shared in (("openvino", True), ("GPU", False)):
        table = [{"name": "a", "backendName": "CPU"}, {"name": "b", "backendName": second}]
        placement = editor.partition(mobilenet, table, pins=dict.fromkeys(half, "b")).placement
        costs = estimate(mobilenet, placement.devices)
        parts = placement.price(costs)
        work = parts.total
        assert (figures(placement, costs)["busiest"] == pytest.approx(work)) == shared
        assert shared or figures(placement, costs)["busiest"] < 0.9 * work


def test_every_hint_saves_the_stated_time(painted: Placement) -> None:
    found = hints(painted)
    assert found and [h.seconds for h in found] == sorted((h.seconds for h in found), reverse=True)
    for hint in found:
        pins = {
            **painted.settings.pins,
            **{painted.graph.op_keys[op]: hint.device for op in hint.ops},
        }
        after = solve(
            painted.graph,
            painted.devices,
            replace(painted.settings, pins=pins),
            painted.constraints.capabilities,
        )
        assert latency(painted) - latency(after) == pytest.approx(hint.seconds)
        assert len(painted.subgraphs) - len(after.subgraphs) == hint.subgraphs
        assert painted.division.bytes_moved - after.division.bytes_moved == hint.bytes
        assert hint.estimated


def test_a_hint_tells_whether_its_saving_is_more_than_figures_can_tell(painted: Placement) -> None:
    now, best = latency(painted), hints(painted)[0]
    assert best.before == pytest.approx(now)
    assert best.tells() == (best.seconds > now / 4)
    few = replace(best, seconds=now / 10)
    assert not few.tells()
    predicted = replace(few, estimated=False)
    assert predicted.tells() and not replace(predicted, seconds=now / 50).tells()
    assert not predicted.tells(Basis(Kind.PREDICTION, "from profile", noisy=True))


def test_one_hint_covers_all_layers(tmp_path: Path) -> None:
    graph = editor.load_model(write_layers(tmp_path / "layered.onnx"))
    adds = [op for op in range(len(graph)) if graph.op_types[op] == "Add"]
    split = editor.partition(
        graph, BOX, pins={graph.op_keys[op]: BOX[1]["name"] for op in adds[:-1]}
    ).placement
    best = next(
        hint for hint in hints(split) if list(hint.ops) == adds and hint.device == BOX[0]["name"]
    )
    assert best.subgraphs == len(split.subgraphs) - 1 and best.bytes == split.division.bytes_moved


def test_no_hints_without_transfers(mobilenet: Graph) -> None:
    assert hints(editor.partition(mobilenet, BOX).placement) == []


def test_ready_made_layouts_compare_with_the_plan(painted: Placement) -> None:
    costs = estimate(painted.graph, painted.devices)
    layouts = {one.name: one for one in ready_made(painted)}
    able = painted.constraints.able[~painted.graph.op_is_constant].all(axis=0)
    single = {f"all on {d.name}" for d, can in zip(painted.devices, able, strict=True) if can}
    assert single and set(layouts) == {*READY_MADE, *single}
    for name in single:
        one = layouts[name].placement
        assert one is not None and [f"all on {d.name}" for d in one.used_devices] == [name]
    for layout in layouts.values():
        assert layout.placement is not None and not layout.placement.settings.pins, layout.problem
        assert figures(layout.placement, costs)["subgraphs"] == len(layout.placement.subgraphs)
    best = layouts["least latency"].placement
    assert best is not None and latency(best) <= latency(painted)
    glow = layouts["Glow rule (simulated)"].placement
    assert glow is not None and len(differing(painted, glow)) == 2


def test_ready_made_layouts_are_solved_with_the_costs_of_their_comparison(
    mobilenet: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A CPU that was measured a hundred times slower than assumed: no op goes there for the sake of latency."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    plan = editor.partition(mobilenet, "HETERO:GPU,CPU")
    cpu = plan.devices[1]
    assert [d.planned for d in plan.devices] == [True, False] and best_source(
        mobilenet, plan.devices
    ) == "estimate"
    assumed = estimate(mobilenet, plan.devices)
    assert str(basis_of(assumed, "estimate")) == "estimate from shapes"
    ops = np.flatnonzero(~mobilenet.op_is_constant).tolist()
    seconds = {mobilenet.op_keys[op]: 100 * float(assumed.op[op, 1]) for op in ops}
    total = sum(seconds.values())
    save_profile(
        mobilenet,
        cpu,
        DeviceProfile(cpu.description, total, seconds, {}, (), 1e-5, 0.0, 0.0, 0.0, 0.0, 1),
    )
    source = best_source(mobilenet, plan.devices)
    costs = costs_of(mobilenet, plan.devices, source)
    assert source == "measured" and str(basis_of(costs, source)) == "estimate in part from profile"
    assert str(basis_of(costs, source, [0])) == "estimate from shapes", (
        "only the planned GPU, which has no profile"
    )
    assert str(basis_of(costs, source, [1])) == "prediction from profile", (
        "only the CPU, which has one"
    )
    assert plan.placement.used_numbers == [0]
    elsewhere = replace(costs, origins=("", "CPU: trtexec on orin"))
    assert "orin" in str(basis_of(elsewhere, source, [0, 1])) and "orin" not in str(
        basis_of(elsewhere, source, [0])
    )
    layouts = {one.name: one.placement for one in ready_made(plan.placement)}
    least = layouts["least latency"]
    assert least is not None and least.settings.policy_options["costs"] == "measured"
    predicted = {
        name: figures(one, costs)["predicted"] for name, one in layouts.items() if one is not None
    }
    assert predicted["least latency"] <= min(predicted.values()) + 1e-12
    page = write_comparison({"this": plan.placement}, tmp_path, "x")[0].read_text()
    assert '"source":"estimate in part from profile"' in page


def test_a_hint_moves_a_repeated_subgraph_in_all_layers(tmp_path: Path) -> None:
    """Right branches on the CPU: one layer's costs two transfers, so all of them are one hint."""
    graph = editor.load_model(write_layers(tmp_path / "layered.onnx"))
    right = [op for op in range(len(graph)) if "/right/" in graph.op_names[op]]
    split = editor.partition(
        graph, BOX, pins={graph.op_keys[op]: BOX[1]["name"] for op in right}
    ).placement
    best = next(
        hint for hint in hints(split) if list(hint.ops) == right and hint.device == BOX[0]["name"]
    )
    assert best.subgraphs == len(split.subgraphs) - 1
    assert _named(graph, best.ops) == f"{len(right)} Neg, in every layer,"
    assert _named(graph, best.ops[:12]) == "12 Neg"


def test_the_interpreter_alone_is_no_layout_to_compare_with(mobilenet: Graph) -> None:
    plan = editor.partition(mobilenet, EXAMPLES / "devices" / "runtimes.yaml")
    assert [one.name for one in ready_made(plan.placement) if one.name.startswith("all on")] == [
        "all on ONNX Runtime"
    ]


def test_ready_made_layouts_that_are_one_plan_are_told(painted: Placement) -> None:
    layouts = ready_made(painted)
    twins = duplicate_layouts(layouts)
    for rule in OF_OTHER_TOOLS:
        assert twins[rule] == "all on GPU"
    placements = {one.name: one.placement for one in layouts}
    for name, twin in twins.items():
        one, other = placements[name], placements[twin]
        assert one is not None and other is not None and not differing(one, other)
        assert one.division.subgraph_of_op.tolist() == other.division.subgraph_of_op.tolist()
    whole = [one.name for one in layouts if one.unsplit]
    assert whole and not set(whole) & set(twins), (
        "a rule that does not split is below not splitting"
    )
    assert not duplicate_layouts(
        [replace(layout, ready_made=False) for layout in layouts]
    )  # a kept one stays a row of its own


def test_hints_leave_out_what_lacks_memory(mobilenet: Graph) -> None:
    keys = [mobilenet.op_keys[op] for op in mobilenet.order if not mobilenet.op_is_constant[op]]
    pins = dict.fromkeys(keys[10:90], "CPU")

    def found(**more: object) -> tuple[Placement, set[str]]:
        placement = editor.partition(
            mobilenet, [{"name": "GPU", **more}, {"name": "CPU"}], pins=pins
        ).placement
        return placement, {hint.device for hint in hints(placement)}

    placement, free = found()
    assert "GPU" in free
    limit = placement.run_memory.peaks["GPU"] + 1000
    assert "GPU" not in found(memory=str(limit))[1], "everything that pays would need more"
    assert "GPU" in found(memory="1GB")[1]
