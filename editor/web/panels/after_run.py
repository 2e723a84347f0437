"""What can be done with the last run: measure longer, calibrate; and whether it is still of the plan."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

from dash import html

from editor.errors import EditorError
from editor.execution.measure.figures import LONGER
from editor.execution.measure.prediction import check_correctable, check_correction
from editor.placement.device_profile import best_source
from editor.text import human_seconds
from editor.web.benchmark_state import BenchmarkState
from editor.web.panels.doubts import use_profile
from editor.web.view import costs_value, has_profile
from editor.workspace.document import Document

MOST_SECONDS = 600
"""Of a measurement that the page starts."""
CALIBRATES = "Corrects the profiles by the last benchmark"


def why_no_calibration(benchmark: BenchmarkState | None, document: Document) -> html.P | None:
    """Why the last benchmark, or one of the plan where there is none yet, cannot correct profiles; None where it can."""
    try:
        if benchmark is not None and benchmark.kind == "benchmark" and benchmark.has_result:
            check_correction(benchmark.plan.placement, benchmark.job.result(0)[0])
            return None
        check_correctable(document.placement, "latency")
        profiled = best_source(document.graph, document.placement.used_devices) == "measured"
        first = "" if profiled else ", and by profiles before it"
        of_tokens = benchmark is not None and benchmark.kind == "tokens"
        mode = " of mode Latency; the last one was of tokens" if of_tokens else ""
        words = f"it goes by a benchmark{mode}{first}. Press {'Start' if profiled else 'Profile, then Start'}"
    except EditorError as error:
        words = str(error)
    return html.P(f"Calibrate is not possible: {words}.", className="hint wide")


def stale(benchmark: BenchmarkState | None, document: Document) -> html.P | None:
    """Says so when the plan is not the one that was measured, or how to settle what its measurement left open."""
    if benchmark is None:
        return None
    if benchmark.kind == "profile":  # of the model, not of the plan
        is_used = costs_value(document) == "measured" or not has_profile(document)
        words = ["The plan goes by estimates: ", use_profile(), "."]
        return None if is_used else html.P(words, className="hint wide")
    if benchmark.is_of(document):
        return _measure_longer(benchmark)
    of = f"“{benchmark.layout}”" if benchmark.layout else "another plan"
    return html.P(
        f"These results are of {of}, not of the present plan.", className="hint wide warn"
    )


def _measure_longer(benchmark: BenchmarkState) -> html.P | None:
    """What a benchmark left open, with a button that runs it again for longer; None where nothing is."""
    options, seconds = benchmark.options, min(LONGER * benchmark.options.seconds, MOST_SECONDS)
    if benchmark.kind != "benchmark" or not benchmark.has_result:
        return None
    result = benchmark.job.result(0)[0]
    if not result.left_open:
        return None
    why = f": {'; '.join(result.disturbances)}" if result.disturbances else ""
    time, before = human_seconds(seconds), human_seconds(options.seconds)
    again = html.Button(
        f"Measure longer ({time})",
        className="tool small",
        title=f"Runs the same benchmark again for {time}, in place of {before}",
        **{"data-measure-again": json.dumps(asdict(replace(options, seconds=seconds)))},
    )
    is_longer = seconds > options.seconds
    return html.P(
        [f"{result.left_open}{why}. ", again if is_longer else None], className="hint wide"
    )
