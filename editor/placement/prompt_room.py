"""The longest prompt at once that a plan of a language model holds: it needs more than as many tokens one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from editor.graph.graph import Graph
from editor.graph.required_sizes import most_positions
from editor.graph.states import sequence_dim, sizes_of_step, states_of
from editor.placement.placement import Placement
from editor.placement.run_memory import RunMemory, run_memory
from editor.placement.state_memory import FAR_CONTEXT
from editor.placement.subgraphs.minimal import minimal
from editor.text import pluralize

LoadAt = Callable[[Mapping[str, int]], tuple[Graph, Any]]
"""Sizes -> the model at them, and what else is known of it"""
_SECONDS = 20.0
"""Of a search"""
_CLOSE = 1.03
"""Times the longest prompt found: what is not known to be too long is not worth another try."""
_prompts: WeakKeyDictionary[Placement, int] = WeakKeyDictionary()
"""What `longest_prompt` found."""


def known_prompt(plan: Placement) -> int | None:
    """What `longest_prompt` found of a plan; None where nobody asked."""
    return _prompts.get(plan)


def tells_prompt(plan: Placement) -> bool:
    """Whether memory may end the prompt of a plan, and nobody has asked where."""
    is_limited = any(device.memory is not None for device in plan.used_devices)
    grows = bool(sequence_dim(plan.graph) and states_of(plan.graph))
    return is_limited and grows and known_prompt(plan) is None


def prompt_in_words(plan: Placement) -> str:
    """What is known of the longest prompt of a plan: "a prompt of up to about 720 tokens fits at once"; "" of nothing."""
    if (tokens := known_prompt(plan)) is None:
        return ""
    if not tokens:
        return "no prompt fits at once"
    return f"a prompt of up to about {pluralize(tokens, 'token')} fits at once"


def longest_prompt(plan: Placement, load: LoadAt, should_stop: Callable[[], bool] = bool) -> int:
    """The longest prompt at once that a plan holds, its devices as they are, with room for what runtimes add.

    Found by bisection, to `_CLOSE`, or to what `_SECONDS` allow.

    Args:
        plan: of a model whose steps have any number of tokens.
        load: reads the model at other sizes.
        should_stop: asked before each try; then it is the longest that was found until there.

    Returns:
        Tokens; 0 where not even one has room.

    Raises:
        EditorError: the model cannot be read at the sizes of a prompt.
    """
    most, until = (
        int(min(most_positions(plan.graph), FAR_CONTEXT)),
        perf_counter() + _SECONDS,
    )
    low, high = 0, most + 1
    while high - low > 1 and high > _CLOSE * low and perf_counter() < until and not should_stop():
        tokens = most if high > most else (low + high) // 2
        if _memory_of_prompt(plan, tokens, load).has_room:
            low = tokens
        else:
            high = tokens
    if not should_stop():
        _prompts[plan] = low
    return low


def _memory_of_prompt(plan: Placement, tokens: int, load: LoadAt) -> RunMemory:
    """What a plan needs for a prompt at once; ops that only its sizes have go to the first device."""
    graph, _ = load({**plan.graph.define, **sizes_of_step(plan.graph, tokens, 0)})
    known = [plan.graph.key_index.get(key, -1) for key in graph.op_keys]
    here = np.array(known) >= 0
    device = np.where(here, plan.assignment.device[known], 0)
    placed = np.where(here, plan.constraints.placed[known], False)
    parts = minimal(graph, device, graph.order[placed[graph.order]])
    return run_memory(graph, plan.devices, device, parts)
