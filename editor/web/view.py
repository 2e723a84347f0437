"""What the page needs to know of a plan after each stroke: small enough to send every time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from editor.devices.device import Device
from editor.errors import WorkspaceError
from editor.exports.dot import DEVICE_COLOURS, device_colour, subgraph_colours, text_colour
from editor.files import modified
from editor.graph.flops import Floats, op_bytes
from editor.graph.graph import bits_of
from editor.graph.states import Lengths, states_of
from editor.kinds import NO_DIFFERENCE, Basis, compare_medians, compare_rates
from editor.placement.choices import policy_choices
from editor.placement.chosen_costs import (
    aimed_rate,
    aims_at_throughput,
    assumed_speeds,
    chosen_costs,
    source_of_figures,
)
from editor.placement.costs import Costs, Price
from editor.placement.device_profile import basis_of, best_source, costs_of, profile_path
from editor.placement.placement import Placement, Settings, solve
from editor.placement.state_memory import full_at
from editor.placement.unsplit import on_one_device
from editor.text import human_bytes, human_seconds
from editor.web.drawing.elements import visible_ops
from editor.web.messages import Figures, Scale, View
from editor.web.rule_rows import rules_data
from editor.workspace.contexts import are_alike, is_at_sizes, is_of_lengths, lengths_of, of_sizes
from editor.workspace.document import Document
from editor.workspace.history import Run
from editor.workspace.layouts import Layout


def view_of(document: Document) -> View:
    """Per visible op: device, subgraph and pin state; and the devices they refer to.

    ``device``, ``part`` and ``pin`` are in the order of ``ops``; pin is 0 free, 1 pinned, 2 forced.
    Device numbers are positions in the table; colours belong to devices by name, so that they stay
    when the order changes.
    """
    placement = document.placement
    ops = visible_ops(document.graph)
    keys = document.graph.op_keys
    pins, forced = placement.settings.pins, set(placement.forced_ops)
    colours = colours_of(document)
    costs, basis = plan_costs(document)
    seconds, weights = (
        costs.op[ops, placement.assignment.device[ops]],
        op_bytes(document.graph)[ops],
    )
    return {
        "document": document.id,
        "version": document.version,
        "ops": ops,
        "device": placement.assignment.device[ops].tolist() if ops else [],
        "part": placement.division.subgraph_of_op[ops].tolist() if ops else [],
        "pin": [2 if op in forced else 1 if keys[op] in pins else 0 for op in ops]
        if pins
        else [0] * len(ops),
        "devices": [
            {
                "name": d.name,
                "fill": colours[d.name],
                "ink": text_colour(colours[d.name]),
                "planned": d.planned,
                "bits": bits_of(d.published.assumes),
                "levels": d.labels(),
            }
            for d in placement.devices
        ],
        "palette": [{"fill": c, "ink": text_colour(c)} for c in DEVICE_COLOURS],
        "partColour": part_colours(placement),
        "heat": _steps(seconds),
        "weight": _steps(weights),
        "error": _error_steps(document, ops),
        "scales": {
            "heat": _scale(seconds, human_seconds, f"per op, {basis.kind} {basis.source}"),
            "weight": _scale(weights, lambda size: human_bytes(int(size)), "read and written"),
            "error": {"low": "1e-6", "high": "1", "what": "noise, relative to the reference"},
        },
        "policy": policy_value(placement.settings),
        "costs": costs_value(document),
        "codegen": codegen_value(placement.settings),
        "grouping": placement.settings.subgraphs,
        "rules": rules_data(document),
        "step": step_of(document, basis),
        "undo": document.can_undo,
        "redo": document.can_redo,
        "change": first_change(placement),
    }


def part_colours(placement: Placement) -> list[int]:
    """[subgraph] its place in the palette; neighbours differ."""
    before = {s.id: s.depends_on for s in placement.subgraphs}
    return [DEVICE_COLOURS.index(c) for c in subgraph_colours(len(placement.subgraphs), before)]


def first_change(placement: Placement) -> int:
    """The first op of the first subgraph that is on another device than the one before it; -1 where there is none."""
    devices = [s.device for s in placement.subgraphs]
    for number in range(1, len(devices)):
        if devices[number] != devices[number - 1]:
            ops = np.flatnonzero(placement.division.subgraph_of_op == number)
            return int(ops[0]) if len(ops) else -1
    return -1


def step_of(document: Document, basis: Basis) -> str:
    """What figures were worked out for: a step of the history, and the costs there were."""
    now = document.history.current
    return f"{now.number} {now.label} {basis}"


def policy_value(settings: Settings) -> str:
    """A policy with its objective as one value of the page's list."""
    objective = settings.policy_options.get("objective", "latency")
    value = f"{settings.policy}:{objective}"
    return value if value in policy_choices() else settings.policy


