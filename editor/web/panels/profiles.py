"""The stored profiles of a model on the devices of its table: what predictions go by."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
from dash import html

from editor.placement.device_profile import DeviceProfile, load_profile, profile_path
from editor.text import human_seconds
from editor.web.panels.parts import swatch
from editor.web.view import colours_of
from editor.workspace.document import Document


def profiles_view(document: Document) -> list[Any]:
    """A row for each device with a profile; nothing where there is none."""
    profiles = [load_profile(document.graph, d) for d in document.devices]
    rows = [_row(document, number, profile) for number, profile in enumerate(profiles) if profile is not None]
    if not rows:
        return []
    head = [html.Th(t) for t in ("Device", "Measured", "Stored", "Ops with a figure", "All ops", "A further subgraph",
                                 "Doubts")]
    head.append(html.Th(html.Span("Actions", className="unseen")))
    note = "Predictions of this model at these sizes go by them, in every document of it on this machine."
    return [html.H3("Profiles"), html.P(note, className="hint wide"),
            html.Table([html.Thead(html.Tr(head)), html.Tbody(rows)], className="plain", id="profiles-table")]


def _row(document: Document, number: int, profile: DeviceProfile) -> html.Tr:
    graph, device = document.graph, document.devices[number]
    able = document.placement.constraints.able[:, number] & ~graph.op_is_constant
    keys = [graph.op_keys[op] for op in np.flatnonzero(able).tolist()]
    stored = datetime.fromtimestamp(profile_path(graph, device).stat().st_mtime, UTC)
    forget = html.Button("×", className="mini", title=f"Forget the profile of {device.name}",
                         **{"data-forget-profile": device.name, "aria-label": f"Forget the profile of {device.name}"})
    return html.Tr([
        html.Td([swatch(colours_of(document)[device.name]), device.name]),
        html.Td(profile.origin or "on this machine"), html.Td(f"{stored:%Y-%m-%d %H:%M} UTC"),
        html.Td(f"{sum(key in profile.seconds for key in keys):,} of {len(keys):,}"), html.Td(human_seconds(profile.total)),
        html.Td(profile.overhead if profile.has_launch else "estimated"),
        html.Td("; ".join(profile.disturbances) or "—", className="lines"), html.Td(forget, className="buttons")])
