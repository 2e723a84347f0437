"""The tab Phases: prompt and tokens are placed, their sizes opened and profiled."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

from dash import ALL, Dash, Input, Output, State, ctx, no_update
from dash.exceptions import PreventUpdate

from editor.arguments import MOST_TOKENS
from editor.errors import Cancelled, EditorError
from editor.execution.jobs import tasks
from editor.graph.states import Lengths, sizes_of_step, tokens_of_step
from editor.placement.device_profile import DeviceProfile
from editor.web.app_state import AppState, result_unless_ended
from editor.web.edits import use_phase
from editor.web.panels.notice import moved_at_sizes
from editor.web.panels.parts import problem
from editor.web.panels.phases_panel import phases_view, shorter_prompt
from editor.web.tasks import Task
from editor.workspace.document import Document
from editor.workspace.phases import NoPhasesError, Phases, steps_of

_SECONDS = 2.0
"""For the profile of a device at each of the sizes."""


def register(app: Dash, state: AppState) -> None:
    """Adds the callbacks."""

    @app.callback(
        Output("phases-result", "children"),
        Input("phases-start", "n_clicks"),
        Input("phases-prompt-length", "n_submit"),
        Input("phases-new-length", "n_submit"),
        State("phases-prompt-length", "value"),
        State("phases-new-length", "value"),
        State("doc", "data"),
        running=[
            (Output("phases-start", "busy"), True, False),
            (Output("phases-result", "className"), "of-before", ""),
        ],
        prevent_initial_call=True,
    )
    async def phases(
        _clicks: Any, _enter: Any, _also: Any, prompt: Any, new: Any, document_id: str
    ) -> Any:
        if not any(t["value"] for t in ctx.triggered):
            raise PreventUpdate
        return await state.long_work.run(_phases_now, state, prompt, new, document_id)

    @app.callback(
        Output("resized", "data", allow_duplicate=True),
        Output("phases-result", "children", allow_duplicate=True),
        Input("phases-prompt", "n_clicks"),
        Input("phases-token", "n_clicks"),
        Input({"type": "phase-open", "name": ALL}, "n_clicks"),
        State("phases-prompt-length", "value"),
        State("phases-new-length", "value"),
        State("doc", "data"),
        running=[
            (Output("phases-prompt", "busy"), True, False),
            (Output("phases-token", "busy"), True, False),
        ],
        prevent_initial_call=True,
    )
    async def open_phase(
        _prompt: Any, _token: Any, _named: Any, prompt: Any, new: Any, document_id: str
    ) -> Any:
        if not any(t["value"] for t in ctx.triggered):
            raise PreventUpdate
        try:
            document = state.document(document_id)
            name, lengths = "", _lengths(prompt, new)
            is_prompt = ctx.triggered_id == "phases-prompt"
            if isinstance(ctx.triggered_id, dict):  # "Use" of a way, in the phase that is open
                name, lengths = ctx.triggered_id["name"], _kept(state, document).lengths
                is_prompt = tokens_of_step(document.graph) != 1
            sizes = (
                sizes_of_step(document.graph, lengths.prompt, 0)
                if is_prompt
                else sizes_of_step(document.graph, 1, lengths.before_last)
            )
            with state.tasks.begin(document_id, "Solving the plan at other sizes") as task:
                resized = await state.long_work.run(
                    opened_phase, state, document, sizes, lengths, task, name
                )
        except EditorError as error:
            return no_update, problem(str(error), "This phase was not opened")
        return f"/d/{resized.id}", no_update

    @app.callback(
        Output("phases-result", "children", allow_duplicate=True),
        Input("phases-profile", "n_clicks", allow_optional=True),
        State("doc", "data"),
        running=[(Output("phases-start", "busy"), True, False)],
        prevent_initial_call=True,
    )
    async def profile(clicks: Any, document_id: str) -> Any:
        if not clicks:
            raise PreventUpdate
        return await state.long_work.run(_profiled_now, state, document_id)


def _lengths(prompt: Any, new: Any) -> Lengths:
    """The lengths of an answer, as two fields have them."""
    if not all(isinstance(each, int) and 1 <= each <= MOST_TOKENS for each in (prompt, new)):
        raise EditorError(f"write whole numbers from 1 to {MOST_TOKENS:,} as prompt and new tokens")
    return Lengths(prompt, new)


def _kept(state: AppState, document: Document) -> Phases:
    """What was found last for both phases.

    Raises:
        EditorError: it is not kept any more.
    """
    if (phases := state.phased.get(document)) is None:
        raise EditorError("These placements are not kept any more; place both phases again.")
    return phases


def opened_phase(
    state: AppState,
    document: Document,
    sizes: Mapping[str, int],
    lengths: Lengths,
    task: Task,
    name: str = "",
) -> Document:
    """The document at the sizes of a phase, with the devices that its ops were given there when both phases were placed.

    ``name`` is of the way to place them; by default it is the one that is in use.
    """
    resized = state.with_sizes(document.id, sizes, task.should_stop)
    phases, how = state.phased.get(document), "Solved at these sizes"
    if phases is not None and phases.lengths == lengths:
        name = name or phases.kept_with(document.placement)
        state.phased[resized], how = use_phase(resized, phases, name), "Placed as in Phases"
    if resized is document:  # its page stays, and would say it when it is opened again
        return resized
    said = f"{moved_at_sizes(resized, document, how)} {state.greeting(resized.id)}"
    state.greet(resized.id, said.rstrip(), document)
    return resized


def _phases_now(state: AppState, prompt: Any, new: Any, document_id: str) -> Any:
    try:
        document = state.document(document_id)
        lengths = _lengths(prompt, new)
        with state.tasks.begin(document_id, "Placing prompt and tokens") as task:
            return phases_view(document, state.phases(document, lengths, task))
    except Cancelled:
        return problem("No phases were placed.", "Cancelled")
    except NoPhasesError as error:
        return [shorter_prompt(error.shorter), problem(str(error), "The phases were not placed")]
    except EditorError as error:
        return problem(str(error), "The phases were not placed")


def _profiled_now(state: AppState, document_id: str) -> Any:
    """The phases once more, after a profile at their sizes that have none."""
    try:
        document = state.document(document_id)
        phases = _kept(state, document)
        with state.tasks.begin(document_id, "Profiling prompt and tokens") as task:
            _profile_steps(state, document, phases, task)
            return phases_view(document, state.phases(document, phases.lengths, task))
    except Cancelled:
        return problem("The profiles that were finished are kept.", "Cancelled")
    except EditorError as error:
        return problem(str(error), "The sizes were not profiled")


def _profile_steps(state: AppState, document: Document, phases: Phases, task: Task) -> None:
    """Profiles the devices at the sizes of the steps that have no profile, in jobs.

    Raises:
        Cancelled: a person ended it.
        EditorError: a device could not be profiled.
    """
    recipe, graph = document.plan.recipe(), document.graph
    steps = steps_of(phases.lengths)
    count = len(phases.unprofiled)
    for number, name in enumerate(phases.unprofiled):

        def follow(event: Mapping[str, Any], number: int = number, name: str = name) -> None:
            if event["kind"] == "phase":
                done, of_one = number * event["total"] + event["done"], event["total"]
                with suppress(Cancelled):  # the wait below ends the job
                    task.step(done, count * of_one, f"{name}: {event['text']}")

        define = {**graph.define, **sizes_of_step(graph, *steps[name])}
        job = state.jobs.submit(
            tasks.profile, replace(recipe, define=define), _SECONDS, on_event=follow
        )
        found = cast("dict[str, DeviceProfile | str]", result_unless_ended(job, task))
        lacking = [f"{device}: {why}" for device, why in found.items() if isinstance(why, str)]
        if lacking:
            raise EditorError(f"{name}: {'; '.join(lacking)}")
