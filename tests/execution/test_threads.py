"""A plan is used by several threads at once: each gets the results of its own inputs."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from conftest import REAL, save_net
from onnx import TensorProto, helper

import editor
from editor.execution.compiled_plan import CompiledPlan
from editor.execution.measure.profile import profile_all
from editor.graph.graph import Graph
from editor.workspace.plan import Plan

THREADS, RUNS = 6, 40
OPS = 8
TABLES = {
    "ONNX Runtime": ("a",),
    "OpenVINO": ("ov",),
    "Interpreter": ("ref",),
    "two sessions": ("a", "b"),
    "mix": ("a", "ov", "ref", "b"),
}
DEVICES = [{"name": "a", "backendName": "CPU"}, {"name": "b", "backendName": "CPU"}, *REAL[1:]]


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """y = x + 8, by eight ops that each add a weight; big enough that runs overlap."""
    nodes = [
        helper.make_node("Add", ["x" if not i else f"t{i - 1}", "one"], [f"t{i}"], f"n{i}")
        for i in range(OPS)
    ]
    value = helper.make_tensor_value_info
    path = tmp_path_factory.mktemp("threads") / "sums.onnx"
    return editor.load_model(
        save_net(
            path,
            nodes,
            [value("x", TensorProto.FLOAT, [20_000]), value("one", TensorProto.FLOAT, [1])],
            [value(f"t{OPS - 1}", TensorProto.FLOAT, [20_000])],
            [helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0])],
            name="sums",
        )
    )


def on(graph: Graph, *devices: str) -> Plan:
    """The plan with its ops on these devices in turn, two ops each."""
    return editor.partition(
        graph, DEVICES, pins={f"t{i}": devices[i // 2 % len(devices)] for i in range(OPS)}
    )


def wrong(run: Callable[[int, dict[str, Any]], Any], added: float = OPS) -> list[str]:
    """What threads that run at the same time get that is not the result of their own inputs."""
    together = Barrier(THREADS)

    def use(thread: int) -> list[str]:
        together.wait(60)
        found, kept = [], []
        for i in range(RUNS):
            mine = float(100 * thread + i)
            result = run(thread, {"x": np.full(20_000, mine, np.float32)})[f"t{OPS - 1}"]
            kept.append((mine, result))
        for (
            mine,
            result,
        ) in kept:  # afterwards: a later run may have written into the arrays of an earlier one
            if not (result == mine + added).all():
                found.append(f"{sorted(set(result.tolist()))} for {mine}")
        return found

    with ThreadPoolExecutor(THREADS) as pool:
        return [one for found in pool.map(use, range(THREADS)) for one in found]


@pytest.mark.parametrize("devices", TABLES.values(), ids=TABLES)
def test_threads_get_the_results_of_their_own_inputs(
    graph: Graph, devices: tuple[str, ...]
) -> None:
    plan = on(graph, *devices)
    assert wrong(lambda _, inputs: plan.run(inputs)) == []
    compiled = plan.compile()
    assert wrong(lambda _, inputs: compiled.run_timed(inputs)[0]) == []
    assert wrong(lambda thread, inputs: (compiled.run if thread % 2 else plan.run)(inputs)) == []


@pytest.mark.parametrize("devices", TABLES.values(), ids=TABLES)
def test_threads_may_replace_initializers_and_use_clones(
    graph: Graph, devices: tuple[str, ...]
) -> None:
    plan = on(graph, *devices)
    two = {"one": np.full(1, 2, np.float32)}
    assert wrong(lambda _, inputs: plan.run(inputs | two), 2 * OPS) == []
    clones = [plan.compile().clone() for _ in range(THREADS)]
    assert wrong(lambda thread, inputs: clones[thread].run(inputs)) == []


def test_threads_that_replace_and_threads_that_do_not(graph: Graph) -> None:
    plan = on(graph, *TABLES["mix"])

    def run(thread: int, inputs: dict[str, Any]) -> Any:
        if thread % 2:
            return plan.run(inputs)
        result = plan.run(inputs | {"one": np.full(1, 2, np.float32)})
        return {name: value - OPS for name, value in result.items()}

    assert wrong(run) == []


def test_plans_that_are_derived_from_one_run_beside_each_other(graph: Graph) -> None:
    plan = on(graph, "a")
    derived = [
        plan.repin({"t3": device, "t5": other})
        for device, other in [
            ("a", "b"),
            ("ov", "a"),
            ("ref", "ov"),
            ("b", "ref"),
            ("ov", "ref"),
            ("a", "a"),
        ]
    ]
    assert wrong(lambda thread, inputs: derived[thread].run(inputs)) == []
    assert wrong(lambda thread, inputs: derived[thread % 3].run(inputs)) == []


def test_a_plan_is_compiled_once_by_several_threads(graph: Graph) -> None:
    plan = on(graph, *TABLES["mix"])
    together = Barrier(THREADS)

    def compiled(_: int) -> CompiledPlan:
        together.wait(60)
        return plan.compile()

    with ThreadPoolExecutor(THREADS) as pool:
        assert len({id(one) for one in pool.map(compiled, range(THREADS))}) == 1


def test_measurements_run_beside_runs(graph: Graph) -> None:
    plan = on(graph, *TABLES["mix"])

    def run(thread: int, inputs: dict[str, Any]) -> Any:
        if inputs["x"][0] == 0:
            profile_all(graph, plan.devices, 0.1)
        elif inputs["x"][0] in (100, 200):
            plan.benchmark(0.1, "throughput" if thread == 1 else "latency")
        return plan.run(inputs)

    assert wrong(run) == []


def test_returned_arrays_belong_to_the_caller(graph: Graph, tmp_path: Path) -> None:
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("Identity", ["x"], ["y"]), helper.make_node("Identity", ["w"], ["v"])]
    save_net(
        tmp_path / "m.onnx",
        nodes,
        [value("x", TensorProto.FLOAT, [4])],
        [value(n, TensorProto.FLOAT, [4]) for n in "yvw"],
        [helper.make_tensor("w", TensorProto.FLOAT, [4], [1.0] * 4)],
        name="through",
    )
    for device in DEVICES:
        plan, x = editor.partition(tmp_path / "m.onnx", [device]), np.zeros(4, np.float32)
        for _ in range(3):
            for array in plan.run({"x": x}).values():
                array.fill(5)
        result = plan.run({"x": x})
        assert {name: array.tolist() for name, array in result.items()} == {
            "y": [0] * 4,
            "v": [1] * 4,
            "w": [1] * 4,
        }
