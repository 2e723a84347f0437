"""What plans take beside what they need: memory of real models, measured in a process of its own for each plan.

    python benchmarks/memory.py [--pack DIR] [--gpu] [--json F]

Prints constants and peak as worked out from the model, what was taken, and the ratio: for the model on each device (the other
one takes what that device cannot run) and for a plan of six stripes over both, a line for each memory. ``--gpu``: CUDA and
CPU of ONNX Runtime instead of two runtimes of the CPU.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

import editor  # noqa: E402
from editor.devices.table import load_devices  # noqa: E402
from editor.errors import EditorError  # noqa: E402
from editor.execution.measure.figures import MemoryUse  # noqa: E402
from editor.execution.measure.memory_use import measure_memory  # noqa: E402
from editor.runtimes.registry import capability  # noqa: E402

EXAMPLES = {"mobilenetv2": {}, "resnet50": {"batch": 1}, "whisper-tiny-decoder": {"batch": 1, "sequence": 64}}
TABLE = [{"name": "ORT", "backendName": "CPU"}, {"name": "OpenVINO", "backendName": "openvino"}]
GPU_TABLE = [{"name": "GPU", "backendName": "onnxruntime", "provider": "CUDAExecutionProvider"},
             {"name": "CPU", "backendName": "onnxruntime", "provider": "CPUExecutionProvider"}]
STRIPES = 6


def models(pack: Path | None) -> dict[Path, dict[str, int]]:
    """Path -> sizes of the inputs."""
    if pack is None:
        return {ROOT / "examples" / "models" / f"{name}.onnx": define for name, define in EXAMPLES.items()}
    manifest = json.loads((pack / "MANIFEST.json").read_text())
    entries = manifest["models"]
    return {pack / entry["file"]: entry.get("define", {}) for entry in entries if (pack / entry["file"]).is_file()}


def plans(graph: Any, table: list[dict[str, Any]]) -> dict[str, Any]:
    """Name -> plan."""
    placed = [op for op in graph.order.tolist() if not graph.op_is_constant[op]]
    stripe = np.arange(len(placed)) * STRIPES // max(len(placed), 1) % 2
    masks = [capability(graph, device).mask for device in load_devices(table)]
    pins = {graph.op_keys[op]: table[s]["name"] for op, s in zip(placed, stripe.tolist(), strict=True) if masks[s][op]}
    return {table[0]["name"]: editor.partition(graph, table), table[1]["name"]: editor.partition(graph, table[::-1]),
            f"{STRIPES} stripes": editor.partition(graph, table, pins=pins)}


def measured(graph: Any, table: list[dict[str, Any]]) -> Iterator[tuple[str, MemoryUse | str]]:
    """Name of the plan with each memory's figures, or with what went wrong."""
    try:
        found = plans(graph, table)
    except EditorError as error:
        yield "", str(error)
        return
    for name, plan in found.items():
        try:
            yield from ((name, use) for use in measure_memory(plan.recipe()))
        except EditorError as error:
            yield name, str(error)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pack", type=Path, help="folder of a model pack with its MANIFEST.json")
    parser.add_argument("--gpu", action="store_true", help="CUDA and CPU of ONNX Runtime")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    print(f"{'model':32} {'plan':10} {'memory':15} {'constants':>10} {'peak':>10} {'taken':>10}  taken / peak")
    for path, define in models(options.pack).items():
        try:
            graph = editor.load_model(path, define)
        except EditorError as error:
            print(f"{path.name:32} not read: {str(error).splitlines()[0]}")
            continue
        for name, use in measured(graph, GPU_TABLE if options.gpu else TABLE):
            if isinstance(use, str):
                print(f"{path.name:32} {name:10} {use.splitlines()[0][:80]}")
                continue
            rows.append({"model": path.name, "plan": name, "memory": use.where, "constants": use.constants,
                         "predicted": use.predicted, "compiled": use.compiled, "taken": use.peak, "kind": "measurement"})
            print(f"{path.name:32} {name:10} {use.where:15} {use.constants / 1e6:8.1f}MB {use.predicted / 1e6:8.1f}MB "
                  f"{use.peak / 1e6:8.1f}MB  {use.peak / max(use.predicted, 1):.2f}", flush=True)
    ratios = [row["taken"] / row["predicted"] for row in rows if row["predicted"]]
    if ratios:
        print(f"median {np.median(ratios):.2f}, least {min(ratios):.2f}, most {max(ratios):.2f} over {len(ratios)} plans")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
