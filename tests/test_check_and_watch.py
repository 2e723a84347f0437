"""The commands that monitor a model: ``check``, ``import``, ``watch``, and the example job of a CI that uses them."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
import yaml
from conftest import EXAMPLES, ROOT, run, write_dag

import editor
from editor.graph.graph import Graph
from editor.graph.loading import load_model
from editor.runtimes.base import Capability

TWINS = [
    {"name": n, "backendName": "onnxruntime", "provider": "CPUExecutionProvider"} for n in "AB"
]


def test_check_import_and_watch_on_the_command_line(
    mobilenet: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # no profiles of other tests
    middle = [mobilenet.op_keys[op] for op in mobilenet.order if not mobilenet.op_is_constant[op]][
        20:50
    ]
    good = editor.partition(mobilenet, TWINS)
    bad = editor.partition(
        mobilenet,
        TWINS,
        pins=dict.fromkeys(middle, "B"),
        capabilities=[Capability.everything(mobilenet)] * 2,
    )
    good.save(tmp_path / "good.json")
    bad.save(tmp_path / "bad.json")
    assert (
        run(
            "check", str(tmp_path / "good.json"), "--against", str(tmp_path / "bad.json")
        ).returncode
        == 0
    )
    failed = run(
        "check", str(tmp_path / "bad.json"), "--against", str(tmp_path / "good.json"), "--json"
    )
    assert failed.returncode == 3 and json.loads(failed.stdout)["worse"] == [
        "subgraphs",
        "bytes_moved",
    ]
    shutil.copy(mobilenet.path, tmp_path / "other.onnx")
    renamed = editor.partition(load_model(tmp_path / "other.onnx", mobilenet.define), TWINS)
    renamed.save(tmp_path / "other.json")
    told = run("check", str(tmp_path / "good.json"), "--against", str(tmp_path / "other.json"))
    assert (
        told.returncode == 0
        and "a plan of other.onnx, this one of mobilenetv2.onnx" in told.stderr
        and not failed.stderr
    )
    editor.partition(load_model(EXAMPLES / "models" / "resnet50.onnx", {"batch": 1}), TWINS).save(
        tmp_path / "resnet.json"
    )
    refused = run("check", str(tmp_path / "good.json"), "--against", str(tmp_path / "resnet.json"))
    assert refused.returncode == 1 and "a plan of another model (resnet50.onnx" in refused.stderr
    assert run("check", str(tmp_path / "bad.json"), "--max-subgraphs", "3").returncode == 0
    late = run(
        "check",
        str(tmp_path / "bad.json"),
        "--max-subgraphs",
        "3",
        "--max-latency",
        "1us",
        "--json",
    )
    assert late.returncode == 3 and json.loads(late.stdout)["worse"] == ["latency"]
    assert json.loads(late.stdout)["kind"] == "estimate"
    for limit, status in (("100s", 0), ("1e2", 0), ("0.001ms", 3), (".001 ms", 3)):
        told = run("check", str(tmp_path / "bad.json"), "--max-latency", limit)
        assert told.returncode == status and ("TOO LONG" in told.stdout) == bool(status)
        assert "(estimate from shapes, limit" in told.stdout
    table = [{**TWINS[0], "memory": "1MB"}, TWINS[1]]
    editor.partition(mobilenet, table).save(tmp_path / "small.json")
    told = run("check", str(tmp_path / "small.json"), "--max-subgraphs", "3")
    assert (
        told.returncode == 0
        and "memory of A: " in told.stdout
        and "it has 1 MB (--within-memory" in told.stdout
    )
    told = run("check", str(tmp_path / "small.json"), "--within-memory")
    assert told.returncode == 3 and "it has 1 MB: TOO MUCH" in told.stdout and not told.stderr
    assert run("check", str(tmp_path / "good.json"), "--within-memory").returncode == 0
    editor.partition(mobilenet, [{**TWINS[0], "memory": "1GB"}]).save(tmp_path / "roomy.json")
    told = run("check", str(tmp_path / "roomy.json"), "--within-memory")
    assert (
        told.returncode == 0 and "memory of A: " in told.stdout and "it has 1 GB\n" in told.stdout
    )
    assert (
        "is not a time" in run("check", str(tmp_path / "bad.json"), "--max-latency", "soon").stderr
    )
    done = run(
        "import",
        str(tmp_path / "good.json"),
        str(tmp_path / "bad.json"),
        "--out",
        str(tmp_path / "new.json"),
    )
    assert done.returncode == 0 and "100 ops pinned" in done.stdout
    assert editor.load_plan(tmp_path / "new.json").affinity == bad.affinity
    seen = run(
        "watch",
        str(mobilenet.path),
        "--devices",
        "HETERO:GPU,CPU",
        "--pin",
        "logits=CPU",
        "--pin",
        "gone=CPU",
        "--times",
        "1",
        "--out",
        str(tmp_path / "watched"),
    )
    assert seen.returncode == 0 and "2 subgraphs" in seen.stdout and "'gone'" in seen.stderr
    assert editor.load_plan(tmp_path / "watched" / "plan.json").affinity["logits"] == "CPU"


def test_the_example_ci_job_fails_when_subgraphs_or_bytes_grow(
    mobilenet: Graph, tmp_path: Path
) -> None:
    job = yaml.safe_load((EXAMPLES / "ci" / "hetero-check.yml").read_text())
    steps = [
        shlex.split(s["run"])[1:]
        for s in job["jobs"]["check"]["steps"]
        if s.get("run", "").startswith("hetero-editor ")
    ]
    assert [s[0] for s in steps] == ["partition", "export", "check"]
    (tmp_path / "model.onnx").write_bytes(mobilenet.path.read_bytes())
    slow, fast = (
        [{"name": "A", "backendName": "CPU", **more}, {"name": "B", "backendName": "CPU"}]
        for more in ({"nonSupportedNodes": "Clip"}, {})
    )
    for table, again, statuses in (
        (fast, slow, [0, 0, 3]),
        (slow, fast, [0, 0, 0]),
        (fast, fast, [0, 0, 0]),
    ):
        (tmp_path / "devices.yaml").write_text(yaml.safe_dump(table))
        assert (
            run(
                "partition", "model.onnx", "--devices", "devices.yaml", "--out", ".", cwd=tmp_path
            ).returncode
            == 0
        )
        (tmp_path / "devices.yaml").write_text(yaml.safe_dump(again))
        changed = onnx.load(tmp_path / "model.onnx")
        changed.doc_string += "changed"
        onnx.save(changed, tmp_path / "model.onnx")
        assert [run(*step, cwd=tmp_path).returncode for step in steps] == statuses
    (tmp_path / "plan.json").write_text(
        json.dumps(
            {
                k: v
                for k, v in json.loads((tmp_path / "plan.json").read_text()).items()
                if k != "totals"
            }
        )
    )
    done = run(*steps[2], cwd=tmp_path)
    assert done.returncode == 1 and "does not say its totals" in done.stderr


@pytest.mark.parametrize(("limits", "status"), [("", 0), ("--max-subgraphs 1", 3)])
def test_the_steps_of_the_action_run(
    limits: str, status: int, mobilenet: Graph, tmp_path: Path
) -> None:
    """Those that call the editor, in a shell as GitHub runs them."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    shutil.copy(mobilenet.path, tmp_path / "model.onnx")
    plan = editor.partition(
        load_model(tmp_path / "model.onnx"), TWINS, pins={"logits": "B"}, policy="priority"
    )
    plan.save(tmp_path / "plan.json")
    command = tmp_path / "bin" / "hetero-editor"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m editor "$@"\n')
    command.chmod(0o755)
    inputs = {"model": "model.onnx", "plan": "plan.json", "devices": "", "limits": limits}
    statuses = []
    for step in action["runs"]["steps"]:
        if "hetero-editor " not in step.get("run", ""):
            continue
        env = {
            name: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda m: inputs[m[1]], value)
            for name, value in step.get("env", {}).items()
        }
        done = subprocess.run(
            ["bash", "-e", "-c", step["run"]],
            cwd=tmp_path,
            env={
                **os.environ,
                **env,
                "PATH": f"{command.parent}:{os.environ['PATH']}",
                "PYTHONPATH": str(ROOT),
                "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        statuses.append(done.returncode)
    assert statuses == [0, 0, status]
    assert "subgraphs" in (tmp_path / "summary.md").read_text()
    assert editor.load_plan(tmp_path / "hetero-new" / "plan.json").pins == {"logits": "B"}


def test_the_hook_runs_the_check(mobilenet: Graph, tmp_path: Path) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    name, *arguments = hook["entry"].split()
    assert name == "hetero-editor"
    editor.partition(mobilenet, TWINS).save(tmp_path / "plan.json")
    for most, status in (("4", 0), ("0", 3)):
        done = run(*arguments, "plan.json", "--max-subgraphs", most, cwd=tmp_path)
        assert done.returncode == status


def test_like_keeps_the_decisions_of_a_plan(mobilenet: Graph, tmp_path: Path) -> None:
    shutil.copy(mobilenet.path, tmp_path / "model.onnx")
    table = [{"name": "A", "backendName": "CPU"}, {"name": "B", "backendName": "CPU"}]
    plan = editor.partition(
        load_model(tmp_path / "model.onnx"),
        table,
        "optimal",
        pins={"logits": "B"},
        rules=[{"type": "Clip", "to": "B"}],
        policy_options={"objective": "throughput"},
    )
    plan.save(tmp_path / "plan.json")
    changed = onnx.load(tmp_path / "model.onnx")
    changed.doc_string += "changed"
    (last,) = [node for node in changed.graph.node if "logits" in node.output]
    last.output[0] = changed.graph.output[0].name = "scores"
    onnx.save(changed, tmp_path / "model.onnx")
    words = ("partition", "model.onnx", "--like", "plan.json", "--out", "new")
    done = run(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "no op 'logits' any more; its pin is left out" in done.stderr
    again = editor.load_plan(tmp_path / "new" / "plan.json")
    assert (again.settings.policy, again.settings.policy_options) == (
        "optimal",
        {"objective": "throughput"},
    )
    assert again.settings.rules == plan.settings.rules
    assert [d.name for d in again.devices] == ["A", "B"]
    assert again.pins == {}
    done = run(*words, "--policy", "priority", "--pin", "scores=B", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    again = editor.load_plan(tmp_path / "new" / "plan.json")
    assert (again.settings.policy, again.pins) == ("priority", {"scores": "B"})
    assert not again.settings.policy_options
    done = run(*words, "--pin", "logits=B", cwd=tmp_path)
    assert done.returncode == 1
    assert "logits" in done.stderr


@pytest.mark.parametrize("affinities", [None, 5, [], "x", True])
def test_a_plan_with_damaged_affinities_is_refused(tmp_path: Path, affinities: object) -> None:
    plan = editor.partition(write_dag(tmp_path / "m.onnx", [[], [0]]), "HETERO:CPU").save(
        tmp_path / "plan.json"
    )
    damaged = json.loads(plan.read_text())
    damaged["affinities"] = affinities
    (tmp_path / "damaged.json").write_text(json.dumps(damaged))
    for arguments in (
        (str(plan), "--against", str(tmp_path / "damaged.json")),
        (str(tmp_path / "damaged.json"),),
    ):
        done = run("check", *arguments)
        assert (
            done.returncode == 1
            and done.stderr.startswith("error: ")
            and "damaged.json" in done.stderr
        )
        assert "Traceback" not in done.stderr
