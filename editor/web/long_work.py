"""Threads for what may take seconds, so that tooltips, searches and the inspector never wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import ParamSpec, TypeVar
from weakref import WeakValueDictionary

P = ParamSpec("P")
R = TypeVar("R")
_THREADS = 32


class LongWork:
    """Runs functions in threads that ``asyncio.to_thread`` does not use."""

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
