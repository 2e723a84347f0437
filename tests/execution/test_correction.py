"""Profiles that are corrected by a run predict that run."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import write_dag

import editor
from editor.__main__ import _parser
from editor.commands import measure_commands
from editor.errors import EditorError
from editor.execution.measure.benchmark import Benchmark
from editor.execution.measure.prediction import correct_profiles
from editor.execution.measure.profile import profile_all
from editor.graph.graph import Graph
from editor.placement.chosen_costs import predicted_rate
from editor.placement.device_profile import costs_of, load_profile
from editor.text import rough_rate

BOX = [
    {"name": "ORT", "backendName": "onnxruntime", "provider": "CPUExecutionProvider"},
    {"name": "OV", "backendName": "openvino", "provider": "CPU"},
]


@pytest.fixture
def chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Graph:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return editor.load_model(
        write_dag(tmp_path / "net.onnx", [[i - 1] if i else [] for i in range(24)])
    )


def test_a_run_corrects_what_is_predicted_for_it(chain: Graph) -> None:
    plan = editor.partition(
        chain, BOX, pins={key: ("ORT", "OV")[i // 4 % 2] for i, key in enumerate(chain.op_keys)}
    )
    profile_all(chain, plan.devices, 0.2)
    result = Benchmark({"plan": plan.placement}, 0.5).run()[0]
    assert result.can_correct_profiles
    result = replace(
        result,
        baselines=(),
        total=replace(result.total, low=result.total.median, high=result.total.median),
    )
    assert set(correct_profiles(plan.placement, result)) == {"ORT", "OV"}
    predicted = plan.placement.price(costs_of(chain, plan.devices, "measured")).total
    parts = sum(s.time.median for s in result.subgraphs) + sum(
        t.time.median for t in result.transfers
    )
    assert predicted == pytest.approx(max(parts, result.total.median), rel=1e-6)
    slower = replace(
        result, total=replace(result.total, median=1.3 * parts, low=1.3 * parts, high=1.3 * parts)
    )
    correct_profiles(
        plan.placement, slower
    )  # runs that are slower than the medians of their steps: it predicted the steps
    predicted = plan.placement.price(costs_of(chain, plan.devices, "measured")).total
    assert predicted == pytest.approx(1.3 * parts, rel=1e-6)


def test_a_run_on_a_busy_or_changed_machine_corrects_nothing(chain: Graph) -> None:
    plan = editor.partition(
        chain, BOX, pins={key: ("ORT", "OV")[i // 4 % 2] for i, key in enumerate(chain.op_keys)}
    )
    profile_all(chain, plan.devices, 0.2)
    before = [load_profile(chain, d) for d in plan.devices]
    result = Benchmark({"plan": plan.placement}, 0.3).run()[0]
    median = result.total.median
    with pytest.raises(
        EditorError, match="too uncertain to correct profiles by .95 % interval ±19 %"
    ):
        correct_profiles(
            plan.placement,
            replace(result, total=replace(result.total, low=0.81 * median, high=1.19 * median)),
        )
    certain = replace(
        result,
        total=replace(result.total, low=median, high=median),
        baselines=tuple(
            replace(b, time=replace(b.time, median=2 * before[i].total, count=9))
            for i, b in enumerate(result.baselines)  # type: ignore
            if b.time is not None
        ),
    )
    with pytest.raises(
        EditorError, match=r"another time than in its profile \(\+100 % on ORT, \+100 % on OV\)"
    ):
        correct_profiles(plan.placement, certain)
    assert [load_profile(chain, d) for d in plan.devices] == before


def test_an_unprofiled_or_planned_device_is_not_corrected(chain: Graph) -> None:
    plan = editor.partition(chain, "HETERO:NPU,CPU", pins={chain.op_keys[0]: "NPU"})
    result = plan.benchmark(seconds=0.1)
    assert not result.can_correct_profiles
    with pytest.raises(EditorError, match="stand-in"):
        correct_profiles(plan.placement, result)
    assert all(load_profile(chain, d) is None for d in plan.devices)


@pytest.mark.parametrize(
    ("table", "mode", "reason"),
    [
        ("HETERO:NPU,CPU", "latency", "NPU runs on a stand-in"),
        (BOX, "throughput", "several requests in flight"),
        (BOX[:1], "latency", "one subgraph"),
    ],
)
def test_a_run_that_cannot_correct_profiles_is_refused_before_it_starts(
    chain: Graph,
    tmp_path: Path,
    table: object,
    mode: str,
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pins = {chain.op_keys[0]: "NPU"} if isinstance(table, str) else {}
    path = editor.partition(chain, table, pins=pins).save(tmp_path / "plan.json")  # type: ignore[arg-type]
    monkeypatch.setattr(
        "editor.commands.measure_commands.job_service", None
    )  # whoever starts a job fails otherwise
    with pytest.raises(EditorError, match=reason):
        measure_commands.bench(
            _parser().parse_args(["bench", str(path), "--calibrate", "--mode", mode])
        )


def test_throughputs_come_with_an_interval_and_a_prediction(chain: Graph) -> None:
    plan = editor.partition(chain, BOX)
    result = plan.benchmark(seconds=0.6, mode="throughput", requests=2)
    assert result.throughput_interval is not None and result.predicted_throughput
    low, high = result.throughput_interval
    assert low <= high and low <= result.throughput * 1.5 and high >= result.throughput / 1.5
    assert f"95 % interval {low:.1f} to {high:.1f} requests/s" in result.text()
    assert (
        f"Estimate from shapes {rough_rate(result.predicted_throughput)}, measured" in result.text()
    )
    assert (
        result.to_dict()["predicted_throughput"] == result.predicted_throughput
        and result.predicted is None
    )


@pytest.mark.parametrize("mode", ["latency", "throughput"])
def test_a_prediction_on_an_assumed_speed_is_rough(chain: Graph, mode: str) -> None:
    card = {"name": "Card", "backendName": "CPU", "link": {"bandwidth": 1e10, "latency": 1e-5}}
    result = editor.partition(chain, [card]).benchmark(seconds=0.1, mode=mode)
    assert result.assumed_speeds == ("Card",)
    unit = r"[mµ]?s" if mode == "latency" else "requests/s"
    assert re.fullmatch(rf"about (?:[1-9],?\d?[0,]*|[1-9]\.[1-9]) {unit}", result.prediction)
    said = result.comparison_with_prediction
    assert f"estimate from shapes {result.prediction}, measured " in said
    assert "%" not in said, "a share of a rough figure would have digits that it has not"


def test_the_predicted_rate_is_that_of_the_busiest_processor_or_of_those_in_flight(
    chain: Graph,
) -> None:
    halves = {key: "NPU" if i < len(chain) // 2 else "GPU" for i, key in enumerate(chain.op_keys)}
    plan = editor.partition(chain, "HETERO:NPU,GPU", pins=halves)
    costs = costs_of(chain, plan.devices, "estimate")
    alone, busiest = plan.placement.price(costs).total, plan.placement.busiest_seconds(costs)
    assert busiest < alone < 8 * busiest
    assert predicted_rate(plan.placement, costs, 1) == pytest.approx(1 / alone)
    assert predicted_rate(plan.placement, costs, 8) == pytest.approx(1 / busiest)
