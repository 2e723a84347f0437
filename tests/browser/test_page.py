"""The page as a person uses it: real server, real runtimes, real Chromium."""

from __future__ import annotations

import re
from pathlib import Path

import graphviz
import numpy as np
import onnx
import pytest
from conftest import EXAMPLES, ODDITIES
from onnx import TensorProto, helper, numpy_helper
from pages import (
    Server,
    act,
    figure,
    fills,
    fold_out,
    node_at,
    ready,
    says,
    says_exactly,
    type_devices,
    until,
    wait_for_figure,
)
from playwright.sync_api import BrowserContext, Page, Route, expect


def test_the_main_job(page: Page, server: Server, tmp_path: Path) -> None:
    # Open: colours by device, legend with counts, tables.
    page.goto(server.url)
    ready(page)
    assert "/d/" in page.url
    assert len(fills(page)) == 100 and len(set(fills(page))) == 2
    assert [b.get_attribute("data-count") for b in page.locator(".device-count").all()] == [
        "98",
        "2",
        "0",
    ]
    assert figure(page, "subgraphs") == 4
    page.click("role=tab[name=Subgraphs]")
    expect(page.locator("#subgraphs .ag-center-cols-container .ag-row")).to_have_count(4)

    # Inspect an op.
    page.mouse.click(*node_at(page, 3))
    inspector = page.locator("#inspector")
    says_exactly(inspector.locator(".op-type"), "Clip")
    says(inspector, "First device in the table")
    says_exactly(inspector.locator(".verdicts .yes"), [re.compile(r"^✓ about [\d.]+ (µs|ms)$")] * 3)
    says(inspector, "Times of this op alone estimate from shapes")
    expect(inspector.get_by_role("heading", name="Pin to", exact=True)).to_be_visible()
    says(inspector, "1x32x112x112")
    says(inspector, "1.606 MB")
    expect(page.locator("#subgraphs .ag-row-selected")).to_have_count(1)

    # Choose a device by its number, repaint one op: the rest is solved again.
    page.keyboard.press("2")
    says(page.locator("#mode-hint"), "Painting with ONNX Runtime")
    before = fills(page)
    page.mouse.click(*node_at(page, 3))
    wait_for_figure(page, "pins", 1)
    wait_for_figure(page, "subgraphs", 6)
    assert [i for i, (a, b) in enumerate(zip(before, fills(page), strict=True)) if a != b] == [3]
    expect(page.locator("#subgraphs .ag-center-cols-container .ag-row")).to_have_count(6)
    says(page.locator("#status"), "+2")

    # Shift-drag a box.
    _, bottom = node_at(page, 9)
    x, top = node_at(page, 7)
    bottom = page.evaluate("""() => { const cy = window.heteroCy, p = cy.nodes('.op')[9].renderedPosition();
        return p.y + cy.container().getBoundingClientRect().top; }""")
    page.keyboard.down("Shift")
    page.mouse.move(x - 60, top - 18)
    page.mouse.down()
    page.mouse.move(x, (top + bottom) / 2, steps=4)
    page.mouse.move(x + 60, bottom + 18, steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")
    wait_for_figure(page, "pins", 4)
    wait_for_figure(page, "subgraphs", 8)
    until(page, "hetero.selectedOps().length === 3")  # a key may follow

    # Undo, redo, then unpin with the brush.
    page.keyboard.press("Control+z")
    wait_for_figure(page, "pins", 1)
    page.click("#redo")
    wait_for_figure(page, "pins", 4)
    page.keyboard.press("u")
    page.mouse.click(*node_at(page, 8))
    wait_for_figure(page, "pins", 3)

    # Region tools: everything between two ops, and the connected ops of one colour.
    page.keyboard.press("3")
    page.keyboard.press("b")
    page.mouse.click(*node_at(page, 20))
    says(page.locator("#mode-hint"), "Click the last op")
    page.mouse.click(*node_at(page, 22))
    wait_for_figure(page, "pins", 6)
    page.keyboard.press("b")
    page.keyboard.press("v")
    page.keyboard.press("r")
    page.mouse.click(*node_at(page, 21))
    says(inspector, "3 ops selected")
    page.keyboard.press("Escape")

    # What a device cannot run is refused with the reason, and can be forced.
    gemm = page.evaluate(
        "window.heteroCy.nodes('.op').toArray().findIndex((n) => n.data('name') === 'Gemm')"
    )
    page.keyboard.press("1")
    page.mouse.click(*node_at(page, gemm))
    says(page.locator("#notice"), "excludes Gemm on OpenVINO")
    page.click("text=Paint anyway")
    wait_for_figure(page, "pins", 7)
    page.keyboard.press("Control+z")
    wait_for_figure(page, "pins", 6)
    page.keyboard.press("Escape")

    # Another policy re-solves around the pins; another way to form subgraphs; undo brings both back.
    page.select_option("#policy", label="Optimal: least latency")
    says(page.locator("#outcome"), "Lower bound")
    says(page.locator("#outcome"), "estimate")
    assert figure(page, "pins") == 6
    page.keyboard.press("Escape")
    page.click("#more summary")
    page.select_option("#grouping", label="Connected (OpenVINO)")
    expect(page.locator("#undo")).to_be_enabled()
    until(page, "document.querySelector('#grouping').value === 'connected'")
    page.keyboard.press("Escape")
    for _ in range(2):
        page.click("#undo")
    expect(page.locator("#policy")).to_have_value("priority")
    expect(page.locator("#grouping")).to_have_value("minimal")

    # Colours can mean something else, and come back.
    shown = fills(page)
    page.select_option("#colour-by", label="Colour: codegen")
    until(page, "window.heteroCy.nodes('.op').some((n) => n.data('label').includes('openvino'))")
    page.select_option("#colour-by", label="Colour: device")
    until(page, "!window.heteroCy.nodes('.op').some((n) => n.data('label').includes('openvino'))")
    assert fills(page) == shown
    page.keyboard.press("Escape")

    # Tables and graph are linked.
    page.click("role=tab[name=Transfers]")
    page.locator("#transfers .ag-row").first.click()
    until(page, "window.heteroCy.edges('.mark').length > 0")
    page.click("role=tab[name=Subgraphs]")
    page.locator("#subgraphs .ag-row").nth(1).click()
    until(page, "window.heteroCy.nodes('.dim').length > 50")
    page.keyboard.press("Escape")

    # Export both DOT files, drawn SVG, and the plan.
    for group, label, name in (
        ("Pictures and graphs", "Affinities, DOT", "hetero_affinity_mobilenetv2.dot"),
        ("Pictures and graphs", "Subgraphs, DOT", "hetero_subgraphs_mobilenetv2.dot"),
        ("Pictures and graphs", "Affinities, SVG", "hetero_affinity_mobilenetv2.svg"),
        ("", "Plan, JSON", "plan.json"),
        ("Other formats", "Glow: partition log", "partition.log"),
    ):
        page.click("#export")
        if group:
            fold_out(page, group)
        with page.expect_download() as download:
            page.click(f"text={label}")
        assert download.value.suggested_filename == name
        download.value.save_as(tmp_path / name)
    affinity = (tmp_path / "hetero_affinity_mobilenetv2.dot").read_text()
    graphviz.Source(affinity)
    assert affinity.count('device="ONNX Runtime"') > 3
    assert "<svg" in (tmp_path / "hetero_affinity_mobilenetv2.svg").read_text()
    import editor

    assert len(editor.load_plan(tmp_path / "plan.json").pins) == 6

    # Benchmark to its end, watching it move.
    page.click("role=tab[name=Benchmark]")
    page.fill("#bench-seconds", "1.5")
    page.click("#bench-start")
    expect(page.locator("#bench-cancel")).to_be_enabled()
    says(page.locator("#bench-text"), "Measuring", timeout=60_000)
    expect(page.locator("#bench-chart .scatterlayer .trace")).not_to_have_count(0)
    says(page.locator("#bench-text"), "Done", timeout=90_000)
    cards = page.locator("#bench-cards")
    says(cards, "within tolerance")
    cards.locator("summary").first.click()
    for text in (
        "The plan",
        "Unsplit on OpenVINO",
        "Unsplit on ONNX Runtime",
        "Unsplit on Interpreter",
        "p99",
    ):
        says(cards, text)
    says(
        page.locator("#status [data-figure=predicted]"),
        re.compile(r"^[\d.]+ .s measurement (estimated|predicted) "),
    )
    says(page.locator("#ribbon-text"), "measured")
    # A device that takes many times as long has a line among the cards and no bar: that depends on the machine.
    bars = 3 if cards.get_by_text("Far slower").count() else 4
    expect(page.locator("#bench-versus-chart .barlayer .point")).to_have_count(bars)
    expect(
        page.locator("#bench-versus-chart path.xerror").filter(visible=True).first
    ).to_be_visible()
    subgraphs = figure(page, "subgraphs")
    expect(page.locator("#bench-chart .barlayer .trace")).to_have_count(subgraphs + 1)
    says(page.locator("#bench-table .ag-row").first, "measurement")

    # The result stays with the document, and says when the plan is another.
    page.reload()
    ready(page)
    page.click("role=tab[name=Benchmark]")
    says(cards, "within tolerance")
    expect(page.locator("#bench-stale")).not_to_contain_text("not of the present plan")
    page.click("#undo")
    says(page.locator("#bench-stale"), "not of the present plan")
    page.click("#redo")

    # Cancel takes effect at once, and the run before is shown again.
    page.fill("#bench-seconds", "300")
    page.click("#bench-start")
    says(page.locator("#bench-text"), "Measuring", timeout=60_000)
    button = page.locator("#bench-open")
    says(button, re.compile(r"^Measuring \d+ %$"))
    turns = re.compile(r"^Measuring .+ in turn: [\d,]+ runs$")
    says(page.locator("#bench-text"), turns)
    page.reload()
    ready(page)
    says(button, "Measuring")
    button.click()
    page.click("#bench-cancel")
    says_exactly(button, "Benchmark")
    says_exactly(page.locator("#bench-text"), "No new result. What stands here is the run before.")
    says(cards, "within tolerance")

    # Reload: nothing is lost.
    now = fills(page)
    page.reload()
    ready(page)
    assert fills(page) == now and figure(page, "pins") == 6
    page.keyboard.press("Control+z")
    wait_for_figure(page, "pins", 3)


def test_a_killed_server_loses_nothing(browser: BrowserContext, tmp_path: Path) -> None:
    server = Server(tmp_path, str(EXAMPLES / "models" / "mobilenetv2.onnx"))
    server.start()
    page = browser.new_page()
    try:
        page.goto(server.url)
        ready(page)
        page.keyboard.press("2")
        page.mouse.click(*node_at(page, 3))
        wait_for_figure(page, "pins", 1)
        server.stop(kill=True)
        server.start()
        page.reload()  # the address of the document, as the first request that the new server gets
        ready(page)
        assert figure(page, "pins") == 1
    finally:
        page.close()
        server.stop()


def test_app_takes_a_plan_and_asks_for_sizes(browser: BrowserContext, tmp_path: Path) -> None:
    import editor

    graph = editor.load_model(EXAMPLES / "models" / "mobilenetv2.onnx")
    keys = [k for i, k in enumerate(graph.op_keys) if not graph.op_is_constant[i]]
    plan = editor.partition(
        graph,
        EXAMPLES / "devices" / "runtimes.yaml",
        policy="optimal",
        pins={keys[4]: "Interpreter"},
    )
    path = plan.save(tmp_path / "plan.json")
    for arguments, check in (
        ((str(path),), "pins"),
        ((str(EXAMPLES / "models" / "resnet50.onnx"),), "sizes"),
        (("/nowhere.onnx",), "error"),
    ):
        server = Server(tmp_path / check, *arguments)
        server.start()
        page = browser.new_page()
        try:
            page.goto(server.url)
            if check == "pins":
                ready(page)
                assert (
                    figure(page, "pins") == 1 and page.input_value("#policy") == "optimal:latency"
                )
            elif check == "sizes":
                ready(page)
                says(page.locator(".model-what"), "batch 1")
            else:
                says(page.locator("#open-error"), "no such file")
        finally:
            page.close()
            server.stop()


def test_find_by_name_tensor_and_type(page: Page, server: Server) -> None:
    page.goto(server.url)
    ready(page)
    inspector = page.locator("#inspector")
    for text, key in (("hardtanh_1", "hardtanh_1"), ("GEMM", "logits"), ("n4_2", "hardtanh_1")):
        page.keyboard.press("/")
        page.fill("#find", text)
        page.keyboard.press("Enter")
        says(inspector.locator(".facts").first, key)
    assert page.evaluate("window.heteroCy.nodes(':selected').length") == 1
    field, found = page.locator("#find"), page.locator("#search-box")
    field.fill("conv")
    expect(found).to_be_visible()
    page.keyboard.press("Escape")
    expect(found).to_be_hidden()
    expect(field).to_have_value("conv")
    page.keyboard.press("Escape")
    expect(field).to_have_value("")
    expect(field).not_to_be_focused()


def test_a_model_too_large_to_draw_opens_in_blocks(page: Page, server: Server) -> None:
    page.goto(f"{server.url}/open")
    page.fill("#path", str(ODDITIES / "chain_20k.onnx"))
    type_devices(page, "HETERO:GPU,CPU")
    page.keyboard.press("Escape")
    page.click("#open-path")
    page.wait_for_selector("#graph", timeout=180_000)
    until(page, "window.heteroCy && window.heteroCy.nodes('.group').length > 10")
    assert page.evaluate("window.heteroCy.nodes().length") < 1300
    every = page.locator("#detail-mode option[value=ops]")
    expect(every).to_be_disabled()
    expect(every).to_have_attribute("title", re.compile("up to 6,000 ops; this model has 20,000"))
    act(page, "hetero.commandOf('detail-mode-ops').run()")
    expect(page.locator("#mode-hint").filter(has_text="Every op can be drawn")).to_be_visible()
    expect(page.locator("#detail-mode")).to_have_value("blocks")
    page.select_option("#policy", label="Optimal: least latency")
    says(page.locator("#outcome"), "Lower bound")
    expect(page.locator("#undo")).to_be_enabled()


def test_start_page_examples_sizes_and_upload(page: Page, server: Server) -> None:
    page.goto(f"{server.url}/open")
    says(page.locator("h1"), "Split a neural network")
    page.click("text=Two more, for the compiler Glow")
    page.click("text=FCN-ResNet101, OpenCL first")
    ready(page)
    assert figure(page, "subgraphs") == 3
    says(page.locator("#devices"), "planned", ignore_case=True)
    page.goto(f"{server.url}/open")
    page.fill("#path", str(EXAMPLES / "models" / "whisper-tiny-decoder.onnx"))
    type_devices(page, "runtimes.yaml")
    page.click("#open-path")
    says(page.locator("#symbols"), "sequence")
    page.locator("#symbols input").nth(1).fill("8")
    page.click("text=Open with these sizes")
    ready(page)
    says(page.locator(".model-what"), "sequence length 8")
    page.click("role=tab[name='Compare']")
    names = page.locator("#sizes-names")
    says(names, "Now: batch 1 · sequence length 8, also called sequence")
    expect(names.get_by_role("code").get_by_text("sequence", exact=True)).to_be_visible()
    page.fill("#sizes-list", "sequence length=8,64 batch=0,2")
    page.click("#sizes-compare")
    rows = page.locator("#sizes-table tbody tr")
    expect(rows).to_have_count(4, timeout=120_000)  # four placements, beside other tests
    says(rows.nth(1), "sequence length 8, batch 2")
    expect(page.locator("#sizes-table").get_by_text("estimate from shapes")).to_have_count(2)
    says(page.locator("#sizes-table thead"), "estimate from shapes")
    page.fill("#sizes-list", "length=8")
    page.press("#sizes-list", "Enter")
    says(page.locator("#sizes-result"), "it has: batch, sequence")
    act(page, "window.hetero.paint([window.hetero.page.view.ops[3]], 1, true)")
    wait_for_figure(page, "pins", 1)
    page.click("#sizes-open")
    label = page.locator("label", has=page.locator("input[id*='sequence']"))
    expect(label.get_by_text("Sequence length")).to_be_visible()
    expect(label.get_by_role("code").get_by_text("sequence", exact=True)).to_be_visible()
    page.locator("input[id*='sequence']").fill("16")
    page.locator("input[id*='sequence']").press("Enter")
    says(page.locator(".model-what"), "sequence length 16")
    ready(page)
    expect(page).to_have_title(re.compile("^whisper-tiny-decoder.* · Hetero Editor$"))
    wait_for_figure(page, "pins", 1)
    page.goto(f"{server.url}/open")
    with page.expect_file_chooser() as chooser:
        page.click("#upload >> text=files")
    chooser.value.set_files(str(ODDITIES / "nasty_names.onnx"))
    ready(page)
    page.mouse.click(*node_at(page, 2))
    says(page.locator("#inspector .op-name"), "<img src=x onerror=alert(1)>")


@pytest.mark.parametrize(
    ("file", "spec", "cause"),
    [
        ("truncated.onnx", "HETERO:CPU", "cut short"),
        ("html_error_page.onnx", "HETERO:CPU", "HTML page"),
        ("custom_op.onnx", "HETERO:CPU", "cannot run on any device"),
        ("diamond_not_convex.onnx", "HETERO:CPU,Warp9", "unknown device or runtime"),
        ("nowhere.onnx", "HETERO:CPU", "no such file"),
    ],
)
def test_bad_input_is_a_message(
    page: Page, server: Server, file: str, spec: str, cause: str
) -> None:
    page.goto(f"{server.url}/open")
    page.fill("#path", str(ODDITIES / file))
    type_devices(page, spec)
    page.keyboard.press("Escape")
    page.click("#open-path")
    says(page.locator("#open-error"), cause)
    assert page.input_value("#path") == str(ODDITIES / file)
    page.goto(f"{server.url}/d/nothing")
    says(page.locator("#open-error"), "not in the workspace")


def test_broken_table_is_a_message(page: Page, server: Server, tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text("- name: A\n  backendName: CPU\n  memory: lots\n")
    page.goto(f"{server.url}/open")
    page.fill("#path", str(ODDITIES / "diamond_not_convex.onnx"))
    type_devices(page, str(tmp_path / "t.yaml"))
    page.keyboard.press("Escape")
    page.click("#open-path")
    says(page.locator("#open-error"), "t.yaml:3: memory must be a size")


def test_dark_is_dark(browser: BrowserContext, server: Server) -> None:
    colours = {}
    for scheme in ("light", "dark"):
        page = browser.new_page()
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.goto(server.url)
        ready(page)
        colours[scheme] = page.evaluate(
            "getComputedStyle(document.querySelector('#header')).backgroundColor"
        )
        edge = page.evaluate("window.heteroCy.edges()[0].style('line-color')")
        assert edge == {"light": "rgb(180,186,194)", "dark": "rgb(86,93,102)"}[scheme]
        page.close()
    assert colours == {"light": "rgb(255, 255, 255)", "dark": "rgb(29, 32, 37)"}


def test_sizes_that_the_model_cannot_have_are_asked_for_again(
    page: Page, server: Server, tmp_path: Path
) -> None:
    """The form was gone with the error, and who had typed sizes had to start over."""
    weights = numpy_helper.from_array(np.ones((5, 2), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], "m")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "width"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [weights],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        tmp_path / "wide.onnx",
    )
    page.goto(f"{server.url}/open")
    page.fill("#path", str(tmp_path / "wide.onnx"))
    type_devices(page, "HETERO:CPU")
    page.keyboard.press("Escape")
    page.click("#open-path")
    says(page.locator("#symbols"), "width")
    page.locator("#symbols input").nth(1).fill("4")
    page.click("#open-sizes")
    says(page.locator("#open-error"), "batch=1, width=4")
    page.locator("#symbols input").nth(1).fill("5")
    page.click("#open-sizes")
    ready(page)
    says(page.locator(".model-what"), "width 5")
    says(page.locator("#ribbon-text"), "The one op runs on CPU. Add a device")


def test_blocks_open_and_close_and_are_painted_in_every_layer(page: Page, server: Server) -> None:
    page.goto(f"{server.url}/open")
    page.click("text=Whisper tiny, decoder")
    ready(page)
    assert page.locator("#detail-mode").input_value() == "blocks", (
        "a model of over 200 ops with module names"
    )
    few = page.evaluate("window.heteroCy.nodes('.op').length")
    page.select_option("#detail-mode", label="Every op")
    until(
        page,
        "window.heteroCy.nodes('.op').length > 200 && window.heteroCy.nodes('.group').length === 0",
    )
    page.select_option("#detail-mode", label="Blocks")
    until(
        page,
        f"window.heteroCy.nodes('.op').length === {few} && {few} < 50 && window.heteroCy.nodes('.group').length > 0",
    )
    page.evaluate(
        "(() => { const n = window.heteroCy.nodes('.group').max((n) => hetero.opsOf(n).length).ele; n.select(); })()"
    )
    page.wait_for_timeout(200)
    page.keyboard.press("e")
    until(
        page,
        f"window.heteroCy.nodes('.op').length > {few} && window.heteroCy.nodes(':selected').length > 1",
    )
    page.keyboard.press("c")
    until(page, f"window.heteroCy.nodes('.op').length == {few}")
    page.fill("#find", "op == Softmax")
    page.keyboard.press("Enter")
    says(page.locator("#inspector"), "8 ops selected")  # not those of the block that was closed
    page.locator("#find").blur()
    until(page, "window.heteroCy.nodes(':selected').length > 0")
    page.keyboard.press("2")
    page.keyboard.press("t")  # grows, and paints nothing before it is told to
    expect(page.locator("#mode-hint")).to_contain_text("Space paints the selection")
    expect(page.locator("[data-figure=pins]")).to_have_attribute("data-value", "0")
    page.keyboard.press(" ")
    expect(page.locator("[data-figure=pins]")).not_to_have_attribute("data-value", "0")
    says(page.locator("#history"), "ops →")
    page.click("#history button.step >> nth=-1")
    wait_for_figure(page, "pins", 0)
    page.select_option("#detail-mode", label="Subgraphs")
    until(page, "window.heteroCy.nodes('.op').length === window.heteroCy.nodes('.group').length")


def test_the_map_shows_paints_and_leads_to_an_op(page: Page, server: Server) -> None:
    page.goto(f"{server.url}/open")
    page.fill("#path", str(ODDITIES / "chain_20k.onnx"))
    type_devices(page, "HETERO:OpenCL,CPU")
    page.keyboard.press("Escape")
    page.click("#open-path")
    page.wait_for_selector("#graph", timeout=180_000)
    page.keyboard.press("m")
    until(page, "window.heteroMap.ready && window.heteroMap.count === 20000", timeout=20_000)
    page.wait_for_timeout(200)
    box = page.locator("#map").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.click(x, y)
    expect(page.locator("#inspector h3").first).to_be_visible(timeout=10_000)
    says(page.locator("#inspector"), "Why it is here")
    page.keyboard.press("2")
    page.keyboard.down("Shift")
    page.mouse.move(x - 60, y - 40)
    page.mouse.down()
    page.mouse.move(x + 60, y + 40, steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")
    until(
        page,
        "Number(document.querySelector('[data-figure=pins]')?.dataset.value) > 100",
        timeout=20_000,
    )
    page.keyboard.press("?")
    says(page.locator("#help"), "one level deeper")


def test_bundles_for_other_tools_download(page: Page, server: Server) -> None:
    page.goto(f"{server.url}/open")
    page.click("text=Two more, for the compiler Glow")
    page.click("text=FCN-ResNet101, OpenCL first")
    ready(page)
    for label, name in (
        ("HTML report", "fcn-resnet101.html"),
        ("Glow: device table", "fcn-resnet101_glow.zip"),
    ):
        page.click("#export")
        if "Glow" in label:
            fold_out(page, "Other formats")
        with page.expect_download() as download:
            page.click(f"text={label}")
        assert download.value.suggested_filename == name
        assert Path(download.value.path()).stat().st_size > 500


def test_layouts_are_kept_compared_and_used_and_hints_applied(page: Page, server: Server) -> None:
    page.goto(f"{server.url}/open")
    page.click("text=Two more, for the compiler Glow")
    page.click("text=FCN-ResNet101, OpenCL first")
    ready(page)
    page.click("role=tab[name='Compare']")
    page.fill("#layout-name", "three parts")
    page.click("#layout-keep")
    says(page.locator("#compare-table"), "three parts")
    row = page.locator("#compare-table tr", has_text="OpenVINO HETERO rule (simulated)").first
    expect(row.get_by_text("the same: ")).to_be_visible()
    page.click("[data-pane='three parts']")
    expect(page.locator("#layout-name")).to_have_value("")
    page.fill("#layout-name", "three parts")
    page.click("#layout-keep")
    says(page.locator("#layout-problem"), "There is a layout called “three parts” already.")
    expect(page.locator("#layout-name")).to_have_value("three parts")
    page.fill("#layout-name", "soon gone")
    page.click("#layout-keep")
    expect(page.locator("[data-layout-remove]")).to_have_count(2)
    page.click("[data-layout-remove='soon gone']")
    expect(page.locator("[data-layout-remove]")).to_have_count(1)
    expect(page.locator("[data-pane='three parts']")).to_have_attribute("aria-checked", "true")
    page.click("[data-layout-use='least latency']")
    says(page.locator("#history"), "least latency")
    page.click("#compare-start")
    page.wait_for_timeout(500)
    page.click("[data-layout-use='three parts']")
    wait_for_figure(page, "subgraphs", 3)
    chosen = page.locator("#compare-table tr", has_text="three parts")
    expect(chosen.get_by_text("same plan")).to_be_visible()  # layouts are compared again
    expect(page.locator(".outdated")).to_be_hidden()
    page.click("role=tab[name=Fallbacks]")
    page.click("#hints-start")
    says(page.locator("#hints-result"), re.compile("Apply|profile first"))


def test_links_and_the_way_back_and_forward_change_the_page_and_its_address(
    fresh: Page, server: Server
) -> None:
    page, document = fresh, fresh.url.partition("#")[0]
    page.get_by_role("link", name="Hetero Editor").click()
    expect(page.locator("#start")).to_be_visible()
    assert page.url == f"{server.url}/open"
    page.go_back()
    expect(page.locator("#fallbacks")).not_to_be_empty()
    assert page.url.partition("#")[0] == document
    page.go_forward()
    expect(page.locator("#start")).to_be_visible()
    page.locator(f".recent[href='{document.removeprefix(server.url)}']").click()
    expect(page.locator("#fallbacks")).not_to_be_empty()
    assert page.url.partition("#")[0] == document
    page.go_back()
    expect(page.locator("#start")).to_be_visible()


def test_a_script_that_could_not_be_loaded_is_asked_for_again(
    browser: BrowserContext, fresh: Page
) -> None:
    page = browser.new_page()
    asked: list[str] = []

    def refuse_the_first(route: Route) -> None:
        asked.append(route.request.url)
        if len(asked) == 1:
            route.abort()
        else:
            route.continue_()

    page.route(re.compile("/dash_ag_grid/"), refuse_the_first)
    page.goto(fresh.url)
    expect(page.locator("#fallbacks")).not_to_be_empty()
    page.evaluate("heteroScripts('tables')")  # waits for the answer
    assert len(asked) == 1
    page.click("role=tab[name=Subgraphs]")
    expect(page.locator("#subgraphs .ag-row").first).to_be_visible()
    page.close()
