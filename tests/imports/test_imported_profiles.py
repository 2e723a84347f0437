"""Times from the profilers of other tools become the profile of a device.

The files in ``tests/data/profiles`` were written by the tools themselves (``make.py`` there), TensorRT's by hand after the
source of trtexec.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from conftest import EXAMPLES, ODDITIES, save_net, write_dag
from onnx import TensorProto, helper, numpy_helper

import editor
from editor.errors import EditorError
from editor.imports.device_figures import ProfileReport
from editor.imports.matching import OpNames, times_of_ops
from editor.imports.profile_files import read_times, times_in
from editor.kinds import Kind
from editor.placement.costs import estimate
from editor.placement.device_profile import (
    basis_of,
    best_source,
    costs_of,
    earlier_path,
    forget_profile,
    load_profile,
)
from editor.sandbox.jobs import JobService
from editor.web.app_state import AppState
from editor.web.importing import pins_or_profile_from
from editor.web.open_request import OpenRequest
from editor.web.panels.profiles import profiles_view
from editor.web.panels.verdict import headline
from editor.web.view import figures_of
from editor.workspace.history import Store
from editor.workspace.plan import Plan

PROFILES = Path(__file__).parents[1] / "data" / "profiles"
REAL = (
    "onnxruntime_disable_all.json",
    "onnxruntime_enable_all.json",
    "average.csv",
    "detailed.csv",
    "detailed.json",
    "pc.txt",
)
NPU = [{"name": "NPU", "backendName": "NPU"}, {"name": "CPU", "backendName": "CPU"}]


@pytest.fixture(autouse=True)
def no_profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test finds the profile of another one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def plan_of(
    devices: Sequence[dict[str, object]] = NPU[:1],
    model: Path = PROFILES / "small.onnx",
    **options: object,
) -> Plan:
    return editor.partition(editor.load_model(model), list(devices), **options)  # type: ignore[arg-type]


def brought(path: Path, device: str = "") -> tuple[Plan, ProfileReport]:
    return plan_of().import_profile(path, device, "board", date(2026, 11, 20))


def written(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("name", [*REAL, "tensorrt.json"])
def test_every_op_gets_its_time_from_a_file_of_a_tool(name: str) -> None:
    plan, report = brought(PROFILES / name)
    assert not report.without and report.share > 0.7
    profile = load_profile(plan.graph, plan.devices[0])
    assert profile is not None
    assert sum(profile.seconds.values()) == pytest.approx(report.total * report.share)
    assert report.total == pytest.approx(
        sum(profile.seconds.values()) + sum(lost.seconds for lost in report.unmatched)
    )
    costs = costs_of(plan.graph, plan.devices, best_source(plan.graph, plan.devices))
    basis = basis_of(costs, "measured")
    assert basis.kind is Kind.PREDICTION
    assert "board" in str(basis) and "2026-11-20" in str(basis) and "transfers" in str(basis)
    assert costs.op[plan.graph.key_index["c2"], 0] > 0


def test_a_trace_without_fusion_gives_each_op_its_own_kernel() -> None:
    plan, report = brought(PROFILES / "onnxruntime_disable_all.json")
    events = json.loads((PROFILES / "onnxruntime_disable_all.json").read_text())
    times = [e["dur"] for e in events if e["name"] == "/features/1/conv/Conv_kernel_time"]
    profile = load_profile(plan.graph, plan.devices[0])
    assert profile is not None and report.named == len(plan.graph) and not report.joined
    assert min(times) <= (profile.seconds["c2"] - profile.launch_seconds) * 1e6 <= max(times)
    assert profile.has_launch and profile.runs == 4
    # What is in no kernel passes around each of them: a further subgraph costs one such gap, not the rest of a whole run.
    run = profile.total / 1e-6
    assert 0 < profile.launch_seconds * 1e6 * (len(plan.graph) + 1) < run
    assert profile.total == pytest.approx(sum(profile.seconds.values()) + profile.launch_seconds)


def test_a_fused_layer_is_divided_over_its_ops_and_keeps_its_sum() -> None:
    plan = plan_of()
    times = read_times(PROFILES / "tensorrt.json")
    found = times_of_ops(plan.graph, times)
    by_key = {plan.graph.op_keys[op]: seconds for op, seconds in found.seconds.items()}
    assert by_key["c1"] + by_key["b1"] + by_key["r1"] == pytest.approx(
        24e-6
    )  # with the copy in front of it
    assert by_key["s2"] + by_key["m2"] + by_key["a2"] == pytest.approx(8e-6)
    assert sum(by_key[k] for k in ("p", "f", "logits", "y")) == pytest.approx(14e-6)
    assert by_key["c1"] > by_key["r1"] > 0
    assert [lost.name for lost in found.unmatched] == ["__myl_Fill_myl0_1"]


def test_a_layer_named_after_its_last_op_has_the_ops_before_it_too() -> None:
    """ONNX Runtime calls a convolution with its activation ``<output of the activation>_nchwc``."""
    plan, report = brought(PROFILES / "onnxruntime_enable_all.json")
    profile = load_profile(plan.graph, plan.devices[0])
    assert profile is not None and {profile.fused[k] for k in ("c1", "b1", "r1")} == {
        profile.fused["r1"]
    }
    assert profile.seconds["c1"] > profile.seconds["r1"]
    assert [lost.name for lost in report.unmatched] == ["ReorderOutput"]


def test_a_name_of_openvinos_making_is_matched_by_type_where_there_is_no_doubt() -> None:
    """OpenVINO calls a convolution that it folded a normalisation into ``Multiply_3826``."""
    plan, report = brought(PROFILES / "average.csv")
    profile = load_profile(plan.graph, plan.devices[0])
    assert (
        profile is not None
        and profile.seconds["c1"] == pytest.approx(18e-6, rel=0.7)
        and report.ordered == 1
    )
    assert "1 by type and order" in report.text


def test_names_that_a_tool_cut_are_matched_where_one_op_begins_so() -> None:
    _, report = brought(PROFILES / "pc.txt")
    lost = {one.name: one.reason for one in report.unmatched}
    assert "Convert_44_abcd_..." in lost and "cut" in lost["Convert_44_abcd_..."]
    assert not report.without


def test_a_sorted_table_is_not_matched_by_order(tmp_path: Path) -> None:
    """Two convolutions with names of OpenVINO's making are matched in the order of execution, which a sorted table lacks."""
    head = "layerName;execStatus;layerType;execType;realTime (ms);cpuTime (ms)"
    rows = [
        "Multiply_1;EXECUTED;Convolution;x;0.020;0.020",
        "Multiply_2;EXECUTED;Convolution;x;0.010;0.010",
        "y;EXECUTED;Softmax;x;0.1;0",
    ]
    in_order = written(tmp_path / "a.csv", head, *rows, "Total;;;;0.1;0.1")
    by_time = written(
        tmp_path / "b.csv", f"{head}; %", *(f"{row};33.3" for row in rows), "Total;;;;0.1;0.1;100"
    )
    plan, report = brought(in_order)
    profile = load_profile(plan.graph, plan.devices[0])
    assert (
        report.ordered == 2
        and profile is not None
        and profile.seconds["c1"] > profile.seconds["c2"]
    )
    assert brought(by_time)[1].ordered == 0


