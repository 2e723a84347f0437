"""One search over blocks, ops and tensors, and what an unfinished text may become."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from conftest import EXAMPLES, write_layers

import editor
from editor.errors import EditorError
from editor.graph.graph import Graph
from editor.graph.scopes.tree import scopes_of
from editor.placement.filter import looks_like_filter, matching
from editor.placement.placement import Placement
from editor.placement.search import completions, examples, mixed, not_found, search, single_equals


@pytest.fixture(scope="module")
def placement(tmp_path_factory: pytest.TempPathFactory) -> Placement:
    path: Path = write_layers(tmp_path_factory.mktemp("m") / "layered.onnx")
    return editor.partition(editor.load_model(path), "HETERO:GPU,CPU").placement


def layers_of(placement: Placement, ops: tuple[int, ...] | list[int]) -> set[str]:
    return {
        part
        for op in ops
        for part in placement.graph.op_names[op].split("/")
        if part.isdigit() or "layers." in part
    }


def test_words_find_blocks_ops_and_tensors(placement: Placement) -> None:
    types = {placement.graph.op_types[op] for op in placement.placed_ops.tolist()}
    for kind in types:
        found = search(placement, kind.lower())
        ops = {op for op in placement.placed_ops.tolist() if placement.graph.op_types[op] == kind}
        assert ops <= set(found.ops)
        assert any(f.kind == "op" and f.detail.startswith(kind) for f in found.found)


def test_layers_are_found_by_number(placement: Placement) -> None:
    one, three = search(placement, "layer:2"), search(placement, "layer:2-4")
    assert one.ops and len(three.ops) == 3 * len(one.ops) and set(one.ops) < set(three.ops)
    assert sorted(one.ops) == matching(placement, "layer == 2")
    assert sorted(three.ops) == matching(placement, "layer >= 2 and layer <= 4")
    kind = placement.graph.op_types[one.ops[0]]
    assert {
        placement.graph.op_types[op] for op in search(placement, f"layer:2-4 op:{kind}").ops
    } == {kind}


def test_a_type_is_found_as_a_whole_where_there_is_one(dag: Callable[..., Graph]) -> None:
    """Painting what `op:mul` finds painted every MatMul too."""
    placement = editor.partition(
        dag([[], [0], [0, 1], [2, 2]], ["Relu", "Tanh", "Mul", "MatMul"]), "HETERO:CPU"
    ).placement
    assert search(placement, "op:mul").ops == (2,) and search(placement, "op:MatMul").ops == (3,)
    assert search(placement, "op:mat").ops == (3,), "a part, where no type is called so"


@pytest.mark.parametrize("text", ["layers.9", "model.layers.9", "model/layers.9"])
def test_a_block_is_found_by_its_name_before_those_that_only_begin_with_it(
    placement: Placement, text: str
) -> None:
    found = [f for f in search(placement, text).found if f.kind == "block"]
    assert found[0].title == "layers.9" and len(found[0].ops) == 25
    assert search(placement, "layers.1").found[0].title == "layers.1", "not layers.10"


@pytest.mark.parametrize(
    ("text", "said"),
    [("layr:3", "did you mean layer"), ("layer:x", "write layer:8"), ("foo:bar", "choose one of")],
)
def test_an_unknown_field_is_named(placement: Placement, text: str, said: str) -> None:
    with pytest.raises(EditorError, match=said):
        search(placement, text)


def test_a_filter_with_an_unknown_field_is_refused(placement: Placement) -> None:
    with pytest.raises(EditorError, match="there is no field 'scop'; did you mean scope"):
        matching(placement, "scop == *mlp*")
    assert matching(placement, "scope == *no_such_block*") == []


def test_fields_and_values_are_completed(placement: Placement) -> None:
    assert "flops " in completions(placement, "fl")
    kind = placement.graph.op_types[placement.placed_ops.tolist()[0]]
    assert f"op == {kind}" in completions(placement, f"op == {kind[:2]}")
    assert completions(placement, "device == ") == ["device == CPU", "device == GPU"]
    assert completions(placement, "") == []


def test_what_finds_nothing_is_named_where_a_text_has_several_parts(placement: Placement) -> None:
    assert not_found(placement, "layer:2 mlp").startswith("nothing is called 'mlp' here")
    last = max(scopes_of(placement.graph).layer_of_op.values())
    for text in ("layer:99 left", "layer:99", "mlp layer:3-2"):
        assert re.fullmatch(
            f"there is no layer:[0-9-]+: the layers are 0 to {last}", not_found(placement, text)
        )
    assert (
        not_found(placement, "left right") == ""
    )  # each finds something, and nothing is called both
    assert not_found(placement, "mlp") == ""


def test_a_layer_in_a_filter_is_said_to_go_with_words(placement: Placement) -> None:
    assert mixed("layer:8-15 and op == Neg").startswith(
        "a filter has no layer:8-15, which goes with words"
    )
    assert mixed("layer >= 8 and op == Neg") == mixed("op == 'a::b'") == ""


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("op = MatMul", "op == MatMul"),
        ("device=GPU", "device==GPU"),
        ("op == MatMul", ""),
        ("a = b", ""),
        ("flops >= 5", ""),
    ],
)
def test_a_filter_with_one_equals_sign_says_what_to_write(text: str, instead: str) -> None:
    assert single_equals(text).endswith(f"write {instead}" if instead else "")
    assert bool(single_equals(text)) == bool(instead)


def found_by(placement: Placement, text: str) -> list[int]:
    return matching(placement, text) if looks_like_filter(text) else [*search(placement, text).ops]


@pytest.mark.parametrize("path", sorted((EXAMPLES / "models").glob("*.onnx")), ids=lambda p: p.stem)
def test_the_examples_of_a_model_find_some_of_its_ops(path: Path) -> None:
    """The example was the same for every model, and found nothing in most."""
    placement = editor.partition(editor.load_model(path), "HETERO:GPU,CPU").placement
    offered = examples(placement.graph)
    assert offered
    for text in offered:
        found = found_by(placement, text)
        assert 0 < len(found) < len(placement.placed_ops), text
        if " and flops" in text:
            assert len(found) < len(found_by(placement, text.partition(" and")[0]))


def test_the_examples_name_the_later_layers_and_quote_odd_types(
    placement: Placement, dag: Callable[..., Graph]
) -> None:
    layers = sorted(set(scopes_of(placement.graph).layer_of_op.values()))
    half = layers[len(layers) // 2 :]
    first, _ = examples(placement.graph)
    assert first.startswith(f"layer:{half[0]}-{half[-1]} ")
    found = found_by(placement, first)
    assert {scopes_of(placement.graph).layer_of_op[op] for op in found} == {*half}
    odd = editor.partition(dag([[]], ["my-op"]), "HETERO:GPU,CPU").placement
    (filtered,) = examples(odd.graph)
    assert found_by(odd, filtered) == [0]


def test_an_op_says_its_block_and_its_output_of_the_same_name_is_no_second_result(
    dag: Callable[..., Graph], placement: Placement
) -> None:
    """Of forty results called Neg nothing said which was where, and each was there as op and as tensor."""
    found = search(placement, "layer:3 neg_7").found
    for each in (one for one in found if one.kind == "op"):
        assert each.block == "layers.3"
    graph = dag([[], [0], [0, 1]], ["Relu", "Tanh", "Mul"])
    plain = editor.partition(graph, "HETERO:CPU").placement
    for op in plain.placed_ops.tolist():
        name = graph.display_name(op)
        titles = [one.title for one in search(plain, name).found]
        assert titles.count(name) == 1, titles


@pytest.mark.parametrize(
    ("op", "output", "twice"),
    [
        ("", "mul", False),
        ("mul", "mul", False),
        ("node_mul", "mul", False),
        ("mlp/mul", "mlp/mul_output_0", False),
        ("mul", "mul_of_another", True),
    ],
)
def test_an_output_that_is_called_as_its_op_is_found_once(
    op: str, output: str, twice: bool, tmp_path: Path
) -> None:
    make, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    node = make("Abs", ["x"], [output], name=op)
    ends = [value(name, onnx.TensorProto.FLOAT, [2]) for name in ("x", output)]
    onnx.save(
        onnx.helper.make_model(onnx.helper.make_graph([node], "g", ends[:1], ends[1:])),
        tmp_path / "m.onnx",
    )
    placement = editor.partition(editor.load_model(tmp_path / "m.onnx"), "HETERO:CPU").placement
    assert [one.kind for one in search(placement, "mul").found] == ["op", "tensor"][: 1 + twice]
    if "_output_" in output:
        kinds = {one.kind for one in search(placement, "mul_output").found}
        assert kinds == {"op", "tensor"}, "who asks for the tensor gets it"
