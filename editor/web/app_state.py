"""State of the server: open documents, jobs, and the way from a file to a document."""

from __future__ import annotations

import json
import logging
import socket
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

from editor import limits
from editor.devices.discovery import set_available_devices
from editor.devices.table import Spec, is_by_names, load_devices, text_of_table
from editor.errors import (
    Cancelled,
    EditorError,
    ModelError,
    PlanError,
    UnboundSymbolError,
)
from editor.execution.jobs import tasks
from editor.execution.jobs.preload import ModelPreloader
from editor.execution.measure.prediction import correct_profiles
from editor.graph.dimension_meanings import with_names, with_total
from editor.graph.flops import op_flops
from editor.graph.graph import Graph
from editor.graph.model_file import check_same
from editor.graph.proposed_sizes import proposed_sizes, sizes_text
from editor.graph.states import Lengths
from editor.placement.choices import policy_label
from editor.placement.device_profile import best_source, costs_of
from editor.placement.kept import pin_to_affinity
from editor.placement.placement import Settings, solve
from editor.runtimes.base import Capability
from editor.sandbox.jobs import Job, JobService
from editor.sandbox.watch import READING, section_of
from editor.text import human_seconds, is_utf8
from editor.web.benchmark_state import BenchmarkState, JobOptions, next_options, plan_in_use
from editor.web.drawing.collapsed import first_detail, shown_elements
from editor.web.edit_queue import Pages
from editor.web.open_request import EarlierWorkError, OpenRequest
from editor.web.panels.device_form import read_offers
from editor.web.tasks import LongWork, StatusService, Task, TaskRegistry
from editor.web.uploads import Uploads
from editor.web.view import costs_value, view_of
from editor.workspace import plan_file
from editor.workspace.audit_layouts import AuditReport, audit_job, keep_audit
from editor.workspace.document import Document
from editor.workspace.folders import make_private, title_of
from editor.workspace.history import Record, Store
from editor.workspace.longest import NO_ROOM, wanted_settings
from editor.workspace.model_set import is_set
from editor.workspace.phases import Phases, place_phases
from editor.workspace.plan import Plan, with_costs_of_here
from editor.workspace.sizes import (
    AtSizes,
    Load,
    at_sizes,
    names_of,
    parse_sizes,
    with_known_costs,
)
from editor.workspace.solver import Solver, first_decisions

if TYPE_CHECKING:  # it takes seconds to import
    from editor.advice.advice import Advice

log = logging.getLogger(__name__)

START_SECONDS = 90
"""Longest wait for a worker or process to start, in addition to the time that a model may take."""
PAGE_SECONDS = 20
"""Longest wait for the page to be shown, before the worker of later jobs starts and takes a processor."""
_STOP_SECONDS = 0.3
"""Between looks whether a person ended a job."""
CALM_SECONDS = 10
"""Wait after that, in which people look and paint; a job that comes earlier starts the worker."""
_MAX_OPEN = 64
_MAX_OPEN_OPS = 500_000
"""Of all open documents together; one is kept whatever its size."""


def _longest() -> float:
    """Seconds after which nobody waits any longer for a model to be opened."""
    return limits.current().seconds + START_SECONDS


_FASTEST = {"objective": "latency"}
_NO_PROFILE = "These sizes have no profile: figures are estimates until Profile measures them."


