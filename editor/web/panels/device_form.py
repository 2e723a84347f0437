"""The Devices tab: a form for every device of the table, and devices to add."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from dash import html

from editor.devices.device import Device
from editor.devices.discovery import available_devices, known_names
from editor.devices.published import ASSUMABLE, preset_names
from editor.devices.vocabulary import onnx_op_types
from editor.placement.costs import peaks_of
from editor.web import controls
from editor.web.device_fields import listed_ops, shown, text_of
from editor.web.panels.parts import planned_badge, swatch
from editor.web.panels.words import FIELDS
from editor.web.view import colours_of
from editor.workspace.document import Document

TEXTS = (
    ("memory", "Memory", "8GiB"),
    ("peakCompute", "Peak compute, flop/s", "10 TFLOPS"),
    ("peakDramBw", "DRAM, bytes/s", "400 GB/s"),
    ("bandwidth", "Link, bytes/s", "12 GB/s"),
    ("latency", "Link latency, s", "10us"),
    ("properties", "Properties", "NUM_STREAMS=1; option=value"),
    ("wireType", "Type on wires", "float16 or int8"),
)
"""Fields of text: key, label and example. The last is for devices of other machines, and where the table has it."""
LISTS = (
    (
        "nonSupportedNodes",
        "Excluded ops",
        "Ops that this device must not take; those of this model come first",
    ),
    ("supportedNodes", "Takes only", "Every op; with some listed here, those alone"),
)
"""Lists of ops: key, label and what stands in an empty one."""


def device_form_panel(document: Document) -> html.Div:
    """What stands in the tab."""
    return html.Div(
        [
            html.P(
                "Every change is solved at once, and is a step of the history: Ctrl+Z takes it back. Export saves the table as "
                "YAML.",
                className="hint wide",
            ),
            html.Div(id="device-problem", role="alert"),
            html.Div(
                [
                    html.Span(id="device-refused"),
                    controls.Button("Put back what is in use", id="device-restore"),
                ],
                className="refused",
            ),
            html.Div(device_forms(document), id="device-forms"),
            controls.Store(id="device-forms-table", data=[shown(d) for d in document.devices]),
            html.Div(
                controls.Select(
                    id="device-add",
                    data=choices(),
                    width=320,
                    value=None,
                    placeholder="Add a device …",
                    **{"aria-label": "Add a device"},
                ),
                className="bench-controls",
            ),
        ],
        className="bench",
    )


def refused_values(values: Sequence[tuple[str, str, Any]]) -> str:
    """Says which fields show something that was refused and is not in use; "" where none does.

    Args:
        values: device, field and what stands in it.
    """
    labels = {key: label for key, label, _ in (*TEXTS, *LISTS)}
    parts = [
        f"{labels.get(key, key)} of {name}"
        + (f" “{str(value)[:40]}”" if value else ", which is empty")
        for name, key, value in values
    ]
    return f"Refused, and not in use: {'; '.join(parts)}." if parts else ""


def choices() -> list[dict[str, Any]]:
    """Devices by group: what is here, planned ones, and planned ones with published limits; as `HETERO:` takes them."""
    here = [d.name for d in available_devices()]

    def items(names: list[str]) -> list[dict[str, str]]:
        return [{"value": name, "label": name} for name in names]

    return [
        {"group": "On this machine", "items": items(here)},
        {
            "group": "Planned, takes every op",
            "items": items([n for n in ("GPU", "NPU", "OpenCL") if n not in here]),
        },
        {
            "group": "Planned, with the published limits of a real one",
            "items": [
                {"value": f"NPU({name})", "label": f"NPU: {name}"} for name in preset_names()
            ],
        },
    ]


def device_forms(document: Document) -> list[html.Fieldset]:
    """One form per device, in order of priority."""
    colours, last = colours_of(document), len(document.devices) - 1
    ops = _op_choices(document)
    return [
        _form(i, device, colours[device.name], i == last, ops)
        for i, device in enumerate(document.devices)
    ]


def _form(
    number: int, device: Device, colour: str, last: bool, ops: list[dict[str, Any]]
) -> html.Fieldset:
    entry = device.entry

    def field(name: str) -> dict[str, Any]:
        return {"type": "device-field", "index": number, "field": name}

    assumed = _assumed(device)
    texts = [
        controls.Field(
            id=field(key),
            label=label,
            placeholder=assumed.get(key, f"e.g. {example}"),
            value=text_of(entry, key),
            debounce=True,
            width=210 if key == "properties" else 132,
        )
        for key, label, example in TEXTS
        if key != "wireType" or device.machine or entry.get(key)
    ]
    runs = [{"value": name, "label": name} for name in known_names()]
    if device.backend not in {r["value"] for r in runs}:
        runs.insert(0, {"value": device.backend, "label": device.backend})
    return html.Fieldset(
        [
            html.Legend(
                [
                    swatch(colour),
                    html.B(device.name, id={"type": "device-heading", "index": number}),
                    planned_badge() if device.planned else None,
                    _move("raise", device.name, number == 0),
                    _move("lower", device.name, last),
                    html.Button(
                        "Kit",
                        className="tool small",
                        id={"type": "export", "what": f"kit:{number}"},
                        title=f"Downloads a folder that measures the ops of {device.name} on its own machine",
                    ),
                    html.Button(
                        "Remove",
                        className="tool small",
                        title=f"Remove {device.name}; pins to it go with it",
                        **{"data-remove-device": device.name},
                    ),
                ]
            ),
            html.Div(
                [
                    controls.Field(
                        id=field("name"), label="Name", value=device.name, debounce=True, width=132
                    ),
                    controls.Select(
                        id=field("backendName"),
                        label="Runs on",
                        value=device.backend,
                        data=runs,
                        width=170,
                    ),
                    controls.Select(
                        id=field("preset"),
                        label="Preset",
                        value=entry.get("preset"),
                        data=preset_names(),
                        placeholder="none",
                        width=170,
                        title=FIELDS["Preset"],
                    ),
                    controls.Select(
                        id=field("assumes"),
                        label="Assumes",
                        value=entry.get("assumes"),
                        data=list(ASSUMABLE),
                        placeholder="the model as it is",
                        width=132,
                        title=FIELDS["Assumes"],
                    ),
                    *texts,
                ],
                className="device-fields",
            ),
            *(
                controls.Several(
                    id=field(key),
                    label=label,
                    value=listed_ops(entry, key),
                    search=True,
                    placeholder=hint,
                    data=_with_those(ops, listed_ops(entry, key)),
                )
                for key, label, hint in LISTS
            ),
        ],
        className="device-form",
    )


def _with_those(ops: list[dict[str, Any]], listed: list[str]) -> list[dict[str, Any]]:
    """Ops to choose from, with those of the table that are not among them."""
    known = {i["value"] for group in ops for i in group["items"]}
    more = [{"value": name, "label": name} for name in listed if name not in known]
    return [*ops, {"group": "In the table", "items": more}] if more else ops


def _assumed(device: Device) -> dict[str, str]:
    """What estimates reckon with where the table has no figure."""
    known = None if device.entry.get("link") else device.link  # of a device that was found here
    peaks = peaks_of(replace(device, peak_compute=None, peak_dram_bw=None, link=known))
    figures = {"peakCompute": peaks.compute, "peakDramBw": peaks.memory}
    if np.isfinite(peaks.bandwidth):  # the host has no link
        figures |= {"bandwidth": peaks.bandwidth, "latency": peaks.latency}
    return {"memory": "no limit", **{key: f"assumed {value:g}" for key, value in figures.items()}}


def _move(what: str, name: str, disabled: bool) -> html.Button:
    words = f"{what.capitalize()} the priority of {name}"
    return html.Button(
        "↑" if what == "raise" else "↓",
        className="mini",
        disabled=disabled,
        title=words,
        **{f"data-{what}-device": name, "aria-label": words},
    )


def _op_choices(document: Document) -> list[dict[str, Any]]:
    graph = document.graph
    counts = Counter(graph.op_types[op] for op in document.placement.placed_ops.tolist())
    mine = [{"value": name, "label": f"{name} ({count})"} for name, count in counts.most_common()]
    others = [{"value": name, "label": name} for name in onnx_op_types() if name not in counts]
    return [{"group": "In this model", "items": mine}, {"group": "Other ops", "items": others}]
