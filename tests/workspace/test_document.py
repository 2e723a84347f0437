"""Documents keep every step, over restarts too."""

from __future__ import annotations

import base64
import re
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import write_dag

import editor
from editor.errors import EditorError
from editor.graph.graph import Graph
from editor.kinds import Kind, too_close
from editor.placement.device_profile import DeviceProfile, profile_path, save_profile
from editor.placement.placement import Settings
from editor.runtimes.base import Capability
from editor.web.drawing.panes import panes_data
from editor.web.edits import _automatic, _use_layout
from editor.web.messages import Automatic, LayoutEdit
from editor.web.panels.compare import compare_view
from editor.web.panels.devices import outcome
from editor.web.panels.inspector import plan
from editor.web.panels.tables import transfer_rows
from editor.web.tasks import TaskRegistry
from editor.web.view import costs_value, layout_costs, op_costs, price_of
from editor.workspace.document import Document
from editor.workspace.history import Store
from editor.workspace.layouts import BY_OPENVINO, differing, same_plan
from editor.workspace.solver import Solver, first_decisions

TABLE = [{"name": "A", "backendName": "CPU"}, {"name": "B", "backendName": "openvino"}]


def make(store: Store, graph: Graph) -> Document:
    record = store.create(
        "m", str(graph.path), graph.sha256, {}, first_decisions(Settings(), TABLE)
    )
    return open_again(store, graph, record.id)


def open_again(store: Store, graph: Graph, identity: str) -> Document:
    record = store.get(identity)
    assert record is not None
    unable = ["cannot" if kind == "Gemm" else "" for kind in graph.op_types]
    abilities = {"A": Capability.everything(graph), "B": Capability.of_reasons(unable)}
    return Document(
        store, record, Solver(graph, store.decisions(identity, record.cursor), abilities)
    )


