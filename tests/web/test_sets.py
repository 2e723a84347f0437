"""Sets of models in the page: they are opened, kept, counted, placed again and exported."""

from __future__ import annotations

import io
import json
import sqlite3
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conftest import EXAMPLES
from weighted_chain import weighted_chain

import editor
from editor.errors import EditorError, PlanError
from editor.sandbox.jobs import JobService
from editor.text import human_bytes
from editor.web.app_state import AppState
from editor.web.callbacks.opening import page_at
from editor.web.open_request import OpenRequest
from editor.web.panels.memory_panel import memory_view
from editor.web.panels.status import status
from editor.web.panels.verdict import verdict
from editor.web.sets import (
    change_memory,
    change_runs,
    change_table,
    exported,
    memory_text,
    open_address,
    open_set,
    opened,
    place_again,
    steps_of,
    undo_placing,
)
from editor.web.tasks import Task
from editor.workspace.history import SetModel, Store
from editor.workspace.model_set import load_set

SIDE = 128
WEIGHTS = SIDE * SIDE * 4


chain = partial(weighted_chain, side=SIDE)


def table(fits: int) -> list[dict[str, Any]]:
    """A fast device that has room for so many weights, and a slow one."""
    memory = fits * WEIGHTS + 3 * 64 * SIDE * 4
    link = {"bandwidth": 1e11, "latency": 1e-7}
    fast = {"name": "Fast", "backendName": "CPU", "peakCompute": 1e12, "peakDramBw": 1e12}
    slow = {"name": "Slow", "backendName": "CPU", "peakCompute": 1e9, "peakDramBw": 1e9}
    return [slow, {**fast, "link": link, "memory": memory}]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "models"
    made.mkdir()
    chain(made / "rare.onnx", 4)
    chain(made / "twin.onnx", 4)
    return made


@pytest.fixture
def state(tmp_path: Path) -> Iterator[AppState]:
    made = AppState(Store(str(tmp_path / "workspace")), JobService(), None, EXAMPLES)
    yield made
    made.close()


def on_fast(state: AppState, identity: str) -> dict[str, int]:
    return {
        member.name: member.plan.placement.op_counts["Fast"]
        for member in opened(state, identity).models.members
    }


def components(tree: Any) -> Iterator[dict[str, Any]]:
    """Properties of everything on a page."""
    if isinstance(tree, list | tuple):
        for each in tree:
            yield from components(each)
    elif hasattr(tree, "to_plotly_json"):
        properties = tree.to_plotly_json()["props"]
        yield properties
        yield from components(properties.get("children"))


def test_a_folder_of_models_opens_as_a_set_that_is_kept(
    state: AppState, folder: Path, tmp_path: Path
) -> None:
    address = open_address(state, OpenRequest(str(folder), table(4)))
    assert address.startswith("/set/")
    identity = address.removeprefix("/set/")
    found = opened(state, identity).models
    told = editor.partition_set(folder, table(4))
    assert found.seconds == told.seconds
    assert [vars(each) for each in found.shared] == [vars(each) for each in told.shared]
    assert open_address(state, OpenRequest(str(folder), table(4))) == address
    assert open_address(state, OpenRequest(str(folder), table(2))) != address
    later = AppState(Store(str(tmp_path / "workspace")), state.jobs, None, EXAMPLES)
    assert opened(later, identity).models.to_dict() == found.to_dict()


def test_times_change_the_figure_and_placing_again_follows_them(
    state: AppState, folder: Path
) -> None:
    identity = open_set(state, OpenRequest(str(folder), table(4)))
    before = opened(state, identity).models
    often = min(on_fast(state, identity), key=lambda name: on_fast(state, identity)[name])
    assert change_runs(state, identity, {often: 100})
    assert not change_runs(state, identity, {often: 100})
    counted = opened(state, identity).models
    assert counted.seconds == pytest.approx(
        sum(m.seconds * (100 if m.name == often else 1) for m in before.members)
    )
    assert [m.source for m in counted.members if m.name == often] == ["given"]
    said = place_again(state, identity, Task("Placing", True)).words
    assert "instead of" in said
    assert on_fast(state, identity)[often] == 4
    assert opened(state, identity).models.seconds < counted.seconds
    assert all(
        each.limit is None or each.needed <= each.limit
        for each in opened(state, identity).models.shared
    )
    changed = [d.history.current.label for d in opened(state, identity).documents]
    assert any(label.startswith("placed with the set: memory, Fast ") for label in changed)


@pytest.mark.parametrize("limit", ["8GiB", 8 << 30])
def test_a_limit_that_nobody_changed_stays_as_it_is_written(
    state: AppState, folder: Path, limit: object
) -> None:
    """8GiB was shown as 8.59 GB, which is another number: the first change of any field stored it."""
    slow, fast = table(4)
    identity = open_set(state, OpenRequest(str(folder), [slow, {**fast, "memory": limit}]))
    shown = {d.name: memory_text(d.entry) for d in opened(state, identity).models.devices}
    assert shown == {"Slow": "", "Fast": str(limit)}
    assert not change_memory(state, identity, shown)
    assert change_memory(state, identity, shown | {"Slow": "1MB"})
    assert [d.memory for d in opened(state, identity).models.devices] == [1_000_000, 8 << 30]
    assert change_memory(state, identity, shown)
    assert [d.memory for d in opened(state, identity).models.devices] == [None, 8 << 30]


