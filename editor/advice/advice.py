"""Tries other forms of the ops that a device refuses, and says what each would change; outputs are compared on the CPU."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from editor.advice.idea import Facts
from editor.advice.rewriting import WHOLE, fitting, rewritten
from editor.errors import EditorError, ExecutionError, ModelError
from editor.execution.executor import compile_whole
from editor.execution.invented_inputs import random_inputs
from editor.graph.graph import Graph
from editor.graph.loading import load_model
from editor.graph.model_file import check_same
from editor.kinds import Kind
from editor.placement.chosen_costs import costs_of_plan, source_of_figures
from editor.placement.costs import Costs, estimate, with_wires
from editor.placement.device_profile import DeviceProfile, load_profile, measured
from editor.placement.fallbacks import fallbacks
from editor.placement.kept import Recipe
from editor.placement.placement import Placement, solve
from editor.runtimes.base import Value
from editor.runtimes.registry import stand_in
from editor.runtimes.values import to_numpy
from editor.sandbox.worker import Channel, run

TOLERANCE = 1e-3
"""Of the largest magnitude of an output in float32: what forms of one op may differ by through rounding."""


@dataclass(frozen=True)
class Advice:
    """One idea that was tried."""

    idea: str
    title: str
    """Says which form becomes which."""
    solved: tuple[str, ...]
    """Keys of the ops that a device refused, and that it would no longer refuse."""
    refused: int
    """Ops of the new model that a device still refuses."""
    refused_before: int
    subgraphs: int
    subgraphs_before: int
    seconds: float
    """Of a run of the new plan; by the costs of the old plan's figures, but the new ops are in no profile: an estimate."""
    seconds_before: float
    kind: Kind
    """Of the seconds."""
    difference: float | None = None
    """Largest difference of an output to the model's own on ONNX Runtime's CPU, as a share of the output's largest
    magnitude; None where it was not compared."""
    problem: str = ""
    """Why it was not compared, or not solved; "" where it was."""
    model: Path | None = None
    """The new model; None where it was not kept, because it does not help or no folder was given."""
    placement: Placement | None = None
    """Of the new model, where that was kept."""

    @property
    def helps(self) -> bool:
        """Whether fewer ops are refused, and the outputs are proved to be the same."""
        return (
            self.refused < self.refused_before
            and self.difference is not None
            and self.difference <= TOLERANCE
        )


def advise(
    placement: Placement,
    out_dir: Path | None = None,
    progress: Callable[[int, int, str], None] = lambda _done, _total, _title: None,
) -> list[Advice]:
    """Tries every idea for the types of the ops that a device refuses; the most helpful one first.

    Args:
        placement: of a model.
        out_dir: a folder for the new models that help; None keeps none of them.
        progress: called with (ideas that were tried, all, the next one); what it raises ends the work.

    Raises:
        ModelError: the model is not ONNX, or its weights are not there.
    """
    graph = placement.graph
    if not graph.is_onnx:
        raise ModelError(f"{graph.name} is not ONNX; other forms are tried of ONNX models only")
    refused = _refused(placement)
    types = frozenset(graph.op_types[op] for op in refused)
    ideas = fitting(types | _around(graph, refused))
    facts = Facts(
        frozenset(graph.op_keys[op] for op in refused),
        {
            name: shape
            for name, shape in zip(graph.tensor_names, graph.tensor_shapes, strict=True)
            if shape is not None
        },
        dict(zip(graph.tensor_names, graph.tensor_types, strict=True)),
    )
    found: list[Advice] = []
    reference: dict[str, Any] | EditorError | None = None
    inputs: dict[str, Value] = {}
    with _folder(out_dir) as folder:
        for number, (name, title) in enumerate(ideas):
            progress(number, len(ideas), title)
            path = folder / f"{graph.path.stem}_{name}.onnx"
            base = _untried(placement, name, title, len(refused))
            try:
                if not run(
                    rewritten, graph.path, name, facts, path, what="rewriting", path=graph.path
                ):
                    continue
            except ExecutionError as error:
                found.append(replace(base, problem=str(error)))
                continue
            if reference is None:
                try:
                    inputs = dict(random_inputs(graph))
                    reference = _outputs(graph, inputs)
                except EditorError as error:
                    reference = error
            tried = _tried(base, placement, path, facts.fallen, inputs, reference)
            if name in WHOLE and not tried.solved:  # it changes the model, and not what is refused
                path.unlink()
                continue
            if out_dir is None or not tried.helps:
                path.unlink()
                tried = replace(tried, model=None, placement=None)
            found.append(tried)
    return sorted(found, key=lambda one: (not one.helps, one.refused, one.seconds, one.idea))


def advise_job(channel: Channel, recipe: Recipe, folder: str) -> list[Advice]:
    """``advise`` as a job: the models that help are in the folder, without their placements."""
    graph = check_same(load_model(recipe.model, recipe.define), recipe.sha256)
    found = advise(
        recipe.placement(graph),
        Path(folder),
        lambda done, total, title: channel.step(title, done, total),
    )
    return [replace(one, placement=None) for one in found]


