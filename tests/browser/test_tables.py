"""Tables fit into the window and remember their columns; devices and legends show their ops."""

from __future__ import annotations

from pages import act, ready, until
from playwright.sync_api import Page, expect

from editor.text import human_seconds

_HEADERS = """() => [...document.querySelectorAll('#subgraphs .ag-header-cell')].map((cell) => {
    const box = cell.getBoundingClientRect(), text = cell.querySelector('.ag-header-cell-text');
    return [cell.getAttribute('col-id'), box.right, text.scrollWidth - text.clientWidth, box.width];
})"""


def subgraphs(page: Page) -> list[list[float]]:
    page.get_by_role("tab", name="Subgraphs").click()
    expect(page.locator("#subgraphs .ag-header-cell").first).to_be_visible()
    page.wait_for_timeout(400)
    found: list[list[float]] = page.evaluate(_HEADERS)
    return found


def test_a_table_fits_its_columns_and_remembers_what_was_changed(fresh: Page) -> None:
    page = fresh
    for size in ({"width": 1280, "height": 720}, {"width": 1440, "height": 900}):
        page.set_viewport_size(size)
        columns = subgraphs(page)
        assert len(columns) == 14 and max(right for _, right, _, _ in columns) <= size["width"]
        assert all(cut <= 0 for _, _, cut, _ in columns), "every title is readable"
    page.get_by_label("Columns of the table").first.click()
    page.get_by_label("Depends on", exact=True).uncheck()
    page.keyboard.press("Escape")
    edge = page.locator(
        "#subgraphs .ag-header-cell[col-id=ops] .ag-header-cell-resize"
    ).bounding_box()
    assert edge
    page.mouse.move(edge["x"] + edge["width"] / 2, edge["y"] + 10)
    page.mouse.down()
    page.mouse.move(edge["x"] + edge["width"] / 2 + 40, edge["y"] + 10, steps=4)
    page.mouse.up()
    page.wait_for_timeout(300)
    before = subgraphs(page)
    page.reload()
    ready(page)
    after = subgraphs(page)
    assert [c[0] for c in after] == [c[0] for c in before] and "after" not in [c[0] for c in after]
    assert {c[0]: c[3] for c in after} == {c[0]: c[3] for c in before}
    page.get_by_label("Columns of the table").first.click()
    page.get_by_role("button", name="As at first").click()
    page.wait_for_timeout(300)
    assert (
        len(subgraphs(page)) == 14
        and page.evaluate("localStorage.getItem('hetero-editor-table-subgraphs')") is None
    )


def test_a_device_lets_its_ops_stand_out_in_graph_ribbon_and_map(fresh: Page) -> None:
    page = fresh
    act(page, "hetero.commandOf('map-toggle').run()")
    until(page, "heteroMap.ready && heteroMap.look !== null")
    faded = "heteroCy.nodes('.faded').length"
    faint = "hetero.page.view.ops.filter((_, i) => heteroMap.look(i).faint).length"
    page.hover("#devices [data-row-device='1']")
    until(page, f"{faded} === 98 && {faint} === 98 && hetero.page.emphasis.size === 2")
    page.hover("#status")
    until(page, f"{faded} === 0 && {faint} === 0")
    card = page.locator("#inspector [data-row-device='1'] button")
    card.focus()
    until(page, f"{faded} === 98")
    card.press("Enter")
    until(page, "hetero.selectedOps().length === 2")


def test_without_the_panel_of_devices_the_legend_names_them(fresh: Page) -> None:
    page = fresh
    expect(page.locator("#legend")).to_be_hidden()
    page.keyboard.press("Shift+T")
    entry = page.locator("#legend").get_by_role("button", name="ONNX Runtime 2")
    entry.hover()
    until(page, "heteroCy.nodes('.faded').length === 98")
    entry.click()
    until(page, "hetero.selectedOps().length === 2")


def test_colours_of_subgraphs_have_a_legend_that_selects_them(fresh: Page) -> None:
    page = fresh
    page.locator("#colour-by").select_option("subgraph")
    entries = page.locator("#legend").get_by_role("button")
    parts = "[...new Set(hetero.page.view.part)].sort((a, b) => a - b)"
    expect(entries).to_have_count(page.evaluate(f"{parts}.length"))
    expect(entries.first).to_be_visible()
    entries.nth(1).click()
    second = f"hetero.page.view.ops.filter((_, i) => hetero.page.view.part[i] === {parts}[1])"
    until(page, f"`${{hetero.selectedOps().slice().sort()}}` === `${{{second}.sort()}}`")


def test_the_shortest_times_are_few_letters(fresh: Page) -> None:
    """A column showed "0.000081…" of a time in microseconds."""
    said = [fresh.evaluate("hetero.humanSeconds", each) for each in (0, 8.1e-11, 2e-9, 4.2e-6)]
    assert said == ["0 µs", "< 0.001 µs", "0.002 µs", "4.2 µs"]
    assert [human_seconds(each) for each in (0, 8.1e-11, 2e-9, 4.2e-6)] == said
