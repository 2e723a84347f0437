"""What Olive's passes take: the split of each op, and the costs of modules.

Read in Olive ee6f40f: `olive/passes/onnx/split.py` (``split_assignments``), `olive/passes/pytorch/capture_split_info.py` and
`olive/cli/generate_cost_model.py` (the cost model).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from math import prod
from pathlib import Path

from editor.errors import ExportError
from editor.exports.kept_off import unique_names
from editor.exports.model_copy import open_copy, set_metadata, write_model, write_sidecar
from editor.files import safe_stem, write_atomic
from editor.graph.flops import op_flops
from editor.graph.graph import Graph
from editor.graph.scopes.tree import scopes_of
from editor.groups import grouped
from editor.placement.placement import Placement

SPLIT = "split_assignments"
"""Key of the assignments in a model's metadata."""
_SEPARATORS = "=;"


def write_olive(placement: Placement, out_dir: Path, stamp: str = "") -> list[Path]:
    """Writes ``<model>_olive.onnx`` and ``<model>_cost_model.csv``, with a file beside it that says where it is from.

    The copy of the model has the assignments as metadata, which the pass ``SplitModel`` reads, and a name for each op. Olive
    looks for the name of an op with dots for slashes, and of no op before those that it reads: subgraphs are in this order.

    Raises:
        ExportError: a name has a character that separates assignments.
    """
    graph, stem = placement.graph, safe_stem(placement.graph.name)
    model, names = open_copy(graph), unique_names(graph)
    splits = {}
    for op in graph.order.tolist():
        if (subgraph := int(placement.division.subgraph_of_op[op])) >= 0:
            name = names[op].replace("/", ".").lstrip(".")
            if set(name) & set(_SEPARATORS):
                raise ExportError(
                    f"op {graph.op_keys[op]!r}: the name {names[op]!r} has one of `{_SEPARATORS}`, which separate Olive's "
                    "assignments; rename it"
                )
            splits[name] = subgraph
    for node, own in zip(model.graph.node, names, strict=True):
        node.name = own
    set_metadata(model, SPLIT, ";".join(f"{name}={split}" for name, split in splits.items()))
    costs = write_atomic(out_dir / f"{stem}_cost_model.csv", _cost_model(graph))
    return [
        *write_model(model, graph, out_dir / f"{stem}_olive.onnx", stamp),
        costs,
        *([write_sidecar(costs, stamp)] if stamp else []),
    ]


def _cost_model(graph: Graph) -> str:
    """Parameters, bytes and FLOPs of each innermost module, at the sizes of the plan."""
    scopes, work = scopes_of(graph), op_flops(graph)
    rows = io.StringIO()
    table = csv.writer(rows, lineterminator="\n")
    table.writerow(["module", "num_params", "num_bytes", "num_flops"])
    own = grouped((number, op) for op, number in scopes.of_op.items())
    counted: set[int] = set()
    for scope in scopes.scopes:
        ops = own.get(scope.number, [])
        if scope.path and not scope.children and ops:
            weights = sorted(_weights(graph, ops) - counted)
            counted.update(weights)
            elements = sum(_elements(graph.tensor_shapes[t]) for t in weights)
            size = sum(max(int(graph.tensor_bytes[t]), 0) for t in weights)
            flops = int(sum(work[op] for op in ops))
            table.writerow([".".join(scope.path), elements, size, flops])
    return rows.getvalue()


def _elements(shape: Sequence[int | str] | None) -> int:
    return prod(d for d in shape if isinstance(d, int)) if shape is not None else 0


def _weights(graph: Graph, ops: list[int]) -> set[int]:
    """Constants that ops read."""
    return {
        tensor
        for op in ops
        for tensor in graph.op_reads[op].tolist()
        if graph.tensor_is_constant[tensor]
    }
