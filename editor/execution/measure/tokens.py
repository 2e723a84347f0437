"""Measures a plan as it generates, in turns with the unsplit model, and compares both token by token."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from threading import Barrier
from time import perf_counter
from typing import Any

import numpy as np

from editor.devices.device import Device
from editor.errors import EditorError, ExecutionError
from editor.execution.generation import Generation, Generator
from editor.execution.measure.figures import Spread
from editor.execution.measure.statistics import MachineWatch, parts_of_median_run
from editor.graph.graph import Graph
from editor.graph.states import Lengths, State
from editor.kinds import compare_medians
from editor.placement.placement import Placement
from editor.placement.state_memory import state_memory
from editor.runtimes.base import Value
from editor.runtimes.registry import capability, stand_in
from editor.text import human_seconds, pluralize

_UNSPLIT = "unsplit on "
_ROUNDS = 3
"""Sequences of each plan that are measured, in turns."""
_LOOKS = 4
"""At the processor, before each sequence: so many tell of three rounds."""
_PARTS = 4
"""Of a sequence, to show how the time of a token grows with the context."""
_SLOW_BEGIN = 1.1
"""Ratio of the first tokens' time to the last's from which a longer context cannot explain it."""
_TOLERANCE = 2e-3
"""Of logits, relative to the largest of them."""
SIMULATED = "Planned devices were simulated on the CPU: this says nothing about their speed"
Emit = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class TokenFigures:
    """What tokens take on a plan, or on a device that runs the whole model."""

    name: str
    first_token: Spread
    """seconds of the prompt, until the first token"""
    token: Spread
    """seconds of each further token"""
    tokens_per_second: float
    """Of one sequence, by the median of a token; with several in flight, of all of them together, prompts included"""
    by_context: tuple[tuple[int, float], ...]
    """(tokens seen before, median seconds of a token) for parts of the sequence"""
    by_subgraph: tuple[float, ...] = ()
    """[subgraph] seconds in a token that takes the median; empty with several in flight, and where a device queues its work"""

    def text(self) -> str:
        """One line."""
        spread = self.token
        return (
            f"{self.name}: first token {human_seconds(self.first_token.median)}, then {human_seconds(spread.median)} a token "
            f"(95 %: {human_seconds(spread.low)} to {human_seconds(spread.high)}), {self.tokens_per_second:.1f} tokens/s"
        )


@dataclass(frozen=True)
class TokenBenchmark:
    """A plan that generates, beside the unsplit model."""

    plan: str
    prompt: int
    new: int
    sequences: int
    figures: TokenFigures
    unsplit: tuple[TokenFigures, ...]
    problems: Mapping[str, str]
    """Device -> why it does not run the whole model"""
    difference: float | None
    """Largest difference of logits to the unsplit model, relative to the largest one; None where there is nothing to compare"""
    reference: str
    """The device of that model"""
    simulated: bool
    """Whether planned devices were simulated on the CPU, so that the figures say nothing about their speed"""
    states: tuple[State, ...]
    only: str = ""
    """The device that runs all of the plan, which then is the unsplit model on it; "" where several do"""
    fingerprint: str = ""
    """Of the placement, by which a report knows its plan"""
    full_at: tuple[tuple[str, int], ...] = ()
    """(device, tokens) of each device whose memory is estimated to be full at a shorter context than that of the run"""
    on_stand_in: bool = False
    """Whether the unsplit model ran on a stand-in, too, because every device is planned"""
    disturbances: tuple[str, ...] = ()
    """The disturbances of the measurement, in words"""

    @property
    def timed(self) -> tuple[TokenFigures, ...]:
        """The unsplit model on each device that has a speed."""
        return () if self.on_stand_in else self.unsplit

    @property
    def within_tolerance(self) -> bool:
        """Whether the logits are those of the unsplit model."""
        return self.difference is not None and self.difference <= _TOLERANCE

    @property
    def verdict(self) -> str:
        """What to think of the largest difference."""
        return "within tolerance" if self.within_tolerance else "OUTSIDE the tolerance"

    def text(self) -> str:
        """A few lines for a terminal; of stand-ins no time is among them."""
        sequences = f", {self.sequences} sequences in flight" if self.sequences > 1 else ""
        how = "simulated" if self.simulated else "measured"
        lines = [
            *([SIMULATED] if self.simulated else []),
            f"Prompt of {pluralize(self.prompt, 'token')}, {self.new} new{sequences} ({how}); "
            f"{pluralize(len(self.states), 'state')} kept on the devices",
            *([] if self.simulated else [self.figures.text()]),
        ]
        for figures in self.timed:
            against = self.against(figures)
            lines.append(figures.text() + (f"; this plan: {against}" if against else ""))
        lines += [
            f"{device} does not run the whole model: {why}" for device, why in self.problems.items()
        ]
        if self.difference is None:
            lines.append("Not compared: no device runs the whole model")
        else:
            lines.append(
                f"Largest difference of logits to the unsplit model on {self.reference}, over all tokens: "
                f"{self.difference:.2g} relative ({self.verdict})"
            )
        lines += [
            f"The memory of {device} is full at about {tokens:,} tokens (estimate); this run goes to "
            f"{Lengths(self.prompt, self.new).before_last:,}"
            for device, tokens in self.full_at
        ]
        if self.disturbances and not self.simulated:
            lines.append(f"Noisy: {'; '.join(self.disturbances)}. Measure again on a quiet machine")
        times = [seconds for _, seconds in self.figures.by_context]
        if not self.simulated and times and times[0] > _SLOW_BEGIN * times[-1]:
            lines.append(
                "The first tokens after the prompt took longer than the last: what a longer context adds cannot be seen"
            )
        lines += [
            f"  after {context} tokens: {human_seconds(seconds)} a token"
            for context, seconds in ([] if self.simulated else self.figures.by_context)
        ]
        return "\n".join(lines)

    def against(self, other: TokenFigures) -> str:
        """How the time of a token compares with another one, where their intervals tell them apart; "" of stand-ins."""
        if self.simulated:
            return ""
        if self.only and other.name == f"{_UNSPLIT}{self.only}":
            return "the same, measured once more"
        mine, theirs = self.figures.token, other.token
        return compare_medians(
            (mine.low, mine.high), (theirs.low, theirs.high), mine.median / theirs.median
        )

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""

        def of(figures: TokenFigures) -> dict[str, Any]:
            return {
                "name": figures.name,
                "first_token": figures.first_token.median,
                "token": {
                    "median": figures.token.median,
                    "low": figures.token.low,
                    "high": figures.token.high,
                    "count": figures.token.count,
                },
                "tokens_per_second": figures.tokens_per_second,
                "by_context": [list(pair) for pair in figures.by_context],
                "by_subgraph": list(figures.by_subgraph),
            }

        return {
            "format": "hetero-editor/tokens",
            "version": 1,
            "plan": self.plan,
            "fingerprint": self.fingerprint,
            "prompt": self.prompt,
            "new": self.new,
            "sequences": self.sequences,
            "kind": "simulated" if self.simulated else "measured",
            "figures": of(self.figures),
            "unsplit": [of(each) for each in self.unsplit],
            "problems": dict(self.problems),
            "difference": self.difference,
            "within_tolerance": self.within_tolerance,
            "reference": self.reference,
            "states": [[s.output, s.input] for s in self.states],
            "full_at": [list(pair) for pair in self.full_at],
            "disturbances": list(self.disturbances),
        }


def measure_tokens(
    name: str,
    placement: Placement,
    prompt: int,
    new: int,
    state: Mapping[str, str] | None = None,
    threads: int = 0,
    sequences: int = 1,
    given: Mapping[str, Value] | None = None,
    emit: Emit = lambda _: None,
    should_stop: Callable[[], bool] = bool,
    prompt_placement: Placement | None = None,
) -> TokenBenchmark:
    """Generates with a plan and with the unsplit model on each real device that runs it, in turns.

    Args:
        name: of the plan.
        placement: the plan.
        prompt: tokens of the prompt, which are random.
        new: tokens to generate.
        state: output -> input, beside what is known.
        threads: per subgraph; 0 leaves the choice to the runtime.
        sequences: in flight at the same time.
        given: values of inputs that are neither tokens nor states.
        emit: takes messages of progress.
        should_stop: asked before each token.
        prompt_placement: where the prompt has a placement of its own.

    Raises:
        ExecutionError: the model does not generate, or a runtime failed.
    """

    def phase(text: str, done: int = 0, total: int = 0) -> None:
        emit({"kind": "phase", "text": text, "done": done, "total": total})

    graph = placement.graph
    phase("compiling with open sizes")
    plan = Generator.of(placement, state, threads, prompt_placement, sequences)
    wholes, problems = _wholes(placement, state, threads, sequences, phase)
    # ONNX Runtime's CPU provider is the measure, as in benchmarks: no runtime is compared with itself where another is there.
    wholes = dict(sorted(wholes.items(), key=lambda each: not each[1].is_reference))
    ids = np.random.default_rng(0).integers(0, vocabulary(graph, plan.logits), prompt).tolist()
    runners = {name: plan, **wholes}
    kept: dict[str, list[Generation]] = {each: [] for each in runners}
    rates: dict[str, list[float]] = {each: [] for each in runners}
    follow: Sequence[int] = ()
    with closing(_Sequences(sequences)) as flights:
        for each, runner in runners.items():
            phase(f"warming up {each}")
            flights.run(runner, ids, new, given, (), should_stop)
        watch = MachineWatch()
        for number in range(_ROUNDS):
            for turn, each in enumerate(
                [*wholes, name]
            ):  # the plan takes the tokens of the unsplit model
                done = number * len(runners) + turn
                phase(
                    f"generating: {each}, {number + 1} of {_ROUNDS}", done, _ROUNDS * len(runners)
                )
                for _ in range(_LOOKS):
                    watch.sample()
                start = perf_counter()
                found = flights.run(runners[each], ids, new, given, follow, should_stop)
                rates[each].append(sum(len(g.tokens) for g in found) / (perf_counter() - start))
                kept[each] += found
                follow = follow or found[0].tokens
                if should_stop():
                    raise ExecutionError("cancelled")
        disturbances = watch.disturbances()
    reference = next(iter(wholes), "")
    difference = _difference(kept[reference][0], kept[name][0]) if reference else None

    def figures(each: str) -> TokenFigures:
        rate = float(np.median(rates[each])) if sequences > 1 else None
        return _figures(each, kept[each], rate)

    return TokenBenchmark(
        name,
        prompt,
        new,
        sequences,
        figures(name),
        tuple(figures(each) for each in wholes),
        problems,
        difference,
        reference.removeprefix(_UNSPLIT),
        any(d.planned for d in placement.used_devices),
        plan.states,
        placement.subgraphs[0].device if len(placement.subgraphs) == 1 else "",
        placement.fingerprint,
        tuple(
            (each.device, each.fits_until)
            for each in state_memory(placement)
            if each.fits_until is not None and each.fits_until < Lengths(prompt, new).before_last
        ),
        all(d.planned for d in placement.devices),
        tuple(disturbances),
    )


def _wholes(
    placement: Placement,
    state: Mapping[str, str] | None,
    threads: int,
    sequences: int,
    phase: Callable[[str], None],
) -> tuple[dict[str, Generator], dict[str, str]]:
    """The unsplit model on each real device that runs it, and why the others do not."""
    graph, found, problems = placement.graph, {}, {}
    real: list[Device] = [d for d in placement.devices if not d.planned]
    for device in real or [stand_in(graph.format)]:
        phase(f"compiling the unsplit model on {device.name}")
        answer = capability(graph, device)
        refused = [
            op for op in np.flatnonzero(~answer.mask).tolist() if not graph.op_is_constant[op]
        ]
        if refused:
            problems[device.name] = (
                f"{graph.display_name(refused[0])}: {answer.reasons[refused[0]]}"
            )
            continue
        try:
            found[f"{_UNSPLIT}{device.name}"] = Generator.unsplit(
                graph, device, state, threads, sequences
            )
        except EditorError as error:
            problems[device.name] = str(error)
    return found, problems


def vocabulary(graph: Graph, logits: str) -> int:
    """Number of tokens that the logits are about."""
    shape = graph.tensor_shapes[graph.tensor_index[logits]] or ()
    return shape[-1] if shape and isinstance(shape[-1], int) and shape[-1] > 0 else 100


class _Sequences:
    """Several sequences at the same time, each on a thread that stays: cuDNN plans attention for each thread and length."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._threads = ThreadPoolExecutor(count) if count > 1 else None

    def run(
        self,
        runner: Generator,
        ids: Sequence[int],
        new: int,
        given: Mapping[str, Value] | None,
        follow: Sequence[int],
        should_stop: Callable[[], bool],
    ) -> list[Generation]:
        """What each sequence gave."""
        if self._threads is None:
            return [runner.generate(ids, new, given, follow, should_stop)]
        began = Barrier(self.count)  # so that each thread takes one

        def work(own: Generator) -> Generation:
            began.wait()
            return own.generate(ids, new, given, follow, should_stop)

        return list(self._threads.map(work, runner.clones(self.count)))

    def close(self) -> None:
        """Ends the threads."""
        if self._threads is not None:
            self._threads.shutdown()


def _figures(name: str, found: Sequence[Generation], rate: float | None) -> TokenFigures:
    times = [seconds for each in found for seconds in each.seconds]
    first = Spread.of([each.first_token for each in found])
    token = Spread.of(times or [each.first_token for each in found])
    shown = found[0]
    size = max(len(shown.seconds) // _PARTS, 1)
    parts = tuple(
        (
            shown.prompt + start,
            float(np.median([t for each in found for t in each.seconds[start : start + size]])),
        )
        for start in range(0, size * _PARTS, size)
        if start < len(shown.seconds)
    )
    taken = [seconds for each in found for seconds in each.by_subgraph] if rate is None else []
    by_subgraph = parts_of_median_run(taken, times, token.median) if taken else ()
    return TokenFigures(
        name, first, token, 1 / token.median if rate is None else rate, parts, by_subgraph
    )


def _difference(expected: Generation, actual: Generation) -> float:
    """Largest difference of logits, relative to the largest logit."""
    pairs = zip(expected.logits, actual.logits, strict=False)
    return max(
        (float(np.abs(a - b).max()) / max(float(np.abs(a).max()), 1e-9) for a, b in pairs),
        default=0.0,
    )
