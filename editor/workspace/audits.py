"""What a configuration that exists really runs: the device of each op as the runtime recorded it, against the one wanted."""

from __future__ import annotations

import json
import os
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from editor.arguments import Requirement, as_mapping, as_path, as_seconds, did_you_mean
from editor.devices.device import Device, property_problem
from editor.devices.published import need_of, reason_of_all
from editor.devices.table import load_devices
from editor.errors import EditorError, ModelError, PinError
from editor.graph.graph import Graph
from editor.graph.loading import load_model
from editor.graph.proposed_sizes import sizes_text, with_all_sizes
from editor.groups import grouped
from editor.imports.affinity_files import ImportedAffinities
from editor.imports.matching import Layer, label_of
from editor.imports.placements import of_layers
from editor.kinds import Kind
from editor.placement.costs import estimate
from editor.placement.placement import Placement, Settings, solve
from editor.placement.rules import label_mask
from editor.runtimes.base import Value
from editor.sandbox.worker import run
from editor.text import counted, pluralize
from editor.workspace.plan import Plan
from editor.workspace.recorded import asked_of_hetero, pins_of_all, settings_of_record

_COPY = "Memcpy"
"""Beginning of the type of the nodes that ONNX Runtime adds between providers."""
_MOST_SECONDS = 3600.0
_MOST_NAMED = 5


@dataclass(frozen=True)
class AuditedOp:
    """Where an op was wanted, and where it is."""

    key: str
    name: str
    type: str
    wanted: str
    """The first device of the configuration."""
    actual: str
    """The device that has it; "" where it is in no record."""
    state: Literal["placed", "removed or fused"]
    """``removed or fused``: the runtime's record lacks it, so the optimiser removed it or made it part of another node."""
    reason: str
    """Why it is not where it was wanted; "" where it is."""


@dataclass(frozen=True)
class AuditShare:
    """What one device runs."""

    device: str
    here: bool
    """Whether the runtime of this machine has it."""
    ops: int
    """Ops placed there."""
    ops_share: float
    """Of all ops that are placed."""
    seconds: float
    """Of a run."""
    time_share: float


@dataclass(frozen=True)
class Crossing:
    """A tensor that is made on one device and read on another."""

    tensor: str
    source: str
    readers: tuple[str, ...]
    """Devices that read it."""
    bytes: int | None
    """None where its size is not known before a run."""


@dataclass(frozen=True)
class Audit:
    """The result for one model in one configuration."""

    model: str
    runtime: str
    """With its version."""
    plan: Plan
    """The actual placement, each op pinned where it is."""
    ops: tuple[AuditedOp, ...]
    """Without constants."""
    shares: tuple[AuditShare, ...]
    """In the order of the configuration."""
    kind: Kind
    """Of the times: a measurement of the runtime's profiler, or an estimate from shapes."""
    crossings: tuple[Crossing, ...]
    copies: int | None
    """Nodes that copy between devices, in a run; None where none was made."""
    unchecked: tuple[str, ...]
    """What was assumed, left out or could not be checked."""

    @property
    def subgraphs(self) -> int:
        """Connected regions of ops on one device."""
        return len(self.plan.subgraphs)

    @property
    def removed(self) -> int:
        """Ops that the runtime's record lacks."""
        return sum(not op.actual for op in self.ops)

    @property
    def astray(self) -> tuple[AuditedOp, ...]:
        """Ops that are on another device than was wanted."""
        return tuple(op for op in self.ops if op.actual and op.actual != op.wanted)

    def share(self, requirement: Requirement) -> float:
        """The share that a requirement is about, from 0 to 1.

        Raises:
            EditorError: the configuration has no such device.
        """
        try:
            mask = label_mask(requirement.device, self.plan.devices)
        except PinError:
            names = [d.name for d in self.plan.devices]
            raise EditorError(
                f"the requirement {str(requirement)!r}: the configuration has no device {requirement.device!r}"
                f"{did_you_mean(requirement.device, names)} (it has {', '.join(names)})"
            ) from None
        chosen = [share for share, is_meant in zip(self.shares, mask, strict=True) if is_meant]
        return sum(s.time_share if requirement.of == "time" else s.ops_share for s in chosen)

    def meets(self, requirement: Requirement) -> bool:
        """Whether the configuration reaches it."""
        return self.share(requirement) >= requirement.share

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "model": self.model,
            "runtime": self.runtime,
            "kind": str(self.kind),
            "shares": [asdict(share) for share in self.shares],
            "subgraphs": self.subgraphs,
            "removed": self.removed,
            "crossings": [asdict(crossing) for crossing in self.crossings],
            "copies": self.copies,
            "unchecked": list(self.unchecked),
            "ops": [asdict(op) for op in self.ops],
        }


