"""Strokes reach the document once each, in order, and do not wait for other work."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import EXAMPLES

from editor.errors import EditorError
from editor.placement import device_profile
from editor.placement.device_profile import DeviceProfile, profile_path, save_profile
from editor.runtimes.base import Capability
from editor.sandbox.jobs import Job, JobService
from editor.web.app_state import AppState
from editor.web.benchmark_state import JobOptions
from editor.web.callbacks.detail import changed_detail
from editor.web.callbacks.editing import _strokes
from editor.web.drawing.collapsed import first_detail
from editor.web.open_request import OpenRequest
from editor.web.panels.profiles import profiles_view
from editor.web.server import create_app
from editor.web.stroke_order import Answer, PageStrokes
from editor.web.strokes import HANDLERS, apply
from editor.web.view import figures_of
from editor.workspace.document import Document
from editor.workspace.history import Store
from editor.workspace.solver import Solver


class GatedJobs(JobService):
    """Real jobs whose submission waits at a gate, as it does while a worker starts."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.gate = threading.Event(), threading.Event()
        self.gate.set()

    def submit(self, *arguments: Any, **options: Any) -> Job:
        self.entered.set()
        assert self.gate.wait(60)
        return super().submit(*arguments, **options)


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppState]:
    made = AppState(Store(str(tmp_path_factory.mktemp("workspace"))), GatedJobs(), None, EXAMPLES)
    yield made
    made.close()


@pytest.fixture
def document(state: AppState) -> Document:
    opened = state.open(
        OpenRequest(
            str(EXAMPLES / "models" / "mobilenetv2.onnx"), [{"name": "CPU"}, {"name": "GPU"}]
        )
    )
    opened.unpin()
    opened.set_automatic("priority", {}, "minimal")
    opened.reorder(["CPU", "GPU"])
    return opened


def paint(sequence: int, op: int) -> dict[str, Any]:
    return {"do": "paint", "ops": [op], "device": 1, "force": True, "sequence": sequence}


def test_a_request_that_is_overtaken_changes_nothing_and_loses_nothing() -> None:
    page, done = PageStrokes(), []

    def work(stroke: Any) -> Answer:
        done.append(stroke["sequence"])
        return Answer([stroke["sequence"]])

    later = page.apply([paint(1, 5), paint(2, 6)], work)
    earlier = page.apply([paint(1, 5)], work)
    assert done == [1, 2]
    assert [a.outcome for a in later] == [[1], [2]]
    assert [a.outcome for a in earlier] == [[1]] or not earlier
    page.apply([paint(4, 5), paint(3, 6)], work)
    assert done == [1, 2, 3, 4], "in the order in which they were made"


def test_undo_after_a_stroke_is_not_applied_before_it(state: AppState, document: Document) -> None:
    """Two requests in the wrong order: the page repeats what was not confirmed."""
    first, second = paint(1, 3), {"do": "undo", "sequence": 2}
    pins = len(document.placement.settings.pins)
    _strokes(state, {"page": "a", "seen": 10**9, "strokes": [first, second]}, document.id)
    answer = _strokes(state, {"page": "a", "seen": 10**9, "strokes": [first]}, document.id)
    assert len(document.placement.settings.pins) == pins, "painted, undone, and not painted again"
    assert answer[-1] == {"page": "a", "sequence": 2, "problem": ""}


