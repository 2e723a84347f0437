"""Plans over two machines with three wires between them: what was predicted, what was measured, what a boundary costs.

    python benchmarks/machines.py [--model M.onnx] [--seconds 3] [--wires 100m,10m,1g] [--json F]

Needs root: it makes two network namespaces, `edge` and `server`. The editor, the scheduler and a slow worker (one thread,
a share of a core where control groups allow it) are on the edge; the other worker is on the server.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import record
from benchmarks.wires import EDGE_ADDRESS, SERVER_ADDRESS, Link, Shape, namespaces, why_not

ROOT = Path(__file__).resolve().parents[1]
WIRES = {
    "100m": Shape("100 Mbit/s + 5 ms", 100e6, 5e-3),
    "10m": Shape("10 Mbit/s + 20 ms", 10e6, 20e-3),
    "1g": Shape("1 Gbit/s + 0.2 ms", 1e9, 0.2e-3),
}
PORT = 8786
RAW_PORT = 9999
EDGE_SHARE = 0.4
"""Of a core, for the worker on the edge."""
LARGE = 10_000_000
_SCHEDULER = """
import asyncio
from distributed import Scheduler
async def main():
    async with Scheduler(host="{host}", port={port}, dashboard_address=":0") as scheduler:
        print("up", flush=True)
        await scheduler.finished()
asyncio.run(main())
"""
_RAW = """
import socket
with socket.create_server(("{host}", {port})) as server:
    print("up", flush=True)
    while True:
        peer, _ = server.accept()
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while size := int.from_bytes(peer.recv(8) or b"", "big"):
            left = size
            while left:
                left -= len(peer.recv(min(left, 1 << 20)))
            peer.sendall(b".")
"""


def main() -> int:
    """Runs the benchmark, or, inside a namespace, the part that measures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model", type=Path, default=ROOT / "examples" / "models" / "mobilenetv2.onnx"
    )
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--wires", default=",".join(WIRES))
    parser.add_argument(
        "--share",
        type=float,
        default=EDGE_SHARE,
        help="of a core, for the worker on the edge; 1: all",
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "--no-boundary",
        action="store_true",
        help="do not measure what a boundary costs beyond the wire",
    )
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        found = _measure(options.model, options.seconds)
        print(json.dumps(found | {"boundary": {} if options.no_boundary else _boundary()}))
        return 0
    if problem := why_not():
        print(f"skipped: {problem}")
        return 0
    results = {}
    for name in options.wires.split(","):
        results[name] = run_on(
            WIRES[name], options.model, options.seconds, options.share, not options.no_boundary
        )
        _print(WIRES[name], results[name])
    rows, boundaries = _rows(results)
    record("machines", rows)
    if boundaries:
        record("machines_boundaries", boundaries)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    return 0


def _rows(results: dict[str, Any]) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """What is recorded: for each wire the plans that matter, and what a boundary takes."""
    plans, boundaries = [], []
    for name, found in results.items():
        ranked = sorted(found["plans"], key=lambda row: row["measured"])
        whole = ("optimal", "all on the edge", "all on the server")
        best = next(row for row in ranked if row["plan"] not in whole)
        latency, bits = found["wires"]["edge -> server"]
        for row in ranked:
            if row is best or row["plan"] in whole:
                low, high = (f"{each * 1e3:.1f}" for each in row["interval"])
                plans.append(
                    {
                        "wire": WIRES[name].name,
                        "link as measured": f"{bits / 1e6:.4g} Mbit/s, {latency * 1e3:.2f} ms",
                        "plan": f"best split: {row['plan']}" if row is best else row["plan"],
                        "predicted": f"{row['predicted'] * 1e3:.1f} ms",
                        "measured (95 % interval)": f"{row['measured'] * 1e3:.1f} ms ({low} to {high})",
                    }
                )
        boundaries += [
            {
                "wire": WIRES[name].name,
                "bytes": f"{int(size):,}",
                "a boundary": f"{row['tensor'] * 1e3:.2f} ms",
                "a plain socket": f"{row['socket'] * 1e3:.2f} ms",
            }
            for size, row in found["boundary"].items()
        ]
    return plans, boundaries


