"""Measures the time of each op on a real device with the profiler of its runtime.

Kernels are timed at the optimisation level of real runs: the median of each over the quietest runs. Medians do not add
up, and runtimes spend time between kernels, so the times are scaled to the latency without profiler. Then the unsplit
model runs on each device in turns with splits of it, which compares the devices and tells what a split costs.

In a split the same ops take longer: cuts prevent fusions, caches are colder, and threads of two runtimes get in each other's
way; transfers between two runtimes are slower than copies in a loop. None of these can be had from a runtime alone. So splits
run, in turns with the unsplit model: stripes that alternate between the devices, few and many, and the model on one device but
for a few ops. What each device's subgraphs took is fitted by a factor on its ops, an overhead per subgraph, seconds per byte
that enters or leaves (a runtime converts layouts there), and what ops lose after those of other devices (`cold_start`).
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from onnx import helper

from editor.arguments import as_seconds
from editor.devices.device import Device
from editor.errors import EditorError, ExecutionError
from editor.execution.compiled_plan import (
    CompiledPlan,
    RunTimes,
    Step,
    convert,
    with_states_at_home,
)
from editor.execution.executor import compile_placement
from editor.execution.generation import given_to, in_place
from editor.execution.invented_inputs import random_inputs
from editor.execution.invented_values import InventedInputs
from editor.execution.measure.statistics import MachineWatch
from editor.execution.measure.turns import Turn
from editor.graph.flops import Floats, work_shares
from editor.graph.graph import Bools, Graph, Ints, numbers_at
from editor.graph.states import states_of
from editor.placement.constraints import allowed_by_lists
from editor.placement.costs import ColdStart, gaps
from editor.placement.device_profile import (
    DeviceProfile,
    completed,
    load_profile,
    profile_path,
    save_profile,
    scaled,
)
from editor.placement.placement import Placement, Settings, placement_of_groups, solve
from editor.runtimes.base import CompileOptions, KernelTime, SubModel, Value
from editor.runtimes.op_models import small_model
from editor.runtimes.profiling import MIN_RUNS, run_to_end, runs_within, seconds_of
from editor.runtimes.registry import capability, runtime_of
from editor.runtimes.values import to_numpy

COPY = " copy"
"""Ends the name under which a device that is alone splits with itself."""
STRIPES = (2, 4, 12, 32)
"""Few and many: the first tell about the factor, the others about the overhead."""
FEW_OPS = 3
"""Ops that run elsewhere in a plan of one device: many splits of real models have large subgraphs beside small ones."""
_LEAST_FACTOR, _MOST_FACTOR = 1.0, 3.0
"""No split makes ops faster: less is noise, and would make it pay to give one op away."""
_PRIOR = 0.5
"""Weight of "ops take as long in a split as in the unsplit model", relative to one measured plan. Without it, noise of a
few plans becomes a factor, and moving one op changes what all others are said to take."""
_CONVERT_PRIOR = 0.04
"""The same of "no layouts are converted": models whose boundaries are small tell nothing about it."""
_CONSTANTS = (60e-6, 125e-6, 250e-6, 500e-6, 1e-3, 2e-3, 4e-3)
"""Seconds, of which the one that fits best is a device's: after that long, most of a cold start is over."""
_UNIT_BYTES = 1e6
_LEAST_TRANSFERS = 6
"""Below this, transfers keep the costs that were measured alone."""


