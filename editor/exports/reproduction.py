"""Writes one op of a plan as a model of its own, to show the makers of a runtime what their device refuses."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from editor.arguments import did_you_mean
from editor.custom_ops import for_opsets
from editor.devices.device import Device
from editor.errors import EditorError, ExecutionError, ExportError, ModelError
from editor.execution.cut import Cutter, missing_types
from editor.execution.executor import compile_whole
from editor.execution.inputs import packed
from editor.execution.invented_inputs import random_inputs
from editor.exports.model_copy import check_weights, stamp_model
from editor.files import write_atomic
from editor.graph.external_data import is_external, load_tensor
from editor.graph.flops import Floats
from editor.graph.graph import Graph
from editor.graph.loading import load_model
from editor.placement.placement import Placement, placement_of_groups
from editor.runtimes.base import SubModel, Value
from editor.runtimes.openvino.runtime import NAME as OPENVINO
from editor.runtimes.registry import stand_in
from editor.text import human_bytes, markdown_cell

SMALL = 1 << 16
"""Bytes up to which weights are the real ones."""
_MOST_BYTES = 1 << 30
_FLOATS = frozenset(
    {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16}
)
_QUANTISED = frozenset({TensorProto.INT8, TensorProto.UINT8})


@dataclass(frozen=True)
class Reproduction:
    """What was written of an op."""

    key: str
    type: str
    device: str
    """The one that is to be shown."""
    reason: str
    """Why it refuses the op; "" where it does not."""
    paths: tuple[Path, ...]
    random_weights: tuple[str, ...]
    """Weights that were too large, in whose place random ones are."""
    notes: tuple[str, ...]
    """What could not be written or checked."""


def write_reproduction(
    placement: Placement, key: str, out_dir: Path, stamp: str = "", device: str = ""
) -> Reproduction:
    """Writes ``model.onnx`` with one op, ``inputs.npz``, ``expected.npz`` and ``README.md``.

    Args:
        placement: of the model.
        key: of the op, or its name where no other has that.
        out_dir: the folder.
        stamp: origin of the files.
        device: the device that refuses it; "" for the first that does.

    Raises:
        ExportError: there is no such op or device, the op cannot be cut out, or the folder cannot be written.
    """
    graph = placement.graph
    op = _op_of(graph, key)
    chosen, reason = _refusing(placement, op, device)
    model, replaced = _with_weights(_cut(graph, op, placement.devices), graph, op)
    stamp_model(model, stamp)
    path = write_atomic(out_dir / "model.onnx", model.SerializeToString())
    notes: list[str] = []
    paths = [path, *_values(path, notes)]
    found = Reproduction(
        graph.op_keys[op],
        graph.type_label(op),
        chosen.name,
        reason,
        (*paths, out_dir / "README.md"),
        tuple(replaced),
        tuple(notes),
    )
    write_atomic(out_dir / "README.md", _readme(found, graph, op, chosen, model, stamp))
    return found


def _op_of(graph: Graph, key: str) -> int:
    if not graph.is_onnx:
        raise ExportError(
            f"{graph.name} is not ONNX: a model of one op is written of ONNX models only, not of OpenVINO's layers"
        )
    named = [op for op, name in enumerate(graph.op_names) if name == key]
    op = graph.key_index.get(key, named[0] if len(named) == 1 else -1)
    if op < 0:
        raise ExportError(f"no op {key!r} in {graph.name}{did_you_mean(key, graph.op_keys)}")
    if graph.op_is_constant[op]:
        raise ExportError(
            f"{key!r} ({graph.type_label(op)}) is computed of constants before a run; no device is asked to run it"
        )
    return op


def _refusing(placement: Placement, op: int, name: str) -> tuple[Device, str]:
    """The device that an op is shown to, and why that refuses it."""
    devices, constraints = placement.devices, placement.constraints
    if name:
        number = next((i for i, d in enumerate(devices) if d.name.lower() == name.lower()), -1)
        if number < 0:
            names = [d.name for d in devices]
            raise ExportError(f"unknown device {name!r} (choose one of: {', '.join(names)})")
    else:
        able = constraints.able[op]
        number = 0 if able.all() else int(np.flatnonzero(~able)[0])
    return devices[number], constraints.inability(op, number)


def _cut(graph: Graph, op: int, devices: tuple[Device, ...]) -> SubModel:
    """The sub-model of an op alone."""
    group = np.where(graph.op_is_constant, -1, 0)
    placed = graph.order[group[graph.order] >= 0]
    group[placed] = np.arange(len(placed))
    alone = placement_of_groups(graph, devices, np.zeros(len(graph), np.int64), group)
    try:
        cutter = Cutter.open(graph)
        check_weights(cutter.source, graph)
        unknown = [name for name in missing_types(alone) if name in _tensors(graph, op)]
        with suppress(ExecutionError):  # a runtime that knows the op infers them itself
            cutter.infer_types(unknown)
        subgraph = alone.subgraphs[int(alone.division.subgraph_of_op[op])]
        return cutter.submodel(alone, subgraph, fold_shapes=True)
    except ExecutionError as error:
        raise ExportError(f"{graph.op_keys[op]!r} cannot be cut out: {error}") from error


def _tensors(graph: Graph, op: int) -> frozenset[str]:
    numbers = (*graph.op_reads[op].tolist(), *graph.op_outputs[op].tolist())
    return frozenset(graph.tensor_names[t] for t in numbers if t >= 0)


def _with_weights(submodel: SubModel, graph: Graph, op: int) -> tuple[ModelProto, list[str]]:
    """A copy in one piece, whose large weights are random; and the names of these."""
    model = deepcopy(submodel.model)
    for node in model.graph.node:
        node.name = graph.op_names[op] or graph.op_keys[op]
    replaced, total = [], 0
    for tensor in model.graph.initializer:
        size = _bytes_of(tensor)
        total += size
        if total > _MOST_BYTES:
            raise ExportError(
                f"{graph.op_keys[op]!r} has more than {human_bytes(_MOST_BYTES)} of weights, too much for a bug report"
            )
        if size > SMALL and tensor.data_type in _FLOATS | _QUANTISED:
            tensor.CopyFrom(_random(tensor))
            replaced.append(tensor.name)
        elif is_external(tensor):
            try:
                load_tensor(tensor, submodel.folder)
            except ModelError as error:
                raise ExportError(str(error)) from error
    return model, replaced


def _bytes_of(tensor: TensorProto) -> int:
    if tensor.data_type == TensorProto.STRING:
        return int(tensor.ByteSize())
    kind = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    return int(np.prod(tensor.dims, dtype=np.float64)) * int(kind.itemsize)


def _random(tensor: TensorProto) -> TensorProto:
    """Seeded values of the same type and shape, about as large as those of trained weights."""
    seed = int.from_bytes(hashlib.sha256(tensor.name.encode()).digest()[:4], "little")
    random, kind = np.random.default_rng(seed), helper.tensor_dtype_to_np_dtype(tensor.data_type)
    shape = tuple(tensor.dims)
    if tensor.data_type in _QUANTISED:
        limits = np.iinfo(kind)
        whole = random.integers(limits.min, limits.max, shape, kind, endpoint=True)
        return numpy_helper.from_array(whole, tensor.name)
    values: Floats = random.standard_normal(shape) * 0.05
    return numpy_helper.from_array(values.astype(kind), tensor.name)


def _values(path: Path, notes: list[str]) -> list[Path]:
    """Writes inputs of a model, and what ONNX Runtime's CPU makes of them."""
    written: list[Path] = []
    try:
        graph = load_model(path)
        inputs = random_inputs(graph)
        written.append(_write(path.with_name("inputs.npz"), inputs, notes))
        outputs = compile_whole(graph, stand_in(graph.format)).run(inputs)
        written.append(_write(path.with_name("expected.npz"), outputs, notes))
    except EditorError as error:
        lacking = "expected.npz was" if written else "inputs.npz and expected.npz were"
        notes.append(f"{lacking} not written: {error}")
    return written


