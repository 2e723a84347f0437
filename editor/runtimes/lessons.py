"""Keeps what failed runs have taught: ops that a device runs alone, and not together. Per model, sizes and device."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from editor.devices.device import Device
from editor.files import cache_folder, keep_json, kept_json
from editor.graph.graph import Graph
from editor.version import VERSION

_MAX_BYTES = 16 << 20


def lessons_path(graph: Graph, device: Device) -> Path:
    """The file of what was learned about a model on a device; another version of a runtime begins anew."""
    versions = [
        next((found.version for found in metadata.distributions(name=name)), "")
        for name in ("onnxruntime", "openvino")
    ]
    identity = repr(
        (VERSION, versions, device.settings, graph.sha256, sorted(graph.define.items()))
    )
    return cache_folder("lessons") / f"{hashlib.sha256(identity.encode()).hexdigest()[:32]}.json"


def lessons(graph: Graph, device: Device) -> dict[str, str]:
    """Key of each op that a device is not given again -> the reason."""
    stored = kept_json(lessons_path(graph, device), _MAX_BYTES)
    if not isinstance(stored, dict):
        return {}
    return {str(k): str(v) for k, v in stored.items() if str(k) in graph.key_index}


def keep_lessons(graph: Graph, device: Device, reasons: Mapping[str, str]) -> None:
    """Adds reasons, op key -> text; where they cannot be written, the next run learns them again."""
    keep_json(lessons_path(graph, device), {**lessons(graph, device), **reasons})
