"""Reports say what a benchmark of the plan measured."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import editor
from editor.execution.measure.benchmark import Benchmark
from editor.files import json_text
from editor.graph.graph import Graph
from editor.placement.device_profile import DeviceProfile, save_profile
from editor.text import human_seconds

TABLE = [
    {"name": "A", "backendName": "CPU", "nonSupportedNodes": "Gemm"},
    {"name": "B", "backendName": "CPU"},
]


def test_reports_hold_the_measurement_of_their_plan_and_of_no_other(
    mobilenet: Graph, tmp_path: Path
) -> None:
    plan = editor.partition(mobilenet, TABLE)
    result = plan.benchmark(seconds=0.2)
    file = tmp_path / "result.json"
    file.write_text(json_text([result.to_dict()]))
    median, interval = result.total.median, [result.total.low, result.total.high]

    report = json.loads(plan.export("json", tmp_path / "json", measured=str(file))[0].read_text())
    assert (
        report["measurement"]["median"] == median and report["measurement"]["interval"] == interval
    )
    assert report["measurement"]["kind"] == "measurement"
    assert [s["measured"] for s in report["subgraphs"]] == [s.time.median for s in result.subgraphs]
    text = plan.export("md", tmp_path / "md", measured=str(file))[0].read_text()
    assert f"**{human_seconds(median)}** (measurement). " in text, "the measurement is the headline"
    assert "The estimate from shapes is " in text
    assert "## Measurement" in text and "Unsplit on A" in text and "within the tolerance" in text
    page = plan.export("html", tmp_path / "html", measured=str(file))[0].read_text()
    assert "Unsplit on A" in page
    assert f"**{human_seconds(median)}** (measurement)" in text, "the figure of the plan"
    assert f"Latency: {human_seconds(median)} (measurement), estimated " in page
    without = plan.export("md", tmp_path / "none")[0].read_text()
    assert (
        "## Measurement" not in without
        and "(estimate from shapes, speed of A and B assumed)." in without
    )

    other = plan.repin({mobilenet.op_keys[plan.placement.placed_ops[5]]: "B"})
    for form in ("md", "html", "json"):
        with pytest.raises(editor.EditorError, match="no benchmark of this plan"):
            other.export(form, tmp_path / "other", measured=str(file))


def test_a_report_says_that_its_measurement_contradicts_the_profile(
    mobilenet: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page marked the prediction as doubtful, and the report did not."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    plan = editor.partition(mobilenet, "HETERO:CPU", policy_options={"costs": "measured"})
    file = tmp_path / "result.json"
    result = plan.benchmark(seconds=0.2)
    file.write_text(json_text([result.to_dict()]))
    placed, [device] = plan.placement.placed_ops.tolist(), plan.devices
    for factor, said in ((3.0, r", doubtful: 3(\.\d)?x too high"), (1.0, "")):
        whole = factor * result.total.median
        seconds = {mobilenet.op_keys[op]: whole / len(placed) for op in placed}
        profile = DeviceProfile(device.description, whole, seconds, {}, (), 0, 0, 0, 0, 0, 1)
        save_profile(mobilenet, device, profile)
        text = plan.export("md", tmp_path, measured=str(file))[0].read_text()
        assert re.search(rf"The prediction from profile is \d\S* m?s{said}\.", text)


def test_a_report_of_stand_ins_has_outputs_and_no_speed(mobilenet: Graph, tmp_path: Path) -> None:
    table = [{"name": "NPU", "nonSupportedNodes": "Gemm"}, {"name": "B", "backendName": "CPU"}]
    plan, file = editor.partition(mobilenet, table), tmp_path / "result.json"
    file.write_text(json_text([plan.benchmark(seconds=0.1).to_dict()]))
    text = plan.export("md", tmp_path, measured=str(file))[0].read_text()
    said = text.partition("## Outputs\n\n")[2].partition("\n\n")[0].splitlines()
    assert said[1] == "- NPU ran on ONNX Runtime, CPU as stand-in."
    figure = r"\d\S*"
    assert re.fullmatch(
        rf"- Largest difference to the unsplit model on B: {figure} relative, within the tolerance of 0.001; "
        rf"{figure} absolute\.",
        said[2],
    ), "an absolute difference beside a relative tolerance read as a failure"
    assert not re.search(r"\d (ms|µs|s|requests/s)\b", "".join(said))


def test_devices_of_one_name_with_other_properties_are_told_apart(
    mobilenet: Graph, tmp_path: Path
) -> None:
    """The baseline of the last plan stood in all reports, as "the same" as the plan; and a report had another plan's run."""
    tables = {
        hint: [{"name": "OV", "backendName": "OpenVINO.CPU", "properties": {"NUM_STREAMS": hint}}]
        for hint in "12"
    }
    plans = {hint: editor.partition(mobilenet, table) for hint, table in tables.items()}
    results = Benchmark({hint: plan.placement for hint, plan in plans.items()}, 0.3).run()
    file = tmp_path / "results.json"
    file.write_text(json_text([result.to_dict() for result in results]))
    for result in results:
        mine, other = sorted(result.baselines, key=lambda b: b.device != "OV")
        assert (
            mine.device == "OV"
            and mine.time == result.total
            and result.ratio_to(mine) == "this plan is the same"
        )
        assert other.device.startswith("OV (") and other.device.endswith(
            f"NUM_STREAMS={3 - int(result.plan)})"
        )
        assert result.ratio_to(other) != "this plan is the same" and other.time != result.total
        report = json.loads(
            plans[result.plan]
            .export("json", tmp_path / result.plan, measured=str(file))[0]
            .read_text()
        )
        assert report["measurement"]["median"] == result.total.median
    first = results[0].to_dict()
    (foreign,) = [b for b in first["baselines"] if b["device"] != "OV"]
    for key in ("median", "low", "high"):
        foreign["time"][key] = first["total"]["low"] / 10
    file.write_text(json_text([first]))
    (page,) = plans[first["plan"]].export("md", tmp_path / "faster", measured=str(file))
    assert f"All of it on {foreign['device']} would be faster." in page.read_text()
    with pytest.raises(editor.EditorError, match="no benchmark of this plan"):
        editor.partition(mobilenet, [{"name": "OV", "backendName": "OpenVINO.CPU"}]).export(
            "md", tmp_path, measured=str(file)
        )


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"subgraphs": 3}', "[" * 100_000])
def test_what_is_no_benchmark_is_said(mobilenet: Graph, tmp_path: Path, text: str) -> None:
    file = tmp_path / "x.json"
    file.write_text(text)
    with pytest.raises(editor.EditorError, match="bench"):
        editor.partition(mobilenet, TABLE).export("md", tmp_path, measured=str(file))
