"""Reads plans of NPUW, the partitioner of OpenVINO's NPU: the layers of each group."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.parsers import expat

from editor.errors import PlanError
from editor.files import parse_json, read_text
from editor.imports.affinity_files import ImportedAffinities


def read_npuw(path: Path, text: str) -> ImportedAffinities:
    """Layer -> device of its group, by the JSON file that the export wrote beside the plan.

    A plan itself names no devices: without that file each group is an entry of its own, ``group 3``, for a device table with
    such names.
    """
    groups = _groups(path, text)
    devices = _devices(path)
    affinities = {layer: devices.get(number, f"group {number}") for number, layer in groups}
    return ImportedAffinities("NPUW plan", affinities)


def _groups(path: Path, text: str) -> list[tuple[str, str]]:
    """(group, layer) of each layer."""
    found: list[tuple[str, str]] = []
    state = {"group": "", "root": ""}

    def begin(tag: str, attributes: dict[str, str]) -> None:
        state["root"] = state["root"] or tag
        if tag == "group":
            state["group"] = attributes.get("id", "")
        elif tag == "layer" and state["group"]:
            found.append((state["group"], attributes.get("name", "")))

    def refuse(*_: Any) -> None:
        raise PlanError(f"{path}: it declares a document type, which a plan of NPUW does not")

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.StartDoctypeDeclHandler = begin, refuse
    try:
        parser.Parse(text.encode(), True)
    except expat.ExpatError as error:
        raise PlanError(f"{path}: not a plan of NPUW ({error})") from error
    if state["root"] != "ensemble" or not found:
        raise PlanError(f"{path}: not a plan of NPUW (an <ensemble> of groups of layers)")
    return found


def _devices(path: Path) -> dict[str, str]:
    """Group -> device, where the export's own file says so."""
    beside = path.with_suffix(".json")
    if not beside.is_file():
        return {}
    try:
        document = parse_json(read_text(beside, PlanError))
    except ValueError as error:
        raise PlanError(f"{beside}: not valid JSON ({error})") from error
    devices = document.get("devices") if isinstance(document, dict) else None
    return {str(k): str(v) for k, v in devices.items()} if isinstance(devices, dict) else {}
