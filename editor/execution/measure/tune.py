"""Measures the most promising candidate plans and returns them by speed.

Predictions add up costs of single ops, so they underestimate plans with many cuts; only a run decides.
Every candidate is a complete set of decisions, so the result can be edited further.
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

MAX_CANDIDATES = 5
"""Candidates to measure; they share the time."""


@dataclass(frozen=True)
class Tuned:
    """The measured candidates, fastest first."""

    results: tuple[BenchmarkResult, ...]
    settings: Mapping[str, Settings]
    """candidate name -> its settings"""

    @property
    def best(self) -> str:
        """Name of the fastest candidate."""
        return self.results[0].plan


def candidates(graph: Graph, devices: Sequence[Device], settings: Settings, source: str) -> dict[str, Placement]:
    """Distinct plans to measure: the present one, `priority`, `optimal`, and each device wherever possible.

    Pins and rules of ``settings`` hold in all of them. Ordered by predicted time, the present plan first.
    """
    tries: dict[str, Settings] = {"this plan": settings, "priority": replace(settings, policy="priority", policy_options={})}
    for objective in ("latency", "throughput"):
        tries[f"optimal {objective}"] = replace(settings, policy="optimal",
                                                policy_options={"objective": objective, "costs": source})
    for device in devices:
        tries[f"mostly {device.name}"] = replace(settings, policy="priority", policy_options={"first": device.name})
    result: dict[str, Placement] = {}
    seen: set[bytes] = set()
    predicted: dict[str, float] = {}
    costs = costs_of(graph, devices, source)
    for name, trial in tries.items():
        try:
            placement = solve(graph, devices, trial)
        except EditorError:
            continue  # this policy has no solution under these constraints
        identity = placement.device_of_op.tobytes() + placement.division.subgraph_of_op.tobytes()
        if identity in seen:
            continue
        seen.add(identity)
        result[name] = placement
        predicted[name] = placement.price(costs).total
    ranked = sorted(result, key=lambda name: (name != "this plan", predicted[name]))[:MAX_CANDIDATES]
    return {name: result[name] for name in ranked}


def tune(graph: Graph, devices: Sequence[Device], settings: Settings, seconds: float = 4.0, mode: str = "latency",
         requests: int = 4, threads: int = 0, on_event: OnEvent | None = None,
         should_stop: ShouldStop | None = None, source: str = "measured") -> Tuned:
    """Benchmarks the candidates side by side.

    Raises:
        EditorError: the model has no profile, or no candidate runs.
    """
    plans = candidates(graph, devices, settings, source)
    results = Benchmark(plans, seconds, mode, requests, threads, None, on_event, should_stop).run()
    if mode == "latency":
        ranked = sorted(results, key=lambda r: r.total.median)
    else:
        ranked = sorted(results, key=lambda r: -r.throughput)
    return Tuned(tuple(ranked), {name: plan.settings for name, plan in plans.items()})
