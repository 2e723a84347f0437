"""Writes which operators of a TensorFlow Lite file stay off a delegate of LiteRT, by their numbers."""

from __future__ import annotations

import struct
import warnings
from pathlib import Path
from typing import Any

from editor.errors import ExportError
from editor.exports.kept_off import device_of, ops_off
from editor.exports.model_copy import open_copy, write_document
from editor.graph.graph import Graph
from editor.groups import grouped
from editor.placement.placement import Placement
from editor.sandbox.worker import run
from editor.text import pluralize

Operator = tuple[tuple[str, ...], tuple[str, ...]]
"""Names of the tensors that an operator reads, and of those that it makes."""


def unfit_for_litert(graph: Graph) -> str:
    """Why LiteRT has no numbers for the ops of a model; "" where it has."""
    if graph.source == "tflite":
        return ""
    return f"{graph.path}: LiteRT takes numbers of operators in a TensorFlow Lite file, which this is not; open the .tflite"


def write_litert(
    placement: Placement, out_dir: Path, stamp: str = "", device: str = ""
) -> list[Path]:
    """Writes ``<model>.litert.json``: operators that stay off a device, and the range of those on it where that says the same.

    `first_delegate_node_index` and `last_delegate_node_index` are read in LiteRT f674577 (`tflite/tools/delegates/README.md`,
    `tflite/delegates/gpu/delegate_options.h`). A list of numbers is from pull request 5073 of LiteRT, which is in no release.

    OpenVINO makes several ops of some operators: they go with the one that has the operator's tensor. It makes none of others:
    these go with the operators that read them.

    Raises:
        ExportError: the file is gone, changed since it was opened, or has another form.
    """
    graph, chosen = placement.graph, device_of(placement, device)
    open_copy(graph)  # which finds that the file changed
    operators = run(operators_of, graph.path, what="reading operators of", path=graph.path)
    maker = {name: number for number, (_, made) in enumerate(operators) for name in made}
    side, torn = _sides(placement, maker, set(ops_off(placement, chosen)))
    readers = grouped(
        (name, number) for number, (reads, _) in enumerate(operators) for name in reads
    )
    for number in reversed(range(len(operators))):
        theirs = {side.get(r) for name in operators[number][1] for r in readers.get(name, ())}
        if number not in side and len(theirs) == 1 and None not in theirs:
            side[number] = bool(theirs.pop())
    if torn:
        warnings.warn(
            f"{pluralize(len(torn), 'op')} without an operator of {'its' if len(torn) == 1 else 'their'} own "
            f"({', '.join(torn[:3])}{', ...' if len(torn) > 3 else ''}): LiteRT runs them with the operator that reads them",
            stacklevel=2,
        )
    kept = [number for number in range(len(operators)) if side.get(number)]
    on = [number for number in range(len(operators)) if side.get(number) is False]
    document: dict[str, Any] = {
        "made_by": stamp,
        "model": graph.path.name,
        "operators": len(operators),
        "skip_operators": kept,
        "not_known": [n for n in range(len(operators)) if n not in side],
    }
    if on and not set(kept) & set(range(on[0], on[-1])):
        document |= {"first_delegate_node_index": on[0], "last_delegate_node_index": on[-1]}
    return [write_document(graph, out_dir, ".litert.json", document)]


def _sides(
    placement: Placement, maker: dict[str, int], off: set[int]
) -> tuple[dict[int, bool], list[str]]:
    """Operator -> whether it is off the device; and keys of ops that are not where their operator is."""
    graph, side, torn = placement.graph, dict[int, bool](), list[str]()
    owner: dict[int, set[int]] = {}
    for op in reversed(graph.order.tolist()):
        tensors = (graph.tensor_names[t] for t in graph.op_outputs[op].tolist() if t >= 0)
        own = {maker[name] for name in tensors if name in maker}
        readers = (owner.get(o, set()) for o in graph.successors[op].tolist())
        owner[op] = own or set().union(*readers)
        if placement.division.subgraph_of_op[op] < 0:
            continue
        if own:
            side |= dict.fromkeys(own, op in off)
        elif any(side.get(number, op in off) != (op in off) for number in owner[op]):
            torn.append(graph.op_keys[op])
    return side, torn


def operators_of(path: Path) -> list[Operator]:
    """The operators of the first subgraph of a file, in its order.

    Raises:
        ExportError: the file is not a TensorFlow Lite model.
    """
    try:
        data = path.read_bytes()
        graph = _tables(data, _at(data, 0), 2)[0]
        names = [_text(data, tensor, 3) for tensor in _tables(data, graph, 0)]
        return [
            (_names(data, operator, 1, names), _names(data, operator, 2, names))
            for operator in _tables(data, graph, 3)
        ]
    except (OSError, struct.error, IndexError) as error:
        raise ExportError(
            f"{path}: its operators cannot be read ({error}); get the file again"
        ) from error


def _at(data: bytes, position: int) -> int:
    """Where an offset of a flatbuffer leads to."""
    offset: int = struct.unpack_from("<I", data, position)[0]
    return position + offset


def _field(data: bytes, table: int, slot: int) -> int:
    """Position of a field of a table; 0 where the table has none."""
    layout = table - struct.unpack_from("<i", data, table)[0]
    if 4 + 2 * slot >= struct.unpack_from("<H", data, layout)[0]:
        return 0
    offset: int = struct.unpack_from("<H", data, layout + 4 + 2 * slot)[0]
    return table + offset if offset else 0


def _numbers(data: bytes, table: int, slot: int) -> tuple[int, tuple[int, ...]]:
    """A field that is a vector of numbers of 32 bits, and the position of the first."""
    if not (position := _field(data, table, slot)):
        return 0, ()
    start = _at(data, position)
    count = struct.unpack_from("<I", data, start)[0]
    return start + 4, struct.unpack_from(f"<{count}i", data, start + 4)


def _tables(data: bytes, table: int, slot: int) -> list[int]:
    start, offsets = _numbers(data, table, slot)
    return [start + 4 * i + offset for i, offset in enumerate(offsets)]


def _text(data: bytes, table: int, slot: int) -> str:
    if not (position := _field(data, table, slot)):
        return ""
    start = _at(data, position)
    count = struct.unpack_from("<I", data, start)[0]
    return data[start + 4 : start + 4 + count].decode("utf-8", "replace")


def _names(data: bytes, operator: int, slot: int, names: list[str]) -> tuple[str, ...]:
    return tuple(names[n] for n in _numbers(data, operator, slot)[1] if n >= 0)
