"""The costs that a plan is priced by: estimated or profiled, for latency or throughput."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from editor.devices.device import Device
from editor.graph.graph import Bools, Graph, Ints, cached_per_graph
from editor.graph.states import states_of
from editor.kinds import Basis
from editor.placement.choices import COST_POLICIES
from editor.placement.costs import Costs, peaks_of, streamed_bytes
from editor.placement.device_profile import basis_of, best_source, costs_of, load_profile
from editor.placement.placement import Placement, Settings
from editor.text import by_times, human_bytes, human_seconds, joined, off_by, rough_seconds


def aims_at_throughput(settings: Settings) -> bool:
    """Whether a policy decides by the busiest device, and not by the time of one run."""
    return settings.policy == "pipeline" or (
        settings.policy == "optimal" and settings.policy_options.get("objective") == "throughput"
    )


def predicted_rate(placement: Placement, costs: Costs, in_flight: int) -> float:
    """Requests per second with ``in_flight`` of them at the same time; 0 for a plan that takes no time.

    The busiest processor is never idle, or each request takes as long as alone, whichever is slower (Little, 1961).
    """
    between = max(placement.busiest_seconds(costs), placement.price(costs).total / in_flight)
    return 1 / between if between else 0.0


def aimed_rate(placement: Placement, costs: Costs) -> float | None:
    """Most requests per second by the costs, where the policy aims at throughput."""
    aimed = aims_at_throughput(placement.settings)
    busiest = placement.busiest_seconds(costs) if aimed else 0.0
    return 1 / busiest if busiest else None


OF_BUSY_PROFILE = "profile of"
"""Begins what `left_out` says of noisy profiles"""


def left_out(placement: Placement, costs: Costs, values: bool = False) -> list[str]:
    """What a figure of the plan does not have in it or has assumed, where it uses accelerators, and what disturbed it.

    Args:
        placement: the plan.
        costs: of all devices.
        values: says the figures that were assumed, too.
    """
    used = sorted(placement.used_numbers)
    said = [
        f"memory of {name} not known: {human_bytes(size)} needed"
        for name, size in unknown_memory(placement).items()
    ]
    said += streams(placement, costs)
    if not ends_counted(placement, costs):
        said.append(f"host input and output not counted{_ends(placement) if values else ''}")
    said += unfused(placement, costs) if values else []
    said += [
        f"{what} of {' and '.join(whose)} assumed{_values(placement, whose, costs) if values else ''}"
        for what, whose in assumed_figures(placement, costs).items()
    ]
    said += assumed_links(placement, costs, values)
    said += assumed_starts(placement, costs) if values else []
    said += stand_ins(placement, costs)
    if noisy := [placement.devices[d].name for d in used if costs.noisy and costs.noisy[d]]:
        said.append(f"{OF_BUSY_PROFILE} {' and '.join(noisy)} measured on a busy machine")
    return said


def unknown_memory(placement: Placement) -> dict[str, int]:
    """Bytes that a plan needs on devices of a preset whose memory neither it nor the device table states, by their names."""
    used = [placement.devices[d] for d in sorted(placement.used_numbers)]
    lacking = [d.name for d in used if d.published.preset and d.memory is None]
    return {name: placement.run_memory.peaks[name] for name in lacking}


def ends_counted(placement: Placement, costs: Costs) -> bool:
    """Whether no input or output of the model crosses a link of a device that the plan uses without being counted."""
    linked = [
        one
        for one in (placement.devices[d] for d in placement.used_numbers)
        if np.isfinite(peaks_of(one).bandwidth)
    ]
    return costs.wires is not None or all(one.link and one.link.ends for one in linked)


def _ends(placement: Placement) -> str:
    """What the inputs and outputs of the model take over the links that do not count them: " (602.1 kB, about 130 µs)".

    States are none of these: they stay where they are between steps.
    """
    graph, size, seconds = placement.graph, 0, 0.0
    states = {
        graph.tensor_index[name]
        for state in states_of(graph)
        for name in (state.input, state.output)
        if name in graph.tensor_index
    }
    for d in placement.used_numbers:
        device, peaks = placement.devices[d], peaks_of(placement.devices[d])
        if not np.isfinite(peaks.bandwidth) or (device.link and device.link.ends):
            continue
        crossing = [
            t
            for t in set(graph.inputs.tolist()) - states
            if (placement.assignment.device[graph.readers[t]] == d).any()
        ]
        crossing += [
            t
            for t in set(graph.outputs.tolist()) - states
            if (maker := int(graph.tensor_producer[t])) >= 0
            and placement.assignment.device[maker] == d
        ]
        moved = int(np.maximum(graph.tensor_bytes[crossing], 0).sum()) if crossing else 0
        size += moved
        seconds += len(crossing) * peaks.latency + moved / peaks.bandwidth
    return f" ({human_bytes(size)}, {rough_seconds(seconds)})" if size else ""


_FUSED = frozenset(
    (
        "Add",
        "BatchNormalization",
        "Clip",
        "Gelu",
        "HardSigmoid",
        "HardSwish",
        "LeakyRelu",
        "Mul",
        "PRelu",
        "Relu",
        "Sigmoid",
    )
)
"""Ops that runtimes of accelerators run within the op before them, where they can"""
_MUCH = 0.05
"""Share of a run from which it is told"""


@cached_per_graph
def _is_fused(graph: Graph) -> Bools:
    return np.array([op_type in _FUSED for op_type in graph.op_types], bool)


def _after_an_op(graph: Graph, device: Ints) -> Bools:
    """[op] whether it reads what another op of its device makes."""
    read, reader = graph.op_reads.values, graph.op_reads.row_of_value
    maker = np.where(read >= 0, graph.tensor_producer[read], -1)
    here = (maker >= 0) & (device[maker] == device[reader])
    return np.bincount(reader[here], minlength=len(graph)) > 0


def unfused(placement: Placement, costs: Costs) -> Iterator[str]:
    """Yields, of accelerators whose ops are estimated one by one, what these may take less where they are fused."""
    graph, device = placement.graph, placement.assignment.device
    made_here, whole = _after_an_op(graph, device), placement.price(costs).total
    for d in sorted(placement.used_numbers):
        is_profiled = bool(costs.profiled) and costs.profiled[d]
        if is_profiled or not np.isfinite(peaks_of(placement.devices[d]).bandwidth):
            continue
        placed = placement.placed_ops
        fused = placed[
            (device[placed] == d) & _is_fused(graph)[placed] & made_here[placed]
        ].tolist()
        seconds = float(costs.op[fused, d].sum()) if fused else 0.0
        if seconds > _MUCH * whole:
            types = Counter(graph.op_types[op] for op in fused).most_common(2)
            names = joined([name for name, _ in types])
            less = f"up to {rough_seconds(seconds)} less where it runs {names} within the ops before them"
            yield f"no fusion on {placement.devices[d].name}: {less}"


def streams(placement: Placement, costs: Costs) -> Iterator[str]:
    """Yields the weights that a plan reads over links in a run, beyond those that stay on the chip of a device without DRAM."""
    for number in sorted(placement.used_numbers):
        one = placement.devices[number]
        if one.on_chip_memory is None or (costs.profiled and costs.profiled[number]):
            continue
        here = placement.placed_ops[placement.device_of_op[placement.placed_ops] == number]
        if size := round(streamed_bytes(placement.graph, one)[here].sum()):
            room = human_bytes(one.on_chip_memory)
            room += " (assumed)" if one.assumes_on_chip_memory else ""
            yield f"{human_bytes(size)} of weights of {one.name} over its link in each run, beyond {room} on its chip"


def stand_ins(placement: Placement, costs: Costs) -> list[str]:
    """The devices that a plan uses whose profile is of a CPU: "NPU measured on CPUExecutionProvider"."""
    return [
        f"{placement.devices[d].name} measured on {costs.measured_on[d]}"
        for d in sorted(placement.used_numbers)
        if costs.measured_on and costs.measured_on[d]
    ]


def assumed_speeds(placement: Placement, costs: Costs) -> list[str]:
    """The devices that a plan uses whose speed neither a profile nor the device table states."""
    used = sorted(placement.used_numbers)
    return [placement.devices[d].name for d in used if is_assumed(placement.devices, costs, d)]


def assumed_figures(placement: Placement, costs: Costs) -> dict[str, list[str]]:
    """What is assumed of the devices that a plan uses: {"speed": [names of devices]}."""
    whose = dict[str, list[str]]()
    for name in assumed_speeds(placement, costs):
        one = placement.devices[placement.device_number(name)]
        what = "memory bandwidth" if one.peak_compute else "speed"
        what = "peak compute" if one.peak_dram_bw else what
        linked = np.isfinite(peaks_of(one).bandwidth)
        stated = one.link is not None and one.link.bandwidth is not None
        whose.setdefault(f"{what} and link" if linked and not stated else what, []).append(name)
    return whose


def assumed_links(placement: Placement, costs: Costs, values: bool = True) -> list[str]:
    """The links of used devices whose own speed is stated that are assumed, with their figures where ``values``."""
    others = assumed_speeds(placement, costs)
    figures = {
        one.name: peaks_in_words(placement, one, costs)
        for one in placement.used_devices
        if one.name not in others
    }
    said = {name: figure.removeprefix("link ") for name, figure in figures.items() if figure}
    return [
        f"link of {name} assumed{f': {figure}' if values else ''}" for name, figure in said.items()
    ]


def assumed_starts(placement: Placement, costs: Costs) -> list[str]:
    """What the start of a subgraph is assumed to take, in one sentence, where a plan has several; a profile measures it."""
    if len(placement.subgraphs) < 2:
        return []
    used = [
        placement.devices[d]
        for d in sorted(placement.used_numbers)
        if (not costs.assumed or costs.assumed[d]) and placement.devices[d].start is None
    ]
    figures = [f"{human_seconds(peaks_of(one).launch)} on {one.name}" for one in used]
    return (
        [f"start of a subgraph assumed: {', '.join(figures)}; a profile measures it"]
        if figures
        else []
    )


def _values(placement: Placement, names: Sequence[str], costs: Costs) -> str:
    """The figures that were assumed of some devices, once where they are the same: ": 200 GFLOP/s, memory 20 GB/s"."""
    by_number = [placement.devices[placement.device_number(name)] for name in names]
    figures = [peaks_in_words(placement, device, costs) for device in by_number]
    if len(set(figures)) == 1:
        return f": {figures[0]}"
    return f": {'; '.join(f'{n} {f}' for n, f in zip(names, figures, strict=True))}"


def peaks_in_words(
    placement: Placement, device: Device, costs: Costs, is_stated: bool = False
) -> str:
    """The figures that costs rest on and that no profile has: those that the device table states, or by default the others."""
    peaks, link, number = peaks_of(device), device.link, placement.device_number(device.name)
    parts = list[tuple[object, str]]()
    if not costs.assumed or costs.assumed[number]:
        parts += [
            (device.peak_compute, _flops(peaks.compute)),
            (device.peak_dram_bw, f"memory {peaks.memory / 1e9:.3g} GB/s"),
        ]
    if np.isfinite(peaks.bandwidth) and not _has_measured_links(placement, device, costs):
        parts += [
            (link and link.bandwidth, f"link {peaks.bandwidth / 1e9:.3g} GB/s"),
            (link and link.latency, f"{human_seconds(peaks.latency)} per transfer"),
        ]
    return ", ".join(words for given, words in parts if bool(given) is is_stated)


def _has_measured_links(placement: Placement, device: Device, costs: Costs) -> bool:
    profile = load_profile(placement.graph, device) if costs.profiled else None
    return profile is not None and profile.has_links


def _flops(rate: float) -> str:
    return f"{rate / 1e12:.3g} TFLOP/s" if rate >= 1e12 else f"{rate / 1e9:.3g} GFLOP/s"


def is_assumed(devices: Sequence[Device], costs: Costs, number: int) -> bool:
    """Whether neither a profile nor the device table states the speed of a device."""
    one = devices[number]
    return bool(
        not (costs.profiled and costs.profiled[number])
        and (one.peak_compute is None or one.peak_dram_bw is None)
    )


def chosen_costs(settings: Settings) -> str:
    """The costs that were chosen, or that a policy decides by; "" where neither is."""
    return str(
        settings.policy_options.get("costs", "estimate" if settings.policy in COST_POLICIES else "")
    )


def source_of_figures(graph: Graph, devices: Sequence[Device], settings: Settings) -> str:
    """``measured`` (by profiles) or ``estimate``, on the page, in reports and on the command line alike.

    Only what ran is compared with the best costs that are known (`editor.execution.measure.prediction`).
    """
    return "estimate" if chosen_costs(settings) == "estimate" else best_source(graph, devices)


def costs_of_plan(placement: Placement) -> tuple[Costs, Basis]:
    """Costs of a plan's figures; and what to call these, with which devices that it does not use have nothing to do."""
    source = source_of_figures(placement.graph, placement.devices, placement.settings)
    costs = costs_of(placement.graph, placement.devices, source)
    return costs, basis_of(costs, source, placement.used_numbers)


