"""The prompt and the tokens of a language model are placed at their own sizes, and run where they were placed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import EXAMPLES, run
from decoders import fused_decoder, plain_decoder

import editor
from editor.execution.generation import Generator
from editor.graph.states import sizes_of_step
from editor.placement.device_profile import DeviceProfile, save_profile
from editor.placement.kept import with_affinity
from editor.workspace.phases import with_phase
from editor.workspace.plan import Plan

PROMPT = list(range(1, 14))


def table(compute: float, link: float = 1e9, memory: int | None = None) -> list[dict[str, object]]:
    """A processor with fast memory, and a card that computes faster and reads slower."""
    card: dict[str, object] = {
        "name": "Card",
        "backendName": "CPU",
        "peakCompute": compute,
        "peakDramBw": 1e9,
        "link": {"bandwidth": link, "latency": 1e-6},
    }
    if memory is not None:
        card["memory"] = memory
    host = {"name": "Host", "backendName": "CPU", "peakCompute": 1e9, "peakDramBw": 1e11}
    return [host, card]


def test_an_answer_is_the_prompt_and_its_tokens(tmp_path: Path) -> None:
    plan = editor.partition(plain_decoder(tmp_path / "plain.onnx"), table(1e13), "optimal")
    token, phases = plan.phases(256, 16)
    assert token.prompt is phases.prompt
    assert phases.prompt.graph.define["sequence_length"] == 256
    assert phases.prompt.graph.define["past_sequence_length"] == 0
    assert token.graph.define["sequence_length"] == 1
    assert token.graph.define["past_sequence_length"] == 256 + 14  # before the last token
    assert len(phases.choices) == 3
    for each in phases.choices:
        assert each.answer == pytest.approx(each.first_token + each.handover + 15 * each.token)
    assert phases.chosen.answer <= min(each.answer for each in phases.choices) * 1.02
    assert phases.basis.kind == "estimate"


@pytest.mark.parametrize("new", [1, 2])
def test_short_answers_have_one_step_of_a_token(tmp_path: Path, new: int) -> None:
    plan = editor.partition(plain_decoder(tmp_path / "plain.onnx"), table(1e13), "optimal")
    token, phases = plan.phases(256, new)
    assert token.graph.define["past_sequence_length"] == 256
    chosen = phases.chosen
    steps = (new - 1) * chosen.token
    assert chosen.answer == pytest.approx(chosen.first_token + chosen.handover + steps)


def test_two_placements_where_the_devices_are_good_at_different_phases(tmp_path: Path) -> None:
    plan = editor.partition(plain_decoder(tmp_path / "plain.onnx"), table(1e13), "optimal")
    phases = plan.phases(2048, 64)[1]
    assert phases.chosen.name == "a placement for each phase"
    assert phases.differ
    assert phases.chosen.handover > 0 or phases.chosen.extra_weights
    # Where the state cannot be brought over in time, one placement does both.
    slow = editor.partition(plain_decoder(tmp_path / "plain.onnx"), table(1e13, 1e3), "optimal")
    assert not slow.phases(2048, 64)[1].differ
    # Where the weights of the prompt do not fit, neither.
    small = editor.partition(
        plain_decoder(tmp_path / "plain.onnx"), table(1e13, memory=100_000), "optimal"
    )
    found = small.phases(2048, 64)[1]
    assert found.chosen.name == "one placement, best for the tokens"
    assert "Card has 100 kB and needs" in found.choices[-1].problem


def test_a_way_to_place_both_phases_becomes_a_plan_of_either_phase(tmp_path: Path) -> None:
    plan = editor.partition(plain_decoder(tmp_path / "plain.onnx"), table(1e13), "optimal")
    token, phases = plan.phases(2048, 64)
    assert list(phases.placements) == [each.name for each in phases.choices]
    for name, (prompt, tokens) in phases.placements.items():
        for now, wanted in ((phases.prompt, prompt), (phases.token, tokens)):
            used = with_phase(now, (prompt, tokens))
            assert used.op_counts == wanted.op_counts
            assert bool(used.settings.pins) == (now.op_counts != wanted.op_counts), name
    assert token.prompt is phases.prompt


def test_what_does_not_fit_names_memory_and_not_pins(tmp_path: Path) -> None:
    card = {"name": "Card", "backendName": "CUDA", "peakCompute": 1e13, "memory": 5_000_000}
    devices = [card, {"name": "CPU", "backendName": "CPU"}]
    plan = editor.partition(plain_decoder(tmp_path / "plain.onnx"), devices, "memory")
    phases = plan.phases(2048, 64)[1]
    problem = next(each.problem for each in phases.choices if each.problem)
    assert re.fullmatch(r"Card has 5 MB and needs [\d.]+ MB for the prompt", problem)
    assert [same for _, same in phases.rows] == [[], [], [], []]


def test_a_refusal_names_the_phase_that_does_not_fit(tmp_path: Path) -> None:
    """A plan was full "at about 1,547 tokens", and both phases with a prompt of 1,500 were refused without a word of it."""
    devices = [{"name": "A", "backendName": "CPU", "memory": 2_000_000}]
    plan = editor.partition(plain_decoder(tmp_path / "plain.onnx"), devices, "memory")
    with pytest.raises(editor.EditorError) as caught:
        plan.phases(400, 8)
    said = r"No placement was found for a prompt of 400 tokens at once and 8 tokens after it; a prompt of (\d+) tokens fits\. "
    found = re.match(
        rf"{said}The prompt \(400 tokens at once\) cannot be placed\. The ", str(caught.value)
    )
    assert found is not None and "A is over by" in str(caught.value)
    assert not plan.phases(int(found[1]), 8)[1].chosen.tight and 8 <= int(found[1]) < 400
    with pytest.raises(editor.EditorError, match=r"A token after 906 others cannot be placed\. "):
        plan.phases(8, 900)


def test_what_does_not_fit_by_a_policy_is_placed_within_memory(tmp_path: Path) -> None:
    """It was refused with the advice "the policy memory keeps within it"."""
    path = plain_decoder(tmp_path / "plain.onnx")
    whole = editor.partition(path, "HETERO:CPU").phases(8, 8)[0].run_memory.peaks["CPU"]
    devices = [{"name": name, "backendName": "CPU", "memory": 3 * whole // 4} for name in "AB"]
    plan = editor.partition(path, devices, "priority")
    token, phases = plan.phases(8, 8)
    assert phases.notes[0] == "Placed within memory, as by Priority it does not fit."
    assert phases.notes[1].startswith("No room for what runtimes add: about "), "it is small"
    assert phases.notes[0] in phases.text() and phases.to_dict()["notes"] == phases.notes
    assert phases.present.problem.startswith("A has ")
    for each in (phases.prompt, token.placement):
        assert max(each.run_memory.peaks.values()) <= 3 * whole // 4
    with pytest.raises(editor.EditorError) as caught:
        plan.phases(4000, 8)
    said = (
        "8 tokens after it, by Priority or by “Optimal within memory”; a shorter prompt or answer"
    )
    assert said in str(caught.value) and "The prompt (4,000 tokens" in str(caught.value)
    assert "is over by" in str(caught.value)


def test_all_seconds_are_of_one_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first token step had a profile and the last one none: their mean was lower for the present plan than for the best."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = plain_decoder(tmp_path / "plain.onnx")
    plan = editor.partition(path, "HETERO:CPU", "priority")
    assert plan.phases(127, 8)[1].notes == []
    estimated = plan.phases(127, 8)[1].present

    def profile(new: int, past: int) -> None:
        graph = editor.load_model(
            path, {**plan.graph.define, **sizes_of_step(plan.graph, new, past)}
        )
        seconds = dict.fromkeys(graph.op_keys, 1e-3)
        figures = DeviceProfile("x", 1.0, seconds, {}, (), 0, 0, 0, 0, 0, 1)
        save_profile(graph, plan.devices[0], figures)

    profile(1, 127)
    found = plan.phases(127, 8)[1]
    assert found.notes == [
        "Times are estimates: no profile of a prompt of 127 or a token after 133."
    ]
    assert (found.basis.kind, found.present.token) == ("estimate", estimated.token)
    profile(127, 0)
    profile(1, 133)
    found = plan.phases(127, 8)[1]
    assert (found.notes, found.basis.kind) == ([], "prediction")
    assert found.chosen.token > 100 * estimated.token


def test_the_present_plan_is_the_best_where_it_takes_least(tmp_path: Path) -> None:
    """One way was "best by estimate", and the row of the present plan had less."""
    devices = table(1e13)[::-1]  # the card comes first, and reads slower
    plan = editor.partition(plain_decoder(tmp_path / "plain.onnx"), devices, "priority")
    moved = with_affinity(plan.placement, dict.fromkeys(plan.affinity, "Host"), "a person")
    token, phases = Plan(replace(moved, settings=plan.settings)).phases(8, 32)
    assert phases.chosen is phases.present
    assert phases.chosen.answer < min(each.answer for each in phases.choices)
    assert token.placement.op_counts["Card"] == 0
    assert phases.text().splitlines()[0].endswith(f": {phases.present.text()}")
    assert phases.to_dict()["choices"][-1]["name"] == phases.to_dict()["chosen"]


def test_equal_placements_are_one_row(tmp_path: Path) -> None:
    plan = editor.partition(plain_decoder(tmp_path / "plain.onnx"), table(1e13), "priority")
    phases = plan.phases(64, 8)[1]
    ((_, same),) = phases.rows
    assert same == ["one placement, best for the prompt", "a placement for each phase"]
    assert "the same: one placement, best for the prompt" in phases.text()
    ((_, same),) = phases.rows_with_present
    assert same[-1] == "the present plan for both"


def test_the_present_plan_stands_beside_the_ways_where_it_takes_longer(tmp_path: Path) -> None:
    plan = editor.partition(plain_decoder(tmp_path / "plain.onnx"), table(1e13), "priority")
    free = plan.phases(64, 8)[1]
    key = plan.graph.op_keys[int(plan.placement.ops_on(plan.devices[0].name)[0])]
    moved = Plan(with_affinity(plan.placement, {key: plan.devices[1].name}, "a person"))
    found = moved.phases(64, 8)[1]
    present, same = found.rows_with_present[-1]
    assert (present.name, same) == ("the present plan for both", [])
    assert present not in found.choices
    assert found.chosen.answer == free.chosen.answer
    assert present.answer > free.chosen.answer  # it crosses from device to device


@pytest.mark.parametrize("kind", ["plain", "fused"])
def test_both_placements_run_and_give_the_tokens_of_the_unsplit_model(
    kind: str, tmp_path: Path
) -> None:
    path = plain_decoder(tmp_path / "plain.onnx") if kind == "plain" else fused_decoder(tmp_path)
    devices = [{"name": "A", "backendName": "CPU"}, {"name": "V", "backendName": "OpenVINO.CPU"}]
    plan = editor.partition(path, devices)
    whole = Generator.unsplit(plan.graph, plan.devices[0]).generate(PROMPT, 10)
    token = plan.phases(13, 10)[0]
    able = token.placement.constraints.able[:, 1]
    keys = [
        key
        for op, key in enumerate(token.graph.op_keys)
        if able[op] and not token.graph.op_is_constant[op]
    ]
    moved = editor.Plan(token.repin(dict.fromkeys(keys, "V")).placement, token.prompt)
    assert moved.subgraphs != token.subgraphs
    found = moved.generate(PROMPT, 10)
    assert found.tokens == whole.tokens
    assert np.allclose(np.array(found.logits), np.array(whole.logits), atol=1e-3)
    moved.save(tmp_path / "plan.json")
    again = editor.load_plan(tmp_path / "plan.json")
    assert again.prompt is not None
    assert again.prompt.affinity == moved.prompt.affinity  # type: ignore[union-attr]
    assert again.affinity == moved.affinity
    assert again.generate(PROMPT, 10).tokens == whole.tokens


def test_the_command_line_places_and_measures_phases(tmp_path: Path) -> None:
    plain_decoder(tmp_path / "plain.onnx")
    done = run(
        *("partition", "plain.onnx", "--devices", "HETERO:CPU,OpenVINO.CPU", "--policy", "optimal"),
        *("--phases", "prompt=32,new=8", "--out", "out"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "Prompt of 32 tokens, 8 new at 32 to 38 tokens of context (estimate):" in done.stdout
    stored = json.loads((tmp_path / "out" / "plan.json").read_text())
    assert stored["prompt"]["define"]["sequence_length"] == 32
    done = run("bench", "out/plan.json", "--generate", "prompt=32,new=8", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "within tolerance" in done.stdout
    done = run(
        *(
            "partition",
            EXAMPLES / "models" / "mobilenetv2.onnx",
            "--devices",
            "HETERO:CPU",
            "--phases",
        ),
        *("--out", "other"),
        cwd=tmp_path,
    )
    assert done.returncode == 1
    assert "no state with an open size" in done.stderr
    damaged = {**stored, "prompt": {"define": 3}}
    (tmp_path / "out" / "bad.json").write_text(json.dumps(damaged))
    with pytest.raises(editor.PlanError, match="damaged plan"):
        editor.load_plan(tmp_path / "out" / "bad.json")


def test_seconds_on_an_assumed_speed_are_rough(tmp_path: Path) -> None:
    devices = table(1e13)
    path = plain_decoder(tmp_path / "plain.onnx")
    stated = editor.partition(path, devices, "optimal").phases(64, 8)[1].text()
    assert "about" not in stated
    del devices[1]["peakDramBw"]
    first = {"policy_options": {"first": "Card"}}
    text = editor.partition(path, devices, "priority", **first).phases(64, 8)[1].text()
    times = re.findall(r"[\d.]+ [mµ]?s\b", text)
    assert (
        len(re.findall(r"about (?:[1-9]\d?0?|[1-9]\.[1-9]) [mµ]?s\b", text)) == len(times) >= 2
    ), text


def test_one_placement_leaves_room_for_either_phase(tmp_path: Path) -> None:
    """What each phase would have did not fit for the other one, and the weights of both did not fit together."""
    make = [sys.executable, str(EXAMPLES / "language-model" / "make.py"), str(tmp_path)]
    subprocess.run([*make, "--layers", "4", "--hidden", "128"], check=True, capture_output=True)
    plan = editor.partition(
        tmp_path / "model.onnx",
        [
            *({"name": f"GPU.{i}", "backendName": "GPU", "memory": "4.3MB"} for i in range(2)),
            {"name": "CPU"},
        ],
        "memory",
    )
    _, phases = plan.phases(256, 64)
    problems = {each.name: each.problem for each in phases.choices}
    assert (
        problems["one placement, best for the prompt"]
        or problems["one placement, best for the tokens"]
    )
    assert not problems["one placement, within memory for both"]
    for name, pair in phases.placements.items():
        for placement in pair:
            peaks = placement.run_memory.peaks
            assert all(d.memory is None or peaks[d.name] <= d.memory for d in placement.devices), (
                name
            )
    both = phases.placements["one placement, within memory for both"]
    assert both[0].affinity == both[1].affinity
