"""The live chart, drawn and drawn again by Plotly itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import plotly
from playwright.sync_api import BrowserContext

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


def test_a_chart_is_drawn_on_when_the_first_run_of_the_plan_comes_after_one_of_a_baseline(
    browser: BrowserContext,
) -> None:
    """Plotly fails where a figure has a transition and gets another pair of axes."""
    page = browser.new_page()
    page.set_content('<div id="chart" style="width: 600px; height: 250px"></div>')
    page.add_script_tag(path=PLOTLY)
    samples = [_sample(None, "A", 0.1), _sample(0, "plan", 0.2)]
    figures = [
        live_figure(samples[:n], ["A", "B"], {"A": "#123456", "B": "#654321"}, "light").to_json()
        for n in (1, 2)
    ]
    assert page.evaluate(DRAW, figures) == 3, "two subgraphs and the transfers"
    page.close()
