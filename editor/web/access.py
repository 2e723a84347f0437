"""Tokens that open the page, the sessions that they begin, and hosts that are shared, where a token is needed.

A token has 192 bits and cannot be guessed.
"""

from __future__ import annotations

import getpass
import hmac
import json
import os
import secrets
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

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
