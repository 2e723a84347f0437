"""Moves tensors between machines, in narrower types where the table allows it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from time import perf_counter, process_time
from typing import Any

import numpy as np
import numpy.typing as npt

from editor.devices.device import Device, travels_as
from editor.execution.compiled_plan import convert, memory_space, owned
from editor.runtimes.base import MemorySpace, Value
from editor.runtimes.profiling import run_to_end
from editor.runtimes.protocols import Executable
from editor.runtimes.values import nbytes, to_numpy

_LEVELS = 127
"""Steps of int8 on each side of zero."""
_LEAST, _MOST = 1e-30, 3.4e38
"""Largest magnitudes of a tensor for int8: below, its scale would lose precision; above, rounding could give infinity."""


@dataclass(frozen=True)
class Narrow:
    """A tensor as it travels."""

    data: Any
    dtype: str = ""
    """Of the tensor; "" where it travels unchanged."""
    scale: float = 1.0
    """Its values are those of ``data`` times this."""

    @property
    def travels_as(self) -> str:
        """``float16`` or ``int8``; "" where it travels unchanged."""
        return str(self.data.dtype) if self.dtype else ""

    @property
    def bytes(self) -> int:
        """On the wire."""
        return nbytes(self.data)


def narrow(value: Any, wire_type: str) -> Narrow:
    """A value as it travels.

    Args:
        value: an array, or what else a runtime returns; only arrays of float32, and of float16 for int8, are changed.
        wire_type: ``float16``, ``int8`` or "".
    """
    if not isinstance(value, np.ndarray) or travels_as(str(value.dtype), wire_type) == str(
        value.dtype
    ):
        return Narrow(value)
    if wire_type == "float16":
        with np.errstate(over="ignore"):
            half = value.astype(np.float16)
        same = np.isfinite(half) == np.isfinite(value)
        return Narrow(half, str(value.dtype)) if same.all() else Narrow(value)
    return _as_int8(value)


def _as_int8(value: npt.NDArray[Any]) -> Narrow:
    largest = float(np.max(np.abs(value), initial=0.0))
    if not (
        largest == 0.0 or _LEAST <= largest <= _MOST
    ):  # the largest magnitude of a tensor with NaN is NaN
        return Narrow(value)
    scale = largest / _LEVELS if largest else 1.0
    steps = np.multiply(value, np.float32(1.0 / scale), dtype=np.float32)
    return Narrow(
        np.clip(np.rint(steps), -_LEVELS, _LEVELS).astype(np.int8), str(value.dtype), scale
    )


def widened(arrived: Narrow) -> Any:
    """The tensor, in its own type."""
    if not arrived.dtype:
        return arrived.data
    data = np.asarray(arrived.data)
    if data.dtype == np.float16:
        return data.astype(arrived.dtype)
    return np.multiply(data, np.float32(arrived.scale), dtype=np.float32).astype(
        arrived.dtype, copy=False
    )


Send = Callable[[str, str, Narrow], Awaitable[None]]
"""Sends a tensor (name, machine, as it travels) to another machine."""


@dataclass(frozen=True, eq=False)
class Stage:
    """A compiled subgraph on its machine."""

    id: int
    device: Device
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    send: Mapping[str, Sequence[str]]
    """tensor -> machines that read it"""
    wire_type: str
    """In which these travel, where they can; "" for their own."""
    executable: Executable


class Program:
    """One machine's part of a plan. Several runs may be in flight, each with instances of its own."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self.stages = tuple(stages)
        self._idle: list[list[Executable]] = [[stage.executable for stage in stages]]

    def acquire(self) -> list[Executable]:
        """[stage] an instance that no other run uses."""
        return (
            self._idle.pop() if self._idle else [stage.executable.clone() for stage in self.stages]
        )

    def release(self, instances: list[Executable]) -> None:
        """The run that used these instances has ended, and nothing reads its values any more."""
        self._idle.append(instances)


@dataclass
class Spent:
    """Times of one machine's part of a run; instants by the clock of this machine, in seconds."""

    seconds: dict[int, float] = field(default_factory=dict)
    """subgraph -> seconds"""
    cpu: dict[int, float] = field(default_factory=dict)
    sent: list[tuple[str, str, int, float, str, int]] = field(default_factory=list)
    """(tensor, machine, its bytes, instant at which it was ready, the narrower type in which it travelled or "", bytes sent)"""


