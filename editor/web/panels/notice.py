"""Short messages over the graph: what was refused and what to do about it."""

from __future__ import annotations

from dash import html

from editor.workspace.document import Refusal


def notice(text: str, bad: bool = False) -> html.Div:
    """A message that can be closed."""
    return html.Div([html.Div(text, className="message"), _close()], className="note bad" if bad else "note",
                    role="alert" if bad else "status")


def refusal_notice(refusal: Refusal, device: int) -> html.Div:
    """Ops that were not painted, with a way to insist."""
    count = len(refusal.ops)
    what = "1 op was" if count == 1 else f"{count} ops were"
    return html.Div([
        html.Div([html.B(f"{what} not painted: {refusal.device} cannot run {'it' if count == 1 else 'them'}. "),
                  refusal.reason + ("" if count == 1 else " …")], className="message"),
        html.Button("Paint anyway", className="tool small", title="The pin is kept and marked; a run will report it",
                    **{"data-force": ",".join(map(str, refusal.ops)), "data-device": str(device)}),
        _close()], className="note bad", role="alert")


def _close() -> html.Button:
    return html.Button("×", className="close", **{"aria-label": "Close", "data-command": "close-notice"})
