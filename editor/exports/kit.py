"""Writes a kit: what measures the ops of a plan on a machine without the editor."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from copy import deepcopy
from math import prod
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from editor.arguments import check_one_of
from editor.custom_ops import for_opsets
from editor.devices.device import Device
from editor.errors import ExecutionError, ExportError, ModelError
from editor.execution.cut import Cutter, missing_types
from editor.execution.invented_inputs import random_inputs
from editor.exports.formats import KIT_RUNTIMES
from editor.exports.model_copy import check_weights, script_of, stamp_model
from editor.files import json_text, replacing, write_atomic
from editor.graph.attributes import op_reads
from editor.graph.external_data import entry_of, external_tensors, is_external, load_tensor, refer
from editor.graph.flops import FUSIBLE_TYPES
from editor.graph.graph import Bools, Graph, Ints
from editor.placement.placement import Placement, Settings, placement_of_groups, solve
from editor.runtimes.base import SubModel
from editor.runtimes.op_models import data_of
from editor.runtimes.openvino.runtime import OTHER_NAMES

_INLINE = 1024
"""Bytes up to which values stay in the model: runtimes need shapes while they load it."""
_ALIGN = 4096
"""Offsets are multiples of it, so that runtimes can map the file."""


class WeightsFile:
    """Writes every weight once; the file appears when it is complete."""

    def __init__(self, path: Path, folder: Path) -> None:
        """Begins a file.

        Args:
            path: of the file.
            folder: external data of the models is relative to it.
        """
        self.path, self._folder = path, folder
        self._places: dict[str, tuple[int, int]] = {}
        self._open = ExitStack()
        self._file: BinaryIO

    def __enter__(self) -> WeightsFile:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._open.enter_context(replacing(self.path))
        except OSError as error:
            raise self._failed(error) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._open.__exit__(kind, error, trace)
        except OSError as failure:
            raise self._failed(failure) from (error or failure)

    def _failed(self, error: OSError) -> ExportError:
        return ExportError(f"{self.path}: cannot be written ({error.strerror or error})")

    def refer(self, source: ModelProto) -> ModelProto:
        """A copy of a model whose large weights are in the file.

        Raises:
            ExportError: the disk is full, or weights of the model cannot be read.
        """
        model = deepcopy(source)
        try:
            own = {tensor.name for tensor in model.graph.initializer}
            for tensor in external_tensors(model):  # in attributes and bodies
                if tensor.name not in own:
                    load_tensor(tensor, self._folder)
            for tensor in model.graph.initializer:
                self._move(tensor)
        except OSError as error:
            raise self._failed(error) from error
        except ModelError as error:
            raise ExportError(f"{self.path}: cannot be written: {error}") from error
        return model

    def _move(self, tensor: TensorProto) -> None:
        if tensor.data_type == TensorProto.STRING or not (
            tensor.name in self._places or self._is_large(tensor)
        ):
            if is_external(tensor):
                load_tensor(tensor, self._folder)
            return
        if tensor.name not in self._places:
            self._places[tensor.name] = self._write(self._values(tensor))
        offset, length = self._places[tensor.name]
        refer(tensor, self.path.name, offset, length)

    @staticmethod
    def _is_large(tensor: TensorProto) -> bool:
        if is_external(tensor):
            length = entry_of(tensor, "length")
            return not length.isdigit() or int(length) > _INLINE
        return bool(tensor.ByteSize() > _INLINE)

    def _values(self, tensor: TensorProto) -> bytes:
        if is_external(tensor):
            whole = deepcopy(tensor)
            load_tensor(whole, self._folder)
            return bytes(whole.raw_data)
        return tensor.raw_data or numpy_helper.from_array(numpy_helper.to_array(tensor)).raw_data

    def _write(self, values: bytes) -> tuple[int, int]:
        self._file.write(bytes(-self._file.tell() % _ALIGN))
        offset = self._file.tell()
        self._file.write(values)
        return offset, len(values)


MOST_OPS = 16
"""Ops of a group."""
MOST_PIECES = 8
"""Pieces of a subgraph that is cut to measure what a cut costs."""
_OPS_OF_PIECE = 4
_WIDEST = 8
_SMALL = 4096
"""Bytes up to which integers decide what an op does (shapes, axes), so that equal ops must have equal values."""


def groups_of(placement: Placement, device: Device) -> Placement:
    """A placement in which every subgraph of a device is one group.

    An op that runtimes fuse joins the op before it where nothing else reads that: it would take no time of its own in a run
    of the whole. Such a chain has one way out, so that a group never waits for itself.

    Args:
        placement: its subgraphs of the device are divided; no group crosses two of them.
        device: one of its devices. Ops of the others are groups of one.
    """
    graph = placement.graph
    subgraph, number = placement.division.subgraph_of_op, placement.device_number(device.name)
    mine = (placement.assignment.device == number) & (subgraph >= 0)
    last: dict[int, int] = {}
    """first op of a group -> its last"""
    first = np.full(len(graph), -1, np.int64)
    size: dict[int, int] = {}
    outputs = set(graph.outputs.tolist())
    for op in graph.order[subgraph[graph.order] >= 0].tolist():
        begin = op
        if mine[op] and graph.op_types[op] in FUSIBLE_TYPES:
            before = [
                p
                for p in graph.predecessors[op].tolist()
                if mine[p]
                and subgraph[p] == subgraph[op]
                and graph.successors[p].tolist() == [op]
                and last.get(int(first[p])) == p
                and size[int(first[p])] < MOST_OPS
                and outputs.isdisjoint(graph.op_outputs[p].tolist())
            ]
            if before:
                begin = int(first[max(before, key=lambda p: int(graph.rank[p]))])
        first[op], last[begin] = begin, op
        size[begin] = size.get(begin, 0) + 1
    order = sorted(last, key=lambda begin: int(graph.rank[last[begin]]))
    numbers = {begin: i for i, begin in enumerate(order)}
    return _divided(
        placement,
        device,
        mine,
        np.array([numbers[int(b)] if b >= 0 else -1 for b in first], np.int64),
    )


def pieces_of(placement: Placement, device: Device) -> Placement:
    """A placement in which each subgraph of a device is cut into a few pieces, to measure what a cut costs.

    A subgraph of few ops stays whole.
    """
    graph = placement.graph
    subgraph, number = placement.division.subgraph_of_op, placement.device_number(device.name)
    mine = (placement.assignment.device == number) & (subgraph >= 0)
    begun = subgraph * (MOST_PIECES + 1)
    for one in placement.subgraphs:
        ops = graph.order[(subgraph[graph.order] == one.id) & mine[graph.order]]
        count = min(MOST_PIECES, len(ops) // _OPS_OF_PIECE)
        if count > 1:
            begun[ops] += np.arange(len(ops)) * count // len(ops)
    numbers = {value: i for i, value in enumerate(sorted({int(v) for v in begun[subgraph >= 0]}))}
    return _divided(
        placement, device, mine, np.array([numbers.get(int(v), -1) for v in begun], np.int64)
    )


def _divided(placement: Placement, device: Device, mine: Bools, group: Ints) -> Placement:
    """A placement of groups in which the device of a kit is the first, and one other has the rest."""
    others = [d for d in placement.devices if d.name != device.name]
    number = np.where(mine, 0, 1).astype(np.int64) if others else np.zeros(len(mine), np.int64)
    return placement_of_groups(placement.graph, [device, *others], number, group)


def signature(model: ModelProto) -> str:
    """A hash that is equal for sub-models that do the same work: types, attributes, shapes and element types.

    Names and values do not count, except the values of small integers, which are shapes and axes.
    """
    numbers: dict[str, int] = {}
    tensors = {t.name: t for t in model.graph.initializer}
    types = {v.name: v.type.SerializeToString(deterministic=True) for v in model.graph.input}
    text = hashlib.sha256()

    def note(*parts: object) -> None:
        text.update(repr(parts).encode())

    note(sorted((o.domain, o.version) for o in model.opset_import))
    for function in model.functions:
        note(function.SerializeToString(deterministic=True))
    for tensor in model.graph.sparse_initializer:
        note(tensor.SerializeToString(deterministic=True))
    for node in model.graph.node:
        note(
            node.op_type,
            node.domain,
            [
                a.SerializeToString(deterministic=True)
                for a in sorted(node.attribute, key=lambda a: a.name)
            ],
        )
        for name in (
            *node.input,
            *(n for n in op_reads(node) if n not in node.input),
            *node.output,
        ):
            known = name in numbers
            note(numbers.setdefault(name, len(numbers)) if name else -1)
            if not known and name in tensors:
                note(_tensor(tensors[name]))
            elif not known and name in types:
                note(types[name])
    note([numbers.get(v.name) for v in model.graph.output])
    return text.hexdigest()


def _tensor(tensor: TensorProto) -> tuple[object, ...]:
    counts = tensor.data_type in (TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL)
    if tensor.data_location == TensorProto.EXTERNAL:  # its place tells its values apart from others
        place = repr([(e.key, e.value) for e in tensor.external_data]).encode()
        return (
            tuple(tensor.dims),
            tensor.data_type,
            place if counts and prod(tensor.dims) * _WIDEST <= _SMALL else b"",
        )
    small = counts and tensor.ByteSize() <= _SMALL
    return tuple(tensor.dims), tensor.data_type, data_of(tensor) if small else b""


def names_of(nodes: Sequence[NodeProto]) -> list[int]:
    """Ops of the model that a sub-model has; its nodes are named after them."""
    return [int(node.name.removeprefix("op")) for node in nodes]


SMALL, LARGE = 64, 1 << 20
"""Numbers in a value."""
MANY = 8
"""Values of 64 numbers."""
_BYTES = 4


def link_models() -> dict[str, tuple[ModelProto, int, int]]:
    """Name -> (model, values that are transferred, bytes of them).

    ``in_*`` read values and return a small part; ``out_*`` return values that they make of a small one.
    """
    names = [f"v{i}" for i in range(MANY)]
    values, whole = dict.fromkeys(names, SMALL), MANY * SMALL
    return {
        "in_small": (_reading(SMALL), 1, SMALL * _BYTES),
        "out_small": (_making(SMALL), 1, SMALL * _BYTES),
        "in_large": (_reading(LARGE), 1, LARGE * _BYTES),
        "out_large": (_making(LARGE), 1, LARGE * _BYTES),
        "in_many": (_model(_node("Sum", names, ["y"]), values, {"y": SMALL}), MANY, whole * _BYTES),
        "out_many": (
            _model(_node("Split", ["x"], names), {"x": whole}, values),
            MANY,
            whole * _BYTES,
        ),
    }


def _reading(count: int) -> ModelProto:
    """A model that reads so many numbers, and returns few of them."""
    few = _node("Slice", ["x", "zero", "few"], ["y"])
    return _model(few, {"x": count}, {"y": SMALL // 2})


def _making(count: int) -> ModelProto:
    """A model that makes so many numbers of one."""
    return _model(_node("Expand", ["x", "size"], ["y"]), {"x": 1}, {"y": count}, count)


def _node(kind: str, inputs: list[str], outputs: list[str]) -> NodeProto:
    return helper.make_node(kind, inputs, outputs, "op0")


def _model(
    node: NodeProto, inputs: dict[str, int], outputs: dict[str, int], size: int = 1
) -> ModelProto:
    constants = {"zero": 0, "few": SMALL // 2, "size": size}
    graph = helper.make_graph(
        [node],
        "link",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [c]) for n, c in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [c]) for n, c in outputs.items()],
        [
            helper.make_tensor(n, TensorProto.INT64, [1], [v])
            for n, v in constants.items()
            if n in node.input
        ],
    )
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])


def kit_device(devices: Sequence[Device], name: str = "") -> Device:
    """The device that a kit is for.

    Args:
        devices: the device table.
        name: of the device; "" for the only planned one.

    Raises:
        ExportError: there is no such device, or no name and not exactly one planned device.
    """
    planned = [d for d in devices if d.planned]
    chosen = [d for d in devices if d.name.lower() == name.lower()] if name else planned
    if len(chosen) == 1:
        return chosen[0]
    names = ", ".join(d.name for d in devices)
    if name:
        raise ExportError(f"unknown device {name!r} (choose one of: {names})")
    count = "no planned device" if not planned else f"{len(planned)} planned devices"
    raise ExportError(
        f"the plan has {count}; say which device the kit is for, in the page with its “Kit” in the tab Devices, "
        f"or with `python -m editor kit PLAN --device NAME --out DIR`; it has: {names}"
    )


def write_kit(
    placement: Placement, out_dir: Path, stamp: str = "", device: str = "", runtime: str = ""
) -> list[Path]:
    """Writes the kit of a device; returns the paths.

    Args:
        placement: of the model. The kit measures every op that the device can run, not only those that it has now.
        out_dir: the folder.
        stamp: origin of the kit.
        device: name of the device; "" for the only planned one.
        runtime: the runtime that the target has; "" leaves it to ``run.py``.

    Raises:
        ExportError: it is not clear which device is meant, the device can run no op, or the folder cannot be written.
    """
    if runtime:
        check_one_of(runtime, KIT_RUNTIMES, "unknown runtime", ExportError)
    graph, target = placement.graph, kit_device(placement.devices, device)
    whole = _all_on(placement, target)
    groups, pieces = groups_of(whole, target), pieces_of(whole, target)
    cutter = Cutter.open(graph)
    check_weights(cutter.source, graph)
    unknown = sorted({name for one in (whole, groups, pieces) for name in missing_types(one)})
    with suppress(ExecutionError):
        # Of an op that only the target knows; what reads its results cannot be measured alone.
        cutter.infer_types(unknown)
    with WeightsFile(out_dir / "weights.bin", graph.folder) as weights:
        models = _Models(graph, out_dir, stamp, weights)
        wholes = models.keep_wholes(
            _submodels(whole, target, cutter), _submodels(pieces, target, cutter)
        )
        measured, unmeasurable = models.keep_groups(_submodels(groups, target, cutter))
    if not measured:
        why = _most_refused(placement, target)
        raise ExportError(
            f"{target.name} can run no op of {graph.name} whose shapes are known{why}"
        )
    links = models.keep_links()
    document = {
        "format": "hetero-editor/kit",
        "version": 1,
        "made_by": stamp,
        "model": graph.name,
        "model_sha256": graph.sha256,
        "define": dict(graph.define),
        "device": target.name,
        "runtime": runtime,
        "properties": {key: str(value) for key, value in target.properties.items()},
        "properties_of": target.runtime,
        "custom_ops": for_opsets(cutter.source.opset_import, target.custom_ops),
        "models": models.entries,
        "wholes": wholes,
        "groups": measured,
        "unmeasurable": unmeasurable,
        "links": links,
    }
    return [
        weights.path,
        *models.written,
        write_atomic(out_dir / "kit.json", json_text(document)),
        write_atomic(out_dir / "run.py", script_of("kit_runner", stamp, graph.name)),
        write_atomic(out_dir / "README.md", _readme(graph.name, target, runtime, stamp)),
    ]


def _most_refused(placement: Placement, target: Device) -> str:
    """The reason that most ops are refused for, as the end of a sentence; "" where none is."""
    number = placement.device_number(target.name)
    reasons = [placement.constraints.inability(op, number) for op in placement.placed_ops.tolist()]
    if not any(reasons):
        return ""
    ((reason, count),) = Counter(filter(None, reasons)).most_common(1)
    return f": it refuses {count} of {len(reasons)} ops because: {reason}"


_README = """# Measures {model} for {device}

