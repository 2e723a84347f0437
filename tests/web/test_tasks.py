"""Tasks say how far they are, and end when a person cancels them."""

from __future__ import annotations

import pytest

from editor.errors import Cancelled
from editor.web.tasks import TaskRegistry


def test_pages_of_a_document_hear_of_its_own_work_only() -> None:
    tasks = TaskRegistry()
    assert tasks.of("a") is None
    with tasks.begin("a", "Comparing sizes") as task:
        assert (
            tasks.of("a")
            == {"label": "Comparing sizes", "done": 0, "total": 0, "cancellable": True}
            and tasks.of("b") is None
        )
        task.step(1, 4, "batch=2")
        assert tasks.of("a") == {"label": "batch=2", "done": 1, "total": 4, "cancellable": True}
        with tasks.begin("a", "Writing files"):
            assert (tasks.of("a") or {})["label"] == "Writing files"
        assert (tasks.of("a") or {})["label"] == "batch=2"
    assert tasks.of("a") is None


def test_cancelled_work_ends_at_its_next_step_and_leaves_that_of_others_alone() -> None:
    tasks = TaskRegistry()
    with (
        tasks.begin("b", "other") as other,
        pytest.raises(Cancelled, match="Nothing was changed"),
        tasks.begin("a", "work") as task,
    ):
        tasks.cancel("a")
        assert task.should_stop() and not other.should_stop()
        task.step(1, 2, "more")
    assert tasks.of("a") is None
    tasks.cancel("a")  # of which there is none
