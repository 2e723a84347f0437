"""The commands that monitor a model: ``check``, ``import``, ``watch``, and the example job of a CI that uses them."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import onnx
import pytest
import yaml
from conftest import EXAMPLES, run, write_dag

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
    assert failed.returncode == 1 and json.loads(failed.stdout)["worse"] == [
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
    assert late.returncode == 1 and json.loads(late.stdout)["worse"] == ["latency"]
    assert json.loads(late.stdout)["kind"] == "estimate"
    for limit, status in (("100s", 0), ("1e2", 0), ("0.001ms", 1), (".001 ms", 1)):
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
    assert told.returncode == 1 and "it has 1 MB: TOO MUCH" in told.stdout and not told.stderr
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
    assert [s[0] for s in steps] == ["partition", "check", "export"]
    (tmp_path / "model.onnx").write_bytes(mobilenet.path.read_bytes())
    slow, fast = (
        [{"name": "A", "backendName": "CPU", **more}, {"name": "B", "backendName": "CPU"}]
        for more in ({"nonSupportedNodes": "Clip"}, {})
    )
    for table, again, statuses in (
        (fast, slow, [0, 1, 0]),
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
    done = run(*steps[1], cwd=tmp_path)
    assert done.returncode == 1 and "does not say its totals" in done.stderr


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
