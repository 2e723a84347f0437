"""Makes session options, reads errors, and evaluates small models."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnxruntime as ort
from onnx import ModelProto

from editor import custom_ops
from editor.runtimes.base import summarize_error
from editor.runtimes.onnxruntime.providers import CPU

BUILT_IN = frozenset(ort.get_available_providers())
"""Providers of the installed ONNX Runtime; after the registration of a library its own would be listed too."""
_NO_MESSAGES = 4
"""Errors come back as exceptions."""

ort.set_default_logger_severity(_NO_MESSAGES)
if "CUDAExecutionProvider" in ort.get_available_providers():
    ort.preload_dlls()  # CUDA libraries that were installed as Python packages


def session_options(
    folder: Path | None = None,
    threads: int = 0,
    optimize: bool = True,
    entries: Mapping[str, str] | None = None,
) -> ort.SessionOptions:
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
        options.add_session_config_entry(
            "session.model_external_initializers_file_folder_path", os.fsencode(folder)
        )
    for key, value in (entries or {}).items():
        options.add_session_config_entry(key, value)
    return options


def spinning(requests: int, alone: bool = False) -> dict[str, str]:
    """Entries that say when threads of a session may spin, that is wait for work without giving up their core.

    A thread that spins sees the next op of its session at once, where waking it takes 5 to 50 us. But one that spins after
    a run takes a core from the other subgraphs: with ONNX Runtime's defaults, 32 subgraphs take 38 times the CPU time of
    one. So threads spin while a run lasts, and not at all where several runs share the cores.

    Args:
        requests: runs in flight at the same time.
        alone: whether there are no other subgraphs; threads then spin between runs, too.
    """
    if alone and requests == 1:
        return {}
    if requests == 1:
        return {"session.force_spinning_stop": "1"}
    return {"session.intra_op.allow_spinning": "0", "session.inter_op.allow_spinning": "0"}


_NOISE = (
    re.compile(r"\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : "),
    re.compile(r"^/onnxruntime_src/.* (?=Error creating execution provider)"),
    re.compile(r"/onnxruntime_src/.* was (?:true|false)\. "),  # the condition that did not hold
    re.compile(r"^Fatal error: "),
    re.compile(r"/onnxruntime_src/\S+ .*?\) "),  # the C++ function that complained
    re.compile(r" with name 'op\d+'"),  # names of the probe's own nodes
    re.compile(r"Node \(op\d+\) "),
)


def reason_of(error: BaseException) -> str:
    """First useful line of an error, shortened for display."""
    return f"ONNX Runtime: {summarize_error(error, _NOISE)}"


def evaluate(
    model: ModelProto, outputs: Sequence[str], folder: Path, feeds: Mapping[str, Any]
) -> list[Any]:
    """Outputs of a model, as numpy arrays; raises whatever ONNX Runtime raises."""
    return list(_session_of(model, session_options(folder)).run(list(outputs), dict(feeds)))


def run_once(model: ModelProto, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """Outputs of a small model by name; the graph runs as it is. Raises whatever ONNX Runtime raises."""
    session = _session_of(model, session_options(optimize=False))
    names = [output.name for output in model.graph.output]
    return dict(zip(names, session.run(names, dict(feeds)), strict=True))


def output_types(model: ModelProto, folder: Path) -> list[tuple[str, str, list[int | str | None]]]:
    """(name, type as ONNX Runtime writes it, shape) of each output; raises whatever ONNX Runtime raises."""
    session = _session_of(model, session_options(folder, optimize=False))
    return [(output.name, output.type, output.shape) for output in session.get_outputs()]


def check_setting(model: ModelProto, key: str, value: str) -> None:
    """Creates a session with a configuration entry; raises whatever ONNX Runtime raises when it refuses."""
    _session_of(model, session_options(entries={key: value}))


def _session_of(model: ModelProto, options: ort.SessionOptions) -> Any:
    custom_ops.register(options, model.opset_import)
    return ort.InferenceSession(model.SerializeToString(), options, providers=[CPU])


VERSION: str = ort.__version__
