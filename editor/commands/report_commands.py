"""Commands that explain plans and write them for other tools: ``export``, ``why``."""

from __future__ import annotations

import argparse
import sys

import editor
from editor.errors import ExportError
from editor.exports.render import render


def export(options: argparse.Namespace) -> int:
    """Writes a plan for another tool."""
    plan = editor.load_plan(options.plan)
    for name, _ in options.option:
        if not name.isidentifier() or name in ("form", "out_dir", "placement", "stamp"):
            raise ExportError(f"{options.to} has no option {name!r}")
    for path in plan.export(options.to, options.out, **dict(options.option)):
        print(f"wrote {path}")
        if path.suffix == ".dot":
            for form in filter(None, options.render.split(",")):
                try:
                    print(f"wrote {render(path, form.strip())}")
                except ExportError as error:
                    print(f"note: {error}", file=sys.stderr)
    return 0


def why(options: argparse.Namespace) -> int:
    """Explains why an op is where it is."""
    print(editor.load_plan(options.plan).why(options.key))
    return 0
