"""Compiles plans: cuts a model into the sub-models of its subgraphs, and compiles each for its device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from threading import Semaphore

from editor.devices.device import Device
from editor.errors import ExecutionError, SubgraphError
from editor.execution.compiled_plan import (
    CompiledPlan,
    Overridden,
    Progress,
    RunLimits,
    Step,
    constant_outputs,
    memory_space,
)
from editor.execution.cut import Cutter, cut
from editor.execution.machines.machines_plan import compile_over_machines, compile_whole_on_machine
from editor.graph.external_data import weights_problem
from editor.graph.graph import Graph
from editor.placement.placement import Placement
from editor.placement.subgraphs.division import Subgraph
from editor.runtimes.base import CompileOptions, SubModel
from editor.runtimes.protocols import Executable
from editor.runtimes.registry import runtime_of, stand_in

_MOST_RUNS = 4
"""That compute on a device with memory of its own at the same time. Eight requests over two H100: 203 a second with four at a
time on each, 150 to 175 without a limit; on one H100 four are as fast as eight."""


def compile_placement(
    placement: Placement,
    threads: int = 0,
    progress: Progress | None = None,
    as_cut: bool = False,
    overridden: Overridden = frozenset(),
    requests: int = 1,
    keep_weights: bool = False,
) -> CompiledPlan:
    """Cuts and compiles every subgraph.

    Args:
        placement: the placement to compile.
        threads: threads per subgraph; 0 leaves the choice to the runtime.
        progress: called before each subgraph.
        as_cut: cut a plan of one subgraph, too, so that its boundary tensors are those of the placement.
        overridden: initializers that become inputs of the sub-models that read them; every run must provide them.
        requests: runs in flight at the same time, each on a clone.
        keep_weights: leave the weights in the sub-models of the steps, for profilers, which compile them once more.

    Raises:
        ExecutionError: a runtime refuses a sub-model; the message names subgraph, device and cause.
    """

    def recompile(names: Overridden) -> CompiledPlan:
        return compile_placement(placement, threads, None, as_cut, names, requests, keep_weights)

    if any(d.machine and d.present for d in placement.used_devices):
        return compile_over_machines(placement, recompile, threads, progress, overridden, requests)
    cutter = Cutter.open(placement.graph, overridden)
    _check_weights(cutter)
    options = CompileOptions(threads, keep=True, requests=requests)
    real = {d.name: stand_in(placement.graph.format) if d.planned else d for d in placement.devices}

    def step_of(subgraph: Subgraph, submodel: SubModel) -> Step:
        device, runs_on = placement.by_name[subgraph.device], real[subgraph.device]
        try:
            submodel, executable = compile_subgraph(
                cutter, placement, subgraph, runs_on, options, submodel
            )
        except ExecutionError as error:
            raise SubgraphError(str(error), subgraph.id) from error
        return Step(
            subgraph.id,
            submodel if keep_weights else submodel.without_weights(),
            device,
            runs_on,
            executable,
        )

    def steps_of(submodels: Sequence[SubModel | None]) -> list[Step]:
        result = []
        for subgraph, submodel in zip(placement.subgraphs, submodels, strict=True):
            if submodel is None:
                continue
            if progress:
                progress(
                    subgraph.id,
                    len(submodels),
                    f"compiling subgraph {subgraph.id} on {subgraph.device}",
                )
            result.append(step_of(subgraph, submodel))
        return result

    steps = None
    if not as_cut and len(placement.subgraphs) == 1:
        whole = replace(
            cutter.whole(), label="subgraph 0"
        )  # uncut, so the runtime optimizes the original model
        steps = steps_of([whole]) if whole.outputs else None
    if steps is None:
        steps = steps_of(cut(placement, cutter, fold_shapes=True))
    return CompiledPlan(
        placement.graph,
        steps,
        constant_outputs(placement.graph, cutter),
        len(placement.subgraphs),
        recompile,
        overridden,
        run_limits(steps, requests),
    )


def compile_subgraph(
    cutter: Cutter,
    placement: Placement,
    subgraph: Subgraph,
    device: Device,
    options: CompileOptions,
    submodel: SubModel | None = None,
) -> tuple[SubModel, Executable]:
    """Compiles a subgraph for a real device; ``submodel`` is what was cut for it.

    Raises:
        ExecutionError: the runtime refuses it.
    """
    runtime = runtime_of(device.runtime)
    submodel = submodel or cutter.submodel(placement, subgraph, fold_shapes=True)
    try:
        return submodel, runtime.compile(submodel, device, options)
    except ExecutionError:  # runtimes check constants more strictly than input values
        plain = cutter.submodel(placement, subgraph)
        if plain.inputs == submodel.inputs:
            raise
        return plain, runtime.compile(plain, device, options)


def run_limits(steps: Sequence[Step], requests: int) -> RunLimits:
    """Lets each device with memory of its own compute its share of the runs in flight, so that none of them is idle.

    A GPU shares its time among the runs that it is given. So runs that begin together on the first device of a plan end
    together, go on to the second one together, and leave the first one idle: two GPUs are then hardly faster than one.

    Args:
        steps: of a plan.
        requests: runs in flight at the same time.
    """
    names = {step.device.name for step in steps if not memory_space(step.runs_on).is_host}
    if requests == 1 or not names:
        return {}
    devices = len({step.device.name for step in steps})
    return {name: Semaphore(min(-(-requests // devices), _MOST_RUNS)) for name in names}


def _check_weights(cutter: Cutter) -> None:
    """Raises ``ExecutionError`` where a file of weights is not there: each runtime would say so in words of its own."""
    problem = weights_problem(cutter.source, cutter.graph.path)
    if problem:
        raise ExecutionError(f"{cutter.graph.path} cannot run: {problem}")


def compile_whole(
    graph: Graph,
    device: Device,
    threads: int = 0,
    extra_outputs: Sequence[str] = (),
    overridden: Overridden = frozenset(),
    requests: int = 1,
) -> CompiledPlan:
    """The unsplit model on one device, as a plan of one step.

    Args:
        graph: the model.
        device: a real device.
        threads: 0 leaves the choice to the runtime.
        extra_outputs: internal tensors to return; this prevents fusions that would remove them.
        overridden: initializers that are inputs.
        requests: runs in flight at the same time, each on a clone.

    Raises:
        ExecutionError: the device cannot run the whole model.
    """

    def recompile(names: Overridden) -> CompiledPlan:
        return compile_whole(graph, device, threads, extra_outputs, names, requests)

    if device.machine and device.present:
        return compile_whole_on_machine(
            graph, device, recompile, threads, extra_outputs, overridden, requests
        )
    cutter = Cutter.open(graph, overridden)
    _check_weights(cutter)
    submodel = cutter.whole(extra_outputs)
    steps = []
    if submodel.outputs:
        executable = runtime_of(device.runtime).compile(
            submodel, device, CompileOptions(threads, keep=True, requests=requests)
        )
        steps = [Step(0, submodel.without_weights(), device, device, executable)]
    return CompiledPlan(
        graph,
        steps,
        constant_outputs(graph, cutter),
        len(steps),
        recompile,
        overridden,
        run_limits(steps, requests),
    )
