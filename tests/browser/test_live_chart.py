"""The live chart, drawn and drawn again by Plotly itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import plotly
import plotly.graph_objects as go
import pytest
from playwright.sync_api import BrowserContext, Page, expect

from editor.web.panels.charts import live_figure

PLOTLY = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
DRAW = """async (figures) => {
    for (const figure of figures.map(JSON.parse)) await Plotly.react("chart", figure.data, figure.layout);
    return document.querySelectorAll(".barlayer .trace").length;
}"""


def _sample(plan: int | None, name: str, at: float) -> dict[str, Any]:
    return {
        "kind": "sample",
        "plan": plan,
        "name": name,
        "at": at,
        "runs": 3,
        "total": 0.004,
        "estimated": False,
        "subgraphs": (0.002, 0.001),
        "transfers": 0.0001,
    }


@pytest.fixture
def page(browser: BrowserContext) -> Iterator[Page]:
    page = browser.new_page()
    page.set_content('<div id="chart" style="width: 600px; height: 250px"></div>')
    page.add_script_tag(path=PLOTLY)
    yield page
    page.close()


def _figure(samples: list[dict[str, Any]]) -> go.Figure:
    return live_figure(samples, ["A", "B"], {"A": "#123456", "B": "#654321"}, "light")


def test_before_the_first_run_the_chart_says_what_will_come(page: Page) -> None:
    page.evaluate(DRAW, [_figure([]).to_json()])
    said = page.get_by_text("The time of each run appears here")
    expect(said).to_be_visible()
    expect(page.locator(".xtick, .ytick")).to_have_count(0)
    page.evaluate(DRAW, [_figure([_sample(None, "A", 0.1)]).to_json()])
    expect(said).to_have_count(0)
    expect(page.get_by_text("0.1 s")).to_be_visible()
    expect(page.locator(".xtick", has_text="−")).to_have_count(0)  # time begins at 0
    expect(page.locator(".x2tick")).to_have_count(0)  # the plan did not run yet


def test_what_takes_many_times_as_long_leaves_the_others_apart(page: Page) -> None:
    def samples(slow: float) -> list[dict[str, Any]]:
        times = ((0, "plan", 4), (1, "other", 6), (2, "slow", slow), (None, "A", slow))
        return [
            {**_sample(plan, name, at + 0.1 * i), "total": ms / 1e3}
            for i, (plan, name, ms) in enumerate(times)
            for at in (0.1, 0.6)
        ]

    for slow, cut in ((20, 0), (400, 1)):
        page.evaluate(DRAW, [_figure(samples(slow)).to_json()])
        expect(page.locator(".shapelayer path")).to_have_count(cut)
        others = page.locator(".barlayer .point path").nth(1)
        expect(others).to_be_visible()
    legend = page.locator(".legend")
    expect(legend.get_by_text("slow: 400 ms, above the chart", exact=True)).to_be_visible()
    expect(legend.get_by_text("unsplit on A: 400 ms, above the chart")).to_be_visible()
    expect(page.get_by_text("slow: 400.00")).to_be_visible()
    lengths = page.locator(".barlayer .point path").evaluate_all(
        "(bars) => bars.map((bar) => bar.getBBox().width)"
    )
    assert lengths[1] > 100 and lengths[2] > 60, "those that are not cut can be told apart"


def test_a_chart_is_drawn_on_when_the_first_run_of_the_plan_comes_after_one_of_a_baseline(
    page: Page,
) -> None:
    """Plotly fails where a figure has a transition and gets another pair of axes."""
    samples = [_sample(None, "A", 0.1), _sample(0, "plan", 0.2)]
    figures = [_figure(samples[:n]).to_json() for n in (0, 1, 2)]
    assert page.evaluate(DRAW, figures) == 3, "two subgraphs and the transfers"
