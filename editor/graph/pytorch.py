"""PyTorch models: `torch.onnx` exports a module, or a program that was saved by `torch.export`, to ONNX.

torch is an extra, which only these functions import; they say how to install it. Files of `torch.save` are not opened: they run
code when they are loaded.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from editor.errors import ExportError, ModelError
from editor.files import cache_folder, private_folder, safe_stem

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
