"""ONNX Runtime with any execution provider that is installed.

The library is imported when it is first needed: names can be resolved without it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

from onnx import ModelProto

from editor.devices.device import Device, Property
from editor.devices.discovery import (
    AvailableDevice,
    Target,
    UnusableRuntime,
    devices_of_runtime,
    unusable_parts,
)
from editor.environment import LIBRARIES
from editor.graph.graph import Graph
from editor.runtimes.base import (
    CompileOptions,
    KernelTime,
    MemoryOverhead,
    MemorySpace,
    SubModel,
    Value,
)
from editor.runtimes.loaded_model import RuntimeDefaults
from editor.runtimes.onnxruntime import providers
from editor.runtimes.onnxruntime.properties import BY_PROVIDER, EVERY_PROVIDER
from editor.runtimes.onnxruntime.providers import (
    CPU,
    CUDA,
    LEVEL_LABELS,
    NAME,
    PROVIDER_NAMES,
    SELECTS_BY_UNIT,
    TITLE,
    full_name,
    short_name,
)
from editor.runtimes.protocols import Executable

_CPU_OVERHEAD = MemoryOverhead(weight_copies=1.09, tensor_copies=1.13, bytes_per_op=7_400)
_CUDA_OVERHEAD = MemoryOverhead(
    tensor_copies=2.0, bytes_per_subgraph=77_000_000, first_bytes=20_000_000, host_bytes=350_000_000
)
"""On an H100, with one run at a time: each session has a cuBLAS and a cuDNN with workspaces; libraries keep kernels in host
memory, 100 MB less where nothing needs cuDNN's"""


