"""What stands in the way of a plan is said in its headline, with the button that ends it."""

from __future__ import annotations

import re
from pathlib import Path

from pages import EXAMPLES, Show, ready, says, wait_for_figure
from playwright.sync_api import Page, Route, expect

MODEL = str(EXAMPLES / "models" / "mobilenetv2.onnx")


def test_a_float_model_on_a_device_of_int8_has_one_click_to_plan_it_as_int8(
    page: Page, show: Show
) -> None:
    """The Edge TPU opened with all ops on the CPU; the way out was a row of a closed table."""
    page.goto(show(MODEL, "HETERO:NPU(edgetpu),CPU"))
    ready(page)
    verdict = page.locator("#verdict")
    words = "NPU takes int8 or uint8 only; this model is float32"
    expect(verdict.get_by_text(words)).to_be_visible()
    expect(verdict.get_by_text(words)).to_have_attribute("title", words)  # a short window cuts it
    says(page.locator("#inspector"), "no ops")
    verdict.get_by_role("button", name="Plan as int8").click()
    expect(verdict.get_by_text("this model is float32")).to_have_count(0)
    says(page.locator("#devices [data-row-device='0']"), "as if int8")
    says(page.locator("#devices [data-row-device='0']"), "100 ops")


def test_a_device_says_where_its_limits_are_from_and_of_when(page: Page, show: Show) -> None:
    page.goto(show(MODEL, "HETERO:NPU(edgetpu),H(hailo8),CPU"))
    ready(page)
    page.click("role=tab[name='Devices']")
    official = page.get_by_text("Its limits: published list of 2019, read 2026-11-23.")
    expect(official).to_be_visible()
    expect(official.get_by_role("link", name="[source]")).to_have_attribute(
        "href", r"https://coral.withgoogle.com/docs/edgetpu/models-intro/"
    )
    unofficial = page.get_by_text("Its limits: unofficial list of ops that a user tried")
    expect(unofficial).to_contain_text("Dataflow Compiler 3.32.0")


def test_pins_against_the_table_are_counted_and_dropped_without_the_others(
    page: Page, show: Show
) -> None:
    page.goto(show(MODEL, "HETERO:NPU(edgetpu),CPU"))
    ready(page)
    verdict = page.locator("#verdict")
    page.evaluate("hetero.paint([hetero.page.view.ops[9]], 1)")
    wait_for_figure(page, "pins", 1)
    page.evaluate("hetero.paint(hetero.page.view.ops.slice(2, 5), 0)")
    says(page.locator("#notice"), "3 ops were not painted: NPU does not take them.")
    page.get_by_role("button", name="Paint anyway").click()
    wait_for_figure(page, "pins", 4)
    expect(verdict.get_by_text("3 ops forced onto NPU, which does not take them")).to_be_visible()
    says(page.locator("#inspector"), "3 by force")
    says(page.locator("#pins"), "4 pinned ops, 3 by force")
    assert page.evaluate("heteroCy.nodes('.forced').length") == 3

    page.click("role=tab[name='Fallbacks']")
    expect(page.locator("#fallbacks").get_by_role("button", name="Unpin forced")).to_be_visible()
    verdict.get_by_role("button", name="Unpin forced").click()
    wait_for_figure(page, "pins", 1)
    expect(verdict.get_by_text("forced")).to_have_count(0)
    assert page.evaluate("heteroCy.nodes('.forced').length") == 0
    page.keyboard.press("Control+z")
    wait_for_figure(page, "pins", 4)

    # In the type that the device takes, these pins are pins as others.
    page.locator("#fallbacks").get_by_role("button", name="Plan as int8").click()
    expect(verdict.get_by_text("forced")).to_have_count(0)
    says(page.locator("#pins"), "4 pinned ops")
    expect(page.locator("#pins").get_by_text("by force")).to_have_count(0)
    assert page.evaluate("heteroCy.nodes('.forced').length") == 0


