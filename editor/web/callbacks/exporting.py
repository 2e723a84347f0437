"""Downloads of the current plan."""

from __future__ import annotations

import asyncio
import io
import tempfile
import zipfile
from pathlib import Path
from typing import Any, cast

from dash import ALL, Dash, Input, Output, State, ctx, dcc, no_update
from dash.exceptions import PreventUpdate

from editor.errors import EditorError, ExportError
from editor.exports.dot import affinity_dot, render, subgraphs_dot
from editor.exports.formats import FORMATS, WITH_WEIGHTS, ExportForm
from editor.exports.glow import partition_log
from editor.exports.model_copy import copied_bytes
from editor.exports.registry import export_notes
from editor.files import json_text, safe_stem, write_atomic
from editor.web.app_state import AppState
from editor.web.panels.notice import notice
from editor.web.tasks import Task
from editor.workspace.document import Document


def register(app: Dash, state: AppState) -> None:
    """Adds the callback."""

    @app.callback(
        Output("download", "data"),
        Output("notice", "children", allow_duplicate=True),
        Input({"type": "export", "what": ALL}, "n_clicks"),
        State("doc", "data"),
        prevent_initial_call=True,
        running=[(Output("export", "busy"), True, False)],
    )
    async def export(_clicks: list[int | None], document_id: str) -> Any:
        # a form of a device that is drawn anew has a button that nobody has pressed
        if not isinstance(ctx.triggered_id, dict) or not any(
            each["value"] for each in ctx.triggered
        ):
            raise PreventUpdate
        what = str(ctx.triggered_id.get("what"))
        try:
            document = await asyncio.to_thread(state.document, document_id)
            with state.tasks.begin(document_id, "Writing files", cancellable=False) as task:
                content = await state.long_work.run(_content, document, what, task)
            notes = export_notes(document.placement, what.removeprefix("bundle:"))
            return content, notice(". ".join(notes)) if notes else no_update
        except EditorError as error:
            return no_update, notice(str(error), bad=True)
        except (
            OSError
        ) as error:  # the model's files are gone, or the disk for temporary files is full
            return no_update, notice(
                f"The files cannot be written: {error.filename or 'disk'}: {error.strerror or error}.",
                bad=True,
            )


MAX_DOWNLOAD_BYTES = 256 << 20
"""Above this a browser chokes on a download that goes through the page."""


_WEIGHTS_BYTES = 1 << 20
"""Larger files are weights, which take seconds to compress and hardly shrink."""


def _bundle(document: Document, form: str, task: Task, device: str = "") -> dict[str, Any]:
    """The files of a format: one as it is, several as a zip file with fixed dates; ``device`` is the one of a kit."""
    if form in WITH_WEIGHTS:
        _check_size(copied_bytes(document.graph), form)
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory() as beside:
        folder, options = Path(name), {}
        taken = {option.name for option in FORMATS[form].options} if form in FORMATS else set()
        runs = [r.figures["report"] for r in document.runs_of_plan() if "report" in r.figures]
        if runs and "measured" in taken:
            file = write_atomic(Path(beside) / "benchmark.json", json_text(runs[0]))
            options["measured"] = str(file)
        if "accuracy" in taken and (accuracy := document.accuracy()) is not None:
            file = write_atomic(Path(beside) / "accuracy.json", json_text(accuracy.as_dict()))
            options["accuracy"] = str(file)
        paths = (
            document.plan.write_kit(folder, device)
            if form == "kit"
            else document.plan.export(cast("ExportForm", form), folder, **options)
        )
        _check_size(sum(path.stat().st_size for path in paths), form)
        if len(paths) == 1:
            return dict(dcc.send_bytes(paths[0].read_bytes(), paths[0].name))
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for number, path in enumerate(sorted(paths)):
                task.step(number, len(paths), "Packing files")
                entry = zipfile.ZipInfo(str(path.relative_to(folder)), (1980, 1, 1, 0, 0, 0))
                how = (
                    zipfile.ZIP_STORED
                    if path.stat().st_size > _WEIGHTS_BYTES
                    else zipfile.ZIP_DEFLATED
                )
                archive.writestr(entry, path.read_bytes(), how)
        names = [document.graph.name, form, *([device] if device else [])]
        return dict(dcc.send_bytes(packed.getvalue(), f"{'_'.join(map(safe_stem, names))}.zip"))


def _check_size(total: int, form: str) -> None:
    """Raises ``ExportError`` where a browser would choke on a download of so many bytes."""
    if total > MAX_DOWNLOAD_BYTES:
        command = "kit plan.json" if form == "kit" else f"export plan.json --to {form}"
        raise ExportError(
            f"this export is {total >> 20} MiB, too large for a download; save plan.json and run "
            f"`python -m editor {command} --out DIR`"
        )


def _device_at(document: Document, number: str) -> str:
    """Name of a device by its place in the table: Dash takes no other letters than ASCII in what a button is called."""
    if not number.isdecimal() or int(number) >= len(document.devices):
        raise ExportError("This device is not in the table any more.")
    return document.devices[int(number)].name


def _content(document: Document, what: str, task: Task) -> dict[str, Any]:
    if what.startswith("kit:"):
        return _bundle(document, "kit", task, _device_at(document, what.partition(":")[2]))
    if what.startswith("bundle:"):
        return _bundle(document, what.partition(":")[2], task)
    placement, stem = document.placement, safe_stem(document.graph.name)
    if what == "plan.json":
        return {
            "content": document.plan.to_json(),
            "filename": "plan.json",
            "type": "application/json",
        }
    if what == "devices.yaml":
        return {
            "content": document.devices_text,
            "filename": "devices.yaml",
            "type": "application/yaml",
        }
    if what == "partition.log":
        return {
            "content": partition_log(placement),
            "filename": "partition.log",
            "type": "text/plain",
        }
    kind, _, form = what.partition(".")
    text = affinity_dot(placement) if kind == "affinity" else subgraphs_dot(placement)
    if form == "svg":
        with tempfile.TemporaryDirectory() as folder:
            text = render(write_atomic(Path(folder) / f"hetero_{kind}_{stem}.dot", text)).read_text(
                encoding="utf-8"
            )
        return {"content": text, "filename": f"hetero_{kind}_{stem}.svg", "type": "image/svg+xml"}
    return {"content": text, "filename": f"hetero_{kind}_{stem}.dot", "type": "text/vnd.graphviz"}
