"""Measures plans in real runs, interleaved with the unsplit model on each real device.

Every round runs each contender once, so a slower machine affects all of them. The order changes from round to round,
because a run is slower after a runtime with busy threads and large weights.
"""

from __future__ import annotations

import os
import platform
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np

from editor.devices.device import Device
from editor.devices.discovery import available_devices
from editor.devices.hardware import cpu_name
from editor.errors import EditorError, ExecutionError, JobError
from editor.execution.executor import CompiledPlan, RunTimes, compile_placement, compile_whole
from editor.execution.inputs import overridden_initializers, random_inputs
from editor.execution.measure.figures import Baseline, BenchmarkResult, Difference, Spread, SubgraphFigures, TransferFigures
from editor.execution.measure.mismatch import FirstDifference, first_differences, summary
from editor.execution.measure.tolerances import compare, precision_of
from editor.placement.device_profile import costs_of
from editor.placement.placement import Placement
from editor.runtimes.base import Value
from editor.runtimes.registry import capability, stand_in

WARM_UP_RUNS = 2
MIN_ROUNDS = 5
SLOW_FACTOR = 5
"""A baseline slower than the plan by this factor is measured once instead of in every round."""
_SLICE_SECONDS = 0.5
"""Length of the turns that contenders take in throughput mode."""

Event = dict[str, Any]
OnEvent = Callable[[Event], None]
ShouldStop = Callable[[], bool]


@dataclass
class _Contender:
    """A plan or the unsplit model on one device, with its measured times."""

    name: str
    compiled: CompiledPlan
    plan: int | None
    """Index of the plan; None for a baseline."""
    times: list[RunTimes] = field(default_factory=list)
    finished: int = 0
    busy_seconds: float = 0.0
    clones: list[CompiledPlan] = field(default_factory=list)
    too_slow: bool = False
    identical: list[tuple[str, int | None]] = field(default_factory=list)
    """Name and index of plans and baselines that run the same compiled model."""


