"""Commands that make, read and export plans."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import editor
from editor.devices.discovery import unusable_runtimes
from editor.devices.published import preset_names
from editor.errors import EditorError, ExportError, PlanError
from editor.execution.machines.remote_profile import measure_wires
from editor.exports.dot import render
from editor.exports.formats import check
from editor.files import write_atomic
from editor.graph.graph import Graph
from editor.graph.proposed_sizes import sizes_text, with_all_sizes
from editor.graph.states import parse_lengths, sizes_at_context
from editor.imports.device_figures import ProfileReport
from editor.imports.profile_files import times_in
from editor.placement.choices import OPTIONS, POLICIES
from editor.placement.chosen_costs import costs_of_plan, streams
from editor.placement.costs import estimate
from editor.placement.device_profile import basis_of, costs_of, unprofiled
from editor.placement.fallbacks import chosen_elsewhere, fallbacks
from editor.placement.placement import Settings, solve
from editor.placement.remarks import remarks, wrong_types
from editor.placement.rules import load_rules, match_counts, nearest_type, rule_text
from editor.placement.state_memory import state_memory
from editor.placement.subgraphs.division import moved_in_words
from editor.runtimes.machines.connection import directory
from editor.terminal import (
    answer,
    answer_or_write,
    printable,
    tell_notes,
    tell_written,
    unprotected,
)
from editor.text import counted, human_bytes, human_seconds, in_words, pluralize, shortened
from editor.workspace import plan_file
from editor.workspace.folders import uploads_of
from editor.workspace.plan import Plan
from editor.workspace.sizes import names_of, parse_sizes, words

if TYPE_CHECKING:
    from editor.workspace.history import Record

_MOST_REASONS, _MOST_KINDS = 4, 4
_REASON = 140
"""Letters of a reason."""


def print_notes(plan: Plan) -> None:
    """Prints what a person should know of the model and of the devices' runtimes, to standard error."""
    tell_notes((*plan.graph.notes, *remarks(plan.placement)))


def summary(plan: Plan) -> dict[str, Any]:
    """What ``print_summary`` says, for JSON."""
    graph, placement, division = plan.graph, plan.placement, plan.placement.division
    costs, basis = costs_of_plan(placement)
    found = fallbacks(placement, costs) if len(plan.devices) > 1 else []
    energy = plan.energy()
    return {
        "model": graph.path,
        "format": graph.source,
        "define": graph.define,
        "policy": plan.settings.policy,
        "devices": [
            {
                "name": device.name,
                "description": device.description,
                "planned": device.planned,
                "ops": placement.op_counts[device.name],
                "memory": plan.run_memory.peaks[device.name],
                "limit": device.memory,
            }
            for device in plan.devices
        ],
        "subgraphs": len(plan.subgraphs),
        "transfers": division.transfer_count,
        "bytes_moved": division.bytes_moved,
        "unknown_transfers": division.unknown_transfers,
        "latency": placement.price(costs).total,
        "kind": basis.kind,
        "energy": energy.to_dict() if energy is not None else None,
        "fallbacks": [
            {
                "wanted": each.wanted,
                "reason": each.reason,
                "types": each.op_types,
                "ops": [graph.op_keys[op] for op in each.ops],
                "devices": each.devices,
                "seconds": each.seconds,
            }
            for each in found
        ],
        "state": state_memory(placement),
    }


def print_summary(plan: Plan) -> None:
    """Prints where ops are, what that costs, what fell back and why, and what does not fit; notes go to stderr."""
    print_notes(plan)
    for device in plan.devices:
        print(
            f"{device.name}: {pluralize(plan.placement.op_counts[device.name], 'op')} ({device.description})"
        )
    assignment = plan.placement.assignment
    if assignment.objective is not None:
        source = str(plan.settings.policy_options.get("costs", "estimate"))
        basis = basis_of(
            costs_of(plan.graph, plan.devices, source), source, plan.placement.used_numbers
        )
        kind = basis if basis.detail else basis.kind
        proof = (
            f", no placement is below {assignment.human(assignment.bound)}"
            if assignment.bound is not None
            else ""
        )
        print(
            f"{assignment.objective_name}: {assignment.human(assignment.objective)} ({kind}){proof}"
        )
    division = plan.placement.division
    print(
        f"{pluralize(len(plan.subgraphs), 'subgraph')}, {pluralize(division.transfer_count, 'transfer')}, "
        f"{division.moved_text} moved per run"
    )
    if (energy := plan.energy()) is not None:
        print(f"energy: {energy} ({energy.basis})")
    for note in streams(plan.placement, costs_of_plan(plan.placement)[0]):
        print(f"estimates: {note}")
    over = [(m, m.limit) for m in plan.run_memory.devices if m.limit is not None and m.is_over]
    remedy = _remedy(plan) if over else ""
    for memory, limit in over:
        print(
            f"warning: {memory.device} is over its memory by {human_bytes(memory.peak - limit)} "
            f"(peak {human_bytes(memory.peak)} of {human_bytes(limit)}){remedy}"
        )
    if not over and (short := plan.run_memory.over_with_runtimes):
        print(f"warning: fits, but not with what runtimes add ({short}, estimated)")
    _print_fallbacks(plan)


