"""Prices placements: what ops, transfers and launches take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from editor.devices.device import Device, Link
from editor.devices.published import Published, assumed_bytes, effective_types
from editor.graph.flops import Floats, op_flops, op_traffic
from editor.graph.graph import Graph, Ints, bits_of, cached_per_graph, mask_of
from editor.placement.subgraphs.minimal import minimal
from editor.placement.wires import WireCosts, wire_costs

_ROUNDING = 1e-9
"""Share of a run: what is less is not a time but the rounding of sums."""


@dataclass(frozen=True)
class ColdStart:
    """Of a device."""

    most: float = 0.0
    """Seconds that a subgraph takes longer at most"""
    constant: float = 1e-3
    """Seconds of ops after which all but 1/e of that is reached"""

    def seconds(self, ops: Floats, gap: Floats) -> Floats:
        """[subgraph] seconds that it takes longer; ``ops`` and ``gap`` are [subgraph] seconds (see `gaps`)."""
        lost: Floats = self.most * -np.expm1(-np.minimum(ops, gap) / self.constant)
        return lost


def gaps(device: Ints, seconds: Floats) -> Floats:
    """[subgraph] seconds that ops of others ran before it, as far as its device's own did not make up for them since.

    A second of its own ops makes up for one of others: a subgraph of one op does not warm a device for the long one after it.
    Runs follow each other.

    Args:
        device: [subgraph] device, in the order in which they run.
        seconds: [subgraph] what its ops take.
    """
    end = np.cumsum(seconds)
    found = np.zeros(len(device))
    for d in np.unique(device):
        mine = np.flatnonzero(device == d)
        before = np.roll(end[mine], 1)
        before[0] -= end[-1]  # in the run before
        others = np.maximum(end[mine] - seconds[mine] - before, 0.0)
        walk = np.concatenate([[0.0], np.cumsum(np.tile(others - seconds[mine], 2))])
        left = walk - np.minimum.accumulate(
            walk
        )  # of earlier gaps, as the waits of a queue (Lindley)
        found[mine] = others + left[len(mine) : 2 * len(mine)]
    found[found < _ROUNDING * end[-1:].sum()] = 0.0  # of the sums; a fit would divide by it
    return found


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
    """Whether the time of any op comes from assumed or stated peaks instead of a profile."""
    whole: Floats | None = None
    """[device] seconds of the unsplit model, launch included; NaN where it was not measured. In a split, ops take longer."""
    origins: tuple[str, ...] = ()
    """[device] where a profile comes from that was not measured here, and what it lacks: "NPU: trtexec on orin, 2026-11-20";
    "" for the others, and empty where none has a profile"""
    wires: WireCosts | None = None
    """Between machines, beyond what leaving and entering a device takes; None where all devices are on one."""
    profiled: tuple[bool, ...] = ()
    """[device] whether it has a profile; empty where none has"""
    assumed: tuple[bool, ...] = ()
    """[device] whether the time of any of its ops is estimated; empty where all are"""
    noisy: tuple[bool, ...] = ()
    """[device] whether its profile was disturbed while it was measured; empty where none has a profile"""
    measured_on: tuple[str, ...] = ()
    """[device] what its profile was measured on in its place, "" for itself; empty where none has a profile"""
    cold: tuple[ColdStart, ...] = ()
    """[device] what a subgraph takes longer after those of others; empty where nothing is known of it."""
    ends: Floats | None = None
    """[op, device] seconds in which inputs of the model that it reads first arrive from host memory, and its outputs return to
    it; None where no device counts these"""
    convert: Floats | None = None
    """[device] seconds per byte that a subgraph itself takes for what enters or leaves it; part of `enter` and `leave`"""

    @property
    def least_launch(self) -> float:
        """seconds of launch overhead that a run has at least: something is launched once"""
        return float(self.launch.min()) if len(self.launch) else 0.0

    @property
    def most_per_subgraph(self) -> float:
        """seconds that one more subgraph may add, ops and transfers aside"""
        cold = [each.most for each in self.cold] or [0.0]
        return float((self.launch + cold).max(initial=0.0))

    def cold_seconds(self, device: Ints, ops: Floats) -> Floats:
        """[subgraph] seconds that it takes longer because others ran before it.

        Args:
            device: [subgraph] device, in the order in which they run.
            ops: [subgraph] seconds of its ops.
        """
        result, between = np.zeros(len(device)), gaps(device, ops)
        for d, cold in enumerate(self.cold):
            mine = device == d
            result[mine] = cold.seconds(ops[mine], between[mine])
        return result


def processors(devices: Sequence[Device]) -> Ints:
    """[device] number of the processor that it runs on: all runtimes of a machine's CPU share one, and take turns on it."""
    hosts = {d.machine for d in devices if _is_host(d)}
    known = {machine: number for number, machine in enumerate(sorted(hosts))}
    return np.array(
        [known[d.machine] if _is_host(d) else len(known) + i for i, d in enumerate(devices)],
        np.int64,
    )