class Benchmark:
    """One interleaved benchmark of one or more placements of one model."""

    def __init__(self, placements: Mapping[str, Placement], seconds: float = 2.0, mode: str = "latency",
                 requests: int = 4, threads: int = 0, inputs: Mapping[str, Value] | None = None,
                 on_event: OnEvent | None = None, should_stop: ShouldStop | None = None) -> None:
        if mode not in ("latency", "throughput"):
            raise EditorError(f"unknown benchmark mode {mode!r}; choose one of: latency, throughput")
        if not 0 < seconds <= 3600:
            raise EditorError(f"benchmark seconds must be between 0 and 3600, not {seconds}")
        if not 1 <= requests <= 256:
            raise EditorError(f"requests in flight must be between 1 and 256, not {requests}")
        self.placements, self.seconds, self.mode = dict(placements), seconds, mode
        self.requests, self.threads = requests if mode == "throughput" else 1, threads
        self.on_event = on_event or _ignore
        self.should_stop = should_stop or (lambda: False)
        self.graph = next(iter(self.placements.values())).graph
        self.inputs = dict(inputs) if inputs is not None else random_inputs(self.graph)
        self.overridden = overridden_initializers(self.graph, self.inputs)
        self.baseline_problems: dict[str, str] = {}
        self.plan_seconds = 0.0
        self._wholes: dict[tuple[object, ...], CompiledPlan] = {}

    def run(self) -> list[BenchmarkResult]:
        """Compiles, warms up, measures and compares.

        Raises:
            ExecutionError: a plan does not compile or run.
            JobError: cancelled.
        """
        contenders: list[_Contender] = []
        plans = [_contender_of(contenders, name, self._compile(name, placement), i)
                 for i, (name, placement) in enumerate(self.placements.items())]
        baselines = self._baselines(contenders)
        self._phase("warming up")
        outputs = {id(c): self._warm_up(c) for c in contenders}
        begin = perf_counter()
        if self.mode == "latency":
            self._measure_latency(contenders)
        else:
            self._measure_throughput(contenders)
        elapsed = perf_counter() - begin
        self._phase("comparing outputs")
        reference_name, reference, problem = self._reference(baselines, outputs)
        results = []
        for contender, (name, placement) in zip(plans, self.placements.items(), strict=True):
            difference = self._difference(placement, reference_name, reference, outputs[id(contender)])
            results.append(self._result(name, placement, contender, baselines, difference, problem, elapsed))
        return results

    def _compile(self, name: str, placement: Placement) -> CompiledPlan:
        def progress(done: int, total: int, what: str) -> None:
            self._phase(f"{name}: {what}" if len(self.placements) > 1 else what, done, total)
        if len(placement.subgraphs) == 1:
            device = next(d for d in placement.devices if d.name == placement.subgraphs[0].device)
            if not device.planned:
                progress(0, 1, f"compiling subgraph 0 on {device.name}")
                return self._whole(device)
        return compile_placement(placement, self.threads, progress, overridden=self.overridden)

    def _whole(self, device: Device) -> CompiledPlan:
        """The unsplit model on a device, compiled once for the baseline and for plans of a single subgraph.

        These are also measured once: two copies would differ by up to 5 % in time, depending on their memory addresses.
        """
        key = device.settings
        if key not in self._wholes:
            self._wholes[key] = compile_whole(self.graph, device, self.threads, overridden=self.overridden)
        return self._wholes[key]

    def _baselines(self, contenders: list[_Contender]) -> dict[str, _Contender]:
        """The unsplit model on every real device that can run all of it; records a reason for the others."""
        baselines: dict[str, _Contender] = {}
        for device in self._real_devices():
            self._phase(f"compiling the unsplit model on {device.name}")
            answer = capability(self.graph, device)
            refused = np.flatnonzero(~answer.mask & ~self.graph.op_is_constant).tolist()
            if refused:
                self.baseline_problems[device.name] = f"cannot run the whole model: {answer.reasons[refused[0]]}"
                continue
            try:
                baselines[device.name] = _contender_of(contenders, device.name, self._whole(device), None)
            except ExecutionError as error:
                self.baseline_problems[device.name] = str(error)
        return baselines

    def _real_devices(self) -> list[Device]:
        """Real devices of all plans, without duplicates."""
        devices: dict[tuple[object, ...], Device] = {}
        for placement in self.placements.values():
            for device in placement.devices:
                if device.present:
                    devices.setdefault(device.settings, device)
        return list(devices.values())

    def _warm_up(self, contender: _Contender) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for _ in range(WARM_UP_RUNS):
            self._check_stop()
            self._phase(f"warming up {contender.name}")
            try:
                result, times = contender.compiled.run_timed(self.inputs)
            except ExecutionError as error:
                if contender.plan is not None:
                    raise
                self.baseline_problems[contender.name] = str(error)
                return {}
            if contender.plan is not None:
                self.plan_seconds = max(self.plan_seconds, times.total)
            elif times.total > SLOW_FACTOR * self.plan_seconds and times.total * MIN_ROUNDS > self.seconds / 2:
                contender.times.append(times)  # one run suffices: the others would wait for it in every round
                contender.finished, contender.busy_seconds, contender.too_slow = 1, times.total, True
                break
        return result

    def _measure_latency(self, contenders: Sequence[_Contender]) -> None:
        active = [c for c in contenders if not c.too_slow and (c.plan is not None or c.name not in self.baseline_problems)]
        begin = perf_counter()
        rounds = 0
        order = random.Random(0)
        while rounds < MIN_ROUNDS or perf_counter() - begin < self.seconds:
            for contender in order.sample(active, len(active)):
                self._check_stop()
                _, times = contender.compiled.run_timed(self.inputs)
                contender.times.append(times)
                contender.finished += 1
                contender.busy_seconds += times.total
                self._sample(contender, times, perf_counter() - begin)
            rounds += 1

    def _measure_throughput(self, contenders: Sequence[_Contender]) -> None:
        active = [c for c in contenders if not c.too_slow and (c.plan is not None or c.name not in self.baseline_problems)]
        for contender in active:
            contender.clones = [contender.compiled] + [contender.compiled.clone() for _ in range(self.requests - 1)]
        begin = perf_counter()
        while any(c.busy_seconds < self.seconds for c in active):
            for contender in active:
                self._check_stop()
                self._saturate(contender, perf_counter() - begin)

    def _saturate(self, contender: _Contender, elapsed: float) -> None:
        """Keeps all requests in flight for one turn."""
        deadline = perf_counter() + min(_SLICE_SECONDS, self.seconds)
        failures: list[BaseException] = []

        def serve(compiled: CompiledPlan) -> None:
            try:
                while True:
                    _, times = compiled.run_timed(self.inputs)
                    contender.times.append(times)
                    if perf_counter() >= deadline or self.should_stop():
                        return
            except EditorError as error:
                failures.append(error)

        before, start = len(contender.times), perf_counter()
        threads = [threading.Thread(target=serve, args=(c,)) for c in contender.clones]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        contender.finished += len(contender.times) - before
        contender.busy_seconds += perf_counter() - start
        self._sample(contender, contender.times[-1], elapsed)

    def _reference(self, baselines: Mapping[str, _Contender],
                   outputs: Mapping[int, dict[str, Any]]) -> tuple[str, dict[str, Any] | None, str]:
        """(device, outputs, problem) of the unsplit model, on the stand-in runtime if possible, else on any baseline."""
        names = [n for n in baselines if n not in self.baseline_problems]
        by_device = {d.name: d for d in self._real_devices()}
        preferred = stand_in()
        names.sort(key=lambda n: (by_device[n].runtime, by_device[n].provider) != (preferred.runtime, preferred.provider))
        if names:
            return names[0], outputs[id(baselines[names[0]])], ""
        try:
            return preferred.description, self._whole(preferred).run(self.inputs), ""
        except EditorError as error:
            return "", None, str(error)

    def _result(self, name: str, placement: Placement, contender: _Contender, baselines: Mapping[str, _Contender],
                difference: Difference | None, problem: str, elapsed: float) -> BenchmarkResult:
        times = contender.times
        mean_total = float(np.mean([t.total for t in times]))
        planned = {d.name for d in placement.devices if d.planned}
        difference, first = self._with_first_differences(placement, difference)
        return BenchmarkResult(
            plan=name, mode=self.mode, requests=self.requests, runs=len(times), seconds=elapsed,
            total=Spread.of([t.total for t in times]),
            throughput=contender.finished / contender.busy_seconds if contender.busy_seconds else 0.0,
            estimated=any(s.device in planned for s in placement.subgraphs),
            subgraphs=_subgraph_figures(placement, contender, mean_total),
            transfers=_transfer_figures(placement, contender, mean_total, planned),
            baselines=tuple(self._baseline(d, baselines.get(d.name)) for d in self._real_devices()),
            difference=difference, difference_problem=problem,
            first_difference=first, **_prediction(placement),
            environment=environment(self.threads))

    def _difference(self, placement: Placement, name: str, expected: dict[str, Any] | None,
                    actual: dict[str, Any]) -> Difference | None:
        if expected is None:
            return None
        reference = next((d for d in self._real_devices() if d.name == name), stand_in())
        return compare(name, expected, actual, self._precision(placement, reference))

    def _precision(self, placement: Placement, reference: Device) -> str:
        used = {s.device for s in placement.subgraphs}
        return precision_of([reference, *(d for d in placement.devices if d.name in used)])

    def _with_first_differences(self, placement: Placement, difference: Difference | None) -> tuple[Difference | None, str]:
        """The difference with the origin of each output outside its tolerance, and a one-line summary."""
        if difference is None or difference.within_tolerance:
            return difference, ""
        self._phase("looking for the difference")
        reference = next((d for d in self._real_devices() if d.name == difference.reference), stand_in())
        wrong = [o.name for o in difference.outputs if not o.ok]
        origins: dict[str, FirstDifference] = {}
        problem = "seen in the outputs only, not in any boundary tensor"
        try:
            origins = first_differences(placement, self.inputs, reference, wrong, self.threads,
                                        self._precision(placement, reference))
        except EditorError as error:
            problem = f"not found: {error}"
        outputs = tuple(o if o.ok else replace(o, first=str(origins.get(o.name, problem))) for o in difference.outputs)
        return replace(difference, outputs=outputs), summary(origins) or problem

    def _baseline(self, device: Device, contender: _Contender | None) -> Baseline:
        problem = self.baseline_problems.get(device.name, "")
        if contender is None or problem or not contender.times:
            return Baseline(device.name, device.description, None, None, problem or "not measured")
        throughput = contender.finished / contender.busy_seconds if contender.busy_seconds else None
        return Baseline(device.name, device.description, Spread.of([t.total for t in contender.times]), throughput, "")

    def _sample(self, contender: _Contender, times: RunTimes, at: float) -> None:
        for name, plan in ((contender.name, contender.plan), *contender.identical):
            self.on_event({"kind": "sample", "plan": plan, "name": name, "at": at,
                           "total": times.total, "subgraphs": times.subgraphs,
                           "transfers": sum(t.seconds for t in times.transfers),
                           "progress": min(at / self.seconds, 1.0)})

    def _phase(self, text: str, done: int = 0, total: int = 0) -> None:
        self._check_stop()
        self.on_event({"kind": "phase", "text": text, "done": done, "total": total})

    def _check_stop(self) -> None:
        if self.should_stop():
            raise JobError("cancelled")


