"""Profiles of devices of other machines: measured by the workers there."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from time import perf_counter
from typing import Any

import numpy as np

from editor.devices.device import Device
from editor.errors import EditorError, ExecutionError
from editor.execution.compiled_plan import CompiledPlan, RunTimes
from editor.execution.executor import compile_whole
from editor.execution.inputs import random_inputs
from editor.execution.machines.link_speed import measure_wires
from editor.graph.graph import Graph
from editor.graph.model_file import read_again
from editor.placement.device_profile import DeviceProfile, profile_of, scaled
from editor.placement.wires import wire_costs
from editor.runtimes.machines.connection import call, calls
from editor.runtimes.machines.directory import directory
from editor.runtimes.machines.runtime import device_entry
from editor.runtimes.machines.shipping import pack, send_weights
from editor.runtimes.profiling import MAX_RUNS, MIN_RUNS

Report = Callable[[str, int, int], None]


def profile_there(
    graph: Graph,
    devices: Sequence[Device],
    seconds: float,
    threads: int = 0,
    report: Report | None = None,
) -> dict[str, DeviceProfile | str]:
    """Profiles the devices of other machines, one machine after the other, and measures the links between them.

    Returns:
        device name -> profile, or the reason why there is none.
    """
    by_machine: dict[str, list[Device]] = {}
    for device in devices:
        if device.machine and device.present:
            by_machine.setdefault(device.machine, []).append(device)
    result: dict[str, DeviceProfile | str] = {}
    for i, (machine, table) in enumerate(by_machine.items()):
        if report:
            report(f"profiling {', '.join(d.name for d in table)}", i, len(by_machine) + 1)
        try:
            result |= _profiles(graph, machine, table, seconds, threads)
        except EditorError as error:
            result |= dict.fromkeys((d.name for d in table), str(error))
    if report:
        report("measuring links", len(by_machine), len(by_machine) + 1)
    measure_wires(list(by_machine))
    if report:
        report("running the model from here", len(by_machine), len(by_machine) + 1)
    return result | from_here(
        graph, [d for table in by_machine.values() for d in table], result, seconds, threads
    )


def from_here(
    graph: Graph,
    devices: Sequence[Device],
    profiles: Mapping[str, DeviceProfile | str],
    seconds: float,
    threads: int,
) -> dict[str, DeviceProfile]:
    """Profiles with the times of runs that the editor starts; of devices that have a profile and can run the whole model.

    On their machine, kernels ran one run after the other. Between runs that come over a network a processor does other
    things, and caches are colder. Messages, changes of threads and copies take time as well.
    """
    plans: dict[str, tuple[CompiledPlan, DeviceProfile, float]] = {}
    for device in devices:
        profile, wires = profiles.get(device.name), wire_costs(graph, [device])
        if isinstance(profile, DeviceProfile) and wires is not None:
            with contextlib.suppress(
                ExecutionError
            ):  # it cannot run the whole model, or has too little memory for it
                plans[device.name] = (
                    compile_whole(graph, device, threads),
                    profile,
                    float(wires.ends.sum(axis=0)[-1]),
                )
    values, times = random_inputs(graph), {name: list[RunTimes]() for name in plans}
    order, rounds, begin = random.Random(0), 0, perf_counter()
    while plans and (
        rounds < MIN_RUNS + 2 or (perf_counter() - begin < seconds and rounds < MAX_RUNS)
    ):
        for name in order.sample(list(plans), len(plans)):
            times[name].append(plans[name][0].run_timed(values)[1])
        rounds += 1
    result = {}
    for name, (_, profile, wires_seconds) in plans.items():
        kept = times[name][2:]  # the first warm up
        inside = float(np.median([t.subgraphs[0] for t in kept]))
        beyond = float(np.median([t.total - t.subgraphs[0] for t in kept])) - wires_seconds
        result[name] = replace(
            scaled(profile, inside),
            reach_seconds=max(beyond, 0.0),
            split_factor=max(profile.split_factor, 1.0),
        )  # less is noise: no split makes ops faster
    return result


def _profiles(
    graph: Graph, machine: str, devices: Sequence[Device], seconds: float, threads: int
) -> dict[str, DeviceProfile | str]:
    here, address = calls(), directory.machine(machine).address
    parcel = pack(read_again(graph), graph.folder)
    here.wait(send_weights(here.pool, machine, address, parcel.weights))
    reply = here.wait(
        call(
            here.pool,
            machine,
            address,
            "hetero_profile",
            skeleton=parcel.skeleton,
            define=dict(graph.define),
            devices=[device_entry(d) for d in devices],
            seconds=seconds,
            threads=threads,
        )
    )
    profiles = dict(zip((d.name for d in devices), reply["profiles"].values(), strict=True))
    return {
        name: found if isinstance(found, str) else _profile_of(name, found)
        for name, found in profiles.items()
    }


def _profile_of(name: str, document: Mapping[str, Any]) -> DeviceProfile:
    known = {field.name for field in fields(DeviceProfile)}
    try:
        return profile_of({key: value for key, value in document.items() if key in known})
    except TypeError as error:
        raise ExecutionError(f"{name}: its worker sent no usable profile ({error})") from error
