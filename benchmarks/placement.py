"""Placement quality on published workloads (Tarnawski et al., NeurIPS 2020, arXiv 2006.16423).

    python benchmarks/placement.py DIR --objective throughput|latency [--noncontiguous] --json OUT

Reads every workload ``*.json`` in DIR, solves it with the product's own solvers and prints the objective
(the file's unit, milliseconds) next to the value published or known, if the file is one of those.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.block_latency import best_blocks, block_latency
from benchmarks.block_search import better_blocks
from benchmarks.record import record
from editor.placement.policies.exact import best_chain, orders
from editor.placement.policies.neighbourhood import BUSIEST, improve
from editor.placement.policies.pipeline import busiest_bound
from editor.placement.policies.problem import Problem, Tensor, relaxed_bound

# (published dynamic program or optimum, best value known without contiguity)
THROUGHPUT = {
    "layer-bert24_inference": (17.790, 17.715),
    "layer-gnmt_inference": (32.911, 31.687),
    "layer-resnet50_inference": (33.775, 33.571),
    "op-bert_l-3_inference": (27.919, 21.908),
    "op-resnet50_inference": (124.349, 124.349),
}
# (published greedy, published max-load split, best known)
LATENCY = {
    "layer-bert24_inference": (100.22, 108.03, 100.22),
    "layer-gnmt_inference": (268.50, 244.33, 225.65),
    "layer-resnet50_inference": (4197.06, 1443.79, 1156.88),
    "op-bert_l-3_inference": (416.20, 414.44, 408.47),
}


@dataclass
class Workload:
    """A file as a problem; its nodes are groups of the file's nodes that must stay together."""

    problem: Problem
    members: list[list[int]]
    accelerators: int
    together: list[list[int]]
    """Nodes of the problem that share a device, where they are no group"""


def read(path: Path, contract: bool = True) -> Workload:
    """Accelerators come first, the pool of CPUs is the last device and pays no transfers.

    Args:
        path: of the file.
        contract: whether nodes that share a device become one, with what would lie on a circle with them.
    """
    data = json.loads(path.read_text())
    nodes = {n["id"]: n for n in data["nodes"]}
    k = int(data["maxFPGAs"])
    free = {i: {**node, "colorClass": None} for i, node in nodes.items()}
    group = _contract(nodes if contract else free, data["edges"])
    colours: dict[Any, list[int]] = {}
    for i, node in nodes.items():
        if node.get("colorClass") is not None and not contract:
            colours.setdefault(node["colorClass"], []).append(group[i])
    members: list[list[int]] = [[] for _ in range(max(group.values()) + 1)]
    for node, g in group.items():
        members[g].append(node)
    time_of = np.zeros((len(members), k + 1))
    allowed = np.ones((len(members), k + 1), bool)
    size = np.zeros(len(members))
    for g, ids in enumerate(members):
        for i in ids:
            time_of[g, :k] += nodes[i]["fpgaLatency"]
            time_of[g, k] += nodes[i]["cpuLatency"]
            allowed[g, :k] &= bool(nodes[i]["supportedOnFpga"])
            size[g] += nodes[i]["size"]
    allowed[:, k] = int(data["maxCPUs"]) > 0
    out: dict[int, tuple[float, set[int]]] = {}
    for e in data["edges"]:
        targets = out.setdefault(e["sourceId"], (float(e["cost"]), set()))[1]
        if group[e["destId"]] != group[e["sourceId"]]:
            targets.add(group[e["destId"]])
    tensors = tuple(
        Tensor(group[s], tuple(sorted(targets)), (cost,) * k + (0.0,), (cost,) * k + (0.0,))
        for s, (cost, targets) in out.items()
        if targets
    )
    capacity = np.array([float(data["maxSizePerFPGA"])] * k + [np.inf])
    return Workload(
        Problem.build(time_of, allowed, size, capacity, tensors),
        members,
        k,
        [members for members in colours.values() if len(members) > 1],
    )


def _contract(nodes: dict[int, Any], edges: list[dict[str, Any]]) -> dict[int, int]:
    """Groups nodes of one colour, and what would lie on a circle with them; numbers groups topologically."""
    root = {i: i for i in nodes}

    def find(i: int) -> int:
        while root[i] != i:
            root[i] = root[root[i]]
            i = root[i]
        return i

    colours: dict[Any, int] = {}
    for i, node in nodes.items():
        colour = node.get("colorClass")
        if colour is not None:
            root[find(i)] = find(colours.setdefault(colour, i))
    while True:
        after: dict[int, set[int]] = {find(i): set() for i in nodes}
        for e in edges:
            a, b = find(e["sourceId"]), find(e["destId"])
            if a != b:
                after[a].add(b)
        components = _strong_components(after)
        if all(len(c) == 1 for c in components):
            rank = {c[0]: r for r, c in enumerate(reversed(components))}
            return {i: rank[find(i)] for i in nodes}
        for component in components:
            for member in component[1:]:
                root[find(member)] = find(component[0])


