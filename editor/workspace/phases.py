"""Places the two phases of a language model: the prompt at once, then token after token, each with its sizes and costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from time import perf_counter
from typing import Any

import numpy as np

from editor.devices.device import Device
from editor.errors import Cancelled, EditorError, ModelError
from editor.graph.graph import Graph
from editor.graph.model_file import check_same
from editor.graph.states import Lengths, sequence_dim, sizes_of_step, states_of, tokens_of_step
from editor.kinds import Basis
from editor.placement.choices import policy_label
from editor.placement.chosen_costs import assumed_speeds, chosen_costs, costs_of_plan
from editor.placement.costs import boundary_seconds
from editor.placement.device_profile import best_source
from editor.placement.kept import pin_to_affinity, with_affinity
from editor.placement.placement import Placement, Settings, solve
from editor.placement.prompt_room import longest_prompt
from editor.placement.run_memory import run_memory
from editor.placement.state_memory import extra_weights
from editor.placement.subgraphs.minimal import minimal
from editor.text import human_bytes, in_words, joined, pluralize
from editor.workspace.sizes import Load, with_known_costs

ONE_OF_PROMPT, ONE_OF_TOKEN, ONE_WITH_ROOM, OWN = (
    "one placement, best for the prompt",
    "one placement, best for the tokens",
    "one placement, within memory for both",
    "a placement for each phase",
)
PRESENT = "the present plan for both"
_SHORTER_TRIES, _SHORTER_SECONDS, _SHORTER_CLOSE = 8, 20.0, 1.1
"""Of a search for a prompt that fits, where the one that was asked for does not"""
_ROUNDS = 8
"""Of less memory for the tokens, until the prompt fits, too"""
_CLEARLY = 0.99
"""Of the time of an answer with one placement: two placements must take less, because they keep weights twice."""


@dataclass(frozen=True)
class PhaseChoice:
    """A way to place the phases."""

    name: str
    first_token: float
    """seconds of the prompt"""
    token: float
    """seconds of each further token: the mean of the first and the last one"""
    handover: float
    """seconds that the state takes, once, from where the prompt leaves it to where the tokens read it"""
    answer: float
    """seconds of the whole answer"""
    extra_weights: Mapping[str, int]
    """Device -> bytes of weights that the subgraphs hold there which only the prompt has"""
    problem: str
    """Why it cannot be; "" where it can"""
    devices: tuple[tuple[int, ...], ...] = ()
    """[phase][op] number of the device, of ops with a device of their own; empty where that is not known"""
    assumed_speeds: tuple[str, ...] = ()
    """Accelerators whose speed the seconds assume"""
    peaks: Mapping[str, int] = field(default_factory=dict)
    """Device -> most bytes that it needs in either phase, weights of both included"""
    tight: str = ""
    """Devices without room for what their runtimes add: "about 62.4 MB of 60 MB on A"; "" where all have it"""

    def in_words(self, seconds: float) -> str:
        """Some of its seconds, in rough figures where they rest on assumed speeds."""
        return in_words(seconds, bool(self.assumed_speeds))

    def same(self, other: PhaseChoice) -> bool:
        """Whether another way has every op on the same device, in both phases."""
        return bool(self.devices) and self.devices == other.devices

    def text(self) -> str:
        """One line."""
        if self.problem:
            return f"{self.name}: does not fit, as {self.problem}"
        extra = ", ".join(
            f"{human_bytes(size)} on {device}" for device, size in self.extra_weights.items()
        )
        return (
            f"{self.name}: answer {self.in_words(self.answer)}, first token {self.in_words(self.first_token)}, "
            f"then {self.in_words(self.token)} a token"
            + (f", state handed over in {self.in_words(self.handover)}" if self.handover else "")
            + (f"; weights of the prompt in addition: {extra}" if extra else "")
            + (f"; no room for what runtimes add: {self.tight}" if self.tight else "")
        )


@dataclass(frozen=True)
class Phases:
    """The placements of both phases, and the other ways that were weighed."""

    lengths: Lengths
    prompt: Placement
    token: Placement
    """At the sizes of the last token, where the state is largest"""
    chosen: PhaseChoice
    choices: tuple[PhaseChoice, ...]
    basis: Basis
    """Of all seconds here"""
    present: PhaseChoice
    """What the plan takes as it is; the chosen one where it fits and none of ``choices`` takes less"""
    placements: Mapping[str, tuple[Placement, Placement]] = field(default_factory=dict)
    """Name of a choice that can be -> its placements of the prompt and of the tokens"""
    unprofiled: tuple[str, ...] = ()
    """Steps without a profile, where others, or the plan, have one: all seconds are estimates for their sake"""
    not_by: str = ""
    """The plan's policy, where nothing fits by it, and the phases are placed within memory instead"""
    shorter: int = 0
    """Tokens of a prompt that leaves room for what runtimes add, where this one leaves none; 0 where none was found"""
    plan: str = ""
    """``Placement.fingerprint`` of the plan that they were found for"""
    used: tuple[str, ...] = ()
    """Names of the choices that a person made the plan, the last one at the end"""

    def using(self, name: str) -> Phases:
        """The same, with a choice of ``placements`` as the last one that was used."""
        return replace(self, used=(*(each for each in self.used if each != name), name))

    def in_use(self, plan: Placement) -> str:
        """The choice that was used last among those that have the devices of a plan in its phase; "" where none has."""
        has = (
            name
            for name in reversed(self.used)
            if of_phase(plan.graph, self.placements[name]).affinity == plan.affinity
        )
        return next(has, "")

    def kept_with(self, plan: Placement) -> str:
        """The choice that is in use, or else the chosen one."""
        return self.in_use(plan) or self.chosen.name

    def both_with(self, plan: Placement) -> tuple[Placement, Placement] | None:
        """The placements of the prompt and of the tokens where a placement for each is in use; None where it is not."""
        if self.in_use(plan) != OWN:
            return None
        prompt, token = self.placements[OWN]
        return (prompt, plan) if tokens_of_step(plan.graph) == 1 else (plan, token)

    @property
    def notes(self) -> list[str]:
        """What is not as the settings of the plan have it, in sentences."""
        said = []
        if self.not_by:
            said.append(f"Placed within memory, as by {self.not_by} it does not fit.")
        if self.unprofiled:
            said.append(f"Times are estimates: no profile of {joined(self.unprofiled, 'or')}.")
        return [*said, *filter(None, [self.no_room])]

    @property
    def no_room(self) -> str:
        """That the chosen way leaves no room for what runtimes add, with a prompt that does, in a sentence; else ""."""
        tight = self.chosen.tight
        return f"No room for what runtimes add: {tight}; {_way_out(self.shorter)}." if tight else ""

    @property
    def differ(self) -> bool:
        """Whether an op is on different devices in the two phases."""
        return bool(moved_between(self.prompt, self.token))

    @property
    def rows(self) -> list[tuple[PhaseChoice, list[str]]]:
        """The ways that differ, the chosen one first, each with the names of the others that come to the same."""
        return self._rows(self.choices)

    @property
    def rows_with_present(self) -> list[tuple[PhaseChoice, list[str]]]:
        """The same with the present plan behind them."""
        return self._rows((*self.choices, self.present))

    def _rows(self, choices: Sequence[PhaseChoice]) -> list[tuple[PhaseChoice, list[str]]]:
        rows: list[tuple[PhaseChoice, list[str]]] = []
        for each in (self.chosen, *(c for c in choices if c is not self.chosen)):
            same = next((names for row, names in rows if row.same(each)), None)
            if same is None:
                rows.append((each, []))
            else:
                same.append(each.name)
        return rows

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "lengths": {"prompt": self.lengths.prompt, "new": self.lengths.new},
            "kind": self.basis.kind,
            "chosen": self.chosen.name,
            "choices": [
                {
                    "name": each.name,
                    "first_token": each.first_token,
                    "token": each.token,
                    "handover": each.handover,
                    "answer": each.answer,
                    "extra_weights": dict(each.extra_weights),
                    "problem": each.problem,
                }
                for each in (
                    *self.choices,
                    *([self.present] if self.chosen is self.present else []),
                )
            ],
            "notes": self.notes,
        }

    def text(self) -> str:
        """A few lines for a terminal."""
        lines = [
            f"Prompt of {pluralize(self.lengths.prompt, 'token')}, {self.lengths.new:,} new at "
            f"{self.lengths.context} tokens of context ({self.basis.kind}): "
            f"{self.chosen.text()}"
        ]
        (_, same), *others = self.rows
        if same:
            lines.append(f"  the same: {'; '.join(same)}")
        for each, names in others:
            also = f" (the same: {'; '.join(names)})" if names else ""
            lines.append(f"  beside it, {each.text()}{also}")
        if self.differ:
            moved = len(moved_between(self.prompt, self.token))
            lines.append(
                f"  {pluralize(moved, 'op')} run on another device for the prompt than for the tokens"
            )
        lines += [f"  {note}" for note in self.notes]
        return "\n".join(lines)


