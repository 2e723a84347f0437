"""Measures the memory of a plan: how much a process of its own grows when it compiles the plan, and when it runs it.

Devices that compute in host memory share the process, and cannot be told apart; what they took together is compared with
what they need together. Beside constants and tensors, a process holds compiled code, weights packed for kernels beside
those of the model, and what an allocator keeps: runtimes say how much that was for other models.
"""

from __future__ import annotations

import contextlib
import gc
import re
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import onnx
import psutil
from onnx import helper

from editor import operating_system
from editor.devices.device import Device
from editor.errors import ExecutionError
from editor.execution.compiled_plan import CompiledPlan
from editor.execution.executor import compile_placement, compile_whole
from editor.execution.invented_inputs import random_inputs
from editor.execution.measure.figures import MemoryUse
from editor.graph.loading import load_model
from editor.placement.kept import Recipe
from editor.placement.placement import Placement
from editor.runtimes.op_models import small_model
from editor.runtimes.registry import runtime_of, stand_in
from editor.sandbox.worker import IsolatedProcess, ProcessEndedError

_RUNS = 3
"""The second run is the first in which ONNX Runtime knows what memory it needs."""
_SECONDS = 600.0
_SAMPLE_SECONDS = 0.002
_LIBRARY = re.compile(r"\.so(\.\d+)*$|/python[\d.]*$|/locale-archive$")
"""Mapped files that hold code, or what code always needs."""
_MOST_BYTES = 1 << 50
"""A plan may take what it takes: the figure is what is asked for."""


def measure_memory(recipe: Recipe, threads: int = 0) -> tuple[MemoryUse, ...]:
    """Compiles and runs a plan in a process of its own.

    Args:
        recipe: the plan.
        threads: per subgraph; 0: the runtime's choice.

    Raises:
        ExecutionError: the process ended, or the plan does not run.
    """
    process = IsolatedProcess(_MOST_BYTES)
    try:
        return process.call(_SECONDS, _measured, recipe, threads)
    except ProcessEndedError as error:
        raise ExecutionError(f"the memory was not measured: the process {error}") from error
    finally:
        process.close()


def _measured(recipe: Recipe, threads: int) -> tuple[MemoryUse, ...]:
    graph = load_model(recipe.model, recipe.define)
    placement = recipe.placement(graph)
    inputs = random_inputs(graph)
    elsewhere = [d.name for d in placement.used_devices if d.machine and d.present]
    if elsewhere:
        raise ExecutionError(f"not measured, for {', '.join(elsewhere)} is on another machine")
    used = {
        d.name: d if d.present else stand_in(placement.graph.format) for d in placement.used_devices
    }
    others = {
        name: d for name, d in used.items() if not runtime_of(d.runtime).memory_space(d).is_host
    }
    _start_runtimes(list(used.values()), threads)
    mapped = _mapped_bytes()
    before, others_before = _settled_bytes(), {name: _bytes_on(d) for name, d in others.items()}
    compiled = _compiled(placement, threads)
    after, others_after = _settled_bytes(), {name: _bytes_on(d) for name, d in others.items()}
    with _peaks(others) as peaks:
        for _ in range(_RUNS):
            compiled.run(inputs)
    peaks[""] += _mapped_bytes() - mapped
    memory, numbers = placement.run_memory, {d.name: i for i, d in enumerate(placement.devices)}
    host = [name for name in used if name not in others]

    def use(names: Sequence[str], where: str, before: int, after: int, peak: int) -> MemoryUse:
        mine = [numbers[name] for name in names]
        return MemoryUse(
            tuple(names),
            where,
            after - before,
            max(peak, after) - before,
            memory.taken_by(mine),
            memory.peak_of(mine),
            sum(memory.devices[i].constants for i in mine),
        )

    found = [use(host, "host memory", before, after, peaks[""])] if host else []
    for name in others:
        first, then = others_before[name], others_after[name]
        if first is not None and then is not None:
            found.append(use([name], f"memory of {name}", first, then, peaks[name]))
    return tuple(found)


def _start_runtimes(devices: list[Device], threads: int) -> None:
    """Runs a tiny model on each device, so that libraries and thread pools are there before anything is measured."""
    model = small_model([helper.make_node("Relu", ["x"], ["y"])], [8])
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(model, Path(folder) / "tiny.onnx")
        graph = load_model(Path(folder) / "tiny.onnx")
        for device in devices:
            with contextlib.suppress(
                ExecutionError
            ):  # it may refuse Relu; its libraries are loaded nevertheless
                compile_whole(graph, device, threads).run(random_inputs(graph))


def _compiled(placement: Placement, threads: int) -> CompiledPlan:
    """As a benchmark compiles it: a plan of one subgraph is the unsplit model."""
    used = placement.used_devices
    if len(used) == len(placement.subgraphs) == 1 and used[0].present:
        return compile_whole(placement.graph, used[0], threads)
    return compile_placement(placement, threads)


def _settled_bytes() -> int:
    """Bytes of this process alone, without what its allocator could give back."""
    gc.collect()
    operating_system.give_back_memory()
    return operating_system.private_memory()


def _mapped_bytes() -> int:
    """Bytes in memory of mapped files other than libraries: weights that are used where they are."""
    try:
        maps = psutil.Process().memory_maps(grouped=True)
    except (AttributeError, psutil.Error):
        return 0
    return sum(
        m.private_clean for m in maps if m.path.startswith("/") and not _LIBRARY.search(m.path)
    )


def _bytes_on(device: Device) -> int | None:
    return runtime_of(device.runtime).memory_in_use(device)


@contextlib.contextmanager
def _peaks(others: dict[str, Device]) -> Iterator[dict[str, int]]:
    """Most bytes of this process ("") and on other devices, by name, while the block runs."""
    peaks, done = {"": 0, **dict.fromkeys(others, 0)}, threading.Event()

    def look() -> None:
        peaks[""] = max(peaks[""], operating_system.private_memory())
        for name, device in others.items():
            peaks[name] = max(peaks[name], _bytes_on(device) or 0)

    def watch() -> None:
        while not done.wait(_SAMPLE_SECONDS):
            look()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield peaks
    finally:
        done.set()
        watcher.join()
        look()
