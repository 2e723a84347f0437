"""What a document keeps of a benchmark: the figures that headlines, lists and reports show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from editor.execution.measure.figures import BenchmarkResult, compared
from editor.exports.benchmark_file import for_reports
from editor.kinds import Kind
from editor.placement.choices import PRESENT

if TYPE_CHECKING:  # it takes time to import
    from editor.execution.measure.tokens import TokenBenchmark
    from editor.execution.measure.tune import Tuned


def run_to_keep(result: BenchmarkResult) -> dict[str, Any]:
    """Of runs of the whole model: their time or rate, that of each subgraph, and the unsplit model beside them."""
    timed = [b for b in result.baselines if b.time is not None]
    basis = result.predicted_basis
    return {
        "mode": result.mode,
        "median": result.total.median,
        "interval": [result.total.low, result.total.high],
        "p99": result.total.p99,
        "throughput": result.throughput,
        "throughput_interval": result.throughput_interval,
        "requests": result.requests,
        "medians": [round(s.in_median_run, 9) for s in result.subgraphs],
        "estimated": result.estimated,
        "predicted": result.predicted if basis and basis.kind is Kind.PREDICTION else None,
        "unsplit": _best_unsplit(result),
        "baselines": {b.device: b.time.median for b in timed if b.time is not None},
        "baseline_rates": {b.device: b.throughput for b in timed if b.throughput},
        "report": for_reports(result.to_dict()),
    }


def tuned_to_keep(tuned: Tuned) -> list[dict[str, Any]]:
    """Of each candidate that was measured, the present plan last; they are marked, as candidates share the time."""
    return [
        {
            **run_to_keep(result),
            "tuned": True,
            "plan": tuned.fingerprints[result.plan],
            "subgraphs": len(result.subgraphs),
            **({} if result.plan == PRESENT else {"layout": result.plan}),
        }
        for result in sorted(tuned.results, key=lambda result: result.plan == PRESENT)
    ]


def tokens_to_keep(result: TokenBenchmark) -> dict[str, Any]:
    """Of a model that generates: the time of a token, and of the first one."""
    mine = result.figures
    times = {each.name.removeprefix("unsplit on "): each for each in result.timed}
    best = min(times, key=lambda device: times[device].token.median, default="")
    return {
        "mode": "tokens",
        "median": mine.token.median,
        "interval": [mine.token.low, mine.token.high],
        "p99": mine.token.p99,
        "throughput": mine.tokens_per_second,
        "requests": result.sequences,
        "first_token": mine.first_token.median,
        "medians": list(mine.by_subgraph),
        "disturbances": list(result.disturbances),
        "prompt": result.prompt,
        "new": result.new,
        "estimated": result.simulated,
        "unsplit": {
            "device": best,
            "figure": times[best].token.median,
            "words": result.against(times[best]),
        }
        if best
        else None,
        "baselines": {device: each.token.median for device, each in times.items()},
        "baseline_intervals": {d: [each.token.low, each.token.high] for d, each in times.items()},
    }


def _best_unsplit(result: BenchmarkResult) -> dict[str, Any] | None:
    """The fastest way not to split, and how the plan compares with it."""
    many = result.mode == "throughput"
    measured = [b for b in result.baselines if (b.throughput if many else b.time)]
    if not measured:
        return None
    best = (
        max(measured, key=lambda b: b.throughput or 0.0)
        if many
        else min(measured, key=lambda b: b.time.median if b.time else 0.0)
    )
    return {
        "device": best.device,
        "figure": best.throughput if many else best.time.median if best.time else None,
        "words": compared(result, best, result.mode),
    }
