"""The HTML report, in a browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from decoders import plain_decoder
from playwright.sync_api import Page, expect

import editor


@pytest.mark.parametrize(("memory", "fits"), [(800, True), (400, False)])
def test_bars_of_peak_memory_have_the_limit_as_a_line(
    page: Page, tmp_path: Path, memory: int, fits: bool
) -> None:
    model = plain_decoder(tmp_path / "decoder.onnx")
    table = [
        {"name": "A", "backendName": "CPU", "memory": f"{memory}kB"},
        {"name": "B", "backendName": "CPU", "memory": "64GB"},
        {"name": "C", "backendName": "CPU"},
    ]
    (path,) = editor.partition(model, table).export("html", tmp_path)
    page.set_content(path.read_text())
    rows = page.locator("#peaks .bar")
    limited, far, free = (rows.nth(n) for n in range(3))
    peak, _, limit = limited.locator("span").last.inner_text().partition(" of ")
    assert limit == f"{memory}\u00a0kB", "a number stays with its unit"
    assert (float(peak) < memory) == fits
    bar, line = (limited.locator(tag).bounding_box() for tag in ("i", "s"))
    assert bar and line
    assert (bar["width"] < line["width"]) == fits
    runtime = limited.locator("em").bounding_box()
    assert runtime and runtime["width"] > bar["width"] and runtime["height"] == bar["height"]
    assert abs(bar["width"] / line["width"] - float(peak) / memory) < 0.01
    expect(far.get_by_text("0 B of 64 GB")).to_be_visible()
    expect(far.locator("s")).to_have_count(0)  # too far beyond what is drawn
    expect(free.get_by_text("0 B", exact=True)).to_be_visible()
    expect(page.locator("#devices").get_by_text("A keeps 4 states")).to_be_visible()
    expect(page.locator("#verdict b")).to_contain_text(" a token")
    expect(page.locator("#figures")).to_contain_text("policy “Priority: first capable device”")