@dataclass
class Unsplit:
    """The model on one device, as far as that can run it, with its runs."""

    compiled: CompiledPlan
    mine: tuple[int, ...]
    """Subgraphs that run on the device."""
    runs: list[RunTimes] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Median of what the device took."""
        return float(np.median([sum(run.subgraphs[i] for i in self.mine) for run in self.runs]))


@dataclass
class Split:
    """A split with its runs."""

    placement: Placement
    compiled: CompiledPlan
    runs: list[RunTimes] = field(default_factory=list)


def fitted(
    devices: Sequence[Device], profiles: Mapping[str, DeviceProfile], splits: Sequence[Split]
) -> dict[str, DeviceProfile]:
    """Profiles with the costs of a split that the runs of splits show.

    Args:
        devices: the profiled devices.
        profiles: device name -> its profile, scaled to runs of the unsplit model in turns with the splits.
        splits: with their runs; those without do not count.

    Returns:
        device name -> profile; unchanged for devices that no split uses.
    """
    result, splits = dict(profiles), [split for split in splits if split.runs]
    for device in devices:
        shares = _shares(device, profiles, splits)
        if shares:
            cost = split_cost(shares)
            result[device.name] = replace(
                profiles[device.name],
                split_factor=cost.factor,
                launch_seconds=cost.overhead,
                cold_seconds=cost.cold.most,
                cold_constant=cost.cold.constant,
                convert_seconds_per_byte=cost.convert,
            )
        if len(devices) > 1:
            result[device.name] = _with_transfers(device, result[device.name], splits)
    return result


def compiled_splits(graph: Graph, devices: Sequence[Device], threads: int) -> list[Split]:
    """Stripes over the devices, and each device but for a few ops; a device that is alone splits with itself.

    Args:
        graph: the model.
        devices: the profiled devices.
        threads: threads per subgraph; 0 leaves the choice to the runtimes.
    """
    placements = [stripes(graph, devices, count) for count in STRIPES]
    placements += [all_but_few(graph, devices, main) for main in range(len(devices))]
    splits = []
    for placement in placements:
        if placement is None:
            continue
        try:
            splits.append(Split(placement, compile_placement(placement, threads)))
        except EditorError:
            continue  # a runtime refuses a sub-model; the others tell enough
    return splits


def stripes(graph: Graph, devices: Sequence[Device], count: int) -> Placement | None:
    """Ops in topological order, cut into ``count`` runs of equal length that alternate between the devices.

    None where there are too few ops. Ops go elsewhere where their device cannot run them.
    """
    placed = graph.order[~graph.op_is_constant[graph.order]]
    if len(placed) < 2 * count:
        return None
    return _cut(
        graph, devices, placed, np.arange(len(placed)) * count // len(placed), range(len(devices))
    )


def all_but_few(
    graph: Graph, devices: Sequence[Device], main: int, count: int = FEW_OPS
) -> Placement | None:
    """All ops on one device, but for a few on the next, which are spread over the model; None where there are too few ops."""
    placed = graph.order[~graph.op_is_constant[graph.order]]
    if len(placed) < 4 * count:
        return None
    few = (2 * np.arange(count) + 1) * len(placed) // (2 * count)
    number = np.arange(len(placed))
    pieces = np.searchsorted(few, number, "left") + np.searchsorted(few, number, "right")
    return _cut(graph, devices, placed, pieces, (main, (main + 1) % len(devices)))


def _cut(
    graph: Graph, devices: Sequence[Device], placed: Ints, pieces: Ints, turn: Sequence[int]
) -> Placement:
    """Ops of ``placed`` cut into pieces, whose devices take turns; ``pieces`` is [place] the piece's number."""
    if len(devices) == 1:
        group = numbers_at(len(graph), placed, pieces)
        pair = [devices[0], replace(devices[0], name=f"{devices[0].name}{COPY}")]
        return placement_of_groups(graph, pair, np.maximum(group, 0) % 2, group)
    able = np.column_stack(
        [capability(graph, d).mask & allowed_by_lists(graph, d) for d in devices]
    )
    device = np.asarray(turn)[pieces % len(turn)]
    pins = {
        graph.op_keys[op]: devices[d].name
        for op, d in zip(placed.tolist(), device.tolist(), strict=True)
        if able[op, d]
    }
    return solve(graph, devices, Settings(pins=pins))


