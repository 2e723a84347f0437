"""Settings by which providers of ONNX Runtime, ExecuTorch, LiteRT and Hailo's parser keep ops off their device.

Each takes what it can, unless it is told otherwise; these files tell it. Each writer names where its form is from.
"""

from __future__ import annotations

import re
import struct
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onnx import NodeProto

from editor.arguments import check_one_of
from editor.errors import ExportError
from editor.exports.model_copy import open_copy, write_document, write_model
from editor.files import safe_stem
from editor.graph.graph import Graph
from editor.groups import grouped
from editor.placement.placement import Placement
from editor.placement.subgraphs.division import Subgraph
from editor.runtimes.onnxruntime.providers import (
    QNN,
    TENSORRT,
    TENSORRT_RTX,
    WEBGPU,
    provider_of,
)
from editor.sandbox.worker import run
from editor.text import pluralize

_CPU = "cpu"
_MOST_NAMED = 5


def unique_names(graph: Graph) -> list[str]:
    """[op] its name, or its key where it has none or shares it."""
    shared, keys = Counter(graph.op_names), graph.op_keys
    names = [
        name if name and shared[name] == 1 else key
        for name, key in zip(graph.op_names, keys, strict=True)
    ]
    again = Counter(names)
    return [name if again[name] == 1 else f"{name}#{op}" for op, name in enumerate(names)]


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
    kept: set[str] = set()
    mixed: dict[str, list[int]] = {}
    for op in ops_off(placement, device):
        kind = types[op]
        if kind in on:
            mixed.setdefault(kind, []).append(op)
        else:
            kept.add(kind)
    return kept, mixed


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


Operator = tuple[tuple[str, ...], tuple[str, ...]]
"""Names of the tensors that an operator reads, and of those that it makes."""


def unfit_for_litert(graph: Graph) -> str:
    """Why LiteRT has no numbers for the ops of a model; "" where it has."""
    if graph.source == "tflite":
        return ""
    return f"{graph.path}: LiteRT takes numbers of operators in a TensorFlow Lite file, which this is not; open the .tflite"


def write_litert(
    placement: Placement, out_dir: Path, stamp: str = "", device: str = ""
) -> list[Path]:
    """Writes ``<model>.litert.json``: operators that stay off a device, and the range of those on it where that says the same.

    `first_delegate_node_index` and `last_delegate_node_index` are read in LiteRT f674577 (`tflite/tools/delegates/README.md`,
    `tflite/delegates/gpu/delegate_options.h`). A list of numbers is from pull request 5073 of LiteRT, which is in no release.

    OpenVINO makes several ops of some operators: they go with the one that has the operator's tensor. It makes none of others:
    these go with the operators that read them.

    Raises:
        ExportError: the file is gone, changed since it was opened, or has another form.
    """
    graph, chosen = placement.graph, device_of(placement, device)
    open_copy(graph)  # which finds that the file changed
    operators = run(operators_of, graph.path, what="reading operators of", path=graph.path)
    maker = {name: number for number, (_, made) in enumerate(operators) for name in made}
    side, torn = _sides(placement, maker, set(ops_off(placement, chosen)))
    readers = grouped(
        (name, number) for number, (reads, _) in enumerate(operators) for name in reads
    )
    for number in reversed(range(len(operators))):
        theirs = {side.get(r) for name in operators[number][1] for r in readers.get(name, ())}
        if number not in side and len(theirs) == 1 and None not in theirs:
            side[number] = bool(theirs.pop())
    if torn:
        warnings.warn(
            f"{pluralize(len(torn), 'op')} without an operator of {'its' if len(torn) == 1 else 'their'} own "
            f"({', '.join(torn[:3])}{', ...' if len(torn) > 3 else ''}): LiteRT runs them with the operator that reads them",
            stacklevel=2,
        )
    kept = [number for number in range(len(operators)) if side.get(number)]
    on = [number for number in range(len(operators)) if side.get(number) is False]
    document: dict[str, Any] = {
        "made_by": stamp,
        "model": graph.path.name,
        "operators": len(operators),
        "skip_operators": kept,
        "not_known": [n for n in range(len(operators)) if n not in side],
    }
    if on and not set(kept) & set(range(on[0], on[-1])):
        document |= {"first_delegate_node_index": on[0], "last_delegate_node_index": on[-1]}
    return [write_document(graph, out_dir, ".litert.json", document)]


def _sides(
    placement: Placement, maker: dict[str, int], off: set[int]
) -> tuple[dict[int, bool], list[str]]:
    """Operator -> whether it is off the device; and keys of ops that are not where their operator is."""
    graph, side, torn = placement.graph, dict[int, bool](), list[str]()
    owner: dict[int, set[int]] = {}
    for op in reversed(graph.order.tolist()):
        tensors = (graph.tensor_names[t] for t in graph.op_outputs[op].tolist() if t >= 0)
        own = {maker[name] for name in tensors if name in maker}
        readers = (owner.get(o, set()) for o in graph.successors[op].tolist())
        owner[op] = own or set().union(*readers)
        if placement.division.subgraph_of_op[op] < 0:
            continue
        if own:
            side |= dict.fromkeys(own, op in off)
        elif any(side.get(number, op in off) != (op in off) for number in owner[op]):
            torn.append(graph.op_keys[op])
    return side, torn


def operators_of(path: Path) -> list[Operator]:
    """The operators of the first subgraph of a file, in its order.

    Raises:
        ExportError: the file is not a TensorFlow Lite model.
    """
    try:
        data = path.read_bytes()
        graph = _tables(data, _at(data, 0), 2)[0]
        names = [_text(data, tensor, 3) for tensor in _tables(data, graph, 0)]
        return [
            (_names(data, operator, 1, names), _names(data, operator, 2, names))
            for operator in _tables(data, graph, 3)
        ]
    except (OSError, struct.error, IndexError) as error:
        raise ExportError(
            f"{path}: its operators cannot be read ({error}); get the file again"
        ) from error


def _at(data: bytes, position: int) -> int:
    """Where an offset of a flatbuffer leads to."""
    offset: int = struct.unpack_from("<I", data, position)[0]
    return position + offset


def _field(data: bytes, table: int, slot: int) -> int:
    """Position of a field of a table; 0 where the table has none."""
    layout = table - struct.unpack_from("<i", data, table)[0]
    if 4 + 2 * slot >= struct.unpack_from("<H", data, layout)[0]:
        return 0
    offset: int = struct.unpack_from("<H", data, layout + 4 + 2 * slot)[0]
    return table + offset if offset else 0


def _numbers(data: bytes, table: int, slot: int) -> tuple[int, tuple[int, ...]]:
    """A field that is a vector of numbers of 32 bits, and the position of the first."""
    if not (position := _field(data, table, slot)):
        return 0, ()
    start = _at(data, position)
    count = struct.unpack_from("<I", data, start)[0]
    return start + 4, struct.unpack_from(f"<{count}i", data, start + 4)


def _tables(data: bytes, table: int, slot: int) -> list[int]:
    start, offsets = _numbers(data, table, slot)
    return [start + 4 * i + offset for i, offset in enumerate(offsets)]


def _text(data: bytes, table: int, slot: int) -> str:
    if not (position := _field(data, table, slot)):
        return ""
    start = _at(data, position)
    count = struct.unpack_from("<I", data, start)[0]
    return data[start + 4 : start + 4 + count].decode("utf-8", "replace")


def _names(data: bytes, operator: int, slot: int, names: list[str]) -> tuple[str, ...]:
    return tuple(names[n] for n in _numbers(data, operator, slot)[1] if n >= 0)
