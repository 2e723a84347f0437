"""Devices of other machines: two workers with different devices, as processes on the loopback."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from conftest import ROOT, python
from decoders import fused_decoder
from distributed.system import MEMORY_LIMIT
from farm import (
    LAYERS,
    SIZE,
    TABLE,
    Farm,
    assert_same,
    edge_and_server,
    scheduler,
    split,
    unsplit,
    write_credentials,
    write_net,
)
from onnx import TensorProto, helper
from pages import free_port
from plotly.utils import PlotlyJSONEncoder

import editor
from benchmarks.machines import WIRES, run_on
from benchmarks.wires import why_not
from editor.execution.invented_inputs import random_inputs
from editor.execution.machines.remote_profile import measure_wires
from editor.execution.machines.worker import WeightStore
from editor.execution.measure.prediction import correct_profiles
from editor.execution.measure.profile import profile_all
from editor.graph.states import sizes_of_step
from editor.placement.device_profile import costs_of, load_profile
from editor.placement.wires import Wire, load_wires, save_wires
from editor.runtimes.machines import connection
from editor.runtimes.machines.connection import Connection, directory
from editor.runtimes.machines.runtime import pack
from editor.web.panels.benchmark_panel import result_view
from editor.web.panels.timeline import steps, timeline


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farm]:
    with edge_and_server(tmp_path_factory.mktemp("caches")) as farm:
        yield farm


def test_devices_of_machines_are_listed_with_what_they_report(farm: Farm) -> None:
    listed = python(
        "-m", "editor", "devices", "--scheduler", farm.address, cwd=ROOT, check=True, timeout=60
    ).stdout
    assert "edge/CPU" in listed and "edge/Interpreter" in listed and "server/CPU" in listed
    assert "server/Interpreter" not in listed, "it does not offer it"
    assert editor.load_devices("HETERO:edge/CPU")[0].memory == 2 << 30, "the limit of the worker"
    assert editor.load_devices("HETERO:server/CPU")[0].memory == MEMORY_LIMIT, (
        "no limit: all that the machine has"
    )


def test_a_split_over_two_machines_computes_what_the_unsplit_model_does(
    farm: Farm, tmp_path: Path
) -> None:
    plan = split(write_net(tmp_path / "net.onnx"))
    assert [s.device for s in plan.subgraphs] == ["edge/CPU", "server/CPU"]
    assert_same(plan)
    _, times = plan.compile().run_timed(random_inputs(plan.graph))
    (transfer,) = times.transfers
    assert (transfer.tensor, transfer.source, transfer.target, transfer.bytes) == (
        "r2",
        0,
        1,
        8 * SIZE * 4,
    )
    assert all(s > 0 for s in times.subgraphs) and sum(times.subgraphs) < times.total


def test_back_and_forth_and_with_devices_of_this_machine(farm: Farm, tmp_path: Path) -> None:
    path = write_net(tmp_path / "net.onnx")
    graph = editor.load_model(path)
    for devices in (
        ["edge/CPU", "server/CPU"],
        ["CPU", "edge/CPU"],
        ["CPU", "edge/CPU", "server/CPU", "edge/Interpreter"],
    ):
        pins = {key: devices[op // 2 % len(devices)] for op, key in enumerate(graph.op_keys)}
        assert_same(editor.partition(graph, f"HETERO:{','.join(devices)}", pins=pins))


def test_weights_travel_once_also_for_another_split(farm: Farm, tmp_path: Path) -> None:
    path = write_net(tmp_path / "other.onnx", seed=1)
    edge, server = farm.weights_of("edge"), farm.weights_of("server")
    assert_same(split(path))
    assert (farm.weights_of("edge") - edge, farm.weights_of("server") - server) == (3, 3)
    assert_same(split(path, layer=4))
    assert (farm.weights_of("edge") - edge, farm.weights_of("server") - server) == (4, 3), (
        "one layer moved to the edge"
    )


def test_a_device_is_asked_on_its_machine(farm: Farm, tmp_path: Path) -> None:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("Relu", ["x"], ["a"]),
            helper.make_node("Odd", ["a"], ["y"], domain="odd"),
        ],
        "net",
        [value("x", TensorProto.FLOAT, [4])],
        [value("y", TensorProto.FLOAT, [4])],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("odd", 1)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), tmp_path / "odd.onnx")
    with pytest.raises(editor.UnsupportedOpError, match=r"(?s)edge/CPU: .*server/CPU: "):
        editor.partition(editor.load_model(tmp_path / "odd.onnx"), TABLE)


def test_a_benchmark_measures_machines_and_compares_outputs(farm: Farm, tmp_path: Path) -> None:
    plan = split(write_net(tmp_path / "net.onnx"))
    result = plan.benchmark(seconds=0.3)
    assert (
        result.kind == "measurement"
        and result.difference is not None
        and result.difference.within_tolerance
    )
    assert {b.device for b in result.baselines if b.time is not None} == {"edge/CPU", "server/CPU"}
    assert [(t.from_device, t.to_device) for t in result.transfers] == [("edge/CPU", "server/CPU")]
    busy = plan.benchmark(seconds=0.3, mode="throughput", requests=4)
    assert busy.throughput > 0 and busy.difference is not None and busy.difference.within_tolerance


def test_a_step_with_caches_is_measured_on_this_machine_and_another(
    farm: Farm, tmp_path: Path
) -> None:
    graph = editor.load_model(fused_decoder(tmp_path))
    sizes = {"batch": 1, **sizes_of_step(graph, 1, 12)}
    graph = editor.load_model(graph.path, {**graph.define, **sizes})
    plan = editor.partition(graph, "HETERO:CPU,edge/CPU", pins={"attention_1": "edge/CPU"})
    assert {s.device for s in plan.subgraphs} == {"CPU", "edge/CPU"}
    result = plan.benchmark(seconds=0.2)
    assert result.difference is not None and result.difference.within_tolerance
    assert {b.device for b in result.baselines if b.time is not None} == {"CPU", "edge/CPU"}


@pytest.mark.parametrize(
    ("first", "last"), [("edge/CPU", "server/CPU"), ("CPU", "server/CPU"), ("edge/CPU", "CPU")]
)
@pytest.mark.parametrize(
    ("wire_type", "size", "precise"), [("float16", 2, 1e-3), ("int8", 1, 1e-2)]
)
def test_boundaries_travel_in_the_type_that_the_table_allows(
    farm: Farm, tmp_path: Path, first: str, last: str, wire_type: str, size: int, precise: float
) -> None:
    path = write_net(tmp_path / "net.onnx")
    exact = split(path, [{"name": first}, {"name": last}], first=first, last=last)
    plan = split(
        path, [{"name": first, "wireType": wire_type}, {"name": last}], first=first, last=last
    )
    values = random_inputs(plan.graph)
    ((name, found),) = plan.run(values).items()
    expected = unsplit(plan)[name]
    off = float(np.abs(found - expected).max() / np.abs(expected).max())
    assert 0 < off < precise, "close to the unsplit model, and not the same"
    assert np.abs(exact.run(values)[name] - expected).max() < np.abs(found - expected).max()
    (transfer,) = plan.compile().run_timed(values)[1].transfers
    whole = 8 * SIZE * 4
    assert (transfer.bytes, transfer.sent, transfer.travelled_as) == (
        whole,
        whole * size // 4,
        wire_type,
    )


def test_a_benchmark_shows_wires_and_what_narrow_types_do_to_outputs(
    farm: Farm, tmp_path: Path
) -> None:
    plan = split(
        write_net(tmp_path / "net.onnx"),
        [{"name": "edge/CPU", "wireType": "int8"}, {"name": "server/CPU"}],
    )
    result = plan.benchmark(seconds=0.3)
    assert result.difference is not None and 0 < result.difference.max_relative < 0.05
    assert result.difference.within_tolerance, "of int8, not of float32"
    (wire,) = result.wires
    assert (wire.name, wire.tensors, wire.bytes, wire.sent) == (
        "edge -> server",
        1,
        8 * SIZE * 4,
        8 * SIZE,
    )
    said, data = result.text(), result.to_dict()
    assert "Wire edge -> server: 1 tensor, 512 B instead of 2.048 kB as int8" in said
    assert "with boundary tensors that travelled as int8" in said
    (entry,) = data["wires"]
    assert (entry["name"], entry["sent"], entry["kind"]) == ("edge -> server", 512, "measurement")
    assert data["transfers"][0]["travelled_as"] == "int8"
    shown = json.dumps(timeline(result, {}), cls=PlotlyJSONEncoder)
    assert (
        shown.count('"gantt-row wire"') == 1
        and "edge -> server: 1 tensor, 512 B instead of 2.048 kB as int8" in shown
    )
    assert [step.lane for step in steps(result)] == ["edge/CPU", "edge -> server", "server/CPU"]
    assert any("travelled as int8" in str(part) for part in result_view(result, {}))
    plain = split(write_net(tmp_path / "net.onnx")).benchmark(seconds=0.3)
    assert (
        plain.wires[0].sent == plain.wires[0].bytes
        and not plain.narrowed
        and "instead of" not in plain.text()
    )


def test_profiles_are_measured_there_and_links_between_all(farm: Farm, tmp_path: Path) -> None:
    plan = split(write_net(tmp_path / "net.onnx"))
    steps = list[tuple[str, int, int]]()
    found = profile_all(plan.graph, plan.devices, 0.2, report=lambda *step: steps.append(step))
    assert [done for _, done, _ in steps] == list(range(len(steps)))
    assert {total for *_, total in steps} == {len(steps)}
    assert [text for text, *_ in steps[-2:]] == ["measuring links", "running from here"]
    assert {name for name, profile in found.items() if not isinstance(profile, str)} == {
        "edge/CPU",
        "server/CPU",
    }
    stored = load_profile(plan.graph, plan.devices[0])
    assert stored is not None and "edge" in plan.devices[0].description and stored.total > 0
    wires = load_wires()
    assert {("edge", "server"), ("server", "edge"), ("", "edge"), ("edge", "")} <= wires.keys()
    assert all(0 < w.latency < 0.1 and w.bandwidth > 1e6 for w in wires.values())
    reach = [p.reach_seconds for p in found.values() if not isinstance(p, str)]
    assert min(reach) >= 0 and max(reach) > 0, "messages and threads take time beyond ops and wires"
    costs = costs_of(plan.graph, plan.devices, "measured")
    assert costs.launch[0] == stored.launch_seconds + stored.reach_seconds
    assert costs.whole is not None and costs.wires is not None
    assert costs.whole[0] == pytest.approx(
        stored.total + stored.reach_seconds + costs.wires.ends_on()[:, 0].sum()
    )
    result = plan.benchmark(
        seconds=0.2
    )  # too short for a machine that runs other tests: as if nothing had disturbed it
    result = replace(
        result,
        baselines=(),
        total=replace(result.total, low=result.total.median, high=result.total.median),
    )
    corrected = correct_profiles(plan.placement, result)
    assert corrected["edge/CPU"].in_latency == stored.in_latency, (
        "what took time was the wire, which has its own figures"
    )


def test_a_slow_wire_keeps_the_policy_on_one_machine_and_a_fast_one_does_not(
    farm: Farm, tmp_path: Path
) -> None:
    """The server computes faster; a wire that takes longer than that gains is left alone."""
    table = [{"name": "edge/CPU", "peakCompute": 1e7}, {"name": "server/CPU", "peakCompute": 1e12}]
    graph = editor.load_model(write_net(tmp_path / "net.onnx"))
    before = load_wires()
    near, far = (
        Wire((0.0, 1e6), (1e-6, 1e-5), "2026-11-20"),
        Wire((0.0, 1e6), (10.0, 11.0), "2026-11-20"),
    )
    local = {("", "edge"): near, ("edge", ""): near}
    try:
        for wire, device in ((near, "server/CPU"), (far, "edge/CPU")):
            long = (("edge", "server"), ("server", "edge"), ("", "server"), ("server", ""))
            save_wires({**local, **dict.fromkeys(long, wire)})
            placed = editor.partition(graph, table, policy="optimal")
            assert {s.device for s in placed.subgraphs} == {device}
            assert len(placed.subgraphs) == 1
    finally:
        save_wires(before)


def test_a_machine_that_is_not_connected_is_planned(farm: Farm, tmp_path: Path) -> None:
    (device,) = editor.load_devices("HETERO:attic/CPU")
    assert device.planned and device.machine == "attic" and "not connected" in device.description


def test_tls_lets_only_holders_of_a_certificate_in(farm: Farm, tmp_path: Path) -> None:
    """A certificate that signs itself is its own authority."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl")
    (tmp_path / "ours").mkdir()
    (tmp_path / "theirs").mkdir()
    certificate, key = write_credentials(tmp_path / "ours")
    other = Farm(free_port(), tmp_path / "caches")
    with scheduler(other.port, certificate, key):
        other.start(
            "safe",
            "--offer",
            "CPU",
            "--tls-ca",
            certificate,
            "--tls-cert",
            certificate,
            "--tls-key",
            key,
        )
        try:
            connection.use(Connection(other.address, certificate, certificate, key))
            assert [machine.name for machine in directory.machines()] == ["safe"]
            assert_same(
                editor.partition(
                    editor.load_model(write_net(tmp_path / "net.onnx")), "HETERO:safe/CPU"
                )
            )
            wrong, wrong_key = write_credentials(tmp_path / "theirs")
            for credentials in ((), (wrong, wrong, wrong_key)):
                connection.use(Connection(other.address, *credentials))
                with pytest.raises(editor.ExecutionError, match="no Dask scheduler"):
                    directory.machines()
        finally:
            connection.use(Connection(farm.address))
            other.stop("safe")


