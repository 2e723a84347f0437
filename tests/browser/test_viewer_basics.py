"""What people expect of a viewer: values, weights, facts of the model, shapes on edges, whole pictures, the usual keys."""

from __future__ import annotations

import json
import struct
import xml.etree.ElementTree as ET
from pathlib import Path

from conftest import write_layers
from pages import EXAMPLES, Show, act, fold_out, ready, says, says_exactly, until
from playwright.sync_api import Locator, Page, expect

SHAPED = "hetero.page.cy.edges('.shaped').length"
TEXT = "{http://www.w3.org/2000/svg}text"

BEHIND = """async () => {
    const cy = heteroCy, seen = [], behind = [], wait = (time) => new Promise((done) => setTimeout(done, time));
    cy.zoom(1);
    const all = cy.elements().boundingBox(), view = cy.extent();
    for (let x = all.x1; x < all.x2; x += 2 * view.w) for (let y = all.y1; y < all.y2; y += 2 * view.h) {
        cy.edges().removeClass("shaped");
        cy.pan({ x: -x, y: -y });
        for (let i = 0; i < 5 && cy.edges(".shaped").empty(); i += 1) await wait(150);
        cy.edges(".shaped").forEach((edge) => {
            const text = edge.boundingBox({ includeEdges: false });
            if (!text.w) return;
            seen.push(edge.id());
            cy.nodes(".op, .terminal").forEach((node) => {
                const at = node.position(), border = 4;
                if (Math.min(text.x2 - at.x, at.x - text.x1) + node.width() / 2 > border
                    && Math.min(text.y2 - at.y, at.y - text.y1) + node.height() / 2 > border)
                    behind.push(`${edge.id()}: ${edge.data("shape")} behind ${node.id()}`);
            });
        });
    }
    return [seen, behind];
}"""
"""Edges with a shape, looking all over the graph, and shapes that are behind a node, by geometry; around a text is a border."""


def _select(page: Page, name: str) -> None:
    """Selects the first op of a type, near enough to read everything."""
    act(
        page,
        f"""const cy = hetero.page.cy;
        cy.zoom(1.1);
        hetero.goTo(cy.nodes('.op').toArray().find((n) => n.data('name') === '{name}').id());""",
    )
    says_exactly(page.locator("#inspector .op-type"), name)


def test_an_op_has_the_values_of_its_constants_and_its_documentation(fresh: Page) -> None:
    page, inspector = fresh, fresh.locator("#inspector")
    _select(page, "Clip")
    says_exactly(inspector.locator(".values"), ["0", "6"])
    _select(page, "Gemm")
    text = inspector.get_by_text("General Matrix multiplication")
    expect(text).not_to_be_visible()
    inspector.locator("summary", has_text="Documentation of Gemm").click()
    expect(text).to_be_visible()
    expect(inspector.get_by_role("link", name="Gemm, since version 13")).to_be_visible()


def test_weights_are_read_on_demand_and_the_next_op_asks_again(fresh: Page) -> None:
    page, inspector = fresh, fresh.locator("#inspector")
    _select(page, "Conv")
    expect(inspector.locator(".histogram")).to_have_count(0)
    inspector.get_by_role("button", name="Figures of the weights").click()
    expect(inspector.locator(".histogram").first).to_be_visible()
    expect(inspector.locator(".histogram").first.locator("span")).to_have_count(20)
    for name in ("Range", "Mean", "Deviation", "Zeros"):
        expect(inspector.locator(f"dt:text-is('{name}')").first).to_be_visible()
    _select(page, "Gemm")
    expect(inspector.get_by_role("button", name="Figures of the weights")).to_be_enabled()
    expect(inspector.locator(".histogram")).to_have_count(0)


def test_the_facts_of_the_model_are_where_nothing_is_selected(fresh: Page) -> None:
    inspector = fresh.locator("#inspector")
    nodes = inspector.get_by_text("253 nodes became 100 ops")
    expect(nodes).not_to_be_visible()
    inspector.locator("summary", has_text="Model").click()
    expect(nodes).to_be_visible()
    expect(inspector.get_by_text("pytorch 2.13.0+cpu")).to_be_visible()


