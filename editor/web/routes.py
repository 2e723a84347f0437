"""The routes of the canvas, for the page's scripts and for anybody's: edits, drawing, search, imports, runs.

`docs/reference/http.md` explains them; `docs/reference/openapi.json` and `types/api.d.ts` are made from them by `make types`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from functools import lru_cache
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.sse import EventSourceResponse
from pydantic import TypeAdapter

from editor.errors import Cancelled, EditorError, PlanError, WorkspaceError
from editor.exports.report import MAX_COMPARED
from editor.placement.choices import PRESENT
from editor.placement.filter import matching
from editor.placement.prompt_room import longest_prompt
from editor.web import messages as m
from editor.web.app_state import AppState
from editor.web.comparing import chosen_layouts, comparison_page
from editor.web.controls import static_html
from editor.web.drawing.body import body_view
from editor.web.drawing.detail import drawing_of
from editor.web.drawing.panes import map_data, panes_data, versions_data
from editor.web.drawing.ribbon import picture_plan, ribbon_of
from editor.web.edit_answers import answer_edits
from editor.web.importing import pins_or_profile_from, rules_from
from editor.web.panels.hover import hover
from editor.web.panels.memory_panel import context_note, prompt_note
from editor.web.rule_rows import pattern_matches
from editor.web.runs import follow_run, start_run
from editor.web.searching import search_results
from editor.web.sets import exported
from editor.web.view import op_costs, view_of
from editor.workspace.diffs import diff_plans
from editor.workspace.document import Document

_Names = Annotated[list[str], Query(alias="name")]
_MOST_HOVERED = 4000
_MOST_PANES = 4


def add_routes(server: FastAPI, state: AppState) -> None:
    """Adds the routes, and answers for what they refuse."""
    server.include_router(canvas_routes(state))
    server.add_exception_handler(RequestValidationError, _refuse_malformed)
    server.add_exception_handler(EditorError, _refuse)


def canvas_routes(state: AppState) -> APIRouter:
    """All routes of the canvas."""
    router = APIRouter(tags=["canvas"])
    _add_edits(router, state)
    _add_drawing(router, state)
    _add_layouts(router, state)
    _add_runs(router, state)
    _add_sets(router, state)
    _add_uploads(router, state)
    return router


def _add_edits(router: APIRouter, state: AppState) -> None:
    @router.post("/d/{document}/edits", response_model=m.EditsAnswer)
    async def edit(document: str, request: m.Edits) -> Response:
        """Applies edits in order, each once; the answer shows the plan after them."""
        return _answer(
            m.EditsAnswer,
            await state.long_work.in_turn(request.page, answer_edits, state, document, request),
        )

    @router.post("/d/{document}/cancel", status_code=204)
    async def cancel(document: str) -> None:
        """Ends what the server solves for a document: an edit, a comparison, other sizes."""
        state.tasks.cancel(document)
        with contextlib.suppress(EditorError):  # its page will say so
            state.document(document).cancel_change()

    @router.post("/d/{document}/imports", response_model=m.Imported)
    async def bring(
        request: Request, document: str, name: str, what: Literal["rules", "affinities"]
    ) -> Response:
        """Reads rules, or affinities or a profile of another tool, from the body: a file called ``name``."""
        content = await request.body()
        if what == "rules":
            return _answer(m.Imported, await asyncio.to_thread(rules_from, content, name))
        opened = await asyncio.to_thread(state.document, document)
        return _answer(
            m.Imported, await state.long_work.run(pins_or_profile_from, opened, content, name)
        )

    @router.get("/d/{document}/status", response_model=m.Status)
    async def tell(document: str) -> Response:
        """Version of a document, what is wrong with the workspace, and what is being worked on."""
        return _answer(m.Status, await state.status.of(document))


def _add_drawing(router: APIRouter, state: AppState) -> None:
    async def of(document: str, work: Callable[[Document], Any]) -> Any:
        return await asyncio.to_thread(lambda: work(state.document(document)))

    @router.get("/d/{document}/view", response_model=m.View)
    async def view(document: str) -> Response:
        """The plan: devices, subgraphs and pins of all ops."""
        return _answer(m.View, await of(document, view_of))

    @router.get("/d/{document}/ribbon", response_model=m.Ribbon)
    async def ribbon(document: str) -> Response:
        """A run of the plan in order, measured where this plan was benchmarked."""

        def work(opened: Document) -> m.Ribbon:
            found = ribbon_of(opened)
            picture_plan(state.store.folder, opened, found)
            return found

        return _answer(m.Ribbon, await of(document, work))

    @router.post("/d/{document}/drawing", response_model=m.Drawing)
    async def draw(document: str, request: m.DrawingRequest) -> Response:
        """The elements of the graph after a change of what is drawn."""
        return _answer(m.Drawing, await of(document, lambda opened: drawing_of(opened, request)))

    @router.get("/d/{document}/map", response_model=m.MapData)
    async def chart(document: str) -> Response:
        """The whole model as packed arrays."""
        return _answer(m.MapData, await of(document, lambda opened: map_data(opened.graph)))

    @router.get("/d/{document}/hover", response_model=m.Hover)
    async def point(document: str, ops: str = "", pairs: str = "") -> Response:
        """The tooltip of a node (``ops=3-5,9``) or an edge (``pairs=3-7,4-7``: producers and consumers)."""

        def work(opened: Document) -> m.Hover:
            count = len(opened.graph)
            chosen = [op for op in _ranges(ops) if op < count]
            ends = [list(pair) for pair in _pairs(pairs) if max(pair) < count]
            shown = static_html(*hover(opened, chosen, ends)) if chosen or ends else None
            return {"content": None if shown is None else shown.to_plotly_json()}

        return _answer(m.Hover, await of(document, work))

    @router.get("/d/{document}/context", response_model=m.ContextNote)
    async def context(document: str, tokens: int) -> Response:
        """Whether the plan of a model with a state fits after so many tokens."""

        def work(opened: Document) -> m.ContextNote:
            said, look = context_note(opened, max(tokens, 0))
            return {"said": said, "look": look}

        return _answer(m.ContextNote, await of(document, work))

    @router.get("/d/{document}/prompt", response_model=m.ContextNote)
    async def prompt(document: str) -> Response:
        """The longest prompt at once that the plan of a model with a state holds."""

        def work() -> m.ContextNote:
            opened = state.document(document)
            return prompt_note(longest_prompt(opened.placement, state.loader(opened)))

        return _answer(m.ContextNote, await state.long_work.run(work))

    @router.get("/d/{document}/body", response_model=m.Hover)
    async def body(document: str, number: int) -> Response:
        """The picture of a body of an If, Loop or Scan, by its number in the model."""
        return _answer(
            m.Hover,
            await of(
                document, lambda opened: {"content": body_view(opened, number).to_plotly_json()}
            ),
        )

    @router.get("/d/{document}/search", response_model=m.SearchResults)
    async def search(document: str, text: str) -> Response:
        """Blocks, ops and tensors that a text finds, or the ops that a filter is true for."""
        return _answer(
            m.SearchResults, await of(document, lambda opened: search_results(opened, text))
        )

    @router.get("/d/{document}/pattern", response_model=m.PatternMatches)
    async def pattern(document: str, kind: str, text: str) -> Response:
        """What a rule of one pattern would match, such as ``kind=scope`` and ``text=layers.3``."""
        return _answer(
            m.PatternMatches,
            await of(document, lambda opened: pattern_matches(opened.graph, kind, text)),
        )

    @router.get("/d/{document}/selection", response_model=m.Selection)
    async def select(document: str, where: str) -> Response:
        """The ops that a filter is true for."""

        def work(opened: Document) -> m.Selection:
            return {"ops": matching(opened.placement, where, lambda: op_costs(opened)[0])}

        return _answer(m.Selection, await of(document, work))


def _add_layouts(router: APIRouter, state: AppState) -> None:
    @router.get("/d/{document}/panes", response_model=m.Panes)
    async def panes(document: str, names: _Names) -> Response:
        """Up to four layouts side by side; they are solved where they were not yet."""

        def work() -> m.Panes:
            opened = state.document(document)
            return panes_data(opened, chosen_layouts(state, opened, names[:_MOST_PANES]))

        return _answer(m.Panes, await state.long_work.run(work))

    @router.get("/d/{document}/versions", response_model=m.Versions)
    async def versions(document: str, other: str) -> Response:
        """This model and that of another document, side by side."""

        def work() -> m.Versions:
            here, there = state.document(document), state.document(other)
            [ours], [theirs] = (chosen_layouts(state, each, [PRESENT]) for each in (here, there))
            found = diff_plans(here.plan, there.plan)
            return versions_data((here, ours), (there, theirs), found)

        return _answer(m.Versions, await state.long_work.run(work))

    @router.get("/d/{document}/advice/{idea}", response_class=Response)
    async def advised(document: str, idea: str) -> Response:
        """The model in which ops that fell back have another form, as a file; *Try other forms* makes it."""
        path = await asyncio.to_thread(state.advised_model, document, idea)
        return FileResponse(path, filename=path.name)

    @router.get("/d/{document}/comparison", response_class=Response)
    async def comparison(document: str, names: _Names) -> Response:
        """A standalone page of some layouts, as a file."""
        return _file(
            *await state.long_work.run(comparison_page, state, document, names[:MAX_COMPARED]),
            "text/html",
        )


def _add_runs(router: APIRouter, state: AppState) -> None:
    @router.post("/d/{document}/runs", response_model=m.Run)
    async def start(document: str, request: m.RunRequest) -> Response:
        """Starts a benchmark, a profile or a tuning; a document has one run at a time."""
        return _answer(m.Run, await state.long_work.run(start_run, state, document, request))

    @router.post("/d/{document}/runs/cancel", status_code=204)
    async def cancel(document: str) -> None:
        """Ends the run of a document."""
        benchmark = state.benchmarks.get(document)
        if benchmark is not None:
            await state.long_work.run(benchmark.job.cancel)

    @router.post("/d/{document}/runs/calibrate", response_model=m.Calibrated)
    async def calibrate(document: str) -> Response:
        """Corrects the profiles of the devices by the last benchmark."""
        opened = await asyncio.to_thread(state.document, document)
        try:
            said = await state.long_work.run(state.calibrate, opened)
        except TimeoutError as error:
            raise EditorError("The last run has not ended yet.") from error
        return _answer(m.Calibrated, {"text": said})

    @router.get("/d/{document}/runs/events", response_class=EventSourceResponse)
    async def follow(document: str) -> AsyncIterator[m.RunEvent]:
        """How far the run of a document is, until its end: server-sent events. Without a run there is one event."""
        async for event in follow_run(state, document):
            yield event


def _add_sets(router: APIRouter, state: AppState) -> None:
    @router.get("/set/{models}/export", response_class=Response)
    async def export(models: str, form: str) -> Response:
        """All models of a set in a format, with their plans and ``set.json``, as a zip file."""
        return _file(*await state.long_work.run(exported, state, models, form), "application/zip")


def _add_uploads(router: APIRouter, state: AppState) -> None:
    @router.put("/models/{upload}", status_code=204)
    async def receive(request: Request, upload: str, name: str) -> None:
        """Receives one file of an upload; ``upload`` is any id, ``name`` the file's path in the folder of the model."""
        await state.uploads.receive(upload, name, request.stream())

    @router.post("/models/{upload}", response_model=m.Uploaded)
    async def finish(upload: str) -> Response:
        """Says that all files were sent; the answer is the path of the model, to be opened."""
        path = await state.long_work.run(state.uploads.finish, upload)
        return _answer(m.Uploaded, {"path": str(path)})

    @router.post("/d/{document}/weights/{upload}", status_code=204)
    async def add_weights(document: str, upload: str) -> None:
        """Puts the files of an upload where the model of a document looks for its missing weights."""
        await state.long_work.run(state.add_weights, document, upload)


