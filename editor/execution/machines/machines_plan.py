"""A compiled plan whose subgraphs run on several machines.

Each machine gets its part of the plan once. A run is one call to each of them, all at the same time; tensors go from worker
to worker, and to the editor only if a device of its own machine or the caller reads them.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
import weakref
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from editor.devices.device import Device
from editor.errors import ExecutionError
from editor.execution.compiled_plan import (
    Compile,
    CompiledPlan,
    Overridden,
    Progress,
    RunTimes,
    Step,
    TransferTime,
    constant_outputs,
    owned,
)
from editor.execution.cut import Cutter, cut
from editor.execution.machines.dataflow import (
    Narrow,
    Program,
    Spent,
    Stage,
    Values,
    for_wire,
    message_of,
    plain,
    run_program,
    value_of,
)
from editor.graph.graph import Graph
from editor.groups import firsts
from editor.placement.placement import Placement
from editor.runtimes.base import CompileOptions, SubModel, Value
from editor.runtimes.machines.connection import (
    Calls,
    Failed,
    Lost,
    call,
    calls,
    directory,
    has_moved,
)
from editor.runtimes.machines.runtime import device_entry, pack, send_weights
from editor.runtimes.protocols import Executable
from editor.runtimes.registry import runtime_of, stand_in
from editor.text import pluralize

_HERE = ""
"""The editor's own machine."""
_PINGS = 8
_CLOCK_SECONDS = 5.0
"""Clocks of machines are compared again after this time."""


class _Elsewhere:
    """Stands for an executable that the program of a machine has, this one or another."""

    def run(self, inputs: Sequence[Value]) -> list[Value]:
        """A subgraph runs as part of its program only."""
        raise ExecutionError("this subgraph is on another machine")

    def clone(self) -> Executable:
        """Itself: it has no state."""
        return self


@dataclass
class _Share:
    """The part of a plan on one machine."""

    machine: str
    steps: list[Step]
    label: str
    """For messages: the machine's devices."""
    send: dict[int, dict[str, list[str]]]
    """subgraph -> tensor -> machines that read it"""
    inputs: list[str]
    """Graph inputs that it reads."""
    program: str = field(default_factory=lambda: uuid.uuid4().hex)
    address: str = ""
    clock: float = 0.0
    """Seconds by which its clock is ahead of this machine's."""

    def named(self, error: Failed) -> Failed:
        """The error with the devices that it is about."""
        known = any(step.runs_on.name in error.what for step in self.steps)
        return error if known else type(error)(self.label, error.what)


class _Fleet:
    """The machines of a plan with their programs; shared by the clones of the plan."""

    def __init__(
        self,
        shares: Mapping[str, _Share],
        options: CompileOptions,
        here: Program,
        connections: Calls,
    ) -> None:
        self.shares, self.options, self.here, self.calls = dict(shares), options, here, connections
        self.pool = ThreadPoolExecutor(64, thread_name_prefix="subgraphs")
        self.stale = False
        """A machine was lost: addresses may have changed."""
        self.background: set[asyncio.Task[None]] = set()
        """Calls whose answers were given up."""
        self._compared = 0.0
        programs = [(s.machine, s.program, s.address) for s in self.remote]
        weakref.finalize(
            self, _release, connections, programs
        ).atexit = False  # workers forget them in time

    @property
    def remote(self) -> list[_Share]:
        """The shares of other machines."""
        return [share for machine, share in self.shares.items() if machine != _HERE]

    async def ask(
        self, share: _Share, op: str, alive: Sequence[str] = (), /, **message: Any
    ) -> Any:
        """Calls the worker of another machine; as ``connection.call``."""
        return await call(self.calls.pool, share.label, share.address, op, alive, **message)

    async def prepare(self) -> None:
        """Finds the machines again after one was lost, and compares clocks."""
        if self.stale:
            for share in self.remote:
                share.address = (await asyncio.to_thread(directory.machine, share.machine)).address
            self.stale, self._compared = False, 0.0
        if perf_counter() - self._compared > _CLOCK_SECONDS:
            await asyncio.gather(*(self._compare_clock(share) for share in self.remote))
            self._compared = perf_counter()

    async def _compare_clock(self, share: _Share) -> None:
        samples = []
        for _ in range(_PINGS):
            start = perf_counter()
            reply = await self.ask(share, "hetero_ping")
            end = perf_counter()
            samples.append((end - start, reply["now"] - (start + end) / 2))
        share.clock = min(samples)[1]

    async def deploy(self, share: _Share) -> None:
        """Sends a machine's part of the plan, weights once, and compiles it there.

        Raises:
            ExecutionError: the machine is lost, has too little memory, or a runtime refuses; with the names of its devices.
        """
        try:
            await self._deploy(share)
        except Failed as error:
            raise share.named(error) from error

    async def _deploy(self, share: _Share) -> None:
        stages = []
        for step in share.steps:
            parcel = await asyncio.to_thread(pack, step.submodel.model, step.submodel.folder)
            await send_weights(self.calls.pool, share.label, share.address, parcel.weights)
            stages.append(
                {
                    "id": step.id,
                    "skeleton": parcel.skeleton,
                    "inputs": step.submodel.inputs,
                    "outputs": step.submodel.outputs,
                    "label": step.submodel.label,
                    "device": device_entry(step.runs_on),
                    "send": share.send.get(step.id, {}),
                    "wire_type": step.device.wire_type,
                }
            )
        await self.ask(
            share,
            "hetero_deploy",
            program=share.program,
            stages=stages,
            threads=self.options.threads,
            requests=self.options.requests,
        )


