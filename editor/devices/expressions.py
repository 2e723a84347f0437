"""Expressions over ops: ``op == Conv and dtype in (int8, uint8) and kernel_shape[0] <= 32``; parsed, never run as code.

Filters of the page and conditions of device tables use them. Texts may contain wildcards. A word that is neither a field nor
an attribute is a text, and so is every word that a text is compared with by ``==``, ``!=`` and ``in``, unless it is a field;
only texts with other characters need quotes.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import Any, Protocol

from editor.errors import EditorError
from editor.graph.attributes import parse_expression

MAX_LENGTH = 2000
_ORDER: dict[type, Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_ARITHMETIC: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}
_GLOB_WORD = re.compile(r"(==|!=)\s*([^\s\"'()]*[*?][^\s\"'()]*)")
_PARTS = (
    ast.BoolOp,
    ast.boolop,
    ast.UnaryOp,
    ast.Not,
    ast.USub,
    ast.BinOp,
    ast.Add,
    ast.Sub,
    ast.Mult,
    ast.Compare,
    ast.cmpop,
    ast.Name,
    ast.Constant,
    ast.Tuple,
    ast.List,
    ast.Subscript,
    ast.expr_context,
)
_TEXT_ON_THE_RIGHT = ast.Eq | ast.NotEq | ast.In | ast.NotIn


class UnknownValueError(EditorError):
    """An op has no such attribute, or a size is not known before a run."""


class Names(Protocol):
    """The values that words stand for."""

    fields: tuple[str, ...]

    def field(self, name: str) -> Any:
        """The value of one of ``fields``.

        Raises:
            UnknownValueError: it is not known.
        """
        ...

    def attribute(self, name: str) -> Any:
        """The value of an attribute of the op; None when no op has an attribute of this name.

        Raises:
            UnknownValueError: this op has none.
        """
        ...


class Expression:
    """A parsed expression."""

    def __init__(self, text: str, what: str = "filter") -> None:
        """Parses an expression; ``what`` names it in messages.

        Raises:
            EditorError: it is not valid, or too long.
        """
        if len(text) > MAX_LENGTH:
            raise EditorError(f"a {what} has at most {MAX_LENGTH} characters, not {len(text):,}")
        self.text, self.what = text.strip(), what
        example = "try `op == Conv and flops > 1e8`"
        try:
            self.tree = parse_expression(_GLOB_WORD.sub(r'\1 "\2"', self.text))
        except (ValueError, RecursionError, MemoryError):  # NUL, or nested too deeply
            raise EditorError(f"this {what} is not valid; {example}") from None
        except SyntaxError as error:
            where = error.text.strip() if error.text else repr(text)
            raise EditorError(f"this {what} is not valid at {where}; {example}") from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def holds(self, names: Names) -> bool:
        """Whether it is true; an expression over something unknown is not.

        Raises:
            EditorError: it uses something that expressions do not have.
        """
        return holds(self.tree, names, self.what)

    def unmet(self, names: Names) -> ast.expr:
        """What an op lacks of an expression that is not true: the parts that do not hold, with no ``not`` around ``and``."""
        return _unmet(self.tree, names, self.what, True)

    def words(self) -> list[str]:
        """The words that must be fields or attributes.

        Raises:
            EditorError: it has parts that expressions do not have, or is nested too deeply.
        """
        try:
            odd = next((node for node in ast.walk(self.tree) if not isinstance(node, _PARTS)), None)
            if odd is not None:
                around = (n for n in ast.walk(self.tree) if getattr(n, "op", None) is odd)
                text = ast.unparse(next(around, odd))  # an operator by itself has no text
                raise EditorError(
                    f"this {self.what} is not valid at {text!r}; it takes == != < <= > >= and in (...), "
                    "joined by and, or, not"
                )
            return list(_words(self.tree))
        except RecursionError:
            raise EditorError(f"this {self.what} is nested too deeply") from None


_OPPOSITE: dict[type, type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
}


def _unmet(node: ast.expr, names: Names, what: str, wanted: bool) -> ast.expr:
    """Of a part that is not as wanted, what would have to change."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return _unmet(node.operand, names, what, not wanted)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        kind = type(node.ops[0])
        return node if wanted else ast.Compare(node.left, [_OPPOSITE[kind]()], node.comparators)
    if not isinstance(node, ast.BoolOp | ast.Compare):
        return node if wanted else ast.UnaryOp(ast.Not(), node)
    parts, every = _parts_of(node), wanted
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        every = not wanted
    if every:
        parts = [part for part in parts if holds(part, names, what) != wanted]
    lacking = [_unmet(part, names, what, wanted) for part in parts]
    return (
        lacking[0] if len(lacking) == 1 else ast.BoolOp(ast.And() if every else ast.Or(), lacking)
    )


def _parts_of(node: ast.BoolOp | ast.Compare) -> list[ast.expr]:
    """What ``and`` or ``or`` joins; ``a < b < c`` is ``a < b and b < c``."""
    if isinstance(node, ast.BoolOp):
        return node.values
    lefts = (node.left, *node.comparators)
    return [
        ast.Compare(left, [kind], [right])
        for left, kind, right in zip(lefts, node.ops, node.comparators, strict=False)
    ]


