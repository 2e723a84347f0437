"""The accuracy of a plan stays with the document: after a restart, by undo, and in what is exported."""

from __future__ import annotations

import asyncio
import base64
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from conftest import EXAMPLES, write_dag

from editor.sandbox.jobs import JobService
from editor.web.app_state import AppState
from editor.web.benchmark_state import JobOptions
from editor.web.callbacks.exporting import _content
from editor.web.open_request import OpenRequest
from editor.web.panels.accuracy import kept_accuracy
from editor.web.runs import follow_run
from editor.web.view import view_of
from editor.workspace.document import Document
from editor.workspace.history import Store

TABLE = [{"name": "A", "backendName": "CPU"}, {"name": "B", "backendName": "openvino"}]


@pytest.fixture
def document(state: AppState, tmp_path: Path) -> Document:
    path = write_dag(tmp_path / "net.onnx", [[i - 1] if i else [] for i in range(5)])
    return state.open(OpenRequest(str(path), TABLE))


def measure(state: AppState, document: Document) -> None:
    state.start_job(document, "accuracy", JobOptions()).job.result(120)

    async def ended() -> None:
        async for event in follow_run(state, document.id):
            if event["done"]:
                return

    asyncio.run(ended())


def texts(component: Any) -> str:
    if component is None or isinstance(component, str | int | float):
        return str(component or "")
    if isinstance(component, list | tuple):
        return " ".join(map(texts, component))
    return texts(getattr(component, "children", None))


def test_an_accuracy_is_known_after_a_restart_and_belongs_to_its_plan(
    state: AppState, document: Document, tmp_path: Path
) -> None:
    assert document.accuracy() is None and kept_accuracy(document) == []
    measure(state, document)
    found = document.accuracy()
    assert found is not None and len(found.tensors) == 5
    later = AppState(Store(str(tmp_path / "workspace")), JobService(), None, EXAMPLES)
    try:
        again = later.document(document.id)
        assert again.accuracy() == found
        said = texts(kept_accuracy(again))
        assert "5 tensors, all within tolerance" in said and "out of date" not in said
        assert len(view_of(again)["error"]) == 5
        again.pin([2], "B")
        assert again.accuracy() is None and view_of(again)["error"] == []
        assert "this accuracy is out of date" in texts(kept_accuracy(again))
        again.undo()
        assert again.accuracy() == found and len(view_of(again)["error"]) == 5
        assert "out of date" not in texts(kept_accuracy(again))
    finally:
        later.close()


def test_each_plan_keeps_its_own_and_the_latest_counts(state: AppState, document: Document) -> None:
    measure(state, document)
    first = document.accuracy()
    document.pin([2], "B")
    measure(state, document)
    second = document.accuracy()
    assert first is not None and second is not None and first.plan != second.plan
    document.undo()
    assert document.accuracy() == first
    last = document.last_accuracy()
    assert last is not None and last[1] == first, "that of the present plan comes first"


def test_what_is_exported_has_the_accuracy_of_exactly_this_plan(
    state: AppState, document: Document
) -> None:
    measure(state, document)

    def exported(form: str) -> str:
        with state.tasks.begin(document.id, "Writing") as task:
            content = _content(document, document.plan, f"bundle:{form}", task)
        return base64.b64decode(content["content"]).decode()

    assert "5 tensors compared with the unsplit model" in exported("md")
    assert "5 tensors compared with the unsplit model" in exported("html")
    assert exported("csv").splitlines()[1].endswith(",relative,noise,snr_db,tolerance,ok")
    document.pin([2], "B")
    assert "Accuracy" not in exported("md")
    assert "snr_db" not in exported("csv")


def test_it_goes_with_its_document(state: AppState, document: Document) -> None:
    measure(state, document)
    state.store.remove(document.id)
    assert state.store.accuracy(document.id) is None


def test_a_workspace_without_the_table_gets_it(tmp_path: Path) -> None:
    Store(str(tmp_path))
    with sqlite3.connect(tmp_path / "workspace.db") as db:
        for table in ("accuracies", "set_models", "sets"):
            db.execute(f"DROP TABLE {table}")
        db.execute("UPDATE alembic_version SET version_num = '0003'")
    store = Store(str(tmp_path))
    store.keep_accuracy("a", "p", {"x": 1})
    store.keep_accuracy("a", "p", {"x": 2})
    kept = store.accuracy("a", "p")
    assert kept is not None and kept.figures == {"x": 2}
    assert store.accuracy("a", "q") is None and store.accuracy("b") is None
