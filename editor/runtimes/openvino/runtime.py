"""The runtime OpenVINO, and the properties that its devices take."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

from onnx import ModelProto, NodeProto

from editor.devices.device import Device, Property
from editor.devices.discovery import AvailableDevice, Target, is_present
from editor.graph.graph import Graph
from editor.runtimes.base import (
    NOT_ASKED,
    Capability,
    CompileOptions,
    KernelTime,
    MemoryOverhead,
    MemorySpace,
    SubModel,
    Value,
)
from editor.runtimes.loaded_model import RuntimeDefaults
from editor.runtimes.protocols import Executable

PROPERTIES = (
    Property(
        "INFERENCE_PRECISION_HINT",
        "word",
        "f32, f16, bf16 or dynamic: the type that float32 is computed in",
    ),
    Property("EXECUTION_MODE_HINT", "word", "PERFORMANCE or ACCURACY"),
    Property("PERFORMANCE_HINT", "word", "LATENCY, THROUGHPUT or CUMULATIVE_THROUGHPUT"),
    Property("PERFORMANCE_HINT_NUM_REQUESTS", "number", "runs in flight to plan for"),
    Property("NUM_STREAMS", "word", "streams, or AUTO"),
    Property("INFERENCE_NUM_THREADS", "number", "threads"),
    Property("ENABLE_CPU_PINNING", "switch", "bind threads to processors"),
    Property("ENABLE_CPU_RESERVATION", "switch", "reserve processors"),
    Property("ENABLE_HYPER_THREADING", "switch", "use both threads of a core"),
    Property("SCHEDULING_CORE_TYPE", "word", "ANY_CORE, PCORE_ONLY or ECORE_ONLY"),
    Property("MODEL_DISTRIBUTION_POLICY", "word", "TENSOR_PARALLEL or PIPELINE_PARALLEL"),
    Property("MODEL_PRIORITY", "word", "LOW, MEDIUM or HIGH"),
    Property("PERF_COUNT", "switch", "measure layers"),
    Property("CPU_DENORMALS_OPTIMIZATION", "switch", "treat denormal numbers as zero"),
    Property(
        "CPU_SPARSE_WEIGHTS_DECOMPRESSION_RATE",
        "number",
        "from which share of zeros weights are packed",
    ),
    Property("ENABLE_TENSOR_PARALLEL", "switch", "divide tensors over sockets"),
    Property("TBB_PARTITIONER", "word", "STATIC or AUTO"),
    Property(
        "DYNAMIC_QUANTIZATION_GROUP_SIZE",
        "number",
        "values that share a scale; 0 switches it off, and is the default on a CPU whose precision is not chosen",
    ),
    Property("KV_CACHE_PRECISION", "word", "type of the cache"),
    Property("KEY_CACHE_PRECISION", "word", "type of its keys"),
    Property("VALUE_CACHE_PRECISION", "word", "type of its values"),
    Property("KEY_CACHE_GROUP_SIZE", "number", "keys that share a scale"),
    Property("VALUE_CACHE_GROUP_SIZE", "number", "values that share a scale"),
    Property("ACTIVATIONS_SCALE_FACTOR", "number", "scale against overflow in float16"),
    Property("DEVICE_ID", "word", "which device of the kind"),
    Property("GPU_HOST_TASK_PRIORITY", "word", "LOW, MEDIUM or HIGH"),
    Property("GPU_QUEUE_PRIORITY", "word", "LOW, MEDIUM or HIGH"),
    Property("GPU_QUEUE_THROTTLE", "word", "LOW, MEDIUM or HIGH"),
    Property("GPU_ENABLE_LOOP_UNROLLING", "switch", "unroll loops"),
    Property("NPU_COMPILER_TYPE", "word", "DRIVER or PLUGIN"),
    Property("NPU_TURBO", "switch", "highest clock"),
    Property("NPU_TILES", "number", "tiles"),
    Property("NPU_USE_NPUW", "switch", "use the NPU wrapper"),
    Property("NPUW_DEVICES", "names", "devices of the NPU wrapper, in order"),
)


NAME = "openvino"
OTHER_NAMES = frozenset(
    {"npu", "myriad", "hddl", "gna", "vpu", "keembay", "multi", "batch", "auto"}
)
"""Names without ``OpenVINO.`` that it resolves where it has such a device."""
_CPU_OVERHEAD = MemoryOverhead(
    weight_copies=2.2,
    tensor_copies=0.93,
    shares_tensors=False,
    bytes_per_op=25_000,
    bytes_per_subgraph=1_400_000,
    first_bytes=1_400_000,
)
_PRECISION = "INFERENCE_PRECISION_HINT"
_LOW_PRECISION = frozenset({"bf16", "f16"})


class OpenVino(RuntimeDefaults):
    """Capability from ``Core.query_model``; execution by infer requests with preset tensors."""

    name = NAME
    title = "OpenVINO"
    formats = ("onnx", "openvino")

    def devices(self) -> Sequence[AvailableDevice]:
        """What OpenVINO reports."""
        from editor.runtimes.openvino.request import core

        version = importlib.metadata.version("openvino")
        return [
            AvailableDevice(
                f"OpenVINO.{name}",
                NAME,
                name,
                version,
                str(core().get_property(name, "FULL_DEVICE_NAME")),
                self.title,
            )
            for name in core().available_devices
        ]

    def properties(self, provider: str) -> Sequence[Property]:
        """The same for all devices; a device refuses those that it lacks."""
        return PROPERTIES

    def resolve(self, name: str, provider: str) -> Target | None:
        """``OpenVINO``, ``OpenVINO.GPU``; ``GPU``, ``NPU`` and the like where it has them."""
        base, _, unit = name.partition(".")
        if base.lower() == NAME:
            return self._target((provider or unit or "CPU").upper())
        if provider:
            return None
        if base.lower() in OTHER_NAMES or (base.lower() == "gpu" and (not unit or unit.isdigit())):
            target = self._target(name.upper())
            return target if target.present else None
        return None

    def _target(self, device: str) -> Target:
        return Target(
            NAME,
            device,
            is_present(NAME, device),
            device.partition(".")[0],
            f"{self.title}, {device}",
        )

    def capability(self, graph: Graph, device: Device) -> Capability:
        """Tries single ops; some faults only show where ops meet. Of its own layers it is the measure."""
        if not graph.is_onnx:
            return Capability.of_reasons(_kept_refusals(graph, device))
        return super().capability(graph, device).without(compared_with_infinity(graph))

    def refusal(self, model: ModelProto, device: Device) -> str:
        """Asks ``query_model``."""
        from editor.runtimes.openvino.request import core, reason_of

        inputs = {value.name for value in model.graph.input}
        if any(_pads_with(node, inputs) for node in model.graph.node):
            return f"OpenVINO {device.provider} pads with 0 instead of a value that is only known in a run"
        if any(node.op_type == "DynamicQuantizeLSTM" for node in model.graph.node):
            return f"OpenVINO {device.provider} computes DynamicQuantizeLSTM in float, without its rounding to 8 bits"
        try:
            read = core().read_model(model.SerializeToString())
            supported = core().query_model(read, device.provider)
        except Exception as error:  # noqa: BLE001  # OpenVINO raises RuntimeError and others for one and the same cause
            return reason_of(error)
        for op in read.get_ordered_ops():
            if op.get_friendly_name() in supported:
                continue
            if op.get_type_name() == "Parameter":
                return f"OpenVINO {device.provider} does not take an operand of unknown rank"
            return f"OpenVINO {device.provider} has no implementation of {op.get_type_name()}"
        return ""

    def compile(self, submodel: SubModel, device: Device, options: CompileOptions) -> Executable:
        """Compiles in 32-bit precision unless the device table states another precision."""
        from editor.runtimes.openvino.request import compile_model

        return compile_model(submodel, device, options)

    def memory_space(self, device: Device) -> MemorySpace:
        """Tensors of OpenVINO pass between its devices of one kind."""
        return MemorySpace(NAME, device.provider.lower() if device.provider != "CPU" else "cpu")

    def memory_overhead(self, device: Device) -> MemoryOverhead:
        """Of the CPU: weights as they came beside those in the layout of the kernels, and compiled kernels."""
        return _CPU_OVERHEAD if device.provider == "CPU" else MemoryOverhead()

    def convert(self, value: Value, space: MemorySpace) -> Value:
        """An ``openvino.Tensor``; raises ``TypeError`` for element types that OpenVINO lacks."""
        from editor.runtimes.openvino.request import to_openvino

        return to_openvino(value)

    def profile(
        self,
        graph: Graph,
        submodel: SubModel,
        device: Device,
        inputs: Sequence[Value],
        seconds: float,
        threads: int,
    ) -> list[KernelTime]:
        """From the runtime's performance counters; see ``profiling``."""
        from editor.runtimes.openvino.request import kernel_times

        return kernel_times(graph, submodel, device, inputs, seconds, threads)

    def precision(self, device: Device) -> str:
        """What the table sets."""
        hint = device.properties.get(_PRECISION, "").lower()
        return hint if hint in _LOW_PRECISION else ""

    def precision_note(self, device: Device) -> str:
        """CPUs that have it would compute in bf16, GPUs in f16."""
        from editor.runtimes.openvino.request import core

        if _PRECISION in device.properties:
            return ""
        try:
            kind = core().get_property(device.provider, _PRECISION).get_type_name()
        except Exception:  # noqa: BLE001  # OpenVINO raises RuntimeError and others; not all of its devices have the property
            return ""
        return (
            f"OpenVINO computes float32 as float32 here, so that outputs can be compared; by itself it would compute in "
            f"{kind}, which may be faster ({_PRECISION} in the properties of {device.name} chooses)"
            if kind in _LOW_PRECISION
            else ""
        )


