"""What a kit measured becomes a profile: the runtime's layers, or the groups where those cannot be matched.

``tests/data/profiles/kit.json`` is the ``profile.json`` of a kit of ``small.onnx``, measured with OpenVINO.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import editor
from editor.imports.device_figures import ProfileReport
from editor.placement.chosen_costs import costs_of_plan
from editor.placement.device_profile import DeviceProfile, load_profile

PROFILES = Path(__file__).parents[1] / "data" / "profiles"
KIT: dict[str, Any] = json.loads((PROFILES / "kit.json").read_text())
Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def brought(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[DeviceProfile, ProfileReport]]:
    """Imports the file after a change."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def bring(change: Change = dict) -> tuple[DeviceProfile, ProfileReport]:
        kit = json.loads(json.dumps(KIT))
        change(kit)
        (tmp_path / "profile.json").write_text(json.dumps(kit))
        graph = editor.load_model(PROFILES / "small.onnx")
        plan = editor.partition(graph, [{"name": "NPU", "backendName": "NPU"}])
        plan, report = plan.import_profile(tmp_path / "profile.json")
        profile = load_profile(graph, plan.devices[0])
        assert profile is not None
        return profile, report

    return bring


def test_the_ops_add_up_to_the_whole_and_links_come_with_them(
    brought: Callable[..., tuple[DeviceProfile, ProfileReport]],
) -> None:
    profile, report = brought()
    whole, links = KIT["wholes"][0], KIT["links"]
    assert not report.without and profile.total == pytest.approx(whole["seconds"])
    assert sum(profile.seconds.values()) == pytest.approx(
        (whole["seconds"] - links["launch_seconds"]) * report.share
    )
    assert profile.launch_seconds == max(whole["cut_seconds"], links["launch_seconds"])
    assert (profile.in_latency, profile.out_seconds_per_byte) == (
        links["in_latency"],
        links["out_seconds_per_byte"],
    )
    assert (
        profile.has_links
        and profile.origin == "kit with openvino 2026.4.1 CPU on board, 2026-11-23"
    )


def test_groups_are_used_where_the_runtimes_layers_cannot_be_matched(
    brought: Callable[..., tuple[DeviceProfile, ProfileReport]],
) -> None:
    def rename(kit: dict[str, Any]) -> None:
        for number, layer in enumerate(kit["wholes"][0]["layers"]):
            layer.update(name=f"fused_{number}", ops=[], type="")

    profile, report = brought(rename)
    whole, launch = KIT["wholes"][0], KIT["links"]["launch_seconds"]
    assert (
        any("groups that were measured one by one" in note for note in report.notes)
        and report.share == 1
    )
    assert sum(profile.seconds.values()) == pytest.approx(
        whole["scale"] * sum(max(group["seconds"] - launch, 0) for group in KIT["groups"])
    )
    assert not report.without


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda kit: kit["wholes"][0].update(after=2 * kit["wholes"][0]["seconds"]),
            "the machine was not quiet",
        ),
        (lambda kit: kit["wholes"][0].update(scale=2.0), "2.00 times the sum of its groups"),
        (
            lambda kit: kit.update(
                wholes=[{"ops": kit["wholes"][0]["ops"], "error": "no such op"}]
            ),
            "not measured (no such op)",
        ),
        (
            lambda kit: kit.update(properties={"PRECISION": "bf16"}),
            "than NPU has in the table (PRECISION=bf16; the table: none)",
        ),
        (
            lambda kit: kit["failed"].append({"ops": {"op9": "logits"}, "reason": "refused"}),
            "not measured: logits: refused",
        ),
    ],
)
def test_what_makes_a_kits_figures_doubtful_is_said(
    brought: Callable[..., tuple[DeviceProfile, ProfileReport]], change: Change, words: str
) -> None:
    profile, report = brought(change)
    assert any(words in note for note in report.notes), report.notes
    noise = [note for note in report.notes if "not quiet" in note]
    assert list(profile.disturbances) == noise


def test_a_kit_that_ran_on_the_cpu_says_so_wherever_its_figures_are_used(
    brought: Callable[..., tuple[DeviceProfile, ProfileReport]], tmp_path: Path
) -> None:
    words = "measured on CPU, not on NPU"
    profile, report = brought()
    assert words in report.notes and profile.stand_in("NPU") == words
    plan = editor.partition(
        editor.load_model(PROFILES / "small.onnx"), [{"name": "NPU", "backendName": "NPU"}]
    )
    text = plan.export("md", tmp_path)[0].read_text()
    assert "prediction from imported profile, " in text and "NPU measured on CPU)" in text
    assert words in str(costs_of_plan(plan.placement)[1])


@pytest.mark.parametrize("target", ["HailoExecutionProvider", "NPU", ""])
def test_a_kit_that_ran_on_its_device_raises_no_doubt(
    brought: Callable[..., tuple[DeviceProfile, ProfileReport]], target: str
) -> None:
    profile, report = brought(lambda kit: kit.update(target=target))
    assert not profile.measured_on and not any("not on" in note for note in report.notes)


def test_without_links_transfers_stay_estimates(
    brought: Callable[..., tuple[DeviceProfile, ProfileReport]],
) -> None:
    profile, _ = brought(lambda kit: kit.update(links={"error": "no Slice here"}))
    assert not profile.has_links and not profile.has_launch
