"""Layouts side by side."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter
from typing import Any

from dash import html

from editor.errors import EditorError
from editor.graph.states import TOKENS_PER_SECOND, states_of, unit_of_rate
from editor.kinds import (
    Basis,
    basis_of_energy,
)
from editor.placement.choices import COST_POLICIES, PRESENT, SUBGRAPH_RULES
from editor.placement.placement import Placement
from editor.placement.state_memory import full_at
from editor.text import (
    human_bytes,
    human_seconds,
    pluralize,
)
from editor.web import controls
from editor.web.panels.audit_panel import audit_form
from editor.web.panels.doubts import doubtful_badge
from editor.web.panels.layout_figures import (
    Bar,
    Bases,
    Figure,
    at_least_cell,
    count_cell,
    forced_hint,
    joules_cell,
    layout_chart,
    per_second,
    rate,
    speed_cell,
    spread_of_ops,
    why_no_speed,
)
from editor.web.panels.parts import basis_badge, kind_badge, same_as
from editor.web.panels.sizes_panel import sizes_form
from editor.web.panels.versions import versions_form
from editor.web.view import (
    Measured,
    aim_of,
    colours_of,
    layout_costs,
    plan_costs,
    step_of,
)
from editor.workspace.document import Document
from editor.workspace.layouts import (
    BY_OPENVINO,
    OF_OTHER_TOOLS,
    Layout,
    differing,
    duplicate_layouts,
    figures,
    reasons_of_difference,
    same_plan,
)

_MOST_REASONS = 4
_FIRST, _LAST = (-1.0,), (2.0,)
"""Ranks beside those of bars: of the plan, and of what has no speed"""
_COMPARED = "the plan compared"
"""What the plan of a comparison is called once the plan has changed; as in `assets/graph.js`."""

MEANT = {
    "OpenVINO HETERO rule (simulated)": "Worked out here, OpenVINO is not asked: each op on the first device that can run it",
    BY_OPENVINO: "OpenVINO is asked: what query_model answers for its devices on this machine",
    "Glow rule (simulated)": "Worked out here, Glow is not asked: each op on the first backend that supports it",
    "ONNX Runtime rule (simulated)": "Worked out here, without a session: providers take what they support, in their order",
    "least latency": "The policy Optimal, for the time of one run",
    "best throughput": "The policy Optimal, for runs in flight on all devices",
}
"""What ready-made layouts are."""


_TICKED = [
    html.Span("Tick two to four layouts: ", className="hint"),
    html.Button(
        "Side by side",
        className="tool small",
        id="panes-open",
        title="Draw the ticked layouts beside each other",
    ),
    html.Button(
        "HTML report",
        className="tool small",
        id="panes-attach",
        title="The ticked layouts side by side in one file that needs no server",
    ),
]
"""What is done with layouts that are ticked; seen where there are some."""


def compare_panel(document: Document) -> html.Div:
    """What stands in the Compare tab."""
    return html.Div(
        [
            html.Div(
                [
                    controls.Button("Compare", id="compare-start", primary=True),
                    controls.Field(
                        id="layout-name",
                        placeholder="Name of this layout",
                        width=190,
                        **{"aria-label": "Name of this layout"},
                    ),
                    controls.Button(
                        "Keep this plan",
                        id="layout-keep",
                        title="Without a name it is called by its last step",
                    ),
                    html.Span(_TICKED, className="ticked-tools"),
                ],
                className="bench-controls",
            ),
            html.Div(id="layout-problem", role="alert"),
            html.Div(
                html.P(
                    "Compare sets this plan beside the layouts that you kept, beside what OpenVINO, Glow and ONNX Runtime "
                    "would do with the same devices, and beside the optimum.",
                    className="hint wide",
                ),
                id="compare-result",
            ),
            *sizes_form(document.graph.define),
            *audit_form(document),
            *versions_form(),
        ],
        className="bench",
    )


def compare_view(document: Document, layouts: Sequence[Layout], step: str = "") -> list[Any]:
    """The table of figures: the plan, which is the first of the layouts, then the others from the best to the last.

    Differences are against the plan.

    Args:
        document: whose layouts they are.
        layouts: as ``Document.layouts`` gives them.
        step: what ``step_of`` was when they were asked for: the plan may have changed since. Default: what it is now.

    Raises:
        EditorError: the devices have changed since.
    """
    now = layouts[0].placement or document.placement
    if [d.own_entry for d in now.devices] != [d.own_entry for d in document.devices]:
        raise EditorError("The devices have changed meanwhile: compare again.")
    costs, basis = layout_costs(document, layouts[0])
    present = step_of(document, plan_costs(document)[1])
    step = step or present
    base = figures(now, costs)
    colours = colours_of(
        document,
        [d for layout in layouts if layout.placement is not None for d in layout.placement.devices],
    )
    measured, aim = Measured(document), aim_of(now.settings)
    unit = unit_of_rate(document.graph)
    modes = {"latency": measured.time_mode, "throughput": "throughput"}
    measured_modes = _measured_modes(measured, layouts, modes)
    energy, grows = _more_columns(document)
    columns = 8 + energy + grows
    rows, bars = list[tuple[tuple[float, ...], html.Tr]](), list[Bar]()
    doubtful = doubtful_badge(document)
    twins, at = duplicate_layouts(layouts), measured.context_of_sizes(layouts)
    for layout in (each for each in layouts if each.name not in twins):
        if layout.placement is None:
            rows.append((_LAST, _not_placed(document, layout, columns)))
            continue
        own_costs, own_basis = layout_costs(document, layout)
        row = figures(layout.placement, own_costs)
        mine = layout.name == PRESENT
        unable = [] if mine else layout.placement.forced_ops
        name = _plan_name(step, present) if mine else layout.name
        over = over_memory_mark(layout) or _no_room_mark(layout)
        title = html.Td(
            [
                html.Span(name, title=MEANT.get(layout.name)),
                _by_what(layout, own_basis),
                over,
                _alike(layout, twins),
                _other_devices(layout),
                None if mine else _solved_again(layout),
                forced_hint(layout.placement) if mine else None,
                _audited(layout),
                *(_reasons(now, layout.placement) if layout.name == BY_OPENVINO else ()),
            ]
        )
        bases = Bases(
            basis,
            own_basis,
            mine,
            bool(row["assumed_speeds"]),
            bool(base["assumed_speeds"]),
            all(device.planned for device in layout.placement.used_devices),
            at,
        )
        counted = row if unable else base  # what cannot run has nothing less
        # what does not fit is not faster or slower
        beside = row if over is not None else base
        most = Figure(per_second(row), per_second(beside), rate, bases, True)
        figure_of = {
            "latency": Figure(row["predicted"], beside["predicted"], human_seconds, bases),
            "throughput": most,
        }
        runs = {head: measured.run(layout.placement, mode) for head, mode in modes.items()}
        compared = now if over is None else layout.placement
        plans = {head: measured.run(compared, mode) for head, mode in modes.items()}
        speeds = [
            speed_cell(
                head, runs[head], plans[head], figure, _is_badged(head, runs, measured_modes)
            )
            for head, figure in figure_of.items()
        ]
        if runs["throughput"] is None and runs["latency"] is not None:
            speeds[1] = at_least_cell(runs["latency"], most)
        _name_kinds(speeds, runs, measured_modes, own_basis, doubtful)
        if energy:
            speeds.append(joules_cell(row["joules"], base["joules"], bases))
        if unable:  # a plan that cannot run has no speed
            words = why_no_speed(layout.placement)
            speeds = [html.Td(words, colSpan=len(speeds), className="warn")]
        else:
            bars.append(Bar(layout.name, figure_of[aim], runs[aim], name, over is None))
        place = _FIRST if mine else _LAST if unable else bars[-1].rank(aim)
        rows.append(
            (
                place,
                html.Tr(
                    [
                        html.Td(_tick(layout.name, step if mine else "", step != present)),
                        title,
                        html.Td(spread_of_ops(row["ops"], colours)),
                        count_cell(row["subgraphs"], counted["subgraphs"], str),
                        count_cell(row["transfers"], counted["transfers"], str),
                        count_cell(
                            row["moved"],
                            counted["moved"],
                            human_bytes,
                            f" + {row['unknown']} of unknown size" if row["unknown"] else "",
                        ),
                        *speeds,
                        *([_context(layout.placement)] if grows else []),
                        _pins(layout, row["pins"]),
                        html.Td([] if mine else _buttons(now, layout), className="buttons"),
                    ],
                    className="over-memory" if over is not None else "",
                ),
            )
        )
    return [
        html.Div(
            "The plan, or what it costs, has changed since: compare again.",
            className="outdated",
            hidden=step == present,
            role="status",
            **{"data-step-of": step},
        ),
        html.Table(
            [
                html.Thead(html.Tr(_head(basis, energy, grows, unit, measured_modes, doubtful))),
                html.Tbody([row for _, row in sorted(rows, key=itemgetter(0))]),
            ],
            className="plain",
            id="compare-table",
        ),
        *layout_chart(aim, bars, unit),
    ]


def _solved_again(layout: Layout) -> html.Div | None:
    """Says that a layout which somebody kept is not as it was then: its policy reads costs."""
    if layout.ready_made or layout.is_step or layout.settings.policy not in COST_POLICIES:
        return None
    return html.Div("its decisions, solved with the present costs", className="hint")


def _not_placed(document: Document, layout: Layout, columns: int) -> html.Tr:
    """The row of a layout that could not be made: why, without the folder that the model is in on the server."""
    path = document.graph.path
    why = layout.problem.replace(str(path), path.name)
    return html.Tr(
        [html.Td(), html.Td(layout.name), html.Td(why, colSpan=columns, className="reason")]
    )


def _measured_modes(
    measured: Measured, layouts: Sequence[Layout], modes: Mapping[str, str]
) -> set[str]:
    """Modes of which a layout was measured: where a time was, a rate was, too."""
    placements = [layout.placement for layout in layouts if layout.placement is not None]
    return {
        head
        for head, mode in modes.items()
        for placement in placements
        if measured.run(placement, mode) or measured.run(placement, modes["latency"])
    }


def _is_badged(head: str, runs: Mapping[str, Any], measured_modes: Collection[str]) -> bool:
    """Whether a figure has a badge of its kind: it was worked out, in a column where others were measured."""
    return runs[head] is None and runs["latency"] is None and head in measured_modes


def _name_kinds(
    cells: Sequence[html.Td],
    runs: Mapping[str, Any],
    measured_modes: Collection[str],
    basis: Basis,
    doubtful: Any,
) -> None:
    """Adds what the figures of a layout that was not measured are where others were: their heads do not say it then."""
    kind = kind_badge(basis.kind, detail=basis.source.capitalize())  # its source is said above
    badges = {"latency": [kind, " ", doubtful], "throughput": [kind]}
    for cell, head in zip(cells, runs, strict=True):
        if _is_badged(head, runs, measured_modes):
            cell.children = [*cell.children, " ", *badges[head]]


def _head(
    basis: Basis,
    energy: bool,
    grows: bool,
    unit: str,
    measured: Collection[str],
    doubtful: Any,
) -> list[html.Th]:
    """Heads of the columns of figures, with their kind where all were worked out.

    Args:
        basis: what those are.
        energy: whether there is a column of joules.
        grows: whether there is one of the context that fits.
        unit: of rates.
        measured: modes of which a layout was measured.
        doubtful: stands beside that kind where a measurement contradicts it.
    """

    kind = [] if "latency" in measured else [basis_badge(basis), " ", doubtful]
    of_rate = kind_badge(basis.kind, detail=basis.source.capitalize())
    tokens = unit == TOKENS_PER_SECOND

    head = [
        html.Th(t)
        for t in (
            "Show",
            "Layout",
            "Ops per device",
            "Subgraphs",
            "Transfers",
            "Transferred",
            ["Latency ", *kind],
            "Pins",
        )
    ]
    head.insert(
        -1,
        html.Th(
            [
                f"Max {unit}",
                html.Span(", many at once", className="hint") if tokens else None,
                " ",
                None if "throughput" in measured else of_rate,
            ],
            title=f"What was not measured is of the same kind as latency: {basis}. By the busiest processor, with a "
            f"{'sequence' if tokens else 'request'} for each device in flight; "
            "runtimes on one CPU take turns on it",
        ),
    )
    if energy:
        stated = basis_of_energy(basis)
        head.insert(
            -1,
            html.Th(
                ["Energy ", kind_badge(stated.kind, detail=stated.source)],
                title="Joules of one run: the seconds that each device works, times the watts of its entry",
            ),
        )
    if grows:
        title = "Tokens of context that fit, with what runtimes add (estimate)"
        head.insert(-1, html.Th(["Fits ", html.Span("tokens", className="hint")], title=title))
    head.append(html.Th(html.Span("Actions", className="unseen")))
    return head


def _more_columns(document: Document) -> tuple[bool, bool]:
    """Whether there are columns of joules, and of the context that fits."""
    limited = any(device.memory is not None for device in document.devices)
    energy = any(device.power is not None for device in document.devices)
    return energy, limited and bool(states_of(document.graph))


def _context(placement: Placement) -> html.Td:
    """The context that fits by memory."""
    until = full_at(placement)
    return html.Td("—" if until is None else f"{until:,}")


def _pins(layout: Layout, count: int) -> html.Td:
    """How many ops were pinned by hand: a placement that a runtime reported has none."""
    if layout.name == BY_OPENVINO or layout.audited is not None:
        return html.Td("–", title="The runtime placed these ops: none was pinned by hand")
    return html.Td(str(count))


def _difference(layout: Layout, count: int, same: bool) -> Any:
    """How many ops are elsewhere in a layout; where none are, whether the cut into subgraphs is another one."""
    if not count:
        return html.Span("same plan" if same else "other subgraphs", className="hint")
    return html.Button(
        f"{count} op{' differs' if count == 1 else 's differ'}",
        className="link",
        title="Select the ops that are placed differently",
        **{"data-layout-show": layout.name},
    )


def _reasons(now: Placement, there: Placement) -> list[Any]:
    """Why the plan differs from what OpenVINO says; the commonest reasons."""
    found = reasons_of_difference(now, there)
    lines = [f"{pluralize(len(ops), 'op')} here {reason}" for reason, ops in found[:_MOST_REASONS]]
    if (more := len(found) - _MOST_REASONS) > 0:
        lines.append(f"… and {pluralize(more, 'more reason')}")
    if not lines:
        return []
    summary = html.Summary(f"{pluralize(sum(len(ops) for _, ops in found), 'op')} elsewhere: why")
    return [html.Details([summary, *(html.Div(line, className="hint") for line in lines)])]


def _audited(layout: Layout) -> Any:
    """How many ops an audit found elsewhere, with the reasons folded, and how many the runtime removed."""
    if layout.audited is None:
        return None
    wanted, removed = layout.audited["wanted"], layout.audited["removed"]
    count = sum(group["ops"] for group in layout.audited["astray"])
    lines = [
        f"{pluralize(group['ops'], 'op')} on {group['actual']} ({group['types']}): {group['reason']}"
        for group in layout.audited["astray"]
    ]
    if removed:
        lines.append(
            f"{pluralize(removed, 'op')} removed by the runtime or fused: here with the ops that read them"
        )
    words = (
        f"{pluralize(count, 'op')} not on {wanted}" if count else f"no op elsewhere than {wanted}"
    )
    return html.Details(
        [
            html.Summary(words + (f", {removed:,} removed or fused" if removed else "")),
            *(html.Div(line, className="hint") for line in lines),
        ]
    )


def _by_what(layout: Layout, basis: Basis) -> Any:
    """What the best layout is the best by: where it was measured, that may say otherwise."""
    if not layout.ready_made or layout.settings.policy not in COST_POLICIES:
        return None
    return html.Span(f" by {basis.kind}", className="soft")


def _alike(layout: Layout, twins: Mapping[str, str]) -> html.Div | None:
    """Ready-made layouts that are the same plan."""
    names = [name for name, first in twins.items() if first == layout.name]
    names.sort(key=lambda name: name in (*OF_OTHER_TOOLS, BY_OPENVINO))
    titles = dict[str, list[str]]()
    for name in names:
        short = (
            "OpenVINO’s query_model" if name == BY_OPENVINO else name.removesuffix(" (simulated)")
        )
        titles.setdefault(short, []).append(f"{name}: {MEANT.get(name, name)}")
    return same_as({short: "\n".join(lines) for short, lines in titles.items()})


def _other_devices(layout: Layout) -> Any:
    """Says so where a layout has other devices than the plan: which, and what they are."""
    if not layout.other_devices or layout.placement is None:
        return None
    names = [
        f"{d.name} ({d.published.note})" if d.published.note else d.name
        for d in layout.placement.devices
    ]
    return html.Div(f"kept with {', '.join(names)}", className="hint")


def over_memory_mark(layout: Layout) -> html.Div | None:
    """Names devices whose memory a layout exceeds."""
    placement = layout.placement
    over = [] if placement is None else placement.run_memory.over
    return (
        html.Div(f"over the memory of {', '.join(over)}", className="hint warn") if over else None
    )


def _no_room_mark(layout: Layout) -> html.Div | None:
    """Says that a layout of a model with a state, which grows, has no room for what runtimes add."""
    placement = layout.placement
    if placement is None or not states_of(placement.graph):
        return None
    short = placement.run_memory.over_with_runtimes
    words = "no room with what runtimes add"
    return html.Div(words, className="hint warn", title=short) if short else None


def _buttons(now: Placement, layout: Layout) -> list[Any]:
    """What can be done with a layout that is not the plan."""
    if layout.placement is None:
        return []
    count = len(differing(now, layout.placement))
    title = f"Make “{layout.name}” the current plan"
    if layout.settings.subgraphs != now.settings.subgraphs:
        title += f"; subgraphs by the rule {SUBGRAPH_RULES[layout.settings.subgraphs].label}"
    use = {"className": "tool small", "title": title, "data-layout-use": layout.name}
    buttons = [
        _difference(layout, count, same_plan(now, layout.placement)),
        html.Button("Use", **use),
    ]
    if not layout.ready_made and not layout.is_step:
        words = f"Forget “{layout.name}”"
        forget = {"data-layout-remove": layout.name, "aria-label": words, "title": words}
        buttons.append(html.Button("×", className="mini", **forget))
    return buttons


def _plan_name(step: str, present: str) -> html.B:
    """What the plan of a comparison is called: it is "this plan" as long as its step is the present one."""
    return html.B(PRESENT if step == present else _COMPARED, **{"data-plan-of": step})


def _tick(name: str, step: str, is_past: bool) -> html.Button:
    """Chooses a layout for the view side by side, which has the present plan: ``step`` is that of a plan that may be past."""
    of_step = {"data-tick-of": step, "hidden": is_past} if step else {}
    return html.Button(
        className="tick",
        title=f"Show “{name}” side by side",
        role="checkbox",
        **{"data-pane": name, "aria-checked": "false", "aria-label": f"Show {name} side by side"},
        **of_step,
    )
