"""Models that ask for hours or all memory end with a message, for the command line, Python and the page."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from bombs import BOMBS, write_bomb
from conftest import EXAMPLES, ROOT, python

import editor
from editor import limits
from editor.operating_system import memory_of
from editor.sandbox.jobs import JobService
from editor.sandbox.worker import run
from editor.web.app_state import AppState
from editor.web.open_request import OpenRequest
from editor.workspace.history import Store

MODEL = str(EXAMPLES / "models" / "mobilenetv2.onnx")
SECONDS = 3
"""The limit of time in these tests; by default it is 30."""
MEMORY = 2 << 30
"""What a bomb may take above its size."""


def _bombs(names: Iterable[str]) -> list[Any]:
    """Bombs of a test: the first is part of `make test`, the others of `make test-all`."""
    first, *others = names
    return [first, *(pytest.param(name, marks=pytest.mark.full) for name in others)]


SOME = ("repeat_in_branch", "repeat", "long_range", "nested_ifs", "dense", "large_split")
ELSEWHERE = _bombs(BOMBS if os.environ.get("HETERO_ALL_BOMBS") else SOME)
"""Bombs for Python and the page, where each costs a process: one for memory and one for time in native code, one that is
refused at once, one while devices are asked, one that is large. The command line takes all; `make fuzz` all everywhere."""
NATIVE = _bombs(("repeat_in_branch", "range_in_branch"))
"""Bombs that explode in native code while they are read."""


@pytest.fixture(autouse=True)
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HETERO_LIMIT_SECONDS", str(SECONDS))


EXPLODING = 640 << 20
"""Bytes that no process has here before a bomb has begun to explode in it."""


def wait_for_explosion(pid: int) -> list[psutil.Process]:
    """Waits until a bomb explodes in native code of a process below this one; returns all of those."""
    end = time.monotonic() + 300
    while time.monotonic() < end:
        children = psutil.Process(pid).children(recursive=True)
        if any(memory_of(child.pid) > EXPLODING for child in children):
            return children
        time.sleep(0.01)
    raise AssertionError("nothing explodes")


@contextmanager
def bounded(path: Path) -> Iterator[None]:
    """Asserts that the processes that this one starts need no more memory."""
    peak, stop, me = [0], threading.Event(), psutil.Process()

    def look() -> None:
        while not stop.wait(0.05):
            peak[0] = max(
                peak[0],
                *(memory_of(child.pid) for child in (me, *me.children(recursive=True))),
            )

    before = memory_of(me.pid)
    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()
    print(f"{path.stem}: {peak[0] >> 20} MiB")
    assert peak[0] - before < MEMORY + path.stat().st_size, "too much memory"


@pytest.mark.parametrize("name", _bombs(BOMBS))
def test_a_bomb_ends_with_a_message_on_the_command_line(name: str, tmp_path: Path) -> None:
    """Both runtimes are asked about it, where it can be read."""
    path = write_bomb(name, tmp_path)
    with bounded(path):
        done = python(
            "-m",
            "editor",
            "partition",
            path,
            "--devices",
            "HETERO:OpenVINO,CPU",
            "--out",
            tmp_path,
            cwd=ROOT,
        )
    assert done.returncode in (0, 1) and "Traceback" not in done.stderr
    assert done.returncode == 0 or done.stderr.startswith("error: "), done.stderr


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_bomb_ends_with_an_error_in_python_and_the_next_model_opens(
    name: str, tmp_path: Path
) -> None:
    path = write_bomb(name, tmp_path)
    with bounded(path):
        try:
            editor.partition(editor.load_model(path), "HETERO:CPU")
        except editor.EditorError as error:
            print(error)
    assert len(editor.load_model(MODEL)) == 253


def test_the_message_says_which_limit_and_how_to_raise_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HETERO_LIMIT_SECONDS", "20")
    with pytest.raises(
        editor.LimitError,
        match=r"repeat_in_branch\.onnx needed more memory than the limit of 1\.5 GiB.*"
        r"--limit-memory 4GiB.*HETERO_LIMIT_MEMORY=4GiB",
    ):
        editor.load_model(write_bomb("repeat_in_branch", tmp_path))
    monkeypatch.setenv("HETERO_LIMIT_SECONDS", "0.5")
    with pytest.raises(
        editor.LimitError, match=r"took longer than the limit of 0\.5 s.*HETERO_LIMIT_SECONDS=2"
    ):
        editor.load_model(write_bomb("repeat_in_branch", tmp_path))


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("SECONDS", "soon"),
        ("SECONDS", "0"),
        ("MEMORY", "-1"),
        ("OPS", "1e9"),
        ("SECONDS", "nan"),
        ("MEMORY", "9" * 50),
        ("RANK", "²"),
    ],
)
def test_a_limit_that_is_no_number_is_an_error(
    variable: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"HETERO_LIMIT_{variable}", text)
    option = (
        f"--limit-{variable.lower()} or " if variable in ("SECONDS", "MEMORY") else ""
    )  # the others have none
    with pytest.raises(
        editor.EditorError, match=f"^{option}HETERO_LIMIT_{variable}: .* is not a .* above 0"
    ):
        limits.current()


def test_options_of_the_command_line_set_the_limits(tmp_path: Path) -> None:
    path = write_bomb("repeat_in_branch", tmp_path)
    done = python(
        "-m",
        "editor",
        "partition",
        path,
        "--devices",
        "HETERO:CPU",
        "--out",
        tmp_path,
        "--limit-memory",
        "300MB",
        "--limit-seconds",
        "300",  # a busy machine meets that of memory first, too
        cwd=ROOT,
    )
    assert done.returncode == 1 and "the limit of 0.279 GiB" in done.stderr


def test_nothing_is_left_of_a_command_that_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever kills the process that watches kills the one that works."""
    monkeypatch.setenv("HETERO_LIMIT_SECONDS", "60")
    path = write_bomb("repeat_in_branch", tmp_path)
    command = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "editor",
            "partition",
            str(path),
            "--devices",
            "HETERO:CPU",
            "--out",
            str(tmp_path),
        ],
        cwd=ROOT,
        stderr=subprocess.DEVNULL,
    )
    children = wait_for_explosion(command.pid)
    command.kill()
    command.wait()
    _, alive = psutil.wait_procs(children, timeout=60)
    assert not alive


