"""The start page: examples, a path, an upload, recent work."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dash_mantine_components as dmc
from dash import dcc, html

from editor.devices.discovery import available_devices
from editor.web.app_state import AppState
from editor.web.open_request import OpenRequest
from editor.web.panels.parts import icon, problem

UPLOAD_LIMIT = 256 << 20


@dataclass(frozen=True)
class Example:
    """A bundled model with the device table that shows it best."""

    file: str
    title: str
    what: str
    devices: str
    define: dict[str, int]


EXAMPLES = (
    Example("mobilenetv2.onnx", "MobileNetV2", "100 ops, on three real runtimes", "runtimes.yaml", {}),
    Example("resnet50.onnx", "ResNet-50", "122 ops, planned for GPU and CPU", "gpu-cpu.yaml", {"batch": 1}),
    Example("whisper-tiny-decoder.onnx", "Whisper tiny, decoder", "348 ops with dynamic sizes", "runtimes.yaml", {}),
    Example("fcn-resnet101.onnx", "FCN-ResNet101, OpenCL first", "the Glow story: three partitions",
            "glow-opencl-first.yaml", {}),
    Example("fcn-resnet101.onnx", "FCN-ResNet101, CPU first", "the Glow story: one partition", "glow-cpu-first.yaml", {}),
)


def start_page(state: AppState, request: OpenRequest | None = None, error: str = "") -> html.Div:
    """Ways to a document; ``request`` is opened at once."""
    data = None if request is None else {"path": request.path, "devices": request.devices,
                                         "define": dict(request.define)}
    return html.Div([
        dcc.Store(id="request", data=data), dcc.Store(id="opened"), dcc.Store(id="gone"),
        html.Header([html.Span([html.Span(className="logo"), html.Span("Hetero Editor", className="brand")],
                               className="home"),
                     html.Span(className="spring"),
                     dmc.ColorSchemeToggle(lightIcon=icon("sun"), darkIcon=icon("moon"), id="scheme-toggle", size="md",
                                           variant="subtle", color="gray", **{"aria-label": "Light or dark"})],
                    id="header"),
        html.Main([
            html.H1("Split a neural network over devices"),
            html.P("See every op on the device that the automatic mode gave it, repaint what you like, and measure the "
                   "result on the real runtimes.", className="lead"),
            html.Div(problem(error, "This could not be opened") if error else None, id="open-error"),
            html.Div(id="symbols"),
            html.Div([html.Span(id="opening", className="opening", role="status"),
                      dmc.Button("Cancel", id="opening-cancel", size="compact-xs", variant="default")],
                     className="opening-row"),
            html.H2("Examples", className="heading"),
            html.Div([_example(i, e) for i, e in enumerate(EXAMPLES)], className="cards"),
            html.H2("Your model", className="heading"),
            _own_model(),
            *_recent(state),
            html.H2("On this machine", className="heading"),
            html.Ul([html.Li([html.B(d.name), f" — {d.description}"]) for d in available_devices()], className="machine"),
        ], id="start")])


def _example(number: int, example: Example) -> html.Button:
    return html.Button([html.Div(example.title, className="card-value"), html.Div(example.what, className="card-detail"),
                        html.Div(f"devices: {example.devices}", className="card-detail")],
                       id={"type": "example", "number": number}, className="card example")


def _own_model() -> html.Div:
    tables = [{"value": name, "label": label} for name, label in (
        ("HETERO:GPU,CPU", "HETERO:GPU,CPU"), ("runtimes.yaml", "Three runtimes: OpenVINO, ONNX Runtime, interpreter"),
        ("glow-opencl-first.yaml", "Glow: OpenCL before CPU"), ("glow-cpu-first.yaml", "Glow: CPU before OpenCL"))]
    return html.Div([
        html.Div([
            dmc.TextInput(id="path", label="Path of an .onnx or plan .json file on this machine",
                          placeholder="/models/my-model.onnx", size="sm", className="grow"),
            dmc.Autocomplete(id="devices-spec", label="Devices: a table (YAML file) or HETERO:A,B", size="sm", w=360,
                             value="HETERO:GPU,CPU", data=[t["value"] for t in tables]),
            dmc.Button("Open", id="open-path", size="sm")], className="own"),
        dcc.Upload(html.Div([icon("upload"), html.Span(["Drop an .onnx file here, or ", html.U("choose one")])]),
                   id="upload", className="upload", className_active="upload active", max_size=UPLOAD_LIMIT),
        html.P("Files over 256 MB, and models whose weights lie in other files, are opened by their path.",
               className="hint")])


def _recent(state: AppState) -> list[Any]:
    records = state.store.recent(6)
    if not records:
        return []
    rows = [dcc.Link([html.B(r.title), html.Span(f" {r.model}", className="recent-path"),
                      html.Span(r.updated[:16].replace("T", " ") + " UTC", className="recent-time")],
                     href=f"/d/{r.id}", className="recent") for r in records]
    return [html.H2("Recent", className="heading"), html.Div(rows)]


def symbol_form(symbols: tuple[str, ...], defined: dict[str, int], message: str) -> html.Div:
    """Asks for the sizes of symbolic dimensions."""
    return html.Div([
        html.H2("Choose input sizes", className="heading"), html.P(message, className="hint wide"),
        html.Div([dmc.NumberInput(id={"type": "symbol", "name": name}, label=name, value=defined.get(name, 1), min=0,
                                  step=1, size="sm", w=170, allowDecimal=False) for name in symbols]
                 + [dmc.Button("Open with these sizes", id="open-sizes", size="sm")], className="own")],
        className="sizes")


def resolve_spec(spec: str, examples: Path) -> str:
    """A table's path; names of bundled tables are found in the examples."""
    bundled = examples / "devices" / spec
    return str(bundled) if "/" not in spec and bundled.is_file() else spec
