"""A sub-model as a session, with values bound instead of copied."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from operator import is_
from types import MappingProxyType
from typing import Any

import numpy as np
import onnxruntime as ort

from editor.devices.device import Device
from editor.errors import ExecutionError
from editor.runtimes.base import CompileOptions, Executable, Signature, SubModel, Value
from editor.runtimes.compile_cache import compile_folder, trim
from editor.runtimes.onnxruntime.context_models import context_path, writing
from editor.runtimes.onnxruntime.cuda_streams import make_current, synchronize
from editor.runtimes.onnxruntime.device_sessions import RECORD, check_assignment, create_session, shared_stream
from editor.runtimes.onnxruntime.errors import reason_of
from editor.runtimes.onnxruntime.memory_spaces import bind_output, exclusive
from editor.runtimes.onnxruntime.options import session_options, spinning
from editor.runtimes.onnxruntime.providers import CPU, CUDA, TENSORRT, WRITE_CONTEXTS, memory_space
from editor.runtimes.onnxruntime.values import as_ort, can_be_ort_value, is_ort_value, to_ort
from editor.runtimes.values import nbytes, to_numpy

_NUMPY_TYPES = frozenset(f"tensor({kind})" for kind in (
    "float", "double", "float16", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"))
_RUN_OPTIONS = ort.RunOptions()
"""Default run options, created once: creating them in each run would take 10 us or more with cold caches."""
_KEPT_BYTES = 16 << 20
"""Outputs up to this size keep their buffers between runs."""
_QUEUES = frozenset({"webgpu"})
"""Memories of devices whose runs return before they have finished, and whose outputs cannot be waited for."""
_CUDA = "cuda"
_WITHOUT_WAITING = ort.RunOptions()
_WITHOUT_WAITING.add_run_config_entry("disable_synchronize_execution_providers", "1")
"""ONNX Runtime waits for a GPU of CUDA at the end of a run, unless it is told not to."""
_MOST_QUEUED = 256
"""Runs without waiting, one after the other. Host memory that ONNX Runtime needs beside a run comes back in one that waits."""


@cache
def _share_arena() -> None:
    """One arena for all sessions of the process: parts of a model then reuse each other's warm memory."""
    info = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
    ort.create_and_register_allocator(info, None)


def compile_session(submodel: SubModel, device: Device, options: CompileOptions) -> Session:
    """Creates a session; weights in other files are mapped, not read.

    Raises:
        ExecutionError: ONNX Runtime refuses the sub-model.
    """
    _share_arena()
    entries = {"session.use_env_allocators": "1", **spinning(options.requests),
               **{k: v for k, v in device.properties.items() if "." in k}, **(RECORD if device.provider != CPU else {})}

    def settings(more: Mapping[str, str] = MappingProxyType({})) -> ort.SessionOptions:
        made = session_options(submodel.folder, options.threads, entries={**entries, **more})
        # The block of a memory pattern comes beside what the arena has from the first run: up to twice the memory for tensors,
        # and no run is faster for it.
        made.enable_mem_pattern = device.provider not in (CPU, CUDA)
        return made

    model = submodel.model.SerializeToString()
    kept = compile_folder(device.runtime) if options.keep and device.provider in {TENSORRT, *WRITE_CONTEXTS} else None
    context = context_path(kept, submodel, model, device) if kept is not None else None
    if context is not None and context.is_file():
        try:
            session = create_session(str(context), settings(), device, requests=options.requests)
            return Session(session, submodel.signature, device)
        except Exception:  # noqa: BLE001  # damaged, or removed meanwhile: compiled anew
            context.unlink(missing_ok=True)
    draft, writes = writing(context) if context is not None else (None, {})
    try:
        session = create_session(model, settings(writes), device, kept, options.requests)
    except ExecutionError:
        raise
    except Exception as error:  # ONNX Runtime's errors have no base class of their own
        raise ExecutionError(f"{submodel.label} on {device.name}: {reason_of(error)}") from error
    if device.provider != CPU:
        try:
            check_assignment(session, submodel.model, device, submodel.label)
        except ExecutionError:
            if draft is not None:
                draft.unlink(missing_ok=True)
            raise
    if context is not None and draft is not None and draft.is_file():
        draft.replace(context)
    if kept is not None:
        trim(kept)
    return Session(session, submodel.signature, device, shared_stream(device, options.requests) is not None)


