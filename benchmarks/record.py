"""Figures of the benchmarks: one JSON file per claim in `benchmarks/results`, and RESULTS.md made of these files.

    RECORD=1 python benchmarks/scale.py     # measures, and writes its figures into its file
    python -m benchmarks.record             # makes RESULTS.md of all files

A person writes the claim, the section and the notes of a file; a script that runs with ``RECORD=1`` replaces the rest.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from statistics import median

import psutil

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "benchmarks" / "results"
PAGE = ROOT / "benchmarks" / "RESULTS.md"
SECTIONS = (
    "Placement",
    "Subgraphs",
    "Scale",
    "Exactness",
    "What a cut costs",
    "Deciding by profiles",
    "Predicted and measured",
    "Memory",
    "Language models",
    "GPU",
    "Devices",
    "Machines",
    "The page",
    "The server",
    "Hostile input",
)
BUSY = 1.0
"""Load average above which other programs had a share in the figures."""
_SCRIPT = Path(sys.argv[0]).resolve()
"""Before a script changes its folder."""
_LOAD = float(os.environ.get("LOAD") or psutil.getloadavg()[0])
_HEAD = """<!-- Made by `python -m benchmarks.record` from benchmarks/results/*.json. -->
# Measured results

The newest figures of each claim; `git log benchmarks/results` has earlier ones. Ratios travel from machine to machine,
times do not. `make results` measures again what two cores can in about twenty minutes, `RECORD=1 python benchmarks/NAME.py`
any other. DIR stands for a folder of models outside the repository. [Measuring](../docs/explanation/measuring.md) says how
figures are taken.
"""


@dataclass(frozen=True)
class Result:
    """A claim with its figures."""

    claim: str
    """One sentence."""
    section: str
    command: str
    date: str
    commit: str
    """Of the code that was measured, or that added the figures ("recorded in ..."); "" where neither is known."""
    machine: str
    load: float | None
    """Load average before the first figure; None where it was not kept."""
    columns: list[str]
    rows: list[list[str]]
    notes: list[str]

    def markdown(self) -> str:
        """The claim as a part of the page."""
        lines = [self.columns, ["---"] * len(self.columns), *self.rows]
        commit = (
            self.commit if "recorded" in self.commit else f"commit {self.commit or 'not recorded'}"
        )
        source = f"`{self.command}`, {self.date}, {commit}; {self.machine}."
        if self.load is not None and self.load > BUSY:
            source += f" Beside other work: load average {self.load:.1f} at the start."
        cells = ([cell.replace("|", "\\|") for cell in line] for line in lines)
        table = "\n".join(f"| {' | '.join(line)} |" for line in cells)
        notes = "\n".join(f"- {note}" for note in [source, *self.notes])
        return f"### {self.claim}\n\n{table}\n\n{notes}\n"


def read(path: Path) -> Result:
    """The content of a file."""
    return Result(**json.loads(path.read_text(encoding="utf-8")))


def page() -> str:
    """RESULTS.md: claims by section, then by the name of their file."""
    results = [read(path) for path in sorted(FOLDER.glob("*.json"))]
    parts = [_HEAD]
    for section in SECTIONS:
        found = [result.markdown() for result in results if result.section == section]
        parts += [f"## {section}\n", *found] if found else []
    return "\n".join(parts)


def record(name: str, rows: Sequence[Mapping[str, str]]) -> None:
    """Writes figures into the file of a claim, where the environment says ``RECORD=1``.

    Args:
        name: of the file, without its suffix. It has the claim already.
        rows: column to text, each with the same columns.
    """
    if os.environ.get("RECORD") != "1":
        return
    path = FOLDER / f"{name}.json"
    found = replace(
        read(path),
        command=_command(),
        date=datetime.now(UTC).date().isoformat(),
        commit=_commit(),
        machine=_machine(),
        load=round(_LOAD, 1),
        columns=list(rows[0]),
        rows=[list(row.values()) for row in rows],
    )
    path.write_text(json.dumps(asdict(found), indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(f"recorded in {path}: do its claim and notes still hold?", file=sys.stderr)


def spread(values: Sequence[float], unit: str = "s", digits: int = 2) -> str:
    """The median and the range, as text."""
    return (
        f"{median(values):.{digits}f} {unit} ({min(values):.{digits}f} to {max(values):.{digits}f})"
    )


def _command() -> str:
    arguments = ["DIR" if argument.startswith("/") else argument for argument in sys.argv[1:]]
    return shlex.join(["python", _SCRIPT.relative_to(ROOT).as_posix(), *arguments])


@cache
def _commit() -> str:
    own = (":!benchmarks/results", f":!{PAGE.relative_to(ROOT)}")
    changed = _output("git", "status", "--porcelain", "--", ".", *own)
    return _output("git", "rev-parse", "--short=9", "HEAD") + (" with changes" if changed else "")


def _machine() -> str:
    from editor.operating_system import cpu_name  # only a script with figures needs the editor

    gpus = [
        line.split(":")[1].split("(")[0].strip()
        for line in _output("nvidia-smi", "-L").splitlines()
    ]
    versions = [f"Python {platform.python_version()}"]
    for name in ("onnxruntime", "openvino", "ortools"):
        if name in sys.modules:
            versions.append(f"{name} {sys.modules[name].__version__.split('-')[0]}")
    hardware = [f"{cpu_name()}, {os.cpu_count()} cores", *gpus]
    return f"{', '.join(hardware)}; {', '.join(versions)}"


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip()


if os.environ.get("RECORD") == "1":
    _commit()  # that of the code which is measured, whatever is committed meanwhile
if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
