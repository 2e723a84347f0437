"""Asking a runtime about a whole model, where what a device takes of an op depends on the ops around it."""

from __future__ import annotations

from onnx import ModelProto

from editor.devices.device import Device
from editor.errors import ModelError
from editor.graph.external_data import load_external_data
from editor.graph.graph import Graph
from editor.graph.model_file import read_again
from editor.runtimes.probe import MAX_IR_VERSION

_PREFIX = "op"
_MOST_BYTES = 1 << 30


def whole_model(graph: Graph) -> bytes:
    """The model with its weights, its sizes as they were chosen, and nodes named by the number of their op.

    Raises:
        ModelError: it is too large for a copy in memory, or its weights cannot be read.
    """
    model = read_again(graph)  # which refuses weights in files outside the folder of the model
    constants = int(graph.tensor_bytes[graph.tensor_is_constant].clip(min=0).sum())
    if max(constants, model.ByteSize()) > _MOST_BYTES:
        raise ModelError(f"{graph.path.name} is too large for that")
    load_external_data(model, graph.folder)
    for op, node in enumerate(model.graph.node):
        node.name = f"{_PREFIX}{op}"
    for value in model.graph.input:
        shape = graph.tensor_shapes[graph.tensor_index[value.name]] if value.name in graph.tensor_index else None
        for dim, size in zip(value.type.tensor_type.shape.dim, shape or (), strict=False):
            if isinstance(size, int):
                dim.dim_value = size
    model.ir_version = min(model.ir_version, MAX_IR_VERSION)
    data: bytes = model.SerializeToString(deterministic=True)
    return data


def refusals_of_whole(device: Device, model: bytes) -> dict[str, str] | str:
    """Op, as text -> why the device leaves it to others; or why it cannot be given the model at all."""
    from editor.runtimes.registry import runtime_of  # which imports the runtimes, and they this

    runtime, whole = runtime_of(device.runtime), ModelProto.FromString(model)
    found = runtime.refusals(whole, device)
    if found is None:
        found = runtime.refusal(whole, device) or f"{device.title} does not say which ops it takes"
    if isinstance(found, str):
        return found
    return {name.removeprefix(_PREFIX): reason for name, reason in found.items() if name.removeprefix(_PREFIX).isdigit()}
