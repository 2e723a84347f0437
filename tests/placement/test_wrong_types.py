"""A device that refuses most of a model for its element type is found, with what plans the model in another one."""

from __future__ import annotations

from typing import Any

import pytest

import editor
from editor.graph.graph import Graph
from editor.placement.remarks import wrong_types


@pytest.mark.parametrize(
    ("entry", "text", "way_out"),
    [
        (
            {"preset": "edgetpu"},
            "N takes int8 or uint8 only; this model is float32",
            "`N(edgetpu as int8)` in --devices",
        ),
        (
            {"preset": "nvidia-dla"},
            "N takes float16 or int8 only; this model is float32",
            "`N(nvidia-dla as float16)` in --devices",
        ),
        (
            {"backendName": "NPU", "dtypes": ["int8"]},
            "N takes int8 only; this model is float32",
            "`assumes: int8` in its entry of the device table",
        ),
    ],
)
def test_the_type_and_the_way_out_are_said(
    mobilenet: Graph, entry: dict[str, Any], text: str, way_out: str
) -> None:
    plan = editor.partition(mobilenet, [{"name": "N", **entry}, {"name": "CPU"}])
    (found,) = wrong_types(plan.placement)
    assert found.text == text and found.way_out.startswith(way_out)
    assert (found.number, found.ops) == (0, 0)


@pytest.mark.parametrize(
    "entry",
    [
        {"preset": "edgetpu", "assumes": "int8"},
        {"preset": "hailo8"},
        {"backendName": "NPU", "dtypes": ["int8", "float32"]},
        {"backendName": "NPU", "dtypes": ["int64"]},
        {"backendName": "NPU", "supported": ["Gemm"], "dtypes": ["int8"]},
    ],
)
def test_nothing_is_said_where_the_type_is_not_what_keeps_the_model_off(
    mobilenet: Graph, entry: dict[str, Any]
) -> None:
    plan = editor.partition(mobilenet, [{"name": "N", **entry}, {"name": "CPU"}])
    assert not wrong_types(plan.placement)
