"""Models of one op each over all element types, with values that real inputs have; what a device computes of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper

import editor
from editor.devices.device import Device
from editor.errors import EditorError
from editor.runtimes.base import CompileOptions, SubModel
from editor.runtimes.registry import capability, runtime_of
from editor.runtimes.values import to_numpy

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Mod", "Pow")
COMPARISONS = ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
BITWISE = ("BitwiseAnd", "BitwiseOr", "BitwiseXor")
INTEGER_UNARY = ("Abs", "Neg", "Sign", "Clip", "Identity", "BitwiseNot", "CumSum")
FLOAT_UNARY = (
    *("Abs", "Neg", "Sign", "Clip", "Identity", "CumSum", "Relu", "LeakyRelu", "Elu", "Selu"),
    *("Sigmoid", "Tanh", "Exp", "Log", "Sqrt", "Reciprocal", "Floor", "Ceil", "Round", "Erf"),
    *("Sin", "Cos", "Tan", "Atan", "Softplus", "Softsign", "HardSigmoid", "Softmax", "LogSoftmax"),
    *("Asin", "Acos", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "IsNaN", "IsInf", "Mish", "Gelu"),
)
REDUCTIONS = (
    *("ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceProd", "ReduceL1", "ReduceL2"),
    *("ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"),
)
MOVES = ("Concat", "Gather", "Where", "Transpose", "Expand", "Tile", "Slice", "Pad", "Reshape")
OPSET = 20


@dataclass(frozen=True)
class Case:
    """One op, and inputs on which its result is defined."""

    label: str
    model: ModelProto
    inputs: dict[str, Any]


def cases() -> Iterator[Case]:
    """All that ONNX Runtime's CPU provider computes."""
    for kind in INTEGERS:
        for op in (*BINARY, *COMPARISONS, *BITWISE):
            yield from _case(op, kind, _whole(op, kind))
        for direction in ("LEFT", "RIGHT") if kind.startswith("u") else ():
            yield from _case("BitShift", kind, _whole("BitShift", kind), direction=direction)
        for op in INTEGER_UNARY:
            yield from _case(op, kind, _whole(op, kind)[:1])
    for kind in FLOATS:
        for op in (*BINARY, *COMPARISONS):
            extra = {"fmod": 1} if op == "Mod" else {}
            yield from _case(op, kind, _real(op, kind), **extra)
        for op in FLOAT_UNARY:
            yield from _case(op, kind, _real(op, kind)[:1])
    for kind in (*INTEGERS, *FLOATS):
        values = _whole if kind in INTEGERS else _real
        for op in REDUCTIONS:
            yield from _case(op, kind, values(op, kind)[:1])
        for op in ("ArgMax", "ArgMin", "MatMul", *MOVES):
            yield from _case(op, kind, values(op, kind))
        for target in (*INTEGERS, *FLOATS, "bool"):
            if target != kind:
                yield from _case("Cast", kind, [_to_cast(kind, target)], to=_code(target))


def nan_cases() -> Iterator[Case]:
    """Ops on NaN and infinities."""
    odd = np.array([np.nan, 1, -2, np.inf, -np.inf, 0.5, np.nan, -3], np.float32)
    other = np.array([1, np.nan, 3, 4, 5, -6, np.nan, 8], np.float32)
    for op in ("Relu", "Clip", "Max", "Min", "LeakyRelu", "Elu", "Sigmoid", "Abs", "IsNaN"):
        for case in _case(op, "float32", [odd, other] if op in ("Max", "Min") else [odd]):
            yield Case(f"{op} of NaN", case.model, case.inputs)


def _code(kind: str) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(kind)))


