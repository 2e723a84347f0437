"""Cost-based policies; exact where that is claimed, bounded everywhere."""

from __future__ import annotations

import itertools
import sys
import tempfile
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import EXAMPLES, ODDITIES, write_dag
from decoders import fused_decoder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import editor
from benchmarks.block_latency import best_blocks, block_latency
from editor.devices.table import load_devices
from editor.graph.flops import op_flops
from editor.graph.graph import Graph
from editor.placement.choices import POLICIES, PolicyEntry, policy_choices, policy_of
from editor.placement.chosen_costs import predicted_rate
from editor.placement.constraints import constrain
from editor.placement.costs import Costs, estimate, price, transfer_seconds
from editor.placement.device_profile import costs_of
from editor.placement.placement import Settings, solve
from editor.placement.policies import optimal as optimal_policy
from editor.placement.policies.exact import best_chain, orders, segment_costs
from editor.placement.policies.expansion import Expansion
from editor.placement.policies.neighbourhood import BUSIEST, improve, value_of
from editor.placement.policies.optimal import lower_bound, optimal
from editor.placement.policies.pipeline import busiest_bound
from editor.placement.policies.problem import Problem, relaxed_bound
from editor.placement.policies.task import Assignment, Task
from editor.placement.remarks import why_empty
from editor.runtimes.base import Capability

PROFILE = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
BOX = [
    {"name": "GPU"},
    {"name": "NPU", "nonSupportedNodes": "Softmax, LayerNormalization, Gemm"},
    {"name": "CPU"},
]


FOLDER, NUMBER = tempfile.TemporaryDirectory(), itertools.count()
"""Of the graphs of strategies: a folder for each would draw its name from `random`, which strategies must not."""


