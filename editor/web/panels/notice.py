"""Short messages over the graph: what was refused and what to do about it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from dash import html

from editor.placement.kept import moved_ops
from editor.text import pluralize
from editor.web import controls
from editor.web import messages as m
from editor.web.panels.parts import with_link
from editor.workspace.document import Document, Refusal

_LINES_SHOWN = 3
"""Of a message; further ones are folded, for the graph is below."""


def notice(
    text: str, bad: bool = False, command: tuple[str, str] | None = None, way: Any = None
) -> html.Div:
    """A message that can be closed.

    Args:
        text: what is said.
        bad: whether something went wrong.
        command: one of the page (`assets/commands.js`) that helps, and its words.
        way: a button in its place.
    """
    if command:
        way = html.Button(command[1], className="tool small", **{"data-command": command[0]})
    return html.Div(
        [_message(text), way, close_button()],
        className="note bad" if bad else "note",
        role="alert" if bad else "status",
    )


def _message(text: str) -> html.Div:
    lines = text.splitlines()
    shown = lines[:_LINES_SHOWN]
    if len(lines) > len(shown) and shown[-1].endswith(":"):
        shown.pop()
    rest = "\n".join(lines[len(shown) :])
    more = html.Details([html.Summary("More"), rest]) if rest else None
    return html.Div(["\n".join(shown), more], className="message")


def watts_notice(devices: Sequence[str], asked: m.Automatic) -> html.Div:
    """Asks for the watts of devices that have none in the table; then what was asked for is done.

    Args:
        devices: their names.
        asked: the policy that goes by watts.
    """
    fields = [
        html.Label(
            [
                html.Span(f"{name}, watts", className="field-label"),
                controls.PlainInput(key=f"watts of {name}", type="number", min=0, step="any"),
            ],
            className="field",
            **{"data-watts-of": name},
        )
        for name in devices
    ]
    edit = asked.model_dump(exclude={"sequence"}, exclude_none=True)
    solve = html.Button("Solve", className="tool small", **{"data-state-watts": json.dumps(edit)})
    return notice(
        "Least energy goes by the watts of each device at work; the device table keeps them.",
        way=html.Div([*fields, solve], className="watts"),
    )


def refused_sizes(text: str) -> html.Div:
    """Why sizes were refused, beside their fields; `assets/context.js` tells its ``data-text`` where these are closed."""
    return html.Div(_message(text), className="hint warn", role="alert", **{"data-text": text})


_REASONS_SHOWN = 3


def refusal_notice(refusal: Refusal, device: int, source: str) -> html.Div:
    """Ops that were not painted, with a way to insist.

    Args:
        device: number of the device.
        source: address of what is published about it, or "".
    """
    count = len(refusal.ops)
    head = html.B(
        f"{'1 op was' if count == 1 else f'{count:,} ops were'} not painted: {refusal.device} does not take "
        f"{'it' if count == 1 else 'them'}. "
    )
    rows = [
        html.Li([*with_link(reason, source), f" ({pluralize(ops, 'op')})"])
        for reason, ops in refusal.reasons[:_REASONS_SHOWN]
    ]
    more = len(refusal.reasons) - len(rows)
    if more > 0:
        rows.append(html.Li(f"and {pluralize(more, 'more reason')}"))
    why = with_link(refusal.reason, source) if count == 1 else [html.Ul(rows)]
    return html.Div(
        [
            html.Div([head, *why], className="message"),
            html.Button(
                "Paint anyway",
                className="tool small",
                title="The pin is kept and marked; a run will report it",
                **{"data-force": ",".join(map(str, refusal.ops)), "data-device": str(device)},
            ),
            close_button(),
        ],
        className="note bad",
        role="alert",
    )


def close_button(command: str = "close-notice") -> html.Button:
    """Closes a message by a command of the page."""
    return html.Button("×", className="close", **{"aria-label": "Close", "data-command": command})


def moved_at_sizes(document: Document, before: Document, how: str) -> str:
    """Says what is on another device than at the sizes that a person came from.

    Args:
        document: at the new sizes.
        before: at the others.
        how: it was placed.
    """
    moved = len(moved_ops(document.placement, before.placement.affinity))
    if not moved:
        return f"{how}: every op is on the same device as before."
    new = len(document.placement.settings.pins) - len(before.placement.settings.pins)
    pins = f", {pluralize(new, 'op')} by pins" if new > 0 else ""
    return f"{how}: {pluralize(moved, 'op')} {'is' if moved == 1 else 'are'} on another device than before{pins}."