class OnnxRuntime(RuntimeDefaults):
    """Capability from sessions created with optimization off; execution with values bound, not copied."""

    name = NAME
    title = TITLE
    loads_custom_ops = True

    def devices(self) -> Sequence[AvailableDevice]:
        """Built-in providers, each GPU of CUDA, and devices of plugins."""
        from editor.runtimes.onnxruntime.device_list import available

        return available()

    def properties(self, provider: str) -> Sequence[Property]:
        """Options of the provider and of sessions."""
        if not provider:
            return list(dict.fromkeys(chain.from_iterable(BY_PROVIDER.values())))
        return BY_PROVIDER.get(provider, EVERY_PROVIDER)

    def unusable(self) -> Sequence[UnusableRuntime]:
        """Plugins that are installed but cannot be used."""
        from editor.runtimes.onnxruntime.device_list import unusable

        return unusable()

    def resolve(self, name: str, provider: str) -> Target | None:
        """``CPU``, ``GPU``, ``GPU.1``, ``CUDA``, ``WebGPU``, names of providers, and any name with an explicit provider."""
        return target_of_name(name, provider)

    def resolve_library(self, library: str, provider: str) -> Target | None:
        """A local build of a plugin."""
        return library_target(library, full_name(provider) if provider else "")

    def is_tried(self, device: Device) -> bool:
        """All but the CPU provider, whose results are the measure for others."""
        return device.provider != CPU

    def depends_on_neighbours(self, device: Device) -> bool:
        """Providers that compile quantised subgraphs."""
        return device.provider in providers.DEPEND_ON_NEIGHBOURS

    def refusal(self, model: ModelProto, device: Device) -> str:
        """Creates a session, and reads which provider each op was given to."""
        found = self.refusals(model, device)
        return found if isinstance(found, str) else next(iter(found.values()), "")

    def refusals(self, model: ModelProto, device: Device) -> Mapping[str, str] | str:
        """A session says it of all nodes at once."""
        from editor.runtimes.onnxruntime.options import reason_of

        try:
            return self._given_away(model, device)
        except Exception as error:  # noqa: BLE001  # ONNX Runtime's errors have no base class of their own
            return reason_of(error)

    def _given_away(self, model: ModelProto, device: Device) -> dict[str, str]:
        """Reasons by the names of nodes; raises whatever ONNX Runtime raises."""
        import onnxruntime as ort

        from editor import custom_ops
        from editor.runtimes.onnxruntime.options import session_options
        from editor.runtimes.onnxruntime.session import RECORD, create_session, refused_ops

        options = session_options(optimize=False, entries=RECORD)
        if self.depends_on_neighbours(device):
            # These compile what they are given: constants must be folded before, as they are before a run.
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
        custom_ops.register(options, model.opset_import, device.custom_ops)
        session = create_session(model.SerializeToString(), options, device)
        # The probe's own fillers have no name.
        return {
            name: f"{device.provider} leaves {kind} to {other}"
            for name, kind, other in refused_ops(session, device)
            if kind != "ConstantOfShape" or name
        }

    def compile(self, submodel: SubModel, device: Device, options: CompileOptions) -> Executable:
        """Creates a session."""
        from editor.runtimes.onnxruntime.session import compile_session

        return compile_session(submodel, device, options)

    def memory_space(self, device: Device) -> MemorySpace:
        """The provider's memory where values can stay in it, else host memory."""
        from editor.runtimes.onnxruntime.plugins import memory_space

        return memory_space(device)

    def memory_overhead(self, device: Device) -> MemoryOverhead:
        """Of the CPU: some weights are packed as well, and a node takes some kilobytes. Of CUDA: what a session has."""
        return {CPU: _CPU_OVERHEAD, CUDA: _CUDA_OVERHEAD}.get(device.provider, MemoryOverhead())

    def memory_in_use(self, device: Device) -> int | None:
        """Known for CUDA's GPUs."""
        from editor.runtimes.onnxruntime.device_list import cuda_memory_in_use

        return cuda_memory_in_use(providers.index_of(device)) if device.provider == CUDA else None

    def convert(self, value: Value, space: MemorySpace) -> Value:
        """An ``OrtValue``; plain arrays stay arrays where they are to lie in host memory."""
        import numpy as np

        from editor.runtimes.onnxruntime.values import can_be_ort_value, to_ort
        from editor.runtimes.values import to_numpy

        if isinstance(value, np.ndarray) and space.is_host:
            return value
        return to_ort(value, space) if can_be_ort_value(value) else to_numpy(value)

    def profile(
        self,
        graph: Graph,
        submodel: SubModel,
        device: Device,
        inputs: Sequence[Value],
        seconds: float,
        threads: int,
    ) -> list[KernelTime]:
        """From the runtime's own profiler; see ``profiling``."""
        from editor.runtimes.onnxruntime.profiling import kernel_times

        return kernel_times(graph, submodel, device, inputs, seconds, threads)

    def precision(self, device: Device) -> str:
        """CUDA computes float32 in TF32 unless told otherwise."""
        return (
            "tf32"
            if device.provider == CUDA and device.properties.get("use_tf32", "1") != "0"
            else ""
        )


_CPU_NAMES = frozenset({"cpu", "onnxruntime", "ort", "cpuexecutionprovider", "host"})
_OTHER_GPUS = ("ROCMExecutionProvider", "DmlExecutionProvider")
_UNIT = re.compile(r"\d{0,4}|(cpu|gpu|npu)(\.\d{1,4})?")
"""What follows the dot in a name of a device: its number, or its kind with a number."""


def target_of_name(name: str, provider: str) -> Target | None:
    """The device of a name, or of an explicit provider; None for names of others."""
    base, _, unit = name.lower().partition(".")
    if provider:
        exact = full_name(provider)
        return (
            _target(exact)
            if exact in PROVIDER_NAMES or exact.endswith("ExecutionProvider") or base == NAME
            else None
        )
    if name.lower() in _CPU_NAMES:
        return _target(CPU)
    if not _UNIT.fullmatch(unit):
        return None
    if base in ("gpu", "cuda"):
        return _gpu(base, unit) if not unit or unit.isdigit() else None
    if base == "npu":
        return _npu(unit) if not unit or unit.isdigit() else None
    exact = full_name(base)
    if exact not in PROVIDER_NAMES:  # perhaps a plugin of an unknown provider
        exact = next(
            (
                d.provider
                for d in devices_of_runtime(NAME)
                if base in (short_name(d.provider).lower(), d.provider.lower())
            ),
            "",
        )
    return _target(exact, unit=unit) if exact else None


