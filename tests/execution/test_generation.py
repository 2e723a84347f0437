"""Models with a cache generate over any cut as they do unsplit, and as the whole sequence at once."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from conftest import python, run, save_net
from decoders import BUILDER_KINDS, HEADS, VOCABULARY, fused_decoder, plain_decoder
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

import editor
from editor.execution.compiled_plan import Arrival
from editor.execution.generation import Generator, computed_later
from editor.execution.measure.tokens import measure_tokens
from editor.graph.states import parse_lengths, states_of
from editor.placement.state_memory import extra_weights, state_memory

THREE = [
    {"name": "A", "backendName": "CPU"},
    {"name": "B", "backendName": "CPU"},
    {"name": "V", "backendName": "OpenVINO.CPU"},
]
PROMPT, NEW = list(range(1, 14)), 12


def make(kind: str, folder: Path) -> Path:
    return plain_decoder(folder / "plain.onnx") if kind == "plain" else fused_decoder(folder)


def at_once(path: Path, tokens: list[int]) -> Any:
    """[token] logits of the whole sequence in one run of ONNX Runtime."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    feeds: dict[str, Any] = {
        "input_ids": np.array([tokens]),
        "attention_mask": np.ones((1, len(tokens)), np.int64),
    }
    feeds |= {
        value.name: np.zeros((1, value.shape[1], 0, value.shape[3]), np.float32)
        for value in session.get_inputs()
        if value.name.startswith("past")
    }
    return session.run(["logits"], feeds)[0][0]


@pytest.mark.parametrize("kind", ["plain", "fused"])
@pytest.mark.parametrize("other", ["B", "V"])
def test_every_cut_generates_what_the_whole_model_computes(
    kind: str, other: str, tmp_path: Path
) -> None:
    path = make(kind, tmp_path)
    plan = editor.partition(path, THREE)
    graph = plan.graph
    whole = Generator.unsplit(graph, plan.devices[0]).generate(PROMPT, NEW)
    expected = at_once(path, [*PROMPT, *whole.tokens[:-1]])[len(PROMPT) - 1 :]
    assert np.allclose(np.array(whole.logits), expected, atol=1e-4)
    assert whole.tokens == tuple(expected.argmax(axis=-1).tolist())
    able = plan.placement.constraints.able[:, [d.name for d in plan.devices].index(other)]
    keys = [k for op, k in enumerate(graph.op_keys) if not graph.op_is_constant[op] and able[op]]
    for start in range(1, len(keys), 3):
        split = plan.repin(dict.fromkeys(keys[start : start + 9], other))
        assert len(split.subgraphs) > 1
        found = Generator.of(split.placement).generate(PROMPT, NEW, follow=whole.tokens)
        assert np.allclose(np.array(found.logits), expected, atol=1e-3), keys[start]


def test_the_state_is_known_by_names_by_the_config_and_by_hand(tmp_path: Path) -> None:
    plain = editor.partition(plain_decoder(tmp_path / "plain.onnx"), "HETERO:CPU").graph
    states = states_of(plain)
    assert [(s.output, s.input) for s in states[:2]] == [
        ("present.0.key", "past_key_values.0.key"),
        ("present.0.value", "past_key_values.0.value"),
    ]
    assert {(s.axis, s.source) for s in states} == {(2, "names")}
    given = states_of(plain, {"present.1.key": "past_key_values.0.key"})
    assert (given[0].output, given[0].source) == ("present.1.key", "given")
    with pytest.raises(editor.ModelError, match="no output 'nothing'"):
        states_of(plain, {"nothing": "past_key_values.0.key"})
    with pytest.raises(editor.ModelError, match="they cannot be one state"):
        states_of(plain, {"logits": "past_key_values.0.key"})
    fused = editor.partition(fused_decoder(tmp_path), "HETERO:CPU").graph
    assert {s.source for s in states_of(fused)} == {"genai_config.json"}
    config = json.loads((tmp_path / "genai_config.json").read_text())
    config["model"]["decoder"]["outputs"]["present_key_names"] = "gone.%d.key"
    (tmp_path / "genai_config.json").write_text(json.dumps(config))
    with pytest.raises(editor.ModelError, match=r"no output 'gone\.0\.key'"):
        states_of(fused)


