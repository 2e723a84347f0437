"""One sample's latency when each accelerator runs its part as one block, and host ops run as soon as they can.

The model of Tarnawski et al., "Efficient Algorithms for Device Placement of DNN Graph Operators" (2020),
section on latency: a block starts when all its outside inputs are there, then takes its transfers in, its
ops and its transfers out; host ops run in parallel without limit.
"""

from __future__ import annotations

import numpy as np

from editor.graph.graph import Ints
from editor.placement.policies.exact import segment_costs
from editor.placement.policies.problem import Floats, Problem


def block_latency(problem: Problem, label: Ints, host: int) -> float:
    """Seconds until the last op ends; infinite when the blocks wait for each other in a circle.

    Args:
        problem: nodes in a topological order.
        label: [node] device.
        host: the device whose ops run one by one.
    """
    n, of = len(problem), label.tolist()
    unit = [v if of[v] == host else n + of[v] for v in range(n)]
    units = n + problem.time.shape[1]
    duration = [0.0] * units
    for v in range(n):
        duration[unit[v]] += float(problem.time[v, of[v]])
    after: list[set[int]] = [set() for _ in range(units)]
    for t in problem.tensors:
        home = of[t.source]
        away = {of[r] for r in t.readers if unit[r] != unit[t.source]}
        for r in t.readers:
            if unit[r] != unit[t.source]:
                after[unit[t.source]].add(unit[r])
        if home != host and away:
            duration[unit[t.source]] += t.leave[home]
        for device in away - {home, host}:
            duration[n + device] += t.enter[device]
    waiting = [0] * units
    for targets in after:
        for t_unit in targets:
            waiting[t_unit] += 1
    used = set(unit)
    queue = [u for u in used if not waiting[u]]
    ready = [0.0] * units
    done, latest = 0, 0.0
    for u in queue:  # grows while it is walked
        done += 1
        end = ready[u] + duration[u]
        latest = max(latest, end)
        for t_unit in after[u]:
            ready[t_unit] = max(ready[t_unit], end)
            waiting[t_unit] -= 1
            if not waiting[t_unit]:
                queue.append(t_unit)
    return latest if done == len(used) else float("inf")


def best_blocks(problem: Problem, order: Ints, host: int, weight: float = 1.0) -> Ints:
    """Cuts an order into host stretches and at most one segment per accelerator, of least summed time.

    Args:
        problem: what to place.
        order: a topological order.
        host: the device that may hold any number of stretches.
        weight: of host time in the sum: below 1 where host ops overlap.
    """
    n, devices = len(order), problem.time.shape[1]
    accelerators = [d for d in range(devices) if d != host]
    costs = [segment_costs(problem, order, d) for d in accelerators[:1]]
    same = all(
        np.array_equal(problem.time[:, d], problem.time[:, accelerators[0]]) for d in accelerators
    )
    if not same:
        costs = [segment_costs(problem, order, d) for d in accelerators]
    on_host = np.where(problem.allowed[order, host], problem.time[order, host] * weight, np.inf)
    value = np.full((len(accelerators) + 1, n + 1), np.inf)
    begin = np.full((len(accelerators) + 1, n + 1), -1, np.int64)
    value[0, 0] = 0.0
    for used in range(len(accelerators) + 1):
        reach: Floats = np.full(n + 1, np.inf)
        if used:
            table = value[used - 1][:, None] + costs[0 if same else used - 1]
            begin[used] = table.argmin(axis=0)
            reach = table[begin[used], np.arange(n + 1)]
        for end in range(n + 1):
            stretched = value[used, end - 1] + on_host[end - 1] if end else value[used, 0]
            if stretched <= reach[end]:
                value[used, end] = stretched
                begin[used, end] = -1
            else:
                value[used, end] = reach[end]
    label = np.full(n, host, np.int64)
    used, end = int(value[:, n].argmin()), n
    while end > 0:
        if begin[used, end] < 0 or used == 0:
            end -= 1
            continue
        start = int(begin[used, end])
        label[order[start:end]] = accelerators[used - 1]
        used, end = used - 1, start
    return label
