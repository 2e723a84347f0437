"""Audits of a document's model: a job, and what a configuration really runs as a layout beside the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from editor.devices.device import Device
from editor.devices.published import reason_of_all
from editor.devices.table import is_hetero, load_devices
from editor.errors import EditorError
from editor.graph.model_file import check_same
from editor.kinds import Kind
from editor.placement.placement import Settings
from editor.sandbox.worker import Channel
from editor.workspace.audits import AuditedOp, AuditShare, audit, by_reason, types_of
from editor.workspace.document import Document
from editor.workspace.layouts import AUDITED, tidy_name
from editor.workspace.recorded import settings_of_record
from editor.workspace.solver import first_decisions


@dataclass(frozen=True)
class AuditReport:
    """An audit without its plan, as a job returns it."""

    runtime: str
    kind: Kind
    """Of the times."""
    ops: tuple[AuditedOp, ...]
    shares: tuple[AuditShare, ...]
    subgraphs: int
    copies: int | None
    unchecked: tuple[str, ...]
    devices: Sequence[Mapping[str, Any]]
    """Entries of the device table of the configuration."""
    settings: Settings
    """Each op pinned where it is."""

    @property
    def astray(self) -> tuple[AuditedOp, ...]:
        """Ops that are on another device than was wanted."""
        return tuple(op for op in self.ops if op.actual and op.actual != op.wanted)

    @property
    def removed(self) -> tuple[AuditedOp, ...]:
        """Ops that the runtime's record lacks."""
        return tuple(op for op in self.ops if not op.actual)


def audit_job(
    channel: Channel,
    model: str,
    sha256: str,
    define: Mapping[str, int],
    text: str,
    options: Mapping[str, Any],
    seconds: float,
) -> AuditReport:
    """``audit`` as a job.

    Args:
        channel: of the job.
        model: path of the model.
        sha256: of its file, which must still be the same.
        define: sizes of its inputs.
        text: the configuration, ``CUDA,CPU`` or ``HETERO:GPU,CPU``.
        options: session options of ONNX Runtime.
        seconds: to run the session for; 0: times are estimates.
    """
    if is_hetero(text) and not text.partition(":")[2].strip():
        raise EditorError("Which devices? Name them in order, as HETERO:GPU,CPU.")
    channel.emit({"kind": "phase", "text": f"auditing {text}", "done": 0, "total": 0})
    given: dict[str, Any] = {"define": define, "seconds": seconds}
    if options:
        given["session_options"] = options
    found = (
        audit(model, hetero=text.partition(":")[2], **given)
        if is_hetero(text)
        else audit(model, text, **given)
    )
    check_same(found.plan.graph, sha256)
    return AuditReport(
        found.runtime,
        found.kind,
        found.ops,
        found.shares,
        found.subgraphs,
        found.copies,
        found.unchecked,
        [dict(device.entry) for device in found.plan.devices],
        found.plan.settings,
    )


def keep_audit(document: Document, text: str, has_options: bool, found: AuditReport) -> str:
    """Keeps what an audit found as a layout of a document, in place of an earlier one of its name; returns the name."""
    names = (
        text.replace(" ", "").upper()
        if is_hetero(text)
        else ", ".join(share.device for share in found.shares)
    )
    name = tidy_name(f"audit: {names}{' with options' if has_options else ''}")
    audited = {
        "wanted": found.shares[0].device,
        "removed": len(found.removed),
        "astray": [
            {
                "ops": len(ops),
                "types": types_of(ops),
                "actual": ops[0].actual,
                "reason": reason_of_all([op.reason for op in ops]),
            }
            for ops in by_reason(found.astray)
        ],
    }
    decisions = decisions_of(document, found) | {AUDITED: audited}
    document.store.keep_layout(document.id, name, decisions)
    return name


def names_in_layout(document: Document, found: AuditReport) -> dict[str, str]:
    """Device of an audit -> what the layout calls it: as the document does where it has all that are used.

    Else the layout has the devices of the audit, renamed where the document calls another device so.
    """
    audited = load_devices(found.devices)
    own: dict[str, str] = {}
    for device in document.devices:
        own.setdefault(_what_runs(device), device.name)
    if _has_all(document, found):
        return {device.name: own.get(_what_runs(device), "") for device in audited}
    taken = {device.name: _what_runs(device) for device in document.devices}
    return {
        device.name: device.name
        if taken.get(device.name, _what_runs(device)) == _what_runs(device)
        else f"{device.runtime} {device.name}"
        for device in audited
    }


def decisions_of(document: Document, found: AuditReport) -> dict[str, Any]:
    """The placement of an audit as decisions; see ``names_in_layout`` for the devices."""
    names = names_in_layout(document, found)
    pins = {key: names[label] for key, label in found.settings.pins.items()}
    if not _has_all(document, found):
        entries = [{**entry, "name": names[str(entry["name"])]} for entry in found.devices]
        return first_decisions(replace(found.settings, pins=pins), entries)
    entries = [dict(device.entry) for device in document.devices]
    return first_decisions(settings_of_record(document.placement, pins), entries)


def _has_all(document: Document, found: AuditReport) -> bool:
    """Whether a document has all devices that an audit found in use."""
    used, own = set(found.settings.pins.values()), set(map(_what_runs, document.devices))
    return all(_what_runs(d) in own for d in load_devices(found.devices) if d.name in used)


def _what_runs(device: Device) -> str:
    """Runtime, provider and properties of a device of this machine, as text; those of other machines are never the same."""
    properties = sorted((name, str(value)) for name, value in device.properties.items())
    return repr((device.machine, device.runtime or device.backend, device.provider, properties))
