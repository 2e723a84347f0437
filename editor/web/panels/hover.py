"""What the pointer rests on: an op with its cost on each device, a block, or what crosses an edge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import html

from editor.graph.scopes.tree import scopes_of
from editor.placement.chosen_costs import assumed_speeds, is_assumed
from editor.placement.fallbacks import seconds_of
from editor.text import human_bytes, in_words
from editor.web.panels.parts import basis_badge, planned_size, runtime_beside, swatch
from editor.web.view import colours_of, op_costs, plan_costs
from editor.workspace.document import Document


def hover(document: Document, ops: Sequence[int], pairs: Sequence[Sequence[int]]) -> list[Any]:
    """The text of the tooltip.

    Args:
        document: what is drawn.
        ops: of the node under the pointer; empty over an edge.
        pairs: [producer, consumer] of the edge under the pointer.
    """
    if ops:
        return _op(document, ops[0]) if len(ops) == 1 else _block(document, ops)
    return _edge(document, pairs)


def _op(document: Document, op: int) -> list[Any]:
    graph = document.graph
    made = [t for t in graph.op_outputs[op].tolist() if t >= 0]
    shapes = ", ".join(
        f"{graph.tensor_types[t] or '?'} {graph.shape_label(t)} {_size(document, t, op)}"
        for t in made[:2]
    )
    return [
        html.B(graph.type_label(op)),
        html.Div(graph.display_name(op), className="soft"),
        html.Div(f"→ {shapes}"),
        *costs_on_devices(document, [op]),
        *_because(document, op),
    ]


def _size(document: Document, tensor: int, op: int) -> str:
    """ "50.18 kB as float16 (100.4 kB as float32)": as an op's tensor travels, and as it is where that is another."""
    placement = document.placement
    size, own = planned_size(placement, tensor, int(placement.assignment.device[op]))
    return f"{size} ({own})" if own else size


_MOST_REFUSALS = 2


def _because(document: Document, op: int) -> list[html.Div]:
    """Why an op is on its device, why those before it cannot run it, and what its own computes otherwise: a line each."""
    placement, constraints = document.placement, document.placement.constraints
    chosen = int(placement.device_of_op[op])
    because = placement.why(document.graph.op_keys[op]).because
    lines = []
    for d in [d for d in range(chosen) if not constraints.able[op, d]][:_MOST_REFUSALS]:
        device = document.devices[d]
        reason = constraints.inability(op, d).replace(f" ({device.published.source})", "")
        lines.append(f"{device.name}: {reason.replace(f' on {device.name}', '', 1)}")
    if remark := constraints.remark(op, chosen):
        because = because.replace(f"; {remark}", "", 1)
        lines.append(f"Note: {remark}")
    if lines and because.startswith("first device in the table"):
        because = because.partition(", after ")[0]  # the next lines say why
    return [
        html.Div(line, className="soft") for line in (because[:1].upper() + because[1:], *lines)
    ]


def _block(document: Document, ops: Sequence[int]) -> list[Any]:
    weights = sum(
        int(document.graph.tensor_bytes[t])
        for t in {
            t
            for op in ops
            for t in document.graph.op_reads[op].tolist()
            if document.graph.tensor_is_constant[t]
        }
    )
    scopes = scopes_of(document.graph)
    around = set.intersection(*(set(scopes.ancestors(scopes.of_op.get(op, 0))) for op in ops))
    block = scopes.scopes[max(around)] if around else None
    inside = scopes.layers_in(block.number) if block is not None else 0
    alike = (
        f", one of {len(block.identical)} alike"
        if block is not None and len(block.identical) > 1
        else f", a list of {inside} layers"
        if inside
        else ""
    )
    name = f"{block.label}{alike}" if block is not None else "several blocks"
    if number := _whole_subgraph(document, ops):
        name = f"{number}: {name}" if block is not None else number
    what = f"{len(ops):,} ops, {human_bytes(weights)} of constants"
    return [html.B(name), html.Div(what), *costs_on_devices(document, list(ops))]


def _whole_subgraph(document: Document, ops: Sequence[int]) -> str:
    """ "Subgraph 2" where these ops are all of one, else ""."""
    numbers = set(document.placement.division.subgraph_of_op[list(ops)].tolist())
    part = numbers.pop()
    whole = not numbers and document.placement.subgraphs[part].size == len(ops)
    return f"Subgraph {part}" if whole else ""


def costs_on_devices(document: Document, ops: list[int]) -> list[Any]:
    """Time on each device of what it can run; the present devices in bold."""
    costs, basis = op_costs(document)
    constraints, colours = document.placement.constraints, colours_of(document)
    able = constraints.able
    here = set(document.placement.assignment.device[ops].tolist())
    rows = []
    for d, device in enumerate(document.devices):
        can = [op for op in ops if able[op, d]]
        others = dict.fromkeys(document.graph.op_types[op] for op in ops if not able[op, d])
        words = (
            in_words(float(costs.op[can, d].sum()), is_assumed(document.devices, costs, d))
            if can
            else "excluded by the device table"
            if all(constraints.excluded(op, d) for op in ops)
            else "cannot run"
        )
        without = ""
        if can and others:
            words += f" for {len(can)} of {len(ops)} ops"
            without = f"not {', '.join(list(others)[:3])}{' …' if len(others) > 3 else ''}"
        name = html.B if d in here else html.Span
        rows.append(
            html.Div(
                [
                    swatch(colours[device.name]),
                    name(device.name, className="hover-device", title=device.name),
                    runtime_beside(device),
                    html.Span(words, className="value"),
                    *([html.Span(without, className="hover-without soft")] if without else []),
                ],
                className="hover-row",
            )
        )
    return [
        html.Div(rows, className="hover-rows"),
        html.Div(["Stand-alone time: ", basis_badge(basis)], className="soft"),
    ]


def _takes(document: Document, tensor: str) -> str:
    """ ", about 30 µs (estimate)": what a transfer takes; "" of a tensor that none is known of."""
    placement, (costs, basis) = document.placement, plan_costs(document)
    found = next((b for b in placement.division.transfers if b.tensor == tensor), None)
    if found is None:
        return ""
    seconds = seconds_of(placement, costs, found)
    return f", {in_words(seconds, bool(assumed_speeds(placement, costs)))} ({basis.kind})"


def _edge(document: Document, pairs: Sequence[Sequence[int]]) -> list[Any]:
    graph, placement = document.graph, document.placement
    rows, seen = [], set()
    for source, target in pairs[:24]:
        for tensor in graph.op_outputs[source].tolist():
            if tensor < 0 or tensor in seen or target not in graph.readers[tensor].tolist():
                continue
            seen.add(tensor)
            a, b = (
                document.devices[int(placement.assignment.device[op])].name
                for op in (source, target)
            )
            subgraph_of_op = placement.division.subgraph_of_op
            how = (
                f"transfer {a} → {b}"
                if a != b
                else "stays in its subgraph"
                if subgraph_of_op[source] == subgraph_of_op[target]
                else f"boundary on {a}"
            )
            what = f"{graph.tensor_types[tensor] or '?'} {graph.shape_label(tensor)}"
            size = _size(document, tensor, source)
            if a != b:
                how += _takes(document, graph.tensor_names[tensor])
            rows.append(
                html.Div(
                    [
                        html.B(graph.tensor_names[tensor]),
                        html.Div(f"{what} · {size} · {how}", className="soft"),
                    ]
                )
            )
    return rows[:4] + (
        [html.Div(f"and {len(rows) - 4} more", className="soft")] if len(rows) > 4 else []
    )
