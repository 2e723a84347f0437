"""The devices of the plan: legend, brushes and counts in one list."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from dash import html

from editor.devices.device import Device, letters
from editor.graph.dimension_meanings import sizes_apart
from editor.kinds import Kind
from editor.placement.choices import OPTIONS, SUBGRAPH_RULES, policy_choices
from editor.placement.chosen_costs import assumed_speeds
from editor.placement.device_profile import has_profile_at
from editor.placement.pin_groups import PinGroup, pin_groups
from editor.placement.policies.task import Assignment
from editor.text import human_bytes, joined, pluralize, roughly
from editor.web import controls
from editor.web.controls import static_html
from editor.web.drawing.elements import spans
from editor.web.panels.doubts import doubt_of_costs, use_profile, way_to_better_costs
from editor.web.panels.parts import (
    ADDED,
    heading,
    icon,
    kind_badge,
    planned_badge,
    swatch,
    unpin_forced_button,
)
from editor.web.panels.words import FIELDS
from editor.web.view import (
    codegen_value,
    colours_of,
    costs_value,
    has_profile,
    memory_of,
    plan_costs,
    policy_value,
)
from editor.workspace.document import Document
from editor.workspace.history import Record, Step


def tools_panel(document: Document) -> html.Aside:
    """The left column."""
    return html.Aside(
        [
            static_html(_tool("select", "cursor", "Select and move", "V")),
            html.Div(static_html(device_list(document)), id="devices"),
            static_html(_tool("unpin", "eraser", "Unpin", "U")),
            controls.Select(
                id="policy",
                value=policy_value(document.placement.settings),
                data=_items(policy_choices()),
                label="Policy",
                title=FIELDS["Policy"],
            ),
            html.Div(id="better", role="status"),
            controls.Select(
                id="costs",
                value=costs_value(document),
                data=_items(OPTIONS["costs"].values),
                label="Costs",
                title=FIELDS["Costs"],
            ),
            html.Div(static_html(outcome(document)), id="outcome"),
            html.Details(
                [
                    html.Summary("More"),
                    controls.Select(
                        id="grouping",
                        value=document.placement.settings.subgraphs,
                        data=_items({name: rule.label for name, rule in SUBGRAPH_RULES.items()}),
                        label="Subgraphs",
                        title=FIELDS["Subgraphs"],
                    ),
                    controls.Select(
                        id="codegen",
                        value=codegen_value(document.placement.settings),
                        data=_items(OPTIONS["codegen"].values),
                        label="Codegen",
                        title=FIELDS["Codegen"],
                        hidden=not _has_codegens(document),
                    ),
                    static_html(*_regions()),
                ],
                id="more",
            ),
            static_html(heading("Pins")),
            html.Div(static_html(pins_summary(document)), id="pins"),
            static_html(heading("History")),
            html.Div(static_html(history_list(document)), id="history"),
        ],
        id="tools",
        className="panel",
        **{"aria-label": "Painting tools"},
    )


def _regions() -> list[Any]:
    """Ways to select more; the menu of a right click and keys have them too."""
    return [
        heading("Region"),
        _region_tool("region", "region", "Connected, same colour", "R"),
        _region_tool("between", "between", "Everything between two ops", "B"),
        html.Div(
            [
                html.Button(
                    label,
                    className="tool small",
                    title=f"{title} ({key.upper()})",
                    **{"data-grow": how},
                )
                for how, label, title, key in GROW
            ],
            className="growths",
        ),
    ]


GROW = [
    ("type", "Same type", "All ops of this type", "t"),
    ("alike", "Every layer", "The same op in every repeated block", "l"),
    ("block", "Block", "The block around it", "k"),
    ("subgraph", "Subgraph", "Its whole subgraph", "s"),
    ("upstream", "Upstream", "Everything it depends on", "a"),
    ("downstream", "Downstream", "Everything that depends on it", "d"),
    ("neighbours", "Neighbours", "Its neighbours", "n"),
]


def _items(labels: Mapping[str, str]) -> list[dict[str, str]]:
    """Choices of a list."""
    return [{"value": value, "label": label} for value, label in labels.items()]


def _has_codegens(document: Document) -> bool:
    """Some device and unit can be reached by several codegens, so that there is something to choose."""
    return len({(d.device, d.unit) for d in document.devices}) < len(document.devices)


def outcome(document: Document) -> list[Any]:
    """What a cost-based policy reached, and what nothing can beat."""
    result = document.placement.assignment
    if result.objective is None:
        return [_doubt(document), _beside_profiles(document), _at_other_sizes(document)]
    options = document.placement.settings.policy_options
    unused = options.get("costs", "estimate") == "estimate" and has_profile(document)
    doubt = _doubt(document)
    costs, basis = plan_costs(document)
    in_figures = _rough_form(result) if assumed_speeds(document.placement, costs) else result.human
    title = f"{result.objective_name[:1].upper()}{result.objective_name[1:]} {in_figures(result.objective)} "
    kind = basis.kind if options.get("costs") == "measured" else Kind.ESTIMATE
    return [
        html.P([title, kind_badge(kind)], className="hint"),
        html.P(_free(document) or _bound(document, result, in_figures), className="hint")
        if result.bound is not None
        else None,
        doubt,
        html.P(["This model has been profiled: ", use_profile(), "."], className="hint")
        if unused and doubt is None
        else None,
        _beside_profiles(document),
        _at_other_sizes(document),
    ]


def _at_other_sizes(document: Document) -> html.P | None:
    """Says that a profile is of other sizes, where these have none."""
    graph, devices = document.graph, document.devices
    if has_profile_at(graph, devices, graph.define):
        return None
    if not any(has_profile_at(graph, devices, o.define) for o in document.at_other_sizes()):
        return None
    again = html.Button(
        "Profile again for these", className="link", **{"data-command": "run-bench-profile"}
    )
    return html.P(["Profiled at other sizes: ", again, "."], className="hint")


def _beside_profiles(document: Document) -> html.P | None:
    """Says which ops have estimates where costs are taken from profiles."""
    costs, basis = plan_costs(document)
    if costs_value(document) != "measured" or basis.kind is not Kind.ESTIMATE:
        return None
    placement = document.placement
    profiled = [d for d in placement.used_numbers if costs.profiled and costs.profiled[d]]
    words = "No op runs on a device that has a profile: these figures are estimates."
    if profiled:
        others = [d for d in placement.used_numbers if d not in profiled]
        names, lacking = (
            joined([document.devices[d].name for d in ds]) for ds in (profiled, others)
        )
        ops = int(np.isin(placement.device_of_op[placement.placed_ops], others).sum())
        words = (
            f"{names} {'is' if len(profiled) == 1 else 'are'} profiled. {lacking} {'has' if len(others) == 1 else 'have'} no "
            f"profile: the times of {pluralize(ops, 'op')} there are estimates."
        )
    return html.P(words, className="hint")


def _free(document: Document) -> str:
    """Says so where nothing is left to choose, and a bound would be about a choice that there is not; else ""."""
    constraints = document.placement.constraints
    choices = constraints.allowed[constraints.placed].sum(axis=1)
    return (
        ""
        if (choices > 1).any()
        else "Pins, rules and devices leave no choice: there is nothing to improve."
    )


def _rough_form(result: Assignment) -> Callable[[float], str]:
    """An objective that rests on assumed speeds, as ``rough_seconds`` has it."""
    return lambda value: f"about {result.human(roughly(value))}"


_FAR_ABOVE = 100
"""Percent above a bound, from which the bound says little of a plan"""


def _bound(document: Document, result: Assignment, in_figures: Callable[[float], str]) -> str:
    """What no placement can beat, and how far the plan is from it."""
    objective, bound = result.objective or 0.0, result.bound or 0.0
    gap = (objective / bound - 1) * 100 if bound > 0 else 0.0
    same = result.human(objective) == result.human(bound) or gap <= 0
    how_far = "reached" if same else f"this plan is {gap:{'.0f' if gap >= 1 else '.1g'}} % above"
    if gap > _FAR_ABOVE:
        limited = any(device.memory is not None for device in document.devices)
        why = "; it does not know how much tensors take of the memory" if limited else ""
        how_far = f"this plan takes {objective / bound:.0f} times that{why}"
    given = " with your pins" if document.placement.settings.pins else ""
    return f"Lower bound{given} by these costs {in_figures(bound)} ({how_far})"


def _doubt(document: Document) -> html.P | None:
    """Says where a measurement shows that the costs mislead."""
    words = doubt_of_costs(document)
    if not words:
        return None
    return html.P([f"{words} ", way_to_better_costs(document), "."], className="hint warn")


def device_list(document: Document) -> list[Any]:
    """One row per device, in order of priority."""
    colours, memory = colours_of(document), memory_of(document)
    counts, held = document.placement.op_counts, document.placement.run_memory
    rows = []
    for i, device in enumerate(document.devices):
        count = counts[device.name]
        number = html.Span([html.B(f"{count:,}"), " op" if count == 1 else " ops"])
        row = html.Button(
            [
                swatch(colours[device.name]),
                html.Span(
                    [
                        html.Span(
                            [
                                html.Span(device.name, className="device-name"),
                                planned_badge() if device.planned else None,
                            ],
                            className="device-line",
                        ),
                        html.Span(_what(device, document.devices), className="device-what"),
                        html.Span(
                            [
                                number,
                                " ",
                                *_room(memory[device.name], held.added_by_runtime(i), device),
                            ],
                            className="device-count",
                            **{"data-count": str(count)},
                        ),
                    ],
                    className="device-text",
                ),
                html.Kbd(str(i + 1)) if i < 9 else None,
            ],
            className=f"tool brush-{i}",
            title=f"Paint with {device.name}: {device.description}",
            **{"data-brush": str(i), "data-device": device.name},
        )
        words = f"Raise the priority of {device.name}"
        up = html.Button(
            icon("up"),
            className="raise",
            title=words,
            disabled=i == 0,
            **{"data-raise-device": device.name, "aria-label": words},
        )
        every = html.Button(
            "all",
            className="mini every",
            title=f"Select all ops on {device.name}",
            disabled=not count,
            **{"data-all-on": str(i), "aria-label": f"Select all ops on {device.name}"},
        )
        rows.append(
            html.Div(
                [row, html.Div([up, every], className="device-more")],
                className="device-row",
                draggable="true",
                **{"data-row-device": str(i)},
            )
        )
    return rows


def _what(device: Device, devices: Sequence[Device]) -> str:
    """What tells a device from the others: its levels where the table has several like it."""
    alike = [d for d in devices if d.device == device.device]
    if len(alike) > 1 or device.planned:
        published = device.published
        notes = [
            published.preset,
            f"as if {published.assumes}" if published.assumes else "",
            "unofficial list" if published.unofficial else "",
        ]
        note = ", ".join(filter(None, notes))
        compiler = device.runtime_beside if device.codegen == device.runtime else device.codegen
        several = len({d.unit for d in alike}) > 1
        level = f"{device.device} {device.unit}" if several else device.device
        said, parts = letters(device.name), []
        for part in filter(None, (note, level, compiler)):
            if letters(part) not in said:
                said += letters(part)
                parts.append(part)
        lacks = device.description.removeprefix("planned: ").removeprefix(f"{device.backend} is ")
        return " · ".join(parts) or lacks
    return device.description


_NEARLY_FULL = 0.9
"""Share of a device's memory from which its runtime is told beside the peak"""


