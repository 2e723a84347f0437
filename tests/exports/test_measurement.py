"""Reports say what a benchmark of the plan measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import editor
from editor.files import json_text
from editor.graph.graph import Graph

TABLE = [{"name": "A", "backendName": "CPU", "nonSupportedNodes": "Gemm"}, {"name": "B", "backendName": "CPU"}]


def test_reports_hold_the_measurement_of_their_plan_and_of_no_other(mobilenet: Graph, tmp_path: Path) -> None:
    plan = editor.partition(mobilenet, TABLE)
    result = plan.benchmark(seconds=0.2)
    file = tmp_path / "result.json"
    file.write_text(json_text([result.to_dict()]))
    median, interval = result.total.median, [result.total.low, result.total.high]

    report = json.loads(plan.export("json", tmp_path / "json", measured=str(file))[0].read_text())
    assert report["measurement"]["median"] == median and report["measurement"]["interval"] == interval
    assert report["measurement"]["kind"] == "measurement"
    text = plan.export("md", tmp_path / "md", measured=str(file))[0].read_text()
    assert "## Measurement" in text and "Unsplit on A" in text and "within tolerance" in text
    page = plan.export("html", tmp_path / "html", measured=str(file))[0].read_text()
    assert "Unsplit on A" in page
    assert "## Measurement" not in plan.export("md", tmp_path / "none")[0].read_text()

    other = plan.repin({mobilenet.op_keys[plan.placement.placed_ops[5]]: "B"})
    for form in ("md", "html", "json"):
        with pytest.raises(editor.EditorError, match="no benchmark of this plan"):
            other.export(form, tmp_path / "other", measured=str(file))


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"subgraphs": 3}', "[" * 100_000])
def test_what_is_no_benchmark_is_said(mobilenet: Graph, tmp_path: Path, text: str) -> None:
    file = tmp_path / "x.json"
    file.write_text(text)
    with pytest.raises(editor.EditorError, match="bench"):
        editor.partition(mobilenet, TABLE).export("md", tmp_path, measured=str(file))
