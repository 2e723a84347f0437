"""Profiles the devices of other machines, and measures the links to them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import date
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from editor.devices.device import Device
from editor.errors import EditorError, ExecutionError
from editor.execution.compiled_plan import CompiledPlan, RunTimes
from editor.execution.executor import compile_whole
from editor.execution.invented_inputs import random_inputs
from editor.execution.machines.dataflow import for_wire
from editor.graph.graph import Graph
from editor.graph.model_file import read_again
from editor.groups import grouped
from editor.placement.device_profile import DeviceProfile, profile_of, scaled
from editor.placement.wires import HOME, Wire, save_wires, wire_costs
from editor.runtimes.machines.connection import call, calls, directory
from editor.runtimes.machines.runtime import device_entry, pack, send_weights
from editor.runtimes.profiling import MAX_RUNS, MIN_RUNS

SIZES = (1 << 14, 1 << 17, 1 << 20, 1 << 22, 1 << 24)
"""bytes; larger ones follow until one takes ``_ENOUGH_SECONDS``"""
_ENOUGH_SECONDS = 0.25
_REPEATS = 5
_EMPTY_REPEATS = 15


def measure_wires(machines: Sequence[str]) -> dict[tuple[str, str], Wire]:
    """Measures every link among machines, and between the editor's machine and each; keeps and returns the figures.

    A message without data takes half of the time until its answer: with one clock on each side, no more can be known.

    Args:
        machines: names, without the editor's.

    Raises:
        ExecutionError: a machine is not there, or it was lost meanwhile.
    """
    connections = calls()
    address = {name: directory.machine(name).address for name in machines if name != HOME}
    pool = connections.pool

    async def push(source: str, target: str, size: int) -> float:
        reply = await call(
            pool,
            source,
            address[source],
            "hetero_push",
            machine=target,
            peer=address[target],
            size=size,
        )
        return float(reply["seconds"])

    async def put(target: str, size: int) -> float:
        data, start = np.zeros(size, np.uint8), perf_counter()
        await call(pool, target, address[target], "hetero_echo", data=for_wire(data))
        return perf_counter() - start

    async def get(source: str, size: int) -> float:
        start = perf_counter()
        await call(pool, source, address[source], "hetero_echo", size=size)
        return perf_counter() - start

    async def measure_all() -> dict[tuple[str, str], Wire]:
        found = {}
        for name in address:
            found[HOME, name] = await _measured(partial(put, name))
            found[name, HOME] = await _measured(partial(get, name))
        return found | {
            (source, target): await _measured(partial(push, source, target))
            for source, target in itertools.permutations(address, 2)
        }

    wires = connections.wait(measure_all())
    save_wires(wires)
    return wires


async def _measured(once: Callable[[int], Awaitable[float]]) -> Wire:
    """Medians for growing sizes."""
    await once(0)  # connects
    back = await _median(once, 0, _EMPTY_REPEATS) / 2
    sizes, seconds = [0.0], [back]
    for size in SIZES:
        sizes.append(float(size))
        seconds.append(max(await _median(once, size, _REPEATS) - back, seconds[-1]))
        if seconds[-1] > _ENOUGH_SECONDS:
            break
    return Wire(tuple(sizes), tuple(seconds), date.today().isoformat())


async def _median(once: Callable[[int], Awaitable[float]], size: int, repeats: int) -> float:
    spent = []
    for _ in range(repeats):
        spent.append(await once(size))
        await asyncio.sleep(0)
        if sum(spent) > 4 * _ENOUGH_SECONDS:
            break
    return float(np.median(spent))


def profile_there(
    graph: Graph,
    devices: Sequence[Device],
    seconds: float,
    threads: int = 0,
    step: Callable[[str, int], None] = lambda _text, _done: None,
) -> dict[str, DeviceProfile | str]:
    """Profiles the devices of other machines, one machine after the other, and measures the links between them.

    ``step`` is told what is measured, and how many steps, of one for each machine and two, are done.

    Returns:
        device name -> profile, or the reason why there is none.
    """
    by_machine = grouped(
        (device.machine, device) for device in devices if device.machine and device.present
    )
    result: dict[str, DeviceProfile | str] = {}
    for i, (machine, table) in enumerate(by_machine.items()):
        step(f"profiling {', '.join(d.name for d in table)}", i)
        try:
            result |= _profiles(graph, machine, table, seconds, threads)
        except EditorError as error:
            result |= dict.fromkeys((d.name for d in table), str(error))
    step("measuring links", len(by_machine))
    measure_wires(list(by_machine))
    step("running from here", len(by_machine) + 1)
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
            define=graph.define_opened,
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