def test_weights_above_the_memory_of_a_worker_are_refused_by_name(
    farm: Farm, tmp_path: Path
) -> None:
    farm.start("tiny", "--offer", "CPU", "--cache", "20KiB")
    plan = split(write_net(tmp_path / "net.onnx"), "HETERO:edge/CPU,tiny/CPU", last="tiny/CPU")
    with pytest.raises(editor.ExecutionError, match="its cache holds"):
        plan.compile()
    farm.stop("tiny")


def test_a_cache_stays_below_its_limit_and_drops_what_was_not_used_for_longest(
    tmp_path: Path,
) -> None:
    import hashlib

    store = WeightStore(tmp_path, 2500)
    blobs = {
        hashlib.sha256(data).hexdigest(): data for data in (bytes([i]) * 1000 for i in range(3))
    }
    names = list(blobs)
    for age, name in enumerate(names[:2]):
        assert store.missing({name: 1000}) == [name]
        store.put(name, blobs[name])
        os.utime(tmp_path / name, (age, age))
    assert store.missing({names[0]: 1000}) == [], "it counts as used now"
    assert store.missing({names[2]: 1000}) == [names[2]]
    store.put(names[2], blobs[names[2]])
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert sizes == {names[0]: 1000, names[2]: 1000}
    with pytest.raises(editor.ExecutionError, match="damaged"):
        store.put(names[1], b"else")
    with pytest.raises(editor.ExecutionError, match="not a SHA-256"):
        store.put("../../etc/passwd", b"x")


