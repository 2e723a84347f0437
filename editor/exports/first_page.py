"""The first page of a report: what a ticket needs, and what was measured in words. Long lists follow it as an appendix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from editor.devices.device import Device
from editor.devices.discovery import devices_of_runtime
from editor.exports.benchmark_file import DATE, tokens_in_words
from editor.graph.graph import Graph
from editor.graph.layout.layered import Wrap, draw
from editor.graph.proposed_sizes import sizes_text
from editor.graph.states import TOKENS_OF_REQUESTS, TOKENS_PER_SECOND
from editor.kinds import Kind, compare_medians, compare_rates, too_close
from editor.placement.chosen_costs import (
    as_far_off,
    assumed_figures,
    assumed_starts,
    ends_counted,
    estimate_off_profile,
    is_assumed,
    peaks_in_words,
    stand_ins,
    streams,
    unprofiled,
)
from editor.placement.costs import Costs, price
from editor.placement.device_profile import load_profile, profile_path
from editor.placement.pin_groups import pin_groups
from editor.placement.placement import Placement
from editor.placement.prompt_room import prompt_in_words
from editor.placement.rules import rule_in_words
from editor.placement.state_memory import state_memory
from editor.placement.unsplit import ops_excluded, unsplit_lacks
from editor.text import (
    human_bytes,
    human_joules,
    human_rate,
    human_seconds,
    in_words,
    joined,
    off_by,
    pluralize,
    rough_rate,
)

_MOST_BOXES = 40
"""Subgraphs whose picture can be read on a page."""
BOX_WIDTH = 128
OF_STAND_INS = "A benchmark ran stand-ins for planned devices: it compared outputs and says nothing about speed"


def first_page(placement: Placement, report: Mapping[str, Any], costs: Costs) -> dict[str, Any]:
    """Conclusion, verdict, versions, assumptions, states, pins, rules, and fallbacks by reason, of a report's other parts."""
    return {
        "conclusion": _conclusion(placement, report, costs),
        "verdict": _verdict(report, _room(placement), report["doubt"]),
        "versions": _versions(placement, report),
        "assumptions": _assumptions(placement, report, costs),
        "states": [
            f"{text[:1].upper()}{text[1:]}."
            for text in (
                *(each.text() for each in state_memory(placement)),
                prompt_in_words(placement),
            )
            if text
        ],
        "pins": _pins(placement),
        "rules": _rules(placement),
        "reasons": by_reason(report["fallbacks"]),
    }


def time_of(totals: Mapping[str, Any]) -> str:
    """The time of one run in words, rough where the speed of an accelerator is assumed."""
    return in_words(totals["latency"], bool(totals["assumed_speeds"]))


def rate_of(totals: Mapping[str, Any]) -> str:
    """Requests, or tokens, per second in the same way; "" where the policy does not aim at them."""
    form = rough_rate if totals["assumed_speeds"] else human_rate
    return form(totals["throughput"], totals["rate_unit"]) if totals["throughput"] else ""


def called(device: Mapping[str, Any]) -> str:
    """The name of a device, with its preset."""
    name, preset = device["name"], device["preset"]
    return f"{name} ({preset})" if preset and preset.lower() not in name.lower() else name


def _conclusion(placement: Placement, report: Mapping[str, Any], costs: Costs) -> list[str]:
    """At most three sentences: the result against one device alone, what falls back, and what would help if known.

    That a plan does not fit comes first.
    """
    names = {d["name"]: called(d) for d in report["devices"]}
    result, faster = _result(placement, report, costs, names)
    said = [result, _fallen(report, names)]
    for d in report["devices"]:
        if d["limit"] is not None and d["memory"] > d["limit"]:
            need = f"{human_bytes(d['memory'])} of {d['limit_text']}"
            return [f"It does not fit: {called(d)} needs {need}.", *said]
    return [*said, *_remedy(report, names, faster)]


