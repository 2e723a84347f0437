"""Chooses the codegen (the third level of an assignment) once per subgraph.

Policies choose device and unit op by op. Entries of the device table that differ only in codegen are one
unit with a choice of compilers, and a compiler pays off on whole subgraphs.
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
    """Assigns every subgraph to the codegen of its device and unit that runs all of its ops fastest.

    Subgraphs are formed as if the codegens of a unit were one device. Where no codegen may run every op
    of a subgraph (a pin, a rule or a capability forbids it), the ops keep the choice of the policy.

    Returns:
        the changed assignment; the same object where no two entries share a device and a unit.
    """
    constraints, placed = task.constraints, task.placed
    units = [(d.device, d.unit) for d in constraints.devices]
    merged = np.array([units.index(u) for u in units], np.int64)
    if len(set(units)) == len(units) or not len(placed):
        return assignment
    costs = task.costs()
    subgraph_of_op = grouping(constraints.graph, merged[assignment.device], placed)
    device, chosen = assignment.device.copy(), {}
    for number in range(int(subgraph_of_op.max()) + 1):
        ops = np.flatnonzero(subgraph_of_op == number)
        usable = [
            d
            for d in np.flatnonzero(merged == merged[assignment.device[ops[0]]]).tolist()
            if constraints.allowed[ops, d].all()
        ]
        if usable:
            seconds = {d: float(costs.op[ops, d].sum() + costs.launch[d]) for d in usable}
            device[ops] = min(usable, key=lambda d: seconds[d])
            chosen[number] = seconds
    word = "estimated" if costs.estimated else "measured"

    def because(op: int) -> str:
        why, seconds = assignment.because(op), chosen.get(int(subgraph_of_op[op]), {})
        if len(seconds) < 2:
            return why
        times = ", ".join(
            f"{human_seconds(s)} with {constraints.devices[d].codegen}" for d, s in seconds.items()
        )
        return f"{constraints.devices[device[op]].codegen} is the fastest codegen of its subgraph: {times} ({word}); {why}"

    changed = replace(assignment, device=device, because=because)
    if assignment.objective is None or _same(device, assignment.device):
        return changed
    return replace(
        changed,
        objective=price(constraints.graph, costs, device, placed).total,
        bound=None,
        objective_name="latency, codegen per subgraph",
    )


def _same(first: Ints, second: Ints) -> bool:
    return bool(np.array_equal(first, second))