This folder measures what each op of the model takes on the machine that it is copied to. That machine needs Python 3.8
or newer, numpy, and {runtime}; nothing else.

    python run.py
    python run.py --help     # another execution provider or device, more time, threads

{target}It may be stopped and started again: what is measured is kept. In the end it writes `profile.json`. Take that back to
the plan, and figures for {device} are predictions instead of estimates:

    python -m editor import PLAN profile.json

or open the plan in the editor and choose it in the tab *Rules*, *Import affinities or times*.

| file | what |
| --- | --- |
| `run.py` | measures; no part of the editor is needed |
| `kit.json` | which ops of the model each file stands for |
| `group_*.onnx` | the ops, one by one or with what runtimes fuse them with |
| `whole_*.onnx`, `piece_*.onnx` | the ops together, and in a few pieces: what a cut costs |
| `link_*.onnx` | launches and copies to and from the device |
| `weights.bin` | the weights of all of them |

Made by {stamp}.
"""


_TARGET = """In {library} it is called {name}, and the {library} there must have it:

    python run.py --runtime {runtime} --target {name}

"""
_NO_TARGET = """Hetero Editor knows {device} ({backend}) neither as an execution provider of ONNX Runtime nor as a device of
OpenVINO, and the kit measures through these. Where one of them has it there, name it with `--target`
(`python run.py --help`). Elsewhere measure with the vendor's tool: *Import affinities or times* takes its times too.

