"""A model with open dimensions gets sizes that make sense, and says so."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from conftest import EXAMPLES, ODDITIES, ROOT, python, save_net
from decoders import fused_decoder
from onnx import TensorProto, helper, numpy_helper

import editor
from editor.execution.invented_inputs import random_inputs
from editor.graph.dimension_meanings import total_that_follows, with_total
from editor.graph.proposed_sizes import proposed_sizes, sizes_text


def model_with(path: Path, *inputs: tuple[str, int, list[str | int | None]]) -> Path:
    """A model whose inputs have these types and shapes; each is copied to an output."""
    nodes = [
        helper.make_node("Identity", [name], [f"{name}_out"], f"copy_{name}")
        for name, _, _ in inputs
    ]
    return save_net(
        path,
        nodes,
        [helper.make_tensor_value_info(*each) for each in inputs],
        [helper.make_tensor_value_info(f"{name}_out", kind, None) for name, kind, _ in inputs],
    )


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
        ([("x", FLOAT, ["?", 3, "?", "?"])], {"x[0]": 1, "x[2]": 224, "x[3]": 224}),
        (
            [("pixel_values", FLOAT, [None, 3, None, None])],
            {"pixel_values[0]": 1, "pixel_values[2]": 224, "pixel_values[3]": 224},
        ),
        ([("audio", FLOAT, [1, "n_samples"])], {"n_samples": 16000}),
        ([("speech", FLOAT, [None, None])], {"speech[0]": 1, "speech[1]": 16000}),
        (
            [
                ("ids", INT, [None, None]),
                ("attention_mask", INT, [None, "total_length"]),
                ("past_key_values.0.key", FLOAT, [None, 4, None, 64]),
            ],
            {
                "ids[0]": 1,
                "ids[1]": 1,
                "attention_mask[0]": 1,
                "total_length": 128,
                "past_key_values.0.key[0]": 1,
                "past_key_values.0.key[2]": 127,
            },
        ),
    ],
)
def test_sizes_follow_names_and_places(
    tmp_path: Path, inputs: list[tuple[str, int, list[str | int | None]]], sizes: dict[str, int]
) -> None:
    graph = editor.load_model(model_with(tmp_path / "net.onnx", *inputs))
    assert proposed_sizes(graph) == sizes
    assert editor.load_model(graph.path, sizes).unbound == ()


PAST = "past_sequence_length"
DECODER = (
    ("ids", INT, ["batch", "sequence"]),
    ("mask", INT, ["batch", f"{PAST} + sequence"]),
    ("past.0.key", FLOAT, ["batch", 4, PAST, 8]),
)


@pytest.mark.parametrize(
    ("define", "sizes"),
    [
        ({PAST: 16}, {"sequence": 1, PAST: 16, "mask": 17}),
        ({"sequence": 64}, {"sequence": 64, PAST: 127, "mask": 191}),
        ({f"{PAST} + sequence": 7}, {"sequence": 1, PAST: 6, "mask": 7}),
        ({f"{PAST} + sequence": 7, "sequence": 3}, {"sequence": 3, PAST: 4, "mask": 7}),
        ({f"{PAST} + sequence": 7, PAST: 0}, {"sequence": 7, PAST: 0, "mask": 7}),
        ({"mask[1]": 7}, {"sequence": 1, PAST: 6, "mask": 7}),
    ],
)
def test_one_size_of_a_decoder_fixes_the_others(
    tmp_path: Path, define: dict[str, int], sizes: dict[str, int]
) -> None:
    graph = editor.load_model(model_with(tmp_path / "net.onnx", *DECODER), define)
    bound = editor.load_model(graph.path, {**graph.define, **proposed_sizes(graph)})
    shapes = {bound.tensor_names[t]: bound.tensor_shapes[t] for t in bound.inputs.tolist()}
    assert shapes["ids"] == (1, sizes["sequence"])
    assert shapes["past.0.key"] == (1, 4, sizes[PAST], 8)
    assert shapes["mask"] == (1, sizes["mask"])
    assert bound.define == {"batch": 1, "sequence": sizes["sequence"], PAST: sizes[PAST]}


def test_a_batch_that_is_given_for_one_input_is_that_of_the_others(tmp_path: Path) -> None:
    path = model_with(tmp_path / "net.onnx", *((name, FLOAT, [None, 1]) for name in "abc"))
    assert proposed_sizes(editor.load_model(path, {"a[0]": 3})) == {"b[0]": 3, "c[0]": 3}


def saved(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    weights: dict[str, np.ndarray],
    *domains: str,
) -> Path:
    """A model that returns the result of its last node."""
    result = helper.make_tensor_value_info(nodes[-1].output[0], 0, None)
    result.ClearField("type")
    graph = helper.make_graph(
        nodes, "net", inputs, [result], [numpy_helper.from_array(w, n) for n, w in weights.items()]
    )
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(d, 1) for d in domains)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def runs_with_proposed_sizes(path: Path) -> dict[str, int]:
    sizes = proposed_sizes(editor.load_model(path))
    bound = editor.load_model(path, sizes)
    feeds = {
        bound.tensor_names[t]: np.ones(bound.tensor_shapes[t] or (), np.float32)
        for t in bound.inputs.tolist()
    }
    onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, feeds)
    return sizes


@pytest.mark.parametrize("is_known", [True, False], ids=["by inference", "by a run"])
def test_a_line_of_text_is_as_high_as_the_model_was_trained_for(
    tmp_path: Path, is_known: bool
) -> None:
    """As PaddleOCR's recognizer: a window over all of a height of 48 leaves one row."""
    rows = ["pooled"] if is_known else ["reshaped"]
    nodes = [
        helper.make_node("AveragePool", ["x"], ["pooled"], kernel_shape=[48, 1], strides=[1, 1]),
        helper.make_node("Shape", ["pooled"], ["shape"]),
        helper.make_node("Cast", ["shape"], ["numbers"], to=FLOAT),
        helper.make_node("Relu", ["numbers"], ["positive"]),
        helper.make_node("Cast", ["positive"], ["target"], to=INT),
        helper.make_node("Reshape", ["pooled", "target"], ["reshaped"]),
        helper.make_node("Squeeze", [*rows, "axis"], ["line"]),
    ]
    x = helper.make_tensor_value_info("x", FLOAT, ["?", 3, "?", "width"])
    path = saved(tmp_path / "net.onnx", nodes, [x], {"axis": np.array([2])})
    assert runs_with_proposed_sizes(path) == {"x[0]": 1, "x[2]": 48, "width": 320}


