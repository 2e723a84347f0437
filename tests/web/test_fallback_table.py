"""A rule of a row of the fallbacks says how many ops it is for, where these are more than the row has."""

from __future__ import annotations

from pathlib import Path

from conftest import write_dag

import editor
from editor.devices.table import load_devices
from editor.placement.placement import Settings
from editor.runtimes.base import Capability
from editor.web.panels.fallback_table import fallbacks_view
from editor.workspace.document import Document
from editor.workspace.history import Store
from editor.workspace.solver import Solver, first_decisions

TABLE = [{"name": "A", "backendName": "CPU"}, {"name": "B", "backendName": "CPU"}]


def test_a_rule_says_how_many_ops_it_is_for_where_some_of_them_did_not_fall_back(
    tmp_path: Path,
) -> None:
    graph = editor.load_model(
        write_dag(tmp_path / "dag.onnx", [[], [0], [1], [2, 0]])
    )  # three Neg and a Sum
    store = Store(str(tmp_path))
    decisions = first_decisions(Settings(), [d.entry for d in load_devices(TABLE)])
    record = store.create("m", str(graph.path), graph.sha256, {}, decisions)
    able = Capability.of_reasons(["", "cannot do this one", "", "nor sums"])
    document = Document(
        store, record, Solver(graph, decisions, {"A": able, "B": Capability.everything(graph)})
    )
    text = str(fallbacks_view(document))
    assert "'Rule for all 3'" in text and "'Rule'" in text
    assert "Sends all 3 Neg to B" in text and "Sends all 1 Sum to B" in text
    document.paint(range(4), 1)
    text = str(fallbacks_view(document))
    assert "No automatic fallbacks: 4 ops are elsewhere" in text
    assert "A, the first device, cannot run 2 of them" in text, (
        "a pin does not make the device able"
    )
