"""What strangers hand in is read within limits, and ends in a message."""

from __future__ import annotations

import json
import os
import re
import stat
import threading
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from conftest import save_net, write_dag
from onnx import helper

import editor
from editor.__main__ import main as command_line
from editor.devices.table import parse_devices
from editor.execution.inputs import read_inputs
from editor.execution.jobs import job_service
from editor.imports.affinity_files import read_affinities
from editor.operating_system import memory_of
from editor.placement import rules as patterns
from editor.placement.rules import load_rules, parse_rules, parse_rules_text
from editor.web.launch import main as launch
from editor.workspace.history import Store
from editor.yaml_text import YamlError, load_yaml


def aliases(levels: int, width: int = 9) -> str:
    """A document of a few lines that stands for ``width ** levels`` values."""
    lines = ["a0: &a0 [x]"]
    for level in range(1, levels + 1):
        lines.append(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * width)}]")
    return "\n".join(lines)


def test_aliases_of_aliases_are_refused_at_once() -> None:
    with pytest.raises(YamlError, match="aliases are replaced"):
        load_yaml(aliases(9))
    indented = aliases(9).replace("\n", "\n    ")
    with pytest.raises(editor.DeviceTableError, match="aliases are replaced"):
        parse_devices(f"- name: CPU\n  properties:\n    {indented}", "table")
    with pytest.raises(editor.PinError, match="aliases are replaced"):
        parse_rules_text(aliases(9), "rules")


def test_an_alias_of_what_contains_it_is_refused() -> None:
    with pytest.raises(YamlError, match="contains it"):
        load_yaml("a: &a [*a]")


def test_aliases_that_stand_for_little_are_read() -> None:
    node, data = load_yaml("base: &b {memory: 1GiB}\nother: *b")
    assert node is not None and data["other"] == {"memory": "1GiB"}


@pytest.mark.parametrize(
    "text",
    [
        "- name: 2020-13-45",
        f"- name: {'9' * 5000}",
        '- name: CPU\n  deviceID: "²"',
        f"- name: CPU\n  memory: {'9' * 400}",
        "- name: CPU\n  backendName: [1]",
        f'- name: CPU\n  parameters: "{"[" * 3000}"',
        "- &a [*a]",
        "- name: CPU\n  link: 5",
        "- name: CPU\n  ? [a, b]\n  : c",
        "- name: CPU\n  properties: 2020-13-45",
        "- name: \x00",
        "[" * 5000,
    ],
)
def test_odd_tables_are_messages(text: str) -> None:
    with pytest.raises(editor.DeviceTableError):
        parse_devices(text, "table")


@pytest.mark.parametrize("path", ["/dev/zero", "/", "a\0b", "x" * 5000])
def test_only_regular_files_are_device_tables(path: str) -> None:
    with pytest.raises(editor.DeviceTableError):
        editor.load_devices(path)


def test_a_device_table_has_at_most_a_mebibyte(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text("# " + "x" * (1 << 20) + "\n- name: CPU\n")
    with pytest.raises(editor.DeviceTableError, match="at most 1,048,576"):
        editor.load_devices(tmp_path / "t.yaml")


def test_a_table_s_error_does_not_repeat_the_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("- root:x:0:0:secret\n")
    with pytest.raises(editor.DeviceTableError) as error:
        editor.load_devices(tmp_path / "secret")
    assert "secret\n" not in str(error.value) and "root:x" not in str(error.value)


def test_a_new_workspace_is_its_owner_s_alone(tmp_path: Path) -> None:
    Store(str(tmp_path / "workspace"))
    assert stat.S_IMODE((tmp_path / "workspace").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "workspace" / "workspace.db").stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["file", "x" * 5000, "a\0b"])
def test_a_workspace_that_cannot_be_is_a_message(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(editor.EditorError, match="workspace"):
        Store(str(tmp_path / name))


def names(path: Path, count: int = 300) -> editor.Graph:
    """A model whose ops have long names that nearly match hostile patterns."""
    nodes = [
        helper.make_node("Neg", [f"t{i}"], [f"t{i + 1}"], "x" * 60 + str(i)) for i in range(count)
    ]
    ends = [helper.make_tensor_value_info(name, 1, [4]) for name in ("t0", f"t{count}")]
    return editor.load_model(save_net(path, nodes, ends[:1], ends[1:]))


@pytest.mark.parametrize(
    "pattern", ["(.*)*(.*)*(.*)*(.*)*x!", "(a|a)*b", "(x+x+)+y", ".*x.{300}!", "([a-z]?){300}!"]
)
def test_regular_expressions_take_a_second_for_all_names(pattern: str, tmp_path: Path) -> None:
    graph = names(tmp_path / "m.onnx")
    try:
        editor.partition(graph, "HETERO:GPU", rules=[{"regex": pattern, "to": "GPU"}])
    except editor.PinError as error:
        assert "more than 1 s" in str(error)


def test_globs_have_a_limit_of_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "MATCH_SECONDS", 0.0)
    with pytest.raises(editor.PinError, match=r"more than 0 s.*\*x\*"):
        editor.partition(
            names(tmp_path / "m.onnx"), "HETERO:GPU", rules=[{"name": "*x*", "to": "GPU"}]
        )


