"""The command that says where a plan loses accuracy."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tqdm import tqdm

import editor
from editor.errors import ExecutionError
from editor.execution.inputs import read_inputs
from editor.execution.measure.accuracy import (
    COLUMNS,
    ORIGINS,
    Accuracy,
    TensorError,
    read_values,
    row_of,
)
from editor.files import json_text, write_atomic
from editor.terminal import printable, unprotected
from editor.text import csv_text, pluralize

_MOST_LINES = 10


def accuracy(options: argparse.Namespace) -> int:
    """Compares the tensors of a plan with a reference."""
    plan = editor.load_plan(options.plan)
    given: Path | None = options.reference_outputs
    if given is not None and options.inputs is None:
        raise ExecutionError(f"{given} is for certain inputs: name them with --inputs")
    with tqdm(file=unprotected(sys.stderr), disable=not sys.stderr.isatty(), leave=False) as bar:

        def show(done: int, total: int, text: str) -> None:
            bar.total, bar.n = total, done
            bar.set_description_str(printable(text))

        found = plan.accuracy(
            options.reference if given is None else read_values(given),
            read_inputs(plan.graph, options.inputs) if options.inputs else None,
            every_tensor=options.every_tensor,
            tolerance=options.tolerance,
            threads=options.threads,
            progress=show,
        )
    for text in found.notes:
        print(f"note: {text}", file=sys.stderr)
    print(json_text(found.as_dict()) if options.json else text_of(found))
    if options.csv is not None:
        write_atomic(options.csv, csv_text(COLUMNS, map(row_of, found.tensors)))
        print(f"wrote {options.csv}", file=sys.stderr)
    return 0


def text_of(found: Accuracy) -> str:
    """The lines of a report."""
    count = pluralize(len(found.tensors), "tensor")
    lines = [
        f"{count}{'' if found.every_tensor else ' at the ends of subgraphs'} compared with {found.reference}"
    ]
    first = found.first
    if first is None:
        lines.append("all are within their tolerances")
    else:
        outside = sum(not one.ok for one in found.tensors)
        lines.append(
            f"first outside its tolerance: {_words(first, found)}; {pluralize(outside, 'tensor')} in all"
        )
    outputs = [one for one in found.tensors if one.tensor in found.outputs]
    for title, errors in (
        ("outputs", outputs),
        ("where noise grows most", found.grown[:_MOST_LINES]),
    ):
        if errors:
            lines.append(f"{title}:")
            lines += [f"  {_words(one, found)}" for one in errors[:_MOST_LINES]]
            rest = len(errors) - _MOST_LINES
            lines += [f"  … {rest:,} more; --json and --csv have all"] if rest > 0 else []
    met = {one.origin for one in (*outputs, *found.grown)}
    lines += [f"{origin}: {meaning}" for origin, meaning in ORIGINS.items() if origin in met]
    return "\n".join(lines)


def _words(one: TensorError, found: Accuracy) -> str:
    """One line about a tensor."""
    if not one.noise:
        return f"{one.tensor} of {one.name} ({one.type}) on {one.device}: equal"
    where = "here" if found.every_tensor else f"in subgraph {one.subgraph}"
    origin = f"grown {where}" if one.origin == "grown" else "inherited"
    verdict = "" if one.ok else " OUTSIDE"
    return (
        f"{one.tensor} of {one.name} ({one.type}) on {one.device}: relative {one.relative:.2g} "
        f"(tolerance {one.tolerance:g}{verdict}), SNR {one.snr:.1f} dB, cosine {one.cosine:.6f}, {origin}"
    )
