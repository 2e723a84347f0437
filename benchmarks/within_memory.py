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
    print(
        f"{'model':34} {'devices':9} {'ops on each':>20} {'latency':>10} {'of the bound':>12} {'solved in':>10}"
    )
    for path in [*options.models, *(sorted(options.pack.glob("*/*.onnx")) if options.pack else [])]:
        for graph, size in _large(path):
            for name, table in tables(size).items():
                print(_row(f"{path.parent.name}/{path.stem}", graph, name, table), flush=True)


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


def _row(model: str, graph: Graph, name: str, table: list[dict[str, Any]]) -> str:
    begin = perf_counter()
    try:
        placement = editor.partition(graph, table, policy="memory").placement
    except EditorError as error:
        return f"{model:34} {name:9} {str(error).splitlines()[0]}"
    took, found = perf_counter() - begin, placement.assignment
    counts = " ".join(f"{n:,}" for n in placement.op_counts.values())
    value, bound = found.objective or 0.0, found.bound or 0.0
    return f"{model:34} {name:9} {counts:>20} {value * 1e3:7.3f} ms {value / bound if bound else 0:12.2f} {took:8.2f} s"


if __name__ == "__main__":
    main()
