"""What a session really runs, asked in Compare and set beside the plan."""

from __future__ import annotations

from pages import says, until
from playwright.sync_api import Page, expect


def test_an_audit_becomes_a_layout_with_its_reasons_and_can_be_used(fresh: Page) -> None:
    page = fresh
    page.click("role=tab[name=Compare]")
    expect(page.locator("#audit-devices")).to_have_value("CPU")  # of the table
    page.fill("#audit-devices", "")
    page.click("#audit-start")
    result = page.locator("#audit-result")
    expect(result.get_by_text("Which devices?")).to_be_visible()
    page.fill("#audit-devices", "CUDA,CPU")
    page.fill("#audit-options", "{")
    page.click("#audit-start")
    expect(result.get_by_text("The session options are not JSON")).to_be_visible()
    page.fill("#audit-options", "")
    page.click("#audit-start")
    expect(page.locator("#audit-summary")).to_be_visible(timeout=90_000)
    says(page.locator("#audit-summary"), "100 ops of 100 not on CUDA")
    expect(result.get_by_text("CUDA, not on this machine")).to_be_visible()
    row = page.locator("#compare-table tbody tr").filter(has_text="audit: CUDA, CPU")
    row.get_by_text("100 ops not on CUDA").click()
    expect(row.get_by_text("CUDAExecutionProvider is not on this machine")).to_be_visible()
    result.get_by_text("100 ops not where wanted, by reason").click()
    result.get_by_role("button", name="100 ops").click()
    until(page, "hetero.selectedOps().length === 100")
    result.get_by_role("button", name="Use as the plan").click()
    expect(page.locator("[data-figure=pins]")).to_have_attribute("data-value", "100")
