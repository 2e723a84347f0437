"""Tries single ops on a device: asks its runtime, compiles, runs and compares. It runs in a process of its own.

A claim does not prove that an op runs: ONNX Runtime assigns ops to providers that fail on their first run, OpenVINO
imports ops that it computes wrongly. So every op that is not too large runs once on values that ONNX Runtime's CPU provider
accepts; what it computes is the measure.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnx import GraphProto, ModelProto, helper

from editor.devices.device import Device
from editor.errors import ExecutionError
from editor.runtimes.base import CompileOptions, SubModel
from editor.runtimes.op_models import is_random, trial_inputs, wrong_output
from editor.runtimes.protocols import Runtime
from editor.runtimes.values import to_numpy

_FIRST_BATCH, _LARGEST_BATCH = 4, 24
"""Ops that are compiled and run together; how many after the first follows from the time that these took."""
_FIRST_FLOPS = 2e7
"""Largest op that is run before it is known how fast the device is: drivers in software may be a thousand times slower."""
_SLOW = 0.5
"""Seconds of a batch from which on the slowest pace counts, and not the last."""
_UNSTABLE = frozenset(
    {"TopK", "NonMaxSuppression", "Unique", "Dropout", "Multinomial", "Bernoulli"}
)
"""Ops whose results may differ between correct runtimes, beside those that ONNX calls random."""


@dataclass(frozen=True)
class Fragment:
    """One op with its operands, as a model of its own."""

    model: bytes
    may_run: bool
    """Whether it is small enough to run."""
    flops: float = 0.0
    """Estimated work of a run."""


@dataclass(frozen=True)
class OpCheck:
    """What is known about one op on one device."""

    reason: str
    """"" where the device can run it, as far as is known"""
    final: bool = True
    """False where there was no time to ask."""


class Refused(Exception):
    """A runtime refuses a model; the message is the reason."""


def judge(device: Device, fragments: Sequence[Fragment], seconds: float) -> list[OpCheck]:
    """[fragment] what came of it.

    Args:
        device: a real device.
        fragments: ops with names that are unique among them.
        seconds: after which no further ops are run; of those the claim is believed.

    Raises:
        ExecutionError: there is no such runtime in this process.
    """
    from editor.runtimes.registry import runtime_of  # which imports the runtimes, and they this

    runtime = runtime_of(device.runtime)
    models = [ModelProto.FromString(fragment.model) for fragment in fragments]
    claims = _claims(models, runtime, device)
    verdicts = [OpCheck(reason) for reason in claims]
    able = [i for i, fragment in enumerate(fragments) if not claims[i] and fragment.may_run]
    pace = _Pace(seconds)
    for batch in pace.batches(
        sorted(able, key=lambda i: fragments[i].flops), [f.flops for f in fragments]
    ):
        for i, reason in zip(batch, _try([models[i] for i in batch], runtime, device), strict=True):
            verdicts[i] = OpCheck(reason)
    return verdicts


class _Pace:
    """Chooses what is run next so that the time suffices, by what was run before: small ops first."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def batches(self, order: Sequence[int], flops: Sequence[float]) -> Iterator[list[int]]:
        """Yields what to run now, as long as there is time for more.

        Args:
            order: fragments, the smallest first.
            flops: [fragment] its work.
        """
        count, per_flop, start = _FIRST_BATCH, 0.0, 0
        while start < len(order) and time.monotonic() < self._end:
            left = self._end - time.monotonic()
            most = max(left / per_flop, _FIRST_FLOPS) if per_flop else _FIRST_FLOPS
            batch: list[int] = []
            for i in order[start : start + count]:
                if sum(flops[j] for j in batch) + flops[i] > most:
                    break
                batch.append(i)
            if not batch:  # all that follow are larger
                return
            begin = time.monotonic()
            yield batch
            spent = time.monotonic() - begin
            start += len(batch)
            work = sum(flops[i] for i in batch)
            if work > _FIRST_FLOPS / 100:  # less says more about compiling than about running
                per_flop = max(per_flop, spent / work) if spent > _SLOW else spent / work
            each = spent / len(batch)
            count = (
                int(min(max((self._end - time.monotonic()) / 2 / each, 1), _LARGEST_BATCH))
                if each
                else _LARGEST_BATCH
            )


def _claims(models: Sequence[ModelProto], runtime: Runtime, device: Device) -> list[str]:
    """[model] what the runtime says against it, or ""."""
    named = runtime.refusals(merged(models), device) if models else {}
    if isinstance(named, Mapping) and set(named) <= {model.graph.node[-1].name for model in models}:
        return [named.get(model.graph.node[-1].name, "") for model in models]

    def check(model: ModelProto) -> None:
        reason = runtime.refusal(model, device)
        if reason:
            raise Refused(reason)

    return _bisect(models, check)


