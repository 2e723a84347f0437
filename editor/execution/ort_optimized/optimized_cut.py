"""Cutting the graph that ONNX Runtime has already optimized.

Where every subgraph runs on ONNX Runtime's CPU provider, the parts can be cut from its optimized graph
instead of the model's own: neighbours then exchange blocked tensors, and no fusion is lost at a cut. A
kernel that computes ops of several subgraphs runs in the last of them. The outcome is only valid in this
process on this machine, so it is never exported.
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
"""Larger models are cut as they are: the optimized graph holds the weights in memory once more."""
_FEWEST_PARTS = 2
_Names = dict[str, None]
"""A set that keeps its order."""


def optimized_parts(placement: Placement, cutter: Cutter) -> list[SubModel | None] | None:
    """One sub-model per subgraph, or None where this cut does not apply: few parts, large or exotic models."""
    graph = placement.graph
    constants = int(graph.tensor_bytes[(graph.tensor_kind == TensorKind.INITIALIZER) & (graph.tensor_bytes > 0)].sum())
    if len(placement.subgraphs) < _FEWEST_PARTS or constants > MAX_BYTES or cutter.source.functions:
        return None
    if not all(_runs_optimized_graphs(d) for d in placement.used_devices):
        return None
    whole = cutter.whole()
    try:
        model = optimized_graph(whole)
        kernels = lineage(graph, model)
        return _Cut(placement, whole, model, kernels, _parts_of_kernels(placement, kernels)).parts()
    except Exception:  # noqa: BLE001  # whatever is special about this model, the plain cut deals with it
        return None


def _runs_optimized_graphs(device: Device) -> bool:
    """A planned device does not, though its stand-in does: it would share no kernel with its neighbours."""
    return device.present and runtime_of(device.runtime).runs_optimized_graphs(device)


def _parts_of_kernels(placement: Placement, kernels: Sequence[Kernel]) -> list[int]:
    """Subgraph of each kernel: that of its last op, and never before a kernel that it reads from."""
    part = placement.division.subgraph_of_op
    made_in: dict[str, int] = {}
    part_of_kernel = []
    for kernel in kernels:
        here = max([0, *(int(part[op]) for op in kernel.ops), *(made_in.get(name, 0) for name in kernel.reads)])
        part_of_kernel.append(here)
        made_in.update(dict.fromkeys(kernel.makes, here))
    return part_of_kernel


class _Cut:
    def __init__(self, placement: Placement, whole: SubModel, model: ModelProto, kernels: Sequence[Kernel],
                 part_of_kernel: Sequence[int]) -> None:
        self.placement, self.whole, self.model, self.kernels = placement, whole, model, kernels
        self.part_of_kernel = part_of_kernel
        self.nodes = {name: node for node in model.graph.node for name in node.output if name}
        self.made_in = {name: h for kernel, h in zip(kernels, part_of_kernel, strict=True) for name in kernel.makes}
        self.weights = {t.name: t for t in model.graph.initializer}
        self.types: dict[str, ValueInfoProto] = {i.name: i for i in model.graph.input}
        self.model_names = model_names(placement.graph, kernels)

    def parts(self) -> list[SubModel | None]:
        inputs, outputs, weights = self._interfaces()
        crossing = {name for wanted in inputs for name in wanted}
        self._find_types((crossing | self.made_in.keys()) - self.types.keys())
        tensors = InternalTensors(self.kernels, self.part_of_kernel, self.nodes, self.whole.outputs)
        over = tensors.written_over(self.types)
        # Only the buffers of outputs can be chosen, so these tensors become outputs.
        in_place = (name for pair in connected_pairs(over, crossing) for name in pair)
        for name in (*tensors.exposable(self.types, outputs), *in_place):
            outputs[self.made_in[name]][name] = None
        over = [pair for pair in over if all(name in outputs[self.made_in[name]] for name in pair)]
        return [self._part(i, list(inputs[i]), list(outputs[i]), list(weights[i]),
                           tuple(pair for pair in over if self.made_in[pair[1]] == i),
                           frozenset(outputs[i]) - crossing - set(self.whole.outputs)) if outputs[i] else None
                for i in range(len(outputs))]

    def _interfaces(self) -> tuple[list[_Names], list[_Names], list[_Names]]:
        """Inputs, outputs and weights of each part."""
        count = len(self.placement.subgraphs)
        inputs: list[_Names] = [{} for _ in range(count)]
        outputs: list[_Names] = [{} for _ in range(count)]
        weights: list[_Names] = [{} for _ in range(count)]
        for kernel, here in zip(self.kernels, self.part_of_kernel, strict=True):
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
              in_place: tuple[tuple[str, str], ...], internal: frozenset[str]) -> SubModel:
        part = GraphProto(name=self.model.graph.name or "part")
        part.node.extend(self.nodes[k.makes[0]] for k, h in zip(self.kernels, self.part_of_kernel, strict=True) if h == number)
        part.input.extend(self.types[name] for name in inputs)
        part.output.extend(self.types.get(name) or ValueInfoProto(name=name) for name in outputs)
        part.initializer.extend(self.weights[name] for name in weights)
        model = ModelProto(ir_version=self.model.ir_version, graph=part)
        model.opset_import.extend(self.model.opset_import)
        assigned = self.placement.division.subgraph_of_op
        absorbed = tuple(op for k, h in zip(self.kernels, self.part_of_kernel, strict=True) if h == number
                         for op in k.ops if 0 <= assigned[op] != number)
        count = sum(part == number for part in self.made_in.values()) - len(outputs)
        return SubModel(model, tuple(inputs), tuple(outputs), self.whole.folder, f"subgraph {number}", True, in_place, internal,
                        count, self.model_names, absorbed)

    def _find_types(self, names: set[str]) -> None:
        """Types and shapes, from ONNX Runtime: without those of boundary tensors its planner reuses no memory."""
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
