"""Finds what there is to say of the devices of a plan: what they make of NaN, where the model can make or test NaN."""

from __future__ import annotations

import numpy as np

from editor.graph.graph import Bools, Graph
from editor.placement.placement import Placement
from editor.text import pluralize

_MAKERS = frozenset(
    {"Acos", "Acosh", "Asin", "Atanh", "Div", "Log", "Mod", "Pow", "Reciprocal", "Sqrt"}
)
_TESTS = frozenset({"IsInf", "IsNaN"})


def remarks(placement: Placement) -> list[str]:
    """What devices make of NaN in ops that they have in the plan and that NaN can reach or that are tested for it."""
    graph = placement.graph
    found: dict[str, list[str]] = {}
    concerned = _meets_nan(graph)
    for op in placement.placed_ops.tolist():
        known = placement.constraints.capabilities[int(placement.device_of_op[op])].remarks
        if known and known[op] and concerned[op]:
            found.setdefault(known[op], []).append(graph.op_keys[op])
    return [
        f"{remark}, as ONNX Runtime does not ({pluralize(len(keys), 'op')}, the first is {keys[0]})"
        for remark, keys in found.items()
    ]


def _meets_nan(graph: Graph) -> Bools:
    """[op] whether an op before it can make NaN or infinity, or an op after it tests for them."""
    makes = np.array([kind in _MAKERS for kind in graph.op_types], bool) & ~graph.op_is_constant
    tests = np.array([kind in _TESTS for kind in graph.op_types], bool)
    for op in graph.order.tolist():
        makes[op] |= bool(makes[graph.predecessors[op]].any())
    for op in graph.order[::-1].tolist():
        tests[op] |= bool(tests[graph.successors[op]].any())
    met: Bools = makes | tests
    return met
