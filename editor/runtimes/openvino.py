"""OpenVINO with any device that it reports."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import openvino as ov
from onnx import ModelProto, TensorProto
from onnx.external_data_helper import load_external_data_for_model

from editor.devices.device import Device
from editor.errors import ExecutionError
from editor.graph.graph import Graph
from editor.runtimes.base import Capability, CompileOptions, Executable, SubModel, Value, first_line
from editor.runtimes.probe import ask
from editor.runtimes.values import to_openvino

_INLINE_BYTES = 1 << 30
"""Weights up to this size may be put into a model in memory; a model in one piece is limited to 2 GiB."""


@cache
def _core() -> Any:
    return ov.Core()


class OpenVino:
    """Capability from ``Core.query_model``; execution by infer requests with preset tensors."""

    name = "openvino"

    def capability(self, graph: Graph, device: Device) -> Capability:
        """Asks ``query_model`` about single ops."""
        return Capability.of_reasons(ask(graph, lambda model: self._reason(model, device)))

    def _reason(self, model: ModelProto, device: Device) -> str:
        try:
            read = _core().read_model(model.SerializeToString())
            supported = _core().query_model(read, device.provider)
        except Exception as error:
            return f"OpenVINO: {_cause(error)}"
        for op in read.get_ordered_ops():
            if op.get_friendly_name() in supported:
                continue
            if op.get_type_name() == "Parameter":
                return f"OpenVINO {device.provider} does not take an operand of unknown rank"
            return f"OpenVINO {device.provider} has no implementation of {op.get_type_name()}"
        return ""

    def compile(self, part: SubModel, device: Device, options: CompileOptions) -> Executable:
        """Compiles in 32-bit precision unless the table says otherwise.

        On CPUs that have bf16 OpenVINO would use it by default, and results could not be compared.
        """
        properties: dict[str, Any] = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
        if options.threads and device.provider.startswith("CPU"):
            properties["INFERENCE_NUM_THREADS"] = options.threads
        properties |= device.properties
        try:
            model = _read(part)
            compiled = _core().compile_model(model, device.provider, properties)
        except Exception as error:
            raise ExecutionError(f"{part.label} on {device.name}: OpenVINO: {_cause(error)}") from error
        request = _Request(compiled, part, device)
        if "PERF_COUNT" in properties:
            request.works_for = _works_for(model, part)
        return request


class _Request:
    def __init__(self, compiled: Any, part: SubModel, device: Device) -> None:
        self.compiled, self.part, self.device = compiled, part, device
        self.request = compiled.create_infer_request()
        self.held: list[Value] = []
        self.ports = _ports(list(compiled.inputs), part.inputs)
        self.results = list(compiled.outputs)
        self.works_for: dict[str, str] = {}
        """Of a request that counts: names that the importer made up, with the node that each works for."""

    def run(self, inputs: Sequence[Value]) -> list[Value]:
        """Runs the request; outputs are the request's own tensors."""
        try:
            # Outputs of ops that compute nothing (Dropout, Identity) are views of the inputs, so these must live on.
            self.held = [to_openvino(value) for value in inputs]
            for port, tensor in zip(self.ports, self.held, strict=True):
                if port is not None:
                    self.request.set_tensor(port, tensor)
            self.request.infer()
            return [self.request.get_tensor(port) for port in self.results]
        except Exception as error:
            raise ExecutionError(f"{self.part.label} on {self.device.name}: OpenVINO: {_cause(error)}") from error

    def move_outputs(self, buffers: Mapping[str, Value]) -> None:
        """Outputs stay where this runtime puts them."""

    def clone(self) -> Executable:
        """Another request on the same compiled model."""
        return _Request(self.compiled, self.part, self.device)


def _ports(ports: list[Any], names: Sequence[str]) -> list[Any]:
    """The port of each input, None for one that OpenVINO dropped on import because nothing reads it.

    Ports keep the order of the model. Names help only where ports are missing: an input that is passed
    straight to an output loses its own.
    """
    if len(ports) == len(names):
        return ports
    by_name = {name: port for port in ports for name in port.get_names()}
    return [by_name.get(name) for name in names]


def _read(part: SubModel) -> Any:
    """Imports a sub-model.

    External data is found only next to a file, and by no symbolic link: OpenVINO refuses what resolves to another
    folder. So the data files get a second name, or where that cannot be (another file system), the part's weights
    are put into the model.
    """
    outside = [t for t in part.model.graph.initializer if t.data_location == TensorProto.EXTERNAL]
    if not outside:
        return _core().read_model(part.model.SerializeToString())
    locations = {entry.value for tensor in outside for entry in tensor.external_data if entry.key == "location"}
    folder = Path(tempfile.mkdtemp(prefix="hetero-openvino-"))
    try:
        sources = {folder / location: (part.folder / location).resolve() for location in locations}
        if not all(_put(source, target) for target, source in sources.items()):
            size = sum(prod(t.dims) * 8 for t in outside)
            if size <= _INLINE_BYTES:
                model = ModelProto()
                model.CopyFrom(part.model)
                load_external_data_for_model(model, str(part.folder))
                return _core().read_model(model.SerializeToString())
            for target, source in sources.items():
                target.unlink(missing_ok=True)
                shutil.copyfile(source, target)
        (folder / "model.onnx").write_bytes(part.model.SerializeToString())
        return _core().read_model(folder / "model.onnx")
    finally:  # OpenVINO keeps the data files mapped; their names may go
        shutil.rmtree(folder, ignore_errors=True)


def _works_for(model: Any, part: SubModel) -> dict[str, str]:
    """Names that the importer made up, with the node of the sub-model that each works for.

    One ONNX node may become several (a GRU: transposes, slices and a GRUSequence). The last of them keeps its name, with
    that of the output where there are several; the others are found by following who reads them. Another import would
    make up other names.
    """
    nodes = part.model.graph.node
    known = {name: node.name for node in nodes for name in (node.name, *(f"{node.name}_{made}" for made in node.output))}
    works_for: dict[str, str] = {}
    for op in reversed(model.get_ordered_ops()):
        name = op.get_friendly_name()
        if name in known:
            works_for[name] = known[name]
            continue
        readers = (target.get_node().get_friendly_name() for out in op.outputs() for target in out.get_target_inputs())
        found = next((works_for[reader] for reader in readers if reader in works_for), None)
        if found is not None:
            works_for[name] = found
    return {name: node for name, node in works_for.items() if name != node}


def _put(source: Path, target: Path) -> bool:
    """A second name for a file; False where the file systems do not allow it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        target.hardlink_to(source)
    except OSError:
        return False
    return True


def _cause(error: BaseException) -> str:
    text = str(error)
    if "No conversion rule found for operations:" in text:
        ops = text.partition("No conversion rule found for operations:")[2].split("\n")[0].strip()
        return f"no conversion rule for {ops}"
    return first_line(error)