"""
_INSTEAD = """Without a target of its own only the CPU is measured: the figures are then times of the CPU, and the editor says
so wherever it uses them.

"""
_LIBRARIES = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}


def _called(device: Device) -> tuple[str, str] | None:
    """The runtime that a kit can measure a device with, and what it calls the device; None where none is known."""
    if device.runtime in KIT_RUNTIMES:
        return device.runtime, device.provider
    return ("openvino", device.backend.upper()) if device.backend.lower() in OTHER_NAMES else None


def kit_note(device: Device) -> str:
    """Says so where nothing is known that a kit can measure a device with; "" elsewhere."""
    if device.device == "CPU" or _called(device):
        return ""
    return (
        "a kit measures through an execution provider of ONNX Runtime or a device of OpenVINO, and none is known for "
        f"{device.backend}: times of its vendor's tool can be imported in Rules"
    )


def _readme(model: str, device: Device, runtime: str, stamp: str) -> str:
    called = _called(device)
    target = _NO_TARGET.format(device=device.name, backend=device.backend)
    if called:
        target = _TARGET.format(library=_LIBRARIES[called[0]], runtime=called[0], name=called[1])
    return _README.format(
        model=model,
        device=device.name,
        stamp=stamp or "Hetero Editor",
        runtime=_LIBRARIES.get(runtime, "ONNX Runtime or OpenVINO"),
        target="" if device.device == "CPU" else target + _INSTEAD,
    )


class _Models:
    """The models of a kit: writes each, and keeps what the kit says of it."""

    def __init__(self, graph: Graph, out_dir: Path, stamp: str, weights: WeightsFile) -> None:
        self._graph, self._out_dir, self._stamp, self._weights = graph, out_dir, stamp, weights
        self._numbers = _whole_numbers(graph)
        self.entries: list[dict[str, Any]] = []
        self.written: list[Path] = []

    def keep(self, submodel: SubModel, name: str) -> int:
        """Writes a sub-model; returns its number."""
        self._write(self._weights.refer(submodel.model), name)
        inputs = [
            {**spec, "values": self._numbers[spec["name"]]}
            if spec["name"] in self._numbers
            else spec
            for spec in _inputs(self._graph, submodel)
        ]
        self.entries.append({"file": f"{name}.onnx", "inputs": inputs})
        return len(self.entries) - 1

    def keep_wholes(
        self, wholes: Sequence[SubModel], pieces: Sequence[SubModel]
    ) -> list[dict[str, Any]]:
        """Writes subgraphs, and the pieces of those that are cut into some; a piece of unknown shapes cannot be measured."""
        entries: list[dict[str, Any]] = []
        for i, whole in enumerate(wholes):
            ops = _ops(self._graph, whole.model)
            parts = [
                piece for piece in pieces if _ops(self._graph, piece.model).items() <= ops.items()
            ]
            known = all(
                spec["shape"] is not None for piece in parts for spec in _inputs(self._graph, piece)
            )
            entries.append(
                {
                    "model": self.keep(whole, f"whole_{i}"),
                    "ops": ops,
                    "pieces": [self.keep(piece, f"piece_{i}_{k}") for k, piece in enumerate(parts)]
                    if known and len(parts) > 1
                    else [],
                }
            )
        return entries

    def keep_groups(
        self, groups: Sequence[SubModel]
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Writes groups, those that do the same work once; returns the groups, and those that cannot be measured."""
        measured: list[dict[str, Any]] = []
        unmeasurable: list[dict[str, Any]] = []
        known: dict[str, int] = {}
        for submodel in groups:
            ops = _ops(self._graph, submodel.model)
            unknown = [i["name"] for i in _inputs(self._graph, submodel) if i["shape"] is None]
            if unknown:
                unmeasurable.append(
                    {"ops": ops, "reason": f"the shape of {unknown[0]!r} is unknown before a run"}
                )
                continue
            same = signature(submodel.model)
            if same not in known:
                known[same] = self.keep(submodel, f"group_{len(known):04}")
            measured.append({"model": known[same], "ops": ops})
        return measured, unmeasurable

    def keep_links(self) -> dict[str, Any]:
        """Writes the models that measure launches and transfers."""
        found = {}
        for name, (model, values, size) in link_models().items():
            self._write(model, f"link_{name}")
            inputs = [
                {
                    "name": i.name,
                    "type": "float32",
                    "shape": [d.dim_value for d in i.type.tensor_type.shape.dim],
                }
                for i in model.graph.input
            ]
            found[name] = {
                "file": f"link_{name}.onnx",
                "inputs": inputs,
                "values": values,
                "bytes": size,
            }
        return found

    def _write(self, model: ModelProto, name: str) -> None:
        stamp_model(model, self._stamp)
        data = model.SerializeToString(deterministic=True)
        self.written.append(write_atomic(self._out_dir / f"{name}.onnx", data))


