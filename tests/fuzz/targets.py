"""What is fuzzed: functions from the bytes of a file to a result or an ``EditorError``, and files to start from."""

from __future__ import annotations

import asyncio
import io
import json
import random
import sys
import unicodedata
import zipfile
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
from mutation import mutated_bytes, mutated_model, mutated_text

sys.path.append(str(Path(__file__).resolve().parents[1]))

from hostile import PLACES, SIZE, model_with, tree

import editor
from editor.devices.discovery import known_properties
from editor.devices.table import parse_devices
from editor.errors import EditorError
from editor.execution.inputs import read_inputs
from editor.files import inside, safe_stem
from editor.imports.device_figures import profile_from_layers
from editor.imports.profile_files import read_times
from editor.placement.filter import matching
from editor.placement.rules import match_counts, parse_rules_text
from editor.terminal import printable
from editor.web.app_state import local_path
from editor.web.uploads import Uploads, safe_path

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
    (folder / "net.onnx").write_bytes(
        (ROOT / "tests" / "data" / "oddities" / "if_outer_capture.onnx").read_bytes()
    )
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
def _irs() -> list[bytes]:
    """The XML of models of OpenVINO; one ``.bin`` serves all that changes make of them."""
    from ir_nets import NETS, save

    folder = Path(mkdtemp(prefix="fuzz-"))
    return [save(net(), folder / "net.xml").read_bytes() for net in NETS]


def _read_ir(data: bytes, folder: Path) -> object:
    """Opens an IR, and compiles a part of it."""
    (folder / "net.xml").write_bytes(data)
    (folder / "net.bin").write_bytes(bytes(range(256)) * 4)
    plan = editor.partition(folder / "net.xml", "HETERO:OpenVINO.CPU,NPU")
    keys = [key for op, key in enumerate(plan.graph.op_keys) if not plan.graph.op_is_constant[op]]
    return plan.repin(dict.fromkeys(keys[::2], "NPU")).export("openvino", folder / "out")


@cache
def _tables() -> list[bytes]:
    return [
        path.read_bytes() for path in sorted((ROOT / "examples" / "devices").glob("*.yaml"))
    ] + [
        b'- name: GPU\n  backendName: OpenCL\n  parameters: |\n    "nonSupportedNodes" : "Softmax,Add"\n'
        b'    "deviceID" : "1"\n'
        b"  memory: 8GiB\n  link: {bandwidth: 1e9, latency: 1e-6}\n  properties: {a: true, b: 5}\n  unit: 2\n"
    ]


def _rules() -> list[bytes]:
    return [
        b"- {type: Conv, nth: first, to: A}\n- {scope: model/layers.3, to: B}\n- {name: '*att*', type: If, to: A}\n",
        b"- {regex: '^(if|add)_\\d+.*$', nth: '0:3', to: 'device:CPU'}\n- {tensor: 'y*', nth: -1, to: B}\n",
        b'{"nn.conv2d": "A", "nn.dense": "B"}',
        b'{"backendNames": ["A", "B"], "nodeToPartition": {"x": 0, "y": 1}}',
    ]


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
    inputs = {
        graph.tensor_names[t]: np.zeros(
            [d if isinstance(d, int) else 1 for d in graph.tensor_shapes[t] or ()],
            graph.tensor_types[t],
        )
        for t in graph.inputs.tolist()
    }
    np.savez(path, **inputs)
    plain = path.read_bytes()
    np.savez_compressed(path, **inputs)
    return [plain, path.read_bytes()]


@cache
def _profiles() -> list[bytes]:
    """A byte that chooses the suffix, then what a profiler wrote, and what a kit did."""
    folder = ROOT / "tests" / "data" / "profiles"
    files = [
        folder / name
        for name in ("average.csv", "detailed.json", "pc.txt", "tensorrt.json", "kit.json")
    ]
    events = json.loads((folder / "onnxruntime_enable_all.json").read_text())[:40]
    table = b"op,us\nc1,5\n/features/1/conv/Conv,0.5\n"
    return [
        *(bytes([_PROFILE_SUFFIXES.index(path.suffix)]) + path.read_bytes() for path in files),
        b"\1" + json.dumps(events).encode(),
        b"\0" + table,
    ]


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
    _, report = profile_from_layers(plan.placement, plan.devices[0], read_times(path), "board")
    return report.text, report.problems(5)


