"""Reads the profile that ONNX Runtime writes with ``enable_profiling``: a trace of events, times in microseconds.

An event of category ``Node`` is one kernel of a run, ``<node>_kernel_time``; ``model_run`` is a whole run. What runs
inside a body of If, Loop or Scan is inside the time of that op, and left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean, median
from typing import Any

from editor.errors import PlanError
from editor.imports.matching import (
    Layer,
    LayerTimes,
    check_layers,
    layer_name,
    mean_layers,
    quiet_runs,
    seconds_of,
)
from editor.text import human_seconds

_SUFFIX = "_kernel_time"
_BODIES = frozenset({"If", "Loop", "Scan"})
_LEAST_RUNS = 4
_NOISY = 1.25
"""Times the quickest run that the median takes where the machine was busy."""
_LEAST_SHARE = 0.5
"""Of a run that its layers must add up to, before the rest counts as overhead of the run."""


def is_trace(_path: Path, data: Any) -> bool:
    """Whether parsed JSON looks like such a profile."""
    return isinstance(data, list) and any(
        isinstance(e, dict) and e.get("cat") in ("Session", "Node") for e in data[:64]
    )


def read_trace(path: Path, data: list[Any]) -> LayerTimes:
    """The mean time of each kernel over the quietest runs of a trace, without the first run where there are several.

    Raises:
        PlanError: an event is damaged, or there is none of a kernel; the message has the number of the entry.
    """
    runs: list[list[Layer]] = []
    totals: list[float] = []
    current: list[Layer] = []
    inside = -1.0
    for number, event in sorted(_events(path, data), key=lambda item: _position(item[1])):
        where = f"{path}: entry {number}"
        if event.get("name") == "model_run":
            if current:
                runs.append(current)
                totals.append(seconds_of(event.get("dur"), 1e-6, where))
            current, inside = [], -1.0
            continue
        found = event.get("args")
        arguments: Mapping[str, Any] = found if isinstance(found, dict) else {}
        if event["ts"] < inside:  # part of the body of an op that has begun
            continue
        kind = str(arguments.get("op_name", ""))
        layer = _layer(event, arguments, kind, where)
        if kind in _BODIES:
            inside = event["ts"] + layer.seconds * 1e6
        current.append(layer)
    if current and not runs:  # the session was not closed, so that the run is missing
        runs, totals = [current], [0.0]
    check_layers(path, max(map(len, runs), default=0))
    if len(runs) > 1:  # the first one warmed up
        runs, totals = runs[1:], totals[1:]
    quiet = quiet_runs(runs, totals)
    layers, total = mean_layers([runs[i] for i in quiet]), mean(totals[i] for i in quiet)
    inside = sum(layer.seconds for layer in layers)
    if inside < _LEAST_SHARE * total:
        note = (
            f"the layers add up to {inside / total * 100:.0f} % of a run: on devices that work on their own, ONNX Runtime "
            "times the start of a kernel, not the kernel"
        )
        return LayerTimes("ONNX Runtime", layers, len(runs), notes=(note,))
    noise = _spread(totals)
    if not total:
        return LayerTimes("ONNX Runtime", layers, len(runs), disturbances=noise)
    # What is in no kernel passes before and after each of them, the profiler's own work among it, and not once a run.
    gap = max(total - inside, 0.0) / (len(layers) + 1)
    return LayerTimes(
        "ONNX Runtime",
        tuple(replace(layer, seconds=layer.seconds + gap) for layer in layers),
        len(runs),
        overhead=gap,
        disturbances=noise,
    )


def _spread(totals: Sequence[float]) -> tuple[str, ...]:
    """Says so where runs differ so much that the machine was busy."""
    if len(totals) < _LEAST_RUNS or median(totals) < _NOISY * min(totals):
        return ()
    least, middle, most = (human_seconds(t) for t in (min(totals), median(totals), max(totals)))
    return (
        f"noisy: its {len(totals)} runs took {least} to {most}, {middle} in the median; the quickest are taken",
    )


def _events(path: Path, data: list[Any]) -> Iterable[tuple[int, Mapping[str, Any]]]:
    """Kernels and runs with their number in the file, from 1."""
    for number, event in enumerate(data, 1):
        if not isinstance(event, dict):
            raise PlanError(
                f"{path}: entry {number}: an event is a mapping, not {type(event).__name__}"
            )
        name = event.get("name")
        is_kernel = event.get("cat") == "Node" and isinstance(name, str) and name.endswith(_SUFFIX)
        if not is_kernel and name != "model_run":
            continue
        if isinstance(event.get("ts"), bool) or not isinstance(event.get("ts"), int | float):
            raise PlanError(f"{path}: entry {number}: the event {name!r} has no time stamp `ts`")
        yield number, event


def _position(event: Mapping[str, Any]) -> float:
    """Where an event stands in the trace: a run behind its kernels, an op before what is in its body."""
    duration = event.get("dur")
    length = (
        float(duration)
        if isinstance(duration, int | float) and event.get("name") == "model_run"
        else 0.0
    )
    return float(event["ts"]) + length


def _layer(event: Mapping[str, Any], arguments: Mapping[str, Any], kind: str, where: str) -> Layer:
    name = event["name"].removesuffix(_SUFFIX)
    seconds = seconds_of(event.get("dur"), 1e-6, where)
    number = re.fullmatch(
        re.escape(kind) + r"_(\d{1,9})", name
    )  # a node without a name: its type and number
    index = (
        int(number[1])
        if number is not None and str(arguments.get("node_index")) == number[1]
        else -1
    )
    return Layer(
        layer_name(name or kind, where),
        seconds,
        kind,
        str(arguments.get("provider", "")),
        index=index,
    )