def _room(used: int, added: int, device: Device) -> list[Any]:
    """Memory that is needed, against the limit where there is one; ``added``: bytes of its runtime, where that is known."""
    peak = "Peak memory: the most that the device needs at a time of the run"
    taken = f"about {human_bytes(used + added)} with its runtime" if added else ""
    if device.memory is None:
        return [
            html.Span(
                f"peak {human_bytes(used)}" if used else human_bytes(used),
                title="; ".join(filter(None, (peak, taken))),
            )
        ]
    size, unit = human_bytes(used).rsplit(" ", 1)
    whole = human_bytes(device.memory_of_table or device.memory)
    shown = size if whole.endswith(f" {unit}") else f"{size} {unit}"
    text = f"peak {shown} of {whole}{device.taken_text}"
    has = f"and what it has ({device.binary_limit})" if device.binary_limit else "and what it has"
    if used <= device.memory:
        over, near = used + added > device.memory, used + added > _NEARLY_FULL * device.memory
        return [
            html.Span(text, title="; ".join(filter(None, (f"{peak}, {has}", taken)))),
            html.Span(taken, className="over" if over else "", title=ADDED) if near else None,
        ]
    return [
        html.Span(
            text,
            className="over",
            title="Over its memory: "
            + (
                "place the set within memory, or repaint"
                if device.taken
                else "choose the policy “Optimal within memory”, or repaint"
            ),
        )
    ]


