"""Sessions on a device: the one place that says to ONNX Runtime where a model is to run.

A session never falls back silently. ONNX Runtime would: ``providers=`` with the name of a plugin gives the CPU, a provider
that cannot be created is replaced by the CPU, and ops that a provider does not take are computed there.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import onnxruntime as ort
from onnx import ModelProto, TensorProto

from editor.devices.device import Device
from editor.errors import ExecutionError
from editor.runtimes.onnxruntime.cuda_streams import cuda_stream
from editor.runtimes.onnxruntime.plugins import ep_device, plugin_device
from editor.runtimes.onnxruntime.properties import NOT_PASSED
from editor.runtimes.onnxruntime.providers import CPU, CUDA, DEPEND_ON_NEIGHBOURS, SELECTS_BY_UNIT, TENSORRT, index_of

RECORD = {"session.record_ep_graph_assignment_info": "1"}
"""Entry of a session whose ``refused_ops`` are asked for."""
_MAX_NAMED = 3
"""Ops in a message."""
_MAX_SHAPE_ELEMENTS = 64
_CONVERSIONS = ("QuantizeLinear", "DequantizeLinear")
_INTEGERS = frozenset({TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL})


def create_session(model: bytes | str, options: ort.SessionOptions, device: Device, kept: Path | None = None,
                   requests: int = 1) -> Any:
    """A session on a device, with the CPU behind it for what the device refuses; raises whatever ONNX Runtime raises.

    Args:
        model: the serialized model, or the path of one.
        options: of the session.
        device: where it is to run.
        kept: folder for what the provider compiles, where it can keep that.
        requests: runs in flight at the same time.
    """
    session = _created(model, options, device, kept, requests)
    session._model_bytes = None  # it keeps the serialized model for the fallback, which is off
    return session


def _created(model: bytes | str, options: ort.SessionOptions, device: Device, kept: Path | None, requests: int) -> Any:
    if device.provider == CPU:
        return ort.InferenceSession(model, options, providers=[CPU], enable_fallback=0)
    settings = {k: v for k, v in device.properties.items() if "." not in k and k not in NOT_PASSED}
    plugin = plugin_device(device.provider, index_of(device))
    if plugin is not None:
        options.add_provider_for_devices([ep_device(plugin)], {**dict(plugin.settings), **settings})
        return ort.InferenceSession(model, options, enable_fallback=0)
    if device.provider == TENSORRT and kept is not None:
        settings = {"trt_engine_cache_enable": "1", "trt_engine_cache_path": str(kept), **settings}
    if (stream := shared_stream(device, requests)) is not None:
        settings = {"user_compute_stream": str(stream), **settings}
    if device.provider in SELECTS_BY_UNIT:
        settings = {"device_id": str(index_of(device)), **settings}
    return ort.InferenceSession(model, options, providers=[(device.provider, settings), CPU], enable_fallback=0)


def shared_stream(device: Device, requests: int) -> int | None:
    """The stream that a session shares with the others of its GPU; None where it has one of its own.

    With its own, each session would have cuBLAS and cuDNN twice, 77 MB on an H100. Where several runs are in flight, streams
    of their own let them overlap.
    """
    if device.provider != CUDA or requests != 1 or "user_compute_stream" in device.properties:
        return None
    return cuda_stream(index_of(device))


def refused_ops(session: Any, device: Device) -> list[tuple[str, str, str]]:
    """(name, type, provider) of the nodes that a session gave to another provider than the device's."""
    return [(node.name, node.op_type, part.ep_name) for part in session.get_provider_graph_assignment_info()
            if part.ep_name != device.provider for node in part.get_nodes()]


def check_assignment(session: Any, model: ModelProto, device: Device, label: str) -> None:
    """Checks that the device runs all of a sub-model.

    Ops on shapes may be elsewhere: ONNX Runtime computes them on the CPU where their results are needed there. So may a
    QuantizeLinear or DequantizeLinear at the edge of the sub-model: compilers of quantised subgraphs take these only between
    ops of their own.

    Raises:
        ExecutionError: the device refused an op; the message names it.
    """
    refused = {name: (kind, provider) for name, kind, provider in refused_ops(session, device)}
    if not refused:
        return
    nodes = {node.name: node for node in model.graph.node}
    quantised = device.provider in DEPEND_ON_NEIGHBOURS
    small = _shape_tensors(model) | (_converted_at_edge(model) if quantised else set())
    added = {"ConstantOfShape", *(_CONVERSIONS if quantised else ())}
    wrong = [(nodes[name].output[0] if name in nodes else name, kind, provider) for name, (kind, provider) in refused.items()
             if not (name in nodes and small.issuperset(n for n in nodes[name].output if n))
             and (name in nodes or kind not in added)]
    if wrong:
        named = "; ".join(f"{kind} ({key!r}) was given to {provider}" for key, kind, provider in wrong[:_MAX_NAMED])
        more = f" and {len(wrong) - _MAX_NAMED} more" if len(wrong) > _MAX_NAMED else ""
        raise ExecutionError(f"{label} on {device.name}: {device.provider} refused {len(wrong)} of its ops: {named}{more}; "
                             "pin these ops to another device")


def _converted_at_edge(model: ModelProto) -> set[str]:
    """What ops that only change the type of an input, or give an output its type, compute."""
    inputs, outputs = {i.name for i in model.graph.input}, {o.name for o in model.graph.output}
    return {node.output[0] for node in model.graph.node if node.op_type in _CONVERSIONS
            and (node.input[0] in inputs or node.output[0] in outputs)}


def _shape_tensors(model: ModelProto) -> set[str]:
    """Integer tensors of a sub-model with a few elements, as far as their types are declared or follow from their ops."""
    declared: Iterable[Any] = (*model.graph.value_info, *model.graph.output)
    found = {info.name for info in declared if info.type.tensor_type.elem_type in _INTEGERS and _few(info)}
    for node in model.graph.node:
        if node.op_type in ("Shape", "Size"):
            found.update(node.output)
    changed = True
    while changed:
        changed = False
        for node in model.graph.node:
            if node.op_type in _ON_SHAPES and node.output[0] not in found and found.intersection(node.input[:1]):
                found.update(node.output)
                changed = True
    return found


_ON_SHAPES = frozenset({"Gather", "Slice", "Concat", "Unsqueeze", "Squeeze", "Cast", "Add", "Sub", "Mul", "Div", "Reshape",
                        "Identity", "Range", "Equal", "Where", "Max", "Min"})


def _few(info: Any) -> bool:
    count = 1
    for size in info.type.tensor_type.shape.dim:
        count *= size.dim_value if size.HasField("dim_value") else _MAX_SHAPE_ELEMENTS + 1
    return count <= _MAX_SHAPE_ELEMENTS
