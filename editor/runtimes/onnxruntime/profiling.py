"""Times kernels by ONNX Runtime's profiler, and tells which ops each kernel computes."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import onnx
import onnxruntime as ort
from onnx import ModelProto, NodeProto

from editor import custom_ops
from editor.devices.device import Device
from editor.graph.attributes import op_reads
from editor.graph.graph import Graph, Ints
from editor.runtimes.base import KernelTime, MemorySpace, SubModel, Value
from editor.runtimes.onnxruntime.options import session_options, spinning
from editor.runtimes.onnxruntime.plugins import memory_space
from editor.runtimes.onnxruntime.session import create_session
from editor.runtimes.onnxruntime.values import GrowingRun, caches_of, with_room
from editor.runtimes.profiling import fused_regions, median_of_quiet_runs, runs_within
from editor.runtimes.values import to_numpy

_OWN_NAME = re.compile(r"(?<![A-Za-z0-9])op(\d+)(?!\d)")


@dataclass(frozen=True)
class Kernel:
    """One node of the optimized graph."""

    name: str
    type: str
    ops: tuple[int, ...]
    """Ops of the model that it computes, in an order of execution; none for what the optimizer added."""
    reads: tuple[str, ...]
    writes: tuple[str, ...]


def lineage(graph: Graph, optimized: ModelProto) -> list[Kernel]:
    """Kernels of an optimized graph, in a topological order, each with the ops that it computes.

    Every op is claimed at most once; an op that no kernel claims was folded away and costs nothing.
    """
    nodes = _ordered(optimized)
    rank = graph.rank
    reads = [op_reads(node) for node in nodes]
    given = [
        {
            int(graph.tensor_producer[graph.tensor_index[name]])
            for name in names
            if name in graph.tensor_index
        }
        for names in reads
    ]
    anchors: list[list[int]] = []
    taken: set[int] = set()
    for (
        node
    ) in nodes:  # a reorder that outputs a tensor of the model follows the kernel that computed it
        anchors.append([op for op in _anchors(graph, node, rank) if op not in taken])
        taken.update(anchors[-1])
    regions = fused_regions(graph, anchors, given)
    return [
        Kernel(
            node.name,
            node.op_type,
            region,
            tuple(names),
            tuple(name for name in node.output if name),
        )
        for node, region, names in zip(nodes, regions, reads, strict=True)
    ]


def _anchors(graph: Graph, node: NodeProto, rank: Ints) -> list[int]:
    made = {
        int(graph.tensor_producer[graph.tensor_index[name]])
        for name in node.output
        if name in graph.tensor_index
    }
    made.discard(-1)
    if made:
        return sorted(made)
    blocked = node.name.removesuffix(
        "_nchwc"
    )  # blocked kernels are named after the tensor that they used to make
    if blocked != node.name and blocked in graph.tensor_index:
        return [_last_fused(graph, node, int(graph.tensor_producer[graph.tensor_index[blocked]]))]
    named = [int(text) for text in _OWN_NAME.findall(node.name) if int(text) < len(graph)]
    if not named:
        return []
    last = max(named, key=lambda op: int(rank[op]))
    return [_reader(graph, last, ("Add",)) if node.name.endswith("/MatMulAddFusion") else last]


def _last_fused(graph: Graph, node: NodeProto, op: int) -> int:
    """The op that a blocked kernel ends with: a sum and an activation may join it after it was named."""
    if len(node.input) > 3 and node.input[3]:  # what is added
        op = _reader(graph, op, ("Add", "Sum"))
    activation = next((a.s.decode() for a in node.attribute if a.name == "activation"), "")
    return op if graph.op_types[op] in ("", activation) else _reader(graph, op, (activation,))


def _reader(graph: Graph, op: int, types: Sequence[str]) -> int:
    """The only op that reads this one, where it is of one of these types; else the op itself."""
    readers = set(graph.successors[op].tolist())
    return readers.pop() if len(readers) == 1 and graph.op_types[min(readers)] in types else op


def _ordered(model: ModelProto) -> list[NodeProto]:
    """Nodes in an order of execution; ONNX Runtime writes them so, but nothing promises it."""
    made_by = {name: i for i, node in enumerate(model.graph.node) for name in node.output if name}
    done: set[int] = set()
    found: list[NodeProto] = []
    for root in range(len(model.graph.node)):
        stack = [root]
        while stack:
            node = stack[-1]
            waiting = [
                made_by[n]
                for n in op_reads(model.graph.node[node])
                if n in made_by and made_by[n] not in done
            ]
            if node in done or not waiting:
                stack.pop()
                if node not in done:
                    done.add(node)
                    found.append(model.graph.node[node])
            else:
                stack.extend(waiting)
    return found


_SUFFIX = "_kernel_time"


def kernel_times(
    graph: Graph,
    submodel: SubModel,
    device: Device,
    inputs: Sequence[Value],
    seconds: float,
    threads: int,
) -> list[KernelTime]:
    """Median time of each kernel of a sub-model over the quietest runs."""
    with tempfile.TemporaryDirectory(prefix="hetero-profile-") as folder:
        options = session_options(
            submodel.folder,
            threads,
            entries={
                **spinning(1),
                "session.optimized_model_external_initializers_file_name": "weights.bin",
            },
        )
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder) / "trace")
        options.optimized_model_filepath = str(Path(folder) / "optimized.onnx")
        custom_ops.register(options, submodel.model.opset_import, device.custom_ops)
        caches = caches_of(submodel.model, device)
        session = create_session(with_room(submodel.model, caches), options, device)
        feeds = {name: to_numpy(v) for name, v in zip(submodel.inputs, inputs, strict=True)}
        run = _run_of(graph, session, submodel, feeds, caches, memory_space(device))
        for _ in runs_within(seconds):
            run()
        events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
        optimized = onnx.load(folder + "/optimized.onnx", load_external_data=False)
    runs = _runs(events, {k.name: k for k in lineage(graph, optimized)})
    return median_of_quiet_runs(runs[1:] or runs)


def _run_of(
    graph: Graph,
    session: Any,
    submodel: SubModel,
    feeds: Mapping[str, Value],
    caches: Mapping[str, str],
    space: MemorySpace,
) -> Callable[[], object]:
    """What runs a session once; caches that are longer than the model says have room, and grow where they lie."""
    roomy = {
        name: feeds[name]
        for name in caches
        if feeds[name].shape != graph.tensor_shapes[graph.tensor_index[name]]
    }
    if not roomy:
        return partial(session.run, list(submodel.outputs), feeds)
    run = GrowingRun(
        session, submodel.signature, submodel.label, caches, roomy, ort.RunOptions(), space
    )
    return partial(run, [value for name, value in feeds.items() if name not in roomy])


def _runs(
    events: Iterable[Mapping[str, Any]], kernels: Mapping[str, Kernel]
) -> list[tuple[float, list[KernelTime]]]:
    """Whole runs of a trace: seconds, and the time of each kernel."""
    runs: list[tuple[float, list[KernelTime]]] = []
    current: dict[str, KernelTime] = {}
    for event in sorted(events, key=_end):
        name = event.get("name", "")
        if event.get("cat") == "Node" and name.endswith(_SUFFIX):
            node = name.removesuffix(_SUFFIX)
            if node in kernels:  # what is inside a body is part of its If, Loop or Scan
                before = current.get(node)
                current[node] = KernelTime(
                    event["args"].get("op_name", ""),
                    kernels[node].ops if node else (),
                    event["dur"] * 1e-6 + (before.seconds if before else 0.0),
                )
        elif name == "model_run":
            if current:
                runs.append(
                    (
                        event["dur"] * 1e-6,
                        [time for _, time in sorted(current.items(), key=lambda item: item[0])],
                    )
                )
            current = {}
    return runs


def _end(event: Mapping[str, Any]) -> float:
    """Where an event stands in the trace: a run behind its kernels."""
    return float(event.get("ts", 0)) + (
        float(event.get("dur", 0)) if event.get("name") == "model_run" else 0.0
    )
