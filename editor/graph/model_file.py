"""Reads untrusted ONNX files.

External data is not read; only its location is checked. ``drop_weights`` removes the data of large
tensors from the parsed model and keeps their dims and types.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import GraphProto, ModelProto, NodeProto, TensorProto

from editor import limits
from editor.errors import ModelError
from editor.graph.bodies import bodies_of

MAX_FILE_BYTES = 2 << 30
"""Limit of protocol buffers; larger models store their weights as external data."""
MAX_OPSET = 1000
"""Versions above it are no versions; OpenVINO would look through all of them."""
_KEEP_TENSOR_BYTES = 8192
_ALWAYS_ALLOWED_RANK = 8
_MAX_LOCATION = 1024
"""Characters of the path of external data."""
_LINK_SECONDS = 3.0
"""The longest that an import by another runtime keeps a second name of a data file."""

_LOOKS_LIKE = (
    (b"\x1f\x8b", "gzip-compressed data; unpack it first (gunzip)"),
    (b"PK\x03\x04", "a zip archive; unpack it first"),
    (b"version https://git-lfs", "a Git LFS pointer, not the model; run `git lfs pull`"),
    (b"<!DOCTYPE", "an HTML page; the download went wrong"),
    (b"<!doctype", "an HTML page; the download went wrong"),
    (b"<html", "an HTML page; the download went wrong"),
    (b"{", "JSON text; convert it to a binary .onnx file first"),
    (b"\x89HDF", "an HDF5 (Keras) file; convert it to ONNX first"),
)


def read_model(path: str | Path) -> ModelProto:
    """Parses a model file; external data is not loaded.

    Raises:
        ModelError: the file is missing, not an ONNX model, damaged, or refers to files outside its folder.
    """
    path = Path(path)
    data = _read_bytes(path)
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
    _check_external_data(model, path)
    return model


def _check_opsets(model: ModelProto, path: Path) -> None:
    """Refuses opset versions that cannot be, in the model and in its functions."""
    for opset in (*model.opset_import, *(o for function in model.functions for o in function.opset_import)):
        if not 0 <= opset.version <= MAX_OPSET:
            domain = opset.domain or "ai.onnx"
            raise ModelError(f"{path}: version {opset.version} of the opset {domain!r}: there is no such version")


def _check_nesting(model: ModelProto, path: Path) -> None:
    """Refuses bodies that are nested too deeply: runtimes need twice as long for each level."""
    limit = limits.current().nesting
    layer = [model.graph.node, *(function.node for function in model.functions)]
    for depth in range(limit + 2):
        layer = [body.node for nodes in layer for node in nodes if node.attribute for body in bodies_of(node)]
        if not layer:
            return
        if depth == limit:
            limits.check_count(str(path), "nesting", depth + 1, "bodies of If, Loop or Scan inside each other")


def _check_values(model: ModelProto, path: Path) -> None:
    """Refuses declared tensors of very many dimensions, and names that are not UTF-8, which protobuf returns as bytes."""
    graph = model.graph
    for value in (*graph.input, *graph.output, *graph.value_info):
        dims = value.type.tensor_type.shape.dim
        if len(dims) > _ALWAYS_ALLOWED_RANK:
            limits.check_count(f"{path}: tensor {value.name!r}", "rank", len(dims), "dimensions")
        for name in (value.name, *(dim.dim_param for dim in dims)):
            _check_text(name, path)
    for tensor in _tensors(model):
        if len(tensor.dims) > _ALWAYS_ALLOWED_RANK:
            limits.check_count(f"{path}: tensor {tensor.name!r}", "rank", len(tensor.dims), "dimensions")
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
                raise ModelError(f"{path}: op {i} has the tensor or type name {name!r}, which is not UTF-8 text")


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
        limits.check_count(f"{path}: its functions call each other so often that it has too many ops when they are expanded "
                           "(export it without nested functions)", "expanded_ops", expanded, "ops or more")


def file_sha256(path: str | Path) -> str:
    """SHA-256 of the model file, without external data."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def drop_weights(model: ModelProto) -> None:
    """Removes the data of large tensors in place; shape inference needs the small ones."""
    for graph in _graphs(model.graph):
        for tensor in graph.initializer:
            if tensor.ByteSize() > _KEEP_TENSOR_BYTES:
                for field in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data",
                              "string_data"):
                    tensor.ClearField(field)  # type: ignore[arg-type]


def external_data_folder(model: ModelProto, path: Path) -> Path:
    """The folder to which the external data of a model is relative, after ``read_model``.

    It is the folder of the resolved file, or the folder of the symbolic link ``path`` where the data is only there.
    """
    target_folder, link_folder = path.resolve().parent, path.absolute().parent.resolve()
    if target_folder == link_folder:
        return target_folder
    files = [location for tensor in _external_tensors(model) if (location := _entries(tensor).get("location"))]
    only_beside_link = files and not _links(target_folder / files[0]) and _links(link_folder / files[0])
    return link_folder if only_beside_link else target_folder


