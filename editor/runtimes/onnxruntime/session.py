"""Runs a sub-model as a session, with values bound instead of copied."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial
from operator import is_
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import onnxruntime as ort
from onnx import ModelProto, TensorProto
from onnxruntime.capi.onnxruntime_pybind11_state import OrtValueVector

from editor import custom_ops
from editor.devices.device import Device
from editor.errors import ExecutionError
from editor.files import file_state
from editor.graph.external_data import locations_of
from editor.runtimes.base import CompileOptions, Signature, SubModel, Value
from editor.runtimes.compile_cache import compile_folder, trim
from editor.runtimes.onnxruntime.cuda_streams import (
    Mark,
    cuda_stream,
    launching,
    make_current,
    synchronize,
)
from editor.runtimes.onnxruntime.options import reason_of, session_options, spinning
from editor.runtimes.onnxruntime.plugins import ep_device, memory_space, plugin_device
from editor.runtimes.onnxruntime.properties import NOT_PASSED
from editor.runtimes.onnxruntime.providers import (
    CPU,
    CUDA,
    DEPEND_ON_NEIGHBOURS,
    SELECTS_BY_UNIT,
    TENSORRT,
    WRITE_CONTEXTS,
    index_of,
)
from editor.runtimes.onnxruntime.values import (
    HOST,
    GrowingRun,
    as_ort,
    bind_output,
    caches_of,
    can_be_ort_value,
    device_of,
    exclusive,
    is_ort_value,
    set_mark,
    to_ort,
    with_room,
)
from editor.runtimes.protocols import Executable
from editor.runtimes.values import nbytes, to_numpy


def context_path(folder: Path, submodel: SubModel, model: bytes, device: Device) -> Path | None:
    """Where the context model of a sub-model is or will be; None where its provider writes none."""
    plugin = plugin_device(device.provider, index_of(device))
    if plugin is None or device.provider not in WRITE_CONTEXTS:
        return None
    weights = locations_of(submodel.model)
    states = [(name, file_state(submodel.folder / name)) for name in weights]
    identity = (
        ort.__version__,
        plugin,
        device.settings,
        str(submodel.folder) if weights else "",
        states,
    )
    return folder / f"{hashlib.sha256(repr(identity).encode() + model).hexdigest()[:40]}.onnx"


def writing(path: Path) -> tuple[Path, Mapping[str, str]]:
    """A file beside ``path``, and the entries of a session that writes its context model there."""
    draft = path.with_name(f"{path.stem}.{os.getpid()}.onnx")
    draft.unlink(missing_ok=True)
    return draft, {
        "ep.context_enable": "1",
        "ep.context_file_path": str(draft),
        "ep.context_embed_mode": "1",
    }


RECORD = {"session.record_ep_graph_assignment_info": "1"}
"""Entry of a session whose ``refused_ops`` are asked for."""
_MAX_NAMED = 3
"""Ops in a message."""
_MAX_SHAPE_ELEMENTS = 64
_CONVERSIONS = ("QuantizeLinear", "DequantizeLinear")
_INTEGERS = frozenset({TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL})


_NOT_CUDNN = str(1 | 2 | 4 | 16 | 32 | 64 | 128)
"""All attention kernels but cuDNN's, which plans anew for each number of tokens and each thread: on an H200 95 ms for each
token of a sequence, where the flash kernel takes 3. See ``AttentionBackend`` of ONNX Runtime."""


def create_session(
    model: bytes | str,
    options: ort.SessionOptions,
    device: Device,
    kept: Path | None = None,
    requests: int = 1,
) -> Any:
    """A session on a device, with the CPU behind it for what the device refuses; raises whatever ONNX Runtime raises.

    Args:
        model: the serialized model, or the path of one.
        options: of the session.
        device: where it is to run.
        kept: folder for what the provider compiles, where it can keep that.
        requests: runs in flight at the same time.
    """
    session = _created(model, options, device, kept, requests)
    session._model_bytes = None  # it keeps the serialized model for the fallback, which is off
    return session


def _created(
    model: bytes | str,
    options: ort.SessionOptions,
    device: Device,
    kept: Path | None,
    requests: int,
) -> Any:
    if device.provider == CPU:
        return ort.InferenceSession(model, options, providers=[CPU], enable_fallback=0)
    settings = {k: v for k, v in device.properties.items() if "." not in k and k not in NOT_PASSED}
    plugin = plugin_device(device.provider, index_of(device))
    if plugin is not None:
        options.add_provider_for_devices([ep_device(plugin)], {**dict(plugin.settings), **settings})
        return ort.InferenceSession(model, options, enable_fallback=0)
    if device.provider == TENSORRT and kept is not None:
        settings = {"trt_engine_cache_enable": "1", "trt_engine_cache_path": str(kept), **settings}
    if (stream := shared_stream(device, requests)) is not None:
        settings = {"user_compute_stream": str(stream), **settings}
    if device.provider in SELECTS_BY_UNIT:
        settings = {"device_id": str(index_of(device)), **settings}
    another = device.provider == CUDA and index_of(device) > 0
    with _without_xqa() if another else contextlib.nullcontext():
        return ort.InferenceSession(
            model, options, providers=[(device.provider, settings), CPU], enable_fallback=0
        )


@contextlib.contextmanager
def _without_xqa() -> Iterator[None]:
    """No XQA, an attention kernel over caches that grow where they lie, in sessions made meanwhile.

    It prepares the first GPU of the process only, and fails on others (cudaErrorInvalidValue, ONNX Runtime 1.31.1).
    """
    with _making:
        before = os.environ.get(_XQA)
        os.environ[_XQA] = "0"
        try:
            yield
        finally:
            if before is None:
                del os.environ[_XQA]
            else:
                os.environ[_XQA] = before


_making = threading.Lock()
_XQA = "ORT_ENABLE_XQA"
"""Read where a session is made."""


def shared_stream(device: Device, requests: int) -> int | None:
    """The stream that a session shares with the others of its GPU; None where it has one of its own.

    With its own, each session would have cuBLAS and cuDNN twice, 77 MB on an H100. Where several runs are in flight, streams
    of their own let them overlap.
    """
    if device.provider != CUDA or requests != 1 or "user_compute_stream" in device.properties:
        return None
    return cuda_stream(index_of(device))


def refused_ops(session: Any, device: Device) -> list[tuple[str, str, str]]:
    """(name, type, provider) of the nodes that a session gave to another provider than the device's."""
    return [
        (node.name, node.op_type, part.ep_name)
        for part in session.get_provider_graph_assignment_info()
        if part.ep_name != device.provider
        for node in part.get_nodes()
    ]


