"""Tables as spreadsheets save them: a mark of the byte order first, semicolons, decimal commas, blanks around cells."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import run, write_dag

import editor
from editor.imports.profile_files import read_table
from editor.placement.rules import load_rules
from editor.workspace.plan import Plan

MARK = "\ufeff"


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return editor.partition(
        write_dag(tmp_path / "m.onnx", [[], [0], [1]]), "HETERO:CPU,openvino,NPU"
    )


@pytest.mark.parametrize(
    "text",
    [
        "op,device\nt0,openvino\nt1,CPU\n",
        "device,op\nopenvino,t0\nCPU,t1\n",
        "op;device\nt0;openvino\nt1;CPU\n",
        "t0;openvino\nt1;CPU\n",
        "device;op\nopenvino;t0\nCPU;t1\n",
        "op , device\nt0 , openvino\n t1,CPU \n",
        "t0\topenvino\nt1\tCPU\n",
        '"op";"device"\r\n"t0";"openvino"\r\n"t1";"CPU"\r\n',
    ],
)
@pytest.mark.parametrize("mark", ["", MARK])
def test_affinities(plan: Plan, tmp_path: Path, text: str, mark: str) -> None:
    (tmp_path / "a.csv").write_text(mark + text, encoding="utf-8", newline="")
    imported, report = plan.import_affinities(tmp_path / "a.csv")
    assert imported.pins == {"t0": "openvino", "t1": "CPU"} and not report.problems


def test_a_key_that_has_blanks_itself_is_kept(tmp_path: Path) -> None:
    import onnx

    model = onnx.load(write_dag(tmp_path / "m.onnx", [[], [0]]))
    for node in model.graph.node:
        node.output[:] = [f"{name} " for name in node.output]
        node.input[:] = [name if name == "x" else f"{name} " for name in node.input]
    model.graph.output[0].name += " "
    onnx.save(model, tmp_path / "m.onnx")
    plan = editor.partition(tmp_path / "m.onnx", "HETERO:CPU,openvino")
    (tmp_path / "a.csv").write_text("op,device\nt0 ,openvino\n")
    assert plan.import_affinities(tmp_path / "a.csv")[0].pins == {"t0 ": "openvino"}


@pytest.mark.parametrize(
    "text",
    [
        "op,microseconds\nt0,12.5\nt1,3\n",
        "op;microseconds\nt0;12,5\nt1;3\n",
        "t0;12,5\nt1;3\n",
        "microseconds;op\n12,5;t0\n3;t1\n",
        "op;ms\nt0;0,0125\nt1;0,003\n",
    ],
)
@pytest.mark.parametrize("mark", ["", MARK])
def test_times(plan: Plan, tmp_path: Path, text: str, mark: str) -> None:
    (tmp_path / "times.csv").write_text(mark + text, encoding="utf-8")
    plan.import_profile(tmp_path / "times.csv", "NPU")
    times = read_table(tmp_path / "times.csv", text)
    assert [(one.name, round(one.seconds * 1e6, 3)) for one in times.layers] == [
        ("t0", 12.5),
        ("t1", 3),
    ]


def test_json_and_tables_with_a_mark(plan: Plan, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(
        MARK + json.dumps({"t0": "openvino", " t1 ": "CPU"}), encoding="utf-8"
    )
    assert plan.import_affinities(tmp_path / "a.json")[0].pins == {"t0": "openvino", "t1": "CPU"}
    plan.save(tmp_path / "plan.json")
    (tmp_path / "marked.json").write_text(
        MARK + (tmp_path / "plan.json").read_text(), encoding="utf-8"
    )
    assert editor.load_plan(tmp_path / "marked.json").affinity == plan.affinity
    (tmp_path / "rules.yaml").write_text(MARK + "- {type: Neg, to: CPU}\n", encoding="utf-8")
    assert load_rules(tmp_path / "rules.yaml")[0].to == "CPU"
    (tmp_path / "table.yaml").write_text(MARK + "- {name: A, backendName: CPU}\n", encoding="utf-8")
    assert editor.load_devices(tmp_path / "table.yaml")[0].name == "A"


def test_the_exported_table_of_ops_comes_back_as_pins_and_never_as_a_profile(
    plan: Plan, tmp_path: Path
) -> None:
    plan = editor.partition(plan.graph, plan.devices, pins={"t0": "openvino", "t1": "CPU"})
    (table,) = plan.export("csv", tmp_path)
    bare = editor.partition(plan.graph, plan.devices)
    for separator in (",", ";"):
        table.write_text(table.read_text().replace(",", separator))
        imported, report = bare.import_affinities(table)
        assert imported.affinity == plan.affinity and not report.problems
        arguments = ("import", str(bare.save(tmp_path / "bare.json")), str(table))
        done = run(*arguments, "--out", str(tmp_path / "new.json"))
        assert done.returncode == 0 and "3 ops pinned" in done.stdout, done.stderr
        done = run(*arguments, "--device", "CPU")
        assert done.returncode == 1
        assert "line 3: this time was not measured (its kind is estimate)" in done.stderr


def test_measured_times_beside_devices_are_a_profile_where_a_device_is_named(
    plan: Plan, tmp_path: Path
) -> None:
    path = tmp_path / "t.csv"
    path.write_text("op,device,microseconds\nt0,CPU,5\nt1,CPU,6\nt2,CPU,7\n")
    assert plan.import_affinities(path)[0].pins == dict.fromkeys(("t0", "t1", "t2"), "CPU")
    assert plan.import_profile(path, "CPU")[1].share == 1


def test_counters_with_decimal_commas(plan: Plan, tmp_path: Path) -> None:
    header = "layerName;execStatus;layerType;execType;realTime (ms);cpuTime (ms)\n"
    row = "{0};EXECUTED;Relu;jit;{1};{1}\n"
    path = tmp_path / "counters.csv"
    path.write_text(header + "".join(row.format(f"t{i}", "0,120") for i in range(3)))
    report = plan.import_profile(path, "CPU")[1]
    assert report.total == pytest.approx(3 * 120e-6) and report.share == 1


@pytest.mark.parametrize("text", ["op,microseconds\nt0,12,5\n", "t0,12,5\nt1,13,5\n"])
def test_a_decimal_comma_between_commas_is_refused(plan: Plan, tmp_path: Path, text: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(editor.PlanError, match="put `;` between the cells"):
        plan.import_profile(tmp_path / "t.csv", "CPU")
