"""What is remembered of a graph lives as long as the graph."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

from conftest import EXAMPLES

from editor.graph.scopes.tree import scopes_of
from editor.placement.search import search
from editor.sandbox.jobs import JobService
from editor.web.app_state import AppState
from editor.web.drawing.collapsed import first_detail, shown_elements
from editor.web.drawing.panes import map_data
from editor.web.open_request import OpenRequest
from editor.workspace.history import Store


def test_the_graph_of_a_closed_document_is_freed(tmp_path: Path) -> None:
    """Six caches of the drawing and the search kept the graphs of the last models for ever."""
    state = AppState(Store(str(tmp_path)), JobService(), None, EXAMPLES)
    try:
        document = state.open(
            OpenRequest(str(EXAMPLES / "models" / "mobilenetv2.onnx"), [{"name": "CPU"}])
        )
    finally:
        state.close()
    graph = document.graph
    assert scopes_of(graph) is scopes_of(graph) and map_data(graph) is map_data(graph)
    assert shown_elements(document, {"mode": "ops", "open": []})
    assert shown_elements(document, first_detail(graph))
    search(document.placement, "conv")
    known = weakref.ref(graph)
    del state, document, graph
    gc.collect()
    assert known() is None