_MOST_NUMBERS = 4096
"""Of an input whose values a kit states."""


def _whole_numbers(graph: Graph) -> dict[str, list[int]]:
    """Values for the inputs of a model that are lists of whole numbers: most of these are lengths, indices and masks."""
    try:
        values = random_inputs(graph)
    except ExecutionError:  # of types or sizes for which none can be made
        return {}
    return {
        name: value.reshape(-1).tolist()
        for name, value in values.items()
        if isinstance(value, np.ndarray)
        and value.dtype.kind in "iu"
        and value.size <= _MOST_NUMBERS
    }


def _all_on(placement: Placement, device: Device) -> Placement:
    """A placement with every op on the device that it can run; the others go where they can."""
    order = [device, *(d for d in placement.devices if d.name != device.name)]
    answers = dict(
        zip((d.name for d in placement.devices), placement.constraints.capabilities, strict=True)
    )
    return solve(placement.graph, order, Settings(), [answers[d.name] for d in order])


def _submodels(placement: Placement, device: Device, cutter: Cutter) -> list[SubModel]:
    return [
        cutter.submodel(placement, subgraph, fold_shapes=True)
        for subgraph in placement.subgraphs
        if subgraph.outputs and subgraph.device == device.name
    ]


def _ops(graph: Graph, model: ModelProto) -> dict[str, str]:
    """Name of the node in the kit -> key, without constants."""
    return {
        f"op{op}": graph.op_keys[op]
        for op in names_of(model.graph.node)
        if not graph.op_is_constant[op]
    }


def _inputs(graph: Graph, submodel: SubModel) -> Iterator[dict[str, Any]]:
    """Yields the inputs of a sub-model: name, type, and shape, None where it is unknown before a run."""
    for name in submodel.inputs:
        tensor = graph.tensor_index[name]
        shape = graph.tensor_shapes[tensor]
        known = shape is not None and all(isinstance(d, int) for d in shape)
        yield {
            "name": name,
            "type": graph.tensor_types[tensor],
            "shape": list(shape or ()) if known else None,
        }
