"""Command that offers this machine's devices to a scheduler: ``worker``."""

from __future__ import annotations

import argparse
import platform

from editor.execution.machines.worker import DEFAULT_CACHE, WorkerOptions, serve
from editor.limits import size_in_bytes
from editor.runtimes.machines.connection import connection_of


def worker(options: argparse.Namespace) -> int:
    """Runs until it is interrupted."""
    connection = connection_of(options)
    memory = size_in_bytes("--memory-limit", options.memory_limit) if options.memory_limit else None
    cache = size_in_bytes("--cache", options.cache) if options.cache else DEFAULT_CACHE
    serve(WorkerOptions(connection, options.name or platform.node().partition(".")[0] or "worker",
                        tuple(name.strip() for name in options.offer.split(",") if name.strip()), memory, cache,
                        options.threads, options.host))
    return 0
