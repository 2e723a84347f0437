"""Imports a sub-model into OpenVINO, runs it as a request with preset tensors, and maps the times of layers back to ops."""

from __future__ import annotations

import locale
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import cache, partial
from math import prod
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import openvino as ov
from onnx import ModelProto, NodeProto, TensorProto, numpy_helper
from openvino import opset13 as opset

from editor.devices.device import Device
from editor.errors import ExecutionError, ModelError
from editor.files import inside
from editor.graph.attributes import bodies_of
from editor.graph.external_data import (
    external_data_folder,
    external_tensors,
    is_external,
    load_external_data,
    locations_of,
    weights_problem,
)
from editor.graph.graph import Graph
from editor.graph.model_file import read_again
from editor.graph.model_file import read_model as read_proto
from editor.graph.openvino_ir import fix_shapes, is_ir_model, write_ir
from editor.runtimes.base import (
    NOT_ASKED,
    CompileOptions,
    KernelTime,
    Signature,
    SubModel,
    Value,
    summarize_error,
)
from editor.runtimes.compile_cache import compile_folder, trim
from editor.runtimes.profiling import fused_regions, median_of_quiet_runs, runs_within, seconds_of
from editor.runtimes.protocols import Executable
from editor.runtimes.values import (
    CODES,
    EXTENSIONS,
    ValueReader,
    pack,
    register_value_type,
    to_numpy,
    unpack,
)

_INLINE_BYTES = 1 << 30
"""Weights up to this size may be put into a model in memory; a model in one piece is limited to 2 GiB."""


@cache
def core() -> Any:
    """One ``openvino.Core`` for the process."""
    return ov.Core()


def read_model(submodel: SubModel) -> Any:
    """Imports a sub-model, with open sizes where OpenVINO computes wrongly with fixed ones."""
    return _with_open_caches(_import(submodel), submodel.model)


def _import(submodel: SubModel) -> Any:
    """Imports a sub-model.

    External data is found only next to a file, and by no symbolic link: OpenVINO refuses what resolves to another
    folder. So the data files get a second name, or where that cannot be (another file system), the submodel's weights
    are put into the model.
    """
    locations = locations_of(submodel.model)
    is_ir = is_ir_model(submodel.model)
    data = write_ir(submodel.model) if is_ir else submodel.model.SerializeToString()
    if not locations:
        made = core().read_model(data)
        return _with_values(made, submodel.model) if is_ir else made
    folder = Path(tempfile.mkdtemp(prefix="hetero-openvino-"))
    try:
        sources = {
            inside(folder, location): (submodel.folder / location).resolve()
            for location in locations
        }
        if not all(_link(source, target) for target, source in sources.items()):
            size = sum(prod(t.dims) * 8 for t in external_tensors(submodel.model))
            if size <= _INLINE_BYTES and not is_ir:
                model = deepcopy(submodel.model)
                load_external_data(model, submodel.folder)
                return core().read_model(model.SerializeToString())
            for target, source in sources.items():
                target.unlink(missing_ok=True)
                shutil.copyfile(source, target)
        if is_ir:
            (folder / "model.xml").write_bytes(data)
            made = core().read_model(folder / "model.xml", folder / locations[0])
            return _with_values(made, submodel.model)
        (folder / "model.onnx").write_bytes(data)
        return core().read_model(folder / "model.onnx")
    finally:  # OpenVINO keeps the data files mapped; their names may go
        shutil.rmtree(folder, ignore_errors=True)


def _with_open_caches(made: Any, model: ModelProto) -> Any:
    """Opens the number of tokens in the caches that GroupQueryAttention reads, in place.

    With a fixed one OpenVINO 2026.4 fails on a step or writes past its tensors; with an open one it is exact.
    """
    caches = {
        name
        for node in model.graph.node
        if node.op_type == "GroupQueryAttention"
        for name in node.input[3:5]
    }
    opened = {}
    for port in made.inputs if caches else ():
        shape = port.get_partial_shape()
        if caches & port.get_names() and shape.rank.is_static and len(shape) == 4:
            shape[2] = ov.Dimension()  # batch, heads, tokens, width
            opened[port] = shape
    if opened:
        made.reshape(opened)
    return made


def _with_values(made: Any, model: ModelProto) -> Any:
    """Replaces the inputs that stand for values of the model by constants, in place; see ``write_ir``."""
    values = {t.name: t for t in model.graph.initializer if not is_external(t)}
    for parameter in made.get_parameters() if values else ():
        if (tensor := values.get(parameter.get_friendly_name())) is not None:
            value = opset.constant(numpy_helper.to_array(tensor))
            parameter.output(0).replace(value.output(0))
            made.remove_parameter(parameter)
    if values:
        made.validate_nodes_and_infer_types()
    return made


