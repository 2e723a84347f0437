"""Kills the server while a page is edited by a script, again and again: is every acknowledged stroke still there?

    python benchmarks/kill9.py --rounds 100

In each round a real page paints op after op as fast as it can, the server is killed (SIGKILL) at a random moment
and started again; the page sends once more what was not acknowledged. At the end of the round every stroke that the
page ever made must be in the database exactly once and in order.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "browser")]

from pages import CHROMIUM, Server, ready  # noqa: E402

from benchmarks.record import record  # noqa: E402

_EDIT = """(count) => {
    const ops = window.hetero.page.view.ops;
    window.painted = window.painted || 0;
    window.painter = setInterval(() => {
        const n = window.painted++;
        window.hetero.paint([ops[n % ops.length]], n % ops.length % 2 === Math.floor(n / ops.length) % 2 ? 1 : 2, true);
    }, 15);
}"""


def labels(file: Path) -> tuple[list[str], str]:
    """All steps of the one document, and what SQLite says of the file."""
    with sqlite3.connect(file) as db:
        steps = [label for (label,) in db.execute("SELECT label FROM revisions ORDER BY number")]
        parents = [
            parent for (parent,) in db.execute("SELECT parent FROM revisions ORDER BY number")
        ]
        assert parents == [None, *range(len(steps) - 1)], "the history is one line"
        return steps, db.execute("PRAGMA integrity_check").fetchone()[0]


def play(page: Page, server: Server, rounds: int, seed: int) -> tuple[int, list[str]]:
    """Returns the number of strokes, and what went wrong."""
    rng, faults = random.Random(seed), []
    for number in range(rounds):
        page.evaluate(_EDIT)
        page.wait_for_timeout(rng.uniform(30, 900))
        server.stop(kill=True)
        page.wait_for_timeout(rng.uniform(0, 300))
        page.evaluate("clearInterval(window.painter)")
        server.start()
        page.wait_for_function("window.hetero.waitingEdits() === 0", timeout=60_000)
        expect(page.locator("#connection")).to_be_hidden()
        made = page.evaluate("window.painted")
        steps, integrity = labels(server.workspace / "workspace.db")
        if len(steps) != made + 1 or integrity != "ok":
            faults.append(
                f"round {number}: {made} strokes, {len(steps) - 1} stored, integrity {integrity}"
            )
        if number % 10 == 9:
            print(f"{number + 1} rounds, {made} strokes, {len(faults)} faults", flush=True)
    return page.evaluate("window.painted"), faults


def main() -> int:
    """Plays the rounds; exit status 1 when anything was lost, doubled or damaged."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    begun = time.monotonic()
    server = Server(
        Path(tempfile.mkdtemp()) / "workspace",
        str(ROOT / "examples" / "models" / "mobilenetv2.onnx"),
    )
    server.start()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(
            bypass_csp=True
        )  # Playwright waits by evaluating text, which the page's policy forbids
        page.goto(server.url)
        ready(page)
        strokes, faults = play(page, server, args.rounds, args.seed)
    server.stop()
    print(*faults, sep="\n")
    seconds = time.monotonic() - begun
    print(f"{args.rounds} rounds, {strokes} strokes, {len(faults)} faults, {seconds:.0f} s")
    row = (args.rounds, strokes, len(faults), f"{seconds:.0f}")
    columns = ("kills", "strokes", "rounds that lost, doubled or damaged one", "seconds")
    record("kill9", [dict(zip(columns, map(str, row), strict=True))])
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
