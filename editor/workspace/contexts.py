"""At which context figures of a language model are: of a plan at its sizes, or of tokens where those were measured."""

from __future__ import annotations

from editor.graph.graph import Graph
from editor.graph.states import Lengths, past_of_step, prompt_of_step
from editor.text import pluralize
from editor.workspace.history import Run

_ALIKE = 1.25
"""Times a context, up to which figures at another one are of about the same."""


def of_sizes(graph: Graph) -> str:
    """What stands after a time at the sizes of a model: "after 127 tokens", "of a prompt of 24 tokens"; "" of other models."""
    if prompt := prompt_of_step(graph):
        return f"of a prompt of {pluralize(prompt, 'token')}"
    past = past_of_step(graph)
    return "" if past is None else f"after {pluralize(past, 'token')}"


def of_run(run: Run | None) -> str:
    """What stands after a time of a token that was measured: "after 64 to 94 tokens"; "" of other runs."""
    lengths = lengths_of(run)
    return f"after {lengths.context} tokens" if lengths else ""


def lengths_of(run: Run | None) -> Lengths | None:
    """Of prompt and answer of a run whose tokens were measured; None of other runs."""
    if run is None or run.figures.get("mode") != "tokens" or not run.figures.get("new"):
        return None
    return Lengths(int(run.figures["prompt"]), int(run.figures["new"]))


def context_of(run: Run | None) -> int:
    """Tokens before the last step of a run whose tokens were measured; 0 of other runs."""
    lengths = lengths_of(run)
    return lengths.before_last if lengths else 0


def alike(one: float, other: float) -> bool:
    """Whether so many tokens before a step are about as many as others."""
    few, many = sorted((max(one, 1), max(other, 1)))
    return many <= _ALIKE * few


def is_at_sizes(graph: Graph, run: Run | None) -> bool:
    """Whether a run is of about the context of a model's sizes, as figures are that were worked out."""
    lengths = lengths_of(run)
    if lengths is None:
        return True
    past = past_of_step(graph)
    if past is None:
        return not prompt_of_step(graph)
    return alike(_middle(lengths), past)


def are_alike(one: Run, other: Run) -> bool:
    """Whether two runs are of about the same context, where tokens were measured."""
    lengths = lengths_of(one), lengths_of(other)
    if lengths[0] is None or lengths[1] is None:
        return lengths[0] is lengths[1]
    return alike(_middle(lengths[0]), _middle(lengths[1]))


def is_of_lengths(run: Run, lengths: Lengths) -> bool:
    """Whether a run measured the first token of about such a prompt, and then tokens of about its context."""
    mine = lengths_of(run)
    if mine is None or "first_token" not in run.figures:
        return False
    return alike(mine.prompt, lengths.prompt) and alike(_middle(mine), _middle(lengths))


def _middle(lengths: Lengths) -> float:
    return (lengths.prompt + lengths.before_last) / 2
