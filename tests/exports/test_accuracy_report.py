"""The accuracy of a plan in its reports and in the table of ops."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from conftest import write_dag

import editor
from editor.errors import ExportError
from editor.execution.measure.accuracy import accuracy_of
from editor.files import json_text

TWO = [{"name": "A", "backendName": "CPU"}, {"name": "B", "backendName": "OpenVINO.CPU"}]


@pytest.fixture
def plan(tmp_path: Path) -> editor.Plan:
    """A chain of four ops, the third on another device than the others."""
    path = write_dag(tmp_path / "net.onnx", [[i - 1] if i else [] for i in range(4)])
    graph = editor.load_model(path)
    return editor.partition(graph, TWO, pins={graph.op_keys[2]: "B"})


def written(plan: editor.Plan, folder: Path) -> tuple[editor.Accuracy, str]:
    """The accuracy of a plan, and the file of its JSON."""
    found = plan.accuracy(every_tensor=True)
    path = folder / "accuracy.json"
    path.write_text(json_text(found.as_dict()))
    return found, str(path)


def test_an_accuracy_is_the_same_after_it_was_written(plan: editor.Plan, tmp_path: Path) -> None:
    found, path = written(plan, tmp_path)
    assert accuracy_of(json.loads(Path(path).read_text())) == found
    assert accuracy_of(found.as_dict()) == found
    assert found.plan == plan.placement.fingerprint


def test_a_number_that_is_not_finite_is_still_outside_after_it_was_written(
    plan: editor.Plan, tmp_path: Path
) -> None:
    data = written(plan, tmp_path)[0].as_dict()
    data["tensors"][1] |= {"relative": float("inf"), "noise": float("inf"), "ok": False}
    read = accuracy_of(json.loads(json_text(data)))
    assert read.first is read.tensors[1]
    assert (read.first.relative, read.first.snr) == (float("inf"), float("-inf"))
    (tmp_path / "wild.json").write_text(json_text(data))
    page = plan.export("md", tmp_path, accuracy=str(tmp_path / "wild.json"))[0].read_text()
    assert "relative error not finite of" in page
    html = plan.export("html", tmp_path, accuracy=str(tmp_path / "wild.json"))[0].read_text()
    assert "Infinity" not in html.partition('id="data">')[2].partition("</script>")[0]


def test_reports_have_the_verdict_the_worst_ends_of_subgraphs_and_all_tensors(
    plan: editor.Plan, tmp_path: Path
) -> None:
    found, path = written(plan, tmp_path)
    report = json.loads(plan.export("json", tmp_path, accuracy=path)[0].read_text())["accuracy"]
    ends = {name for subgraph in plan.subgraphs for name in subgraph.outputs}
    assert [row["tensor"] for row in report["tensors"]] == [one.tensor for one in found.tensors]
    assert {row["tensor"] for row in report["worst"]} == ends
    relative = [row["relative"] for row in report["worst"]]
    assert relative == sorted(relative, reverse=True)
    assert (report["outside"], report["first"]) == (0, None)
    text = plan.export("md", tmp_path, accuracy=path)[0].read_text()
    section, appendix = (
        text.partition("## Accuracy\n")[2].partition("<details>")[0],
        text.partition("<summary>Accuracy by tensor (4)</summary>")[2],
    )
    assert f"4 tensors compared with {found.reference}: all are within their tolerances." in section
    assert all(f"| {name} |" in section for name in ends)
    assert all(f"| {one.tensor} |" in appendix for one in found.tensors)


def test_a_report_names_the_first_op_outside_its_tolerance(
    plan: editor.Plan, tmp_path: Path
) -> None:
    data = written(plan, tmp_path)[0].as_dict()
    for row in data["tensors"][2:]:
        row |= {"relative": 0.5, "noise": 0.1, "ok": False, "origin": "grown"}
    (tmp_path / "outside.json").write_text(json_text(data))
    text = plan.export("md", tmp_path, accuracy=str(tmp_path / "outside.json"))[0].read_text()
    third = data["tensors"][2]
    assert "2 outside their tolerances." in text
    assert f"in the order of the run: {third['tensor']} of {third['name']}" in text
    assert "relative error 0.5 of" in text and "0.5 **outside**" in text
    page = plan.export("html", tmp_path, accuracy=str(tmp_path / "outside.json"))[0].read_text()
    assert "2 outside their tolerances." in page


def test_without_an_accuracy_reports_have_no_such_part(plan: editor.Plan, tmp_path: Path) -> None:
    assert "Accuracy" not in plan.export("md", tmp_path)[0].read_text()
    assert json.loads(plan.export("json", tmp_path)[0].read_text())["accuracy"] is None


def test_the_table_of_ops_has_the_noisiest_tensor_of_each(
    plan: editor.Plan, tmp_path: Path
) -> None:
    found, path = written(plan, tmp_path)
    lines = plan.export("csv", tmp_path, accuracy=path)[0].read_text().splitlines()
    rows = {row["op"]: row for row in csv.DictReader(lines[1:])}
    for one in found.tensors:
        row = rows[one.key]
        assert float(row["relative"]) == one.relative and float(row["noise"]) == one.noise
        assert (float(row["tolerance"]), row["ok"]) == (one.tolerance, "yes")
    table = tmp_path / f"{plan.graph.name}_ops.csv"
    imported, report = plan.import_affinities(table)
    assert report.pinned == 4 and imported.affinity == plan.affinity


def test_the_table_of_ops_leaves_ops_empty_that_were_not_compared(
    plan: editor.Plan, tmp_path: Path
) -> None:
    path = tmp_path / "ends.json"
    path.write_text(json_text(plan.accuracy().as_dict()))
    lines = plan.export("csv", tmp_path, accuracy=str(path))[0].read_text().splitlines()
    compared = [bool(row["noise"]) for row in csv.DictReader(lines[1:])]
    assert compared == [False, True, True, True]


def test_what_is_no_accuracy_of_the_plan_is_refused(plan: editor.Plan, tmp_path: Path) -> None:
    _, path = written(plan, tmp_path)
    other = editor.partition(plan.graph, TWO)
    with pytest.raises(ExportError, match="is not of this plan"):
        other.export("html", tmp_path, accuracy=path)
    (tmp_path / "run.json").write_text('{"format": "other"}')
    for wrong in ("run.json", "none.json"):
        with pytest.raises(ExportError, match="it must be what `accuracy --json` wrote"):
            plan.export("md", tmp_path, accuracy=str(tmp_path / wrong))
