"""Joules of a benchmark: by stated watts, and by counters that the machine has."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import editor
from editor.execution.measure import counters
from editor.execution.measure.counters import Meter, Tally
from editor.graph.graph import Graph


def zone(folder: Path, number: str, name: str, joules: float, most: float = 1000.0) -> Path:
    """A zone as Linux shows it."""
    made = folder / f"intel-rapl:{number}"
    made.mkdir(parents=True)
    (made / "name").write_text(f"{name}\n")
    (made / "energy_uj").write_text(f"{joules * 1e6:.0f}\n")
    (made / "max_energy_range_uj").write_text(f"{most * 1e6:.0f}\n")
    return made / "energy_uj"


def test_a_counter_that_begins_again_and_one_that_stands_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counters, "POWERCAP", tmp_path)
    package = zone(tmp_path, "0", "package-0", 999)
    zone(tmp_path, "0:0", "core", 5)  # a part of the package
    zone(tmp_path, "0:1", "dram", 7)
    meter, tally = Meter(with_boards=False), Tally()
    before = meter.read()
    package.write_text("3000000\n")
    meter.add(tally, before, runs=4)
    before = meter.read()
    package.write_text("7000000\n")
    meter.add(tally, before, runs=4)
    (use,) = meter.uses(tally)
    assert str(use) == "1 J by RAPL package-0 (0) (the whole processor, whatever else ran)"


def test_what_cannot_be_read_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "POWERCAP", tmp_path)
    zone(tmp_path, "0", "package-0", 1).unlink()
    zone(tmp_path, "1", "package-1", 1).write_text("?")
    gone = zone(tmp_path, "2", "package-2", 1)
    meter, tally = Meter(with_boards=True), Tally()
    before = meter.read()
    assert len(before) >= 1
    gone.unlink()
    meter.add(tally, before, runs=1)
    assert "RAPL package-2 (2)" not in [use.counter for use in meter.uses(tally)]


@contextmanager
def growing(counter: Path) -> Iterator[None]:
    """A joule more every millisecond or so."""
    done = threading.Event()

    def grow() -> None:
        joules = 0
        part = counter.with_name("part")
        while not done.wait(0.001):
            joules += 1
            part.write_text(f"{joules}000000\n")
            part.replace(counter)

    thread = threading.Thread(target=grow)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize("mode", ["latency", "throughput"])
def test_a_benchmark_says_joules_with_their_kind(
    mode: str, mobilenet: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counters, "POWERCAP", tmp_path)
    counter = zone(tmp_path, "0", "package-0", 0)
    plan = editor.partition(mobilenet, [{"name": "CPU", "power": "15 W"}])
    with growing(counter):
        result = plan.benchmark(0.2, mode=mode, requests=2)  # type: ignore[arg-type]
    (use,) = result.energy_measured
    assert use.joules > 0 and result.energy is not None and result.energy.total
    assert f"Energy of a run: {use} (measurement)" in result.text()
    assert f"Energy of a run: {result.energy} (estimate from stated watts" in result.text()
    data = json.loads(json.dumps(result.to_dict()))
    assert data["energy_measured"][0]["kind"] == "measurement"
    assert data["energy"]["kind"] == "estimate"
    assert data["energy"]["devices"] == {"CPU": pytest.approx(data["energy"]["joules"])}
    assert data["baselines"][0]["energy_measured"][0]["joules"] == use.joules


def test_nothing_is_measured_of_a_planned_device_or_said_without_watts(
    mobilenet: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counters, "POWERCAP", tmp_path)
    counter = zone(tmp_path, "0", "package-0", 0)
    with growing(counter):
        stands_in = editor.partition(mobilenet, "HETERO:NPU,CPU").benchmark(0.1)
    assert stands_in.energy is None and not stands_in.energy_measured
    assert "Energy of a run" not in stands_in.text()
