"""A provider that ONNX Runtime was built with is a device only where its libraries are here."""

from __future__ import annotations

import shutil
import sys
from functools import partial
from pathlib import Path

import onnxruntime as ort
import pytest

from editor.errors import ExecutionError
from editor.runtimes.base import MemorySpace
from editor.runtimes.onnxruntime import device_list
from editor.runtimes.onnxruntime import device_list as built_in
from editor.runtimes.onnxruntime.device_list import load_problem
from editor.runtimes.onnxruntime.values import bind_output

LIBRARY = "libonnxruntime_providers_tensorrt.so"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="libraries have other names there")


def test_a_provider_without_a_library_of_its_own_has_no_problem(tmp_path: Path) -> None:
    assert load_problem("TensorrtExecutionProvider", tmp_path) == ""


def test_a_library_that_loads_is_no_problem(tmp_path: Path) -> None:
    shared = Path(ort.__file__).parent / "capi" / "libonnxruntime_providers_shared.so"
    shutil.copy(shared, tmp_path / LIBRARY)
    assert load_problem("TensorrtExecutionProvider", tmp_path) == ""


def test_a_provider_whose_library_does_not_load_is_unusable_and_no_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / LIBRARY).write_bytes(b"this is not a library" * 100)
    names = ["TensorrtExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(
        ort, "get_available_providers", lambda: names
    )  # as another build of ONNX Runtime has them
    monkeypatch.setattr(built_in, "BUILT_IN", frozenset(names))
    monkeypatch.setattr(built_in, "load_problem", partial(load_problem, folder=tmp_path))
    assert [d.provider for d in device_list.available() if d.provider in names] == [
        "CPUExecutionProvider"
    ]
    (found,) = [part for part in device_list.unusable() if part.name == "TensorRT"]
    assert found.reason == f"invalid ELF header (needed by {LIBRARY})"


def test_a_version_that_cannot_bind_outputs_of_plugins_says_which_can() -> None:
    """The binding of another version of ONNX Runtime, without the private method that takes a vendor."""
    with pytest.raises(ExecutionError, match=r"cannot bind outputs in the memory of gpu; install"):
        bind_output(object(), "y", MemorySpace("onnxruntime", "gpu:4318"))
