"""Published op lists, element types and static sizes of planned devices: who is refused, and with which reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from conftest import EXAMPLES
from onnx import TensorProto, helper, numpy_helper

import editor
from editor.devices.device import Device
from editor.devices.published import preset_names
from editor.devices.table import parse_devices
from editor.errors import DeviceTableError
from editor.graph.graph import Graph
from editor.placement.costs import estimate
from editor.placement.filter import matching
from editor.runtimes.registry import capability

URL = "https://example.com/ops"


def planned(text: str) -> Device:
    """A planned device with keys in YAML."""
    (device,) = parse_devices(f"- name: N\n  backendName: NPU\n{text}", "t.yaml")
    return device


def reasons(graph: Graph, text: str) -> dict[str, str]:
    """Key of an op -> why the device refuses it."""
    return dict(zip(graph.op_keys, capability(graph, planned(text)).reasons, strict=True))


def constant(name: str, *shape: int, dtype: type = np.float32) -> onnx.TensorProto:
    return numpy_helper.from_array(np.ones(shape, dtype), name)


def saved(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: dict[str, list[int | str]],
    outputs: list[str],
    constants: list[onnx.TensorProto],
) -> Graph:
    values = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in inputs.items()
    ]
    results = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs]
    model = helper.make_model(
        helper.make_graph(nodes, "g", values, results, constants),
        ir_version=10,
        opset_imports=[helper.make_opsetid("", 17)],
    )
    onnx.save(model, path / "m.onnx")
    return editor.load_model(path / "m.onnx")


@pytest.fixture
def convs(tmp_path: Path) -> Graph:
    """A plain Conv, a depthwise one with stride 2, and Softmax."""
    return saved(
        tmp_path,
        [
            helper.make_node("Conv", ["x", "w"], ["plain"]),
            helper.make_node("Conv", ["plain", "d"], ["deep"], group=4, strides=[2, 2]),
            helper.make_node("Softmax", ["deep"], ["y"], axis=1),
        ],
        {"x": [1, 3, 8, 8]},
        ["y"],
        [constant("w", 4, 3, 3, 3), constant("d", 4, 1, 3, 3)],
    )


def test_a_list_that_is_not_the_vendors_says_so_in_every_reason(convs: Graph) -> None:
    caveat = "unofficial list of ops that a user tried"
    preset = "  preset: hailo8"
    assert reasons(convs, preset)["y"].startswith(f"Softmax is not in the {caveat} (https://")
    own = (
        "  unofficial: ops that a user tried\n"
        '  supported: [{op: Conv, where: "rank == 3", reason: flat only}, Softmax]'
    )
    assert reasons(convs, own)["plain"] == f"Conv: flat only, by an {caveat}; this op has rank 4"
    assert caveat in planned(preset).description


def test_what_a_list_leaves_open_is_said_of_the_op_and_of_the_device(convs: Graph) -> None:
    keys = f"  unchecked: {{Conv: its pads, Gemm: its bias, any: sizes}}\n  source: {URL}"
    table = parse_devices(f"- name: N\n  backendName: NPU\n{keys}\n- name: CPU\n", "table")
    plan = editor.partition(convs, table)
    assert plan.why("plain").because.endswith("; not checked: its pads")
    assert "not checked" not in plan.why("y").because
    (device, _) = plan.placement.devices
    assert device.published.unchecked_in(convs) == "not checked: Conv: its pads; sizes"
    for wrong, words in (
        ("Conf: its pads", "unchecked: unknown op 'Conf'"),
        ("Conv: [1]", "unchecked must be a mapping"),
    ):
        with pytest.raises(DeviceTableError, match=words):
            parse_devices(f"- name: N\n  backendName: NPU\n  unchecked: {{{wrong}}}\n", "table")


def test_a_list_says_of_which_year_or_version_it_is(convs: Graph) -> None:
    """Coral's table of 2019 stood there as if it were of today."""
    (device,) = editor.load_devices("HETERO:N(edgetpu)")
    assert device.published.origin == "published list of 2019, read 2026-11-23"
    own = f"  supported: [Conv]\n  source: {URL}\n  published: 2025-03-31\n  version: 3.1"
    assert reasons(convs, own)["y"] == f"Softmax is not in the published list of 3.1 ({URL})"
    limits = editor.load_devices("HETERO:N(intel-npu)")[0].published
    assert limits.origin.startswith("published limits of OpenVINO 2025"), "it has no list"


