"""What each edit does to the document: one handler per kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from editor.errors import EditorError
from editor.graph.states import prompt_at, tokens_of_step
from editor.placement.choices import COST_POLICIES
from editor.placement.device_profile import best_source, costs_of, forget_profile, put_back_profile
from editor.placement.filter import matching
from editor.placement.rules import parse_rules
from editor.web import messages as m
from editor.web.device_fields import FIELDS, RUNS_ON, changed_entry, shown, with_device
from editor.web.view import op_costs
from editor.workspace.document import Document, Refusal
from editor.workspace.layouts import Layout, differing
from editor.workspace.phases import Phases, with_phase

if TYPE_CHECKING:
    from editor.web.app_state import AppState

Outcome = Refusal | list[int] | None
"""What was refused, or ops to select, or nothing."""


def apply(state: AppState, document: Document, edit: m.Edit) -> Outcome:
    """Applies one edit.

    Raises:
        EditorError: it does not fit the document, or cannot be done; the document is as before.
    """
    count, devices = len(document.graph), len(document.devices)
    ops = [*getattr(edit, "ops", ()), *getattr(edit, "first", ())]
    device = getattr(edit, "device", None)
    if any(op >= count for op in ops) or (
        device is not None and device >= devices and not isinstance(edit, m.DeviceField)
    ):
        raise EditorError(f"This edit does not fit the document. {m.RELOAD}")
    return HANDLERS[type(edit)](state, document, edit)


def _choosing(
    choose: Callable[[Document, Any], list[int]],
) -> Callable[[AppState, Document, Any], Outcome]:
    """A handler of a tool that chooses ops: they are painted or unpinned as the brush in hand says, else selected."""

    def handle(state: AppState, document: Document, edit: m.Region | m.Between | m.Grow) -> Outcome:
        chosen, device = choose(document, edit), edit.device
        if edit.unpin:
            document.unpin(chosen)
            return None
        return chosen if device is None else document.paint(chosen, device)

    return handle


def _region(document: Document, edit: m.Region) -> list[int]:
    if not edit.ops:
        raise EditorError("Choose an op first.")
    return document.region(edit.ops[0])


def _between(document: Document, edit: m.Between) -> list[int]:
    if not edit.first or not edit.ops:
        raise EditorError("Choose two ops, one after the other.")
    return document.between(edit.first, edit.ops)


def _grow(document: Document, edit: m.Grow) -> list[int]:
    return document.expand_selection(edit.ops, edit.how)


def _filter(state: AppState, document: Document, edit: m.Filter) -> Outcome:
    return matching(document.placement, edit.text, lambda: op_costs(document)[0])


def _rule_ops(state: AppState, document: Document, edit: m.RuleOps) -> Outcome:
    rules, number = document.placement.settings.rules, edit.rule
    if not 0 <= number < len(rules):
        raise EditorError("There is no such rule any more.")
    return rules[number].matches(document.graph, ~document.graph.op_is_constant)


def _paint(state: AppState, document: Document, edit: m.Paint) -> Outcome:
    return document.paint(edit.ops, edit.device, edit.force)


def _unpin(state: AppState, document: Document, edit: m.Unpin) -> None:
    document.unpin(edit.ops)


def _label(state: AppState, document: Document, edit: m.PinToLabel) -> None:
    document.pin(edit.ops, edit.label)


def _automatic(state: AppState, document: Document, edit: m.Automatic) -> None:
    policy, options = automatic_mode(document, edit.policy, edit.costs, edit.codegen)
    if edit.costs == "measured" and policy not in COST_POLICIES:
        costs_of(document.graph, document.devices, "measured")  # says what is missing
    document.set_automatic(policy, options, edit.grouping)


def automatic_mode(
    document: Document, chosen: str, costs: str, codegen: str
) -> tuple[str, dict[str, Any]]:
    """A policy and its options, by the page's lists; options that it has no list for stay, but the budget of a search."""
    policy, _, objective = chosen.partition(":")
    asked_for = {"objective", "costs", "codegen", "search"}
    if objective != "energy":
        asked_for.add("within")
    if policy != document.placement.settings.policy:
        asked_for.add("first")  # of a layout that was used
    options = {
        k: v for k, v in document.placement.settings.policy_options.items() if k not in asked_for
    }
    if objective:
        options["objective"] = objective
    if codegen == "subgraph":
        options["codegen"] = "subgraph"
    # What holds by itself is not stored: some policies decide by estimates, figures of others come from profiles, if any.
    other = "measured" if policy in COST_POLICIES else "estimate"
    if costs == other and (
        policy in COST_POLICIES or best_source(document.graph, document.devices) == "measured"
    ):
        options["costs"] = other
    return policy, options


def _move_device(state: AppState, document: Document, edit: m.MoveDevice) -> None:
    entries, names = [d.entry for d in document.devices], [d.name for d in document.devices]
    if edit.name not in names:
        raise EditorError(f"There is no device {edit.name} any more.")
    place = names.index(edit.name)
    if edit.do == "remove-device":
        document.set_devices([e for i, e in enumerate(entries) if i != place])
        return
    names.insert(max(0, place - 1) if edit.do == "raise-device" else place + 1, names.pop(place))
    document.reorder(names)


def _change_profile(state: AppState, document: Document, edit: m.ChangeProfile) -> None:
    """Takes the profile of a device away, or puts the one before back. A policy that decided by one that is gone goes on by
    estimates, as in all documents of the model."""
    device = next((d for d in document.devices if d.name == edit.name), None)
    if device is None:
        raise EditorError(f"There is no device {edit.name} any more.")
    if edit.do == "forget-profile":
        forget_profile(document.graph, device)
    elif not put_back_profile(document.graph, device):
        raise EditorError(f"There is no earlier profile of {device.name}.")
    document.solve_again()