def _release(connections: Calls, programs: Sequence[tuple[str, str, str]]) -> None:
    async def release() -> None:
        for machine, program, address in programs:
            with contextlib.suppress(ExecutionError):
                await call(connections.pool, machine, address, "hetero_release", program=program)

    asyncio.run_coroutine_threadsafe(release(), connections.loop)


class MachinesPlan(CompiledPlan):
    """The plan. One instance may run in several threads: each run has values of its own."""

    def __init__(
        self,
        graph: Graph,
        steps: list[Step],
        fleet: _Fleet,
        constants: Mapping[str, Value],
        subgraph_count: int,
        recompile: Compile,
        overridden: Overridden,
    ) -> None:
        super().__init__(graph, steps, constants, subgraph_count, recompile, overridden)
        self._fleet = fleet
        self.queues = False

    def run(self, inputs: Mapping[str, Value]) -> dict[str, Any]:
        """See ``CompiledPlan.run``.

        Raises:
            ExecutionError: also when a machine ended, was stopped or cut off; the message names its devices.
        """
        return self.run_timed(inputs)[0]

    def run_timed(self, inputs: Mapping[str, Value]) -> tuple[dict[str, Any], RunTimes]:
        """Like ``run``, with the time of every subgraph and transfer."""
        if not self._fits(inputs):
            inputs = self._checked(inputs)
        variant = self._variant_for(inputs)
        if not isinstance(
            variant, MachinesPlan
        ):  # no subgraph reads anything: there is nothing to run elsewhere
            return variant.run_timed(inputs)
        return variant._run_all(inputs, self._outputs)

    def clone(self) -> CompiledPlan:
        """Another instance with the same programs."""
        return MachinesPlan(
            self.graph,
            self.steps,
            self._fleet,
            self._constants,
            self.subgraph_count,
            self._recompile,
            self.overridden,
        )

    def capture(self, inputs: Mapping[str, Value], names: Collection[str]) -> dict[str, Any]:
        """Runs the plan once; returns the named boundary tensors and outputs as arrays."""
        variant = self._variant_for(inputs)
        return (
            variant._run_all(inputs, names)[0]
            if isinstance(variant, MachinesPlan)
            else variant.capture(inputs, names)
        )

    def _run_all(
        self, inputs: Mapping[str, Value], wanted: Collection[str]
    ) -> tuple[dict[str, Any], RunTimes]:
        fleet = self._fleet
        try:
            return fleet.calls.wait(self._run_known(inputs, wanted))
        except Lost:
            fleet.stale = True
            directory.forget()
            if not has_moved({share.machine: share.address for share in fleet.remote}):
                raise
            return fleet.calls.wait(
                self._run_known(inputs, wanted)
            )  # a worker was restarted before this run

    async def _run_known(
        self, inputs: Mapping[str, Value], wanted: Collection[str]
    ) -> tuple[dict[str, Any], RunTimes]:
        """Runs once; each machine that does not know its part, perhaps all of them, gets it first."""
        for _ in self._fleet.remote:
            try:
                return await self._run_once(inputs, wanted)
            except _UnknownProgram as error:
                await self._fleet.deploy(error.share)
        try:
            return await self._run_once(inputs, wanted)
        except _UnknownProgram as error:
            raise ExecutionError(str(error)) from error

    async def _run_once(
        self, inputs: Mapping[str, Value], wanted: Collection[str]
    ) -> tuple[dict[str, Any], RunTimes]:
        fleet, run, values = self._fleet, uuid.uuid4().hex, Values()
        await fleet.prepare()
        peers = {share.machine: share.address for share in fleet.remote}
        outputs = {
            machine: [
                name for step in share.steps for name in step.submodel.outputs if name in wanted
            ]
            for machine, share in fleet.shares.items()
        }
        begin = perf_counter()
        for name, value in inputs.items():
            values.set(name, value)
        work = {
            share.machine: asyncio.ensure_future(
                self._run_there(share, run, inputs, outputs[share.machine], peers)
            )
            for share in fleet.remote
        }
        takes = [
            asyncio.ensure_future(self._take(share, run, name, values))
            for share in fleet.remote
            for tensors in share.send.values()
            for name, machines in tensors.items()
            if _HERE in machines
        ]
        here = asyncio.ensure_future(
            run_program(
                fleet.here, values, partial(self._send, run), outputs.get(_HERE, ()), fleet.pool
            )
        )
        try:
            await asyncio.gather(*work.values(), *takes, here)
        except BaseException as error:
            for task in (*work.values(), *takes, here):
                task.cancel()
            self._abandon(run, error)
            raise self._named(error) from error
        total = perf_counter() - begin
        spent, results = here.result()
        replies = {machine: task.result() for machine, task in work.items()}
        for reply in replies.values():
            results |= {name: _writable(value) for name, value in reply["outputs"].items()}
        known = {**self._constants, **inputs}
        results |= {
            name: owned(known[name]) for name in wanted if name not in results and name in known
        }
        return results, self._times(
            total,
            {
                _HERE: (spent, values.arrived),
                **{
                    machine: (Spent(r["seconds"], r["cpu"], r["sent"]), r["arrived"])
                    for machine, r in replies.items()
                },
            },
        )

    async def _run_there(
        self,
        share: _Share,
        run: str,
        inputs: Mapping[str, Value],
        outputs: Sequence[str],
        peers: Mapping[str, str],
    ) -> dict[str, Any]:
        given = {name: for_wire(plain(inputs[name])) for name in share.inputs}
        reply: dict[str, Any] = await self._fleet.ask(
            share,
            "hetero_run",
            (run,),
            program=share.program,
            run=run,
            inputs=given,
            outputs=outputs,
            peers=peers,
        )
        if "unknown" in reply:
            raise _UnknownProgram(share)
        return reply

    async def _take(self, share: _Share, run: str, name: str, values: Values) -> None:
        reply = await self._fleet.ask(share, "hetero_take", (run,), run=run, name=name)
        value = value_of(reply["value"])
        values.arrived[name] = perf_counter()
        values.set(name, value)

    async def _send(self, run: str, name: str, machine: str, value: Narrow) -> None:
        await self._fleet.ask(
            self._fleet.shares[machine],
            "hetero_put",
            (run,),
            run=run,
            name=name,
            value=message_of(value),
        )

    def _abandon(self, run: str, error: BaseException) -> None:
        """Tells the machines that are left; does not wait for them."""
        for share in self._fleet.remote:
            if not (isinstance(error, Lost) and error.machine in (share.label, share.machine)):
                work = _quietly(self._fleet.ask(share, "hetero_abandon", run=run))
                self._fleet.background.add(task := asyncio.ensure_future(work))
                task.add_done_callback(self._fleet.background.discard)

    def _named(self, error: BaseException) -> BaseException:
        """The error of a machine by its devices, also where another machine reports it."""
        if isinstance(error, Failed) and error.machine in self._fleet.shares:
            return self._fleet.shares[error.machine].named(error)
        return error

    def _times(
        self, total: float, spent: Mapping[str, tuple[Spent, Mapping[str, float]]]
    ) -> RunTimes:
        """Figures of all machines, with their instants by this machine's clock.

        A transfer has the subgraphs that produce and first read the tensor.
        """
        seconds, cpu = [0.0] * self.subgraph_count, [0.0] * self.subgraph_count
        clock = {machine: share.clock for machine, share in self._fleet.shares.items()}
        source = {name: step.id for step in self.steps for name in step.submodel.outputs}
        reader = firsts(
            ((name, step.machine), step.id) for step in self.steps for name in step.submodel.inputs
        )
        transfers: list[TransferTime] = []
        for machine, (times, _) in spent.items():
            for number in times.seconds:
                seconds[number], cpu[number] = times.seconds[number], times.cpu[number]
            for tensor, target, size, ready, travelled_as, sent in times.sent:
                taken = (spent[target][1][tensor] - clock[target]) - (ready - clock[machine])
                transfers.append(
                    TransferTime(
                        tensor,
                        source[tensor],
                        reader[tensor, target],
                        max(taken, 0.0),
                        size,
                        True,
                        travelled_as,
                        sent,
                    )
                )
        return RunTimes(total, tuple(seconds), tuple(cpu), tuple(transfers))