def test_what_somebody_tried_and_saw_refused_is_not_what_nobody_tried(tmp_path: Path) -> None:
    mean = helper.make_node("ReduceMean", ["x"], ["y"], axes=[2, 3])
    graph = saved(tmp_path, [mean], {"x": [1, 3, 8, 8]}, ["y"], [])
    assert "was tried and refused" in reasons(graph, "  preset: hailo8")["y"]


def test_an_op_outside_the_list_is_refused_with_the_document(convs: Graph) -> None:
    assert reasons(convs, f"  supported: [Conv]\n  source: {URL}") == {
        "plain": "",
        "deep": "",
        "y": f"Softmax is not in the published list ({URL})",
    }


def test_a_condition_is_the_reason_where_it_does_not_hold(convs: Graph) -> None:
    found = reasons(
        convs, '  supported: [Softmax, {op: Conv, where: "dtype == float32 and group == 1"}]'
    )
    assert found == {"plain": "", "deep": "Conv: needs group 1; this op has group 4", "y": ""}


def test_a_reason_of_the_table_replaces_the_condition(convs: Graph) -> None:
    found = reasons(
        convs, '  supported: [Softmax, {op: Conv, where: "group == 1", reason: no groups}]'
    )
    assert found["deep"] == "Conv: no groups; this op has group 4"


def test_two_entries_of_an_op_are_alternatives(convs: Graph) -> None:
    both = '  supported: [Softmax, {op: Conv, where: "group == 1"}, {op: Conv, where: "group == shape[1]"}]'
    assert not any(reasons(convs, both).values())


@pytest.mark.parametrize(
    ("where", "holds"),
    [
        ("kernel_shape == (3, 3)", True),  # not written in the node: the shape of the weights
        ("dilations[0] == 1 and pads == (0, 0, 0, 0)", True),  # defaults of ONNX
        ("strides in ((2, 2), (1, 2))", True),
        ("strides[0] <= 1", False),
        ("kernel_shape[2] == 3", False),
        ("shape[1] == 4 and shape_b[0] == 4 and rank == 4", True),
        ("1 not in computed", True),
        ("0 not in computed", False),
        ("out_shape[2] == 2 * shape[2]", False),
        ("out_shape[1] * 1 - 0 == group", True),
        ("auto_pad == NOTSET", True),
        ("opset >= 17", True),
        ("group == out_shape[1]", True),
        ("shape[0] == group", False),
    ],
)
def test_conditions_see_attributes_with_defaults_and_shapes(
    convs: Graph, where: str, holds: bool
) -> None:
    found = reasons(
        convs,
        f'  supported: [Softmax, {{op: Conv, where: "group == 1"}}, {{op: Conv, where: "{where}"}}]',
    )
    assert (not found["deep"]) == holds


def test_element_types_are_a_reason_and_an_assumption_lifts_it(convs: Graph) -> None:
    assert reasons(convs, "  dtypes: [int8, uint8]")["plain"] == (
        "float32; this device takes int8 or uint8; with Precision (assumes) int8 it is planned as if the model were converted"
    )
    assert not any(reasons(convs, "  dtypes: [int8, uint8]\n  assumes: int8").values())


def test_sizes_that_are_not_fixed_are_refused_where_they_must_be_static(tmp_path: Path) -> None:
    graph = saved(
        tmp_path,
        [helper.make_node("NonZero", ["x"], ["where"]), helper.make_node("Relu", ["x"], ["y"])],
        {"x": [2, 2]},
        ["where", "y"],
        [],
    )
    found = reasons(graph, "  static: true")
    assert "'where'" in found["where"] and "static sizes" in found["where"] and not found["y"]


def test_the_float_ops_of_a_qdq_model_count_as_quantised(tmp_path: Path) -> None:
    scale, zero = constant("s"), numpy_helper.from_array(np.array(0, np.int8), "z")
    graph = saved(
        tmp_path,
        [
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "s", "z"], ["a"]),
            helper.make_node("Conv", ["a", "w"], ["c"]),
            helper.make_node("Relu", ["c"], ["r"]),
            helper.make_node("QuantizeLinear", ["r", "s", "z"], ["p"]),
            helper.make_node("DequantizeLinear", ["p", "s", "z"], ["b"]),
            helper.make_node("Softmax", ["b"], ["f"]),
            helper.make_node("Exp", ["f"], ["y"]),
        ],
        {"x": [1, 3, 4, 4]},
        ["y"],
        [scale, zero, constant("w", 3, 3, 1, 1)],
    )
    refused = {key for key, reason in reasons(graph, "  dtypes: int8").items() if reason}
    assert refused == {"y"}  # the Exp of a float value; all others read or make quantised values


