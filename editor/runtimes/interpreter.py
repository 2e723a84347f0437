"""The ONNX package's reference evaluator: slow, and the definition of what an op means."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Sequence

from onnx import ModelProto

from editor.devices.device import Device
from editor.devices.discovery import AvailableDevice, Target
from editor.runtimes.base import SubModel
from editor.runtimes.loaded_model import LoadedModelRuntime, Run


class Interpreter(LoadedModelRuntime):
    """Capability from the evaluator's own op table; execution with numpy."""

    name = "interpreter"
    title = "ONNX reference interpreter"
    slowdown = 40.0  # plain numpy, one op at a time

    def devices(self) -> Sequence[AvailableDevice]:
        """Always there."""
        version = importlib.metadata.version("onnx")
        return [
            AvailableDevice("Interpreter", self.name, "", version, "numpy on the CPU", self.title)
        ]

    def resolve(self, name: str, provider: str) -> Target | None:
        """``Interpreter``, ``Reference`` or ``ReferenceEvaluator``."""
        if name.lower() in ("interpreter", "reference", "referenceevaluator"):
            return Target(self.name, "", True, "CPU", self.title, self.slowdown)
        return None

    def is_tried(self, device: Device) -> bool:
        """It is the definition of what ops mean, and slow."""
        return False

    def check(self, model: ModelProto, device: Device) -> None:
        """An evaluator looks every op up when it is made."""
        from editor.runtimes.reference_ops import evaluator_of

        evaluator_of(model)

    def load(self, model: ModelProto, submodel: SubModel, device: Device) -> Callable[[], Run]:
        """An evaluator keeps no state between runs, so one serves all threads."""
        from editor.runtimes.reference_ops import evaluator_of

        evaluator = evaluator_of(model)
        return lambda: (
            lambda inputs: evaluator.run(
                list(submodel.outputs), dict(zip(submodel.inputs, inputs, strict=True))
            )
        )