def test_ctrl_c_ends_a_command_in_native_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HETERO_LIMIT_SECONDS", "60")
    path = write_bomb("repeat_in_branch", tmp_path)
    command = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "editor",
            "partition",
            str(path),
            "--devices",
            "HETERO:CPU",
            "--out",
            str(tmp_path),
            "--limit-memory",
            "8GB",
        ],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_for_explosion(command.pid)
    os.killpg(command.pid, signal.SIGINT)
    _, said = command.communicate(timeout=60)
    assert command.returncode == 130 and "interrupted" in said


def test_a_crash_while_a_model_is_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(
        editor.EditorError,
        match=r"reading .*x\.onnx: the process that did it crashed \(signal SIGSEGV\)",
    ):
        run(signal.raise_signal, signal.SIGSEGV, what="reading", path=tmp_path / "x.onnx")
    assert run(os.getpid, what="reading", path=tmp_path / "x.onnx") != os.getpid()


@pytest.fixture(scope="module")
def jobs() -> Iterator[JobService]:
    service = JobService()
    yield service
    service.close()


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_bomb_ends_with_an_error_in_the_page_and_the_next_model_opens(
    name: str, jobs: JobService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = AppState(Store(str(tmp_path / "workspace")), jobs, None, EXAMPLES)
    path = write_bomb(name, tmp_path)
    jobs.start()
    with bounded(path):
        try:
            state.open(OpenRequest(str(path), "HETERO:CPU"))
        except editor.EditorError as error:
            print(error)
    monkeypatch.setenv("HETERO_LIMIT_SECONDS", "60")  # a busy machine asks the devices for seconds
    assert state.open(OpenRequest(MODEL, "HETERO:CPU")).graph.name == "mobilenetv2"


@pytest.mark.parametrize("name", NATIVE)
def test_after_a_cancelled_opening_in_native_code_the_next_model_opens(
    name: str, jobs: JobService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Native code keeps the lock of the worker's interpreter, which then answers nobody."""
    monkeypatch.setenv(
        "HETERO_LIMIT_MEMORY", "4GiB"
    )  # else a quick machine reaches it before it is cancelled
    monkeypatch.setenv("HETERO_LIMIT_SECONDS", "60")
    state = AppState(Store(str(tmp_path / "workspace")), jobs, None, EXAMPLES)
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(
            state.open, OpenRequest(str(write_bomb(name, tmp_path)), "HETERO:CPU")
        )
        wait_for_explosion(os.getpid())
        state.cancel_opening()
        with pytest.raises(editor.JobError, match="cancelled"):
            opening.result(60)
        assert state.open(OpenRequest(MODEL, "HETERO:CPU")).graph.name == "mobilenetv2"