def _kept_refusals(graph: Graph, device: Device) -> list[str]:
    """[op] why a device does not run a layer of an IR; kept, because the whole model is read for the answer."""
    from editor.runtimes.capability import Answers, OpCheck  # which imports the registry
    from editor.runtimes.openvino.request import refused_layers

    identity = repr((graph.sha256, sorted(graph.sizes.items())))
    key = f"layers:{hashlib.sha256(identity.encode()).hexdigest()[:32]}"
    answers = Answers.of(device)
    known = answers.get(key)
    if known is None:
        found = {
            str(op): reason for op, reason in enumerate(refused_layers(graph, device)) if reason
        }
        known = OpCheck(json.dumps(found))
        if not any(reason.startswith(NOT_ASKED) for reason in found.values()):
            answers.add({key: known})
    refused = json.loads(known.reason)
    return [refused.get(str(op), "") for op in range(len(graph))]


def _pads_with(node: NodeProto, inputs: AbstractSet[str]) -> bool:
    """A ``Pad`` whose value is a graph input: OpenVINO 2026.4 compiles it, and pads with 0."""
    mode = next((a.s for a in node.attribute if a.name == "mode"), b"constant")
    return (
        node.op_type == "Pad"
        and mode == b"constant"
        and len(node.input) > 2
        and node.input[2] in inputs
    )


