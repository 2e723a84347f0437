"""Reads what `bench --json` wrote of a plan, for reports: of the whole model, and of the tokens of one that generates."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from editor.errors import ExportError
from editor.kinds import Kind
from editor.placement.chosen_costs import aims_at_throughput
from editor.placement.placement import Placement
from editor.text import human_seconds, pluralize

_FORMAT = "hetero-editor/tokens"
_DOUBT = "hetero-editor/doubt"
_MOST_BYTES = 64 << 20


def results_in(path: str) -> list[Any]:
    """What `bench --json` wrote; [] for no file.

    Raises:
        ExportError: the file cannot be read.
    """
    if not path:
        return []
    try:
        if Path(path).stat().st_size > _MOST_BYTES:
            raise ExportError(f"{path} is too large for a benchmark's JSON")
        data = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise ExportError(f"{path}: {error}; it must be what `bench --json` wrote") from error
    return data if isinstance(data, list) else [data]


def read_measurement(
    path: str, placement: Placement
) -> tuple[dict[str, Any] | None, dict[str, Any] | None, dict[str, Any] | None]:
    """The results in a file that have the same subgraphs on the same devices, with the same properties, as the placement.

    Returns:
        that of the whole model, in the mode that the policy aims at where there is one; a measurement in the other mode;
        and that of its tokens; None for what is not there.

    Raises:
        ExportError: the file cannot be read, or holds no benchmark of this plan.
    """
    results = results_in(path)
    tokens = tokens_of(results, placement)
    mine = [(s.id, s.device, s.size) for s in placement.subgraphs]
    properties = {d.name: dict(d.properties) for d in placement.used_devices}
    found: list[dict[str, Any]] = []
    for result in results:
        try:
            same = [(s["id"], s["device"], s["ops"]) for s in result["subgraphs"]] == mine
            if (
                same and result.get("properties", properties) == properties
            ):  # earlier versions did not write them
                found.append(_brief(result))
        except (KeyError, TypeError):
            continue
    if not found and tokens is None and path and not doubt_of(results, placement):
        raise ExportError(
            f"{path} holds no benchmark of this plan: none has its {len(mine)} subgraphs on the same devices, set up "
            "in the same way. Run `bench PLAN --json FILE` again"
        )
    aim = "throughput" if aims_at_throughput(placement.settings) else "latency"
    found.sort(key=lambda each: (each["kind"] != Kind.MEASUREMENT, each["mode"] != aim))
    whole = found[0] if found else None
    others = (
        one for one in found if one["mode"] != found[0]["mode"] and one["kind"] == Kind.MEASUREMENT
    )
    return whole, next(others, None), tokens


DATE = "Date"
"""In the environment of a benchmark: when it ran; absent in those of earlier versions"""
_READ = (
    *("kind", "mode", "requests", "runs", "total", "throughput", "throughput_interval"),
    *("baselines", "difference", "disturbances", "environment", "precision_notes", "properties"),
)


def for_reports(result: Mapping[str, Any]) -> dict[str, Any]:
    """What ``read_measurement`` reads of a benchmark's JSON: small enough to be kept with a document."""
    named = ("id", "device", "ops", "runs_on", "estimated", "time")
    parts = [{name: s[name] for name in named} for s in result["subgraphs"]]
    return {name: result[name] for name in _READ if name in result} | {"subgraphs": parts}


def of_unsplit(result: Mapping[str, Any], placement: Placement) -> dict[str, Any]:
    """What ``for_reports`` kept of the unsplit model beside another plan, as of a placement that is not split.

    Its device was measured, its outputs were not compared; runs with several in flight were not counted.
    """
    (subgraph,) = placement.subgraphs
    mine = next(b for b in result["baselines"] if b["device"] == subgraph.device)
    time, rates = mine["time"], ("throughput", "throughput_interval")
    part = {"id": subgraph.id, "device": subgraph.device, "ops": subgraph.size, "time": time}
    return {
        **{name: value for name, value in result.items() if name != "properties"},
        **{name: mine.get(name) for name in rates},
        "kind": Kind.MEASUREMENT,
        "runs": time["count"] if result["mode"] == "latency" else None,
        "total": time,
        "subgraphs": [part],
        "difference": None,
        "precision_notes": (),
    }


def _median(subgraph: Mapping[str, Any]) -> float | None:
    """Seconds of a subgraph; None of stand-ins, and of benchmarks that earlier versions kept."""
    time = subgraph.get("time")
    return time["median"] if time else None


