"""Shapes that follow from computed values."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from conftest import ROOT, python, save_net
from onnx import TensorProto, helper, numpy_helper

import editor
from editor.graph import static_values as folding
from editor.graph.graph import Graph
from editor.sandbox import watch

PACK = Path(os.environ.get("MODEL_PACK", ROOT.parent / "shared" / "data" / "models")) / "real"


class Model:
    """A model under construction; input x is float32 [batch, sequence, 8]."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.inputs = [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "sequence", 8])
        ]
        self.weights: list[TensorProto] = []

    def op(self, kind: str, *reads: str, **attributes: object) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(
            helper.make_node(kind, [*reads], [name], f"n{len(self.nodes)}", **attributes)
        )
        return name

    def ints(self, *values: int, name: str = "") -> str:
        self.weights.append(
            numpy_helper.from_array(np.array(values, np.int64), name or f"c{len(self.weights)}")
        )
        return self.weights[-1].name

    def expanded(self, target: str) -> str:
        """As exporters write ``expand``: a size of -1 keeps the old one."""
        ones = self.op(
            "ConstantOfShape",
            self.op("Shape", target),
            value=numpy_helper.from_array(np.array([1], np.int64)),
        )
        kept = self.op(
            "Equal", target, self.op("Mul", ones, self.ints(-1, name=f"minus{len(self.nodes)}"))
        )
        return self.op("Where", kept, ones, target)

    def save(self, path: Path, *outputs: str) -> Path:
        results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        return save_net(path, self.nodes, self.inputs, results, self.weights, name="shapes")


def heads(path: Path) -> Path:
    """Batch and sequence taken from the input's shape, computed with, and used to expand, reshape and slice."""
    model = Model()
    shape = model.op("Shape", "x")
    batch, sequence = (
        model.op("Unsqueeze", model.op("Gather", shape, model.ints(axis), axis=0), model.ints(0))
        for axis in (0, 1)
    )
    batch, sequence = (model.op("Reshape", size, model.ints(1)) for size in (batch, sequence))
    wide = model.op("Concat", batch, model.ints(3), sequence, model.ints(-1), axis=0)
    table = model.op(
        "Unsqueeze",
        model.op(
            "Unsqueeze",
            model.op(
                "Cast",
                model.op(
                    "Range",
                    *(
                        model.op("Squeeze", v)
                        for v in (
                            model.ints(0),
                            model.op("Div", sequence, model.ints(2)),
                            model.ints(1),
                        )
                    ),
                ),
                to=1,
            ),
            model.ints(0),
        ),
        model.ints(2),
    )
    y = model.op("Expand", model.op("Unsqueeze", "x", model.ints(1)), model.expanded(wide))
    y = model.op(
        "Reshape",
        y,
        model.op("Concat", batch, model.ints(-1), model.op("Mul", sequence, model.ints(2)), axis=0),
    )
    z = model.op("Slice", y, model.ints(0), model.op("Sub", sequence, model.ints(1)), model.ints(2))
    return model.save(path, model.op("Relu", z), model.op("Relu", table))


def open_shapes(graph: Graph) -> list[str]:
    return [graph.tensor_names[t] for t in np.flatnonzero(graph.tensor_bytes < 0)]


def test_shapes_from_computed_values_equal_those_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = heads(tmp_path / "m.onnx")
    sizes = {"batch": 2, "sequence": 6}
    graph = editor.load_model(path, sizes)
    assert open_shapes(graph) == []
    monkeypatch.setattr(folding, "_MAX_STEPS", 0)
    monkeypatch.setattr(watch, "_expendable", True)  # read here, where the line above holds
    assert len(open_shapes(editor.load_model(path, sizes))) > 4, (
        "ONNX's own inference leaves them open"
    )
    model = onnx.load(path)
    made = [name for node in model.graph.node for name in node.output]
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in made)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    values = dict(zip(made, session.run(made, {"x": np.ones((2, 6, 8), np.float32)}), strict=True))
    index = graph.tensor_index
    assert {name: graph.tensor_shapes[index[name]] for name in made} == {
        name: values[name].shape for name in made
    }


