"""Every export is loaded by the tool that it is for, and every import restores the plan."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import importlib.util
import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import openvino
import pytest
from conftest import EXAMPLES, ODDITIES, PLAIN_FORMATS, python, run, save_net
from pages import CHROMIUM
from painted import TWINS, painted

import editor
from editor.execution.executor import compile_whole
from editor.execution.invented_inputs import random_inputs
from editor.execution.measure.mismatch import compare
from editor.exports.glow import conflicts
from editor.exports.report import write_comparison
from editor.files import json_text, write_atomic
from editor.graph.graph import Graph
from editor.imports.affinity_files import read_affinities
from editor.placement.device_profile import costs_of
from editor.runtimes.base import Capability
from editor.version import VERSION

CPU_AUTO = [
    {"name": "CPU", "backendName": "openvino", "provider": "CPU"},
    {"name": "AUTO", "backendName": "openvino", "provider": "AUTO"},
]


def module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"made_{path.stem}_{abs(hash(str(path)))}", path)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.mark.parametrize("form", [f for f in PLAIN_FORMATS if f != "tvm"] + ["tvm"])
def test_exports_are_deterministic_and_state_their_origin(
    mobilenet: Graph, tmp_path: Path, form: str
) -> None:
    plan = painted(mobilenet, TWINS)
    files = [sorted(p for p in plan.export(form, tmp_path / run)) for run in ("one", "two")]
    assert files[0] and [p.name for p in files[0]] == [p.name for p in files[1]]
    for a, b in zip(*files, strict=True):
        assert a.read_bytes() == b.read_bytes(), a.name
    for path in files[0]:
        if not path.with_name(
            f"{path.name}.json"
        ).exists():  # which says it of a format to the byte
            text = path.read_bytes()
            assert plan.sha256.encode() in text and VERSION.encode() in text, path.name
    if "partition.log" in {p.name for p in files[0]}:
        log, beside = (
            tmp_path / "one" / "partition.log",
            json.loads((tmp_path / "one" / "partition.log.json").read_text()),
        )
        assert (
            beside["sha256"] == hashlib.sha256(log.read_bytes()).hexdigest()
            and plan.sha256 in beside["made_by"]
        )


def test_exports_do_not_depend_on_the_order_of_sets(mobilenet: Graph, tmp_path: Path) -> None:
    path = painted(mobilenet, TWINS).save(tmp_path / "plan.json")
    script = (
        "import sys, editor\n"
        "plan = editor.load_plan(sys.argv[1])\n"
        f"for form in {PLAIN_FORMATS}: plan.export(form, sys.argv[2] + '/' + form)"
    )
    for seed in ("1", "2"):
        subprocess.run(
            [sys.executable, "-c", script, str(path), str(tmp_path / "out")],
            check=True,
            cwd=EXAMPLES.parent,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        (tmp_path / "out").rename(tmp_path / seed)
    files = [sorted(p for p in (tmp_path / seed).rglob("*") if p.is_file()) for seed in ("1", "2")]
    assert len(files[0]) == len(files[1]) > len(PLAIN_FORMATS)
    for a, b in zip(*files, strict=True):
        assert (
            a.relative_to(tmp_path / "1") == b.relative_to(tmp_path / "2")
            and a.read_bytes() == b.read_bytes()
        ), a.name


@pytest.fixture
def with_weights(tmp_path: Path) -> Graph:
    """Two products whose weights lie in a file beside the model."""
    (tmp_path / "model").mkdir()
    weights = [
        onnx.numpy_helper.from_array(np.full((64, 64), i + 1, np.float32), f"w{i}")
        for i in range(2)
    ]
    nodes = [
        onnx.helper.make_node("MatMul", ["x" if i == 0 else "t0", f"w{i}"], [f"t{i}"], f"n{i}")
        for i in range(2)
    ]
    values = [
        onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [1, 64]) for n in ("x", "t1")
    ]
    model = onnx.helper.make_model(
        onnx.helper.make_graph(nodes, "g", values[:1], values[1:], weights),
        ir_version=10,
        opset_imports=[onnx.helper.make_opsetid("", 17)],
    )
    onnx.save(
        model,
        tmp_path / "model" / "m.onnx",
        save_as_external_data=True,
        location="m.data",
        size_threshold=0,
    )
    return editor.load_model(tmp_path / "model" / "m.onnx")


@pytest.mark.parametrize("form", ["onnxruntime", "openvino", "onnx", "tvm", "split"])
def test_external_weights_of_an_export_are_replaced_completely(
    form: str, with_weights: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As every export is: written under another name, then renamed."""
    monkeypatch.setattr("editor.exports.model_copy._MAX_FILE_BYTES", 0)
    plan = editor.partition(with_weights, TWINS, pins={"t1": "B"})
    out = tmp_path / "out"
    out.mkdir()
    names = ["subgraph_0.onnx.data", "subgraph_1.onnx.data"] if form == "split" else ["m.data"]
    for name in names:
        (out / name).write_bytes(b"old")
    with contextlib.ExitStack() as stack:
        readers = [stack.enter_context(open(out / name, "rb")) for name in names]
        written = plan.export(form, out)
        assert all(
            reader.read() == b"old" for reader in readers
        )  # who had it open still has all of it
    assert sorted(p.name for p in out.iterdir()) == sorted(
        p.name for p in written
    )  # nothing temporary is left
    models = [p for p in written if p.suffix == ".onnx"]
    assert len(models) == (2 if form == "split" else 1)
    for path in models:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        assert plan.sha256 in session.get_modelmeta().custom_metadata_map["hetero_editor"]
        assert openvino.Core().read_model(path) is not None
        onnx.checker.check_model(str(path))
    onnx.checker.check_model(str(with_weights.path))  # a hard link would spoil the original as well


