"""What each stroke does to the document: one handler per kind, found by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from editor.errors import EditorError
from editor.placement.choices import COST_POLICIES
from editor.placement.device_profile import best_source, costs_of, forget_profile, put_back_profile
from editor.placement.filter import matching
from editor.placement.rules import parse_rules
from editor.web import messages as m
from editor.web.device_fields import FIELDS, RUNS_ON, changed_entry, shown, with_device
from editor.web.validation import RELOAD, require
from editor.web.view import op_costs
from editor.workspace.document import Document, Refusal
from editor.workspace.layouts import Layout, differing

if TYPE_CHECKING:
    from editor.web.app_state import AppState

Outcome = Refusal | list[int] | None
"""What was refused, or ops to select, or nothing."""


def check_kind(stroke: Mapping[str, Any]) -> str:
    """The kind of a stroke, after a check that it has the fields of its kind.

    Raises:
        EditorError: the kind is unknown, or a field is missing or of another type.
    """
    name = stroke.get("do")
    if not isinstance(name, str) or name not in HANDLERS:
        raise EditorError(
            f"The page sent a stroke that the server does not know: {name!r}. {RELOAD}"
        )
    require(stroke, HANDLERS[name][0], f"the stroke {name!r}")
    return name


def apply(state: AppState, document: Document, stroke: Mapping[str, Any]) -> Outcome:
    """Applies one stroke.

    Raises:
        EditorError: the stroke is unknown, malformed, or cannot be done; the document is as before.
    """
    handler = HANDLERS[check_kind(stroke)][1]
    count, devices = len(document.graph), len(document.devices)
    ops, device = [*stroke.get("ops", ()), *stroke.get("first", ())], stroke.get("device")
    if any(not 0 <= op < count for op in ops) or not (device is None or 0 <= device < devices):
        raise EditorError(f"This stroke does not fit the document. {RELOAD}")
    return handler(state, document, stroke)


def _choosing(
    choose: Callable[[Document, Any], list[int]],
) -> Callable[[AppState, Document, Any], Outcome]:
    """A handler of a tool that chooses ops: they are painted or unpinned as the brush in hand says, else selected."""

    def handle(
        state: AppState, document: Document, stroke: m.Region | m.Between | m.Grow
    ) -> Outcome:
        chosen, device = choose(document, stroke), stroke["device"]
        if stroke["unpin"]:
            document.unpin(chosen)
            return None
        return chosen if device is None else document.paint(chosen, device)

    return handle


def _region(document: Document, stroke: m.Region) -> list[int]:
    if not stroke["ops"]:
        raise EditorError("Choose an op first.")
    return document.region(stroke["ops"][0])


def _between(document: Document, stroke: m.Between) -> list[int]:
    if not stroke["first"] or not stroke["ops"]:
        raise EditorError("Choose two ops, one after the other.")
    return document.between(stroke["first"], stroke["ops"])


def _grow(document: Document, stroke: m.Grow) -> list[int]:
    return document.expand_selection(stroke["ops"], stroke["how"])


def _filter(state: AppState, document: Document, stroke: m.Filter) -> Outcome:
    return matching(document.placement, stroke["text"], lambda: op_costs(document)[0])


def _rule_ops(state: AppState, document: Document, stroke: m.RuleOps) -> Outcome:
    rules, number = document.placement.settings.rules, stroke["rule"]
    if not 0 <= number < len(rules):
        raise EditorError("There is no such rule any more.")
    return rules[number].matches(document.graph, ~document.graph.op_is_constant)


def _paint(state: AppState, document: Document, stroke: m.Paint) -> Outcome:
    return document.paint(stroke["ops"], stroke["device"], stroke["force"])


def _unpin(state: AppState, document: Document, stroke: m.Unpin) -> None:
    document.unpin(stroke["ops"])


def _label(state: AppState, document: Document, stroke: m.Label) -> None:
    document.pin(stroke["ops"], stroke["label"])


def _automatic(state: AppState, document: Document, stroke: m.Automatic) -> None:
    """Policy and options; options that the page has no list for stay as they are, except the budget of a search."""
    policy, _, objective = stroke["policy"].partition(":")
    options = {
        k: v
        for k, v in document.placement.settings.policy_options.items()
        if k not in ("objective", "costs", "codegen", "search")
    }
    if objective:
        options["objective"] = objective
    if stroke["codegen"] == "subgraph":
        options["codegen"] = "subgraph"
    # What holds by itself is not stored: some policies decide by estimates, figures of others come from profiles, if any.
    other = "measured" if policy in COST_POLICIES else "estimate"
    if stroke["costs"] == "measured" and policy not in COST_POLICIES:
        costs_of(document.graph, document.devices, "measured")  # says what is missing
    if stroke["costs"] == other and (
        policy in COST_POLICIES or best_source(document.graph, document.devices) == "measured"
    ):
        options["costs"] = other
    document.set_automatic(policy, options, stroke["grouping"])


def _move_device(state: AppState, document: Document, stroke: m.MoveDevice) -> None:
    entries, names = [d.entry for d in document.devices], [d.name for d in document.devices]
    if stroke["name"] not in names:
        raise EditorError(f"There is no device {stroke['name']} any more.")
    place = names.index(stroke["name"])
    if stroke["do"] == "remove-device":
        document.set_devices([e for i, e in enumerate(entries) if i != place])
        return
    names.insert(
        max(0, place - 1) if stroke["do"] == "raise-device" else place + 1, names.pop(place)
    )
    document.reorder(names)


def _change_profile(state: AppState, document: Document, stroke: m.MoveDevice) -> None:
    """Takes the profile of a device away, or puts the one before back. A policy that decided by one that is gone goes on by
    estimates, as in all documents of the model."""
    device = next((d for d in document.devices if d.name == stroke["name"]), None)
    if device is None:
        raise EditorError(f"There is no device {stroke['name']} any more.")
    if stroke["do"] == "forget-profile":
        forget_profile(document.graph, device)
    elif not put_back_profile(document.graph, device):
        raise EditorError(f"There is no earlier profile of {device.name}.")
    document.solve_again()


def _add_device(state: AppState, document: Document, stroke: m.AddDevice) -> None:
    document.set_devices(with_device([d.entry for d in document.devices], stroke["text"]))


def _device_field(state: AppState, document: Document, stroke: m.DeviceField) -> None:
    names = [d.name for d in document.devices]
    place = names.index(stroke["name"]) if stroke["name"] in names else stroke["device"]
    device, key = document.devices[place], stroke["field"]
    if key not in FIELDS:
        raise EditorError(f"The page sent a field that the server does not know: {key!r}. {RELOAD}")
    if shown(device)[key] != (stroke["value"] or None):
        changed = changed_entry(device.entry, key, stroke["value"])
        renamed = {}
        if key == "name" and changed.get("name"):
            renamed = {device.name: str(changed["name"])}
            if not RUNS_ON & set(changed):  # the name said it until now
                changed["backendName"] = device.backend
        document.set_devices(
            [changed if i == place else d.entry for i, d in enumerate(document.devices)], renamed
        )


def _order(state: AppState, document: Document, stroke: m.Order) -> None:
    document.reorder(stroke["names"])


def _rules(state: AppState, document: Document, stroke: m.Rules) -> None:
    document.set_rules(parse_rules(stroke["rules"], "the list of rules"))


def _step(state: AppState, document: Document, stroke: m.Step) -> None:
    document.go(stroke["step"])


def _layout(state: AppState, document: Document, name: str) -> Layout:
    with state.works.begin(document.id, f"Solving “{name}”") as work:
        layout = document.layout(name, work.should_stop)
    if layout is None or layout.placement is None:
        raise EditorError("There is no such layout any more; compare again.")
    return layout


def _show_layout(state: AppState, document: Document, stroke: m.Layout) -> Outcome:
    placement = _layout(state, document, stroke["name"]).placement
    return differing(document.placement, placement) if placement is not None else None


def _use_layout(state: AppState, document: Document, stroke: m.Layout) -> None:
    layout = _layout(state, document, stroke["name"])
    devices = (
        layout.placement.devices if layout.other_devices and layout.placement is not None else None
    )
    document.adopt(layout.name, layout.settings, devices)


def _adopt(state: AppState, document: Document, stroke: m.Layout) -> None:
    """Makes a candidate of the last tuning the plan."""
    name, benchmark = stroke["name"], state.benchmarks.get(document.id)
    finished = benchmark is not None and benchmark.kind == "tune" and benchmark.job.done
    tuned = benchmark.job.result(0) if benchmark is not None and finished else None
    if benchmark is None or tuned is None or name not in tuned.settings:
        raise EditorError("There is no tuned plan of that name any more; tune again.")
    document.adopt(f"tuned: {name}", tuned.settings[name])
    benchmark.plan = document.plan  # this is the one that was measured


def _reset(state: AppState, document: Document, stroke: m.Simple) -> None:
    document.unpin()


def _undo(state: AppState, document: Document, stroke: m.Simple) -> None:
    document.undo()


def _redo(state: AppState, document: Document, stroke: m.Simple) -> None:
    document.redo()


def _show(state: AppState, document: Document, stroke: m.Simple) -> None:
    """No decision changes; the answer shows what an import or a profile did, also to the choices of a policy."""
    document.solve_again()


HANDLERS: dict[str, tuple[type, Callable[[AppState, Document, Any], Outcome]]] = {
    "paint": (m.Paint, _paint),
    "unpin": (m.Unpin, _unpin),
    "label": (m.Label, _label),
    "region": (m.Region, _choosing(_region)),
    "between": (m.Between, _choosing(_between)),
    "grow": (m.Grow, _choosing(_grow)),
    "filter": (m.Filter, _filter),
    "rule-ops": (m.RuleOps, _rule_ops),
    "automatic": (m.Automatic, _automatic),
    "order": (m.Order, _order),
    "raise-device": (m.MoveDevice, _move_device),
    "lower-device": (m.MoveDevice, _move_device),
    "remove-device": (m.MoveDevice, _move_device),
    "forget-profile": (m.MoveDevice, _change_profile),
    "put-back-profile": (m.MoveDevice, _change_profile),
    "add-device": (m.AddDevice, _add_device),
    "device-field": (m.DeviceField, _device_field),
    "rules": (m.Rules, _rules),
    "step": (m.Step, _step),
    "use-layout": (m.Layout, _use_layout),
    "show-layout": (m.Layout, _show_layout),
    "adopt": (m.Layout, _adopt),
    "reset": (m.Simple, _reset),
    "undo": (m.Simple, _undo),
    "redo": (m.Simple, _redo),
    "show": (m.Simple, _show),
}
"""By ``do``: the type that the stroke must have, and what it does."""
