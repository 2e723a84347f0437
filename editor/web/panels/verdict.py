"""The one figure of the plan, and the sentence that matters: how it compares with not splitting."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from dash import html

from editor.graph.graph import Graph
from editor.graph.required_sizes import most_positions
from editor.graph.states import (
    TOKENS_PER_SECOND,
    prompt_of_step,
    states_of,
    unit_of_rate,
    what_a_run_makes,
)
from editor.kinds import Kind, by_factor, too_close, weakest
from editor.placement.chosen_costs import OF_BUSY_PROFILE, left_out
from editor.placement.costs import processors
from editor.placement.energy import energy_of
from editor.placement.prompt_room import known_prompt
from editor.placement.remarks import wrong_types
from editor.placement.state_memory import FAR_CONTEXT, state_memory
from editor.placement.unsplit import ops_excluded, unsplit_lacks
from editor.text import (
    human_bytes,
    human_joules,
    human_rate,
    human_seconds,
    in_words,
    joined,
    pluralize,
    rough_rate,
    rough_seconds,
)
from editor.web.panels.doubts import (
    doubt_in_full,
    doubtful_badge,
    left_out_by_estimate,
    way_to_better_costs,
    way_to_profile,
)
from editor.web.panels.layout_figures import details_of, noisy_mark, rate
from editor.web.panels.parts import (
    ADDED,
    basis_badge,
    kind_badge,
    plan_as_button,
    unpin_forced_button,
)
from editor.web.view import (
    baselines_of,
    best_unsplit,
    fastest_unsplit,
    figures_of,
    measured_run,
    measured_unsplit,
    memory_of,
    plan_costs,
    runs_like,
    unsplit_ways,
)
from editor.workspace.contexts import context_of, is_at_sizes, lengths_of, of_run, of_sizes
from editor.workspace.document import Document
from editor.workspace.history import Run
from editor.workspace.longest import NO_ROOM, has_longest

_NEAR = 1.1
"""Times a figure that was worked out, within which what was measured is not told beside it"""
_STEADY = 1.5
"""The end of an interval by its begin, up to which a figure is told without a remark."""


_APART = 1.25
"""Ratio of the largest to the smallest figure of several runs from which both are shown."""


class Headline(NamedTuple):
    """The figure of a plan, wherever it stands."""

    figure: str
    """A time, or a rate where the policy aims at throughput; "" where nothing is known."""
    badge: html.Span | None
    """What it is."""
    run: Run | None
    """The measurement that it comes from."""
    beside: str
    """What was worked out, where the figure was measured; else what it is a figure of."""
    assumptions: tuple[str, ...] = ()
    """What a figure that was worked out leaves out or assumes."""
    at: str = ""
    """The context of a token that was measured, where that is not the one of the plan's sizes"""
    beyond: str = ""
    """Devices whose memory was full before the end of the measurement, by estimate, where the plan fits at its sizes"""


def headline(document: Document) -> Headline:
    """A measurement of exactly this plan, else what it is predicted to take."""
    now, run = figures_of(document), measured_run(document)
    basis, seconds, per_second = now["basis"], now["predicted"], now["rate"]
    unit = unit_of_rate(document.graph)
    in_words = rough_seconds if now["rough"] else human_seconds
    rate_in_words = partial(rough_rate if now["rough"] else human_rate, unit=unit)
    if run is not None:
        mode = run.figures["mode"]
        many = mode == "throughput"
        worked_out, in_form = (per_second, rate_in_words) if many else (seconds, in_words)
        predicted = in_form(worked_out) if worked_out else ""
        elsewhere = not is_at_sizes(document.graph, run)
        if predicted and elsewhere:
            predicted += f" {of_sizes(document.graph)}"
        details = (
            details_of(run, mode, partial(human_rate, unit=unit))
            if many
            else details_of(run, "latency", human_seconds)
        )
        return Headline(
            _figure(run.figures, document.graph),
            kind_badge(Kind.MEASUREMENT, detail=details),
            run,
            f"{basis.kind.participle} {predicted}" if predicted and basis else "",
            at=of_run(run) if elsewhere else "",
            beyond=_beyond(document, run),
        )
    figure = in_words(seconds) if seconds is not None else ""
    if per_second:
        figure = rate_in_words(per_second)
    elif figure:
        figure += what_a_run_makes(document.graph)
    without = left_out(document.placement, plan_costs(document)[0], values=True) if basis else []
    of = ""
    if per_second and unit == TOKENS_PER_SECOND:
        of = "of all sequences together"
    elif figure and (prompt := prompt_of_step(document.graph)):
        of = f"of a prompt of {pluralize(prompt, 'token')}"
    if figure and (joules := _joules_aimed_at(document)):
        of = ", ".join(filter(None, [f"{joules} a run", of]))
    return Headline(figure, basis_badge(basis) if basis else None, None, of, tuple(without))


