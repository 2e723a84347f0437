"""Reads untrusted ONNX files.

External data is not read; only its location is checked. ``drop_weights`` removes the data of large
tensors from the parsed model and keeps their dims and types.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import GraphProto, ModelProto, NodeProto

from editor import limits
from editor.errors import ModelError
from editor.files import meant
from editor.graph.attributes import bodies_of
from editor.graph.external_data import all_tensors, check_external_data
from editor.graph.front_ends import PYTORCH, content_hash, converted, source_of
from editor.graph.graph import Graph
from editor.graph.opening import open_again
from editor.graph.openvino_ir import is_ir, read_ir
from editor.graph.openvino_layers import DOMAIN, SOURCE, WEIGHTS_FOLDER

MAX_FILE_BYTES = 2 << 30
"""Limit of protocol buffers; larger models store their weights as external data."""
MODEL_SUFFIXES = (".onnx", ".xml", ".tflite", ".pdmodel", ".pb", ".pt2")
"""Of files that may be models, in the order in which one is looked for among several files."""
MAX_OPSET = 1000
"""Versions above it do not exist; OpenVINO would look through all of them."""
KEPT_TENSOR_BYTES = 8192
"""Tensors up to this size keep their data when weights are dropped."""
_ALWAYS_ALLOWED_RANK = 8

_ORT_FORMAT = b"ORTM"
"""Identifier after the first four bytes of a file."""
_EXPORT = "export the model to ONNX (of PyTorch: torch.onnx.export; of Keras: model.export(path, format='onnx'))"
FOREIGN = {
    ".gguf": f"a GGUF file holds weights for llama.cpp and no graph; {_EXPORT}",
    ".safetensors": f"safetensors hold weights and no graph; {_EXPORT}",
    ".mlmodel": f"a Core ML model; {_EXPORT} from where it came",
    ".mlpackage": f"a Core ML model; {_EXPORT} from where it came",
    ".engine": "an engine that TensorRT built for one GPU; use the model that it was built from",
    ".keras": f"a Keras archive; {_EXPORT}",
    ".h5": f"a Keras model in HDF5; {_EXPORT}",
    ".hdf5": f"a Keras model in HDF5; {_EXPORT}",
    ".pt": f"a file of PyTorch, which runs code when it is loaded, so it is not opened; {_EXPORT}",
    ".pth": f"a file of PyTorch, which runs code when it is loaded, so it is not opened; {_EXPORT}",
    ".pkl": f"a Python pickle, which runs code when it is loaded, so it is not opened; {_EXPORT}",
    ".blob": "a model that OpenVINO compiled for one device; use the .xml that it was compiled from",
    ".bin": "only weights: name the .xml or .onnx file beside it",
    ".pdiparams": "only weights: name the .pdmodel or .json file beside it",
}
"""Suffix of what does not open -> what it is, and the way to a format that opens."""
LOOKS_LIKE = (
    (
        b"GGUF",
        "a GGUF file, which holds weights for llama.cpp and no graph; export the model to ONNX",
    ),
    (
        b"\x80\x02",
        "a Python pickle, which runs code when it is loaded, so it is not opened; export the model to ONNX",
    ),
    (b"\x1f\x8b", "gzip-compressed data; unpack it first (gunzip)"),
    (b"PK\x03\x04", "a zip archive; unpack it first"),
    (b"version https://git-lfs", "a Git LFS pointer, not the model; run `git lfs pull`"),
    (b"<!DOCTYPE", "an HTML page; the download went wrong"),
    (b"<!doctype", "an HTML page; the download went wrong"),
    (b"<html", "an HTML page; the download went wrong"),
    (b"{", "JSON text; convert it to a binary .onnx file first"),
    (b"\x89HDF", "an HDF5 (Keras) file; convert it to ONNX first"),
)
"""First bytes of what is not a model -> what it is, and what to do."""


def read_model(path: str | Path) -> ModelProto:
    """Parses a model file; external data is not loaded.

    Raises:
        ModelError: the file is missing, not an ONNX model, damaged, or refers to files outside its folder.
    """
    return read_with_hash(path)[0]


def read_with_hash(path: str | Path) -> tuple[ModelProto, str]:
    """As ``read_model``, with the SHA-256 of the bytes that were parsed."""
    path = Path(path)
    if (source := source_of(path)) is not None:
        sha256 = content_hash(source)
        made = converted(path, source, sha256)
        if source.name == PYTORCH:
            model = _read_onnx(_read_bytes(made), made)
        else:
            model = read_ir(_read_bytes(made), path, made.with_suffix(".bin"))
            check_external_data(model, made)
        model.metadata_props.add(key=SOURCE, value=source.name)
        model.metadata_props.add(key=WEIGHTS_FOLDER, value=str(made.parent))
        return model, sha256
    if reason := FOREIGN.get(path.suffix.lower()):
        raise ModelError(f"{path}: not an ONNX model: {reason}")
    data = _read_bytes(path)
    sha256 = hashlib.sha256(data).hexdigest()
    if is_ir(data):
        model = read_ir(data, path, path.with_suffix(".bin"))
        check_external_data(model, path)
        return model, sha256
    return _read_onnx(data, path), sha256


def _read_onnx(data: bytes, path: Path) -> ModelProto:
    """Parses and checks an ONNX file; its metadata says nothing that this reader says."""
    try:
        model = onnx.load_model_from_string(data)
    except (DecodeError, ValueError, TypeError) as error:
        raise ModelError(f"{path}: {_diagnosis(data)}") from error
    if not model.HasField("graph"):
        raise ModelError(f"{path}: {_diagnosis(data)}")
    limits.check_count(str(path), "ops", len(model.graph.node), "ops")
    _check_opsets(model, path)
    _check_nesting(model, path)
    _check_values(model, path)
    _check_names(model, path)
    _check_functions(model, path)
    for entry in [e for e in model.metadata_props if e.key in (SOURCE, WEIGHTS_FOLDER)]:
        model.metadata_props.remove(entry)
    check_external_data(model, path)
    return model


def ir_of(path: Path) -> Path:
    """The OpenVINO IR that a model which is not ONNX is read from: the file itself, or what was made of it.

    Raises:
        ModelError: it is gone, or cannot be read.
    """
    source = source_of(path)
    return path if source is None else converted(path, source, content_hash(source))


def read_again(graph: Graph) -> ModelProto:
    """Parses the file of a graph once more, for what the graph does not hold.

    Local functions and Ifs are opened as in the graph, so that its ops are the nodes of the main graph.

    Raises:
        ModelError: it is not the file that the graph was made from: it is gone, or has changed.
    """
    model, sha256 = read_with_hash(graph.path)
    if sha256 != graph.sha256:
        before, now = len(graph), len(model.graph.node)
        raise _changed(
            graph.path,
            f"it had {before} ops, and has {now} now"
            if before != now
            else f"it still has {now} ops",
        )
    open_again(model, graph)
    return model


def check_same(graph: Graph, sha256: str) -> Graph:
    """Returns a graph that was read once more; raises ``ModelError`` where the file is not what it was."""
    if graph.sha256 != sha256:
        raise _changed(graph.path, f"it has {len(graph)} ops now")
    return graph


def _changed(path: Path, how: str) -> ModelError:
    return ModelError(f"{path}: the file changed since it was opened ({how}); open it again")


def _check_opsets(model: ModelProto, path: Path) -> None:
    """Refuses opset versions that cannot be, in the model and in its functions."""
    for opset in (
        *model.opset_import,
        *(o for function in model.functions for o in function.opset_import),
    ):
        if opset.domain == DOMAIN:
            raise ModelError(f"{path}: the opset {DOMAIN!r} is not for ONNX files")
        if not 0 <= opset.version <= MAX_OPSET:
            domain = opset.domain or "ai.onnx"
            raise ModelError(
                f"{path}: version {opset.version} of the opset {domain!r}: there is no such version"
            )


def _check_nesting(model: ModelProto, path: Path) -> None:
    """Refuses bodies that are nested too deeply: runtimes need twice as long for each level."""
    limit = limits.current().nesting
    layer = [model.graph.node, *(function.node for function in model.functions)]
    for depth in range(limit + 2):
        layer = [
            body.node
            for nodes in layer
            for node in nodes
            if node.attribute
            for body in bodies_of(node)
        ]
        if not layer:
            return
        if depth == limit:
            limits.check_count(
                str(path), "nesting", depth + 1, "bodies of If, Loop or Scan inside each other"
            )


def _check_values(model: ModelProto, path: Path) -> None:
    """Refuses declared tensors of very many dimensions, and names that are not UTF-8, which protobuf returns as bytes."""
    graph = model.graph
    for value in (*graph.input, *graph.output, *graph.value_info):
        dims = value.type.tensor_type.shape.dim
        if len(dims) > _ALWAYS_ALLOWED_RANK:
            limits.check_count(f"{path}: tensor {value.name!r}", "rank", len(dims), "dimensions")
        for name in (value.name, *(dim.dim_param for dim in dims)):
            _check_text(name, path)
    for tensor in all_tensors(model):
        if len(tensor.dims) > _ALWAYS_ALLOWED_RANK:
            limits.check_count(
                f"{path}: tensor {tensor.name!r}", "rank", len(tensor.dims), "dimensions"
            )
        _check_text(tensor.name, path)
    for opset in model.opset_import:
        _check_text(opset.domain, path)


def _check_text(name: str | bytes, path: Path) -> None:
    if isinstance(name, bytes):
        raise ModelError(f"{path}: the name {name[:80]!r} is not UTF-8 text")


def _check_names(model: ModelProto, path: Path) -> None:
    """Refuses tensor and type names that are not UTF-8, which protobuf returns as bytes; escapes such op names."""
    for i, node in enumerate(model.graph.node):
        if isinstance(node.name, bytes):
            node.name = node.name.decode("utf-8", "backslashreplace")
        for name in (*node.input, *node.output, node.op_type, node.domain):
            if isinstance(name, bytes):
                raise ModelError(
                    f"{path}: op {i} has the tensor or type name {name!r}, which is not UTF-8 text"
                )


def _check_functions(model: ModelProto, path: Path) -> None:
    """Refuses nested functions whose expansion would exceed the limit."""
    limit = limits.current().expanded_ops
    functions = {(f.domain, f.name, f.overload): f for f in model.functions}
    sizes: dict[tuple[str, str, str], int] = {}

    def size_of(nodes: Iterable[NodeProto]) -> int:
        total = 0
        for node in nodes:
            total += sizes.get((node.domain, node.op_type, node.overload), 1)
            total += sum(size_of(body.node) for body in bodies_of(node))
        return total

    for _ in functions:  # each round computes functions whose callees are computed
        before = dict(sizes)
        for key, function in functions.items():
            sizes[key] = min(size_of(function.node), 2 * limit)
        if sizes == before:
            break
    if functions and (expanded := size_of(model.graph.node)) - len(model.graph.node) > limit:
        limits.check_count(
            f"{path}: its functions call each other so often that it has too many ops when they are expanded "
            "(export it without nested functions)",
            "expanded_ops",
            expanded,
            "ops or more",
        )


def file_sha256(path: str | Path) -> str:
    """SHA-256 of the model file, without external data."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def model_of_folder(path: Path) -> Path:
    """The model of a folder that has one ONNX file, as folders of onnxruntime-genai do; any other path as it is."""
    if not os.path.isdir(path) or (path / "saved_model.pb").is_file():  # noqa: PTH112  # a name may be too long
        return path
    found = sorted(path.glob("*.onnx"))
    if len(found) > 1:
        raise ModelError(
            f"{path}: a folder of {len(found)} models; name one of them ({found[0].name}), or open all with `editor set`"
        )
    return found[0] if found else path