@contextmanager
def _folder(given: Path | None) -> Iterator[Path]:
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="hetero-advice-") as folder:
        yield Path(folder)


def _refused(placement: Placement) -> list[int]:
    """Ops that fell back from the device that was wanted for them."""
    return sorted({op for one in fallbacks(placement, _costs(placement)) for op in one.ops})


def _around(graph: Graph, ops: list[int]) -> frozenset[str]:
    """Types of the ops beside some ops: a pattern of several may have one that is refused in its middle."""
    return frozenset(graph.op_types[o] for op in ops for o in graph.successors[op].tolist())


def _outputs(graph: Graph, inputs: dict[str, Value]) -> dict[str, Any]:
    """What ONNX Runtime's CPU makes of inputs."""
    return dict(compile_whole(graph, stand_in(graph.format)).run(inputs))


def _untried(placement: Placement, name: str, title: str, refused: int) -> Advice:
    """The advice of an idea that changes nothing."""
    seconds = placement.price(costs_of_plan(placement)[0]).total
    parts = len(placement.subgraphs)
    return Advice(name, title, (), refused, refused, parts, parts, seconds, seconds, Kind.ESTIMATE)


def _tried(
    base: Advice,
    placement: Placement,
    path: Path,
    before: frozenset[str],
    inputs: dict[str, Value],
    reference: dict[str, Any] | EditorError | None,
) -> Advice:
    """The advice of an idea, whose model has been written."""
    base = replace(base, model=path)
    try:
        graph = load_model(path, placement.graph.define)
        made = _solved(placement, graph)
    except EditorError as error:
        return replace(base, problem=f"not solved: {error}")
    refused = frozenset(made.graph.op_keys[op] for op in _refused(made))
    base = replace(
        base,
        solved=tuple(sorted(before - refused)),
        refused=len(refused),
        subgraphs=len(made.subgraphs),
        seconds=made.price(_costs_like(placement, made)).total,
        placement=made,
    )
    if not base.solved and base.idea in WHOLE:
        return base
    if not isinstance(reference, dict):
        return replace(base, problem=f"not compared: {reference}")
    try:
        return replace(base, difference=_difference(reference, _outputs(graph, inputs)))
    except EditorError as error:
        return replace(base, problem=f"not compared: {error}")


def _solved(placement: Placement, graph: Graph) -> Placement:
    """The same decisions for a new model; pins of ops that it lacks are left out."""
    settings = placement.settings
    kept = {key: label for key, label in settings.pins.items() if key in graph.key_index}
    options = {k: v for k, v in settings.policy_options.items() if (k, v) != ("costs", "measured")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return solve(
            graph,
            placement.devices,
            replace(
                settings,
                pins=kept,
                forced=settings.forced & kept.keys(),
                policy_options=options,
            ),
        )


def _costs(placement: Placement) -> Costs:
    return estimate(placement.graph, placement.devices)


def _costs_like(placement: Placement, made: Placement) -> Costs:
    """Costs of a rewritten model from where those of the old one come: ops that are as before have the times of its profiles.

    An op of another type may make a tensor of the same name, and so have the same key.
    """
    old, new = placement.graph, made.graph
    if source_of_figures(old, placement.devices, placement.settings) == "estimate":
        return with_wires(new, made.devices, _costs(made))
    same = {
        key
        for key, op in new.key_index.items()
        if key in old.key_index and old.op_types[old.key_index[key]] == new.op_types[op]
    }
    profiles = [
        None if p is None else _only(p, same)
        for p in (load_profile(old, device) for device in placement.devices)
    ]
    return with_wires(new, made.devices, measured(new, made.devices, profiles))


def _only(profile: DeviceProfile, keys: set[str]) -> DeviceProfile:
    """A profile of some of its ops, whose total is their share of its own."""
    kept = {key: seconds for key, seconds in profile.seconds.items() if key in keys}
    share = sum(kept.values()) / (sum(profile.seconds.values()) or 1.0)
    return replace(profile, seconds=kept, total=profile.total * share)


def _difference(reference: dict[str, Any], outputs: dict[str, Any]) -> float:
    """The largest difference of an output as a share of its largest magnitude; infinite where types or shapes differ."""
    most = 0.0
    for name, value in reference.items():
        one, other = to_numpy(value), to_numpy(outputs[name])
        if one.shape != other.shape or one.dtype != other.dtype:
            return float("inf")
        if not np.issubdtype(one.dtype, np.number):
            most = max(most, 0.0 if (one == other).all() else float("inf"))
            continue
        a, b = one.astype(np.float64), other.astype(np.float64)
        if (np.isnan(a) != np.isnan(b)).any() or (np.isinf(a) != np.isinf(b)).any():
            return float("inf")
        finite = np.isfinite(a) & np.isfinite(b)
        scale = float(np.abs(a[finite]).max(initial=0.0))
        apart = float(np.abs(a[finite] - b[finite]).max(initial=0.0))
        most = max(most, apart / scale if scale else apart)
    return most
