"""Start-up hook of the Dask workers of the embedded cluster."""

from __future__ import annotations

from typing import Any

from editor.execution.jobs.signals import receive


def dask_setup(_worker: Any) -> None:
    """Ignores Ctrl+C, which reaches every process of the terminal: the server shuts its workers down."""
    receive()