def test_a_plan_generates_and_its_file_names_the_state(tmp_path: Path) -> None:
    plan = editor.partition(plain_decoder(tmp_path / "plain.onnx"), THREE)
    found = plan.generate(PROMPT, 5)
    assert (len(found.tokens), found.prompt, len(found.seconds)) == (5, len(PROMPT), 4)
    assert found.first_token > 0
    assert found.tokens_per_second > 0
    again = plan.generate({"input_ids": np.array([PROMPT])}, 5)
    assert again.tokens == found.tokens
    assert all(np.array_equal(a, b) for a, b in zip(found.logits, again.logits, strict=True))
    plan.save(tmp_path / "plan.json")
    stored = json.loads((tmp_path / "plan.json").read_text())
    assert stored["state"][0] == {
        "output": "present.0.key",
        "input": "past_key_values.0.key",
        "axis": 2,
        "source": "names",
    }
    with pytest.raises(editor.ExecutionError, match="whole numbers"):
        plan.generate([0.5], 2)
    with pytest.raises(editor.EditorError, match="new tokens"):
        plan.generate(PROMPT, 0)


def test_a_state_of_fixed_size_begins_as_zeros(tmp_path: Path) -> None:
    """A running sum of embeddings, as a recurrent network has it; the model takes one token in each step."""
    info = helper.make_tensor_value_info
    table = np.random.default_rng(0).standard_normal((9, 4)).astype(np.float32)
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["x"]),
        helper.make_node("ReduceSum", ["x", "axes"], ["now"], keepdims=0),
        helper.make_node("Add", ["past_state", "now"], ["present_state"]),
        helper.make_node("MatMul", ["present_state", "turned"], ["logits"]),
    ]
    save_net(
        tmp_path / "rnn.onnx",
        nodes,
        [
            info("input_ids", TensorProto.INT64, [1, 1]),
            info("past_state", TensorProto.FLOAT, [1, 4]),
        ],
        [
            info("logits", TensorProto.FLOAT, [1, 9]),
            info("present_state", TensorProto.FLOAT, [1, 4]),
        ],
        [
            onnx.numpy_helper.from_array(table, "table"),
            onnx.numpy_helper.from_array(np.ascontiguousarray(table.T), "turned"),
            onnx.numpy_helper.from_array(np.array([1]), "axes"),
        ],
        name="rnn",
        ir_version=9,
    )
    plan = editor.partition(tmp_path / "rnn.onnx", THREE, pins={"logits": "V"})
    found = plan.generate([3, 5, 8], 4)
    total = table[[3, 5, 8]].sum(axis=0)
    for token, logits in zip(found.tokens, found.logits, strict=True):
        assert np.allclose(logits, table @ total, atol=1e-5)
        assert token == int(np.argmax(logits))
        total = total + table[token]


def test_a_benchmark_of_tokens_compares_with_the_unsplit_model(tmp_path: Path) -> None:
    plan = editor.partition(plain_decoder(tmp_path / "plain.onnx"), THREE)
    plan = plan.repin({"present.1.key": "B", "present.1.value": "B", "logits": "V"})
    result = measure_tokens("plan", plan.placement, 16, 9)
    assert result.within_tolerance
    assert {each.name for each in result.unsplit} == {
        "unsplit on A",
        "unsplit on B",
        "unsplit on V",
    }
    assert result.figures.token.count == 3 * 8
    assert [context for context, _ in result.figures.by_context] == [16, 18, 20, 22]
    parts = result.figures.by_subgraph
    assert len(parts) == len(plan.subgraphs) > 1 and all(parts)
    assert sum(parts) < 2 * result.figures.token.median, "medians hardly add up, but of one token"
    assert not result.simulated
    assert result.figures.tokens_per_second == pytest.approx(1 / result.figures.token.median)
    turned = editor.partition(plan.graph, [THREE[2], THREE[0]])
    assert measure_tokens("turned", turned.placement, 4, 3).reference == "A", "not itself"
    several = measure_tokens("plan", plan.placement, 4, 3, sequences=3)
    assert not several.figures.by_subgraph, "they hold each other up"
    assert several.figures.token.count == 3 * 3 * 2
    assert several.within_tolerance
    document = result.to_dict()
    assert json.loads(json.dumps(document))["figures"]["tokens_per_second"] > 0
    (tmp_path / "tokens.json").write_text(json.dumps([result.to_dict()]))
    (report,) = plan.export("md", tmp_path / "out", measured=str(tmp_path / "tokens.json"))
    said = r"a token \(measured, .+ to .+ with 95 %(, noisy)?; prompt of 16 tokens, 9 new\)\."
    assert re.search(said, report.read_text())
    whole = editor.partition(plan.graph, THREE[2:])
    alone = measure_tokens("plan", whole.placement, 4, 3)
    assert {alone.against(each) for each in alone.unsplit} == {"the same, measured once more"}


