"""Results of a benchmark, as frozen values with a JSON and a text form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from editor.text import counted

_FEW = 4
"""Most ops to name in one line."""


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
        """Percentiles of at least one duration."""
        low, median, p90, p99, high = np.percentile(seconds, [0, 50, 90, 99, 100]).tolist()
        return cls(median, p90, p99, low, high, float(np.mean(seconds)), len(seconds))


@dataclass(frozen=True)
class SubgraphFigures:
    """Times of one subgraph over all runs."""

    id: int
    device: str
    runs_on: str
    estimated: bool
    """Whether the device is planned, so that the time is that of its stand-in."""
    ops: int
    first_op: str
    absorbed_ops: tuple[str, ...]
    """Ops of other subgraphs that kernels of this subgraph compute."""
    time: Spread
    cpu: float
    """median CPU seconds"""
    share: float
    """of the mean total latency, 0 to 1"""

    @property
    def fused_in(self) -> str:
        """Text that names the first few of ``absorbed_ops``; "" where there are none."""
        more = len(self.absorbed_ops) - _FEW
        return ", ".join(self.absorbed_ops[:_FEW]) + (f" and {more} more" if more > 0 else "")

    @property
    def what(self) -> str:
        """Text that describes the ops of the subgraph."""
        fused = f"; fused with them: {self.fused_in}" if self.absorbed_ops else ""
        return f"{counted(self.ops, 'op')} from {self.first_op}{fused}"


@dataclass(frozen=True)
class TransferFigures:
    """Times of one transfer over all runs."""

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
    """Times of the unsplit model on one real device."""

    device: str
    description: str
    time: Spread | None
    throughput: float | None
    """requests per second"""
    problem: str
    """Why there is no time; "" when there is."""


@dataclass(frozen=True)
class Difference:
    """Difference between the outputs of the plan and of the unsplit model."""

    reference: str
    max_absolute: float
    max_relative: float
    """largest absolute difference of an output divided by its largest magnitude"""
    outputs: tuple[OutputDifference, ...]
    within_tolerance: bool


@dataclass(frozen=True)
class OutputDifference:
    """Difference of one output."""

    name: str
    max_absolute: float
    max_relative: float
    tolerance: float
    """relative"""
    ok: bool
    first: str = ""
    """Where the difference first appears, for an output outside its tolerance; "" when unknown."""


@dataclass(frozen=True)
class BenchmarkResult:
    """The benchmark of one plan."""

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
    """Whether a subgraph ran on a stand-in, so that totals are estimates."""
    subgraphs: tuple[SubgraphFigures, ...]
    transfers: tuple[TransferFigures, ...]
    baselines: tuple[Baseline, ...]
    difference: Difference | None
    difference_problem: str
    first_difference: str
    """Where a difference outside the tolerance first appears; "" when there is none or it is unknown."""
    predicted: float | None
    """seconds of one run by the costs that policies use; None when they are not available"""
    predicted_from: str
    """``estimate`` or ``measured``"""
    environment: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Data for JSON; times in seconds."""
        return asdict(self)

    def text(self) -> str:
        """A report in the form of OpenVINO's ``-pc`` table; times in microseconds."""
        return "\n".join([*self._per_subgraph(), *self._totals(), *self._comparison()])

    def ratio_to(self, baseline: Baseline) -> str:
        """Text that compares the plan with a baseline; "" when the baseline was not measured."""
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
        lines += [f"subgraph{s.id} computes, fused with its own: {s.fused_in}" for s in self.subgraphs if s.absorbed_ops]
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
    """A label of fixed width; long names lose their start, because scoped names differ at the end."""
    room = width - len(prefix)
    return (prefix + (name if len(name) <= room else "…" + name[1 - room:])).ljust(width)
