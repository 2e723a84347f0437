"""A few changed files of each kind, always the same, and those in which ``make fuzz`` found a fault."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run import attempt
from targets import TARGETS, TWO, case

import editor
from editor.devices.table import parse_devices
from editor.placement.rules import parse_rules

FOUND = sorted(path for path in (Path(__file__).parent / "found").rglob("*") if path.is_file())
COUNTS = {"probes": 2, "external": 6}
"""Inputs of a target; 30 for the others."""


@pytest.fixture(autouse=True)
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HETERO_LIMIT_SECONDS", "10")


@pytest.mark.parametrize("target", TARGETS)
def test_changed_files_end_in_a_result_or_a_message(target: str, tmp_path: Path) -> None:
    for number in range(COUNTS.get(target, 30)):
        assert attempt(target, case(target, number), tmp_path) == "", f"{target} {number}"


@pytest.mark.parametrize("path", FOUND, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_fuzzing_found_stays_mended(path: Path, tmp_path: Path) -> None:
    assert attempt(path.parent.name, path.read_bytes(), tmp_path) == ""


PLAIN = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.binary(max_size=3)
    | st.dates()
)
values = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = st.sampled_from(
    [
        "name",
        "backendName",
        "parameters",
        "unit",
        "memory",
        "link",
        "properties",
        "deviceID",
        "supportedNodes",
        "peakCompute",
        "provider",
        "device",
        "codegen",
    ]
)
PATTERNS = st.sampled_from(
    ["type", "name", "regex", "scope", "tensor", "nth", "to", "nodeToPartition", "backendNames"]
)


@settings(max_examples=60, derandomize=True)
@given(st.lists(st.dictionaries(KEYS, values, max_size=4) | values, max_size=3) | values)
def test_tables_of_any_values_are_read_or_refused(entries: object) -> None:
    try:
        editor.load_devices(entries)  # type: ignore[arg-type]
    except editor.EditorError:
        pass


@settings(max_examples=60, derandomize=True)
@given(st.text(max_size=200))
def test_tables_of_any_text_are_read_or_refused(text: str) -> None:
    try:
        parse_devices(text, "table")
    except editor.EditorError:
        pass


@settings(max_examples=60, derandomize=True)
@given(
    st.lists(st.dictionaries(PATTERNS, values, max_size=4), max_size=3)
    | st.dictionaries(PATTERNS, values)
    | values
)
def test_rules_of_any_values_are_read_or_refused(rules: object) -> None:
    try:
        parse_rules(rules)
    except editor.EditorError:
        pass


def test_the_devices_of_the_targets_exist() -> None:
    assert len(editor.load_devices(TWO)) == 2