def attention(path: Path) -> Path:
    """Two attentions one after the other, with names as exporters give them."""
    nodes = [helper.make_node("Relu", ["x"], ["r"])]
    for i, name in enumerate(("r", "out0")):
        nodes += [
            helper.make_node("MatMul", [name, name], [f"q{i}"], f"qk_{i}"),
            helper.make_node("Mul", [f"q{i}", f"q{i}"], [f"m{i}"], f"scale_{i}"),
            helper.make_node("Softmax", [f"m{i}"], [f"s{i}"], f"softmax_{i}"),
            helper.make_node(
                "MatMul", [f"s{i}", name], [f"out{i}"], f"node_scaled_dot_product_attention_{i}"
            ),
        ]
    info = helper.make_tensor_value_info
    return save_net(
        path,
        nodes,
        [info("x", TensorProto.FLOAT, [8, 8])],
        [info("out1", TensorProto.FLOAT, [8, 8])],
    )


def test_an_attention_that_openvino_fused_is_one_layer_whole_or_cut(tmp_path: Path) -> None:
    """Its first product and Softmax kept an estimate, and so were counted twice; layers with one cut name were one layer."""
    model = attention(tmp_path / "net.onnx")
    names = ["node_scaled_dot_product_attention_0", "node_scaled_dot_product_attention_1"]
    head = "layerName;execStatus;layerType;execType;realTime (ms);cpuTime (ms)"
    table = written(
        tmp_path / "t.csv",
        head,
        "r;EXECUTED;Eltwise;x;0.010;0.010",
        *(f"{name};EXECUTED;Subgraph;x;0.{i + 1}00;0.1" for i, name in enumerate(names)),
        "Total;;;;0.310;0.310",
    )
    line = "{}  Status.EXECUTED  layerType: {}  execType: x  realTime (ms): 0.{}0  cpuTime (ms): 0"
    cut = written(
        tmp_path / "pc.txt",
        line.format("r", "Eltwise", "01"),
        *(line.format("node_scaled_dot_...", "Subgraph", f"{i + 1}0") for i in range(2)),
        "Total time: 0.310 milliseconds",
    )
    for file in (table, cut):
        plan, report = plan_of(model=model).import_profile(file, "NPU")
        profile = load_profile(plan.graph, plan.devices[0])
        assert not report.without and not report.unmatched and report.share == 1, file
        assert profile is not None and profile.total == pytest.approx(310e-6)
        for i in range(2):
            assert sum(profile.seconds[f"{k}{i}"] for k in ("q", "m", "s", "out")) == pytest.approx(
                (i + 1) * 100e-6
            ), file


