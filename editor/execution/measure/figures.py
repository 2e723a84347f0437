"""Results of a benchmark, as frozen values with a JSON and a text form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from editor.execution.measure.statistics import median_interval, medians_of_turns
from editor.groups import grouped
from editor.kinds import NO_DIFFERENCE, Basis, Kind, compare_medians, compare_rates, kind_of_run
from editor.placement.energy import Energy
from editor.text import (
    human_bytes,
    human_joules,
    human_rate,
    human_seconds,
    joined,
    pluralize,
    rough_rate,
    rough_seconds,
)

_FEW = 4
"""Most ops to name in one line."""
_WIDE_PERCENT, _SKEWED_PERCENT = 20, 2
"""Intervals that are wider to each side, or reach farther to one side than to the other, are given by their ends."""


LONGER = 4
"""Times as long to measure, where a result leaves something open."""
_BURSTS = 0.8
"""A rate of less than this part of what the median latency allows is explained."""


@dataclass(frozen=True)
class Spread:
    """Percentiles of a sample of durations, in seconds, and the 95 % interval of the median."""

    median: float
    low: float
    high: float
    """Ends of the interval; the extremes where there are fewer than six durations."""
    p90: float
    p99: float
    min: float
    max: float
    mean: float
    count: int

    @classmethod
    def of(cls, seconds: Sequence[float], turns: Sequence[int] = ()) -> Spread:
        """Percentiles of at least one duration; median and interval are those of the turns' medians, where there are turns.

        Args:
            seconds: durations in the order in which they were measured.
            turns: [turn] how many of them it has.
        """
        least, p90, p99, most = np.percentile(seconds, [0, 90, 99, 100]).tolist()
        medians = medians_of_turns(seconds, turns)
        return cls(
            float(np.median(medians)),
            *median_interval(medians),
            p90,
            p99,
            least,
            most,
            float(np.mean(seconds)),
            len(seconds),
        )

    @property
    def margin(self) -> float:
        """Half the width of the interval, relative to the median."""
        return (self.high - self.low) / 2 / self.median if self.median else 0.0

    @property
    def precision(self) -> str:
        """E.g. "95 % interval ±1.2 %"."""
        percent = self.margin * 100
        reach = (
            max(self.high - self.median, self.median - self.low) / self.median * 100
            if self.median
            else 0.0
        )
        if (
            percent > _WIDE_PERCENT or reach > percent + _SKEWED_PERCENT
        ):  # no ± says where a skewed interval begins
            return f"95 % interval {human_seconds(self.low)} to {human_seconds(self.high)}"
        return f"95 % interval ±{percent:.{'2g' if percent < 10 else '0f'}} %"


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
    time: Spread
    cpu: float
    """median CPU seconds"""
    share: float
    """of the mean total latency, 0 to 1"""
    in_median_run: float = 0.0
    """Its seconds in a run as long as the median one, so that parts add up: medians do not where runs vary"""

    @property
    def what(self) -> str:
        """Text that describes the ops of the subgraph."""
        return f"{pluralize(self.ops, 'op')} from {self.first_op}"


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
    copied: bool = False
    """Whether it went from one memory to another; otherwise the other device reads it where it is."""
    wire: str = ""
    """Such as ``edge -> server``; "" within one machine."""
    travelled_as: str = ""
    """The narrower type in which it went over the wire; "" for its own."""
    sent: int = 0
    """Bytes on the wire."""

    @property
    def over(self) -> str:
        """Text such as "edge -> server as float16, 1,024 of 2,048 bytes"; "" within one machine."""
        if not self.wire:
            return ""
        how = (
            f" as {self.travelled_as}, {self.sent:,} of {self.bytes:,} bytes"
            if self.travelled_as
            else ""
        )
        return self.wire + how


@dataclass(frozen=True)
class WireFigures:
    """All transfers of a run over one wire."""

    name: str
    """Such as ``edge -> server``."""
    tensors: int
    bytes: int
    """Of the tensors."""
    sent: int
    """Bytes on the wire; fewer where tensors travelled in a narrower type."""
    travelled_as: tuple[str, ...]
    """The narrower types."""
    seconds: float
    """Sum of the medians."""
    estimated: bool

    @property
    def what(self) -> str:
        """Text such as "2 tensors, 1.0 MB instead of 2.0 MB as float16"."""
        size = human_bytes(self.sent)
        if self.travelled_as:
            size += f" instead of {human_bytes(self.bytes)} as {' and '.join(self.travelled_as)}"
        return f"{pluralize(self.tensors, 'tensor')}, {size}"


@dataclass(frozen=True)
class EnergyUse:
    """Joules of one run, as a counter of the machine counted them over the measured turns."""

    counter: str
    covers: str
    """What it counts, such as "the whole processor, whatever else ran"."""
    joules: float

    def __str__(self) -> str:
        return f"{human_joules(self.joules)} by {self.counter} ({self.covers})"


def explained(rate: float, time: Spread) -> str:
    """A rate of requests one after the other, with a clause where it seems to contradict their median."""
    if _BURSTS <= rate * time.median <= 1 / _BURSTS:
        return human_rate(rate)
    return f"{human_rate(rate)} on average, in bursts; median {human_seconds(time.median)}"


@dataclass(frozen=True)
class Baseline:
    """Times of the unsplit model on one real device."""

    device: str
    description: str
    time: Spread | None
    throughput: float | None
    """requests per second"""
    throughput_interval: tuple[float, float] | None
    """95 % interval of the median over turns; None in mode latency, and below six turns"""
    problem: str
    """Why there is no time; "" when there is."""
    energy_measured: tuple[EnergyUse, ...] = ()
    """By each counter that can be read"""
    lacks: str = ""
    """"needs 72 MB of 60 MB", of a device whose memory in the table is too small for the whole model; else ""."""

    @property
    def explained_rate(self) -> str:
        """E.g. "43.6 requests/s", with a clause where it seems to contradict the median of one request after the other."""
        return explained(self.throughput or 0.0, self.time) if self.time else ""

    @property
    def rate(self) -> str:
        """E.g. "43.6 requests/s (95 % interval 43.0 to 44.1 requests/s)", the interval where several were in flight."""
        return f"{human_rate(self.throughput or 0)}{f' ({self.interval})' if self.interval else ''}"

    @property
    def interval(self) -> str:
        """E.g. "95 % interval 43.0 to 44.1 requests/s"; "" in mode latency, and below six turns."""
        return _rate_interval(self.throughput_interval)


@dataclass(frozen=True)
class Difference:
    """Difference between the outputs of the plan and of the unsplit model."""

    reference: str
    max_absolute: float
    max_relative: float
    """largest absolute difference of an output divided by its largest magnitude"""
    outputs: tuple[OutputDifference, ...]
    within_tolerance: bool

    @property
    def tolerance(self) -> str:
        """The relative difference that is allowed; one for each element type of the outputs."""
        return " or ".join(f"{t:g}" for t in sorted({each.tolerance for each in self.outputs}))

    @property
    def in_words(self) -> str:
        """E.g. "largest difference 5.2e-06, relative 9.8e-07; tolerance 0.001 relative"."""
        tolerance = f"; tolerance {self.tolerance} relative" if self.outputs else ""
        return f"largest difference {self.max_absolute:.2g}, relative {self.max_relative:.2g}{tolerance}"


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
class MemoryUse:
    """Bytes that one memory held, beside what stood there before."""

    devices: tuple[str, ...]
    """Devices of the plan whose memory it is"""
    where: str
    """"host memory", or the name of a device with a memory of its own"""
    compiled: int
    """after the plan was compiled"""
    peak: int
    """most during the runs"""
    predicted: int
    """what runtimes are known to take for such a plan"""
    needed: int
    """what it cannot do without: constants and tensors, once"""
    constants: int

    def __str__(self) -> str:
        change = f" ({(self.peak / self.predicted - 1) * 100:+.0f} %)" if self.predicted else ""
        return (
            f"{self.where} ({', '.join(self.devices)}): estimate {human_bytes(self.predicted)}, of it constants "
            f"{human_bytes(self.constants)} and tensors {human_bytes(self.needed - self.constants)}; measured "
            f"{human_bytes(self.peak)}{change}, {human_bytes(self.compiled)} of it before the first run"
        )


@dataclass(frozen=True)
class RanOn:
    """What ran the subgraphs of one device."""

    device: str
    runs_on: str
    is_stand_in: bool
    subgraphs: int
    ops: int

    def __str__(self) -> str:
        size = f"{pluralize(self.subgraphs, 'subgraph')}, {pluralize(self.ops, 'op')}"
        return f"{self.device} ({size}) ran on {self.runs_on}"


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
    """requests per second; in mode throughput the median of the turns"""
    throughput_interval: tuple[float, float] | None
    """95 % interval of the median over turns; None in mode latency, and below six turns"""
    estimated: bool
    """Whether a subgraph ran on a stand-in, so that totals are estimates."""
    subgraphs: tuple[SubgraphFigures, ...]
    transfers: tuple[TransferFigures, ...]
    baselines: tuple[Baseline, ...]
    difference: Difference | None
    difference_problem: str
    """Why outputs, or some of them, were not compared; "" when all were."""
    first_difference: str
    """Where a difference outside the tolerance first appears; "" when there is none or it is unknown."""
    predicted: float | None
    """seconds of one run by the costs that policies use; None when they are not available, and in mode throughput"""
    predicted_basis: Basis | None
    """Where that comes from."""
    surprise: str
    """Why it took longer or shorter than predicted, as far as it can be told; "" where both are close."""
    settled: bool
    """Whether the intervals of all medians became as narrow as wanted before the time was up."""
    disturbances: tuple[str, ...]
    """What makes the figures noisy; empty on a quiet machine."""
    environment: dict[str, str]
    predicted_throughput: float | None = None
    """requests per second by the same costs; None in mode latency"""
    assumed_speeds: tuple[str, ...] = ()
    """Accelerators that the plan uses and whose speed the prediction assumes"""
    precision_notes: tuple[str, ...] = ()
    """Of runtimes that are told to keep float32 where they would compute in less by themselves."""
    not_simulated: tuple[str, ...] = ()
    """Element types that planned devices are to compute in, and their stand-ins did not"""
    memory: tuple[MemoryUse, ...] = ()
    """What the plan took in each memory; empty where it was not measured."""
    memory_problem: str = ""
    """Why it was not measured although it was asked for."""
    properties: dict[str, dict[str, str]] = field(default_factory=dict)
    """Of the devices that the plan uses, by name"""
    energy: Energy | None = None
    """Joules of one run by stated watts; None where none are stated"""
    energy_measured: tuple[EnergyUse, ...] = ()
    """By each counter that can be read; empty where there is none, and where a stand-in ran"""

    @property
    def kind(self) -> Kind:
        """A measurement, or an estimate where a planned device ran on a stand-in."""
        return kind_of_run(self.estimated)

    @property
    def ran_on(self) -> tuple[RanOn, ...]:
        """What ran the subgraphs of each device."""
        found = grouped(((s.device, s.runs_on), s) for s in self.subgraphs)
        return tuple(
            RanOn(*names, parts[0].estimated, len(parts), sum(s.ops for s in parts))
            for names, parts in found.items()
        )

    @property
    def outputs_in_words(self) -> str:
        """Whether the outputs are those of the unsplit model, in words."""
        if self.difference is None:
            return "outputs were not compared"
        same = "match" if self.difference.within_tolerance else "do not match"
        types = joined(self.not_simulated)
        return f"outputs {same}{f'; {types} was not simulated' if types else ''}"

    @property
    def wires(self) -> tuple[WireFigures, ...]:
        """Each wire between machines that the plan uses."""
        by_name = grouped((transfer.wire, transfer) for transfer in self.transfers if transfer.wire)
        return tuple(
            WireFigures(
                name,
                len(ways),
                sum(t.bytes for t in ways),
                sum(t.sent for t in ways),
                tuple(sorted({t.travelled_as for t in ways} - {""})),
                sum(t.time.median for t in ways),
                any(t.estimated for t in ways),
            )
            for name, ways in by_name.items()
        )

    @property
    def narrowed(self) -> str:
        """E.g. "with boundary tensors that travelled as float16"; "" where all travelled in their own type."""
        types = sorted({t.travelled_as for t in self.transfers} - {""})
        return f"with boundary tensors that travelled as {' and '.join(types)}" if types else ""

    @property
    def can_correct_profiles(self) -> bool:
        """Whether it is a measured latency of a split plan on devices that all have a profile."""
        return (
            self.kind is Kind.MEASUREMENT
            and len(self.subgraphs) > 1
            and self.mode == "latency"
            and self.predicted_basis is not None
            and self.predicted_basis.kind is Kind.PREDICTION
        )

    @property
    def rate(self) -> str:
        """E.g. "43.6 requests/s"."""
        return human_rate(self.throughput)

    @property
    def explained_rate(self) -> str:
        """As ``rate``, with a clause where it seems to contradict the median latency of one request after the other."""
        return self.rate if self.mode == "throughput" else explained(self.throughput, self.total)

    @property
    def precision(self) -> str:
        """How well the median is known, in words; in mode throughput that of the requests per second."""
        reached = "" if self.settled else ", stopped at the time limit"
        if self.mode == "throughput":
            return f"{_rate_interval(self.throughput_interval) or 'too few turns for an interval'}{reached}"
        return f"{self.total.precision}{reached}"

    @property
    def prediction(self) -> str:
        """E.g. "6.9 ms", in mode throughput "145.2 requests/s"; "" without a prediction.

        "about 7 ms" where it rests on assumed speeds.
        """
        seconds, rate = human_seconds, human_rate
        if self.assumed_speeds:
            seconds, rate = rough_seconds, rough_rate
        if self.mode == "throughput":
            return rate(self.predicted_throughput) if self.predicted_throughput else ""
        return seconds(self.predicted) if self.predicted else ""

    @property
    def comparison_with_prediction(self) -> str:
        """E.g. "prediction from profile 6.9 ms, measured 7.4 ms (+7 %)"; "" without a prediction, and of stand-ins."""
        if self.predicted_basis is None or not self.prediction or self.estimated:
            return ""
        if self.predicted_throughput:
            figure, change = self.rate, self.throughput / self.predicted_throughput - 1
        else:
            figure, change = (
                human_seconds(self.total.median),
                self.total.median / (self.predicted or self.total.median) - 1,
            )
        percent = "" if self.assumed_speeds else f" ({change * 100:+.0f} %)"
        return f"{self.predicted_basis} {self.prediction}, measured {figure}{percent}"

    def to_dict(self) -> dict[str, Any]:
        """Data for JSON; times in seconds; ``kind`` says what each is."""
        data = asdict(self) | {"kind": self.kind}
        for row in (*data["subgraphs"], *data["transfers"]):
            row["kind"] = kind_of_run(row["estimated"])
        data["energy"] = self.energy.to_dict() if self.energy is not None else None
        for row in (
            *data["memory"],
            *data["energy_measured"],
            *(each for b in data["baselines"] for each in b["energy_measured"]),
        ):
            row["kind"] = Kind.MEASUREMENT
        data["wires"] = [
            asdict(wire) | {"kind": kind_of_run(wire.estimated)} for wire in self.wires
        ]
        for row in data["baselines"]:
            row["kind"] = Kind.MEASUREMENT if row["time"] is not None else None
        return data

    def text(self) -> str:
        """A report in the form of OpenVINO's ``-pc`` table, times in microseconds; of stand-ins only whether outputs match."""
        if self.estimated:
            return "\n".join(self._of_stand_ins())
        return "\n".join([*self._per_subgraph(), *self._totals(), *self._comparison()])

    def ratio_to(self, baseline: Baseline) -> str:
        """Text that compares the plan with a baseline that fits; "" when the baseline was not measured."""
        if baseline.time is None or not baseline.time.median or not self.total.median:
            return ""
        if baseline.lacks:
            return f"does not fit: {baseline.lacks}"
        if self.estimated:
            return "stand-ins ran for planned devices, which says nothing about this plan's speed"
        if len(self.subgraphs) == 1 and self.subgraphs[0].device == baseline.device:
            return "this plan is the same"
        words = compared(self, baseline, self.mode)
        return f"{'this plan is ' if words.endswith('er') else ''}{words}"

    @property
    def left_open(self) -> str:
        """What measuring longer may settle: "Noisy", "All of it on CPU is too close to call"; "" where nothing is."""
        if self.estimated:
            return ""
        close = [b.device for b in self.baselines if self.ratio_to(b) == NO_DIFFERENCE]
        if self.disturbances or self.settled or not close:
            return "Noisy" if self.disturbances else ""
        return f"All of it on {joined(close, 'and')} is too close to call"

    def _of_stand_ins(self) -> list[str]:
        said = f"{self.outputs_in_words[:1].upper()}{self.outputs_in_words[1:]}"
        if self.difference:
            of = f"the unsplit model on {self.difference.reference}"
            said += f"; compared with {of}" if self.not_simulated else f" those of {of}"
            said += f": {self.difference.in_words}"
            said += f", {self.narrowed}" if self.narrowed else ""
        return [
            said,
            *([f"The difference is {self.first_difference}"] if self.first_difference else []),
            *([f"Not compared: {self.difference_problem}"] if self.difference_problem else []),
            *map(str, self.ran_on),
            "A stand-in says nothing about speed, so no time of the plan is shown",
            *([f"The plan: {self.prediction} ({self.predicted_basis})"] if self.prediction else []),
            *(
                f"Unsplit on {b.device} ({b.description}): median {human_seconds(b.time.median)} ({Kind.MEASUREMENT})"
                for b in self.baselines
                if b.time is not None
            ),
            *self._memory_and_environment(),
        ]

    def _memory_and_environment(self) -> list[str]:
        return [
            *(f"Memory, {use}" for use in self.memory),
            *([f"Memory: {self.memory_problem}"] if self.memory_problem else []),
            *(f"Precision: {note}" for note in self.precision_notes),
            *(f"{key}: {value}" for key, value in self.environment.items()),
        ]

    def _per_subgraph(self) -> list[str]:
        return [
            *(
                f"{_label(f'subgraph{s.id}: ', s.first_op)}  EXECUTED  layerType: {f'Subgraph[{s.ops}]':<14}  "
                f"realTime: {_us(s.time.median):>9}  cpu: {_us(s.cpu):>9}  execType: {s.runs_on}"
                for s in self.subgraphs
            ),
            *(
                f"{_label(f'transfer{t.source}-{t.target}: ', t.tensor)}  EXECUTED  "
                f"layerType: {f'Transfer[{t.bytes}]':<14}  realTime: {_us(t.time.median):>9}  "
                f"cpu: {_us(0.0 if t.wire else t.time.median):>9}  execType: {t.from_device}->{t.to_device}"
                f"{', copied' if t.copied and not t.wire else ''}{f', over {t.over}' if t.over else ''}"
                for t in self.transfers
            ),
            *(f"Wire {wire.name}: {wire.what}, {_ms(wire.seconds)} ms" for wire in self.wires),
        ]

    def _totals(self) -> list[str]:
        t = self.total
        return [
            f"Total time: {_us(t.median)} microseconds",
            f"Latency ({_of_runs(t.count, self.runs)}): median {_ms(t.median)} ({t.precision})  p90 {_ms(t.p90)}  "
            f"p99 {_ms(t.p99)}  min {_ms(t.min)}  max {_ms(t.max)} ms",
            f"Throughput: {self.throughput:.2f} requests/s{self.explained_rate.removeprefix(self.rate)}"
            + (
                f" ({self.requests} in flight, {self.precision})"
                if self.mode == "throughput"
                else ""
            ),
        ]

    def _comparison(self) -> list[str]:
        lines = []
        lines += [f"Noisy: {sign}" for sign in self.disturbances]
        if self.comparison_with_prediction:
            text = self.comparison_with_prediction
            lines.append(
                f"{text[:1].upper()}{text[1:]}{f': {self.surprise}' if self.surprise else ''}"
            )
        for b in self.baselines:
            if b.time is None:
                lines.append(f"Unsplit on {b.device} ({b.description}): {b.problem}")
                continue
            words = [
                f"median {_ms(b.time.median)} ms, {b.rate}{', one run' if b.time.count == 1 else ''}",
                self.ratio_to(b),
                *map(str, b.energy_measured),
            ]
            lines.append(
                f"Unsplit on {b.device} ({b.description}): {'; '.join(filter(None, words))}"
            )
        if self.difference:
            d = self.difference
            verdict = "within tolerance" if d.within_tolerance else "OUTSIDE TOLERANCE"
            lines.append(
                f"Largest difference to the unsplit model on {d.reference}: {d.max_absolute:.3g} absolute, "
                f"{d.max_relative:.3g} relative ({verdict}){f', {self.narrowed}' if self.narrowed else ''}"
            )
            if self.first_difference:
                lines.append(f"The difference is {self.first_difference}")
        if self.difference_problem:
            lines.append(f"Not compared with the unsplit model: {self.difference_problem}")
        if self.energy is not None:
            lines.append(f"Energy of a run: {self.energy} ({self.energy.basis})")
        lines += [f"Energy of a run: {use} (measurement)" for use in self.energy_measured]
        return lines + self._memory_and_environment()


