"""The command that compares two versions of a model."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import editor
from editor.errors import EditorError
from editor.files import json_text, write_atomic
from editor.text import csv_text
from editor.workspace.diffs import COLUMNS, ModelDiff, rows_of, text_of

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
    for text in found.notes:
        print(f"note: {text}", file=sys.stderr)
    print(json.dumps(found.as_dict()) if options.json else text_of(found))
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
            else csv_text(COLUMNS, rows_of(found)),
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
