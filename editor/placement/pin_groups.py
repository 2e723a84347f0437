"""Groups pins by the blocks that they cover, so that a few lines say what hundreds of pins are: layers.4–7 on GPU."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from editor.graph.graph import Graph
from editor.graph.scopes.tree import scopes_of
from editor.groups import grouped

_ALONE = 12
"""Most pins outside whole blocks that are named one by one."""
_NUMBER = re.compile(r"(\d+)")


@dataclass(frozen=True)
class PinGroup:
    """Ops that are pinned to one device or label."""

    name: str
    """Of the blocks ("layers.4–7"), of the op type, or of a single op."""
    device: str
    ops: tuple[int, ...]
    is_block: bool = False

    @property
    def what(self) -> str:
        """Text such as "layers.4–7 (112 ops)", "16 Conv", or the name of a single op."""
        if len(self.ops) == 1:
            return self.name
        return (
            f"{self.name} ({len(self.ops):,} ops)"
            if self.is_block
            else f"{len(self.ops):,} {self.name}"
        )


def pin_groups(graph: Graph, pins: Mapping[str, str]) -> list[PinGroup]:
    """The pins as whole blocks, and what is left of them by op type; few are named one by one."""
    ops_of = grouped((device, graph.key_index[key]) for key, device in pins.items())
    found: list[PinGroup] = []
    rest: list[tuple[str, int]] = []
    for device, ops in ops_of.items():
        blocks = _blocks(graph, device, ops)
        inside = {op for block in blocks for op in block.ops}
        found += _merged(blocks)
        rest += [(device, op) for op in ops if op not in inside]
    name_of = graph.display_name if len(rest) <= _ALONE else graph.type_label
    groups = grouped(((device, name_of(op)), op) for device, op in rest)
    for (device, name), ops in groups.items():
        single = graph.display_name(ops[0]) if len(ops) == 1 else name
        found.append(PinGroup(single, device, tuple(ops)))
    return found


def _blocks(graph: Graph, device: str, ops: list[int]) -> list[PinGroup]:
    """The outermost blocks of several ops that are all pinned to a device."""
    scopes, pinned = scopes_of(graph), set(ops)
    covered = set[int]()
    found = []
    for scope in scopes.scopes:
        if scope.parent in covered:
            covered.add(scope.number)
        elif len(scope.ops) > 1 and not scope.is_run and pinned.issuperset(scope.ops):
            covered.add(scope.number)
            name = scope.label if scope.path else "all ops"
            found.append(PinGroup(name, device, tuple(scope.ops), True))
    return found


def _merged(blocks: list[PinGroup]) -> list[PinGroup]:
    """Blocks whose names differ in consecutive numbers only, as one: "layers.4" and "layers.5" are "layers.4–5"."""
    found: list[PinGroup] = []
    last: list[str] = []
    """The name of the last block, in parts of which every other one is a number."""
    first: tuple[int, str] | None = None
    """Where the names of the present group differ, and its first number."""
    for block in blocks:
        parts = _NUMBER.split(block.name)
        apart = [i for i, pair in enumerate(zip(last, parts, strict=False)) if pair[0] != pair[1]]
        at = apart[0] if len(apart) == 1 and len(last) == len(parts) else -1
        follows = at > 0 and at % 2 == 1 and int(parts[at]) == int(last[at]) + 1
        if found and follows and (first is None or first[0] == at):
            first = first or (at, last[at])
            name = "".join([*parts[:at], f"{first[1]}–{parts[at]}", *parts[at + 1 :]])
            found[-1] = replace(found[-1], name=name, ops=found[-1].ops + block.ops)
        else:
            found.append(block)
            first = None
        last = parts
    return found