class _UnknownProgram(Exception):
    """A machine does not know its part of the plan: it was restarted, or has had many others since."""

    def __init__(self, share: _Share) -> None:
        super().__init__(
            f"{share.label}: its worker forgets this plan before it runs; are there too many plans in use at once?"
        )
        self.share = share


async def _quietly(work: Any) -> None:
    with contextlib.suppress(ExecutionError):
        await work


def _writable(value: Any) -> Any:
    """Arrays from the network may be views of read-only buffers."""
    return np.array(value) if isinstance(value, np.ndarray) and not value.flags.writeable else value


def compile_over_machines(
    placement: Placement,
    recompile: Compile,
    threads: int = 0,
    progress: Progress | None = None,
    overridden: Overridden = frozenset(),
    requests: int = 1,
) -> CompiledPlan:
    """Cuts a plan, sends each machine its part and compiles it there.

    Raises:
        ExecutionError: a machine is not there, does not have enough memory, or a runtime refuses a subgraph.
    """
    graph = placement.graph
    cutter = Cutter.open(graph, overridden)
    submodels: Sequence[SubModel | None] = (
        [replace(cutter.whole(), label="subgraph 0")]
        if len(placement.subgraphs) == 1
        else cut(placement, cutter, fold_shapes=True)
    )
    steps = [
        Step(
            subgraph.id,
            submodel,
            device := placement.by_name[subgraph.device],
            stand_in(graph.format) if device.planned else device,
            _Elsewhere(),
        )
        for subgraph, submodel in zip(placement.subgraphs, submodels, strict=True)
        if submodel and submodel.outputs
    ]
    return _deployed(
        graph,
        steps,
        cutter,
        CompileOptions(threads, requests=requests),
        progress,
        len(placement.subgraphs),
        recompile,
        overridden,
    )


