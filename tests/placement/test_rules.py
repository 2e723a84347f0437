"""Rules: what they match, how they combine, what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import EXAMPLES

import editor
from editor.graph.graph import Graph
from editor.graph.scopes.tree import scopes_of
from editor.placement.rules import Rule, change_of_rules, parse_rules
from editor.runtimes.base import Capability

BOX = [
    {"name": "GPU"},
    {"name": "NPU", "nonSupportedNodes": "Softmax, LayerNormalization, Gemm"},
    {"name": "CPU"},
]

TWO = [{"name": "one", "backendName": "CPU"}, {"name": "two", "backendName": "CPU"}]


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([{"type": "Conv", "nth": "first", "to": "two"}], ["t0"]),
        ([{"type": "nn.conv2d", "nth": "last", "to": "two"}], ["t3"]),
        ([{"type": "Neg", "nth": "0:2", "to": "two"}], ["t0", "t1"]),
        ({"Neg": "two"}, ["t0", "t1", "t2", "t3"]),
        ([{"name": "n[12]", "to": "two"}], ["t1", "t2"]),
        ([{"regex": "^n[03]$", "to": "two"}], ["t0", "t3"]),
        ([{"tensor": "t2", "to": "two"}], ["t2"]),
        (
            [{"type": "Neg", "nth": "1", "to": "one"}, {"type": "Neg", "to": "two"}],
            ["t0", "t2", "t3"],
        ),
        (
            {
                "backendNames": ["one", "two"],
                "partitionNames": ["p1", "p2"],
                "nodeToPartition": {"n3": 1, "n1": 0},
            },
            ["t3"],
        ),
    ],
)
def test_rules_select_ops(dag: Callable[..., Graph], rules: object, expected: list[str]) -> None:
    graph = dag([[], [0], [1], [2]])
    if "Conv" in str(rules) or "conv" in str(rules):
        rules = [{**r, "type": "Neg"} for r in rules]  # type: ignore[attr-defined]
    plan = editor.partition(graph, TWO, rules=rules, policy="rules")
    assert [k for k, d in plan.affinity.items() if d == "two"] == expected


def test_rules_of_two_levels_combine(dag: Callable[..., Graph]) -> None:
    table = [
        {"name": "g0", "backendName": "CPU", "device": "GPU", "unit": 0, "codegen": "a"},
        {"name": "g0b", "backendName": "CPU", "device": "GPU", "unit": 0, "codegen": "b"},
        {"name": "g1b", "backendName": "CPU", "device": "GPU", "unit": 1, "codegen": "b"},
        {"name": "c", "backendName": "CPU", "device": "CPU", "codegen": "c"},
    ]
    rules = [
        {"name": "n2", "to": "codegen:b"},
        {"name": "n3", "to": "unit:1"},
        {"name": "*", "to": "device:GPU"},
    ]
    plan = editor.partition(dag([[], [0], [1], [2]]), table, rules=rules, pins={"t1": "c"})
    assert plan.affinity == {"t0": "g0", "t1": "c", "t2": "g0b", "t3": "g1b"}
    assert "rule 1 (name=n2 → codegen:b), rule 3" in plan.why("t2").because


@pytest.mark.parametrize(
    ("rules", "cause"),
    [
        ([{"type": "Conv"}], "rule 1: the target is missing"),
        ([{"typ": "Conv", "to": "one"}], "unknown key 'typ'"),
        ([{"regex": "(", "to": "one"}], "not a regular expression"),
        ([{"nth": "second", "to": "one"}], "nth must be"),
        ([{"type": "Conv", "to": "GPU7"}], "unknown device 'GPU7'"),
        ("Conv", "rules are a list"),
        ([3], "a rule is a mapping"),
        ([{"name": None, "to": "one"}], "rule 1: name is empty; say what it must be"),
        ([{"type": "Relu", "name": "", "to": "one"}], "rule 1: name is empty"),
        ([{"layer": "three", "to": "one"}], "rule 1: layer: 'three' is not a layer"),
        ([{"layer": "15-8", "to": "one"}], "rule 1: layer: '15-8' is not a layer"),
        ({"backendNames": [], "nodeToPartition": {"n": 0}}, "backendNames has 0"),
    ],
)
def test_invalid_rules_are_errors(dag: Callable[..., Graph], rules: object, cause: str) -> None:
    with pytest.raises(editor.PinError, match=cause):
        editor.partition(dag([[], [0]]), TWO, rules=rules)


def test_a_rule_takes_a_range_of_layers() -> None:
    graph = editor.load_model(
        EXAMPLES / "models" / "whisper-tiny-decoder.onnx", {"batch": 1, "sequence": 8}
    )
    rules = [
        {"layer": "1-2", "to": "NPU"},
        {"layer": "3", "type": "MatMul", "to": "GPU"},
        {"type": "*", "to": "CPU"},
    ]
    plan = editor.partition(
        graph,
        [{"name": n} for n in ("CPU", "GPU", "NPU")],
        rules=rules,
        capabilities=[Capability.everything(graph)] * 3,
    )
    layer = scopes_of(graph).layer_of_op
    placed = plan.placement.placed_ops.tolist()
    assert {1, 2, 3} < set(layer.values()), "the decoder has four layers"
    for op in placed:
        wanted = (
            "NPU"
            if layer.get(op) in (1, 2)
            else "GPU"
            if layer.get(op) == 3 and graph.op_types[op] == "MatMul"
            else "CPU"
        )
        assert plan.affinity[graph.op_keys[op]] == wanted


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ([], [{"type": "Conv", "to": "A"}], "rule added: type=Conv → A"),
        ([{"type": "Conv", "to": "A"}], [], "rule removed: type=Conv → A"),
        (
            [{"type": "Conv", "to": "A"}],
            [{"type": "Conv", "to": "B"}],
            "rule changed: type=Conv → B",
        ),
        (
            [{"type": "Conv", "to": "A"}, {"layer": "1", "to": "B"}],
            [{"layer": "1", "to": "B"}, {"type": "Conv", "to": "A"}],
            "rules in another order",
        ),
        ([], [{"type": "Conv", "to": "A"}, {"layer": "1", "to": "B"}], "2 rules"),
    ],
)
def test_a_step_of_the_history_says_what_changed_of_the_rules(
    before: list[object], after: list[object], words: str
) -> None:
    assert change_of_rules(parse_rules(before), parse_rules(after)) == words


def test_a_saved_plan_keeps_its_rules(mobilenet: Graph, tmp_path: Path) -> None:
    rules = [{"type": "Conv", "nth": "0:3", "to": "NPU"}, {"scope": "none", "to": "CPU"}]
    plan = editor.partition(
        mobilenet, BOX, rules=rules, policy="optimal", policy_options={"objective": "latency"}
    )
    again = editor.load_plan(plan.save(tmp_path / "plan.json"))
    assert again.affinity == plan.affinity and again.settings.rules == parse_rules(rules)
    assert again.settings.policy == "optimal"


def test_rules_choose_the_device_throughput_the_unit_and_each_subgraph_its_codegen(
    mobilenet: Graph,
) -> None:
    table = [
        {
            "name": f"{device}{unit}-{codegen}",
            "backendName": device,
            "unit": unit,
            "codegen": codegen,
            "nonSupportedNodes": refused,
            "peakCompute": peak,
        }
        for device, unit in (("GPU", 0), ("GPU", 1), ("CPU", 0))
        for codegen, refused, peak in (("tensorrt", "Gemm", 4e13), ("cuda", "", 1e13))
    ]
    rules = [{"type": "Conv", "to": "device:GPU"}]
    plan = editor.partition(
        mobilenet, table, policy="pipeline", rules=rules, policy_options={"codegen": "subgraph"}
    )
    entry = {d.name: d for d in plan.devices}
    able = plan.placement.constraints.able
    for subgraph in plan.subgraphs:
        ops = [
            mobilenet.key_index[k]
            for k in subgraph.ops
            if not mobilenet.op_is_constant[mobilenet.key_index[k]]
        ]
        home = (entry[subgraph.device].device, entry[subgraph.device].unit)
        fast = next(
            i
            for i, d in enumerate(plan.devices)
            if d.codegen == "tensorrt" and (d.device, d.unit) == home
        )
        assert entry[subgraph.device].codegen == ("tensorrt" if able[ops, fast].all() else "cuda")
    assert {entry[s.device].codegen for s in plan.subgraphs} == {"tensorrt", "cuda"}
    convs = [k for k, t in zip(mobilenet.op_keys, mobilenet.op_types, strict=True) if t == "Conv"]
    assert {entry[plan.affinity[k]].unit for k in convs} == {"0", "1"}, "balanced over the units"
    assert {entry[plan.affinity[k]].device for k in convs} == {"GPU"}
    assert "fastest codegen of its subgraph" in plan.why(convs[0]).because
    pinned = editor.partition(
        mobilenet,
        table,
        policy="pipeline",
        rules=rules,
        policy_options={"codegen": "subgraph"},
        pins={convs[0]: "codegen:cuda"},
    )
    assert entry[pinned.affinity[convs[0]]].codegen == "cuda"
    with pytest.raises(editor.EditorError, match="choose one of: op, subgraph"):
        editor.partition(mobilenet, table, policy_options={"codegen": "model"})


def test_a_rule_s_scope_is_also_the_path_of_the_block_as_the_page_shows_it(whisper: Graph) -> None:
    """Where names of ops say nothing, as node_Conv_202, no rule could hold a block together."""
    scopes = scopes_of(whisper)
    paths = {op: scopes.path_of(op) for op in range(len(whisper)) if not whisper.op_is_constant[op]}
    path = next(p for p in paths.values() if p.count("/") > 1)
    within = [op for op, each in paths.items() if f"{each}/".startswith(f"{path}/")]
    for text in (path, path.replace("/", " > "), path.replace("/", "."), f"/{path}/"):
        assert set(within) <= set(Rule("CPU", scope=text).matches(whisper, ~whisper.op_is_constant))
    head, _, number = path.rpartition("/")
    assert not Rule("CPU", scope=f"{head}/{number}0").matches(whisper, ~whisper.op_is_constant)
