"""Base classes for runtimes: answers that most give, and models that are loaded from a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
from onnx import ModelProto

from editor.devices.device import Device
from editor.errors import ExecutionError
from editor.graph.external_data import load_external_data
from editor.graph.graph import Graph
from editor.runtimes.base import Capability, CompileOptions, SubModel, Value, summarize_error
from editor.runtimes.protocols import API_VERSION, Executable, Runtime
from editor.runtimes.values import to_numpy


class RuntimeDefaults(Runtime):
    """The plain answers of the protocol: values are numpy arrays in host memory, there is no profiler, float32 is float32."""

    api_version = API_VERSION
    slowdown = 1.0
    loads_custom_ops = False
    answers_for_planned = False
    """Whether it is asked about a device that this machine lacks, as a compiler can be that needs no device."""
    formats: tuple[str, ...] = ("onnx",)
    """What the models are made of that it runs."""

    def capability(self, graph: Graph, device: Device) -> Capability:
        """Asks about single ops, and tries them; see ``asking``."""
        from editor.runtimes.capability import (
            capability_of,
        )  # which imports what runtimes are made of

        return capability_of(graph, self, device)


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
        """Returns the error that ``check`` raises."""
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
            model = deepcopy(submodel.model)
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
