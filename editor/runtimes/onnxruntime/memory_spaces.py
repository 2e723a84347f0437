"""``OrtValue`` in the memory of any device: allocating, moving and telling where a value is.

The kind of a memory space is the name that ONNX Runtime gives a device's memory (``cuda``, ``webgpu``). Memory without
a name of its own is ``gpu:VENDOR`` or ``npu:VENDOR``, with the vendor's PCI number.
"""

from __future__ import annotations

import logging
import threading
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import onnxruntime as ort

from editor.runtimes.base import MemorySpace, Value
from editor.runtimes.onnxruntime.cuda_streams import queue_copy, synchronize

log = logging.getLogger(__name__)

_WITHOUT_NAME = frozenset({"gpu", "npu"})
_CUDA = "cuda"
_FOR_THREADS = frozenset({"cpu", _CUDA})
"""Memories that several threads may use at once. Of onnxruntime-ep-webgpu 0.4.0, values were wrong and processes crashed."""
_one_at_a_time = threading.RLock()


def exclusive(kind: str) -> AbstractContextManager[object]:
    """Held while a run or a copy uses a memory that only one thread may use at a time."""
    return nullcontext() if kind in _FOR_THREADS else _one_at_a_time


def kind_of(device_name: str, vendor: int) -> str:
    """The kind of a memory space from what ONNX Runtime says about a value in it."""
    name = device_name.lower()
    return f"{name}:{vendor}" if name in _WITHOUT_NAME else name


def is_in(value: Any, space: MemorySpace) -> bool:
    """Whether an ``OrtValue`` is in a memory space."""
    if value.device_name().lower() != space.kind.partition(":")[0]:
        return False
    return space.is_host or _index_of(value, space.index) == space.index


def _index_of(value: Any, default: int) -> int:
    """The number of the device that holds a value; ``default`` where it cannot be asked for it."""
    try:
        return int(value.__dlpack_device__()[1])
    except (RuntimeError, ValueError, TypeError, BufferError):  # memory that other libraries cannot address
        return default


def moved(value: Any, space: MemorySpace) -> Value:
    """A copy of an ``OrtValue`` in another memory: directly between two devices where that is possible, else through the host.

    A copy between two GPUs of CUDA is queued; see ``cuda_streams``.
    """
    kind = value.device_name().lower()
    if not space.is_host and kind != "cpu":
        made = _allocated(value.shape(), value.element_type(), space)
        if kind == space.kind == _CUDA and queue_copy(_index_of(value, 0), value.data_ptr(), space.index, made.data_ptr(),
                                                      value.tensor_size_in_bytes()):
            return made
        try:
            with exclusive(space.kind):
                ort.copy_tensors([value], [made])
            return made
        except Exception as error:  # noqa: BLE001  # ONNX Runtime's errors have no base class of their own
            log.debug("no direct copy to %s: %s", space, error)
    return from_numpy(on_host(value), space)


def on_host(value: Any) -> np.ndarray[Any, Any]:
    """The values of a tensor in any memory, once they are computed."""
    wait_for(value)
    with exclusive(value.device_name().lower()):
        array: np.ndarray[Any, Any] = value.numpy()
    return array


def wait_for(value: Any) -> None:
    """Waits until a value in the memory of a GPU of CUDA is computed; reading one of other devices waits by itself."""
    if value.device_name().lower() == _CUDA:
        synchronize(_index_of(value, 0))


def from_numpy(array: np.ndarray[Any, Any], space: MemorySpace) -> Any:
    """An ``OrtValue`` with the values of an array; on the host it shares the memory."""
    name, vendor = _name_and_vendor(space)
    with exclusive(space.kind):
        return ort.OrtValue.ortvalue_from_numpy(array, name, space.index, vendor)


def _allocated(shape: Any, element_type: int, space: MemorySpace) -> Any:
    name, vendor = _name_and_vendor(space)
    with exclusive(space.kind):
        return ort.OrtValue.ortvalue_from_shape_and_type(list(shape), element_type, name, space.index, vendor)


def bind_output(binding: Any, name: str, space: MemorySpace) -> None:
    """Lets a session allocate an output in a memory space."""
    kind, vendor = _name_and_vendor(space)
    if vendor < 0:
        binding.bind_output(name, kind, space.index)
    else:  # the public method takes no vendor
        binding._iobinding.bind_output(name, ort.OrtDevice.make(kind, space.index, vendor)._get_c_device())


def _name_and_vendor(space: MemorySpace) -> tuple[str, int]:
    name, _, vendor = space.kind.partition(":")
    return name, int(vendor) if vendor else -1
