"""Inputs that the editor invents: a model accepts them, and what they are said to be holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest

import editor
from editor.errors import ExecutionError
from editor.execution.invented_inputs import random_inputs

CPU = "HETERO:CPU"

ACCEPTED = {
    "a length of another input, by its name": """
        m (int64[1,12] ids, int64[1] len) => (float[1,12,1] y)
        <float[20,1] emb = {0,1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7,8,9},
         int64 zero = {0}, int64 one = {1}, int64[2] around = {0,2}>
        {
            e = Gather (emb, ids)
            longest = ReduceMax <keepdims = 0> (len)
            place = Range (zero, longest, one)
            inside = Less (place, len)
            as_float = Cast <to = 1> (inside)
            row = Unsqueeze (as_float, around)
            y = Mul (e, row)
        }""",
    "the shape of a Reshape": "m (float[2,6] x, int64[3] s) => (float[a,b,c] y) { y = Reshape (x, s) }",
    "the shape of an Expand": "m (float[2,1] x, int64[3] s) => (float[a,b,c] y) { y = Expand (x, s) }",
    "repeats": "m (float[2,3] x, int64[2] r) => (float[a,b] y) { y = Tile (x, r) }",
    "an index after a sum": """
        m (int32[1,6] ids) => (float[1,6,1] y) <float[3,1] emb = {1,2,3}, int32 two = {2}> {
            more = Add (ids, two)
            wide = Cast <to = 7> (more)
            y = Gather (emb, wide)
        }""",
    "an index of another axis": "m (float[9,3] x, int64[4] i) => (float[9,4] y) { y = Gather <axis = 1> (x, i) }",
    "indices of each element": "m (float[2,3] x, int64[2,5] i) => (float[2,5] y) { y = GatherElements <axis = 1> (x, i) }",
    "scattered elements": """
        m (float[3,3] x, int64[1,3] i, float[1,3] u) => (float[3,3] y) { y = ScatterElements (x, i, u) }""",
    "tuples of indices": "m (float[2,9] x, int64[5,2] i) => (float[5] y) { y = GatherND (x, i) }",
    "scattered tuples": "m (float[2,9] x, int64[5,2] i, float[5] u) => (float[2,9] y) { y = ScatterND (x, i, u) }",
    "starts and ends": """
        m (float[9,4] x, int64[2] s, int64[2] e, int64[2] a, int64[2] by) => (float[p,q] y) { y = Slice (x, s, e, a, by) }""",
    "sizes behind others": """
        m (float[1,3,8,8] x, int64[2] hw) => (float[p,q,r,s] y) {
            first = Shape <start = 0, end = 2> (x)
            size = Concat <axis = 0> (first, hw)
            y = Resize <mode = "linear"> (x, , , size)
        }""",
    "scales of an image": """m (float[1,3,8,8] x, float[4] scales) => (float[p,q,r,s] y) { y = Resize (x, , scales) }""",
    "the number of largest values": "m (float[1,5] x, int64[1] k) => (float[1,q] y, int64[1,q] z) { y, z = TopK (x, k) }",
    "parts": "m (float[7] x, int64[2] parts) => (float[p] y, float[q] z) { y, z = Split (x, parts) }",
    "axes": "m (float[3,1] x, int64[1] axes) => (float[3] y) { y = Squeeze (x, axes) }",
    "a divisor": "m (int64[40] x, int64[40] by) => (int64[40] y) { y = Div (x, by) }",
    "lengths of sequences": """
        m (float[4,2,1] x, int32[2] n) => (float[1,2,1] y)
        <float[1,3,1] W = {1,2,3}, float[1,3,1] R = {1,2,3}> { z, y = GRU <hidden_size = 1> (x, W, R, , n) }""",
    "positions after the past": """
        m (int64[1,2] input_ids, int64[1,2] position_ids, float[1,1,5,3] past_key) => (float[1,2,1] y)
        <float[8,1] emb = {0,1,2,3,4,5,6,7}> { y = Gather (emb, position_ids) }""",
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_onnx_runtime_accepts_what_is_invented(tmp_path: Path, case: str) -> None:
    onnx.save(
        onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 20]> {ACCEPTED[case]}'),
        tmp_path / "m.onnx",
    )
    graph = editor.load_model(tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    session.run(None, dict(random_inputs(graph)))


def saved(text: str, path: Path, opset: int = 20) -> Path:
    """A model in ONNX's text form, as a file."""
    onnx.save(onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": {opset}]> {text}'), path)
    return path


def invented(text: str, path: Path) -> dict[str, Any]:
    """The inputs that are invented for a model in ONNX's text form."""
    return dict(random_inputs(editor.load_model(saved(text, path))))


def test_names_say_what_values_are(tmp_path: Path) -> None:
    text = """
    m (float[1,3,8,8] pixel_values, int64[1,12] attention_mask, float[2,4] boxes, int64[1,4] position_ids,
       float[1,2,5,4] past_key, int64[1] orig_lengths, float[3] scales) =>
      (float[1,3,8,8] a, int64[1,12] b, float[2,4] c, int64[1,4] d, float[1,2,5,4] e, int64[1] f, float[3] g) {
        a = Neg (pixel_values)
        b = Neg (attention_mask)
        c = Neg (boxes)
        d = Neg (position_ids)
        e = Neg (past_key)
        f = Neg (orig_lengths)
        g = Neg (scales)
    }"""
    values = invented(text, tmp_path / "m.onnx")
    assert values["pixel_values"].min() >= 0 and values["pixel_values"].max() <= 1
    assert (values["attention_mask"] == 1).all() and (values["scales"] == 1).all()
    assert (values["boxes"][:, :2] <= values["boxes"][:, 2:]).all()
    assert values["position_ids"].tolist() == [[5, 6, 7, 8]]  # after the past
    assert values["past_key"].min() < 0
    assert values["orig_lengths"].tolist() == [8]


def test_an_index_is_below_the_rows_whatever_is_added_before(tmp_path: Path) -> None:
    values = invented(ACCEPTED["an index after a sum"], tmp_path / "m.onnx")
    assert (values["ids"] + 2 < 3).all() and (values["ids"] + 2 >= 0).all()


def test_what_the_usual_guess_does_not_fit_is_guessed_otherwise(tmp_path: Path) -> None:
    text = """
    m (float[1,8,20] x, int64[1] x_length) => (float[1,8,20] y)
    <int64 zero = {0}, int64 one = {1}, int64[3] shape = {1,8,1}> {
        end = Squeeze (x_length)
        place = Range (zero, end, one)
        as_float = Cast <to = 1> (place)
        column = Reshape (as_float, shape)
        y = Add (x, column)
    }"""
    assert invented(text, tmp_path / "m.onnx")["x_length"].tolist() == [8]


def test_a_run_with_invented_inputs_that_fails_says_so(tmp_path: Path) -> None:
    text = """
    m (float[2,3] x, int64[2] anything) => (float[p,q] y) <int64[2] minus = {-7,-9}> {
        big = Mul (anything, minus)
        odd = Sub (big, anything)
        less = Add (odd, minus)
        y = Reshape (x, less)
    }"""
    plan = editor.partition(editor.load_model(saved(text, tmp_path / "m.onnx")), CPU)
    with pytest.raises(ExecutionError, match="inputs were invented.*--inputs"):
        plan.run(random_inputs(plan.graph))
    with pytest.raises(ExecutionError) as failed:
        plan.run(dict(random_inputs(plan.graph)))
    assert "invented" not in str(failed.value)
    with pytest.raises(ExecutionError, match="inputs were invented.*--inputs"):
        plan.benchmark(seconds=0.1)
