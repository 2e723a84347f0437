"""Streams of CUDA's GPUs, and copies from one GPU to another.

ONNX Runtime makes neither available in Python: a session takes a stream as a number, and ``copy_tensors`` has no way between
two GPUs. So the driver is called.

A stream computes in the order in which work is queued. Where one run is in flight at a time, all sessions of a GPU queue
their work on one stream, ``cuda_stream``, and go on without waiting for it; a copy to the GPU is queued there too. A
reader of a value elsewhere waits first: ``synchronize`` for all of the stream, ``Mark.wait`` for what came before the mark.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections import defaultdict
from collections.abc import Iterator
from functools import cache

from editor.errors import ExecutionError

_NON_BLOCKING = 1
"""CU_STREAM_NON_BLOCKING: does not wait for the default stream."""
_DISABLE_TIMING = 2
"""CU_EVENT_DISABLE_TIMING: such an event is the cheapest to wait for."""

_streams: dict[int, int] = {}
"""GPU number -> its stream, once it was made"""
_lock = threading.Lock()
launching: defaultdict[int, threading.RLock] = defaultdict(threading.RLock)
"""GPU number -> held while a run is queued: where two queue their kernels by turns, each takes the time of both."""


@cache
def cuda_driver() -> ctypes.CDLL | None:
    """The driver; None where it is not there or does not work."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    return None if driver.cuInit(0) else driver


@contextlib.contextmanager
def cuda_context(number: int, keep: bool = True) -> Iterator[ctypes.CDLL | None]:
    """The driver while a GPU's context, the one that CUDA's runtime uses too, is this thread's; None where there is none.

    Args:
        number: of the GPU.
        keep: the context, which takes hundreds of megabytes, as long as the process, as streams need it.
    """
    driver, context = cuda_driver(), _kept_context(number) if keep else _retained(number)
    if driver is None or context is None:
        yield None
        return
    try:
        if driver.cuCtxPushCurrent_v2(context):
            yield None
            return
        try:
            yield driver
        finally:
            driver.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))
    finally:
        if not keep:
            driver.cuDevicePrimaryCtxRelease_v2(number)


def _retained(number: int) -> ctypes.c_void_p | None:
    """The primary context of a GPU; the handle of a device is its number."""
    driver, context = cuda_driver(), ctypes.c_void_p()
    return (
        None
        if driver is None or driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), number)
        else context
    )


_kept_context = cache(_retained)


def cuda_stream(number: int) -> int | None:
    """The stream of a GPU for work of one run at a time; None where the driver makes none."""
    with _lock:
        if number not in _streams:
            stream = ctypes.c_void_p()
            with cuda_context(number) as driver:
                if (
                    driver is None
                    or driver.cuStreamCreate(ctypes.byref(stream), _NON_BLOCKING)
                    or not stream.value
                ):
                    return None
            _streams[number] = stream.value
        return _streams[number]


def make_current(number: int) -> None:
    """Makes a GPU the current one of this thread; ONNX Runtime does not where a session was given a stream."""
    driver, context = cuda_driver(), _kept_context(number)
    if driver is not None and context is not None:
        driver.cuCtxSetCurrent(context)


def synchronize(number: int) -> None:
    """Waits for everything that was queued on the stream of a GPU.

    Raises:
        ExecutionError: a kernel or a copy failed.
    """
    stream = _streams.get(number)
    if stream is None:
        return
    with cuda_context(number) as driver:
        code = driver.cuStreamSynchronize(ctypes.c_void_p(stream)) if driver is not None else 0
    if code:
        raise ExecutionError(
            f"GPU {number}: CUDA error {code} while its queue of work was computed"
        )


class Mark:
    """A moment of the stream of a GPU.

    Raises:
        ExecutionError: the driver makes no event.
    """

    def __init__(self, number: int) -> None:
        self.number, self.event = number, ctypes.c_void_p()
        with cuda_context(number) as driver:
            self._driver = driver
            if driver is None or driver.cuEventCreate(ctypes.byref(self.event), _DISABLE_TIMING):
                raise ExecutionError(f"GPU {number}: CUDA makes no event")

    def set(self) -> None:
        """Moves it behind everything that is queued now."""
        with cuda_context(self.number) as driver:
            if driver is not None:
                driver.cuEventRecord(self.event, ctypes.c_void_p(_streams[self.number]))

    def wait(self) -> None:
        """Waits until everything before it is computed.

        Raises:
            ExecutionError: a kernel or a copy failed.
        """
        with cuda_context(self.number) as driver:
            code = driver.cuEventSynchronize(self.event) if driver is not None else 0
        if code:
            raise ExecutionError(
                f"GPU {self.number}: CUDA error {code} while its queue of work was computed"
            )

    def __del__(self) -> None:
        """Gives the event back."""
        if self.event and self._driver is not None:
            self._driver.cuEventDestroy_v2(self.event)


def queue_copy(
    source: int,
    source_address: int,
    target: int,
    target_address: int,
    size: int,
    after: Mark | None = None,
) -> bool:
    """Queues a copy from one GPU to another, after what is queued on the first one, or what is before a mark of it, and before
    what comes on the second.

    The memories must stay as they are until it is done.

    Args:
        source, target: numbers of GPUs.
        source_address, target_address: in their memories.
        size: bytes.
        after: of the first GPU; None: everything that is queued there.

    Returns:
        Whether it was queued; False where the driver cannot.
    """
    if not size:
        return True
    contexts = _kept_context(source), _kept_context(target)
    streams = cuda_stream(source), cuda_stream(target)
    ready = _event(source) if after is None else after.event
    if None in contexts or None in streams or ready is None:
        return False
    _allow_access(source, target)
    with _lock, cuda_context(source) as driver:
        if driver is None:
            return False
        if after is None and driver.cuEventRecord(ready, ctypes.c_void_p(streams[0])):
            return False
        with cuda_context(target):
            to, into = (ctypes.c_void_p(target_address), contexts[1]), ctypes.c_void_p(streams[1])
            return not (
                driver.cuStreamWaitEvent(into, ready, 0)
                or driver.cuMemcpyPeerAsync(
                    *to, ctypes.c_void_p(source_address), contexts[0], ctypes.c_size_t(size), into
                )
            )


@cache
def _event(number: int) -> ctypes.c_void_p | None:
    """An event of a GPU; it is used under the lock."""
    event = ctypes.c_void_p()
    with cuda_context(number) as driver:
        return (
            None
            if driver is None or driver.cuEventCreate(ctypes.byref(event), _DISABLE_TIMING)
            else event
        )


@cache
def _allow_access(one: int, other: int) -> None:
    """Lets two GPUs read each other's memory, where their link can; without, the driver copies through the host."""
    for mine, theirs in ((one, other), (other, one)):
        with cuda_context(mine) as driver:
            if driver is not None:
                driver.cuCtxEnablePeerAccess(_kept_context(theirs), 0)
