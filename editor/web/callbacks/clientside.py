"""What happens in the browser alone; the functions are in ``assets``."""

from __future__ import annotations

from dash import ClientsideFunction, Dash, Input, Output, State


def register(app: Dash) -> None:
    """Adds the callbacks."""
    app.clientside_callback(ClientsideFunction("hetero", "go"), Output("gone", "data"), Input("opened", "data"))
    app.clientside_callback(ClientsideFunction("hetero", "apply"), Output("applied", "data"), Input("view", "data"))
    app.clientside_callback(ClientsideFunction("hetero", "select"), Output("linked", "data"), Input("selection", "data"))
    app.clientside_callback(ClientsideFunction("hetero", "automatic"), Output("stroke", "data", allow_duplicate=True),
                            Input("policy", "value"), Input("grouping", "value"), Input("costs", "value"),
                            Input("codegen", "value"),
                            prevent_initial_call=True)
    app.clientside_callback(ClientsideFunction("hetero", "colourBy"), Output("applied", "data", allow_duplicate=True),
                            Input("colour-by", "value"), prevent_initial_call=True)
    app.clientside_callback(ClientsideFunction("hetero", "redrawn"), Output("drawn", "data"), Input("graph", "elements"),
                            State("detail", "data"))
    app.clientside_callback(ClientsideFunction("hetero", "detailMode"), Output("detail-ask", "data"),
                            Input("detail-mode", "value"), State("detail", "data"), prevent_initial_call=True)
    app.clientside_callback(ClientsideFunction("hetero", "mapArrived"), Output("drawn", "data", allow_duplicate=True),
                            Input("map-data", "data"), prevent_initial_call=True)
    app.clientside_callback(ClientsideFunction("hetero", "panesArrived"), Output("drawn", "data", allow_duplicate=True),
                            Input("panes-data", "data"), prevent_initial_call=True)
    app.clientside_callback(ClientsideFunction("hetero", "hoverShow"), Output("drawn", "data", allow_duplicate=True),
                            Input("hover", "children"), prevent_initial_call=True)
    app.clientside_callback(ClientsideFunction("hetero", "intoView"), Output("drawn", "data", allow_duplicate=True),
                            Input("hints-result", "children"), State("hints-result", "id"), prevent_initial_call=True)
    for table in ("subgraphs", "transfers"):
        app.clientside_callback(ClientsideFunction("hetero", f"{table}Row"),
                                Output("linked", "data", allow_duplicate=True), Input(table, "cellClicked"),
                                prevent_initial_call=True)
        app.clientside_callback(ClientsideFunction("hetero", "keepTable"), Output(f"tabs-panel-{table}", "keepMounted"),
                                Input("tabs", "value"), State(f"tabs-panel-{table}", "value"), prevent_initial_call=True)
    app.clientside_callback(ClientsideFunction("hetero", "openBenchmark"), Output("tabs", "value"),
                            Input("bench-open", "n_clicks"), State("bench-start", "disabled"), prevent_initial_call=True)
    app.clientside_callback(ClientsideFunction("hetero", "inFlight"), Output("bench-requests", "disabled"),
                            Input("bench-mode", "value"))
    app.clientside_callback(ClientsideFunction("hetero", "restyle"), Output("graph", "stylesheet"), Input("scheme", "data"),
                            State("graph", "stylesheet"), State("styles", "data"))