def pins_summary(document: Document) -> list[Any]:
    """How many ops are pinned, and the way back to automatic."""
    settings = document.placement.settings
    count, forced = len(settings.pins), len(document.placement.forced_ops)
    first = settings.policy_options.get("first")
    also = (
        f" It tries {first} before the other devices; another policy, or undo, ends that."
        if first
        else ""
    )
    if not count:
        words = f"No pins: the automatic mode places every op.{also}"
        return [html.P(words, className="hint")]
    text = pluralize(count, "pinned op") + (f", {forced} by force" if forced else "")
    rows = _pin_rows(document)
    pins: Any = html.Ul(rows, className="pins")
    if (
        len(rows) > _ROWS_OPEN
    ):  # as a layout or a phase that is used leaves them: the tools below stay in sight
        going_on = document.history.current.label.startswith("unpin ")  # the next one, perhaps
        pins = html.Details([html.Summary(text), pins], open=going_on)
        text = ""
    said = [f"{text} ", unpin_forced_button()] if forced else text
    return [
        html.P(said, className="hint") if said else None,
        pins,
        html.Button(
            [icon("reset"), html.Span("Reset to automatic")],
            className="tool",
            **{"data-command": "reset", "title": "Remove all pins"},
        ),
    ]


_PINS_SHOWN, _ROWS_OPEN = 40, 5