def test_a_sound_is_long_enough_for_the_windows_that_move_over_it(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Unsqueeze", ["x", "axis"], ["row"]),
        helper.make_node("Conv", ["row", "basis"], ["spectrum"], strides=[128]),
        helper.make_node("Relu", ["spectrum"], ["y"]),
    ]
    weights = {"axis": np.array([1]), "basis": np.ones((258, 1, 256), np.float32)}
    x = helper.make_tensor_value_info("x", FLOAT, ["batch", "sequence"])
    path = saved(tmp_path / "net.onnx", nodes, [x], weights)
    assert runs_with_proposed_sizes(path) == {"batch": 1, "sequence": 16000}


def test_weights_fix_the_sizes_of_what_is_multiplied_with_them(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("MatMul", ["r", "w"], ["y"]),
        helper.make_node("LSTM", ["s", "i", "h", "", "", "state"], ["z"], hidden_size=4),
    ]
    weights = {
        "w": np.ones((24, 2), np.float32),
        "i": np.ones((1, 16, 5), np.float32),
        "h": np.ones((1, 16, 4), np.float32),
    }
    inputs = [
        helper.make_tensor_value_info(name, FLOAT, [None] * rank)
        for name, rank in (("x", 2), ("s", 3), ("state", 3))
    ]
    path = saved(tmp_path / "net.onnx", nodes, inputs, weights)
    sizes = runs_with_proposed_sizes(path)
    assert [sizes["x[1]"], *(sizes[f"s[{axis}]"] for axis in range(3))] == [24, 128, 1, 5]
    assert [sizes[f"state[{axis}]"] for axis in range(3)] == [1, 1, 4]


