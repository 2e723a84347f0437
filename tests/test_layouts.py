"""Layouts beside each other, and hints that keep their promise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import write_layers

import editor
from editor.graph.graph import Graph
from editor.partition.costs import estimate, price
from editor.partition.hints import hints
from editor.partition.partition import Partition, solve
from editor.workspace.layouts import READY_MADE, differing, figures, ready_made

BOX = [{"name": "GPU"}, {"name": "CPU"}]


@pytest.fixture
def painted(mobilenet: Graph) -> Partition:
    keys = [mobilenet.op_keys[op] for op in mobilenet.order if not mobilenet.op_is_constant[op]]
    return editor.partition(mobilenet, BOX, pins={keys[20]: "CPU", keys[60]: "CPU"}).partition


def latency(partition: Partition) -> float:
    return price(partition.graph, estimate(partition.graph, partition.devices), partition.assignment.device,
                 np.flatnonzero(partition.constraints.placed)).total


def test_every_hint_saves_what_it_says(painted: Partition) -> None:
    found = hints(painted)
    assert found and [h.seconds for h in found] == sorted((h.seconds for h in found), reverse=True)
    for hint in found:
        pins = {**painted.settings.pins, **{painted.graph.op_keys[op]: hint.device for op in hint.ops}}
        after = solve(painted.graph, painted.devices, replace(painted.settings, pins=pins),
                      painted.constraints.capabilities)
        assert latency(painted) - latency(after) == pytest.approx(hint.seconds)
        assert len(painted.subgraphs) - len(after.subgraphs) == hint.subgraphs
        assert painted.division.bytes_moved - after.division.bytes_moved == hint.bytes
        assert hint.estimated


def test_what_costs_in_every_layer_is_hinted_at_once(tmp_path: Path) -> None:
    graph = editor.load_model(write_layers(tmp_path / "layered.onnx"))
    adds = [op for op in range(len(graph)) if graph.op_types[op] == "Add"]
    split = editor.partition(graph, BOX, pins={graph.op_keys[op]: BOX[1]["name"] for op in adds[:-1]}).partition
    best = hints(split)[0]
    assert list(best.ops) == adds and best.device == BOX[0]["name"]
    assert best.subgraphs == len(split.subgraphs) - 1 and best.bytes == split.division.bytes_moved


def test_nothing_to_hint_at_without_transfers(mobilenet: Graph) -> None:
    assert hints(editor.partition(mobilenet, BOX).partition) == []


def test_ready_made_layouts_compare_with_the_plan(painted: Partition) -> None:
    costs = estimate(painted.graph, painted.devices)
    layouts = {one.name: one for one in ready_made(painted)}
    assert set(layouts) == set(READY_MADE)
    for layout in layouts.values():
        assert layout.partition is not None and not layout.partition.settings.pins, layout.problem
        assert figures(layout.partition, costs)["subgraphs"] == len(layout.partition.subgraphs)
    best = layouts["least latency"].partition
    assert best is not None and latency(best) <= latency(painted)
    glow = layouts["as Glow would"].partition
    assert glow is not None and len(differing(painted, glow)) == 2
