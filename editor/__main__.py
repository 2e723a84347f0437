"""Command line: ``python -m editor COMMAND``.

Only the parser is here, and nothing that takes time to import: each command's function is imported when it runs.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from editor import limits, terminal
from editor.arguments import KEEP_FUNCTIONS, REQUIREMENT_FORM, parse_requirement
from editor.errors import EditorError
from editor.exports.formats import FORMATS, KIT_RUNTIMES, by_devices, usage
from editor.imports.formats import words
from editor.placement.choices import AIMS, OPTIONS, POLICIES, SUBGRAPH_RULES
from editor.sandbox.watch import fork
from editor.startup import protect_children
from editor.text import parse_bytes, parse_seconds
from editor.version import VERSION

Command = Callable[[argparse.Namespace], int]
_INPUTS = (
    "also a folder of .npy files, or an image or sound for a model with one input; name[0], name[1] are the values of a "
    "sequence (default: invented by names and readers)"
)
_UNSUPERVISED = frozenset(
    {
        "plan_commands.devices",
        "plan_commands.workspace",
        "watch_commands.watch",
        "measure_commands.worker",
        "measure_commands.adapter_test",
    }
)
"""Commands that read no model, or that go on after one that exceeds a limit."""
_NO_SCHEDULER = frozenset({"measure_commands.worker", "plan_commands.workspace"})
"""Commands that use no devices of other machines."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit status: 0 done, 1 the input is at fault, 2 usage, 3 a requirement is not met."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:
        protect_children()
        if not terminal.protect() and given[:1] != ["open"]:
            print(
                "error: standard output is closed; > /dev/null discards what is printed",
                file=sys.stderr,
            )
            return 1
    if given[:1] == ["open"]:
        from editor.web.launch import main as launch

        return launch(given[1:])
    if arguments is None:
        warnings.showwarning = _print_warning  # type: ignore[assignment]  # mypy wants all of its optional parameters by name
    try:
        try:
            return _run(_parser().parse_args(given), supervised=arguments is None)
        finally:
            sys.stdout.flush()
    except EditorError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `| head` closed the pipe; nothing is wrong
        return 0


def _run(options: argparse.Namespace, supervised: bool) -> int:
    limits.from_options(vars(options))
    if options.command not in _NO_SCHEDULER and options.scheduler:
        _use_scheduler(options)
    if supervised and options.command not in _UNSUPERVISED and (status := fork()) is not None:
        return status
    return _command(options.command)(options)


def _print_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any
) -> None:
    text = (
        f"note: {message}"
        if category is UserWarning
        else warnings.formatwarning(message, category, filename, lineno)
    )
    print(text.rstrip(), file=sys.stderr)


def _use_scheduler(options: argparse.Namespace) -> None:
    from editor.runtimes.machines.connection import connection_of, use  # few need it

    use(connection_of(options))


def _command(name: str) -> Command:
    """The function ``module.name`` of ``editor.commands``."""
    module, _, function = name.partition(".")
    command: Command = getattr(import_module(f"editor.commands.{module}"), function)
    if sys.stderr.isatty():
        from editor.runtimes.capability import on_asking  # the commands import it anyway

        on_asking(lambda text: print(f"{text} ...", file=sys.stderr))
    return command


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m editor", description="Split a model over devices.")
    parser.add_argument("--version", action="version", version=f"hetero-editor {VERSION}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_plan_commands(commands)
    _add_measure_commands(commands)
    _add_accuracy_command(commands)
    _add_report_commands(commands)
    _add_watch_commands(commands)
    _add_audit_commands(commands)
    _add_advise_command(commands)
    _add_diff_command(commands)
    _add_workspace_command(commands)
    _add_worker_command(commands)
    _add_adapter_commands(commands)
    for name, command in commands.choices.items():
        if name not in ("devices", "workspace", "worker"):
            limits.add_options(command)
        if name not in ("workspace", "worker"):
            limits.add_scheduler_options(command)
    # `main` starts it before this parser is made; it is here for the list.
    commands.add_parser("open", help="start the editor in a browser: open [MODEL|PLAN]")
    return parser


def _add(
    commands: Any,
    name: str,
    function: str,
    text: str,
    *shared: Callable[[argparse.ArgumentParser], object],
) -> argparse.ArgumentParser:
    """A command; each of ``shared`` adds an argument that others have, too."""
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text)
    parser.set_defaults(command=function)
    for add in shared:
        add(parser)
    return parser