@pytest.mark.parametrize("count", [0, -1, "many", None, True, 1e12])
def test_a_number_of_times_that_is_none_is_refused(
    state: AppState, folder: Path, count: object
) -> None:
    identity = open_set(state, OpenRequest(str(folder), table(4)))
    before = opened(state, identity).models.to_dict()
    with pytest.raises(EditorError, match="rare runs"):
        change_runs(state, identity, {"rare": count})
    assert opened(state, identity).models.to_dict() == before


def test_a_stroke_in_a_model_is_in_the_set(state: AppState, folder: Path) -> None:
    identity = open_set(state, OpenRequest(str(folder), table(8)))
    first = opened(state, identity)
    document = first.documents[0]
    assert on_fast(state, identity)["rare"] == 4
    assert document.paint([int(document.graph.order[-1])], 0) is None
    now = opened(state, identity).models
    assert on_fast(state, identity)["rare"] == 3
    assert now.seconds > first.models.seconds
    place_again(state, identity, Task("Placing", True))
    assert on_fast(state, identity)["rare"] == 3, "a pin stays"


def test_a_model_of_a_set_has_the_limit_of_the_table_and_what_the_others_take(
    state: AppState, folder: Path
) -> None:
    """The share that was left was shown as the limit: 1 B where the others take more than all."""
    identity = open_set(state, OpenRequest(str(folder), table(3)))
    placed = place_again(state, identity, Task("Placing", True), "optimal:latency")
    found = opened(state, identity)
    fast = next(each for each in found.models.shared if each.device == "Fast")
    assert fast.lacking == fast.needed - (fast.limit or 0) > 0
    assert placed.words.endswith(f"{human_bytes(fast.lacking)} too much.")
    for document in found.documents:
        device = document.devices[1]
        assert device.entry["memory"] == fast.limit
        assert device.taken == 4 * WEIGHTS == device.entry["memoryTaken"]
        needed = document.plan.run_memory.peaks["Fast"]
        assert device.lacking(needed) == fast.lacking
        assert device.limit_text == (
            f"{human_bytes(fast.limit or 0)}; the other models of the set take {human_bytes(4 * WEIGHTS)}"
        )
        said = [*verdict(document), *status(document), *memory_view(document)]
        texts = [each.get("children") for each in components(said)]
        assert any(f"of {device.limit_text}" in str(text) for text in texts)
        assert f"Over memory: Fast by {human_bytes(fast.lacking)}" in texts
        assert not any(" 1 B" in str(text) for text in texts)
        (link,) = (e for e in components(said) if e.get("href") == f"/set/{identity}")
        assert link["children"] == "Place the set within memory"
        assert not any(each.get("data-command") == "policy-memory" for each in components(said))
        label = document.history.current.label
        assert label == f"placed with the set: optimal latency, Fast {human_bytes(fast.limit or 0)}"


def test_placing_a_set_is_undone_in_all_its_models(state: AppState, folder: Path) -> None:
    identity = open_set(state, OpenRequest(str(folder), table(3)))
    before = opened(state, identity).models.to_dict()
    placed = place_again(state, identity, Task("Placing", True), "optimal:latency")
    after = opened(state, identity).models.to_dict()
    assert after != before
    steps = steps_of(json.dumps(placed.steps))
    undo_placing(state, identity, steps)
    assert opened(state, identity).models.to_dict() == before
    with pytest.raises(PlanError, match="changed since"):
        undo_placing(state, identity, steps)
    assert opened(state, identity).models.to_dict() == before
    for text in ("[]", "{", '{"a": 1}'):
        with pytest.raises(PlanError, match="reload"):
            steps_of(text)


def test_set_json_opens_with_its_plans(state: AppState, folder: Path, tmp_path: Path) -> None:
    made = editor.partition_set(folder, table(4), runs={"twin": 7})
    made.save(tmp_path / "out")
    for path in (tmp_path / "out", tmp_path / "out" / "set.json"):
        address = open_address(state, OpenRequest(str(path), "HETERO"))
        found = opened(state, address.removeprefix("/set/")).models
        assert found.seconds == made.seconds
        assert found.to_dict()["devices"] == made.to_dict()["devices"]
        assert found.to_dict()["table"] == made.to_dict()["table"]
        assert {m.name: m.source for m in found.members} == {"rare": "assumed", "twin": "given"}


def test_damaged_sets_are_messages(state: AppState, tmp_path: Path) -> None:
    file = tmp_path / "set.json"
    for text, fault in (
        ('{"format": "hetero-editor/set", "version": 9}', "not a set"),
        ('{"format": "hetero-editor/set", "version": 1}', "damaged set"),
    ):
        file.write_text(text)
        with pytest.raises(EditorError, match=fault):
            open_address(state, OpenRequest(str(file), "HETERO"))
    with pytest.raises(EditorError, match="not in the workspace"):
        opened(state, "0123456789ab")