def test_an_export_never_replaces_the_model(with_weights: Graph) -> None:
    plan, before = editor.partition(with_weights, TWINS), with_weights.path.read_bytes()
    for form in ("openvino", "tvm"):
        with pytest.raises(editor.ExportError, match="the model itself; choose another folder"):
            plan.export(form, with_weights.path.parent)
    assert with_weights.path.read_bytes() == before
    with pytest.raises(
        editor.ExportError, match="csv has no option 'colour'; choose one of: accuracy"
    ):
        plan.export("csv", with_weights.path.parent, colour="red")


def test_openvino_accepts_the_affinities_and_computes_the_same(
    mobilenet: Graph, tmp_path: Path
) -> None:
    plan = painted(mobilenet, CPU_AUTO)
    plan.export("openvino", tmp_path)
    script = module(tmp_path / "mobilenetv2_openvino.py")
    model, sidecar = script.annotated()
    assert sidecar["device"] == "HETERO:CPU,AUTO"
    given = {
        name: op.get_rt_info()["affinity"].astype(str)
        for op in model.get_ordered_ops()
        for o in op.outputs()
        for name in o.get_names()
    }
    checked = [
        key
        for key in mobilenet.op_keys
        if key in given and not mobilenet.op_is_constant[mobilenet.key_index[key]]
    ]
    assert len(checked) > 90 and all(given[key] == plan.affinity[key] for key in checked)
    home = Path.cwd()
    os.chdir(tmp_path)
    os.environ["OPENVINO_HETERO_VISUALIZE"] = "1"
    try:
        compiled = script.compile_model({"INFERENCE_PRECISION_HINT": "f32"})
    finally:
        del os.environ["OPENVINO_HETERO_VISUALIZE"]
        os.chdir(home)
    inputs = random_inputs(mobilenet)
    request = compiled.create_infer_request()
    for port, value in zip(compiled.inputs, inputs.values(), strict=True):
        request.set_tensor(port, openvino.Tensor(np.ascontiguousarray(value)))
    request.infer()
    expected = compile_whole(mobilenet, editor.load_devices(TWINS)[0]).run(inputs)
    assert compare(
        "", expected, {"logits": np.array(request.get_output_tensor(0).data)}
    ).within_tolerance
    dump = next(tmp_path.glob("hetero_affinity_*.dot"))
    back, report = editor.partition(
        mobilenet, CPU_AUTO, capabilities=plan.placement.constraints.capabilities
    ).import_affinities(dump)
    assert report.kind == "DOT of OpenVINO" and report.pinned > 60
    assert all(back.affinity[key] == plan.affinity[key] for key in back.pins)


