"""Charts of the benchmark panel."""

from __future__ import annotations

from typing import Any

import pytest

from editor.web.panels.charts import live_figure

COLOURS = {"ORT": "#E69F00", "OV": "#0072B2"}


def sample(plan: int | None, name: str, at: float, total: float) -> dict[str, Any]:
    return {
        "plan": plan,
        "name": name,
        "at": at,
        "total": total,
        "subgraphs": [total],
        "transfers": 0.0,
        "estimated": name == "planned",
    }


def test_with_several_requests_in_flight_their_rate_is_drawn() -> None:
    samples = [
        sample(plan, name, i / 10, 1 / rate) | {"rate": rate}
        for i in range(5)
        for plan, name, rate in ((0, "slow", 40.0), (1, "fast", 80.0), (None, "ORT", 60.0))
    ]
    figure = live_figure(samples, ["ORT"], COLOURS, "light")
    assert figure.layout.annotations[0].text == "Requests/s"
    lines = {trace.name: set(trace.y) for trace in figure.data if trace.type == "scatter"}
    assert lines == {"slow": {40.0}, "fast": {80.0}, "unsplit on ORT": {60.0}}
    (bars,) = [trace for trace in figure.data if trace.type == "bar"]
    assert list(zip(bars.y, bars.x, strict=True)) == [("slow", 40.0), ("fast", 80.0)], (
        "the best on top"
    )


def test_plans_side_by_side_have_colours_of_their_own_and_no_line_lies_on_another() -> None:
    samples = []
    for i in range(5):  # "best" is ORT alone, so both are one measurement
        samples += [
            sample(0, "best", i / 10, 0.01),
            sample(None, "ORT", i / 10, 0.01),
            sample(1, "split", i / 10 + 0.05, 0.02),
            sample(None, "OV", i / 10 + 0.07, 0.015),
        ]
    drawn = live_figure(samples, ["ORT"], COLOURS, "light").data
    lines = {trace.name: trace.line.color for trace in drawn if trace.type == "scatter"}
    assert set(lines) == {"best", "split", "unsplit on OV"}
    assert len({*lines.values(), *COLOURS.values()}) == 4, "two plans, two devices"
    (bars,) = [trace for trace in drawn if trace.type == "bar"]
    assert [lines[name] for name in bars.y] == list(bars.marker.color)


def test_the_medians_of_a_finished_tuning_are_those_of_its_table() -> None:
    samples = [sample(i % 2, "ab"[i % 2], float(i), 1e-3 * (i + 1)) for i in range(8)]
    so_far = live_figure(samples, ["ORT"], COLOURS, "light")
    at_the_end = live_figure(samples, ["ORT"], COLOURS, "light", {"a": 3.0, "b": 2.5})
    assert dict(zip(so_far.data[-1].y, so_far.data[-1].x, strict=True)) == pytest.approx(
        {"a": 4.0, "b": 5.0}
    )
    assert dict(zip(at_the_end.data[-1].y, at_the_end.data[-1].x, strict=True)) == pytest.approx(
        {"a": 3.0, "b": 2.5}
    )
    assert (
        "so far" in so_far.layout.annotations[1].text
        and "so far" not in at_the_end.layout.annotations[1].text
    )


def test_only_plans_that_ran_on_a_stand_in_are_called_estimates() -> None:
    """Beside them the same run was a measurement in the table."""
    real, planned = sample(0, "all on ORT", 0.0, 0.01), sample(1, "planned", 0.1, 0.02)
    figure = live_figure([real, planned, sample(None, "OV", 0.2, 0.03)], ["ORT"], COLOURS, "light")
    assert [trace.name for trace in figure.data if trace.type == "scatter"] == [
        "all on ORT",
        "planned (estimate)",
        "unsplit on OV",
    ]
    assert figure.layout.annotations[0].text == "Latency, ms"
    (bars,) = [trace for trace in figure.data if trace.type == "bar"]
    assert set(bars.text) == {"all on ORT: 10.00", "planned: 20.00 (estimate)"}
    alone = live_figure([planned], ["ORT"], COLOURS, "light")
    assert (
        alone.data[0].name == "this plan (estimate)"
        and alone.layout.annotations[0].text == "Latency, ms (estimate)"
    )
