"""What a configuration that exists really runs, in the tab Compare: the form, and the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from dash import html

from editor.devices.published import reason_of_all
from editor.runtimes.onnxruntime.providers import provider_of
from editor.text import percent, pluralize
from editor.web import controls
from editor.web.drawing.elements import spans
from editor.web.panels.parts import kind_badge, plain_table, swatch
from editor.web.view import colours_of
from editor.workspace.audit_layouts import AuditReport, names_in_layout
from editor.workspace.audits import AuditedOp, by_reason, types_of
from editor.workspace.document import Document
from editor.workspace.recorded import hetero_devices


def audit_form(document: Document) -> list[Any]:
    """Asks for a configuration of ONNX Runtime or of OpenVINO's HETERO; begins with that of the table."""
    graph = document.graph
    example = "CUDA,CPU" if graph.is_onnx else "HETERO:GPU,CPU"
    both = f"{example} or HETERO:GPU,CPU" if graph.is_onnx else example
    return [
        html.H3("What a session really runs"),
        html.Div(
            [
                controls.Field(
                    id="audit-devices",
                    value=_of_table(document),
                    placeholder=f"e.g. {both}",
                    width=230,
                    **{"aria-label": "Providers of ONNX Runtime in order, or HETERO: and devices"},
                ),
                *(_session_fields() if graph.is_onnx else ()),
                controls.Button("Audit", id="audit-start"),
                html.Span(
                    "Asks the runtime where it puts each op with these devices in order; the answer is kept as a layout.",
                    className="hint",
                ),
            ],
            className="bench-controls",
        ),
        html.Div(id="audit-result"),
    ]


def _of_table(document: Document) -> str:
    """Providers of ONNX Runtime in the order of the table; else devices of OpenVINO; "" where it has neither."""
    devices = [device for device in document.devices if device.present and not device.machine]
    providers = [each for each in map(provider_of, devices) if each]
    if providers and document.graph.is_onnx:
        names = [name.removesuffix("ExecutionProvider") for name in providers]
        return ",".join(dict.fromkeys(names))
    of_openvino = hetero_devices(devices)
    return f"HETERO:{','.join(of_openvino)}" if of_openvino else ""


def _session_fields() -> list[Any]:
    return [
        controls.Field(
            id="audit-options",
            placeholder='Session options, {"intra_op_num_threads": 4}',
            width=330,
            **{"aria-label": "Session options as JSON"},
        ),
        controls.Field(
            id="audit-seconds",
            type="number",
            placeholder="Seconds to run",
            min=0,
            width=140,
            **{"aria-label": "Seconds to run it for measured times; 0: estimates"},
        ),
    ]


def audit_view(document: Document, name: str, found: AuditReport) -> list[Any]:
    """What a session runs where, the ops that are not where they were wanted, and what could not be checked."""
    astray, removed = found.astray, found.removed
    wanted = found.shares[0].device
    placed = len(found.ops) - len(removed)
    words = (
        f"{pluralize(len(astray), 'op')} of {placed:,} not on {wanted}"
        if astray
        else f"all {pluralize(placed, 'op')} on {wanted}"
        if placed
        else "the record names no op of the model"
    )
    copies = "" if found.copies is None else f", {pluralize(found.copies, 'copying node')} in a run"
    names, colours = names_in_layout(document, found), colours_of(document)
    rows = [
        html.Tr(
            [
                html.Td(
                    html.Span(
                        [
                            swatch(colours[names[share.device]])
                            if names[share.device] in colours
                            else None,
                            share.device + ("" if share.here else ", not on this machine"),
                        ],
                        className="spread",
                    )
                ),
                html.Td(f"{share.ops:,}"),
                html.Td(percent(share.ops_share, 1)),
                html.Td(percent(share.time_share, 1)),
            ]
        )
        for share in found.shares
    ]
    return [
        html.Div(
            [
                html.B(name),
                html.Span(
                    f"{found.runtime}: {words}, {pluralize(found.subgraphs, 'subgraph')}{copies}",
                    id="audit-summary",
                ),
                html.Button(
                    "Use as the plan",
                    className="tool small",
                    title="Pin each op where the runtime has it",
                    **{"data-layout-use": name},
                ),
            ],
            className="row",
        ),
        plain_table(
            ("Device", "Ops", "Share of ops", ["Share of time ", kind_badge(found.kind)]), rows
        ),
        _astray_table(document, astray),
        _removed(document, removed),
        _notes(found.unchecked),
    ]


def _astray_table(document: Document, astray: Sequence[AuditedOp]) -> Any:
    """Ops that are elsewhere, by reason."""
    if not astray:
        return None
    rows = [
        html.Tr(
            [
                html.Td(ops[0].wanted),
                html.Td(ops[0].actual),
                html.Td(_select(document, ops)),
                html.Td(types_of(ops)),
                html.Td(reason_of_all([op.reason for op in ops])),
            ]
        )
        for ops in by_reason(astray)
    ]
    return html.Details(
        [
            html.Summary(f"{pluralize(len(astray), 'op')} not where wanted, by reason"),
            plain_table(("Wanted on", "Is on", "Ops", "Types", "Why"), rows),
        ],
        id="audit-astray",
    )


def _removed(document: Document, removed: Sequence[AuditedOp]) -> Any:
    if not removed:
        return None
    return html.P(
        [
            _select(document, removed),
            " removed by the runtime or fused with others: in its record is no device for them. In the layout they are "
            "with the ops that read them.",
        ],
        className="hint wide",
    )


def _notes(unchecked: Sequence[str]) -> Any:
    if not unchecked:
        return None
    return html.Details(
        [
            html.Summary(f"Assumed, left out or not checked ({len(unchecked)})"),
            html.Ul([html.Li(text) for text in unchecked]),
        ]
    )


def _select(document: Document, ops: Sequence[AuditedOp]) -> html.Button:
    """A button that selects ops."""
    numbers = np.array(sorted(document.graph.key_index[op.key] for op in ops), np.int64)
    return html.Button(
        pluralize(len(ops), "op"),
        className="link",
        title="Select these ops",
        **{"data-ops": spans(numbers)},
    )
