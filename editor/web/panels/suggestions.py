"""Better plans: those of another policy, and repaints worth making."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from dash import html

from editor.graph.graph import Graph
from editor.graph.scopes.tree import scopes_of
from editor.graph.states import unit_of_rate
from editor.kinds import (
    NO_DIFFERENCE,
    Kind,
    compare_medians,
    too_close,
    weakest,
)
from editor.placement.choices import COST_POLICIES, policy_choices
from editor.placement.chosen_costs import aims_at_throughput
from editor.placement.device_profile import basis_of
from editor.placement.fallbacks import (
    Hint,
    fallbacks,
    if_taken,
    separating_pins,
    separating_rules,
)
from editor.placement.placement import Placement
from editor.placement.remarks import wrong_types
from editor.text import (
    human_bytes,
    human_rate,
    human_seconds,
    in_words,
    joined,
    percent,
    pluralize,
)
from editor.web.drawing.elements import spans
from editor.web.panels.compare import MEANT, over_memory_mark
from editor.web.panels.doubts import (
    doubt_of_costs,
    doubtful_badge,
    estimates_off,
    way_to_better_costs,
)
from editor.web.panels.layout_figures import (
    KIT,
    per_second,
    rate,
)
from editor.web.panels.parts import basis_badge, kind_badge, plan_as_button
from editor.web.panels.verdict import over_memory
from editor.web.view import (
    Measured,
    figures_of,
    layout_costs,
    measured_run,
    op_costs,
    plan_costs,
    source_of,
    step_of,
)
from editor.workspace.contexts import are_alike
from editor.workspace.document import Document
from editor.workspace.layouts import (
    WITHIN_MEMORY,
    Layout,
    differing,
    figures,
)

_LOOKED_AT = 24
"""Ops of a hint that are asked where else they are; all, for all but the largest."""


def _untold(best: Hint, document: Document) -> html.P:
    """What is said where no suggestion saves more than such figures can tell."""
    kinds, way = "predictions", "benchmark both first"
    if best.estimated:
        profiled, used = plan_costs(document)[0].profiled, document.placement.used_numbers
        lacking = [document.devices[d] for d in used if not (profiled and profiled[d])]
        absent = any(device.planned for device in lacking)  # which no profile here makes surer
        kinds, way = "estimates", KIT if absent else "profile first" if lacking else "profile again"
    if problem := document.graph.weights_problem:
        way = f"{problem}; once they are, {way.removesuffix(' first')}"
    share = percent(best.seconds / best.before, 1)
    return html.P(
        f"No single move is a sure gain (the best saves {share}, which {kinds} cannot tell from none): {way}, or try one:",
        className="hint wide",
    )


def policies_to_try(document: Document) -> list[str]:
    """Policies whose plan may be worth showing beside the present one, as the page's list has them: the first that fits.

    Plans that aim at something else than latency have none, and for those that do not fit the verdict has a button.
    """
    settings = document.placement.settings
    if (
        settings.policy in COST_POLICIES
        or over_memory(document)
        or document.graph.weights_problem
        or doubt_of_costs(document)
        or document.store.set_of(document.id) is not None
    ):
        return []
    limited = layout_of_policy(document) in WITHIN_MEMORY
    return ["optimal:latency", *(["memory"] if limited else [])]


def better_plan(document: Document, other: Placement, policy: str) -> html.P | None:
    """A line about the plan of another policy with a button that takes it; None where it is not surely faster."""
    costs, basis = plan_costs(document)
    other_basis = basis_of(costs, source_of(document), other.used_numbers)
    if (
        costs.profiled
        and estimates_off(document)
        and not all(costs.profiled[d] for d in other.used_numbers)
    ):
        return None
    now, then = figures(document.placement, costs), figures(other, costs)
    mine, theirs = float(now["predicted"]), float(then["predicted"])
    measured = _measured_saving(document, other, of_rate=False)
    if (
        measured == ""
        or not theirs
        or (measured is None and too_close(mine, theirs, basis, other_basis))
    ):
        return None
    if measured is None and theirs > mine:
        return None
    took = [in_words(row["predicted"], bool(row["assumed_speeds"])) for row in (then, now)]
    label = policy_choices()[policy]
    whole = f", all of it on {other.used_devices[0].name}," if len(other.subgraphs) == 1 else ""
    says: list[Any] = [
        f" would take {took[0]}{whole} instead of {took[1]} ",
        basis_badge(weakest([basis, other_basis])),
    ]
    if measured is not None:
        says = [f" took {measured} ", kind_badge(Kind.MEASUREMENT)]
    elif measured_run(document) is not None:  # which the headline has
        kind = weakest([basis, other_basis]).kind.participle
        says = [f" is {kind} {took[0]}, where this plan was {took[1]} "]
    use = html.Button(
        "Use",
        className="tool small",
        title=f"The policy “{label}”: {pluralize(len(differing(document.placement, other)), 'op')} on another device",
        **{"data-command": f"policy-{policy}"},
    )
    first: list[Any] = []
    if (
        measured is None
        and basis.kind is Kind.ESTIMATE
        and any(not d.planned for d in document.devices)
    ):
        profile = {
            "data-command": "run-bench-profile",
            "title": "Measures the ops on the devices that are here",
        }
        first = [" or ", html.Button("profile first", className="link", **profile)]
    return html.P(
        [html.B(label.removeprefix("Optimal: ").capitalize()), *says, " ", use, *first],
        className="hint",
    )


def layout_of_policy(document: Document) -> str:
    """The ready-made layout that no other one beats by the same costs, as far as it fits."""
    if aims_at_throughput(document.placement.settings):
        return "best throughput"
    limited = any(device.memory is not None for device in document.devices)
    return "optimal within memory" if limited else "least latency"


def layout_to_suggest(document: Document, should_stop: Callable[[], bool]) -> Layout | None:
    """The ready-made layout that is faster than others by the same costs and fits: the one of the fewest conditions.

    Raises:
        EditorError: it cannot be solved.
    """
    name = layout_of_policy(document)
    if name in WITHIN_MEMORY:
        plain = document.layout("least latency", should_stop)
        if plain is not None and plain.placement is not None and over_memory_mark(plain) is None:
            return plain
    return document.layout(name, should_stop)


def _by_policy(document: Document, layout: Layout | None) -> list[html.P]:
    """A line for the layout of a policy, where it is better than the plan by the same costs, or fits and the plan does not."""
    costs, basis = plan_costs(document)
    if layout is None or layout.placement is None or over_memory_mark(layout) is not None:
        return []
    now, other = figures(document.placement, costs), figures(layout.placement, costs)
    of_rate = aims_at_throughput(document.placement.settings)
    key = "busiest" if of_rate else "predicted"
    mine, theirs = float(now[key]), float(other[key])
    own_basis = layout_costs(document, layout)[1]
    measured = _measured_saving(document, layout.placement, of_rate)
    is_over = bool(over_memory(document))
    if not is_over and (theirs >= mine * (1 - _LEAST_SAVING) or measured == ""):
        return []
    measured = None if is_over else measured
    unsure = measured is None and not is_over and too_close(mine, theirs, basis, own_basis)
    words = [
        in_words(row[key], bool(row["assumed_speeds"])) + (" between requests" if of_rate else "")
        for row in (other, now)
    ]
    if unsure and words[0] == words[1]:
        return []
    would_take: list[Any] = [f" would take {words[0]} instead of {words[1]} "]
    if measured is not None:
        would_take = [f" took {measured} ", kind_badge(Kind.MEASUREMENT)]
    else:
        would_take += [basis_badge(weakest([basis, own_basis])), doubtful_badge(document)]
    settings = document.placement.settings
    held = [(len(settings.pins), "pin"), (len(settings.rules), "rule")]
    without = " and ".join(pluralize(count, what) for count, what in held if count)
    differ = pluralize(len(differing(document.placement, layout.placement)), "op")
    gains = [f"{differ} on another device"]
    if other["subgraphs"] < now["subgraphs"]:
        gains.append(f"{pluralize(other['subgraphs'], 'subgraph')} instead of {now['subgraphs']:,}")
    more, less = per_second(other), per_second(now)
    if (
        measured is None
        and not of_rate
        and more > less
        and not too_close(more, less, basis, own_basis)
    ):
        rates = [rate(per_second(row), bool(row["assumed_speeds"])) for row in (other, now)]
        gains.append(f"up to {rates[0]} {unit_of_rate(document.graph)} instead of {rates[1]}")
    return [
        html.P(
            [
                "This plan does not fit. " if is_over else "",
                f"Without your {without}, " if without else "Another policy, ",
                html.B(layout.name, title=MEANT.get(layout.name)),
                "" if without else ",",
                " fits, and" if is_over else "",
                *would_take,
                f"{', closer than such figures can tell' if unsure else ''}: {', '.join(gains)}. ",
                html.Button(
                    "Use",
                    className="tool small",
                    title=f"Make “{layout.name}” the current plan",
                    **{"data-layout-use": layout.name},
                ),
            ],
            className="hint wide",
            id="hints-policy",
        )
    ]


def _measured_saving(document: Document, other: Placement, of_rate: bool) -> str | None:
    """What another placement took beside the plan where both were measured alike: "" where it was not surely faster.

    None: one of them was not measured.
    """
    both = _measured_both(document, other, of_rate)
    return None if both is None else both.words if both.is_sure else ""


class _Both(NamedTuple):
    """What another placement took beside the plan."""

    words: str
    gain: float
    """Times that it is faster"""
    is_sure: bool


def _measured_both(document: Document, other: Placement, of_rate: bool) -> _Both | None:
    """Measurements of another placement and of the plan; None where one of them was not measured, or not alike."""
    measured = Measured(document)
    mode = "throughput" if of_rate else measured.time_mode
    theirs, mine = (measured.run(one, mode) for one in (other, document.placement))
    if theirs is None or mine is None or not are_alike(theirs, mine):
        return None
    key, ends = ("throughput", "throughput_interval") if of_rate else ("median", "interval")
    here, there = theirs.figures.get(ends), mine.figures.get(ends)
    new, old = float(theirs.figures[key]), float(mine.figures[key])
    gain = new / old if of_rate else old / new
    words = [human_rate(one) if of_rate else human_seconds(one) for one in (new, old)]
    is_sure = False
    if here and there and gain > 1:
        is_sure = compare_medians(here, there, 2) != NO_DIFFERENCE
    return _Both(" instead of ".join(words), gain, is_sure)


_SEEMS_FASTER = 1.1
"""Times by which the median of another plan is less, from which it is told though its runs vary too much to be sure"""


def _seems_faster(document: Document, layout: Layout | None) -> list[html.P]:
    """A line for the layout of a policy whose median is less, where the runs vary too much to be sure."""
    of_rate = aims_at_throughput(document.placement.settings)
    if layout is None or layout.placement is None or over_memory_mark(layout) is not None:
        return []
    both = _measured_both(document, layout.placement, of_rate)
    if both is None or both.is_sure or both.gain < _SEEMS_FASTER:
        return []
    use = html.Button("Use", className="tool small", **{"data-layout-use": layout.name})
    again = html.Button("measure longer", className="link", **{"data-command": "show-Benchmark"})
    took = [f" took {both.words} ", kind_badge(Kind.MEASUREMENT)]
    not_sure = ", but the runs vary too much to be sure: "
    return [html.P([html.B(layout.name), *took, not_sure, again, ". ", use], className="hint wide")]


_TO_TRY = 3
"""Suggestions of which none is sure that are shown"""
_LEAST_SAVING = 1e-3
"""Share of the time from which another layout is better; less is rounding"""


def hints_view(
    document: Document, hints: Sequence[Hint], step: str = "", of_policy: Layout | None = None
) -> list[Any]:
    """Repaints worth making, each with a button that makes it; ``step`` as for ``compare_view``.

    Those that save less than such figures can tell are left out, unless all are: then they are ones to try. ``of_policy``
    comes first where it is better than the plan.
    """
    basis = plan_costs(document)[1]
    policy = _by_policy(document, of_policy)
    seems = [] if policy else _seems_faster(document, of_policy)
    if policy:
        hints = [hint for hint in hints if not _is_same(document, hint, of_policy)]
    told = bool(policy)
    worth = [hint for hint in hints if hint.tells(basis)]
    outdated = html.Div(
        [
            "The plan has changed since, and with it what a repaint saves. ",
            html.Button("Suggest again", className="link", **{"data-command": "run-hints-start"}),
        ],
        className="outdated",
        hidden=True,
        role="status",
        id="hints-outdated",
        **{"data-step-of": step or step_of(document, basis)},
    )
    if doubt := doubt_of_costs(document):
        words = f"{doubt} The savings here rest on them: "
        policy = [html.P([words, way_to_better_costs(document)], className="hint wide"), *policy]
    types = [
        html.P([f"{each.text}. ", plan_as_button(each.number, each.device.name, each.plan_as)])
        for each in wrong_types(document.placement)
    ]
    if not hints and told:
        return [outdated, *types, *policy, _if_taken(document)]
    if not hints:
        nor = f", nor “{of_policy.name}”" if of_policy and not policy and not seems else ""
        words = (
            f"{'No single move is faster' if seems else f'Nothing faster was found with these devices: no single move{nor}'} "
            f"(by {basis.kind}). "
        )
        others = html.Button(
            "Compare layouts", className="tool small", **{"data-command": "show-Compare"}
        )
        said = html.P([words, others], className="hint wide")
        return [outdated, *types, *policy, *seems, said, _if_taken(document)]
    graph, rough = document.graph, bool(figures_of(document)["rough"])
    index = {d.name: i for i, d in enumerate(document.devices)}
    rows = []
    for hint in worth or hints[:_TO_TRY]:
        moved = [
            op for op in hint.ops if document.placement.assignment.device[op] != index[hint.device]
        ]
        what = graph.display_name(moved[0]) if len(moved) == 1 else _named(graph, moved)
        changes = [
            (
                -hint.seconds,
                in_words(abs(hint.seconds), rough)
                + (" between requests" if hint.throughput else ""),
            )
        ]
        if hint.subgraphs:
            changes.append((-hint.subgraphs, pluralize(abs(hint.subgraphs), "subgraph")))
        if hint.bytes:
            changes.append((-hint.bytes, human_bytes(abs(hint.bytes))))
        fewer = [
            html.Span(
                f"{'−' if change < 0 else '+'}{text}",
                className="delta" if not worth else "delta better" if change < 0 else "delta worse",
            )
            for change, text in changes
        ]
        rows.append(
            html.Tr(
                [
                    html.Td(
                        [
                            "Move ",
                            html.Button(
                                what,
                                className="link",
                                title="Select these ops",
                                **{"data-ops": spans(np.sort(np.array(moved, np.int64)))},
                            ),
                            " to ",
                            html.B(hint.device),
                        ]
                    ),
                    html.Td(fewer),
                    html.Td(
                        [
                            html.Button(
                                _cause(document.placement, hint),
                                className="link",
                                title=hint.tensor,
                                **{"data-goto": f"op{hint.ops[0]}"},
                            ),
                        ]
                    ),
                    html.Td(kind_badge(Kind.ESTIMATE if hint.estimated else Kind.PREDICTION)),
                    html.Td(
                        html.Button(
                            "Apply",
                            className="tool small",
                            **{
                                "data-hint": ",".join(map(str, hint.ops)),
                                "data-device": str(index[hint.device]),
                                "title": f"Pin {pluralize(len(hint.ops), 'op')} to {hint.device}",
                            },
                        )
                    ),
                ]
            )
        )
    table = html.Table(html.Tbody(rows), className="plain", id="hints-table")
    untold = None if worth else _untold(hints[0], document)
    return [outdated, *types, *policy, untold, table, _if_taken(document)]


_TYPES_NAMED = 2


def _if_taken(document: Document) -> html.P | None:
    """What a run would take if the first device took the ops that it refuses; None where that is no shorter."""
    costs, basis = op_costs(document)
    found = fallbacks(document.placement, costs)
    if not found:
        return None
    then = if_taken(document.placement, costs, found)
    if then.seconds >= then.before * (1 - _LEAST_SAVING):
        return None
    types = sorted({name for fallback in found for name in fallback.op_types})
    ops = sum(len(fallback.ops) for fallback in found)
    what = joined(types) if len(types) <= _TYPES_NAMED else f"the {ops:,} ops that it refuses"
    rough = any(fallback.rough for fallback in found)
    words = [in_words(seconds, rough) for seconds in (then.seconds, then.before)]
    return html.P(
        [
            "If ",
            html.B(found[0].wanted),
            f" took {what}, a run would take {words[0]} instead of {words[1]} ",
            basis_badge(basis),
            f", in {pluralize(then.subgraphs, 'subgraph')}. The table below says why it does not.",
        ],
        className="hint wide",
        id="hints-taken",
    )


def _is_same(document: Document, hint: Hint, layout: Layout | None) -> bool:
    """Whether a hint moves what a layout of a policy has elsewhere: it is told once."""
    if layout is None or layout.placement is None:
        return False
    here, there = document.placement.assignment.device, layout.placement
    moved = {op for op in hint.ops if document.devices[here[op]].name != hint.device}
    return moved == set(differing(document.placement, there)) and all(
        there.devices[d].name == hint.device for d in there.device_of_op[sorted(moved)]
    )


def _cause(placement: Placement, hint: Hint) -> str:
    """The rules or pins that separate the ends of a hint's tensor; else the op before the switch, and how often."""
    graph = placement.graph
    tensor = graph.tensor_index[hint.tensor]
    op = int(graph.tensor_producer[tensor])
    if rules := separating_rules(placement, tensor):
        return f"caused by your {joined(rules)}"
    if pinned := separating_pins(placement, tensor):
        more = f" and {len(pinned) - 1} more" if len(pinned) > 1 else ""
        return f"caused by your pin of {graph.display_name(pinned[0])}{more}"
    if op < 0:
        return f"ends the switch after input {hint.tensor}"
    scopes = scopes_of(graph)
    block = scopes.scopes[scopes.of_op[op]] if op in scopes.of_op else None
    where = f" in {block.label}" if block is not None and block.label else ""
    layers = {scopes.layer_of_op[one] for one in hint.ops if one in scopes.layer_of_op}
    others, what = len(layers) - 1, "layer"
    if others < 1:
        others, what = len({scopes.of_op.get(one, 0) for one in hint.ops}) - 1, "block"
    more = f", and in {pluralize(others, f'more {what}')}" if others > 0 else ""
    return f"ends the switch after {graph.op_types[op]}{where}{more}"


def _named(graph: Graph, ops: Sequence[int]) -> str:
    """Many ops in few words: their type where it is one, and whether they are the same ops in every layer."""
    types = {graph.op_types[op] for op in ops}
    what = f"{len(ops)} {types.pop()}" if len(types) == 1 else f"{len(ops)} ops"
    scopes, chosen = scopes_of(graph), set(ops)
    twins = [scopes.corresponding_ops(op) for op in ops[:_LOOKED_AT]]
    everywhere = all(len(each) > 1 and chosen.issuperset(each) for each in twins)
    return f"{what}, in every layer," if everywhere else what
