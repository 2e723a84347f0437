"""Measures plans in real runs, interleaved with the unsplit model on each real device.

Contenders take turns of a few runs (`turns`), so a slower machine affects all of them; the order changes from round to round.
Measuring ends when the 95 % intervals of all medians are narrow, or when the time is up.
"""

from __future__ import annotations

import os
import platform
import random
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property, partial
from time import perf_counter
from typing import Any

import numpy as np

from editor.arguments import (
    MOST_REQUESTS,
    MOST_THREADS,
    as_count,
    as_mapping,
    as_seconds,
    check_one_of,
)
from editor.devices.device import Device
from editor.devices.discovery import available_devices
from editor.errors import EditorError, ExecutionError, JobError
from editor.execution.compiled_plan import CompiledPlan, RunTimes
from editor.execution.executor import compile_placement, compile_whole
from editor.execution.generation import in_place
from editor.execution.inputs import overridden_initializers
from editor.execution.invented_inputs import random_inputs
from editor.execution.measure.counters import Meter
from editor.execution.measure.figures import Baseline, BenchmarkResult, Difference, Spread
from editor.execution.measure.mismatch import (
    FirstDifference,
    compare,
    drawn_outputs,
    drawn_text,
    first_differences,
    precision_of_plan,
    summary,
)
from editor.execution.measure.prediction import costs_by_best_source, explain_deviation
from editor.execution.measure.statistics import (
    MachineWatch,
    drift,
    is_settled,
    is_warm,
    medians_of_turns,
    steady_rate,
)
from editor.execution.measure.turns import (
    MIN_ROUNDS,
    TURN_SECONDS,
    Contender,
    KeptPlans,
    Key,
    Turn,
    contender_of,
    key_of_plan,
    key_of_whole,
    median_parts,
    median_seconds,
    rate,
    rate_interval,
    subgraph_figures,
    transfer_figures,
)
from editor.groups import firsts
from editor.operating_system import cpu_name
from editor.placement.choices import AIMS
from editor.placement.chosen_costs import assumed_speeds, costs_of_plan, predicted_rate
from editor.placement.energy import energy_of
from editor.placement.placement import Placement
from editor.placement.unsplit import unsplit_lacks
from editor.runtimes.base import CompileOptions, Value
from editor.runtimes.registry import capability, runtime_of, stand_in

MOST_SECONDS = 3600
MAX_WARM_UP_RUNS = 10
"""Warming up ends when a run takes as long as the fastest before it, and at the latest after these."""
_WARM_UP_SHARE = 0.25
"""Of the time for measuring, per contender; two runs are made in any case."""
_NARROW_CHECKS = 2
"""Checks in a row at which all intervals must be narrow; repeated checks would stop at a chance narrow interval."""
SLOW_FACTOR = 10
"""A baseline slower than the plan by this factor is measured once instead of in every round."""
_CLEARLY_SLOWER = 1.5
"""Times the plan; the same for a baseline that would take all the time."""
_SLICE_SECONDS, _SLICES = 0.5, 12
"""Most seconds of a turn in throughput mode, and turns within the time for measuring: from six there is an interval, with more
it is narrower."""
_TIMED_EVERY = 8
"""In throughput mode only one of so many runs of a request is timed by subgraph: timing waits for the device after each of
them, where the next one's work would be queued meanwhile."""
_MOST_OVERTIME = 3
"""Times the time for measuring, for six turns of slow plans in throughput mode."""

Event = dict[str, Any]
OnEvent = Callable[[Event], None]
ShouldStop = Callable[[], bool]


