"""Policy `memory` moves whole blocks into room that devices have left."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import EXAMPLES, save_net
from onnx import TensorProto, helper, numpy_helper

import editor
from editor.devices.table import load_devices
from editor.graph.flops import op_bytes
from editor.placement.chosen_costs import costs_of_plan
from editor.placement.constraints import constrain
from editor.placement.costs import estimate, price
from editor.placement.policies.memory_moves import Excess, improved
from editor.placement.policies.task import Task
from editor.runtimes.base import Capability
from editor.text import parse_bytes


def layered(path: Path, layers: int, weight: int) -> Path:
    """Layers with names, each of a product with a weight and three ops behind it."""
    nodes, weights, before = [], [], "x"
    for layer in range(layers):
        scope = f"/layers.{layer}/"
        weights.append(numpy_helper.from_array(np.zeros((weight, weight), np.float32), f"w{layer}"))
        nodes += [
            helper.make_node("MatMul", [before, f"w{layer}"], [f"m{layer}"], f"{scope}MatMul"),
            *(
                helper.make_node(kind, [f"{name}{layer}"], [f"{out}{layer}"], f"{scope}{kind}")
                for kind, name, out in (("Tanh", "m", "t"), ("Neg", "t", "n"), ("Abs", "n", "a"))
            ),
        ]
        before = f"a{layer}"
    info = helper.make_tensor_value_info
    return save_net(
        path,
        nodes,
        [info("x", TensorProto.FLOAT, [256, weight])],
        [info(before, TensorProto.FLOAT, [256, weight])],
        weights,
    )


def test_blocks_go_to_room_that_is_left_and_pins_do_not_make_a_plan_worse(tmp_path: Path) -> None:
    graph = editor.load_model(layered(tmp_path / "net.onnx", 12, 512))
    table = [{"name": "GPU", "backendName": "GPU", "memory": "4.5MB"}, {"name": "CPU"}]
    devices = load_devices(table)
    costs, limits = estimate(graph, devices), np.array([4.5e6, np.inf])
    constraints = constrain(graph, devices, [Capability.everything(graph)] * 2)
    task = Task(constraints, lambda: costs, {})
    on_cpu = np.ones(len(graph), np.int64)
    start = price(graph, costs, on_cpu, task.placed).total
    total, device = improved(task, costs, limits, [(start, on_cpu)], 5.0)
    assert total < start and total == pytest.approx(price(graph, costs, device, task.placed).total)
    assert not Excess.of(task, device, limits).total and 0 < (device == 0).sum() < len(graph)

    free = editor.partition(graph, table, policy="memory", policy_options={"search": 0.1}).placement
    compared = 0
    for layer in (0, 4, 8, 11):
        pins = {
            key: "GPU"
            for op, key in enumerate(graph.op_keys)
            if graph.op_names[op].startswith(f"/layers.{layer}/")
        }
        moved = free.assignment.device.copy()
        moved[[graph.key_index[key] for key in pins]] = 0
        pinned = editor.partition(
            graph, table, policy="memory", pins=pins, policy_options={"search": 0.1}
        ).placement
        assert all(pinned.affinity[key] == "GPU" for key in pins)
        if not Excess.of(task, moved, limits).total:
            compared += 1
            assert pinned.price(costs).total <= price(graph, costs, moved, task.placed).total * (
                1 + 1e-9
            )
    assert compared


def test_ops_that_hold_most_leave_the_devices_to_all_others(tmp_path: Path) -> None:
    """A prompt's logits need more than two cards have left beside the layers: the layers were divided for it."""
    make = [sys.executable, str(EXAMPLES / "language-model" / "make.py"), str(tmp_path)]
    subprocess.run([*make, "--layers", "4", "--hidden", "128"], check=True, capture_output=True)
    sizes = {"batch": 1, "sequence_length": 128, "total_sequence_length": 128}
    graph = editor.load_model(tmp_path / "model.onnx", {**sizes, "past_sequence_length": 0})
    cards = [{"name": f"GPU.{i}", "backendName": "GPU", "memory": "4.23MB"} for i in range(2)]
    table = [*cards, {"name": "CPU"}]
    plan = editor.partition(graph, table, policy="memory").placement
    devices = load_devices(table)
    constraints = constrain(graph, devices, [Capability.everything(graph)] * 3)
    costs = estimate(graph, devices)
    task = Task(constraints, lambda: costs, {})
    by_hand = np.zeros(len(graph), np.int64)
    by_hand[task.placed[np.argsort(op_bytes(graph)[task.placed])[-2:]]] = 2
    assert not Excess.of(task, by_hand, np.array([4.23e6, 4.23e6, np.inf])).total
    assert plan.price(costs).total <= price(graph, costs, by_hand, task.placed).total * (1 + 1e-9)


