"""Runs the model's subgraphs in this folder one after the other. Made by @MADE_BY@.

    python run.py --random                  # with random inputs; prints the outputs' names, types and shapes
    python run.py INPUTS.npz OUTPUTS.npz    # with yours: arrays under the names of the model's inputs
As a module: ``outputs = Split().run(inputs)`` with dicts of numpy arrays. Needs numpy and onnxruntime, and openvino for
subgraphs on its devices; where that is missing, ONNX Runtime runs them on the CPU.
"""

import json
import os
import pathlib
import sys

import numpy

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # before onnxruntime is imported
import onnxruntime
from shared import register, run_from_command_line

HERE = pathlib.Path(__file__).resolve().parent


def openvino_core():
    """OpenVINO, or None where it is not installed."""
    sys.modules["openvino_telemetry"] = None  # openvino then imports without telemetry
    try:
        import openvino
    except ImportError:
        return None
    return openvino.Core()


class Split:
    """All subgraphs as sessions and requests, in order of execution."""

    def __init__(self, folder=HERE, threads=0):
        self.folder = pathlib.Path(folder)
        self.manifest = json.loads((self.folder / "manifest.json").read_text(encoding="utf-8"))
        for note in self.manifest["notes"]:
            print(f"note: {note}", file=sys.stderr)
        here = onnxruntime.get_available_providers()
        options = onnxruntime.SessionOptions()
        register(options, self.manifest["custom_ops"])
        options.intra_op_num_threads = threads
        # Threads may spin during a run, but not after it against those of the next session.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        steps = self.manifest["subgraphs"]
        core = openvino_core() if any("openvino" in step for step in steps) else None
        known = core.available_devices if core else []
        self.parts = []
        for step in steps:
            if "openvino" in step:
                try:
                    self.parts.append(OpenVinoPart(core, self.folder / step["model"], step, known))
                    continue
                except RuntimeError as error:
                    print(
                        f"note: {' '.join(str(error).split())[:400]}; ONNX Runtime runs subgraph {step['id']} on the CPU",
                        file=sys.stderr,
                    )
            options_of = {"device_id": str(step["device_id"])} if "device_id" in step else {}
            wanted = [(step["provider"], options_of)]
            if step["provider"] != "CPUExecutionProvider":
                wanted.append(("CPUExecutionProvider", {}))
            if step["provider"] not in here:
                print(
                    f"note: {step['provider']} is not here; subgraph {step['id']} runs on the CPU",
                    file=sys.stderr,
                )
            providers = [(name, chosen) for name, chosen in wanted if name in here]
            session = onnxruntime.InferenceSession(
                str(self.folder / step["model"]), options, providers=providers
            )
            self.parts.append(Part(session, step))

    def run(self, inputs):
        """Outputs of the model by name."""
        missing = [name for name in self.manifest["inputs"] if name not in inputs]
        if missing:
            raise SystemExit(f"inputs are missing: {', '.join(map(repr, missing))}")
        values = dict(inputs)
        for part in self.parts:
            values.update(part.run(values))
        return {name: owned(values[name]) for name in self.manifest["outputs"]}


class OpenVinoPart:
    """One request of OpenVINO. Its outputs keep their memory from run to run."""

    def __init__(self, core, model, step, known):
        """Raises RuntimeError where OpenVINO is not here, lacks the device or refuses the model."""
        target, properties = step["openvino"]["target"], step["openvino"]["properties"]
        if target not in known:
            raise RuntimeError(f"OpenVINO with a device {target} is not here")
        try:
            compiled = core.compile_model(core.read_model(str(model)), target, properties)
        except RuntimeError:  # a body that uses values from around it is read from memory only
            compiled = core.compile_model(core.read_model(model.read_bytes()), target, properties)
        self.request, self.outputs = compiled.create_infer_request(), step["outputs"]
        self.ports = {
            name: next((port for port in compiled.inputs if name in port.get_names()), None)
            for name in step["inputs"]
        }

    def run(self, values):
        """Outputs by name."""
        import openvino

        self.held = []  # an output that computes nothing is a view of an input, so these stay as long
        for name, port in self.ports.items():
            if port is not None:
                array = numpy.require(as_numpy(values[name]), None, "CW")
                array = array.view(array.dtype.str)  # numpy has two kinds of int64, OpenVINO one
                self.held.append((port, openvino.Tensor(array, True)))
        for port, tensor in self.held:
            self.request.set_tensor(port, tensor)
        self.request.infer()
        results = [self.request.get_output_tensor(i).data for i in range(len(self.outputs))]
        return zip(self.outputs, results, strict=False)


class Part:
    """One session. On the CPU its outputs keep their memory from run to run, where the next session finds them in the cache."""

    def __init__(self, session, step):
        self.session, self.inputs, self.outputs = session, step["inputs"], step["outputs"]
        numbers = all(
            value.type.startswith("tensor(") and value.type != "tensor(string)"
            for value in (*session.get_inputs(), *session.get_outputs())
        )
        self.binding = (
            session.io_binding() if numbers and step["provider"] == "CPUExecutionProvider" else None
        )
        self.bound, self.kept = {}, None

    def run(self, values):
        """Outputs by name."""
        if self.binding is None:
            feeds = {name: as_numpy(values[name]) for name in self.inputs}
            return zip(self.outputs, self.session.run(self.outputs, feeds), strict=False)
        for name in self.inputs:
            if self.bound.get(name) is not values[name]:
                value = values[name]
                is_bound = isinstance(value, onnxruntime.OrtValue)
                self.binding.bind_ortvalue_input(
                    name, value if is_bound else onnxruntime.OrtValue.ortvalue_from_numpy(value)
                )
                self.bound[name] = value if is_bound else None  # the values of an array may change
        if not self.kept:
            self.binding.clear_binding_outputs()
            for name in self.outputs:
                self.binding.bind_output(name, "cpu")
        try:
            self.session.run_with_iobinding(self.binding)
        except Exception:
            if not self.kept:
                raise
            self.kept = None  # a shape that depends on the data
            return self.run(values)
        results = self.kept or list(self.binding.get_outputs())
        if self.kept is None and all(0 not in value.shape() for value in results):
            self.kept = results
            self.binding.clear_binding_outputs()
            for name, value in zip(self.outputs, results, strict=False):
                self.binding.bind_ortvalue_output(name, value)
        return zip(self.outputs, results, strict=False)


def as_numpy(value):
    """A value as an array; a copy where a later run writes over it."""
    return (
        numpy.array(value.numpy())
        if isinstance(value, onnxruntime.OrtValue) and value.is_tensor()
        else value
    )


def owned(value):
    """A value that later runs leave as it is."""
    return value.copy() if isinstance(value, numpy.ndarray) else as_numpy(value)


if __name__ == "__main__":
    run_from_command_line(Split, __doc__)
