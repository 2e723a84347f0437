"""A change after undo begins a branch; no step is ever lost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_document import make, open_again  # type: ignore[import-not-found]

from editor.graph.graph import Graph
from editor.workspace.folders import Author, acting_as
from editor.workspace.history import HistoryTree, Step, Store


def test_a_change_after_undo_keeps_what_was_undone_as_a_branch(
    mobilenet: Graph, tmp_path: Path
) -> None:
    store = Store(str(tmp_path))
    document = make(store, mobilenet)
    ops = np.flatnonzero(~mobilenet.op_is_constant).tolist()
    document.paint(ops[:3], 1)
    document.paint(ops[3:6], 1)
    before = document.placement.affinity
    document.undo()
    document.paint(ops[8:9], 1)
    assert [(step.number, step.parent) for step in document.history.steps] == [
        (0, None),
        (1, 0),
        (2, 1),
        (3, 1),
    ]
    assert document.history.branch == [0, 1, 3] and not document.can_redo
    for again in (document, open_again(store, mobilenet, document.id)):
        assert again.go(2) and again.placement.affinity == before
        assert again.history.branch == [0, 1, 2]
        again.undo()
        again.redo()
        assert again.placement.affinity == before, "redo stays on the branch that was gone to"


def test_going_back_to_a_fork_leads_to_the_newest_end_of_the_branch(
    mobilenet: Graph, tmp_path: Path
) -> None:
    document = make(Store(str(tmp_path)), mobilenet)
    for op in (0, 1):
        document.paint([op], 1)
    document.go(0)
    for op in (2, 3):
        document.paint([op], 1)
    document.go(1)
    assert document.history.branch == [0, 1, 2] and document.redo()
    assert set(document.placement.settings.pins) == {mobilenet.op_keys[op] for op in (0, 1)}


def test_every_change_says_who_made_it(mobilenet: Graph, tmp_path: Path) -> None:
    document = make(Store(str(tmp_path)), mobilenet)
    with acting_as(Author("p", 7, "tab 2", "box:8050")):
        document.paint([3], 1)
        document.undo()
    document.redo()
    changes = document.changes(0)
    assert [change.what.split()[0] for change in changes] == [
        document.history.steps[1].label.split()[0],
        "undo",
        "redo",
    ]
    assert [change.author.name for change in changes] == ["tab 2", "tab 2", ""]
    assert document.history.steps[1].author == "tab 2"
    assert changes[0].author.seen_from("box:8050") == "tab 2"
    assert changes[0].author.seen_from("box:8051") == "tab 2 of box:8050"
    assert document.store.last_sequence("p") == 7 and document.store.last_sequence("q") == 0


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.one_of(st.just("paint"), st.just("undo"), st.just("redo"), st.integers(0, 12)),
        max_size=25,
    )
)
def test_any_walk_through_a_tree_keeps_every_step_reachable(walk: list[str | int]) -> None:
    tree = HistoryTree([Step(0, None, "open", "")], 0, 0)
    for action in walk:
        if action == "paint":
            number = len(tree.steps)
            tree = tree.grown(Step(number, tree.cursor, f"{number}", ""))
        else:
            goal = {"undo": tree.undo_target, "redo": tree.redo_target}.get(str(action), action)
            if isinstance(goal, int) and goal < len(tree.steps):
                tree = tree.moved(goal)
        assert tree.branch[0] == 0 and tree.cursor in tree.branch and tree.branch[-1] == tree.tip
        assert [step.number for step in tree.steps] == list(range(len(tree.steps)))
        for number in range(len(tree.steps)):
            assert tree.moved(number).cursor == number
        if tree.undo_target is not None:
            assert tree.moved(tree.undo_target).redo_target == tree.cursor, (
                "undo and redo are inverse"
            )


@pytest.mark.parametrize("steps", [300])
def test_a_long_history_is_stored_step_by_step(
    mobilenet: Graph, tmp_path: Path, steps: int
) -> None:
    store = Store(str(tmp_path))
    record = store.create("m", "/m.onnx", "ff", {}, {"n": 0})
    for n in range(steps):
        store.append(record.id, n, f"step {n + 1}", {"n": n + 1}, n)
    assert (
        store.decisions(record.id, 250) == {"n": 250}
        and len(store.steps(record.id, after=290)) == 10
    )
    stored = store.get(record.id)
    assert stored is not None and (stored.version, stored.cursor, stored.tip) == (
        steps,
        steps,
        steps,
    )
