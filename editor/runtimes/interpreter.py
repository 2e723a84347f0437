"""The ONNX package's reference evaluator: slow, and the definition of what an op means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnx import ModelProto
from onnx.external_data_helper import load_external_data_for_model
from onnx.reference import ReferenceEvaluator

from editor.devices.device import Device
from editor.errors import ExecutionError
from editor.graph.graph import Graph
from editor.runtimes.base import Capability, CompileOptions, Executable, SubModel, Value, first_line
from editor.runtimes.probe import ask
from editor.runtimes.values import to_numpy


class Interpreter:
    """Capability from the evaluator's own op table."""

    name = "interpreter"

    def capability(self, graph: Graph, device: Device) -> Capability:
        """Asks by building an evaluator of single ops, which looks each of them up."""
        return Capability.of_reasons(ask(graph, self._reason))

    def _reason(self, model: ModelProto) -> str:
        try:
            ReferenceEvaluator(model)
        except Exception as error:
            return f"ONNX reference interpreter: {first_line(error)}"
        return ""

    def compile(self, part: SubModel, device: Device, options: CompileOptions) -> Executable:
        """Loads the weights; the evaluator needs them in the model."""
        try:
            model = ModelProto()
            model.CopyFrom(part.model)
            load_external_data_for_model(model, str(part.folder))
            return _Evaluator(ReferenceEvaluator(model), part, device)
        except Exception as error:
            raise ExecutionError(f"{part.label} on {device.name}: ONNX reference interpreter: "
                                 f"{first_line(error)}") from error


class _Evaluator:
    def __init__(self, evaluator: ReferenceEvaluator, part: SubModel, device: Device) -> None:
        self.evaluator, self.part, self.device = evaluator, part, device

    def run(self, inputs: Sequence[Value]) -> list[Value]:
        """Evaluates with numpy."""
        feeds = {name: to_numpy(v) for name, v in zip(self.part.inputs, inputs, strict=True)}
        try:
            return list(self.evaluator.run(list(self.part.outputs), feeds))
        except Exception as error:
            raise ExecutionError(f"{self.part.label} on {self.device.name}: ONNX reference interpreter: "
                                 f"{first_line(error)}") from error

    def move_outputs(self, buffers: Mapping[str, Value]) -> None:
        """Outputs stay where this runtime puts them."""

    def clone(self) -> Executable:
        """The evaluator keeps no state between runs."""
        return self
