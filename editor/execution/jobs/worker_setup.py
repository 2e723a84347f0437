"""What a Dask worker of the embedded cluster does when it starts."""

from __future__ import annotations

import signal
from typing import Any


def dask_setup(_worker: Any) -> None:
    """Ctrl+C in the terminal reaches all processes there, and is the server's: it ends its workers by itself."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
