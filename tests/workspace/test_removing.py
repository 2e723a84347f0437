"""Documents and uploads can be removed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from conftest import EXAMPLES
from documents import documents_of_one_record

from editor.__main__ import main
from editor.errors import EditorError
from editor.placement.placement import Settings
from editor.workspace.history import Record, Store
from editor.workspace.solver import first_decisions

MODEL = EXAMPLES / "models" / "mobilenetv2.onnx"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "workspace"))


def document(store: Store, model: Path) -> Record:
    made = store.create(model.stem, str(model), "ff", {}, first_decisions(Settings(), []))
    store.keep_layout(made.id, "mine", {"pins": {}})
    store.keep_run(made.id, {"median": 1.0})
    return made


def upload(store: Store, name: str) -> Path:
    folder = store.folder / "uploads" / name
    folder.mkdir(parents=True)
    return Path(shutil.copy(MODEL, folder))


def workspace(store: Store, *arguments: str) -> int:
    return main(["workspace", *arguments, "--workspace", str(store.folder)])


def test_a_removed_document_takes_its_history_along_and_leaves_others(store: Store) -> None:
    gone, kept = document(store, MODEL), document(store, MODEL)
    assert workspace(store, "remove", gone.id) == 0
    assert [record.id for record in store.recent()] == [kept.id]
    assert not store.steps(gone.id) and not store.layouts(gone.id) and not store.runs(gone.id)
    assert store.steps(kept.id) and store.layouts(kept.id) and store.runs(kept.id)


def test_documents_and_uploads_are_listed(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    made = document(store, upload(store, "0123abcd"))
    upload(store, "unused")
    assert workspace(store, "list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"document {made.id}" in lines[0] and made.model in lines[0]
    assert lines[1].startswith("upload 0123abcd") and lines[1].endswith("1 document")
    assert lines[2].startswith("upload unused") and "210.5 kB" in lines[2]


def test_an_upload_goes_only_without_or_with_its_documents(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    made = document(store, model := upload(store, "0123abcd"))
    assert workspace(store, "remove", "0123abcd") == 1
    assert model.exists() and made.id in capsys.readouterr().err
    assert workspace(store, "remove", "0123abcd", made.id) == 0
    assert not model.parent.exists() and not store.recent()


@pytest.mark.parametrize("names", [[], ["nothing"], [".."], ["incoming"]])
def test_what_is_not_there_is_a_message(
    store: Store, names: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    made = document(store, upload(store, "0123abcd"))
    (store.folder / "uploads" / "incoming").mkdir()
    assert workspace(store, "remove", *names, *([made.id] if names else [])) == 1
    assert "workspace list" in capsys.readouterr().err
    assert store.recent() and (store.folder / "uploads" / "incoming").is_dir()


def test_a_change_of_a_removed_document_is_a_message(tmp_path: Path) -> None:
    table = [{"name": "A", "backendName": "CPU"}, {"name": "B", "backendName": "openvino"}]
    first, _ = documents_of_one_record(str(tmp_path / "workspace"), tmp_path, table, 3)
    first.store.remove(first.id)
    with pytest.raises(EditorError, match="removed from the workspace"):
        first.paint([0], 1)
