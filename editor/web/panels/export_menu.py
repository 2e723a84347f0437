"""The export menu: the formats that the devices of the plan can use, the plan itself, pictures, and all other formats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import html

from editor.devices.device import Device
from editor.exports.formats import FORMATS
from editor.exports.registry import fits, problem_of
from editor.graph.graph import Graph
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


def exports(devices: Sequence[Device], graph: Graph) -> dict[str, list[tuple[str, str]]]:
    """Groups of the export menu: what each button asks for, and its label; what these devices can use comes first."""
    own: list[tuple[str, str]] = []
    others: list[tuple[str, str]] = []
    for name, form in FORMATS.items():
        if form.label and not form.group:
            usable = fits(name, devices) and not problem_of(graph, name)
            (own if usable else others).append((form.download or f"bundle:{name}", form.label))
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
    """The menu; where the table of devices has changed, it is another one."""
    groups = exports(document.devices, document.graph)
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
    name = (
        form
        if kind == "bundle"
        else next((name for name, each in FORMATS.items() if each.download == what), "")
    )
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
    return html.Button(label, className="menu-item", role="menuitem", tabIndex=-1, **this)
