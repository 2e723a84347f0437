"""Commands that create and run plans: ``devices``, ``partition``, ``run``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import editor
from editor.commands.plan_summary import print_summary
from editor.devices.discovery import unusable_runtimes
from editor.devices.presets import preset_names
from editor.errors import EditorError, ExportError
from editor.execution.machines.link_speed import measure_wires
from editor.exports.render import render
from editor.files import json_text, write_atomic
from editor.graph.graph import Graph
from editor.graph.proposed_sizes import proposed_sizes, sizes_text
from editor.placement.rules import load_rules
from editor.placement.subgraphs.division import moved_in_words
from editor.runtimes.machines.directory import directory
from editor.terminal import printable, unprotected
from editor.text import counted, human_bytes, human_seconds
from editor.workspace.sizes import names_of, parse_sizes, words

_CLEAR_LINE = "\r\033[K"


def devices(options: argparse.Namespace) -> int:
    """Lists the devices of this machine."""
    available = editor.available_devices()
    if options.json:
        print(json.dumps([asdict(d) for d in available], indent=1))
        return 0
    width = max(len(d.name) for d in available)
    for device in available:
        print(f"{device.name:<{width}}  {device.description}  [{device.details}]")
    for runtime in unusable_runtimes():
        print(f"{runtime.name}: installed but unusable: {runtime.reason}")
    if options.scheduler:
        _print_machines(options.links)
    print("\nA name that is not here (GPU, NPU, OpenCL, MYRIAD ...) can still be planned for: its ops are painted, "
          "exported and checked on a stand-in.")
    print(f"Presets for planned devices, as in HETERO:NPU(edgetpu),CPU: {', '.join(preset_names())}")
    return 0


def _print_machines(links: bool) -> None:
    """What is wrong with the machines at the scheduler, and the links between them."""
    machines = directory.machines()
    for machine in machines:
        if machine.problem:
            print(f"{machine.name}: cannot be used: {machine.problem}")
        for note in machine.notes:
            print(f"{machine.name}: installed but unusable: {note}")
    usable = [machine.name for machine in machines if not machine.problem]
    if not links:
        return
    for (source, target), wire in measure_wires(usable).items():
        print(f"{source or 'here'} -> {target or 'here'}: {human_seconds(wire.latency)}, "
              f"{wire.bandwidth * 8 / 1e6:.4g} Mbit/s (measurement)")


def load_with_sizes(path: Path, define: Mapping[str, int]) -> Graph:
    """A model whose open dimensions have sizes: those of ``--define``, and proposed ones, which are printed."""
    graph = editor.load_model(path, define)
    if not graph.unbound:
        return graph
    sizes = proposed_sizes(graph)
    print(f"sizes assumed: {sizes_text(sizes)}; --define changes them", file=sys.stderr)
    return editor.load_model(path, {**define, **sizes})


def partition(options: argparse.Namespace) -> int:
    """Partitions a model; writes the plan, the DOT files and the log."""
    _check_options(options)
    graph = load_with_sizes(options.model, dict(options.define))
    rules = load_rules(options.rules) if options.rules else ()
    capabilities = None
    if options.profile:
        from editor.commands.import_commands import print_profile_report

        plan = editor.partition(graph, options.devices)
        for device, file in options.profile:
            print_profile_report(plan, plan.import_profile(file, device)[1])
        capabilities, options.costs = plan.placement.constraints.capabilities, options.costs or "measured"
    plan = editor.partition(graph, options.devices, policy=options.policy, pins=dict(options.pin), rules=rules,
                            subgraphs=options.subgraphs, capabilities=capabilities,
                            policy_options={k: getattr(options, k) for k in ("objective", "costs", "codegen", "search")
                                            if getattr(options, k) is not None})
    paths = [plan.save(options.out / "plan.json"), *plan.export("dot", options.out, dag="no"),
             *plan.export("log", options.out, sidecar="no")]
    print_summary(plan)
    print("\n".join(f"wrote {path}" for path in (*paths, *_pictures(path for path in paths if path.suffix == ".dot"))))
    return 0


def _check_options(options: argparse.Namespace) -> None:
    """Raises ``EditorError`` for an option that the policy does not look at: it would be ignored without a word."""
    if options.objective and options.policy != "optimal":
        raise EditorError(f"--objective is for --policy optimal; the policy is {options.policy}")
    if options.costs and not options.profile and options.policy in ("priority", "rules"):
        raise EditorError(f"--costs is for policies that weigh costs (optimal, memory, pipeline), not for {options.policy}")


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
        if path.is_file():  # a part of what should be in it
            path.unlink()
        raise ExportError(f"{path}: cannot be written ({error.strerror or error})") from error


def _show_progress(done: int, total: int, sizes: str) -> None:
    print(f"{_CLEAR_LINE}{done + 1} of {total}: {printable(sizes)}", end="", file=unprotected(sys.stderr), flush=True)


def _over(size: int, limit: int | None) -> str:
    return f" (over its {human_bytes(limit)})" if limit is not None and size > limit else ""


def sizes(options: argparse.Namespace) -> int:
    """Prints a plan's decisions at several sizes of the inputs; exit status 1 where one of them has no plan."""
    plan = editor.load_plan(options.plan)
    wanted = parse_sizes(" ".join(options.sizes))
    names = names_of(wanted)
    rows = plan.at_sizes(wanted, _show_progress if sys.stderr.isatty() else None)
    if sys.stderr.isatty():
        print(_CLEAR_LINE, end="", file=unprotected(sys.stderr))
    table = [["sizes", "latency", "kind", "subgraphs", "moved", "other devices",
              *(f"{d.name}: ops, memory" for d in plan.devices)]]
    for row in rows:
        if row.problem:
            first = row.problem.splitlines()[0]
            table.append([words(row, names), f"no plan: {first}{' (see below)' if first != row.problem else ''}"])
            continue
        f = row.figures
        table.append([words(row, names), human_seconds(f["predicted"]), str(row.basis), str(f["subgraphs"]),
                      moved_in_words(f["moved"], f["unknown"]), counted(row.moved_ops, "op"),
                      *(f"{f['ops'][d.name]}, {human_bytes(f['memory'][d.name])}{_over(f['memory'][d.name], d.memory)}"
                        for d in plan.devices)])
    widths = [max((len(line[i]) for line in table if len(line) > i and (len(line) > 2 or not i)), default=0)
              for i in range(len(table[0]))]
    for line in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=False)).rstrip())
    without = [row for row in rows if row.problem]
    for row in without:
        if "\n" in row.problem:
            print(f"\n{words(row, names)}: {row.problem}")
    if options.json:
        write_atomic(options.json, json_text([asdict(row) for row in rows]))
    return 1 if without else 0
