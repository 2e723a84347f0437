"""Tables of subgraphs and transfers, linked with the graph."""

from __future__ import annotations

from typing import Any

import dash_ag_grid as dag
import numpy as np
from dash import html

from editor.graph.flops import Floats
from editor.kinds import Kind
from editor.placement.chosen_costs import assumed_speeds
from editor.placement.costs import Costs, seconds_of_ops
from editor.placement.fallbacks import seconds_of
from editor.placement.placement import Placement
from editor.placement.subgraphs.division import Boundary
from editor.text import human_bytes, joined
from editor.web.view import measured_medians, plan_costs
from editor.workspace.document import Document

_HEADER, _HEADER_PADDING = 6, 28
"""Pixels of a letter of a column's title, and of the space around the title."""
_LEAST_NUMBER = 82
"""Pixels of the longest number with its unit."""
_ROUGH_TIME = 96
"""Pixels of "about 600 µs"."""
_SECONDS = {"function": "heteroSeconds(params.value, params.data.rough)"}
_TIMES = "Of a benchmark of this plan, else by the costs that the figures of the status bar are made from"
_START = "To launch it, and what it takes longer after other subgraphs ran; times, starts and transfers add up to the run"
_TOTAL = "Inputs, outputs and constants as the device holds them"
_BYTES = {"function": "heteroBytes(params.value)"}
GRID = {
    "rowHeight": 25,
    "headerHeight": 28,
    "theme": {"function": "heteroTheme(themeQuartz)"},
    "animateRows": False,
    "rowSelection": {"mode": "singleRow", "checkboxes": False, "enableClickSelection": True},
    "suppressCellFocus": False,
    "tabToNextCell": {"function": "heteroLeaveGrid(params)"},
    "suppressColumnVirtualisation": True,
    "tooltipShowDelay": 400,
    "localeText": {"noRowsToShow": "This plan has none."},
}


def data_table(
    identity: str,
    rows: list[dict[str, Any]],
    columns: list[dict[str, Any]],
    height: str = "100%",
    **more: Any,
) -> html.Div:
    """A table that fits its columns into its width, with a list of them; `assets/tables.js` remembers what is changed."""

    def call(function: str) -> list[str]:
        return [f"{function}(params, '{identity}')"]

    columns = [
        {"minWidth": _HEADER * len(column["headerName"]) + _HEADER_PADDING, **column}
        for column in columns
    ]
    grid = dag.AgGrid(
        id=identity,
        rowData=rows,
        columnDefs=columns,
        dashGridOptions=GRID,
        className="grid",
        defaultColDef={"sortable": True, "resizable": True, "suppressHeaderMenuButton": True},
        style={"height": "100%", "minWidth": 0, "flex": 1},
        eventListeners={
            "gridSizeChanged": call("heteroTableResized"),
            **{
                event: call("heteroTableChanged")
                for event in ("columnResized", "columnVisible", "columnMoved")
            },
        },
        **more,
    )
    label = {"aria-label": "Columns of the table"}
    chooser = html.Details(
        [
            html.Summary("⋮", title="Columns of the table", **label),
            html.Div(className="columns-list", role="group", **label),
        ],
        className="columns",
        **{"data-columns": identity},
    )
    return html.Div([grid, chooser], className="table-box", style={"height": height})


def number_column(field: str, header: str, width: int, **more: Any) -> dict[str, Any]:
    """A column of numbers."""
    least = {
        "minWidth": max(_LEAST_NUMBER, _HEADER * len(header) + _HEADER_PADDING)
    }  # narrower ones would cut their units
    return {
        "field": field,
        "headerName": header,
        "width": width,
        "type": "rightAligned",
        **least,
        **more,
    }


def bytes_column(field: str, header: str, width: int = 110, **more: Any) -> dict[str, Any]:
    """A column of sizes."""
    return number_column(field, header, width, valueFormatter=_BYTES, **more)


