"""Devices of other machines, under the names ``machine/device``.

They are asked, compiled for and run on their machine, by the worker there (``execution.machines``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from editor.devices.device import Device
from editor.devices.discovery import AvailableDevice, Target, resolve
from editor.errors import ExecutionError
from editor.graph.graph import Graph
from editor.graph.model_file import read_model
from editor.runtimes.base import Capability, CompileOptions, MemorySpace, SubModel
from editor.runtimes.defaults import RuntimeDefaults
from editor.runtimes.machines.connection import call, calls, configured
from editor.runtimes.machines.directory import directory
from editor.runtimes.machines.shipping import pack
from editor.runtimes.protocols import Executable

NAME = "machines"


class Machines(RuntimeDefaults):
    """The devices that the workers at the scheduler offer."""

    name = NAME
    title = "another machine"

    def devices(self) -> Sequence[AvailableDevice]:
        """Every device that a connected worker offers; none without a scheduler.

        Raises:
            ExecutionError: the scheduler cannot be reached.
        """
        if configured() is None:
            return ()
        return [
            AvailableDevice(
                o.full_name,
                NAME,
                o.full_name,
                o.runtime,
                o.hardware,
                f"{o.machine}:",
                o.memory,
                machine=o.machine,
            )
            for machine in directory.machines()
            if not machine.problem
            for o in machine.offers
        ]

    def resolve(self, name: str, provider: str) -> Target | None:
        """Any ``machine/device``; it is planned while its machine is not connected or does not have it."""
        machine, slash, device = name.partition("/")
        if not slash or not machine or not device or provider or "/" in device:
            return None
        offer = directory.offer(name) if configured() is not None else None
        if offer is None:
            here = resolve(device)
            reason = directory.why_not(name) if configured() is not None else ""
            return Target(
                "",
                "",
                False,
                here.device if here is not None else device,
                machine=machine,
                reason=reason,
            )
        return Target(
            NAME,
            offer.full_name,
            True,
            offer.device,
            f"{offer.machine}: {offer.runtime} [{offer.hardware}]",
            offer.slowdown,
            machine=offer.machine,
            memory=offer.memory,
        )

    def capability(self, graph: Graph, device: Device) -> Capability:
        """Asks the worker, which asks the runtime there; weights do not travel for it."""
        machine, here = directory.machine(device.machine), calls()
        parcel = pack(read_model(graph.path), graph.folder)
        reply = here.wait(
            call(
                here.pool,
                device.name,
                machine.address,
                "hetero_capability",
                skeleton=parcel.skeleton,
                define=dict(graph.define),
                device=device_entry(device),
            )
        )
        if reply["keys"] != len(graph) or len(reply["reasons"]) != len(graph):
            raise ExecutionError(
                f"{device.name}: its worker reads {reply['keys']} ops in this model, not {len(graph)}"
            )
        return Capability(
            np.array([not reason for reason in reply["reasons"]], bool), tuple(reply["reasons"])
        )

    def compile(self, submodel: SubModel, device: Device, options: CompileOptions) -> Executable:
        """Not here: plans over machines are compiled by ``execution.machines``."""
        raise ExecutionError(
            f"{submodel.label} on {device.name}: runs on another machine only as part of a plan"
        )

    def memory_space(self, device: Device) -> MemorySpace:
        """Memory of the machine."""
        return MemorySpace(NAME, device.machine)

    def precision(self, device: Device) -> str:
        """As the worker says."""
        offer = directory.offer(device.provider)
        return offer.precision if offer is not None else ""


def device_entry(device: Device) -> dict[str, object]:
    """The table entry by which the worker of a device finds it."""
    return {"name": device.provider.partition("/")[2], "properties": dict(device.properties)}
