"""Why a measured plan took another time than predicted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from editor.devices.table import load_devices
from editor.execution.measure.prediction import Parts, expected_parts, explain_deviation
from editor.graph.loading import load_model
from editor.placement.costs import Costs, estimate
from editor.placement.placement import Placement, Settings, solve

MODEL = Path(__file__).resolve().parents[2] / "examples" / "models" / "mobilenetv2.onnx"
TABLE = [
    {"name": "ORT", "backendName": "onnxruntime", "provider": "CPUExecutionProvider"},
    {"name": "OV", "backendName": "openvino", "provider": "CPU"},
]


@pytest.fixture(scope="module")
def split() -> tuple[Placement, Costs]:
    """MobileNetV2 in two halves, with figures as after a profile."""
    graph, devices = load_model(MODEL), load_devices(TABLE)
    placed = graph.order[~graph.op_is_constant[graph.order]]
    placement = solve(
        graph,
        devices,
        Settings(pins={graph.op_keys[op]: "OV" for op in placed[len(placed) // 2 :]}),
    )
    assert len(placement.subgraphs) == 2
    costs = estimate(graph, devices)
    return placement, replace(costs, whole=costs.op.sum(axis=0))


def _times(split: tuple[Placement, Costs], factor: dict[str, float]) -> tuple[Parts, float]:
    placement, costs = split
    expected = expected_parts(placement, costs)
    device = {s.id: s.device for s in placement.subgraphs}
    parts = Parts(
        {i: t * factor.get(device[i], 1.0) for i, t in expected.subgraphs.items()},
        expected.transfers,
    )
    return parts, sum(parts.subgraphs.values()) + parts.transfers


def test_a_run_near_its_prediction_needs_no_reason(split: tuple[Placement, Costs]) -> None:
    parts, total = _times(split, {"ORT": 1.1, "OV": 1.1})
    assert explain_deviation(*split, parts, total) == ""


def test_the_subgraph_that_took_longer_is_named(split: tuple[Placement, Costs]) -> None:
    parts, total = _times(split, {"OV": 2.0})
    assert explain_deviation(*split, parts, total).startswith("subgraph 1 on OV took ")


def test_a_machine_that_is_slower_than_when_it_was_profiled_is_the_reason(
    split: tuple[Placement, Costs],
) -> None:
    placement, costs = split
    parts, total = _times(split, {"ORT": 1.5, "OV": 1.5})
    assert costs.whole is not None
    unsplit = dict(zip(("ORT", "OV"), (costs.whole * 1.5).tolist(), strict=True))
    text = explain_deviation(placement, costs, parts, total, unsplit)
    assert text.startswith("the machine has changed since the profile: the unsplit model took ")
    assert "on ORT" in text and "on OV" in text
    for little in (1.0, 1.05):
        alike = dict(zip(("ORT", "OV"), (costs.whole * little).tolist(), strict=True))
        less, less_total = _times(split, {"ORT": 1.18, "OV": 1.18})
        assert "machine" not in explain_deviation(placement, costs, less, less_total, alike), (
            "the unsplit model has hardly changed"
        )


def test_a_plan_of_one_subgraph_differs_from_its_own_profile(
    split: tuple[Placement, Costs],
) -> None:
    placement, costs = split
    whole = solve(placement.graph, placement.devices, Settings())
    assert costs.whole is not None and not np.isnan(costs.whole[0])
    total = float(costs.whole[0]) * 2
    text = explain_deviation(whole, costs, Parts({0: total}, 0.0), total, {"ORT": total})
    assert "when ORT was profiled" in text


def test_a_machine_of_another_speed_is_named_though_it_does_not_explain_all(
    split: tuple[Placement, Costs],
) -> None:
    """The advice was to calibrate by such a run."""
    placement, costs = split
    parts, total = _times(split, {"ORT": 3.2, "OV": 3.2})
    assert costs.whole is not None
    unsplit = {"ORT": costs.whole[0] * 1.9, "OV": costs.whole[1] * 1.05}
    spread = Parts(
        {i: 0.4 * t for i, t in parts.subgraphs.items()}, parts.transfers
    )  # no part alone makes the difference
    text = explain_deviation(placement, costs, spread, total, unsplit)
    assert text.startswith("the machine has changed since the profile: the unsplit model took ")
    assert text.endswith("profile again")
    assert "on ORT" in text and "on OV" not in text
    quiet = dict(zip(("ORT", "OV"), costs.whole.tolist(), strict=True))
    assert (
        explain_deviation(placement, costs, spread, total, quiet)
        == "no single subgraph or device explains it"
    )


def test_a_profile_from_elsewhere_is_not_called_this_machine(
    split: tuple[Placement, Costs],
) -> None:
    placement, costs = split
    alone = solve(
        placement.graph, placement.devices, Settings(pins=dict.fromkeys(placement.affinity, "OV"))
    )
    elsewhere = replace(costs, origins=("", "OV: kit with openvino on board 7"))
    assert costs.whole is not None
    whole = float(costs.whole[1])
    text = explain_deviation(
        alone, elsewhere, Parts({0: 2 * whole}, 0.0), 2 * whole, {"OV": 2 * whole}
    )
    assert (
        "in the profile from elsewhere (OV: kit with openvino on board 7)" in text
        and "the machine is slower" not in text
    )
