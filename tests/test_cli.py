"""The command line as a person or script uses it."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from conftest import EXAMPLES, ODDITIES, ROOT, python

from editor.__main__ import main

MODELS, TABLES = EXAMPLES / "models", EXAMPLES / "devices"


def run(*arguments: object, status: int = 0) -> subprocess.CompletedProcess[str]:
    done = python("-m", "editor", *arguments, cwd=ROOT, timeout=300)
    assert done.returncode == status, f"{done.returncode}: {done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    return done


def test_devices() -> None:
    assert "ONNX Runtime" in run("devices").stdout
    found = json.loads(run("devices", "--json").stdout)
    assert {d["runtime"] for d in found} >= {"onnxruntime", "openvino", "interpreter"}


def test_partition_why_run_bench_export(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run(
        "partition",
        MODELS / "mobilenetv2.onnx",
        "--devices",
        TABLES / "runtimes.yaml",
        "--pin",
        "logits=Interpreter",
        "--out",
        out,
    )
    assert "5 subgraphs" in done.stdout or "4 subgraphs" in done.stdout
    assert sorted(p.name for p in out.iterdir()) == [
        "hetero_affinity_mobilenetv2.dot",
        "hetero_affinity_mobilenetv2.svg",
        "hetero_subgraphs_mobilenetv2.dot",
        "hetero_subgraphs_mobilenetv2.svg",
        "partition.log",
        "plan.json",
    ]
    assert "Pinned to Interpreter".lower() in run("why", out / "plan.json", "logits").stdout.lower()
    np.savez(tmp_path / "in.npz", pixel_values=np.ones((1, 3, 224, 224), np.float32))
    run(
        "run", out / "plan.json", "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz"
    )
    assert np.load(tmp_path / "out.npz")["logits"].shape == (1, 1000)
    bench = run("bench", out / "plan.json", "--seconds", "1", "--json", tmp_path / "b.json")
    assert "Total time: " in bench.stdout and "Unsplit on OpenVINO" in bench.stdout
    (result,) = json.loads((tmp_path / "b.json").read_text())
    assert result["difference"]["within_tolerance"] and result["total"]["median"] > 0
    before = (out / "hetero_affinity_mobilenetv2.dot").read_bytes()
    run("export", out / "plan.json", "--to", "dot", "--out", tmp_path / "again")
    assert (tmp_path / "again" / "hetero_affinity_mobilenetv2.dot").read_bytes() == before


def test_every_command_that_prints_a_result_prints_it_as_json(tmp_path: Path) -> None:
    out, plan = tmp_path / "out", tmp_path / "out" / "plan.json"
    model, table = MODELS / "mobilenetv2.onnx", TABLES / "runtimes.yaml"
    csv = tmp_path / "affinities" / "mobilenetv2.csv"
    commands: dict[str, tuple[object, ...]] = {
        "partition": ("partition", model, "--devices", table, "--out", out),
        "devices": ("devices",),
        "why": ("why", plan, "mean"),
        "run": ("run", plan),
        "export": ("export", plan, "--to", "csv", "--out", csv.parent),
        "import": ("import", plan, csv, "--out", tmp_path / "imported.json"),
        "bench": ("bench", plan, "--seconds", 0.2),
        "profile": ("profile", plan, "--seconds", 0.2),
        "open": (
            *("partition", MODELS / "whisper-tiny-decoder.onnx", "--devices", "HETERO:CPU"),
            *("--out", tmp_path / "open"),
        ),
        "sizes": ("sizes", tmp_path / "open" / "plan.json", "sequence=1,2"),
        "check": ("check", plan),
        "set": ("set", model, "--devices", "HETERO:CPU"),
        "audit": ("audit", model, "--providers", "CPU"),
        "advise": ("advise", plan),
        "workspace": ("workspace", "list", "--workspace", tmp_path / "workspace"),
    }
    answers = {}
    for name, words in commands.items():
        if name == "import":
            (found,) = csv.parent.glob("*.csv")
            commands[name] = tuple(found if word is csv else word for word in words)
        answers[name] = json.loads(run(*commands[name], "--json").stdout)
    assert answers["partition"]["subgraphs"] == 4
    assert answers["partition"]["written"][0] == str(plan)
    assert {each["wanted"] for each in answers["partition"]["fallbacks"]} == {"OpenVINO"}
    assert answers["why"]["key"] == "mean"
    assert {v["device"] for v in answers["why"]["verdicts"]} >= {"OpenVINO", "ONNX Runtime"}
    assert answers["run"]["outputs"][0]["shape"] == [1, 1000]
    assert answers["import"]["pinned"] == 100
    assert answers["bench"][0]["plan"] == str(plan)
    assert answers["profile"]["OpenVINO"]["total"] > 0
    assert [row["define"]["sequence"] for row in answers["sizes"]] == [1, 2]
    assert answers["workspace"] == {"documents": [], "uploads": []}


def test_two_plans_in_one_benchmark(tmp_path: Path) -> None:
    for name, spec in (("a", "HETERO:CPU"), ("b", "HETERO:openvino")):
        run("partition", MODELS / "mobilenetv2.onnx", "--devices", spec, "--out", tmp_path / name)
    done = run(
        "bench",
        tmp_path / "a" / "plan.json",
        tmp_path / "b" / "plan.json",
        "--seconds",
        "1",
        "--mode",
        "throughput",
        "--requests",
        "2",
    )
    assert re.search(r"Latency \(\d+ of \d+ runs\): median", done.stdout), (
        "some of the runs are timed"
    )
    assert done.stdout.count("Throughput: ") == 2 and done.stdout.count("in flight") == 2
    beside = done.stdout.partition("== side by side\n")[2].splitlines()
    assert {line.split()[0] for line in beside} == {
        str(tmp_path / name / "plan.json") for name in "ab"
    }
    assert all(" requests/s (measurement, 95 % interval " in line for line in beside)
    rates = [float(line.split()[1]) for line in beside]
    assert rates == sorted(rates, reverse=True), "the best first"


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        (["partition", ODDITIES / "html_error_page.onnx", "--devices", "HETERO:CPU"], "HTML page"),
        (["partition", ODDITIES / "truncated.onnx", "--devices", "HETERO:CPU"], "cut short"),
        (
            [
                "partition",
                MODELS / "resnet50.onnx",
                "--define",
                "nope=3",
                "--devices",
                "HETERO:CPU",
            ],
            "no such symbol",
        ),
        (
            ["partition", MODELS / "mobilenetv2.onnx", "--devices", "HETERO:Warp9"],
            "unknown device or runtime 'Warp9'",
        ),
        (
            ["partition", ODDITIES / "custom_op.onnx", "--devices", "HETERO:CPU"],
            "cannot run on any device",
        ),
        (
            [
                "partition",
                MODELS / "mobilenetv2.onnx",
                "--devices",
                "HETERO:CPU",
                "--pin",
                "nothing=CPU",
            ],
            "no op with the key",
        ),
        (["partition", "nowhere.onnx", "--devices", "HETERO:CPU"], "no such file"),
        (
            ["partition", MODELS / "mobilenetv2.onnx", "--objective", "throughput"],
            "--objective is for --policy optimal",
        ),
        (
            ["partition", MODELS / "mobilenetv2.onnx", "--costs", "estimate"],
            "--costs is for --policy optimal or memory or pipeline; the policy is priority",
        ),
    ],
)
def test_bad_input_is_one_line_and_status_one(
    arguments: list[object], cause: str, tmp_path: Path
) -> None:
    done = run(*arguments, "--out", tmp_path / "out", status=1)
    assert done.stderr.startswith("error: ") and cause in done.stderr
    assert not (tmp_path / "out").exists()


def test_broken_yaml_names_the_line(tmp_path: Path) -> None:
    table = tmp_path / "t.yaml"
    table.write_text("- name: A\n  backendName: CPU\n- name: [B\n")
    done = run(
        "partition",
        MODELS / "mobilenetv2.onnx",
        "--devices",
        table,
        "--out",
        tmp_path / "o",
        status=1,
    )
    assert "t.yaml:4: not valid YAML" in done.stderr or "t.yaml:3: not valid YAML" in done.stderr


def test_usage_errors_have_status_two() -> None:
    run("partition", status=2)
    run(
        "partition", "m.onnx", "--devices", "HETERO:CPU", "--out", "x", "--pin", "novalue", status=2
    )
    run("frobnicate", status=2)


def test_a_device_that_is_over_its_memory_is_named(tmp_path: Path) -> None:
    table = tmp_path / "devices.yaml"
    table.write_text("- {name: NPU, memory: 2MB}\n- {name: CPU}\n")
    model = str(EXAMPLES / "models" / "mobilenetv2.onnx")
    done = python(
        "-m", "editor", "partition", model, "--devices", table, "--out", tmp_path, cwd=ROOT
    )
    assert done.returncode == 0
    assert (
        "warning: NPU is over its memory by " in done.stdout
        and "of 2 MB); the policy memory keeps within it" in done.stdout
    )


def test_partition_says_what_fell_back_which_rules_match_nothing_and_what_was_forced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text("- {scope: no/such/block, to: CPU}\n- {type: Reshap, to: CPU}\n")
    model = str(EXAMPLES / "models" / "mobilenetv2.onnx")
    devices = "HETERO:NPU(edgetpu),CPU"
    assert (
        main(
            [
                "partition",
                model,
                "--devices",
                devices,
                "--rules",
                str(rules),
                "--out",
                str(tmp_path),
            ]
        )
        == 0
    )
    said = capsys.readouterr().out
    assert (
        "not on NPU: 52 Conv, 35 Clip, 10 Add, 1 Gemm and 2 more kinds: float32; this device takes int8 or uint8"
        in said
    )
    assert "warning: no op matches the rule scope=no/such/block → CPU\n" in said
    assert "warning: no op matches the rule type=Reshap → CPU; is Reshape meant?" in said
    assert (
        "warning: NPU takes int8 or uint8 only; this model is float32; `NPU(edgetpu as int8)` in --devices plans it"
        in said
    )


def test_where_nothing_fits_no_policy_is_recommended_and_sizes_without_a_plan_end_with_status_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, model = tmp_path / "devices.yaml", str(EXAMPLES / "models" / "whisper-tiny-decoder.onnx")
    table.write_text("- {name: NPU, memory: 2MB}\n")
    partition = ["partition", model, "--devices", str(table), "--out", str(tmp_path)]
    assert main(partition) == 0
    assert "the policy memory finds nothing that fits either" in capsys.readouterr().out
    table.write_text("- {name: NPU, memory: 40MB}\n")
    assert main([*partition, "--policy", "memory"]) == 0
    capsys.readouterr()
    assert main(["sizes", str(tmp_path / "plan.json"), "batch=1,64"]) == 1
    said = capsys.readouterr().out
    assert (
        "batch=64  no plan: The model does not fit into the memory of its devices. (see below)"
        in said
    )
    assert (
        "NPU is over by " in said.partition("\nbatch=64: ")[2]
        and "Heaviest tensors there: " in said
    )


@pytest.mark.parametrize(("name", "status"), [("truncated.onnx", 1), ("mobilenetv2.onnx", 0)])
def test_watch_ends_with_status_one_where_the_model_could_not_be_partitioned(
    tmp_path: Path, name: str, status: int
) -> None:
    model = (ODDITIES if status else MODELS) / name
    assert (
        main(
            ["watch", str(model), "--devices", "HETERO:CPU", "--times", "1", "--out", str(tmp_path)]
        )
        == status
    )


def test_partition_says_joules_where_watts_are_stated_and_keeps_a_limit_of_latency(
    tmp_path: Path,
) -> None:
    table = tmp_path / "watts.yaml"
    table.write_text("- {name: GPU, backendName: CUDA, power: 200 W}\n- {name: CPU, power: 15 W}\n")
    partition = ("partition", MODELS / "mobilenetv2.onnx", "--devices")
    fewest = (*partition, table, "--policy", "optimal", "--objective", "energy")
    said = run(*fewest, "--out", tmp_path / "out").stdout
    assert re.search(r"^energy: [\d.]+ [mµ]?J \(estimate\), no placement is below", said, re.M)
    assert re.search(r"^energy: .*J.* \(estimate from stated watts and times from", said, re.M)
    free = json.loads(run(*fewest, "--out", tmp_path / "out", "--json").stdout)
    limit = free["latency"] / 2
    within = json.loads(
        run(*fewest, "--within", f"{limit}", "--out", tmp_path / "out", "--json").stdout
    )
    assert within["latency"] <= limit < free["latency"]
    assert within["energy"]["joules"] > free["energy"]["joules"] > 0
    assert within["energy"]["kind"] == "estimate" and within["energy"]["unstated"] == []
    refused = run(*fewest, "--within", "1ns", "--out", tmp_path / "out", status=1).stderr
    assert "no placement was found that takes at most 0.001 µs" in refused
    unknown = run(*partition, "HETERO:GPU,CPU", "--out", tmp_path / "out", "--json").stdout
    assert json.loads(unknown)["energy"] is None
    report = run("export", tmp_path / "out" / "plan.json", "--to", "md", "--out", tmp_path / "md")
    assert "wrote" in report.stdout
