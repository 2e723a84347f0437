"""Who may talk to the server: pages of this server only, from this machine unless a token says otherwise.

Tokens open the page, and begin sessions; hosts that are shared need one. A token has 192 bits and cannot be guessed.
"""

from __future__ import annotations

import getpass
import hmac
import json
import os
import secrets
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, MutableMapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import psutil

from editor.files import write_atomic

_KEPT_SECONDS = 7 * 24 * 3600


class Access:
    """Who may come in: the token, a ticket that is good once, or the cookie of a session that one of them began."""

    def __init__(self, token: str, session: str = "") -> None:
        self.token, self.session = token, session or secrets.token_urlsafe(32)
        self._tickets: set[str] = set()

    @classmethod
    def of_workspace(cls, folder: Path) -> Access:
        """The token and session that are kept in a workspace, so that open pages go on when the server is started again.

        Raises:
            ExportError: the folder cannot be written to.
        """
        path = folder / "access.json"
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            if time.time() - float(kept["made"]) < _KEPT_SECONDS:
                return cls(str(kept["token"]), session=str(kept["session"]))
        except (OSError, ValueError, KeyError, TypeError):
            pass  # there is none yet, or it is damaged
        made = cls(secrets.token_urlsafe(24))
        write_atomic(
            path,
            json.dumps({"token": made.token, "session": made.session, "made": time.time()}),
            private=True,
        )
        return made

    def ticket(self) -> str:
        """A token for one visit: the address that a browser is started with can be read by others of this machine."""
        made = secrets.token_urlsafe(24)
        self._tickets.add(made)
        return made

    def session_is_open(self, cookie: str) -> bool:
        """Whether a cookie is that of this server."""
        return hmac.compare_digest(cookie.encode(), self.session.encode())

    def accepts(self, token: str) -> bool:
        """Whether a token opens the page; a ticket is used up by that."""
        right = hmac.compare_digest(token.encode(), self.token.encode())
        for ticket in tuple(self._tickets):
            if hmac.compare_digest(token.encode(), ticket.encode()):
                self._tickets.discard(ticket)
                right = True
        return right


# ---- shared hosts, where loopback access does not imply the owner ----

_FIRST_PERSON = 1000
"""Lower user ids are of services."""
_NO_SHELL = frozenset({"nologin", "false", "sync", "halt", "shutdown", ""})


def other_users(
    accounts: Iterable[Any] | None = None, logged_in: Iterable[str] | None = None
) -> list[str]:
    """Names of other people who have an account with a shell, or are logged in; sorted.

    Args:
        accounts: entries of ``pwd``; default: those of this machine, where it has such a list.
        logged_in: names; default: those who are logged in now.
    """
    if sys.platform == "win32":
        return sorted(set(_logged_in() if logged_in is None else logged_in) - {_own_name()})
    import pwd

    own = os.getuid()
    listed = list(pwd.getpwall() if accounts is None else accounts)
    people = {
        a.pw_name
        for a in listed
        if a.pw_uid >= _FIRST_PERSON and a.pw_uid != own and Path(a.pw_shell).name not in _NO_SHELL
    }
    mine = {a.pw_name for a in listed if a.pw_uid == own} | {_own_name()}
    return sorted(people | set(_logged_in() if logged_in is None else logged_in) - mine)


def _own_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run with a number that no account has
        return ""


