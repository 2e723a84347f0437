"""Draws the pictures of the examples on the start page anew: `python docs/_tools/example_cards.py`.

Each is every op in the colours of the devices that the example opens on, without names.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from editor.sandbox.jobs import JobService  # noqa: E402
from editor.web.app_state import AppState  # noqa: E402
from editor.web.drawing.preview import preview  # noqa: E402
from editor.web.open_request import OpenRequest  # noqa: E402
from editor.web.pages.start import EXAMPLES, resolve_spec  # noqa: E402
from editor.workspace.history import Store  # noqa: E402

EDGE = "#8a97a3"
"""A grey that shows on light and on dark ground."""


def card(svg: str) -> str:
    """What the preview drew, as a file of its own: shapes without names or styles."""
    box = {key: float(value) for key, value in re.findall(r'data-([xy][01])="([^"]+)"', svg)}
    size = f"{box['x1'] - box['x0'] + 20:.0f} {box['y1'] - box['y0'] + 20:.0f}"
    shapes = re.findall(r"<(?:rect|polyline) [^>]*/>", svg)
    lines = [re.sub(r' (?:class|style)="[^"]*"', "", s) for s in shapes if s.startswith("<poly")]
    boxes = [s.replace('class="terminal"', f'fill="{EDGE}"') for s in shapes if s[1] == "r"]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box["x0"] - 10:.0f} {box["y0"] - 10:.0f} {size}">\n'
        f'<g fill="none" stroke="{EDGE}" stroke-width="2">\n'
        + "\n".join(lines)
        + "\n</g>\n"
        + "\n".join(boxes)
        + "\n</svg>\n"
    )


def main() -> None:
    """Writes the pictures into assets/examples."""
    folder = ROOT / "assets" / "examples"
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as workspace:
        examples = ROOT / "examples"
        state = AppState(Store(workspace), JobService(), None, examples)
        for example in EXAMPLES:
            devices = resolve_spec(example.devices, examples)
            path = str(examples / "models" / example.file)
            document = state.open(OpenRequest(path, devices, example.define, assume_sizes=True))
            (folder / example.picture).write_text(
                card(preview(document, {"mode": "ops", "open": []})), "utf-8"
            )
        state.close()


if __name__ == "__main__":
    main()
