"""Pins are told by the blocks that they cover."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from conftest import EXAMPLES

import editor
from editor.graph.graph import Graph
from editor.graph.scopes.tree import scopes_of
from editor.placement.pin_groups import pin_groups


@pytest.fixture(scope="module")
def decoder() -> Graph:
    """A decoder of four layers."""
    sizes = {"batch": 1, "sequence": 4}
    return editor.load_model(EXAMPLES / "models" / "whisper-tiny-decoder.onnx", sizes)


def told(graph: Graph, device_of: Callable[[int], str]) -> list[str]:
    """What the groups say; every pin must be in one of them."""
    ops = [op for op in range(len(graph)) if not graph.op_is_constant[op]]
    pins = {graph.op_keys[op]: device for op in ops if (device := device_of(op))}
    groups = pin_groups(graph, pins)
    held = [(graph.op_keys[op], group.device) for group in groups for op in group.ops]
    assert len(held) == len(pins) and dict(held) == pins
    return [f"{group.what} on {group.device}" for group in groups]


def test_whole_blocks_are_one_group_and_consecutive_ones_too(decoder: Graph) -> None:
    layers, count = scopes_of(decoder).layer_of_op, len(decoder)
    sizes = [sum(layers.get(op) == layer for op in range(count)) for layer in range(4)]
    assert told(decoder, lambda op: "A" if layers.get(op) in (0, 1, 3) else "") == [
        f"layers.0–1 ({sizes[0] + sizes[1]:,} ops) on A",
        f"layers.3 ({sizes[3]:,} ops) on A",
    ]
    assert told(decoder, lambda op: {1: "A", 2: "B"}.get(layers.get(op, -1), "")) == [
        f"layers.1 ({sizes[1]:,} ops) on A",
        f"layers.2 ({sizes[2]:,} ops) on B",
    ]
    every = sum(not constant for constant in decoder.op_is_constant)
    assert told(decoder, lambda _: "A") == [f"all ops ({every:,} ops) on A"]


def test_what_is_left_is_told_by_type_and_a_few_ops_by_name(decoder: Graph) -> None:
    kinds, layers = decoder.op_types, scopes_of(decoder).layer_of_op
    chosen = [
        op for op, kind in enumerate(kinds) if kind == "MatMul" and not decoder.op_is_constant[op]
    ]
    found = told(decoder, lambda op: "A" if op in chosen else "")
    assert found == [f"{len(chosen)} MatMul on A"]
    few = set(chosen[:2])
    names = [f"{decoder.display_name(op)} on A" for op in sorted(few)]
    assert told(decoder, lambda op: "A" if op in few else "") == names
    both = told(decoder, lambda op: "B" if layers.get(op) == 0 else "A" if op in chosen else "")
    outside = [op for op in chosen if layers.get(op) != 0]
    assert [line for line in both if line.endswith("A")] == [f"{len(outside)} MatMul on A"]
    assert both[0].startswith("layers.0 (")
