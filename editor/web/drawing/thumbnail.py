"""A plan as a small picture for the list of recent work: its ribbon, kept as a file when the plan changes."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape, unescape
from pathlib import Path

from editor.errors import EditorError
from editor.files import write_atomic
from editor.text import percent
from editor.web.messages import Ribbon, RibbonPart
from editor.web.view import colours_of
from editor.workspace.document import Document

WIDTH, HEIGHT = 160, 12
"""Size of the picture in pixels."""
_MAX_BYTES = 64 << 10


def thumbnail_svg(ribbon: Ribbon, colours: Mapping[str, str], names: Sequence[str]) -> str:
    """An SVG of a run from left to right, as wide as it takes time.

    Args:
        ribbon: the run.
        colours: of each device by name.
        names: of the devices in the order of the table.
    """
    parts = [part for part in ribbon["parts"] if part["device"] >= 0]
    total = sum(part["seconds"] for part in parts)
    shares = {
        name: sum(p["seconds"] for p in parts if names[p["device"]] == name) for name in names
    }
    said = (
        "Time in ops: "
        + ", ".join(
            f"{percent(share / total)} on {name}" for name, share in shares.items() if share
        )
        if total
        else ""
    )
    strips = "".join(
        f'<path d="{path}" fill="{colours[names[device]]}"/>'
        for device, path in _paths(parts, total or len(parts) or 1, not total).items()
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'preserveAspectRatio="none">'
        f"<title>{escape(said)}</title>{strips}</svg>"
    )


def _paths(parts: Sequence[RibbonPart], total: float, even: bool) -> dict[int, str]:
    """Per device one path; neighbours that share a tenth of a pixel are one strip, so that its size is bounded."""
    found: dict[int, list[tuple[float, float]]] = {}
    at = 0.0
    for part in parts:
        begin, at = at, at + WIDTH * (1 if even else part["seconds"]) / total
        strips = found.setdefault(part["device"], [])
        if strips and begin - strips[-1][1] < 0.1:
            strips[-1] = (strips[-1][0], at)
        else:
            strips.append((begin, at))
    return {
        device: "".join(f"M{a:.1f} 0H{max(b, a + 0.3):.1f}V{HEIGHT}H{a:.1f}Z" for a, b in strips)
        for device, strips in found.items()
    }


def keep_thumbnail(folder: Path, document_id: str, svg: str) -> None:
    """Keeps a picture in a workspace; one that cannot be written is left out of the list, nothing else."""
    try:
        (folder / "pictures").mkdir(mode=0o700, exist_ok=True)
        write_atomic(_file(folder, document_id), svg)
    except (OSError, EditorError):  # a full disk must not stop a stroke
        return


def thumbnail_of(folder: Path, document_id: str) -> tuple[str, str] | None:
    """A kept picture as a data URL, and what it says in words; None where there is none."""
    try:
        with _file(folder, document_id).open(encoding="utf-8") as file:
            svg = file.read(_MAX_BYTES)
    except (OSError, UnicodeDecodeError):
        return None
    if not (svg.startswith("<svg") and svg.endswith("</svg>")):
        return None
    words = unescape(svg.partition("<title>")[2].partition("</title>")[0])
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}", words


def _file(folder: Path, document_id: str) -> Path:
    return folder / "pictures" / f"{Path(document_id).name}.svg"


def picture_plan(folder: Path, document: Document, ribbon: Ribbon) -> None:
    """Keeps the picture of a plan for the list of recent work."""
    names = [device.name for device in document.devices]
    keep_thumbnail(folder, document.id, thumbnail_svg(ribbon, colours_of(document), names))
