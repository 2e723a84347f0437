"""What plans take beside what they need: memory of real models, measured in a process of its own for each plan.

    python benchmarks/memory.py [--pack DIR] [--json F]

Prints constants and peak as worked out from the model, what the process took, and the ratio, for the whole model on each
runtime and for a plan of six stripes over both.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

import editor  # noqa: E402
from editor.errors import EditorError  # noqa: E402
from editor.execution.measure.memory_use import measure_memory  # noqa: E402

EXAMPLES = {"mobilenetv2": {}, "resnet50": {"batch": 1}, "whisper-tiny-decoder": {"batch": 1, "sequence": 64}}
TABLE = [{"name": "ORT", "backendName": "CPU"}, {"name": "OpenVINO", "backendName": "openvino"}]
STRIPES = 6


def models(pack: Path | None) -> dict[Path, dict[str, int]]:
    """Path -> sizes of the inputs."""
    if pack is None:
        return {ROOT / "examples" / "models" / f"{name}.onnx": define for name, define in EXAMPLES.items()}
    manifest = json.loads((pack / "MANIFEST.json").read_text())
    entries = manifest["models"]
    return {pack / entry["file"]: entry.get("define", {}) for entry in entries if (pack / entry["file"]).is_file()}


def plans(graph: Any) -> dict[str, Any]:
    """Name -> plan."""
    placed = [op for op in graph.order.tolist() if not graph.op_is_constant[op]]
    stripe = np.arange(len(placed)) * STRIPES // max(len(placed), 1)
    pins = {graph.op_keys[op]: TABLE[s % 2]["name"] for op, s in zip(placed, stripe.tolist(), strict=True)}
    return {"ORT": editor.partition(graph, TABLE[:1]), "OpenVINO": editor.partition(graph, TABLE[1:]),
            f"{STRIPES} stripes": editor.partition(graph, TABLE, pins=pins)}


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pack", type=Path, help="folder of a model pack with its MANIFEST.json")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    print(f"{'model':32} {'plan':10} {'constants':>10} {'peak':>10} {'taken':>10}  taken / peak")
    for path, define in models(options.pack).items():
        try:
            graph = editor.load_model(path, define)
        except EditorError as error:
            print(f"{path.name:32} not read: {str(error).splitlines()[0]}")
            continue
        for name in ("ORT", "OpenVINO", f"{STRIPES} stripes"):
            try:
                plan = plans(graph)[name]
                (use,) = measure_memory(plan.recipe())
            except EditorError as error:
                print(f"{path.name:32} {name:10} {str(error).splitlines()[0][:80]}")
                continue
            rows.append({"model": path.name, "plan": name, "constants": use.constants, "predicted": use.predicted,
                         "taken": use.peak, "kind": "measurement"})
            print(f"{path.name:32} {name:10} {use.constants / 1e6:8.1f}MB {use.predicted / 1e6:8.1f}MB {use.peak / 1e6:8.1f}MB"
                  f"  {use.peak / use.predicted:.2f}", flush=True)
    ratios = [row["taken"] / row["predicted"] for row in rows]
    if ratios:
        print(f"median {np.median(ratios):.2f}, least {min(ratios):.2f}, most {max(ratios):.2f} over {len(ratios)} plans")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
