"""Predicted against measured latency: each model in six placements over two devices, after one profile.

    python benchmarks/prediction.py --pack DIR [MODEL...] [--seconds 12] [--json FILE]
    python benchmarks/prediction.py --gpu MODEL...      # CUDA and CPU of ONNX Runtime instead of two runtimes of the CPU

Placements: the model on the first device alone, in 2, 6 and 32 stripes along the execution order, in random blocks, and as
`optimal` places it. All placements of a model are measured interleaved. Prints per model the errors and the Spearman rank
correlation of its placements; then median and 95th percentile of all errors. "now" is the error where each device's share is
multiplied with what the unsplit model takes in the benchmark, relative to the profile: machines whose speed changes between
the two make the one error, costs that are wrong the other. DIR is the pack after its ``prepare()``. Each model has a process
of its own.
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

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from tuning import TABLE, load

from benchmarks.record import record
from editor.devices.device import Device
from editor.devices.table import load_devices
from editor.execution.measure.benchmark import Benchmark
from editor.execution.measure.prediction import costs_by_best_source, predicted_now
from editor.execution.measure.profile import profile_all
from editor.graph.graph import Graph
from editor.placement.placement import Placement, Settings, solve
from editor.runtimes.registry import capability

GPU_TABLE = [
    {"name": "GPU", "backendName": "onnxruntime", "provider": "CUDAExecutionProvider"},
    {"name": "ORT", "backendName": "onnxruntime", "provider": "CPUExecutionProvider"},
]
STRIPES = (2, 6, 32)
RANDOM_BLOCKS = 12


def placements(graph: Graph, devices: list[Device]) -> dict[str, Placement]:
    """The placements by name; a device keeps what it cannot pass on because the other one cannot run it."""
    position = np.arange(int((~graph.op_is_constant).sum()))
    result = {"one device": solve(graph, devices, Settings())}
    for n in STRIPES:
        result[f"{n} stripes"] = with_affinity(graph, devices, position * n // len(position) % 2)
    result["random blocks"] = random_blocks(graph, devices)
    result["optimal"] = solve(graph, devices, Settings("optimal", {"costs": "measured"}))
    return result


def random_blocks(graph: Graph, devices: list[Device], seed: int = 0) -> Placement:
    """Blocks of random length, each on a random one of two devices."""
    count, random = int((~graph.op_is_constant).sum()), np.random.default_rng(seed)
    cuts = np.sort(
        random.choice(np.arange(1, count), min(RANDOM_BLOCKS - 1, count - 1), replace=False)
    )
    return with_affinity(
        graph,
        devices,
        random.integers(0, 2, len(cuts) + 1)[np.searchsorted(cuts, np.arange(count), "right")],
    )


def with_affinity(graph: Graph, devices: list[Device], wanted: np.ndarray[Any, Any]) -> Placement:
    """[op in execution order] number of its device, where that can run it."""
    allowed = np.stack([capability(graph, d).mask for d in devices], axis=1)
    placed = graph.order[~graph.op_is_constant[graph.order]]
    pins = {
        graph.op_keys[op]: devices[d].name
        for op, d in zip(placed, wanted, strict=True)
        if allowed[op, d]
    }
    return solve(graph, devices, Settings(pins=pins))


def measure(
    path: Path, pack: Path | None, seconds: float, table: list[dict[str, Any]]
) -> dict[str, Any]:
    """Predicted and measured seconds of each placement of one model."""
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp()
    devices = load_devices(table)
    graph, inputs = load(path, pack)
    problems = [
        f"{n}: {p}" for n, p in profile_all(graph, devices, 3.0).items() if isinstance(p, str)
    ]
    placed = placements(graph, devices)
    results = Benchmark(placed, seconds, inputs=inputs).run()
    unsplit = {b.device: b.time.median for b in results[0].baselines if b.time}
    now = {
        name: predicted_now(p, costs_by_best_source(p)[0], unsplit) for name, p in placed.items()
    }
    rows = [
        {
            "placement": r.plan,
            "predicted": r.predicted,
            "basis": str(r.predicted_basis),
            "measured": r.total.median,
            "now": now[r.plan],
            "margin": r.total.margin,
            "subgraphs": len(r.subgraphs),
            "surprise": r.surprise,
            "in_subgraphs": sum(s.time.median for s in r.subgraphs),
            "in_transfers": sum(t.time.median for t in r.transfers),
        }
        for r in results
    ]
    return {
        "model": path.stem,
        "rows": rows,
        "problems": problems,
        "disturbances": list(results[0].disturbances),
        "whole": unsplit,
    }


def ranks(values: list[float]) -> np.ndarray[Any, Any]:
    """Mean ranks, so that equal values count as equal."""
    array = np.asarray(values)
    return np.array([(array < v).sum() + ((array == v).sum() - 1) / 2 for v in array])


def spearman(first: list[float], second: list[float]) -> float:
    """Rank correlation (Spearman, 1904)."""
    return float(np.corrcoef(ranks(first), ranks(second))[0, 1])


def told(result: dict[str, Any]) -> str:
    """One model, in lines."""
    lines = [
        f"{result['model']}: unsplit "
        + ", ".join(f"{n} {v * 1e3:.2f} ms" for n, v in result["whole"].items())
        + "".join(f"; {text}" for text in (*result["problems"], *result["disturbances"]))
    ]
    for row in result["rows"]:
        error = row["predicted"] / row["measured"] - 1
        current = f"now {(row['now'] / row['measured'] - 1) * 100:+6.1f} %  " if row["now"] else ""
        lines.append(
            f"  {row['placement']:<14} {row['subgraphs']:>3} subgraphs  predicted {row['predicted'] * 1e3:8.2f} ms  "
            f"measured {row['measured'] * 1e3:8.2f} ms ±{row['margin'] * 100:.1f} %  error {error * 100:+6.1f} %  "
            f"{current}{row['surprise']}"
        )
    rows = result["rows"]
    lines.append(
        f"  rank correlation {spearman([r['predicted'] for r in rows], [r['measured'] for r in rows]):.2f}"
    )
    return "\n".join(lines)


def summary(results: list[dict[str, Any]]) -> dict[str, str]:
    """All models: figure by name."""
    errors = np.abs([row["predicted"] / row["measured"] - 1 for r in results for row in r["rows"]])
    correlations = [
        spearman([x["predicted"] for x in r["rows"]], [x["measured"] for x in r["rows"]])
        for r in results
    ]
    splits = [row for r in results for row in r["rows"] if row["now"] and row["subgraphs"] > 1]
    now = np.abs([row["now"] / row["measured"] - 1 for row in splits] or [np.nan])
    return {
        "models": str(len(results)),
        "placements": str(len(errors)),
        "median error": f"{np.median(errors) * 100:.1f} %",
        "95th percentile": f"{np.percentile(errors, 95) * 100:.1f} %",
        "worst": f"{errors.max() * 100:.1f} %",
        "rank correlation, median": f"{np.median(correlations):.2f}",
        "least": f"{min(correlations):.2f}",
        "now: splits": str(len(splits)),
        "now: median": f"{np.median(now) * 100:.1f} %",
        "now: 95th percentile": f"{np.percentile(now, 95) * 100:.1f} %",
    }


def main() -> None:
    """Each model in a process of its own."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", type=Path, nargs="*")
    parser.add_argument("--pack", type=Path, help="folder of the model pack")
    parser.add_argument("--gpu", action="store_true", help="CUDA and CPU of ONNX Runtime")
    parser.add_argument(
        "--seconds", type=float, default=12, help="time for the placements of one model"
    )
    parser.add_argument(
        "--limit", type=float, default=400, help="seconds for one model, all in all"
    )
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        print(
            json.dumps(
                measure(
                    options.models[0],
                    options.pack,
                    options.seconds,
                    GPU_TABLE if options.gpu else TABLE,
                )
            )
        )
        return
    results = []
    for path in options.models or sorted((options.pack / "real").glob("*.onnx")):
        command = [
            sys.executable,
            __file__,
            str(path),
            "--here",
            "--seconds",
            str(options.seconds),
            *(["--pack", str(options.pack)] if options.pack else []),
            *(["--gpu"] if options.gpu else []),
        ]
        try:
            done = subprocess.run(
                command, check=False, capture_output=True, text=True, timeout=options.limit
            )
        except subprocess.TimeoutExpired:
            print(f"{path.stem}: not done in {options.limit:.0f} s", flush=True)
            continue
        if done.returncode:
            print(
                f"{path.stem}: failed: {(done.stderr.strip().splitlines() or ['?'])[-1][:300]}",
                flush=True,
            )
            continue
        results.append(json.loads(done.stdout.splitlines()[-1]))
        print(told(results[-1]), flush=True)
    if results:
        row = summary(results)
        print("; ".join(f"{name} {text}" for name, text in row.items()))
        record("prediction_gpu" if options.gpu else "prediction", [row])
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
