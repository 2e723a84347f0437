"""Subgraph counts and splitting time against the proven optimum and the real OpenVINO.

    python benchmarks/splitting.py [--graphs 200] [--ops 500 1000 2000]

1. `minimal` against the optimum that CP-SAT proves, on random DAGs of up to 16 ops with 2 and 3 devices.
2. Counts on 50 paintings of the bundled networks and a residual net, against OpenVINO's HETERO.
3. Splitting time and counts on residual nets with alternating affinities, OpenVINO's HETERO side by side in
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
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ortools.sat.python import cp_model

from benchmarks.record import record
from editor.execution.cut import Cutter
from editor.graph.graph import Graph
from editor.graph.loading import load_model
from editor.placement.choices import SUBGRAPH_RULES, grouping_of


def write(path: Path, predecessors: list[list[int]]) -> Path:
    """A model of Tanh and Add ops on 16 floats; ``predecessors[i]`` are the inputs of op i."""
    read = {p for ps in predecessors for p in ps}
    nodes = [
        helper.make_node(
            "Add" if len(ps) == 2 else "Tanh", [f"t{p}" for p in ps] or ["x"], [f"t{i}"], f"n{i}"
        )
        for i, ps in enumerate(predecessors)
    ]
    outputs = [
        helper.make_tensor_value_info(f"t{i}", TensorProto.FLOAT, [16])
        for i in range(len(nodes))
        if i not in read
    ]
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [16])], outputs
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path
    )
    return path


def random_dag(rng: np.random.Generator) -> list[list[int]]:
    """8 to 16 ops with up to two inputs each."""
    return [
        sorted(set(rng.integers(0, i, rng.integers(0, 3)).tolist())) if i else []
        for i in range(int(rng.integers(8, 17)))
    ]


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
    rows = []
    for devices in (2, 3):
        rng = np.random.default_rng(devices)
        exact, ours, best = 0, 0, 0
        for _ in range(graphs // 2):
            graph = load_model(write(folder / "dag.onnx", random_dag(rng)))
            device = rng.integers(0, devices, len(graph))
            found = int(grouping_of("minimal")(graph, device, np.arange(len(graph))).max()) + 1
            optimum = proven_optimum(graph, device)
            ours, best, exact = ours + found, best + optimum, exact + (found == optimum)
        print(
            f"minimal, {devices} devices: {exact}/{graphs // 2} random DAGs at the proven optimum, "
            f"sum {ours} / {best} = {ours / best:.4f}"
        )
        row = (devices, graphs // 2, exact, f"{ours / best:.3f}")
        columns = (
            "devices",
            "random DAGs of 8 to 16 ops",
            "at the proven optimum",
            "subgraphs / optimum, in sum",
        )
        rows.append(dict(zip(columns, map(str, row), strict=True)))
    record("splitting_optimum", rows)


def openvino_count(core: Any, graph: Graph, data: bytes, device: np.ndarray) -> int:
    """How many subgraphs OpenVINO makes of the same affinities: helper ops follow the op they belong to."""
    model = core.read_model(data)
    model.set_friendly_name("painted")
    owner: dict[str, int] = {}
    ordered = model.get_ordered_ops()
    for op in reversed(ordered):
        names = [n for o in op.outputs() for n in o.get_names() if n in graph.tensor_index]
        made = [int(graph.tensor_producer[graph.tensor_index[n]]) for n in names]
        readers = [
            owner[t.get_node().get_friendly_name()]
            for o in op.outputs()
            for t in o.get_target_inputs()
            if t.get_node().get_friendly_name() in owner
        ]
        real = [m for m in made if m >= 0]
        owner[op.get_friendly_name()] = max(real) if real else min(readers, default=0)
    for op in ordered:
        source = op.input_value(0).get_node() if op.get_type_name() == "Result" else op
        op.get_rt_info()["affinity"] = f"DEV{'XY'[int(device[owner[source.get_friendly_name()]])]}"
    try:
        core.compile_model(model, "HETERO:CPU")
    except RuntimeError:
        pass  # as meant: no such device, after the split
    return len(set(re.findall(r"subgraph=(\d+)", Path("hetero_subgraphs_painted.dot").read_text())))


def compare_paintings(folder: Path) -> None:
    """Part 2."""
    import openvino

    os.environ["OPENVINO_HETERO_VISUALIZE"] = "1"
    core, rng = openvino.Core(), np.random.default_rng(0)
    models = Path(__file__).resolve().parents[1] / "examples" / "models"
    nets = [
        (models / "mobilenetv2.onnx", {}),
        (models / "resnet50.onnx", {"batch": 1}),
        (models / "fcn-resnet101.onnx", {}),
        (models / "whisper-tiny-decoder.onnx", {"batch": 1, "sequence": 8}),
        (write(folder / "residual.onnx", residual(300)), {}),
    ]
    worse, sums = 0, {"OpenVINO": 0, **dict.fromkeys(SUBGRAPH_RULES, 0)}
    for path, define in nets:
        graph = load_model(path, define)
        placed = graph.order[~graph.op_is_constant[graph.order]]
        data = Cutter.open(graph).whole().model.SerializeToString()
        for run in (1, 1, 2, 3, 5, 5, 8, 13, 20, 40):
            device = np.zeros(len(graph), np.int64)
            device[placed] = np.repeat(rng.integers(0, 2, len(placed) // run + 1), run)[
                : len(placed)
            ]
            theirs = openvino_count(core, graph, data, device)
            sums["OpenVINO"] += theirs
            for name, rule in ((name, grouping_of(name)) for name in SUBGRAPH_RULES):
                found = int(rule(graph, device, placed).max()) + 1
                sums[name] += found
                worse += name == "minimal" and found > theirs
    print(
        f"50 paintings of 5 nets: {', '.join(f'{n} {c}' for n, c in sums.items())} subgraphs in all; "
        f"minimal above OpenVINO on {worse}",
        flush=True,
    )
    rows = [{"rule": n, "subgraphs of 50 paintings in all": f"{c:,}"} for n, c in sums.items()]
    record(
        "splitting_counts",
        [
            *rows,
            {
                "rule": "paintings on which `minimal` has more than OpenVINO",
                "subgraphs of 50 paintings in all": str(worse),
            },
        ],
    )


def compare_times(sizes: list[int], folder: Path) -> None:
    """Part 3."""
    import openvino

    os.environ.pop("OPENVINO_HETERO_VISUALIZE", None)
    core, rows = openvino.Core(), []
    for count in sizes:
        path = write(folder / "net.onnx", residual(count))
        graph = load_model(path)
        device = np.arange(count) % 2
        graph.successors, graph.predecessors, graph.edges  # noqa: B018  # built once per model, not per split
        ours = {}
        for name, rule in ((name, grouping_of(name)) for name in SUBGRAPH_RULES):
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
        text = ", ".join(
            f"{n} {c} subgraphs in {t * 1e3:.1f} ms ({theirs / t:.0f}x)"
            for n, (t, c) in ours.items()
        )
        print(
            f"residual net of {count} ops, alternating: OpenVINO {theirs * 1e3:.0f} ms; {text}",
            flush=True,
        )
        each = {
            f"`{n}`": f"{t * 1e3:.1f} ms ({theirs / t:.0f} times)" for n, (t, _) in ours.items()
        }
        rows.append({"ops": f"{count:,}", "OpenVINO HETERO": f"{theirs * 1e3:.0f} ms", **each})
    record("splitting_times", rows)


def main() -> None:
    """Runs all parts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--graphs", type=int, default=200)
    parser.add_argument("--ops", type=int, nargs="*", default=[500, 1000, 2000])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        compare_counts(options.graphs, Path(name))
        compare_paintings(Path(name))
        compare_times(options.ops, Path(name))


if __name__ == "__main__":
    main()