def check_assignment(session: Any, model: ModelProto, device: Device, label: str) -> None:
    """Checks that the device runs all of a sub-model.

    Ops on shapes may be elsewhere: ONNX Runtime computes them on the CPU where their results are needed there. So may a
    QuantizeLinear or DequantizeLinear at the edge of the sub-model: compilers of quantised subgraphs take these only between
    ops of their own.

    Raises:
        ExecutionError: the device refused an op; the message names it.
    """
    refused = {name: (kind, provider) for name, kind, provider in refused_ops(session, device)}
    if not refused:
        return
    nodes = {node.name: node for node in model.graph.node}
    quantised = device.provider in DEPEND_ON_NEIGHBOURS
    small = _shape_tensors(model) | (_converted_at_edge(model) if quantised else set())
    added = {"ConstantOfShape", *(_CONVERSIONS if quantised else ())}
    wrong = [
        (nodes[name].output[0] if name in nodes else name, kind, provider)
        for name, (kind, provider) in refused.items()
        if not (name in nodes and small.issuperset(n for n in nodes[name].output if n))
        and (name in nodes or kind not in added)
    ]
    if wrong:
        named = "; ".join(
            f"{kind} ({key!r}) was given to {provider}"
            for key, kind, provider in wrong[:_MAX_NAMED]
        )
        more = f" and {len(wrong) - _MAX_NAMED} more" if len(wrong) > _MAX_NAMED else ""
        raise ExecutionError(
            f"{label} on {device.name}: {device.provider} refused {len(wrong)} of its ops: {named}{more}; "
            "pin these ops to another device"
        )


def _converted_at_edge(model: ModelProto) -> set[str]:
    """What ops that only change the type of an input, or give an output its type, compute."""
    inputs, outputs = {i.name for i in model.graph.input}, {o.name for o in model.graph.output}
    return {
        node.output[0]
        for node in model.graph.node
        if node.op_type in _CONVERSIONS and (node.input[0] in inputs or node.output[0] in outputs)
    }


def _shape_tensors(model: ModelProto) -> set[str]:
    """Integer tensors of a sub-model with a few elements, as far as their types are declared or follow from their ops."""
    declared: Iterable[Any] = (*model.graph.value_info, *model.graph.output)
    found = {
        info.name
        for info in declared
        if info.type.tensor_type.elem_type in _INTEGERS and _few(info)
    }
    sizes = (node for node in model.graph.node if node.op_type in ("Shape", "Size"))
    found.update(name for node in sizes for name in node.output)
    changed = True
    while changed:
        changed = False
        for node in model.graph.node:
            if (
                node.op_type in _ON_SHAPES
                and node.output[0] not in found
                and found.intersection(node.input[:1])
            ):
                found.update(node.output)
                changed = True
    return found