def _brief(result: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of a report, in seconds."""
    total, difference = result["total"], result["difference"]
    return {
        "kind": result["kind"],
        "mode": result["mode"],
        "requests": result["requests"],
        "runs": result["runs"],
        "subgraphs": [_median(s) for s in result["subgraphs"]],
        "median": total["median"],
        "interval": [total["low"], total["high"]],
        "p90": total["p90"],
        "p99": total["p99"],
        "throughput": result["throughput"],
        "throughput_interval": result.get("throughput_interval"),
        "baselines": [
            {
                "device": b["device"],
                "median": b["time"]["median"] if b["time"] else None,
                "interval": [b["time"]["low"], b["time"]["high"]] if b["time"] else None,
                "problem": b["problem"],
                "throughput": b["throughput"],
                "throughput_interval": b.get("throughput_interval"),
                "lacks": b.get("lacks", ""),
            }
            for b in result["baselines"]
        ],
        "difference": None
        if difference is None
        else {
            "absolute": difference["max_absolute"],
            "relative": difference["max_relative"],
            "reference": difference["reference"],
            "within_tolerance": difference["within_tolerance"],
            "tolerance": max((o["tolerance"] for o in difference.get("outputs", ())), default=None),
        },
        "stand_ins": {
            s["device"]: s.get("runs_on", "") for s in result["subgraphs"] if s.get("estimated")
        },
        "disturbances": list(result["disturbances"]),
        "environment": dict(result["environment"]),
        "precision_notes": list(result.get("precision_notes", ())),
    }


def doubt_to_read(placement: Placement, said: str) -> dict[str, Any]:
    """Why the costs of a plan that was not measured are doubtful, in the form that ``doubt_of`` reads."""
    return {"format": _DOUBT, "fingerprint": placement.fingerprint, "said": said}


def doubt_of(results: Sequence[Any], placement: Placement) -> str:
    """What a measurement of something else says against the costs of exactly this plan; "" for nothing."""
    return next(
        (
            str(result.get("said", ""))
            for result in results
            if isinstance(result, dict)
            and result.get("format") == _DOUBT
            and result.get("fingerprint") == placement.fingerprint
        ),
        "",
    )


def tokens_of(results: Sequence[Any], placement: Placement) -> dict[str, Any] | None:
    """The figures of exactly this plan among those that `bench --generate --json` wrote, in seconds."""
    for result in results:
        try:
            if result["format"] == _FORMAT and result["fingerprint"] == placement.fingerprint:
                first = result["figures"]["first_token"]  # null of the unsplit model beside a plan
                token = result["figures"]["token"]
                ends = [token.get(end) for end in ("low", "high")]
                return {
                    "first_token": None if first is None else float(first),
                    "token": float(token["median"]),
                    "interval": None if None in ends else [float(end) for end in ends],
                    "disturbances": [str(each) for each in result.get("disturbances", ())],
                    "subgraphs": [float(s) for s in result["figures"].get("by_subgraph") or ()],
                    "prompt": int(result["prompt"]),
                    "new": int(result["new"]),
                    "simulated": result["kind"] == "simulated",
                }
        except (KeyError, TypeError, ValueError):
            continue
    return None


def kept_tokens(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Figures that a document keeps of such a run, in the form that ``tokens_of`` reads."""
    low, high = figures.get("interval") or (None, None)
    return {
        "format": _FORMAT,
        "fingerprint": figures["plan"],
        "prompt": figures["prompt"],
        "new": figures["new"],
        "kind": "simulated" if figures["estimated"] else "measured",
        "figures": {
            "first_token": figures["first_token"],
            "token": {"median": figures["median"], "low": low, "high": high},
            "by_subgraph": figures.get("medians", []),
        },
        "disturbances": figures.get("disturbances", []),
    }


def tokens_in_words(tokens: Mapping[str, Any]) -> str:
    """One sentence, and what to think of it where devices were simulated."""
    how = (
        "simulated on the CPU, which says nothing about speed"
        if tokens["simulated"]
        else "measured"
    )
    if tokens["interval"] and not tokens["simulated"]:
        how += f", {' to '.join(map(human_seconds, tokens['interval']))} with 95 %"
    how += ", noisy" if tokens["disturbances"] else ""
    first = tokens["first_token"]
    then = "" if first is None else f"first token {human_seconds(first)}, then "
    return (
        f"Tokens: {then}{human_seconds(tokens['token'])} a token "
        f"({how}; prompt of {pluralize(tokens['prompt'], 'token')}, {tokens['new']} new)."
    )