def _is_host(device: Device) -> bool:
    link = device.link or Link()
    return link.bandwidth is None and link.latency is None and assumed_peaks(device) is _HOST


def peaks_of(device: Device) -> Peaks:
    """The costs by estimates: from the figures of the device table, and assumed ones where it has none."""
    assumed, link = assumed_peaks(device), device.link or Link()
    return replace(
        assumed,
        compute=device.peak_compute or assumed.compute,
        memory=device.peak_dram_bw or assumed.memory,
        bandwidth=assumed.bandwidth if link.bandwidth is None else link.bandwidth,
        latency=assumed.latency if link.latency is None else link.latency,
        launch=assumed.launch if device.start is None else device.start,
    )


def assumed_peaks(device: Device) -> Peaks:
    """The assumed figures where a device table has none for a device."""
    return _ASSUMED.get(device.device, _ACCELERATOR)


def estimate(graph: Graph, devices: Sequence[Device]) -> Costs:
    """Costs from shapes and peaks: the slower of computing and moving data (roofline; Williams et al., 2009).

    A device that assumes an element type reads, writes and transfers float tensors in it. Weights that do not fit on the
    chip of a device without DRAM come over its link meanwhile.
    """
    flops = op_flops(graph)
    op = np.zeros((len(graph), len(devices)))
    link = np.zeros((len(graph.tensor_names), len(devices)))
    launch = np.zeros(len(devices))
    for d, device in enumerate(devices):
        peaks = peaks_of(device)
        tensor_bytes = assumed_bytes(graph, device.published.assumes)
        moved = op_traffic(graph, tensor_bytes)
        sizes = np.maximum(tensor_bytes, 0).astype(np.float64)
        seconds = np.maximum(flops / peaks.compute, moved / peaks.memory)
        seconds = np.maximum(seconds, streamed_bytes(graph, device) / peaks.bandwidth)
        op[:, d] = (seconds + peaks.per_op) * device.slowdown
        if peaks.bandwidth != float("inf"):
            link[:, d] = peaks.latency + sizes / peaks.bandwidth
        elif device.runtime:
            link[:, d] = 2e-6  # same memory, another runtime: only the conversion of the value
        launch[d] = peaks.launch
    op[graph.op_is_constant] = 0.0
    return with_ends(graph, devices, Costs(op, link, link, launch, True))


def streamed_bytes(graph: Graph, device: Device) -> Floats:
    """[op] bytes of weights that a device without DRAM reads over its link in each run.

    Those of the first ops that it takes stay on the chip, whichever of them a plan gives to it.
    """
    if device.on_chip_memory is None:
        return np.zeros(len(graph))
    return _streamed(graph, device.published, device.on_chip_memory)


