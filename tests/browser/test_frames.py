"""Open blocks have a frame with their name, which closes them again; pictures show it."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from conftest import LAYERS, write_layers
from hypothesis import given
from hypothesis import strategies as st
from pages import EXAMPLES, Serve, Show, act, fold_out, hold, ready, says, until, wait_for_figure
from playwright.sync_api import BrowserContext, Page, expect

import editor
from editor.graph.scopes.tree import scopes_of
from editor.web.drawing.collapsed import first_detail, shown_elements
from editor.web.drawing.elements import NODE_HEIGHT, NODE_WIDTH, ops_of
from editor.workspace.document import Document


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_layers(tmp_path_factory.mktemp("layered") / "layered.onnx")


@given(st.data())
def test_every_opened_block_has_a_frame_around_its_own_nodes_and_no_others(
    model: Path, data: st.DataObject
) -> None:
    graph = editor.load_model(model)
    scopes = scopes_of(graph)
    document = _Drawn(graph)
    first = first_detail(graph)["open"]
    chosen = data.draw(st.lists(st.integers(1, len(scopes.scopes) - 1), max_size=8))
    around = {n for number in chosen for n in scopes.ancestors(number)} - set(first)
    shown = shown_elements(document, {"mode": "blocks", "open": [*first, *around]})  # type: ignore[arg-type]
    nodes = [
        e
        for e in shown
        if "position" in e and e["classes"] != "frame" and "tensor" not in e["data"]
    ]
    found = [e for e in shown if e["classes"] == "frame"]
    assert len({e["data"]["id"] for e in shown}) == len(shown)
    assert {e["data"]["scope"] for e in found} - set(first) == {
        n for n in around if len(scopes.scopes[n].ops) > 1
    }
    for frame in found:
        number = frame["data"]["scope"]
        whole = scopes.scopes[number].label
        assert frame["data"]["label"].startswith((whole, whole.rpartition(" / ")[2]))
        assert frame["data"]["op"] in scopes.scopes[number].ops
        for node in nodes:
            ops = ops_of(node["data"]["ops"]) if "ops" in node["data"] else [node["data"]["op"]]
            dx = (
                abs(node["position"]["x"] - frame["position"]["x"])
                - (frame["data"]["w"] + NODE_WIDTH) / 2
            )
            dy = (
                abs(node["position"]["y"] - frame["position"]["y"])
                - (frame["data"]["h"] + NODE_HEIGHT) / 2
            )
            touches = dx < -0.2 and dy < -0.2
            assert touches == (ops[0] in scopes.scopes[number].ops)


class _Drawn:
    """As much of a document as drawing its blocks needs."""

    def __init__(self, graph: editor.Graph) -> None:
        self.graph = graph
        self.placement: Document | None = None


def test_a_block_is_opened_and_closed_by_double_clicks(opened: Page, tmp_path: Path) -> None:
    page = opened
    labels = "heteroCy.nodes('.frame').map((n) => n.data('label'))"
    assert page.evaluate(labels) == []
    before = page.evaluate("heteroCy.nodes().length")

    def double_click(x: float, y: float) -> None:
        page.mouse.dblclick(x, y)
        page.wait_for_timeout(700)

    box = page.evaluate("""() => { const n = heteroCy.nodes('.group')[1], p = n.renderedPosition(),
        c = heteroCy.container().getBoundingClientRect(); return [p.x + c.left, p.y + c.top]; }""")
    double_click(*box)
    until(page, "heteroCy.nodes('.frame').length === 1")
    assert page.evaluate(labels) == ["layers.1"]
    assert page.evaluate("heteroCy.nodes().length") > before

    page.click("#export")
    fold_out(page, "Pictures and graphs")
    with page.expect_download() as download:
        page.click("text=Picture of the view, SVG")
    download.value.save_as(tmp_path / "view.svg")
    drawn = ET.parse(tmp_path / "view.svg").getroot()
    space = "{http://www.w3.org/2000/svg}"
    assert "layers.1" in [t.text for t in drawn.iter(space + "text")]
    assert len(list(drawn.iter(space + "polygon"))) >= 3, "edges end in arrowheads"

    ground = page.evaluate("""() => {
        const box = heteroCy.nodes('.frame')[0].renderedBoundingBox({ includeLabels: false });
        const at = heteroCy.container().getBoundingClientRect();
        return [box.x1 + at.left + 4, (box.y1 + box.y2) / 2 + at.top];
    }""")
    expect(page.locator(".menu-groups")).to_be_hidden()
    page.mouse.click(*ground)
    assert page.evaluate("heteroCy.$(':selected').length") == 0, "a frame is not an op"
    before_drag = page.evaluate("heteroCy.pan()")
    page.mouse.move(*ground)
    page.mouse.down()
    page.mouse.move(ground[0] + 40, ground[1] + 30, steps=4)
    page.mouse.up()
    moved = page.evaluate("heteroCy.pan()")
    assert moved["x"] - before_drag["x"] > 20 and moved["y"] - before_drag["y"] > 10, (
        "dragged by it as by the ground"
    )
    ground = [ground[0] + moved["x"] - before_drag["x"], ground[1] + moved["y"] - before_drag["y"]]
    double_click(*ground)
    until(page, "heteroCy.nodes('.frame').length === 0")
    assert page.evaluate("heteroCy.nodes().length") == before
    expect(page.locator("[data-figure=pins]")).to_have_attribute("data-value", "0")


def test_what_is_opened_is_clear_of_the_cards_and_small_enough_to_be_seen(opened: Page) -> None:
    page = opened
    x, y = page.evaluate("""() => {
        const node = heteroCy.nodes('.group')[1];
        heteroCy.zoom(3);
        heteroCy.center(node);
        heteroCy.panBy({ x: 300, y: 160 });
        const p = node.renderedPosition(), at = heteroCy.container().getBoundingClientRect();
        return [p.x + at.left, p.y + at.top];
    }""")
    page.mouse.dblclick(x, y)
    until(page, "heteroCy.nodes('.frame').length === 1")
    until(
        page,
        """() => {
        const box = heteroCy.nodes('.frame').renderedBoundingBox({ includeLabels: false }),
            free = heteroFree(heteroCy.width(), heteroCy.height());
        return box.x1 >= free.left - 2 && box.x2 <= free.left + free.width + 2
            && box.y1 >= free.top - 2 && box.y2 <= free.top + free.height + 2;
    }""",
    )
    assert 0.4 <= page.evaluate("heteroCy.zoom()") < 3


def test_the_row_of_a_pin_shows_the_end_of_a_long_name(opened: Page) -> None:
    page = opened
    act(page, "hetero.paint([hetero.page.view.ops[30]], 1, true)")
    wait_for_figure(page, "pins", 1)
    row = page.locator("#pins .name-end")
    expect(row).to_be_visible()
    whole = row.inner_text()
    assert "layers.1" in whole and "…" not in whole
    expect(page.locator("#pins").get_by_title(f"{whole}: pinned to")).to_be_visible()
    beyond = row.evaluate("""(e) => { const text = e.firstElementChild.getBoundingClientRect(),
        box = e.getBoundingClientRect(); return [box.left - text.left, text.right - box.right]; }""")
    assert beyond[0] > 0 and beyond[1] < 1, "cut at its beginning alone"


def test_the_input_beside_the_blocks_tells_its_shape_is_not_painted_and_is_in_pictures(
    opened: Page, tmp_path: Path
) -> None:
    page = opened
    page.keyboard.press("2")
    x, y = page.evaluate("""() => {
        const p = heteroCy.nodes('.terminal')[0].renderedPosition(), at = heteroCy.container().getBoundingClientRect();
        return [p.x + at.left, p.y + at.top];
    }""")
    page.mouse.click(x, y)
    inspector = page.locator("#inspector")
    expect(inspector.get_by_role("heading", name="x", exact=True)).to_be_visible()
    says(inspector, re.compile(r"GRAPH INPUT\s+x\s+Type\s+float32\s+Shape\s+4"))
    expect(page.locator("[data-figure=pins]")).to_have_attribute("data-value", "0")
    page.click("#export")
    fold_out(page, "Pictures and graphs")
    with page.expect_download() as download:
        page.click("text=Picture of the graph, SVG")
    download.value.save_as(tmp_path / "graph.svg")
    words = [t.text for t in ET.parse(tmp_path / "graph.svg").iter() if t.tag.endswith("text")]
    assert {"x", "…layers.39/out"} <= set(words)


def test_the_first_picture_has_the_frames_of_the_live_graph(
    browser: BrowserContext, tmp_path: Path, serve: Serve
) -> None:
    """Two towers of layers open as towers: each in its frame, in the picture that comes first and in the graph."""
    model = write_layers(tmp_path / "towers.onnx", ("encoder", "decoder"))
    server = serve(str(model), "--devices", "HETERO:GPU,CPU")
    page = browser.new_page()
    let_go = hold(page, "**/*dash_renderer*")
    page.goto(server.url, wait_until="commit")
    page.wait_for_selector("#preview g[transform] text")
    names = page.locator("#preview text.frame").all_text_contents()
    boxes = page.evaluate("""[...document.querySelectorAll('#preview path.frame')]
        .map((path) => path.getBoundingClientRect().toJSON())""")
    let_go()
    ready(page)
    until(page, "!document.getElementById('preview')")
    live = page.evaluate("""heteroCy.nodes('.frame').map((n) => {
        const box = n.renderedBoundingBox({ includeLabels: false }), at = heteroCy.container().getBoundingClientRect();
        return { label: n.data('label'), x: box.x1 + at.left, y: box.y1 + at.top, width: box.w, height: box.h };
    })""")
    assert names == [each["label"] for each in live] and len(names) == 2
    for box, each in zip(boxes, live, strict=True):
        assert all(abs(box[side] - each[side]) < 5 for side in ("x", "y", "width", "height")), (
            box,
            each,
        )


def test_a_reload_opens_the_same_blocks_at_the_same_place(opened: Page) -> None:
    page = opened
    act(page, "heteroCy.nodes('.group')[2].emit('dbltap')")
    until(page, "heteroCy.nodes('.frame').length === 1")
    act(page, "heteroCy.panBy({ x: 30, y: -60 })")
    page.wait_for_timeout(600)
    where = "[heteroCy.nodes().length, heteroCy.zoom(), heteroCy.pan().x, heteroCy.pan().y]"
    before = page.evaluate(where)
    page.reload()
    ready(page)
    until(page, "heteroCy.nodes('.frame').length === 1")
    until(page, "(x) => Math.abs(heteroCy.pan().x - x) < 1", arg=before[2])
    assert page.evaluate(where) == pytest.approx(before)


def test_escape_in_a_menu_leaves_the_selection(opened: Page) -> None:
    page = opened
    act(page, "heteroCy.nodes('.group')[1].select()")
    says(page.locator("#inspector"), "25 ops selected")
    page.click("#export")
    expect(page.locator(".menu-groups")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator(".menu-groups")).to_be_hidden()
    assert page.evaluate("heteroCy.$(':selected').length") == 1
    page.keyboard.press("Escape")
    until(page, "heteroCy.$(':selected').length === 0")


def test_with_a_brush_a_double_click_paints_and_a_key_opens_what_the_pointer_is_on(
    opened: Page,
) -> None:
    page = opened
    at = page.evaluate("""() => { const n = heteroCy.nodes('.group')[1], p = n.renderedPosition(),
        c = heteroCy.container().getBoundingClientRect(); return [p.x + c.left, p.y + c.top]; }""")
    page.keyboard.press("2")
    page.mouse.dblclick(*at)
    expect(page.locator("[data-figure=pins]")).to_have_attribute("data-value", "25")
    says(page.locator("#mode-hint"), "E opens")
    assert page.evaluate("heteroCy.nodes('.frame').length") == 0
    page.keyboard.press("e")
    until(page, "heteroCy.nodes('.frame').length === 1")
    assert page.evaluate("heteroCy.nodes('.frame')[0].data('label')") == "layers.1"
    expect(page.locator("[data-figure=pins]")).to_have_attribute("data-value", "25")
    page.keyboard.press("Control+z")
    expect(page.locator("[data-figure=pins]")).to_have_attribute("data-value", "0")


def test_the_inspector_names_a_block_and_its_costs(opened: Page) -> None:
    page = opened
    act(page, "heteroCy.nodes('.group')[1].select()")
    inspector = page.locator("#inspector")
    says(inspector, "layers.1")
    says(inspector, f"25 ops selected, one of {LAYERS} blocks alike")
    expect(inspector.locator(".hover-row")).to_have_count(2)
    says(inspector, "Stand-alone time: estimate from shapes")


def test_the_name_of_a_device_stays_in_one_line_beside_what_it_cannot_run(
    page: Page, show: Show
) -> None:
    """Beside a long text, letters of the name stood below each other."""
    whisper = str(EXAMPLES / "models" / "whisper-tiny-decoder.onnx")
    page.goto(show(whisper, "HETERO:NPU(hailo8),OpenVINO.CPU"))
    ready(page)
    act(page, "heteroCy.nodes('.group')[1].select()")
    row = page.locator("#inspector .hover-row").first
    expect(row.locator(".hover-without")).to_have_text("not MatMul, Softmax, IsNaN …")
    name, value, without = (
        box
        for one in (".hover-device", ".value", ".hover-without")
        if (box := row.locator(one).bounding_box())
    )
    assert name["height"] < 1.5 * without["height"]
    assert value["y"] < name["y"] + name["height"] <= without["y"] + 1


def test_what_is_looked_for_comes_into_view_out_of_closed_blocks(opened: Page) -> None:
    page = opened
    page.fill("#find", "layers.31/left/Neg_5")
    page.keyboard.press("Enter")
    until(
        page,
        """() => {
        const n = heteroCy.nodes(':selected'), p = n.nonempty() && n.renderedPosition();
        return n.length === 1 && !n.hasClass('group') && heteroCy.nodes('.frame').length === 2
            && p.x > 0 && p.y > 0 && p.x < heteroCy.width() && p.y < heteroCy.height() && heteroCy.zoom() >= 0.4;
    }""",
    )
    says(page.locator("#inspector"), "/model/layers.31/left/Neg_5")


def test_identical_layers_are_one_block_that_is_painted_at_once(opened: Page) -> None:
    page = opened
    act(page, "heteroCy.nodes('.group')[1].select()")
    page.keyboard.press("c")
    until(page, "heteroCy.nodes('.group').length === 1")
    assert page.evaluate("heteroCy.nodes('.group')[0].data('name')") == f"model ({LAYERS} layers)"
    page.keyboard.press("2")
    act(page, "heteroCy.nodes('.group')[0].emit('tap')")
    expect(page.locator("[data-figure=pins]")).to_have_attribute("data-value", str(25 * LAYERS))


def test_exports_that_keep_the_split_come_before_those_that_do_not(page: Page, show: Show) -> None:
    address = show(str(EXAMPLES / "models" / "mobilenetv2.onnx"), "HETERO:OpenVINO.CPU,CPU")
    page.goto(address)
    ready(page)
    own = page.get_by_role("group", name="For these devices")
    page.click("#export")
    first = own.get_by_role("menuitem").first
    says(first, "OpenVINO: model, affinities, script")
    expect(own.get_by_role("menuitem", name="OpenVINO: model").locator(".menu-note")).to_have_count(
        0
    )
    says(
        own.get_by_role("menuitem", name="ONNX Runtime: annotated model"),
        re.compile("100 ops run on ONNX Runtime.s CPU instead|all on ONNX Runtime.s CPU"),
    )
    page.keyboard.press("Escape")
    act(page, "hetero.paint([158], 1)")
    expect(page.locator("[data-figure=pins]")).to_have_attribute("data-value", "1")
    page.click("#export")
    says(first, "One model per subgraph, runner")
    says(own.get_by_role("menuitem").last, "does not split: all on ")
    says(own.get_by_role("menuitem").last, "“One model per subgraph, runner” does split")
    notes = page.locator("[aria-label='For these devices'] .menu-note")
    assert notes.count() > 2
    assert notes.evaluate_all("(all) => all.every((note) => note.scrollWidth <= note.clientWidth)")
    panel = page.locator(".popover-panel[role=menu]:visible").bounding_box()
    right = max(box["x"] + box["width"] for note in notes.all() if (box := note.bounding_box()))
    assert panel is not None and right <= panel["x"] + panel["width"], "none is cut"


def test_exports_that_these_devices_can_use_come_first(fresh: Page) -> None:
    page = fresh
    page.click("#export")
    own = page.get_by_role("group", name="For these devices")
    others = page.get_by_role("group", name="Other formats")
    for name in ("OpenVINO: model, affinities, script", "One model per subgraph, runner"):
        expect(own.get_by_role("menuitem", name=re.compile(f"^{name}"))).to_be_visible()
    qnn = others.get_by_role("menuitem", name="QNN: op_affinity")
    expect(qnn).to_be_hidden()
    fold_out(page, "Other formats")
    expect(qnn).to_be_in_viewport()
    genai = others.get_by_role("menuitem", name="onnxruntime-genai")
    expect(genai).to_be_disabled()
    assert "there is no genai_config.json" in str(genai.get_attribute("title"))
    kit = "Kit that measures a planned device"
    expect(others.get_by_role("menuitem", name=kit)).to_be_visible()
    with page.expect_download():
        own.get_by_role("menuitem", name="OpenVINO: model, affinities, script").click()
    foreign = page.locator("#notice").get_by_text("written for devices that are not in this plan")
    says(page.locator("#notice"), "Downloaded fresh_openvino.zip")
    expect(foreign).to_have_count(0)
    page.click("#export")
    fold_out(page, "Other formats")
    with page.expect_download():
        others.get_by_role("menuitem", name="TensorRT: op types to exclude").click()
    expect(foreign).to_be_visible()
    page.click("role=tab[name=Devices]")
    page.select_option("#device-add", label="NPU: edgetpu")
    expect(page.locator("#devices").get_by_text("planned")).to_be_visible()
    page.click("#export")
    expect(own.get_by_role("menuitem", name=kit)).to_be_visible()


def test_a_block_on_two_devices_says_how_many_ops_each_has(opened: Page) -> None:
    page = opened
    act(page, "hetero.paint(hetero.opsOf(heteroCy.nodes('.group')[1]).slice(0, 4), 1, true)")
    until(page, "heteroCy.nodes('.mixed').length === 1")
    label = page.evaluate("heteroCy.nodes('.mixed')[0].data('label')")
    assert re.fullmatch(r".*\n① \d+ · ② 4 ops", label), label