def test_onnx_device_configurations_are_valid_and_can_be_imported(
    mobilenet: Graph, tmp_path: Path
) -> None:
    plan = painted(mobilenet, TWINS)
    path = plan.export("onnx", tmp_path)[0]
    onnx.checker.check_model(str(path), full_check=True)
    model = onnx.load(path)
    assert (
        list(model.configuration[0].device) == ["A", "B"]
        and model.configuration[0].num_devices == 2
    )
    stages = {
        n.device_configurations[0].pipeline_stage
        for n in model.graph.node
        if n.device_configurations
    }
    assert stages == {s.id for s in plan.subgraphs}
    back, report = editor.partition(mobilenet, TWINS).import_affinities(path)
    assert back.affinity == plan.affinity and not report.problems


@pytest.mark.parametrize("name", ["mobilenetv2", "fcn-resnet101"])
def test_glow_tables_give_the_same_affinities_or_state_the_conflict(
    name: str, tmp_path: Path
) -> None:
    graph = editor.load_model(EXAMPLES / "models" / f"{name}.onnx")
    plan = editor.partition(graph, EXAMPLES / "devices" / "glow-opencl-first.yaml")
    plan.export("glow", tmp_path)
    assert not conflicts(plan.placement)
    again = editor.partition(graph, tmp_path / f"{name}_glow_devices.yaml")
    assert again.affinity == plan.affinity
    assert (tmp_path / "partition.log").read_text() == (
        again.export("log", tmp_path / "again")[0]
    ).read_text()
    split = painted(graph, TWINS)
    split.export("glow", tmp_path / "split")
    assert conflicts(split.placement)
    assert "No device table" in (tmp_path / "split" / f"{name}_glow_devices.yaml").read_text()
    config = tmp_path / "split" / f"{name}_glow_partitions.yaml"
    back, report = editor.partition(graph, TWINS).import_affinities(config)
    assert back.affinity == split.affinity and not report.problems


@pytest.mark.parametrize("name", ["mobilenetv2", "fcn-resnet101"])
def test_exported_glow_tables_can_be_imported(name: str, tmp_path: Path) -> None:
    graph = editor.load_model(EXAMPLES / "models" / f"{name}.onnx")
    plan = editor.partition(graph, EXAMPLES / "devices" / "glow-opencl-first.yaml")
    plan.export("glow", tmp_path)
    table = tmp_path / f"{name}_glow_devices.yaml"
    plain = [{"name": d.name, "backendName": d.backend} for d in reversed(plan.devices)]
    bare = editor.partition(graph, plain)
    assert bare.affinity != plan.affinity
    back, report = bare.import_affinities(table)
    assert report.kind == "Glow device table" and not report.problems
    assert back.affinity == plan.affinity and report.how["key"] == report.pinned > 50
    renamed = editor.partition(graph, "HETERO:CPU,OpenCL").import_affinities(table)[
        0
    ]  # found by backend
    backend = {d.name: d.backend for d in plan.devices}
    assert renamed.affinity == {key: backend[name] for key, name in plan.affinity.items()}


def test_each_unusable_entry_of_a_glow_table_is_reported(mobilenet: Graph, tmp_path: Path) -> None:
    table = tmp_path / "t.yaml"
    table.write_text("""
- name: Mars
  backendName: Phobos
- 7
- name: b
  backendName: NNPI
  parameters: |
    "nonSupportedNodes": "FullyConnected,Warp9,Clip"
- name: A
  backendName: CPU
  parameters: |
    "supportedNodes": "Clip"
""")
    plan, report = editor.partition(mobilenet, TWINS).import_affinities(table)
    problems = "\n".join(report.problems)
    assert (
        "device 2: needs a name" in problems
        and "'Mars': unknown device 'Mars' (choose one of: A, B)" in problems
    )
    assert "'b': nonSupportedNodes: unknown op 'Warp9'" in problems
    assert (
        "'logits': no device of the table may run it (Gemm; asked: B, A)" in problems
        and len(report.problems) == 4
    )
    for op, key in enumerate(mobilenet.op_keys):
        if not mobilenet.op_is_constant[op] and key != "logits":
            assert plan.affinity[key] == ("A" if mobilenet.op_types[op] == "Clip" else "B")
    for content, cause in (("[]", "no devices"), ("[1]", "a list of devices")):
        table.write_text(content)
        with pytest.raises(editor.PlanError, match=cause):
            plan.import_affinities(table)