def _remedy(plan: Plan) -> str:
    """Returns the advice for a device that is too small: the policy `memory`, but only where it finds a placement."""
    try:
        solve(plan.graph, plan.devices, replace(plan.settings, policy="memory", policy_options={}))
    except EditorError:
        return "; the policy memory finds nothing that fits either, and says why"
    return "; the policy memory keeps within it"


def _print_fallbacks(plan: Plan) -> None:
    """The ops that are off their preferred device, and why; rules without ops; what was forced."""
    placement = plan.placement
    found = (
        fallbacks(placement, estimate(plan.graph, plan.devices)) if len(plan.devices) > 1 else []
    )
    found.sort(key=lambda f: -len(f.ops))
    for fallback in found[:_MOST_REASONS]:
        ops = counted(map(plan.graph.type_label, fallback.ops), _MOST_KINDS, "more kind")
        reason = fallback.reason.replace(f" ({fallback.source})", "")
        reason = reason.removeprefix(f"{fallback.op_type}: ")
        by_rule = ", by rule" if fallback.by_rule else ""
        print(f"  not on {fallback.wanted}: {ops}{by_rule}: {shortened(reason, _REASON)}")
    if len(found) > _MOST_REASONS:
        print(
            f"  and for {pluralize(len(found) - _MOST_REASONS, 'more reason')}: export --to md lists them"
        )
    for name, others in chosen_elsewhere(placement).items():
        count = len(others)
        print(
            f"  {pluralize(count, 'op')} may run on {name} and {'is' if count == 1 else 'are'} elsewhere by the policy "
            f"{placement.settings.policy}: `why PLAN KEY` says why"
        )
    rules = placement.settings.rules
    for rule, count in zip(rules, match_counts(plan.graph, rules) if rules else (), strict=True):
        if not count:
            near = nearest_type(plan.graph, rule)
            meant = f"; is {near} meant?" if near else ""
            print(f"warning: no op matches the rule {rule_text(rule)}{meant}")
    if placement.forced_ops:
        print(
            f"warning: {pluralize(len(placement.forced_ops), 'op')} forced onto a device that cannot run them"
        )
    for each in wrong_types(placement):
        print(f"warning: {each.text}; {each.way_out}")


_SHOWN = 12
"""Layers without a match, and ops without a figure, that a report lists."""


def import_file(options: argparse.Namespace) -> int:
    """Imports the affinities of a file as pins, or its times as the profile of a device."""
    plan = editor.load_plan(options.plan)
    times = None if options.pins else times_in(options.file, asked=bool(options.device))
    if options.device or times is not None:
        if times is not None and len({layer.provider for layer in times.layers}) > 1:
            print(
                "note: it says where each op ran, too; --pins takes that as pins", file=sys.stderr
            )
        return _import_profile(plan, options)
    if options.out is None:
        raise PlanError(
            f"{options.file}: affinities become pins of a new plan; say where to write it with --out PLAN"
        )
    plan, report = plan.import_affinities(options.file)
    by = ", ".join(f"{count} by {kind}" for kind, count in report.how.items() if count)
    answer(
        options,
        report,
        f"{options.file}: {report.kind}; {pluralize(report.pinned, 'op')} pinned ({by or 'none matched'})",
    )
    for problem in report.problems:
        print(f"not used: {problem}", file=sys.stderr)
    tell_written(options, [plan.save(options.out)])
    return 0


def _import_profile(plan: Plan, options: argparse.Namespace) -> int:
    plan, report = plan.import_profile(options.file, options.device, options.machine)
    if options.json:
        answer(options, {"device": report.device, "text": report.text}, "")
    print_profile_report(plan, report, sys.stderr if options.json else sys.stdout)
    if options.out is not None:
        tell_written(options, [plan.save(options.out)])
    return 0