def costs_value(document: Document) -> str:
    """Where the costs of the figures come from, and of the decisions where the policy decides by costs."""
    return chosen_costs(document.placement.settings) or source_of(document)


def codegen_value(settings: Settings) -> str:
    """Whether the codegen is chosen per op or per subgraph."""
    return str(settings.policy_options.get("codegen", "op"))


class _Known(NamedTuple):
    """Costs that were read, and what they were read for."""

    devices: tuple[Device, ...]
    profiles: tuple[float, ...]
    chosen: str
    source: str
    costs: Costs


_known: WeakKeyDictionary[Document, _Known] = WeakKeyDictionary()


def _costs(document: Document) -> _Known:
    """Costs as long as neither the devices nor the files of their profiles change: a stroke asks for them many times."""
    graph, devices = document.graph, document.devices
    profiles = tuple(modified(profile_path(graph, device)) for device in devices)
    known, chosen = _known.get(document), chosen_costs(document.placement.settings)
    if known is None or (known.devices, known.profiles, known.chosen) != (
        devices,
        profiles,
        chosen,
    ):
        source = (
            source_of_figures(graph, devices, document.placement.settings)
            if any(profiles)
            else "estimate"
        )
        known = _known[document] = _Known(
            devices, profiles, chosen, source, costs_of(graph, devices, source)
        )
    return known


def op_costs(document: Document) -> tuple[Costs, Basis]:
    """Costs that figures are worked out from, the policy's own where it has some; and what to call them."""
    known = _costs(document)
    return known.costs, basis_of(known.costs, known.source)


def plan_costs(document: Document) -> tuple[Costs, Basis]:
    """The same costs; and what to call figures of the plan, which devices that it does not use have no part in."""
    known = _costs(document)
    return known.costs, basis_of(known.costs, known.source, document.placement.used_numbers)


def layout_costs(document: Document, layout: Layout) -> tuple[Costs, Basis]:
    """Costs of a layout: those of the plan, or of the devices that it was kept with."""
    if layout.placement is None:
        return op_costs(document)
    used = layout.placement.used_numbers
    if not layout.other_devices:
        known = _costs(document)
        return known.costs, basis_of(known.costs, known.source, used)
    graph, devices = document.graph, layout.placement.devices
    source = source_of_figures(graph, devices, document.placement.settings)
    costs = costs_of(graph, devices, source)
    return costs, basis_of(costs, source, used)


def source_of(document: Document) -> str:
    """Source of the costs that figures are worked out from: ``measured`` (by a profile) or ``estimate``."""
    return _costs(document).source


def has_profile(document: Document) -> bool:
    """The model has been profiled, on every real device."""
    return best_source(document.graph, document.devices) == "measured"


def colours_of(document: Document, others: Sequence[Device] = ()) -> dict[str, str]:
    """Colour of each device by name: by its place in the table as first opened, which no reordering changes.

    New names take the colours of names that are gone: of a renamed device its own. Further devices follow by name ("NPU 2"
    before "NPU 3"), as they may change places in the table; then ``others``, of layouts with other devices.
    """
    first = [
        str(entry.get("name") or entry.get("backendName")) for entry in document.original_entries
    ]
    colours, now = (
        {name: device_colour(i) for i, name in enumerate(first)},
        [d.name for d in document.devices],
    )
    colours |= {new: colours[old] for new, old in _renamed(document, now, first).items()}
    added = sorted((len(name), name) for name in now if name not in colours)
    more = dict.fromkeys([name for _, name in added])
    more |= dict.fromkeys(d.name for d in others if d.name not in colours)
    return colours | {name: device_colour(len(first) + i) for i, name in enumerate(more)}


