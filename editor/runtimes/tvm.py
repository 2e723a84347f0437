"""TVM on the CPU through LLVM: the optional extra ``tvm``."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Sequence
from typing import Any

from onnx import ModelProto

from editor.devices.device import Device, Property
from editor.devices.discovery import AvailableDevice, Target, is_present
from editor.operating_system import cpu_name
from editor.runtimes.base import SubModel
from editor.runtimes.loaded_model import LoadedModelRuntime, Run, contiguous

_PACKAGE, _TARGET = "apache-tvm", "llvm"


class Tvm(LoadedModelRuntime):
    """Capability from the importer of ONNX; execution by Relax's virtual machine."""

    name = "tvm"
    title = "TVM"

    def devices(self) -> Sequence[AvailableDevice]:
        """The CPU, where TVM is installed."""
        version = importlib.metadata.version(_PACKAGE)  # PackageNotFoundError is an ImportError
        return [AvailableDevice("TVM", self.name, _TARGET, version, cpu_name(), self.title)]

    def properties(self, provider: str) -> Sequence[Property]:
        """The target to compile for."""
        return (Property("target", "text", "TVM's target, such as llvm -mcpu=skylake or cuda"),)

    def resolve(self, name: str, provider: str) -> Target | None:
        """``TVM``."""
        if name.lower() != self.name:
            return None
        if not is_present(self.name, _TARGET):
            return Target("", "", False, "CPU")
        return Target(self.name, _TARGET, True, "CPU", f"{self.title}, {_TARGET}")

    def is_tried(self, device: Device) -> bool:
        """Compiling an op takes seconds."""
        return False

    def check(self, model: ModelProto, device: Device) -> None:
        """Imports the model."""
        from tvm.relax.frontend.onnx import from_onnx

        from_onnx(model)

    def load(self, model: ModelProto, submodel: SubModel, device: Device) -> Callable[[], Run]:
        """Imports and compiles; weights become constants of the module."""
        import tvm
        from tvm import relax
        from tvm.relax.frontend.onnx import from_onnx

        module = tvm.compile(from_onnx(model), target=device.properties.get("target", _TARGET))

        def instance() -> Run:
            machine = relax.VirtualMachine(module, tvm.cpu())

            def run(inputs: list[Any]) -> Sequence[Any]:
                results = machine["main"](
                    *[tvm.runtime.tensor(array) for array in contiguous(inputs)]
                )
                several = (
                    results
                    if len(submodel.outputs) > 1 or not hasattr(results, "numpy")
                    else [results]
                )
                return [value.numpy() for value in several]

            return run

        return instance
