"""The page of a set: a row for each model, and what all take of each device together."""

from __future__ import annotations

from typing import Any

from dash import html

from editor.devices.device import Device
from editor.devices.table_text import table_text
from editor.placement.choices import policy_choices
from editor.text import human_bytes, percent, pluralize, rough_percent
from editor.web import controls
from editor.web.app_state import AppState
from editor.web.drawing.ribbon import picture_plan, ribbon_of, thumbnail_of
from editor.web.panels.missing_weights import missing_weights
from editor.web.panels.parts import basis_badge, heading, scheme_toggle, swatch
from editor.web.sets import OpenSet, forms_for, memory_text, problem_of_set
from editor.web.view import colours_of
from editor.workspace.document import Document
from editor.workspace.model_set import STEPS, TOKENS, Member, ModelSet, SharedDevice


def set_page(state: AppState, found: OpenSet) -> html.Div:
    """Everything there is to see of a set."""
    forms = []
    for name, label in forms_for(found.documents).items():
        why = problem_of_set(found.documents, name)
        forms.append({"value": name, "label": label, "disabled": bool(why), "title": why})
    return html.Div(
        [
            controls.Store(id="set", data=found.record.id),
            html.Header(
                [
                    controls.Link(
                        [
                            html.Span(className="logo"),
                            html.Span("Hetero Editor", className="brand"),
                        ],
                        href="/open",
                        className="home",
                        title="Open another model",
                    ),
                    html.Span(className="spring"),
                    scheme_toggle(),
                ],
                id="header",
            ),
            html.Main(
                [
                    html.Div(
                        [
                            html.H1(found.record.title, id="set-name"),
                            html.Span(className="spring"),
                            controls.Select(
                                id="set-form",
                                data=forms,
                                value="plan",
                                width=230,
                                **{"aria-label": "Format of the export"},
                            ),
                            html.Button(
                                "Export all",
                                className="button",
                                title="A zip file with set.json, and a folder for each model",
                                **{"data-set-export": found.record.id},
                            ),
                            controls.Button(
                                "Place again",
                                id="set-place",
                                primary=True,
                                title="Each model beside the others, with its own pins, rules and policy",
                            ),
                        ],
                        className="set-title",
                    ),
                    missing_weights(found.documents),
                    html.Div(id="notice"),
                    html.Div(set_body(state, found), id="set-body"),
                ],
                id="set-main",
            ),
        ]
    )


_COLUMNS = (
    "Model",
    "Ops per device, a run from left to right",
    "Times per answer",
    "One run",
    "In an answer",
)


def set_parts(state: AppState, found: OpenSet) -> dict[str, list[Any]]:
    """What changes on the page of a set, by place: fields stay as they are, so that who types in one is not interrupted."""
    models, colours = found.models, colours_of(found.documents[0], found.models.devices)
    parts: dict[str, list[Any]] = {
        "answer": [
            html.B(f"{models.answer_in_words} an answer", className="set-figure"),
            " ",
            basis_badge(models.basis),
            html.Span(
                "; ".join(
                    filter(
                        None,
                        (
                            f"{pluralize(len(models.members), 'model')}, one after the other",
                            "the weights of all stay in memory",
                            ", ".join(models.left_out),
                        ),
                    )
                ),
                className="hint",
            ),
            _does_not_fit(models),
        ],
        "devices": [
            *(_device(models, device, colours[device.device]) for device in models.shared),
            _beside(models),
        ],
    }
    for i, (member, document) in enumerate(zip(models.members, found.documents, strict=True)):
        share = member.of_answer / models.seconds if models.seconds else 0.0
        parts |= {
            f"{i} name": [pluralize(len(member.plan.subgraphs), "subgraph")],
            f"{i} plan": _plan(state, models, member, document),
            f"{i} runs": [
                html.Span(
                    "assumed",
                    title=f"{TOKENS} for a model with a state, {STEPS} for a denoiser, else 1",
                )
                if member.source == "assumed"
                else ""
            ],
            f"{i} run": [member.in_words(member.seconds), " ", basis_badge(member.basis)],
            f"{i} answer": [
                member.in_words(member.of_answer),
                html.Div(
                    f"{(rough_percent if models.is_rough else percent)(share)} of the answer",
                    className="soft",
                ),
            ],
        }
    return parts


