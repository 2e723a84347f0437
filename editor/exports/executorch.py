"""Writes which op types the partitioners of ExecuTorch leave alone."""

from __future__ import annotations

import re
from pathlib import Path

from onnx import NodeProto

from editor.errors import ExportError
from editor.exports.kept_off import device_of, ops_off, tell_of_mixed, types_off
from editor.exports.model_copy import open_copy, write_document
from editor.graph.graph import Graph
from editor.placement.placement import Placement

_FX_NODE = "pkg.torch.onnx.fx_node"
_TARGET = re.compile(r"call_function\[target=torch\.ops\.([\w.]+)\]")
"""In what `torch.onnx` keeps of the node that an op is from."""
_LONGEST = 1 << 14
"""Characters of such an entry that are looked at."""


def unfit_for_executorch(graph: Graph) -> str:
    """Why ExecuTorch has no types for the ops of a model; "" where it may have."""
    if graph.file.producer.startswith("pytorch"):
        return ""
    tool = graph.file.producer or "another tool"
    return (
        f"{graph.path}: ExecuTorch lowers programs of PyTorch, and this model is of {tool}; open what torch.export.save or "
        "torch.onnx.export(dynamo=True) wrote"
    )


def write_executorch(
    placement: Placement, out_dir: Path, stamp: str = "", device: str = ""
) -> list[Path]:
    """Writes ``<model>.executorch.json``: arguments of the partitioners, and ops that their types cannot keep off.

    Read in ExecuTorch cff6f4d: `backends/qualcomm/partition/qnn_partitioner.py` (``skip_node_op_set``) and
    `backends/apple/coreml/partition/coreml_partitioner.py` (``skip_ops_for_coreml_delegation``). Their ids of nodes
    (``skip_node_id_set``) are numbered while ExecuTorch lowers the program, so that no model that is open has them.

    Raises:
        ExportError: the model does not say which ops of PyTorch it is from, or no type has all of its ops off the device.
    """
    graph = placement.graph
    targets = [_target(node) for node in open_copy(graph, weights=False).graph.node]
    if not any(targets):
        raise ExportError(
            f"{graph.path}: its ops have no {_FX_NODE}, so they cannot be found in ExecuTorch; export it with "
            "torch.onnx.export(dynamo=True)"
        )
    chosen = device_of(placement, device)
    kept, mixed = types_off(placement, chosen, targets)
    names = sorted(kept - {""})
    if "" in kept:
        mixed[""] = [op for op in ops_off(placement, chosen) if not targets[op]]
    left = [op for ops in mixed.values() for op in ops]
    if left and not names:
        raise ExportError(
            f"ExecuTorch is told types only, and each type has ops on {chosen}; put all ops of a type on another device"
        )
    if left:
        mixed = {kind or "of no op of PyTorch": ops for kind, ops in mixed.items()}
        tell_of_mixed(mixed, "ExecuTorch is told types only, so it may take them")
    document = {
        "made_by": stamp,
        "QnnPartitioner": {"skip_node_op_set": names},
        "CoreMLPartitioner": {"skip_ops_for_coreml_delegation": [name.lower() for name in names]},
        "not_kept_off": sorted(graph.op_keys[op] for op in left),
    }
    return [write_document(graph, out_dir, ".executorch.json", document)]


def _target(node: NodeProto) -> str:
    """The op of PyTorch that an op is from, as ExecuTorch names it; "" where it is not known."""
    entry = next((p.value for p in node.metadata_props if p.key == _FX_NODE), "")
    found = _TARGET.search(entry[:_LONGEST])
    return found[1] if found else ""
