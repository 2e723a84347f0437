"""`optimal` with a profile against `priority` and every single device, on real runtimes.

    python benchmarks/tuning.py [MODEL...] [--seconds 6] [--limit 240]
    python benchmarks/tuning.py --pack DIR          # every model of the pack that runs; DIR after its prepare()
    python benchmarks/tuning.py --differ            # a net that no single runtime runs best

Profiles each model on ONNX Runtime and OpenVINO (32-bit), solves with measured costs, and benchmarks all
plans interleaved. Default: the bundled models. Each model has a process of its own and ``--limit`` seconds; models of
a pack get the inputs that its manifest describes, others random ones with symbols bound to 4.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import record
from editor.devices.table import load_devices
from editor.execution.invented_inputs import random_inputs
from editor.execution.measure.benchmark import Benchmark
from editor.execution.measure.profile import profile_all
from editor.graph.graph import Graph
from editor.graph.loading import load_model
from editor.placement.placement import Settings, solve

TABLE = [
    {"name": "ORT", "backendName": "onnxruntime", "provider": "CPUExecutionProvider"},
    {"name": "OV", "backendName": "openvino", "provider": "CPU"},
]
GRU_LAYERS, HIDDEN = 3, 256
GROUPS = ("real", "single", "more")
"""Of the pack; the other models are tiny or have constant weights."""


def pack_models(folder: Path) -> list[Path]:
    """Models of the pack that ONNX Runtime runs; ``prepare()`` unpacks those of ``more`` into ``real``."""
    entries = json.loads((folder / "MANIFEST.json").read_text())["models"]
    found = [
        folder / e["file"]
        for e in entries
        if e["group"] in GROUPS and e["checks"].get("ort_run") == "ok"
    ]
    return [
        path
        if path.suffix == ".onnx" and path.exists()
        else folder / "real" / Path(path.stem).with_suffix(".onnx")
        for path in found
    ]


def recogniser(path: Path) -> Path:
    """A reader of text lines: bicubic enlarging, convolutions with LRN, recurrent layers; random weights.

    OpenVINO's CPU runs the cubic Resize and LRN many times faster than ONNX Runtime's, and GRUs several times slower.
    """
    rng = np.random.default_rng(0)
    weights: list[onnx.TensorProto] = []
    nodes: list[onnx.NodeProto] = []

    def constant(value: Any, kind: Any = np.float32) -> str:
        weights.append(onnx.numpy_helper.from_array(np.asarray(value, kind), f"w{len(weights)}"))
        return str(weights[-1].name)

    def random(*shape: int) -> str:
        return constant(rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:])))

    def op(kind: str, *inputs: str, **attributes: Any) -> str:
        nodes.append(
            onnx.helper.make_node(
                kind, list(inputs), [f"t{len(nodes)}"], f"{kind}_{len(nodes)}", **attributes
            )
        )
        return str(nodes[-1].output[0])

    x = op("Resize", "image", "", constant([1, 1, 2, 2]), mode="cubic")
    for before, after in ((3, 64), (64, 128), (128, HIDDEN)):
        x = op(
            "LRN", op("Relu", op("Conv", x, random(after, before, 3, 3), pads=[1, 1, 1, 1])), size=5
        )
        x = op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = op("ReduceMean", x, constant([2], np.int64), keepdims=0)
    x = op("Transpose", x, perm=[2, 0, 1])
    for _ in range(GRU_LAYERS):
        y = op(
            "GRU",
            x,
            random(1, 3 * HIDDEN, HIDDEN),
            random(1, 3 * HIDDEN, HIDDEN),
            random(1, 6 * HIDDEN),
            hidden_size=HIDDEN,
        )
        x = op("Squeeze", y, constant([1], np.int64))
    x = op("Softmax", op("MatMul", x, random(HIDDEN, 96)), axis=-1)
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes,
        "recogniser",
        [value("image", onnx.TensorProto.FLOAT, [1, 3, 32, 256])],
        [value(x, onnx.TensorProto.FLOAT, None)],
        weights,
    )
    onnx.save(
        onnx.helper.make_model(
            graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9
        ),
        path,
    )
    return path


def load(path: Path, pack: Path | None) -> tuple[Graph, dict[str, Any]]:
    """The model with its symbols bound, and inputs."""
    graph = load_model(path)
    if pack is None:
        graph = load_model(path, dict.fromkeys(graph.unbound, 4)) if graph.unbound else graph
        return graph, random_inputs(graph)
    sys.path.insert(0, str(pack))
    from run_model import make_inputs  # type: ignore[import-not-found]

    entries = json.loads((pack / "MANIFEST.json").read_text())["models"]
    entry = next(
        e
        for e in entries
        if Path(e["file"]).name.removesuffix(".gz") == path.name
        and e["group"] in (path.parent.name, "more")
    )
    inputs = make_inputs(entry["inputs"], 0)
    define = {
        dim: size
        for name, value in inputs.items()
        for dim, size in zip(
            graph.tensor_shapes[graph.tensor_index[name]] or (), value.shape, strict=False
        )
        if isinstance(dim, str)
    }
    return load_model(path, {name: define[name] for name in graph.unbound}), inputs


def compare(
    path: Path, pack: Path | None, seconds: float, table: list[dict[str, Any]] = TABLE
) -> dict[str, str]:
    """Figures by name, medians in milliseconds, and all of them as ``text``."""
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp()
    devices = load_devices(table)
    graph, inputs = load(path, pack)
    problems = [
        f"{n}: {p}" for n, p in profile_all(graph, devices, 2.0).items() if isinstance(p, str)
    ]
    plans = {
        "optimal": solve(graph, devices, Settings("optimal", {"costs": "measured"})),
        "priority": solve(graph, devices, Settings()),
    }
    results = Benchmark(plans, seconds, inputs=inputs).run()
    best = results[0].total.median
    rivals = {
        "priority": results[1].total.median,
        **{b.device: b.time.median for b in results[0].baselines if b.time is not None},
    }
    fastest = min(rivals, key=lambda name: rivals[name])
    counts = ", ".join(f"{n} on {d}" for d, n in plans["optimal"].op_counts.items() if n)
    difference = results[0].difference
    wrong = (
        ""
        if difference is None or difference.within_tolerance
        else "; OUTPUTS DIFFER " + results[0].first_difference
    )
    name, ratio = f"{path.parent.name}/{path.stem}", f"{best / rivals[fastest]:.3f}"
    text = (
        f"{name}: optimal {best * 1e3:.2f} ms ({counts}; {len(plans['optimal'].subgraphs)} "
        f"subgraphs); predicted {(results[0].predicted or 0) * 1e3:.2f}; "
        + ", ".join(f"{n} {v * 1e3:.2f}" for n, v in rivals.items())
        + f"; ratio to the fastest ({fastest}): {ratio}"
        + wrong
        + (f"; not profiled: {'; '.join(problems)}" if problems else "")
    )
    times = {
        "`optimal`": f"{best * 1e3:.2f} ms",
        **{n: f"{v * 1e3:.2f} ms" for n, v in rivals.items() if n != "priority"},
    }
    return {"net": name, **times, "`optimal` / fastest": ratio, "text": text}


def main() -> None:
    """One line per model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    models = Path(__file__).resolve().parents[1] / "examples" / "models"
    parser.add_argument("models", type=Path, nargs="*")
    parser.add_argument("--pack", type=Path, help="folder of the model pack")
    parser.add_argument("--differ", action="store_true", help="a net made for it")
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument(
        "--limit", type=float, default=240, help="seconds for one model, all in all"
    )
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    chosen = options.models or (
        pack_models(options.pack) if options.pack else sorted(models.glob("*.onnx"))
    )
    if options.differ:
        chosen = [recogniser(Path(tempfile.mkdtemp()) / "recogniser.onnx")]
    rows = []
    for path in chosen:
        if options.here:
            print(json.dumps(compare(path, options.pack, options.seconds)), flush=True)
            return
        command = [
            sys.executable,
            __file__,
            str(path),
            "--here",
            "--seconds",
            str(options.seconds),
            *(["--pack", str(options.pack)] if options.pack else []),
        ]
        try:
            done = subprocess.run(
                command, check=False, capture_output=True, text=True, timeout=options.limit
            )
            if done.stdout.strip():
                rows.append(json.loads(done.stdout.splitlines()[-1]))
                told = rows[-1].pop("text")
            else:
                last = (done.stderr.strip().splitlines() or ["?"])[-1][:300]
                told = f"{path.stem}: failed: {last}"
        except subprocess.TimeoutExpired:
            told = f"{path.parent.name}/{path.stem}: not done in {options.limit:.0f} s"
        print(told, flush=True)
    record("tuning_differ" if options.differ else "tuning", rows)


if __name__ == "__main__":
    main()
