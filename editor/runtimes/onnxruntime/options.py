"""Session options: the one place that makes them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import onnxruntime as ort

_NO_MESSAGES = 4
"""Errors come back as exceptions."""

ort.set_default_logger_severity(_NO_MESSAGES)
if "CUDAExecutionProvider" in ort.get_available_providers():
    ort.preload_dlls()  # CUDA libraries that were installed as Python packages


def session_options(folder: Path | None = None, threads: int = 0, optimize: bool = True,
                    entries: Mapping[str, str] | None = None) -> ort.SessionOptions:
    """Options for a session.

    Args:
        folder: weights in other files are relative to it; they are mapped, not read.
        threads: of one op; 0 leaves the choice to ONNX Runtime.
        optimize: False runs the graph as it is.
        entries: further configuration entries.
    """
    options = ort.SessionOptions()
    options.log_severity_level = _NO_MESSAGES
    if not optimize:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    if threads:
        options.intra_op_num_threads = threads
    if folder is not None:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))
    for key, value in (entries or {}).items():
        options.add_session_config_entry(key, value)
    return options
