"""What it costs to cut a model: CPU time of k contiguous subgraphs against the unsplit model.

    python benchmarks/overhead.py [--parts 8 32] [--threads 1] [--seconds 10] [--instances 3] [--narrow] [--openvino]
    python benchmarks/overhead.py MODEL... [--define batch=1 sequence=16] [...]

ONNX Runtime CPU on both sides, interleaved in one process in random order; ratios are medians of per-round
process CPU times. Where memory happens to lie makes two sessions of the same model differ by up to 0.03, so everything
is opened anew ``--instances`` times; the figure is the mean of the instances' medians, their range behind it.
*exported* is the export ``split``, run by its own ``run.py``; with ``--extended``, of the graph that
ONNX Runtime has optimised at level *extended*, which can be saved and exported. With ``--openvino``,
HETERO with the same cuts against OpenVINO unsplit, in 32-bit precision.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import record
from editor.devices.table import load_devices
from editor.execution.executor import compile_placement, compile_whole
from editor.execution.invented_inputs import random_inputs
from editor.exports.split import write_split
from editor.graph.graph import Graph
from editor.graph.loading import load_model
from editor.placement.placement import placement_of_groups

_IDLE = 0.003
"""Seconds after each run with several threads."""
LIGHT = ("resnet50", "densenet121", "squeezenet")


def transformer(
    path: Path, layers: int = 12, width: int = 256, tokens: int = 128, heads: int = 4
) -> Path:
    """An encoder with random weights."""
    rng = np.random.default_rng(0)
    nodes, weights = [], []

    def weight(*shape: int) -> str:
        name = f"w{len(weights)}"
        weights.append(
            numpy_helper.from_array(
                (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32), name
            )
        )
        return name

    def op(kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"t{len(nodes)}"
        nodes.append(helper.make_node(kind, list(inputs), [name], name, **attributes))
        return name

    def linear(x: str, into: int, out: int) -> str:
        return op("Add", op("MatMul", x, weight(into, out)), weight(out))

    def shape(*dims: int) -> str:
        name = f"s{len(weights)}"
        weights.append(numpy_helper.from_array(np.array(dims, np.int64), name))
        return name

    x, each = "x", width // heads
    for _ in range(layers):
        parts = [
            op(
                "Transpose",
                op("Reshape", linear(x, width, width), shape(1, tokens, heads, each)),
                perm=[0, 2, 1, 3],
            )
            for _ in range(3)
        ]
        scores = op("MatMul", parts[0], op("Transpose", parts[1], perm=[0, 1, 3, 2]))
        mixed = op("MatMul", op("Softmax", scores, axis=-1), parts[2])
        joined = op("Reshape", op("Transpose", mixed, perm=[0, 2, 1, 3]), shape(1, tokens, width))
        x = op(
            "LayerNormalization", op("Add", x, linear(joined, width, width)), weight(width), axis=-1
        )
        hidden = op("Gelu", linear(x, width, 4 * width))
        x = op(
            "LayerNormalization",
            op("Add", x, linear(hidden, 4 * width, width)),
            weight(width),
            axis=-1,
        )
    info = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, tokens, width]) for n in ("x", x)
    ]
    graph = helper.make_graph(nodes, "transformer", info[:1], info[1:], weights)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path
    )
    return path


def nets(folder: Path) -> Iterator[tuple[str, Graph]]:
    """The nets of the figures."""
    from onnx.backend.test import loader

    for name in LIGHT:
        yield name, load_model(Path(loader.DATA_DIR) / "light" / f"light_{name}.onnx")
    yield "transformer-12", load_model(transformer(folder / "transformer.onnx"))


def files(paths: list[Path], sizes: dict[str, int]) -> Iterator[tuple[str, Graph]]:
    """Models from files; symbols that have no size get 1."""
    for path in paths:
        graph = load_model(path, sizes)
        yield (
            path.stem,
            load_model(path, {**dict.fromkeys(graph.unbound, 1), **sizes})
            if graph.unbound
            else graph,
        )


def contiguous(graph: Graph, count: int) -> np.ndarray:
    """[op] subgraph number: equal numbers of ops in the order of execution."""
    part = np.full(len(graph), -1, np.int64)
    placed = graph.order[~graph.op_is_constant[graph.order]]
    part[placed] = np.arange(len(placed)) * count // len(placed)
    return part


def narrow(graph: Graph, count: int) -> np.ndarray:
    """[op] subgraph number: about equal numbers of ops, each cut where the fewest bytes cross nearby."""
    placed = graph.order[~graph.op_is_constant[graph.order]]
    place = np.full(len(graph), -1, np.int64)
    place[placed] = np.arange(len(placed))
    producer, consumer, tensor = graph.edges
    crossing = np.zeros(len(placed) + 1)
    for t in np.unique(tensor):
        of = tensor == t
        if place[producer[of]].min() >= 0:
            crossing[place[producer[of]].min() + 1 : place[consumer[of]].max() + 1] += max(
                graph.tensor_bytes[t], 0
            )
    cuts, reach = [], len(placed) / count / 2
    for i in range(1, count):
        low = max(round(i * len(placed) / count - reach), cuts[-1] + 1 if cuts else 1)
        high = max(round(i * len(placed) / count + reach), low + 1)
        cuts.append(low + int(np.argmin(crossing[low:high])))
    part = np.full(len(graph), -1, np.int64)
    part[placed] = np.searchsorted(cuts, np.arange(len(placed)), side="right")
    return part


def plain_session(graph: Graph, inputs: dict[str, Any], threads: int) -> Callable[[], Any]:
    """The model as anybody would run it: one session with default settings but for the threads."""
    import onnxruntime as ort

    settings = ort.SessionOptions()
    settings.intra_op_num_threads = threads
    session = ort.InferenceSession(str(graph.path), settings, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, inputs)


def ratios(
    base: Callable[[], Any], others: list[Callable[[], Any]], seconds: float, idle: float = 0.0
) -> tuple[float, list[float]]:
    """Median CPU seconds of the base, and median ratio of each other to it, round by round.

    After each run the process idles for ``idle`` seconds that count as its own: threads that spin, spin there. In
    each round they take turns in another order: who always follows the same one inherits its caches.
    """

    def cpu(work: Callable[[], Any]) -> float:
        start = time.process_time()
        work()
        if idle:
            time.sleep(idle)
        return time.process_time() - start

    works = [base, *others]
    for work in works:
        for _ in range(3):
            work()
    rng = np.random.default_rng(0)
    rows, begin = [], time.perf_counter()
    while time.perf_counter() - begin < seconds or len(rows) < 10:
        row = np.zeros(len(works))
        for i in rng.permutation(len(works)):
            row[i] = cpu(works[i])
        rows.append(row)
    table = np.array(rows)
    return float(np.median(table[:, 0])), np.median(table[:, 1:] / table[:, :1], axis=0).tolist()


def exported(
    graph: Graph, count: int, threads: int, folder: Path
) -> Callable[[dict[str, Any]], Any]:
    """The export ``split`` of contiguous subgraphs, loaded by its own ``run.py``."""
    devices = load_devices(
        [
            {"name": n, "backendName": "onnxruntime", "provider": "CPUExecutionProvider"}
            for n in "AB"
        ]
    )
    part = contiguous(graph, count)
    write_split(placement_of_groups(graph, devices, np.maximum(part, 0) % 2, part), folder)
    spec = importlib.util.spec_from_file_location(f"run{len(sys.modules)}", folder / "run.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    run: Callable[[dict[str, Any]], Any] = module.Split(folder, threads).run
    return run


def extended(graph: Graph, path: Path) -> Graph:
    """The graph that ONNX Runtime has optimised at level *extended*."""
    import onnxruntime as ort

    settings = ort.SessionOptions()
    settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    settings.optimized_model_filepath = str(path)
    ort.InferenceSession(str(graph.path), settings, providers=["CPUExecutionProvider"])
    optimised = onnx.load(path)
    given = {graph.tensor_names[t] for t in graph.inputs}
    inputs = [
        value for value in optimised.graph.input if value.name in given
    ]  # others were defaults, and are folded
    del optimised.graph.input[:]
    optimised.graph.input.extend(inputs)
    onnx.save(optimised, path)
    return load_model(path, graph.define)


def openvino_runs(graph: Graph, counts: list[int], threads: int) -> list[Callable[[], Any]]:
    """OpenVINO unsplit, then HETERO with the affinities of each cut (CPU and AUTO are both the CPU)."""
    import openvino as ov

    core = ov.Core()
    core.set_property("CPU", {"INFERENCE_NUM_THREADS": threads})  # HETERO's parts too
    settings = {
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
    }
    feeds = list(random_inputs(graph).values())
    runs = []
    for count in (0, *counts):
        model = core.read_model(graph.path)
        if count:
            part = contiguous(graph, count)
            home = {
                graph.op_keys[op]: "CPU" if part[op] % 2 == 0 else "AUTO"
                for op in range(len(graph))
                if part[op] >= 0
            }
            last = "CPU"
            for op in model.get_ordered_ops():
                names = [n for o in op.outputs() for n in o.get_names() if n in home]
                last = home[names[0]] if names else last
                op.get_rt_info()["affinity"] = last
            compiled = core.compile_model(
                model, "HETERO:CPU,AUTO", {"INFERENCE_PRECISION_HINT": "f32"}
            )
        else:
            compiled = core.compile_model(model, "CPU", settings)
        request = compiled.create_infer_request()
        for port, feed in zip(compiled.inputs, feeds, strict=True):
            request.set_tensor(port, ov.Tensor(np.ascontiguousarray(feed)))
        runs.append(request.infer)
    return runs


def main() -> None:
    """Prints one line per net."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "models", type=Path, nargs="*", help="instead of the four nets of the figures"
    )
    parser.add_argument("--define", nargs="*", default=[], metavar="NAME=SIZE")
    parser.add_argument("--parts", type=int, nargs="*", default=[8, 32])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10, help="per instance")
    parser.add_argument("--instances", type=int, default=3)
    parser.add_argument(
        "--narrow", action="store_true", help="move each cut to where the fewest bytes cross"
    )
    parser.add_argument(
        "--extended",
        action="store_true",
        help="also export cuts of the graph optimised at level extended",
    )
    parser.add_argument("--openvino", action="store_true")
    options = parser.parse_args()
    devices = load_devices(
        [
            {"name": n, "backendName": "onnxruntime", "provider": "CPUExecutionProvider"}
            for n in "AB"
        ]
    )
    print(f"threads per session: {options.threads}; CPU time against the unsplit model")
    rows: list[dict[str, str]] = []
    rows_of_openvino: list[dict[str, str]] = []
    with tempfile.TemporaryDirectory() as folder:
        sizes = {name: int(size) for name, size in (text.split("=") for text in options.define)}
        for name, graph in files(options.models, sizes) if options.models else nets(Path(folder)):
            inputs = random_inputs(graph)
            bases, found = [], []
            for _ in range(options.instances):
                works = {"uncut": compile_whole(graph, devices[0], options.threads).run}
                for count in options.parts:
                    part = (narrow if options.narrow else contiguous)(graph, count)
                    placement = placement_of_groups(graph, devices, np.maximum(part, 0) % 2, part)
                    works[f"{count}"] = compile_placement(placement, options.threads).run
                    out = Path(folder) / f"{name}-{count}-{len(bases)}"
                    works[f"{count} exported"] = exported(graph, count, options.threads, out)
                    if options.extended:
                        other = extended(graph, Path(folder) / f"{name}-extended.onnx")
                        works[f"{count} extended, exported"] = exported(
                            other, count, options.threads, out / "extended"
                        )
                base, ratio = ratios(
                    plain_session(graph, inputs, options.threads),
                    [partial(run, inputs) for run in works.values()],
                    options.seconds,
                    _IDLE if options.threads != 1 else 0.0,
                )
                bases.append(base)
                found.append(ratio)
            texts = {
                label: f"{each.mean():.3f} ({each.min():.3f} to {each.max():.3f})"
                for label, each in zip(works, np.array(found).T, strict=True)
            }
            print(
                f"{name:<24} {np.mean(bases) * 1e3:7.1f} ms  "
                + "  ".join(f"{label}: {text}" for label, text in texts.items()),
                flush=True,
            )
            rows.append(
                {
                    "net": name,
                    "one session": f"{np.mean(bases) * 1e3:.1f} ms",
                    **{f"{n} parts": texts[f"{n} exported"] for n in options.parts},
                }
            )
            if options.openvino:
                first, *rest = openvino_runs(graph, options.parts, options.threads)
                base, found = ratios(first, list(rest), options.seconds)
                print(
                    f"  OpenVINO HETERO {base * 1e3:6.1f} ms  "
                    + "  ".join(
                        f"{count}: {r:.3f}" for count, r in zip(options.parts, found, strict=True)
                    ),
                    flush=True,
                )
                parts = zip(options.parts, found, strict=True)
                rows_of_openvino.append(
                    {"net": name, **{f"{n} parts": f"{r:.3f}" for n, r in parts}}
                )
    record("overhead", rows)
    if rows_of_openvino:
        record("overhead_openvino", rows_of_openvino)


if __name__ == "__main__":
    main()
