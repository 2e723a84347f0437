"""Errors that a user can act on.

Every message names the thing at fault (file, op, line, device) and the way out.
The command line prints them without a traceback and exits with 1; the page shows them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from editor.text import as_utf8

_LONGEST, _END = 8_000, 1_000
"""Longest message, and how much of its end is kept when it is truncated; messages repeat names of the input."""


class EditorError(Exception):
    """Base class: the input, not the program, is at fault."""

    def __str__(self) -> str:
        text = as_utf8(super().__str__())  # it may name a file
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST - _END]} … {text[-_END:]}"


class ModelError(EditorError):
    """The file is not a usable ONNX model."""


class UnboundSymbolError(EditorError):
    """A symbolic dimension of a model input has no value."""

    def __init__(
        self, message: str, symbols: tuple[str, ...], proposed: Mapping[str, int] | None = None
    ) -> None:
        super().__init__(message)
        self.symbols, self.proposed = symbols, dict(proposed or {})

    def __reduce__(self) -> tuple[type, tuple[str, tuple[str, ...], dict[str, int]]]:
        return type(self), (str(self), self.symbols, self.proposed)


class DeviceTableError(EditorError):
    """A device table or HETERO string cannot be understood."""


class PinError(EditorError):
    """A pin or rule names an unknown op or device, or one that cannot run the op."""


class UnsupportedOpError(EditorError):
    """No device may run some op."""


class PlanError(EditorError):
    """A plan file is damaged, of another version, or does not fit its model."""


class NoProfileError(EditorError):
    """Measured costs are asked for, and a device has no profile of the model."""

    def __init__(self, lacking: str, ways: str) -> None:
        super().__init__(f"{lacking}: {ways}")
        self.lacking = lacking
        """What is not there, in words; the message goes on with what makes it"""


class NoPowerError(EditorError):
    """Energy is asked for, and a device table states no watts of a device that may run ops."""

    def __init__(self, message: str, devices: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.devices = tuple(devices)
        """Names of those that lack them"""


class ExecutionError(EditorError):
    """A runtime failed to compile or run a subgraph."""


class SubgraphError(ExecutionError):
    """A subgraph does not compile or run on its device."""

    def __init__(self, message: str, subgraph: int = 0) -> None:
        super().__init__(message)
        self.subgraph = subgraph
        """Its number."""


class ExportError(EditorError):
    """An export cannot be written."""


class LimitError(EditorError):
    """A file needs more time, memory or parts than the limits allow; the message says how to raise the limit."""


class JobError(EditorError):
    """A job was cancelled, or its worker died."""


class Cancelled(EditorError):
    """The work was cancelled; nothing was changed."""

    def __init__(self) -> None:
        super().__init__("Cancelled. Nothing was changed.")

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return type(self), ()


class WorkspaceError(EditorError):
    """The workspace's database cannot be read or written at the moment; what it holds is as before."""
