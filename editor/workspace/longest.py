"""The longest context of a language model that a split within memory holds, found by placing it at several."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from editor.errors import Cancelled, EditorError
from editor.graph.dimension_meanings import context_dim, with_total
from editor.graph.required_sizes import most_positions
from editor.placement.choices import policy_label
from editor.placement.device_profile import best_source
from editor.placement.placement import Placement, Settings, solve
from editor.placement.run_memory import weight_bytes
from editor.placement.state_memory import FAR_CONTEXT, full_at, state_memory
from editor.text import pluralize
from editor.workspace.document import Document
from editor.workspace.sizes import Load, Progress, with_known_costs
from editor.workspace.solver import settings_of

NO_ROOM = "no plan fits within memory at these sizes: the split is kept"
"""The step of a history at sizes that fit nowhere"""
_TRIES = 12
_SHORTEN = 6
"""Tries after which the shortest context is the next, where none was found to fit"""
_CLOSE = 1.03
"""Times the longest context found: what is not known to be too long is not worth another try."""


@dataclass(frozen=True)
class Longest:
    """The longest context that was found."""

    define: Mapping[str, int]
    """Sizes at which the policy memory has the plan"""
    tokens: int
    """Of the past at these sizes"""
    is_roomy: bool
    """Whether what runtimes add has room, too, as estimated"""
    reach: int = 0
    """Tokens until which its split goes on, as estimated; 0 where that is not known"""

    def in_words(self, before: Settings, prompt: int | None) -> str:
        """Says how long it is, and what has changed to hold it.

        Args:
            before: the decisions that it was looked for with.
            prompt: the longest prompt at once that its split holds; None where all steps have the same number of tokens.
        """
        room = "" if self.is_roomy else ", without room for what runtimes add"
        said = f"The longest context found: {pluralize(self.tokens, 'token')}{room}."
        if prompt is not None:
            of_prompt = f"a prompt of up to {pluralize(prompt, 'token')}" if prompt else "no prompt"
            said = f"{said.removesuffix('.')}; {of_prompt} fits at once."
        if self.reach > self.tokens:
            said += f" The split goes on to about {pluralize(self.reach, 'token')}."
        if before.policy != "memory":
            label = policy_label("memory", before.policy_options)
            said += f" The policy is “{label}” here."
        if before.pins:
            said += " Without the pins a longer one may fit."
        return said


def has_longest(placement: Placement) -> bool:
    """Whether the sizes have a context that grows, and memory ends it on every device."""
    limited = all(device.memory is not None for device in placement.devices)
    return limited and bool(context_dim(placement.graph) and state_memory(placement))


def longest_context(
    now: Placement, load: Load, progress: Progress, should_stop: Callable[[], bool] = bool
) -> Longest:
    """Bisects between a context that a plan fits and one for which none was found.

    A plan fits that has room for what its runtimes add; where no context leaves that, one that is within memory alone.

    Args:
        now: a placement whose pins, rules and devices hold.
        load: reads the model at other sizes.
        progress: called before each try.
        should_stop: asked during long searches.

    Raises:
        EditorError: not even the shortest context fits.
        Cancelled: it was told to stop.
    """

    def placed(tokens: int) -> Placement | None:
        sizes = {context_dim(now.graph): tokens}
        try:
            return _within_memory(now, sizes, load, should_stop)
        except EditorError:
            if should_stop():
                raise Cancelled from None
            if not tokens:
                raise
        return None

    for is_roomy in (True, False):
        found = _bisected(now, placed, progress, is_roomy)
        if found is not None:
            return found
    raise EditorError("no plan within memory was found, whatever the length of the context")


def _bisected(
    now: Placement,
    placed: Callable[[int], Placement | None],
    progress: Progress,
    is_roomy: bool,
) -> Longest | None:
    """The longest context at which a plan was found, with room for what runtimes add or without; None where none was."""
    found, low, high, reach = None, 0, _bound(now), 0
    tokens = min(now.graph.define[context_dim(now.graph)], high)
    for tried in range(_TRIES):
        progress(tried, _TRIES, f"{tokens:,} tokens")
        placement = placed(tokens)
        if placement is None or (is_roomy and placement.run_memory.over_with_runtimes):
            high = tokens
        else:
            reach = (full_at(placement) or 0) if is_roomy else 0
            low, found = tokens, Longest(placement.graph.define, tokens, is_roomy, reach)
        if low < reach < high:  # this very split goes on until there
            tokens = reach
        elif high <= _CLOSE * low or high - low <= 1:
            break
        else:
            tokens = (low + high) // 2 if found or tried < _SHORTEN else 0
    return found


def _bound(placement: Placement) -> int:
    """A context beyond which no split goes: weights and states are somewhere, whatever the split."""
    most = int(min(most_positions(placement.graph), FAR_CONTEXT))
    grows = sum(each.bytes_per_token for each in state_memory(placement))
    if not grows or any(device.published.assumes for device in placement.devices):
        return most  # weights take less there
    kept = int(weight_bytes(placement.graph, placement.placed_ops).sum())
    room = sum(device.memory or 0 for device in placement.devices)
    return max(min(most, (room - kept) // grows), 0)


def _within_memory(
    now: Placement, sizes: Mapping[str, int], load: Load, should_stop: Callable[[], bool]
) -> Placement:
    graph, answers = load(with_total(now.graph, {**now.graph.define, **sizes}))
    settings = with_known_costs(memory_settings(now.settings), best_source(graph, now.devices))
    return solve(graph, now.devices, settings, answers, should_stop)


def wanted_settings(document: Document) -> Settings:
    """The decisions of a document; of one at sizes that fit nowhere, those of the sizes before, which may fit others."""
    lapsed = document.history.newest_called(NO_ROOM)
    if lapsed is None or lapsed.parent is None:
        return document.placement.settings
    return settings_of(document.store.decisions(document.id, lapsed.parent))


def memory_settings(settings: Settings) -> Settings:
    """The same decisions by the policy memory."""
    if settings.policy == "memory":
        return settings
    costs = settings.policy_options.get("costs")
    return replace(settings, policy="memory", policy_options={"costs": costs} if costs else {})
