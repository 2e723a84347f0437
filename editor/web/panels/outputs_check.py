"""What a benchmark says of outputs; of a plan that ran on stand-ins it says nothing else, because they have no speed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dash import html

from editor.execution.measure.figures import Baseline, BenchmarkResult
from editor.kinds import Kind
from editor.text import human_bytes, human_seconds, joined
from editor.web.panels.parts import (
    basis_badge,
    card,
    kind_badge,
    plain_table,
    planned_badge,
    swatch,
)


def stand_ins_view(result: BenchmarkResult, colours: Mapping[str, str]) -> list[Any]:
    """Whether the outputs match, and what ran in place of what."""
    absent = list(dict.fromkeys(ran.device for ran in result.ran_on if ran.is_stand_in))
    rows = [
        html.Tr(
            [
                html.Td(
                    [
                        swatch(colours[ran.device]),
                        ran.device,
                        " ",
                        planned_badge() if ran.is_stand_in else None,
                    ]
                ),
                html.Td(ran.runs_on),
                html.Td(f"{ran.subgraphs:,}"),
                html.Td(f"{ran.ops:,}"),
            ]
        )
        for ran in result.ran_on
    ]
    return [
        html.Div(
            [
                outputs_card(result),
                *_predicted_card(result),
                *(baseline_card(result, b) for b in result.baselines if b.time is not None),
                *memory_cards(result),
            ],
            className="cards",
            id="bench-cards",
        ),
        html.P(
            f"{joined(absent)} {'is' if len(absent) == 1 else 'are'} not on this machine, so a stand-in ran: the outputs were "
            "checked. It says nothing about speed, so no time of the plan was measured; a measurement kit (tab Devices) brings "
            "the times of its ops from where the device is.",
            className="hint wide",
        ),
        plain_table(("Device", "Ran on", "Subgraphs", "Ops"), rows),
        *(html.P(f"{note}.", className="hint wide") for note in result.precision_notes),
        text_of(result),
    ]


def _predicted_card(result: BenchmarkResult) -> list[html.Div]:
    """What the plan is predicted to take, where that is known."""
    if result.predicted_basis is None or not result.prediction:
        return []
    value = [html.B(result.prediction), basis_badge(result.predicted_basis)]
    return [card("The plan", value, "not measured: a stand-in ran")]


def baseline_card(result: BenchmarkResult, baseline: Baseline) -> html.Div:
    """What the unsplit model took on one device, or why it has no time."""
    title, time = f"Unsplit on {baseline.device}", baseline.time
    if time is None:
        return card(title, [html.B("—")], baseline.problem)
    many = result.mode == "throughput"
    runs = "one run" if time.count == 1 else f"{time.count} runs"
    median = human_seconds(time.median)
    large = rate_of(baseline.throughput or 0) if many else [html.B(median)]
    ratio = "" if result.estimated and not baseline.lacks else result.ratio_to(baseline)
    sure = [time.precision] if time.count > 1 else []
    small = (
        [baseline.interval, f"median {median} a request"]
        if many
        else [*sure, baseline.explained_rate]
    )
    return card(
        title,
        [*large, kind_badge(Kind.MEASUREMENT)],
        *([ratio] if ratio else []),
        " · ".join(filter(None, (baseline.description, runs, *small))),
        shown=1,
    )


def rate_of(requests: float) -> list[Any]:
    """Requests per second as the large figure of a card."""
    return [html.Span([html.B(f"{requests:.1f}"), " requests/s"])]


def outputs_card(result: BenchmarkResult) -> html.Div:
    """The largest difference to the unsplit model, and whether it is tolerable."""
    d = result.difference
    if d is None:
        return card("Largest difference", [html.B("—")], result.difference_problem)
    word = "within tolerance" if d.within_tolerance else "outside tolerance"
    look = "verdict good" if d.within_tolerance else "verdict bad"
    if (
        d.within_tolerance and result.not_simulated
    ):  # the split is right, and that is all that is known
        word, look = f"{word}, without {joined(result.not_simulated)}", "verdict"
    elif d.within_tolerance and result.estimated:
        word, look = f"{word}, by a stand-in", "verdict"
    details = (
        "relative" + (f", tolerance {d.tolerance}" if d.outputs else ""),
        f"{d.max_absolute:.2g} absolute",
        f"against the unsplit model on {d.reference}",
        result.narrowed,
        result.first_difference,
        result.difference_problem,
    )
    return card(
        "Largest difference",
        [html.B(f"{d.max_relative:.2g}"), html.Span(word, className=look)],
        " · ".join(filter(None, details)),
    )


def memory_cards(result: BenchmarkResult) -> list[html.Div]:
    """What the plan took in each memory, where that was measured."""
    cards = [
        card("Memory", [html.B(human_bytes(use.peak)), " ", kind_badge(Kind.MEASUREMENT)], str(use))
        for use in result.memory
    ]
    problem = result.memory_problem
    return [*cards, *([card("Memory", [html.B("—")], problem)] if problem else [])]


def text_of(result: BenchmarkResult) -> html.Details:
    """What the command line prints, folded."""
    return html.Details(
        [
            html.Summary("Report as text, environment"),
            html.Pre(result.text(), className="report"),
        ]
    )


def stand_ins_row(figures: Mapping[str, Any]) -> str:
    """What the list of benchmarks says of a run on stand-ins."""
    difference = figures.get("report", {}).get("difference")
    if not difference:
        return "stand-ins ran: no figure"
    same = "match" if difference["within_tolerance"] else "do not match"
    return f"outputs {same}; stand-ins ran: no figure"
