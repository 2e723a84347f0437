"""The page's own scripts and styles as one file each, compressed once; and which of Dash's scripts a page starts with.

A page that fetches sixty files waits for them longer than it takes to run them.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import threading
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.responses import Response

from editor.web.security import Receive, Scope, Send

_SCRIPT = re.compile(r'<script src="([^"]+)"></script>')
_LATER = {"after-graph": ("/polyfill@", "/dash_core_components"), "tables": ("/dash_ag_grid/",)}
"""Scripts that wait, by what they wait for: that the graph is on the screen, or the first table. The polyfill is what browsers
of before 2020 lack, and Plotly asks for; it also replaces parts that every browser has by slower ones. Charts, uploads and
downloads are Dash's core components."""
_NEVER = "/dash_table/"
"""Dash's own tables, which no page has."""
_FONT = "/assets/fonts/inter-latin.woff2"
BUNDLED = r"^inline_|\.(js|css)$"
"""Files of the assets that Dash must not link to by itself."""


def scoped(script: Path) -> str:
    """A script in a function of its own, so that its names are not those of others: `editor` there is `window.hetero`, and
    `page` the state of the page."""
    text = script.read_text(encoding="utf-8")
    return (
        f'((editor, page) => {{\n"use strict";\n{text}\n}})(window.hetero, window.hetero?.page);\n'
    )


@dataclass(frozen=True)
class Bundle:
    """A number of files behind each other."""

    files: tuple[Path, ...]
    kind: str
    """"js" or "css"."""

    @cached_property
    def content(self) -> bytes:
        """All files, each with its name, which errors and the browser's tools then show."""

        def text(file: Path) -> str:
            return scoped(file) if self.kind == "js" else file.read_text(encoding="utf-8")

        parts = [f"/* {file.name} */\n{text(file)}" for file in self.files]
        return "\n".join(parts).encode()

    @cached_property
    def address(self) -> str:
        """Changes with the content, so that browsers may keep it."""
        return f"/_bundle/{hashlib.sha256(self.content).hexdigest()[:16]}.{self.kind}"

    async def answer(self) -> Response:
        """To a request for it."""
        media = {"js": "text/javascript", "css": "text/css"}[self.kind]
        return Response(
            self.content,
            media_type=media,
            headers={"cache-control": "public, max-age=31536000, immutable"},
        )


class Bundles:
    """The scripts and styles in a folder of assets, in the order of their names."""

    def __init__(self, folder: Path) -> None:
        def files(suffix: str) -> tuple[Path, ...]:
            return tuple(
                sorted(
                    path
                    for path in folder.rglob(f"*{suffix}")
                    if not path.name.startswith("inline_")
                )
            )

        self.scripts, self.styles = Bundle(files(".js"), "js"), Bundle(files(".css"), "css")

    def serve(self, server: FastAPI) -> None:
        """Adds their addresses."""
        for bundle in (self.scripts, self.styles):
            server.add_api_route(bundle.address, bundle.answer, include_in_schema=False)

    def styles_element(self) -> str:
        """Links to the styles, and to the font, which would else be asked for when the first text is drawn."""
        font = f'<link rel="preload" href="{_FONT}" as="font" type="font/woff2" crossorigin>'
        return f'{font}<link rel="stylesheet" href="{self.styles.address}">'

    def divide(self, scripts: str) -> tuple[str, str]:
        """Elements of the scripts that a page starts with, ours at their end; and templates of those that wait.

        Args:
            scripts: the elements that Dash would put into its page.
        """
        addresses = [address for address in _SCRIPT.findall(scripts) if _NEVER not in address]
        later = {
            name: [a for a in addresses if any(part in a for part in parts)]
            for name, parts in _LATER.items()
        }
        now = [a for a in addresses if not any(a in each for each in later.values())]
        return (
            "".join(map(_element, [*now, self.scripts.address])) + _SCRIPT.sub("", scripts),
            "".join(
                f'<template id="scripts-{name}">{"".join(map(_element, each))}</template>'
                for name, each in later.items()
            ),
        )


def _element(address: str) -> str:
    return f'<script src="{address}"></script>'


log = logging.getLogger(__name__)

_KEPT = ("/_dash-component-suites/", "/assets/", "/_bundle/")
_MOST = 300
"""Answers. Queries do not count: they name the version of a file, and anybody can make up more."""
_LINK = re.compile(r'(?:src|href)="(/[^"]+)"')


class StaticFileCache:
    """ASGI middleware: keeps what the application answered to requests for its static files.

    Their addresses change with their content, so an answer stays right as long as the server runs.
    """

    def __init__(self, app: Any) -> None:
        self.app = app
        self._kept: dict[tuple[str, bool], list[Any]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers from the cache, or passes on and keeps the answer."""
        if (
            scope["type"] != "http"
            or scope["method"] != "GET"
            or not scope["path"].startswith(_KEPT)
        ):
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        key = (scope["path"], b"gzip" in headers.get(b"accept-encoding", b""))
        if b"if-none-match" in headers or key not in self._kept:
            messages: list[Any] = []

            async def listen(message: Any) -> None:
                messages.append(message)
                await send(message)

            await self.app(scope, receive, listen)
            if messages and messages[0].get("status") == 200 and len(self._kept) < _MOST:
                self._kept[key] = messages
            return
        for message in self._kept[key]:
            await send(message)

    def warm(self) -> None:
        """Asks for the page, so that Dash collects its files, and compresses them in a thread, which takes long."""

        async def fetch(address: str, encoding: bytes) -> bytes:
            path, _, query = address.partition("?")
            parts: list[bytes] = []
            asked = [{"type": "http.request", "body": b"", "more_body": False}]

            async def receive() -> Any:
                if not asked:
                    await (
                        asyncio.Event().wait()
                    )  # the next request waits for the end of the connection
                return asked.pop()

            async def send(message: Any) -> None:
                parts.append(message.get("body", b""))

            await self(
                {
                    "type": "http",
                    "asgi": {"version": "3.0"},
                    "http_version": "1.1",
                    "method": "GET",
                    "scheme": "http",
                    "path": path,
                    "raw_path": path.encode(),
                    "query_string": query.encode(),
                    "root_path": "",
                    "headers": [(b"host", b"127.0.0.1"), (b"accept-encoding", encoding)],
                    "client": ("127.0.0.1", 0),
                    "server": ("127.0.0.1", 0),
                    "state": {},
                },
                receive,
                send,
            )
            return b"".join(parts)

        async def fill() -> None:
            for address in _LINK.findall(page):
                if address.startswith(_KEPT):
                    await fetch(address, b"gzip")

        page = asyncio.run(fetch("/", b"identity")).decode()

        def work() -> None:
            try:
                asyncio.run(fill())
            except Exception as error:  # noqa: BLE001  # then they are compressed when they are asked for
                log.info("static files are not prepared: %s", error)

        threading.Thread(target=work, daemon=True).start()
