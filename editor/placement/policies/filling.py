"""Fills devices whose memory is short: with whole regions of a placement that ignores it, or one device after the other.

A price per byte of weights (`memory`) cannot do this where a model repeats: all layers gain the same for each byte, so a price
that keeps one of them off a full device keeps off all. Which of them go where is a knapsack problem; taking the region with
the most gain per byte first is Dantzig's rule ("Discrete-variable extremum problems", 1957).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import combinations

import numpy as np

from editor.graph.graph import Bools, Ints
from editor.placement.policies.expansion import Expansion
from editor.placement.policies.problem import Floats, Problem

_MOST_REGIONS = 400
"""Whose gain is looked at; of more, those with the most work."""
_FEW = 5
"""Regions that use one tensor, of which each two are looked at together."""
_PARTS = 16
"""Numbers of nodes that a region is tried with, from either end, where it does not fit as a whole."""
_LEVELS = (0.1, 0.3, 0.5, 0.7, 0.85, 1.0)
"""Shares of the regions, those with the smallest tensors, that are looked at."""


def filled_by_regions(problem: Problem, ideal: Ints, tensors: Floats, fits: Callable[[Ints], bool],
                      per_cut: float = 0.0) -> Iterable[Ints]:
    """Yields placements that fit, with as many regions of an ideal one as have room and gain time.

    A region is a connected part of a full device. One that does not fit as a whole gives its first or last nodes.
    Weights of all regions add up, and of their tensors the largest counts: a placement is made for several largest ones.

    Args:
        problem: what to place.
        ideal: [node] device, if there were room.
        tensors: [node] bytes that it reads and writes.
        fits: whether there is room for the tensors, too.
        per_cut: extra seconds for every transfer.
    """
    full = problem.used(ideal) > problem.capacity
    elsewhere = problem.allowed & ~full
    if not full.any() or not elsewhere.any(axis=1).all():
        return
    objective = Expansion(problem, per_cut)
    start = np.where(elsewhere, problem.time, np.inf).argmin(axis=1).astype(np.int64)
    label = Expansion(replace(problem, allowed=elsewhere), per_cut).solve(start)
    if not problem.fits(label) or not fits(label):
        return
    regions = _regions(problem, ideal, full)
    choices = [*regions, *_pairs(problem, regions, ideal)]
    largest = np.array([tensors[nodes].max() for nodes in choices])
    for most in np.unique(np.quantile(largest, _LEVELS, method="inverted_cdf")).tolist():
        small = [nodes for nodes, size in zip(choices, largest, strict=True) if size <= most]
        filled = _with_best(problem, objective, label, ideal, small, fits)
        yield _with_best(problem, objective, filled, ideal, small, fits)


def _with_best(problem: Problem, objective: Expansion, label: Ints, ideal: Ints, choices: list[Ints],
               fits: Callable[[Ints], bool]) -> Ints:
    """The placement with those choices moved to where they would ideally be that gain most per byte, while there is room."""
    value, gains = objective.value(label), []
    for number, nodes in enumerate(choices):
        gain = value - objective.value(_moved(label, nodes, ideal))
        if gain > 0:
            gains.append((-gain / max(float(problem.size[nodes].sum()), 1.0), number))
    for _, number in sorted(gains):
        nodes = choices[number][label[choices[number]] != ideal[choices[number]]]
        if not len(nodes):
            continue
        left = (problem.capacity - problem.used(label))[ideal[nodes[0]]]
        tried = [_moved(label, part, ideal) for part in _parts(problem, nodes, left)]
        for reached, _, moved in sorted((objective.value(moved), i, moved) for i, moved in enumerate(tried)):
            if reached >= value:
                break
            if problem.fits(moved) and fits(moved):
                label, value = moved, reached
                break
    return label


def _parts(problem: Problem, nodes: Ints, left: float) -> list[Ints]:
    """A region as a whole where its weights have room; else its first nodes, or its last ones, more or fewer of them."""
    if problem.size[nodes].sum() <= left:
        return [nodes]
    parts = []
    for way in (nodes, nodes[::-1]):
        most = int((np.cumsum(problem.size[way]) <= left).sum())
        counts = np.unique(np.linspace(0, most, _PARTS + 1).astype(int))[1:]
        parts += [way[:count] for count in counts.tolist()]
    return parts


def filled_in_order(problem: Problem) -> Iterable[tuple[int, Ints]]:
    """Yields numbered placements that fill one device after the other, in table order and in reverse."""
    devices = problem.time.shape[1]
    for number, order in enumerate((list(range(devices)), list(range(devices))[::-1])):
        label, left = np.zeros(len(problem), np.int64), problem.capacity.copy()
        current = 0
        for node in range(len(problem)):
            usable = [d for d in order if problem.allowed[node, d] and problem.size[node] <= left[d]]
            if not usable:
                break
            later = [d for d in usable if order.index(d) >= current]
            chosen = later[0] if later else usable[0]
            if problem.size[node] > 0:
                current = max(current, order.index(chosen))
            label[node] = chosen
            left[chosen] -= problem.size[node]
        else:
            yield number, label


def _pairs(problem: Problem, regions: list[Ints], label: Ints) -> list[Ints]:
    """Unions of two regions of a device that use the same tensor: together they transfer it once."""
    region_of = np.full(len(problem), -1, np.int64)
    for number, nodes in enumerate(regions):
        region_of[nodes] = number
    using: dict[int, set[int]] = {}
    for tensor in range(len(problem.source)):
        using[tensor] = {int(region_of[n]) for n in (problem.source[tensor], *problem.readers[tensor])} - {-1}
    pairs = {pair for found in using.values() if len(found) < _FEW for pair in combinations(sorted(found), 2)}
    alike = [(a, b) for a, b in sorted(pairs) if label[regions[a][0]] == label[regions[b][0]]]
    return [np.sort(np.concatenate([regions[a], regions[b]])) for a, b in alike[:_MOST_REGIONS]]


def _moved(label: Ints, nodes: Ints, ideal: Ints) -> Ints:
    moved = label.copy()
    moved[nodes] = ideal[nodes]
    return moved


def _regions(problem: Problem, label: Ints, full: Bools) -> list[Ints]:
    """Connected nodes on each full device, in topological order; the largest where there are too many."""
    tensor = problem.readers.row_of_value
    source, reader = problem.source[tensor], problem.readers.values
    inside = (label[source] == label[reader]) & full[label[source]]
    parent = np.arange(len(problem))

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = int(parent[node])
        return node

    for one, other in zip(source[inside].tolist(), reader[inside].tolist(), strict=True):
        a, b = root(one), root(other)
        parent[max(a, b)] = min(a, b)
    members: dict[int, list[int]] = {}
    for node in np.flatnonzero(full[label]).tolist():
        members.setdefault(root(node), []).append(node)
    regions = [np.array(nodes, np.int64) for nodes in members.values()]
    work = [float(problem.time[nodes].max(axis=1).sum()) for nodes in regions]
    largest = sorted(range(len(regions)), key=lambda i: -work[i])[:_MOST_REGIONS]
    return [regions[i] for i in sorted(largest)]
