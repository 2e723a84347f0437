"""Commands that measure times, and where a plan loses accuracy."""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tqdm import tqdm

import editor
from editor.errors import ExecutionError
from editor.execution.adapter_kit import check_runtime
from editor.execution.inputs import read_inputs
from editor.execution.jobs import job_service, tasks
from editor.execution.measure.accuracy import (
    COLUMNS,
    ORIGINS,
    Accuracy,
    TensorError,
    read_values,
    row_of,
)
from editor.execution.measure.benchmark import MOST_SECONDS
from editor.execution.measure.figures import LONGER, BenchmarkResult, compared
from editor.execution.measure.prediction import check_correctable, correct_profiles
from editor.execution.measure.tokens import TokenBenchmark
from editor.files import json_text, write_atomic
from editor.graph.states import parse_lengths, parse_states
from editor.groups import grouped
from editor.limits import size_in_bytes
from editor.placement.choices import PRESENT
from editor.placement.device_profile import costs_of
from editor.placement.placement import solve
from editor.runtimes.machines.connection import connection_of
from editor.sandbox.jobs import Job
from editor.terminal import answer, answer_or_write, printable, tell_notes, unprotected
from editor.text import csv_text, human_seconds, pluralize
from editor.workspace.plan import Plan

_IN_FLIGHT = 4
"""Requests in flight where none are given."""


def bench(options: argparse.Namespace) -> int:
    """Benchmarks plans; plans of one model are interleaved."""
    plans = {str(path): editor.load_plan(path) for path in options.plans}
    if options.generate:
        return _generate(options, plans)
    if options.state:
        raise ExecutionError("--state is for generation: add --generate prompt=512,new=64")
    by_model = grouped(
        ((plan.graph.sha256, tuple(sorted(plan.graph.define.items()))), name)
        for name, plan in plans.items()
    )
    for plan in plans.values() if options.calibrate else ():
        check_correctable(plan.placement, options.mode)  # before the runs, not after them
    requests = _requests(options)
    inputs = str(options.inputs.absolute()) if options.inputs else None
    results: list[BenchmarkResult] = []
    for group in by_model.values():
        results += _run_job(
            options,
            tasks.benchmark,
            {name: plans[name].recipe() for name in group},
            options.seconds,
            options.mode,
            requests,
            options.threads,
            inputs,
            options.memory,
            "stop" if options.strict else "solve",
        )
    lines = []
    for result in results:
        lines += [f"== {result.plan}"] if len(results) > 1 else []
        lines += [result.text(), *_longer(result, options.seconds)]
    for group in by_model.values():
        lines += _summary([result for result in results if result.plan in group])
    answer_or_write(options, [r.to_dict() for r in results], "\n".join(lines))
    if options.calibrate:
        _calibrate(plans, results)
    return 0


def _longer(result: BenchmarkResult, seconds: float) -> list[str]:
    """The option that measures longer, where that may settle what a result left open."""
    if not result.left_open or LONGER * seconds > MOST_SECONDS:
        return []
    return [f"{result.left_open}: measure longer with --seconds {LONGER * seconds:g}"]


def _generate(options: argparse.Namespace, plans: Mapping[str, Plan]) -> int:
    """Measures plans as they generate tokens."""
    lengths = parse_lengths(options.generate, "--generate")
    state, results = parse_states(options.state), []
    inputs = str(options.inputs.absolute()) if options.inputs else None
    for name, plan in plans.items():
        result: TokenBenchmark = _run_job(
            options,
            tasks.generate,
            plan.recipe(),
            name,
            lengths.prompt,
            lengths.new,
            state,
            options.threads,
            options.requests or 1,
            inputs,
        )
        results.append(result)
    text = "\n".join(result.text() for result in results)
    answer_or_write(options, [result.to_dict() for result in results], text)
    return 0


def _requests(options: argparse.Namespace) -> int:
    """Requests in flight; says so where they were given for nothing."""
    if options.requests is not None and options.mode != "throughput":
        print("note: --requests has no part in a latency; add --mode throughput", file=sys.stderr)
    return _IN_FLIGHT if options.requests is None else int(options.requests)


def _summary(results: Sequence[BenchmarkResult]) -> list[str]:
    """One line for each of several plans of a model, the best first, held against the first plan that was given."""
    if len(results) < 2:
        return []
    first, many = results[0], results[0].mode == "throughput"
    lines = ["== side by side"]
    width = max(len(result.plan) for result in results)
    ran = [result for result in results if not result.estimated]
    for result in sorted(ran, key=lambda r: -r.throughput if many else r.total.median):
        figure = result.rate if many else human_seconds(result.total.median)
        is_first = result is first or first.estimated
        words = "" if is_first else compared(result, first, first.mode)
        lines.append(
            f"{result.plan:<{width}}  {figure} ({result.kind}, {result.precision})"
            f"{f'; {words}' if words.startswith('no ') else f'; {words} than {first.plan}' if words else ''}"
        )
    return lines + [
        f"{result.plan:<{width}}  no figure: stand-ins ran; {result.outputs_in_words}"
        for result in results
        if result.estimated
    ]


