"""What a benchmark leaves open is measured again, for longer."""

from __future__ import annotations

import os
import subprocess
import sys

from pages import says
from playwright.sync_api import Page, expect


def test_a_noisy_benchmark_can_be_measured_longer(fresh: Page) -> None:
    page = fresh
    page.click("role=tab[name=Benchmark]")
    page.fill("#bench-seconds", "0.5")
    others = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(os.cpu_count() or 1)
    ]
    try:
        page.click("#bench-start")
        longer = page.get_by_role("button", name="Measure longer (2 s)")
        expect(longer).to_be_visible(timeout=90_000)
    finally:
        for other in others:
            other.kill()
            other.wait()
    says(page.locator("#bench-stale"), "Noisy: ")
    page.locator("#bench-mode").select_option("throughput")
    longer.click()
    expect(page.locator("#bench-seconds")).to_have_value("2")
    expect(page.locator("#bench-mode")).to_have_value("latency")
    expect(page.locator("#runs-table tbody tr")).to_have_count(2, timeout=90_000)
    says(page.locator("#bench-text"), "Done")
