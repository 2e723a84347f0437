"""Makes the pictures of the page anew: `python docs/_tools/pictures.py`, with Chromium as for the tests.

A real server on bundled models; each picture in light and in dark. The stroke is an animated PNG; `--steps` leaves it out.
The benchmark is worth showing from a quiet machine only.
"""

from __future__ import annotations

import base64
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from playwright.sync_api import Browser, FloatRect, Page, ViewportSize, expect, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "browser")]

from pages import CHROMIUM, Server, node_at, ready  # noqa: E402

MODELS, TABLE = ROOT / "examples" / "models", str(ROOT / "examples" / "devices" / "runtimes.yaml")
SIZE: ViewportSize = {"width": 1200, "height": 720}
STROKE_SIZE: ViewportSize = {"width": 1200, "height": 750}
Frame = tuple[bytes, int, int, int]
"""A PNG, for how many milliseconds it is shown, and where on the first picture (left, top)."""


def main() -> None:
    """Writes the pictures of docs/pictures."""
    docs = ROOT / "docs" / "pictures"
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        llama = Path(folder, "llama")
        make = [sys.executable, str(ROOT / "examples" / "language-model" / "make.py"), str(llama)]
        subprocess.run([*make, "--layers", "32", "--hidden", "64"], check=True)
        for scheme in ("light", "dark"):
            pictures = [
                *served(browser, folder, scheme, "mobilenetv2.onnx", TABLE, steps),
                *served(browser, folder, scheme, "resnet50.onnx", "HETERO:CPU", own),
                *served(browser, folder, scheme, llama / "model.onnx", "HETERO:GPU,CPU", blocks),
            ]
            for name, png in pictures:
                (docs / f"{name}-{scheme}.png").write_bytes(smaller(browser, png))
            if "--steps" not in sys.argv:
                ((_, png),) = served(browser, folder, scheme, "mobilenetv2.onnx", TABLE, strokes)
                (docs / f"stroke-{scheme}.png").write_bytes(png)
        browser.close()


Picture = tuple[str, bytes]
"""A name and a PNG."""


def served(
    browser: Browser,
    folder: str,
    scheme: str,
    model: str | Path,
    devices: str,
    pictures: Callable[[Page], Iterator[Picture]],
) -> Iterator[Picture]:
    """Pictures of a model in a workspace of its own."""
    with tempfile.TemporaryDirectory(dir=folder) as workspace:
        server = Server(Path(workspace), str(MODELS / model), "--devices", devices)
        server.start()
        try:
            page = browser.new_page(
                viewport=STROKE_SIZE if pictures is strokes else SIZE,
                color_scheme=scheme,  # type: ignore[arg-type]
            )
            page.goto(server.url)
            ready(page)
            page.wait_for_timeout(800)
            yield from pictures(page)
            page.close()
        finally:
            server.stop()


def steps(page: Page) -> Iterator[Picture]:
    """The pictures of docs/tutorials/browser.md."""
    page.evaluate(NUMBERED)
    yield "open", page.screenshot()
    page.evaluate("document.querySelectorAll('.number').forEach((each) => each.remove())")
    page.set_viewport_size({"width": SIZE["width"], "height": 820})
    page.get_by_role("tab", name="Fallbacks").click()
    expect(page.locator("#hints-start")).to_be_visible()
    page.wait_for_timeout(600)
    dock = page.locator("#dock").bounding_box()
    assert dock is not None
    yield "fallbacks", page.screenshot(clip={**dock, "height": dock["height"] - 2})  # type: ignore[typeddict-item]
    page.get_by_role("button", name="Tables").click()
    page.set_viewport_size(SIZE)
    page.wait_for_timeout(600)
    page.mouse.click(*node_at(page, 97))
    expect(page.locator("#inspector .op-type")).to_have_text("ReduceMean")
    page.wait_for_timeout(MESSAGE)
    yield "why", page.screenshot(clip={"x": 300, "y": 100, "width": 900, "height": 560})
    page.keyboard.press("2")
    page.mouse.click(*node_at(page, 98))
    expect(page.locator("[data-figure=pins]")).to_have_attribute("data-value", "1")
    page.wait_for_timeout(800)
    yield "paint", page.screenshot()
    page.keyboard.press("Escape")
    page.select_option("#policy", "optimal:latency")
    expect(page.locator("#history")).to_contain_text("ptimal")
    page.wait_for_timeout(MESSAGE)
    yield "policy", page.screenshot()
    page.keyboard.press("Control+z")
    page.wait_for_timeout(800)
    page.click("#bench-open")
    expect(page.locator("#bench-table")).to_be_visible(timeout=240_000)
    expect(page.locator("#dock")).to_contain_text("Done: median")
    page.wait_for_timeout(1500)
    yield "benchmark", page.screenshot()
    page.click("#export")
    page.wait_for_timeout(500)
    yield "export", page.screenshot(clip={"x": 340, "y": 0, "width": 700, "height": 500})