def _read_inputs(data: bytes, folder: Path) -> object:
    (folder / "in.npz").write_bytes(data)
    return read_inputs(_example().graph, folder / "in.npz")


def _filters() -> list[bytes]:
    return [
        b"op == Conv and flops > 1e8",
        b"name == *att* or not (device != A)",
        b"-1 < bytes <= 5 and pinned",
        b"op == 'If'",
    ]


class EscapedError(AssertionError):
    """Something reached what it must not reach."""


@cache
def _hostile() -> list[bytes]:
    """A model for each place of external data, and each kind of location."""
    locations = (
        "w.bin",
        "../secret",
        "a/../../secret",
        "/etc/hostname",
        "./w.bin",
        "sub/w.bin",
        "m.onnx",
        "numpy.py",
    )
    return [
        model_with(place, ("location", locations[i % len(locations)]), *more).SerializeToString()
        for i, place in enumerate(PLACES * 2)
        for more in ((), (("location", "w.bin"),), (("offset", "8"),))
    ]


def _read_external(data: bytes, folder: Path) -> object:
    """Reads, runs and exports a model; the file system outside its folder and OUT must stay as it is."""
    root = folder / "home"
    model, out = root / "a" / "b", root / "out"
    if not root.exists():
        for made in (model / "sub", out, root / ".ssh"):
            made.mkdir(parents=True)
        for name in ("secret", "a/secret", ".ssh/authorized_keys", "a/b/w.bin", "a/b/sub/w.bin"):
            (root / name).write_bytes(bytes(256))
    (model / "m.onnx").write_bytes(data)
    before = tree(root, (model, out))
    try:
        plan = editor.partition(editor.load_model(model / "m.onnx"), "HETERO:OpenVINO.CPU,CPU")
        for form in ("openvino", "onnxruntime", "split"):
            plan.export(form, out)
        plan.run({"x": np.zeros(SIZE, np.float32)})
    finally:
        if tree(root, (model, out)) != before:
            raise EscapedError("a file outside the folders changed")
    return None


def _properties() -> list[bytes]:
    return [
        f"- name: {name}\n  properties: {{{key}: {value}}}\n".encode()
        for name, key, value in (
            ("CPU", "session.intra_op.allow_spinning", "0"),
            ("CPU", "ep.context_file_path", "/tmp/x"),
            ("OpenVINO.CPU", "NUM_STREAMS", "2"),
            ("OpenVINO.CPU", "CACHE_DIR", "../x"),
            ("NPU", "htp_arch", "68"),
            ("GPU", "use_tf32", "false"),
            ("TVM", "target", "llvm"),
        )
    ]


def _read_properties(data: bytes, _folder: Path) -> object:
    devices = parse_devices(data.decode("utf-8", "replace"), "table")
    for device in devices:
        known = known_properties("" if device.machine else device.runtime, device.provider)[1]
        if not set(device.properties) <= {each.name for each in known} or any(
            ".." in v for v in device.properties.values()
        ):
            raise EscapedError(f"{device.properties} went through")
    return devices


@cache
def _zips() -> list[bytes]:
    model = (ROOT / "tests" / "data" / "oddities" / "if_outer_capture.onnx").read_bytes()
    made = []
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        for names in (("m.onnx", "w.bin"), ("f/m.onnx", "../w.bin"), ("/m.onnx", "C:\\x")):
            packed = io.BytesIO()
            with zipfile.ZipFile(packed, "w", method) as archive:
                for name in names:
                    archive.writestr(name, model)
            made.append(packed.getvalue())
    return made