def missing_data(model: ModelProto, path: Path) -> list[str]:
    """Files of weights that the model refers to and that are not there, or not whole; with how much of them there is."""
    folder = external_data_folder(model, path)
    ends: dict[str, int] = {}
    for tensor in _external_tensors(model):
        location = _entries(tensor).get("location", "")
        ends[location] = max(ends.get(location, 0), _end_of(tensor))
    return [problem for location, end in ends.items() if (problem := _missing_of(folder / location, location, end))]


def weights_problem(model: ModelProto, path: Path) -> str:
    """Says which weights of a model are not there; "" where all are."""
    missing = missing_data(model, path)
    if not missing:
        return ""
    others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    return f"the weights in {missing[0]}{others} are not here; put the file beside the model, or upload its folder"


def _missing_of(file: Path, location: str, end: int) -> str:
    if not _links(file):
        return location
    if not file.is_file():
        return f"{location} (not a regular file)"
    size = file.stat().st_size
    return f"{location} (cut short: {size:,} of {end:,} bytes)" if size < end else ""


def _end_of(tensor: TensorProto) -> int:
    """Bytes of its file that a tensor needs, from the beginning; 0 where they cannot be told."""
    entries = _entries(tensor)
    try:
        offset = int(entries.get("offset") or 0)
        return offset + int(entries["length"]) if entries.get("length") else offset
    except ValueError:
        return 0


def _check_external_data(model: ModelProto, path: Path) -> None:
    """Refuses external data outside the model's folder, and resolves the symbolic links of model caches.

    Caches store a model and its data as links to files of other names in one folder. Runtimes refuse links that point
    outside the model's folder, so such locations are replaced by their targets.
    """
    _check_locations(model, path)
    folder = external_data_folder(model, path)
    target_folder = path.resolve().parent
    for tensor in _external_tensors(model):
        entries = _entries(tensor)
        location = entries.get("location", "")
        problem, target = "", (folder / location).resolve()
        if not location:
            problem = "has no location"
        elif "://" in location:
            problem = f"points to a network address ({location})"
        elif Path(location).is_absolute() or not (
                target.is_relative_to(folder) or (".." not in Path(location).parts and target.is_relative_to(target_folder))):
            problem = f"points outside the model's folder ({location})"
        elif target == path.resolve():
            problem = "points at the model file itself"
        elif _stays_linked(target):  # `onnx` refuses it too
            problem = f"is a hard link to a file that is elsewhere too ({location}); put a copy of it in its place"
        problem = problem or _bad_numbers(entries)
        if problem:
            raise ModelError(f"{path}: external data of tensor {tensor.name!r} {problem}")
        if not target.is_relative_to(folder):
            for entry in tensor.external_data:
                if entry.key == "location":
                    entry.value = str(target.relative_to(target_folder))


def _check_locations(model: ModelProto, path: Path) -> None:
    """Refuses what no file system takes."""
    for tensor in _external_tensors(model):
        for location in (entry.value for entry in tensor.external_data):
            if not isinstance(location, str) or "\0" in location or len(location) > _MAX_LOCATION:
                raise ModelError(f"{path}: external data of tensor {tensor.name!r} has a location that is no path")


def _stays_linked(path: Path) -> bool:
    """Whether a file has a second name, and keeps it: another editor that imports the model gives it one for a moment."""
    end = time.monotonic() + _LINK_SECONDS
    while _links(path) > 1:
        if time.monotonic() > end:
            return True
        time.sleep(0.02)
    return False


def _links(path: Path) -> int:
    """Number of names that a file has; 0 when it is not there."""
    try:
        return path.stat().st_nlink
    except OSError:
        return 0


def _external_tensors(model: ModelProto) -> Iterator[TensorProto]:
    return (tensor for tensor in _tensors(model) if tensor.data_location == TensorProto.EXTERNAL)


def _entries(tensor: TensorProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data}


def _bad_numbers(entries: dict[str, str]) -> str:
    for key in ("offset", "length"):
        value = entries.get(key, "0")
        if not value.isascii() or not value.isdigit() or len(value) > 18:
            return f"has the {key} {value!r}, which is not a size in bytes"
    return ""


def _read_bytes(path: Path) -> bytes:
    try:
        if path.is_dir():
            raise ModelError(f"{path}: is a folder; name the .onnx file in it")
        size = path.stat().st_size
        if size == 0:
            raise ModelError(f"{path}: the file is empty")
        if size >= MAX_FILE_BYTES:
            raise ModelError(f"{path}: {size:,} bytes; an ONNX file must be under 2 GiB "
                             "(save the weights as external data)")
        return path.read_bytes()
    except FileNotFoundError as error:
        raise ModelError(f"{path}: no such file") from error
    except (OSError, ValueError) as error:  # a path that is too long, or has NUL
        reason = getattr(error, "strerror", None) or error
        raise ModelError(f"{str(path)[:300]!r}: cannot be read ({reason})") from error


def _diagnosis(data: bytes) -> str:
    for magic, meaning in _LOOKS_LIKE:
        if data.lstrip()[:len(magic)] == magic or data.startswith(magic):
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


def _tensors(model: ModelProto) -> Iterator[TensorProto]:
    for graph in _graphs(model.graph):
        yield from graph.initializer
        for sparse in graph.sparse_initializer:
            yield sparse.values
            yield sparse.indices
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    yield attribute.t
                yield from attribute.tensors
