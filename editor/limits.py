"""One set of limits for the page, the command line and Python: time, memory and counts of what strangers hand in.

Each has an environment variable, which the processes of the editor inherit; time and memory have options of the
command line too. ``editor.sandbox`` says how time and memory are kept.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from editor import environment, operating_system
from editor.errors import EditorError, LimitError
from editor.text import parse_bytes

_BASE_BYTES = 3 << 29
_BYTES_PER_BYTE = 32
"""Default memory limit: 1.5 GiB plus 32 bytes per byte of the model file.

A transformer of 8,000 ops takes 0.2 GB, a chain of 200,000 ops 0.5 GB. The rest of 2 GB is for what is allocated between
two looks at the process.
"""


@dataclass(frozen=True)
class Limits:
    """The limits of what a model may need. Every field has an environment variable, in ``environment.LIMITS``."""

    seconds: float = 30.0
    """To read a model and to ask the devices about it, together."""
    memory: int = 0
    """Bytes that reading or asking may add; 0: half of the machine, at most 1.5 GiB and 32 times the size of the file."""
    ops: int = 1_000_000
    expanded_ops: int = 200_000
    """Ops after the expansion of local functions."""
    nesting: int = 16
    """Bodies of If, Loop and Scan inside each other."""
    rank: int = 256
    """Dimensions of a tensor."""

    def bytes_for(self, size: int) -> int:
        """Memory for a file of ``size`` bytes."""
        return self.memory or min(half_of_machine(), _BASE_BYTES + _BYTES_PER_BYTE * size)


def current() -> Limits:
    """The limits that hold now.

    Raises:
        EditorError: an environment variable is not a number above 0.
    """
    given: dict[str, Any] = {
        name: _number(name, variable.value)
        for name, variable in environment.LIMITS.items()
        if variable.value
    }
    return Limits(**given)


_WHAT = {"memory": "size", "seconds": "number of seconds"}
"""What the limits are that options of the command line set, too."""


def _number(name: str, text: str) -> float | int:
    number = math.nan
    if name == "memory":
        number = size_of(text)
    elif name == "seconds":
        number = float(text) if re.fullmatch(r"\d{1,12}(\.\d{1,6})?", text, re.ASCII) else math.nan
    elif re.fullmatch(r"\d{1,15}", text, re.ASCII):
        number = int(text)
    if not number > 0:
        example = "8GiB" if name == "memory" else "120"
        option = f"--limit-{name} or " if name in _WHAT else ""
        what = _WHAT.get(name, "whole number")
        raise EditorError(
            f"{option}{environment.LIMITS[name].name}: {text[:40]!r} is not a {what} above 0; write {example}"
        )
    return number


def size_of(text: str) -> float:
    """Bytes of a size such as ``8GiB``; NaN where it is none."""
    size = parse_bytes(text)
    return math.nan if size is None else size


def exceeded(what: str, name: str, example: str) -> LimitError:
    """The error that says which limit was exceeded, and how to raise it.

    Args:
        what: exceeded it, and the limit.
        name: of the field of ``Limits``.
        example: a larger limit.
    """
    option = f"--limit-{name} {example} or the environment variable " if name in _WHAT else ""
    return LimitError(
        f"{what}. If you trust the file, raise the limit with {option}{environment.LIMITS[name].name}={example}"
    )


def out_of_time(what: str, seconds: float) -> LimitError:
    """The error of what took too long."""
    return exceeded(
        f"{what} took longer than the limit of {seconds:g} s", "seconds", f"{4 * seconds:g}"
    )


def out_of_memory(what: str, limit: int) -> LimitError:
    """The error of what needed too much memory."""
    gib = limit / (1 << 30)
    return exceeded(
        f"{what} needed more memory than the limit of {gib:.3g} GiB",
        "memory",
        f"{max(math.ceil(2 * gib), 1)}GiB",
    )


def check_count(what: str, name: str, count: int, unit: str) -> None:
    """Raises ``LimitError`` when a count exceeds its limit."""
    limit = getattr(current(), name)
    if count > limit:
        raise exceeded(f"{what}: {count:,} {unit}, the limit is {limit:,}", name, str(2 * limit))


def half_of_machine() -> int:
    """Half of the memory of this machine, or of the container that this process is in."""
    return operating_system.memory_of_machine() // 2


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds ``--limit-seconds`` and ``--limit-memory`` to a command."""
    group = parser.add_argument_group("limits of what a file may need")
    group.add_argument(
        "--limit-seconds",
        metavar="S",
        help="to read a model and to ask the devices about it; default: 30",
    )
    group.add_argument(
        "--limit-memory",
        metavar="SIZE",
        help="such as 8GiB; default: half of the machine, at most 1.5 GiB "
        "and 32 times the size of the file",
    )
    group.add_argument(
        "--trust",
        action="store_true",
        help="pass all properties of device tables and plans to the runtimes, "
        "those too that name files or load code, and open programs of PyTorch",
    )
    add_custom_ops_option(parser)


def add_custom_ops_option(parser: argparse._ActionsContainer) -> None:
    """Adds ``--custom-ops``."""
    parser.add_argument(
        "--custom-ops",
        action="append",
        default=[],
        metavar="LIBRARY",
        help="register a library of custom ops with ONNX Runtime: a file, or onnxruntime-extensions; may be repeated",
    )


def add_scheduler_options(parser: argparse.ArgumentParser) -> None:
    """Adds ``--scheduler`` and what its connection needs to a command."""
    group = parser.add_argument_group("devices of other machines")
    group.add_argument(
        "--scheduler",
        metavar="tcp://...",
        help="a Dask scheduler, whose workers offer devices as "
        "machine/device (see `worker`); jobs run on its other workers, if it has some",
    )
    add_tls_options(group)


def add_tls_options(parser: argparse._ActionsContainer) -> None:
    """Adds the options of a connection."""
    parser.add_argument(
        "--tls-ca", metavar="F", help="certificate of the authority that signed all others"
    )
    parser.add_argument("--tls-cert", metavar="F", help="certificate of this machine")
    parser.add_argument("--tls-key", metavar="F", help="its key")
    parser.add_argument(
        "--insecure",
        action="store_true",
        help="connect to other machines without TLS: everyone who reaches "
        "the ports can run code on all of them",
    )


def size_in_bytes(name: str, text: str) -> int:
    """The bytes of a size such as 8GiB.

    Raises:
        EditorError: it is not a size above 0.
    """
    number = size_of(text)
    if not number > 0:
        raise EditorError(f"{name} {text[:40]!r}: must be a size such as 8GiB")
    return int(number)


def is_trusted() -> bool:
    """Whether the person trusts strangers' device tables and plans with every property."""
    return environment.TRUST.value == "1"


def from_options(options: Mapping[str, object]) -> None:
    """Makes the options of the command line hold, in this process and in those that it starts.

    Raises:
        EditorError: one is not a number above 0, or a library is not there.
    """
    if options.get("trust"):
        environment.TRUST.set("1")
    if options.get("custom_ops"):
        from editor import custom_ops  # takes time to import, and few need it

        custom_ops.give(map(str, options["custom_ops"]))  # type: ignore[call-overload]
    for name in ("seconds", "memory"):
        if options.get(f"limit_{name}"):
            environment.LIMITS[name].set(str(options[f"limit_{name}"]))
    current()
