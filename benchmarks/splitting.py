"""Subgraph counts and splitting time against the proven optimum and the real OpenVINO.

    python benchmarks/splitting.py [--graphs 200] [--ops 500 1000 2000]

1. `minimal` against the optimum that CP-SAT proves, on random DAGs of up to 16 ops with 2 and 3 devices.
2. Splitting time and counts on residual nets with alternating affinities, OpenVINO's HETERO side by side in
   the same process. Its affinity names are no devices, so it stops after the split, before any compile.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ortools.sat.python import cp_model

from editor.graph.graph import Graph
from editor.graph.loading import load_model
from editor.partition.grouping import GROUPINGS


def write(path: Path, predecessors: list[list[int]]) -> Path:
    """A model of Tanh and Add ops on 16 floats; ``predecessors[i]`` are the inputs of op i."""
    read = {p for ps in predecessors for p in ps}
    nodes = [helper.make_node("Add" if len(ps) == 2 else "Tanh", [f"t{p}" for p in ps] or ["x"], [f"t{i}"], f"n{i}")
             for i, ps in enumerate(predecessors)]
    outputs = [helper.make_tensor_value_info(f"t{i}", TensorProto.FLOAT, [16]) for i in range(len(nodes)) if i not in read]
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [16])], outputs)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def random_dag(rng: np.random.Generator) -> list[list[int]]:
    """8 to 16 ops with up to two inputs each."""
    return [sorted(set(rng.integers(0, i, rng.integers(0, 3)).tolist())) if i else []
            for i in range(int(rng.integers(8, 17)))]


def residual(count: int) -> list[list[int]]:
    """Blocks of three ops in a row and an addition over a skip."""
    found: list[list[int]] = [[]]
    while len(found) < count:
        start = len(found) - 1
        found += [[start], [start + 1], [start + 2], [start, start + 3]]
    return found[:count]


def proven_optimum(graph: Graph, device: np.ndarray) -> int:
    """Fewest subgraphs, by CP-SAT: every op in one position of a sequence of one-device steps."""
    n, k = len(graph), int(device.max()) + 1
    model = cp_model.CpModel()
    place = [model.new_int_var(0, n - 1, f"p{i}") for i in range(n)]
    step = [model.new_int_var(0, k - 1, f"d{i}") for i in range(n)]
    for v in range(n):
        model.add_element(place[v], step, int(device[v]))
        for u in graph.predecessors[v].tolist():
            model.add(place[u] <= place[v])
    last = model.new_int_var(0, n - 1, "last")
    model.add_max_equality(last, place)
    model.minimize(last)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 2
    assert solver.solve(model) == cp_model.OPTIMAL
    return int(solver.objective_value) + 1


def compare_counts(graphs: int, folder: Path) -> None:
    """Part 1."""
    for devices in (2, 3):
        rng = np.random.default_rng(devices)
        exact, ours, best = 0, 0, 0
        for _ in range(graphs // 2):
            graph = load_model(write(folder / "dag.onnx", random_dag(rng)))
            device = rng.integers(0, devices, len(graph))
            found = int(GROUPINGS["minimal"](graph, device, np.arange(len(graph))).max()) + 1
            optimum = proven_optimum(graph, device)
            ours, best, exact = ours + found, best + optimum, exact + (found == optimum)
        print(f"minimal, {devices} devices: {exact}/{graphs // 2} random DAGs at the proven optimum, "
              f"sum {ours} / {best} = {ours / best:.4f}")


def compare_times(sizes: list[int], folder: Path) -> None:
    """Part 2."""
    import openvino

    core = openvino.Core()
    for count in sizes:
        path = write(folder / "net.onnx", residual(count))
        graph = load_model(path)
        device = np.arange(count) % 2
        graph.successors, graph.predecessors, graph.edges  # noqa: B018  # built once per model, not per split
        ours = {}
        for name, rule in GROUPINGS.items():
            start = time.perf_counter()
            part = rule(graph, device, np.arange(count))
            ours[name] = (time.perf_counter() - start, int(part.max()) + 1)
        model = core.read_model(path)
        for op in model.get_ordered_ops():
            found = re.search(r"[nt](\d+)", op.get_friendly_name())
            number = int(found[1]) if found else 0
            op.get_rt_info()["affinity"] = "DEVX" if device[number] == 0 else "DEVY"
        start = time.perf_counter()
        try:
            core.compile_model(model, "HETERO:CPU")
        except RuntimeError:
            pass  # as meant: no such device, after the split
        theirs = time.perf_counter() - start
        text = ", ".join(f"{n} {c} subgraphs in {t * 1e3:.1f} ms ({theirs / t:.0f}x)" for n, (t, c) in ours.items())
        print(f"residual net of {count} ops, alternating: OpenVINO {theirs * 1e3:.0f} ms; {text}", flush=True)


def main() -> None:
    """Runs both parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=200)
    parser.add_argument("--ops", type=int, nargs="*", default=[500, 1000, 2000])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        compare_counts(options.graphs, Path(name))
        compare_times(options.ops, Path(name))


if __name__ == "__main__":
    main()
