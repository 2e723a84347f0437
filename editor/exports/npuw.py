"""Plans for NPUW, the partitioner of OpenVINO's NPU: a group of layers for each subgraph, and a script that compiles it.

NPUW says nothing where its plan is missing, lacks layers or names devices of groups that there are not; the script does. The
format is that of `NPUW_PLAN` (OpenVINO, `src/plugins/intel_npu/src/plugin/npuw/partitioning`).
"""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import quoteattr

from editor.exports.model_copy import script_of
from editor.exports.openvino import openvino_name
from editor.files import json_text, safe_stem, write_atomic
from editor.graph.flops import op_flops
from editor.graph.graph import Graph
from editor.placement.placement import Placement


def write_npuw(placement: Placement, out_dir: Path, stamp: str = "") -> list[Path]:
    """Writes ``<model>.npuw.xml``, ``<model>.npuw.json`` and ``<model>_npuw.py``; the model stays where it is."""
    graph, stem = placement.graph, safe_stem(placement.graph.name)
    names = {d.name: openvino_name(d) for d in placement.devices}
    used = list(dict.fromkeys(names[s.device] for s in placement.subgraphs))
    document = {
        "format": "hetero-editor/npuw",
        "version": 1,
        "made_by": stamp,
        "model": str(graph.path.absolute()),
        "plan": f"{stem}.npuw.xml",
        "properties": {
            "NPU_USE_NPUW": "YES",
            "NPUW_DEVICES": ",".join(used),
            "NPUW_SUBMODEL_DEVICE": ",".join(
                f"{s.id}:{names[s.device]}" for s in placement.subgraphs
            ),
        },
        "devices": {s.id: s.device for s in placement.subgraphs},
    }
    return [
        write_atomic(out_dir / f"{stem}.npuw.xml", _plan(placement)),
        write_atomic(out_dir / f"{stem}.npuw.json", json_text(document)),
        write_atomic(out_dir / f"{stem}_npuw.py", script_of("npuw_runner", stamp, stem)),
    ]


def _plan(placement: Placement) -> str:
    graph, work = placement.graph, op_flops(placement.graph)
    taken: set[int] = set()
    lines = [
        '<?xml version="1.0"?>',
        f'<ensemble gflops="{work.sum() / 1e9:.6f}">',
        "<partitioning>",
    ]
    for subgraph in placement.subgraphs:
        ops = [graph.key_index[key] for key in subgraph.ops]
        own = [op for op in ops if op not in taken]  # a constant of several groups is in the first
        taken.update(own)
        flops = sum(float(work[op]) for op in own) / 1e9
        lines.append(f'<group id="{subgraph.id}" gflops="{flops:.6f}">')
        lines += [
            f"<input name={_name(graph, op)}/>" for op in own if _reads_others(graph, op, own)
        ]
        lines += [f"<output name={_name(graph, op)}/>" for op in own if _is_read(graph, op, own)]
        lines += [f"<layer name={_name(graph, op)}/>" for op in own]
        lines.append("</group>")
    return "\n".join([*lines, "</partitioning>", "</ensemble>", ""])


def _name(graph: Graph, op: int) -> str:
    return quoteattr(graph.display_name(op))


def _reads_others(graph: Graph, op: int, own: list[int]) -> bool:
    """Whether an op reads what a run gives it from outside of its group."""
    members = set(own)
    return any(
        not graph.tensor_is_constant[tensor] and int(graph.tensor_producer[tensor]) not in members
        for tensor in graph.op_reads[op].tolist()
    )


def _is_read(graph: Graph, op: int, own: list[int]) -> bool:
    """Whether a result of an op that is computed in a run leaves its group."""
    members, outputs = set(own), set(graph.outputs.tolist())
    return not graph.op_is_constant[op] and any(
        tensor in outputs or not members.issuperset(graph.readers[tensor].tolist())
        for tensor in graph.op_outputs[op].tolist()
        if tensor >= 0
    )
