"""Every runtime there is: built-in ones and those of other packages; and what each device can run.

Other packages offer a runtime by the entry-point group ``hetero_editor.runtimes``; its value is a function
or class that returns an object of the protocol ``Runtime``. A package that fails to load is listed as
unusable, with its reason, and nothing else suffers. What failed runs have taught is kept per model, sizes and device.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module, metadata
from importlib.metadata import EntryPoint, distributions
from pathlib import Path

from editor import custom_ops
from editor.devices.device import Device
from editor.devices.discovery import UnusableRuntime
from editor.devices.table import load_devices
from editor.errors import ExecutionError
from editor.files import cache_folder, keep_json, kept_json
from editor.graph.graph import Graph
from editor.graph.plain_models import has_plain_ops
from editor.groups import firsts
from editor.runtimes.base import Capability
from editor.runtimes.protocols import API_VERSION, Runtime
from editor.sandbox.worker import run
from editor.startup import installed_folders
from editor.version import VERSION

ENTRY_POINTS = "hetero_editor.runtimes"
STAND_INS = {"onnx": "CPU", "openvino": "OpenVINO.CPU"}
"""Format -> the device that runs the subgraphs of planned devices, so that results can be checked."""

# Device names are resolved in this order.
_BUILT_IN = {
    "onnxruntime": "editor.runtimes.onnxruntime.runtime:OnnxRuntime",
    "openvino": "editor.runtimes.openvino.runtime:OpenVino",
    "tvm": "editor.runtimes.tvm:Tvm",
    "interpreter": "editor.runtimes.interpreter:Interpreter",
    "machines": "editor.runtimes.machines.runtime:Machines",
}

_ONNX = ("onnx",)
_answers: dict[tuple[object, ...], Capability] = {}
_MAX_ANSWERS = 64


def runtimes() -> Iterator[Runtime]:
    """Every runtime that can be loaded, the built-in ones first; others are looked up when they are reached."""
    for name in _BUILT_IN:
        yield _built_in(name)
    yield from _others()[0].values()


def unusable() -> tuple[UnusableRuntime, ...]:
    """Packages whose runtime cannot be loaded, with the reason."""
    return _others()[1]


@cache
def _built_in(name: str) -> Runtime:
    module, _, factory = _BUILT_IN[name].partition(":")
    runtime: Runtime = getattr(import_module(module), factory)()
    return runtime


@cache
def _others() -> tuple[dict[str, Runtime], tuple[UnusableRuntime, ...]]:
    """Runtimes of other packages by name, and those that cannot be loaded."""
    found: dict[str, Runtime] = {}
    failed: list[UnusableRuntime] = []
    for point in _entry_points():
        try:
            runtime = _load(point)
        except Exception as error:  # noqa: BLE001  # code of others may raise anything while it is imported
            failed.append(UnusableRuntime(point.name, f"{type(error).__name__}: {error}"))
            continue
        if runtime.name in _BUILT_IN or runtime.name in found:
            failed.append(
                UnusableRuntime(point.name, f"there is a runtime {runtime.name!r} already")
            )
        else:
            found[runtime.name] = runtime
    return found, tuple(failed)


def _entry_points() -> list[EntryPoint]:
    """The entry points of installed distributions, by name; what lies in the current folder is not installed."""
    by_name = firsts(
        (f"{distribution.name} {point.name}", point)
        for distribution in distributions(path=[*installed_folders()])
        for point in distribution.entry_points.select(group=ENTRY_POINTS)
    )
    return sorted(by_name.values(), key=lambda p: p.name)


def _load(point: EntryPoint) -> Runtime:
    runtime: Runtime = point.load()()
    if runtime.api_version != API_VERSION:
        raise ExecutionError(
            f"it was written for version {runtime.api_version} of the runtime protocol; this editor has "
            f"version {API_VERSION}"
        )
    return runtime


def runtime_of(name: str) -> Runtime:
    """The runtime of a name.

    Raises:
        ExecutionError: there is no such runtime.
    """
    if name in _BUILT_IN:
        return _built_in(name)
    runtime = _others()[0].get(name)
    if runtime is None:
        reason = next((f": {u.reason}" for u in _others()[1] if u.name == name), "")
        raise ExecutionError(f"there is no runtime {name!r}{reason}")
    return runtime


def for_model(graph: Graph, device: Device) -> Device:
    """The device as it is for a model: planned where its runtime does not run models of this format."""
    if device.planned or graph.format in getattr(runtime_of(device.runtime), "formats", _ONNX):
        return device
    reason = f"{device.title} runs ONNX models, and this is OpenVINO IR"
    return replace(device, present=False, runtime="", provider="", reason=reason)


def capability(graph: Graph, device: Device, with_lessons: bool = True) -> Capability:
    """The ops that a device can run: what the runtime answers, what runs have taught, and what is published of the device.

    A planned device cannot be asked, unless a compiler here answers for it. A runtime is asked once per model and device.

    Args:
        graph: the model.
        device: of a table.
        with_lessons: whether ops are refused that failed together with others in a run.

    Raises:
        ExecutionError: the runtime is not installed.
        LimitError: the runtime needs more time or memory than the limits allow.
    """
    device = for_model(graph, device)
    can_be_asked = not device.planned or (
        device.runtime and getattr(runtime_of(device.runtime), "answers_for_planned", False)
    )
    answer = _answer(graph, device) if can_be_asked else Capability.everything(graph)
    known = lessons(graph, device) if with_lessons and not device.planned else {}
    if known:
        answer = answer.without([known.get(key, "") for key in graph.op_keys])
    return (
        answer.without(device.published.refusals(graph)) if device.published.restricts else answer
    )


def _answer(graph: Graph, device: Device) -> Capability:
    key = (graph.sha256, tuple(sorted(graph.define.items())), device.settings)
    if key not in _answers:
        if len(_answers) >= _MAX_ANSWERS:
            _answers.pop(next(iter(_answers)))
        # A runtime of another package may be known to this process only.
        # Another machine answers for itself.
        harmless = device.runtime not in _BUILT_IN or bool(device.machine) or has_plain_ops(graph)
        _answers[key] = run(
            _ask,
            graph,
            device,
            what=f"asking {device.name} about",
            path=graph.path,
            harmless=harmless,
        )
    return _answers[key]


def _ask(graph: Graph, device: Device) -> Capability:
    try:
        return runtime_of(device.runtime).capability(graph, device)
    except ImportError as error:
        raise ExecutionError(f"the runtime {device.runtime} is not installed ({error})") from error


def stand_in(model_format: str = "onnx") -> Device:
    """The real device that runs the subgraphs of planned ones, with all libraries of custom ops that are known."""
    return replace(_stand_in(model_format), custom_ops=custom_ops.known())


@cache
def _stand_in(model_format: str) -> Device:
    return load_devices([{"name": "stand-in", "backendName": STAND_INS[model_format]}])[0]


_MAX_BYTES = 16 << 20


def lessons_path(graph: Graph, device: Device) -> Path:
    """The file of what was learned about a model on a device; another version of a runtime begins anew."""
    versions = [
        next((found.version for found in metadata.distributions(name=name)), "")
        for name in ("onnxruntime", "openvino")
    ]
    identity = repr(
        (VERSION, versions, device.settings, graph.sha256, sorted(graph.define.items()))
    )
    return cache_folder("lessons") / f"{hashlib.sha256(identity.encode()).hexdigest()[:32]}.json"


def lessons(graph: Graph, device: Device) -> dict[str, str]:
    """Key of each op that a device is not given again -> the reason."""
    stored = kept_json(lessons_path(graph, device), _MAX_BYTES)
    if not isinstance(stored, dict):
        return {}
    return {str(k): str(v) for k, v in stored.items() if str(k) in graph.key_index}


def keep_lessons(graph: Graph, device: Device, reasons: Mapping[str, str]) -> None:
    """Adds reasons, op key -> text; where they cannot be written, the next run learns them again."""
    keep_json(lessons_path(graph, device), {**lessons(graph, device), **reasons})