def _read_zip(data: bytes, folder: Path) -> object:
    """Uploads a zip file; nothing may be written outside the folder of uploads."""
    root = folder / "uploads-home"
    (root / "uploads").mkdir(parents=True, exist_ok=True)
    (root / "w.bin").write_bytes(b"0")
    uploads, before = Uploads(root / "uploads"), tree(root, (root / "uploads",))

    async def chunks() -> AsyncIterator[bytes]:
        yield data

    try:
        asyncio.run(uploads.receive("abcdefgh", "m.zip", chunks()))
        return uploads.finish("abcdefgh")
    finally:
        if tree(root, (root / "uploads",)) != before:
            raise EscapedError("a file outside the uploads changed")
        if left := list((root / "uploads" / "incoming").glob("*")):
            raise EscapedError(f"{left} stayed")


def _paths() -> list[bytes]:
    return [
        b"models/net.onnx",
        b"~/x",
        b"../../etc/passwd",
        b"/proc/self/environ",
        b"caf\xe9/m.onnx",
        b"C:\\x",
        b"a\0b",
        b"//x/y",
    ]


def _read_path(data: bytes, folder: Path) -> object:
    """A path that a person or a model gives: typed, of an upload, of external data, below a folder."""
    text = data.decode("utf-8", "surrogateescape")
    for read in (local_path, safe_path, lambda name: inside(folder, name), safe_stem):
        try:
            found = Path(read(text))
        except EditorError:
            continue
        if read is safe_stem and len(str(found).encode("utf-8", "surrogateescape")) > 255:
            continue
        if read is not local_path and not (folder / found).resolve().is_relative_to(
            folder.resolve()
        ):
            raise EscapedError(f"{text!r} leads to {found}")
    return None


def _escapes() -> list[bytes]:
    return [
        b"\x1b]0;title\x07",
        b"\x1b[2J\x1b[H",
        b"\x1b]52;c;aGk=\x07",
        "\u202egnp.exe".encode(),
        b"a\rb",
        b"\x9b31m",
        b"x\x00y",
    ]


def _print_name(data: bytes, _folder: Path) -> object:
    """Names of models on a terminal."""
    shown = printable(data.decode("utf-8", "surrogateescape"))
    if any(
        (unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") and c not in "\n\t")
        or unicodedata.bidirectional(c) in BIDI
        for c in shown[:50_000]  # looking at each takes time
    ):
        raise EscapedError(repr(shown))
    return shown


BIDI = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})

TARGETS = {
    "external": Target(_read_external, _hostile, mutated_model),
    "properties": Target(_read_properties, _properties, mutated_text),
    "zips": Target(_read_zip, _zips, mutated_bytes),
    "paths": Target(_read_path, _paths, mutated_text),
    "escapes": Target(_print_name, _escapes, mutated_text),
    "models": Target(
        lambda data, folder: _read_model(data, folder, "HETERO:GPU"), _models, mutated_model
    ),
    "probes": Target(
        lambda data, folder: _read_model(data, folder, "HETERO:CPU,OpenVINO,Interpreter"),
        _models,
        mutated_model,
    ),
    "irs": Target(_read_ir, _irs, mutated_text),
    "tables": Target(
        lambda data, _: parse_devices(data.decode("utf-8", "replace"), "table"),
        _tables,
        mutated_text,
    ),
    "rules": Target(_read_rules, _rules, mutated_text),
    "plans": Target(_read_plan, _plans, mutated_text),
    "imports": Target(_read_import, _imports, mutated_text),
    "profiles": Target(_read_profile, _profiles, mutated_text),
    "inputs": Target(_read_inputs, _arrays, mutated_bytes),
    "filters": Target(
        lambda data, _: matching(_example().placement, data.decode("utf-8", "replace")),
        _filters,
        mutated_text,
    ),
}


def case(target: str, number: int) -> bytes:
    """The input of a number: always the same."""
    rng, chosen = random.Random(f"{target} {number}"), TARGETS[target]
    seeds = chosen.seeds()
    return chosen.mutate(rng, rng.choice(seeds), seeds)