def own(page: Page) -> Iterator[Picture]:
    """A planned device is added, above the CPU, and computes in float16."""
    page.get_by_role("tab", name="Devices").click()
    page.locator("#device-add").scroll_into_view_if_needed()
    page.select_option("#device-add", "NPU(nvidia-dla)")
    form = page.locator("#device-forms fieldset")
    expect(form.first).to_contain_text("planned")
    page.wait_for_timeout(1500)
    form.first.get_by_label("Precision").select_option("float16")
    page.wait_for_timeout(1500)  # the forms are drawn anew
    form.first.scroll_into_view_if_needed()
    page.wait_for_timeout(MESSAGE)
    yield "own", page.screenshot()


def blocks(page: Page) -> Iterator[Picture]:
    """One layer open, and the same op of all layers painted at once."""
    page.fill("#find", "layer:2 op:sigmoid")
    page.press("#find", "Enter")
    expect(page.locator("#inspector .op-type")).to_have_text("Sigmoid")
    page.locator("#find").blur()
    page.click("#more summary")
    page.click("[data-grow=alike]")
    expect(page.locator("#inspector")).to_contain_text("ops selected")
    page.get_by_role("button", name="CPU", exact=True).last.click()  # Pin all to
    expect(page.locator("[data-figure=pins]")).not_to_have_attribute("data-value", "0")
    page.click("#more summary")
    page.keyboard.press("Escape")
    page.keyboard.press("f")
    page.mouse.move(600, 640)  # nothing is pointed at
    page.wait_for_timeout(MESSAGE)
    yield "blocks", page.screenshot()


def strokes(page: Page) -> Iterator[Picture]:
    """The animated picture."""
    yield "stroke", animated(stroke(page))


MESSAGE = 8000
"""Milliseconds after which messages are gone."""
NUMBERED = """() => {
    const parts = { "#tools": 0.9, "#graph": 0.66, "#inspector": 0.9, "#ribbon": 0.5, "#dock": 0.66, "#status": 0.8 };
    Object.entries(parts).forEach(([part, across], number) => {
        const box = document.querySelector(part).getBoundingClientRect();
        const mark = document.createElement("b");
        mark.className = "number";
        mark.textContent = number + 1;
        mark.style.cssText = `position:fixed;z-index:9999;left:${box.left + across * box.width}px;top:${box.top + 4}px;
            width:26px;height:26px;border-radius:50%;background:#d6336c;color:#fff;
            font:700 15px/26px sans-serif;text-align:center`;
        document.body.append(mark);
    });
}"""


def smaller(browser: Browser, png: bytes) -> bytes:
    """The picture with the 256 colours that occur most; other pixels get the nearest of them. About a third of the size."""
    page = browser.new_page()
    width, height, pixels = page.evaluate(
        """async (text) => {
        const image = new Image();
        image.src = "data:image/png;base64," + text;
        await image.decode();
        const canvas = new OffscreenCanvas(image.width, image.height);
        const context = canvas.getContext("2d");
        context.drawImage(image, 0, 0);
        const data = context.getImageData(0, 0, image.width, image.height).data;
        let out = "";
        for (let at = 0; at < data.length; at += 32768) out += String.fromCharCode(...data.subarray(at, at + 32768));
        return [image.width, image.height, btoa(out)];
    }""",
        base64.b64encode(png).decode(),
    )
    page.close()
    colours = (
        np.frombuffer(base64.b64decode(pixels), np.uint8).reshape(-1, 4)[:, :3].astype(np.int32)
    )
    found, which, counts = np.unique(
        colours @ (65536, 256, 1), return_inverse=True, return_counts=True
    )
    seen = np.stack([found >> 16, found >> 8 & 255, found & 255], 1)
    palette = seen[np.argsort(-counts)[:256]]
    nearest = np.array([np.abs(palette - one).sum(1).argmin() for one in seen], np.uint8)
    rows = np.zeros((height, width + 1), np.uint8)
    rows[:, 1:] = nearest[which].reshape(height, width)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0))
        + chunk(b"PLTE", palette.astype(np.uint8).tobytes())
        + chunk(b"IDAT", zlib.compress(rows.tobytes(), 9))
        + chunk(b"IEND", b"")
    )


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
