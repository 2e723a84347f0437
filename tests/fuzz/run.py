"""``make fuzz SECONDS=60``: reads changed files until the time is over, and keeps those that do harm.

Each target has a process of its own. An exception that is no ``EditorError``, a crash, more than ten seconds or more than
2 GB are faults; their inputs are written to ``build/fuzz``. Copy them to ``tests/fuzz/found/TARGET`` once they are
mended: ``test_fuzz.py`` reads them again.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

import psutil  # noqa: E402
from targets import TARGETS, case  # noqa: E402

from editor.errors import EditorError  # noqa: E402
from editor.operating_system import memory_of  # noqa: E402

MAX_SECONDS = 10.0
MAX_BYTES = 2 << 30
LIMITS = {"HETERO_LIMIT_SECONDS": "6"}
"""So that what exceeds the editor's own limits ends before it is a fault."""


def attempt(target: str, data: bytes, folder: Path) -> str:
    """Reads an input; the traceback of a fault, "" for a result or an error that a user can act on."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            TARGETS[target].run(data, folder)
    except EditorError as error:
        return "" if 0 < len(str(error)) < 100_000 else f"a message of {len(str(error))} characters"
    except BaseException:  # noqa: BLE001  # what is looked for
        return traceback.format_exc()
    return ""


def work(target: str, start: int) -> None:
    """The process of a target: reads one input after another, and says which and what came of it."""
    with tempfile.TemporaryDirectory() as folder:
        attempt(target, TARGETS[target].seeds()[0], Path(folder))  # imports take seconds
        for number in range(start, sys.maxsize):
            data = case(target, number)
            print(f"begin {number}", flush=True)
            fault = attempt(target, data, Path(folder))
            print(
                f"end {number} {fault.encode('unicode_escape').decode() if fault else ''}",
                flush=True,
            )


def fuzz(target: str, seconds: float, out: Path, start: int) -> tuple[int, list[str]]:
    """Number of inputs that were read, and the faults, each kind once."""
    end, done, faults = time.monotonic() + seconds, 0, []
    seen: set[str] = set()
    while time.monotonic() < end:
        number, fault = _until_fault(target, start + done, end)
        done = number - start
        if fault and (kind := fault.strip().splitlines()[-1][:60]) not in seen:
            seen.add(kind)
            faults.append(f"{target} {number}: {fault.strip()}")
            (out / target).mkdir(parents=True, exist_ok=True)
            (out / target / str(number)).write_bytes(case(target, number))
        done += 1
    return done, faults


def _until_fault(target: str, start: int, end: float) -> tuple[int, str]:
    """The input with the next fault; without one, the last input and ""."""
    process = subprocess.Popen(
        [sys.executable, __file__, "--work", target, "--start", str(start)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | LIMITS,
    )
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    try:
        return _watch(process, process.stdout, start, end)
    finally:
        _end(process)


def _watch(
    process: subprocess.Popen[bytes], stream: IO[bytes], number: int, end: float
) -> tuple[int, str]:
    text, began, running = b"", time.monotonic(), False
    while time.monotonic() < end:
        text += stream.read() or b""
        *lines, text = text.split(b"\n")
        for line in lines:
            word, value, *fault = line.decode().split(" ", 2)
            number, running, began = int(value), word == "begin", time.monotonic()
            if fault and fault[0]:
                return number, fault[0].encode().decode("unicode_escape")
        if process.poll() is not None and not lines:
            return number, f"crashed with status {process.returncode}"
        if running and time.monotonic() - began > MAX_SECONDS:
            return number, f"took more than {MAX_SECONDS:g} s"
        if running and _memory(process.pid) > MAX_BYTES:
            return number, "took more than 2 GB"
        time.sleep(0.02)
    return number, ""


def _memory(pid: int) -> int:
    try:
        return max(memory_of(p.pid) for p in (psutil.Process(pid), *psutil.Process(pid).children()))
    except psutil.Error:
        return 0


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kills a process and its helper."""
    try:
        below = psutil.Process(process.pid).children(recursive=True)
    except psutil.Error:
        below = []
    process.kill()
    process.wait()
    for child in below:
        try:
            child.kill()
        except psutil.Error:
            pass


def main() -> int:
    """Fuzzes all targets, or some; the exit status is 1 when there are faults."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="in all")
    parser.add_argument("--targets", nargs="*", default=list(TARGETS), choices=list(TARGETS))
    parser.add_argument("--start", type=int, default=0, help="number of the first input")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "fuzz")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work, options.start)
        return 0
    os.nice(10)
    faults: list[str] = []
    for target in options.targets:
        done, found = fuzz(
            target, options.seconds / len(options.targets), options.out, options.start
        )
        print(f"{target}: {done:,} inputs, {len(found)} faults", flush=True)
        print("".join(f"\n{fault}\n" for fault in found), end="", flush=True)
        faults += found
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
