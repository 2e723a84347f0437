"""A plan has one figure, whoever shows it."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from conftest import ROOT
from decoders import plain_decoder
from onnx import TensorProto, helper, numpy_helper

import editor
from editor.__main__ import main
from editor.graph.flops import op_traffic
from editor.graph.graph import Graph
from editor.kinds import Kind, too_close
from editor.placement.chosen_costs import costs_of_plan, left_out
from editor.placement.device_profile import DeviceProfile, costs_of, save_profile


@pytest.mark.parametrize(
    ("policy", "options", "by_profile"),
    [
        ("priority", {}, True),
        ("priority", {"costs": "estimate"}, False),
        ("optimal", {}, False),
        ("optimal", {"costs": "measured"}, True),
    ],
)
def test_reports_and_checks_go_by_the_costs_that_were_chosen(
    mobilenet: Graph,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    policy: str,
    options: dict[str, str],
    by_profile: bool,
) -> None:
    """The status bar said 94.6 ms, the report that was made from it 59.1: it took the profile that the plan does not go by."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    [device] = editor.partition(mobilenet, "HETERO:CPU").devices
    keys = [
        key
        for key, constant in zip(mobilenet.op_keys, mobilenet.op_is_constant.tolist(), strict=True)
        if not constant
    ]
    save_profile(
        mobilenet,
        device,
        DeviceProfile(
            device.description,
            2e-3 * len(keys),
            dict.fromkeys(keys, 2e-3),
            {},
            (),
            1e-5,
            0.0,
            0.0,
            0.0,
            0.0,
            1,
        ),
    )
    plan = editor.partition(mobilenet, "HETERO:CPU", policy=policy, policy_options=options)
    report = json.loads(plan.export("json", tmp_path)[0].read_text())["totals"]
    assert main(["check", str(plan.save(tmp_path / "plan.json")), "--json"]) == 0
    checked = json.loads(capsys.readouterr().out)
    (row,) = plan.at_sizes([{}])
    assert row.figures["predicted"] == pytest.approx(report["latency"])
    with plan.export("csv", tmp_path)[0].open() as file:
        rows = list(csv.DictReader(line for line in file if line[0] != "#"))
    assert (report["latency"], report["kind"]) == (checked["latency"], checked["kind"])
    assert report["kind"] == ("prediction" if by_profile else "estimate")
    assert {r["kind"] for r in rows} == {report["kind"]}
    assert (report["latency"] > 0.1) is by_profile is (float(rows[0]["seconds"]) == 2e-3)


def test_inputs_and_outputs_of_the_model_are_counted_where_a_link_says_so(
    mobilenet: Graph, tmp_path: Path
) -> None:
    """602,112 bytes come in and 4,000 go out; behind a slow link the ends of the model are better on the host."""
    link = {"bandwidth": "100 MB/s", "latency": "1ms"}
    npu = {"name": "NPU", "peakCompute": "4 TOPS", "peakDramBw": "30 GB/s", "link": link}
    plans = [
        editor.partition(mobilenet, [{**npu, "link": {**link, **ends}}, {"name": "CPU"}])
        for ends in ({}, {"ends": "counted"})
    ]
    left_out, counted = [plan.placement.price(costs_of_plan(plan.placement)[0]) for plan in plans]
    assert left_out.transfers == 0
    assert counted.transfers == pytest.approx(2 * 1e-3 + (602_112 + 4_000) / 100e6)
    assert counted.compute == left_out.compute
    busy = [plan.placement.busy_seconds(costs_of_plan(plan.placement)[0])[0] for plan in plans]
    assert busy[1] - busy[0] == pytest.approx(counted.transfers)
    said = [plan.export("md", tmp_path)[0].read_text() for plan in plans]
    assert ["not counted" in text for text in said] == [True, False]
    stored = json.loads(plans[1].save(tmp_path / "plan.json").read_text())
    assert stored["devices"][0]["link"]["ends"] == "counted"
    with pytest.raises(
        editor.DeviceTableError,
        match=r"Model inputs and outputs \(ends\) must be counted or left out",
    ):
        editor.load_devices([{**npu, "link": {"ends": "maybe"}}])


