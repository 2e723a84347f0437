"""The page of a set of models, as a person uses it."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from conftest import EXAMPLES
from decoders import plain_decoder
from pages import Serve, ready, says, says_exactly
from playwright.sync_api import Page, expect


def test_a_set_is_opened_changed_edited_and_exported(
    page: Page, serve: Serve, tmp_path: Path
) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    plain_decoder(folder / "decoder.onnx")
    (folder / "mobilenetv2.onnx").write_bytes(
        (EXAMPLES / "models" / "mobilenetv2.onnx").read_bytes()
    )
    devices = tmp_path / "devices.yaml"
    devices.write_text(
        "- {name: Card, backendName: CPU, memory: 30MB, peakCompute: 1.0e+13}\n"
        "- {name: CPU, backendName: CPU}\n"
    )
    served = serve(str(folder), "--devices", str(devices))
    page.goto(served.url)
    expect(page.get_by_role("heading", name="mobilenetv2 + decoder")).to_be_visible()
    rows = page.locator("[data-model]")
    expect(rows).to_have_count(2)
    for name in ("decoder", "mobilenetv2"):
        row = page.locator(f"[data-model={name}]")
        expect(row.get_by_role("img")).to_be_visible()
        expect(row.get_by_text(re.compile(r"Card \d+"))).to_be_visible()
        expect(row.get_by_text("estimate from shapes")).to_be_visible()
    card = page.locator("[data-device=Card]")
    expect(card.get_by_text("of 30 MB")).to_be_visible()
    assert card.locator(".set-part").count() == 3
    bar = card.locator(".set-bar").bounding_box()
    parts = [part.bounding_box() for part in card.locator(".set-part").all()]
    assert bar is not None
    assert 0 < sum(box["width"] for box in parts if box is not None) < bar["width"]

    figure = page.locator(".set-figure")
    before = figure.inner_text()
    times = page.get_by_label("Times that mobilenetv2 runs for one answer")
    expect(times).to_have_value("1")
    times.fill("500")
    times.press("Enter")
    expect(figure).not_to_have_text(before)
    expect(times).to_be_focused()
    after = figure.inner_text()
    page.reload()
    says_exactly(figure, after)
    expect(times).to_have_value("500")
    times.fill("0")
    times.press("Enter")
    expect(page.get_by_text("give a number above 0")).to_be_visible()
    says_exactly(figure, after)

    page.get_by_role("button", name="Place again").click()
    expect(page.get_by_text("Placed again: an answer takes")).to_be_visible()
    memory = page.get_by_role("textbox", name="Memory of Card")
    expect(memory).to_have_value("30MB")
    memory.fill("12 MB")
    memory.press("Enter")
    expect(card.get_by_text("of 12 MB")).to_be_visible()
    expect(card.get_by_text("too much")).to_be_visible()
    memory.fill("much")
    memory.press("Enter")
    says(page.locator("#notice"), "much")
    memory.fill("12 MB")
    page.get_by_label("Policy").select_option("memory")
    page.get_by_role("button", name="Place again").click()
    expect(page.get_by_text("Placed again: an answer takes")).to_be_visible()
    expect(card.get_by_text("too much")).to_have_count(0)
    after = figure.inner_text()
    assert Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"] == []

    page.locator("tr[data-model=mobilenetv2]").get_by_role("link", name="Benchmark").click()
    ready(page)
    expect(page.get_by_role("tab", name="Benchmark")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("button", name="Start")).to_be_visible()
    page.get_by_role("link", name="← mobilenetv2 + decoder").click()
    page.get_by_role("link", name="mobilenetv2", exact=True).click()
    ready(page)
    says_exactly(page.locator(".model-name"), "mobilenetv2.onnx")
    expect(page).to_have_title("mobilenetv2.onnx · Hetero Editor")
    page.get_by_role("link", name="← mobilenetv2 + decoder").click()
    expect(figure).to_be_visible()
    expect(page).to_have_title("mobilenetv2 + decoder · Hetero Editor")

    forms = page.get_by_label("Format of the export")
    impossible = forms.locator("option[value=genai]")
    expect(impossible).to_be_disabled()
    expect(impossible).to_have_attribute("title", re.compile(r"^\S+: \S"))
    forms.select_option("onnxruntime")
    with page.expect_download() as got:
        page.get_by_role("button", name="Export all").click()
    assert got.value.suggested_filename == "mobilenetv2_decoder_onnxruntime.zip"
    with zipfile.ZipFile(got.value.path()) as archive:
        document = json.loads(archive.read("set.json"))
        names = archive.namelist()
    assert [model["runs"] for model in document["models"]] == [500, 64]
    for name in ("decoder", "mobilenetv2"):
        assert sum(file.startswith(f"{name}/") for file in names) > 1

    page.get_by_role("link", name="Hetero Editor").click()
    page.locator(".recent", has_text="mobilenetv2 + decoder").click()
    says_exactly(figure, after)