def _write(path: Path, values: dict[str, Value], notes: list[str]) -> Path:
    content, odd = packed(dict(values))
    notes += [f"{path.name} lacks {name!r}, which is neither numbers nor text" for name in odd]
    return write_atomic(path, content)


_README = """# `{type}` on `{device}`

One op of a model, to show that `{device}` refuses it, or computes it in another way than the CPU.

| | |
| --- | --- |
| op | `{type}` `{name}` |
| of | `{model}` (sha256 {sha256}) |
| device | {title} |
| what it says | {reason} |
| opsets | {opsets} |

| tensor | role | type | shape |
| --- | --- | --- | --- |
{tensors}

{weights}

Run it with:

```python
{code}```

{notes}
Made by {stamp}.
"""
_ONNX_RUNTIME = """import numpy as np, onnxruntime as ort

PROVIDER = {provider!r}
options = ort.SessionOptions()
options.log_severity_level = 0
options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
session = ort.InferenceSession("model.onnx", options, providers=[PROVIDER, "CPUExecutionProvider"])
for part in session.get_provider_graph_assignment_info():
    print(part.ep_name, [node.op_type for node in part.get_nodes()])
names = [output.name for output in session.get_outputs()]
"""
_RUN_ONNX_RUNTIME = """inputs = np.load("inputs.npz")
outputs = dict(zip(names, session.run(names, dict(inputs))))
"""
_OPENVINO = """import numpy as np, openvino as ov

DEVICE = {provider!r}
core = ov.Core()
model = core.read_model("model.onnx")
print(core.query_model(model, DEVICE))
# By itself OpenVINO may compute float32 in bf16 or f16: INFERENCE_PRECISION_HINT chooses.
compiled = core.compile_model(model, DEVICE)
"""
_RUN_OPENVINO = """inputs = np.load("inputs.npz")
results = compiled(dict(inputs))
outputs = {{name: results[port] for port in compiled.outputs for name in port.names}}
"""
_COMPARE = """expected = np.load("expected.npz")  # of ONNX Runtime on a CPU, in the types of the model
for name in expected:
    print(name, "largest difference:", np.abs(outputs[name].astype("f8") - expected[name].astype("f8")).max())
"""


