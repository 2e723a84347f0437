"""Writes any export by its name, with the notes that belong to it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from pkgutil import resolve_name

from editor.devices.device import Device
from editor.errors import ExportError
from editor.exports.formats import FORMATS, check
from editor.graph.graph import Graph
from editor.placement.placement import Placement
from editor.runtimes.onnxruntime.providers import short_name


def export_notes(placement: Placement, form: str, prompt: Placement | None = None) -> list[str]:
    """What the files do not keep of the plan, and what they limit; nothing where the format is not for a runtime.

    Args:
        placement: the plan.
        form: the format.
        prompt: the placement of the prompt, where it has one of its own.
    """
    found = FORMATS.get(form)
    if not found or not found.notes:
        return []
    limits = resolve_name(found.limits)(placement, prompt) if found.limits else ""
    return [*resolve_name(found.notes)(placement.used_devices), *([limits] if limits else [])]


def left_out(placement: Placement, form: str) -> str:
    """Which ops run elsewhere than in the plan where the files of a format are used, in a line; "" where none do."""
    found = FORMATS.get(form)
    if not found or not found.left_out or len(placement.used_devices) == 0:
        return ""
    return str(resolve_name(found.left_out)(placement))


def fits(form: str, devices: Sequence[Device]) -> bool:
    """Whether one of these devices can use a format, and the others do not stand in its way."""
    found = FORMATS[form]
    return _meant(form, devices) and (not found.needs or bool(resolve_name(found.needs)(devices)))


def _meant(form: str, devices: Sequence[Device]) -> bool:
    there = {d.runtime or d.backend.lower() for d in devices}
    there |= {f"{d.runtime}.{short_name(d.provider)}" for d in devices if d.runtime}
    return not there.isdisjoint(FORMATS[form].devices)


def foreign_note(form: str, devices: Sequence[Device]) -> str:
    """Says so where a format is for devices that are not in this table; "" elsewhere."""
    found = FORMATS.get(form)
    if found is None or not found.devices or _meant(form, devices):
        return ""
    return "these files are written for devices that are not in this plan"


def problem_of(graph: Graph, form: str) -> str:
    """Why a model cannot be written in a format; "" where it can."""
    found, name = FORMATS[form], graph.path.name
    if graph.format in found.models:
        unfit = str(resolve_name(found.unfit)(graph)) if found.unfit else ""
        problem = graph.weights_problem if found.weights or found.parts else ""
        return unfit or (problem and f"{name} cannot be exported with its weights: {problem}")
    if graph.is_onnx:
        return f"{form} names layers of OpenVINO IR, and {name} is ONNX; make IR of it (`ovc {name}`) and open that"
    return f"{form} is for ONNX models, and {name} is OpenVINO IR; write it with --to openvino, or in parts with --to split-ir"


def takes_only(graph: Graph, form: str) -> str:
    """Which models a format is for, in a few words, where this one is not among them; else ""."""
    found = FORMATS[form]
    if graph.format not in found.models:
        return "ONNX models" if found.models == ("onnx",) else "OpenVINO IR"
    return found.takes if found.unfit and resolve_name(found.unfit)(graph) else ""


def export(
    placement: Placement, form: str, out_dir: Path, stamp: str = "", **options: str
) -> list[Path]:
    """Writes a placement in one format; returns the written paths.

    Args:
        placement: the placement to write.
        form: one of ``FORMATS``.
        out_dir: the folder.
        stamp: origin of the export, written into every file whose format has comments or metadata.
        options: options of the format.

    Raises:
        ExportError: the format or an option of it is unknown, it is not for such models, or the folder cannot be written.
    """
    found = check(form, options)
    if problem := problem_of(placement.graph, form):
        raise ExportError(problem)
    writer = resolve_name(found.writer)
    for note in export_notes(placement, form):
        warnings.warn(note, stacklevel=2)
    return list(writer(placement, out_dir, stamp=stamp, **options))
