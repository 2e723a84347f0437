"""The files of `benchmarks/results` have their form, and RESULTS.md is made of them."""

from __future__ import annotations

import ast
import json
import re
import shlex
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from conftest import ROOT

from benchmarks import record

FILES = sorted(record.FOLDER.glob("*.json"))


def test_results_md_is_what_the_files_give() -> None:
    assert record.PAGE.read_text(encoding="utf-8") == record.page(), (
        "run python -m benchmarks.record"
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_result_says_what_when_where_and_how(path: Path) -> None:
    result = record.read(path)
    assert result.claim and not result.claim.endswith(".")
    assert result.section in record.SECTIONS
    assert date.fromisoformat(result.date) and result.machine
    assert re.fullmatch(r"|(recorded in )?[0-9a-f]{7,}( with changes)?", result.commit)
    assert result.rows
    for row in (result.columns, *result.rows):
        assert len(row) == len(result.columns) and all(isinstance(cell, str) for cell in row)
    python, *command = shlex.split(result.command)
    assert python == "python"
    script = f"{command[1].replace('.', '/')}" if command[0] == "-m" else command[0]
    if script != "pytest":
        assert any(
            (ROOT / name).is_file() for name in (script, f"{script}.py", f"{script}/__main__.py")
        )


def test_each_script_records_into_files_that_are_there() -> None:
    """Otherwise the figures of hours would be lost at the end."""
    found = 0
    for script in (ROOT / "benchmarks").glob("*.py"):
        for call in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "record":
                name = call.args[0]
                values = [name.body, name.orelse] if isinstance(name, ast.IfExp) else [name]
                for value in values:
                    if isinstance(value, ast.Constant):
                        assert (record.FOLDER / f"{value.value}.json").is_file(), script
                        found += 1
    assert found > 20


def test_a_script_replaces_the_figures_and_keeps_the_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = record.read(FILES[0])
    (tmp_path / "some.json").write_text(FILES[0].read_text(encoding="utf-8"), "utf-8")
    monkeypatch.setattr(record, "FOLDER", tmp_path)
    monkeypatch.setattr(record, "_SCRIPT", ROOT / "benchmarks" / "scale.py")
    monkeypatch.setattr(sys, "argv", ["scale.py", "/elsewhere", "--ops", "3"])
    monkeypatch.delenv("RECORD", raising=False)
    record.record("some", [{"what": "load", "3 ops": "1 s"}])
    assert record.read(tmp_path / "some.json") == before
    monkeypatch.setenv("RECORD", "1")
    record.record("some", [{"what": "load", "3 ops": "1 s"}])
    after = record.read(tmp_path / "some.json")
    assert (after.claim, after.notes) == (before.claim, before.notes)
    assert (after.columns, after.rows) == (["what", "3 ops"], [["load", "1 s"]])
    assert after.command == "python benchmarks/scale.py DIR --ops 3"
    assert re.match("[0-9a-f]{9}", after.commit) and "cores; Python 3" in after.machine
    assert after.load is not None


def test_a_reader_learns_of_other_work_and_of_a_commit_that_is_not_known() -> None:
    result = replace(record.read(FILES[0]), load=2.34, commit="")
    assert "Beside other work: load average 2.3" in result.markdown()
    assert "commit not recorded" in result.markdown()
    quiet = replace(result, load=0.4, commit="0123abc")
    assert "Beside other work" not in quiet.markdown() and "commit 0123abc;" in quiet.markdown()


def test_a_cell_cannot_end_its_column() -> None:
    result = replace(record.read(FILES[0]), columns=["a"], rows=[["x | y"]])
    assert "| x \\| y |" in result.markdown()


def test_the_claim_of_a_file_is_a_heading_once() -> None:
    claims = [json.loads(path.read_text(encoding="utf-8"))["claim"] for path in FILES]
    assert len(set(claims)) == len(claims)
