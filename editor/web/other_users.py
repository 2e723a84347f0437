"""Detects shared hosts, where loopback access does not imply the owner."""

from __future__ import annotations

import getpass
import os
import pwd
from collections.abc import Iterable
from pathlib import Path

import psutil

_FIRST_PERSON = 1000
"""Lower user ids are of services."""
_NO_SHELL = frozenset({"nologin", "false", "sync", "halt", "shutdown", ""})


def other_users(
    accounts: Iterable[pwd.struct_passwd] | None = None, logged_in: Iterable[str] | None = None
) -> list[str]:
    """Names of other people who have an account with a shell, or are logged in; sorted.

    Args:
        accounts: default: those of this machine.
        logged_in: names; default: those who are logged in now.
    """
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
