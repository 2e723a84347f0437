"""Runs the model's subgraphs in this folder one after the other. Made by @MADE_BY@.

    python run.py --random                  # with random inputs; prints the outputs' names, types and shapes
    python run.py INPUTS.npz OUTPUTS.npz    # with yours: arrays under the names of the model's inputs
As a module: ``outputs = Split().run(inputs)`` with dicts of numpy arrays. Needs numpy and openvino only.
"""

import json
import pathlib
import sys

import numpy

sys.modules["openvino_telemetry"] = None  # openvino then imports without telemetry
import openvino
from shared import run_from_command_line

HERE = pathlib.Path(__file__).resolve().parent


class Split:
    """All subgraphs as requests, in order of execution."""

    def __init__(self, folder=HERE):
        self.folder = pathlib.Path(folder)
        self.manifest = json.loads((self.folder / "manifest.json").read_text(encoding="utf-8"))
        core = openvino.Core()
        kinds = {name.partition(".")[0] for name in core.available_devices}
        self.parts = []
        for step in self.manifest["subgraphs"]:
            target, properties = step["target"], step["properties"]
            if target.partition(".")[0] not in kinds:
                print(
                    f"note: OpenVINO has no {target} here; subgraph {step['id']} runs on the CPU",
                    file=sys.stderr,
                )
                target, properties = "CPU", {"INFERENCE_PRECISION_HINT": "f32"}
            model = core.read_model(self.folder / step["model"])
            request = core.compile_model(model, target, properties).create_infer_request()
            self.parts.append((step, request))

    def run(self, inputs):
        """Outputs of the model by name. Each run begins with the initial states, where the model has some."""
        missing = [name for name in self.manifest["inputs"] if name not in inputs]
        if missing:
            raise SystemExit(f"inputs are missing: {', '.join(map(repr, missing))}")
        values = {name: as_tensor(inputs[name]) for name in self.manifest["inputs"]}
        for step, request in self.parts:
            for port, name in zip(request.model_inputs, step["inputs"], strict=True):
                request.set_tensor(port, values[name])
            if request.query_state():
                request.reset_state()
            request.infer()
            for port, name in zip(request.model_outputs, step["outputs"], strict=True):
                values[name] = request.get_tensor(port)
        return {name: numpy.array(values[name].data) for name in self.manifest["outputs"]}


def as_tensor(value):
    """A tensor of the memory of an array, or of a copy where it is not contiguous."""
    return openvino.Tensor(numpy.array(value, order="C"))


if __name__ == "__main__":
    run_from_command_line(Split, __doc__)
