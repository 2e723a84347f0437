"""What is known of the selected op, and why it is where it is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from dash import html

from editor.devices.device import Device
from editor.devices.published import Published
from editor.errors import EditorError
from editor.exports.dot import text_colour
from editor.graph.attributes import Definition, definition_of
from editor.graph.constants import values_of
from editor.graph.flops import Floats
from editor.graph.graph import Graph, bodies_in, bodies_of
from editor.graph.scopes.tree import scopes_of
from editor.graph.states import states_of
from editor.kinds import Kind
from editor.placement.chosen_costs import aims_at_throughput, is_assumed
from editor.placement.device_profile import load_profile
from editor.placement.placement import Placement
from editor.placement.remarks import why_empty
from editor.text import human_bytes, in_words, joined, percent, pluralize, shortened_path
from editor.web.drawing.elements import spans, visible_ops
from editor.web.panels.hover import costs_on_devices
from editor.web.panels.model_facts import model_facts
from editor.web.panels.parts import (
    basis_badge,
    condition_title,
    facts,
    heading,
    kind_badge,
    planned_badge,
    planned_size,
    runtime_beside,
    size_in_words,
    swatch,
    with_link,
)
from editor.web.panels.phases_panel import has_phases
from editor.web.panels.weights import weights
from editor.web.rule_rows import labels_of
from editor.web.view import colours_of, measured_medians, op_costs, plan_costs
from editor.workspace.document import Document

_MOST_IN_BODY = 200
_MOST_TENSORS = 40
_MOST_REASONS = 3
_MOST_BESIDE = 3
"""Parts of a run beside its ops that are told apart."""
_FIGURES = re.compile(r": [0-9.,]+ [^;]*")
"""What follows a reason that goes by times: "110 µs here, 120 µs on B (estimated)"."""
_ASKED = 1000
"""Ops of a selection that are asked why they are on their device: that takes 10 to 40 µs of each."""
_FEW = 5
"""Largest transfers and subgraphs of the plan."""


def _breakable(name: str) -> list[Any]:
    """A name that may be broken where a word begins within it: "GroupQuery" "Attention"."""
    first, *more = re.split(r"(?<=[a-z0-9])(?=[A-Z])", name)
    return [first, *(part for word in more for part in (html.Wbr(), word))]


_RESIDUE = 1e-9
"""Of a run: less is what sums of floats differ by."""


def plan(document: Document) -> list[Any]:
    """Nothing is selected: the plan in short."""
    placement, graph = document.placement, document.graph
    colours = colours_of(document)
    seconds, rest, badge, rough = _time_per_device(document)
    loads = _loads(document)
    whole = float(seconds.sum() + max(rest, 0.0))
    share = seconds / whole if whole else seconds
    forced = Counter(placement.device_of_op[placement.forced_ops].tolist())
    devices = [
        html.Li(
            [
                swatch(colours[d.name]),
                html.Span(
                    [
                        html.Button(
                            d.name,
                            className="device-name link",
                            title=f"Select all ops on {d.name}",
                            disabled=not placement.op_counts[d.name],
                            **{"data-all-on": str(i)},
                        ),
                        runtime_beside(d),
                    ],
                    className="device-line",
                ),
                html.Span(
                    f"{pluralize(placement.op_counts[d.name], 'op')} in {in_words(seconds[i], rough)}, "
                    f"{percent(share[i])}{f', {forced[i]:,} by force' if forced[i] else ''}"
                    f"{f'; busy for {in_words(loads[i], rough)} with starts and transfers' if loads else ''}"
                    if placement.op_counts[d.name]
                    else f"no ops: {why_empty(placement, i)}",
                    title="Time of its ops, and their share of the run",
                ),
                html.Span(
                    className="share-bar",
                    style={
                        "width": f"{100 * share[i]:.1f}%",
                        "minWidth": "1px" if share[i] else "0",
                        "backgroundColor": colours[d.name],
                    },
                ),
            ],
            className="share",
            **{"data-row-device": str(i)},
        )
        for i, d in enumerate(document.devices)
    ]
    where = _beside_ops(document, rough)
    if measured_medians(document)[0]:
        where = ": transfers, starts and what else is not timed one by one"
    beside = (
        f"Beside these: {in_words(rest, rough)}, {percent(rest / whole)} of the run{where}."
        if rest > _RESIDUE * whole
        else ""
    )
    transfers = sorted(placement.division.transfers, key=lambda b: -b.bytes)[:_FEW]
    subgraphs = sorted(placement.subgraphs, key=lambda s: -s.size)[:_FEW]
    moved = [
        _plan_row(
            b.tensor,
            size_in_words(b.bytes, b.counted_as),
            f"{b.source} → {', '.join(map(str, b.targets))}",
            "goto",
            f"op{int(graph.tensor_producer[graph.tensor_index[b.tensor]])}",
        )
        for b in transfers
    ]
    parts = [
        _plan_row(f"Subgraph {s.id} on {s.device}", pluralize(s.size, "op"), "", "part", str(s.id))
        for s in subgraphs
    ]
    return [
        heading("Plan"),
        _first_steps(document),
        html.H3(["Time per device ", badge], className="part"),
        html.Ul(devices, className="shares"),
        html.P(beside, className="hint") if beside else None,
        html.H3("Largest transfers", className="part"),
        html.Ul(moved) if moved else html.P("None.", className="hint"),
        html.H3("Largest subgraphs", className="part"),
        html.Ul(parts),
        model_facts(graph),
        html.P(
            "Click an op to see its attributes, tensors, the devices it may use, and why it is on its device.",
            className="hint",
        ),
    ]


def _first_steps(document: Document) -> html.Details:
    """What a person who is new here may do, one thing after the other; open on the first model, until it is edited or run."""
    number = min(2, len(document.devices))
    other = document.devices[number - 1].name
    language = has_phases(document.graph)
    unable = not document.placement.constraints.able[document.placement.placed_ops, 0].all()
    steps = [
        *(["Fallbacks, below, lists the ops that the first device does not take."] * unable),
        f"Press {number} for {other}, then click an op, or hold Shift and draw a box: these ops are pinned there, and the "
        "others are placed again around them. Ctrl+Z undoes it.",
        "If a device has little memory, write its limit in Memory, and choose the policy Optimal within memory."
        + (
            " The state grows with the context: the slider there says what a longer one takes."
            * language
        ),
        "Benchmark runs the split model and compares it with the unsplit one"
        + (", in mode Tokens over a prompt and the tokens after it." if language else "."),
        "Compare sets this plan beside what OpenVINO, Glow and ONNX Runtime would do, and beside the optimum.",
        "Export writes what a runtime loads, and a report.",
    ]
    return html.Details(
        [html.Summary("New here? First steps"), html.Ol([html.Li(step) for step in steps])],
        className="first-steps",
        open=not document.can_undo and not document.runs() and len(document.store.recent(2)) == 1,
    )


def _time_per_device(document: Document) -> tuple[Floats, float, html.Span, bool]:
    """[device] seconds of its subgraphs, seconds beside them, what these figures are, measured where this plan was, and
    whether the speed of any used device is assumed, so that all of them are rough as their sum is."""
    placement = document.placement
    medians, total = measured_medians(document)
    if medians:
        homes = [placement.device_number(s.device) for s in placement.subgraphs]
        measured: Floats = np.bincount(homes, medians, len(document.devices)).astype(np.float64)
        rest = float(total - measured.sum())
        return measured, rest, kind_badge(Kind.MEASUREMENT), False
    costs, basis = plan_costs(document)
    ops, device = placement.placed_ops, placement.assignment.device
    count = len(document.devices)
    seconds: Floats = np.bincount(device[ops], costs.op[ops, device[ops]], count).astype(np.float64)
    price = placement.price(costs)
    if (
        seconds.sum()
    ):  # an unsplit plan takes what its whole model took in the profile, not the sum of its ops
        seconds *= price.compute / seconds.sum()
    used = placement.op_counts
    rough = any(
        is_assumed(document.devices, costs, d) and used[device.name]
        for d, device in enumerate(document.devices)
    )
    return seconds, float(price.total - seconds.sum()), basis_badge(basis), rough


def _loads(document: Document) -> list[float]:
    """[device] seconds that it works in one run, where the policy goes by the busiest one and the plan is split; else none."""
    placement = document.placement
    split = len(placement.subgraphs) > 1 and not measured_medians(document)[0]
    if not split or not aims_at_throughput(placement.settings):
        return []
    return [float(s) for s in placement.busy_seconds(plan_costs(document)[0])]


def _beside_ops(document: Document, rough: bool) -> str:
    """What a run takes beside its ops by the costs, most first: ": 2.38 ms to start 1 subgraph on CPU (from its profile)…"."""
    placement, costs = document.placement, plan_costs(document)[0]
    homes = np.array([placement.device_number(s.device) for s in placement.subgraphs], np.int64)
    seconds = np.bincount(homes, placement.starts(costs), len(document.devices))
    count = np.bincount(homes, minlength=len(document.devices))
    parts = []
    for d, device in enumerate(document.devices):
        known = load_profile(document.graph, device) if costs.profiled else None
        source = " (from its profile)" if known is not None and known.has_launch else ""
        words = f"to start {pluralize(int(count[d]), 'subgraph')} on {device.name}{source}"
        parts.append((float(seconds[d]), words))
    parts.append((placement.price(costs).transfers, "in transfers"))
    parts = sorted((part for part in parts if part[0] > 0), key=lambda part: -part[0])
    if rest := parts[_MOST_BESIDE:]:
        parts = [*parts[:_MOST_BESIDE], (sum(part[0] for part in rest), "in the rest")]
    said = joined([f"{in_words(part, rough)} {words}" for part, words in parts])
    return f": {said}" if said else ""


def _plan_row(name: str, size: str, more: str, what: str, value: str) -> html.Li:
    link = html.Button(
        html.Span(html.Bdi(shortened_path(name, 27)), className="name-end"),
        className="link",
        title=f"{name} {more}".strip(),
        **{f"data-{what}": value},
    )
    return html.Li([link, html.Span(size, className="size")], className="plan-row")


def tensor(document: Document, number: int) -> list[Any]:
    """A graph input or output."""
    graph = document.graph
    readers = graph.readers[number].tolist()
    producer = int(graph.tensor_producer[number])
    what = "Graph output" if number in graph.outputs.tolist() else "Graph input"
    near = [producer] if producer >= 0 else readers
    return [
        heading(what),
        html.H3(graph.tensor_names[number], className="op-name"),
        facts(
            [
                ("Type", graph.tensor_types[number] or "unknown"),
                ("Shape", graph.shape_label(number)),
                ("Size", human_bytes(int(graph.tensor_bytes[number]))),
                *_state(graph, graph.tensor_names[number]),
            ]
        ),
        html.H4("Made by" if producer >= 0 else "Read by"),
        html.Div([_op_link(document, op) for op in near[:20]]),
    ]


def tensors(document: Document, numbers: Sequence[int]) -> list[Any]:
    """Graph inputs or outputs that are drawn as one node."""
    if len(numbers) == 1:
        return tensor(document, numbers[0])
    graph = document.graph
    what = "graph output" if numbers[0] in graph.outputs.tolist() else "graph input"
    size = sum(max(int(graph.tensor_bytes[number]), 0) for number in numbers)
    rows = [
        html.Div(
            [
                html.Bdi(graph.tensor_names[number], className="tensor-name"),
                html.Div(
                    f"{graph.tensor_types[number] or '?'} {graph.shape_label(number)}",
                    className="soft",
                ),
            ],
            className="tensor",
        )
        for number in numbers[:_MOST_TENSORS]
    ]
    if len(numbers) > _MOST_TENSORS:
        rows.append(html.P(f"… and {len(numbers) - _MOST_TENSORS} more", className="hint"))
    return [
        heading(pluralize(len(numbers), what)),
        facts([("Size", f"{human_bytes(size)} together")]),
        html.H4("Tensors"),
        *rows,
    ]


def _state(graph: Graph, name: str) -> list[tuple[str, Any]]:
    """What the next step makes of an output, or where it takes an input from."""
    for state in states_of(graph):
        if name == state.output:
            return [("Next step", f"reads it as {state.input}")]
        if name == state.input:
            return [("Step before", f"made it as {state.output}")]
    return []


def op(document: Document, number: int, weigh: bool = False) -> list[Any]:
    """One op; ``weigh``: with figures of its weights."""
    graph = document.graph
    why = document.placement.why(graph.op_keys[number])
    colours = colours_of(document)
    planned = {d.name: d.planned for d in document.devices}
    costs, basis = op_costs(document)
    parts: list[Any] = [
        heading("Inspector"),
        html.Div(
            [
                html.H3(_breakable(graph.type_label(number)), className="op-type"),
                html.Span(
                    [html.Span(why.device), planned_badge() if planned[why.device] else None],
                    className="chip",
                    style={
                        "backgroundColor": colours[why.device],
                        "color": text_colour(colours[why.device]),
                    },
                ),
            ],
            className="op-head",
        ),
        html.Div(graph.display_name(number), className="op-name", title=graph.op_keys[number]),
        _breadcrumbs(document, number),
        html.H4("Why it is here"),
        html.P(f"{why.because[:1].upper()}{why.because[1:]}.", className="because"),
        html.Ul(
            [
                _verdict(
                    v,
                    document.devices[i].published,
                    bool(document.placement.constraints.able[number, i]),
                    document.placement.constraints.excluded(number, i),
                    colours,
                    None
                    if graph.op_is_constant[number]
                    else in_words(
                        float(costs.op[number, i]), is_assumed(document.devices, costs, i)
                    ),
                )
                for i, v in enumerate(why.verdicts)
            ],
            className="verdicts",
        ),
        _other_forms(document, number),
        None
        if graph.op_is_constant[number]
        else html.P(["Times of this op alone ", basis_badge(basis)], className="hint"),
        html.H4("Pin to"),
        html.Div(
            [
                html.Button(
                    [swatch(colours[d.name]), html.Span(d.name)],
                    className="tool small",
                    disabled=not document.placement.constraints.able[number, i],
                    **{"data-paint": str(i), "title": f"Pin this op to {d.name}"},
                )
                for i, d in enumerate(document.devices)
            ]
            + ([_unpin()] if why.pinned else []),
            className="pin-to",
        ),
        _levels(document),
    ]
    where = f"{why.subgraph}" if why.subgraph is not None else "repeated with its consumers"
    parts.append(
        html.Div(
            [
                html.Button(
                    "Copy name", className="link", **{"data-copy": graph.display_name(number)}
                ),
                html.Button("Copy key", className="link", title=why.key, **{"data-copy": why.key}),
                html.Button(
                    "Copy link",
                    className="link",
                    title="A link that opens the editor on this op",
                    **{"data-command": "copy-link"},
                ),
            ],
            className="copies",
        )
    )
    parts.append(facts([("Key", why.key), ("Subgraph", where), ("Pinned", why.pinned or "no")]))
    parts += [
        html.H4("Inputs"),
        _tensors(document, number, graph.op_reads[number].tolist(), made=False),
        *weights(graph, number, weigh),
        html.H4("Outputs"),
        _tensors(
            document, number, [t for t in graph.op_outputs[number].tolist() if t >= 0], made=True
        ),
    ]
    if graph.op_is_atomic[number]:
        parts += _bodies(graph, -1, number)
    return parts + _attributes(graph, number)


def _attributes(graph: Graph, number: int) -> list[Any]:
    """The attributes of an op, those that it has by default included, and the documentation of its type."""
    domain, stated = graph.op_domains[number], graph.op_attributes[number]
    definition = definition_of(
        graph.op_types[number], domain, graph.opsets.get(domain or "ai.onnx", 0)
    )
    pairs: list[tuple[str, Any]] = list(stated)
    if definition is not None:
        given = dict(stated)
        pairs += [
            (name, [value or '""', " ", html.Span("default", className="badge")])
            for name, value in definition.defaults
            if name not in given
        ]
    return [
        *([html.H4("Attributes"), facts(pairs)] if pairs else []),
        *([_documentation(definition)] if definition is not None else []),
    ]


def _documentation(definition: Definition) -> html.Details:
    link = html.A(
        f"{definition.name}, since version {definition.since_version}",
        href=definition.address,
        target="_blank",
        rel="noreferrer noopener",
        title=definition.address,
    )
    return html.Details(
        [
            html.Summary(f"Documentation of {definition.name}"),
            link,
            html.Div(definition.documentation, className="plain-text"),
        ],
        className="op-doc",
    )


def _bodies(graph: Graph, around: int, holder: int) -> list[Any]:
    """The ops in the bodies of an If, Loop or Scan, and those in bodies inside these; all are placed with it."""
    shown = []
    for number in bodies_in(graph, around, holder):
        body = bodies_of(graph)[number]
        items = [
            html.Li(
                [
                    html.Strong(op.op_type),
                    f" {op.name or op.key}",
                    *_bodies(graph, number, position),
                ]
            )
            for position, op in enumerate(body.ops[:_MOST_IN_BODY])
        ]
        more = len(body.ops) - len(items)
        shown.append(
            html.Details(
                [
                    html.Summary(
                        [
                            f"{body.name}: {pluralize(len(body.ops), 'op')}"
                            f"{', placed with this op' if around < 0 else ''} ",
                            html.Button(
                                "Open",
                                className="link",
                                title="Look into it",
                                **{"data-body": str(number)},
                            ),
                        ]
                    ),
                    html.Ul(items),
                    html.P(f"and {more:,} more", className="hint") if more else None,
                ],
                className="body-ops",
            )
        )
    return shown


def _breadcrumbs(document: Document, number: int) -> Any:
    """The blocks around an op, the outermost first; each selects its ops."""
    scopes = scopes_of(document.graph)
    around = [scopes.scopes[n] for n in reversed(scopes.ancestors(scopes.of_op.get(number, 0)))]
    if not around:
        return None
    links: list[Any] = []
    for block in around:
        links += [
            " › " if links else None,
            html.Button(
                block.path[-1],
                className="link",
                title=f"Select the {len(block.ops)} ops of {block.label}",
                **{"data-ops": spans(np.sort(np.array(block.ops)))},
            ),
        ]
    return html.Nav(links, className="breadcrumbs", **{"aria-label": "Blocks around the op"})


def several(document: Document, ops: Sequence[int]) -> list[Any]:
    """A selection of many ops."""
    graph, placement = document.graph, document.placement
    colours = colours_of(document)
    device = placement.assignment.device[list(ops)]
    counts = np.bincount(device, minlength=len(document.devices)).tolist()
    types: dict[str, int] = {}
    for number in ops:
        types[graph.type_label(number)] = types.get(graph.type_label(number), 0) + 1
    top = sorted(types.items(), key=lambda item: (-item[1], item[0]))
    name, what = _called(document, ops)
    return [
        heading("Inspector"),
        html.H3(_breakable(name), className="op-type", title=name) if name else None,
        html.Div(f"{len(ops):,} ops selected{what}", className="op-name"),
        html.H4("On"),
        html.Ul(
            [
                html.Li(
                    [
                        swatch(colours[d.name]),
                        f"{d.name}: {n}",
                        *_reasons(
                            placement, [op for op, on in zip(ops, device, strict=True) if on == i]
                        ),
                    ]
                )
                for i, (d, n) in enumerate(zip(document.devices, counts, strict=True))
                if n
            ],
            className="verdicts",
        ),
        html.H4("Pin all to"),
        html.Div(
            [
                html.Button(
                    [swatch(colours[d.name]), html.Span(d.name)],
                    className="tool small",
                    disabled=not placement.constraints.able[list(ops), i].any(),
                    **{"data-paint": str(i), "title": f"Pin the selected ops to {d.name}"},
                )
                for i, d in enumerate(document.devices)
            ]
            + [_unpin()],
            className="pin-to",
        ),
        _refusals(document, ops, colours),
        _levels(document),
        html.H4("Time"),
        html.Div(costs_on_devices(document, list(ops)), className="region-costs"),
        *_held(graph, ops),
        html.H4("Op types"),
        facts([(name, str(n)) for name, n in top[:16]]),
    ]


def _reasons(placement: Placement, ops: Sequence[int]) -> list[html.Div]:
    """Why ops are on their device: the commonest reasons, without the figures, which differ from op to op.

    Of many ops evenly chosen ones tell.
    """
    keys, asked = placement.graph.op_keys, ops[:: -(-len(ops) // _ASKED)]
    told = Counter(
        _FIGURES.sub("", placement.why(keys[op]).because).replace("this op", "each op")
        for op in asked
    )
    counted = len(told) > 1 and len(asked) == len(ops)
    lines = [
        f"{because} ({pluralize(count, 'op')})" if counted else because
        for because, count in told.most_common(_MOST_REASONS)
    ]
    return [html.Div(line, className="reason") for line in lines]


def _refusals(document: Document, ops: Sequence[int], colours: Mapping[str, str]) -> html.Ul | None:
    """Devices that can run none of some ops, each with the commonest reasons; what one can run in part, the times say."""
    constraints, rows = document.placement.constraints, []
    for i, device in enumerate(document.devices):
        if constraints.able[list(ops), i].any():
            continue
        reasons, published = constraints.inabilities(ops, i), device.published
        excluded = all(constraints.excluded(op, i) for op in ops)
        mark = _mark(published, reasons[0][0], excluded, "them")
        lines = [
            html.Div(
                [
                    *with_link(reason, published.source if published.source in reason else ""),
                    f" ({pluralize(count, 'op')})" if len(reasons) > 1 else "",
                ],
                className="reason",
            )
            for reason, count in reasons[:_MOST_REASONS]
        ]
        if (more := len(reasons) - _MOST_REASONS) > 0:
            lines.append(html.Div(f"and {pluralize(more, 'more reason')}", className="reason"))
        name = html.Span(device.name, className="device-name")
        rows.append(html.Li([swatch(colours[device.name]), name, mark, *lines]))
    return html.Ul(rows, className="verdicts") if rows else None


def _held(graph: Graph, ops: Sequence[int]) -> list[Any]:
    """Bytes of the weights that ops read, each once, and of the states that they are the first to read."""
    chosen = set(ops)
    read = {t for op in ops for t in graph.op_reads[op].tolist() if t >= 0}
    states, kept = 0, 0
    for state in states_of(graph):
        tensor = graph.tensor_index[state.input]
        readers = graph.readers[tensor].tolist()
        if readers and min(readers, key=lambda op: int(graph.rank[op])) in chosen:
            tensor = graph.tensor_index[state.output] if state.inside else tensor
            states, kept = states + 1, kept + max(int(graph.tensor_bytes[tensor]), 0)
    weights_read = sum(
        max(int(graph.tensor_bytes[t]), 0) for t in read if graph.tensor_is_constant[t]
    )
    rows = [("Weights", human_bytes(weights_read))] if weights_read else []
    if states:
        rows.append(
            (pluralize(states, "state"), f"{human_bytes(kept)}, up to twice that in a step")
        )
    return [html.H4("Memory"), facts(rows)] if rows else []


def _unpin() -> html.Button:
    return html.Button("Unpin", className="tool small", **{"data-command": "unpin-selection"})


def _called(document: Document, ops: Sequence[int]) -> tuple[str, str]:
    """The name of the block or subgraph that a selection is, and more about it."""
    scopes, chosen = scopes_of(document.graph), set(ops)
    for number in scopes.ancestors(scopes.of_op.get(ops[0], 0)):
        block = scopes.scopes[number]
        if len(block.ops) == len(chosen) and chosen.issuperset(block.ops):
            times = len(block.identical)
            inside = scopes.layers_in(number)
            more = f", one of {times} blocks alike: L selects the others too" if times > 1 else ""
            return block.label, more or (f", a list of {inside} layers" if inside else "")
    part = document.placement.division.subgraph_of_op
    here = {int(part[op]) for op in ops}
    if len(here) == 1 and int((part[visible_ops(document.graph)] == min(here)).sum()) == len(
        chosen
    ):
        return f"Subgraph {min(here)}", ""
    return "", ""


def _levels(document: Document) -> html.Div | None:
    """Pins that leave a choice: to a kind of device, a unit or a codegen that several entries share."""
    labels = [label for label in labels_of(document.devices) if ":" in label]
    if not labels:
        return None
    buttons = [
        html.Button(
            label,
            className="tool small",
            title=f"Pin to {' or '.join(_sharing(label, document.devices))}, which have {label} in common; the automatic mode "
            "chooses which",
            **{"data-label": label},
        )
        for label in labels
    ]
    return html.Div(
        [html.P("or to any device of a kind", className="hint"), *buttons],
        className="pin-to by-kind",
    )


def _sharing(label: str, devices: Sequence[Device]) -> list[str]:
    """Names of the devices that a label such as ``device:GPU`` means."""
    level, _, value = label.partition(":")
    return [device.name for device in devices if device.labels()[level] == value]


def _other_forms(document: Document, number: int) -> html.Button | None:
    """The command of the Fallbacks tab that may help an op which falls back, where that tab has it."""
    graph, placement = document.graph, document.placement
    refusing = ~placement.constraints.able[number, : placement.assignment.device[number]]
    if graph.op_is_constant[number] or graph.op_keys[number] in placement.settings.pins:
        return None
    if not refusing.any() or not graph.is_onnx or graph.weights_problem:
        return None
    return html.Button(
        "Try other forms",
        className="tool small",
        title="Rewrites ops that fall back, and compares the outputs.",
        **{"data-command": "run-advise-start"},
    )


def _mark(published: Published, reason: str, excluded: bool, what: str = "it") -> html.Span:
    """Says that a device does not take an op, or ops; an unofficial list does not show that the device cannot run it."""
    if excluded:
        return html.Span("✗ excluded by the device table", className="no")
    if not published.is_hearsay(reason):
        return html.Span(f"✗ cannot run {what}", className="no")
    tried = "✗ was refused when tried" if "refused" in reason else "✗ not known to run"
    return html.Span(tried, className="no warn")


def _verdict(
    verdict: Any,
    published: Published,
    able: bool,
    excluded: bool,
    colours: dict[str, str],
    seconds: str | None,
) -> html.Li:
    """What a device can do, apart from what pins and rules leave of it, and what it takes."""
    can = html.Span("✓ can run it" if seconds is None else f"✓ {seconds}", className="yes")
    mark = can if able else _mark(published, verdict.reason, excluded)
    reason = verdict.reason if not able else f"not used: {verdict.reason}" if verdict.reason else ""
    return html.Li(
        [
            swatch(colours[verdict.device]),
            html.Span(verdict.device, className="device-name"),
            mark,
            html.Div(
                with_link(reason, published.source if published.source in reason else ""),
                className="reason",
                title=condition_title(verdict.condition),
            )
            if reason
            else None,
        ]
    )


def _tensors(document: Document, op: int, tensors: Sequence[int], made: bool) -> Any:
    graph, device = document.graph, int(document.placement.device_of_op[op])
    if not tensors:
        return html.P("none", className="hint")
    rows: list[Any] = []
    values: dict[int, str] = {}
    if not made:
        try:
            values = values_of(graph, tensors[:_MOST_TENSORS])
        except EditorError as error:  # the file is gone, or has changed
            rows.append(html.P(str(error), className="hint"))
    for number in tensors[:_MOST_TENSORS]:
        producer = int(graph.tensor_producer[number])
        size, own = planned_size(document.placement, number, device)
        kind = "constant" if graph.tensor_is_constant[number] else ""
        near = graph.readers[number].tolist() if made else [producer] if producer >= 0 else []
        links = [_op_link(document, op) for op in near[:4] if not graph.op_is_constant[op]]
        rows.append(
            html.Div(
                [
                    html.Div(
                        html.Bdi(graph.tensor_names[number]),
                        className="tensor-name",
                        title=graph.tensor_names[number],
                    ),
                    html.Div(
                        [
                            html.Span(
                                f"{graph.tensor_types[number] or '?'} {graph.shape_label(number)}"
                            ),
                            html.Span(size, className="tensor-bytes", title=own),
                            html.Span(kind, className="badge") if kind else None,
                        ],
                        className="tensor-line",
                    ),
                    html.Code(values[number], className="values") if number in values else None,
                    html.Div([html.Span("→ " if made else "← "), *links], className="tensor-links")
                    if links
                    else None,
                ],
                className="tensor",
            )
        )
    if len(tensors) > _MOST_TENSORS:
        rows.append(html.P(f"… and {len(tensors) - _MOST_TENSORS} more", className="hint"))
    return html.Div(rows)


def _op_link(document: Document, number: int) -> html.Button:
    name = document.graph.display_name(number)
    return html.Button(
        f"{document.graph.op_types[number]}",
        className="link",
        title=name,
        **{"data-goto": f"op{number}"},
    )
