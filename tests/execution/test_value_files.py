"""Files of inputs and outputs: what a run writes can be given to the next one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import editor
from editor.__main__ import main
from editor.errors import ExecutionError
from editor.execution.inputs import packed, read_inputs
from editor.graph.graph import Graph

value = helper.make_tensor_value_info
LACKING = {
    "bfloat16": (TensorProto.BFLOAT16, ml_dtypes.bfloat16, np.uint16, np.float32),
    "float8": (TensorProto.FLOAT8E4M3FN, ml_dtypes.float8_e4m3fn, np.uint8, np.float32),
    "int4": (TensorProto.INT4, ml_dtypes.int4, None, np.int8),
    "uint4": (TensorProto.UINT4, ml_dtypes.uint4, None, np.uint8),
}
"""Types that numpy lacks: of ONNX, of ml_dtypes, of their bits, and of their values."""


def written(path: Path, nodes: list[Any], inputs: list[Any], outputs: list[Any]) -> Path:
    """A model file."""
    graph = helper.make_graph(nodes, "m", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, path)
    return path


def same(path: Path, kind: int) -> Path:
    """A model whose output is its input, of four values."""
    return written(
        path,
        [
            helper.make_node("Cast", ["x"], ["wide"], to=TensorProto.FLOAT),
            helper.make_node("Cast", ["wide"], ["y"], to=kind),
        ],
        [value("x", kind, [4])],
        [value("y", kind, [4])],
    )


def sequences(path: Path) -> Graph:
    """A model that adds its optional input, where there is one, to the sum of a sequence, and returns the sequence, too."""
    optional = helper.make_optional_type_proto(
        helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
    )
    then = helper.make_graph(
        [helper.make_node("OptionalGetElement", ["o"], ["t"])],
        "t",
        [],
        [value("t", TensorProto.FLOAT, [2])],
    )
    zeros = helper.make_tensor("", TensorProto.FLOAT, [2], [0, 0])
    otherwise = helper.make_graph(
        [helper.make_node("Constant", [], ["z"], value=zeros)],
        "e",
        [],
        [value("z", TensorProto.FLOAT, [2])],
    )
    nodes = [
        helper.make_node("OptionalHasElement", ["o"], ["has"]),
        helper.make_node("If", ["has"], ["v"], then_branch=then, else_branch=otherwise),
        helper.make_node("SequenceInsert", ["seq", "v"], ["more"]),
        helper.make_node("ConcatFromSequence", ["more"], ["y"], axis=0),
    ]
    inputs = [
        helper.make_tensor_sequence_value_info("seq", TensorProto.FLOAT, [2]),
        helper.make_value_info("o", optional),
    ]
    outputs = [
        value("y", TensorProto.FLOAT, ["n"]),
        helper.make_tensor_sequence_value_info("more", TensorProto.FLOAT, [2]),
    ]
    return editor.load_model(written(path, nodes, inputs, outputs))


def run(plan: Path, **files: Path) -> int:
    """The exit status of ``run``."""
    return main(
        [
            "run",
            str(plan),
            *(text for name, path in files.items() for text in (f"--{name}", str(path))),
        ]
    )


@pytest.mark.parametrize("kind", LACKING)
def test_types_that_numpy_lacks_go_both_ways(tmp_path: Path, kind: str) -> None:
    code, dtype, bits, plain = LACKING[kind]
    graph = editor.load_model(same(tmp_path / "m.onnx", code))
    plan = editor.partition(graph, "HETERO:CPU").save(tmp_path / "out")
    x = np.array([0, 1, 3, 7], dtype)
    for given in [x, x.astype(plain), *([x.view(bits)] if bits else [])]:
        np.savez(tmp_path / "in.npz", x=given)
        assert run(plan, inputs=tmp_path / "in.npz", outputs=tmp_path / "out.npz") == 0
        stored = np.load(tmp_path / "out.npz")["y"]
        assert stored.view(dtype).tolist() == x.tolist()
        np.savez(tmp_path / "again.npz", x=stored)
        read = read_inputs(graph, tmp_path / "again.npz")["x"]
        assert read.dtype == dtype and read.tolist() == x.tolist()


def test_what_cannot_be_such_a_type_is_refused_with_what_can(tmp_path: Path) -> None:
    graph = editor.load_model(same(tmp_path / "m.onnx", TensorProto.BFLOAT16))
    np.savez(tmp_path / "in.npz", x=np.ones(4, np.int64))
    with pytest.raises(ExecutionError, match="'x' must be bfloat16, not int64; .*uint16.*float32"):
        read_inputs(graph, tmp_path / "in.npz")
    graph = editor.load_model(same(tmp_path / "i.onnx", TensorProto.INT4))
    np.savez(tmp_path / "in.npz", x=np.array([1, 2, 3, 8], np.int8))
    with pytest.raises(ExecutionError, match="'x' must be int4: from -8 to 7"):
        read_inputs(graph, tmp_path / "in.npz")


def test_a_folder_of_arrays_is_a_file_of_them(tmp_path: Path) -> None:
    graph = editor.load_model(same(tmp_path / "m.onnx", TensorProto.FLOAT))
    folder = tmp_path / "inputs"
    folder.mkdir()
    with pytest.raises(ExecutionError, match="a folder without .npy files"):
        read_inputs(graph, folder)
    np.save(folder / "x.npy", np.arange(4, dtype=np.float32))
    assert read_inputs(graph, folder)["x"].tolist() == [0, 1, 2, 3]
    np.save(folder / "z.npy", np.array([4]))
    with pytest.raises(ExecutionError, match="no input 'z'"):
        read_inputs(graph, folder)


def test_sequences_and_optionals_go_both_ways(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = sequences(tmp_path / "m.onnx")
    plan = editor.partition(graph, "HETERO:OpenVINO.CPU,CPU").save(tmp_path / "out")
    one, two = np.array([1, 2], np.float32), np.array([3, 4], np.float32)
    files = {"inputs": tmp_path / "in.npz", "outputs": tmp_path / "out.npz"}
    np.savez(files["inputs"], **{"seq[0]": one, "seq[1]": two, "o": two})
    assert run(plan, **files) == 0
    found = np.load(files["outputs"])
    assert found["y"].tolist() == [1, 2, 3, 4, 3, 4]
    assert [found[f"more[{i}]"].tolist() for i in range(3)] == [[1, 2], [3, 4], [3, 4]]
    np.savez(files["inputs"], **{"seq[]": np.empty(0)})
    assert run(plan, **files) == 0
    assert np.load(files["outputs"])["y"].tolist() == [0, 0]
    assert run(plan) == 0  # with inputs that are invented
    assert editor.load_plan(plan).run({"seq": [one]})["y"].tolist() == [1, 2, 0, 0]
    for wrong in ({}, {"seq": one}, {"seq[1]": one}):
        np.savez(files["inputs"], **wrong)
        assert run(plan, **files) == 1
        assert "seq[0]" in capsys.readouterr().err


def test_what_no_file_holds_is_left_out_with_a_note() -> None:
    content, odd = packed(
        {"map": [{1: 0.5}], "file": np.ones(1), "none": None, "text": np.array(["ä"], object)}
    )
    assert odd == ["map"] and b"file.npy" in content and b"text.npy" in content


def test_an_image_is_an_input(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="the package Pillow is not installed")
    image.new("RGB", (8, 4), (255, 0, 51)).save(tmp_path / "i.png")
    graph = editor.load_model(
        written(
            tmp_path / "m.onnx",
            [helper.make_node("Neg", ["x"], ["y"])],
            [value("x", TensorProto.FLOAT, [1, 3, 2, 2])],
            [value("y", TensorProto.FLOAT, [1, 3, 2, 2])],
        )
    )
    found = read_inputs(graph, tmp_path / "i.png")["x"]
    assert found.shape == (1, 3, 2, 2) and np.allclose(found[0, :, 0, 0], [1, 0, 0.2])


def test_an_image_for_another_model_and_a_file_that_is_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "i.png").write_bytes(b"not one")
    graph = editor.load_model(same(tmp_path / "m.onnx", TensorProto.FLOAT))
    with pytest.raises(ExecutionError, match="a model with one input of four axes"):
        read_inputs(graph, tmp_path / "i.png")
    nodes = [helper.make_node("Neg", ["x"], ["y"])]
    kind, shape = TensorProto.FLOAT, [1, 3, 2, 2]
    graph = editor.load_model(
        written(tmp_path / "o.onnx", nodes, [value("x", kind, shape)], [value("y", kind, shape)])
    )
    with pytest.raises(
        ExecutionError, match=r"i.png: (reading it needs the package Pillow|cannot be read)"
    ):
        read_inputs(graph, tmp_path / "i.png")
