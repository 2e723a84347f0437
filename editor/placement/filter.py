"""Selects ops: by filters, and by regions, paths and corresponding ops of those selected.

Filters are such as ``op == Conv and flops > 1e8``, ``name == *attention*``, ``dtype == float16``, ``device != GPU``,
``time > 100us`` and ``bytes > 1 MB``, in the language of ``editor.devices.expressions``.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from editor.devices.expressions import Expression, UnknownValueError
from editor.devices.published import FIELDS as OP_FIELDS
from editor.devices.published import OpFields
from editor.errors import EditorError, PinError
from editor.graph.attributes import all_attribute_names
from editor.graph.flops import Floats, op_bytes, op_flops
from editor.graph.graph import Bools, Graph, Ints, Rows
from editor.graph.scopes.tree import scopes_of
from editor.placement.chosen_costs import costs_of_plan
from editor.placement.costs import Costs
from editor.placement.placement import Placement
from editor.text import parse_bytes, parse_seconds

_PLACED = ("device", "subgraph", "pinned", "layer", "scope", "time", "flops", "bytes", "constants")
_WITH_UNIT = re.compile(r"(?<=[<>=])(\s*)(\d+(?:\.\d*)?)\s*([a-zµμ]+)\b(?![+-]\d)", re.IGNORECASE)
_JOINING = ("and", "or", "not", "in")
"""Words of the language that may follow a number."""


class _Row(OpFields):
    """The fields of an op in a placement."""

    fields: tuple[str, ...] = (*OP_FIELDS[:4], *_PLACED, *OP_FIELDS[4:])

    def __init__(self, placement: Placement, op: int, values: Mapping[str, Any]) -> None:
        super().__init__(placement.graph, op)
        self.values = values

    def field(self, name: str) -> Any:
        """As ``OpFields.field``."""
        if name == "layer" and self.values["layer"] is None:
            raise UnknownValueError(f"{self.graph.op_keys[self.op]} is in no layer")
        return self.values[name] if name in self.values else super().field(name)


FIELDS = _Row.fields


def looks_like_filter(text: str) -> bool:
    """Whether a text in the search box is a filter expression instead of a search word."""
    return bool(
        re.search(r"[<>]|==|!=|\bin\s*\(", text)
        or re.fullmatch(r"[(\s]*(not\b[(\s]*)?pinned[)\s]*", text)
    )


def matching(
    placement: Placement, text: str, costs: Callable[[], Costs] | None = None
) -> list[int]:
    """Ops for which an expression is true, in file order; constants without a device of their own never match.

    Args:
        placement: where the ops are.
        text: the expression; numbers may have a unit of time or bytes.
        costs: what `time` is taken from: seconds of an op on its device. Default: the best that are known.

    Raises:
        EditorError: the expression is not valid; the message names the allowed syntax.
    """
    expression = Expression(_WITH_UNIT.sub(_in_seconds_or_bytes, text))
    _check_names(placement, expression)
    scopes = scopes_of(placement.graph)
    graph, subgraph_of_op = placement.graph, placement.division.subgraph_of_op
    flops, moved, held = op_flops(graph), op_bytes(graph), _constant_bytes(graph)
    seconds = _seconds(placement, costs) if "time" in expression.words() else np.zeros(len(graph))
    matches = []
    for op in range(len(graph)):
        if subgraph_of_op[op] < 0:
            continue
        values = {
            "device": placement.devices[placement.assignment.device[op]].name,
            "subgraph": int(subgraph_of_op[op]),
            "pinned": graph.op_keys[op] in placement.settings.pins,
            "layer": scopes.layer_of_op.get(op),
            "scope": scopes.path_of(op),
            "time": float(seconds[op]),
            "flops": float(flops[op]),
            "bytes": float(moved[op]),
            "constants": float(held[op]),
        }
        if expression.holds(_Row(placement, op, values)):
            matches.append(op)
    return matches


def _constant_bytes(graph: Graph) -> Floats:
    """[op] bytes of the constants that it reads."""
    size = np.zeros(len(graph))
    for tensor in np.flatnonzero(graph.tensor_is_constant & (graph.tensor_bytes > 0)).tolist():
        size[np.unique(graph.readers[tensor])] += graph.tensor_bytes[tensor]
    return size


def _in_seconds_or_bytes(found: re.Match[str]) -> str:
    """A number with a unit as a plain number.

    Raises:
        EditorError: there is no such unit.
    """
    space, number, unit = found.groups()
    if unit.lower() in _JOINING:
        return found[0]
    is_size = unit.lower().endswith("b")
    value = parse_bytes(number + unit) if is_size else parse_seconds(number + unit)
    if value is None:
        raise EditorError(
            f"this filter is not valid: {unit!r} is not a unit; times are in ns, us, ms or s, "
            "sizes in B, kB, MB or GB"
        )
    return f"{space}{value!r}"


def _seconds(placement: Placement, costs: Callable[[], Costs] | None) -> Floats:
    """[op] seconds on its device."""
    known = costs() if costs is not None else costs_of_plan(placement)[0]
    seconds: Floats = known.op[np.arange(len(placement.graph)), placement.assignment.device]
    return seconds


def _check_names(placement: Placement, expression: Expression) -> None:
    """Raises ``EditorError`` for a name that is neither a field nor an attribute of any op."""
    graph = placement.graph
    for word in expression.words():
        known = word in FIELDS or word in all_attribute_names()
        if not known and not any(
            key == word for attributes in graph.op_attributes for key, _ in attributes
        ):
            close = difflib.get_close_matches(word, [*FIELDS, *all_attribute_names()], 1)
            hint = (
                f"did you mean {close[0]}?"
                if close
                else f"the fields are {', '.join(FIELDS)}, and attributes"
            )
            raise EditorError(f"this filter is not valid: there is no field {word!r}; {hint}")


def same_device_region(placement: Placement, op: int) -> list[int]:
    """The op and every op that ops of the same device connect to it."""
    graph, device = placement.graph, placement.assignment.device
    same: Bools = (placement.division.subgraph_of_op >= 0) & (device == device[op])
    return sorted(_reachable((graph.predecessors, graph.successors), [op], same))


def between(placement: Placement, first: Sequence[int], second: Sequence[int]) -> list[int]:
    """Two groups of ops and all ops on paths between them, in either direction.

    Raises:
        PinError: no path connects them.
    """
    graph = placement.graph
    for start, end in ((first, second), (second, first)):
        on_path = _reachable([graph.successors], start) & _reachable([graph.predecessors], end)
        if on_path:
            subgraph_of_op: Ints = placement.division.subgraph_of_op
            return sorted(op for op in on_path | {*first, *second} if subgraph_of_op[op] >= 0)
    names = [
        graph.display_name(ops[0])
        if len(ops) == 1
        else f"{len(ops)} ops from {graph.display_name(ops[0])}"
        for ops in (first, second)
    ]
    raise PinError(f"no path leads from {names[0]!r} to {names[1]!r} or vice versa")


def _reachable(
    edges: Sequence[Rows], start: Sequence[int], within: Bools | None = None
) -> set[int]:
    """Some ops and those that edges lead to from them, by ops for which ``within`` holds."""
    seen, stack = set(start), list(start)
    while stack:
        op = stack.pop()
        for neighbour in chain.from_iterable(rows[op].tolist() for rows in edges):
            if neighbour not in seen and (within is None or within[neighbour]):
                seen.add(neighbour)
                stack.append(neighbour)
    return seen


EXPANSIONS = ("type", "alike", "block", "subgraph", "upstream", "downstream", "neighbours")


def expand_selection(placement: Placement, ops: Sequence[int], mode: str) -> list[int]:
    """Ops related to the given ops, see ``Document.expand_selection``; without constants.

    Raises:
        PinError: the mode is unknown.
    """
    graph, subgraph_of_op = placement.graph, placement.division.subgraph_of_op
    start = [op for op in ops if 0 <= op < len(graph) and subgraph_of_op[op] >= 0]
    if mode == "type":
        kinds = {(graph.op_domains[op], graph.op_types[op]) for op in start}
        result = {
            op for op in range(len(graph)) if (graph.op_domains[op], graph.op_types[op]) in kinds
        }
    elif mode == "alike":
        scopes = scopes_of(graph)
        result = {other for op in start for other in scopes.corresponding_ops(op)}
    elif mode == "block":
        scopes = scopes_of(graph)
        result = {*start} | {
            inner
            for op in start
            if op in scopes.of_op
            for inner in scopes.scopes[scopes.of_op[op]].ops
        }
    elif mode == "subgraph":
        result = set(np.flatnonzero(np.isin(subgraph_of_op, subgraph_of_op[start])).tolist())
    elif mode in ("upstream", "downstream"):
        rows = graph.predecessors if mode == "upstream" else graph.successors
        result = _reachable([rows], start)
    elif mode == "neighbours":
        both = (graph.predecessors, graph.successors)
        result = {*start} | {
            neighbour for op in start for edges in both for neighbour in edges[op].tolist()
        }
    else:
        raise PinError(
            f"unknown mode {mode!r} to expand a selection; choose one of: {', '.join(EXPANSIONS)}"
        )
    return sorted(op for op in result if subgraph_of_op[op] >= 0)