def run_in_turns(
    contenders: Sequence[Unsplit | Split],
    values: Mapping[str, Value],
    seconds: float,
    watch: MachineWatch | None = None,
) -> None:
    """Runs plans in turns, in random order, so that a disturbance affects all of them; ``watch`` looks at each round.

    Those that are too slow for a few rounds within the time have no runs in the end.
    """

    given = {
        id(each): with_states_at_home(each.compiled.graph, each.compiled.steps, values)
        for each in contenders
    }

    def run(contender: Unsplit | Split) -> RunTimes:
        return contender.compiled.run_measured(given[id(contender)])

    turns, most = [], seconds / MIN_RUNS
    for contender in contenders:
        outputs, times = contender.compiled.run_timed(given[id(contender)])
        contender.compiled = in_place(contender.compiled, outputs)
        first = times.total
        if (
            first <= 2 * most and (again := min(first, run(contender).total)) <= most
        ):  # a first run may be twice as long
            turns.append((contender, Turn.of(again)))
    order = random.Random(0)
    for _ in runs_within(seconds) if turns else ():
        if watch is not None:
            watch.sample()
        for contender, turn in order.sample(turns, len(turns)):
            contender.runs += turn.take(partial(run, contender))


@dataclass(frozen=True, eq=False)
class Share:
    """The work of a device in a split, in seconds of a run."""

    alone: Floats
    """[its subgraph] what the ops take in the unsplit model"""
    gap: Floats
    """[its subgraph] what ops of other devices take since the one before (`cold_start.gaps`)"""
    moved: float
    """Bytes that came from or went to other devices"""
    measured: float
    """What its subgraphs took, with a share of the time between subgraphs"""
    total: float
    """What all subgraphs took"""


def _shares(
    device: Device, profiles: Mapping[str, DeviceProfile], splits: Sequence[Split]
) -> list[Share]:
    """Of each split that uses the device."""
    shares = []
    for split in splits:
        parts = np.median([run.subgraphs for run in split.runs], axis=0)
        moved = float(np.median([sum(t.seconds for t in run.transfers) for run in split.runs]))
        between = max(
            float(np.median([run.total for run in split.runs])) - moved - float(parts.sum()), 0.0
        )
        names = [
            s.device if s.device in profiles else s.device.removesuffix(COPY)
            for s in split.placement.subgraphs
        ]
        mine = np.array([name == device.name for name in names])
        if mine.any():
            alone = np.array(
                [
                    sum(profiles[name].seconds.get(key, 0.0) for key in s.ops)
                    for name, s in zip(names, split.placement.subgraphs, strict=True)
                ]
            )
            gap = gaps(np.unique(names, return_inverse=True)[1], alone)
            measured = float(parts[mine].sum()) + between * int(mine.sum()) / len(parts)
            shares.append(
                Share(
                    alone[mine],
                    gap[mine],
                    _moved(split, mine),
                    measured,
                    float(parts.sum()) + between,
                )
            )
    return shares


def _moved(split: Split, mine: Bools) -> float:
    """Bytes that enter these subgraphs from others, and leave them, each tensor once."""
    transfers = split.runs[0].transfers
    arriving = sum(max(t.bytes, 0) for t in transfers if mine[t.target])
    leaving = {t.tensor: max(t.bytes, 0) for t in transfers if mine[t.source]}
    return float(arriving + sum(leaving.values()))


@dataclass(frozen=True)
class SplitCost:
    """The time of a device in a split: factor * ops + overhead for each subgraph + its cold start + convert * bytes."""

    factor: float
    overhead: float
    """seconds per subgraph"""
    cold: ColdStart
    convert: float
    """seconds per byte"""


def split_cost(shares: Sequence[Share]) -> SplitCost:
    """What a device's subgraphs cost beyond their ops.

    Least squares of errors relative to the whole run, because that is what a prediction is held against, with a factor of 1
    as one more observation, and one of no conversions (ridge regression; Hoerl and Kennard, 1970). None is negative, and the
    factor has a limit.
    """
    total = np.maximum([s.total for s in shares], 1e-9)
    alone, measured = (
        np.array([float(np.sum(x)) for x in column]) / total
        for column in ([s.alone for s in shares], [s.measured for s in shares])
    )
    unit = float(total.mean())  # of seconds, so that all unknowns are of one size
    launches = np.array([len(s.alone) for s in shares]) * unit / total
    moved = np.array([s.moved for s in shares]) * unit / _UNIT_BYTES / total
    ops, gap = np.concatenate([s.alone for s in shares]), np.concatenate([s.gap for s in shares])
    first = np.cumsum([0, *(len(s.alone) for s in shares[:-1])])
    priors = np.diag([_PRIOR**0.5, 0.0, 0.0, _CONVERT_PRIOR**0.5])[[0, 3]]
    wanted = np.append(measured - alone * _LEAST_FACTOR, [0.0, 0.0])
    found: list[tuple[float, SplitCost]] = []
    for constant in _CONSTANTS:
        lost = np.add.reduceat(ColdStart(unit, constant).seconds(ops, gap), first) / total
        equations = np.vstack([np.column_stack([alone, launches, lost, moved]), priors])
        error, (slower, overhead, most, convert) = _least_squares(equations, wanted)
        factor = min(_LEAST_FACTOR + slower, _MOST_FACTOR)
        found.append(
            (
                error,
                SplitCost(
                    factor,
                    overhead * unit,
                    ColdStart(most * unit, constant),
                    convert * unit / _UNIT_BYTES,
                ),
            )
        )
    return min(found, key=lambda each: each[0])[1]