@lru_cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _answer(kind: Any, content: Any) -> Response:
    """Writes what the server made itself: it is not checked again."""
    return Response(_adapter(kind).dump_json(content), media_type="application/json")


def _file(name: str, content: bytes, kind: str) -> Response:
    """A file for the person to keep."""
    headers = {"content-disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}
    return Response(content, media_type=kind, headers=headers)


async def _refuse(_request: Request, error: Exception) -> Response:
    status = (
        503 if isinstance(error, WorkspaceError) else 404 if isinstance(error, PlanError) else 400
    )
    if isinstance(error, Cancelled):
        status = 409
    return JSONResponse({"detail": str(error)}, status)


async def _refuse_malformed(_request: Request, error: Exception) -> Response:
    faults = error.errors() if isinstance(error, RequestValidationError) else []
    return JSONResponse({"detail": m.describe(faults)}, 422)


def _ranges(text: str) -> list[int]:
    """Ops of ``3-5,9``.

    Raises:
        EditorError: it is not such a text.
    """
    found: list[int] = []
    for first, last in _pairs(text):
        found += range(first, min(last + 1, first + _MOST_HOVERED - len(found)))
    return found


def _pairs(text: str) -> list[tuple[int, int]]:
    """Numbers of ``3-5,9``; a single one is its own partner."""
    try:
        ends = [part.partition("-") for part in text.split(",")[:_MOST_HOVERED] if part]
        return [(_whole(a), _whole(b or a)) for a, _, b in ends]
    except ValueError:
        raise EditorError("ops and pairs are written as 3-5,9") from None


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 12):
        raise ValueError(text)
    return int(text)