def drop_weights(model: ModelProto, bodies: bool = True) -> None:
    """Removes the data of large tensors in place, also in bodies; shape inference needs the small ones."""
    for graph in _graphs(model.graph) if bodies else [model.graph]:
        for tensor in graph.initializer:
            if tensor.ByteSize() > KEPT_TENSOR_BYTES:
                for field in (
                    "raw_data",
                    "float_data",
                    "int32_data",
                    "int64_data",
                    "double_data",
                    "uint64_data",
                    "string_data",
                ):
                    tensor.ClearField(field)  # type: ignore[arg-type]


def _read_bytes(path: Path) -> bytes:
    try:
        if path.is_dir():
            raise ModelError(
                f"{path}: a folder without an ONNX file or a TensorFlow model (saved_model.pb); name the model file in it"
            )
        size = path.stat().st_size
        if size == 0:
            raise ModelError(f"{path}: the file is empty")
        if size >= MAX_FILE_BYTES:
            raise ModelError(
                f"{path}: {size:,} bytes; an ONNX file must be under 2 GiB "
                "(save the weights as external data)"
            )
        return path.read_bytes()
    except FileNotFoundError as error:
        raise ModelError(f"{path}: no such file{meant(path)}") from error
    except (OSError, ValueError) as error:  # a path that is too long, or has NUL
        reason = getattr(error, "strerror", None) or error
        raise ModelError(f"{str(path)[:300]!r}: cannot be read ({reason})") from error


def _diagnosis(data: bytes) -> str:
    if data[4:8] == _ORT_FORMAT:
        return "not an ONNX model: it is a model in ONNX Runtime's own format (.ort); use the .onnx file that it was made from"
    for magic, meaning in LOOKS_LIKE:
        if data.lstrip()[: len(magic)] == magic or data.startswith(magic):
            return f"not an ONNX model: it is {meaning}"
    # ModelProto starts with ir_version (field 1, varint) in every file that an exporter writes.
    if data[:1] == b"\x08":
        return f"the ONNX model is damaged or cut short ({len(data):,} bytes were read); get the file again"
    return "not an ONNX model (it cannot be parsed as one)"


def _graphs(graph: GraphProto) -> Iterator[GraphProto]:
    yield graph
    for node in graph.node:
        for body in bodies_of(node):
            yield from _graphs(body)
