"""Ways to form subgraphs, against the real OpenVINO and Glow's rule."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import openvino
import pytest
from conftest import write_dag
from hypothesis import given
from test_properties import PROFILE, problems

import editor
from editor.graph.graph import Graph
from editor.placement.choices import SUBGRAPH_RULES
from editor.runtimes.base import Capability

AB = [{"name": "A", "backendName": "CPU"}, {"name": "B", "backendName": "CPU"}]


@pytest.mark.parametrize("rule", sorted(SUBGRAPH_RULES))
@PROFILE
@given(problems())
def test_every_rule_gives_a_topological_order(
    rule: str, problem: tuple[Graph, list[dict[str, str]], list[Capability], dict[str, str]]
) -> None:
    graph, table, answers, pins = problem
    plan = editor.partition(graph, table, pins=pins, capabilities=answers, subgraphs=rule)
    homes = {key: s.id for s in plan.subgraphs for key in s.ops}
    assert sorted(homes) == sorted(graph.op_keys)
    assert all(plan.affinity[key] == s.device for s in plan.subgraphs for key in s.ops)
    assert all(
        homes[graph.op_keys[p]] <= homes[graph.op_keys[c]]
        for p, c, _ in zip(*(e.tolist() for e in graph.edges), strict=True)
    )
    if (
        len(set(plan.affinity.values())) <= 2
    ):  # for more devices, nobody knows the least number at once
        assert len(
            editor.partition(graph, table, pins=pins, capabilities=answers).subgraphs
        ) <= len(plan.subgraphs)


@PROFILE
@given(problems(most=14, devices=2))
def test_connected_subgraphs_are_connected(
    problem: tuple[Graph, list[dict[str, str]], list[Capability], dict[str, str]],
) -> None:
    graph, table, answers, pins = problem
    plan = editor.partition(graph, table, pins=pins, capabilities=answers, subgraphs="connected")
    source = graph.inputs[0]
    for s in plan.subgraphs:
        ops = {graph.key_index[k] for k in s.ops}
        near = {
            op: {
                n
                for n in (*graph.predecessors[op].tolist(), *graph.successors[op].tolist())
                if n in ops
            }
            for op in ops
        }
        readers = [op for op in graph.readers[source].tolist() if op in ops]
        for a in (
            readers
        ):  # a graph input that several ops of one device read joins them, as in OpenVINO
            near[a] |= set(readers)
        seen, stack = set(), [next(iter(ops))]
        while stack:
            here = stack.pop()
            if here not in seen:
                seen.add(here)
                stack += near[here]
        assert seen == ops


def test_levels_follow_glow(dag: Callable[..., Graph]) -> None:
    """Two branches of one level: ops of the current device first, then a new partition."""
    graph = dag([[], [0], [0], [1], [2], [3, 4]])
    plan = editor.partition(graph, AB, pins={"t1": "B", "t4": "B"}, subgraphs="levels")
    assert [(s.device, s.ops) for s in plan.subgraphs] == [
        ("A", ("t0", "t2")),
        ("B", ("t1", "t4")),
        ("A", ("t3", "t5")),
    ]
    assert [
        (s.device, s.ops)
        for s in editor.partition(
            graph, AB, pins={"t1": "B", "t3": "B"}, subgraphs="levels"
        ).subgraphs
    ] == [("A", ("t0", "t2")), ("B", ("t1", "t3")), ("A", ("t4", "t5"))]


def test_connected_makes_the_same_subgraphs_as_openvino(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same ops in each subgraph wherever OpenVINO's number is the least possible; never more subgraphs; and where
    the numbers are equal otherwise, mostly the same ops.

    Affinities that are no devices make OpenVINO write its dump and stop before it compiles anything.
    Ties between several smallest groupings are broken differently in a few cases of a hundred.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENVINO_HETERO_VISUALIZE", "1")
    rng, same, equal = np.random.default_rng(7), 0, 0
    for _ in range(120):
        count = int(rng.integers(5, 16))
        before = [
            sorted(set(rng.integers(0, i, rng.integers(0, 3)).tolist())) if i else []
            for i in range(count)
        ]
        path = write_dag(
            tmp_path / "m.onnx", before, ["Add" if len(b) == 2 else "Tanh" for b in before]
        )
        device = rng.integers(0, 2, count)
        theirs = _openvino_groups(path, device.tolist())
        graph = editor.load_model(path)
        pins = {f"t{i}": "AB"[d] for i, d in enumerate(device.tolist())}
        ours = editor.partition(
            graph, AB, pins=pins, subgraphs="connected"
        ).placement.division.subgraph_of_op.tolist()
        fewest = editor.partition(graph, AB, pins=pins)
        assert len(fewest.subgraphs) <= len(set(ours)) <= len(set(theirs))
        if len(set(theirs)) == len(fewest.subgraphs):  # OpenVINO's own number is minimal
            assert _sets(ours) == _sets(theirs)
        if len(set(ours)) == len(set(theirs)):
            equal += 1
            same += _sets(ours) == _sets(theirs)
    assert equal > 80 and same / equal >= 0.94


def _sets(groups: list[int]) -> set[frozenset[int]]:
    return {frozenset(i for i, g in enumerate(groups) if g == number) for number in set(groups)}


def _openvino_groups(path: Path, device: list[int]) -> list[int]:
    """[op] subgraph id from OpenVINO's own dump."""
    core = openvino.Core()
    model = core.read_model(path)
    model.set_friendly_name("m")
    for op in model.get_ordered_ops():
        if op.get_type_name() == "Parameter":
            near = [c.get_node() for o in op.outputs() for c in o.get_target_inputs()]
        else:
            near = [op.input_value(0).get_node()] if op.get_type_name() == "Result" else [op]
        home = device[min(int(n.get_friendly_name()[1:]) for n in near)]
        op.get_rt_info()["affinity"] = f"DEV{'XY'[home]}"
    with pytest.raises(RuntimeError):
        core.compile_model(model, "HETERO:CPU")
    dump = Path("hetero_subgraphs_m.dot").read_text()
    os.remove("hetero_subgraphs_m.dot")
    found = {
        int(m[1]): int(m[2])
        for m in re.finditer(r'label="[nt](\d+)\\n[^"]*\\nsubgraph=(\d+)', dump)
    }
    return [found[i] for i in range(len(device))]