@pytest.mark.parametrize(
    "pattern",
    [
        "a{99999999999999}",
        "(" * 3000,
        "[" * 3000,
        "((a{999}){999}){999}",
        "(?=a)",
        "(a)\\1",
        "a" * 5000,
        "\ud800",
        "*",
        "(?P<n",
    ],
)
def test_expressions_that_cannot_be_are_messages(pattern: str) -> None:
    with pytest.raises(editor.PinError, match=r"rules, rule 1: "):
        parse_rules([{"regex": pattern, "to": "GPU"}])


@pytest.mark.parametrize(
    "data",
    [
        {"nodeToPartition": {"a": 0}, "backendNames": 5},
        {"nodeToPartition": [1]},
        {"nodeToPartition": {"a": "b"}},
        5,
        [5],
        [[]],
        [{"nth": "9" * 5000, "to": "GPU"}],
        [{"to": {}}],
        [{1: 2}],
        {"nodeToPartition": {"x" * 9000: 0}, "backendNames": ["CPU"]},
    ],
)
def test_odd_rules_are_messages(data: object) -> None:
    with pytest.raises(editor.PinError):
        parse_rules(data)


@pytest.mark.parametrize("path", ["/dev/zero", "/", "a\0b", "x" * 5000, "/nowhere"])
def test_only_regular_files_are_read(path: str) -> None:
    for read in (
        editor.load_model,
        editor.load_plan,
        load_rules,
        lambda p: read_affinities(Path(p + ".csv")),
    ):
        with pytest.raises(editor.EditorError) as error:
            read(path)
        assert len(str(error.value)) < 500


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("limits")
    graph = editor.load_model(write_dag(folder / "net.onnx", [[], [0]]))
    return editor.partition(graph, [{"name": "A", "backendName": "CPU"}]).save(folder / "plan.json")


@pytest.mark.parametrize(
    "change",
    [
        {"version": "@" + "9" * 5000},
        {"model": {"path": "net.onnx", "define": {"n": "@1e999"}}},
        {"affinities": []},
        {"model": {"path": "x" * 5000}},
        {"model": {"path": "a\0b"}},
        {"model": [1]},
        {"model": {"path": 5}},
        {"devices": [5]},
        {"devices": {"a": 1}},
        {"forced": 5},
        {"pins": []},
        {"policy": {"name": [], "options": {}}},
        {"rules": {"a": []}},
        {"policy": {"name": "priority", "options": {"a": 1}}},
        {"policy": {"name": "optimal", "options": {"objective": []}}},
        {"pins": {"t0": []}},
        {"subgraph_rule": {}},
        {"model": {"path": "net.onnx", "define": {"n": -1}}},
    ],
)
def test_damaged_plans_are_messages(change: dict[str, object], plan: Path) -> None:
    damaged = plan.with_name("damaged.json")
    text = json.dumps({**json.loads(plan.read_text()), **change})
    damaged.write_text(re.sub(r'"@([^"]*)"', r"\1", text))
    with pytest.raises(editor.EditorError):
        editor.load_plan(damaged)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", '{"format": "hetero-editor/plan", "model": [1], "affinities": 5}'),
        ("a.json", "[" * 100_000),
        ("a.json", "9" * 5000),
        (
            "a.json",
            '{"format": "hetero-editor/plan", "model": {"path": "a\\u0000b"}, "affinities": {"t0": []}}',
        ),
        (
            "a.json",
            '{"format": "hetero-editor/onnxruntime", "nodes": {"t0": {}}, "devices": {"d": {"name": []}}}',
        ),
        ("a.json", '{"nodeToPartition": {"a": {}}, "backendNames": 5}'),
        ("a.json", '{"nodeToPartition": [[]]}'),
        ("a.csv", "op,device\n" + "x" * 200_000 + ",A\n"),
        ("a.csv", 'op,device\n"' + "x" * 200_000),
        ("a.csv", ""),
        ("a.dot", "digraph {\0}"),
        ("a.onnx", "no model"),
        ("a.yaml", "[" * 5000),
        ("a.yaml", "a: &a [*a]"),
        ("a.yaml", "- 5"),
    ],
)
def test_damaged_imports_are_messages(name: str, text: str, plan: Path, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(editor.EditorError):
        editor.load_plan(plan).import_affinities(tmp_path / name)


@pytest.mark.parametrize(
    "sidecar",
    ["", "[", "[]", "{}", '{"devices": 5}', '{"devices": {"d": {"name": []}}}', "9" * 5000],
)
def test_a_garbage_sidecar_is_a_message(sidecar: str, plan: Path, tmp_path: Path) -> None:
    model = onnx.load(write_dag(tmp_path / "m_annotated.onnx", [[], [0]]))
    entry = model.graph.node[0].metadata_props.add()
    entry.key, entry.value = "layer_ann", "d"
    onnx.save(model, tmp_path / "m_annotated.onnx")
    (tmp_path / "m_session.json").write_text(sidecar)
    with pytest.raises(editor.EditorError):
        editor.load_plan(plan).import_affinities(tmp_path / "m_annotated.onnx")


def header(shape: str, kind: str = "<f4") -> bytes:
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK\x03\x04",
        b"PK\x05\x06" + b"\0" * 18,
        header("(4,)"),
        header("(1 << 40,)"),
        header("(-1,)"),
        header("((,)"),
        header("(4,)", "|O"),
        header(f"({1 << 62}, 4)"),
        header(f"({'9' * 40},)"),
    ],
)
def test_damaged_arrays_are_messages(content: bytes, plan: Path, tmp_path: Path) -> None:
    (tmp_path / "plain.npz").write_bytes(content)
    with zipfile.ZipFile(tmp_path / "zipped.npz", "w") as archive:
        archive.writestr("x.npy", content)
    for name in ("plain.npz", "zipped.npz"):
        with pytest.raises(editor.ExecutionError):
            read_inputs(editor.load_plan(plan).graph, tmp_path / name)


