"""Commands that monitor a model: ``check`` for CI, ``watch`` during development."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import editor
from editor.commands.plan_commands import load_with_sizes
from editor.errors import EditorError, PlanError
from editor.files import file_state
from editor.placement.chosen_costs import costs_of_plan
from editor.terminal import NOT_MET, tell_notes
from editor.text import human_bytes, human_seconds, pluralize
from editor.workspace import plan_file
from editor.workspace.plan import Plan

_POLL_SECONDS = 0.5
_COMMON = 0.1
"""Share of ops that two versions of a model have in common at least."""


def check(options: argparse.Namespace) -> int:
    """Compares a plan with limits; exit status 3 when it exceeds one."""
    plan = editor.load_plan(options.plan)
    costs, basis = costs_of_plan(plan.placement)
    values = {"subgraphs": len(plan.subgraphs), "bytes_moved": plan.placement.division.bytes_moved}
    limits: dict[str, float | None] = {
        "subgraphs": options.max_subgraphs,
        "bytes_moved": options.max_bytes,
    }
    if options.against:
        limits = plan_file.totals(options.against) | {
            name: limit for name, limit in limits.items() if limit is not None
        }
        _same_model(plan, options.against)
    latency = plan.placement.price(costs).total
    worse = [name for name, limit in limits.items() if limit is not None and values[name] > limit]
    if options.max_latency is not None:
        limits["latency"] = options.max_latency
        worse += ["latency"] if latency > options.max_latency else []
    over = {
        m.device: {"peak": m.peak, "limit": m.limit} for m in plan.run_memory.devices if m.is_over
    }
    if options.within_memory:
        worse += ["memory"] if over else []
    elif all(limit is None for limit in limits.values()):
        print(
            "note: nothing is checked without --against PLAN, --max-subgraphs, --max-bytes, --max-latency or --within-memory",
            file=sys.stderr,
        )
    unknown = plan.placement.division.unknown_transfers
    if options.json:
        print(
            json.dumps(
                {
                    "plan": str(options.plan),
                    "sha256": plan.sha256,
                    **values,
                    "latency": latency,
                    "kind": basis.kind,
                    "unknown_transfers": unknown,
                    "over_memory": over,
                    "limits": limits,
                    "worse": worse,
                }
            )
        )
    else:
        for name, value in values.items():
            limit = (
                ""
                if limits[name] is None
                else f" (limit {limits[name]:,}){': TOO MANY' if name in worse else ''}"
            )
            print(f"{name.replace('_', ' ')}: {value:,}{limit}")
        most = (
            "" if options.max_latency is None else f", limit {human_seconds(options.max_latency)}"
        )
        print(
            f"latency: {human_seconds(latency)} ({basis}{most}){': TOO LONG' if 'latency' in worse else ''}"
        )
        if options.within_memory and all(d.memory is None for d in plan.devices):
            print("memory: no device of the table has a limit, so nothing was checked")
        for device in plan.devices:
            if device.memory is not None and (options.within_memory or device.name in over):
                said = (
                    ""
                    if device.name not in over
                    else (
                        ": TOO MUCH"
                        if options.within_memory
                        else " (--within-memory makes this an error)"
                    )
                )
                peak = human_bytes(plan.run_memory.peaks[device.name])
                print(f"memory of {device.name}: {peak}, it has {device.limit_text}{said}")
        if unknown:
            print(
                f"note: bytes moved has 0 for {pluralize(unknown, 'tensor')} whose size is not known before a run"
            )
    return NOT_MET if worse else 0


def _same_model(plan: Plan, against: Path) -> None:
    """A model changes from plan to plan, which is what limits are for; with hardly an op in common it is another one.

    Raises:
        PlanError: it is.
    """
    document = plan_file.read(against)
    other, here = plan_file.model_path(document, against).name, plan.graph.path.name
    known = document["affinities"]
    if not isinstance(known, dict):
        raise PlanError(
            f"{against}: damaged plan (its affinities are not a mapping of ops to devices)"
        )
    common = sum(key in plan.graph.key_index for key in known)
    if common < _COMMON * min(len(known), len(plan.affinity)):
        raise PlanError(
            f"{against}: a plan of another model ({other}; this one is of {here}): "
            f"{pluralize(common, 'op')} in common"
        )
    if other != here:
        print(f"note: {against} is a plan of {other}, this one of {here}", file=sys.stderr)


def watch(options: argparse.Namespace) -> int:
    """Partitions a model whenever its file changes; prints an error and waits for the next change.

    Exit status 1 where ``--times`` ends it and the last version of the file could not be partitioned.
    """
    path, pins, done, failed = Path(options.model), dict(options.pin), 0, False
    seen: tuple[int, int] | None = None
    while not options.times or done < options.times:
        state = file_state(path)
        if state is None or state == seen:
            time.sleep(_POLL_SECONDS)
            continue
        seen = state
        try:
            _partition_again(path, pins, options)
            failed = False
        except EditorError as error:
            print(f"error: {error}", file=sys.stderr, flush=True)
            failed = True
        done += 1
    return 1 if failed else 0


def _partition_again(path: Path, pins: Mapping[str, str], options: argparse.Namespace) -> None:
    graph = load_with_sizes(path, dict(options.define))
    tell_notes(
        f"no op {key!r} any more; its pin waits" for key in pins if key not in graph.key_index
    )
    kept = {key: label for key, label in pins.items() if key in graph.key_index}
    plan = editor.partition(graph, options.devices, options.policy, kept)
    plan.save(options.out / "plan.json")
    plan.export("dot", options.out)
    plan.export("log", options.out, sidecar="no")
    parts = f"{pluralize(len(plan.subgraphs), 'subgraph')}, {pluralize(len(plan.transfers), 'transfer')}"
    print(f"{path.name}: {parts}, {plan.placement.division.moved_text} moved", flush=True)
