"""Cutting the graph that ONNX Runtime has already optimised.

Where every subgraph runs on ONNX Runtime's CPU provider, the parts can be cut from its optimised graph
instead of the model's own: neighbours then exchange blocked tensors, and no fusion is lost at a cut. A
kernel that computes ops of several subgraphs runs in the last of them. The outcome is only valid in this
process on this machine, so it is never exported.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import onnx
import onnxruntime as ort
from onnx import GraphProto, ModelProto, TensorShapeProto, ValueInfoProto

from editor.execution.compile.cut import Cutter
from editor.execution.ort_optimized.internal_tensors import InnerTensors, touching
from editor.execution.ort_optimized.lineage import Kernel, lineage, model_names
from editor.placement.placement import Placement
from editor.runtimes.base import SubModel
from editor.runtimes.probe import type_proto

MAX_BYTES = 1 << 30
"""Larger models are cut as they are: the optimised graph holds the weights in memory once more."""
_SIDE_BY_SIDE = 2
_Names = dict[str, None]
"""A set that keeps its order."""


def optimise(part: SubModel, threads: int = 1) -> ModelProto:
    """The graph that ONNX Runtime would execute on its CPU provider; weights in other files stay there."""
    options = _session_options(part)
    options.intra_op_num_threads = threads or 1
    with tempfile.TemporaryDirectory(prefix="hetero-optimised-") as folder:
        path = Path(folder) / "model.onnx"
        options.optimized_model_filepath = str(path)
        ort.InferenceSession(part.model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return onnx.load(path, load_external_data=False)


def _session_options(part: SubModel) -> ort.SessionOptions:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(part.folder))
    return options


def optimised_parts(placement: Placement, cutter: Cutter) -> list[SubModel | None] | None:
    """One sub-model per subgraph, or None where this cut does not apply: few parts, large or exotic models."""
    graph = placement.graph
    constants = sum(int(graph.tensor_bytes[t]) for t in range(len(graph.tensor_names))
                    if graph.tensor_kind[t] == 1 and graph.tensor_bytes[t] > 0)
    if len(placement.subgraphs) < _SIDE_BY_SIDE or constants > MAX_BYTES or cutter.source.functions:
        return None
    whole = cutter.whole()
    try:
        model = optimise(whole)
        kernels = lineage(graph, model)
        home = _homes(placement, kernels)
        return _Cut(placement, whole, model, kernels, home).parts()
    except Exception:  # whatever is special about this model, the plain cut deals with it
        return None


def _homes(placement: Placement, kernels: Sequence[Kernel]) -> list[int]:
    """Subgraph of each kernel: that of its last op, and never before a kernel that it reads from."""
    part = placement.division.part
    made_in: dict[str, int] = {}
    home = []
    for kernel in kernels:
        here = max([0, *(int(part[op]) for op in kernel.ops), *(made_in.get(name, 0) for name in kernel.reads)])
        home.append(here)
        made_in.update(dict.fromkeys(kernel.makes, here))
    return home


class _Cut:
    def __init__(self, placement: Placement, whole: SubModel, model: ModelProto, kernels: Sequence[Kernel],
                 home: Sequence[int]) -> None:
        self.placement, self.whole, self.model, self.kernels = placement, whole, model, kernels
        self.home = home
        self.nodes = {name: node for node in model.graph.node for name in node.output if name}
        self.made_in = {name: h for kernel, h in zip(kernels, home, strict=True) for name in kernel.makes}
        self.weights = {t.name: t for t in model.graph.initializer}
        self.types: dict[str, ValueInfoProto] = {i.name: i for i in model.graph.input}
        self.model_names = model_names(placement.graph, kernels)

    def parts(self) -> list[SubModel | None]:
        inputs, outputs, weights = self._traffic()
        crossing = {name for wanted in inputs for name in wanted}
        self._find_types((crossing | self.made_in.keys()) - self.types.keys())
        tensors = InnerTensors(self.kernels, self.home, self.nodes, self.whole.outputs)
        over = tensors.written_over(self.types)
        # To have a place that we choose, a tensor must be an output.
        for name in (*tensors.inner(self.types, outputs), *(name for pair in touching(over, crossing) for name in pair)):
            outputs[self.made_in[name]][name] = None
        over = [pair for pair in over if all(name in outputs[self.made_in[name]] for name in pair)]
        return [self._part(i, list(inputs[i]), list(outputs[i]), list(weights[i]),
                           tuple(pair for pair in over if self.made_in[pair[1]] == i),
                           frozenset(outputs[i]) - crossing - set(self.whole.outputs)) if outputs[i] else None
                for i in range(len(outputs))]

    def _traffic(self) -> tuple[list[_Names], list[_Names], list[_Names]]:
        """Inputs, outputs and weights of each part."""
        count = len(self.placement.subgraphs)
        inputs: list[_Names] = [{} for _ in range(count)]
        outputs: list[_Names] = [{} for _ in range(count)]
        weights: list[_Names] = [{} for _ in range(count)]
        for kernel, here in zip(self.kernels, self.home, strict=True):
            for name in kernel.reads:
                if name in self.weights:
                    weights[here][name] = None
                elif self.made_in.get(name, -1) != here:
                    inputs[here][name] = None
                    if name in self.made_in:
                        outputs[self.made_in[name]][name] = None
        for name in self.whole.outputs:
            if name not in self.made_in:
                raise LookupError(f"{name}: an output without a kernel")
            outputs[self.made_in[name]][name] = None
        return inputs, outputs, weights

    def _part(self, number: int, inputs: list[str], outputs: list[str], weights: list[str],
              in_place: tuple[tuple[str, str], ...], inner: frozenset[str]) -> SubModel:
        part = GraphProto(name=self.model.graph.name or "part")
        part.node.extend(self.nodes[k.makes[0]] for k, h in zip(self.kernels, self.home, strict=True) if h == number)
        part.input.extend(self.types[name] for name in inputs)
        part.output.extend(self.types.get(name) or ValueInfoProto(name=name) for name in outputs)
        part.initializer.extend(self.weights[name] for name in weights)
        model = ModelProto(ir_version=self.model.ir_version, graph=part)
        model.opset_import.extend(self.model.opset_import)
        assigned = self.placement.division.part
        also = tuple(op for k, h in zip(self.kernels, self.home, strict=True) if h == number
                     for op in k.ops if 0 <= assigned[op] != number)
        hidden = sum(home == number for home in self.made_in.values()) - len(outputs)
        return SubModel(model, tuple(inputs), tuple(outputs), self.whole.folder, f"subgraph {number}", True, in_place, inner,
                        hidden, self.model_names, also)

    def _find_types(self, names: set[str]) -> None:
        """Types and shapes, from ONNX Runtime: without those of boundary tensors its planner reuses no memory."""
        listed = {v.name for v in self.model.graph.output}
        probe = ModelProto()
        probe.CopyFrom(self.model)
        probe.graph.output.extend(ValueInfoProto(name=name) for name in sorted(names - listed))
        options = _session_options(self.whole)
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = ort.InferenceSession(probe.SerializeToString(), options, providers=["CPUExecutionProvider"])
        for output in session.get_outputs():
            kind = type_proto(output.type)
            if kind.HasField("tensor_type"):
                kind.tensor_type.ClearField("shape")
                known = bool(output.shape) or self._is_scalar(output.name)  # [] may also be an unknown rank
                if known and all(isinstance(dim, int) for dim in output.shape):
                    kind.tensor_type.shape.SetInParent()
                    kind.tensor_type.shape.dim.extend(TensorShapeProto.Dimension(dim_value=d) for d in output.shape)
            self.types[output.name] = ValueInfoProto(name=output.name, type=kind)

    def _is_scalar(self, name: str) -> bool:
        graph = self.placement.graph
        return name in graph.tensor_index and graph.tensor_shapes[graph.tensor_index[name]] == ()
