"""Scripts and styles, compressed once instead of at every request."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from typing import Any

from editor.web.security import Receive, Scope, Send

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
