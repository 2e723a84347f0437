"""Exports for Glow: device table, partition config and log."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from editor.devices.vocabulary import op_name
from editor.exports.model_copy import write_sidecar
from editor.files import safe_stem, write_atomic
from editor.graph.graph import Graph
from editor.groups import grouped
from editor.placement.placement import Placement


def write_partition_log(
    placement: Placement, out_dir: Path, stamp: str = "", sidecar: str = "yes"
) -> list[Path]:
    """Writes ``partition.log`` and, with a stamp, ``partition.log.json``; ``sidecar="no"`` omits the latter."""
    log = write_atomic(out_dir / "partition.log", partition_log(placement))
    return [log, write_sidecar(log, stamp)] if stamp and sidecar != "no" else [log]


def partition_log(placement: Placement) -> str:
    """One block per subgraph; sizes in bytes."""
    file_name = placement.graph.path.name
    backends = {d.name: d.backend for d in placement.devices}
    lines = [f"The number of partitions is : {len(placement.subgraphs)}"]
    for s in placement.subgraphs:
        memory = s.memory
        lines += [
            f"\t Partition {s.id}:",
            f"\t\t Name :\t{_one_line(file_name)}_part{s.id + 1}_part1",
            f"\t\t BackendKind :\t{_one_line(backends[s.device])}",
            f"\t\t context count :\t{memory.context_count}",
            f"\t\t total Memory :\t{memory.total}",
            f"\t\t\t input size:\t{memory.input}",
            f"\t\t\t input count :\t{memory.input_count}",
            f"\t\t\t input only from peers count :\t{memory.input_from_peers}",
            f"\t\t\t output size:\t{memory.output}",
            f"\t\t\t constant size:\t{memory.constants}",
        ]
        if memory.unknown:
            lines.append(f"\t\t\t tensors of unknown size (counted as 0):\t{memory.unknown}")
        lines += [f"\t\t LogicalDeviceIDs :\t{device}" for device in memory.logical_devices]
    return "\n".join(lines) + "\n"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def write_glow(placement: Placement, out_dir: Path, stamp: str = "") -> list[Path]:
    """Writes ``<model>_glow_devices.yaml`` (only a comment where no table exists),
    ``<model>_glow_partitions.yaml`` and ``partition.log``.
    """
    stem = safe_stem(placement.graph.name)
    head = f"# {stamp or 'Hetero Editor'}\n"
    return [
        write_atomic(out_dir / f"{stem}_glow_devices.yaml", head + _table(placement)),
        write_atomic(out_dir / f"{stem}_glow_partitions.yaml", head + _config(placement)),
        *write_partition_log(placement, out_dir, stamp),
    ]


def conflicts(placement: Placement) -> dict[str, list[str]]:
    """Op type -> its devices, for types on several devices, which no table of Glow can express."""
    graph, device = placement.graph, placement.assignment.device
    pairs = ((graph.op_types[op], device[op]) for op in placement.placed_ops.tolist())
    return {
        kind: [placement.devices[number].name for number in numbers]
        for kind, numbers in sorted(grouped(dict.fromkeys(pairs)).items())
        if len(numbers) > 1
    }


def _table(placement: Placement) -> str:
    clash = conflicts(placement)
    if clash:
        lines = [
            "# No device table leads Glow's first-come rule to these affinities: these kinds of ops are on several",
            "# devices. Use the partition config beside this file instead.",
        ]
        lines += [
            f"#   {kind}: {', '.join(' '.join(n.split()) for n in names)}"
            for kind, names in clash.items()
        ]
        return "\n".join([*lines, "[]"]) + "\n"
    device = placement.assignment.device
    kinds = {op: _kind(placement.graph, op) for op in placement.placed_ops.tolist()}
    entries = []
    for i, d in enumerate(placement.devices):
        rest = sorted(set(kinds.values()) - {kind for op, kind in kinds.items() if device[op] == i})
        parameters = (
            [f'"nonSupportedNodes": {json.dumps(",".join(rest), ensure_ascii=False)}']
            if rest
            else []
        )
        if d.memory is not None:
            parameters.append(f'"deviceMemory": "{d.memory}"')
        if d.logical_id is not None:
            parameters.append(f'"deviceID": "{d.logical_id}"')
        entry: dict[str, str] = {"name": d.name, "backendName": d.backend}
        if parameters:
            entry["parameters"] = "\n".join(parameters) + "\n"
        entries.append(entry)
    return str(yaml.dump(entries, Dumper=_Literal, sort_keys=False, allow_unicode=True))


def _kind(graph: Graph, op: int) -> str:
    """The op type as written in a table: with its domain when neither ONNX nor Glow knows it."""
    kind = graph.op_types[op]
    return kind if op_name(kind) is not None else f"{graph.op_domains[op]}::{kind}"


def _config(placement: Placement) -> str:
    graph = placement.graph
    names = [f"{safe_stem(graph.path.name)}_part{s.id + 1}" for s in placement.subgraphs]
    backends = [s.device for s in placement.subgraphs]
    nodes = {
        graph.op_keys[op]: int(p)
        for op, p in enumerate(placement.division.subgraph_of_op.tolist())
        if p >= 0
    }
    return str(
        yaml.dump(
            {
                "funcName": graph.name,
                "numOfPartitions": len(names),
                "backendNames": backends,
                "partitionNames": names,
                "nodeToPartition": nodes,
            },
            sort_keys=False,
            allow_unicode=True,
        )
    )


class _Literal(yaml.SafeDumper):
    """Writes texts of several lines as blocks, as in Glow's files."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", value, style="|" if "\n" in value else None
    )


_Literal.add_representer(str, _text)
