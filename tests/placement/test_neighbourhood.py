"""Large neighbourhood search never worsens a placement, and bounds hold; against all placements of small problems."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from conftest import EXAMPLES
from hypothesis import given, settings
from hypothesis import strategies as st

import editor
from editor.errors import EditorError
from editor.placement.placement import Settings, solve
from editor.placement.policies import neighbourhood
from editor.placement.policies.memory import filled_by_regions
from editor.placement.policies.neighbourhood import BUSIEST, TOTAL, improve, value_of
from editor.placement.policies.problem import Problem, Tensor, relaxed_bound

SECONDS = st.integers(1, 50).map(lambda n: n * 1e-4)


@st.composite
def small_problems(draw: st.DrawFn) -> Problem:
    """At most six nodes on three devices, with weights that may not fit everywhere."""
    count, devices = draw(st.integers(1, 6)), 3
    time = np.array(
        draw(st.lists(SECONDS, min_size=count * devices, max_size=count * devices))
    ).reshape(count, devices)
    can = draw(st.lists(st.booleans(), min_size=count * devices, max_size=count * devices))
    allowed = np.array(can).reshape(count, devices)
    allowed[:, 0] = True
    size = np.array(draw(st.lists(st.integers(0, 5), min_size=count, max_size=count)), np.float64)
    capacity = np.array([np.inf, draw(st.integers(0, 12)), np.inf])
    tensors = []
    for source in range(count - 1):
        readers = draw(st.lists(st.integers(source + 1, count - 1), max_size=3, unique=True))
        if readers:
            link = [(draw(SECONDS), draw(SECONDS), 0.0) for _ in range(2)]
            tensors.append(Tensor(source, tuple(sorted(readers)), *link))
    return Problem.build(time, allowed, size, capacity, tensors)


def every_value(problem: Problem, objective: str) -> float:
    """The least value of all placements."""
    choices = [np.flatnonzero(row).tolist() for row in problem.allowed]
    labels = (np.array(label) for label in itertools.product(*choices))
    return min(value_of(problem, label, objective) for label in labels if problem.fits(label))


@settings(max_examples=40)
@given(small_problems(), st.sampled_from([BUSIEST, TOTAL]))
def test_small_problems_are_solved_and_no_bound_is_above_the_optimum(
    problem: Problem, objective: str
) -> None:
    start = np.zeros(len(problem), np.int64)
    least = every_value(problem, objective)
    relaxed = relaxed_bound(problem, objective == BUSIEST)
    assert 0 < relaxed <= least * (1 + 1e-9)
    found = improve(problem, start, objective, 1.0, relaxed)
    assert problem.fits(found.label) and found.value == value_of(problem, found.label, objective)
    assert found.value == pytest.approx(least, rel=1e-4)
    assert found.bound <= least * (1 + 1e-9)


def chain_of_branches(count: int = 60, devices: int = 4) -> Problem:
    """Too large to be solved as a whole within the budgets below."""
    rng = np.random.default_rng(3)
    tensors = []
    for v in range(count - 1):
        link = tuple(rng.random(devices) * 1e-4)
        tensors.append(
            Tensor(
                v, tuple(sorted({v + 1, min(v + int(rng.integers(1, 9)), count - 1)})), link, link
            )
        )
    return Problem.build(
        rng.random((count, devices)) * 1e-3,
        np.ones((count, devices), bool),
        np.zeros(count),
        np.full(devices, np.inf),
        tensors,
    )


@pytest.mark.parametrize("objective", [BUSIEST, TOTAL])
def test_the_search_is_repeatable_improves_and_ends_when_told(
    objective: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        neighbourhood, "_WALL_FACTOR", 1000.0
    )  # a busy machine ends no search early
    problem = chain_of_branches()
    start = np.zeros(len(problem), np.int64)
    once, again = (improve(problem, start, objective, 0.3, seed=1) for _ in range(2))
    assert (
        once.value < value_of(problem, start, objective)
        and once.label.tolist() == again.label.tolist()
    )
    stopped = improve(problem, once.label, objective, 1000.0, should_stop=lambda: True)
    assert stopped.value <= once.value


def test_a_search_ends_soon_after_it_is_told_to_while_the_solver_works() -> None:
    asked: list[bool] = []

    def should_stop() -> bool:
        asked.append(
            len(asked) > 3
        )  # not before the first round, which may take thousands of seconds
        return asked[-1]

    problem = chain_of_branches(200)
    start = np.zeros(len(problem), np.int64)
    found = improve(problem, start, TOTAL, 10_000.0, should_stop=should_stop)
    assert found.value <= value_of(problem, start, TOTAL) and len(asked) < 100


def test_optimal_with_three_devices_states_a_close_bound() -> None:
    graph = editor.load_model(EXAMPLES / "models" / "mobilenetv2.onnx")
    plan = editor.partition(graph, "HETERO:GPU,NPU,CPU", policy="optimal")
    found = plan.placement.assignment
    assert (
        found.objective is not None and found.bound is not None and found.bound <= found.objective
    )
    none = solve(graph, plan.devices, Settings("optimal", {"search": 0}))
    assert (
        none.assignment.objective is not None
        and found.objective <= none.assignment.objective * (1 + 1e-9)
    )


@pytest.mark.parametrize("seconds", ["long", -1, None, float("nan"), 1e9])
def test_a_search_that_is_no_number_of_seconds_is_an_error(seconds: object) -> None:
    graph = editor.load_model(EXAMPLES / "models" / "mobilenetv2.onnx")
    with pytest.raises(EditorError, match="search"):
        editor.partition(
            graph, "HETERO:GPU,NPU,CPU", policy="optimal", policy_options={"search": seconds}
        )


@st.composite
def repeated_layers(draw: st.DrawFn) -> tuple[Problem, np.ndarray]:
    """A chain of layers of two nodes on a fast device with little room and a slow one with all, and bytes of tensors."""
    layers, room = draw(st.integers(2, 8)), draw(st.integers(2, 12))
    time = np.tile([[1.0, 5.0], [0.2, 0.3]], (layers, 1)) * 1e-3
    size = np.tile([float(draw(st.integers(1, 4))), 0.0], layers)
    cost = draw(st.integers(1, 9)) * 1e-4
    tensors = [Tensor(i, (i + 1,), (cost, cost), (cost, cost)) for i in range(2 * layers - 1)]
    bytes_there = np.array(
        draw(st.lists(st.integers(0, 6), min_size=2 * layers, max_size=2 * layers)), np.float64
    )
    return Problem.build(
        time, np.ones((2 * layers, 2), bool), size, np.array([float(room), np.inf]), tensors
    ), bytes_there


@settings(max_examples=60)
@given(repeated_layers())
def test_a_device_with_little_room_gets_some_of_the_layers_that_repeat(
    made: tuple[Problem, np.ndarray],
) -> None:
    """A price per byte keeps all of them off it, or none: they gain the same for each byte."""
    problem, tensors = made
    ideal, slow = np.zeros(len(problem), np.int64), np.ones(len(problem), np.int64)

    def fits(label: np.ndarray) -> bool:
        here = label == 0
        return bool(
            problem.size[here].sum() + tensors[here].max(initial=0.0) <= problem.capacity[0]
        )

    found = list(filled_by_regions(problem, ideal, tensors, fits))
    assert all(fits(label) and problem.fits(label) for label in found)
    least = min(value_of(problem, label, TOTAL) for label in [*found, slow])
    assert not (problem.used(ideal) > problem.capacity).any() or found
    first_layer = np.where(np.arange(len(problem)) < 2, 0, 1)
    if found and fits(first_layer):
        assert least <= value_of(problem, first_layer, TOTAL) + 1e-12