@st.composite
def priced(draw: st.DrawFn, most: int = 7, devices: int = 3) -> tuple[Graph, Costs, np.ndarray]:
    """A small random DAG with random costs and capability."""
    count, k = draw(st.integers(1, most)), draw(st.integers(2, devices))
    predecessors = [
        sorted(draw(st.sets(st.integers(0, i - 1), max_size=3))) if i else [] for i in range(count)
    ]
    graph = editor.load_model(
        write_dag(Path(FOLDER.name) / f"dag{next(NUMBER)}.onnx", predecessors)
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    tensors = len(graph.tensor_names)
    allowed = rng.random((count, k)) < 0.75
    allowed[np.arange(count), rng.integers(0, k, count)] = True
    costs = Costs(
        rng.uniform(0.1, 10, (count, k)),
        rng.uniform(0, 4, (tensors, k)),
        rng.uniform(0, 4, (tensors, k)),
        np.zeros(k),
        True,
        ends=rng.uniform(0, 4, (count, k)) if draw(st.booleans()) else None,
    )
    return graph, costs, allowed


def every_placement(allowed: np.ndarray) -> list[np.ndarray]:
    return [
        np.array(p) for p in itertools.product(*(np.flatnonzero(row).tolist() for row in allowed))
    ]


@pytest.mark.parametrize("scale", [1e-9, 1e6, 1e12, 1e30])
@given(priced())
def test_placements_are_allowed_and_as_good_whatever_the_size_of_the_costs(
    scale: float, case: tuple[Graph, Costs, np.ndarray]
) -> None:
    """Sums of picoseconds overflowed from some hours on: every op went to the first device, by force, as "optimal"."""
    graph, costs, allowed = case
    placed = np.arange(len(graph))
    large = replace(
        costs,
        op=costs.op * scale,
        leave=costs.leave * scale,
        enter=costs.enter * scale,
        ends=None if costs.ends is None else costs.ends * scale,
    )
    found = []
    for each in (costs, large):
        problem = Problem.of(graph, each, allowed, placed)
        start = np.where(allowed, each.op, np.inf).argmin(axis=1).astype(np.int64)
        cut = Expansion(problem)
        label = cut.solve(start)
        assert allowed[placed, label].all()
        found.append(cut.seconds(label))
    assert found[1] / scale == pytest.approx(found[0], rel=1e-6, abs=1e-2 if scale < 1 else 0)


@PROFILE
@given(priced(devices=2))
def test_the_cut_for_two_devices_is_optimal(case: tuple[Graph, Costs, np.ndarray]) -> None:
    graph, costs, allowed = case
    placed = np.arange(len(graph))
    label = Expansion(Problem.of(graph, costs, allowed, placed)).solve(
        np.zeros(len(graph), np.int64)
    )
    best = min(
        costs.op[placed, p].sum() + transfer_seconds(graph, costs, p, placed)
        for p in every_placement(allowed)
    )
    assert allowed[placed, label].all()
    assert costs.op[placed, label].sum() + transfer_seconds(
        graph, costs, label, placed
    ) == pytest.approx(best)


@PROFILE
@given(priced(devices=2), st.floats(0, 8), st.floats(0, 8))
def test_small_problems_are_optimal_with_launch_overhead(
    case: tuple[Graph, Costs, np.ndarray], first: float, second: float
) -> None:
    graph, costs, allowed = case
    costs = replace(costs, launch=np.array([first, second]))
    placed = graph.order
    everything = Capability.everything(graph)
    able = [replace(everything, mask=allowed[:, d]) for d in range(2)]
    table = constrain(graph, load_devices([{"name": "GPU"}, {"name": "CPU"}]), able)
    assignment = optimal(Task(table, lambda: costs, {}))
    best = min(price(graph, costs, p, placed).total for p in every_placement(allowed))
    assert assignment.objective == pytest.approx(best) == assignment.bound
    assert price(graph, costs, assignment.device, placed).total == pytest.approx(best)


@PROFILE
@given(priced())
def test_expansion_moves_never_worsen_and_stay_close_to_the_optimum(
    case: tuple[Graph, Costs, np.ndarray],
) -> None:
    graph, costs, allowed = case
    placed = np.arange(len(graph))
    problem = Problem.of(graph, costs, allowed, placed)
    start = np.where(allowed, costs.op, np.inf).argmin(axis=1)
    moves = Expansion(problem)
    label = moves.solve(start)
    best = min(moves.seconds(p) for p in every_placement(allowed))
    assert moves.seconds(label) <= moves.seconds(start) + 1e-9
    assert moves.seconds(label) <= 2 * best + 1e-9, "the guarantee of expansion moves"
    assert moves.seconds(label) == pytest.approx(
        costs.op[placed, label].sum() + transfer_seconds(graph, costs, label, placed)
    )


@PROFILE
@given(priced())
def test_no_placement_beats_the_bound(case: tuple[Graph, Costs, np.ndarray]) -> None:
    graph, costs, allowed = case
    problem = Problem.of(graph, costs, allowed, np.arange(len(graph)))
    moves, bound = Expansion(problem), lower_bound(problem, costs)
    best = min(moves.seconds(p) for p in every_placement(allowed))
    assert np.where(allowed, costs.op, np.inf).min(axis=1).sum() <= bound + 1e-6
    assert bound <= best + 1e-9


@PROFILE
@given(priced(most=6))
def test_best_chain_is_optimal_for_its_order(case: tuple[Graph, Costs, np.ndarray]) -> None:
    graph, costs, allowed = case
    problem = Problem.of(graph, costs, allowed, np.arange(len(graph)))
    order = orders(problem)[0]
    value, label = best_chain(problem, order)
    n, devices = len(problem), costs.op.shape[1]
    best = np.inf
    for sequence in itertools.permutations(range(devices)):
        for cuts in itertools.combinations_with_replacement(range(n + 1), devices - 1):
            trial = np.empty(n, np.int64)
            for device, begin, end in zip(sequence, (0, *cuts), (*cuts, n), strict=True):
                trial[order[begin:end]] = device
            if problem.fits(trial):
                best = min(best, problem.loads(trial).max())
    assert value == pytest.approx(best)
    if np.isfinite(value):
        assert problem.fits(label) and problem.loads(label).max() == pytest.approx(value)


@PROFILE
@given(priced())
def test_segment_costs_equal_device_loads(case: tuple[Graph, Costs, np.ndarray]) -> None:
    graph, costs, _ = case
    problem = Problem.of(graph, costs, np.ones_like(costs.op, bool), np.arange(len(graph)))
    for order in orders(problem, count=2):
        table = segment_costs(problem, order, 0)
        for begin, end in itertools.combinations(range(len(problem) + 1), 2):
            label = np.ones(len(problem), np.int64)
            label[order[begin:end]] = 0
            assert table[begin, end] == pytest.approx(problem.loads(label)[0])


@PROFILE
@given(priced(most=6))
def test_blocks_are_valid_and_no_worse_than_the_host_alone(
    case: tuple[Graph, Costs, np.ndarray],
) -> None:
    graph, costs, _ = case
    host = costs.op.shape[1] - 1
    free = Costs(
        costs.op,
        np.where(np.arange(host + 1) == host, 0, costs.leave),
        np.where(np.arange(host + 1) == host, 0, costs.enter),
        costs.launch,
        True,
    )
    problem = Problem.of(graph, free, np.ones_like(costs.op, bool), np.arange(len(graph)))
    label = best_blocks(problem, orders(problem)[0], host)
    assert np.isfinite(block_latency(problem, label, host))
    assert (
        block_latency(problem, np.full(len(problem), host), host)
        <= problem.time[:, host].sum() + 1e-9
    )


@pytest.mark.parametrize("table", [BOX, BOX[:1] + BOX[2:]])
@pytest.mark.parametrize(
    "name", ["mobilenetv2", "whisper-tiny-decoder", "resnet50", "fcn-resnet101"]
)
def test_optimal_is_never_worse_than_priority_and_within_its_bound(
    name: str, table: list[dict[str, str]]
) -> None:
    define = {"resnet50": {"batch": 1}, "whisper-tiny-decoder": {"batch": 1, "sequence": 8}}.get(
        name, {}
    )
    graph = editor.load_model(EXAMPLES / "models" / f"{name}.onnx", define)
    found = {}
    for policy in ("priority", "optimal"):
        placement = editor.partition(graph, table, policy=policy).placement
        placed = np.flatnonzero(placement.constraints.placed)
        found[policy] = price(
            graph, estimate(graph, placement.devices), placement.assignment.device, placed
        ).total
    assignment = placement.assignment
    assert assignment.objective == pytest.approx(found["optimal"])
    assert found["optimal"] <= found["priority"] * (1 + 1e-12)
    assert assignment.bound is not None and assignment.bound <= found["optimal"]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", sorted(p.name for p in ODDITIES.glob("*.onnx")))
def test_every_policy_places_every_unusual_model(name: str, policy: str) -> None:
    try:
        graph = editor.load_model(ODDITIES / name)
    except editor.ModelError:
        return  # its message is tested elsewhere
    if len(graph) > 10_000:
        return
    if graph.unbound:
        graph = editor.load_model(ODDITIES / name, dict.fromkeys(graph.unbound, 3))
    able = [Capability.everything(graph)] * 2
    plan = editor.partition(
        graph, [{"name": "GPU"}, {"name": "CPU"}], policy=policy, capabilities=able
    )
    for s in plan.subgraphs:
        assert all(d < s.id for d in s.depends_on)
    assert all(plan.why(key).because for key in graph.op_keys[:20])


def test_pins_hold_for_every_policy(mobilenet: Graph) -> None:
    keys = [k for i, k in enumerate(mobilenet.op_keys) if not mobilenet.op_is_constant[i]]
    for policy in POLICIES:
        pins = {keys[-1]: "CPU"} if policy == "pipeline" else {keys[10]: "CPU", keys[50]: "NPU"}
        plan = editor.partition(mobilenet, BOX, policy=policy, pins=pins)
        assert {k: plan.affinity[k] for k in pins} == pins
        assert plan.affinity == editor.partition(mobilenet, BOX, policy=policy, pins=pins).affinity


def test_throughput_is_no_worse_than_the_pipeline_and_works_without_contiguous_stages(
    mobilenet: Graph,
) -> None:
    found = {}
    for policy, options in (("pipeline", {}), ("optimal", {"objective": "throughput"})):
        assignment = editor.partition(
            mobilenet, BOX, policy=policy, policy_options=options
        ).placement.assignment
        assert assignment.objective is not None and assignment.bound is not None
        assert assignment.bound <= assignment.objective
        found[policy] = assignment.objective
    assert found["optimal"] <= found["pipeline"]
    rules = [{"type": "Conv", "to": "device:GPU"}]
    units = [
        {"name": "GPU0", "backendName": "GPU", "unit": 0},
        {"name": "GPU1", "backendName": "GPU", "unit": 1},
        {"name": "CPU", "nonSupportedNodes": "Gemm"},
    ]
    plan = editor.partition(
        mobilenet,
        units,
        rules=[*rules, {"type": "Clip", "to": "CPU"}],
        policy="optimal",
        policy_options={"objective": "throughput"},
    )
    convolutions = [
        plan.affinity[k] for i, k in enumerate(mobilenet.op_keys) if mobilenet.op_types[i] == "Conv"
    ]
    assert set(convolutions) == {"GPU0", "GPU1"}, (
        "rules fix the device, units inside it are balanced"
    )
    assert 15 <= convolutions.count("GPU0") <= 37


def test_memory_limits_hold(reference_models: Path) -> None:
    graph = editor.load_model(reference_models / "fcn.onnx")
    limits = {"GPU": 120 << 20, "CPU": 200 << 20}
    table = [{"name": n, "memory": str(v)} for n, v in limits.items()]
    plan = editor.partition(graph, table, policy="memory")
    used = plan.run_memory.peaks
    assert all(used[n] <= limits[n] for n in limits) and used["GPU"] > 60 << 20
    assert len(plan.subgraphs) <= 4


def test_the_error_states_the_excess_bytes(reference_models: Path) -> None:
    graph = editor.load_model(reference_models / "fcn.onnx")
    with pytest.raises(
        editor.EditorError,
        match=r"117,043,624 bytes\) too few(?s:.*)Heaviest constants.*: .*37.75 MB",
    ):
        editor.partition(
            graph,
            [{"name": "GPU", "memory": "50MB"}, {"name": "CPU", "memory": "50MB"}],
            policy="memory",
        )


def test_flops_match_the_textbook() -> None:
    graph = editor.load_model(EXAMPLES / "models" / "mobilenetv2.onnx")
    assert op_flops(graph).sum() / 2e9 == pytest.approx(0.30, abs=0.02), (
        "MobileNetV2 1.0 at 224 has 300 M multiply-adds"
    )
    resnet = editor.load_model(EXAMPLES / "models" / "resnet50.onnx", {"batch": 2})
    assert op_flops(resnet).sum() == pytest.approx(
        2 * op_flops(editor.load_model(EXAMPLES / "models" / "resnet50.onnx", {"batch": 1})).sum(),
        rel=0.01,
    )


@pytest.mark.parametrize("refused", ["Clip", "Add", "Conv"])
def test_throughput_starts_from_the_best_placement_that_is_known(
    mobilenet: Graph, refused: str
) -> None:
    table = [{"name": "NPU", "nonSupportedNodes": refused}, {"name": "CPU"}]
    search = {"objective": "throughput", "search": 0}
    best = editor.partition(mobilenet, table, policy="optimal", policy_options=search).placement
    costs = estimate(mobilenet, best.devices)
    for policy in ("optimal", "pipeline", "priority"):
        other = editor.partition(mobilenet, table, policy=policy).placement
        assert best.assignment.objective == pytest.approx(best.busiest_seconds(costs))
        assert best.busiest_seconds(costs) <= other.busiest_seconds(costs) * (1 + 1e-9), policy


def test_within_memory_nothing_is_slower_than_stages_that_fit(mobilenet: Graph) -> None:
    table = [
        {"name": "GPU.0", "memory": "10MB"},
        {"name": "GPU.1", "memory": "10MB"},
        {"name": "CPU", "memory": "64MB"},
    ]
    stages = editor.partition(mobilenet, table, policy="pipeline")
    assert all(stages.run_memory.peaks[d.name] <= (d.memory or 0) for d in stages.devices), (
        "they fit"
    )
    placed = np.flatnonzero(stages.placement.constraints.placed)
    total = price(
        mobilenet, estimate(mobilenet, stages.devices), stages.placement.assignment.device, placed
    ).total
    within = editor.partition(mobilenet, table, policy="memory")
    assert within.placement.assignment.objective is not None
    most = 1.02  # blocks may leave a device that is nearly full for that
    assert within.placement.assignment.objective <= total * most


def eight_layers(folder: Path) -> Path:
    return fused_decoder(folder, layers=8, hidden=128)


@pytest.mark.parametrize("share", [0.7, 0.9])
def test_no_memory_is_nearly_full_where_an_evener_split_is_as_cheap(
    share: float, tmp_path: Path
) -> None:
    """A was full to 99.7 %, and B to 21 %, at the price of halves."""
    model = eight_layers(tmp_path)
    whole = editor.partition(model, [{"name": "A", "backendName": "CPU"}]).run_memory.peaks["A"]
    limit = int(share * whole)
    table = [{"name": n, "backendName": "CPU", "memory": str(limit)} for n in "AB"]
    plan = editor.partition(model, table, policy="memory")
    assert max(plan.run_memory.peaks.values()) <= 0.9 * limit
    halves = editor.partition(model, table, policy="memory", rules=[{"layer": "4-7", "to": "B"}])
    assert plan.placement.assignment.objective is not None
    assert halves.placement.assignment.objective is not None
    assert plan.placement.assignment.objective <= 1.02 * halves.placement.assignment.objective


def test_a_split_within_memory_has_room_for_what_runtimes_add_where_that_costs_little(
    tmp_path: Path,
) -> None:
    """It held 57 of 60 MB on the faster device, with the remark that it does not fit with what runtimes add."""
    model = eight_layers(tmp_path)
    fast = {"name": "A", "backendName": "CPU", "peakCompute": "200 GFLOPS", "peakDramBw": "20 GB/s"}
    slow = {"name": "B", "backendName": "CPU", "peakCompute": "160 GFLOPS", "peakDramBw": "16 GB/s"}
    whole = editor.partition(model, [fast]).run_memory.peaks["A"]
    limited = [{**each, "memory": str(int(0.8 * whole))} for each in (fast, slow)]
    plan = editor.partition(model, limited, policy="memory")
    assert plan.run_memory.over_with_runtimes == ""
    halves = editor.partition(model, limited, policy="memory", rules=[{"layer": "4-7", "to": "B"}])
    assert plan.placement.assignment.objective is not None
    assert halves.placement.assignment.objective is not None
    assert plan.placement.assignment.objective <= halves.placement.assignment.objective


def test_reasons_within_memory_say_what_holds_for_devices_that_are_alike(tmp_path: Path) -> None:
    """ "No room on B" was said of ops that B had room for, and "the only device" where a rule left one."""
    model = eight_layers(tmp_path)
    whole = editor.partition(model, [{"name": "A", "backendName": "CPU"}]).run_memory.peaks["A"]
    table = [{"name": n, "backendName": "CPU", "memory": str(int(0.8 * whole))} for n in "AB"]
    plan = editor.partition(model, table, policy="memory", rules=[{"layer": "4-7", "to": "B"}])
    why = {key: plan.placement.why(key) for key in ("attention_0", "attention_5")}
    assert why["attention_0"].device == "A"
    assert "as fast as on B, which has no room for all that would be there: " in (
        why["attention_0"].because
    )
    assert why["attention_5"].because == "rule 1 (layer=4-7 → B)"
    lacking = plan.placement.assignment.no_room
    assert lacking is not None
    assert lacking[plan.graph.key_index["attention_0"]] < 0
    free = editor.partition(model, table, policy="memory").placement
    said = {free.why(key).because for key in free.affinity if free.affinity[key] == "A"}
    alike = [because for because in said if "as good on B" in because]
    assert alike
    assert all(b.endswith("; the split keeps each device within its memory") for b in alike)


def test_a_split_of_a_model_with_a_state_has_room_for_what_runtimes_add_at_any_price(
    tmp_path: Path,
) -> None:
    """Two ops went to a slow device; and the page said that the plan has no room for its own context."""
    model = eight_layers(tmp_path)
    fast = {"name": "A", "backendName": "CPU", "peakCompute": "200 GFLOPS", "peakDramBw": "20 GB/s"}
    slow = {"name": "B", "backendName": "CPU", "peakCompute": "10 GFLOPS", "peakDramBw": "1 GB/s"}
    whole = editor.partition(model, [fast]).run_memory.peaks["A"]
    table = [{**each, "memory": str(int(0.95 * whole))} for each in (fast, slow)]
    plan = editor.partition(model, table, policy="memory")
    assert plan.run_memory.over_with_runtimes == ""
    assert plan.placement.op_counts["B"] > 10, "a layer or more, not an op or two"


@pytest.mark.parametrize(("share", "stays"), [(0.9, True), (0.8, False)])
def test_a_pin_at_the_border_of_devices_that_are_alike_moves_no_other_layer(
    share: float, stays: bool, tmp_path: Path
) -> None:
    """All layers changed places with those of the other card, as the pinned one then had no border of its own.

    They do where the other card would have no room for one more with what its runtime adds.
    """
    model = eight_layers(tmp_path)
    whole = editor.partition(model, [{"name": "A", "backendName": "CPU"}]).run_memory.peaks["A"]
    table = [{"name": n, "backendName": "CPU", "memory": str(int(share * whole))} for n in "AB"]
    before = editor.partition(model, table, policy="memory")
    was = [before.affinity[f"attention_{i}"] for i in range(8)]
    last = was.index("B") - 1
    after = editor.partition(model, table, policy="memory", pins={f"attention_{last}": "B"})
    now = [after.affinity[f"attention_{i}"] for i in range(8)]
    assert now[last] == "B" and ([i for i in range(8) if now[i] != was[i]] == [last]) is stays
    assert len(after.subgraphs) == len(before.subgraphs)
    assert after.run_memory.over_with_runtimes == ""


@PROFILE
@given(priced(most=6), st.integers(0, 3))
def test_devices_of_one_processor_take_turns_in_search_and_bounds(
    case: tuple[Graph, Costs, np.ndarray], shared: int
) -> None:
    graph, costs, allowed = case
    devices = costs.op.shape[1]
    processor = np.minimum(np.arange(devices), max(shared, 0)).astype(np.int64)
    problem = Problem.of(graph, costs, allowed, np.arange(len(graph)), processor=processor)
    best = min(value_of(problem, p, BUSIEST) for p in every_placement(allowed))
    start = next(iter(every_placement(allowed)))
    assert (
        busiest_bound(problem) <= best + 1e-9
        and relaxed_bound(problem, busiest=True) <= best + 1e-9
    )
    found = improve(problem, start, BUSIEST, 1.0)
    assert found.bound <= best + 1e-9 <= found.value + 2e-9
    if not shared:
        assert best == pytest.approx(min(problem.loads(p).sum() for p in every_placement(allowed)))


def test_throughput_does_not_promise_that_runtimes_of_one_cpu_run_at_once(mobilenet: Graph) -> None:
    """The layout called best throughput had fewer requests a second than the plan that it was compared with."""
    table = [{"name": "a", "backendName": "CPU"}, {"name": "b", "backendName": "openvino"}]
    plans = [
        editor.partition(
            mobilenet, table, policy="optimal", policy_options={"objective": objective}
        ).placement
        for objective in ("throughput", "latency")
    ]
    costs = estimate(mobilenet, plans[0].devices)
    most, least = (plan.busiest_seconds(costs) for plan in plans)
    assert most <= least * (1 + 1e-9)
    assert most == pytest.approx(plans[0].assignment.objective), (
        "the figure of the policy is that of the layouts"
    )


def test_the_rate_of_a_plan_knows_its_launches(mobilenet: Graph) -> None:
    """On one processor nothing runs at once, so many requests take what one takes as many times."""
    plan = editor.partition(
        mobilenet, EXAMPLES / "devices" / "runtimes.yaml", policy="priority"
    ).placement
    costs = estimate(mobilenet, plan.devices)
    assert len(plan.subgraphs) > 2
    assert plan.busiest_seconds(costs) == pytest.approx(plan.price(costs).total)
    assert predicted_rate(plan, costs, 8) == pytest.approx(1 / plan.price(costs).total)


@pytest.mark.parametrize(("faster", "alone"), [(0.9, True), (1.2, False)])
def test_throughput_knows_what_the_whole_model_takes_on_one_device(
    mobilenet: Graph, faster: float, alone: bool
) -> None:
    """By a profile the whole model may be faster on a device than the sum of its ops; a split by sums was called the best."""
    devices = load_devices("HETERO:GPU,CPU")
    table = constrain(mobilenet, devices, [Capability.everything(mobilenet)] * 2)
    costs = estimate(mobilenet, devices)
    options = {
        "objective": "throughput",
        "search": 0,
    }  # how far a search comes depends on the machine
    best = optimal(Task(table, lambda: costs, options))
    assert best.objective is not None and best.bound is not None
    whole = np.array([best.objective * faster, np.nan])
    profiled = replace(costs, whole=whole, estimated=False)
    found = optimal(Task(table, lambda: profiled, options))
    assert found.objective == pytest.approx(
        best.objective * faster if alone else best.objective, rel=0.01
    )
    assert (found.device[found.device >= 0] == 0).all() == alone
    assert found.bound is not None and found.bound <= min(found.objective, whole[0]) + 1e-12
    plan = editor.partition(mobilenet, "HETERO:GPU,CPU").placement
    assert plan.busiest_seconds(profiled) == pytest.approx(
        min(whole[0], plan.busiest_seconds(costs))
    )


def test_throughput_stays_on_a_device_that_has_no_profile_where_that_is_faster(
    mobilenet: Graph,
) -> None:
    """All ops went to the device with a profile, 29 times as slow, because only its whole model was measured."""
    devices = load_devices("HETERO:GPU,CPU")
    table = constrain(mobilenet, devices, [Capability.everything(mobilenet)] * 2)
    costs = estimate(mobilenet, devices)
    on_gpu = float(costs.op[table.placed, 0].sum())
    slow = replace(costs, op=costs.op * np.array([1.0, 1000.0]), whole=np.array([np.nan, 1.0]))
    assert on_gpu < 0.1
    found = optimal(Task(table, lambda: slow, {"objective": "throughput", "search": 0}))
    assert (found.device[table.placed] == 0).all()
    assert found.objective is not None and found.objective < 0.1


def test_memory_moves_ops_beside_large_tensors_where_that_pays_more_than_moving_weights(
    mobilenet: Graph,
) -> None:
    """With 4 MB, less room for weights alone ended at 5 ops and 6.66 ms: the first layers have large tensors."""
    devices = load_devices(
        [
            {"name": "GPU", "backendName": "GPU", "memory": "4MB"},
            {"name": "CPU", "backendName": "CPU"},
        ]
    )
    found = solve(mobilenet, devices, Settings("memory"), [Capability.everything(mobilenet)] * 2)
    assert found.run_memory.peaks["GPU"] <= 4_000_000
    assert found.op_counts["GPU"] >= 15
    assert found.assignment.objective is not None and found.assignment.objective < 6.6e-3


@pytest.mark.parametrize(
    ("policy", "options"),
    [("priority", {}), ("optimal", {}), ("optimal", {"objective": "throughput"})],
)
def test_figures_are_of_the_subgraphs_that_a_plan_has(
    tmp_path: Path, policy: str, options: dict[str, str]
) -> None:
    """Those of the rule `minimal` stood beside twice as many subgraphs."""
    # two chains with an op on the GPU each: what is not connected may be one subgraph, and is two in OpenVINO
    path = write_dag(tmp_path / "dag.onnx", [[], [0], [1], [2], [0], [4], [5], [6], [3, 7]])
    graph = editor.load_model(path)
    pins = {key: "GPU" if op in (2, 5) else "CPU" for op, key in enumerate(graph.op_keys)}
    few, many = (
        editor.partition(
            graph,
            "HETERO:GPU,CPU",
            policy=policy,
            policy_options=options,
            pins=pins,
            subgraphs=rule,
        ).placement
        for rule in ("minimal", "connected")
    )
    assert few.affinity == many.affinity and len(many.subgraphs) > len(few.subgraphs)
    costs = costs_of(graph, few.devices, "estimate")
    launches = sum(costs.launch[many.device_number(s.device)] for s in many.subgraphs)
    assert (
        many.price(costs).launches == pytest.approx(launches)
        and many.price(costs).total > few.price(costs).total
    )
    assert many.busiest_seconds(costs) > few.busiest_seconds(costs)
    if policy == "optimal":
        reached = many.busiest_seconds(costs) if options else many.price(costs).total
        assert many.assignment.objective == pytest.approx(reached)


def test_a_search_for_throughput_takes_its_budget_once(
    mobilenet: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It searched for the least latency with the whole budget first, and then with the whole budget for throughput."""
    budgets: list[float] = []
    real = improve

    def counted(problem: Any, label: Any, objective: Any, seconds: float, *more: Any) -> Any:
        budgets.append(seconds)
        return real(problem, label, objective, 0.01, *more)

    monkeypatch.setattr(optimal_policy, "improve", counted)
    table = [
        {"name": name, "backendName": "NPU", "peakCompute": 1e12, "power": "5 W"} for name in "ABC"
    ]
    for objective in ("throughput", "latency", "energy"):
        budgets.clear()
        editor.partition(
            mobilenet, table, policy="optimal", policy_options={"objective": objective, "search": 4}
        )
        assert budgets and sum(budgets) <= 4.0


def test_a_new_policy_is_a_function_and_an_entry(
    mobilenet: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command line, the page and the solver know it then; and what it returns is checked."""
    module = types.ModuleType("editor.placement.policies.last")

    def last(task: Task) -> Assignment:
        allowed = task.constraints.allowed
        device = allowed.shape[1] - 1 - allowed[:, ::-1].argmax(axis=1)
        return Assignment(device, lambda _op: "the last device that may run it")

    module.last = last  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    entry = PolicyEntry("editor.placement.policies.last:last", {"": "Last capable device"})
    monkeypatch.setitem(POLICIES, "last", entry)
    policy_of.cache_clear()
    plan = editor.partition(mobilenet, "HETERO:CPU,Interpreter", policy="last")
    assert set(plan.affinity.values()) == {"Interpreter"}
    assert "the last device" in str(plan.why("logits"))
    assert policy_choices()["last"] == "Last capable device"

    module.last = lambda _task: Assignment(np.full(3, 0), lambda _op: "")  # type: ignore[attr-defined]
    policy_of.cache_clear()
    with pytest.raises(AssertionError, match="last: "):
        editor.partition(mobilenet, "HETERO:CPU", policy="last")
    policy_of.cache_clear()


@pytest.mark.parametrize(
    ("policy", "rules", "why"),
    [
        ("priority", [], "Host comes first for all that it can run"),
        ("optimal", [], "no faster plan with it was found"),
        ("memory", [], "no faster plan with it was found"),
        ("pipeline", [], "no plan with it and a higher rate was found"),
        (
            "priority",
            [{"name": "*", "to": "Host"}],
            "pins and rules have all that it can run elsewhere",
        ),
    ],
)
def test_an_empty_device_says_why(policy: str, rules: list[dict[str, str]], why: str) -> None:
    devices = [
        {"name": "Host", "backendName": "CPU", "peakCompute": 1e12, "peakDramBw": 1e11},
        {"name": "Slow", "backendName": "CPU", "peakCompute": 1e6, "peakDramBw": 1e6},
        {
            "name": "Other",
            "backendName": "CUDA",
            "peakCompute": 1e6,
            "peakDramBw": 1e6,
            "supportedNodes": "Einsum",
        },
    ]
    placement = editor.partition(
        EXAMPLES / "models" / "mobilenetv2.onnx", devices, policy, rules=rules
    ).placement
    assert placement.op_counts["Slow"] == 0
    assert why_empty(placement, 1) == why
    assert why_empty(placement, 2) == "it can run none of them"
