"""Ctrl+C ends every command, whatever it is doing: by itself where Python runs, else after a moment."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
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


@pytest.fixture
def start(plan: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts commands; ends those that are still there after the test."""
    commands: list[subprocess.Popen[str]] = []

    def started(*arguments: object) -> subprocess.Popen[str]:
        commands.append(
            subprocess.Popen(
                [sys.executable, "-m", "editor", *map(str, arguments)],
                cwd=plan.parent,
                text=True,
                stderr=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                start_new_session=True,
            )
        )
        return commands[-1]

    yield started
    for command in commands:
        command.kill()
        command.wait()


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def computes(command: subprocess.Popen[str]) -> bool:
    """Whether a process of the command has used a core for a while after ONNX Runtime was loaded."""
    for process in psutil.Process(command.pid).children(recursive=True):
        with contextlib.suppress(OSError, psutil.NoSuchProcess):  # it ended meanwhile
            if (
                "onnxruntime" in Path(f"/proc/{process.pid}/maps").read_text()
                and process.cpu_times().user > 6
            ):
                return True
    return False


@pytest.mark.parametrize("presses", [1, 3])
def test_ctrl_c_ends_a_run_in_a_native_loop(
    plan: Path, start: Callable[..., subprocess.Popen[str]], presses: int
) -> None:
    command = start("run", plan)
    until(lambda: computes(command))
    (child,) = psutil.Process(command.pid).children()
    for _ in range(presses):
        os.killpg(command.pid, signal.SIGINT)
    _, said = command.communicate(timeout=60)
    assert command.returncode == 130 and said == "interrupted\n"
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_a_command_that_python_ends_is_not_killed(
    plan: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    command = start("bench", plan, "--seconds", "1000")
    until(lambda: computes(command))
    children = psutil.Process(command.pid).children(recursive=True)
    os.killpg(command.pid, signal.SIGINT)
    _, said = command.communicate(timeout=60)
    assert (
        command.returncode == 130
        and said.strip().endswith("interrupted")
        and "Traceback" not in said
    )
    _, alive = psutil.wait_procs(children, timeout=20)
    assert not alive
