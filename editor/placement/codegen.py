"""Who generates the code of a subgraph: the third level of an assignment, chosen once per subgraph.

Device and unit are decided op by op; entries of the table that differ only in their codegen are one
place with a choice of compilers, and a compiler pays off on whole subgraphs.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from editor.graph.graph import Ints
from editor.placement.costs import price
from editor.placement.policies.task import Assignment, Task
from editor.placement.subgraphs.grouping import Grouping
from editor.text import human_seconds


def choose_codegens(task: Task, grouping: Grouping, assignment: Assignment) -> Assignment:
    """Gives every subgraph of one device and unit to the codegen that runs all of its ops fastest.

    Subgraphs are formed with the codegens of a unit taken as one. Where no codegen may run every op of
    one (a pin, a rule or a capability stands against it), its ops keep what the policy chose.

    Returns:
        the assignment; the same one where no two entries share a device and a unit.
    """
    table, placed = task.table, task.placed
    places = [(d.device, d.unit) for d in table.devices]
    merged = np.array([places.index(p) for p in places], np.int64)
    if len(set(places)) == len(places) or not len(placed):
        return assignment
    costs = task.costs()
    part = grouping(table.graph, merged[assignment.device], placed)
    device, chosen = assignment.device.copy(), {}
    for number in range(int(part.max()) + 1):
        ops = np.flatnonzero(part == number)
        able = [d for d in np.flatnonzero(merged == merged[assignment.device[ops[0]]]).tolist()
                if table.allowed[ops, d].all()]
        if able:
            seconds = {d: float(costs.op[ops, d].sum() + costs.launch[d]) for d in able}
            device[ops] = min(able, key=lambda d: seconds[d])
            chosen[number] = seconds
    word = "estimated" if costs.estimated else "measured"

    def because(op: int) -> str:
        why, seconds = assignment.because(op), chosen.get(int(part[op]), {})
        if len(seconds) < 2:
            return why
        times = ", ".join(f"{human_seconds(s)} with {table.devices[d].codegen}" for d, s in seconds.items())
        return f"{table.devices[device[op]].codegen} is the fastest codegen of its subgraph: {times} ({word}); {why}"
    changed = replace(assignment, device=device, because=because)
    if assignment.objective is None or _same(device, assignment.device):
        return changed
    return replace(changed, objective=price(table.graph, costs, device, placed).total, bound=None,
                   objective_name="latency, codegen per subgraph")


def _same(first: Ints, second: Ints) -> bool:
    return bool(np.array_equal(first, second))
