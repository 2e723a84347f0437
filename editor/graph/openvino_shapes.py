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
from editor.graph.openvino_ir import write_ir

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

    Args:
        model: its inputs have their sizes.
        folder: where its weights are.
        sizes: that were chosen, for messages.

    Raises:
        ModelError: OpenVINO cannot read the model at these sizes.
    """
    values = declared_values(model)
    if not sizes or not all((folder / name).is_file() for name in locations_of(model)):
        return values
    copy = ModelProto()
    copy.CopyFrom(model)
    for i, node in enumerate(copy.graph.node):
        node.name = f"op{i}"
    try:
        made = _read(copy, folder)
    except Exception as error:  # OpenVINO raises RuntimeError and others for one and the same cause
        chosen = ", ".join(f"{name}={size}" for name, size in sizes.items())
        reason = str(error).strip().splitlines()[-1][:300]
        raise ModelError(
            f"the model cannot have the sizes {chosen}: OpenVINO says {reason}"
        ) from error
    by_name = {op.get_friendly_name(): op for op in made.get_ordered_ops()}
    for i, node in enumerate(copy.graph.node):
        if (op := by_name.get(f"op{i}")) is not None:
            for name, output in zip(node.output, op.outputs(), strict=False):
                values[name] = values[name][0], _shape(output.get_partial_shape())
    return values


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
