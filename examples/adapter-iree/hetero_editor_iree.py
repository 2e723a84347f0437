"""IREE on the CPU (``llvm-cpu``): an adapter to copy.

The editor folds constants with ONNX Runtime before it cuts a sub-model, so IREE never computes weights itself: its float
``Mod`` is wrong, and weights made by it would be.
"""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, shape_inference, version_converter

from editor.devices.device import Device
from editor.devices.discovery import AvailableDevice, Target
from editor.operating_system import cpu_name
from editor.runtimes.base import SubModel
from editor.runtimes.loaded_model import LoadedModelRuntime, Run

_PACKAGE = "iree-base-compiler"
_OLDEST_OPSET = 17
"""The importer knows older versions of few ops."""
_BACKEND = "llvm-cpu"


_WRONG = {
    "GridSample": "reads memory beside the image where it is sampled outside",
    "LpNormalization": "makes NaN of zeros",
}
_SIGNED = (TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64)


class Iree(LoadedModelRuntime):
    """Capability from the importer and the first passes of the compiler; execution by IREE's virtual machine."""

    name = "iree"
    title = "IREE"

    def devices(self) -> Sequence[AvailableDevice]:
        """The CPU, where compiler and runtime are installed."""
        importlib.metadata.version("iree-base-runtime")  # PackageNotFoundError is an ImportError
        version = importlib.metadata.version(_PACKAGE)
        return [AvailableDevice("IREE", self.name, _BACKEND, version, cpu_name(), self.title)]

    def resolve(self, name: str, provider: str) -> Target | None:
        """``IREE``."""
        return (
            Target(self.name, _BACKEND, True, "CPU", f"{self.title}, {_BACKEND}")
            if name.lower() == self.name
            else None
        )

    def check(self, model: ModelProto, device: Device) -> None:
        """Imports the model and lowers it to the compiler's own ops, without generating code."""
        _refuse_unknown_types(model)
        _refuse_wrong_ops(model)
        _compile(_imported(model), "--compile-to=input")

    def load(self, model: ModelProto, submodel: SubModel, device: Device) -> Callable[[], Run]:
        """Compiles for this processor; weights become constants of the module."""
        _refuse_unknown_types(model)
        _refuse_wrong_ops(model)
        binary = _compile(_imported(model), "--iree-llvmcpu-target-cpu=host")
        name = model.graph.name
        types = [
            np.dtype(helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))
            for value in model.graph.output
        ]

        def instance() -> Run:
            import iree.runtime as iree

            config = iree.Config("local-task")
            module = iree.load_vm_module(
                iree.VmModule.copy_buffer(config.vm_instance, binary), config
            )
            main = module[name]

            def run(inputs: list[Any]) -> Sequence[Any]:
                results = main(*[np.ascontiguousarray(array) for array in inputs])
                several = results if isinstance(results, tuple | list) else [results]
                # A view of the device's memory would change in the next run.
                arrays = [np.array(value.to_host()) for value in several]
                # Its whole numbers have no sign: uint8 comes back as int8.
                return [
                    array.view(dtype) if array.dtype.kind in "iu" and dtype.kind in "iu" else array
                    for array, dtype in zip(arrays, types, strict=True)
                ]

            return run

        return instance


def _imported(model: ModelProto) -> str:
    """The model in IREE's intermediate language."""
    from iree.compiler.extras import onnx_importer
    from iree.compiler.ir import Context

    named = ModelProto()
    named.CopyFrom(model)
    named.graph.name = model.graph.name or "main"
    opset = next(
        (o.version for o in named.opset_import if o.domain in ("", "ai.onnx")), _OLDEST_OPSET
    )
    if opset < _OLDEST_OPSET:
        named = version_converter.convert_version(named, _OLDEST_OPSET)
    named = shape_inference.infer_shapes(named)
    with Context() as context:
        info = onnx_importer.ModelInfo(named)
        module = info.create_module(context=context).operation
        onnx_importer.NodeImporter.define_function(info.main_graph, module).import_all()
        return str(module.get_asm())


def _compile(text: str, *flags: str) -> bytes:
    from iree.compiler import tools

    try:
        return bytes(
            tools.compile_str(
                text, target_backends=[_BACKEND], input_type="onnx", extra_args=list(flags)
            )
        )
    except tools.CompilerToolError as error:
        raise RuntimeError(_cause(str(error))) from None


def _cause(message: str) -> str:
    """What the compiler's message says to a person."""
    unknown = re.search(r'name = "onnx\.(\w+)"', message)
    if "failed to legalize" in message and unknown:
        return f"no lowering of {unknown[1]}"
    crash = re.search(r"Error code: -(\d+)", message)
    if crash:
        return f"the compiler crashed (signal {crash[1]})"
    line = re.search(r"error: (.*)", message)
    return line[1] if line else message


def _refuse_unknown_types(model: ModelProto) -> None:
    """Raises for inputs that cannot be passed as arrays."""
    for value in model.graph.input:
        kind = value.type.tensor_type.elem_type
        if not value.type.HasField("tensor_type") or kind in (
            TensorProto.STRING,
            TensorProto.UNDEFINED,
        ):
            raise NotImplementedError(f"{value.name} is not a tensor of numbers")


def _rank(model: ModelProto, name: str) -> int:
    """Number of dimensions of a tensor; -1 where the model does not declare it."""
    values = (*model.graph.input, *model.graph.value_info)
    ranks = {v.name: len(v.type.tensor_type.shape.dim) for v in values}
    ranks |= {t.name: len(t.dims) for t in model.graph.initializer}
    return ranks.get(name, -1)


def _type(model: ModelProto, name: str) -> int:
    """Element type of a tensor as ONNX numbers it; 0 where the model does not declare it."""
    values = (*model.graph.input, *model.graph.value_info)
    types = {v.name: v.type.tensor_type.elem_type for v in values}
    types |= {t.name: t.data_type for t in model.graph.initializer}
    return types.get(name, TensorProto.UNDEFINED)


def _refuse_wrong_ops(model: ModelProto) -> None:
    """Raises for what IREE computes otherwise than ONNX says, and the editor's trials do not always show."""
    for node in model.graph.node:
        if node.op_type in _WRONG:
            raise NotImplementedError(f"{node.op_type} {_WRONG[node.op_type]}")
        if node.op_type == "BitShift" and _type(model, node.input[0]) in _SIGNED:
            raise NotImplementedError("BitShift by a negative number is as the CPU has it")
        if node.op_type == "QLinearMatMul" and _rank(model, node.input[0]) != 2:
            raise NotImplementedError("QLinearMatMul of more than two dimensions has other results")
        settings = {a.name: a.s for a in node.attribute if a.name.startswith("coordinate")}
        by_scales = len(node.input) > 2 and node.input[2]
        if node.op_type == "Resize" and by_scales and b"align_corners" in settings.values():
            raise NotImplementedError("Resize by scales has other corners than those of ONNX")