def _result(
    placement: Placement, report: Mapping[str, Any], costs: Costs, names: Mapping[str, str]
) -> tuple[str, str]:
    """How fast the plan is beside the best single device, and that device where it is faster."""
    totals, measured, tokens = report["totals"], report["measurement"], _token(report)
    if not len(placement.placed_ops):
        return "No op runs: the outputs are inputs or constants.", ""
    alone = report["subgraphs"][0]["device"] if totals["subgraphs"] == 1 else ""
    if measured is not None and measured["kind"] == Kind.MEASUREMENT:
        many = measured["mode"] == "throughput"
        unit = totals["rate_unit"]
        speed = speed_of(measured, unit) + ("" if many else _makes(report))
        words = f"{tokens}; a run {speed}" if tokens else speed
        beside, _ = _against(measured, many, alone, unit)
        excluded = ops_excluded(placement)  # where the table leaves no plan of one device
        able = [b for b in measured["baselines"] if b["device"] not in excluded]
        beside_able, best = _against({**measured, "baselines": able}, many, alone, unit)
        other = best if " slower than " in beside_able else ""
        noisy = " on a noisy machine" if measured["disturbances"] else ""
        return f"Measured {words}{noisy}: {beside[:1].lower()}{beside[1:]}", other
    known = Kind(totals["kind"]).participle
    figure = rate_of(totals) or time_of(totals) + _makes(report)
    said = f"{known[:1].upper()}{known[1:]} {figure}"
    per_run = "" if _makes(report) else " a run"
    said = f"Measured {tokens} ({known} {figure}{per_run})" if tokens else said
    doubts = stand_ins(placement, costs)
    doubts += [
        f"{what} of {joined([names[name] for name in whose])} assumed"
        for what, whose in assumed_figures(placement, costs).items()
    ]
    doubts += [] if report["tokens"] else ["this plan was not measured"]
    end = f"; {joined(doubts)}." if doubts else "."
    singles = _singles(placement, costs)
    if singles and (doubt := report["doubt"]):
        # Estimates compare nothing.
        ran = "" if doubt.startswith(NOT_SPLITTING) else _unsplit_beside_stand_ins(report)
        safe = _safe_choice(placement, names) if ran or doubt.startswith(NOT_SPLITTING) else ""
        return " ".join(filter(None, [f"{said}, doubtful: {doubt[:-1]}{end}", ran, safe])), ""
    if not singles:
        return f"{said}: {_no_single(placement)}{end}", ""
    best = min(singles, key=lambda name: singles[name])
    theirs, ours = singles[best], totals["latency"]
    if totals["throughput"]:
        ours = 1 / totals["throughput"]
    if alone == best:
        return f"{said}: all of it runs on {names[best]}{end}", ""
    words, other = "", ""
    if theirs and not too_close(ours, theirs, Kind(totals["kind"])):
        words = f"{compare_medians((ours, ours), (theirs, theirs), ours / theirs)} than"
        other = best if ours > theirs else ""
    number = placement.device_number(best)
    time = in_words(theirs, is_assumed(placement.devices, costs, number))
    is_profiled = bool(costs.profiled) and costs.profiled[number]
    kind = (Kind.PREDICTION if is_profiled else Kind.ESTIMATE).participle
    if not words:
        return (
            f"{said}: too close to call, as all of it on {names[best]} takes {time} ({kind}){end}",
            "",
        )
    return f"{said}: {words} all of it on {names[best]} ({time}, {kind}){end}", other


NOT_SPLITTING = "Not splitting"
"""How a sentence begins that says what the unsplit model took"""


def _unsplit_beside_stand_ins(report: Mapping[str, Any]) -> str:
    """What the unsplit model took that ran beside a plan on stand-ins, in a sentence; "" where none did."""
    measured, here = (
        report["measurement"],
        {d["name"] for d in report["devices"] if not d["planned"]},
    )
    if measured is None or measured["kind"] == Kind.MEASUREMENT:
        return ""
    ran = [
        b for b in measured["baselines"] if b["device"] in here and b["median"] and not b["lacks"]
    ]
    if not ran:
        return ""
    best = min(ran, key=lambda b: b["median"])
    return f"{NOT_SPLITTING} takes {human_seconds(best['median'])} on {best['device']} (measured)."


def _safe_choice(placement: Placement, names: Mapping[str, str]) -> str:
    """What to deploy while devices of the plan are not measured, where the unsplit model was; "" where all are here."""
    lacking = [names[device.name] for device in placement.used_devices if device.planned]
    if not lacking:
        return ""
    return f"Until {joined(lacking)} {'is' if len(lacking) == 1 else 'are'} measured, not splitting is the safe choice."


def doubt_of_estimates(placement: Placement, costs: Costs) -> str:
    """Why the estimates of devices without a profile are doubtful; "" where nothing says so."""
    names = unprofiled(placement, costs)
    off = estimate_off_profile(placement, costs) if names else ""
    return as_far_off(off, names) if off else ""


