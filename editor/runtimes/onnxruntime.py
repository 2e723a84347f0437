"""ONNX Runtime with any execution provider that is installed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from operator import is_
from typing import Any

import numpy as np
import onnxruntime as ort
from onnx import ModelProto

from editor.devices.device import Device
from editor.errors import ExecutionError
from editor.graph.graph import Graph
from editor.runtimes.base import Capability, CompileOptions, Executable, OtherShapes, SubModel, Value, first_line
from editor.runtimes.probe import ask
from editor.runtimes.values import can_be_ort_value, is_ort, nbytes, to_numpy, to_ort

ort.set_default_logger_severity(4)  # errors come back as exceptions
log = logging.getLogger(__name__)

_CPU = "CPUExecutionProvider"
_MEMORY = {"CUDAExecutionProvider": "cuda", "TensorrtExecutionProvider": "cuda"}
"""Providers with memory of their own in which values can stay between subgraphs."""
NUMPY_TYPES = frozenset(f"tensor({kind})" for kind in (
    "float", "double", "float16", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"))
if "CUDAExecutionProvider" in ort.get_available_providers():
    ort.preload_dlls()  # CUDA libraries that were installed as Python packages
_RUN_OPTIONS = ort.RunOptions()
"""The defaults. Without it each run makes its own: 10 us and more, where the kernels before have emptied the caches."""
_FEW_TENSORS = 8
_KEPT_BYTES = 16 << 20
"""Outputs up to this size keep their buffers between runs."""


@cache
def _share_arena() -> None:
    """One arena for all sessions of the process: parts of a model then reuse each other's warm memory."""
    info = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
    ort.create_and_register_allocator(info, None)


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
        if part.optimised:
            settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        # To look up where they lie costs each run more than it saves.
        settings.enable_mem_pattern = part.hidden is None or part.hidden > _FEW_TENSORS
        _share_arena()
        settings.add_session_config_entry("session.use_env_allocators", "1")
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
        self.bound: list[Value] = [None] * len(part.inputs)
        self.kept: list[Value] = []
        self.placed: dict[str, Value] = {}
        self.may_keep = True
        self.place, self.index = memory_of(device)
        self.places = [self.place if o.type in NUMPY_TYPES else "cpu" for o in session.get_outputs()]
        # An empty optional in an OrtValue crashes whoever looks into it, so these go through session.run.
        # Maps have no OrtValue that Python could read.
        self.bindable = not any("optional(" in o.type or "map(" in o.type for o in session.get_outputs())

    def run(self, inputs: Sequence[Value]) -> list[Value]:
        """Runs the session; outputs are ``OrtValue`` where that is possible."""
        try:
            if self.kept and all(map(is_, inputs, self.bound)):
                return self._run_kept() or self._run_bound(inputs)
            if self.bindable and all(can_be_ort_value(v) for v in inputs):
                return self._run_bound(inputs)
            feeds = {name: v if is_ort(v) else to_ort(v) if can_be_ort_value(v) else to_numpy(v)
                     for name, v in zip(self.part.inputs, inputs, strict=True)}
            return list(self.session.run(list(self.part.outputs), feeds))
        except Exception as error:
            if isinstance(error, ExecutionError):
                raise
            raise ExecutionError(f"{self.part.label} on {self.device.name}: ONNX Runtime: {first_line(error)}") from error

    def _run_bound(self, inputs: Sequence[Value]) -> list[Value]:
        binding = self.binding
        for i, value in enumerate(inputs):
            if value is not self.bound[i]:
                binding.bind_ortvalue_input(self.part.inputs[i], value if is_ort(value) else to_ort(value))
                # An array may be copied on the way, so another run must look at it again.
                self.bound[i] = value if isinstance(value, ort.OrtValue) else None
        if self.kept and (results := self._run_kept()):
            return results
        binding.clear_binding_outputs()  # a stale output keeps the shape of the last run
        for name, place in zip(self.part.outputs, self.places, strict=True):
            if name in self.placed:
                binding.bind_ortvalue_output(name, self.placed[name])
            else:
                binding.bind_output(name, place, self.index if place != "cpu" else 0)
        try:
            self.session.run_with_iobinding(binding, _RUN_OPTIONS)
        except Exception as error:
            if self.placed:
                raise OtherShapes(f"{self.part.label}: {first_line(error)}") from error
            raise
        results = [self.placed.get(name, value) for name, value in zip(self.part.outputs, binding.get_outputs(), strict=True)]
        if self.may_keep:
            self._keep(results)
        return results

    def _run_kept(self) -> list[Value]:
        """A run into the buffers of the first one; nothing when the shapes turn out to depend on the data."""
        try:
            self.session.run_with_iobinding(self.binding, _RUN_OPTIONS)
        except Exception as error:
            if "computed output shape" not in str(error):
                raise
            self.kept = []
            if self.placed:
                raise OtherShapes(f"{self.part.label}: {first_line(error)}") from error
        return self.kept

    def move_outputs(self, buffers: Mapping[str, Value]) -> None:
        """Writes into given memory from now on."""
        self.placed = dict(buffers)
        if not buffers:
            self.kept, self.may_keep = [], True
        if not self.kept:
            return
        self.kept = [buffers.get(name, old) for name, old in zip(self.part.outputs, self.kept, strict=True)]
        self.binding.clear_binding_outputs()
        for name, value in zip(self.part.outputs, self.kept, strict=True):
            self.binding.bind_ortvalue_output(name, value)

    def fix(self, inputs: Mapping[str, Value]) -> Callable[[], None] | None:
        """Binds these inputs once and for all; returns what launches a run, or None where buffers may move."""
        if not self.kept:
            return None
        for name, value in inputs.items():
            self.binding.bind_ortvalue_input(name, value)
        return partial(self.session._sess.run_with_iobinding, self.binding._iobinding, _RUN_OPTIONS)

    def bind(self, name: str, value: Value) -> bool:
        """Another value for one input of a launch; says whether what is written into it later is seen by later runs."""
        made = value if is_ort(value) else to_ort(value)
        self.binding.bind_ortvalue_input(name, made)
        if self.place != "cpu":  # copied to the device when it is bound
            return False
        return made is value or (isinstance(value, np.ndarray) and value.ctypes.data == made.data_ptr())

    def _keep(self, results: list[Value]) -> None:
        """Binds the buffers of this run once and for all: the next run writes into them."""
        self.may_keep = False
        plain = all(r.is_tensor() and r.data_type() != "tensor(string)" and 0 not in r.shape() for r in results)
        large = sum(nbytes(r) for name, r in zip(self.part.outputs, results, strict=True) if name not in self.placed)
        if not plain or large > _KEPT_BYTES:
            return
        self.binding.clear_binding_outputs()
        for name, result in zip(self.part.outputs, results, strict=True):
            self.binding.bind_ortvalue_output(name, result)
        self.kept = results

    def clone(self) -> Executable:
        """Sessions are thread-safe, bindings are not."""
        return _Session(self.session, self.part, self.device)


def memory_of(device: Device) -> tuple[str, int]:
    """Where the values of a device live: kind of memory and number."""
    place = _MEMORY.get(device.provider, "cpu")
    number = device.properties.get("device_id", device.unit)
    return place, int(number) if place != "cpu" and number.isdigit() else 0


def _providers(device: Device) -> list[Any]:
    options = {k: v for k, v in device.properties.items() if "." not in k}
    place, index = memory_of(device)
    if place != "cpu":
        options = {"device_id": str(index), **options}
    if device.provider == _CPU:
        return [_CPU]
    return [(device.provider, options), _CPU]
