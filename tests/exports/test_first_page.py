"""The first page of a report has what a ticket needs; lists are folded."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import onnx
import onnxruntime
import pytest
from conftest import EXAMPLES
from decoders import plain_decoder
from onnx import TensorProto, helper

import editor
from editor.exports.first_page import by_reason
from editor.graph.graph import Graph
from editor.graph.scopes.tree import scopes_of
from editor.placement.device_profile import DeviceProfile, save_profile
from editor.placement.search import examples
from editor.placement.state_memory import state_memory


def test_assumptions_pins_and_reasons_stand_before_the_lists(
    mobilenet: Graph, tmp_path: Path
) -> None:
    table = [
        {"name": "NPU", "backendName": "NPU", "assumes": "int8", "peakCompute": "4 TOPS"},
        {"name": "CPU", "backendName": "CPU"},
    ]
    table[0]["nonSupportedNodes"] = "Gemm, Clip"
    key = mobilenet.op_keys[mobilenet.op_types.index("ReduceMean")]
    plan = editor.partition(mobilenet, table, pins={key: "CPU"})
    text = plan.export("md", tmp_path)[0].read_text()
    first, _, appendix = text.partition("<details>")
    assert "memory bandwidth and link of NPU assumed, speed of CPU assumed).\n" in first
    assert "- NPU: planned as if the model were int8." in first
    assert "- NPU: by the device table 4 TFLOP/s.\n" in first, "the figures cannot be had again"
    assert (
        "- NPU: not stated in the device table, so assumed: memory 100 GB/s, link 8 GB/s, 20 µs per"
        in first
    )
    assert "inputs and outputs take between host and device." in first
    conclusion = first.splitlines()[2]
    assert re.match(
        r"Estimated about .*: .* all of it on CPU takes about .* ms \(estimated\); memory bandwidth and link of NPU "
        r"assumed, speed of CPU assumed and this plan was not measured\.",
        conclusion,
    )
    assert "36 ops (Clip and Gemm) fall back from NPU to CPU, which costs" in conclusion
    name = mobilenet.display_name(mobilenet.key_index[key])
    assert f"- {name} on CPU" in first
    assert f"- Model: mobilenetv2.onnx, SHA-256 {mobilenet.sha256}, opset ai.onnx 20." in first
    assert f"- Runtimes: ONNX Runtime {onnxruntime.__version__}." in first
    assert "- Not on this machine, and so without a version: NPU." in first
    assert "| NPU | " in first and "Clip (35)" in first
    assert "| subgraph | device |" not in first and "| subgraph | device |" in appendix
    assert "| transfer | from |" not in first and "| transfer | from |" in appendix
    assert text.count("<details>") == text.count("</details>") == 4
    clip = mobilenet.op_types.index("Clip")
    shape = f"float32 {mobilenet.shape_label(int(mobilenet.op_outputs[clip][0]))}"
    name = mobilenet.display_name(clip)
    (row,) = [line for line in appendix.splitlines() if line.startswith(f"| {name} | Clip | 20 |")]
    assert row.split(" | ")[3].startswith(shape) and f"→ {shape} | NPU | CPU |" in row
    assert f"{name}: {shape}" in first, "one op of each reason is an example"


def test_pins_of_whole_blocks_are_one_line_and_every_op_is_in_the_appendix(tmp_path: Path) -> None:
    sizes = {"batch": 1, "sequence": 4}
    graph = editor.load_model(EXAMPLES / "models" / "whisper-tiny-decoder.onnx", sizes)
    scopes = scopes_of(graph)
    chosen = [op for op, layer in scopes.layer_of_op.items() if layer in (1, 2)]
    pins = {graph.op_keys[op]: "B" for op in chosen}
    table = [{"name": "A", "backendName": "CPU"}, {"name": "B", "backendName": "CPU"}]
    text = editor.partition(graph, table, pins=pins).export("md", tmp_path)[0].read_text()
    first, _, appendix = text.partition("<details>")
    assert re.findall(r"## Pins\n\n(.*)\n?", first) == [f"- layers.1–2 ({len(chosen)} ops) on B"]
    assert all(f"| layers.1–2 ({len(chosen)} ops) | B | {key} |" in appendix for key in pins)


def test_no_peaks_are_assumed_of_devices_whose_times_come_from_a_profile(
    mobilenet: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report said "assumed: 200 GFLOP/s" of a CPU that was profiled: no figure rested on it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    plan = editor.partition(mobilenet, "HETERO:CPU")
    assert "assumed: 200 GFLOP/s" in plan.export("md", tmp_path)[0].read_text()
    (device,) = plan.devices
    seconds = dict.fromkeys(mobilenet.op_keys, 0.0001)
    profile = DeviceProfile("CPU", 0.01, seconds, {}, (), 1e-5, 0.0, 0.0, 0.0, 0.0, 1)
    save_profile(mobilenet, device, profile)
    text = plan.export("md", tmp_path)[0].read_text()
    assert "prediction from profile" in text and "GFLOP/s" not in text
    said = r"- CPU: times of ops from a profile, stored 20\d\d-\d\d-\d\d \d\d:\d\d UTC"
    assert re.search(rf"## Assumptions\n\n{said}\.\n\n", text)
    noisy = replace(profile, disturbances=("others took 40 % of the processors",))
    save_profile(mobilenet, device, noisy)
    assert re.search(
        rf"{said}; noisy: others took 40 % of the processors\.\n",
        plan.export("md", tmp_path)[0].read_text(),
    )


def test_rules_are_listed_with_the_number_of_ops_that_each_placed(
    mobilenet: Graph, tmp_path: Path
) -> None:
    """Reports said "Pins: None" of a plan that rules had made, and nothing of the rules."""
    table = [
        {"name": "A", "backendName": "CPU", "nonSupportedNodes": "Gemm"},
        {"name": "B", "backendName": "CPU"},
    ]
    rules = [
        {"type": "Conv", "nth": "first", "to": "B"},
        {"name": "*Conv*", "to": "A"},
        {"type": "Gemm", "to": "B"},
    ]
    plan = editor.partition(mobilenet, table, rules=rules)
    report = json.loads(plan.export("json", tmp_path)[0].read_text())
    found = report["first_page"]["rules"]
    assert [(r["what"], r["ops"]) for r in found] == [
        ("Ops of type Conv, only the first, to B", 1),
        ("Ops named *Conv* to A", found[1]["ops"]),
        ("Ops of type Gemm to B", 1),
    ]
    assert [r["rule"] for r in found] == rules
    assert report["totals"]["ruled"] == 2 + found[1]["ops"]
    (reason,) = report["first_page"]["reasons"]
    assert reason["by_rule"] == 1, "the first page said nothing of rules beside its reasons"
    text = plan.export("md", tmp_path)[0].read_text()
    assert (
        "## Rules\n\nThe first rule that matches an op decides.\n\n"
        "1. Ops of type Conv, only the first, to B: 1 op\n2. Ops named \\*Conv\\* to A: " in text
    )
    page = plan.export("html", tmp_path)[0].read_text()
    assert "Ops of type Gemm to B" in page and "page.rules.map" in page
    free = editor.partition(mobilenet, table).export("md", tmp_path)[0].read_text()
    assert "## Rules" not in free


def test_sizes_are_assumptions(tmp_path: Path) -> None:
    graph = editor.load_model(EXAMPLES / "models" / "resnet50.onnx", {"batch": 3})
    text = editor.partition(graph, "HETERO:CPU").export("md", tmp_path)[0].read_text()
    assert "- Sizes of the inputs: batch=3." in text


def test_fallbacks_of_one_reason_are_one_row() -> None:
    def row(op_type: str, reason: str, ops: int, device: str) -> dict[str, object]:
        found = {"wanted": "NPU", "reason": reason, "source": "", "op_type": op_type}
        return {
            **found,
            "ops": ["x"] * ops,
            "details": [{}] * ops,
            "devices": [device],
            "by_rule": 0,
        }

    found = by_reason(
        [row("Clip", "int8", 2, "GPU"), row("Erf", "list", 1, "CPU"), row("Conv", "int8", 3, "CPU")]
    )
    assert [(g["reason"], g["ops"], g["types"], g["devices"]) for g in found] == [
        ("int8", 5, ["Clip (2)", "Conv (3)"], ["GPU", "CPU"]),
        ("list", 1, ["Erf (1)"], ["CPU"]),
    ]


@pytest.mark.parametrize(
    ("interval", "words", "noise"),
    [
        ([2.0, 2.1], "2x slower than not splitting", []),
        ([0.9, 2.1], "against not splitting", ["other processes took 40 % of the processors"]),
    ],
)
def test_the_verdict_is_the_measurement_beside_not_splitting(
    mobilenet: Graph, tmp_path: Path, interval: list[float], words: str, noise: list[str]
) -> None:
    plan = editor.partition(
        mobilenet,
        [
            {"name": "A", "backendName": "CPU", "nonSupportedNodes": "Gemm"},
            {"name": "B", "backendName": "OpenVINO.CPU"},
        ],
    )
    data = plan.benchmark(seconds=0.2).to_dict()
    data["disturbances"] = noise
    data["total"] |= {"median": 2.0, "low": interval[0], "high": interval[1]}
    for baseline in data["baselines"]:
        baseline["time"] |= {"median": 1.0, "low": 0.95, "high": 1.05}
    (tmp_path / "run.json").write_text(json.dumps(data))
    report = json.loads(
        plan.export("json", tmp_path, measured=str(tmp_path / "run.json"))[0].read_text()
    )
    verdict = report["first_page"]["verdict"]
    assert verdict["figure"] == "2 s" or verdict["figure"] == "2.00 s"
    assert verdict["kind"] == "measurement" and words in verdict["words"]
    conclusion = report["first_page"]["conclusion"]
    how = " on a noisy machine" if noise else ""
    assert conclusion[0].startswith(f"Measured {verdict['figure']}{how}: ")
    assert words in conclusion[0]
    assert "1 op (Gemm) falls back from A to B" in conclusion[1]
    assert conclusion[2:] == (["All of it on B would be faster."] if "slower" in words else [])


def test_the_conclusion_names_presets_and_says_first_that_a_plan_does_not_fit(
    mobilenet: Graph, tmp_path: Path
) -> None:
    table = [{"name": "NPU", "preset": "hailo8", "memory": "1MB"}, {"name": "CPU"}]
    page = editor.partition(mobilenet, table).export("json", tmp_path)[0].read_text()
    fits, result, fallen = json.loads(page)["first_page"]["conclusion"]
    assert fits.startswith("It does not fit: NPU (hailo8) needs ") and fits.endswith(" of 1 MB.")
    assert "faster than all of it on CPU (" in result
    assert fallen.startswith("1 op (ReduceMean) falls back from NPU (hailo8) to CPU, which costs ")
    pins = dict.fromkeys(mobilenet.op_keys[:1], "CPU")
    page = editor.partition(mobilenet, "HETERO:CPU", pins=pins).export("json", tmp_path)[0]
    result, fallen = json.loads(page.read_text())["first_page"]["conclusion"]
    assert "all of it runs on CPU" in result and fallen == "Nothing falls back; 1 op pinned."


@pytest.mark.parametrize(
    ("faster", "words"),
    [
        ("A", "1.5x faster than all of it on B (3 s)."),
        ("B", "2x slower than all of it on B (1 s)."),
    ],
)
def test_a_plan_on_one_device_is_compared_with_other_devices(
    mobilenet: Graph, tmp_path: Path, faster: str, words: str
) -> None:
    table = [{"name": "A", "backendName": "CPU"}, {"name": "B", "backendName": "openvino"}]
    plan = editor.partition(mobilenet, table)
    data = plan.benchmark(seconds=0.2).to_dict()
    data["total"] |= {"median": 2.0, "low": 1.9, "high": 2.1}
    for baseline in data["baselines"]:
        second = 1.0 if baseline["device"] == faster else 3.0
        baseline["time"] |= {"median": second, "low": second - 0.05, "high": second + 0.05}
    (tmp_path / "run.json").write_text(json.dumps(data))
    written = plan.export("json", tmp_path, measured=str(tmp_path / "run.json"))[0]
    verdict = json.loads(written.read_text())["first_page"]["verdict"]
    assert words in verdict["words"] and "not splitting" not in verdict["words"]


@pytest.mark.parametrize("form", ["md", "html", "json"])
def test_a_model_without_ops_has_a_report(tmp_path: Path, form: str) -> None:
    one = helper.make_tensor_value_info("t0", TensorProto.FLOAT, [4])
    graph = helper.make_graph([], "net", [one], [one])
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), tmp_path / "net.onnx")
    plan = editor.partition(tmp_path / "net.onnx", "HETERO:NPU,CPU")
    (path,) = plan.export(form, tmp_path / "out")
    assert "No op runs: the outputs are inputs or constants." in path.read_text()
    assert examples(plan.graph) == (), "there is nothing to find"


def test_a_report_says_up_to_which_context_a_plan_fits(tmp_path: Path) -> None:
    (tmp_path / "llama").mkdir()
    path = plain_decoder(tmp_path / "llama" / "model.onnx")
    device = {"name": "A", "backendName": "CPU", "memory": "800kB"}
    plan = editor.partition(path, [device])
    assert plan.run_memory.over_with_runtimes
    text = plan.export("md", tmp_path)[0].read_text()
    assert text.startswith("# llama/model over 1 device"), "every exporter calls it model"
    assert "No room for 127 tokens with what runtimes add: about " in text
    assert " of 800 kB on A." in text
    assert "Fits up to" not in text
    plan = editor.partition(path, [{**device, "memory": "4MB"}])
    (state,) = state_memory(plan.placement)
    text = plan.export("md", tmp_path)[0].read_text()
    until = f"Fits up to a context of about {state.roomy_until:,} tokens, by the memory of A."
    assert until in text and "Tight" not in text
    assert f"- {state.text()}.\n" in text
    assert re.search(r"\*\*about [\d.]+ [mµ]s a token\*\*", text)
    assert "policy “Priority: first capable device”" in text


def test_a_plan_is_not_compared_with_a_model_that_does_not_fit_unsplit(
    mobilenet: Graph, tmp_path: Path
) -> None:
    table = [
        {"name": "A", "backendName": "CPU", "memory": "12MB"},
        {"name": "B", "backendName": "openvino", "memory": "12MB"},
    ]
    plan = editor.partition(mobilenet, table, policy="memory")
    assert len(plan.subgraphs) > 1
    report = json.loads(plan.export("json", tmp_path)[0].read_text())
    lacking = r"\(A needs [\d.]+ MB of 12 MB and B needs [\d.]+ MB of 12 MB\)"
    assert re.search(
        f"no device holds the whole model {lacking};", report["first_page"]["conclusion"][0]
    )
    result = plan.benchmark(seconds=0.2)
    unsplit = [line for line in result.text().splitlines() if line.startswith("Unsplit on ")]
    assert len(unsplit) == 2
    assert all(re.search(r"; does not fit: needs [\d.]+ MB of 12 MB$", line) for line in unsplit)
    (tmp_path / "run.json").write_text(json.dumps(result.to_dict()))
    (path,) = plan.export("json", tmp_path, measured=str(tmp_path / "run.json"))
    words = json.loads(path.read_text())["first_page"]["verdict"]["words"]
    assert re.match(r"Not splitting does not fit: A needs [\d.]+ MB of 12 MB and B needs ", words)
