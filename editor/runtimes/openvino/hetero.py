"""Where OpenVINO's HETERO places the nodes of a model: what ``query_model`` says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from editor.errors import ExecutionError
from editor.graph.external_data import external_data_folder, weights_problem
from editor.graph.model_file import read_model as read_proto
from editor.graph.openvino_ir import fix_shapes
from editor.runtimes.base import SubModel
from editor.runtimes.openvino.request import core, read_model, reason_of


def placed_by_hetero(
    path: Path, devices: Sequence[str], sizes: Mapping[str, tuple[int | str, ...]]
) -> dict[str, str]:
    """Friendly name of a node -> device, for the nodes that OpenVINO has left of a model.

    Args:
        path: of the model.
        devices: in order, as in ``HETERO:GPU,CPU``.
        sizes: input -> shape, for a model that leaves it open; devices may refuse open sizes.

    Raises:
        ExecutionError: OpenVINO lacks one of the devices, or cannot read the model.
    """
    missing = [name for name in devices if name.partition(".")[0] not in _families()]
    if missing:
        raise ExecutionError(
            f"HETERO:{','.join(devices)} does not start on this machine: OpenVINO has no {', '.join(missing)} here "
            f"(it has {', '.join(core().available_devices)}); audit it where the device is, or plan for it: "
            f"partition --devices HETERO:{','.join(devices)}"
        )
    model = read_proto(path)
    folder = external_data_folder(model, path)
    if problem := weights_problem(model, path):
        raise ExecutionError(f"{path}: {problem}")
    try:
        fix_shapes(model, sizes)
        made = read_model(SubModel(model, (), (), folder, "the model"))
        return dict(core().query_model(made, f"HETERO:{','.join(devices)}"))
    except Exception as error:  # OpenVINO raises RuntimeError and others for one and the same cause
        raise ExecutionError(f"HETERO:{','.join(devices)}: {reason_of(error)}") from error


def _families() -> frozenset[str]:
    """Kinds of the devices that are here: GPU for GPU.0 and GPU.1."""
    return frozenset(name.partition(".")[0] for name in core().available_devices)