def _beyond(document: Document, run: Run) -> str:
    """Devices whose memory is full before the last token of a run; "" where the plan does not fit without any, either."""
    lengths = lengths_of(run)
    if lengths is None or over_memory(document):
        return ""
    full = []
    for each in state_memory(document.placement):
        roomy, until = each.roomy_until, each.fits_until
        if roomy is not None and roomy >= each.context:  # less is said of the plan itself
            until = roomy
        if until is not None and until < lengths.before_last:
            full.append(each.device)
    return joined(full)


def _joules_aimed_at(document: Document) -> str:
    """The energy of a run, where the policy aims at it; "" elsewhere."""
    if document.placement.settings.policy_options.get("objective") != "energy":
        return ""
    energy = energy_of(document.placement, *plan_costs(document))
    return "" if energy is None or energy.total is None else human_joules(energy.total)


def verdict(document: Document) -> list[Any]:
    """The headline, and how the plan compares with not splitting where that was measured; first of all, whether it fits."""
    if over := over_memory(document):
        return [_said(document)[0], _does_not_fit(document, over)]
    if what := too_long(document):
        return [_said(document)[0], _does_not_fit_with_runtimes(document, what)]
    head, said, *assumed = _said(document)
    if fits := _fits(document):
        said = _sentence(*fits, *(["; ", *said.children] if said else []))
    if said is not None and document.placement.settings.policy == "pipeline":
        said = _of_pipeline(document, said)
    told = [head, said, *assumed]
    if (warning := _against_tables(document)) is not None:
        says_more = bool(fits) or measured_run(document) is not None
        told = [head, *([said] if says_more else []), warning, *assumed]
    return told


def _of_pipeline(document: Document, said: html.P) -> html.P:
    """A sentence with what the policy does not aim at; its title has all of it."""
    aim = "Pipeline shortens the time between two answers; a single one may take longer."
    remark = "; a single answer may take longer"
    if unit_of_rate(document.graph) == TOKENS_PER_SECOND:  # the figure is "of all sequences" then
        aim = "Pipeline aims at the tokens of all sequences; those of a single one may take longer."
        remark = ""
    used = document.placement.used_numbers
    if len(used) > 1 and len(set(processors(document.devices)[used].tolist())) == 1:
        remark = "; its stages share a processor and take turns"
        aim += " Its stages share a processor and take turns."
    compared = "not splitting (" in said.title  # there is no room for both
    more = _sentence(*said.children, *([remark] if remark and not compared else []))
    more.title = f"{said.title}. {aim}"
    return more


def _against_tables(document: Document) -> html.P | None:
    """What the plan asks of a device that does not take it, or a device that takes hardly anything; with the way out."""
    placement = document.placement
    if ops := placement.forced_ops:
        names = sorted({document.devices[d].name for d in placement.device_of_op[ops]})
        take = "does not take" if len(names) == 1 else "do not take"
        words = f"{pluralize(len(ops), 'op')} forced onto {joined(names)}, which {take} {'it' if len(ops) == 1 else 'them'}"
        return _with_way(words, unpin_forced_button(), "Figures assume that it runs there")
    for each in wrong_types(placement):
        button = plan_as_button(each.number, each.device.name, each.plan_as)
        of = f"{each.device.name} has {each.ops:,} of {pluralize(len(placement.placed_ops), 'op')}"
        return _with_way(each.text, button, of)
    return None


