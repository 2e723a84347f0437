"""Where a session really runs the ops of a model: the assignment that ONNX Runtime records, and times by its profiler."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnxruntime as ort
from onnx import ModelProto

from editor import custom_ops
from editor.devices.device import Device
from editor.errors import ExecutionError
from editor.files import parse_json
from editor.graph.attributes import bodies_of
from editor.graph.external_data import external_data_folder, locations_of
from editor.graph.model_file import read_model
from editor.runtimes.base import Value
from editor.runtimes.onnxruntime.options import reason_of, session_options
from editor.runtimes.onnxruntime.plugins import ep_device, plugin_device
from editor.runtimes.onnxruntime.providers import CPU, index_of
from editor.runtimes.onnxruntime.session import RECORD
from editor.runtimes.profiling import runs_within
from editor.runtimes.values import to_numpy

_NOT_OPTIONS = frozenset({"enable_profiling"})
"""Properties of a device that no provider takes."""

_ENUMERATIONS: Mapping[str, Callable[[int], Any]] = {
    "graph_optimization_level": ort.GraphOptimizationLevel,
    "execution_mode": ort.ExecutionMode,
}

_PUT_BACK = ("optimized_model_filepath", "enable_profiling", "profile_file_prefix")


@dataclass(frozen=True)
class SessionSettings:
    """What a session is made with, its providers aside."""

    attributes: Mapping[str, int | bool] = field(default_factory=dict)
    """Of ``SessionOptions``; enumerations by number."""
    entries: Mapping[str, str] = field(default_factory=dict)
    """Configuration entries."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Free dimension -> size."""


@dataclass(frozen=True)
class Recorded:
    """What a session says of itself."""

    nodes: tuple[tuple[str, str, str], ...]
    """(name, type, provider) of the nodes of the main graph."""
    inner: int = 0
    """Nodes inside bodies of If, Loop and Scan."""
    trace: Any = None
    """Events of the profiler; None where nothing was run."""
    runs: int = 0


def record(
    path: Path,
    devices: Sequence[Device],
    settings: SessionSettings,
    seconds: float = 0.0,
    inputs: Mapping[str, Value] | None = None,
) -> Recorded:
    """Creates a session of a model, as its configuration says, and asks where its nodes are.

    Args:
        path: of the model. Its nodes are given names where they lack one: the record knows them by nothing else.
        devices: in order; those that this machine lacks are left out, as ONNX Runtime does.
        settings: of the session.
        seconds: to run it for its times; 0: not at all.
        inputs: of these runs.

    Raises:
        ExecutionError: ONNX Runtime refuses the session.
    """
    model = read_model(path)
    renamed = name_nodes(model)
    is_file = not renamed and path.suffix.lower() == ".onnx"
    source = str(path) if is_file else model.SerializeToString()
    folder = None if is_file else external_data_folder(model, path)

    def create(profile: str) -> Any:
        options = session_options(folder, entries={**settings.entries, **RECORD})
        for name, value in settings.attributes.items():
            setattr(options, name, _ENUMERATIONS.get(name, type(value))(value))
        for name, size in settings.sizes.items():
            options.add_free_dimension_override_by_name(name, size)
        libraries = dict.fromkeys(library for d in devices for library in d.custom_ops)
        custom_ops.register(options, model.opset_import, list(libraries))
        _profile_into(options, profile)
        return _session(source, options, devices)

    return _recorded(create, {node.name for node in model.graph.node}, model, seconds, inputs)


def record_session(
    session: Any, path: Path, seconds: float = 0.0, inputs: Mapping[str, Value] | None = None
) -> Recorded:
    """As ``record``, of a session that is there.

    Another one is made like it where it does not record, where nodes lack names, or to be timed. Nodes whose model has weights
    in other files stay without a name: the session's options may not be told another folder.

    Raises:
        ExecutionError: ONNX Runtime refuses the other session.
    """
    model = read_model(path)
    renamed = not locations_of(model) and name_nodes(model)
    source = model.SerializeToString() if renamed else str(path)

    def create(profile: str) -> Any:
        if not profile and not renamed:
            try:
                session.get_provider_graph_assignment_info()
            except Exception:  # noqa: BLE001  # it does not record; ONNX Runtime's errors have no base class
                pass
            else:
                return session
        options = session.get_session_options()  # the session's own, so they are put back
        before = {name: getattr(options, name) for name in _PUT_BACK}
        options.optimized_model_filepath = ""
        for key, value in RECORD.items():
            options.add_session_config_entry(key, value)
        _profile_into(options, profile)
        given = session.get_provider_options()
        named = [(name, given.get(name, {})) for name in session.get_providers()]
        try:
            return ort.InferenceSession(
                source,
                options,
                providers=named,
                enable_fallback=0,
            )
        finally:
            for key in RECORD:
                options.add_session_config_entry(key, "0")
            for name, value in before.items():
                setattr(options, name, value)

    return _recorded(create, {node.name for node in model.graph.node}, model, seconds, inputs)