def _pin_rows(document: Document) -> list[Any]:
    """The pins, with a way to their ops and a way to remove them, the last one first; blocks and op types in one row."""
    graph, pins = document.graph, document.placement.settings.pins
    when = {graph.key_index[key]: i for i, key in enumerate(pins)}
    groups = sorted(pin_groups(graph, pins), key=lambda group: -max(when[op] for op in group.ops))
    rows = [_pin_group(document, group) for group in groups[:_PINS_SHOWN]]
    more = sum(len(group.ops) for group in groups[_PINS_SHOWN:])
    return rows + ([html.Li(f"and {more:,} more", className="hint")] if more else [])


def _pin_group(document: Document, group: PinGroup) -> html.Li:
    """Pins of blocks, or of one op type, to one device."""
    label, ops = group.device, group.ops
    if len(ops) == 1:
        return _pin(document, label, ops[0])
    what = group.what
    inside = [_pin(document, label, op) for op in ops[:_PINS_SHOWN]]
    if len(ops) > len(inside):
        inside.append(html.Li(f"and {len(ops) - len(inside):,} more", className="hint"))
    return html.Li(
        [
            _pin_swatch(document, label),
            html.Details(
                [
                    html.Summary(
                        [
                            html.Button(
                                what,
                                className="link",
                                title=f"{what}: pinned to {label}",
                                **{"data-ops": spans(np.array(sorted(ops), np.int64))},
                            )
                        ]
                    ),
                    html.Ul(inside),
                ]
            ),
            _unpin(",".join(map(str, ops)), what),
        ]
    )


