"""Limits on what a connection may send, and how slowly."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from editor.web.security import Receive, Scope, Send

MAX_BODY = 32 << 20
"""Bytes of a request that is held in memory: strokes, and files of rules and affinities."""
HEADER_SECONDS = 15.0
"""Within these a connection must have sent a complete request head."""
BODY_SECONDS = 30.0
"""Longest pause within a body."""
_STREAMED = frozenset({"/_upload"})


class BodyLimit:
    """ASGI middleware: answers 413 to bodies that are too large, and 408 to those that stop coming."""

    def __init__(self, app: Any, max_body: int = MAX_BODY, pause: float = BODY_SECONDS) -> None:
        self.app, self.max_body, self.pause = app, max_body, pause

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, and watches its body."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        limit = None if scope["path"] in _STREAMED else self.max_body
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if limit is not None and (not declared.isdigit() or int(declared) > limit):
            await _answer(send, 413, f"A request may have {limit >> 20} MiB.")
            return
        seen, begun, complete, refused = 0, False, False, False

        async def refuse(status: int, text: str) -> Any:
            """Answers in the application's place, which is told that nobody is there any more."""
            nonlocal refused
            refused = True
            if not begun:
                await _answer(send, status, text)
            return {"type": "http.disconnect"}

        async def watched() -> Any:
            nonlocal seen, complete
            if complete or refused:  # what comes next is the end of the connection, and that may take its time
                return await receive() if not refused else {"type": "http.disconnect"}
            try:
                message = await asyncio.wait_for(receive(), self.pause)
            except TimeoutError:
                return await refuse(408, "The request came too slowly.")
            seen += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if limit is not None and seen > limit:
                return await refuse(413, f"A request may have {limit >> 20} MiB.")
            return message

        async def noting(message: Any) -> None:
            nonlocal begun
            if not refused:
                begun = True
                await send(message)

        await self.app(scope, watched, noting)


async def _answer(send: Send, status: int, text: str) -> None:
    await send({"type": "http.response.start", "status": status,
                "headers": [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]})
    await send({"type": "http.response.body", "body": text.encode()})


class PatientProtocol(HttpToolsProtocol):  # type: ignore[misc]  # httptools has no types
    """uvicorn's protocol, which otherwise waits forever for the head of a first request."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Starts the clock."""
        super().connection_made(transport)
        self._start_clock()

    def on_message_begin(self) -> None:
        """Starts the clock for a later request of the same connection."""
        self._start_clock()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Stops it: from here on the body and the pause between requests have limits of their own."""
        self._stop_clock()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops the clock."""
        self._stop_clock()
        super().connection_lost(exc)

    def _start_clock(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def _stop_clock(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()