def set_body(state: AppState, found: OpenSet) -> list[Any]:
    """The figure of the set, its models and its devices."""
    parts = set_parts(state, found)

    def part(at: str, **more: Any) -> html.Div:
        return html.Div(parts[at], id={"type": "set-part", "at": at}, **more)

    rows = [
        html.Tr(
            [
                html.Th(
                    [
                        controls.Link(
                            member.name,
                            href=f"/d/{document.id}",
                            title=f"Open in the editor: {document.graph.path}",
                        ),
                        part(f"{i} name", className="soft"),
                    ],
                    scope="row",
                ),
                html.Td(part(f"{i} plan"), className="set-plan"),
                html.Td(
                    [
                        controls.Field(
                            id={"type": "set-runs", "name": member.name},
                            type="number",
                            value=member.runs,
                            min=0,
                            debounce=True,
                            width=90,
                            **{"aria-label": f"Times that {member.name} runs for one answer"},
                        ),
                        part(f"{i} runs", className="soft"),
                    ]
                ),
                html.Td(
                    [
                        part(f"{i} run"),
                        _benchmark(member, document),
                    ]
                ),
                html.Td(part(f"{i} answer")),
            ],
            **{"data-model": member.name},
        )
        for i, (member, document) in enumerate(
            zip(found.models.members, found.documents, strict=True)
        )
    ]
    heads = [html.Th(title, scope="col") for title in _COLUMNS]
    return [
        part("answer", className="set-answer"),
        html.Div(
            html.Table([html.Thead(html.Tr(heads)), html.Tbody(rows)], className="set-models"),
            className="set-wide",
        ),
        heading("What all models take of each device"),
        html.Div(
            [
                *(_limit(device) for device in found.models.devices),
                controls.Select(
                    id="set-policy",
                    label="Policy of “Place again”",
                    data=[
                        {"value": "", "label": "As each model has it"},
                        *({"value": p, "label": policy_choices()[p]} for p in _TOGETHER),
                    ],
                    value="",
                    width=230,
                ),
            ],
            className="set-limits",
        ),
        part("devices"),
        html.Details(
            [
                html.Summary("Device table"),
                html.Div(id="set-table-problem"),
                controls.Field(
                    id="set-table",
                    label="Devices by priority, as YAML",
                    value=set_table(found),
                    rows=12,
                ),
                html.Div(
                    [
                        controls.Button("Use this table", id="set-table-use"),
                        html.Span(
                            "All models are placed on it; pins that do not fit it go.",
                            className="hint",
                        ),
                    ],
                    className="set-table-end",
                ),
            ],
            id="set-devices",
        ),
    ]


def set_table(found: OpenSet) -> str:
    """The device table of a set as YAML."""
    return table_text([device.entry for device in found.models.devices])


def _benchmark(member: Member, document: Document) -> Any:
    """The way to measure a model; without its weights it says why there is none."""
    if lacking := document.graph.weights_problem:
        return html.Span(
            "Open Benchmark",
            className="soft",
            role="link",
            title=lacking,
            **{"aria-disabled": "true"},
        )
    return controls.Link(
        "Open Benchmark",
        href=f"/d/{document.id}#benchmark",
        className="soft",
        title=f"Measure the plan of {member.name} in the editor",
    )


_TOGETHER = ("memory", "optimal:latency", "priority")
"""Policies that are offered for all models of a set."""


def _limit(device: Device) -> Any:
    """The memory of a device that all models share."""
    return controls.Field(
        id={"type": "set-memory", "name": device.name},
        label=f"Memory of {device.name}",
        value=memory_text(device.entry),
        placeholder="no limit",
        debounce=True,
        width=150,
    )


