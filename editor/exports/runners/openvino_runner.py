"""Compiles the model for OpenVINO with the affinities beside it. Made by @MADE_BY@.

    python THIS_FILE            # prints how many ops each device got
As a module: ``compiled = compile_model()``.
"""

import collections
import json
import pathlib
import sys

sys.modules["openvino_telemetry"] = None  # openvino then imports without telemetry
import openvino

HERE = pathlib.Path(__file__).resolve().parent
SIDECAR = HERE / "@STEM@.affinities.json"


def annotated():
    """The model with ``rt_info["affinity"]`` on every op, and its sidecar."""
    sidecar = json.loads(SIDECAR.read_text(encoding="utf-8"))
    model = openvino.Core().read_model(HERE / sidecar["model"])
    shapes = {
        name: shape
        for name, shape in sidecar["inputs"].items()
        if all(isinstance(d, int) for d in shape)
    }
    model.reshape(
        {port: shapes[name] for port in model.inputs for name in port.get_names() if name in shapes}
    )
    affinities, by_name = sidecar["affinities"], sidecar.get("by") == "name"
    ops = model.get_ordered_ops()
    known = {}
    for op in ops:
        names = [name for output in op.outputs() for name in output.get_names()]
        names = [op.get_friendly_name()] if by_name else names
        names = [name for name in names if name in affinities]
        if names:
            known[op.get_name()] = affinities[names[0]]
    for op in reversed(ops):  # ops that the import generated go with their first consumer
        if op.get_name() not in known:
            users = [
                known[i.get_node().get_name()]
                for o in op.outputs()
                for i in o.get_target_inputs()
                if i.get_node().get_name() in known
            ]
            if users:
                known[op.get_name()] = users[0]
    for op in ops:  # results, and values without a reader, go with their first producer
        if op.get_name() not in known:
            makers = [
                known[i.get_source_output().get_node().get_name()]
                for i in op.inputs()
                if i.get_source_output().get_node().get_name() in known
            ]
            known[op.get_name()] = (
                makers[0] if makers else sidecar["device"].partition(":")[2].split(",")[0]
            )
        op.get_rt_info()["affinity"] = known[op.get_name()]
    return model, sidecar


def compile_model(properties=None):
    """The compiled model; ``properties`` are those of ``Core.compile_model``."""
    model, sidecar = annotated()
    core = openvino.Core()
    for device, values in sidecar["properties"].items():
        core.set_property(device, values)
    return core.compile_model(model, sidecar["device"], dict(properties or {}))


if __name__ == "__main__":
    graph, document = annotated()
    counts = collections.Counter(
        op.get_rt_info()["affinity"].astype(str) for op in graph.get_ordered_ops()
    )
    print(document["device"], dict(counts))
    compile_model()
    print("compiled")
