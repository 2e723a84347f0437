"""The list of earlier benchmarks in the tab Benchmark."""

from __future__ import annotations

from collections.abc import Collection
from math import inf
from typing import Any

from dash import html

from editor.graph.states import TOKENS_PER_SECOND
from editor.kinds import Kind
from editor.placement.unsplit import unsplit_lacks
from editor.text import human_rate, human_seconds
from editor.web.panels.outputs_check import stand_ins_row
from editor.web.panels.parts import kind_badge
from editor.workspace.contexts import context_of, of_run
from editor.workspace.document import Document


def runs_view(document: Document) -> list[Any]:
    """Earlier benchmarks of the document, newest first; those of exactly this plan are marked."""
    runs, now = document.runs(), document.placement.fingerprint
    if not runs:
        return []
    best: dict[tuple[str, str], float] = {}
    for run in runs:
        if run.figures["estimated"]:
            continue
        kind = run.figures.get("mode", ""), of_run(run)
        best[kind] = min(run.figures["median"], best.get(kind, inf))
    plans: dict[str, set[Any]] = {document.layout_name: {now}}
    for run in runs:
        plans.setdefault(run.figures["layout"], set()).add(run.figures.get("plan"))
    rows = []
    for run in runs:
        f = run.figures
        is_other = f.get("plan") != now and len(plans[f["layout"]]) > 1
        unsplit = _unsplit(f, unsplit_lacks(document.placement, context_of(run))) or "—"
        named = [
            html.Td([f["layout"], _this_plan(f.get("plan") == now), _another(is_other)]),
            html.Td(run.when[:19].replace("T", " ") + " UTC"),
        ]
        if f["estimated"]:
            rows.append(
                html.Tr(
                    [
                        *named,
                        html.Td(stand_ins_row(f), colSpan=4),
                        html.Td(str(f["subgraphs"])),
                        html.Td(unsplit),
                    ]
                )
            )
            continue
        rows.append(
            html.Tr(
                [
                    *named,
                    html.Td(
                        [
                            html.B(human_seconds(f["median"]))
                            if f["median"] == best[f.get("mode", ""), of_run(run)]
                            else human_seconds(f["median"]),
                            f" a token {of_run(run)} " if f.get("mode") == "tokens" else " ",
                            kind_badge(Kind.MEASUREMENT),
                        ]
                    ),
                    html.Td(human_seconds(f["p99"])),
                    html.Td(_in_flight(f)),
                    html.Td(
                        human_rate(
                            f["throughput"],
                            TOKENS_PER_SECOND if f.get("mode") == "tokens" else "requests/s",
                        )
                    ),
                    html.Td(str(f["subgraphs"])),
                    html.Td(unsplit),
                ]
            )
        )
    head = [
        html.Th(t)
        for t in (
            "Layout",
            "When",
            "Median",
            "p99",
            "Concurrent",
            "Throughput",
            "Subgraphs",
            "Unsplit in the same run",
        )
    ]
    return [
        html.H3("Benchmarks so far"),
        html.Table(
            [html.Thead(html.Tr(head)), html.Tbody(rows)], className="plain", id="runs-table"
        ),
    ]


def _this_plan(same: bool) -> Any:
    return html.Span([" ", html.Span("this plan", className="badge")]) if same else None


def _another(is_other: bool) -> Any:
    """Tells a plan from another one of its name: a profile may lead a policy elsewhere without a step of the history."""
    title = "Ops were elsewhere then: the policy had other costs, or the devices have changed since"
    return html.Span(" other placement", className="hint", title=title) if is_other else None


def _unsplit(figures: dict[str, Any], unfit: Collection[str]) -> str:
    """The unsplit model on each device: its latency, or its rate where the run was for that; and whether it fits there."""

    def said(device: str, figure: str) -> str:
        return f"{device} {figure}{' (does not fit)' if device in unfit else ''}"

    rates = figures.get("baseline_rates") if figures.get("mode") == "throughput" else None
    if rates:
        return ", ".join(said(name, f"{rate:.1f} requests/s") for name, rate in rates.items())
    return ", ".join(
        said(name, human_seconds(value)) for name, value in figures["baselines"].items()
    )


def _in_flight(figures: dict[str, Any]) -> str:
    """Requests at the same time, which benchmarks of earlier versions did not keep."""
    return (
        str(1 if figures["mode"] == "latency" else figures["requests"])
        if "mode" in figures
        else "—"
    )
