"""One plan at several sizes is what one gets by opening the model at each of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from conftest import EXAMPLES
from decoders import plain_decoder

import editor
from editor.__main__ import main
from editor.errors import Cancelled, EditorError
from editor.graph.graph import Graph
from editor.placement.device_profile import DeviceProfile, save_profile
from editor.placement.kept import moved_ops
from editor.sandbox.jobs import JobService
from editor.web.app_state import AppState
from editor.web.callbacks.opening import at_longest_context
from editor.web.open_request import OpenRequest
from editor.web.panels.devices import history_list
from editor.web.panels.verdict import over_memory, verdict
from editor.web.tasks import TaskRegistry
from editor.web.view import colours_of
from editor.workspace.history import Store
from editor.workspace.sizes import MOST_SIZES, names_of, parse_sizes, words

WHISPER = EXAMPLES / "models" / "whisper-tiny-decoder.onnx"


def test_each_row_is_the_plan_of_the_model_at_these_sizes(whisper: Graph) -> None:
    key = whisper.op_keys[int(whisper.order[-1])]
    plan = editor.partition(whisper, "HETERO:GPU,CPU", policy="optimal", pins={key: "CPU"})
    said: list[tuple[int, int, str]] = []
    rows = plan.at_sizes({"sequence": [8, 64], "batch": [1, 3]}, lambda *each: said.append(each))
    assert said == [
        (i, 4, f"sequence={s} batch={b}")
        for i, (s, b) in enumerate([(8, 1), (8, 3), (64, 1), (64, 3)])
    ]
    assert [dict(r.define) for r in rows] == [
        {"batch": b, "sequence": s} for s in (8, 64) for b in (1, 3)
    ]
    for row in rows:
        alone = editor.partition(
            editor.load_model(WHISPER, row.define),
            "HETERO:GPU,CPU",
            policy="optimal",
            pins={key: "CPU"},
        )
        assert (
            row.problem == "" and row.basis is not None and str(row.basis) == "estimate from shapes"
        )
        assert (
            row.figures["subgraphs"] == len(alone.subgraphs)
            and row.figures["memory"] == alone.run_memory.peaks
        )
        placed = [alone.graph.op_keys[op] for op in alone.placement.placed_ops.tolist()]
        assert row.moved_ops == sum(alone.affinity[k] != plan.affinity[k] for k in placed)
    assert rows[0].moved_ops == 0
    seconds = [r.figures["predicted"] for r in rows]
    assert seconds[0] < seconds[1] < seconds[3] and seconds[0] < seconds[2] < seconds[3]


def test_a_plan_by_a_profile_has_estimates_at_sizes_that_were_not_measured(
    whisper: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """These rows said that there is no profile, and had no figures."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    [cpu] = editor.partition(whisper, "HETERO:CPU").devices
    seconds = {
        whisper.op_keys[op]: 1e-5 for op in whisper.order.tolist() if not whisper.op_is_constant[op]
    }
    save_profile(
        whisper,
        cpu,
        DeviceProfile(cpu.description, 1e-2, seconds, {}, (), 1e-5, 0.0, 0.0, 0.0, 0.0, 1),
    )
    plan = editor.partition(
        whisper, "HETERO:CPU", policy="optimal", policy_options={"costs": "measured"}
    )
    own = whisper.define["sequence"]
    rows = plan.at_sizes({"sequence": [own, own + 8]})
    assert [row.problem for row in rows] == ["", ""]
    assert [row.basis.kind for row in rows if row.basis] == ["prediction", "estimate"]

    # So does the page, which refused such sizes.
    state = AppState(Store(str(tmp_path / "ws")), JobService(), None, EXAMPLES)
    try:
        opened = state.open(OpenRequest(str(plan.save(tmp_path / "plan.json")), "", {}))
        assert opened.placement.settings.policy_options["costs"] == "measured"
        resized = state.with_sizes(opened.id, {"sequence": own + 8})
        assert resized.graph.define["sequence"] == own + 8
        assert resized.placement.settings.policy_options["costs"] == "estimate"
        assert state.greeting(resized.id).startswith("These sizes have no profile: ")
    finally:
        state.jobs.close()


def test_whoever_only_looks_at_other_sizes_comes_back_to_the_history_that_was_there(
    whisper: Graph, tmp_path: Path
) -> None:
    state = AppState(Store(str(tmp_path / "ws")), JobService(), None, EXAMPLES)
    try:
        first = state.open(OpenRequest(str(whisper.path), "HETERO:CPU,GPU", dict(whisper.define)))
        first.pin(first.placement.placed_ops[:3].tolist(), "GPU")
        own = whisper.define["sequence"]
        larger = state.with_sizes(first.id, {"sequence": own + 8})
        assert larger.id != first.id and len(larger.placement.settings.pins) == 3
        assert colours_of(larger) == colours_of(first)
        larger.undo()  # the history came along
        assert larger.graph.define["sequence"] == own + 8 and not larger.placement.settings.pins
        larger.redo()
        assert state.with_sizes(larger.id, {"sequence": own}).id == first.id
        assert state.with_sizes(first.id, {"sequence": own + 8}).id == larger.id
        (link,) = [row for row in history_list(larger) if row._type == "A"]
        assert link.children == f"at sequence length {own}" and link.href == f"/d/{first.id}"
        larger.pin(first.placement.placed_ops[3:5].tolist(), "GPU")
        changed = state.with_sizes(larger.id, {"sequence": own})
        assert changed.id != first.id and len(changed.placement.settings.pins) == 5
    finally:
        state.jobs.close()