def _least_squares(equations: Floats, wanted: Floats) -> tuple[float, Floats]:
    """Sum of squared errors, and the unknowns, of which none is negative: the best of all choices of unknowns that are 0."""
    best, unknowns = float(wanted @ wanted), np.zeros(equations.shape[1])
    rotation, upper = np.linalg.qr(
        equations
    )  # as few equations as unknowns, with the same solutions
    for choice in itertools.product((False, True), repeat=len(unknowns)):
        columns = np.flatnonzero(choice)
        some = np.linalg.lstsq(upper[:, columns], rotation.T @ wanted, rcond=None)[0]
        if not (np.isfinite(some) & (some >= 0)).all():
            continue
        error = float(np.sum((equations[:, columns] @ some - wanted) ** 2))
        if error < best * (1 - 1e-9):
            best, unknowns = error, np.zeros(equations.shape[1])
            unknowns[columns] = some
    return best, unknowns


def _with_transfers(
    device: Device, profile: DeviceProfile, splits: Sequence[Split]
) -> DeviceProfile:
    """The profile with the times of transfers into its device as they were within runs, the way out included."""
    sizes, spent = [], []
    for split in splits:
        device_of = {s.id: s.device for s in split.placement.subgraphs}
        seconds = np.median([[t.seconds for t in run.transfers] for run in split.runs], axis=0)
        for transfer, taken in zip(
            split.runs[0].transfers, np.atleast_1d(seconds).tolist(), strict=True
        ):
            if device_of[transfer.target] == device.name != device_of[transfer.source]:
                sizes.append(float(max(transfer.bytes, 0)))
                spent.append(taken)
    if len(spent) < _LEAST_TRANSFERS:
        return profile
    order = np.argsort(sizes, kind="stable")
    half = (len(order) + 1) // 2
    latency = float(
        np.median(np.asarray(spent)[order[:half]])
    )  # of the smaller ones, whose size hardly counts
    per_byte = max(float(np.mean(spent)) - latency, 0.0) / max(float(np.mean(sizes)), 1.0)
    return replace(
        profile,
        in_latency=latency,
        in_seconds_per_byte=per_byte,
        out_latency=0.0,
        out_seconds_per_byte=0.0,
    )


MOST_SECONDS = 3600
Report = Callable[[str, int, int], None]


@dataclass(frozen=True)
class _Measured:
    profile: DeviceProfile
    plan: CompiledPlan
    mine: tuple[int, ...]
    """Subgraphs of the plan that ran on the device."""


