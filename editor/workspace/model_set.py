"""Several models behind one answer, such as an encoder and a decoder, on one device table: memory and load add up."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from editor.arguments import as_mapping, as_path, as_text, shown
from editor.devices.device import Device
from editor.devices.table import Spec, as_devices, load_devices
from editor.errors import EditorError, ModelError, PlanError
from editor.files import json_text, parse_json, read_text, write_atomic
from editor.graph.flops import op_flops
from editor.graph.graph import Graph
from editor.graph.loading import load_model
from editor.graph.model_file import MODEL_SUFFIXES
from editor.graph.proposed_sizes import with_all_sizes
from editor.graph.states import states_of
from editor.kinds import Basis, weakest
from editor.placement.chosen_costs import assumed_speeds, costs_of_plan, left_out
from editor.placement.placement import Placement, Settings, solve
from editor.runtimes.base import Capability
from editor.runtimes.registry import capability
from editor.text import human_bytes, in_words, pluralize
from editor.workspace.plan import Plan, load_plan
from editor.workspace.plan_file import stored_path

FORMAT, VERSION = "hetero-editor/set", 1
_FILE = "set.json"
TOKENS = 64
"""Times that a decoder runs in an answer, where nothing else is said."""
STEPS = 20
"""Times that the denoiser of a diffusion model runs, where nothing else is said."""
MOST_MODELS = 16
Source = Literal["given", "assumed"]
_MOST_RUNS = 1e9
_MOST_ORDERED = 4
"""Models of which every order is tried."""
_MOST_TRIES = 8
"""Solutions of a model with less memory each time."""
_WITHIN_MEMORY = ("memory", "pipeline")
"""Policies that keep within the memory of devices."""
_DENOISERS = ("unet", "transformer", "denoiser")
_VARIANTS = {
    "decoder_model_merged": ("decoder_model", "decoder_with_past_model"),
    "decoder_with_past_model": (),
}
"""Stem of a model -> stems of those that do the same, as Optimum writes them side by side."""


@dataclass(frozen=True)
class Member:
    """A model of a set."""

    name: str
    plan: Plan
    runs: float
    """Runs for one answer"""
    source: Literal["given", "assumed"]
    """Of ``runs``"""
    seconds: float
    """seconds of one run"""
    basis: Basis
    assumed_speeds: tuple[str, ...] = ()
    """Accelerators whose speed ``seconds`` assumes"""
    left_out: tuple[str, ...] = ()
    """What ``seconds`` does not have in it or assumes, in words"""

    @property
    def of_answer(self) -> float:
        """seconds of an answer."""
        return self.runs * self.seconds

    def in_words(self, seconds: float) -> str:
        """Some of its seconds, in rough figures where they rest on assumed speeds."""
        return in_words(seconds, bool(self.assumed_speeds))


@dataclass(frozen=True)
class SharedDevice:
    """A device, and what all models of a set take of it."""

    device: str
    weights: int
    """bytes of all models, which stay"""
    run: int
    """bytes that the run which needs most holds beside the weights"""
    limit: int | None
    """bytes"""
    busy: float
    """seconds of an answer in which it computes"""

    @property
    def needed(self) -> int:
        """bytes"""
        return self.weights + self.run

    @property
    def lacking(self) -> int:
        """bytes that are too few; 0 where all fits."""
        return 0 if self.limit is None else max(self.needed - self.limit, 0)


class ModelSet:
    """Plans of several models that run one after the other on the same devices."""

    def __init__(self, members: Sequence[Member], devices: Sequence[Device]) -> None:
        self.members = tuple(members)
        self.devices = tuple(devices)
        """The table that they share; the table of each plan has the memory that the others leave"""

    def __repr__(self) -> str:
        return f"<ModelSet: {', '.join(each.name for each in self.members)}>"

    @property
    def seconds(self) -> float:
        """seconds of an answer: every model as often as it runs."""
        return sum(each.of_answer for each in self.members)

    @property
    def answer_in_words(self) -> str:
        """``seconds``, in rough figures where they rest on assumed speeds."""
        return self.in_words(self.seconds)

    def in_words(self, seconds: float) -> str:
        """A part of ``seconds``, in rough figures where these are."""
        return in_words(seconds, self.is_rough)

    @property
    def is_rough(self) -> bool:
        """Whether ``seconds`` rest on assumed speeds."""
        return any(each.assumed_speeds for each in self.members)

    @property
    def basis(self) -> Basis:
        """What ``seconds`` is."""
        return weakest([each.basis for each in self.members])

    @property
    def left_out(self) -> list[str]:
        """What ``seconds`` does not have in it or assumes, in words."""
        return list(dict.fromkeys(words for each in self.members for words in each.left_out))

    @property
    def shared(self) -> list[SharedDevice]:
        """[device] memory and load of all models together."""
        found = []
        for device in self.devices:
            held = self.held(device.name)
            found.append(
                SharedDevice(
                    device.name,
                    sum(weights for weights, _ in held),
                    max(run for _, run in held),
                    device.memory,
                    sum(
                        each.runs * _busy(each.plan.placement, device.name) for each in self.members
                    ),
                )
            )
        return found

    def held(self, device: str) -> list[tuple[int, int]]:
        """[model] bytes of weights on a device, and bytes that a run holds beside them."""
        return [
            next(
                ((m.constants, m.peak - m.constants) for m in memories if m.device == device),
                (0, 0),
            )
            for memories in (each.plan.run_memory.devices for each in self.members)
        ]

    def to_dict(self, path: Path | None = None) -> dict[str, Any]:
        """For JSON.

        Args:
            path: of ``set.json``, to which the paths of models are relative; None keeps them absolute.
        """
        return {
            "format": FORMAT,
            "version": VERSION,
            "seconds": self.seconds,
            "kind": self.basis.kind,
            "models": [
                {
                    "name": each.name,
                    "model": stored_path(each.plan.graph.path, path),
                    "plan": f"{each.name}/plan.json",
                    "runs": each.runs,
                    "runs_source": each.source,
                    "seconds": each.seconds,
                    "kind": each.basis.kind,
                    "subgraphs": len(each.plan.subgraphs),
                    "ops": dict(each.plan.placement.op_counts),
                }
                for each in self.members
            ],
            "devices": [
                {
                    "name": each.device,
                    "weights": each.weights,
                    "run": each.run,
                    "limit": each.limit,
                    "busy": each.busy,
                }
                for each in self.shared
            ],
            "table": [dict(device.entry) for device in self.devices],
        }

    def text(self) -> str:
        """A few lines for a terminal."""
        lines = [f"One answer: {self.answer_in_words} ({self.basis.kind})"]
        for each in self.members:
            ops = ", ".join(f"{n} on {d}" for d, n in each.plan.placement.op_counts.items() if n)
            times = f"{each.runs:g} x {each.in_words(each.seconds)}"
            assumed = " (assumed)" if each.source == "assumed" and each.runs != 1 else ""
            lines.append(
                f"  {each.name}: {times}{assumed} = {each.in_words(each.of_answer)}; "
                f"{pluralize(len(each.plan.subgraphs), 'subgraph')}, ops: {ops}"
            )
        for device in self.shared:
            limit = f" of {human_bytes(device.limit)}" if device.limit is not None else ""
            over = ", OVER ITS MEMORY: the policy memory keeps within it" if device.lacking else ""
            lines.append(
                f"  {device.device}: {human_bytes(device.needed)}{limit} ({human_bytes(device.weights)} of weights), "
                f"computes for {self.in_words(device.busy)}{over}"
            )
        return "\n".join(lines)

    def save(self, out_dir: str | Path) -> list[Path]:
        """Writes ``set.json``, and for each model a folder with its ``plan.json``."""
        folder = as_path(out_dir, "the folder of a set", PlanError)
        paths = [each.plan.save(folder / each.name / "plan.json") for each in self.members]
        file = folder / _FILE
        return [write_atomic(file, json_text(self.to_dict(file))), *paths]


@dataclass(frozen=True)
class Entry:
    """A model as ``set.json`` names it."""

    name: str
    plan: Path
    runs: float
    source: Source


def read_set(path: str | Path) -> tuple[list[Entry], list[dict[str, Any]]]:
    """The models that ``set.json`` (or the folder that has it) names, and the device table that they share.

    Raises:
        PlanError: the file is damaged.
    """
    path = as_path(path, "a set's file", PlanError)
    path = path / _FILE if path.is_dir() else path
    try:
        document = parse_json(read_text(path, PlanError))
        if document.get("format") != FORMAT or document.get("version") != VERSION:
            raise PlanError(f"{path}: not a set of models of Hetero Editor")
        entries = [
            Entry(
                _checked_name(str(entry["name"])),
                path.parent / os.path.normpath(str(entry["plan"])),
                checked_runs(str(entry["name"]), entry["runs"]),
                "given" if entry.get("runs_source") == "given" else "assumed",
            )
            for entry in document["models"]
        ]
        table = [dict(entry) for entry in document["table"]]
    except (json.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise PlanError(f"{path}: damaged set ({type(error).__name__}: {error})") from error
    except ModelError as error:
        raise PlanError(f"{path}: {error}") from error
    if not entries:
        raise PlanError(f"{path}: the set has no models")
    return entries, table


def _checked_name(name: str) -> str:
    """The name of a model, which is that of its folder where the set is written."""
    if name in ("", ".", "..") or set(name) & set("/\\\0"):
        raise ValueError(f"{shown(name)} is no name of a model")
    return name


def load_set(path: str | Path) -> ModelSet:
    """Reads ``set.json``, or the folder that has it, and its plans.

    Raises:
        PlanError: the file is damaged, or a plan cannot be read.
    """
    entries, table = read_set(path)
    return ModelSet(
        [member_of(each.name, load_plan(each.plan), each.runs, each.source) for each in entries],
        load_devices(table),
    )


def is_set(path: Path) -> bool:
    """Whether a path is of several models: ``set.json``, the folder that has it, or a folder of models."""
    if path.is_dir():
        if (path / _FILE).is_file():
            return True
        try:
            return len(model_paths(path)) > 1
        except ModelError:
            return False  # what opens the path says why
    try:
        document = parse_json(read_text(path, PlanError)) if path.suffix == ".json" else None
    except (EditorError, json.JSONDecodeError):
        return False
    return isinstance(document, dict) and document.get("format") == FORMAT


def partition_set(
    models: Sequence[str | Path] | str | Path,
    devices: Spec | Sequence[Device],
    policy: str = "memory",
    runs: Mapping[str, float] | None = None,
    define: Mapping[str, int] | None = None,
    *,
    rules: Any = (),
    policy_options: Mapping[str, Any] | None = None,
) -> ModelSet:
    """Places several models on one device table.

    The weights of all models are in memory at the same time, and one model runs at a time. Each is solved with the memory that
    the weights of the others leave: every order of the models (of more than four: by their load, and backwards), and then each
    again while the answer gets shorter.

    Args:
        models: paths of models, or a folder of them.
        devices: a device table, or what ``load_devices`` takes.
        policy: of each model; ``memory`` keeps within the memory of the devices.
        runs: name of a model (its file without the suffix) -> runs for one answer; by default 64 for a model with a state, 20
            for a denoiser, and 1.
        define: sizes of open dimensions, for the models that have them.
        rules: what ``parse_rules`` takes, for every model.
        policy_options: settings of the policy.

    Raises:
        ModelError: a path is not a model, or a name in ``runs`` or ``define`` is none.
        EditorError: no order fits the memory.
    """
    from editor.placement.rules import parse_rules

    paths = model_paths(models)
    graphs = _graphs(paths, {} if define is None else as_mapping(define, "define"))
    times = runs_of(graphs, {} if runs is None else as_mapping(runs, "runs"))
    table = as_devices(devices)
    options = {} if policy_options is None else as_mapping(policy_options, "policy_options")
    settings = Settings(as_text(policy, "policy"), options, rules=parse_rules(rules))
    placements = place_set(
        graphs,
        {name: n for name, (n, _) in times.items()},
        table,
        dict.fromkeys(graphs, settings),
    )
    taken = taken_by_others(placements)
    members = [
        member_of(name, Plan(placements[name].beside(taken[name])), *times[name]) for name in graphs
    ]
    return ModelSet(members, table)


def place_set(
    graphs: Mapping[str, Graph],
    runs: Mapping[str, float],
    devices: Sequence[Device],
    settings: Mapping[str, Settings],
    answers: Mapping[str, list[Capability]] | None = None,
    should_stop: Callable[[], bool] = bool,
) -> dict[str, Placement]:
    """Name -> placement of each model on one device table, as ``partition_set`` does it.

    Args:
        graphs: name -> model with all its sizes.
        runs: name -> runs for one answer.
        devices: the table that the models share.
        settings: name -> policy, pins and rules.
        answers: name -> the ops that each device can run; the runtimes are asked by default.
        should_stop: asked between and during solutions, which then end with what was found so far.

    Raises:
        EditorError: no order fits the memory.
    """
    if answers is None:
        answers = {
            name: [capability(graph, device) for device in devices]
            for name, graph in graphs.items()
        }
    return _Solver(graphs, runs, devices, settings, answers, should_stop).best()


def model_paths(models: Sequence[str | Path] | str | Path) -> list[Path]:
    """The models of a set: those that are named, or those of a folder and of the folders in it.

    Of models that do the same, as Optimum writes them side by side, one is taken. Those of a folder are in the order in which
    they run, as far as their names say it: encoders, embeddings, decoders, the last decoder of a VAE.

    Raises:
        ModelError: there is none, or there are too many.
    """
    given = [models] if isinstance(models, str | Path) else list(models)
    if not given or not all(isinstance(each, str | Path) for each in given):
        raise ModelError(f"the models of a set must be paths, not {shown(models)}")
    found: list[Path] = []
    for each in map(Path, given):
        if not each.is_dir() or (each / "saved_model.pb").is_file():
            found.append(each)
            continue
        folders = (each, *sorted(p for p in each.iterdir() if p.is_dir()))
        files = (file for folder in folders for file in folder.iterdir())
        inside = sorted(
            (file for file in files if file.suffix.lower() in MODEL_SUFFIXES),
            key=lambda file: (_stage(file.relative_to(each)), file),
        )
        stems = {file.stem for file in inside}
        same = {twin for stem, twins in _VARIANTS.items() if stem in stems for twin in twins}
        found += [file for file in inside if file.stem not in same]
        if not inside:
            raise ModelError(f"{each}: no model in this folder ({', '.join(MODEL_SUFFIXES)})")
    if len(found) > MOST_MODELS:
        raise ModelError(f"{len(found)} models; a set has at most {MOST_MODELS}: name them")
    return found


_STAGES = (("encoder", "vision"), ("embed",), ("unet", "transformer", "decoder"), ("vae_decoder",))
"""Words in the names of models, in the order in which these run for one answer."""


def _stage(path: Path) -> int:
    """When a model runs, by its name; those whose names say nothing run before decoders."""
    name = path.as_posix().lower()
    return next((i for i in (3, 0, 1, 2) if any(word in name for word in _STAGES[i])), 1)


class _Solver:
    """Solves models with the memory that the others leave."""

    def __init__(
        self,
        graphs: Mapping[str, Graph],
        runs: Mapping[str, float],
        devices: Sequence[Device],
        settings: Mapping[str, Settings],
        answers: Mapping[str, list[Capability]],
        should_stop: Callable[[], bool],
    ) -> None:
        self.graphs, self.runs, self.devices, self.settings = graphs, runs, devices, settings
        self._answers, self._should_stop = answers, should_stop
        self._known: dict[tuple[str, tuple[int | None, ...]], Placement | EditorError] = {}

    def best(self) -> dict[str, Placement]:
        """Name -> placement, for the shortest answer that was found.

        Raises:
            EditorError: no order fits.
        """
        best: dict[str, Placement] | None = None
        problem: EditorError | None = None
        for order in self._orders():
            try:
                found = self._improved(self._in_order(order), order)
            except EditorError as error:
                problem = problem or error
                continue
            if best is None or self._seconds(found) < self._seconds(best):
                best = found
        if best is None:
            raise problem or EditorError("the set has no models")
        return best

    def _orders(self) -> list[tuple[str, ...]]:
        limited = any(device.memory is not None for device in self.devices)
        names = tuple(self.graphs)
        if not limited:
            return [names]
        if len(names) <= _MOST_ORDERED:
            return list(itertools.permutations(names))
        heavy = sorted(
            names, key=lambda name: -self.runs[name] * float(op_flops(self.graphs[name]).sum())
        )
        return [tuple(heavy), tuple(reversed(heavy)), names]

    def _in_order(self, order: Sequence[str]) -> dict[str, Placement]:
        found: dict[str, Placement] = {}
        for name in order:
            found[name] = self._solved(name, found)
        return found

    def _improved(self, found: dict[str, Placement], order: Sequence[str]) -> dict[str, Placement]:
        """Each model once more, while that makes the answer shorter."""
        seconds = self._seconds(found)
        while True:
            for name in order:
                others = {key: value for key, value in found.items() if key != name}
                trial = {**found, name: self._solved(name, others)}
                if self._seconds(trial) <= self._seconds(found):
                    found = trial  # as long, it knows what the others take
            if self._seconds(found) >= seconds:
                return found
            seconds = self._seconds(found)

    def _solved(self, name: str, others: Mapping[str, Placement]) -> Placement:
        """A model beside others that are placed already, within what they leave.

        Its own weights lessen what is left for the runs of the others: where these no longer fit, it gets less.
        """
        limits = [device.memory for device in self.devices]
        left = [
            None
            if limit is None
            else limit - sum(o.run_memory.devices[i].constants for o in others.values())
            for i, limit in enumerate(limits)
        ]
        for _ in range(_MOST_TRIES):
            found = self._within(name, tuple(left))
            needed = _needed([found, *others.values()])
            over = [
                0 if limit is None else max(size - limit, 0)
                for size, limit in zip(needed, limits, strict=True)
            ]
            if not any(over) or self.settings[name].policy not in _WITHIN_MEMORY:
                return found
            left = [
                None if size is None else size - more for size, more in zip(left, over, strict=True)
            ]
        raise EditorError(f"{name}: it does not fit beside {', '.join(others)}")

    def _within(self, name: str, left: tuple[int | None, ...]) -> Placement:
        """A model solved with some memory; remembered."""
        key = name, left
        if key not in self._known:
            table = [
                d if m is None else d.beside((d.memory_of_table or d.memory or 0) - m)
                for d, m in zip(self.devices, left, strict=True)
            ]
            try:
                self._known[key] = solve(
                    self.graphs[name],
                    table,
                    self.settings[name],
                    self._answers[name],
                    self._should_stop,
                )
            except EditorError as error:
                self._known[key] = EditorError(f"{name}: {error}")
        found = self._known[key]
        if isinstance(found, EditorError):
            raise found
        return found

    def _seconds(self, found: Mapping[str, Placement]) -> float:
        return sum(
            self.runs[name] * placement.price(costs_of_plan(placement)[0]).total
            for name, placement in found.items()
        )


def _needed(placements: Sequence[Placement]) -> list[int]:
    """[device] bytes of all weights, and of the run that holds most beside them."""
    memories = [placement.run_memory.devices for placement in placements]
    return [
        sum(m.constants for m in device) + max(m.peak - m.constants for m in device)
        for device in zip(*memories, strict=True)
    ]


def taken_by_others(placements: Mapping[str, Placement]) -> dict[str, dict[str, int]]:
    """Model -> device -> bytes that the others take: with what the model needs, they are what all together need."""
    held = {
        name: {m.device: (m.constants, m.peak - m.constants) for m in placement.run_memory.devices}
        for name, placement in placements.items()
    }
    found: dict[str, dict[str, int]] = {name: {} for name in held}
    for device in {device for mine in held.values() for device in mine}:
        sizes = {name: mine.get(device, (0, 0)) for name, mine in held.items()}
        needed = sum(w for w, _ in sizes.values()) + max(run for _, run in sizes.values())
        for name, size in sizes.items():
            found[name][device] = needed - sum(size)
    return found


def member_of(name: str, plan: Plan, runs: float, source: Source) -> Member:
    """A model of a set with what a run of its plan takes."""
    costs, basis = costs_of_plan(plan.placement)
    seconds = plan.placement.price(costs).total
    assumed = tuple(assumed_speeds(plan.placement, costs))
    without = tuple(left_out(plan.placement, costs))
    return Member(name, plan, runs, source, seconds, basis, assumed, without)


def _busy(placement: Placement, device: str) -> float:
    """seconds in which a device computes in one run."""
    number = next((i for i, d in enumerate(placement.devices) if d.name == device), -1)
    costs, placed = costs_of_plan(placement)[0], placement.placed_ops
    mine = placed[placement.assignment.device[placed] == number]
    seconds = float(costs.op[mine, number].sum())
    if len(mine) < len(placed) or not seconds:
        return seconds
    # Of a plan that is not split, it is what its whole model took in the profile.
    return placement.price(costs).compute


def _graphs(paths: Sequence[Path], define: Mapping[str, int]) -> dict[str, Graph]:
    """Name -> model, with all its sizes."""
    found: dict[str, Graph] = {}
    used: set[str] = set()
    for path in paths:
        graph = load_model(path)
        mine = {
            key: size for key, size in define.items() if key in graph.unbound or key in _axes(graph)
        }
        used |= mine.keys()
        graph = load_model(path, mine) if mine else graph
        found[unique_name(path, found)] = with_all_sizes(graph)[0]
    if unknown := [key for key in define if key not in used]:
        raise ModelError(f"no model of the set has a dimension {unknown[0]!r} to choose")
    return found


def _axes(graph: Graph) -> set[str]:
    return {dim for dims in graph.input_dims.values() for dim in dims if isinstance(dim, str)}


def unique_name(path: Path, taken: Mapping[str, Any]) -> str:
    """The name of a model in its set: its file's, or its folder's where the file is called ``model``."""
    stem = path.name if path.is_dir() else path.stem
    name = path.absolute().parent.name if stem in ("model", "openvino_model") else stem
    number = 2
    while name in taken:
        name, number = f"{stem}_{number}", number + 1
    return name


def runs_of(
    graphs: Mapping[str, Graph], given: Mapping[str, float]
) -> dict[str, tuple[float, Source]]:
    """Name -> runs for one answer, and how they are known.

    Raises:
        ModelError: a name is none of a model, or its number is not above 0.
    """
    for name in given:
        if name not in graphs:
            raise ModelError(f"no model of the set is called {name!r}; it has: {', '.join(graphs)}")
    return {
        name: (checked_runs(name, given[name]), "given")
        if name in given
        else (_usual_runs(name, graph), "assumed")
        for name, graph in graphs.items()
    }


def checked_runs(name: str, count: Any) -> float:
    """Runs for one answer.

    Raises:
        ModelError: it is not a number above 0.
    """
    if isinstance(count, bool) or not isinstance(count, int | float) or not 0 < count <= _MOST_RUNS:
        raise ModelError(f"{name} runs {shown(count)} times: give a number above 0")
    return float(count)


def _usual_runs(name: str, graph: Graph) -> float:
    if any(word in name.lower() for word in _DENOISERS) and not states_of(graph):
        return STEPS
    return TOKENS if any(state.axis >= 0 for state in states_of(graph)) else 1
