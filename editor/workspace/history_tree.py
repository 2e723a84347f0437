"""The steps of a document as a tree: a change after undo begins a branch, and nothing is ever lost."""

from __future__ import annotations

from collections.abc import Sequence

from editor.workspace.history import Step


class HistoryTree:
    """Steps, the current one, and the branch that it is on. Immutable."""

    def __init__(self, steps: Sequence[Step], cursor: int, tip: int) -> None:
        """A tree.

        Args:
            steps: by number, from 0.
            cursor: number of the current step.
            tip: last step of the current branch.
        """
        self.steps, self.cursor, self.tip = list(steps), cursor, tip
        self.branch = self._path(tip)
        """Numbers of the steps from the first to the tip."""

    @property
    def current(self) -> Step:
        """The step that the plan shows."""
        return self.steps[self.cursor]

    @property
    def undone(self) -> int | None:
        """The step that undo goes to."""
        return self.current.parent

    @property
    def redone(self) -> int | None:
        """The step that redo goes to."""
        place = self.branch.index(self.cursor) + 1
        return self.branch[place] if place < len(self.branch) else None

    def moved(self, number: int) -> HistoryTree:
        """The tree with another current step; a step of another branch brings that branch's latest end with it."""
        return HistoryTree(self.steps, number, self.tip if number in self.branch else self._latest_end(number))

    def grown(self, step: Step) -> HistoryTree:
        """The tree with one step more, which is the current one."""
        return HistoryTree([*self.steps, step], step.number, step.number)

    def words(self, number: int) -> str:
        """What going from the current step to another is called."""
        if number == self.undone:
            return f"undo {self.current.label}"
        label = self.steps[number].label
        return f"redo {label}" if number == self.redone else f"go to step {number}: {label}"

    def _path(self, number: int) -> list[int]:
        path = [number]
        while (parent := self.steps[path[-1]].parent) is not None:
            path.append(parent)
        return path[::-1]

    def _latest_end(self, number: int) -> int:
        """The newest step below a step, or itself; a child has a greater number than its parent."""
        below = {number}
        for step in self.steps[number + 1:]:
            if step.parent in below:
                below.add(step.number)
        return max(below)
