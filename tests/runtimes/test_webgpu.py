"""WebGPU in a process of its own: its driver is found by variables that must be set before a process loads anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import SWIFTSHADER, run_cases


def test_all_cases_of_webgpu_pass(tmp_path: Path) -> None:
    """They are in ``webgpu_cases.py``."""
    pytest.importorskip(
        "onnxruntime_ep_webgpu", reason="the package onnxruntime-ep-webgpu is not installed"
    )
    if not (SWIFTSHADER / "vk_swiftshader_icd.json").exists():
        pytest.skip("there is no SwiftShader of Debian's Chromium")
    run_cases("webgpu_cases.py", tmp_path)