def evaluate(model: ModelProto, folder: Path) -> list[Any]:
    """Outputs of layers of an IR without inputs, as numpy arrays; raises whatever OpenVINO raises."""
    outputs = tuple(value.name for value in model.graph.output)
    made = read_model(SubModel(model, (), outputs, folder, "constants"))
    results = core().compile_model(made, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})({})
    return [np.array(results[port]) for port in range(len(outputs))]


def refused_layers(graph: Graph, device: Device) -> list[str]:
    """[op] why a device does not run a layer of an IR, or "": it is asked about the whole model."""
    try:
        model = read_again(graph)
        if problem := weights_problem(model, graph.path):
            return [NOT_ASKED + problem] * len(graph)
        for i, node in enumerate(model.graph.node):
            node.name = f"op{i}"
        shapes = {graph.tensor_names[t]: graph.tensor_shapes[t] for t in graph.inputs.tolist()}
        fix_shapes(model, {name: shape for name, shape in shapes.items() if shape is not None})
        made = read_model(SubModel(model, (), (), graph.folder, "the model"))
        supported = core().query_model(made, device.provider)
    except ModelError:
        raise
    except Exception as error:  # noqa: BLE001  # OpenVINO raises RuntimeError and others for one and the same cause
        return [NOT_ASKED + reason_of(error)] * len(graph)
    there = {op.get_friendly_name() for op in made.get_ordered_ops()}
    return [
        f"OpenVINO {device.provider} has no implementation of {graph.type_label(op)} as it is here"
        if f"op{op}" in there and f"op{op}" not in supported
        else ""
        for op in range(len(graph))
    ]


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
    # GPU for GPU.0 and GPU.1
    kinds = {name.partition(".")[0] for name in core().available_devices}
    missing = [name for name in devices if name.partition(".")[0] not in kinds]
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


def kernel_times(
    graph: Graph,
    submodel: SubModel,
    device: Device,
    inputs: Sequence[Value],
    seconds: float,
    threads: int,
) -> list[KernelTime]:
    """Median time of each kernel of a sub-model over the quietest runs."""
    model = read_model(submodel)
    made_up = onnx_node_of(model, submodel)  # before compiling, which may change the model
    request = compile_model(submodel, device, CompileOptions(threads), {"PERF_COUNT": "YES"}, model)
    request.run(inputs)
    ops = _ops_of_kernels(graph, submodel, request, made_up)
    runs: list[tuple[float, list[KernelTime]]] = [
        (
            seconds_of(partial(request.run, inputs)),
            [
                KernelTime(p.node_type, ops.get(p.node_name, ()), p.real_time.total_seconds())
                for p in request.request.profiling_info
            ],
        )
        for _ in runs_within(seconds)
    ]
    return median_of_quiet_runs(runs[1:])


def _ops_of_kernels(
    graph: Graph, submodel: SubModel, request: Any, made_up: Mapping[str, str]
) -> dict[str, tuple[int, ...]]:
    """Ops of the model that each executed kernel computes, by the kernel's name."""
    index = {f"op{i}": i for i in range(len(graph))}
    mine = {int(node.name[2:]) for node in submodel.model.graph.node}
    executed = {
        p.node_name for p in request.request.profiling_info if p.status == p.Status.EXECUTED
    }
    # OpenVINO calls what computes an output of the model after the output's tensor.
    node_of_tensor = {
        tensor: node.name
        for node in submodel.model.graph.node
        for tensor in node.output
        if tensor not in index
    }
    names: dict[str, list[str]] = {}
    for op in request.compiled.get_runtime_model().get_ordered_ops():
        if op.get_friendly_name() not in executed:
            continue  # a constant or a no-op; its source may be in a kernel that does not list its name
        info = op.get_rt_info()
        listed = (
            info["originalLayersNames"].astype(str).split(",")
            if "originalLayersNames" in info
            else []
        )
        given = [name.strip() for name in (*listed, op.get_friendly_name())]
        names[op.get_friendly_name()] = [node_of_tensor.get(name, name) for name in given]
    claimed = {name for listed in names.values() for name in listed if name in index}
    anchors: dict[str, tuple[int, ...]] = {}
    for (
        kernel,
        listed,
    ) in names.items():  # "op5/WithoutBiases" is op 5, unless a kernel "op5" exists
        whole = [name for name in listed if name in index] or [
            base
            for name in listed
            if (base := name.partition("/")[0]) in index and base not in claimed
        ]
        whole = whole or [made_up[name] for name in listed if made_up.get(name) in index]
        anchors[kernel] = tuple(dict.fromkeys(index[name] for name in whole))
    # Names of ops that were fused into others are often gone.
    regions = fused_regions(graph, list(anchors.values()))
    return {
        name: tuple(op for op in region if op in mine)
        for name, region in zip(anchors, regions, strict=True)
    }