def _strong_components(after: dict[int, set[int]]) -> list[list[int]]:
    """Tarjan's algorithm without recursion; components come in reverse topological order."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    found: list[list[int]] = []
    for start, first in after.items():
        if start in index:
            continue
        work = [(start, iter(sorted(first)))]
        index[start] = low[start] = len(index)
        stack.append(start)
        on_stack.add(start)
        while work:
            v, targets = work[-1]
            for t in targets:
                if t not in index:
                    index[t] = low[t] = len(index)
                    stack.append(t)
                    on_stack.add(t)
                    work.append((t, iter(sorted(after[t]))))
                    break
                if t in on_stack:
                    low[v] = min(low[v], index[t])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[v])
                if low[v] == index[v]:
                    component = []
                    while True:
                        w = stack.pop()
                        on_stack.discard(w)
                        component.append(w)
                        if w == v:
                            break
                    found.append(component)
    return found


def solve_throughput(
    workload: Workload, contiguous: bool, seconds: float
) -> tuple[float, float | None, Any]:
    """The busiest device: chains over several orders, then large neighbourhood search where contiguity is not asked for."""
    problem = workload.problem
    best, label = float("inf"), None
    for order in orders(problem, count=10):
        value, found = best_chain(problem, order)
        if value < best:
            best, label = value, found
    assert label is not None, "no contiguous placement fits"
    bound = max(busiest_bound(problem), relaxed_bound(problem, busiest=True))
    if not contiguous:
        found = improve(problem, label, BUSIEST, seconds, bound)
        label, bound = found.label, found.bound
    return float(problem.loads(label).max()), bound, label


def solve_latency(path: Path, seconds: float) -> tuple[float, float | None, Any, Workload]:
    """One sample's end: segments of several orders, priced exactly, then better ones by CP-SAT.

    What must share a device need not be one node: on the host its parts run as soon as they can, and what lies between
    them may be on an accelerator. The segments come from the smaller graph, in which it is one.
    """
    small, whole = read(path), read(path, contract=False)
    _, label = segments(small)
    device = {i: label[g] for g, ids in enumerate(small.members) for i in ids}
    start = np.array([device[ids[0]] for ids in whole.members])
    found, bound = better_blocks(whole.problem, start, whole.accelerators, seconds, whole.together)
    value = block_latency(whole.problem, found, whole.accelerators)
    return value, max(bound, _longest_path(whole.problem)), found, whole


def segments(workload: Workload) -> tuple[float, Any]:
    """The best segments of several orders, with host time weighted in several ways."""
    problem, host = workload.problem, workload.accelerators
    best, label = float("inf"), None
    for order in orders(problem, count=14):
        for weight in (1.0, 0.6, 0.3, 0.1):
            found = best_blocks(problem, order, host, weight)
            value = block_latency(problem, found, host)
            if value < best and problem.fits(found):
                best, label = value, found
    assert label is not None, "no placement fits"
    return best, label


def _longest_path(problem: Problem) -> float:
    """No placement beats the longest path with every node on its fastest device and all transfers free."""
    fastest = np.where(problem.allowed, problem.time, np.inf).min(axis=1)
    end = fastest.copy()
    after: list[set[int]] = [set() for _ in range(len(problem))]
    for t in problem.tensors:
        after[t.source].update(t.readers)
    for v in range(len(problem)):
        for t_node in after[v]:
            end[t_node] = max(end[t_node], end[v] + fastest[t_node])
    return float(end.max(initial=0.0))


def main() -> int:
    """Solves every file and prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--objective", choices=["throughput", "latency"], required=True)
    parser.add_argument("--noncontiguous", action="store_true")
    parser.add_argument(
        "--seconds",
        type=float,
        default=30,
        help="budget of the search without contiguity, and of that for latency",
    )
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    columns = ["published contiguous optimum, ms", "best known without contiguity, ms"]
    if options.objective == "latency":
        columns = ["published greedy, ms", "published max-load split, ms", "best known before, ms"]
    results, rows = {}, []
    for path in sorted(options.folder.glob("*.json")):
        start = time.perf_counter()
        if options.objective == "throughput":
            workload = read(path)
            value, bound, label = solve_throughput(
                workload, not options.noncontiguous, options.seconds
            )
        else:
            value, bound, label, workload = solve_latency(path, options.seconds)
        seconds = time.perf_counter() - start
        k = workload.accelerators
        assignment = {
            str(i): int(label[g]) if label[g] < k else "cpu0"
            for g, ids in enumerate(workload.members)
            for i in ids
        }
        results[path.name] = {
            "objective": value,
            "bound": bound,
            "seconds": seconds,
            "assignment": assignment,
        }
        known = (THROUGHPUT if options.objective == "throughput" else LATENCY).get(path.stem)
        print(
            f"{path.stem:<28} {value:>10.3f}  bound {bound:>9.3f}  {seconds:6.1f} s  "
            f"{'known ' + ' / '.join(f'{v:.3f} (x{value / v:.4f})' for v in known) if known else ''}",
            flush=True,
        )
        if known:
            proved = {} if bound is None else {"proved: none below, ms": f"{bound:.3f}"}
            values = {name: f"{v:.3f}" for name, v in zip(columns, known, strict=True)}
            taken = {"seconds to solve": f"{seconds:.1f}"}
            rows.append(
                {"workload": path.stem, "found, ms": f"{value:.3f}", **proved, **values, **taken}
            )
    if options.objective == "latency":
        record("placement_latency", rows)
    else:
        record("placement_free" if options.noncontiguous else "placement_contiguous", rows)
    if options.json:
        options.json.write_text(json.dumps(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