def test_a_device_is_found_in_the_name_of_a_file_though_another_is_a_part_of_it(
    tmp_path: Path,
) -> None:
    plan = plan_of([{"name": "OpenVINO.CPU"}, {"name": "CPU"}])
    for name, device in (("OpenVINO.CPU_counters", "OpenVINO.CPU"), ("ort_CPU", "CPU")):
        assert (
            plan.import_profile(written(tmp_path / f"{name}.csv", "op,us", "c1,5"))[1].device
            == device
        )


def test_averages_as_json_of_the_python_tool_are_refused_with_the_way_out() -> None:
    with pytest.raises(EditorError, match=r"average\.json.*detailed_counters, or CSV"):
        brought(PROFILES / "average.json")


def test_a_table_names_ops_by_key_or_name_and_the_rest_keeps_estimates(tmp_path: Path) -> None:
    table = written(
        tmp_path / "t.csv",
        "# by hand",
        "op,microseconds",
        "c1,100",
        "/features/1/conv/Conv,200.5",
        "nobody,7",
    )
    plan, report = brought(table)
    profile = load_profile(plan.graph, plan.devices[0])
    assert profile is not None
    assert profile.seconds == {"c1": pytest.approx(100e-6), "c2": pytest.approx(200.5e-6)}
    assert {"y", "b1"} <= set(report.without)
    assert [(lost.name, lost.seconds) for lost in report.unmatched] == [
        ("nobody", pytest.approx(7e-6))
    ]
    costs = costs_of(plan.graph, plan.devices, "measured")
    shapes = estimate(plan.graph, plan.devices)
    assert costs.op[plan.graph.key_index["y"], 0] == shapes.op[plan.graph.key_index["y"], 0]
    words = "estimate in part from imported profile (NPU: table on board, 2026-11-20"
    assert str(basis_of(costs, "measured")).startswith(words)
    text = "\n".join(report.problems(20))
    assert "'nobody': 7 µs not matched" in text and "'y': no figure in the file" in text
    assert "2 of 11 ops" in report.text and "97.7 % of 308 µs matched" in report.text


