"""A measurement belongs to its plan, and stays with it; times in the tables add up to the run's."""

from __future__ import annotations

import asyncio
import contextlib
import re
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import EXAMPLES, write_dag
from decoders import plain_decoder
from page_words import ended, status_of, verdict_of

from editor.errors import Cancelled
from editor.kinds import Basis, Kind, too_close
from editor.placement.costs import seconds_of_ops
from editor.placement.device_profile import DeviceProfile, save_profile
from editor.placement.energy import energy_of
from editor.placement.fallbacks import Hint
from editor.text import human_joules, human_seconds, rough_rate
from editor.web.app_state import AppState
from editor.web.benchmark_state import JobOptions
from editor.web.callbacks.benchmarking import _result
from editor.web.drawing.ribbon import ribbon_of
from editor.web.messages import RunEvent
from editor.web.open_request import OpenRequest
from editor.web.panels import inspector
from editor.web.panels.after_run import stale
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
from editor.web.view import figures_of, measured_run, plan_costs
from editor.workspace.document import Document
from editor.workspace.layouts import differing

_PEAKS = {"peakCompute": "200 GFLOPS", "peakDramBw": "20 GB/s"}


def test_a_measurement_is_of_the_present_plan_by_whatever_steps_one_comes_to_it(
    state: AppState, document: Document, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    options = JobOptions(0.2, "latency", 2, True)
    assert state.job_options(document) == JobOptions() and measured_run(document) is None
    state.start_job(document, "benchmark", options).job.result(120)
    asyncio.run(ended(state, document.id))
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
    assert asyncio.run(ended(state, document.id)) == "Profiled."
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
    asyncio.run(ended(state, document.id))  # which puts back what was there before
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


def test_pipeline_says_what_it_shortens(document: Document) -> None:
    assert "single" not in verdict_of(document)
    document.set_automatic("pipeline", {}, "minimal")
    said = verdict_of(document)
    assert "Pipeline shortens the time between two answers; a single one may take longer." in said
    assert "Its stages share a processor and take turns." in said, "both run on the CPU"
    assert ("; its stages share a processor" in said) is ("not splitting (" not in said)


def test_where_the_policy_aims_at_throughput_the_figure_is_one(
    state: AppState, document: Document
) -> None:
    document.set_automatic("optimal", {"objective": "throughput"}, "minimal")
    costs = plan_costs(document)[0]
    most = rough_rate(1 / document.placement.busiest_seconds(costs))
    assert most in verdict_of(document) and most in status_of(document)
    options = JobOptions(0.3, "throughput", 2)
    found = state.start_job(document, "benchmark", options).job.result(120)[0]
    asyncio.run(ended(state, document.id))
    measured = f"{found.throughput:.1f} requests/s"
    assert measured in verdict_of(document) and measured in status_of(document)
    assert f"estimated {most}" in status_of(document)
    document.set_automatic("priority", {}, "minimal")
    assert "requests/s" not in status_of(document)


def test_a_language_model_makes_tokens_and_its_prompt_the_first_one(
    state: AppState, tmp_path: Path
) -> None:
    path, table = str(plain_decoder(tmp_path / "decoder.onnx")), "HETERO:CPU,OpenVINO.CPU"
    token = state.open(OpenRequest(path, table, {}, True))
    assert re.search(r"[\d.]+ [mµ]s a token'", verdict_of(token))
    token.set_automatic("optimal", {"objective": "throughput"}, "minimal")
    assert re.search(r"[\d.]+ tokens/s'", verdict_of(token)) and "tokens/s" in status_of(token)
    assert "of all sequences together" in verdict_of(token)
    compared = str(compare_view(token, token.layouts()))
    assert "'Max tokens/s', " in compared and "Throughput in tokens/s" in compared
    figures = {"mode": "throughput", "median": 0.03, "throughput": 62.5, "requests": 2}
    unsplit = {"device": "OpenVINO.CPU", "figure": 50.0, "words": "25 % faster"}
    kept = {**figures, "estimated": False, "unsplit": unsplit, "baselines": {}}
    token.keep_run(kept, "automatic", token.placement)
    said = verdict_of(token)
    assert "B('62.5 tokens/s')" in said and "with 2 sequences in flight; " in said
    assert "50.0 tokens/s" in said and "requests/s" not in said + status_of(token)

    def of(**sizes: int) -> str:
        return verdict_of(state.open(OpenRequest(path, table, sizes, True)))

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
    for said in (verdict_of(planned), status_of(planned), text):
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
    lines = (
        "Host input and output not counted (",
        "Speed and link of NPU assumed",
        "No fusion on NPU: up to ",
    )
    assert "not counted" not in verdict_of(document), "all in host memory"
    model = str(EXAMPLES / "models" / "mobilenetv2.onnx")
    planned = state.open(OpenRequest(model, "HETERO:NPU,CPU"))
    for line in lines:
        assert line in verdict_of(planned) and line not in status_of(planned), "said once"
    assert "3 assumptions" in verdict_of(planned), "not split: nothing is started a second time"
    assert re.search(r"not counted \(606\.\d kB, about [\d.]+ [mµ]s\)", verdict_of(planned))
    assert "less where it runs Clip and Add within the ops before them" in verdict_of(planned)
    assert re.search(r"\babout (?:[1-9]\d?0?|[1-9]\.[1-9]) [mµ]s", verdict_of(planned)), (
        "more digits would be invented"
    )
    text = planned.plan.export("md", tmp_path)[0].read_text()
    assert f"(estimate from shapes, {words})" in text
    peaks = {"peakCompute": "4 TOPS", "peakDramBw": "30 GB/s"}
    npu: dict[str, object] = {"name": "NPU", **peaks}
    said = verdict_of(state.open(OpenRequest(model, [npu, {"name": "CPU"}])))
    assert "not counted" in said and "Link of NPU assumed: " in said and "Peaks" not in said
    assert "B('about" not in said, "its own figure rests on what the table states"
    link = {"bandwidth": "8 GB/s", "latency": "20 us"}
    said = verdict_of(state.open(OpenRequest(model, [{**npu, "link": link}, {"name": "CPU"}])))
    assert "not counted" in said and "assumed" not in said
    split = {**npu, "link": link, "supportedNodes": ["Conv"]}
    said = verdict_of(state.open(OpenRequest(model, [split, {"name": "CPU", **peaks}])))
    assert "Start of a subgraph assumed: 50 µs on NPU, 10 µs on CPU" in said
    assert "Link of NPU" not in said and "Peaks" not in said
    wired = {**split, "link": {**link, "ends": "counted"}}
    said = verdict_of(state.open(OpenRequest(model, [wired, {"name": "CPU", **peaks}])))
    assert "1 assumption'" in said and "State them in Devices" in said
    stated = [{**wired, "start": "40 us"}, {"name": "CPU", **peaks, "start": "9 us"}]
    opened = state.open(OpenRequest(model, stated))
    assert "assumption" not in str(verdict(opened))
    costs = plan_costs(opened)[0]
    assert costs.launch.tolist() == pytest.approx([4e-5, 9e-6])


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
    moved = tuple(differing(planned.placement, layout.placement))
    same = Hint(planned.graph.tensor_names[-1], moved, "fast", 1e-3, 0, 0, True, before=2e-3)
    assert "'Move '" not in str(hints_view(planned, [same], "", layout)), "it is told once"
    assert "'Move '" in str(hints_view(planned, [replace(same, ops=moved[1:])], "", layout))
    for seconds, placement in ((0.004, planned.placement), (0.003, layout.placement)):
        ends = [0.9 * seconds, 1.1 * seconds]
        figures = {"mode": "latency", "estimated": False, "median": seconds, "interval": ends}
        planned.keep_run(figures, "", placement)
    assert " took 3 ms instead of 4 ms " in suggested(), "measured figures go before costs"
    unsure = {**figures, "interval": [0.0025, 0.0045]}
    planned.keep_run(unsure, "", layout.placement)
    line = suggested()
    assert "B('least latency'), ' took 3 ms instead of 4 ms ', " in line
    assert "data-layout-use" in line
    assert "', but the runs vary too much to be sure: '" in line and "measure longer" in line
    assert "No single move is faster (by estimate)" in line and "Nothing faster" not in line
    slower = {**figures, "median": 0.005, "interval": [0.0048, 0.0052]}
    planned.keep_run(slower, "", layout.placement)
    assert "data-layout-use" not in suggested(), "a measurement says that it is not better"
    assert (
        "Nothing faster was found with these devices: no single move (by estimate)" in suggested()
    )
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
    assert re.search(r"'Memory of NPU not known: [\d.]+ MB needed'", verdict_of(planned))
    limited = [
        {"name": "NPU", "preset": "edgetpu", "assumes": "int8", "memory": "8 MB"},
        {"name": "CPU"},
    ]
    assert "not known" not in verdict_of(state.open(OpenRequest(model, limited)))


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
        (0.0104, 0.0096, True, True, ["about 10 ms", "too close to call"]),
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
    needs = re.search(r"'Does not fit: GPU needs ([\d.]+) MB of 4 MB'", verdict_of(document))
    assert needs and float(needs[1]) > 4
    assert "not measured" not in verdict_of(document)
    document.pin(document.placement.placed_ops[40:60].tolist(), "Small")
    said = re.search(
        r"'Does not fit: Small needs [\d.]+ [kM]B of 1 kB, and 1 more device'", verdict_of(document)
    )
    assert said, "the least part of what it needs first"
    document.pin(document.placement.placed_ops.tolist(), "Host")
    assert "Does not fit" not in verdict_of(document) and "not measured" in verdict_of(document)


def test_stand_ins_give_no_speed_and_no_verdict(
    state: AppState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    table = [{"name": "ORT", "backendName": "CPU"}, {"name": "NPU", "backendName": "npu"}]
    document = state.open(OpenRequest(str(EXAMPLES / "models" / "mobilenetv2.onnx"), table))
    document.pin(document.placement.placed_ops[40:60].tolist(), "NPU")
    state.start_job(document, "benchmark", JobOptions(0.2)).job.result(120)
    asyncio.run(ended(state, document.id))
    (run,) = document.runs_of_plan()
    assert run.figures["estimated"]
    assert not ribbon_of(document)["measured"]
    assert "NPU is not on this machine" in verdict_of(document)
    assert "measurement" not in verdict_of(document)
    document.unpin(document.placement.placed_ops.tolist())
    (whole,) = run.figures["report"]["baselines"]
    measured = measured_run(document)
    assert measured is not None and measured.figures["median"] == whole["time"]["median"]
    assert "measurement" in verdict_of(document), (
        "no stand-in ran the unsplit model beside the plan"
    )
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


def test_times_of_a_table_are_rough_where_the_speed_of_a_device_is_assumed(state: AppState) -> None:
    table = [{"backendName": "GPU"}, {"backendName": "CPU", **_PEAKS}]
    opened = state.open(OpenRequest(str(EXAMPLES / "models" / "mobilenetv2.onnx"), table))
    opened.pin(opened.placement.placed_ops[40:60].tolist(), "CPU")
    assert [(row["device"], row["rough"]) for row in subgraph_rows(opened)] == [
        *(("GPU", True), ("CPU", False), ("GPU", True))
    ]
    assert all(row["rough"] for row in transfer_rows(opened))
