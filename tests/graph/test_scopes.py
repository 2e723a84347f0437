"""Blocks, filters and ways to grow a selection."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import numpy as np
import onnx
import pytest
from conftest import EXAMPLES, write_dag
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

import editor
from editor.graph.graph import Graph
from editor.graph.scopes.tree import scopes_of
from editor.placement.costs import estimate
from editor.placement.filter import EXPANSIONS, expand_selection, looks_like_filter, matching
from editor.web.drawing.collapsed import MOST_SHOWN, expand_level, first_detail, owners, reveal
from editor.web.drawing.elements import visible_ops

TWINS = [
    {"name": n, "backendName": "onnxruntime", "provider": "CPUExecutionProvider"} for n in "AB"
]


@pytest.fixture(scope="module")
def whisper() -> Graph:
    return editor.load_model(
        EXAMPLES / "models" / "whisper-tiny-decoder.onnx", {"batch": 1, "sequence": 8}
    )


def test_every_op_is_in_one_innermost_block_and_identical_blocks_have_the_same_op_types(
    whisper: Graph,
) -> None:
    scopes = scopes_of(whisper)
    placed = [op for op in range(len(whisper)) if not whisper.op_is_constant[op]]
    assert sorted(scopes.of_op) == placed and sorted(scopes.scopes[0].ops) == placed
    for scope in scopes.scopes[1:]:
        assert set(scope.ops) <= set(scopes.scopes[scope.parent].ops)
        kinds = [whisper.op_types[op] for op in scope.ops]
        assert all(
            [whisper.op_types[op] for op in scopes.scopes[t].ops] == kinds for t in scope.identical
        )
    assert any(len(s.identical) >= 3 and len(s.ops) > 20 for s in scopes.scopes), (
        "the decoder's layers repeat"
    )


def test_repetitions_of_a_model_without_names_become_blocks(tmp_path) -> None:  # type: ignore[no-untyped-def]
    block = [[-1], [0], [1], [2], [3], [4], [5], [0, 6], [7], [8]]
    dag: list[list[int]] = [[]]
    for i in range(12):
        base = 1 + i * len(block)
        dag += [[base - 1 if p < 0 else base + p for p in preds] for preds in block]
    graph = editor.load_model(write_dag(tmp_path / "flat.onnx", dag))
    layers = [s for s in scopes_of(graph).scopes if s.path[:1] == ("layers",) and len(s.path) == 2]
    assert len(layers) == 12 and all(len(s.ops) == len(block) for s in layers[:-1])


def test_the_number_of_nodes_shown_is_bounded(whisper: Graph) -> None:
    chain = (
        editor.load_model(EXAMPLES.parent / "tests" / "data" / "oddities" / "chain_20k.onnx")
        if (EXAMPLES.parent / "tests" / "data" / "oddities" / "chain_20k.onnx").exists()
        else whisper
    )
    for graph in (whisper, chain):
        opened = first_detail(graph)["open"]
        for _ in range(4):
            assert len(set(owners(graph, opened))) <= MOST_SHOWN
            opened = expand_level(graph, opened)
        op = visible_ops(graph)[len(visible_ops(graph)) // 2]
        shown = owners(graph, reveal(graph, [], op))
        assert -1 - op in shown and len(set(shown)) <= MOST_SHOWN


def test_filters_select_matching_ops(whisper: Graph) -> None:
    placement = editor.partition(whisper, TWINS).placement
    found = matching(placement, "op == MatMul and flops > 1e6")
    assert found and all(whisper.op_types[op] == "MatMul" for op in found)
    assert set(matching(placement, "op == *Norm* or op == Softmax")) == {
        op
        for op in range(len(whisper))
        if placement.division.subgraph_of_op[op] >= 0
        and ("norm" in whisper.op_types[op].lower() or whisper.op_types[op] == "Softmax")
    }
    weights = matching(placement, "constants > 1 kB")
    assert weights and all(
        any(whisper.tensor_is_constant[t] for t in whisper.op_inputs[op].tolist() if t >= 0)
        for op in weights
    )
    everything = matching(placement, "device == A")
    assert sorted(everything + matching(placement, "not device == A")) == everything
    assert matching(placement, "100 < flops <= 200") == [
        op for op in matching(placement, "flops <= 200") if op in matching(placement, "flops > 100")
    ]


def test_filters_know_times_and_units(whisper: Graph) -> None:
    placement = editor.partition(whisper, TWINS).placement
    costs = estimate(whisper, placement.devices)
    seconds = costs.op[np.arange(len(whisper)), placement.assignment.device]
    limit = float(np.median(seconds[placement.placed_ops]))
    slow = [op for op in sorted(placement.placed_ops.tolist()) if seconds[op] > limit]
    assert slow and matching(placement, f"time > {limit * 1e6!r}us") == slow == matching(
        placement, f"time > {limit!r}"
    )
    assert (
        matching(placement, f"time > {limit * 1e3!r} ms", lambda: replace(costs, op=2 * costs.op))
        != slow
    )
    assert matching(placement, "bytes >= 1.5 MB") == matching(placement, "bytes >= 1500000") != []
    assert matching(placement, "flops > 1e+6 and bytes > 1MB") == matching(
        placement, "flops > 1000000 and bytes > 1e6"
    )
    with pytest.raises(
        editor.EditorError, match="'bananas' is not a unit; times are in ns, us, ms or s"
    ):
        matching(placement, "time > 3 bananas")


@pytest.mark.parametrize("text", ["pinned", "not pinned", "(not pinned)", "not (pinned)"])
def test_yes_or_no_is_a_filter_by_itself(whisper: Graph, text: str) -> None:
    key = whisper.op_keys[int(whisper.order[-1])]
    placement = editor.partition(whisper, TWINS, pins={key: "B"}).placement
    assert looks_like_filter(text) and not looks_like_filter(text.replace("pinned", "spinned"))
    found = [whisper.op_keys[op] for op in matching(placement, text)]
    assert (found == [key]) is not ("not" in text) and (key in found) is not ("not" in text)


@pytest.mark.parametrize(
    "text",
    [
        "op ==",
        "__import__('os').system('x') == 1",
        "flops < Conv",
        "op.name == 1",
        "[x for x in y] == 1",
    ],
)
def test_invalid_filters_are_errors(whisper: Graph, text: str) -> None:
    placement = editor.partition(whisper, TWINS).placement
    assert looks_like_filter(text)
    with pytest.raises(editor.EditorError, match="filter"):
        matching(placement, text)


def test_selections_expand_to_related_ops(whisper: Graph) -> None:
    placement = editor.partition(whisper, TWINS).placement
    softmax = next(op for op in range(len(whisper)) if whisper.op_types[op] == "Softmax")
    for how in EXPANSIONS:
        found = expand_selection(placement, [softmax], how)
        assert softmax in found and found == sorted(set(found)), how
    assert {whisper.op_types[op] for op in expand_selection(placement, [softmax], "type")} == {
        "Softmax"
    }
    upstream, downstream = (
        set(expand_selection(placement, [softmax], how)) for how in ("upstream", "downstream")
    )
    assert upstream & downstream == {softmax}
    assert len(expand_selection(placement, [softmax], "alike")) > 1
    with pytest.raises(editor.PinError, match="unknown mode"):
        expand_selection(placement, [softmax], "sideways")


def _cycle(graph: Graph) -> str:
    """The first block in which the blocks and ops form a cycle when each is drawn as one node; "" where none does."""
    scopes = scopes_of(graph)
    producers, consumers, _ = graph.edges
    for scope in scopes.scopes:
        inside, unit = set(scope.ops), {}
        for op in scope.ops:
            around = scopes.ancestors(scopes.of_op[op])
            at = around.index(scope.number) if scope.number in around else len(around)
            unit[op] = (around[at - 1], -1) if at else (-1, op)
        after: dict[tuple[int, int], set[tuple[int, int]]] = {}
        for p, c in zip(producers.tolist(), consumers.tolist(), strict=True):
            if p in inside and c in inside and unit[p] != unit[c]:
                after.setdefault(unit[p], set()).add(unit[c])
        try:
            list(TopologicalSorter(after).static_order())
        except CycleError:
            return scope.label
    return ""


def test_a_block_of_ops_before_and_after_others_is_split(tmp_path: Path) -> None:
    """As in YOLOS: each layer reads an Add, and all Adds are called alike."""
    nodes, before = [], "x"
    for layer in range(4):
        names = [f"l{layer}_{i}" for i in range(6)]
        nodes.append(
            helper.make_node("Add", [before, "x"], [names[0]], f"/interpolation/Add_{layer}")
        )
        for i in range(1, 6):
            nodes.append(
                helper.make_node("Relu", [names[i - 1]], [names[i]], f"/layer.{layer}/Relu_{i}")
            )
        before = names[-1]
    values = [helper.make_tensor_value_info(n, 1, [2]) for n in ("x", before)]
    model = helper.make_model(helper.make_graph(nodes, "g", values[:1], values[1:]), ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    graph = editor.load_model(tmp_path / "m.onnx")
    assert _cycle(graph) == ""
    layers = [s for s in scopes_of(graph).scopes if s.path and s.path[0].startswith("layer.")]
    assert [len(s.ops) for s in layers] == [5, 5, 5, 5], "it is the other block that is split"


@given(st.data())
def test_blocks_are_never_in_a_cycle(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 25))
    nodes = []
    for i in range(count):
        reads = (
            data.draw(st.lists(st.integers(0, max(i - 1, 0)), min_size=1, max_size=2)) if i else []
        )
        path = data.draw(st.lists(st.sampled_from("abc"), max_size=3))
        inputs = [f"t{r}" for r in reads] or ["x"]
        kind = "Add" if len(inputs) == 2 else "Relu"
        nodes.append(helper.make_node(kind, inputs, [f"t{i}"], "/".join([*path, f"op{i}"])))
    values = [helper.make_tensor_value_info(n, 1, [2]) for n in ("x", f"t{count - 1}")]
    model = helper.make_model(helper.make_graph(nodes, "g", values[:1], values[1:]), ir_version=8)
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(model, Path(folder) / "m.onnx")
        assert _cycle(editor.load_model(Path(folder) / "m.onnx")) == ""


def test_the_picture_of_the_decoder_is_acyclic(whisper: Graph) -> None:
    assert _cycle(whisper) == ""
