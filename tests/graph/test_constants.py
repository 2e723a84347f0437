"""What is read of the constants of a model: values of small ones, figures of weights; and what else the file says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

import editor
from editor.errors import ModelError
from editor.graph import constants
from editor.graph.attributes import definition_of
from editor.graph.constants import Figures, figures, values_of, weights_of
from editor.graph.graph import Graph


def write(
    path: Path, nodes: Sequence[NodeProto], weights: Sequence[TensorProto], **more: Any
) -> Path:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "net",
        [value("x", TensorProto.FLOAT, [2, 3])],
        [value("y", TensorProto.FLOAT, None)],
        weights,
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10, **more)
    onnx.save(model, path)
    return path


def with_weights(path: Path, *weights: TensorProto) -> Graph:
    """A model of one op of its own that reads all of them."""
    names = ["x", *(w.name for w in weights)]
    return editor.load_model(
        write(path, [helper.make_node("Blend", names, ["y"], domain="com.microsoft")], weights)
    )


def said(graph: Graph, op: int) -> list[str | None]:
    reads = graph.op_reads[op].tolist()
    values = values_of(graph, reads)
    return [values.get(t) for t in reads]


def figures_of(graph: Graph) -> list[Figures | str]:
    return list(
        figures(graph, tuple(graph.tensor_index[n] for n in graph.tensor_names if n[0] == "w"))
    )


def only(graph: Graph) -> Figures:
    (found,) = figures_of(graph)
    assert isinstance(found, Figures), found
    return found


def test_small_constants_have_values_those_that_ops_compute_too(tmp_path: Path) -> None:
    make = helper.make_node
    nodes = [
        make("Clip", ["x", "least", "largest"], ["clipped"]),
        make("Shape", ["x"], ["shape"]),
        make("Constant", [], ["one"], value_ints=[1]),
        make("Concat", ["shape", "one"], ["target"], axis=0),
        make("Reshape", ["clipped", "target"], ["long"]),
        make("Add", ["long", "many"], ["y"]),
    ]
    weights = [
        numpy_helper.from_array(np.float32(0), "least"),
        numpy_helper.from_array(np.float32(6), "largest"),
        numpy_helper.from_array(np.arange(60, dtype=np.float32).reshape(10, 2, 3, 1), "many"),
    ]
    graph = editor.load_model(write(tmp_path / "m.onnx", nodes, weights))
    of = {graph.op_types[op]: said(graph, op) for op in range(len(graph))}
    assert of["Clip"] == [None, "0", "6"]
    assert of["Reshape"] == [None, "[2, 3, 1]"]
    assert of["Add"] == [None, "[0, 1, 2, … 60 in all]"]


@pytest.mark.parametrize("stated", [True, False])
def test_small_constants_in_other_files_are_read_and_nothing_beside_them(
    tmp_path: Path, stated: bool
) -> None:
    """A tensor without a length goes to the end of its file: 2 GB of it, perhaps."""
    (tmp_path / "w.bin").write_bytes(bytes(4) + np.array([7, 8], np.int64).tobytes() + bytes(4096))
    tensor = TensorProto(name="w", data_type=TensorProto.INT64, dims=[2])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {
        "location": "w.bin",
        "offset": "4",
        **({"length": "16"} if stated else {}),
    }.items():
        tensor.external_data.add(key=key, value=value)
    graph = with_weights(tmp_path / "m.onnx", tensor)
    assert said(graph, 0) == [None, "[7, 8]"]
    (tmp_path / "w.bin").unlink()
    graph = with_weights(tmp_path / "m.onnx", tensor)
    assert said(graph, 0) == [None, None]


def test_a_file_that_changed_is_an_error(tmp_path: Path) -> None:
    tensor = numpy_helper.from_array(np.arange(3), "w")
    graph = with_weights(tmp_path / "m.onnx", tensor)
    with_weights(tmp_path / "m.onnx", tensor, numpy_helper.from_array(np.arange(2), "w2"))
    with pytest.raises(ModelError, match="changed since it was opened"):
        values_of(graph, graph.op_reads[0].tolist())


RNG = np.random.default_rng(3)
ARRAYS = {
    "float32": RNG.normal(3, 2, (5, 9)).astype(np.float32),
    "float16": RNG.normal(0, 1, 45).astype(np.float16),
    "int8": RNG.integers(-128, 127, (9, 5)).astype(np.int8),
    "uint64": RNG.integers(0, 9, 45).astype(np.uint64),
    "bool": RNG.integers(0, 2, 45).astype(bool),
}
PACKED = {
    "int4": RNG.integers(-8, 8, 45),
    "uint4": RNG.integers(0, 16, 45),
    "bfloat16": RNG.integers(-64, 64, 45),
}


def tensor_of(kind: str) -> tuple[TensorProto, np.ndarray[Any, Any]]:
    if kind in ARRAYS:
        return numpy_helper.from_array(ARRAYS[kind], "w"), ARRAYS[kind].astype(np.float64)
    number = getattr(TensorProto, kind.upper())
    return helper.make_tensor("w", number, [45], PACKED[kind]), PACKED[kind].astype(np.float64)


@pytest.mark.parametrize("place", ["raw", "typed", "external"])
@pytest.mark.parametrize("kind", [*ARRAYS, *PACKED])
def test_figures_of_weights_are_those_of_numpy(
    kind: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "_CHUNK", 16)  # several parts, the last one shorter
    tensor, expected = tensor_of(kind)
    array = numpy_helper.to_array(tensor)
    if place == "typed":
        tensor = helper.make_tensor("w", tensor.data_type, tensor.dims, array.ravel())
    else:
        tensor = numpy_helper.from_array(array, "w")
        assert tensor.data_type == getattr(TensorProto, kind.upper().replace("FLOAT32", "FLOAT"))
    if place == "external":
        (tmp_path / "w.bin").write_bytes(bytes(8) + tensor.raw_data)
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="w.bin")
        tensor.external_data.add(key="offset", value="8")
    found = only(with_weights(tmp_path / "m.onnx", tensor))
    assert (found.type, found.count, found.not_finite) == (kind, 45, 0)
    assert (found.least, found.largest) == (expected.min(), expected.max())
    assert found.mean == pytest.approx(expected.mean())
    assert found.deviation == pytest.approx(expected.std())
    assert found.zeros == int((expected == 0).sum())
    assert found.bins == tuple(np.histogram(expected, 20)[0].tolist())


def test_a_large_file_is_read_in_a_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = numpy_helper.from_array(np.arange(400, dtype=np.float32), "w")
    graph = with_weights(tmp_path / "m.onnx", weights, numpy_helper.from_array(np.int64(5), "k"))
    monkeypatch.setattr(constants, "PLAIN_BYTES", 0)
    monkeypatch.setattr(constants, "_CHUNK", 0)  # of this process: it could not read a thing
    assert said(graph, 0) == [None, "[0, 1, 2, … 400 in all]", "5"]
    assert only(graph).mean == 199.5


def test_what_is_not_finite_is_counted_and_not_averaged(tmp_path: Path) -> None:
    array = np.array([np.nan, np.inf, -np.inf, *[0.0] * 20, *[2.0] * 20], np.float32)
    found = only(with_weights(tmp_path / "m.onnx", numpy_helper.from_array(array, "w")))
    assert (found.count, found.not_finite, found.zeros, found.mean) == (43, 3, 20, 1.0)
    assert sum(found.bins) == 40


def test_weights_that_cannot_be_read_have_a_reason(tmp_path: Path) -> None:
    gone = TensorProto(name="w0", data_type=TensorProto.FLOAT, dims=[100])
    gone.data_location = TensorProto.EXTERNAL
    gone.external_data.add(key="location", value="gone.bin")
    cut = TensorProto(name="w1", data_type=TensorProto.FLOAT, dims=[100], raw_data=bytes(9))
    text = helper.make_tensor("w2", TensorProto.STRING, [20], [b"a"] * 20)
    nan = numpy_helper.from_array(np.full(20, np.nan, np.float32), "w3")
    first, second, third, fourth = figures_of(
        with_weights(tmp_path / "m.onnx", gone, cut, text, nan)
    )
    assert "gone.bin" in str(first)
    assert "cut short" in str(second)
    assert "no numbers" in str(third)
    assert "no element is a finite number" in str(fourth)


def test_weights_behind_constant_ops_are_those_of_the_file(tmp_path: Path) -> None:
    make = helper.make_node
    nodes = [
        make("DequantizeLinear", ["w", "scale"], ["float"]),
        make("Constant", [], ["w2"], value=numpy_helper.from_array(np.ones((3, 7), np.float32))),
        make("MatMul", ["x", "float"], ["middle"]),
        make("Blend", ["middle", "w2"], ["y"], domain="com.microsoft"),
    ]
    weights = [
        numpy_helper.from_array(np.full((3, 8), 3, np.int8), "w"),
        numpy_helper.from_array(np.float32(0.5), "scale"),
    ]
    graph = editor.load_model(write(tmp_path / "m.onnx", nodes, weights))
    names = {
        graph.op_types[op]: [graph.tensor_names[t] for t in weights_of(graph, op)]
        for op in range(len(graph))
        if not graph.op_is_constant[op]
    }
    assert names == {"MatMul": ["w"], "Blend": ["w2"]}  # the scale is seen as a value
    found = [(f.name, f.type) for f in figures_of(graph) if isinstance(f, Figures)]
    assert found == [("w", "int8"), ("w2", "float32")]


def test_definitions_are_of_the_version_of_the_model(tmp_path: Path) -> None:
    clip, before = definition_of("Clip", "", 21), definition_of("Clip", "ai.onnx", 10)
    assert clip is not None and before is not None
    assert (clip.since_version, dict(clip.defaults)) == (13, {})
    assert (before.since_version, set(dict(before.defaults))) == (6, {"min", "max"})
    assert "interval" in clip.documentation
    assert clip.address.endswith("onnx__Clip.html")
    assert definition_of("FusedConv", "com.microsoft", 1) is None
    assert definition_of("Nothing", "", 21) is None


def test_the_graph_knows_what_its_file_says_of_itself(tmp_path: Path) -> None:
    path = write(
        tmp_path / "m.onnx",
        [
            helper.make_node("Constant", [], ["c"], value_float=1.0),
            helper.make_node("Add", ["x", "c"], ["y"]),
        ],
        [],
        producer_name="pytorch",
        producer_version="2.9",
        doc_string="a" * 5000,
    )
    model = onnx.load(path)
    helper.set_model_props(model, {"licence": "MIT"})
    onnx.save(model, path)
    file = editor.load_model(path).file
    assert (file.producer, file.ir_version, file.metadata) == (
        "pytorch 2.9",
        10,
        (("licence", "MIT"),),
    )
    assert (file.nodes, file.functions, file.initializers, len(file.doc)) == (2, 0, 0, 2000)
