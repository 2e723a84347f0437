"""Cost model of a placement: time of each op on each device, transfers, and launch overhead.

Without a profile, costs are estimated from the work of an op and the peak performance of a device.
Transfers go through host memory: a tensor that leaves its device pays that device's link once, and the
link of every other device that reads it once.
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
    """Assumed performance of a kind of device, where the device table does not state it."""

    compute: float
    """flop/s"""
    memory: float
    """bytes/s"""
    bandwidth: float
    """bytes/s between device and host memory; infinite for the host"""
    latency: float
    """seconds per transfer"""
    per_op: float
    """least seconds per op"""
    launch: float
    """seconds of launch overhead per subgraph"""


# Round figures of common hardware; they are shown as estimates, and the device table overrides them.
_HOST = Peaks(2e11, 2e10, float("inf"), 0.0, 2e-6, 1e-5)
_ASSUMED = {
    "CPU": _HOST,
    "GPU": Peaks(1e13, 4e11, 1.2e10, 1e-5, 4e-6, 3e-5),
    "NPU": Peaks(5e12, 1e11, 8e9, 2e-5, 4e-6, 5e-5),
}
_ACCELERATOR = Peaks(2e12, 1e11, 8e9, 2e-5, 4e-6, 5e-5)


@dataclass(frozen=True, eq=False)
class Costs:
    """Costs in seconds."""

    op: Floats
    """[op, device]"""
    leave: Floats
    """[tensor, device] transfer from the device to host memory"""
    enter: Floats
    """[tensor, device] transfer from host memory to the device"""
    launch: Floats
    """[device] launch overhead per subgraph"""
    estimated: bool
    """Whether any cost comes from assumed or stated peaks instead of a profile."""


def estimate(graph: Graph, devices: Sequence[Device]) -> Costs:
    """Costs from shapes and peaks: the slower of computing and moving data (roofline; Williams et al., 2009)."""
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
            link[:, d] = 2e-6  # same memory, another runtime: only the conversion of the value
        launch[d] = assumed.launch
    op[graph.op_is_constant] = 0.0
    return Costs(op, link, link, launch, True)


@dataclass(frozen=True)
class Price:
    """Cost of one run of a placement, in seconds."""

    compute: float
    transfers: float
    launches: float

    @property
    def total(self) -> float:
        """Latency when nothing overlaps."""
        return self.compute + self.transfers + self.launches


def price(graph: Graph, costs: Costs, device: Ints, placed: Ints) -> Price:
    """Latency of a placement: every op, each transfer once per tensor and destination device, every launch.

    ``device`` is [op] index of the device; ``placed`` are the ops that belong to a subgraph.
    """
    compute = float(costs.op[placed, device[placed]].sum())
    subgraph_of_op = minimal(graph, device, placed)
    launches = 0.0
    if len(placed):
        device_of_subgraph = np.zeros(int(subgraph_of_op.max()) + 1, np.int64)
        device_of_subgraph[subgraph_of_op[placed]] = device[placed]
        launches = float(costs.launch[device_of_subgraph].sum())
    return Price(compute, transfer_seconds(graph, costs, device, placed), launches)


def transfer_seconds(graph: Graph, costs: Costs, device: Ints, placed: Ints) -> float:
    """Seconds of all transfers of one run."""
    is_placed = np.zeros(len(graph), bool)
    is_placed[placed] = True
    producer, consumer, tensor = graph.edges
    inside = is_placed[producer] & is_placed[consumer]
    producer, consumer, tensor = producer[inside], consumer[inside], tensor[inside]
    crosses = device[producer] != device[consumer]
    width = costs.op.shape[1]
    arrivals = np.unique(tensor[crosses] * width + device[consumer[crosses]])
    leaving, index = np.unique(tensor[crosses], return_index=True)
    source_device = device[producer[crosses][index]]
    return float(costs.enter[arrivals // width, arrivals % width].sum() + costs.leave[leaving, source_device].sum())
