"""Long work says how far it is, and ends when nobody waits any more."""

from __future__ import annotations

import pytest

from editor.errors import Cancelled
from editor.web.work import Works


def test_pages_of_a_document_hear_of_its_own_work_only() -> None:
    works = Works()
    assert works.of("a") is None
    with works.begin("a", "Comparing sizes") as work:
        assert (
            works.of("a") == {"words": "Comparing sizes", "done": 0, "total": 0, "canEnd": True}
            and works.of("b") is None
        )
        work.step(1, 4, "batch=2")
        assert works.of("a") == {"words": "batch=2", "done": 1, "total": 4, "canEnd": True}
        with works.begin("a", "Writing files"):
            assert (works.of("a") or {})["words"] == "Writing files"
        assert (works.of("a") or {})["words"] == "batch=2"
    assert works.of("a") is None


def test_cancelled_work_ends_at_its_next_step_and_leaves_that_of_others_alone() -> None:
    works = Works()
    with (
        works.begin("b", "other") as other,
        pytest.raises(Cancelled, match="Nothing was changed"),
        works.begin("a", "work") as work,
    ):
        works.cancel("a")
        assert work.should_stop() and not other.should_stop()
        work.step(1, 2, "more")
    assert works.of("a") is None
    works.cancel("a")  # of which there is none
