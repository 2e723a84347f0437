"""A page of Dash and dash-cytoscape alone, with as many nodes and edges as a model: what any such page takes to open.

python benchmarks/bare_page.py MODEL PORT
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import dash_cytoscape as cyto
from dash import Dash, html

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import editor


def elements(path: str) -> list[dict[str, Any]]:
    """A node for each op that is not constant, in columns of fifty, and an edge for each tensor between two of them."""
    graph = editor.load_model(path, define={"batch": 1} if "resnet50" in path else None)
    placed = [op for op in graph.order.tolist() if not graph.op_is_constant[op]]
    nodes = [
        {
            "data": {"id": str(op), "label": graph.op_types[op], "fill": "#0173b2"},
            "position": {"x": i // 50 * 160, "y": i % 50 * 48},
        }
        for i, op in enumerate(placed)
    ]
    here = set(placed)
    edges = [
        {"data": {"source": str(a), "target": str(b)}}
        for a, b in {
            (int(graph.tensor_producer[t]), op)
            for op in placed
            for t in graph.op_reads[op].tolist()
        }
        if a in here
    ]
    return [*nodes, *edges]


def main() -> None:
    """Serves the page."""
    model, port = sys.argv[1:]
    app = Dash(__name__, serve_locally=True)
    app.layout = html.Div(
        cyto.Cytoscape(
            id="graph",
            elements=elements(model),
            layout={"name": "preset"},
            style={"width": "100vw", "height": "100vh"},
            stylesheet=[
                {
                    "selector": "node",
                    "style": {
                        "label": "data(label)",
                        "background-color": "data(fill)",
                        "shape": "round-rectangle",
                    },
                }
            ],
        )
    )
    app.run(host="127.0.0.1", port=port, debug=False)


if __name__ == "__main__":
    main()
