"""Several models share the memory and the time of one device table."""

from __future__ import annotations

import itertools
import json
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from conftest import EXAMPLES, run
from decoders import plain_decoder
from weighted_chain import weighted_chain

import editor
from editor.workspace.model_set import model_paths

SIDE = 256
WEIGHTS = SIDE * SIDE * 4


chain = partial(weighted_chain, side=SIDE)


def table(memory: int | None) -> list[dict[str, object]]:
    fast: dict[str, object] = {"name": "Fast", "backendName": "CPU", "peakCompute": 1e12}
    fast |= {"peakDramBw": 1e12, "link": {"bandwidth": 1e11, "latency": 1e-7}}
    if memory is not None:
        fast["memory"] = memory
    return [{"name": "Slow", "backendName": "CPU", "peakCompute": 1e9, "peakDramBw": 1e9}, fast]


@pytest.mark.parametrize("policy", ["memory", "optimal"])
def test_without_limits_each_model_is_as_it_is_alone(policy: str, tmp_path: Path) -> None:
    paths = [chain(tmp_path / "a.onnx", 3), chain(tmp_path / "b.onnx", 5)]
    found = editor.partition_set(paths, table(None), policy, {"b": 10})
    for path, member in zip(paths, found.members, strict=True):
        alone = editor.partition(path, table(None), policy)  # type: ignore[arg-type]
        assert member.plan.affinity == alone.affinity
    assert [each.runs for each in found.members] == [1, 10]
    assert [each.source for each in found.members] == ["assumed", "given"]
    assert found.seconds == sum(each.runs * each.seconds for each in found.members)
    fast = found.shared[1]
    assert fast.weights == 8 * WEIGHTS
    assert fast.needed > fast.weights


@pytest.mark.parametrize("fits", [2, 4, 6])
def test_the_weights_of_all_models_fit_and_the_one_that_runs_often_comes_first(
    fits: int, tmp_path: Path
) -> None:
    paths = [chain(tmp_path / "rare.onnx", 4), chain(tmp_path / "often.onnx", 4)]
    memory = fits * WEIGHTS + 4 * 64 * SIDE * 4
    found = editor.partition_set(paths, table(memory), "memory", {"often": 100})
    fast = found.shared[1]
    assert fast.needed <= memory
    assert fast.weights == fits * WEIGHTS
    rare, often = found.members
    on_fast = [each.plan.placement.op_counts["Fast"] for each in (rare, often)]
    assert on_fast == [max(fits - 4, 0), min(fits, 4)]
    # No other way to give each model a share of the memory answers sooner.
    alone = {}
    for path, count in itertools.product(paths, range(5)):
        share = count * WEIGHTS + 4 * 64 * SIDE * 4
        plan = editor.partition(path, table(share), "memory")
        one = editor.partition_set([path], table(share), "memory", {path.stem: 1})
        assert one.members[0].plan.affinity == plan.affinity
        alone[path.stem, count] = one.seconds
    best = min(
        alone["rare", a] + 100 * alone["often", b]
        for a, b in itertools.product(range(5), range(5))
        if a + b <= fits
    )
    assert found.seconds == pytest.approx(best)


def test_the_runs_of_all_models_fit_beside_the_weights_of_the_others(tmp_path: Path) -> None:
    decoder = EXAMPLES / "models" / "whisper-tiny-decoder.onnx"
    paths = [chain(tmp_path / "encoder.onnx", 12), decoder]
    for memory in range(4_000_000, 10_000_000, 500_000):
        found = editor.partition_set(paths, table(memory), define={"sequence": 1})
        fast = found.shared[1]
        assert fast.needed <= memory
        assert fast.weights > 0


def test_a_set_is_written_read_and_each_plan_runs(tmp_path: Path) -> None:
    paths = [chain(tmp_path / "encoder.onnx", 3), plain_decoder(tmp_path / "decoder.onnx")]
    found = editor.partition_set(paths, table(3 * WEIGHTS), define={"sequence_length": 2})
    assert [each.runs for each in found.members] == [1, 64]
    assert found.members[1].plan.graph.define["sequence_length"] == 2
    files = found.save(tmp_path / "out")
    assert [str(f.relative_to(tmp_path / "out")) for f in files] == [
        "set.json",
        "encoder/plan.json",
        "decoder/plan.json",
    ]
    again = editor.load_set(tmp_path / "out")
    assert again.seconds == found.seconds
    assert [each.plan.affinity for each in again.members] == [
        each.plan.affinity for each in found.members
    ]
    assert [(d.device, d.needed, d.limit) for d in again.shared] == [
        (d.device, d.needed, d.limit) for d in found.shared
    ]
    x = np.random.default_rng(0).standard_normal((64, SIDE)).astype(np.float32)
    assert np.isfinite(again.members[0].plan.run({"x": x})["y"]).all()
    (tmp_path / "out" / "set.json").write_text("{}")
    with pytest.raises(editor.PlanError, match="not a set"):
        editor.load_set(tmp_path / "out")


