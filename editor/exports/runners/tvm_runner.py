"""Compiles every subgraph for its target with TVM's Relax and runs them in order. Made by @MADE_BY@.

    python THIS_FILE            # compiles, runs on random inputs, prints shapes
As a module: ``outputs = Plan().run({name: numpy array})``. Needs apache-tvm, onnx and numpy.
"""

import json
import pathlib
import sys

import numpy
import onnx
import onnx.utils

try:
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx
except ImportError:
    sys.exit("TVM is not installed here: pip install apache-tvm")

HERE = pathlib.Path(__file__).resolve().parent
DOCUMENT = json.loads((HERE / "@STEM@_tvm.json").read_text(encoding="utf-8"))


def parts():
    """(subgraph, ONNX model of it): the ops of the annotation, with the constants they need."""
    model = onnx.shape_inference.infer_shapes(onnx.load(HERE / DOCUMENT["model"]))
    for value in model.graph.input:
        for dim, size in zip(
            value.type.tensor_type.shape.dim, DOCUMENT["inputs"].get(value.name, ()), strict=False
        ):
            dim.dim_value = size
    model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    extractor = onnx.utils.Extractor(model)
    for subgraph in DOCUMENT["subgraphs"]:
        yield subgraph, extractor.extract_model(subgraph["inputs"], subgraph["outputs"])


class Plan:
    """Every subgraph compiled for the target of its device; targets that are not built in run as llvm."""

    def __init__(self):
        self.steps = []
        for subgraph, model in parts():
            target = DOCUMENT["devices"][subgraph["device"]]["target"]
            if not tvm.runtime.enabled(target.split()[0]):
                print(
                    f"note: this TVM has no {target}; subgraph {subgraph['id']} is compiled for llvm",
                    file=sys.stderr,
                )
                target = "llvm"
            device = tvm.device(target.split()[0] if target != "llvm" else "cpu", 0)
            module = tvm.compile(from_onnx(model), target=target)
            self.steps.append((subgraph, relax.VirtualMachine(module, device), device))

    def run(self, inputs):
        """Outputs of the model by name."""
        values = dict(inputs)
        for subgraph, machine, device in self.steps:
            arguments = [
                tvm.runtime.tensor(numpy.ascontiguousarray(values[n]), device)
                for n in subgraph["inputs"]
            ]
            found = machine["main"](*arguments)
            results = [found] if hasattr(found, "numpy") else list(found)
            values.update(zip(subgraph["outputs"], [r.numpy() for r in results], strict=False))
        return values


def random_inputs():
    """Random floats of the types and shapes of the model's inputs; zeros for integers, which are valid as indices."""
    rng = numpy.random.default_rng(0)
    values = {}
    for value in onnx.load(HERE / DOCUMENT["model"], load_external_data=False).graph.input:
        if value.name in DOCUMENT["inputs"]:
            kind = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
            random = rng.standard_normal(DOCUMENT["inputs"][value.name])
            values[value.name] = (
                random if numpy.issubdtype(kind, numpy.floating) else numpy.zeros_like(random)
            ).astype(kind)
    return values


if __name__ == "__main__":
    results = Plan().run(random_inputs())
    for subgraph in DOCUMENT["subgraphs"]:
        print(
            subgraph["id"],
            subgraph["device"],
            {name: results[name].shape for name in subgraph["outputs"]},
        )