@dataclass(frozen=True)
class Farm:
    """A scheduler and two workers in two namespaces."""

    link: Link
    home: Path
    """Folder of the caches."""

    @property
    def environment(self) -> dict[str, str]:
        """Of the editor."""
        return {**os.environ, "XDG_CACHE_HOME": f"{self.home}/editor", "PYTHONPATH": str(ROOT)}

    def on_edge(self, *command: str) -> list[str]:
        """The command line that runs a command beside the editor."""
        return ["ip", "netns", "exec", self.link.edge, *command]


@contextlib.contextmanager
def farm_over(shape: Shape, share: float = EDGE_SHARE) -> Iterator[Farm]:
    """Starts scheduler and workers with a wire between them; the worker on the edge has a share of a core."""
    with contextlib.ExitStack() as stack:
        link = stack.enter_context(namespaces(shape))
        home = stack.enter_context(tempfile.TemporaryDirectory())
        start = lambda where, name, *command: stack.enter_context(
            _process(where, f"{home}/{name}", command)
        )
        start(
            link.edge,
            "scheduler",
            sys.executable,
            "-c",
            _SCHEDULER.format(host=EDGE_ADDRESS, port=PORT),
        )
        start(
            link.server,
            "raw",
            sys.executable,
            "-c",
            _RAW.format(host=SERVER_ADDRESS, port=RAW_PORT),
        )
        worker = (
            sys.executable,
            "-m",
            "editor",
            "worker",
            f"tcp://{EDGE_ADDRESS}:{PORT}",
            "--insecure",
            "--offer",
            "CPU",
        )
        slow = start(
            link.edge, "edge", *worker, "--name", "edge", "--threads", "1", "--host", EDGE_ADDRESS
        )
        if share < 1:
            stack.enter_context(_share_of_a_core(slow.pid, share))
        start(link.server, "server", *worker, "--name", "server", "--host", SERVER_ADDRESS)
        yield Farm(link, Path(home))


