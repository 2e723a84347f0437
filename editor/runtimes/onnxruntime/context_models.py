"""Models of ``EPContext`` ops: what a provider has compiled, kept on disk so that the next session need not compile.

See ONNX Runtime, "EP context design".
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import onnxruntime as ort

from editor.devices.device import Device
from editor.files import file_state
from editor.graph.external_data import locations_of
from editor.runtimes.base import SubModel
from editor.runtimes.onnxruntime.plugins import plugin_device
from editor.runtimes.onnxruntime.providers import WRITE_CONTEXTS, index_of


def context_path(folder: Path, submodel: SubModel, model: bytes, device: Device) -> Path | None:
    """Where the context model of a sub-model is or will be; None where its provider writes none."""
    plugin = plugin_device(device.provider, index_of(device))
    if plugin is None or device.provider not in WRITE_CONTEXTS:
        return None
    weights = locations_of(submodel.model)
    states = [(name, file_state(submodel.folder / name)) for name in weights]
    identity = (ort.__version__, plugin, device.settings, str(submodel.folder) if weights else "", states)
    return folder / f"{hashlib.sha256(repr(identity).encode() + model).hexdigest()[:40]}.onnx"


def writing(path: Path) -> tuple[Path, Mapping[str, str]]:
    """A file beside ``path``, and the entries of a session that writes its context model there."""
    draft = path.with_name(f"{path.stem}.{os.getpid()}.onnx")
    draft.unlink(missing_ok=True)
    return draft, {"ep.context_enable": "1", "ep.context_file_path": str(draft), "ep.context_embed_mode": "1"}