def test_arrays_that_do_not_fit_are_not_read(plan: Path, tmp_path: Path) -> None:
    """A few bytes that stand for a gigabyte."""
    with (
        zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("x.npy", "w") as file,
    ):
        file.write(header(f"({1 << 28},)"))
        for _ in range(4):
            file.write(bytes(1 << 24))
    before = memory_of(os.getpid())
    with pytest.raises(editor.ExecutionError, match="must have the shape 4"):
        read_inputs(editor.load_plan(plan).graph, tmp_path / "bomb.npz")
    assert memory_of(os.getpid()) - before < 100 << 20


def test_many_arrays_are_refused(plan: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "many.npz", **{f"a{i}": np.zeros(1) for i in range(300)})
    with pytest.raises(editor.ExecutionError, match="300 arrays, and the model has 1 inputs"):
        read_inputs(editor.load_plan(plan).graph, tmp_path / "many.npz")


def external(path: Path, location: str) -> Path:
    """A model whose weight is said to be in another file."""
    model = onnx.load(write_dag(path, [[], [0]]))
    weight = model.graph.initializer.add(name="w", data_type=1, dims=[4], data_location=1)
    weight.external_data.add(key="location", value=location)
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("location", ["a\0b", "x" * 5000, "y" * 300])
def test_odd_locations_of_external_data_do_no_harm(location: str, tmp_path: Path) -> None:
    try:
        editor.load_model(external(tmp_path / "m.onnx", location))
    except editor.ModelError as error:
        assert "not a path" in str(error)


def test_external_data_that_is_a_hard_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"0" * 16)
    (tmp_path / "model").mkdir()
    os.link(tmp_path / "secret", tmp_path / "model" / "w.data")
    with pytest.raises(editor.ModelError, match="hard link"):
        editor.load_model(external(tmp_path / "model" / "m.onnx", "w.data"))


def test_names_that_are_not_text_are_messages(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", 1, ["SIZE"])],
        [helper.make_tensor_value_info("y", 1, ["SIZE"])],
    )
    data = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    ).SerializeToString()
    (tmp_path / "m.onnx").write_bytes(data.replace(b"SIZE", b"\xff\xfe\xfd\xfc"))
    with pytest.raises(editor.ModelError, match="not UTF-8"):
        editor.load_model(tmp_path / "m.onnx", {"n": 1})


@pytest.mark.parametrize("address", ["nonsense", "tcp://", "tcp://a:b", "x://y:1"])
def test_a_scheduler_that_cannot_be_is_a_message(address: str) -> None:
    with pytest.raises(editor.JobError, match="no Dask scheduler"):
        job_service(address).start()


@pytest.mark.parametrize("size", ["²", "9" * 5000, "-1", "", "1e9"])
def test_a_size_that_is_no_number_is_a_usage_error(
    size: str, capsys: pytest.CaptureFixture[str]
) -> None:
    partition = ["partition", "m.onnx", "--devices", "HETERO:CPU", "--out", "."]
    for main, arguments in ((launch, ["m.onnx"]), (command_line, partition)):
        with pytest.raises(SystemExit, match="2"):
            main([*arguments, "--define", f"n={size}"])
        assert "usage" in capsys.readouterr().err


def test_a_second_name_that_goes_away_again_is_waited_for(tmp_path: Path) -> None:
    """While OpenVINO imports a model, its data file has one; who opened the model then was told of a hard link."""
    path = external(tmp_path / "m.onnx", "w.data")
    (tmp_path / "w.data").write_bytes(b"0" * 16)
    os.link(tmp_path / "w.data", tmp_path / "second")
    timer = threading.Timer(0.3, (tmp_path / "second").unlink)
    timer.start()
    editor.load_model(path)
    assert not (tmp_path / "second").exists()
