"""Built-in execution providers, and whether the libraries that they need are here.

ONNX Runtime lists every provider that it was built with. Those of GPUs are libraries of their own, which need others: of
CUDA, of TensorRT. Where these are missing, a session cannot be created, so such a provider is no device.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from pathlib import Path

import onnxruntime as ort

import editor.runtimes.onnxruntime.options  # noqa: F401  # loads CUDA's libraries, where these are Python packages
from editor.runtimes.onnxruntime.providers import NOT_A_DEVICE

BUILT_IN = frozenset(ort.get_available_providers())
"""Providers of the installed ONNX Runtime; after the registration of a library its own would be listed too."""
_FOLDER = Path(ort.__file__).parent / "capi"
_PREFIX, _SUFFIX = ("", ".dll") if sys.platform == "win32" else ("lib", ".dylib" if sys.platform == "darwin" else ".so")


def problems() -> dict[str, str]:
    """Provider -> why it cannot be used, "" where it can; in ONNX Runtime's order."""
    return {p: load_problem(p) for p in ort.get_available_providers() if p in BUILT_IN - NOT_A_DEVICE}


@cache
def load_problem(provider: str, folder: Path = _FOLDER) -> str:
    """Why the library of a provider cannot be loaded; "" where it can, or where the provider has none of its own.

    It stays loaded: a session would load it as well, and would look for what it needs in the same places.
    """
    library = _library(provider.removesuffix("ExecutionProvider").lower(), folder)
    if not library.exists():
        return ""
    try:
        shared = _library("shared", folder)
        if shared.exists():
            ctypes.CDLL(str(shared), mode=ctypes.RTLD_GLOBAL)  # the other libraries take functions from it
        ctypes.CDLL(str(library))
    except OSError as error:
        return f"{str(error).removeprefix(f'{library}: ')} (needed by {library.name})"
    return ""


def _library(name: str, folder: Path) -> Path:
    return folder / f"{_PREFIX}onnxruntime_providers_{name}{_SUFFIX}"
