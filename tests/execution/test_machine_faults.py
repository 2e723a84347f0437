"""Machines that end, stop, run out of memory, are cut off, or are not what a plan expects."""

from __future__ import annotations

import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
from conftest import ROOT, save_net
from farm import TABLE, Farm, assert_same, edge_and_server, slow_net, split, write_net
from onnx import TensorProto, helper

import editor
from benchmarks.machines import PORT, WIRES, farm_over
from benchmarks.wires import EDGE_ADDRESS, namespaces, why_not
from editor.execution.compiled_plan import CompiledPlan
from editor.execution.invented_inputs import random_inputs
from editor.execution.measure.profile import profile_all
from editor.runtimes.machines.connection import directory
from editor.version import VERSION

SOON = 20.0
"""Seconds in which a job must have ended on a busy machine; without pings, TCP says so after 30 at the earliest."""
BOUNDARY = 4_000_000


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farm]:
    with edge_and_server(tmp_path_factory.mktemp("caches")) as farm:
        yield farm


def fails_soon(compiled: CompiledPlan, happens: Callable[[], None], message: str) -> None:
    """Runs a plan that takes many seconds, during which something happens; the error must come soon, with this text."""
    values, instant = random_inputs(compiled.graph), list[float]()

    def happen() -> None:
        instant.append(time.monotonic())
        happens()

    timer = threading.Timer(0.6, happen)
    timer.start()
    with pytest.raises(editor.ExecutionError, match=message):
        compiled.run(values)
    timer.join()
    taken = time.monotonic() - instant[0]
    print(f"ended {taken:.1f} s after the fault")
    assert taken < SOON


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_machine_that_is_killed_or_stopped_ends_the_run_by_name_and_the_next_run_succeeds(
    farm: Farm, tmp_path: Path, number: int
) -> None:
    farm.start("frail", "--offer", "CPU,Interpreter")
    table = "HETERO:edge/CPU,frail/Interpreter"
    compiled = split(
        slow_net(tmp_path / "slow.onnx"), table, last="frail/Interpreter", layer=1
    ).compile()
    shorter = split(write_net(tmp_path / "net.onnx"), table, last="frail/Interpreter")
    before = shorter.compile()
    fails_soon(compiled, lambda: farm.signal("frail", number), "frail/Interpreter")
    farm.stop("frail")
    directory.forget()
    assert editor.load_devices("HETERO:frail/Interpreter")[0].planned, "it went away"
    with pytest.raises(editor.ExecutionError, match="frail"):
        compiled.run(random_inputs(compiled.graph))
    farm.start("frail", "--offer", "CPU,Interpreter")
    before.run(random_inputs(before.graph))  # what was compiled before works with the new worker
    assert_same(shorter)
    farm.stop("frail")


def hungry_net(path: Path, elements: int) -> Path:
    """Eight tensors of so many float32, one after the other, of which the last op needs all."""
    value = helper.make_tensor_value_info
    names = [f"wide{i}" for i in range(8)]
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Neg", ["a"], ["b"]),
        helper.make_node("Expand", ["b", "shape"], ["wide"]),
        *(
            helper.make_node("Sin", [before], [after])
            for before, after in zip(["wide", *names], names, strict=False)
        ),
        helper.make_node("Sum", names, ["all"]),
        helper.make_node("ReduceMax", ["all"], ["y"]),
    ]
    shape = helper.make_tensor("shape", TensorProto.INT64, [1], [elements])
    return save_net(
        path,
        nodes,
        [value("x", TensorProto.FLOAT, [1])],
        [value("y", TensorProto.FLOAT, None)],
        [shape],
        name="hungry",
    )