@pytest.mark.parametrize("given", ["./a/../encoder.onnx", "{folder}/a/.././encoder.onnx"])
def test_paths_of_a_set_are_relative_to_its_file(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were as they had been typed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    for folder in (tmp_path, tmp_path / "in"):
        chain(folder / "encoder.onnx", 2)
    found = editor.partition_set([given.format(folder=tmp_path), "in/encoder.onnx"], "HETERO:CPU")
    for out, paths in (
        ("", ["encoder.onnx", "in/encoder.onnx"]),
        ("in", ["../encoder.onnx", "encoder.onnx"]),
        ("in/deep/..", ["../encoder.onnx", "encoder.onnx"]),
    ):
        found.save(tmp_path / out)
        file = tmp_path / out / "set.json"
        document = json.loads(file.read_text())
        assert [each["model"] for each in document["models"]] == paths
        assert [each["plan"] for each in document["models"]] == [
            "encoder/plan.json",
            "encoder_2/plan.json",
        ]
        for each in document["models"]:
            each["plan"] = f"./gone/../{each['plan']}"
        file.write_text(json.dumps(document))
        assert editor.load_set(file).seconds == found.seconds
    models = [each["model"] for each in found.to_dict()["models"]]
    assert models == [str(tmp_path / "encoder.onnx"), str(tmp_path / "in" / "encoder.onnx")]


def test_what_the_others_take_is_what_is_left_of_what_all_need(tmp_path: Path) -> None:
    decoder = EXAMPLES / "models" / "whisper-tiny-decoder.onnx"
    paths = [chain(tmp_path / "encoder.onnx", 12), decoder]
    found = editor.partition_set(paths, table(6_000_000), define={"sequence": 1})
    needed = found.shared[1].needed
    for member in found.members:
        device = member.plan.placement.devices[1]
        assert member.plan.run_memory.peaks["Fast"] + device.taken == needed
        assert device.memory_of_table == 6_000_000


def test_a_folder_gives_its_models_and_of_variants_one(tmp_path: Path) -> None:
    for name in ("encoder_model", "decoder_model", "decoder_model_merged"):
        chain(tmp_path / f"{name}.onnx", 1)
    for name in ("vae_decoder", "unet", "text_encoder"):
        chain(tmp_path / name / "model.onnx", 1)
    names = [path.relative_to(tmp_path).as_posix() for path in model_paths(tmp_path)]
    assert names == [
        "encoder_model.onnx",
        "text_encoder/model.onnx",
        "decoder_model_merged.onnx",
        "unet/model.onnx",
        "vae_decoder/model.onnx",
    ], "in the order in which they run"
    found = editor.partition_set(tmp_path, "HETERO:CPU")
    assert {each.name: each.runs for each in found.members} == {
        "decoder_model_merged": 1,
        "encoder_model": 1,
        "text_encoder": 1,
        "unet": 20,
        "vae_decoder": 1,
    }
    (tmp_path / "none").mkdir()
    with pytest.raises(editor.ModelError, match="no model in this folder"):
        model_paths(tmp_path / "none")


def test_the_command_line_places_a_set(tmp_path: Path) -> None:
    chain(tmp_path / "encoder.onnx", 2)
    plain_decoder(tmp_path / "decoder.onnx")
    words = ("set", "encoder.onnx", "decoder.onnx", "--devices", "HETERO:OpenVINO.CPU,CPU")
    done = run(*words, "--times", "decoder=32", "--to", "csv", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "One answer:" in done.stdout
    assert "decoder: 32 x" in done.stdout
    assert (tmp_path / "out" / "decoder" / "plan.json").is_file()
    assert list((tmp_path / "out" / "encoder").glob("*.csv"))
    done = run(*words, "--json", cwd=tmp_path)
    document = json.loads(done.stdout)
    assert [each["runs"] for each in document["models"]] == [1, 64]
    done = run(*words, "--times", "vocoder=3", cwd=tmp_path)
    assert done.returncode == 1
    assert "no model of the set is called 'vocoder'" in done.stderr
    done = run(*words, "--define", "height=3", cwd=tmp_path)
    assert "no model of the set has a dimension 'height'" in done.stderr
    done = run("set", EXAMPLES / "models" / "nothing.onnx", cwd=tmp_path)
    assert done.returncode == 1
    assert "no such file" in done.stderr


def test_times_on_an_assumed_speed_are_rough(tmp_path: Path) -> None:
    paths = [chain(tmp_path / "a.onnx", 3), chain(tmp_path / "b.onnx", 5)]
    time = r"[\d.]+ [mµ]?s\b"
    rough = r"about (?:[1-9]\d?0?|[1-9]\.[1-9]) [mµ]?s\b"
    stated = editor.partition_set(paths, table(None)).text()
    assert re.search(time, stated) and "about" not in stated
    assumed = [{k: v for k, v in each.items() if k != "peakCompute"} for each in table(None)]
    found = editor.partition_set(paths, assumed, "priority", policy_options={"first": "Fast"})
    assert [each.assumed_speeds for each in found.members] == [("Fast",), ("Fast",)]
    said = [line for line in found.text().splitlines() if "Slow" not in line]
    assert len(said) == 4
    for line in said:
        assert len(re.findall(rough, line)) == len(re.findall(time, line)) > 0, line
