"""How well a profile's costs of a split describe other splits, on a machine whose speed changes all the time.

    python benchmarks/split_costs.py --pack DIR [MODEL...] [--seconds 10] [--json FILE]

`benchmarks/prediction.py` holds a profile against a benchmark minutes later, and most of what it finds is the machine. Here
the splits that a profile measures run in the same turns as splits that it does not know (3, 6, 8 and 20 stripes, random
blocks, and the model on one device but for 1 or 8 ops, over ONNX Runtime and OpenVINO), so the error that is left is that of
the costs. DIR is the pack after ``prepare()``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from prediction import random_blocks
from tuning import TABLE, load

from benchmarks.record import record
from editor.devices.device import Device
from editor.devices.table import load_devices
from editor.execution.executor import compile_placement
from editor.execution.measure.profile import (
    Split,
    Unsplit,
    all_but_few,
    compiled_splits,
    fitted,
    profile_all,
    run_in_turns,
    stripes,
)
from editor.graph.graph import Graph
from editor.placement.device_profile import measured, scaled
from editor.placement.placement import Settings, solve

UNKNOWN = (3, 6, 8, 20)
ELSEWHERE = (1, 8)


def errors(
    graph: Graph, devices: Sequence[Device], values: Mapping[str, Any], seconds: float
) -> dict[str, float]:
    """Split that the profile does not know -> relative error of its prediction."""
    profiles = {
        name: p for name, p in profile_all(graph, devices, 3.0).items() if not isinstance(p, str)
    }
    known = compiled_splits(graph, devices, 0)
    unsplit = {d.name: _unsplit(graph, d, devices) for d in devices}
    others = {f"{n} stripes": stripes(graph, devices, n) for n in UNKNOWN}
    others |= {
        f"all but {n} on {d.name}": all_but_few(graph, devices, i, n)
        for n in ELSEWHERE
        for i, d in enumerate(devices)
    }
    others["random blocks"] = random_blocks(graph, list(devices))
    plans = {name: Split(p, compile_placement(p)) for name, p in others.items() if p is not None}
    run_in_turns([*known, *unsplit.values(), *plans.values()], values, seconds)
    profiles = {name: scaled(p, unsplit[name].seconds) for name, p in profiles.items()}
    again = fitted(
        devices, profiles, known
    )  # in place of the costs that the profile has measured before
    costs = measured(graph, devices, [again[d.name] for d in devices])
    return {
        name: plan.placement.price(costs).total / float(np.median([run.total for run in plan.runs]))
        - 1
        for name, plan in plans.items()
    }


def _unsplit(graph: Graph, device: Device, devices: Sequence[Device]) -> Unsplit:
    placement = solve(graph, [device, *(d for d in devices if d.name != device.name)], Settings())
    compiled = compile_placement(placement, as_cut=True)
    return Unsplit(
        compiled, tuple(step.id for step in compiled.steps if step.device.name == device.name)
    )


def main() -> None:
    """Prints the errors per model, and their median and 95th percentile."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", type=Path, nargs="*")
    parser.add_argument("--pack", type=Path, required=True, help="folder of the model pack")
    parser.add_argument(
        "--seconds", type=float, default=10, help="time for the splits of one model"
    )
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp()
    devices = load_devices(TABLE)
    result: dict[str, dict[str, float]] = {}
    for path in options.models or sorted((options.pack / "real").glob("*.onnx")):
        graph, values = load(path, options.pack)
        result[path.stem] = errors(graph, devices, values, options.seconds)
        print(
            f"{path.stem}: "
            + ", ".join(f"{n} {e * 100:+.1f} %" for n, e in result[path.stem].items()),
            flush=True,
        )
    rows = []
    for what, few in (("stripes and blocks", False), ("all but a few ops", True)):
        found = [
            e
            for model in result.values()
            for name, e in model.items()
            if few == name.startswith("all but")
        ]
        sizes = np.abs(found)
        row = {
            "splits of": what,
            "models": str(len(result)),
            "splits": str(len(sizes)),
            "median error": f"{np.median(sizes) * 100:.1f} %",
            "95th percentile": f"{np.percentile(sizes, 95) * 100:.1f} %",
            "worst": f"{sizes.max() * 100:.1f} %",
            "bias": f"{np.median(found) * 100:+.1f} %",
        }
        print("; ".join(f"{name} {text}" for name, text in row.items()))
        rows.append(row)
    record("split_costs", rows)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
