"""The list of slow tests names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from markers import SLOW

TESTS = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("entry", sorted(SLOW))
def test_every_entry_of_the_list_is_a_test(entry: str) -> None:
    file, _, name = entry.partition("::")
    text = (TESTS / file).read_text()
    assert not name or re.search(rf"^ *def {name}\(", text, re.M)