class NoPhasesError(EditorError):
    """No placement of a prompt and its tokens was found."""

    def __init__(self, message: str, shorter: int) -> None:
        super().__init__(message)
        self.shorter = shorter
        """Tokens of a prompt that fits; 0 where none was found"""


class _NothingFits(EditorError):
    """None of the ways fits the memory of the devices."""


def steps_of(lengths: Lengths) -> dict[str, tuple[int, int]]:
    """Name of each step that an answer is worked out from -> its tokens, and those before it."""
    return {
        f"a prompt of {lengths.prompt:,}": (lengths.prompt, 0),
        f"a token after {lengths.prompt:,}": (1, lengths.prompt),
        f"a token after {lengths.before_last:,}": (1, lengths.before_last),
    }


def place_phases(
    plan: Placement, lengths: Lengths, load: Load, should_stop: Callable[[], bool] = bool
) -> Phases:
    """Solves the decisions of a plan for the prompt and for the tokens, and takes what answers soonest.

    Weighed are the placement of each phase for both (within memory, also one that leaves room for either), each phase with
    its own, and the plan as it is. A placement for each phase keeps weights on two devices, which have to fit, and hands the
    state over once. An answer takes the prompt, which makes its first token, and a step for each further one. Where nothing
    fits by the plan's policy, the phases are placed within memory.

    Args:
        plan: its devices, policy, pins and rules hold; its sizes of the sequence do not.
        lengths: of prompt and answer.
        load: reads the model.
        should_stop: asked during a long search.

    Raises:
        Cancelled: it was told to stop.
        ModelError: the model keeps no growing state, or fixes how many tokens a step has.
        NoPhasesError: no way can be.
        EditorError: the plan's policy finds no placement, whatever the memory.
    """
    sizes_of_step(plan.graph, 1, 0)  # says so where nothing grows
    if not sequence_dim(plan.graph):
        raise ModelError(
            f"{plan.graph.path}: each step has the same number of tokens, so that there is one phase"
        )
    now = plan.settings
    try:
        found = _weighed(plan, now, lengths, load, should_stop)
        if not found.chosen.tight:
            return found
        within = now if now.policy == "memory" else _within_memory(now)
        return replace(found, shorter=_shorter(plan, within, lengths, load, should_stop))
    except Cancelled:
        raise
    except EditorError as error:
        if now.policy == "memory":
            raise _refusal(plan, now, lengths, load, should_stop, error) from error
        if not isinstance(error, _NothingFits):
            raise
    within = _within_memory(now)
    by, memory = (policy_label(policy, now.policy_options) for policy in (now.policy, "memory"))
    by = by.partition(":")[0]
    try:
        found = replace(_weighed(plan, within, lengths, load, should_stop), not_by=by)
        if found.chosen.tight:
            found = replace(found, shorter=_shorter(plan, within, lengths, load, should_stop))
        return found
    except Cancelled:
        raise
    except EditorError as error:
        policies = f", by {by} or by “{memory}”"
        raise _refusal(plan, within, lengths, load, should_stop, error, policies) from error


