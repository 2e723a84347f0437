"""What plans take beside what they need: memory of real models, measured in a process of its own for each plan.

    python benchmarks/memory.py [--pack DIR] [--gpu] [--json F]

Prints constants, what the plan needs, what its runtimes are estimated to take, what they took, and its ratio to the estimate:
for the model on each device (the other one takes what that device cannot run) and for a plan of six stripes over both, a line
for each memory. At the end, for each runtime, the ``MemoryOverhead`` that would fit these plans best. ``--gpu``: CUDA and CPU
of ONNX Runtime instead of two runtimes of the CPU.
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
from benchmarks.record import record  # noqa: E402
from editor.devices.table import load_devices  # noqa: E402
from editor.errors import EditorError  # noqa: E402
from editor.execution.measure.figures import MemoryUse  # noqa: E402
from editor.execution.measure.memory_use import measure_memory  # noqa: E402
from editor.placement.run_memory import RunMemory  # noqa: E402
from editor.runtimes.registry import capability  # noqa: E402

EXAMPLES = {
    "mobilenetv2": {},
    "resnet50": {"batch": 1},
    "whisper-tiny-decoder": {"batch": 1, "sequence": 64},
}
TABLE = [{"name": "ORT", "backendName": "CPU"}, {"name": "OpenVINO", "backendName": "openvino"}]
GPU_TABLE = [
    {"name": "GPU", "backendName": "onnxruntime", "provider": "CUDAExecutionProvider"},
    {"name": "CPU", "backendName": "onnxruntime", "provider": "CPUExecutionProvider"},
]
STRIPES = 6
LARGE = 1_000_000
"""Bytes of constants: what smaller models take is not the question."""
NEAR = 0.15
_SHOWN = {"needed": "needed", "estimate": "predicted", "taken": "taken"}
_TERMS = ("constants", "tensors", "ops", "subgraphs", "first")


def models(pack: Path | None) -> dict[Path, dict[str, int]]:
    """Path -> sizes of the inputs."""
    if pack is None:
        return {
            ROOT / "examples" / "models" / f"{name}.onnx": define
            for name, define in EXAMPLES.items()
        }
    manifest = json.loads((pack / "MANIFEST.json").read_text())
    entries = manifest["models"]
    return {
        pack / entry["file"]: entry.get("define", {})
        for entry in entries
        if (pack / entry["file"]).is_file()
    }


def plans(graph: Any, table: list[dict[str, Any]]) -> dict[str, Any]:
    """Name -> plan."""
    placed = [op for op in graph.order.tolist() if not graph.op_is_constant[op]]
    stripe = np.arange(len(placed)) * STRIPES // max(len(placed), 1) % 2
    masks = [capability(graph, device).mask for device in load_devices(table)]
    pins = {
        graph.op_keys[op]: table[s]["name"]
        for op, s in zip(placed, stripe.tolist(), strict=True)
        if masks[s][op]
    }
    return {
        table[0]["name"]: editor.partition(graph, table),
        table[1]["name"]: editor.partition(graph, table[::-1]),
        f"{STRIPES} stripes": editor.partition(graph, table, pins=pins),
    }


def measured(
    graph: Any, table: list[dict[str, Any]]
) -> Iterator[tuple[str, RunMemory | None, MemoryUse | str]]:
    """Name of the plan with what it needs and each memory's figures, or with what went wrong."""
    try:
        found = plans(graph, table)
    except EditorError as error:
        yield "", None, str(error)
        return
    for name, plan in found.items():
        try:
            yield from ((name, plan.run_memory, use) for use in measure_memory(plan.recipe()))
        except EditorError as error:
            yield name, None, str(error)