def _contender_of(contenders: list[_Contender], name: str, compiled: CompiledPlan, plan: int | None) -> _Contender:
    """The contender that runs this compiled model, added if none does."""
    same = next((c for c in contenders if c.compiled is compiled), None)
    if same is not None:
        same.identical.append((name, plan))
        return same
    contenders.append(_Contender(name, compiled, plan))
    return contenders[-1]


def _subgraph_figures(placement: Placement, contender: _Contender, mean_total: float) -> tuple[SubgraphFigures, ...]:
    graph, subgraph_of_op = placement.graph, placement.division.subgraph_of_op
    steps = {step.id: step for step in contender.compiled.steps}
    figures = []
    for subgraph in placement.subgraphs:
        step = steps.get(subgraph.id)
        if step is None:
            continue
        spent = [t.subgraphs[subgraph.id] for t in contender.times]
        runs_on = step.runs_on.description + (" as stand-in" if step.device.planned else "")
        first = next(graph.key_index[k] for k in subgraph.ops if subgraph_of_op[graph.key_index[k]] >= 0)
        absorbed = tuple(f"{graph.display_name(op)} of subgraph {subgraph_of_op[op]}" for op in step.submodel.absorbed_ops)
        figures.append(SubgraphFigures(
            subgraph.id, subgraph.device, runs_on, step.device.planned, subgraph.size, graph.display_name(first), absorbed,
            Spread.of(spent), float(np.median([t.cpu[subgraph.id] for t in contender.times])),
            float(np.mean(spent)) / mean_total if mean_total else 0.0))
    return tuple(figures)