def test_edges_in_sight_have_shapes_from_as_near_as_they_can_be_read(fresh: Page) -> None:
    page = fresh
    expect(page.locator("#lines")).to_be_hidden()  # no line is dashed
    act(page, "hetero.fit()")
    until(page, f"{SHAPED} === 0")
    _select(page, "Gemm")
    until(page, f"{SHAPED} > 0")
    assert page.evaluate(f"{SHAPED} < hetero.page.cy.edges().length"), "those far away have none"
    label = page.evaluate(
        "hetero.page.cy.nodes(':selected').outgoers('edge')[0].renderedStyle('source-label')"
    )
    assert label == "1×1000"
    act(page, "hetero.commandOf('toggle-shapes').run()")
    until(page, f"{SHAPED} === 0")
    act(page, "hetero.commandOf('toggle-shapes').run()")
    until(page, f"{SHAPED} > 0")
    act(page, "hetero.fit()")
    until(page, f"{SHAPED} === 0")


def test_no_shape_is_behind_a_node(page: Page, show: Show) -> None:
    """Edges that bend right below a node, and short ones between tall blocks, had theirs behind it."""
    address = show(str(EXAMPLES / "models" / "whisper-tiny-decoder.onnx"), "HETERO:CPU")
    page.goto(address)
    ready(page)
    for labels in (60, 200):
        before = page.evaluate("heteroCy.nodes().length")
        act(page, "hetero.askDetail({ do: 'level', deeper: true })")
        until(page, f"heteroCy.nodes().length > {before}")
        seen, behind = page.evaluate(BEHIND)
        assert len(set(seen)) > labels
        assert behind == []
        told = page.evaluate(
            """(seen) => seen.map((id) => heteroCy.$id(id)).filter((edge) => edge.hasClass("bent"))
                .map((edge) => `${edge.source().id()}: ${edge.data("shape")}`)""",
            sorted(set(seen)),
        )
        assert len(told) == len(set(told)), "each tensor's shape once"


ON_EACH_OTHER = """(mode) => {
    const boxes = heteroCy.edges(".shaped").map((edge) => [edge, edge.boundingBox({ includeEdges: false })]);
    return boxes.flatMap(([edge, a], i) => boxes.slice(i + 1)
        .filter(([, b]) => Math.min(a.x2 - b.x1, b.x2 - a.x1) > 4 && Math.min(a.y2 - b.y1, b.y2 - a.y1) > 4)
        .map(([other]) => `${edge.data("shape")} on ${other.data("shape")}`));
}"""
"""Texts of edges that are printed on each other; around each is a border."""


def test_no_shape_is_on_another_and_several_tensors_are_one_label(
    page: Page, show: Show, tmp_path: Path
) -> None:
    """Of edges that leave a subgraph together, the texts were printed on each other: "1×128×9616"."""
    whisper = str(EXAMPLES / "models" / "whisper-tiny-decoder.onnx")
    page.goto(show(whisper, "HETERO:NPU(hailo8),OpenVINO.CPU"))
    ready(page)
    act(page, "hetero.askDetail({ do: 'mode', mode: 'subgraphs' })")
    until(page, "hetero.page.detail.mode === 'subgraphs'")
    act(page, "heteroCy.zoom(1); heteroCy.center()")
    until(page, f"{SHAPED} > 10")
    assert page.evaluate(ON_EACH_OTHER) == []
    said = page.evaluate(
        "heteroCy.edges('.transfer').map((edge) => edge.data('shape')).filter((shape) => shape.includes('tensors'))"
    )
    assert "2 tensors, 24.58 kB" in said  # as int8, as the NPU plans them; 98.3 kB as float32
    page.click("#export")
    fold_out(page, "Pictures and graphs")
    with page.expect_download() as download:
        page.get_by_role("menuitem", name="Picture of the graph, SVG").click()
    download.value.save_as(tmp_path / "graph.svg")
    words = [text.text for text in ET.parse(tmp_path / "graph.svg").getroot().iter(TEXT)]
    assert "2 tensors, 24.58 kB" in words
    page.select_option("#policy", "optimal:latency")  # edges of the same ends carry other tensors
    until(page, "heteroCy.edges('.transfer').length < 20")
    until(
        page,
        "heteroCy.edges().every((edge) => edge.data('shape').includes(', ') === edge.data('shape').includes(' tensors'))",
    )


