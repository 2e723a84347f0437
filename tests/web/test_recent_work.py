"""The list of recent work: rows of one model say first what tells them apart."""

from __future__ import annotations

from pathlib import Path

import pytest
from dash import html

from editor.placement.placement import Settings
from editor.sandbox.jobs import JobService
from editor.web.app_state import AppState
from editor.web.pages.start import start_page
from editor.workspace.folders import title_of
from editor.workspace.history import Store
from editor.workspace.solver import first_decisions


def _devices_lines(tree: object) -> list[str]:
    """The texts of devices and sizes of the rows."""
    found: list[str] = []
    if isinstance(tree, html.Span) and getattr(tree, "className", "") == "recent-devices":
        found.append(str(tree.children))
    children = getattr(tree, "children", None)
    for child in children if isinstance(children, list) else [children]:
        if child is not None:
            found += _devices_lines(child)
    return found


def test_rows_of_one_model_at_other_sizes_do_not_look_alike(tmp_path: Path) -> None:
    """All began with the sizes that they share, and the line was cut before the others."""
    store = Store(str(tmp_path / "workspace"))
    decisions = first_decisions(Settings(), [{"name": "CPU", "backendName": "CPU"}])
    for model, past in (("a.onnx", 127), ("a.onnx", 500), ("b.onnx", 7)):
        sizes = {"batch": 1, "sequence_length": 1, "past_sequence_length": past}
        store.create(model, str(tmp_path / model), "0" * 64, sizes, decisions)
    state = AppState(store, JobService(), None, tmp_path)
    lines = _devices_lines(start_page(state))
    state.close()
    assert sorted(lines) == [
        "1 token after 127 · CPU",
        "1 token after 500 · CPU",
        "CPU · batch 1, 1 token after 7",
    ]


@pytest.mark.parametrize(
    ("path", "title"),
    [
        ("/models/phi/model.onnx", "phi/model.onnx"),
        ("/models/t5/decoder_model_merged.onnx", "t5/decoder_model_merged.onnx"),
        ("/models/resnet50.onnx", "resnet50.onnx"),
        ("/work/uploads/3fa9/model.onnx", "model.onnx"),
        ("/work/uploads/3fa9/phi/model.onnx", "phi/model.onnx"),
        ("/model.onnx", "model.onnx"),
    ],
)
def test_models_whose_name_says_little_are_called_by_their_folder_too(
    path: str, title: str
) -> None:
    assert title_of(Path(path)) == title
