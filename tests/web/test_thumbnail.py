"""Small pictures of plans: true shares, bounded size, names as text."""

from __future__ import annotations

import re
from pathlib import Path

from editor.web.drawing.ribbon import WIDTH, keep_thumbnail, thumbnail_of, thumbnail_svg
from editor.web.messages import Ribbon, RibbonPart


def ribbon(*devices: int, seconds: float = 1.0) -> Ribbon:
    parts: list[RibbonPart] = [
        {
            "part": i,
            "device": device,
            "ops": str(i),
            "seconds": seconds,
            "bytes": 1,
            "moved": 0,
            "arrives": "",
        }
        for i, device in enumerate(devices)
    ]
    return {
        "parts": parts,
        "kind": "estimate",
        "source": "from shapes",
        "measured": False,
        "rough": False,
        "off": "",
    }


COLOURS = {"<NPU>": "#111111", "CPU": "#222222"}


def widths(svg: str) -> dict[str, float]:
    return {
        fill: sum(float(b) - float(a) for a, b in re.findall(r"M([\d.]+) 0H([\d.]+)V", path))
        for path, fill in re.findall(r'<path d="([^"]*)" fill="([^"]*)"', svg)
    }


def test_strips_are_as_wide_as_their_time() -> None:
    found = widths(thumbnail_svg(ribbon(0, 1, 0, 0), COLOURS, list(COLOURS)))
    assert found == {"#111111": WIDTH * 0.75, "#222222": WIDTH * 0.25}
    assert (
        sum(widths(thumbnail_svg(ribbon(0, 1, seconds=0.0), COLOURS, list(COLOURS))).values())
        == WIDTH
    )


def test_a_plan_of_many_subgraphs_stays_small(tmp_path: Path) -> None:
    svg = thumbnail_svg(ribbon(*([0, 1] * 20_000)), COLOURS, list(COLOURS))
    assert len(svg) < 60_000
    keep_thumbnail(tmp_path, "abc", svg)
    assert thumbnail_of(tmp_path, "abc") is not None


def test_names_are_text_and_a_missing_or_damaged_picture_is_none(tmp_path: Path) -> None:
    keep_thumbnail(tmp_path, "abc", thumbnail_svg(ribbon(0, 1), COLOURS, list(COLOURS)))
    found = thumbnail_of(tmp_path, "abc")
    assert found is not None and found[1] == "Time in ops: 50 % on <NPU>, 50 % on CPU"
    assert thumbnail_of(tmp_path, "other") is None
    (tmp_path / "pictures" / "abc.svg").write_bytes(b"\xff\xfe")
    assert thumbnail_of(tmp_path, "abc") is None


def test_a_picture_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "pictures").write_text("a file")
    keep_thumbnail(tmp_path, "abc", "<svg></svg>")
    assert thumbnail_of(tmp_path, "abc") is None