def _plan(state: AppState, models: ModelSet, member: Member, document: Document) -> list[Any]:
    """A run from left to right, and how many ops each device has."""
    picture_plan(state.store.folder, document, ribbon_of(document))
    picture = thumbnail_of(state.store.folder, document.id)
    counts, colours = member.plan.placement.op_counts, colours_of(document, models.devices)
    ops = [
        html.Span(
            [swatch(colours[device.name]), f"{device.name} {counts[device.name]:,}"],
            className="set-ops",
        )
        for device in models.devices
        if counts.get(device.name)
    ]
    shown = html.Img(src=picture[0], alt=picture[1], title=picture[1]) if picture else None
    return [shown, html.Div(ops)]


def _does_not_fit(models: ModelSet) -> html.P | None:
    """What does not fit, and the way to make it fit."""
    needs = [
        f"{each.device} needs {human_bytes(each.needed)} of {human_bytes(each.limit or 0)}"
        for each in models.shared
        if each.lacking
    ]
    if not needs:
        return None
    way = controls.Button(
        "Place the set within memory",
        id={"type": "set-within", "at": "answer"},
        title="All models by the policy “Optimal within memory”: the shortest answer of what fits",
    )
    return html.P([f"Does not fit: {'; '.join(needs)} ", way], className="sentence unfit")


def _beside(models: ModelSet) -> html.Div | None:
    """What is left of an answer besides the time in which devices compute."""
    rest = models.seconds - sum(device.busy for device in models.shared)
    if rest <= 1e-9 * models.seconds:  # sums in another order
        return None
    return html.Div(
        f"Beside computing: {models.in_words(rest)} of an answer in transfers and in starting subgraphs.",
        className="soft",
    )


def _device(models: ModelSet, device: SharedDevice, colour: str) -> html.Section:
    held = models.held(device.device)
    most = max(each.needed for each in models.shared) or 1
    top = max(device.needed, device.limit if device.limit is not None else most, 1)
    parts = [
        (f"weights of {member.name}", weights, "")
        for member, (weights, _) in zip(models.members, held, strict=True)
        if weights
    ]
    if device.run:
        longest = max(range(len(held)), key=lambda i: held[i][1])
        parts.append((f"a run of {models.members[longest].name}", device.run, " set-run"))
    words = " + ".join(f"{what} {human_bytes(size)}" for what, size, _ in parts)
    limit = f" of {human_bytes(device.limit)}" if device.limit is not None else ""
    return html.Section(
        [
            html.H3(
                [
                    swatch(colour),
                    device.device,
                    html.Span(
                        [
                            f"{human_bytes(device.needed)}{limit}",
                            *(
                                [
                                    ", ",
                                    html.B(
                                        f"{human_bytes(device.lacking)} too much", className="over"
                                    ),
                                ]
                                if device.lacking
                                else []
                            ),
                            f", computes for {models.in_words(device.busy)} of an answer"
                            if device.busy
                            else None,
                        ]
                    ),
                ]
            ),
            html.Div(
                [
                    *(
                        html.Span(
                            className=f"set-part{kind}",
                            title=f"{what}: {human_bytes(size)}",
                            style={"width": f"{100 * size / top:.2f}%", "backgroundColor": colour},
                        )
                        for what, size, kind in parts
                    ),
                    html.Span(
                        className="set-limit",
                        title=f"Limit: {human_bytes(device.limit or 0)}",
                        style={"left": f"{100 * (device.limit or 0) / top:.2f}%"},
                    )
                    if device.lacking
                    else None,
                ],
                className="set-bar",
                role="img",
                **{"aria-label": f"Memory of {device.device}: {human_bytes(device.needed)}{limit}"},
            ),
            html.Div(words or "Nothing of the set is on it.", className="soft"),
        ],
        className="memory-device",
        **{"data-device": device.device},
    )
