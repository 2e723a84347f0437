"""A plugin execution provider with a memory of its own: WebGPU, on the GPU in software that Debian's Chromium has."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from conftest import ROOT, python, save_net
from onnx import TensorProto, helper, numpy_helper
from pages import Serve, ready, wait_for_figure
from playwright.sync_api import BrowserContext, expect

import editor
from editor.errors import ExecutionError
from editor.execution.compiled_plan import CompiledPlan, owned
from editor.execution.measure.profile import profile_all
from editor.runtimes.onnxruntime.plugins import ep_device, plugin_devices
from editor.runtimes.protocols import AsynchronousExecutable

pytestmark = pytest.mark.usefixtures("software_gpu")
TWO_AND_CPU = [
    {"name": "A", "backendName": "WebGPU"},
    {"name": "B", "backendName": "WebGPU"},
    {"name": "CPU"},
]


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Convolutions and a classifier of nine ops."""
    rng = np.random.default_rng(0)

    def weight(name: str, *shape: int) -> TensorProto:
        return numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32) * 0.3, name)

    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c1"], pads=[1] * 4),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], pads=[1] * 4),
        helper.make_node("Sigmoid", ["c2"], ["s2"]),
        helper.make_node("Add", ["s2", "r1"], ["a"]),
        helper.make_node("GlobalAveragePool", ["a"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("MatMul", ["f", "w3"], ["m"]),
        helper.make_node("Softmax", ["m"], ["y"]),
    ]
    info = helper.make_tensor_value_info
    x, y = info("x", TensorProto.FLOAT, [1, 3, 8, 8]), info("y", TensorProto.FLOAT, [1, 10])
    return save_net(
        tmp_path_factory.mktemp("net") / "net.onnx",
        nodes,
        [x],
        [y],
        [weight("w1", 8, 3, 3, 3), weight("w2", 8, 8, 3, 3), weight("w3", 8, 10)],
    )


@pytest.fixture(scope="module")
def split(net: Path) -> CompiledPlan:
    """WebGPU to WebGPU to CPU to WebGPU: two boundaries in its memory, two that leave it."""
    return editor.partition(
        editor.load_model(net), TWO_AND_CPU, pins={"c2": "B", "g": "CPU", "f": "CPU"}
    ).compile()


X = {"x": np.random.default_rng(1).standard_normal((1, 3, 8, 8)).astype(np.float32)}


def copies(compiled: CompiledPlan) -> list[tuple[str, bool]]:
    compiled.run(X)
    return [(t.tensor, t.copied) for t in compiled.run_timed(X)[1].transfers]


def test_the_device_is_found_without_configuration_and_says_what_it_is() -> None:
    (device,) = [d for d in plugin_devices() if "WebGpu" in d.provider]
    assert device.version and device.vendor and device.memory_kind == "webgpu"
    (resolved,) = editor.load_devices("HETERO:WebGPU")
    assert resolved.present and resolved.provider == "WebGpuExecutionProvider"
    assert editor.load_devices("HETERO:webgpu.1")[0].planned, "there is one only"


def test_a_split_computes_what_the_cpu_does_in_every_run(net: Path, split: CompiledPlan) -> None:
    expected = editor.partition(editor.load_model(net), "HETERO:CPU").run(X)["y"]
    for _ in range(3):
        assert np.allclose(split.run(X)["y"], expected, atol=1e-5)


def test_values_stay_in_device_memory_between_subgraphs(
    split: CompiledPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert copies(split) == [("r1", False), ("c2", False), ("a", True), ("f", True)]
    first, second = split.steps[0].executable, split.steps[1].executable
    monkeypatch.setattr(ort.OrtValue, "numpy", lambda _: pytest.fail("copied through the host"))
    outputs = first.run([ort.OrtValue.ortvalue_from_numpy(X["x"])])
    assert {value.device_name() for value in outputs} == {"webgpu"}
    assert [value.device_name() for value in second.run(outputs[:1])] == ["webgpu"]


def test_a_result_in_device_memory_is_read_once(
    split: CompiledPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    (value, *_), reads, read = (
        split.steps[0].executable.run([ort.OrtValue.ortvalue_from_numpy(X["x"])]),
        [],
        ort.OrtValue.numpy,
    )
    monkeypatch.setattr(ort.OrtValue, "numpy", lambda self: reads.append(1) or read(self))
    first = owned(value)
    assert len(reads) == 1 and np.array_equal(first, read(value))


@pytest.mark.parametrize(
    "pins", [{"c2": "B", "g": "CPU", "f": "CPU"}, {"c2": "B"}], ids=["with the CPU", "WebGPU alone"]
)
def test_several_requests_in_flight_share_the_device_and_compute_what_one_does(
    net: Path, split: CompiledPlan, pins: dict[str, str]
) -> None:
    first = editor.partition(editor.load_model(net), TWO_AND_CPU, pins=pins).compile(requests=4)
    assert set(first.limits) == {"A", "B"}, "the CPU has no memory of its own"
    inputs = [{"x": X["x"] * np.float32(i + 1)} for i in range(4)]
    expected = [split.run(each)["y"] for each in inputs]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            plans = [first, *(first.clone() for _ in range(3))]
            for _ in range(3):  # from the second run on, all buffers are fixed
                results = list(pool.map(lambda plan, each: plan.run(each)["y"], plans, inputs))
                assert all(
                    np.allclose(a, b, atol=1e-6) for a, b in zip(results, expected, strict=True)
                )


def test_a_measured_run_waits_for_the_device(split: CompiledPlan) -> None:
    """The device only queues work: what is launched last would else be charged to whoever reads the result."""
    split.run(X)
    times = split.run_timed(X)[1]
    assert all(isinstance(step.executable, AsynchronousExecutable) for step in split.steps)
    assert times.subgraphs[0] > 10 * next(t.seconds for t in times.transfers if t.tensor == "r1")


def test_a_plugin_session_leaves_no_op_to_the_cpu_in_silence(tmp_path: Path) -> None:
    path = tmp_path / "det.onnx"
    save_net(
        path,
        [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Det", ["r"], ["y"])],
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [])],
    )
    plan = editor.partition(editor.load_model(path), "HETERO:WebGPU,CPU")
    assert plan.affinity == {"r": "WebGPU", "y": "CPU"}
    with pytest.raises(
        ExecutionError, match=r"refused 1 of its ops: Det \('y'\) was given to CPUExecutionProvider"
    ):
        plan.repin({"y": "WebGPU"}, force=True).run({"x": np.ones((2, 2), np.float32)})


def test_an_op_that_the_provider_computes_wrongly_is_refused(tmp_path: Path) -> None:
    """onnxruntime-ep-webgpu 0.4.0 interpolates the wrong axes of images whose channels are last."""
    x, y = (
        helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, s, s, 3])
        for n, s in (("x", 4), ("y", 8))
    )
    sizes = helper.make_tensor("sizes", TensorProto.INT64, [4], [1, 8, 8, 3])
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear")
    path = tmp_path / "resize.onnx"
    save_net(path, [node], [x], [y], [sizes], name="resize")
    values = {"x": np.random.default_rng(0).standard_normal((1, 4, 4, 3)).astype(np.float32)}
    plan = editor.partition(editor.load_model(path), "HETERO:WebGPU,CPU")
    expected = editor.partition(editor.load_model(path), "HETERO:CPU").run(values)["y"]
    wrong = not np.allclose(
        plan.repin({"y": "WebGPU"}, force=True).run(values)["y"], expected, atol=1e-4
    )
    assert (plan.affinity["y"] == "CPU") == wrong, "when it has been mended, this test can go"
    assert not wrong or "computes Resize wrongly" in str(plan.why("y"))


