"""Annotations of the ONNX standard: model ``configuration`` and node ``device_configurations`` (IR version 11).

One configuration names the devices of the table; every op states its device as a sharding of its outputs
over that one device, and its subgraph as pipeline stage.
"""

from __future__ import annotations

from pathlib import Path

from editor.exports.model_copy import ONNX_RUNTIME_IR, open_copy, write_model
from editor.files import safe_stem
from editor.placement.placement import Placement

CONFIGURATION = "hetero-editor"
_FIRST_IR = 11


def write_multidevice(placement: Placement, out_dir: Path, stamp: str = "") -> list[Path]:
    """Writes ``<model>_devices.onnx``.

    ``onnx.checker`` is not asked: it refuses models that runtimes take, such as one whose output has no shape.
    """
    graph, stem = placement.graph, safe_stem(placement.graph.name)
    model = open_copy(graph)
    model.ir_version = min(max(model.ir_version, _FIRST_IR), ONNX_RUNTIME_IR)
    for old in [c for c in model.configuration if c.name == CONFIGURATION]:
        model.configuration.remove(old)
    model.configuration.add(name=CONFIGURATION, num_devices=len(placement.devices),
                            device=[d.name for d in placement.devices])
    device, subgraph_of_op = placement.device_of_op, placement.division.subgraph_of_op
    for op, node in enumerate(model.graph.node):
        for former in [c for c in node.device_configurations if c.configuration_id == CONFIGURATION]:
            node.device_configurations.remove(former)
        entry = node.device_configurations.add(configuration_id=CONFIGURATION)
        if subgraph_of_op[op] >= 0:
            entry.pipeline_stage = int(subgraph_of_op[op])
        for name in node.output:
            if name:
                entry.sharding_spec.add(tensor_name=name, device=[int(device[op])])
    return write_model(model, graph, out_dir / f"{stem}_devices.onnx", stamp)