def test_the_svg_of_the_graph_has_all_of_it(fresh: Page, tmp_path: Path) -> None:
    page = fresh
    _select(page, "Gemm")  # most of the graph is out of sight
    page.click("#export")
    fold_out(page, "Pictures and graphs")
    with page.expect_download() as download:
        page.get_by_role("menuitem", name="Picture of the graph, SVG").click()
    assert download.value.suggested_filename == "fresh-graph.svg"
    download.value.save_as(tmp_path / "graph.svg")
    drawn = ET.parse(tmp_path / "graph.svg").getroot()
    words = [text.text for text in drawn.iter(TEXT)]
    ops = page.evaluate("hetero.page.cy.nodes('.op').map((n) => n.data('label').split('\\n')[0])")
    assert sorted(w for w in words if w in set(ops)) == sorted(ops)
    assert "1×1000" in words
    left, top, width, height = map(float, drawn.attrib["viewBox"].split())
    for text in drawn.iter(TEXT):
        assert left < float(text.attrib["x"]) < left + width
        assert top < float(text.attrib["y"]) < top + height


def test_the_png_of_a_large_graph_is_bounded_and_says_so(opened: Page, tmp_path: Path) -> None:
    page = opened
    act(page, "hetero.askDetail({ do: 'mode', mode: 'ops' })")
    until(page, "hetero.page.cy.nodes('.op').length === 1000")
    with page.expect_download() as download:
        act(page, "hetero.commandOf('picture-graph-png').run()")
    says(page.locator("#notice"), "no side is longer than 8,000")
    download.value.save_as(tmp_path / "graph.png")
    width, height = struct.unpack(">II", (tmp_path / "graph.png").read_bytes()[16:24])
    assert 7990 <= max(width, height) <= 8010
    for look in ("far", "farther"):
        now, drawn = f"hetero.page.far.{look}", f"hetero.page.cy.nodes('.{look}').nonempty()"
        assert page.evaluate(f"{now} === {drawn}"), "the page looks as before"
    act(page, "hetero.askDetail({ do: 'mode', mode: 'blocks' })")
    until(page, "hetero.page.detail.mode === 'blocks'")


def test_the_usual_keys_find_save_and_open(fresh: Page, tmp_path: Path) -> None:
    page = fresh
    page.keyboard.press("Control+f")
    expect(page.locator("#find")).to_be_focused()
    for times in range(2):  # from a field too, and again
        with page.expect_download() as download:
            page.keyboard.press("Control+s")
        download.value.save_as(tmp_path / f"{times}.json")
        assert json.loads((tmp_path / f"{times}.json").read_text())["devices"]
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    help_sheet = page.locator("#help")
    expect(help_sheet).to_be_visible()
    for keys in ("/, Ctrl+F", "Ctrl+O", "Ctrl+S"):
        expect(help_sheet.locator("kbd").get_by_text(keys, exact=True)).to_be_attached()
    page.keyboard.press("Escape")
    page.keyboard.press("Control+o")
    expect(page.locator("#editor")).to_have_count(0)
    assert page.url.endswith("/open")
    page.go_back()
    ready(page)


def only_the_end_is_seen(element: Locator) -> bool:
    """Whether a text is cut at its front."""
    return bool(
        element.evaluate("""(element) => {
            const box = element.getBoundingClientRect(), text = element.firstElementChild.getBoundingClientRect();
            return text.left < box.left - 1 && text.right < box.right + 1;
        }""")
    )


def test_the_ends_of_long_names_are_seen_where_they_are_listed(
    page: Page, show: Show, tmp_path: Path
) -> None:
    """Names of one model begin alike: of seven results, and of what was painted where, only the beginning was seen."""
    model = write_layers(tmp_path / "m.onnx", ("of_a_long_name" * 9,))
    page.goto(show(str(model), "HETERO:GPU,CPU"))
    ready(page)
    expect(page.locator("#find")).to_have_attribute(
        "placeholder", "Find: layer:20-39 neg, or op == Neg"
    )
    page.keyboard.press("Control+k")
    page.locator(".palette-field").fill("filter")
    command = page.locator("#palette-list").get_by_text("Find; or filter by a condition: op == Neg")
    expect(command).to_be_visible()
    page.keyboard.press("Escape")
    page.fill("#find", "layer:3 neg_7")
    titles = page.locator("#search-list .search-title")
    expect(titles.first).to_be_visible()
    assert titles.count() > 1
    for title in titles.all():
        assert only_the_end_is_seen(title)
        assert title.get_attribute("title") == title.text_content()
    block = page.locator("#search-list .search-block").first
    says_exactly(block, "layers.3")
    expect(block).to_be_visible()
    page.locator("#find").blur()
    act(page, "hetero.paint([7], 1)")
    step = page.locator("#history .step.now")
    says(step, "Neg_7 → CPU")
    assert only_the_end_is_seen(step.locator(".step-what"))
    expect(step.locator(".step-to")).to_be_visible()
    page.get_by_text("Model", exact=True).click()
    says(page.locator(".model-facts"), "x float32 4")
