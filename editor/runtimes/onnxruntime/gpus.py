"""The GPUs of CUDA in its own order, which ``CUDA_VISIBLE_DEVICES`` and ``CUDA_DEVICE_ORDER`` change.

ONNX Runtime has one CUDA provider for all of them and takes a number. The driver gives the same numbers; the
kernel knows how each is connected.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from editor.devices.device import Link

_LATENCY = 10e-6
"""Seconds of a transfer over PCI Express; a boundary between two GPUs took 19 to 30 us."""
_NON_BLOCKING = 1
"""CU_STREAM_NON_BLOCKING: does not wait for the default stream."""
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
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return ()
    count = ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return ()
    return tuple(_gpu(driver, number) for number in range(count.value))


def cuda_memory_in_use(number: int) -> int | None:
    """Bytes in use on a GPU, by all processes; None where the driver does not say."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    with _context(number) as driver:
        if driver is None or driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)):
            return None
    return int(total.value - free.value)


@cache
def cuda_stream(number: int) -> int | None:
    """A stream of a GPU that is there as long as the process; None where the driver makes none."""
    stream = ctypes.c_void_p()
    with _context(number, keep=True) as driver:
        if driver is None or driver.cuStreamCreate(ctypes.byref(stream), _NON_BLOCKING):
            return None
    return stream.value


@contextlib.contextmanager
def _context(number: int, keep: bool = False) -> Iterator[ctypes.CDLL | None]:
    """The driver while a GPU's context, the one that CUDA's runtime uses too, is this thread's; None where there is none."""
    handle, context = ctypes.c_int(), ctypes.c_void_p()
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        yield None
        return
    if (driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(handle), number)
            or driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), handle)):
        yield None
        return
    try:
        if driver.cuCtxPushCurrent_v2(context):
            yield None
            return
        try:
            yield driver
        finally:
            driver.cuCtxPopCurrent_v2(ctypes.byref(context))
    finally:
        if not keep:
            driver.cuDevicePrimaryCtxRelease_v2(handle)


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