def test_shapes_stay_unknown_where_a_size_or_a_value_is_unknown(tmp_path: Path) -> None:
    assert open_shapes(editor.load_model(heads(tmp_path / "m.onnx"), {"batch": 2}))
    model = Model()
    model.inputs.append(helper.make_tensor_value_info("target", TensorProto.INT64, [3]))
    y = model.op("Reshape", "x", model.expanded("target"))
    path = model.save(tmp_path / "input.onnx", y)
    assert y in open_shapes(editor.load_model(path, {"batch": 2, "sequence": 6}))
    model.ints(2, 6, 8, name="target")  # a default that a caller may replace
    path = model.save(tmp_path / "default.onnx", y)
    assert y in open_shapes(editor.load_model(path, {"batch": 2, "sequence": 6}))


def test_large_values_are_not_computed(tmp_path: Path) -> None:
    model = Model()
    much = model.op("ConstantOfShape", model.op("Mul", model.op("Shape", "x"), model.ints(1 << 30)))
    y = model.op("Expand", "x", model.expanded(model.op("Shape", much)))
    graph = editor.load_model(model.save(tmp_path / "m.onnx", y), {"batch": 2, "sequence": 6})
    assert graph.tensor_shapes[graph.tensor_index[much]] in {(2 << 30, 6 << 30, 8 << 30), None}


@pytest.mark.parametrize("kind", ["ConstantOfShape", "Expand", "Tile", "Range"])
def test_values_that_are_larger_than_declared_are_not_computed(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onnx.reference.ops.load_op", lambda *_: pytest.fail("would take 256 GB"))
    big, one, zero = (np.array(values, np.int64) for values in ([1 << 35], [1], 0))
    operands = {"ConstantOfShape": [big], "Range": [zero, np.array(1 << 35), np.array(1)]}.get(
        kind, [one, big]
    )
    names = [f"i{i}" for i in range(len(operands))]
    nodes = [helper.make_node(kind, names, ["v"]), helper.make_node("Reshape", ["x", "v"], ["y"])]
    weights = [
        numpy_helper.from_array(array, name) for name, array in zip(names, operands, strict=True)
    ]
    model = helper.make_model(
        helper.make_graph(nodes, "lie", [], [], weights),
        opset_imports=[helper.make_opsetid("", 17)],
    )
    claimed: folding.Values = {"v": ("int64", (3,)), "x": ("float32", (6,)), "y": ("float32", None)}
    assert folding.fold_shapes(model, claimed)["y"] == ("float32", None)


def test_a_hundred_thousand_ops_after_an_unknown_shape_load_quickly(tmp_path: Path) -> None:
    """In a process of its own; a time that grew with the square of the ops would take hours, and no quiet machine is needed."""
    model = Model()
    y = model.op("Expand", "x", model.expanded(model.op("Shape", "x")))
    for _ in range(100_000):
        y = model.op("Neg", y)
    path = model.save(tmp_path / "m.onnx", y)
    code = f"import editor; print(len(editor.load_model({str(path)!r}, {{'batch': 2, 'sequence': 6}})))"
    done = python("-c", code, cwd=ROOT, HETERO_LIMIT_SECONDS="1200")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100_000


@pytest.mark.parametrize(
    "name", ["bert-base-legacy", "t5-small-encoder-legacy", "mobilenetv2-legacy"]
)
def test_exported_models_with_bound_sizes_have_no_unknown_shapes(name: str) -> None:
    if not (PACK / f"{name}.onnx").exists():
        pytest.skip("the pack of models is not here")
    sizes = {} if name.startswith("mobilenet") else {"batch": 1, "sequence": 16}
    assert open_shapes(editor.load_model(PACK / f"{name}.onnx", sizes)) == []
