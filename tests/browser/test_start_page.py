"""The start page: what it shows first, what it takes, and what it refuses before anything is sent."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import pytest
from conftest import EXAMPLES, write_dag
from pages import (
    Serve,
    Server,
    act,
    ready,
    says,
    says_exactly,
    type_devices,
    until,
    wait_for_figure,
)
from playwright.sync_api import Page, Route, expect

import editor
from editor.placement.placement import Settings
from editor.workspace.history import Store
from editor.workspace.solver import first_decisions

MOBILENET = EXAMPLES / "models" / "mobilenetv2.onnx"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dag(tmp_path_factory.mktemp("model") / "small.onnx", [[], [0], [1]])


def drag(page: Page, what: str, file: Path) -> None:
    """As a person who drags a file over the page; the browser itself makes the events."""
    data = {"items": [], "files": [str(file)], "dragOperationsMask": 1}
    session = page.context.new_cdp_session(page)
    session.send("Input.dispatchDragEvent", {"type": what, "x": 900, "y": 500, "data": data})
    session.detach()


def test_the_drop_zone_and_recent_work_are_seen_without_scrolling(
    page: Page, serve: Serve, model: Path
) -> None:
    server = serve()
    graph, store = editor.load_model(model), Store(str(server.workspace))
    for i in range(8):
        name = f"{'long-name-' * 20}{i}.onnx"
        store.create(
            name,
            f"/models/{name}",
            graph.sha256,
            {},
            first_decisions(Settings(), [{"name": "CPU", "backendName": "CPU"}]),
        )
    page.goto(f"{server.url}/open")
    for place in ("#upload", "#path", "#devices-choice", "text=Show all 8", "text=MobileNetV2"):
        expect(page.locator(place).first).to_be_in_viewport(ratio=1)
    expect(page.locator(".recent:visible")).to_have_count(6)
    for width in (1280, 800, 390):
        page.set_viewport_size({"width": width, "height": 720})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.click("text=Show all 8")
    expect(page.locator(".recent:visible")).to_have_count(8)
    page.set_viewport_size({"width": 1280, "height": 720})


def test_each_control_says_what_it_is_for(page: Page, server: Server) -> None:
    """A list of some twenty devices was headed by "Add one …" only."""
    page.goto(f"{server.url}/open")
    choice = page.get_by_role("combobox", name="Planned devices (not in this machine), tried first")
    expect(choice).to_be_visible()
    expect(choice.locator("option").first).to_have_text("Add a planned device …")
    names = choice.locator("option").all_inner_texts()
    assert len(set(names)) == len(names) > 10
    expect(page.get_by_role("button", name="MobileNetV2 start here 100 ops")).to_be_visible()
    controls = page.locator("#start :is(button, input, select, summary):visible")
    texts = controls.evaluate_all(
        "all => all.map(one => one.ariaLabel || one.labels?.[0]?.innerText || one.innerText)"
    )
    assert all(texts) and len(set(texts)) == len(texts), texts


def test_a_file_may_be_dropped_anywhere_and_the_page_says_so(
    page: Page, server: Server, model: Path
) -> None:
    page.goto(f"{server.url}/open")
    expect(page.locator("#upload")).to_be_visible()
    drag(page, "dragEnter", model)
    drag(page, "dragOver", model)
    expect(page.locator("#drop")).to_be_visible()
    says_exactly(page.locator("#drop"), "Drop to open")
    page.dispatch_event(
        "#start", "dragleave"
    )  # of the window: a browser names no element that it went to
    expect(page.locator("#drop")).to_be_hidden()
    drag(page, "dragEnter", model)
    drag(page, "dragOver", model)
    drag(page, "drop", model)
    ready(page)
    expect(page.locator("#drop")).to_be_hidden()
    assert "/d/" in page.url


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (
            "llama.gguf",
            b"GGUF",
            "holds weights for llama.cpp and no graph; export the model to ONNX",
        ),
        ("a.safetensors", b"", "safetensors hold weights and no graph"),
        ("net.pt", b"PK\x03\x04", "a file of PyTorch, which runs code when it is loaded"),
        ("net.H5", b"\x89HDF", "a Keras model in HDF5"),
        ("net.engine", b"", "use the model that it was built from"),
        ("net.mlmodel", b"", "a Core ML model"),
        ("net.bin", b"", "only weights: name the .xml or .onnx file beside it"),
        ("net.onnx", b"  <!DOCTYPE html>", "net.onnx is an HTML page; the download went wrong"),
        ("net.onnx", b"version https://git-lfs.github.com", "run `git lfs pull`"),
        ("net", b"GGUF", "net is a GGUF file"),
        ("photo.png", b"\x89PNG", "the upload has no model that opens"),
    ],
)
def test_what_does_not_open_is_told_apart_before_it_is_sent(
    page: Page, server: Server, tmp_path: Path, name: str, content: bytes, words: str
) -> None:
    sent: list[str] = []
    page.on("request", lambda r: sent.append(r.url) if "/models/" in r.url else None)
    (tmp_path / name).write_bytes(content)
    page.goto(f"{server.url}/open")
    with page.expect_file_chooser() as chooser:
        page.click("text=Choose files")
    chooser.value.set_files(str(tmp_path / name))
    said = page.locator("#upload-progress")
    expect(said).to_be_visible()
    says(said, words)
    assert not sent


def test_an_error_goes_when_something_else_is_tried(
    page: Page, server: Server, tmp_path: Path
) -> None:
    (tmp_path / "net.h5").write_bytes(b"\x89HDF")
    page.goto(f"{server.url}/open")
    page.fill("#path", "/no/such/model.onnx")
    page.click("#open-path")
    expect(page.locator("#open-error").get_by_text("no such file")).to_be_visible()
    with page.expect_file_chooser() as chooser:
        page.click("text=Choose files")
    chooser.value.set_files(str(tmp_path / "net.h5"))
    says(page.locator("#upload-progress"), "a Keras model")
    expect(page.locator("#open-error")).to_be_hidden()
    page.click("#open-path")
    expect(page.locator("#open-error").get_by_text("no such file")).to_be_visible()


def test_what_could_not_be_opened_at_the_start_is_mended_on_the_page(
    page: Page, serve: Serve, tmp_path: Path, model: Path
) -> None:
    wanted = tmp_path / "later.onnx"
    server = serve(str(wanted), "--devices", "GPU,GPU.1,CPU")
    page.goto(server.url)
    says(page.locator("#open-error"), "later.onnx: no such file")
    expect(page.locator("#path")).to_have_value(str(wanted))
    expect(page.locator("#devices-spec")).to_have_value("GPU,GPU.1,CPU")
    wanted.write_bytes(model.read_bytes())
    page.click("#open-path")
    ready(page)
    expect(page.locator("#open-error")).to_have_count(0)
    expect(page.locator("[data-device='GPU.1']")).to_be_visible()


def test_recent_work_on_other_presets_looks_different(
    page: Page, server: Server, model: Path
) -> None:
    for preset in ("hailo8", "edgetpu as int8"):
        page.goto(f"{server.url}/open")
        page.fill("#path", str(model))
        type_devices(page, f"HETERO:NPU({preset}),CPU")
        page.click("#open-path")
        ready(page)
    page.goto(f"{server.url}/open")
    for words in ("NPU (hailo8), CPU", "NPU (edgetpu, as int8), CPU"):
        expect(page.locator(".recent", has_text=words)).to_be_visible()


def test_slimmed_examples_say_so(page: Page, server: Server) -> None:
    """ResNet-50 ends with 2,048 channels, and Whisper tiny has states of 384."""
    page.goto(f"{server.url}/open")
    cards = {
        "resnet50.onnx": ("ResNet-50", "a quarter of the channels", "onnx::Conv", 2048),
        "whisper-tiny-decoder.onnx": (
            "Whisper tiny",
            "a quarter of the width",
            "model.layers.0.self_attn.q_proj.bias",
            384,
        ),
    }
    for file, (title, words, tensor, whole) in cards.items():
        says(page.locator(".example", has_text=title), words)
        initializers = onnx.load(EXAMPLES / "models" / file).graph.initializer
        sizes = [i.dims[0] for i in initializers if i.name.startswith(tensor) and i.dims]
        assert 4 * max(sizes) == whole
    says(page.locator("main"), "Weights are made up, not trained")


def test_examples_have_pictures(page: Page, server: Server) -> None:
    page.goto(f"{server.url}/open")
    page.click("text=Two more, for the compiler Glow")
    pictures = page.locator(".example-picture")
    expect(pictures).to_have_count(5)
    for picture in pictures.all():
        expect(picture).to_be_visible()
        until(page, "each => each.complete && each.naturalWidth > 0", picture.element_handle())


def test_an_example_opens_at_once(page: Page, server: Server) -> None:
    page.goto(f"{server.url}/open")
    page.click("text=Whisper tiny, decoder")
    ready(page)
    expect(page.locator(".model-what")).to_be_visible()
    says(page.locator(".model-what"), "sequence length ")


def test_the_example_of_a_planned_device_is_split_for_a_reason(page: Page, server: Server) -> None:
    """It opened with all ops on one planned device."""
    page.goto(f"{server.url}/open")
    says(page.locator(".example", has_text="ResNet-50"), "planned for an NVIDIA DLA and CPU")
    page.locator(".example", has_text="ResNet-50").click()
    ready(page)
    says(page.locator("[data-device='NPU']"), "nvidia-dla, as if float16")
    counts = page.locator(".device-count")
    expect(counts.nth(0)).to_have_attribute("data-count", "120")
    expect(counts.nth(1)).to_have_attribute("data-count", "2")
    page.click("role=tab[name=Fallbacks]")
    says(page.locator("#fallbacks-table"), "GlobalAveragePool")


def test_an_example_opens_on_the_devices_that_were_chosen(page: Page, server: Server) -> None:
    page.goto(f"{server.url}/open")
    page.select_option("#devices-choice", label="NPU: hailo8")
    page.select_option("#devices-choice", label="NPU: edgetpu, model as int8")
    expect(page.locator("#devices-spec")).to_have_value(
        re.compile(r"^HETERO:NPU\(hailo8\),NPU2\(edgetpu as int8\),")
    )
    page.locator(".example", has_text="MobileNetV2").click()
    ready(page)
    expect(page.locator("#devices").get_by_text("edgetpu").first).to_be_visible()


def test_devices_to_choose_from_are_greyed_where_others_are_typed(
    page: Page, server: Server
) -> None:
    page.goto(f"{server.url}/open")
    said = page.get_by_text("Not used: the table below counts")
    expect(page.locator(".machine")).to_have_css("opacity", "1")
    expect(said).to_be_hidden()
    type_devices(page, "GPU,GPU.1,CPU")
    expect(page.locator(".machine")).to_have_css("opacity", "0.5")
    expect(said).to_be_visible()
    page.get_by_label("OpenVINO.CPU", exact=True).uncheck()
    expect(page.locator("#devices-spec")).to_have_value("HETERO:CPU")
    expect(said).to_be_hidden()
    type_devices(page, " cpu")
    expect(said).to_be_hidden()


def test_nothing_moves_while_an_example_opens(page: Page, server: Server) -> None:
    page.goto(f"{server.url}/open")
    page.set_viewport_size({"width": 1280, "height": 500})
    example = page.locator(".example", has_text="MobileNetV2")
    example.scroll_into_view_if_needed()
    before = example.bounding_box()
    held: list[Route] = []
    page.route(
        "**/_dash-update-component*",
        lambda route: (
            held.append(route)
            if "opened.data" in (route.request.post_data or "")
            else route.continue_()
        ),
    )
    with page.expect_request(lambda request: "opened.data" in (request.post_data or "")):
        example.click()
    expect(page.get_by_role("button", name="Cancel", exact=True)).to_be_in_viewport(ratio=1)
    assert example.bounding_box() == before and held
    for route in held:
        route.continue_()
    page.unroute_all()
    ready(page)
    page.set_viewport_size({"width": 1280, "height": 720})


def test_earlier_work_is_continued_or_left_as_the_person_says(
    page: Page, server: Server, model: Path
) -> None:
    def ask_for_it() -> None:
        page.goto(f"{server.url}/open")
        page.fill("#path", f'"{model}"')  # as file managers copy a path
        type_devices(page, "HETERO:GPU,CPU")
        page.click("#open-path")

    ask_for_it()
    ready(page)
    first = page.url
    ask_for_it()
    ready(page)
    assert page.url == first, "nothing was edited: there is nothing to ask"
    act(page, "window.hetero.paint([window.hetero.page.view.ops[0]], 1, true)")
    wait_for_figure(page, "pins", 1)

    ask_for_it()
    expect(page.get_by_text("Continue where you left off, or start fresh?")).to_be_visible()
    page.get_by_role("button", name="Start fresh").click()
    ready(page)
    wait_for_figure(page, "pins", 0)
    assert page.url != first
    page.goto(first)
    ready(page)
    wait_for_figure(page, "pins", 1)

    act(page, "window.hetero.paint([window.hetero.page.view.ops[1]], 1, true)")
    wait_for_figure(page, "pins", 2)  # the latest again
    ask_for_it()
    page.get_by_role("link", name="Continue where you left off").click()
    expect(page).to_have_url(re.compile(re.escape(first)))
    ready(page)
    wait_for_figure(page, "pins", 2)