def _with_way(words: str, way: Any, title: str, look: str = "") -> html.P:
    return html.P(
        [html.Span(words, title=words), " ", way],
        className=f"sentence with-way {look}",
        title=title,
    )


def _fits(document: Document) -> list[Any]:
    """Up to which context the plan fits, and that it does not with what runtimes add; empty where neither is worth saying."""
    until, over = _fits_until(document), document.placement.run_memory.over_with_runtimes
    said: list[Any] = [] if until is None else [until]
    if until is None and not over and (room := _room_of_prompt(document)):
        said = [html.Span("fits", title=room)]
    if over:
        words = f"{', ' if said else ''}tight: {over} with what runtimes add"
        said.append(html.Span(words, className="warn", title=ADDED))
    return said


def _room_of_prompt(document: Document) -> str:
    """What a prompt at once needs of limited devices, where the plan is of one: "A: 58.35 MB of 60 MB"; else ""."""
    if not states_of(document.graph) or not prompt_of_step(document.graph):
        return ""
    needed = memory_of(document)
    return ", ".join(
        f"{d.name}: {human_bytes(needed[d.name])} of {d.limit_text}"
        for d in document.placement.used_devices
        if d.memory is not None
    )


def _fits_until(document: Document) -> html.Button | None:
    """The context at which the plan no longer fits, where the model takes a longer one."""
    if all(device.memory is None for device in document.devices):
        return None
    most = min(most_positions(document.graph), FAR_CONTEXT)
    full = [
        (each.roomy_until, each)
        for each in state_memory(document.placement)
        if each.roomy_until is not None and each.roomy_until < most
    ]
    if not full:
        return None
    until, state = min(full, key=lambda each: each[0])
    if until < state.context:  # by what runtimes add, which is said beside it
        return None
    prompt = known_prompt(document.placement) or until
    at_once = f", a prompt of {prompt:,} at once" if prompt < until else ""
    return html.Button(
        f"fits up to about {until:,} tokens{at_once}",
        className="link",
        title=f"{state.text()}. A prompt at once needs more: Memory finds how long it may be. "
        "Another split may fit a longer context: “Longest context” finds it.",
        **{"data-command": "change-context"},
    )


def over_memory(document: Document) -> dict[str, int]:
    """Device -> bytes that the plan needs of it, where it has less; what lacks the largest share of its need first."""
    needed = memory_of(document)
    over = [d for d in document.devices if d.memory is not None and needed[d.name] > d.memory]
    over.sort(key=lambda d: (d.memory or 0) / needed[d.name])
    return {d.name: needed[d.name] for d in over}


def too_long(document: Document) -> str:
    """The context or the prompt of the plan's sizes, where memory holds it but not what runtimes add: "127 tokens"; else "".

    The longest context that fits cannot be worked out from this plan: its peak does not shrink in proportion.
    """
    if not document.placement.run_memory.over_with_runtimes:
        return ""
    if states_of(document.graph) and (prompt := prompt_of_step(document.graph)):
        return f"a prompt of {pluralize(prompt, 'token')}"
    states = state_memory(document.placement)
    over = [s for s in states if s.roomy_until is not None and s.roomy_until < s.context]
    context = max((state.context for state in over), default=0)
    return pluralize(context, "token") if context else ""


def _does_not_fit_with_runtimes(document: Document, what: str) -> html.P:
    short, way = document.placement.run_memory.over_with_runtimes, _way_to_fit(document)
    if way is None and has_longest(document.placement):
        way = _longest()
    words = f"No room for {what} with what runtimes add: {short}"
    return _with_way(words, way, f"{ADDED}. {short}", "unfit")


def _does_not_fit(document: Document, over: Mapping[str, int]) -> html.P:
    limits = {d.name: d.limit_text for d in document.devices}
    needs = [f"{name} needs {human_bytes(size)} of {limits[name]}" for name, size in over.items()]
    more = f", and {pluralize(len(needs) - 1, 'more device')}" if len(needs) > 1 else ""
    words = f"Does not fit: {needs[0]}{more}"
    return _with_way(words, _way_to_fit(document), "\n".join(needs), "unfit")


