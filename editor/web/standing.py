"""Answers the question that every open page asks each second: is the server there, and has the document changed?"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from editor.errors import WorkspaceError
from editor.web.messages import Standing
from editor.web.work import Works
from editor.workspace.history import Store

_WAIT = 1.0
"""Seconds after which a database that does not answer is a problem."""


class StandingService:
    """Versions of documents. One query a document at a time, in threads of its own: a locked database blocks no strokes."""

    def __init__(self, store: Store, works: Works) -> None:
        self._store, self._works = store, works
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="standing")
        self._asked: dict[str, asyncio.Future[Standing]] = {}

    async def of(self, document: str) -> Standing:
        """Version of a document, or what is wrong with the workspace; and what is being worked on for it."""
        asked = self._asked.get(document)
        if asked is None:
            asked = self._asked[document] = asyncio.get_running_loop().run_in_executor(
                self._threads, self._read, document
            )
            asked.add_done_callback(lambda _: self._asked.pop(document, None))
        done, _ = await asyncio.wait([asked], timeout=_WAIT)
        if not done:
            problem = "The workspace does not answer; another program may hold its database."
            return {"version": 0, "problem": problem, "working": None}
        return asked.result()

    def _read(self, document: str) -> Standing:
        working = self._works.of(document)
        try:
            version = self._store.version(document)
        except WorkspaceError as error:
            return {"version": 0, "problem": str(error), "working": working}
        problem = "This document is not in the workspace any more." if version is None else ""
        return {"version": version or 0, "problem": problem, "working": working}
