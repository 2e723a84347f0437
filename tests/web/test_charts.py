"""Charts of the benchmark panel."""

from __future__ import annotations

import importlib
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from editor.placement.choices import PRESENT
from editor.web.panels.benchmark_panel import _VERSUS_COLOURS
from editor.web.panels.charts import PLAN_COLOUR, Bar, live_figure, versus_figure

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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_plan_has_one_colour_in_all_charts(scheme: str) -> None:
    """It was blue in bars, pink in the line of a run and purple in Tune."""
    alone = live_figure(
        [sample(0, "net", i / 10, 0.01) for i in range(5)], ["ORT"], COLOURS, scheme
    )
    tried = [
        sample(n, name, i / 10, 0.01)
        for i in range(5)
        for n, name in ((0, "least latency"), (1, PRESENT), (2, "best throughput"))
    ]
    beside = live_figure(tried, ["ORT"], COLOURS, scheme)
    (line,) = [trace for trace in alone.data if trace.name == PRESENT and trace.type == "scatter"]
    lines = {trace.name: trace.line.color for trace in beside.data if trace.type == "scatter"}
    assert line.line.color == lines[PRESENT] == PLAN_COLOUR[scheme]
    assert len({*lines.values()}) == 3
    assert PLAN_COLOUR[scheme] not in (*COLOURS.values(), *_VERSUS_COLOURS[scheme])


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


def test_a_chart_waits_while_another_thread_imports_pandas(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Plotly took the half of it that was there: "partially initialized module 'pandas' has no attribute 'Series'"."""
    (tmp_path / "pandas.py").write_text(
        "import threading, time\nthreading.current_thread().began.set()\ntime.sleep(0.5)\n"
        "Series = Index = type('Other', (), {})\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "pandas", raising=False)
    other = threading.Thread(target=importlib.import_module, args=("pandas",))
    other.began = threading.Event()  # type: ignore[attr-defined]
    other.start()
    try:
        assert other.began.wait(10)  # type: ignore[attr-defined]
        assert live_figure([sample(0, "plan", 0.1, 0.05)], ["A"], {"A": "#000"}, "light").data
    finally:
        other.join()
        sys.modules.pop("pandas", None)


def test_pandas_is_there_before_a_chart_is_drawn_and_not_before_the_first_one() -> None:
    """A plan that another thread solved began to import it while a chart was drawn."""
    script = (
        "import sys; from editor.web.panels.charts import live_figure; before = 'pandas' in sys.modules;"
        "live_figure([], ['A'], {'A': '#000'}, 'light'); print(before, 'pandas' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["False", "True"]


@pytest.mark.parametrize(("scale", "unit"), [(1.0, "ms"), (1000.0, "s")])
def test_bars_of_many_seconds_are_in_seconds(scale: float, unit: str) -> None:
    bars = [
        Bar("split", 7.32 * scale, (3.5 * scale, 14.4 * scale), "#000000"),
        Bar("unsplit", 6.94 * scale, None, "#000000"),
    ]
    figure = versus_figure(bars, "ms", "light")
    assert figure.layout.xaxis.title.text == f"Latency, {unit} (median, 95 % interval)"
    assert list(figure.data[0].x) == pytest.approx([7.32, 6.94])
    assert figure.layout.yaxis.ticktext[0] == f"split  <b>7.32 {unit}</b>  "
    assert figure.data[0].error_x.array[0] == pytest.approx(14.4 - 7.32)


def test_an_unsplit_model_that_does_not_fit_is_said_so_in_the_chart() -> None:
    samples = [sample(0, "plan", 0.1, 0.02), sample(None, "OV", 0.2, 0.03)]
    drawn = live_figure(samples, ["ORT"], COLOURS, "light", unfit=["OV"]).data
    assert "unsplit on OV, does not fit" in {trace.name for trace in drawn}
