"""Rules and affinities from files that a person chooses in the page."""

from __future__ import annotations

import base64
import binascii
import tempfile
from datetime import date
from pathlib import Path
from typing import Any

from dash import Dash, Input, Output, State, no_update
from dash.exceptions import PreventUpdate

from editor.errors import EditorError
from editor.files import safe_stem
from editor.imports.device_figures import ProfileReport
from editor.imports.profile_files import times_in
from editor.placement.device_profile import earlier_profile
from editor.placement.rules import parse_rules_text
from editor.text import as_utf8, pluralize
from editor.web.app_state import AppState
from editor.web.messages import Message, Rules, Simple
from editor.web.panels.notice import notice
from editor.web.view import costs_value, has_profile
from editor.workspace.document import Document

_OF_THIS_MODEL = 0.5
"""Share of a file's time that belongs to ops of the model, below which it is probably of another one."""


def register(app: Dash, state: AppState) -> None:
    """Adds the callbacks. What a file says becomes a stroke, so that it can be undone."""

    @app.callback(
        Output("next-stroke", "data", allow_duplicate=True),
        Output("rules-file", "contents"),
        Output("notice", "children", allow_duplicate=True),
        Input("rules-file", "contents"),
        State("rules-file", "filename"),
        prevent_initial_call=True,
    )
    def load(contents: str | None, filename: str | None) -> tuple[Any, ...]:
        if not contents:
            raise PreventUpdate
        try:
            rules = parse_rules_text(
                uploaded(contents).decode("utf-8", "replace"), filename or "rules"
            )
        except EditorError as error:
            return no_update, None, notice(str(error), bad=True)
        count = f"{len(rules)} rule{'s' if len(rules) != 1 else ''}"
        text = f"{count} from {filename} in place of the former ones; undo brings those back"
        message: Message = {"text": text, "bad": False}
        stroke: Rules = {
            "do": "rules",
            "rules": [rule.to_dict() for rule in rules],
            "message": message,
        }
        return stroke, None, None

    @app.callback(
        Output("next-stroke", "data", allow_duplicate=True),
        Output("import-file", "contents"),
        Input("import-file", "contents"),
        State("import-file", "filename"),
        State("doc", "data"),
        prevent_initial_call=True,
    )
    async def bring(
        contents: str | None, filename: str | None, document_id: str
    ) -> tuple[Any, ...]:
        if not contents:
            raise PreventUpdate
        message = await state.long_work.run(
            _import, state, contents, filename or "affinities.json", document_id
        )
        message["text"] = as_utf8(message["text"])  # it repeats names of the file
        stroke: Simple = {"do": "show", "message": message}
        return stroke, None


def _import(state: AppState, contents: str, filename: str, document_id: str) -> Message:
    """Pins from a file of another tool; what happened, and whether something was left out."""
    with tempfile.TemporaryDirectory() as folder:
        suffix = Path(filename).suffix.lower()
        path = (
            Path(folder)
            / f"{safe_stem(Path(filename).stem)}{suffix if suffix[1:].isalnum() and len(suffix) < 20 else ''}"
        )
        try:
            path.write_bytes(uploaded(contents))
            document = state.document(document_id)
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


def _profile_message(document: Document, report: ProfileReport, filename: str) -> Message:
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
    # What the file has beyond the ops, ops that keep an estimate, and notes on how it was measured, are no fault.
    return {"text": "\n".join(lines), "bad": report.share < _OF_THIS_MODEL}


def uploaded(contents: str) -> bytes:
    """The bytes of a file that the page sent.

    Raises:
        EditorError: it did not arrive whole.
    """
    try:
        return base64.b64decode(contents.partition(",")[2])
    except binascii.Error as error:
        raise EditorError("The file did not arrive whole. Choose it again.") from error
