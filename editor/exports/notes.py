"""What the reader of an export should know: the tool does not have a device of the plan."""

from __future__ import annotations

from editor.placement.placement import Placement

_TOOLS = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}
_GENERIC = frozenset({"CPU", "GPU", "NPU", "OPENCL"})
"""Backends that stand for whatever device of the kind the tool finds."""


def export_notes(placement: Placement, form: str) -> list[str]:
    """A note for each device with ops that no runtime knows; none where the format is not for a runtime."""
    what = {"onnxruntime": "where these files are used, its ops run on another device",
            "openvino": "the script stops there until another device is named for its ops"}
    return [f"{_TOOLS[form]} knows no device {device.backend} ({device.name}): {what[form]}" for device in placement.devices
            if form in _TOOLS and placement.op_counts[device.name] and not device.runtime
            and device.backend.upper() not in _GENERIC]