def _plan(command: argparse.ArgumentParser) -> None:
    command.add_argument("plan", type=Path)


def _threads(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--threads", type=int, default=0, metavar="T", help="per subgraph; 0: the runtime's choice"
    )


def _json(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--json", action="store_true", help="print the result as one JSON document"
    )


def _json_file(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--json",
        nargs="?",
        const=Path("-"),
        type=Path,
        metavar="F",
        help="write the result as JSON into a file; without one, print it in place of the text",
    )


def _strict(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--strict",
        action="store_true",
        help="end with the error where a subgraph fails, in place of solving again without the ops at fault",
    )


def _define(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--define",
        action="append",
        default=[],
        metavar="N=V",
        type=_size,
        help="the size of a dimension that the model leaves open, by its name or INPUT[AXIS]; or the value of an input of one "
        "number, which chooses a branch of an If",
    )
    command.add_argument(
        "--keep-functions",
        action="append_const",
        dest="define",
        const=(KEEP_FUNCTIONS, 1),
        help="leave calls of local functions closed: each is one op",
    )


def _add_plan_commands(commands: Any) -> None:
    devices = _add(
        commands, "devices", "plan_commands.devices", "what this machine really has", _json
    )
    devices.add_argument(
        "--links", action="store_true", help="measure the links between the machines, for costs"
    )

    partition = _add(
        commands,
        "partition",
        "plan_commands.partition",
        "divide a model and write plan, DOT files and log",
        _json,
        _define,
    )
    partition.add_argument(
        "model",
        help="a model: ONNX, OpenVINO IR (.xml), .tflite, TensorFlow (SavedModel, .pb), PaddlePaddle",
    )
    partition.add_argument(
        "--devices",
        metavar="SPEC",
        help="a device table (YAML) or HETERO:A,B; default: the devices of this machine",
    )
    partition.add_argument(
        "--policy", choices=sorted(POLICIES), help="the automatic mode; default: priority"
    )
    partition.add_argument(
        "--like",
        metavar="PLAN",
        type=Path,
        help="take devices, policy, rules, pins and sizes of this plan, whose model may have changed; other options win",
    )
    for name, option in OPTIONS.items():
        users = [policy for policy, entry in POLICIES.items() if name in entry.options]
        whose = "" if len(users) == len(POLICIES) else f"for {' and '.join(users)}: "
        partition.add_argument(
            f"--{name}",
            type=option.parse,
            choices=[*option.values] or None,
            metavar=option.form,
            help=whose + option.text,
        )
    partition.add_argument(
        "--rules", metavar="F", help="a YAML or JSON file of rules, or Glow's partition config"
    )
    partition.add_argument(
        "--pin", action="append", default=[], metavar="KEY=DEVICE", type=_assignment
    )
    partition.add_argument(
        "--context",
        type=int,
        metavar="TOKENS",
        help="of a language model: sizes of a step that ends with a context of so many tokens, for memory and times",
    )
    partition.add_argument(
        "--phases",
        nargs="?",
        const="prompt=512,new=64",
        metavar="LENGTHS",
        help="of a language model: place prompt and tokens each at their sizes, for the soonest answer; default: "
        "prompt=512,new=64",
    )
    partition.add_argument(
        "--profile",
        action="append",
        default=[],
        metavar="DEVICE=FILE",
        type=_assignment,
        help="times of "
        "a device from another machine, as `import` takes them; then --costs measured is the default",
    )
    partition.add_argument(
        "--subgraphs",
        choices=sorted(SUBGRAPH_RULES),
        help="how ops of a device form subgraphs; default: minimal, as few as possible",
    )
    partition.add_argument("--out", required=True, metavar="DIR", type=Path)

    models = _add(
        commands,
        "set",
        "plan_commands.set_models",
        "place several models behind one answer, such as an encoder and a decoder, on one device table",
        _json,
        _define,
    )
    models.add_argument("models", nargs="+", help="models, or a folder of them")
    models.add_argument("--devices", default="HETERO", metavar="SPEC")
    models.add_argument("--policy", default="memory", choices=sorted(POLICIES))
    models.add_argument("--rules", metavar="F", help="a file of rules, for every model")
    models.add_argument(
        "--times",
        action="append",
        default=[],
        metavar="MODEL=N",
        type=_times,
        help="runs of a model for one answer; default: 64 of one with a state, 20 of a denoiser, 1 of others",
    )
    models.add_argument(
        "--to", default="", choices=sorted(FORMATS), help="export each plan in this format, too"
    )
    models.add_argument("--out", metavar="DIR", type=Path, help="for set.json and the plans")

    sizes = _add(
        commands,
        "sizes",
        "plan_commands.sizes",
        "a plan's decisions at several sizes of the inputs, side by side",
        _plan,
        _json_file,
    )
    sizes.add_argument(
        "sizes",
        nargs="+",
        metavar="NAME=N,N",
        help='e.g. sequence=128,512 batch=1,8 for all combinations, or in sets: "total=128 past=127; total=256 past=255"',
    )

    run = _add(commands, "run", "plan_commands.run", "run a plan once", _plan, _json, _strict)
    run.add_argument("--inputs", type=Path, metavar="F.npz", help=_INPUTS)
    run.add_argument("--outputs", type=Path, metavar="F.npz", help="where to write the outputs")