def _refusal(
    plan: Placement,
    settings: Settings,
    lengths: Lengths,
    load: Load,
    should_stop: Callable[[], bool],
    error: EditorError,
    policies: str = "",
) -> NoPhasesError:
    """That nothing was found for these lengths, with a shorter prompt that fits."""
    shorter = _shorter(plan, settings, lengths, load, should_stop)
    reason = "" if isinstance(error, _NothingFits) else f". {error}"
    return NoPhasesError(
        f"No placement was found for a prompt of {pluralize(lengths.prompt, 'token')} at once and "
        f"{pluralize(lengths.new, 'token')} after it{policies}; {_way_out(shorter)}{reason}",
        shorter,
    )


def _way_out(shorter: int) -> str:
    """What makes room, in words."""
    if shorter:
        return f"a prompt of {pluralize(shorter, 'token')} fits"
    return "a shorter prompt or answer, or more memory, makes room"


def _within_memory(settings: Settings) -> Settings:
    options = {"costs": "measured", **settings.policy_options}
    return replace(settings, policy="memory", policy_options=options)


def _shorter(
    plan: Placement,
    settings: Settings,
    lengths: Lengths,
    load: Load,
    should_stop: Callable[[], bool],
) -> int:
    """Tokens of a shorter prompt that was found to fit: what the plan holds as it is, else by bisection; 0 where none was.

    Raises:
        Cancelled: it was told to stop.
    """

    def fits(tokens: int) -> bool:
        try:
            found = _weighed(plan, settings, replace(lengths, prompt=tokens), load, should_stop)
        except Cancelled:
            raise
        except EditorError:
            return False
        return not found.chosen.tight

    own = 0
    with suppress(EditorError):
        own = longest_prompt(plan, load, should_stop)
    if 0 < own < lengths.prompt and fits(own):
        return own
    low, high, until = 0, lengths.prompt, perf_counter() + _SHORTER_SECONDS
    for _ in range(_SHORTER_TRIES):
        middle = (low + high) // 2 if low else high // 4
        if high <= _SHORTER_CLOSE * low or middle in (low, high) or perf_counter() > until:
            break
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _weighed(
    plan: Placement,
    settings: Settings,
    lengths: Lengths,
    load: Load,
    should_stop: Callable[[], bool],
) -> Phases:
    """What `place_phases` finds with some settings.

    Raises:
        _NothingFits: no way fits.
        EditorError: a phase cannot be placed at all.
    """
    steps = steps_of(lengths)
    loaded = {
        step: load({**plan.graph.define, **sizes_of_step(plan.graph, *step)})
        for step in steps.values()
    }
    settings, unprofiled = _one_source(plan, settings, {n: loaded[s][0] for n, s in steps.items()})

    def solved(step: tuple[int, int], devices: Sequence[Device] = plan.devices) -> Placement:
        graph, answers = loaded[step]
        placement = solve(
            check_same(graph, plan.graph.sha256), devices, settings, answers, should_stop
        )
        if should_stop():
            raise Cancelled
        return placement

    def phase(name: str, step: tuple[int, int]) -> Placement:
        try:
            return solved(step)
        except Cancelled:
            raise
        except EditorError as error:
            raise EditorError(f"{name} cannot be placed. {error}") from error

    of_prompt, of_first, of_last = (
        (lengths.prompt, 0),
        (1, lengths.prompt),
        (1, lengths.before_last),
    )
    prompt = phase(f"The prompt ({lengths.prompt:,} tokens at once)", of_prompt)
    first = phase(f"A token after {lengths.prompt:,} others", of_first)
    last = phase(f"A token after {lengths.before_last:,} others", of_last)
    ways: dict[str, tuple[Callable[[], Placement], Callable[[], Placement]]] = {
        ONE_OF_TOKEN: (lambda: _alike(prompt, last, "the prompt"), lambda: last),
        ONE_OF_PROMPT: (lambda: prompt, lambda: _alike(last, prompt, "a token")),
        OWN: (lambda: prompt, lambda: last),
    }
    if settings.policy == "memory":  # as each phase alone would have it, the other one may not fit

        def roomy() -> Placement:
            return _with_room(prompt, lambda devices: solved(of_last, devices))

        both = cache(roomy)
        ways[ONE_WITH_ROOM] = (
            lambda: _alike(prompt, both(), "the prompt"),
            lambda: _alike(last, both(), "a token"),
        )
    ways[PRESENT] = (
        lambda: _alike(prompt, plan, "the prompt"),
        lambda: _alike(last, plan, "a token"),
    )
    found: dict[str, tuple[Placement, Placement]] = {}

    def weighed(name: str) -> PhaseChoice:
        prompt_of, token_of = ways[name]
        try:
            found[name] = pair = prompt_of(), token_of()
            return _choice(name, pair[0], _alike(first, pair[1], "a token"), pair[1], lengths)
        except EditorError as error:
            found.pop(name, None)
            return PhaseChoice(name, 0.0, 0.0, 0.0, 0.0, {}, str(error))

    *choices, present = (weighed(name) for name in ways)
    chosen = _soonest((*choices, present))
    if chosen is None:
        raise _NothingFits
    return Phases(
        lengths,
        *found[chosen.name],
        chosen,
        tuple(choices),
        costs_of_plan(found[chosen.name][1])[1],
        present,
        {each.name: found[each.name] for each in (*choices, chosen) if not each.problem},
        unprofiled,
        plan=plan.fingerprint,
    )


