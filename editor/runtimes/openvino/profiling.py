"""Kernel times from OpenVINO's performance counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

from editor.devices.device import Device
from editor.graph.graph import Graph
from editor.runtimes.base import CompileOptions, KernelTime, SubModel, Value
from editor.runtimes.openvino.model_import import onnx_node_of, read_model
from editor.runtimes.openvino.request import compile_model
from editor.runtimes.profiling import enough_runs, fused_regions, median_of_quiet_runs


def kernel_times(
    graph: Graph,
    submodel: SubModel,
    device: Device,
    inputs: Sequence[Value],
    seconds: float,
    threads: int,
) -> list[KernelTime]:
    """Median time of each kernel of a sub-model over the quietest runs."""
    model = read_model(submodel)
    made_up = onnx_node_of(model, submodel)  # before compiling, which may change the model
    request = compile_model(submodel, device, CompileOptions(threads), {"PERF_COUNT": "YES"}, model)
    request.run(inputs)
    ops = _ops_of_kernels(graph, submodel, request, made_up)
    runs: list[tuple[float, list[KernelTime]]] = []
    begin = perf_counter()
    while not enough_runs(len(runs), perf_counter() - begin, seconds):
        start = perf_counter()
        request.run(inputs)
        spent = perf_counter() - start
        runs.append(
            (
                spent,
                [
                    KernelTime(p.node_type, ops.get(p.node_name, ()), p.real_time.total_seconds())
                    for p in request.request.profiling_info
                ],
            )
        )
    return median_of_quiet_runs(runs[1:])


def _ops_of_kernels(
    graph: Graph, submodel: SubModel, request: Any, made_up: Mapping[str, str]
) -> dict[str, tuple[int, ...]]:
    """Ops of the model that each executed kernel computes, by the kernel's name."""
    index = {f"op{i}": i for i in range(len(graph))}
    mine = {int(node.name[2:]) for node in submodel.model.graph.node}
    executed = {
        p.node_name for p in request.request.profiling_info if p.status == p.Status.EXECUTED
    }
    # OpenVINO calls what computes an output of the model after the output's tensor.
    node_of_tensor = {
        tensor: node.name
        for node in submodel.model.graph.node
        for tensor in node.output
        if tensor not in index
    }
    names: dict[str, list[str]] = {}
    for op in request.compiled.get_runtime_model().get_ordered_ops():
        if op.get_friendly_name() not in executed:
            continue  # a constant or a no-op; its source may be in a kernel that does not list its name
        info = op.get_rt_info()
        listed = (
            info["originalLayersNames"].astype(str).split(",")
            if "originalLayersNames" in info
            else []
        )
        given = [name.strip() for name in (*listed, op.get_friendly_name())]
        names[op.get_friendly_name()] = [node_of_tensor.get(name, name) for name in given]
    claimed = {name for listed in names.values() for name in listed if name in index}
    anchors: dict[str, tuple[int, ...]] = {}
    for (
        kernel,
        listed,
    ) in names.items():  # "op5/WithoutBiases" is op 5, unless a kernel "op5" exists
        whole = [name for name in listed if name in index] or [
            base
            for name in listed
            if (base := name.partition("/")[0]) in index and base not in claimed
        ]
        whole = whole or [made_up[name] for name in listed if made_up.get(name) in index]
        anchors[kernel] = tuple(dict.fromkeys(index[name] for name in whole))
    # Names of ops that were fused into others are often gone.
    regions = fused_regions(graph, list(anchors.values()))
    return {
        name: tuple(op for op in region if op in mine)
        for name, region in zip(anchors, regions, strict=True)
    }
