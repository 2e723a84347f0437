"""`optimal` with a profile against `priority` and every single device, on real runtimes.

    python benchmarks/tuning.py [MODEL...] [--seconds 6]

Profiles each model on ONNX Runtime and OpenVINO (32-bit), solves with measured costs, and benchmarks all
plans interleaved. Default: the bundled models.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from editor.devices.formats import load_devices
from editor.execution.benchmark import Benchmark
from editor.execution.profiler import profile_all
from editor.graph.loading import load_model
from editor.partition.partition import Settings, solve

TABLE = [{"name": "ORT", "backendName": "onnxruntime", "provider": "CPUExecutionProvider"},
         {"name": "OV", "backendName": "openvino", "provider": "CPU"}]


def main() -> None:
    """One line per model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    models = Path(__file__).resolve().parents[1] / "examples" / "models"
    parser.add_argument("models", type=Path, nargs="*", default=sorted(models.glob("*.onnx")))
    parser.add_argument("--seconds", type=float, default=6)
    options = parser.parse_args()
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp()
    devices = load_devices(TABLE)
    for path in options.models:
        graph = load_model(path)
        if graph.unbound:
            graph = load_model(path, dict.fromkeys(graph.unbound, 4))
        profile_all(graph, devices, 2.0)
        plans = {"optimal": solve(graph, devices, Settings("optimal", {"costs": "measured"})),
                 "priority": solve(graph, devices, Settings())}
        results = Benchmark(plans, options.seconds).run()
        best = results[0].total.median
        rivals = {"priority": results[1].total.median,
                  **{b.device: b.time.median for b in results[0].baselines if b.time is not None}}
        fastest = min(rivals, key=lambda name: rivals[name])
        counts = ", ".join(f"{n} on {d}" for d, n in plans["optimal"].op_counts.items() if n)
        print(f"{path.stem:<24} optimal {best * 1e3:8.2f} ms ({counts}); predicted {(results[0].predicted or 0) * 1e3:.2f}; "
              + ", ".join(f"{n} {v * 1e3:.2f}" for n, v in rivals.items())
              + f"; ratio to the fastest ({fastest}): {best / rivals[fastest]:.3f}", flush=True)


if __name__ == "__main__":
    main()
