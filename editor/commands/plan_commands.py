"""Commands that create and run plans: ``devices``, ``partition``, ``run``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import editor
from editor.devices.discovery import unusable_runtimes
from editor.errors import ExportError
from editor.exports.render import render
from editor.placement.rules import load_rules
from editor.text import counted, human_bytes, human_seconds
from editor.workspace.plan import Plan


def devices(options: argparse.Namespace) -> int:
    """Lists the devices of this machine."""
    available = editor.available_devices()
    if options.json:
        print(json.dumps([vars(d) for d in available], indent=1))
        return 0
    width = max(len(d.name) for d in available)
    for device in available:
        print(f"{device.name:<{width}}  {device.description}  [{device.hardware}]")
    for runtime in unusable_runtimes():
        print(f"{runtime.name}: installed but unusable: {runtime.reason}")
    print("\nA name that is not here (GPU, NPU, OpenCL, MYRIAD ...) can still be planned for: its ops are painted, "
          "exported and checked on a stand-in.")
    return 0


def partition(options: argparse.Namespace) -> int:
    """Partitions a model; writes the plan, the DOT files and the log."""
    graph = editor.load_model(options.model, dict(options.define))
    plan = editor.partition(graph, options.devices, policy=options.policy, pins=dict(options.pin),
                            rules=load_rules(options.rules) if options.rules else (), subgraphs=options.subgraphs,
                            policy_options={k: getattr(options, k) for k in ("objective", "costs", "codegen")
                                            if getattr(options, k)})
    paths = [plan.save(options.out / "plan.json"), *plan.export("dot", options.out, dag="no"),
             *plan.export("log", options.out, sidecar="no")]
    _print_summary(plan)
    print("\n".join(f"wrote {path}" for path in (*paths, *_pictures(path for path in paths if path.suffix == ".dot"))))
    return 0


def _pictures(paths: Iterable[Path]) -> list[Path]:
    """Renders DOT files in parallel, because Graphviz runs in separate processes."""
    drawn = []
    with ThreadPoolExecutor() as pool:
        for picture in [pool.submit(render, path) for path in paths]:
            try:
                drawn.append(picture.result())
            except ExportError as error:
                print(f"note: {error}", file=sys.stderr)
    return drawn


def _print_summary(plan: Plan) -> None:
    for note in plan.graph.notes:
        print(f"note: {note}", file=sys.stderr)
    for device in plan.devices:
        print(f"{device.name}: {plan.placement.op_counts[device.name]} ops ({device.description})")
    assignment = plan.placement.assignment
    if assignment.objective is not None:
        word = "estimated" if assignment.estimated else "from the profile"
        proof = f", no placement is below {human_seconds(assignment.bound)}" if assignment.bound is not None else ""
        print(f"{assignment.objective_name}: {human_seconds(assignment.objective)} {word}{proof}")
    moved = plan.placement.division.bytes_moved
    print(f"{counted(len(plan.subgraphs), 'subgraph')}, {counted(len(plan.transfers), 'transfer')}, "
          f"{human_bytes(moved)} moved per run")


def run(options: argparse.Namespace) -> int:
    """Runs a plan once."""
    import numpy as np

    from editor.execution.inputs import random_inputs, read_inputs

    plan = editor.load_plan(options.plan)
    inputs = read_inputs(plan.graph, options.inputs) if options.inputs else random_inputs(plan.graph)
    for device in plan.devices:
        if device.planned and plan.placement.op_counts[device.name]:
            print(f"note: {device.name} is not on this machine; its subgraphs run on a stand-in", file=sys.stderr)
    outputs = plan.run(inputs)
    for name, value in outputs.items():
        array = np.asarray(value) if not isinstance(value, list) else None
        print(f"{name}: {array.dtype} {'x'.join(map(str, array.shape)) or 'scalar'}" if array is not None
              else f"{name}: a sequence of {len(value)}")
    if options.outputs:
        _save_outputs(options.outputs, outputs)
        print(f"wrote {options.outputs}")
    return 0


def _save_outputs(path: Path, outputs: dict[str, Any]) -> None:
    import numpy as np

    odd = [name for name, value in outputs.items() if not isinstance(value, np.ndarray) or value.dtype.kind == "O"]
    if odd:
        raise ExportError(f"{path}: output {odd[0]!r} is no numeric tensor and has no place in an .npz file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb") as file:
            np.savez(file, **outputs)
    except OSError as error:
        raise ExportError(f"{path}: cannot be written ({error.strerror})") from error
