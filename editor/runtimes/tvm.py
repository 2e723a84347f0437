"""TVM on the CPU through LLVM: the optional extra ``requirements-tvm.txt``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from onnx import ModelProto
from onnx.external_data_helper import load_external_data_for_model
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

from editor.devices.device import Device
from editor.errors import ExecutionError
from editor.graph.graph import Graph
from editor.runtimes.base import Capability, CompileOptions, Executable, SubModel, Value, first_line
from editor.runtimes.probe import ask
from editor.runtimes.values import to_numpy


class Tvm:
    """Capability from the importer of ONNX; execution by Relax's virtual machine."""

    name = "tvm"

    def capability(self, graph: Graph, device: Device) -> Capability:
        """Asks by importing models of single ops."""
        return Capability.of_reasons(ask(graph, self._reason))

    def _reason(self, model: ModelProto) -> str:
        try:
            from_onnx(model)
        except Exception as error:
            return f"TVM: {first_line(error)}"
        return ""

    def compile(self, part: SubModel, device: Device, options: CompileOptions) -> Executable:
        """Imports and compiles; weights become constants of the module."""
        try:
            model = ModelProto()
            model.CopyFrom(part.model)
            load_external_data_for_model(model, str(part.folder))
            module = tvm.compile(from_onnx(model), target=device.properties.get("target", "llvm"))
            return _Machine(module, part, device)
        except Exception as error:
            raise ExecutionError(f"{part.label} on {device.name}: TVM: {first_line(error)}") from error


class _Machine:
    def __init__(self, module: Any, part: SubModel, device: Device) -> None:
        self.module, self.part, self.device = module, part, device
        self.machine = relax.VirtualMachine(module, tvm.cpu())

    def run(self, inputs: Sequence[Value]) -> list[Value]:
        """Runs the main function."""
        try:
            arguments = [tvm.runtime.tensor(np.ascontiguousarray(to_numpy(v))) for v in inputs]
            results = self.machine["main"](*arguments)
        except Exception as error:
            raise ExecutionError(f"{self.part.label} on {self.device.name}: TVM: {first_line(error)}") from error
        several = results if len(self.part.outputs) > 1 or not hasattr(results, "numpy") else [results]
        return [value.numpy() for value in several]

    def move_outputs(self, buffers: Mapping[str, Value]) -> None:
        """Outputs stay where TVM puts them."""

    def clone(self) -> Executable:
        """Another machine on the same module."""
        return _Machine(self.module, self.part, self.device)