_REDUCES, _COMPARES = frozenset({"ReduceMax", "ReduceMin"}), frozenset({"Equal", "IsInf"})


def compared_with_infinity(graph: Graph) -> list[str]:
    """[op] why not, or "": OpenVINO 2026.4 computes the largest of nothing but -inf as the lowest finite number.

    That matters where the result is compared for equality, as in masks of attention.
    """
    reasons = [""] * len(graph)
    for op, kind in enumerate(graph.op_types):
        if kind in _REDUCES:
            readers = {
                graph.op_types[reader] for reader in graph.successors[op].tolist()
            } & _COMPARES
            if readers:
                reasons[op] = (
                    f"OpenVINO computes {kind} of nothing but infinities as a finite number, and "
                    f"{min(readers)} compares the result"
                )
    return reasons


def openvino_device(device: Device) -> str:
    """Returns the name that OpenVINO gives a device, "" when it is not one of its own."""
    return device.provider if device.runtime == NAME else ""


def read_problem(path: Path) -> str:
    """Why OpenVINO cannot read a model file; "" where it can."""
    from editor.runtimes.openvino.request import core, reason_of

    try:
        core().read_model(path)
    except Exception as error:  # noqa: BLE001  # OpenVINO raises RuntimeError and others for one and the same cause
        return reason_of(error)
    return ""
