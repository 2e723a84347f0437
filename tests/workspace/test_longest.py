"""The longest context that a split within memory holds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from decoders import fused_decoder, plain_decoder

import editor
from editor.errors import Cancelled, EditorError
from editor.graph.dimension_meanings import context_dim
from editor.graph.proposed_sizes import proposed_sizes
from editor.graph.states import Lengths
from editor.placement.device_profile import DeviceProfile, save_profile
from editor.placement.kept import pin_to_affinity
from editor.placement.prompt_room import known_prompt, longest_prompt
from editor.placement.state_memory import full_at, state_memory
from editor.web.app_state import AppState
from editor.web.callbacks.opening import at_longest_context
from editor.web.open_request import OpenRequest
from editor.web.panels.memory_panel import memory_view
from editor.web.panels.verdict import over_memory, verdict
from editor.workspace.document import Document
from editor.workspace.longest import has_longest
from editor.workspace.phases import NoPhasesError


def _open(state: AppState, folder: Path, *memory: int | None) -> Document:
    path = plain_decoder(folder / "decoder.onnx")
    names = "ABC"[: len(memory)]
    table: list[dict[str, Any]] = [
        {"name": name, "backendName": "CPU"} | ({"memory": limit} if limit else {})
        for name, limit in zip(names, memory, strict=True)
    ]
    sizes = proposed_sizes(editor.load_model(path))
    return state.open(OpenRequest(str(path), table, define=sizes))


@pytest.mark.parametrize(("memory", "has_room"), [(3_000_000, True), (315_000, False)])
def test_the_longest_context_opens_with_the_split_that_holds_it(
    memory: int, has_room: bool, state: AppState, tmp_path: Path
) -> None:
    first = _open(state, tmp_path, memory, memory)
    assert has_longest(first.placement)
    first.pin(first.placement.placed_ops[-1:].tolist(), "B")
    with state.tasks.begin(first.id, "Looking") as task:
        found = at_longest_context(state, first, task)
        said = task.progress["label"]
    assert said == "Looking for the longest prompt at once" and found.id != first.id
    assert found.placement.settings.policy == "memory" and not over_memory(found)
    assert found.placement.settings.pins == first.placement.settings.pins
    name = context_dim(found.graph)
    tokens = found.graph.define[name]
    room = "" if has_room else ", without room for what runtimes add"
    prompt = known_prompt(found.placement)
    assert prompt is not None and bool(prompt) == has_room, "the headline has it, too"
    fits = f"a prompt of up to {prompt:,} tokens" if prompt else "no prompt"
    said = f"The longest context found: {tokens:,} tokens{room}; {fits} fits at once. "
    if has_room and (reach := full_at(found.placement) or 0) > tokens:
        said += f"The split goes on to about {reach:,} tokens. "
    said += "The policy is “Optimal within memory” here. "
    assert state.greeting(found.id) == said + "Without the pins a longer one may fit."
    longer = state.with_sizes(found.id, {name: int(1.2 * tokens)})
    over = over_memory(longer) or longer.placement.run_memory.over_with_runtimes
    assert over, "no longer one has room"
    if has_room:
        assert tokens > first.graph.define[name]
        assert not found.placement.run_memory.over_with_runtimes
        full = [each.roomy_until or 0 for each in state_memory(found.placement)]
        assert tokens <= min(full) <= 1.03 * tokens, "the plan says that it goes no further"


def test_of_splits_that_cost_the_same_the_one_for_the_longest_context_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between equal devices each cut costs the same: with a rule, or by chance, 37 tokens fitted where 898 do."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = fused_decoder(tmp_path / "llama", layers=8, hidden=256)
    graph = editor.load_model(path, proposed_sizes(editor.load_model(path)))
    weights = int(np.maximum(graph.tensor_bytes[graph.tensor_is_constant], 0).sum())
    devices = editor.load_devices(
        [{"name": name, "backendName": "CPU", "memory": int(1.2 * weights)} for name in "AB"]
    )
    seconds = {
        key: 5e-5 if graph.op_types[op].startswith("MatMul") else 4e-6
        for key, op in graph.key_index.items()
    }
    whole = DeviceProfile(
        devices[0].description, sum(seconds.values()), seconds, {}, (), 2e-5, 0, 0, 0, 0, 1
    )
    save_profile(graph, devices[0], replace(whole, cold_seconds=1.3e-4, cold_constant=6e-5))

    def longest(*rules: dict[str, str]) -> int:
        costs = {"costs": "measured"}
        plan = editor.partition(graph, devices, "memory", policy_options=costs, rules=list(rules))
        assert len(plan.subgraphs) == 2
        return full_at(plan.placement) or 0

    even = [longest(), longest({"layer": "1", "to": "B"}), longest({"layer": "5", "to": "A"})]
    assert min(even) > 0.97 * max(even) > 500


def test_no_context_is_looked_for_where_memory_has_no_limit(
    state: AppState, tmp_path: Path
) -> None:
    assert not has_longest(_open(state, tmp_path, 900_000, None).placement)


def test_what_fits_at_no_context_is_told_and_the_search_can_be_ended(
    state: AppState, tmp_path: Path
) -> None:
    small = _open(state, tmp_path, 1_000, 1_000)
    with state.tasks.begin(small.id, "Looking") as task:
        with pytest.raises(EditorError, match="does not fit"):
            at_longest_context(state, small, task)
        task.cancel()
        with pytest.raises(Cancelled):
            at_longest_context(state, small, task)


@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_the_longest_prompt_has_room_as_the_plan_is_and_a_longer_one_has_none(
    state: AppState, tmp_path: Path, share: float
) -> None:
    """It was a figure of Phases only, for a plan of its own; the context of steps was taken for it."""
    peak = _open(state, tmp_path, None, None).placement.run_memory.taken_by([0])
    document = _open(state, tmp_path, int((1 + share) * peak), int((1 + share) * peak))
    ops = document.placement.placed_ops
    document.pin(ops[len(ops) // 2 :].tolist(), "B")
    assert known_prompt(document.placement) is None and "how long" in str(memory_view(document))
    tokens = longest_prompt(document.placement, state.loader(document))
    assert tokens > 1
    shown = str(memory_view(document))
    assert f"up to about {tokens:,} tokens fit" in shown and "how long" not in shown
    until = full_at(document.placement)
    said = f"fits up to about {until:,} tokens, a prompt of {tokens:,} at once"
    assert said in str(verdict(document))
    (report,) = document.plan.export("html", tmp_path / "report")
    assert f"A prompt of up to about {tokens:,} tokens fits at once." in report.read_text()

    def has_room(prompt: int) -> bool:
        sizes = {"sequence_length": prompt, "past_sequence_length": 0}
        resized = state.with_sizes(document.id, sizes).placement
        return pin_to_affinity(resized, document.placement.affinity).run_memory.has_room

    assert has_room(tokens) and not has_room(int(1.05 * tokens) + 1)
    with state.tasks.begin(document.id, "Placing") as task:
        for asked in (2 * tokens, 3 * tokens):
            try:
                shorter = state.phases(document, Lengths(asked, 8), task).shorter
            except NoPhasesError as error:
                shorter = error.shorter
            assert shorter == tokens, "one number, whatever was asked for"


def test_no_prompt_has_room_where_a_token_has_none(state: AppState, tmp_path: Path) -> None:
    document = _open(state, tmp_path, 100_000, 100_000)
    assert longest_prompt(document.placement, state.loader(document)) == 0
