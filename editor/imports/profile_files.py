"""Reads the times of layers from a file of another tool, whatever its format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from editor.errors import PlanError
from editor.files import parse_json, read_text
from editor.imports import kit_profile, onnxruntime_trace, openvino_counters, tensorrt_profile, timing_table
from editor.imports.layer_times import LayerTimes

FORMATS = ("ONNX Runtime's profile (.json), benchmark_app's counters (.csv, .json, or the text of -pc as .txt), trtexec's "
           "--exportProfile (.json), the profile.json of a kit, or a table of op and microseconds (.csv)")


def read_times(path: Path) -> LayerTimes:
    """The times of layers in a file.

    Raises:
        PlanError: it cannot be read, has no such times, or a line or entry of it is damaged.
        LimitError: it has more layers than a model may have ops.
    """
    times = times_in(path, asked=True)
    if times is None:
        raise PlanError(f"{path}: no times of layers in this file; it should be {FORMATS}")
    return times


def times_in(path: Path, asked: bool = False) -> LayerTimes | None:
    """The times of layers in a file; None when it is another kind of file.

    Args:
        path: of the file.
        asked: whether somebody said that it has times, which a table without a header leaves open.

    Raises:
        PlanError, LimitError: as ``read_times``.
    """
    suffix = path.suffix.lower()
    if suffix not in (".json", ".csv", ".tsv", ".txt", ".log"):
        return None
    text = read_text(path, PlanError)
    if suffix == ".json":
        return _from_json(path, text)
    if openvino_counters.is_counters_csv(text):
        return openvino_counters.read_csv(path, text)
    if openvino_counters.is_counters_text(text):
        return openvino_counters.read_text_lines(path, text)
    if suffix in (".csv", ".tsv") and timing_table.is_timing_table(path, text, asked):
        return timing_table.read_table(path, text)
    return None


def _from_json(path: Path, text: str) -> LayerTimes | None:
    try:
        data: Any = parse_json(text)
    except ValueError as error:
        raise PlanError(f"{path}: not valid JSON ({error})") from error
    if onnxruntime_trace.is_trace(data):
        return onnxruntime_trace.read_trace(path, data)
    if tensorrt_profile.is_profile(data):
        return tensorrt_profile.read_profile(path, data)
    if kit_profile.is_kit_profile(data):
        return kit_profile.read_kit_profile(path, data)
    if openvino_counters.is_counters_json(data):
        return openvino_counters.read_json(path, data)
    return None