def test_changes_undo_redo_and_reload(mobilenet: Graph, tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    document = make(store, mobilenet)
    ops = np.flatnonzero(~mobilenet.op_is_constant).tolist()
    assert document.paint(ops[3:6], 1) is None
    first = document.placement.affinity
    document.paint(ops[10:12], 1)
    assert document.undo() and document.placement.affinity == first
    assert document.redo() and document.undo() and document.undo() and not document.undo()
    assert set(document.placement.affinity.values()) == {"A"}
    document.redo()
    again = open_again(Store(str(tmp_path)), mobilenet, document.id)
    assert again.placement.affinity == first and again.can_redo and again.can_undo
    again.paint([ops[0]], 1)
    assert not again.can_redo, "a new stroke begins a branch"
    assert [step.label for step in again.history.steps[:2]] == ["open", "3 ops → B"]
    again.paint([ops[0], ops[20]], 1)
    changed = mobilenet.display_name(ops[20])
    assert again.history.current.label == f"{changed} → B", "the other one was there"


def test_refused_ops_stay_unchanged_and_can_be_forced(mobilenet: Graph, tmp_path: Path) -> None:
    document = make(Store(str(tmp_path)), mobilenet)
    gemm = mobilenet.op_types.index("Gemm")
    refusal = document.paint([gemm - 1, gemm], 1)
    assert refusal is not None and refusal.ops == (gemm,) and "cannot" in refusal.reason
    assert document.placement.affinity[mobilenet.op_keys[gemm - 1]] == "B"
    assert document.paint([gemm], 1, force=True) is None
    assert document.placement.affinity[mobilenet.op_keys[gemm]] == "B"
    assert document.unpin() == 2 and not document.placement.settings.forced


def test_regions_and_paths_are_selected(mobilenet: Graph, tmp_path: Path) -> None:
    document = make(Store(str(tmp_path)), mobilenet)
    ops = np.flatnonzero(~mobilenet.op_is_constant).tolist()
    assert document.region(ops[0]) == ops
    document.paint(ops[50:52], 1)
    assert document.region(ops[50]) == sorted(ops[50:52])
    between = document.between([ops[5]], [ops[2]])
    assert {ops[2], ops[5]} <= set(between) and between == document.between([ops[2]], [ops[5]])
    branch = editor.load_model(mobilenet.path)
    assert len(document.between([ops[0]], [ops[-1]])) == len(ops) and len(branch) == len(mobilenet)


def test_a_renamed_device_keeps_its_colour_and_a_new_one_gets_its_own(
    mobilenet: Graph, tmp_path: Path
) -> None:
    from editor.web.view import colours_of

    document = make(Store(str(tmp_path)), mobilenet)
    before = colours_of(document)
    entries = [dict(d.entry) for d in document.devices]
    document.set_devices([{**entries[0], "name": "Board"}, *entries[1:]])
    renamed = colours_of(document)
    assert renamed["Board"] == before["A"] and renamed["B"] == before["B"]
    document.reorder(["B", "Board"])
    assert colours_of(document) == renamed
    document.set_devices(
        [*(dict(d.entry) for d in document.devices), {"name": "C", "backendName": "CPU"}]
    )
    assert len({colours_of(document)[name] for name in ("Board", "B", "C")}) == 3


def test_devices_that_were_added_keep_their_colours_in_another_order(
    mobilenet: Graph, tmp_path: Path
) -> None:
    from editor.web.view import colours_of

    document = make(Store(str(tmp_path)), mobilenet)
    more = [{"name": name, "backendName": "CPU"} for name in ("NPU 2", "NPU 10")]
    document.set_devices([*(dict(d.entry) for d in document.devices), *more])
    added = colours_of(document)
    document.reorder(["NPU 10", "NPU 2", "A", "B"])
    assert colours_of(document) == added


def test_priority_can_be_changed_and_colours_stay(mobilenet: Graph, tmp_path: Path) -> None:
    from editor.web.view import colours_of

    document = make(Store(str(tmp_path)), mobilenet)
    colours = colours_of(document)
    document.reorder(["B", "A"])
    assert document.placement.op_counts == {"B": 99, "A": 1}
    assert colours_of(document) == colours
    with pytest.raises(editor.PinError):
        document.reorder(["B"])


def test_a_failed_change_changes_nothing(mobilenet: Graph, tmp_path: Path) -> None:
    """Two weights' generators have no path between them; neither have unknown devices a meaning."""
    document = make(Store(str(tmp_path)), mobilenet)
    before, version = document.placement.affinity, document.version
    generators = [op for op, kind in enumerate(mobilenet.op_types) if kind == "Mod"]
    with pytest.raises(editor.PinError, match="no path leads"):
        document.between([generators[0]], [generators[1]])
    with pytest.raises(editor.PinError, match="the table has the devices"):
        document.reorder(["A", "C"])
    assert (
        document.placement.affinity == before
        and document.version == version
        and not document.can_undo
    )


def test_the_same_model_and_table_reopen_the_same_document(
    mobilenet: Graph, tmp_path: Path
) -> None:
    store = Store(str(tmp_path))
    document = make(store, mobilenet)
    found = store.find(str(mobilenet.path), mobilenet.sha256, {}, TABLE)
    assert found is not None and found.id == document.id
    assert store.find(str(mobilenet.path), mobilenet.sha256, {}, TABLE[:1]) is None
    assert store.find(str(mobilenet.path), "0" * 64, {}, TABLE) is None


def test_an_unusable_workspace_is_an_error() -> None:
    with pytest.raises(editor.EditorError, match="cannot be opened"):
        Store("nosuchdatabase://x/y")


def test_a_kept_layout_has_the_devices_that_it_was_kept_with(
    mobilenet: Graph, tmp_path: Path
) -> None:
    """Two accelerators could not be compared: a layout was solved again for whatever devices came later."""
    document = make(Store(str(tmp_path)), mobilenet)
    document.keep_layout("with OpenVINO")
    before = document.placement.affinity
    document.set_devices([{"name": "NPU", "preset": "hailo8"}, {"name": "A", "backendName": "CPU"}])
    layouts = {layout.name: layout for layout in document.layouts()}
    kept = layouts["with OpenVINO"]
    assert kept.other_devices and kept.placement is not None and kept.placement.affinity == before
    now = layouts["this plan"].placement
    assert now is not None
    different = {mobilenet.op_keys[op] for op in differing(now, kept.placement)}
    assert different == {
        mobilenet.op_keys[op]
        for op in now.placed_ops
        if now.affinity[mobilenet.op_keys[op]] != before[mobilenet.op_keys[op]]
    }
    text = str(compare_view(document, list(layouts.values())))
    assert "kept with A, B" in text
    costs, _ = layout_costs(document, kept)
    assert costs.op.shape[1] == 2 and [d.name for d in kept.placement.devices] == ["A", "B"]
    panes = panes_data(document, [layouts["this plan"], kept])
    assert [d["name"] for d in panes["devices"]] == ["NPU", "A", "B"]
    numbers = [np.frombuffer(base64.b64decode(pane["device"]), "u1") for pane in panes["layouts"]]
    seen = [{panes["devices"][i]["name"] for i in each} for each in numbers]
    assert seen[1] == set(kept.placement.affinity.values()) and "NPU" in seen[0]

    edit = LayoutEdit(do="use-layout", name="with OpenVINO")
    _use_layout(SimpleNamespace(tasks=TaskRegistry()), document, edit)  # type: ignore[arg-type]  # all that it needs of the server
    assert [d.name for d in document.devices] == [
        "A",
        "B",
    ] and document.placement.affinity == before
    assert document.undo() and document.devices[0].name == "NPU"


def test_what_openvino_itself_does_is_in_the_table_with_reasons(
    mobilenet: Graph, tmp_path: Path
) -> None:
    document = make(Store(str(tmp_path)), mobilenet)
    document.set_devices(
        [
            {**document.devices[1].entry, "nonSupportedNodes": "Conv"},
            dict(document.devices[0].entry),
        ]
    )
    text = str(compare_view(document, document.layouts()))
    convs = mobilenet.op_types.count("Conv")
    assert f"{convs} ops here on A, there on B: B: the device table excludes Conv on B" in text, (
        text
    )
    said = f"no plan for these devices: the device table excludes {convs} ops there"
    assert said in text, "what cannot be a plan has no speed"
    assert "cannot run" not in text
    chart = compare_view(document, document.layouts())[-1]
    assert "this plan" in str(chart)
    assert BY_OPENVINO not in str(chart)
    assert "The runtime placed these ops: none was pinned by hand" in text
    edit = LayoutEdit(do="use-layout", name=BY_OPENVINO)
    _use_layout(SimpleNamespace(tasks=TaskRegistry()), document, edit)  # type: ignore[arg-type]  # all that it needs of the server
    assert document.placement.op_counts["A"] == 0
    assert len(document.placement.subgraphs) == 1
    used = str(compare_view(document, document.layouts()))
    assert f"{convs} ops forced: figures assume that they run there" in used


def test_a_layout_that_was_measured_shows_its_measurement(mobilenet: Graph, tmp_path: Path) -> None:
    document = make(Store(str(tmp_path)), mobilenet)
    layout = document.layout("least latency")
    assert layout is not None and layout.placement is not None
    found = {"mode": "latency", "median": 0.0123, "throughput": 80.0}
    document.keep_run({**found, "estimated": True}, "least latency", layout.placement)
    assert "12.3 ms" not in str(compare_view(document, document.layouts()))
    document.keep_run({**found, "estimated": False}, "least latency", layout.placement)
    text = str(compare_view(document, document.layouts()))
    assert "12.3 ms" in text
    assert "data-kind='measurement'" in text


def test_a_measurement_stays_where_a_device_without_ops_comes_or_goes(
    mobilenet: Graph, tmp_path: Path
) -> None:
    document = make(Store(str(tmp_path)), mobilenet)
    figures = {"mode": "latency", "median": 0.0123, "throughput": 80.0, "estimated": False}
    document.keep_run(figures, "automatic", document.placement)
    table = [dict(d.entry) for d in document.devices]
    document.set_devices([*table, {"name": "GPU"}])
    assert "GPU" not in {d.name for d in document.placement.used_devices}
    assert [run.figures["median"] for run in document.runs_of_plan()] == [0.0123]
    used = document.placement.used_devices[0].name
    document.set_devices([{**e, "memory": "1 GB"} if e["name"] == used else e for e in table])
    assert document.runs_of_plan() == [], "another device of this name"


def test_measured_layouts_are_ranked_by_their_intervals(mobilenet: Graph, tmp_path: Path) -> None:
    document = make(Store(str(tmp_path)), mobilenet)
    now = document.placement
    document.paint(now.placed_ops[40:60].tolist(), 1)
    document.keep_layout("there")
    there = document.placement
    assert document.undo() and there.fingerprint != now.fingerprint

    def said(mode: str, plan: dict[str, Any], other: dict[str, Any]) -> str:
        kept = {"mode": mode, "estimated": False, "median": 1.0, "throughput": 1.0, "requests": 4}
        document.keep_run({**kept, **plan}, "now", now)
        document.keep_run({**kept, **other}, "there", there)
        return str(compare_view(document, document.layouts()))

    near = said(
        "latency",
        {"median": 0.010, "interval": [0.009, 0.0115]},
        {"median": 0.012, "interval": [0.011, 0.013]},
    )
    assert "The 95 % intervals overlap" in near and "+2 ms" not in near
    apart = said(
        "latency",
        {"median": 0.010, "interval": [0.0099, 0.0101]},
        {"median": 0.012, "interval": [0.0119, 0.0121]},
    )
    assert "Span(children='+2 ms', className='delta worse')" in apart
    assert "95 % interval 11.9 ms to 12.1 ms" in apart and "intervals overlap" not in apart
    few = said("throughput", {"throughput": 50.0}, {"throughput": 70.0})
    assert "Too few turns for an interval" in few
    ends = [{"throughput": each, "throughput_interval": [each - 1, each + 1]} for each in (50, 70)]
    more = said("throughput", *ends)
    assert "Span(children='+20', className='delta better')" in more
    others = said("throughput", ends[0], {**ends[1], "requests": 8})
    assert "8 in flight, this plan with 4" in others and "children='+20'" not in others


def test_compare_has_joules_where_watts_are_stated(mobilenet: Graph, tmp_path: Path) -> None:
    document = make(Store(str(tmp_path)), mobilenet)
    assert "Energy" not in str(compare_view(document, document.layouts()))
    a, b = (dict(d.entry) for d in document.devices)
    document.set_devices([b, {**a, "power": "15 W"}])  # B, which has the plan then, states none
    text = str(compare_view(document, document.layouts()))
    assert "Energy" in text and "not known" in text and "least energy" not in text
    document.set_devices([{**a, "power": "15 W"}, {**b, "power": "2 W"}])
    text = str(compare_view(document, document.layouts()))
    assert "least energy" in text and "not known" not in text and " mJ" in text
    (least,) = [layout for layout in document.layouts() if layout.name == "least energy"]
    assert least.placement is not None and least.placement.assignment.in_joules
    edit = Automatic(
        do="automatic", policy="optimal:energy", grouping="minimal", costs="estimate", codegen="op"
    )
    _automatic(SimpleNamespace(), document, edit)  # type: ignore[arg-type]  # the server has no part in it
    assert "Energy " in str(outcome(document)) and "Lower bound" in str(outcome(document))


def test_a_layout_that_exceeds_a_memory_says_so(mobilenet: Graph, tmp_path: Path) -> None:
    document = make(Store(str(tmp_path)), mobilenet)
    assert "over the memory of" not in str(compare_view(document, document.layouts()))
    document.set_devices(
        [{**d.entry, "memory": "1MB"} if d.name == "A" else dict(d.entry) for d in document.devices]
    )
    assert "over the memory of A" in str(compare_view(document, document.layouts()))


@pytest.mark.parametrize("painted", [(), (3, 4, 5)], ids=["unsplit", "split"])
def test_the_load_of_the_devices_and_what_a_split_adds_are_the_latency_of_the_status_bar(
    mobilenet: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, painted: tuple[int, ...]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    document = make(Store(str(tmp_path)), mobilenet)
    ops = np.flatnonzero(~mobilenet.op_is_constant)
    for device, each in zip(document.devices, (1e-4, 2e-4), strict=True):
        seconds = {mobilenet.op_keys[op]: each for op in ops.tolist()}
        save_profile(
            mobilenet,
            device,
            DeviceProfile(
                device.description,
                each * len(ops),
                seconds,
                {},
                (),
                1e-3,
                2e-3,
                0.0,
                0.0,
                0.0,
                1,
                split_factor=1.5,
            ),
        )
    document.set_automatic("priority", {"costs": "measured"}, "minimal")
    if painted:
        document.paint(ops[list(painted)].tolist(), 1)
    costs, _ = op_costs(document)
    price = document.placement.price(costs)
    shown = re.findall(
        r"ops in ([\d.]+) (ms|µs), (?:< )?\d+ %",
        re.sub(r"1 op in", "1 ops in", str(plan(document))),
    )
    load = sum(float(number) * {"ms": 1e-3, "µs": 1e-6}[unit] for number, unit in shown)
    used = sum(count > 0 for count in document.placement.op_counts.values())
    assert len(shown) == used and load == pytest.approx(price.compute, rel=0.01)
    whole, _ = price_of(document)
    assert whole is not None and whole.total == pytest.approx(
        load + price.transfers + price.launches, rel=0.01
    )


def test_the_order_of_devices_is_no_other_table(mobilenet: Graph, tmp_path: Path) -> None:
    document = make(Store(str(tmp_path)), mobilenet)
    document.keep_layout("kept")
    document.reorder(["B", "A"])
    kept = document.layouts()[1]
    assert (
        not kept.other_devices
        and kept.placement is not None
        and kept.placement.devices == document.devices
    )


def test_costs_are_called_what_the_figures_come_from(
    mobilenet: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under a policy without costs the list said "estimated" while the figures came from a profile."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    document = make(Store(str(tmp_path)), mobilenet)
    assert costs_value(document) == "estimate"
    keys = [mobilenet.op_keys[op] for op in document.placement.placed_ops]
    for device in document.devices:
        seconds = dict.fromkeys(keys, 1e-4)
        save_profile(
            mobilenet,
            device,
            DeviceProfile(device.description, 1e-2, seconds, {}, (), 1e-5, 0.0, 0.0, 0.0, 0.0, 1),
        )
    assert costs_value(document) == "measured"
    change = Automatic(
        do="automatic", policy="priority", grouping="minimal", costs="estimate", codegen="op"
    )
    _automatic(None, document, change)  # type: ignore[arg-type]  # it needs no server
    assert costs_value(document) == "estimate" and op_costs(document)[1].kind == "estimate"
    measured = change.model_copy(update={"policy": "optimal:latency", "costs": "measured"})
    _automatic(None, document, measured)  # type: ignore[arg-type]
    assert document.placement.settings.policy_options["costs"] == "measured"
    assert op_costs(document)[1].kind == "prediction"


def test_a_change_that_is_being_solved_can_be_cancelled_and_changes_nothing(
    mobilenet: Graph, tmp_path: Path
) -> None:
    document = make(Store(str(tmp_path)), mobilenet)
    before, version = document.placement, document.version
    done = threading.Event()

    def cancel() -> None:
        while not done.wait(0.005):
            document.cancel_change()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    with pytest.raises(EditorError, match="Cancelled"):
        document.set_automatic("optimal", {"objective": "throughput", "search": 300}, "minimal")
    done.set()
    canceller.join()
    assert (document.placement, document.version, len(document.history.steps)) == (
        before,
        version,
        1,
    )
    document.set_automatic("optimal", {}, "minimal")
    assert document.placement.settings.policy == "optimal", (
        "an old cancellation does not end the next change"
    )


def test_undo_comes_back_to_a_placement_without_solving_it_again(
    mobilenet: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = make(Store(str(tmp_path)), mobilenet)
    first = document.placement
    document.set_automatic("optimal", {"objective": "throughput"}, "minimal")
    second = document.placement
    solved: list[object] = []
    monkeypatch.setattr("editor.workspace.solver.solve", lambda *given: solved.append(given))
    assert document.undo() and document.placement is first
    assert document.redo() and document.placement is second and not solved


def test_a_layout_that_was_compared_is_not_solved_again_when_it_is_used(
    mobilenet: Graph, tmp_path: Path
) -> None:
    document = make(Store(str(tmp_path)), mobilenet)
    document.keep_layout("mine")
    document.pin(document.placement.placed_ops[5:9].tolist(), "B")
    said: list[tuple[int, int, str]] = []
    compared = {each.name: each for each in document.layouts(lambda *each: said.append(each))}
    assert [name for *_, name in said] == list(compared) and {total for _, total, _ in said} == {
        len(compared)
    }
    for name in ("mine", "best throughput"):
        layout = document.layout(name)
        assert layout is not None and layout.placement is compared[name].placement
        document.adopt(name, layout.settings)
        assert document.placement is compared[name].placement
    assert document.layout("nobody's") is None


def test_a_new_document_is_solved_once(mobilenet: Graph, tmp_path: Path) -> None:
    store, decisions = Store(str(tmp_path)), first_decisions(Settings("optimal"), TABLE)
    solver = Solver(mobilenet, decisions, {name: Capability.everything(mobilenet) for name in "AB"})
    placement = solver.solve(decisions)
    record = store.create(
        "m", str(mobilenet.path), mobilenet.sha256, {}, {**decisions, "devices_text": "- name: A"}
    )
    assert Document(store, record, solver).placement is placement


def test_estimates_that_are_closer_than_they_can_tell_are_not_ranked(
    mobilenet: Graph, tmp_path: Path
) -> None:
    """Compare called the one CPU runtime faster than the other, by 40 us of shapes."""
    document = make(Store(str(tmp_path)), mobilenet)
    peaks = {"peakCompute": "200 GFLOPS", "peakDramBw": "20 GB/s"}
    document.set_devices([{**entry, **peaks} for entry in TABLE])
    document.paint(document.placement.placed_ops[40:60].tolist(), 1)
    close = str(compare_view(document, document.layouts()))
    assert "'too close to call'" in close and "told apart from 25 % on. Profile first'" in close
    kept, estimate, prediction = 1.0, Kind.ESTIMATE, Kind.PREDICTION
    assert too_close(kept, 1.2, estimate) and not too_close(kept, 1.4, estimate)
    assert too_close(kept, 1.2, prediction, estimate), "the weaker kind counts"
    assert not too_close(kept, 1.2, prediction) and too_close(kept, 1.02, prediction)


def test_a_transfer_says_where_its_time_has_no_size_in_it(mobilenet: Graph, tmp_path: Path) -> None:
    document = make(Store(str(tmp_path)), mobilenet)
    ops = document.placement.placed_ops
    document.pin(ops[40:60].tolist(), "B")
    said = {row["time_from"] for row in transfer_rows(document) if row["kind"] == "transfer"}
    assert said == {"default, any size"}
    document.set_devices([{"name": "A", "backendName": "CPU"}, {"name": "B", "backendName": "NPU"}])
    said = {row["time_from"] for row in transfer_rows(document) if row["kind"] == "transfer"}
    assert said == {"size and link"}
    seconds = dict.fromkeys(document.graph.op_keys, 1e-6)
    profile = DeviceProfile("x", 1.0, seconds, {}, (), 1e-5, 1e-6, 1e-6, 1e-9, 1e-9, 1)
    save_profile(document.graph, document.devices[0], profile)
    try:
        document.set_automatic("priority", {"costs": "measured"}, "minimal")
        said = {row["time_from"] for row in transfer_rows(document) if row["kind"] == "transfer"}
        assert said == {"size, link, profile of A"}, "what the profile adds stood below the link"
    finally:
        profile_path(document.graph, document.devices[0]).unlink()


def test_a_layout_that_was_just_kept_can_be_used_and_forgotten(
    mobilenet: Graph, tmp_path: Path
) -> None:
    """It has the present plan's placement, and was taken for it."""
    document = make(Store(str(tmp_path)), mobilenet)
    document.keep_layout("mine")
    table = str(compare_view(document, document.layouts()))
    assert (
        "Forget “mine”" in table
        and "Make “mine” the current plan" in table
        and "Forget “this plan”" not in table
    )


def test_a_layout_that_differs_in_its_cut_only_is_told_from_one_that_differs_in_nothing(
    tmp_path: Path,
) -> None:
    # two chains with an op on A each: they are not connected, and yet may be one subgraph
    graph = editor.load_model(
        write_dag(tmp_path / "dag.onnx", [[], [0], [1], [2], [0], [4], [5], [6], [3, 7]])
    )
    document = make(Store(str(tmp_path)), graph)
    document.paint(range(9), 1)
    document.paint([2, 5], 0)
    document.keep_layout("fewest")
    same = document.layouts()[:2]
    assert same[0].placement is not None and same[1].placement is not None
    assert same_plan(same[0].placement, same[1].placement)
    assert "same plan" in str(compare_view(document, same)) and "other subgraphs" not in str(
        compare_view(document, same)
    )
    document.set_automatic("priority", {}, "connected")
    other = document.layouts()[:2]
    assert other[0].placement is not None and other[1].placement is not None
    assert not differing(other[0].placement, other[1].placement) and not same_plan(
        other[0].placement, other[1].placement
    )
    assert "other subgraphs" in str(compare_view(document, other)) and "same plan" not in str(
        compare_view(document, other)
    )
