"""`make lint` refuses locks that do not fit, and licences that nobody has decided on."""

from __future__ import annotations

import importlib.util

import pytest
from conftest import ROOT

_SPEC = importlib.util.spec_from_file_location("dependencies", ROOT / ".ci" / "dependencies.py")
assert _SPEC and _SPEC.loader
dependencies = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(dependencies)

LOCK = """numpy==2.4.6 \\
    --hash=sha256:00
    # via hetero-editor (pyproject.toml)
six==1.17.0 \\
    --hash=sha256:00
    # via numpy
"""


@pytest.mark.parametrize(
    ("lock", "wanted", "fault"),
    [
        (LOCK, ["numpy>=2.4,<3"], ""),
        (LOCK.replace("2.4.6", "2.3.0"), ["numpy>=2.4,<3"], "numpy 2.3.0 does not fit"),
        (LOCK, ["numpy>=2.4,<3", "onnx>=1"], "onnx is missing"),
        (LOCK, [], "numpy is not in pyproject.toml"),
        (
            LOCK.replace(" \\\n    --hash=sha256:00\n    # via numpy", "\n    # via numpy"),
            ["numpy"],
            "six 1.17.0 has no hash",
        ),
    ],
)
def test_a_lock_that_does_not_fit_is_named(lock: str, wanted: list[str], fault: str) -> None:
    found = dependencies.faults_of_lock("requirements.txt", lock, wanted)
    assert len(found) == bool(fault) and fault in "".join(found)


@pytest.mark.parametrize(
    ("licence", "good"),
    [
        ("MIT", True),
        ("MPL-2.0 AND MIT", True),
        ("GPL-3.0 OR BSD-3-Clause", True),
        ("GPL-3.0", False),
        ("MIT AND LGPL-2.1", False),
        ("UNKNOWN", False),
    ],
)
def test_licences_outside_the_list_are_refused(licence: str, good: bool) -> None:
    assert (dependencies.faults_of_licences([{"Name": "x", "License": licence}]) == []) == good
