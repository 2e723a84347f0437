"""What ran gives its memory back at once: that of a GPU would lack for what runs next, until Python looks for cycles."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from decoders import fused_decoder

import editor
from editor.execution.measure.profile import profile_all
from editor.execution.measure.tokens import measure_tokens
from editor.runtimes.onnxruntime.session import Session


@pytest.fixture
def uncollected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


_WORK: dict[str, Callable[[Any], Any]] = {
    "profile": lambda plan: profile_all(plan.graph, plan.devices, 0.1),
    "benchmark": lambda plan: plan.benchmark(seconds=0.2),
    "tokens": lambda plan: measure_tokens("plan", plan.placement, prompt=8, new=4),
    "generate": lambda plan: plan.generate([1, 2, 3], 4),
    "accuracy": lambda plan: plan.accuracy(),
}


@pytest.mark.parametrize("work", _WORK)
@pytest.mark.usefixtures("uncollected")
def test_sessions_are_gone_when_their_work_is_done(
    work: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    table = [{"name": name, "backendName": "CPU"} for name in "AB"]
    plan = editor.partition(fused_decoder(tmp_path), table)
    plan = plan.repin(dict.fromkeys(plan.graph.op_keys[20:], "B"))
    assert len(plan.subgraphs) > 1
    before = {id(each) for each in gc.get_objects() if isinstance(each, Session)}
    _WORK[work](plan)
    del plan
    left = [e for e in gc.get_objects() if isinstance(e, Session) and id(e) not in before]
    assert left == []
