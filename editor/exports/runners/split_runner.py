"""Runs the subgraphs beside it one after the other. Made by @MADE_BY@.

    python run.py INPUTS.npz OUTPUTS.npz
As a module: ``outputs = Split().run(inputs)`` with dicts of numpy arrays. Needs numpy and onnxruntime only.
"""

import json
import os
import pathlib
import sys

import numpy

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # before onnxruntime is imported
import onnxruntime

HERE = pathlib.Path(__file__).resolve().parent


def register(options, libraries):
    """Registers libraries of custom ops."""
    for library in libraries:
        path = library
        if library == "onnxruntime-extensions":
            import onnxruntime_extensions

            path = onnxruntime_extensions.get_library_path()
        options.register_custom_ops_library(path)


class Split:
    """All subgraphs as sessions, in order of execution."""

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
        self.parts = []
        for step in self.manifest["subgraphs"]:
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
        return {name: as_numpy(values[name]) for name in self.manifest["outputs"]}


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


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with numpy.load(sys.argv[1]) as file:
        arrays = {name: file[name] for name in file.files}
    numpy.savez(sys.argv[2], **Split().run(arrays))
