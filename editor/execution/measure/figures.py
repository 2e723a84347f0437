"""What a benchmark found out, as frozen values that turn into JSON and text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from editor.text import counted

_FEW = 4
"""Ops to name in one line."""


@dataclass(frozen=True)
class Spread:
    """Percentiles of a sample of durations, in seconds."""

    median: float
    p90: float
    p99: float
    min: float
    max: float
    mean: float
    count: int

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Spread:
        """From at least one duration."""
        low, median, p90, p99, high = np.percentile(seconds, [0, 50, 90, 99, 100]).tolist()
        return cls(median, p90, p99, low, high, float(np.mean(seconds)), len(seconds))


@dataclass(frozen=True)
class SubgraphFigures:
    """One subgraph over all runs."""

    id: int
    device: str
    runs_on: str
    estimated: bool
    """The device is planned; the time is that of its stand-in."""
    ops: int
    first_op: str
    also: tuple[str, ...]
    """Ops of other subgraphs that run here, in one kernel with its own"""
    time: Spread
    cpu: float
    """median CPU seconds"""
    share: float
    """of the mean total latency, 0 to 1"""

    @property
    def fused_in(self) -> str:
        """The first few of ``also``, in words; "" where there are none."""
        more = len(self.also) - _FEW
        return ", ".join(self.also[:_FEW]) + (f" and {more} more" if more > 0 else "")

    @property
    def what(self) -> str:
        """What runs, in words."""
        return f"{counted(self.ops, 'op')} from {self.first_op}" + (f"; fused with them: {self.fused_in}" if self.also else "")


@dataclass(frozen=True)
class TransferFigures:
    """One boundary tensor handed over, over all runs."""

    tensor: str
    source: int
    target: int
    from_device: str
    to_device: str
    bytes: int
    estimated: bool
    time: Spread
    share: float


@dataclass(frozen=True)
class Baseline:
    """The unsplit model on one real device of the table."""

    device: str
    description: str
    time: Spread | None
    throughput: float | None
    """requests per second"""
    problem: str
    """Why there is no time; "" when there is."""


@dataclass(frozen=True)
class Difference:
    """Outputs of the plan against those of the unsplit model."""

    reference: str
    max_absolute: float
    max_relative: float
    """largest absolute difference of an output over the largest magnitude in it"""
    outputs: tuple[OutputDifference, ...]
    within_tolerance: bool


@dataclass(frozen=True)
class OutputDifference:
    """One output."""

    name: str
    max_absolute: float
    max_relative: float
    tolerance: float
    """relative"""
    ok: bool
    first: str = ""
    """Where the difference first appears, for an output outside its tolerance; "" when that is not known."""


@dataclass(frozen=True)
class BenchmarkResult:
    """One plan, measured."""

    plan: str
    mode: str
    requests: int
    """in flight, for mode throughput"""
    runs: int
    seconds: float
    total: Spread
    throughput: float
    """requests per second"""
    estimated: bool
    """Some subgraph ran on a stand-in, so totals are estimates too."""
    subgraphs: tuple[SubgraphFigures, ...]
    transfers: tuple[TransferFigures, ...]
    baselines: tuple[Baseline, ...]
    difference: Difference | None
    difference_problem: str
    first_difference: str
    """Where a difference outside the tolerance first appears; "" when there is none or it is not known."""
    predicted: float | None
    """seconds of one run by the costs that policies use; None when they cannot be had"""
    predicted_from: str
    """``estimate`` or ``measured``"""
    environment: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; times in seconds."""
        return asdict(self)

    def text(self) -> str:
        """A report in the form of OpenVINO's ``-pc`` table; times in microseconds."""
        return "\n".join([*self._per_subgraph(), *self._totals(), *self._comparison()])

    def ratio_to(self, baseline: Baseline) -> str:
        """How the plan compares with a baseline, in words; "" when that was not measured."""
        if baseline.time is None or not baseline.time.median or not self.total.median:
            return ""
        ratio = self.total.median / baseline.time.median
        mark = " (estimated)" if self.estimated else ""
        if ratio >= 1:
            return f"this plan takes {ratio:.2f} times as long{mark}"
        return f"this plan is {1 / ratio:.2f} times as fast{mark}"

    def _per_subgraph(self) -> list[str]:
        lines = []
        for s in self.subgraphs:
            mark = " (estimated)" if s.estimated else ""
            lines.append(f"{_label(f'subgraph{s.id}: ', s.first_op)}  EXECUTED  layerType: {f'Subgraph[{s.ops}]':<14}  "
                         f"realTime: {_us(s.time.median):>9}  cpu: {_us(s.cpu):>9}  execType: {s.runs_on}{mark}")
        for t in self.transfers:
            mark = " (estimated)" if t.estimated else ""
            lines.append(f"{_label(f'transfer{t.source}-{t.target}: ', t.tensor)}  EXECUTED  "
                         f"layerType: {f'Transfer[{t.bytes}]':<14}  realTime: {_us(t.time.median):>9}  "
                         f"cpu: {_us(t.time.median):>9}  execType: {t.from_device}->{t.to_device}{mark}")
        lines += [f"subgraph{s.id} computes, fused with its own: {s.fused_in}" for s in self.subgraphs if s.also]
        return lines

    def _totals(self) -> list[str]:
        mark = " (estimated: planned devices ran on a stand-in)" if self.estimated else ""
        t = self.total
        return [f"Total time: {_us(t.median)} microseconds{mark}",
                f"Latency ({self.runs} runs): median {_ms(t.median)}  p90 {_ms(t.p90)}  p99 {_ms(t.p99)}  "
                f"min {_ms(t.min)}  max {_ms(t.max)} ms",
                f"Throughput: {self.throughput:.2f} requests/s"
                + (f" ({self.requests} in flight)" if self.mode == "throughput" else "")]

    def _comparison(self) -> list[str]:
        lines = []
        if self.predicted is not None:
            word = "from the profile" if self.predicted_from == "measured" else "estimated"
            lines.append(f"Predicted ({word}): {_ms(self.predicted)} ms")
        for b in self.baselines:
            if b.time is None:
                lines.append(f"Unsplit on {b.device} ({b.description}): {b.problem}")
                continue
            lines.append(f"Unsplit on {b.device} ({b.description}): median {_ms(b.time.median)} ms, "
                         f"{b.throughput or 0:.2f} requests/s{', one run' if b.time.count == 1 else ''}; "
                         f"{self.ratio_to(b)}")
        if self.difference:
            d = self.difference
            verdict = "within tolerance" if d.within_tolerance else "OUTSIDE TOLERANCE"
            lines.append(f"Largest difference to the unsplit model on {d.reference}: {d.max_absolute:.3g} absolute, "
                         f"{d.max_relative:.3g} relative ({verdict})")
            if self.first_difference:
                lines.append(f"The difference is {self.first_difference}")
        else:
            lines.append(f"Not compared with the unsplit model: {self.difference_problem}")
        lines += [f"{key}: {value}" for key, value in self.environment.items()]
        return lines


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.0f}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f}"


def _label(prefix: str, name: str, width: int = 44) -> str:
    """A name cut from the left: scoped names differ at their end."""
    room = width - len(prefix)
    return (prefix + (name if len(name) <= room else "…" + name[1 - room:])).ljust(width)
