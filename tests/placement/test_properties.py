"""Properties that hold for every graph, table and set of pins."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from conftest import write_dag
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import editor
from editor.graph.graph import Graph
from editor.placement.subgraphs.minimal import minimal
from editor.runtimes.base import Capability

PROFILE = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
NAMES = "ABCD"


@st.composite
def problems(
    draw: st.DrawFn, most: int = 24, devices: int = 4
) -> tuple[Graph, list[dict[str, str]], list[Capability], dict[str, str]]:
    """A random DAG, a table of equal devices with random capability, and random pins that can be kept."""
    count = draw(st.integers(1, most))
    predecessors = [
        sorted(draw(st.sets(st.integers(0, i - 1), max_size=3))) if i else [] for i in range(count)
    ]
    k = draw(st.integers(1, devices))
    able = np.array(
        draw(
            st.lists(
                st.lists(st.booleans(), min_size=k, max_size=k), min_size=count, max_size=count
            )
        ),
        bool,
    )
    able[
        np.arange(count), draw(st.lists(st.integers(0, k - 1), min_size=count, max_size=count))
    ] = True
    pinned = draw(st.sets(st.integers(0, count - 1), max_size=count))
    pins = {
        f"t{i}": NAMES[draw(st.sampled_from(np.flatnonzero(able[i]).tolist()))]
        for i in sorted(pinned)
    }
    with tempfile.TemporaryDirectory() as folder:
        graph = editor.load_model(write_dag(Path(folder) / "dag.onnx", predecessors))
    table = [{"name": NAMES[d], "backendName": "CPU"} for d in range(k)]
    answers = [
        Capability.of_reasons(["" if able[i, d] else "not able" for i in range(count)])
        for d in range(k)
    ]
    return graph, table, answers, pins


@PROFILE
@given(problems())
def test_every_plan_is_valid(
    problem: tuple[Graph, list[dict[str, str]], list[Capability], dict[str, str]],
) -> None:
    graph, table, answers, pins = problem
    plan = editor.partition(graph, table, pins=pins, capabilities=answers)
    index = {d.name: i for i, d in enumerate(plan.devices)}
    # Every op on a device that can run it, pins kept, first come first served for the rest.
    for op, key in enumerate(graph.op_keys):
        device = index[plan.affinity[key]]
        assert answers[device].mask[op]
        assert (
            plan.affinity[key] == pins[key]
            if key in pins
            else device == min(d for d in range(len(answers)) if answers[d].mask[op])
        )
    # Each op in exactly one subgraph, one device per subgraph.
    homes = {key: s.id for s in plan.subgraphs for key in s.ops}
    assert sorted(homes) == sorted(graph.op_keys)
    assert sum(len(s.ops) for s in plan.subgraphs) == len(graph)
    assert all(plan.affinity[key] == s.device for s in plan.subgraphs for key in s.ops)
    # Ids are an order of execution: what a subgraph reads was made before.
    assert [s.id for s in plan.subgraphs] == list(range(len(plan.subgraphs)))
    assert all(dep < s.id for s in plan.subgraphs for dep in s.depends_on)
    made: set[str] = {"x"}
    for s in plan.subgraphs:
        assert set(s.inputs) <= made
        made |= set(s.outputs)
    for producer, consumer, _ in zip(*(e.tolist() for e in graph.edges), strict=True):
        assert homes[graph.op_keys[producer]] <= homes[graph.op_keys[consumer]]
    assert {graph.tensor_names[t] for t in graph.outputs.tolist()} <= made


@PROFILE
@given(problems())
def test_solving_twice_gives_the_same_plan(
    problem: tuple[Graph, list[dict[str, str]], list[Capability], dict[str, str]],
) -> None:
    graph, table, answers, pins = problem
    one = editor.partition(graph, table, pins=pins, capabilities=answers)
    two = editor.partition(graph, table, capabilities=answers).repin(dict(pins))
    assert one.to_json() == two.to_json()


@PROFILE
@given(problems(most=9, devices=2))
def test_minimal_is_the_minimum_for_two_devices(
    problem: tuple[Graph, list[dict[str, str]], list[Capability], dict[str, str]],
) -> None:
    graph, table, answers, pins = problem
    plan = editor.partition(graph, table, pins=pins, capabilities=answers)
    assert len(plan.subgraphs) == _fewest(graph, plan.placement.assignment.device.tolist())


@PROFILE
@given(problems(most=8, devices=3))
def test_minimal_is_within_one_of_the_minimum(
    problem: tuple[Graph, list[dict[str, str]], list[Capability], dict[str, str]],
) -> None:
    graph, table, answers, pins = problem
    plan = editor.partition(graph, table, pins=pins, capabilities=answers)
    assert len(plan.subgraphs) <= _fewest(graph, plan.placement.assignment.device.tolist()) + 1


def test_minimal_is_mostly_the_minimum_for_three_devices(dag: Callable[..., Graph]) -> None:
    """Draining alone, without leaving out turns, misses it in three of these graphs."""
    rng, more = np.random.default_rng(1), []
    for _ in range(40):
        graph = dag(
            [
                sorted(set(rng.integers(0, i, rng.integers(0, 4)).tolist())) if i else []
                for i in range(15)
            ]
        )
        device = rng.integers(0, 3, len(graph))
        more.append(
            int(minimal(graph, device, np.arange(len(graph))).max())
            + 1
            - _fewest(graph, device.tolist())
        )
    assert max(more) <= 1 and sum(more) <= 1


def _fewest(graph: Graph, device: list[int]) -> int:
    """The least number of groups, by trying every sequence of devices: some sequence of drains is optimal."""
    count = len(graph)
    for parts in range(1, count + 1):
        for sequence in itertools.product(sorted(set(device)), repeat=parts):
            if any(a == b for a, b in itertools.pairwise(sequence)):
                continue
            done: set[int] = set()
            for current in sequence:
                for op in graph.order.tolist():
                    if (
                        op not in done
                        and device[op] == current
                        and set(graph.predecessors[op].tolist()) <= done
                    ):
                        done.add(op)
            if len(done) == count:
                return parts
    raise AssertionError("a graph always has some grouping")


def test_grouping_no_ops_gives_no_subgraphs(mobilenet: Graph) -> None:
    assert (
        minimal(mobilenet, np.zeros(len(mobilenet), np.int64), np.array([], np.int64)) == -1
    ).all()
