"""Measures the most promising candidate plans and returns them by speed.

Predictions add up costs of single ops, so they underestimate plans with many cuts; only a run decides.
Every candidate is a complete set of decisions, so the result can be edited further.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from editor.errors import EditorError
from editor.execution.measure.benchmark import Benchmark, OnEvent, ShouldStop
from editor.execution.measure.figures import Baseline, BenchmarkResult, compared
from editor.kinds import NO_DIFFERENCE
from editor.placement.choices import AIMS, PRESENT
from editor.placement.chosen_costs import predicted_rate
from editor.placement.device_profile import costs_of
from editor.placement.kept import pin_to_affinity
from editor.placement.placement import Placement, Settings, solve

_MOST_SEARCH_SECONDS = 15.0
"""Budget of the search for a placement, for each of the two objectives."""
_SEARCH_FACTOR = 5
"""Who measures for less time gets this multiple of it for the search."""
STOOD_IN = "A stand-in ran for planned devices, which says nothing about their speed"
_MOSTLY = "mostly "
_CLOSE = 1.5
"""Ratio of two times from which intervals that overlap say that runs vary, not that the plans are close"""
MAX_CANDIDATES = 5
"""Candidates to measure; they share the time."""


@dataclass(frozen=True)
class Tuned:
    """The measured candidates, fastest first."""

    results: tuple[BenchmarkResult, ...]
    settings: Mapping[str, Settings]
    """candidate name -> the decisions that lead to it"""

    mode: str = "latency"
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    """candidate name -> what ``Placement.fingerprint`` says of it"""

    @property
    def best(self) -> str:
        """Name of the candidate to take: the fastest, but the present plan where none is seen to be faster."""
        present, fastest = self._present, self._fastest
        if present is None or (fastest is not present and self.is_faster(fastest)):
            return fastest.plan
        return present.plan

    @property
    def proposal(self) -> str:
        """What to do, in a sentence."""
        if self._present is None or self.best != PRESENT:
            evidence = self.evidence(self._fastest)
            return f"Proposed: “{self.best}”{f', {evidence}' if evidence else ''}."
        if len(self.results) == 1:
            return "There is no other plan to try: pins, rules and what the devices can run leave no other choice."
        if any(result.estimated for result in self.results):
            return f"{STOOD_IN}: nothing is proposed."
        return "No candidate is seen to be faster than the current plan."

    def evidence(self, result: BenchmarkResult | Baseline) -> str:
        """How a candidate or the unsplit model compares with the plan: "12 % faster", "too close to call"."""
        if self._present is None or result is self._present:
            return ""
        if isinstance(result, Baseline) and result.lacks:
            return f"does not fit: {result.lacks}"
        if self._present.estimated or (isinstance(result, BenchmarkResult) and result.estimated):
            return ""
        words = compared(result, self._present, self.mode)
        ratio = _time_of(result, self.mode) / _time_of(self._present, self.mode)
        if words == NO_DIFFERENCE and not 1 / _CLOSE < ratio < _CLOSE:
            return "not sure: its runs vary too much, tune longer"
        return words

    def is_faster(self, result: BenchmarkResult) -> bool:
        """Whether a candidate is faster than the present plan beyond the noise."""
        return self.evidence(result).endswith("faster")

    @property
    def _fastest(self) -> BenchmarkResult:
        """The first that did not run on stand-ins, whose speed says nothing of the devices."""
        return next((r for r in self.results if not r.estimated), self.results[0])

    @property
    def _present(self) -> BenchmarkResult | None:
        return next((result for result in self.results if result.plan == PRESENT), None)


def _time_of(result: BenchmarkResult | Baseline, mode: str) -> float:
    """Seconds a run, or between the ends of two where the mode is throughput; NaN where it was not measured."""
    if mode == "throughput":
        return 1 / result.throughput if result.throughput else math.nan
    time = result.time if isinstance(result, Baseline) else result.total
    return math.nan if time is None else time.median


def candidates(
    present: Placement,
    source: str,
    should_stop: ShouldStop = bool,
    search: float = _MOST_SEARCH_SECONDS,
    requests: int = 1,
) -> dict[str, Placement]:
    """Distinct plans to measure: the present one, `priority`, `optimal`, and each device wherever possible, without those that
    have ops on planned devices.

    Pins and rules of the present plan hold in all of them. Ordered by predicted time, the present plan first; with several
    ``requests`` in flight by their predicted rate. ``search``: seconds to look for a better placement, per objective, as the
    solver counts them.
    """
    graph, devices, settings = present.graph, present.devices, present.settings
    tries: dict[str, Settings] = {
        PRESENT: settings,
        "priority": replace(settings, policy="priority", policy_options={}),
    }
    options = {"costs": source, "search": search}
    tries |= {
        f"optimal {aim}": replace(
            settings, policy="optimal", policy_options={"objective": aim, **options}
        )
        for aim in AIMS
    }
    tries |= {
        f"{_MOSTLY}{d.name}": replace(settings, policy="priority", policy_options={"first": d.name})
        for d in devices
    }
    result: dict[str, Placement] = {}
    seen: set[bytes] = set()
    predicted: dict[str, float] = {}
    costs = costs_of(graph, devices, source)
    for tried, trial in tries.items():
        try:
            placement = (
                present
                if tried == PRESENT
                else solve(graph, devices, trial, should_stop=should_stop)
            )
        except EditorError:
            continue  # this policy has no solution under these constraints
        alone = tried.startswith(_MOSTLY) and len(placement.used_devices) == 1
        name = f"all on {placement.used_devices[0].name}" if alone else tried
        identity = placement.device_of_op.tobytes() + placement.division.subgraph_of_op.tobytes()
        if identity in seen:
            continue
        seen.add(identity)
        if placement.uses_planned and tried != PRESENT:
            continue  # it has no speed here
        result[name] = placement
        rate = predicted_rate(placement, costs, requests)  # of one request: one run after the other
        predicted[name] = 1 / rate if rate else 0.0
    ranked = sorted(result, key=lambda name: (name != PRESENT, predicted[name]))[:MAX_CANDIDATES]
    return {name: result[name] for name in ranked}


def tune(
    present: Placement,
    seconds: float = 4.0,
    mode: str = "latency",
    requests: int = 4,
    threads: int = 0,
    on_event: OnEvent | None = None,
    should_stop: ShouldStop | None = None,
    source: str = "measured",
) -> Tuned:
    """Benchmarks the candidates side by side.

    Raises:
        EditorError: the model has no profile, or no candidate runs.
    """
    if on_event is not None:
        on_event({"kind": "phase", "text": "searching for placements", "done": 0, "total": 0})
    search = min(_MOST_SEARCH_SECONDS, _SEARCH_FACTOR * seconds)
    plans = candidates(
        present, source, should_stop or bool, search, requests if mode == "throughput" else 1
    )
    results = Benchmark(plans, seconds, mode, requests, threads, None, on_event, should_stop).run()
    if mode == "latency":
        ranked = sorted(results, key=lambda r: (r.estimated, r.total.median))
    else:
        ranked = sorted(results, key=lambda r: (r.estimated, -r.throughput))
    return Tuned(
        tuple(ranked),
        {name: adoptable(plan) for name, plan in plans.items()},
        mode,
        {name: plan.fingerprint for name, plan in plans.items()},
    )


def adoptable(candidate: Placement) -> Settings:
    """Decisions that lead to a candidate at once, without the long search that found it.

    Ops that a short search would put elsewhere are pinned, so that the adopted plan is the one that was measured.
    """
    options = {
        name: value for name, value in candidate.settings.policy_options.items() if name != "search"
    }
    if len(options) == len(candidate.settings.policy_options):
        return candidate.settings
    short = solve(
        candidate.graph,
        candidate.devices,
        replace(candidate.settings, policy_options=options),
        candidate.constraints.capabilities,
    )
    return pin_to_affinity(short, candidate.affinity).settings