def seconds_column(field: str, header: str, width: int = 92, **more: Any) -> dict[str, Any]:
    """A column of times."""
    return number_column(field, header, width, valueFormatter=_SECONDS, **more)


def device_column(field: str, header: str) -> dict[str, Any]:
    """A column of device names with their colours."""
    return {
        "field": field,
        "headerName": header,
        "width": 150,
        "minWidth": 110,
        "cellRenderer": "DeviceCell",
    }


def subgraph_table(document: Document) -> html.Div:
    """One row per subgraph."""
    columns = [
        number_column("id", "Subgraph", 96, minWidth=76),
        device_column("device", "Device"),
        number_column("ops", "Ops", 76, minWidth=56),
        seconds_column("seconds", "Time", _ROUGH_TIME, minWidth=_ROUGH_TIME, headerTooltip=_TIMES),
        seconds_column("start", "Start", _ROUGH_TIME, minWidth=_ROUGH_TIME, headerTooltip=_START),
        {"field": "kind", "headerName": "Time is", "width": 118, "minWidth": 118},
        {
            "field": "types",
            "headerName": "Main ops",
            "width": 190,
            "minWidth": 108,
            "tooltipField": "types",
            "wrapText": True,
            "autoHeight": True,
            "cellClass": "two-lines",
        },
        number_column("inputs", "Inputs", 84, minWidth=64),
        bytes_column("input_bytes", "Input size", tooltipField="inputs_held"),
        number_column("outputs", "Outputs", 84, minWidth=72),
        bytes_column("output_bytes", "Output size", tooltipField="outputs_held"),
        bytes_column("constants", "Constants"),
        bytes_column("total", "With boundary", 124, headerTooltip=_TOTAL),
        number_column(
            "unknown",
            "Unknown sizes",
            124,
            hide=bool((document.graph.tensor_bytes >= 0).all()),
            headerTooltip="Boundary tensors whose size is only known in a run; they count 0",
        ),
        {"field": "after", "headerName": "Depends on", "width": 120, "tooltipField": "after"},
    ]
    return data_table("subgraphs", subgraph_rows(document), columns, getRowId="params.data.id")


def subgraph_rows(document: Document) -> list[dict[str, Any]]:
    """Rows of the subgraph table."""
    graph, placement, (costs, basis) = document.graph, document.placement, plan_costs(document)
    seconds = seconds_of_ops(
        costs,
        placement.assignment.device,
        placement.division.subgraph_of_op,
        placement.placed_ops,
    )
    starts: list[float | None] = [*placement.starts(costs).tolist()]
    # the time of a whole model has its start in it, and may be less than the sum of its ops
    if not any(starts):
        starts, seconds = [None] * len(starts), _as_priced(seconds, placement.price(costs).compute)
    kind, rough, rows = basis.kind, assumed_speeds(placement, costs), list[dict[str, Any]]()
    if medians := measured_medians(document)[0]:
        kind, seconds, rough = Kind.MEASUREMENT, np.array(medians), []
        starts = [None] * len(medians)
    for s in placement.subgraphs:
        types: dict[str, int] = {}
        for key in s.ops:
            op = graph.key_index[key]
            if placement.division.subgraph_of_op[op] >= 0:
                types[graph.op_types[op]] = types.get(graph.op_types[op], 0) + 1
        top = sorted(types.items(), key=lambda item: (-item[1], item[0]))
        number = placement.device_number(s.device)
        came, left = (
            sum(max(placement.size_of(graph.tensor_index[name], number)[0], 0) for name in names)
            for names in (s.inputs, s.outputs)
        )
        rows.append(
            {
                "id": str(s.id),
                "device": s.device,
                "ops": s.size,
                "types": ", ".join(f"{n}\u00a0{t}" for t, n in top[:5]),
                "inputs": len(s.inputs),
                "input_bytes": came,
                "inputs_held": _held(came, s.memory.input, s.device),
                "outputs": len(s.outputs),
                "output_bytes": left,
                "outputs_held": _held(left, s.memory.output, s.device),
                "constants": s.memory.constants,
                "total": s.memory.total,
                "unknown": s.memory.unknown or None,
                "seconds": float(seconds[s.id]),
                "start": starts[s.id],
                "rough": s.device in rough,
                "kind": str(kind),
                "after": ", ".join(map(str, s.depends_on)) or "—",
            }
        )
    return rows


