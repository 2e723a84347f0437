"""Matching the ops of two models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
import pytest
from conftest import EXAMPLES
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import editor
from editor.execution.weight_values import digests
from editor.graph.graph import Graph
from editor.graph.model_diff import How, Matching, base_type, match_ops, plain_name


@dataclass(frozen=True)
class Node:
    """An op: what it is called, its type, and the numbers of those that it reads."""

    name: str
    kind: str
    reads: tuple[str, ...]
    weight: int = 0


def save(path: Path, nodes: Sequence[Node], called: dict[str, str] | None = None) -> Graph:
    names = called or {}
    read = {name for node in nodes for name in node.reads}
    made, weights = [], []
    for node in nodes:
        name = names.get(node.name, node.name)
        inputs = [names.get(each, each) for each in node.reads] or ["x"]
        if node.weight:
            rng = np.random.default_rng(node.weight)
            weights.append(
                numpy_helper.from_array(rng.standard_normal((4, 4)).astype(np.float32), f"w_{name}")
            )
            inputs = [*inputs, f"w_{name}"]
        made.append(helper.make_node(node.kind, inputs, [f"{name}"], name))
    value = helper.make_tensor_value_info
    outputs = [names.get(n.name, n.name) for n in nodes if n.name not in read]
    graph = helper.make_graph(
        made,
        "g",
        [value("x", TensorProto.FLOAT, [4, 4])],
        [value(name, TensorProto.FLOAT, [4, 4]) for name in outputs],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return editor.load_model(path)


def matched(one: Graph, other: Graph) -> Matching:
    return match_ops(one, other, (digests(one), digests(other)), ({}, {}))


UNARY = ("Neg", "Abs", "Relu", "Tanh", "Exp")
FRESH = "Softplus"
"""The type of inserted ops, which no other op has."""


@st.composite
def models(draw: st.DrawFn) -> list[Node]:
    """A graph of ops of one and two inputs, some of them with weights that only they have."""
    nodes: list[Node] = []
    for i in range(draw(st.integers(2, 24))):
        before = [n.name for n in nodes][-5:]
        count = min(draw(st.integers(1, 2)), len(before))
        reads = tuple(draw(st.permutations(before))[:count]) if before else ()
        if len(reads) == 2:
            kind, weight = draw(st.sampled_from(("Sub", "MatMul"))), 0
        else:
            weighted = draw(st.booleans())
            kind, weight = ("MatMul", i + 1) if weighted else (draw(st.sampled_from(UNARY)), 0)
        nodes.append(Node(f"t{i}", kind, reads, weight))
    return nodes


@st.composite
def edits(draw: st.DrawFn) -> tuple[list[Node], list[Node], set[str], set[str]]:
    """A model, another version of it, and the names of the ops that went and that came."""
    before = draw(models())
    after, went, came = list(before), set(), set()
    for i in range(draw(st.integers(0, 4))):
        read = {name for node in after for name in node.reads}
        if draw(st.booleans()):
            gone = [n for n in after if len(n.reads) == 1 and n.name in read and n.kind != FRESH]
            if gone:
                node = draw(st.sampled_from(gone))
                went.add(node.name)
                after.remove(node)
                after = [_instead(each, node.name, node.reads[0]) for each in after]
        else:
            node = draw(st.sampled_from(after))
            place = after.index(node) + 1
            new = Node(f"new{i}", FRESH, (node.name,))
            after = [
                *after[:place],
                new,
                *(_instead(each, node.name, new.name) for each in after[place:]),
            ]
            came.add(new.name)
    return before, after, went, came


def _instead(node: Node, old: str, new: str) -> Node:
    return replace(node, reads=tuple(new if name == old else name for name in node.reads))


@settings(max_examples=60)
@given(models())
def test_a_model_is_matched_with_itself_by_name_and_after_renaming_by_structure(
    nodes: list[Node],
) -> None:
    with TemporaryDirectory() as folder:
        one = save(Path(folder, "a.onnx"), nodes)
        same = matched(one, one)
        assert same.partner.tolist() == list(range(len(one)))
        assert set(same.how.tolist()) == {How.NAME}
        called = {node.name: f"r{7 * i % 101}" for i, node in enumerate(nodes)}
        other = save(Path(folder, "b.onnx"), nodes, called)
        found = matched(one, other)
        assert (found.partner >= 0).all()
        assert How.NAME not in found.how
        weights = [i for i, node in enumerate(nodes) if node.weight]
        assert all(other.op_names[int(found.partner[i])] == called[f"t{i}"] for i in weights)


@settings(max_examples=100)
@given(edits())
def test_insertions_and_removals_are_found_exactly(
    edited: tuple[list[Node], list[Node], set[str], set[str]],
) -> None:
    before, after, went, came = edited
    with TemporaryDirectory() as folder:
        one, other = save(Path(folder, "a.onnx"), before), save(Path(folder, "b.onnx"), after)
        found = matched(one, other)
    partners = set(found.partner.tolist())
    pairs = {(one.op_names[a], other.op_names[b]) for a, b in found.pairs(one.order)}
    replaced = {(a, b) for a, b in pairs if a != b}
    for a, b in replaced:  # what came exactly where an op went
        assert a in went
        assert b in came
    assert {one.op_names[i] for i in range(len(one)) if found.partner[i] < 0} == went - {
        a for a, _ in replaced
    }
    assert {other.op_names[i] for i in range(len(other)) if i not in partners} == came - {
        b for _, b in replaced
    }


def test_an_exporter_that_counts_its_ops_does_not_shift_the_matches(tmp_path: Path) -> None:
    """After one more op in front, each name belongs to the op before."""
    kinds = ["MatMul", "Relu"] * 6
    nodes = [
        Node(f"n{i}", kind, (f"n{i - 1}",) if i else (), (i + 1) * (kind == "MatMul"))
        for i, kind in enumerate(kinds)
    ]
    first = Node("n0", "MatMul", (), 99)
    shifted = [
        Node(f"n{i + 1}", node.kind, (f"n{i}",), node.weight) for i, node in enumerate(nodes)
    ]
    one = save(tmp_path / "a.onnx", nodes)
    other = save(tmp_path / "b.onnx", [first, replace(shifted[0], reads=("n0",)), *shifted[1:]])
    found = matched(one, other)
    assert found.partner.tolist() == list(range(1, 13))
    assert found.how[0] == How.WEIGHTS


def test_renamed_and_edited_ops_of_a_real_network_are_found(tmp_path: Path) -> None:
    model = onnx.load(EXAMPLES / "models" / "mobilenetv2.onnx")
    ends = {v.name for v in (*model.graph.input, *model.graph.output)}
    names: dict[str, str] = {}
    for i, node in enumerate(model.graph.node):
        node.name = f"q{i * 31 % 1009}"
        for name in node.output:
            if name not in ends:
                names[name] = f"v{i * 37 % 1013}"
    for node in model.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    del model.graph.value_info[:]
    gone = next(n for n in model.graph.node if n.op_type == "Clip")
    for node in model.graph.node:
        node.input[:] = [gone.input[0] if n == gone.output[0] else n for n in node.input]
    model.graph.node.remove(gone)
    onnx.save(model, tmp_path / "b.onnx")
    one, other = (
        editor.load_model(EXAMPLES / "models" / "mobilenetv2.onnx"),
        editor.load_model(tmp_path / "b.onnx"),
    )
    found = matched(one, other)
    left = [op for op in np.flatnonzero(found.partner < 0).tolist() if not one.op_is_constant[op]]
    assert [one.op_types[op] for op in left] == ["Clip"]
    back = {new: old for old, new in names.items()}
    for a, b in found.pairs(one.order):
        assert one.op_keys[a] == back.get(other.op_keys[b], other.op_keys[b])


@pytest.mark.parametrize(
    ("kind", "base"),
    [
        ("Conv", "Conv"),
        ("QLinearConv", "Conv"),
        ("FusedConv", "Conv"),
        ("ConvInteger", "Conv"),
        ("QGemm", "Gemm"),
        ("FastGelu", "Gelu"),
        ("QuantizeLinear", "QuantizeLinear"),
        ("DynamicQuantizeLinear", "DynamicQuantizeLinear"),
    ],
)
def test_fused_and_quantised_types_stand_for_float_ones(kind: str, base: str) -> None:
    assert base_type(kind) == base


def test_endings_of_tools_are_no_part_of_a_name() -> None:
    assert plain_name("conv_quant") == plain_name("conv_nchwc") == "conv"
    assert plain_name("quantity") == "quantity"
