"""Filter expressions over ops: ``op == Conv and flops > 1e8``, ``name == *attention*``, ``device != GPU``.

Texts may contain wildcards. A word that is not a field is a text; only texts with other characters need
quotes.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from editor.errors import EditorError
from editor.graph.flops import op_bytes, op_flops
from editor.placement.placement import Placement

FIELDS = ("op", "name", "key", "domain", "device", "subgraph", "pinned", "flops", "bytes", "inputs", "outputs")
_ORDER: dict[type, Callable[[Any, Any], bool]] = {ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
                                                  ast.GtE: operator.ge}
_GLOB_WORD = re.compile(r"(==|!=)\s*([^\s\"'()]*[*?][^\s\"'()]*)")


def looks_like_filter(text: str) -> bool:
    """Whether a text in the search box is a filter expression instead of a search word."""
    return bool(re.search(r"[<>]|==|!=", text))


def matching(placement: Placement, text: str) -> list[int]:
    """Ops for which an expression is true, in file order; constants without a device of their own never match.

    Raises:
        EditorError: the expression is not valid; the message names the allowed syntax.
    """
    try:
        tree = ast.parse(_GLOB_WORD.sub(r'\1 "\2"', text.strip()), mode="eval").body
    except SyntaxError as error:
        raise EditorError(f"this filter is not valid at {error.text.strip() if error.text else text!r}; try "
                          "`op == Conv and flops > 1e8`") from None
    graph, subgraph_of_op = placement.graph, placement.division.subgraph_of_op
    flops, moved = op_flops(graph), op_bytes(graph)
    matches = []
    for op in range(len(graph)):
        if subgraph_of_op[op] < 0:
            continue
        row = {"op": graph.op_types[op], "name": graph.op_names[op], "key": graph.op_keys[op], "domain": graph.op_domains[op],
               "device": placement.devices[placement.assignment.device[op]].name, "subgraph": int(subgraph_of_op[op]),
               "pinned": graph.op_keys[op] in placement.settings.pins, "flops": float(flops[op]), "bytes": float(moved[op]),
               "inputs": len(graph.op_reads[op]), "outputs": len(graph.op_outputs[op])}
        if _value(tree, row):
            matches.append(op)
    return matches


def _value(node: ast.expr, row: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.BoolOp):
        values = (bool(_value(v, row)) for v in node.values)
        return all(values) if isinstance(node.op, ast.And) else any(values)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return not _value(node.operand, row)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, row)
    if isinstance(node, ast.Name):
        return row.get(node.id, {"true": True, "false": False}.get(node.id.lower(), node.id))
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float | str | bool):
        return node.value
    if isinstance(node, ast.Compare):
        left, held = _value(node.left, row), True
        for kind, right_node in zip(node.ops, node.comparators, strict=True):
            right = _value(right_node, row)
            held = held and _compare(kind, left, right)
            left = right
        return held
    raise EditorError(f"a filter may use {', '.join(FIELDS)}, numbers, texts, == != < <= > >=, and, or, not; "
                      f"not {ast.unparse(node)!r}")


def _compare(kind: ast.cmpop, left: Any, right: Any) -> bool:
    if isinstance(kind, ast.Eq | ast.NotEq):
        texts = isinstance(left, str) and isinstance(right, str)
        same = fnmatchcase(left.lower(), right.lower()) if texts else left == right
        return same == isinstance(kind, ast.Eq)
    order = _ORDER.get(type(kind))
    if order is None or isinstance(left, str) or isinstance(right, str):
        text = next((side for side in (left, right) if isinstance(side, str)), None)
        wrong = "" if text is None else f"{text!r} is not a number; the fields are {', '.join(FIELDS)}; "
        raise EditorError(f"{wrong}a filter compares numbers with < <= > >=, and anything with == and !=")
    return order(left, right)