def audit(
    model: Any,
    providers: Sequence[str] | str = (),
    *,
    hetero: Sequence[str] | str = (),
    session_options: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    define: Mapping[str, int] | None = None,
    seconds: float = 0.0,
) -> Audit:
    """Tells where a runtime really runs the ops of a model.

    Args:
        model: a path, or an ``onnxruntime.InferenceSession`` that was made of one.
        providers: execution providers of ONNX Runtime in order, as ``"CUDA,CPU"`` or full names.
        hetero: devices of OpenVINO's HETERO in order, in place of providers.
        session_options: names and values of ``SessionOptions``, or the path of a JSON file of them.
        define: sizes of the dimensions that the model leaves open, for times; the session is not told them.
        seconds: to run the session for measured times; 0: times are estimates.

    Raises:
        EditorError: the model, a provider or an option is at fault, or the runtime refuses the configuration.
    """
    from editor.imports.session_settings import Configuration, configuration, read_options

    seconds = as_seconds(seconds, "seconds", _MOST_SECONDS) if seconds else 0.0
    session = None if isinstance(model, str | os.PathLike) else model
    path = _path_of(session) if session is not None else as_path(model, "a model", ModelError)
    if session is not None and (_listed(providers) or _listed(hetero) or session_options):
        raise EditorError("a session has its providers and options; pass only the session")
    if _listed(hetero):
        if _listed(providers) or session_options:
            raise EditorError("either providers of ONNX Runtime or hetero devices of OpenVINO")
        return _audit_hetero(path, _listed(hetero), define, seconds)
    if session is not None:
        return _audit_providers(path, _configuration_of(session), define, seconds, session)
    made = Configuration()
    if isinstance(session_options, Mapping):
        made = configuration(as_mapping(session_options, "session_options"), "session_options")
    elif session_options is not None:
        made = read_options(as_path(session_options, "a file of session options"))
    return _audit_providers(path, _with_providers(made, _listed(providers)), define, seconds)


def audit_genai(
    folder: str | os.PathLike[str], define: Mapping[str, int] | None = None, seconds: float = 0.0
) -> list[Audit]:
    """Tells where onnxruntime-genai would have ONNX Runtime run each model of a folder with a ``genai_config.json``.

    Raises:
        EditorError: the folder, or one of its models, is at fault.
    """
    from editor.imports.session_settings import read_genai

    found = read_genai(as_path(folder, "a folder of onnxruntime-genai"))
    seconds = as_seconds(seconds, "seconds", _MOST_SECONDS) if seconds else 0.0
    return [_audit_providers(one.path, one.configuration, define, seconds) for one in found]


def _listed(names: Sequence[str] | str) -> list[str]:
    parts = names.split(",") if isinstance(names, str) else list(names)
    if not all(isinstance(part, str) for part in parts):
        raise EditorError("devices are names, such as 'CUDA,CPU' or ['CUDA', 'CPU']")
    return [part.strip() for part in parts if part.strip()]


def _path_of(session: Any) -> Path:
    """The file that a session was made of."""
    path = getattr(session, "_model_path", None)
    if not hasattr(session, "get_provider_options"):
        raise ModelError("a model is a path, or an onnxruntime.InferenceSession")
    if not path:
        raise ModelError(
            "the session was made of bytes, so its file is not known; save the model, make the session of the file, "
            "or pass its path with the providers"
        )
    return Path(os.fsdecode(path))


def _configuration_of(session: Any) -> Any:
    from editor.imports.session_settings import Configuration

    options = session.get_provider_options()
    return Configuration(
        tuple((name, dict(options.get(name, {}))) for name in session.get_providers())
    )