def _add_measure_commands(commands: Any) -> None:
    bench = _add(
        commands,
        "bench",
        "measure_commands.bench",
        "measure plans against each other and against the unsplit model",
        _json_file,
        _strict,
    )
    bench.add_argument("plans", nargs="+", type=Path, metavar="PLAN")
    bench.add_argument("--inputs", type=Path, metavar="F.npz", help=_INPUTS)
    bench.add_argument(
        "--memory",
        action="store_true",
        help="measure what each plan takes, in a process of its own",
    )
    bench.add_argument(
        "--calibrate", action="store_true", help="correct the profiles of the devices by this run"
    )
    bench.add_argument(
        "--generate",
        metavar="prompt=N,new=M",
        help="measure tokens: a prompt, then one token at a time with the state on its devices; --requests are sequences "
        "in flight",
    )
    bench.add_argument(
        "--state",
        action="append",
        default=[],
        metavar="OUTPUT=INPUT",
        help="an output that is an input of the next step, such as present.0.key=past.0.key, where names do not say it",
    )
    _add_measure_options(bench, seconds=2.0, modes=True)

    profile = _add(
        commands,
        "profile",
        "measure_commands.profile",
        "measure what each op takes on each real device of a plan",
        _plan,
        _json,
    )
    _add_measure_options(profile, seconds=2.0, modes=False)

    tune = _add(
        commands,
        "tune",
        "measure_commands.tune",
        "try the best few plans for real and write the fastest",
        _plan,
        _json,
    )
    tune.add_argument(
        "--out", required=True, metavar="PLAN", type=Path, help="where to write the fastest plan"
    )
    _add_measure_options(tune, seconds=4.0, modes=True)


