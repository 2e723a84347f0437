"""Compiles the model for OpenVINO's NPU by the plan of groups beside it. Made by @MADE_BY@.

    python THIS_FILE [MODEL]         # checks the plan, and compiles
    NPUW_DEVICES=CPU python THIS_FILE   # on a machine without an NPU
As a module: ``compiled = compile_model()``.
"""

import json
import os
import pathlib
import sys
from xml.etree import ElementTree

sys.modules["openvino_telemetry"] = None  # openvino then imports without telemetry
import openvino

HERE = pathlib.Path(__file__).resolve().parent
SIDECAR = HERE / "@STEM@.npuw.json"


def problems(model, plan, properties):
    """What NPUW would accept without a word."""
    if not plan.is_file():
        return [f"there is no plan {plan}"]
    groups = ElementTree.parse(plan).getroot().findall("partitioning/group")  # nosec B314  # the plan beside this script
    named = {layer.get("name") for group in groups for layer in group.findall("layer")}
    layers = {
        op.get_friendly_name()
        for op in model.get_ordered_ops()
        if op.get_type_name() not in ("Parameter", "Constant", "Result")
    }
    numbers = {group.get("id") for group in groups}
    chosen = [pair for pair in properties.get("NPUW_SUBMODEL_DEVICE", "").split(",") if pair]
    found = [f"the plan lacks the layer {name!r}" for name in sorted(layers - named)[:5]]
    found += [f"the model has no layer {name!r}" for name in sorted(named - layers)[:5]]
    found += [
        f"NPUW_SUBMODEL_DEVICE={pair}: the plan has no group {pair.partition(':')[0]}"
        for pair in chosen
        if pair.partition(":")[0] not in numbers
    ]
    return found


def compile_model(model=None, properties=None):
    """The compiled model; raises ``SystemExit`` where the plan is not of the model."""
    sidecar = json.loads(SIDECAR.read_text(encoding="utf-8"))
    core, plan = openvino.Core(), HERE / sidecar["plan"]
    read = core.read_model(model or sidecar["model"])
    chosen = {**sidecar["properties"], "NPUW_PLAN": str(plan), **(properties or {})}
    if devices := os.environ.get("NPUW_DEVICES"):
        chosen["NPUW_DEVICES"] = devices
        chosen.pop("NPUW_SUBMODEL_DEVICE", None)
    if found := problems(read, plan, chosen):
        raise SystemExit("\n".join(f"error: {text}" for text in found))
    return core.compile_model(read, "NPU", chosen)


if __name__ == "__main__":
    print(compile_model(*sys.argv[1:2]))