def _transfer_figures(placement: Placement, contender: _Contender, mean_total: float,
                      planned: set[str]) -> tuple[TransferFigures, ...]:
    device = {s.id: s.device for s in placement.subgraphs}
    named = {output: name for step in contender.compiled.steps for output, name in step.submodel.model_names.items()}
    spent: dict[tuple[str, int, int], list[float]] = {}
    sizes: dict[tuple[str, int, int], int] = {}
    for times in contender.times:
        for t in times.transfers:
            spent.setdefault((t.tensor, t.source, t.target), []).append(t.seconds)
            sizes[t.tensor, t.source, t.target] = t.bytes
    return tuple(TransferFigures(
        named.get(tensor, tensor), source, target, device[source], device[target], sizes[tensor, source, target],
        bool({device[source], device[target]} & planned), Spread.of(seconds),
        float(np.mean(seconds)) / mean_total if mean_total else 0.0)
        for (tensor, source, target), seconds in spent.items())


def _prediction(placement: Placement) -> dict[str, Any]:
    """Predicted latency of a plan, from profiles where they exist."""
    for source in ("measured", "estimate"):
        try:
            costs = costs_of(placement.graph, placement.devices, source)
        except EditorError:
            continue
        return {"predicted": placement.price(costs).total, "predicted_from": "estimate" if costs.estimated else source}
    return {"predicted": None, "predicted_from": ""}


def _ignore(_event: Event) -> None:
    """Default event handler."""


def environment(threads: int) -> dict[str, str]:
    """Hardware, software and settings of the measurement."""
    result = {"CPU": cpu_name(),
              "Cores": str(os.cpu_count()), "System": platform.platform(), "Python": platform.python_version(),
              "Threads per subgraph": str(threads) if threads else "chosen by the runtime"}
    for device in available_devices():
        result.setdefault(device.runtime, device.version)
    return result
