"""Sub-models of a plan whose sizes stay open, so that one compiled plan runs a prompt and then token after token.

The plan is of one set of sizes, and its ops on sizes are constants. Here they are nodes as in the file: a subgraph that needs
one reads the tensor whose size it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from onnx import GraphProto, ModelProto, ValueInfoProto

from editor.errors import ExecutionError, ModelError
from editor.graph.attributes import op_reads
from editor.graph.external_data import weights_problem
from editor.graph.graph import Graph, make_value_info
from editor.graph.loading import load_model
from editor.graph.model_file import read_again
from editor.graph.openvino_ir import declared_values
from editor.runtimes.base import SubModel
from editor.runtimes.op_models import MAX_IR_VERSION


def open_submodels(
    graph: Graph, members: Sequence[Sequence[int]], keep_states: bool = False
) -> list[SubModel]:
    """One sub-model per list of ops, which can run in this order, with the dimensions of the file.

    States that OpenVINO's layers keep become inputs and outputs; with ``keep_states`` they stay inside the only part, where
    there is one. (OpenVINO 2026.4 fails where of a key and its value one is inside and the other is not.)

    Raises:
        ExecutionError: the file changed, or two parts need sizes of each other.
    """
    try:
        source, types = read_again(graph), load_model(graph.path, graph.chosen)
    except ModelError as error:
        raise ExecutionError(str(error)) from error
    if problem := weights_problem(source, graph.path):
        raise ExecutionError(f"{graph.path} cannot run: {problem}")
    return _OpenCut(graph, types, source, keep_states).submodels(members)


class _OpenCut:
    def __init__(self, graph: Graph, types: Graph, source: ModelProto, keep_states: bool) -> None:
        self.graph, self.types, self.source, self.keep_states = graph, types, source, keep_states
        self.declared = {} if graph.is_onnx else declared_values(source)
        self.initializers = {t.name: t for t in source.graph.initializer}
        self.sparse = {t.values.name: t for t in source.graph.sparse_initializer}

    def submodels(self, members: Sequence[Sequence[int]]) -> list[SubModel]:
        """The parts of these ops; without those that make no result."""
        graph, node = self.graph, self.source.graph.node
        opened = [] if len(members) == 1 and self.keep_states else graph.state_pairs
        gone = {op for pair in opened for op in pair}
        parts = [self._ordered([op for op in ops if op not in gone]) for ops in members]
        made = [{name for op in part for name in node[op].output} for part in parts]
        weights = self.initializers.keys() | self.sparse.keys()
        reads = [
            dict.fromkeys(
                name
                for op in part
                for name in op_reads(node[op])
                if name not in made[i] and name not in weights
            )
            for i, part in enumerate(parts)
        ]
        wanted = {graph.tensor_names[t] for t in graph.outputs.tolist()}
        known = {graph.tensor_names[t] for t in graph.inputs.tolist()}
        wanted |= {node[kept].input[0] for _, kept in opened}
        known |= {node[read].output[0] for read, _ in opened}
        result = []
        for i, part in enumerate(parts):
            if missing := [name for name in reads[i] if name not in known]:
                raise ExecutionError(
                    f"subgraph {i} needs the size of {missing[0]!r}, which a later one computes: it cannot run with open "
                    "sizes; assign the ops that produce and read it to one device"
                )
            needed = wanted.union(*(names for j, names in enumerate(reads) if j != i))
            outputs = dict.fromkeys(
                name for op in part for name in node[op].output if name in needed - known
            )
            known |= made[i]
            if outputs:
                result.append(self._submodel(i, part, list(reads[i]), list(outputs)))
        return result

    def _ordered(self, ops: Sequence[int]) -> list[int]:
        """In topological order, with the constants that they are computed from."""
        graph, needed, waiting = self.graph, set(ops), list(ops)
        while waiting:
            op = waiting.pop()
            for tensor in {*graph.op_reads[op].tolist(), *graph.op_inputs[op].tolist()} - {-1}:
                producer = int(graph.tensor_producer[tensor])
                if producer >= 0 and graph.op_is_constant[producer] and producer not in needed:
                    needed.add(producer)
                    waiting.append(producer)
        return sorted(needed, key=lambda op: int(graph.rank[op]))

    def _submodel(
        self, number: int, ops: Sequence[int], inputs: Sequence[str], outputs: Sequence[str]
    ) -> SubModel:
        part = GraphProto(name=self.source.graph.name or self.graph.name)
        needed: dict[str, None] = {}
        for op in ops:
            part.node.add().CopyFrom(self.source.graph.node[op])
            part.node[-1].name = f"op{op}"
            needed.update(dict.fromkeys(op_reads(part.node[-1])))
        part.input.extend(self._value(name) for name in inputs)
        part.output.extend(self._value(name) for name in outputs)
        part.initializer.extend(self.initializers[n] for n in needed if n in self.initializers)
        part.sparse_initializer.extend(self.sparse[n] for n in needed if n in self.sparse)
        version = min(max(self.source.ir_version, 8), MAX_IR_VERSION)
        model = ModelProto(ir_version=version, graph=part)
        model.opset_import.extend(self.source.opset_import)
        model.functions.extend(self.source.functions)
        return SubModel(
            model, tuple(inputs), tuple(outputs), self.graph.folder, f"subgraph {number}"
        )

    def _value(self, name: str) -> ValueInfoProto:
        tensor, shape = self.graph.tensor_index[name], None
        if name in self.declared:
            shape = self.declared[name][1]
        elif (closed := self.graph.tensor_shapes[tensor]) is not None:
            shape = self.types.tensor_shapes[self.types.tensor_index[name]]
            shape = ("?",) * len(closed) if shape is None else shape
        return make_value_info(name, self.graph.tensor_types[tensor], shape)
