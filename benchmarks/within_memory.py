"""Policy `memory` on devices that hold a part of a model: latency by estimates, against the bound and the time to solve.

    python benchmarks/within_memory.py MODEL [MODEL ...] [--pack DIR]

Two tables of planned devices for each model: an NPU with room for three tenths of the weights, which does not take some
ops, and a CPU; two GPUs with room for four tenths each, and a CPU. "Of the bound" is the latency divided by a bound that
knows no limits, so 1.00 need not be possible. Nothing runs: these are estimates.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import editor
from benchmarks.record import record
from editor.errors import EditorError
from editor.graph.graph import Graph
from editor.graph.proposed_sizes import proposed_sizes

LEAST_OPS, LEAST_BYTES = 200, 4e6
"""Smaller models fit anywhere."""


def main() -> None:
    """Prints a row for each model and table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", type=Path, nargs="*")
    parser.add_argument("--pack", type=Path, help="folder of the model pack")
    options = parser.parse_args()
    rows = []
    for path in [*options.models, *(sorted(options.pack.glob("*/*.onnx")) if options.pack else [])]:
        for graph, size in _large(path):
            for name, table in tables(size).items():
                rows.append(_row(f"{path.parent.name}/{path.stem}", graph, name, table))
                print("  ".join(rows[-1].values()), flush=True)
    record("within_memory", rows)


def tables(size: float) -> dict[str, list[dict[str, Any]]]:
    """Device tables by name, for ``size`` bytes of weights."""
    refused = "Softmax,LayerNormalization,Erf"
    return {
        "NPU, CPU": [
            {"name": "NPU", "memory": int(0.3 * size), "nonSupportedNodes": refused},
            {"name": "CPU"},
        ],
        "2 GPU, CPU": [
            *({"name": f"GPU.{i}", "memory": int(0.4 * size)} for i in range(2)),
            {"name": "CPU"},
        ],
    }


def _large(path: Path) -> Iterator[tuple[Graph, float]]:
    """The model and the bytes of its weights, where it opens and is large enough."""
    try:
        graph = editor.load_model(path)
        if graph.unbound:
            graph = editor.load_model(path, proposed_sizes(graph))
    except EditorError:
        return
    size = float(graph.tensor_bytes[graph.tensor_is_constant & (graph.tensor_bytes > 0)].sum())
    if len(graph) >= LEAST_OPS and size >= LEAST_BYTES:
        yield graph, size


def _row(model: str, graph: Graph, name: str, table: list[dict[str, Any]]) -> dict[str, str]:
    columns = ("model", "devices", "ops on each", "latency", "of the bound", "solved in")
    begin = perf_counter()
    try:
        placement = editor.partition(graph, table, policy="memory").placement
    except EditorError as error:
        return dict(
            zip(columns, (model, name, str(error).splitlines()[0], "", "", ""), strict=True)
        )
    took, found = perf_counter() - begin, placement.assignment
    counts = " + ".join(f"{n:,}" for n in placement.op_counts.values())
    value, bound = found.objective or 0.0, found.bound or 0.0
    share = f"{value / bound:.2f}" if bound else "no bound"
    texts = (model, name, counts, f"{value * 1e3:.3f} ms", share, f"{took:.2f} s")
    return dict(zip(columns, texts, strict=True))


if __name__ == "__main__":
    main()
