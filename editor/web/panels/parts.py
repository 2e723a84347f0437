"""Small building blocks that several panels use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash import html

from editor.arguments import MOST_TOKENS
from editor.devices.device import Device
from editor.graph.dimension_meanings import words_of_dimension
from editor.kinds import Basis, Kind
from editor.placement.placement import Placement
from editor.text import human_bytes
from editor.web import controls

ADDED = (
    "Estimate: this runtime took so much for other models, with weights in the layout of its kernels, compiled ops and "
    "what its allocator keeps. The program itself and its libraries are not counted"
)
"""What a runtime adds to the memory of a run."""
LONGEST = "Places the model within memory at several lengths, and opens it with the longest context that fits"


def icon(name: str) -> html.Span:
    """A picture from ``assets/styles/icons.css``; the element around it carries the label."""
    return html.Span(className=f"icon icon-{name}", **{"aria-hidden": "true"})


def icon_button(identity: str, name: str, label: str, framed: bool = False) -> html.Button:
    """A button that shows an icon, with its label as tooltip and for screen readers."""
    return html.Button(
        icon(name),
        id=identity,
        className=f"icon-button{' framed' if framed else ''}",
        title=label,
        **{"aria-label": label},
    )


def scheme_toggle() -> html.Button:
    """Switches between light and dark; the style sheets show the picture of what it switches to."""
    return html.Button(
        [icon("sun"), icon("moon")],
        id="scheme-toggle",
        className="icon-button",
        title="Light or dark",
        **{"aria-label": "Light or dark"},
    )


def swatch(colour: str) -> html.Span:
    """A square of a device's colour."""
    return html.Span(
        className="swatch", style={"backgroundColor": colour}, **{"aria-hidden": "true"}
    )


def runtime_beside(device: Device) -> html.Span | None:
    """The runtime of a device, quietly after its name, where that does not say it."""
    beside = device.runtime_beside
    return html.Span(f"· {beside}", className="device-runtime") if beside else None


def size_in_words(size: int, form: str) -> str:
    """ "50.18 kB as float16": bytes, and the type they are of where a tensor's own is another."""
    return human_bytes(size) + (f" as {form}" if form else "")


def planned_size(placement: Placement, tensor: int, device: int) -> tuple[str, str]:
    """The size of a tensor in words, as ``Placement.size_of`` has it; and that of its own type where it is another, else ""."""
    graph, (size, form) = placement.graph, placement.size_of(tensor, device)
    own = size_in_words(int(graph.tensor_bytes[tensor]), graph.tensor_types[tensor])
    return size_in_words(size, form), own if form else ""


def heading(text: str, **more: Any) -> html.H2:
    """The title of a panel."""
    return html.H2(text, className="heading", **more)


def facts(pairs: list[tuple[str, Any]]) -> html.Dl:
    """Names and values below each other."""
    return html.Dl(
        [part for name, value in pairs for part in (html.Dt(name), html.Dd(value))],
        className="facts",
    )


def size_field(kind: str, name: str, size: int | None, **more: Any) -> controls.Field:
    """A field for the size of a dimension, called by plain words where its name is a usual one."""
    words = words_of_dimension(name)
    return controls.Field(
        id={"type": kind, "name": name},
        type="number",
        label=f"{words[:1].upper()}{words[1:]}",
        code="" if words == name else name,
        value=size,
        min=0,
        step=1,
        **more,
    )


def length_fields(
    ids: tuple[str, str], prompt: int, new: int, disabled: bool = False
) -> list[controls.Field]:
    """Fields for the tokens of a prompt and of its answer."""
    asked = zip(ids, ("Prompt tokens", "New tokens"), (prompt, new), strict=True)
    return [
        controls.Field(
            id=identity,
            type="number",
            label=label,
            value=value,
            min=1,
            max=MOST_TOKENS,
            width=104,
            disabled=disabled,
        )
        for identity, label, value in asked
    ]


def problem(text: str, title: str = "That did not work") -> controls.Alert:
    """An error message with its line breaks."""
    return controls.Alert(text, title=title)


def planned_badge(text: str = "planned") -> html.Span:
    """Marks a device that is not here."""
    return html.Span(text, className="planned")