def test_the_export_is_a_set_again_with_files_of_each_model(
    state: AppState, folder: Path, tmp_path: Path
) -> None:
    identity = open_set(state, OpenRequest(str(folder), table(4)))
    name, content = exported(state, identity, "onnxruntime")
    assert name == "rare_twin_onnxruntime.zip"
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        archive.extractall(tmp_path / "got")
    again = load_set(tmp_path / "got")
    assert again.seconds == opened(state, identity).models.seconds
    for model in ("rare", "twin"):
        assert len(list((tmp_path / "got" / model).iterdir())) > 1
    plans = zipfile.ZipFile(io.BytesIO(exported(state, identity, "plan")[1])).namelist()
    assert sorted(plans) == ["rare/plan.json", "set.json", "twin/plan.json"]
    with pytest.raises(EditorError, match="no format"):
        exported(state, identity, "../x")


def test_the_page_has_a_row_for_each_model_and_the_way_back(state: AppState, folder: Path) -> None:
    identity = open_set(state, OpenRequest(str(folder), table(4)))
    shown = list(components(page_at(state, f"/set/{identity}")))
    assert [p["data-model"] for p in shown if "data-model" in p] == ["rare", "twin"]
    assert [p["data-device"] for p in shown if "data-device" in p] == ["Slow", "Fast"]
    documents = [f"/d/{model.document}" for model in opened(state, identity).record.models]
    ways = [p["href"] for p in shown if str(p.get("href")).startswith("/d/")]
    assert ways == [way for each in documents for way in (each, f"{each}#benchmark")]
    editing = list(components(page_at(state, documents[0])))
    assert [p["children"] for p in editing if p.get("href") == f"/set/{identity}"] == [
        "← rare + twin"
    ]
    start = list(components(page_at(state, "/open")))
    links = [p["href"] for p in start if p.get("className") == "recent"]
    assert links == [f"/set/{identity}"]


def test_a_removed_document_leaves_its_set(state: AppState, folder: Path) -> None:
    identity = open_set(state, OpenRequest(str(folder), table(4)))
    first, second = opened(state, identity).record.models
    state.store.remove(first.document)
    assert [m.name for m in opened(state, identity).models.members] == ["twin"]
    state.store.remove(second.document)
    assert state.store.get_set(identity) is None


def test_a_workspace_without_the_tables_gets_them(tmp_path: Path) -> None:
    Store(str(tmp_path))
    with sqlite3.connect(tmp_path / "workspace.db") as db:
        for name in ("set_models", "sets"):
            db.execute(f"DROP TABLE {name}")
        db.execute("UPDATE alembic_version SET version_num = '0004'")
    store = Store(str(tmp_path))
    made = store.create_set("a", "0" * 64, [], [SetModel("m", "d", 2.0, "given")])
    assert store.get_set(made.id) == made


def test_a_set_names_no_plan_outside_the_roots(
    state: AppState, folder: Path, tmp_path: Path
) -> None:
    made = editor.partition_set(folder, table(4))
    made.save(tmp_path / "out")
    inside = tmp_path / "inside"
    inside.mkdir()
    document = json.loads((tmp_path / "out" / "set.json").read_text())
    for entry in document["models"]:
        entry["plan"] = f"../out/{entry['plan']}"
    (inside / "set.json").write_text(json.dumps(document))
    state.limit_paths([str(inside)])
    with pytest.raises(EditorError, match="outside the folders"):
        open_address(state, OpenRequest(str(inside / "set.json"), "HETERO"))


def test_another_device_table_is_used_where_it_fits_and_takes_pins_with_it(
    state: AppState, folder: Path
) -> None:
    identity = open_set(state, OpenRequest(str(folder), table(8)))
    first = opened(state, identity)
    document, task = first.documents[0], Task("Placing", True)
    on_slow, on_other = (int(op) for op in document.graph.order[-2:])
    assert document.paint([on_slow], 0) is None and document.paint([on_other], 1) is None

    before = opened(state, identity).models.to_dict()
    for text, cause in (
        ("- name: Slow\n  memory: much", "device table:2: memory must be a size"),
        ("- name: Slow\n  memmory: 1MB", "device table:2: unknown key 'memmory'"),
        ("", "device table:1: a device table is a list of devices"),
        ("- {name: Slow, backendName: CPU, memory: 1kB}", "memory"),
    ):
        with pytest.raises(EditorError, match=cause):
            change_table(state, identity, text, task)
        assert opened(state, identity).models.to_dict() == before

    text = "- {name: Slow, backendName: CPU}\n- {name: Third, backendName: CPU, peakCompute: 2 TFLOPS}\n"
    assert "Placed again" in change_table(state, identity, text, task).words
    now = opened(state, identity)
    assert [device.name for device in now.models.devices] == ["Slow", "Third"]
    assert [d["name"] for d in now.record.devices] == ["Slow", "Third"]
    for member in now.models.members:
        assert list(member.plan.placement.op_counts) == ["Slow", "Third"]
    keys = document.graph.op_keys
    assert now.documents[0].placement.settings.pins == {keys[on_slow]: "Slow"}
