"""CPU and GPU together, on a machine with onnxruntime-gpu and CUDA.

    python benchmarks/gpu.py [--seconds 5] [--rehearse]

1. Cost of a boundary between two GPU subgraphs: a chain of matrix products, cut in k sessions, values on the GPU.
2. ResNet-50 with MaxPool forbidden on the GPU: the plan against the GPU alone and the CPU alone.
3. A decoder whose weights do not fit into the memory that the GPU is allowed: policy `memory` places the rest.
4. Exports: where a session puts the ops when it is opened with the exported settings, by annotations and by names, and
   with a memory budget.
5. `optimal` with a measured profile of GPU and CPU against each alone and `priority`.
6. With two GPUs: how they are listed, and a chain of products that goes to and fro between ``GPU.0`` and ``GPU.1``: each
   boundary is a copy from one to the other; then policy `pipeline` over both, by requests in flight.

``--rehearse`` runs the same on CPU devices, to test the script; its figures mean nothing.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.overhead import contiguous, transformer
from benchmarks.record import record
from benchmarks.tuning import compare
from editor.devices.discovery import available_devices
from editor.devices.table import load_devices
from editor.errors import EditorError
from editor.execution.executor import compile_placement, compile_whole
from editor.execution.invented_inputs import random_inputs
from editor.execution.measure.benchmark import Benchmark, environment
from editor.graph.loading import load_model
from editor.placement.placement import placement_of_groups
from editor.workspace.plan import partition

MODELS = Path(__file__).resolve().parents[1] / "examples" / "models"


def products(path: Path, count: int = 16) -> Path:
    """A chain of matrix products, 256 x 1024 by 1024 x 1024."""
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(
            (rng.standard_normal((1024, 1024)) / 32).astype(np.float32), f"w{i}"
        )
        for i in range(count)
    ]
    nodes = [helper.make_node("MatMul", [f"t{i}", f"w{i}"], [f"t{i + 1}"]) for i in range(count)]
    ends = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, [256, 1024])
        for n in ("t0", f"t{count}")
    ]
    graph = helper.make_graph(nodes, "products", ends[:1], ends[1:], weights)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path
    )
    return path


def boundaries(gpu: dict[str, Any], folder: Path, seconds: float) -> None:
    """Milliseconds of the chain by number of subgraphs, interleaved."""
    graph = load_model(products(folder / "products.onnx"))
    devices = load_devices([{**gpu, "name": "G0"}, {**gpu, "name": "G1"}])
    inputs = random_inputs(graph)
    runs = {1: compile_whole(graph, devices[0])}
    for count in (2, 4, 8, 16):
        part = contiguous(graph, count)
        runs[count] = compile_placement(placement_of_groups(graph, devices, part % 2, part))
    times: dict[int, list[float]] = {count: [] for count in runs}
    for compiled in runs.values():
        for _ in range(10):
            compiled.run(inputs)
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds:
        for count, compiled in runs.items():
            start = time.perf_counter()
            compiled.run(inputs)
            times[count].append(time.perf_counter() - start)
    whole = float(np.median(times[1]))
    print(f"chain of 16 products, {len(times[1])} rounds")
    for count, spent in times.items():
        median = float(np.median(spent))
        extra = f", {(median - whole) / (count - 1) * 1e6:.0f} us a boundary" if count > 1 else ""
        print(f"  {count:2} GPU subgraphs: {median * 1e3:.3f} ms{extra}")
    row = {str(count): f"{np.median(spent) * 1e3:.3f}" for count, spent in times.items()}
    record("gpu_boundaries", [{"subgraphs of a chain of 16 matrix products": "ms", **row}])


def two_gpus(folder: Path) -> None:
    """Time of each boundary of a chain between two GPUs, and whether the results are those of one."""
    table = [{"name": f"GPU.{i}", "properties": {"use_tf32": "0"}} for i in range(2)]
    devices = load_devices(table)
    if any(device.planned for device in devices):
        print("Two GPUs: this machine has one")
        return
    graph = load_model(products(folder / "products.onnx"))
    part = contiguous(graph, 8)
    compiled = compile_placement(placement_of_groups(graph, devices, part % 2, part))
    inputs = random_inputs(graph)
    expected = compile_whole(graph, devices[0]).run(inputs)
    runs = [compiled.run_timed(inputs) for _ in range(50)][10:]
    gap = max(float(np.max(np.abs(runs[-1][0][name] - expected[name]))) for name in expected)
    print(
        f"Two GPUs: largest difference {gap:.3g}; median of {len(runs)} runs, each boundary {256 * 1024 * 4:,} bytes"
    )
    for i, transfer in enumerate(runs[0][1].transfers):
        seconds = float(np.median([times.transfers[i].seconds for _, times in runs]))
        print(
            f"  {transfer.source} -> {transfer.target}: {seconds * 1e6:.0f} us{', copied' if transfer.copied else ''}"
        )


def pipeline_over_two(
    folder: Path, seconds: float, layers: int = 24, counts: Sequence[int] = (1, 2, 4, 8)
) -> None:
    """Requests per second of policy `pipeline` over two GPUs against one, by the number of requests in flight."""
    table = [{"name": f"GPU.{i}", "properties": {"use_tf32": "0"}} for i in range(2)]
    if any(device.planned for device in load_devices(table)):
        return
    graph = load_model(
        transformer(folder / "pipeline.onnx", layers=layers, width=1024, tokens=512, heads=16)
    )
    plan = partition(graph, table, policy="pipeline").placement
    print(
        f"Pipeline over two GPUs, {layers} layers: subgraphs of {[s.size for s in plan.subgraphs]} ops"
    )
    first = "requests in flight"
    rows = [{first: what} for what in ("two GPUs, requests/s", "one GPU, requests/s", "times")]
    for requests in counts:
        (result,) = Benchmark({"pipeline": plan}, seconds, "throughput", requests).run()
        one = max(b.throughput or 0 for b in result.baselines)
        print(
            f"  {requests} in flight: {result.throughput:.1f} requests/s, one GPU {one:.1f}: "
            f"{result.throughput / max(one, 1e-9):.2f} times; interval {result.throughput_interval}",
            flush=True,
        )
        interval = " to ".join(f"{each:.1f}" for each in result.throughput_interval or ())
        texts = (
            f"{result.throughput:.1f}" + (f" ({interval})" if interval else ""),
            f"{one:.1f}",
            f"{result.throughput / max(one, 1e-9):.2f}",
        )
        for row, text in zip(rows, texts, strict=True):
            row[str(requests)] = text
    record("gpu_two", rows)


def story(
    title: str,
    graph: Any,
    table: list[dict[str, Any]],
    policies: dict[str, dict[str, Any]],
    seconds: float,
) -> dict[str, str]:
    """Benchmarks plans side by side with each device alone, and prints the comparison: name to median of the first."""
    plans = {
        name: partition(graph, table, policy=name.split()[0], **settings)
        for name, settings in policies.items()
    }
    print(title)
    for name, plan in plans.items():
        for s in plan.subgraphs[:6]:
            print(
                f"  {name}: subgraph {s.id} on {s.device}: {s.size} ops, constants {s.memory.constants / 1e6:.0f} MB"
            )
        if len(plan.subgraphs) > 6:
            print(f"  {name}: {len(plan.subgraphs)} subgraphs in all")
    results = Benchmark({n: p.placement for n, p in plans.items()}, seconds).run()
    for result in results:
        t = result.total
        print(
            f"  {result.plan}: median {t.median * 1e3:.3f} ms, p90 {t.p90 * 1e3:.3f} ms, {result.runs} runs"
        )
        for transfer in sorted(result.transfers, key=lambda x: -x.time.median)[:4]:
            rate = transfer.bytes / transfer.time.median / 1e9 if transfer.time.median else 0
            print(
                f"    transfer {transfer.from_device} -> {transfer.to_device}: {transfer.bytes:,} bytes in "
                f"{transfer.time.median * 1e6:.0f} us ({rate:.1f} GB/s)"
            )
        for base in result.baselines:
            found = f"{base.time.median * 1e3:.3f} ms" if base.time else base.problem
            print(f"    unsplit on {base.device}: {found}")
        if result.difference:
            d = result.difference
            print(
                f"    largest difference to the unsplit model on {d.reference}: {d.max_relative:.3g} relative"
                f" ({'within tolerance' if d.within_tolerance else 'OUTSIDE TOLERANCE'})"
            )
    alone = {
        f"{b.device} alone": f"{b.time.median * 1e3:.2f} ms" if b.time else b.problem
        for b in results[0].baselines
    }
    return {"plan": title, "split": f"{results[0].total.median * 1e3:.2f} ms", **alone}


def exports(gpu: dict[str, Any], cpu: dict[str, Any], folder: Path) -> None:
    """Ops that an exported session puts elsewhere than the plan has them, each session in a process of its own."""
    print("Exported settings")
    rows = []
    for name in ("resnet50", "mobilenetv2"):
        path = MODELS / f"{name}.onnx"
        graph = load_model(path, dict.fromkeys(load_model(path).unbound, 1))
        count = len(graph.order)
        patterns = {
            "halves": [op < count // 2 for op in range(count)],
            "middle third on the CPU": [
                not count // 3 <= op < count * 2 // 3 for op in range(count)
            ],
            "runs of ten": [op // 10 % 2 == 0 for op in range(count)],
        }
        for title, on_gpu in patterns.items():
            place = {
                graph.op_keys[op]: gpu["name"] if on_gpu[i] else cpu["name"]
                for i, op in enumerate(graph.order.tolist())
            }
            for limit in (None, "4GiB"):
                plan = partition(
                    graph, [{**gpu, "memory": limit} if limit else gpu, cpu], pins=place
                )
                for assignment in ("annotations", "names"):
                    what = f"{name}, {title}, {assignment}{', budget of ' + limit if limit else ''}"
                    out = folder / f"{name}-{title.replace(' ', '-')}-{limit}-{assignment}"
                    rows.append({"session": what, "ops": placed(plan, out, assignment)})
                    print(f"  {what}: {rows[-1]['ops']}")
    record("gpu_exports", rows)


def placed(plan: Any, folder: Path, assignment: str) -> str:
    """What the exported script says of the placement."""
    try:
        script = next(
            p
            for p in plan.export("onnxruntime", folder, assignment=assignment)
            if p.suffix == ".py"
        )
    except EditorError as error:
        return f"not exported: {error}"
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import torch, runpy; runpy.run_path({str(script)!r}, run_name='__main__')"
            if find_spec("torch")
            else f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    told = [line for line in done.stdout.splitlines() if not line.startswith(" ")]
    return (
        "; ".join(told)
        if done.returncode in (0, 1) and told
        else f"failed ({done.returncode}): {done.stderr[-200:]}"
    )


def main() -> None:
    """Prints all parts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rehearse", action="store_true")
    parser.add_argument(
        "--in-flight", type=int, nargs="+", default=[1, 2, 4, 8], help="requests, for the pipeline"
    )
    parser.add_argument("--two", action="store_true", help="only the parts about two GPUs")
    options = parser.parse_args()
    provider = "CPUExecutionProvider" if options.rehearse else "CUDAExecutionProvider"
    if provider not in {d.provider for d in available_devices()}:
        sys.exit("CUDAExecutionProvider is not here; install onnxruntime-gpu and CUDA's libraries")
    gpu = {"name": "GPU", "backendName": "onnxruntime", "provider": provider}
    if not options.rehearse:
        gpu["properties"] = {"use_tf32": "0"}
    cpu = {"name": "CPU", "backendName": "onnxruntime", "provider": "CPUExecutionProvider"}
    for device in available_devices():
        print(f"{device.name}: {device.description} [{device.details}]")
    print(environment(0), f"{os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.two:
            two_gpus(folder)
            pipeline_over_two(folder, options.seconds, counts=options.in_flight)
            return
        boundaries(gpu, folder, options.seconds)
        light = (
            Path(onnx.__file__).parent
            / "backend"
            / "test"
            / "data"
            / "light"
            / "light_resnet50.onnx"
        )
        # ONNX Runtime's GPU provider keeps the unsplit model whole; the plan gives MaxPool to the CPU.
        rows = [
            story(
                "ResNet-50, MaxPool forbidden on the GPU",
                load_model(light),
                [{**gpu, "nonSupportedNodes": "MaxPool"}, cpu],
                {"priority": {}, "optimal": {}},
                options.seconds,
            )
        ]
        big = transformer(
            folder / "decoder.onnx",
            layers=2 if options.rehearse else 12,
            width=1536,
            tokens=64,
            heads=12,
        )
        graph = load_model(big)
        limit = "100MiB" if options.rehearse else "800MiB"
        rows.append(
            story(
                f"Decoder of {big.stat().st_size / 2**20:.0f} MiB, GPU limited to {limit}",
                graph,
                [{**gpu, "memory": limit}, cpu],
                {"memory": {}},
                options.seconds,
            )
        )
        record("gpu_plans", rows)
        exports(gpu, cpu, folder)
        if not options.rehearse:
            two_gpus(folder)
            pipeline_over_two(folder, options.seconds)
        print("`optimal` by a measured profile")
        rows = []
        for path in [*sorted(MODELS.glob("*.onnx")), light]:
            try:
                rows.append(compare(path, None, options.seconds, [gpu, cpu]))
                print("  " + rows[-1].pop("text"), flush=True)
            except EditorError as error:
                print(f"  {path.stem}: {error}")
        record("gpu_optimal", rows)


if __name__ == "__main__":
    main()
