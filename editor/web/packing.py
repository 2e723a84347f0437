"""Files of exports as downloads."""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from editor.errors import ExportError
from editor.exports.benchmark_file import doubt_to_read, kept_tokens, of_unsplit
from editor.exports.formats import FORMATS, WITH_WEIGHTS, ExportForm
from editor.exports.model_copy import copied_bytes
from editor.files import json_text, write_atomic
from editor.placement.choices import AIMS
from editor.web.panels.doubts import doubt_in_full
from editor.web.tasks import Task
from editor.web.view import measured_run
from editor.workspace.document import Document
from editor.workspace.plan import Plan

MAX_DOWNLOAD_BYTES = 256 << 20
"""Above this a browser chokes on a download that goes through the page."""
_WEIGHTS_BYTES = 1 << 20
"""Larger files are weights, which take seconds to compress and hardly shrink."""


def written(
    document: Document, form: str, folder: Path, device: str = "", plan: Plan | None = None
) -> list[Path]:
    """Files of a format, with what was measured of the plan.

    Args:
        document: has the measurements.
        form: the format.
        folder: where the files go.
        device: the one of a kit.
        plan: the plan of the document, where it has more to it, as a placement of the prompt.

    Raises:
        ExportError: the format cannot say what is in the plan, or the files are too large for a download.
    """
    if form in WITH_WEIGHTS:
        _check_size(copied_bytes(document.graph), form)
    plan = plan or document.plan
    with tempfile.TemporaryDirectory() as beside:
        options = {}
        taken = {option.name for option in FORMATS[form].options} if form in FORMATS else set()
        runs = _measured(document)
        if runs and "measured" in taken:
            file = write_atomic(Path(beside) / "benchmark.json", json_text(runs))
            options["measured"] = str(file)
        if "accuracy" in taken and (accuracy := document.accuracy()) is not None:
            file = write_atomic(Path(beside) / "accuracy.json", json_text(accuracy.as_dict()))
            options["accuracy"] = str(file)
        paths = (
            plan.write_kit(folder, device)
            if form == "kit"
            else plan.export(cast("ExportForm", form), folder, **options)
        )
    _check_size(sum(path.stat().st_size for path in paths), form)
    return paths


def _measured(document: Document) -> list[dict[str, Any]]:
    """What was measured of the plan, as `bench --json` has it: what the page shows of it in each mode, else of stand-ins."""
    plan, found = document.placement, list[dict[str, Any]]()
    for mode in AIMS:
        run = measured_run(document, mode)
        kept = None if run is None else run.figures.get("report")
        if run is not None and kept is not None:
            is_own = run.figures["plan"] == plan.fingerprint
            found.append(kept if is_own else of_unsplit(kept, plan))
    own = [run.figures for run in document.runs_of_plan()]
    if not found:
        found += [figures["report"] for figures in own if "report" in figures][:1]
    tokens = [f for f in own if f.get("mode") == "tokens" and not f["estimated"]]
    doubt = "" if measured_run(document) is not None else doubt_in_full(document)
    return [
        *found,
        *(kept_tokens(figures) for figures in tokens[:1]),
        *([doubt_to_read(plan, doubt)] if doubt else []),
    ]


def packed(paths: Sequence[Path], folder: Path, task: Task) -> bytes:
    """A zip file with fixed dates of files below a folder."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, path in enumerate(sorted(paths)):
            task.step(number, len(paths), "Packing files")
            entry = zipfile.ZipInfo(str(path.relative_to(folder)), (1980, 1, 1, 0, 0, 0))
            large = path.stat().st_size > _WEIGHTS_BYTES
            how = zipfile.ZIP_STORED if large else zipfile.ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes(), how)
    return content.getvalue()


def _check_size(total: int, form: str) -> None:
    """Raises ``ExportError`` where a browser would choke on a download of so many bytes."""
    if total > MAX_DOWNLOAD_BYTES:
        command = "kit plan.json" if form == "kit" else f"export plan.json --to {form}"
        raise ExportError(
            f"this export is {total >> 20} MiB, too large for a download; save plan.json and run "
            f"`python -m editor {command} --out DIR`"
        )
