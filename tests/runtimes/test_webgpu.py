"""WebGPU in a process of its own: its driver is found by variables that must be set before a process loads anything."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, SWIFTSHADER


def test_all_cases_of_webgpu_pass(tmp_path: Path) -> None:
    """They are in ``webgpu_cases.py``."""
    pytest.importorskip(
        "onnxruntime_ep_webgpu", reason="the package onnxruntime-ep-webgpu is not installed"
    )
    if not (SWIFTSHADER / "vk_swiftshader_icd.json").exists():
        pytest.skip("there is no SwiftShader of Debian's Chromium")
    own = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-rs",
            "-p",
            "no:xdist",
            "-p",
            "no:cacheprovider",
            "--basetemp",
            str(tmp_path / "base"),
            "tests/runtimes/webgpu_cases.py",
        ],
        cwd=ROOT,
        env=own,
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "SKIPPED" not in done.stdout and "100%" in done.stdout
