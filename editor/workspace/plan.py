"""The plan: a model, devices and decisions to edit, save, run, compare and export."""

from __future__ import annotations

import hashlib
import html
import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from datetime import date
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from editor.arguments import (
    MOST_REQUESTS,
    MOST_THREADS,
    MOST_TOKENS,
    as_count,
    as_mapping,
    as_path,
    as_text,
    shown,
)
from editor.devices.device import Device
from editor.devices.table import Spec, as_devices
from editor.errors import (
    EditorError,
    ExecutionError,
    ExportError,
    ModelError,
    NoProfileError,
    PinError,
    PlanError,
    SubgraphError,
)
from editor.exports.formats import ExportForm, KitRuntime, check
from editor.exports.registry import export as export_placement
from editor.files import write_atomic
from editor.graph.graph import Graph
from editor.graph.loading import load_model
from editor.graph.model_file import check_same
from editor.graph.proposed_sizes import sizes_text, with_all_sizes
from editor.graph.states import Lengths
from editor.placement.choices import Aim, PolicyName, SubgraphRuleName
from editor.placement.chosen_costs import costs_of_plan
from editor.placement.device_map import DeviceMap, device_map
from editor.placement.device_profile import costs_of, save_profile
from editor.placement.energy import Energy, energy_of
from editor.placement.kept import Recipe, learned_since, moved_ops, with_affinity
from editor.placement.placement import Explanation, Placement, Settings, solve
from editor.placement.rules import parse_rules
from editor.placement.run_memory import RunMemory
from editor.placement.subgraphs.division import Boundary, Subgraph
from editor.runtimes.base import Capability, Value
from editor.text import pluralize
from editor.version import VERSION
from editor.workspace import plan_file

if TYPE_CHECKING:  # importing them would delay commands that do not need them
    from editor.advice.advice import Advice
    from editor.execution.compiled_plan import CompiledPlan
    from editor.execution.generation import Generation, Generator
    from editor.execution.measure.accuracy import Accuracy
    from editor.execution.measure.figures import BenchmarkResult
    from editor.exports.reproduction import Reproduction
    from editor.imports.device_figures import ProfileReport
    from editor.imports.placements import ImportReport
    from editor.workspace.phases import Phases
    from editor.workspace.sizes import AtSizes
    from editor.workspace.widget import PlanWidget


_Result = TypeVar("_Result")
_MOST_SUCCESSORS = 16
"""Times that a plan is solved again in a run."""