def test_custom_ops_have_a_name_in_a_glow_table(tmp_path: Path) -> None:
    graph = editor.load_model(ODDITIES / "custom_op.onnx")
    everything = [Capability.everything(graph)] * 2
    plan = editor.partition(
        graph,
        TWINS,
        capabilities=everything,
        pins={key: "B" for op, key in enumerate(graph.op_keys) if "::" in graph.type_label(op)},
    )
    assert set(plan.affinity.values()) == {"A", "B"}
    plan.export("glow", tmp_path)
    back, report = editor.partition(graph, TWINS, capabilities=everything).import_affinities(
        tmp_path / "custom_op_glow_devices.yaml"
    )
    assert back.affinity == plan.affinity and not report.problems


@pytest.mark.parametrize("name", ["mobilenetv2", "whisper-tiny-decoder"])
def test_split_models_run_without_the_editor(name: str, tmp_path: Path) -> None:
    graph = editor.load_model(
        EXAMPLES / "models" / f"{name}.onnx",
        {"batch": 1, "sequence": 8} if "whisper" in name else {},
    )
    plan = painted(graph, TWINS, 30, 70)
    plan.export("split", tmp_path)
    inputs = random_inputs(graph)
    np.savez(tmp_path / "in.npz", **inputs)
    subprocess.run(
        [sys.executable, "-I", str(tmp_path / "run.py"), "in.npz", "out.npz"],
        cwd=tmp_path,
        check=True,
    )
    assert len((tmp_path / "run.py").read_text().splitlines()) <= 220
    run = [sys.executable, "-I", str(tmp_path / "run.py")]
    usage = subprocess.run(run, capture_output=True, text=True, check=False)
    assert usage.returncode == 1 and usage.stderr.startswith("Runs the model's subgraphs")
    assert "    python run.py --random " in usage.stderr and "INPUTS.npz" in usage.stderr
    said = subprocess.run([*run, "--random"], capture_output=True, text=True, check=True).stdout
    for tensor in graph.outputs.tolist():
        name, kind = graph.tensor_names[tensor], graph.tensor_types[tensor]
        assert f"{name} {kind} {graph.tensor_shapes[tensor]}" in said.splitlines()
    with np.load(tmp_path / "out.npz") as file:
        found = {n: file[n] for n in file.files}
    expected = compile_whole(graph, plan.devices[0]).run(inputs)
    assert compare("", expected, found).within_tolerance
    assert all(onnx.checker.check_model(str(p)) is None for p in tmp_path.glob("subgraph_*.onnx"))