def _longest() -> html.Button:
    return html.Button(
        "Longest context",
        className="tool small",
        title="Opens the model at the longest context that a split within memory holds",
        **{"data-command": "longest-context"},
    )


def _way_to_fit(document: Document) -> html.A | html.Button | None:
    """Leads to a split within memory; None where the policy makes one already."""
    of = document.store.set_of(document.id)
    if of is not None:  # alone it would leave nothing to the others
        return html.A(
            "Place the set within memory",
            href=f"/set/{of.id}",
            className="tool small",
            title=f"The page of {of.title}, whose models share the memory",
        )
    if document.history.current.label == NO_ROOM:  # which a search within memory has told
        return _longest() if has_longest(document.placement) else None
    if document.placement.settings.policy != "memory":
        return html.Button(
            "Split within memory",
            className="tool small",
            title="The policy “Optimal within memory”: the least latency of what fits",
            **{"data-command": "policy-memory"},
        )
    return None


def _said(document: Document) -> list[Any]:
    now, lacking = headline(document), document.graph.weights_problem
    if now.run is not None:
        figures = now.run.figures
        where = "" if now.at else f" {of_run(now.run)}"
        tokens = f"{rate(figures['throughput'])} tokens/s{where}; "
        if first := figures.get("first_token"):
            tokens = f"{human_seconds(first)} to the first token, {tokens}"
        said, unit = tokens if figures["mode"] == "tokens" else "", unit_of_rate(document.graph)
        if figures["mode"] == "throughput" and unit == TOKENS_PER_SECOND:
            said = f"with {pluralize(int(figures['requests']), 'sequence')} in flight; "
        elif figures["mode"] == "latency" and (prompt := prompt_of_step(document.graph)):
            said = f"of a prompt of {pluralize(prompt, 'token')}; "
        unfit = unsplit_lacks(document.placement, context_of(now.run))
        beside = _beside_unsplit(
            figures, _alone(document), unit, unfit, ops_excluded(document.placement)
        )
        return [
            _headline(now, way_to_profile(document) or doubtful_badge(document)),
            _sentence(
                said,
                *beside,
                _rate_too(document, figures),
                _other_runs(document, now.run),
                *left_out_by_estimate(document),
            ),
        ]
    if not now.figure:
        return [
            _headline(Headline("Not measured", None, None, ""), None),
            None if lacking else _sentence("Benchmark measures it"),
        ]
    of = [f"{now.beside}; "] if now.beside else []
    doubtful = doubtful_badge(document)
    compared = _beside_unsplit_worked_out(document)
    untold = _not_measured(document, bool(compared))
    if compared and doubtful is not None:  # costs that a measurement contradicts compare nothing
        lead = "not measured"
        if document.placement.uses_planned:
            lead = f"whether a split pays is not known, as {_absent(document)}"
        told = f": {lead}. {doubt_in_full(document)}"
        compared, untold = [way_to_better_costs(document), told], ""  # what helps is never cut off
    placement = document.placement
    if placement.settings.policy == "pipeline" and compared and not placement.uses_planned:
        untold = ""  # it has a remark of its own, too
    link = "; " if compared and untold else ""
    said = _sentence(*of, *compared, link, untold, *left_out_by_estimate(document))
    return [_headline(now._replace(beside=""), doubtful), said, _assumptions(now.assumptions)]


def _rate_too(document: Document, figures: Mapping[str, Any]) -> str:
    """The rate of the plan where it was measured, too; the headline is what the policy aims at."""
    run = measured_run(document, "throughput") if figures["mode"] == "latency" else None
    if run is None:
        return ""
    many = human_rate(run.figures["throughput"], unit_of_rate(document.graph))
    return f"; {many} with {run.figures['requests']} in flight"


def _other_runs(document: Document, shown: Run) -> str:
    """The range of all runs of this plan, where they differ by more than ``_APART``; else ""."""
    mode = shown.figures["mode"]
    key, in_words = (
        ("throughput", partial(human_rate, unit=unit_of_rate(document.graph)))
        if mode == "throughput"
        else ("median", human_seconds)
    )
    took = [float(run.figures[key]) for run in runs_like(document, shown)]
    if max(took) < _APART * min(took):
        return ""
    return (
        f"; {len(took)} benchmarks of this plan gave {in_words(min(took))} to {in_words(max(took))}"
    )


