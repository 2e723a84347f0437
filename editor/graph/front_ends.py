"""Models of TensorFlow Lite, TensorFlow, PaddlePaddle and PyTorch: read once, in the sandbox, and kept by content.

OpenVINO makes IR of the first three, `torch.onnx` makes ONNX of a module, or of a program that `torch.export` saved.
torch is an extra, which only these functions import; they say how to install it. Files of `torch.save` are not opened: they run
code when they are loaded.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from editor.errors import ExportError, ModelError
from editor.files import cache_folder, modified, private_folder, safe_stem
from editor.limits import is_trusted
from editor.sandbox.worker import run

INSTALL = "pip install torch onnxscript"


def is_module(value: object) -> bool:
    """Whether a value is a module of PyTorch; torch is not imported for that."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


def exported(module: Any, example_inputs: Any) -> Path:
    """The ONNX file of a module; its name is that of the class, its folder that of its content.

    Args:
        module: a ``torch.nn.Module``; it is exported as it is, so call ``eval()`` before.
        example_inputs: a tuple of arguments, a mapping of keyword arguments, or one tensor.

    Raises:
        ModelError: torch cannot export it, or a package is missing.
    """
    name = safe_stem(type(module).__name__)
    with tempfile.TemporaryDirectory(dir=_folder()) as temporary:
        written = Path(temporary) / f"{name}.onnx"
        _export(module, example_inputs, written, name)
        digest = hashlib.sha256()
        for file in sorted(Path(temporary).iterdir()):
            digest.update(file.read_bytes())
        target = private_folder(_folder() / digest.hexdigest()[:16])
        for file in sorted(Path(temporary).iterdir(), reverse=True):  # the weights first
            os.replace(file, target / file.name)
    return target / written.name


def export_program(path: Path, target: Path) -> None:
    """Writes the ONNX file of a program that ``torch.export.save`` wrote.

    Raises:
        ModelError: it is not such a program, torch cannot export it, or a package is missing.
    """
    _check_installed(str(path))
    import torch

    try:
        program = torch.export.load(path)
    except Exception as error:  # torch raises errors of many kinds for one and the same cause
        raise ModelError(
            f"{path}: not a program of torch.export ({_first_line(error)}); write it with torch.export.save(program, path)"
        ) from error
    _export(program, (), target, str(path))


def _folder() -> Path:
    try:
        return private_folder(private_folder(cache_folder()) / "pytorch")
    except ExportError as error:
        raise ModelError(f"PyTorch models are opened by way of a cache: {error}") from error


def _check_installed(what: str) -> None:
    missing = [name for name in ("torch", "onnxscript") if find_spec(name) is None]
    if missing:
        raise ModelError(f"{what}: a PyTorch model needs {' and '.join(missing)}: {INSTALL}")


def _export(program: Any, example_inputs: Any, target: Path, what: str) -> None:
    _check_installed(what)
    import torch

    arguments: dict[str, Any] = {"args": example_inputs}
    if isinstance(example_inputs, Mapping):
        arguments = {"args": (), "kwargs": dict(example_inputs)}
    elif isinstance(example_inputs, torch.Tensor):
        arguments = {"args": (example_inputs,)}
    elif isinstance(example_inputs, list):
        arguments = {"args": tuple(example_inputs)}
    try:
        torch.onnx.export(program, f=str(target), dynamo=True, verbose=False, **arguments)
    except Exception as error:  # torch raises errors of many kinds for one and the same cause
        raise ModelError(f"{what}: torch.onnx cannot export it ({_first_line(error)})") from error


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:300]


PYTORCH = "pytorch"
_FORMAT = 2
"""Raise it when models are converted in another way: what is kept is then made again."""
_KEPT_BYTES = 8 << 30
"""Of all IRs that are kept; those that were not used for the longest time go first."""


_MADE_UP = re.compile(r"[A-Z][A-Za-z0-9]*_\d+(\.\d+)?|\d+")
"""Names that OpenVINO gives to layers by itself, and the numbers of layers in a file of TensorFlow Lite."""


@dataclass(frozen=True)
class Source:
    """A format that OpenVINO reads."""

    name: str
    """In ``plan.json``"""
    title: str
    files: tuple[Path, ...]
    """What the model consists of; they identify it."""


def source_of(path: Path) -> Source | None:
    """The format of a file or folder; None where OpenVINO's front ends are not for it.

    A TensorFlow model is a folder with ``saved_model.pb`` (or that file), or a frozen graph ``.pb``; a PaddlePaddle model
    is ``.pdmodel`` or ``.json`` beside ``.pdiparams``.
    """
    try:
        return _source_of(path)
    except (
        OSError
    ):  # a name that is too long, a folder that may not be looked into: reading it says so
        return None