def test_a_request_that_is_sent_again_gets_the_answer_of_the_first(
    state: AppState, document: Document
) -> None:
    """A stroke that took five seconds was sent again; its deltas went, and a policy that moved ops was said to move none."""
    document.set_automatic("priority", {}, "minimal")
    document.reorder(["GPU", "CPU"] if document.devices[0].name == "CPU" else ["CPU", "GPU"])
    request = {
        "page": "twice",
        "seen": 10**9,
        "strokes": [
            {"do": "order", "names": [d.name for d in reversed(document.devices)], "sequence": 1},
            {
                "do": "automatic",
                "policy": "optimal:latency",
                "costs": "estimate",
                "grouping": "minimal",
                "codegen": "op",
                "sequence": 2,
            },
        ],
    }
    first, again = (_strokes(state, request, document.id) for _ in range(2))  # type: ignore[arg-type]
    assert str(first[5]) == str(again[5]) and str(first[6]) == str(again[6])
    moved = {**request, "strokes": [paint(3, 5), paint(4, 6)]}
    first, again = (_strokes(state, moved, document.id) for _ in range(2))  # type: ignore[arg-type]
    assert "+2" in str(first[5]) and str(first[5]) == str(again[5])
    after = _strokes(state, {**request, "strokes": [{"do": "show", "sequence": 5}]}, document.id)  # type: ignore[typeddict-item]
    assert "+2" not in str(after[5])


def test_a_stroke_that_fails_does_not_hold_up_the_next(state: AppState, document: Document) -> None:
    answer = _strokes(
        state,
        {"page": "b", "seen": 10**9, "strokes": [{"do": "fly", "sequence": 1}, paint(2, 3)]},
        document.id,
    )
    assert len(document.placement.settings.pins) == 1
    assert "does not know: 'fly'" in str(answer[6])


