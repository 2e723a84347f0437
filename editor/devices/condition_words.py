"""Says in words what a condition of a device table asks of an op, and what the op has instead.

``strides[0] <= 3 and strides[1] <= 3`` is "strides of at most 3", and the op has "strides 4".
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from editor.devices.expressions import Expression, Names, UnknownValueError, value_of
from editor.errors import EditorError
from editor.text import joined

_FIELDS = {
    "op": "op type",
    "inputs": "input count",
    "outputs": "output count",
    "dtype": "element type",
    "dtype_b": "second input's element type",
    "rank_b": "second input's rank",
    "shape_b": "second input's shape",
    "out_dtype": "output element type",
    "out_rank": "output rank",
    "out_shape": "output shape",
}
_DIMENSIONS = {
    "shape": "{} dimension",
    "shape_b": "{} dimension of the second input",
    "out_shape": "{} output dimension",
}
_ORDINALS = (
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
)
_KINDS: dict[type, str] = {
    ast.Eq: "",
    ast.In: "",
    ast.NotEq: "other than ",
    ast.NotIn: "other than ",
    ast.Lt: "below ",
    ast.LtE: "of at most ",
    ast.Gt: "above ",
    ast.GtE: "of at least ",
}
_MIRRORED: dict[type, type[ast.cmpop]] = {
    ast.Lt: ast.Gt,
    ast.Gt: ast.Lt,
    ast.LtE: ast.GtE,
    ast.GtE: ast.LtE,
    ast.Eq: ast.Eq,
    ast.NotEq: ast.NotEq,
}
_SIGNS: dict[type, str] = {ast.Add: "+", ast.Sub: "−", ast.Mult: "×"}


class _NoWordsError(Exception):
    """A part has no words."""


@dataclass(frozen=True)
class Lack:
    """What an op lacks of a condition."""

    need: str
    """The parts that do not hold, in words where there are some: "rank 4 and group 1"."""
    has: tuple[str, ...] = ()
    """What the op has instead: "rank 3", "group 2"; empty where ``need`` is not in words."""


def lack_of(condition: Expression, names: Names) -> Lack:
    """What an op lacks of a condition that does not hold for it."""
    try:
        need, has = _words(condition.unmet(names), names)
    except (_NoWordsError, EditorError, RecursionError):
        return Lack(_as_written(condition, names))
    return Lack(need, tuple(dict.fromkeys(has)))


def _as_written(condition: Expression, names: Names) -> str:
    """The parts that do not hold without words; the whole condition where it is nested deeply."""
    try:
        return ast.unparse(condition.unmet(names))
    except (EditorError, RecursionError):
        return condition.text


def _words(node: ast.expr, names: Names) -> tuple[str, list[str]]:
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        return _all(node.values, names)
    if isinstance(node, ast.BoolOp):
        needs, has = _each(node.values, names)
        return f"either {', or '.join(needs)}" if len(needs) > 1 else needs[0], has
    if isinstance(node, ast.Compare):
        return _comparison(node, names)
    raise _NoWordsError


def _each(nodes: Sequence[ast.expr], names: Names) -> tuple[list[str], list[str]]:
    found = [_words(node, names) for node in nodes]
    return list(dict.fromkeys(need for need, _ in found)), [one for _, has in found for one in has]


def _all(nodes: list[ast.expr], names: Names) -> tuple[str, list[str]]:
    """Parts that are all needed; those of several inputs, and those of all items of a list, as one."""
    inputs = {id(node): number for node in nodes if (number := _constant_input(node)) is not None}
    needs, has = [], list[str]()
    if len(inputs) > 1:
        which = joined([_ordinal(number) for number in inputs.values()])
        needs, has = [f"constant {which} inputs"], [f"computed {which} inputs"]
        nodes = [node for node in nodes if id(node) not in inputs]
    more, other = _each(_whole_lists(nodes, names), names)
    needs, has = [*more, *needs], [*other, *has]
    return (", and " if any(" or " in need for need in needs) else " and ").join(needs), has


def _whole_lists(nodes: list[ast.expr], names: Names) -> list[ast.expr]:
    """``strides[0] <= 3`` and ``strides[1] <= 3`` of two strides as ``strides <= 3``, which has words only."""
    groups: dict[str, list[ast.expr]] = {}
    wholes: dict[str, ast.Compare] = {}
    for node in nodes:
        key = str(id(node))
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Subscript):
            whole = ast.Compare(node.left.value, node.ops, node.comparators)
            wholes[key := ast.unparse(whole)] = whole
        groups.setdefault(key, []).append(node)
    found: list[ast.expr] = []
    for key, group in groups.items():
        items = value_of(wholes[key].left, names, "condition") if len(group) > 1 else ()
        found += [wholes[key]] if len(group) == len(items) else group
    return found


def _constant_input(node: ast.expr) -> int | None:
    """The input that must be constant; None where the part asks for something else."""
    if (
        isinstance(node, ast.Compare)
        and isinstance(node.ops[0], ast.NotIn)
        and isinstance(node.left, ast.Constant)
        and isinstance(node.left.value, int)
        and isinstance(node.comparators[0], ast.Name)
        and node.comparators[0].id == "computed"
    ):
        return node.left.value
    return None


def _comparison(node: ast.Compare, names: Names) -> tuple[str, list[str]]:
    left, kind, right = node.left, type(node.ops[0]), node.comparators[0]
    if (number := _constant_input(node)) is not None:
        which = _ordinal(number)
        return f"a constant {which} input", [f"a computed {which} input"]
    if _number(left) is not None and kind in _MIRRORED:
        left, kind, right = right, _MIRRORED[kind], left
    subject = _subject(left, names)
    value, has = _known(left, subject, names)
    items = right.elts if isinstance(right, ast.Tuple | ast.List) else [right]
    if kind not in (ast.In, ast.NotIn):
        items = [right]
    for whole in (False, True):  # (1, 1) is "1", unless the difference is in the number of items
        others = list(dict.fromkeys(_operand(item, value, names, whole) for item in items))
        if value is not None:
            has = f"{subject} {_shown(value, left, whole)}"
        if f"{subject} {joined(others, 'or')}" != has or kind not in (ast.Eq, ast.In):
            break
    sign = _KINDS[kind]
    if kind is ast.Eq and not isinstance(right, ast.Constant | ast.Tuple | ast.List):
        sign = "" if others == [_text(right)] or _number(right) is not None else "equal to "
    return f"{subject} {sign}{joined(others, 'or')}", [has]


def _known(node: ast.expr, subject: str, names: Names) -> tuple[Any, str]:
    """The value of what is compared, and words where it has none."""
    try:
        return value_of(node, names, "condition"), ""
    except UnknownValueError as error:
        if isinstance(node, ast.Subscript):
            items, _ = _known(node.value, "", names)
            if items is not None:
                return None, f"{_subject(node.value, names)} {_shown(items, node.value)}"
        return None, f"an unknown {subject}" if "not known" in str(error) else f"no {subject}"


def _subject(node: ast.expr, names: Names) -> str:
    """What is compared, in words."""
    if isinstance(node, ast.Name) and node.id.lower() not in ("true", "false", "computed"):
        return _FIELDS.get(node.id, node.id)
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        number, name = _number(node.slice), node.value.id
        if isinstance(number, int) and name != "computed":
            of_shape = _DIMENSIONS.get(name)
            return of_shape.format(_ordinal(number)) if of_shape else ast.unparse(node)
    if isinstance(node, ast.BinOp):
        sides = (node.left, node.right)
        first, second = (
            _subject(side, names) if _number(side) is None else str(_number(side)) for side in sides
        )
        return f"{first} {_SIGNS[type(node.op)]} {second}"
    raise _NoWordsError


def _operand(node: ast.expr, left: Any, names: Names, whole: bool) -> str:
    """What a value is compared with: a value, or another part of the op with its value."""
    if isinstance(node, ast.Constant | ast.UnaryOp | ast.Tuple | ast.List):
        return _shown(value_of(node, names, "condition"), None, whole)
    if (
        isinstance(node, ast.Name)
        and node.id not in names.fields
        and (left is None or isinstance(left, str) or names.attribute(node.id) is None)
    ):
        return _text(node)
    subject = _subject(node, names)
    value, _ = _known(node, subject, names)
    return f"{subject} ({'unknown' if value is None else _shown(value, node, whole)})"


def _text(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _number(node: ast.expr) -> int | float | None:
    """The value of a number; None where it is none."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = _number(node.operand)
        return None if number is None else -number
    return (
        node.value
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float)
        else None
    )


def _ordinal(number: int) -> str:
    if number < 0:
        return "last" if number == -1 else f"{_ordinal(-number - 1)} from last"
    return _ORDINALS[number] if number < len(_ORDINALS) else f"number {number + 1}"


def _shown(value: Any, node: ast.expr | None, whole: bool = True) -> str:
    """A value in words; a list of equal items is one of them, unless it is shown whole or is a shape."""
    if isinstance(value, tuple):
        if isinstance(node, ast.Name) and node.id in _DIMENSIONS:
            return "×".join(map(str, value)) or "()"
        if not whole and len(set(value)) == 1:
            value = value[:1]
        items = ", ".join(_shown(item, None, whole) for item in value)
        return f"({items})" if whole or not value else items
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and not whole:
        return f"{value:.6g}"
    return str(value) if value != "" else '""'
