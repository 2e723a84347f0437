"""The folder for onnxruntime-genai asks for no longer context than its plan has room for."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from decoders import fused_decoder

import editor
from editor.exports.registry import export_notes
from editor.graph.proposed_sizes import proposed_sizes
from editor.placement.state_memory import state_memory


def on_one(folder: Path, memory: str = "") -> editor.Plan:
    """A decoder, whose configuration has lengths of 4,096, at 127 tokens of context on a device of so much memory."""
    path = fused_decoder(folder)
    path = path if path.is_file() else folder / "model.onnx"
    device = {"name": "A", "backendName": "CPU"} | ({"memory": memory} if memory else {})
    sizes = proposed_sizes(editor.load_model(path))
    return editor.partition(editor.load_model(path, sizes), [device])


def lengths(folder: Path) -> tuple[int, int]:
    config: dict[str, Any] = json.loads((folder / "genai_config.json").read_text())
    return config["model"]["context_length"], config["search"]["max_length"]


def test_lengths_are_limited_to_what_fits(tmp_path: Path) -> None:
    """A plan that is full at 1,547 tokens was written with 4,096, which its devices have no room for."""
    original = lengths(fused_decoder(tmp_path / "model").parent)
    plan = on_one(tmp_path / "model", "2MB")
    (state,) = state_memory(plan.placement)
    assert state.roomy_until is not None and 127 < state.roomy_until < min(original)
    with pytest.warns(match="context_length and max_length of .* are limited to") as said:
        plan.export("genai", tmp_path / "out")
    assert lengths(tmp_path / "out") == (state.roomy_until, state.roomy_until)
    (note,) = [str(each.message) for each in said if "limited" in str(each.message)]
    assert (
        f"{state.roomy_until:,} tokens" in note
        and "at which the memory of A is full (estimate)" in note
    )
    assert note.endswith("a long prompt, which runs at once, may need more")
    assert note in export_notes(plan.placement, "genai"), "the page says the same"
    phased = editor.Plan(plan.placement, plan.placement)
    with pytest.warns(match="limited"):
        phased.export("genai", tmp_path / "phases")
    assert lengths(tmp_path / "phases") == lengths(tmp_path / "out")


@pytest.mark.parametrize("memory", ["", "8GB", "1kB"])
def test_lengths_never_grow_and_stay_where_nothing_limits_them(memory: str, tmp_path: Path) -> None:
    plan = on_one(tmp_path / "model", memory)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan.export("genai", tmp_path / "out")
    assert lengths(tmp_path / "out") == lengths(tmp_path / "model")
    notes = [note for note in export_notes(plan.placement, "genai") if "context" in note]
    assert notes == (
        ["A has no room for any context (estimate); genai_config.json keeps its lengths"]
        if memory == "1kB"
        else []
    )


def test_the_folder_says_what_runs_where_and_which_devices_are_one(tmp_path: Path) -> None:
    path = fused_decoder(tmp_path / "model")
    (path.parent / "README.md").write_text("of the model itself")
    graph = editor.load_model(path, proposed_sizes(editor.load_model(path)))
    table = [{"name": name, "backendName": "CPU"} for name in ("A|1", "B")]
    plan = editor.partition(graph, table, rules=[{"type": "MatMul", "nth": "last", "to": "B"}])
    said = "A|1 and B are one device to onnxruntime-genai, with one memory"
    plan.export("genai", tmp_path / "out")
    assert any(note.startswith(said) for note in export_notes(plan.placement, "genai"))
    text = (tmp_path / "out" / "README.md").read_text()
    parts = [line for line in text.splitlines() if line.startswith("| `part_")]
    assert len(parts) == len(plan.subgraphs) > 1 and said in text and "of the model" not in text
    first = plan.subgraphs[0]
    assert parts[0] == (
        f"| `part_0.onnx` | A\\|1 | {first.size} | all steps | CPUExecutionProvider |"
    )
    compile("\n".join(line[4:] for line in text.splitlines() if line[:4] == "    "), "it", "exec")
