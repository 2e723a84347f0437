"""Settings of Dask for clusters of one or a few workers, which wait most of the time and then measure."""

from __future__ import annotations

from collections.abc import Mapping

QUIET: Mapping[str, object] = {
    "distributed.admin.low-level-log-length": 0,
    "distributed.admin.tick.interval": "1s",  # looks at its event loop 50 times a second otherwise
    "distributed.admin.tick.cycle": "5s",
    "distributed.worker.profile.enabled": False,  # looks at the stacks of running jobs 100 times a second otherwise
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.active-memory-manager.start": False,
}
"""What idle clusters do without, and what would disturb measurements."""