def _one_source(
    plan: Placement, settings: Settings, graphs: Mapping[str, Graph]
) -> tuple[Settings, tuple[str, ...]]:
    """Settings whose costs come from one source at all steps: profiles where all have them; and the steps that have none.

    Args:
        plan: its profile is one, too.
        settings: may leave the source to what is known.
        graphs: name of each step -> the model at its sizes.
    """
    sources = {name: best_source(graph, plan.devices) for name, graph in graphs.items()}
    lacking = tuple(name for name, source in sources.items() if source == "estimate")
    if not lacking or chosen_costs(settings) == "estimate":
        return settings, ()
    settings = with_known_costs(settings, "estimate")
    known = best_source(plan.graph, plan.devices) == "measured"
    if len(lacking) == len(graphs):
        return settings, lacking if known else ()
    return replace(
        settings, policy_options={**settings.policy_options, "costs": "estimate"}
    ), lacking


def _soonest(ways: Sequence[PhaseChoice]) -> PhaseChoice | None:
    """The way that answers soonest, by one placement where two are not clearly sooner; None where no way fits.

    Ways with room for what runtimes add come before others.
    """
    possible = [each for each in ways if not each.problem]
    possible = [each for each in possible if not each.tight] or possible
    if not possible:
        return None
    soonest = min(possible, key=lambda each: each.answer)
    single = [each for each in possible if each.name != OWN]
    if not single or soonest.name != OWN:
        return soonest
    best = min(single, key=lambda each: each.answer)
    return soonest if soonest.answer < _CLEARLY * best.answer else best