def _gpu(base: str, unit: str) -> Target:
    """CUDA, else another provider of GPUs that is here."""
    here = devices_of_runtime(NAME)
    if base == "gpu" and all(d.provider != CUDA for d in here):
        others = [d for d in here if d.provider in _OTHER_GPUS or d.kind == "GPU"]
        number = int(unit) if unit else 0
        if number < len(others):
            return _target(others[number].provider, 1, str(others[number].index) if unit else "")
    return _target(CUDA, unit=unit)


def _npu(unit: str) -> Target | None:
    """An NPU of a plugin that is here; where another runtime has one, that comes first."""
    here = [d for d in devices_of_runtime(NAME) if d.kind == "NPU"]
    number = int(unit) if unit else 0
    return (
        _target(here[number].provider, 1, f"npu.{number}" if unit else "npu")
        if number < len(here)
        else None
    )


def _target(provider: str, preference: int = 0, unit: str = "") -> Target:
    """A device of a provider.

    Args:
        provider: its full name.
        preference: see ``Target``.
        unit: number of the device, or its kind with a number (``npu``, ``gpu.1``); "" for the first.
    """
    here = [d for d in devices_of_runtime(NAME) if d.provider.lower() == provider.lower()]
    exact = here[0].provider if here else provider
    kind, _, number = ("", "", unit) if unit.isdigit() or not unit else unit.partition(".")
    same = [d for d in here if not kind or d.kind.lower() == kind]
    device = _at(same, int(number) if number else 0)
    title = f"{TITLE}, {exact.removesuffix('ExecutionProvider')}"
    short = short_name(exact)
    label = (
        device.kind
        if device is not None and device.kind in ("GPU", "NPU")
        else LEVEL_LABELS.get(short, short)
    )
    selects = exact in SELECTS_BY_UNIT or any(d.kind for d in here)
    return Target(
        NAME,
        exact,
        device is not None,
        label,
        title,
        preference=preference,
        unit=str(device.index) if device is not None and selects and unit else number,
        unit_selects=selects,
        reason="" if here else _reason(exact),
        link=device.link if device is not None else None,
    )


def _at(devices: Sequence[AvailableDevice], position: int) -> AvailableDevice | None:
    """The device at a position; where their number is not known any position will do."""
    if devices and not any(d.kind for d in devices):
        return devices[0]
    return devices[position] if position < len(devices) else None


def _reason(provider: str) -> str:
    """Why a provider that is installed as a plugin cannot be used."""
    short = short_name(provider).lower().removesuffix("-ep")
    return next(
        (
            part.reason
            for part in unusable_parts(NAME)
            if part.name == provider or short in part.name.lower()
        ),
        "",
    )


def library_target(library: str, provider: str) -> Target:
    """The device of a local build that a table names; not present, with the reason, where it may not be loaded."""
    from editor.runtimes.onnxruntime.plugins import local_builds, tried_library

    found = next(
        (b for b in local_builds() if library in (b.name, b.path) or _same(library, b.path)), None
    )
    reason = f"a table loads no library that the machine's owner has not allowed; set {LIBRARIES.name}=NAME={library}"
    if found is not None:
        tried = tried_library(found)
        given = next((d.provider for d in tried.devices if provider in ("", d.provider)), "")
        if given:
            return _target(given)
        reason = next(
            (reason for _, reason in tried.reasons), f"{library} has no provider {provider}"
        )
    return Target("", "", False, short_name(provider) or library, reason=reason)


def _same(one: str, other: str) -> bool:
    try:
        return Path(one).resolve() == Path(other).resolve()
    except (OSError, ValueError):
        return False