def _logged_in() -> list[str]:
    try:
        return [user.name for user in psutil.users()]
    except (OSError, psutil.Error):
        return []


Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_ONCE = ("host", "origin", "content-length", "content-type")
"""Headers of which a second one could make this check and the application go by different values."""
_POLICY = (
    "default-src 'self'; script-src 'self'%s; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; worker-src 'self' blob:; frame-src 'self' blob: data:; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""Nothing from other hosts, and no other site may frame the page. Of inline scripts only those with these hashes run.
Styles may stand in the page: the grids and Plotly write their own at run time, without a nonce."""
_HEADERS = (
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)


class Guard:
    """ASGI middleware: checks Host, Origin and, where other people can reach the server, a token.

    The Host check stops DNS rebinding, the Origin check stops other sites' pages from posting here.
    """

    def __init__(
        self,
        app: Any,
        host: str,
        access: Access | None,
        port: int = 0,
        script_hashes: Collection[str] = (),
    ) -> None:
        self.app, self.access, self.script_hashes = app, access, script_hashes
        self.cookie = f"hetero_token_{port}" if port else "hetero_token"
        """With the port: servers beside each other share a host, and so its cookies."""
        self.hosts = {*LOOPBACK} if host in LOOPBACK else None
        """None: any name, because the token protects."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, or answers it with 400 or 403."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}
        refusal = self._refuse(headers, [name.decode("latin-1") for name, _ in scope["headers"]])
        if refusal:
            await self._answer(scope, send, *refusal)
            return
        if self.access is None or self.access.session_is_open(self._cookie_of(headers)):
            await self.app(scope, receive, self._with_headers(send))
            return
        await self._begin_session(self.access, headers, scope, receive, send)

    def _refuse(self, headers: dict[str, str], names: list[str]) -> tuple[int, str] | None:
        twice = next((name for name in _ONCE if names.count(name) > 1), "")
        if twice:
            return 400, f"A request has one {twice} header."
        host = headers.get("host", "")
        if self.hosts is not None and _host_name(host) not in self.hosts:
            return 403, "This server answers only to its own name (127.0.0.1 or localhost)."
        origin = headers.get("origin")
        if origin == "null":
            return 403, "Requests with a null origin are refused."
        if origin and _netloc(origin) != host:
            return 403, "Requests from other sites are refused."
        return None

    async def _begin_session(
        self, access: Access, headers: dict[str, str], scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Lets in who brings the token; a browser is sent on to the address without it, which it may keep."""
        query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
        token = query.pop("token", [""])[0]
        if token and access.accepts(token):
            new = (
                b"set-cookie",
                f"{self.cookie}={access.session}; HttpOnly; SameSite=Strict; Path=/".encode(),
            )
            if (
                scope["type"] == "http"
                and scope.get("method") == "GET"
                and "text/html" in headers.get("accept", "")
            ):
                # One slash: an address that begins with two would lead to another host.
                path, rest = (
                    quote(scope.get("path", "/").lstrip("/\\")),
                    urlencode(query, doseq=True),
                )
                place = f"/{path}?{rest}" if rest else f"/{path}"
                await self._answer(scope, send, 303, "", (b"location", place.encode()), new)
            else:
                await self.app(scope, receive, self._with_headers(send, new))
        else:
            await self._answer(
                scope,
                send,
                403,
                "Open the address with its token, as printed where the server was started.",
            )

    async def _answer(
        self, scope: Scope, send: Send, status: int, text: str, *headers: tuple[bytes, bytes]
    ) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 4000 + status, "reason": text})
            return
        send = self._with_headers(send, *headers)
        await send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [(b"content-type", b"text/plain; charset=utf-8")],
            }
        )
        await send({"type": "http.response.body", "body": text.encode()})

    def _with_headers(self, send: Send, *more: tuple[bytes, bytes]) -> Send:
        """Adds the headers that protect the page."""

        async def wrapped(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                hashes = "".join(
                    f" '{each}'" for each in sorted(self.script_hashes)
                )  # known once the page has been made
                policy = (b"content-security-policy", (_POLICY % hashes).encode())
                message = {
                    **message,
                    "headers": [*message.get("headers", ()), *more, policy, *_HEADERS],
                }
            await send(message)

        return wrapped

    def _cookie_of(self, headers: dict[str, str]) -> str:
        """The one cookie that counts: other programs on this host may have set any others."""
        pairs = (pair.strip().partition("=") for pair in headers.get("cookie", "").split(";"))
        return next((value.strip('"') for name, _, value in pairs if name == self.cookie), "")


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