def test_a_worker_above_its_memory_limit_ends_the_run_by_name_and_is_back_for_the_next(
    farm: Farm, tmp_path: Path
) -> None:
    farm.start("small", "--offer", "CPU", "--memory-limit", "700MiB")
    process = farm.process("small")
    net = hungry_net(tmp_path / "hungry.onnx", 100_000_000)
    hungry = split(net, "HETERO:edge/CPU,small/CPU", last="small/CPU", layer=1)
    fails_soon(
        hungry.compile(),
        lambda: None,
        "small/CPU: (its worker ended|does not answer).*memory ran out",
    )
    gone, alive = psutil.wait_procs([process], 30)
    assert gone and not alive, "Dask ends it"
    wait_for("small")
    assert_same(
        split(write_net(tmp_path / "net.onnx"), "HETERO:edge/CPU,small/CPU", last="small/CPU")
    )
    farm.stop("small")


def test_a_worker_whose_system_gives_no_more_memory_says_so_by_name_and_goes_on(
    farm: Farm, tmp_path: Path
) -> None:
    farm.start("small", "--offer", "CPU")
    process = farm.process("small")
    limit = process.memory_info().vms + (1 << 30)
    resource.prlimit(process.pid, resource.RLIMIT_AS, (limit, limit))
    net = hungry_net(tmp_path / "hungry.onnx", 1_000_000_000)
    hungry = split(net, "HETERO:edge/CPU,small/CPU", last="small/CPU", layer=1)
    fails_soon(hungry.compile(), lambda: None, r"(?s)small/CPU.*(memory|alloc)")
    assert_same(
        split(write_net(tmp_path / "net.onnx"), "HETERO:edge/CPU,small/CPU", last="small/CPU")
    )
    farm.stop("small")


def wait_for(name: str) -> None:
    """Waits until a machine is back, which the suite's own limit of time bounds."""
    while True:
        directory.forget()
        if any(machine.name == name and not machine.problem for machine in directory.machines()):
            return
        time.sleep(0.2)


def test_a_machine_that_ends_during_a_profile_is_named(farm: Farm, tmp_path: Path) -> None:
    farm.start("frail", "--offer", "CPU,Interpreter")
    graph = editor.load_model(slow_net(tmp_path / "slow.onnx"))
    devices = editor.load_devices("HETERO:frail/Interpreter")
    timer = threading.Timer(0.6, lambda: farm.signal("frail", signal.SIGKILL))
    timer.start()
    try:
        found = profile_all(graph, devices, 0.5)
    except editor.ExecutionError as error:
        assert "frail" in str(error)
    else:
        assert "frail" in str(found["frail/Interpreter"])
    timer.join()
    farm.stop("frail")


def test_a_worker_without_a_runtime_says_so(farm: Farm, tmp_path: Path) -> None:
    broken = tmp_path / "broken" / "openvino"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError('libtbb.so.12 is missing')\n")
    farm.start("bare", path=(broken.parent, ROOT))
    (device,) = editor.load_devices("HETERO:bare/OpenVINO.CPU")
    assert device.planned and "bare has no OpenVINO.CPU; it offers" in device.description
    assert "libtbb.so.12 is missing" in device.description, "why"
    assert not editor.load_devices("HETERO:bare/CPU")[0].planned
    farm.stop("bare")


def test_a_worker_that_came_back_without_a_runtime_says_so(farm: Farm, tmp_path: Path) -> None:
    farm.start("thin", "--offer", "CPU,Interpreter")
    plan = split(
        write_net(tmp_path / "net.onnx"),
        "HETERO:edge/CPU,thin/Interpreter",
        last="thin/Interpreter",
    )
    compiled = plan.compile()
    farm.stop("thin")
    farm.start("thin", "--offer", "CPU")
    with pytest.raises(editor.ExecutionError, match="thin/Interpreter: thin does not offer it"):
        compiled.run(random_inputs(plan.graph))
    farm.stop("thin")


def test_two_workers_that_were_both_restarted_get_their_parts_again(
    farm: Farm, tmp_path: Path
) -> None:
    """The part of one was sent again; that the other had forgotten its part, too, was an error without a text."""
    names = ("front", "back")
    for name in names:
        farm.start(name, "--offer", "CPU")
    plan = split(
        write_net(tmp_path / "net.onnx"),
        "HETERO:front/CPU,back/CPU",
        first="front/CPU",
        last="back/CPU",
    )
    compiled, values = plan.compile(), random_inputs(plan.graph)
    before = compiled.run(values)
    for name in names:
        farm.stop(name)
    for name in names:
        farm.start(name, "--offer", "CPU")
    after = compiled.run(values)
    for name in names:
        farm.stop(name)
    assert before.keys() == after.keys()
    for name, value in before.items():
        np.testing.assert_array_equal(after[name], value)


