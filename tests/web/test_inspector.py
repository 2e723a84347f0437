"""What the inspector says of an op and of the model: values, defaults, documentation, weights, and how nodes became ops."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import editor
from editor.devices.table import load_devices
from editor.placement.placement import Settings
from editor.runtimes.base import Capability
from editor.web.controls import static_html
from editor.web.drawing.elements import edge_data, elements
from editor.web.drawing.ribbon import ribbon_of
from editor.web.panels import inspector
from editor.web.panels.hover import hover
from editor.web.panels.model_facts import model_facts, nodes_in_words
from editor.web.panels.tables import subgraph_rows, transfer_rows
from editor.workspace.document import Document
from editor.workspace.history import Store
from editor.workspace.solver import Solver, first_decisions

TABLE = [{"name": "A", "backendName": "CPU"}]


@pytest.fixture
def document(tmp_path: Path) -> Document:
    """Gemm, a Reshape whose target ops compute, and an op that ONNX does not define."""
    make, value = helper.make_node, helper.make_tensor_value_info
    nodes = [
        make("Gemm", ["x", "w", "b"], ["dense"], transB=1),
        make("Shape", ["x"], ["shape"]),
        make("Constant", [], ["one"], value_ints=[1]),
        make("Concat", ["one", "shape"], ["target"], axis=0),
        make("Reshape", ["dense", "target"], ["long"]),
        make("Blend", ["long"], ["y"], domain="com.microsoft", strength=2),
    ]
    weights = [
        numpy_helper.from_array(
            np.arange(-30, 34, dtype=np.int32).reshape(8, 8).astype(np.float32), "w"
        ),
        numpy_helper.from_array(np.zeros(8, np.float32), "b"),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [value("x", TensorProto.FLOAT, [4, 8])],
        [value("y", TensorProto.FLOAT, None)],
        weights,
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(
        graph, opset_imports=opsets, ir_version=8, producer_name="writer", doc_string="A test."
    )
    onnx.save(model, tmp_path / "m.onnx")
    return opened(tmp_path)


def opened(folder: Path, table: list[dict[str, Any]] = TABLE, refused: str = "") -> Document:
    graph = editor.load_model(folder / "m.onnx")
    store = Store(str(folder))
    decisions = first_decisions(Settings(), [d.entry for d in load_devices(table)])
    record = store.create("m", str(graph.path), graph.sha256, graph.define, decisions)
    reasons = ["no kernel" if kind == refused else "" for kind in graph.op_types]
    able = {
        d.name: Capability.everything(graph).without(d.published.refusals(graph))
        for d in load_devices(table)
    }
    able["A"] = able["A"].without(reasons)
    return Document(store, record, Solver(graph, decisions, able))


def words_of(content: Any) -> str:
    """The texts of a panel, as the page has them."""

    def texts(node: Any) -> list[str]:
        return [node] if isinstance(node, str) else [t for child in node[2:] for t in texts(child)]

    return " ".join(text for node in static_html(content).tree for text in texts(node))


def op(document: Document, op_type: str, weigh: bool = False) -> str:
    return words_of(inspector.op(document, document.graph.op_types.index(op_type), weigh))


def test_an_op_has_values_defaults_and_documentation(document: Document) -> None:
    gemm, reshape = op(document, "Gemm"), op(document, "Reshape")
    assert "[1, 4, 8]" in reshape
    assert "allowzero 0   default" in reshape
    assert "alpha 1   default beta 1   default transA 0   default" in gemm
    assert "transB 1 alpha" in gemm, "what the node states is no default"
    assert "Documentation of Gemm Gemm, since version 13 General Matrix multiplication" in gemm


def test_pins_to_a_kind_of_device_say_which_devices_these_are(
    document: Document, tmp_path: Path
) -> None:
    assert "of a kind" not in op(document, "Gemm")
    table = [{"name": name, "backendName": name} for name in ("GPU", "GPU.1", "CPU")]
    able = {e["name"]: Capability.everything(document.graph) for e in table}
    decisions = first_decisions(Settings(), [d.entry for d in load_devices(table)])
    graph, store = document.graph, Store(str(tmp_path / "other"))
    record = store.create("m", str(graph.path), graph.sha256, graph.define, decisions)
    shown = inspector.op(
        Document(store, record, Solver(graph, decisions, able)), graph.op_types.index("Gemm"), False
    )
    assert "or to any device of a kind device:GPU" in words_of(shown)
    assert "Pin to GPU or GPU.1, which have device:GPU in common" in str(static_html(shown).tree)


def test_long_types_break_between_their_words(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("GlobalAveragePool", ["x"], ["y"])],
        "net",
        [value("x", TensorProto.FLOAT, [1, 1, 2, 2])],
        [value("y", TensorProto.FLOAT, None)],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    assert "Global Average Pool" in op(opened(tmp_path), "GlobalAveragePool")


def test_what_the_device_table_excludes_is_told_apart_from_what_a_device_cannot_run(
    document: Document, tmp_path: Path
) -> None:
    table = [{**TABLE[0], "nonSupportedNodes": "Gemm"}, {"name": "B", "backendName": "CPU"}]
    both = opened(document.graph.path.parent, table, "Reshape")
    gemm, reshape = (both.graph.op_types.index(each) for each in ("Gemm", "Reshape"))
    excluded, cannot = "excluded by the device table", "cannot run"
    assert f"✗ {excluded}" in op(both, "Gemm") and cannot not in op(both, "Gemm")
    assert f"✗ {cannot} it" in op(both, "Reshape") and excluded not in op(both, "Reshape")
    assert excluded in words_of(hover(both, [gemm], []))
    for ops in ([reshape], [gemm, reshape]):
        assert cannot in words_of(hover(both, ops, [])), "not all of these are only excluded"


def test_a_selection_that_a_device_refuses_has_the_reason_and_cannot_be_pinned_there(
    document: Document,
) -> None:
    """It said "cannot run" only, and the button of the device was as those of others."""
    npu = {"name": "NPU", "backendName": "NPU", "supported": ["Gemm"]}
    placed = opened(document.graph.path.parent, [npu, TABLE[0]])
    gemm, reshape, blend = (
        placed.graph.op_types.index(kind) for kind in ("Gemm", "Reshape", "Blend")
    )

    def shown(*ops: int) -> tuple[str, list[bool]]:
        tree = inspector.several(placed, list(ops))
        (buttons,) = [
            [button.disabled for button in each.children if hasattr(button, "data-paint")]
            for each in tree
            if getattr(each, "className", "") == "pin-to"
        ]
        return " ".join(words_of(tree).split()), buttons

    said, disabled = shown(reshape, blend)
    assert disabled == [True, False]
    assert "NPU ✗ cannot run them" in said
    for refused in ("Reshape", "com.microsoft::Blend"):
        assert f"{refused} is not in the published list (1 op)" in said
    assert "Reshape is not in the published list Time" in shown(reshape, reshape)[0]
    said, disabled = shown(gemm, reshape)
    assert disabled == [False, False] and "cannot run them" not in said
    assert "not Reshape" in said
    assert "NPU: 1 first device in the table (NPU > A) A: 1 first device in the table that" in said


def test_a_whole_subgraph_is_named_by_its_number(document: Document) -> None:
    """The tooltip of a subgraph said "several blocks"."""
    table = [{**TABLE[0], "nonSupportedNodes": "Reshape"}, {"name": "B", "backendName": "CPU"}]
    split = opened(document.graph.path.parent, table)
    division = split.placement.division
    for part in split.placement.subgraphs:
        ops = [op for op in range(len(split.graph)) if division.subgraph_of_op[op] == part.id]
        assert (f"Subgraph {part.id}" in words_of(hover(split, ops, []))) == (len(ops) > 1)
    assert "Subgraph" not in words_of(hover(split, list(range(len(split.graph))), []))


def test_a_tensor_has_one_size_wherever_it_is_shown(document: Document) -> None:
    """As a transfer it had the size of its own type in the tooltip and in the subgraph that reads it."""
    npu = {
        "name": "NPU",
        "backendName": "NPU",
        "assumes": "float16",
        "supported": ["Gemm", "Shape", "Concat", "Reshape"],
    }
    placed = opened(document.graph.path.parent, [npu, TABLE[0]])
    graph = placed.graph
    gemm, reshape, blend = (graph.op_types.index(kind) for kind in ("Gemm", "Reshape", "Blend"))
    (sent,) = transfer_rows(placed)
    assert (sent["tensor"], sent["bytes"], sent["type"]) == ("long", 64, "float32 as float16")
    first, second = subgraph_rows(placed)
    assert (first["output_bytes"], second["input_bytes"]) == (64, 64)
    assert (first["outputs_held"], second["inputs_held"]) == ("", "128 B as A holds them")
    edge = words_of(hover(placed, [], [[reshape, blend]]))
    assert "64 B as float16 (128 B as float32) · transfer NPU → A, about " in edge
    assert "µs (estimate)" in edge, "what it takes, as in the table of transfers"
    arrives = ribbon_of(placed)["parts"][1]["arrives"]
    assert re.fullmatch(r"64 B from NPU, about [\d.]+ µs \(estimate\)", arrives), arrives
    assert "64 B as float16 (128 B as float32) · stays" in words_of(
        hover(placed, [], [[gemm, reshape]])
    ), "the NPU holds it so too"
    assert "float32 4x8 64 B as float16" in op(placed, "Gemm")
    assert "float32 1x4x8 64 B as float16" in op(placed, "Blend")
    assert "64 B as float16" in words_of(inspector.plan(placed))


def test_an_unofficial_list_does_not_say_that_a_device_cannot_run_an_op(tmp_path: Path) -> None:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("ReduceMean", ["x"], ["m"], axes=[2, 3]),
            helper.make_node("Softmax", ["m"], ["y"]),
        ],
        "net",
        [value("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [value("y", TensorProto.FLOAT, None)],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "m.onnx")
    table = [{"name": "N", "preset": "hailo8"}, *TABLE]
    both = opened(tmp_path, table)
    mean, softmax = op(both, "ReduceMean"), op(both, "Softmax")
    assert "✗ was refused when tried" in mean and "✗ not known to run" in softmax
    for words in (mean, softmax):
        assert "cannot run" not in words
        assert "[source]" in words and "https://" not in words


def test_an_op_that_onnx_does_not_define_has_its_attributes_only(document: Document) -> None:
    blend = op(document, "Blend")
    assert "Attributes strength 2" in blend
    assert "default" not in blend and "Documentation" not in blend


def test_weights_are_read_when_they_are_asked_for(document: Document) -> None:
    assert "Figures of the weights" in op(document, "Gemm")
    assert "Range" not in op(document, "Gemm")
    weighed = op(document, "Gemm", weigh=True)
    assert "float32 8x8, 64 elements" in weighed
    assert "Range -30 to 33 Mean 1.5 Deviation 18.47 Zeros 1 (1.6 %)" in weighed
    assert "Figures of the weights" not in op(document, "Reshape"), "its values are there"


def test_a_file_that_is_gone_is_said_where_values_would_be(document: Document) -> None:
    document.graph.path.unlink()
    assert "no such file" in op(document, "Gemm")
    assert "no such file" in op(document, "Gemm", weigh=True)


def test_the_plan_has_the_facts_of_the_model(document: Document) -> None:
    said = words_of(inspector.plan(document))
    assert (
        "Opsets ai.onnx 17, com.microsoft 1 IR version 8 Written by writer Initializers 2" in said
    )
    assert "Description A test." in said
    assert (
        "6 nodes became 3 ops: 3 compute constants (1 Shape, 1 Constant, 1 Concat) and follow the ops that read them"
        in said
    )


def test_inputs_and_outputs_have_types_and_shapes_and_long_lists_are_folded(tmp_path: Path) -> None:
    value = helper.make_tensor_value_info
    names = [f"x{i}" for i in range(14)]
    graph = helper.make_graph(
        [helper.make_node("Concat", names, ["y"], axis=0)],
        "net",
        [value(name, TensorProto.FLOAT16, [2, 3]) for name in names],
        [value("y", TensorProto.FLOAT16, [28, 3])],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "m.onnx")
    said = " ".join(words_of(model_facts(editor.load_model(tmp_path / "m.onnx"))).split())
    assert "Inputs x0 float16 2x3 x1 float16 2x3" in said
    assert "x11 float16 2x3 2 more x12 float16 2x3 x13 float16 2x3 Outputs y float16 28x3" in said


def test_opened_functions_are_told_apart_from_folded_constants(tmp_path: Path) -> None:
    make, value = helper.make_node, helper.make_tensor_value_info
    body = [make("Neg", ["a"], ["b"]), make("Abs", ["b"], ["c"])]
    function = helper.make_function(
        "own", "Twice", ["a"], ["c"], body, [helper.make_opsetid("", 17)]
    )
    graph = helper.make_graph(
        [make("Twice", ["x"], ["t"], domain="own"), make("Twice", ["t"], ["y"], domain="own")],
        "net",
        [value("x", TensorProto.FLOAT, [4])],
        [value("y", TensorProto.FLOAT, [4])],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=[function])
    onnx.save(model, tmp_path / "m.onnx")
    opened_graph = editor.load_model(tmp_path / "m.onnx")
    assert nodes_in_words(opened_graph) == (
        "2 nodes became 4 ops: opening functions made 4 nodes of them"
    )
    closed = editor.load_model(tmp_path / "m.onnx", keep_functions=True)
    assert nodes_in_words(closed) == "2 nodes became 2 ops, one each"


def _if(name: str, then: list[Any], otherwise: list[Any], result: str) -> onnx.NodeProto:
    outputs = [helper.make_tensor_value_info(f"{name}_{i}", TensorProto.FLOAT, [4]) for i in (0, 1)]
    branches = [
        helper.make_graph(nodes, f"{name}_graph{i}", [], [output])
        for i, (nodes, output) in enumerate(zip((then, otherwise), outputs, strict=True))
    ]
    return helper.make_node(
        "If", ["c"], [result], name, then_branch=branches[0], else_branch=branches[1]
    )


def test_the_ops_in_bodies_are_a_tree(tmp_path: Path) -> None:
    make, value = helper.make_node, helper.make_tensor_value_info
    inner = _if(
        "inner", [make("Abs", ["x"], ["inner_0"])], [make("Neg", ["x"], ["inner_1"])], "mid"
    )
    outer = _if(
        "outer",
        [inner, make("Exp", ["mid"], ["outer_0"])],
        [make("Sin", ["x"], ["outer_1"])],
        "y",
    )
    graph = helper.make_graph(
        [outer],
        "net",
        [value("c", TensorProto.BOOL, []), value("x", TensorProto.FLOAT, [4])],
        [value("y", TensorProto.FLOAT, [4])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    said = op(opened(tmp_path), "If")
    assert "else_branch: 1 op, placed with this op  Open Sin  outer_1 then_branch: 2 ops" in said
    assert (
        "then_branch: 2 ops, placed with this op  Open If  inner else_branch: 1 op  Open Neg  inner_1 "
        "then_branch: 1 op  Open Abs  inner_0 Exp  outer_0"
    ) in said


def test_edges_have_the_shape_of_what_they_carry(document: Document) -> None:
    graph = document.graph
    shapes = [e["data"]["shape"] for e in elements(graph) if "source" in e["data"]]
    assert json.dumps(shapes, ensure_ascii=False).count("4×8") == 3  # from x, dense, and 1×4×8
    dense, x = graph.tensor_index["dense"], graph.tensor_index["x"]
    ends = {"id": "e", "source": "a", "target": "b"}
    one, both = (edge_data(graph, *ends.values(), tensors) for tensors in ([x, x], [x, dense]))
    assert one == {**ends, "bytes": 128, "shape": "4×8"}
    sizes = [256, 64, 128]  # of float32, and as int8 and float16
    assert both == {**ends, "bytes": 256, "shape": "2 tensors", "sizes": sizes}