def _words(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Compare):
        yield from _words(node.left)
        for kind, right in zip(node.ops, node.comparators, strict=True):
            if not isinstance(kind, _TEXT_ON_THE_RIGHT) or isinstance(
                right, ast.Subscript | ast.BinOp
            ):
                yield from _words(right)
    else:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                yield from _words(child)


def holds(node: ast.expr, names: Names, what: str) -> bool:
    """Whether a part is true; one over something unknown is not."""
    try:
        return bool(value_of(node, names, what))
    except UnknownValueError:
        return False
    except (RecursionError, OverflowError):
        raise EditorError(
            f"this {what} is nested too deeply, or its numbers are too large"
        ) from None


def value_of(node: ast.expr, names: Names, what: str) -> Any:
    """The value of a part.

    Raises:
        UnknownValueError: it is not known.
        EditorError: it uses something that expressions do not have.
    """
    if isinstance(node, ast.BoolOp):
        values = (holds(v, names, what) for v in node.values)
        return all(values) if isinstance(node.op, ast.And) else any(values)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return not value_of(node.operand, names, what)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = value_of(node.operand, names, what)
        if not isinstance(value, int | float):
            raise EditorError(
                f"{value!r} is not a number, and has no minus; the fields are {', '.join(names.fields)}"
            )
        return -value
    if isinstance(node, ast.Name):
        if node.id in names.fields:
            return names.field(node.id)
        found = names.attribute(node.id)
        return _word(node.id) if found is None else found
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float | str | bool):
        return node.value
    if isinstance(node, ast.Tuple | ast.List):
        return tuple(value_of(item, names, what) for item in node.elts)
    if isinstance(node, ast.Subscript):
        return _item(node, names, what)
    if isinstance(node, ast.Compare):
        return _comparison(node, names, what)
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        left, right = value_of(node.left, names, what), value_of(node.right, names, what)
        if isinstance(left, int | float) and isinstance(right, int | float):
            return _ARITHMETIC[type(node.op)](left, right)
    raise EditorError(
        f"a {what} may use {', '.join(names.fields)}, attributes, numbers with + - *, texts, == != < <= "
        f"> >=, in (a, b), shape[1], and, or, not; not {ast.unparse(node)!r}"
    )


def _word(text: str) -> Any:
    return {"true": True, "false": False}.get(text.lower(), text)


def _right(node: ast.expr, names: Names, what: str, left: Any) -> Any:
    """The value on the right of ``==``, ``!=`` and ``in``: compared with a text, a word that is not a field is a text."""
    if isinstance(left, str) and isinstance(node, ast.Name):
        return names.field(node.id) if node.id in names.fields else _word(node.id)
    if isinstance(left, str) and isinstance(node, ast.Tuple | ast.List):
        return tuple(_right(item, names, what, left) for item in node.elts)
    return value_of(node, names, what)


def _item(node: ast.Subscript, names: Names, what: str) -> Any:
    items, number = value_of(node.value, names, what), value_of(node.slice, names, what)
    if not isinstance(items, tuple) or not isinstance(number, int):
        raise UnknownValueError(
            f"{ast.unparse(node)!r} has no value; numbers in brackets go with lists such as shape"
        )
    try:
        value = items[number]
    except IndexError:
        raise UnknownValueError(f"{ast.unparse(node)!r} does not exist") from None
    if isinstance(value, str):
        raise UnknownValueError(f"{ast.unparse(node)!r} is not known")  # a symbol, or "?"
    return value


def _comparison(node: ast.Compare, names: Names, what: str) -> bool:
    left, held = value_of(node.left, names, what), True
    for kind, right_node in zip(node.ops, node.comparators, strict=True):
        equal = isinstance(kind, _TEXT_ON_THE_RIGHT)
        right = (
            _right(right_node, names, what, left) if equal else value_of(right_node, names, what)
        )
        held = held and _compare(kind, left, right, names)
        left = right
    return held


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, str) and isinstance(right, str):
        return fnmatchcase(left.lower(), right.lower())
    return bool(left == right)


def _compare(kind: ast.cmpop, left: Any, right: Any, names: Names) -> bool:
    if isinstance(kind, ast.Eq | ast.NotEq):
        return _same(left, right) == isinstance(kind, ast.Eq)
    if isinstance(kind, ast.In | ast.NotIn):
        among = any(_same(left, item) for item in (right if isinstance(right, tuple) else (right,)))
        return among == isinstance(kind, ast.In)
    order = _ORDER.get(type(kind))
    if order is None or not isinstance(left, int | float) or not isinstance(right, int | float):
        text = next((side for side in (left, right) if not isinstance(side, int | float)), None)
        wrong = (
            ""
            if text is None
            else f"{text!r} is not a number; the fields are {', '.join(names.fields)}; "
        )
        raise EditorError(
            f"{wrong}a filter compares numbers with < <= > >=, and anything with == and !="
        )
    return order(left, right)
