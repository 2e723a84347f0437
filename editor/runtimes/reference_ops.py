"""Ops that ONNX's reference evaluator computes otherwise than their definition says, as they are defined."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import ModelProto
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_loop import Loop as PackagesLoop

_FIRST_WITH_TRAINING_MODE = 14


class BatchNormalization(OpRun):  # type: ignore[misc]  # onnx has no types here
    """Before opset 14 as at inference, where it has one output; the evaluator computes the statistics of the batch."""

    def _run(
        self,
        x: Any,
        scale: Any,
        bias: Any,
        mean: Any,
        var: Any,
        epsilon: float | None = None,
        **_: Any,
    ) -> tuple[Any, ...]:
        shape = (-1,) + (1,) * (x.ndim - 2)
        factor = scale / np.sqrt(var + (1e-5 if epsilon is None else epsilon))
        result = x * factor.reshape(shape) + (bias - mean * factor).reshape(shape)
        return (result.astype(x.dtype),)


class GatherElements(OpRun):  # type: ignore[misc]  # onnx has no types here
    """With indices that cover a part of the other axes; the evaluator wants all, and knows no axis counted from the end."""

    def _run(self, data: Any, indices: Any, axis: int | None = None) -> tuple[Any, ...]:
        along = (axis or 0) % data.ndim
        part = tuple(
            slice(None) if i == along else slice(size) for i, size in enumerate(indices.shape)
        )
        return (np.take_along_axis(data[part], indices % data.shape[along], along),)


class Loop(PackagesLoop):  # type: ignore[misc]  # onnx has no types here
    """Stacks what it scans, and begins without a condition; the evaluator joins arrays along their first axis."""

    def _run(
        self,
        count: Any,
        condition: Any,
        *carried: Any,
        context: dict[str, Any] | None = None,
        body: Any = None,
        attributes: Any = None,
        bindings: Any = None,
    ) -> tuple[Any, ...]:
        number, going, *names = self.body.input_names
        scanned: list[list[Any]] = [[] for _ in range(self.K)]
        goes_on, done = condition is None or bool(condition), 0
        while goes_on and (count is None or done < count):
            inputs = {**(context or {}), **dict(zip(names, carried, strict=True))}
            inputs |= {number: np.array(done, np.int64), going: np.array(goes_on)}
            goes_on, *results = self._run_body(inputs, attributes=attributes, bindings=bindings)
            carried = tuple(results[: self.N])
            for values, value in zip(scanned, results[self.N :], strict=True):
                values.append(value)
            done += 1
        return (*carried, *(np.stack(v) if v else np.empty((0,), np.float32) for v in scanned))


def evaluator_of(model: ModelProto) -> ReferenceEvaluator:
    """The evaluator of a model, with these ops."""
    version = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)
    ops: list[type[OpRun]] = [GatherElements, Loop]
    if 7 <= version < _FIRST_WITH_TRAINING_MODE:
        ops.append(BatchNormalization)
    for op in ops:
        op.op_domain = ""
    return ReferenceEvaluator(model, new_ops=ops)