def _renamed(document: Document, now: Sequence[str], first: Sequence[str]) -> dict[str, str]:
    """New name -> that of the device of the first table which it is most alike, where that name is gone."""
    gone = {
        name: dict(entry)
        for name, entry in zip(first, document.original_entries, strict=True)
        if name not in now
    }
    found: dict[str, str] = {}
    for device in document.devices:
        if device.name not in first and gone:
            alike = {
                old: sum(device.entry.get(key) == value for key, value in entry.items())
                for old, entry in gone.items()
            }
            found[device.name] = max(alike, key=lambda old: alike[old])
            del gone[found[device.name]]
    return found


_HALVINGS = 4.5
"""From the darkest step of the scale to the brightest."""


def _steps(values: Floats) -> list[int]:
    """0 to 9 on a logarithmic scale that ends with the largest."""
    top = float(values.max(initial=0.0))
    if top <= 0:
        return [0] * len(values)
    steps = np.clip(
        np.rint(9 + 9 / _HALVINGS * np.log2(np.maximum(values, top * 1e-6) / top)), 0, 9
    ).astype(int)
    return [int(step) for step in steps]


def _error_steps(document: Document, ops: Sequence[int]) -> list[int]:
    """0 to 9 for a noise from a millionth to 1; empty while the accuracy of this plan is not measured."""
    try:
        known = document.accuracy()
    except WorkspaceError:  # the workspace does not answer, which the page says elsewhere
        known = None
    if known is None:
        return []
    noise = np.zeros(len(document.graph))
    for one in known.tensors:
        op = document.graph.key_index[one.key]
        noise[op] = max(noise[op], one.noise)
    steps = 9 + 1.5 * np.log10(np.clip(noise, 1e-6, 1.0))
    return np.rint(steps).astype(int)[ops].tolist() if ops else []


def _scale(values: Floats, form: Callable[[float], str], what: str) -> Scale:
    """The ends of the scale in words."""
    top = float(values.max(initial=0.0))
    return {"low": form(top / 2**_HALVINGS), "high": form(top), "what": what}


_PRICED_OPS = 20_000
"""Above this, a prediction at every stroke would be felt."""


def price_of(document: Document) -> tuple[Price | None, Basis | None]:
    """Latency of the plan by the costs that policies use, and where those come from; None of very large models."""
    if len(document.graph) > _PRICED_OPS:
        return None, None
    costs, basis = plan_costs(document)
    return document.placement.price(costs), basis


def predicted_rate_of(document: Document) -> float | None:
    """Most requests per second by the same costs, where the policy aims at throughput."""
    if len(document.graph) > _PRICED_OPS:
        return None
    return aimed_rate(document.placement, plan_costs(document)[0])


class Unsplit(NamedTuple):
    """A way not to split, by the costs of the plan's own figure."""

    device: str
    figure: float
    """seconds, or requests per second where the policy aims at throughput"""
    basis: Basis
    rough: bool
    """Whether it rests on assumed speeds"""


class MeasuredUnsplit(NamedTuple):
    """What the unsplit model took on a device in a benchmark."""

    figure: float
    """seconds, or requests per second"""
    noisy: bool
    """Whether the machine was busy with other things"""


_unsplit: WeakKeyDictionary[Document, tuple[Costs, bool, list[Unsplit] | str]] = WeakKeyDictionary()


def fastest_unsplit(document: Document) -> Unsplit | str:
    """The fastest device for the whole model; why there is none, where none takes it.

    By the same costs as the plan's own figure: what was measured of another plan says how far costs are off, but an estimate
    beside a measurement would be a difference of costs and not of plans.
    """
    ways = unsplit_ways(document)
    if isinstance(ways, str):
        return ways
    many = aims_at_throughput(document.placement.settings)
    return (max if many else min)(ways, key=lambda each: each.figure)