def _script(device: Device, files: Collection[str]) -> str:
    """What runs the model, as far as there are values for it."""
    is_openvino = OPENVINO in (device.runtime, device.codegen)
    start, run = (_OPENVINO, _RUN_OPENVINO) if is_openvino else (_ONNX_RUNTIME, _RUN_ONNX_RUNTIME)
    text = start
    text += run if "inputs.npz" in files else ""
    text += _COMPARE if "expected.npz" in files else ""
    known = is_openvino or device.provider.endswith("ExecutionProvider")
    return text.format(provider=device.provider if known else f"YOUR_PROVIDER_OF_{device.name}")


def _prose(text: str) -> str:
    """A text that may repeat names of a model as plain text in Markdown."""
    return escape(markdown_cell(text), quote=False)


def _readme(
    found: Reproduction, graph: Graph, op: int, device: Device, model: ModelProto, stamp: str
) -> str:
    roles = {v.name: "input" for v in model.graph.input} | {
        t.name: "random weight" if t.name in found.random_weights else "weight"
        for t in model.graph.initializer
    }
    numbers = dict.fromkeys((*graph.op_reads[op].tolist(), *graph.op_outputs[op].tolist()))
    rows = [
        f"| `{markdown_cell(graph.tensor_names[t])}` | {roles.get(graph.tensor_names[t], 'output')} | "
        f"{graph.tensor_types[t] or '?'} | {graph.shape_label(t)} |"
        for t in numbers
        if t >= 0
    ]
    weights = (
        f"Weights above {human_bytes(SMALL)} are random (normal, seeded; 8-bit ones uniform), not those of the model: "
        f"{', '.join(f'`{markdown_cell(name)}`' for name in found.random_weights)}."
        if found.random_weights
        else "The weights are those of the model."
    )
    libraries = for_opsets(model.opset_import, device.custom_ops)
    notes = [*found.notes, *(f"needs the custom ops of {Path(lib).name}" for lib in libraries)]
    return _README.format(
        type=markdown_cell(found.type),
        device=markdown_cell(device.name),
        name=markdown_cell(graph.op_names[op] or found.key),
        model=markdown_cell(graph.path.name),
        sha256=graph.sha256,
        title=_prose(device.description or device.title),
        reason=_prose(found.reason or "nothing against it: it takes the op where it is alone"),
        opsets=", ".join(f"{o.domain or 'ai.onnx'} {o.version}" for o in model.opset_import),
        tensors="\n".join(rows),
        weights=weights,
        code=_script(device, {path.name for path in found.paths}),
        notes="".join(f"Note: {_prose(text)}.\n\n" for text in notes),
        stamp=stamp or "Hetero Editor",
    )
