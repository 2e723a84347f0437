"""An editable plan with undo and redo; the workspace stores every step."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from editor.devices.device import Device
from editor.devices.table import load_devices
from editor.devices.table_text import table_text
from editor.errors import Cancelled, EditorError, PinError
from editor.graph.graph import Bools
from editor.imports.device_figures import ProfileReport
from editor.imports.placements import ImportReport
from editor.placement.choices import policy_label
from editor.placement.constraints import allowed_by_lists
from editor.placement.device_profile import best_source, follow_renamed
from editor.placement.filter import between, expand_selection, same_device_region
from editor.placement.pin_groups import pin_groups
from editor.placement.placement import Placement, Settings
from editor.placement.rules import Rule, change_of_rules, label_mask, parse_rules
from editor.text import pluralize
from editor.workspace.history import Change, HistoryTree, Record, Run, StaleDocumentError, Store
from editor.workspace.layouts import AUDITED, Layout, LayoutList, MeasuredStep, Progress, tidy_name
from editor.workspace.plan import Plan
from editor.workspace.solver import TEXT, Solver, changed_devices, first_decisions, with_new_names

if TYPE_CHECKING:  # it takes time to import
    from editor.execution.measure.accuracy import Accuracy


@dataclass(frozen=True)
class Refusal:
    """Ops that could not be assigned to a device, with the reason of the first."""

    ops: tuple[int, ...]
    device: str
    reason: str
    reasons: tuple[tuple[str, int], ...]
    """All reasons with their op type, and of how many ops; the most common first."""


P = ParamSpec("P")
R = TypeVar("R")
SHARE = "what the other models of its set take"
"""Stands among the changes of a document where only that is another one."""
_PINNED = frozenset({"pins", "forced"})
"""Decisions that a stroke changes"""
_MOST_STEPS = 8
"""Measured steps that are compared."""
_RETRIES = 20
"""Attempts to apply a change while others change the same document."""


def _on_latest(
    change: Callable[Concatenate[Document, P], R],
) -> Callable[Concatenate[Document, P], R]:
    """Applies a change to the latest state of the document in the workspace.

    Another tab, server or ``Document`` may have changed the document since it was read. The change is applied to the
    latest state, and retried when another one was stored first, so that no change is overwritten. It holds the document's lock.
    """

    @functools.wraps(change)
    def applied(self: Document, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._lock:
            for _ in range(_RETRIES):
                self.refresh()
                try:
                    return change(self, *args, **kwargs)
                except StaleDocumentError:
                    continue
            self.refresh()
            return change(self, *args, **kwargs)

    return applied


def _accuracy_of(kept: Run) -> Accuracy:
    from editor.execution.measure.accuracy import accuracy_of

    return accuracy_of(kept.figures)


class Document:
    """A model with its decisions. Thread-safe: changes are applied one after the other."""

    def __init__(self, store: Store, record: Record, solver: Solver) -> None:
        """Opens a document.

        Args:
            store: the workspace.
            record: the document's record.
            solver: of its model; what it has solved already is not solved again.
        """
        graph = solver.graph
        self.store, self.id, self.title, self.graph = store, record.id, record.title, graph
        self._lock = threading.RLock()
        self._cancelled = threading.Event()
        self._tree = HistoryTree(store.steps(record.id), record.cursor, record.tip)
        self._decisions = self._stored(record.cursor)
        self._solver = solver
        self._accuracy: Accuracy | None = None
        """The one that was read last."""
        self._original = store.decisions(record.id, 0)
        self._taken: dict[str, int] = {}
        """Device -> bytes that the other models of its set take now; without one, those of the device table hold"""
        self._placement = self._solver.solve_stored(self._decisions)
        self._left: dict[int, str] = {}
        """Step -> fingerprint of the placement when it was left"""
        self.version = record.version
        """Increases with every change by any writer, so that a page can recognise old responses."""

    @property
    def placement(self) -> Placement:
        """The current placement."""
        return self._placement

    @property
    def plan(self) -> Plan:
        """The current plan."""
        return Plan(self._placement)

    @property
    def devices(self) -> tuple[Device, ...]:
        """The device table in its current order."""
        return self._placement.devices

    @property
    def original_entries(self) -> list[dict[str, Any]]:
        """The device table at the creation of the document."""
        entries: list[dict[str, Any]] = self._original["devices"]
        return entries

    @property
    def devices_text(self) -> str:
        """The device table as YAML, with the comments of the file that it came from."""
        return table_text([d.entry for d in self.devices], self._original.get(TEXT, ""))

    @property
    def solved_anew(self) -> bool:
        """Whether the current step was left with another placement than it has now: costs have changed since."""
        left = self._left.get(self._tree.cursor)
        return left is not None and left != self._placement.fingerprint

    @property
    def history(self) -> HistoryTree:
        """All steps with their branches, and the current one."""
        return self._tree

    @property
    def can_undo(self) -> bool:
        """Whether there is a step to undo."""
        return self._tree.undo_target is not None

    @property
    def can_redo(self) -> bool:
        """Whether there is a step to redo."""
        return self._tree.redo_target is not None

    def changes(self, after: int) -> list[Change]:
        """Returns the changes that made the versions above ``after``, with their authors."""
        return self.store.changes(self.id, after)

    def cancel_change(self) -> None:
        """Gives up the change whose placement is being solved, if there is one. It waits for no lock."""
        self._cancelled.set()

    def refresh(self) -> bool:
        """Loads changes that others made in the workspace; True when there were any."""
        with self._lock:
            record = self.store.get(self.id)
            if record is None or record.version == self.version:
                return False
            steps = [*self._tree.steps, *self.store.steps(self.id, after=len(self._tree.steps) - 1)]
            decisions = self._stored(record.cursor)
            self._placement = self._solver.solve_stored(decisions).beside(self._taken)
            self._tree, self._decisions = HistoryTree(steps, record.cursor, record.tip), decisions
            self.version = record.version
            return True

    def solve_again(self) -> None:
        """Solves the present decisions again: a profile that came or changed since may lead a policy elsewhere."""
        with self._lock:
            self._placement = self._solver.solve_stored(self._decisions).beside(self._taken)

    @_on_latest
    def stand_beside(self, taken: Mapping[str, int]) -> None:
        """Has the bytes of each device that the other models of its set take now; where the ops are stays as it is."""
        before, self._taken = self._placement, dict(taken)
        self._placement = before.beside(taken)
        if self._placement is not before:  # pages that show it look at it again
            self.store.move(self.id, self._tree.cursor, self._tree.tip, SHARE, self.version)
            self.version += 1

    @_on_latest
    def paint(self, ops: Sequence[int], device: int, force: bool = False) -> Refusal | None:
        """Pins ops to a device; ops that it cannot run stay unchanged unless forced.

        Returns:
            the refused ops; None when all ops were pinned.
        """
        constraints = self._placement.constraints
        name = self.devices[device].name
        chosen = [op for op in dict.fromkeys(ops) if 0 <= op < len(self.graph)]
        accepted = [op for op in chosen if force or constraints.able[op, device]]
        refused = [op for op in chosen if not (force or constraints.able[op, device])]
        if accepted:
            pins, forced = self._pins()
            changed = [op for op in accepted if pins.get(self.graph.op_keys[op]) != name]
            for op in accepted:
                key = self.graph.op_keys[op]
                pins[key] = name
                forced.discard(key)
                if not constraints.able[op, device]:
                    forced.add(key)
            self._commit(
                f"{self._what(changed or accepted)} → {name}" + (" (forced)" if force else ""),
                pins,
                forced,
            )
        if not refused:
            return None
        first = refused[0]
        what = f"{self.graph.display_name(first)} ({self.graph.type_label(first)})"
        return Refusal(
            tuple(refused),
            name,
            f"{what}: {constraints.inability(first, device)}",
            tuple(constraints.inabilities(refused, device)),
        )

    @_on_latest
    def unpin(self, ops: Sequence[int] | None = None) -> int:
        """Removes the pins of the given ops, or all pins; returns their number."""
        pins, forced = self._pins()
        keys = list(pins) if ops is None else [self.graph.op_keys[op] for op in ops]
        removed = [key for key in keys if pins.pop(key, None) is not None]
        if removed:
            unpinned = [self.graph.key_index[key] for key in removed]
            label = "reset to automatic" if ops is None else f"unpin {self._what(unpinned)}"
            self._commit(label, pins, forced - set(removed))
        return len(removed)

    @_on_latest
    def keep_others(self) -> int:
        """Pins the ops that the last step moved beside those that it pinned to where they were; returns their number.

        Ops that the policy then moves in their place are kept, too.

        Raises:
            PinError: the last step moved no other op.
        """
        earlier, label = self._tree.undo_target, self._tree.current.label
        decisions = self._stored(earlier) if earlier is not None else {}
        pins, forced = self._pins()
        rest = self._decisions.keys() - _PINNED
        same = all(decisions.get(key) == self._decisions[key] for key in rest)
        if not same or not pins.items() - decisions["pins"].items():
            raise PinError("The last step did not move other ops around a pin.")
        was = self._solver.solve_stored(decisions).assignment.device
        kept: dict[str, str] = {}
        placement = self._placement
        while True:
            placed = placement.placed_ops  # those that only follow others have no part in it
            moved = placed[was[placed] != placement.assignment.device[placed]].tolist()
            keys = {op: self.graph.op_keys[op] for op in moved}
            new = {key: self.devices[was[op]].name for op, key in keys.items() if key not in pins}
            if not new:
                break
            kept |= new
            pins |= new
            trial = {**self._decisions, "pins": dict(pins), "forced": sorted(forced)}
            placement = self._solve_change(trial)
        if not kept:
            raise PinError("The last step did not move other ops around a pin.")
        self._commit(f"{label}, {pluralize(len(kept), 'other op')} kept", pins, forced)
        return len(kept)

    def region(self, op: int) -> list[int]:
        """The op and the ops of the same device that are connected to it."""
        return same_device_region(self._placement, op)

    def between(self, first: Sequence[int], second: Sequence[int]) -> list[int]:
        """Two groups of ops and all ops on paths between them."""
        return between(self._placement, first, second)

    def expand_selection(self, ops: Sequence[int], mode: str) -> list[int]:
        """Ops related to the given ops.

        Args:
            ops: the ops to start from.
            mode: ``type`` (all ops of their types), ``alike`` (the corresponding ops in every repetition of their blocks),
                ``block`` (the innermost block around them), ``subgraph``, ``upstream`` and ``downstream`` (all ops that they
                depend on, all that depend on them), ``neighbours`` (the ops beside them).

        Raises:
            PinError: the mode is unknown.
        """
        return expand_selection(self._placement, ops, mode)

    @_on_latest
    def go(self, step: int) -> bool:
        """Goes to a step of the history; False where it does not exist."""
        return step == self._tree.cursor or self._go(step)

    @_on_latest
    def reorder(self, names: Sequence[str]) -> None:
        """Changes the priority of the devices.

        Raises:
            PinError: the names differ from those of the device table.
        """
        by_name = {d.name: d for d in self.devices}
        if sorted(names) != sorted(by_name):
            raise PinError(
                f"the table has the devices {', '.join(by_name)}, not {', '.join(names)}"
            )
        if list(names) != [d.name for d in self.devices]:
            entries = [dict(by_name[name].entry) for name in names]
            self._apply(" > ".join(names), self._decisions | {"devices": entries})

    @_on_latest
    def set_devices(
        self, entries: Sequence[Mapping[str, Any]], renamed: Mapping[str, str] | None = None
    ) -> int:
        """Replaces the device table; pins to devices, units and codegens that are no longer there go.

        Args:
            entries: as in a YAML table, in order of priority.
            renamed: old name -> new name of devices; pins, rules and options follow them.

        Returns:
            the number of pins that went.

        Raises:
            EditorError: the table is not valid, or leaves an op without a device.
        """
        devices = load_devices([dict(entry) for entry in entries])
        plain, renamed = [dict(d.entry) for d in devices], renamed or {}
        if plain in (self._decisions["devices"], [dict(d.entry) for d in self.devices]):
            return 0
        pins, forced = self._pins()
        pins = {key: renamed.get(label, label) for key, label in pins.items()}
        kept = self._fitting(pins, forced, devices)
        decisions = with_new_names(self._decisions, renamed) | {
            "devices": plain,
            "pins": kept,
            "forced": sorted(forced & set(kept)),
        }
        what = changed_devices(self.devices, devices)
        follow_renamed(self.graph, self.devices, devices, renamed)
        if (
            decisions["options"].get("costs") == "measured"
            and best_source(self.graph, devices) != "measured"
        ):
            decisions["options"] = {
                **decisions["options"],
                "costs": "estimate",
            }  # another device has another profile
            what += "; costs are estimates until it is profiled"
        self._apply(what, decisions)
        return len(pins) - len(kept)

    def settings_on(self, devices: Sequence[Device]) -> Settings:
        """The settings of the plan on another device table: without the pins that do not fit it."""
        with self._lock:
            pins, forced = self._pins()
            kept = self._fitting(pins, forced, devices)
            return replace(
                self._placement.settings, pins=kept, forced=frozenset(forced & set(kept))
            )

    def _fitting(
        self, pins: Mapping[str, str], forced: set[str], devices: Sequence[Device]
    ) -> dict[str, str]:
        """The pins that a device table leaves."""
        able = {
            d.name: self._solver.capability(d).mask & allowed_by_lists(self.graph, d)
            for d in devices
        }
        return {
            key: label
            for key, label in pins.items()
            if self._still_fits(key, label, key in forced, devices, able)
        }

    def _still_fits(
        self,
        key: str,
        label: str,
        forced: bool,
        devices: Sequence[Device],
        able: Mapping[str, Bools],
    ) -> bool:
        try:
            wanted = label_mask(label, devices)
        except PinError:
            return False
        op = self.graph.key_index[key]
        return forced or any(
            able[d.name][op] for d, fits in zip(devices, wanted.tolist(), strict=True) if fits
        )

    @_on_latest
    def set_automatic(self, policy: str, options: Mapping[str, Any], subgraphs: str) -> None:
        """Changes the policy, its options and the subgraph rule.

        Raises:
            EditorError: one of them is unknown, or the policy has no solution.
        """
        decisions = dict(self._decisions)
        wanted = {"policy": policy, "options": dict(options), "subgraphs": subgraphs}
        if any(decisions[key] != value for key, value in wanted.items()):
            self._edit(
                _label_of(policy, options, subgraphs),
                decisions | wanted,
            )

    def by_policy(
        self, policy: str, options: Mapping[str, Any], should_stop: Callable[[], bool] = bool
    ) -> Placement:
        """The plan that another policy would give around the same pins and rules.

        Raises:
            EditorError: the policy has no solution.
            Cancelled: it was told to stop.
        """
        decisions = {**self._decisions, "policy": policy, "options": dict(options)}
        found = self._solver.solve_stored(decisions, should_stop)
        if should_stop():
            raise Cancelled
        return found

    @_on_latest
    def set_rules(self, rules: Sequence[Rule]) -> None:
        """Replaces the rules.

        Raises:
            EditorError: a rule names an unknown target, or leaves an op without a device.
        """
        decisions = dict(self._decisions)
        plain = [rule.to_dict() for rule in rules]
        if decisions.get("rules", []) != plain:
            self._edit(
                change_of_rules(parse_rules(decisions.get("rules", [])), rules),
                decisions | {"rules": plain},
            )

    @_on_latest
    def pin(self, ops: Sequence[int], label: str) -> None:
        """Pins ops to a device, or to a unit or codegen label that leaves the policy a choice.

        Raises:
            EditorError: the label is unknown, or an op cannot run on its devices.
        """
        pins, forced = self._pins()
        pins |= {self.graph.op_keys[op]: label for op in ops}
        self._commit(
            f"{self._what(ops)} → {label}",
            pins,
            forced - {self.graph.op_keys[op] for op in ops},
        )

    @_on_latest
    def import_affinities(self, path: Path, title: str) -> ImportReport:
        """Imports affinities of a file as pins.

        Raises:
            EditorError: the file cannot be read, or its pins contradict the constraints.
        """
        plan, report = self.plan.import_affinities(path)
        if report.pinned:
            self.adopt(f"import {title}", plan.placement.settings)
        return report

    @_on_latest
    def import_profile(self, path: Path, day: date) -> ProfileReport:
        """Stores times of a file as the profile of the device that its name says, or of the only planned one.

        Where the policy uses profiles, the placement is solved again; that is not a step of the history.

        Raises:
            EditorError: the file cannot be read, or does not say of which device it is.
        """
        plan, report = self.plan.import_profile(path, day=day)
        self._placement = plan.placement
        return report

    @_on_latest
    def adopt(
        self, label: str, settings: Settings, devices: Sequence[Device] | None = None
    ) -> None:
        """Replaces all decisions, for example by those of a tuning; the devices and their order stay unless some are given.

        Raises:
            EditorError: the decisions are not valid for this document.
        """
        entries = self._decisions["devices"] if devices is None else [d.entry for d in devices]
        decisions = first_decisions(settings, entries)
        if decisions != self._decisions:
            (self._edit if devices is None else self._apply)(label, decisions)

    @_on_latest
    def keep_layout(self, name: str) -> None:
        """Stores the current decisions under a name.

        Raises:
            PinError: the name is empty.
        """
        name = tidy_name(name)
        if not name:
            raise PinError("a layout needs a name")
        self.store.keep_layout(self.id, name, self._decisions)

    def forget_layout(self, name: str) -> None:
        """Deletes a stored layout."""
        self.store.keep_layout(self.id, name, None)

    @property
    def layout_name(self) -> str:
        """Name of the current plan: that of a stored layout with equal decisions, else the current step."""
        for name, decisions in self.store.layouts(self.id).items():
            if {key: decisions[key] for key in decisions if key != AUDITED} == self._decisions:
                return name
        now, pins = self._tree.current, self._placement.settings.pins
        if now.number:
            return f"after step {now.number}: {now.label}"
        return pluralize(len(pins), "pin") if pins else "automatic"

    def keep_run(
        self, figures: Mapping[str, Any], layout: str, plan: Placement, step: int | None = None
    ) -> None:
        """Stores a benchmark of ``plan``, that of a step of the history where one is given.

        Figures that name a plan and its subgraphs are of another one on its devices.
        """
        known = {
            "step": None if "plan" in figures else step,
            "layout": layout,
            "plan": plan.fingerprint,
            "subgraphs": len(plan.subgraphs),
            "entries": {device.name: repr(device.own_entry) for device in plan.devices},
        }
        self.store.keep_run(self.id, {**known, **figures})

    def at_other_sizes(self) -> list[Record]:
        """Documents of the same model at other sizes, the latest first; each has a history of its own."""
        if not self.graph.define:
            return []
        graph = self.graph
        return self.store.at_other_sizes(str(graph.path), graph.sha256, graph.define)

    def runs(self) -> tuple[Run, ...]:
        """Benchmarks of this document, newest first."""
        return self.store.runs(self.id)

    def runs_of_plan(self) -> list[Run]:
        """Benchmarks of exactly the present plan, newest first."""
        now = self.placement.fingerprint
        return [run for run in self.runs() if run.figures.get("plan") == now]

    def keep_accuracy(self, result: Accuracy) -> None:
        """Stores the accuracy of a plan of the document, in place of an earlier one of the same plan."""
        self.store.keep_accuracy(self.id, result.plan, result.as_dict())
        self._accuracy = result

    def accuracy(self) -> Accuracy | None:
        """The last accuracy of exactly the present plan; None where it was not measured."""
        plan, known = self.placement.fingerprint, self._accuracy
        if known is not None and known.plan == plan:
            return known
        kept = self.store.accuracy(self.id, plan)
        if kept is None:
            return None
        self._accuracy = _accuracy_of(kept)
        return self._accuracy

    def last_accuracy(self) -> tuple[str, Accuracy] | None:
        """When the accuracy of the present plan was measured, and what came of it; else those of the plan measured last."""
        kept = self.store.accuracy(self.id, self.placement.fingerprint) or self.store.accuracy(
            self.id
        )
        return None if kept is None else (kept.when, _accuracy_of(kept))

    def layouts(
        self, progress: Progress | None = None, should_stop: Callable[[], bool] = bool
    ) -> list[Layout]:
        """The current plan, stored layouts and ready-made ones; what ``should_stop`` ends is the best that was found."""
        return self._layouts(should_stop).all(progress)

    def layout(self, name: str, should_stop: Callable[[], bool] = bool) -> Layout | None:
        """One of them; None where there is none of that name.

        Raises:
            Cancelled: it was told to stop.
        """
        found = self._layouts(should_stop).get(name)
        if should_stop():
            raise Cancelled
        return found

    def _layouts(self, should_stop: Callable[[], bool]) -> LayoutList:
        kept, solve = self.store.layouts(self.id), self._solver.solve_stored
        return LayoutList(
            self._placement, kept, lambda each: solve(each, should_stop), self._measured_steps()
        )

    def _measured_steps(self) -> dict[str, MeasuredStep]:
        """The newest steps that were measured, by what their plans were called then."""
        plans: dict[str, tuple[str, int]] = {}
        for run in self.runs():
            step, plan = run.figures.get("step"), run.figures.get("plan", "")
            known = any(plan == each for each, _ in plans.values())
            if step is not None and not run.figures["estimated"] and not known:
                plans.setdefault(run.figures["layout"], (plan, step))
        newest = list(plans.items())[:_MOST_STEPS]
        return {name: MeasuredStep(plan, self._stored(step)) for name, (plan, step) in newest}

    @_on_latest
    def undo(self) -> bool:
        """Undoes a step; False at the beginning."""
        return self._go(self._tree.undo_target)

    @_on_latest
    def redo(self) -> bool:
        """Redoes a step of the current branch; False at its end."""
        return self._go(self._tree.redo_target)

    def _go(self, number: int | None) -> bool:
        if number is None or not 0 <= number < len(self._tree.steps):
            return False
        tree = self._tree.moved(number)
        decisions = self._stored(number)
        placement = self._solve_change(decisions, self._solver.solve_stored)
        self.store.move(self.id, number, tree.tip, self._tree.words(number), self.version)
        self._left[self._tree.cursor] = self._placement.fingerprint
        self._placement, self._decisions, self._tree = placement, decisions, tree
        self.version += 1
        return True

    def _pins(self) -> tuple[dict[str, str], set[str]]:
        settings = self._placement.settings
        return dict(settings.pins), set(settings.forced)

    def _commit(self, label: str, pins: Mapping[str, str], forced: set[str]) -> None:
        decisions = dict(self._decisions)
        decisions |= {"pins": dict(pins), "forced": sorted(forced)}
        self._edit(label, decisions)

    def _edit(self, label: str, decisions: Mapping[str, Any]) -> None:
        """Applies a change that leaves the devices: within what the other models of its set leave now, where it can be."""
        now = [dict(device.entry) for device in self.devices]
        if now != decisions["devices"]:
            try:
                return self._apply(label, {**decisions, "devices": now})
            except Cancelled:
                raise
            except EditorError:  # it says how much is too much
                pass
        return self._apply(label, decisions)

    def _apply(self, label: str, decisions: Mapping[str, Any]) -> None:
        placement = self._solve_change(decisions)  # raises before the document changes
        step = self.store.append(self.id, self._tree.cursor, label, decisions, self.version)
        self._left[self._tree.cursor] = self._placement.fingerprint
        self._placement, self._decisions, self._tree = (
            placement,
            dict(decisions),
            self._tree.grown(step),
        )
        self.version += 1

    def _stored(self, number: int) -> dict[str, Any]:
        decisions = self.store.decisions(self.id, number)
        decisions.pop(TEXT, None)
        return decisions

    def _solve_change(
        self, decisions: Mapping[str, Any], solve: Callable[..., Placement] | None = None
    ) -> Placement:
        """The placement of decisions; what a search had found until it was cancelled is not what they give."""
        self._cancelled.clear()
        try:
            placement = (solve or self._solver.solve)(decisions, self._cancelled.is_set)
        except EditorError:
            if self._cancelled.is_set():
                raise Cancelled from None
            raise
        if self._cancelled.is_set():
            raise Cancelled
        return placement.beside(self._taken)

    def _what(self, ops: Sequence[int]) -> str:
        if len(ops) == 1:
            return self.graph.display_name(ops[0])
        groups = pin_groups(self.graph, {self.graph.op_keys[op]: "" for op in ops})
        if len(groups) == 1 and groups[0].is_block:
            return groups[0].what
        return f"{len(ops):,} ops"


def _label_of(policy: str, options: Mapping[str, Any], subgraphs: str) -> str:
    """A step of the history, in the words of the page: "Optimal: least latency (costs from a profile)"."""
    name = policy_label(policy, options)
    words = {"measured": "costs from a profile", "estimate": "estimated costs"}
    chosen = [
        words.get(value, value)
        for key, value in options.items()
        if isinstance(value, str) and not (key == "objective" and name != policy)
    ]
    in_brackets = f" ({', '.join(chosen)})" if chosen else ""
    rule = "" if subgraphs == "minimal" else f", {subgraphs} subgraphs"
    return f"{name}{in_brackets}{rule}"
