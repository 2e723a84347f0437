"""Sub-models as OpenVINO models."""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import openvino as ov
from onnx import ModelProto

from editor.files import inside
from editor.graph.external_data import external_tensors, load_external_data, locations_of
from editor.runtimes.base import SubModel

_INLINE_BYTES = 1 << 30
"""Weights up to this size may be put into a model in memory; a model in one piece is limited to 2 GiB."""


@cache
def core() -> Any:
    """One ``openvino.Core`` for the process."""
    return ov.Core()


def read_model(submodel: SubModel) -> Any:
    """Imports a sub-model.

    External data is found only next to a file, and by no symbolic link: OpenVINO refuses what resolves to another
    folder. So the data files get a second name, or where that cannot be (another file system), the submodel's weights
    are put into the model.
    """
    locations = locations_of(submodel.model)
    if not locations:
        return core().read_model(submodel.model.SerializeToString())
    folder = Path(tempfile.mkdtemp(prefix="hetero-openvino-"))
    try:
        sources = {
            inside(folder, location): (submodel.folder / location).resolve()
            for location in locations
        }
        if not all(_link(source, target) for target, source in sources.items()):
            size = sum(prod(t.dims) * 8 for t in external_tensors(submodel.model))
            if size <= _INLINE_BYTES:
                model = ModelProto()
                model.CopyFrom(submodel.model)
                load_external_data(model, submodel.folder)
                return core().read_model(model.SerializeToString())
            for target, source in sources.items():
                target.unlink(missing_ok=True)
                shutil.copyfile(source, target)
        (folder / "model.onnx").write_bytes(submodel.model.SerializeToString())
        return core().read_model(folder / "model.onnx")
    finally:  # OpenVINO keeps the data files mapped; their names may go
        shutil.rmtree(folder, ignore_errors=True)


def _link(source: Path, target: Path) -> bool:
    """A second name for a file; False where the file systems do not allow it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        target.hardlink_to(source)
    except OSError:
        return False
    return True


def onnx_node_of(model: Any, submodel: SubModel) -> dict[str, str]:
    """Names that the importer made up, with the node of the sub-model that each belongs to.

    One ONNX node may become several (a GRU: transposes, slices and a GRUSequence). The last of them keeps its name, with
    that of the output where there are several, or is called after its tensor where that is an output of the model; the
    others are found by following who reads them. Another import would make up other names.
    """
    nodes = submodel.model.graph.node
    known = {
        name: node.name
        for node in nodes
        for name in (*node.output, *(f"{node.name}_{made}" for made in node.output))
    }
    known |= {node.name: node.name for node in nodes}
    node_of: dict[str, str] = {}
    for op in reversed(model.get_ordered_ops()):
        name = op.get_friendly_name()
        if name in known:
            node_of[name] = known[name]
            continue
        readers = (
            target.get_node().get_friendly_name()
            for out in op.outputs()
            for target in out.get_target_inputs()
        )
        found = next((node_of[reader] for reader in readers if reader in node_of), None)
        if found is not None:
            node_of[name] = found
    return {name: node for name, node in node_of.items() if name != node}
