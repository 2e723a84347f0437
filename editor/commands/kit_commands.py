"""The command that writes what measures a plan's ops on another machine: ``kit``."""

from __future__ import annotations

import argparse

import editor
from editor.text import counted, human_bytes


def kit(options: argparse.Namespace) -> int:
    """Writes the kit of a device."""
    paths = editor.load_plan(options.plan).write_kit(options.out, options.device, options.runtime)
    models = [path for path in paths if path.name.startswith("group_")]
    size = sum(path.stat().st_size for path in paths)
    print(f"wrote {options.out}: {counted(len(models), 'group')} of ops to measure, {human_bytes(size)}")
    print("There, with numpy and onnxruntime or openvino: python run.py")
    print("Back here: python -m editor import PLAN profile.json")
    return 0