def estimate_off_profile(placement: Placement, costs: Costs) -> str:
    """How far the estimate of a profiled device is from its profile, where others have nothing but estimates; "" where it is
    near: "CPU is 1.6x slower by its profile than by its estimate"."""
    if not any(costs.profiled) or all(costs.profiled):
        return ""
    estimated = costs_of(placement.graph, placement.devices, "estimate")
    worst, furthest = "", 1.0
    for d in np.flatnonzero(costs.profiled).tolist():
        ops = placement.placed_ops[placement.constraints.able[placement.placed_ops, d]]
        took, thought = (float(each.op[ops, d].sum()) for each in (costs, estimated))
        if took and thought and abs(math.log(took / thought)) > abs(math.log(furthest)):
            worst, furthest = placement.devices[d].name, took / thought
    if not off_by(furthest):
        return ""
    how = "slower" if furthest > 1 else "faster"
    return f"{worst} is {by_times(furthest)} {how} by its profile than by its estimate"


def as_far_off(off: str, names: Sequence[str]) -> str:
    """The same with the devices of a plan that have nothing but estimates."""
    what = f"estimate of {names[0]}" if len(names) == 1 else f"estimates of {joined(names)}"
    return f"{off}: the {what} may be as far off."


def unprofiled(placement: Placement, costs: Costs) -> list[str]:
    """Devices of the plan that have nothing but an estimate, where others of the table have a profile."""
    used = placement.used_numbers if any(costs.profiled) else []
    return [placement.devices[d].name for d in used if not costs.profiled[d]]
