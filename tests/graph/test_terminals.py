"""Inputs and outputs of the model in the views of blocks and subgraphs."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import onnx
from conftest import EXAMPLES
from decoders import plain_decoder
from onnx import TensorProto, helper

import editor
from editor.graph.graph import Graph
from editor.graph.proposed_sizes import proposed_sizes
from editor.graph.scopes.tree import scopes_of
from editor.web.drawing.collapsed import first_detail, shown_elements
from editor.web.drawing.elements import Edge, Node, Position, split
from editor.workspace.document import Document


def drawn(graph: Graph) -> tuple[dict[str, Node], list[Edge]]:
    """Inputs and outputs by name, and their edges, where blocks are drawn."""
    document = cast(Document, SimpleNamespace(graph=graph))
    nodes, _, edges = split(
        shown_elements(document, {"mode": "blocks", "open": first_detail(graph)["open"]})
    )
    ends = {n["data"]["name"]: n for n in nodes if "tensor" in n["data"]}
    ids = {n["data"]["id"] for n in ends.values()}
    return ends, [e for e in edges if {e["data"]["source"], e["data"]["target"]} & ids]


def test_an_input_is_above_what_reads_it_and_an_output_below_what_makes_it() -> None:
    ends, edges = drawn(editor.load_model(EXAMPLES / "models" / "resnet50.onnx"))
    assert set(ends) == {"pixel_values", "logits"}
    above, below = ends["pixel_values"]["position"], ends["logits"]["position"]
    assert above["y"] < below["y"]
    assert [e["classes"] for e in edges] == ["", ""], "straight, and to be seen"
    assert [e["data"]["shape"] for e in edges] == ["batch×3×224×224", "batch×1000"]


def test_a_cache_is_one_node_at_each_side_whose_edges_show_with_it(tmp_path: Path) -> None:
    path = plain_decoder(tmp_path / "decoder.onnx", layers=5)
    ends, edges = drawn(editor.load_model(path, proposed_sizes(editor.load_model(path))))
    past, present = ends["past_key_values.*"], ends["present.*"]
    assert past["data"]["label"] == "past_key_values.*\n10 inputs"
    assert present["data"]["label"] == "present.*\n10 outputs"
    assert len(past["data"]["tensors"]) == len(present["data"]["tensors"]) == 10
    assert past["position"]["y"] < present["position"]["y"]
    for node in (past, present):
        own = [e for e in edges if node["data"]["id"] in (e["data"]["source"], e["data"]["target"])]
        assert len(own) >= 5 and {e["classes"] for e in own} == {"faint"}
    assert {"state", "several"} <= set(past["classes"].split())


def test_no_line_goes_through_the_name_of_a_frame_that_has_room_elsewhere() -> None:
    """The input of all layers enters their frame where its name was."""
    graph = editor.load_model(EXAMPLES / "models" / "whisper-tiny-decoder.onnx")
    document = cast(Document, SimpleNamespace(graph=graph))
    shown = shown_elements(document, {"mode": "blocks", "open": first_detail(graph)["open"]})
    nodes, frames, edges = split(shown)
    at = {n["data"]["id"]: n["position"] for n in nodes}
    frame = next(f for f in frames if f["data"]["label"] == "layers")
    name, top = frame["position"]["x"] + frame["data"]["beside"], frame["position"]["y"]
    top -= frame["data"]["h"] / 2
    entering = 0
    for edge in edges:
        way = _way(edge, at)
        for (x1, y1), (x2, y2) in pairwise(way):
            if min(y1, y2) <= top + 11 <= max(y1, y2) and y1 != y2:
                x = x1 + (x2 - x1) * (top + 11 - y1) / (y2 - y1)
                entering += abs(x - frame["position"]["x"]) < frame["data"]["w"] / 2
                assert abs(x - name) > 20, f"{edge['data']['id']} goes through the name"
    assert entering > 1


def test_a_name_of_a_frame_stands_between_the_lines_into_its_row(tmp_path: Path) -> None:
    """The blocks of one row are each entered from above: a line went through the name "linear_projections"."""
    value, scope = helper.make_tensor_value_info, "/head/linear_projections"
    nodes = [helper.make_node("Abs", ["x"], [f"a{i}"], f"/stem/Abs_{i}") for i in range(4)]
    for i in range(4):
        block = f"{scope}/projections.{i}"
        nodes += [
            helper.make_node("Neg", [f"a{i}"], [f"b{i}"], f"{block}/Neg"),
            helper.make_node("Relu", [f"b{i}"], [f"c{i}"], f"{block}/Relu"),
        ]
    nodes.append(helper.make_node("Sum", [f"c{i}" for i in range(4)], ["y"], "/head/Sum"))
    ends = [value("x", TensorProto.FLOAT, [2])], [value("y", TensorProto.FLOAT, [2])]
    path = tmp_path / "row.onnx"
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", *ends), opset_imports=[opset]), path)
    graph = editor.load_model(path)
    document = cast(Document, SimpleNamespace(graph=graph))
    opened = [n for n, s in enumerate(scopes_of(graph).scopes) if "projections." not in s.label]
    shown = shown_elements(document, {"mode": "blocks", "open": opened})
    nodes_drawn, frames, edges = split(shown)
    at = {n["data"]["id"]: n["position"] for n in nodes_drawn}
    frame = next(f for f in frames if "linear_projections" in f["data"]["label"])
    name, half = (
        frame["position"]["x"] + frame["data"]["beside"],
        6.5 * len("linear_projections") / 2,
    )
    row = frame["position"]["y"] - frame["data"]["h"] / 2 + 11
    entering = [
        x1 + (x2 - x1) * (row - y1) / (y2 - y1)
        for edge in edges
        for (x1, y1), (x2, y2) in pairwise(_way(edge, at))
        if min(y1, y2) <= row <= max(y1, y2) and y1 != y2
    ]
    assert len(entering) >= 4 and all(abs(x - name) > half for x in entering)


def _way(edge: Edge, at: dict[str, Position]) -> list[tuple[float, float]]:
    """The points of an edge, from what Cytoscape is told of them."""
    data = edge["data"]
    start, end = at[data["source"]], at[data["target"]]
    x, y = start["x"], start["y"]
    dx, dy = end["x"] - x, end["y"] - y
    long = math.hypot(dx, dy)
    told = [
        map(float, text.split()) for text in (data.get("weights", ""), data.get("distances", ""))
    ]
    bends = [
        (x + w * dx - d * dy / long, y + w * dy + d * dx / long) for w, d in zip(*told, strict=True)
    ]
    return [(x, y), *bends, (end["x"], end["y"])]