def unsplit_ways(document: Document) -> list[Unsplit] | str:
    """Each device that takes the whole model; why there is none, where none does."""
    known, many = _costs(document), aims_at_throughput(document.placement.settings)
    costs, is_of_rate, found = _unsplit.get(document, (None, False, ""))
    if costs is not known.costs or is_of_rate != many:  # pins and rules have no part in it
        found = _whole_on_each(document, known, many)
        _unsplit[document] = known.costs, many, found
    return found


def _whole_on_each(document: Document, known: _Known, many: bool) -> list[Unsplit] | str:
    now, costs, found = document.placement, known.costs, list[Unsplit]()
    whole = on_one_device(now)
    for settings in whole.values():
        placement = solve(now.graph, now.devices, settings, now.constraints.capabilities)
        (device,) = placement.used_devices or (None,)
        if device is None or device.name in placement.run_memory.over:
            continue
        if seconds := placement.busiest_seconds(costs) if many else placement.price(costs).total:
            basis = basis_of(costs, known.source, placement.used_numbers)
            rough = bool(assumed_speeds(placement, costs))
            found.append(Unsplit(device.name, 1 / seconds if many else seconds, basis, rough))
    return found or f"no device {'holds' if whole else 'runs'} the whole model"


def measured_unsplit(
    document: Document, many: bool, since: float = 0.0
) -> dict[str, MeasuredUnsplit]:
    """Device -> the unsplit model in the newest benchmark with it, whichever plan was measured beside it.

    Args:
        document: the plan.
        many: of throughput instead of latency.
        since: only benchmarks after this moment, in seconds since 1970, count.
    """
    found: dict[str, MeasuredUnsplit] = {}
    entries = {device.name: repr(device.own_entry) for device in document.devices}
    for run in _all_runs(document):
        if _kept_at(run) < since:
            break
        if (run.figures.get("mode") == "throughput") != many or not is_at_sizes(
            document.graph, run
        ):
            continue
        noisy = bool(run.disturbances)
        for name, figures in baselines_of(run.figures).items():
            if run.figures.get("entries", {}).get(name, "") == entries.get(name):
                figure = figures["throughput" if many else "median"]
                found.setdefault(name, MeasuredUnsplit(figure, noisy))
    return found


def runs_like(document: Document, shown: Run) -> list[Run]:
    """All measurements of the present plan of one mode, of about one context, and of as many requests in flight.

    The unsplit model beside the plans of one tuning counts once.
    """
    same = ("mode", "requests")
    alike = [
        run
        for run in _runs_of(document.placement, _all_runs(document))
        if all(run.figures.get(key) == shown.figures.get(key) for key in same)
        and are_alike(run, shown)
    ]
    key = "throughput" if shown.figures["mode"] == "throughput" else "median"
    return list(
        {(run.figures[key], str(run.figures.get("interval"))): run for run in alike}.values()
    )


def aim_of(settings: Settings) -> str:
    """The mode of a benchmark that measures what a policy aims at."""
    return "throughput" if aims_at_throughput(settings) else "latency"


def measured_run(document: Document, mode: str = "") -> Run | None:
    """The newest measurement of exactly this plan on the devices that it names, beside other plans included.

    Args:
        document: the plan.
        mode: only this one counts; default: tokens where they were measured, then that of the policy's aim.
    """
    runs = _runs_of(document.placement, _all_runs(document))
    modes = [mode] if mode else ["tokens", aim_of(document.placement.settings)]
    fitting = [
        run
        for each in modes
        for run in _certain_first([run for run in runs if run.figures.get("mode") == each])
    ]
    return next(iter(fitting if mode else [*fitting, *runs]), None)


def tokens_run(
    document: Document, lengths: Lengths, plan: str, own_prompt: bool = False
) -> Run | None:
    """The newest run in which exactly a plan took a prompt of about so many tokens, and made as many more.

    Args:
        document: has the runs.
        lengths: of the prompt and the answer.
        plan: ``Placement.fingerprint``.
        own_prompt: whether the prompt had a placement of its own.
    """
    runs = [
        run
        for run in _real_runs(document)
        if run.figures.get("plan") == plan and bool(run.figures.get("own_prompt")) == own_prompt
    ]
    return next((run for run in runs if is_of_lengths(run, lengths)), None)