def _add_device(state: AppState, document: Document, edit: m.AddDevice) -> None:
    document.set_devices(with_device([d.entry for d in document.devices], edit.text))


def _device_field(state: AppState, document: Document, edit: m.DeviceField) -> None:
    names = [d.name for d in document.devices]
    place = names.index(edit.name) if edit.name in names else edit.device
    device, key = document.devices[place], edit.field
    if key not in FIELDS:
        raise EditorError(
            f"The page sent a field that the server does not know: {key!r}. {m.RELOAD}"
        )
    if shown(device)[key] != (edit.value or None):
        changed = changed_entry(device.entry, key, edit.value)
        renamed = {}
        if key == "name" and changed.get("name"):
            renamed = {device.name: str(changed["name"])}
            if not RUNS_ON & set(changed):  # the name said it until now
                changed["backendName"] = device.backend
        document.set_devices(
            [changed if i == place else d.entry for i, d in enumerate(document.devices)], renamed
        )


def _order(state: AppState, document: Document, edit: m.ReorderDevices) -> None:
    document.reorder(edit.names)


def _rules(state: AppState, document: Document, edit: m.Rules) -> None:
    document.set_rules(parse_rules(edit.rules, "the list of rules"))


def _step(state: AppState, document: Document, edit: m.GoToStep) -> None:
    document.go(edit.step)


def _layout(state: AppState, document: Document, name: str) -> Layout:
    with state.tasks.begin(document.id, f"Solving “{name}”") as work:
        layout = document.layout(name, work.should_stop)
    if layout is None or layout.placement is None:
        raise EditorError("There is no such layout any more; compare again.")
    return layout


def _show_layout(state: AppState, document: Document, edit: m.LayoutEdit) -> Outcome:
    placement = _layout(state, document, edit.name).placement
    return differing(document.placement, placement) if placement is not None else None


def _use_layout(state: AppState, document: Document, edit: m.LayoutEdit) -> None:
    layout = _layout(state, document, edit.name)
    devices = (
        layout.placement.devices if layout.other_devices and layout.placement is not None else None
    )
    document.adopt(layout.name, layout.settings, devices)


def _adopt(state: AppState, document: Document, edit: m.LayoutEdit) -> None:
    """Makes a candidate of the last tuning the plan."""
    name, benchmark = edit.name, state.benchmarks.get(document.id)
    finished = benchmark is not None and benchmark.kind == "tune" and benchmark.job.done
    tuned = benchmark.job.result(0) if benchmark is not None and finished else None
    if benchmark is None or tuned is None or name not in tuned.settings:
        raise EditorError("There is no tuned plan of that name any more; tune again.")
    document.adopt(f"tuned: {name}", tuned.settings[name])
    benchmark.plan = document.plan  # this is the one that was measured


def use_phase(document: Document, phases: Phases | None, name: str) -> Phases:
    """Makes a way to place both phases the plan, as far as it is of the phase of the document.

    Returns:
        The ways, with this one as the one that is used.

    Raises:
        EditorError: it is not kept any more, or has no room for the sizes of the document.
    """
    if phases is None or name not in phases.placements:
        raise EditorError("These placements are not kept any more; place both phases again.")
    phase, made_for = "the prompt", phases.lengths.prompt
    if tokens_of_step(document.graph) == 1:
        phase, made_for = "the tokens", phases.lengths.before_last
    try:
        chosen = with_phase(document.placement, phases.placements[name])
        document.adopt(f"{name}: {phase}", chosen.settings)
    except EditorError:
        if (opened := prompt_at(document.graph)) <= made_for:
            raise
        raise EditorError(
            f"{name!r} is placed for {made_for:,} tokens, and has no room for the {opened:,} of the sizes that are open: "
            f"place both phases with a prompt of {opened:,} or more, or open a token of {made_for:,} first."
        ) from None
    return phases.using(name)


def _layout_edit(state: AppState, document: Document, edit: m.LayoutEdit) -> Outcome:
    match edit.do:
        case "use-layout":
            _use_layout(state, document, edit)
        case "show-layout":
            return _show_layout(state, document, edit)
        case "remove-layout":
            document.forget_layout(edit.name)
        case "adopt":
            _adopt(state, document, edit)
        case "use-phase":
            state.phased[document] = use_phase(document, state.phased.get(document), edit.name)
    return None


def _history(state: AppState, document: Document, edit: m.HistoryEdit) -> None:
    match edit.do:
        case "reset":
            document.unpin()
        case "keep-others":
            document.keep_others()
        case "undo":
            document.undo()
        case "redo":
            document.redo()
        case (
            "show"
        ):  # the answer shows what an import or a profile did, also to the choices of a policy
            document.solve_again()


HANDLERS: dict[type, Callable[[AppState, Document, Any], Outcome]] = {
    m.Paint: _paint,
    m.Unpin: _unpin,
    m.PinToLabel: _label,
    m.Region: _choosing(_region),
    m.Between: _choosing(_between),
    m.Grow: _choosing(_grow),
    m.Filter: _filter,
    m.RuleOps: _rule_ops,
    m.Automatic: _automatic,
    m.ReorderDevices: _order,
    m.MoveDevice: _move_device,
    m.ChangeProfile: _change_profile,
    m.AddDevice: _add_device,
    m.DeviceField: _device_field,
    m.Rules: _rules,
    m.GoToStep: _step,
    m.LayoutEdit: _layout_edit,
    m.HistoryEdit: _history,
}
"""What each kind of edit does."""
