"""A second benchmark of a plan begins with what the first one compiled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import editor
from editor.execution.measure import benchmark as module
from editor.execution.measure.benchmark import Benchmark
from editor.execution.measure.turns import KeptPlans
from editor.graph.graph import Graph
from editor.workspace.plan import Plan

TABLE = [{"name": "A", "backendName": "CPU"}, {"name": "B", "backendName": "CPU"}]


def counting(real: Callable[..., Any], name: str, done: list[str]) -> Callable[..., Any]:
    def counted(*args: object, **kwargs: object) -> Any:
        done.append(name)
        return real(*args, **kwargs)

    return counted


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was compiled, in order."""
    done: list[str] = []
    for name in ("compile_placement", "compile_whole"):
        monkeypatch.setattr(module, name, counting(getattr(module, name), name, done))
    return done


def measure(plan: Plan, kept: KeptPlans, threads: int = 0, mode: str = "latency") -> float:
    (result,) = Benchmark({"plan": plan.placement}, 0.05, mode, threads=threads, kept=kept).run()
    assert result.difference is not None and result.difference.within_tolerance
    return result.total.median


def test_the_same_plan_is_compiled_once_and_another_one_anew(
    dag: Callable[..., Graph], compiled: list[str]
) -> None:
    graph = dag([[], [0], [1], [2]])
    plan, kept = editor.partition(graph, TABLE, pins={"t1": "B"}), KeptPlans()
    assert measure(plan, kept) > 0 and compiled == ["compile_placement", "compile_whole"]
    measure(plan, kept)
    assert len(compiled) == 2
    measure(plan, kept, threads=1)
    assert len(compiled) == 4, "another number of threads"
    measure(plan, kept, threads=1, mode="throughput")
    assert len(compiled) == 6, "threads wait otherwise where several requests share the cores"
    measure(plan, kept, threads=1)
    del compiled[4:]
    measure(plan.repin({"t2": "B"}), kept, threads=1)
    assert compiled[4:] == ["compile_placement"], "another plan, with the same unsplit model"
    measure(plan, kept, threads=1)
    assert compiled[5:] == ["compile_placement"], "only what the last benchmark used is kept"


def test_a_changed_file_is_compiled_anew(
    dag: Callable[..., Graph], compiled: list[str], tmp_path: Path
) -> None:
    kept = KeptPlans()
    measure(editor.partition(dag([[], [0]]), TABLE, pins={"t1": "B"}), kept)
    measure(editor.partition(dag([[], [0]], ["Neg", "Abs"]), TABLE, pins={"t1": "B"}), kept)
    assert compiled == ["compile_placement", "compile_whole"] * 2
