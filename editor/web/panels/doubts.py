"""Costs that a measurement of the plan contradicts."""

from __future__ import annotations

from dash import html

from editor.text import human_seconds, off_by
from editor.web.view import (
    costs_value,
    has_profile,
    measured_run,
    newest_predicted_run,
    predicted_of,
)
from editor.workspace.document import Document


def contradiction(document: Document, seconds: float) -> str:
    """How far a latency that was worked out is from that which was measured of this plan; "" where it is near or unknown."""
    run = measured_run(document, "latency")
    if run is None or not seconds:
        return ""
    off = off_by(seconds / float(run.figures["median"]))
    if not off:
        return ""
    way = "Profile again"
    if costs_value(document) != "measured":
        way = (
            "Choose “Costs: from a profile”"
            if has_profile(document)
            else "Profile, in the tab Benchmark"
        )
    return f"Measured {human_seconds(run.figures['median'])}: these costs are {off} for this plan. {way}."


def doubt_of_profiles(document: Document) -> str:
    """Why the profiles that the figures come from are doubtful; "" where no measurement contradicts them.

    Of a plan that was not measured, the newest benchmark of another plan tells, as long as the profiles are those of then.
    """
    if costs_value(document) != "measured":
        return ""
    if measured_run(document, "latency") is not None:
        return contradiction(document, predicted_of(document)[0] or 0.0)
    run = newest_predicted_run(document)
    if run is None:
        return ""
    median, predicted = float(run.figures["median"]), float(run.figures["predicted"])
    off = off_by(predicted / median)
    plan = run.figures.get("layout") or "another plan"
    return (
        f"Measured {human_seconds(median)} of “{plan}”: these costs were {off} for that. Profile again."
        if off
        else ""
    )


def doubtful_badge(document: Document) -> html.Span | None:
    """Stands beside what was worked out from profiles that a measurement contradicts."""
    why = doubt_of_profiles(document)
    return html.Span("doubtful", className="noisy doubtful", title=why) if why else None


def way_to_profile(document: Document) -> html.Button | None:
    """Stands beside an estimate that a quiet measurement contradicts, where no profile is there."""
    run = measured_run(document, "latency")
    if run is None or has_profile(document) or run.figures.get("report", {}).get("disturbances"):
        return None
    why = contradiction(document, predicted_of(document)[0] or 0.0)
    command = {"data-command": "run-bench-profile"}
    return html.Button("Profile", className="link", title=why, **command) if why else None