@pytest.mark.parametrize(
    ("keys", "cause"),
    [
        ("supported: [Convv]", "unknown op 'Convv'"),
        ("supported: {op: Conv}", "supported must be a list"),
        ("supported: [{op: Conv, were: x}]", "unknown key 'were'"),
        (
            'supported: [{op: Conv, where: "grup == 1"}]',
            "'grup' is neither a field nor an attribute of Conv; did you mean 'group'",
        ),
        ('supported: [{op: Conv, where: "group =="}]', "condition is not valid"),
        ('supported: [{op: Conv, where: "shape(1) == 1"}]', "condition is not valid at 'shape(1)'"),
        (
            'supported: [{op: Conv, where: "9**9 == group"}]',
            "condition is not valid at '9 ** 9'",
        ),
        ("supported: [{op: Conv, where: '" + "-" * 1900 + "1'}]", "nested too deeply"),
        ("supported: [{op: Conv, where: 3}]", "must be texts"),
        ("dtypes: [int9]", "unknown element type 'int9'; did you mean 'int8'"),
        ("static: maybe", "static must be true or false"),
        ("assumes: int4", "Precision (assumes) must be one of int8"),
        ("source: somewhere", "source must be the URL"),
        ("published: last year", "published must be a date"),
        ("preset: edgetpux", "unknown preset 'edgetpux'; did you mean 'edgetpu'"),
        ("preset: ../runtimes", "unknown preset"),
    ],
)
def test_bad_keys_are_messages_with_file_and_line(keys: str, cause: str) -> None:
    with pytest.raises(editor.EditorError, match=r"t\.yaml:3: ") as raised:
        planned(f"  {keys}")
    assert cause in str(raised.value)


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_loads_and_names_its_document_and_date(name: str) -> None:
    (device,) = editor.load_devices(f"HETERO:N({name})")
    found = device.published
    assert found.source.startswith("https://") and (found.published or found.read) >= "2024"
    assert (found.version or "version not stated") in found.origin
    assert (found.published or f"read {found.read}") in found.origin
    assert device.published.restricts and f"preset {name}" in device.description


def test_keys_of_an_entry_override_its_preset() -> None:
    own = {"dtypes": ["float32"], "static": None, "memory": "8MiB"}
    (device,) = editor.load_devices([{"name": "N", "preset": "edgetpu", **own}])
    assert (
        device.published.dtypes == ("float32",)
        and not device.published.static
        and device.memory == 8 << 20
    )
    assert device.backend == "EdgeTPU" and device.published.supported


def test_a_float_mobilenet_falls_off_an_int8_device_because_of_its_type(mobilenet: Graph) -> None:
    plan = editor.partition(mobilenet, "HETERO:NPU(edgetpu),CPU")
    assert plan.placement.op_counts["NPU"] == 0
    why = plan.placement.constraints.inability(mobilenet.op_types.index("Conv"), 0)
    assert why.startswith(
        "float32; this device takes int8 or uint8; with Precision (assumes) int8 it"
    )


def test_one_line_plans_a_float_model_as_if_it_were_quantised(mobilenet: Graph) -> None:
    plan = editor.partition(mobilenet, "HETERO:NPU(edgetpu as int8),CPU")
    assert plan.placement.op_counts["NPU"] == 100 and "as if int8" in plan.devices[0].description
    with pytest.raises(editor.DeviceTableError, match=r"Precision \(assumes\) must be one of"):
        editor.load_devices("HETERO:NPU(edgetpu as int9),CPU")


def test_as_if_int8_most_of_it_stays_and_the_rest_says_why(mobilenet: Graph) -> None:
    table = [{"name": "DLA", "preset": "nvidia-dla", "assumes": "int8"}, {"name": "CPU"}]
    plan = editor.partition(mobilenet, table)
    assert plan.placement.op_counts["CPU"] == 1 and plan.placement.op_counts["DLA"] == 99
    why = plan.placement.constraints.inability(mobilenet.op_types.index("ReduceMean"), 0)
    assert (
        why.startswith("ReduceMean is not in the published list of TensorRT 8.5 (https://")
        and "as if int8" in plan.devices[0].description
    )