def _profile(
    graph: Graph,
    device: Device,
    devices: Sequence[Device],
    values: Mapping[str, Value],
    seconds: float,
    threads: int,
) -> _Measured:
    """Profiles every op that a real device can run.

    Ops that it cannot run go to the other devices of the table, by policy `priority`.

    Raises:
        ExecutionError: the device is planned, or it can run no op of the model.
    """
    if device.planned:
        raise ExecutionError(
            f"{device.name} is not on this machine, so there is nothing to measure"
        )
    priority = [device, *(d for d in devices if d.name != device.name)]
    placement = solve(graph, priority, Settings())
    plan = compile_placement(placement, threads, as_cut=True, keep_weights=True)
    mine = [step for step in plan.steps if step.device.name == device.name]
    if not mine:
        raise ExecutionError(f"{device.name} can run no op of {graph.name}")
    values = with_states_at_home(graph, plan.steps, values)
    passed = {name for step in mine for name in step.submodel.inputs}
    passed |= {state.output for state in states_of(graph) if not state.inside}
    kept = {**values, **plan.capture(values, passed)}
    plan = in_place(plan, kept)
    mine = [step for step in plan.steps if step.device.name == device.name]
    taken: dict[int, float] = {}
    fused: dict[str, int] = {}
    kernels: list[str] = []
    runs, raw = 0, 0.0
    for step in mine:
        arguments = given_to(step, kept)
        times, count, unscaled = _profile_step(graph, step, arguments, seconds / len(mine), threads)
        runs, raw = max(runs, count), raw + unscaled
        for kernel in times:
            for op, share in zip(kernel.ops, work_shares(graph, kernel.ops), strict=True):
                taken[op] = taken.get(op, 0.0) + kernel.seconds * share
                fused[graph.op_keys[op]] = len(kernels)
            kernels.append(kernel.type)
    for op in placement.ops_on(device.name):
        taken.setdefault(op, 0.0)  # an optimisation removed it
    in_latency, in_per_byte = _transfer_cost(device, into=True)
    out_latency, out_seconds_per_byte = _transfer_cost(device, into=False)
    launch = _launch_cost(device)
    cannot = ~placement.constraints.capabilities[0].mask & ~graph.op_is_constant
    profile = DeviceProfile(
        device.description,
        sum(taken.values()),
        {graph.op_keys[op]: t for op, t in taken.items()},
        fused,
        tuple(kernels),
        launch,
        in_latency,
        in_per_byte,
        out_latency,
        out_seconds_per_byte,
        runs,
        sum(taken.values()) / raw if raw else 1.0,
        unable=tuple(graph.op_keys[op] for op in np.flatnonzero(cannot).tolist()),
    )
    return _Measured(profile, plan, tuple(step.id for step in mine))


def profile_all(
    graph: Graph,
    devices: Sequence[Device],
    seconds: float = 2.0,
    threads: int = 0,
    report: Report | None = None,
) -> dict[str, DeviceProfile | str]:
    """Profiles every real device, on its machine, and stores the profiles.

    Returns:
        device name -> the profile that is stored for it, or the reason why there is none.

    Raises:
        EditorError: ``seconds`` cannot be measured for.
    """
    seconds = as_seconds(seconds, "profile seconds", MOST_SECONDS)
    machines = len({d.machine for d in devices if d.machine and d.present})
    here = sum(not d.machine and not d.planned for d in devices)
    steps_here = here + 1 if here else 0
    steps = steps_here + (machines + 2 if machines else 0)

    def step(text: str, done: int) -> None:
        if report:
            report(text, done, steps)

    result = profile_here(graph, devices, seconds, threads, step)
    if machines:
        from editor.execution.machines.remote_profile import profile_there

        result |= profile_there(
            graph, devices, seconds, threads, lambda text, done: step(text, steps_here + done)
        )
    by_name = {d.name: d for d in devices}
    stored: dict[
        Path, tuple[Device, DeviceProfile]
    ] = {}  # devices of one provider have one profile, and one before it
    for name, profile in result.items():
        if not isinstance(profile, str):
            whole = completed(graph, profile, load_profile(graph, by_name[name]))
            stored[profile_path(graph, by_name[name])] = by_name[name], whole
    for device, profile in stored.values():
        save_profile(graph, device, profile)
    return {
        d.name: found if isinstance(found, str) else stored[profile_path(graph, d)][1]
        for d in devices
        if (found := result.get(d.name)) is not None
    }


