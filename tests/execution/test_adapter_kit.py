"""The kit for authors of adapters passes what keeps the protocol, and says what does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto

from editor.devices.device import Device
from editor.devices.discovery import AvailableDevice, Target
from editor.errors import ExecutionError
from editor.execution.adapter_kit import check_runtime
from editor.runtimes import registry
from editor.runtimes.base import SubModel
from editor.runtimes.loaded_model import LoadedModelRuntime, Run

KERNELS: dict[str, Callable[..., Any]] = {
    "Relu": lambda x: np.maximum(x, 0),
    "Abs": np.abs,
    "Neg": np.negative,
}


class Toy(LoadedModelRuntime):
    name, title = "toy", "Toy"

    def devices(self) -> Sequence[AvailableDevice]:
        return [AvailableDevice("Toy", "toy", "", "1.0", "numpy", "Toy")]

    def resolve(self, name: str, provider: str) -> Target | None:
        return Target("toy", "", True, "CPU", "Toy") if name.lower() == "toy" else None

    def check(self, model: ModelProto, device: Device) -> None:
        for node in model.graph.node:
            if node.op_type not in KERNELS:
                raise NotImplementedError(f"no kernel for {node.op_type}")

    def load(self, model: ModelProto, submodel: SubModel, device: Device) -> Callable[[], Run]:
        self.check(model, device)

        def run(inputs: list[Any]) -> list[Any]:
            values = dict(zip(submodel.inputs, inputs, strict=True))
            for node in model.graph.node:
                values[node.output[0]] = KERNELS[node.op_type](values[node.input[0]])
            return [values[name] for name in submodel.outputs]

        return lambda: run


class Careless(Toy):
    """Claims everything, writes every result into one buffer, and raises what it likes."""

    def check(self, model: ModelProto, device: Device) -> None:
        pass

    def load(self, model: ModelProto, submodel: SubModel, device: Device) -> Callable[[], Run]:
        shared = np.zeros((2, 4), np.float32)

        def run(inputs: list[Any]) -> list[Any]:
            value = inputs[0]
            for node in model.graph.node:
                value = KERNELS.get(node.op_type, np.tanh)(value)
            shared[:] = value
            return [shared]

        return lambda: run


def install(runtime: LoadedModelRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    from editor.devices import discovery

    monkeypatch.setattr(registry, "_others", lambda: ({runtime.name: runtime}, ()))
    monkeypatch.setattr(registry, "_answers", {})
    monkeypatch.setattr(discovery, "_devices", {})


def test_a_runtime_that_keeps_the_protocol_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    install(Toy(), monkeypatch)
    findings = list(check_runtime("toy", cases=60))
    assert not [f for f in findings if not f.ok]
    checks = [
        "devices",
        "capability",
        "results",
        "clones",
        "threads",
        "values",
        "errors",
        "memory",
        "split",
        "exactness",
    ]
    assert [f.check for f in findings] == checks


def test_what_a_runtime_breaks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    install(Careless(), monkeypatch)
    wrong = {f.check: f.text for f in check_runtime("toy", cases=20) if not f.ok}
    assert wrong["capability"] == "an op of an unknown domain is claimed"
    assert "clone" in wrong["clones"]
    assert wrong["errors"] == "an op that no runtime has was compiled and run"
    assert "cases pass" in wrong["exactness"]


def test_another_version_of_the_protocol_and_no_runtime_are_findings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runtime = Toy()
    runtime.api_version = 0
    install(runtime, monkeypatch)
    (finding,) = check_runtime("toy")
    assert not finding.ok and "api_version is 0" in finding.text
    with pytest.raises(ExecutionError, match="there is no runtime 'nowhere'"):
        next(check_runtime("nowhere"))
