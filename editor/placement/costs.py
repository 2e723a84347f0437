"""What a placement costs: time of each op on each device, transfers, and launches.

Out of the box these are estimates from the work of the op and the peaks of the device; a profile can
take their place. Transfers go through host memory: a tensor that leaves its device pays that device's
link once, and the link of every other device that reads it once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from editor.devices.device import Device
from editor.graph.flops import Floats, op_bytes, op_flops
from editor.graph.graph import Graph, Ints
from editor.placement.subgraphs.minimal import minimal


@dataclass(frozen=True)
class Peaks:
    """Assumed abilities of a kind of device, where the table does not state them."""

    compute: float
    """flop/s"""
    memory: float
    """bytes/s"""
    bandwidth: float
    """bytes/s between device and host memory; infinite for the host itself"""
    latency: float
    """seconds per transfer"""
    per_op: float
    """seconds that any op takes"""
    launch: float
    """seconds to start a subgraph"""


# Round figures of ordinary hardware. They are assumptions, shown as estimates, and the table overrides them.
_HOST = Peaks(2e11, 2e10, float("inf"), 0.0, 2e-6, 1e-5)
_ASSUMED = {
    "CPU": _HOST,
    "GPU": Peaks(1e13, 4e11, 1.2e10, 1e-5, 4e-6, 3e-5),
    "NPU": Peaks(5e12, 1e11, 8e9, 2e-5, 4e-6, 5e-5),
}
_ACCELERATOR = Peaks(2e12, 1e11, 8e9, 2e-5, 4e-6, 5e-5)


@dataclass(frozen=True, eq=False)
class Costs:
    """All in seconds."""

    op: Floats
    """[op, device]"""
    leave: Floats
    """[tensor, device] to bring a tensor from the device to host memory"""
    enter: Floats
    """[tensor, device] to bring it from host memory to the device"""
    launch: Floats
    """[device] to start a subgraph"""
    estimated: bool
    """From assumed or stated peaks, not from a profile."""


def estimate(graph: Graph, devices: Sequence[Device]) -> Costs:
    """Costs from shapes and peaks (roofline: the slower of computing and moving data; Williams et al., 2009)."""
    flops, moved = op_flops(graph), op_bytes(graph)
    sizes = np.maximum(graph.tensor_bytes, 0).astype(np.float64)
    op = np.zeros((len(graph), len(devices)))
    link = np.zeros((len(graph.tensor_names), len(devices)))
    launch = np.zeros(len(devices))
    for d, device in enumerate(devices):
        assumed = _ASSUMED.get(device.device, _ACCELERATOR)
        compute = device.peak_compute or assumed.compute
        memory = device.peak_dram_bw or assumed.memory
        op[:, d] = (np.maximum(flops / compute, moved / memory) + assumed.per_op) * device.slowdown
        if device.link is not None:
            link[:, d] = device.link.latency + sizes / device.link.bandwidth
        elif assumed.bandwidth != float("inf"):
            link[:, d] = assumed.latency + sizes / assumed.bandwidth
        elif device.runtime:
            link[:, d] = 2e-6  # same memory, another runtime: the hand-over itself
        launch[d] = assumed.launch
    op[graph.op_is_constant] = 0.0
    return Costs(op, link, link, launch, True)


@dataclass(frozen=True)
class Price:
    """What one placement costs, in seconds."""

    compute: float
    transfers: float
    launches: float

    @property
    def total(self) -> float:
        """One run, one thing after the other."""
        return self.compute + self.transfers + self.launches


def price(graph: Graph, costs: Costs, device: Ints, placed: Ints) -> Price:
    """Latency of a placement: every op, every transfer once per tensor and destination, every launch."""
    compute = float(costs.op[placed, device[placed]].sum())
    part = minimal(graph, device, placed)
    launches = 0.0
    if len(placed):
        first = np.zeros(int(part.max()) + 1, np.int64)
        first[part[placed]] = device[placed]
        launches = float(costs.launch[first].sum())
    return Price(compute, transfer_seconds(graph, costs, device, placed), launches)


def transfer_seconds(graph: Graph, costs: Costs, device: Ints, placed: Ints) -> float:
    """Time of all transfers of one run."""
    here = np.zeros(len(graph), bool)
    here[placed] = True
    producer, consumer, tensor = graph.edges
    real = here[producer] & here[consumer]
    producer, consumer, tensor = producer[real], consumer[real], tensor[real]
    crosses = device[producer] != device[consumer]
    width = costs.op.shape[1]
    arrivals = np.unique(tensor[crosses] * width + device[consumer[crosses]])
    leaving, place = np.unique(tensor[crosses], return_index=True)
    home = device[producer[crosses][place]]
    return float(costs.enter[arrivals // width, arrivals % width].sum() + costs.leave[leaving, home].sum())
