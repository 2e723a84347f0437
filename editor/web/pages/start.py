"""The start page: examples, a path, an upload, recent work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dash import html

from editor.devices.discovery import available_devices, names_here, unusable_runtimes
from editor.errors import WorkspaceError
from editor.graph.dimension_meanings import sizes_apart, sizes_in_words
from editor.web import controls
from editor.web.app_state import AppState
from editor.web.drawing.ribbon import thumbnail_of
from editor.web.open_request import EarlierWorkError, OpenRequest
from editor.web.panels.device_form import choices
from editor.web.panels.parts import icon, problem, scheme_toggle, size_field
from editor.workspace.history import Record, SetRecord


@dataclass(frozen=True)
class Example:
    """A bundled model with the devices that show it best: a bundled table, or names."""

    file: str
    title: str
    what: str
    devices: str
    define: dict[str, int]
    picture: str
    """In assets/examples; `docs/_tools/example_cards.py` draws it."""


_FIRST_RECENT, _MOST_RECENT = 6, 200
"""Documents that are listed at first, and in all."""
FORMAT_WORDS = (
    "ONNX, OpenVINO IR (.xml with .bin), TensorFlow Lite, SavedModel or .pb, PaddlePaddle, PyTorch .pt2; "
    "a folder or zip of one; several for a set; a plan or set (.json)"
)
_GLOW = 3
"""Index of the first example for the compiler Glow, whose development has ended; they are folded."""
EXAMPLES = (
    Example(
        "mobilenetv2.onnx",
        "MobileNetV2",
        "100 ops, on three real runtimes",
        "runtimes.yaml",
        {},
        "mobilenetv2.svg",
    ),
    Example(
        "resnet50.onnx",
        "ResNet-50",
        "122 ops with a quarter of the channels, planned for an NVIDIA DLA and CPU",
        "HETERO:NPU(nvidia-dla as float16),CPU",
        {"batch": 1},
        "resnet50.svg",
    ),
    Example(
        "whisper-tiny-decoder.onnx",
        "Whisper tiny, decoder",
        "243 ops at a quarter of the width, dynamic dimensions",
        "runtimes.yaml",
        {},
        "whisper-tiny-decoder.svg",
    ),
    Example(
        "fcn-resnet101.onnx",
        "FCN-ResNet101, OpenCL first",
        "three parts, as the compiler Glow splits it",
        "glow-opencl-first.yaml",
        {},
        "fcn-opencl-first.svg",
    ),
    Example(
        "fcn-resnet101.onnx",
        "FCN-ResNet101, CPU first",
        "one part: Glow takes the first device that can",
        "glow-cpu-first.yaml",
        {},
        "fcn-cpu-first.svg",
    ),
)


def start_page(state: AppState, request: OpenRequest | None = None, error: str = "") -> html.Div:
    """Ways to a document; ``request`` is opened at once."""
    data = (
        None
        if request is None
        else {"path": request.path, "devices": request.devices, "define": dict(request.define)}
    )
    recent = _recent(state)
    return html.Div(
        [
            controls.Store(id="request", data=data),
            controls.Store(id="opened"),
            controls.Store(id="uploaded"),
            controls.Store(id="gone"),
            html.Header(
                [
                    html.Span(
                        [
                            html.Span(className="logo"),
                            html.Span("Hetero Editor", className="brand"),
                        ],
                        className="home",
                    ),
                    html.Span(className="spring"),
                    scheme_toggle(),
                ],
                id="header",
            ),
            html.Main(
                [
                    html.H1("Split a neural network over devices"),
                    html.P(
                        "Few accelerators run every operation (op) of a model. See which device runs each op and why, repaint "
                        "ops, measure the split model.",
                        className="lead",
                    ),
                    html.Div(
                        problem(error, "This could not be opened") if error else None,
                        id="open-error",
                    ),
                    html.Div(id="symbols"),
                    html.Div(
                        [
                            html.Span(id="opening", className="opening", role="status"),
                            controls.Button("Cancel", id="opening-cancel"),
                        ],
                        className="opening-row",
                    ),
                    html.Div(
                        [
                            html.Section(
                                [
                                    html.H2("Your model", className="heading"),
                                    *_own_model(state.devices, request.path if request else ""),
                                ]
                            ),
                            html.Section([*recent, *_examples()]),
                        ],
                        className="ways",
                    ),
                ],
                id="start",
            ),
        ]
    )


def _machine() -> html.Ul:
    """The devices of this machine, to be ticked, and what is installed but cannot be used."""
    devices = {
        d.name: f"{d.description} ({d.details})" if d.details else d.description
        for d in available_devices()
    }
    ticks = [
        [
            controls.Checkbox(id={"type": "device-here", "name": name}, checked=True, label=name),
            _what_it_is(devices[name]),
        ]
        for name in names_here()
    ]
    unusable = [
        _what_it_is(f"{part.name} is installed but unusable: {part.reason}")
        for part in unusable_runtimes()
    ]
    return html.Ul([html.Li(line) for line in [*ticks, *unusable]], className="machine")


def _what_it_is(text: str) -> html.Span:
    return html.Span(text, className="machine-what", title=text)


def _examples() -> list[Any]:
    cards = [_example(i, example) for i, example in enumerate(EXAMPLES)]
    return [
        html.H2("Examples", className="heading"),
        html.Div(cards[:_GLOW], className="examples"),
        html.Details(
            [
                html.Summary("Two more, for the compiler Glow"),
                html.Div(cards[_GLOW:], className="examples"),
            ]
        ),
        html.P(
            "An example opens on devices that suit it, unless you chose others beside. Weights are made up, not trained, so "
            "that the files are small.",
            className="hint",
        ),
    ]


def _example(number: int, example: Example) -> html.Button:
    return html.Button(
        [
            html.Img(
                src=f"/assets/examples/{example.picture}", alt="", className="example-picture"
            ),
            html.Span(
                [
                    html.Span(
                        [
                            html.B(example.title),
                            " ",
                            html.Span("start here", className="badge") if number == 0 else None,
                        ]
                    ),
                    html.Span(example.what, className="hint"),
                ],
                className="example-words",
            ),
        ],
        id={"type": "example", "number": number},
        className="example",
    )


def devices_here() -> str:
    """The devices of this machine as the start page proposes them."""
    return f"HETERO:{','.join(names_here())}"


def _own_model(devices: str, path: str) -> list[Any]:
    here = devices_here()
    tables = [
        {"value": name, "label": label}
        for name, label in (
            (here, f"{here} (this machine)"),
            ("HETERO:GPU,CPU", "HETERO:GPU,CPU"),
            ("runtimes.yaml", "Three runtimes: OpenVINO, ONNX Runtime, interpreter"),
            ("glow-opencl-first.yaml", "Glow: OpenCL before CPU"),
            ("glow-cpu-first.yaml", "Glow: CPU before OpenCL"),
        )
    ]
    return [
        html.Div(
            [
                html.Div(
                    [icon("upload"), html.B("Drop a model anywhere on this page")],
                    className="upload-title",
                ),
                html.Div(FORMAT_WORDS, className="hint"),
                html.Div(
                    [
                        html.Button(
                            "Choose files …", className="button", **{"data-upload": "files"}
                        ),
                        html.Button(
                            "Choose a folder …", className="button", **{"data-upload": "folder"}
                        ),
                    ],
                    className="upload-buttons",
                ),
                html.Div(id="upload-progress", role="status"),
            ],
            id="upload",
            className="upload",
        ),
        html.Div(
            [
                controls.Field(
                    id="path",
                    value=path,
                    label="Or the path of a model, a plan, set.json or a folder of models on this machine",
                    placeholder="/models/my-model.onnx",
                    className="grow",
                ),
                controls.Button("Open", id="open-path", primary=True),
            ],
            className="own",
        ),
        html.H3("On these devices, in this order"),
        html.Div(
            [
                html.P(
                    "Not used: the table below counts. Choose here to replace it.",
                    className="hint",
                    role="status",
                ),
                controls.MultiSelect(
                    id="devices-choice",
                    data=choices()[1:],
                    label="Planned devices (not in this machine), tried first",
                    value=[],
                    placeholder="Add a planned device …",
                ),
                _machine(),
            ],
            id="devices-chosen",
            className="devices-chosen",
        ),
        html.Details(
            [
                html.Summary("Type a device table"),
                controls.Field(
                    id="devices-spec",
                    label="Devices by priority, such as GPU,CPU, or a table (YAML file)",
                    value=devices or here,
                    suggestions=tables,
                ),
            ],
            id="devices-typed",
            open=bool(devices),
        ),
    ]


def _recent(state: AppState) -> list[Any]:
    try:
        records, sets = state.store.recent(_MOST_RECENT), state.store.recent_sets(_MOST_RECENT)
    except WorkspaceError as error:
        return [
            html.H2("Recent", className="heading"),
            problem(str(error), "Earlier work cannot be listed"),
        ]
    if not records:
        return []
    used = {record.id: record.updated for record in records}
    inside = {model.document for each in sets for model in each.models}
    found = [
        *(
            (r.updated, _row(state, r, _own_sizes(r, records)))
            for r in records
            if r.id not in inside
        ),
        *(
            (max(s.updated, *(used.get(m.document, "") for m in s.models)), _set_row(s))
            for s in sets
        ),
    ]
    rows = [row for _, row in sorted(found, key=lambda each: each[0], reverse=True)]
    return [
        html.H2("Recent", className="heading"),
        html.Div(rows[:_FIRST_RECENT]),
        html.Details(
            [html.Summary(f"Show all {len(rows)}"), *rows[_FIRST_RECENT:]], id="recent-more"
        )
        if len(rows) > _FIRST_RECENT
        else None,
    ]


def _title_line(record: Record | SetRecord) -> html.Span:
    updated = record.updated[:16].replace("T", " ") + " UTC"
    title = html.B(record.title, title=record.title)
    return html.Span([title, html.Span(updated, className="recent-time")], className="recent-line")


def _set_row(record: SetRecord) -> controls.Link:
    devices = ", ".join(map(_device_name, record.devices))
    return controls.Link(
        [
            _title_line(record),
            html.Span(
                [
                    html.Span(f"set of {len(record.models)}", className="recent-set"),
                    html.Span(devices, className="recent-devices", title=devices),
                ],
                className="recent-line",
            ),
        ],
        href=f"/set/{record.id}",
        className="recent",
    )


def _own_sizes(record: Record, records: Sequence[Record]) -> str:
    """The sizes of a document that tell it from others of its model; "" where none does."""
    return sizes_apart(record.define, (r.define for r in records if r.model == record.model))


def _row(state: AppState, record: Record, own_sizes: str) -> controls.Link:
    """A document; what tells it from others of its model comes first, as the line is cut at its end."""
    names, sizes = _device_names(state, record), sizes_in_words(record.define)
    shown = (own_sizes, names) if own_sizes else (names, sizes)
    devices = " · ".join(filter(None, shown))
    title = " · ".join(filter(None, (names, sizes)))
    return controls.Link(
        [
            _title_line(record),
            html.Span(
                [
                    _picture(state, record),
                    html.Span(devices, className="recent-devices", title=title),
                    html.Span(record.model, className="recent-path", title=record.model),
                ],
                className="recent-line",
            ),
        ],
        href=f"/d/{record.id}",
        className="recent",
    )


def _picture(state: AppState, record: Record) -> Any:
    """The plan from left to right in the colours of its devices."""
    found = thumbnail_of(state.store.folder, record.id)
    if found is None:
        return html.Span(className="recent-picture")
    address, words = found
    return html.Img(src=address, alt=words, title=words, className="recent-picture")


def _device_names(state: AppState, record: Record) -> str:
    """The devices of a document in order, for those who have several of one model."""
    devices = state.store.decisions(record.id, record.cursor)["devices"]
    return ", ".join(map(_device_name, devices))


def _device_name(entry: Mapping[str, Any]) -> str:
    """A device with what tells it from one of the same name in other documents."""
    name = str(entry.get("name") or entry.get("backendName"))
    notes = [str(entry.get("preset") or ""), f"as {t}" if (t := entry.get("assumes")) else ""]
    note = ", ".join(filter(None, notes))
    return f"{name} ({note})" if note and note != name else name


def symbol_form(symbols: tuple[str, ...], defined: dict[str, int], message: str) -> html.Div:
    """Asks for the sizes of symbolic dimensions."""
    return html.Div(
        [
            html.H2("Choose input sizes", className="heading"),
            html.P(message, className="hint wide"),
            html.Div(
                [size_field("symbol", name, defined.get(name, 1), width=240) for name in symbols]
                + [controls.Button("Open with these sizes", id="open-sizes", primary=True)],
                className="own",
            ),
        ],
        className="sizes",
    )


def earlier_form(error: EarlierWorkError) -> html.Div:
    """Asks whether to continue with an edited document or to start another one."""
    when = error.updated[:16].replace("T", " ")
    return html.Div(
        [
            html.H2("Continue where you left off, or start fresh?", className="heading"),
            html.P(
                f"There is an edited document of this model with these devices, last used {when} UTC. It is kept in either "
                "case.",
                className="hint wide",
            ),
            html.Div(
                [
                    controls.Link(
                        "Continue where you left off",
                        href=f"/d/{error.document}",
                        className="button primary",
                    ),
                    controls.Button("Start fresh", id="open-fresh"),
                ],
                className="own",
            ),
        ],
        className="sizes",
    )


def resolve_spec(spec: str, examples: Path) -> str:
    """What a person typed as devices: a table's path, a bundled table, names; nothing means those of this machine."""
    bundled = examples / "devices" / spec
    if spec and "/" not in spec and bundled.is_file():
        return str(bundled)
    return spec or "HETERO"
