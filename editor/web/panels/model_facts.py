"""What the model file says of itself, and how its nodes became ops."""

from __future__ import annotations

from collections import Counter
from typing import Any

from dash import html

from editor.graph.graph import Graph
from editor.text import pluralize
from editor.web.drawing.elements import visible_ops
from editor.web.panels.parts import facts

_MOST_TYPES = 4
_MOST_TENSORS = 12
"""Inputs or outputs that are listed at first."""


def model_facts(graph: Graph) -> html.Details:
    """A section that is closed at first."""
    file = graph.file
    opsets = ", ".join(f"{domain} {version}" for domain, version in graph.opsets.items())
    pairs: list[tuple[str, Any]] = [
        ("Inputs", _tensors(graph, graph.inputs.tolist())),
        ("Outputs", _tensors(graph, graph.outputs.tolist())),
        ("Opsets", opsets or "none"),
        ("IR version", str(file.ir_version)),
        ("Written by", file.producer or "not stated"),
        ("Initializers", f"{file.initializers:,}"),
        ("Nodes", nodes_in_words(graph)),
    ]
    if file.doc:
        pairs.append(("Description", html.Div(file.doc, className="plain-text")))
    pairs += [(key, html.Div(value, className="plain-text")) for key, value in file.metadata]
    return html.Details([html.Summary("Model"), facts(pairs)], className="model-facts")


def _tensors(graph: Graph, numbers: list[int]) -> list[Any]:
    """Names with types and shapes, and a fold for what is too long."""
    rows = [
        html.Div(
            [
                graph.tensor_names[t],
                html.Span(
                    f" {graph.tensor_types[t] or 'unknown type'} {graph.shape_label(t)}",
                    className="beside",
                ),
            ]
        )
        for t in numbers
    ]
    rest = rows[_MOST_TENSORS:]
    more = html.Details([html.Summary(f"{len(rest):,} more"), *rest]) if rest else None
    return [*rows[:_MOST_TENSORS], more]


def nodes_in_words(graph: Graph) -> str:
    """ "474 nodes became 213 ops: 261 compute constants (87 Constant, 60 Shape ...) and follow the ops that read them"."""
    file, ops = graph.file, len(visible_ops(graph))
    steps = []
    if len(graph) != file.nodes:
        opened = " and ".join(
            what
            for what, there in (("functions", file.functions), ("Ifs", graph.branches))
            if there
        )
        steps.append(f"opening {opened or 'the model'} made {len(graph):,} nodes of them")
    if folded := len(graph) - ops:
        types = Counter(
            graph.type_label(op) for op in range(len(graph)) if graph.op_is_constant[op]
        ).most_common()
        named = ", ".join(f"{count:,} {name}" for name, count in types[:_MOST_TYPES])
        more = " ..." if len(types) > _MOST_TYPES else ""
        steps.append(
            f"{folded:,} compute constants ({named}{more}) and follow the ops that read them"
        )
    became = f"{pluralize(file.nodes, 'node')} became {pluralize(ops, 'op')}"
    return f"{became}: {'; '.join(steps)}" if steps else f"{became}, one each"
