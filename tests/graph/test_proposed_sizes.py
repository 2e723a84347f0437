"""A model with open dimensions gets sizes that make sense, and says so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from conftest import EXAMPLES, ODDITIES, ROOT
from onnx import TensorProto, helper

import editor
from editor.graph.proposed_sizes import proposed_sizes, sizes_text


def model_with(path: Path, *inputs: tuple[str, int, list[str | int | None]]) -> Path:
    """A model whose inputs have these types and shapes; each is copied to an output."""
    nodes = [
        helper.make_node("Identity", [name], [f"{name}_out"], f"copy_{name}")
        for name, _, _ in inputs
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(*each) for each in inputs],
        [helper.make_tensor_value_info(f"{name}_out", kind, None) for name, kind, _ in inputs],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path
    )
    return path


FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64


@pytest.mark.parametrize(
    ("inputs", "sizes"),
    [
        (
            [("ids", INT, ["batch_size", "sequence_length"])],
            {"batch_size": 1, "sequence_length": 128},
        ),
        (
            [
                ("ids", INT, ["batch", "sequence"]),
                ("mask", INT, ["batch", "past_sequence_length + 1"]),
                ("past.0.key", FLOAT, ["batch", 4, "past_sequence_length", 8]),
            ],
            {
                "batch": 1,
                "sequence": 1,
                "past_sequence_length + 1": 128,
                "past_sequence_length": 127,
            },
        ),
        ([("pixels", FLOAT, ["N", 3, "height", "width"])], {"N": 1, "height": 224, "width": 224}),
        (
            [("x", FLOAT, [None, None, None, None])],
            {"x[0]": 1, "x[1]": 3, "x[2]": 224, "x[3]": 224},
        ),
        ([("x", INT, [None, None])], {"x[0]": 1, "x[1]": 128}),
        ([("x", FLOAT, ["foo", "bar"])], {"foo": 1, "bar": 1}),
    ],
)
def test_sizes_follow_names_and_places(
    tmp_path: Path, inputs: list[tuple[str, int, list[str | int | None]]], sizes: dict[str, int]
) -> None:
    graph = editor.load_model(model_with(tmp_path / "net.onnx", *inputs))
    assert proposed_sizes(graph) == sizes
    assert editor.load_model(graph.path, sizes).unbound == ()


@pytest.mark.parametrize(
    "path",
    [*sorted((EXAMPLES / "models").glob("*.onnx")), ODDITIES / "nasty_symbols.onnx"],
    ids=lambda path: path.stem,
)
def test_with_proposed_sizes_every_bundled_model_can_be_planned(path: Path) -> None:
    graph = editor.load_model(path)
    bound = editor.load_model(path, proposed_sizes(graph))
    assert bound.unbound == () and editor.partition(bound, "HETERO:CPU").subgraphs


def test_python_warns_about_the_sizes_that_it_assumes() -> None:
    graph = editor.load_model(EXAMPLES / "models" / "resnet50.onnx")
    with pytest.warns(UserWarning, match="sizes assumed: batch=1; load_model"):
        plan = editor.partition(graph, "HETERO:CPU")
    assert dict(plan.graph.define) == {"batch": 1}


def test_the_first_command_of_a_new_user_works(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "editor",
            "partition",
            EXAMPLES / "models" / "resnet50.onnx",
            "--devices",
            "HETERO:CPU",
            "--out",
            tmp_path,
        ],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "sizes assumed: batch=1; --define changes them" in done.stderr
    assert dict(editor.load_plan(tmp_path / "plan.json").graph.define) == {"batch": 1}
    assert sizes_text({"batch": 1, "sequence": 8}) == "batch=1, sequence=8"
