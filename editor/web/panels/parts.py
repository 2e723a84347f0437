"""Small building blocks that several panels use."""

from __future__ import annotations

from typing import Any

import dash_mantine_components as dmc
from dash import html

from editor.kinds import Basis, Kind


def icon(name: str) -> html.Span:
    """A picture from ``assets/styles/icons.css``; the element around it carries the label."""
    return html.Span(className=f"icon icon-{name}", **{"aria-hidden": "true"})


def icon_button(identity: str | dict[str, Any], name: str, label: str, **more: Any) -> dmc.Tooltip:
    """A button that shows an icon, with its label as tooltip and for screen readers."""
    button = dmc.ActionIcon(icon(name), id=identity, variant=more.pop("variant", "subtle"), size="md",
                            color=more.pop("color", "gray"), **{"aria-label": label}, **more)
    return dmc.Tooltip(button, label=label, openDelay=350, withArrow=True)


def swatch(colour: str) -> html.Span:
    """A square of a device's colour."""
    return html.Span(className="swatch", style={"backgroundColor": colour}, **{"aria-hidden": "true"})


def heading(text: str, **more: Any) -> html.H2:
    """The title of a panel."""
    return html.H2(text, className="heading", **more)


def facts(pairs: list[tuple[str, Any]]) -> html.Dl:
    """Names and values below each other."""
    return html.Dl([part for name, value in pairs for part in (html.Dt(name), html.Dd(value))], className="facts")


def problem(text: str, title: str = "That did not work", **more: Any) -> dmc.Alert:
    """An error message with its line breaks."""
    return dmc.Alert(html.Div(text, className="message"), title=title, color="red", variant="light",
                     withCloseButton=True, **more)


def planned_badge(text: str = "planned") -> html.Span:
    """Marks a device that is not here."""
    return html.Span(text, className="planned")


_MEANING = {Kind.ESTIMATE: "Worked out from shapes and the stated peaks of the devices; nothing was run",
            Kind.PREDICTION: "Worked out from a profile of the model; this plan did not run",
            Kind.MEASUREMENT: "Of runs of exactly this plan on these devices"}


def kind_badge(kind: Kind, source: str = "", detail: str = "") -> html.Span:
    """Says what a number is, everywhere in the same way; the tooltip has the details."""
    title = f"{_MEANING[kind]}{f'. {detail}' if detail else ''}"
    return html.Span(f"{kind} {source}".rstrip(), className=f"kind {kind}", title=title, **{"data-kind": str(kind)})


def basis_badge(basis: Basis) -> html.Span:
    """Says what a number is and where it comes from."""
    return kind_badge(basis.kind, basis.source, basis.detail)
