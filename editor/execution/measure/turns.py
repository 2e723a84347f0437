"""The plans of a benchmark: they take turns, and are kept for the next one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from editor.execution.compiled_plan import CompiledPlan, RunTimes
from editor.execution.measure.counters import Tally
from editor.execution.measure.figures import Spread, SubgraphFigures, TransferFigures
from editor.execution.measure.prediction import Parts
from editor.execution.measure.statistics import (
    median_interval,
    medians_of_turns,
    parts_of_median_run,
)
from editor.files import file_state
from editor.graph.graph import Graph
from editor.groups import grouped
from editor.placement.placement import Placement
from editor.placement.wires import wire_name
from editor.runtimes.base import CompileOptions

T = TypeVar("T")

TURN_SECONDS = 0.04
"""A turn is short, so that a slower machine affects all contenders alike."""
_MOST_RUNS, _MOST_UNCOUNTED = 32, 8
_LONG_SECONDS = 0.2
"""In a run of this length what was left in the caches makes no difference."""


@dataclass(frozen=True)
class Turn:
    """How many runs a turn has."""

    uncounted: int
    """first runs, which do not count"""
    counted: int

    @classmethod
    def of(cls, run_seconds: float, seconds: float = TURN_SECONDS) -> Turn:
        """For runs that take about ``run_seconds``, in a turn of about ``seconds``: one run in any case."""
        if run_seconds >= _LONG_SECONDS:
            return cls(0, 1)
        runs = int(min(max(seconds / max(run_seconds, 1e-9), 2), _MOST_RUNS))
        uncounted = min(runs // 2, _MOST_UNCOUNTED)
        return cls(uncounted, runs - uncounted)

    @property
    def runs(self) -> int:
        """All of them."""
        return self.uncounted + self.counted

    def take(self, run: Callable[[], T]) -> list[T]:
        """Runs; the results of the runs that count."""
        for _ in range(self.uncounted):
            run()
        return [run() for _ in range(self.counted)]


Key = tuple[object, ...]
MAX_BYTES = 1 << 30
"""Weights of a model whose compiled plans are kept; there may be a copy for each device."""


class KeptPlans:
    """Compiled plans by what they were compiled from."""

    def __init__(self) -> None:
        self._plans: dict[Key, CompiledPlan] = {}

    def drop_others(self, wanted: Iterable[Key]) -> None:
        """Forgets all plans but these, before others are compiled."""
        keys = set(wanted)
        self._plans = {key: plan for key, plan in self._plans.items() if key in keys}

    def take(self, key: Key) -> CompiledPlan | None:
        """A plan, which is not kept any more; None where there is none."""
        return self._plans.pop(key, None)

    def put(self, key: Key, plan: CompiledPlan) -> None:
        """Keeps a plan of a model that is not too large."""
        constants = plan.graph.tensor_bytes[plan.graph.tensor_is_constant]
        if constants[constants > 0].sum() <= MAX_BYTES:
            self._plans[key] = plan


def key_of_plan(placement: Placement, options: CompileOptions, overridden: frozenset[str]) -> Key:
    """Returns what a plan is compiled from: model, subgraphs, devices and settings."""
    division = placement.division
    devices = {
        d.name: (d.settings if d.present else (), d.machine, d.wire_type) for d in placement.devices
    }
    subgraphs = tuple(
        (s.device, devices[s.device], tuple(s.ops), tuple(s.inputs), tuple(s.outputs))
        for s in division.subgraphs
    )
    return (*_key_of_model(placement.graph), subgraphs, options, overridden)


def key_of_whole(
    graph: Graph, settings: Key, options: CompileOptions, overridden: frozenset[str]
) -> Key:
    """Returns what the unsplit model on a device is compiled from."""
    return (*_key_of_model(graph), settings, options, overridden)


def _key_of_model(graph: Graph) -> Key:
    return (
        str(graph.path),
        graph.sha256,
        file_state(graph.path),
        tuple(sorted(graph.define.items())),
    )


MIN_ROUNDS = 6
"""Fewer give no interval."""


@dataclass
class Contender:
    """A plan or the unsplit model on one device, with its measured times."""

    name: str
    compiled: CompiledPlan
    plan: int | None
    """Index of the plan; None for a baseline."""
    times: list[RunTimes] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    """[turn] number of its runs"""
    run_seconds: float = 0.0
    """Of the fastest run while warming up."""
    finished: int = 0
    busy_seconds: float = 0.0
    rates: list[float] = field(default_factory=list)
    """[turn] requests per second"""
    clones: list[CompiledPlan] = field(default_factory=list)
    too_slow: bool = False
    tally: Tally = field(default_factory=Tally)
    identical: list[tuple[str, int | None]] = field(default_factory=list)
    """Name and index of plans and baselines that run the same compiled model."""


def contender_of(
    contenders: list[Contender], name: str, compiled: CompiledPlan, plan: int | None
) -> Contender:
    """The contender that runs this compiled model, added if none does."""
    same = next((c for c in contenders if c.compiled is compiled), None)
    if same is not None:
        same.identical.append((name, plan))
        return same
    contenders.append(Contender(name, compiled, plan))
    return contenders[-1]


def subgraph_figures(
    placement: Placement, contender: Contender, mean_total: float
) -> tuple[SubgraphFigures, ...]:
    """Times of each subgraph; ``mean_total`` are the seconds of a whole run."""
    graph, subgraph_of_op = placement.graph, placement.division.subgraph_of_op
    steps = {step.id: step for step in contender.compiled.steps}
    figures = []
    shown = [subgraph for subgraph in placement.subgraphs if subgraph.id in steps]
    parts = [[t.subgraphs[subgraph.id] for subgraph in shown] for t in contender.times]
    totals = [t.total for t in contender.times]
    in_median_run = parts_of_median_run(parts, totals, Spread.of(totals, contender.turns).median)
    for number, subgraph in enumerate(shown):
        step = steps[subgraph.id]
        spent = [t.subgraphs[subgraph.id] for t in contender.times]
        runs_on = step.runs_on.description + (" as stand-in" if step.device.planned else "")
        first = next(
            graph.key_index[k] for k in subgraph.ops if subgraph_of_op[graph.key_index[k]] >= 0
        )
        figures.append(
            SubgraphFigures(
                subgraph.id,
                subgraph.device,
                runs_on,
                step.device.planned,
                subgraph.size,
                graph.display_name(first),
                Spread.of(spent, contender.turns),
                float(np.median([t.cpu[subgraph.id] for t in contender.times])),
                float(np.mean(spent)) / mean_total if mean_total else 0.0,
                in_median_run[number],
            )
        )
    return tuple(figures)


def transfer_figures(
    placement: Placement, contender: Contender, mean_total: float, planned: set[str]
) -> tuple[TransferFigures, ...]:
    """Times of each transfer; those from or to the ``planned`` devices are estimates."""
    device = {s.id: s.device for s in placement.subgraphs}
    machine = {d.name: d.machine for d in placement.devices}
    transfers = [t for times in contender.times for t in times.transfers]
    spent = grouped(((t.tensor, t.source, t.target), t.seconds) for t in transfers)
    last = {(t.tensor, t.source, t.target): t for t in transfers}

    def figures(tensor: str, source: int, target: int, seconds: list[float]) -> TransferFigures:
        one, ends = last[tensor, source, target], (device[source], device[target])
        wire = wire_name(machine[ends[0]], machine[ends[1]]) if one.sent else ""
        return TransferFigures(
            tensor,
            source,
            target,
            *ends,
            one.bytes,
            bool({*ends} & planned),
            Spread.of(seconds),
            float(np.mean(seconds)) / mean_total if mean_total else 0.0,
            one.copied,
            wire,
            one.travelled_as,
            one.sent,
        )

    return tuple(figures(*key, seconds) for key, seconds in spent.items())


def rate(contender: Contender) -> float | None:
    """Requests per second: the median of the turns, which the interval is of; None without runs."""
    if contender.rates:
        return float(np.median(contender.rates))
    return contender.finished / contender.busy_seconds if contender.busy_seconds else None


def rate_interval(contender: Contender) -> tuple[float, float] | None:
    """95 % interval of the requests per second; None of too few turns."""
    return median_interval(contender.rates) if len(contender.rates) >= MIN_ROUNDS else None


def median_seconds(contender: Contender) -> float:
    """Seconds of a whole run."""
    return float(np.median(medians_of_turns([t.total for t in contender.times], contender.turns)))


def median_parts(contender: Contender) -> Parts:
    """Median seconds of every subgraph and of all transfers together, as the tables have them."""

    def median(seconds: list[float]) -> float:
        return float(np.median(medians_of_turns(seconds, contender.turns)))

    return Parts(
        {
            step.id: median([t.subgraphs[step.id] for t in contender.times])
            for step in contender.compiled.steps
        },
        median([sum(each.seconds for each in t.transfers) for t in contender.times]),
    )
