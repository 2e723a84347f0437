"""Libraries of custom ops for ONNX Runtime: which are known, where they are, and what a session registers.

A library is the path of a file, or ``onnxruntime-extensions``, the package, which is found where it is installed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any

from editor.environment import CUSTOM_OPS, CUSTOM_OPS_OF_TABLES, Variable
from editor.errors import EditorError
from editor.startup import installed_folders

EXTENSIONS = "onnxruntime-extensions"
_MODULE = "onnxruntime_extensions"
_DOMAINS = frozenset({"ai.onnx.contrib", "com.microsoft.extensions"})
"""Of the package."""


def given() -> tuple[str, ...]:
    """The libraries that the person named, on the command line or in the environment."""
    return _listed(CUSTOM_OPS)


def known() -> tuple[str, ...]:
    """The libraries that the person named, and those of the device tables that this process has read."""
    return tuple(dict.fromkeys((*given(), *_listed(CUSTOM_OPS_OF_TABLES))))


def give(libraries: Iterable[str]) -> None:
    """Adds libraries that the person named, for this process and those that it starts.

    Raises:
        EditorError: one is not there.
    """
    _add(CUSTOM_OPS, libraries)


def give_of_table(libraries: Iterable[str]) -> None:
    """Adds libraries of a device table, for what reads models without devices.

    Raises:
        EditorError: one is not there.
    """
    _add(CUSTOM_OPS_OF_TABLES, libraries)


def full_name(library: str) -> str:
    """A library as it can be named from every folder."""
    return library if library == EXTENSIONS else str(Path(library).absolute())


def path_of(library: str) -> str:
    """The file of a library.

    Raises:
        EditorError: it is not there.
    """
    path = _path_of_extensions(installed_folders()) if library == EXTENSIONS else library
    if not path:
        raise EditorError(f"custom ops: {EXTENSIONS} is not installed (pip install {EXTENSIONS})")
    if not Path(path).is_file():
        raise EditorError(
            f"custom ops: {path}: no such library (a path, or {EXTENSIONS} where that is installed)"
        )
    return path


def register(options: Any, opsets: Iterable[Any], libraries: Sequence[str] | None = None) -> None:
    """Registers libraries with the ``SessionOptions`` for a model; raises whatever ONNX Runtime raises.

    Args:
        options: of the session.
        opsets: of the model: with ops of ``onnxruntime-extensions``, that is registered where no other is, if it is installed.
        libraries: of the device; None: all that are known.
    """
    for library in for_opsets(opsets, known() if libraries is None else libraries):
        options.register_custom_ops_library(path_of(library))


def for_opsets(opsets: Iterable[Any], libraries: Iterable[str]) -> list[str]:
    """The libraries that a session of a model registers: those named, else ``onnxruntime-extensions`` where it has its ops.

    Not both: one that is named may be another build of the package, and two of them crash.
    """
    named = list(dict.fromkeys(libraries))
    needed = any(opset.domain in _DOMAINS for opset in opsets)
    if needed and not named and _path_of_extensions(installed_folders()):
        return [EXTENSIONS]
    return named


def stamps(libraries: Iterable[str]) -> list[tuple[str, int, int]]:
    """(file, bytes, time) of each library and of the package where it is installed: what answers about ops depend on."""
    package = _spec_of_extensions(installed_folders())
    paths = [*libraries, package.origin if package else ""]
    return [
        (path, Path(path).stat().st_size, Path(path).stat().st_mtime_ns)
        for path in paths
        if path and path != EXTENSIONS and Path(path).is_file()
    ]


def _listed(variable: Variable) -> tuple[str, ...]:
    return tuple(
        full_name(part.strip()) for part in variable.value.split(os.pathsep) if part.strip()
    )


def _add(variable: Variable, libraries: Iterable[str]) -> None:
    names = [full_name(library) for library in libraries]
    for name in names:
        path_of(name)
    if set(names) - set(_listed(variable)):
        variable.set(os.pathsep.join(dict.fromkeys((*_listed(variable), *names))))


def _spec_of_extensions(folders: tuple[str, ...]) -> ModuleSpec | None:
    return PathFinder.find_spec(_MODULE, list(folders))


@cache
def _path_of_extensions(folders: tuple[str, ...]) -> str:
    """What the package says, if it is among the installed ones: the current folder may have one of that name."""
    module = sys.modules.get(_MODULE)
    if module is None:
        spec = _spec_of_extensions(folders)
        if spec is None or spec.loader is None:
            return ""
        module = sys.modules[_MODULE] = module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except Exception:  # noqa: BLE001  # a package that is broken is as good as none
            del sys.modules[_MODULE]
            return ""
    return str(module.get_library_path())