_MOST_ALIKE = 2
"""Names of plans that are the same, which are said; more would fill the panel with one row."""


def same_as(names: Mapping[str, str]) -> html.Div | None:
    """Says what comes to the same; None where nothing does. Of many it has the first one and their number.

    Args:
        names: what they are called, with what each means.
    """
    if not names:
        return None
    said: list[Any] = [html.Span(name, title=title) for name, title in names.items()]
    if len(said) > _MOST_ALIKE:
        rest = list(names.items())[1:]
        title = "\n".join(what for _, what in rest)
        said[1:] = [" and ", html.Span(f"{len(rest)} others", className="more", title=title)]
    elif len(said) > 1:
        said.insert(1, "; ")
    return html.Div(["the same: ", *said], className="hint alike")


_MEANING = {
    Kind.ESTIMATE: "Worked out from shapes and the stated peaks of the devices; nothing was run",
    Kind.PREDICTION: "Worked out from a profile of the model; not measured",
    Kind.MEASUREMENT: "Of runs of exactly this plan on these devices",
}


def kind_badge(kind: Kind, source: str = "", detail: str = "", meaning: str = "") -> html.Span:
    """Says what a number is, everywhere in the same way; the tooltip has the details."""
    title = f"{meaning or _MEANING[kind]}{f'. {detail}' if detail else ''}"
    return html.Span(
        f"{kind} {source}".rstrip(),
        className=f"kind {kind}",
        title=title,
        **{"data-kind": str(kind)},
    )


def basis_badge(basis: Basis) -> html.Span:
    """Says what a number is and where it comes from."""
    return kind_badge(basis.kind, basis.source, basis.detail)


def with_link(reason: str, source: str) -> list[Any]:
    """A reason whose address, where it has one, is a link."""
    if not source.startswith("https://"):
        return [reason]
    return [
        reason.replace(f" ({source})", ""),
        " ",
        html.A(
            "[source]",
            href=source,
            target="_blank",
            rel="noreferrer noopener",
            title=f"Where this is published: {source}",
        ),
    ]


def fallback_button(label: str, what: str, value: str, title: str) -> html.Button:
    """A button in a table of fallbacks, which ``assets/fallbacks.js`` answers; ``value`` is what it is about."""
    return html.Button(
        label, className="tool small", title=title, **{"data-fallback": what, "data-value": value}
    )


def plan_as_button(number: int, device: str, element_type: str) -> html.Button:
    """Plans a device in another element type, as if the model had been converted to it."""
    return html.Button(
        f"Plan as {element_type}",
        className="tool small",
        title=f"Plans {device} as if the model had been converted to {element_type}; nothing is converted",
        **{"data-fallback": "assume", "data-value": f"{number}|{device}|{element_type}"},
    )


def unpin_forced_button() -> html.Button:
    """Removes the pins by force; other pins stay."""
    return html.Button(
        "Unpin forced",
        className="tool small",
        title="Removes the pins to devices that do not take the op; other pins stay",
        **{"data-command": "unpin-forced"},
    )


def condition_title(condition: str) -> str:
    """The tooltip of a reason that a condition of the device table is behind."""
    if condition in ("true", "false"):
        return "The device table refuses every op of this type"
    return f"Condition of the device table: {condition}" if condition else ""


def card(title: str, value: list[Any], *details: str, shown: int = 9) -> html.Div:
    """A figure with what it means; details beyond the first ``shown`` are folded."""
    lines = [html.Div(detail, className="card-detail") if detail else None for detail in details]
    first, more = list(filter(None, lines[:shown])), list(filter(None, lines[shown:]))
    return html.Div(
        [
            html.Div(title, className="card-title"),
            html.Div(value, className="card-value"),
            *first,
            html.Details([html.Summary("More"), *more]) if more else None,
        ],
        className="card",
    )


def plain_table(titles: Sequence[Any], rows: list[html.Tr]) -> html.Table:
    """A table that is only read."""
    heads = [html.Th(title, scope="col") for title in titles]
    return html.Table([html.Thead(html.Tr(heads)), html.Tbody(rows)], className="plain")
