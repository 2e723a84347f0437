"""Overlays for Model Explorer: device, time and reason of each op as its node data.

The form is ``GraphNodeData`` of `src/server/package/src/model_explorer/node_data_builder.py` (c0f8dba), whose values may be
texts, too (`src/ui/src/components/visualizer/common/types.ts`). A file without the id of a graph is for the one that is open.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from editor.exports.dot import device_colour
from editor.exports.kept_off import unique_names
from editor.files import json_text, safe_stem, write_atomic
from editor.placement.chosen_costs import costs_of_plan
from editor.placement.placement import Placement

_GRADIENT = [{"stop": 0, "bgColor": "#ffffff"}, {"stop": 1, "bgColor": "#d64550"}]


def write_model_explorer(placement: Placement, out_dir: Path, stamp: str = "") -> list[Path]:
    """Writes ``<model>_device.json``, ``<model>_time.json`` and ``<model>_reason.json``."""
    graph, stem = placement.graph, safe_stem(placement.graph.name)
    costs, basis = costs_of_plan(placement)
    # A node is found in TensorFlow Lite by a tensor that it makes, in ONNX by its name.
    nodes = graph.op_keys if graph.source == "tflite" else unique_names(graph)
    device = placement.assignment.device
    placed = [op for op in graph.order.tolist() if placement.division.subgraph_of_op[op] >= 0]
    colour = {op: device_colour(int(device[op])) for op in placed}
    devices = {
        nodes[op]: {"value": placement.devices[device[op]].name, "bgColor": colour[op]}
        for op in placed
    }
    times = {nodes[op]: {"value": float(costs.op[op, device[op]]) * 1e3} for op in placed}
    reasons = {
        nodes[op]: {"value": placement.why(graph.op_keys[op]).because, "bgColor": colour[op]}
        for op in placed
    }
    made = f", {stamp}" if stamp else ""
    data: dict[str, dict[str, Any]] = {
        "device": {"name": f"device{made}", "results": devices},
        "time": {
            "name": f"milliseconds ({basis.kind}){made}",
            "results": times,
            "gradient": _GRADIENT,
        },
        "reason": {"name": f"reason{made}", "results": reasons},
    }
    return [
        write_atomic(out_dir / f"{stem}_{what}.json", json_text(content))
        for what, content in data.items()
    ]
