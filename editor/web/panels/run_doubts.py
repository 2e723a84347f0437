"""Why the figures of a measurement may be wrong or leave open which is faster, and a button that measures longer."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

from dash import html

from editor.execution.measure.figures import LONGER, BenchmarkResult
from editor.text import human_seconds
from editor.web.benchmark_state import JobOptions

MOST_SECONDS = 600
"""Of a measurement that the page starts."""


def doubts(
    result: BenchmarkResult, options: JobOptions | None = None, kind: str = "benchmark"
) -> list[Any]:
    """Why the figures may be wrong, or other than in the runtime's own tools.

    Args:
        result: what was measured.
        options: what it was measured with, to measure longer; None where it cannot be measured again.
        kind: ``benchmark`` or ``tune``.
    """
    found: list[Any] = []
    if result.precision_notes:
        notes = [html.P(f"{note}.", className="hint wide") for note in result.precision_notes]
        found.append(html.Details([html.Summary("Precision of the runtimes"), *notes]))
    again = [] if options is None else _measure_longer(options, kind)
    if result.disturbances:
        said = f"Noisy: {'; '.join(result.disturbances)}. Measure again on a quiet machine; drawing this page counts too. "
        found.append(html.P([said, *again], className="hint wide warn"))
    elif result.left_open and again:
        found.append(html.P([f"{result.left_open}. ", *again], className="hint wide"))
    return found


def _measure_longer(options: JobOptions, kind: str) -> list[Any]:
    seconds = min(LONGER * options.seconds, MOST_SECONDS)
    if seconds <= options.seconds:
        return []
    request = asdict(replace(options, seconds=seconds)) | {"kind": kind}
    time, before = human_seconds(seconds), human_seconds(options.seconds)
    return [
        html.Button(
            f"Measure longer ({time})",
            className="mini",
            title=f"Measures the same again for {time}, in place of {before}",
            **{"data-measure-again": json.dumps(request)},
        )
    ]
