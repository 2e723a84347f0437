"""The devices that each op may use: capability ∧ device table lists ∧ rules ∧ pins, with reasons.

Policies choose within ``allowed[op, device]``. Manual and automatic mode combine because a pin only
removes devices from a row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from editor.arguments import as_text, did_you_mean
from editor.devices.device import Device
from editor.devices.keys import KEYS
from editor.devices.published import need_of, reason_of_all
from editor.devices.vocabulary import OpName, op_name
from editor.errors import PinError, UnsupportedOpError
from editor.graph.flops import Floats
from editor.graph.graph import Bools, Graph
from editor.placement.rules import Rule, apply_rules, label_mask, ops_decided
from editor.runtimes.base import Capability

_LIBRARY_FREE = ("ai.onnx", "ai.onnx.ml", "ai.onnx.preview.training", "com.microsoft")
"""Domains whose ops come with ONNX Runtime or not at all."""


@dataclass(frozen=True, eq=False)
class Constraints:
    """Which device each op may use, and why not the others."""

    graph: Graph
    devices: tuple[Device, ...]
    able: Bools
    """[op, device] capability and the lists of the device table, without rules and pins"""
    allowed: Bools
    """[op, device] capability, lists, rules and pins"""
    placed: Bools
    """[op] whether the op has a device of its own: it is not a constant, or it is pinned"""
    pins: Mapping[str, str]
    forced: frozenset[str]
    """Keys of pins that hold although the device cannot run the op."""
    capabilities: tuple[Capability, ...]
    ruled: Mapping[int, str]
    """Op -> text that names the rules applied to it."""

    @property
    def memory_limits(self) -> Floats:
        """[device] bytes that may be used there; infinite where no limit is stated."""
        return np.array([np.inf if d.memory is None else float(d.memory) for d in self.devices])

    def ops_of_rules(self, rules: Sequence[Rule]) -> list[list[int]]:
        """[rule] the ops that it decides; the rules are those that these constraints were made with."""
        free = ~self.graph.op_is_constant
        free[[_op_of(self.graph, key) for key in self.pins]] = False
        return ops_decided(self.graph, self.devices, rules, free)

    def reason(self, op: int, device: int) -> str:
        """Reason why an op may not use a device; "" when it may."""
        if self.allowed[op, device]:
            return ""
        if not self.able[op, device]:
            return self.inability(op, device)
        pin = self.pins.get(self.graph.op_keys[op])
        return (
            f"pinned to {pin}, though this could run it"
            if pin is not None
            else self.ruled.get(op, "")
        )

    def remark(self, op: int, device: int) -> str:
        """What a device computes otherwise than others in an op, and what its table leaves open; "" of nothing."""
        remarks = self.capabilities[device].remarks
        said = remarks[op] if remarks else ""
        return "; ".join(
            text
            for text in (
                said and f"{said}, where ONNX Runtime's CPU provider does not",
                self.devices[device].published.unchecked_of(self.graph, op),
            )
            if text
        )

    def inability(self, op: int, device: int) -> str:
        """Reason why a device cannot run an op, whatever the rules and pins; "" when it can."""
        reason = self.capabilities[device].reasons[op]
        if reason:
            return reason
        entry = self.devices[device]
        for name in entry.non_supported:
            if _meaning(name, self.graph).matches(self.graph, op):
                words = KEYS["nonSupportedNodes"].words
                return f"the device table excludes {name} on {entry.name} by its {words}"
        if entry.supported and not self.able[op, device]:
            list_of = f"{KEYS['supportedNodes'].words} of {entry.name}"
            return f"{list_of} does not list {self.graph.type_label(op)}"
        return ""

    def inabilities(self, ops: Iterable[int], device: int) -> list[tuple[str, int]]:
        """Reasons why a device cannot run some ops, with their types, and of how many each is; the commonest first."""
        alike: dict[str, list[str]] = {}
        for op in ops:
            why, kind = self.inability(op, device), self.graph.type_label(op)
            reason = why if why.startswith(kind) else f"{kind}: {why}"
            alike.setdefault(need_of(reason), []).append(reason)
        told = Counter({reason_of_all(reasons): len(reasons) for reasons in alike.values()})
        return told.most_common()

    def condition(self, op: int, device: int) -> str:
        """The conditions of the device table that an op does not meet, as they are written; "" where there are none."""
        table = self.devices[device].published
        return "" if self.able[op, device] else table.condition(self.graph, op)

    def excluded(self, op: int, device: int) -> bool:
        """Whether only the lists of the device table keep an op from a device, which could run it."""
        return not self.able[op, device] and not self.capabilities[device].reasons[op]


def constrain(
    graph: Graph,
    devices: Sequence[Device],
    capabilities: Sequence[Capability],
    pins: Mapping[str, str] | None = None,
    forced: frozenset[str] = frozenset(),
    rules: Sequence[Rule] = (),
) -> Constraints:
    """Returns the devices that each op may use.

    Args:
        pins: op key -> label: a device's name, or a label of the levels device, unit and codegen
            (``unit:1`` where the bare label would be ambiguous).
        forced: keys of pins that hold even where the device cannot run the op.
        rules: in order of priority; they do not apply to pinned ops.

    Raises:
        PinError: a pin names an unknown op or label, or devices that cannot run the op.
        UnsupportedOpError: an op has no allowed device; the message gives the reason of each device.
    """
    devices = tuple(devices)
    able = np.column_stack(
        [
            allowed_by_lists(graph, device) & capability.mask
            for device, capability in zip(devices, capabilities, strict=True)
        ]
    )
    able = able.reshape(len(graph), len(devices))
    pins = dict(pins or {})
    allowed = able.copy()
    pinned = np.zeros(len(graph), bool)
    pinned[[_op_of(graph, key) for key in pins]] = True
    by_rule, ruled = apply_rules(graph, devices, rules, ~graph.op_is_constant & ~pinned)
    allowed &= by_rule
    placed = (
        _placed(graph, pinned) if (pinned & graph.op_is_constant).any() else ~graph.op_is_constant
    )
    constraints = Constraints(
        graph, devices, able, allowed, placed, pins, forced, tuple(capabilities), ruled
    )
    labels = [
        as_text(label, f"the target of the pin of {key!r}", PinError) for key, label in pins.items()
    ]
    targets = {label: label_mask(label, devices) for label in set(labels)}
    refused: list[str] = []
    for key, label in pins.items():
        op = _op_of(graph, key)
        wanted = targets[label]
        row = able[op] & wanted
        if not row.any() and key in forced:
            row = wanted
        if not row.any():
            refused.append(_refusal(constraints, op, label, wanted))
        allowed[op] = row
    for pair in graph.state_pairs:
        if not (both := allowed[list(pair)].all(axis=0)).any():
            names = " and ".join(repr(graph.display_name(op)) for op in pair)
            refused.append(f"{names} read and set one state: no device may run both")
        allowed[list(pair)] = both
    if refused:
        more = f"\n… and {len(refused) - 10} more" if len(refused) > 10 else ""
        raise PinError("\n".join(refused[:10]) + more)
    _check_every_op_has_a_device(constraints)
    return constraints


def allowed_by_lists(graph: Graph, device: Device) -> Bools:
    """[op] whether supportedNodes and nonSupportedNodes of the device allow it; an empty list restricts nothing."""
    mask = np.ones(len(graph), bool)
    if device.supported:
        meanings = [_meaning(name, graph) for name in device.supported]
        mask &= np.array(
            [any(m.matches(graph, op) for m in meanings) for op in range(len(graph))], bool
        )
    for name in device.non_supported:
        meaning = _meaning(name, graph)
        mask &= np.array([not meaning.matches(graph, op) for op in range(len(graph))], bool)
    return mask


def _meaning(name: str, graph: Graph) -> OpName:
    # domain::Type names one op type of a domain; it need not occur in this model.
    return op_name(name, frozenset(graph.op_types)) or OpName(
        frozenset({name.partition("::")[2] or name})
    )


def _op_of(graph: Graph, key: str) -> int:
    op = graph.key_index.get(key)
    if op is not None:
        return op
    named = [graph.op_keys[i] for i, name in enumerate(graph.op_names) if name and name == key]
    if named:
        raise PinError(
            f"{key!r} is an op's name; pins use its key, the name of its first output: {named[0]!r}"
        )
    inner = graph.inner_op(key)
    if inner is not None:
        raise PinError(f"{key!r} is {inner.place(graph)}: pin {graph.op_keys[inner.owner]!r}")
    hint = did_you_mean(key, graph.op_keys, " (a key is the name of an op's first output)")
    raise PinError(f"no op with the key {key!r}{hint}")


def _refusal(constraints: Constraints, op: int, label: str, wanted: Bools) -> str:
    graph = constraints.graph
    reasons = "; ".join(
        f"{constraints.devices[d].name}: {constraints.inability(op, d)}"
        for d in np.flatnonzero(wanted).tolist()
    )
    return (
        f"op {graph.display_name(op)!r} ({graph.type_label(op)}) cannot run on {label}: {reasons}"
    )


def _placed(graph: Graph, pinned: Bools) -> Bools:
    """[op] whether it has a device of its own; pinned constants do, and constants computed from them."""
    placed = ~graph.op_is_constant | pinned
    for op in graph.order.tolist():
        if not placed[op]:
            placed[op] = bool(placed[graph.predecessors[op]].any())
    return placed


def _check_every_op_has_a_device(constraints: Constraints) -> None:
    graph = constraints.graph
    impossible = np.flatnonzero(constraints.placed & ~constraints.allowed.any(axis=1)).tolist()
    if not impossible:
        return
    lines = []
    for op in impossible[:10]:
        lines.append(
            f"op {graph.display_name(op)!r} ({graph.type_label(op)}) cannot run on any device:"
        )
        lines += [
            f"  {device.name}: {constraints.reason(op, d)}"
            for d, device in enumerate(constraints.devices)
        ]
    if len(impossible) > 10:
        lines.append(f"… and {len(impossible) - 10} more ops")
    lines.append(
        f"Add a device that can run them, or shorten {KEYS['nonSupportedNodes'].words} of one."
    )
    if domains := sorted({graph.op_domains[op] for op in impossible} - {"", *_LIBRARY_FREE}):
        lines.append(
            f"Ops of {', '.join(domains)} come from a library that ONNX Runtime must know: --custom-ops LIBRARY registers it "
            "(a file, or onnxruntime-extensions)."
        )
    if graph.define:
        sizes = ", ".join(f"{name}={size}" for name, size in graph.define.items())
        lines.append(
            f"Or the model does not take these sizes of its inputs: {sizes} (--define changes them)."
        )
    raise UnsupportedOpError("\n".join(lines))