def test_sizes_that_fit_nowhere_open_with_a_plan_that_is_marked(tmp_path: Path) -> None:
    """The page refused them, so that nobody saw what lacks."""
    card = {"name": "Card", "backendName": "CUDA", "memory": "8MB"}
    rest = {"name": "CPU", "memory": "8MB"}
    state = AppState(Store(str(tmp_path / "ws")), JobService(), None, EXAMPLES)
    try:
        path = plain_decoder(tmp_path / "plain.onnx")
        sizes = {"batch": 1, "sequence_length": 1, "past_sequence_length": 64}
        first = state.open(OpenRequest(str(path), [card, rest], sizes))
        first.set_automatic("memory", {}, "minimal")
        longer = state.with_sizes(first.id, {"past_sequence_length": 20_000})
        assert longer.placement.settings.policy == "optimal"
        assert over_memory(longer)
        assert not moved_ops(longer.placement, first.placement.affinity), "the split is kept"
        said = str(verdict(longer))
        assert "'longest-context'" in said and "policy-memory" not in said, "it was just tried"
        assert state.greeting(longer.id).startswith("No plan fits within memory at these sizes: ")
        with state.tasks.begin(longer.id, "Looking") as task:
            longest = at_longest_context(state, longer, task)
        assert not longest.placement.settings.pins and not over_memory(longest)
        assert "Without the pins" not in state.greeting(longest.id), "the pins were not a person's"
        with pytest.raises(EditorError, match="does not fit into the memory"):
            longer.undo()  # to the policy that has no plan
        assert longer.placement.settings.policy == "optimal"
        between = state.with_sizes(longer.id, {"past_sequence_length": 65})
        assert between.placement.settings.policy == "memory", "it fits, so that is what was wanted"
        assert not between.placement.settings.pins
        assert "no plan fits" not in str(history_list(between)) and not over_memory(between)
        between.undo()
        assert between.placement.settings.policy == "priority"
        assert state.with_sizes(longer.id, {"past_sequence_length": 64}).id == first.id
    finally:
        state.jobs.close()


def test_sizes_that_the_model_cannot_have_are_a_row_with_the_reason_and_unknown_names_an_error(
    whisper: Graph,
) -> None:
    plan = editor.partition(whisper, "HETERO:CPU")
    good, bad = plan.at_sizes({"sequence": [8, 10_000]})  # there are 448 positions
    assert good.problem == "" and (
        bad.problem or bad.figures["predicted"] > good.figures["predicted"]
    )
    with pytest.raises(
        editor.EditorError, match="no dimension 'length' to choose; it has: batch, sequence"
    ):
        plan.at_sizes({"length": [1]})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no sizes"),
        ("sequence", "written as"),
        ("sequence=8,x", "written as"),
        ("sequence=-1", "written as"),
        ("a=" + ",".join(map(str, range(1, MOST_SIZES + 2))), "at most"),
    ],
)
def test_sizes_are_read_strictly(text: str, message: str) -> None:
    with pytest.raises(editor.EditorError, match=message):
        parse_sizes(text)
    assert parse_sizes("a=1,2,2 b=3") == [{"a": 1, "b": 3}, {"a": 2, "b": 3}]


def test_sizes_that_go_together_are_sets_of_their_own(whisper: Graph) -> None:
    text = "sequence=8 batch=1; sequence=64 batch=3; sequence=8 batch=1; batch=3"
    sets = parse_sizes(text)
    assert sets == [{"sequence": 8, "batch": 1}, {"sequence": 64, "batch": 3}, {"batch": 3}]
    plan = editor.partition(whisper, "HETERO:CPU")
    rows = plan.at_sizes(sets)
    own = whisper.define["sequence"]
    assert [dict(r.define) for r in rows] == [
        {"batch": b, "sequence": s} for s, b in ((8, 1), (64, 3), (own, 3))
    ]
    assert [words(r, names_of(sets)) for r in rows] == [
        f"sequence={s} batch={b}" for s, b in ((8, 1), (64, 3), (own, 3))
    ]
    with pytest.raises(editor.EditorError, match="25 combinations of sizes; at most 24"):
        parse_sizes(f"a={','.join(map(str, range(23)))}; b=1,2")


def test_the_command_prints_a_line_for_each_size_and_says_on_a_terminal_which_it_solves(
    tmp_path: Path,
    whisper: Graph,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = editor.partition(whisper, "HETERO:CPU").save(tmp_path / "plan.json")
    assert main(["sizes", str(plan), "sequence=8,16", "--json", str(tmp_path / "sizes.json")]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        "sizes",
        "sequence=8",
        "sequence=16",
    ]
    assert [
        row["define"]["sequence"] for row in json.loads((tmp_path / "sizes.json").read_text())
    ] == [8, 16]
    with monkeypatch.context() as terminal:
        terminal.setattr(sys.stderr, "isatty", lambda: True)
        assert main(["sizes", str(plan), "sequence=8,16"]) == 0
    said = [line for line in capsys.readouterr().err.split("\r\033[K") if line]
    assert said == ["1 of 2: sequence=8", "2 of 2: sequence=16"]


def test_a_comparison_of_sizes_ends_when_it_is_cancelled(whisper: Graph, tmp_path: Path) -> None:
    state, tasks = (
        AppState(Store(str(tmp_path / "ws")), JobService(), None, EXAMPLES),
        TaskRegistry(),
    )
    try:
        document = state.open(
            OpenRequest(str(whisper.path), "HETERO:CPU,GPU", dict(whisper.define))
        )
        with tasks.begin(document.id, "") as work, pytest.raises(Cancelled):
            tasks.cancel(document.id)
            state.at_sizes(document, "sequence=8,16", work)
        with pytest.raises(Cancelled):
            state.with_sizes(document.id, {"sequence": 16}, lambda: True)
        assert len(state.store.recent()) == 1, "nothing is kept of a change that was cancelled"
    finally:
        state.jobs.close()
