"""Sizes to begin with for dimensions that a model leaves open, by their names and places."""

from __future__ import annotations

import re
from collections.abc import Mapping

from editor.graph.graph import Graph

SIZES = {
    "batch": 1,
    "sequence": 128,
    "past": 127,
    "total": 128,
    "image": 224,
    "channels": 3,
    "unknown": 1,
}
"""What a dimension stands for -> its size."""
_PATTERNS = (
    (r"past.*\+|total|kv_?len|max_?len", "total"),
    (r"past|cache|memory_?len", "past"),
    (r"batch|^b$|^n$|^none$|num_?images|beam", "batch"),
    (r"height|width|^h$|^w$|image_?size|pixels", "image"),
    (r"channel|^c$", "channels"),
    (r"seq|length|tokens?|^t$|^s$|^l$|time|frames", "sequence"),
)
_UNNAMED = re.compile(r"(?P<input>.*)\[(?P<axis>\d+)\]", re.DOTALL)


def proposed_sizes(graph: Graph) -> dict[str, int]:
    """A size for each symbol without one: 1 for batches, 128 for sequences, 127 for what a decoder has seen, 224 for images.

    A decoder with a past reads one new token. Symbols that nothing is known of get 1.
    """
    places = _places(graph)
    meaning = {
        name: _by_name(name) or _by_place(*places.get(name, ("", 0, 0, "")))
        for name in graph.unbound
    }
    one_token = "past" in meaning.values()
    return {
        name: 1 if one_token and what == "sequence" else SIZES[what]
        for name, what in meaning.items()
    }


def sizes_text(sizes: Mapping[str, int]) -> str:
    """E.g. "batch=1, sequence=128"."""
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


def _by_name(name: str) -> str:
    if _UNNAMED.fullmatch(name):
        return ""
    text = name.lower().removesuffix("_size").removesuffix("_dim")
    return next((what for pattern, what in _PATTERNS if re.search(pattern, text)), "")


def _by_place(kind: str, rank: int, axis: int, tensor: str) -> str:
    """By the axis of an input without a name: images have four axes, token ids are whole numbers with two."""
    if axis == 0:
        return "batch"
    if rank == 4:
        return "channels" if axis == 1 else "image"
    if rank in (2, 3) and axis == 1 and (kind.startswith("int") or rank == 3 or "mask" in tensor):
        return "sequence"
    return "unknown"


def _places(graph: Graph) -> dict[str, tuple[str, int, int, str]]:
    """Symbol -> type, rank and axis of the first input that has it, and that input's name."""
    found: dict[str, tuple[str, int, int, str]] = {}
    for tensor in graph.inputs.tolist():
        name, shape = graph.tensor_names[tensor], graph.tensor_shapes[tensor] or ()
        for axis, size in enumerate(shape):
            if not isinstance(size, int) or size < 0:
                for symbol in (str(size), f"{name}[{axis}]"):
                    found.setdefault(symbol, (graph.tensor_types[tensor], len(shape), axis, name))
    return found
