"""The Dash application and the server that carries it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import logging
import re
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn
from dash import Dash, html
from dash.exceptions import DependencyException
from fastapi import HTTPException
from fastapi.responses import HTMLResponse, Response
from plotly.io.json import to_json_plotly

from editor.errors import EditorError
from editor.execution.jobs.preload import ModelPreloader
from editor.files import resource_dir
from editor.sandbox.jobs import JobService
from editor.sandbox.worker import ENDING, must_end
from editor.web import controls
from editor.web.app_state import AppState
from editor.web.callbacks import (
    benchmarking,
    clientside,
    comparing,
    device_editing,
    exporting,
    following,
    opening,
    phasing,
    sets,
)
from editor.web.drawing.preview import WAIT, preview
from editor.web.open_request import OpenRequest
from editor.web.page_files import BUNDLED, Bundles, StaticFileCache, scoped
from editor.web.request_limits import BodyLimit, PatientProtocol
from editor.web.routes import add_routes
from editor.web.security import LOOPBACK, Access, Guard, other_users
from editor.web.uploads import FORMATS
from editor.workspace.history import Store

log = logging.getLogger(__name__)
_FASTAPI_PAGES = frozenset({"/docs", "/docs/oauth2-redirect", "/redoc", "/openapi.json"})

# Dash's own, with a language, and without a footer that screen readers would announce. Scripts wait in a template; what they
# ask for first comes meanwhile.
_INDEX = """<!DOCTYPE html>
<html lang="en">
<head>{%metas%}<!--scheme--><title>{%title%}</title>{%favicon%}{%css%}
<link rel="preload" href="/_dash-layout" as="fetch" crossorigin>
<link rel="preload" href="/_dash-dependencies" as="fetch" crossorigin></head>
<body>{%app_entry%}<!--preview--><!--formats--><div hidden>{%config%}</div>
<template id="scripts">{%scripts%}{%renderer%}</template><!--later--><!--starter--></body>
</html>"""
# What opens, and what does not: told apart before anything is sent.
_FORMATS = '<script type="application/json" id="formats">{}</script>'.format(
    json.dumps(FORMATS).replace("<", "\\u003c")
)
_INLINE = re.compile(r"<script(?![^>]*\ssrc=)[^>]*>(.*?)</script>", re.S)


class _Page(Dash):
    """Dash with a picture of the graph in the frame that it sends before its scripts."""

    state: AppState
    bundles: Bundles
    script_hashes: set[str]
    """Of the scripts in the page itself, as a content security policy writes them."""

    def interpolate_index(self, **parts: str) -> str:
        """The page's HTML, for the address that is asked for."""
        parts["scripts"], later = self.bundles.divide(parts["scripts"])
        parts["css"] += self.bundles.styles_element()
        frame = str(super().interpolate_index(**parts))
        request = self.backend.request_adapter()
        path = request.path if request else "/"
        try:
            document = self.state.open_document(path)
            picture = (
                preview(document)
                if document
                else WAIT
                if path == "/" and self.state.opening_first
                else ""
            )
        except Exception as error:  # noqa: BLE001  # the page comes without it
            log.warning("no preview: %s", error)
            picture = ""
        script = self._inline("_first_view.js", "inline_preview.js") if picture else ""
        starter, scheme = self._inline("inline_start_scripts.js"), self._inline("inline_scheme.js")
        self.script_hashes.update(
            map(_hash, _INLINE.findall(frame + scheme + script + starter))
        )  # not what is in the picture
        return (
            frame.replace("<!--scheme-->", scheme, 1)
            .replace("<!--preview-->", picture + script, 1)
            .replace("<!--formats-->", _FORMATS, 1)
            .replace("<!--later-->", later, 1)
            .replace("<!--starter-->", starter, 1)
        )

    def _inline(self, *names: str) -> str:
        """Scripts of the assets as an element of the page: what must run before any file has been fetched."""
        folder = Path(self.config.assets_folder)
        return f"<script>{''.join(scoped(folder / name) for name in names)}</script>"


