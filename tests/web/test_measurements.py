"""A measurement belongs to its plan, and stays with it; times in the tables add up to the run's."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import EXAMPLES, write_dag
from decoders import plain_decoder

import editor
from editor.errors import Cancelled
from editor.execution.measure.benchmark import Benchmark
from editor.execution.measure.tune import Tuned
from editor.kinds import NO_DIFFERENCE, Basis, Kind, too_close
from editor.placement.choices import PRESENT
from editor.placement.costs import seconds_of_ops
from editor.placement.device_profile import DeviceProfile, save_profile
from editor.placement.energy import energy_of
from editor.placement.placement import Settings
from editor.sandbox.jobs import JobService
from editor.text import human_joules, human_rate, human_seconds, rough_rate
from editor.web.app_state import AppState
from editor.web.benchmark_state import JobOptions
from editor.web.callbacks.benchmarking import _result
from editor.web.callbacks.exporting import _content
from editor.web.comparing import comparison_page
from editor.web.drawing.panes import panes_data
from editor.web.drawing.ribbon import ribbon_of
from editor.web.messages import RunEvent
from editor.web.open_request import OpenRequest
from editor.web.packing import written
from editor.web.panels import inspector
from editor.web.panels.after_run import stale
from editor.web.panels.benchmark_panel import profile_view
from editor.web.panels.compare import compare_view
from editor.web.panels.devices import outcome
from editor.web.panels.layout_figures import Bases, Figure, speed_cell
from editor.web.panels.profiles import profiles_view
from editor.web.panels.status import status
from editor.web.panels.suggestions import (
    better_plan,
    hints_view,
    layout_of_policy,
    policies_to_try,
)
from editor.web.panels.tables import subgraph_rows, transfer_rows
from editor.web.panels.verdict import verdict
from editor.web.runs import _progress, follow_run
from editor.web.view import figures_of, measured_run, plan_costs, unsplit_run
from editor.workspace.document import Document
from editor.workspace.history import Store
from editor.workspace.kept_runs import run_to_keep, tuned_to_keep

_PEAKS = {"peakCompute": "200 GFLOPS", "peakDramBw": "20 GB/s"}


@pytest.fixture
def state(tmp_path: Path) -> Iterator[AppState]:
    made = AppState(Store(str(tmp_path / "workspace")), JobService(), None, EXAMPLES)
    yield made
    made.close()


@pytest.fixture
def document(state: AppState) -> Document:
    table = [{"name": "ORT", "backendName": "CPU"}, {"name": "OV", "backendName": "openvino"}]
    opened = state.open(OpenRequest(str(EXAMPLES / "models" / "mobilenetv2.onnx"), table))
    opened.pin(opened.placement.placed_ops[40:60].tolist(), "OV")
    return opened


def test_a_measurement_is_of_the_present_plan_by_whatever_steps_one_comes_to_it(
    state: AppState, document: Document, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    options = JobOptions(0.2, "latency", 2, True)
    assert state.job_options(document) == JobOptions() and measured_run(document) is None
    state.start_job(document, "benchmark", options).job.result(120)
    asyncio.run(_ended(state, document.id))
    result = measured_run(document)
    assert result is not None and state.job_options(document) == options
    beside = "against the estimate before"
    assert beside not in str(status(document)), "there is no change"
    painted, before = document.placement.placed_ops[:2].tolist(), figures_of(document)
    document.pin(painted, "OV")
    assert measured_run(document) is None, "another plan"
    assert beside in str(status(document, before)), "not beside the measurement that stood there"
    assert beside not in str(status(document, before)), "which is gone now"
    document.unpin(painted)
    assert measured_run(document) == result, "the plan that was measured, two steps later"
    document.set_automatic("optimal", {"costs": "estimate"}, "minimal")
    profiled = state.start_job(document, "profile", JobOptions(0.2))
    profiled.job.result(240)
    events = list(profiled.job.events)
    said = [_progress(profiled, events[: n + 1]) for n in range(len(events))]
    assert all((each["share"] or 0) < 1 for each in said), "it is not done before its end"
    labels = [each["label"] for each in said]
    assert labels[-3:] == ["Profiling ORT 0 %", "Profiling OV 33 %", "Measuring splits 67 %"]
    assert asyncio.run(_ended(state, document.id)) == "Profiled."
    assert "data-command='costs-measured'" in str(stale(profiled, document))
    view = str(_result(document, profiled)[0])
    assert "The benchmark before it" in view and "Unsplit on ORT" in view
    document.set_automatic("optimal", {"costs": "measured"}, "minimal")
    assert stale(profiled, document) is None, "it is used"
    document.set_automatic("priority", {}, "minimal")
    assert measured_run(document) == result, "a profile takes nothing away"
    cancelled = state.start_job(document, "tune", JobOptions(60))
    cancelled.job.cancel()
    with pytest.raises(Exception, match="cancelled"):
        cancelled.job.result(60)
    assert not cancelled.has_result and measured_run(document) == result
    assert cancelled.previous is not None and cancelled.previous.kind == "profile"
    asyncio.run(_ended(state, document.id))  # which puts back what was there before
    assert state.benchmarks[document.id] is cancelled.previous


def test_times_of_subgraphs_and_transfers_add_up_to_those_of_the_run(document: Document) -> None:
    placement, (costs, _) = document.placement, plan_costs(document)
    parts, subgraphs, transfers = (
        placement.price(costs),
        subgraph_rows(document),
        transfer_rows(document),
    )
    assert len(subgraphs) == 3 and sum(row["seconds"] for row in subgraphs) == pytest.approx(
        parts.compute
    )
    assert [row["seconds"] for row in subgraphs] == seconds_of_ops(
        costs, placement.assignment.device, placement.division.subgraph_of_op, placement.placed_ops
    ).tolist()
    assert transfers and sum(row["seconds"] for row in transfers) == pytest.approx(parts.transfers)
    assert sum(row["start"] for row in subgraphs) == pytest.approx(parts.launches) != 0


def test_what_a_run_takes_beside_its_ops_is_told_apart(
    document: Document, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most of a run was "in transfers and in starting subgraphs", and in no table."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    seconds = dict.fromkeys(document.graph.op_keys, 1e-5)
    for device, launch in zip(document.devices, (1e-4, 0.02), strict=True):
        profile = DeviceProfile("", 0.01, seconds, {}, (), launch, 1e-5, 0, 1e-5, 0, 1)
        save_profile(document.graph, device, profile)
    document.set_automatic("priority", {"costs": "measured"}, "minimal")
    assert [row["start"] for row in subgraph_rows(document)] == [1e-4, 0.02, 1e-4]
    said = str(inspector.plan(document))
    starts = (
        "20 ms to start 1 subgraph on OV (from its profile)",
        "200 µs to start 2 subgraphs on ORT (from its profile)",
    )
    assert f": {starts[0]}, {starts[1]} and " in said and " in transfers." in said
    assert "busy for" not in said
    document.set_automatic("pipeline", {"costs": "measured"}, "minimal")
    document.pin(document.placement.placed_ops[40:60].tolist(), "OV")
    costs = plan_costs(document)[0]
    busy = document.placement.busy_seconds(costs)
    assert busy.sum() == pytest.approx(document.placement.price(costs).total)
    said = str(inspector.plan(document))
    assert f"; busy for {human_seconds(busy[1])} with starts and transfers" in said


def test_a_plan_that_is_not_split_has_the_time_of_its_profile_and_no_start(
    document: Document, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    document.undo()
    seconds = dict.fromkeys(document.graph.op_keys, 1e-5)
    for device in document.devices:
        profile = DeviceProfile("", 0.01, seconds, {}, (), 1e-4, 0, 0, 0, 0, 1)
        save_profile(document.graph, device, profile)
    (row,) = subgraph_rows(document)
    assert (row["seconds"], row["start"]) == (pytest.approx(0.01), None)


@pytest.mark.parametrize("costs", ["measured", "estimate"])
def test_a_profile_that_a_benchmark_contradicts_is_doubtful_beside_its_figure(
    document: Document, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, costs: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    graph = document.graph
    seconds = dict.fromkeys(graph.op_keys, 0.001)
    for device in document.devices:
        whole = DeviceProfile(device.description, 0.1, seconds, {}, (), 1e-5, 0, 0, 0, 0, 1)
        save_profile(graph, device, whole)
    document.set_automatic("optimal", {"costs": costs}, "minimal")
    predicted = figures_of(document)["predicted"]
    assert predicted is not None
    figures = {"estimated": False, "mode": "latency", "requests": 1, "throughput": 1.0}
    document.keep_run({**figures, "median": predicted}, "", document.placement)
    assert "doubtful" not in str((verdict(document), status(document), profiles_view(document)))
    document.keep_run({**figures, "median": predicted / 3}, "", document.placement)
    for shown in (verdict(document), status(document), profiles_view(document)):
        assert ("doubtful" in str(shown)) == (costs == "measured")
        assert ("3x too high for this plan. Profile again." in str(shown)) == (costs == "measured")


def test_an_estimate_that_a_benchmark_contradicts_leads_to_a_profile(
    document: Document, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    predicted = figures_of(document)["predicted"]
    assert predicted is not None
    figures = {"estimated": False, "mode": "latency", "requests": 1, "throughput": 1.0}
    quiet, busy = {"disturbances": []}, {"disturbances": ["other programs ran"]}
    for factor, report, leads in ((1, quiet, False), (3, quiet, True), (3, busy, False)):
        run = {**figures, "median": predicted / factor, "report": report}
        document.keep_run(run, "", document.placement)
        shown = str(verdict(document))
        assert ("run-bench-profile" in shown) == ("3x too high for this plan" in shown) == leads


def test_the_end_of_a_benchmark_leaves_the_event_loop_free_while_another_program_holds_the_database(
    state: AppState, document: Document, tmp_path: Path
) -> None:
    """All pages were told that the server does not answer."""
    benchmark = state.start_job(document, "benchmark", JobOptions(0.2))
    benchmark.job.result(120)

    async def end_while_held() -> list[RunEvent]:
        seen: list[RunEvent] = []
        with contextlib.closing(sqlite3.connect(next(tmp_path.rglob("*.db")))) as other:
            other.execute("BEGIN IMMEDIATE")

            async def follow() -> None:
                seen.extend([event async for event in follow_run(state, document.id)])

            ending = asyncio.create_task(follow())
            for _ in range(20):  # the event loop goes on while the result waits to be stored
                await asyncio.sleep(0.01)
            assert not ending.done()
            other.rollback()
            await ending
        return seen

    (event,) = asyncio.run(end_while_held())
    assert event["done"] and not benchmark.problem
    assert len(document.runs()) == 1 and benchmark.kept


def test_the_measurements_of_closed_documents_are_forgotten(
    state: AppState, document: Document, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state.start_job(document, "benchmark", JobOptions(0.1)).job.result(120)
    monkeypatch.setattr("editor.web.app_state._MAX_OPEN", 1)
    other = state.open(OpenRequest(str(write_dag(tmp_path / "dag.onnx", [[], [0]])), "HETERO:CPU"))
    assert state.open_document(f"/d/{document.id}") is None
    assert document.id not in state.benchmarks
    assert other.id not in state.benchmarks


def _words(document: Document) -> str:
    return str([part.to_plotly_json() for part in verdict(document)])


def _status(document: Document) -> str:
    return str([part.to_plotly_json() for part in status(document) if part is not None])


def test_pipeline_says_what_it_shortens(document: Document) -> None:
    assert "single" not in _words(document)
    document.set_automatic("pipeline", {}, "minimal")
    said = _words(document)
    assert "Pipeline shortens the time between two answers; a single one may take longer." in said
    assert ("; a single answer may take longer" in said) is ("not splitting (" not in said)


def test_where_the_policy_aims_at_throughput_the_figure_is_one(
    state: AppState, document: Document
) -> None:
    document.set_automatic("optimal", {"objective": "throughput"}, "minimal")
    costs = plan_costs(document)[0]
    most = rough_rate(1 / document.placement.busiest_seconds(costs))
    assert most in _words(document) and most in _status(document)
    options = JobOptions(0.3, "throughput", 2)
    found = state.start_job(document, "benchmark", options).job.result(120)[0]
    asyncio.run(_ended(state, document.id))
    measured = f"{found.throughput:.1f} requests/s"
    assert measured in _words(document) and measured in _status(document)
    assert f"estimated {most}" in _status(document)
    document.set_automatic("priority", {}, "minimal")
    assert "requests/s" not in _status(document)


def test_a_language_model_makes_tokens_and_its_prompt_the_first_one(
    state: AppState, tmp_path: Path
) -> None:
    path, table = str(plain_decoder(tmp_path / "decoder.onnx")), "HETERO:CPU,OpenVINO.CPU"
    token = state.open(OpenRequest(path, table, {}, True))
    assert re.search(r"[\d.]+ [mµ]s a token'", _words(token))
    token.set_automatic("optimal", {"objective": "throughput"}, "minimal")
    assert re.search(r"[\d.]+ tokens/s'", _words(token)) and "tokens/s" in _status(token)
    assert "of all sequences together" in _words(token)
    compared = str(compare_view(token, token.layouts()))
    assert "'Max tokens/s', " in compared and "Throughput in tokens/s" in compared
    figures = {"mode": "throughput", "median": 0.03, "throughput": 62.5, "requests": 2}
    unsplit = {"device": "OpenVINO.CPU", "figure": 50.0, "words": "25 % faster"}
    kept = {**figures, "estimated": False, "unsplit": unsplit, "baselines": {}}
    token.keep_run(kept, "automatic", token.placement)
    said = _words(token)
    assert "B('62.5 tokens/s')" in said and "with 2 sequences in flight, " in said
    assert "50.0 tokens/s" in said and "requests/s" not in said + _status(token)

    def of(**sizes: int) -> str:
        return _words(state.open(OpenRequest(path, table, sizes, True)))

    prompt = of(sequence_length=24, past_sequence_length=0)
    assert re.search(r"[\d.]+ [mµ]s to the first token'", prompt)
    assert "of a prompt of 24 tokens" in prompt
    later = of(sequence_length=24, past_sequence_length=8)
    assert "first token" not in later and "a token" not in later


def test_a_rate_from_assumed_speeds_is_rough_as_its_time(state: AppState, tmp_path: Path) -> None:
    model = str(EXAMPLES / "models" / "mobilenetv2.onnx")
    planned = state.open(OpenRequest(model, "HETERO:NPU,CPU"))
    planned.set_automatic("optimal", {"objective": "throughput"}, "minimal")
    rough = r"\babout (?:[1-9],?\d?[0,]*|[1-9]\.[1-9]) requests/s"
    text = planned.plan.export("md", tmp_path)[0].read_text()
    for said in (_words(planned), _status(planned), text):
        assert re.search(rough, said), said
        assert re.findall(r"[\d.,]+ requests/s", said) == re.findall(
            r"[1-9],?\d?[0,]* requests/s", said
        )
    table = str(compare_view(planned, planned.layouts()))
    assert re.search(r"about (?:[1-9],?\d?[0,]*|[1-9]\.[1-9])'", table) and re.search(
        r"about (?:[1-9]\d?0?|[1-9]\.[1-9]) [mµ]s'", table
    )


def test_a_figure_says_what_it_leaves_out_and_what_it_assumes(
    state: AppState, document: Document, tmp_path: Path
) -> None:
    """800 us and "0 B moved", behind a link of 320 MB/s and 1 ms, with the same invisible peaks for every NPU."""
    words = "host input and output not counted, speed and link of NPU assumed"
    lines = tuple(each[0].upper() + each[1:] for each in words.split(", "))
    assert "not counted" not in _words(document), "all in host memory"
    model = str(EXAMPLES / "models" / "mobilenetv2.onnx")
    planned = state.open(OpenRequest(model, "HETERO:NPU,CPU"))
    for line in lines:
        assert line in _words(planned) and line not in _status(planned), "said once"
    assert "2 assumptions" in _words(planned), "not split: nothing is started a second time"
    assert re.search(r"\babout (?:[1-9]\d?0?|[1-9]\.[1-9]) [mµ]s", _words(planned)), (
        "more digits would be invented"
    )
    text = planned.plan.export("md", tmp_path)[0].read_text()
    assert f"(estimate from shapes, {words})" in text
    peaks = {"peakCompute": "4 TOPS", "peakDramBw": "30 GB/s"}
    npu: dict[str, object] = {"name": "NPU", **peaks}
    said = _words(state.open(OpenRequest(model, [npu, {"name": "CPU"}])))
    assert "not counted" in said and "Link of NPU assumed: " in said and "Peaks" not in said
    assert "about" not in said
    link = {"bandwidth": "8 GB/s", "latency": "20 us"}
    said = _words(state.open(OpenRequest(model, [{**npu, "link": link}, {"name": "CPU"}])))
    assert "not counted" in said and "assumed" not in said
    split = {**npu, "link": link, "supportedNodes": ["Conv"]}
    said = _words(state.open(OpenRequest(model, [split, {"name": "CPU", **peaks}])))
    assert "Start of a subgraph assumed: 50 µs on NPU, 10 µs on CPU" in said, "no table states it"
    assert "Link of NPU" not in said and "Peaks" not in said
    wired = {**split, "link": {**link, "ends": "counted"}}
    said = _words(state.open(OpenRequest(model, [wired, {"name": "CPU", **peaks}])))
    assert "1 assumption'" in said and "State them in Devices" not in said, "no table could"


def test_a_page_of_layouts_has_what_was_measured_of_each(
    state: AppState, document: Document
) -> None:
    names = [PRESENT, "all on ORT"]
    assert '"measurement":{' not in comparison_page(state, document.id, names)[1].decode()
    result = document.plan.benchmark(seconds=0.1)
    document.keep_run(run_to_keep(result), "", document.placement)
    page = comparison_page(state, document.id, names)[1].decode()
    assert page.count('"measurement":{') == 2, "also of the unsplit model beside the plan"
    assert '"tokens":{' not in page
    figures = {"mode": "tokens", "estimated": False, "prompt": 4, "new": 8, "throughput": 500.0}
    times = {"first_token": 0.01, "median": 0.002, "baselines": {"ORT": 0.003}}
    document.keep_run({**figures, **times}, "", document.placement)
    page = comparison_page(state, document.id, names)[1].decode()
    found = re.findall(r'"tokens":\{"first_token":([\w.]+),"token":([\d.]+)', page)
    assert found == [("0.01", "0.002"), ("null", "0.003")], "the page said that it was not measured"


def test_joules_stand_beside_the_time_where_the_policy_aims_at_them(state: AppState) -> None:
    watts = [
        {**_PEAKS, "name": n, "backendName": "NPU", "power": p} for n, p in (("A", 3), ("B", 9))
    ]
    planned = state.open(OpenRequest(str(EXAMPLES / "models" / "mobilenetv2.onnx"), watts))
    for objective in ("energy", "latency"):
        planned.set_automatic("optimal", {"objective": objective}, "minimal")
        energy = energy_of(planned.placement, *plan_costs(planned))
        assert energy is not None and energy.total is not None
        said = f"{human_joules(energy.total)} a run; " in str(verdict(planned))
        assert said == (objective == "energy")


def test_a_policy_that_is_better_is_suggested(state: AppState) -> None:
    slow = {"name": "slow", "backendName": "NPU", "peakCompute": "1 GFLOPS", "peakDramBw": "1 GB/s"}
    table = [slow, {"name": "fast", "backendName": "NPU", **_PEAKS}]
    planned = state.open(OpenRequest(str(EXAMPLES / "models" / "mobilenetv2.onnx"), table))
    planned.set_automatic("priority", {}, "minimal")
    planned.pin(planned.placement.placed_ops[:2].tolist(), "slow")

    def suggested() -> str:
        layout = planned.layout(layout_of_policy(planned))
        return str(hints_view(planned, [], "", layout))

    line = suggested()
    assert (
        "'least latency'" in line and " would take " in line and "100 ops on another device" in line
    )
    assert "Without your 2 pins, " in line and "data-layout-use" in line
    layout = planned.layout(layout_of_policy(planned))
    assert layout is not None and layout.placement is not None
    for seconds, placement in ((0.004, planned.placement), (0.003, layout.placement)):
        ends = [0.9 * seconds, 1.1 * seconds]
        figures = {"mode": "latency", "estimated": False, "median": seconds, "interval": ends}
        planned.keep_run(figures, "", placement)
    assert " took 3 ms instead of 4 ms " in suggested(), "measured figures go before costs"
    slower = {**figures, "median": 0.005, "interval": [0.0048, 0.0052]}
    planned.keep_run(slower, "", layout.placement)
    assert "data-layout-use" not in suggested(), "a measurement says that it is not better"
    assert "Nothing faster was found: no single move (by estimate)" in suggested()
    planned.unpin()
    planned.set_automatic("optimal", {"objective": "latency"}, "minimal")
    assert " would take " not in suggested(), "it is the plan"
    assert "no single move, nor “least latency”" in suggested()
    assert "data-command='show-Compare'" in suggested()


def test_the_policy_list_has_a_line_of_a_faster_policy(state: AppState) -> None:
    """Who opened a model by the first capable device was not told that another policy takes half of the time."""
    slow = {"name": "slow", "backendName": "NPU", "peakCompute": "1 GFLOPS", "peakDramBw": "1 GB/s"}
    table = [slow, {"name": "fast", "backendName": "NPU", **_PEAKS}]
    planned = state.open(OpenRequest(str(EXAMPLES / "models" / "mobilenetv2.onnx"), table))
    planned.set_automatic("priority", {}, "minimal")
    pinned = planned.placement.placed_ops[:2].tolist()
    planned.pin(pinned, "slow")
    assert policies_to_try(planned) == ["optimal:latency"]
    other = planned.by_policy("optimal", {"objective": "latency"})
    assert {other.devices[d].name for d in other.device_of_op[pinned]} == {"slow"}
    line = str(better_plan(planned, other, "optimal:latency"))
    assert "B('Least latency'), ' would take " in line and ", all of it on" not in line
    assert "98 ops on another device" in line
    assert "data-command='policy-optimal:latency'" in line
    for seconds, placement in ((0.004, planned.placement), (0.005, other)):
        ends = [0.9 * seconds, 1.1 * seconds]
        figures = {"mode": "latency", "estimated": False, "median": seconds, "interval": ends}
        planned.keep_run(figures, "", placement)
    assert better_plan(planned, other, "optimal:latency") is None, "measured, it is slower"
    planned.set_automatic("optimal", {"objective": "latency"}, "minimal")
    assert not policies_to_try(planned), "the plan has what there is"
    with pytest.raises(Cancelled):
        planned.by_policy("priority", {}, lambda: True)


def test_a_preset_without_memory_says_what_the_plan_needs(state: AppState) -> None:
    """An Edge TPU with its 8 MB "ran" 54 MB of weights in 26 ms, and nothing was said."""
    model = str(EXAMPLES / "models" / "mobilenetv2.onnx")
    planned = state.open(OpenRequest(model, "HETERO:NPU(edgetpu as int8),CPU"))
    assert re.search(r"'Memory of NPU not known: [\d.]+ MB needed'", _words(planned))
    limited = [
        {"name": "NPU", "preset": "edgetpu", "assumes": "int8", "memory": "8 MB"},
        {"name": "CPU"},
    ]
    assert "not known" not in _words(state.open(OpenRequest(model, limited)))


def test_layouts_that_do_not_fit_are_not_faster(state: AppState) -> None:
    """What exceeds the memory of a card had a green "2x less", and the shortest bar without a mark."""
    model = str(EXAMPLES / "models" / "mobilenetv2.onnx")
    card = {"name": "Card", "backendName": "CUDA", "peakCompute": "10 TOPS", "peakDramBw": "1 TB/s"}
    table = [{**card, "memory": "3 MB"}, {"name": "CPU", "peakCompute": "1 TOPS"}]
    opened = state.open(OpenRequest(model, table))
    opened.set_automatic("memory", {}, "minimal")
    shown = compare_view(opened, opened.layouts())
    rows = {row.children[1].children[0].children: row for row in shown[1].children[1].children[1:]}
    greedy = rows["all on Card"]
    assert "over the memory of Card" in str(greedy) and greedy.className == "over-memory"
    figures = [str(cell) for cell in greedy.children if re.search(r"\d [mµ]?s|/s", str(cell))]
    assert figures and not any("delta" in each for each in figures)
    (chart,) = [each for each in shown if getattr(each, "id", "") == "compare-chart"]
    bars = [str(each) for each in chart.children]
    assert "data-bar='this plan'" in bars[0] and "does not fit" not in bars[0]
    (bar,) = [each for each in bars if "data-bar='all on Card'" in each]
    assert "does not fit" in bar


def test_the_bound_and_the_objective_are_rounded_as_the_headline_is(state: AppState) -> None:
    model = str(EXAMPLES / "models" / "mobilenetv2.onnx")
    planned = state.open(OpenRequest(model, "HETERO:NPU,CPU"))
    planned.set_automatic("optimal", {}, "minimal")
    said, time = str(outcome(planned)), r"[\d.]+ [mµ]?s\b"
    assert "Lower bound by these costs about" in said
    assert (
        len(re.findall(time, said))
        == len(re.findall(r"about (?:[1-9]\d?0?|[1-9]\.[1-9]) [mµ]?s\b", said))
        == 2
    )
    stated = [{"backendName": name, **_PEAKS} for name in ("CPU", "OpenVINO.CPU")]
    here = state.open(OpenRequest(model, stated))
    here.set_automatic("optimal", {}, "minimal")
    assert "about" not in str(outcome(here))


@pytest.mark.parametrize(
    ("value", "base", "rough", "plan_rough", "shown"),
    [
        (0.021, 0.0102, True, True, ["about 21 ms", "2.1x slower"]),
        (0.0102, 0.021, True, True, ["about 10 ms", "2.1x faster"]),
        (0.00103, 0.0007, False, True, ["1.03 ms", "1.5x slower"]),
        (0.0104, 0.0096, True, True, ["about 10 ms", "too close for estimates"]),
        (0.021, 0.0102, False, False, ["21 ms", "+10.8 ms"]),
    ],
)
def test_rounded_figures_have_a_factor_in_place_of_a_difference(
    value: float, base: float, rough: bool, plan_rough: bool, shown: list[str]
) -> None:
    basis = Basis(Kind.ESTIMATE, "from shapes")
    bases = Bases(basis, basis, False, rough, plan_rough)
    cell = speed_cell("latency", None, None, Figure(value, base, human_seconds, bases))
    assert [getattr(part, "children", part) for part in cell.children if part != " "] == shown
    is_coloured = any(look in str(cell) for look in ("delta better", "delta worse"))
    assert is_coloured is not (rough or plan_rough), "assumed speeds make nothing green or red"


def test_the_change_of_a_rounded_figure_is_a_factor(state: AppState) -> None:
    model = str(EXAMPLES / "models" / "mobilenetv2.onnx")
    cpu, npu = {"backendName": "CPU", **_PEAKS}, {"backendName": "NPU"}
    for devices, rough in (([npu, cpu], True), ([cpu, npu], False)):
        planned = state.open(OpenRequest(model, devices))
        before = figures_of(planned)
        assert before["rough"] is rough
        planned.pin(planned.placement.placed_ops[10:90].tolist(), "CPU" if rough else "NPU")
        said = str(
            [
                p.to_plotly_json()
                for p in status(planned, before)
                if p is not None and "predicted" in str(p)
            ]
        )
        assert re.search(r"'[\d.,]+x (slower|faster)'", said), said
        assert not re.search(r"'[+−][\d.]+ [mµ]?s'", said), said


def test_a_figure_from_elsewhere_has_what_it_was_in_place_of_a_change(state: AppState) -> None:
    """After a paint onto a profiled CPU the time was five times as long, and nothing was said of that."""
    planned = state.open(
        OpenRequest(str(EXAMPLES / "models" / "mobilenetv2.onnx"), "HETERO:NPU,CPU")
    )
    before = figures_of(planned) | {"basis": Basis(Kind.PREDICTION, "from profile"), "rough": False}
    said = str([part for part in status(planned, before) if "predicted" in str(part)])
    was = human_seconds(before["predicted"])
    assert f"before: {was} (prediction from profile)" in said and "better" not in said


def test_a_change_that_cannot_be_told_is_said_in_place_of_the_figure(state: AppState) -> None:
    """After a small edit every figure had its change but the time."""
    planned = state.open(
        OpenRequest(str(EXAMPLES / "models" / "mobilenetv2.onnx"), "HETERO:NPU,CPU")
    )
    before = figures_of(planned)
    assert "too close to call" not in str(status(planned, before))
    planned.pin(planned.placement.placed_ops[-1:].tolist(), "CPU")
    after = figures_of(planned)
    assert after["predicted"] != before["predicted"]
    assert too_close(after["predicted"], before["predicted"], after["basis"])
    (said,) = (str(p.to_plotly_json()) for p in status(planned, before) if "predicted" in str(p))
    assert "'too close to call'" in said and "better" not in said and "worse" not in said


def test_what_does_not_fit_is_said_in_place_of_a_verdict(state: AppState) -> None:
    table = [
        {"name": "GPU", "backendName": "CPU", "memory": "4 MB"},
        {"name": "Small", "backendName": "CPU", "memory": "1 kB"},
        {"name": "Host", "backendName": "CPU"},
    ]
    document = state.open(OpenRequest(str(EXAMPLES / "models" / "mobilenetv2.onnx"), table))
    needs = re.search(r"'Does not fit: GPU needs ([\d.]+) MB of 4 MB'", _words(document))
    assert needs and float(needs[1]) > 4
    assert "not measured" not in _words(document)
    document.pin(document.placement.placed_ops[40:60].tolist(), "Small")
    said = re.search(
        r"'Does not fit: Small needs [\d.]+ [kM]B of 1 kB and 1 more'", _words(document)
    )
    assert said, "the least part of what it needs first"
    document.pin(document.placement.placed_ops.tolist(), "Host")
    assert "Does not fit" not in _words(document) and "not measured" in _words(document)


def test_stand_ins_give_no_speed_and_no_verdict(
    state: AppState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    table = [{"name": "ORT", "backendName": "CPU"}, {"name": "NPU", "backendName": "npu"}]
    document = state.open(OpenRequest(str(EXAMPLES / "models" / "mobilenetv2.onnx"), table))
    document.pin(document.placement.placed_ops[40:60].tolist(), "NPU")
    state.start_job(document, "benchmark", JobOptions(0.2)).job.result(120)
    asyncio.run(_ended(state, document.id))
    (run,) = document.runs_of_plan()
    assert run.figures["estimated"]
    assert not ribbon_of(document)["measured"]
    assert "checks results, not speed" in _words(document)
    assert "measurement" not in _words(document)
    document.unpin(document.placement.placed_ops.tolist())
    (whole,) = run.figures["report"]["baselines"]
    measured = measured_run(document)
    assert measured is not None and measured.figures["median"] == whole["time"]["median"]
    assert "measurement" in _words(document), "no stand-in ran the unsplit model beside the plan"
    assert document.undo()
    assert measured_run(document) is None
    (cpu, _), graph = document.devices, document.graph
    seconds = dict.fromkeys(graph.op_keys, 0.01)
    save_profile(graph, cpu, DeviceProfile("", 1.0, seconds, {}, (), 1e-5, 0, 0, 0, 0, 1))
    for costs, said in (("estimate", "from shapes"), ("measured", "in part from profile")):
        document.set_automatic("priority", {"costs": costs}, "minimal")
        shown = document.plan.benchmark(seconds=0.1)
        assert shown.predicted == figures_of(document)["predicted"], "as the headline"
        assert shown.predicted_basis is not None and shown.predicted_basis.source == said


@pytest.mark.parametrize("simulated", [False, True])
def test_a_report_has_the_tokens_that_were_measured(
    document: Document, tmp_path: Path, simulated: bool
) -> None:
    def report() -> str:
        return written(document, "md", tmp_path)[0].read_text()

    assert "this plan was not measured." in report()
    figures = {"mode": "tokens", "median": 0.02, "first_token": 0.3, "prompt": 8, "new": 4}
    document.keep_run({**figures, "estimated": simulated}, "this plan", document.placement)
    said = "Tokens: first token 300 ms, then 20 ms a token (measured; prompt of 8 tokens, 4 new)."
    assert (said in report()) is not simulated, "stand-ins have no speed"
    told = {"interval": [0.019, 0.022], "disturbances": ["other programs kept 1.5 processors busy"]}
    document.keep_run({**figures, **told, "estimated": simulated}, "it", document.placement)
    said = "20 ms a token (measured, 19 ms to 22 ms with 95 %, noisy; prompt of 8 tokens, 4 new)."
    assert (said in report()) is not simulated
    assert ("not measured" in report()) is simulated
    parts = {"medians": [0.0113, 0.004, 0.003]}
    document.keep_run({**figures, **parts, "estimated": simulated}, "it", document.placement)
    data = json.loads(written(document, "json", tmp_path)[0].read_text())
    told = [part["measured"] for part in data["subgraphs"]]
    assert (told == parts["medians"]) is not simulated
    document.pin(document.placement.placed_ops[:2].tolist(), "OV")
    assert "this plan was not measured." in report() and "Tokens:" not in report(), "another plan"


@pytest.mark.parametrize("modes", [("latency", "throughput"), ("throughput", "latency")])
def test_a_report_has_the_headline_of_the_page_whatever_ran_last(
    document: Document, tmp_path: Path, modes: tuple[str, str]
) -> None:
    """The page said 25.1 ms, the report 75.2 requests/s: it took the last benchmark, whatever its mode."""
    if modes[0] == "throughput":
        document.set_automatic("optimal", {"objective": "throughput"}, "minimal")
    for mode in modes:
        (result,) = Benchmark({"": document.placement}, 0.2, mode, 2).run()
        document.keep_run(run_to_keep(result), "", document.placement)
    figures = {run.figures["mode"]: run.figures for run in document.runs_of_plan()}
    shown, other = (
        human_seconds(figures["latency"]["median"]),
        human_rate(figures["throughput"]["throughput"]),
    )
    if modes[0] == "throughput":
        shown, other = other, shown
    assert shown in _words(document)
    text = written(document, "md", tmp_path)[0].read_text()
    assert f"**{shown}** (measurement). " in text
    assert f"In mode {modes[1]}: {other}." in text, "the other mode stands beside it"
    assert f"\n- In mode {modes[1]}: " in text.partition("## Measurement")[2]


def test_a_report_has_what_was_measured_of_its_plan_beside_another(
    state: AppState, document: Document, tmp_path: Path
) -> None:
    """The page had a measurement, as it was the unsplit model beside another plan; the report had none."""
    result = document.plan.benchmark(seconds=0.1)
    document.keep_run(run_to_keep(result), "", document.placement)
    document.undo()
    run = measured_run(document)
    assert run is not None and len(document.placement.subgraphs) == 1
    text = written(document, "md", tmp_path)[0].read_text()
    figure = human_seconds(run.figures["median"])
    assert f"**{figure}** (measurement). " in text and figure in _words(document)
    assert "Largest difference" not in text, "its outputs were not compared"


def test_times_of_a_table_are_rough_where_the_speed_of_a_device_is_assumed(state: AppState) -> None:
    table = [{"backendName": "GPU"}, {"backendName": "CPU", **_PEAKS}]
    opened = state.open(OpenRequest(str(EXAMPLES / "models" / "mobilenetv2.onnx"), table))
    opened.pin(opened.placement.placed_ops[40:60].tolist(), "CPU")
    assert [(row["device"], row["rough"]) for row in subgraph_rows(opened)] == [
        *(("GPU", True), ("CPU", False), ("GPU", True))
    ]
    assert all(row["rough"] for row in transfer_rows(opened))


def test_what_a_benchmark_measured_beside_the_plan_stands_in_compare(
    state: AppState, document: Document
) -> None:
    state.start_job(document, "benchmark", JobOptions(0.2)).job.result(120)
    asyncio.run(_ended(state, document.id))
    run = measured_run(document, "latency")
    assert run is not None
    whole = document.placement
    for device in document.devices:
        rules = [{"name": "*", "to": device.name}]
        whole = editor.partition(document.graph, document.devices, rules=rules).placement
        found = unsplit_run(whole, run)
        assert found is not None
        assert found.figures["median"] == run.figures["baselines"][device.name]
        low, high = found.figures["interval"]
        assert low <= found.figures["median"] <= high
        other = {**run.figures, "entries": {device.name: "changed meanwhile"}}
        assert unsplit_run(whole, replace(run, figures=other)) is None
    assert unsplit_run(document.placement, run) is None, "it is split"
    assert unsplit_run(whole, None) is None
    assert {row["kind"] for row in subgraph_rows(document)} == {"measurement"}
    assert [row["seconds"] for row in subgraph_rows(document)] == run.figures["medians"]
    layouts = document.layouts()
    (summary, *_) = [pane["summary"] for pane in panes_data(document, layouts)["layouts"]]
    time = re.escape(human_seconds(run.figures["median"]))
    assert re.search(rf" {time} \(measurement(, noisy)?\)$", summary), summary
    assert "'at least " in str(compare_view(document, layouts)), (
        "no maximum below what was measured"
    )
    document.pin(document.placement.placed_ops[:2].tolist(), "OV")
    assert {row["kind"] for row in subgraph_rows(document)} == {"estimate"}, "another plan"


def test_devices_that_are_alike_have_one_card_of_their_profile(document: Document) -> None:
    seconds = dict.fromkeys(document.graph.op_keys, 1e-5)
    profile = DeviceProfile("ONNX Runtime CPU", 0.01, seconds, {}, (), 1e-4, 0, 0, 0, 0, 1)
    shown = str(profile_view(document, {"ORT": profile, "OV": profile}))
    assert "ORT and OV, measured once" in shown and shown.count("ONNX Runtime CPU") == 1
    other = replace(profile, total=0.02)
    assert "measured once" not in str(profile_view(document, {"ORT": profile, "OV": other}))


def test_steps_that_were_measured_stand_in_compare(document: Document) -> None:
    figures = {"mode": "latency", "median": 0.004, "interval": [0.003, 0.005], "throughput": 250.0}
    kept = {**figures, "estimated": False}
    step, pinned = document.history.current.number, document.placement
    document.keep_run(kept, document.layout_name, pinned, step)
    document.pin(pinned.placed_ops[:2].tolist(), "OV")
    layouts = {layout.name: layout for layout in document.layouts()}
    (name,) = [name for name, layout in layouts.items() if layout.is_step]
    assert name.startswith(f"step {step}: ")
    assert layouts[name].placement is not None
    assert layouts[name].placement.fingerprint == pinned.fingerprint
    cells = str(compare_view(document, document.layouts()))
    assert f"{name}" in cells and human_seconds(0.004) in cells
    document.keep_layout("the same as now")
    document.undo()
    assert not any(layout.is_step for layout in document.layouts()), "it is the present plan"
    document.redo()
    document.keep_run({**kept, "plan": "of a tuning"}, "tuned: other", pinned, step)
    assert sum(layout.is_step for layout in document.layouts()) == 1, "candidates have no step"


def test_what_was_measured_beside_another_plan_is_the_figure_of_a_plan_that_is_not_split(
    state: AppState, document: Document
) -> None:
    """After Ctrl+Z it was "not measured", with the measurement in the list of runs."""
    state.start_job(document, "benchmark", JobOptions(0.2)).job.result(120)
    asyncio.run(_ended(state, document.id))
    run = measured_run(document)
    assert run is not None
    document.undo()
    assert {s.device for s in document.placement.subgraphs} == {"ORT"}
    found = measured_run(document)
    assert found is not None and found.when == run.when
    median = run.figures["baselines"]["ORT"]
    assert found.figures["median"] == median != run.figures["median"]
    assert human_seconds(median) in _words(document) and "not measured" not in _words(document)
    assert [row["seconds"] for row in subgraph_rows(document)] == [median]
    theirs = run.figures["baselines"]["OV"]
    unsplit = found.figures["unsplit"]
    assert (unsplit["device"], unsplit["figure"]) == min(
        (("ORT", median), ("OV", theirs)), key=lambda each: each[1]
    )
    assert "kind measurement" in str(compare_view(document, document.layouts()))


def test_a_benchmark_of_the_plan_counts_before_the_same_plan_beside_another(
    document: Document,
) -> None:
    """After another plan was measured on a busy machine, Ctrl+Z gave the plan before another figure."""
    pinned = document.placement
    document.undo()
    figures = {"mode": "latency", "estimated": False, "throughput": 1.0, "unsplit": None}
    own = {**figures, "median": 0.00262, "interval": [0.0025, 0.0028], "baselines": {}}
    document.keep_run(own, "automatic", document.placement)
    document.redo()
    time = {"median": 0.00547, "low": 0.0031, "high": 0.0118}
    beside = {"baselines": [{"device": "ORT", "time": time, "throughput": 0.0}]}
    for median in (0.006, 0.0061):  # of one tuning, whose baselines are the same
        run = {**figures, "median": median, "interval": [0.005, 0.007], "report": beside}
        document.keep_run({**run, "tuned": True}, "pinned", pinned)
    document.undo()
    found = measured_run(document)
    assert found is not None and found.figures["median"] == 0.00262
    assert "2 benchmarks of it gave 2.62 ms to 5.47 ms" in _words(document)


def test_a_verdict_that_a_busy_machine_leaves_open_says_why(
    state: AppState, document: Document
) -> None:
    (result,) = state.start_job(document, "benchmark", JobOptions(0.2)).job.result(120)
    found = {**run_to_keep(result), "estimated": False, "median": 0.05}
    found["unsplit"] = {"device": "Elsewhere", "figure": 0.028, "words": NO_DIFFERENCE}
    for interval, said in (
        (
            [0.004, 0.109],
            "(28 ms on Elsewhere); this plan takes 4 ms to 109 ms (95 %): measure longer",
        ),
        ([0.045, 0.055], "(28 ms on Elsewhere)'"),
    ):
        document.keep_run({**found, "interval": interval}, "automatic", document.placement)
        assert said in _words(document)


def test_the_prompt_that_is_measured_begins_with_the_sizes_of_the_page(
    state: AppState, tmp_path: Path
) -> None:
    path = str(plain_decoder(tmp_path / "decoder.onnx"))
    for sizes, prompt in (
        ({"sequence_length": 1, "past_sequence_length": 300}, 300),
        ({"sequence_length": 48, "past_sequence_length": 0}, 48),
        ({"sequence_length": 1, "past_sequence_length": 0}, JobOptions.prompt),
    ):
        opened = state.open(OpenRequest(path, "HETERO:CPU", sizes, True))
        assert state.job_options(opened).prompt == prompt
    typed = JobOptions(0.1, "latency", prompt=7)
    state.start_job(opened, "benchmark", typed).job.result(120)
    assert state.job_options(opened).prompt == 7, "what was typed stays"


def test_a_plan_with_pins_is_not_called_automatic(state: AppState, document: Document) -> None:
    def name(**pins: str) -> str:
        settings, entries = Settings(pins=pins), [dict(d.entry) for d in document.devices]
        return state.create(document.graph, entries, settings).layout_name

    assert name() == "automatic"
    key = document.graph.op_keys[document.placement.placed_ops[0]]
    assert name(**{key: document.devices[0].name}) == "1 pin"


def test_what_tune_measured_is_kept(state: AppState, document: Document) -> None:
    (result,) = state.start_job(document, "benchmark", JobOptions(0.2)).job.result(120)
    mine, other = document.placement.fingerprint, "of another plan"
    results = (replace(result, plan="optimal latency"), replace(result, plan=PRESENT))
    names = {PRESENT: mine, "optimal latency": other}
    for figures in tuned_to_keep(Tuned(results, {}, "latency", names)):
        document.keep_run(figures, "automatic", document.placement)
    assert [run.figures["plan"] for run in document.runs()] == [mine, other]
    assert [run.figures["layout"] for run in document.runs()] == ["automatic", "optimal latency"]
    found = measured_run(document)
    assert found is not None and found.figures["median"] == result.total.median


@pytest.mark.parametrize(("tuned_to", "counts"), [(1.2, 1.0), (3.0, 0.0)])
def test_a_tuning_takes_the_place_of_a_benchmark_where_it_is_more_certain(
    state: AppState, document: Document, tuned_to: float, counts: float
) -> None:
    (result,) = state.start_job(document, "benchmark", JobOptions(0.2)).job.result(120)
    kept = {**run_to_keep(result), "median": 0.0001, "interval": [0.0001, 0.0002]}
    document.keep_run(kept, "automatic", document.placement)
    tuned = {**kept, "tuned": True, "median": 1.0, "interval": [1.0, tuned_to]}
    document.keep_run(tuned, "automatic", document.placement)
    found = measured_run(document)
    assert found is not None and round(found.figures["median"]) == counts
    rates = {**kept, "mode": "throughput", "throughput_interval": [1.0, 1.1], "throughput": 1.0}
    document.keep_run({**rates, "tuned": False}, "automatic", document.placement)
    assert measured_run(document, "latency") == found, "a rate says nothing of a time"
    document.keep_run({**kept, "median": 5.0}, "automatic", document.placement)
    newest = measured_run(document)
    assert newest is not None and newest.figures["median"] == 5.0


def test_tokens_that_were_measured_stand_in_compare_with_their_context(
    state: AppState, tmp_path: Path
) -> None:
    document = state.open(
        OpenRequest(
            str(plain_decoder(tmp_path / "decoder.onnx")), "HETERO:CPU,OpenVINO.CPU", {}, True
        )
    )
    figures = {
        "mode": "tokens",
        "median": 0.016,
        "interval": [0.0155, 0.0165],
        "throughput": 62.5,
        "requests": 1,
        "prompt": 112,
        "new": 32,
        "estimated": False,
        "unsplit": None,
        "baselines": {"OpenVINO.CPU": 0.032},
        "baseline_intervals": {"OpenVINO.CPU": [0.031, 0.033]},
    }
    document.keep_run(figures, "automatic", document.placement)
    assert "'62.5 tokens/s after 112 to 142 tokens, '" in _words(document)
    table = str(compare_view(document, document.layouts()))
    for words in ("B('16 ms')", "Measured after 112 to 142 tokens", "B('32 ms')", "+16 ms"):
        assert words in table, words
    assert "B('at least 62.5 tokens/s')" in table
    assert [(r["kind"], r["seconds"]) for r in subgraph_rows(document)] == [("measurement", 0.016)]


def test_the_verdict_of_a_plan_is_known_after_a_restart(
    state: AppState, document: Document, tmp_path: Path
) -> None:
    state.start_job(document, "benchmark", JobOptions(0.2)).job.result(120)
    asyncio.run(_ended(state, document.id))
    said = _words(document)
    assert "not splitting" in said and "measurement" in said
    assert "estimated" in said, "what was worked out stands beside it, by this name"
    ribbon = ribbon_of(document)
    assert ribbon["measured"] and ribbon["kind"] == "measurement"
    bar = _status(document)
    assert "measurement" in bar and "estimated" in bar and "estimate from shapes" not in bar
    later = AppState(Store(str(tmp_path / "workspace")), JobService(), None, EXAMPLES)
    try:
        again = later.document(document.id)
        assert _words(again) == said and _status(again) == bar and ribbon_of(again) == ribbon
        again.pin(again.placement.placed_ops[:5].tolist(), "OV")
        assert "not measured" in _words(again) and "measurement" not in _status(again)
        assert not ribbon_of(again)["measured"]
        again.undo()
        report = _content(again, "bundle:md", later.tasks.begin(again.id, "Writing"))
        page = base64.b64decode(report["content"]).decode()
        assert "** (measurement). " in page and re.search(
            r"\bThe estimate [^.]*is (about )?\d", page
        )
        assert _words(again) == said and _status(again) == bar and ribbon_of(again) == ribbon
    finally:
        later.close()


async def _ended(state: AppState, document: str) -> str:
    async for event in follow_run(state, document):
        if event["done"]:
            return event["text"]
    return ""
