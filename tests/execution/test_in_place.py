"""Steps that are measured add to their caches where they lie, as in generation; steps that a user runs do not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from decoders import fused_decoder, plain_decoder

import editor
from editor.execution.executor import compile_placement, compile_whole
from editor.execution.generation import given_to, in_place
from editor.execution.invented_inputs import random_inputs
from editor.execution.measure.benchmark import Benchmark
from editor.execution.measure.profile import profile_all
from editor.execution.measure.turns import Contender
from editor.graph.states import sizes_of_step, states_of
from editor.runtimes.onnxruntime.values import to_ort
from editor.runtimes.registry import runtime_of

TABLE = [
    {"name": "A", "backendName": "CPU"},
    {"name": "B", "backendName": "CPU"},
    {"name": "V", "backendName": "OpenVINO.CPU"},
]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def step_of(path: Path, table: Any, new: int = 1, past: int = 12) -> editor.Plan:
    """The plan of a step of some tokens after others, its last attention on the second device."""
    graph = editor.load_model(path)
    graph = editor.load_model(path, {**graph.define, "batch": 1, **sizes_of_step(graph, new, past)})
    last = [key for key in graph.op_keys if key in ("attention_1", "present.1.key")]
    return editor.partition(graph, table, pins=dict.fromkeys(last, table[-1]["name"]))


def assert_same(some: dict[str, Any], others: dict[str, Any]) -> None:
    assert some.keys() == others.keys()
    for name, value in some.items():
        assert np.array_equal(value, others[name]), name


@pytest.mark.parametrize("sizes", [(1, 12), (3, 5), (8, 0)])
@pytest.mark.parametrize("devices", [1, 2])
def test_a_step_in_place_returns_what_a_run_returns_and_copies_no_cache(
    sizes: tuple[int, int], devices: int, tmp_path: Path
) -> None:
    plan = step_of(fused_decoder(tmp_path), TABLE[:devices], *sizes)
    assert {s.device for s in plan.subgraphs} == {d["name"] for d in TABLE[:devices]}
    values, compiled = random_inputs(plan.graph), compile_placement(plan.placement)
    expected, memory = compiled.run(values), compiled.run(values)
    step = in_place(compiled, memory)
    states = [state.output for state in states_of(plan.graph)]
    assert len(states) == 4
    for name in states:
        memory[name][:, :, sizes[1] :] = np.nan  # what a run adds
    for _ in range(3):
        found, times = step.run_timed(values)
        assert_same(found, expected)
        assert times.total > 0
        for name in states:
            assert found[name] is memory[name], "no copy, and the memory that was read"
    assert not np.shares_memory(found["logits"], step.run(values)["logits"])
    captured = step.capture(values, states)
    assert_same(captured, {name: expected[name] for name in states})


def test_a_run_that_is_given_its_outputs_writes_the_caches_there(tmp_path: Path) -> None:
    """As on GPUs, where runs are queued: inputs and outputs go to each run, and the caches are both."""
    plan = step_of(fused_decoder(tmp_path), TABLE[:1])
    values, compiled = random_inputs(plan.graph), compile_placement(plan.placement)
    expected, memory = compiled.run(values), compiled.run(values)
    (step,) = compiled.steps
    names = step.executable.growing()
    assert len(names) == 4
    run = step.executable._growing_run({name: to_ort(memory[names[name]]) for name in names})
    others = [values[name] for name in step.submodel.inputs if name not in names]
    for name in names.values():
        memory[name][:, :, 12:] = np.nan  # what a run adds
    for _ in range(2):
        (logits,) = run(others)
        assert_same(memory | {"logits": logits.numpy()}, expected)


def test_clones_of_a_step_in_place_have_caches_of_their_own(tmp_path: Path) -> None:
    plan = step_of(fused_decoder(tmp_path), TABLE[:1])
    values, compiled = random_inputs(plan.graph), compile_placement(plan.placement)
    expected = compiled.run(values)
    step = in_place(compiled, compiled.run(values))
    other = step.clone()
    mine, theirs = step.run(values), other.run(values)
    assert_same(mine, expected)
    assert_same(theirs, expected)
    for state in states_of(plan.graph):
        assert not np.shares_memory(mine[state.output], theirs[state.output])
        assert other.run(values)[state.output] is theirs[state.output]


def test_results_of_a_run_outlive_later_runs(tmp_path: Path) -> None:
    plan = step_of(fused_decoder(tmp_path), TABLE[:1])
    values, compiled = random_inputs(plan.graph), compile_placement(plan.placement)
    first = compiled.run(values)
    before = {name: value.copy() for name, value in first.items()}
    given = {name: np.array(value) for name, value in values.items()}
    in_place(compiled, compiled.run(values)).run(values)
    others = random_inputs(plan.graph, seed=1)
    second = compiled.run(others)
    assert_same(first, before)
    assert_same(dict(values), given)
    for state in states_of(plan.graph):
        assert not np.array_equal(second[state.output], before[state.output])
        assert np.array_equal(second[state.output][:, :, :12], others[state.input])


@pytest.mark.parametrize("kind", ["plain", "OpenVINO"])
def test_what_cannot_grow_runs_as_before(kind: str, tmp_path: Path) -> None:
    path = plain_decoder(tmp_path / "plain.onnx")
    plan = step_of(path, TABLE[:2] if kind == "plain" else TABLE[2:])
    compiled = compile_placement(plan.placement)
    assert in_place(compiled, compiled.run(random_inputs(plan.graph))) is compiled


def test_a_cache_longer_than_the_step_is_refused(tmp_path: Path) -> None:
    """ONNX Runtime is not told how long caches are, so that they may have room."""
    plan = step_of(fused_decoder(tmp_path), TABLE[:1])
    values = dict(random_inputs(plan.graph))
    (name, *_) = [state.input for state in states_of(plan.graph)]
    values[name] = np.zeros((*values[name].shape[:2], 13, values[name].shape[3]), np.float32)
    with pytest.raises(editor.EditorError, match=name):
        compile_whole(plan.graph, plan.devices[0]).run(values)


def test_the_profiler_adds_to_caches_that_have_room(tmp_path: Path) -> None:
    plan = step_of(fused_decoder(tmp_path), TABLE[:1])
    values = random_inputs(plan.graph)
    compiled = compile_placement(plan.placement, as_cut=True, keep_weights=True)
    expected, memory = compiled.run(values), compiled.run(values)
    (step,) = in_place(compiled, memory).steps
    for state in states_of(plan.graph):
        memory[state.output][:, :, 12:] = np.nan
    written = step.submodel.model.SerializeToString()
    times = runtime_of(step.runs_on.runtime).profile(
        plan.graph, step.submodel, step.runs_on, given_to(step, values), 0.01, 0
    )
    assert "GroupQueryAttention" in {each.type for each in times}
    for state in states_of(plan.graph):
        assert np.allclose(memory[state.output], expected[state.output], atol=1e-5)
    assert step.submodel.model.SerializeToString() == written


def test_a_profile_of_a_step_has_all_its_ops(tmp_path: Path) -> None:
    plan = step_of(fused_decoder(tmp_path), TABLE[:1])
    (profile,) = profile_all(plan.graph, plan.devices, 0.2).values()
    assert not isinstance(profile, str), profile
    assert profile.seconds.keys() >= {plan.graph.op_keys[op] for op in plan.placement.placed_ops}
    assert "GroupQueryAttention" in profile.kernels


class Seen(Benchmark):
    """Shows what is measured."""

    seen: Sequence[Contender] = ()

    def _measure_latency(self, contenders: Sequence[Contender]) -> None:
        self.seen = contenders
        super()._measure_latency(contenders)

    def _measure_throughput(self, contenders: Sequence[Contender]) -> None:
        self.seen = contenders
        super()._measure_throughput(contenders)


@pytest.mark.parametrize("mode", ["latency", "throughput"])
def test_a_benchmark_measures_steps_in_place_and_compares_their_states(
    mode: str, tmp_path: Path
) -> None:
    plan = step_of(fused_decoder(tmp_path), TABLE[:2])
    benchmark = Seen({"plan": plan.placement}, 0.2, mode, 2)
    (result,) = benchmark.run()
    assert result.difference is not None
    assert result.difference.within_tolerance
    states = [state.output for state in states_of(plan.graph)]
    assert {o.name for o in result.difference.outputs} == {"logits", *states}
    assert result.runs > 0
    assert benchmark.seen
    for contender in benchmark.seen:
        first, second = (contender.compiled.run(benchmark.inputs) for _ in range(2))
        assert_same(first, second)
        assert all(first[name] is second[name] for name in states), contender.name
