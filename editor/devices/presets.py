"""Presets: published op lists and limits of real accelerators, in ``examples/devices/presets``."""

from __future__ import annotations

import difflib
import re
from functools import cache
from typing import Any

from editor.errors import DeviceTableError
from editor.resources import resource_dir
from editor.yaml_text import YamlError, load_yaml

_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")


def preset_names() -> list[str]:
    """Names of all presets."""
    return sorted(path.stem for path in (resource_dir("examples") / "devices" / "presets").glob("*.yaml"))


@cache
def preset(name: str) -> dict[str, Any]:
    """The keys of a preset; do not change them.

    Raises:
        DeviceTableError: there is no such preset, or its file cannot be read.
    """
    known = preset_names()
    if not _NAME.fullmatch(name) or name not in known:
        close = difflib.get_close_matches(name, known, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise DeviceTableError(f"unknown preset {name[:60]!r}{hint} (there are {', '.join(known) or 'none'})")
    path = resource_dir("examples") / "devices" / "presets" / f"{name}.yaml"
    try:
        keys = load_yaml(path.read_text(encoding="utf-8"))[1]
    except (OSError, YamlError) as error:
        raise DeviceTableError(f"{path}: {error}") from error
    if not isinstance(keys, dict) or "preset" in keys or "name" in keys:
        raise DeviceTableError(f"{path}: a preset is a mapping of keys of a device, without name and preset")
    return keys