def test_the_closest_placement_lacks_about_what_halves_of_the_layers_lack(tmp_path: Path) -> None:
    """The message said that 3.3 MB were too few where half a megabyte was."""
    make = [sys.executable, str(EXAMPLES / "language-model" / "make.py"), str(tmp_path)]
    subprocess.run([*make, "--layers", "8", "--hidden", "256"], check=True, capture_output=True)
    sizes = {"batch": 1, "sequence_length": 1, "past_sequence_length": 1125}
    graph = editor.load_model(tmp_path / "model.onnx", {**sizes, "total_sequence_length": 1126})
    table = [{"name": n, "backendName": "GPU", "memory": "19MB"} for n in ("A", "B")]
    with pytest.raises(editor.EditorError) as error:
        editor.partition(graph, table, policy="memory")
    lacks = [parse_bytes(n) or 0 for n in re.findall(r"over by ([\d.]+ [kM]?B)", str(error.value))]
    halves = [
        {"layer": "4-7", "to": "B"},
        {"scope": "lm_head", "to": "B"},
        {"name": "*", "to": "A"},
    ]
    peaks = editor.partition(graph, table, rules=halves).placement.run_memory.peaks
    assert 0 < sum(lacks) <= 1.1 * sum(max(peak - 19_000_000, 0) for peak in peaks.values())


def test_of_devices_that_differ_in_nothing_the_first_one_runs_what_comes_first() -> None:
    graph = editor.load_model(
        EXAMPLES / "models" / "whisper-tiny-decoder.onnx", {"batch": 1, "sequence": 128}
    )
    cards = [{"name": f"G{i}", "backendName": "GPU", "memory": "13MB"} for i in range(2)]
    counts = editor.partition(graph, [*cards, {"name": "CPU"}], policy="memory").placement.op_counts
    assert counts["G0"] > 200 and counts["G1"] == 0


def test_a_rule_that_the_plan_keeps_does_not_make_it_worse(tmp_path: Path) -> None:
    """Two cards alike, too small for all: rules had layers 0 and 1 on a card of their own, and two others on the processor."""
    make = [sys.executable, str(EXAMPLES / "language-model" / "make.py"), str(tmp_path)]
    subprocess.run([*make, "--kind", "llama", "--layers", "6", "--hidden", "256"], check=True)
    cards = [{"name": f"G{i}", "backendName": "GPU", "memory": "9MB"} for i in range(2)]
    table = [*cards, {"name": "CPU"}]
    graph = editor.partition(tmp_path / "model.onnx", table).graph
    free = editor.partition(graph, table, policy="memory").placement
    costs = costs_of_plan(free)[0]
    least = free.price(costs).total
    for card in ("G0", "G1"):  # either may be the one that has the first layers
        ruled = editor.partition(
            graph, table, policy="memory", rules=[{"layer": "0-1", "to": card}]
        ).placement
        assert ruled.price(costs).total <= least * 1.01
        on = {ruled.device_of_op[op] for op in ruled.placed_ops if ".0/" in graph.op_names[op]}
        assert on <= {("G0", "G1").index(card)}
