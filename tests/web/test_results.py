"""The results in the tab Benchmark: a chart beside not splitting, folded prose, and each plan once."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from dash import html

import editor
from editor.execution.measure.figures import BenchmarkResult, Spread
from editor.execution.measure.tokens import SIMULATED, TokenBenchmark, TokenFigures
from editor.execution.measure.tune import Tuned
from editor.graph.graph import Graph
from editor.kinds import NO_DIFFERENCE
from editor.placement.choices import PRESENT
from editor.web.panels.benchmark_panel import result_view, tokens_view, tuned_view, versus_chart
from editor.web.panels.charts import PLAN_COLOUR
from editor.web.panels.layout_figures import noisy_mark
from editor.web.runs import tokens_to_keep
from editor.workspace.history import Run


@pytest.fixture(scope="module")
def unsplit(mobilenet: Graph) -> BenchmarkResult:
    """A plan that is the unsplit model on A; B runs it too."""
    table = [{"name": "A", "backendName": "CPU"}, {"name": "B", "backendName": "OpenVINO.CPU"}]
    return editor.partition(mobilenet, table).benchmark(seconds=0.2)


def run_of(layout: str, plan: str, median: float, **more: Any) -> Run:
    figures = {
        "layout": layout,
        "plan": plan,
        "median": median,
        "throughput": 1 / median,
        "mode": "latency",
        "requests": 4,
        "estimated": False,
        "interval": [median * 0.9, median * 1.2],
    }
    return Run("2026-11-26T10:00:00", figures | more)


def spread(median: float) -> Spread:
    return Spread(median, median * 0.9, median * 1.1, median, median, median, median, median, 9)


def texts(component: Any) -> str:
    if component is None or isinstance(component, str | int | float):
        return str(component or "")
    if isinstance(component, list | tuple):
        return " ".join(map(texts, component))
    return texts(getattr(component, "children", None))


def found(component: Any, kind: type) -> list[Any]:
    """All parts of a kind, at any depth."""
    if isinstance(component, list | tuple):
        return [each for part in component for each in found(part, kind)]
    inner = getattr(component, "children", None)
    below = found(inner if isinstance(inner, list | tuple) else [inner], kind) if inner else []
    return [component, *below] if isinstance(component, kind) else below


def test_the_chart_has_this_plan_not_splitting_and_other_layouts_with_intervals(
    unsplit: BenchmarkResult,
) -> None:
    near = tuple(replace(each, time=spread(0.005)) for each in unsplit.baselines)
    result = replace(unsplit, total=spread(0.004), baselines=near)
    runs = [
        run_of("mine", "this", 0.001),
        run_of("other", "that", 0.008),
        run_of("other", "that", 0.5),  # an earlier run of the same layout
        run_of("rate", "that", 0.001, mode="throughput"),
        run_of("planned", "that", 0.001, estimated=True),
        run_of("old", "that", 0.002, interval=[]),
    ]
    drawn = versus_chart(result, runs, "this", "light")
    assert drawn is not None
    (bars,) = drawn.figure.data
    values = dict(zip(bars.y, bars.x, strict=True))
    assert set(values) == {
        "The plan, unsplit on A",
        "Unsplit on B",
        "other, 2026-11-26",
        "old, 2026-11-26",
    }
    assert bars.marker.color[list(bars.y).index("The plan, unsplit on A")] == PLAN_COLOUR["light"]
    assert values["The plan, unsplit on A"] == 4 and values["other, 2026-11-26"] == 8
    at = list(bars.y).index("other, 2026-11-26")
    assert bars.error_x.array[at] == pytest.approx(1.6)
    assert bars.error_x.arrayminus[at] == pytest.approx(0.8)
    assert bars.error_x.array[list(bars.y).index("old, 2026-11-26")] is None
    assert list(bars.x) == sorted(bars.x, reverse=True), "the best on top"


def test_devices_that_are_far_slower_share_a_card_and_are_not_drawn(
    unsplit: BenchmarkResult,
) -> None:
    """The interpreter's bar was sixty times as long as the others."""
    (other,) = (b for b in unsplit.baselines if b.device == "B")
    refusing = replace(other, device="C", time=None, problem="cannot run the whole model: Gelu")
    for factor, title in ((20, "Unsplit on B and C"), (9, "Unsplit on C")):
        slow = replace(other, time=spread(factor * 0.004), lacks="")
        result = replace(unsplit, total=spread(0.004), baselines=(slow, refusing))
        said = str(result_view(result, dict.fromkeys("ABC", "#000000")))
        assert f"Div(children='{title}', className='card-title')" in said
        assert "C: cannot run the whole model: Gelu" in said
        drawn = versus_chart(result, [], "this", "light")
        assert drawn is not None
        assert ("Unsplit on B" in drawn.figure.data[0].y) == (factor == 9)