def _not_measured(document: Document, is_compared: bool) -> str:
    """What a benchmark would tell of a plan that was not measured, after how its estimate compares, if that is told."""
    if document.graph.weights_problem:
        return "not measured"
    placement = document.placement
    if placement.uses_planned:
        return f"{_absent(document)}: Benchmark checks results, not speed"
    if _alone(document):
        return "not split, not measured: Benchmark measures it"
    return f"not measured: Benchmark {'measures it' if is_compared else 'compares it with not splitting'}"


def _absent(document: Document) -> str:
    """Says which devices of the plan are not here: "NPU is not on this machine"."""
    planned = [d.name for d in document.placement.used_devices if d.planned]
    which = f"{planned[0]} is" if len(planned) == 1 else "planned devices are"
    return f"{which} not on this machine"


def _beside_unsplit_worked_out(document: Document) -> list[Any]:
    """How a plan that was not measured compares with not splitting; empty where it is whole."""
    now, unsplit = figures_of(document), fastest_unsplit(document)
    many = now["rate"] is not None
    value, basis = now["rate"] if many else now["predicted"], now["basis"]
    if not value or basis is None or document.placement.forced_ops:
        return []
    alone = _alone(document)
    if alone:  # the next best is what differs
        ways = unsplit_ways(document)
        others = [] if isinstance(ways, str) else [way for way in ways if way.device != alone]
        if not others or over_memory(document):
            return []
        unsplit = (max if many else min)(others, key=lambda way: way.figure)
    if isinstance(unsplit, str):
        return [unsplit]
    unit = unit_of_rate(document.graph)
    rate = rough_rate if unsplit.rough else human_rate
    figure = rate(unsplit.figure, unit) if many else in_words(unsplit.figure, unsplit.rough)
    ran = measured_unsplit(document, many).get(unsplit.device)
    besides = ""
    if ran is not None and not 1 / _NEAR < ran.figure / unsplit.figure < _NEAR:
        took = human_rate(ran.figure, unit) if many else human_seconds(ran.figure)
        besides = f"; measured {took}{', noisy' if ran.noisy else ''}"
    what = f"all of it on {unsplit.device}" if alone else "not splitting"
    figure += besides if alone else f" on {unsplit.device}{besides}"
    if too_close(value, unsplit.figure, basis, unsplit.basis):
        return [_no_winner(what, figure, many)]
    ratio, each = unsplit.figure / value if many else value / unsplit.figure, now["predicted"]
    tone = "worse" if ratio > 1 else "better"
    kind = weakest([basis, unsplit.basis]).kind
    return [
        f"{kind.participle} ",
        # A gain that nothing was run for is no news to shout.
        by_factor(ratio)
        if (kind is Kind.ESTIMATE or besides) and ratio <= 1
        else html.Span(by_factor(ratio), className=f"delta {tone}"),
        f" than {what} ({figure})",
        f"; each takes {in_words(each, bool(now['rough']))}" if many and each else "",
    ]


def _assumptions(assumptions: Sequence[str]) -> html.Details | None:
    """What a figure rests on, folded: sentences of it would hide how the plan compares."""
    if not assumptions:
        return None
    entries = [html.Li(each[0].upper() + each[1:]) for each in assumptions]
    words, command = "State them in Devices", "show-devices"
    if all(each.startswith(OF_BUSY_PROFILE) for each in assumptions):
        words, command = "Profile again", "run-bench-profile"
    state = html.Button(words, className="link", **{"data-command": command})
    return html.Details(
        [
            html.Summary(pluralize(len(entries), "assumption"), title="\n".join(assumptions)),
            html.Div([html.Ul(entries), state], className="folds-panel"),
        ],
        className="folds",
    )