def test_a_fault_of_the_server_is_said_and_holds_up_nothing(
    state: AppState, document: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page sent the same stroke again for ever, and no other after it was done."""

    def fails(*_: Any) -> None:
        raise AssertionError("the minimum cut failed")

    monkeypatch.setitem(HANDLERS, "reset", (HANDLERS["reset"][0], fails))
    page = PageStrokes()
    answers = page.apply(
        [{"do": "reset", "sequence": 1}, paint(2, 3)], lambda s: Answer(apply(state, document, s))
    )
    assert (
        answers[0].message is not None
        and "the plan is as before (AssertionError: the minimum" in answers[0].message["text"]
    )
    assert answers[1].message is None and document.placement.settings.pins and page.last == 2


@pytest.mark.parametrize(
    ("stroke", "fault"),
    [
        ({"do": "fly"}, "does not know: 'fly'"),
        ({}, "does not know"),
        ({"do": "paint", "ops": [1]}, "“device” is missing"),
        ({"do": "unpin", "ops": [10**6]}, "does not fit the document"),
        (
            {"do": "grow", "how": "type", "ops": [-1], "device": None, "unpin": False},
            "does not fit the document",
        ),
        ({"do": "rule-ops", "rule": 3}, "no such rule"),
        ({"do": "region", "ops": [], "device": None, "unpin": False}, "Choose an op"),
        ({"do": "use-layout", "name": "x"}, "no such layout"),
        ({"do": "adopt", "name": "x"}, "no tuned plan"),
    ],
)
def test_unknown_and_malformed_strokes_are_errors(
    state: AppState, document: Document, stroke: Any, fault: str
) -> None:
    version = document.version
    with pytest.raises(EditorError, match=fault):
        apply(state, document, stroke)
    assert document.version == version


@pytest.mark.parametrize(
    "request_",
    [{"do": "fly"}, {"do": "open"}, {"do": "mode", "mode": "threads"}, {"do": "find", "text": 1}],
)
def test_unknown_and_malformed_detail_requests_are_errors(
    document: Document, request_: Any
) -> None:
    with pytest.raises(EditorError):
        changed_detail(document, request_, first_detail(document.graph))


def test_profiles_are_read_once_a_stroke_at_most(
    state: AppState, document: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = document.graph
    seconds = dict.fromkeys(graph.op_keys, 1e-6)
    for device in document.devices:
        if not device.planned:
            save_profile(
                graph,
                device,
                DeviceProfile(
                    "x", 1e-4, seconds, dict.fromkeys(seconds, 0), ("k",), 0, 0, 0, 0, 0, 1
                ),
            )
    reads: list[Path] = []

    def counted(path: Path, *arguments: Any, **options: Any) -> str:
        reads.append(path)
        return real(path, *arguments, **options)

    real = Path.read_text
    monkeypatch.setattr(Path, "read_text", counted)
    present = [profile_path(graph, d) for d in document.devices if not d.planned]
    assert present
    used = [document.devices[number] for number in document.placement.used_numbers]
    assert (
        figures_of(document)["basis"].source
        == ("in part " if any(d.planned for d in used) else "") + "from profile"
    )
    for sequence in (1, 2):
        reads.clear()
        _strokes(
            state, {"page": "c", "seen": 10**9, "strokes": [paint(sequence, sequence)]}, document.id
        )
        assert all(reads.count(path) <= 1 for path in present)
    # A device that is set up otherwise has no profile: the figures changed without a word.
    number = next(i for i, d in enumerate(document.devices) if not d.planned)
    name = document.devices[number].name
    fields = {"do": "device-field", "name": name, "device": number, "field": "properties"}
    for sequence, value in ((3, "session.intra_op.allow_spinning=0"), (4, "")):
        stroke = {**fields, "value": value, "sequence": sequence}
        answer = _strokes(state, {"page": "c", "seen": 10**9, "strokes": [stroke]}, document.id)  # type: ignore[list-item]
        assert (
            f"no profile of {name} as the table has it" in str(answer[6])
            if value
            else answer[6] is None
        )
    for path in present:
        path.unlink()
    assert figures_of(document)["basis"].source == "from shapes"
    assert device_profile.best_source(graph, document.devices) == "estimate"


def test_a_policy_that_decides_by_profiles_follows_a_new_one(
    state: AppState, document: Document
) -> None:
    """After *Profile* the plan was that of the former costs: the sidebar said one latency, the status bar another."""
    cpu = next(d for d in document.devices if not d.planned)
    kinds = dict.fromkeys(document.graph.op_keys, 0)
    used = []
    try:
        for number, each in enumerate((1.0, 1e-12)):  # slow, then fast
            seconds = dict.fromkeys(document.graph.op_keys, each)
            whole = each * len(seconds)
            save_profile(
                document.graph,
                cpu,
                DeviceProfile("x", whole, seconds, kinds, ("k",), 0, 0, 0, 0, 0, 1),
            )
            if not number:
                document.set_automatic("optimal", {"costs": "measured"}, "minimal")
            apply(state, document, {"do": "show"})
            used.append([d.name for d in document.placement.used_devices])
        steps = document.history.current.number
    finally:
        profile_path(document.graph, cpu).unlink()
        document.set_automatic("priority", {}, "minimal")
    assert used == [["GPU"], ["CPU"]] and document.history.current.number == steps + 1, (
        "no step of the history"
    )


def test_a_stroke_does_not_wait_for_a_job_to_be_submitted(
    state: AppState, document: Document
) -> None:
    jobs = state.jobs
    assert isinstance(jobs, GatedJobs)
    jobs.entered.clear()
    jobs.gate.clear()
    starting = threading.Thread(
        target=state.start_job, args=(document, "benchmark", JobOptions(0.1))
    )
    starting.start()
    try:
        assert jobs.entered.wait(30)
        stroke = threading.Thread(
            target=_strokes,
            daemon=True,
            args=(state, {"page": "d", "seen": 10**9, "strokes": [paint(1, 4)]}, document.id),
        )
        stroke.start()
        stroke.join(20)
        assert not stroke.is_alive(), "it waits for the job"
        assert len(document.placement.settings.pins) == 1
    finally:
        jobs.gate.set()
        starting.join(60)
        state.benchmarks[document.id].job.cancel()


def test_a_tooltip_does_not_wait_for_strokes_of_another_page(
    state: AppState, document: Document
) -> None:
    """Strokes waited for a solve in the six threads that answer everything, one in each."""
    app, page = create_app(state), state.pages.get("slow")

    def callback(output: str) -> Any:
        key = next(key for key in app.callback_map if output in key.strip(".").split("..."))
        return app.callback_map[key]["callback"].__wrapped__

    def wait_behind(sequence: int) -> dict[str, Any]:
        return {"page": "slow", "seen": 10**9, "strokes": [paint(sequence, 4)]}

    async def hover_meanwhile() -> Any:
        solving = threading.Event()

        def solve() -> None:
            with page.lock:
                solving.set()
                answered_meanwhile.append(answered.wait(30))

        holder = threading.Thread(target=solve)
        holder.start()
        await state.long_work.run(solving.wait, 60)
        strokes = [
            asyncio.create_task(callback("view.data")(wait_behind(sequence), document.id))
            for sequence in range(1, 41)
        ]
        await asyncio.sleep(0)
        hover = await callback("hover.children")(
            {"ops": [1], "pairs": [], "number": 7}, document.id
        )
        answered.set()
        await asyncio.gather(*strokes)
        holder.join()
        return hover

    answered, answered_meanwhile = threading.Event(), list[bool]()
    assert "7" in str(asyncio.run(hover_meanwhile()))
    assert page.last == 40 and answered_meanwhile == [True]


def test_a_profile_that_is_forgotten_leaves_estimates_wherever_decisions_go_by_it(
    state: AppState, document: Document, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Undo and other documents of the model failed for good."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    graph = document.graph
    seconds = {
        graph.op_keys[op]: 1e-5 for op in graph.order.tolist() if not graph.op_is_constant[op]
    }
    for device in document.devices:
        save_profile(
            graph,
            device,
            DeviceProfile(
                device.description,
                1e-2,
                seconds,
                {},
                (),
                1e-5,
                0.0,
                0.0,
                0.0,
                0.0,
                1,
                origin="a table on box <7>",
                disturbances=("other programs were busy",),
            ),
        )
    document.set_automatic("optimal", {"costs": "measured"}, "minimal")
    document.keep_layout("by profile")
    document.set_automatic("priority", {}, "minimal")
    shown = str(profiles_view(document))
    assert (
        "a table on box <7>" in shown
        and "other programs were busy" in shown
        and "Forget the profile of GPU" in shown
    )
    apply(state, document, {"do": "forget-profile", "name": "GPU", "sequence": 1})
    assert (
        not profile_path(graph, document.devices[1]).exists()
        and profile_path(graph, document.devices[0]).exists()
    )
    apply(state, document, {"do": "forget-profile", "name": "CPU", "sequence": 2})
    assert "Forget the profile" not in str(profiles_view(document))
    layout = document.layout("by profile")
    assert layout is not None and layout.placement is not None
    assert document.undo() and document.placement.settings.policy_options["costs"] == "estimate"
    with pytest.raises(EditorError, match="no profile of this model"):
        document.set_automatic(
            "memory", {"costs": "measured"}, "minimal"
        )  # whoever asks for one is told
    record = state.store.get(document.id)
    assert record is not None
    decisions = state.store.decisions(document.id, record.cursor)
    assert decisions["options"] == {"costs": "measured"}
    abilities = {d.name: Capability.everything(graph) for d in document.devices}
    again = Document(state.store, record, Solver(graph, decisions, abilities))
    assert again.placement.settings.policy_options["costs"] == "estimate"
    with pytest.raises(EditorError, match="no device TPU any more"):
        apply(state, document, {"do": "forget-profile", "name": "TPU", "sequence": 3})
    for number, name in enumerate(("CPU", "GPU"), 4):
        apply(state, document, {"do": "put-back-profile", "name": name, "sequence": number})
    assert document.placement.settings.policy_options["costs"] == "measured"
    assert "Put back" not in str(profiles_view(document)) and "Forget the profile of GPU" in str(
        profiles_view(document)
    )
    with pytest.raises(EditorError, match="no earlier profile of GPU"):
        apply(state, document, {"do": "put-back-profile", "name": "GPU", "sequence": 6})
    document.set_automatic("priority", {}, "minimal")