def test_runs_of_a_slower_machine_do_not_stand_beside_others(unsplit: BenchmarkResult) -> None:
    """A plan looked three times as fast as one that was measured while the processor was slow."""
    median = 0.005
    near = tuple(replace(each, time=spread(median)) for each in unsplit.baselines)
    result = replace(unsplit, total=spread(0.004), baselines=near)

    def beside(layout: str, factor: float) -> Run:
        time = dict.fromkeys(("median", "low", "high"), factor * median)
        report = {"baselines": [{"device": "B", "time": time, "throughput": None}]}
        return run_of(layout, layout, 0.012, report=report)

    drawn = versus_chart(result, [beside("slow", 1.9), beside("alike", 1.1)], "this", "light")
    assert drawn is not None
    (bars,) = drawn.figure.data
    assert "alike, 2026-11-26" in bars.y and "slow, 2026-11-26" not in bars.y


def test_a_bar_that_is_longer_than_is_drawn_has_a_break(unsplit: BenchmarkResult) -> None:
    result = replace(unsplit, total=spread(0.004), baselines=())
    runs = [run_of("near", "that", 0.02), run_of("far", "those", 0.361)]
    drawn = versus_chart(result, runs, "this", "light")
    assert drawn is not None
    (bars,), (mark,) = drawn.figure.data, drawn.figure.layout.shapes
    assert bars.y[0] == "far, 2026-11-26"
    assert drawn.figure.layout.yaxis.ticktext[0] == "far, 2026-11-26  <b>361 ms</b>  "
    assert drawn.figure.layout.xaxis.range[1] < 361
    heights = [float(y) for y in re.findall(r",(-?[\d.]+)", mark.path)]
    assert (min(heights), max(heights)) == (-0.5, 0.5), "across the lowest bar"
    only_near = versus_chart(result, runs[:1], "this", "light")
    assert only_near is not None and not only_near.figure.layout.shapes


def test_the_time_of_stand_ins_is_not_drawn_beside_real_ones(unsplit: BenchmarkResult) -> None:
    assert versus_chart(replace(unsplit, estimated=True), [], "", "dark") is None


def test_in_mode_throughput_rates_are_drawn(unsplit: BenchmarkResult) -> None:
    result = replace(
        unsplit, mode="throughput", throughput=50.0, throughput_interval=(45.0, 52.0), requests=4
    )
    runs = [
        run_of("more", "that", 0.01, mode="throughput", throughput=8e5),
        run_of("two", "that", 0.01, mode="throughput", requests=2),
    ]
    drawn = versus_chart(result, runs, "this", "light")
    assert drawn is not None
    (bars,) = drawn.figure.data
    assert bars.y[-1] == "more, 2026-11-26" and bars.x[-1] == 8e5
    assert not any(name.startswith("two") for name in bars.y)
    at = list(bars.y).index("The plan, unsplit on A")
    assert (bars.x[at], bars.error_x.array[at], bars.error_x.arrayminus[at]) == (50, 2, 5)


def test_prose_of_a_result_is_folded_and_its_figures_are_not(unsplit: BenchmarkResult) -> None:
    view = result_view(unsplit, {"A": "#000000", "B": "#ffffff"})[0]
    folded = texts(found(view, html.Details))
    shown = texts(view)
    assert "p90" in folded and "this plan is the same" in shown
    assert "this plan is the same" not in folded


