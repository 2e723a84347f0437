"""What happens in the browser alone; the functions are in ``assets``."""

from __future__ import annotations

from typing import Any

from dash import ALL, ClientsideFunction, Dash, Input, Output, State


def register(app: Dash) -> None:
    """Adds the callbacks."""

    def add(function: str, *arguments: Any, initial: bool = False) -> None:
        app.clientside_callback(
            ClientsideFunction("hetero", function), *arguments, prevent_initial_call=not initial
        )

    # Most functions change the page by themselves; Dash wants an output from each.
    done = Output("drawn", "data", allow_duplicate=True)
    linked = Output("linked", "data", allow_duplicate=True)

    add("pageAt", Output("page", "children"), Input("url", "pathname"), initial=True)
    add("go", Output("gone", "data"), Input("opened", "data"), initial=True)
    add("go", Output("resized-gone", "data"), Input("resized", "data"))
    add("apply", Output("applied", "data"), Input("view", "data"), initial=True)
    add("select", Output("linked", "data"), Input("selection", "data"), initial=True)
    add("strokeFromServer", done, Input("next-stroke", "data"))
    add("strokesConfirmed", done, Input("confirmed", "data"), State("view", "data"))
    add(
        "setAutomatic",
        done,
        Input("policy", "value"),
        Input("grouping", "value"),
        Input("costs", "value"),
        Input("codegen", "value"),
    )
    add("colourBy", Output("applied", "data", allow_duplicate=True), Input("colour-by", "value"))
    add(
        "redrawn",
        Output("drawn", "data"),
        Input("graph", "elements"),
        State("detail", "data"),
        initial=True,
    )
    add(
        "detailMode",
        Output("detail-request", "data"),
        Input("detail-mode", "value"),
        State("detail", "data"),
    )
    add("ribbonArrived", Output("ribbon-drawn", "data"), Input("ribbon", "data"), initial=True)
    add("searchArrived", done, Input("search-results", "data"))
    add("noticeArrived", done, Input("notice", "children"))
    add("chooseDevices", Output("devices-spec", "value"), Input("devices-choice", "value"))
    add("ribbonBy", done, Input("ribbon-by", "value"))
    add("mapArrived", done, Input("map-data", "data"))
    add("panesArrived", done, Input("panes-data", "data"))
    add("comparisonArrived", done, Input("compare-result", "children"))
    add("hoverShow", done, Input("hover", "children"))
    for result in ("hints-result", "sizes-result"):
        add("intoView", done, Input(result, "children"), State(result, "id"))
    for table in ("subgraphs", "transfers"):
        add(f"{table}Row", linked, Input(table, "cellClicked"))
    fields = {"type": "device-field", "index": ALL, "field": ALL}
    add(
        "deviceFieldChanged",
        done,
        Input(fields, "changes"),
        State(fields, "value"),
        State(fields, "id"),
    )
    add("deviceAdded", done, Input("device-add", "value"))
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
        "inFlight", Output("bench-requests", "disabled"), Input("bench-mode", "value"), initial=True
    )
    add(
        "restyle",
        Output("graph", "stylesheet"),
        Input("scheme", "data"),
        State("graph", "stylesheet"),
        State("styles", "data"),
        initial=True,
    )
