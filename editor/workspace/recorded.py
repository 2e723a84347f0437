"""Placements that a runtime made, as pins; and what OpenVINO's HETERO says of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from editor.devices.device import Device
from editor.graph.graph import Graph
from editor.imports.affinity_files import of_openvino
from editor.imports.matching import Matched, match
from editor.placement.placement import Placement, Settings
from editor.runtimes.openvino.runtime import openvino_device
from editor.sandbox.worker import run


def asked_of_hetero(graph: Graph, devices: Sequence[Device], names: Mapping[str, str]) -> Matched:
    """Where ``query_model`` of OpenVINO places the ops of a model.

    Args:
        graph: the model.
        devices: the device table.
        names: OpenVINO's name of a device -> the one of the table, in the order of ``HETERO:...``.

    Raises:
        ExecutionError: OpenVINO lacks one of the devices, or cannot read the model.
    """
    shapes = tuple(
        (graph.tensor_names[t], tuple(shape))
        for t in graph.inputs.tolist()
        if (shape := graph.tensor_shapes[t]) is not None
    )
    placed = _asked(graph.path, graph.sha256, tuple(names), shapes)
    found = of_openvino(
        "query_model of OpenVINO", {op: names.get(name, name) for op, name in placed.items()}
    )
    return match(
        graph, devices, found.affinities, None, found.helpers | frozenset(graph.tensor_names)
    )


@lru_cache(maxsize=16)
def _asked(
    path: Path,
    _sha256: str,
    names: tuple[str, ...],
    shapes: tuple[tuple[str, tuple[int | str, ...]], ...],
) -> dict[str, str]:
    from editor.runtimes.openvino.request import placed_by_hetero  # which loads OpenVINO

    return run(placed_by_hetero, path, names, dict(shapes), what="asking OpenVINO about", path=path)


def pins_of_all(graph: Graph, affinities: Mapping[str, str], last: str) -> dict[str, str]:
    """Op key -> device of every op. Ops that a record lacks go with those that read them, so that they cut nothing.

    Args:
        graph: the model.
        affinities: op key -> device, of the ops in the record.
        last: the device of ops that nothing in the record is beside.
    """
    pins = dict(affinities)
    free = set(np.flatnonzero(~graph.op_is_constant).tolist())
    for order, rows in ((graph.order[::-1], graph.successors), (graph.order, graph.predecessors)):
        for op in order.tolist():
            if op in free and graph.op_keys[op] not in pins:
                beside = (pins.get(graph.op_keys[o]) for o in rows[op].tolist())
                if (name := next(filter(None, beside), None)) is not None:
                    pins[graph.op_keys[op]] = name
    for op in free:
        pins.setdefault(graph.op_keys[op], last)
    return pins


def settings_of_record(now: Placement, pins: Mapping[str, str]) -> Settings:
    """The decisions that keep every op where a runtime had it, by force where its device is known not to run it.

    Args:
        now: a placement of the model on the devices.
        pins: op key -> device of every op.
    """
    key_index, able = now.graph.key_index, now.constraints.able
    index = {device.name: i for i, device in enumerate(now.devices)}
    forced = frozenset(key for key, name in pins.items() if not able[key_index[key], index[name]])
    return Settings("priority", {}, pins, forced, "connected")


def hetero_devices(devices: Sequence[Device]) -> dict[str, str]:
    """OpenVINO's name -> name in the table, of the devices that OpenVINO has on this machine; of two alike the first."""
    names: dict[str, str] = {}
    for device in devices:
        if device.present and not device.machine and (own := openvino_device(device)):
            names.setdefault(own, device.name)
    return names


def settings_of_hetero(now: Placement) -> Settings:
    """The decisions of OpenVINO's HETERO with the devices of a plan that are OpenVINO's.

    Raises:
        ExecutionError: OpenVINO cannot read the model.
    """
    names = hetero_devices(now.devices)
    found = asked_of_hetero(now.graph, now.devices, names)
    pins = pins_of_all(now.graph, found.pins, [*names.values()][-1])
    return settings_of_record(now, pins)
