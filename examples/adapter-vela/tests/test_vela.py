"""The adapter in the editor: `pip install . pytest`, then `pytest tests`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import editor

pytest.importorskip("ethosu.vela", reason="ethos-u-vela is not installed")

from hetero_editor_vela import operators_of_layers, read_net, version
from int8_net import write_int8_net

from editor.kinds import Kind
from editor.placement.chosen_costs import costs_of_plan

TABLE = [{"name": "Ethos-U55"}, {"name": "CPU", "backendName": "OpenVINO.CPU"}]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def net(tmp_path: Path) -> Path:
    return write_int8_net(tmp_path / "net.tflite")


def test_layers_are_matched_to_operators_of_the_file(net: Path) -> None:
    graph, file = editor.load_model(net), read_net(net)
    assert [one.kind for one in file.operators] == ["CONV_2D", "SQRT", "ADD", "MAX_POOL_2D"]
    owner = operators_of_layers(graph, file)
    parts: dict[str, list[str]] = {one.output: [] for one in file.operators}
    for op in graph.order.tolist():
        if not graph.op_is_constant[op]:
            parts[file.operators[owner[op]].output].append(graph.op_types[op])
    assert parts == {
        "net/conv": ["Transpose", "Cast", "FakeQuantize", "Conv", "Add", "FakeQuantize"],
        "net/sqrt": ["Pow", "FakeQuantize"],
        "net/sum": ["Add", "FakeQuantize"],
        "net/pool": ["MaxPool", "FakeQuantize", "Cast", "Transpose"],
    }


@pytest.mark.parametrize("device", ["Ethos-U55", "Ethos-U65", "Ethos-U85"])
def test_placement_and_reasons_are_those_of_vela(device: str, net: Path) -> None:
    plan = editor.partition(net, f"HETERO:{device},OpenVINO.CPU")
    (off,) = [s for s in plan.subgraphs if s.device == "OpenVINO.CPU"]
    types = {plan.graph.op_types[plan.graph.key_index[key]] for key in off.ops}
    assert types == {"Pow", "FakeQuantize"}
    key = next(
        key
        for key, kind in zip(plan.graph.op_keys, plan.graph.op_types, strict=True)
        if kind == "Pow"
    )
    assert f"{version()}: SQRT: Unsupported opType" in str(plan.why(key))
    assert all(d.planned for d in plan.devices if d.name == device)


def test_a_run_has_the_results_of_the_unsplit_model(net: Path) -> None:
    image = np.random.default_rng(0).integers(-128, 128, (1, 16, 16, 8)).astype(np.int8)
    split = editor.partition(net, TABLE).run({"image": image})
    whole = editor.partition(net, TABLE[1:]).run({"image": image})
    for name, value in whole.items():
        # Fused layers round once less; a step of what is near 0 is three steps of its square root.
        assert np.abs(split[name].astype(int) - value.astype(int)).max() <= 3


def test_cycles_become_estimates_that_say_where_they_come_from(net: Path, tmp_path: Path) -> None:
    plan = editor.partition(net, [{**TABLE[0], "provider": "ethos-u55-128"}, TABLE[1]])
    path = plan.save(tmp_path / "plan.json")
    for command in (("hetero_editor_vela", path), ("editor", "profile", path, "--seconds", "0.2")):
        done = subprocess.run(
            [sys.executable, "-m", *map(str, command)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    solved = editor.partition(
        plan.graph, plan.devices, policy="optimal", policy_options={"costs": "measured"}
    )
    costs, basis = costs_of_plan(plan.placement)
    assert basis.kind is Kind.ESTIMATE
    assert f"{version()} for ethos-u55-128, estimate of the compiler" in str(basis)
    conv = plan.graph.op_types.index("Conv")
    assert 0 < costs.op[conv, 0] < 1e-3 and solved.subgraphs


def test_a_model_of_another_format_is_refused_with_the_reason() -> None:
    model = Path(__file__).parents[3] / "examples" / "models" / "mobilenetv2.onnx"
    plan = editor.partition(model, "HETERO:Ethos-U55,CPU")
    assert plan.placement.op_counts["Ethos-U55"] == 0
    assert "reads int8 models of TensorFlow Lite" in str(plan.why("logits"))


def test_a_configuration_that_vela_does_not_know(net: Path) -> None:
    with pytest.raises(editor.ExecutionError, match="invalid choice: 'ethos-u99'"):
        editor.partition(net, [{**TABLE[0], "provider": "ethos-u99"}, TABLE[1]])