def _calibrate(plans: Mapping[str, Plan], results: Sequence[BenchmarkResult]) -> None:
    """Corrects the profiles by each result and prints what they predict now."""
    for result in results:
        placement = plans[result.plan].placement
        corrected = correct_profiles(placement, result)
        predicted = placement.price(costs_of(placement.graph, placement.devices, "measured")).total
        print(
            f"{result.plan}: profiles of {', '.join(corrected)} corrected; prediction now {human_seconds(predicted)}"
        )


def profile(options: argparse.Namespace) -> int:
    """Measures the time of each op on each real device."""
    plan = editor.load_plan(options.plan)
    outcomes = _run_job(options, tasks.profile, plan.recipe(), options.seconds, options.threads)
    lines = []
    for name, outcome in outcomes.items():
        if isinstance(outcome, str):
            lines.append(f"{name}: not profiled: {outcome}")
            continue
        lines.append(
            f"{name} ({outcome.device}): {human_seconds(outcome.total)} a run, {pluralize(len(outcome.kernels), 'kernel')} for "
            f"{pluralize(len(outcome.seconds), 'op')}; overhead per extra subgraph {outcome.overhead}; "
            f"{outcome.check}"
        )
        for key, seconds in sorted(outcome.seconds.items(), key=lambda item: -item[1])[:5]:
            lines.append(
                f"  {human_seconds(seconds):>10}  {plan.graph.type_label(plan.graph.key_index[key])}  {key}"
            )
    document = {
        name: {"problem": outcome}
        if isinstance(outcome, str)
        else {
            "device": outcome.device,
            "total": outcome.total,
            "seconds": dict(outcome.seconds),
            "kind": "measured",
        }
        for name, outcome in outcomes.items()
    }
    answer(options, document, "\n".join(lines))
    return 0


def tune(options: argparse.Namespace) -> int:
    """Benchmarks the most promising plans and writes the fastest."""
    plan = editor.load_plan(options.plan)
    tuned = _run_job(
        options,
        tasks.tune,
        plan.recipe(),
        options.seconds,
        options.mode,
        _requests(options),
        options.threads,
    )
    lines = []
    for result in tuned.results:
        if result.estimated:
            lines.append(f"{result.plan}: stand-ins ran, no figure")
            continue
        predicted = f", {result.predicted_basis} {result.prediction}" if result.prediction else ""
        evidence, median = tuned.evidence(result), f"median {human_seconds(result.total.median)}"
        first, second = (
            (result.rate, median) if tuned.mode == "throughput" else (median, result.rate)
        )
        lines.append(
            f"{result.plan}: {first} ({result.kind}, {result.precision}), {second}{predicted}"
            f"{f'; {evidence}' if evidence else ''}"
        )
    for baseline in tuned.results[0].baselines:
        if baseline.time is not None:
            figures = [f"median {human_seconds(baseline.time.median)}", baseline.rate]
            evidence = tuned.evidence(baseline)
            lines.append(
                f"unsplit on {baseline.device}: {', '.join(figures if tuned.mode == 'latency' else figures[::-1])}"
                f"{f'; {evidence}' if evidence else ''}"
            )
    lines += [f"noisy: {sign}" for sign in tuned.results[0].disturbances]
    lines += _longer(tuned.results[0], options.seconds)
    best = (
        plan
        if tuned.best == PRESENT
        else Plan(solve(plan.graph, plan.devices, tuned.settings[tuned.best]))
    )
    written = best.save(options.out)
    lines.append(f"{tuned.proposal} Wrote {written} ({tuned.best})")
    document = {
        "best": tuned.best,
        "proposal": tuned.proposal,
        "written": written,
        "results": [result.to_dict() for result in tuned.results],
    }
    answer(options, document, "\n".join(lines))
    return 0


def _run_job(options: argparse.Namespace, function: Callable[..., Any], *arguments: Any) -> Any:
    with closing(job_service(options.scheduler)) as service:
        return _follow(service.submit(function, *arguments))


def _follow(job: Job) -> Any:
    """Waits for a job with a progress bar on a terminal."""
    with tqdm(
        total=100,
        unit="%",
        bar_format="{desc} |{bar}| {percentage:3.0f}%",
        file=unprotected(sys.stderr),
        disable=not sys.stderr.isatty(),
        leave=False,
    ) as bar:
        seen = 0
        try:
            while not job.done:
                for event in job.events[seen:]:
                    if "note" in event:
                        bar.clear()
                        print(f"note: {printable(event['note'])}", file=sys.stderr)
                    bar.set_description_str(printable(event.get("text", "measuring")[:48]))
                    bar.n = int(100 * event.get("progress", 0))
                seen = len(job.events)
                bar.refresh()
                job.wait(0.1)
        except KeyboardInterrupt:
            job.cancel()
            raise
    return job.result()


