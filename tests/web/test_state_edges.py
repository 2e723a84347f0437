"""Dashed edges between steps: whose ends they join, which way they go, and that the layout is as without."""

from __future__ import annotations

from pathlib import Path

import pytest
from decoders import plain_decoder

import editor
from editor.graph.graph import Graph
from editor.graph.proposed_sizes import proposed_sizes
from editor.web.drawing.elements import Edge, Node, elements, split
from editor.web.drawing.state_edges import edges_between_ops, edges_between_terminals


def sized(path: Path) -> Graph:
    return editor.load_model(path, proposed_sizes(editor.load_model(path)))


def names(graph: Graph, edge: Edge) -> tuple[str, str]:
    nodes = {n["data"]["id"]: n["data"] for n in split(elements(graph))[0]}
    source, target = nodes[edge["data"]["source"]], nodes[edge["data"]["target"]]
    return source["find"], target["find"]


def op_nodes(graph: Graph) -> list[Node]:
    return [n for n in split(elements(graph))[0] if "op" in n["data"]]


def test_each_output_of_a_cache_leads_to_its_input(tmp_path: Path) -> None:
    graph = sized(plain_decoder(tmp_path / "decoder.onnx"))
    found = edges_between_terminals(graph)
    assert [names(graph, edge) for edge in found] == [
        (f"present.{layer}.{kind}", f"past_key_values.{layer}.{kind}")
        for layer in (0, 1)
        for kind in ("key", "value")
    ]
    assert {edge["classes"].split()[0] for edge in found} == {"state"}
    labels = [n["data"]["label"] for n in split(elements(graph))[0] if "state" in n["classes"]]
    assert len(labels) == len(set(labels)), "the key and the value of a layer are told apart"
    assert not any("faint" in edge["classes"] for edge in found)


def test_of_many_states_each_shows_with_its_ends(tmp_path: Path) -> None:
    graph = sized(plain_decoder(tmp_path / "deep.onnx", layers=5))
    found = edges_between_terminals(graph)
    assert len(found) == 10
    assert all({"state", "faint"} <= set(edge["classes"].split()) for edge in found)


def test_a_state_inside_leads_from_what_sets_it_to_what_reads_it(tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    import ir_nets

    graph = sized(ir_nets.save(ir_nets.with_state(), tmp_path / "state.xml"))
    (edge,) = edges_between_terminals(graph)
    types = [graph.op_types[int(edge["data"][end][2:])] for end in ("source", "target")]
    assert types == ["Assign", "ReadValue"]


def test_without_terminals_an_op_that_makes_a_cache_longer_leads_to_itself(tmp_path: Path) -> None:
    graph = sized(plain_decoder(tmp_path / "decoder.onnx"))
    nodes = op_nodes(graph)
    place = [-1] * len(graph)
    for i, node in enumerate(nodes):
        place[node["data"]["op"]] = i
    found = edges_between_ops(graph, nodes, place)
    ends = {(edge["data"]["source"], edge["data"]["target"]) for edge in found}
    assert len(ends) == 4
    assert {graph.op_types[int(source[2:])] for source, _ in ends} == {"Concat"}
    assert all(source == target for source, target in ends)


def test_models_without_a_state_have_none() -> None:
    graph = editor.load_model("examples/models/mobilenetv2.onnx")
    assert edges_between_terminals(graph) == []
