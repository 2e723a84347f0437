"""Measures the links between machines, in each direction, with the calls that runs use."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from datetime import date
from time import perf_counter

import numpy as np

from editor.execution.machines.dataflow import for_wire
from editor.placement.wires import HOME, Wire, save_wires
from editor.runtimes.machines.connection import call, calls
from editor.runtimes.machines.directory import directory

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

    def push(source: str, target: str) -> Callable[[int], Awaitable[float]]:
        async def once(size: int) -> float:
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

        return once

    def put(target: str) -> Callable[[int], Awaitable[float]]:
        async def once(size: int) -> float:
            data, start = np.zeros(size, np.uint8), perf_counter()
            await call(pool, target, address[target], "hetero_echo", data=for_wire(data))
            return perf_counter() - start

        return once

    def get(source: str) -> Callable[[int], Awaitable[float]]:
        async def once(size: int) -> float:
            start = perf_counter()
            await call(pool, source, address[source], "hetero_echo", size=size)
            return perf_counter() - start

        return once

    async def measure_all() -> dict[tuple[str, str], Wire]:
        found = {}
        for name in address:
            found[HOME, name] = await _measured(put(name))
            found[name, HOME] = await _measured(get(name))
        for source, target in itertools.permutations(address, 2):
            found[source, target] = await _measured(push(source, target))
        return found

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
