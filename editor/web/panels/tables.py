"""Tables of subgraphs and transfers, linked with the graph."""

from __future__ import annotations

from typing import Any

import dash_ag_grid as dag

from editor.workspace.document import Document

_BYTES = {"function": "heteroBytes(params.value)"}
GRID = {"rowHeight": 28, "headerHeight": 30, "theme": {"function": "heteroTheme(themeQuartz)"}, "animateRows": False,
         "rowSelection": {"mode": "singleRow", "checkboxes": False, "enableClickSelection": True},
         "suppressCellFocus": False, "tabToNextCell": {"function": "heteroLeaveGrid(params)"},
         "suppressColumnVirtualisation": True, "tooltipShowDelay": 400}


def number_column(field: str, header: str, width: int, **more: Any) -> dict[str, Any]:
    """A column of numbers."""
    return {"field": field, "headerName": header, "width": width, "type": "rightAligned", **more}


def bytes_column(field: str, header: str, width: int = 110) -> dict[str, Any]:
    """A column of sizes."""
    return number_column(field, header, width, valueFormatter=_BYTES)


def device_column(field: str, header: str, width: int = 150) -> dict[str, Any]:
    """A column of device names with their colours."""
    return {"field": field, "headerName": header, "width": width, "cellRenderer": "DeviceCell"}


def subgraph_table(document: Document) -> dag.AgGrid:
    """One row per subgraph."""
    columns = [
        number_column("id", "Subgraph", 96), device_column("device", "Device"), number_column("ops", "Ops", 76),
        {"field": "types", "headerName": "Main ops", "flex": 1, "minWidth": 150, "tooltipField": "types"},
        number_column("inputs", "Inputs", 84), bytes_column("input_bytes", "Input size"),
        number_column("outputs", "Outputs", 90),
        bytes_column("output_bytes", "Output size"), bytes_column("constants", "Constants"),
        bytes_column("total", "Total memory", 124),
        number_column("unknown", "Unknown sizes", 124,
                      headerTooltip="Boundary tensors whose size is only known in a run; they count 0"),
        {"field": "after", "headerName": "Depends on", "width": 120, "tooltipField": "after"}]
    return dag.AgGrid(id="subgraphs", rowData=subgraph_rows(document), columnDefs=columns, getRowId="params.data.id",
                      defaultColDef={"sortable": True, "resizable": True}, dashGridOptions=GRID, className="grid",
                      style={"height": "100%", "width": "100%"})


def subgraph_rows(document: Document) -> list[dict[str, Any]]:
    """Rows of the subgraph table."""
    graph, placement = document.graph, document.placement
    rows = []
    for s in placement.subgraphs:
        types: dict[str, int] = {}
        for key in s.ops:
            op = graph.key_index[key]
            if placement.division.subgraph_of_op[op] >= 0:
                types[graph.op_types[op]] = types.get(graph.op_types[op], 0) + 1
        top = sorted(types.items(), key=lambda item: (-item[1], item[0]))
        rows.append({"id": str(s.id), "device": s.device, "ops": s.size,
                     "types": ", ".join(f"{n} {t}" for t, n in top[:5]), "inputs": len(s.inputs),
                     "input_bytes": s.memory.input, "outputs": len(s.outputs), "output_bytes": s.memory.output,
                     "constants": s.memory.constants, "total": s.memory.total, "unknown": s.memory.unknown or None,
                     "after": ", ".join(map(str, s.depends_on)) or "—"})
    return rows


def transfer_table(document: Document) -> dag.AgGrid:
    """One row per boundary tensor."""
    columns = [
        {"field": "tensor", "headerName": "Tensor", "flex": 1, "minWidth": 200, "tooltipField": "tensor"},
        {"field": "kind", "headerName": "Kind", "width": 116}, device_column("from", "From"), device_column("to", "To"),
        {"field": "path", "headerName": "Subgraphs", "width": 140, "tooltipField": "path"},
        {"field": "shape", "headerName": "Shape", "width": 150}, {"field": "type", "headerName": "Type", "width": 96},
        bytes_column("bytes", "Size")]
    return dag.AgGrid(id="transfers", rowData=transfer_rows(document), columnDefs=columns, getRowId="params.data.tensor",
                      defaultColDef={"sortable": True, "resizable": True}, dashGridOptions=GRID, className="grid",
                      style={"height": "100%", "width": "100%"})


def transfer_rows(document: Document) -> list[dict[str, Any]]:
    """Rows of the transfer table: what crosses subgraphs, transfers first."""
    graph, placement = document.graph, document.placement
    device_of = {s.id: s.device for s in placement.subgraphs}
    rows = []
    for b in sorted(placement.boundaries, key=lambda b: (not b.to_devices, b.source)):
        number = graph.tensor_index[b.tensor]
        rows.append({"tensor": b.tensor, "kind": "transfer" if b.to_devices else "same device",
                     "from": device_of[b.source], "to": ", ".join(b.to_devices) or device_of[b.source],
                     "path": f"{b.source} → {', '.join(map(str, b.targets))}", "shape": b.shape, "type": b.type or "?",
                     "bytes": b.bytes, "source_op": int(graph.tensor_producer[number]),
                     "target_ops": [r for r in graph.readers[number].tolist() if placement.division.subgraph_of_op[r] >= 0]})
    return rows