def name_nodes(model: ModelProto) -> bool:
    """Names the nodes of a model that have no name after their first outputs; False where all have one.

    Doubled names stay: ONNX Runtime refuses them itself.
    """
    known = {node.name for node in model.graph.node}
    changed = False
    for node in model.graph.node:
        made = next((name for name in node.output if name), "")
        if not node.name and made not in known:
            node.name = made
            changed = True
    return changed


def _recorded(
    create: Callable[[str], Any],
    names: set[str],
    model: ModelProto,
    seconds: float,
    inputs: Mapping[str, Value] | None,
) -> Recorded:
    try:
        session = create("")
        found = [
            (node.name, node.op_type, part.ep_name)
            for part in session.get_provider_graph_assignment_info()
            for node in part.get_nodes()
        ]
        inner = _inner_names(model) - names
        outer = tuple(node for node in found if node[0] not in inner)
        if not seconds:
            return Recorded(outer, len(found) - len(outer))
        del session
        with tempfile.TemporaryDirectory(prefix="hetero-audit-") as folder:
            timed = create(str(Path(folder) / "trace"))
            feeds = {name: to_numpy(value) for name, value in (inputs or {}).items()}
            count = 0
            for _ in runs_within(seconds):
                timed.run(None, feeds)
                count += 1
            events = parse_json(Path(timed.end_profiling()).read_text(encoding="utf-8"))
            trace = [event for event in events if _is_of_run(event)]
        return Recorded(outer, len(found) - len(outer), trace, count)
    except Exception as error:  # ONNX Runtime's errors have no base class of their own
        raise ExecutionError(
            f"the session cannot be made or run as it is configured: {reason_of(error)}"
        ) from error


def _is_of_run(event: Mapping[str, Any]) -> bool:
    """Whether an event of the profiler is a kernel or a whole run; the others would only be carried between processes."""
    name = str(event.get("name", ""))
    return name == "model_run" or name.endswith("_kernel_time")


def _inner_names(model: ModelProto) -> set[str]:
    """Names of the nodes in bodies, and of those in the bodies of these."""
    found: set[str] = set()
    waiting = [body for node in model.graph.node for body in bodies_of(node)]
    while waiting:
        body = waiting.pop()
        for node in body.node:
            found.add(node.name)
            waiting += bodies_of(node)
    return found - {""}


def _profile_into(options: ort.SessionOptions, prefix: str) -> None:
    options.enable_profiling = bool(prefix)
    if prefix:
        options.profile_file_prefix = prefix


def _session(source: str | bytes, options: ort.SessionOptions, devices: Sequence[Device]) -> Any:
    """A session on devices, in order. One list cannot hold providers of plugins, so with one of these all are added."""
    here = [device for device in devices if device.present]
    given = [
        (
            device.provider,
            {k: v for k, v in device.properties.items() if "." not in k and k not in _NOT_OPTIONS},
        )
        for device in here
    ]
    plugins = [plugin_device(device.provider, index_of(device)) for device in here]
    if not any(plugin is not None for plugin in plugins):
        return ort.InferenceSession(
            source, options, providers=given or [(CPU, {})], enable_fallback=0
        )
    for plugin, (provider, settings) in zip(plugins, given, strict=True):
        if plugin is not None:
            options.add_provider_for_devices(
                [ep_device(plugin)], {**dict(plugin.settings), **settings}
            )
        elif provider != CPU:
            options.add_provider(provider, settings)
    return ort.InferenceSession(source, options, enable_fallback=0)