def print_profile_report(plan: Plan, report: ProfileReport, to: TextIO) -> None:
    """Prints what an imported profile covers, and which devices still lack one."""
    print(f"{report.device}: {report.text}", file=to)
    tell_notes(report.problems(_SHOWN))
    if missing := unprofiled(plan.graph, plan.devices):
        print(
            f"note: no profile of {', '.join(missing)} yet; costs from profiles need it: `python -m editor profile PLAN`, or "
            "import one",
            file=sys.stderr,
        )


def kit(options: argparse.Namespace) -> int:
    """Writes the kit of a device."""
    paths = editor.load_plan(options.plan).write_kit(options.out, options.device, options.runtime)
    models = [path for path in paths if path.name.startswith("group_")]
    size = sum(path.stat().st_size for path in paths)
    answer(
        options,
        {"written": paths, "groups": len(models), "bytes": size},
        f"wrote {options.out}: {pluralize(len(models), 'group')} of ops to measure, {human_bytes(size)}\n"
        "There, with numpy and onnxruntime or openvino: python run.py\n"
        "Back here: python -m editor import PLAN profile.json",
    )
    return 0


def export(options: argparse.Namespace) -> int:
    """Writes a plan for another tool."""
    plan = editor.load_plan(options.plan)
    check(options.to, dict(options.option))
    written, forms = list[Path](), [form.strip() for form in options.render.split(",") if form]
    for path in plan.export(options.to, options.out, **dict(options.option)):
        written.append(path)
        if path.suffix == ".dot":
            written += _pictures([path], forms)
    answer(options, {"written": written}, "\n".join(f"wrote {path}" for path in written))
    return 0


def why(options: argparse.Namespace) -> int:
    """Explains why an op is where it is."""
    found = editor.load_plan(options.plan).why(options.key)
    answer(options, found, str(found))
    return 0


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
    print(
        "\nA name that is not here (GPU, NPU, OpenCL, MYRIAD ...) can still be planned for: its ops are painted, "
        "exported and checked on a stand-in."
    )
    print(
        f"Presets for planned devices, as in HETERO:NPU(edgetpu),CPU: {', '.join(preset_names())}"
    )
    return 0


def _print_machines(links: bool) -> None:
    """Prints the problems of the machines at the scheduler, and the links between them."""
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
        print(
            f"{source or 'here'} -> {target or 'here'}: {human_seconds(wire.latency)}, "
            f"{wire.bandwidth * 8 / 1e6:.4g} Mbit/s (measurement)"
        )


def load_with_sizes(path: Path, define: Mapping[str, int], context: int | None = None) -> Graph:
    """A model whose open dimensions have sizes: those of ``--define``, of a context, and proposed ones, which are printed."""
    graph = editor.load_model(path, define)
    if context is not None:
        graph = editor.load_model(path, {**define, **sizes_at_context(graph, context)})
    graph, sizes = with_all_sizes(graph)
    if sizes:
        print(f"sizes assumed: {sizes_text(sizes)}; --define changes them", file=sys.stderr)
    return graph


def partition(options: argparse.Namespace) -> int:
    """Partitions a model; writes the plan, the DOT files and the log."""
    define, devices, settings = _wanted(options)
    _check_options(options, settings.policy)
    editor.load_devices(devices)  # its libraries of custom ops say what these return
    graph = load_with_sizes(options.model, define, options.context)
    settings = _fitting(settings, graph, dict(options.pin))
    capabilities = None
    if options.profile:
        plan = editor.partition(graph, devices)
        for device, file in options.profile:
            report = plan.import_profile(file, device)[1]
            print_profile_report(plan, report, sys.stderr if options.json else sys.stdout)
        capabilities = plan.placement.constraints.capabilities
        settings = replace(
            settings,
            policy_options={"costs": "measured", **settings.policy_options},
        )
    plan = Plan(solve(graph, editor.load_devices(devices), settings, capabilities))
    phases = None
    if options.phases:
        lengths = parse_lengths(options.phases, "--phases")
        plan, phases = plan.phases(lengths.prompt, lengths.new)
    paths = [
        plan.save(options.out / "plan.json"),
        *plan.export("dot", options.out, dag="no"),
        *plan.export("log", options.out, sidecar="no"),
    ]
    paths += _pictures(path for path in paths if path.suffix == ".dot")
    if options.json:
        print_notes(plan)
        document = summary(plan) | ({"phases": phases.to_dict()} if phases else {})
        answer(options, document | {"written": paths}, "")
        return 0
    if phases is not None:
        print(phases.text())
    print_summary(plan)
    for kept in state_memory(plan.placement):
        print(f"  {kept.text()}")
    tell_written(options, paths)
    return 0