def test_external_weights_are_sent_by_their_content(tmp_path: Path) -> None:
    model = onnx.load(write_net(tmp_path / "net.onnx"))
    inside = pack(model, tmp_path)
    onnx.save(
        model,
        tmp_path / "outside.onnx",
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )
    outside = pack(onnx.load(tmp_path / "outside.onnx", load_external_data=False), tmp_path)
    assert len(inside.weights) == LAYERS
    assert {name: (weight.size, weight.read()) for name, weight in inside.weights.items()} == {
        name: (weight.size, weight.read()) for name, weight in outside.weights.items()
    }


@pytest.mark.parametrize(
    "address",
    [
        "tls://",
        "tls://127.0.0.1:8786",
        "tcp://",
        "://",
        "",
        "tcp://127.0.0.1",
        "127.0.0.1:x",
        "tcp://127.0.0.1:99999",
        "tcp://127.0.0.1:0",
        "tcp://127.0.0.1:-1",
        "inproc://x",
        "ucx://127.0.0.1:1",
        "tcp://127.0.0.1:1/x",
        "tcp://127.0.0.1:1\n",
    ],
)
def test_an_address_that_cannot_be_used_is_a_message(address: str) -> None:
    with pytest.raises(
        editor.EditorError, match="is not the address of a scheduler|needs --tls-ca"
    ):
        Connection(address).check()