_NO_RULE = "No conversion rule found for operations:"


def reason_of(error: BaseException) -> str:
    """The cause of an error, shortened for display."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    rule = next((line for line in lines if _NO_RULE in line), None)
    if rule is not None:
        return f"OpenVINO: no conversion rule for {rule.partition(_NO_RULE)[2].strip()}"
    if len(lines) > 1 and lines[0].startswith(("Check '", "Exception from")):
        return f"OpenVINO: {summarize_error(type(error)(lines[-1]))}"  # the place comes first and the cause last
    return f"OpenVINO: {summarize_error(error)}"


_TYPE_NAMES: dict[int, str] = {
    TensorProto.BFLOAT16: "bf16",
    TensorProto.FLOAT8E4M3FN: "f8e4m3",
    TensorProto.FLOAT8E5M2: "f8e5m2",
    TensorProto.FLOAT8E8M0: "f8e8m0",
    TensorProto.FLOAT4E2M1: "f4e2m1",
    TensorProto.UINT4: "u4",
    TensorProto.INT4: "i4",
    TensorProto.UINT2: "u2",
}
"""OpenVINO's names of the element types that numpy lacks; it has no others."""
_CODES = {name: code for code, name in _TYPE_NAMES.items()}


def to_openvino(value: Value) -> Value:
    """An ``openvino.Tensor`` that shares the memory where it is contiguous and writable.

    Raises:
        TypeError: OpenVINO has no such element type.
    """
    if type(value) is ov.Tensor:
        return value
    array = np.asarray(to_numpy(value))
    code = CODES.get(array.dtype)
    if code is not None:
        name = _TYPE_NAMES.get(code)
        if name is None:
            raise TypeError(f"OpenVINO has no element type {array.dtype.name}")
        made = ov.Tensor(getattr(ov.Type, name), ov.Shape(array.shape))
        if array.size:
            made.data.reshape(-1).view(np.uint8)[:] = pack(
                np.ascontiguousarray(array), EXTENSIONS[code][1]
            )
        return made
    if array.dtype.kind in "OUS":
        return ov.Tensor(array.astype(str))
    array = array.view(np.dtype(array.dtype.str))  # OpenVINO does not know C's long long as int64
    if array.ndim == 0 or not array.flags.c_contiguous or not array.flags.writeable:
        array = np.array(array, order="C")
    return ov.Tensor(array, shared_memory=array.ndim > 0 and array.size > 0)


def _to_numpy(value: Any) -> Value:
    name = value.element_type.get_type_name()
    if name == "string":
        return value.str_data.astype(object)
    code = _CODES.get(name)
    if code is None:
        return value.data
    return unpack(np.array(value.data).reshape(-1).view(np.uint8), code, tuple(value.shape))


def _is_array(value: Any) -> bool:
    name = value.element_type.get_type_name()
    return name != "string" and name not in _CODES


def _host_view(value: Any) -> npt.NDArray[Any] | None:
    return value.data if _is_array(value) else None


register_value_type(
    ov.Tensor, ValueReader(_to_numpy, lambda value: int(value.byte_size), _is_array, _host_view)
)


_compiling = Lock()


@contextmanager
def _same_locale() -> Iterator[None]:
    """OpenVINO changes the locale of the process while it compiles, and leaves it so where that fails: text would be ASCII."""
    with _compiling:
        before = locale.setlocale(locale.LC_ALL)
        try:
            yield
        finally:
            locale.setlocale(locale.LC_ALL, before)


