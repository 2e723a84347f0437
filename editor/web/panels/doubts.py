"""Costs that measurements contradict."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from dash import html

from editor.exports.first_page import NOT_SPLITTING
from editor.placement.choices import COST_POLICIES
from editor.placement.chosen_costs import (
    aims_at_throughput,
    as_far_off,
    estimate_off_profile,
    unprofiled,
)
from editor.placement.costs import Costs
from editor.text import human_rate, human_seconds, joined, off_by
from editor.web.view import (
    MeasuredUnsplit,
    costs_value,
    figures_of,
    has_profile,
    measured_run,
    measured_unsplit,
    newest_predicted_run,
    plan_costs,
    profiled_at,
    unsplit_ways,
)
from editor.workspace.contexts import is_at_sizes
from editor.workspace.document import Document
from editor.workspace.history import Run

_NOISE = 3.0
"""Times that a busy machine may be slower; what was measured on one contradicts costs that are further off."""


def doubt_of_costs(document: Document) -> str:
    """Why the costs that the figures come from are doubtful; "" where no measurement contradicts them.

    ``way_to_better_costs`` says what helps.

    Of a plan that was not measured, the newest benchmark of another plan tells: of profiles as long as they are those of then,
    of estimates, and of profiles that no benchmark is of, by the unsplit model beside it.
    """
    if _measured_step(document) is not None:
        return _contradiction(document, figures_of(document)["predicted"] or 0.0)
    if costs_value(document) != "measured":
        return _contradiction_of_unsplit(document)
    if doubt := _doubt_of_estimates(document):
        return doubt
    run = newest_predicted_run(document)
    if run is None:
        return _contradiction_of_unsplit(document)
    median, predicted = float(run.figures["median"]), float(run.figures["predicted"])
    off = _off(predicted / median, run)
    plan = run.figures.get("layout") or "another plan"
    return (
        f"Measured {human_seconds(median)} of “{plan}”: these costs were {off} for that."
        if off
        else ""
    )


_estimated: WeakKeyDictionary[Document, tuple[Costs, str]] = WeakKeyDictionary()
"""Document -> its costs, and what ``estimate_off_profile`` says of them."""


def estimates_off(document: Document) -> str:
    """How far the estimate of a profiled device is off, where others have nothing but estimates; "" where it is near."""
    costs, _ = plan_costs(document)
    known = _estimated.get(document)
    if known is None or known[0] is not costs:
        known = _estimated[document] = costs, estimate_off_profile(document.placement, costs)
    return known[1]


def _doubt_of_estimates(document: Document) -> str:
    """The same, where the plan has ops on a device without a profile."""
    names = unprofiled(document.placement, plan_costs(document)[0])
    off = estimates_off(document) if names else ""
    return as_far_off(off, names) if off else ""


def _off(factor: float, run: Run) -> str:
    """How far a figure is from a run, by their ratio; "" where it is near, or as near as a busy machine can tell."""
    return "" if run.disturbances and 1 / _NOISE < factor < _NOISE else off_by(factor)


def _measured_step(document: Document) -> Run | None:
    """What was measured of this plan that its latency is a prediction of: runs, or tokens of about the same context."""
    tokens = measured_run(document, "tokens")
    at_sizes = tokens is not None and is_at_sizes(document.graph, tokens)
    return tokens if at_sizes else measured_run(document, "latency")


def _contradiction(document: Document, seconds: float) -> str:
    """How far a latency that was worked out is from that which was measured of this plan; "" where it is near or unknown."""
    run = _measured_step(document)
    if run is None or not seconds:
        return ""
    if not (off := _off(seconds / float(run.figures["median"]), run)):
        return ""
    measured = human_seconds(run.figures["median"])
    return f"Measured {measured}: these costs are {off} for this plan."


def _contradiction_of_unsplit(document: Document) -> str:
    """The same of the unsplit model on a device of the plan, which was measured beside another plan."""
    many, by_profile = (
        aims_at_throughput(document.placement.settings),
        costs_value(document) == "measured",
    )
    since = profiled_at(document) if by_profile else 0.0
    ways, measured = unsplit_ways(document), measured_unsplit(document, many, since)
    for way in [] if isinstance(ways, str) else ways:
        found = measured.get(way.device)
        if found is None or not document.placement.op_counts[way.device]:
            continue
        factor = found.figure / way.figure if many else way.figure / found.figure
        off = off_by(factor)
        if off and not (found.noisy and 1 / _NOISE < factor < _NOISE):
            said = human_rate(way.figure) if many else human_seconds(way.figure)
            costs = "the profile says" if by_profile else "these costs say"
            return f"{_took(way.device, found, many)}; {costs} {said}, {off}."
    return ""


def unsplit_as_measured(document: Document) -> str:
    """What not splitting took in the newest benchmark with it, in a sentence; "" where it was not measured."""
    many = aims_at_throughput(document.placement.settings)
    found = measured_unsplit(document, many)
    if not found:
        return ""
    best = (max if many else min)(found, key=lambda name: found[name].figure)
    return f"{_took(best, found[best], many)}."


def doubt_in_full(document: Document) -> str:
    """Why the costs are doubtful, with what not splitting took; "" where they are not."""
    doubt, measured = doubt_of_costs(document), unsplit_as_measured(document)
    if not doubt or doubt.startswith(measured[:-1]):
        return doubt
    return " ".join(filter(None, [measured, doubt]))


def _took(device: str, found: MeasuredUnsplit, many: bool) -> str:
    """What the unsplit model took: "Not splitting takes 2.88 ms on CPU (measured, noisy)"."""
    took = f"gives {human_rate(found.figure)}" if many else f"takes {human_seconds(found.figure)}"
    return f"{NOT_SPLITTING} {took} on {device} (measured{', noisy' if found.noisy else ''})"


def use_profile() -> html.Button:
    """A button that takes the costs from the stored profile."""
    return html.Button("Use the profile", className="link", **{"data-command": "costs-measured"})


def way_to_better_costs(document: Document) -> html.Button:
    """A button for better costs: it profiles, takes the stored profile, or leads to the measurement kit."""
    if costs_value(document) != "measured" and has_profile(document):
        return use_profile()
    names = unprofiled(document.placement, plan_costs(document)[0])
    lacking = [device for device in document.devices if device.name in names]
    if lacking and all(device.planned for device in lacking):
        return _kit()
    return _profile("Profile again" if costs_value(document) == "measured" else "Profile")


def left_out_by_estimate(document: Document) -> list[Any]:
    """Says of which devices an estimate decided that they have no ops, where estimates are off, and what measures them."""
    placement, costs = document.placement, plan_costs(document)[0]
    if placement.settings.policy not in COST_POLICIES or not costs.profiled:
        return []
    allowed = placement.constraints.allowed[placement.placed_ops]
    left = [
        device
        for i, device in enumerate(document.devices)
        if not (costs.profiled[i] or placement.op_counts[device.name]) and allowed[:, i].any()
    ]
    if not left or not estimates_off(document):
        return []
    names = joined([device.name for device in left])
    said = f"; {names} {'is' if len(left) == 1 else 'are'} left out by an estimate, which may be far off. "
    return [said, _kit() if all(device.planned for device in left) else _profile("Profile")]


def _kit() -> html.Button:
    kit = {"data-command": "show-kits", "title": "A script that measures a device where it is"}
    return html.Button("Measurement kit", className="link", **kit)


def _profile(words: str) -> html.Button:
    return html.Button(words, className="link", **{"data-command": "run-bench-profile"})


def _in_a_title(document: Document, why: str) -> str:
    """A doubt and what helps, where no button can stand."""
    words = way_to_better_costs(document).children
    return f"{why} {words}{', in the tab Benchmark' if words == 'Profile' else ''}."


def doubtful_badge(document: Document) -> html.Span | None:
    """Stands beside what was worked out from costs that a measurement contradicts.

    An estimate beside a measurement of the same plan needs no other sign.
    """
    if costs_value(document) != "measured" and _measured_step(document) is not None:
        return None
    why = doubt_of_costs(document)
    return (
        html.Span("doubtful", className="noisy doubtful", title=_in_a_title(document, why))
        if why
        else None
    )


def way_to_profile(document: Document) -> html.Button | None:
    """Stands beside an estimate that a quiet measurement contradicts, where no profile is there."""
    run = _measured_step(document)
    if run is None or has_profile(document) or run.disturbances:
        return None
    why = _contradiction(document, figures_of(document)["predicted"] or 0.0)
    way = way_to_better_costs(document)
    if not why:
        return None
    way.title = why
    return way