def compared(
    ours: BenchmarkResult | Baseline, theirs: BenchmarkResult | Baseline, mode: str
) -> str:
    """Says which is faster, in mode throughput at finishing requests; e.g. "9 % slower"; "" without figures."""
    many = mode == "throughput"
    if (
        many
        and ours.throughput_interval
        and theirs.throughput_interval
        and ours.throughput
        and theirs.throughput
    ):
        ratio = ours.throughput / theirs.throughput
        return compare_rates(ours.throughput_interval, theirs.throughput_interval, ratio)
    mine, time = (
        each.time if isinstance(each, Baseline) else each.total for each in (ours, theirs)
    )
    if mine is None or time is None or many:
        return ""
    return compare_medians((mine.low, mine.high), (time.low, time.high), mine.median / time.median)


def _rate_interval(interval: tuple[float, float] | None) -> str:
    return f"95 % interval {interval[0]:.1f} to {interval[1]:.1f} requests/s" if interval else ""


def _of_runs(timed: int, runs: int) -> str:
    """In mode throughput some of the runs are timed."""
    return f"{runs} runs" if timed == runs else f"{timed} of {runs} runs"


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.0f}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f}"


def _label(prefix: str, name: str, width: int = 44) -> str:
    """A label of fixed width; long names lose their start, because scoped names differ at the end."""
    room = width - len(prefix)
    return (prefix + (name if len(name) <= room else "…" + name[1 - room :])).ljust(width)
