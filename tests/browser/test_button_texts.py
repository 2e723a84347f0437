"""Texts of buttons stay inside them, in a small window and on a page that is enlarged."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import EXAMPLES
from pages import Show, ready
from playwright.sync_api import Page, expect

DEVICES = (
    "- {name: Neural accelerator of the left board, preset: edgetpu, memory: 4 MB}\n"
    "- {name: Graphics card in the second slot, backendName: CUDA}\n"
)
TABS = ("Fallbacks", "Subgraphs", "Transfers", "Memory", "Benchmark", "Devices", "Rules", "Compare")
TOO_LONG = """() => [...document.querySelectorAll("button, [role=tab], summary")].filter((e) => {
  const style = getComputedStyle(e);
  const isCut = style.textOverflow === "ellipsis" && e.title;
  return e.checkVisibility() && style.display !== "inline" && !isCut && e.scrollWidth > e.clientWidth + 1;
}).map((e) => e.innerText)"""
"""Texts of visible buttons that do not fit, but for those that end with an ellipsis and have a title."""


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (640, 360)])
def test_buttons_hold_their_texts_beside_long_names(
    page: Page, show: Show, tmp_path: Path, width: int, height: int
) -> None:
    """As 640 by 360 a browser has a window of 1280 by 720 at 200 %."""
    (tmp_path / "devices.yaml").write_text(DEVICES)
    model = str(EXAMPLES / "models" / "mobilenetv2.onnx")
    page.set_viewport_size({"width": width, "height": height})
    page.goto(show(model, str(tmp_path / "devices.yaml")))
    ready(page)
    why = page.locator("#ribbon-text").get_by_role("button", name="why")
    expect(why).to_be_in_viewport(ratio=1)
    for name in TABS:
        page.get_by_role("tab", name=name).click()
        expect(page.get_by_role("tabpanel", name=name)).to_be_visible()
        if name == "Rules":
            page.get_by_role("button", name="Add rule").click()
        if name == "Compare":
            expect(page.locator("#compare-table")).to_be_visible()
        assert page.evaluate(TOO_LONG) == [], name
        if name == "Fallbacks" and width > 1000:
            for row in page.locator("#fallbacks-table .buttons").all():
                tops = row.locator("button").evaluate_all("all => all.map(one => one.offsetTop)")
                assert len(tops) > 1 and len(set(tops)) <= 2, "no more lines than the reason has"
                expect(row.locator("button").last).to_be_in_viewport(ratio=1)
    why.click()
    expect(page.get_by_role("tab", name="Fallbacks")).to_have_attribute("aria-selected", "true")