@pytest.mark.parametrize("name", ["mobilenetv2.onnx", "oddity"])
def test_the_script_of_a_split_is_right_in_every_run(name: str, tmp_path: Path) -> None:
    """Its outputs keep their memory: results of earlier runs must not change, nor shapes that depend on data."""
    if name == "oddity":
        nodes = [
            onnx.helper.make_node("NonZero", ["x"], ["found"]),
            onnx.helper.make_node("Neg", ["found"], ["y"]),
        ]
        ends = [
            onnx.helper.make_tensor_value_info("x", 1, [8]),
            onnx.helper.make_tensor_value_info("y", 7, None),
        ]
        save_net(tmp_path / "m.onnx", nodes, ends[:1], ends[1:])
        graph = editor.load_model(tmp_path / "m.onnx")
        inputs = [{"x": np.array([1.0] * n + [0.0] * (8 - n), np.float32)} for n in (3, 8, 0, 1)]
    else:
        graph = editor.load_model(EXAMPLES / "models" / name)
        inputs = [random_inputs(graph, seed) for seed in range(3)]
    plan = painted(graph, TWINS, 1, 2) if name == "oddity" else painted(graph, TWINS, 30, 70)
    plan.export("split", tmp_path / "out")
    spec = importlib.util.spec_from_file_location("exported_run", tmp_path / "out" / "run.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    script, whole = module.Split(), compile_whole(graph, plan.devices[0])
    found = [script.run(each) for each in (*inputs, *inputs)]
    for each, results in zip((*inputs, *inputs), found, strict=True):
        assert compare("", whole.run(each), results).within_tolerance


def test_a_split_over_two_runtimes_runs_on_both_and_on_one_where_the_other_is_missing(
    mobilenet: Graph, tmp_path: Path
) -> None:
    """All of it ran on ONNX Runtime."""
    table = [
        {"name": "OV", "backendName": "openvino"},
        {"name": "ORT", "backendName": "onnxruntime"},
    ]
    plan = painted(mobilenet, table, 30, 70)
    plan.export("split", tmp_path)
    inputs = random_inputs(mobilenet)
    np.savez(tmp_path / "in.npz", **inputs)
    expected = compile_whole(mobilenet, plan.devices[1]).run(inputs)
    load = "import runpy, sys; sys.argv = ['run.py', 'in.npz', 'out.npz']"
    kinds = "[type(part).__name__ for part in module['Split']().parts]"
    for missing, made in (
        ("", "['OpenVinoPart', 'Part', 'OpenVinoPart']"),
        ("openvino", "['Part', 'Part', 'Part']"),
    ):
        hide = f"sys.modules['{missing}'] = None" if missing else ""
        code = f"{load}; {hide}\nmodule = runpy.run_path('run.py')\nprint({kinds})\n"
        code += "runpy.run_path('run.py', run_name='__main__')"
        done = python("-c", code, cwd=tmp_path, check=True)
        assert made in done.stdout
        assert ("note: OpenVINO with a device CPU is not here" in done.stderr) == bool(missing)
        with np.load(tmp_path / "out.npz") as file:
            assert compare("", expected, {n: file[n] for n in file.files}).within_tolerance


def test_whole_numbers_pass_from_onnx_runtime_to_openvino_in_a_split(tmp_path: Path) -> None:
    """ONNX Runtime's int64 has another letter than numpy's own, which OpenVINO did not know."""
    path = tmp_path / "m.onnx"
    text = """<ir_version: 8, opset_import: ["": 17]>
        g (int64[4] x) => (float[4] z) <float[3] rows = {5., 6., 7.}> {
            t = Abs(x)
            y = Gather(rows, t)
            z = Neg(y)
        }"""
    onnx.save(onnx.parser.parse_model(text), path)
    table = [{"name": "OV", "backendName": "openvino"}, {"name": "CPU"}]
    plan = editor.partition(path, table, pins={"t": "CPU", "y": "OV", "z": "CPU"})
    plan.export("split", tmp_path / "out")
    module = runpy.run_path(str(tmp_path / "out" / "run.py"))
    split = module["Split"]()
    assert [type(part).__name__ for part in split.parts] == ["Part", "OpenVinoPart", "Part"]
    assert split.run({"x": np.array([-2, 1, -1, 0])})["z"].tolist() == [-7, -6, -6, -5]


def test_tables_and_reports(mobilenet: Graph, tmp_path: Path) -> None:
    plan = painted(mobilenet, TWINS)
    rows = list(
        csv.DictReader(
            line
            for line in plan.export("csv", tmp_path)[0].read_text().splitlines()
            if line[0] != "#"
        )
    )
    assert {r["op"]: r["device"] for r in rows} == {
        k: d
        for k, d in plan.affinity.items()
        if not mobilenet.op_is_constant[mobilenet.key_index[k]]
    }
    costs = costs_of(mobilenet, plan.devices, "estimate")
    placed = plan.placement.placed_ops
    assert sum(float(r["seconds"]) for r in rows) == pytest.approx(
        costs.op[placed, plan.placement.assignment.device[placed]].sum(), rel=1e-3
    )
    assert {r["kind"] for r in rows} == {"estimate"}
    report = json.loads(plan.export("json", tmp_path)[0].read_text())
    assert report["totals"]["subgraphs"] == len(plan.subgraphs) == 3
    assert "| 0 | A |" in plan.export("md", tmp_path)[0].read_text()
    back, found = editor.partition(mobilenet, TWINS).import_affinities(
        tmp_path / "mobilenetv2_ops.csv"
    )
    assert back.affinity == plan.affinity and found.how["key"] == len(rows)


def test_hostile_names_cannot_inject_markup_into_the_page(tmp_path: Path) -> None:
    graph = editor.load_model(ODDITIES / "nasty_names.onnx")
    plan = editor.partition(graph, TWINS)
    page = plan.export("html", tmp_path)[0].read_text()
    data = page[page.index('id="data">') + 10 :]
    body = data[: data.index("</script>")]
    assert len(json.loads(body)["key"]) == sum(
        1 for op in range(len(graph)) if not graph.op_is_constant[op]
    )
    assert page.count("<script") == 2 and "http://" not in page and "https://" not in page
    assert "srcdoc=" in plan._repr_html_()


def test_the_standalone_page_opens_from_disk(mobilenet: Graph, tmp_path: Path) -> None:
    from playwright.sync_api import expect, sync_playwright

    plan = painted(mobilenet, TWINS)
    path = plan.export("html", tmp_path)[0]
    benchmark = write_atomic(
        tmp_path / "bench.json", json_text([plan.benchmark(seconds=0.1).to_dict()])
    )
    (two,) = write_comparison(
        {
            "this plan": plan.placement,
            "other": plan.repin({plan.graph.op_keys[plan.placement.placed_ops[0]]: "B"}).placement,
        },
        tmp_path / "two",
        measured={"this plan": str(benchmark)},
    )
    after = plan.export("html", tmp_path / "after", measured=str(benchmark))[0]
    npu = editor.partition(mobilenet, "HETERO:NPU,CPU")  # of speeds that are assumed
    there = {
        "this plan": npu.placement,
        "all on CPU": editor.partition(mobilenet, "HETERO:CPU").placement,
    }
    (assumed,) = write_comparison(there, tmp_path / "assumed")
    doubt = "Measured 9 ms: these costs are 3x too low."
    (doubtful,) = write_comparison(there, tmp_path / "doubtful", doubt=doubt)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page()
        problems: list[str] = []
        page.on("pageerror", lambda e: problems.append(str(e)))
        page.on(
            "request", lambda r: problems.append(r.url) if not r.url.startswith("file:") else None
        )
        page.goto(path.as_uri())
        assert "100 ops · 3 subgraphs" in page.inner_text("header")
        for part in ("#verdict", "#assumptions", "#devices", "#pins", "#run", "#picture"):
            expect(page.locator(part)).to_be_visible()
        expect(page.locator("#verdict")).to_contain_text("all of it on A")
        expect(page.locator("#runhead")).to_contain_text("by time (estimate from shapes)")
        widths = page.evaluate("[...document.querySelectorAll('#run i')].map((e) => e.offsetWidth)")
        times = page.evaluate("L[0].report.subgraphs.map((s) => s.seconds)")
        share = [seconds / sum(times) for seconds in times]
        assert [width / sum(widths) for width in widths] == pytest.approx(share, abs=0.02)
        expect(page.locator("#picture rect")).to_have_count(3)
        expect(page.locator("#pins")).to_contain_text("layer.3–7 (29 ops) on B")
        expect(page.locator("#versions")).to_contain_text(f"SHA-256 {mobilenet.sha256}, opset")
        expect(page.locator("#subgraphs")).to_be_hidden()  # the appendix is folded
        assert page.evaluate(
            "document.querySelector('#ops').getBoundingClientRect().bottom <= innerHeight"
        )
        page.click("text=All ops, drawn")
        expect(page.locator("canvas")).to_be_visible()
        x, y = page.evaluate("[(d.x[0] - left) * z, (d.y[0] - top_) * z]")
        page.locator("canvas").click(position={"x": x, "y": y})
        assert "Why:" in page.inner_text("#op")
        assert page.locator("#subgraphs tr").count() == 4 and not problems
        page.goto(after.as_uri())
        expect(page.locator("#runhead")).to_contain_text("by time (measurement)")
        widths = page.evaluate("[...document.querySelectorAll('#run i')].map((e) => e.offsetWidth)")
        times = page.evaluate("L[0].report.subgraphs.map((s) => s.measured)")
        share = [seconds / sum(times) for seconds in times]
        assert [width / sum(widths) for width in widths] == pytest.approx(share, abs=0.02)
        bars = page.locator("#beside .bar")
        expect(bars).to_have_count(2)  # both devices are the CPU, which is measured once
        expect(bars.nth(0)).to_contain_text("The plan")
        expect(bars.nth(1)).to_contain_text("Unsplit on A")
        expect(bars.nth(1).locator("i")).to_be_visible()
        expect(page.locator("#beside .bar.cut")).to_have_count(0)
        plan_width = bars.nth(0).locator("i").evaluate("(e) => e.offsetWidth")
        page.evaluate(
            "L[0].report.measurement.baselines[0].median *= 500; "
            "L[0].report.measurement.baselines[0].interval = null; show(0)"
        )
        expect(page.locator("#beside .bar.cut")).to_contain_text("Unsplit on A")
        assert bars.nth(0).locator("i").evaluate("(e) => e.offsetWidth") > plan_width / 3
        expect(page.locator("#besides")).to_contain_text(re.compile(r"Measured 20\d\d-\d\d-\d\d "))
        said = page.locator("#run i").first.get_attribute("title")
        assert said and " measured, " in said and said.endswith(" estimate from shapes")
        page.goto(two.as_uri())
        heads = page.locator("#compared :is(h2, h3)")
        expect(heads).to_have_text(
            ["Layouts", "Latency, measurement, 95 % interval", "Not measured: estimate from shapes"]
        )
        expect(page.locator("#compared .unmeasured .bar")).to_contain_text("other")
        page.goto(assumed.as_uri())
        cells = page.locator("#layouts tr td:nth-child(6)")
        expect(cells).to_have_text(
            [re.compile(r"^about \S+ [mµ]s$"), re.compile("^about .*(x (slower|faster)|call)$")]
        )
        expect(cells.locator(".better, .worse")).to_have_count(0)
        expect(page.locator("#compared .unmeasured .bar").first).to_contain_text("about")
        page.goto(doubtful.as_uri())
        expect(page.locator("#compared").get_by_text(f"Doubtful: {doubt}")).to_be_visible()
        expect(page.locator("#layouts th").nth(5)).to_contain_text(", doubtful")
        expect(page.locator("figcaption").first).to_contain_text("doubtful: about")
        browser.close()


def test_a_plan_of_another_model_is_matched_by_structure(mobilenet: Graph, tmp_path: Path) -> None:
    plan = painted(mobilenet, TWINS)
    plan.save(tmp_path / "plan.json")
    model = onnx.load(mobilenet.path)
    for node in model.graph.node:
        node.name = ""
        for kind in (node.input, node.output):
            for j, name in enumerate(kind):
                if name and name not in ("pixel_values", "logits"):
                    kind[j] = f"renamed/{name}"
    for tensor in model.graph.initializer:
        tensor.name = f"renamed/{tensor.name}"
    model.graph.ClearField("value_info")
    onnx.save(model, tmp_path / "renamed.onnx")
    other = editor.load_model(tmp_path / "renamed.onnx")
    back, report = editor.partition(other, TWINS).import_affinities(tmp_path / "plan.json")
    assert report.how["structure"] > 90 and not report.problems
    renamed = {
        k.removeprefix("renamed/"): d
        for k, d in back.affinity.items()
        if not other.op_is_constant[other.key_index[k]]
    }
    assert renamed == {
        k: d
        for k, d in plan.affinity.items()
        if not mobilenet.op_is_constant[mobilenet.key_index[k]]
    }


def test_imports_report_unusable_entries(mobilenet: Graph, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(
        json.dumps({"logits": "B", "nowhere": "B", "hardtanh": "MARS", "getitem": 7})
    )
    plan, report = editor.partition(mobilenet, TWINS).import_affinities(tmp_path / "a.json")
    assert plan.pins == {"logits": "B"}
    text = "\n".join(report.problems)
    assert (
        "'nowhere': no such op" in text
        and "unknown device 'MARS'" in text
        and "'getitem': 7" in text
    )
    (tmp_path / "b.csv").write_text("op,device\nlogits,B\nlogits,A\n,A\n")
    _, report = editor.partition(mobilenet, TWINS).import_affinities(tmp_path / "b.csv")
    assert [p.split(":")[0] for p in report.problems] == ["line 3", "line 4"]
    for name, content in (
        ("c.json", "[1]"),
        ("d.dot", "digraph {}"),
        ("e.onnx", "no"),
        ("f.txt", ""),
        ("g.csv", ""),
    ):
        (tmp_path / name).write_text(content)
        with pytest.raises(editor.PlanError, match=name):
            read_affinities(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "sizes"), [("mobilenetv2", {}), ("whisper-tiny-decoder", {"batch": 1, "sequence": 8})]
)
def test_results_of_query_model_are_imported_without_noise(
    name: str, sizes: dict[str, int], tmp_path: Path
) -> None:
    graph = editor.load_model(EXAMPLES / "models" / f"{name}.onnx", sizes)
    core = openvino.Core()
    (tmp_path / "q.json").write_text(
        json.dumps(core.query_model(core.read_model(graph.path), "CPU") | {"my op": "CPU"})
    )
    table = [{"name": "INTERPRETER", "backendName": "Interpreter"}, CPU_AUTO[0]]
    plan, report = editor.partition(graph, table).import_affinities(tmp_path / "q.json")
    assert (
        report.kind == "query_model of OpenVINO" and report.pinned == (~graph.op_is_constant).sum()
    )
    assert set(plan.affinity.values()) == {"CPU"} and report.problems == ("'my op': no such op",)


def test_op_names_that_look_generated_by_openvino_are_matched(tmp_path: Path) -> None:
    values = [
        onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [4]) for n in ("x", "z")
    ]
    nodes = [
        onnx.helper.make_node("Relu", ["x"], ["y"], "Relu_1"),
        onnx.helper.make_node("Neg", ["y"], ["z"], "block/neg"),
    ]
    save_net(tmp_path / "m.onnx", nodes, values[:1], values[1:])
    labels = [
        ("x", "A"),
        ("Relu_1", "B"),
        ("block/neg", "B"),
        ("Constant_7", "A"),
        ("block/neg/sink_port_0", "A"),
    ]
    (tmp_path / "d.dot").write_text(
        "digraph {\n"
        + "".join(
            f'n{i} [label="{name}\\ndevice={device}"]\n' for i, (name, device) in enumerate(labels)
        )
        + "}\n"
    )
    plan, report = editor.partition(
        editor.load_model(tmp_path / "m.onnx"), TWINS
    ).import_affinities(tmp_path / "d.dot")
    assert plan.pins == {"y": "B", "z": "B"} and not report.problems