def newest_lengths(document: Document) -> Lengths | None:
    """The prompt and the new tokens of the newest run of tokens, of any plan; None where there was none."""
    return next(filter(None, map(lengths_of, _all_runs(document))), None)


def newest_predicted_run(document: Document) -> Run | None:
    """The newest latency that was measured of any plan, where it was predicted from the profiles that are there now."""
    profiled = profiled_at(document)
    for run in _real_runs(document):
        if run.figures.get("mode") == "latency" and not run.figures.get("tuned"):
            return run if run.figures.get("predicted") and _kept_at(run) > profiled else None
    return None


def profiled_at(document: Document) -> float:
    """When the newest profile of a device was stored, in seconds since 1970; 0 without one."""
    graph, devices = document.graph, document.devices
    return max((modified(profile_path(graph, device)) for device in devices), default=0.0)


def _kept_at(run: Run) -> float:
    return datetime.fromisoformat(run.when).timestamp() + 1e-3  # it is cut to milliseconds


def _real_runs(document: Document) -> list[Run]:
    """Benchmarks of a document in which no stand-in ran, newest first."""
    return [run for run in _all_runs(document) if not run.figures.get("estimated")]


def _all_runs(document: Document) -> list[Run]:
    try:
        return list(document.runs())
    except WorkspaceError:  # the page says so elsewhere
        return []


def _runs_of(placement: Placement, runs: Sequence[Run]) -> list[Run]:
    """Those that measured a placement: as their plan, or as the unsplit model beside it, also where stand-ins ran the plan."""
    mine = placement.fingerprint
    found = [
        run
        if run.figures.get("plan") == mine and not run.figures.get("estimated")
        else unsplit_run(placement, run)
        for run in runs
    ]
    return [run for run in found if run is not None]


def _certain_first(runs: Sequence[Run]) -> list[Run]:
    """Measurements of one plan in one mode, the newest first; a tuning, and the unsplit model beside another plan, only where
    they are more certain than a benchmark.

    A tuning shares its time among many plans. The benchmark that counts is the last one of this plan.
    """
    benchmark = next(
        (run for run in runs if not (run.figures.get("tuned") or run.figures.get("beside"))), None
    )
    if benchmark is None:
        return list(runs)
    return [run for run in runs if run is benchmark or _margin(run) <= _margin(benchmark)]


def _margin(run: Run) -> float:
    """Width of the interval of a measurement, relative to its figure; infinite without one."""
    figure = "throughput" if run.figures["mode"] == "throughput" else "median"
    interval = run.figures.get("throughput_interval" if figure == "throughput" else "interval")
    low, high = interval or (0.0, np.inf)
    return float((high - low) / run.figures[figure]) if run.figures[figure] else np.inf


def measured_medians(document: Document) -> tuple[list[float], float]:
    """[subgraph] median seconds in the newest benchmark of this plan, and those of the whole run; empty without one.

    Of a token, they are those at the context of the plan's sizes; devices that only queue their work have none but that of the
    whole step, which is that of the subgraph where there is one.
    """
    run = measured_run(document)
    if run is not None and run.figures["mode"] == "tokens" and is_at_sizes(document.graph, run):
        total, medians = run.figures["median"], run.figures.get("medians")
        if len(document.placement.subgraphs) == 1:
            return [total], total
        if medians:
            return list(medians), total
    run = measured_run(document, "latency")
    if run is None:
        return [], 0.0
    return list(run.figures.get("medians") or ()), run.figures[
        "median"
    ]  # earlier versions kept none


