"""Many pages at once, and many benchmarks in a row: does the server stay quick, small and tidy?

    python benchmarks/load.py edits --pages 20 --seconds 600
    python benchmarks/load.py benchmarks --count 100

`edits`: as many scripted pages as asked for each edit a plan of their own, an edit a second, with the requests that
the page's scripts send. Prints the time from a stroke to its figures (median, 95 %), errors, and the server's memory.
`benchmarks`: one benchmark after the other in one server's worker. Prints the worker's memory, and the threads, open
files and temporary folders that stay behind. Both end the server with SIGTERM and print how long that took.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "browser")]

import editor  # noqa: E402
from benchmarks.record import record  # noqa: E402
from editor.execution.jobs import tasks  # noqa: E402
from editor.sandbox.jobs import JobService  # noqa: E402
from editor.workspace.history import Store  # noqa: E402
from editor.workspace.solver import first_decisions  # noqa: E402

MODEL = ROOT / "examples" / "models" / "mobilenetv2.onnx"
TABLE = [{"name": "A", "backendName": "CPU"}, {"name": "B", "backendName": "openvino"}]
MB = 1e6


def post(url: str, path: str, body: Any) -> Any:
    """The JSON answer to a JSON request."""
    request = urllib.request.Request(
        url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        text = answer.read()
    return json.loads(text) if text else None


class ScriptedPage(threading.Thread):
    """A page without a browser: sends edits as `assets/edits.js` does."""

    def __init__(self, url: str, document: str, ops: list[int], seconds: float) -> None:
        super().__init__(daemon=True)
        self.url, self.document, self.ops, self.seconds = url, document, ops, seconds
        self.times: list[float] = []
        self.faults: list[str] = []

    def run(self) -> None:
        """An edit a second; what went wrong is in ``faults``."""
        rng, page, version = random.Random(self.document), f"load{self.document}", 0
        time.sleep(rng.random())
        end, sequence = time.monotonic() + self.seconds, 0
        while (begun := time.monotonic()) < end:
            sequence += 1
            ops = rng.sample(self.ops, 5)
            what = (
                {"do": "undo"}
                if sequence % 7 == 0
                else {"do": "paint", "ops": ops, "device": rng.randrange(2), "force": True}
            )
            message = {"page": page, "seen": version, "edits": [{**what, "sequence": sequence}]}
            try:
                answer = self.send(message)
                if answer["sequence"] != sequence:
                    self.faults.append("not confirmed")
                version = answer["view"]["version"]
            except (OSError, KeyError, ValueError) as error:
                self.faults.append(f"{type(error).__name__}: {error}")
            self.times.append(time.monotonic() - begun)
            time.sleep(max(0.0, 1 - self.times[-1]))

    def send(self, message: dict[str, Any]) -> Any:
        """The answer to edits."""
        return post(self.url, f"/d/{self.document}/edits", message)


def wait_ended(family: list[psutil.Process], seconds: float = 10) -> None:
    """Until no process runs; one that its new parent has not collected yet has ended."""

    def runs(process: psutil.Process) -> bool:
        try:
            return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    end = time.monotonic() + seconds
    while any(map(runs, family)) and time.monotonic() < end:
        time.sleep(0.01)


def edits(pages: int, seconds: float) -> None:
    """Prints the times of edits of many pages."""
    from pages import Server

    folder = Path(tempfile.mkdtemp())
    store, ops, documents = Store(str(folder / "workspace")), [], []
    for number in range(pages):
        copy = folder / f"model{number}.onnx"
        shutil.copy(MODEL, copy)
        graph = editor.load_model(copy)
        ops = np.flatnonzero(~graph.op_is_constant).tolist()
        plan = editor.partition(graph, TABLE)
        first = first_decisions(plan.placement.settings, TABLE)
        documents.append(store.create(copy.name, str(copy), graph.sha256, {}, first).id)
    server = Server(folder / "workspace", str(MODEL))
    server.start()
    assert server.process is not None
    process = psutil.Process(server.process.pid)
    threads = [ScriptedPage(server.url, document, ops, seconds) for document in documents]
    for thread in threads:
        thread.send(
            {"page": "first", "seen": 0, "edits": [{"do": "show", "sequence": 1}]}
        )  # the document is loaded
    begun, at_start = time.monotonic(), process.memory_info().rss / MB
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        print(
            f"{time.monotonic() - begun:5.0f} s: server {process.memory_info().rss / MB:.0f} MB, "
            f"{process.num_threads()} threads, {process.cpu_percent():.0f} % CPU",
            flush=True,
        )
        threads[0].join(min(60, seconds / 10))
        if not threads[0].is_alive():
            for thread in threads:
                thread.join()
    times = np.concatenate([thread.times for thread in threads])
    faults = [fault for thread in threads for fault in thread.faults]
    print(
        f"{pages} pages, {len(times)} edits: median {np.median(times) * 1e3:.0f} ms, "
        f"95 % {np.quantile(times, 0.95) * 1e3:.0f} ms, slowest {times.max() * 1e3:.0f} ms, {len(faults)} errors; "
        f"server {process.memory_info().rss / MB:.0f} MB"
    )
    print(*faults[:5], sep="\n")
    at_end = process.memory_info().rss / MB
    family = process.children(recursive=True)
    begun = time.monotonic()
    server.stop()
    wait_ended(family)
    ended = time.monotonic() - begun
    print(f"SIGTERM to the end of all {len(family) + 1} processes: {ended:.2f} s")
    row = {
        "pages": str(pages),
        "edits": f"{len(times):,}",
        "median": f"{np.median(times) * 1e3:.0f} ms",
        "95 %": f"{np.quantile(times, 0.95) * 1e3:.0f} ms",
        "slowest": f"{times.max() * 1e3:.0f} ms",
        "errors": str(len(faults)),
        "server at the start": f"{at_start:.0f} MB",
        "at the end": f"{at_end:.0f} MB",
        "SIGTERM to the end of all processes": f"{ended:.1f} s",
    }
    record("load_edits", [row])


def benchmarks(count: int) -> None:
    """Prints what many benchmarks leave behind."""
    temporary = tempfile.mkdtemp()
    tempfile.tempdir = os.environ["TMPDIR"] = temporary  # of the worker too
    own = psutil.Process()
    recipe = editor.partition(
        editor.load_model(MODEL), TABLE, rules=[{"type": "Add", "to": "B"}]
    ).recipe()
    others, kept = set(own.children(recursive=True)), set(Path(temporary).iterdir())
    service, rows = JobService(), []
    for number in range(count):
        service.submit(tasks.benchmark, {"plan": recipe}, 0.3, "latency", 1).result()
        if number % 10 == 9:
            worker = max(own.children(recursive=True), key=lambda child: child.memory_info().rss)
            print(
                f"{number + 1:3} benchmarks: worker {worker.memory_info().rss / MB:.0f} MB, {worker.num_threads()} threads, "
                f"{worker.num_fds()} files; here {own.memory_info().rss / MB:.0f} MB, {own.num_threads()} threads, "
                f"{own.num_fds()} files",
                flush=True,
            )
            if number == 9 or number + 10 >= count:
                rows.append(
                    {
                        "after": f"{number + 1} benchmarks",
                        "worker": f"{worker.memory_info().rss / MB:.0f} MB",
                        "threads of the worker": str(worker.num_threads()),
                        "open files of the worker": str(worker.num_fds()),
                        "process beside it": f"{own.memory_info().rss / MB:.0f} MB",
                        "threads of that": str(own.num_threads()),
                    }
                )
    family = [child for child in own.children(recursive=True) if child not in others]
    begun = time.monotonic()
    service.close()
    wait_ended(family)
    left = [path.name for path in set(Path(temporary).iterdir()) - kept]
    print(f"closed in {time.monotonic() - begun:.2f} s; temporary files left: {left or 'none'}")
    record("load_benchmarks", [{**row, "temporary files left": str(len(left))} for row in rows])


def main() -> None:
    """Runs one of the two."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["edits", "benchmarks"])
    parser.add_argument("--pages", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--count", type=int, default=100)
    args = parser.parse_args()
    if args.what == "edits":
        edits(args.pages, args.seconds)
    else:
        benchmarks(args.count)


if __name__ == "__main__":
    main()
