"""What the page says of a limit of memory: beside what runtimes add, and of the context up to which a plan fits."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from conftest import write_dag
from decoders import plain_decoder
from page_words import ended

import editor
from editor.graph.dimension_meanings import context_dim
from editor.graph.proposed_sizes import proposed_sizes
from editor.graph.states import Lengths, sizes_of_step
from editor.placement.kept import moved_ops
from editor.placement.state_memory import full_at, state_memory
from editor.text import human_bytes
from editor.web.app_state import AppState
from editor.web.callbacks.phasing import opened_phase
from editor.web.edits import use_phase
from editor.web.open_request import OpenRequest
from editor.web.panels import inspector
from editor.web.panels.compare import compare_view
from editor.web.panels.devices import device_list
from editor.web.panels.memory_panel import context_note, memory_view
from editor.web.panels.phases_panel import phases_panel
from editor.web.panels.status import status
from editor.web.panels.verdict import verdict
from editor.web.view import figures_of
from editor.workspace.document import Document
from editor.workspace.phases import ONE_OF_PROMPT, OWN


def decoder(state: AppState, folder: Path, memory: int | None) -> Document:
    """A small decoder on a CPU of so many bytes."""
    path = plain_decoder(folder / "decoder.onnx")
    entry: Mapping[str, object] = {"name": "A", "backendName": "CPU"}
    limit = {} if memory is None else {"memory": memory}
    sizes = proposed_sizes(editor.load_model(path))
    return state.open(OpenRequest(str(path), [{**entry, **limit}], define=sizes))


def test_a_plan_that_has_no_room_for_what_runtimes_add_does_not_just_fit(
    state: AppState, tmp_path: Path
) -> None:
    """The page said that a split fits, and beside it that about more than the limit is needed."""
    memory = decoder(state, tmp_path, None).placement.run_memory
    peak, taken = memory.peaks["A"], memory.taken_by([0])
    assert taken > 1.05 * peak
    tight = decoder(state, tmp_path, peak + (taken - peak) // 2)
    said = tight.placement.run_memory.over_with_runtimes
    assert re.fullmatch(r"about [\d.]+ [kM]B of [\d.]+ [kM]B on A", said)
    assert f"No room for 127 tokens with what runtimes add: {said}" in str(verdict(tight))
    assert "no room for 127 tokens" in str(status(tight)), "fits 0 tokens"
    assert "data-command='policy-memory'" in str(verdict(tight)), "a split may have room"
    compared = str(compare_view(tight, tight.layouts()))
    assert "no room with what runtimes add" in compared
    assert f"Td('{full_at(tight.placement):,}')" in compared and "'Fits '" in compared
    view = str(memory_view(tight))
    needs = f"A needs {said.removesuffix(' on A')}"
    assert f"127 tokens do not fit: {needs}, with its runtime (estimate). " in view
    assert "with its runtime', className='short'" in view
    roomy = decoder(state, tmp_path, 10_000 * taken)
    assert roomy.placement.run_memory.over_with_runtimes == ""
    assert "runtimes add" not in str(verdict(roomy)) + str(memory_view(roomy))
    over = decoder(state, tmp_path, peak - 1)
    assert over.placement.run_memory.over_with_runtimes == "", "it does not fit at all"


def test_a_device_that_is_nearly_full_says_what_it_takes_with_its_runtime(
    state: AppState, tmp_path: Path
) -> None:
    """That stood in a tooltip, until a device was said to be full."""
    memory = decoder(state, tmp_path, None).placement.run_memory
    taken = memory.taken_by([0])
    said = f"Span(children='about {human_bytes(taken)} with its runtime', className='{{}}', title="
    listed = {
        limit: str(device_list(decoder(state, tmp_path, limit)))
        for limit in (2 * taken, taken + 1, taken - 1, memory.peaks["A"] - 1)
    }
    roomy, full, short, over = listed.values()
    assert said.format("") in full and said.format("over") in short
    for text in (roomy, over):
        assert "with its runtime', className" not in text
    assert "Over its memory: " in over


def test_a_prompt_without_room_for_what_runtimes_add_does_not_fit(
    state: AppState, tmp_path: Path
) -> None:
    """It was "tight", where a context with the same need did not fit."""
    whole = decoder(state, tmp_path, None).graph.path
    sizes = {"batch": 1, "sequence_length": 40, "past_sequence_length": 0}
    device = {"name": "A", "backendName": "CPU"}
    memory = state.open(OpenRequest(str(whole), [device], define=sizes)).placement.run_memory
    limit = memory.peaks["A"] + memory.added_by_runtime(0) // 2
    tight = state.open(OpenRequest(str(whole), [{**device, "memory": limit}], define=sizes))
    said = tight.placement.run_memory.over_with_runtimes
    assert f"No room for a prompt of 40 tokens with what runtimes add: {said}" in str(
        verdict(tight)
    )
    roomy = state.open(OpenRequest(str(whole), [{**device, "memory": 9 * limit}], define=sizes))
    assert "No room" not in str(verdict(roomy)) and "tight" not in str(verdict(roomy))


def test_a_context_is_told_by_one_count_and_for_steps_of_a_token(
    state: AppState, tmp_path: Path
) -> None:
    """The slider said twice what stood below it, and a plan was "full" at a context whose prompt did not fit."""
    document = decoder(state, tmp_path, 8_000_000)
    (kept,) = state_memory(document.placement)
    view = str(memory_view(document))
    size = human_bytes(kept.bytes)
    said = f"{kept.context} tokens fit (estimate). The states take {size} in all, up to twice that while a step runs."
    assert said in view and "Memory over one run after 127 tokens " in view
    assert context_note(document, 300)[0].startswith("300 tokens fit")
    assert context_note(document, kept.roomy_until + 1)[1] == "short"
    assert f": {size} at {kept.context} tokens" in view
    assert f"full at about {kept.roomy_until:,} tokens (estimate)" in view
    assert "A prompt at once: " in view and "data-longest-prompt" in view


@pytest.mark.parametrize("times", [2, 20])
def test_how_far_a_plan_fits_is_said_also_where_that_is_far(
    state: AppState, tmp_path: Path, times: int
) -> None:
    """It was no longer said once a better plan fitted eight times its context."""
    (kept,) = state_memory(decoder(state, tmp_path, None).placement)
    document = decoder(state, tmp_path, kept.taken(times * kept.context))
    (now,) = state_memory(document.placement)
    assert now.roomy_until == pytest.approx(times * now.context, abs=1)
    assert f"fits up to about {now.roomy_until:,} tokens" in str(verdict(document))
    endless = decoder(state, tmp_path, kept.needed(1_000_000))
    assert "fits up to" not in str(verdict(endless))


def test_a_split_is_full_at_one_context_whatever_the_sizes_that_it_is_shown_at(
    state: AppState, tmp_path: Path
) -> None:
    """What runtimes add was taken to stay as it was, and an export was limited to 1,314 tokens where 1,178 fit."""
    (kept,) = state_memory(decoder(state, tmp_path, None).placement)
    document = decoder(state, tmp_path, kept.taken(20 * kept.context))
    longer = state.with_sizes(document.id, {context_dim(document.graph): 15 * kept.context})
    (near,), (far,) = (state_memory(each.placement) for each in (document, longer))
    assert near.added and far.added > near.added and far.context == 15 * near.context
    assert far.roomy_until == pytest.approx(near.roomy_until, rel=0.12), "of so small a model"
    assert far.added == pytest.approx(near.taken(far.context) - near.needed(far.context), rel=0.12)


def test_a_stroke_says_what_it_does_to_the_longest_context(state: AppState, tmp_path: Path) -> None:
    document = decoder(state, tmp_path, 8_000_000)
    now = figures_of(document)
    tokens = full_at(document.placement)
    assert tokens and now["context"] == tokens
    (shown,) = (str(part) for part in status(document) if "'fits '" in str(part))
    assert "delta" not in shown
    for change, look in ((100, "worse"), (-100, "better")):
        before = now | {"context": tokens + change}
        (shown,) = (p for p in map(str, status(document, before)) if "'fits '" in p)
        assert f"'{'−' if change > 0 else '+'}100', className='delta {look}'" in shown
    endless = decoder(state, tmp_path, None)
    assert figures_of(endless)["context"] is None and "'fits '" not in str(status(endless))


def test_first_steps_name_memory_and_tokens(state: AppState, tmp_path: Path) -> None:
    said = str(inspector.plan(decoder(state, tmp_path, None)))
    assert "choose the policy Optimal within memory. The state grows with the context" in said
    assert "in mode Tokens over a prompt" in said
    assert "open=True" in said
    plain = write_dag(tmp_path / "net.onnx", [[i - 1] if i else [] for i in range(4)])
    said = str(inspector.plan(state.open(OpenRequest(str(plain), [{"backendName": "CPU"}]))))
    assert "choose the policy Optimal within memory." in said
    assert "Tokens" not in said and "The state grows" not in said
    assert "open=False" in said, "it is the second model of this workspace"


def test_a_selection_says_what_it_takes_along(state: AppState, tmp_path: Path) -> None:
    """Layers are moved for their bytes, and only times of a selection were shown."""
    document = decoder(state, tmp_path, None)
    (kept,) = state_memory(document.placement)
    ops = document.placement.placed_ops.tolist()
    whole = str(inspector.several(document, ops))
    constants = human_bytes(document.placement.run_memory.devices[0].constants)
    assert f"Dt('Weights'), Dd('{constants}')" in whole
    states = (
        f"Dt('{kept.states} states'), Dd('{human_bytes(kept.bytes)}, up to twice that in a step')"
    )
    assert states in whole
    first = set(document.graph.readers[document.graph.tensor_index["past_key_values.0.key"]])
    some = str(inspector.several(document, [op for op in ops if op in first]))
    assert f"Dt('1 state'), Dd('{human_bytes(kept.bytes // kept.states)}, " in some
    assert "'Weights'" not in some


def test_the_prompt_is_opened_as_both_phases_were_placed(state: AppState, tmp_path: Path) -> None:
    """It was solved anew, so that alike cards could change places, and what was found had to be looked for again."""
    path = plain_decoder(tmp_path / "decoder.onnx")
    devices = [{"name": n, "backendName": "CPU"} for n in "AB"]
    document = state.open(
        OpenRequest(str(path), devices, define=proposed_sizes(editor.load_model(path)))
    )
    lengths = Lengths(24, 8)
    with state.tasks.begin(document.id, "Placing") as task:
        sizes = sizes_of_step(document.graph, lengths.prompt, 0)
        document.pin(document.placement.placed_ops[-9:].tolist(), "B")
        found = state.phases(document, lengths, task)
        opened = opened_phase(state, document, sizes, lengths, task)
        assert opened is not document and state.phased[opened].placements is found.placements
        assert not moved_ops(opened.placement, found.prompt.affinity)
        shown = str(phases_panel(opened, state.phased[opened]))
        assert "value=24" in shown and "It is the present plan." in shown
        document.pin(document.placement.placed_ops[:9].tolist(), "B")
        shown = str(phases_panel(document, found))
        assert "data-step-of='another'" in shown, "of the plan before"
        again = opened_phase(
            state, document, sizes_of_step(document.graph, 31, 0), Lengths(31, 8), task
        )
        assert again not in state.phased, "of other lengths nothing was found"
        assert state.greeting(opened.id).startswith("Placed as in Phases: ")
        opened_phase(state, opened, sizes, lengths, task)
        assert not state.greeting(opened.id), "nothing else was opened"


def test_a_placement_for_each_phase_is_used_for_both(state: AppState, tmp_path: Path) -> None:
    """The half of the open phase became the plan, the other half was lost, and the table called itself out of date."""
    path = plain_decoder(tmp_path / "decoder.onnx")
    devices = [
        {"name": "Near", "backendName": "CPU", "peakCompute": 1e7, "peakDramBw": 4e12},
        {"name": "Fast", "backendName": "CPU", "peakCompute": 4e13, "peakDramBw": 1e7},
    ]
    document = state.open(
        OpenRequest(str(path), devices, define=proposed_sizes(editor.load_model(path)))
    )
    document.set_automatic("optimal", {}, "minimal")
    lengths = Lengths(64, 8)
    with state.tasks.begin(document.id, "Placing") as task:
        found = state.phases(document, lengths, task)
        assert found.chosen.name == OWN and found.both_with(document.placement) is None
        before = str(phases_panel(document, found))
        assert (
            "present plan is that of the tokens" in before and "opens the other one" not in before
        )
        used = state.phased[document] = use_phase(document, found, OWN)
        shown = str(phases_panel(document, used))
        assert "“Open the prompt” opens the other one" in shown and "'in use'" in shown
        assert "data-step-of='another'" not in shown
        both = used.both_with(document.placement)
        assert both is not None and not moved_ops(both[0], found.prompt.affinity)
        options = state.job_options(document)
        assert (options.prompt, options.new) == (64, 8), "as they were placed"
        job = state.start_job(document, "tokens", options)
        assert job.plan.prompt is not None and job.job.result(120).figures.first_token.median > 0
        asyncio.run(ended(state, document.id))
        (own,) = document.runs()
        assert own.figures["own_prompt"]
        shown = str(phases_panel(document, used))
        assert shown.count("kind measurement") == 4, "in the sentence and its row"
        sizes = sizes_of_step(document.graph, lengths.prompt, 0)
        opened = opened_phase(state, document, sizes, lengths, task)
        assert not moved_ops(opened.placement, found.prompt.affinity)
        assert "“Open a token” opens the other one" in str(
            phases_panel(opened, state.phased[opened])
        )
        pair = state.phased[opened].both_with(opened.placement)
        assert pair is not None and not moved_ops(pair[1], found.token.affinity)
        other = use_phase(document, used, ONE_OF_PROMPT)
        shown = str(phases_panel(document, other))
        assert (
            f"The present plan is “{ONE_OF_PROMPT}”." in shown
            and "the plan before, for both" in shown
        )
        assert other.both_with(document.placement) is None