_ON_SHAPES = frozenset(
    {
        "Gather",
        "Slice",
        "Concat",
        "Unsqueeze",
        "Squeeze",
        "Cast",
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Reshape",
        "Identity",
        "Range",
        "Equal",
        "Where",
        "Max",
        "Min",
    }
)


def _few(info: Any) -> bool:
    count = 1
    for size in info.type.tensor_type.shape.dim:
        count *= size.dim_value if size.HasField("dim_value") else _MAX_SHAPE_ELEMENTS + 1
    return count <= _MAX_SHAPE_ELEMENTS


_NUMPY_TYPES = frozenset(
    f"tensor({kind})"
    for kind in (
        "float",
        "double",
        "float16",
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
    )
)
_RUN_OPTIONS = ort.RunOptions()
"""Default run options, created once: creating them in each run would take 10 us or more with cold caches."""
_KEPT_BYTES = 16 << 20
"""Outputs up to this size keep their buffers between runs."""
_QUEUES = frozenset({"webgpu"})
"""Memories of devices whose runs return before they have finished, and whose outputs cannot be waited for."""
_CUDA = "cuda"
_WITHOUT_WAITING = ort.RunOptions()
for _each in (_RUN_OPTIONS, _WITHOUT_WAITING):
    _each.add_run_config_entry(
        "gpu_graph_id", "0"
    )  # the default; where it is not set, each run raises inside
_WITHOUT_WAITING.add_run_config_entry("disable_synchronize_execution_providers", "1")
"""ONNX Runtime waits for a GPU of CUDA at the end of a run, unless it is told not to."""
_MOST_QUEUED = 256
"""Runs without waiting, one after the other. Host memory that ONNX Runtime needs beside a run comes back in one that waits."""


@cache
def _share_arena() -> None:
    """One arena for all sessions of the process: parts of a model then reuse each other's warm memory."""
    info = ort.OrtMemoryInfo(
        "Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT
    )
    ort.create_and_register_allocator(info, None)


def compile_session(submodel: SubModel, device: Device, options: CompileOptions) -> Session:
    """Creates a session; weights in other files are mapped, not read.

    Raises:
        ExecutionError: ONNX Runtime refuses the sub-model.
    """
    _share_arena()
    if options.open_sizes and device.provider == CUDA:
        device = replace(device, properties={"sdpa_kernel": _NOT_CUDNN, **device.properties})
    # Outputs that get new memory in each run may be computed on one stream, whatever is in flight.
    requests = 1 if options.open_sizes else options.requests
    entries = {
        "session.use_env_allocators": "1",
        **spinning(options.requests, options.alone),
        **{k: v for k, v in device.properties.items() if "." in k},
        **(RECORD if device.provider != CPU else {}),
    }

    def settings(more: Mapping[str, str] = MappingProxyType({})) -> ort.SessionOptions:
        made = session_options(submodel.folder, options.threads, entries={**entries, **more})
        # The block of a memory pattern comes beside what the arena has from the first run: up to twice the memory for tensors,
        # and no run is faster for it.
        custom_ops.register(made, submodel.model.opset_import, device.custom_ops)
        made.enable_mem_pattern = device.provider not in (CPU, CUDA)
        return made

    caches = caches_of(submodel.model, device)
    model = with_room(submodel.model, caches)
    kept = (
        compile_folder(device.runtime)
        if options.keep and device.provider in {TENSORRT, *WRITE_CONTEXTS}
        else None
    )
    context = context_path(kept, submodel, model, device) if kept is not None else None
    if context is not None and context.is_file():
        try:
            session = create_session(str(context), settings(), device, requests=requests)
            return Session(session, submodel.signature, device)
        except Exception:  # noqa: BLE001  # damaged, or removed meanwhile: compiled again
            context.unlink(missing_ok=True)
    draft, writes = writing(context) if context is not None else (None, {})
    try:
        session = create_session(model, settings(writes), device, kept, requests)
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
    queues = shared_stream(device, requests) is not None
    made = Session(session, submodel.signature, device, queues)
    made.may_keep = not options.open_sizes
    made.in_one_call = options.open_sizes
    made.caches = caches
    return made