def test_time_that_is_lost_stays_an_estimate_beside_what_a_benchmark_measured(
    page: Page, show: Show
) -> None:
    page.goto(show(MODEL, str(EXAMPLES / "devices" / "runtimes.yaml")))
    ready(page)
    page.click("role=tab[name='Fallbacks']")
    head = page.locator("#fallbacks-table thead")
    says(head, "Time lost estimate from shapes")
    expect(head.get_by_text("Subgraphs took")).to_have_count(0)
    page.click("role=tab[name='Benchmark']")
    page.fill("#bench-seconds", "0.5")
    page.click("#bench-start")
    says(page.locator("#verdict"), "measurement", timeout=90_000)
    page.click("role=tab[name='Fallbacks']")
    says(head, "Time lost estimate from shapes")
    says(head, "Subgraphs took measurement")
    says(page.locator("#fallbacks-table tbody tr").first, "subgraph 1: ")


def test_a_policy_that_goes_by_watts_asks_for_them_and_then_solves(page: Page, show: Show) -> None:
    page.goto(show(MODEL, "HETERO:NPU(edgetpu as int8),CPU"))
    ready(page)
    policy = page.locator("#policy")
    policy.select_option("optimal:energy")
    watts = page.locator("#notice").get_by_label("CPU, watts")
    expect(watts).to_be_focused()
    expect(page.locator("[data-watts-of]")).to_have_count(1)
    page.get_by_role("button", name="Solve").click()
    expect(watts).to_be_focused()  # it is empty
    watts.fill("15")
    watts.press("Enter")
    expect(policy).to_have_value("optimal:energy")
    says(page.locator("#verdict"), "J a run")
    expect(page.locator("[data-watts-of]")).to_have_count(0)
    page.click("role=tab[name='Devices']")
    power = page.locator("#device-forms").get_by_label("Power, W")
    expect(power.nth(1)).to_have_value("15 W")
    page.keyboard.press("Control+z")
    expect(policy).to_have_value("priority")


def test_a_faster_policy_is_told_below_the_list_and_taken_by_a_click(
    page: Page, show: Show, tmp_path: Path
) -> None:
    devices = tmp_path / "devices.yaml"
    devices.write_text(
        "- {name: slow, backendName: NPU, peakCompute: 1 GFLOPS, peakDramBw: 1 GB/s}\n"
        "- {name: fast, backendName: NPU, peakCompute: 4 TOPS, peakDramBw: 30 GB/s}\n"
    )
    page.goto(show(str(EXAMPLES / "models" / "mobilenetv2.onnx"), str(devices)))
    ready(page)
    line = page.locator("#better")
    expect(line).to_contain_text(
        re.compile(r"Least latency would take [\d.]+ ms, all of it on fast, instead")
    )
    page.evaluate("hetero.paint([hetero.page.view.ops[0]], 0)")
    expect(line).to_contain_text("would take")  # around the pin
    use = line.get_by_role("button", name="Use")
    expect(use).to_be_visible()
    use.click()
    expect(page.locator("#policy")).to_have_value("optimal:latency")
    expect(line).to_be_empty()
    expect(page.locator("#pins")).to_contain_text("1 pin")
    page.keyboard.press("Control+z")
    expect(use).to_be_visible()


def test_nobody_is_told_to_wait_for_what_stands_below_the_policy(fresh: Page) -> None:
    """The bar at the top was there for a second after each edit."""
    page, held = fresh, list[Route]()

    def hold(route: Route) -> None:
        (held.append if '"better.children"' in (route.request.post_data or "") else Route.fallback)(
            route
        )

    page.route("**/_dash-update-component**", hold)
    page.evaluate("hetero.paint([hetero.page.view.ops[0]], 1)")
    while not held:
        page.wait_for_timeout(100)
    page.wait_for_timeout(800)  # the bar comes after half a second
    expect(page.locator("#waiting")).to_be_hidden()
    for route in held:
        route.continue_()
