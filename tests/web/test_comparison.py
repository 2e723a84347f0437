"""The table and the chart of layouts: which row is the plan, what does not fit, and what is too close to tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conftest import write_dag

from editor.placement.placement import Settings
from editor.web.app_state import AppState
from editor.web.open_request import OpenRequest
from editor.web.panels.compare import compare_view
from editor.web.view import plan_costs, step_of
from editor.workspace.document import Document
from editor.workspace.layouts import BY_OPENVINO, Layout

_PEAKS = {"peakCompute": "200 GFLOPS", "peakDramBw": "20 GB/s"}


def opened(state: AppState, tmp_path: Path, **more: Any) -> Document:
    table = [
        {"name": "A", "backendName": "CPU", **_PEAKS, **more},
        {"name": "B", "backendName": "CPU", **_PEAKS},
    ]
    model = write_dag(tmp_path / "net.onnx", [[], [0], [1], [2]], ["Relu", "Tanh", "Exp", "Relu"])
    return state.open(OpenRequest(str(model), table))


def of_kind(shown: Any, key: str) -> list[Any]:
    """All components in some with an attribute."""
    if isinstance(shown, list | tuple):
        return [each for one in shown for each in of_kind(one, key)]
    if not hasattr(shown, "to_plotly_json"):
        return []
    mine = [shown] if getattr(shown, key, None) is not None else []
    return mine + of_kind(getattr(shown, "children", None), key)


def test_the_row_of_a_plan_that_has_changed_is_not_called_this_plan(
    state: AppState, tmp_path: Path
) -> None:
    """A note asked to compare again, and the row of the old plan was "this plan" still."""
    document = opened(state, tmp_path)
    layouts, step = document.layouts(), step_of(document, plan_costs(document)[1])

    def names() -> list[str]:
        return [
            each.children for each in of_kind(compare_view(document, layouts, step), "data-plan-of")
        ]

    assert names() == ["this plan", "this plan"], "in the table and in the chart"
    document.pin(document.placement.placed_ops[:2].tolist(), "B")
    run = {"mode": "latency", "median": 0.123, "throughput": 8.0, "requests": 1, "p99": 0.2}
    kept = {**run, "interval": [0.12, 0.13], "estimated": False, "baselines": {}}
    document.keep_run(kept, "", document.placement)
    shown = compare_view(document, layouts, step)
    assert names() == ["the plan compared"] * 2
    assert "123 ms" not in str(shown), "a figure of the plan that is present now"
    (note,) = of_kind(shown, "data-step-of")
    (tick,) = of_kind(shown, "data-tick-of")
    assert not note.hidden and tick.hidden, "side by side would show the present plan"
    assert "123 ms" in str(compare_view(document, document.layouts()))


def test_layouts_that_do_not_fit_are_drawn_and_marked(state: AppState, tmp_path: Path) -> None:
    """The chart had a single bar where the others exceed memory, with their times in the table."""
    document = opened(state, tmp_path, memory="4 B")
    document.pin(document.placement.placed_ops.tolist(), "B")
    shown = compare_view(document, document.layouts())
    bars = of_kind(shown, "data-bar")
    assert len(bars) > 1
    fits = ["does not fit" not in str(bar) for bar in bars]
    assert fits[0] and not all(fits) and fits == sorted(fits, reverse=True), "these come last"


def test_too_close_to_call_says_by_how_much(state: AppState, tmp_path: Path) -> None:
    table = [
        {"name": "A", "backendName": "CPU", "peakCompute": "200 GFLOPS", "peakDramBw": "20 GB/s"},
        {"name": "B", "backendName": "CPU", "peakCompute": "180 GFLOPS", "peakDramBw": "18 GB/s"},
    ]
    model = write_dag(tmp_path / "net.onnx", [[], [0], [1], [2]])
    document = state.open(OpenRequest(str(model), table))
    close = [
        each
        for each in of_kind(compare_view(document, document.layouts()), "title")
        if each.children == "too close to call"
    ]
    assert close
    assert {each.title for each in close} == {
        "Such estimates are told apart from 25 % on. Profile first"
    }


def test_names_of_layouts_that_are_the_same_plan_are_a_few_words(
    state: AppState, tmp_path: Path
) -> None:
    """Five of them in a narrow column left one row and a half of the table in sight."""
    document = opened(state, tmp_path)
    document.pin(document.placement.placed_ops.tolist(), "B")
    shown = compare_view(document, document.layouts())
    (more,) = [each for each in of_kind(shown, "title") if str(each.children).endswith(" others")]
    count = int(more.children.split()[0])
    assert count > 1
    named = more.title.split("\n")
    assert len(named) >= count and not any(line.startswith("all on A: ") for line in named)
    assert "Span(children=['all on A'" in str(shown) or "Span('all on A')" in str(shown)


def test_figures_that_were_not_measured_say_so_beside_measured_ones(
    state: AppState, tmp_path: Path
) -> None:
    """The head said "Latency otherwise [estimate from shapes]"."""
    document = opened(state, tmp_path)

    def head_and_rows() -> tuple[str, list[str]]:
        shown = compare_view(document, document.layouts())
        (table,) = [each for each in shown if getattr(each, "id", "") == "compare-table"]
        head, body = table.children
        return str(head), [str(row) for row in body.children]

    head, rows = head_and_rows()
    assert "'estimate" in head and not any("data-kind='estimate'" in row for row in rows)
    run = {"mode": "latency", "median": 0.123, "throughput": 8.0, "requests": 1, "p99": 0.2}
    kept = {**run, "interval": [0.12, 0.13], "estimated": False, "baselines": {}}
    document.keep_run(kept, "", document.placement)
    head, (plan, *others) = head_and_rows()
    assert "data-kind" not in head and "otherwise" not in head
    assert "data-kind='measurement'" in plan and "data-kind='estimate'" not in plan
    assert others and all(row.count("data-kind='estimate'") == 2 for row in others)


def test_a_layout_that_was_measured_beside_other_work_is_noisy_in_the_table(
    state: AppState, tmp_path: Path
) -> None:
    """Side by side, the same time was "(measurement, noisy)"."""
    document = opened(state, tmp_path)
    run = {"mode": "latency", "median": 0.123, "throughput": 8.0, "requests": 1, "p99": 0.2}
    kept = {**run, "interval": [0.12, 0.13], "estimated": False, "baselines": {}}

    def marks() -> list[Any]:
        shown = compare_view(document, document.layouts())
        return [each for each in of_kind(shown, "title") if each.children == "noisy"]

    document.keep_run(kept, "", document.placement)
    assert not marks()
    noisy = {"disturbances": ["another process took 40 % of the processor"]}
    document.keep_run({**kept, "report": noisy}, "", document.placement)
    assert [each.className for each in marks()] == ["noisy"] * 2, "of the time, and of the rate"
    assert marks()[0].title.startswith("another process took 40 %")


def test_why_a_layout_could_not_be_made_has_no_folder_of_the_server(
    state: AppState, tmp_path: Path
) -> None:
    document = opened(state, tmp_path)
    why = f"{document.graph.path}: the weights in net.data are not here"
    lacking = Layout(BY_OPENVINO, Settings(), None, why)
    said = str(compare_view(document, [*document.layouts(), lacking]))
    assert "'net.onnx: the weights in net.data are not here'" in said
    assert str(tmp_path) not in said
