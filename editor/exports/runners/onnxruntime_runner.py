"""Opens the model in ONNX Runtime and prints where its ops really are. Made by @MADE_BY@.

    python THIS_FILE
As a module: ``session = open_session()``. Assignments are wishes: an op without a kernel on its device goes
elsewhere in silence, so look at what this prints. Exit status 1: some op is not where the plan has it.
"""

import collections
import json
import os
import pathlib
import sys

import onnx

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # before onnxruntime is imported
import onnxruntime
from shared import register

HERE = pathlib.Path(__file__).resolve().parent
DOCUMENT = json.loads((HERE / "@STEM@_session.json").read_text(encoding="utf-8"))


def open_session():
    """The session, with its assignment recorded."""
    options = onnxruntime.SessionOptions()
    register(options, DOCUMENT["custom_ops"])
    for key, value in DOCUMENT["session"].items():
        options.add_session_config_entry(key, value)
    for name, size in DOCUMENT["sizes"].items():  # the plan holds for these sizes of the inputs
        options.add_free_dimension_override_by_name(name, size)
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    here = [p for p in DOCUMENT["providers"] if p in onnxruntime.get_available_providers()]
    for missing in sorted(set(DOCUMENT["providers"]) - set(here)):
        print(
            f"note: {missing} is not in this build of ONNX Runtime; its ops fall back",
            file=sys.stderr,
        )
    return onnxruntime.InferenceSession(str(HERE / DOCUMENT["model"]), options, providers=here)


def report(session):
    """Prints the placement; returns how many ops are elsewhere."""
    model = onnx.load(HERE / DOCUMENT["model"], load_external_data=False)
    wanted = DOCUMENT.get("nodes") or {
        n.name: next(e.value for e in n.metadata_props if e.key == "layer_ann")
        for n in model.graph.node
    }
    actual = {
        node.name: part.ep_name
        for part in session.get_provider_graph_assignment_info()
        for node in part.get_nodes()
    }
    kind = {"cpu": "CPUExecutionProvider", "gpu": "CUDAExecutionProvider"}
    wrong, gone = [], []
    for name, mark in wanted.items():
        target = DOCUMENT["devices"][mark]["target"].partition(":")[0]
        if name not in actual:
            gone.append(name)
        elif mark in DOCUMENT["not_here"] or actual[name] != kind.get(target, target):
            wrong.append(f"{name!r}: {actual[name]} instead of {DOCUMENT['devices'][mark]['name']}")
    print(dict(collections.Counter(actual.values())))
    for note in DOCUMENT["notes"]:
        print(f"note: {note}", file=sys.stderr)
    print(f"{len(gone)} ops were removed by the optimiser", *map(repr, gone[:5]), sep="\n  ")
    print(f"{len(wrong)} ops are not on the device of the plan", *wrong[:20], sep="\n  ")
    return len(wrong)


if __name__ == "__main__":
    sys.exit(1 if report(open_session()) else 0)
