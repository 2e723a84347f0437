"""Base class of runtimes that take a whole model in memory and compute with numpy arrays.

The file to copy for a simple runtime: `interpreter.py` is one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto

from editor.devices.device import Device
from editor.errors import ExecutionError
from editor.graph.external_data import load_external_data
from editor.runtimes.base import CompileOptions, SubModel, Value, summarize_error
from editor.runtimes.defaults import RuntimeDefaults
from editor.runtimes.protocols import Executable
from editor.runtimes.values import to_numpy

Run = Callable[[list[Any]], Sequence[Value]]
"""Computes the outputs of a loaded model from its inputs, both in the order of the sub-model."""


class LoadedModelRuntime(RuntimeDefaults):
    """A runtime by two methods: ``check`` for capability and ``load`` for execution."""

    def check(self, model: ModelProto, device: Device) -> None:
        """Raises whatever the runtime raises when it cannot run every node of a small model."""
        raise NotImplementedError

    def load(self, model: ModelProto, submodel: SubModel, device: Device) -> Callable[[], Run]:
        """Loads a model with its weights; returns a factory of instances for one thread each."""
        raise NotImplementedError

    def refusal(self, model: ModelProto, device: Device) -> str:
        """What ``check`` raises."""
        try:
            self.check(model, device)
        except ImportError:
            raise
        except Exception as error:  # noqa: BLE001  # whatever a runtime raises is its reason
            return f"{self.title}: {summarize_error(error)}"
        return ""

    def compile(self, submodel: SubModel, device: Device, options: CompileOptions) -> Executable:
        """Loads the sub-model with its weights.

        Raises:
            ExecutionError: the runtime refuses it.
        """
        try:
            model = ModelProto()
            model.CopyFrom(submodel.model)
            load_external_data(model, submodel.folder)
            return _LoadedModel(
                self.load(model, submodel, device),
                f"{submodel.label} on {device.name}: {self.title}",
            )
        except Exception as error:  # whatever a runtime raises is its reason
            raise ExecutionError(
                f"{submodel.label} on {device.name}: {self.title}: {summarize_error(error)}"
            ) from error


class _LoadedModel:
    def __init__(self, instance: Callable[[], Run], label: str) -> None:
        self._instance, self._label = instance, label
        self._run = instance()

    def run(self, inputs: Sequence[Value]) -> list[Value]:
        """Runs on numpy arrays."""
        try:
            return list(self._run([to_numpy(value) for value in inputs]))
        except Exception as error:  # whatever a runtime raises is its reason
            raise ExecutionError(f"{self._label}: {summarize_error(error)}") from error

    def clone(self) -> Executable:
        """Another instance of the same loaded model."""
        return _LoadedModel(self._instance, self._label)


def contiguous(values: Sequence[Value]) -> list[Any]:
    """Arrays in C order."""
    return [np.ascontiguousarray(value) for value in values]
