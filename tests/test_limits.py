"""What strangers hand in is read within limits, and ends in a message."""

from __future__ import annotations

import stat
import time
from pathlib import Path

import pytest

import editor
from editor.devices.table import parse_devices
from editor.placement.rules import parse_rules_text
from editor.workspace.history import Store
from editor.yaml_text import YamlError, load_yaml


def aliases(levels: int, width: int = 9) -> str:
    """A document of a few lines that stands for ``width ** levels`` values."""
    lines = ["a0: &a0 [x]"]
    for level in range(1, levels + 1):
        lines.append(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * width)}]")
    return "\n".join(lines)


def test_aliases_of_aliases_are_refused_at_once() -> None:
    begin = time.monotonic()
    with pytest.raises(YamlError, match="aliases are replaced"):
        load_yaml(aliases(9))
    indented = aliases(9).replace("\n", "\n    ")
    with pytest.raises(editor.DeviceTableError, match="aliases are replaced"):
        parse_devices(f"- name: CPU\n  properties:\n    {indented}", "table")
    with pytest.raises(editor.PinError, match="aliases are replaced"):
        parse_rules_text(aliases(9), "rules")
    assert time.monotonic() - begin < 5


def test_an_alias_of_what_contains_it_is_refused() -> None:
    with pytest.raises(YamlError, match="contains it"):
        load_yaml("a: &a [*a]")


def test_aliases_that_stand_for_little_are_read() -> None:
    node, data = load_yaml("base: &b {memory: 1GiB}\nother: *b")
    assert node is not None and data["other"] == {"memory": "1GiB"}


@pytest.mark.parametrize("text", [
    "- name: 2020-13-45", f"- name: {'9' * 5000}", "- name: CPU\n  deviceID: \"²\"", f"- name: CPU\n  memory: {'9' * 400}",
    "- name: CPU\n  backendName: [1]", f"- name: CPU\n  parameters: \"{'[' * 3000}\"", "- &a [*a]", "- name: CPU\n  link: 5",
    "- name: CPU\n  ? [a, b]\n  : c", "- name: CPU\n  properties: 2020-13-45", "- name: \x00", "[" * 5000,
])
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
