"""Commands that look at configurations that exist, at ops that a device refuses, and at two versions of a model."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import editor
from editor.errors import EditorError
from editor.files import json_text, write_atomic
from editor.kinds import too_close
from editor.terminal import NOT_MET, answer, tell_notes
from editor.text import csv_text, human_seconds, pluralize
from editor.workspace import audits, diffs
from editor.workspace.diffs import ModelDiff
from editor.workspace.plan import Plan

if TYPE_CHECKING:
    from editor.advice.advice import Advice


def audit(options: argparse.Namespace) -> int:
    """Audits a configuration; exit status 3 where a requirement is not met."""
    found = _audits(options)
    if options.out is not None and len(found) > 1:
        raise EditorError(
            f"--out writes one plan, and the folder has {len(found)} models; audit one of them by its path"
        )
    unmet = [(one, r) for one in found for r in options.require if not one.meets(r)]
    if options.json:
        print(audits.json_of(found, options.require))
    for one in found:
        tell_notes(one.unchecked)
        if not options.json:
            print(audits.text_of(one))
            for r in options.require:
                said = "met" if one.meets(r) else "NOT MET"
                print(f"required {r}: {one.share(r):.1%} ({one.kind}): {said}")
    if options.out is not None:
        print(f"wrote {found[0].plan.save(options.out)}", file=sys.stderr)
    return NOT_MET if unmet else 0


def _audits(options: argparse.Namespace) -> list[audits.Audit]:
    define = dict(options.define)
    if options.genai is not None:
        if options.model is not None or options.session_options is not None:
            raise EditorError("--genai takes the models and options of its folder; name no others")
        return audits.audit_genai(options.genai, define, options.seconds)
    if options.model is None:
        raise EditorError("which model? Name its file, or a folder with --genai")
    return [
        audits.audit(
            options.model,
            options.providers,
            hetero=options.hetero,
            session_options=options.session_options,
            define=define,
            seconds=options.seconds,
        )
    ]


def advise(options: argparse.Namespace) -> int:
    """Tries other forms of the ops that a device refuses, or writes one op as a model of its own."""
    plan = editor.load_plan(options.plan)
    if options.repro:
        return _write_reproduction(plan, options)
    if options.device:
        raise EditorError("--device is for --repro OP")
    found = plan.advise(options.out)
    written = {
        one.idea: Plan(one.placement).save(one.model.with_suffix(".json"))
        for one in found
        if one.model is not None and one.placement is not None
    }
    lines = [] if found else ["no other form is known of the ops that a device refuses"]
    for one in found:
        lines += [
            f"{one.title}: {_verdict(one)}",
            f"  refused ops {one.refused_before} -> {one.refused}, subgraphs {one.subgraphs_before} -> {one.subgraphs}, "
            f"{human_seconds(one.seconds_before)} -> {human_seconds(one.seconds)} ({one.kind})",
        ]
        if one.difference is not None:
            lines.append(
                f"  outputs differ by {one.difference:.1g} of their largest magnitude on the CPU"
            )
        if one.idea in written:
            lines.append(f"  wrote {one.model} and {written[one.idea]}")
    document = [_as_dict(one) | {"plan": written.get(one.idea)} for one in found]
    answer(options, document, "\n".join(lines))
    return 0


def _verdict(one: Advice) -> str:
    if not one.helps:
        return one.problem or "does not help"
    slower = one.seconds > one.seconds_before and not too_close(
        one.seconds, one.seconds_before, one.kind
    )
    return f"helps {pluralize(len(one.solved), 'op')}{', but takes longer' if slower else ''}"


def _as_dict(one: Advice) -> dict[str, Any]:
    values = {f.name: getattr(one, f.name) for f in fields(one) if f.name != "placement"}
    return values | {"helps": one.helps}


def _write_reproduction(plan: Plan, options: argparse.Namespace) -> int:
    if options.out is None:
        raise EditorError("--repro writes a folder; say where with --out DIR")
    found = plan.write_reproduction(options.repro, options.out, options.device)
    tell_notes(found.notes)
    lines = [f"{found.type} {found.key!r} on {found.device}: {found.reason or 'not refused'}"]
    if found.random_weights:
        lines.append(f"random, not the model's: {', '.join(found.random_weights)}")
    answer(options, found, "\n".join([*lines, *(f"wrote {path}" for path in found.paths)]))
    return 0


_SUFFIXES = (".json", ".csv")


def diff(options: argparse.Namespace) -> int:
    """Compares two models."""
    out: Path | None = options.out
    if out is not None and out.suffix not in (*_SUFFIXES, ""):
        raise EditorError(f"--out {out}: name a file that ends in .json or .csv, or a folder")
    devices = None if options.devices == "none" else options.devices
    found = editor.diff(
        options.before, options.after, devices, options.policy, define=dict(options.define)
    )
    tell_notes(found.notes)
    print(json.dumps(found.as_dict()) if options.json else diffs.text_of(found))
    if out is not None:
        for path in _write(found, out):
            print(f"wrote {path}", file=sys.stderr)
    return 0


def _write(found: ModelDiff, out: Path) -> list[Path]:
    """The files; of a folder also the plans, which ``open`` shows."""
    wanted = [out] if out.suffix else [out / f"diff{suffix}" for suffix in _SUFFIXES]
    paths = [
        write_atomic(
            path,
            json_text(found.as_dict())
            if path.suffix == ".json"
            else csv_text(diffs.COLUMNS, diffs.rows_of(found)),
        )
        for path in wanted
    ]
    if not out.suffix:
        names = ("before.json", "after.json")
        paths += [
            plan.save(out / name)
            for name, plan in zip(names, found.plans, strict=True)
            if plan is not None
        ]
    return paths
