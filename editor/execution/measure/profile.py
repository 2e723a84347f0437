"""Measuring what each op takes on a real device, with the runtimes' own profilers.

Kernels are timed at the optimisation level that will run: the median of each over the quietest whole runs.
Medians do not add up and the framework spends time between kernels, so all are scaled to the latency of the
run without profiler. Devices are compared, and cuts priced, by runs in turns: see `_side_by_side` and `_cut`.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from editor.devices.device import Device
from editor.errors import EditorError, ExecutionError
from editor.execution.compile.step import Step
from editor.execution.executor import CompiledPlan, compile_placement, convert
from editor.execution.inputs import random_inputs
from editor.execution.measure.calibrate import calibrate
from editor.execution.ort_optimized.lineage import cones, lineage
from editor.graph.flops import op_bytes, op_flops
from editor.graph.graph import Graph
from editor.placement.device_profile import DeviceProfile, save_profile
from editor.placement.placement import Placement, Settings, solve
from editor.placement.policies.task import Assignment
from editor.placement.subgraphs.division import divide
from editor.runtimes.base import CompileOptions, SubModel, Value
from editor.runtimes.registry import runtime_of
from editor.runtimes.values import to_numpy

Times = list[tuple[str, tuple[int, ...], float]]
"""Kernels of one run: type, ops that it computes, seconds."""
Report = Callable[[str, int, int], None]

_QUIET_SHARE = 0.4
_LEAST_QUIET = 5
_MIN_RUNS, _MAX_RUNS = 8, 200
_CUTS = 8


@dataclass(frozen=True)
class _Measured:
    profile: DeviceProfile
    plan: CompiledPlan
    mine: tuple[int, ...]
    """Subgraphs of the plan that ran on the device."""


def _profile(graph: Graph, device: Device, devices: Sequence[Device], values: Mapping[str, Value], seconds: float,
             threads: int) -> _Measured:
    """Profiles every op that a real device can run.

    Ops that it cannot run go to the other devices of the table, as policy `priority` would do it.

    Raises:
        ExecutionError: the device is planned, or nothing of the model runs on it.
    """
    if device.planned:
        raise ExecutionError(f"{device.name} is not on this machine, so there is nothing to measure")
    table = [device, *(d for d in devices if d.name != device.name)]
    placement = solve(graph, table, Settings())
    plan = compile_placement(placement, threads, as_cut=True)
    mine = [step for step in plan.steps if step.device.name == device.name]
    if not mine:
        raise ExecutionError(f"{device.name} can run no op of {graph.name}")
    kept = {**values, **plan.keep(values, {name for step in mine for name in step.part.inputs})}
    taken: dict[int, float] = {}
    fused: dict[str, int] = {}
    kernels: list[str] = []
    runs = 0
    for step in mine:
        parts, count = _profile_step(graph, step, [kept[n] for n in step.part.inputs], seconds / len(mine), threads)
        runs = max(runs, count)
        for kind, ops, spent in parts:
            for op, share in zip(ops, _shares(graph, ops), strict=True):
                taken[op] = taken.get(op, 0.0) + spent * share
                fused[graph.op_keys[op]] = len(kernels)
            kernels.append(kind)
    for op in _ops_of(graph, placement, device):
        taken.setdefault(op, 0.0)  # the optimiser removed it
    hop, byte = _hand_over(device, into=True)
    leave_hop, leave_byte = _hand_over(device, into=False)
    start = max(_call(device), _cut(graph, device, plan, values, seconds / 2, threads) if len(plan.steps) == 1 else 0.0)
    profile = DeviceProfile(device.description, sum(taken.values()), {graph.op_keys[op]: t for op, t in taken.items()},
                            fused, tuple(kernels), start, hop, byte, leave_hop, leave_byte, runs)
    return _Measured(profile, plan, tuple(step.id for step in mine))


def profile_all(graph: Graph, devices: Sequence[Device], seconds: float = 2.0, threads: int = 0,
                report: Report | None = None) -> dict[str, DeviceProfile | str]:
    """Profiles every real device of a table and keeps the results; the reason in words for one that cannot be."""
    found: dict[str, DeviceProfile | str] = {}
    measured: dict[str, _Measured] = {}
    real = [d for d in devices if not d.planned]
    values: dict[str, Value] = {}
    for i, device in enumerate(real):
        if report:
            report(f"profiling {device.name}", i, len(real))
        try:
            values = values or random_inputs(graph)
            measured[device.name] = _profile(graph, device, devices, values, seconds, threads)
        except EditorError as error:
            found[device.name] = str(error)
    if report:
        report("comparing devices", len(real), len(real))
    totals = _side_by_side(measured, values, seconds)
    for device in real:
        if device.name in measured:
            profile = _scaled(measured[device.name].profile, totals.get(device.name))
            save_profile(graph, device, profile)
            found[device.name] = profile
    if report:
        report("trying the best split", len(real), len(real))
    profiled = [d for d in real if d.name in measured]
    found |= calibrate(graph, profiled, {n: p for n, p in found.items() if isinstance(p, DeviceProfile)},
                       {name: m.plan for name, m in measured.items() if len(m.plan.steps) == 1}, values, seconds / 2, threads)
    return {device.name: found[device.name] for device in real}


def _side_by_side(measured: Mapping[str, _Measured], values: Mapping[str, Value], seconds: float) -> dict[str, float]:
    """Seconds of each device, averaged over the same quiet rounds.

    Profiles are taken one after the other, and a machine that was busy meanwhile would make one device look slow. A
    device that is too slow for a few rounds is left out: which is faster is no question then.
    """
    racing = [name for name, m in measured.items() if m.profile.total * _MIN_RUNS <= seconds]
    if len(racing) < 2:
        return {}
    order = random.Random(0)
    rounds: list[dict[str, float]] = []
    begin = perf_counter()
    while len(rounds) < _MIN_RUNS + 2 or (perf_counter() - begin < seconds and len(rounds) < _MAX_RUNS):
        row = {}
        for name in order.sample(racing, len(racing)):
            _, times = measured[name].plan.run_timed(values)
            row[name] = sum(times.subgraphs[i] for i in measured[name].mine)
        rounds.append(row)
    quiet = sorted(rounds[2:], key=lambda row: sum(row.values()))[:max(1, int(len(rounds) * _QUIET_SHARE))]
    return {name: float(np.mean([row[name] for row in quiet])) for name in racing}


def _scaled(profile: DeviceProfile, total: float | None) -> DeviceProfile:
    """The same shares of another total."""
    if total is None or not profile.total:
        return profile
    factor = total / profile.total
    return replace(profile, total=total, seconds={key: t * factor for key, t in profile.seconds.items()})


def _ops_of(graph: Graph, placement: Placement, device: Device) -> list[int]:
    name = [d.name for d in placement.devices].index(device.name)
    return np.flatnonzero((placement.assignment.device == name) & (placement.division.part >= 0)).tolist()


def _profile_step(graph: Graph, step: Step, arguments: Sequence[Value], seconds: float, threads: int) -> tuple[Times, int]:
    """Average kernels of the quietest runs of one sub-model, scaled to its true latency."""
    executable = step.executable
    spent: list[float] = []
    begin = perf_counter()
    for _ in range(2):
        executable.run(arguments)
    while len(spent) < _MIN_RUNS or (perf_counter() - begin < seconds / 2 and len(spent) < _MAX_RUNS):
        start = perf_counter()
        executable.run(arguments)
        spent.append(perf_counter() - start)
    latency = float(np.mean(np.sort(spent)[:max(1, int(len(spent) * _QUIET_SHARE))]))
    runner = {"onnxruntime": _onnxruntime_kernels, "openvino": _openvino_kernels}.get(step.runs_on.runtime)
    ops = tuple(int(node.name[2:]) for node in step.part.model.graph.node)
    kernels = runner(graph, step.part, step.runs_on, arguments, seconds / 2, threads) if runner else []
    total = sum(t for _, found, t in kernels if found)
    if not total:  # no profiler, or nothing that could be mapped: shared out by estimated work
        return [(step.runs_on.runtime, ops, latency)], len(spent)
    return [(kind, found, t * latency / total) for kind, found, t in kernels if found], len(spent)


def _shares(graph: Graph, ops: Sequence[int]) -> list[float]:
    """How the time of one kernel is shared out over its ops: by a rough count of their work."""
    if len(ops) == 1:
        return [1.0]
    work = op_flops(graph)[list(ops)] + 4.0 * op_bytes(graph)[list(ops)] + 1.0
    return list((work / work.sum()).tolist())


def _average(runs: Sequence[tuple[float, Times]]) -> Times:
    """The median of each kernel over the quietest whole runs.

    A mean would not do: a kernel during which the system took the processor away for some milliseconds would look so
    slow that giving it to another device seemed to pay. The caller scales the medians to the latency of the run.
    """
    quiet = sorted(runs, key=lambda run: run[0])[:max(_LEAST_QUIET, int(len(runs) * _QUIET_SHARE))]
    shape = quiet[0][1]
    same = [times for _, times in quiet if len(times) == len(shape)]
    return [(kind, ops, float(np.median([times[i][2] for times in same]))) for i, (kind, ops, _) in enumerate(shape)]


def _onnxruntime_kernels(graph: Graph, part: SubModel, device: Device, arguments: Sequence[Value], seconds: float,
                         threads: int) -> Times:
    import onnx
    import onnxruntime as ort

    from editor.runtimes.onnxruntime import _providers

    with tempfile.TemporaryDirectory(prefix="hetero-profile-") as folder:
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder) / "trace")
        options.optimized_model_filepath = str(Path(folder) / "optimised.onnx")
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(part.folder))
        options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "weights.bin")
        if threads:
            options.intra_op_num_threads = threads
        session = ort.InferenceSession(part.model.SerializeToString(), options, providers=_providers(device))
        feeds = {name: to_numpy(v) for name, v in zip(part.inputs, arguments, strict=True)}
        begin, count = perf_counter(), 0
        while count < _MIN_RUNS or (perf_counter() - begin < seconds and count < _MAX_RUNS):
            session.run(list(part.outputs), feeds)
            count += 1
        events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
        optimised = onnx.load(folder + "/optimised.onnx", load_external_data=False)
    kernels = lineage(graph, optimised)
    of_name = {k.name: k.ops for k in kernels if k.name}
    runs: list[tuple[float, Times]] = []
    current: dict[str, tuple[str, float]] = {}
    top = {k.name for k in kernels}
    for event in sorted(events, key=lambda e: e.get("ts", 0) + (e.get("dur", 0) if e.get("name") == "model_run" else 0)):
        name = event.get("name", "")
        if event.get("cat") == "Node" and name.endswith("_kernel_time"):
            node = name.removesuffix("_kernel_time")
            if node in top:  # what is inside a body is part of its If, Loop or Scan
                kind, spent = current.get(node, (event["args"].get("op_name", ""), 0.0))
                current[node] = (kind, spent + event["dur"] * 1e-6)
        elif name == "model_run":
            if current:
                runs.append((event["dur"] * 1e-6, [(kind, of_name.get(node, ()), t)
                                                   for node, (kind, t) in sorted(current.items())]))
            current = {}
    return _average(runs[1:] or runs) if runs else []


def _openvino_kernels(graph: Graph, part: SubModel, device: Device, arguments: Sequence[Value], seconds: float,
                      threads: int) -> Times:
    counted = replace(device, properties={**device.properties, "PERF_COUNT": "YES"})
    request: Any = runtime_of("openvino").compile(part, counted, CompileOptions(threads))
    works_for: dict[str, str] = request.works_for
    index = {f"op{i}": i for i in range(len(graph))}
    origins: dict[str, tuple[int, ...]] = {}
    mine = {int(node.name[2:]) for node in part.model.graph.node}
    request.run(arguments)
    executed = {p.node_name for p in request.request.profiling_info if p.status == p.Status.EXECUTED}
    names: dict[str, list[str]] = {}
    for op in request.compiled.get_runtime_model().get_ordered_ops():
        if op.get_friendly_name() not in executed:
            continue  # a constant or a no-op; what it was made from may be part of a kernel that keeps no name of it
        info = op.get_rt_info()
        listed = info["originalLayersNames"].astype(str).split(",") if "originalLayersNames" in info else []
        names[op.get_friendly_name()] = [name.strip() for name in (*listed, op.get_friendly_name())]
    claimed = {name for found in names.values() for name in found if name in index}
    for kernel, found in names.items():  # "op5/WithoutBiases" is op 5, unless "op5" is a kernel by itself
        whole = [name for name in found if name in index] or [
            base for name in found if (base := name.partition("/")[0]) in index and base not in claimed]
        whole = whole or [works_for[name] for name in found if works_for.get(name) in index]
        origins[kernel] = tuple(dict.fromkeys(index[name] for name in whole))
    # Names of ops that were fused into others are often gone.
    regions = cones(graph, list(origins.values()))
    origins = {name: tuple(op for op in region if op in mine) for name, region in zip(origins, regions, strict=True)}
    runs: list[tuple[float, Times]] = []
    begin = perf_counter()
    while len(runs) < _MIN_RUNS or (perf_counter() - begin < seconds and len(runs) < _MAX_RUNS):
        start = perf_counter()
        request.run(arguments)
        spent = perf_counter() - start
        runs.append((spent, [(p.node_type, origins.get(p.node_name, ()), p.real_time.total_seconds())
                             for p in request.request.profiling_info]))
    return _average(runs[1:])


def _cut(graph: Graph, device: Device, whole: CompiledPlan, inputs: Mapping[str, Value], seconds: float,
         threads: int) -> float:
    """Seconds that one more subgraph costs: the model in a few parts on the same device against the model in one.

    Far more than the call itself: fusions across the cut are lost, and values change their layout. Both run in turns,
    because on a busy machine figures from different moments say nothing about each other.
    """
    part = np.full(len(graph), -1, np.int64)
    placed = graph.order[~graph.op_is_constant[graph.order]]
    part[placed] = np.arange(len(placed)) * _CUTS // len(placed)
    count = int(part.max()) + 1
    if count < 2:
        return 0.0
    devices = [device, replace(device, name=f"{device.name} again")]
    home = np.maximum(part, 0) % 2
    placement = Placement(graph, tuple(devices), Settings(), None, Assignment(home, str),  # type: ignore[arg-type]
                          divide(graph, devices, home, part))
    try:
        cut = compile_placement(placement, threads, as_cut=True)
        more: list[float] = []
        begin = perf_counter()
        while len(more) < 2 + _MIN_RUNS or (perf_counter() - begin < seconds and len(more) < _MAX_RUNS):
            moments = [perf_counter()]
            for plan in (whole, cut):
                plan.run(inputs)
                moments.append(perf_counter())
            more.append(moments[2] - 2 * moments[1] + moments[0])
    except EditorError:
        return 0.0
    return max(float(np.median(more[2:])), 0.0) / (count - 1)


def _call(device: Device) -> float:
    """Seconds to start a subgraph: the median of a model that computes nothing to speak of."""
    executable, value = _tiny(device, 16)
    spent = []
    for _ in range(60):
        start = perf_counter()
        executable.run([value])
        spent.append(perf_counter() - start)
    return float(np.median(spent[10:]))


def _hand_over(device: Device, into: bool) -> tuple[float, float]:
    """Seconds per value and per byte between host memory and the device's runtime."""
    host = replace(device, runtime="interpreter", provider="")
    small, large = 64, 1 << 20
    medians = []
    for count in (small, large):
        executable, value = _tiny(device, count)
        source = value if into else executable.run([value])[0]
        spent = []
        for _ in range(20):
            start = perf_counter()
            convert(source, device if into else host)
            spent.append(perf_counter() - start)
        medians.append(float(np.median(spent)))
    per_byte = max(medians[1] - medians[0], 0.0) / ((large - small) * 4)
    return medians[0], per_byte


def _tiny(device: Device, count: int) -> tuple[Any, Value]:
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [count]) for n in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"], "op0")], "tiny", info[:1], info[1:])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    part = SubModel(model, ("x",), ("y",), Path(), "a tiny model")
    return runtime_of(device.runtime).compile(part, device, CompileOptions(1)), np.ones(count, np.float32)