def _as_priced(seconds: Floats, compute: float) -> Floats:
    """[subgraph] seconds that add up to those that all ops count."""
    whole = seconds.sum()
    return seconds * (compute / whole) if whole else seconds


def _held(travels: int, held: int, device: str) -> str:
    """What the tooltip of a size adds where a subgraph holds its tensors in a wider type than they travel in."""
    return f"{human_bytes(held)} as {device} holds them" if held != travels else ""


def transfer_table(document: Document) -> html.Div:
    """One row per boundary tensor."""
    columns = [
        {
            "field": "tensor",
            "headerName": "Tensor",
            "width": 320,
            "minWidth": 160,
            "tooltipField": "tensor",
        },
        {"field": "kind", "headerName": "Kind", "width": 116},
        device_column("from", "From"),
        device_column("to", "To"),
        {"field": "path", "headerName": "Subgraphs", "width": 140, "tooltipField": "path"},
        {"field": "shape", "headerName": "Shape", "width": 150},
        {"field": "type", "headerName": "Type", "width": 140, "tooltipField": "type"},
        bytes_column("bytes", "Size"),
        seconds_column("seconds", "Time", _ROUGH_TIME, minWidth=_ROUGH_TIME, headerTooltip=_TIMES),
        {
            "field": "time_from",
            "headerName": "Time from",
            "width": 190,
            "tooltipField": "time_from",
        },
    ]
    return data_table("transfers", transfer_rows(document), columns, getRowId="params.data.tensor")


def transfer_rows(document: Document) -> list[dict[str, Any]]:
    """Rows of the transfer table: what crosses subgraphs, transfers first."""
    graph, placement, costs = document.graph, document.placement, plan_costs(document)[0]
    device_of = {s.id: s.device for s in placement.subgraphs}
    rough = set(assumed_speeds(placement, costs))
    rows = []
    for b in sorted(placement.boundaries, key=lambda b: (not b.to_devices, b.source)):
        number = graph.tensor_index[b.tensor]
        rows.append(
            {
                "tensor": b.tensor,
                "kind": "transfer" if b.to_devices else "same device",
                "from": device_of[b.source],
                "to": ", ".join(b.to_devices) or device_of[b.source],
                "path": f"{b.source} → {', '.join(map(str, b.targets))}",
                "shape": b.shape,
                "type": b.type_text,
                "bytes": b.bytes,
                "seconds": seconds_of(placement, costs, b) if b.to_devices else 0.0,
                "rough": not rough.isdisjoint({device_of[b.source], *b.to_devices}),
                "time_from": _time_from(placement, costs, b) if b.to_devices else "",
                "source_op": int(graph.tensor_producer[number]),
                "target_ops": [
                    r
                    for r in graph.readers[number].tolist()
                    if placement.division.subgraph_of_op[r] >= 0
                ],
            }
        )
    return rows


def _time_from(placement: Placement, costs: Costs, transfer: Boundary) -> str:
    """What the time of a transfer was worked out from."""
    source = placement.device_number(placement.subgraphs[transfer.source].device)
    targets = [placement.device_number(name) for name in transfer.to_devices]
    by_size = np.ptp(costs.leave[:, source]) + np.ptp(costs.enter[:, targets], axis=0).sum()
    if not by_size and costs.wires is None:
        return "default, any size"
    ends = dict.fromkeys((source, *targets))
    profiled = [d for d in ends if costs.profiled and costs.profiled[d]]
    if len(profiled) == len(ends):
        return "profile"
    names = joined([placement.devices[d].name for d in profiled])
    return f"size, link, profile of {names}" if names else "size and link"
