"""ONNX Runtime with any execution provider that is installed."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import onnxruntime as ort
from onnx import ModelProto

from editor.devices.device import Device
from editor.errors import ExecutionError
from editor.graph.graph import Graph
from editor.runtimes.base import Capability, CompileOptions, Executable, SubModel, Value, first_line
from editor.runtimes.probe import ask
from editor.runtimes.values import can_be_ort_value, to_numpy, to_ort

ort.set_default_logger_severity(4)  # errors come back as exceptions
log = logging.getLogger(__name__)

_CPU = "CPUExecutionProvider"


class OnnxRuntime:
    """Capability from sessions created with optimisation off; execution with values bound, not copied."""

    name = "onnxruntime"

    def capability(self, graph: Graph, device: Device) -> Capability:
        """Asks by creating sessions of single ops and reading which provider each was given to."""
        return Capability.of_reasons(ask(graph, lambda model: self._reason(model, device)))

    def _reason(self, model: ModelProto, device: Device) -> str:
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        options.log_severity_level = 4
        try:
            session = ort.InferenceSession(model.SerializeToString(), options, providers=_providers(device))
        except Exception as error:  # onnxruntime has no common base class for its errors
            return f"ONNX Runtime: {first_line(error)}"
        for part in session.get_provider_graph_assignment_info():
            if part.ep_name == device.provider:
                continue
            for node in part.get_nodes():
                if node.op_type != "ConstantOfShape" or node.name:  # the probe's own fillers have no name
                    return f"{device.provider} leaves {node.op_type} to {part.ep_name}"
        return ""

    def compile(self, part: SubModel, device: Device, options: CompileOptions) -> Executable:
        """Creates a session; weights in other files are mapped, not read."""
        settings = ort.SessionOptions()
        settings.log_severity_level = 4
        # Spinning pools of many sessions fight each other: 32 subgraphs then cost 38 times the CPU time.
        settings.add_session_config_entry("session.intra_op.allow_spinning", "0")
        settings.add_session_config_entry("session.inter_op.allow_spinning", "0")
        settings.add_session_config_entry("session.model_external_initializers_file_folder_path", str(part.folder))
        if options.threads:
            settings.intra_op_num_threads = options.threads
        for key, value in device.properties.items():
            if "." in key:
                settings.add_session_config_entry(key, value)
        try:
            session = ort.InferenceSession(part.model.SerializeToString(), settings, providers=_providers(device))
        except Exception as error:
            raise ExecutionError(f"{part.label} on {device.name}: ONNX Runtime: {first_line(error)}") from error
        return _Session(session, part, device)


class _Session:
    def __init__(self, session: Any, part: SubModel, device: Device) -> None:
        self.session, self.part, self.device = session, part, device
        self.binding = session.io_binding()
        # An empty optional in an OrtValue crashes whoever looks into it, so these go through session.run.
        self.bindable = not any(o.type.startswith("optional(") for o in session.get_outputs())

    def run(self, inputs: Sequence[Value]) -> list[Value]:
        """Runs the session; outputs are ``OrtValue`` where that is possible."""
        try:
            if self.bindable and all(can_be_ort_value(v) for v in inputs):
                return self._run_bound(inputs)
            feeds = {name: to_ort(v) if can_be_ort_value(v) else to_numpy(v)
                     for name, v in zip(self.part.inputs, inputs, strict=True)}
            return list(self.session.run(list(self.part.outputs), feeds))
        except Exception as error:
            if isinstance(error, ExecutionError):
                raise
            raise ExecutionError(f"{self.part.label} on {self.device.name}: ONNX Runtime: {first_line(error)}") from error

    def _run_bound(self, inputs: Sequence[Value]) -> list[Value]:
        binding = self.binding
        for name, value in zip(self.part.inputs, inputs, strict=True):
            binding.bind_ortvalue_input(name, to_ort(value))
        binding.clear_binding_outputs()  # a stale output keeps the shape of the last run
        for name in self.part.outputs:
            binding.bind_output(name)
        self.session.run_with_iobinding(binding)
        return list(binding.get_outputs())

    def clone(self) -> Executable:
        """Sessions are thread-safe, bindings are not."""
        return _Session(self.session, self.part, self.device)


def _providers(device: Device) -> list[Any]:
    options = {k: v for k, v in device.properties.items() if "." not in k}
    if device.provider == _CPU:
        return [_CPU]
    return [(device.provider, options), _CPU]
