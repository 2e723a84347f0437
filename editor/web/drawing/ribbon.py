"""The whole run in one line: subgraphs in the order in which they run, with their device, time, bytes and ops.

After a benchmark of the same plan it is the measured run. A plan in the list of recent work has it as a small picture, which is
kept as a file when the plan changes.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape, unescape
from pathlib import Path

import numpy as np

from editor.errors import EditorError
from editor.files import write_atomic
from editor.graph.flops import op_bytes
from editor.kinds import Kind
from editor.placement.chosen_costs import assumed_speeds
from editor.placement.costs import Costs
from editor.placement.fallbacks import fallbacks, seconds_of
from editor.placement.placement import Placement
from editor.placement.subgraphs.division import Boundary, moved_in_words
from editor.text import in_words, joined, percent
from editor.web.drawing.elements import spans
from editor.web.messages import Ribbon, RibbonPart
from editor.web.view import colours_of, measured_medians, measured_run, plan_costs
from editor.workspace.contexts import is_at_sizes, of_sizes
from editor.workspace.document import Document

_MOST_TIMED = 500
"""Transfers up to which each says its time: an edit waits for the ribbon"""


def ribbon_of(document: Document) -> Ribbon:
    """The parts of a run; a benchmark of throughput says nothing of the order in time."""
    (medians, _), run = measured_medians(document), measured_run(document)
    placement = document.placement
    costs, basis = plan_costs(document)
    placed, device, count = (
        placement.placed_ops,
        placement.assignment.device,
        len(placement.subgraphs),
    )
    part = placement.division.subgraph_of_op[placed]
    seconds = np.bincount(part, costs.op[placed, device[placed]], count)
    sizes = np.bincount(part, op_bytes(document.graph)[placed], count)
    arriving = _arriving(placement, costs, basis.kind)
    order = np.argsort(part, kind="stable")
    groups = (
        np.split(placed[order], np.cumsum(np.bincount(part, minlength=count))[:-1]) if count else []
    )
    parts: list[RibbonPart] = [
        {
            "part": s.id,
            "device": placement.device_number(s.device),
            "ops": spans(np.sort(groups[s.id])),
            "seconds": round(float((medians or seconds)[s.id]), 9),
            "bytes": int(sizes[s.id]),
            "moved": arriving[s.id][0],
            "arrives": arriving[s.id][1],
        }
        for s in placement.subgraphs
    ]
    return {
        "parts": parts,
        "kind": str(Kind.MEASUREMENT if medians else basis.kind),
        "source": "" if medians else basis.source,
        "measured": bool(medians),
        "rough": not medians and bool(assumed_speeds(placement, costs)),
        "at": "" if is_at_sizes(document.graph, run) else of_sizes(document.graph),
        "off": _off(placement, costs) if len({p["device"] for p in parts}) == 1 else "",
    }


def _off(placement: Placement, costs: Costs) -> str:
    """What is said of fallbacks; "" where there are none. Only the policy ``priority`` prefers a device."""
    found = fallbacks(placement, costs)
    count = sum(len(f.ops) for f in found)
    if not count:
        return ""
    who = f"{count:,} of them " if len(placement.placed_ops) > 1 else ""
    if placement.settings.policy == "priority":
        return f"{who}off {'their' if who else 'its'} preferred device"
    constraints, number = placement.constraints, placement.device_number
    by_table = all(constraints.excluded(op, number(f.wanted)) for f in found for op in f.ops)
    names = joined(list(dict.fromkeys(f.wanted for f in found)), "or")
    return f"{who}{'excluded from' if by_table else 'cannot run on'} {names}"


def _arriving(placement: Placement, costs: Costs, kind: Kind) -> list[tuple[int, str]]:
    """[subgraph] bytes that other devices send to it, a tensor of unknown size counting one; and the same in words."""
    device = [s.device for s in placement.subgraphs]
    sent: list[list[Boundary]] = [[] for _ in device]
    for transfer in placement.division.transfers:
        for target in transfer.targets:
            if device[target] != device[transfer.source]:
                sent[target].append(transfer)
    rough = bool(assumed_speeds(placement, costs))
    is_timed = len(placement.division.transfers) <= _MOST_TIMED

    def time(transfers: Sequence[Boundary]) -> str:
        if not is_timed:
            return ""
        seconds = sum(seconds_of(placement, costs, transfer) for transfer in transfers)
        return f", {in_words(seconds, rough)} ({kind})"

    return [
        (sum(max(t.bytes, 1) for t in each), _in_words(each, device) + time(each) if each else "")
        for each in sent
    ]


def _in_words(sent: Sequence[Boundary], device: Sequence[str]) -> str:
    """ "144 kB from NPU"."""
    size = sum(max(t.bytes, 0) for t in sent)
    unknown = sum(t.bytes < 0 for t in sent)
    names = joined(list(dict.fromkeys(device[t.source] for t in sent)))
    return f"{moved_in_words(size, unknown)} from {names}"


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
