"""Tokens that open the page, the sessions that they begin, and a brake on guessing."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from editor.files import write_atomic

FREE_TRIES = 10
"""Wrong tokens from one address before it has to wait."""
LONGEST_WAIT = 60
"""Seconds."""
_KEPT_SECONDS = 7 * 24 * 3600
_ADDRESSES = 1000
"""So many are remembered; the one that tried first is forgotten first."""


@dataclass
class _Tries:
    wrong: set[bytes] = field(default_factory=set)
    """Hashes: an old page that comes again and again with the cookie of an earlier server guesses nothing."""
    count: int = 0
    until: float = 0.0


class Access:
    """Who may come in: the token, a ticket that is good once, or the cookie of a session that one of them began."""

    def __init__(self, token: str, now: Callable[[], float] = time.monotonic, session: str = "") -> None:
        self.token, self.session = token, session or secrets.token_urlsafe(32)
        self._tickets: set[str] = set()
        self._tries: dict[str, _Tries] = {}
        self._now = now

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
        write_atomic(path, json.dumps({"token": made.token, "session": made.session, "made": time.time()}), private=True)
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

    def wait(self, address: str) -> int:
        """Seconds until an address may try again; 0: now."""
        tries = self._tries.get(address)
        return 0 if tries is None else max(0, int(-(-(tries.until - self._now()) // 1)))

    def note_wrong(self, address: str, value: str) -> None:
        """Counts a wrong token; after ten, each one doubles the time until the next."""
        if len(self._tries) >= _ADDRESSES and address not in self._tries:
            del self._tries[next(iter(self._tries))]
        tries = self._tries.setdefault(address, _Tries())
        digest = hashlib.sha256(value.encode()).digest()
        if digest in tries.wrong:
            return
        if len(tries.wrong) < FREE_TRIES * 10:
            tries.wrong.add(digest)
        tries.count += 1
        if tries.count >= FREE_TRIES:
            tries.until = self._now() + min(LONGEST_WAIT, 2 ** min(tries.count - FREE_TRIES, 10))
