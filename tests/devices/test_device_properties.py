"""Properties of device tables: a stranger's table names no file and loads no code."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import EXAMPLES, run, write_dag

import editor
from editor.devices.device import Property, property_problem
from editor.devices.discovery import sources
from editor.environment import TRUST

MODEL = EXAMPLES / "models" / "mobilenetv2.onnx"
HARMFUL = [
    ("CPU", name, value)
    for name, value in {
        "session.collect_node_memory_stats_to_file": "{file}",
        "session.node_partition_config_file": "{file}",
        "session.model_external_initializers_file_folder_path": "/etc",
        "session.optimized_model_external_initializers_file_name": "x",
        "ep.context_enable": "1",
        "ep.context_file_path": "{file}",
        "session.resource_cuda_partitioning_settings": "1,{file}",
        "optimization.minimal_build_optimizations": "save",
        "session.debug_layout_transformation": "1",
        "session.not_known_yet": "1",
    }.items()
]
HARMFUL += [
    ("OpenVINO.CPU", name, "{file}")
    for name in ("CACHE_DIR", "WEIGHTS_PATH", "CONFIG_FILE", "LOG_LEVEL")
]
HARMFUL += [
    ("NPU", "CACHE_DIR", "{file}"),
    ("NPU", "backend_path", "/tmp/x.so"),
    ("GPU.7", "session.node_partition_config_file", "x"),
    ("Interpreter", "anything", "1"),
    ("CPU", "backend_path", "libx.so"),
]
HARMFUL_ENTRIES = [
    {
        "name": "G",
        "backendName": "onnxruntime",
        "provider": f"{provider}ExecutionProvider",
        "properties": {name: "x"},
    }
    for provider, name in (
        ("Tensorrt", "trt_engine_cache_path"),
        ("QNN", "backend_path"),
        ("QNN", "profiling_file_path"),
        ("CUDA", "user_compute_stream"),
        ("CUDA", "gpu_external_alloc"),
        ("OpenVINO", "cache_dir"),
        ("OpenVINO", "load_config"),
        ("VitisAI", "config_file"),
        ("CoreML", "ModelCacheDirectory"),
        ("WebGpu", "dawnProcTable"),
        ("Tvm", "so_folder"),
        ("NvTensorRTRTX", "nv_runtime_cache_path"),
    )
]


@pytest.mark.parametrize(
    ("device", "name", "value"), HARMFUL, ids=lambda text: re.sub(r"[/{}]", "", text)
)
def test_a_property_that_no_runtime_states_is_refused_before_a_runtime_sees_it(
    device: str, name: str, value: str, tmp_path: Path
) -> None:
    table = [{"name": device, "properties": {name: value.format(file=tmp_path / "x")}}]
    with pytest.raises(editor.DeviceTableError, match=f"(?s){re.escape(name)}.*--trust"):
        editor.load_devices(table)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "entry",
    HARMFUL_ENTRIES,
    ids=lambda entry: "-".join((entry["provider"][:4], *entry["properties"])),
)
def test_options_of_providers_that_name_files_or_hold_addresses_are_refused(
    entry: dict[str, Any],
) -> None:
    with pytest.raises(editor.DeviceTableError, match="--trust"):
        editor.load_devices([entry])


def test_values_are_of_the_stated_form() -> None:
    for name, value in (
        ("NUM_STREAMS", "../x"),
        ("NUM_STREAMS", "a/b"),
        ("INFERENCE_NUM_THREADS", "two"),
        ("PERF_COUNT", "/x"),
    ):
        with pytest.raises(editor.DeviceTableError, match=f"'{name}' must be"):
            editor.load_devices([{"name": "OpenVINO.CPU", "properties": {name: value}}])
    with pytest.raises(editor.DeviceTableError, match="did you mean 'NUM_STREAMS'"):
        editor.load_devices([{"name": "OpenVINO.CPU", "properties": {"NUM_STREAM": "1"}}])


def test_every_property_that_a_runtime_states_says_what_it_does_and_names_no_file() -> None:
    stated = [(source.name, each) for source in sources() for each in source.properties("")]
    assert {name for name, _ in stated} >= {"onnxruntime", "openvino", "tvm"}
    for owner, each in stated:
        assert isinstance(each, Property) and each.text, (owner, each)
        assert not re.search(
            "path|folder|(?<!pro)file|cache_dir|library|compute_stream|address",
            each.name,
            re.IGNORECASE,
        ), (owner, each.name)


def test_a_trusted_table_passes_all_properties(monkeypatch: pytest.MonkeyPatch) -> None:
    assert property_problem("CACHE_DIR", "/tmp/x", (), "OpenVINO")
    monkeypatch.setenv(TRUST.name, "1")
    (device,) = editor.load_devices(
        [{"name": "OpenVINO.CPU", "properties": {"CACHE_DIR": "/tmp/x"}}]
    )
    assert device.properties == {"CACHE_DIR": "/tmp/x"}


def test_the_command_line_refuses_a_stranger_s_plan_and_table_unless_they_are_trusted(
    tmp_path: Path,
) -> None:
    """``partition``, ``run``, ``bench``, ``kit`` and ``export``, each by itself."""
    target = tmp_path / "written"
    table = tmp_path / "table.json"
    table.write_text(
        json.dumps(
            [
                {
                    "name": "CPU",
                    "properties": {"session.collect_node_memory_stats_to_file": str(target)},
                }
            ]
        )
    )
    write_dag(tmp_path / "m.onnx", [[], [0]])
    plan = editor.partition(editor.load_model(tmp_path / "m.onnx"), "HETERO:CPU").save(
        tmp_path / "plan.json"
    )
    document = json.loads(plan.read_text())
    document["devices"] = json.loads(table.read_text())
    plan.write_text(json.dumps(document))
    for command in (
        [
            "partition",
            str(tmp_path / "m.onnx"),
            "--devices",
            str(table),
            "--out",
            str(tmp_path / "out"),
        ],
        ["run", str(plan)],
        ["bench", str(plan), "--seconds", "0.1"],
        ["kit", str(plan), "--out", str(tmp_path / "kit")],
        ["export", str(plan), "--to", "openvino", "--out", str(tmp_path / "o")],
    ):
        done = run(*command)
        assert (
            done.returncode == 1 and "--trust" in done.stderr and "Traceback" not in done.stderr
        ), command
    assert not target.exists()
    done = run("run", str(plan), "--trust")
    assert done.returncode == 0, done.stderr