def _with_providers(made: Any, names: Sequence[str]) -> Any:
    """A configuration with providers in the order of names, which may state options for them; without names, its own."""
    from dataclasses import replace

    from editor.imports.session_settings import provider_of_name

    own = dict(made.providers)
    order = list(dict.fromkeys(map(provider_of_name, names))) or list(own)
    if not order:
        raise EditorError(
            "which providers? Name them in order, as --providers CUDA,CPU, or in the session options"
        )
    return replace(made, providers=tuple((name, own.get(name, {})) for name in order))


def _load(path: Path, define: Mapping[str, int] | None, unchecked: list[str]) -> Graph:
    """The model with sizes for all open dimensions; those that were assumed are said."""
    graph, sizes = with_all_sizes(load_model(path, dict(define or {})))
    if sizes:
        unchecked.append(f"sizes assumed, for times and bytes: {sizes_text(sizes)}")
    return graph


def _audit_providers(
    path: Path,
    made: Any,
    define: Mapping[str, int] | None,
    seconds: float,
    session: Any = None,
) -> Audit:
    """Audits a session of ONNX Runtime."""
    from editor.execution.invented_inputs import random_inputs
    from editor.runtimes.onnxruntime.options import VERSION
    from editor.runtimes.onnxruntime.providers import CPU
    from editor.runtimes.onnxruntime.recorded import Recorded, record, record_session

    unchecked = list(made.left_out)
    graph = _load(path, define, unchecked)
    if not graph.is_onnx:
        raise ModelError(f"{path}: ONNX Runtime does not run this format; audit it with --hetero")
    providers = list(made.providers)
    if all(name != CPU for name, _ in providers):
        providers.append((CPU, {}))
        unchecked.append("the CPU was added: ONNX Runtime always has it behind the others")
    devices = _devices_of_providers(providers, session is not None, unchecked)
    inputs: Mapping[str, Value] = random_inputs(graph) if seconds else {}
    if session is not None:
        recorded: Recorded = record_session(session, path, seconds, inputs)
    else:
        recorded = run(
            record,
            path,
            devices,
            made.settings,
            seconds,
            dict(inputs),
            what="starting a session of",
            path=path,
        )
    layers = tuple(
        Layer(name, 1.0, kind, provider) for name, kind, provider in recorded.nodes if name
    )
    if nameless := len(recorded.nodes) - len(layers):
        unchecked.append(
            f"{pluralize(nameless, 'node')} without a name in the record: their ops count as removed or fused"
        )
    found = of_layers(
        graph,
        devices,
        ImportedAffinities("assignment recorded by ONNX Runtime", {}, layers=layers),
    )
    unchecked += found.problems
    if recorded.inner:
        unchecked.append(
            f"{pluralize(recorded.inner, 'node')} inside bodies of If, Loop or Scan: counted with the op that has the body"
        )
    measured, copies = None, None
    if recorded.trace is not None:
        measured, copies = _measured(path, recorded.trace, devices, unchecked)
        unchecked.append(f"inputs of the {pluralize(recorded.runs, 'timed run')} were invented")
    return _result(
        graph,
        devices,
        f"ONNX Runtime {VERSION}",
        found.affinities,
        found.joined,
        measured,
        copies,
        unchecked,
    )


def _devices_of_providers(
    providers: Sequence[tuple[str, Mapping[str, str]]], is_session: bool, unchecked: list[str]
) -> tuple[Device, ...]:
    """The device table of a configuration; providers that this ONNX Runtime lacks are planned, and said."""
    from editor.runtimes.onnxruntime.options import BUILT_IN
    from editor.runtimes.onnxruntime.properties import BY_PROVIDER, EVERY_PROVIDER
    from editor.runtimes.onnxruntime.providers import NAME, PROVIDER_NAMES, short_name

    entries: list[dict[str, Any]] = []
    for name, options in providers:
        known = BY_PROVIDER.get(name, EVERY_PROVIDER)
        properties = {
            k: str(v)
            for k, v in options.items()
            if not is_session or not property_problem(k, str(v), known, name)
        }
        entry = {"name": short_name(name), "backendName": NAME, "provider": name}
        entries.append({**entry, **({"properties": properties} if properties else {})})
    devices = load_devices(entries)
    for device in devices:
        if device.present:
            continue
        if device.provider not in PROVIDER_NAMES:
            names = [*PROVIDER_NAMES, *PROVIDER_NAMES.values()]
            raise EditorError(
                f"{device.provider}: no execution provider that is known or installed here"
                f"{did_you_mean(device.provider, names)}"
            )
        why = device.reason or f"it has {', '.join(sorted(BUILT_IN))}"
        unchecked.append(
            f"{device.provider} is not in the ONNX Runtime of this machine ({why}), which therefore ignores it: this is what "
            "the configuration runs here, and not on a machine that has it"
        )
    return devices


