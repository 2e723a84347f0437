"""The device table of a document is edited like everything else: solved at once, a step of the history."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import write_dag

import editor
from editor.devices.table import load_devices, parse_devices
from editor.errors import EditorError
from editor.placement.device_profile import DeviceProfile, load_profile, save_profile
from editor.placement.rules import parse_rules
from editor.web.device_fields import changed_entry, with_device
from editor.workspace.document import Document
from editor.workspace.history import Store
from editor.workspace.solver import Solver, first_decisions

TABLE = [
    {"name": "NPU", "backendName": "NPU", "nonSupportedNodes": "Tanh"},
    {"name": "CPU", "backendName": "CPU"},
]


@pytest.fixture
def document(tmp_path: Path) -> Document:
    path = write_dag(tmp_path / "net.onnx", [[], [0], [1]], ["Relu", "Tanh", "Relu"])
    graph = editor.load_model(path)
    plan = editor.partition(graph, TABLE)
    store = Store(str(tmp_path / "workspace"))
    record = store.create(
        "net", str(path), graph.sha256, {}, first_decisions(plan.placement.settings, TABLE)
    )
    abilities = {
        d.name: c
        for d, c in zip(plan.devices, plan.placement.constraints.capabilities, strict=True)
    }
    return Document(store, record, Solver(graph, store.decisions(record.id, 0), abilities))


def devices_of_ops(document: Document) -> list[str]:
    return [document.devices[d].name for d in document.placement.assignment.device.tolist()]


def test_pins_rules_and_options_follow_a_device_that_is_renamed(document: Document) -> None:
    """All pins to it went without a word."""
    document.pin([0], "CPU")
    document.set_rules(parse_rules([{"to": "CPU", "type": "Tanh"}]))
    document.set_automatic("priority", {"first": "NPU"}, "minimal")
    gone = document.set_devices(
        [{**TABLE[0], "name": "Hailo"}, {**TABLE[1], "name": "A53"}], {"CPU": "A53", "NPU": "Hailo"}
    )
    settings = document.placement.settings
    assert (
        gone == 0
        and set(settings.pins.values()) == {"A53"}
        and devices_of_ops(document) == ["A53", "A53", "Hailo"]
    )
    assert [rule.to for rule in settings.rules] == ["A53"] and settings.policy_options[
        "first"
    ] == "Hailo"
    assert document.undo() and set(document.placement.settings.pins.values()) == {"CPU"}


def test_a_planned_device_that_is_renamed_keeps_its_profile(
    document: Document, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its figures became estimates without a word."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    keys = document.graph.op_keys
    profile = DeviceProfile(
        "NPU",
        3e-3,
        dict.fromkeys(keys, 1e-3),
        {},
        (),
        1e-5,
        0.0,
        0.0,
        0.0,
        0.0,
        1,
        origin="a board",
    )
    npu = document.devices[0]
    assert npu.planned
    save_profile(document.graph, npu, profile)
    document.set_devices([{**TABLE[0], "name": "Hailo"}, TABLE[1]], {"NPU": "Hailo"})
    assert (
        load_profile(document.graph, document.devices[0])
        == profile
        == load_profile(document.graph, npu)
    )
    newer = replace(profile, total=5e-3)
    save_profile(document.graph, document.devices[0], newer)
    document.set_devices(TABLE, {"Hailo": "NPU"})
    assert load_profile(document.graph, document.devices[0]) == newer, (
        "not the one that it had under this name before"
    )
    with pytest.raises(EditorError):
        document.set_devices([{**TABLE[0], "name": "CPU"}, TABLE[1]], {"NPU": "CPU"})
    assert load_profile(document.graph, document.devices[1]) is None, (
        "a refused name takes no profile along"
    )


def test_a_second_npu_has_the_name_of_its_preset() -> None:
    table = [{"name": "NPU", "preset": "hailo8"}, {"name": "CPU"}]
    for name in ("edgetpu", "NPU 2"):
        table = with_device(table, "NPU(edgetpu as int8)")
        *_, added, cpu = load_devices(table)
        assert (added.name, added.published.assumes, cpu.name) == (name, "int8", "CPU")


def test_a_second_gpu_is_another_one() -> None:
    table = with_device([{"name": "GPU"}, {"name": "CPU"}], "GPU")
    devices = load_devices(with_device(table, "CPU"))
    assert [(d.name, d.unit) for d in devices] == [
        ("GPU", "0"),
        ("GPU 2", "1"),
        ("CPU", "0"),
        ("CPU 2", "0"),
    ]


def test_a_change_of_the_table_is_solved_at_once_and_can_be_undone(document: Document) -> None:
    assert devices_of_ops(document) == ["NPU", "CPU", "NPU"]
    document.set_devices([{**TABLE[0], "nonSupportedNodes": "Relu"}, TABLE[1]])
    assert devices_of_ops(document) == ["CPU", "NPU", "CPU"]
    assert document.history.current.label == "devices: NPU: block-list Relu"
    assert document.undo() and devices_of_ops(document) == ["NPU", "CPU", "NPU"]
    assert document.redo() and devices_of_ops(document) == ["CPU", "NPU", "CPU"]


def test_devices_are_added_and_removed_and_pins_to_removed_ones_go(document: Document) -> None:
    document.set_devices([*TABLE, {"name": "GPU", "backendName": "GPU"}])
    document.paint([0], 2)
    document.paint([1], 1)
    assert devices_of_ops(document)[0] == "GPU"
    assert document.set_devices(TABLE) == 1
    assert list(document.placement.settings.pins.values()) == ["CPU"]
    assert document.undo() and len(document.placement.settings.pins) == 2


def test_published_limits_hold_as_soon_as_a_preset_is_chosen(document: Document) -> None:
    document.set_devices([{"name": "NPU", "backendName": "NPU", "preset": "edgetpu"}, TABLE[1]])
    assert devices_of_ops(document) == ["CPU"] * 3


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [{"name": "X", "backendName": "nowhere"}],
        [TABLE[0], TABLE[0]],
        [{**TABLE[0], "memory": "much"}],
        [TABLE[0]],
    ],
)
def test_an_invalid_table_changes_nothing(
    document: Document, entries: list[dict[str, str]]
) -> None:
    before = document.version
    with pytest.raises(EditorError):
        document.set_devices(entries)
    assert document.version == before and devices_of_ops(document) == ["NPU", "CPU", "NPU"]


def test_comments_of_the_file_stay_when_its_table_was_edited_and_the_document_opened_again(
    document: Document,
) -> None:
    text = "# For the lab.\n- name: NPU  # slot 2\n  backendName: NPU\n- name: CPU\n  backendName: CPU\n"
    first = first_decisions(
        document.placement.settings, [dict(d.entry) for d in parse_devices(text, "lab.yaml")], text
    )
    record = document.store.create(
        "net", str(document.graph.path), document.graph.sha256, {}, first
    )
    with_text = Document(document.store, record, Solver(document.graph, first, {}))
    assert with_text.devices_text == text
    npu, cpu = (dict(d.entry) for d in with_text.devices)
    with_text.set_devices([cpu, {**npu, "memory": "1GiB"}])
    record = document.store.get(record.id) or record
    assert Document(document.store, record, Solver(document.graph, first, {})).devices_text == (
        "# For the lab.\n- name: CPU\n  backendName: CPU\n- name: NPU  # slot 2\n  backendName: NPU\n  memory: 1GiB\n"
    )
    assert "devices_text" not in document.store.decisions(record.id, 1), "the text is stored once"


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        ("memory", "16", "16 would be 16 bytes: write the unit, e.g. 16 MB"),
        ("peakDramBw", "900", "900 GB/s"),
        ("peakCompute", "4", "4 would be 4 operations/s"),
        ("bandwidth", "12.5", "12.5 would be 12.5 bytes/s"),
        ("latency", "10", "10 would be 10 s: write the unit, e.g. 10 us"),
    ],
)
def test_a_number_that_lacks_its_unit_is_asked_for_it(key: str, text: str, said: str) -> None:
    """They were taken as bytes and seconds: a run of 235,002 s."""
    with pytest.raises(EditorError, match=re.escape(said)):
        changed_entry({"name": "NPU"}, key, text)
    for meant in (
        "",
        "0",
        f"{text} us" if key == "latency" else f"{text} GB",
        "1e-5" if key == "latency" else "16777216",
    ):
        changed_entry({"name": "NPU"}, key, meant)
