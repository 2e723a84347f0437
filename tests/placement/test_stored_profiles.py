"""Profiles that are stored, replaced, taken away and put back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import EXAMPLES

import editor
from editor.devices.table import load_devices
from editor.graph.graph import Graph
from editor.kinds import Kind
from editor.placement.device_profile import (
    DeviceProfile,
    basis_of,
    completed,
    earlier_profile,
    forget_profile,
    load_profile,
    measured,
    put_back_profile,
    save_profile,
)


def test_the_profile_before_is_kept_and_can_be_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A noisy profile replaced a good one for good."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    plan = editor.partition(EXAMPLES / "models" / "mobilenetv2.onnx", "HETERO:CPU")
    graph, device = plan.graph, plan.devices[0]
    good = DeviceProfile("x", 1e-2, {graph.op_keys[0]: 1e-2}, {}, (), 1e-5, 0.0, 0.0, 0.0, 0.0, 1)
    noisy = replace(good, total=3e-2, disturbances=("other programs were busy",))
    assert not put_back_profile(graph, device)
    save_profile(graph, device, good)
    save_profile(graph, device, good)  # the same again is not an earlier one
    assert earlier_profile(graph, device) is None
    save_profile(graph, device, noisy)
    assert (load_profile(graph, device), earlier_profile(graph, device)) == (noisy, good)
    for now, before in ((good, noisy), (noisy, good)):
        assert put_back_profile(graph, device)
        assert (load_profile(graph, device), earlier_profile(graph, device)) == (now, before)
    forget_profile(graph, device)
    assert (load_profile(graph, device), earlier_profile(graph, device)) == (None, noisy)
    forget_profile(graph, device)  # nothing is there, and nothing is lost
    assert put_back_profile(graph, device)
    assert (load_profile(graph, device), earlier_profile(graph, device)) == (noisy, None)


def test_a_profile_keeps_no_kernel_that_computes_nothing(mobilenet: Graph) -> None:
    """While an op was excluded, each new profile brought all kernels of the one before it along."""
    excluded, *rest = mobilenet.op_keys[:4]

    def profile(keys: list[str]) -> DeviceProfile:
        kernels = tuple(f"kernel of {key}" for key in keys)
        seconds, fused = dict.fromkeys(keys, 1e-3), {key: i for i, key in enumerate(keys)}
        return DeviceProfile(
            "x", 1e-3 * len(keys), seconds, fused, kernels, 1e-5, 0.0, 0.0, 0.0, 0.0, 1
        )

    stored = profile([excluded, *rest])
    for _ in range(3):
        stored = completed(mobilenet, profile(rest), stored)
    assert sorted(stored.kernels) == sorted(f"kernel of {key}" for key in (excluded, *rest))
    assert all(stored.kernels[kernel] == f"kernel of {key}" for key, kernel in stored.fused.items())


def test_times_that_a_compiler_worked_out_are_estimates(mobilenet: Graph) -> None:
    devices = load_devices("HETERO:NPU,CPU")
    own = [mobilenet.op_keys[op] for op in np.flatnonzero(~mobilenet.op_is_constant).tolist()]
    times = DeviceProfile(
        "NPU",
        1.0,
        dict.fromkeys(own, 1e-3),
        {},
        (),
        0.0,
        0.0,
        0.0,
        0.0,
        0.0,
        1,
        origin="a compiler",
    )
    for profile, kind in (
        (times, Kind.PREDICTION),
        (replace(times, estimated=True), Kind.ESTIMATE),
    ):
        basis = basis_of(measured(mobilenet, devices, [profile, None]), "measured", [0])
        assert basis.kind is kind and "NPU: a compiler" in basis.detail
