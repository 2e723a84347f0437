"""Documents of one record that are open in several places."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conftest import write_dag

import editor
from editor.workspace.document import Document
from editor.workspace.history import Store
from editor.workspace.solver import Solver, first_decisions


def documents_of_one_record(url: str, folder: Path, table: Any, ops: int) -> list[Document]:
    """A chain of ops, opened twice: by two servers, say."""
    path = write_dag(folder / "net.onnx", [[i - 1] if i else [] for i in range(ops)])
    graph = editor.load_model(path)
    plan = editor.partition(graph, table)
    record = Store(url).create(
        "net", str(path), graph.sha256, {}, first_decisions(plan.placement.settings, table)
    )
    abilities = {
        d.name: c
        for d, c in zip(plan.devices, plan.placement.constraints.capabilities, strict=True)
    }
    decisions = Store(url).decisions(record.id, record.cursor)
    return [Document(Store(url), record, Solver(graph, decisions, abilities)) for _ in range(2)]


def paint_at_once(documents: Sequence[Document], ops: int) -> None:
    """Each document paints its share of the ops, all of them at the same time; then each sees what the others did."""

    def work(document: Document, painted: range) -> None:
        for op in painted:
            document.paint([op], 1)

    share = ops // len(documents)
    threads = [
        threading.Thread(target=work, args=(d, range(i * share, (i + 1) * share)))
        for i, d in enumerate(documents)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for document in documents:
        document.refresh()
