"""A CSV file of a hostile model does nothing in a spreadsheet, and comes back as it was."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from conftest import save_net
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

import editor
from editor.imports.affinity_files import read_affinities
from editor.text import from_spreadsheet_cell, spreadsheet_cell

EVIL = ['=HYPERLINK("http://evil.example")', "+1+1", "-2+3", "@SUM(A1)", "\tx", "'=already"]


def test_no_cell_is_a_formula_and_the_import_finds_the_ops(tmp_path: Path) -> None:
    """Names of ops went into the cells as they were."""
    nodes = [
        helper.make_node("Neg", [EVIL[i - 1] if i else "x"], [key], key)
        for i, key in enumerate(EVIL)
    ]
    value = helper.make_tensor_value_info
    save_net(
        tmp_path / "evil.onnx",
        nodes,
        [value("x", TensorProto.FLOAT, [2])],
        [value(EVIL[-1], TensorProto.FLOAT, [2])],
        name="evil",
    )
    (path,) = editor.partition(editor.load_model(tmp_path / "evil.onnx"), "HETERO:CPU").export(
        "csv", tmp_path / "out"
    )
    cells = [
        cell
        for row in csv.reader(line for line in path.open() if not line.startswith("#"))
        for cell in row
    ]
    assert not [
        cell
        for cell in cells
        if cell[:1] in "=+-@\t\r" and cell and not cell.lstrip("+-").isdigit()
    ]
    assert set(read_affinities(path).affinities) == set(EVIL)


@given(st.text(alphabet="'=+-@\t\rx1."))
def test_every_text_comes_back(text: str) -> None:
    cell = spreadsheet_cell(text)
    assert isinstance(cell, str) and from_spreadsheet_cell(cell) == text


@pytest.mark.parametrize("number", [-5, -2.5, "-5", "+1e3"])
def test_numbers_stay_numbers(number: object) -> None:
    assert spreadsheet_cell(number) == number