def _figure(figures: Mapping[str, Any], graph: Graph) -> str:
    if figures["mode"] == "throughput":
        return human_rate(figures["throughput"], unit_of_rate(graph))
    time = human_seconds(figures["median"])
    return time + (" a token" if figures["mode"] == "tokens" else what_a_run_makes(graph))


def _alone(document: Document) -> str:
    """The device that runs all of a plan which is not split; "" of others."""
    subgraphs = document.placement.subgraphs
    return subgraphs[0].device if len(subgraphs) == 1 else ""


def _beside_unsplit(
    figures: Mapping[str, Any],
    alone: str,
    unit: str,
    unfit: Collection[str] = (),
    excluded: Mapping[str, int] = MappingProxyType({}),
) -> list[Any]:
    """How a measured plan compares with the fastest way not to split.

    Args:
        figures: what was measured.
        alone: the device of a plan that is not split.
        unit: of rates.
        unfit: devices without room for the whole model: no plan is faster or slower than what cannot be.
        excluded: device -> ops that its table keeps from it, though its runtime ran them.
    """
    many, unsplit = figures["mode"] == "throughput", figures.get("unsplit")
    if not unsplit or not unsplit["figure"]:
        return ["no device runs the whole model"]
    fits = {name: of for name, of in baselines_of(figures).items() if name not in unfit}
    others = {name: of for name, of in fits.items() if name != alone}
    if unsplit["device"] == alone and others:  # as it is not split, the next best is what differs
        unsplit = best_unsplit(figures, others)
    elif unsplit["device"] in unfit and fits:
        unsplit = best_unsplit(figures, fits)
    figure = human_rate(unsplit["figure"], unit) if many else human_seconds(unsplit["figure"])
    words, best = str(unsplit["words"]), unsplit["device"]
    if words.startswith("the same") or alone == best:
        return [f"not split: all of it runs on {best}"]
    what = f"all of it on {best}" if alone or best in unfit else "not splitting"
    if best in unfit:
        return [f"{what} takes {figure}, but does not fit"]
    if not alone:
        figure += f" on {best}"
        if ops := excluded.get(best):
            figure += f", whose table excludes {pluralize(ops, 'op')}"
    if words.endswith(("slower", "faster")):
        tone = "worse" if words.endswith("slower") else "better"
        return [html.Span(words, className=f"delta {tone}"), f" than {what} ({figure})"]
    return [f"{_no_winner(what, figure, many)}{_unsteady(figures, many)}"]


def _no_winner(what: str, figure: str, many: bool) -> str:
    """That figures cannot tell: "too close to call: not splitting takes 10 ms on CPU"; ``many``: of requests per second."""
    return f"too close to call: {what} {'gives' if many else 'takes'} {figure}"


def _unsteady(figures: Mapping[str, Any], many: bool) -> str:
    """What to do where the interval of a figure says little; "" where it is narrow."""
    low, high = figures.get("throughput_interval" if many else "interval") or (0.0, 0.0)
    if not high > _STEADY * low:
        return ""
    in_words = human_rate if many else human_seconds
    return f"; this plan takes {in_words(low)} to {in_words(high)} (95 %): measure longer"


def _headline(now: Headline, doubtful: Any) -> html.Div:
    at = html.Span(now.at, className="beside") if now.at else None
    parts: list[Any] = [html.B(now.figure), at, now.badge]
    if now.beyond:
        parts.append(beyond_memory(now))
    parts += noisy_mark(now.run) if now.run else []
    if now.beside:
        parts.append(html.Span(now.beside, className="beside"))
    parts.append(doubtful)
    return html.Div(parts, className="headline long" if now.at else "headline")


def beyond_memory(now: Headline) -> html.Span:
    """Stands beside a measurement of more tokens than the plan has room for."""
    why = f"Measured {of_run(now.run)}; with what its runtime adds, its memory is full before that, by estimate"
    return html.Span(f"beyond the memory of {now.beyond}", className="noisy", title=why)


def _sentence(*words: Any) -> html.P:
    """A sentence; its title has all of it where the window is too short for more than two lines."""
    title = "".join(word if isinstance(word, str) else word.children for word in words)
    return html.P(list(words), className="sentence", title=title)
