"""What the files of a format do not keep of a split, and which ops compilers shall keep off a device, by which names.

A compiler takes what it can, unless it is told otherwise; the formats of `provider_options`, `executorch`, `hailo` and
`litert` tell it.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from editor.arguments import check_one_of
from editor.devices.device import Device
from editor.errors import ExportError
from editor.exports.model_copy import open_copy, write_model
from editor.files import safe_stem
from editor.graph.graph import Graph
from editor.groups import grouped
from editor.placement.placement import Placement
from editor.runtimes.onnxruntime.providers import provider_of
from editor.text import joined, pluralize

NO_SPLIT = "does not split"
"""What a line begins with where the files run ops of several devices as one."""


def shortfall(
    placement: Placement,
    runs_on: Callable[[Device], str],
    is_own: Callable[[Device], bool],
    parts: bool = False,
) -> str:
    """Which ops run elsewhere than in the plan where the files are used; "" where none do.

    Args:
        placement: the plan.
        runs_on: what runs the ops of a device there; "" for nothing.
        is_own: whether that is the device itself.
        parts: whether subgraphs stay apart even where one device runs them.
    """
    counts, used = placement.op_counts, placement.used_devices
    groups = grouped((runs_on(device), device) for device in used)
    nothing = groups.pop("", [])
    if nothing:
        names = joined([device.name for device in nothing])
        return f"no device for {_ops(sum(counts[d.name] for d in nothing))} of {names}"
    moved = [device for device in used if not is_own(device)]
    for target, same in groups.items():
        if parts or len(same) == 1:
            continue
        if len(same) == len(used):
            return f"{NO_SPLIT}: all on {target}"
        return f"{NO_SPLIT} {joined([d.name for d in same])}: {target} runs them"
    if not moved:
        return ""
    ops = sum(counts[d.name] for d in moved)
    targets = joined(list(dict.fromkeys(map(runs_on, moved))))
    return f"{_ops(ops)} {'runs' if ops == 1 else 'run'} on {targets} instead"


def _ops(count: int) -> str:
    return pluralize(count, "op")


_MOST_NAMED = 5


def unique_names(graph: Graph) -> list[str]:
    """[op] its name, or its key where it has none or shares it."""
    shared, keys = Counter(graph.op_names), graph.op_keys
    names = [
        name if name and shared[name] == 1 else key
        for name, key in zip(graph.op_names, keys, strict=True)
    ]
    again = Counter(names)
    return [name if again[name] == 1 else f"{name}#{op}" for op, name in enumerate(names)]


def device_of(placement: Placement, asked: str, *providers: str) -> str:
    """The device that a provider runs: the one that was asked for, else the one of such a provider, else the first."""
    names = [d.name for d in placement.devices]
    if asked:
        check_one_of(asked, names, "the plan has no device", ExportError)
        return asked
    own = (d.name for d in placement.devices if provider_of(d) in providers)
    return next(own, names[0])


def ops_off(placement: Placement, device: str) -> list[int]:
    """Ops that are on other devices, in topological order; without constants."""
    return [op for op in _placed(placement) if _name(placement, op) != device]


def types_off(
    placement: Placement, device: str, types: Sequence[str] = ()
) -> tuple[set[str], dict[str, list[int]]]:
    """Types of which no op is on a device; and for types of which some are, the ops that are not.

    Args:
        placement: the plan.
        device: the name of the device.
        types: [op] its type; empty: that of the graph.
    """
    types = types or placement.graph.op_types
    on = {types[op] for op in _placed(placement) if _name(placement, op) == device}
    off = grouped((types[op], op) for op in ops_off(placement, device))
    return off.keys() - on, {kind: ops for kind, ops in off.items() if kind in on}


def _placed(placement: Placement) -> list[int]:
    return [
        op for op in placement.graph.order.tolist() if placement.division.subgraph_of_op[op] >= 0
    ]


def _name(placement: Placement, op: int) -> str:
    device: int = placement.assignment.device[op]
    return placement.devices[device].name


def with_names(
    placement: Placement, out_dir: Path, stamp: str
) -> tuple[list[str], str, list[Path]]:
    """[op] its name; the file of a copy that has these names, where the model has not, and what was written."""
    graph, names = placement.graph, unique_names(placement.graph)
    if all(names[op] == graph.op_names[op] for op in _placed(placement)):
        return names, "", []
    model = open_copy(graph)
    for node, name in zip(model.graph.node, names, strict=True):
        node.name = name
    path = out_dir / f"{safe_stem(graph.name)}_named.onnx"
    return names, path.name, write_model(model, graph, path, stamp)


def tell_of_mixed(mixed: dict[str, list[int]], how: str) -> None:
    """Warns of ops that a list of types cannot keep off."""
    kinds = ", ".join(f"{len(ops)} {kind}" for kind, ops in list(mixed.items())[:_MOST_NAMED])
    count = sum(map(len, mixed.values()))
    warnings.warn(
        f"{pluralize(count, 'op')} of types that are on the device, too ({kinds}): {how}",
        stacklevel=3,
    )
