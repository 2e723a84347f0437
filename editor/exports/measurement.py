"""A benchmark of exactly the plan that a report is about, from what `bench --json` wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from editor.errors import ExportError
from editor.kinds import Kind
from editor.placement.placement import Placement
from editor.text import human_seconds

_MOST_BYTES = 64 << 20


def read_measurement(path: str, placement: Placement) -> dict[str, Any]:
    """The result in a file that has the same subgraphs on the same devices, with the same properties, as the placement.

    Raises:
        ExportError: the file cannot be read, or holds no benchmark of this plan.
    """
    try:
        if Path(path).stat().st_size > _MOST_BYTES:
            raise ExportError(f"{path} is too large for a benchmark's JSON")
        data = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise ExportError(f"{path}: {error}; it must be what `bench --json` wrote") from error
    mine = [(s.id, s.device, s.size) for s in placement.subgraphs]
    properties = {d.name: dict(d.properties) for d in placement.used_devices}
    for result in data if isinstance(data, list) else [data]:
        try:
            same = [(s["id"], s["device"], s["ops"]) for s in result["subgraphs"]] == mine
            if same and result.get("properties", properties) == properties:  # earlier versions did not write them
                return _brief(result)
        except (KeyError, TypeError):
            continue
    raise ExportError(f"{path} holds no benchmark of this plan: none has its {len(mine)} subgraphs on the same devices, set up "
                      "in the same way. Run `bench PLAN --json FILE` again")


def _brief(result: Mapping[str, Any]) -> dict[str, Any]:
    """What a report says; seconds."""
    total, difference = result["total"], result["difference"]
    return {"kind": result["kind"], "mode": result["mode"], "requests": result["requests"], "runs": result["runs"],
            "median": total["median"], "interval": [total["low"], total["high"]], "p90": total["p90"], "p99": total["p99"],
            "throughput": result["throughput"], "throughput_interval": result.get("throughput_interval"),
            "baselines": [{"device": b["device"], "median": b["time"]["median"] if b["time"] else None, "problem": b["problem"],
                           "throughput": b["throughput"]} for b in result["baselines"]],
            "difference": None if difference is None else {
                "absolute": difference["max_absolute"], "reference": difference["reference"],
                "within_tolerance": difference["within_tolerance"]},
            "disturbances": list(result["disturbances"]), "environment": dict(result["environment"]),
            "precision_notes": list(result.get("precision_notes", ()))}


def in_words(measured: Mapping[str, Any]) -> list[str]:
    """The same as sentences."""
    low, high = measured["interval"]
    many, rates = measured["mode"] == "throughput", measured.get("throughput_interval")
    word = "" if measured["kind"] == Kind.MEASUREMENT else f" ({measured['kind']}: a planned device ran on its stand-in)"
    times = (f"median {human_seconds(measured['median'])} ({human_seconds(low)} to {human_seconds(high)} with 95 %), "
             f"p90 {human_seconds(measured['p90'])}, p99 {human_seconds(measured['p99'])}")
    rate = f"{measured['throughput']:.1f} requests/s{f' ({rates[0]:.1f} to {rates[1]:.1f} with 95 %)' if rates else ''}"
    both = f"{rate} with {measured['requests']} in flight, of each {times}" if many else f"{times}, {rate}"
    lines = [f"{both[:1].upper()}{both[1:]}, {measured['runs']} runs{word}."]
    for b in measured["baselines"]:
        figure = f"{b['throughput']:.1f} requests/s" if many and b.get("throughput") else human_seconds(b["median"] or 0)
        lines.append(f"Unsplit on {b['device']}: {figure if b['median'] is not None else b['problem'] or 'not measured'}.")
    if measured["difference"] is not None:
        d = measured["difference"]
        lines.append(f"Largest difference to the unsplit model on {d['reference']}: {d['absolute']:.2g}, "
                     f"{'within' if d['within_tolerance'] else 'outside'} tolerance.")
    if measured["disturbances"]:
        lines.append(f"Noisy: {'; '.join(measured['disturbances'])}.")
    lines += [f"{note}." for note in measured.get("precision_notes", ())]
    environment = ", ".join(f"{name} {value}" for name, value in measured["environment"].items())
    return [*lines, f"On {environment}."]
