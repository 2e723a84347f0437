"""Reads the performance counters that OpenVINO's ``benchmark_app`` writes; times in milliseconds.

- ``-report_type average_counters`` and ``detailed_counters``: ``layerName;execStatus;layerType;execType;realTime (ms);cpuTime
  (ms)``, once or once per infer request; or the same as JSON (``-json_stats``).
- ``-pc``: lines on the terminal. The Python tool cuts names of 20 characters and more to 16 and ``...``.
"""

from __future__ import annotations

import re
from pathlib import Path
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

HEADER = "layerName;execStatus;layerType;execType;"
TOOL = "OpenVINO benchmark_app"
_STATES = frozenset({"EXECUTED", "NOT_RUN", "OPTIMIZED_OUT"})
_PART = re.compile(r"subgraph\d+: ")
_SEPARATORS = 5
_REAL_TIMES = {"realTime (ms):": 1e-3, "realTime:": 1e-6}
"""Marks of a time in a line of ``-pc``, of present and of former versions, and their units."""
_INFO = re.compile(r"\[ ?INFO ?\]\s{0,8}")


def is_counters_csv(_path: Path, text: str) -> bool:
    """Whether a text is such a table."""
    return any(line.startswith(HEADER) for line in text[:4096].splitlines())


def is_counters_text(_path: Path, text: str) -> bool:
    """Whether a text has lines of ``-pc``."""
    return "layerType:" in text and any(mark in text for mark in _REAL_TIMES)


def read_csv(path: Path, text: str) -> LayerTimes:
    """A table of counters, of one run or of several.

    Raises:
        PlanError: a line is damaged; the message has its number.
    """
    runs: list[list[Layer]] = []
    separators = _SEPARATORS
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(HEADER):
            separators = line.count(";")
            runs.append([])
            continue
        if not line.strip() or line.startswith("Total;") or not runs:
            continue
        # Names may have semicolons, and the tool does not quote them.
        cells = line.rsplit(";", separators)
        if not _SEPARATORS <= separators < len(cells):
            raise PlanError(
                f"{path}: line {number}: {separators + 1} columns expected, as in its header"
            )
        name, status, kind, _, real = cells[:_SEPARATORS]
        runs[-1] += _layer(name, status, kind, real, f"{path}: line {number}")
    return _of_runs(path, runs, ordered=separators == _SEPARATORS)  # a sorted table has shares, too


def read_json(path: Path, data: dict[str, Any]) -> LayerTimes:
    """A report of counters as JSON.

    Raises:
        PlanError: an entry is damaged; the message has its number.
    """
    requests = data.get("detailed_performance", data.get("avg_performance"))
    requests = requests if isinstance(requests, list) else [requests]
    runs: list[list[Layer]] = []
    for request, report in enumerate(requests, 1):
        nodes = report.get("nodes") if isinstance(report, dict) else None
        if not isinstance(nodes, list):
            raise PlanError(f"{path}: infer request {request}: it has no list of nodes")
        runs.append([])
        for number, node in enumerate(nodes, 1):
            where = f"{path}: infer request {request}, node {number}"
            if not isinstance(node, dict):
                raise PlanError(f"{where}: a node is a mapping, not {type(node).__name__}")
            runs[-1] += _layer(
                node.get("name"),
                node.get("status"),
                node.get("node_type"),
                node.get("real_time"),
                where,
                node.get("originalLayersNames"),
            )
        if data.get("report_type") == "average" and len(nodes) == 1:
            raise PlanError(
                f"{path}: it has one layer only: the Python benchmark_app writes just the first one into a JSON of "
                "average counters; use -report_type detailed_counters, or CSV (without -json_stats)"
            )
    return _of_runs(path, runs, ordered=data.get("report_type") in ("average", "detailed"))


def read_text_lines(path: Path, text: str) -> LayerTimes:
    """What ``-pc`` prints, once per infer request; other lines are skipped.

    Raises:
        PlanError: no line is one of a layer.
    """
    runs: list[list[Layer]] = [[]]
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(("Total time:", "Total:")):
            runs.append([])
        runs[-1] += _from_line(line, f"{path}: line {number}")
    return _of_runs(
        path, [run for run in runs if run], ordered="proportion:" not in text
    )  # of -pcsort


def _from_line(line: str, where: str) -> list[Layer]:
    """The layer of a line such as ``conv1  EXECUTED  layerType: Convolution  execType: x  realTime (ms): 0.1 ...``."""
    head, _, tail = line.partition("layerType:")
    name, status = [*head.rsplit(None, 1), "", ""][:2]
    mark = next((mark for mark in _REAL_TIMES if mark in tail), "")
    if not mark or status.removeprefix("Status.") not in _STATES:
        return []
    kind, real = (part.split(None, 1)[:1] or [""] for part in (tail, tail.partition(mark)[2]))
    return _layer(
        _INFO.sub("", name, count=1), status, kind[0], real[0], where, unit=_REAL_TIMES[mark]
    )


def _layer(
    name: Any, status: Any, kind: Any, real: Any, where: str, listed: Any = None, unit: float = 1e-3
) -> list[Layer]:
    """The layer of an entry; none where it did not run. What was optimized out took no time."""
    state = str(status).removeprefix("Status.")
    if state == "NOT_RUN":
        return []
    ops = (
        tuple(part.strip() for part in listed.split(",") if part.strip())
        if isinstance(listed, str)
        else ()
    )
    seconds = 0.0 if state == "OPTIMIZED_OUT" else seconds_of(real, unit, where)
    return [Layer(_PART.sub("", layer_name(name, where), count=1), seconds, str(kind), ops=ops)]


def _of_runs(path: Path, runs: list[list[Layer]], ordered: bool) -> LayerTimes:
    check_layers(path, max(map(len, runs), default=0))
    quiet = quiet_runs(runs, [sum(layer.seconds for layer in run) for run in runs])
    return LayerTimes(
        TOOL,
        mean_layers([runs[i] for i in quiet]),
        len(runs) if len(runs) > 1 else 0,
        ordered=ordered,
    )
