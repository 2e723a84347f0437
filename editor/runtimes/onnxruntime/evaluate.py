"""Small questions that ONNX Runtime's CPU provider answers for the rest of the program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnxruntime as ort
from onnx import ModelProto

from editor.runtimes.onnxruntime.options import session_options
from editor.runtimes.onnxruntime.providers import CPU


def evaluate(
    model: ModelProto, outputs: Sequence[str], folder: Path, feeds: Mapping[str, Any]
) -> list[Any]:
    """Outputs of a model, as numpy arrays; raises whatever ONNX Runtime raises."""
    session = ort.InferenceSession(
        model.SerializeToString(), session_options(folder), providers=[CPU]
    )
    return list(session.run(list(outputs), dict(feeds)))


def run_once(model: ModelProto, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """Outputs of a small model by name; the graph runs as it is. Raises whatever ONNX Runtime raises."""
    session = ort.InferenceSession(
        model.SerializeToString(), session_options(optimize=False), providers=[CPU]
    )
    names = [output.name for output in model.graph.output]
    return dict(zip(names, session.run(names, dict(feeds)), strict=True))


def output_types(model: ModelProto, folder: Path) -> list[tuple[str, str, list[int | str | None]]]:
    """(name, type as ONNX Runtime writes it, shape) of each output; raises whatever ONNX Runtime raises."""
    session = ort.InferenceSession(
        model.SerializeToString(), session_options(folder, optimize=False), providers=[CPU]
    )
    return [(output.name, output.type, output.shape) for output in session.get_outputs()]


def check_setting(model: ModelProto, key: str, value: str) -> None:
    """Creates a session with a configuration entry; raises whatever ONNX Runtime raises when it refuses."""
    ort.InferenceSession(
        model.SerializeToString(), session_options(entries={key: value}), providers=[CPU]
    )


VERSION: str = ort.__version__