def adapter_test(options: argparse.Namespace) -> int:
    """Checks a runtime; 1 where a check fails."""

    def report(text: str) -> None:
        if sys.stderr.isatty():
            print(f"{text} ...", file=sys.stderr)

    found = []
    for finding in check_runtime(options.name, options.cases, report):
        found.append(finding)
        if not options.json:
            print(
                f"{'ok    ' if finding.ok else 'FAILED'}  {finding.device}  {finding.check}: {finding.text}",
                flush=True,
            )
    failed = sum(not finding.ok for finding in found)
    said = f"{failed} checks failed" if failed else "every check passed"
    answer(options, {"failed": failed, "findings": found}, said)
    return 1 if failed else 0


def worker(options: argparse.Namespace) -> int:
    """Runs until it is interrupted."""
    from editor.execution.machines.worker import (  # takes a second
        DEFAULT_CACHE,
        WorkerOptions,
        serve,
    )

    connection = connection_of(options)
    memory = size_in_bytes("--memory-limit", options.memory_limit) if options.memory_limit else None
    cache = size_in_bytes("--cache", options.cache) if options.cache else DEFAULT_CACHE
    serve(
        WorkerOptions(
            connection,
            options.name or platform.node().partition(".")[0] or "worker",
            tuple(name.strip() for name in options.offer.split(",") if name.strip()),
            memory,
            cache,
            options.threads,
            options.host,
        )
    )
    return 0


_MOST_LINES = 10


def accuracy(options: argparse.Namespace) -> int:
    """Compares the tensors of a plan with a reference."""
    plan = editor.load_plan(options.plan)
    given: Path | None = options.reference_outputs
    if given is not None and options.inputs is None:
        raise ExecutionError(f"{given} is for certain inputs: name them with --inputs")
    with tqdm(file=unprotected(sys.stderr), disable=not sys.stderr.isatty(), leave=False) as bar:

        def show(done: int, total: int, text: str) -> None:
            bar.total, bar.n = total, done
            bar.set_description_str(printable(text))

        found = plan.accuracy(
            options.reference if given is None else read_values(given),
            read_inputs(plan.graph, options.inputs) if options.inputs else None,
            every_tensor=options.every_tensor,
            tolerance=options.tolerance,
            threads=options.threads,
            progress=show,
        )
    tell_notes(found.notes)
    print(json_text(found.as_dict()) if options.json else text_of(found))
    if options.csv is not None:
        write_atomic(options.csv, csv_text(COLUMNS, map(row_of, found.tensors)))
        print(f"wrote {options.csv}", file=sys.stderr)
    return 0


def text_of(found: Accuracy) -> str:
    """The lines of a report."""
    count = pluralize(len(found.tensors), "tensor")
    lines = [
        f"{count}{'' if found.every_tensor else ' at the ends of subgraphs'} compared with {found.reference}"
    ]
    first = found.first
    if first is None:
        lines.append("all are within their tolerances")
    else:
        outside = sum(not one.ok for one in found.tensors)
        lines.append(
            f"first outside its tolerance: {_words(first, found)}; {pluralize(outside, 'tensor')} in all"
        )
    outputs = [one for one in found.tensors if one.tensor in found.outputs]
    for title, errors in (
        ("outputs", outputs),
        ("where noise grows most", found.grown[:_MOST_LINES]),
    ):
        if errors:
            lines.append(f"{title}:")
            lines += [f"  {_words(one, found)}" for one in errors[:_MOST_LINES]]
            rest = len(errors) - _MOST_LINES
            lines += [f"  … {rest:,} more; --json and --csv have all"] if rest > 0 else []
    met = {one.origin for one in (*outputs, *found.grown)}
    lines += [f"{origin}: {meaning}" for origin, meaning in ORIGINS.items() if origin in met]
    return "\n".join(lines)


def _words(one: TensorError, found: Accuracy) -> str:
    """One line about a tensor."""
    if not one.noise:
        return f"{one.tensor} of {one.name} ({one.type}) on {one.device}: equal"
    where = "here" if found.every_tensor else f"in subgraph {one.subgraph}"
    origin = f"grown {where}" if one.origin == "grown" else "inherited"
    verdict = "" if one.ok else " OUTSIDE"
    return (
        f"{one.tensor} of {one.name} ({one.type}) on {one.device}: relative {one.relative:.2g} "
        f"(tolerance {one.tolerance:g}{verdict}), SNR {one.snr:.1f} dB, cosine {one.cosine:.6f}, {origin}"
    )
