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
    """The result in a file that has the same subgraphs on the same devices as the placement.

    Raises:
        ExportError: the file cannot be read, or holds no benchmark of this plan.
    """
    try:
        if Path(path).stat().st_size > _MOST_BYTES:
            raise ExportError(f"{path} is too large for a benchmark's JSON")
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ExportError(f"{path}: {error}; it must be what `bench --json` wrote") from error
    mine = [(s.id, s.device, s.size) for s in placement.subgraphs]
    for result in data if isinstance(data, list) else [data]:
        try:
            if [(s["id"], s["device"], s["ops"]) for s in result["subgraphs"]] == mine:
                return _brief(result)
        except (KeyError, TypeError):
            continue
    raise ExportError(f"{path} holds no benchmark of this plan: none has its {len(mine)} subgraphs on the same devices. "
                      "Run `bench PLAN --json FILE` again")


def _brief(result: Mapping[str, Any]) -> dict[str, Any]:
    """What a report says; seconds."""
    total, difference = result["total"], result["difference"]
    return {"kind": result["kind"], "mode": result["mode"], "requests": result["requests"], "runs": result["runs"],
            "median": total["median"], "interval": [total["low"], total["high"]], "p90": total["p90"], "p99": total["p99"],
            "throughput": result["throughput"],
            "baselines": [{"device": b["device"], "median": b["time"]["median"] if b["time"] else None, "problem": b["problem"]}
                          for b in result["baselines"]],
            "difference": None if difference is None else {
                "absolute": difference["max_absolute"], "reference": difference["reference"],
                "within_tolerance": difference["within_tolerance"]},
            "disturbances": list(result["disturbances"]), "environment": dict(result["environment"])}


def in_words(measured: Mapping[str, Any]) -> list[str]:
    """The same as sentences."""
    low, high = measured["interval"]
    several = f", {measured['requests']} requests in flight" if measured["mode"] == "throughput" else ""
    word = "" if measured["kind"] == Kind.MEASUREMENT else f" ({measured['kind']}: a planned device ran on its stand-in)"
    lines = [f"Median {human_seconds(measured['median'])} ({human_seconds(low)} to {human_seconds(high)} with 95 %), "
             f"p90 {human_seconds(measured['p90'])}, p99 {human_seconds(measured['p99'])}, "
             f"{measured['throughput']:.1f} requests/s, {measured['runs']} runs{several}{word}."]
    for b in measured["baselines"]:
        lines.append(f"Unsplit on {b['device']}: "
                     f"{human_seconds(b['median']) if b['median'] is not None else b['problem'] or 'not measured'}.")
    if measured["difference"] is not None:
        d = measured["difference"]
        lines.append(f"Largest difference to the unsplit model on {d['reference']}: {d['absolute']:.2g}, "
                     f"{'within' if d['within_tolerance'] else 'outside'} tolerance.")
    if measured["disturbances"]:
        lines.append(f"Noisy: {'; '.join(measured['disturbances'])}.")
    environment = ", ".join(f"{name} {value}" for name, value in measured["environment"].items())
    return [*lines, f"On {environment}."]
