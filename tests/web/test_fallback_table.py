"""A rule of a row of the fallbacks says how many ops it is for, where these are more than the row has."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from conftest import EXAMPLES, write_dag
from decoders import plain_decoder

import editor
from editor.devices.table import load_devices
from editor.graph.graph import Graph
from editor.graph.proposed_sizes import proposed_sizes
from editor.placement.fallbacks import Hint, without_room
from editor.placement.placement import Settings
from editor.placement.rules import parse_rules
from editor.placement.run_memory import weight_bytes
from editor.runtimes.base import Capability
from editor.text import in_words, pluralize
from editor.web.drawing.ribbon import ribbon_of
from editor.web.panels.compare import _reasons
from editor.web.panels.fallback_table import fallbacks_view
from editor.web.panels.no_room import left_out
from editor.web.panels.parts import condition_title
from editor.web.panels.suggestions import hints_view, layout_of_policy, layout_to_suggest
from editor.web.rule_rows import rules_data
from editor.web.view import figures_of, op_costs
from editor.workspace.document import Document
from editor.workspace.history import Store
from editor.workspace.layouts import differing
from editor.workspace.solver import Solver, first_decisions

TABLE = [{"name": "A", "backendName": "CPU"}, {"name": "B", "backendName": "CPU"}]


def test_a_rule_says_how_many_ops_it_is_for_where_some_of_them_did_not_fall_back(
    tmp_path: Path,
) -> None:
    graph = editor.load_model(
        write_dag(tmp_path / "dag.onnx", [[], [0], [1], [2, 0]])
    )  # three Neg and a Sum
    store = Store(str(tmp_path))
    decisions = first_decisions(Settings(), [d.entry for d in load_devices(TABLE)])
    record = store.create("m", str(graph.path), graph.sha256, {}, decisions)
    able = Capability.of_reasons(["", "cannot do this one", "", "nor sums"])
    document = Document(
        store, record, Solver(graph, decisions, {"A": able, "B": Capability.everything(graph)})
    )
    text = str(fallbacks_view(document))
    assert "'Rule for all 3 Neg'" in text
    assert "Sends all 3 Neg to B, whatever the policy: 1 of them falls back" in text
    assert "Sends the only Sum" not in text, "it may run nowhere else"
    document.paint(range(4), 1)
    text = str(fallbacks_view(document))
    assert "No automatic fallbacks: 4 ops are elsewhere" in text
    assert "A, the first device, cannot run 2 of them" in text, (
        "a pin does not make the device able"
    )


@pytest.mark.parametrize(
    ("policy", "excluded", "said"),
    [
        ("priority", "", "2 of them off their preferred device"),
        ("optimal", "", "2 of them cannot run on A"),
        ("optimal", "Neg", "2 of them excluded from A"),
    ],
)
def test_a_device_is_preferred_by_the_policy_that_prefers_one(
    policy: str, excluded: str, said: str, tmp_path: Path
) -> None:
    graph = editor.load_model(write_dag(tmp_path / "dag.onnx", [[], [0]]))
    store = Store(str(tmp_path))
    table = [{**TABLE[0], "nonSupportedNodes": excluded}, *TABLE[1:]]
    decisions = first_decisions(Settings(policy), [d.entry for d in load_devices(table)])
    record = store.create("m", str(graph.path), graph.sha256, {}, decisions)
    unable = Capability.everything(graph) if excluded else Capability.of_reasons(["no Neg"] * 2)
    document = Document(
        store, record, Solver(graph, decisions, {"A": unable, "B": Capability.everything(graph)})
    )
    assert ribbon_of(document)["off"] == said


def test_only_causes_that_are_there_are_named_and_examples_of_rules_match(tmp_path: Path) -> None:
    graph = editor.load_model(EXAMPLES / "models" / "mobilenetv2.onnx")
    store = Store(str(tmp_path))
    decisions = first_decisions(Settings("optimal"), [d.entry for d in load_devices(TABLE)])
    record = store.create("m", str(graph.path), graph.sha256, {}, decisions)
    able = {name: Capability.everything(graph) for name in ("A", "B")}
    document = Document(store, record, Solver(graph, decisions, able))
    ops = document.placement.placed_ops[:3].tolist()
    document.pin(ops, "B")
    assert "ops are elsewhere because of the policy or pins." in str(fallbacks_view(document))
    document.set_automatic("priority", {}, "minimal")
    assert "3 ops are elsewhere because of pins." in str(fallbacks_view(document))
    examples = {each["kind"]: each["example"] for each in rules_data(document)["kinds"]}
    rules = [{kind: examples[kind], "to": "B"} for kind in ("scope", "type")]
    document.set_rules(parse_rules(rules))
    assert all(rule["count"] for rule in rules_data(document)["rules"])
    document.unpin()
    assert "are elsewhere because of rules." in str(fallbacks_view(document))


def test_a_hint_names_the_rule_that_is_the_cause(tmp_path: Path) -> None:
    """It was "caused by Relu in layer4.2 (+22 layers)" where a rule had sent all Relu away."""
    npu = {"name": "NPU", "backendName": "NPU", "nonSupportedNodes": "Gemm"}
    table = [npu, {"name": "CPU", "backendName": "CPU"}]
    graph = editor.load_model(EXAMPLES / "models" / "mobilenetv2.onnx")
    document = opened(graph, tmp_path, table)

    def said() -> str:
        tensors = {transfer.tensor for transfer in document.placement.division.transfers}
        one = Hint("", (0,), "NPU", 1.0, 0, 0, True, before=2.0)
        return str(hints_view(document, [replace(one, tensor=name) for name in sorted(tensors)]))

    assert "caused by" not in said(), "a device table is the cause"
    document.set_rules(parse_rules([{"type": "Clip", "to": "CPU"}]))
    assert said().count("'caused by your rule 1 (type=Clip → CPU)'") > 35
    document.set_rules(parse_rules([{"type": "Gemm", "to": "CPU"}]))
    assert "your rule" not in said(), "the op could not run elsewhere"
    document.set_rules([])
    relu = next(op for op in document.placement.placed_ops.tolist() if graph.op_types[op] == "Clip")
    document.paint([relu], 1)
    assert f"your pin of {graph.display_name(relu)}" in said()


def test_a_condition_that_always_refuses_is_said_in_words() -> None:
    assert condition_title("false") == "The device table refuses every op of this type"
    assert condition_title("rank == 3") == "Condition of the device table: rank == 3"
    assert condition_title("") == ""


@pytest.mark.parametrize(
    ("sequence", "said"), [(1, "Time lost per token"), (7, "Time lost per prompt of 7 tokens")]
)
def test_what_falls_back_costs_time_in_each_token(sequence: int, said: str, tmp_path: Path) -> None:
    path = plain_decoder(tmp_path / "decoder.onnx")
    sizes = proposed_sizes(editor.load_model(path)) | {"sequence_length": sequence}
    graph = editor.load_model(path, sizes)
    store = Store(str(tmp_path))
    decisions = first_decisions(Settings(), [d.entry for d in load_devices(TABLE)])
    record = store.create("m", str(path), graph.sha256, graph.define, decisions)
    able = Capability.of_reasons(["no Softmax" if t == "Softmax" else "" for t in graph.op_types])
    solver = Solver(graph, decisions, {"A": able, "B": Capability.everything(graph)})
    assert said in str(fallbacks_view(Document(store, record, solver)))


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Document:
    """A model of four layers, of which a device holds one."""
    folder = tmp_path_factory.mktemp("full")
    make = [sys.executable, str(EXAMPLES / "language-model" / "make.py"), str(folder)]
    subprocess.run([*make, "--layers", "4", "--hidden", "128"], check=True, capture_output=True)
    path = folder / "model.onnx"
    sizes = {
        "batch": 1,
        "sequence_length": 8,
        "total_sequence_length": 8,
        "past_sequence_length": 0,
    }
    graph = editor.load_model(path, sizes)
    fast = {"peakCompute": "1e14", "peakDramBw": "1e12"}
    slow = {"peakCompute": "1e9", "peakDramBw": "1e9"}
    table = [
        {"name": "A", "backendName": "GPU", "memory": "3 MB", **fast},
        {"name": "B", "backendName": "CPU", **slow},
    ]
    decisions = first_decisions(Settings("memory"), [d.entry for d in load_devices(table)])
    store = Store(str(folder))
    record = store.create("m", str(path), graph.sha256, graph.define, decisions)
    able = Capability.of_reasons(["no Gather" if t == "Gather" else "" for t in graph.op_types])
    return Document(
        store, record, Solver(graph, decisions, {"A": able, "B": Capability.everything(graph)})
    )


def test_ops_without_room_are_counted_and_selected_at_once(full: Document) -> None:
    """164 ops that a full memory sent to the CPU were half a sentence below a table of four."""
    lacking = without_room(full.placement)["A"]
    text = str(fallbacks_view(full))
    assert len(lacking) > 1 and f"B('{len(lacking):,} ops')" in text
    assert "no room on A, where" in text and "of 3 MB are taken" in text
    assert ",".join(map(str, lacking)) in text
    because = [full.placement.why(full.graph.op_keys[op]).because for op in lacking]
    assert all(text.startswith("no room on A") for text in because)


def test_ops_without_room_are_listed_by_block_with_what_that_costs(full: Document) -> None:
    lacking = without_room(full.placement)["A"]
    found = left_out(full, 0, lacking)
    assert sorted(op for one in found for op in one.ops) == lacking
    assert {one.block for one in found} == {"layers.0", "layers.1", "layers.2", "rest of model"}
    losses = [one.seconds for one in found]
    assert losses[0] is not None and losses[0] > 0
    assert losses == sorted(losses, reverse=True)
    costs, device = op_costs(full)[0], full.placement.assignment.device
    for one in found:
        lost = sum(costs.op[op, device[op]] - costs.op[op, 0] for op in one.ops)
        assert one.seconds == pytest.approx(lost)
    weights = weight_bytes(full.graph, full.placement.placed_ops)
    assert sum(one.bytes for one in found) == pytest.approx(weights[lacking].sum(), abs=len(found))
    text = str(fallbacks_view(full))
    assert "No room on A" in text and "B('layers.2')" in text
    for one in found:
        assert repr(",".join(map(str, one.ops))) in text, "a row selects its ops"


def test_a_layout_of_openvino_counts_the_ops_that_differ() -> None:
    """A model of 122 ops had "394 ops elsewhere": letters of the reasons had been counted."""
    model = editor.load_model(EXAMPLES / "models" / "mobilenetv2.onnx")
    here = editor.partition(model, TABLE, pins={"logits": "B"}).placement
    there = editor.partition(
        model, [{**TABLE[0], "nonSupportedNodes": "ReduceMean"}, TABLE[1]]
    ).placement
    text = str(_reasons(here, there))
    assert "2 ops elsewhere: why" in text and len(differing(here, there)) == 2


def opened(graph: Graph, folder: Path, table: list[dict[str, str]]) -> Document:
    """A plan by the policy Priority for devices that can run all ops but for what the table says."""
    store = Store(str(folder))
    decisions = first_decisions(Settings(), [d.entry for d in load_devices(table)])
    record = store.create("m", str(graph.path), graph.sha256, graph.define, decisions)
    able = {device["name"]: Capability.everything(graph) for device in table}
    return Document(store, record, Solver(graph, decisions, able))


def test_a_policy_that_is_suggested_says_what_else_it_gains(tmp_path: Path) -> None:
    """It said a time alone, closer than can be told, of 14 subgraphs instead of 54."""
    npu = {"name": "NPU", "backendName": "NPU", "nonSupportedNodes": "Clip"}
    speeds = {"peakCompute": "20 GFLOPS", "peakDramBw": "2 GB/s"}
    cpu = {"name": "CPU", "backendName": "CPU", "peakCompute": "2 TFLOPS", "peakDramBw": "200 GB/s"}
    graph = editor.load_model(EXAMPLES / "models" / "mobilenetv2.onnx")
    document = opened(graph, tmp_path, [{**npu, **speeds}, cpu])
    layout = document.layout(layout_of_policy(document))
    assert layout is not None and layout.placement is not None
    now, fewer = (len(each.subgraphs) for each in (document.placement, layout.placement))
    assert fewer < now
    said = str(hints_view(document, [], "", layout))
    assert f" on another device, {pluralize(fewer, 'subgraph')} instead of {now}, up to " in said
    assert re.search(r"up to (about )?[\d,.]+ requests/s instead of ", said)


def test_what_it_would_bring_if_the_first_device_took_what_it_refuses(tmp_path: Path) -> None:
    """No move of ops finds it: what the last op costs where it is."""
    npu = {"name": "NPU", "backendName": "NPU", "nonSupportedNodes": "Gemm"}
    speeds = {"peakCompute": "2 TFLOPS", "peakDramBw": "200 GB/s"}
    cpu = {"name": "CPU", "backendName": "CPU", "peakCompute": "20 GFLOPS", "peakDramBw": "9 GB/s"}
    graph = editor.load_model(EXAMPLES / "models" / "mobilenetv2.onnx")
    document = opened(graph, tmp_path, [{**npu, **speeds}, cpu])
    whole = editor.partition(graph, [{**speeds, "name": "NPU", "backendName": "NPU"}, cpu])
    took = in_words(whole.placement.price(op_costs(document)[0]).total, False)
    before = in_words(figures_of(document)["predicted"], False)
    said = str(hints_view(document, []))
    assert len(document.placement.subgraphs) > 1 and took != before
    assert f"' took Gemm, a run would take {took} instead of {before} '" in said.replace('"', "'")
    assert "', in 1 subgraph. The table below says why it does not.'" in said.replace('"', "'")
    slow = opened(graph, tmp_path, [{**npu, "peakCompute": "1 GFLOPS"}, {**cpu, **speeds}])
    slow.set_automatic("optimal", {}, "minimal")
    assert "took Gemm" not in str(hints_view(slow, [])), "it would be slower there"


@pytest.mark.parametrize(
    ("memory", "name"), [("1GB", "least latency"), ("5MB", "optimal within memory")]
)
def test_a_limit_that_the_fastest_plan_keeps_is_no_part_of_what_is_suggested(
    memory: str, name: str, tmp_path: Path
) -> None:
    """The tools called it "Least latency", and Fallbacks the same plan "optimal within memory"."""
    slow = {"name": "Slow", "backendName": "CPU", "peakCompute": "2 GFLOPS"}
    fast = {"name": "Fast", "backendName": "CPU", "peakCompute": "2 TFLOPS", "memory": memory}
    graph = editor.load_model(EXAMPLES / "models" / "mobilenetv2.onnx")
    found = layout_to_suggest(opened(graph, tmp_path, [slow, fast]), bool)
    assert found is not None and found.name == name


def test_where_weights_are_missing_a_profile_is_not_the_first_step(tmp_path: Path) -> None:
    model = onnx.load(EXAMPLES / "models" / "mobilenetv2.onnx")
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data")

    def said() -> str:
        document = opened(editor.load_model(tmp_path / "m.onnx"), tmp_path, TABLE)
        op = document.placement.placed_ops.tolist()[0]
        hint = Hint(document.graph.op_keys[op], (op,), "B", 1e-9, 0, 0, True, before=1.0)
        return str(hints_view(document, [hint]))

    assert "which estimates cannot tell from none): profile first, or try" in said()
    (tmp_path / "m.data").unlink()
    lacking = said()
    assert "profile first" not in lacking
    assert "the weights in m.data are not here; once they are, profile, or try one:" in lacking


def test_another_precision_is_suggested_first(tmp_path: Path) -> None:
    """Nothing was said to be faster, above a fallback of every op for its element type, which has a way out."""
    graph = editor.load_model(EXAMPLES / "models" / "mobilenetv2.onnx")
    table = [{"name": "NPU", "preset": "nvidia-dla"}, {"name": "CPU", "backendName": "CPU"}]

    def suggested(devices: list[dict[str, str]]) -> str:
        plan = editor.partition(graph, devices).placement
        decisions = first_decisions(Settings(), devices)
        record = Store(str(tmp_path)).create("m", str(graph.path), graph.sha256, {}, decisions)
        able = {
            device.name: answer
            for device, answer in zip(plan.devices, plan.constraints.capabilities, strict=True)
        }
        document = Document(Store(str(tmp_path)), record, Solver(graph, decisions, able))
        return str(hints_view(document, []))

    said = suggested(table)
    assert said.index("this model is float32") < said.index("Nothing faster was found")
    assert "'Plan as float16'" in said and "Plan as" not in suggested(table[1:])
