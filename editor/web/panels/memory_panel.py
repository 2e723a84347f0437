"""The Memory tab: what each device holds over a run, and the tensors at its peak."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from dash import html

from editor.devices.device import Device
from editor.graph.dimension_meanings import context_dim
from editor.graph.graph import Ints
from editor.graph.required_sizes import most_positions
from editor.kinds import Kind
from editor.placement.placement import Placement
from editor.placement.prompt_room import known_prompt
from editor.placement.run_memory import DeviceMemory, HeldTensor, RunMemory
from editor.placement.state_memory import FAR_CONTEXT, StateMemory, state_memory
from editor.text import human_bytes, joined, percent, pluralize, shortened_name
from editor.web import controls
from editor.web import messages as m
from editor.web.device_fields import shown
from editor.web.panels.parts import ADDED, LONGEST, kind_badge, swatch
from editor.web.panels.phases_panel import has_phases
from editor.web.view import colours_of
from editor.workspace.contexts import of_sizes
from editor.workspace.document import Document
from editor.workspace.longest import has_longest

_MOST_BARS = 160
_MOST_TENSORS = 12


def memory_view(document: Document) -> list[Any]:
    """A chart and a table for each device that is used."""
    memory, colours = document.placement.run_memory, colours_of(document)
    used = [i for i, d in enumerate(memory.devices) if d.peak > 0]
    states = {each.device: each for each in state_memory(document.placement)}
    end = max(map(_end, states.values()), default=0)
    context = context_slider(document, list(states.values()))
    entered = [str(shown(d)["memory"] or "") for d in document.devices]
    badge = kind_badge(
        Kind.ESTIMATE,
        detail="From the sizes of constants and tensors; scratch memory of kernels is not known",
    )
    limited = any(device.memory is not None for device in document.devices)
    of_prompt = (
        _of_prompt(known_prompt(document.placement))
        if limited and has_phases(document.graph)
        else []
    )
    return [
        html.P(
            [
                html.B(f"Memory over one run{_after(document)} "),
                badge,
                " ",
                *_shared(memory),
                *of_prompt,
            ],
            className="hint wide",
            title="Constants, and the tensors that a later op still reads, while a run goes through its ops; what another "
            "subgraph reads stays until that one ends",
        ),
        *([] if context is None else [context]),
        *[
            _device(
                memory, i, document.devices[i], colours[name], states.get(name), end, entered[i]
            )
            if i in used
            else _unused(memory, i, colours[name], entered[i])
            for i, name in enumerate(each.device for each in memory.devices)
        ],
    ]


def _after(document: Document) -> str:
    """The sizes that are open, which the slider does not change: " after 127 tokens", " of a prompt of 64 tokens"."""
    return f" {of_sizes(document.graph)}".rstrip()


def _shared(memory: RunMemory) -> list[Any]:
    """What devices of one memory need together."""
    said = []
    for group in memory.shared:
        used = [d for d in group if memory.devices[d].peak > 0]
        if len(used) > 1:
            names = joined([memory.devices[d].device for d in used])
            said.append(
                f"{names} share this machine's memory: {human_bytes(memory.peak_of(used))} together, about "
                f"{human_bytes(memory.taken_by(used))} with their runtimes. "
            )
    return said


def _unused(memory: RunMemory, number: int, colour: str, entered: str) -> html.Section:
    name = memory.devices[number].device
    return html.Section(
        html.Div(
            [
                html.H3([swatch(colour), name, html.Span(" holds nothing")]),
                _limit_field(number, name, entered),
            ],
            className="memory-head",
        ),
        className="memory-device",
        **{"data-device": name},
    )


def _limit_field(number: int, name: str, entered: str) -> html.Span:
    """The device's memory in the device table; `assets/device_forms.js` sends what is entered.

    Args:
        number: of the device in the table.
        name: of it.
        entered: the limit as its entry or its preset has it; "" where there is none.
    """
    field = controls.PlainInput(
        key=entered,
        defaultValue=entered,
        placeholder="no limit",
        **{"aria-label": f"Memory of {name}"},
    )
    return html.Span(
        ["limit ", field],
        className="field beside",
        title="The device's memory in Devices, e.g. 8 GB",
        **{"data-memory-limit": number},
    )


def _device(
    memory: RunMemory,
    number: int,
    entry: Device,
    colour: str,
    state: StateMemory | None,
    end: int,
    entered: str,
) -> html.Section:
    device = memory.devices[number]
    lacking, limit, title = entry.lacking(device.peak), "", None
    if device.limit is not None:
        whole = entry.memory_of_table or device.limit
        share = ", ".join(filter(None, (entry.binary_limit, percent(device.peak / whole))))
        limit = f" of {human_bytes(whole)} ({share})"
    head: list[Any] = [f" at most {human_bytes(device.peak)}{limit}"]
    words: list[Any] = [f"constants {human_bytes(device.constants)}"]
    if device.moment >= 0:
        op = int(memory.ops[device.moment])
        words += [
            f", tensors {human_bytes(device.peak - device.constants)} at ",
            html.Button(
                shortened_name(memory.graph.display_name(op), 40),
                className="link",
                **{"data-goto": f"op{op}"},
            ),
        ]
    if added := memory.added_by_runtime(number):
        taken = device.peak + added
        is_short = device.limit is not None and device.peak <= device.limit < taken
        text = f"; about {human_bytes(taken)} with its runtime"
        if lacking:
            title = f"{text.removeprefix('; ')}: {ADDED}"
        else:
            head.append(html.Span(text, className="short" if is_short else "", title=ADDED))
    if device.unknown:
        words.append(
            f"; the sizes of {pluralize(device.unknown, 'tensor')} are known in a run only"
        )
    if entry.taken:
        words.append(entry.taken_text)
    if lacking:
        head.append(html.B(f" {human_bytes(lacking)} too much", className="over", title=title))
    return html.Section(
        [
            html.Div(
                [
                    html.H3([swatch(colour), device.device, html.Span(head)]),
                    _limit_field(number, device.device, entered),
                ],
                className="memory-head",
            ),
            html.Div(
                [
                    html.Div([_chart(memory, device, colour), html.P(words, className="hint")]),
                    _growth(state, entry, colour, end),
                ],
                className="memory-plots",
            ),
            _tensors(memory, number),
        ],
        className="memory-device",
        **{"data-device": device.device},
    )


_FAR = 10
"""Times the peak: a limit beyond is not drawn, because the bars could not be read below it."""


def _top(device: DeviceMemory) -> float:
    """Bytes that a chart of the device has to show: its peak, and its limit unless that is far."""
    near = device.limit is not None and device.limit < _FAR * device.peak
    return float(max(device.peak, device.limit if near and device.limit else 0, 1))


def _chart(memory: RunMemory, device: DeviceMemory, colour: str) -> html.Div:
    """Bars from the first op to the last, up to the peak or the limit, which has a line unless it is far."""
    top = _top(device)
    columns = [
        _bar(memory, device, moment, colour, top) for moment in peaks(device.live, _MOST_BARS)
    ]
    constants = html.Span(
        className="memory-constants",
        style={"height": f"{100 * device.constants / top:.2f}%"},
        title=f"Constants: {human_bytes(device.constants)}",
    )
    label = f"Memory of {device.device} from the first op to the last: at most {human_bytes(device.peak)}"
    ends = ("first op", "hatched: constants", "last op")
    return _plot([*columns, constants, *_limit(device.limit, top)], label, top, ends)


def _limit(limit: int | None, top: float) -> list[Any]:
    if limit is None or limit > top:
        return []
    return [
        html.Span(
            className="memory-limit",
            style={"bottom": f"{100 * limit / top:.2f}%"},
            title=f"Limit: {human_bytes(limit)}",
        )
    ]


def _plot(
    marks: list[Any], label: str, top: float, ends: tuple[str, ...], kind: str = ""
) -> html.Div:
    """Bars with their axes: bytes from 0 to the top, and what the ends are."""
    return html.Div(
        [
            html.Div([html.Span(human_bytes(int(top))), html.Span("0")], className="memory-axis"),
            html.Div(
                marks, className=f"memory-chart {kind}".strip(), role="img", **{"aria-label": label}
            ),
            html.Div([html.Span(end) for end in ends], className="memory-ends"),
        ],
        className="memory-plot",
    )


def context_slider(document: Document, states: Sequence[StateMemory]) -> html.Div | None:
    """Chooses a context: says what this split lacks there, and opens the plan for it; ``assets/context.js`` follows it.

    None where the sizes say nothing of a context, or no state grows with it.
    """
    growing, name = [each for each in states if each.bytes_per_token], context_dim(document.graph)
    if not growing or not name:
        return None
    now = document.graph.define[name]
    most = min(most_positions(document.graph), max(FAR_CONTEXT, 2 * now))
    usual = {int(share * 2**power) for power in range(7, 24) for share in (1, 1.25, 1.5, 1.75)}
    full = min((each.roomy_until for each in growing if each.roomy_until is not None), default=now)
    usual |= {now, *(int(share * full) for share in (0.8, 0.9, 0.95, 1, 1.05, 1.1))}
    steps = sorted(tokens for tokens in usual if tokens <= max(most, now))

    def said(tokens: int) -> tuple[str, str]:
        return at_context(document.placement, growing, tokens)

    return html.Div(
        [
            html.B("Context"),
            html.Span(f"in steps of {growing[0].step:,} tokens", className="hint")
            if growing[0].step > 1
            else None,
            html.Span(
                [
                    controls.PlainInput(
                        key=str(now),
                        type="range",
                        min=0,
                        max=len(steps) - 1,
                        defaultValue=steps.index(now),
                        **{"aria-label": "Tokens of context", "aria-valuetext": said(now)[0]},
                    ),
                    _scale(steps, [said(tokens)[1] for tokens in steps]),
                ],
                className="scaled",
            ),
            html.Span(
                controls.PlainInput(
                    key=f"tokens {now}",
                    type="number",
                    min=0,
                    max=most,
                    defaultValue=now,
                    **{"aria-label": "Tokens of context, exactly"},
                ),
                className="field",
            ),
            html.Button("Plan for it", className="tool small", disabled=True),
            html.Button(
                "Longest",
                className="tool small",
                title=LONGEST,
                **{"data-command": "longest-context"},
            )
            if has_longest(document.placement)
            else None,
            html.Span(said(now)[0], role="status", className=said(now)[1]),
        ],
        className="context-plan",
        **{
            "data-context": name,
            "data-now": now,
            "data-steps": json.dumps([[tokens, *said(tokens)] for tokens in steps]),
        },
    )


def at_context(placement: Placement, states: Sequence[StateMemory], tokens: int) -> tuple[str, str]:
    """What a plan needs after so many tokens, in words, and their look; ``states`` are those that grow."""
    memory, over, short = placement.run_memory, list[str](), list[str]()
    needed = memory.peaks | {each.device: each.needed(tokens) for each in states}
    with_added = {each.device: each.taken(tokens) for each in states}
    for number, device in enumerate(placement.devices):
        size = needed[device.name]
        taken = with_added.get(device.name) or size + memory.added_by_runtime(number)
        limit = human_bytes(device.memory or 0)
        if device.lacking(size):
            with_it = f", about {human_bytes(taken)} with its runtime" if taken > size else ""
            over.append(f"{device.name} needs {human_bytes(size)} of {limit}{with_it}")
        elif device.lacking(taken):
            short.append(
                f"{device.name} needs about {human_bytes(taken)} of {limit}, with its runtime"
            )
    kept = human_bytes(sum(each.kept(tokens) for each in states))
    cache = f"The states take {kept} in all, up to twice that while a step runs"
    after = f"{tokens:,} tokens"
    if over or short:
        needs = joined([*over, *short])
        return f"{after} do not fit: {needs} (estimate). {cache}.", "over" if over else "short"
    if all(device.memory is None for device in placement.devices):
        return f"No device has a limit. {cache}.", ""
    return f"{after} fit (estimate). {cache}.", ""


def context_note(document: Document, tokens: int) -> tuple[str, str]:
    """The same of the plan of a document."""
    growing = [each for each in state_memory(document.placement) if each.bytes_per_token]
    return at_context(document.placement, growing, tokens)


def _scale(steps: Sequence[int], looks: Sequence[str]) -> html.Span:
    """What stands below the slider: its ends, and from where on the split does not fit."""
    tight = next((i for i, look in enumerate(looks) if look), len(steps))
    share = 100 * tight / len(steps)
    track = {"background": f"linear-gradient(90deg, var(--good) {share:.1f}%, var(--bad) 0)"}
    at = {"left": f"clamp(25%, {share:.1f}%, 72%)"}  # beside the ends
    fits = (
        [html.Span(f"fits to {steps[tight - 1]:,}", className="until", style=at)]
        if 0 < tight < len(steps)
        else []
    )
    return html.Span(
        [
            html.Span(className="track", style=track),
            html.Span(f"{steps[0]:,}"),
            *fits,
            html.Span(f"{steps[-1]:,}"),
        ],
        className="scale",
        **{"aria-hidden": "true"},
    )


def _of_prompt(known: int | None) -> list[Any]:
    """Says that a prompt at once may take more than steps do; the button fills in its length in the tab Phases.

    Args:
        known: tokens of the longest prompt, where somebody asked before.
    """
    place = html.Button(
        "place both phases",
        className="link",
        title="Opens Phases, with a prompt of this length",
        **{"data-command": "run-phases-start"},
    )
    asked = html.Button(
        "how long may it be?",
        className="link",
        title="Tries prompts of several lengths with this plan",
        **{"data-longest-prompt": ""},
    )
    note = None if known is None else prompt_note(known)
    answer = (
        {"children": asked}
        if note is None
        else {"children": note["said"], "className": note["look"]}
    )
    return ["A prompt at once: ", html.Span(role="status", **answer), " · ", place]


def prompt_note(tokens: int) -> m.ContextNote:
    """The longest prompt at once that a plan holds, in words."""
    if tokens:
        return {"said": f"up to about {pluralize(tokens, 'token')} fit with this split", "look": ""}
    return {"said": "no prompt fits", "look": "over"}


_CONTEXTS = 48
"""Bars of the growth of a state."""
_LEAST_CONTEXT = 4096
"""Tokens that the growth is shown for, at least."""


def _end(state: StateMemory) -> int:
    """The context until which the growth is shown: twice that at which the device is full."""
    return max(2 * (state.roomy_until or 0), 2 * state.context, _LEAST_CONTEXT)


def _growth(state: StateMemory | None, device: Device, colour: str, end: int) -> html.Div | None:
    """What the device needs as the context grows to ``end``, which all devices have."""
    if state is None or not state.bytes_per_token:
        return None
    until = state.roomy_until
    contexts = np.linspace(0, end, _CONTEXTS).astype(int).tolist()
    top = state.taken(end)

    def style(context: int) -> dict[str, str]:
        """Of a bar: what the runtime adds is lighter."""
        taken = max(state.taken(context), 1)
        share = f"{100 * state.needed(context) / taken:.2f}%"
        lighter = f"color-mix(in srgb, {colour} 50%, transparent)"
        ramp = f"linear-gradient(to top, {colour} {share}, {lighter} {share})"
        return {"height": f"{100 * taken / top:.2f}%", "background": ramp}

    bars = [
        html.Span(
            html.Span(style=style(context)),
            className="over" if until is not None and context > until else "",
            **{"data-reading": _reading(state, device, context)},
        )
        for context in contexts
    ]
    label = f"Memory of {state.device} from a context of 0 to {end:,} tokens"
    ends = tuple(f"{tokens:,} tokens: {human_bytes(state.needed(tokens))}" for tokens in (0, end))
    twice = ", up to twice that in a step" if state.growth > state.bytes_per_token else ""
    each = (
        f"{pluralize(state.states, 'state')}, {human_bytes(state.bytes_per_token)} a token{twice}"
    )
    full = f"; full at about {until:,}" if until else ""
    lighter = "; pale: its runtime" if state.added else ""
    at = html.Span(className="memory-at", style={"left": f"{100 * state.context / end:.2f}%"})
    return html.Div(
        [
            _plot([*bars, *_limit(state.limit, top), at], label, top, ends, "growth"),
            html.P(
                [html.B("As the context grows"), f": {each}{full}{lighter}"],
                className="hint",
                title=f"{state.text()}.",
            ),
        ],
        **{"data-end": end},
    )


def _reading(state: StateMemory, device: Device, context: int) -> str:
    """What the growth shows under the pointer."""
    needed, taken = state.needed(context), state.taken(context)
    added = f", {human_bytes(taken)} with what its runtime adds" if state.added else ""
    text = f"{context:,} tokens of context: {state.device} needs {human_bytes(needed)}{added} (estimate)"
    if state.limit is None or state.roomy_until is None:
        return text
    over = f"{human_bytes(device.lacking(taken))} too much"
    return f"{text} of {device.limit_text}: {'fits' if context <= state.roomy_until else over}"


def peaks(live: Ints, most: int) -> list[int]:
    """[bar] the moment with the most bytes of those that a bar stands for; at most ``most`` bars."""
    starts = np.linspace(0, len(live), min(most, len(live)), endpoint=False).astype(np.int64)
    ends = [*starts[1:].tolist(), len(live)]
    return [
        start + int(live[start:end].argmax())
        for start, end in zip(starts.tolist(), ends, strict=True)
    ]


def _bar(
    memory: RunMemory, device: DeviceMemory, moment: int, colour: str, top: float
) -> html.Span:
    """What a device holds while an op runs."""
    held = int(device.live[moment]) + device.constants
    name = memory.graph.display_name(int(memory.ops[moment]))
    style = {"height": f"{100 * held / top:.2f}%", "backgroundColor": colour}
    reading = f"{human_bytes(held)} while {shortened_name(name, 60)} runs"
    return html.Span(html.Span(style=style), **{"data-reading": reading})


def _tensors(memory: RunMemory, number: int) -> html.Details | None:
    held = memory.at_peak(number)
    if not held:
        return None
    rest = held[_MOST_TENSORS:]
    rows = [_row(memory, each) for each in held[:_MOST_TENSORS]]
    if rest:
        rows.append(
            html.Tr(
                [
                    html.Td(f"and {pluralize(len(rest), 'more tensor')}"),
                    html.Td(""),
                    html.Td(human_bytes(sum(each.bytes for each in rest))),
                    html.Td(""),
                    html.Td(""),
                ]
            )
        )
    head = html.Thead(html.Tr([html.Th(t) for t in ("Tensor", "What", "Size", "From op", "To op")]))
    return html.Details(
        [
            html.Summary(f"{pluralize(len(held), 'tensor')} at the peak"),
            html.Table([head, html.Tbody(rows)], className="plain"),
        ]
    )


def _row(memory: RunMemory, held: HeldTensor) -> html.Tr:
    def op(number: int) -> Any:
        if number < 0:
            return "the caller"
        name = memory.graph.display_name(number)
        return html.Button(
            shortened_name(name, 30), className="link", title=name, **{"data-goto": f"op{number}"}
        )

    return html.Tr(
        [
            html.Td(shortened_name(held.tensor, 40), title=held.tensor),
            html.Td(held.kind),
            html.Td(human_bytes(held.bytes)),
            html.Td(op(held.first)),
            html.Td(op(held.last)),
        ]
    )
