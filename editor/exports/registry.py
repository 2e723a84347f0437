"""Writes any export by its name, with the notes that belong to it."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from editor.devices.device import Device
from editor.errors import ExportError
from editor.exports.formats import FORMATS, WRITERS
from editor.exports.openvino import openvino_name
from editor.exports.tvm import tvm_notes
from editor.placement.placement import Placement
from editor.runtimes.onnxruntime.providers import CPU, SELECTS_BY_UNIT, provider_of
from editor.runtimes.registry import runtime_of

_TOOLS = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}
_BY_ONNX_RUNTIME, _BY_OPENVINO, _BY_TVM = (
    frozenset({"onnxruntime", "split"}),
    frozenset({"openvino"}),
    frozenset({"tvm"}),
)
"""Formats by what runs their files."""
_IN_ONE_SESSION = frozenset({"onnxruntime"})
_GENERIC = frozenset({"CPU", "GPU", "NPU", "OPENCL"})
"""Backends that stand for whatever device of the kind the tool finds."""


def export_notes(placement: Placement, form: str) -> list[str]:
    """What the files do not keep of the plan; nothing where the format is not for a runtime."""
    used = [d for d in placement.devices if placement.op_counts[d.name]]
    notes = [*_unknown(used, form), *_merged(used, form), *_precisions(used, form)]
    return notes + (tvm_notes(used) if form in _BY_TVM else [])


def _unknown(used: Sequence[Device], form: str) -> list[str]:
    """A note for each device that no runtime knows."""
    what = {
        "onnxruntime": "where these files are used, its ops run on another device",
        "openvino": "the script stops there until another device is named for its ops",
    }
    unknown = [
        d
        for d in used
        if not d.runtime
        and (d.backend.upper() not in _GENERIC or (form in _BY_ONNX_RUNTIME and not provider_of(d)))
    ]
    return [
        f"{_TOOLS[form]} knows no device {device.backend} ({device.name}): {what[form]}"
        for device in unknown
        if form in _TOOLS
    ]


def _precisions(used: Sequence[Device], form: str) -> list[str]:
    """A note where the tool computes in less than what was measured here."""
    if form not in _BY_OPENVINO:
        return []
    notes = [
        runtime_of(device.runtime).precision_note(device)
        for device in used
        if device.present and not device.machine
    ]
    return [f"the script leaves the precision to the tool. {note}" for note in notes if note][:1]


def _one_session(used: Sequence[Device]) -> list[str]:
    """A note where devices differ by their number only: a session has a provider once, for one of them."""
    names: dict[str, list[str]] = {}
    for device in used:
        if provider_of(device) in SELECTS_BY_UNIT:
            names.setdefault(provider_of(device), []).append(device.name)
    return [
        f"a session of ONNX Runtime has {name} for one device: {' and '.join(same)} are one for it, and its script cannot "
        "tell them apart; `split` has a session for each"
        for name, same in names.items()
        if len(same) > 1
    ]


def _merged(used: Sequence[Device], form: str) -> list[str]:
    """A note where devices of other runtimes run as one that the tool has, so that the files measure another plan."""
    if form in _BY_ONNX_RUNTIME:
        # Of devices that no runtime knows, `_unknown` speaks where a session may find some; `split` names a provider for each.
        other = [
            d.name
            for d in used
            if (d.runtime or form not in _IN_ONE_SESSION) and not provider_of(d)
        ]
        notes = (
            [
                f"these files are run by ONNX Runtime: it runs the ops of {' and '.join(other)} on {CPU}"
            ]
            if other
            else []
        )
        return notes + (_one_session(used) if form in _IN_ONE_SESSION else [])
    if form not in _BY_OPENVINO:
        return []
    names: dict[str, list[str]] = {}
    for device in used:
        names.setdefault(openvino_name(device), []).append(device.name)
    return [
        f"OpenVINO runs {' and '.join(same)} both as its {name}: between them, the script does not split"
        for name, same in names.items()
        if len(same) > 1
    ]


Writer = Callable[..., list[Path]]
"""(placement, folder, options of the format) -> written paths"""


def writer_of(form: str) -> Writer:
    """The function that writes a format."""
    module, _, function = WRITERS[form].partition(":")
    writer: Writer = getattr(import_module(f"editor.exports.{module}"), function)
    return writer


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
        ExportError: the format or an option of it is unknown, or the folder cannot be written.
    """
    if form not in FORMATS:
        if form == "plan":
            raise ExportError(f"plan has no option {next(iter(options), '')!r}; it has none")
        raise ExportError(f"unknown export format {form!r}; choose one of: {', '.join(FORMATS)}")
    writer = writer_of(form)
    known = [
        name
        for name in inspect.signature(writer).parameters
        if name not in ("placement", "out_dir", "stamp")
    ]
    for name in options:
        if name not in known:
            raise ExportError(f"{form} has no option {name!r}; {_choice(known)}")
    for note in export_notes(placement, form):
        warnings.warn(note, stacklevel=2)
    return writer(placement, out_dir, stamp=stamp, **options)


def _choice(options: list[str]) -> str:
    return f"choose one of: {', '.join(options)}" if options else "it has none"
