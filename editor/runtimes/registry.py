"""Which runtime serves a device, and what each device can run."""

from __future__ import annotations

from functools import cache

from editor.devices.device import STAND_IN, Device
from editor.devices.table import load_devices
from editor.errors import ExecutionError
from editor.graph.graph import Graph
from editor.runtimes.base import Capability, Runtime

_answers: dict[tuple[object, ...], Capability] = {}
_MAX_ANSWERS = 64


@cache
def runtime_of(name: str) -> Runtime:
    """The runtime by its name; it is imported on first use.

    Raises:
        ExecutionError: there is no such runtime on this machine.
    """
    try:
        if name == "onnxruntime":
            from editor.runtimes.onnxruntime import OnnxRuntime
            return OnnxRuntime()
        if name == "openvino":
            from editor.runtimes.openvino import OpenVino
            return OpenVino()
        if name == "interpreter":
            from editor.runtimes.interpreter import Interpreter
            return Interpreter()
        if name == "tvm":
            from editor.runtimes.tvm import Tvm
            return Tvm()
    except ImportError as error:
        raise ExecutionError(f"the runtime {name} is not installed ({error})") from error
    raise ExecutionError(f"there is no runtime {name!r}")


def capability(graph: Graph, device: Device) -> Capability:
    """What a device can run; asked once per model and device."""
    if device.planned:
        return Capability.everything(graph)
    key = (graph.sha256, tuple(sorted(graph.define.items())), device.runtime, device.provider,
           tuple(sorted(device.properties.items())))
    if key not in _answers:
        if len(_answers) >= _MAX_ANSWERS:
            _answers.pop(next(iter(_answers)))
        _answers[key] = runtime_of(device.runtime).capability(graph, device)
    return _answers[key]


@cache
def stand_in() -> Device:
    """The real device that runs the subgraphs of planned ones."""
    runtime, _, provider = STAND_IN.partition(":")
    return load_devices([{"name": "stand-in", "backendName": runtime, "provider": provider}])[0]
