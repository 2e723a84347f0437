"""Layouts side by side, and hints."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from dash import ALL, Dash, Input, Output, State, ctx, no_update
from dash.exceptions import PreventUpdate

from editor.errors import Cancelled, EditorError
from editor.files import parse_json
from editor.placement.choices import PRESENT
from editor.placement.fallbacks import hints
from editor.text import pluralize
from editor.web.app_state import AppState
from editor.web.panels.advice_table import advice_view
from editor.web.panels.audit_panel import audit_view
from editor.web.panels.compare import compare_view
from editor.web.panels.notice import notice
from editor.web.panels.parts import problem
from editor.web.panels.sizes_panel import sizes_view
from editor.web.panels.suggestions import hints_view, layout_of_policy, layout_to_suggest
from editor.web.panels.versions import label_of_version, versions_view
from editor.web.view import plan_costs, source_of, step_of
from editor.workspace.diffs import diff_plans
from editor.workspace.document import Document
from editor.workspace.layouts import BY_OPENVINO, READY_MADE, WITHIN_MEMORY, Layout, tidy_name

_MOST_OTHERS = 50
"""Documents to choose from."""


_compared: WeakKeyDictionary[Document, tuple[list[Layout], str]] = WeakKeyDictionary()
"""Document -> the layouts that were compared last, and the step of the plan then."""


def register(app: Dash, state: AppState) -> None:
    """Adds the callbacks."""
    _register_advice(app, state)

    @app.callback(
        Output("compare-result", "children"),
        Output("layout-problem", "children"),
        Output("layout-name", "value"),
        Input("compare-start", "n_clicks"),
        Input("layout-keep", "n_clicks"),
        State("layout-name", "value"),
        State("doc", "data"),
        running=[(Output("compare-start", "busy"), True, False)],
        prevent_initial_call=True,
    )
    async def compare(_compare: Any, _keep: Any, name: str | None, document_id: str) -> Any:
        if not any(t["value"] for t in ctx.triggered):
            raise PreventUpdate
        return await state.long_work.run(
            _compare_now, state, str(ctx.triggered_id), name or "", document_id
        )

    @app.callback(
        Output("compare-result", "children", allow_duplicate=True),
        Input("run", "data"),
        State("doc", "data"),
        prevent_initial_call=True,
    )
    async def compare_measured(_run: Any, document_id: str) -> Any:
        benchmark = state.benchmarks.get(document_id)
        if benchmark is None or not benchmark.job.done:
            raise PreventUpdate
        return await state.long_work.run(_with_measurements, state, document_id)

    @app.callback(
        Output("sizes-result", "children"),
        Input("sizes-compare", "n_clicks"),
        Input("sizes-list", "n_submit"),
        State("sizes-list", "value"),
        State("sizes-list", "placeholder"),
        State("doc", "data"),
        running=[(Output("sizes-compare", "busy"), True, False)],
        prevent_initial_call=True,
    )
    async def sizes(
        _clicks: Any, _enter: Any, text: str | None, example: str, document_id: str
    ) -> Any:
        if not any(t["value"] for t in ctx.triggered):
            raise PreventUpdate
        return await state.long_work.run(
            _sizes_now, state, str(text or example)[:1000], document_id
        )

    @app.callback(
        Output("audit-result", "children"),
        Output("compare-start", "n_clicks", allow_duplicate=True),
        Input("audit-start", "n_clicks"),
        Input("audit-devices", "n_submit"),
        State("audit-devices", "value"),
        State("audit-options", "value", allow_optional=True),
        State("audit-seconds", "value", allow_optional=True),
        State("compare-start", "n_clicks"),
        State("doc", "data"),
        running=[(Output("audit-start", "busy"), True, False)],
        prevent_initial_call=True,
    )
    async def audit(
        _clicks: Any,
        _enter: Any,
        text: str | None,
        options: str | None,
        seconds: Any,
        compared: int | None,
        document_id: str,
    ) -> Any:
        if not any(t["value"] for t in ctx.triggered):
            raise PreventUpdate
        found, is_kept = await state.long_work.run(
            _audit_now, state, str(text or ""), str(options or ""), seconds or 0, document_id
        )
        # Compare is pressed once more: an answer that is still under way would lack the new layout.
        return found, (compared or 0) + 1 if is_kept else no_update

    @app.callback(
        Output("versions-other", "data"),
        Input("tabs", "value"),
        State("doc", "data"),
        prevent_initial_call=True,
    )
    def others(tab: str, document_id: str) -> Any:
        if tab != "compare":
            raise PreventUpdate
        records = state.store.recent(_MOST_OTHERS)
        return [
            {"value": each.id, "label": label_of_version(each, records)}
            for each in records
            if each.id != document_id
        ]

    @app.callback(
        Output("versions-result", "children"),
        Input("versions-start", "n_clicks"),
        State("versions-other", "value"),
        State("doc", "data"),
        running=[(Output("versions-start", "busy"), True, False)],
        prevent_initial_call=True,
    )
    async def versions(clicks: Any, other: str | None, document_id: str) -> Any:
        if not clicks:
            raise PreventUpdate
        return await state.long_work.run(_versions_now, state, document_id, other or "")


def _register_advice(app: Dash, state: AppState) -> None:
    """Adds the callbacks of the suggestions and of other forms of refused ops."""

    @app.callback(
        Output("hints-result", "children"),
        Input("hints-start", "n_clicks"),
        State("doc", "data"),
        running=[(Output("hints-start", "busy"), True, False)],
        prevent_initial_call=True,
    )
    async def suggest(clicks: Any, document_id: str) -> Any:
        if not clicks:
            raise PreventUpdate
        return await state.long_work.run(_hints_now, state, document_id)

    @app.callback(
        Output("advice-result", "children"),
        Input("advise-start", "n_clicks"),
        State("doc", "data"),
        running=[(Output("advise-start", "busy"), True, False)],
        prevent_initial_call=True,
    )
    async def try_forms(clicks: Any, document_id: str) -> Any:
        if not clicks:
            raise PreventUpdate
        return await state.long_work.run(_advice_now, state, document_id)

    @app.callback(
        Output("resized", "data", allow_duplicate=True),
        Output("notice", "children", allow_duplicate=True),
        Input({"type": "advice-open", "idea": ALL, "ops": ALL}, "n_clicks"),
        State("doc", "data"),
        prevent_initial_call=True,
    )
    async def open_advised(_clicks: Any, document_id: str) -> Any:
        if not isinstance(ctx.triggered_id, dict) or not any(t["value"] for t in ctx.triggered):
            raise PreventUpdate
        try:
            opened = await state.long_work.run(
                state.open_advised, document_id, str(ctx.triggered_id["idea"])
            )
            origin = state.document(document_id).graph.path.name
            ops = int(ctx.triggered_id["ops"])
            verb = "falls" if ops == 1 else "fall"
            state.greet(
                opened.id,
                f"A copy of {origin}, rewritten so that {pluralize(ops, 'op')} no longer {verb} back. Back returns.",
            )
        except EditorError as error:
            return no_update, notice(str(error), bad=True)
        return f"/d/{opened.id}", no_update


def _versions_now(state: AppState, document_id: str, other_id: str) -> Any:
    if not other_id:
        return problem(
            "Choose the other model; one that is not in the list has to be opened first.",
            "No models were compared",
        )
    try:
        here, there = state.document(document_id), state.document(other_id)
        with state.tasks.begin(document_id, "Comparing models"):
            return versions_view(here, there, diff_plans(here.plan, there.plan))
    except Cancelled:
        return problem("No models were compared.", "Cancelled")
    except EditorError as error:
        return problem(str(error), "The models were not compared")


def _sizes_now(state: AppState, text: str, document_id: str) -> Any:
    try:
        document = state.document(document_id)
        with state.tasks.begin(document_id, "Comparing sizes") as task:
            return sizes_view(document, *state.at_sizes(document, text, task))
    except Cancelled:
        return problem("No sizes were compared.", "Cancelled")
    except EditorError as error:
        return problem(str(error), "The sizes were not compared")


def _audit_now(
    state: AppState, text: str, options: str, seconds: Any, document_id: str
) -> tuple[Any, bool]:
    """What a configuration runs, and whether there is a layout of it."""
    try:
        if not text.strip():
            raise EditorError(
                "Which devices? Write providers of ONNX Runtime in order, as CUDA,CPU, or HETERO:GPU,CPU for OpenVINO."
            )
        document = state.document(document_id)
        with state.tasks.begin(document_id, f"Auditing {text[:60]}") as task:
            name, found = state.audit(
                document, text.strip()[:1000], _session_options(options), _seconds(seconds), task
            )
            return audit_view(document, name, found), True
    except Cancelled:
        return problem("No session was audited.", "Cancelled"), False
    except EditorError as error:
        return problem(str(error), "The session was not audited"), False


def _session_options(text: str) -> dict[str, Any]:
    if not text.strip():
        return {}
    try:
        options = parse_json(text)
    except ValueError as error:
        raise EditorError(f"The session options are not JSON: {error}.") from None
    if not isinstance(options, dict):
        raise EditorError('Session options are names and values, as {"intra_op_num_threads": 4}.')
    return options


def _seconds(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise EditorError("Seconds are a number.") from None


def _advice_now(state: AppState, document_id: str) -> Any:
    try:
        document = state.document(document_id)
        with state.tasks.begin(document_id, "Trying other forms") as task:
            return advice_view(document, state.advise(document, task))
    except Cancelled:
        return problem("Nothing was tried to its end.", "Cancelled")
    except EditorError as error:
        return problem(str(error), "No other forms were tried")


def _hints_now(state: AppState, document_id: str) -> Any:
    try:
        document = state.document(document_id)
        with state.tasks.begin(document_id, "Trying repaints") as task:
            step = step_of(document, plan_costs(document)[1])
            found = hints(
                document.placement,
                source_of(document),
                progress=lambda done, total: task.step(done, total, "Trying repaints"),
                should_stop=task.should_stop,
            )
            # what was found until it was cancelled is not what there is
            task.step(0, 0, f"Solving “{layout_of_policy(document)}”")
            better = layout_to_suggest(document, task.should_stop)
            return hints_view(document, found, step, better)
    except Cancelled:
        return problem("Nothing is suggested.", "Cancelled")
    except EditorError as error:
        return problem(str(error), "There are no suggestions")


def _compare_now(state: AppState, what: str, name: str, document_id: str) -> tuple[Any, Any, Any]:
    """The table of layouts, what is wrong with the name of a new one, and the name that its field then has.

    Where something is wrong the table stays as it is; the name of what was kept is gone.
    """
    field: Any = no_update
    try:
        document = state.document(document_id)
        if what == "layout-keep":
            name = tidy_name(name) or tidy_name(document.layout_name)
            if wrong := _wrong_name(document, name):
                return no_update, problem(wrong, "The plan was not kept"), field
            document.keep_layout(name)
            field = ""
        with state.tasks.begin(document_id, "Solving the layouts") as task:
            step = step_of(document, plan_costs(document)[1])
            layouts = document.layouts(
                lambda done, total, name: task.step(done, total, f"Solving “{name}”"),
                task.should_stop,
            )
            task.step(
                0, 0, "Comparing"
            )  # where it was cancelled, the last of them is not what it should be
            _compared[document] = (layouts, step)
            return compare_view(document, layouts, step), None, field
    except Cancelled:
        return no_update, problem("No layouts were compared.", "Cancelled"), field
    except EditorError as error:
        return no_update, problem(str(error), "The layouts could not be compared"), field


def _with_measurements(state: AppState, document_id: str) -> Any:
    """The table that a page was given last, with what was measured since."""
    document = state.document(document_id)
    known = _compared.get(document)
    try:
        return no_update if known is None else compare_view(document, *known)
    except EditorError:  # the page says that the plan has changed
        return no_update


def _wrong_name(document: Document, name: str) -> str:
    """Why a plan is not kept under a tidy name; "" where it can be."""
    if name in document.store.layouts(document.id) or name in (
        PRESENT,
        BY_OPENVINO,
        *READY_MADE,
        *WITHIN_MEMORY,
    ):
        return f"There is a layout called “{name}” already. Choose another name, or remove that layout first."
    return ""
