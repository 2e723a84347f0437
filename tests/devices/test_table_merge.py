"""What somebody changed of a device table stays where the table has changed meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editor.devices.table_merge import merged

A, B, C = ({"name": name, "backendName": "CPU"} for name in "ABC")
NAMES = st.lists(st.sampled_from("ABCDEFG"), unique=True, max_size=6)


def tables(names: list[str]) -> list[dict[str, Any]]:
    return [{"name": name, "memory": ord(name)} for name in names]


@pytest.mark.parametrize(("after", "now", "result"), [
    ([A, {**B, "memory": "1GB"}], [{**A, "memory": "2GB"}, B], [{**A, "memory": "2GB"}, {**B, "memory": "1GB"}]),
    ([A, {**B, "memory": "1GB"}], [A, {**B, "preset": "hailo8"}], [A, {**B, "preset": "hailo8", "memory": "1GB"}]),
    ([A, {**B, "memory": "1GB"}], [B, A], [{**B, "memory": "1GB"}, A]),
    ([A, {**B, "memory": "1GB"}], [A], [A]),
    ([{**A, "name": "D"}, B], [{**A, "memory": "1GB"}, B], [{**A, "name": "D", "memory": "1GB"}, B]),
    ([B, A], [{**A, "memory": "1GB"}, B], [B, {**A, "memory": "1GB"}]),
    ([B], [A, {**B, "memory": "1GB"}], [{**B, "memory": "1GB"}]),
    ([A, B, C], [{**A, "memory": "1GB"}, B], [{**A, "memory": "1GB"}, B, C]),
    ([A, {**B, "memory": "1GB"}], [A, B, C], [A, {**B, "memory": "1GB"}, C])],
    ids=["other device", "other field", "moved meanwhile", "removed meanwhile", "renamed", "moved", "removed", "added",
         "added meanwhile"])
def test_both_changes_stay(after: list[dict[str, Any]], now: list[dict[str, Any]], result: list[dict[str, Any]]) -> None:
    assert merged([A, B], after, now) == result


@given(NAMES, NAMES)
def test_nothing_else_has_changed_and_the_table_is_what_was_made(before: list[str], after: list[str]) -> None:
    assert merged(tables(before), tables(after), tables(before)) == tables(after)


@given(NAMES, NAMES, NAMES)
def test_what_one_of_both_removed_is_gone_and_what_one_of_both_added_is_there(
        before: list[str], after: list[str], now: list[str]) -> None:
    names = {entry["name"] for entry in merged(tables(before), tables(after), tables(now))}
    assert names <= {*after, *now} and {*now} - {*before} <= names
    if len(before) != len(after):  # otherwise a new name may be another name of an old device
        assert {*after} - {*before} <= names and not names & ({*before} - ({*after} & {*now}))
