"""What panes of a comparison need beside what is drawn: of each layout, or of two models, a device and a subgraph per op."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from editor.exports.dot import text_colour
from editor.graph.graph import Graph, bits_of, cached_per_graph
from editor.graph.layout.layered import Wrap, draw
from editor.kinds import NO_DIFFERENCE, Basis, Kind, by_factor, compare_medians, too_close
from editor.placement.choices import PRESENT
from editor.placement.placement import Placement
from editor.text import human_seconds, in_words, pluralize
from editor.web.drawing.elements import NODE_HEIGHT, NODE_WIDTH, visible_ops
from editor.web.messages import MapData, Pane, PaneDevice, Panes, VersionPane, Versions
from editor.web.panels.doubts import doubt_of_costs
from editor.web.view import Measured, colours_of, layout_costs, part_colours
from editor.workspace.contexts import are_alike, of_run
from editor.workspace.diffs import ModelDiff
from editor.workspace.document import Document
from editor.workspace.history import Run
from editor.workspace.layouts import Layout, figures


@cached_per_graph
def map_data(graph: Graph) -> MapData:
    """Positions and edges of all visible ops, base64 of little-endian arrays.

    ``x`` and ``y`` are float32 in the order of the page's ``ops``; ``source`` and ``target`` are uint32
    positions in that order; ``type`` is uint16 positions in ``types``.
    """
    ops = np.array(visible_ops(graph), np.int64)
    place = np.full(len(graph), -1, np.int64)
    place[ops] = np.arange(len(ops))
    producer, consumer, _ = graph.edges
    real = (place[producer] >= 0) & (place[consumer] >= 0)
    pairs = np.unique(np.stack([place[producer[real]], place[consumer[real]]], axis=1), axis=0)
    types = sorted({graph.op_types[op] for op in ops.tolist()})
    place_of = {name: i for i, name in enumerate(types)}
    drawing = draw(len(ops), pairs[:, 0], pairs[:, 1], NODE_WIDTH, wrap=Wrap())
    return {
        "count": len(ops),
        "width": NODE_WIDTH,
        "height": NODE_HEIGHT,
        "x": packed(drawing.x, "<f4"),
        "y": packed(drawing.y, "<f4"),
        "source": packed(pairs[:, 0], "<u4"),
        "target": packed(pairs[:, 1], "<u4"),
        "types": types,
        "type": packed(np.array([place_of[graph.op_types[op]] for op in ops.tolist()]), "<u2"),
    }


def packed(values: Any, kind: str) -> str:
    """An array as base64 of a little-endian type."""
    return base64.b64encode(np.ascontiguousarray(values.astype(kind)).tobytes()).decode()


_SAME, _CHANGED, _ONLY = range(3)


def versions_data(
    here: tuple[Document, Layout], there: tuple[Document, Layout], found: ModelDiff
) -> Versions:
    """Two models for the browser, each with its own devices, and what each op is in the other."""
    ours = panes_data(here[0], [here[1]])
    theirs = panes_data(there[0], [there[1]], ours["devices"])
    places = [_places(document) for document, _ in (here, there)]
    pairs = [pair for pair in found.pairs if pair.key[0] in places[0] and pair.key[1] in places[1]]
    layouts: list[VersionPane] = []
    for side, pane in enumerate((ours["layouts"][0], theirs["layouts"][0])):
        own, its = places[side], places[1 - side]
        state, twins = np.full(len(own), _ONLY, np.uint8), np.full(len(own), -1, np.int32)
        for pair in pairs:
            place = own[pair.key[side]]
            state[place] = _CHANGED if pair.changed else _SAME
            twins[place] = its[pair.key[1 - side]]
        changes = {
            str(own[pair.key[side]]): "; ".join(map(str, (*pair.changes, *pair.weights)))
            for pair in pairs
            if pair.changed
        }
        document = (here, there)[side][0]
        layouts.append(
            {
                **pane,
                "name": document.graph.path.name,
                "document": document.id,
                "ops": packed(np.array(visible_ops(document.graph)), "<u4"),
                "ops_named": (ours, theirs)[side]["ops_named"],
                "state": packed(state, "u1"),
                "twins": packed(twins, "<i4"),
                "changes": changes,
            }
        )
    return {"layouts": layouts, "devices": theirs["devices"]}


def _places(document: Document) -> dict[str, int]:
    """Key of an op -> its place among those that are drawn."""
    keys = document.graph.op_keys
    return {keys[op]: place for place, op in enumerate(visible_ops(document.graph))}


def panes_data(
    document: Document, layouts: Sequence[Layout], known: Sequence[PaneDevice] = ()
) -> Panes:
    """Layouts for the browser.

    ``device`` is uint8 and ``part`` uint32, in the order of the page's ops; ``devices`` are what they refer to: those that
    are known, those of the plan, then those that only a layout with other devices has.
    """
    ops = visible_ops(document.graph)
    others = [
        d for layout in layouts if layout.placement is not None for d in layout.placement.devices
    ]
    colours = colours_of(document, others)
    named: dict[str, PaneDevice] = {
        d.name: {
            "fill": colours[d.name],
            "ink": text_colour(colours[d.name]),
            "name": d.name,
            "bits": bits_of(d.published.assumes),
        }
        for d in [*document.devices, *others]
    }
    devices = [*known, *(device for device in named.values() if device not in known)]
    number = {name: devices.index(device) for name, device in named.items()}
    panes: list[Pane] = []
    measured, first, first_fits = Measured(document), None, True
    at, doubt = measured.context_of_sizes(layouts), doubt_of_costs(document)
    for layout in layouts:
        placement = layout.placement
        if placement is None:
            continue
        timed = _timed(document, layout, placement, measured, at)
        if first is None:
            first, first_fits = timed, not placement.run_memory.over
        f = timed.figures
        time = timed.words
        if doubt and timed.run is None:
            time = f"doubtful: {time}"
        if layout.name != PRESENT and placement.forced_ops:
            time = "cannot run as it is"
        elif placement.run_memory.over:
            time = f"does not fit; {time}"
        elif timed is not first and first_fits:
            time = "; ".join(filter(None, [time, _beside(timed, first)]))
        numbers = np.array([number[d.name] for d in placement.devices])
        summary = " · ".join(
            [
                pluralize(f["subgraphs"], "subgraph"),
                pluralize(f["transfers"], "transfer"),
                time,
            ]
        )
        panes.append(
            {
                "name": layout.name,
                "summary": summary,
                "device": packed(numbers[placement.assignment.device[ops]], "u1"),
                "part": packed(np.maximum(placement.division.subgraph_of_op[ops], 0), "<u4"),
                "partColour": part_colours(placement),
            }
        )
    return {"layouts": panes, "devices": devices, "ops_named": _names(document.graph, ops)}


class _Timed(NamedTuple):
    """What the time of a layout is, and how well it is known."""

    figures: dict[str, Any]
    seconds: float
    words: str
    basis: Basis
    interval: tuple[float, float] | None
    """That of a measurement"""
    run: Run | None = None
    """The measurement"""


def _timed(
    document: Document, layout: Layout, placement: Placement, measured: Measured, at: str
) -> _Timed:
    """The time of a layout; ``at`` is the context of what was worked out, where some were measured at another one."""
    costs, basis = layout_costs(document, layout)
    found = figures(placement, costs)
    run = measured.run(placement, measured.time_mode)
    if run is None:
        words = in_words(found["predicted"], bool(found["assumed_speeds"]))
        words += f" {at}" if at else ""
        return _Timed(found, found["predicted"], f"{words} ({basis})", basis, None)
    seconds, noisy = run.figures["median"], run.disturbances
    context = f" {of_run(run) or at}" if at else ""
    words = f"{human_seconds(seconds)}{context} ({Kind.MEASUREMENT}{', noisy' if noisy else ''})"
    low, high = run.figures.get("interval") or (0.0, np.inf)
    return _Timed(found, seconds, words, Basis(Kind.MEASUREMENT, ""), (low, high), run)


def _beside(one: _Timed, first: _Timed) -> str:
    """How a layout compares with the first one, as far as such figures can tell; "" of different kinds or contexts."""
    if not one.seconds or not first.seconds or (one.interval is None) != (first.interval is None):
        return ""
    if one.run is not None and first.run is not None and not are_alike(one.run, first.run):
        return ""
    ratio = one.seconds / first.seconds
    if one.interval is not None and first.interval is not None:
        words = compare_medians(one.interval, first.interval, ratio)
        return "too close to call" if words == NO_DIFFERENCE else words
    if one.seconds == first.seconds:
        return ""
    if too_close(one.seconds, first.seconds, one.basis, first.basis):
        return "too close to call"
    return by_factor(ratio)


def _names(graph: Graph, ops: Sequence[int]) -> list[list[str]]:
    """Type and name of each op."""
    return [[graph.type_label(op), graph.display_name(op)] for op in ops]