class AppState:
    """Everything that callbacks share. Its methods block; callbacks call them in threads."""

    def __init__(
        self,
        store: Store,
        jobs: JobService,
        start: OpenRequest | None,
        examples: Path,
        head_start: ModelPreloader | None = None,
    ) -> None:
        """State of a server that has just started.

        Args:
            store: where documents are kept.
            jobs: for long work.
            start: what the command line named.
            examples: folder of the bundled models.
            head_start: reads what the command line named already.
        """
        self.store, self.jobs, self.start, self.examples = store, jobs, start, examples
        self._head_start = head_start
        self.benchmarks: dict[str, BenchmarkState] = {}
        self.phased: WeakKeyDictionary[Document, Phases] = WeakKeyDictionary()
        """Document -> what ``phases`` found last, to be used"""
        self.pages = Pages(store.last_sequence)
        self.uploads = Uploads(store.folder / "uploads")
        self.tasks = TaskRegistry()
        self.status = StatusService(store, self.tasks)
        self.long_work = LongWork()
        self._roots: tuple[Path, ...] | None = None
        self.devices = ""
        """What the start page proposes for a model; "": the devices of this machine."""
        self.server_name = socket.gethostname()
        """Tells this server from others that use the workspace."""
        self._open: OrderedDict[str, Document] = OrderedDict()
        self._greetings: dict[str, str] = {}
        self._origins: dict[str, str] = {}
        self._lock = threading.RLock()
        self._starting = threading.Lock()
        """Held while a measurement is submitted, which can take seconds; not ``_lock``, which edits need."""
        self._first: Future[Document] | None = None
        self._opening: set[Job] = set()
        self._shown = threading.Event()
        self._closing = threading.Event()

    def limit_paths(self, roots: Sequence[str]) -> None:
        """From now on pages open files below these folders only, and examples, uploads and what the command line named."""
        named = [Path(self.start.path).parent] if self.start is not None else []
        self._roots = tuple(
            path.resolve()
            for path in (*map(Path, roots), *named, self.examples, self.uploads.folder)
        )

    def check_path(self, path: Path) -> None:
        """Raises ``EditorError`` for a path that pages may not open."""
        if self._roots is not None and not any(
            path.resolve().is_relative_to(root) for root in self._roots
        ):
            raise EditorError(
                f"{path} is outside the folders that this server opens files from; upload the file, or start "
                "the server with --root"
            )

    def checked_path(self, request: OpenRequest) -> Path:
        """The path of a request, where pages may open it and its device table.

        Raises:
            EditorError: they may not, or it is not a path.
        """
        path = local_path(request.path)
        self.check_path(path)
        if isinstance(request.devices, str) and not is_by_names(request.devices):
            self.check_path(local_path(request.devices))
        return path

    def begin(self) -> None:
        """Starts the worker and opens what the command line named, while the page still loads; a set waits for its page."""
        if self.start is not None and not is_set(Path(self.start.path)):
            self._first = Future()
        threading.Thread(target=self._begin, args=(self._first,), daemon=True).start()

    def _begin(self, first: Future[Document] | None) -> None:
        try:
            if first is not None and self.start is not None:
                try:
                    read_offers()  # while a worker reads the model
                    if self._head_start and (found := self._head_start.machine(_longest()))[0]:
                        set_available_devices(*found)
                    document = self.open(self.start)
                    assumed = {
                        n: s for n, s in document.graph.define.items() if n not in self.start.define
                    }
                    if assumed and not self.start.path.endswith(".json"):
                        print(
                            f"sizes assumed: {sizes_text(assumed)}; --define and the page change them",
                            file=sys.stderr,
                        )
                    # The page asks for both at once; most of what they need is then remembered.
                    view_of(document)
                    shown_elements(document, first_detail(document.graph))
                    self.greet(document.id, self.start.greeting)
                    first.set_result(document)
                    self._head_start = None  # its work is done; otherwise the page asks once more, to say what is wrong
                    self._shown.wait(PAGE_SECONDS)
                    self._closing.wait(CALM_SECONDS)
                except Exception as error:  # noqa: BLE001  # who waits for the first document gets the error
                    first.set_exception(error)
            if not self._closing.is_set():
                self.jobs.run(tasks.warm_up)
        except Exception as error:  # noqa: BLE001  # a thread of its own: nobody else would see it
            log.log(logging.DEBUG if self._closing.is_set() else logging.WARNING, "%s", error)

    def page_shown(self) -> None:
        """A page has drawn its graph: from now on others may have the processors."""
        self._shown.set()

    def open_first(self) -> Document | None:
        """What the command line named; None where it named nothing.

        Raises:
            EditorError: as ``open`` does.
        """
        if self.start is None:
            return None
        first = self._first
        if first is None:
            return self.open(self.start)
        try:
            return self.document(first.result().id)
        except Exception:
            self._first = None  # the next request may find it mended
            raise

    @property
    def opening_first(self) -> bool:
        """What the command line named is being read."""
        first = self._first
        return first is not None and not first.done()

    def wait_first(self) -> Document | None:
        """The document of the command line once it is there; None when there will be none."""
        first = self._first
        try:
            return first.result(_longest()) if first is not None else None
        except Exception:  # noqa: BLE001  # the page will say what is wrong
            return None

    def open_document(self, path: str) -> Document | None:
        """The document that an address shows, if it is open already."""
        if path.startswith("/d/"):
            with self._lock:
                return self._open.get(path.removeprefix("/d/").rstrip("/"))
        return self.wait_first() if path == "/" and not self.opening_first else None

    def open(self, request: OpenRequest) -> Document:
        """Opens a model or plan; returns to the document of earlier work on it where there is one.

        Raises:
            EditorError: the input is at fault; ``UnboundSymbolError`` when sizes must be asked for,
                ``EarlierWorkError`` when the request says to ask and the earlier work was edited.
        """
        try:
            return self._opened(request)
        except EditorError:
            if self._first is None and request is not self.start:
                self._head_start = (
                    None  # the page says why it failed; the next request may find it mended
                )
            raise

    def _opened(self, request: OpenRequest) -> Document:
        path = self.checked_path(request)
        if path.suffix == ".json":
            return self.open_plan(path)
        devices = [dict(d.entry) for d in load_devices(request.devices)]
        graph = self.load(path, request.define, request.assume_sizes)
        known = self.store.find(str(graph.path), graph.sha256, graph.define, devices)
        if known is not None and (known.cursor == 0 or request.earlier == "continue"):
            return self.document(known.id)
        if known is not None and request.earlier == "ask":
            raise EarlierWorkError(known.id, known.updated)
        return self.create(graph, devices, Settings(), text_of_table(request.devices))

    def document(self, document_id: str) -> Document:
        """A document by its id, loaded again where needed.

        Raises:
            PlanError: there is none, or its model changed.
        """
        with self._lock:
            document = self._open.get(document_id)
            if document is not None:
                self._open.move_to_end(document_id)
                return document
        record = self.store.get(document_id)
        if record is None:
            raise PlanError("This document is not in the workspace any more.")
        graph = self.load(Path(record.model), record.define)
        if graph.sha256 != record.sha256:
            raise PlanError(
                f"{record.model} changed since this document was made. Open the file again to start a "
                "new document; this one keeps its history."
            )
        current = self.store.decisions(record.id, record.cursor)
        answers = self.ask(graph, current["devices"])
        return self._keep(Document(self.store, record, Solver(graph, current, answers)))

    def add_weights(self, document_id: str, upload: str) -> None:
        """Puts uploaded files of weights beside the model of a document that lacks them.

        Raises:
            EditorError: a file is none that it lacks, or pages may not write into its folder.
        """
        graph = self.document(document_id).graph
        uploaded = graph.folder.is_relative_to(self.uploads.folder.resolve())
        if self._roots is not None and not uploaded:
            raise EditorError(
                "pages of this server add no files there; put the file beside the model, or upload both together"
            )
        absent = [name for name, said in graph.missing.items() if name == said]
        self.uploads.deliver(upload, graph.folder, absent)
        with self._lock:  # devices are asked again, now with the weights
            self._open.pop(document_id, None)

    def with_sizes(
        self, document_id: str, define: Mapping[str, int], should_stop: Callable[[], bool] = bool
    ) -> Document:
        """The document of the same model with other sizes, with the same history and stored layouts.

        Where one with these sizes stands at these decisions, it is that one: a person who only looked at other sizes is back at
        the history that was there.

        Profiles hold for the sizes that were measured; without one of the new sizes, policies decide by estimates. Where no
        plan fits within memory, the document opens all the same, with the split that was there, by pins.

        Raises:
            EditorError: the model cannot have these sizes, or a pin does not fit.
            Cancelled: it was told to stop.
        """
        document = self.document(document_id)
        sizes = with_total(document.graph, {**document.graph.define, **define})
        graph = check_same(
            self.load(document.graph.path, sizes),
            document.graph.sha256,
        )
        if dict(graph.define) == dict(document.graph.define):
            return document
        source, lapsed = (
            best_source(graph, document.devices),
            document.history.newest_called(NO_ROOM),
        )
        settings = with_known_costs(wanted_settings(document), source)
        decisions = first_decisions(settings, [dict(d.entry) for d in document.devices])
        known = self.store.find_at(str(graph.path), graph.sha256, graph.define, decisions)
        if known is not None:
            return self.document(known.id)

        def adapted(kept: dict[str, Any]) -> dict[str, Any]:
            if kept["options"].get("costs") != "measured" or source == "measured":
                return kept
            return {**kept, "options": {**kept["options"], "costs": "estimate"}}

        no_room = ""
        try:
            solver = self._solved(graph, decisions, should_stop)
        except EditorError as error:
            if settings.policy != "memory":
                raise
            no_room = str(error)
            decisions |= {"policy": "optimal", "options": {**decisions["options"], **_FASTEST}}
            solver = self._solved(graph, decisions, should_stop)
            kept = pin_to_affinity(solver.solve(decisions), document.placement.affinity)
            decisions |= {"pins": dict(kept.settings.pins)}
        record = self.store.create_beside(document_id, graph.define, adapted, lapsed)
        if no_room:
            self.store.append(record.id, record.cursor, NO_ROOM, decisions, record.version)
            record = self.store.get(record.id) or record
            policy = policy_label("optimal", _FASTEST)
            said = (
                "No plan fits within memory at these sizes: the split is kept as it was, by pins, and the policy is "
                f"“{policy}” here.\n{no_room}"
            )
            self.greet(record.id, said)
        elif source != "measured" and costs_value(document) == "measured":
            self.greet(record.id, _NO_PROFILE)
        return self._keep(Document(self.store, record, solver))

    def at_sizes(
        self, document: Document, text: str, task: Task
    ) -> tuple[list[AtSizes], list[str]]:
        """The decisions of a document at several sizes, and the names of the dimensions.

        Raises:
            EditorError: the text is not of the form ``sequence=128,512``, or the model has no such dimension.
        """
        known = with_names(text, document.graph.define)
        wanted, load = parse_sizes(known), self.loader(document)

        def progress(done: int, total: int, sizes: str) -> None:
            task.step(done, total, f"Solving {sizes}")

        return at_sizes(document.placement, wanted, load, progress, task.should_stop), names_of(
            wanted
        )

    def phases(self, document: Document, lengths: Lengths, task: Task) -> Phases:
        """The prompt and the tokens of a document's model, each placed at their sizes.

        Raises:
            EditorError: the model keeps no state that grows.
        """
        found = place_phases(document.placement, lengths, self.loader(document), task.should_stop)
        self.phased[document] = found
        return found

    def advise(self, document: Document, task: Task) -> list[Advice]:
        """Tries other forms of the ops that fall back, in a job; the models that help are kept for ``open_advised``.

        Raises:
            Cancelled: a person ended it.
            EditorError: the model is not ONNX, or a runtime failed.
        """
        from editor.advice.advice import advise_job  # it takes seconds to import

        def follow(event: Mapping[str, Any]) -> None:
            with suppress(Cancelled):  # the loop below ends the job
                task.step(event["done"], event["total"], f"Trying: {event['text']}")

        folder = make_private(self._advised(document.id))
        recipe = Plan(document.placement).recipe()
        job = self.jobs.submit(advise_job, recipe, str(folder), on_event=follow)
        return cast("list[Advice]", result_unless_ended(job, task))

    def audit(
        self, document: Document, text: str, options: Mapping[str, Any], seconds: float, task: Task
    ) -> tuple[str, AuditReport]:
        """Audits a configuration with the model of a document, in a job; keeps the placement as a layout of the document.

        Args:
            document: whose model it is.
            text: the configuration, ``CUDA,CPU`` or ``HETERO:GPU,CPU``.
            options: session options of ONNX Runtime.
            seconds: to run the session for; 0: times are estimates.
            task: of the page that waits.

        Returns:
            the name of the layout, and what the configuration really runs.

        Raises:
            Cancelled: a person ended it.
            EditorError: the configuration is at fault, or the runtime refuses it.
        """
        graph = document.graph
        model = str(graph.path), graph.sha256, dict(graph.define)
        job = self.jobs.submit(audit_job, *model, text, dict(options), seconds)
        found = cast("AuditReport", result_unless_ended(job, task))
        return keep_audit(document, text, bool(options), found), found

    def advised_model(self, document_id: str, idea: str) -> Path:
        """The model that advice made of a document's.

        Raises:
            EditorError: there is none of this name.
        """
        folder = self._advised(document_id)
        for path in folder.glob("*.onnx") if folder.is_dir() else ():
            if path.stem.endswith(f"_{idea}"):
                return path
        raise EditorError("This model is not there any more: try other forms again.")

    def open_advised(self, document_id: str, idea: str) -> Document:
        """A document of the model that advice made, with the decisions of its origin; pins of ops that it lacks are left out.

        Raises:
            EditorError: the model is gone, or the decisions do not fit it.
        """
        document = self.document(document_id)
        graph = self.load(self.advised_model(document_id, idea), document.graph.define)
        settings = document.placement.settings
        pins = {key: label for key, label in settings.pins.items() if key in graph.key_index}
        settings = with_known_costs(
            replace(settings, pins=pins, forced=settings.forced & pins.keys()),
            best_source(graph, document.devices),
        )
        entries = [dict(d.entry) for d in document.devices]
        return self.create(graph, entries, settings, document.devices_text)

    def greet(self, document_id: str, text: str, origin: Document | None = None) -> None:
        """Keeps what the next page of a document says when it opens, and at which sizes a person was before."""
        self._greetings[document_id] = text
        if origin is not None:
            self._origins[document_id] = origin.id

    def greeting(self, document_id: str) -> str:
        """What the page of a document says when it opens, once; "" for nothing."""
        return self._greetings.pop(document_id, "")

    def origin(self, document_id: str) -> Record | None:
        """The document at the sizes from which a person comes to this one, once."""
        return self.store.get(self._origins.pop(document_id, ""))

    def _advised(self, document_id: str) -> Path:
        return self.uploads.folder / f"{document_id}-advice"

    def loader(self, document: Document) -> Load:
        """Reads a document's model at other sizes, and asks what its devices can run of it."""

        def load(define: Mapping[str, int]) -> tuple[Graph, list[Capability]]:
            graph = check_same(self.load(document.graph.path, define), document.graph.sha256)
            answers = self.ask(graph, [dict(d.entry) for d in document.devices])
            return graph, [answers[d.name] for d in document.devices]

        return load

    def close(self) -> None:
        """Ends all jobs."""
        self._closing.set()
        self._shown.set()
        if self._head_start is not None:
            self._head_start.cancel()
        self.jobs.close()

    def job_options(self, document: Document) -> JobOptions:
        """What was chosen for the last measurement of a document; else what its sizes say of tokens."""
        phases = self.phased.get(document)
        placed = phases.lengths if phases else None
        return next_options(document.placement, self.benchmarks.get(document.id), placed)

    def start_job(self, document: Document, kind: str, options: JobOptions) -> BenchmarkState:
        """Starts measuring the current plan of a document.

        Args:
            document: what to measure.
            kind: ``benchmark``, ``profile``, ``tune``, ``tokens`` or ``accuracy``.
            options: for how long, and what.

        Raises:
            EditorError: a measurement of the document is running.
        """
        with self._starting:
            running = self.benchmarks.get(document.id)
            if running is not None and not running.job.done:
                raise EditorError(
                    f"A {running.called} of this document is running, perhaps in another tab. Wait for it, or "
                    "cancel it."
                )
            plan = document.plan
            if kind == "tokens":
                plan = plan_in_use(document, self.phased.get(document))
            recipe, devices = plan.recipe(), tuple(s.device for s in plan.subgraphs)
            if kind == "profile":
                job = self.jobs.submit(tasks.profile, recipe, options.seconds)
            elif kind == "accuracy":
                job = self.jobs.submit(tasks.accuracy, recipe)
            elif kind == "tokens":
                lengths = options.prompt, options.new
                job = self.jobs.submit(tasks.generate, recipe, document.title, *lengths, {})
            elif kind == "tune":
                job = self.jobs.submit(
                    tasks.tune, recipe, options.seconds, options.mode, options.requests
                )
            else:
                job = self.jobs.submit(
                    tasks.benchmark,
                    {document.title: recipe},
                    options.seconds,
                    options.mode,
                    options.requests,
                    0,
                    None,
                    options.memory,
                    "tell",
                )
            previous = running if running is None or running.has_result else running.previous
            if previous is not None and previous.kind != "profile":
                previous.previous = None
            elif previous is not None and kind == "profile":
                previous = previous.previous or previous
            benchmark = BenchmarkState(
                job,
                plan,
                devices,
                kind,
                layout=document.layout_name,
                step=document.history.current.number,
                options=options,
                previous=previous,
            )
            self.benchmarks[document.id] = benchmark
            return benchmark

    def calibrate(self, document: Document) -> str:
        """Corrects the profiles of the devices by the last benchmark of a document; says what they predict now.

        Raises:
            EditorError: there is no finished benchmark, or it cannot correct profiles.
        """
        benchmark = self.benchmarks.get(document.id)
        if benchmark is None or benchmark.kind != "benchmark" or not benchmark.job.done:
            raise EditorError("there is no finished benchmark to calibrate by: press Start first")
        result = benchmark.job.result(0)[0]
        placement = benchmark.plan.placement
        corrected = correct_profiles(placement, result)
        predicted = placement.price(costs_of(placement.graph, placement.devices, "measured")).total
        return (
            f"Profiles of {', '.join(corrected)} corrected by this run: the plan measured at "
            f"{human_seconds(result.total.median)} is now predicted at {human_seconds(predicted)}."
        )

    def cancel_opening(self) -> None:
        """Stops whatever is being opened; those who wait for it get a ``JobError``."""
        if (head_start := self._head_start) is not None:
            head_start.cancel()
        for job in list(self._opening):
            job.cancel()

    def _wait(self, what: str, function: Callable[..., Any], model: str, *arguments: Any) -> Any:
        """Runs a job of opening a model under its limits; ``cancel_opening`` can end it."""
        job = self.jobs.submit(
            function,
            model,
            *arguments,
            time_limit=_longest(),
            section=section_of(what, Path(model)),
        )
        self._opening.add(job)
        try:
            return job.result()
        finally:
            self._opening.discard(job)

    def open_plan(self, path: Path) -> Document:
        """A new document of a plan in a file.

        Raises:
            EditorError: the file or its model cannot be read.
        """
        document = plan_file.read(path)
        if not is_utf8(json.dumps(document, ensure_ascii=False)):
            raise PlanError(
                f"{path}: a name in it, perhaps of its model, is not UTF-8; use the command line"
            )
        self.check_path(plan_file.model_path(document, path))
        graph, devices, settings = plan_file.parts(document, path)
        settings = with_costs_of_here(graph, devices, settings, path)
        entries = [dict(d.entry) for d in devices]
        answers = self.ask(graph, entries)
        solved = solve(graph, devices, settings, [answers[d.name] for d in devices])
        # A document stores decisions: where they lead elsewhere here, pins keep the placement of the file.
        kept = pin_to_affinity(
            solved, {key: str(name) for key, name in document["affinities"].items()}
        )
        return self.create(graph, entries, kept.settings)

    def create(
        self,
        graph: Graph,
        devices: list[dict[str, Any]],
        settings: Settings,
        devices_text: str = "",
        should_stop: Callable[[], bool] = bool,
    ) -> Document:
        """A new document.

        Raises:
            EditorError: the settings have no solution.
            Cancelled: it was told to stop.
        """
        solver = self._solved(graph, first_decisions(settings, devices), should_stop)
        record = self.store.create(
            title_of(graph.path),
            str(graph.path),
            graph.sha256,
            graph.define,
            first_decisions(settings, devices, devices_text),
        )
        return self._keep(Document(self.store, record, solver))

    def _solved(
        self, graph: Graph, decisions: dict[str, Any], should_stop: Callable[[], bool]
    ) -> Solver:
        """A solver that has solved the decisions, which fails before anything is stored."""
        solver = Solver(graph, decisions, self.ask(graph, decisions["devices"]))
        try:
            solver.solve(decisions, should_stop)
        except EditorError:
            if not should_stop():
                raise
        if should_stop():
            raise Cancelled
        return solver

    def load(self, path: Path, define: Mapping[str, int], assume_sizes: bool = False) -> Graph:
        """A model, read in a job.

        Raises:
            EditorError: it cannot be read; ``UnboundSymbolError`` where sizes must be asked for.
        """
        if not str(path).strip() or str(path) == ".":
            raise ModelError("Name a model file first.")
        _check_utf8(str(path))
        asked = (str(path.absolute()), dict(define))
        early = self._head_start
        graph = early.graph(*asked, _longest()) if early is not None else None
        if graph is None:
            graph = self._wait(READING, tasks.load_graph, *asked)
        assert graph is not None
        if graph.unbound and assume_sizes:
            return self.load(path, {**define, **proposed_sizes(graph)})
        if graph.unbound:
            raise UnboundSymbolError(
                f"The inputs of {graph.path.name} have sizes that are chosen at run time: "
                f"{', '.join(graph.unbound)}.",
                graph.unbound,
                proposed_sizes(graph),
            )
        return graph

    def ask(self, graph: Graph, devices: Spec) -> dict[str, Capability]:
        """Name of a device -> the ops that it can run, asked in a job."""
        table = load_devices(devices)
        entries = [dict(d.entry) for d in table]
        early = self._head_start
        if (
            early is not None
        ):  # while the devices are asked: what the page needs of the graph, and then remembers
            first_detail(graph)
            op_flops(graph)
        answers = early.capabilities(graph, entries, _longest()) if early is not None else None
        if answers is None:
            answers = self._wait(
                "asking the devices about",
                tasks.ask_capabilities,
                str(graph.path),
                graph.sha256,
                dict(graph.define),
                entries,
            )
        return {d.name: a for d, a in zip(table, answers, strict=True)}

    def _keep(self, document: Document) -> Document:
        with self._lock:
            document = self._open.setdefault(document.id, document)
            while len(self._open) > 1 and (
                len(self._open) > _MAX_OPEN
                or sum(len(each.graph) for each in self._open.values()) > _MAX_OPEN_OPS
            ):
                self._open.popitem(last=False)
            for closed in [
                i for i, b in self.benchmarks.items() if i not in self._open and b.job.done
            ]:
                del self.benchmarks[closed]  # its plan keeps the model in memory
            return document


def result_unless_ended(job: Job, task: Task) -> Any:
    """The result of a job that a page waits for; a person may end its task."""
    while True:
        if task.should_stop():
            job.cancel(Cancelled())
        with suppress(TimeoutError):
            return job.result(_STOP_SECONDS)


def _check_utf8(path: str) -> None:
    """Raises ``ModelError`` for a path that the page, the database and the jobs could not name."""
    if not is_utf8(path):
        raise ModelError(
            f"{path}: the name of the file or of a folder is not UTF-8; rename it, or use the command line"
        )


def local_path(text: str) -> Path:
    """A path that a person typed.

    Raises:
        ModelError: no file can have it.
    """
    try:
        if "\0" in text:
            raise ValueError("a path has no NUL")
        _check_utf8(text)
        if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":  # as file managers copy it
            text = text[1:-1]
        return Path(text).expanduser()
    except (ValueError, RuntimeError) as error:
        raise ModelError(f"{text!r} is not a path: {error}") from error