def _add_accuracy_command(commands: Any) -> None:
    accuracy = _add(
        commands,
        "accuracy",
        "measure_commands.accuracy",
        "where a plan loses accuracy: each tensor against a reference, and the first op that leaves the tolerance",
        _plan,
        _threads,
        _json,
    )
    how = accuracy.add_mutually_exclusive_group()
    how.add_argument(
        "--reference",
        type=Path,
        metavar="MODEL",
        help="the float original of a quantised or converted model (default: the unsplit model in float32 on the CPU)",
    )
    how.add_argument(
        "--reference-outputs",
        type=Path,
        metavar="F.npz",
        help="values of outputs or other tensors by name, for --inputs; also a folder of .npy files",
    )
    accuracy.add_argument("--inputs", type=Path, metavar="F.npz", help=_INPUTS)
    accuracy.add_argument(
        "--every-tensor",
        action="store_true",
        help="compare all tensors, not those at the ends of subgraphs only",
    )
    accuracy.add_argument(
        "--tolerance",
        type=float,
        metavar="X",
        help="of the largest difference, relative to the largest magnitude; default: by the element type and the precision "
        "of the devices",
    )
    accuracy.add_argument("--csv", type=Path, metavar="F", help="write one row for each tensor")


def _add_measure_options(parser: Any, seconds: float, modes: bool) -> None:
    parser.add_argument(
        "--seconds", type=float, default=seconds, metavar="S", help=None if modes else "per device"
    )
    if modes:
        parser.add_argument("--mode", default="latency", choices=AIMS)
        parser.add_argument(
            "--requests", type=int, metavar="N", help="in flight, for throughput; default: 4"
        )
    _threads(parser)


def _add_adapter_commands(commands: Any) -> None:
    adapter = _add(
        commands,
        "adapter-test",
        "measure_commands.adapter_test",
        "check a runtime of another package, see docs/adapters.md",
        _json,
    )
    adapter.add_argument("name", help="of the runtime, as in backendName")
    adapter.add_argument(
        "--cases", type=int, metavar="N", help="most backend cases of ONNX to run; default: all"
    )


def _add_report_commands(commands: Any) -> None:
    export = _add(
        commands, "export", "plan_commands.export", "write a plan for another tool", _plan, _json
    )
    export.add_argument(
        "--to", required=True, choices=[*FORMATS], metavar="FORMAT", help=by_devices()
    )
    export.add_argument("--out", required=True, metavar="DIR", type=Path)
    export.add_argument(
        "--render",
        default="svg",
        metavar="svg,png,pdf",
        help="pictures of DOT files, where Graphviz is",
    )
    export.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        type=_setting,
        help=f"of the format: {usage()}",
    )

    bring = _add(
        commands,
        "import",
        "plan_commands.import_file",
        "import another tool's device assignments as pins, or measured times "
        "as the profile of a device",
        _plan,
        _json,
    )
    bring.add_argument(
        "file",
        type=Path,
        help=f"affinities: {words(times=False)}; times: {words(times=True)}",
    )
    bring.add_argument(
        "--out", metavar="PLAN", type=Path, help="the plan to write; not needed for times"
    )
    bring.add_argument(
        "--device",
        default="",
        metavar="NAME",
        help="whose times they are; default: the only planned device, "
        "or the one that the file's name has in it",
    )
    bring.add_argument(
        "--pins",
        action="store_true",
        help="of a profile of ONNX Runtime, take where each op ran as pins, and not the times",
    )
    bring.add_argument(
        "--machine",
        default="",
        metavar="NAME",
        help="the machine that was measured, for what figures state",
    )

    kit = _add(
        commands,
        "kit",
        "plan_commands.kit",
        "write a folder that measures a device's ops on another machine",
        _plan,
        _json,
    )
    kit.add_argument("--out", required=True, metavar="DIR", type=Path)
    kit.add_argument(
        "--device", default="", metavar="NAME", help="default: the only planned device"
    )
    kit.add_argument(
        "--runtime", default="", choices=KIT_RUNTIMES, help="default: what is found there"
    )

    why = _add(
        commands, "why", "plan_commands.why", "explain why an op is where it is", _plan, _json
    )
    why.add_argument("key", help="the op's key: the name of its first output")