def test_a_benchmark_says_which_transfers_are_copies(net: Path) -> None:
    plan = editor.partition(
        editor.load_model(net), TWO_AND_CPU, pins={"c2": "B", "g": "CPU", "f": "CPU"}
    )
    result = plan.benchmark(seconds=0.2)
    assert [t.copied for t in result.transfers] == [False, False, True, True]
    assert result.difference is not None and result.difference.within_tolerance
    assert result.text().count(", copied") == 2


def test_a_profile_has_a_time_for_every_op_on_the_device(net: Path) -> None:
    graph = editor.load_model(net)
    (device,) = editor.load_devices("HETERO:WebGPU")
    (profile,) = profile_all(graph, [device], seconds=0.1).values()
    assert set(profile.seconds) == set(graph.op_keys) and profile.total > 0


def run(environment: dict[str, str], *arguments: str) -> str:
    done = python("-m", "editor", *arguments, cwd=ROOT, timeout=120, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_provider_without_a_driver_is_installed_but_unusable() -> None:
    said = run({"VK_DRIVER_FILES": "/nowhere.json"}, "devices")
    assert "WebGpuExecutionProvider: installed but unusable" in said
    described = run({"VK_DRIVER_FILES": "/nowhere.json"}, "devices", "--json")
    assert "WebGpuExecutionProvider" not in {d["provider"] for d in json.loads(described)}


def test_a_local_build_is_used_where_the_environment_allows_it(
    net: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import onnxruntime_ep_webgpu

    library = onnxruntime_ep_webgpu.get_library_path()
    entry: dict[str, Any] = {"name": "mine", "backendName": "onnxruntime", "library": library}
    (refused,) = editor.load_devices([entry])
    assert refused.planned and f"HETERO_EDITOR_EP_LIBRARIES=NAME={library}" in refused.description
    monkeypatch.setenv("HETERO_EDITOR_EP_LIBRARIES", f"mine={library}")
    for named in (library, "mine"):
        (device,) = editor.load_devices([{**entry, "library": named}])
        assert device.present and device.provider == "WebGpuExecutionProvider"
    assert np.isfinite(editor.partition(editor.load_model(net), [entry]).run(X)["y"]).all()


def test_the_page_plans_and_benchmarks_it_and_says_what_was_copied(
    net: Path, serve: Serve, browser: BrowserContext
) -> None:
    server = serve(str(net), "--devices", "HETERO:WebGPU,CPU")
    page = browser.new_page()
    page.goto(server.url)
    ready(page)
    expect(page.locator("#devices")).to_contain_text("WebGPU")
    expect(page.locator("#devices")).not_to_contain_text("planned")
    page.evaluate("hetero.paint([5, 6], 1)")  # GlobalAveragePool and Flatten
    wait_for_figure(page, "subgraphs", 3)
    page.get_by_role("tab", name="Benchmark").click()
    page.fill("#bench-seconds", "0.5")
    page.click("#bench-start")
    expect(page.locator("#bench-cards")).to_contain_text("within tolerance", timeout=120_000)
    report = page.locator("#bench-result .report").text_content() or ""
    assert "execType: WebGPU->CPU, copied" in report and "execType: CPU->WebGPU, copied" in report
    assert "(estimate)" not in report


def test_ops_of_the_export_stay_on_the_cpu(net: Path, tmp_path: Path) -> None:
    plan = editor.partition(editor.load_model(net), "HETERO:WebGPU,CPU", pins={"c2": "CPU"})
    written = plan.export("webgpu", tmp_path)
    document = json.loads(written[0].read_text())
    (device,) = [d for d in plugin_devices() if "WebGpu" in d.provider]
    options = ort.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_provider_for_devices([ep_device(device)], document["provider_options"])
    session = ort.InferenceSession(tmp_path / document["model"], options)
    where = {
        node.name: part.ep_name
        for part in session.get_provider_graph_assignment_info()
        for node in part.get_nodes()
    }
    expected = {"WebGPU": device.provider, "CPU": "CPUExecutionProvider"}
    assert where["c2"] == "CPUExecutionProvider"
    own = {key: name for key, name in where.items() if key in plan.affinity}  # it adds Transposes
    assert own == {key: expected[plan.affinity[key]] for key in own}
    assert len(own) > 5