@pytest.mark.parametrize(
    ("keys", "open_"),
    [
        ({"disturbances": ("other programs kept 1.5 processors busy",)}, "Noisy"),
        ({"settled": False}, "All of it on B is too close to call"),
        ({"settled": True}, ""),
        ({"settled": False, "estimated": True}, ""),
    ],
)
def test_what_a_measurement_leaves_open_is_said(
    unsplit: BenchmarkResult, keys: dict[str, Any], open_: str
) -> None:
    baselines = tuple(replace(b, time=unsplit.total) for b in unsplit.baselines)
    result = replace(unsplit, disturbances=(), baselines=baselines)
    assert replace(result, **keys).left_open == open_


def test_tune_lists_equal_plans_once(unsplit: BenchmarkResult) -> None:
    other = replace(
        unsplit, plan="all on B", subgraphs=(replace(unsplit.subgraphs[0], device="B"),)
    )
    table, *_ = tuned_view(Tuned((replace(unsplit, plan=PRESENT), other), {}))
    names = [texts(row.children[0]).strip() for row in found(table, html.Tr)[1:]]
    assert names == [f"{PRESENT} = unsplit on A", "all on B = unsplit on B"]
    split = replace(unsplit, plan=PRESENT, subgraphs=unsplit.subgraphs * 2)
    table, *_ = tuned_view(Tuned((split,), {}))
    names = [texts(row.children[0]).strip() for row in found(table, html.Tr)[1:]]
    assert names == [PRESENT, "unsplit on A", "unsplit on B"]


def test_an_unsplit_model_that_the_table_excludes_is_no_plan_and_says_why(
    unsplit: BenchmarkResult,
) -> None:
    split = replace(unsplit, plan=PRESENT, subgraphs=unsplit.subgraphs * 2)
    table, *_ = tuned_view(Tuned((split,), {}), {"B": 21})
    *_, on_a, on_b = found(table, html.Tr)
    assert texts(on_a.children[-1]) == ""
    assert texts(on_b.children[-1]).startswith("No plan: the device table excludes 21 ops.")


def test_times_far_apart_are_not_close_where_runs_vary(unsplit: BenchmarkResult) -> None:
    mine = replace(unsplit, plan=PRESENT)
    time = mine.total
    far = replace(time, median=8 * time.median, low=time.low, high=20 * time.high)
    near = replace(time, median=1.1 * time.median, low=time.low, high=2 * time.high)
    tuned = Tuned((mine, replace(mine, plan="far", total=far)), {})
    assert tuned.evidence(tuned.results[1]).startswith("not sure: its runs vary")
    assert tuned.evidence(replace(mine, plan="near", total=near)) == NO_DIFFERENCE


@pytest.mark.parametrize(
    ("throughput", "mode", "said"),
    [
        (269.9, "latency", "269.9 requests/s on average, in bursts; median 1.15 ms"),
        (850.0, "latency", "850.0 requests/s"),
        (269.9, "throughput", "269.9 requests/s"),
    ],
)
def test_a_rate_that_seems_to_contradict_the_latency_is_explained(
    unsplit: BenchmarkResult, throughput: float, mode: str, said: str
) -> None:
    result = replace(unsplit, total=spread(0.00115), throughput=throughput, mode=mode)
    assert result.explained_rate == said
    colours = {"A": "#000000", "B": "#ffffff"}
    view = texts(result_view(replace(result, mode="latency"), colours))
    assert said in view
    alone = replace(unsplit.baselines[0], time=spread(0.00115), throughput=throughput)
    beside = replace(
        unsplit, mode="latency", baselines=(alone,), throughput=1 / unsplit.total.median
    )
    assert said in texts(result_view(beside, colours))


def test_an_unsplit_model_that_does_not_fit_is_said_so_wherever_it_stands(
    unsplit: BenchmarkResult,
) -> None:
    lacks, colours = {"B": "needs 72 MB of 60 MB"}, {"A": "#000000", "B": "#ffffff"}
    beside = [replace(b, lacks=lacks.get(b.device, "")) for b in unsplit.baselines]
    result = replace(unsplit, baselines=tuple(beside))
    cards = [texts(card) for card in result_view(result, colours)[0].children]
    (of_it,) = [card for card in cards if "Unsplit on B" in card]
    assert "does not fit: needs 72 MB of 60 MB" in of_it
    assert not re.search("slower|faster|difference", of_it)
    chart = versus_chart(result, [], "this", "light")
    assert chart is not None and "Unsplit on B, does not fit" in str(chart.figure)
    figures = TokenFigures("plan", spread(0.05), spread(0.04), 25.0, ((8, 0.04),))
    whole = replace(figures, name="unsplit on B", token=spread(0.01))
    tokens = TokenBenchmark("plan", 8, 4, 1, figures, (whole,), {}, 1e-7, "B", False, ())
    said = texts(tokens_view(tokens, lacks))
    assert "not compared: unsplit, it needs 72 MB of 60 MB" in said and "slower" not in said


