"""The three kinds of numbers, decided and named in this module only: estimate, prediction and measurement.

- An *estimate* comes from shapes and the stated peaks of a device, or from a compiler that ran nothing.
- A *prediction* comes from a profile, for a plan that did not run.
- A *measurement* comes from runs of exactly this plan on the devices that it names.

A figure computed from several kinds takes the weakest. One thing is told apart: where times of ops come from
a profile that has no transfers or launches (most profiles of other tools), a prediction names those as estimated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The kind of a time, rate or ratio; as ``kind`` in every JSON."""

    ESTIMATE = "estimate"
    PREDICTION = "prediction"
    MEASUREMENT = "measurement"

    @property
    def participle(self) -> str:
        """E.g. "measured", as it stands before a figure."""
        return {"estimate": "estimated", "prediction": "predicted"}.get(self, "measured")


_TELLS_APART = {Kind.ESTIMATE: 0.25, Kind.PREDICTION: 0.05}
"""Share by which two times must differ before one is called less. Predictions are off by 4 % in the median
(benchmarks/RESULTS.md); estimates do not know runtimes from each other."""


@dataclass(frozen=True)
class Basis:
    """The kind of a number, and its source."""

    kind: Kind
    source: str
    """E.g. "from profile"; the kind and this make a phrase."""
    detail: str = ""
    """Of profiles that were measured elsewhere: device, tool, machine and date of each, and what they lack."""
    noisy: bool = False
    """Whether a profile was disturbed while it was measured; it tells times apart as badly as an estimate."""

    def __str__(self) -> str:
        return f"{self.kind} {self.source}{f' ({self.detail})' if self.detail else ''}"


def too_close(one: float, other: float, *bases: Basis | Kind) -> bool:
    """Whether two times, or two rates, are closer than figures of their kinds can tell."""
    return abs(one - other) < told_apart(*bases) * max(one, other)


def told_apart(*bases: Basis | Kind) -> float:
    """Share of the larger by which two figures of these kinds must differ before one is called less."""
    kinds = (
        basis if isinstance(basis, Kind) else Kind.ESTIMATE if basis.noisy else basis.kind
        for basis in bases
    )
    return max(_TELLS_APART.get(kind, 0.0) for kind in kinds)


def basis_of_costs(
    estimated: bool, profiled: bool, origins: Sequence[str] = (), noisy: bool = False
) -> Basis:
    """What costs are, and with them every figure that is worked out from them.

    Args:
        estimated: the time of some op comes from shapes and stated peaks.
        profiled: some cost comes from a profile.
        origins: of profiles that were measured elsewhere: device, tool, machine and date; "" for others.
        noisy: a profile was disturbed while it was measured.
    """
    elsewhere = [origin for origin in origins if origin]
    if not profiled:
        return Basis(Kind.ESTIMATE, "from shapes")
    profile = "imported profile" if elsewhere else "profile"
    kind = Kind.ESTIMATE if estimated else Kind.PREDICTION
    source = f"{'in part ' if estimated else ''}from {profile}"
    return Basis(kind, source, "; ".join(elsewhere), noisy)


def weakest(bases: Sequence[Basis]) -> Basis:
    """What a sum of figures is: the weakest of what they are, one of them at least."""
    order = (Kind.ESTIMATE, Kind.PREDICTION, Kind.MEASUREMENT)
    return min(bases, key=lambda basis: order.index(basis.kind))


def basis_of_energy(costs: Basis) -> Basis:
    """What joules are that come from stated watts, whatever the seconds are."""
    return Basis(Kind.ESTIMATE, f"from stated watts and times {costs.source}", costs.detail)


def kind_of_run(on_stand_in: bool) -> Kind:
    """What the times of a run are: on a stand-in for a planned device they say nothing about that device."""
    return Kind.ESTIMATE if on_stand_in else Kind.MEASUREMENT


NO_DIFFERENCE = "too close to call"


def compare_medians(ours: tuple[float, float], theirs: tuple[float, float], ratio: float) -> str:
    """Compares two medians of times by their 95 % intervals: a winner is named only where these do not overlap.

    Args:
        ours: interval of the plan's median.
        theirs: interval of the other median.
        ratio: the plan's median divided by the other one.

    Returns:
        E.g. "9 % slower", "3.4x faster", ``NO_DIFFERENCE``.
    """
    if ours[0] <= theirs[1] and theirs[0] <= ours[1]:
        return NO_DIFFERENCE
    return by_factor(ratio)


def compare_rates(ours: tuple[float, float], theirs: tuple[float, float], ratio: float) -> str:
    """As ``compare_medians``, of rates: more of them is faster."""
    mine, others = ((1 / high, 1 / low) for low, high in (ours, theirs))
    return compare_medians(mine, others, 1 / ratio)


def by_factor(ratio: float) -> str:
    """E.g. "9 % slower", "3.4x faster": a time as a multiple of another one, which it is told apart from."""
    return f"{_factor(ratio)} slower" if ratio > 1 else f"{_factor(1 / ratio)} faster"


def _factor(ratio: float) -> str:
    if ratio < 1.5:
        return f"{(ratio - 1) * 100:.2g} %"
    return f"{ratio:.2g}x" if ratio < 10 else f"{ratio:.0f}x"
