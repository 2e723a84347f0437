"""A sub-model as an infer request with preset tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from editor.devices.device import Device
from editor.errors import ExecutionError
from editor.runtimes.base import CompileOptions, Executable, Signature, SubModel, Value
from editor.runtimes.compile_cache import compile_folder, trim
from editor.runtimes.openvino.errors import reason_of
from editor.runtimes.openvino.model_import import core, read_model
from editor.runtimes.openvino.values import to_openvino


def compile_model(submodel: SubModel, device: Device, options: CompileOptions, extra: Mapping[str, str] | None = None,
                  model: Any = None) -> Request:
    """Compiles in 32-bit precision unless the device table states another precision.

    On CPUs that have bf16 OpenVINO would use it by default, and results could not be compared.

    Args:
        submodel: the sub-model.
        device: where it is to run.
        options: the same for every runtime.
        extra: properties of OpenVINO that win over all others.
        model: the sub-model, imported already.

    Raises:
        ExecutionError: OpenVINO refuses the sub-model.
    """
    properties: dict[str, Any] = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    if options.threads and device.provider.startswith("CPU"):
        properties["INFERENCE_NUM_THREADS"] = options.threads
    folder = compile_folder(device.runtime) if options.keep and not extra else None
    if folder is not None:
        properties["CACHE_DIR"] = str(folder)
    properties |= {**device.properties, **(extra or {})}
    try:
        compiled = core().compile_model(read_model(submodel) if model is None else model, device.provider, properties)
    except Exception as error:  # OpenVINO raises RuntimeError and others for one and the same cause
        raise ExecutionError(f"{submodel.label} on {device.name}: {reason_of(error)}") from error
    if folder is not None:
        trim(folder)
    return Request(compiled, submodel.signature, device)


class Request:
    """One infer request of a compiled model."""

    def __init__(self, compiled: Any, signature: Signature, device: Device) -> None:
        self.compiled, self.signature, self.device = compiled, signature, device
        self.request = compiled.create_infer_request()
        self._held: list[Value] = []
        self._input_ports = _ports(list(compiled.inputs), signature.inputs)
        self._output_ports = list(compiled.outputs)

    def run(self, inputs: Sequence[Value]) -> list[Value]:
        """Runs the request; outputs are the request's own tensors."""
        try:
            # Outputs of ops that compute nothing (Dropout, Identity) are views of the inputs, so these must live on.
            self._held = [to_openvino(value) for value in inputs]
            for port, tensor in zip(self._input_ports, self._held, strict=True):
                if port is not None:
                    self.request.set_tensor(port, tensor)
            self.request.infer()
            return [self.request.get_tensor(port) for port in self._output_ports]
        except Exception as error:  # OpenVINO raises RuntimeError and others for one and the same cause
            raise ExecutionError(f"{self.signature.label} on {self.device.name}: {reason_of(error)}") from error

    def clone(self) -> Executable:
        """Another request on the same compiled model."""
        return Request(self.compiled, self.signature, self.device)


def _ports(ports: list[Any], names: Sequence[str]) -> list[Any]:
    """The port of each input, None for one that OpenVINO dropped on import because nothing reads it.

    Ports keep the order of the model. Names help only where ports are missing: an input that is passed
    straight to an output loses its own.
    """
    if len(ports) == len(names):
        return ports
    by_name = {name: port for port in ports for name in port.get_names()}
    return [by_name.get(name) for name in names]
