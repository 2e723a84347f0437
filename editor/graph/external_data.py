"""Checks and finds external data: the files of weights to which the tensors of a model refer.

Every tensor of a model counts: initializers, sparse ones, attributes, those in bodies, functions and training info.
After ``check_external_data`` each of them names one file below the model's folder, and says so once.
"""

from __future__ import annotations

import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path, PurePosixPath

from onnx import GraphProto, ModelProto, NodeProto, TensorProto
from onnx.checker import ValidationError
from onnx.external_data_helper import load_external_data_for_tensor

from editor.errors import ModelError
from editor.graph.openvino_layers import WEIGHTS_FOLDER

_MAX_LOCATION = 1024
"""Characters of a location."""
_LINK_SECONDS = 3.0
"""The longest that an import by another runtime keeps a second name of a data file."""
_KEYS = ("location", "offset", "length")
_IGNORED_KEYS = frozenset({"checksum", "basepath"})
"""Keys that onnx writes and no runtime reads. ONNX Runtime's own keys and locations (memory addresses) are not for files."""

_CODE_SUFFIXES = frozenset({".py", ".pyc", ".pyd", ".pyw", ".so", ".dll", ".dylib"})


def all_tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Every dense tensor of a model; a sparse one counts as its values and its indices."""
    graphs = chain(
        [model.graph], *((info.initialization, info.algorithm) for info in model.training_info)
    )
    yield from chain.from_iterable(map(_tensors_of_graph, graphs))
    for function in model.functions:
        yield from _tensors_of_nodes(function.node)
        for default in function.attribute_proto:
            yield from _tensors_of_nodes([NodeProto(attribute=[default])])


def _tensors_of_graph(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _tensors_of_nodes(graph.node)


def _tensors_of_nodes(nodes: Iterable[NodeProto]) -> Iterator[TensorProto]:
    """The tensors in attributes, whatever type an attribute states: libraries look at different fields."""
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for sparse in chain(
                [attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else [],
                attribute.sparse_tensors,
            ):
                yield from (sparse.values, sparse.indices)
            for body in chain([attribute.g] if attribute.HasField("g") else [], attribute.graphs):
                yield from _tensors_of_graph(body)


def is_external(tensor: TensorProto) -> bool:
    """Whether the data of a tensor is in a file beside the model."""
    return bool(tensor.data_location == TensorProto.EXTERNAL)


def external_tensors(model: ModelProto) -> Iterator[TensorProto]:
    """The tensors of a model whose data is in files beside it."""
    return filter(is_external, all_tensors(model))


def entry_of(tensor: TensorProto, key: str) -> str:
    """The value of an entry of external data; "" where there is none."""
    return next((entry.value for entry in tensor.external_data if entry.key == key), "")


def refer(tensor: TensorProto, location: str, offset: int, length: int) -> None:
    """Puts a place in a file of weights into a tensor, in the stead of its values."""
    place = TensorProto(
        name=tensor.name,
        data_type=tensor.data_type,
        dims=tensor.dims,
        data_location=TensorProto.EXTERNAL,
    )
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        place.external_data.add(key=key, value=str(value))
    tensor.CopyFrom(place)


def locations_of(model: ModelProto) -> list[str]:
    """The files to which a model refers, relative to its folder, sorted."""
    return sorted({entry_of(tensor, "location") for tensor in external_tensors(model)})


def load_external_data(model: ModelProto, folder: Path) -> None:
    """Reads all external data into a model, in place.

    Raises:
        ModelError: a file is missing, cut short or not a regular file.
    """
    for tensor in external_tensors(model):
        load_tensor(tensor, folder)


def load_tensor(tensor: TensorProto, folder: Path) -> None:
    """Reads the external data of a tensor into it, in place.

    Raises:
        ModelError: as ``load_external_data``.
    """
    location = entry_of(tensor, "location")
    if problem := _kind_problem(folder / location):
        raise ModelError(
            f"the weights of {tensor.name!r} in {folder / location} cannot be read: the file {problem}"
        )
    try:
        load_external_data_for_tensor(tensor, str(folder))
    except (OSError, ValueError, ValidationError) as error:
        raise ModelError(
            f"the weights of {tensor.name!r} in {folder / location} cannot be read: {error}"
        ) from error


def external_data_folder(model: ModelProto, path: Path) -> Path:
    """The folder to which the external data of a model is relative, after ``check_external_data``.

    It is the folder of the resolved file, or the folder of the symbolic link ``path`` where the data is only there.
    """
    made = next((e.value for e in model.metadata_props if e.key == WEIGHTS_FOLDER), "")
    if made:  # the reader says so: the file was converted
        return Path(made).resolve()
    target_folder, link_folder = path.resolve().parent, path.absolute().parent.resolve()
    if target_folder == link_folder:
        return target_folder
    first = next((entry_of(tensor, "location") for tensor in external_tensors(model)), "")
    only_beside_link = first and not _links(target_folder / first) and _links(link_folder / first)
    return link_folder if only_beside_link else target_folder


def ends_of_data(model: ModelProto) -> dict[str, int]:
    """File of weights that a model refers to, relative to its folder -> bytes that it needs to have."""
    ends: dict[str, int] = {}
    for tensor in external_tensors(model):
        location = entry_of(tensor, "location")
        ends[location] = max(ends.get(location, 0), _end_of(tensor))
    return ends


def missing_of(folder: Path, ends: Mapping[str, int]) -> dict[str, str]:
    """Files of weights that are missing or cut short -> how a message names them, with how much of them exists."""
    found = (
        (location, _missing_of(folder / location, location, end)) for location, end in ends.items()
    )
    return {location: problem for location, problem in found if problem}


def missing_data(model: ModelProto, path: Path) -> list[str]:
    """Files of weights that a model refers to and that are missing or cut short; with how much of them exists."""
    return list(missing_of(external_data_folder(model, path), ends_of_data(model)).values())


def not_here(missing: Sequence[str]) -> str:
    """Says which weights are missing; "" where none are."""
    if not missing:
        return ""
    others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    return f"the weights in {missing[0]}{others} are not here"


def weights_problem(model: ModelProto, path: Path) -> str:
    """Says which weights of a model are missing; "" where all are present."""
    problem = not_here(missing_data(model, path))
    return problem and f"{problem}; put the file beside the model, or upload its folder"


def _missing_of(file: Path, location: str, end: int) -> str:
    if not _links(file):
        return location
    if kind := _kind_problem(file):
        return f"{location} ({kind})"
    size = file.stat().st_size
    return f"{location} (cut short: {size:,} of {end:,} bytes)" if size < end else ""


def _end_of(tensor: TensorProto) -> int:
    """Bytes of its file that a tensor needs, from the beginning."""
    return int(entry_of(tensor, "offset") or 0) + int(entry_of(tensor, "length") or 0)


def check_external_data(model: ModelProto, path: Path) -> None:
    """Refuses external data that is not a regular file below the model's folder; puts every location into its shortest form.

    Caches store a model and its data as symbolic links to files of other names in one folder. Runtimes refuse links that
    point outside the model's folder, so such locations are replaced by their targets.

    Raises:
        ModelError: the tensor has such data.
    """
    for tensor in all_tensors(model):
        if not is_external(tensor):
            tensor.ClearField("external_data")  # libraries differ in whether they look at it
            continue
        if problem := _entries_problem(tensor):
            raise _error(path, tensor, problem)
        given = {entry.key: entry.value for entry in tensor.external_data}
        del tensor.external_data[:]
        for key in _KEYS:
            if given.get(key):
                tensor.external_data.add(
                    key=key,
                    value=str(PurePosixPath(given[key])) if key == "location" else given[key],
                )
    folder, target_folder, itself = (
        external_data_folder(model, path),
        path.resolve().parent,
        path.resolve(),
    )
    problems: dict[str, str] = {}
    for tensor in external_tensors(model):
        location = entry_of(tensor, "location")
        target = (folder / location).resolve()
        if location not in problems:
            problems[location] = _target_problem(location, target, (folder, target_folder), itself)
        if problems[location]:
            raise _error(path, tensor, problems[location])
        if not target.is_relative_to(folder):
            tensor.external_data[0].value = str(target.relative_to(target_folder))


def _error(path: Path, tensor: TensorProto, problem: str) -> ModelError:
    return ModelError(f"{path}: external data of tensor {tensor.name!r} {problem}")


def _entries_problem(tensor: TensorProto) -> str:
    """The reason to refuse the entries of external data by themselves; "" where there is none."""
    keys = [entry.key for entry in tensor.external_data]
    for key in keys:
        if keys.count(key) > 1:
            return f"states {key!r} more than once"
        if key not in _KEYS and key not in _IGNORED_KEYS:
            return f"has the key {key!r}, which the ONNX format does not define"
    for key in ("offset", "length"):
        value = entry_of(tensor, key) or "0"
        if (
            not isinstance(value, str)
            or not value.isascii()
            or not value.isdigit()
            or len(value) > 18
        ):
            return f"has the {key} {value!r}, which is not a size in bytes"
    location = entry_of(tensor, "location")
    if not isinstance(location, str) or "\0" in location or len(location) > _MAX_LOCATION:
        return "has a location that is not a path"
    if not location:
        return "has no location"
    if "://" in location:
        return f"points to a network address ({location})"
    if Path(location).suffix.lower() in _CODE_SUFFIXES:
        return f"is in a file named like a program ({location}), which Python would import beside an exported script; rename it"
    if (
        Path(location).is_absolute()
        or ".." in Path(location).parts
        or location.startswith("*/_ORT_MEM_ADDR_/")
    ):
        return f"points outside the model's folder ({location})"
    return ""


def _target_problem(location: str, target: Path, folders: tuple[Path, Path], model: Path) -> str:
    """The reason to refuse a file of weights; "" where there is none, or no file."""
    if not any(target.is_relative_to(folder) for folder in folders):
        return f"points outside the model's folder ({location})"
    if target == model:
        return "points at the model file itself"
    if kind := _kind_problem(target):
        return f"{kind} ({location})"
    if _stays_linked(target):  # `onnx` refuses it too
        return f"is a hard link to a file that is elsewhere too ({location}); put a copy of it in its place"
    return ""


def _kind_problem(path: Path) -> str:
    """Says that a path is something else than a regular file; "" where it is one, or does not exist."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return ""
    return (
        ""
        if stat.S_ISREG(mode)
        else "is a folder, not a file"
        if stat.S_ISDIR(mode)
        else "is not a regular file"
    )


def _stays_linked(path: Path) -> bool:
    """Whether a file keeps a second name: another editor that imports the model gives it one for a moment."""
    end = time.monotonic() + _LINK_SECONDS
    while _links(path) > 1:
        if time.monotonic() > end:
            return True
        time.sleep(0.02)
    return False


def _links(path: Path) -> int:
    """Number of names that a file has; 0 when it does not exist."""
    try:
        return path.stat().st_nlink
    except OSError:
        return 0