def _try(models: Sequence[ModelProto], runtime: Runtime, device: Device) -> list[str]:
    """[model] why the device does not compute what it should, or ""."""
    feeds = [trial_inputs(model) for model in models]
    expected: dict[int, Mapping[str, Any]] = {}

    def reference(indices: Sequence[int]) -> None:
        values = _reference(
            merged([models[i] for i in indices]),
            {k: v for i in indices for k, v in (feeds[i] or {}).items()},
        )
        for i in indices:
            expected[i] = {output.name: values[output.name] for output in models[i].graph.output}

    # An op that ONNX Runtime does not run on these values says nothing about the device.
    _bisect_indices([i for i, feed in enumerate(feeds) if feed is not None], reference)
    reasons = [""] * len(models)

    def run(indices: Sequence[int]) -> None:
        whole = merged([models[i] for i in indices])
        outputs = _run(
            whole, {k: v for i in indices for k, v in (feeds[i] or {}).items()}, runtime, device
        )
        for i in indices:
            reasons[i] = _difference(models[i], expected[i], outputs, runtime, device)

    for i, reason in _bisect_indices(sorted(expected), run).items():
        reasons[i] = reason
    return reasons


def _reference(model: ModelProto, feeds: Mapping[str, Any]) -> dict[str, Any]:
    from editor.runtimes.onnxruntime.evaluate import run_once

    return run_once(model, feeds)


def _run(
    model: ModelProto, feeds: Mapping[str, Any], runtime: Runtime, device: Device
) -> dict[str, Any]:
    inputs = tuple(value.name for value in model.graph.input)
    outputs = tuple(value.name for value in model.graph.output)
    submodel = SubModel(model, inputs, outputs, Path(), "this op")
    try:
        results = runtime.compile(submodel, device, CompileOptions()).run(
            [feeds[name] for name in inputs]
        )
        return {name: to_numpy(value) for name, value in zip(outputs, results, strict=True)}
    except ExecutionError as error:
        raise Refused(
            f"it failed when it was tried: {str(error).removeprefix(f'this op on {device.name}: ')}"
        ) from error


def _difference(
    model: ModelProto,
    expected: Mapping[str, Any],
    actual: Mapping[str, Any],
    runtime: Runtime,
    device: Device,
) -> str:
    """What is wrong with the outputs of an op, or ""."""
    node = model.graph.node[-1]
    if node.op_type in _UNSTABLE or is_random(node.op_type, node.domain):
        return ""
    for name, value in expected.items():
        wrong = wrong_output(value, actual[name], runtime.precision(device))
        if wrong:
            return f"{device.title} computes {node.op_type} wrongly: {wrong} (compared with ONNX Runtime on the CPU)"
    return ""


def _bisect(models: Sequence[ModelProto], check: Callable[[ModelProto], None]) -> list[str]:
    """[model] why a check fails for it, or ""; models are checked together as far as they pass."""
    failed = _bisect_indices(
        range(len(models)), lambda indices: check(merged([models[i] for i in indices]))
    )
    return [failed.get(i, "") for i in range(len(models))]


def _bisect_indices(
    indices: Sequence[int], check: Callable[[Sequence[int]], None]
) -> dict[int, str]:
    """Halves what fails until the culprits are alone; index -> reason."""
    failed: dict[int, str] = {}
    stack = [list(indices)] if indices else []
    while stack:
        subset = stack.pop()
        try:
            check(subset)
        except Exception as error:  # noqa: BLE001  # runtimes raise whatever they like
            if len(subset) == 1:
                failed[subset[0]] = (
                    str(error) if isinstance(error, Refused) else f"{type(error).__name__}: {error}"
                )
            else:
                stack += [subset[len(subset) // 2 :], subset[: len(subset) // 2]]
    return failed


def merged(models: Sequence[ModelProto]) -> ModelProto:
    """One model with the nodes of several whose names differ; what has the same name is there once."""
    graph = GraphProto(name="probe")
    seen: set[str] = set()

    def is_new(name: str) -> bool:
        return name not in seen and not seen.add(name)  # type: ignore[func-returns-value]

    for model in models:
        graph.initializer.extend(t for t in model.graph.initializer if is_new(f"value {t.name}"))
        graph.input.extend(v for v in model.graph.input if is_new(f"value {v.name}"))
        graph.node.extend(n for n in model.graph.node if is_new(f"node {n.name or n.output[0]}"))
        graph.output.extend(model.graph.output)
    result = helper.make_model(
        graph, opset_imports=list(models[0].opset_import), ir_version=models[0].ir_version
    )
    result.functions.extend(models[0].functions)
    return result
