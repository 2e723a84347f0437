"""Functions that run as jobs. Arguments are serializable, because a worker may be another machine."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from editor import operating_system
from editor.devices.device import Device
from editor.devices.table import load_devices
from editor.errors import ExecutionError, JobError
from editor.execution.inputs import read_inputs
from editor.execution.invented_inputs import random_inputs
from editor.execution.learning import run_until_right
from editor.execution.measure.accuracy import Accuracy, measure_accuracy, unsplit_reference
from editor.execution.measure.benchmark import Benchmark
from editor.execution.measure.figures import BenchmarkResult
from editor.execution.measure.memory_use import measure_memory
from editor.execution.measure.profile import profile_all
from editor.execution.measure.tokens import TokenBenchmark, measure_tokens
from editor.execution.measure.tune import Tuned
from editor.execution.measure.tune import tune as find_fastest
from editor.execution.measure.turns import KeptPlans
from editor.files import cache_folder, file_state
from editor.graph.graph import Graph
from editor.graph.loading import load_model
from editor.graph.model_file import check_same
from editor.placement.device_profile import DeviceProfile, unprofiled
from editor.placement.kept import Recipe
from editor.placement.placement import Placement
from editor.runtimes.base import Capability
from editor.runtimes.registry import capability
from editor.sandbox.worker import Channel


def load_graph(channel: Channel, model: str, define: Mapping[str, int]) -> Graph:
    """Parses a model file."""
    channel.step(f"reading {Path(model).name}")
    graph = load_model(model, define)
    remember(graph)
    return graph


def _graph_of(channel: Channel, recipe: Recipe) -> Graph:
    """The model of a recipe, whose file must still be the same."""
    return check_same(load_graph(channel, recipe.model, recipe.define), recipe.sha256)


def remember(graph: Graph) -> None:
    """Keeps a graph for the next job, which usually uses the same one."""
    _latest[:] = [(graph, file_state(graph.path))]


_WAIT_SECONDS = 0.2

_latest: list[tuple[Graph, tuple[int, int] | None]] = []
"""The graph that this worker loaded last, with the state of its file."""


def _graph(model: str, define: Mapping[str, int]) -> Graph:
    for graph, state in _latest:
        if str(graph.path) == model and graph.define == dict(define) and state == file_state(model):
            return graph
    return load_model(model, define)


def ask_capabilities(
    channel: Channel,
    model: str,
    sha256: str,
    define: Mapping[str, int],
    entries: Sequence[Mapping[str, Any]],
) -> list[Capability]:
    """[device] the ops of a model that it can run, and the reasons for the others."""
    devices = load_devices(entries)  # whose libraries of custom ops say what these return
    graph = check_same(_graph(model, define), sha256)
    answers = []
    for i, device in enumerate(devices):
        channel.step(f"asking {device.name}", i, len(entries))
        answers.append(capability(graph, device))
    return answers


_kept = KeptPlans()
"""Compiled plans of the last benchmark of this worker."""
_LOCK = "measuring.lock"


@contextmanager
def _alone(channel: Channel) -> Iterator[None]:
    """Waits for its turn to measure: of two measurements on a machine at the same time, neither would be right."""
    path = cache_folder(_LOCK)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as lock:
        told = False
        while not operating_system.try_lock(lock.fileno()):
            if not told:
                channel.step("waiting for another measurement on this machine")
                told = True
            if channel.stopped():
                raise JobError("cancelled")
            time.sleep(_WAIT_SECONDS)
        yield


def benchmark(
    channel: Channel,
    recipes: Mapping[str, Recipe],
    seconds: float,
    mode: str,
    requests: int,
    threads: int = 0,
    inputs: str | None = None,
    memory: bool = False,
    on_failure: str = "solve",
) -> list[BenchmarkResult]:
    """Benchmarks plans of one model side by side.

    Args:
        channel: of the job.
        recipes: the plans, by name.
        seconds: for each plan.
        mode: ``latency`` or ``throughput``.
        requests: in flight at the same time, for throughput.
        threads: per subgraph; 0 leaves the choice to the runtime.
        inputs: file of inputs.
        memory: then measure what each plan takes, in a process of its own.
        on_failure: where a subgraph fails though its ops do not: ``solve`` again and go on, ``tell`` what was learned, or
            ``stop``.
    """
    placements: dict[str, Placement] = {}
    graph: Graph | None = None
    for name, recipe in recipes.items():
        channel.step(f"loading {Path(recipe.model).name}")
        graph = load_model(recipe.model, recipe.define)
        placements[name] = recipe.placement(graph)
    values = read_inputs(graph, Path(inputs)) if graph is not None and inputs else None

    def measure(placements: Mapping[str, Placement]) -> list[BenchmarkResult]:
        return Benchmark(
            placements,
            seconds,
            mode,
            requests,
            threads,
            values,
            channel.emit,
            channel.stopped,
            _kept,
        ).run()

    def tell(text: str) -> None:
        if on_failure == "tell":
            raise ExecutionError(f"{text}. Benchmark again to measure what it is now")
        channel.emit({"kind": "phase", "text": text, "note": text, "done": 0, "total": 0})

    with _alone(channel):
        if on_failure == "stop" or graph is None:
            results = measure(placements)
        else:
            given = random_inputs(graph) if values is None else values
            results = run_until_right(placements, measure, given, tell)
        return (
            [_with_memory(channel, r, recipes[r.plan], threads) for r in results]
            if memory
            else results
        )


def generate(
    channel: Channel,
    recipe: Recipe,
    name: str,
    prompt: int,
    new: int,
    state: Mapping[str, str],
    threads: int = 0,
    sequences: int = 1,
    inputs: str | None = None,
) -> TokenBenchmark:
    """Measures a plan as it generates; see ``measure_tokens``."""
    graph = _graph_of(channel, recipe)
    given = read_inputs(graph, Path(inputs), some=True) if inputs else None
    phase = recipe.prompt
    prompt_placement = phase.placement(_graph_of(channel, phase)) if phase else None
    with _alone(channel):
        return measure_tokens(
            name,
            recipe.placement(graph),
            prompt,
            new,
            state,
            threads,
            sequences,
            given,
            channel.emit,
            channel.stopped,
            prompt_placement,
        )


def accuracy(channel: Channel, recipe: Recipe) -> Accuracy:
    """Compares every tensor of a plan with the unsplit model; see ``measure_accuracy``."""
    graph = _graph_of(channel, recipe)
    placement, inputs = recipe.placement(graph), random_inputs(graph)
    reference = unsplit_reference(placement, inputs)
    return measure_accuracy(
        placement,
        inputs,
        reference,
        every_tensor=True,
        progress=lambda done, total, text: channel.step(text, done, total),
    )


def _with_memory(
    channel: Channel, result: BenchmarkResult, recipe: Recipe, threads: int
) -> BenchmarkResult:
    channel.step(f"measuring the memory of {result.plan}")
    try:
        return replace(result, memory=measure_memory(recipe, threads))
    except ExecutionError as error:  # the times were measured and stay
        return replace(result, memory_problem=str(error))


def profile(
    channel: Channel, recipe: Recipe, seconds: float, threads: int = 0
) -> dict[str, DeviceProfile | str]:
    """Profiles a model on every real device of a table; stores the profiles on this machine."""
    graph = _graph_of(channel, recipe)
    with _alone(channel):
        return _profile(channel, graph, load_devices(recipe.devices), seconds, threads)


def _profile(
    channel: Channel, graph: Graph, devices: Sequence[Device], seconds: float, threads: int
) -> dict[str, DeviceProfile | str]:
    _kept.drop_others(())
    return profile_all(graph, devices, seconds, threads, channel.step)


def tune(
    channel: Channel, recipe: Recipe, seconds: float, mode: str, requests: int, threads: int = 0
) -> Tuned:
    """Profiles the model if needed, then benchmarks the most promising plans."""
    graph = _graph_of(channel, recipe)
    devices = load_devices(recipe.devices)
    with _alone(channel):
        if unprofiled(graph, devices):
            _profile(channel, graph, devices, min(seconds, 2.0), threads)
        known = not unprofiled(graph, devices)
        return find_fastest(
            recipe.placement(graph),
            seconds,
            mode,
            requests,
            threads,
            channel.emit,
            channel.stopped,
            "measured" if known else "estimate",
        )


def warm_up(channel: Channel) -> None:
    """Imports the runtimes, so that the first job starts without delay."""
    from editor.runtimes.registry import stand_in

    stand_in()
    gc.freeze()  # what is imported stays: collections after jobs need not look at it