class Session:
    """One binding of a session: an ``Executable``, a ``BoundExecutable`` and an ``AsynchronousExecutable``.

    Args:
        session: of ONNX Runtime.
        signature: of the sub-model.
        device: where it runs.
        queues: whether runs may only queue work, on the stream that all sessions of the GPU share.
    """

    def __init__(
        self, session: Any, signature: Signature, device: Device, queues: bool = False
    ) -> None:
        self.session, self.signature, self.device = session, signature, device
        self._on_shared_stream = queues
        self._binding = session.io_binding()
        self._bound: list[Value] = [None] * len(signature.inputs)
        self._kept: list[Value] = []
        """Outputs of the first run, whose buffers all later runs write to."""
        self.may_keep = True
        """Whether outputs have the same sizes in each run, as far as is known"""
        self.in_one_call = False
        """Whether all inputs and outputs go to a run at once: binding them one by one takes up to a tenth of a token's time"""
        self.caches: Mapping[str, str] = {}
        """Input -> output: caches that runs may add to where they lie"""
        self._space = memory_space(device)
        self._token: Value = None
        self._on_device = [o.type in _NUMPY_TYPES for o in session.get_outputs()]
        # Reading an empty optional from an OrtValue crashes the process, so these go through session.run.
        # Maps have no OrtValue that Python could read.
        self._bindable = not any(
            "optional(" in o.type or "map(" in o.type for o in session.get_outputs()
        )
        self._queues = queues and all(self._on_device)
        self._held: dict[str, Value] = {}
        self._queued = 0
        """Runs since the last one that waited"""
        self._mark: Mark | None = None
        """By when the outputs of the last run are computed, where it only queued them"""
        self._last: tuple[Sequence[Value], Sequence[Value]] | None = None
        """Inputs and outputs of the last run, where it only queued work: the run that waits in the end has the same"""

    def __del__(self) -> None:
        """Ends with a run that waits, where the last one did not.

        ONNX Runtime would give back the host memory of earlier runs in a callback of the stream, and that memory's allocator
        goes with the session: CUDA allows no such call in a callback, and the process would end.
        """
        with contextlib.suppress(
            Exception
        ):  # also where it was never made, or the interpreter ends
            if self._queued:
                make_current(self._space.index)
                self._queued = _MOST_QUEUED  # the next one waits
                if self._last is not None:
                    self._start_at_once(*self._last)
                    return
                self._bind_new_outputs()  # the memory that a run wrote to may be in other use, or gone
                self.session.run_with_iobinding(self._binding, _RUN_OPTIONS)
                synchronize(self._space.index)

    def run(self, inputs: Sequence[Value]) -> list[Value]:
        """Runs the session; outputs are ``OrtValue`` where that is possible."""
        with exclusive(self._space.kind):
            return self._run(inputs)

    def _run(self, inputs: Sequence[Value], into: Sequence[Value] = ()) -> list[Value]:
        try:
            if (
                self._space.kind == _CUDA
            ):  # cuDNN's attention fails where another GPU is the current one
                make_current(self._space.index)
                if (
                    not self._on_shared_stream
                ):  # copies from other GPUs are queued on another stream
                    synchronize(self._space.index)
            if into:
                return self._run_at_once(inputs, into)
            if self._kept and all(map(is_, inputs, self._bound)):
                return self._run_kept() or self._run_bound(inputs)
            if self._bindable and all(can_be_ort_value(v) for v in inputs):
                at_once = self.in_one_call and (self._space.is_host or self._space.kind == _CUDA)
                return self._run_at_once(inputs) if at_once else self._run_bound(inputs)
            feeds = {
                name: as_ort(v) if can_be_ort_value(v) else to_numpy(v)
                for name, v in zip(self.signature.inputs, inputs, strict=True)
            }
            return list(self.session.run(list(self.signature.outputs), feeds))
        except ExecutionError:
            raise
        except Exception as error:  # ONNX Runtime's errors have no base class of their own
            raise ExecutionError(
                f"{self.signature.label} on {self.device.name}: {reason_of(error)}"
            ) from error

    def clone(self) -> Executable:
        """Sessions are thread-safe, bindings are not."""
        # Memory that one run has left, and that is not computed yet, could be taken by the other where it keeps its outputs.
        self._queues &= self.in_one_call
        on_shared = self._on_shared_stream and self.in_one_call
        made = Session(self.session, self.signature, self.device, on_shared)
        made.may_keep = self.may_keep or bool(self._kept)
        made.in_one_call, made.caches = self.in_one_call, self.caches
        return made

    def returns_new_memory(self) -> bool:
        """Whether no run writes to what another one returned."""
        return self.in_one_call

    def growing(self) -> Mapping[str, str]:
        """Input -> output: states that the runs of a sequence may add to where they lie."""
        inputs = (value.type for value in self.session.get_inputs())
        return self.caches if all(self._on_device) and _NUMPY_TYPES.issuperset(inputs) else {}

    def sequence(self, states: Mapping[str, Value]) -> Callable[[Sequence[Value]], list[Value]]:
        """A run for each step of one sequence, without these states."""
        if not self._space.is_host:
            return self._growing_run({n: to_ort(v, self._space) for n, v in states.items()})
        where = f"{self.signature.label} on {self.device.name}"
        return GrowingRun(self.session, self.signature, where, self.caches, states, _RUN_OPTIONS)

    def _growing_run(self, caches: Mapping[str, Value]) -> Callable[[Sequence[Value]], list[Value]]:
        """As ``sequence``, with caches in the memory of a GPU, whose runs may only queue work."""
        grown = {self.caches[name]: value for name, value in caches.items()}
        into = [grown.get(name) for name in self.signature.outputs]

        def run(inputs: Sequence[Value]) -> list[Value]:
            others = iter(inputs)
            given = [caches[n] if n in caches else next(others) for n in self.signature.inputs]
            with exclusive(self._space.kind):
                results = self._run(given, into)
            return [made for made, there in zip(results, into, strict=True) if there is None]

        return run

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
        return partial(self.session.run_with_iobinding, self._binding, _RUN_OPTIONS)

    def _bind_input(self, name: str, value: Value) -> None:
        self._binding.bind_ortvalue_input(name, value)
        if self._queues:  # the last run of all reads it once more
            self._held[name] = value

    def _launch(self) -> None:
        with exclusive(self._space.kind):
            if self._space.kind == _CUDA:
                make_current(self._space.index)
            self.session.run_with_iobinding(self._binding, self._options())

    def rebind_input(self, name: str, value: Value) -> bool:
        """Rebinds one input; True when later runs see later writes into ``value``."""
        made = as_ort(value)
        with exclusive(self._space.kind):
            self._bind_input(name, made)
        if not self._space.is_host:  # copied to the device when it is bound
            return False
        return made is value or (
            isinstance(value, np.ndarray) and value.ctypes.data == made.data_ptr()
        )

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
        if self.may_keep:
            self._keep(results)
        return results

    def _run_at_once(self, inputs: Sequence[Value], into: Sequence[Value] = ()) -> list[Value]:
        """A run whose outputs get new memory.

        Args:
            into: [output] the memory that it is written to; None for new memory. Without any, all get new memory.
        """
        if not self._on_shared_stream:
            return self._start_at_once(inputs, into)
        with launching[self._space.index]:
            return self._start_at_once(inputs, into)

    def _start_at_once(self, inputs: Sequence[Value], into: Sequence[Value]) -> list[Value]:
        held = [as_ort(value) for value in inputs]
        given, made = OrtValueVector(), OrtValueVector()
        for value in held:
            given.push_back(value._ortvalue)
        for value in into:
            made.push_back(self._new_output[0] if value is None else value._ortvalue)
        options = self._options()
        self._last = (held, into) if self._queued else None
        self.session.run_with_ortvaluevector(
            options,
            self.signature.inputs,
            given,
            self.signature.outputs,
            made,
            self._output_devices,
        )
        # By index, because iterating takes nine times as long. Each value holds the session, whose memory it lies in.
        results = [ort.OrtValue(made[i], self.session) for i in range(len(made))]
        if self._queued:
            self._mark = self._mark or Mark(self._space.index)
            self._mark.set()
            for value in results:
                set_mark(value, self._mark)
        return results

    @cached_property
    def _output_devices(self) -> list[Any]:
        """[output] the memory that it is made in."""
        return [device_of(self._space if here else HOST) for here in self._on_device]

    @cached_property
    def _new_output(self) -> Any:
        """What stands for an output that gets new memory: one of a binding that never ran."""
        binding = self.session.io_binding()
        bind_output(binding, self.signature.outputs[0], self._space)
        return binding.get_outputs_as_ortvaluevector()

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
        self.may_keep = False
        plain = all(
            r.is_tensor() and r.data_type() != "tensor(string)" and 0 not in r.shape()
            for r in results
        )
        if plain and sum(map(nbytes, results)) <= _KEPT_BYTES:
            self._binding.clear_binding_outputs()
            for name, value in zip(self.signature.outputs, results, strict=True):
                self._binding.bind_ortvalue_output(name, value)
            self._kept = results