def test_as_if_int8_counts_float_weights_activations_and_transfers_at_one_byte(
    convs: Graph,
) -> None:
    table = [{"name": "NPU", "supported": ["Conv"]}, {"name": "CPU"}]
    as_float, as_int8 = (
        editor.partition(convs, [{**table[0], **more}, table[1]]).placement
        for more in ({}, {"assumes": "int8"})
    )
    first, whole = as_int8.subgraphs[0].memory, as_float.subgraphs[0].memory
    assert first.constants * 4 == whole.constants and first.total * 4 == whole.total
    assert (
        as_int8.subgraphs[1].memory.total == as_float.subgraphs[1].memory.total
    )  # the CPU computes in float32
    assert as_int8.division.bytes_moved * 4 == as_float.division.bytes_moved
    assert {b.type_text for b in as_int8.division.transfers} == {"float32 as int8"}, (
        "what the bytes are of"
    )
    assert {b.type_text for b in as_float.division.transfers} == {"float32"}
    small_costs, large_costs = (estimate(convs, p.devices) for p in (as_int8, as_float))
    small, large = small_costs.enter[:, 0], large_costs.enter[:, 0]
    assert (small <= large).all() and small.sum() < large.sum() and small_costs.estimated


def test_weights_fit_a_limit_as_if_int8_that_they_exceed_as_float(convs: Graph) -> None:
    table = [
        {"name": "NPU", "memory": "600B", "supported": ["Conv"]},
        {"name": "CPU", "nonSupportedNodes": "Conv"},
    ]
    with pytest.raises(editor.EditorError, match="does not fit"):
        editor.partition(convs, table, policy="memory")
    plan = editor.partition(convs, [{**table[0], "assumes": "int8"}, table[1]], policy="memory")
    assert plan.placement.op_counts["NPU"] == 2


def test_a_plan_with_a_preset_is_saved_and_loaded(mobilenet: Graph, tmp_path: Path) -> None:
    plan = editor.partition(mobilenet, "HETERO:N(xnnpack),CPU")
    plan.save(tmp_path / "plan.json")
    again = editor.load_plan(tmp_path / "plan.json")
    assert again.devices == plan.devices and again.devices[0].published.supported
    assert again.placement.op_counts["N"] == 53


def test_filters_of_the_page_know_element_types_shapes_and_attributes(convs: Graph) -> None:
    placement = editor.partition(convs, "HETERO:CPU").placement
    keys = [
        [convs.op_keys[op] for op in matching(placement, text)]
        for text in (
            "group > 1",
            "strides[0] == 2 and dtype == float32",
            "op in (Softmax, Relu)",
            "axis == 1",
            "shape[1] == 3",
        )
    ]
    assert keys == [["deep"], ["deep"], ["y"], ["y"], ["plain"]]


@pytest.fixture(scope="module")
def mobilenet() -> Graph:
    """A float model."""
    return editor.load_model(EXAMPLES / "models" / "mobilenetv2.onnx")


@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [
        ([1, 21, 28, 28], [1, 21, 224, 224], False),
        ([1, 28, 28, 21], [1, 224, 224, 21], False),
        ([1, 28, 28, 21], [1, 84, 84, 21], True),
        ([1, 28, 28, 21], [1, 224, 112, 21], True),
    ],
)
def test_height_and_width_are_found_in_either_order_of_dimensions(
    before: list[int], after: list[int], refused: bool, tmp_path: Path
) -> None:
    """Eight times the size was refused where the channels are last."""
    size = numpy_helper.from_array(np.array(after, np.int64), "size")
    resize = helper.make_node("Resize", ["x", "", "", "size"], ["y"], mode="linear")
    graph = saved(tmp_path, [resize], {"x": list(before)}, ["y"], [size])
    said = reasons(graph, "  preset: ethos-u65\n  assumes: int8\n")["y"]
    assert bool(said) is refused
    assert ("only 2, 4 or 8 times the size" in said) is refused


def test_a_limit_of_dimensions_refuses_ops_whose_tensors_have_more(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Reshape", ["x", "six"], ["r"]),
        helper.make_node("Transpose", ["r"], ["t"], perm=[1, 0, 2, 3, 4, 5]),
        helper.make_node("Reshape", ["t", "two"], ["f"]),
        helper.make_node("Relu", ["f"], ["y"]),
    ]
    shapes = [
        numpy_helper.from_array(np.array([2, 2, 1, 1, 1, 4]), "six"),
        numpy_helper.from_array(np.array([4, 4]), "two"),
    ]
    graph = saved(tmp_path, nodes, {"x": [4, 4]}, ["y"], shapes)
    for text in ("  maxRank: 5", "  preset: coreml-mlprogram", "  preset: coreml-neuralnetwork"):
        refused = reasons(graph, text)
        assert [key for key, reason in refused.items() if reason] == ["r", "t", "f"]
        assert "'r' (2x2x1x1x1x4) has more than 5 dimensions" in refused["t"]
    with pytest.raises(editor.DeviceTableError, match="maxRank must be a whole number above 0"):
        planned("  maxRank: 0")
