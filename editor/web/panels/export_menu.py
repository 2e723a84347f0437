"""The export menu: the formats that the devices of the plan can use, the plan itself, pictures, and all other formats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import html

from editor.exports.formats import FORMATS
from editor.exports.kept_off import NO_SPLIT
from editor.exports.registry import fits, left_out, problem_of, takes_only
from editor.graph.graph import Graph
from editor.placement.placement import Placement
from editor.web import controls
from editor.workspace.document import Document

_EXPORTS = {
    "Pictures and graphs": (
        ("picture:png", "Picture of the view, PNG"),
        ("picture:svg", "Picture of the view, SVG"),
        ("picture:png whole", "Picture of the graph, PNG"),
        ("picture:svg whole", "Picture of the graph, SVG"),
        ("affinity.dot", "Affinities, DOT"),
        ("affinity.svg", "Affinities, SVG"),
        ("subgraphs.dot", "Subgraphs, DOT"),
        ("subgraphs.svg", "Subgraphs, SVG"),
    ),
    "Plan and report": (("devices.yaml", "Devices, YAML"),),
}
"""Downloads beside the formats of plans, which the menu has too."""
_ORDER = ("For these devices", "Plan and report", "Pictures and graphs", "Other formats")
_FOLDED = _ORDER[2:]
_KIT = ("bundle:kit", "Kit that measures a planned device")


def exports(placement: Placement) -> dict[str, list[tuple[str, str]]]:
    """Groups of the export menu: what each button asks for, and its label; what these devices can use comes first.

    Of these, formats that keep the plan as it is stand before those that run ops elsewhere, and those that do not split last.
    """
    devices, graph = placement.devices, placement.graph
    own: list[tuple[str, str]] = []
    others: list[tuple[str, str]] = []
    for name, form in FORMATS.items():
        if form.label and not form.group:
            is_own = fits(name, devices) and not _lasting_problem(graph, name)
            (own if is_own else others).append((form.download or f"bundle:{name}", form.label))
    own.sort(key=lambda item: _rank(left_out(placement, _form(item[0]))))
    (own if any(d.planned for d in devices) else others).append(_KIT)
    groups = {
        title: [
            *(
                (form.download or f"bundle:{name}", form.label)
                for name, form in FORMATS.items()
                if form.label and form.group == title
            ),
            *more,
        ]
        for title, more in _EXPORTS.items()
    }
    first = {"For these devices": own} if own else {}
    return {**first, **groups, "Other formats": others}


def _lasting_problem(graph: Graph, form: str) -> str:
    """Why a format is not for a model, whether or not its weights are there; "" where it is."""
    problem, lacking = problem_of(graph, form), graph.weights_problem
    return "" if lacking and problem.endswith(lacking) else problem


def _rank(short: str) -> int:
    return (2 if short.startswith(NO_SPLIT) else 1) if short else 0


def _that_splits(placement: Placement) -> str:
    """The label of the format that runs each subgraph as its own model, where that keeps the plan; else ""."""
    form = "split" if placement.graph.is_onnx else "split-ir"
    able = not problem_of(placement.graph, form) and not left_out(placement, form)
    return FORMATS[form].label if able else ""


def _form(what: str) -> str:
    """The format of a button; "" where it is none."""
    kind, _, form = what.partition(":")
    if kind == "bundle":
        return form
    return next((name for name, each in FORMATS.items() if each.download == what), "")


def notes_of_plan(placement: Placement) -> dict[str, str]:
    """Format -> what it leaves out of a plan, where it does: the menu is another one where these are."""
    return {form: short for form in FORMATS if (short := left_out(placement, form))}


def export_menu(document: Document) -> controls.Popover:
    """The button with the menu below it."""
    return controls.Popover(
        export_groups(document),
        id="export",
        label="Export",
        icon="download",
        menu=True,
        end=True,
    )


def export_groups(document: Document) -> html.Div:
    """The menu; where devices have changed, or which ops run elsewhere, it is another one."""
    groups = exports(document.placement)
    return html.Div(
        [_group(document, title, groups[title]) for title in _ORDER if title in groups],
        className="menu-groups",
        role="none",
    )


def _group(
    document: Document, title: str, items: Sequence[tuple[str, str]]
) -> html.Details | html.Div:
    buttons = [_item(document, what, label) for what, label in items]
    if title in _FOLDED:
        opener = html.Summary(title, className="menu-item", role="menuitem", tabIndex=-1)
        return html.Details([opener, *buttons], **{"aria-label": title})
    return html.Div(
        [html.Div(title, className="menu-label"), *buttons], role="group", **{"aria-label": title}
    )


def _item(document: Document, what: str, label: str) -> html.Button:
    """A command of the menu; one that this model cannot have says why."""
    kind, _, form = what.partition(":")
    name = _form(what)
    reason = problem_of(document.graph, name) if name in FORMATS else ""
    if what == _KIT[0]:
        reason = document.graph.weights_problem
    this: dict[str, Any] = (
        {"disabled": True, "title": reason}
        if reason
        else {"data-picture": form}
        if kind == "picture"
        else {"id": {"type": "export", "what": what}}
    )
    short = "" if reason else left_out(document.placement, name)
    if reason:
        only = takes_only(document.graph, name) if name in FORMATS else ""
        short = f"for {only}" if only else "needs the weights, which are missing"
    if short.startswith(NO_SPLIT) and (other := _that_splits(document.placement)):
        short += f". “{other}” does split"
    said = [label, html.Span(short, className="menu-note")] if short else label
    return html.Button(said, className="menu-item", role="menuitem", tabIndex=-1, **this)
