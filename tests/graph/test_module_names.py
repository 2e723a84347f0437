"""Modules that PyTorch's exporter records on every op, and the blocks made from them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from conftest import write_layers
from onnx import NodeProto, helper

import editor
from editor.graph.scopes.paths import module_of
from editor.graph.scopes.tree import scopes_of
from editor.placement.search import search


def recorded(**entries: str) -> NodeProto:
    node = helper.make_node("Neg", ["x"], ["y"])
    for key, value in entries.items():
        node.metadata_props.add(key=key.replace("__", "."), value=value)
    return node


def as_scopes(module: str, op: str) -> NodeProto:
    """As torch 2.6 and later write it."""
    parts = module.split(".")
    names = ["", *(".".join(parts[:depth]) for depth in range(1, len(parts) + 1)), op]
    return recorded(pkg__torch__onnx__name_scopes=str(names))


def as_namespace(module: str, op: str) -> NodeProto:
    """As older files have it."""
    parts = module.split(".")
    names = [".".join(parts[:depth]) for depth in range(1, len(parts) + 1)]
    stack = "/".join(f"{name}: some.Class" for name in names)
    return recorded(namespace=f": __main__.Wrap/{stack}/{op}: aten.neg.default")


WRITERS = [as_scopes, as_namespace]


@pytest.mark.parametrize("write", WRITERS)
def test_the_innermost_module_is_read(write: Callable[[str, str], NodeProto]) -> None:
    assert (
        module_of(write("m.vit.encoder.layer.11.attention", "linear_3"))
        == "m.vit.encoder.layer.11.attention"
    )


@pytest.mark.parametrize(
    "node",
    [
        recorded(),
        recorded(namespace="/encoder/layer.0"),
        recorded(namespace=": __main__.Wrap/add: aten.add.Tensor"),
        recorded(
            namespace="_empty_nn_module_stack_from_metadata_hook: _empty_nn_module_stack_from_metadata_hook/x: aten.sym_size"
        ),
        recorded(pkg__torch__onnx__name_scopes="['', 'add']"),
        recorded(pkg__torch__onnx__name_scopes="[" * 10_000),
        recorded(pkg__torch__onnx__name_scopes="['a.b', '" + "x" * (1 << 20) + "', 'c']"),
    ],
)
def test_what_names_no_module_is_none(node: NodeProto) -> None:
    assert module_of(node) == ""


@pytest.mark.parametrize("write", WRITERS)
def test_layers_are_found_by_modules_where_names_say_nothing(
    tmp_path: Path, write: Callable[[str, str], NodeProto]
) -> None:
    """The twelve layers of an exported vision transformer were one block, "layer 0"."""
    path = write_layers(tmp_path / "m.onnx")
    named = scopes_of(editor.load_model(path))
    model = onnx.load(path)
    for i, node in enumerate(model.graph.node):
        module = ".".join(node.name.strip("/").split("/")[:-1])
        node.metadata_props.extend(write(module, f"neg_{i}").metadata_props)
        node.name = f"node_neg_{i}"
    onnx.save(model, path)
    graph = editor.load_model(path)
    found = scopes_of(graph)
    assert found.layer_of_op == named.layer_of_op and len(set(found.layer_of_op.values())) == 40
    placement = editor.partition(graph, "HETERO:CPU").placement
    first = search(placement, "layers.9").found[0]
    assert (first.kind, first.title) == ("block", "layers.9") and set(first.ops) == {
        op for op, layer in found.layer_of_op.items() if layer == 9
    }
