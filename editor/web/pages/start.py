"""The start page: examples, a path, an upload, recent work."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dash import html

from editor.devices.discovery import available_devices, names_here, unusable_runtimes
from editor.devices.table import are_names
from editor.errors import WorkspaceError
from editor.web import controls
from editor.web.app_state import AppState
from editor.web.drawing.thumbnail import thumbnail_of
from editor.web.open_request import OpenRequest
from editor.web.panels.device_form import choices
from editor.web.panels.parts import icon, problem, scheme_toggle
from editor.workspace.history import Record
from editor.workspace.sizes import size_words


@dataclass(frozen=True)
class Example:
    """A bundled model with the device table that shows it best."""

    file: str
    title: str
    what: str
    devices: str
    define: dict[str, int]


EXAMPLES = (
    Example(
        "mobilenetv2.onnx", "MobileNetV2", "100 ops, on three real runtimes", "runtimes.yaml", {}
    ),
    Example(
        "resnet50.onnx",
        "ResNet-50",
        "122 ops, planned for GPU and CPU",
        "gpu-cpu.yaml",
        {"batch": 1},
    ),
    Example(
        "whisper-tiny-decoder.onnx",
        "Whisper tiny, decoder",
        "243 ops, sizes chosen at run time",
        "runtimes.yaml",
        {},
    ),
    Example(
        "fcn-resnet101.onnx",
        "FCN-ResNet101, OpenCL first",
        "three parts, as the compiler Glow splits it",
        "glow-opencl-first.yaml",
        {},
    ),
    Example(
        "fcn-resnet101.onnx",
        "FCN-ResNet101, CPU first",
        "one part: Glow takes the first device that can",
        "glow-cpu-first.yaml",
        {},
    ),
)


def start_page(state: AppState, request: OpenRequest | None = None, error: str = "") -> html.Div:
    """Ways to a document; ``request`` is opened at once."""
    data = (
        None
        if request is None
        else {"path": request.path, "devices": request.devices, "define": dict(request.define)}
    )
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
                        "Every op of the model gets a device, automatically. See which, and why; repaint "
                        "what you like; and measure the result on the real runtimes.",
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
                    html.H2("Examples", className="heading"),
                    html.Div([_example(i, e) for i, e in enumerate(EXAMPLES)], className="cards"),
                    html.H2("Your model", className="heading"),
                    _own_model(state.devices),
                    *_recent(state),
                    html.H2("On this machine", className="heading"),
                    html.Ul(
                        [html.Li([html.B(name), f" — {text}"]) for name, text in _machine()],
                        className="machine",
                    ),
                ],
                id="start",
            ),
        ]
    )


def _machine() -> list[tuple[str, str]]:
    """(name, description) of each device, and of what is installed but cannot be used."""
    devices = [
        (d.name, f"{d.description} ({d.details})" if d.details else d.description)
        for d in available_devices()
    ]
    return devices + [
        (part.name, f"installed but unusable: {part.reason}") for part in unusable_runtimes()
    ]


def _example(number: int, example: Example) -> html.Button:
    return html.Button(
        [
            html.Div(example.title, className="card-value"),
            html.Div(example.what, className="card-detail"),
            html.Div(f"devices: {example.devices}", className="card-detail"),
        ],
        id={"type": "example", "number": number},
        className="card example",
    )


def _own_model(devices: str) -> html.Div:
    here = f"HETERO:{','.join(names_here())}"
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
    return html.Div(
        [
            html.Div(
                [
                    controls.Field(
                        id="path",
                        label="Path of a model or plan on this machine",
                        placeholder="/models/my-model.onnx",
                        className="grow",
                    ),
                    controls.Field(
                        id="devices-spec",
                        label="Devices by priority: HETERO:GPU,CPU, or a table (YAML file)",
                        width=360,
                        value=devices or here,
                        suggestions=tables,
                    ),
                    controls.Button("Open", id="open-path", primary=True),
                ],
                className="own",
            ),
            controls.MultiSelect(
                id="devices-choice",
                data=choices(),
                label="Or choose devices, the most wanted first",
                value=[],
                placeholder="What is here, planned devices, and presets of real accelerators",
            ),
            html.Div(
                [
                    html.Div(
                        [
                            icon("upload"),
                            html.Span(
                                [
                                    "Drop a model here: a file, a folder with its weights, or a zip "
                                    "of one. Or choose "
                                ]
                            ),
                            html.Button("files", className="link", **{"data-upload": "files"}),
                            html.Span(" or "),
                            html.Button("a folder", className="link", **{"data-upload": "folder"}),
                        ]
                    ),
                    html.Div(id="upload-progress", role="status"),
                ],
                id="upload",
                className="upload",
            ),
        ]
    )


def _recent(state: AppState) -> list[Any]:
    try:
        records = state.store.recent(6)
    except WorkspaceError as error:
        return [
            html.H2("Recent", className="heading"),
            problem(str(error), "Earlier work cannot be listed"),
        ]
    if not records:
        return []
    rows = [
        controls.Link(
            [
                _picture(state, r),
                html.B(r.title),
                html.Span(
                    f" {' '.join((_device_names(state, r), size_words(r.define)))} ",
                    className="recent-devices",
                ),
                html.Span(f" {r.model}", className="recent-path"),
                html.Span(r.updated[:16].replace("T", " ") + " UTC", className="recent-time"),
            ],
            href=f"/d/{r.id}",
            className="recent",
        )
        for r in records
    ]
    return [html.H2("Recent", className="heading"), html.Div(rows)]


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
    return ", ".join(str(entry.get("name") or entry.get("backendName")) for entry in devices)


def symbol_form(symbols: tuple[str, ...], defined: dict[str, int], message: str) -> html.Div:
    """Asks for the sizes of symbolic dimensions."""
    return html.Div(
        [
            html.H2("Choose input sizes", className="heading"),
            html.P(message, className="hint wide"),
            html.Div(
                [
                    controls.Field(
                        id={"type": "symbol", "name": name},
                        type="number",
                        label=name,
                        value=defined.get(name, 1),
                        min=0,
                        step=1,
                        width=170,
                    )
                    for name in symbols
                ]
                + [controls.Button("Open with these sizes", id="open-sizes", primary=True)],
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
    return (
        f"HETERO:{spec}"
        if spec and are_names(spec) and not Path(spec).exists()
        else spec or "HETERO"
    )
