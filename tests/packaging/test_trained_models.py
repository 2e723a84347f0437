"""What `make test-models` says of models that work and that do not, and where the package index cannot be reached."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import onnx
from conftest import ROOT, python
from onnx import TensorProto, helper

SCRIPT = ROOT / "benchmarks" / "trained_models.py"


def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return python(SCRIPT, *arguments, **environment)


def test_without_a_package_index_the_models_are_skipped_with_the_reason(tmp_path: Path) -> None:
    nowhere = "http://127.0.0.1:9/simple"
    done = run(
        "--folder",
        tmp_path / "models",
        UV_INDEX_URL=nowhere,
        UV_CACHE_DIR=str(tmp_path),
        UV_HTTP_RETRIES="0",
        PIP_CONFIG_FILE=os.devnull,
        PIP_INDEX_URL=nowhere,
        PIP_EXTRA_INDEX_URL="",
        PIP_FIND_LINKS="",
        PIP_RETRIES="0",
        PIP_NO_CACHE_DIR="1",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("SKIPPED: no trained models, because the packages are not to be")


def test_a_model_that_fails_is_a_line_with_the_reason_and_status_one(tmp_path: Path) -> None:
    value = helper.make_tensor_value_info
    net = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["a"]), helper.make_node("Exp", ["a"], ["y"])],
        "net",
        [value("x", TensorProto.FLOAT, ["batch", 4])],
        [value("y", TensorProto.FLOAT, ["batch", 4])],
    )
    (tmp_path / "good").mkdir()
    onnx.save(helper.make_model(net, ir_version=8), tmp_path / "good" / "net.onnx")
    shutil.copytree(tmp_path / "good", tmp_path / "same")
    done = run("--no-install", "--folder", tmp_path)
    assert done.returncode == 0, done.stdout
    assert "| good/net | 2 | 1 |" in done.stdout and "same/" not in done.stdout
    assert "1 models, 0 faults" in done.stdout and "fails" not in done.stdout
    (tmp_path / "broken.onnx").write_bytes(b"nothing")
    done = run("--no-install", "--folder", tmp_path)
    assert done.returncode == 1
    assert "broken: partition: ModelError: " in done.stdout
