"""Command line: ``python -m editor COMMAND``."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import editor
from editor.devices.discovery import unusable_runtimes
from editor.errors import EditorError, ExportError
from editor.execution.inputs import random_inputs, read_inputs
from editor.execution.jobs import tasks
from editor.execution.jobs.service import Job, JobService
from editor.execution.measure.figures import BenchmarkResult
from editor.exports.registry import FORMATS
from editor.exports.render import render
from editor.files import json_text, write_atomic
from editor.placement.codegen import CHOICES
from editor.placement.placement import solve
from editor.placement.policies.optimal import OBJECTIVES
from editor.placement.policies.registry import POLICIES
from editor.placement.rules import load_rules
from editor.placement.subgraphs.registry import GROUPINGS
from editor.text import counted, human_bytes, human_seconds
from editor.workspace import plan_file
from editor.workspace.plan import Plan

WATCH_SECONDS = 0.5


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit status: 0 done, 1 the input is at fault, 2 usage."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["open"]:
        from editor.web.launch import main as launch

        return launch(given[1:])
    parser = _parser()
    options = parser.parse_args(given)
    try:
        status: int = options.command(options)
        sys.stdout.flush()
        return status
    except EditorError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `| head` closed the pipe; nothing is wrong
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m editor", description="Split an ONNX model over devices. "
                                     "`open [MODEL|PLAN]` starts the editor in a browser.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    devices = commands.add_parser("devices", help="what this machine really has")
    devices.add_argument("--json", action="store_true", help="machine-readable")
    devices.set_defaults(command=_devices)

    partition = commands.add_parser("partition", help="divide a model and write plan, DOT files and log")
    partition.add_argument("model", help="an .onnx file")
    partition.add_argument("--devices", required=True, metavar="SPEC", help="a device table (YAML) or HETERO:A,B")
    partition.add_argument("--policy", default="priority", choices=sorted(POLICIES))
    partition.add_argument("--objective", choices=OBJECTIVES, help="for the policy optimal; default: latency")
    partition.add_argument("--costs", choices=["estimate", "measured"], help="for policies that weigh costs; measured "
                           "needs a profile (see `profile`)")
    partition.add_argument("--codegen", choices=CHOICES, help="whether entries of one device and unit are chosen per op "
                           "(default) or once per subgraph, the fastest that runs all of it")
    partition.add_argument("--rules", metavar="F", help="a YAML or JSON file of rules, or Glow's partition config")
    partition.add_argument("--pin", action="append", default=[], metavar="KEY=DEVICE", type=_assignment)
    partition.add_argument("--define", action="append", default=[], metavar="N=V", type=_size)
    partition.add_argument("--subgraphs", default="minimal", choices=sorted(GROUPINGS))
    partition.add_argument("--out", required=True, metavar="DIR", type=Path)
    partition.set_defaults(command=_partition)

    run = commands.add_parser("run", help="run a plan once")
    run.add_argument("plan", type=Path)
    run.add_argument("--inputs", type=Path, metavar="F.npz", help="default: seeded random values")
    run.add_argument("--outputs", type=Path, metavar="F.npz")
    run.set_defaults(command=_run)

    _add_measuring(commands)
    _add_telling(commands)
    return parser


def _add_measuring(commands: Any) -> None:
    bench = commands.add_parser("bench", help="measure plans against each other and against the unsplit model")
    bench.add_argument("plans", nargs="+", type=Path, metavar="PLAN")
    bench.add_argument("--seconds", type=float, default=2.0, metavar="S")
    bench.add_argument("--mode", default="latency", choices=["latency", "throughput"])
    bench.add_argument("--requests", type=int, default=4, metavar="N", help="in flight, for throughput")
    bench.add_argument("--threads", type=int, default=0, metavar="T", help="per subgraph; 0: the runtime's choice")
    bench.add_argument("--inputs", type=Path, metavar="F.npz", help="default: seeded random values")
    bench.add_argument("--json", type=Path, metavar="F")
    bench.add_argument("--scheduler", metavar="tcp://...", help="a Dask scheduler; default: an embedded one")
    bench.set_defaults(command=_bench)

    profile = commands.add_parser("profile", help="measure what each op takes on each real device of a plan")
    profile.add_argument("plan", type=Path)
    profile.add_argument("--seconds", type=float, default=2.0, metavar="S", help="per device")
    profile.add_argument("--threads", type=int, default=0, metavar="T")
    profile.add_argument("--scheduler", metavar="tcp://...")
    profile.set_defaults(command=_profile)

    tune = commands.add_parser("tune", help="try the best few plans for real and write the fastest")
    tune.add_argument("plan", type=Path)
    tune.add_argument("--seconds", type=float, default=4.0, metavar="S")
    tune.add_argument("--mode", default="latency", choices=["latency", "throughput"])
    tune.add_argument("--requests", type=int, default=4, metavar="N")
    tune.add_argument("--threads", type=int, default=0, metavar="T")
    tune.add_argument("--scheduler", metavar="tcp://...")
    tune.add_argument("--out", required=True, metavar="PLAN", type=Path, help="where to write the fastest plan")
    tune.set_defaults(command=_tune)


def _add_telling(commands: Any) -> None:
    export = commands.add_parser("export", help="write a plan for another tool")
    export.add_argument("plan", type=Path)
    export.add_argument("--to", required=True, choices=[*FORMATS, "plan"], metavar="FORMAT",
                        help=", ".join([*FORMATS, "plan"]))
    export.add_argument("--out", required=True, metavar="DIR", type=Path)
    export.add_argument("--render", default="svg", metavar="svg,png,pdf", help="pictures of DOT files, where Graphviz is")
    export.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", type=_setting,
                        help="of the format: dot: colour_by=affinity|device|unit|codegen, dag=no; log: sidecar=no; "
                             "onnxruntime: assignment=names|annotations, budget=no")
    export.set_defaults(command=_export)

    bring = commands.add_parser("import", help="take over the affinities of a file of another tool as pins")
    bring.add_argument("plan", type=Path)
    bring.add_argument("file", type=Path, help="a plan, .dot, .json, .csv, Glow partition config or device table, "
                       "or annotated .onnx")
    bring.add_argument("--out", required=True, metavar="PLAN", type=Path)
    bring.set_defaults(command=_import)

    check = commands.add_parser("check", help="fail when a plan got worse: for CI")
    check.add_argument("plan", type=Path)
    check.add_argument("--against", type=Path, metavar="PLAN", help="no more subgraphs or bytes than this plan")
    check.add_argument("--max-subgraphs", type=int, metavar="N")
    check.add_argument("--max-bytes", type=int, metavar="N", help="moved between devices per run")
    check.add_argument("--json", action="store_true", help="machine-readable")
    check.set_defaults(command=_check)

    watch = commands.add_parser("watch", help="partition again whenever the model file changes, keeping pins by key")
    watch.add_argument("model")
    watch.add_argument("--devices", required=True, metavar="SPEC")
    watch.add_argument("--policy", default="priority", choices=sorted(POLICIES))
    watch.add_argument("--define", action="append", default=[], metavar="N=V", type=_size)
    watch.add_argument("--pin", action="append", default=[], metavar="KEY=DEVICE", type=_assignment)
    watch.add_argument("--out", required=True, metavar="DIR", type=Path)
    watch.add_argument("--times", type=int, default=0, metavar="N", help="stop after N partitions; 0: never")
    watch.set_defaults(command=_watch)

    why = commands.add_parser("why", help="explain why an op is where it is")
    why.add_argument("plan", type=Path)
    why.add_argument("key", help="the op's key: the name of its first output")
    why.set_defaults(command=_why)


def _devices(options: argparse.Namespace) -> int:
    found = editor.available_devices()
    if options.json:
        print(json.dumps([vars(d) for d in found], indent=1))
        return 0
    width = max(len(d.name) for d in found)
    for device in found:
        print(f"{device.name:<{width}}  {device.description}  [{device.hardware}]")
    for runtime in unusable_runtimes():
        print(f"{runtime.name}: installed but unusable: {runtime.reason}")
    print("\nA name that is not here (GPU, NPU, OpenCL, MYRIAD ...) can still be planned for: its ops are painted, "
          "exported and checked on a stand-in.")
    return 0


def _partition(options: argparse.Namespace) -> int:
    graph = editor.load_model(options.model, dict(options.define))
    plan = editor.partition(graph, options.devices, policy=options.policy, pins=dict(options.pin),
                            rules=load_rules(options.rules) if options.rules else (), subgraphs=options.subgraphs,
                            policy_options={k: getattr(options, k) for k in ("objective", "costs", "codegen")
                                            if getattr(options, k)})
    paths = [plan.save(options.out / "plan.json"), *plan.export("dot", options.out, dag="no"),
             *plan.export("log", options.out, sidecar="no")]
    _print_summary(plan)
    for path in list(paths):
        if path.suffix == ".dot":
            try:
                paths.append(render(path))
            except ExportError as error:
                print(f"note: {error}", file=sys.stderr)
    print("\n".join(f"wrote {path}" for path in paths))
    return 0


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


def _run(options: argparse.Namespace) -> int:
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
    odd = [name for name, value in outputs.items() if not isinstance(value, np.ndarray) or value.dtype.kind == "O"]
    if odd:
        raise ExportError(f"{path}: output {odd[0]!r} is no numeric tensor and has no place in an .npz file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb") as file:
            np.savez(file, **outputs)
    except OSError as error:
        raise ExportError(f"{path}: cannot be written ({error.strerror})") from error


def _bench(options: argparse.Namespace) -> int:
    plans = {str(path): editor.load_plan(path) for path in options.plans}
    by_model: dict[object, dict[str, Plan]] = {}
    for name, plan in plans.items():
        key = (plan.graph.sha256, tuple(sorted(plan.graph.define.items())))
        by_model.setdefault(key, {})[name] = plan
    service = JobService(options.scheduler)
    try:
        results = [r for group in by_model.values() for r in _bench_model(service, group, options)]
    finally:
        service.close()
    for result in results:
        if len(results) > 1:
            print(f"== {result.plan}")
        print(result.text())
    if options.json:
        write_atomic(options.json, json_text([r.to_dict() for r in results]))
    return 0


def _profile(options: argparse.Namespace) -> int:
    plan = editor.load_plan(options.plan)
    service = JobService(options.scheduler)
    try:
        found = _follow(service.submit(tasks.profile, plan.recipe(), options.seconds, options.threads))
    finally:
        service.close()
    for name, outcome in found.items():
        if isinstance(outcome, str):
            print(f"{name}: not profiled: {outcome}")
            continue
        print(f"{name} ({outcome.device}): {human_seconds(outcome.total)} a run, {len(outcome.kernels)} kernels for "
              f"{len(outcome.seconds)} ops; a subgraph more costs {human_seconds(outcome.call)}")
        slowest = sorted(outcome.seconds.items(), key=lambda item: -item[1])[:5]
        for key, seconds in slowest:
            print(f"  {human_seconds(seconds):>10}  {plan.graph.type_label(plan.graph.key_index[key])}  {key}")
    return 0


def _tune(options: argparse.Namespace) -> int:
    plan = editor.load_plan(options.plan)
    service = JobService(options.scheduler)
    try:
        tuned = _follow(service.submit(tasks.tune, plan.recipe(), options.seconds, options.mode, options.requests,
                                       options.threads))
    finally:
        service.close()
    for result in tuned.results:
        predicted = "" if result.predicted is None else f", predicted {human_seconds(result.predicted)}"
        print(f"{result.plan}: median {human_seconds(result.total.median)}, {result.throughput:.1f} requests/s{predicted}"
              f"{' (estimated)' if result.estimated else ''}")
    best = Plan(solve(plan.graph, plan.devices, tuned.settings[tuned.best]))
    print(f"fastest: {tuned.best}; wrote {best.save(options.out)}")
    return 0


def _bench_model(service: JobService, plans: dict[str, Plan], options: argparse.Namespace) -> list[BenchmarkResult]:
    """Plans of one model run in one interleaved benchmark."""
    recipes = {name: plan.recipe() for name, plan in plans.items()}
    inputs = str(options.inputs.resolve()) if options.inputs else None
    job = service.submit(tasks.benchmark, recipes, options.seconds, options.mode, options.requests, options.threads,
                         inputs)
    found: list[BenchmarkResult] = _follow(job)
    return found


def _follow(job: Job) -> Any:
    """Waits for a job with a progress bar on a terminal."""
    from tqdm import tqdm

    with tqdm(total=100, unit="%", bar_format="{desc} |{bar}| {percentage:3.0f}%", file=sys.stderr,
              disable=not sys.stderr.isatty(), leave=False) as bar:
        seen = 0
        try:
            while not job.done:
                for event in job.events[seen:]:
                    bar.set_description_str(event.get("text", "measuring")[:48])
                    bar.n = int(100 * event.get("progress", 0))
                seen = len(job.events)
                bar.refresh()
                job.wait(0.1)
        except KeyboardInterrupt:
            job.cancel()
            raise
    return job.result()


def _export(options: argparse.Namespace) -> int:
    plan = editor.load_plan(options.plan)
    for name, _ in options.option:
        if not name.isidentifier() or name in ("form", "out_dir", "placement", "stamp"):
            raise ExportError(f"{options.to} has no option {name!r}")
    for path in plan.export(options.to, options.out, **dict(options.option)):
        print(f"wrote {path}")
        if path.suffix == ".dot":
            for form in filter(None, options.render.split(",")):
                try:
                    print(f"wrote {render(path, form.strip())}")
                except ExportError as error:
                    print(f"note: {error}", file=sys.stderr)
    return 0


def _import(options: argparse.Namespace) -> int:
    plan, report = editor.load_plan(options.plan).import_affinities(options.file)
    by = ", ".join(f"{count} by {kind}" for kind, count in report.how.items() if count)
    print(f"{options.file}: {report.kind}; {report.pinned} ops pinned ({by or 'none matched'})")
    for problem in report.problems:
        print(f"not used: {problem}", file=sys.stderr)
    print(f"wrote {plan.save(options.out)}")
    return 0


def _check(options: argparse.Namespace) -> int:
    plan = editor.load_plan(options.plan)
    found = {"subgraphs": len(plan.subgraphs), "bytes_moved": plan.placement.division.bytes_moved}
    limits = {"subgraphs": options.max_subgraphs, "bytes_moved": options.max_bytes}
    if options.against:
        limits = plan_file.totals(options.against)
    worse = [name for name, limit in limits.items() if limit is not None and found[name] > limit]
    if options.json:
        print(json.dumps({"plan": str(options.plan), "sha256": plan.sha256, **found, "limits": limits, "worse": worse}))
    else:
        for name, value in found.items():
            limit = "" if limits[name] is None else f" (limit {limits[name]:,}){': TOO MANY' if name in worse else ''}"
            print(f"{name.replace('_', ' ')}: {value:,}{limit}")
    return 1 if worse else 0


def _watch(options: argparse.Namespace) -> int:
    """Follows a model file; an error in it is told and waited out."""
    pins, seen, done = dict(options.pin), None, 0
    path = Path(options.model)
    while not options.times or done < options.times:
        try:
            state = (path.stat().st_mtime_ns, path.stat().st_size)
        except OSError:
            state = None
        if state == seen or state is None:
            time.sleep(WATCH_SECONDS)
            continue
        seen = state
        try:
            graph = editor.load_model(path, dict(options.define))
            gone = [key for key in pins if key not in graph.key_index]
            for key in gone:
                print(f"note: no op {key!r} any more; its pin waits", file=sys.stderr)
            kept = {key: label for key, label in pins.items() if key in graph.key_index}
            plan = editor.partition(graph, options.devices, options.policy, kept)
            plan.save(options.out / "plan.json")
            plan.export("dot", options.out)
            plan.export("log", options.out, sidecar="no")
            moved = human_bytes(plan.placement.division.bytes_moved)
            print(f"{path.name}: {len(plan.subgraphs)} subgraphs, {len(plan.transfers)} transfers, {moved} moved", flush=True)
        except EditorError as error:
            print(f"error: {error}", file=sys.stderr, flush=True)
        done += 1
    return 0


def _why(options: argparse.Namespace) -> int:
    print(editor.load_plan(options.plan).why(options.key))
    return 0


def _assignment(text: str) -> tuple[str, str]:
    key, equals, label = text.rpartition("=")
    if not equals or not key or not label:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=DEVICE")
    return key, label


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def _size(text: str) -> tuple[str, int]:
    name, equals, value = text.rpartition("=")
    if not equals or not name or not value.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=NUMBER")
    return name, int(value)


if __name__ == "__main__":
    sys.exit(main())
