"""The stored profiles of a model on the devices of its table: what predictions go by."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from dash import html

from editor.placement.device_profile import (
    DeviceProfile,
    earlier_path,
    earlier_profile,
    load_profile,
    profile_path,
)
from editor.text import human_seconds
from editor.web.panels.doubts import doubtful_badge
from editor.web.panels.parts import swatch
from editor.web.view import colours_of, costs_value, has_profile
from editor.workspace.document import Document


def profiles_view(document: Document) -> list[Any]:
    """A row for each device with a profile, now or before; nothing where there is none."""
    rows = [
        row
        for number in range(len(document.devices))
        if (row := _row(document, number)) is not None
    ]
    if not rows:
        return []
    head = [
        html.Th(t)
        for t in (
            "Device",
            "Measured",
            "Stored",
            "Ops with a figure",
            "All ops",
            "A further subgraph",
            "Doubts",
        )
    ]
    head.append(html.Th(html.Span("Actions", className="unseen")))
    note = "Every document of this model at these sizes uses these profiles."
    use = None
    if costs_value(document) != "measured" and has_profile(document):
        words, title = "Use them now", "Sets the costs to those of the profiles"
        use = html.Button(
            words, className="tool small", title=title, **{"data-command": "costs-measured"}
        )
    return [
        html.H3("Profiles"),
        html.P([note, " ", use], className="hint wide"),
        html.Table(
            [html.Thead(html.Tr(head)), html.Tbody(rows)], className="plain", id="profiles-table"
        ),
    ]


def _row(document: Document, number: int) -> html.Tr | None:
    graph, device = document.graph, document.devices[number]
    profile, earlier = load_profile(graph, device), earlier_profile(graph, device)
    if profile is None and earlier is None:
        return None
    able = document.placement.constraints.able[:, number] & ~graph.op_is_constant
    keys = [graph.op_keys[op] for op in np.flatnonzero(able).tolist()]
    actions = (
        [
            _put_back(
                device.name, earlier, _stored(earlier_path(graph, device)), _total(earlier, keys)
            )
        ]
        if earlier
        else []
    )
    if profile is None:
        figures = [html.Td("none now", colSpan=6, className="hint")]
    else:
        actions.append(
            html.Button(
                "×",
                className="mini",
                title=f"Forget the profile of {device.name}"
                f"{'; the one before it goes' if earlier else ''}",
                **{
                    "data-forget-profile": device.name,
                    "aria-label": f"Forget the profile of {device.name}",
                },
            )
        )
        doubts = [*filter(None, [profile.stand_in(device.name)]), *profile.disturbances]
        figures = [
            html.Td(profile.origin or "on this machine"),
            html.Td(_stored(profile_path(graph, device))),
            html.Td(f"{sum(key in profile.seconds for key in keys):,} of {len(keys):,}"),
            html.Td(_total(profile, keys)),
            html.Td(profile.overhead if profile.has_launch else "estimated"),
            html.Td("; ".join(doubts) or "—", className="lines"),
        ]
    used = profile is not None and document.placement.op_counts[device.name] > 0
    name = html.Td(
        [
            swatch(colours_of(document)[device.name]),
            device.name,
            " ",
            doubtful_badge(document) if used else None,
        ]
    )
    return html.Tr([name, *figures, html.Td(actions, className="buttons")])


def _total(profile: DeviceProfile, keys: Sequence[str]) -> str:
    """Seconds of all ops; of those with a figure where some have none: a file's total may be that of another model."""
    if profile.seconds.keys() >= set(keys):
        return human_seconds(profile.total)
    return f"{human_seconds(sum(profile.seconds.get(key, 0.0) for key in keys))} for these"


def _put_back(name: str, earlier: DeviceProfile, stored: str, total: str) -> html.Button:
    where = f"from {earlier.origin}, " if earlier.origin else ""
    noisy = ", noisy" if earlier.disturbances else ""
    return html.Button(
        "Put back",
        className="tool small",
        **{
            "data-put-back-profile": name,
            "aria-label": f"Put back the earlier profile of {name}",
            "title": f"The profile before: {where}stored {stored}, {total}{noisy}",
        },
    )


def _stored(path: Path) -> str:
    return f"{datetime.fromtimestamp(path.stat().st_mtime, UTC):%Y-%m-%d %H:%M} UTC"