class Session:
    """One binding of a session: an ``Executable``, a ``BoundExecutable`` and an ``AsynchronousExecutable``.

    Args:
        session: of ONNX Runtime.
        signature: of the sub-model.
        device: where it runs.
        queues: whether runs may only queue work, on the stream that all sessions of the GPU share.
    """

    def __init__(self, session: Any, signature: Signature, device: Device, queues: bool = False) -> None:
        self.session, self.signature, self.device = session, signature, device
        self._on_shared_stream = queues
        self._binding = session.io_binding()
        self._bound: list[Value] = [None] * len(signature.inputs)
        self._kept: list[Value] = []
        """Outputs of the first run, whose buffers all later runs write to."""
        self._may_keep = True
        self._space = memory_space(device)
        self._token: Value = None
        self._on_device = [o.type in _NUMPY_TYPES for o in session.get_outputs()]
        # Reading an empty optional from an OrtValue crashes the process, so these go through session.run.
        # Maps have no OrtValue that Python could read.
        self._bindable = not any("optional(" in o.type or "map(" in o.type for o in session.get_outputs())
        self._queues = queues and all(self._on_device)
        self._held: dict[str, Value] = {}
        self._queued = 0
        """Runs since the last one that waited"""

    def __del__(self) -> None:
        """Ends with a run that waits, where the last one did not.

        ONNX Runtime would give back the host memory of earlier runs in a callback of the stream, and that memory's allocator
        goes with the session: CUDA allows no such call in a callback, and the process would end.
        """
        with contextlib.suppress(Exception):  # also where it was never made, or the interpreter ends
            if self._queued:
                make_current(self._space.index)
                self._bind_new_outputs()  # what a run wrote to may be somebody else's, or gone
                self.session._sess.run_with_iobinding(self._binding._iobinding, _RUN_OPTIONS)
                synchronize(self._space.index)

    def run(self, inputs: Sequence[Value]) -> list[Value]:
        """Runs the session; outputs are ``OrtValue`` where that is possible."""
        with exclusive(self._space.kind):
            return self._run(inputs)

    def _run(self, inputs: Sequence[Value]) -> list[Value]:
        try:
            if self._on_shared_stream:
                make_current(self._space.index)
            elif self._space.kind == _CUDA:  # copies from other GPUs are queued on the stream that it does not compute on
                synchronize(self._space.index)
            if self._kept and all(map(is_, inputs, self._bound)):
                return self._run_kept() or self._run_bound(inputs)
            if self._bindable and all(can_be_ort_value(v) for v in inputs):
                return self._run_bound(inputs)
            feeds = {name: as_ort(v) if can_be_ort_value(v) else to_numpy(v)
                     for name, v in zip(self.signature.inputs, inputs, strict=True)}
            return list(self.session.run(list(self.signature.outputs), feeds))
        except ExecutionError:
            raise
        except Exception as error:  # ONNX Runtime's errors have no base class of their own
            raise ExecutionError(f"{self.signature.label} on {self.device.name}: {reason_of(error)}") from error

    def clone(self) -> Executable:
        """Sessions are thread-safe, bindings are not."""
        # Memory that one run has left, and that is not computed yet, could be taken by the other.
        self._queues = False
        return Session(self.session, self.signature, self.device)

    def wait(self) -> None:
        """Waits for a device whose runs only queue work: reading a value back comes after everything queued before it."""
        if self._space.kind == _CUDA:
            synchronize(self._space.index)
        elif self._space.kind in _QUEUES:
            if self._token is None:
                self._token = to_ort(np.zeros(1, np.float32), self._space)
            with exclusive(self._space.kind):
                self._token.numpy()

    def fixed_outputs(self) -> Sequence[Value]:
        """Outputs whose buffers every further run writes to."""
        return self._kept

    def bind_inputs(self, inputs: Mapping[str, Value]) -> Callable[[], None] | None:
        """Binds these inputs once and for all; returns what launches a run, or None where buffers may move."""
        if not self._kept:
            return None
        for name, value in inputs.items():
            self._bind_input(name, value)
        if not self._space.is_host:
            return self._launch
        return partial(self.session._sess.run_with_iobinding, self._binding._iobinding, _RUN_OPTIONS)

    def _bind_input(self, name: str, value: Value) -> None:
        self._binding.bind_ortvalue_input(name, value)
        if self._queues:  # the last run of all reads it once more
            self._held[name] = value

    def _launch(self) -> None:
        with exclusive(self._space.kind):
            if self._on_shared_stream:
                make_current(self._space.index)
            self.session._sess.run_with_iobinding(self._binding._iobinding, self._options())

    def rebind_input(self, name: str, value: Value) -> bool:
        """Rebinds one input; True when later runs see later writes into ``value``."""
        made = as_ort(value)
        with exclusive(self._space.kind):
            self._bind_input(name, made)
        if not self._space.is_host:  # copied to the device when it is bound
            return False
        return made is value or (isinstance(value, np.ndarray) and value.ctypes.data == made.data_ptr())

    def _run_bound(self, inputs: Sequence[Value]) -> list[Value]:
        binding = self._binding
        for i, value in enumerate(inputs):
            if value is not self._bound[i]:
                self._bind_input(self.signature.inputs[i], as_ort(value))
                # An array may be copied on the way, so another run must look at it again.
                self._bound[i] = value if is_ort_value(value) else None
        if self._kept and (results := self._run_kept()):
            return results
        self._bind_new_outputs()
        self.session.run_with_iobinding(binding, _RUN_OPTIONS)
        results = list(binding.get_outputs())
        if self._may_keep:
            self._keep(results)
        return results

    def _bind_new_outputs(self) -> None:
        """Binds outputs to memory that ONNX Runtime makes in the run."""
        self._binding.clear_binding_outputs()  # a stale output keeps the shape of the last run
        for name, on_device in zip(self.signature.outputs, self._on_device, strict=True):
            if on_device:
                bind_output(self._binding, name, self._space)
            else:
                self._binding.bind_output(name, "cpu", 0)

    def _run_kept(self) -> list[Value]:
        """A run into the buffers of the first one; nothing when the shapes turn out to depend on the data."""
        try:
            self.session.run_with_iobinding(self._binding, self._options())
        except Exception as error:
            if "computed output shape" not in str(error):
                raise
            self._kept = []
        return self._kept

    def _options(self) -> Any:
        self._queued = self._queued + 1 if self._queues and self._queued < _MOST_QUEUED else 0
        return _WITHOUT_WAITING if self._queued else _RUN_OPTIONS

    def _keep(self, results: list[Value]) -> None:
        """Binds the buffers of this run once and for all: the next run writes into them."""
        self._may_keep = False
        plain = all(r.is_tensor() and r.data_type() != "tensor(string)" and 0 not in r.shape() for r in results)
        if plain and sum(map(nbytes, results)) <= _KEPT_BYTES:
            self._bind_outputs(results)
            self._kept = results

    def _bind_outputs(self, values: Sequence[Value]) -> None:
        self._binding.clear_binding_outputs()
        for name, value in zip(self.signature.outputs, values, strict=True):
            self._binding.bind_ortvalue_output(name, value)
