"""The ONNX package's reference evaluator: slow, and the definition of what an op means."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from onnx import ModelProto, TensorProto, numpy_helper
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
        """Loads the weights and evaluates what depends on constants only."""
        try:
            model = ModelProto()
            model.CopyFrom(part.model)
            load_external_data_for_model(model, str(part.folder))
            return _Evaluator(ReferenceEvaluator(_fold_constants(model)), part, device)
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

    def clone(self) -> Executable:
        """The evaluator keeps no state between runs."""
        return self


def _fold_constants(model: ModelProto) -> ModelProto:
    """Replaces nodes that read initializers only by their results; the evaluator would redo them every run."""
    known = {t.name for t in model.graph.initializer}
    constant, rest = [], []
    for node in model.graph.node:
        plain = all(a.type not in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for a in node.attribute)
        if plain and not node.op_type.startswith("Random") and all(not i or i in known for i in node.input):
            constant.append(node)
            known.update(o for o in node.output if o)
        else:
            rest.append(node)
    needed = {i for n in rest for i in n.input} | {o.name for o in model.graph.output}
    for node in rest:
        from editor.graph.bodies import captured_names
        needed.update(captured_names(node))
    wanted = [o for n in constant for o in n.output if o and o in needed]
    if not wanted:
        return model
    part = ModelProto()
    part.CopyFrom(model)
    part.graph.ClearField("node")
    part.graph.node.extend(constant)
    part.graph.ClearField("input")
    part.graph.ClearField("output")
    part.graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted)
    values = ReferenceEvaluator(part).run(wanted, {})
    tensors: list[TensorProto] = [numpy_helper.from_array(v, name) for name, v in zip(wanted, values, strict=True)]
    model.graph.ClearField("node")
    model.graph.node.extend(rest)
    model.graph.initializer.extend(tensors)
    return model