def _singles(placement: Placement, costs: Costs) -> dict[str, float]:
    """Device -> seconds of the whole model, of those that can run it, have room and are not much slower than hardware."""
    graph, placed = placement.graph, placement.placed_ops
    unsplit, lacking = np.zeros(len(graph), np.int64), unsplit_lacks(placement)
    return {
        device.name: price(graph, costs, np.full(len(graph), d), placed, unsplit).total
        for d, device in enumerate(placement.devices)
        if placement.constraints.able[placed, d].all()
        and device.slowdown <= 1
        and device.name not in lacking
    }


def _no_single(placement: Placement) -> str:
    """Why there is no device alone to compare a plan with."""
    lacking = [f"{name} {lacks}" for name, lacks in unsplit_lacks(placement).items()]
    if lacking:
        return f"no device holds the whole model ({joined(lacking)})"
    return "no device runs the whole model"


_MOST_TYPES = 3


def _fallen(report: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """What falls back, and what that costs."""
    found, totals = report["fallbacks"], report["totals"]
    if not found:
        pinned = f"; {pluralize(totals['pins'], 'op')} pinned" if totals["pins"] else ""
        ruled = f"; {pluralize(totals['ruled'], 'op')} placed by rule" if totals["ruled"] else ""
        return f"Nothing falls back{pinned}{ruled}."
    ops = sum(len(f["ops"]) for f in found)
    types = list(dict.fromkeys(name for f in found for name in f["op_types"]))
    more = [f"{len(types) - _MOST_TYPES} more types"] if len(types) > _MOST_TYPES else []
    wanted = joined(list(dict.fromkeys(names[f["wanted"]] for f in found)))
    to = joined(list(dict.fromkeys(names[name] for f in found for name in f["devices"])))
    seconds, rough = sum(f["seconds"] for f in found), any(f["rough"] for f in found)
    cost = "costs no time"
    if seconds > 0:
        known = Kind(report["totals"]["kind"]).participle
        cost = f"costs {in_words(seconds, rough)} a run ({known})"
    return (
        f"{pluralize(ops, 'op')} ({joined([*types[:_MOST_TYPES], *more])}) "
        f"fall{'s' if ops == 1 else ''} back from {wanted} to {to}, which {cost}."
    )


def _remedy(report: Mapping[str, Any], names: Mapping[str, str], faster: str) -> list[str]:
    """What would help: one sentence, or none where nothing is known."""
    if faster:
        return [f"All of it on {names.get(faster, faster)} would be faster."]
    for f in report["fallbacks"]:
        if f["plan_as"]:
            count = pluralize(len(f["ops"]), "op")
            return [
                f"Planned as {f['plan_as']}, {names[f['wanted']]} would not refuse {count} for their type."
            ]
    return []


def _room(placement: Placement) -> list[str]:
    """Up to which context a plan fits, and whether it does with what runtimes add, as sentences."""
    full = [(e.roomy_until, e) for e in state_memory(placement) if e.roomy_until is not None]
    tight, said = placement.run_memory.over_with_runtimes, list[str]()
    if full:
        until, first = min(full, key=lambda each: each[0])
        if until >= first.context:
            said.append(
                f"Fits up to a context of about {until:,} tokens, by the memory of {first.device}."
            )
        elif tight:
            return [
                f"No room for {pluralize(first.context, 'token')} with what runtimes add: {tight}."
            ]
    return [*said, f"Tight: {tight} with what runtimes add."] if tight else said


def _verdict(report: Mapping[str, Any], room: Sequence[str], doubt: str) -> dict[str, Any]:
    """The one figure, what it is, how it compares with not splitting, and of that what the conclusion does not say.

    ``room``: sentences about memory; ``doubt``: why estimates are doubtful.
    """
    totals, measured = report["totals"], report["measurement"]
    kind, rate = f"{totals['kind']} {totals['source']}", rate_of(totals)
    basis = ", ".join([kind, *totals["left_out"]])
    estimate = rate or time_of(totals) + _makes(report)
    tokens = tokens_in_words(report["tokens"]) if report["tokens"] else ""
    real = measured is not None and measured["kind"] == Kind.MEASUREMENT
    doubts = f" Doubtful: {doubt}" if doubt else ""
    words, figure, besides = tokens or f"This plan was not measured.{doubts}", estimate, [tokens]
    if measured is not None and not real:
        besides = [f"{OF_STAND_INS}.", _unsplit_beside_stand_ins(report), tokens]
        words = " ".join(filter(None, besides))
    if measured is not None and real:
        unit = totals["rate_unit"]
        many = measured["mode"] == "throughput"
        figure = speed_of(measured, unit) + ("" if many else _makes(report))
        alone = report["subgraphs"][0]["device"] if totals["subgraphs"] == 1 else ""
        other = report["measured_beside"]
        besides = [
            f"The {kind} is {estimate}{' a request' if many and not rate else ''}{_doubt(totals, measured)}.",
            f"In mode {other['mode']}: {speed_of(other, unit)}." if other else "",
            tokens,
        ]
        words = " ".join(filter(None, [_against(measured, many, alone, unit)[0], *besides]))
    kind = str(Kind.MEASUREMENT) if real else basis
    if token := _token(report):
        run = f"A run takes {figure} ({kind})."
        words, besides = f"{run} {words}", [run, *besides]
        figure, kind = token, str(Kind.MEASUREMENT)
    besides = [*filter(None, besides), *room, *_circumstances(measured)]
    return {"figure": figure, "kind": kind, "words": words, "besides": besides}


def _circumstances(measured: Mapping[str, Any] | None) -> list[str]:
    """When a benchmark ran, and what disturbed it, as sentences."""
    if measured is None:
        return []
    when, noise = measured["environment"].get(DATE, ""), measured["disturbances"]
    said = [f"Measured {when}."] if when else []
    return [*said, f"Noisy: {'; '.join(noise)}."] if noise else said


def _doubt(totals: Mapping[str, Any], measured: Mapping[str, Any]) -> str:
    """How far a measurement is from what profiles predict; "" where that is near, and of estimates."""
    if totals["kind"] != Kind.PREDICTION:
        return ""
    factor = totals["latency"] / measured["median"] if measured["median"] else 1.0
    if measured["mode"] == "throughput":
        if not (totals["throughput"] and measured["throughput"]):
            return ""
        factor = totals["throughput"] / measured["throughput"]
    off = off_by(factor) if factor > 0 else ""
    return f", doubtful: {off}" if off else ""


def speed_of(measured: Mapping[str, Any], unit: str) -> str:
    """The median time of a run that was measured, or the rate where several were in flight."""
    if measured["mode"] == "throughput":
        return human_rate(measured["throughput"], unit)
    return human_seconds(measured["median"])


def _token(report: Mapping[str, Any]) -> str:
    """What a token took; "" where that was not measured, or on stand-ins."""
    tokens = report["tokens"]
    return f"{human_seconds(tokens['token'])} a token" if tokens and not tokens["simulated"] else ""


def _makes(report: Mapping[str, Any]) -> str:
    """What stands after the time of a run: " a token"; "" of other models, and beside the time of a token that was measured."""
    makes = report["totals"]["run_makes"]
    return f" {makes}" if makes and not _token(report) else ""


def _against(measured: Mapping[str, Any], many: bool, alone: str, unit: str) -> tuple[str, str]:
    """How the plan, which runs on one device alone or is split, compares with the fastest unsplit model; and its device."""
    key, limits = ("throughput", "throughput_interval") if many else ("median", "interval")
    ran = [b for b in measured["baselines"] if b[key] and b.get(limits)]
    found = [b for b in ran if not b["lacks"]]
    if ran and not found and not alone:
        lacking = joined([f"{b['device']} {b['lacks']}" for b in ran])
        return f"Not splitting does not fit: {lacking}.", ""
    if not found or not measured[limits]:
        return "It is not split." if alone else "There is no unsplit model to compare it with.", ""
    others = [b for b in found if b["device"] != alone]  # a plan that is not split is one of them
    if not others:
        return "It is not split.", alone
    best = (max if many else min)(others, key=lambda b: b[key])
    other = human_rate(best[key], unit) if many else human_seconds(best[key])
    compare = compare_rates if many else compare_medians
    words = compare(tuple(measured[limits]), tuple(best[limits]), measured[key] / best[key])
    beside = "than" if words.endswith(("faster", "slower")) else "against"
    unsplit = f"not splitting ({other} on {best['device']})"
    if alone:
        unsplit = f"all of it on {best['device']} ({other})"
    return f"{words[:1].upper()}{words[1:]} {beside} {unsplit}.", str(best["device"])


def _assumptions(placement: Placement, report: Mapping[str, Any], costs: Costs) -> list[str]:
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
        if profiled := _profiled(placement, device, costs):
            lines.append(f"{device.name}: {profiled}.")
        if stated := peaks_in_words(placement, device, costs, is_stated=True):
            lines.append(f"{device.name}: by the device table {stated}.")
        if assumed := peaks_in_words(placement, device, costs):
            measured = report["measurement"]
            only = measured is not None and measured["kind"] == Kind.MEASUREMENT
            whose = "assumed in what is not measured" if only else "so assumed"
            lines.append(f"{device.name}: not stated in the device table, {whose}: {assumed}.")
    lines += [f"{words}." for words in streams(placement, costs)]
    lines += [f"{words[0].upper()}{words[1:]}." for words in assumed_starts(placement, costs)]
    if not ends_counted(placement, costs):
        lines.append(
            "Estimates leave out the time that the model's inputs and outputs take between host and device."
        )
    return lines


def _profiled(placement: Placement, device: Device, costs: Costs) -> str:
    """Where the times of a device come from: its profile, when that was stored and what disturbed it; "" without one."""
    graph, number = placement.graph, placement.device_number(device.name)
    profile = load_profile(graph, device) if costs.profiled and costs.profiled[number] else None
    if profile is None:
        return ""
    stored = datetime.fromtimestamp(profile_path(graph, device).stat().st_mtime, UTC)
    noisy = f"; noisy: {'; '.join(profile.disturbances)}" if profile.disturbances else ""
    return ", ".join(
        filter(
            None,
            [
                f"times of ops from a profile{f' of {profile.origin}' if profile.origin else ''}",
                profile.stand_in(device.name),
                f"stored {stored:%Y-%m-%d %H:%M} UTC{noisy}",
            ],
        )
    )


def _versions(placement: Placement, report: Mapping[str, Any]) -> list[str]:
    """What the plan was made from: the model's file, and the runtimes of the devices that are here."""
    model = report["model"]
    opsets = ", ".join(f"{domain} {version}" for domain, version in model["opsets"].items())
    lines = [
        f"Model: {model['file']}, SHA-256 {model['sha256']}{f', opset {opsets}' if opsets else ''}."
    ]
    used = [r for r in report["runtimes"] if r["version"]]
    if used:
        lines.append(
            f"Runtimes: {', '.join(str(r['name']) + ' ' + str(r['version']) for r in used)}."
        )
    absent = [d.name for d in placement.devices if d.planned]
    if absent:
        lines.append(f"Not on this machine, and so without a version: {joined(absent)}.")
    for device in placement.devices:
        published = device.published
        if published.origin:
            unchecked = published.unchecked_in(placement.graph)
            said = f"{published.origin}{f'; {unchecked}' if unchecked else ''}"
            lines.append(f"{device.name}: {said} ({published.source}).")
    return lines


def runtimes(placement: Placement) -> list[dict[str, str]]:
    """Name and version of the runtimes of the plan's devices that are here, each once."""
    found = [
        {"name": here.title or here.runtime, "version": here.version, "machine": here.machine}
        for device in placement.devices
        if not device.planned
        for here in devices_of_runtime(device.runtime)
        if here.machine == device.machine
    ]
    return [each for i, each in enumerate(found) if each not in found[:i]]


def op_facts(placement: Placement, op: int) -> dict[str, Any]:
    """What tells an op from others: name, version of its domain, and types and shapes of what it reads and makes."""
    graph, domain = placement.graph, placement.graph.op_domains[op]
    return {
        "op": graph.op_keys[op],
        "name": graph.display_name(op),
        "type": graph.type_label(op),
        "opset": graph.opsets.get(domain or "ai.onnx"),
        "inputs": _tensors(graph, graph.op_inputs[op].tolist()),
        "outputs": _tensors(graph, graph.op_outputs[op].tolist()),
        "device": placement.devices[int(placement.assignment.device[op])].name,
    }


def _tensors(graph: Graph, tensors: Sequence[int]) -> list[str]:
    return [f"{graph.tensor_types[t] or '?'} {graph.shape_label(t)}" for t in tensors if t >= 0]


_MOST_TENSORS = 3


def shapes_in_words(facts: Mapping[str, Any]) -> str:
    """Text such as "float32 1x3x224x224, float32 32x3x3x3 → float32 1x32x112x112"."""
    sides = []
    for tensors in (facts["inputs"], facts["outputs"]):
        more = [f"{len(tensors) - _MOST_TENSORS} more"] if len(tensors) > _MOST_TENSORS else []
        sides.append(", ".join([*tensors[:_MOST_TENSORS], *more]))
    return " → ".join(sides)


def _pins(placement: Placement) -> list[dict[str, Any]]:
    """What a person put on each device, whole blocks as one."""
    graph = placement.graph
    return [
        {"what": group.what, "device": group.device, "ops": [graph.op_keys[op] for op in group.ops]}
        for group in pin_groups(graph, placement.settings.pins)
    ]


def _rules(placement: Placement) -> list[dict[str, Any]]:
    """Each rule in words and as data, in the order in which they decide, with the number of ops that it placed."""
    rules = placement.settings.rules
    return [
        {"what": rule_in_words(rule), "rule": rule.to_dict(), "ops": len(ops)}
        for rule, ops in zip(rules, placement.constraints.ops_of_rules(rules), strict=True)
    ]


def by_reason(fallbacks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Fallbacks of the same reason as one, the most ops first."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for f in fallbacks:
        group = found.setdefault(
            (f["wanted"], f["reason"]),
            {"wanted": f["wanted"], "reason": f["reason"], "source": f["source"]}
            | {"ops": 0, "by_rule": 0}
            | {"types": [], "devices": [], "example": f["details"][0]},
        )
        group["ops"] += len(f["ops"])
        group["by_rule"] += f["by_rule"]
        group["types"].append(f"{f['op_type']} ({len(f['ops'])})")
        group["devices"] = list(dict.fromkeys([*group["devices"], *f["devices"]]))
    return sorted(found.values(), key=lambda group: -group["ops"])


def boxes(placement: Placement) -> dict[str, Any] | None:
    """The subgraphs as boxes that fit a page, with the edges between them; None where there are too many."""
    subgraphs = placement.subgraphs
    if not 1 < len(subgraphs) <= _MOST_BOXES:
        return None
    ends = np.array([(p, s.id) for s in subgraphs for p in s.depends_on], np.int64).reshape(-1, 2)
    drawing = draw(len(subgraphs), ends[:, 0], ends[:, 1], BOX_WIDTH, wrap=Wrap())
    return {
        "x": [round(float(v)) for v in drawing.x],
        "y": [round(float(v)) for v in drawing.y],
        "edges": ends.tolist(),
        "bends": {
            i: [[round(x), round(y)] for x, y in points] for i, points in drawing.bends.items()
        },
    }


def _speed(measured: Mapping[str, Any]) -> Iterator[str]:
    """Says how fast the plan and the unsplit model are."""
    low, high = measured["interval"]
    many, rates = measured["mode"] == "throughput", measured.get("throughput_interval")
    times = f"median {human_seconds(measured['median'])} ({human_seconds(low)} to {human_seconds(high)} with 95 %)"
    for percentile, fewest in (("p90", 10), ("p99", 100)):  # of fewer runs it is the slowest one
        if measured["runs"] and measured["runs"] >= fewest:
            times += f", {percentile} {human_seconds(measured[percentile])}"
    rate = f"{measured['throughput']:.1f} requests/s{f' ({rates[0]:.1f} to {rates[1]:.1f} with 95 %)' if rates else ''}"
    both = (
        f"{rate} with {measured['requests']} in flight, of each {times}"
        if many
        else f"{times}, {rate}"
    )
    runs = f", {pluralize(measured['runs'], 'run')}" if measured["runs"] else ""
    yield f"{both[:1].upper()}{both[1:]}{runs}."
    for b in measured["baselines"]:
        figure = (
            f"{b['throughput']:.1f} requests/s"
            if many and b.get("throughput")
            else human_seconds(b["median"] or 0)
        )
        said = figure if b["median"] is not None else b["problem"] or "not measured"
        lacks = f" (does not fit: {b['lacks']})" if b["lacks"] else ""
        yield f"Unsplit on {b['device']}: {said}{lacks}."


def measured_in_words(report: Mapping[str, Any]) -> list[str]:
    """What a benchmark of the plan found, as sentences: with the speed in the other mode where that was measured too."""
    measured, beside = report["measurement"], report["measured_beside"]
    if measured is None:
        return []
    is_measured = measured["kind"] == Kind.MEASUREMENT
    lines = [*_speed(measured)] if is_measured else [f"{OF_STAND_INS}."]
    if report["totals"]["rate_unit"] == TOKENS_PER_SECOND and measured["mode"] == "throughput":
        lines.append(f"{TOKENS_OF_REQUESTS}.")
    lines += [f"{name} ran on {on}." for name, on in measured["stand_ins"].items()]
    if beside is not None:
        noisy = beside["disturbances"]
        other = [*_speed(beside), *([f"Noisy: {'; '.join(noisy)}."] if noisy else [])]
        mode = beside["mode"]
        lines += [f"In mode {mode}: {line[:1].lower()}{line[1:]}" for line in other]
    if measured["difference"] is not None:
        d = measured["difference"]
        of = f" of {d['tolerance']:g}" if d["tolerance"] is not None else ""
        lines.append(
            f"Largest difference to the unsplit model on {d['reference']}: {d['relative']:.2g} relative, "
            f"{'within' if d['within_tolerance'] else 'outside'} the tolerance{of}; {d['absolute']:.2g} absolute."
        )
    if measured["disturbances"] and is_measured:
        lines.append(f"Noisy: {'; '.join(measured['disturbances'])}.")
    lines += [f"{note}." for note in measured.get("precision_notes", ())]
    environment = ", ".join(
        f"{name} {value}" for name, value in measured["environment"].items() if name != DATE
    )
    return [*lines, f"On {environment}."]


def headline(report: Mapping[str, Any]) -> str:
    """The figure of the plan: a measurement of it where there is one, with what was worked out beside it."""
    totals, measured, tokens = report["totals"], report["measurement"], report["tokens"]
    latency = time_of(totals)
    rate = rate_of(totals)
    joules = (totals["energy"] or {}).get("joules")
    energy = f"; energy {human_joules(joules)} (estimate)" if joules else ""
    if tokens and not tokens["simulated"]:
        named = Kind(totals["kind"]).participle
        return f"Token: {human_seconds(tokens['token'])} (measurement), a run {named} {latency}{energy}"
    if measured is None or measured["kind"] != Kind.MEASUREMENT:
        basis = ", ".join([f"{totals['kind']} {totals['source']}", *totals["left_out"]])
        if rate:
            return f"Throughput: {rate} ({basis}), latency {latency}{energy}"
        return f"Latency: {latency} ({basis}){energy}"
    named = Kind(totals["kind"]).participle
    if measured["mode"] == "throughput":
        beside = f", {named} {rate}" if rate else ""
        speed = speed_of(measured, totals["rate_unit"])
        return f"Throughput: {speed} (measurement){beside}{energy}"
    return f"Latency: {human_seconds(measured['median'])} (measurement), {named} {latency}{energy}"


ERROR_HEAD = ("tensor", "op", "device", "relative error", "tolerance", "SNR", "noise")
"""The columns of a table of ``error_cells``."""


def error_cells(row: Mapping[str, Any]) -> Sequence[str]:
    """A row of the table of a report."""
    relative, snr = row["relative"], row["snr_db"]
    return (
        row["tensor"],
        f"{row['name']} ({row['type']})",
        row["device"],
        ("not finite" if relative is None else f"{relative:.2g}")
        + ("" if row["ok"] else " **outside**"),
        f"{row['tolerance']:g}",
        f"{snr:.1f} dB" if snr is not None else "equal" if row["origin"] == "none" else "none",
        "" if row["origin"] == "none" else row["origin"],
    )


def accuracy_in_words(accuracy: Mapping[str, Any]) -> list[str]:
    """The verdict, the first op outside its tolerance and the notes, as sentences."""
    count = pluralize(len(accuracy["tensors"]), "tensor")
    ends = "" if accuracy["every_tensor"] else " at the ends of subgraphs"
    verdict = (
        "all are within their tolerances"
        if accuracy["within_tolerance"]
        else f"{accuracy['outside']:,} outside their tolerances"
    )
    lines = [f"{count}{ends} compared with {accuracy['reference']}: {verdict}."]
    if (first := accuracy["first"]) is not None:
        relative = "not finite" if first["relative"] is None else f"{first['relative']:.2g}"
        lines.append(
            f"The first outside its tolerance, in the order of the run: {first['tensor']} of {first['name']} ({first['type']}) "
            f"on {first['device']}, relative error {relative} of {first['tolerance']:g} allowed."
        )
    return [*lines, *(f"{note[:1].upper()}{note[1:]}." for note in accuracy["notes"])]
