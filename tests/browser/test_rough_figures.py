"""Figures that rest on the assumed speed of a device are rough wherever the page shows them."""

from __future__ import annotations

import re
from pathlib import Path

from decoders import plain_decoder
from pages import Show, ready, says, says_exactly
from playwright.sync_api import Locator, Page, expect

from editor.text import in_words

ASSUMED = "- {name: Card, backendName: CPU, link: {bandwidth: 8 GB/s, latency: 10 us}}\n"
STATED = (
    "- {name: Card, backendName: CPU, peakCompute: 4 TOPS, peakDramBw: 30 GB/s, "
    "link: {bandwidth: 8 GB/s, latency: 10 us}}\n"
)
HOST = "- {name: Host, backendName: CPU}\n"
ROUGH = re.compile(r"about (?:[1-9]\d?0?|[1-9]\.[1-9]) [mµ]?s")
TIME = re.compile(r"[\d.]+ [mµ]?s")


def expect_rough(shown: Locator) -> None:
    """Expects times of one digit, and no others."""
    expect(shown).to_be_visible()
    says_exactly(shown, ROUGH)
    text = shown.inner_text()
    assert len(ROUGH.findall(text)) == len(TIME.findall(text)), text


def test_scripts_and_server_write_the_same_figures(opened: Page) -> None:
    """The ribbon and the tables had one digit where the headline had two: parts were more than the whole."""
    values = [
        mantissa * 10.0**-power for mantissa in (1.04, 1.26, 2.64, 6.97, 9.96) for power in range(7)
    ]
    for rough in (False, True):
        shown = opened.evaluate(
            "([values, rough]) => values.map((each) => hetero.humanSeconds(each, rough))",
            [values, rough],
        )
        assert shown == [in_words(value, rough) for value in values]


def test_predictions_on_assumed_speeds_are_rough(page: Page, show: Show, tmp_path: Path) -> None:
    model, devices = plain_decoder(tmp_path / "decoder.onnx"), tmp_path / "devices.yaml"
    devices.write_text(ASSUMED + HOST)
    page.goto(show(str(model), str(devices)))
    ready(page)
    expect_rough(page.locator("#verdict .headline"))
    page.evaluate("hetero.paint([hetero.page.view.ops[3]], 1)")
    expect_rough(page.locator("#ribbon-text", has_text="device switch"))
    step = page.get_by_role("button", name="Next device switch")
    expect(step).to_have_attribute("title", "Next device switch (])")
    page.keyboard.press("Control+z")
    expect(page.locator("#ribbon-text", has_text="device switch")).to_have_count(0)
    expect(step).to_be_disabled()
    expect(step).to_have_attribute("title", "This plan has no device switch")

    page.click("role=tab[name=Phases]")
    page.fill("#phases-prompt-length", "64")
    page.fill("#phases-new-length", "8")
    page.click("#phases-start")
    rows = page.locator("#phases-table tbody tr")
    expect(rows.first).to_be_visible()
    for cell in (1, 2, -2):  # the first token, each token, the answer
        expect_rough(rows.first.locator("td").nth(cell))

    page.click("role=tab[name=Benchmark]")
    page.select_option("#bench-mode", "latency")
    page.fill("#bench-seconds", "0.2")
    page.click("#bench-start")
    page.locator("#bench-cards .card", has_text="The plan").locator("summary").click()
    said = page.locator("#bench-cards").get_by_text(re.compile("^Estimate from shapes about"))
    says_exactly(
        said,
        re.compile(
            r"^Estimate from shapes about (?:[1-9]\d?0?|[1-9]\.[1-9]) [mµ]?s, measured [\d.]+ [mµ]?s[.:]"
        ),
    )


def test_a_set_on_assumed_speeds_is_rough_and_more_where_they_are_stated(
    page: Page, show: Show, tmp_path: Path
) -> None:
    folder, devices = tmp_path / "models", tmp_path / "devices.yaml"
    folder.mkdir()
    for seed in range(2):
        plain_decoder(folder / f"decoder{seed}.onnx", seed)
    devices.write_text(ASSUMED + HOST)
    page.goto(show(str(folder), str(devices)))
    expect_rough(page.locator(".set-figure"))
    row = page.locator("tr[data-model=decoder0]")
    for cell in (2, 3):  # one run, and in an answer
        expect_rough(row.locator("td").nth(cell))
    expect(row.get_by_text(re.compile(r"^about \d0?0? % of the answer$"))).to_be_visible()
    expect_rough(page.locator("[data-device=Card] h3"))
    page.click("#set-place")
    says(page.locator("#notice"), re.compile(r"an answer takes about [\d.]+ [mµ]?s, as before"))

    devices.write_text(STATED + HOST)
    page.goto(show(str(folder), str(devices)))
    says_exactly(page.locator(".set-figure"), TIME)
    expect(page.get_by_text(re.compile("about"))).to_have_count(0)
