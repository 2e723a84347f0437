"""How long an IR takes to open, plan and cut, beside the same model in ONNX and OpenVINO's own HETERO.

    python benchmarks/openvino_ir.py [--layers 3000] [--repeat 3] [--parts 4]

The model is a chain of residual blocks (MatMul, Add, Relu) with small weights. Each turn opens and plans both files with
nothing kept from before; then both are cut into parts and compiled, beside ``Core.compile_model`` of the IR for ``HETERO:CPU``.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
import onnx
import openvino as ov
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import editor
from benchmarks.record import record, spread
from editor.runtimes import capability, registry

WIDTH = 32


def write(path: Path, ops: int) -> Path:
    """A chain of blocks of three ops."""
    rng, nodes, weights, x = np.random.default_rng(0), [], [], "x"
    for block in range(ops // 3):
        weight = rng.standard_normal((WIDTH, WIDTH)).astype(np.float32) / 9
        weights.append(numpy_helper.from_array(weight, f"w{block}"))
        nodes += [
            helper.make_node("MatMul", [x, f"w{block}"], [f"m{block}"], f"matmul{block}"),
            helper.make_node("Add", [x, f"m{block}"], [f"a{block}"], f"add{block}"),
            helper.make_node("Relu", [f"a{block}"], [f"r{block}"], f"relu{block}"),
        ]
        x = f"r{block}"
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "chain",
        [info("x", TensorProto.FLOAT, [1, WIDTH])],
        [info(x, TensorProto.FLOAT, [1, WIDTH])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)
    return path


def main() -> None:
    """Prints medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=3000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--parts", type=int, default=4)
    options = parser.parse_args()
    devices = [{"name": name, "backendName": "OpenVINO.CPU"} for name in ("A", "B")]
    with tempfile.TemporaryDirectory() as folder:
        source = write(Path(folder) / "chain.onnx", options.layers)
        target = source.with_suffix(".xml")
        ov.serialize(ov.Core().read_model(source), target)
        times: dict[str, list[float]] = {}
        for turn in range(options.repeat):
            for name, path in (("ONNX", source), ("IR", target)):
                os.environ["XDG_CACHE_HOME"] = str(Path(folder) / f"cache{turn}{name}")
                registry._answers.clear()
                capability._open.clear()
                start = perf_counter()
                plan = editor.partition(path, devices)
                opened = perf_counter()
                keys = list(plan.graph.op_keys)
                size = -(-len(keys) // options.parts)
                split = plan.repin({k: "AB"[i // size % 2] for i, k in enumerate(keys)})
                assert len(split.subgraphs) == options.parts
                cut = perf_counter()
                split.compile()
                times.setdefault(f"{name}: open and plan", []).append(opened - start)
                times.setdefault(f"{name}: cut and compile {options.parts} parts", []).append(
                    perf_counter() - cut
                )
            start = perf_counter()
            ov.Core().compile_model(target, "HETERO:CPU", {"INFERENCE_PRECISION_HINT": "f32"})
            times.setdefault("OpenVINO: compile for HETERO:CPU", []).append(perf_counter() - start)
        for name, seconds in times.items():
            print(f"{name}: {spread(seconds)}")
        ratio = median(times["IR: open and plan"]) / median(times["ONNX: open and plan"])
        print(f"open and plan, IR against ONNX: {ratio:.2f}")
        rows = []
        for what in ("open and plan", f"cut and compile {options.parts} parts"):
            alone = times["OpenVINO: compile for HETERO:CPU"] if "compile" in what else None
            rows.append(
                {
                    "what": what,
                    **{name: spread(times[f"{name}: {what}"]) for name in ("ONNX", "IR")},
                    "OpenVINO by itself": spread(alone) if alone else "not measured",
                }
            )
        record("openvino_ir", rows)


if __name__ == "__main__":
    main()
