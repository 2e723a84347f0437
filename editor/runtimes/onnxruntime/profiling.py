"""Kernel times from ONNX Runtime's profiler."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import onnx

from editor.devices.device import Device
from editor.graph.graph import Graph
from editor.runtimes.base import KernelTime, SubModel, Value
from editor.runtimes.onnxruntime.device_sessions import create_session
from editor.runtimes.onnxruntime.lineage import Kernel, lineage
from editor.runtimes.onnxruntime.options import session_options, spinning
from editor.runtimes.profiling import enough_runs, median_of_quiet_runs
from editor.runtimes.values import to_numpy

_SUFFIX = "_kernel_time"


def kernel_times(graph: Graph, submodel: SubModel, device: Device, inputs: Sequence[Value], seconds: float,
                 threads: int) -> list[KernelTime]:
    """Median time of each kernel of a sub-model over the quietest runs."""
    with tempfile.TemporaryDirectory(prefix="hetero-profile-") as folder:
        options = session_options(submodel.folder, threads, entries={
            **spinning(1),
            "session.optimized_model_external_initializers_file_name": "weights.bin"})
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder) / "trace")
        options.optimized_model_filepath = str(Path(folder) / "optimized.onnx")
        session = create_session(submodel.model.SerializeToString(), options, device)
        feeds = {name: to_numpy(v) for name, v in zip(submodel.inputs, inputs, strict=True)}
        begin, count = perf_counter(), 0
        while not enough_runs(count, perf_counter() - begin, seconds):
            session.run(list(submodel.outputs), feeds)
            count += 1
        events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
        optimized = onnx.load(folder + "/optimized.onnx", load_external_data=False)
    runs = _runs(events, {k.name: k for k in lineage(graph, optimized)})
    return median_of_quiet_runs(runs[1:] or runs)


def _runs(events: Iterable[Mapping[str, Any]], kernels: Mapping[str, Kernel]) -> list[tuple[float, list[KernelTime]]]:
    """Whole runs of a trace: seconds, and the time of each kernel."""
    runs: list[tuple[float, list[KernelTime]]] = []
    current: dict[str, KernelTime] = {}
    for event in sorted(events, key=_end):
        name = event.get("name", "")
        if event.get("cat") == "Node" and name.endswith(_SUFFIX):
            node = name.removesuffix(_SUFFIX)
            if node in kernels:  # what is inside a body is part of its If, Loop or Scan
                before = current.get(node)
                current[node] = KernelTime(event["args"].get("op_name", ""), kernels[node].ops if node else (),
                                           event["dur"] * 1e-6 + (before.seconds if before else 0.0))
        elif name == "model_run":
            if current:
                runs.append((event["dur"] * 1e-6, [time for _, time in sorted(current.items(), key=lambda item: item[0])]))
            current = {}
    return runs


def _end(event: Mapping[str, Any]) -> float:
    """Where an event stands in the trace: a run behind its kernels."""
    return float(event.get("ts", 0)) + (float(event.get("dur", 0)) if event.get("name") == "model_run" else 0.0)
