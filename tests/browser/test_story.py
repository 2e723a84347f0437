"""What a person sees first: where the model runs, what fell off the wanted device, why, and what to do."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
from conftest import EXAMPLES, write_dag
from pages import (
    Server,
    Show,
    act,
    hold,
    ready,
    says,
    says_exactly,
    type_devices,
    until,
    wait_for_figure,
)
from playwright.sync_api import BrowserContext, Page, expect

MOBILENET = str(EXAMPLES / "models" / "mobilenetv2.onnx")


def test_the_first_view_shows_the_first_change_of_device_and_what_fell_back(fresh: Page) -> None:
    page = fresh
    says(page.locator("#ribbon-text"), "3 device switches")
    expect(page.locator("#ribbon-canvas")).to_have_attribute(
        "aria-label", "The run in order: 4 subgraphs. " + page.locator("#ribbon-text").inner_text()
    )
    op = page.evaluate("hetero.page.view.change")
    where = page.evaluate("(op) => heteroCy.getElementById(`op${op}`).renderedPosition()", op)
    box = page.locator("#graph").bounding_box()
    assert box and 0 < where["x"] < box["width"] and 0 < where["y"] < box["height"]
    page.click("role=tab[name=Fallbacks]")
    rows = page.locator("#fallbacks-table tbody tr")
    expect(rows).to_have_count(2)
    says(rows.filter(has_text="Gemm"), "OpenVINO")
    rows.filter(has_text="Gemm").get_by_role("button", name="Select").click()
    until(
        page, "document.activeElement === document.body"
    )  # so that Space paints, and does not press the button again
    says_exactly(page.locator("#inspector .op-type"), "Gemm")


def test_in_a_small_window_the_first_change_of_device_is_beside_the_buttons(
    page: Page, server: Server
) -> None:
    page.set_viewport_size({"width": 1280, "height": 720})
    open_model(page, server, Path(MOBILENET), "runtimes.yaml")
    right = page.evaluate("""heteroCy.getElementById(`op${hetero.page.view.change}`).renderedBoundingBox().x2
        + heteroCy.container().getBoundingClientRect().left""")
    buttons = page.locator("#zoom-in").bounding_box()
    assert buttons and right < buttons["x"]


def test_brackets_step_from_one_change_of_device_to_the_next(fresh: Page) -> None:
    page = fresh
    for key, op, change in (
        ("]", "ReduceMean", 1),
        ("]", "Reshape", 2),
        ("]", "Gemm", 3),
        ("[", "Reshape", 2),
    ):
        page.keyboard.press(key)
        says(page.locator("#mode-hint"), f"Switch {change} of 3: ")  # first: it goes away by itself
        says_exactly(page.locator("#inspector .op-type"), op)


def test_the_ribbon_selects_what_is_clicked_and_dragged(fresh: Page) -> None:
    page = fresh
    box = page.locator("#ribbon-canvas").bounding_box()
    assert box
    page.mouse.click(box["x"] + box["width"] / 3, box["y"] + 12)
    until(page, "hetero.selectedOps().length === 97")
    page.mouse.move(box["x"] + 2, box["y"] + 12)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 12, steps=4)
    page.mouse.up()
    until(page, "hetero.selectedOps().length > 20 && hetero.selectedOps().length < 80")


def test_what_the_pointer_is_on_in_the_ribbon_has_a_card(page: Page, show: Show) -> None:
    """Parts that are hardly wider than a line have one too; there is none while a part is dragged over."""
    whisper = str(EXAMPLES / "models" / "whisper-tiny-decoder.onnx")
    page.goto(show(whisper, "HETERO:NPU(hailo8),OpenVINO.CPU"))
    ready(page)
    card, ribbon = page.locator("#ribbon-hover"), page.locator("#ribbon-canvas")
    box = ribbon.bounding_box()
    assert box
    expect(card).to_be_hidden()
    page.mouse.move(box["x"] + 6, box["y"] + 12)
    says(card, re.compile("Subgraph [01]"))
    says(card, "estimate from shapes")
    says(card, re.compile(r"\d % of the time in ops"))
    seen = set()
    for x in range(2, int(box["width"]), 1):
        page.mouse.move(box["x"] + x, box["y"] + 12)
        seen.add(card.locator("b").first.inner_text())
    assert len(seen) == 26, "every subgraph, the smallest too"
    says(card, "Transfer before it: ")
    says(card, re.compile(r"from (NPU|OpenVINO.CPU), (about )?[\d.]+ [mµ]?s \(estimate\)$"))
    page.mouse.down()
    expect(card).to_be_hidden()
    page.mouse.move(box["x"] + 20, box["y"] + 12, steps=3)
    expect(card).to_be_hidden()
    page.mouse.up()
    page.mouse.move(box["x"] + 24, box["y"] + 12)
    expect(card).to_be_visible()
    page.mouse.move(box["x"] + 24, box["y"] + 200)
    expect(card).to_be_hidden()
    expect(ribbon).not_to_have_attribute("title", re.compile("."))


def test_a_fallback_by_the_table_leads_to_its_list(
    show: Show, browser: BrowserContext, tmp_path: Path
) -> None:
    table = tmp_path / "table.yaml"
    table.write_text("- {name: N, backendName: NPU, supportedNodes: 'Conv,Clip'}\n- name: CPU\n")
    page = browser.new_page()
    page.goto(show(MOBILENET, table))
    ready(page)
    page.click("role=tab[name=Fallbacks]")
    page.locator("#fallbacks-table").get_by_role("button", name="Edit the lists").first.click()
    lists = page.get_by_role("tabpanel").get_by_label("Allow-list").first
    expect(lists).to_be_focused()
    expect(lists).to_be_in_viewport()
    page.close()


def test_a_fallback_becomes_a_rule(fresh: Page) -> None:
    page = fresh
    page.click("role=tab[name=Fallbacks]")
    page.locator("#fallbacks-table tbody tr").filter(has_text="Gemm").get_by_role(
        "button", name="Rule"
    ).click()
    until(page, "hetero.page.view.rules.rules.length === 1")
    rule = page.evaluate("hetero.page.view.rules.rules[0]")
    assert (rule["type"], rule["to"]) == ("Gemm", "ONNX Runtime")


def test_where_all_ops_are_on_one_device_the_page_says_so(
    show: Show, browser: BrowserContext
) -> None:
    address = show(MOBILENET, "HETERO:CPU")
    page = browser.new_page()
    page.goto(address)
    ready(page)
    says_exactly(
        page.locator("#ribbon-text"), "All 100 ops run on CPU. Add a device to place ops on it."
    )
    page.click("role=tab[name=Fallbacks]")
    says(page.locator("#fallbacks"), "There is only one device")
    expect(page.get_by_role("button", name="Suggest improvements")).to_be_hidden()
    expect(page.get_by_role("button", name="Try other forms")).to_be_hidden()
    page.select_option("#policy", "optimal:throughput")
    says(page.locator("#notice"), "No change: same placement.")


def test_weights_that_are_not_there_are_said_once_and_can_be_added(
    show: Show, browser: BrowserContext, tmp_path: Path
) -> None:
    """What needs them could be pressed, and failed."""
    onnx.save(
        onnx.load(MOBILENET),
        tmp_path / "m.onnx",
        save_as_external_data=True,
        location="w.bin",
        size_threshold=16,
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "w.bin").rename(elsewhere / "w.bin")
    url = show(str(tmp_path / "m.onnx"), "HETERO:CPU")
    page = browser.new_page()
    page.goto(url)
    ready(page)
    said = page.locator("#missing-weights").bounding_box()
    top = "heteroCy.elements().renderedBoundingBox().y1 + heteroCy.container().getBoundingClientRect().y"
    below = page.evaluate(top)
    assert said is not None and below >= said["y"] + said["height"]
    page.locator("#missing-weights").get_by_role("button", name="Close").press("Enter")
    expect(page.locator("#missing-weights")).to_be_hidden()
    assert page.evaluate(top) < below, (
        "who has not moved the view sees the graph in the room that is free now"
    )
    page.reload()
    ready(page)
    expect(page.locator("#missing-weights")).to_be_hidden()  # for the session of this tab
    page.locator("#tabs-tab-benchmark").click()
    expect(page.locator("#bench-start")).to_be_disabled()
    page = browser.new_page()
    page.goto(url)
    ready(page)
    expect(page.get_by_text("the weights in w.bin are not here")).to_have_count(1)
    expect(page.locator("#missing-weights")).to_be_visible()
    page.locator("#tabs-tab-benchmark").click()
    for name in ("bench-open", "bench-start", "bench-profile", "bench-tune", "bench-accuracy"):
        expect(page.locator(f"#{name}")).to_be_disabled()
        expect(page.locator(f"#{name}")).to_have_attribute(
            "title", "the weights in w.bin are not here"
        )
    page.click("#export")
    own = page.get_by_role("group", name="For these devices")
    expect(own.get_by_role("menuitem", name="One model per subgraph, runner")).to_be_disabled()
    expect(page.get_by_role("menuitem", name="HTML report")).to_be_enabled()
    page.keyboard.press("Escape")
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Add w.bin").click()
    chooser.value.set_files(tmp_path / "m.onnx")
    says(page.locator("#notice"), "the model needs w.bin, and this is m.onnx")
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Add w.bin").click()
    chooser.value.set_files(elsewhere / "w.bin")
    expect(page.locator("#missing-weights")).to_have_count(0)
    ready(page)
    assert (tmp_path / "w.bin").read_bytes() == (elsewhere / "w.bin").read_bytes()
    expect(page.locator("#bench-open")).to_be_enabled()
    page.click("#bench-open")
    expect(page.locator("#bench-start")).to_be_enabled()


def test_after_a_benchmark_the_ribbon_is_the_measured_run_and_its_memory_stands_beside_the_estimate(
    fresh: Page,
) -> None:
    page = fresh
    page.get_by_role("tab", name="Benchmark").click()
    page.check("#bench-memory")
    page.fill("#bench-seconds", "0.5")
    page.click("#bench-start")
    says(page.locator("#ribbon-text"), "measured", timeout=120_000)
    card = page.locator("#bench-cards .card").filter(has_text="host memory")
    says(card, "OpenVINO, ONNX Runtime): estimate ")
    says(card, "of it constants 13.95 MB and tensors 6.623 MB; measured ")
    says_exactly(card.locator(".kind"), "measurement")
    page.reload()
    ready(page)
    says(page.locator("#ribbon-text"), "measured")
    page.get_by_role("tab", name="Benchmark").click()
    expect(page.locator("#bench-seconds")).to_have_value("0.5")
    expect(page.locator("#bench-memory")).to_be_checked()
    page.keyboard.press("2")
    page.evaluate("hetero.paint([hetero.page.view.ops[3]], 1)")
    wait_for_figure(page, "pins", 1)
    says(page.locator("#ribbon-text"), re.compile("estimated .* in ops"))
    page.keyboard.press("Control+z")  # back at the plan that was measured
    says(page.locator("#ribbon-text"), "measured")


def test_memory_over_the_run_names_the_tensors_at_its_peak_and_follows_the_plan(
    fresh: Page,
) -> None:
    page = fresh
    page.get_by_role("tab", name="Memory").click()
    openvino = page.locator(".memory-device[data-device='OpenVINO']")
    says(openvino, "at most 15.45 MB")
    says(openvino, "constants 8.827 MB, tensors 6.623 MB")
    expect(openvino.get_by_role("img")).to_have_attribute(
        "aria-label", "Memory of OpenVINO from the first op to the last: at most 15.45 MB"
    )
    openvino.locator("summary").click()
    says(openvino.locator("tbody tr").first, "4.817 MB")
    openvino.locator("tbody tr").first.get_by_role("button").last.click()
    says_exactly(page.locator("#inspector .op-type"), "Conv")
    page.evaluate("hetero.paint(hetero.page.view.ops.slice(0, 40), 1)")
    expect(page.locator(".memory-device[data-device='ONNX Runtime']")).not_to_contain_text(
        "at most 5.129 MB"
    )
    expect(openvino).not_to_contain_text("tensors 6.623 MB")


def test_nothing_selected_shows_the_plan(fresh: Page) -> None:
    inspector = fresh.locator("#inspector")
    says(inspector, "Time per device")
    inspector.get_by_role("button", name="Subgraph 0 on OpenVINO").click()
    until(fresh, "hetero.selectedOps().length === 97")


def test_results_appear_while_typing_and_enter_selects_all_of_some_layers(opened: Page) -> None:
    page = opened
    page.keyboard.press("/")
    page.keyboard.insert_text("layer:1-2")  # as a whole: the count of half a query is another one
    note = page.locator("#search-note")
    says(note, "ops · Enter: select all")
    count = int(note.inner_text().split()[0])
    expect(page.locator("#search-list [role=option]").first).to_be_visible()
    page.keyboard.press("Enter")
    until(page, f"hetero.selectedOps().length === {count}")
    expect(page.locator("#search-box")).to_be_hidden()
    expect(page.locator("#canvas")).to_be_focused()
    frame = "getComputedStyle(document.getElementById('canvas')).outlineStyle"
    assert page.evaluate(frame) == "none", "nobody moved the keyboard there"
    page.keyboard.press("2")
    assert page.evaluate(frame) == "solid"
    expect(page.locator("#find")).to_have_value("layer:1-2")
    says(page.locator("#mode-hint"), "Space paints the selection")
    until(
        page,
        """(() => { const box = heteroCy.nodes(':selected').renderedBoundingBox();
        return box.x1 >= 0 && box.y1 >= 0 && box.x2 <= heteroCy.width() && box.y2 <= heteroCy.height(); })()""",
    )


def test_enter_goes_to_the_block_that_has_the_name(opened: Page) -> None:
    """It went to the first op inside, and opened blocks for it."""
    page = opened
    nodes = page.evaluate("heteroCy.nodes().length")
    for text in ("layers.2", "LAYERS.2"):
        page.fill("#find", text)
        says(page.locator("#search-note"), "Enter: go to the block · Shift+Enter: select all")
        page.keyboard.press("Enter")
        until(page, "hetero.selectedOps().length === 25")
        expect(page.locator("#search-box")).to_be_hidden()
        act(page, "hetero.selectNothing()")
    assert page.evaluate("heteroCy.nodes().length") == nodes


def test_keys_of_devices_after_a_filter_are_not_typed_into_it(opened: Page) -> None:
    page = opened
    page.fill("#find", "op == Add")
    page.keyboard.press("Enter")
    until(page, "hetero.selectedOps().length > 1")
    count = page.evaluate("hetero.selectedOps().length")
    page.keyboard.press("2")
    page.keyboard.press("Space")
    expect(page.locator("#find")).to_have_value("op == Add")
    wait_for_figure(page, "pins", count)
    expect(page.locator("#history button")).to_have_count(2)
    page.keyboard.press("Alt+1")
    expect(page.locator("#history button")).to_have_count(3)
    wait_for_figure(page, "pins", count)
    page.keyboard.press("/")
    expect(page.locator("#find")).to_be_focused()
    page.locator("#find").blur()
    page.keyboard.press("Escape")
    expect(page.locator("#find")).to_have_value("")
    assert page.evaluate("hetero.selectedOps().length") == 0


def test_blocks_that_opened_to_show_an_op_close_when_the_next_is_shown(
    page: Page, server: Server
) -> None:
    """Stepping through a model left all of its blocks open."""
    page.goto(f"{server.url}/open")
    page.click("text=Whisper tiny, decoder")
    ready(page)
    first = set(page.evaluate("hetero.page.detail.open"))

    def find(text: str) -> set[int]:
        before = page.evaluate("hetero.page.detail.open.join()")
        page.locator("#find").fill(text)
        page.keyboard.press("Enter")  # before the results are there
        until(
            page,
            f"hetero.page.detail.open.join() !== '{before}' && heteroCy.nodes(':selected').length === 1"
            " && !heteroCy.nodes(':selected').hasClass('group')",
        )
        return set(page.evaluate("hetero.page.detail.open")) - first

    one, other = find("layers/0/fc1"), find("layers/2/fc1")
    assert one and other and not one & other
    place = page.evaluate("""(() => { const at = heteroCy.nodes(':selected').renderedPosition(),
        box = heteroCy.container().getBoundingClientRect(); return [box.left + at.x, box.top + at.y]; })()""")
    page.mouse.click(*place)  # something is done there: it stays open
    third = find("layers/3/fc1")
    assert other < third and not one & third


def test_a_filter_is_completed_and_an_unknown_field_is_named(opened: Page) -> None:
    page = opened
    field = page.locator("#find")
    field.click()
    page.keyboard.type("fl")
    page.locator("#search-list [role=option]").filter(has_text="flops").first.click()
    expect(field).to_have_value("flops ")
    page.keyboard.type("> 1 and colour == red")
    note = page.locator("#search-note")
    says(note, "there is no field 'colour'")
    for text, said in (
        ("op == Neg", "Enter: select all"),
        ("layer:2 left", "Enter: select all"),
        ("left", "Enter: go · Shift+Enter: select all"),
        ("layer:2 mlp", "Nothing is called 'mlp' here"),
        ("layer:2 and op == Neg", "A filter has no layer:2"),
        ("op == Nowhere", "No op matches"),
    ):
        field.fill(text)
        says(note, said, ignore_case=True)


def test_alt_and_a_number_paint_what_was_found(opened: Page) -> None:
    page = opened
    page.locator("#find").click()
    page.keyboard.type("layer:2")
    says(page.locator("#search-note"), "25 ops")
    says(page.locator("#search-note"), "Alt+1 to 2")
    page.keyboard.press("Alt+2")
    wait_for_figure(page, "pins", 25)


def test_alt_and_a_number_paint_what_the_highlighted_result_covers_and_the_graph_shows_it(
    opened: Page,
) -> None:
    page = opened
    note = page.locator("#search-note")
    page.locator("#find").click()
    page.keyboard.type("layers.2")
    says(note, "Shift+Enter: select all")
    block = page.locator("#search-list [role=option]").filter(has_text="block").first
    says(block, "25 ops")
    expect(note).not_to_contain_text(re.compile("^25 ops"))
    lit = "hetero.page.emphasis?.size ?? 0"
    assert page.evaluate(lit) > 25, "all that the text finds"
    block.hover()
    until(page, f"({lit}) === 25")
    expect(note).not_to_contain_text(re.compile("^25 ops"))  # the keys act on what is highlighted
    note.hover()
    until(page, f"({lit}) > 25")
    page.keyboard.press("ArrowDown")
    expect(block).to_have_attribute("aria-selected", "true")
    until(page, f"({lit}) === 25")
    says_exactly(note, re.compile("^25 ops · Enter: select them · Alt"))
    page.keyboard.press("Alt+2")
    wait_for_figure(page, "pins", 25)
    until(page, "hetero.page.emphasis === null")


def test_keys_pressed_before_the_results_are_there_do_what_they_say_when_they_are(
    opened: Page,
) -> None:
    """Painted what was found for the letters before, or nothing."""
    page = opened
    page.locator("#find").click()
    page.keyboard.type("layer:2")
    says(page.locator("#search-note"), "25 ops")
    let_go = hold(page, "**/search?*")
    page.keyboard.type("0 left")
    page.keyboard.press("Alt+2")
    let_go()
    wait_for_figure(page, "pins", 12)
    page.locator("#find").fill("layer:21")
    page.keyboard.press("Shift+Enter")
    says(page.locator("#inspector"), "25 ops selected")


def test_a_device_of_the_list_selects_its_ops_and_pins_can_be_removed_one_by_one(
    fresh: Page,
) -> None:
    page = fresh
    row, every = (
        page.locator("#devices [data-row-device='1']"),
        page.locator("#devices [data-all-on='1']"),
    )
    row.hover()
    expect(every).to_have_css("opacity", "1")
    place = every.bounding_box()
    assert place is not None
    for part in row.locator(".device-text > *, kbd, .raise").all():
        other = part.bounding_box()
        assert other is not None
        beside = other["x"] + other["width"] <= place["x"]
        above = other["y"] + other["height"] <= place["y"]
        below = place["y"] + place["height"] <= other["y"]
        assert beside or above or below, f"it lies over {part.inner_text()!r}"
    every.click()
    until(page, "hetero.selectedOps().length === 2")
    expect(page.locator("#live")).to_have_text("2 ops selected")  # for screen readers, not for eyes
    page.evaluate("hetero.paint([hetero.page.view.ops[3], hetero.page.view.ops[4]], 1)")
    wait_for_figure(page, "pins", 2)
    page.locator("#pins [data-unpin-op]").first.click()
    wait_for_figure(page, "pins", 1)


def test_panels_can_be_hidden_and_a_narrow_window_stays_usable(fresh: Page) -> None:
    page = fresh
    cards = page.locator("#tools, #inspector")
    for card in cards.all():
        expect(card).to_be_visible()
    page.keyboard.press("Shift+T")
    page.keyboard.press("Shift+I")
    for card in cards.all():
        expect(card).not_to_be_visible()
    page.keyboard.press("Shift+T")
    page.keyboard.press("Shift+I")
    for card in cards.all():
        expect(card).to_be_visible()
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_timeout(400)
    narrow = page.locator("#graph").bounding_box()
    assert narrow and narrow["width"] > 350 and narrow["height"] > 300
    assert page.evaluate("document.documentElement.scrollWidth") <= 392
    page.click("#export")
    item = page.get_by_role("menuitem").first
    expect(item).to_be_in_viewport(ratio=1)


def test_devices_are_chosen_from_what_is_here_and_from_presets(page: Page, server: Server) -> None:
    page.goto(f"{server.url}/open")
    page.select_option("#devices-choice", label="NPU: edgetpu")
    expect(page.locator("#devices-spec")).to_have_value("HETERO:NPU(edgetpu),OpenVINO.CPU,CPU")
    page.get_by_label("OpenVINO.CPU", exact=True).uncheck()
    expect(page.locator("#devices-spec")).to_have_value("HETERO:NPU(edgetpu),CPU")
    page.get_by_label("CPU", exact=True).uncheck()
    expect(page.locator("#devices-spec")).to_have_value(
        "HETERO:NPU(edgetpu),CPU"
    )  # what it refuses has to go somewhere
    page.fill("#path", MOBILENET)
    page.press("#path", "Enter")
    ready(page)
    page.click("role=tab[name=Fallbacks]")
    says(page.locator("#fallbacks"), "this device takes int8")
    expect(page.locator("#fallbacks a").first).to_have_attribute("href", re.compile("^https://"))
    says(page.locator("#fallbacks"), "with Precision (assumes) int8 it is planned")

    # One row for the one reason, and the way out of it.
    expect(page.locator("#fallbacks-table tbody tr")).to_have_count(1)
    page.locator("#fallbacks").get_by_role("button", name="Plan as int8").click()
    expect(page.locator(".device-count").first).to_have_attribute("data-count", "100")
    says(page.locator("#fallbacks"), "No automatic fallbacks")
    page.keyboard.press("Control+z")
    expect(page.locator("#fallbacks-table")).to_be_visible()

    # As if it were quantised, it stays; another preset runs elsewhere; a name is new everywhere.
    page.click("role=tab[name=Devices]")
    form = page.locator(".device-form").first
    expect(form.get_by_label("Precision")).to_have_value("")  # the undo has come to the form
    form.get_by_label("Precision").select_option("int8")
    expect(page.locator(".device-count").first).to_have_attribute("data-count", "100")
    says(page.locator("[data-device='NPU']"), "as if int8")
    form.get_by_label("Preset").select_option("hailo8")
    expect(form.get_by_label("Runs on")).to_have_value("Hailo")
    expect(form.get_by_label("Precision")).to_have_value("int8")
    form.get_by_label("Precision").select_option("")
    expect(form.get_by_label("Precision").locator("option:checked")).to_have_text(
        "int8, by the preset"
    )
    says(page.locator("[data-device='NPU']"), "as if int8")
    peak = form.get_by_label("Peak compute, flop/s")
    expect(peak).to_have_attribute("placeholder", "26 TOPS (preset)")
    expect(form.get_by_label("On-chip memory")).to_have_attribute("placeholder", "assumed 26 MB")
    expect(form.get_by_label("Link, bytes/s")).to_have_attribute("placeholder", "3.9 GB/s (preset)")
    form.get_by_label(re.compile("^Preset")).select_option("edgetpu")
    expect(form.get_by_label("Precision").locator("option:checked")).to_have_text("as exported")
    form.get_by_label(re.compile("^Preset")).select_option("hailo8")
    expect(form.get_by_label("Runs on")).to_have_value("Hailo")
    form.get_by_label("Name", exact=True).fill("Board")
    form.get_by_label("Name", exact=True).press("Enter")
    says_exactly(form.locator("legend b"), "Board")


def test_devices_are_edited_in_the_page_and_saved(fresh: Page) -> None:
    page = fresh
    page.click("role=tab[name=Devices]")
    forms = page.locator(".device-form")
    expect(forms).to_have_count(3)
    page.select_option("#device-add", label="NPU: edgetpu")
    expect(forms).to_have_count(4)
    expect(page.locator("[data-device='NPU']")).to_have_count(1)
    for place in range(2):  # it was put before what is here
        forms.nth(place).get_by_role("button", name="Lower the priority of NPU").click()
        says_exactly(forms.nth(place + 1).locator("legend b"), "NPU")
    memory = forms.nth(0).get_by_label("Memory", exact=True)
    memory.fill("much")
    memory.press("Enter")
    says(page.locator("#device-problem"), "memory must be a size above 0 such as 8GiB")
    page.locator("[data-row-device='1'] .raise").click()
    says_exactly(forms.nth(0).locator("legend b"), "ONNX Runtime")
    page.click("#undo")
    says_exactly(forms.nth(0).locator("legend b"), "OpenVINO")
    memory.fill("much")
    memory.press("Enter")
    says(page.locator("#device-problem"), "memory must be a size above 0 such as 8GiB")
    page.evaluate("hetero.paint([0], 1)")
    wait_for_figure(page, "pins", 1)
    expect(memory).to_have_value("much")
    link = forms.nth(2).get_by_label("Link latency", exact=True)
    expect(link).to_have_attribute("placeholder", "assumed 20 µs")
    link.fill("50us")
    link.press("Enter")
    step = page.locator("#history .step.now .step-words")
    says(step, "devices: NPU: link latency 50us")
    assert step.evaluate(
        "(e) => e.scrollHeight <= e.clientHeight && e.scrollWidth <= e.clientWidth"
    ), "the value, which stands at the end, was cut"
    expect(page.locator("#device-problem")).to_be_empty()
    says_exactly(
        page.locator("#device-refused"), "Refused, and not in use: Memory of OpenVINO “much”."
    )
    page.click("#device-restore")
    expect(memory).to_have_value("")
    expect(page.locator("#device-refused")).to_be_hidden()
    excluded = forms.nth(2).get_by_label("Block-list")
    excluded.fill("conv, Blub, add")
    excluded.press("Enter")
    says(forms.nth(2), "Nothing is called Blub here.")
    says_exactly(forms.nth(2).locator(".several li"), ["Conv (52) ×", "Add (10) ×"])
    memory.fill("2GiB")
    memory.press("Enter")
    says(page.locator("[data-device='OpenVINO']"), "of 2.147 GB")
    says(page.locator("#history"), "devices: OpenVINO: ")
    forms.nth(2).get_by_role("button", name="Remove", exact=True).click()
    expect(forms).to_have_count(3)
    page.keyboard.press("Escape")
    page.click("#undo")
    expect(forms).to_have_count(4)
    page.click("#export")
    with page.expect_download() as download:
        page.get_by_role("menuitem", name="Devices, YAML").click()
    text = download.value.path().read_text()
    assert "preset: edgetpu" in text and "memory: 2GiB" in text


def test_a_device_may_be_called_anything(fresh: Page) -> None:
    """The button for the kit had the name in its id, of which Dash takes ASCII only: nothing happened."""
    page = fresh
    page.click("role=tab[name=Devices]")
    form = page.locator(".device-form").nth(1)
    form.get_by_label("Name", exact=True).fill("Gerät №2 🚀")
    form.get_by_label("Name", exact=True).press("Enter")
    says_exactly(form.locator("legend b"), "Gerät №2 🚀")
    with page.expect_download() as download:
        form.get_by_role("button", name="Kit").click()
    assert download.value.suggested_filename.endswith(".zip")
    expect(page.locator("#notice")).not_to_contain_text("none is known")
    page.select_option("#device-add", "NPU(hailo8)")
    with page.expect_download():
        page.locator(".device-form", has_text="unofficial").get_by_role(
            "button", name="Kit"
        ).click()
    says(page.locator("#notice"), "none is known for Hailo: times of its vendor's tool")


def test_two_fields_that_are_finished_at_once_are_both_changed(fresh: Page) -> None:
    """Each was a change of the whole table, and the second took the first back."""
    page = fresh
    page.click("role=tab[name=Devices]")
    first, second = (
        page.locator(".device-form").nth(i).get_by_label("Memory", exact=True) for i in (0, 1)
    )
    first.fill("3GB")
    second.fill("5GB")  # which finishes the first
    second.press("Enter")
    says(page.locator("[data-device='OpenVINO']"), "of 3 GB")
    says(page.locator("[data-device='ONNX Runtime']"), "of 5 GB")
    says(page.locator("[data-device='OpenVINO']"), "of 3 GB")


def open_model(page: Page, server: Server, model: Path, devices: str) -> None:
    page.goto(f"{server.url}/open")
    page.fill("#path", str(model))
    type_devices(page, devices)
    page.click("#open-path")
    ready(page)


def test_two_hundred_ops_in_a_row_are_read_at_once(
    page: Page, server: Server, tmp_path: Path
) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    model = write_dag(
        tmp_path / "chain.onnx",
        [[i - 1] if i else [] for i in range(200)],
        ["Neg", "Sigmoid"] * 100,
    )
    open_model(page, server, model, "HETERO:GPU,CPU")
    sizes = "heteroCy.nodes('.op').map((n) => parseFloat(n.style('font-size')) * heteroCy.zoom())"
    seen = """heteroCy.nodes('.op').every((n) => {
        const box = n.renderedBoundingBox();
        return box.x1 >= 0 && box.y1 >= 0 && box.x2 <= heteroCy.width() && box.y2 <= heteroCy.height();
    })"""
    assert min(page.evaluate(sizes)) >= 8 and page.evaluate(seen), "as it opens"
    assert page.evaluate("heteroCy.nodes('.op').map((n) => n.style('label'))")[:2] == [
        "① Neg",
        "① Sigmoid",
    ]
    act(page, "heteroCy.zoom(2)")
    assert page.evaluate("heteroCy.nodes('.op')[0].style('label')") == "Neg\nGPU · s0", (
        "close by there is more room"
    )
    page.locator("#graph").hover()
    page.keyboard.press("f")
    until(page, f"Math.min(...{sizes}) >= 8 && {seen}")


def test_recent_work_has_its_devices_and_a_picture_of_the_plan(fresh: Page, server: Server) -> None:
    page = fresh
    page.click("role=tab[name=Fallbacks]")
    forms = page.get_by_role("button", name="Try other forms")
    expect(forms).to_be_visible()
    page.evaluate("hetero.paint(hetero.page.view.ops, 1)")
    wait_for_figure(page, "pins", 100)
    says(
        page.locator("#fallbacks"), "No automatic fallbacks"
    )  # the picture is kept before this is sent
    expect(forms).to_be_hidden()  # it could do nothing
    expect(page.get_by_role("button", name="Suggest improvements")).to_be_visible()
    address = page.url
    page.goto(f"{server.url}/open")
    entry = page.locator(f".recent[href='{address.removeprefix(server.url).partition('#')[0]}']")
    says(entry, "OpenVINO, ONNX Runtime, Interpreter")
    says(entry, "UTC")
    picture = entry.locator("img")
    expect(picture).to_have_attribute("alt", "Time in ops: 100 % on ONNX Runtime")
    assert picture.evaluate("(image) => image.complete && image.naturalWidth") == 160


def test_ops_in_closed_blocks_stay_selected_and_a_refusal_names_its_reasons(
    page: Page, show: Show
) -> None:
    """After four seconds, the block of the first op took the place of all that a row of Fallbacks had selected."""
    address = show(
        str(EXAMPLES / "models" / "whisper-tiny-decoder.onnx"),
        "HETERO:NPU(edgetpu as int8),CPU",
        batch=1,
        sequence=8,
    )
    page.goto(address)
    ready(page)
    page.click("role=tab[name=Fallbacks]")
    says(page.locator("#fallbacks"), "If all of them ran there, a run would take")
    page.click("role=tab[name=Fallbacks]")
    page.locator("#fallbacks-table").get_by_role("button", name="Select").first.click()
    until(page, "hetero.selectedOps().length > 1")
    count, pan = page.evaluate("[hetero.selectedOps().length, heteroCy.pan()]")
    expect(page.locator("#inspector [data-paint='0']")).to_be_disabled()
    page.keyboard.press("1")
    page.keyboard.press(" ")
    notice = page.locator("#notice")
    says(notice, f"{count} ops were not painted")
    expect(notice.locator("li a").first).to_have_attribute("href", re.compile("^https://"))
    expect(notice).not_to_contain_text("https://")
    page.get_by_role("button", name="Paint anyway").click()
    wait_for_figure(page, "pins", count)
    page.wait_for_timeout(4800)
    assert page.evaluate("[hetero.selectedOps().length, heteroCy.pan()]") == [count, pan]

    # Pins of one type are one row, which opens, and can be removed together.
    rows = page.locator("#pins > ul > li")
    expect(rows).to_have_count(1)
    rows.locator("summary").click(position={"x": 3, "y": 6})
    expect(rows.locator("ul li").first).to_be_visible()
    rows.locator("> [data-unpin-op]").click()
    wait_for_figure(page, "pins", 0)


def test_a_block_of_which_only_a_part_is_selected_looks_different(page: Page, show: Show) -> None:
    address = show(str(EXAMPLES / "models" / "fcn-resnet101.onnx"), "HETERO:OpenVINO,CPU")
    page.goto(address)
    ready(page)
    first = page.evaluate("hetero.opsOf(heteroCy.nodes('.group')[0])[0]")
    act(
        page,
        f"hetero.set('selection', {{ data: {{ ops: [{first}], select: true, count: true }} }})",
    )
    until(page, "heteroCy.nodes('.group.part:selected').length === 1")
    expect(page.locator("#live")).to_contain_text("selected")  # for screen readers, not for eyes
    act(page, "heteroCy.nodes('.group')[0].unselect(); heteroCy.nodes('.group')[0].select()")
    until(page, "heteroCy.nodes('.part').length === 0 && hetero.selectedOps().length > 1")


def test_a_click_right_after_a_command_selected_ops_counts(page: Page, show: Show) -> None:
    """For 40 milliseconds after a command, what was clicked was not reported."""
    address = show(MOBILENET, "HETERO:CPU")
    page.goto(address)
    ready(page)
    page.evaluate("""async () => {
        hetero.set('selection', { data: { ops: hetero.page.view.ops.slice(0, 2), select: true } });
        while (heteroCy.nodes('.op:selected').length !== 2) await new Promise((done) => setTimeout(done));
        heteroCy.elements().unselect();
        heteroCy.nodes('.op')[5].select();
    }""")
    says(
        page.locator("#inspector .op-type"), page.evaluate("heteroCy.nodes('.op')[5].data('name')")
    )


def test_a_row_of_transfers_opens_the_block_that_the_tensor_comes_from(
    page: Page, show: Show
) -> None:
    address = show(
        str(EXAMPLES / "models" / "whisper-tiny-decoder.onnx"),
        "HETERO:NPU(edgetpu as int8),CPU",
        batch=1,
        sequence=8,
    )
    page.goto(address)
    ready(page)
    closed = page.evaluate("heteroCy.nodes('.op').length")
    page.click("role=tab[name='Transfers']")
    rows = page.locator("#transfers .ag-row")
    expect(rows.first).to_be_visible()
    tensor = page.evaluate("""() => { let found = null; hetero.gridApi('transfers').forEachNode((row) => {
        found ??= heteroCy.getElementById(`op${row.data.source_op}`).empty() ? row.rowIndex : null; }); return found; }""")
    page.locator(f"#transfers .ag-row[row-index='{tensor}'] .ag-cell").first.click()
    until(
        page,
        f"heteroCy.nodes('.op').length > {closed} && heteroCy.nodes('.op:selected').length === 1",
    )
