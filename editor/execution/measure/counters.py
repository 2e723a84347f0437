"""Counters of energy that the machine has: RAPL of processors, NVML of NVIDIA's boards; each where it can be read."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from editor.execution.measure.figures import EnergyUse

POWERCAP = Path("/sys/class/powercap")
"""Of Linux; many systems let only their administrator read it."""
_COVERS = {
    "package": "the whole processor, whatever else ran",
    "dram": "its memory, whatever else ran",
    "psys": "the whole machine, whatever else ran",
}
"""First word of a zone's name -> what it counts; the other zones are parts of the package."""


@dataclass(frozen=True)
class Counter:
    """Joules since some time."""

    name: str
    covers: str
    read: Callable[[], float]
    range: float = float("inf")
    """Joules at which it begins again at 0"""


@dataclass
class Tally:
    """Joules by counter over a number of runs."""

    joules: dict[str, float] = field(default_factory=dict)
    runs: int = 0


class Meter:
    """All counters of this machine."""

    def __init__(self, with_boards: bool) -> None:
        """Finds the counters; those of NVIDIA's boards only ``with_boards``."""
        self._counters = [*_packages(), *(_boards() if with_boards else ())]

    def read(self) -> list[float]:
        """Joules of each counter now; NaN of one that cannot be read any more."""
        return [self._value(counter) for counter in self._counters]

    def _value(self, counter: Counter) -> float:
        try:
            return counter.read()
        except Exception:  # noqa: BLE001  # of the library's own kind; the benchmark goes on without it
            return float("nan")

    def add(self, tally: Tally, before: Sequence[float], runs: int) -> None:
        """Adds what was counted since ``before``, over some runs."""
        tally.runs += runs
        for counter, was, now in zip(self._counters, before, self.read(), strict=True):
            spent = now - was if now >= was else now - was + counter.range
            tally.joules[counter.name] = tally.joules.get(counter.name, 0.0) + spent

    def uses(self, tally: Tally) -> tuple[EnergyUse, ...]:
        """Joules of one run by each counter; one that stood still does not count."""
        return tuple(
            EnergyUse(counter.name, counter.covers, joules / tally.runs)
            for counter in self._counters
            if 0 < (joules := tally.joules.get(counter.name, 0.0)) < float("inf")
        )


def _packages() -> Iterable[Counter]:
    for zone in sorted(POWERCAP.glob("intel-rapl:*")):
        with suppress(OSError, ValueError):  # not for this user
            name = (zone / "name").read_text().strip()
            covers = _COVERS.get(name.partition("-")[0])
            if covers is None:
                continue
            read = partial(_microjoules, zone / "energy_uj")
            read()
            yield Counter(
                f"RAPL {name} ({zone.name.partition(':')[2]})",
                covers,
                read,
                _microjoules(zone / "max_energy_range_uj"),
            )


def _microjoules(path: Path) -> float:
    return int(path.read_text()) / 1e6


def _boards() -> Iterable[Counter]:
    try:
        nvml: Any = importlib.import_module("pynvml")
        nvml.nvmlInit()
        count = nvml.nvmlDeviceGetCount()
    except ImportError:
        return
    except Exception:  # noqa: BLE001  # it is the library's own kind: no driver, no board
        return
    for number in range(count):
        with suppress(nvml.NVMLError):  # boards before Volta do not count
            board = nvml.nvmlDeviceGetHandleByIndex(number)
            read = partial(_millijoules, nvml, board)
            read()
            model = nvml.nvmlDeviceGetName(board)
            yield Counter(f"NVML board {number}", f"the whole {model}, whatever else ran", read)


def _millijoules(nvml: Any, board: Any) -> float:
    return float(nvml.nvmlDeviceGetTotalEnergyConsumption(board)) / 1e3
