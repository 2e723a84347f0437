"""When threads of ONNX Runtime should spin: a chain of ops in one session and in eight, each way in a process of its own.

    python benchmarks/spinning.py [--seconds S] [--rounds N]

Prints milliseconds of a run and the processors that it keeps busy: with the defaults of ONNX Runtime, without spinning, and
with threads that spin while a run lasts, as the editor has them (`editor/runtimes/onnxruntime/options.py`).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import record

WAYS: dict[str, dict[str, str]] = {
    "while a run lasts": {"session.force_spinning_stop": "1"},
    "never": {"session.intra_op.allow_spinning": "0"},
    "always (default)": {},
}
CHAINS = {"large": (1024, 96, 48), "small": (256, 64, 96)}
"""Width, rows and matrix products, each with a Softmax and an Add"""
PARTS = ((1, "large"), (8, "large"), (8, "small"))


def part(width: int, rows: int, products: int) -> bytes:
    """A serialized model of some of the products."""
    rng, nodes, weights, last = np.random.default_rng(0), [], [], "x"
    for i in range(products):
        weights.append(
            numpy_helper.from_array(
                (rng.standard_normal((width, width)) / 32).astype(np.float32), f"w{i}"
            )
        )
        nodes += [
            helper.make_node("MatMul", [last, f"w{i}"], [f"m{i}"]),
            helper.make_node("Softmax", [f"m{i}"], [f"s{i}"]),
            helper.make_node("Add", [f"m{i}", f"s{i}"], [f"a{i}"]),
        ]
        last = f"a{i}"
    value = [helper.make_tensor_value_info(name, 1, [rows, width]) for name in ("x", last)]
    graph = helper.make_graph(nodes, "part", value[:1], value[1:], weights)
    made: bytes = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    ).SerializeToString()
    return made


def measure(way: str, parts: int, chain: str, seconds: float) -> list[float]:
    """Median and 90th percentile of runs of the parts one after the other, in ms, and the processors in use."""
    import onnxruntime as ort

    from editor.runtimes.onnxruntime.options import session_options

    width, rows, products = CHAINS[chain]
    sessions: list[Any] = [
        ort.InferenceSession(
            part(width, rows, products // parts),
            session_options(entries=WAYS[way]),
            providers=["CPUExecutionProvider"],
        )
        for _ in range(parts)
    ]
    x = np.random.default_rng(1).standard_normal((rows, width)).astype(np.float32)
    times, begin, busy = [], time.perf_counter(), time.process_time()
    while time.perf_counter() - begin < seconds:
        start, value = time.perf_counter(), x
        for session in sessions:
            value = session.run(None, {"x": value})[0]
        times.append(time.perf_counter() - start)
    used = (time.process_time() - busy) / (time.perf_counter() - begin)
    return [np.median(times[5:]) * 1e3, np.quantile(times[5:], 0.9) * 1e3, used]


def main() -> None:
    """Prints a line for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        way, parts, chain = options.one
        print(json.dumps(measure(way, int(parts), chain, options.seconds)))
        return
    found: dict[str, dict[str, list[str]]] = {}
    for _ in range(options.rounds):
        for parts, chain in PARTS:
            for way in WAYS:
                done = subprocess.run(
                    [
                        sys.executable,
                        __file__,
                        "--seconds",
                        str(options.seconds),
                        "--one",
                        way,
                        str(parts),
                        chain,
                    ],
                    check=True,
                    stdout=subprocess.PIPE,
                    text=True,
                )
                middle, high, used = json.loads(done.stdout)
                what = f"{chain} ops, {parts} sessions"
                found.setdefault(what, {}).setdefault(way, []).append(f"{middle:.1f}")
                print(
                    f"{what}, threads spin {way:18} {middle:8.2f} ms, 90th percentile {high:8.2f} ms, "
                    f"{used:.1f} of {os.cpu_count()} processors",
                    flush=True,
                )
    rows = [
        {"ms a run": what, **{way: ", ".join(times) for way, times in each.items()}}
        for what, each in found.items()
    ]
    record("spinning", rows)


if __name__ == "__main__":
    main()
