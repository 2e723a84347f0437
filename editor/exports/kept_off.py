"""What the files of a format do not keep of a split; and formats that keep ops off a device.

A compiler takes what it can, unless it is told otherwise: providers of ONNX Runtime (QNN, WebGPU, TensorRT), partitioners of
ExecuTorch, the parser of Hailo, and LiteRT (`litert`). Each writer names where its form is from.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from onnx import NodeProto

from editor.arguments import check_one_of
from editor.devices.device import Device
from editor.errors import ExportError
from editor.exports.model_copy import open_copy, write_document, write_model
from editor.files import safe_stem
from editor.graph.graph import Graph
from editor.groups import grouped
from editor.placement.placement import Placement
from editor.placement.subgraphs.division import Subgraph
from editor.runtimes.onnxruntime.providers import QNN, TENSORRT, TENSORRT_RTX, WEBGPU, provider_of
from editor.text import joined, pluralize

_MOST_NAMED = 5
NO_SPLIT = "does not split"
"""What a line begins with where the files run ops of several devices as one."""


def shortfall(
    placement: Placement,
    runs_on: Callable[[Device], str],
    is_own: Callable[[Device], bool],
    parts: bool = False,
) -> str:
    """Which ops run elsewhere than in the plan where the files are used; "" where none do.

    Args:
        placement: the plan.
        runs_on: what runs the ops of a device there; "" for nothing.
        is_own: whether that is the device itself.
        parts: whether subgraphs stay apart even where one device runs them.
    """
    counts, used = placement.op_counts, placement.used_devices
    groups = grouped((runs_on(device), device) for device in used)
    nothing = groups.pop("", [])
    if nothing:
        names = joined([device.name for device in nothing])
        return f"no device for {_ops(sum(counts[d.name] for d in nothing))} of {names}"
    moved = [device for device in used if not is_own(device)]
    for target, same in groups.items():
        if parts or len(same) == 1:
            continue
        if len(same) == len(used):
            return f"{NO_SPLIT}: all on {target}"
        return f"{NO_SPLIT} {joined([d.name for d in same])}: {target} runs them"
    if not moved:
        return ""
    ops = sum(counts[d.name] for d in moved)
    targets = joined(list(dict.fromkeys(map(runs_on, moved))))
    return f"{_ops(ops)} {'runs' if ops == 1 else 'run'} on {targets} instead"


def _ops(count: int) -> str:
    return pluralize(count, "op")


def unique_names(graph: Graph) -> list[str]:
    """[op] its name, or its key where it has none or shares it."""
    shared, keys = Counter(graph.op_names), graph.op_keys
    names = [
        name if name and shared[name] == 1 else key
        for name, key in zip(graph.op_names, keys, strict=True)
    ]
    again = Counter(names)
    return [name if again[name] == 1 else f"{name}#{op}" for op, name in enumerate(names)]


def device_of(placement: Placement, asked: str, *providers: str) -> str:
    """The device that a provider runs: the one that was asked for, else the one of such a provider, else the first."""
    names = [d.name for d in placement.devices]
    if asked:
        check_one_of(asked, names, "the plan has no device", ExportError)
        return asked
    own = (d.name for d in placement.devices if provider_of(d) in providers)
    return next(own, names[0])


def ops_off(placement: Placement, device: str) -> list[int]:
    """Ops that are on other devices, in topological order; without constants."""
    return [op for op in _placed(placement) if _name(placement, op) != device]


def types_off(
    placement: Placement, device: str, types: Sequence[str] = ()
) -> tuple[set[str], dict[str, list[int]]]:
    """Types of which no op is on a device; and for types of which some are, the ops that are not.

    Args:
        placement: the plan.
        device: the name of the device.
        types: [op] its type; empty: that of the graph.
    """
    types = types or placement.graph.op_types
    on = {types[op] for op in _placed(placement) if _name(placement, op) == device}
    off = grouped((types[op], op) for op in ops_off(placement, device))
    return off.keys() - on, {kind: ops for kind, ops in off.items() if kind in on}


def _placed(placement: Placement) -> list[int]:
    return [
        op for op in placement.graph.order.tolist() if placement.division.subgraph_of_op[op] >= 0
    ]


def _name(placement: Placement, op: int) -> str:
    device: int = placement.assignment.device[op]
    return placement.devices[device].name


def with_names(
    placement: Placement, out_dir: Path, stamp: str
) -> tuple[list[str], str, list[Path]]:
    """[op] its name; the file of a copy that has these names, where the model has not, and what was written."""
    graph, names = placement.graph, unique_names(placement.graph)
    if all(names[op] == graph.op_names[op] for op in _placed(placement)):
        return names, "", []
    model = open_copy(graph)
    for node, name in zip(model.graph.node, names, strict=True):
        node.name = name
    path = out_dir / f"{safe_stem(graph.name)}_named.onnx"
    return names, path.name, write_model(model, graph, path, stamp)


def tell_of_mixed(mixed: dict[str, list[int]], how: str) -> None:
    """Warns of ops that a list of types cannot keep off."""
    kinds = ", ".join(f"{len(ops)} {kind}" for kind, ops in list(mixed.items())[:_MOST_NAMED])
    count = sum(map(len, mixed.values()))
    warnings.warn(
        f"{pluralize(count, 'op')} of types that are on the device, too ({kinds}): {how}",
        stacklevel=3,
    )


_CPU = "cpu"


def write_qnn(placement: Placement, out_dir: Path, stamp: str = "", device: str = "") -> list[Path]:
    """Writes ``<model>.op_affinity.json``, whose path is the provider option ``op_affinity`` of QNN.

    The form is that of ``OpAffinityMap::FromConfigFile`` (`onnxruntime/core/providers/qnn/qnn_op_affinity_map.cc` of
    onnxruntime-qnn 2.7, pull request 599): a backend for each type of op. A backend for each name is from pull request 785,
    which no release has yet; 2.7 ignores it.
    """
    graph = placement.graph
    kept, mixed = types_off(placement, device_of(placement, device, QNN))
    named, model, written = with_names(placement, out_dir, stamp) if mixed else ([], "", [])
    document: dict[str, Any] = {
        "made_by": stamp,
        "op_type": dict.fromkeys(sorted(kept), _CPU),
    }
    if mixed:
        document |= {
            "op_name": {named[op]: _CPU for ops in mixed.values() for op in ops},
            **({"model": model} if model else {}),
        }
        tell_of_mixed(mixed, "`op_name` keeps them off it, which onnxruntime-qnn 2.7 ignores")
    return [write_document(graph, out_dir, ".op_affinity.json", document), *written]


def write_webgpu(
    placement: Placement, out_dir: Path, stamp: str = "", device: str = ""
) -> list[Path]:
    """Writes ``<model>_webgpu.json``, and a copy of the model with names where ops have none of their own.

    ``forceCpuNodeNames`` is a list in JavaScript (`InferenceSession.WebGpuExecutionProviderOption` of onnxruntime-web) and
    lines of a text elsewhere (`core/providers/webgpu/webgpu_provider_factory.cc`).
    """
    graph = placement.graph
    names, model, written = with_names(placement, out_dir, stamp)
    off = [names[op] for op in ops_off(placement, device_of(placement, device, WEBGPU))]
    if broken := next((name for name in off if len(name.splitlines()) != 1), None):
        raise ExportError(
            f"the name {broken!r} has more than one line, which forceCpuNodeNames cannot have"
        )
    document = {
        "made_by": stamp,
        "model": model or graph.path.name,
        "executionProviders": [{"name": "webgpu", "forceCpuNodeNames": off}],
        "provider_options": {"forceCpuNodeNames": "\n".join(off)},
    }
    return [write_document(graph, out_dir, "_webgpu.json", document), *written]


def write_tensorrt(
    placement: Placement, out_dir: Path, stamp: str = "", device: str = ""
) -> list[Path]:
    """Writes ``<model>_tensorrt.json`` with the provider options of TensorRT and of TensorRT-RTX.

    They are lists of types with commas (pull request 23705 of ONNX Runtime, and its provider `nv_tensorrt_rtx`), so that a type
    of which some ops are on the device stays there.
    """
    graph = placement.graph
    kept, mixed = types_off(placement, device_of(placement, device, TENSORRT, TENSORRT_RTX))
    if mixed:
        tell_of_mixed(mixed, "TensorRT is told types only, so it may run them")
    types = ",".join(sorted(kept))
    document = {
        "made_by": stamp,
        "provider_options": {
            TENSORRT: {"trt_op_types_to_exclude": types},
            TENSORRT_RTX: {"nv_op_types_to_exclude": types},
        },
        "not_kept_off": sorted(graph.op_keys[op] for ops in mixed.values() for op in ops),
    }
    return [write_document(graph, out_dir, "_tensorrt.json", document)]


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
    targets = [_op_of_pytorch(node) for node in open_copy(graph, weights=False).graph.node]
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


def _op_of_pytorch(node: NodeProto) -> str:
    """The op of PyTorch that an op is from, as ExecuTorch names it; "" where it is not known."""
    entry = next((p.value for p in node.metadata_props if p.key == _FX_NODE), "")
    found = _TARGET.search(entry[:_LONGEST])
    return found[1] if found else ""


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
        "subgraphs": [_hailo_arguments(graph, part, names) for part in parts],
    }
    return [*written, write_document(graph, out_dir, ".hailo.json", document)]


def _hailo_arguments(graph: Graph, part: Subgraph, names: list[str]) -> dict[str, Any]:
    """What the parser is told of a subgraph; a shape that is not known before a run is left out."""
    first = _first_ops(graph, part)
    shapes = {
        names[op]: list(graph.tensor_shapes[tensor] or ())
        for op, tensor in first.items()
        if graph.tensor_shapes[tensor]
    }
    return {
        "id": part.id,
        "start_node_names": [names[op] for op in first],
        "end_node_names": [names[op] for op in _last_ops(graph, part)],
        "net_input_shapes": shapes,
        "inputs": list(part.inputs),
        "outputs": list(part.outputs),
    }


def _first_ops(graph: Graph, part: Subgraph) -> dict[int, int]:
    """Ops that read what comes into a subgraph, in its order, each with the first such tensor."""
    entering = {graph.tensor_index[name] for name in part.inputs}
    return {
        op: reads[0]
        for op in (graph.key_index[key] for key in part.ops)
        if (reads := [t for t in graph.op_reads[op].tolist() if t in entering])
    }


def _last_ops(graph: Graph, part: Subgraph) -> list[int]:
    """Ops that make what leaves a subgraph."""
    made = [int(graph.tensor_producer[graph.tensor_index[name]]) for name in part.outputs]
    return list(dict.fromkeys(op for op in made if op >= 0))
