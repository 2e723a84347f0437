"""Makes the pictures of the page anew: `python docs/_tools/pictures.py`, with Chromium as for the tests.

A real server on bundled models, 1440 x 900. The stroke is an animated PNG in light and in dark. `--benchmark` also makes the
picture of a benchmark; its figures are worth showing from a quiet machine only. `--blocks MODEL` makes that of a large model in
blocks alone, which is not a bundled one: `real/llama-32l-dynamo.onnx` of the model pack.
"""

from __future__ import annotations

import struct
import sys
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from playwright.sync_api import Browser, FloatRect, Page, ViewportSize, expect, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "browser")]

from pages import CHROMIUM, Server, node_at, ready  # noqa: E402

MODELS, TABLE = ROOT / "examples" / "models", str(ROOT / "examples" / "devices" / "runtimes.yaml")
SIZE: ViewportSize = {"width": 1440, "height": 900}
STROKE_SIZE: ViewportSize = {"width": 1200, "height": 750}
Frame = tuple[bytes, int, int, int]
"""A PNG, for how many milliseconds it is shown, and where on the first picture (left, top)."""


def main() -> None:
    """Writes docs/editor.png, docs/stroke-light.png and docs/stroke-dark.png; with --benchmark also docs/benchmark.png."""
    docs = ROOT / "docs"
    if "--blocks" in sys.argv:
        write_blocks(docs / "blocks.png", sys.argv[sys.argv.index("--blocks") + 1])
        return
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        server = Server(Path(folder), str(MODELS / "mobilenetv2.onnx"), "--devices", TABLE)
        server.start()
        try:
            for scheme in ("light", "dark"):
                page = opened(browser, server, scheme, STROKE_SIZE)
                (docs / f"stroke-{scheme}.png").write_bytes(animated(stroke(page)))
            page = opened(browser, server, "light")
            page.mouse.click(*node_at(page, 97))
            expect(page.locator("#inspector .op-type")).to_have_text("ReduceMean")
            page.keyboard.press("f")
            page.wait_for_timeout(800)
            (docs / "editor.png").write_bytes(page.screenshot())
            if "--benchmark" in sys.argv:
                page.click("#bench-open")
                expect(page.locator("#bench-table")).to_be_visible(timeout=240_000)
                page.wait_for_timeout(1500)
                (docs / "benchmark.png").write_bytes(page.screenshot())
        finally:
            server.stop()
            browser.close()


def write_blocks(path: Path, model: str) -> None:
    """One layer open, the same op of all layers painted at once, and the map of the whole model."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        server = Server(Path(folder), model, "--devices", "HETERO:GPU,CPU")
        server.start()
        try:
            page = opened(browser, server, "dark")
            page.fill("#find", "layer:2 op:sqrt")
            page.press("#find", "Enter")
            expect(page.locator("#inspector .op-type")).to_have_text("Sqrt")
            page.keyboard.press("Escape")
            page.click("#more summary")
            page.click("[data-grow=alike]")
            expect(page.locator("#inspector")).to_contain_text("ops selected")
            page.get_by_role("button", name="CPU", exact=True).last.click()  # Pin all to
            expect(page.locator("[data-figure=pins]")).not_to_have_attribute("data-value", "0")
            page.click("#zoom-in")
            page.click("#map-toggle")
            page.wait_for_timeout(6000)  # messages are gone then
            path.write_bytes(page.screenshot())
        finally:
            server.stop()
            browser.close()


def opened(browser: Browser, server: Server, scheme: str, size: ViewportSize = SIZE) -> Page:
    """The model with nothing pinned."""
    page = browser.new_page(viewport=size, color_scheme=scheme)  # type: ignore[arg-type]
    page.goto(server.url)
    ready(page)
    if page.evaluate("hetero.page.view.pin.some(Boolean)"):
        page.evaluate("() => { hetero.commandOf('reset').run(); }")
        expect(page.locator("[data-figure=pins]")).to_have_attribute("data-value", "0")
        page.reload()  # the picture is not to have the deltas of this
        ready(page)
    page.wait_for_timeout(800)
    return page


def stroke(page: Page) -> Iterator[Frame]:
    """A box of ops is painted with the second device: before, while it is drawn, and with its deltas."""
    yield page.screenshot(), 1500, 0, 0
    page.keyboard.press("2")
    page.wait_for_timeout(400)  # the colours of the buttons change slowly
    graph = page.locator("#graph").bounding_box()
    assert graph is not None
    clip: FloatRect = {
        "x": 0,
        "y": int(graph["y"]),
        "width": int(graph["x"] + graph["width"]),
        "height": int(graph["height"]),
    }
    at = (0, int(graph["y"]))
    yield page.screenshot(clip=clip), 700, *at
    box = page.evaluate("""() => {
        const at = heteroCy.container().getBoundingClientRect();
        const seen = heteroCy.nodes('.op').filter((n) => {
            const b = n.renderedBoundingBox();
            return b.y1 > 60 && b.y2 < at.height - 60 && b.x1 > 250 && b.x2 < at.width - 360;
        });
        const box = seen.slice(1, 6).renderedBoundingBox();
        return [box.x1 + at.left - 3, box.y1 + at.top - 3, box.x2 + at.left + 3, box.y2 + at.top + 3];
    }""")
    page.keyboard.down("Shift")
    page.mouse.move(box[0], box[1])
    page.mouse.down()
    for share in (0.4, 0.7, 1.0):
        page.mouse.move(
            box[0] + share * (box[2] - box[0]), box[1] + share * (box[3] - box[1]), steps=3
        )
        page.wait_for_timeout(60)
        yield page.screenshot(clip=clip), 250, *at
    page.mouse.up()
    page.keyboard.up("Shift")
    expect(page.locator("[data-figure=pins]")).not_to_have_attribute("data-value", "0")
    page.wait_for_timeout(600)
    yield page.screenshot(), 3500, 0, 0


def animated(frames: Iterator[Frame]) -> bytes:
    """An animated PNG of pictures of one kind; the first says its size."""
    found = [(chunks(png), shown, left, top) for png, shown, left, top in frames]
    header = found[0][0]["IHDR"][0]
    out = [
        b"\x89PNG\r\n\x1a\n",
        chunk(b"IHDR", header),
        chunk(b"acTL", struct.pack(">II", len(found), 0)),
    ]
    sequence = 0
    for number, (parts, shown, left, top) in enumerate(found):
        width, height = struct.unpack(">II", parts["IHDR"][0][:8])
        out.append(
            chunk(
                b"fcTL",
                struct.pack(">IIIIIHHBB", sequence, width, height, left, top, shown, 1000, 0, 0),
            )
        )
        sequence += 1
        data = zlib.compress(zlib.decompress(b"".join(parts["IDAT"])), 9)
        if number:
            out.append(chunk(b"fdAT", struct.pack(">I", sequence) + data))
            sequence += 1
        else:
            out.append(chunk(b"IDAT", data))
    return b"".join([*out, chunk(b"IEND", b"")])


def chunks(png: bytes) -> dict[str, Sequence[bytes]]:
    """The contents of a PNG's chunks by type."""
    found: dict[str, list[bytes]] = {}
    at = 8
    while at < len(png):
        size = struct.unpack(">I", png[at : at + 4])[0]
        found.setdefault(png[at + 4 : at + 8].decode(), []).append(png[at + 8 : at + 8 + size])
        at += size + 12
    return dict(found)


def chunk(kind: bytes, data: bytes) -> bytes:
    """A chunk with its length and checksum."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


if __name__ == "__main__":
    main()
