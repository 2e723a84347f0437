"""Seconds of two command lines: one that does no work, and one that plans ResNet-50.

python benchmarks/starts.py [--repeat 7]
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import ROOT, record, spread

COMMANDS = (
    "--help",
    "partition examples/models/resnet50.onnx --define batch=1 --devices HETERO:CPU --out DIR",
)


def seconds_of(command: str) -> float:
    """Seconds of one run in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = shlex.split(command.replace("DIR", folder))
        start = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "editor", *arguments], cwd=ROOT, capture_output=True, check=True
        )
        return time.perf_counter() - start


def main() -> None:
    """Prints a line per command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=7)
    options = parser.parse_args()
    rows = []
    for command in COMMANDS:
        seconds_of(command)  # compiles what is imported
        taken = spread([seconds_of(command) for _ in range(options.repeat)])
        rows.append({"command": f"`python -m editor {command}`", "median (range)": taken})
        print("  ".join(rows[-1].values()), flush=True)
    record("starts", rows)


if __name__ == "__main__":
    main()
