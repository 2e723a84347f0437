"""Resolves device names of users and other tools to a runtime and provider of this machine."""

from __future__ import annotations

from editor.devices.discovery import Target, available_devices, sources

# Accelerators in tables of other tools; a device of such a name is planned unless a runtime resolves it.
_PLANNED = {name.lower(): name for name in (
    "OpenCL", "MYRIAD", "NPU", "HDDL", "HABANA", "Habana", "NNPI", "FPGA", "GNA", "VPU", "KEEMBAY", "DSP", "TPU",
    "Hexagon", "EdgeTPU", "ANE", "Vulkan", "Metal", "NVPTX", "BLAS", "MULTI", "BATCH", "AUTO", "DLA", "APU", "RKNN",
    "EthosU", "Hailo",
)}


def resolve(name: str, provider: str = "") -> Target | None:
    """Resolves a device or backend name; None when it is unknown.

    Args:
        name: ``CPU``, ``GPU``, ``GPU.1``, ``Interpreter``, ``OpenVINO``, ``OpenVINO.GPU``, ``OpenCL``, the name
            of an ONNX Runtime provider ... in any case.
        provider: an explicit provider of the runtime, from a table.
    """
    best: Target | None = None
    base = name.lower().partition(".")[0]
    for source in sorted(sources(), key=lambda each: each.name != base):  # a runtime that is named goes first
        target = source.resolve(name, provider)
        if target is None:
            continue
        if target.present and not target.preference:
            return target
        if best is None or (not target.present, target.preference) < (not best.present, best.preference):
            best = target
    if best is not None:
        return best
    return Target("", "", False, _PLANNED[base]) if base in _PLANNED else None


def resolve_library(library: str, provider: str) -> Target | None:
    """The device of a local build that a table names; None when no runtime loads libraries."""
    return next((target for source in sources() if (target := source.resolve_library(library, provider)) is not None), None)


def known_names() -> list[str]:
    """Names that a ``HETERO:`` string may use: available devices, then planned ones."""
    available = [a.name for a in available_devices()]
    planned = ["GPU", *sorted(set(_PLANNED.values()), key=str.lower)]
    return available + [name for name in planned if name not in available]
