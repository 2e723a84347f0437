"""Ctrl+C ends every command, whatever it is doing: by itself where Python runs, else after a moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import onnx
import psutil
import pytest
from conftest import ROOT

import editor

LOOP = """
<ir_version: 8, opset_import: ["": 17]>
long (float[1] x) => (float[1] y) {
    times = Constant <value = int64 {4000000000000}> ()
    go = Constant <value = bool {1}> ()
    y = Loop (times, go, x) <body = step (int64 i, bool on, float[1] a) => (bool still, float[1] b) {
        still = Identity (on)
        b = Cos (a)
    }>
}
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """A plan that runs for weeks in native code."""
    onnx.save(onnx.parser.parse_model(LOOP), tmp_path / "m.onnx")
    return editor.partition(tmp_path / "m.onnx", "HETERO:CPU").save(tmp_path / "plan.json")


def started(cwd: Path, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-m", "editor", *map(str, arguments)], cwd=cwd, stderr=subprocess.PIPE, text=True,
                            env={**os.environ, "PYTHONPATH": str(ROOT)}, start_new_session=True)


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def native(command: subprocess.Popen[str]) -> bool:
    """Whether the command computes: its child has used a core for a while after ONNX Runtime was loaded."""
    children = psutil.Process(command.pid).children()
    return bool(children) and "onnxruntime" in Path(f"/proc/{children[0].pid}/maps").read_text() \
        and children[0].cpu_times().user > 4


@pytest.mark.parametrize("presses", [1, 3])
def test_ctrl_c_ends_a_run_in_a_native_loop(plan: Path, presses: int) -> None:
    command = started(plan.parent, "run", plan)
    until(lambda: native(command))
    (child,) = psutil.Process(command.pid).children()
    for _ in range(presses):
        os.killpg(command.pid, signal.SIGINT)
    _, said = command.communicate(timeout=60)
    assert command.returncode == 130 and said == "interrupted\n"
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_a_command_that_python_ends_is_not_killed(plan: Path) -> None:
    command = started(plan.parent, "bench", plan, "--seconds", "1000")
    until(lambda: len(psutil.Process(command.pid).children(recursive=True)) > 2)
    children = psutil.Process(command.pid).children(recursive=True)
    os.killpg(command.pid, signal.SIGINT)
    _, said = command.communicate(timeout=60)
    assert command.returncode == 130 and said.strip().endswith("interrupted") and "Traceback" not in said
    _, alive = psutil.wait_procs(children, timeout=20)
    assert not alive
