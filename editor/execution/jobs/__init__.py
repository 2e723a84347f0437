"""Long work of the page and of commands."""

from __future__ import annotations

from editor.sandbox.jobs import JobService


def job_service(scheduler: str | None) -> JobService:
    """Runs jobs on the workers of a Dask scheduler; without one, on this machine."""
    if not scheduler:
        return JobService()
    from editor.execution.machines.dask_jobs import DaskJobs  # takes a second

    return DaskJobs(scheduler)