def profile_here(
    graph: Graph,
    devices: Sequence[Device],
    seconds: float,
    threads: int = 0,
    step: Callable[[str, int], None] = lambda _text, _done: None,
) -> dict[str, DeviceProfile | str]:
    """Profiles every real device of this machine; device name -> profile, or the reason why there is none.

    ``step`` is told what is measured, and how many steps, of one for each device and one for splits, are done.
    """
    result: dict[str, DeviceProfile | str] = {}
    measured: dict[str, _Measured] = {}
    devices = [d for d in devices if not d.machine]
    real = [d for d in devices if not d.planned]
    if not real:
        return {}
    values = InventedInputs()
    watch = MachineWatch()
    for i, device in enumerate(real):
        step(f"profiling {device.name}", i)
        try:
            values = values or random_inputs(graph)
            measured[device.name] = _profile(graph, device, devices, values, seconds, threads)
        except EditorError as error:
            values.explain(error)
            result[device.name] = str(error)
    step("measuring splits", len(real))
    profiles = _beside_splits(
        graph, [d for d in real if d.name in measured], measured, values, seconds, threads, watch
    )
    signs = tuple(watch.disturbances())
    result |= {name: replace(profile, disturbances=signs) for name, profile in profiles.items()}
    return {device.name: result[device.name] for device in real}


def _beside_splits(
    graph: Graph,
    devices: Sequence[Device],
    measured: Mapping[str, _Measured],
    values: Mapping[str, Value],
    seconds: float,
    threads: int,
    watch: MachineWatch,
) -> dict[str, DeviceProfile]:
    """Device name -> its profile, scaled to runs of the unsplit model beside splits, with what these cost.

    Profiles are measured one after the other, so a temporary load of the machine would affect one device only. A
    device that is too slow for a few more runs keeps its scale.
    """
    unsplit = {name: Unsplit(m.plan, m.mine) for name, m in measured.items()}
    splits = compiled_splits(graph, devices, threads)
    run_in_turns([*unsplit.values(), *splits], values, 2 * seconds, watch)
    profiles = {
        name: scaled(m.profile, unsplit[name].seconds if unsplit[name].runs else None)
        for name, m in measured.items()
    }
    return fitted(devices, profiles, splits)


def _profile_step(
    graph: Graph, step: Step, arguments: Sequence[Value], seconds: float, threads: int
) -> tuple[list[KernelTime], int, float]:
    """Kernel times of one sub-model, scaled to its latency without profiler; the number of runs; their unscaled sum."""
    run = partial(run_to_end, step.executable, arguments)
    for _ in range(2):
        run()
    spent = [seconds_of(run) for _ in runs_within(seconds / 2)]
    latency = float(np.median(spent))
    ops = tuple(int(node.name[2:]) for node in step.submodel.model.graph.node)
    runtime = runtime_of(step.runs_on.runtime)
    kernels = [
        k
        for k in runtime.profile(
            graph, step.submodel, step.runs_on, arguments, seconds / 2, threads
        )
        if k.ops
    ]
    total = sum(k.seconds for k in kernels)
    if not total:  # no profiler, or no kernel maps to ops: divided by estimated work
        return [KernelTime(step.runs_on.runtime, ops, latency)], len(spent), latency
    return [replace(k, seconds=k.seconds * latency / total) for k in kernels], len(spent), total


def _launch_cost(device: Device) -> float:
    """Seconds of launch overhead: the median run of a model with negligible work."""
    executable, value = _tiny(device, 16)
    run = partial(run_to_end, executable, [value])
    return float(np.median([seconds_of(run) for _ in range(60)][10:]))


def _transfer_cost(device: Device, into: bool) -> tuple[float, float]:
    """Seconds per value and per byte between host memory and the device's runtime."""
    small, large = 64, 1 << 20
    medians = []
    for count in (small, large):
        executable, value = _tiny(device, count)
        transfer = (
            partial(convert, value, device)
            if into
            else partial(to_numpy, run_to_end(executable, [value])[0])
        )
        medians.append(float(np.median([seconds_of(transfer) for _ in range(20)])))
    per_byte = max(medians[1] - medians[0], 0.0) / ((large - small) * 4)
    return medians[0], per_byte


def _tiny(device: Device, count: int) -> tuple[Any, Value]:
    model = small_model([helper.make_node("Relu", ["x"], ["y"], "op0")], [count])
    submodel = SubModel(model, ("x",), ("y",), Path(), "a tiny model")
    return runtime_of(device.runtime).compile(submodel, device, CompileOptions(1)), np.ones(
        count, np.float32
    )