@cached_per_graph
def _streamed(graph: Graph, published: Published, room: int) -> Floats:
    sizes = np.zeros(len(graph.tensor_names))
    types = effective_types(graph, published.assumes)
    for t in np.flatnonzero(graph.tensor_is_constant & (graph.tensor_bytes > 0)).tolist():
        sizes[t] = graph.tensor_bytes[t] * bits_of(types[t]) / bits_of(graph.tensor_types[t])
    refused = published.refusals(graph)
    streamed = np.zeros(len(graph))
    left = float(room)
    for op in graph.order.tolist():
        if graph.op_is_constant[op] or refused[op]:
            continue
        weights = graph.op_reads[op]
        needed = float(sizes[weights].sum())
        sizes[weights] = 0.0  # of several readers the first has it
        streamed[op] = max(needed - left, 0.0)
        left = max(left - needed, 0.0)
    return streamed


def with_ends(graph: Graph, devices: Sequence[Device], costs: Costs) -> Costs:
    """Costs with the inputs and outputs of the model on the links of the devices that count these.

    A measured device has them in its times already.
    """
    counted = [
        d
        for d, device in enumerate(devices)
        if device.link is not None
        and device.link.ends
        and not (costs.profiled and costs.profiled[d])
    ]
    if not counted:
        return costs
    ends = np.zeros_like(costs.op)
    for tensor in graph.inputs.tolist():
        readers = graph.readers[tensor]
        readers = readers[~graph.op_is_constant[readers]]
        if len(readers):
            first = readers[np.argmin(graph.rank[readers])]
            ends[first, counted] += costs.enter[tensor, counted]
    for tensor in dict.fromkeys(graph.outputs.tolist()):
        if (producer := int(graph.tensor_producer[tensor])) >= 0:
            ends[producer, counted] += costs.leave[tensor, counted]
    return replace(costs, ends=ends)


def with_wires(graph: Graph, devices: Sequence[Device], costs: Costs) -> Costs:
    """Costs with those of the wires between the machines of the devices."""
    wires = wire_costs(graph, devices)
    if wires is None:
        return costs
    whole = None if costs.whole is None else costs.whole + wires.ends_on().sum(axis=0)
    return replace(costs, wires=wires, whole=whole, estimated=costs.estimated or wires.estimated)


def without_wires(costs: Costs) -> Costs:
    """Costs without what travels between machines, which is the work of no device."""
    if costs.wires is None:
        return costs
    whole = None if costs.whole is None else costs.whole - costs.wires.ends_on().sum(axis=0)
    return replace(costs, wires=None, whole=whole)


def stated_watts(devices: Sequence[Device]) -> Floats:
    """[device] watts while it works; NaN where the table states none."""
    return np.array([np.nan if d.power is None else d.power for d in devices], np.float64)


def times_watts(costs: Costs, watts: Floats) -> Costs:
    """Costs in joules: the seconds of each device times its watts. Of cold starts it has what they are at most.

    Args:
        costs: times.
        watts: [device].
    """
    here = without_wires(costs)
    return replace(
        here,
        op=here.op * watts,
        leave=here.leave * watts,
        enter=here.enter * watts,
        ends=None if here.ends is None else here.ends * watts,
        launch=here.launch * watts,
        whole=None if here.whole is None else here.whole * watts,
        cold=tuple(
            replace(each, most=each.most * w)
            for each, w in zip(here.cold, watts.tolist(), strict=False)
        ),
    )


@dataclass(frozen=True)
class Price:
    """Cost of one run of a placement, in seconds."""

    compute: float
    transfers: float
    launches: float
    """Overhead of subgraphs: launches, and ops that are slower after those of other devices"""

    @property
    def total(self) -> float:
        """Latency when nothing overlaps."""
        return self.compute + self.transfers + self.launches


