"""The Devices tab: a form for every device of the table, and devices to add."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from dash import html

from editor.devices.device import Device
from editor.devices.discovery import available_devices
from editor.devices.keys import FormField, form_fields
from editor.devices.published import ASSUMABLE, Published, preset, preset_names
from editor.devices.vocabulary import onnx_op_types
from editor.graph.graph import Graph
from editor.placement.costs import peaks_of
from editor.text import human_bytes, human_seconds
from editor.web import controls
from editor.web.device_fields import listed_ops, shown
from editor.web.panels.parts import planned_badge, runtime_beside, swatch, with_link
from editor.web.panels.words import FIELDS
from editor.web.view import colours_of
from editor.workspace.document import Document


def device_form_panel(document: Document) -> html.Div:
    """What stands in the tab."""
    return html.Div(
        [
            html.Div(
                [
                    controls.Select(
                        id="device-add",
                        data=choices(),
                        width=320,
                        value=None,
                        placeholder="Add a device …",
                        **{"aria-label": "Add a device"},
                    ),
                    html.P(
                        "Every change is solved at once, and is a step of the history: Ctrl+Z takes it back. Export saves the "
                        "table as YAML.",
                        className="hint wide",
                    ),
                ],
                className="bench-controls",
            ),
            html.Div(id="device-problem", role="alert"),
            html.Div(
                [
                    html.Span(id="device-refused"),
                    controls.Button("Revert", id="device-restore"),
                ],
                className="refused",
            ),
            html.Div(device_forms(document), id="device-forms"),
            controls.Store(id="device-forms-table", data=[shown(d) for d in document.devices]),
        ],
        className="bench",
    )


def refused_values(values: Sequence[tuple[str, str, Any]]) -> str:
    """Says which fields show something that was refused and is not in use; "" where none does.

    Args:
        values: device, field and what stands in it.
    """
    forms = form_fields()
    parts = [
        f"{forms[key].label if key in forms else key} of {name}"
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
            "items": [item for name in preset_names() for item in _of_preset(name)],
        },
    ]


def read_offers() -> None:
    """Reads presets and names of ops that forms offer, which are remembered; the first page need not wait for them then."""
    onnx_op_types()
    for name in preset_names():
        preset(name)


def _of_preset(name: str) -> list[dict[str, str]]:
    """A preset as it is, and planned in a type that it takes where it takes no float32."""
    items = [{"value": f"NPU({name})", "label": f"NPU: {name}"}]
    taken = preset(name).get("dtypes", ["float32"])
    others = [one for one in taken if one in ASSUMABLE]
    if "float32" not in taken and others and not preset(name).get("assumes"):
        planned = f"{name} as {others[0]}"
        items.append({"value": f"NPU({planned})", "label": f"NPU: {name}, model as {others[0]}"})
    return items


def device_forms(document: Document) -> list[html.Fieldset]:
    """One form per device, in order of priority."""
    colours, last = colours_of(document), len(document.devices) - 1
    ops = _op_choices(document)
    return [
        _form(i, device, colours[device.name], i == last, ops, document.graph)
        for i, device in enumerate(document.devices)
    ]


def _form(
    number: int,
    device: Device,
    colour: str,
    last: bool,
    ops: list[dict[str, Any]],
    graph: Graph,
) -> html.Fieldset:
    entry, lacking = device.entry, graph.weights_problem

    def field(name: str) -> dict[str, Any]:
        return {"type": "device-field", "index": number, "field": name}

    assumed, by_preset = _assumed(device), _by_preset(device)
    values: dict[str, Any] = dict(shown(device))

    def control(key: str, form: FormField) -> Any:
        own: dict[str, Any] = {"id": field(key), "label": form.label, "value": values[key]}
        if form.kind == "ops":
            listed = listed_ops(entry, key)
            own |= {"value": listed, "data": _with_those(ops, listed), "search": True}
            return controls.MultiSelect(**own, placeholder=form.example)
        hint = form.example
        if form.kind == "text":
            own |= {
                "value": values[key] or "",
                "debounce": True,
                "width": 210 if form.wide else 138,
            }
            hint = assumed.get(key, f"e.g. {hint}" if hint else "")
        else:
            names = [*form.choices()]
            if values[key] and values[key] not in names:
                names.insert(0, values[key])
            own |= {"data": [{"value": name, "label": name} for name in names], "width": 160}
            hint = f"{by_preset[key]}, by the preset" if key in by_preset else hint
            own |= {"title": FIELDS[form.label]} if form.label in FIELDS else {}
        own |= {"placeholder": hint} if hint else {}
        return (controls.Field if form.kind == "text" else controls.Select)(**own)

    fields = {
        key: form
        for key, form in form_fields().items()
        if not form.on_machines or device.machine or entry.get(key)
    }
    return html.Fieldset(
        [
            html.Legend(
                [
                    swatch(colour),
                    html.B(device.name, id={"type": "device-heading", "index": number}),
                    runtime_beside(device),
                    planned_badge() if device.planned else None,
                    _move("raise", device.name, number == 0),
                    _move("lower", device.name, last),
                    html.Button(
                        "Measurement kit",
                        className="tool small",
                        id={"type": "export", "what": f"kit:{number}"},
                        disabled=bool(lacking),
                        title=lacking
                        or f"Downloads a folder that measures the ops of {device.name} on its own machine",
                    ),
                    html.Button(
                        "Remove",
                        className="tool small",
                        title=f"Remove {device.name}; pins to it go with it",
                        **{"data-remove-device": device.name},
                    ),
                ]
            ),
            _origin(device.published, graph),
            html.Div(
                [control(key, form) for key, form in fields.items() if form.kind != "ops"],
                className="device-fields",
            ),
            *(control(key, form) for key, form in fields.items() if form.kind == "ops"),
        ],
        className="device-form",
    )


def _origin(published: Published, graph: Graph) -> html.P | None:
    """Where the limits of a device are from; None where its table names no document."""
    if not (published.source or published.unofficial):
        return None
    words = f"Its limits are by an unofficial list of {published.unofficial}."
    if published.source:
        words = f"Its limits: {published.origin}."
    if unchecked := published.unchecked_in(graph):
        words += f" N{unchecked[1:]}."
    look = "hint wide warn" if published.unofficial else "hint wide"
    return html.P(with_link(words, published.source), className=look)


def _with_those(ops: list[dict[str, Any]], listed: list[str]) -> list[dict[str, Any]]:
    """Ops to choose from, with those of the table that are not among them."""
    known = {i["value"] for group in ops for i in group["items"]}
    more = [{"value": name, "label": name} for name in listed if name not in known]
    return [*ops, {"group": "In the table", "items": more}] if more else ops


def _assumed(device: Device) -> dict[str, str]:
    """What estimates reckon with where the table has no figure."""
    known = None if device.entry.get("link") else device.link  # of a device that was found here
    peaks = peaks_of(replace(device, peak_compute=None, peak_dram_bw=None, link=known, start=None))
    figures = {
        "peakCompute": f"{peaks.compute / 1e12:g} TFLOPS",
        "peakDramBw": f"{peaks.memory / 1e9:g} GB/s",
        "start": human_seconds(peaks.launch),
    }
    if np.isfinite(peaks.bandwidth):  # the host has no link
        figures |= {
            "bandwidth": f"{peaks.bandwidth / 1e9:g} GB/s",
            "latency": human_seconds(peaks.latency),
        }
    hints = {
        "memory": "no limit",
        "onChipMemory": "has DRAM",
        **{key: f"assumed {text}" for key, text in figures.items()},
    }
    hints |= {key: f"{text} (preset)" for key, text in _by_preset(device).items()}
    if device.assumes_on_chip_memory:
        hints["onChipMemory"] = f"assumed {human_bytes(device.on_chip_memory or 0)}"
    return hints


def _by_preset(device: Device) -> dict[str, str]:
    """What holds where a field is empty, by the preset; an entry can empty a key of its preset."""
    if not device.published.preset:
        return {}
    keys = preset(device.published.preset)
    holds = {
        "assumes": device.published.assumes,
        "memory": device.memory,
        "peakCompute": device.peak_compute,
        "peakDramBw": device.peak_dram_bw,
        "onChipMemory": device.on_chip_memory,
        "power": device.power,
    }
    link = {} if device.entry.get("link") else keys.get("link") or {}
    return {key: str(keys[key]) for key, value in holds.items() if value and keys.get(key)} | {
        key: str(value) for key, value in link.items() if device.link
    }


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
