"""Reads times that other tools measured.

The performance counters that OpenVINO's ``benchmark_app`` writes are in milliseconds:

- ``-report_type average_counters`` and ``detailed_counters``: ``layerName;execStatus;layerType;execType;realTime (ms);cpuTime
  (ms)``, once or once per infer request; or the same as JSON (``-json_stats``).
- ``-pc``: lines on the terminal. The Python tool cuts names of 20 characters and more to 16 and ``...``.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from pathlib import Path
from typing import Any

from editor.errors import PlanError
from editor.imports.formats import read, words
from editor.imports.matching import (
    Layer,
    LayerTimes,
    check_layers,
    layer_name,
    mean_layers,
    quiet_runs,
    seconds_of,
    with_point,
)
from editor.kinds import Kind
from editor.text import from_spreadsheet_cell, is_number, shortened


def is_profile(_path: Path, data: Any) -> bool:
    """Whether parsed JSON looks like such a profile."""
    return isinstance(data, list) and any(
        isinstance(e, dict) and "averageMs" in e for e in data[:8]
    )


def read_profile(path: Path, data: list[Any]) -> LayerTimes:
    """The median time of each layer, the average where there is no median.

    Raises:
        PlanError: an entry is damaged; the message has its number.
    """
    layers, runs = [], 0
    for number, entry in enumerate(data, 1):
        where = f"{path}: entry {number}"
        if not isinstance(entry, dict):
            raise PlanError(f"{where}: a layer is a mapping, not {type(entry).__name__}")
        if "count" in entry and "name" not in entry:
            runs = entry["count"] if isinstance(entry["count"], int) else 0
            continue
        time = entry.get("medianMs", entry.get("averageMs"))
        layers.append(Layer(layer_name(entry.get("name"), where), seconds_of(time, 1e-3, where)))
    check_layers(path, len(layers))
    return LayerTimes("TensorRT trtexec", tuple(layers), runs)


DEVICE_COLUMNS = frozenset({"op", "device"})
"""Columns of a table of ops and their devices."""
_NAMES = ("op", "key", "name", "layer", "node")
_DECIMAL_COMMA = re.compile(r";\s*\d+,\d+\s*(;|$)")
_LABEL_DIGITS = 2
_MAX_SHOWN = 60
_MOST_NOTED = 5
_TIMES = {
    "microseconds": 1e-6,
    "us": 1e-6,
    "µs": 1e-6,
    "milliseconds": 1e-3,
    "ms": 1e-3,
    "seconds": 1.0,
    "s": 1.0,
}


def is_timing_table(path: Path, text: str) -> bool:
    """Whether a table has a column of times: by its header, else by a second column of numbers.

    Without a header, small whole numbers may be labels of devices instead. A table of ops that has devices beside
    times, as that of an export, is taken for its devices.
    """
    header, second = _looked_at(path, text)
    labels = all(cell.isdigit() and len(cell) <= _LABEL_DIGITS for cell in second)
    return not set(header) >= DEVICE_COLUMNS and not labels and has_times(path, text)


def has_times(path: Path, text: str) -> bool:
    """Whether the header of a table names times, or its second column has numbers only."""
    header, second = _looked_at(path, text)
    numbers = bool(second) and all(is_number(with_point(cell)) for cell in second)
    return numbers or bool(set(header) & set(_TIMES))


def _looked_at(path: Path, text: str) -> tuple[list[str], list[str]]:
    """The first row of a table in lower case, and the second column of its first rows."""
    rows = [row for _, row in table_rows(path, "\n".join(text[:65_536].splitlines()[:8]))]
    header = [cell.strip().lower() for cell in rows[0]] if rows else []
    return header, [row[1].strip() if len(row) > 1 else "" for row in rows]


def read_table(path: Path, text: str) -> LayerTimes:
    """The times of a table; the header ``op,microseconds`` may be missing.

    Other units have other headers: ``ms``, ``seconds``. Times of ops that stand several times add up; a note says so.

    Raises:
        PlanError: a line has no op or no time; the message has its number.
    """
    rows = table_rows(path, text)
    if any("\n" in cell for _, row in rows for cell in row):
        raise PlanError(f"{path}: a cell goes over several lines")
    name, time, unit = 0, 1, 1e-6
    header = [cell.strip().lower() for cell in rows[0][1]] if rows else []
    column = next((i for i, cell in enumerate(header) if cell in _TIMES), None)
    if column is not None:
        time, unit = column, _TIMES[header[column]]
        name = next((header.index(word) for word in _NAMES if word in header), 0)
        rows = rows[1:]
        _check_measured(path, header, rows)
    times: dict[str, float] = {}
    rows_of: Counter[str] = Counter()
    for number, row in rows:
        where = f"{path}: line {number}"
        if len(row) <= max(name, time):
            raise PlanError(f"{where}: an op and its microseconds are needed")
        if len(row) > (len(header) if column is not None else 2) and row[-1].strip().isdigit():
            raise PlanError(
                f"{where}: it has more cells than columns; where numbers have a decimal comma, put `;` between the cells"
            )
        key = layer_name(row[name], where)
        times[key] = times.get(key, 0.0) + seconds_of(row[time].strip(), unit, where)
        rows_of[key] += 1
    check_layers(path, len(times))
    several = [
        f"{shortened(key, _MAX_SHOWN)!r} stands in {count} rows: their times were added"
        for key, count in rows_of.items()
        if count > 1
    ]
    if len(several) > _MOST_NOTED:
        several[_MOST_NOTED:] = [f"… and so do {len(several) - _MOST_NOTED} more"]
    return LayerTimes(
        "table",
        tuple(Layer(key, seconds) for key, seconds in times.items()),
        0,
        by_key=True,
        notes=tuple(several),
        fuses=False,
    )


def _check_measured(path: Path, header: list[str], rows: list[tuple[int, list[str]]]) -> None:
    """Refuses the times of an exported table of ops, which its column ``kind`` calls estimates or predictions."""
    if "kind" not in header:
        return
    column = header.index("kind")
    for number, row in rows:
        kind = row[column].strip().lower() if len(row) > column else ""
        if kind in (Kind.ESTIMATE, Kind.PREDICTION):
            raise PlanError(
                f"{path}: line {number}: this time was not measured (its kind is {kind}), so it makes no profile; "
                f"import the file without the name of a device to pin its ops to their devices"
            )


def table_rows(path: Path, text: str) -> list[tuple[int, list[str]]]:
    """Rows of a table with the number of the line that each ends in, without empty lines and remarks.

    Raises:
        PlanError: it is not a table.
    """
    lines = [
        (n, line)
        for n, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.startswith("#")
    ]
    reader = csv.reader(
        io.StringIO("\n".join(line for _, line in lines)),
        delimiter=_delimiter(path, lines[0][1] if lines else ""),
    )
    try:
        return [
            (lines[reader.line_num - 1][0], [from_spreadsheet_cell(cell) for cell in row])
            for row in reader
        ]
    except csv.Error as error:  # a field of more than 128 KiB
        raise PlanError(f"{path}: not a table ({error})") from error


def _delimiter(path: Path, first: str) -> str:
    """What is between the cells of a table, by its first line: spreadsheets write ``;`` where numbers have a comma."""
    if path.suffix == ".tsv":
        return "\t"
    if _DECIMAL_COMMA.search(first):
        return ";"
    return next(
        (mark for mark in ",;\t" if len(next(csv.reader([first], delimiter=mark), ())) > 1), ","
    )


def read_times(path: Path) -> LayerTimes:
    """The times of layers in a file.

    Raises:
        PlanError: it cannot be read, has no such times, or a line or entry of it is damaged.
        LimitError: it has more layers than a model may have ops.
    """
    times = times_in(path, asked=True)
    if times is None:
        raise PlanError(
            f"{path}: no times of layers in this file; it should be {words(times=True)}"
        )
    return times


def times_in(path: Path, asked: bool = False) -> LayerTimes | None:
    """The times of layers in a file; None when it is another kind of file.

    Args:
        path: of the file.
        asked: whether somebody said that it has times, which a table without a header leaves open.

    Raises:
        PlanError, LimitError: as ``read_times``.
    """
    times: LayerTimes | None = read(path, times=True, asked=asked)
    return times


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
