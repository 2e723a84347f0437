"""What was measured of a plan, in the words of reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from editor.exports.benchmark_file import DATE
from editor.exports.first_page import OF_STAND_INS, rate_of, speed_of, time_of
from editor.graph.states import TOKENS_OF_REQUESTS, TOKENS_PER_SECOND
from editor.kinds import Kind
from editor.text import human_joules, human_seconds, pluralize


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


def in_words(report: Mapping[str, Any]) -> list[str]:
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