def compile_whole_on_machine(
    graph: Graph,
    device: Device,
    recompile: Compile,
    threads: int,
    extra_outputs: Sequence[str],
    overridden: Overridden,
    requests: int = 1,
) -> CompiledPlan:
    """The unsplit model on a device of another machine; see ``compile_whole``."""
    cutter = Cutter.open(graph, overridden)
    submodel = cutter.whole(extra_outputs)
    steps = [Step(0, submodel, device, device, _Elsewhere())] if submodel.outputs else []
    return _deployed(
        graph,
        steps,
        cutter,
        CompileOptions(threads, requests=requests),
        None,
        len(steps),
        recompile,
        overridden,
    )


def _deployed(
    graph: Graph,
    steps: list[Step],
    cutter: Cutter,
    options: CompileOptions,
    progress: Progress | None,
    count: int,
    recompile: Compile,
    overridden: Overridden,
) -> CompiledPlan:
    shares = _shares(graph, steps, overridden)
    here = [
        Stage(
            step.id,
            step.runs_on,
            step.submodel.inputs,
            step.submodel.outputs,
            shares[_HERE].send.get(step.id, {}),
            step.device.wire_type,
            runtime_of(step.runs_on.runtime).compile(step.submodel, step.runs_on, options),
        )
        for step in steps
        if step.machine == _HERE
    ]
    connections = calls()
    for share in shares.values():
        if share.machine != _HERE:
            share.address = directory.machine(share.machine).address
    fleet = _Fleet(shares, options, Program(here), connections)
    for i, share in enumerate(fleet.remote):
        if progress:
            progress(
                i,
                len(fleet.remote),
                f"compiling {pluralize(len(share.steps), 'subgraph')} on {share.label}",
            )
        connections.wait(fleet.deploy(share))
    return MachinesPlan(
        graph, steps, fleet, constant_outputs(graph, cutter), count, recompile, overridden
    )


def _shares(graph: Graph, steps: Sequence[Step], overridden: Overridden) -> dict[str, _Share]:
    """machine -> its share."""
    given = {*graph.input_names, *overridden}
    producer = {name: step for step in steps for name in step.submodel.outputs}
    shares: dict[str, _Share] = {}
    for step in steps:
        shares.setdefault(step.machine, _Share(step.machine, [], "", {}, [])).steps.append(step)
    for machine, share in shares.items():
        share.label = ", ".join(dict.fromkeys(step.device.name for step in share.steps))
        reads = dict.fromkeys(name for step in share.steps for name in step.submodel.inputs)
        for name in reads:
            source = producer.get(name)
            if source is None:
                share.inputs += [name] if name in given else []
            elif source.machine != machine:
                shares[source.machine].send.setdefault(source.id, {}).setdefault(name, []).append(
                    machine
                )
    return shares
