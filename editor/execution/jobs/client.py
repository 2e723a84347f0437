"""A client of a Dask scheduler that never closes from the garbage collector."""

from __future__ import annotations

import contextlib
from typing import Any

from distributed import Client

_CLOSE_SECONDS = 2.0


class JobClient(Client):
    """Closes itself where it cannot connect, and only when it is told to otherwise.

    Dask leaves a client that could not connect to the garbage collector, which closes it. A collection may happen while
    another client starts its event loop; it then waits for a lock that its own thread holds, for ever.
    """

    def start(self, **options: Any) -> None:
        """Connects.

        Raises:
            OSError: the scheduler does not answer or refuses.
        """
        try:
            super().start(**options)
        except BaseException:
            with contextlib.suppress(
                Exception
            ):  # Dask raises many kinds of errors here; the one that counts is above
                self.close(timeout=_CLOSE_SECONDS)
            self._loop_runner.stop()  # its thread stays where the connection was closed before; a second stop does nothing
            raise

    def __del__(self) -> None:
        """Closes nothing: see the class."""
