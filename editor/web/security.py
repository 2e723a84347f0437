"""Who may talk to the server: pages of this server only, from this machine unless a token says otherwise."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_COOKIE = "hetero_token"
_POLICY = ("default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
           "img-src 'self' data: blob:; font-src 'self' data:; worker-src 'self' blob:; frame-src 'self' blob: data:; "
           "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
"""Nothing from other hosts, and no other site may frame the page. Dash needs inline scripts, and its grids ``eval``."""
_HEADERS = ((b"content-security-policy", _POLICY.encode()), (b"x-frame-options", b"DENY"),
            (b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer"))


class Guard:
    """ASGI middleware: checks Host, Origin and, off the loopback, a token.

    The Host check stops DNS rebinding, the Origin check stops other sites' pages from posting here.
    """

    def __init__(self, app: Any, host: str, token: str | None) -> None:
        self.app, self.token = app, token
        self.hosts = {*LOOPBACK} if host in LOOPBACK else None
        """None: any name, because the token protects."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, or answers it with 403."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
        reason = self._refuse(headers, scope)
        if reason:
            await _forbid(scope, send, reason)
            return
        if scope["type"] == "http":
            cookie = self.token if self.token and self._token_in_query(scope) else None
            send = _with_headers(send, cookie)
        await self.app(scope, receive, send)

    def _refuse(self, headers: dict[str, str], scope: Scope) -> str:
        host = headers.get("host", "")
        if self.hosts is not None and _host_name(host) not in self.hosts:
            return "This server answers only to its own name (127.0.0.1 or localhost)."
        origin = headers.get("origin")
        if origin and origin != "null" and _netloc(origin) != host:
            return "Requests from other sites are refused."
        if origin == "null":
            return "Requests from nowhere are refused."
        if self.token and not (self._token_in_query(scope) or self._token_in_cookie(headers)):
            return "Open the address with its token, as printed where the server was started."
        return ""

    def _token_in_query(self, scope: Scope) -> bool:
        given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [""])[0]
        return hmac.compare_digest(given.encode(), (self.token or "").encode())

    def _token_in_cookie(self, headers: dict[str, str]) -> bool:
        """Reads the one cookie that counts: other programs on this host may have set any others."""
        pairs = (pair.strip().partition("=") for pair in headers.get("cookie", "").split(";"))
        given = next((value.strip('"') for name, _, value in pairs if name == _COOKIE), "")
        return hmac.compare_digest(given.encode(), (self.token or "").encode())


def _host_name(host: str) -> str:
    """The name in a Host header; "" where there is none or it cannot be parsed."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _netloc(origin: str) -> str:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


async def _forbid(scope: Scope, send: Send, reason: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 4403, "reason": reason})
        return
    await send({"type": "http.response.start", "status": 403,
                "headers": [(b"content-type", b"text/plain; charset=utf-8"), *_HEADERS]})
    await send({"type": "http.response.body", "body": reason.encode()})


def _with_headers(send: Send, token: str | None) -> Send:
    """Adds the headers that protect the page, and the cookie with the token where one is given."""
    async def wrapped(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            cookie = [(b"set-cookie", f"{_COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/".encode())] if token else []
            message = {**message, "headers": [*message.get("headers", ()), *cookie, *_HEADERS]}
        await send(message)
    return wrapped