def _wanted(options: argparse.Namespace) -> tuple[dict[str, int], Any, Settings]:
    """Sizes, devices and settings: those of the command line, and behind them those of the plan ``--like``."""
    define: dict[str, int] = {}
    devices: Any = "HETERO"
    kept = Settings()
    if options.like is not None:
        define, devices, kept = plan_file.decisions(plan_file.read(options.like), options.like)
    given = {k: getattr(options, k) for k in OPTIONS if getattr(options, k) is not None}
    same_policy = options.policy in (None, kept.policy)
    settings = replace(
        kept,
        policy=options.policy or kept.policy,
        policy_options={**(kept.policy_options if same_policy else {}), **given},
        pins={**kept.pins, **dict(options.pin)},
        subgraphs=options.subgraphs or kept.subgraphs,
        rules=load_rules(options.rules) if options.rules else kept.rules,
    )
    return {**define, **dict(options.define)}, options.devices or devices, settings


def _fitting(settings: Settings, graph: Graph, asked: Mapping[str, str]) -> Settings:
    """Settings without pins of ops that the model no longer has; those that were asked for stay, and are an error then."""
    gone = [key for key in settings.pins if key not in graph.key_index and key not in asked]
    tell_notes(f"the model has no op {key!r} any more; its pin is left out" for key in gone)
    pins = {key: label for key, label in settings.pins.items() if key not in gone}
    return replace(settings, pins=pins, forced=settings.forced & pins.keys())


def set_models(options: argparse.Namespace) -> int:
    """Places a set of models on one device table; writes their plans where ``--out`` says so."""
    if options.to and options.out is None:
        raise EditorError("--to writes files: say where with --out DIR")
    editor.load_devices(options.devices)  # its libraries of custom ops say what these return
    found = editor.partition_set(
        options.models,
        options.devices,
        options.policy,
        dict(options.times),
        dict(options.define),
        rules=load_rules(options.rules) if options.rules else (),
    )
    answer(options, found.to_dict(), found.text())
    if options.out is None:
        return 0
    paths = found.save(options.out)
    for each in found.members if options.to else ():
        paths += each.plan.export(options.to, options.out / each.name)
    tell_written(options, paths)
    return 0


def _check_options(options: argparse.Namespace, policy: str) -> None:
    """Raises ``EditorError`` for an option that the policy does not look at: it would be ignored without a word."""
    for name in OPTIONS:
        for_figures = name == "costs" and options.profile
        if getattr(options, name) is None or for_figures or name in POLICIES[policy].options:
            continue
        users = " or ".join(policy for policy, entry in POLICIES.items() if name in entry.options)
        raise EditorError(f"--{name} is for --policy {users}; the policy is {policy}")


def _pictures(paths: Iterable[Path], forms: Sequence[str] = ("svg",)) -> list[Path]:
    """Renders DOT files in parallel, because Graphviz runs in separate processes."""
    drawn = []
    with ThreadPoolExecutor() as pool:
        for picture in [pool.submit(render, path, form) for path in paths for form in forms]:
            try:
                drawn.append(picture.result())
            except ExportError as error:
                print(f"note: {error}", file=sys.stderr)
    return drawn


def run(options: argparse.Namespace) -> int:
    """Runs a plan once."""
    import numpy as np

    from editor.execution.inputs import read_inputs
    from editor.execution.invented_inputs import random_inputs

    plan = editor.load_plan(options.plan)
    inputs = (
        read_inputs(plan.graph, options.inputs) if options.inputs else random_inputs(plan.graph)
    )
    tell_notes(
        f"{device.name} is not on this machine; its subgraphs run on a stand-in"
        for device in plan.devices
        if device.planned and plan.placement.op_counts[device.name]
    )
    outputs = plan.run(inputs, strict=options.strict)
    if plan.successor is not None:
        print(
            f"note: partition again to keep the new plan; {options.plan} is as it was",
            file=sys.stderr,
        )
    said, document = [], []
    for name, value in outputs.items():
        if isinstance(value, list):
            said.append(f"{name}: a sequence of {len(value)}")
            document.append({"name": name, "sequence": len(value)})
            continue
        array = np.asarray(value)
        said.append(f"{name}: {array.dtype} {'x'.join(map(str, array.shape)) or 'scalar'}")
        document.append({"name": name, "type": str(array.dtype), "shape": array.shape})
    answer(options, {"outputs": document}, "\n".join(said))
    if options.outputs:
        _save_outputs(options.outputs, outputs)
        tell_written(options, [options.outputs])
    return 0


