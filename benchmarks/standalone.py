"""The unsplit model in our benchmark, beside five other contenders, against OpenVINO's benchmark_app and a plain session alone.

    python benchmarks/standalone.py [MODEL...] [--seconds 4] [--rounds 3]

Whoever reads our figures compares them with those tools. They take turns: benchmark_app (one request, synchronous), a process
with one ONNX Runtime session in a loop, and our benchmark of six plans (stripes over both runtimes) with the unsplit model on
each. Medians of milliseconds, and ours relative to the tool's. Default: the bundled models with static sizes bound to 1.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from prediction import with_affinity
from tuning import TABLE

from benchmarks.record import record
from editor.devices.table import load_devices
from editor.execution.measure.benchmark import Benchmark
from editor.graph.loading import load_model

ROOT = Path(__file__).resolve().parents[1]
MODELS = ("mobilenetv2", "resnet50")
STRIPES = (2, 3, 4, 6, 12)
SESSION = """
import sys, time, statistics, numpy as np, onnxruntime as ort
session = ort.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
feeds = {i.name: np.random.default_rng(0).random([d if isinstance(d, int) else 1 for d in i.shape], np.float32)
         for i in session.get_inputs()}
times, end = [], time.perf_counter() + float(sys.argv[2])
while time.perf_counter() < end:
    start = time.perf_counter(); session.run(None, feeds); times.append(time.perf_counter() - start)
print(statistics.median(times[len(times) // 5:]) * 1e3)
"""


def fixed(path: Path, folder: Path) -> Path:
    """The model with every symbolic size 1, as both tools take it."""
    model = onnx.load(path)
    for value in (*model.graph.input, *model.graph.output):
        for size in value.type.tensor_type.shape.dim:
            if size.dim_param:
                size.dim_value = 1
    onnx.save(model, folder / path.name)
    return folder / path.name


def benchmark_app(path: Path, seconds: float) -> float:
    """Median milliseconds of one synchronous request in 32-bit."""
    tool = Path(sys.executable).with_name("benchmark_app")
    done = subprocess.run(
        [
            str(tool),
            "-m",
            str(path),
            "-d",
            "CPU",
            "-hint",
            "latency",
            "-api",
            "sync",
            "-t",
            str(int(seconds)),
            "-infer_precision",
            "f32",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    found = re.search(r"Median:\s+([\d.]+) ms", done.stdout)
    assert found, done.stdout[-500:]
    return float(found[1])


def plain_session(path: Path, seconds: float) -> float:
    """Median milliseconds of a session with default options."""
    done = subprocess.run(
        [sys.executable, "-c", SESSION, str(path), str(seconds)],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


def ours(path: Path, seconds: float) -> dict[str, float]:
    """Device -> median milliseconds of the unsplit model, measured beside plans of stripes."""
    graph, devices = load_model(path), load_devices(TABLE)
    position = np.arange(int((~graph.op_is_constant).sum()))
    plans = {
        str(n): with_affinity(graph, devices, position * n // len(position) % 2) for n in STRIPES
    }
    results = Benchmark(plans, seconds * 3).run()
    return {b.device: b.time.median * 1e3 for b in results[0].baselines if b.time}


def main() -> None:
    """Prints a line per model and runtime."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "models",
        type=Path,
        nargs="*",
        default=[ROOT / "examples" / "models" / f"{m}.onnx" for m in MODELS],
    )
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    recorded = []
    with tempfile.TemporaryDirectory() as name:
        os.environ["XDG_CACHE_HOME"] = name
        for given in options.models:
            path = fixed(given, Path(name))
            rows = []
            for _ in range(options.rounds):
                mine = ours(path, options.seconds)
                alone = benchmark_app(path, options.seconds), plain_session(path, options.seconds)
                rows.append((alone[0], mine["OV"], alone[1], mine["ORT"]))
            app, ov, session, ort = (
                statistics.median(column) for column in zip(*rows, strict=True)
            )
            print(
                f"{given.stem}: benchmark_app {app:.2f}, ours {ov:.2f} ({ov / app:.2f}); "
                f"plain session {session:.2f}, ours {ort:.2f} ({ort / session:.2f})",
                flush=True,
            )
            recorded.append(
                {
                    "model": given.stem,
                    "`benchmark_app`": f"{app:.2f} ms",
                    "ours on OpenVINO": f"{ov:.2f} ms ({ov / app:.2f} times)",
                    "a plain session of ONNX Runtime": f"{session:.2f} ms",
                    "ours on ONNX Runtime": f"{ort:.2f} ms ({ort / session:.2f} times)",
                }
            )
    record("standalone", recorded)


if __name__ == "__main__":
    main()