def run_on(
    shape: Shape, model: Path, seconds: float, share: float = EDGE_SHARE, boundary: bool = True
) -> dict[str, Any]:
    """Everything for one wire; ``boundary``: also what one costs beyond the wire."""
    with farm_over(shape, share) as farm:
        command = farm.on_edge(
            sys.executable,
            "-m",
            "benchmarks.machines",
            "--inside",
            "--model",
            str(model),
            "--seconds",
            str(seconds),
            *([] if boundary else ["--no-boundary"]),
        )
        done = subprocess.run(
            command,
            env=farm.environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        if done.returncode:
            raise SystemExit(done.stderr)
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found


@contextlib.contextmanager
def _process(
    namespace: str, cache: str, command: tuple[str, ...]
) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a namespace that has printed a line."""
    environment = {**os.environ, "XDG_CACHE_HOME": cache, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        ["ip", "netns", "exec", namespace, *command],
        env=environment,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None and process.stdout.readline()
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(20)


@contextlib.contextmanager
def _share_of_a_core(pid: int, share: float) -> Iterator[None]:
    """Limits a process and its children by a control group, where that is allowed."""
    group = Path(f"/sys/fs/cgroup/cpu/he-edge-{os.getpid()}")
    period = 5_000
    try:
        group.mkdir()
        (group / "cpu.cfs_period_us").write_text(str(period))
        (group / "cpu.cfs_quota_us").write_text(str(int(share * period)))
        for process in (pid, *_children(pid)):
            (group / "cgroup.procs").write_text(str(process))
    except OSError as error:
        print(f"the edge is as fast as the server: {error}", file=sys.stderr)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            for process in (group / "cgroup.procs").read_text().split():
                (group.parent / "cgroup.procs").write_text(process)
        with contextlib.suppress(OSError):
            group.rmdir()


def _children(pid: int) -> list[int]:
    found = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    return [
        other for child in map(int, found.stdout.split()) for other in (child, *_children(child))
    ]


def _measure(model: Path, seconds: float) -> dict[str, Any]:
    """Inside the namespace `edge`: profiles, asks `optimal`, and runs its plan against every other cut."""
    import editor
    from editor.execution.measure.profile import profile_all
    from editor.placement.device_profile import costs_of
    from editor.placement.wires import load_wires
    from editor.runtimes.machines.connection import Connection, use
    from editor.workspace.plan import Plan

    use(Connection(f"tcp://{EDGE_ADDRESS}:{PORT}", insecure="1"))
    graph = editor.load_model(model)
    devices = editor.load_devices("HETERO:edge/CPU,server/CPU")
    profiles = profile_all(graph, devices, seconds)
    plans: dict[str, Plan] = {
        "optimal": editor.partition(
            graph,
            [d.entry for d in devices],
            policy="optimal",
            policy_options={"costs": "measured"},
        )
    }
    for name, pins in _cuts(graph).items():
        plans[name] = editor.partition(graph, [d.entry for d in devices], pins=pins)
    rows = []
    for name, plan in plans.items():
        price = plan.placement.price(costs_of(graph, plan.devices, "measured"))
        rows.append(
            {
                "plan": name,
                "predicted": price.total,
                "predicted_subgraphs": price.compute + price.launches,
                **_latency(plan, seconds),
                "ops": plan.placement.op_counts,
            }
        )
    return {
        "wires": {
            f"{a or 'here'} -> {b or 'here'}": [w.latency, w.bandwidth * 8]
            for (a, b), w in load_wires().items()
        },
        "alone": {name: p if isinstance(p, str) else p.total for name, p in profiles.items()},
        "plans": rows,
        "pipelined": _throughput(plans["optimal"], seconds),
    }


def _cuts(graph: Any) -> dict[str, dict[str, str]]:
    """Cuts of a chain of blocks at single tensors: all ops before on the edge; and none."""
    order = [op for op in graph.order.tolist() if not graph.op_is_constant[op]]
    position = {op: i for i, op in enumerate(order)}
    producer, consumer, tensor = graph.edges
    crossing: dict[int, set[int]] = {}
    for p, c, t in zip(producer.tolist(), consumer.tolist(), tensor.tolist(), strict=True):
        if p in position and c in position:
            for i in range(position[p], position[c]):
                crossing.setdefault(i, set()).add(t)
    single = [i for i, tensors in crossing.items() if len(tensors) == 1]
    smallest = min(int(graph.tensor_bytes[min(crossing[i])]) for i in single)
    best: dict[
        int, int
    ] = {}  # of cuts at tensors of one size, the first: later ones cost the edge more
    for i in sorted(single):
        best.setdefault(int(graph.tensor_bytes[min(crossing[i])]), i)
    cuts = {
        "all on the server": -1,
        "all on the edge": len(order) - 1,
        **{f"{size / 1e3:.0f} kB after op {i}": i for size, i in best.items() if size >= smallest},
    }
    return {
        name: {
            graph.op_keys[op]: "edge/CPU" if k <= last else "server/CPU"
            for k, op in enumerate(order)
        }
        for name, last in cuts.items()
    }


def _latency(plan: Any, seconds: float) -> dict[str, Any]:
    from editor.execution.invented_inputs import random_inputs
    from editor.execution.measure.statistics import median_interval

    compiled, values = plan.compile(), random_inputs(plan.graph)
    for _ in range(3):
        compiled.run(values)
    totals, wires, computing, begin = [], [], [], time.perf_counter()
    while len(totals) < 7 or (time.perf_counter() - begin < seconds and len(totals) < 200):
        _, times = compiled.run_timed(values)
        totals.append(times.total)
        wires.append(sum(t.seconds for t in times.transfers))
        computing.append(sum(times.subgraphs))
    return {
        "measured": float(np.median(totals)),
        "interval": median_interval(totals),
        "wire": float(np.median(wires)),
        "subgraphs": float(np.median(computing)),
        "runs": len(totals),
    }


def _throughput(plan: Any, seconds: float) -> dict[str, float]:
    """Requests per second of the plan with one and with four in flight."""
    return {
        str(n): plan.benchmark(seconds=seconds, mode="throughput", requests=n).throughput
        for n in (1, 4)
    }


def _boundary() -> dict[str, Any]:
    """Seconds of a boundary tensor against those of a plain socket with the same bytes."""
    import onnx
    from onnx import TensorProto, helper

    import editor

    found = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        socket.create_connection((SERVER_ADDRESS, RAW_PORT)) as raw,
    ):
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for size in (64, LARGE):
            value = helper.make_tensor_value_info
            nodes = [
                helper.make_node("Expand", ["x", "shape"], ["wide"]),
                helper.make_node("ReduceMax", ["wide"], ["y"]),
            ]
            shape = helper.make_tensor("shape", TensorProto.INT64, [1], [size // 4])
            graph = helper.make_graph(
                nodes,
                "wide",
                [value("x", TensorProto.FLOAT, [1])],
                [value("y", TensorProto.FLOAT, None)],
                [shape],
            )
            model = helper.make_model(
                graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
            )
            onnx.save(model, Path(folder) / f"{size}.onnx")
            plan = editor.partition(
                editor.load_model(Path(folder) / f"{size}.onnx"),
                "HETERO:edge/CPU,server/CPU",
                pins={"wide": "edge/CPU", "y": "server/CPU"},
            )
            found[str(size)] = {
                "tensor": _latency(plan, 2.0)["wire"],
                "socket": _raw_seconds(raw, size),
            }
    return found


def _raw_seconds(raw: socket.socket, size: int) -> float:
    """One way: what the bytes take until their confirmation, less half of what one byte takes and back."""

    def once(count: int) -> float:
        start = time.perf_counter()
        raw.sendall(count.to_bytes(8, "big") + bytes(count))
        raw.recv(1)
        return time.perf_counter() - start

    once(1)
    empty = float(np.median([once(1) for _ in range(9)]))
    return float(np.median([once(size) for _ in range(5)])) - empty / 2


def _print(shape: Shape, found: dict[str, Any]) -> None:
    print(f"== {shape.name}")
    for name, (latency, bits) in found["wires"].items():
        print(f"  {name}: {latency * 1e3:.2f} ms, {bits / 1e6:.4g} Mbit/s (measurement)")
    for name, total in found["alone"].items():
        print(f"  {name} alone: {total if isinstance(total, str) else f'{total * 1e3:.1f} ms'}")
    print(
        f"  {'plan':<28} {'predicted':>10} {'measured':>10}  {'95 % interval':<18} {'off':>5}  of it in subgraphs"
    )
    for row in sorted(found["plans"], key=lambda r: r["measured"]):
        low, high = row["interval"]
        print(
            f"  {row['plan']:<28} {row['predicted'] * 1e3:>7.1f} ms {row['measured'] * 1e3:>7.1f} ms  "
            f"{f'{low * 1e3:.1f} to {high * 1e3:.1f} ms':<18} {(row['predicted'] / row['measured'] - 1) * 100:>+3.0f} %  "
            f"{row['predicted_subgraphs'] * 1e3:.1f} predicted, {row['subgraphs'] * 1e3:.1f} measured"
        )
    print(
        f"  optimal, requests/s with 1 and 4 in flight: {found['pipelined']['1']:.1f}, {found['pipelined']['4']:.1f}"
    )
    for size, row in found["boundary"].items():
        print(
            f"  boundary of {int(size):,} bytes: {row['tensor'] * 1e3:.2f} ms, a plain socket {row['socket'] * 1e3:.2f} ms"
        )


if __name__ == "__main__":
    sys.exit(main())
