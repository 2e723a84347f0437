"""What happens in the browser alone; the functions are in ``assets``."""

from __future__ import annotations

from typing import Any

from dash import ALL, ClientsideFunction, Dash, Input, Output, State


def register(app: Dash) -> None:
    """Adds the callbacks. Most have no output: the scripts change the page by themselves. Dash calls those on changes only."""

    def add(function: str, *arguments: Any, initial: bool = False) -> None:
        app.clientside_callback(
            ClientsideFunction("hetero", function), *arguments, prevent_initial_call=not initial
        )

    add("pageAt", Output("page", "children"), Input("url", "pathname"), initial=True)
    add("go", Input("opened", "data"))
    add("go", Input("resized", "data"))
    add("select", Input("selection", "data"))
    add(
        "setAutomatic",
        Input("policy", "value"),
        Input("grouping", "value"),
        Input("costs", "value"),
        Input("codegen", "value"),
    )
    add("colourBy", Input("colour-by", "value"))
    add("redrawn", Input("graph", "elements"), State("detail", "data"))
    add("detailMode", Input("detail-mode", "value"), State("detail", "data"))
    add("noticeArrived", Input("notice", "children"))
    add("devicesArrived", Input("devices", "children"))
    here = {"type": "device-here", "name": ALL}
    add(
        "chooseDevices",
        Output("devices-spec", "value"),
        Input("devices-choice", "value"),
        Input(here, "checked"),
        State(here, "id"),
    )
    add(
        "typedDevices",
        Output("devices-chosen", "className"),
        Input("devices-spec", "value"),
        State("devices-choice", "value"),
        State(here, "checked"),
        State(here, "id"),
        initial=True,
    )
    add("ribbonBy", Input("ribbon-by", "value"))
    add("sizesRefused", Input("sizes-refused", "children"))
    add("comparisonArrived", Input("compare-result", "children"))
    for result in (
        *("hints-result", "advice-result"),
        *("sizes-result", "audit-result", "versions-result"),
    ):
        add("intoView", Input(result, "children"), State(result, "id"))
    for table in ("subgraphs", "transfers"):
        add(f"{table}Row", Input(table, "cellClicked"))
    for what in ("rules", "import"):
        add(f"{what}File", Input(f"{what}-file", "contents"), State(f"{what}-file", "filename"))
    fields = {"type": "device-field", "index": ALL, "field": ALL}
    add(
        "deviceFieldChanged",
        Input(fields, "value"),
        State(fields, "id"),
        State("device-forms-table", "data"),
    )
    add("deviceAdded", Input("device-add", "value"))
    add(
        "startRun",
        Input("bench-start", "n_clicks"),
        Input("bench-profile", "n_clicks"),
        Input("bench-tune", "n_clicks"),
        Input("bench-accuracy", "n_clicks"),
        State("bench-seconds", "value"),
        State("bench-mode", "value"),
        State("bench-requests", "value"),
        State("bench-memory", "checked"),
        State("bench-prompt", "value"),
        State("bench-new", "value"),
    )
    add("cancelRun", Input("bench-cancel", "n_clicks"))
    add("calibrate", Input("bench-calibrate", "n_clicks"))
    add(
        "openBenchmark",
        Output("tabs", "value"),
        Input("bench-open", "n_clicks"),
        State("bench-start", "disabled"),
    )
    add(
        "openCompare",
        Output("compare-start", "n_clicks"),
        Input("tabs", "value"),
        State("compare-start", "n_clicks"),
    )
    add(
        "withMode",
        Output("bench-requests", "disabled"),
        Output("bench-memory", "disabled"),
        Output("bench-prompt", "disabled"),
        Output("bench-new", "disabled"),
        Input("bench-mode", "value"),
    )
    add(
        "restyle",
        Output("graph", "stylesheet"),
        Input("scheme", "data"),
        State("styles", "data"),
    )
