"""The page of a set of models, as a person uses it."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

import onnx
from axe_playwright_python.sync_playwright import Axe
from conftest import EXAMPLES
from decoders import plain_decoder
from pages import Show, ready, says, says_exactly
from playwright.sync_api import Page, expect
from weighted_chain import weighted_chain


def test_a_set_is_opened_changed_edited_and_exported(
    page: Page, show: Show, tmp_path: Path
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
    address = show(str(folder), str(devices))
    page.goto(address)
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

    page.locator("tr[data-model=mobilenetv2]").get_by_role("link", name="Open Benchmark").click()
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


def two_chains(show: Show, tmp_path: Path, memory: str) -> str:
    """The address of a set of two models, "first" and "second", on a card of so much memory and the CPU."""
    folder, side = tmp_path / "models", 128
    for name in ("first", "second"):
        weighted_chain(folder / f"{name}.onnx", 4, side)
    devices = tmp_path / "devices.yaml"
    devices.write_text(
        f"- {{name: Card, backendName: GPU, memory: {memory}, peakCompute: 10 TFLOPS, peakDramBw: 400 GB/s}}\n"
        "- {name: CPU, backendName: CPU}\n"
    )
    return show(str(folder), str(devices))


def test_a_set_that_does_not_fit_says_so_and_is_placed_within_memory_and_undone(
    page: Page, show: Show, tmp_path: Path
) -> None:
    page.goto(two_chains(show, tmp_path, "400kB"))
    unfit = page.get_by_text("Does not fit: Card needs")
    expect(page.locator(".set-figure")).to_be_visible()
    expect(unfit).to_have_count(0)
    page.get_by_label("Policy").select_option("optimal:latency")
    page.get_by_role("button", name="Place again").click()
    expect(unfit).to_be_visible()
    expect(page.get_by_text(re.compile(r"; Card .* → .*, .* too much"))).to_be_visible()
    assert Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"] == []

    page.get_by_role("link", name="second", exact=True).click()
    ready(page)
    says(page.locator("#verdict"), "of 400 kB; the other models of the set take 262.1 kB")
    expect(page.get_by_role("button", name="Split within memory")).to_have_count(0)
    page.get_by_role("link", name="Place the set within memory").click()
    page.get_by_role("button", name="Place the set within memory").click()
    expect(unfit).to_have_count(0)
    expect(page.get_by_label("Policy")).to_have_value("memory")
    page.get_by_role("button", name="Undo").click()
    expect(unfit).to_be_visible()
    page.get_by_role("button", name="Place the set within memory").click()
    expect(unfit).to_have_count(0)
    expect(page.get_by_role("button", name="Undo")).to_be_visible()
    page.keyboard.press("Control+z")
    expect(unfit).to_be_visible()


def test_an_open_model_of_a_set_follows_strokes_in_another(
    page: Page, show: Show, tmp_path: Path
) -> None:
    """What the others take stayed what it was when the set was placed."""
    page.goto(two_chains(show, tmp_path, "1MB"))
    other = page.context.new_page()
    address = page.get_by_role("link", name="first", exact=True).get_attribute("href")
    other.goto(page.url.rstrip("/").split("/set")[0] + str(address))
    ready(other)
    page.get_by_role("link", name="second", exact=True).click()
    ready(page)
    says(page.locator("#devices"), "of 1 MB; the other models of the set take 262.1 kB")
    says(other.locator("#devices"), "of 1 MB; the other models of the set take 262.1 kB")

    other.evaluate("hetero.paint(hetero.page.view.ops.slice(3), 0)")
    other.evaluate("hetero.paint(hetero.page.view.ops.slice(0, 3), 1)")
    says(page.locator("#devices"), "of 1 MB; the other models of the set take 65.54 kB")
    expect(page.locator("#notice .note")).to_have_count(0)
    says(
        other.locator("#devices"),
        "peak 131.1 kB of 1 MB; the other models of the set take 294.9 kB",
    )
    other.keyboard.press("Control+z")
    other.keyboard.press("Control+z")
    says(page.locator("#devices"), "of 1 MB; the other models of the set take 262.1 kB")


def test_weights_that_a_model_of_a_set_lacks_are_said_once_and_can_be_added(
    page: Page, show: Show, tmp_path: Path
) -> None:
    folder, elsewhere = tmp_path / "models", tmp_path / "elsewhere"
    elsewhere.mkdir()
    weighted_chain(folder / "whole.onnx", 3, 128)
    for name in ("first", "second"):
        model = onnx.load(weighted_chain(elsewhere / f"{name}.onnx", 4, 128))
        location = f"{name}.bin"
        onnx.save(
            model,
            folder / f"{name}.onnx",
            save_as_external_data=True,
            location=location,
            size_threshold=100,
        )
        (folder / location).rename(elsewhere / location)
    page.goto(show(str(folder), "HETERO:CPU"))
    bar = page.get_by_role("alert")
    for name in ("first", "second"):
        said = page.get_by_text(f"the weights in {name}.bin are not here")
        expect(said).to_have_count(1)
        expect(bar.get_by_text(f"{name}.onnx")).to_be_visible()
        link = page.locator(f"[data-model={name}]").get_by_role("link", name="Benchmark")
        expect(link).to_be_visible()
        expect(link).to_be_disabled()
        expect(link).to_have_attribute("title", f"the weights in {name}.bin are not here")
    whole = page.locator("[data-model=whole]").get_by_role("link", name="Benchmark")
    expect(whole).to_be_enabled()
    forms = page.get_by_label("Format of the export").locator("option")
    needing = forms.filter(has_text="One model per subgraph, runner")
    expect(needing).to_be_disabled()
    expect(needing).to_have_attribute("title", re.compile("the weights in first.bin are not here"))
    assert Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"] == []

    with page.expect_file_chooser() as chooser:
        bar.get_by_role("button", name="Add second.bin").click()
    chooser.value.set_files(elsewhere / "first.bin")
    says(page.locator("#notice"), "the model needs second.bin, and this is first")
    for name in ("second", "first"):
        with page.expect_file_chooser() as chooser:
            bar.get_by_role("button", name=f"Add {name}.bin").click()
        chooser.value.set_files(elsewhere / f"{name}.bin")
        expect(page.get_by_text(f"the weights in {name}.bin are not here")).to_have_count(0)
        assert (folder / f"{name}.bin").read_bytes() == (elsewhere / f"{name}.bin").read_bytes()
        link = page.locator(f"[data-model={name}]").get_by_role("link", name="Benchmark")
        expect(link).to_be_enabled()
    expect(bar).to_have_count(0)
    expect(needing).to_be_enabled()


def test_the_device_table_of_a_set_is_edited_on_its_page(
    page: Page, show: Show, tmp_path: Path
) -> None:
    folder = tmp_path / "models"
    for name in ("first", "second"):
        weighted_chain(folder / f"{name}.onnx", 3, 128)
    page.goto(show(str(folder), "HETERO:CPU"))
    row = page.locator("[data-model=first]")
    expect(row.get_by_text("CPU 3")).to_be_visible()
    memory = page.get_by_role("textbox", name="Memory of CPU")
    memory.fill("2 GB")
    memory.press("Enter")
    expect(page.get_by_role("heading", name="of 2 GB")).to_be_visible()
    page.locator("#set-devices summary").click()
    table = page.get_by_role("textbox", name="Devices by priority, as YAML")
    expect(table).to_have_value("- name: CPU\n  memory: 2 GB\n")

    table.fill("- name: CPU\n- name: Card\n  backendName: CPU\n  memory: much\n")
    page.get_by_role("button", name="Use this table").click()
    problem = page.get_by_role("alert")
    expect(problem).to_be_visible()
    says(problem, "device table:4: memory must be a size above 0")
    expect(table).to_have_value(re.compile("memory: much"))
    expect(page.locator("[data-device=Card]")).to_have_count(0)
    assert Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"] == []

    link = "link: {bandwidth: 100 GB/s, latency: 1 us}"
    table.fill(
        "- {name: CPU, peakCompute: 1 GFLOPS, peakDramBw: 1 GB/s}\n"
        f"- {{name: Card, backendName: CPU, peakCompute: 4 TFLOPS, peakDramBw: 1 TB/s, {link}}}\n"
    )
    page.get_by_role("button", name="Use this table").click()
    expect(page.get_by_text("Placed again: an answer takes")).to_be_visible()
    for _ in range(2):  # also after a reload
        for name in ("first", "second"):
            expect(page.locator(f"[data-model={name}]").get_by_text("Card 3")).to_be_visible()
        card = page.locator("[data-device=Card]")
        expect(card.get_by_text(re.compile("^weights of first"))).to_be_visible()
        expect(page.get_by_role("textbox", name="Memory of Card")).to_have_value("")
        expect(page.get_by_role("textbox", name="Memory of CPU")).to_have_value("")
        swatch, bar = row.locator(".set-ops .swatch"), card.locator(".set-part").first
        colour = "(e) => getComputedStyle(e).backgroundColor"
        assert swatch.evaluate(colour) == bar.evaluate(colour)
        page.reload()
    page.get_by_role("link", name="first", exact=True).click()
    ready(page)
    page.get_by_role("tab", name="Devices").click()
    expect(page.locator("#device-forms").get_by_text("Card", exact=True)).to_be_visible()
