"""Types and shapes of OpenVINO IR: those of the file, or where sizes are chosen those that OpenVINO infers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto

from editor.errors import ModelError
from editor.graph.external_data import locations_of
from editor.graph.graph import Shape, shape_of, type_name
from editor.graph.openvino_ir import state_of, write_ir

Values = dict[str, tuple[str, Shape | None]]


def declared_values(model: ModelProto) -> Values:
    """Type and shape of each value that the file declares."""
    graph = model.graph
    return {
        value.name: (type_name(value.type), shape_of(value.type))
        for value in (*graph.output, *graph.value_info, *graph.input)
    }


def inferred_values(model: ModelProto, folder: Path, sizes: Mapping[str, int]) -> Values:
    """As ``declared_values``, with the shapes that follow from the present shapes of the inputs.

    A state has the shape that it begins with, as in each run.

    Args:
        model: its inputs have their sizes.
        folder: where its weights are.
        sizes: that were chosen, for messages.

    Raises:
        ModelError: OpenVINO cannot read the model at these sizes.
    """
    values = declared_values(model)
    has_state = any(node.op_type == "ReadValue" for node in model.graph.node)
    if not (sizes or has_state) or not all(
        (folder / name).is_file() for name in locations_of(model)
    ):
        return values
    copy = ModelProto()
    copy.CopyFrom(model)
    for i, node in enumerate(copy.graph.node):
        node.name = f"op{i}"
    names = [list(node.output) for node in copy.graph.node]
    begun = _begin_states(copy)
    try:
        made = _read(copy, folder)
    except Exception as error:  # OpenVINO raises RuntimeError and others for one and the same cause
        chosen = ", ".join(f"{name}={size}" for name, size in sizes.items())
        reason = str(error).strip().splitlines()[-1][:300]
        raise ModelError(
            f"the model cannot have the sizes {chosen}: OpenVINO says {reason}"
        ) from error
    by_name = {op.get_friendly_name(): op for op in made.get_ordered_ops()}
    for i, outputs in enumerate(names):
        if (op := by_name.get(f"op{i}")) is not None:
            for name, output in zip(outputs, op.outputs(), strict=False):
                values[name] = values[name][0], _shape(output.get_partial_shape())
    for state, first in begun.items():
        values[state] = values[state][0], values.get(first, values[state])[1]
    return values


def _begin_states(model: ModelProto) -> dict[str, str]:
    """Removes what sets a state, in place, so that reading it gives its first value; name of the state's tensor -> of that one.

    A state without a first value stays.
    """
    nodes = model.graph.node
    pairs = [(name, node) for node in nodes if (name := state_of(node))]
    first = {
        name: (node.output[0], node.input[0])
        for name, node in pairs
        if node.op_type == "ReadValue" and node.input
    }
    for name, node in pairs:
        if node.op_type == "Assign" and name in first:
            model.graph.output.add(name=node.input[0])
            nodes.remove(node)
    return dict(first.values())


def _read(model: ModelProto, folder: Path) -> Any:
    import openvino as ov

    data = np.zeros(0, np.uint8)
    for name in locations_of(model):  # an IR has one file of weights
        if (folder / name).stat().st_size:
            data = np.memmap(folder / name, np.uint8, "c")
    return ov.Core().read_model(write_ir(model), ov.Tensor(data, shared_memory=data.size > 0))


def _shape(shape: Any) -> Shape | None:
    if shape.rank.is_dynamic:
        return None
    return tuple("?" if dim.is_dynamic else dim.get_length() for dim in shape)
