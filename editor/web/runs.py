"""Benchmarks, profiles and tunings of a document: started, followed and ended; and the figures of them that it keeps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from editor.arguments import MOST_TOKENS
from editor.errors import EditorError, WorkspaceError
from editor.execution.measure.figures import BenchmarkResult, compared
from editor.exports.benchmark_file import for_reports
from editor.kinds import Kind
from editor.placement.choices import PRESENT
from editor.sandbox.jobs import TIME_LIMIT_SECONDS
from editor.text import human_seconds, pluralize, shortened
from editor.web import messages as m
from editor.web.app_state import AppState
from editor.web.benchmark_state import BenchmarkState, JobOptions
from editor.workspace.document import Document

if TYPE_CHECKING:  # it takes time to import
    from editor.execution.measure.tokens import TokenBenchmark
    from editor.execution.measure.tune import Tuned

_REFRESH_SECONDS = 0.5
_DOING = {
    "profile": "Profiling",
    "tune": "Tuning",
    "accuracy": "Comparing",
    "tokens": "Generating",
}
"""Kinds of runs whose steps are counted; the others prepare first, and then measure."""
_LABEL = 24
"""Letters that the button has room for."""
_MOST_NAMED = 3


def start_run(state: AppState, document_id: str, request: m.RunRequest) -> m.Run:
    """Starts a run.

    Raises:
        EditorError: an option is not possible, or a run is under way.
    """
    document = state.document(document_id)
    benchmark = state.start_job(document, request.kind, _options(request))
    return {"run": benchmark.job.id}


def _options(request: m.RunRequest) -> JobOptions:
    try:
        chosen = JobOptions(
            float(request.seconds or 3),
            "tokens" if request.kind == "tokens" else request.mode,
            int(request.requests or 4),
            request.memory,
            int(request.prompt or 64),
            int(request.new or 32),
        )
    except (ValueError, OverflowError):
        raise EditorError("Seconds, requests and tokens are numbers.") from None
    if not (1 <= chosen.prompt <= MOST_TOKENS and 1 <= chosen.new <= MOST_TOKENS):
        raise EditorError("A prompt has at least one token, and at least one is generated.")
    if not 0 < chosen.seconds <= TIME_LIMIT_SECONDS or not 0 < chosen.requests <= 1024:
        raise EditorError(
            f"A run takes up to {TIME_LIMIT_SECONDS:.0f} s, with up to 1,024 requests at once."
        )
    return chosen


async def follow_run(state: AppState, document_id: str) -> AsyncIterator[m.RunEvent]:
    """Says how far the run of a document is, until its end."""
    state.page_shown()
    benchmark = state.benchmarks.get(document_id)
    if benchmark is None:
        yield {
            "run": "",
            "kind": "",
            "done": True,
            "text": "",
            "label": "",
            "share": 0.0,
            "samples": 0,
        }
        return
    seen = -1
    while not benchmark.job.done:
        events = list(benchmark.job.events)
        if len(events) != seen:
            seen = len(events)
            yield _progress(benchmark, events)
        await asyncio.sleep(_REFRESH_SECONDS)
    document = await asyncio.to_thread(state.document, document_id)
    # It writes to the database, which another program may hold for seconds.
    yield await state.long_work.run(_ended, state, document, benchmark)


def _progress(benchmark: BenchmarkState, events: list[dict[str, Any]]) -> m.RunEvent:
    samples = [event for event in events if event["kind"] == "sample"]
    waiting: dict[str, Any] = {"kind": "phase", "text": "waiting for a worker"}
    last = events[-1] if events else waiting
    if last["kind"] == "phase":
        what = f"{last['text'][:1].upper()}{last['text'][1:]}"
        share = last["done"] / last["total"] if last.get("total") else None
        doing = _DOING.get(benchmark.kind)
        label = shortened(what, _LABEL)
        if share is not None and doing:
            named = shortened(what, _LABEL - 5) if benchmark.kind == "profile" else doing
            label = f"{named} {100 * share:.0f} %"
        return _event(benchmark, f"{what} …", share, samples, label)
    text = f"Measuring {_in_turn(samples)}: {pluralize(runs_of(samples), 'run')}"
    return _event(
        benchmark, text, last["progress"], samples, f"Measuring {100 * last['progress']:.0f} %"
    )


def _in_turn(samples: list[dict[str, Any]]) -> str:
    """The plans and baselines that are measured, as far as each had a turn."""
    plans = dict.fromkeys(s["name"] for s in samples if s["plan"] is not None)
    baselines = dict.fromkeys(f"unsplit on {s['name']}" for s in samples if s["plan"] is None)
    names = [*plans, *baselines]
    if len(names) > _MOST_NAMED:
        return (
            f"{pluralize(len(plans), 'plan')} and {pluralize(len(baselines), 'baseline')} in turn"
        )
    return ", ".join(names) + (" in turn" if len(names) > 1 else "")


def _event(
    benchmark: BenchmarkState,
    text: str,
    share: float | None,
    samples: list[dict[str, Any]],
    label: str = "",
) -> m.RunEvent:
    return {
        "run": benchmark.job.id,
        "kind": benchmark.kind,
        "done": benchmark.job.done,
        "text": text,
        "label": label,
        "share": None if share is None else float(share),
        "samples": len(samples),
    }


def _ended(state: AppState, document: Document, benchmark: BenchmarkState) -> m.RunEvent:
    """How a run ended. A run without a result gives its place back to the one before it."""
    samples = [event for event in benchmark.job.events if event["kind"] == "sample"]
    text, share = _end_text(document, benchmark, samples)
    if not benchmark.has_result and benchmark.previous is not None:
        benchmark.previous.problem = benchmark.problem
        state.benchmarks[document.id] = benchmark.previous
        text = "No new result. What stands here is the run before."
    return _event(benchmark, text, share, samples)


def _end_text(
    document: Document, benchmark: BenchmarkState, samples: list[dict[str, Any]]
) -> tuple[str, float]:
    try:
        result = benchmark.job.result(0)
    except EditorError as error:
        benchmark.problem = str(error)
        return ("Cancelled." if str(error) == "cancelled" else "Failed."), 0.0
    if benchmark.kind == "profile":
        return "Profiled.", 1.0
    if benchmark.kind == "tune":
        _keep(document, benchmark, *tuned_to_keep(result))
        return result.proposal, 1.0
    if benchmark.kind == "accuracy":
        try:
            if not benchmark.kept:
                document.keep_accuracy(result)
                benchmark.kept = True
        except WorkspaceError as error:
            benchmark.problem = f"This result is not kept with the plan. {error}"
        return f"Compared {pluralize(len(result.tensors), 'tensor')}.", 1.0
    if benchmark.kind == "tokens":
        own = {"own_prompt": True} if benchmark.plan.prompt is not None else {}
        _keep(document, benchmark, tokens_to_keep(result) | own)
        if result.simulated:
            return f"Done: logits are {result.verdict}.", 1.0
        token = human_seconds(result.figures.token.median)
        return f"Done: {token} a token, {result.figures.tokens_per_second:.1f} tokens/s.", 1.0
    first = result[0]
    _keep(document, benchmark, run_to_keep(first))
    if first.estimated:
        return f"Done: {first.outputs_in_words}.", 1.0
    throughput = first.mode == "throughput"
    found = first.rate if throughput else f"median {human_seconds(first.total.median)}"
    return f"Done: {found} over {pluralize(first.runs, 'run')}, {first.outputs_in_words}.", 1.0


def _keep(document: Document, benchmark: BenchmarkState, *runs: dict[str, Any]) -> None:
    """Puts results into the document's list of benchmarks, once."""
    try:
        if not benchmark.kept:
            for figures in runs:
                document.keep_run(
                    figures, benchmark.layout, benchmark.plan.placement, benchmark.step
                )
            benchmark.kept = True
    except WorkspaceError as error:
        benchmark.problem = f"This result is not in the list of benchmarks. {error}"


def runs_of(samples: list[dict[str, Any]]) -> int:
    """Runs that counted, of all plans and baselines."""
    return sum(sample["runs"] for sample in samples)


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