def test_a_model_that_never_ends_is_given_sizes_all_the_same(tmp_path: Path) -> None:
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["going"], ["goes_on"]),
            helper.make_node("Neg", ["before"], ["after"]),
        ],
        "body",
        [
            value("i", INT, []),
            value("going", TensorProto.BOOL, []),
            value("before", FLOAT, None),
        ],
        [value("goes_on", TensorProto.BOOL, []), value("after", FLOAT, None)],
    )
    loop = helper.make_node("Loop", ["", "true", "x"], ["y"], body=body)
    x = helper.make_tensor_value_info("x", FLOAT, ["N", 3])
    path = saved(tmp_path / "m.onnx", [loop], [x], {"true": np.array(True)})
    assert proposed_sizes(editor.load_model(path)) == {"N": 1}


def test_packed_keys_and_values_fix_the_heads_of_the_cache(tmp_path: Path) -> None:
    attention = helper.make_node(
        "GroupQueryAttention",
        ["qkv", "", "", "past.key", "past.value", "lengths", "total"],
        ["y", "present.key", "present.value"],
        domain="com.microsoft",
        num_heads=4,
        kv_num_heads=2,
    )
    value = helper.make_tensor_value_info
    caches = [value(f"past.{name}", FLOAT, [None] * 4) for name in ("key", "value")]
    numbers = [
        value("lengths", TensorProto.INT32, ["batch"]),
        value("total", TensorProto.INT32, []),
    ]
    inputs = [value("qkv", FLOAT, ["batch", "sequence", 64]), *caches, *numbers]
    path = saved(tmp_path / "m.onnx", [attention], inputs, {}, "com.microsoft")
    sizes = proposed_sizes(editor.load_model(path))
    assert sizes.pop("batch") == sizes.pop("sequence") == 1
    assert list(sizes.values()) == [1, 2, 127, 8] * 2


@pytest.mark.parametrize("rows", [32, 20])
def test_a_decoder_has_no_more_positions_than_its_tables_have_rows(
    tmp_path: Path, rows: int
) -> None:
    operands = ["q", "k", "v", "past.key", "past.value", "seqlens", "total", "cos", "sin"]
    nodes = [
        helper.make_node("ReduceSum", ["mask", "one"], ["sum"], keepdims=0),
        helper.make_node("Sub", ["sum", "one"], ["last"]),
        helper.make_node("Cast", ["last"], ["seqlens"], to=TensorProto.INT32),
        helper.make_node("Shape", ["mask"], ["shape"]),
        helper.make_node("Gather", ["shape", "one"], ["length"]),
        helper.make_node("Cast", ["length"], ["total"], to=TensorProto.INT32),
        helper.make_node(
            "GroupQueryAttention",
            operands,
            ["y", "key", "value"],
            domain="com.microsoft",
            num_heads=2,
            kv_num_heads=2,
            do_rotary=1,
        ),
    ]
    cache = ["batch", 2, "past_sequence_length", 16]
    inputs = [
        *(helper.make_tensor_value_info(name, FLOAT, ["batch", "sequence", 32]) for name in "qkv"),
        helper.make_tensor_value_info("mask", INT, ["batch", "total_sequence_length"]),
        *(helper.make_tensor_value_info(f"past.{n}", FLOAT, cache) for n in ("key", "value")),
    ]
    table = np.ones((rows, 8), np.float32)
    weights = [
        numpy_helper.from_array(np.array([1]), "one"),
        *(numpy_helper.from_array(table, name) for name in ("cos", "sin")),
    ]
    outputs = [helper.make_tensor_value_info("y", FLOAT, ["batch", "sequence", 32])]
    graph = helper.make_graph(nodes, "gqa", inputs, outputs, weights)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    path = tmp_path / "gqa.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    sizes = proposed_sizes(editor.load_model(path))
    past = {32: 31, 20: 15}[rows]
    assert sizes["past_sequence_length"] == past
    assert sizes["total_sequence_length"] == past + sizes["sequence"] <= rows
    bound = editor.load_model(path, sizes)
    assert editor.partition(bound, "HETERO:CPU").run(random_inputs(bound))["y"].shape == (1, 1, 32)


