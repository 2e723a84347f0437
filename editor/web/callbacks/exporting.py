"""Downloads of the current plan."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from dash import ALL, Dash, Input, Output, State, ctx, dcc, no_update
from dash.exceptions import PreventUpdate

from editor.errors import EditorError, ExportError
from editor.exports.dot import affinity_dot, render, subgraphs_dot
from editor.exports.glow import partition_log
from editor.exports.kit import kit_device, kit_note
from editor.exports.registry import export_notes, foreign_note
from editor.files import safe_stem, write_atomic
from editor.placement.prompt_room import longest_prompt, tells_prompt
from editor.web.app_state import AppState
from editor.web.benchmark_state import plan_in_use
from editor.web.packing import packed, written
from editor.web.panels.export_menu import export_groups, notes_of_plan
from editor.web.panels.notice import notice
from editor.web.tasks import Task
from editor.workspace.document import Document
from editor.workspace.phases import Phases
from editor.workspace.plan import Plan


def register(app: Dash, state: AppState) -> None:
    """Adds the callbacks."""

    @app.callback(
        Output("export", "children", allow_duplicate=True),
        Output("export-notes", "data"),
        Input("plan", "data"),
        State("export-notes", "data"),
        State("doc", "data"),
        prevent_initial_call=True,
    )
    async def follow(_plan: Any, drawn: dict[str, str], document_id: str) -> Any:
        return await asyncio.to_thread(_menu, state, document_id, drawn)

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
                phases = state.phased.get(document)
                plan = plan_in_use(document, phases)
                if what.endswith((":genai", ":html")) and tells_prompt(document.placement):
                    with suppress(
                        EditorError
                    ):  # sizes of a prompt cannot be read: nothing is told of it
                        await state.long_work.run(
                            longest_prompt, document.placement, state.loader(document)
                        )
                content = (
                    _plan_of(phases, document)
                    if what == "phases"
                    else await state.long_work.run(_content, document, plan, what, task)
                )
            form = what.removeprefix("bundle:")
            foreign = foreign_note(form, document.devices)
            notes = [*filter(None, [foreign]), *export_notes(plan.placement, form, plan.prompt)]
            if plan.prompt is not None and form in ("genai", "plan.json"):
                notes.append(
                    "It has both placements that Phases found: of the prompt, and of the tokens"
                )
            if form.startswith("kit"):
                named = _device_at(document, form[4:]) if ":" in form else ""
                notes += filter(None, [kit_note(kit_device(document.devices, named))])
            said = [f"{note[:1].upper()}{note[1:]}" for note in notes]
            return content, notice(". ".join([f"Downloaded {content['filename']}", *said]))
        except EditorError as error:
            return no_update, notice(str(error), bad=True)
        except (
            OSError
        ) as error:  # the model's files are gone, or the disk for temporary files is full
            return no_update, notice(
                f"The files cannot be written: {error.filename or 'disk'}: {error.strerror or error}.",
                bad=True,
            )


def _menu(state: AppState, document_id: str, drawn: dict[str, str]) -> tuple[Any, Any]:
    """The menu, where other formats leave something out of the plan than it says."""
    try:
        document = state.document(document_id)
    except EditorError:
        raise PreventUpdate from None
    notes = notes_of_plan(document.placement)
    if notes == drawn:
        raise PreventUpdate
    return export_groups(document), notes


def _bundle(
    document: Document, plan: Plan, form: str, task: Task, device: str = ""
) -> dict[str, Any]:
    """The files of a format: one as it is, several as a zip file; ``device`` is the one of a kit."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = written(document, form, folder, device, plan)
        if len(paths) == 1:
            return dict(dcc.send_bytes(paths[0].read_bytes(), paths[0].name))
        names = [document.graph.name, form, *([device] if device else [])]
        return dict(
            dcc.send_bytes(packed(paths, folder, task), f"{'_'.join(map(safe_stem, names))}.zip")
        )


def _plan_of(phases: Phases | None, document: Document) -> dict[str, Any]:
    if phases is None:
        raise ExportError("These placements are not kept any more; place both phases again.")
    prompt, token = phases.placements[phases.kept_with(document.placement)]
    return _plan_file(Plan(token, prompt))


def _plan_file(plan: Plan) -> dict[str, Any]:
    return {"content": plan.to_json(), "filename": "plan.json", "type": "application/json"}


def _device_at(document: Document, number: str) -> str:
    """Name of a device by its place in the table: Dash takes no other letters than ASCII in what a button is called."""
    if not number.isdecimal() or int(number) >= len(document.devices):
        raise ExportError("This device is not in the table any more.")
    return document.devices[int(number)].name


def _content(document: Document, plan: Plan, what: str, task: Task) -> dict[str, Any]:
    if what.startswith("kit:"):
        return _bundle(document, plan, "kit", task, _device_at(document, what.partition(":")[2]))
    if what.startswith("bundle:"):
        return _bundle(document, plan, what.partition(":")[2], task)
    placement, stem = document.placement, safe_stem(document.graph.name)
    if what == "plan.json":
        return _plan_file(plan)
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
