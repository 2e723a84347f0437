"""Small building blocks that several panels use."""

from __future__ import annotations

from typing import Any

import dash_mantine_components as dmc
from dash import html


def icon(name: str) -> html.Span:
    """A picture from ``assets/icons.css``; the element around it carries the label."""
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


def planned_badge(text: str = "estimated") -> html.Span:
    """Marks what was not measured on the real device."""
    return html.Span(text, className="planned")
