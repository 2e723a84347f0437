"""The runtime of devices on other machines, under the names ``machine/device``, and what is sent to them.

The worker of a machine asks its devices, compiles for them and runs them (``execution.machines``). A model goes there as a
skeleton without weights, and each weight once, by the hash of its content.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, numpy_helper

from editor.devices.device import Device
from editor.devices.discovery import AvailableDevice, Target, resolve
from editor.errors import ExecutionError
from editor.files import file_state
from editor.graph.external_data import entry_of, external_tensors, is_external, load_tensor, refer
from editor.graph.graph import Graph
from editor.graph.model_file import read_again
from editor.runtimes.base import Capability, CompileOptions, MemorySpace, SubModel
from editor.runtimes.loaded_model import RuntimeDefaults
from editor.runtimes.machines.connection import call, calls, configured, directory
from editor.runtimes.protocols import Executable

MIN_BYTES = 8192
"""Smaller tensors travel in the skeleton: runtimes are asked about ops with their small operands."""

_hashes: dict[tuple[object, ...], str] = {}
"""(file, its state, offset, length) -> SHA-256 of this part of a file of weights."""


@dataclass(frozen=True)
class Weight:
    """The data of one tensor."""

    size: int
    """bytes"""
    read: Callable[[], bytes]


@dataclass(frozen=True)
class Parcel:
    """A model to send."""

    skeleton: bytes
    """The serialized model; the location of a weight is its SHA-256."""
    weights: Mapping[str, Weight]
    """SHA-256 -> data"""


def pack(model: ModelProto, folder: Path) -> Parcel:
    """Takes the weights out of a model.

    Args:
        model: stays as it is.
        folder: its external data is relative to this folder.
    """
    skeleton = deepcopy(model)
    weights: dict[str, Weight] = {}
    for tensor in skeleton.graph.initializer:
        external = is_external(tensor)
        if (external or tensor.ByteSize() > MIN_BYTES) and tensor.data_type != TensorProto.STRING:
            name, weight = _external(tensor, folder) if external else _inside(tensor)
            weights[name] = weight
            refer(tensor, name, 0, weight.size)
    for tensor in external_tensors(skeleton):  # in attributes and bodies
        if entry_of(tensor, "location") not in weights:
            load_tensor(tensor, folder)
    return Parcel(skeleton.SerializeToString(), weights)


def _inside(tensor: TensorProto) -> tuple[str, Weight]:
    data = tensor.raw_data or numpy_helper.from_array(numpy_helper.to_array(tensor)).raw_data
    return hashlib.sha256(data).hexdigest(), Weight(len(data), lambda: data)


def _external(tensor: TensorProto, folder: Path) -> tuple[str, Weight]:
    path, offset = folder / entry_of(tensor, "location"), int(entry_of(tensor, "offset") or 0)
    length = int(entry_of(tensor, "length") or 0) or path.stat().st_size - offset

    def read() -> bytes:
        with open(path, "rb") as file:
            file.seek(offset)
            data = file.read(length)
        if len(data) != length:
            raise ExecutionError(f"{path}: the weights of {tensor.name!r} are cut short")
        return data

    key = (path, file_state(path), offset, length)
    if key not in _hashes:
        _hashes[key] = hashlib.sha256(read()).hexdigest()
    return _hashes[key], Weight(length, read)


async def send_weights(pool: Any, machine: str, address: str, weights: Mapping[str, Weight]) -> int:
    """Sends the weights that a machine does not have yet; returns the bytes sent.

    Raises:
        ExecutionError: they do not fit the worker's cache or memory.
    """
    from distributed.protocol import to_serialize

    sizes = {name: weight.size for name, weight in weights.items()}
    missing = (await call(pool, machine, address, "hetero_missing", sizes=sizes))["missing"]
    for name in missing:
        data = np.frombuffer(weights[name].read(), np.uint8)
        await call(pool, machine, address, "hetero_weight", name=name, data=to_serialize(data))
    return sum(sizes[name] for name in missing)


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
        parcel = pack(read_again(graph), graph.folder)
        reply = here.wait(
            call(
                here.pool,
                device.name,
                machine.address,
                "hetero_capability",
                skeleton=parcel.skeleton,
                define=graph.define_opened,
                device=device_entry(device),
            )
        )
        if reply["keys"] != len(graph) or len(reply["reasons"]) != len(graph):
            raise ExecutionError(
                f"{device.name}: its worker reads {reply['keys']} ops in this model, not {len(graph)}"
            )
        return Capability.of_reasons(reply["reasons"])

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
    libraries = {"customOps": list(device.custom_ops)} if device.custom_ops else {}
    name = device.provider.partition("/")[2]
    return {"name": name, "properties": dict(device.properties), **libraries}
