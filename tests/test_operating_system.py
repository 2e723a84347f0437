"""What takes the place of what only Linux has: run here by saying that this is another system."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from bombs import write_bomb
from conftest import EXAMPLES, ROOT

import editor
from editor import operating_system, startup
from editor.sandbox import worker as workers
from editor.sandbox.worker import Worker, run

ELSEWHERE = "from editor import operating_system; operating_system.IS_LINUX = False; "
"""Begins the code of a process that is to do what it does elsewhere than on Linux."""
WITH_EDITOR = {**os.environ, "PYTHONPATH": str(ROOT)}
OWNER = f"""
{ELSEWHERE}
import time
from editor import startup
from editor.sandbox import worker
worker.python_command = lambda code: startup.python_command(code.replace("; from", "; {ELSEWHERE}from", 1))
made = worker.Worker()
print(made.call(worker.os.getpid), flush=True)
made.call(time.sleep, 600)
"""


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operating_system, "IS_LINUX", False)
    monkeypatch.setattr(
        workers,
        "python_command",
        lambda code: startup.python_command(code.replace("; from", f"; {ELSEWHERE}from", 1)),
    )
    monkeypatch.setattr(workers, "_current", None)


def allocated(size: int) -> int:
    """Holds so many bytes until its process is killed."""
    block = bytearray(os.urandom(1 << 20) * (size >> 20))
    time.sleep(600)
    return len(block)


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_worker_ends_with_its_owner_by_its_pipe() -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER], env=WITH_EDITOR, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    worker = psutil.Process(int(owner.stdout.readline()))
    owner.kill()
    owner.wait(60)
    psutil.wait_procs([worker], timeout=20)
    assert not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE


def test_memory_is_what_psutil_says(elsewhere: None) -> None:
    before = operating_system.memory_of(os.getpid()), operating_system.private_memory()
    block = bytearray(os.urandom(1 << 20) * 64)
    after = operating_system.memory_of(os.getpid()), operating_system.private_memory()
    assert all(now - then > 48 << 20 for then, now in zip(before, after, strict=True))
    assert operating_system.memory_of_machine() == psutil.virtual_memory().total
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert operating_system.memory_of(gone.pid) == 0 and len(block) == 64 << 20


def test_limits_of_memory_and_time_are_kept(
    elsewhere: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HETERO_LIMIT_MEMORY", "100MB")
    with pytest.raises(editor.LimitError, match="needed more memory"):
        run(allocated, 400 << 20, what="reading", path=tmp_path / "m.onnx")
    monkeypatch.setenv("HETERO_LIMIT_SECONDS", "0.5")
    with pytest.raises(editor.LimitError, match="took longer"):
        run(time.sleep, 600, what="reading", path=tmp_path / "m.onnx")


def command(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command where this process cannot be divided."""
    code = f"{ELSEWHERE}import sys; from editor.__main__ import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**WITH_EDITOR, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_commands_work_and_keep_limits_without_a_parent_that_watches(tmp_path: Path) -> None:
    model = EXAMPLES / "models" / "mobilenetv2.onnx"
    arguments = ("--devices", "HETERO:CPU", "--out", tmp_path)
    done = command("partition", model, *arguments)
    assert done.returncode == 0 and (tmp_path / "plan.json").exists(), done.stderr
    bomb = write_bomb("range_in_branch", tmp_path)
    done = command("partition", bomb, *arguments, HETERO_LIMIT_SECONDS="1")
    assert done.returncode == 1 and done.stderr.startswith("error: "), done.stderr
    assert "range_in_branch.onnx" in done.stderr and "HETERO_LIMIT_SECONDS" in done.stderr


def test_a_lock_is_held_until_its_file_is_closed(tmp_path: Path) -> None:
    first, second = (os.open(tmp_path / "lock", os.O_CREAT | os.O_RDWR) for _ in range(2))
    assert operating_system.try_lock(first) and not operating_system.try_lock(second)
    os.close(first)
    assert operating_system.try_lock(second)
    os.close(second)


def test_a_folder_whose_lock_is_about_to_be_taken_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers.tempfile, "tempdir", str(tmp_path))
    for name, content in (("begun", b""), ("abandoned", b"locked")):
        (tmp_path / f"hetero-worker-{name}").mkdir()
        (tmp_path / f"hetero-worker-{name}" / "lock").write_bytes(content)
    worker = Worker()
    left = {path.name for path in tmp_path.iterdir()}
    worker.kill()
    assert "hetero-worker-begun" in left and "hetero-worker-abandoned" not in left
