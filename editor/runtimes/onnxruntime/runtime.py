"""ONNX Runtime with any execution provider that is installed.

The library is imported when it is first needed: names can be resolved without it.
"""

from __future__ import annotations

from collections.abc import Sequence

from onnx import ModelProto

from editor.devices.device import Device
from editor.devices.discovery import AvailableDevice, Target, is_present
from editor.devices.hardware import cpu_name
from editor.graph.graph import Graph
from editor.runtimes.base import (
    Capability,
    CompileOptions,
    Executable,
    KernelTime,
    MemorySpace,
    SubModel,
    Value,
)
from editor.runtimes.defaults import RuntimeDefaults
from editor.runtimes.onnxruntime import providers
from editor.runtimes.onnxruntime.providers import CPU, CUDA, LEVEL_LABELS, NAME, NOT_A_DEVICE, PROVIDER_NAMES
from editor.runtimes.probe import ask

_CPU_NAMES = frozenset({"cpu", "onnxruntime", "ort", "cpuexecutionprovider", "host"})
_OTHER_GPUS = ("ROCMExecutionProvider", "DmlExecutionProvider")


class OnnxRuntime(RuntimeDefaults):
    """Capability from sessions created with optimization off; execution with values bound, not copied."""

    name = NAME
    title = "ONNX Runtime"

    def devices(self) -> Sequence[AvailableDevice]:
        """The installed execution providers."""
        import onnxruntime

        hardware = {CPU: cpu_name()}
        return [AvailableDevice(PROVIDER_NAMES.get(p, p), NAME, p, onnxruntime.__version__, hardware.get(p, ""), self.title)
                for p in reversed(onnxruntime.get_available_providers()) if p not in NOT_A_DEVICE]

    def resolve(self, name: str, provider: str) -> Target | None:
        """``CPU``, ``GPU``, ``GPU.1``, ``CUDA``, names of providers, and any name with an explicit provider."""
        low = name.lower()
        base, _, unit = low.partition(".")
        if provider:
            known = provider.lower() in (*(p.lower() for p in PROVIDER_NAMES), *(p.lower() for p in PROVIDER_NAMES.values()))
            return self._target(provider) if known or provider.lower().endswith("executionprovider") or base == NAME else None
        if low in _CPU_NAMES:
            return self._target(CPU)
        if base in ("gpu", "cuda") and (not unit or unit.isdigit()):
            return self._gpu(base)
        found = next((p for p, short in PROVIDER_NAMES.items() if low in (p.lower(), short.lower())), None)
        return self._target(found) if found else None

    def _gpu(self, base: str) -> Target:
        if not is_present(NAME, CUDA) and base == "gpu":
            for candidate in _OTHER_GPUS:
                if is_present(NAME, candidate):
                    return self._target(candidate, preference=1)
        return self._target(CUDA)

    def _target(self, provider: str, preference: int = 0) -> Target:
        exact = next((p for p in PROVIDER_NAMES if p.lower() == provider.lower()), provider)
        short = PROVIDER_NAMES.get(exact, exact)
        title = f"{self.title}, {exact.removesuffix('ExecutionProvider')}"
        return Target(NAME, exact, is_present(NAME, exact), LEVEL_LABELS.get(short, short), title, preference=preference)

    def capability(self, graph: Graph, device: Device) -> Capability:
        """Asks by creating sessions of single ops and reading which provider each was given to."""
        return Capability.of_reasons(ask(graph, lambda model: self._refusal(model, device)))

    def _refusal(self, model: ModelProto, device: Device) -> str:
        import onnxruntime as ort

        from editor.runtimes.onnxruntime.errors import reason_of
        from editor.runtimes.onnxruntime.options import session_options

        options = session_options(optimize=False, entries={"session.record_ep_graph_assignment_info": "1"})
        try:
            session = ort.InferenceSession(model.SerializeToString(), options, providers=providers.provider_list(device))
        except Exception as error:  # noqa: BLE001  # ONNX Runtime's errors have no base class of their own
            return reason_of(error)
        for part in session.get_provider_graph_assignment_info():
            if part.ep_name == device.provider:
                continue
            for node in part.get_nodes():
                if node.op_type != "ConstantOfShape" or node.name:  # the probe's own fillers have no name
                    return f"{device.provider} leaves {node.op_type} to {part.ep_name}"
        return ""

    def compile(self, submodel: SubModel, device: Device, options: CompileOptions) -> Executable:
        """Creates a session."""
        from editor.runtimes.onnxruntime.session import compile_session

        return compile_session(submodel, device, options)

    def memory_space(self, device: Device) -> MemorySpace:
        """The provider's memory where values can stay in it, else host memory."""
        return providers.memory_space(device)

    def convert(self, value: Value, space: MemorySpace) -> Value:
        """An ``OrtValue``; plain arrays stay arrays where they are to lie in host memory."""
        import numpy as np

        from editor.runtimes.onnxruntime.values import can_be_ort_value, to_ort
        from editor.runtimes.values import to_numpy

        if isinstance(value, np.ndarray) and space.is_host:
            return value
        return to_ort(value, space) if can_be_ort_value(value) else to_numpy(value)

    def profile(self, graph: Graph, submodel: SubModel, device: Device, inputs: Sequence[Value], seconds: float,
                threads: int) -> list[KernelTime]:
        """From the runtime's own profiler; see ``profiling``."""
        from editor.runtimes.onnxruntime.profiling import kernel_times

        return kernel_times(graph, submodel, device, inputs, seconds, threads)

    def precision(self, device: Device) -> str:
        """CUDA computes float32 in TF32 unless told otherwise."""
        return "tf32" if device.provider == CUDA and device.properties.get("use_tf32", "1") != "0" else ""

    def runs_optimized_graphs(self, device: Device) -> bool:
        """The CPU provider with default settings."""
        return device.provider == CPU and not device.properties
