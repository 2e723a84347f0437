"""Policy ``priority``: the first capable device, in the order of the table."""

from __future__ import annotations

import numpy as np

from editor.errors import EditorError
from editor.placement.policies.task import Assignment, Task


def priority(task: Task) -> Assignment:
    """First device in table order that may run the op.

    The rule of Glow's backend-based partition and of OpenVINO's HETERO. Option ``first`` names a device
    to try before the others.
    """
    names = [d.name for d in task.constraints.devices]
    first = task.options.get("first")
    if first is not None and first not in names:
        raise EditorError(f"policy option first: unknown device {first!r}; choose one of: {', '.join(names)}")
    order = sorted(range(len(names)), key=lambda d: names[d] != first)
    names = [names[d] for d in order]
    position = task.constraints.allowed[:, order].argmax(axis=1)
    device = np.array(order, np.int64)[position]

    def because(op: int) -> str:
        if position[op] == 0:
            return f"first device in the table ({' > '.join(names)})"
        return f"first device in the table that may run it, after {', '.join(names[:position[op]])}"
    return Assignment(device, because)
