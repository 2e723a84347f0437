"""Builds a Graph from an ONNX file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from onnx import AttributeProto, ModelProto, NodeProto

from editor import limits
from editor.arguments import KEEP_FUNCTIONS, as_mapping, as_path
from editor.errors import ModelError
from editor.files import file_state
from editor.graph.attributes import attributes_of, bodies_of, captured_names
from editor.graph.dimension_meanings import lengths_note
from editor.graph.dimensions import Dims, bind_sizes, input_dims
from editor.graph.external_data import (
    ends_of_data,
    external_data_folder,
    external_tensors,
    missing_of,
)
from editor.graph.front_ends import exported, is_module
from editor.graph.graph import (
    Attributes,
    Bools,
    FileFacts,
    Graph,
    InnerOp,
    Ints,
    Rows,
    Shape,
    TensorKind,
    byte_size,
    element_name,
)
from editor.graph.inference import NeedsSandboxError, fixed_sizes, infer_types
from editor.graph.model_file import drop_weights, model_of_folder, read_with_hash
from editor.graph.opening import Branches, open_closed, split_define, take_known_branches
from editor.graph.openvino_ir import inferred_values, is_ir_model, source_format
from editor.graph.openvino_layers import DOMAIN as OPENVINO
from editor.graph.openvino_layers import onnx_type
from editor.graph.plain_models import PLAIN_BYTES, is_plain
from editor.graph.required_sizes import impossible_sizes
from editor.graph.scopes.paths import module_of
from editor.graph.static_values import constant_ops, is_static, read_by
from editor.sandbox.watch import READING, is_killable
from editor.sandbox.worker import run
from editor.text import is_utf8, shortened


def load_model(
    path: str | Path | Any, define: Any = None, *, keep_functions: bool = False
) -> Graph:
    """Reads a model without its weights.

    Args:
        path: an ONNX file, or a folder with one; OpenVINO IR (``.xml``); a model of TensorFlow Lite, TensorFlow (a
            SavedModel or a frozen graph) or PaddlePaddle, which OpenVINO reads; a program of ``torch.export``
            (``.pt2``); or a ``torch.nn.Module``, whose example inputs are then the second argument: a tuple, a mapping
            of keyword arguments, or one tensor. PyTorch needs the extra ``pytorch``.
        define: sizes of symbolic dimensions, ``{"batch_size": 1}``. Each can be called ``input[axis]`` too.
            ``Graph.unbound`` lists the symbols without a size, ``Graph.define`` those with one: sizes that
            follow from ``define`` are in it. An input of one number can be given its value,
            ``{"use_cache_branch": 1}``: it becomes a constant, and Ifs that depend on it are replaced by
            the branch that it chooses.
        keep_functions: whether calls of local functions stay closed, each one op; the same as
            ``{"keep_functions": 1}``. Otherwise the ops of their bodies take their place.

    Raises:
        ModelError: the file is not a model, is damaged, is not a valid graph (a tensor with two
            producers, a cycle, a missing tensor), or refers to data outside its folder.
        LimitError: it needs more time, memory or parts than the limits allow.
    """
    if is_module(path):
        path, define = exported(path, define), None
    path = model_of_folder(as_path(path, "a model", ModelError))
    define = {} if define is None else as_mapping(define, "define", ModelError)
    if keep_functions:
        define = {**define, KEEP_FUNCTIONS: 1}
    size = (file_state(path) or (0, 0))[1]
    if size <= PLAIN_BYTES and not is_killable():
        model, sha256 = read_with_hash(path)
        if is_plain(model):
            with suppress(NeedsSandboxError):
                return _graph_of(model, sha256, path, define)
    return run(_load, path, define, what=READING, path=path)


def _load(path: Path, define: Mapping[str, int]) -> Graph:
    return _graph_of(*read_with_hash(path), path, define)


def _graph_of(model: ModelProto, sha256: str, path: Path, define: Mapping[str, int]) -> Graph:
    ends, facts = ends_of_data(model), _file_facts(model)
    missing = {name: ends[name] for name in missing_of(external_data_folder(model, path), ends)}
    if next(external_tensors(model), None) is not None and not is_utf8(
        str(external_data_folder(model, path))
    ):
        raise ModelError(
            f"{path}: ONNX cannot read weights from a folder whose name is not UTF-8; rename the folder"
        )
    drop_weights(model)
    given, chosen = split_define(model, define)
    try:
        open_closed(model, chosen)
        dims = input_dims(model)
        sizes, unbound = bind_sizes(model, given)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None
    limits.check_count(str(path), "ops", len(model.graph.node), "ops")
    branches = take_known_branches(model)
    graph = _Builder(model, path).graph(
        {**sizes, **chosen}, chosen, branches, sha256, unbound, dims, missing, facts
    )
    note = lengths_note(graph)
    return replace(graph, own_notes=(*graph.own_notes, note)) if note else graph


_MOST_TEXT = 2000
"""Characters of a text in a file that are kept; metadata can be a whole configuration."""
_MOST_METADATA = 50


def _file_facts(model: ModelProto) -> FileFacts:
    graph = model.graph
    producer = f"{_text(model.producer_name)} {_text(model.producer_version)}".strip()
    return FileFacts(
        ir_version=model.ir_version,
        producer=producer,
        doc=_text(model.doc_string) or _text(graph.doc_string),
        metadata=tuple(
            (_text(p.key), _text(p.value)) for p in model.metadata_props[:_MOST_METADATA]
        ),
        nodes=len(graph.node),
        functions=len(model.functions),
        initializers=len(graph.initializer) + len(graph.sparse_initializer),
    )


def _text(text: str | bytes) -> str:
    """A text of the file that is only shown; protobuf returns it as bytes where it is not UTF-8."""
    shown = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return shortened(shown.strip(), _MOST_TEXT)


class _Builder:
    """Collects tensors and ops of the main graph in lists, then converts them to arrays."""

    def __init__(self, model: ModelProto, path: Path) -> None:
        self.model, self.path = model, path
        self.is_ir = is_ir_model(model)
        self.names: list[str] = []
        self.index: dict[str, int] = {}
        self.declared: dict[int, tuple[str, Shape]] = {}
        """Type and shape of initializers."""
        self.kinds: list[int] = []
        self.producer: list[int] = []

    def graph(
        self,
        define: Mapping[str, int],
        chosen: Mapping[str, int],
        branches: Branches,
        sha256: str,
        unbound: tuple[str, ...],
        dims: Mapping[str, Dims],
        missing: Mapping[str, int],
        facts: FileFacts,
    ) -> Graph:
        """Builds the graph; ``missing`` are files of weights that are not there, and the bytes that they need."""
        proto = self.model.graph
        inputs, overridable_names = self._add_inputs_and_initializers()
        reads, arguments, results = self._add_ops()
        outputs = [self._tensor(v.name, f"graph output {v.name!r}") for v in proto.output]
        read_rows, result_rows = Rows.of(reads), Rows.of(results)
        producer = np.array(self.producer, np.int64)
        kind = np.array(self.kinds, np.int8)
        layers = tuple(_intern(n.op_type for n in proto.node))
        known = [onnx_type(n.op_type) if self.is_ir else "" for n in proto.node]
        op_types = tuple(_intern(k or kind for k, kind in zip(known, layers, strict=True)))
        domains = tuple(
            _intern("" if k else n.domain for k, n in zip(known, proto.node, strict=True))
        )
        order = self._topological_order(read_rows, producer)
        types, shapes, note, sizes = self._types_and_shapes(order, overridable_names, define)
        is_atomic = np.array([bool(bodies_of(n)) for n in proto.node], bool)
        is_size = np.array([bool(n.output) and n.output[0] in sizes for n in proto.node], bool)

        def constants() -> tuple[Rows, Bools]:
            rows = Rows.of(
                [[] if fixed else row for row, fixed in zip(reads, is_size.tolist(), strict=True)]
            )
            return rows, constant_ops(
                op_types,
                domains,
                rows,
                result_rows,
                order,
                producer,
                kind == TensorKind.INITIALIZER,
                np.array(outputs, np.int64),
            )

        read_rows, constant = constants()
        if (
            is_size.any()
            and (
                in_bodies := is_size & read_by(is_atomic, constant, read_rows, order, producer)
            ).any()
        ):
            is_size &= ~in_bodies  # runtimes would put a branch in the place of an If, and are stricter about what is in it
            read_rows, constant = constants()
        keys = tuple(next((o for o in n.output if o), f"#{i}") for i, n in enumerate(proto.node))
        impossible = impossible_sizes(proto.node, dict(zip(self.names, shapes, strict=True)))
        notes = (note, impossible)
        return Graph(
            name=self.path.stem,
            path=self.path,
            folder=external_data_folder(self.model, self.path),
            sha256=sha256,
            define=dict(define),
            chosen=dict(chosen),
            branches=branches,
            unbound=unbound,
            input_dims=dims,
            impossible=impossible,
            opsets={o.domain or "ai.onnx": o.version for o in self.model.opset_import},
            file=facts,
            own_notes=tuple(filter(None, notes)),
            incomplete=missing,
            op_keys=keys,
            op_names=tuple(n.name for n in proto.node),
            op_modules=tuple(_intern(map(module_of, proto.node))),
            op_types=op_types,
            op_domains=domains,
            op_attributes=self._attributes(),
            op_is_atomic=is_atomic,
            op_is_constant=constant,
            op_is_size=is_size,
            op_reads=read_rows,
            op_inputs=Rows.of(arguments),
            op_outputs=result_rows,
            order=order,
            tensor_names=tuple(self.names),
            tensor_types=tuple(types),
            tensor_shapes=tuple(shapes),
            tensor_bytes=np.array(
                [byte_size(t, s) for t, s in zip(types, shapes, strict=True)], np.int64
            ),
            tensor_kind=kind,
            tensor_producer=producer,
            tensor_overridable=np.array([name in overridable_names for name in self.names], bool),
            inputs=np.array(inputs, np.int64),
            outputs=np.array(outputs, np.int64),
            inner_ops=tuple(op for i, node in enumerate(proto.node) for op in _inner_ops(node, i)),
            key_index={key: i for i, key in enumerate(keys)},
            format=OPENVINO if self.is_ir else "onnx",
            source=source_format(self.model),
            op_layers=layers if self.is_ir else (),
        )

    def _add_inputs_and_initializers(self) -> tuple[list[int], set[str]]:
        proto = self.model.graph
        initializers = {
            t.name: (element_name(t.data_type), tuple(t.dims)) for t in proto.initializer
        }
        initializers |= {
            t.values.name: (element_name(t.values.data_type), tuple(t.dims))
            for t in proto.sparse_initializer
        }
        inputs, overridable = [], set()
        for value in proto.input:
            if (
                value.name in initializers
            ):  # a default that the caller may replace; a constant before IR version 4
                overridable.add(value.name)
            elif value.name in self.index:
                raise ModelError(f"{self.path}: graph input {value.name!r} is declared twice")
            else:
                inputs.append(self._add(value.name, TensorKind.INPUT, -1))
        for name, (dtype, shape) in initializers.items():
            self.declared[self._add(name, TensorKind.INITIALIZER, -1)] = (dtype, shape)
        return inputs, overridable if self.model.ir_version >= 4 else set()

    def _add_ops(self) -> tuple[list[list[int]], list[list[int]], list[list[int]]]:
        results: list[list[int]] = []
        for i, node in enumerate(
            self.model.graph.node
        ):  # all outputs first, because the file need not be in topological order
            for name in node.output:
                if name and name in self.index:
                    raise ModelError(
                        f"{self.path}: tensor {name!r} has two producers, the second is op {i} "
                        f"({node.op_type} {node.name!r})"
                    )
                if name:
                    self._add(name, TensorKind.OP_OUTPUT, i)
            results.append([self.index[name] if name else -1 for name in node.output])
        arguments, reads = [], []
        for i, node in enumerate(self.model.graph.node):
            what = f"op {i} ({node.op_type} {node.name!r})"
            arguments.append([self._tensor(name, what) if name else -1 for name in node.input])
            needed = [t for t in arguments[-1] if t >= 0] + [
                self._tensor(n, what) for n in captured_names(node)
            ]
            reads.append(list(dict.fromkeys(needed)))
        return reads, arguments, results

    def _add(self, name: str, kind: TensorKind, producer: int) -> int:
        self.index[name] = len(self.names)
        self.names.append(name)
        self.kinds.append(kind)
        self.producer.append(producer)
        return self.index[name]

    def _types_and_shapes(
        self, order: Ints, overridable: set[str], define: Mapping[str, int]
    ) -> tuple[list[str], list[Shape | None], str, set[str]]:
        """(types, shapes, note on faults, outputs of the ops that read fixed sizes)."""
        model = self.model
        if self.is_ir:
            folder = external_data_folder(model, self.path)
            try:
                values, note = inferred_values(model, folder, define), ""
            except ModelError as error:
                raise ModelError(f"{self.path}: {error}") from None
        else:
            if (np.diff(order) < 0).any():  # shape inference visits the nodes once, in file order
                model = ModelProto()
                model.CopyFrom(self.model)
                model.graph.ClearField("node")
                model.graph.node.extend(self.model.graph.node[op] for op in order.tolist())
            values, note = infer_types(model)
        typed = [
            self.declared.get(i) or values.get(name, ("", None))
            for i, name in enumerate(self.names)
        ]
        known = (
            {
                node.output[0]
                for node in model.graph.node
                if node.op_type == "ShapeOf" and is_static(typed[self.index[node.input[0]]])
            }
            if self.is_ir
            else {name for name in fixed_sizes(model, overridable) if is_static(values.get(name))}
        )
        return [kind for kind, _ in typed], [shape for _, shape in typed], note, known

    def _tensor(self, name: str, reader: str) -> int:
        try:
            return self.index[name]
        except KeyError:
            raise ModelError(
                f"{self.path}: {reader} needs tensor {name!r}, which no op produces"
            ) from None

    def _attributes(self) -> tuple[Attributes, ...]:
        seen: dict[Attributes, Attributes] = {}
        return tuple(seen.setdefault(a, a) for a in map(attributes_of, self.model.graph.node))

    def _topological_order(self, reads: Rows, producer: Ints) -> Ints:
        count = len(reads)
        producers = producer[reads.values]
        if (producers < reads.row_of_value).all():
            return np.arange(
                count
            )  # file order, which the specification requires to be topological
        waiting = np.bincount(reads.row_of_value[producers >= 0], minlength=count)
        consumers: list[list[int]] = [[] for _ in range(count)]
        for source, reader in zip(producers.tolist(), reads.row_of_value.tolist(), strict=True):
            if source >= 0:
                consumers[source].append(reader)
        ready = [i for i in range(count - 1, -1, -1) if waiting[i] == 0]
        order = []
        while ready:
            op = ready.pop()
            order.append(op)
            for reader in reversed(consumers[op]):
                waiting[reader] -= 1
                if waiting[reader] == 0:
                    ready.append(reader)
        if len(order) < count:
            cyclic = next(i for i in range(count) if waiting[i] > 0)
            node = self.model.graph.node[cyclic]
            raise ModelError(
                f"{self.path}: op {cyclic} ({node.op_type} {node.name!r}) depends on its own output "
                "(the graph has a cycle)"
            )
        return np.array(order, np.int64)


def _inner_ops(node: NodeProto, owner: int, around: str = "") -> Iterator[InnerOp]:
    """The ops in the bodies of a node."""
    for attribute in node.attribute:
        graphs = [attribute.g] if attribute.type == AttributeProto.GRAPH else attribute.graphs
        for body in graphs:
            for inner in body.node:
                key = next(filter(None, inner.output), "")
                yield InnerOp(
                    owner,
                    around + attribute.name,
                    key,
                    inner.name,
                    inner.op_type,
                    tuple(filter(None, inner.input)),
                    tuple(filter(None, inner.output)),
                )
                yield from _inner_ops(inner, owner, f"{around}{attribute.name}/")


def _intern(texts: object) -> list[str]:
    seen: dict[str, str] = {}
    return [seen.setdefault(t, t) for t in texts]  # type: ignore[attr-defined]