def test_a_table_that_has_an_op_in_several_rows_adds_them_and_says_so(tmp_path: Path) -> None:
    table = written(
        tmp_path / "t.csv", "op,microseconds", "c1,100", "c1,20", "c2,1", "/features/1/conv/Conv,2"
    )
    plan, report = brought(table)
    profile = load_profile(plan.graph, plan.devices[0])
    assert profile is not None and profile.seconds == {
        "c1": pytest.approx(120e-6),
        "c2": pytest.approx(3e-6),
    }
    text = "\n".join(report.problems(20))
    assert "'c1' stands in 2 rows: their times were added" in text
    assert "'c2' has a row by this key and one by its node's name: their times were added" in text


@pytest.mark.parametrize(
    ("lines", "seconds"),
    [
        (("c1,5",), 5e-6),
        (("name;x", "c1,5"), None),
        (("layer,type,ms", "c1,Conv,5"), 5e-3),
        (("seconds,op", "0.5,c1"), 0.5),
        (("op,us", "c1,2", "c1,3"), 5e-6),
    ],
)
def test_tables_have_several_forms(
    tmp_path: Path, lines: tuple[str, ...], seconds: float | None
) -> None:
    path = written(tmp_path / "t.csv", *lines)
    if seconds is None:
        assert times_in(path) is None
    else:
        assert read_times(path).layers[0].seconds == pytest.approx(seconds)


def test_a_table_of_affinities_is_no_table_of_times(tmp_path: Path) -> None:
    assert times_in(written(tmp_path / "a.csv", "op,device", "c1,CPU")) is None
    assert times_in(written(tmp_path / "a.json", '{"c1": "CPU"}')) is None
    numbers = written(
        tmp_path / "units.csv", "c1,0", "c2,1"
    )  # labels of units, unless somebody says that they are times
    assert times_in(numbers) is None and len(read_times(numbers).layers) == 2


def test_planned_devices_of_one_backend_have_profiles_of_their_own(tmp_path: Path) -> None:
    plan = plan_of([{"name": "old", "backendName": "NPU"}, {"name": "new", "backendName": "NPU"}])
    for name, time in (("old", 900), ("new", 100)):
        plan.import_profile(
            written(tmp_path / f"{name}.csv", *(f"{key},{time}" for key in plan.graph.op_keys)),
            name,
        )
    costs = costs_of(plan.graph, plan.devices, "measured")
    assert costs.op[0].tolist() == pytest.approx([900e-6, 100e-6]) and not costs.estimated
    faster = editor.partition(
        plan.graph, plan.devices, "optimal", policy_options={"costs": "measured"}
    )
    assert set(faster.affinity.values()) == {"new"}


def test_the_device_is_the_only_planned_one_or_the_one_that_the_files_name_says(
    tmp_path: Path,
) -> None:
    table = written(tmp_path / "t.csv", "c1,5")
    assert plan_of(NPU).import_profile(table)[1].device == "NPU"
    assert plan_of(NPU).import_profile(written(tmp_path / "my-cpu.csv", "c1,5"))[1].device == "CPU"
    two = plan_of([{"name": "A", "backendName": "NPU"}, {"name": "B", "backendName": "NPU"}])
    with pytest.raises(EditorError, match="say which device it is of.*A, B"):
        two.import_profile(table)
    with pytest.raises(EditorError, match="unknown device 'C'"):
        two.import_profile(table, "C")