def _measured(
    path: Path, trace: Any, devices: Sequence[Device], unchecked: list[str]
) -> tuple[dict[str, float], int]:
    """Seconds of a run by device, and how many nodes copy between devices."""
    from editor.imports.placements import read_trace

    times = read_trace(path, trace)
    unchecked += times.notes
    seconds: dict[str, float] = {}
    for layer in times.layers:
        label = label_of(layer.provider, devices) or ""
        seconds[label] = seconds.get(label, 0.0) + layer.seconds
    if lost := seconds.pop("", 0.0):
        unchecked.append(f"{lost:.3g} s of a run are of providers that the configuration lacks")
    return seconds, sum(layer.type.startswith(_COPY) for layer in times.layers)


def _audit_hetero(
    path: Path, names: Sequence[str], define: Mapping[str, int] | None, seconds: float
) -> Audit:
    """Audits OpenVINO's HETERO, which places ops when it is asked with ``query_model``."""
    from importlib.metadata import version

    if seconds:
        raise EditorError(
            "--seconds measures sessions of ONNX Runtime; shares of HETERO are estimates: bench the plan of --out"
        )
    unchecked: list[str] = []
    graph = _load(path, define, unchecked)
    upper = [name.upper() for name in names]
    devices = load_devices(
        [{"name": name, "backendName": "openvino", "provider": name} for name in upper]
    )
    matched = asked_of_hetero(graph, devices, {name: name for name in upper})
    if matched.problems:
        shown = "; ".join(matched.problems[:_MOST_NAMED])
        unchecked.append(
            f"{pluralize(len(matched.problems), 'node')} of OpenVINO without an op of the model: {shown}"
        )
    unchecked.append(
        "what query_model says is where HETERO places nodes; which of them a device then fuses is not in it"
    )
    return _result(
        graph,
        devices,
        f"OpenVINO {version('openvino')} HETERO",
        matched.pins,
        frozenset(),
        None,
        None,
        unchecked,
    )


def _result(
    graph: Graph,
    devices: tuple[Device, ...],
    runtime: str,
    affinities: Mapping[str, str],
    joined: frozenset[str],
    measured: Mapping[str, float] | None,
    copies: int | None,
    unchecked: list[str],
) -> Audit:
    """The audit of a placement that a runtime recorded.

    Args:
        graph: the model.
        devices: of the configuration, in order.
        runtime: its name and version.
        affinities: op key -> device, of the ops in the record and those that joined one of them.
        joined: keys of the latter.
        measured: device -> seconds of a run; None for estimates.
        copies: nodes that copy between devices, in a run.
        unchecked: what is to be said.
    """
    placement = _placement(graph, devices, affinities, unchecked)
    index = {device.name: i for i, device in enumerate(devices)}
    device = {
        graph.key_index[key]: index[name] for key, name in affinities.items() if key not in joined
    }
    wanted = devices[0]
    ops = []
    for op in np.flatnonzero(~graph.op_is_constant).tolist():
        key = graph.op_keys[op]
        actual = devices[device[op]].name if op in device else ""
        astray = bool(actual) and actual != wanted.name
        reason = _reason(placement, op, actual) if astray else ""
        ops.append(
            AuditedOp(
                key,
                graph.op_names[op],
                graph.type_label(op),
                wanted.name,
                actual,
                "placed" if actual else "removed or fused",
                reason,
            )
        )
    counts = Counter(op.actual for op in ops if op.actual)
    seconds = dict(measured or {})
    if measured is None:
        costs = estimate(graph, devices).op
        for op, d in device.items():
            seconds[devices[d].name] = seconds.get(devices[d].name, 0.0) + float(costs[op, d])
    total, every = sum(seconds.values()), sum(counts.values())
    shares = tuple(
        AuditShare(
            d.name,
            d.present,
            counts[d.name],
            counts[d.name] / every if every else 0.0,
            seconds.get(d.name, 0.0),
            seconds.get(d.name, 0.0) / total if total else 0.0,
        )
        for d in devices
    )
    if not every:
        unchecked.append("the record names no op of the model, so the shares say nothing")
    crossings = tuple(
        Crossing(
            boundary.tensor,
            placement.subgraphs[boundary.source].device if boundary.source >= 0 else "",
            tuple(boundary.to_devices),
            boundary.bytes if boundary.bytes >= 0 else None,
        )
        for boundary in placement.division.transfers
    )
    kind = Kind.ESTIMATE if measured is None else Kind.MEASUREMENT
    return Audit(
        str(graph.path),
        runtime,
        Plan(placement),
        tuple(ops),
        shares,
        kind,
        crossings,
        copies,
        tuple(dict.fromkeys(unchecked)),
    )