class Benchmark:
    """One interleaved benchmark of one or more placements of one model."""

    def __init__(
        self,
        placements: Mapping[str, Placement],
        seconds: float = 2.0,
        mode: str = "latency",
        requests: int = 4,
        threads: int = 0,
        inputs: Mapping[str, Value] | None = None,
        on_event: OnEvent | None = None,
        should_stop: ShouldStop | None = None,
        kept: KeptPlans | None = None,
    ) -> None:
        check_one_of(mode, AIMS, "unknown benchmark mode")
        seconds = as_seconds(seconds, "benchmark seconds", MOST_SECONDS)
        requests = as_count(requests, "requests in flight", 1, MOST_REQUESTS)
        threads = as_count(threads, "threads", 0, MOST_THREADS)
        self.placements, self.seconds, self.mode = dict(placements), seconds, mode
        self.requests, self.threads = requests if mode == "throughput" else 1, threads
        self._options = CompileOptions(threads, requests=self.requests)
        self.on_event = on_event or (lambda _event: None)
        self.should_stop = should_stop or (lambda: False)
        self.graph = next(iter(self.placements.values())).graph
        self.inputs = (
            as_mapping(inputs, "inputs", ExecutionError)
            if inputs is not None
            else random_inputs(self.graph)
        )
        self.overridden = overridden_initializers(self.graph, self.inputs)
        self.baseline_problems: dict[str, str] = {}
        self.plan_seconds = 0.0
        self._kept = kept or KeptPlans()
        self._used: dict[Key, CompiledPlan] = {}
        self._wholes: dict[tuple[object, ...], CompiledPlan] = {}
        self._watch = MachineWatch()
        self._meter = Meter(any(d.device == "GPU" for d in self._real_devices()))
        self._disturbances: tuple[str, ...] = ()
        self._settled = False

    def run(self) -> list[BenchmarkResult]:
        """Compiles, warms up, measures and compares.

        Raises:
            ExecutionError: a plan does not compile or run.
            JobError: cancelled.
        """
        contenders: list[Contender] = []
        self._kept.drop_others(self._keys())
        plans = [
            contender_of(contenders, name, self._compile(name, placement), i)
            for i, (name, placement) in enumerate(self.placements.items())
        ]
        baselines = self._baselines(contenders)
        outputs = {
            id(c): self._warm_up(c, f"{i} of {len(contenders)}")
            for i, c in enumerate(contenders, 1)
        }
        active = [
            c
            for c in contenders
            if not c.too_slow and (c.plan is not None or c.name not in self.baseline_problems)
        ]
        begin, self._watch = perf_counter(), MachineWatch()
        if self.mode == "latency":
            self._measure_latency(active)
        else:
            self._measure_throughput(active)
        elapsed = perf_counter() - begin
        self._disturbances = tuple(self._watch.disturbances())
        self._phase("comparing outputs")
        reference_name, reference, problem = self._reference(baselines, outputs)
        drawn = drawn_outputs(self.graph) if reference else {}
        if reference and drawn:
            problem = drawn_text(self.graph, drawn)
            reference = {k: value for k, value in reference.items() if k not in drawn} or None
        results = []
        for contender, (name, placement) in zip(plans, self.placements.items(), strict=True):
            difference = self._difference(
                placement, reference_name, reference, outputs[id(contender)]
            )
            results.append(
                self._result(name, placement, contender, baselines, difference, problem, elapsed)
            )
        for key, compiled in self._used.items():
            self._kept.put(key, compiled)
        return results

    def _keys(self) -> list[Key]:
        """Keys of everything that this benchmark compiles."""
        wholes = [
            key_of_whole(self.graph, d.settings, self._options, self.overridden)
            for d in self._real_devices()
        ]
        return wholes + [
            key_of_plan(p, self._options, self.overridden) for p in self.placements.values()
        ]

    def _kept_or(self, key: Key, compile_it: Callable[[], CompiledPlan]) -> CompiledPlan:
        """The plan of the last benchmark where it is the same, else a new one."""
        compiled = self._kept.take(key) or compile_it()
        self._used[key] = compiled
        return compiled

    def _compile(self, name: str, placement: Placement) -> CompiledPlan:
        def progress(done: int, total: int, what: str) -> None:
            self._phase(f"{name}: {what}" if len(self.placements) > 1 else what, done, total)

        if len(placement.subgraphs) == 1:
            device = next(d for d in placement.devices if d.name == placement.subgraphs[0].device)
            if not device.planned:
                progress(0, 1, f"compiling subgraph 0 on {device.name}")
                return self._whole(device)
        return self._kept_or(
            key_of_plan(placement, self._options, self.overridden),
            lambda: compile_placement(
                placement,
                self.threads,
                progress,
                overridden=self.overridden,
                requests=self.requests,
            ),
        )

    def _whole(self, device: Device) -> CompiledPlan:
        """The unsplit model on a device, compiled once for the baseline and for plans of a single subgraph.

        These are also measured once: two copies would differ by up to 5 % in time, depending on their memory addresses.
        """
        key = device.settings
        if key not in self._wholes:
            self._wholes[key] = self._kept_or(
                key_of_whole(self.graph, key, self._options, self.overridden),
                lambda: compile_whole(
                    self.graph,
                    device,
                    self.threads,
                    overridden=self.overridden,
                    requests=self.requests,
                ),
            )
        return self._wholes[key]

    def _baselines(self, contenders: list[Contender]) -> dict[str, Contender]:
        """The unsplit model on every real device that can run all of it; records a reason for the others."""
        baselines: dict[str, Contender] = {}
        for name, device in self._names.items():
            self._phase(f"compiling the unsplit model on {name}")
            answer = capability(self.graph, device, with_lessons=False)
            refused = np.flatnonzero(~answer.mask & ~self.graph.op_is_constant).tolist()
            if refused:
                self.baseline_problems[name] = (
                    f"cannot run the whole model: {answer.reasons[refused[0]]}"
                )
                continue
            try:
                baselines[name] = contender_of(contenders, name, self._whole(device), None)
            except ExecutionError as error:
                self.baseline_problems[name] = str(error)
        return baselines

    def _real_devices(self) -> list[Device]:
        """Real devices of all plans, without duplicates."""
        found = firsts(
            (device.settings, device)
            for placement in self.placements.values()
            for device in placement.devices
            if device.present
        )
        return list(found.values())

    @cached_property
    def _names(self) -> dict[str, Device]:
        """Name -> real device. Plans may have devices of one name that are set up differently: those are told apart."""
        return named_apart(self._real_devices())

    def _warm_up(self, contender: Contender, turn: str) -> dict[str, Any]:
        what = contender.name if contender.plan is not None else f"unsplit on {contender.name}"
        result: dict[str, Any] = {}
        spent: list[float] = []
        while len(spent) < 2 or not (
            is_warm(spent)
            or len(spent) >= MAX_WARM_UP_RUNS
            or sum(spent) > _WARM_UP_SHARE * self.seconds
        ):
            self._check_stop()
            self._phase(f"warming up {what}, {turn}")
            try:
                result, times = contender.compiled.run_timed(self.inputs)
            except ExecutionError as error:
                if contender.plan is not None:
                    raise
                self.baseline_problems[contender.name] = str(error)
                return {}
            if not spent:
                contender.compiled = in_place(contender.compiled, result)
            spent.append(times.total)
            contender.run_seconds = min(spent)
            if contender.plan is not None:
                self.plan_seconds = max(self.plan_seconds, min(spent))
            elif min(spent) > SLOW_FACTOR * self.plan_seconds or self._takes_all_time(min(spent)):
                if len(spent) == 1 and times.total < self.seconds:
                    continue  # one run may have been held up, and would make the plan look many times faster
                contender.times.append(
                    times
                )  # one run suffices: the others would wait for it in every round
                contender.finished, contender.busy_seconds, contender.too_slow = (
                    1,
                    times.total,
                    True,
                )
                break
        return result

    def _takes_all_time(self, seconds: float) -> bool:
        """Whether a baseline alone would fill the time for measuring, and is slower without a second look."""
        return seconds * MIN_ROUNDS > self.seconds and seconds > _CLEARLY_SLOWER * self.plan_seconds

    def _measure_latency(self, active: Sequence[Contender]) -> None:
        begin = perf_counter()
        rounds, narrow = 0, 0
        order = random.Random(0)
        longest = min(TURN_SECONDS, self.seconds / (MIN_ROUNDS * max(len(active), 1)))
        while rounds < MIN_ROUNDS or (
            perf_counter() - begin < self.seconds and narrow < _NARROW_CHECKS
        ):
            self._watch.sample()
            for contender in order.sample(active, len(active)):
                turn, before = Turn.of(contender.run_seconds, longest), self._meter.read()
                runs = turn.take(partial(self._timed, contender))
                self._meter.add(
                    contender.tally, before, turn.runs * (1 + contender.compiled.queues)
                )
                contender.times += runs
                contender.turns.append(len(runs))
                contender.finished += len(runs)
                contender.busy_seconds += sum(times.total for times in runs)
                middle = sorted(runs, key=lambda times: times.total)[len(runs) // 2]
                self._sample(contender, middle, perf_counter() - begin, len(runs))
            rounds += 1
            if rounds % 4 == 0 or rounds <= MIN_ROUNDS:
                settled = all(
                    is_settled(medians_of_turns([t.total for t in c.times], c.turns))
                    for c in active
                )
                narrow = narrow + 1 if settled else 0
        self._settled = narrow >= _NARROW_CHECKS

    def _timed(self, contender: Contender) -> RunTimes:
        self._check_stop()
        return contender.compiled.run_measured(self.inputs)

    def _measure_throughput(self, active: Sequence[Contender]) -> None:
        for contender in active:
            contender.clones = [contender.compiled] + [
                contender.compiled.clone() for _ in range(self.requests - 1)
            ]
        begin, narrow, rounds = perf_counter(), 0, 0
        while narrow < _NARROW_CHECKS and any(
            c.busy_seconds < self.seconds * (1 if rounds >= MIN_ROUNDS else _MOST_OVERTIME)
            for c in active
        ):
            self._watch.sample()
            for contender in active:
                self._check_stop()
                self._saturate(contender, perf_counter() - begin)
            rounds += 1
            narrow = narrow + 1 if all(is_settled(c.rates) for c in active) else 0
        self._settled = narrow >= _NARROW_CHECKS

    def _saturate(self, contender: Contender, elapsed: float) -> None:
        """Keeps all requests in flight for one turn."""
        deadline = perf_counter() + min(_SLICE_SECONDS, self.seconds / _SLICES)
        failures: list[BaseException] = []
        ends: list[list[float]] = [[] for _ in contender.clones]

        def serve(compiled: CompiledPlan, finished: list[float]) -> None:
            try:
                while True:
                    if len(finished) % _TIMED_EVERY:
                        compiled.run(self.inputs)
                    else:
                        contender.times.append(compiled.run_timed(self.inputs)[1])
                    finished.append(perf_counter())
                    if finished[-1] >= deadline or self.should_stop():
                        return
            except Exception as error:  # noqa: BLE001  # it is raised below: a thread would lose it
                failures.append(error)

        start, before = perf_counter(), self._meter.read()
        threads = [
            threading.Thread(target=serve, args=each)
            for each in zip(contender.clones, ends, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        finished, seconds = sum(map(len, ends)), perf_counter() - start
        self._meter.add(contender.tally, before, finished)
        contender.finished += finished
        contender.busy_seconds += seconds
        contender.rates.append(steady_rate(ends) or finished / seconds)
        self._sample(contender, contender.times[-1], elapsed, finished, contender.rates[-1])

    def _reference(
        self, baselines: Mapping[str, Contender], outputs: Mapping[int, dict[str, Any]]
    ) -> tuple[str, dict[str, Any] | None, str]:
        """(device, outputs, problem) of the unsplit model, on the stand-in runtime if possible, else on any baseline."""
        names = [n for n in baselines if n not in self.baseline_problems]
        by_device = self._names
        preferred = stand_in(self.graph.format)
        names.sort(
            key=lambda n: (
                (by_device[n].runtime, by_device[n].provider)
                != (preferred.runtime, preferred.provider)
            )
        )
        if names:
            return names[0], outputs[id(baselines[names[0]])], ""
        try:
            return preferred.description, self._whole(preferred).run(self.inputs), ""
        except EditorError as error:
            return "", None, str(error)

    def _result(
        self,
        name: str,
        placement: Placement,
        contender: Contender,
        baselines: Mapping[str, Contender],
        difference: Difference | None,
        problem: str,
        elapsed: float,
    ) -> BenchmarkResult:
        times = contender.times
        mean_total = float(np.mean([t.total for t in times]))
        planned, own = {d.name for d in placement.devices if d.planned}, _own_names(placement)
        on_stand_in = any(s.device in planned for s in placement.subgraphs)
        difference, first = self._with_first_differences(placement, difference)
        if (
            difference is not None
            and (reference := self._names.get(difference.reference)) is not None
        ):
            difference = replace(difference, reference=_shown(difference.reference, reference, own))
        return BenchmarkResult(
            plan=name,
            mode=self.mode,
            requests=self.requests,
            runs=contender.finished,
            seconds=elapsed,
            total=Spread.of([t.total for t in times], contender.turns),
            throughput=rate(contender) or 0.0,
            throughput_interval=rate_interval(contender),
            estimated=on_stand_in,
            subgraphs=subgraph_figures(placement, contender, mean_total),
            transfers=transfer_figures(placement, contender, mean_total, planned),
            baselines=tuple(
                self._baseline(
                    name,
                    _shown(name, d, own),
                    _described(placement, d.settings, d.description),
                    baselines.get(name),
                    _lacks(placement, d.settings),
                )
                for name, d in self._names.items()
            ),
            difference=difference,
            difference_problem=problem,
            first_difference=first,
            **self._prediction(placement, contender, baselines),
            settled=self._settled,
            disturbances=self._disturbed(contender),
            environment=environment(self.threads),
            precision_notes=self._precision_notes(placement),
            not_simulated=tuple(sorted(set(_not_simulated(placement).values()))),
            properties={d.name: dict(d.properties) for d in placement.used_devices},
            energy=energy_of(placement, *costs_by_best_source(placement)),
            energy_measured=() if on_stand_in else self._meter.uses(contender.tally),
        )

    def _prediction(
        self, placement: Placement, contender: Contender, baselines: Mapping[str, Contender]
    ) -> dict[str, Any]:
        """What was predicted, by profiles where they exist, and why it came otherwise.

        With several requests in flight their rate; parts of a run say nothing then, as each waits for others.
        """
        stand_in = any(
            placement.devices[placement.device_number(s.device)].planned
            for s in placement.subgraphs
        )
        costs, basis = costs_of_plan(placement) if stand_in else costs_by_best_source(placement)
        many = self.mode != "latency"
        figures = {
            "predicted": None if many else placement.price(costs).total,
            "predicted_basis": basis,
            "assumed_speeds": tuple(assumed_speeds(placement, costs)),
            "predicted_throughput": predicted_rate(placement, costs, self.requests)
            if many
            else None,
        }
        if many or stand_in:
            return {**figures, "surprise": ""}
        own = _own_names(placement)
        unsplit = {
            own[self._names[name].settings]: median_seconds(c)
            for name, c in baselines.items()
            if c.times and name not in self.baseline_problems and self._names[name].settings in own
        }
        why = explain_deviation(
            placement, costs, median_parts(contender), median_seconds(contender), unsplit
        )
        return {**figures, "surprise": why}

    def _disturbed(self, contender: Contender) -> tuple[str, ...]:
        totals = [t.total for t in contender.times]
        moved = drift(medians_of_turns(totals, contender.turns)) if self.mode == "latency" else ""
        return (*self._disturbances, *([moved] if moved else []))

    def _difference(
        self,
        placement: Placement,
        name: str,
        expected: dict[str, Any] | None,
        actual: dict[str, Any],
    ) -> Difference | None:
        if expected is None:
            return None
        reference = self._names.get(name) or stand_in(self.graph.format)
        return compare(
            name, expected, actual, precision_of_plan(placement, reference), placement.graph
        )

    def _with_first_differences(
        self, placement: Placement, difference: Difference | None
    ) -> tuple[Difference | None, str]:
        """The difference with the origin of each output outside its tolerance, and a one-line summary."""
        if difference is None or difference.within_tolerance:
            return difference, ""
        self._phase("looking for the difference")
        reference = self._names.get(difference.reference) or stand_in(self.graph.format)
        wrong = [o.name for o in difference.outputs if not o.ok]
        origins: dict[str, FirstDifference] = {}
        problem = "seen in the outputs only, not in any boundary tensor"
        try:
            origins = first_differences(
                placement,
                self.inputs,
                reference,
                wrong,
                self.threads,
                precision_of_plan(placement, reference),
            )
        except EditorError as error:
            problem = f"not found: {error}"
        outputs = tuple(
            o if o.ok else replace(o, first=str(origins.get(o.name, problem)))
            for o in difference.outputs
        )
        return replace(difference, outputs=outputs), summary(origins) or problem

    def _precision_notes(self, placement: Placement) -> tuple[str, ...]:
        """Of the real devices that run, and of planned ones that are to compute in another type than their stand-ins."""
        run = {d.name for d in (*self._real_devices(), *placement.used_devices) if not d.planned}
        notes = [
            runtime_of(d.runtime).precision_note(d) for d in placement.devices if d.name in run
        ]
        notes += [
            f"{name} is planned as {assumed}, and its stand-in ran in the types of the model: "
            f"how {assumed} changes the outputs is not known"
            for name, assumed in _not_simulated(placement).items()
        ]
        return tuple(note for note in notes if note)

    def _baseline(
        self, name: str, shown: str, description: str, contender: Contender | None, lacks: str
    ) -> Baseline:
        """Returns the time of the unsplit model on a device: by its name here, and as the plan calls it."""
        problem = self.baseline_problems.get(name, "")
        if contender is None or problem or not contender.times:
            problem = problem or "not measured"
            return Baseline(shown, description, None, None, None, problem, lacks=lacks)
        spread = Spread.of([t.total for t in contender.times], contender.turns)
        return Baseline(
            shown,
            description,
            spread,
            rate(contender),
            rate_interval(contender),
            "",
            self._meter.uses(contender.tally),
            lacks,
        )

    def _sample(
        self, contender: Contender, times: RunTimes, at: float, runs: int, rate: float | None = None
    ) -> None:
        """Reports a turn: one of its runs, how many there were, and requests per second where several were in flight."""
        stands_in = any(step.device.planned for step in contender.compiled.steps)
        done = at / self.seconds
        if contender.turns:  # of slow runs the time is over before there are enough of them
            done = min(done, len(contender.turns) / MIN_ROUNDS)
        for i, (name, plan) in enumerate(((contender.name, contender.plan), *contender.identical)):
            self.on_event(
                {
                    "kind": "sample",
                    "plan": plan,
                    "name": name,
                    "at": at,
                    "runs": 0 if i else runs,  # counted once
                    "total": times.total,
                    "rate": rate,
                    "estimated": stands_in,
                    "subgraphs": times.subgraphs,
                    "transfers": sum(t.seconds for t in times.transfers),
                    "progress": min(done, 1.0),
                }
            )

    def _phase(self, text: str, done: int = 0, total: int = 0) -> None:
        self._check_stop()
        self.on_event({"kind": "phase", "text": text, "done": done, "total": total})

    def _check_stop(self) -> None:
        if self.should_stop():
            raise JobError("cancelled")


def named_apart(devices: Sequence[Device]) -> dict[str, Device]:
    """Name -> device, with the runtime and properties in the names of those that share one."""
    count = Counter(d.name for d in devices)
    found: dict[str, Device] = {}
    for device in devices:
        name = device.name if count[device.name] == 1 else _long_name(device)
        found[name if name not in found else f"{name} {len(found)}"] = device
    return found


def _long_name(device: Device) -> str:
    properties = (
        ", ".join(f"{key}={value}" for key, value in device.properties.items()) or "no properties"
    )
    return f"{device.name} ({device.description}, {properties})"


def _shown(name: str, device: Device, own: Mapping[tuple[object, ...], str]) -> str:
    """Returns the name of a device of the benchmark in a plan with these names of its own."""
    return own.get(device.settings) or (_long_name(device) if name in own.values() else name)


def _lacks(placement: Placement, settings: tuple[object, ...]) -> str:
    """What devices of these settings lack for the whole model; "" where one of them has room for it."""
    lacking = unsplit_lacks(placement)
    found = [lacking.get(d.name, "") for d in placement.devices if d.settings == settings]
    return found[0] if found and all(found) else ""


def _described(placement: Placement, settings: tuple[object, ...], description: str) -> str:
    """What a device is, and that the unsplit model ran ops on it that the table of the plan keeps off it."""
    constraints, ops = placement.constraints, placement.placed_ops.tolist()
    numbers = (i for i, d in enumerate(placement.devices) if d.settings == settings)
    kept_off = any(constraints.excluded(op, number) for number in numbers for op in ops)
    return f"{description}, with the ops that its table excludes" if kept_off else description


def _not_simulated(placement: Placement) -> dict[str, str]:
    """Planned device -> the element type that it is to compute in, where that is not the model's."""
    used = placement.used_devices
    return {d.name: d.published.assumes for d in used if d.planned and d.published.assumes}


def _own_names(placement: Placement) -> dict[tuple[object, ...], str]:
    """Settings of the plan's devices -> what the plan calls the first of them."""
    return {d.settings: d.name for d in reversed(placement.devices)}


def environment(threads: int) -> dict[str, str]:
    """Hardware, software and settings of the measurement."""
    result = {
        "Date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "CPU": cpu_name(),
        "Cores": str(os.cpu_count()),
        "System": platform.platform(),
        "Python": platform.python_version(),
        "Threads per subgraph": str(threads) if threads else "chosen by the runtime",
    }
    for device in available_devices():
        if device.machine:
            result[device.name] = f"{device.version} [{device.hardware}]"
        else:
            result.setdefault(device.runtime, device.version)
    return result
