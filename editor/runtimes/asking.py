"""Finds out which ops a device can run: from what is known already, else by trying them in a process of its own.

A driver that crashes or hangs is the reason why its device cannot run an op. After a crash ops are tried one at a time,
so that the one that is at fault is known, and the others keep their device.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from editor import limits
from editor.devices.device import Device
from editor.errors import ExecutionError, ModelError
from editor.files import file_state
from editor.graph.flops import op_bytes, op_flops
from editor.graph.graph import Graph
from editor.isolated import IsolatedProcess, ProcessEndedError
from editor.runtimes.answers import Answers
from editor.runtimes.base import Capability, Runtime
from editor.runtimes.probe import Group, ProbeModels, ask
from editor.runtimes.trial import Fragment, Verdict, judge
from editor.runtimes.whole_model import refusals_of_whole, whole_model

TRY_SECONDS = 1.5
"""To run ops, per model and device; of the rest the runtime's claim is believed."""
_ANSWER_SECONDS = 12.0
"""Until a process that tries many ops counts as hung."""
_SINGLE_SECONDS = 5.0
_ALL_SECONDS = 20.0
"""For one device of a model, crashes included."""
_SHARE_FOR_WHOLE = 0.6
"""Of the limit of time, for a device that is asked about the whole model at once; it has to compile all of it."""
_MAX_FLOPS = 1e9
_MAX_BYTES = 32 << 20
_MAX_OPERANDS = 256
"""Largest op that is run; of larger ones the runtime's claim is believed."""

_lock = threading.Lock()
_process: IsolatedProcess | None = None
_report: list[Callable[[str], None]] = []


def on_asking(report: Callable[[str], None]) -> None:
    """From now on ``report`` is told who is asked, before a device is asked about ops that it has not been asked about."""
    _report[:] = [report]


def capability_of(graph: Graph, runtime: Runtime, device: Device) -> Capability:
    """The ops of a graph that a device can run.

    Raises:
        ExecutionError: the runtime is not installed.
    """
    if not runtime.is_tried(device):
        return Capability.of_reasons(ask(graph, lambda model: runtime.refusal(model, device)))
    probe = ProbeModels.of(graph)
    reasons, groups = probe.sound_groups()
    answers = Answers.of(device)
    if runtime.depends_on_neighbours(device):
        whole = _as_a_whole(graph, device, answers)
        return Capability.of_reasons([own or (whole if isinstance(whole, str) else whole.get(op, ""))
                                      for op, own in enumerate(reasons)])
    keys = [probe.key(group.example) for group in groups]
    verdicts = [answers.get(key) for key in keys]
    open_groups = [i for i, verdict in enumerate(verdicts) if verdict is None]
    if open_groups:
        if _report:
            _report[0](f"asking {device.name} ({device.title}) about {len(open_groups)} kinds of ops")
        try:
            with _lock:
                found = _Trial(graph, device).verdicts(probe, [groups[i] for i in open_groups])
        except ExecutionError:  # another package's, which this process knows and a fresh one does not
            return Capability.of_reasons(ask(graph, lambda model: runtime.refusal(model, device)))
        if not runtime.memory_space(device).is_host:  # the process would keep some of the memory of the device
            _isolated(0).close()
        for i, verdict in zip(open_groups, found, strict=True):
            verdicts[i] = verdict
        answers.add({keys[i]: verdict for i, verdict in zip(open_groups, found, strict=True) if verdict.final})
    for group, known in zip(groups, verdicts, strict=True):
        for op in group.ops:
            reasons[op] = known.reason if known else ""
    return Capability.of_reasons(reasons)


def _as_a_whole(graph: Graph, device: Device, answers: Answers) -> Mapping[int, str] | str:
    """Op -> why the device leaves it to others; or why nothing is known about any op."""
    try:
        model = whole_model(graph)
    except ModelError as error:
        return f"{device.title} can be asked about whole models only: {error}"
    key = f"whole:{hashlib.sha256(model).hexdigest()[:32]}"
    known = answers.get(key)
    if known is None:
        if _report:
            _report[0](f"asking {device.name} ({device.title}) about the whole model")
        limit = limits.current()
        seconds, memory = limit.seconds * _SHARE_FOR_WHOLE, limit.bytes_for(len(model))
        try:
            with _lock:
                answer = _isolated(memory).call(seconds, refusals_of_whole, device, model)
        except ExecutionError:  # another package's, which this process knows and a fresh one does not
            answer = refusals_of_whole(device, model)
        except ProcessEndedError as error:
            answer = f"{device.title} {error}, with the whole model"
        known = Verdict(json.dumps(answer))
        answers.add({key: known})
    stored = json.loads(known.reason)
    return stored if isinstance(stored, str) else {int(op): str(reason) for op, reason in stored.items()}


class _Trial:
    """Tries the ops of one graph on one device."""

    def __init__(self, graph: Graph, device: Device) -> None:
        self.graph, self.device = graph, device
        self.end = time.monotonic() + _ALL_SECONDS
        self.memory = limits.current().bytes_for((file_state(graph.path) or (0, 0))[1])

    def verdicts(self, probe: ProbeModels, groups: Sequence[Group]) -> list[Verdict]:
        """[group] what came of it."""
        flops, moved = op_flops(self.graph), op_bytes(self.graph)
        constant = self.graph.op_is_constant  # these are folded before anything runs
        few = np.diff(self.graph.op_inputs.ptr) <= _MAX_OPERANDS
        small = (flops <= _MAX_FLOPS) & (moved >= 0) & (moved <= _MAX_BYTES) & few & ~constant
        fragments = [Fragment(probe.model([g.example]).SerializeToString(), bool(small[g.example]),
                              float(flops[g.example])) for g in groups]
        try:
            return self._call(fragments, _ANSWER_SECONDS)
        except ProcessEndedError:  # one of them is at fault
            return [self._alone(fragment) for fragment in fragments]

    def _alone(self, fragment: Fragment) -> Verdict:
        left = self.end - time.monotonic()
        if left <= 0:
            return Verdict(f"{self.device.title} was not tried: other ops crashed it or made it hang", final=False)
        try:
            return self._call([fragment], min(_SINGLE_SECONDS, left))[0]
        except ProcessEndedError as error:
            return Verdict(f"{self.device.title} {error}")

    def _call(self, fragments: Sequence[Fragment], seconds: float) -> list[Verdict]:
        return _isolated(self.memory).call(seconds, judge, self.device, fragments, TRY_SECONDS)


def _isolated(memory: int) -> IsolatedProcess:
    """The process that tries ops for this one; its imports take most of a second, so it is kept."""
    global _process
    if _process is None:
        _process = IsolatedProcess(memory)
    _process.memory = memory
    return _process
