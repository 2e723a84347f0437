"""Tokens measured at another context than that of the plan's sizes are not compared with what was worked out there."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from decoders import plain_decoder

from editor.graph.states import Lengths
from editor.kinds import NO_DIFFERENCE
from editor.placement.choices import PRESENT
from editor.placement.device_profile import DeviceProfile, forget_profile, save_profile
from editor.placement.state_memory import full_at
from editor.placement.unsplit import unsplit_lacks
from editor.web.app_state import AppState
from editor.web.benchmark_state import first_options
from editor.web.drawing.panes import panes_data
from editor.web.drawing.ribbon import ribbon_of
from editor.web.edits import use_phase
from editor.web.open_request import OpenRequest
from editor.web.panels.compare import compare_view
from editor.web.panels.devices import outcome
from editor.web.panels.phases_panel import phases_view
from editor.web.panels.runs_table import runs_view
from editor.web.panels.status import status
from editor.web.panels.suggestions import hints_view, layout_of_policy
from editor.web.panels.tables import subgraph_rows
from editor.web.panels.verdict import verdict
from editor.web.panels.versions import label_of_version
from editor.web.view import measured_medians
from editor.workspace.document import Document
from editor.workspace.phases import PRESENT as PRESENT_PHASES


@pytest.fixture
def document(state: AppState, tmp_path: Path) -> Document:
    """Of one token after 127."""
    path = str(plain_decoder(tmp_path / "decoder.onnx"))
    return state.open(OpenRequest(path, "HETERO:CPU,OpenVINO.CPU", {}, True))


def tokens(prompt: int, median: float = 0.016, **more: Any) -> dict[str, Any]:
    """What is kept of a run that generated 32 tokens."""
    return {
        "mode": "tokens",
        "median": median,
        "interval": [0.97 * median, 1.03 * median],
        "p99": median,
        "throughput": 1 / median,
        "requests": 1,
        "first_token": 0.3,
        "prompt": prompt,
        "new": 32,
        "estimated": False,
        "unsplit": None,
        "baselines": {},
        "baseline_intervals": {},
    } | more


def test_the_headline_says_the_context_of_each_of_its_figures(document: Document) -> None:
    """6.55 ms after 2,000 tokens stood beside an estimate after 127, and both said nothing of it."""
    document.keep_run(tokens(120), "automatic", document.placement)
    said = str(verdict(document))
    assert (
        "'300 ms to the first token, 62.5 tokens/s after 120 to 150 tokens; '" in said
        and "after 127" not in said
    )
    assert ribbon_of(document)["at"] == ""
    document.keep_run(tokens(2000), "automatic", document.placement)
    for said in (str(verdict(document)), str(status(document))):
        assert (
            "B('16 ms a token'), " in said and "Span(children='after 2,000 to 2,030 tokens'" in said
        )
        assert " after 127 tokens', className='beside')" in said
    assert "first token, 62.5 tokens/s; '" in str(verdict(document)), "it is said once"
    ribbon = ribbon_of(document)
    assert ribbon["at"] == "after 127 tokens" and not ribbon["measured"]
    assert [row["kind"] for row in subgraph_rows(document)] == ["estimate"], "at the plan's sizes"


def test_subgraphs_have_the_times_of_a_token_that_were_measured(document: Document) -> None:
    """A measured headline stood beside a ribbon of estimates that were 2.3 times as long."""
    document.pin(document.placement.placed_ops[-3:].tolist(), "OpenVINO.CPU")
    count = len(document.placement.subgraphs)
    assert count > 1
    each = [0.001 * (i + 1) for i in range(count)]
    document.keep_run(tokens(120, 0.016, medians=each), "automatic", document.placement)
    assert measured_medians(document) == (each, 0.016)
    ribbon = ribbon_of(document)
    assert ribbon["measured"] and [part["seconds"] for part in ribbon["parts"]] == each
    assert {row["seconds"] for row in subgraph_rows(document)} == set(each)
    document.keep_run(tokens(2000, 0.05, medians=each), "automatic", document.placement)
    assert measured_medians(document) == ([], 0.0), "of another context than the plan's sizes"


def test_layouts_of_other_contexts_are_not_ranked(document: Document) -> None:
    document.keep_layout("kept")
    document.keep_run(tokens(120, 0.008), "kept", document.placement)
    document.pin(document.placement.placed_ops[:20].tolist(), "OpenVINO.CPU")
    document.keep_run(tokens(2000), "automatic", document.placement)
    layouts = document.layouts()
    table = str(compare_view(document, layouts))
    for words in (" after 127 tokens", "; measured after 2,000 to 2,030 tokens", "another context"):
        assert words in table
    assert "H4('Measured at another context')" in table
    assert "−8 ms" not in table
    shown = [each for each in layouts if each.name in (PRESENT, "kept", "least latency")]
    mine, *others = panes_data(document, shown)["layouts"]
    assert "16 ms after 2,000 to 2,030 tokens (measurement)" in mine["summary"]
    kept = next(each for each in others if each["name"] == "kept")
    assert kept["summary"].endswith("8 ms after 120 to 150 tokens (measurement)")
    rest = next(each for each in others if each["name"] == "least latency")
    assert "faster" not in rest["summary"] and "slower" not in rest["summary"]
    listed = str(runs_view(document))
    assert "B('16 ms')" in listed and "B('8 ms')" in listed, "each is the best of its context"
    assert " a token after 2,000 to 2,030 tokens " in listed


def test_an_estimate_is_not_compared_with_an_unsplit_run_of_another_context(
    document: Document,
) -> None:
    beside = {"OpenVINO.CPU": 1e-9}
    document.keep_run(tokens(2000, baselines=beside), "automatic", document.placement)
    document.pin(document.placement.placed_ops[:20].tolist(), "OpenVINO.CPU")
    assert "doubtful" not in str(verdict(document))
    document.keep_run(tokens(120, baselines=beside), "automatic", document.placement)
    document.pin(document.placement.placed_ops[:21].tolist(), "OpenVINO.CPU")
    assert " on OpenVINO.CPU (measured); these costs say " in str(verdict(document))


@pytest.fixture
def tight(state: AppState, tmp_path: Path) -> Document:
    """Two devices of which each has room for a part of the model, and the first for all of it up to 331 tokens."""
    table = [
        {"name": "Card", "backendName": "CPU", "memory": "1MB"},
        {"name": "Host", "backendName": "CPU", "memory": "400kB"},
    ]
    return state.open(OpenRequest(str(plain_decoder(tmp_path / "decoder.onnx")), table, {}, True))


def test_a_plan_is_not_compared_with_what_does_not_fit(tight: Document) -> None:
    """A split was "too close to call" beside a model of 72 MB on a device of 60 MB."""
    tight.pin(tight.placement.placed_ops[-1:].tolist(), "Host")
    placement, words = tight.placement, {"device": "Host", "figure": 0.015, "words": NO_DIFFERENCE}
    beside = {
        "unsplit": words,
        "baselines": {"Host": 0.015, "Card": 0.008},
        "baseline_intervals": {"Host": [0.014, 0.017], "Card": [0.007, 0.009]},
    }
    assert set(unsplit_lacks(placement)) == {"Host"}
    assert set(unsplit_lacks(placement, context=2000)) == {"Card", "Host"}
    tight.keep_run(tokens(120, **beside), "automatic", placement)
    said = str(verdict(tight))
    assert (
        "Span(children='2x slower', className='delta worse'), ' than not splitting (8 ms on Card)'"
        in said
    )
    assert "Host 15 ms (does not fit), Card 8 ms'" in str(runs_view(tight))
    tight.pin(placement.placed_ops.tolist(), "Host")
    layout = tight.layout(layout_of_policy(tight))
    suggested = str(hints_view(tight, [], "", layout))
    assert "'This plan does not fit. '" in suggested and "' fits, and'" in suggested
    assert f"pins, ', B('{layout_of_policy(tight)}'" in suggested
    listed = str(runs_view(tight))
    assert "badge'" not in listed and "other placement" not in listed
    tight.keep_run(tokens(120, **beside), "automatic", tight.placement)
    assert str(runs_view(tight)).count("other placement") == 1, "a plan of the same name before"
    assert tight.undo()
    only = {**beside, "baselines": {"Host": 0.015}}
    tight.keep_run(tokens(120, **only), "automatic", placement)
    said = str(verdict(tight))
    assert "all of it on Host takes 15 ms, but does not fit" in said and "too close" not in said


def test_a_run_beyond_the_memory_of_the_plan_says_so_in_the_headline(tight: Document) -> None:
    """It stood below the fold of the tab Benchmark only."""
    tight.keep_run(tokens(60), "automatic", tight.placement)
    assert "beyond the memory" not in str(verdict(tight)) + str(status(tight))
    tight.keep_run(tokens(2000), "automatic", tight.placement)
    for said in (str(verdict(tight)), str(status(tight))):
        assert "beyond the memory of Card" in said


def test_phases_have_the_figures_that_were_measured_of_the_present_plan(
    state: AppState, document: Document
) -> None:
    """The row of a plan that had just taken 63 ms to its first token said "about 21 ms"."""

    def shown(prompt: int) -> str:
        with state.tasks.begin(document.id, "Placing") as task:
            phases = state.phases(document, Lengths(prompt, 32), task)
            return str(phases_view(document, phases))

    assert "measurement" not in shown(120)
    document.keep_run(tokens(120), "automatic", document.placement)
    said = shown(120)
    assert "'300 ms', ' ', " in said and "'16 ms', ' ', " in said and "measurement" in said
    assert "796 ms" in said, "the first token, and 31 more"
    assert (
        "best by estimate. It is the present plan." in said and "Div(children='estimated " in said
    )
    assert re.search(r"By what was measured, the estimated times are [\d.]+x too low", said)
    assert "tokens: 300 ms until the first token, then 16 ms for each; ', B('796 ms for " in said
    assert "'doubtful'" not in said, "the sentence has what was measured"
    assert "Div(children='with a prompt of 120; estimated " in shown(130)
    assert "measurement" not in shown(2000), "another prompt"
    document.pin(document.placement.placed_ops[:20].tolist(), "OpenVINO.CPU")
    assert "measurement" not in shown(120), "another plan"


@pytest.mark.parametrize("factor", [1.02, 9.0])
def test_none_of_the_phases_that_figures_cannot_tell_apart_is_best(
    factor: float, state: AppState, document: Document
) -> None:
    with state.tasks.begin(document.id, "Placing") as task:
        phases = state.phases(document, Lengths(120, 32), task)
    chosen = phases.chosen
    other = replace(chosen, name="another", answer=factor * chosen.answer, devices=())
    placements = {**phases.placements, other.name: phases.placements[chosen.name]}
    ways = replace(phases, choices=(chosen, other), present=chosen, placements=placements)
    said = str(phases_view(document, ways))
    bold = f"B({chosen.in_words(chosen.answer)!r})"
    assert (bold in said) == ("(in bold)" in said) == (factor > 2)
    assert ("too close to call" in said) == (factor < 2)


def test_the_way_out_of_a_busy_profile_is_another_one(
    document: Document, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its only link led to the device table."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    seconds = dict.fromkeys(document.graph.op_keys, 1e-3)
    for signs in ((), ("other programs kept a processor busy",)):
        for device in document.devices:
            quiet = DeviceProfile("x", 1.0, seconds, {}, (), 1e-5, 0, 0, 0, 0, 1)
            save_profile(document.graph, device, replace(quiet, disturbances=signs))
        document.set_automatic("priority", {"costs": "measured"}, "minimal")
        said = str(verdict(document))
        assert ("data-command='run-bench-profile'" in said) == bool(signs)
        assert "State them in Devices" not in said


def test_measured_tokens_contradict_the_profile_that_predicted_them(
    document: Document, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """16.5 ms a token stood beside "predicted 5.98 ms" without a word."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    count = len(document.placement.placed_ops)
    for device in document.devices:
        seconds = dict.fromkeys(document.graph.op_keys, 0.006 / count)
        save_profile(
            document.graph, device, DeviceProfile("x", 0.006, seconds, {}, (), 0, 0, 0, 0, 0, 1)
        )
    document.set_automatic("priority", {"costs": "measured"}, "minimal")
    document.keep_run(tokens(120, 0.0062), "automatic", document.placement)
    assert "doubtful" not in str(status(document))
    document.keep_run(tokens(2000, 0.0165), "automatic", document.placement)
    assert "doubtful" not in str(status(document)), "at another context"
    document.keep_run(tokens(120, 0.0165), "automatic", document.placement)
    said = str(status(document))
    assert "doubtful" in said and "Measured 16.5 ms: these costs are 2.8x too low" in said


