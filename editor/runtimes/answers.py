"""What devices have answered about ops, kept in the user's cache.

One file per device, version and settings; an op is known by the hash of its one-op model. A crash is kept for a day: a
driver may be repaired without a new version.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path

from editor.devices.device import Device
from editor.devices.discovery import devices_of, sources
from editor.errors import ExportError
from editor.files import cache_folder, private_folder, write_atomic
from editor.runtimes.trial import Verdict
from editor.version import VERSION

_FORMAT = 2
"""Raise it when ops are tried in another way: earlier answers are then asked anew."""
_MAX_ANSWERS = 20_000
_MAX_FILE_BYTES = 32 << 20
_CRASH_KEPT = 86_400.0
"""Seconds."""
_MAY_PASS = ("when it was tried",)
"""In reasons that may not hold tomorrow."""
_DRIVER_SETTINGS = ("VK_", "LD_", "ORT_", "CUDA_", "NVIDIA_", "QNN_", "OPENVINO_")

_open: dict[Path, Answers] = {}


class Answers:
    """Answers of one device."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stored = _read(path)

    @classmethod
    def of(cls, device: Device) -> Answers:
        """Of a real device; read once per process."""
        hardware = [(d.version, d.hardware) for source in sources() if source.name == device.runtime
                    for d in devices_of(source) if d.provider == device.provider and str(d.index) == (device.index or "0")]
        environment = sorted((n, v) for n, v in os.environ.items() if n.startswith(_DRIVER_SETTINGS))
        identity = repr((_FORMAT, VERSION, device.settings, hardware, environment))
        path = cache_folder("capability") / f"{hashlib.sha256(identity.encode()).hexdigest()[:32]}.json"
        if path not in _open:
            _open[path] = cls(path)
        return _open[path]

    def get(self, key: str) -> Verdict | None:
        """The answer about an op; None where there is none."""
        entry = self._stored.get(key)
        return None if entry is None else Verdict(entry[0])

    def add(self, verdicts: Mapping[str, Verdict]) -> None:
        """Keeps answers, with those that other processes have added meanwhile."""
        now = time.time()
        self._stored = {**_read(self.path), **self._stored, **{key: (v.reason, now) for key, v in verdicts.items()}}
        kept = dict(list(self._stored.items())[-_MAX_ANSWERS:])
        try:
            private_folder(self.path.parent)
            write_atomic(self.path, json.dumps(kept), private=True)
        except ExportError:
            pass  # they are asked again


def _read(path: Path) -> dict[str, tuple[str, float]]:
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            return {}
        now, stored = time.time(), json.loads(path.read_text(encoding="utf-8"))
        return {str(key): (str(reason), float(when)) for key, (reason, when) in stored.items()
                if not any(words in reason for words in _MAY_PASS) or 0 <= now - when < _CRASH_KEPT}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
