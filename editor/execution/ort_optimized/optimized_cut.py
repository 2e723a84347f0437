"""Cuts the graph that ONNX Runtime has already optimized.

Where every subgraph runs on ONNX Runtime's CPU provider, sub-models can be cut from its optimized graph
instead of the original one: subgraphs then exchange tensors in blocked layout, and no cut prevents a
fusion. A kernel that computes ops of several subgraphs runs in the last of them. The sub-models are valid
only in this process on this machine, so they are never exported.
"""

from __future__ import annotations

from collections.abc import Sequence

from onnx import GraphProto, ModelProto, TensorShapeProto, ValueInfoProto

from editor.devices.device import Device
from editor.execution.compile.cut import Cutter
from editor.execution.ort_optimized.internal_tensors import InternalTensors, connected_pairs
from editor.graph.graph import TensorKind
from editor.placement.placement import Placement
from editor.runtimes.base import SubModel
from editor.runtimes.onnxruntime.evaluate import optimized_graph, output_types
from editor.runtimes.onnxruntime.lineage import Kernel, lineage, model_names
from editor.runtimes.probe import type_proto
from editor.runtimes.registry import runtime_of

MAX_BYTES = 1 << 30
"""For larger models the original graph is cut, because the optimized graph copies the weights in memory."""
_MIN_SUBGRAPHS = 2
_Names = dict[str, None]
"""An ordered set."""


def optimized_submodels(placement: Placement, cutter: Cutter) -> list[SubModel | None] | None:
    """One sub-model per subgraph; None where this cut does not apply: one subgraph, or a large or unusual model."""
    graph = placement.graph
    constants = int(graph.tensor_bytes[(graph.tensor_kind == TensorKind.INITIALIZER) & (graph.tensor_bytes > 0)].sum())
    if len(placement.subgraphs) < _MIN_SUBGRAPHS or constants > MAX_BYTES or cutter.source.functions:
        return None
    if not all(_runs_optimized_graphs(d) for d in placement.used_devices):
        return None
    whole = cutter.whole()
    try:
        model = optimized_graph(whole)
        kernels = lineage(graph, model)
        return _Cut(placement, whole, model, kernels, _subgraphs_of_kernels(placement, kernels)).submodels()
    except Exception:  # noqa: BLE001  # the cut of the original graph supports every model
        return None


def _runs_optimized_graphs(device: Device) -> bool:
    """False for a planned device, although its stand-in could: its kernels cannot be fused with those of other devices."""
    return device.present and runtime_of(device.runtime).runs_optimized_graphs(device)


def _subgraphs_of_kernels(placement: Placement, kernels: Sequence[Kernel]) -> list[int]:
    """[kernel] number of its subgraph: that of its last op, but not before a producer of its inputs."""
    subgraph_of_op = placement.division.subgraph_of_op
    produced_in: dict[str, int] = {}
    subgraph_of_kernel = []
    for kernel in kernels:
        number = max([0, *(int(subgraph_of_op[op]) for op in kernel.ops), *(produced_in.get(name, 0) for name in kernel.reads)])
        subgraph_of_kernel.append(number)
        produced_in.update(dict.fromkeys(kernel.writes, number))
    return subgraph_of_kernel