def test_what_another_provider_ran_is_not_the_devices(tmp_path: Path) -> None:
    events = json.loads((PROFILES / "onnxruntime_disable_all.json").read_text())
    for event in events:
        if event.get("cat") == "Node" and "Conv_kernel" in event["name"]:
            event["args"]["provider"] = "QNNExecutionProvider"
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(events))
    plan, report = brought(path)
    profile = load_profile(plan.graph, plan.devices[0])
    assert profile is not None and {"c1", "c2"} <= set(profile.seconds) and "y" in report.without
    assert {one.reason for one in report.unmatched} == {
        "ran on CPUExecutionProvider"
    } and report.share == 1
    assert "taken as NPU: what ran on QNNExecutionProvider" in report.notes


def test_layers_that_only_start_kernels_are_told(tmp_path: Path) -> None:
    events = json.loads((PROFILES / "onnxruntime_disable_all.json").read_text())
    for event in events:
        if event.get("cat") == "Node":
            event["dur"] /= 10
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(events))
    plan, report = brought(path)
    profile = load_profile(plan.graph, plan.devices[0])
    assert (
        any("the start of a kernel" in note for note in report.notes)
        and profile is not None
        and not profile.has_launch
    )


def test_the_time_in_a_body_is_part_of_its_loop(tmp_path: Path) -> None:
    """ONNX Runtime lists kernels of bodies beside those of the graph: they counted twice."""
    options = ort.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "trace")
    model = ODDITIES / "loop_outer_capture.onnx"
    session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    types = {"tensor(int64)": np.int64, "tensor(bool)": bool}
    feeds = {
        i.name: np.ones(
            [d if isinstance(d, int) else 1 for d in i.shape], types.get(i.type, np.float32)
        )
        for i in session.get_inputs()
    }
    for _ in range(3):
        session.run(None, feeds)
    times = read_times(Path(session.end_profiling()))
    assert "Loop" in [layer.type for layer in times.layers]
    assert len(times.layers) <= len(onnx.load(model).graph.node)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("t.json", "[{", "not valid JSON"),
        ("t.json", "{}", "no times of layers"),
        ("t.txt", "hello", "no times of layers"),
        ("t.png", "", "no times of layers"),
        ("t.csv", "op,us\nc1,fast\n", "line 2: 'fast' is not a time"),
        ("t.csv", "op,us\nc1,-1\n", "line 2"),
        ("t.csv", "op,us\nc1,nan\n", "line 2"),
        ("t.csv", "op,us\nc1\n", "line 2"),
        ("t.csv", "op,us\n", "no layer"),
        ("t.csv", "op,us\n,5\n", "line 2: a layer needs a name"),
        ("t.csv", 'op,us\n"a\nb",5\n', "several lines"),
        (
            "t.csv",
            "layerName;execStatus;layerType;execType;realTime (ms);cpuTime (ms)\nx;EXECUTED;Conv\n",
            "line 2: 6 columns",
        ),
        (
            "t.csv",
            "layerName;execStatus;layerType;execType;realTime (ms);cpuTime (ms)\nx;EXECUTED;a;b;z;0\n",
            "line 2: 'z'",
        ),
        ("t.json", '[{"averageMs": 1}]', "entry 1: a layer needs a name"),
        (
            "t.json",
            '[{"count": 3}, {"name": "a", "averageMs": null}]',
            "entry 2: None is not a time",
        ),
        ("t.json", '[{"averageMs": 1, "name": "a"}, 3]', "entry 2: a layer is a mapping"),
        (
            "t.json",
            '[{"cat": "Node", "name": "a_kernel_time"}]',
            "entry 1: the event .* no time stamp",
        ),
        (
            "t.json",
            '[{"cat": "Node", "name": "a_kernel_time", "ts": 1, "dur": "x"}]',
            "entry 1: 'x'",
        ),
        ("t.json", '[{"cat": "Session", "name": "model_run", "ts": 1, "dur": 4}]', "no layer"),
        (
            "t.json",
            '{"detailed_performance": [{"nodes": 3}]}',
            "infer request 1: it has no list of nodes",
        ),
        (
            "t.json",
            '{"detailed_performance": [{"nodes": [{"name": "a", "real_time": []}]}]}',
            "infer request 1, node 1",
        ),
        ("t.json", '{"format": "hetero-editor/profile", "version": 9}', "version 9"),
        (
            "t.json",
            '{"format": "hetero-editor/profile", "version": 1, "groups": 3}',
            "groups must be a list",
        ),
        (
            "t.json",
            '{"format": "hetero-editor/profile", "version": 1, "groups": [{"ops": {"a": "b"}, "seconds": -1}]}',
            "entry 0",
        ),
    ],
)
def test_a_damaged_file_is_an_error_that_names_file_and_place(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(EditorError, match=message) as caught:
        plan_of().import_profile(path, "NPU")
    assert name in str(caught.value)


def test_a_file_of_another_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        EditorError, match="no layer of this file is an op of small on NPU; the longest is 'b'"
    ):
        brought(written(tmp_path / "t.csv", "a,1", "b,2"))