def _add_watch_commands(commands: Any) -> None:
    check = _add(
        commands,
        "check",
        "watch_commands.check",
        "fail when a plan got worse: for CI",
        _plan,
        _json,
    )
    check.add_argument(
        "--against", type=Path, metavar="PLAN", help="no more subgraphs or bytes than this plan"
    )
    check.add_argument("--max-subgraphs", type=int, metavar="N")
    check.add_argument(
        "--max-bytes", type=_bytes, metavar="SIZE", help="moved between devices per run, e.g. 1MB"
    )
    check.add_argument(
        "--max-latency",
        type=_seconds,
        metavar="TIME",
        help="of one run, as 12ms or 0.012: predicted by profiles of this model, else estimated from shapes",
    )
    check.add_argument(
        "--within-memory", action="store_true", help="no device may need more memory than it has"
    )

    watch = _add(
        commands,
        "watch",
        "watch_commands.watch",
        "partition again whenever the model file changes, keeping pins by key",
        _define,
    )
    watch.add_argument("model")
    watch.add_argument("--devices", default="HETERO", metavar="SPEC")
    watch.add_argument("--policy", default="priority", choices=sorted(POLICIES))
    watch.add_argument("--pin", action="append", default=[], metavar="KEY=DEVICE", type=_assignment)
    watch.add_argument("--out", required=True, metavar="DIR", type=Path)
    watch.add_argument(
        "--times", type=int, default=0, metavar="N", help="stop after N partitions; 0: never"
    )


def _add_audit_commands(commands: Any) -> None:
    audit = _add(
        commands,
        "audit",
        "audit_commands.audit",
        "what a configuration that exists really runs where: wanted against actual device of each op",
        _json,
        _define,
    )
    audit.add_argument(
        "model", nargs="?", type=Path, help="a model; none with --genai, which names its own"
    )
    how = audit.add_mutually_exclusive_group()
    how.add_argument(
        "--providers",
        default="",
        metavar="A,B",
        help="execution providers of ONNX Runtime in order, such as CUDA,CPU",
    )
    how.add_argument(
        "--hetero", default="", metavar="A,B", help="devices of OpenVINO's HETERO in order"
    )
    how.add_argument(
        "--genai",
        type=Path,
        metavar="FOLDER",
        help="a folder of onnxruntime-genai: each model that genai_config.json names, with its options",
    )
    audit.add_argument(
        "--session-options",
        type=Path,
        metavar="F.json",
        help="names and values of SessionOptions, config_entries, provider_options; what names files or loads code is "
        "left out without --trust",
    )
    audit.add_argument(
        "--seconds",
        type=float,
        default=0.0,
        metavar="S",
        help="run it that long for measured shares of time (default: estimates from shapes)",
    )
    audit.add_argument(
        "--require",
        action="append",
        default=[],
        type=_requirement,
        metavar="TEXT",
        help="such as 'GPU >= 95%% of time' or 'CUDA >= 90%% of ops'; exit status 3 where it is not met",
    )
    audit.add_argument(
        "--out",
        type=Path,
        metavar="PLAN",
        help="write the actual placement as a plan, each op pinned where it is",
    )


def _add_advise_command(commands: Any) -> None:
    advise = _add(
        commands,
        "advise",
        "audit_commands.advise",
        "try other forms of the ops that a device refuses, or write one of them for a bug report",
        _plan,
        _json,
    )
    advise.add_argument(
        "--repro",
        default="",
        metavar="OP",
        help="write this op as a model of its own: its key (the name of its first output), or its name",
    )
    advise.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        help="for the new models with their plans, or for what --repro writes; default: nothing is kept",
    )
    advise.add_argument(
        "--device",
        default="",
        metavar="NAME",
        help="of --repro: the device that refuses the op; default: the first of the plan that does",
    )


