"""Names of this machine's processors."""

from __future__ import annotations

import platform
from functools import cache


@cache
def cpu_name() -> str:
    """The processor's full name where the system reports it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
