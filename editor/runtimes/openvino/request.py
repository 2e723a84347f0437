"""Runs a sub-model as an infer request with preset tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import openvino as ov
from onnx import TensorProto

from editor.devices.device import Device
from editor.errors import ExecutionError
from editor.runtimes.base import CompileOptions, Signature, SubModel, Value, summarize_error
from editor.runtimes.compile_cache import compile_folder, trim
from editor.runtimes.openvino.model_import import core, read_model
from editor.runtimes.protocols import Executable
from editor.runtimes.values import (
    CODES,
    EXTENSIONS,
    ValueReader,
    pack,
    register_value_type,
    to_numpy,
    unpack,
)

_NO_RULE = "No conversion rule found for operations:"


def reason_of(error: BaseException) -> str:
    """The cause of an error, shortened for display."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    rule = next((line for line in lines if _NO_RULE in line), None)
    if rule is not None:
        return f"OpenVINO: no conversion rule for {rule.partition(_NO_RULE)[2].strip()}"
    if len(lines) > 1 and lines[0].startswith(("Check '", "Exception from")):
        return f"OpenVINO: {summarize_error(type(error)(lines[-1]))}"  # the place comes first and the cause last
    return f"OpenVINO: {summarize_error(error)}"


_TYPE_NAMES: dict[int, str] = {
    TensorProto.BFLOAT16: "bf16",
    TensorProto.FLOAT8E4M3FN: "f8e4m3",
    TensorProto.FLOAT8E5M2: "f8e5m2",
    TensorProto.FLOAT8E8M0: "f8e8m0",
    TensorProto.FLOAT4E2M1: "f4e2m1",
    TensorProto.UINT4: "u4",
    TensorProto.INT4: "i4",
    TensorProto.UINT2: "u2",
}
"""OpenVINO's names of the element types that numpy lacks; it has no others."""
_CODES = {name: code for code, name in _TYPE_NAMES.items()}


def to_openvino(value: Value) -> Value:
    """An ``openvino.Tensor`` that shares the memory where it is contiguous and writable.

    Raises:
        TypeError: OpenVINO has no such element type.
    """
    if type(value) is ov.Tensor:
        return value
    array = np.asarray(to_numpy(value))
    code = CODES.get(array.dtype)
    if code is not None:
        name = _TYPE_NAMES.get(code)
        if name is None:
            raise TypeError(f"OpenVINO has no element type {array.dtype.name}")
        made = ov.Tensor(getattr(ov.Type, name), ov.Shape(array.shape))
        if array.size:
            made.data.reshape(-1).view(np.uint8)[:] = pack(
                np.ascontiguousarray(array), EXTENSIONS[code][1]
            )
        return made
    if array.dtype.kind in "OUS":
        return ov.Tensor(array.astype(str))
    array = array.view(np.dtype(array.dtype.str))  # OpenVINO does not know C's long long as int64
    if array.ndim == 0 or not array.flags.c_contiguous or not array.flags.writeable:
        array = np.array(array, order="C")
    return ov.Tensor(array, shared_memory=array.ndim > 0 and array.size > 0)


def _to_numpy(value: Any) -> Value:
    name = value.element_type.get_type_name()
    if name == "string":
        return value.str_data.astype(object)
    code = _CODES.get(name)
    if code is None:
        return value.data
    return unpack(np.array(value.data).reshape(-1).view(np.uint8), code, tuple(value.shape))


def _is_array(value: Any) -> bool:
    name = value.element_type.get_type_name()
    return name != "string" and name not in _CODES


def _host_view(value: Any) -> npt.NDArray[Any] | None:
    return value.data if _is_array(value) else None


register_value_type(
    ov.Tensor, ValueReader(_to_numpy, lambda value: int(value.byte_size), _is_array, _host_view)
)


def compile_model(
    submodel: SubModel,
    device: Device,
    options: CompileOptions,
    extra: Mapping[str, str] | None = None,
    model: Any = None,
) -> Request:
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
        compiled = core().compile_model(
            read_model(submodel) if model is None else model, device.provider, properties
        )
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
        except (
            Exception
        ) as error:  # OpenVINO raises RuntimeError and others for one and the same cause
            raise ExecutionError(
                f"{self.signature.label} on {self.device.name}: {reason_of(error)}"
            ) from error

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
