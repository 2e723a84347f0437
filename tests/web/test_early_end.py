"""A server that cannot start, or is ended while it starts, says what is wrong in words and nothing else."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import EXAMPLES, ROOT

MODEL = str(EXAMPLES / "models" / "mobilenetv2.onnx")


def started(
    *arguments: str, cwd: Path | None = ROOT, temporary: Path | None = None
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            sys.executable,
            str(ROOT / "app.py"),
            "--no-browser",
            "--no-token",
            "--port",
            "0",
            *arguments,
        ],
        cwd=cwd,
        env={**os.environ, **({"TMPDIR": str(temporary)} if temporary else {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def group_is_gone(group: int) -> bool:
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, its_group = path.read_text().rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        if int(its_group) == group and state != "Z":
            return False
    return True


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to see the processes")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("model", [[], [MODEL]], ids=["no model", "model"])
def test_a_signal_at_any_time_of_the_start_ends_it_without_a_word(
    tmp_path: Path, model: list[str], number: signal.Signals
) -> None:
    for moment in (0.15, 0.3, 0.5, 0.8, 1.2, 1.7, 2.3):
        process = started(*model, "--workspace", str(tmp_path), temporary=tmp_path)
        time.sleep(moment)  # any moment will do: these are spread over the start
        (os.killpg if number == signal.SIGINT else os.kill)(
            process.pid, number
        )  # a terminal tells the whole group of Ctrl+C
        _, said = process.communicate(timeout=60)
        assert said == "", f"after {moment} s: {said}"
        end = time.monotonic() + 20
        while not group_is_gone(process.pid):
            assert time.monotonic() < end
            time.sleep(0.1)
    assert not list(tmp_path.glob("hetero-worker-*"))


@pytest.mark.parametrize("model", [[], [MODEL]], ids=["no model", "model"])
def test_a_port_in_use_is_a_message_only(tmp_path: Path, model: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        out, said = started(
            *model, "--workspace", str(tmp_path), "--port", port, temporary=tmp_path
        ).communicate(timeout=60)
    assert (
        out == ""
        and said.startswith("error: cannot listen on 127.0.0.1:")
        and said.count("\n") == 1
    )
    assert not list(tmp_path.glob("hetero-worker-*"))


@pytest.mark.parametrize("model", [[], [MODEL]], ids=["no model", "model"])
def test_a_workspace_that_cannot_be_used_is_a_message_only(
    tmp_path: Path, model: list[str]
) -> None:
    (tmp_path / "workspace.db").write_bytes(b"not a database at all" * 100)
    out, said = started(*model, "--workspace", str(tmp_path)).communicate(timeout=60)
    assert out == "" and "is not a database" in said and said.count("\n") == 1


def test_a_folder_that_is_gone_is_a_message(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    command = f"rmdir {folder} && exec {sys.executable} {ROOT / 'app.py'} --no-browser --port 0"
    done = subprocess.run(
        ["sh", "-c", command], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert (
        done.returncode == 1
        and done.stderr.startswith("error: the current folder is not there")
        and done.stderr.count("\n") == 1
    )


@pytest.mark.parametrize("model", [[], [MODEL]], ids=["no model", "model"])
@pytest.mark.parametrize(
    ("devices", "cause"),
    [
        ("GPU,CPUU", "unknown device or runtime 'CPUU'; did you mean 'CPU'?"),
        ("nowhere.yaml", "nowhere.yaml: no such file"),
    ],
)
def test_devices_that_cannot_be_used_end_the_start(
    tmp_path: Path, model: list[str], devices: str, cause: str
) -> None:
    process = started(*model, "--devices", devices, "--workspace", str(tmp_path))
    said, errors = process.communicate(timeout=120)
    assert process.returncode == 1 and not said, "nothing was served"
    assert errors.startswith("error: ") and cause in errors and "Traceback" not in errors