def test_a_worker_of_another_version_says_so(farm: Farm, tmp_path: Path) -> None:
    shutil.copytree(
        ROOT / "editor", tmp_path / "editor", ignore=shutil.ignore_patterns("__pycache__")
    )
    (tmp_path / "editor" / "version.py").write_text('"""Another version."""\n\nVERSION = "0.0.1"\n')
    farm.start("old", "--offer", "CPU", path=(tmp_path,))
    says = f"its worker has version 0.0.1 of the editor, this is {VERSION}"
    (device,) = editor.load_devices("HETERO:old/CPU")
    assert device.planned and says in device.description
    with pytest.raises(editor.ExecutionError, match=f"old cannot be used: {says}"):
        directory.machine("old")
    assert not editor.load_devices(TABLE)[0].planned, "the others can be used"
    farm.stop("old")


def wide_net(path: Path) -> Path:
    """A boundary of 4 MB: over 10 Mbit/s it takes more than three seconds."""
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Expand", ["x", "shape"], ["wide"]),
        helper.make_node("ReduceMax", ["wide"], ["y"]),
    ]
    shape = helper.make_tensor("shape", TensorProto.INT64, [1], [BOUNDARY // 4])
    return save_net(
        path,
        nodes,
        [value("x", TensorProto.FLOAT, [1])],
        [value("y", TensorProto.FLOAT, None)],
        [shape],
        name="wide",
    )


def test_a_link_that_is_cut_in_a_run_ends_it_by_name_and_the_next_run_succeeds(
    tmp_path: Path,
) -> None:
    """In network namespaces: while the server computes, and while a tensor is on its way."""
    if problem := why_not():
        pytest.skip(problem)
    computing = f"{slow_net(tmp_path / 'slow.onnx', 200_000_000)} 2"
    sending, short = (
        f"{wide_net(tmp_path / 'wide.onnx')} 1",
        f"{write_net(tmp_path / 'net.onnx')} 6",
    )
    with farm_over(WIRES["10m"], share=1.0) as farm:
        editor_there = subprocess.Popen(
            farm.on_edge(
                sys.executable,
                str(Path(__file__).parent / "over_a_wire.py"),
                f"tcp://{EDGE_ADDRESS}:{PORT}",
            ),
            env=farm.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        assert editor_there.stdin is not None and editor_there.stdout is not None

        def ask(line: str) -> str:
            editor_there.stdin.write(f"{line}\n")
            editor_there.stdin.flush()
            return answer()

        def answer() -> str:
            return editor_there.stdout.readline().strip()

        try:
            for model in (computing, sending):
                assert ask(model) == "running"
                time.sleep(0.7)
                cut = time.monotonic()
                farm.link.cut()
                instant, _, message = answer().partition(" ")
                print(f"ended {float(instant) - cut:.1f} s after the cut: {message}")
                assert float(instant) - cut < SOON
                assert "server/CPU" in message and "cut off" in message
                farm.link.mend()
                assert (ask(short), answer()) == ("running", "same")
        finally:
            editor_there.kill()
            editor_there.wait(20)


def test_nothing_forwards_packets_after_the_link_has_ended() -> None:
    """Threads went on with closed descriptors, and wrote packets into what the process opened next: Chromium's pipe."""
    if problem := why_not():
        pytest.skip(problem)
    before = set(threading.enumerate())
    with namespaces(WIRES["100m"]) as link:
        forwarding = set(threading.enumerate()) - before
        assert len(forwarding) == 4
        link.cut()
        link.mend()
    assert not any(thread.is_alive() for thread in forwarding)