def of_phase(graph: Graph, placements: tuple[Placement, Placement]) -> Placement:
    """That of the placements of both phases whose steps have the tokens that a model with all its sizes takes."""
    return placements[1 if tokens_of_step(graph) == 1 else 0]


def with_phase(plan: Placement, placements: tuple[Placement, Placement]) -> Placement:
    """A plan with the devices that its phase has in ``placements``, by pins where its policy would have others.

    Raises:
        EditorError: the policy keeps within the memory, and the plan does not fit there at its own sizes.
    """
    return pin_to_affinity(plan, of_phase(plan.graph, placements).affinity)


def holds(plan: Placement, placements: tuple[Placement, Placement]) -> bool:
    """Whether a plan of the policy memory has room at its own sizes for the devices that its phase has in ``placements``."""
    peaks = _peaks(plan, of_phase(plan.graph, placements))
    return plan.settings.policy != "memory" or not _over(plan.devices, peaks)


def moved_between(prompt: Placement, token: Placement) -> list[str]:
    """Keys of ops that are on another device in the other phase."""
    there = token.affinity
    placed = [prompt.graph.op_keys[op] for op in prompt.placed_ops.tolist()]
    here = prompt.affinity
    return [key for key in placed if key in there and here[key] != there[key]]


def state_homes(placement: Placement) -> dict[str, int]:
    """Input of each state -> number of the device that reads it first; states that no op reads are left out."""
    graph, homes = placement.graph, {}
    for state in states_of(graph):
        readers = graph.readers[graph.tensor_index[state.input]].tolist()
        if readers:
            first = min(readers, key=lambda op: int(graph.rank[op]))
            homes[state.input] = int(placement.device_of_op[first])
    return homes