def test_the_settings_of_genai_fix_the_heads_of_the_cache(tmp_path: Path) -> None:
    path = model_with(
        tmp_path / "model.onnx",
        ("input_ids", INT, ["batch", "sequence"]),
        ("past_key_values.0.key", FLOAT, ["batch", None, "past", None]),
    )
    decoder = {
        "head_size": 96,
        "num_key_value_heads": 8,
        "num_hidden_layers": 2,
        "inputs": {
            "past_key_names": "past_key_values.%d.key",
            "past_value_names": "past_key_values.%d.value",
        },
    }
    config = tmp_path / "genai_config.json"
    config.write_text(json.dumps({"model": {"decoder": decoder}}))
    key = "past_key_values.0.key"
    expected = {"batch": 1, "sequence": 1, f"{key}[1]": 8, "past": 127, f"{key}[3]": 96}
    assert proposed_sizes(editor.load_model(path)) == expected
    config.write_text('{"model": []}')
    assert proposed_sizes(editor.load_model(path))[f"{key}[1]"] == 1


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
    done = python(
        "-m",
        "editor",
        "partition",
        EXAMPLES / "models" / "resnet50.onnx",
        "--devices",
        "HETERO:CPU",
        "--out",
        tmp_path,
        cwd=ROOT,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "sizes assumed: batch=1; --define changes them" in done.stderr
    assert dict(editor.load_plan(tmp_path / "plan.json").graph.define) == {"batch": 1}
    assert sizes_text({"batch": 1, "sequence": 8}) == "batch=1, sequence=8"


def test_lengths_of_a_step_that_contradict_each_other_are_said(tmp_path: Path) -> None:
    path = fused_decoder(tmp_path)
    lengths = {"batch": 1, "sequence_length": 1, "past_sequence_length": 127}
    assert editor.load_model(path, lengths | {"total_sequence_length": 128}).notes == ()
    [note] = editor.load_model(path, lengths | {"total_sequence_length": 50}).notes
    assert note.startswith(
        "50 tokens in total (total_sequence_length) is less than 127 past (past_sequence_length) and"
    )


def test_the_total_follows_past_and_new_tokens_and_the_past_a_total(tmp_path: Path) -> None:
    now = {
        "batch": 1,
        "sequence_length": 1,
        "past_sequence_length": 127,
        "total_sequence_length": 128,
    }
    graph = editor.load_model(fused_decoder(tmp_path), now)
    longer = with_total(graph, {**now, "past_sequence_length": 2000})
    assert longer == {**now, "past_sequence_length": 2000, "total_sequence_length": 2001}
    whole = with_total(graph, {**now, "total_sequence_length": 512})
    assert whole == {**now, "past_sequence_length": 511, "total_sequence_length": 512}
    both = {**now, "past_sequence_length": 10, "total_sequence_length": 4096}
    assert with_total(graph, both) == both, "room for more tokens than there are"
    roomy = editor.load_model(fused_decoder(tmp_path), both)
    assert total_that_follows(graph) == "total_sequence_length"
    assert total_that_follows(roomy) == "", "it is asked for"
    assert with_total(roomy, {**both, "past_sequence_length": 20})["total_sequence_length"] == 4096
    assert with_total(graph, {**now, "batch": 2}) == {**now, "batch": 2}