def test_a_run_beyond_the_context_that_fits_says_so(tmp_path: Path) -> None:
    model = plain_decoder(tmp_path / "plain.onnx")
    need = editor.partition(model, THREE[:1]).placement.run_memory.peaks["A"]
    small = editor.partition(model, [{**THREE[0], "memory": need + 4096}])
    (state,) = state_memory(small.placement)
    assert state.fits_until is not None
    beyond = measure_tokens("plan", small.placement, state.fits_until, 4)
    assert beyond.full_at == (("A", state.fits_until),)
    said = f"The memory of A is full at about {state.fits_until:,} tokens (estimate); this run goes to "
    assert f"{said}{state.fits_until + 2:,}" in beyond.text()
    assert not measure_tokens("plan", small.placement, 4, 3).full_at


def test_planned_devices_are_simulated_and_the_benchmark_says_so(tmp_path: Path) -> None:
    plan = editor.partition(plain_decoder(tmp_path / "plain.onnx"), "HETERO:NPU,CPU")
    result = measure_tokens("plan", plan.placement, 4, 3)
    assert result.simulated
    first, setting, *_ = result.text().splitlines()
    assert "says nothing about their speed" in first
    assert "(simulated)" in setting
    assert "plan: first token" not in result.text() and "  after " not in result.text()
    assert "slower" not in result.text() and "faster" not in result.text()


