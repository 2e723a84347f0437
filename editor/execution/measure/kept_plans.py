"""Compiled plans of the last benchmark of a worker process, so that measuring the same plan again begins at once.

Runtimes keep compiled models on disk where they can (``runtimes.compile_cache``), but reading and cutting a model takes
time as well. Only what the next benchmark uses again outlives its start, so memory is needed for one benchmark at a time.
"""

from __future__ import annotations

from collections.abc import Iterable

from editor.execution.executor import CompiledPlan
from editor.files import file_state
from editor.graph.graph import Graph
from editor.placement.placement import Placement
from editor.runtimes.base import CompileOptions

Key = tuple[object, ...]
MAX_BYTES = 1 << 30
"""Weights of a model whose compiled plans are kept; there may be a copy for each device."""


class KeptPlans:
    """Compiled plans by what they were compiled from."""

    def __init__(self) -> None:
        self._plans: dict[Key, CompiledPlan] = {}

    def drop_others(self, wanted: Iterable[Key]) -> None:
        """Forgets all plans but these, before others are compiled."""
        keys = set(wanted)
        self._plans = {key: plan for key, plan in self._plans.items() if key in keys}

    def take(self, key: Key) -> CompiledPlan | None:
        """A plan, which is not kept any more; None where there is none."""
        return self._plans.pop(key, None)

    def put(self, key: Key, plan: CompiledPlan) -> None:
        """Keeps a plan of a model that is not too large."""
        constants = plan.graph.tensor_bytes[plan.graph.tensor_is_constant]
        if constants[constants > 0].sum() <= MAX_BYTES:
            self._plans[key] = plan


def key_of_plan(placement: Placement, options: CompileOptions, overridden: frozenset[str]) -> Key:
    """What a plan is compiled from: model, subgraphs, devices and settings."""
    division = placement.division
    devices = {d.name: (d.settings if d.present else (), d.machine, d.wire_type) for d in placement.devices}
    subgraphs = tuple((s.device, devices[s.device], tuple(s.ops), tuple(s.inputs), tuple(s.outputs))
                      for s in division.subgraphs)
    return (*_key_of_model(placement.graph), subgraphs, options, overridden)


def key_of_whole(graph: Graph, settings: Key, options: CompileOptions, overridden: frozenset[str]) -> Key:
    """What the unsplit model on a device is compiled from."""
    return (*_key_of_model(graph), settings, options, overridden)


def _key_of_model(graph: Graph) -> Key:
    return str(graph.path), graph.sha256, file_state(graph.path), tuple(sorted(graph.define.items()))