def _source_of(path: Path) -> Source | None:
    folder = path.parent if path.name == "saved_model.pb" else path
    if (saved := folder / "saved_model.pb").is_file():
        weights = sorted(file for file in (folder / "variables").glob("*") if file.is_file())
        return Source("tensorflow", "a TensorFlow SavedModel", (saved, *weights))
    if not path.is_file():
        return None
    if path.suffix.lower() == ".pb":
        return Source("tensorflow", "a frozen TensorFlow graph", (path,))
    if path.suffix.lower() == ".pt2":
        return Source(PYTORCH, "a program of torch.export", (path,))
    weights_file = path.with_suffix(".pdiparams")
    if path.suffix.lower() == ".pdmodel" or (
        path.suffix.lower() == ".json" and weights_file.is_file()
    ):
        weights = [weights_file] if weights_file.is_file() else []
        return Source("paddle", "a PaddlePaddle model", (path, *weights))
    with contextlib.suppress(OSError), path.open("rb") as file:
        if file.read(8)[4:] == b"TFL3":
            return Source("tflite", "a TensorFlow Lite model", (path,))
    return None


def content_hash(source: Source) -> str:
    """SHA-256 of all files of a model.

    Raises:
        ModelError: one of them cannot be read, or is a link to another folder.
    """
    digest, folder = hashlib.sha256(), source.files[0].resolve().parent
    for file in source.files[1:]:
        if not file.resolve().is_relative_to(folder):
            raise ModelError(
                f"{file}: weights outside the model's folder; put a copy of the file in its place"
            )
    try:
        for file in source.files:
            digest.update(f"{file.name}\0{file.stat().st_size}\0".encode())
            with file.open("rb") as stream:
                while block := stream.read(1 << 20):
                    digest.update(block)
    except OSError as error:
        raise ModelError(f"{file}: cannot be read ({error.strerror or error})") from error
    return digest.hexdigest()


def converted(path: Path, source: Source, sha256: str) -> Path:
    """The IR of a model, or the ONNX file of one of PyTorch, which is made where it is not kept.

    Raises:
        ModelError: OpenVINO or torch cannot read the model, or a program of PyTorch is not trusted.
        LimitError: it needs more time or memory than the limits allow.
    """
    if source.name == PYTORCH and not is_trusted():
        raise ModelError(
            f"{path}: {source.title} runs code when torch loads it (pickles, functions by their names): open it with --trust "
            "if you know where it comes from, or export the model to ONNX with torch.onnx.export"
        )
    try:
        folder = private_folder(private_folder(cache_folder()) / "converted")
    except ExportError as error:
        raise ModelError(f"{path}: {source.title} is opened by way of a cache: {error}") from error
    target = folder / f"{sha256}-{_FORMAT}{'.onnx' if source.name == PYTORCH else '.xml'}"
    if target.is_file() and (source.name == PYTORCH or target.with_suffix(".bin").is_file()):
        os.utime(target)
        return target
    run(_convert, path, source, target, what="converting", path=path)
    _trim(folder, target)
    return target


def _convert(path: Path, source: Source, target: Path) -> None:
    if source.name == PYTORCH:
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".writing.") as temporary:
            export_program(path, Path(temporary) / target.name)
            for file in sorted(Path(temporary).iterdir(), reverse=True):  # the weights first
                os.replace(file, target.parent / file.name)
        return
    import openvino as ov

    given = path.parent if path.name == "saved_model.pb" else path
    try:
        model = ov.Core().read_model(given)
    except Exception as error:  # OpenVINO raises RuntimeError and others for one and the same cause
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        said = next(
            (line for line in lines if "No translator" in line or "not supported" in line), ""
        )
        reason = (said or (lines[-1] if lines else type(error).__name__))[:300]
        raise ModelError(
            f"{path}: {source.title}, which OpenVINO cannot read ({reason}); check that the file is whole, or export the "
            "model to ONNX"
        ) from error
    model.set_friendly_name(source.files[0].stem)
    _name_layers(model)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".writing.") as temporary:
        written = Path(temporary) / target.name
        ov.serialize(model, written)  # as it is: `save_model` would make float16 of its weights
        os.replace(written.with_suffix(".bin"), target.with_suffix(".bin"))
        os.replace(written, target)


def _name_layers(model: Any) -> None:
    """Renames the layers whose names OpenVINO made up: they have numbers that depend on what the process read before.

    They are called after their tensors where these have the model's names, and else by type and position: OpenVINO moves
    transpositions past other layers, which then lose their names.
    """
    layers = model.get_ordered_ops()
    names = [layer.get_friendly_name() for layer in layers]
    taken = {name for name in names if not _MADE_UP.fullmatch(name)}
    numbers: Counter[str] = Counter()
    for layer, name in zip(layers, names, strict=True):
        if name in taken:
            continue
        tensors = sorted(layer.output(0).get_names()) if layer.get_output_size() else []
        whole = tensors[0].removesuffix(":0") if tensors else ""
        first = whole.partition(";")[0]  # TensorFlow Lite joins the names of ops that it fused
        own = whole if first in taken else first
        while not own or own in taken:
            kind = layer.get_type_name()
            numbers[kind] += 1
            own = f"{kind}_{numbers[kind]}"
        taken.add(own)
        layer.set_friendly_name(own)


def _trim(folder: Path, newest: Path) -> None:
    """Removes the IRs that were not used for the longest time until the folder keeps its limit."""
    left = _KEPT_BYTES
    models = [file for file in folder.iterdir() if file.suffix in (".xml", ".onnx")]
    for model in sorted(models, key=modified, reverse=True):
        files = [file for file in folder.glob(f"{model.stem}.*") if file.is_file()]
        left -= sum(file.stat().st_size for file in files)
        if left < 0 and model != newest:
            for file in files:
                file.unlink(missing_ok=True)