def _add_diff_command(commands: Any) -> None:
    diff = _add(
        commands,
        "diff",
        "audit_commands.diff",
        "what came, went and changed between two versions of a model, and where the same devices put each",
        _json,
        _define,
    )
    diff.add_argument("before", type=Path, help="a model")
    diff.add_argument("after", type=Path, help="another version of it, in any format that opens")
    diff.add_argument(
        "--devices",
        default="HETERO",
        metavar="SPEC",
        help="a device table (YAML) or HETERO:A,B, on which each of them is placed; default: the devices of this machine; "
        "none: places none",
    )
    diff.add_argument("--policy", default="priority", choices=sorted(POLICIES))
    diff.add_argument(
        "--out",
        type=Path,
        metavar="F",
        help="write all ops: F.json or F.csv; or a folder for both and the two plans",
    )


def _add_workspace_command(commands: Any) -> None:
    workspace = _add(
        commands,
        "workspace",
        "plan_commands.workspace",
        "list the documents and uploads that the page has stored, or remove some",
        _json,
    )
    workspace.add_argument("action", choices=("list", "remove"))
    workspace.add_argument(
        "names", nargs="*", metavar="NAME", help="of documents and uploads, as `list` shows them"
    )
    workspace.add_argument(
        "--workspace", metavar="W", help="a folder or a database URL; default: the user's"
    )


def _add_worker_command(commands: Any) -> None:
    worker = _add(
        commands,
        "worker",
        "measure_commands.worker",
        "offer this machine's devices to editors, at a Dask scheduler",
    )
    worker.add_argument("scheduler", metavar="tcp://HOST:PORT", help="a Dask scheduler")
    worker.add_argument(
        "--name", metavar="N", help="devices are listed as N/CPU ...; default: the name of the host"
    )
    worker.add_argument(
        "--offer",
        default="",
        metavar="A,B",
        help="names of devices, as `devices` lists them; default: all",
    )
    worker.add_argument(
        "--threads",
        type=int,
        default=0,
        metavar="T",
        help="most per subgraph; 0: the runtime's choice",
    )
    worker.add_argument(
        "--memory-limit",
        metavar="SIZE",
        help="such as 4GiB: beyond it the worker is restarted; default: the machine's memory",
    )
    worker.add_argument(
        "--cache", metavar="SIZE", help="of weights on this machine's disk; default: 8GiB"
    )
    worker.add_argument(
        "--host",
        default="",
        metavar="ADDRESS",
        help="to listen on; default: what reaches the scheduler",
    )
    limits.add_tls_options(worker)
    limits.add_custom_ops_option(worker)


def _checked(parse: Callable[[str], Any], form: str) -> Callable[[str], Any]:
    """What makes a value of an argument; the message says which form it must have."""

    def read(text: str) -> Any:
        value = parse(text)
        if value is None:
            raise argparse.ArgumentTypeError(f"{text!r} is not {form}")
        return value

    return read


def _pair(parts: tuple[str, str, str]) -> tuple[str, str] | None:
    name, equals, value = parts
    return (name, value) if name and equals and value else None


def _sized(text: str) -> tuple[str, int] | None:
    name, _, value = text.rpartition("=")
    return (name, int(value)) if name and value.isdigit() else None


def _counted(text: str) -> tuple[str, float] | None:
    name, _, count = text.rpartition("=")
    with suppress(ValueError):
        return (name, float(count)) if name else None
    return None


_assignment = _checked(lambda text: _pair(text.rpartition("=")), "KEY=DEVICE")
_setting = _checked(lambda text: _pair(text.partition("=")), "NAME=VALUE")
_size = _checked(_sized, "NAME=NUMBER")
_times = _checked(_counted, "MODEL=N; write the runs for one answer, such as decoder=64")
_bytes = _checked(parse_bytes, "a number of bytes; write 1MB, 500kB or 1000000")
_requirement = _checked(parse_requirement, REQUIREMENT_FORM)
_seconds = _checked(parse_seconds, "a time; write 12ms or 0.012")


if __name__ == "__main__":
    sys.exit(main())
