"""A scheduler with workers as processes on the loopback, and models to split over them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil
from conftest import ROOT, save_net
from onnx import TensorProto, helper, numpy_helper
from pages import free_port

import editor
from editor.execution.invented_inputs import random_inputs
from editor.runtimes.machines import connection
from editor.runtimes.machines.connection import Connection, directory
from editor.workspace.plan import Plan

SIZE = 64
LAYERS = 6
TABLE = "HETERO:edge/CPU,server/CPU"
SCHEDULER = """
import asyncio, sys
from distributed import Scheduler, Security

async def main():
    port, *tls = sys.argv[1:]
    security = Security(tls_ca_file=tls[0], tls_scheduler_cert=tls[0], tls_scheduler_key=tls[1]) if tls else None
    async with Scheduler(host="127.0.0.1", port=int(port), dashboard_address=":0", security=security,
                         protocol="tls" if tls else "tcp") as scheduler:
        print("up", flush=True)
        await scheduler.finished()

asyncio.run(main())
"""


@dataclass
class Farm:
    """A scheduler and the workers that were started at it."""

    port: int
    caches: Path
    workers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    def start(self, name: str, *options: str, path: Sequence[Path] = (ROOT,)) -> None:
        """Starts a worker with a folder of its own and waits until it is there; ``path`` is where it finds modules first."""
        environment = {
            **os.environ,
            "XDG_CACHE_HOME": str(self.caches),
            "PYTHONPATH": os.pathsep.join(map(str, path)),
        }
        environment.pop("HETERO_SCHEDULER", None)
        self.caches.mkdir(exist_ok=True)
        process = subprocess.Popen(
            [sys.executable, "-m", "editor", "worker", self.address, "--name", name, *options],
            env=environment,
            stdout=subprocess.PIPE,
            start_new_session=True,
            cwd=self.caches,
        )
        assert process.stdout is not None and b"offers its devices" in process.stdout.readline()
        self.workers[name] = process
        directory.forget()

    def signal(self, name: str, number: int) -> None:
        """Sends a signal to a worker and the process that watches it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.workers[name].pid, number)

    def process(self, name: str) -> psutil.Process:
        """The process in which a worker computes; the one that was started watches it."""
        children = psutil.Process(self.workers[name].pid).children(recursive=True)
        return max(children, key=lambda child: child.memory_info().rss)

    def stop(self, name: str) -> None:
        """Ends a worker at once."""
        self.signal(name, signal.SIGKILL)
        self.workers.pop(name).wait(20)

    def weights_of(self, name: str) -> int:
        """Files of weights that a worker keeps."""
        return sum(
            path.suffix == ""
            for path in (self.caches / "hetero-editor" / "worker" / name).iterdir()
        )


def write_credentials(folder: Path) -> tuple[str, str]:
    """Makes a certificate that signs itself, and its key; returns their files."""
    certificate, key = str(folder / "certificate.pem"), str(folder / "key.pem")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj /CN=tests"
    extension = ["-addext", "keyUsage=critical,keyCertSign,digitalSignature"]
    files = ["-keyout", key, "-out", certificate]
    subprocess.run([*command.split(), *extension, *files], check=True, capture_output=True)
    return certificate, key


@contextlib.contextmanager
def scheduler(port: int, *tls: str) -> Iterator[None]:
    process = subprocess.Popen(
        [sys.executable, "-c", SCHEDULER, str(port), *tls],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None and process.stdout.readline() == b"up\n"
    try:
        yield
    finally:
        process.kill()
        process.wait(20)


@contextlib.contextmanager
def edge_and_server(caches: Path) -> Iterator[Farm]:
    """A farm of two workers, which this process uses."""
    farm = Farm(free_port(), caches)
    with scheduler(farm.port):
        try:
            farm.start(
                "edge", "--offer", "CPU,Interpreter", "--threads", "1", "--memory-limit", "2GiB"
            )
            farm.start("server", "--offer", "CPU")
            connection.use(Connection(farm.address))
            yield farm
        finally:
            os.environ.pop("HETERO_SCHEDULER", None)
            for name in list(farm.workers):
                farm.stop(name)


def write_net(path: Path, seed: int = 0) -> Path:
    """Matrix products one after the other, each with weights of 16 KiB."""
    rng, nodes, weights = np.random.default_rng(seed), [], []
    before = "x"
    for i in range(LAYERS):
        weights.append(
            numpy_helper.from_array(
                rng.standard_normal((SIZE, SIZE)).astype(np.float32) / SIZE, f"w{i}"
            )
        )
        nodes += [
            helper.make_node("MatMul", [before, f"w{i}"], [f"m{i}"]),
            helper.make_node("Relu", [f"m{i}"], [f"r{i}"]),
        ]
        before = f"r{i}"
    value = helper.make_tensor_value_info
    return save_net(
        path,
        nodes,
        [value("x", TensorProto.FLOAT, [8, SIZE])],
        [value(before, TensorProto.FLOAT, [8, SIZE])],
        weights,
    )


def split(
    path: Path,
    devices: str | list[dict[str, str]] = TABLE,
    layer: int = 3,
    last: str = "server/CPU",
    first: str = "edge/CPU",
) -> Plan:
    """The first layers on one device, the others on another."""
    graph = editor.load_model(path)
    pins = {key: first if op < 2 * layer else last for op, key in enumerate(graph.op_keys)}
    return editor.partition(graph, devices, pins=pins)


def unsplit(plan: Plan) -> dict[str, np.ndarray]:
    return editor.partition(plan.graph, "HETERO:CPU").run(random_inputs(plan.graph))


def assert_same(plan: Plan) -> None:
    found, expected = plan.run(random_inputs(plan.graph)), unsplit(plan)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-6)


def slow_net(path: Path, rounds: int = 1_000_000) -> Path:
    """A loop; ONNX's interpreter needs many seconds for a million rounds, ONNX Runtime for a hundred million."""
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["on"]),
            helper.make_node("Sin", ["state"], ["next"]),
        ],
        "body",
        [
            value("i", TensorProto.INT64, []),
            value("go", TensorProto.BOOL, []),
            value("state", TensorProto.FLOAT, [4]),
        ],
        [value("on", TensorProto.BOOL, []), value("next", TensorProto.FLOAT, [4])],
    )
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Neg", ["a"], ["b"]),
        helper.make_node("Loop", ["count", "yes", "b"], ["y"], body=body),
    ]
    weights = [
        numpy_helper.from_array(np.array(rounds, np.int64), "count"),
        numpy_helper.from_array(np.array(True), "yes"),
    ]
    ends = [[value(name, TensorProto.FLOAT, [4])] for name in ("x", "y")]
    return save_net(path, nodes, *ends, weights, name="slow")
