"""The registry of import formats: what each is, its suffixes, how it is told from others, and what reads it; and reads them.

The command line, the page and the docs read it. It names functions instead of importing them, so that `--help` loads no
implementation. A new format is a module and an entry here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from editor.errors import PlanError
from editor.files import parse_json, read_text
from editor.groups import grouped

_BINARY = (".onnx",)
_MAPPINGS = (".json", ".yaml", ".yml")
_TABLES = (".csv", ".tsv")
_COUNTERS = (".csv", ".tsv", ".txt", ".log")


@dataclass(frozen=True)
class ImportFormat:
    """A format of files that other tools write."""

    text: str
    """Says what it is."""
    suffixes: tuple[str, ...]
    reader: str
    """``module:function``, which takes the path and the content: the value of JSON and YAML, the text of others."""
    marks: Mapping[str, str] | None = None
    """Keys of a mapping of which one tells the format, each with the beginning of its value."""
    sniff: str = ""
    """``module:function``, which takes the path and the content; "" for marks, or for all that no other format takes."""
    times: bool = False
    """Whether it has times of layers, and not affinities of ops."""
    asked: bool = False
    """Whether it is looked for only where somebody said that the file has times."""


_IN = "editor.imports."
FORMATS: dict[str, ImportFormat] = {
    "trace": ImportFormat(
        "ONNX Runtime's profile",
        (".json",),
        f"{_IN}placements:read_trace",
        sniff=f"{_IN}placements:is_trace",
        times=True,
    ),
    "trtexec": ImportFormat(
        "trtexec's profile",
        (".json",),
        f"{_IN}profile_files:read_profile",
        sniff=f"{_IN}profile_files:is_profile",
        times=True,
    ),
    "kit": ImportFormat(
        "a kit's profile",
        (".json",),
        f"{_IN}kit_profile:read_kit_profile",
        {"format": "hetero-editor/profile"},
        times=True,
    ),
    "counters JSON": ImportFormat(
        "benchmark_app's counters",
        (".json",),
        f"{_IN}profile_files:read_json",
        {"detailed_performance": "", "avg_performance": ""},
        times=True,
    ),
    "counters CSV": ImportFormat(
        "benchmark_app's counters",
        _COUNTERS,
        f"{_IN}profile_files:read_csv",
        sniff=f"{_IN}profile_files:is_counters_csv",
        times=True,
    ),
    "counters text": ImportFormat(
        "what benchmark_app -pc prints",
        _COUNTERS,
        f"{_IN}profile_files:read_text_lines",
        sniff=f"{_IN}profile_files:is_counters_text",
        times=True,
    ),
    "table of times": ImportFormat(
        "a table of op and microseconds",
        _TABLES,
        f"{_IN}profile_files:read_table",
        sniff=f"{_IN}profile_files:is_timing_table",
        times=True,
    ),
    "asked table": ImportFormat(
        "a table of op and microseconds",
        _TABLES,
        f"{_IN}profile_files:read_table",
        sniff=f"{_IN}profile_files:has_times",
        times=True,
        asked=True,
    ),
    "plan": ImportFormat(
        "a plan of this model or of one alike",
        _MAPPINGS,
        f"{_IN}affinity_files:read_plan",
        {"format": "hetero-editor/plan"},
    ),
    "sidecar": ImportFormat(
        "the affinities of an export for OpenVINO",
        _MAPPINGS,
        f"{_IN}affinity_files:read_sidecar",
        {"affinities": ""},
    ),
    "TVM": ImportFormat(
        "the placement of an export for TVM",
        _MAPPINGS,
        f"{_IN}affinity_files:read_tvm",
        {"format": "hetero-editor/tvm"},
    ),
    "session": ImportFormat(
        "the settings of an export for ONNX Runtime",
        _MAPPINGS,
        f"{_IN}affinity_files:read_session",
        {"format": "hetero-editor/onnxruntime"},
    ),
    "partition config": ImportFormat(
        "Glow's partition config",
        _MAPPINGS,
        f"{_IN}affinity_files:read_partitions",
        {"nodeToPartition": ""},
    ),
    "placed profile": ImportFormat(
        "ONNX Runtime's profile, for where each op ran",
        (".json",),
        f"{_IN}placements:read_profile",
        sniff=f"{_IN}placements:is_trace",
    ),
    "assignment": ImportFormat(
        "the assignment that ONNX Runtime recorded",
        (".json",),
        f"{_IN}placements:read_assignment",
        sniff=f"{_IN}placements:is_assignment",
    ),
    "layers": ImportFormat(
        "trtexec's list of layers (`--exportLayerInfo`)",
        (".json",),
        f"{_IN}placements:read_layers",
        {"Layers": ""},
    ),
    "log": ImportFormat(
        "a verbose log of ONNX Runtime",
        (".log", ".txt"),
        f"{_IN}placements:read_log",
        sniff=f"{_IN}placements:is_log",
    ),
    "device table": ImportFormat(
        "Glow's device table",
        _MAPPINGS,
        f"{_IN}affinity_files:read_table",
        sniff=f"{_IN}affinity_files:is_table",
    ),
    "mapping": ImportFormat(
        "a mapping of ops to devices",
        _MAPPINGS,
        f"{_IN}affinity_files:read_mapping",
    ),
    "table": ImportFormat("a table of op and device", _TABLES, f"{_IN}affinity_files:read_csv"),
    "dot": ImportFormat(
        "DOT of the editor or of OpenVINO",
        (".dot",),
        f"{_IN}affinity_files:read_dot",
    ),
    "npuw": ImportFormat(
        "a plan of groups of OpenVINO's NPUW, with the devices of the groups in the file beside it",
        (".xml",),
        f"{_IN}affinity_files:read_npuw",
    ),
    "onnx": ImportFormat(
        "a model with ONNX device configurations, annotations for ONNX Runtime, or Olive's `split_assignments` (`split 0` ...)",
        (".onnx",),
        f"{_IN}affinity_files:read_onnx",
    ),
}
"""By name, in the order in which a file is looked at."""


def words(times: bool, suffix: str = "") -> str:
    """The formats of affinities or of times with their suffixes, in a few words; of those with a suffix where it has any."""
    forms = [form for form in FORMATS.values() if form.times == times]
    meant = [form for form in forms if suffix in form.suffixes] or forms
    texts = grouped(dict.fromkeys((form.suffixes, form.text) for form in meant))
    return "; ".join(f"{', '.join(all_)} ({', '.join(ends)})" for ends, all_ in texts.items())


def read(path: Path, times: bool, asked: bool = False) -> Any:
    """What a file holds, as the reader of its format returns it; None where it is of none.

    Args:
        path: of the file.
        times: whether times of layers are looked for, and not affinities.
        asked: whether somebody said that it has times, which a table without a header leaves open.

    Raises:
        PlanError: the file cannot be read or is damaged.
    """
    suffix = path.suffix.lower() if times else path.suffix
    forms = [
        form
        for form in FORMATS.values()
        if form.times == times and suffix in form.suffixes and (asked or not form.asked)
    ]
    if not forms:
        return None
    from editor.yaml_text import load_yaml  # which takes time that `--help` does not need

    content: Any = None if suffix in _BINARY else read_text(path, PlanError)
    if suffix in _MAPPINGS:
        try:
            content = parse_json(content) if suffix == ".json" else load_yaml(content)[1]
        except ValueError as error:  # a YamlError is one
            raise PlanError(f"{path}: not valid {suffix[1:].upper()} ({error})") from error
    form = next((form for form in forms if _is_of(form, path, content)), None)
    return resolve_name(form.reader)(path, content) if form is not None else None


def _is_of(form: ImportFormat, path: Path, content: Any) -> bool:
    if form.marks is not None:
        return isinstance(content, dict) and any(
            key in content and str(content[key] if start else "").startswith(start)
            for key, start in form.marks.items()
        )
    return not form.sniff or bool(resolve_name(form.sniff)(path, content))
