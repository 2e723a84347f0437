"""``partition.log`` in Glow's layout (Glow ``lib/Partitioner``: ``-log-partition``).

The format equals Glow's byte for byte and has no comments; ``partition.log.json`` states the origin, or ``plan.json``
where both are written together.
"""

from __future__ import annotations

from pathlib import Path

from editor.exports.stamp import write_sidecar
from editor.files import write_atomic
from editor.placement.placement import Placement


def write_partition_log(placement: Placement, out_dir: Path, stamp: str = "", sidecar: str = "yes") -> list[Path]:
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
