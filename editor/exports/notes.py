"""What the reader of an export should know: the tool does not have a device of the plan."""

from __future__ import annotations

from collections.abc import Sequence

from editor.devices.device import Device
from editor.exports.openvino import openvino_name
from editor.exports.tvm import tvm_notes
from editor.placement.placement import Placement
from editor.runtimes.onnxruntime.providers import CPU, SELECTS_BY_UNIT, provider_of
from editor.runtimes.registry import runtime_of

_TOOLS = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}
_BY_ONNX_RUNTIME, _BY_OPENVINO, _BY_TVM = frozenset({"onnxruntime", "split"}), frozenset({"openvino"}), frozenset({"tvm"})
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
    what = {"onnxruntime": "where these files are used, its ops run on another device",
            "openvino": "the script stops there until another device is named for its ops"}
    unknown = [d for d in used if not d.runtime and (d.backend.upper() not in _GENERIC
                                                     or (form in _BY_ONNX_RUNTIME and not provider_of(d)))]
    return [f"{_TOOLS[form]} knows no device {device.backend} ({device.name}): {what[form]}" for device in unknown
            if form in _TOOLS]


def _precisions(used: Sequence[Device], form: str) -> list[str]:
    """A note where the tool computes in less than what was measured here."""
    if form not in _BY_OPENVINO:
        return []
    notes = [runtime_of(device.runtime).precision_note(device) for device in used if device.present and not device.machine]
    return [f"the script leaves the precision to the tool. {note}" for note in notes if note][:1]


def _one_session(used: Sequence[Device]) -> list[str]:
    """A note where devices differ by their number only: a session has a provider once, for one of them."""
    names: dict[str, list[str]] = {}
    for device in used:
        if provider_of(device) in SELECTS_BY_UNIT:
            names.setdefault(provider_of(device), []).append(device.name)
    return [f"a session of ONNX Runtime has {name} for one device: {' and '.join(same)} are one for it, and its script cannot "
            "tell them apart; `split` has a session for each" for name, same in names.items() if len(same) > 1]


def _merged(used: Sequence[Device], form: str) -> list[str]:
    """A note where devices of other runtimes run as one that the tool has, so that the files measure another plan."""
    if form in _BY_ONNX_RUNTIME:
        # Of devices that no runtime knows, `_unknown` speaks where a session may find some; `split` names a provider for each.
        other = [d.name for d in used if (d.runtime or form not in _IN_ONE_SESSION) and not provider_of(d)]
        notes = [f"these files are run by ONNX Runtime: it runs the ops of {' and '.join(other)} on {CPU}"] if other else []
        return notes + (_one_session(used) if form in _IN_ONE_SESSION else [])
    if form not in _BY_OPENVINO:
        return []
    names: dict[str, list[str]] = {}
    for device in used:
        names.setdefault(openvino_name(device), []).append(device.name)
    return [f"OpenVINO runs {' and '.join(same)} both as its {name}: between them, the script does not split"
            for name, same in names.items() if len(same) > 1]