class Values:
    """The tensors of one run on one machine, some of them still to come."""

    def __init__(self) -> None:
        self._futures: dict[str, asyncio.Future[tuple[Value, MemorySpace | None]]] = {}
        self._error: Exception | None = None
        self.arrived: dict[str, float] = {}
        """tensor -> instant of its arrival from another machine"""
        self._leaving: dict[str, asyncio.Future[Narrow]] = {}
        self._taken: dict[str, asyncio.Future[None]] = {}
        self.last_sign = perf_counter()
        """When the editor was heard last."""

    def set(self, name: str, value: Value, space: MemorySpace | None = None) -> None:
        """A tensor is here; ``space`` is None for an array from elsewhere."""
        future = self._future(name)
        if not future.done():
            future.set_result((value, space))

    async def get(self, name: str) -> tuple[Value, MemorySpace | None]:
        """Waits for a tensor."""
        return await self._future(name)

    def leaving(self, name: str) -> asyncio.Future[Narrow]:
        """A tensor that the editor will fetch, as it travels."""
        return self._leaving.setdefault(name, self._new())

    def taken(self, name: str) -> asyncio.Future[None]:
        """Done when the editor has fetched a tensor."""
        return self._taken.setdefault(name, self._new())

    def fail(self, error: Exception) -> None:
        """Raises this error in every wait for a tensor."""
        self._error = error
        waiting: list[asyncio.Future[Any]] = [
            *self._leaving.values(),
            *self._taken.values(),
            *self._futures.values(),
        ]
        for future in waiting:
            if not future.done():
                future.set_exception(error)
                future.exception()  # it need not be read

    def _future(self, name: str) -> asyncio.Future[tuple[Value, MemorySpace | None]]:
        if name not in self._futures:
            self._futures[name] = self._new()
        return self._futures[name]

    def _new(self) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._error is not None:
            future.set_exception(self._error)
            future.exception()  # it need not be read
        return future


async def run_program(
    program: Program, values: Values, send: Send, outputs: Collection[str], threads: Executor
) -> tuple[Spent, dict[str, Any]]:
    """Runs the stages in order; each waits for its inputs. Ends when everything is sent.

    Args:
        program: what to run.
        values: the tensors of this run.
        send: called for each tensor that another machine reads.
        outputs: names of tensors to return, as arrays.
        threads: where subgraphs run.

    Raises:
        ExecutionError: a runtime or a transfer failed.
    """
    spent, loop, sending = Spent(), asyncio.get_running_loop(), list[asyncio.Task[None]]()
    instances, results = program.acquire(), dict[str, Any]()
    try:
        for stage, instance in zip(program.stages, instances, strict=True):
            arguments = [await values.get(name) for name in stage.inputs]
            done = await loop.run_in_executor(
                threads, _run_stage, stage, instance, arguments, outputs
            )
            spent.seconds[stage.id], spent.cpu[stage.id] = done.seconds, done.cpu
            for name, leaves in done.leaving.items():
                for machine in stage.send[name]:
                    size = leaves.bytes if not leaves.travels_as else nbytes(done.values[name])
                    spent.sent.append(
                        (name, machine, size, done.ready, leaves.travels_as, leaves.bytes)
                    )
                    sending.append(asyncio.ensure_future(send(name, machine, leaves)))
            for name, value in done.values.items():
                values.set(name, value, memory_space(stage.device))
            results |= done.outputs
        await asyncio.gather(*sending)
    except BaseException:
        for task in sending:
            task.cancel()
        raise  # a transfer may still read the instances' buffers, so no run uses them again
    program.release(instances)
    return spent, results


@dataclass(frozen=True)
class _Done:
    """A stage that has run."""

    values: dict[str, Value]
    outputs: dict[str, Any]
    """The graph outputs among them, copied."""
    leaving: dict[str, Narrow]
    """Those that go to other machines."""
    seconds: float
    cpu: float
    ready: float
    """Instant."""


def _run_stage(
    stage: Stage,
    instance: Executable,
    arguments: Sequence[tuple[Value, MemorySpace | None]],
    outputs: Collection[str],
) -> _Done:
    """Runs a stage, and all that takes time before its results can go on: each change of threads costs a run's time."""
    start, start_cpu = perf_counter(), process_time()
    here = memory_space(stage.device)
    values = [
        value if space in (None, here) else convert(value, stage.device)
        for value, space in arguments
    ]
    results = run_to_end(instance, values)
    ready, cpu = perf_counter(), process_time() - start_cpu
    made = dict(zip(stage.outputs, results, strict=True))
    return _Done(
        made,
        {name: owned(value) for name, value in made.items() if name in outputs},
        {
            name: _as_it_leaves(made[name], stage.wire_type, machines)
            for name, machines in stage.send.items()
        },
        ready - start,
        cpu,
        ready,
    )


def _as_it_leaves(value: Value, wire_type: str, machines: Sequence[str]) -> Narrow:
    """A value as it travels; a copy where the editor fetches it, perhaps after the next run has begun."""
    leaves = narrow(plain(value), wire_type)
    return Narrow(owned(leaves.data)) if "" in machines and not leaves.travels_as else leaves


def plain(value: Value) -> Any:
    """A value to send: an array in C order, a list of such, or what else a runtime returns."""
    result = to_numpy(value)
    if isinstance(result, list):
        return [plain(item) for item in result]
    return (
        np.ascontiguousarray(result) if isinstance(result, np.ndarray) and result.ndim else result
    )


def message_of(value: Narrow) -> dict[str, Any]:
    """The part of a message that carries a tensor."""
    return {"data": for_wire(value.data), "dtype": value.dtype, "scale": value.scale}


def value_of(message: Mapping[str, Any]) -> Any:
    """The tensor of such a part."""
    return widened(Narrow(message["data"], message["dtype"], message["scale"]))


def for_wire(value: Any) -> Any:
    """Marks an array to be sent without a copy."""
    from distributed.protocol import to_serialize

    return to_serialize(value)