def test_the_command_line_measures_tokens(tmp_path: Path) -> None:
    fused_decoder(tmp_path)
    done = run("partition", "model.onnx", "--devices", "HETERO:CPU", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = run(
        *("bench", "out/plan.json", "--generate", "prompt=8,new=6", "--json", "tokens.json"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "4 states kept on the devices" in done.stdout
    assert "within tolerance" in done.stdout
    (stored,) = json.loads((tmp_path / "tokens.json").read_text())
    assert (stored["prompt"], stored["new"], stored["kind"]) == (8, 6, "measured")
    done = run("bench", "out/plan.json", "--generate", "64", cwd=tmp_path)
    assert done.returncode == 1
    assert "write prompt=512,new=64" in done.stderr


@pytest.mark.parametrize("text", ["", "prompt=5", "prompt=0,new=1", "new=x,prompt=2"])
def test_lengths_have_one_form(text: str) -> None:
    with pytest.raises(editor.ModelError, match="--phases.*prompt=512"):
        parse_lengths(text, "--phases")


def test_what_cannot_generate_says_why(tmp_path: Path) -> None:
    from conftest import EXAMPLES

    plan = editor.partition(EXAMPLES / "models" / "mobilenetv2.onnx", "HETERO:CPU")
    with pytest.raises(editor.ExecutionError, match="--state"):
        plan.generate([1], 1)
    path = plain_decoder(tmp_path / "plain.onnx")
    model = onnx.load(path)
    model.graph.input.append(helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, HEADS]))
    model.graph.node.append(helper.make_node("Identity", ["image"], ["copy"]))
    model.graph.output.append(helper.make_tensor_value_info("copy", TensorProto.FLOAT, [1, HEADS]))
    onnx.save(model, path)
    plan = editor.partition(path, "HETERO:CPU")
    with pytest.raises(editor.ExecutionError, match="'image' is neither a token"):
        plan.generate([1], 1)
    found = plan.generate([1], 2, inputs={"image": np.ones((1, HEADS), np.float32)})
    assert all(0 <= token < VOCABULARY for token in found.tokens)


def test_a_sequence_ends_where_it_is_stopped(tmp_path: Path) -> None:
    plan = editor.partition(plain_decoder(tmp_path / "plain.onnx"), "HETERO:CPU")
    runner = Generator.of(plan.placement)
    asked: list[int] = []

    def stop() -> bool:
        asked.append(1)
        return len(asked) > 3

    cut: Callable[[], bool] = stop
    assert len(runner.generate(PROMPT, 50, should_stop=cut).tokens) == 3


@pytest.mark.parametrize("kind", BUILDER_KINDS)
def test_the_folder_for_genai_gives_the_same_tokens(kind: str, tmp_path: Path) -> None:
    """The whole model in onnxruntime-genai, the parts in it, and the editor's own loop."""
    genai = pytest.importorskip("onnxruntime_genai")
    fused_decoder(tmp_path, kind=kind)
    plan = editor.partition(tmp_path / "model.onnx", THREE)
    graph = plan.graph
    keys = [key for op, key in enumerate(graph.op_keys) if not graph.op_is_constant[op]]
    plan = plan.repin(dict.fromkeys(keys[9:], "B"))
    written = plan.export("genai", tmp_path / "out")
    assert [file.name for file in written] == [
        "part_0.onnx",
        "part_1.onnx",
        "genai_config.json",
        "README.md",
        "tokenizer.json",
    ]

    def tokens(folder: Path) -> tuple[int, ...]:
        model = genai.Model(str(folder))
        settings = genai.GeneratorParams(model)
        settings.set_search_options(max_length=len(PROMPT) + 32, do_sample=False)
        generator = genai.Generator(model, settings)
        generator.append_tokens([PROMPT])
        found: list[int] = []
        while len(found) < 32 and not generator.is_done():
            generator.generate_next_token()
            found.append(int(generator.get_next_tokens()[0]))
        return tuple(found)

    whole = tokens(tmp_path)
    assert tokens(tmp_path / "out") == whole
    assert plan.generate(PROMPT, len(whole)).tokens == whole
    first = editor.partition(graph, THREE)
    phased = editor.Plan(plan.placement, first.placement)
    names = [file.name for file in phased.export("genai", tmp_path / "phases")]
    assert names[:3] == ["prompt_0.onnx", "part_0.onnx", "part_1.onnx"]
    assert tokens(tmp_path / "phases") == whole
    # What both phases have alike is written once, and its weights are counted once.
    three = first.repin(dict.fromkeys(keys[9:], "B") | dict.fromkeys(keys[-3:], "A"))
    phased = editor.Plan(plan.placement, three.placement)
    written = phased.export("genai", tmp_path / "shared")
    names = [file.name for file in written if file.suffix == ".onnx"]
    assert names == ["part_0.onnx", "prompt_1.onnx", "prompt_2.onnx", "part_1.onnx"]
    config = json.loads((tmp_path / "shared" / "genai_config.json").read_text())
    stages = [stage for (stage,) in map(dict.values, config["model"]["decoder"]["pipeline"])]
    runs = [(stage["run_on_prompt"], stage["run_on_token_gen"]) for stage in stages]
    assert runs == [(True, True), (True, False), (True, False), (False, True)]
    assert tokens(tmp_path / "shared") == whole
    extra = extra_weights(three.placement, plan.placement)
    held = {s.device: s.memory.constants for s in three.placement.subgraphs[1:]}
    assert extra == pytest.approx(held, rel=1e-3), "each session holds the weights of its own"
    plain = editor.partition(plain_decoder(tmp_path / "other" / "plain.onnx"), "HETERO:CPU")
    with pytest.raises(editor.ExportError, match=r"no genai_config\.json"):
        plain.export("genai", tmp_path / "none")


def test_a_prompt_keeps_nothing_and_says_nothing_of_it(tmp_path: Path) -> None:
    """It said "keeps 8 states: 0 B at 0 tokens, 0 B for each further one"."""
    from editor.placement.state_memory import state_memory

    path = fused_decoder(tmp_path)
    sizes = {"past_sequence_length": 0, "sequence_length": 8, "total_sequence_length": 8}
    plan = editor.partition(editor.load_model(path, sizes), "HETERO:CPU")
    assert state_memory(plan.placement) == []


def test_a_context_says_what_the_state_takes_and_when_it_is_full(tmp_path: Path) -> None:
    from decoders import LAYERS, SIZE

    from editor.graph.states import sizes_at_context
    from editor.placement.state_memory import state_memory

    path = fused_decoder(tmp_path)
    closed = editor.load_model(path)
    assert sizes_at_context(closed, 400) == {
        "past_sequence_length": 399,
        "sequence_length": 1,
        "total_sequence_length": 400,
    }
    with pytest.raises(editor.ModelError, match="a step has 8 tokens"):
        sizes_at_context(editor.load_model(path, {"sequence_length": 8}), 4)
    (tmp_path / "two.yaml").write_text(
        "- {name: A, backendName: CPU, memory: 4MB}\n- {name: B, backendName: CPU}\n"
    )
    done = run(
        *("partition", "model.onnx", "--devices", "two.yaml", "--out", "out"),
        *("--context", "400", "--pin", "attention_1=B"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    plan = editor.load_plan(tmp_path / "out" / "plan.json")
    first, second = state_memory(plan.placement)
    each = 2 * 2 * SIZE * 4  # key and value, two heads, float32
    assert (first.device, first.states, first.bytes_per_token) == ("A", 2 * (LAYERS - 1), each)
    assert (first.bytes, first.context) == (399 * each, 399)
    assert first.fits_until is not None
    assert second.fits_until is None
    left = 4_000_000 - plan.run_memory.peaks["A"]
    assert first.fits_until == 399 + left // (2 * each)
    assert "its memory is full at about" in done.stdout
    peak, graph = plan.run_memory.peaks["A"], plan.graph
    table = [
        {"name": "A", "backendName": "CPU", "memory": str(peak)},
        {"name": "B", "backendName": "CPU"},
    ]
    tight = editor.partition(graph, table, pins=plan.pins).placement
    assert state_memory(tight)[0].fits_until == 399, "a plan that fits does so at its own context"
    with pytest.raises(editor.ModelError, match="no state with an open size"):
        from conftest import EXAMPLES

        sizes_at_context(editor.load_model(EXAMPLES / "models" / "resnet50.onnx"), 5)


def test_exported_parts_with_open_sizes_run_at_any_size(tmp_path: Path) -> None:
    import onnxruntime

    path = plain_decoder(tmp_path / "plain.onnx")
    plan = editor.partition(path, THREE)
    graph = plan.graph
    keys = [key for op, key in enumerate(graph.op_keys) if not graph.op_is_constant[op]]
    split = plan.repin(dict.fromkeys(keys[20:], "B"))
    split.export("split", tmp_path / "out", sizes="open")
    whole = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for tokens, past in ((7, 0), (1, 9)):
        feeds = {
            value.name: np.random.default_rng(past).standard_normal((1, HEADS, past, 16))
            for value in whole.get_inputs()[2:]
        }
        feeds = {name: value.astype(np.float32) for name, value in feeds.items()} | {
            "input_ids": np.arange(tokens)[None],
            "attention_mask": np.ones((1, tokens + past), np.int64),
        }
        np.savez(tmp_path / "in.npz", **feeds)
        done = python("run.py", tmp_path / "in.npz", tmp_path / "out.npz", cwd=tmp_path / "out")
        assert done.returncode == 0, done.stderr
        (expected,) = whole.run(["logits"], feeds)
        assert np.allclose(np.load(tmp_path / "out.npz")["logits"], expected, atol=1e-4)


@given(st.lists(st.tuples(st.integers(0, 2), st.sets(st.integers(0, 7))), min_size=1, max_size=8))
def test_the_logits_come_after_all_that_they_depend_on(plan: list[tuple[int, set[int]]]) -> None:
    """Against the closure of "a device computes in order" and "a step waits for what it reads"."""
    devices = [device for device, _ in plan]
    arrivals = [
        [Arrival(0, j, True, True) for j in reads if j < i and devices[j] != devices[i]]
        for i, (_, reads) in enumerate(plan)
    ]
    logits = len(plan) // 2
    done, waiting = set[int](), [logits]
    while waiting:
        i = waiting.pop()
        if i not in done:
            done.add(i)
            waiting += [j for j in range(i) if devices[j] == devices[i]]
            waiting += [arrival.source for arrival in arrivals[i]]
    later = [i for i in range(len(plan)) if arrivals[i] and i not in done]
    assert computed_later([str(d) for d in devices], arrivals, logits) == later
