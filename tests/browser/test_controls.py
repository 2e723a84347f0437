"""Fields, lists, tabs and menus of the page, by mouse and keyboard."""

from __future__ import annotations

from pages import Server, ready, says_exactly, until
from playwright.sync_api import BrowserContext, Page, expect


def test_tabs_are_walked_with_arrows_and_keep_what_they_showed(page: Page, server: Server) -> None:
    page.goto(server.url)
    ready(page)
    page.get_by_role("tab", name="Fallbacks").focus()
    for key, name in (
        ("ArrowRight", "Subgraphs"),
        ("End", "Compare"),
        ("ArrowRight", "Fallbacks"),
        ("ArrowLeft", "Compare"),
        ("Home", "Fallbacks"),
    ):
        page.keyboard.press(key)
        expect(page.get_by_role("tab", name=name)).to_be_focused()
        says_exactly(page.get_by_role("tab", selected=True), name)
        expect(page.get_by_role("tabpanel")).to_have_count(1)
    page.get_by_role("tab", name="Compare").click()
    page.fill("#layout-name", "half written")
    page.get_by_role("tab", name="Rules").click()
    page.get_by_role("tab", name="Compare").click()
    expect(page.locator("#layout-name")).to_have_value("half written")


def test_the_script_of_tables_comes_with_the_first_table(page: Page, server: Server) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(server.url)
    ready(page)
    expect(page.get_by_role("tab", name="Fallbacks")).to_be_visible()
    assert not any("ag_grid" in url for url in asked)
    page.get_by_role("tab", name="Transfers").click()
    expect(page.locator("#transfers .ag-row").first).to_be_visible()
    assert any("ag_grid" in url for url in asked)


def test_a_menu_is_used_with_the_keyboard_and_gives_the_focus_back(
    page: Page, server: Server
) -> None:
    page.goto(server.url)
    ready(page)
    page.locator("#export").focus()
    page.keyboard.press("Enter")
    items = page.get_by_role("menuitem")
    expect(items.first).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(items.nth(1)).to_be_focused()
    page.keyboard.press("End")
    expect(page.get_by_role("menuitem", name="Other formats")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("End")
    expect(items.last).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(items.last).not_to_be_focused()
    page.keyboard.press("End")
    page.keyboard.press("ArrowDown")
    expect(items.first).to_be_focused()
    page.keyboard.press("Escape")
    expect(items).to_have_count(0)
    expect(page.locator("#export")).to_be_focused()
    page.click("#export")
    expect(items.first).to_be_visible()
    page.mouse.click(5, 600)
    expect(items).to_have_count(0)


def test_a_number_outside_its_limits_becomes_the_nearest_one(page: Page, server: Server) -> None:
    page.goto(server.url)
    ready(page)
    page.get_by_role("tab", name="Benchmark").click()
    field = page.get_by_label("Seconds", exact=True)
    for typed, kept in (("9999", "600"), ("0", "0.5"), ("2.5", "2.5")):
        field.fill(typed)
        field.blur()
        expect(field).to_have_value(kept)


def test_excluded_ops_are_typed_and_taken_away(fresh: Page) -> None:
    page = fresh
    page.get_by_role("tab", name="Devices").click()
    form = page.locator(".device-form").first
    count = page.locator(".device-count").first
    before = int(count.get_attribute("data-count") or 0)
    field = form.get_by_label("Block-list")
    field.fill("NoSuchOp")
    field.press("Enter")
    expect(field).to_have_value("NoSuchOp")  # it is not in the list, so nothing is excluded
    field.fill("Clip")
    field.press("Enter")
    until(page, f"Number(document.querySelector('.device-count').dataset.count) < {before}")
    form.get_by_role("button", name="Remove Clip").click()
    expect(count).to_have_attribute("data-count", str(before))


def test_a_device_can_take_listed_ops_only(fresh: Page) -> None:
    """A home-made NPU is described by what it takes."""
    page = fresh
    page.get_by_role("tab", name="Devices").click()
    field = page.locator(".device-form").first.get_by_label("Allow-list")
    for name, count in (("Conv", 52), ("Clip", 87)):
        field.fill(name)
        field.press("Enter")
        expect(page.locator(".device-count").first).to_have_attribute("data-count", str(count))


def test_undo_in_a_field_of_a_device_is_the_plans_unless_something_was_typed(fresh: Page) -> None:
    """The browser emptied the field while the plan kept its value."""
    page = fresh
    page.get_by_role("tab", name="Devices").click()
    field = page.locator(".device-form").first.get_by_label("Peak compute")
    step = "hetero.page.view.step"
    first, before = page.evaluate(step), field.input_value()
    field.press_sequentially("3 TOPS")
    field.press("Enter")
    until(page, f"{step} !== {first!r}")
    second = page.evaluate(step)
    field.press("Control+z")
    until(page, f"{step} === {first!r}")
    expect(field).to_have_value(before)
    field.press("Control+Shift+z")
    until(page, f"{step} === {second!r}")
    expect(field).to_have_value("3 TOPS")
    field.press("End")
    field.press_sequentially("x")
    field.press("Control+z")
    expect(field).to_have_value("3 TOPS")
    field.blur()
    expect(page.locator("#device-refused")).to_have_text("")
    assert page.evaluate(step) == second


def test_light_or_dark_is_remembered_and_follows_the_system_until_chosen(
    browser: BrowserContext, server: Server
) -> None:
    page = browser.new_page()
    page.emulate_media(color_scheme="dark")
    page.goto(server.url)
    ready(page)
    scheme = "document.documentElement.dataset.scheme"
    assert page.evaluate(scheme) == "dark"
    page.emulate_media(color_scheme="light")
    until(page, f"{scheme} === 'light'")
    page.click("#scheme-toggle")
    assert page.evaluate(scheme) == "dark"
    page.reload()
    ready(page)
    assert page.evaluate(scheme) == "dark"
    page.close()


def test_after_the_mouse_chose_from_a_list_over_the_graph_keys_belong_to_the_graph(
    page: Page, server: Server
) -> None:
    page.goto(server.url)
    ready(page)
    page.locator("#colour-by").click()
    page.locator("#colour-by").select_option("pinned")
    expect(page.locator("#colour-by")).not_to_be_focused()
    page.locator("#colour-by").focus()
    page.keyboard.press("Home")
    page.locator("#colour-by").select_option("heat")
    expect(page.locator("#colour-by")).to_be_focused()
