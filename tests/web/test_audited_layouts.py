"""Audits in the page: what a session really runs becomes a layout beside the plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from editor.errors import Cancelled, EditorError
from editor.web.app_state import AppState
from editor.web.open_request import OpenRequest
from editor.web.panels.audit_panel import audit_view
from editor.web.panels.compare import compare_view
from editor.web.tasks import Task
from editor.workspace.audit_layouts import AuditReport
from editor.workspace.document import Document
from editor.workspace.layouts import differing


def opened(state: AppState, folder: Path, devices: Any) -> Document:
    """A convolution, an activation that ONNX Runtime fuses with it, an op that it removes, and another one."""
    make, value = helper.make_node, helper.make_tensor_value_info
    nodes = [
        make("Conv", ["x", "w"], ["c"], "conv"),
        make("Relu", ["c"], ["r"], "relu"),
        make("Identity", ["r"], ["i"], "same"),
        make("Neg", ["i"], ["y"], "neg"),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [value("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [value("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.ones((3, 3, 3, 3), np.float32), "w")],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / "net.onnx")
    return state.open(OpenRequest(str(folder / "net.onnx"), devices))


def audited(
    state: AppState, document: Document, text: str, seconds: float = 0, **options: Any
) -> tuple[str, AuditReport]:
    return state.audit(document, text, options, seconds, Task("Auditing", True))


def texts(component: Any) -> str:
    if component is None or isinstance(component, str | int | float):
        return str(component or "")
    if isinstance(component, list | tuple):
        return " ".join(map(texts, component))
    return texts(getattr(component, "children", None))


TWO = [{"name": "other", "backendName": "OpenVINO.CPU"}, {"name": "mine", "backendName": "CPU"}]


def test_a_layout_has_the_devices_of_the_plan_where_it_has_all_that_the_session_uses(
    state: AppState, tmp_path: Path
) -> None:
    document = opened(state, tmp_path, TWO)
    name, found = audited(state, document, "CUDA,CPU")
    assert name == "audit: CUDA, CPU"
    layout = document.layout(name)
    assert layout is not None and layout.placement is not None
    assert not layout.other_devices
    assert set(layout.placement.op_counts.items()) == {("other", 0), ("mine", 4)}
    assert len(differing(document.placement, layout.placement)) == 4
    removed = {op.key for op in found.removed}
    assert removed
    assert {op.key for op in found.astray} == {"c", "r", "i", "y"} - removed
    assert layout.audited is not None
    assert (layout.audited["wanted"], layout.audited["removed"]) == ("CUDA", len(removed))
    (group,) = layout.audited["astray"]
    assert (group["actual"], group["ops"]) == ("CPU", 4 - len(removed))
    assert group["reason"] == "CUDAExecutionProvider is not on this machine"
    document.adopt(name, layout.settings)
    assert document.layout_name == name


def test_devices_that_the_plan_lacks_come_with_the_layout_and_share_no_name_with_its_own(
    state: AppState, tmp_path: Path
) -> None:
    document = opened(state, tmp_path, [{"name": "CPU", "backendName": "OpenVINO.CPU"}])
    name, _ = audited(state, document, "CPU")
    layout = document.layout(name)
    assert layout is not None and layout.placement is not None
    assert layout.other_devices
    assert dict(layout.placement.op_counts) == {"onnxruntime CPU": 4}
    assert len(differing(document.placement, layout.placement)) == 4


def test_hetero_is_asked_and_takes_no_session_options(state: AppState, tmp_path: Path) -> None:
    document = opened(state, tmp_path, TWO)
    name, found = audited(state, document, "HETERO:CPU")
    layout = document.layout(name)
    assert name == "audit: HETERO:CPU" and layout is not None and layout.placement is not None
    assert dict(layout.placement.op_counts) == {"other": 4, "mine": 0}
    assert "HETERO" in found.runtime and not found.astray
    with pytest.raises(EditorError, match="either providers"):
        audited(state, document, "HETERO:CPU", intra_op_num_threads=1)
    with pytest.raises(EditorError, match="HETERO:GPU,CPU"):
        audited(state, document, "HETERO:")


def test_session_options_reach_the_session_and_times_are_measured_on_request(
    state: AppState, tmp_path: Path
) -> None:
    document = opened(state, tmp_path, TWO)
    name, found = audited(
        state, document, "CPU", seconds=0.05, graph_optimization_level="ORT_DISABLE_ALL"
    )
    assert name == "audit: CPU with options"
    assert not found.removed  # nothing is removed or fused without optimisation
    assert found.kind == "measurement" and found.shares[0].time_share == 1.0


def test_an_audit_that_was_ended_or_failed_keeps_no_layout(state: AppState, tmp_path: Path) -> None:
    document = opened(state, tmp_path, TWO)
    task = Task("Auditing", True)
    task.cancel()
    with pytest.raises(Cancelled):
        state.audit(document, "CPU", {}, 60.0, task)
    with pytest.raises(EditorError, match="no execution provider that is known"):
        audited(state, document, "CUDDA")
    assert not document.store.layouts(document.id)


def test_compare_says_how_many_ops_are_elsewhere_why_and_what_was_removed(
    state: AppState, tmp_path: Path
) -> None:
    document = opened(state, tmp_path, TWO)
    name, found = audited(state, document, "CUDA,CPU")
    removed = len(found.removed)
    result = texts(audit_view(document, name, found))
    row = texts(compare_view(document, document.layouts()))
    for said in (result, row):
        assert "CUDAExecutionProvider is not on this machine" in said
    assert f"{4 - removed} ops of {4 - removed} not on CUDA, 1 subgraph" in result
    assert "CUDA, not on this machine 0 0.0 % 0.0 %" in " ".join(result.split())
    assert f"{4 - removed} ops not on CUDA, {removed} removed or fused" in row