@pytest.mark.parametrize(
    "lines", [["twice,1"], ["twice,1", "twice,2"], ["twice + again,1", "twice + again,1"]]
)
def test_a_file_whose_layers_all_have_a_match_that_counts_for_nothing_is_refused(
    tmp_path: Path, lines: list[str]
) -> None:
    """What only computes constants is left out: the editor computes those once."""
    value, weights = (
        helper.make_tensor_value_info,
        numpy_helper.from_array(np.ones(4, np.float32), "w"),
    )
    nodes = [
        helper.make_node("Neg", ["w"], ["t"], "twice"),
        helper.make_node("Abs", ["t"], ["a"], "again"),
        helper.make_node("Add", ["x", "a"], ["y"], "sum"),
    ]
    save_net(tmp_path / "net.onnx", nodes, [value("x", 1, [4])], [value("y", 1, [4])], [weights])
    with pytest.raises(
        EditorError,
        match="no layer of this file is an op of net on NPU: its layers only compute constants",
    ):
        plan_of(model=tmp_path / "net.onnx").import_profile(
            written(tmp_path / "t.csv", "op,seconds", *lines), "NPU"
        )


def test_more_layers_than_a_model_may_have_ops_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "t.csv", *(f"op{i},1" for i in range(40)))
    plan = plan_of()
    monkeypatch.setenv("HETERO_LIMIT_OPS", "20")
    with pytest.raises(EditorError, match="40 layers, the limit is 20"):
        plan.import_profile(path)


def test_hostile_names_take_no_time(tmp_path: Path) -> None:
    names = [
        "PWN(" * 16_000,
        "{ForeignNode[" + "..." * 20_000,
        "a + " * 16_000,
        "x" * 60_000 + "...",
        " " * 60_000 + "y",
        "/" * 60_000,
    ]
    entries = [{"name": name, "averageMs": 1.0} for name in names] + [
        {"name": "c1", "averageMs": 1.0}
    ]
    entries += [
        {"name": f"{{ForeignNode[c1...y]}}{' ' * i}", "averageMs": 1.0} for i in range(3000)
    ]
    path = tmp_path / "t.json"
    path.write_text(json.dumps(entries))
    _, report = brought(path)
    assert report.unmatched


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("n2", ["t2"]),
        ("t2", ["t2"]),
        ("fused n2", ["t2"]),
        ("n2/WithoutBiases", ["t2"]),
        ("n2_nchwc", ["t2"]),
        ("n2/LayerNormFusion/", ["t2"]),
        ("n0 + n1", ["t0", "t1"]),
        ("PWN(n1, n2)", ["t1", "t2"]),
        ("n0 || n3", ["t0", "t3"]),
        ("{ForeignNode[n0...n3]}", ["t0", "t1", "t2", "t3"]),
        ("Reformatting CopyNode for Output Tensor 0 to n1 + n2", ["t1", "t2"]),
        ("n", []),
        ("n22", []),
        ("__myl_MulAdd", []),
        ("{ForeignNode[n9...n8]}", []),
    ],
)
def test_names_lead_to_the_ops_that_they_state(tmp_path: Path, name: str, keys: list[str]) -> None:
    graph = editor.load_model(write_dag(tmp_path / "m.onnx", [[], [0], [1], [2]]))
    assert [graph.op_keys[op] for op in OpNames(graph, by_key=False).of_layer(name)] == keys


