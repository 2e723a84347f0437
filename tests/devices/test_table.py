"""Device tables: Glow's files, HETERO strings, lists; errors with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import EXAMPLES

import editor
from editor.devices.discovery import names_here
from editor.devices.table import load_devices, parse_devices
from editor.devices.vocabulary import op_name
from editor.graph.graph import Graph
from editor.placement.costs import estimate, peaks_of
from editor.text import parse_bytes, parse_bytes_per_second, parse_watts


@pytest.mark.parametrize("runtime", ["openvino", "onnxruntime"])
def test_a_runtime_that_is_named_is_taken_although_others_have_a_provider_of_that_name(
    runtime: str,
) -> None:
    (device,) = editor.load_devices([{"name": "X", "backendName": runtime, "provider": "CPU"}])
    assert device.runtime == runtime and device.present


def test_glow_files_load_unchanged() -> None:
    first, second = editor.load_devices(EXAMPLES / "devices" / "glow-opencl-first.yaml")
    assert (first.name, first.backend, first.logical_id, first.non_supported) == (
        "Device2",
        "OpenCL",
        1,
        ("ResizeBilinear",),
    )
    assert first.planned and not first.runtime
    assert (second.name, second.runtime, second.provider, second.logical_id) == (
        "Device1",
        "onnxruntime",
        "CPUExecutionProvider",
        0,
    )
    swapped = editor.load_devices(EXAMPLES / "devices" / "glow-cpu-first.yaml")
    assert [d.name for d in swapped] == ["Device1", "Device2"]


def test_plain_mappings_load() -> None:
    (device,) = parse_devices(
        """
- name: GPU
  backendName: onnxruntime
  provider: CUDAExecutionProvider
  device: GPU
  unit: 1
  properties: {enable_profiling: true}
  memory: 8GiB
  peakCompute: 60e12
  peakDramBw: 4e12
  link: {bandwidth: 25e9, latency: 10e-6}
