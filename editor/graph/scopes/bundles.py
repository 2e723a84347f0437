"""Repeated blocks of a model, and groups for the ops outside them (masks, position ids, rotary tables)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from editor.graph.graph import Graph
from editor.graph.scopes.paths import Path, is_numbered, pattern_of

_MIN_MEMBERS, _MIN_MEMBER_OPS = 3, 4
_MAX_SIZE_RATIO = 2.0
"""Largest ratio of the sizes of repeated blocks: stages of different depth are not a repetition, but their blocks are."""
_LEAST_SHARE = 0.3
"""Least share of the model's ops in repeated blocks."""
_MAX_LOOSE_OPS = 12
"""Most ops outside the repeated blocks that are not grouped."""
_SHARED, _FIRST, _LAST = "shared ops", "first ops", "last ops"


def repeated_blocks(sizes: Mapping[Path, int], total: int) -> set[Path]:
    """The outermost repeated blocks (the layers), given the number of ops of every block."""
    lists: dict[str, list[Path]] = {}
    for path in sizes:
        if path and is_numbered(path[-1]):
            lists.setdefault(pattern_of(path), []).append(path)
    inner = Counter(path[:depth] for paths in lists.values() for path in paths for depth in range(1, len(path)))
    repeated: set[Path] = set()
    for members in sorted(lists.values(), key=lambda paths: len(paths[0])):
        counts = [sizes[path] for path in members]
        if (len(members) >= _MIN_MEMBERS and not _are_stages([inner[path] for path in members])
                and min(counts) >= _MIN_MEMBER_OPS and max(counts) <= _MAX_SIZE_RATIO * min(counts)
                and not any(path[:depth] in repeated for path in members for depth in range(len(path)))):
            repeated.update(members)
    return repeated if sum(sizes[path] for path in repeated) >= _LEAST_SHARE * total else set()


def _are_stages(lengths: Sequence[int]) -> bool:
    """Whether blocks of a list are lists themselves, of different lengths: 3, 4, 6 and 3 blocks in the stages of a ResNet."""
    return min(lengths) > 1 and len(set(lengths)) > 1


def bundled(graph: Graph, placed: Sequence[int], paths: Mapping[int, Path]) -> dict[int, Path]:
    """Op -> path, with new blocks for the ops outside the repeated blocks where these are many.

    Ops that feed several blocks form one new block; the others form one before and one after the repeated blocks.
    """
    sizes: dict[Path, int] = {}
    for path in paths.values():
        for depth in range(1, len(path) + 1):
            sizes[path[:depth]] = sizes.get(path[:depth], 0) + 1
    members = repeated_blocks(sizes, len(placed))
    around = {path[:depth] for path in members for depth in range(len(path))}
    loose = [op for op in placed if paths[op] in around]
    if len(loose) <= _MAX_LOOSE_OPS:
        return dict(paths)
    shared = _feeding_several(graph, loose, paths, around)
    rest = [op for op in loose if op not in shared]
    inside = [i for i, op in enumerate(placed) if any(paths[op][:depth] in members for depth in range(len(paths[op]) + 1))]
    position = {op: i for i, op in enumerate(placed)}
    result = dict(paths)
    _bundle(result, [op for op in loose if op in shared], _SHARED)
    if len(rest) > _MAX_LOOSE_OPS:
        _bundle(result, [op for op in rest if position[op] < inside[0]], _FIRST)
        _bundle(result, [op for op in rest if position[op] > inside[-1]], _LAST)
    return result


def _feeding_several(graph: Graph, loose: Sequence[int], paths: Mapping[int, Path], around: set[Path]) -> set[int]:
    """Loose ops whose results reach more than one block through loose ops; reading only a shape does not count."""
    reached: dict[int, frozenset[Path]] = {op: frozenset() for op in loose}
    for op in reversed(loose):
        readers = [r for r in graph.successors[op].tolist() if r in paths]
        readers = [r for r in readers if graph.op_types[r] not in ("Shape", "Size")] or readers
        blocks: frozenset[Path] = frozenset()
        for reader in readers:
            blocks |= reached[reader] if reader in reached else {_block(paths[reader], around)}
            if len(blocks) > 2:
                break
        reached[op] = blocks
    return {op for op, blocks in reached.items() if len(blocks) > 1}


def _block(path: Path, around: set[Path]) -> Path:
    """The outermost block of an op that is not loose."""
    return next(path[:depth] for depth in range(len(path) + 1) if path[:depth] not in around)


def _bundle(paths: dict[int, Path], ops: Sequence[int], name: str) -> None:
    if len(ops) < 2:
        return
    shared = paths[ops[0]]
    for op in ops:
        while paths[op][:len(shared)] != shared:
            shared = shared[:-1]
    for op in ops:
        paths[op] = (*shared, name)
