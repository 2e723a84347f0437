"""The command that takes over what other tools decided or measured: ``import``."""

from __future__ import annotations

import argparse
import sys

import editor
from editor.errors import PlanError
from editor.imports.device_figures import ProfileReport
from editor.imports.profile_files import times_in
from editor.placement.device_profile import load_profile
from editor.text import counted
from editor.workspace.plan import Plan

_SHOWN = 12
"""Layers without a match, and ops without a figure, that a report lists."""


def import_file(options: argparse.Namespace) -> int:
    """Imports the affinities of a file as pins, or its times as the profile of a device."""
    plan = editor.load_plan(options.plan)
    if options.device or times_in(options.file) is not None:
        return _import_profile(plan, options)
    if options.out is None:
        raise PlanError(f"{options.file}: affinities become pins of a new plan; say where to write it with --out PLAN")
    plan, report = plan.import_affinities(options.file)
    by = ", ".join(f"{count} by {kind}" for kind, count in report.how.items() if count)
    print(f"{options.file}: {report.kind}; {counted(report.pinned, 'op')} pinned ({by or 'none matched'})")
    for problem in report.problems:
        print(f"not used: {problem}", file=sys.stderr)
    print(f"wrote {plan.save(options.out)}")
    return 0


def _import_profile(plan: Plan, options: argparse.Namespace) -> int:
    plan, report = plan.import_profile(options.file, options.device, options.machine)
    print_profile_report(plan, report)
    if options.out is not None:
        print(f"wrote {plan.save(options.out)}")
    return 0


def print_profile_report(plan: Plan, report: ProfileReport) -> None:
    """Prints what an imported profile covers, and which devices still lack one."""
    print(f"{report.device}: {report.text}")
    for problem in report.problems(_SHOWN):
        print(f"note: {problem}", file=sys.stderr)
    missing = [d.name for d in plan.devices if not d.planned and load_profile(plan.graph, d) is None]
    if missing:
        print(f"note: no profile of {', '.join(missing)} yet; costs from profiles need it: `python -m editor profile PLAN`, or "
              "import one", file=sys.stderr)
