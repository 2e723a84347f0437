"""Sets of models in the page: they are opened, kept, counted, placed again and exported."""

from __future__ import annotations

import io
import json
import re
import sqlite3
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conftest import EXAMPLES
from dash import html
from weighted_chain import weighted_chain

import editor
from editor.errors import EditorError, PlanError
from editor.text import human_bytes, human_seconds
from editor.web import messages as m
from editor.web.app_state import AppState
from editor.web.callbacks.opening import page_at
from editor.web.edit_answers import answer_edits
from editor.web.edit_queue import changes_of_others
from editor.web.open_request import OpenRequest
from editor.web.pages.model_set import set_parts
from editor.web.panels.memory_panel import memory_view
from editor.web.panels.status import status
from editor.web.panels.verdict import over_memory, verdict
from editor.web.sets import (
    OpenSet,
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
from editor.web.view import figures_of
from editor.workspace.document import Document
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


def adds_up(state: AppState, identity: str) -> None:
    """Expects that what each model needs and what the others take of it are what the set needs."""
    documents = [state.document(m.document) for m in opened_without_following(state, identity)]
    for document in documents:
        device = next(d for d in document.devices if d.name == "Fast")
        weights = {d.id: d.placement.run_memory.devices[1].constants for d in documents}
        runs = [d.placement.run_memory.peaks["Fast"] - weights[d.id] for d in documents]
        needed = sum(weights.values()) + max(runs)
        assert document.placement.run_memory.peaks["Fast"] + device.taken == needed
        assert device.entry.get("memoryTaken", 0) == device.taken
        assert (device.memory_of_table or device.memory) == table(8)[1]["memory"]


def opened_without_following(state: AppState, identity: str) -> tuple[SetModel, ...]:
    record = state.store.get_set(identity)
    assert record is not None
    return record.models


def stroke(state: AppState, document: Document, *edits: m.Edit) -> None:
    answer_edits(state, document.id, m.Edits(page="p", seen=document.version, edits=list(edits)))


def test_what_the_others_take_follows_each_stroke_undo_and_placement(
    state: AppState, folder: Path
) -> None:
    """It was what they took when the set was placed."""
    identity = open_set(state, OpenRequest(str(folder), table(8)))
    first, second = opened(state, identity).documents
    adds_up(state, identity)
    taken, version, label = second.devices[1].taken, second.version, second.history.current.label
    figures = second.placement.fingerprint
    ops = first.graph.order.tolist()[-2:]
    stroke(state, first, m.Paint(do="paint", ops=ops, device=0, sequence=1))
    adds_up(state, identity)
    assert second.devices[1].taken == taken - 2 * WEIGHTS
    assert second.version > version, "its pages look at it again"
    assert second.history.current.label == label
    assert changes_of_others(second, "its page", version) == [], "and nobody changed its plan"
    assert second.placement.fingerprint == figures, "what was measured of it stays"

    stroke(state, first, m.HistoryEdit(do="undo", sequence=2))
    adds_up(state, identity)
    assert second.devices[1].taken == taken
    stroke(state, first, m.Paint(do="paint", ops=first.graph.order.tolist(), device=0, sequence=3))
    assert second.devices[1].taken == 0
    adds_up(state, identity)
    place_again(state, identity, Task("Placing", True), "priority")
    adds_up(state, identity)


def test_a_stroke_is_solved_within_what_the_others_leave_now(state: AppState, folder: Path) -> None:
    identity = open_set(state, OpenRequest(str(folder), table(4)))
    small, large = sorted(
        opened(state, identity).documents, key=lambda d: d.placement.op_counts["Fast"]
    )
    stroke(state, large, m.Paint(do="paint", ops=large.graph.order.tolist(), device=0, sequence=1))
    assert small.placement.op_counts["Fast"] == 0, "a plan stays until it is changed"
    first = int(small.graph.order[0])
    stroke(state, small, m.Paint(do="paint", ops=[first], device=1, sequence=2))
    assert small.placement.op_counts["Fast"] == 4
    stroke(state, small, m.HistoryEdit(do="reset", sequence=3))
    assert small.placement.op_counts["Fast"] == 4

    stroke(state, large, m.Paint(do="paint", ops=large.graph.order.tolist(), device=1, sequence=4))
    assert list(over_memory(small)) == ["Fast"]
    every = small.graph.order.tolist()
    stroke(state, small, m.Paint(do="paint", ops=every, device=1, sequence=5))
    assert list(over_memory(small)) == ["Fast"], (
        "what a person pins is done, and said to be too much"
    )


def test_a_model_whose_set_cannot_be_read_says_of_when_the_share_is(
    state: AppState, folder: Path, tmp_path: Path
) -> None:
    identity = open_set(state, OpenRequest(str(folder), table(4)))
    first, second = opened(state, identity).record.models
    chain(folder / "rare.onnx", 3)
    later = AppState(Store(str(tmp_path / "workspace")), state.jobs, None, EXAMPLES)
    texts = [text for p in components(page_at(later, f"/d/{second.document}")) for text in said(p)]
    words = "What the other models of the set take is of when they were placed: "
    assert any(text.startswith(words) for text in texts)
    assert first.name == "rare"


def test_times_of_a_set_that_rests_on_an_assumed_speed_are_all_rough(
    state: AppState, folder: Path
) -> None:
    """The time of the device with a stated speed was exact beside the same time of the model, which was not."""
    slow, fast = table(3)
    del slow["peakCompute"], slow["peakDramBw"], fast["memory"]
    identity = open_set(state, OpenRequest(str(folder), [slow, fast]))
    for one in opened(state, identity).documents:
        assert one.paint([int(one.graph.order[0])], 0) is None
        assert one.paint([int(one.graph.order[-1])], 1) is None
    found = opened(state, identity)
    assert [figures_of(each)["rough"] for each in found.documents] == [True, True]
    parts = texts_of_parts(state, found)
    times = [text for text in parts if re.search(r"\d [mµ]?s\b", text)]
    assert len(times) >= 7
    assert all(re.search(r"about [\d.]+ [mµ]?s\b", text) for text in times), times
    assert any("speed of Slow assumed" in text for text in parts)


def said(properties: dict[str, Any]) -> list[str]:
    children = properties.get("children")
    return [
        c for c in (children if isinstance(children, list) else [children]) if isinstance(c, str)
    ]


def texts_of_parts(state: AppState, found: OpenSet) -> list[str]:
    parts = [html.Div(part) for part in set_parts(state, found).values()]
    return [text for properties in components(parts) for text in said(properties)]


def test_computing_and_what_is_beside_it_are_the_answer(state: AppState, folder: Path) -> None:
    identity = open_set(state, OpenRequest(str(folder), table(3)))
    found = opened(state, identity)
    texts = texts_of_parts(state, found)
    (beside,) = (text for text in texts if text.startswith("Beside computing: "))
    rest = found.models.seconds - sum(each.busy for each in found.models.shared)
    assert beside.startswith(f"Beside computing: {human_seconds(rest)} of an answer")


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


@pytest.mark.parametrize("name", ["../../evil", "/evil", "a\\b", "..", ""])
def test_a_name_that_is_a_path_is_damage(
    state: AppState, folder: Path, name: str, tmp_path: Path
) -> None:
    """An export wrote a folder of that name."""
    editor.partition_set(folder, table(4)).save(tmp_path / "out")
    file = tmp_path / "out" / "set.json"
    document = json.loads(file.read_text())
    document["models"][0]["name"] = name
    file.write_text(json.dumps(document))
    with pytest.raises(EditorError, match="is no name of a model"):
        open_address(state, OpenRequest(str(file), "HETERO"))


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
