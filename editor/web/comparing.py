"""Layouts for the page: chosen by name, and as a standalone page."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from editor.errors import EditorError
from editor.exports.benchmark_file import kept_tokens, of_unsplit
from editor.exports.report import write_comparison
from editor.files import json_text, write_atomic
from editor.placement.placement import Placement
from editor.web.app_state import AppState
from editor.web.panels.doubts import doubt_of_costs
from editor.web.view import Measured
from editor.workspace.document import Document
from editor.workspace.layouts import Layout


def chosen_layouts(state: AppState, document: Document, names: Sequence[str]) -> list[Layout]:
    """Layouts by name, as far as there are any.

    Raises:
        Cancelled: a person ended it.
    """
    with state.tasks.begin(document.id, "Solving the layouts") as task:
        found = []
        for number, name in enumerate(names):
            task.step(number, len(names), f"Solving “{name}”")
            found.append(document.layout(name, task.should_stop))
        return [layout for layout in found if layout is not None]


def _benchmarks(
    document: Document, chosen: Mapping[str, Placement], folder: Path
) -> dict[str, str]:
    """Layout name -> a file with what was measured of it, in the form of `bench --json`."""
    measured, files = Measured(document), dict[str, str]()
    for number, (name, placement) in enumerate(chosen.items()):
        run, of_tokens = (measured.run(placement, mode) for mode in ("latency", "tokens"))
        reports = []
        if run is not None and "report" in run.figures:
            is_own = run.figures.get("plan") == placement.fingerprint
            kept = run.figures["report"]
            reports.append(kept if is_own else of_unsplit(kept, placement))
        if of_tokens is not None:
            figures = of_tokens.figures
            if figures.get("plan") != placement.fingerprint:  # the unsplit model beside that plan
                figures = {**figures, "plan": placement.fingerprint, "first_token": None}
            reports.append(kept_tokens(figures))
        if reports:
            files[name] = str(write_atomic(folder / f"{number}.json", json_text(reports)))
    return files


def comparison_page(state: AppState, document_id: str, names: Sequence[str]) -> tuple[str, bytes]:
    """Name and content of the standalone page of some layouts.

    Raises:
        EditorError: there is none of them.
    """
    document = state.document(document_id)
    layouts = chosen_layouts(state, document, names)
    chosen = {layout.name: layout.placement for layout in layouts if layout.placement is not None}
    if not chosen:
        raise EditorError("There is no such layout any more; compare again.")
    with tempfile.TemporaryDirectory() as folder:
        files = _benchmarks(document, chosen, Path(folder))
        doubt = doubt_of_costs(document)
        path = write_comparison(chosen, Path(folder), document.plan.stamp, files, doubt=doubt)[0]
        return f"{path.stem}_comparison.html", path.read_bytes()