def price(
    graph: Graph, costs: Costs, device: Ints, placed: Ints, subgraph_of_op: Ints | None = None
) -> Price:
    """Latency of a placement: every op, each transfer once per tensor and destination device, every launch.

    Args:
        graph: the model.
        costs: times.
        device: [op] index of the device.
        placed: the ops that belong to a subgraph.
        subgraph_of_op: [op] number of the subgraph in topological order; by default as few as the rule ``minimal`` forms.
    """
    if subgraph_of_op is None:
        subgraph_of_op = minimal(graph, device, placed)
    if costs.whole is not None and len(placed) and not subgraph_of_op[placed].any():
        unsplit = float(costs.whole[device[placed[0]]])
        if not np.isnan(unsplit):
            return Price(unsplit, 0.0, 0.0)
    compute = float(costs.op[placed, device[placed]].sum())
    launches = float(_overheads(costs, device, subgraph_of_op, placed)[1].sum())
    return Price(compute, transfer_seconds(graph, costs, device, placed), launches)


def subgraph_overheads(
    graph: Graph, costs: Costs, device: Ints, placed: Ints, subgraph_of_op: Ints | None = None
) -> tuple[Ints, Floats]:
    """[subgraph] device, and seconds of launches and cold starts; arguments as for ``price``."""
    return _overheads(
        costs,
        device,
        minimal(graph, device, placed) if subgraph_of_op is None else subgraph_of_op,
        placed,
    )


def _overheads(
    costs: Costs, device: Ints, subgraph_of_op: Ints, placed: Ints
) -> tuple[Ints, Floats]:
    of_subgraph = np.zeros(int(subgraph_of_op.max(initial=-1)) + 1, np.int64)
    of_subgraph[subgraph_of_op[placed]] = device[placed]
    seconds: Floats = costs.launch[of_subgraph]
    if costs.cold:
        seconds = seconds + costs.cold_seconds(
            of_subgraph, seconds_of_ops(costs, device, subgraph_of_op, placed)
        )
    return of_subgraph, seconds


def seconds_of_ops(costs: Costs, device: Ints, subgraph_of_op: Ints, placed: Ints) -> Floats:
    """[subgraph] seconds of its ops, without launches, cold starts and what it converts."""
    seconds: Floats = np.zeros(int(subgraph_of_op.max(initial=-1)) + 1)
    np.add.at(seconds, subgraph_of_op[placed], costs.op[placed, device[placed]])
    return seconds


def boundary_seconds(
    graph: Graph, costs: Costs, tensor: str, source: int, targets: Sequence[int]
) -> float:
    """Seconds of one boundary tensor from a device to other devices, wires included.

    Args:
        graph: the model.
        costs: of the device table.
        tensor: its name.
        source: number of the device that produces it.
        targets: numbers of the other devices that read it.
    """
    number = graph.tensor_index[tensor]
    seconds = float(costs.leave[number, source] + costs.enter[number, list(targets)].sum())
    return seconds + (costs.wires.way(number, source, targets) if costs.wires is not None else 0.0)


def transfer_seconds(graph: Graph, costs: Costs, device: Ints, placed: Ints) -> float:
    """Seconds of all transfers of one run, with graph inputs and outputs where machines differ or devices count them."""
    is_placed = mask_of(len(graph), placed)
    producer, consumer, tensor = graph.edges
    inside = is_placed[producer] & is_placed[consumer]
    producer, consumer, tensor = producer[inside], consumer[inside], tensor[inside]
    crosses = device[producer] != device[consumer]
    width = costs.op.shape[1]
    arrivals = np.unique(tensor[crosses] * width + device[consumer[crosses]])
    leaving, index = np.unique(tensor[crosses], return_index=True)
    source_device = device[producer[crosses][index]]
    between = 0.0 if costs.ends is None else float(costs.ends[placed, device[placed]].sum())
    if costs.wires is not None:
        between += costs.wires.seconds(device, producer, consumer, tensor) + float(
            costs.wires.ends_on()[placed, device[placed]].sum()
        )
    return (
        float(
            costs.enter[arrivals // width, arrivals % width].sum()
            + costs.leave[leaving, source_device].sum()
        )
        + between
    )
