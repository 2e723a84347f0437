"""Long work of the server: threads for it, how far it is, its end on request, and what pages ask about it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from typing import ParamSpec, TypeVar
from weakref import WeakValueDictionary

from editor.errors import Cancelled, WorkspaceError
from editor.web.messages import Progress, Status
from editor.workspace.history import Store

P = ParamSpec("P")
R = TypeVar("R")
_THREADS = 32
_WAIT = 1.0
"""Seconds after which a database that does not answer is a problem."""


class LongWork:
    """Runs functions in threads that ``asyncio.to_thread`` does not use, so that tooltips and searches never wait for them."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="long")
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def run(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Returns what a function returns, without blocking the event loop."""
        run = copy_context().run
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, lambda: run(function, *args, **kwargs)
        )

    async def in_turn(
        self, page: str, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Does the same once the earlier calls of the page are done; those that wait need no thread."""
        async with self._turns.setdefault(page, asyncio.Lock()):
            return await self.run(function, *args, **kwargs)


class Task:
    """One piece of work that a page waits for."""

    def __init__(self, label: str, cancellable: bool) -> None:
        self.progress: Progress = {
            "label": label,
            "done": 0,
            "total": 0,
            "cancellable": cancellable,
        }
        self._cancelled = threading.Event()

    def step(self, done: int, total: int, label: str) -> None:
        """Says what comes next, after ``done`` of ``total`` steps.

        Raises:
            Cancelled: a person ended the task.
        """
        if self.should_stop():
            raise Cancelled
        self.progress = {**self.progress, "label": label, "done": done, "total": total}

    def should_stop(self) -> bool:
        """Whether a person ended it."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Ends it at its next step."""
        self._cancelled.set()


class TaskRegistry:
    """The tasks under way, by document."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: dict[str, list[Task]] = {}

    @contextmanager
    def begin(self, document: str, label: str, cancellable: bool = True) -> Iterator[Task]:
        """A task for the pages of a document; one that is not ``cancellable`` has no steps at which it could end."""
        task = Task(label, cancellable)
        with self._lock:
            self._of.setdefault(document, []).append(task)
        try:
            yield task
        finally:
            with self._lock:
                self._of[document].remove(task)
                if not self._of[document]:
                    del self._of[document]

    def of(self, document: str) -> Progress | None:
        """The task that began last for a document."""
        with self._lock:
            return self._of[document][-1].progress if document in self._of else None

    def cancel(self, document: str) -> None:
        """Ends all tasks of a document."""
        with self._lock:
            for task in self._of.get(document, ()):
                task.cancel()


class StatusService:
    """Answers what every open page asks twice a second: is the server there, and has the document changed?

    One query a document at a time, in threads of its own: a locked database blocks no edits.
    """

    def __init__(self, store: Store, tasks: TaskRegistry) -> None:
        self._store, self._tasks = store, tasks
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="status")
        self._asked: dict[str, asyncio.Future[Status]] = {}

    async def of(self, document: str) -> Status:
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

    def _read(self, document: str) -> Status:
        working = self._tasks.of(document)
        try:
            version = self._store.version(document)
        except WorkspaceError as error:
            return {"version": 0, "problem": str(error), "working": working}
        problem = "This document is not in the workspace any more." if version is None else ""
        return {"version": version or 0, "problem": problem, "working": working}