def test_the_first_measurement_of_tokens_fits_into_memory(state: AppState, tight: Document) -> None:
    """After "Longest" the fields had the whole context as the prompt, and an answer beyond it."""
    full = full_at(tight.placement)
    assert full is not None and full > 100
    longest = state.with_sizes(tight.id, {"past_sequence_length": full - 5}).placement
    fits = full_at(longest)
    assert fits is not None
    options = first_options(longest)
    assert options.prompt == fits - options.new < full - 5


def test_a_profile_of_other_sizes_is_said_below_the_costs(
    state: AppState, document: Document, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """After a change of sizes "prediction from profile" was an estimate, without a word."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    other = state.with_sizes(document.id, {"past_sequence_length": 255})
    for device in document.devices:
        seconds = dict.fromkeys(document.graph.op_keys, 1e-3)
        figures = DeviceProfile("x", 1.0, seconds, {}, (), 0, 0, 0, 0, 0, 1)
        assert "other sizes" not in str(outcome(other))
        save_profile(document.graph, device, figures)
        assert "Profiled at other sizes: " in str(outcome(other))
        assert "other sizes" not in str(outcome(document))
        forget_profile(document.graph, device)


def test_documents_of_one_title_are_told_apart_in_the_list_of_versions(
    state: AppState, document: Document, tmp_path: Path
) -> None:
    """Six rows said "model.onnx (2026-11-29)"."""
    state.with_sizes(document.id, {"past_sequence_length": 255})

    def labels() -> list[str]:
        records = state.store.recent(10)
        return sorted(label_of_version(each, records) for each in records)

    day = state.store.recent(1)[0].updated[:10]
    assert labels() == [f"decoder.onnx (1 token after {past}, {day})" for past in (127, 255)]
    state.open(OpenRequest(str(document.graph.path), "HETERO:CPU", {}, True))
    assert len([each for each in labels() if re.search(r"127, .* \d\d:\d\d UTC\)$", each)]) == 2
    (tmp_path / "new").mkdir()
    path = plain_decoder(tmp_path / "new" / "decoder.onnx")
    state.open(OpenRequest(str(path), "HETERO:CPU", {}, True))
    assert f"new/decoder.onnx (1 token after 127, {day})" in labels()
    assert all("/" in each for each in labels())


def test_phases_say_that_pins_hold_in_each_way(state: AppState, document: Document) -> None:
    """One placement was "best" with 71 pins of a person, and another one without them, and nothing told them apart."""

    def shown() -> str:
        with state.tasks.begin(document.id, "Placing") as task:
            phases = state.phases(document, Lengths(120, 32), task)
        return str(phases_view(document, phases))

    assert "Each way holds" not in shown()
    document.pin(document.placement.placed_ops[:3].tolist(), "OpenVINO.CPU")
    assert "Each way holds the 3 pins of the plan." in shown()


def test_a_plan_that_does_not_fit_is_the_one_before_once_another_is_used(
    state: AppState, tight: Document
) -> None:
    """It was called the present plan beside the one that had taken its place, and no later change made the table outdated."""
    with state.tasks.begin(tight.id, "Placing") as task:
        phases = state.phases(tight, Lengths(100, 300), task)
    assert phases.present.problem and phases.chosen.name != PRESENT_PHASES
    before = str(phases_view(tight, phases))
    assert f"'{PRESENT_PHASES}'" in before and "data-step-of='another'" not in before
    used = use_phase(tight, phases, phases.chosen.name)
    shown = str(phases_view(tight, used))
    assert f"'{PRESENT_PHASES}'" not in shown and "'the plan before, for both'" in shown
    assert "It is the present plan." in shown and "data-step-of='another'" not in shown
    ops = tight.placement.placed_ops
    moved = ops[tight.placement.assignment.device[ops] == 0][:1]
    tight.pin(moved.tolist(), tight.devices[1].name)
    assert "data-step-of='another'" in str(phases_view(tight, used))