class Measured:
    """What benchmarks of a document measured: of its plan, of other plans, and of the unsplit model beside them."""

    def __init__(self, document: Document) -> None:
        self._runs, self._graph = _all_runs(document), document.graph
        tokens = any(run.figures.get("mode") == "tokens" for run in _real_runs(document))
        self.time_mode = "tokens" if tokens and states_of(document.graph) else "latency"
        """The mode that has the time of a model: that of a token where tokens were measured"""

    def run(self, placement: Placement, mode: str) -> Run | None:
        """The newest measurement of a placement on the devices that it names."""
        runs = [run for run in self._runs if run.figures.get("mode") == mode]
        return next(iter(_certain_first(_runs_of(placement, runs))), None)

    def context_of_sizes(self, layouts: Sequence[Layout]) -> str:
        """What to say of figures at the sizes of the model, where a layout was measured at another context; "" elsewhere."""
        placements = [layout.placement for layout in layouts if layout.placement is not None]
        runs = [self.run(placement, self.time_mode) for placement in placements]
        same = all(is_at_sizes(self._graph, run) for run in runs)
        return "" if same else of_sizes(self._graph)


def unsplit_run(placement: Placement, run: Run | None) -> Run | None:
    """The measurement of a placement that is not split, where the benchmark of a plan made it as a baseline."""
    if run is None or len(placement.subgraphs) != 1:
        return None
    (device,) = placement.used_devices
    if run.figures.get("entries", {}).get(device.name) != repr(device.own_entry):
        return None
    baselines = baselines_of(run.figures)
    mine = baselines.get(device.name)
    if mine is None:
        return None
    unsplit = best_unsplit({**run.figures, **mine}, baselines)
    real = {"estimated": False, "beside": True}
    return replace(run, figures={**run.figures, **mine, **real, "unsplit": unsplit})


def best_unsplit(
    figures: Mapping[str, Any], baselines: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """The best of the ways not to split, and how figures of the same benchmark compare with it."""
    many = figures["mode"] == "throughput"
    figure, limits = ("throughput", "throughput_interval") if many else ("median", "interval")
    best = (max if many else min)(baselines, key=lambda name: baselines[name][figure])
    words, ours, theirs = NO_DIFFERENCE, figures.get(limits), baselines[best].get(limits)
    if ours and theirs:
        compare = compare_rates if many else compare_medians
        words = compare(ours, theirs, figures[figure] / baselines[best][figure])
    return {"device": best, "figure": baselines[best][figure], "words": words}


def baselines_of(figures: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Device -> figures of the unsplit model on it, as far as it was measured in the mode of a benchmark."""
    if figures["mode"] == "tokens":
        intervals = figures.get("baseline_intervals", {})
        return {
            name: {
                "median": median,
                "interval": intervals.get(name),
                "throughput": 1 / median,
                "requests": 1,
                "medians": [median],
            }
            for name, median in figures.get("baselines", {}).items()
            if median
        }
    return {
        each["device"]: {
            "median": each["time"]["median"],
            "interval": [each["time"]["low"], each["time"]["high"]],
            "throughput": each["throughput"],
            "throughput_interval": each.get("throughput_interval"),
            "medians": [each["time"]["median"]],
        }
        for each in figures.get("report", {}).get("baselines", ())
        if each["time"] and (figures["mode"] != "throughput" or each["throughput"])
    }


def figures_of(document: Document) -> Figures:
    """The figures of the status bar."""
    price, basis = price_of(document)
    division = document.placement.division
    return {
        "ops": int((division.subgraph_of_op >= 0).sum()),
        "subgraphs": len(division.subgraphs),
        "boundaries": len(division.boundaries),
        "transfers": division.transfer_count,
        "moved": division.bytes_moved,
        "unknown": division.unknown_transfers,
        "pins": len(document.placement.settings.pins),
        "context": full_at(document.placement),
        "predicted": price.total if price else None,
        "between": price.transfers + price.launches if price else None,
        "rate": predicted_rate_of(document),
        "basis": basis,
        "rough": basis is not None
        and bool(assumed_speeds(document.placement, plan_costs(document)[0])),
    }


def memory_of(document: Document) -> dict[str, int]:
    """Bytes that each device needs at once."""
    return document.placement.run_memory.peaks


__all__ = ["colours_of", "figures_of", "memory_of", "view_of"]
