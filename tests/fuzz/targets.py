"""What is fuzzed: functions from the bytes of a file to a result or an ``EditorError``, and files to start from."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
from mutation import mutated_bytes, mutated_model, mutated_text

import editor
from editor.devices.table import parse_devices
from editor.execution.inputs import read_inputs
from editor.imports.device_figures import figures_for
from editor.imports.profile_files import read_times
from editor.placement.filter import matching
from editor.placement.rules import match_counts, parse_rules_text

ROOT = Path(__file__).resolve().parents[2]
TWO = [{"name": "A", "backendName": "CPU"}, {"name": "B", "backendName": "Interpreter"}]
MAX_SEED_BYTES = 40_000
Mutation = Callable[[random.Random, bytes, Sequence[bytes]], bytes]


@dataclass(frozen=True)
class Target:
    """One reader."""

    run: Callable[[bytes, Path], object]
    """Reads the bytes; the folder is its own."""
    seeds: Callable[[], Sequence[bytes]]
    mutate: Mutation


@cache
def _example() -> editor.Plan:
    """A plan of a small model with control flow and constants, in a folder of its own."""
    folder = Path(mkdtemp(prefix="fuzz-"))
    (folder / "net.onnx").write_bytes((ROOT / "tests" / "data" / "oddities" / "if_outer_capture.onnx").read_bytes())
    plan = editor.partition(editor.load_model(folder / "net.onnx"), TWO)
    plan.save(folder / "plan.json")
    return plan


def _folder() -> Path:
    return _example().graph.folder


@cache
def _models() -> list[bytes]:
    found = sorted((ROOT / "tests" / "data" / "oddities").glob("*.onnx"))
    return [path.read_bytes() for path in found if 0 < path.stat().st_size < MAX_SEED_BYTES]


@cache
def _tables() -> list[bytes]:
    return [path.read_bytes() for path in sorted((ROOT / "examples" / "devices").glob("*.yaml"))] + [
        b"- name: GPU\n  backendName: OpenCL\n  parameters: |\n    \"nonSupportedNodes\" : \"Softmax,Add\"\n"
        b"    \"deviceID\" : \"1\"\n"
        b"  memory: 8GiB\n  link: {bandwidth: 1e9, latency: 1e-6}\n  properties: {a: true, b: 5}\n  unit: 2\n"]


def _rules() -> list[bytes]:
    return [b"- {type: Conv, nth: first, to: A}\n- {scope: model/layers.3, to: B}\n- {name: '*att*', type: If, to: A}\n",
            b"- {regex: '^(if|add)_\\d+.*$', nth: '0:3', to: 'device:CPU'}\n- {tensor: 'y*', nth: -1, to: B}\n",
            b'{"nn.conv2d": "A", "nn.dense": "B"}', b'{"backendNames": ["A", "B"], "nodeToPartition": {"x": 0, "y": 1}}']


@cache
def _plans() -> list[bytes]:
    return [(_folder() / "plan.json").read_bytes()]


@cache
def _imports() -> list[bytes]:
    """A byte that chooses the suffix, then the file."""
    out = Path(mkdtemp(prefix="fuzz-"))
    for form in ("csv", "json", "dot", "openvino", "onnxruntime", "tvm", "glow", "plan"):
        _example().export(form, out)
    files = [path for path in sorted(out.rglob("*")) if path.is_file() and path.suffix in SUFFIXES]
    return [bytes([SUFFIXES.index(path.suffix)]) + path.read_bytes() for path in files]


@cache
def _arrays() -> list[bytes]:
    graph, path = _example().graph, Path(mkdtemp(prefix="fuzz-")) / "in.npz"
    inputs = {graph.tensor_names[t]: np.zeros([d if isinstance(d, int) else 1 for d in graph.tensor_shapes[t] or ()],
                                              graph.tensor_types[t]) for t in graph.inputs.tolist()}
    np.savez(path, **inputs)
    plain = path.read_bytes()
    np.savez_compressed(path, **inputs)
    return [plain, path.read_bytes()]


@cache
def _profiles() -> list[bytes]:
    """A byte that chooses the suffix, then what a profiler wrote, and what a kit did."""
    folder = ROOT / "tests" / "data" / "profiles"
    files = [folder / name for name in ("average.csv", "detailed.json", "pc.txt", "tensorrt.json", "kit.json")]
    events = json.loads((folder / "onnxruntime_enable_all.json").read_text())[:40]
    table = b"op,us\nc1,5\n/features/1/conv/Conv,0.5\n"
    return [*(bytes([_PROFILE_SUFFIXES.index(path.suffix)]) + path.read_bytes() for path in files),
            b"\1" + json.dumps(events).encode(), b"\0" + table]


@cache
def _profiled() -> editor.Plan:
    small = ROOT / "tests" / "data" / "profiles" / "small.onnx"
    return editor.partition(editor.load_model(small), [{"name": "NPU", "backendName": "NPU"}])


_PROFILE_SUFFIXES = (".csv", ".json", ".txt")
SUFFIXES = (".csv", ".json", ".dot", ".yaml", ".onnx", ".tsv")


def _read_model(data: bytes, folder: Path, devices: object) -> object:
    path = folder / "m.onnx"
    path.write_bytes(data)
    graph = editor.load_model(path)
    if graph.unbound:
        graph = editor.load_model(path, dict.fromkeys(graph.unbound, 2))
    return editor.partition(graph, devices).to_json()


def _read_rules(data: bytes, _folder: Path) -> object:
    rules = parse_rules_text(data.decode("utf-8", "replace"), "rules")
    match_counts(_example().graph, rules)
    return editor.partition(_example().graph, TWO, rules=rules)


def _read_plan(data: bytes, _unused: Path) -> object:
    path = _folder() / "fuzzed.json"
    path.write_bytes(data)
    return editor.load_plan(path)


def _read_import(data: bytes, folder: Path) -> object:
    path = folder / f"m_annotated{SUFFIXES[data[0] % len(SUFFIXES)] if data else '.csv'}"
    path.write_bytes(data[1:])
    return _example().import_affinities(path)


def _read_profile(data: bytes, folder: Path) -> object:
    path = folder / f"p{_PROFILE_SUFFIXES[data[0] % len(_PROFILE_SUFFIXES)] if data else '.csv'}"
    path.write_bytes(data[1:])
    plan = _profiled()
    _, report = figures_for(plan.placement, plan.devices[0], read_times(path), "board")
    return report.text, report.problems(5)


def _read_inputs(data: bytes, folder: Path) -> object:
    (folder / "in.npz").write_bytes(data)
    return read_inputs(_example().graph, folder / "in.npz")


def _filters() -> list[bytes]:
    return [b"op == Conv and flops > 1e8", b"name == *att* or not (device != A)", b"-1 < bytes <= 5 and pinned", b"op == 'If'"]


TARGETS = {
    "models": Target(lambda data, folder: _read_model(data, folder, "HETERO:GPU"), _models, mutated_model),
    "probes": Target(lambda data, folder: _read_model(data, folder, "HETERO:CPU,OpenVINO,Interpreter"), _models, mutated_model),
    "tables": Target(lambda data, _: parse_devices(data.decode("utf-8", "replace"), "table"), _tables, mutated_text),
    "rules": Target(_read_rules, _rules, mutated_text),
    "plans": Target(_read_plan, _plans, mutated_text),
    "imports": Target(_read_import, _imports, mutated_text),
    "profiles": Target(_read_profile, _profiles, mutated_text),
    "inputs": Target(_read_inputs, _arrays, mutated_bytes),
    "filters": Target(lambda data, _: matching(_example().placement, data.decode("utf-8", "replace")), _filters, mutated_text),
}


def case(target: str, number: int) -> bytes:
    """The input of a number: always the same."""
    rng, chosen = random.Random(f"{target} {number}"), TARGETS[target]
    seeds = chosen.seeds()
    return chosen.mutate(rng, rng.choice(seeds), seeds)