def test_two_devices_with_one_openvino_name_can_be_imported(
    mobilenet: Graph, tmp_path: Path
) -> None:
    plan = painted(mobilenet, [CPU_AUTO[0], {"name": "ORT", "backendName": "CPU"}])
    plan.export("openvino", tmp_path)
    back, report = editor.partition(mobilenet, plan.devices).import_affinities(
        tmp_path / "mobilenetv2.affinities.json"
    )
    assert back.affinity == plan.affinity and not report.problems


@pytest.mark.parametrize(
    ("form", "file"),
    [
        ("json", "mobilenetv2_report.json"),
        ("split", "manifest.json"),
        ("dot", "DAG.dot"),
        ("onnxruntime", "mobilenetv2_session.json"),
    ],
)
def test_exports_without_devices_of_ops_are_not_imported(
    form: str, file: str, mobilenet: Graph, tmp_path: Path
) -> None:
    plan = editor.partition(mobilenet, TWINS)
    plan.export(form, tmp_path)
    with pytest.raises(editor.PlanError, match=r"import \S+"):
        plan.import_affinities(tmp_path / file)


def test_the_graph_of_subgraphs_is_rendered(mobilenet: Graph, tmp_path: Path) -> None:
    painted(mobilenet, TWINS).save(tmp_path / "plan.json")
    done = run(
        "export",
        str(tmp_path / "plan.json"),
        "--to",
        "dot",
        "--out",
        str(tmp_path),
        "--render",
        "svg,png,pdf",
    )
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "DAG.dot").read_text()
    assert text.count("subgraph ") >= 3 and "s0 -> s1" in text and "s1 -> s2" in text
    for form in ("svg", "png", "pdf"):
        assert (tmp_path / f"DAG.{form}").stat().st_size > 500
