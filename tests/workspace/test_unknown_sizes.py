"""Tensors whose size is known only in a run are said beside the bytes, which have 0 for them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import save_net
from onnx import TensorProto, helper

import editor
from editor.__main__ import main
from editor.placement.subgraphs.division import moved_in_words


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """NonZero gives as many indices as there are values."""
    nodes = [
        helper.make_node("NonZero", ["x"], ["where"]),
        helper.make_node("Neg", ["where"], ["y"]),
    ]
    value = helper.make_tensor_value_info
    outputs = [value("y", TensorProto.INT64, [2, None])]
    path = tmp_path / "net.onnx"
    save_net(path, nodes, [value("x", TensorProto.FLOAT, ["rows", 4])], outputs)
    table = [{"name": "A", "backendName": "CPU"}, {"name": "B", "backendName": "CPU"}]
    loaded = editor.load_model(path, define={"rows": 2})
    editor.partition(loaded, table, pins={"where": "A", "y": "B"}).save(tmp_path / "plan.json")
    return tmp_path / "plan.json"


def test_check_says_what_its_bytes_do_not_have(
    plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(plan), "--max-bytes", "0"]) == 0
    assert (
        "note: bytes moved has 0 for 1 tensor whose size is not known before a run"
        in capsys.readouterr().out
    )
    assert main(["check", str(plan), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["unknown_transfers"] == 1


def test_sizes_says_it_beside_the_bytes(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sizes", str(plan), "rows=2,8"]) == 0
    assert capsys.readouterr().out.count("0 B and 1 tensor of unknown size") == 2
    assert moved_in_words(1500, 0) == "1.5 kB"