def _placement(
    graph: Graph,
    devices: tuple[Device, ...],
    affinities: Mapping[str, str],
    unchecked: list[str],
) -> Placement:
    """The actual placement as pins; see ``pins_of_all``."""
    pins = pins_of_all(graph, affinities, devices[-1].name)
    settings = Settings("priority", {}, pins, frozenset(pins), "connected")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        placement = solve(graph, devices, settings)
    unchecked += [str(warning.message) for warning in caught]
    exact = settings_of_record(placement, pins)
    if contradicted := exact.forced & set(affinities):
        key = min(contradicted)
        op = graph.key_index[key]
        unchecked.append(
            f"{pluralize(len(contradicted), 'op')} are where the editor would not have put them, such as {key!r} on "
            f"{pins[key]}: {placement.constraints.inability(op, placement.device_number(pins[key]))}"
        )
    return solve(graph, devices, exact, placement.constraints.capabilities)


def _reason(placement: Placement, op: int, actual: str) -> str:
    """Why an op is not on the first device."""
    wanted = placement.devices[0]
    if reason := placement.constraints.inability(op, 0):
        return reason
    if not wanted.present:
        return f"{wanted.provider or wanted.name} is not on this machine"
    return (
        f"{wanted.name} runs such an op when it is asked about it alone; the runtime gave this one to {actual} for what is "
        "around it"
    )


def text_of(found: Audit) -> str:
    """The lines of a report."""
    lines = [f"{found.model}: {found.runtime}, {', '.join(s.device for s in found.shares)}"]
    for share in found.shares:
        lines.append(
            f"{share.device}: {pluralize(share.ops, 'op')}, {share.ops_share:.1%} of ops, {share.time_share:.1%} of time "
            f"({found.kind}){'' if share.here else ', not on this machine'}"
        )
    if found.removed:
        lines.append(f"{pluralize(found.removed, 'op')} removed or fused by the optimiser")
    known = sum(c.bytes or 0 for c in found.crossings)
    copies = "" if found.copies is None else f", {pluralize(found.copies, 'copying node')} in a run"
    lines.append(
        f"{pluralize(found.subgraphs, 'subgraph')}, {pluralize(len(found.crossings), 'tensor')} crossing between devices "
        f"({known:,} bytes){copies}"
    )
    for ops in by_reason(found.astray):
        lines.append(
            f"  wanted on {ops[0].wanted}, is on {ops[0].actual}: {pluralize(len(ops), 'op')}: {types_of(ops)}: "
            f"{reason_of_all([op.reason for op in ops])}"
        )
    return "\n".join(lines)


def by_reason(astray: Sequence[AuditedOp]) -> list[list[AuditedOp]]:
    """Ops that are on another device than was wanted, those of one reason together; the most ops first."""
    groups = grouped(((op.wanted, op.actual, need_of(op.reason)), op) for op in astray)
    return sorted(groups.values(), key=len, reverse=True)


def types_of(ops: Sequence[AuditedOp]) -> str:
    """The commonest types of some ops, such as ``52 Conv, 35 Clip``."""
    return counted((op.type for op in ops), _MOST_NAMED)


def json_of(found: Sequence[Audit], requirements: Sequence[Requirement]) -> str:
    """The machine-readable report of audits, and of what was required of each."""
    document = {
        "format": "hetero-editor/audit",
        "version": 1,
        "audits": [
            one.as_dict()
            | {
                "requirements": [
                    {"text": str(r), "share": one.share(r), "met": one.meets(r)}
                    for r in requirements
                ]
            }
            for one in found
        ],
        "met": all(one.meets(r) for one in found for r in requirements),
    }
    return json.dumps(document, indent=1)
