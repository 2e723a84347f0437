"""QNN in a process of its own: a library of execution providers stays registered until the end of its process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT


def test_all_cases_of_qnn_pass(tmp_path: Path) -> None:
    """They are in ``qnn_cases.py``. `make test-optional` installs the package."""
    pytest.importorskip("onnxruntime_qnn", reason="the package onnxruntime-qnn is not installed")
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
            "tests/runtimes/qnn_cases.py",
        ],
        cwd=ROOT,
        env=own,
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "SKIPPED" not in done.stdout and "100%" in done.stdout
