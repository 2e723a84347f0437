"""Loading and solving at 10,000 and 100,000 ops.

python benchmarks/scale.py [--ops 10000 100000]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import record
from benchmarks.splitting import residual, write
from editor.devices.table import load_devices
from editor.graph.loading import load_model
from editor.placement.placement import Settings, solve
from editor.runtimes.base import Capability
from editor.workspace.plan import Plan


def measure(count: int, path: Path) -> dict[str, str]:
    """What was measured for one size, and its figure."""
    found: dict[str, str] = {}

    def timed(what: str, work: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        result = work()
        found[what] = f"{time.perf_counter() - start:.3f} s"
        print(f"  {what:<58} {found[what]:>9}", flush=True)
        return result

    graph = timed("load", lambda: load_model(path))
    devices = load_devices("HETERO:GPU,CPU")
    able = [Capability.everything(graph)] * 2
    pins = {f"t{i}": "CPU" for i in range(0, count, 17)}
    first = Plan(
        timed(
            "priority + subgraphs + memory report",
            lambda: solve(graph, devices, Settings(pins=pins), able),
        )
    )
    plan = Plan(
        timed(
            "optimal + subgraphs + memory report",
            lambda: solve(graph, devices, Settings("optimal", pins=pins), able),
        )
    )
    timed("priority: repin of one op", lambda: first.repin({"t5": "CPU"}))
    timed("optimal: repin of one op", lambda: plan.repin({"t5": "CPU"}))
    tracemalloc.start()
    kept = load_model(path)
    kept.predecessors, kept.successors, kept.readers  # noqa: B018  # built on demand
    what = "memory of Graph with its adjacency"
    found[what] = f"{tracemalloc.get_traced_memory()[0] / 1e6:.0f} MB"
    print(f"  {what:<58} {found[what]:>9}")
    tracemalloc.stop()
    return found


def main() -> None:
    """Prints one block per size."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ops", type=int, nargs="*", default=[10_000, 100_000])
    found: dict[str, dict[str, str]] = {}
    for count in parser.parse_args().ops:
        with tempfile.TemporaryDirectory() as folder:
            print(f"{count:,} ops, two devices, one op in 17 pinned to the second")
            path = write(Path(folder) / "net.onnx", residual(count))
            found[f"{count:,} ops"] = measure(count, path)
    whats = next(iter(found.values()))
    record("scale", [{"what": w, **{n: each[w] for n, each in found.items()}} for w in whats])


if __name__ == "__main__":
    main()
