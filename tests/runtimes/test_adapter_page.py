"""The example of docs/adapters.md is a runtime as it is printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from conftest import ROOT

COMPILER = '''
"""A compiler as the example expects it, by ONNX's reference interpreter."""
import onnx
from onnx.reference import ReferenceEvaluator

__version__ = "1.0"


def import_onnx(data):
    return ReferenceEvaluator(onnx.load_from_string(data))


def compile(data):
    return Module(data)


class Module:
    def __init__(self, data):
        self.data = data

    def session(self):
        return Session(import_onnx(self.data))


class Session:
    def __init__(self, evaluator):
        self.evaluator = evaluator

    def run(self, inputs):
        return self.evaluator.run(None, dict(zip(self.evaluator.input_names, inputs)))
'''


def test_the_example_passes_the_test_of_adapters(tmp_path: Path) -> None:
    """Before, two of its methods used a module that only the third imported, and every op was refused."""
    page = (ROOT / "docs" / "adapters.md").read_text(encoding="utf-8")
    (tmp_path / "my_runtime.py").write_text(re.findall(r"```python\n(.*?)```", page, re.S)[0])
    points = re.findall(r'```toml\n.*?\n(mine = .*?)\n```', page, re.S)[0].replace('"', "")  # fmt: skip
    info = tmp_path / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[hetero_editor.runtimes]\n{points}\n")
    environment = {
        **os.environ,
        "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }

    def hetero_editor(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "editor", *arguments],
            cwd=tmp_path,
            env=environment,
            text=True,
            capture_output=True,
            check=False,
        )

    assert "My accelerator" not in hetero_editor("devices").stdout, "its compiler is not installed"
    (tmp_path / "my_compiler.py").write_text(COMPILER)
    assert "My accelerator" in hetero_editor("devices").stdout
    done = hetero_editor("adapter-test", "mine", "--cases", "5")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "every check passed" in done.stdout
