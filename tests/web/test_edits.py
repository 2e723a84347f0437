"""Edits reach the document once each, in order, and do not wait for other work."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import EXAMPLES
from decoders import fused_decoder, plain_decoder

from editor.errors import EditorError
from editor.graph.states import Lengths, sizes_of_step
from editor.placement import device_profile
from editor.placement.device_profile import DeviceProfile, profile_path, save_profile
from editor.runtimes.base import Capability
from editor.sandbox.jobs import Job, JobService
from editor.text import pluralize
from editor.web.app_state import AppState
from editor.web.benchmark_state import JobOptions
from editor.web.callbacks.phasing import opened_phase
from editor.web.edit_answers import answer_edits
from editor.web.edit_queue import Answer, EditQueue
from editor.web.edits import HANDLERS, apply
from editor.web.messages import (
    DrawingRequest,
    Edits,
    EditsAnswer,
    HistoryEdit,
    LayoutEdit,
    validated,
)
from editor.web.open_request import OpenRequest
from editor.web.panels.devices import outcome, pins_summary
from editor.web.panels.phases_panel import phases_view
from editor.web.panels.profiles import profiles_view
from editor.web.panels.status import status
from editor.web.routes import canvas_routes
from editor.web.view import figures_of
from editor.workspace.document import Document
from editor.workspace.history import Store
from editor.workspace.phases import of_phase
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


def edits(page: str, *each: dict[str, Any]) -> Edits:
    return validated(Edits, {"page": page, "seen": 10**9, "edits": list(each)}, "edits")


def sent(state: AppState, document: Document, page: str, *each: dict[str, Any]) -> EditsAnswer:
    return answer_edits(state, document.id, edits(page, *each))


def do(state: AppState, document: Document, **edit: Any) -> Any:
    return apply(state, document, edits("a", edit).edits[0])


def paint(sequence: int, op: int) -> dict[str, Any]:
    return {"do": "paint", "ops": [op], "device": 1, "force": True, "sequence": sequence}


def test_a_request_that_is_overtaken_changes_nothing_and_loses_nothing() -> None:
    queue, done = EditQueue(), []

    def work(sequence: int, _edit: Any) -> Answer:
        done.append(sequence)
        return Answer([sequence])

    def send(*each: dict[str, Any]) -> list[Answer]:
        return queue.apply(queue.numbered(edits("a", *each).edits), work)

    later = send(paint(1, 5), paint(2, 6))
    earlier = send(paint(1, 5))
    assert done == [1, 2]
    assert [a.outcome for a in later] == [[1], [2]]
    assert [a.outcome for a in earlier] == [[1]] or not earlier
    send(paint(4, 5), paint(3, 6))
    assert done == [1, 2, 3, 4], "in the order in which they were made"
    send(paint(0, 5), paint(0, 6))
    assert done == [1, 2, 3, 4, 5, 6], "without a number they are the next"


def test_undo_after_an_edit_is_not_applied_before_it(state: AppState, document: Document) -> None:
    """Two requests in the wrong order: the page repeats what was not confirmed."""
    first, second = paint(1, 3), {"do": "undo", "sequence": 2}
    pins = len(document.placement.settings.pins)
    sent(state, document, "a", first, second)
    answer = sent(state, document, "a", first)
    assert len(document.placement.settings.pins) == pins, "painted, undone, and not painted again"
    assert answer["sequence"] == 2


def test_a_request_that_is_sent_again_gets_the_answer_of_the_first(
    state: AppState, document: Document
) -> None:
    """An edit that took five seconds was sent again; its deltas went, and a policy that moved ops was said to move none."""
    document.set_automatic("priority", {}, "minimal")
    document.reorder(["GPU", "CPU"] if document.devices[0].name == "CPU" else ["CPU", "GPU"])
    order = {"do": "order", "names": [d.name for d in reversed(document.devices)], "sequence": 1}
    automatic = {
        "do": "automatic",
        "policy": "optimal:latency",
        "costs": "estimate",
        "grouping": "minimal",
        "codegen": "op",
        "sequence": 2,
    }
    first, again = (sent(state, document, "twice", order, automatic)["panels"] for _ in range(2))
    assert first["status"] == again["status"] and first["notice"] == again["notice"]
    first, again = (
        sent(state, document, "twice", paint(3, 5), paint(4, 6))["panels"] for _ in range(2)
    )
    assert "+2" in str(first["status"]) and first["status"] == again["status"]
    after = sent(state, document, "twice", {"do": "show", "sequence": 5})
    assert "+2" not in str(after["panels"]["status"])


def test_an_edit_that_fails_does_not_hold_up_the_next(state: AppState, document: Document) -> None:
    answer = sent(state, document, "b", {"do": "rule-ops", "rule": 9, "sequence": 1}, paint(2, 3))
    assert len(document.placement.settings.pins) == 1
    assert "no such rule" in answer["message"] and answer["message"] in str(
        answer["panels"]["notice"]
    )


def test_what_a_policy_lacks_has_a_button_that_leads_there(
    state: AppState, document: Document
) -> None:
    asked = {"do": "automatic", "costs": "estimate", "grouping": "minimal", "codegen": "op"}
    document.set_automatic("memory", {}, "minimal")
    for number, (policy, command) in enumerate(
        {"memory": "show-Memory", "optimal:energy": "data-watts-of"}.items(), 1
    ):
        edit = {**asked, "policy": policy, "sequence": number}
        assert command in str(sent(state, document, "lacks", edit)["panels"]["notice"])
    document.set_automatic("priority", {}, "minimal")


def test_what_is_undone_is_said_where_no_op_moves(state: AppState, document: Document) -> None:
    document.set_automatic("priority", {}, "minimal")
    document.set_automatic("priority", {"first": document.devices[0].name}, "minimal")
    label = document.history.current.label
    for number, (do_it, words) in enumerate({"undo": "Undone", "redo": "Done again"}.items(), 1):
        answer = sent(state, document, "silent", {"do": do_it, "sequence": number})
        assert f"{words}: {label}." in str(answer["panels"]["notice"])
    document.pin([3], document.devices[1].name)
    answer = sent(state, document, "silent", {"do": "undo", "sequence": 3})
    assert answer["panels"]["notice"] is None, "the graph shows it"
    document.set_automatic("priority", {}, "minimal")


def test_a_layout_that_forms_subgraphs_by_another_rule_says_so(
    state: AppState, document: Document
) -> None:
    """The rule went on to hold for what was done next, without a word."""
    for sequence, layout, said in ((1, "Glow rule (simulated)", True), (2, "all on CPU", False)):
        document.set_automatic("priority", {}, "minimal")
        use = {"do": "use-layout", "name": layout, "sequence": sequence}
        notice = str(sent(state, document, "rule", use)["panels"]["notice"])
        assert ("now: Levels (Glow), before: Minimal: fewest" in notice) == said, notice
    document.set_automatic("priority", {}, "minimal")


def test_a_fault_of_the_server_is_said_and_holds_up_nothing(
    state: AppState, document: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page sent the same edit again for ever, and no other after it was done."""

    def fails(*_: Any) -> None:
        raise AssertionError("the minimum cut failed")

    monkeypatch.setitem(HANDLERS, HistoryEdit, fails)
    queue = EditQueue()
    answers = queue.apply(
        queue.numbered(edits("a", {"do": "reset", "sequence": 1}, paint(2, 3)).edits),
        lambda _, edit: Answer(apply(state, document, edit)),
    )
    assert (
        answers[0].message is not None
        and "the plan is as before (AssertionError: the minimum" in answers[0].message.text
    )
    assert answers[1].message is None and document.placement.settings.pins and queue.last == 2


