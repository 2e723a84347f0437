"""Limits on what a connection may send, and how slowly."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from editor.web.security import Receive, Scope, Send

MAX_BODY = 32 << 20
"""Bytes of a request that is held in memory: strokes, and files of rules and affinities."""
MAX_HEAD = 64 << 10
"""Bytes of the head of a request with its trailers, and of anything else that the parser keeps until it is complete."""
MAX_FIELDS = 100
"""Fields of a head and its trailers; browsers send about twenty."""
MAX_WAITING = 64
"""Requests that one connection may send before the first of them is answered; browsers send one."""
HEADER_SECONDS = 15.0
"""Within these a connection must have sent a complete request head."""
BODY_SECONDS = 30.0
"""Longest pause within a body."""
_PIECE = 4 << 10
"""Bytes that are parsed at once: by so much a head can exceed its limit before it is noticed."""
_LINGER_SECONDS = 1.0
"""What a refused client still sends is thrown away for so long: closed at once, it could miss the answer."""
_STREAMED = "/models/"
"""Files of uploads, whose size has a limit of its own."""


class BodyLimit:
    """ASGI middleware: answers 413 to bodies that are too large, and 408 to those that stop coming."""

    def __init__(self, app: Any, max_body: int = MAX_BODY, pause: float = BODY_SECONDS) -> None:
        self.app, self.max_body, self.pause = app, max_body, pause

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, and watches its body."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        is_file = scope["method"] == "PUT" and scope["path"].startswith(_STREAMED)
        limit = None if is_file else self.max_body
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if limit is not None and (not declared.isdigit() or int(declared) > limit):
            await _answer(send, 413, f"A request may have {limit >> 20} MiB.")
            return
        seen, begun, complete, refused = 0, False, False, False

        async def refuse(status: int, text: str) -> Any:
            """Sends the response and reports a disconnect to the application."""
            nonlocal refused
            refused = True
            if not begun:
                await _answer(send, status, text)
            return {"type": "http.disconnect"}

        async def watched() -> Any:
            nonlocal seen, complete
            if (
                complete or refused
            ):  # what comes next is the end of the connection, and that may take its time
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
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")],
        }
    )
    await send({"type": "http.response.body", "body": text.encode()})


class _RefusedError(Exception):
    """Ends the parsing of a connection."""


class PatientProtocol(HttpToolsProtocol):  # type: ignore[misc]  # httptools has no types
    """uvicorn's protocol, which otherwise waits forever for the head of a first request, and keeps one of any size."""

    _deadline: asyncio.TimerHandle | None = None
    _kept = 0
    """Bytes that came since the parser delivered a head or a piece of a body."""
    _head = _fields = 0
    """Size of the present head, and number of its fields."""
    _too_large = _refused = False

    def connection_made(self, transport: Any) -> None:
        """Starts the clock."""
        super().connection_made(transport)
        self._start_clock()

    def data_received(self, data: bytes) -> None:
        """Parses what came, piece by piece."""
        for start in range(0, len(data), _PIECE):
            if (
                self._refused or self.transport.get_protocol() is not self
            ):  # another after an upgrade to a WebSocket
                return
            piece = data[start : start + _PIECE]
            self._kept += len(piece)
            super().data_received(piece)
            if self._kept > MAX_HEAD and not self._refused:
                self._refuse(431)

    def on_message_begin(self) -> None:
        """Starts the clock for a later request of the same connection."""
        self._start_clock()
        self._kept = self._head = self._fields = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Counts the bytes of the address."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Counts a field of the head or of the trailers."""
        self._fields += 1
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Stops it: from here on the body and the pause between requests have limits of their own."""
        self._stop_clock()
        self._kept = 0
        if len(self.pipeline) >= MAX_WAITING:
            raise _RefusedError
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Passes on a piece of a body."""
        self._kept = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Ends a request."""
        self._kept = 0
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops the clock."""
        self._stop_clock()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answers what the parser, or a limit above, refused."""
        self._refuse(431 if self._too_large else 400)

    def _count(self, size: int) -> None:
        self._head += size
        self._too_large = self._head > MAX_HEAD or self._fields > MAX_FIELDS
        if self._too_large:
            raise _RefusedError

    def _refuse(self, status: int) -> None:
        """Answers, unless another answer has begun, and closes the connection."""
        self._refused = True
        self._stop_clock()
        self.pipeline.clear()
        begun = (
            self.cycle is not None
            and self.cycle.response_started
            and not self.cycle.response_complete
        )
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if begun:
            self.transport.close()
            return
        text = (
            f"The head of a request may have {MAX_HEAD >> 10} KiB and {MAX_FIELDS} fields."
            if status == 431
            else ("Invalid HTTP request received.")
        )
        self.transport.write(
            STATUS_LINE[status]
            + b"content-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n"
            b"connection: close\r\n\r\n%s" % (len(text), text.encode())
        )
        self.loop.call_later(_LINGER_SECONDS, self._give_up)

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
