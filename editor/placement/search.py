"""One search over a plan: blocks, ops and tensors by words, layers by number, and what an unfinished text may become.

``layer:8-15 mlp`` finds what is called mlp in the layers 8 to 15; ``op:``, ``device:`` and ``in:`` restrict in the same way.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from editor.errors import EditorError
from editor.graph.flops import op_flops
from editor.graph.graph import Graph, InnerOp, cached_per_graph
from editor.graph.scopes.tree import Scopes, scopes_of
from editor.groups import grouped
from editor.placement.filter import FIELDS
from editor.placement.placement import Placement

_MOST_PER_KIND = 8
_WORD = re.compile(r"(\w+):(?!:)(\S+)")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


@dataclass(frozen=True)
class Found:
    """One result."""

    kind: str
    """``block``, ``op`` or ``tensor``"""
    title: str
    detail: str
    ops: tuple[int, ...]
    block: str = ""
    """The block that an op is in; "" outside blocks, and of other kinds"""


@dataclass(frozen=True)
class Results:
    """The best results of each kind, and all ops that the text is true for."""

    found: tuple[Found, ...]
    ops: tuple[int, ...]


def search(placement: Placement, text: str) -> Results:
    """Blocks, ops and tensors that have all words of a text in their names.

    Raises:
        EditorError: a word has a field that does not exist, or a layer is not a number.
    """
    graph, scopes = placement.graph, scopes_of(placement.graph)
    words, keep = _parsed(placement, text)
    if not words and keep is None:
        return Results((), ())
    names = _searched_text(graph)
    ops = [
        op
        for op in placement.placed_ops.tolist()
        if (keep is None or keep(op)) and all(w in names[op] for w in words)
    ]
    blocks = _blocks(scopes, words, keep) if words else []
    found = [
        *blocks[:_MOST_PER_KIND],
        *(_op(placement, op) for op in _best(graph, ops, words)[:_MOST_PER_KIND]),
        *_tensors(graph, ops, words)[:_MOST_PER_KIND],
    ]
    inner = [] if keep else [op for op in graph.inner_ops if words and _has_words(op, words)]
    found += [_inner(graph, op) for op in inner[:_MOST_PER_KIND]]
    return Results(tuple(found), tuple(dict.fromkeys([*ops, *(op.owner for op in inner)])))


@cached_per_graph
def examples(graph: Graph) -> tuple[str, ...]:
    """What may be typed for this model: a search in its later layers, and a filter; both find something."""
    ops = np.flatnonzero(~graph.op_is_constant).tolist()
    layer_of_op = scopes_of(graph).layer_of_op
    layers = sorted({layer_of_op[op] for op in ops if op in layer_of_op})
    found = []
    if len(layers) > 1:
        later = layers[len(layers) // 2 :]
        heavy = _heaviest(graph, [op for op in ops if layer_of_op.get(op, -1) >= later[0]])
        numbers = f"{later[0]}-{later[-1]}" if len(later) > 1 else f"{later[0]}"
        word = graph.type_label(heavy[0]).rpartition("::")[2].lower()
        found.append(f"layer:{numbers} {word}" if word.isidentifier() else f"layer:{numbers}")
    if ops:
        heavy = _heaviest(graph, ops)
        bound = _bound(op_flops(graph)[heavy].tolist())
        found.append(
            f"op == {_quoted(graph.op_types[heavy[0]])}{f' and flops > {bound}' if bound else ''}"
        )
    return tuple(found)


def _heaviest(graph: Graph, ops: list[int]) -> list[int]:
    """The ops of the type that has the most work, or the most ops where no work is known."""
    flops, of_type = op_flops(graph), grouped((graph.op_types[op], op) for op in ops)
    return max(of_type.values(), key=lambda alike: (float(flops[alike].sum()), len(alike)))


def _bound(values: list[float]) -> str:
    """A round number that some values exceed and others do not, such as "2e6"; "" where there is none."""
    power = len(f"{int(max(values))}") - 1
    round_ones = (d for d in (1, 5, 2) if min(values) <= d * 10**power < max(values))
    return next((f"{digit}e{power}" for digit in round_ones), "")


def mixed(text: str) -> str:
    """What to write instead of a filter that has ``layer:8``, which goes with words; "" where it has none."""
    field = re.search(rf"\b(?:{'|'.join(_WORD_FIELDS)}):(?!:)\S+", text)
    if not field:
        return ""
    return f"a filter has no {field[0]}, which goes with words: write {field[0]} MatMul, or layer >= 8 and op == MatMul"


def single_equals(text: str) -> str:
    """What to write instead of a filter with one ``=``; "" where there is none."""
    if not re.search(rf"\b(?:{'|'.join(FIELDS)})\s*=(?!=)", text):
        return ""
    return f"filters compare with ==: write {re.sub(r'(?<![=!<>])=(?!=)', '==', text)}"


def not_found(placement: Placement, text: str) -> str:
    """Which part of a text finds nothing by itself; "" where each finds something, or the text is one word."""
    parts = text.split()
    nothing = [
        part for part in parts if not (found := search(placement, part)).ops and not found.found
    ]
    if layer := next(
        (part for part in nothing if part.lower().startswith(("layer:", "layers:"))), None
    ):
        layers = set(scopes_of(placement.graph).layer_of_op.values())
        known = (
            f"the layers are {min(layers)} to {max(layers)}"
            if layers
            else "no layers could be told in this model"
        )
        return f"there is no {layer}: {known}"
    if len(parts) < 2:
        return ""
    return (
        f"nothing is called {nothing[0]!r} here; the rest of the text alone may find something"
        if nothing
        else ""
    )


def completions(placement: Placement, text: str) -> list[str]:
    """Completes the end of a text: with fields of filters and their values, as whole texts."""
    compared = re.search(r"(\w+)\s*(==|!=)\s*([^\s()]*)$", text)
    if compared:
        field, _, begun = compared.groups()
        values = _values(placement, field)
        fitting = [v for v in values if v.lower().startswith(begun.lower()) and v != begun]
        return [text[: compared.start(3)] + v for v in fitting][:_MOST_PER_KIND]
    word = re.search(r"(?:^|\b(?:and|or|not)\s+|\()([a-z_]+)$", text)
    if not word or len(word[1]) < 2:
        return []
    return [
        f"{text[: word.start(1)]}{field} "
        for field in FIELDS
        if field.startswith(word[1]) and field != word[1]
    ]


def _parsed(placement: Placement, text: str) -> tuple[list[str], Callable[[int], bool] | None]:
    """The plain words in lower case, and a test for the words with a field."""
    tests: list[Callable[[int], bool]] = []
    words = []
    for word in text.split():
        field = _WORD.fullmatch(word)
        if field:
            tests.append(_test(placement, field[1].lower(), field[2].lower()))
        else:
            words.append(word.lower())
    return words, (lambda op: all(test(op) for test in tests)) if tests else None


def _test(placement: Placement, field: str, value: str) -> Callable[[int], bool]:
    graph = placement.graph
    if field in ("layer", "layers"):
        numbers = _RANGE.fullmatch(value)
        if numbers is None:
            raise EditorError(f"{field}:{value} is not a layer; write layer:8 or layer:8-15")
        low, high = int(numbers[1]), int(numbers[2] or numbers[1])
        layers = scopes_of(graph).layer_of_op
        return lambda op: low <= layers.get(op, -1) <= high
    if field in ("op", "type"):
        labels = [graph.type_label(op).lower() for op in range(len(graph))]
        exact = value in labels  # op:mul is Mul, and not MatMul too
        return lambda op: labels[op] == value if exact else value in labels[op]
    if field == "device":
        chosen = {i for i, d in enumerate(placement.devices) if value in d.name.lower()}
        return lambda op: int(placement.assignment.device[op]) in chosen
    if field in ("in", "scope", "block"):
        scopes = scopes_of(graph)
        return lambda op: value in _searched_path(scopes.path_of(op))
    close = difflib.get_close_matches(field, _WORD_FIELDS, 1)
    hint = (
        f"; did you mean {close[0]}: ?"
        if close
        else f"; choose one of: {', '.join(f'{f}:' for f in _WORD_FIELDS)}"
    )
    raise EditorError(f"there is no field {field!r}{hint}")


_WORD_FIELDS = ("layer", "op", "device", "in")


@cached_per_graph
def _searched_text(graph: Graph) -> list[str]:
    """[op] everything that a word may be found in, in lower case."""
    scopes = scopes_of(graph)
    return [
        " ".join(
            [
                graph.type_label(op),
                graph.op_names[op],
                _searched_path(scopes.path_of(op)),
                *(graph.tensor_names[t] for t in graph.op_outputs[op].tolist() if t >= 0),
            ]
        ).lower()
        for op in range(len(graph))
    ]


def _blocks(scopes: Scopes, words: list[str], keep: Callable[[int], bool] | None) -> list[Found]:
    """Blocks whose own name has a word, and whose path has all of them; what is called so comes first, then the outermost."""
    found = []
    for scope in scopes.scopes[1:]:
        path, label = _searched_path("/".join(scope.path)), scope.label.lower()
        own = (scope.path[-1].lower(), label)
        ends = any(each.endswith(w) for w in words for each in path.split())
        if all(w in f"{path} {label}" for w in words) and (
            ends or any(w in name for w in words for name in own)
        ):
            ops = tuple(op for op in scope.ops if keep is None or keep(op))
            if len(ops) > 1:
                found.append(
                    (
                        (label not in words, len(scope.path)),
                        Found("block", scope.label, f"{len(ops):,} ops", ops),
                    )
                )
    return [each for _, each in sorted(found, key=lambda item: item[0])]


def _searched_path(path: str) -> str:
    """A path as people write it: layers/9, and layers.9 as the block is labelled."""
    return f"{path} {path.replace('/', '.')}".lower()


def _best(graph: Graph, ops: list[int], words: list[str]) -> list[int]:
    """Exact and leading matches first."""

    def rank(op: int) -> tuple[int, int]:
        kind, name = graph.op_types[op].lower(), graph.op_names[op].lower()
        exact = any(w in (kind, name) for w in words)
        return (
            0
            if exact
            else 1
            if any(kind.startswith(w) or name.startswith(w) for w in words)
            else 2,
            op,
        )

    return sorted(ops, key=rank)


def _op(placement: Placement, op: int) -> Found:
    graph = placement.graph
    device = placement.devices[int(placement.assignment.device[op])].name
    detail = f"{graph.type_label(op)} on {device}"
    return Found("op", graph.display_name(op), detail, (op,), _block_of(graph, op))


def _block_of(graph: Graph, op: int) -> str:
    """The label of the layer that an op is in, as the graph shows it, else of its innermost block."""
    scopes = scopes_of(graph)
    around = scopes.ancestors(scopes.of_op.get(op, 0))
    layer = next((number for number in around if number in scopes.repeated), (around or [0])[0])
    return scopes.scopes[layer].label if layer else ""


def _has_words(op: InnerOp, words: list[str]) -> bool:
    text = f"{op.op_type} {op.name} {op.key}".lower()
    return all(word in text for word in words)


def _inner(graph: Graph, op: InnerOp) -> Found:
    detail = f"{op.op_type} {op.place(graph)}"
    return Found("op", op.name or op.key, detail, (op.owner,), _block_of(graph, op.owner))


def _named_after(graph: Graph, tensor: int, op: int) -> bool:
    """Whether an output is called as its op, as exporters do: "/mlp/Mul_output_0" of "/mlp/Mul", "mul" of "node_mul"."""
    name, own = graph.display_name(op), graph.tensor_names[tensor]
    return (
        name in (own, f"node_{own}")
        or re.fullmatch(r"_output_\d+", own.removeprefix(name)) is not None
    )


def _tensors(graph: Graph, ops: Iterable[int], words: list[str]) -> list[Found]:
    """Outputs with all words in their names, but for those that the result for their op is the same as."""
    found = []
    for op in ops:
        name = graph.display_name(op).lower()
        is_found = all(w in name for w in words)
        for t in graph.op_outputs[op].tolist():
            if t < 0 or (is_found and _named_after(graph, t, op)):
                continue
            if words and all(w in graph.tensor_names[t].lower() for w in words):
                found.append(
                    Found(
                        "tensor",
                        graph.tensor_names[t],
                        f"{graph.shape_label(t)} of {graph.type_label(op)}",
                        (op,),
                    )
                )
        if len(found) >= _MOST_PER_KIND:
            break
    return found


def _values(placement: Placement, field: str) -> list[str]:
    graph = placement.graph
    values: Iterable[str] = ()
    if field == "op":
        values = {graph.op_types[op] for op in placement.placed_ops.tolist()}
    elif field == "device":
        values = [d.name for d in placement.devices]
    elif field in ("dtype", "out_dtype"):
        values = {t for t in graph.tensor_types if t}
    elif field == "layer":
        values = map(str, sorted(set(scopes_of(graph).layer_of_op.values())))
    return sorted(map(_quoted, values))


def _quoted(value: str) -> str:
    return value if re.fullmatch(r"[\w.]+", value) else f'"{value}"'
