"""Reads a plain table of times: op, and microseconds of one run."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from pathlib import Path

from editor.errors import PlanError
from editor.imports.layer_times import Layer, LayerTimes, check_layers, layer_name, seconds_of
from editor.text import from_spreadsheet_cell, shortened

_NAMES = ("op", "key", "name", "layer", "node")
_DECIMAL_COMMA = re.compile(r";\s*\d+,\d+\s*(;|$)")
_LABEL_DIGITS = 2
_MAX_SHOWN = 60
_MOST_NOTED = 5
_TIMES = {"microseconds": 1e-6, "us": 1e-6, "µs": 1e-6, "milliseconds": 1e-3, "ms": 1e-3, "seconds": 1.0, "s": 1.0}


def is_timing_table(path: Path, text: str, asked: bool) -> bool:
    """Whether a table has a column of times: by its header, else by a second column of numbers.

    Without a header, small whole numbers may be labels of devices instead: they are times where the caller ``asked`` for times.
    """
    rows = list(_rows(path, "\n".join(line for line in text[:65_536].splitlines()[:8])))
    if not rows:
        return False
    header = [cell.strip().lower() for cell in rows[0][1]]
    if set(header) & set(_TIMES):
        return True
    second = [row[1].strip() if len(row) > 1 else "" for _, row in rows]
    labels = all(cell.isdigit() and len(cell) <= _LABEL_DIGITS for cell in second)
    return all(_is_number(_with_point(cell)) for cell in second) and (asked or not labels)


def read_table(path: Path, text: str) -> LayerTimes:
    """The times of a table; the header ``op,microseconds`` may be missing.

    Other units have other headers: ``ms``, ``seconds``. Times of ops that stand several times add up; a note says so.

    Raises:
        PlanError: a line has no op or no time; the message has its number.
    """
    rows = list(_rows(path, text))
    name, time, unit = 0, 1, 1e-6
    header = [cell.strip().lower() for cell in rows[0][1]] if rows else []
    column = next((i for i, cell in enumerate(header) if cell in _TIMES), None)
    if column is not None:
        time, unit = column, _TIMES[header[column]]
        name = next((header.index(word) for word in _NAMES if word in header), 0)
        rows = rows[1:]
    times: dict[str, float] = {}
    rows_of: Counter[str] = Counter()
    for number, row in rows:
        where = f"{path}: line {number}"
        if len(row) <= max(name, time):
            raise PlanError(f"{where}: an op and its microseconds are needed")
        key = layer_name(row[name], where)
        times[key] = times.get(key, 0.0) + seconds_of(_with_point(row[time].strip()), unit, where)
        rows_of[key] += 1
    check_layers(path, len(times))
    several = [f"{shortened(key, _MAX_SHOWN)!r} stands in {count} rows: their times were added"
               for key, count in rows_of.items() if count > 1]
    if len(several) > _MOST_NOTED:
        several[_MOST_NOTED:] = [f"… and so do {len(several) - _MOST_NOTED} more"]
    return LayerTimes("table", tuple(Layer(key, seconds) for key, seconds in times.items()), 0, by_key=True,
                      notes=tuple(several), fuses=False)


def _rows(path: Path, text: str) -> list[tuple[int, list[str]]]:
    """Rows with the number of their line, without empty lines and remarks."""
    lines = [(n, line) for n, line in enumerate(text.splitlines(), 1) if line.strip() and not line.startswith("#")]
    try:
        rows = list(csv.reader(io.StringIO("\n".join(line for _, line in lines)),
                               delimiter=delimiter_of(path, lines[0][1] if lines else "")))
    except csv.Error as error:
        raise PlanError(f"{path}: not a table ({error})") from error
    if len(rows) != len(lines):
        raise PlanError(f"{path}: a cell goes over several lines")
    return [(number, [from_spreadsheet_cell(cell) for cell in row]) for (number, _), row in zip(lines, rows, strict=True)]


def delimiter_of(path: Path, first: str) -> str:
    """What is between the cells of a table, by its first line: spreadsheets write ``;`` where numbers have a comma."""
    if path.suffix == ".tsv":
        return "\t"
    if _DECIMAL_COMMA.search(first):
        return ";"
    return next((mark for mark in ",;\t" if len(next(csv.reader([first], delimiter=mark), ())) > 1), ",")


def _with_point(cell: str) -> str:
    """A number with a decimal point; ``12,5`` is how spreadsheets of many languages write it."""
    return cell.replace(",", ".") if re.fullmatch(r"\d+,\d+", cell) else cell


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
