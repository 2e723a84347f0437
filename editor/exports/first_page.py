"""The first page of a report: what a ticket needs. Long lists of ops and subgraphs follow it as an appendix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from editor.devices.device import Device
from editor.exports.benchmark_file import tokens_in_words
from editor.graph.layout.layered import draw
from editor.graph.proposed_sizes import sizes_text
from editor.kinds import Kind, compare_medians
from editor.placement.costs import peaks_of
from editor.placement.placement import Placement
from editor.text import human_rate, human_seconds, in_words, rough_rate

_MOST_BOXES = 40
"""Subgraphs whose picture can be read on a page."""
BOX_WIDTH = 128
OF_STAND_INS = "A benchmark ran stand-ins for planned devices: it compared outputs and says nothing about speed"


def first_page(placement: Placement, report: Mapping[str, Any]) -> dict[str, Any]:
    """Verdict, assumptions, pins, and fallbacks by reason, of a report's other parts."""
    return {
        "verdict": _verdict(report),
        "assumptions": _assumptions(placement, report),
        "pins": _pins(placement),
        "reasons": by_reason(report["fallbacks"]),
    }


def time_of(totals: Mapping[str, Any]) -> str:
    """The time of one run in words, rough where the speed of an accelerator is assumed."""
    return in_words(totals["latency"], bool(totals["assumed_speeds"]))


def rate_of(totals: Mapping[str, Any]) -> str:
    """Requests per second in the same way; "" where the policy does not aim at them."""
    form = rough_rate if totals["assumed_speeds"] else human_rate
    return form(totals["throughput"]) if totals["throughput"] else ""


def _verdict(report: Mapping[str, Any]) -> dict[str, str]:
    """The one figure, what it is, and how it compares with not splitting."""
    totals, measured = report["totals"], report["measurement"]
    kind, rate = f"{totals['kind']} {totals['source']}", rate_of(totals)
    basis = ", ".join([kind, *totals["left_out"]])
    estimate = rate or time_of(totals)
    tokens = tokens_in_words(report["tokens"]) if report["tokens"] else ""
    if measured is None:
        words = tokens or "This plan was not measured."
        return {"figure": estimate, "kind": basis, "words": words}
    if measured["kind"] != Kind.MEASUREMENT:
        return {
            "figure": estimate,
            "kind": basis,
            "words": f"{OF_STAND_INS}. {tokens}".strip(),
        }
    many = measured["mode"] == "throughput"
    figure = (
        f"{measured['throughput']:.1f} requests/s" if many else human_seconds(measured["median"])
    )
    alone = report["subgraphs"][0]["device"] if totals["subgraphs"] == 1 else ""
    beside = _against(measured, many, alone)
    return {
        "figure": figure,
        "kind": str(Kind.MEASUREMENT),
        "words": f"{beside} The {kind} is {estimate}{' a request' if many and not rate else ''}. {tokens}".strip(),
    }


def _against(measured: Mapping[str, Any], many: bool, alone: str) -> str:
    """How the plan, which runs on one device alone or is split, compares with the fastest unsplit model."""
    key, limits = ("throughput", "throughput_interval") if many else ("median", "interval")
    found = [b for b in measured["baselines"] if b[key] and b.get(limits)]
    if not found or not measured[limits]:
        return "It is not split." if alone else "There is no unsplit model to compare it with."
    best = (max if many else min)(found, key=lambda b: b[key])
    if best["device"] == alone:
        return "It is not split."
    ours, theirs, ratio = measured[limits], best[limits], measured[key] / best[key]
    if many:  # by the time of a request, so that more is less
        ours, theirs = ([1 / b, 1 / a] for a, b in (ours, theirs))
        ratio = 1 / ratio
    other = f"{best[key]:.1f} requests/s" if many else human_seconds(best[key])
    words = compare_medians(tuple(ours), tuple(theirs), ratio)
    beside = "than" if words.endswith(("faster", "slower")) else "against"
    unsplit = f"not splitting ({other} on {best['device']})"
    if alone:
        unsplit = f"all of it on {best['device']} ({other})"
    return f"{words[:1].upper()}{words[1:]} {beside} {unsplit}."


def _assumptions(placement: Placement, report: Mapping[str, Any]) -> list[str]:
    """What the figures rest on, in sentences."""
    define, lines = report["model"]["define"], []
    if define:
        lines.append(f"Sizes of the inputs: {sizes_text(define)}.")
    for device in placement.devices:
        if not placement.op_counts[device.name]:
            continue
        taken = device.published.assumes
        if taken:
            lines.append(f"{device.name}: planned as if the model were {taken}.")
        elif device.planned:
            lines.append(f"{device.name}: the model's precision as exported.")
        if assumed := _assumed_peaks(device):
            lines.append(f"{device.name}: not in the device table, so assumed: {assumed}.")
    lines.append("Inputs and outputs of the model are not sent to or from a host in any estimate.")
    return lines


def _flops(rate: float) -> str:
    return f"{rate / 1e12:.3g} TFLOP/s" if rate >= 1e12 else f"{rate / 1e9:.3g} GFLOP/s"


def _assumed_peaks(device: Device) -> str:
    """The figures of an estimate that no table states."""
    peaks, link = peaks_of(device), device.link
    parts = [
        "" if device.peak_compute else _flops(peaks.compute),
        "" if device.peak_dram_bw else f"memory {peaks.memory / 1e9:.3g} GB/s",
    ]
    if np.isfinite(peaks.bandwidth):
        parts += [
            "" if link and link.bandwidth else f"link {peaks.bandwidth / 1e9:.3g} GB/s",
            "" if link and link.latency else f"{human_seconds(peaks.latency)} per transfer",
        ]
    return ", ".join(filter(None, parts))


def _pins(placement: Placement) -> list[dict[str, Any]]:
    """The ops that a person put on each device."""
    found: dict[str, list[str]] = {}
    for key, device in placement.settings.pins.items():
        found.setdefault(device, []).append(key)
    return [{"device": device, "ops": ops} for device, ops in found.items()]


def by_reason(fallbacks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Fallbacks of the same reason as one, the most ops first."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for f in fallbacks:
        group = found.setdefault(
            (f["wanted"], f["reason"]),
            {"wanted": f["wanted"], "reason": f["reason"], "source": f["source"], "ops": 0}
            | {"types": [], "devices": []},
        )
        group["ops"] += len(f["ops"])
        group["types"].append(f"{f['op_type']} ({len(f['ops'])})")
        group["devices"] = list(dict.fromkeys([*group["devices"], *f["devices"]]))
    return sorted(found.values(), key=lambda group: -group["ops"])


def boxes(placement: Placement) -> dict[str, Any] | None:
    """The subgraphs as boxes that fit a page, with the edges between them; None where there are too many."""
    subgraphs = placement.subgraphs
    if not 1 < len(subgraphs) <= _MOST_BOXES:
        return None
    ends = np.array([(p, s.id) for s in subgraphs for p in s.depends_on], np.int64).reshape(-1, 2)
    drawing = draw(len(subgraphs), ends[:, 0], ends[:, 1], BOX_WIDTH, wrap=True)
    return {
        "x": [round(float(v)) for v in drawing.x],
        "y": [round(float(v)) for v in drawing.y],
        "edges": ends.tolist(),
        "bends": {
            i: [[round(x), round(y)] for x, y in points] for i, points in drawing.bends.items()
        },
    }
