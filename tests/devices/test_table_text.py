"""A device table that is edited and written keeps what a person wrote into its file."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editor.devices.table import load_devices, parse_devices
from editor.devices.table_text import table_text
from editor.yaml_text import load_yaml

EXAMPLES = Path(__file__).parents[2] / "examples" / "devices"
TABLE = """\
---
# The box in the lab, see the wiki.

# The accelerator.
- name: NPU  # slot 2
  backendName: "openvino"
  nonSupportedNodes: Softmax, Gelu  # wrong results before driver 1.4
  memory: 512MiB
# Everything else.
- name: CPU
  # one thread only
  backendName: CPU
- {name: Spare, backendName: Interpreter}
"""


def entries_of(text: str) -> list[dict[str, Any]]:
    return [dict(d.entry) for d in parse_devices(text, "table")]


def test_an_unchanged_table_is_the_file_to_the_letter() -> None:
    assert table_text(entries_of(TABLE), TABLE) == TABLE


def test_a_changed_value_leaves_comments_quotes_and_the_order_of_keys() -> None:
    entries = entries_of(TABLE)
    entries[0]["memory"] = "1GiB"
    assert table_text(entries, TABLE) == TABLE.replace("512MiB", "1GiB")


def test_a_new_key_comes_last_and_a_removed_one_goes() -> None:
    entries = entries_of(TABLE)
    entries[1]["memory"] = "2GiB"
    del entries[0]["memory"]
    assert table_text(entries, TABLE) == TABLE.replace("  memory: 512MiB\n", "").replace(
        "  backendName: CPU\n", "  backendName: CPU\n  memory: 2GiB\n"
    )


def test_comments_above_a_device_move_with_it_and_go_with_it() -> None:
    npu, cpu, spare = entries_of(TABLE)
    moved = table_text([cpu, npu, spare], TABLE)
    assert moved.index("# Everything else.\n- name: CPU") < moved.index(
        "# The accelerator.\n- name: NPU  # slot 2"
    )
    assert moved.startswith("---\n# The box in the lab, see the wiki.\n\n")
    without = table_text([npu, spare], TABLE)
    assert "Everything else" not in without and "# The accelerator.\n- name: NPU" in without


def test_a_new_device_is_added_and_a_renamed_one_written_anew() -> None:
    npu, cpu, spare = entries_of(TABLE)
    text = table_text([npu, cpu, spare, {"name": "GPU", "backendName": "GPU"}], TABLE)
    assert text == TABLE + "- name: GPU\n  backendName: GPU\n"
    assert "- name: Renamed\n  backendName: Interpreter\n" in table_text(
        [npu, cpu, {**spare, "name": "Renamed"}], TABLE
    )


@pytest.mark.parametrize(
    "original",
    [
        "",
        "HETERO:GPU,CPU",
        "[{name: A, backendName: CPU}]",
        "- &x {name: A, backendName: CPU}\n- *x",
        "not: a list",
        "- [",
        "- name: A\n  backendName: &b CPU\n- name: B\n  backendName: *b\n",
    ],
)
def test_a_text_that_cannot_be_edited_is_written_anew(original: str) -> None:
    entries = [{"name": "B", "backendName": "CPU", "memory": "1GiB"}]
    assert load_yaml(table_text(entries, original))[1] == entries


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda p: p.stem)
def test_tables_of_the_examples_stay_as_they_are(path: Path) -> None:
    text = path.read_text()
    assert table_text([d.entry for d in load_devices(path)], text) == text


VALUES = st.one_of(
    st.text(max_size=12),
    st.integers(),
    st.booleans(),
    st.lists(st.text(max_size=5), max_size=3),
    st.dictionaries(st.text(max_size=5), st.text(max_size=8), max_size=2),
)


@given(
    st.permutations(range(3)),
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from(["memory", "properties", "x"]), VALUES),
        max_size=4,
    ),
    st.integers(0, 3),
)
def test_what_is_written_is_what_was_asked_for(
    order: list[int], changes: list[tuple[int, str, Any]], kept: int
) -> None:
    entries = copy.deepcopy(entries_of(TABLE))
    for index, key, value in changes:
        entries[index][key] = value
    wanted = [entries[i] for i in order][:kept] or [entries[0]]
    assert load_yaml(table_text(wanted, TABLE))[1] == wanted
