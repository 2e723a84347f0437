"""Measurements that were kept: beside which plans they stand, in Compare, in reports and after a restart."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import EXAMPLES
from decoders import plain_decoder
from page_words import ended, status_of, verdict_of

import editor
from editor.execution.measure.benchmark import Benchmark
from editor.execution.measure.tune import Tuned
from editor.kinds import NO_DIFFERENCE
from editor.placement.choices import PRESENT
from editor.placement.device_profile import DeviceProfile
from editor.placement.placement import Settings
from editor.sandbox.jobs import Job, JobService
from editor.text import human_rate, human_seconds
from editor.web.app_state import AppState
from editor.web.benchmark_state import BenchmarkState, JobOptions, next_options
from editor.web.callbacks.exporting import _content
from editor.web.comparing import comparison_page
from editor.web.drawing.panes import panes_data
from editor.web.drawing.ribbon import ribbon_of
from editor.web.open_request import OpenRequest
from editor.web.packing import written
from editor.web.panels.benchmark_panel import profile_view
from editor.web.panels.compare import compare_view
from editor.web.panels.tables import subgraph_rows
from editor.web.runs import run_to_keep, tuned_to_keep
from editor.web.view import measured_run, unsplit_run
from editor.workspace.document import Document
from editor.workspace.history import Store


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
    assert shown in verdict_of(document)
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
    assert f"**{figure}** (measurement). " in text and figure in verdict_of(document)
    assert "Largest difference" not in text, "its outputs were not compared"


def test_what_a_benchmark_measured_beside_the_plan_stands_in_compare(
    state: AppState, document: Document
) -> None:
    state.start_job(document, "benchmark", JobOptions(0.2)).job.result(120)
    asyncio.run(ended(state, document.id))
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
    assert name.startswith(f"after step {step}: ")
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
    asyncio.run(ended(state, document.id))
    run = measured_run(document)
    assert run is not None
    document.undo()
    assert {s.device for s in document.placement.subgraphs} == {"ORT"}
    found = measured_run(document)
    assert found is not None and found.when == run.when
    median = run.figures["baselines"]["ORT"]
    assert found.figures["median"] == median != run.figures["median"]
    assert human_seconds(median) in verdict_of(document) and "not measured" not in verdict_of(
        document
    )
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
    assert "2 benchmarks of this plan gave 2.62 ms to 5.47 ms" in verdict_of(document)


def test_a_verdict_that_a_busy_machine_leaves_open_says_why(
    state: AppState, document: Document
) -> None:
    (result,) = state.start_job(document, "benchmark", JobOptions(0.2)).job.result(120)
    found = {**run_to_keep(result), "estimated": False, "median": 0.05}
    found["unsplit"] = {"device": "Elsewhere", "figure": 0.028, "words": NO_DIFFERENCE}
    for interval, said in (
        (
            [0.004, 0.109],
            "28 ms on Elsewhere; this plan takes 4 ms to 109 ms (95 %): measure longer",
        ),
        ([0.045, 0.055], "28 ms on Elsewhere'"),
    ):
        document.keep_run({**found, "interval": interval}, "automatic", document.placement)
        assert said in verdict_of(document)


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


def test_a_profile_leaves_the_mode_of_the_benchmark_before_it(document: Document) -> None:
    """After Profile and a reload the mode of a language model was Latency."""
    job, plan = Job(lambda _job: None), document.plan
    tokens = BenchmarkState(job, plan, (), "tokens", options=JobOptions(2, "tokens", prompt=9))
    profile = BenchmarkState(job, plan, (), "profile", options=JobOptions(5), previous=tokens)
    found = next_options(document.placement, profile)
    assert (found.mode, found.seconds) == ("tokens", 5)
    assert next_options(document.placement, tokens) is tokens.options
    alone = replace(profile, previous=None)
    assert next_options(document.placement, alone).mode == "latency"


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
    assert "'62.5 tokens/s after 112 to 142 tokens; '" in verdict_of(document)
    table = str(compare_view(document, document.layouts()))
    for words in ("B('16 ms')", "Measured after 112 to 142 tokens", "B('32 ms')", "+16 ms"):
        assert words in table, words
    assert "B('at least 62.5 tokens/s')" in table
    assert [(r["kind"], r["seconds"]) for r in subgraph_rows(document)] == [("measurement", 0.016)]


def test_the_verdict_of_a_plan_is_known_after_a_restart(
    state: AppState, document: Document, tmp_path: Path
) -> None:
    state.start_job(document, "benchmark", JobOptions(0.2)).job.result(120)
    asyncio.run(ended(state, document.id))
    said = verdict_of(document)
    assert "not splitting" in said and "measurement" in said
    assert "estimated" in said, "what was worked out stands beside it, by this name"
    ribbon = ribbon_of(document)
    assert ribbon["measured"] and ribbon["kind"] == "measurement"
    bar = status_of(document)
    assert "measurement" in bar and "estimated" in bar and "estimate from shapes" not in bar
    later = AppState(Store(str(tmp_path / "workspace")), JobService(), None, EXAMPLES)
    try:
        again = later.document(document.id)
        assert verdict_of(again) == said and status_of(again) == bar and ribbon_of(again) == ribbon
        again.pin(again.placement.placed_ops[:5].tolist(), "OV")
        assert "not measured" in verdict_of(again) and "measurement" not in status_of(again)
        assert not ribbon_of(again)["measured"]
        again.undo()
        report = _content(again, again.plan, "bundle:md", later.tasks.begin(again.id, "Writing"))
        page = base64.b64decode(report["content"]).decode()
        assert "** (measurement). " in page and re.search(
            r"\bThe estimate [^.]*is (about )?\d", page
        )
        assert verdict_of(again) == said and status_of(again) == bar and ribbon_of(again) == ribbon
    finally:
        later.close()
