"""Joules of a placement, and the objective that wants few of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from conftest import EXAMPLES
from hypothesis import given
from hypothesis import strategies as st
from test_policies import PROFILE, every_placement, priced

import editor
from editor.devices.table import load_devices
from editor.graph.graph import Graph
from editor.kinds import Basis, Kind
from editor.placement.chosen_costs import costs_of_plan
from editor.placement.constraints import constrain
from editor.placement.costs import Costs, price
from editor.placement.energy import energy_of
from editor.placement.placement import placement_of_groups
from editor.placement.policies import exact
from editor.placement.policies.optimal import optimal
from editor.placement.policies.task import Task
from editor.placement.subgraphs.minimal import minimal
from editor.runtimes.base import Capability

BOX = [
    {"name": "GPU", "backendName": "GPU", "power": "200 W"},
    {"name": "NPU", "backendName": "NPU", "power": "2 W", "nonSupportedNodes": "Softmax"},
    {"name": "CPU", "power": "15 W"},
]


def joules_of(graph: Graph, costs: Costs, watts: np.ndarray, device: np.ndarray) -> float:
    """By the words of the docs, one op, tensor and subgraph after the other."""
    placed = graph.order
    ends = np.zeros_like(costs.op) if costs.ends is None else costs.ends
    total = sum((costs.op + ends)[op, device[op]] * watts[device[op]] for op in placed)
    producer, consumer, tensor = graph.edges
    sent, received = set(), set()
    for p, c, t in zip(producer.tolist(), consumer.tolist(), tensor.tolist(), strict=True):
        if device[p] != device[c]:
            sent.add((t, int(device[p])))
            received.add((t, int(device[c])))
    total += sum(costs.leave[one] * watts[one[1]] for one in sent)
    total += sum(costs.enter[one] * watts[one[1]] for one in received)
    groups = minimal(graph, device, placed)
    of_group = {int(groups[op]): int(device[op]) for op in placed}
    return float(total + sum(costs.launch[d] * watts[d] for d in of_group.values()))


def with_launches(costs: Costs, seconds: float, devices: int) -> Costs:
    return replace(costs, launch=np.full(devices, seconds))


def task_of(
    case: tuple[Graph, Costs, np.ndarray], watts: np.ndarray, options: dict[str, Any]
) -> Task:
    graph, costs, allowed = case
    everything = Capability.everything(graph)
    able = [replace(everything, mask=allowed[:, d]) for d in range(len(watts))]
    table = [
        {"name": f"D{d}", "backendName": "NPU", "power": f"{w:.17g}"} for d, w in enumerate(watts)
    ]
    costs_of = lambda: costs  # noqa: E731
    return Task(
        constrain(graph, load_devices(table), able), costs_of, {"objective": "energy", **options}
    )


WATTS = st.floats(0.5, 50)


@PROFILE
@given(priced(), st.floats(0, 8), WATTS, WATTS, WATTS)
def test_joules_are_seconds_of_ops_transfers_and_launches_times_the_watts_of_their_device(
    case: tuple[Graph, Costs, np.ndarray], launch: float, a: float, b: float, c: float
) -> None:
    graph, costs, allowed = case
    devices = allowed.shape[1]
    costs, watts = with_launches(costs, launch, devices), np.array([a, b, c])[:devices]
    table = load_devices(
        [{"name": f"D{d}", "backendName": "NPU", "power": f"{w:.17g}"} for d, w in enumerate(watts)]
    )
    device = every_placement(allowed)[-1]
    placement = placement_of_groups(graph, table, device, minimal(graph, device, graph.order))
    found = energy_of(placement, costs, Basis(Kind.PREDICTION, "from profile"))
    assert found is not None and found.total == pytest.approx(
        joules_of(graph, costs, watts, device)
    )
    assert str(found.basis) == "estimate from stated watts and times from profile"
    assert placement.busy_seconds(costs).sum() == pytest.approx(placement.price(costs).total)


@PROFILE
@given(priced(devices=2), st.floats(0, 8), WATTS, WATTS, st.floats(0, 1))
def test_small_problems_have_the_fewest_joules_within_the_limit(
    case: tuple[Graph, Costs, np.ndarray], launch: float, first: float, second: float, share: float
) -> None:
    """Against all placements; the limit lies anywhere between the fastest of them and the slowest."""
    graph, costs, allowed = case
    costs, watts = with_launches(costs, launch, 2), np.array([first, second])
    every = every_placement(allowed)
    seconds = [price(graph, costs, p, graph.order).total for p in every]
    limit = min(seconds) + share * (max(seconds) - min(seconds))
    task = task_of((graph, costs, allowed), watts, {"within": f"{limit * (1 + 1e-12):.17g}"})
    found = optimal(task)
    best = min(
        joules_of(graph, costs, watts, p)
        for p, s in zip(every, seconds, strict=True)
        if s <= limit * (1 + 1e-12)
    )
    assert found.objective == pytest.approx(best) == found.bound
    assert joules_of(graph, costs, watts, found.device) == pytest.approx(best)
    assert price(graph, costs, found.device, graph.order).total <= limit * (1 + 1e-9)
    free = optimal(task_of((graph, costs, allowed), watts, {}))
    assert free.objective == pytest.approx(min(joules_of(graph, costs, watts, p) for p in every))
    assert (free.objective_name, free.in_joules) == ("energy", True)


@PROFILE
@given(priced(), st.floats(0, 8), WATTS, WATTS, WATTS, st.floats(0, 1))
def test_what_is_not_enumerated_keeps_the_limit_and_the_bound_holds(
    case: tuple[Graph, Costs, np.ndarray],
    launch: float,
    a: float,
    b: float,
    c: float,
    share: float,
) -> None:
    graph, costs, allowed = case
    devices = allowed.shape[1]
    costs, watts = with_launches(costs, launch, devices), np.array([a, b, c])[:devices]
    every = every_placement(allowed)
    seconds = [price(graph, costs, p, graph.order).total for p in every]
    limit = min(seconds) + share * (max(seconds) - min(seconds))
    text = {"within": f"{limit * (1 + 1e-12):.17g}", "search": 0}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "MAX_PLACEMENTS", 1)
        try:
            found = optimal(task_of((graph, costs, allowed), watts, text))
        except editor.EditorError as error:
            assert "no placement was found" in str(error)
            return
    best = min(
        joules_of(graph, costs, watts, p)
        for p, s in zip(every, seconds, strict=True)
        if s <= limit * (1 + 1e-12)
    )
    assert price(graph, costs, found.device, graph.order).total <= limit * (1 + 1e-9)
    assert found.objective is not None and found.bound is not None
    assert found.bound <= best * (1 + 1e-9) <= found.objective * (1 + 2e-9)


@pytest.mark.parametrize("model", ["mobilenetv2", "whisper-tiny-decoder"])
def test_a_limit_of_latency_costs_joules_step_by_step(model: str) -> None:
    graph = editor.load_model(EXAMPLES / "models" / f"{model}.onnx")

    def plan(**options: object) -> editor.Plan:
        return editor.partition(
            graph, BOX, policy="optimal", policy_options={"search": 0, **options}
        )

    fastest, frugal = plan(), plan(objective="energy")
    slow, fast = (
        each.placement.price(costs_of_plan(each.placement)[0]).total for each in (frugal, fastest)
    )
    most, least = fastest.energy(), frugal.energy()
    assert most and least and most.total and least.total and least.total < most.total
    before = least.total
    for share in (0.9, 0.5, 0.1):
        limit = fast + share * (slow - fast)
        tried = plan(objective="energy", within=f"{limit:.17g}")
        assert tried.placement.price(costs_of_plan(tried.placement)[0]).total <= limit * (1 + 1e-9)
        energy = tried.energy()
        assert energy is not None and energy.total is not None
        assert tried.placement.assignment.objective == pytest.approx(energy.total)
        assert before * (1 - 1e-9) <= energy.total <= most.total * (1 + 1e-9)
        before = energy.total


def test_a_limit_that_nothing_meets_is_said_in_a_sentence(mobilenet: Graph) -> None:
    with pytest.raises(
        editor.EditorError,
        match=r"no placement was found that takes at most 1 µs \(policy option within\): the fastest takes .* and none is "
        r"below .*\. Raise the limit, or leave it out",
    ):
        editor.partition(
            mobilenet,
            BOX,
            policy="optimal",
            policy_options={"objective": "energy", "within": "1us"},
        )


@pytest.mark.parametrize(
    ("devices", "options", "said"),
    [
        ("HETERO:GPU,CPU", {"objective": "energy"}, "needs the watts of GPU and CPU: state them"),
        (BOX, {"objective": "energy", "within": "soon"}, "'soon' is not a time such as 12ms"),
        (BOX, {"objective": "energy", "within": 0}, "0 is not a time such as 12ms"),
        (BOX, {"within": "12ms"}, "within: it belongs to the objective energy"),
    ],
)
def test_what_the_objective_lacks_is_said(
    mobilenet: Graph, devices: Any, options: dict[str, object], said: str
) -> None:
    with pytest.raises(editor.EditorError, match=said):
        editor.partition(mobilenet, devices, policy="optimal", policy_options=options)


def test_a_device_that_may_run_nothing_needs_no_watts(mobilenet: Graph) -> None:
    table = [
        {"name": "CPU", "power": "15 W"},
        {"name": "NPU", "backendName": "NPU", "supported": "Erf"},
    ]
    plan = editor.partition(
        mobilenet, table, policy="optimal", policy_options={"objective": "energy"}
    )
    assert set(plan.affinity.values()) == {"CPU"}


def test_energy_is_not_said_where_no_watts_are_stated(mobilenet: Graph) -> None:
    assert editor.partition(mobilenet, "HETERO:GPU,CPU").energy() is None
    some = [BOX[0], {"name": "CPU"}]
    plan = editor.partition(mobilenet, some, rules=[{"type": "Conv", "to": "CPU"}])
    energy = plan.energy()
    assert energy is not None and energy.total is None and list(energy.joules) == ["GPU"]
    assert str(energy).endswith("without CPU, whose power is not stated")


def test_reasons_are_in_joules(mobilenet: Graph) -> None:
    plan = editor.partition(
        mobilenet, BOX, policy="optimal", policy_options={"objective": "energy", "search": 0}
    )
    said = [plan.why(key).because for key in plan.affinity]
    assert any("least energy for this op" in one and "J on GPU" in one for one in said)
