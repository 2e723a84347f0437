"""Discovery, asking, boundaries of a plugin with its own memory, and the start of a second benchmark.

    python benchmarks/devices.py [--models DIR] [--webgpu]

1. Seconds to discover every device after the imports, without and with what earlier trials left in the cache.
2. Seconds to ask OpenVINO (and WebGPU) which ops of a model they run, the first time and again in a new process.
3. WebGPU (with ``--webgpu``): a boundary between two of its subgraphs, and copies to and from host memory.
4. Seconds until a job compiles, warms up and has a first sample: a benchmark of one split twice, in one worker.

Each first time has an empty cache; every figure is of a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import ROOT, record

DISCOVER = """
import onnxruntime, openvino, editor, time
from editor.devices.discovery import available_devices, unusable_runtimes
begin = time.perf_counter()
found = [d.name for d in available_devices()], [u.name for u in unusable_runtimes()]
result = time.perf_counter() - begin, found
"""
ASK = """
import editor, time
from editor.graph.proposed_sizes import proposed_sizes
from editor.runtimes.registry import capability
graph = editor.load_model(argument[0])
graph = editor.load_model(argument[0], proposed_sizes(graph)) if graph.unbound else graph
(device,) = editor.load_devices("HETERO:" + argument[1])
begin = time.perf_counter()
answer = capability(graph, device)
result = time.perf_counter() - begin, int(answer.mask.sum()), len(graph)
"""
BOUNDARY = """
import numpy as np, editor
from benchmarks.gpu import products
from benchmarks.overhead import contiguous
from editor.execution.executor import compile_placement
from editor.graph.loading import load_model
from editor.placement.placement import placement_of_groups
from pathlib import Path
graph = load_model(products(Path(argument[0]) / "products.onnx", 4))
devices = editor.load_devices([{"name": "A", "backendName": "WebGPU"}, {"name": "B", "backendName": "WebGPU"}, {"name": "CPU"}])
inputs = {"t0": np.ones((256, 1024), np.float32)}
result = []
for order in ([0, 1, 0, 1], [0, 2, 0, 2]):
    part = contiguous(graph, 4)
    compiled = compile_placement(placement_of_groups(graph, devices, np.array(order)[part], part), as_cut=True)
    runs = [compiled.run_timed(inputs)[1].transfers for _ in range(6)][2:]
    for i, t in enumerate(runs[0]):
        result.append((order[t.source], order[t.target], t.bytes, t.copied, float(np.median([r[i].seconds for r in runs]))))
"""
START = """
import time, editor
from editor.execution.jobs import tasks
from editor.sandbox.jobs import JobService
from editor.graph.proposed_sizes import proposed_sizes
graph = editor.load_model(argument[0])
graph = editor.load_model(argument[0], proposed_sizes(graph)) if graph.unbound else graph
keys = [graph.op_keys[op] for op in graph.order.tolist()]
plan = editor.partition(graph, "HETERO:OpenVINO,CPU", pins={k: "CPU" for k in keys[len(keys) // 3:len(keys) // 2]})
recipe = plan.recipe()
service = JobService()
service.run(tasks.warm_up)
result = []
for _ in range(2):
    job, begin, first = service.submit(tasks.benchmark, {"plan": recipe}, 0.3, "latency", 4), time.perf_counter(), {}
    while not job.done:
        for event in list(job.events):
            name = event["text"].split()[0] if event.get("kind") == "phase" else event.get("kind")
            first.setdefault(name, round(time.perf_counter() - begin, 2))
        time.sleep(0.01)
    job.result(1)
    result.append({name: first.get(name) for name in ("compiling", "warming", "sample")})
service.close()
"""


def run(code: str, argument: list[str], cache: Path) -> Any:
    """What a piece of code leaves in ``result``, in a process of its own."""
    body = "\n".join(
        f"    {line}" for line in code.splitlines()
    )  # the worker of jobs imports this as its main module
    text = (
        f"import json, sys\nargument = {argument!r}\nif __name__ == '__main__':\n{body}\n"
        "    print('RESULT' + json.dumps(result))"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", text],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return done.stderr.strip().splitlines()[-1:]
    return json.loads(done.stdout.rpartition("RESULT")[2])


def main() -> None:
    """Prints all parts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", type=Path, default=ROOT / "examples" / "models")
    parser.add_argument("--webgpu", action="store_true")
    options = parser.parse_args()
    models = sorted(options.models.glob("*.onnx"))
    devices = ["OpenVINO", *(["WebGPU"] if options.webgpu else [])]
    rows = []

    def twice(what: str, first: str, again: str) -> None:
        rows.append({"what": what, "first time": first, "again": again})

    with tempfile.TemporaryDirectory() as name:
        cache = Path(name)
        found = [run(DISCOVER, [], cache) for _ in range(2)]
        print(f"discovery, first: {found[0]}\ndiscovery, again: {found[1]}", flush=True)
        twice("discovery of everything after the imports", *(f"{s:.2f} s" for s, _ in found))
        for model in models:
            for device in devices:
                first, again = (run(ASK, [str(model), device], cache) for _ in range(2))
                print(f"asking {device} about {model.name}: {first}, again {again}", flush=True)
                times = (f"{each[0]:.2f} s" for each in (first, again))
                twice(f"asking {device} about {model.stem}", *times)
        if options.webgpu:
            for row in run(BOUNDARY, [name], cache):
                print(f"  boundary {row}", flush=True)
        for model in models:
            phases = run(START, [str(model)], cache)
            print(f"benchmarks of {model.name}, seconds after the command: {phases}", flush=True)
            texts = (f"{each['warming']}, {each['sample']} s" for each in phases)
            twice(f"benchmark of a split of {model.stem}: warms up, has its first sample", *texts)
    record("devices", rows)


if __name__ == "__main__":
    main()