@pytest.mark.parametrize(
    ("stroke", "fault"),
    [
        ({"do": "fly"}, "'fly' found using 'do' does not match"),
        ({}, "edits.0: Unable to extract tag"),
        ({"do": "paint", "ops": [1]}, "edits.0.paint.device: Field required"),
        ({"do": "paint", "ops": ["1"], "device": 0}, "ops.0: .*valid integer"),
        ({"do": "paint", "ops": [1], "device": True}, "device: .*valid integer"),
        ({"do": "paint", "ops": 1, "device": 0}, "ops: .*valid list"),
        ({"do": "paint", "ops": [1], "device": 0, "colour": 1}, "colour: Extra inputs"),
        ({"do": "unpin", "ops": [10**6]}, "does not fit the document"),
        (
            {"do": "grow", "how": "type", "ops": [-1], "device": None, "unpin": False},
            "ops.0: .*greater than or equal to 0",
        ),
        ({"do": "rule-ops", "rule": 3}, "no such rule"),
        ({"do": "region", "ops": [], "device": None, "unpin": False}, "Choose an op"),
        ({"do": "use-layout", "name": "x"}, "no such layout"),
        ({"do": "adopt", "name": "x"}, "no tuned plan"),
    ],
)
def test_unknown_and_malformed_edits_are_errors(
    state: AppState, document: Document, stroke: Any, fault: str
) -> None:
    version = document.version
    with pytest.raises(EditorError, match=fault):
        do(state, document, **stroke)
    assert document.version == version


