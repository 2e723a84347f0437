"""A plan has one figure, whoever shows it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

import editor
from editor.__main__ import main
from editor.graph.graph import Graph
from editor.placement.device_profile import DeviceProfile, save_profile


@pytest.mark.parametrize(
    ("policy", "options", "by_profile"),
    [
        ("priority", {}, True),
        ("priority", {"costs": "estimate"}, False),
        ("optimal", {}, False),
        ("optimal", {"costs": "measured"}, True),
    ],
)
def test_reports_and_checks_go_by_the_costs_that_were_chosen(
    mobilenet: Graph,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    policy: str,
    options: dict[str, str],
    by_profile: bool,
) -> None:
    """The status bar said 94.6 ms, the report that was made from it 59.1: it took the profile that the plan does not go by."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    [device] = editor.partition(mobilenet, "HETERO:CPU").devices
    keys = [
        key
        for key, constant in zip(mobilenet.op_keys, mobilenet.op_is_constant.tolist(), strict=True)
        if not constant
    ]
    save_profile(
        mobilenet,
        device,
        DeviceProfile(
            device.description,
            2e-3 * len(keys),
            dict.fromkeys(keys, 2e-3),
            {},
            (),
            1e-5,
            0.0,
            0.0,
            0.0,
            0.0,
            1,
        ),
    )
    plan = editor.partition(mobilenet, "HETERO:CPU", policy=policy, policy_options=options)
    report = json.loads(plan.export("json", tmp_path)[0].read_text())["totals"]
    assert main(["check", str(plan.save(tmp_path / "plan.json")), "--json"]) == 0
    checked = json.loads(capsys.readouterr().out)
    (row,) = plan.at_sizes([{}])
    assert row.figures["predicted"] == pytest.approx(report["latency"])
    with plan.export("csv", tmp_path)[0].open() as file:
        rows = list(csv.DictReader(line for line in file if line[0] != "#"))
    assert (report["latency"], report["kind"]) == (checked["latency"], checked["kind"])
    assert report["kind"] == ("prediction" if by_profile else "estimate")
    assert {r["kind"] for r in rows} == {report["kind"]}
    assert (report["latency"] > 0.1) is by_profile is (float(rows[0]["seconds"]) == 2e-3)