def _pin(document: Document, label: str, op: int) -> html.Li:
    kind, name = document.graph.type_label(op), document.graph.display_name(op)
    return html.Li(
        [
            _pin_swatch(document, label),
            html.Button(
                [html.Span(f"{kind} "), html.Span(html.Bdi(name), className="name-end")],
                className="link",
                title=f"{kind} {name}: pinned to {label}",
                **{"data-goto": f"op{op}"},
            ),
            _unpin(str(op), name),
        ]
    )


def _pin_swatch(document: Document, label: str) -> html.Span | None:
    colours = colours_of(document)
    return swatch(colours[label]) if label in colours else None


def _unpin(ops: str, what: str) -> html.Button:
    return html.Button(
        "×",
        className="mini",
        title=f"Unpin {what}",
        **{"data-unpin-op": ops, "aria-label": f"Unpin {what}"},
    )


_STEPS_SHOWN = 30


def history_list(document: Document) -> list[Any]:
    """What was done, newest first; each step can be gone back to."""
    tree = document.history
    branch = set(tree.branch)

    def look(number: int) -> str:
        if number not in branch:
            return "step branch"
        return (
            "step now"
            if number == tree.cursor
            else "step undone"
            if number > tree.cursor
            else "step"
        )

    def title(step: Step) -> str:
        origin = "" if step.number in branch else f"; another branch, from step {step.parent}"
        return f"Step {step.number}: {step.label}{f', by {step.author}' if step.author else ''}{origin}"

    steps = tree.steps[::-1]
    rows: list[Any] = [
        html.Button(
            _step_words(step.label) if step.number else "opened",
            className=look(step.number),
            title=title(step),
            **{
                "data-step": str(step.number),
                "aria-current": "step" if step.number == tree.cursor else "false",
            },
        )
        for step in steps[:_STEPS_SHOWN]
    ]
    if (older := len(steps) - _STEPS_SHOWN) > 0:
        rows.append(html.P(pluralize(older, "older step"), className="hint"))
    others = document.at_other_sizes()
    if others:
        rows.append(html.P("This model at other sizes:", className="hint"))
    for other in others:
        rows.append(to_other_sizes(document, other, "at", "step"))
    return rows


def way_back(document: Document, origin: Record | None = None) -> html.A | None:
    """To the sizes that a person came from, by default the latest others: each of the sizes has a history of its own.

    From those that a person has just come from, undo leads back by this link, too (`assets/shell.js`).
    """
    others = [origin] if origin else document.at_other_sizes()
    return to_other_sizes(document, others[0], "Back to", "tool small") if others else None


def to_other_sizes(document: Document, other: Record, word: str, look: str) -> html.A:
    """A link to the same model at other sizes: "at 1 token after 127"."""
    sizes = sizes_apart(other.define, [document.graph.define]) or "other sizes"
    meant = "The same model at these sizes, with a history of its own"
    return html.A(f"{word} {sizes}", href=f"/d/{other.id}", className=look, title=meant)


def _step_words(label: str) -> Any:
    """A step in words; of "name → device" the name is cut where it is long, at its front, and other words take more lines."""
    what, arrow, device = label.rpartition(" → ")
    if not arrow:
        return html.Span(label, className="step-words")
    return [
        html.Span(html.Bdi(what), className="step-what"),
        html.Span(arrow + device, className="step-to"),
    ]


def _tool(name: str, picture: str, label: str, key: str) -> html.Button:
    return html.Button(
        [icon(picture), html.Span(label, className="device-text"), html.Kbd(key)],
        className=f"tool brush-{name}",
        title=f"{label} ({key})",
        **{"data-brush": name},
    )


def _region_tool(name: str, picture: str, label: str, key: str) -> html.Button:
    return html.Button(
        [icon(picture), html.Span(label, className="device-text"), html.Kbd(key)],
        className=f"tool region-{name}",
        title=f"{label} ({key})",
        **{"data-region": name},
    )
