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


class Split:
    """All subgraphs as sessions, in order of execution."""

    def __init__(self, folder=HERE, threads=0):
        self.folder = pathlib.Path(folder)
        self.manifest = json.loads((self.folder / "manifest.json").read_text(encoding="utf-8"))
        for note in self.manifest["notes"]:
            print(f"note: {note}", file=sys.stderr)
        here = onnxruntime.get_available_providers()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        # Threads may spin during a run, but not after it against those of the next session.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        self.sessions = []
        for step in self.manifest["subgraphs"]:
            options_of = {"device_id": str(step["device_id"])} if "device_id" in step else {}
            wanted = [(step["provider"], options_of)]
            if step["provider"] != "CPUExecutionProvider":
                wanted.append(("CPUExecutionProvider", {}))
            if step["provider"] not in here:
                print(f"note: {step['provider']} is not here; subgraph {step['id']} runs on the CPU", file=sys.stderr)
            providers = [(name, chosen) for name, chosen in wanted if name in here]
            self.sessions.append(onnxruntime.InferenceSession(str(self.folder / step["model"]), options, providers=providers))

    def run(self, inputs):
        """Outputs of the model by name."""
        missing = [name for name in self.manifest["inputs"] if name not in inputs]
        if missing:
            raise SystemExit(f"inputs are missing: {', '.join(missing)}")
        values = dict(inputs)
        for step, session in zip(self.manifest["subgraphs"], self.sessions, strict=False):
            results = session.run(step["outputs"], {name: values[name] for name in step["inputs"]})
            values.update(zip(step["outputs"], results, strict=False))
        return {name: values[name] for name in self.manifest["outputs"]}


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with numpy.load(sys.argv[1]) as file:
        arrays = {name: file[name] for name in file.files}
    numpy.savez(sys.argv[2], **Split().run(arrays))