def _whole(op: str, kind: str) -> list[Any]:
    info, dtype = np.iinfo(kind), np.dtype(kind)
    top = int(info.max)
    signs = [1, -1] if info.min < 0 else [1, 1]

    def numbers(limit: int) -> Any:
        found = [limit, limit - 1, limit // 3 * 2 + 1, 5, 7, limit // 5, 3, limit // 2 + 1]
        return np.array([max(n, 1) * signs[i % 2] for i, n in enumerate(found)], dtype)

    small = np.array([3, 2, 1, 3, 2, 5, 1, 2], dtype)
    if op == "Pow":
        return [numbers(int(top ** (1 / 3)) - 1), np.array([3, 3, 2, 2, 1, 3, 2, 3], dtype)]
    if op == "Mul":
        return [numbers(top // 6), small]
    if op in ("Add", "Sub"):
        first = np.abs(numbers(top // 2 - 1).astype(object)).astype(dtype)
        return [first, np.array([1, 5, 3, 2, 7, 1, 2, 1], dtype)]
    if op == "BitShift":
        return [numbers(top // 8), small]
    if op in ("Div", "Mod"):
        return [numbers(top - 1), np.array([7, 3, 11, 2, 5, 13, 2, 9], dtype)]
    if op in ("ReduceSum", "ReduceL1", "ReduceMean", "CumSum"):
        return [numbers(top // 8)]
    if op in ("ReduceSumSquare", "ReduceL2"):
        return [numbers(max(int((top // 8) ** 0.5), 2))]
    if op == "ReduceProd":
        return [np.array([top // 5, 2, 1, 1, -1 if info.min < 0 else 1, 1, 1, 1], dtype)]
    if op in ("ReduceLogSum", "ReduceLogSumExp"):
        return [np.array([1, 2, 3, 4, 5, 6, 7, 2], dtype)]
    if op == "MatMul":
        return [numbers(max(top // 64, 1)).reshape(2, 4), (small % 4).reshape(4, 2)]
    return [numbers(top - 2), numbers(top - 3)[::-1].copy()]


def _real(op: str, kind: str) -> list[Any]:
    rng = np.random.default_rng(7)
    first, second = rng.standard_normal(8), rng.standard_normal(8)
    large, tiny = (300.0, 1e-3) if kind == "float16" else (3e6, 1e-12)
    if op in (*BINARY, *COMPARISONS, "Abs", "Neg", "Relu", "Identity", "Clip", "Sign", *MOVES):
        first[:4] = large * 1.1, -large / 3, tiny, -0.0
    if op in ("Log", "Sqrt", "Acosh", "ReduceLogSum"):
        first = np.abs(first) + (1.25 if op == "Acosh" else tiny)
    if op in ("Asin", "Acos", "Atanh"):
        first = first / 4
    if op == "Pow":
        first, second = np.abs(first), np.array([2, 0.5, 1.5, 3, 1, 0, 2, 1.0])
        first[:2] = large / 100, tiny
    if op == "Mod":
        first[:4] = 33.7, -12.3, 5.0, -0.0
    if op in COMPARISONS:
        second[2:6] = first[2:6]
        if kind == "float64":
            first[6], second[6] = 1 + 1e-12, 1
    if op in ("Reshape", "Identity", "Abs", "Sub") and kind == "float64":
        first[5] = 1e16 + 2
    if op == "MatMul":
        first, second = first.reshape(2, 4), second.reshape(4, 2)
    return [first.astype(kind), second.astype(kind)]


def _to_cast(kind: str, target: str) -> Any:
    """Values that both types have, up to the ends of the smaller one."""
    if kind in FLOATS:
        if target in INTEGERS:
            info = np.iinfo(target)
            top = min(float(info.max) / 1.5, 60_000.0 if kind == "float16" else 1e30)
            low = max(float(info.min) / 1.5, -top)
            return np.array([top, low, 3.7, 0.0, -0.0, top / 7, 1.5, 2.5]).astype(kind)
        large = 60_000.0 if "float16" in (kind, target) else 3e30
        return np.array([large, -large, 1 / 3, 0.0, -0.0, 1e-3, 1.5, 2.5]).astype(kind)
    top = int(np.iinfo(kind).max) - 1
    if target in INTEGERS:
        top = min(top, int(np.iinfo(target).max) - 1)
    if target == "float16":
        top = min(top, 60_000)
    low = -top if np.iinfo(kind).min < 0 and not target.startswith("u") else 0
    if target == "bool":
        top, low = 1 << np.iinfo(kind).bits - 2, 0
    return np.array([top, low, 3, 0, 1, top // 7, top // 2 + 1, 2], kind)


def _case(op: str, kind: str, values: list[Any], **attributes: Any) -> Iterator[Case]:
    names, inits = [f"x{i}" for i in range(len(values))], []

    def constant(value: Any) -> str:
        inits.append(onnx.numpy_helper.from_array(np.asarray(value), f"c{len(inits)}"))
        return inits[-1].name

    inputs = list(names)
    dtype = values[0].dtype
    if op == "Clip":
        inputs += [constant(np.array(1, dtype)), constant(np.array(np.max(values[0]) / 2, dtype))]
    elif op == "CumSum":
        inputs.append(constant(np.int64(0)))
    elif op.startswith(("Reduce", "ArgM")):
        attributes["keepdims"] = 0
    elif op == "Concat":
        attributes["axis"] = 0
    elif op == "Where":
        inputs = [constant(np.arange(8) % 2 == 0), *names]
    elif op in MOVES:
        names, inputs = names[:1], names[:1]
        operand = {
            "Gather": [np.array([1, 0, 7])],
            "Expand": [np.array([2, 8])],
            "Tile": [np.array([2])],
            "Slice": [np.array([1]), np.array([6])],
            "Pad": [np.array([1, 2])],
            "Reshape": [np.array([2, 4])],
        }.get(op, [])
        inputs += [constant(value) for value in operand]
    if op.startswith("ArgM"):
        names, inputs, attributes["axis"] = names[:1], names[:1], 0
    feeds = dict(zip(names, values, strict=False))
    graph = helper.make_graph(
        [helper.make_node(op, inputs, ["y"], **attributes)],
        "case",
        [helper.make_tensor_value_info(n, _code(v.dtype.name), v.shape) for n, v in feeds.items()],
        [onnx.ValueInfoProto(name="y")],
        inits,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
    try:
        typed = onnx.shape_inference.infer_shapes(model, strict_mode=True)
        onnx.checker.check_model(typed)
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError):
        return  # the op does not take this type
    target = attributes.get("to")
    suffix = f" to {TensorProto.DataType.Name(target).lower()}" if target else ""
    suffix += f" {attributes['direction']}" if "direction" in attributes else ""
    yield Case(f"{op} {kind}{suffix}", typed, feeds)


def expected(case: Case) -> Any:
    """What ONNX Runtime computes on the CPU; None where it does not."""
    from editor.runtimes.onnxruntime.options import run_once

    try:
        with np.errstate(all="ignore"):
            return run_once(case.model, case.inputs)["y"]
    except Exception:  # noqa: BLE001  # whatever ONNX Runtime raises where it lacks a kernel
        return None


def computed(case: Case, device: Device) -> Any:
    """What a device computes; None where it fails."""
    names = tuple(case.inputs)
    submodel = SubModel(case.model, names, ("y",), Path(), "case")
    try:
        executable = runtime_of(device.runtime).compile(submodel, device, CompileOptions())
        return np.array(to_numpy(executable.run([case.inputs[n] for n in names])[0]))
    except EditorError:
        return None


def is_wrong(reference: Any, got: Any) -> bool:
    """Whether a result is another than the reference, beyond rounding of its type."""
    if got is None or got.shape != reference.shape or got.dtype != reference.dtype:
        return True
    if reference.dtype.kind != "f":
        return not np.array_equal(reference, got)
    relative = {2: 4e-3, 4: 2e-3, 8: 1e-9}[reference.dtype.itemsize]
    wide, other = reference.astype(np.float64), got.astype(np.float64)
    scale = float(np.max(np.abs(wide[np.isfinite(wide)]), initial=0))
    return not np.allclose(other, wide, relative, relative * min(scale, 1) / 10, equal_nan=True)


def answer(case: Case, device: Device, folder: Path) -> tuple[str, tuple[str, ...]]:
    """Why the device is not allowed to compute the op, or "", and what there is to say of the device."""
    path = folder / "case.onnx"
    path.write_bytes(case.model.SerializeToString())
    found = capability(editor.load_model(path), device)
    return found.reasons[0], tuple(getattr(found, "remarks", ()))


def main() -> None:
    """Prints what OpenVINO is allowed to compute and computes wrongly."""
    import tempfile

    from editor.devices.table import load_devices

    device = load_devices("HETERO:OpenVINO.CPU")[0]
    counts: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        for case in (*cases(), *nan_cases()):
            reference = expected(case)
            if reference is None:
                continue
            reason, notes = answer(case, device, Path(folder))
            wrong = is_wrong(reference, computed(case, device))
            kind = f"{'refused' if reason else 'allowed'}, {'wrong' if wrong else 'right'}"
            counts[kind] = counts.get(kind, 0) + 1
            if bool(reason) != wrong:
                print(f"{kind}: {case.label}: {reason or notes}", flush=True)
    print(counts)


if __name__ == "__main__":
    main()
