"""A plan with a part in the middle on another device, for tests of what exports keep."""

from __future__ import annotations

from typing import Any

import editor
from editor.graph.graph import Graph
from editor.runtimes.base import Capability
from editor.workspace.plan import Plan

TWINS = [
    {"name": n, "backendName": "onnxruntime", "provider": "CPUExecutionProvider"} for n in "AB"
]


def painted(graph: Graph, table: Any, first: int = 20, last: int = 50) -> Plan:
    keys = [graph.op_keys[op] for op in graph.order if not graph.op_is_constant[op]]
    second = table[1]["name"]
    return editor.partition(
        graph,
        table,
        pins=dict.fromkeys(keys[first:last], second),
        capabilities=[Capability.everything(graph)] * len(table),
    )
