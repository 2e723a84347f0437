"""Rules and affinities from files that a person chooses in the page."""

from __future__ import annotations

import tempfile
from datetime import date
from pathlib import Path
from typing import TypedDict

from editor.errors import EditorError
from editor.files import safe_stem
from editor.imports.device_figures import ProfileReport
from editor.imports.profile_files import times_in
from editor.placement.device_profile import earlier_profile
from editor.placement.rules import parse_rules_text
from editor.text import as_utf8, pluralize
from editor.web import messages as m
from editor.web.view import costs_value, has_profile
from editor.workspace.document import Document


class _Message(TypedDict):
    text: str
    bad: bool


_OF_THIS_MODEL = 0.5
"""Share of a file's time that belongs to ops of the model, below which it is probably of another one."""


def rules_from(text: bytes, filename: str) -> m.Imported:
    """The rules of a file, as an edit that replaces the present ones.

    Raises:
        EditorError: the file cannot be used.
    """
    rules = parse_rules_text(text.decode("utf-8", "replace"), filename or "rules")
    said = f"{pluralize(len(rules), 'rule')} from {filename} in place of the former ones; undo brings those back"
    return {
        "edit": {
            "do": "rules",
            "rules": [rule.to_dict() for rule in rules],
            "message": {"text": as_utf8(said), "bad": False},
        }
    }


def pins_or_profile_from(document: Document, content: bytes, filename: str) -> m.Imported:
    """Reads a file of another tool; the edit shows what came of it."""
    message = _import(document, content, filename)
    message["text"] = as_utf8(message["text"])  # it repeats names of the file
    return {"edit": {"do": "show", "message": message}}


def _import(document: Document, content: bytes, filename: str) -> _Message:
    """Pins from a file of another tool; what happened, and whether something was left out."""
    with tempfile.TemporaryDirectory() as folder:
        suffix = Path(filename).suffix.lower()
        path = (
            Path(folder)
            / f"{safe_stem(Path(filename).stem)}{suffix if suffix[1:].isalnum() and len(suffix) < 20 else ''}"
        )
        try:
            path.write_bytes(content)
            if times_in(path) is not None:
                return _profile_message(
                    document, document.import_profile(path, date.today()), filename
                )
            report = document.import_affinities(path, filename)
        except EditorError as error:
            return {"text": str(error).replace(f"{folder}/", ""), "bad": True}
    lines = [
        f"{pluralize(report.pinned, 'op')} pinned from {filename} ({report.kind})",
        *report.problems[:12],
    ]
    if len(report.problems) > 12:
        lines.append(f"… and {len(report.problems) - 12} more entries that could not be used")
    return {"text": "\n".join(lines), "bad": bool(report.problems)}


def _profile_message(document: Document, report: ProfileReport, filename: str) -> _Message:
    """What a profile from elsewhere covers; figures follow it from now on, where the costs are those of profiles."""
    lines = [f"Profile of {report.device} from {filename}: {report.text}", *report.problems(6)]
    if report.share < _OF_THIS_MODEL:
        device = next(d for d in document.devices if d.name == report.device)
        way = (
            "the profile before it can be put back"
            if earlier_profile(document.graph, device)
            else "it can be forgotten"
        )
        lines.insert(1, f"Is this file of another model? In the tab Benchmark {way}.")
    if costs_value(document) == "estimate":
        lines.append(
            "Figures are estimates as before: choose “Costs: from a profile” to go by it."
            if has_profile(document)
            else "Figures are estimates until the devices of this machine are profiled, too."
        )
    # What the file has beyond the ops, ops that keep an estimate, and notes on how it was measured, are not faults.
    bad = report.share < _OF_THIS_MODEL or bool(report.stand_in)
    return {"text": "\n".join(lines), "bad": bad}