def test_weights_that_do_not_fit_on_a_chip_without_dram_come_over_its_link(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An Edge TPU had 100 GB/s for the 54 MB of FCN-ResNet101; it keeps 8 MB of them and has 500 MB/s for the rest."""
    path = str(ROOT / "examples" / "models" / "fcn-resnet101.onnx")
    large = editor.load_model(path)
    npu = {"name": "NPU", "preset": "edgetpu", "assumes": "int8"}
    with_dram = editor.partition(large, [{**npu, "onChipMemory": ""}, {"name": "CPU"}]).placement
    without = editor.partition(large, [npu, {"name": "CPU"}])
    seconds = [each.price(costs_of_plan(each)[0]).total for each in (with_dram, without.placement)]
    assert seconds[1] - seconds[0] > 0.7 * 46e6 / 500e6  # what computes meanwhile is not added
    said = "46.26 MB of weights of NPU over its link in each run, beyond 8 MB on its chip"
    assert said in left_out(without.placement, costs_of_plan(without.placement)[0])
    assert said in without.export("md", tmp_path)[0].read_text()
    devices = ["--devices", "HETERO:NPU(edgetpu as int8),CPU", "--out", str(tmp_path / "out")]
    assert main(["partition", path, *devices]) == 0
    assert f"estimates: {said}\n" in capsys.readouterr().out
    assert "its chip" not in str(left_out(with_dram, costs_of_plan(with_dram)[0]))


def test_weights_that_fit_on_the_chip_take_no_time_of_the_link(mobilenet: Graph) -> None:
    plans = [
        editor.partition(mobilenet, [{"name": "NPU", "preset": "edgetpu", **keys}, {"name": "CPU"}])
        for keys in ({"assumes": "int8"}, {"assumes": "int8", "onChipMemory": ""})
    ]
    fits, with_dram = [plan.placement.price(costs_of_plan(plan.placement)[0]) for plan in plans]
    assert fits == with_dram


def test_the_figures_that_are_assumed_may_be_said_with_it(
    mobilenet: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The header said "Peaks of OpenVINO.CPU and CPU assumed", and only a report had the values."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for speed, said in (
        ({}, "speed of A and B assumed: 200 GFLOP/s, memory 20 GB/s"),
        ({"peakCompute": 1e12}, "speed of A assumed: 200 GFLOP/s, memory 20 GB/s"),
    ):
        table = [{"name": "A", "backendName": "CPU"}, {"name": "B", "backendName": "CPU", **speed}]
        key = mobilenet.op_keys[mobilenet.op_types.index("ReduceMean")]
        placement = editor.partition(mobilenet, table, pins={key: "B"}).placement
        costs = costs_of_plan(placement)[0]
        assert said in left_out(placement, costs, values=True)
        assert said.partition(":")[0] in left_out(placement, costs)
    npu = [{"name": "NPU", "backendName": "NPU"}, {"name": "CPU", "backendName": "CPU"}]
    placement = editor.partition(mobilenet, npu, pins={key: "CPU"}).placement
    assert "speed and link of NPU assumed: " in str(
        left_out(placement, costs_of_plan(placement)[0], values=True)
    )


def test_what_a_preset_assumes_is_called_so_until_the_table_states_it(mobilenet: Graph) -> None:
    npu = {"name": "NPU", "preset": "hailo8", "onChipMemory": "1 MB"}
    for keys, said in ((npu, "1 MB on its chip"), ({**npu, "onChipMemory": None}, "")):
        placement = editor.partition(mobilenet, [keys, {"name": "CPU"}]).placement
        notes = str(left_out(placement, costs_of_plan(placement)[0]))
        assert said in notes and ("over its link" in notes) == bool(said)
    large = editor.load_model(str(ROOT / "examples" / "models" / "fcn-resnet101.onnx"))
    placement = editor.partition(large, "HETERO:NPU(hailo8),CPU").placement
    assert "beyond 26 MB (assumed) on its chip" in str(
        left_out(placement, costs_of_plan(placement)[0])
    )


def test_a_disturbed_profile_tells_plans_apart_as_badly_as_an_estimate(
    mobilenet: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was measured beside other work ranked layouts that were 10 % apart."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    plan = editor.partition(mobilenet, "HETERO:CPU", policy_options={"costs": "measured"})
    [device] = plan.devices
    keys = [mobilenet.op_keys[op] for op in plan.placement.placed_ops.tolist()]
    quiet = DeviceProfile(
        device.description, 0.1, dict.fromkeys(keys, 1e-3), {}, (), 1e-5, 0, 0, 0, 0, 1
    )
    for profile, said in (
        (quiet, []),
        (
            replace(quiet, disturbances=("other programs were busy",)),
            ["profile of CPU measured on a busy machine"],
        ),
    ):
        save_profile(mobilenet, device, profile)
        costs, basis = costs_of_plan(plan.placement)
        assert left_out(plan.placement, costs) == said
        assert basis.kind is Kind.PREDICTION and too_close(1.0, 1.1, basis) == bool(said)


def test_an_embedding_takes_the_time_of_its_rows_and_not_of_the_table(tmp_path: Path) -> None:
    info = helper.make_tensor_value_info
    table = numpy_helper.from_array(np.zeros((50_000, 64), np.float32), "table")
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"], name="embed"),
        helper.make_node("Slice", ["rows", "zero", "one", "zero"], ["first"], name="slice"),
        helper.make_node("Relu", ["first"], ["y"], name="relu"),
    ]
    numbers = [
        numpy_helper.from_array(np.array([n]), name) for n, name in ((0, "zero"), (1, "one"))
    ]
    graph = helper.make_graph(
        nodes,
        "embedding",
        [info("ids", TensorProto.INT64, [8])],
        [info("y", TensorProto.FLOAT, [1, 64])],
        [table, *numbers],
    )
    onnx.save(helper.make_model(graph), tmp_path / "m.onnx")
    loaded = editor.load_model(tmp_path / "m.onnx")
    moved = dict(zip(loaded.op_types, op_traffic(loaded), strict=True))
    assert moved["Gather"] == 8 * 8 + 2 * 8 * 64 * 4
    assert moved["Slice"] == 2 * 64 * 4 + 2 * 8
    assert moved["Relu"] == 2 * 64 * 4


def test_states_of_a_language_model_are_no_host_input(tmp_path: Path) -> None:
    """They stay where they are: at 4,000 tokens of context they are most of what a step reads."""
    path = plain_decoder(tmp_path / "decoder.onnx")
    table = [{"name": "Card", "backendName": "CUDA"}, {"name": "CPU", "backendName": "CPU"}]

    def counted(past: int) -> str:
        sizes = {"batch": 1, "sequence_length": 1, "past_sequence_length": past}
        placement = editor.partition(editor.load_model(path, sizes), table).placement
        said = left_out(
            placement, costs_of(placement.graph, placement.devices, "estimate"), values=True
        )
        (line,) = (each for each in said if each.startswith("host input and output not counted ("))
        return line

    size = re.compile(r"\(([\d.]+) (k?B), about ")
    few, many = (size.search(counted(past)) for past in (8, 4000))
    assert few and many and float(many[1]) < 64 and many[2] == "kB", "ids, mask and logits"
