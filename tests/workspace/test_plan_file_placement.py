"""A plan that is read has the placement that it was saved with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import EXAMPLES, ROOT, python
from hypothesis import given, settings
from hypothesis import strategies as st

import editor
from editor.graph.graph import Graph
from editor.placement.placement import Placement
from editor.sandbox.jobs import JobService
from editor.web.app_state import AppState
from editor.web.open_request import OpenRequest
from editor.workspace.history import Store

TABLE = [
    {"name": "A", "backendName": "CPU"},
    {"name": "B", "backendName": "CPU"},
    {"name": "C", "backendName": "CPU"},
]


@settings(max_examples=20)
@given(data=st.data())
def test_what_the_policy_would_decide_otherwise_is_kept_without_pins(
    mobilenet: Graph, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """They were pins at first: an export of a plan without any had one for every op."""
    plan = editor.partition(
        mobilenet, TABLE, policy=data.draw(st.sampled_from(["priority", "optimal", "memory"]))
    )
    path = plan.save(tmp_path_factory.mktemp("plan") / "plan.json")
    document = json.loads(path.read_text())
    placed = [
        key
        for op, key in enumerate(mobilenet.op_keys)
        if plan.placement.division.subgraph_of_op[op] >= 0
    ]
    keys = data.draw(st.lists(st.sampled_from(placed), min_size=1, max_size=8, unique=True))
    for key in keys:
        document["affinities"][key] = data.draw(st.sampled_from("ABC"))
    wanted = {key: document["affinities"][key] for key in placed}
    differs = any(plan.affinity[key] != device for key, device in wanted.items())
    path.write_text(json.dumps(document))
    if differs:
        with pytest.warns(UserWarning, match=r"the placement of the file is kept$"):
            read = editor.load_plan(path)
        assert "the plan's file has it there" in read.why(keys[0]).because
    else:
        read = editor.load_plan(path)
    assert {key: read.affinity[key] for key in placed} == wanted and read.pins == {}
    again = json.loads(read.save(path.parent / "again.json").read_text())
    assert {key: again["affinities"][key] for key in placed} == wanted and not again["pins"]


def on_b(placement: Placement) -> set[str]:
    return {
        placement.graph.op_keys[op]
        for op in placement.placed_ops.tolist()
        if placement.affinity[placement.graph.op_keys[op]] == "B"
    }


def test_jobs_and_the_page_have_the_placement_of_the_file_too(
    mobilenet: Graph, tmp_path: Path
) -> None:
    """A benchmark solved the settings again, and measured another plan than the one that was read."""
    plan = editor.partition(mobilenet, TABLE)
    document = json.loads(plan.save(tmp_path / "plan.json").read_text())
    moved = [
        key for key in plan.affinity if mobilenet.op_types[mobilenet.key_index[key]] == "Conv"
    ][::2]
    document["affinities"] |= dict.fromkeys(moved, "B")
    (tmp_path / "plan.json").write_text(json.dumps(document))
    with pytest.warns(UserWarning, match="the placement of the file is kept"):
        read = editor.load_plan(tmp_path / "plan.json")
    job = read.recipe().placement(mobilenet)
    assert on_b(job) == set(moved)
    assert [(s.device, s.ops) for s in job.subgraphs] == [
        (s.device, s.ops) for s in read.subgraphs
    ] and not job.settings.pins
    state = AppState(Store(str(tmp_path / "ws")), JobService(), None, EXAMPLES)
    try:
        opened = state.open(OpenRequest(str(tmp_path / "plan.json"), "", {}))
        assert on_b(opened.placement) == set(moved)
    finally:
        state.jobs.close()


def test_what_only_a_pin_allows_is_kept_as_a_pin(mobilenet: Graph, tmp_path: Path) -> None:
    plan = editor.partition(mobilenet, TABLE, rules=[{"type": "Conv", "to": "A"}])
    document = json.loads(plan.save(tmp_path / "plan.json").read_text())
    conv = next(
        key
        for key, kind in zip(mobilenet.op_keys, mobilenet.op_types, strict=True)
        if kind == "Conv"
    )
    document["affinities"][conv] = "B"
    (tmp_path / "plan.json").write_text(json.dumps(document))
    with pytest.warns(UserWarning, match=r"the placement of the file is kept, as pins"):
        read = editor.load_plan(tmp_path / "plan.json")
    assert read.affinity[conv] == "B" and read.pins[conv] == "B"


def test_a_plan_with_measured_costs_is_read_where_there_is_no_profile(
    mobilenet: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "XDG_CACHE_HOME", str(tmp_path / "cache")
    )  # another test of this process may have made profiles
    plan = editor.partition(mobilenet, TABLE, policy="optimal", pins={"mean": "C"})
    path = plan.save(tmp_path / "plan.json")
    document = json.loads(path.read_text())
    document["policy"]["options"]["costs"] = "measured"
    path.write_text(json.dumps(document))
    with pytest.warns(
        UserWarning,
        match=r"no profile of this model on A, B, C yet.*Times are estimates until then",
    ):
        read = editor.load_plan(path)
    assert read.affinity == plan.affinity and read.pins == plan.pins
    done = python("-m", "editor", "check", path, "--max-subgraphs", "100", cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("note: ") and "no profile of this model" in done.stderr


def test_the_message_about_a_missing_profile_names_the_sizes() -> None:
    graph = editor.load_model(EXAMPLES / "models" / "resnet50.onnx", {"batch": 3})
    with pytest.raises(editor.EditorError, match=r"no profile of this model at batch=3 on CPU yet"):
        editor.partition(
            graph, "HETERO:CPU", policy="optimal", policy_options={"costs": "measured"}
        )