@pytest.mark.parametrize("simulated", [False, True])
def test_tokens_of_simulated_devices_are_not_compared(simulated: bool) -> None:
    figures = TokenFigures("plan", spread(0.05), spread(0.04), 25.0, ((8, 0.04),))
    whole = replace(figures, name="unsplit on A", token=spread(0.01))
    result = TokenBenchmark(
        "plan", 8, 4, 1, figures, (whole,), {}, 1e-7, "A", simulated=simulated, states=()
    )
    view = [part for part in tokens_view(result) if part is not None]
    heads = [texts(head) for head in found(view, html.Th)]
    assert ("The plan is" in heads) is not simulated
    assert ("4x slower" in texts(view)) is not simulated
    assert (texts(view[0]) == f"{SIMULATED}.") is simulated
    assert ("The plan" in texts(view)) is not simulated, "stand-ins have no speed"
    assert ("40 ms" in texts(view)) is not simulated and "10 ms" in texts(view)
    assert "1e-07 relative (within tolerance)" in texts(view)
    kept = tokens_to_keep(result)
    assert kept["estimated"] is simulated
    assert kept["unsplit"]["words"] == ("" if simulated else "4x slower")


def test_first_tokens_that_take_longer_are_no_matter_of_the_context() -> None:
    """A table "by context" fell from 1.96 to 1.37 ms, and nothing said why."""
    for last, said in ((0.03, True), (0.039, False), (0.06, False)):
        figures = TokenFigures("plan", spread(0.05), spread(0.04), 25.0, ((8, 0.04), (12, last)))
        tokens = TokenBenchmark("plan", 8, 4, 1, figures, (), {}, 1e-7, "A", False, ())
        assert ("The first tokens after the prompt took longer" in tokens.text()) is said
        assert ("The first tokens after the prompt" in texts(tokens_view(tokens))) is said


def test_tokens_on_a_busy_machine_are_noisy() -> None:
    figures = TokenFigures("plan", spread(0.05), spread(0.04), 25.0, ((8, 0.04),))
    quiet = TokenBenchmark("plan", 8, 4, 1, figures, (), {}, 1e-7, "A", False, ())
    busy = replace(quiet, disturbances=("other programs kept 1.5 processors busy",))
    for result, is_noisy in ((quiet, False), (busy, True)):
        assert ("Noisy: other programs kept 1.5" in texts(tokens_view(result))) is is_noisy
        assert ("Noisy: other programs" in result.text()) is is_noisy
        kept = Run("2026-11-30T12:00:00", {**tokens_to_keep(result), "plan": "p"})
        assert bool(noisy_mark(kept)) is is_noisy


def test_tokens_of_a_model_on_stand_ins_alone_have_no_time() -> None:
    """The only row was "Unsplit on stand-in 19.7 ms", in bold, below "this says nothing about their speed"."""
    figures = TokenFigures("plan", spread(0.05), spread(0.04), 25.0, ((8, 0.04),))
    whole = replace(figures, name="unsplit on stand-in", token=spread(0.01))
    result = TokenBenchmark(
        *("plan", 8, 4, 1, figures, (whole,), {}, 1e-7, "stand-in", True, ()), on_stand_in=True
    )
    for said in (texts(tokens_view(result)), result.text()):
        assert "10 ms" not in said and "1e-07 relative (within tolerance)" in said
    assert tokens_to_keep(result)["unsplit"] is None


def test_requests_of_a_language_model_are_said_to_be_tokens(unsplit: BenchmarkResult) -> None:
    said = "requests/s are the tokens/s"
    for mode, unit, is_said in (
        ("throughput", "tokens/s", True),
        ("throughput", "requests/s", False),
        ("latency", "tokens/s", False),
    ):
        view = result_view(replace(unsplit, mode=mode), {"A": "#000000", "B": "#ffffff"}, unit)
        assert (said in texts(view)) is is_said
