"""Tokens that open the page, and the sessions that they begin. A token has 192 bits: nobody guesses one."""

from __future__ import annotations

import hmac
import json
import secrets
import time
from pathlib import Path

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
