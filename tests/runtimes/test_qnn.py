"""QNN in a process of its own: a library of execution providers stays registered until the end of its process."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import run_cases


def test_all_cases_of_qnn_pass(tmp_path: Path) -> None:
    """They are in ``qnn_cases.py``. `make test-optional` installs the package."""
    pytest.importorskip("onnxruntime_qnn", reason="the package onnxruntime-qnn is not installed")
    run_cases("qnn_cases.py", tmp_path)