def _with_room(prompt: Placement, solved: Callable[[Sequence[Device]], Placement]) -> Placement:
    """A placement of the tokens with which the prompt fits, too: each round the tokens have less memory, by what it lacks.

    Raises:
        EditorError: none was found.
    """
    devices = list(prompt.devices)
    for _ in range(_ROUNDS):
        placement = solved(devices)
        peaks = _peaks(prompt, placement)
        lacking = [device.lacking(peaks[device.name]) for device in prompt.devices]
        if not any(lacking):
            break
        devices = [
            replace(device, memory=max(device.memory - lack, 1)) if device.memory else device
            for device, lack in zip(devices, lacking, strict=True)
        ]
    return placement


def _peaks(solved: Placement, other: Placement) -> Mapping[str, int]:
    """Device -> most bytes that a phase holds there with the devices that the other one has."""
    graph, placed, there = solved.graph, solved.constraints.placed, other.affinity
    numbers = {device.name: d for d, device in enumerate(solved.devices)}
    device = solved.assignment.device.copy()
    for op in solved.placed_ops.tolist():
        device[op] = numbers.get(there.get(graph.op_keys[op], ""), device[op])
    parts = minimal(graph, device, graph.order[placed[graph.order]])
    return run_memory(graph, solved.devices, device, parts).peaks


def _alike(solved: Placement, other: Placement, phase: str) -> Placement:
    """A phase with the devices that the other one has.

    Raises:
        EditorError: the policy keeps within the memory, and the phase does not fit there.
    """
    there = other.affinity
    within = (
        solved.settings.policy == "memory"
    )  # it would refuse the pins that keep ops there, and blame them
    if within and (over := _over(solved.devices, _peaks(solved, other))):
        raise EditorError(f"{over} for {phase}")
    return with_affinity(solved, there, "the other phase has it there")


def _choice(
    name: str, prompt: Placement, first: Placement, last: Placement, lengths: Lengths
) -> PhaseChoice:
    first_token = prompt.price(costs_of_plan(prompt)[0]).total
    token = float(np.mean([each.price(costs_of_plan(each)[0]).total for each in (first, last)]))
    handover = _handover(prompt, last)
    assumed = {
        name for each in (prompt, last) for name in assumed_speeds(each, costs_of_plan(each)[0])
    }
    extra, needed = extra_weights(prompt, last), _needed(prompt, last)
    over = _over(prompt.devices, needed)
    both = bool(any(extra.values()) or any(extra_weights(last, prompt).values()))
    return PhaseChoice(
        name,
        first_token,
        token,
        handover,
        first_token + handover + (lengths.new - 1) * token,
        extra,
        f"{over} for the weights of both phases" if over and both else over,
        tuple(tuple(each.assignment.device[each.placed_ops].tolist()) for each in (prompt, last)),
        tuple(sorted(assumed)),
        needed,
        prompt.run_memory.over_with_runtimes or last.run_memory.over_with_runtimes,
    )


def _handover(prompt: Placement, token: Placement) -> float:
    """Seconds of the states whose device differs, at the size that the prompt leaves."""
    graph, costs = prompt.graph, costs_of_plan(prompt)[0]
    before, after = state_homes(prompt), state_homes(token)
    return sum(
        boundary_seconds(graph, costs, state.output, before[state.input], [after[state.input]])
        for state in states_of(graph)
        if state.input in before
        and state.input in after
        and before[state.input] != after[state.input]
    )


def _needed(prompt: Placement, token: Placement) -> dict[str, int]:
    """Device -> bytes of the weights of both phases and what a run of either holds."""
    prompt_alone, token_alone = extra_weights(prompt, token), extra_weights(token, prompt)
    return {
        name: max(
            token.run_memory.peaks[name] + prompt_alone.get(name, 0),
            prompt.run_memory.peaks[name] + token_alone.get(name, 0),
        )
        for name in (device.name for device in prompt.devices)
    }


def _over(devices: Sequence[Device], needed: Mapping[str, int]) -> str:
    """Which device needs more memory than it has; "" where none does."""
    for device in devices:
        if device.memory is not None and needed[device.name] > device.memory:
            return f"{device.name} has {device.limit_text} and needs {human_bytes(needed[device.name])}"
    return ""