class Plan:
    """A model, devices and decisions, with the affinities and subgraphs that follow. Immutable."""

    def __init__(self, placement: Placement, prompt: Placement | None = None) -> None:
        if not isinstance(placement, Placement):
            raise PlanError(
                f"a plan is made by partition() and load_plan(), not of {shown(placement)}"
            )
        self.placement = placement
        self.prompt = prompt
        """The placement of a language model's prompt, at its sizes (see ``phases``); then this plan is of its tokens"""
        self._compiled_plan: CompiledPlan | None = None
        self._compiling = Lock()
        self._successor: Plan | None = None
        self._generator: tuple[Any, Generator] | None = None
        """What it was compiled for, and the plan with open sizes"""

    def __repr__(self) -> str:
        counts = ", ".join(f"{n} on {d}" for d, n in self.placement.op_counts.items() if n)
        return f"<Plan {self.graph.name!r}: {pluralize(len(self.subgraphs), 'subgraph')}, ops: {counts or 'none'}>"

    @property
    def graph(self) -> Graph:
        """The model."""
        return self.placement.graph

    @property
    def devices(self) -> tuple[Device, ...]:
        """The device table, in order of priority."""
        return self.placement.devices

    @property
    def settings(self) -> Settings:
        """Policy, pins, rules and subgraph rule."""
        return self.placement.settings

    @property
    def pins(self) -> Mapping[str, str]:
        """Op key -> label."""
        return self.placement.settings.pins

    @property
    def affinity(self) -> dict[str, str]:
        """Op key -> device name; a constant has the device of its first consumer."""
        return self.placement.affinity

    @property
    def subgraphs(self) -> tuple[Subgraph, ...]:
        """The subgraphs in topological order; ``subgraphs[i].id == i``."""
        return self.placement.subgraphs

    @property
    def boundaries(self) -> tuple[Boundary, ...]:
        """Tensors that cross subgraphs."""
        return self.placement.boundaries

    @property
    def transfers(self) -> tuple[Boundary, ...]:
        """Boundary tensors that another device reads."""
        return self.placement.division.transfers

    @property
    def run_memory(self) -> RunMemory:
        """The memory that a run holds on each device, op by op; ``run_memory.peaks`` are bytes by device."""
        return self.placement.run_memory

    def energy(self) -> Energy | None:
        """Joules of one run by device, as an estimate from the ``power`` of the device table and the plan's times.

        None where the table states the watts of no device that the plan uses.
        """
        return energy_of(self.placement, *costs_of_plan(self.placement))

    def why(self, key: str) -> Explanation:
        """Per device allowed or refused with the reason, and why the op is where it is."""
        return self.placement.why(key)

    def device_map(self) -> DeviceMap:
        """Module path -> device for the modules of a PyTorch model that are on one device each, as `accelerate` takes it.

        ``device_map().split`` are the modules that are on several.
        """
        return device_map(self.placement)

    def repin(self, pins: Mapping[str, str | None], force: bool = False) -> Plan:
        """A new plan with pins added, changed or (None) removed; everything else is solved again.

        Args:
            pins: op key -> label, or None to unpin.
            force: keep pins to devices that cannot run the op; execution will report them.

        Raises:
            PinError: an op or label is unknown, or the device cannot run the op.
        """
        merged, forced = dict(self.pins), set(self.settings.forced)
        for key, label in as_mapping(pins, "pins", PinError).items():
            merged.pop(key, None)
            forced.discard(key)
            if label is not None:
                merged[key] = label
                if force:
                    forced.add(key)
        settings = replace(self.settings, pins=merged, forced=frozenset(forced))
        return Plan(
            solve(self.graph, self.devices, settings, self.placement.constraints.capabilities)
        )

    def import_affinities(self, path: str | Path) -> tuple[Plan, ImportReport]:
        """A new plan with the affinities of a file as pins; what the devices refuse is reported, not forced.

        Args:
            path: another plan, a DOT dump of OpenVINO or ours, JSON or CSV of op and device, Glow's partition
                config or device table, an annotated ONNX model, or what ONNX Runtime or TensorRT says of a session: a
                profile, a verbose log, a recorded assignment, the layers of an engine.

        Raises:
            PlanError: the file cannot be read.
        """
        from editor.imports.placements import with_affinities

        placement, report = with_affinities(self.placement, path)
        return Plan(placement), report

    def import_profile(
        self, path: str | Path, device: str = "", machine: str = "", day: date | None = None
    ) -> tuple[Plan, ProfileReport]:
        """Stores times of another machine as the profile of a device, in place of a former one.

        Args:
            path: what ONNX Runtime's profiler, OpenVINO's benchmark_app or TensorRT's trtexec wrote, or a table of op and
                microseconds.
            device: its name; by default the only planned one, or the one that the file's name has in it.
            machine: name of the machine that was measured, which figures then state.
            day: when it was measured; by default when the file was written.

        Returns:
            the plan, solved again where its policy uses profiles; and what the file covers.

        Raises:
            PlanError: the file cannot be read, has no such times, or none of an op of the model.
        """
        from editor.imports.device_figures import day_of, device_of, profile_from_layers
        from editor.imports.profile_files import read_times

        path = as_path(path, "a profile", PlanError)
        device = as_text(device, "device", PlanError)
        machine = as_text(machine, "machine", PlanError)
        if not isinstance(day, date | None):
            raise PlanError(f"day must be a date, not {shown(day)}")
        times = read_times(path)
        chosen = device_of(
            self.devices, device or (times.measured.device if times.measured else ""), path.name
        )
        profile, report = profile_from_layers(
            self.placement, chosen, times, machine, day or day_of(path)
        )
        save_profile(self.graph, chosen, profile)
        return Plan(
            solve(self.graph, self.devices, self.settings, self.placement.constraints.capabilities)
        ), report

    @property
    def _compiled(self) -> CompiledPlan:
        from editor.execution.executor import compile_placement

        with self._compiling:
            if self._compiled_plan is None:
                self._compiled_plan = compile_placement(self.placement)
            return self._compiled_plan

    def compile(self, threads: int = 0, requests: int = 1) -> CompiledPlan:
        """Cuts and compiles every subgraph in this process.

        Args:
            threads: per subgraph; 0 leaves the choice to the runtime.
            requests: runs in flight at the same time, each on a clone.

        Raises:
            ExecutionError: a runtime refuses a subgraph.
        """
        from editor.execution.executor import compile_placement

        threads = as_count(threads, "threads", 0, MOST_THREADS)
        requests = as_count(requests, "requests in flight", 1, MOST_REQUESTS)
        if threads == 0 and requests == 1:
            return self._compiled
        return compile_placement(self.placement, threads, requests=requests)

    @property
    def successor(self) -> Plan | None:
        """The plan that runs in the place of this one since a subgraph failed; None as long as none did."""
        return self._successor

    def run(self, inputs: Mapping[str, Value], *, strict: bool = False) -> dict[str, Any]:
        """Runs once; compiles on first use. Returns output name -> numpy array.

        Where a subgraph fails although its ops do not, the ops at fault are found, the plan is solved again without them
        on that device, and a warning says so: ``successor`` is the plan that ran. The reason is kept for later plans.

        Several threads may call this: their runs take turns, and each gets the results of its own inputs, in arrays that later
        runs do not change. Threads that compute at the same time each need a clone, ``plan.compile(requests=4).clone()``.

        Args:
            inputs: a value for every graph input, by name; also for initializers that the model declares as inputs.
            strict: raise ``SubgraphError`` in place of solving again.

        Raises:
            ExecutionError: an input does not fit the model, or a runtime failed.
        """
        return self._until_it_runs(lambda plan: plan._compiled.run(inputs), lambda: inputs, strict)

    def _until_it_runs(
        self,
        work: Callable[[Plan], _Result],
        inputs: Callable[[], Mapping[str, Value]],
        strict: bool,
    ) -> _Result:
        """What some work with the plan returns, or with the successor that is made of it where a subgraph fails."""
        plan = self
        for _ in range(_MOST_SUCCESSORS):
            plan = plan._successor or plan
            try:
                return work(plan)
            except SubgraphError as error:
                if strict:
                    raise
                from editor.execution.learning import improved

                placement, text = improved(plan.placement, error, inputs())
                warnings.warn(text, stacklevel=3)
                plan._successor = Plan(placement)
        raise ExecutionError(
            f"{self.graph.name} was solved {_MOST_SUCCESSORS} times, and still fails"
        )

    def benchmark(
        self,
        seconds: float = 2.0,
        mode: Aim = "latency",
        requests: int = 4,
        threads: int = 0,
        inputs: Mapping[str, Value] | None = None,
        *,
        strict: bool = False,
    ) -> BenchmarkResult:
        """Benchmarks the plan and the unsplit model, interleaved, in this process.

        Where a subgraph fails, ``successor`` is measured, as in ``run``; ``strict`` raises ``SubgraphError`` instead.
        """
        from editor.execution.invented_inputs import random_inputs
        from editor.execution.measure.benchmark import Benchmark

        def measured(plan: Plan) -> BenchmarkResult:
            placements = {self.graph.name: plan.placement}
            return Benchmark(placements, seconds, mode, requests, threads, inputs).run()[0]

        def given() -> Mapping[str, Value]:
            return random_inputs(self.graph) if inputs is None else inputs

        return self._until_it_runs(measured, given, strict)

    def accuracy(
        self,
        reference: Graph | str | Path | Mapping[str, Any] | None = None,
        inputs: Mapping[str, Value] | None = None,
        *,
        every_tensor: bool = False,
        tolerance: float | None = None,
        threads: int = 0,
        progress: Callable[[int, int, str], None] | None = None,
    ) -> Accuracy:
        """Runs the plan once and compares its tensors with a reference, in this process.

        Args:
            reference: None for the unsplit model in float32 on the CPU; the float original of a quantised or converted model,
                as a graph or a path; or values by the names of tensors.
            inputs: values by name; invented where they are left out.
            every_tensor: all tensors, not those at the ends of subgraphs only.
            tolerance: of the relative error; None: by the element type and the precision of the devices.
            threads: per subgraph; 0 leaves the choice to the runtime.
            progress: called with (done, total, text).

        Raises:
            ExecutionError: the plan or the reference does not run, or the reference is of another model or of other sizes.
        """
        from editor.execution.invented_inputs import random_inputs
        from editor.execution.measure import accuracy

        if tolerance is not None and not 0 < tolerance < float("inf"):
            raise ExecutionError(f"the tolerance must be a number above 0, not {shown(tolerance)}")
        threads = as_count(threads, "threads", 0, MOST_THREADS)
        if isinstance(reference, Mapping) and inputs is None:
            raise ExecutionError("values of a reference are of certain inputs: give these, too")
        values = random_inputs(self.graph) if inputs is None else inputs
        if reference is None:
            made = accuracy.unsplit_reference(self.placement, values, threads)
        elif isinstance(reference, Mapping):
            known = as_mapping(reference, "the reference", ExecutionError)
            made = accuracy.given_reference(self.placement, known)
        else:
            original = (
                reference
                if isinstance(reference, Graph)
                else accuracy.load_original(as_path(reference, "a model", ModelError), self.graph)
            )
            made = accuracy.original_reference(self.placement, original, values, threads)
        return accuracy.measure_accuracy(
            self.placement, values, made, every_tensor, tolerance, threads, progress
        )

    def generate(
        self,
        tokens: Sequence[int] | Mapping[str, Value],
        new: int,
        *,
        inputs: Mapping[str, Value] | None = None,
        state: Mapping[str, str] | None = None,
        threads: int = 0,
    ) -> Generation:
        """Runs the model as a language model: the prompt, then the most likely token, one after the other.

        What a step leaves to the next one stays on the devices that made it. Sizes are open: those of the plan do not matter.

        Args:
            tokens: ids of the prompt; or values by the names of inputs, those of the tokens among them.
            new: tokens to generate.
            inputs: values of inputs that are neither tokens, masks, positions nor states.
            state: output -> input of the next step, beside those that names and ``genai_config.json`` beside the model say.
            threads: per subgraph; 0 leaves the choice to the runtime.

        Raises:
            ExecutionError: the model keeps no state, an input has no value, or a runtime failed.
            ModelError: a pair of ``state`` is not one.
        """
        from editor.execution.generation import Generator, split_inputs

        new = as_count(new, "new tokens", 1, MOST_TOKENS)
        key = (tuple(sorted((state or {}).items())), as_count(threads, "threads", 0, MOST_THREADS))
        with self._compiling:
            if self._generator is None or self._generator[0] != key:
                self._generator = key, Generator.of(self.placement, state, threads, self.prompt)
            runner = self._generator[1]
            prompt, given = split_inputs(runner, tokens)
            return runner.generate(prompt, new, {**given, **(inputs or {})})

    def phases(self, prompt: int, new: int) -> tuple[Plan, Phases]:
        """Places the prompt and the tokens of a language model, each at its sizes, for the soonest answer.

        Args:
            prompt: tokens of the prompt.
            new: tokens of the answer.

        Returns:
            the plan of the tokens, whose ``prompt`` is the placement of the prompt and whose ``generate`` uses both; and what
            was weighed.

        Raises:
            ModelError: the model keeps no state that grows, or fixes how many tokens a step has.
        """
        from editor.workspace.phases import place_phases

        lengths = Lengths(
            as_count(prompt, "tokens of the prompt", 1, MOST_TOKENS),
            as_count(new, "new tokens", 1, MOST_TOKENS),
        )

        found = place_phases(self.placement, lengths, self._at)
        return Plan(found.token, found.prompt), found

    def export(
        self, form: ExportForm, out_dir: str | Path, **options: str | os.PathLike[str]
    ) -> list[Path]:
        """Writes the plan in a format; returns the paths.

        Args:
            form: the format.
            out_dir: the folder.
            options: of the format; ``editor.exports.formats`` has all of them, and what they may be.

        Raises:
            ExportError: the format, an option or its value is unknown, or the folder cannot be written.
        """
        folder = as_path(out_dir, "the folder of an export", ExportError)
        given = {
            name: as_text(
                os.fspath(value) if isinstance(value, os.PathLike) else value,
                f"the option {name} of an export",
                ExportError,
            )
            for name, value in options.items()
        }
        check(as_text(form, "the format of an export", ExportError), given)
        if form == "plan":
            return [self.save(folder / "plan.json")]
        if "compare" in given:
            from editor.exports.report import write_comparison

            layouts = {"this plan": self.placement, **self._others(given["compare"])}
            of_this = {name: given[name] for name in ("measured", "accuracy") if name in given}
            return write_comparison(layouts, folder, self.stamp, **of_this)
        if "plans" in given:
            from editor.exports.onnxruntime import write_model_package as write

            return write(self.placement, folder, self.stamp, self._others(given["plans"]))
        if form == "genai" and self.prompt is not None:
            from editor.exports.genai import write_genai

            return write_genai(self.placement, folder, self.stamp, self.prompt)
        return export_placement(self.placement, form, folder, self.stamp, **given)

    def write_kit(
        self, out_dir: str | Path, device: str = "", runtime: KitRuntime | Literal[""] = ""
    ) -> list[Path]:
        """Writes a folder that measures the ops of a device on a machine without the editor; returns the paths.

        ``run.py`` in it writes ``profile.json``, which ``import_profile`` reads.

        Args:
            out_dir: the folder.
            device: name of the device; "" for the only planned one.
            runtime: what measures there; "" for the one that the other machine has.

        Raises:
            ExportError: the device or the runtime is unknown, the device can run no op, or the folder cannot be written.
        """
        from editor.exports.kit import write_kit

        return write_kit(
            self.placement,
            as_path(out_dir, "the folder of a kit", ExportError),
            self.stamp,
            as_text(device, "device", ExportError),
            as_text(runtime, "runtime", ExportError),
        )

    def advise(self, out_dir: str | Path | None = None) -> list[Advice]:
        """Tries other forms of the ops that a device refuses; the most helpful one first.

        Each is applied to a copy of the model, placed with the decisions of this plan, and run on ONNX Runtime's CPU beside
        the model with the same invented inputs.

        Args:
            out_dir: a folder for the new models that help; None keeps none of them.

        Raises:
            ModelError: the model is not ONNX.
        """
        from editor.advice.advice import advise

        folder = None if out_dir is None else as_path(out_dir, "the folder of advice", ExportError)
        return advise(self.placement, folder)

    def write_reproduction(self, key: str, out_dir: str | Path, device: str = "") -> Reproduction:
        """Writes one op as a model of its own, with inputs, for a report to those who make a runtime.

        Args:
            key: of the op, or its name where no other has that.
            out_dir: the folder.
            device: the device that refuses it; "" for the first that does.

        Raises:
            ExportError: there is no such op or device, the op cannot be cut out, or the folder cannot be written.
        """
        from editor.exports.reproduction import write_reproduction

        return write_reproduction(
            self.placement,
            as_text(key, "the key of an op", ExportError),
            as_path(out_dir, "the folder of a reproduction", ExportError),
            self.stamp,
            as_text(device, "device", ExportError),
        )

    def _others(self, compare: str) -> dict[str, Placement]:
        if compare == "tools":
            from editor.workspace.layouts import of_other_tools

            return {
                one.name: one.placement
                for one in of_other_tools(self.placement)
                if one.placement is not None
            }
        paths = [Path(part.strip()) for part in compare.split(",") if part.strip()]
        names = [p.stem if p.stem != "plan" else p.parent.name or p.stem for p in paths]
        names = names if len(set(names)) == len(names) else [str(p) for p in paths]
        return {name: load_plan(p).placement for name, p in zip(names, paths, strict=True)}

    @property
    def stamp(self) -> str:
        """Line that states the tool and plan of an export."""
        return f"Hetero Editor {VERSION}, plan sha256 {self.sha256}"

    def _repr_html_(self) -> str:
        """The standalone page in a frame, for a notebook cell."""
        from editor.exports.report import standalone

        page = html.escape(standalone({"this plan": self.placement}, self.stamp), quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:640px;border:1px solid #ccc" title="Hetero Editor"></iframe>'

    def widget(self) -> PlanWidget:
        """The graph with a brush, for a notebook: ``widget.plan`` is the plan after the last stroke.

        Raises:
            EditorError: anywidget is not installed, or the model has too many ops to draw each.
        """
        from editor.workspace.widget import PlanWidget

        return PlanWidget(self)

    def save(self, path: str | Path) -> Path:
        """Writes ``plan.json``; the model's path is relative to it where possible."""
        path = as_path(path, "a plan's file", ExportError)
        return write_atomic(path, self.to_json(path))

    def to_json(self, path: str | Path | None = None) -> str:
        """The text of ``plan.json``; ``path`` is the path of the file."""
        path = None if path is None else as_path(path, "a plan's file", ExportError)
        totals = {
            "subgraphs": len(self.subgraphs),
            "bytes_moved": self.placement.division.bytes_moved,
        }
        document = plan_file.to_dict(self.placement, path, self.prompt) | {
            "totals": totals,
            "made_by": self.stamp,
        }
        return json.dumps(document, indent=1, ensure_ascii=True) + "\n"

    @property
    def sha256(self) -> str:
        """Hash of the plan, independent of file locations."""
        document = plan_file.to_dict(self.placement, None, self.prompt)
        document["model"].pop("path")
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()

    def at_sizes(
        self,
        sizes: Mapping[str, int | Sequence[int]] | Sequence[Mapping[str, int]],
        progress: Callable[[int, int, str], None] | None = None,
    ) -> list[AtSizes]:
        """The same decisions at other sizes of the inputs, solved again; nothing is run.

        Args:
            sizes: name of a dimension of ``graph.define`` -> size, or sizes, of which every combination is solved; or a list
                of such sets, each name with one size, where sizes go together.
            progress: called before each set of sizes with (done, total, sizes).

        Raises:
            EditorError: the model has no such dimension.
        """
        from editor.workspace.sizes import at_sizes, checked_sizes

        sets = checked_sizes(sizes)

        return at_sizes(self.placement, sets, self._at, progress)

    def _at(self, define: Mapping[str, int]) -> tuple[Graph, None]:
        """The model at other sizes; the runtimes are asked what they can run of it."""
        return check_same(load_model(self.graph.path, define), self.graph.sha256), None

    def recipe(self) -> Recipe:
        """The serializable description from which a job solves this plan."""
        return _recipe(self.placement, self.prompt)


def _recipe(placement: Placement, prompt: Placement | None) -> Recipe:
    graph = placement.graph
    return Recipe(
        str(graph.path.absolute()),
        graph.sha256,
        dict(graph.define),
        [dict(d.entry) for d in placement.devices],
        placement.settings,
        placement.affinity,
        None if prompt is None else _recipe(prompt, None),
    )


def partition(
    graph: Graph | str | Path,
    devices: Spec | Sequence[Device],
    policy: PolicyName = "priority",
    pins: Mapping[str, str] | None = None,
    rules: Any = (),
    subgraphs: SubgraphRuleName = "minimal",
    *,
    policy_options: Mapping[str, Any] | None = None,
    forced: frozenset[str] = frozenset(),
    capabilities: Sequence[Capability] | None = None,
) -> Plan:
    """Chooses a device for every op and forms the subgraphs.

    Args:
        graph: from ``load_model``, or the path of a model. Symbols without a size get the proposed ones
            (``graph.proposed_sizes``), with a warning.
        devices: a device table, or what ``load_devices`` takes.
        policy: the automatic mode.
        pins: op key -> device name or label of a level.
        rules: what ``parse_rules`` takes: mappings such as ``{"type": "Conv", "to": "GPU"}``, in order.
        subgraphs: the way to form subgraphs.
        policy_options: settings of the policy.
        forced: keys whose pin holds although the device cannot run the op.
        capabilities: what each device can run; asked of the runtimes when left out.

    Raises:
        UnboundSymbolError: sizes are open and none can be proposed.
        DeviceTableError: the table is not one.
        PinError: the op or device of a pin is unknown, or the device cannot run the op.
        UnsupportedOpError: an op that no device may run.
        EditorError: a rule, the policy or one of its options is not one, or no placement fits the memory.
    """
    graph, sizes = with_all_sizes(graph if isinstance(graph, Graph) else load_model(graph))
    if sizes:
        warnings.warn(
            f"sizes assumed: {sizes_text(sizes)}; load_model(path, define={{...}}) changes them",
            stacklevel=2,
        )
    table = as_devices(devices)
    options = {} if policy_options is None else as_mapping(policy_options, "policy_options")
    settings = Settings(
        as_text(policy, "policy"),
        options,
        {} if pins is None else as_mapping(pins, "pins", PinError),
        forced,
        as_text(subgraphs, "subgraphs"),
        parse_rules(rules),
    )
    if not isinstance(forced, Set):
        raise PinError(f"forced must be a set of keys, not {shown(forced)}")
    if capabilities is not None and [type(one) for one in _sequence(capabilities)] != [
        Capability
    ] * len(table):
        raise EditorError(
            f"capabilities must be a list of one Capability for each device, not {shown(capabilities)}"
        )
    return Plan(solve(graph, table, settings, capabilities))


def _sequence(value: object) -> Sequence[object]:
    return value if isinstance(value, Sequence) else ()


def load_plan(path: str | Path) -> Plan:
    """Reads ``plan.json``, finds its model and solves again.

    Where solving gives other devices than the file has, those of the file are kept, with a warning: another machine, another
    profile or a search that ended earlier decided differently, and the placement of the file is what was seen. A change of the
    plan solves it again.

    Raises:
        PlanError: the file is damaged, of another version, its model is gone or changed, or this
            machine's runtimes cannot run ops where the plan has them.
    """
    path = as_path(path, "a plan's file", PlanError)
    document = plan_file.read(path)
    graph, devices, settings = plan_file.parts(document, path)
    settings = with_costs_of_here(graph, devices, settings, path)
    affinity = {key: str(device) for key, device in document["affinities"].items()}
    tokens = _as_stored(solve(graph, devices, settings), affinity, path)
    phase = plan_file.prompt_of(document, path)
    if phase is None:
        return Plan(tokens)
    prompt = check_same(load_model(graph.path, phase[0]), graph.sha256)
    return Plan(tokens, _as_stored(solve(prompt, devices, settings), phase[1], path))


def _as_stored(solved: Placement, affinity: Mapping[str, str], path: Path) -> Placement:
    """A placement with the devices of its file, where these can still run the ops."""
    graph, devices = solved.graph, solved.devices
    if learned := learned_since(graph, devices, affinity):
        warnings.warn(
            f"{path}: {pluralize(len(learned), 'op')} failed in a run since where the plan had them "
            f"({', '.join(sorted(learned)[:3])}), and {'is' if len(learned) == 1 else 'are'} elsewhere now",
            stacklevel=3,
        )
        affinity = {key: device for key, device in affinity.items() if key not in learned}
    changed = moved_ops(solved, affinity)
    if not changed:
        return solved
    try:
        kept = with_affinity(solved, affinity, "the plan's file has it there")
    except EditorError as error:
        raise PlanError(
            f"{path}: {len(changed)} ops cannot stay on the devices that the plan gave them: {error}"
        ) from error
    free = kept.settings == solved.settings
    warnings.warn(
        f"{path}: solved here, {pluralize(len(changed), 'op')} would be on other devices than in the file; "
        f"the placement of the file is kept{'' if free else ', as pins'}",
        stacklevel=3,
    )
    return kept


def with_costs_of_here(
    graph: Graph, devices: Sequence[Device], settings: Settings, path: Path
) -> Settings:
    """Settings of a plan's file; where they ask for measured costs that this machine lacks, with estimates and a warning."""
    try:
        if settings.policy_options.get("costs") == "measured":
            costs_of(graph, devices, "measured")
    except NoProfileError as error:
        warnings.warn(
            f"{path}: its times are from a profile; {error}. Times are estimates until then",
            stacklevel=3,
        )
        return replace(settings, policy_options={**settings.policy_options, "costs": "estimate"})
    return settings