""",
        "t.yaml",
    )
    assert device.memory == 8 << 30
    assert (device.device, device.unit, device.codegen) == ("GPU", "1", "onnxruntime")
    assert device.properties == {"enable_profiling": "true"}
    assert device.peak_compute == 60e12 and device.link is not None and device.link.latency == 10e-6


def test_hetero_strings_keep_their_order_and_absent_devices_are_planned() -> None:
    devices = editor.load_devices("HETERO:MYRIAD,CPU")
    assert [(d.name, d.planned) for d in devices] == [("MYRIAD", True), ("CPU", False)]
    assert [d.name for d in editor.load_devices("hetero:cpu")] == ["cpu"]


@pytest.mark.parametrize(
    ("text", "line", "cause"),
    [
        (
            "- name: A\n  backendName: CPU\n- name: A\n  backendName: CPU",
            3,
            "two devices named 'A'",
        ),
        (
            "- name: A\n  backendName: CPU\n- name: B\n  backendName: Warp9",
            4,
            "unknown device or runtime 'Warp9'",
        ),
        (
            "- name: A\n  backendName: hailo8",
            2,
            "'hailo8' is a preset of a device: write NPU(hailo8), or preset: hailo8",
        ),
        ("- name: A\n  backendName: [CPU", 2, "not valid YAML"),
        ("- name: A\n  backendNme: CPU", 2, "did you mean 'backendName'"),
        ("a: 1", 1, "a device table is a list"),
        ("- hello", 1, "a device is a mapping"),
        ("- name: A\n  backendName: CPU\n  nonSupportedNodes: Convv", 3, "unknown op 'Convv'"),
        (
            '- name: A\n  backendName: CPU\n  parameters: |\n    "nonSupportedNode" : "Conv"',
            3,
            "did you mean",
        ),
        ("- name: A\n  backendName: CPU\n  memory: lots", 3, "memory must be a size above 0"),
        ("- name: A\n  backendName: CPU\n  memory: 0", 3, "without one there is no limit"),
        ("- name: A\n  backendName: CPU\n  peakCompute: -3", 3, "above 0"),
        (
            "- name: A\n  backendName: CPU\n  peakCompute: much",
            3,
            "such as 1e13 or 10 TFLOPS, not 'much'",
        ),
        (
            "- name: A\n  backendName: CPU\n  power: 15 MW",
            3,
            "power must be watts above 0 such as 15 W or 350 mW, not '15 MW'",
        ),
        ("- name: A\n  backendName: CPU\n  power: 0", 3, "power must be watts above 0"),
        (
            "- name: A\n  backendName: GPU\n  link: fast",
            3,
            "link must be a mapping such as {bandwidth: 12e9, latency: 1e-5}",
        ),
        (
            "- name: A\n  backendName: GPU\n  link: {bandwidth: fast}",
            3,
            "Link (bandwidth) must be bytes/s above 0 such as 12e9",
        ),
        (
            "- name: A\n  backendName: GPU\n  link: {latency: -1}",
            3,
            "Link latency (latency) must be seconds such as 1e-5 or 10us, not -1",
        ),
        (
            "- name: A\n  backendName: CPU\n  wireType: int4",
            3,
            "Type on wires (wireType) must be float16 or int8, not 'int4'",
        ),
    ],
)
def test_errors_name_file_and_line(text: str, line: int, cause: str) -> None:
    with pytest.raises(editor.DeviceTableError) as error:
        parse_devices(text, "table.yaml")
    assert cause in str(error.value)
    assert f"table.yaml:{line}" in str(error.value)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("12 GB/s", 12e9),
        ("12GBps", 12e9),
        ("12 gb/s", 12e9),
        ("96 Gb/s", 12e9),
        ("96Gbps", 12e9),
        ("96 Gbit/s", 12e9),
        ("96 GBIT/S", 12e9),
        ("800mbps", 1e8),
        ("8 Gib/s", 2.0**30),
        ("1 bit/s", 0.125),
        ("12 GX/s", None),
        ("b/s", None),
    ],
)
def test_bits_are_eighths_of_bytes(text: str, rate: float | None) -> None:
    assert parse_bytes_per_second(text) == rate


@pytest.mark.parametrize(
    ("text", "watts"),
    [
        ("15 W", 15),
        ("15", 15),
        ("2.5watts", 2.5),
        ("350mW", 0.35),
        ("80 µW", 8e-5),
        ("1.2 kW", 1200),
        ("1.2 KW", None),
        ("15 MW", None),
        ("-1 W", None),
        ("W", None),
    ],
)
def test_watts(text: str, watts: float | None) -> None:
    assert parse_watts(text) == (watts if watts is None else pytest.approx(watts))
    table = [{"name": "A", "backendName": "NPU", "power": text}]
    if watts is None:
        with pytest.raises(editor.DeviceTableError):
            load_devices(table)
    else:
        assert load_devices(table)[0].power == pytest.approx(watts)


def test_memory_is_in_bytes_however_it_is_written() -> None:
    assert [parse_bytes(text) for text in ("16MB", "16Mb", "16mb", "16 M", "16 MiB", "16b")] == [
        16e6
    ] * 4 + [16 * 2**20, 16]


def test_quantities_may_have_units() -> None:
    text = (
        "- {name: N, backendName: NPU, memory: 8 MiB, peakCompute: 4 TOPS, peakDramBw: 30 GB/s, "
        "start: 40us, link: {latency: 50us}}"
    )
    (device,) = parse_devices(text, "table.yaml")
    assert (device.memory, device.peak_compute, device.peak_dram_bw) == (8 << 20, 4e12, 3e10)
    assert (
        device.link is not None
        and device.link.bandwidth is None
        and device.link.latency == pytest.approx(5e-5)
    )
    assert device.start == pytest.approx(4e-5)


def test_the_figure_that_is_assumed_changes_nothing_when_it_is_written_down(
    mobilenet: Graph,
) -> None:
    def predicted(**entry: object) -> float:
        table = [{"name": "NPU", "nonSupportedNodes": "Add", **entry}, {"name": "CPU"}]
        placement = editor.partition(mobilenet, table).placement
        return placement.price(estimate(mobilenet, placement.devices)).total

    assumed = peaks_of(editor.load_devices("HETERO:NPU")[0])
    for part in ({"bandwidth": assumed.bandwidth}, {"latency": assumed.latency}):
        assert predicted(link=part) == predicted()
    assert predicted(link={"latency": 2 * assumed.latency}) > predicted()


@pytest.mark.parametrize(
    ("spec", "cause"),
    [
        ("HETERO:GPU,Warp9", "unknown device or runtime 'Warp9'"),
        ("HETERO:", "names no device"),
        ("HETERO:CPU,CPU", "two devices"),
        ("nowhere.yaml", "no such file"),
        ("Interpreter,Warp9", "unknown device or runtime 'Warp9'"),
        ("Warp9", "no such file, and no known device"),
        ("CPUU", "did you mean 'CPU'"),
        ("NPU.yaml", "no such file"),
        ("GPU,table.yaml", "no such file"),
    ],
)
def test_invalid_specs_are_errors(spec: str, cause: str) -> None:
    with pytest.raises(editor.DeviceTableError, match=cause):
        editor.load_devices(spec)


def test_names_alone_are_devices_unless_a_file_has_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = editor.load_devices("NPU(edgetpu), CPU")
    assert named == editor.load_devices("HETERO:NPU(edgetpu),CPU")
    several = editor.load_devices("GPU,GPU.1,OpenVINO.GPU,CPU")
    assert [device.name for device in several] == ["GPU", "GPU.1", "OpenVINO.GPU", "CPU"]
    assert [device.name for device in editor.load_devices("GPU.1")] == ["GPU.1"]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "CPU").write_text("- {name: mine, backendName: CPU}")
    (tmp_path / "GPU,CPU").write_text("- {name: two, backendName: CPU}")
    assert [device.name for device in editor.load_devices("CPU")] == ["mine"]
    assert [device.name for device in editor.load_devices("GPU,CPU")] == ["two"]


def test_hetero_without_names_is_what_is_here_and_the_processor_comes_last() -> None:
    names = [device.name for device in editor.load_devices("HETERO")]
    assert names == names_here() and names[-1] == "CPU" and "OpenVINO.CPU" in names
    assert "Interpreter" not in names, (
        "it is much slower than the others, and runs no op that they do not"
    )


def test_this_machine_has_three_runtimes() -> None:
    found = {(d.runtime, d.provider) for d in editor.available_devices()}
    assert {
        ("onnxruntime", "CPUExecutionProvider"),
        ("openvino", "CPU"),
        ("interpreter", ""),
    } <= found


@pytest.mark.parametrize(
    ("name", "op_type", "attributes", "expected"),
    [
        ("ResizeBilinear", "Resize", (("mode", "linear"),), True),
        ("ResizeBilinear", "Upsample", (("mode", "linear"),), True),
        ("ResizeBilinear", "Resize", (("mode", "nearest"),), False),
        ("ResizeBilinear", "ResizeBilinear", (), True),
        ("ResizeNearest", "Resize", (), True),
        ("AvgPool", "GlobalAveragePool", (), True),
        ("FullyConnected", "Gemm", (), True),
        ("nn.conv2d", "Conv", (("kernel_shape", "[3, 3]"),), True),
        ("nn.conv3d", "Conv", (("kernel_shape", "[3, 3]"),), False),
        ("conv", "Conv", (), True),
        ("Reshape", "Flatten", (), False),
    ],
)
def test_op_names_of_other_tools_are_resolved(
    name: str,
    op_type: str,
    attributes: tuple[tuple[str, str], ...],
    expected: bool,
    mobilenet: Graph,
) -> None:
    meaning = op_name(name)
    assert meaning is not None
    matches = op_type in meaning.types and (
        meaning.condition is None or meaning.condition(op_type, attributes)
    )
    assert matches is expected


def test_table_restrictions_apply_to_a_graph(mobilenet: Graph, tmp_path: Path) -> None:
    plan = editor.partition(
        mobilenet,
        [
            {"name": "A", "backendName": "CPU", "supportedNodes": "Conv, Clip"},
            {"name": "B", "backendName": "CPU", "supportedNodes": ""},
        ],
    )
    placed = {
        mobilenet.op_types[op]: plan.affinity[mobilenet.op_keys[op]]
        for op in range(len(mobilenet))
        if not mobilenet.op_is_constant[op]
    }
    assert placed == {
        "Conv": "A",
        "Clip": "A",
        "Add": "B",
        "ReduceMean": "B",
        "Reshape": "B",
        "Gemm": "B",
    }
