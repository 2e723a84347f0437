"""Models of PyTorch, where torch is installed; and what is said where it is not."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import editor

needs_torch = pytest.mark.skipif(
    find_spec("torch") is None or find_spec("onnxscript") is None,
    reason="torch and onnxscript are an extra",
)
TWO = [
    {"name": "A", "backendName": "CPU"},
    {"name": "B", "backendName": "OpenVINO.CPU"},
]


def network() -> Any:
    import torch

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.down = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

        def forward(self, x: Any) -> Any:
            return x + self.down(torch.nn.functional.gelu(self.up(x)))

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.ModuleList([Block() for _ in range(3)])

        def forward(self, x: Any) -> Any:
            for layer in self.layers:
                x = layer(x)
            return x

    return Net().eval()


@needs_torch
def test_a_module_opens_its_modules_are_blocks_and_have_devices(tmp_path: Path) -> None:
    import torch

    net, x = network(), torch.randn(2, 8)
    graph = editor.load_model(net, (x,))
    assert graph.name == "Net"
    assert {"layers.0", "layers.0.up", "layers.2.down"} <= set(graph.op_modules)
    second = [
        key
        for key, module in zip(graph.op_keys, graph.op_modules, strict=True)
        if module.startswith("layers.1")
    ]
    plan = editor.partition(graph, TWO, pins=dict.fromkeys(second, "B"))
    assert plan.device_map() == {"layers.0": "A", "layers.1": "B", "layers.2": "A"}
    assert plan.device_map().split == ("layers",)
    name = graph.tensor_names[graph.inputs[0]]
    (found,) = plan.run({name: x.numpy()}).values()
    assert np.allclose(found, net(x).detach().numpy(), atol=1e-5)


@needs_torch
def test_a_saved_program_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    program = torch.export.export(network(), (torch.randn(2, 8),))
    torch.export.save(program, tmp_path / "net.pt2")
    with pytest.raises(editor.ModelError, match="runs code when torch loads it"):
        editor.load_model(tmp_path / "net.pt2")
    monkeypatch.setenv("HETERO_EDITOR_TRUST", "1")
    graph = editor.load_model(tmp_path / "net.pt2")
    assert (graph.source, graph.format, graph.name) == ("pytorch", "onnx", "net")
    assert "layers.1.up" in graph.op_modules
    plan = editor.partition(graph, "HETERO:CPU")
    assert plan.device_map() == {"": "cpu"}


def test_a_file_that_is_no_program_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HETERO_EDITOR_TRUST", "1")
    (tmp_path / "net.pt2").write_bytes(b"PK\x03\x04nonsense")
    said = "not a program of torch.export" if find_spec("torch") else "needs torch"
    with pytest.raises(editor.ModelError, match=said) as error:
        editor.load_model(tmp_path / "net.pt2")
    assert "\n" not in str(error.value)
