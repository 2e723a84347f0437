"""Reads OpenVINO IR into the containers of ONNX, and writes parts of it back.

A layer becomes a node of the domain ``openvino`` that keeps its text, so that a part is written with its layers as they stand.
A ``Const`` becomes an initializer whose data is external: its offset and size in the ``.bin``. ``Parameter`` and ``Result``
become inputs and outputs. Shapes are those of the file, or where sizes are chosen those that OpenVINO infers. The format:
https://docs.openvino.ai, "OpenVINO IR format", versions 10 and 11.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import Any
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from editor import limits
from editor.errors import ModelError
from editor.graph.external_data import is_external, locations_of
from editor.graph.graph import Shape, element_name, make_value_info, shape_of, type_name
from editor.graph.openvino_layers import DOMAIN, SOURCE, added_attributes, attribute
from editor.groups import grouped

VERSIONS = (10, 11)
_LAYER, _INPUT_PORTS, _OUTPUT_PORTS, _ID, _OPSET = "layer", "inputs", "outputs", "id", "opset"
"""Keys of what a node keeps: the text inside its element, the numbers of its ports, its number, and its opset."""
_TYPES = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "f8e4m3": "float8e4m3fn",
    "f8e5m2": "float8e5m2",
    "f8e8m0": "float8e8m0",
    "f4e2m1": "float4e2m1",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "i4": "int4",
    "u64": "uint64",
    "u32": "uint32",
    "u16": "uint16",
    "u8": "uint8",
    "u4": "uint4",
    "u2": "uint2",
    "nf4": "uint4",
    "boolean": "bool",
    "string": "string",
}
"""Element types by the names of IR; ``nf4`` is shown as the type of its bits, which ONNX has."""
_NAMES = {mine: theirs for theirs, mine in reversed(_TYPES.items())}
_PRECISIONS = {"fp64": "f64", "fp32": "f32", "fp16": "f16", "bool": "boolean"}
"""Names of types in ports that are others than those in ``element_type``."""
_BODIES = {"body": "body", "then_body": "then_branch", "else_body": "else_branch"}
_LARGEST_DIM = 1 << 62
_LARGEST_RANK = 64
_KEPT_ALIVE = frozenset({"Assign"})
"""Layers that are computed for what they do, and not for a result."""


@dataclass
class _Port:
    id: str
    type: str = ""
    names: str = ""
    dims: list[int] = field(default_factory=list)


@dataclass
class _Layer:
    """A layer of the main graph, or of a body."""

    id: str
    name: str
    type: str
    opset: str
    line: int
    data: dict[str, str] = field(default_factory=dict)
    inputs: list[_Port] = field(default_factory=list)
    outputs: list[_Port] = field(default_factory=list)
    bodies: dict[str, list[_Layer]] = field(default_factory=dict)
    text: bytes = b""

    def __str__(self) -> str:
        return f"layer {self.id} ({self.type} {self.name!r}, line {self.line})"


class _Reader:
    """Collects layers and edges while expat reads the file, with the text of each layer of the main graph."""

    def __init__(self, data: bytes, path: Path) -> None:
        self.data, self.path = data, path
        self.version = ""
        self.name = ""
        self.layers: list[_Layer] = []
        self.edges: dict[tuple[str, str], tuple[str, str]] = {}
        """(layer, port) that reads -> (layer, port) that is read."""
        self._tags: list[str] = []
        self._inside: list[_Layer] = []
        self._lists: list[list[_Layer]] = [self.layers]
        self._ports: list[_Port] | None = None
        self._dim = ""
        self._start = -1
        """Of the text inside the present layer of the main graph."""
        self._pending = False
        parser = expat.ParserCreate("utf-8")
        parser.buffer_text = True
        parser.StartElementHandler = self._open
        parser.EndElementHandler = self._close
        parser.CharacterDataHandler = self._text
        parser.StartDoctypeDeclHandler = self._refuse
        self._parser = parser
        try:
            parser.Parse(data, True)
        except expat.ExpatError as error:
            raise ModelError(
                f"{path}: OpenVINO IR, damaged or cut short ({error}); get the file again"
            ) from error

    def _refuse(self, *_: Any) -> None:
        raise ModelError(f"{self.path}: it declares a document type, which OpenVINO IR does not")

    def _open(self, tag: str, attributes: dict[str, str]) -> None:
        depth, self._tags = len(self._inside), [*self._tags[-2:], tag]
        self._mark()
        if tag == "net" and not depth:
            self.version, self.name = attributes.get("version", ""), attributes.get("name", "")
        elif tag == "layer":
            layer = _Layer(
                attributes.get("id", ""),
                attributes.get("name", ""),
                attributes.get("type", ""),
                attributes.get("version", ""),
                self._parser.CurrentLineNumber,
            )
            self._lists[-1].append(layer)
            self._inside.append(layer)
            self._pending = depth == 0
        elif tag in _BODIES and depth:
            limits.check_count(
                str(self.path),
                "nesting",
                len(self._lists),
                "bodies of If or Loop inside each other",
            )
            self._lists.append(self._inside[-1].bodies.setdefault(_BODIES[tag], []))
        elif tag == "edge" and not depth:
            self._edge(attributes)
        elif depth:
            self._part_of_layer(tag, attributes)

    def _part_of_layer(self, tag: str, attributes: dict[str, str]) -> None:
        layer = self._inside[-1]
        if tag == "data":
            layer.data = attributes
        elif tag in ("input", "output") and len(self._lists) == len(self._inside):
            self._ports = layer.inputs if tag == "input" else layer.outputs
        elif tag == "port" and self._ports is not None:
            kind = attributes.get("precision", "").lower()
            self._ports.append(
                _Port(
                    attributes.get("id", ""),
                    _PRECISIONS.get(kind, kind),
                    attributes.get("names", ""),
                )
            )
        elif tag == "dim":
            self._dim = ""

    def _close(self, tag: str) -> None:
        if tag == "layer":
            layer = self._inside.pop()
            if not self._inside:
                self._mark()
                end = self._parser.CurrentByteIndex
                layer.text = self.data[self._start : end] if end >= self._start >= 0 else b""
                self._start = -1
        elif tag in _BODIES and self._inside:
            self._lists.pop()
        elif tag in ("input", "output"):
            self._ports = None
        elif tag == "dim" and self._ports and self._inside:
            self._ports[-1].dims.append(self._size(self._dim))
            if len(self._ports[-1].dims) > _LARGEST_RANK:
                raise self._error(
                    f"{self._inside[-1]} has a port of over {_LARGEST_RANK} dimensions"
                )

    def _mark(self) -> None:
        """The first tag after that of a layer begins the text inside it."""
        if self._pending and self._start < 0:
            self._start, self._pending = self._parser.CurrentByteIndex, False

    def _text(self, text: str) -> None:
        if self._tags[-1:] == ["dim"]:
            self._dim += text[:32]

    def _edge(self, attributes: dict[str, str]) -> None:
        source = attributes.get("from-layer", ""), attributes.get("from-port", "0")
        target = attributes.get("to-layer", ""), attributes.get("to-port", "0")
        if self.edges.setdefault(target, source) != source:
            raise self._error(f"two edges go to port {target[1]} of layer {target[0]}")

    def _size(self, text: str) -> int:
        if not re.fullmatch(r"\s*-?\d{1,19}\s*", text) or int(text) >= _LARGEST_DIM:
            raise self._error(f"{self._inside[-1]} has a dimension {text.strip()[:40]!r}")
        return int(text)

    def _error(self, what: str) -> ModelError:
        return ModelError(f"{self.path}: OpenVINO IR, but {what}")


def is_ir(data: bytes) -> bool:
    """Whether the beginning of a file is that of an IR."""
    head = data[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    return head.startswith(b"<net ") or (head.startswith(b"<?xml") and b"<net " in head)


def read_ir(data: bytes, path: Path, weights: Path) -> ModelProto:
    """The model of an IR, with nodes in the domain ``openvino`` and all constants as external data of ``weights``.

    Args:
        data: the XML.
        path: its file, for messages.
        weights: the ``.bin``; it need not be there.

    Raises:
        ModelError: the file is damaged, of another version, or not a valid graph.
        LimitError: it has more layers than the limits allow.
    """
    reader = _Reader(data, path)
    if not reader.version.isdigit() or int(reader.version) not in VERSIONS:
        raise ModelError(
            f"{path}: OpenVINO IR of version {reader.version[:20] or 'unknown'}; versions 10 and 11 are read "
            "(OpenVINO 2020.4 and later write them): convert the original model again"
        )
    limits.check_count(str(path), "ops", len(reader.layers), "layers")
    return _Converter(reader, path, weights).model()


class _Converter:
    """Makes nodes, initializers, inputs and outputs of layers."""

    def __init__(self, reader: _Reader, path: Path, weights: Path) -> None:
        self.reader, self.path, self.weights = reader, path, weights
        self.graph = GraphProto(name=reader.name)
        self.tensor_of: dict[tuple[str, str], str] = {}
        """(layer, port) that is read -> name of the tensor."""
        names = (
            port.names
            for layer in reader.layers
            if layer.type == "Parameter"
            for port in layer.outputs
        )
        self._has_past = any(name.startswith("past") for name in names)
        self._weights_size = weights.stat().st_size if weights.is_file() else None

    def model(self) -> ModelProto:
        """Builds the model."""
        layers = self.reader.layers
        if len({layer.id for layer in layers}) < len(layers):
            raise self._error("two layers have the same id")
        self._name_tensors(layers)
        for layer in layers:
            if layer.type == "Parameter":
                self.graph.input.append(self._parameter(layer))
            elif layer.type == "Const":
                self._constant(layer)
            elif layer.type == "Result":
                self._result(layer)
            else:
                self._node(layer)
        model = ModelProto(ir_version=10, graph=self.graph, producer_name="OpenVINO")
        model.opset_import.append(helper.make_opsetid(DOMAIN, int(self.reader.version)))
        return model

    def _name_tensors(self, layers: Iterable[_Layer]) -> None:
        taken: set[str] = set()
        for layer in layers:
            if layer.type == "Result":
                continue
            for i, port in enumerate(layer.outputs):
                given = next(iter(_names(port.names)), "")
                name = given or f"{layer.name or layer.id}{f'.{i}' if i else ''}"
                others = (f"{name}~{number}" for number in count(2))
                unique = next(each for each in chain([name], others) if each not in taken)
                taken.add(unique)
                self.tensor_of[layer.id, port.id] = unique

    def _tensors(self, layer: _Layer) -> list[str]:
        return [self.tensor_of[layer.id, port.id] for port in layer.outputs]

    def _parameter(self, layer: _Layer) -> ValueInfoProto:
        if len(layer.outputs) != 1:
            raise self._error(f"{layer} has {len(layer.outputs)} outputs")
        kind = self._type(layer.data.get("element_type", layer.outputs[0].type), layer)
        text = layer.data.get("shape", "")
        name, shape = self._tensors(layer)[0], None
        if "..." not in text:
            dims = text.split(",") if text.strip() else []
            shape = tuple(self._declared(dim, name, axis) for axis, dim in enumerate(dims))
        return make_value_info(name, kind, shape)

    def _declared(self, text: str, name: str, axis: int) -> int | str:
        """A size, or the name of an open axis; a model that keeps its state itself begins each run without a past."""
        if re.fullmatch(r"\s*\d{1,18}\s*", text):
            return int(text)
        known = next((names for inputs, names in _DIMENSIONS if inputs.fullmatch(name)), ())
        called = known[axis] if axis < len(known) else ""
        return "sequence" if called == "total_sequence" and not self._has_past else called or "?"

    def _constant(self, layer: _Layer) -> None:
        if len(layer.outputs) != 1:
            raise self._error(f"{layer} has {len(layer.outputs)} outputs")
        offset, size = layer.data.get("offset", ""), layer.data.get("size", "")
        if not all(re.fullmatch(r"\d{1,18}", number) for number in (offset, size)):
            raise self._error(f"{layer} does not say where its data is")
        if self._weights_size is not None and int(offset) + int(size) > self._weights_size:
            raise self._error(
                f"the data of {layer} ends at byte {int(offset) + int(size):,}, and {self.weights.name} has "
                f"{self._weights_size:,}: it is cut short, or of another model"
            )
        kind = self._type(layer.data.get("element_type", ""), layer)
        dims = layer.outputs[0].dims
        if any(dim < 0 for dim in dims):
            raise self._error(f"{layer} has an open dimension")
        tensor = self.graph.initializer.add(name=self._tensors(layer)[0], dims=dims)
        tensor.data_type = make_value_info("", kind, ()).type.tensor_type.elem_type
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", self.weights.name), ("offset", offset), ("length", size)):
            tensor.external_data.add(key=key, value=value)
        self._keep(tensor, layer)

    def _result(self, layer: _Layer) -> None:
        if len(layer.inputs) != 1:
            raise self._error(f"{layer} has {len(layer.inputs)} inputs")
        name = self._source(layer, layer.inputs[0])
        if all(output.name != name for output in self.graph.output):
            self.graph.output.append(self._value(name, layer.inputs[0], layer))

    def _node(self, layer: _Layer) -> None:
        node = self.graph.node.add(
            op_type=layer.type,
            domain=DOMAIN,
            name=layer.name,
            input=[self._source(layer, port) for port in layer.inputs],
            output=self._tensors(layer),
        )
        node.attribute.extend(attribute(name, text) for name, text in layer.data.items())
        shapes = [port.dims for port in layer.inputs]
        node.attribute.extend(added_attributes(layer.type, layer.data, shapes))
        node.attribute.extend(
            helper.make_attribute(name, _body(name, layers))
            for name, layers in layer.bodies.items()
        )
        self._keep(node, layer)
        self.graph.value_info.extend(
            self._value(name, port, layer)
            for name, port in zip(node.output, layer.outputs, strict=True)
        )

    def _keep(self, proto: NodeProto | TensorProto, layer: _Layer) -> None:
        kept = {
            _LAYER: layer.text.decode("utf-8", "replace"),
            _INPUT_PORTS: " ".join(port.id for port in layer.inputs),
            _OUTPUT_PORTS: " ".join(port.id for port in layer.outputs),
            _ID: layer.id,
            _OPSET: layer.opset,
        }
        for key, value in kept.items():
            proto.metadata_props.add(key=key, value=value)

    def _value(self, name: str, port: _Port, layer: _Layer) -> ValueInfoProto:
        shape = tuple(dim if dim >= 0 else "?" for dim in port.dims)
        return make_value_info(name, self._type(port.type, layer, unknown=True), shape)

    def _type(self, text: str, layer: _Layer, unknown: bool = False) -> str:
        kind = _TYPES.get(text.lower(), "")
        if not kind and not unknown:
            raise self._error(f"{layer} has the element type {text[:40]!r}, which is not supported")
        return kind

    def _source(self, layer: _Layer, port: _Port) -> str:
        source = self.reader.edges.get((layer.id, port.id))
        if source is None:
            raise self._error(f"no edge goes to port {port.id} of {layer}")
        if source not in self.tensor_of:
            raise self._error(
                f"{layer} reads port {source[1]} of layer {source[0]}, which is not there"
            )
        return self.tensor_of[source]

    def _error(self, what: str) -> ModelError:
        return ModelError(f"{self.path}: OpenVINO IR, but {what}")


def _body(name: str, layers: Iterable[_Layer]) -> GraphProto:
    """What is shown of a body: its layers, without what they read."""
    body = GraphProto(name=name)
    for layer in layers:
        if layer.type not in ("Parameter", "Const", "Result"):
            node = body.node.add(op_type=layer.type, domain=DOMAIN, name=layer.name)
            node.output.append(layer.name or layer.id)
            node.attribute.extend(
                helper.make_attribute(inner, _body(inner, others))
                for inner, others in layer.bodies.items()
            )
    return body


def _names(text: str) -> Iterator[str]:
    """The names of a port, which are separated by commas; a comma in a name follows a backslash."""
    for name in re.split(r"(?<!\\),", text):
        if plain := name.replace("\\,", ",").strip():
            yield plain


_DIMENSIONS = (
    (re.compile(r"(input_ids|inputs_embeds|position_ids|token_type_ids)"), ("batch", "sequence")),
    (re.compile(r"attention_mask"), ("batch", "total_sequence")),
    (re.compile(r"past_key_values\..*|past_key_.*|past_value_.*"), ("batch", "", "past_sequence")),
    (re.compile(r"beam_idx|encoder_hidden_states|decoder_input_ids"), ("batch",)),
)
"""Inputs of language models -> names of their open axes: IR has none, and these sizes go together."""


def source_format(model: ModelProto) -> str:
    """The format of its file: ``onnx``, ``openvino``, ``tflite``, ``tensorflow``, ``paddle`` or ``pytorch``."""
    own = DOMAIN if is_ir_model(model) else "onnx"
    return str(next((entry.value for entry in model.metadata_props if entry.key == SOURCE), own))


def is_ir_model(model: ModelProto) -> bool:
    """Whether a model, or a part of one, is of OpenVINO IR."""
    return any(opset.domain == DOMAIN for opset in model.opset_import)


def is_kept_alive(node: NodeProto) -> bool:
    """Whether a node is to be computed although nothing may read its results: it sets a state."""
    return node.domain == DOMAIN and node.op_type in _KEPT_ALIVE


def write_ir(model: ModelProto) -> bytes:
    """The XML of a model that ``read_ir`` made, or of a part of it; layers are named as the nodes are.

    Constants stay in the ``.bin`` of the original; values that are in the model itself become inputs, in their order.
    A state that this part only reads, or only sets, has its initial value: each run begins with it.

    Raises:
        ModelError: such a state has no initial value.
    """
    graph = model.graph
    writer = _Writer()
    for value in graph.input:
        writer.parameter(value)
    for tensor in graph.initializer:
        if not is_external(tensor):
            writer.parameter(
                make_value_info(tensor.name, element_name(tensor.data_type), tuple(tensor.dims))
            )
            continue
        writer.layer(tensor, "Const", tensor.name, [], [tensor.name])
    lonely = _lonely_states(graph.node)
    for node in graph.node:
        if state_of(node) in lonely:
            writer.alias(node)
        else:
            writer.layer(node, node.op_type, node.name, list(node.input), list(node.output))
    for value in graph.output:
        writer.result(value.name)
    lines = ['<?xml version="1.0"?>', '<net name="part" version="11">', "<layers>"]
    lines += [*writer.layers, "</layers>", "<edges>", *writer.edges, "</edges>", "</net>"]
    return "\n".join(lines).encode()


def state_of(node: NodeProto) -> str:
    """The name of the state that a node reads or sets; "" where it does neither."""
    if node.op_type not in ("ReadValue", "Assign"):
        return ""
    return next((a.s.decode() for a in node.attribute if a.name == "variable_id"), "")


def _lonely_states(nodes: Iterable[NodeProto]) -> set[str]:
    """States that nodes only read, or only set."""
    kinds = grouped((name, node.op_type) for node in nodes if (name := state_of(node)))
    return {name for name, found in kinds.items() if len(set(found)) == 1}


class _Writer:
    """Writes layers with numbers of their own, and the edges between them."""

    def __init__(self) -> None:
        self.layers: list[str] = []
        self.edges: list[str] = []
        self._made_by: dict[str, tuple[int, str]] = {}
        self._waiting: list[tuple[str, int, str]] = []

    def parameter(self, value: ValueInfoProto) -> None:
        """An input."""
        kind = _NAMES.get(type_name(value.type), "dynamic")
        shape = shape_of(value.type)
        sizes = [str(dim) if isinstance(dim, int) else "?" for dim in shape or ()]
        text = "..." if shape is None else ",".join(sizes)
        dims = "".join(f"<dim>{'-1' if size == '?' else size}</dim>" for size in sizes)
        names = quoteattr(value.name.replace(",", "\\,"))
        self._add(
            "Parameter",
            value.name,
            "opset1",
            f'<data shape="{text}" element_type="{kind}"/>'
            f'<output><port id="0" precision="{_precision(kind)}" names={names}>{dims}</port></output>',
        )
        self._made_by[value.name] = len(self.layers) - 1, "0"

    def layer(
        self,
        proto: NodeProto | TensorProto,
        kind: str,
        name: str,
        inputs: list[str],
        outputs: list[str],
    ) -> None:
        """A layer as it stands, with another name."""
        kept = {entry.key: entry.value for entry in proto.metadata_props}
        self._add(kind, name, kept[_OPSET], kept[_LAYER])
        number = len(self.layers) - 1
        for tensor, port in zip(outputs, kept[_OUTPUT_PORTS].split(), strict=True):
            self._made_by[tensor] = number, port
        for tensor, port in zip(inputs, kept[_INPUT_PORTS].split(), strict=True):
            self._read(tensor, number, port)

    def alias(self, node: NodeProto) -> None:
        """A node that passes on what it reads."""
        if not node.input:
            raise ModelError(
                f"the state {state_of(node)!r} has no initial value, so that the ops that read and set it must be in one "
                "subgraph: assign what is between them to one device"
            )
        for name in node.output:
            self._made_by[name] = self._made_by[node.input[0]]

    def result(self, name: str) -> None:
        """An output."""
        self._add("Result", f"{name}/result", "opset1", '<input><port id="0"/></input>')
        self._read(name, len(self.layers) - 1, "0")

    def _add(self, kind: str, name: str, opset: str, inner: str) -> None:
        head = f'<layer id="{len(self.layers)}" name={quoteattr(name)} type="{escape(kind)}" version={quoteattr(opset)}>'
        self.layers.append(f"{head}{inner}</layer>")

    def _read(self, tensor: str, layer: int, port: str) -> None:
        source, source_port = self._made_by[tensor]
        self.edges.append(
            f'<edge from-layer="{source}" from-port="{source_port}" to-layer="{layer}" to-port="{port}"/>'
        )


def _precision(kind: str) -> str:
    return {theirs: port for port, theirs in _PRECISIONS.items()}.get(kind, kind).upper()


def fix_shapes(model: ModelProto, shapes: Mapping[str, Shape]) -> None:
    """Gives inputs of a model shapes, in place."""
    for value in model.graph.input:
        if value.name in shapes:
            value.CopyFrom(make_value_info(value.name, type_name(value.type), shapes[value.name]))


Values = dict[str, tuple[str, Shape | None]]


def declared_values(model: ModelProto) -> Values:
    """Type and shape of each value that the file declares."""
    graph = model.graph
    return {
        value.name: (type_name(value.type), shape_of(value.type))
        for value in (*graph.output, *graph.value_info, *graph.input)
    }


def inferred_values(model: ModelProto, folder: Path, sizes: Mapping[str, int]) -> Values:
    """As ``declared_values``, with the shapes that follow from the present shapes of the inputs.

    A state has the shape that it begins with, as in each run.

    Args:
        model: its inputs have their sizes.
        folder: where its weights are.
        sizes: that were chosen, for messages.

    Raises:
        ModelError: OpenVINO cannot read the model at these sizes.
    """
    values = declared_values(model)
    has_state = any(node.op_type == "ReadValue" for node in model.graph.node)
    if not (sizes or has_state) or not all(
        (folder / name).is_file() for name in locations_of(model)
    ):
        return values
    copy = ModelProto()
    copy.CopyFrom(model)
    for i, node in enumerate(copy.graph.node):
        node.name = f"op{i}"
    names = [list(node.output) for node in copy.graph.node]
    begun = _begin_states(copy)
    try:
        made = _read_by_openvino(copy, folder)
    except Exception as error:  # OpenVINO raises RuntimeError and others for one and the same cause
        chosen = ", ".join(f"{name}={size}" for name, size in sizes.items())
        reason = str(error).strip().splitlines()[-1][:300]
        raise ModelError(
            f"the model cannot have the sizes {chosen}: OpenVINO says {reason}"
        ) from error
    by_name = {op.get_friendly_name(): op for op in made.get_ordered_ops()}
    for i, outputs in enumerate(names):
        if (op := by_name.get(f"op{i}")) is not None:
            for name, output in zip(outputs, op.outputs(), strict=False):
                values[name] = values[name][0], _shape_of(output.get_partial_shape())
    for state, first in begun.items():
        values[state] = values[state][0], values.get(first, values[state])[1]
    return values


def _begin_states(model: ModelProto) -> dict[str, str]:
    """Removes what sets a state, in place, so that reading it gives its first value; name of the state's tensor -> of that one.

    A state without a first value stays.
    """
    nodes = model.graph.node
    pairs = [(name, node) for node in nodes if (name := state_of(node))]
    first = {
        name: (node.output[0], node.input[0])
        for name, node in pairs
        if node.op_type == "ReadValue" and node.input
    }
    for name, node in pairs:
        if node.op_type == "Assign" and name in first:
            model.graph.output.add(name=node.input[0])
            nodes.remove(node)
    return dict(first.values())


def _read_by_openvino(model: ModelProto, folder: Path) -> Any:
    import openvino as ov

    data = np.zeros(0, np.uint8)
    for name in locations_of(model):  # an IR has one file of weights
        if (folder / name).stat().st_size:
            data = np.memmap(folder / name, np.uint8, "c")
    return ov.Core().read_model(write_ir(model), ov.Tensor(data, shared_memory=data.size > 0))


def _shape_of(shape: Any) -> Shape | None:
    if shape.rank.is_dynamic:
        return None
    return tuple("?" if dim.is_dynamic else dim.get_length() for dim in shape)