class _Cut:
    def __init__(self, placement: Placement, whole: SubModel, model: ModelProto, kernels: Sequence[Kernel],
                 subgraph_of_kernel: Sequence[int]) -> None:
        self.placement, self.whole, self.model, self.kernels = placement, whole, model, kernels
        self.subgraph_of_kernel = subgraph_of_kernel
        self.nodes = {name: node for node in model.graph.node for name in node.output if name}
        self.produced_in = {name: h for kernel, h in zip(kernels, subgraph_of_kernel, strict=True) for name in kernel.writes}
        self.weights = {t.name: t for t in model.graph.initializer}
        self.types: dict[str, ValueInfoProto] = {i.name: i for i in model.graph.input}
        self.model_names = model_names(placement.graph, kernels)

    def submodels(self) -> list[SubModel | None]:
        inputs, outputs, weights = self._interfaces()
        crossing = {name for wanted in inputs for name in wanted}
        self._find_types((crossing | self.produced_in.keys()) - self.types.keys())
        tensors = InternalTensors(self.kernels, self.subgraph_of_kernel, self.nodes, self.whole.outputs)
        overwritten = tensors.overwritten(self.types)
        # Only the buffers of outputs can be chosen, so these tensors become outputs.
        in_place = (name for pair in connected_pairs(overwritten, crossing) for name in pair)
        for name in (*tensors.exposable(self.types, outputs), *in_place):
            outputs[self.produced_in[name]][name] = None
        overwritten = [pair for pair in overwritten if all(name in outputs[self.produced_in[name]] for name in pair)]
        return [self._submodel(i, list(inputs[i]), list(outputs[i]), list(weights[i]),
                               tuple(pair for pair in overwritten if self.produced_in[pair[1]] == i),
                               frozenset(outputs[i]) - crossing - set(self.whole.outputs)) if outputs[i] else None
                for i in range(len(outputs))]

    def _interfaces(self) -> tuple[list[_Names], list[_Names], list[_Names]]:
        """[subgraph] inputs, [subgraph] outputs and [subgraph] weights."""
        count = len(self.placement.subgraphs)
        inputs: list[_Names] = [{} for _ in range(count)]
        outputs: list[_Names] = [{} for _ in range(count)]
        weights: list[_Names] = [{} for _ in range(count)]
        for kernel, number in zip(self.kernels, self.subgraph_of_kernel, strict=True):
            for name in kernel.reads:
                if name in self.weights:
                    weights[number][name] = None
                elif self.produced_in.get(name, -1) != number:
                    inputs[number][name] = None
                    if name in self.produced_in:
                        outputs[self.produced_in[name]][name] = None
        for name in self.whole.outputs:
            if name not in self.produced_in:
                raise LookupError(f"no kernel produces output {name!r}")
            outputs[self.produced_in[name]][name] = None
        return inputs, outputs, weights

    def _submodel(self, number: int, inputs: list[str], outputs: list[str], weights: list[str],
              in_place: tuple[tuple[str, str], ...], internal: frozenset[str]) -> SubModel:
        graph = GraphProto(name=self.model.graph.name or "part")
        own = [kernel for kernel, subgraph in zip(self.kernels, self.subgraph_of_kernel, strict=True) if subgraph == number]
        graph.node.extend(self.nodes[kernel.writes[0]] for kernel in own)
        graph.input.extend(self.types[name] for name in inputs)
        graph.output.extend(self.types.get(name) or ValueInfoProto(name=name) for name in outputs)
        graph.initializer.extend(self.weights[name] for name in weights)
        model = ModelProto(ir_version=self.model.ir_version, graph=graph)
        model.opset_import.extend(self.model.opset_import)
        subgraph_of_op = self.placement.division.subgraph_of_op
        absorbed = tuple(op for kernel in own for op in kernel.ops if 0 <= subgraph_of_op[op] != number)
        count = sum(subgraph == number for subgraph in self.produced_in.values()) - len(outputs)
        return SubModel(model, tuple(inputs), tuple(outputs), self.whole.folder, f"subgraph {number}", True, in_place, internal,
                        count, self.model_names, absorbed)

    def _find_types(self, names: set[str]) -> None:
        """Infers types and shapes with ONNX Runtime, whose memory planner needs those of boundary tensors to reuse memory."""
        listed = {v.name for v in self.model.graph.output}
        probe = ModelProto()
        probe.CopyFrom(self.model)
        probe.graph.output.extend(ValueInfoProto(name=name) for name in sorted(names - listed))
        for name, type_text, shape in output_types(probe, self.whole.folder):
            kind = type_proto(type_text)
            if kind.HasField("tensor_type"):
                kind.tensor_type.ClearField("shape")
                known = bool(shape) or self._is_scalar(name)  # [] may also be an unknown rank
                sizes = [dim for dim in shape if isinstance(dim, int)]
                if known and len(sizes) == len(shape):
                    kind.tensor_type.shape.SetInParent()
                    kind.tensor_type.shape.dim.extend(TensorShapeProto.Dimension(dim_value=size) for size in sizes)
            self.types[name] = ValueInfoProto(name=name, type=kind)

    def _is_scalar(self, name: str) -> bool:
        graph = self.placement.graph
        return name in graph.tensor_index and graph.tensor_shapes[graph.tensor_index[name]] == ()