@pytest.mark.parametrize(
    "change",
    [{"do": "fly"}, {"do": "open"}, {"do": "mode", "mode": "threads"}, {"do": "find", "text": 1}],
)
def test_unknown_and_malformed_changes_of_the_drawing_are_errors(change: Any) -> None:
    request = {"detail": {"mode": "ops", "open": []}, "change": change}
    with pytest.raises(EditorError, match="does not fit: change"):
        validated(DrawingRequest, request, "a change")


def test_profiles_are_read_once_an_edit_at_most(
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
        sent(state, document, "c", paint(sequence, sequence))
        assert all(reads.count(path) <= 1 for path in present)
    # A device that is set up otherwise has no profile: the figures changed without a word.
    number = next(i for i, d in enumerate(document.devices) if not d.planned)
    name = document.devices[number].name
    fields = {"do": "device-field", "name": name, "device": number, "field": "properties"}
    for sequence, value in ((3, "session.intra_op.allow_spinning=0"), (4, "")):
        answer = sent(state, document, "c", {**fields, "value": value, "sequence": sequence})
        said = f"no profile of {name} as the table has it"
        assert said in answer["message"] if value else answer["panels"]["notice"] is None
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
    used, unprofiled, label, said = [], [], "", []
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
                status(document)
            answer = sent(state, document, "costs", {"do": "show", "sequence": 1 + number})
            said.append(answer["message"])
            used.append([d.name for d in document.placement.used_devices])
            unprofiled.append("No op runs on a device that has a profile" in str(outcome(document)))
        steps, label = document.history.current.number, document.history.current.label
    finally:
        profile_path(document.graph, cpu).unlink()
        document.set_automatic("priority", {}, "minimal")
    assert used == [["GPU"], ["CPU"]] and document.history.current.number == steps + 1, (
        "no step of the history"
    )
    assert unprofiled == [True, False]
    assert not said[0]
    assert re.match(
        r"By the new costs .* before \(ops .*\); the policy placed \d+ ops elsewhere\.$", said[1]
    )
    assert label == "Optimal: least latency (costs from a profile)", "nothing is measured"


def test_a_step_that_other_costs_solve_otherwise_says_so(
    state: AppState, document: Document
) -> None:
    """Undo after a profile led to a plan that had never been there."""
    cpu = next(d for d in document.devices if not d.planned)
    kinds = dict.fromkeys(document.graph.op_keys, 0)

    def profiled(each: float) -> None:
        seconds = dict.fromkeys(document.graph.op_keys, each)
        figures = DeviceProfile("x", each, seconds, kinds, ("k",), 0, 0, 0, 0, 0, 1)
        save_profile(document.graph, cpu, figures)

    said = []
    try:
        profiled(1.0)
        document.set_automatic("optimal", {"costs": "measured"}, "minimal")
        for sequence, each in ((1, 1.0), (3, 1e-12)):
            document.paint([int(document.placement.placed_ops[0])], 0)
            profiled(each)
            sent(state, document, "anew", {"do": "show", "sequence": sequence})
            answer = sent(state, document, "anew", {"do": "undo", "sequence": sequence + 1})
            said.append(answer["message"])
    finally:
        profile_path(document.graph, cpu).unlink()
        document.set_automatic("priority", {}, "minimal")
    assert "solved anew" not in said[0]
    assert said[1].endswith(
        "is solved anew, by what is known now: ops are elsewhere than they were at that step."
    )


def test_the_ops_that_have_a_profile_are_counted_where_the_others_are_estimated(
    state: AppState, document: Document
) -> None:
    """ "No op runs on a device that has a profile" stood beside figures that were in part from one."""
    cpu = next(d for d in document.devices if not d.planned)
    seconds = dict.fromkeys(document.graph.op_keys, 1e-12)
    kinds = dict.fromkeys(document.graph.op_keys, 0)
    first = int(document.placement.placed_ops[0])
    try:
        save_profile(
            document.graph, cpu, DeviceProfile("x", 1e-9, seconds, kinds, ("k",), 0, 0, 0, 0, 0, 1)
        )
        document.set_automatic("optimal", {"costs": "measured"}, "minimal")
        document.pin([first], "GPU")
        do(state, document, do="show")
        counts, said = document.placement.op_counts, str(outcome(document))
        assert counts["GPU"] > 1
        ops = pluralize(counts["GPU"], "op")
        lacking = f"CPU is profiled. GPU has no profile: the times of {ops} there are estimates."
        assert lacking in said
    finally:
        profile_path(document.graph, cpu).unlink()
        document.set_automatic("priority", {}, "minimal")
        document.unpin()


def test_an_edit_does_not_wait_for_a_job_to_be_submitted(
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
            target=sent, daemon=True, args=(state, document, "d", paint(1, 4))
        )
        stroke.start()
        stroke.join(20)
        assert not stroke.is_alive(), "it waits for the job"
        assert len(document.placement.settings.pins) == 1
    finally:
        jobs.gate.set()
        starting.join(60)
        state.benchmarks[document.id].job.cancel()


def test_a_tooltip_does_not_wait_for_edits_of_another_page(
    state: AppState, document: Document
) -> None:
    """Edits waited for a solve in the six threads that answer everything, one in each."""
    queue = state.pages.get("slow")
    routes = {route.name: route.endpoint for route in canvas_routes(state).routes}  # type: ignore[attr-defined]

    async def hover_meanwhile() -> Any:
        solving = threading.Event()

        def solve() -> None:
            with queue.lock:
                solving.set()
                answered_meanwhile.append(answered.wait(30))

        holder = threading.Thread(target=solve)
        holder.start()
        await state.long_work.run(solving.wait, 60)
        waiting = [
            asyncio.create_task(routes["edit"](document.id, edits("slow", paint(sequence, 4))))
            for sequence in range(1, 41)
        ]
        await asyncio.sleep(0)
        hover = await routes["point"](document.id, ops="1")
        answered.set()
        await asyncio.gather(*waiting)
        holder.join()
        return json.loads(hover.body)

    answered, answered_meanwhile = threading.Event(), list[bool]()
    assert asyncio.run(hover_meanwhile())["content"]
    assert queue.last == 40 and answered_meanwhile == [True]


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
    do(state, document, do="forget-profile", name="GPU")
    assert (
        not profile_path(graph, document.devices[1]).exists()
        and profile_path(graph, document.devices[0]).exists()
    )
    do(state, document, do="forget-profile", name="CPU")
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
        do(state, document, do="forget-profile", name="TPU")
    for name in ("CPU", "GPU"):
        do(state, document, do="put-back-profile", name=name)
    assert document.placement.settings.policy_options["costs"] == "measured"
    assert "Put back" not in str(profiles_view(document)) and "Forget the profile of GPU" in str(
        profiles_view(document)
    )
    with pytest.raises(EditorError, match="no earlier profile of GPU"):
        do(state, document, do="put-back-profile", name="GPU")
    document.set_automatic("priority", {}, "minimal")


def test_another_policy_ends_what_a_layout_tries_first(state: AppState, document: Document) -> None:
    do(state, document, do="use-layout", name="all on CPU")
    assert "tries CPU before the other devices" in str(pins_summary(document))
    chosen = {"costs": "estimate", "codegen": "op", "grouping": "minimal"}
    do(state, document, do="automatic", policy="priority", **chosen)
    assert document.placement.settings.policy_options["first"] == "CPU", "only costs changed"
    do(state, document, do="automatic", policy="optimal:latency", **chosen)
    do(state, document, do="automatic", policy="priority", **chosen)
    assert "first" not in document.placement.settings.policy_options
    assert "tries" not in str(pins_summary(document))


def between_contexts(state: AppState, folder: Path, past: int) -> Document:
    """A decoder within the memory of a card that holds all of it after 4 tokens, and not after 127."""
    model = str(plain_decoder(folder / "decoder.onnx"))
    sizes = {"batch": 1, "sequence_length": 1, "past_sequence_length": past}
    speeds = {"peakCompute": 1e13, "peakDramBw": 1e12, "link": {"bandwidth": 1e11, "latency": 1e-7}}
    card = {"name": "Card", "backendName": "CUDA", **speeds}
    needed = [
        state.open(
            OpenRequest(model, [card], {**sizes, "past_sequence_length": tokens})
        ).placement.run_memory.peaks["Card"]
        for tokens in (4, 127)
    ]
    limited = [{**card, "memory": sum(needed) // 2}, {"name": "CPU", "peakCompute": 1e9}]
    opened = state.open(OpenRequest(model, limited, sizes))
    opened.set_automatic("memory", {}, "minimal")
    return opened


def test_a_placement_for_fewer_tokens_than_are_open_says_so_where_it_does_not_fit(
    state: AppState, tmp_path: Path
) -> None:
    """The refusal spoke of pins that the button itself had made."""
    opened = between_contexts(state, tmp_path, 127)
    with state.tasks.begin(opened.id, "Placing prompt and tokens") as task:
        found = state.phases(opened, Lengths(2, 3), task)
    on_card = {n: of_phase(opened.graph, p).op_counts["Card"] for n, p in found.placements.items()}
    name = max(on_card, key=on_card.__getitem__)
    said = "is placed for 3 tokens, and has no room for the 127 of the sizes that are open"
    with pytest.raises(EditorError, match=said):
        HANDLERS[LayoutEdit](state, opened, LayoutEdit(do="use-phase", name=name))
    button = f"'Use at 3 tokens', id={{'type': 'phase-open', 'name': {name!r}}}"
    assert button in str(phases_view(opened, found)), "it opens the sizes that have room"
    shorter = sizes_of_step(opened.graph, 1, 3)
    with state.tasks.begin(opened.id, "Solving") as task:
        there = opened_phase(state, opened, shorter, found.lengths, task, name)
    assert there.graph.define["past_sequence_length"] == 3
    assert there.placement.op_counts["Card"] == on_card[name]


def test_a_step_that_does_not_fit_other_sizes_leads_back_to_those_that_it_is_of(
    state: AppState, tmp_path: Path
) -> None:
    """Undo failed at each press, with a sentence about memory and no way out."""
    short = between_contexts(state, tmp_path, 4)
    short.pin(short.placement.placed_ops.tolist(), "Card")
    short.unpin()
    longer = state.with_sizes(short.id, {**short.graph.define, "past_sequence_length": 127})
    answer = sent(state, longer, "page", {"do": "undo", "sequence": 1})
    assert answer["message"].startswith("That step cannot be had at these sizes")
    assert f"'href': '/d/{short.id}'" in str(answer["panels"]["notice"])


def test_a_device_that_was_added_is_named_as_the_table_has_it(
    state: AppState, document: Document
) -> None:
    """A second GPU was announced as the first one."""
    page = "table"
    said = sent(state, document, page, {"do": "add-device", "text": "GPU", "sequence": 1})[
        "message"
    ]
    assert said.startswith("GPU 2 is in the table now, ")
    document.reorder([d.name for d in document.devices][::-1])
    first = [d.name for d in document.devices]
    said = sent(state, document, page, {"do": "add-device", "text": "NPU", "sequence": 2})[
        "message"
    ]
    names = [d.name for d in document.devices]
    (new,) = set(names) - set(first)
    place = names.index(new)
    assert (f"below {names[place - 1]};" if place else "the first one;") in said
    assert ("no device above it" in said) is bool(place)
    document.set_devices([{"name": "CPU"}, {"name": "GPU"}])


def test_a_stroke_after_which_most_of_the_plan_changes_sides_says_so(
    state: AppState, tmp_path: Path
) -> None:
    """Two devices that are alike changed places with the pin of one layer, without a word."""
    path = fused_decoder(tmp_path, layers=8, hidden=128)
    table = [{"name": name, "backendName": "CPU"} for name in "AB"]
    whole = state.open(OpenRequest(str(path), table, {}, True))
    limit = str(int(0.8 * whole.placement.run_memory.peaks["A"]))
    split = state.open(OpenRequest(str(path), [{**d, "memory": limit} for d in table], {}, True))
    split.set_automatic("memory", {}, "minimal")
    before = split.placement.assignment.device
    layers = [op for op in split.placement.placed_ops.tolist() if before[op] == 0][:20]
    answer = sent(state, split, "w", {"do": "paint", "ops": layers, "device": 1, "sequence": 1})
    ops = split.placement.placed_ops
    moved = set(ops[(before != split.placement.assignment.device)[ops]].tolist()) - set(layers)
    assert len(moved) > 20
    said = f"{len(moved)} other ops moved, too: “Optimal within memory” placed the rest anew around the pins."
    assert answer["message"] == said
    sent(state, split, "w", {"do": "keep-others", "sequence": 2})
    assert split.placement.placed_ops.tolist() == ops.tolist(), "constants have no pins"
    other = ops[(before != split.placement.assignment.device)[ops]]
    assert set(other.tolist()) <= set(layers), "the others are where they were"
    assert split.history.current.label.endswith("other ops kept")
    assert split.undo() and len(split.placement.settings.pins) == len(layers)
    last = [int(split.placement.placed_ops[-1])]
    answer = sent(state, split, "w", {"do": "paint", "ops": last, "device": 0, "sequence": 3})
    assert "moved, too" not in answer["message"]


def test_ops_are_kept_only_after_a_stroke_that_moved_some(state: AppState, tmp_path: Path) -> None:
    document = state.open(
        OpenRequest(str(fused_decoder(tmp_path, layers=2, hidden=64)), [{"name": "CPU"}], {}, True)
    )
    answer = sent(state, document, "kept", {"do": "keep-others", "sequence": 1})
    assert "did not move other ops" in answer["message"] and document.history.cursor == 0
    document.set_automatic("optimal", {}, "minimal")
    answer = sent(state, document, "kept", {"do": "keep-others", "sequence": 2})
    assert "did not move other ops" in answer["message"], "a policy is not a stroke"
    document.paint(document.placement.placed_ops[:3].tolist(), 0)
    document.unpin()
    answer = sent(state, document, "kept", {"do": "keep-others", "sequence": 3})
    assert "did not move other ops" in answer["message"], "nor is an unpin"


def test_many_pins_are_folded_until_they_are_asked_for(document: Document) -> None:
    """117 pins of a phase that was used took 14 rows above the history."""
    ops = document.placement.placed_ops.tolist()
    document.pin(ops[:1], document.devices[0].name)
    assert "Summary('1 pinned op')" not in str(pins_summary(document))
    for every, device in zip((2, 3), document.devices, strict=True):
        document.pin(ops[::every], device.name)
    count = len(document.placement.settings.pins)
    many = str(pins_summary(document))
    assert f"Summary('{count} pinned ops')" in many and "open=False" in many
    document.unpin(ops[:1])
    assert "open=True" in str(pins_summary(document)), "the next one may follow"
