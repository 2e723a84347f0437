"""Runs a model once in ONNX Runtime, in a process that can be killed: whether it can have some sizes."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import numpy as np
from onnx import helper

from editor.errors import EditorError
from editor.graph.flops import op_flops
from editor.graph.graph import Graph, element_type
from editor.graph.static_values import is_static
from editor.sandbox.worker import run

_MOST_BYTES = 256 << 20
"""Of weights and results of a model that is tried: it is to take a second."""
_MOST_FLOPS = 20e9
_SECONDS = 3.0
_SILENT = 4
Feeds = Mapping[str, tuple[str, tuple[int, ...]]]
"""Input -> its numpy type and shape."""


def runs(graph: Graph) -> bool:
    """Whether a model without open dimensions runs, as far as that is known: shapes that inference knows are believed."""
    feeds = _feeds(graph)
    if feeds is None or not _is_in_doubt(graph) or _is_large(graph):
        return True
    try:
        return run(_ends_well, str(graph.path), feeds, what="trying sizes on", path=graph.path)
    except EditorError:
        return False


def _is_in_doubt(graph: Graph) -> bool:
    values = zip(graph.tensor_types, graph.tensor_shapes, strict=True)
    return bool(graph.op_is_atomic.any()) or not all(map(is_static, values))


def _is_large(graph: Graph) -> bool:
    known = graph.tensor_bytes[graph.tensor_bytes > 0]
    return int(known.sum()) > _MOST_BYTES or float(op_flops(graph).sum()) > _MOST_FLOPS


def _feeds(graph: Graph) -> dict[str, tuple[str, tuple[int, ...]]] | None:
    found = {}
    for tensor in graph.inputs.tolist():
        kind, shape = graph.tensor_types[tensor], graph.tensor_shapes[tensor]
        code = element_type(kind)
        if not code or shape is None or not all(isinstance(d, int) for d in shape):
            return None
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(code))
        if dtype.kind not in "biuf":
            return None
        found[graph.tensor_names[tensor]] = (dtype.str, tuple(int(d) for d in shape))
    return found


def _ends_well(path: str, feeds: Feeds) -> bool:
    """Runs a model with ones: valid indices, lengths and masks. One that is not loaded, or takes long, says nothing."""
    import onnxruntime  # most models need no trial

    options = onnxruntime.SessionOptions()
    options.log_severity_level = _SILENT
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
    except Exception:  # noqa: BLE001  # ONNX Runtime's errors have no base class of their own
        return True
    values = {name: np.ones(shape, dtype) for name, (dtype, shape) in feeds.items()}
    chosen = onnxruntime.RunOptions()
    clock = threading.Timer(_SECONDS, setattr, (chosen, "terminate", True))
    clock.daemon = True
    clock.start()
    try:
        session.run([], values, chosen)
    except Exception:  # noqa: BLE001  # as above
        return bool(chosen.terminate)
    finally:
        clock.cancel()
    return True
