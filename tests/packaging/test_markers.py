"""The lists of tests name tests that exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from markers import FULL, NOT_FULL, SLOW

TESTS = Path(__file__).resolve().parents[1]


def test_every_entry_of_the_lists_is_a_test() -> None:
    def is_test(entry: str) -> bool:
        file, _, name = entry.partition("::")
        if not name:
            return (TESTS / file).exists()
        text = (TESTS / file).read_text() if (TESTS / file).exists() else ""
        return bool(re.search(rf"^ *def {name}\(", text, re.M))

    assert not [entry for entry in sorted(SLOW | FULL | NOT_FULL) if not is_test(entry)]


@pytest.mark.parametrize("entry", sorted(NOT_FULL))
def test_every_exception_is_one(entry: str) -> None:
    file = entry.partition("::")[0]
    assert {file, file.partition("/")[0]} & FULL


def test_two_make_targets_run_every_test_once() -> None:
    makefile = (TESTS.parent / "Makefile").read_text()
    assert re.findall(r"\.ci/tests (.+)", makefile) == ['"not full"', "full"]
    assert re.findall(r"make ([a-z-]+)", (TESTS.parent / ".ci" / "run").read_text()) == [
        "test",
        "test-all",
    ]


def test_a_test_that_fails_fails_the_run(tmp_path: Path) -> None:
    """Failures ran once more, and a fault that came and went turned nothing red."""
    (tmp_path / ".ci").mkdir()
    script = tmp_path / ".ci" / "tests"
    script.write_text((TESTS.parent / ".ci" / "tests").read_text())
    (tmp_path / "test_now_and_then.py").write_text(
        "from pathlib import Path\n\n"
        "def test_now_and_then():\n"
        "    seen = Path('seen')\n"
        "    assert seen.exists() or seen.touch()\n"
    )
    environment = {**os.environ, "VENV": sys.prefix, "JOBS": "1"}
    environment.pop("PYTEST_XDIST_WORKER", None)
    done = subprocess.run(
        ["bash", script, "not full"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed" in done.stdout.strip().splitlines()[-1]
