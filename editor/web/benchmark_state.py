"""A measurement of a document: what was asked for, the job, and what it says."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from editor.arguments import MOST_TOKENS
from editor.errors import EditorError
from editor.graph.states import Lengths, makes_one_token, prompt_at
from editor.placement.placement import Placement
from editor.placement.state_memory import full_at
from editor.sandbox.jobs import Job
from editor.workspace.document import Document
from editor.workspace.phases import Phases
from editor.workspace.plan import Plan


@dataclass(frozen=True)
class JobOptions:
    """What a person chose for a measurement."""

    seconds: float = 3
    """For the benchmark or the tuning in all, for the profile per device"""
    mode: str = "latency"
    """``latency``, ``throughput`` or ``tokens``"""
    requests: int = 4
    """In flight"""
    memory: bool = False
    """Whether a benchmark then measures what the plan takes"""
    prompt: int = 64
    """Tokens of the prompt, where tokens are measured"""
    new: int = 32
    """Tokens to generate"""


def first_options(placement: Placement, placed: Lengths | None = None) -> JobOptions:
    """What a first measurement measures: tokens at the context of the sizes, as far as the answer fits behind it.

    Args:
        placement: the plan.
        placed: what the phases of the model were placed for, which is measured then.
    """
    graph, full = placement.graph, full_at(placement)
    if placed is not None and makes_one_token(graph):
        return JobOptions(mode="tokens", prompt=placed.prompt, new=placed.new)
    prompt = min(prompt_at(graph), MOST_TOKENS) or JobOptions.prompt
    if full is not None and full >= JobOptions.new:
        prompt = max(min(prompt, full - JobOptions.new), 1)
    mode = "tokens" if makes_one_token(graph) else "latency"
    return JobOptions(mode=mode, prompt=prompt)


def next_options(
    placement: Placement, last: BenchmarkState | None, placed: Lengths | None = None
) -> JobOptions:
    """What was chosen for the last measurement; the mode is that of the last one that has modes."""
    if last is None:
        return first_options(placement, placed)
    if last.kind in ("benchmark", "tokens", "tune"):
        return last.options
    before = next_options(placement, last.previous, placed)
    return replace(last.options, mode=before.mode)


def plan_in_use(document: Document, phases: Phases | None) -> Plan:
    """The plan of a document, with the placement of the prompt where a placement for each phase is in use.

    Args:
        document: the plan.
        phases: what was found for it, where both phases were placed.
    """
    both = None if phases is None else phases.both_with(document.placement)
    return document.plan if both is None else Plan(both[1], both[0])


@dataclass
class BenchmarkState:
    """The benchmark of one document: running or finished."""

    job: Job
    plan: Plan
    """What is measured"""
    devices: tuple[str, ...]
    """Of the subgraphs that are measured, by id."""
    kind: str = "benchmark"
    """``benchmark``, ``profile``, ``tune``, ``tokens`` or ``accuracy``"""
    kept: bool = False
    """It is in the document's list of benchmarks."""
    problem: str = ""
    """Why there is no result, or why it is not in the list."""
    layout: str = ""
    """What the plan is called: the last step of its history."""
    step: int | None = None
    """The number of that step"""
    options: JobOptions = JobOptions()
    previous: BenchmarkState | None = None
    """The finished one before it: shown again where this one ends without a result, and below a profile."""

    def is_of(self, document: Document) -> bool:
        """It measures the present plan, however the document came to that: other steps may lead to the same one."""
        now = document.placement
        then = self.plan.placement
        return then is now or (
            [d.own_entry for d in then.devices] == [d.own_entry for d in now.devices]
            and np.array_equal(then.assignment.device, now.assignment.device)
            and np.array_equal(then.division.subgraph_of_op, now.division.subgraph_of_op)
        )

    @property
    def called(self) -> str:
        """What it is, for people."""
        return {"tune": "tuning", "accuracy": "comparison of tensors"}.get(self.kind, self.kind)

    @property
    def has_result(self) -> bool:
        """It ended well."""
        try:
            self.job.result(0)
        except (EditorError, TimeoutError):
            return False
        return True
