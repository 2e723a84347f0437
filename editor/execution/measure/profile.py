"""Measures the time of each op on a real device with the profiler of its runtime.

Kernels are timed at the optimisation level of real runs: the median of each over the quietest runs. Medians do not add
up, and runtimes spend time between kernels, so the times are scaled to the latency without profiler. Then the unsplit
model runs on each device in turns with splits of it, which compares the devices and tells what a split costs (`split_costs`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from onnx import helper

from editor.arguments import as_seconds
from editor.devices.device import Device
from editor.errors import EditorError, ExecutionError
from editor.execution.compiled_plan import CompiledPlan, Step, convert, with_states_at_home
from editor.execution.executor import compile_placement
from editor.execution.invented_inputs import random_inputs
from editor.execution.invented_values import InventedInputs
from editor.execution.measure.in_place import given_to, in_place
from editor.execution.measure.split_costs import Unsplit, compiled_splits, fitted, run_in_turns
from editor.execution.measure.statistics import MachineWatch
from editor.graph.flops import work_shares
from editor.graph.graph import Graph
from editor.graph.states import states_of
from editor.placement.device_profile import (
    DeviceProfile,
    completed,
    load_profile,
    profile_path,
    save_profile,
    scaled,
)
from editor.placement.placement import Settings, solve
from editor.runtimes.base import CompileOptions, KernelTime, SubModel, Value
from editor.runtimes.op_models import small_model
from editor.runtimes.profiling import run_to_end, runs_within, seconds_of
from editor.runtimes.registry import runtime_of
from editor.runtimes.values import to_numpy

MOST_SECONDS = 3600
Report = Callable[[str, int, int], None]


@dataclass(frozen=True)
class _Measured:
    profile: DeviceProfile
    plan: CompiledPlan
    mine: tuple[int, ...]
    """Subgraphs of the plan that ran on the device."""


def _profile(
    graph: Graph,
    device: Device,
    devices: Sequence[Device],
    values: Mapping[str, Value],
    seconds: float,
    threads: int,
) -> _Measured:
    """Profiles every op that a real device can run.

    Ops that it cannot run go to the other devices of the table, by policy `priority`.

    Raises:
        ExecutionError: the device is planned, or it can run no op of the model.
    """
    if device.planned:
        raise ExecutionError(
            f"{device.name} is not on this machine, so there is nothing to measure"
        )
    priority = [device, *(d for d in devices if d.name != device.name)]
    placement = solve(graph, priority, Settings())
    plan = compile_placement(placement, threads, as_cut=True, keep_weights=True)
    mine = [step for step in plan.steps if step.device.name == device.name]
    if not mine:
        raise ExecutionError(f"{device.name} can run no op of {graph.name}")
    values = with_states_at_home(graph, plan.steps, values)
    passed = {name for step in mine for name in step.submodel.inputs}
    passed |= {state.output for state in states_of(graph) if not state.inside}
    kept = {**values, **plan.capture(values, passed)}
    plan = in_place(plan, kept)
    mine = [step for step in plan.steps if step.device.name == device.name]
    taken: dict[int, float] = {}
    fused: dict[str, int] = {}
    kernels: list[str] = []
    runs, raw = 0, 0.0
    for step in mine:
        arguments = given_to(step, kept)
        times, count, unscaled = _profile_step(graph, step, arguments, seconds / len(mine), threads)
        runs, raw = max(runs, count), raw + unscaled
        for kernel in times:
            for op, share in zip(kernel.ops, work_shares(graph, kernel.ops), strict=True):
                taken[op] = taken.get(op, 0.0) + kernel.seconds * share
                fused[graph.op_keys[op]] = len(kernels)
            kernels.append(kernel.type)
    for op in placement.ops_on(device.name):
        taken.setdefault(op, 0.0)  # an optimisation removed it
    in_latency, in_per_byte = _transfer_cost(device, into=True)
    out_latency, out_seconds_per_byte = _transfer_cost(device, into=False)
    launch = _launch_cost(device)
    cannot = ~placement.constraints.capabilities[0].mask & ~graph.op_is_constant
    profile = DeviceProfile(
        device.description,
        sum(taken.values()),
        {graph.op_keys[op]: t for op, t in taken.items()},
        fused,
        tuple(kernels),
        launch,
        in_latency,
        in_per_byte,
        out_latency,
        out_seconds_per_byte,
        runs,
        sum(taken.values()) / raw if raw else 1.0,
        unable=tuple(graph.op_keys[op] for op in np.flatnonzero(cannot).tolist()),
    )
    return _Measured(profile, plan, tuple(step.id for step in mine))


def profile_all(
    graph: Graph,
    devices: Sequence[Device],
    seconds: float = 2.0,
    threads: int = 0,
    report: Report | None = None,
) -> dict[str, DeviceProfile | str]:
    """Profiles every real device, on its machine, and stores the profiles.

    Returns:
        device name -> the profile that is stored for it, or the reason why there is none.

    Raises:
        EditorError: ``seconds`` cannot be measured for.
    """
    seconds = as_seconds(seconds, "profile seconds", MOST_SECONDS)
    machines = len({d.machine for d in devices if d.machine and d.present})
    here = sum(not d.machine and not d.planned for d in devices)
    steps_here = here + 1 if here else 0
    steps = steps_here + (machines + 2 if machines else 0)

    def step(text: str, done: int) -> None:
        if report:
            report(text, done, steps)

    result = profile_here(graph, devices, seconds, threads, step)
    if machines:
        from editor.execution.machines.remote_profile import profile_there

        result |= profile_there(
            graph, devices, seconds, threads, lambda text, done: step(text, steps_here + done)
        )
    by_name = {d.name: d for d in devices}
    stored: dict[
        Path, tuple[Device, DeviceProfile]
    ] = {}  # devices of one provider have one profile, and one before it
    for name, profile in result.items():
        if not isinstance(profile, str):
            whole = completed(graph, profile, load_profile(graph, by_name[name]))
            stored[profile_path(graph, by_name[name])] = by_name[name], whole
    for device, profile in stored.values():
        save_profile(graph, device, profile)
    return {
        d.name: found if isinstance(found, str) else stored[profile_path(graph, d)][1]
        for d in devices
        if (found := result.get(d.name)) is not None
    }


def profile_here(
    graph: Graph,
    devices: Sequence[Device],
    seconds: float,
    threads: int = 0,
    step: Callable[[str, int], None] = lambda _text, _done: None,
) -> dict[str, DeviceProfile | str]:
    """Profiles every real device of this machine; device name -> profile, or the reason why there is none.

    ``step`` is told what is measured, and how many steps, of one for each device and one for splits, are done.
    """
    result: dict[str, DeviceProfile | str] = {}
    measured: dict[str, _Measured] = {}
    devices = [d for d in devices if not d.machine]
    real = [d for d in devices if not d.planned]
    if not real:
        return {}
    values = InventedInputs()
    watch = MachineWatch()
    for i, device in enumerate(real):
        step(f"profiling {device.name}", i)
        try:
            values = values or random_inputs(graph)
            measured[device.name] = _profile(graph, device, devices, values, seconds, threads)
        except EditorError as error:
            values.explain(error)
            result[device.name] = str(error)
    step("measuring splits", len(real))
    profiles = _beside_splits(
        graph, [d for d in real if d.name in measured], measured, values, seconds, threads, watch
    )
    signs = tuple(watch.disturbances())
    result |= {name: replace(profile, disturbances=signs) for name, profile in profiles.items()}
    return {device.name: result[device.name] for device in real}


def _beside_splits(
    graph: Graph,
    devices: Sequence[Device],
    measured: Mapping[str, _Measured],
    values: Mapping[str, Value],
    seconds: float,
    threads: int,
    watch: MachineWatch,
) -> dict[str, DeviceProfile]:
    """Device name -> its profile, scaled to runs of the unsplit model beside splits, with what these cost.

    Profiles are measured one after the other, so a temporary load of the machine would affect one device only. A
    device that is too slow for a few more runs keeps its scale.
    """
    unsplit = {name: Unsplit(m.plan, m.mine) for name, m in measured.items()}
    splits = compiled_splits(graph, devices, threads)
    run_in_turns([*unsplit.values(), *splits], values, 2 * seconds, watch)
    profiles = {
        name: scaled(m.profile, unsplit[name].seconds if unsplit[name].runs else None)
        for name, m in measured.items()
    }
    return fitted(devices, profiles, splits)


def _profile_step(
    graph: Graph, step: Step, arguments: Sequence[Value], seconds: float, threads: int
) -> tuple[list[KernelTime], int, float]:
    """Kernel times of one sub-model, scaled to its latency without profiler; the number of runs; their unscaled sum."""
    run = partial(run_to_end, step.executable, arguments)
    for _ in range(2):
        run()
    spent = [seconds_of(run) for _ in runs_within(seconds / 2)]
    latency = float(np.median(spent))
    ops = tuple(int(node.name[2:]) for node in step.submodel.model.graph.node)
    runtime = runtime_of(step.runs_on.runtime)
    kernels = [
        k
        for k in runtime.profile(
            graph, step.submodel, step.runs_on, arguments, seconds / 2, threads
        )
        if k.ops
    ]
    total = sum(k.seconds for k in kernels)
    if not total:  # no profiler, or no kernel maps to ops: divided by estimated work
        return [KernelTime(step.runs_on.runtime, ops, latency)], len(spent), latency
    return [replace(k, seconds=k.seconds * latency / total) for k in kernels], len(spent), total


def _launch_cost(device: Device) -> float:
    """Seconds of launch overhead: the median run of a model with negligible work."""
    executable, value = _tiny(device, 16)
    run = partial(run_to_end, executable, [value])
    return float(np.median([seconds_of(run) for _ in range(60)][10:]))


def _transfer_cost(device: Device, into: bool) -> tuple[float, float]:
    """Seconds per value and per byte between host memory and the device's runtime."""
    small, large = 64, 1 << 20
    medians = []
    for count in (small, large):
        executable, value = _tiny(device, count)
        transfer = (
            partial(convert, value, device)
            if into
            else partial(to_numpy, run_to_end(executable, [value])[0])
        )
        medians.append(float(np.median([seconds_of(transfer) for _ in range(20)])))
    per_byte = max(medians[1] - medians[0], 0.0) / ((large - small) * 4)
    return medians[0], per_byte


def _tiny(device: Device, count: int) -> tuple[Any, Value]:
    model = small_model([helper.make_node("Relu", ["x"], ["y"], "op0")], [count])
    submodel = SubModel(model, ("x",), ("y",), Path(), "a tiny model")
    return runtime_of(device.runtime).compile(submodel, device, CompileOptions(1)), np.ones(
        count, np.float32
    )