def test_a_name_of_two_nodes_is_no_match(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Neg", ["x"], ["a"], "same"),
        helper.make_node("Neg", ["a"], ["b"], "same"),
    ]
    value = helper.make_tensor_value_info
    save_net(
        tmp_path / "m.onnx",
        nodes,
        [value("x", TensorProto.FLOAT, [2])],
        [value("b", TensorProto.FLOAT, [2])],
    )
    times = read_times(written(tmp_path / "t.csv", "same,5", "b,6"))
    found = times_of_ops(editor.load_model(tmp_path / "m.onnx"), times)
    assert (
        found.seconds == {1: pytest.approx(6e-6)}
        and found.unmatched[0].reason == "2 ops have this name"
    )


def test_the_page_takes_a_profile_and_figures_follow_it(tmp_path: Path) -> None:
    jobs = JobService()
    state = AppState(Store(str(tmp_path / "workspace")), jobs, None, EXAMPLES)
    try:
        document = state.open(OpenRequest(str(PROFILES / "small.onnx"), NPU[:1]))
        document.set_automatic("optimal", {"costs": "measured"}, "minimal")
        assert figures_of(document)["basis"].kind is Kind.ESTIMATE  # type: ignore[union-attr]

        def told(content: bytes, name: str = "npu.csv") -> dict[str, Any]:
            edit = pins_or_profile_from(document, content, name)["edit"]
            assert edit["do"] == "show"
            return dict(edit["message"])

        message = told((PROFILES / "average.csv").read_bytes(), "npu board.csv")
        assert (
            message["text"].startswith("Profile of NPU from npu board.csv: OpenVINO benchmark_app")
            and not message["bad"]
        )
        figures = figures_of(document)
        assert (
            figures["basis"].kind is Kind.PREDICTION
            and figures["predicted"] == document.placement.assignment.objective
        )  # type: ignore[union-attr]
        assert "choose" not in message["text"] and "another model" not in message["text"]
        document.set_automatic("optimal", {}, "minimal")  # by estimates
        few = (
            "op,us\n"
            + f"{document.graph.op_keys[int(document.graph.order[-1])]},5\n"
            + "elsewhere,9\n"
        )
        message = told(few.encode())
        assert (
            message["bad"]
            and "of another model? In the tab Benchmark the profile before" in message["text"]
        )
        forget_profile(document.graph, document.devices[0])
        earlier_path(document.graph, document.devices[0]).unlink()
        first = told(few.encode())
        assert "In the tab Benchmark it can be forgotten" in first["text"], (
            "there is nothing to put back"
        )
        assert "choose “Costs: from a profile” to go by it" in message["text"]
        kit = json.loads((PROFILES / "kit.json").read_text())
        kit["wholes"][0]["after"] = 2 * kit["wholes"][0]["seconds"]
        message = told(json.dumps(kit).encode(), "profile.json")
        assert message["bad"] and "\nmeasured on CPU, not on NPU\n" in message["text"]
        document.set_automatic("optimal", {"costs": "measured"}, "minimal")
        assert "NPU measured on CPU, profile of NPU measured on a busy" in ", ".join(
            headline(document).assumptions
        )
        doubts = str(profiles_view(document))
        assert "measured on CPU, not on NPU; whole 0 took" in doubts
        assert "the machine was not quiet" in doubts
        damaged = told(b"op,us\nc1,x\n")
        assert damaged["bad"] and "line 2: 'x' is not a time" in damaged["text"]
    finally:
        state.close()
        jobs.close()