def default_properties(device: Device) -> dict[str, Any]:
    """What the editor asks of OpenVINO where the device table asks for nothing else."""
    properties: dict[str, Any] = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    if device.provider.startswith("CPU") and "INFERENCE_PRECISION_HINT" not in device.properties:
        properties["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = 0
    return properties


def save_part(submodel: SubModel, path: Path, stamp: str) -> list[str]:
    """Writes a part of an IR as an IR of its own; its inputs that are left, in order.

    Raises whatever OpenVINO raises.
    """
    made = read_model(submodel)
    if stamp:
        made.set_rt_info(stamp, ["hetero_editor", "made_by"])
    ov.serialize(made, path, path.with_suffix(".bin"))
    ports = _ports(list(made.inputs), submodel.inputs)
    return [name for name, port in zip(submodel.inputs, ports, strict=True) if port is not None]


def compile_model(
    submodel: SubModel,
    device: Device,
    options: CompileOptions,
    extra: Mapping[str, str] | None = None,
    model: Any = None,
) -> Request:
    """Compiles in 32-bit precision unless the device table states another precision.

    On CPUs that have bf16 OpenVINO would use it by default, and int8 beside weights of 4 and 8 bits; results could not be
    compared.

    Args:
        submodel: the sub-model.
        device: where it is to run.
        options: the same for every runtime.
        extra: properties of OpenVINO that win over all others.
        model: the sub-model, imported already.

    Raises:
        ExecutionError: OpenVINO refuses the sub-model.
    """
    properties: dict[str, Any] = default_properties(device)
    if options.threads and device.provider.startswith("CPU"):
        properties["INFERENCE_NUM_THREADS"] = options.threads
    keeps = options.keep and not extra and _can_be_kept(submodel.model)
    folder = compile_folder(device.runtime) if keeps else None
    if folder is not None:
        properties["CACHE_DIR"] = str(folder)
    properties |= {**device.properties, **(extra or {})}
    try:
        read = read_model(submodel) if model is None else model
        with _same_locale():
            compiled = core().compile_model(read, device.provider, properties)
    except Exception as error:  # OpenVINO raises RuntimeError and others for one and the same cause
        raise ExecutionError(f"{submodel.label} on {device.name}: {reason_of(error)}") from error
    if folder is not None:
        trim(folder)
    return Request(compiled, submodel.signature, device, options.keeps_state)


_NOT_KEPT = frozenset(
    {
        *("DynamicQuantizeLSTM", "GRU", "GroupQueryAttention", "LSTM", "RNN", "RotaryEmbedding"),
        *("GRUCell", "GRUSequence", "LSTMCell", "LSTMSequence", "RNNCell", "RNNSequence"),
    }
)
"""Ops that OpenVINO 2026.4 computes wrongly in models from its cache: sequences of a batch above 1, and rotations. Of the 1,288
models of ONNX's own tests that it compiles, no other op came back changed."""


def _can_be_kept(model: ModelProto) -> bool:
    """Whether OpenVINO computes the same where it reads a compiled model from its cache."""

    def all_can(nodes: Iterable[NodeProto]) -> bool:
        return all(
            node.op_type not in _NOT_KEPT and all(all_can(body.node) for body in bodies_of(node))
            for node in nodes
        )

    return all_can(model.graph.node) and all(all_can(f.node) for f in model.functions)


class Request:
    """One infer request of a compiled model.

    Each run begins with the initial state, where the model has one; with ``lasting`` it stays until ``reset``.
    """

    def __init__(
        self, compiled: Any, signature: Signature, device: Device, lasting: bool = False
    ) -> None:
        self.compiled, self.signature, self.device = compiled, signature, device
        self.request = compiled.create_infer_request()
        self._has_state = bool(self.request.query_state())
        self._lasting = lasting
        self._held: list[Value] = []
        self._input_ports = _ports(list(compiled.inputs), signature.inputs)
        self._output_ports = list(compiled.outputs)

    def run(self, inputs: Sequence[Value]) -> list[Value]:
        """Runs the request; outputs are the request's own tensors."""
        try:
            # Outputs of ops that compute nothing (Dropout, Identity) are views of the inputs, so these must live on.
            self._held = [to_openvino(value) for value in inputs]
            for port, tensor in zip(self._input_ports, self._held, strict=True):
                if port is not None:
                    self.request.set_tensor(port, tensor)
            if self._has_state and not self._lasting:
                self.request.reset_state()
            self.request.infer()
            return [self.request.get_tensor(port) for port in self._output_ports]
        except (
            Exception
        ) as error:  # OpenVINO raises RuntimeError and others for one and the same cause
            raise ExecutionError(
                f"{self.signature.label} on {self.device.name}: {reason_of(error)}"
            ) from error

    def clone(self) -> Executable:
        """Another request on the same compiled model."""
        return Request(self.compiled, self.signature, self.device, self._lasting)

    def keeps_state(self) -> bool:
        """Whether a run leaves a state to the next one."""
        return self._has_state and self._lasting

    def reset(self) -> None:
        """The next run begins with the initial state."""
        if self._has_state:
            self.request.reset_state()


def _ports(ports: list[Any], names: Sequence[str]) -> list[Any]:
    """The port of each input, None for one that OpenVINO dropped on import because nothing reads it.

    Ports keep the order of the model. Names help only where ports are missing: an input that is passed
    straight to an output loses its own.
    """
    if len(ports) == len(names):
        return ports
    by_name = {name: port for port in ports for name in port.get_names()}
    return [by_name.get(name) for name in names]
