"""Trying the best few candidate plans for real, and keeping the fastest.

Predictions come from parts measured by themselves, so they flatter plans with many cuts; only a run
decides. Every candidate is a complete set of decisions, so the outcome can be edited on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from editor.devices.device import Device
from editor.errors import EditorError
from editor.execution.measure.benchmark import Benchmark, OnEvent, ShouldStop
from editor.execution.measure.figures import BenchmarkResult
from editor.graph.graph import Graph
from editor.placement.device_profile import costs_of
from editor.placement.placement import Placement, Settings, solve

MOST = 5
"""Candidates that run; each takes its share of the time."""


@dataclass(frozen=True)
class Tuned:
    """The outcome, fastest first."""

    results: tuple[BenchmarkResult, ...]
    settings: Mapping[str, Settings]
    """by the name of the candidate"""

    @property
    def best(self) -> str:
        """Name of the fastest candidate."""
        return self.results[0].plan


def candidates(graph: Graph, devices: Sequence[Device], settings: Settings, source: str) -> dict[str, Placement]:
    """Different plans worth a run: the present one, `priority`, `optimal`, and each device wherever it can.

    Pins and rules of ``settings`` hold in all of them. Ordered by predicted time, the present plan first.
    """
    tries: dict[str, Settings] = {"this plan": settings, "priority": replace(settings, policy="priority", policy_options={})}
    for objective in ("latency", "throughput"):
        tries[f"optimal {objective}"] = replace(settings, policy="optimal",
                                                policy_options={"objective": objective, "costs": source})
    for device in devices:
        tries[f"mostly {device.name}"] = replace(settings, policy="priority", policy_options={"first": device.name})
    found: dict[str, Placement] = {}
    seen: set[bytes] = set()
    predicted: dict[str, float] = {}
    costs = costs_of(graph, devices, source)
    for name, trial in tries.items():
        try:
            placement = solve(graph, devices, trial)
        except EditorError:
            continue  # this policy finds nothing under these constraints
        identity = placement.device_of_op.tobytes() + placement.division.subgraph_of_op.tobytes()
        if identity in seen:
            continue
        seen.add(identity)
        found[name] = placement
        predicted[name] = placement.price(costs).total
    ranked = sorted(found, key=lambda name: (name != "this plan", predicted[name]))[:MOST]
    return {name: found[name] for name in ranked}


def tune(graph: Graph, devices: Sequence[Device], settings: Settings, seconds: float = 4.0, mode: str = "latency",
         requests: int = 4, threads: int = 0, on_event: OnEvent | None = None,
         should_stop: ShouldStop | None = None, source: str = "measured") -> Tuned:
    """Benchmarks the candidates side by side.

    Raises:
        EditorError: the model has not been profiled, or nothing runs.
    """
    plans = candidates(graph, devices, settings, source)
    results = Benchmark(plans, seconds, mode, requests, threads, None, on_event, should_stop).run()
    if mode == "latency":
        ranked = sorted(results, key=lambda r: r.total.median)
    else:
        ranked = sorted(results, key=lambda r: -r.throughput)
    return Tuned(tuple(ranked), {name: plan.settings for name, plan in plans.items()})
