"""Writes where Hailo's parser cuts a model: the first and last ops of each subgraph on the device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from editor.errors import ExportError
from editor.exports.kept_off import device_of, with_names
from editor.exports.model_copy import write_document
from editor.graph.graph import Graph
from editor.placement.placement import Placement
from editor.placement.subgraphs.division import Subgraph


def write_hailo(
    placement: Placement, out_dir: Path, stamp: str = "", device: str = ""
) -> list[Path]:
    """Writes ``<model>.hailo.json``; where ops have no name of their own, a copy of the model in which they have one, too.

    Hailo's parser cuts the model at the first and last ops of each subgraph on a Hailo device. Their names are the arguments
    ``start_node_names``, ``end_node_names`` and ``net_input_shapes`` of ``ClientRunner.translate_onnx_model`` of the Dataflow
    Compiler, as Hailo's examples use them; the compiler is not public, and nothing was tried with it.

    Raises:
        ExportError: no subgraph is on the device.
    """
    graph = placement.graph
    own = (d.name for d in placement.devices if d.backend.lower() == "hailo")
    chosen = device_of(placement, device or next(own, ""))
    parts = [part for part in placement.subgraphs if part.device == chosen]
    if not parts:
        raise ExportError(f"No op is on {chosen}: nothing is left for Hailo's compiler.")
    names, copy, written = with_names(placement, out_dir, stamp)
    document = {
        "made_by": stamp,
        "model": copy or graph.path.name,
        "device": chosen,
        "subgraphs": [_arguments(graph, part, names) for part in parts],
    }
    return [*written, write_document(graph, out_dir, ".hailo.json", document)]


def _arguments(graph: Graph, part: Subgraph, names: list[str]) -> dict[str, Any]:
    """What the parser is told of a subgraph; a shape that is not known before a run is left out."""
    first = _first(graph, part)
    shapes = {
        names[op]: list(graph.tensor_shapes[tensor] or ())
        for op, tensor in first.items()
        if graph.tensor_shapes[tensor]
    }
    return {
        "id": part.id,
        "start_node_names": [names[op] for op in first],
        "end_node_names": [names[op] for op in _last(graph, part)],
        "net_input_shapes": shapes,
        "inputs": list(part.inputs),
        "outputs": list(part.outputs),
    }


def _first(graph: Graph, part: Subgraph) -> dict[int, int]:
    """Ops that read what comes into a subgraph, in its order, each with the first such tensor."""
    entering = {graph.tensor_index[name] for name in part.inputs}
    return {
        op: reads[0]
        for op in (graph.key_index[key] for key in part.ops)
        if (reads := [t for t in graph.op_reads[op].tolist() if t in entering])
    }


def _last(graph: Graph, part: Subgraph) -> list[int]:
    """Ops that make what leaves a subgraph."""
    made = [int(graph.tensor_producer[graph.tensor_index[name]]) for name in part.outputs]
    return list(dict.fromkeys(op for op in made if op >= 0))
