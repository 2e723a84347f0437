"""The GPUs of CUDA in its own order, which ``CUDA_VISIBLE_DEVICES`` and ``CUDA_DEVICE_ORDER`` change.

ONNX Runtime has one CUDA provider for all of them and takes a number. The driver gives the same numbers; the
kernel knows how each is connected.
"""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from editor.devices.device import Link
from editor.runtimes.onnxruntime.cuda_streams import cuda_context, cuda_driver

_LATENCY = 10e-6
"""Seconds of a transfer over PCI Express; a boundary between two GPUs took 19 to 30 us."""
_ENCODING = {2.5: 0.8, 5.0: 0.8}
"""Share of the transferred bits that is data, by GT/s; 128 of 130 for the faster ones."""


@dataclass(frozen=True)
class Gpu:
    """One GPU."""

    name: str
    memory: int
    """bytes"""
    link: Link | None
    """None where the kernel does not say."""


@cache
def cuda_gpus() -> tuple[Gpu, ...]:
    """GPUs by CUDA's numbers; none where the driver is not there or does not answer."""
    driver, count = cuda_driver(), ctypes.c_int()
    if driver is None or driver.cuDeviceGetCount(ctypes.byref(count)):
        return ()
    return tuple(_gpu(driver, number) for number in range(count.value))


def cuda_memory_in_use(number: int) -> int | None:
    """Bytes in use on a GPU, by all processes; None where the driver does not say."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    with cuda_context(number, keep=False) as driver:
        if driver is None or driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)):
            return None
    return int(total.value - free.value)


def _gpu(driver: ctypes.CDLL, number: int) -> Gpu:
    handle, memory = ctypes.c_int(), ctypes.c_size_t()
    name, address = ctypes.create_string_buffer(256), ctypes.create_string_buffer(32)
    driver.cuDeviceGet(ctypes.byref(handle), number)
    driver.cuDeviceGetName(name, len(name), handle)
    driver.cuDeviceTotalMem_v2(ctypes.byref(memory), handle)
    driver.cuDeviceGetPCIBusId(address, len(address), handle)
    return Gpu(name.value.decode("utf-8", "replace"), int(memory.value), pci_link(address.value.decode("ascii", "replace")))


def pci_link(address: str, root: Path = Path("/sys/bus/pci/devices")) -> Link | None:
    """The fastest link of a PCI device, from its address such as ``0000:18:00.0``; None where the kernel does not say."""
    try:
        folder = root / address.lower()
        speed = re.match(r"([\d.]+) GT/s", (folder / "max_link_speed").read_text(encoding="ascii"))
        width = int((folder / "max_link_width").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    if speed is None or not 0 < width <= 32:  # 255 where it is unknown
        return None
    rate = float(speed[1])
    return Link(rate * 1e9 * width / 8 * _ENCODING.get(rate, 128 / 130), _LATENCY)