def fitted(rows: list[dict[str, Any]], device: str) -> str:
    """The overhead that fits best what plans took on one device alone, by least squares of the relative errors."""
    alone = [row for row in rows if row["devices"] == [device]]
    if len(alone) < len(_TERMS):
        return "too few plans"
    terms = np.array([[row[term] for term in _TERMS] for row in alone], float)
    taken = np.array([row["taken"] for row in alone], float)
    found, free = np.zeros(len(_TERMS)), np.ones(len(_TERMS), bool)
    while (
        free.any() and (found[free] <= 0).any()
    ):  # terms that came out negative go, until none does
        found[free] = np.linalg.lstsq(
            (terms / taken[:, None])[:, free], np.ones(len(taken)), rcond=None
        )[0]
        free &= found > 0
        found[~free] = 0
    off = np.abs(terms @ found / taken - 1)
    return (
        ", ".join(f"{value:.2f} x {term}" for term, value in zip(_TERMS, found, strict=True))
        + f"; off by {np.median(off):.0%} (median), {np.quantile(off, 0.9):.0%} (90th percentile) over {len(taken)} plans"
    )


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pack", type=Path, help="folder of a model pack with its MANIFEST.json")
    parser.add_argument("--gpu", action="store_true", help="CUDA and CPU of ONNX Runtime")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    table = GPU_TABLE if options.gpu else TABLE
    print(
        f"{'model':32} {'plan':10} {'memory':15} {'constants':>10} {'needed':>10} {'estimate':>10} {'taken':>10}  "
        "taken / estimate"
    )
    for path, define in models(options.pack).items():
        try:
            graph = editor.load_model(path, define)
        except EditorError as error:
            print(f"{path.name:32} not read: {str(error).splitlines()[0]}")
            continue
        if np.maximum(graph.tensor_bytes[graph.tensor_is_constant], 0).sum() < LARGE:
            continue
        for name, memory, use in measured(graph, table):
            if isinstance(use, str) or memory is None:
                print(f"{path.name:32} {name:10} {str(use).splitlines()[0][:80]}")
                continue
            mine = [d for d in memory.devices if d.device in use.devices]
            rows.append(
                {
                    "model": path.name,
                    "plan": name,
                    "memory": use.where,
                    "devices": list(use.devices),
                    "constants": use.constants,
                    "needed": use.needed,
                    "predicted": use.predicted,
                    "compiled": use.compiled,
                    "taken": use.peak,
                    "kind": "measurement",
                    "tensors": use.needed - use.constants,
                    "ops": sum(d.ops for d in mine),
                    "subgraphs": sum(d.subgraphs for d in mine),
                    "first": 1,
                }
            )
            print(
                f"{path.name:32} {name:10} {use.where:15} {use.constants / 1e6:8.1f}MB {use.needed / 1e6:8.1f}MB "
                f"{use.predicted / 1e6:8.1f}MB {use.peak / 1e6:8.1f}MB  {use.peak / max(use.predicted, 1):.2f}",
                flush=True,
            )
    large = [row for row in rows if row["constants"] >= LARGE]
    for what in ("needed", "predicted"):
        ratios = np.array([row["taken"] / row[what] for row in large])
        if len(ratios):
            near = float((np.abs(1 / ratios - 1) <= NEAR).mean())
            print(
                f"taken / {what}: median {np.median(ratios):.2f}, {ratios.min():.2f} to {ratios.max():.2f}; "
                f"{near:.0%} of {len(ratios)} plans with {LARGE / 1e6:.0f} MB of constants or more are within {NEAR:.0%}"
            )
    shown = [
        {
            "model": row["model"].removesuffix(".onnx"),
            "plan": row["plan"],
            "memory": row["memory"],
            **{n: f"{row[key] / 1e6:.1f} MB" for n, key in _SHOWN.items()},
            "taken / estimate": f"{row['taken'] / max(row['predicted'], 1):.2f}",
        }
        for row in large
    ]
    record("memory_gpu" if options.gpu else "memory", shown)
    for entry in table:
        print(f"{entry['name']}: {fitted(large, entry['name'])}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
