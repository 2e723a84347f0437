"""Ctrl+C ends the server and all its processes, without a word."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from conftest import EXAMPLES, ROOT
from pages import free_port


def _children(pid: int) -> set[int]:
    found = {
        int(c)
        for t in Path(f"/proc/{pid}/task").iterdir()
        for c in (t / "children").read_text().split()
    }
    return found | {grand for child in found for grand in _children(child)}


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc to see the processes")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("model", [[], [str(EXAMPLES / "models" / "mobilenetv2.onnx")]])
def test_nothing_is_left_and_nothing_is_said(
    number: signal.Signals, model: list[str], tmp_path: Path
) -> None:
    port = free_port()
    command = [
        sys.executable,
        "app.py",
        *model,
        "--no-token",
        "--no-browser",
        "--port",
        str(port),
        "--workspace",
        str(tmp_path),
    ]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert str(port) in process.stdout.readline()
    urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30).read()
    if not model:  # then the worker of jobs starts at once
        end = time.monotonic() + 30
        while not any(
            b"sandbox.worker" in Path(f"/proc/{c}/cmdline").read_bytes()
            for c in _children(process.pid)
        ):
            assert time.monotonic() < end
            time.sleep(0.1)
        time.sleep(3)
    others = _children(process.pid)
    os.killpg(process.pid, number)  # as a terminal does
    _, said = process.communicate(timeout=60)
    assert said == ""
    end = time.monotonic() + 20
    while left := {pid for pid in others if _alive(pid)}:
        assert time.monotonic() < end, left
        time.sleep(0.1)
    assert not list(tmp_path.glob("hetero-worker-*")), "temporary files went with the processes"