def _save_outputs(path: Path, outputs: dict[str, Any]) -> None:
    from editor.execution.inputs import packed

    content, odd = packed(outputs)
    tell_notes(f"{path} lacks output {name!r}, which is neither numbers nor text" for name in odd)
    write_atomic(path, content)


def _show_progress(done: int, total: int, sizes: str) -> None:
    print(
        f"{_CLEAR_LINE}{done + 1} of {total}: {printable(sizes)}",
        end="",
        file=unprotected(sys.stderr),
        flush=True,
    )


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
    table = [
        [
            "sizes",
            "latency",
            "kind",
            "subgraphs",
            "moved",
            "other devices",
            *(f"{d.name}: ops, memory" for d in plan.devices),
        ]
    ]
    for row in rows:
        if row.problem:
            first = row.problem.splitlines()[0]
            table.append(
                [
                    words(row, names),
                    f"{'no plan' if row.possible else 'impossible'}: {first}{' (see below)' if first != row.problem else ''}",
                ]
            )
            continue
        f = row.figures
        table.append(
            [
                words(row, names),
                in_words(f["predicted"], bool(f["assumed_speeds"])),
                str(row.basis),
                str(f["subgraphs"]),
                moved_in_words(f["moved"], f["unknown"]),
                pluralize(row.moved_ops, "op"),
                *(
                    f"{f['ops'][d.name]}, {human_bytes(f['memory'][d.name])}{_over(f['memory'][d.name], d.memory)}"
                    for d in plan.devices
                ),
            ]
        )
    widths = [
        max(
            (len(line[i]) for line in table if len(line) > i and (len(line) > 2 or not i)),
            default=0,
        )
        for i in range(len(table[0]))
    ]
    without = [row for row in rows if row.problem]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=False)).rstrip()
        for line in table
    ]
    lines += [f"\n{words(row, names)}: {row.problem}" for row in without if "\n" in row.problem]
    answer_or_write(options, rows, "\n".join(lines))
    return 1 if without else 0


def workspace(options: argparse.Namespace) -> int:
    """Lists the documents and uploads of a workspace, or removes some."""
    from editor.workspace.history import (
        Store,
    )  # SQLAlchemy, which no other command needs, takes 0.2 s to import

    store = Store(options.workspace)
    records, uploads = store.recent(limit=None), uploads_of(store.folder)
    if options.action == "list":
        if options.names:
            raise EditorError("`workspace list` takes no names; `workspace remove` does")
        sizes = {
            name: sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
            for name, folder in uploads.items()
        }
        of_upload = {
            name: [record.id for record in _documents_in(folder, records)]
            for name, folder in uploads.items()
        }
        lines = [
            f"document {record.id}  {record.updated[:10]}  {record.title}  {record.model}"
            for record in records
        ]
        lines += [
            f"upload {name}  {human_bytes(size)}  {pluralize(len(of_upload[name]), 'document')}"
            for name, size in sizes.items()
        ]
        document = {
            "documents": [
                {
                    "id": record.id,
                    "updated": record.updated,
                    "title": record.title,
                    "model": record.model,
                }
                for record in records
            ],
            "uploads": [
                {"name": name, "bytes": size, "documents": of_upload[name]}
                for name, size in sizes.items()
            ],
        }
        if lines or options.json:
            answer(options, document, "\n".join(lines))
        return 0
    unknown = [
        name for name in options.names if name not in uploads.keys() | {r.id for r in records}
    ]
    if unknown or not options.names:
        what = (
            f"{unknown[0]!r} is neither a document nor an upload of" if unknown else "name some of"
        )
        raise EditorError(f"{what} the workspace {store.folder}; `workspace list` shows them")
    kept = [record for record in records if record.id not in options.names]
    for name in options.names:
        if name in uploads and (users := _documents_in(uploads[name], kept)):
            ids = " ".join(record.id for record in users)
            raise EditorError(
                f"the upload {name} is the model of documents; remove them, too: {ids}"
            )
    for record in records:
        if record.id in options.names:
            store.remove(record.id)
    for name in uploads.keys() & set(options.names):
        shutil.rmtree(uploads[name], ignore_errors=True)
    return 0


def _documents_in(folder: Path, records: Iterable[Record]) -> list[Record]:
    """The documents whose model lies in a folder."""
    return [record for record in records if folder.absolute() in Path(record.model).parents]