def test_the_page_says_what_is_wrong_with_a_scheduler_at_its_start() -> None:
    for arguments in (["--scheduler", "tls://127.0.0.1:8786"], ["--scheduler", "tls://"]):
        done = python("app.py", "--no-browser", *arguments, cwd=ROOT, timeout=60)
        assert done.returncode == 2 and "error: " in done.stderr and "Traceback" not in done.stderr


def test_a_certificate_whose_path_has_a_line_break_is_a_message(tmp_path: Path) -> None:
    file = tmp_path / "a\nb.pem"
    file.touch()
    with pytest.raises(editor.EditorError, match="line break"):
        Connection("tcp://192.0.2.1:8786", str(file), str(file), str(file)).check()


def test_beyond_the_loopback_tls_is_needed() -> None:
    with pytest.raises(editor.EditorError, match="--tls-ca"):
        Connection("tcp://192.0.2.1:8786").check()
    with pytest.raises(editor.EditorError, match="missing: --tls-key"):
        Connection("tcp://192.0.2.1:8786", ca="a", cert="b").check()
    Connection("tcp://192.0.2.1:8786", insecure="1").check()
    for address in ("tcp://127.0.0.1:1", "[::1]:1", "localhost:8786"):
        Connection(address).check()
    run = python("-m", "editor", "worker", "tcp://192.0.2.1:8786", cwd=ROOT, timeout=60)
    assert run.returncode == 1 and "--insecure" in run.stderr and "Traceback" not in run.stderr


def test_predictions_hold_over_a_shaped_wire(tmp_path: Path) -> None:
    """In network namespaces, 100 Mbit/s and 5 ms each way."""
    if problem := why_not():
        pytest.skip(problem)
    found = run_on(WIRES["100m"], write_net(tmp_path / "net.onnx"), 0.3, boundary=False)
    for way in ("edge -> server", "server -> edge"):
        latency, bits = found["wires"][way]
        assert 5e-3 <= latency < 0.5 and 1e6 < bits < 105e6, (
            "the wire's own delay and rate bound both on one side"
        )
    (optimal,) = (row for row in found["plans"] if row["plan"] == "optimal")
    assert set(optimal["ops"].items()) == {("edge/CPU", 2 * LAYERS), ("server/CPU", 0)}, (
        "a tiny model stays next to the data"
    )


def test_links_are_measured_in_both_directions(farm: Farm) -> None:
    wires = measure_wires(["edge", "server"])
    assert wires.keys() == {
        ("", "edge"),
        ("edge", ""),
        ("", "server"),
        ("server", ""),
        ("edge", "server"),
        ("server", "edge"),
    }
