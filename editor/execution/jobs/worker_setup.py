"""Start-up hook of the Dask workers of the embedded cluster."""

from __future__ import annotations

import signal
from typing import Any


def dask_setup(_worker: Any) -> None:
    """Ignores Ctrl+C, which reaches every process of the terminal: the server shuts its workers down."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
