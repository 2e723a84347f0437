"""What the page says of plans that were not measured: beside not splitting, and beside measurements of other plans."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import EXAMPLES

from editor.placement.device_profile import DeviceProfile, profile_path, save_profile
from editor.web.app_state import AppState
from editor.web.drawing.panes import panes_data
from editor.web.open_request import OpenRequest
from editor.web.packing import written
from editor.web.panels.compare import compare_view
from editor.web.panels.devices import outcome
from editor.web.panels.status import status
from editor.web.panels.verdict import verdict
from editor.web.view import fastest_unsplit, measured_run, plan_costs, unsplit_ways
from editor.workspace.document import Document

_MODEL = str(EXAMPLES / "models" / "mobilenetv2.onnx")
_FAST = {"name": "Fast", "backendName": "CUDA", "peakCompute": "1 TOPS", "peakDramBw": "99 GB/s"}
_CPU = {"name": "CPU", "peakCompute": "200 GFLOPS", "peakDramBw": "20 GB/s"}


def _open(state: AppState, *devices: dict[str, Any]) -> Document:
    return state.open(OpenRequest(_MODEL, list(devices)))


def _words(document: Document) -> str:
    return str([part.to_plotly_json() for part in verdict(document) if part is not None])


def test_an_estimate_says_how_a_split_compares_with_not_splitting(state: AppState) -> None:
    split = _open(state, _FAST, _CPU)
    assert "not splitting" not in _words(split).replace("compares it with not splitting", "")
    split.pin(split.placement.placed_ops[::9].tolist(), "CPU")
    unsplit = fastest_unsplit(split)
    assert not isinstance(unsplit, str) and unsplit.device == "Fast"
    said = _words(split)
    assert "'estimated '" in said and "slower'" in said and " on Fast)'" in said


def test_a_rate_says_how_long_each_takes_and_what_a_benchmark_of_planned_devices_checks(
    state: AppState,
) -> None:
    """It was "3.6x faster" of a plan whose answers take longer; a pipeline said nothing of the device that is not here."""
    npu = {"name": "NPU", "peakCompute": "400 GFLOPS", "peakDramBw": "30 GB/s"}
    split = _open(state, npu, _CPU)
    for policy in ("throughput", "pipeline"):
        if policy == "pipeline":
            split.set_automatic("pipeline", {}, "minimal")
        else:
            split.set_automatic("optimal", {"objective": "throughput"}, "minimal")
        said = _words(split)
        assert re.search(r"; each takes [\d.]+ ms", said)
        assert "NPU is not on this machine: Benchmark checks results, not speed" in said


def test_an_estimate_stands_beside_estimates_and_is_doubtful_where_they_were_wrong(
    state: AppState, tmp_path: Path
) -> None:
    """ "3.9x faster than not splitting (36.5 ms, measured)" was said of a plan with the same estimate as not splitting."""
    split = _open(state, _FAST, _CPU, {"backendName": "OpenVINO.CPU"})
    split.pin(split.placement.placed_ops[::9].tolist(), "CPU")
    before = _words(split)
    assert "doubtful" not in before and "'estimated '" in before
    time = {"median": 1e-4, "low": 9e-5, "high": 1.1e-4}
    slow = {name: 100 * seconds for name, seconds in time.items()}
    report = {
        "baselines": [
            {"device": "CPU", "time": time, "throughput": 0.0},
            {"device": "OpenVINO.CPU", "time": slow, "throughput": 0.0},
        ]
    }
    # The planned device was simulated: the plan itself has no figure.
    figures = {"estimated": True, "mode": "latency", "requests": 1, "throughput": 1.0}
    split.keep_run({**figures, "median": 0.1, "report": report}, "", split.placement)
    why = "Not splitting takes 100 µs on CPU (measured); these costs say "
    for shown in (verdict(split), status(split), outcome(split)):
        assert why in str(shown) and "too high." in str(shown)
    assert "data-command='run-bench-profile'" in str(outcome(split)[0])
    assert re.search(
        r"whether a split pays is not known, as Fast is not on .*\. Not splitting takes 100 µs",
        _words(split),
    )
    exported = written(split, "md", tmp_path)[0].read_text()
    assert f", doubtful: {why}" in exported and "x faster than" not in exported
    assert "'estimated '" not in _words(split), "what compares by these costs says nothing"
    (cpu,) = (way for way in unsplit_ways(split) if way.device == "CPU")
    near = {"median": 0.6 * cpu.figure, "low": 0.5 * cpu.figure, "high": 0.7 * cpu.figure}
    for noisy, doubtful in ((["1.5 processors are used by others"], False), ([], True)):
        beside = {"baselines": [{"device": "CPU", "time": near, "throughput": 0.0}]}
        report = {**beside, "disturbances": noisy}
        split.keep_run({**figures, "median": 0.1, "report": report}, "", split.placement)
        assert ("doubtful" in _words(split)) is doubtful, "a busy machine may be the cause"
    split.set_devices([_FAST, {**_CPU, "peakCompute": "1 GFLOPS"}])
    assert "doubtful" not in _words(split), "the device is another one"


@pytest.mark.parametrize(
    ("fast", "cpu", "said"),
    [
        (
            {"nonSupportedNodes": ["Conv"]},
            {"nonSupportedNodes": ["Add"]},
            "no device runs the whole model",
        ),
        ({"memory": "13 MB"}, {"memory": "13 MB"}, "no device holds the whole model"),
    ],
)
def test_an_estimate_says_why_the_model_cannot_stay_whole(
    state: AppState, fast: dict[str, Any], cpu: dict[str, Any], said: str
) -> None:
    split = _open(state, {**_FAST, **fast}, {**_CPU, **cpu})
    split.set_automatic("memory", {}, "minimal")
    assert len(split.placement.subgraphs) > 1
    assert said in _words(split)


def test_a_prediction_stands_beside_predictions(
    state: AppState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a profile of a quiet machine a plan was "6.4x faster" than what a busy one had measured before."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    split = _open(state, {"backendName": "CPU"}, {"backendName": "OpenVINO.CPU"})
    time = {"median": 0.0734, "low": 0.02, "high": 0.1}
    slow = [{"device": d.name, "time": time, "throughput": 0.0} for d in split.devices]
    figures = {"estimated": False, "mode": "latency", "requests": 1, "throughput": 1.0}
    split.keep_run({**figures, "median": 0.1, "report": {"baselines": slow}}, "", split.placement)
    seconds = dict.fromkeys(split.graph.op_keys, 1e-4)
    for device in split.devices:
        whole = DeviceProfile(device.description, 0.01, seconds, {}, (), 1e-5, 0, 0, 0, 0, 1)
        save_profile(split.graph, device, whole)
        os.utime(profile_path(split.graph, device), (2e9, 2e9))  # after the benchmark
    split.pin(split.placement.placed_ops[3:6].tolist(), split.devices[1].name)
    assert "too close to call: not splitting takes 10 ms on " in _words(split)
    for device in split.devices:
        os.utime(profile_path(split.graph, device), (1.0, 1.0))  # before it
    split.pin(split.placement.placed_ops[3:7].tolist(), split.devices[1].name)
    said = _words(split)
    assert (
        "Not splitting takes 73.4 ms on " in said
        and "the profile says 10 ms, 7.3x too low. " in said
    )


def test_a_contradicted_profile_is_doubtful_for_plans_that_were_not_measured(
    state: AppState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mark was gone with the next stroke, and in Compare it never stood."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    split = _open(state, {"backendName": "CPU"}, {"backendName": "OpenVINO.CPU"})
    seconds = dict.fromkeys(split.graph.op_keys, 0.001)
    for device in split.devices:
        whole = DeviceProfile(device.description, 0.1, seconds, {}, (), 1e-5, 0, 0, 0, 0, 1)
        save_profile(split.graph, device, whole)
        os.utime(profile_path(split.graph, device), (1.0, 1.0))  # long before the benchmark
    figures = {"estimated": False, "mode": "latency", "requests": 1, "throughput": 1.0}
    split.keep_run({**figures, "median": 0.1, "predicted": 0.3}, "", split.placement)
    split.pin(split.placement.placed_ops[3:6].tolist(), split.devices[1].name)
    assert measured_run(split, "latency") is None
    for shown in (verdict(split), status(split), compare_view(split, split.layouts())):
        assert "3x too high for that. Profile again." in str(shown)
    save_profile(split.graph, split.devices[0], whole)
    assert "doubtful" not in str(verdict(split)), "it was profiled since"


def test_a_report_doubts_estimates_as_the_page_does(
    state: AppState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page said "doubtful", and the report of that plan "3.4x faster"."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    split = _open(state, _FAST, {**_CPU, "backendName": "CPU"})
    split.pin(split.placement.placed_ops[::9].tolist(), "CPU")

    def report() -> str:
        return written(split, "md", tmp_path)[0].read_text()

    assert "doubt" not in report().lower()
    profiled = split.devices[1]
    estimated = plan_costs(split)[0].op[:, 1]
    seconds = dict(zip(split.graph.op_keys, (3 * estimated).tolist(), strict=True))
    whole = DeviceProfile(
        profiled.description, sum(seconds.values()), seconds, {}, (), 1e-5, 0, 0, 0, 0, 1
    )
    save_profile(split.graph, profiled, whole)
    said = (
        "is 3x slower by its profile than by its estimate: the estimate of Fast may be as far off"
    )
    for shown in (str(verdict(split)), report()):
        assert said in shown and "x faster than" not in shown
    assert ", doubtful: CPU is 3x slower" in report()


def test_a_device_that_an_estimate_left_out_is_told(
    state: AppState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it ran on a profiled device, "measured", and nothing said that the other one had lost by a guess."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    plan = _open(state, _FAST, {**_CPU, "backendName": "CPU"})
    profiled = plan.devices[1]
    seconds = dict.fromkeys(plan.graph.op_keys, 1e-9)
    whole = DeviceProfile(profiled.description, 1e-7, seconds, {}, (), 1e-9, 0, 0, 0, 0, 1)
    save_profile(plan.graph, profiled, whole)
    plan.set_automatic("optimal", {"costs": "measured"}, "minimal")
    assert plan.placement.op_counts[plan.devices[0].name] == 0
    said = _words(plan)
    assert "; Fast is left out by an estimate, which may be far off. " in said
    assert "Measurement kit" in said
    plan.set_automatic("priority", {}, "minimal")
    assert "left out by an estimate" not in _words(plan)


def test_layouts_side_by_side_say_what_can_be_told_apart(state: AppState) -> None:
    split = _open(state, _FAST, _CPU)
    layouts = [split.layouts()[0], split.layout("all on CPU"), split.layout("all on Fast")]
    found = panes_data(split, [each for each in layouts if each is not None])["layouts"]
    first, cpu, fast = (pane["summary"] for pane in found)
    assert first.endswith("(estimate from shapes)")
    assert cpu.endswith(" slower"), cpu
    assert fast.endswith("(estimate from shapes)"), "it is the same plan"


def test_a_rate_that_was_measured_stands_beside_the_latency(state: AppState) -> None:
    split = _open(state, {"backendName": "CPU"}, {"backendName": "OpenVINO.CPU"})
    split.pin(split.placement.placed_ops[3:6].tolist(), split.devices[1].name)
    kept = {"estimated": False, "unsplit": None, "baselines": {}, "median": 0.0356, "p99": 0.04}
    latency = {**kept, "mode": "latency", "requests": 1, "throughput": 28.0}
    split.keep_run({**latency, "interval": [0.035, 0.036]}, "", split.placement)
    assert "in flight" not in _words(split)
    rate = {**kept, "mode": "throughput", "requests": 4, "throughput": 25.2}
    split.keep_run({**rate, "throughput_interval": [25.0, 26.0]}, "", split.placement)
    said = _words(split)
    assert "B('35.6 ms')" in said and "; 25.2 requests/s with 4 in flight" in said


def test_an_unsplit_plan_stands_beside_the_other_ways_not_to_split(state: AppState) -> None:
    """It said "not split: all of it runs on CPU" of the faster of two measured devices, and no more."""
    whole = _open(state, {"backendName": "CPU"}, {"backendName": "OpenVINO.CPU"})
    ours = {"median": 0.012, "low": 0.0119, "high": 0.0121}
    theirs = {"median": 0.0138, "low": 0.0137, "high": 0.0139}
    beside = [
        {"device": "CPU", "time": ours, "throughput": 83.0},
        {"device": "OpenVINO.CPU", "time": theirs, "throughput": 72.0},
    ]
    figures = {"estimated": False, "mode": "latency", "requests": 1, "throughput": 83.0}
    figures |= {"median": 0.012, "interval": [0.0119, 0.0121], "report": {"baselines": beside}}
    figures["unsplit"] = {"device": "CPU", "figure": 0.012, "words": "the same"}
    whole.keep_run(figures, "", whole.placement)
    assert "faster', className='delta better'), ' than all of it on OpenVINO.CPU (13.8 ms)'" in str(
        verdict(whole)
    )
    alone = {**figures, "report": {"baselines": beside[:1]}}
    whole.keep_run(alone, "", whole.placement)
    assert "not split: all of it runs on CPU" in str(verdict(whole))