def _hash(script: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _tell(error: Exception) -> None:
    """Answers a request that the editor refuses with its message, not as an internal error."""
    if isinstance(error, EditorError):
        raise HTTPException(400, str(error)) from error
    raise error


def create_app(state: AppState) -> Dash:
    """The page and its callbacks."""
    app = _Page(
        "hetero_editor",
        backend="fastapi",
        assets_folder=str(resource_dir("assets")),
        title="Hetero Editor",
        update_title="",
        suppress_callback_exceptions=True,
        serve_locally=True,
        compress=True,
        on_error=_tell,
        assets_ignore=BUNDLED,
    )
    app.state, app.bundles, app.script_hashes = state, Bundles(resource_dir("assets")), set()
    app.index_string = _INDEX
    app.renderer = (
        "new DashRenderer({ layout_post: (layout) => window.hetero.placeFirstPage(layout) });"
    )
    app.layout = html.Div(
        [
            controls.Address(id="url"),
            controls.Store(id="scheme"),
            html.Div(html.Div("Opening …", className="empty"), id="page"),
        ]
    )
    opening.register(app, state)
    comparing.register(app, state)
    phasing.register(app, state)
    following.register(app, state)
    benchmarking.register(app, state)
    exporting.register(app, state)
    sets.register(app, state)
    device_editing.register(app, state)
    clientside.register(app)

    def show_page(path: str = "/") -> Response:
        """The components of a page, which the browser asks for while it still reads its scripts."""
        return Response(
            to_json_plotly(opening.page_at(state, path)),
            media_type="application/json",
            headers={"cache-control": "no-store"},
        )

    async def show_preview() -> Response:
        document = await state.long_work.run(state.wait_first)
        return (
            HTMLResponse(await asyncio.to_thread(preview, document))
            if document
            else Response(status_code=204)
        )

    app.server.add_exception_handler(
        DependencyException, lambda *_: Response("There is no such file.", 404)
    )

    # FastAPI's own pages about its routes load scripts from other hosts.
    app.server.router.routes = [
        r for r in app.server.router.routes if getattr(r, "path", "") not in _FASTAPI_PAGES
    ]
    app.bundles.serve(app.server)
    add_routes(app.server, state)
    app.server.add_api_route("/_page", show_page, include_in_schema=False)
    app.server.add_api_route("/_preview", show_preview, include_in_schema=False)
    return app


def serve(
    start: OpenRequest | None,
    host: str,
    port: int,
    show: Callable[[str], None] | None,
    workspace: str | None,
    jobs: JobService,
    early: ModelPreloader | None = None,
    roots: Sequence[str] = (),
    need_token: bool | None = None,
    devices: str | None = None,
) -> None:
    """Runs the editor until interrupted; ``show`` is given the address once it can be opened.

    Args:
        start: what to open first.
        host, port: where to listen.
        show: opens a browser.
        workspace: folder or database URL.
        jobs: for long work; closed at the end.
        early: reads the model of ``start`` already.
        roots: folders that pages may open files from, besides those of ``start``, the examples and the uploads; on
            loopback without any: everything.
        need_token: whether the page opens with a token only; default: where other people can reach the server.
        devices: what the start page proposes.

    Raises:
        EditorError: the workspace or the port cannot be used.
    """
    if must_end():
        return
    state = AppState(Store(workspace), jobs, start, resource_dir("examples"), early)
    state.devices = devices or state.devices
    if roots or host not in LOOPBACK:
        state.limit_paths(roots)
    if need_token is None:
        need_token = host not in LOOPBACK or bool(other_users())
    access = Access.of_workspace(state.store.folder) if need_token else None
    listening = _listen(host, port)
    state.begin()
    try:
        state.server_name = f"{socket.gethostname()}:{listening.getsockname()[1]}"
        app = create_app(state)
        if must_end():
            return
        port = listening.getsockname()[1]
        address = f"http://{'[::1]' if host == '::1' else host}:{port}/"
        print(
            f"Hetero Editor is at {address}{f'?token={access.token}' if access else ''}  (Ctrl+C ends it)",
            flush=True,
        )
        if show:
            threading.Timer(
                0.8, show, (f"{address}?token={access.ticket()}" if access else address,)
            ).start()
        cache = StaticFileCache(app.server)
        cache.warm()
        guarded = Guard(BodyLimit(cache), host, access, port, app.script_hashes)
        config = uvicorn.Config(
            guarded,
            log_level="warning",
            ws_max_size=1 << 24,
            http=PatientProtocol,
            timeout_graceful_shutdown=1,
        )
        server = uvicorn.Server(config)
        if threading.current_thread() is threading.main_thread():
            # uvicorn raises the signal that ended it once more; by default that would end us before the jobs are.
            for number in ENDING:
                signal.signal(number, lambda *_: setattr(server, "should_exit", True))
        server.should_exit = server.should_exit or must_end()
        server.run(sockets=[listening])
    finally:
        state.close()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise EditorError(
            f"cannot listen on {host}:{port} ({error.strerror}); try --port {port + 1}"
        ) from error
    listening.listen(128)
    return listening
