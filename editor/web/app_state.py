"""State of the server: open documents, jobs, and the way from a file to a document."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from editor.devices.discovery import set_available_devices
from editor.devices.table import Spec, load_devices
from editor.errors import ModelError, PlanError, UnboundSymbolError
from editor.execution.jobs import tasks
from editor.execution.jobs.preload import ModelPreloader
from editor.execution.jobs.service import Job, JobService
from editor.graph.flops import op_flops
from editor.graph.graph import Graph
from editor.placement.placement import Settings, solve
from editor.runtimes.base import Capability
from editor.web.drawing.collapsed import first_detail, shown_elements
from editor.web.open_request import OpenRequest
from editor.web.stroke_order import Pages
from editor.web.view import view_of
from editor.workspace import plan_file
from editor.workspace.document import Document, first_decisions
from editor.workspace.history import Revision, Store

log = logging.getLogger(__name__)

OPEN_SECONDS = 120
"""Longest time that reading a model or asking the runtimes may take."""
PAGE_SECONDS = 20
"""Longest wait for the page to be shown, before the worker of later jobs starts and takes a processor."""
_MAX_OPEN = 12


@dataclass
class BenchmarkState:
    """The benchmark of one document: running or finished."""

    job: Job
    version: int
    """Of the document when it was started."""
    devices: tuple[str, ...]
    """Of the subgraphs that are measured, by id."""
    kind: str = "benchmark"
    """``benchmark``, ``profile`` or ``tune``"""
    adopted: bool = False
    """The fastest plan of a tuning has become the document's."""
    kept: bool = False
    """It is in the document's list of benchmarks."""
    layout: str = ""
    """What the plan is called: the last step of its history."""


class AppState:
    """Everything that callbacks share. Its methods block; callbacks call them in threads."""

    def __init__(self, store: Store, jobs: JobService, start: OpenRequest | None, examples: Path,
                 head_start: ModelPreloader | None = None) -> None:
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
        self.pages = Pages()
        self._open: OrderedDict[str, Document] = OrderedDict()
        self._lock = threading.RLock()
        self._starting = threading.Lock()
        """Held while a measurement is submitted, which can take seconds; not ``_lock``, which strokes need."""
        self._first: Future[Document] | None = None
        self._opening: set[Job] = set()
        self._shown = threading.Event()
        self._closed = False

    def begin(self) -> None:
        """Starts the worker and opens what the command line named, while the page still loads."""
        if self.start is not None:
            self._first = Future()
        threading.Thread(target=self._begin, args=(self._first,), daemon=True).start()

    def _begin(self, first: Future[Document] | None) -> None:
        try:
            if first is not None and self.start is not None:
                try:
                    if self._head_start is not None and (machine := self._head_start.available_devices(OPEN_SECONDS)):
                        set_available_devices(machine)
                    document = self.open(self.start)
                    view_of(document)  # the page asks for both at once; most of what they need is then remembered
                    shown_elements(document, first_detail(document.graph))
                    first.set_result(document)
                    self._head_start = None  # its work is done; otherwise the page asks once more, to say what is wrong
                    self._shown.wait(PAGE_SECONDS)
                except Exception as error:  # noqa: BLE001  # whoever waits for the first document gets the error
                    first.set_exception(error)
            if not self._closed:
                self.jobs.run(tasks.warm_up)
        except Exception as error:  # noqa: BLE001  # a thread of its own: nobody else would see it
            log.log(logging.DEBUG if self._closed else logging.WARNING, "%s", error)

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
        first, self._first = self._first, None
        return self.open(self.start) if first is None else first.result()

    @property
    def opening_first(self) -> bool:
        """What the command line named is being read."""
        first = self._first
        return first is not None and not first.done()

    def wait_first(self) -> Document | None:
        """The document of the command line once it is there; None when there will be none."""
        first = self._first
        try:
            return first.result(OPEN_SECONDS) if first is not None else None
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
            EditorError: the input is at fault; ``UnboundSymbolError`` when sizes must be asked for.
        """
        path = Path(request.path).expanduser()
        if path.suffix == ".json":
            return self._open_plan(path)
        devices = [dict(d.entry) for d in load_devices(request.devices)]
        graph = self._load(path, request.define)
        known = self.store.find(str(graph.path), graph.sha256, graph.define, devices)
        if known is not None:
            return self.document(known.id)
        return self._create(graph, devices, Settings())

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
        graph = self._load(Path(record.model), record.define)
        if graph.sha256 != record.sha256:
            raise PlanError(f"{record.model} changed since this document was made. Open the file again to start a "
                            "new document; this one keeps its history.")
        current = self.store.history(record.id)[record.cursor].decisions
        answers = self._ask(graph, current["devices"])
        return self._keep(Document(self.store, record, graph, answers))

    def close(self) -> None:
        """Ends all jobs."""
        self._closed = True
        self._shown.set()
        if self._head_start is not None:
            self._head_start.cancel()
        self.jobs.close()

    def start_job(self, document: Document, kind: str, seconds: float, mode: str, requests: int) -> BenchmarkState:
        """Starts measuring the current plan of a document; a running measurement of it is cancelled.

        Args:
            document: what to measure.
            kind: ``benchmark``, ``profile`` or ``tune``.
            seconds: for the benchmark or the tuning in all, for the profile per device.
            mode: ``latency`` or ``throughput``.
            requests: in flight.
        """
        with self._starting:
            running = self.benchmarks.get(document.id)
            if running is not None and not running.job.done:
                running.job.cancel()
            # The version first: a stroke that comes in between then only makes the result look out of date.
            version, layout, plan = document.version, document.layout_name, document.plan
            recipe, devices = plan.recipe(), tuple(s.device for s in plan.subgraphs)
            if kind == "profile":
                job = self.jobs.submit(tasks.profile, recipe, seconds)
            elif kind == "tune":
                job = self.jobs.submit(tasks.tune, recipe, seconds, mode, requests)
            else:
                job = self.jobs.submit(tasks.benchmark, {document.title: recipe}, seconds, mode, requests)
            benchmark = BenchmarkState(job, version, devices, kind, layout=layout)
            self.benchmarks[document.id] = benchmark
            return benchmark

    def cancel_opening(self) -> None:
        """Stops whatever is being opened; those who wait for it get a ``JobError``."""
        if (head_start := self._head_start) is not None:
            head_start.cancel()
        for job in list(self._opening):
            job.cancel()

    def _wait(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Runs a job of opening, which ``cancel_opening`` can end."""
        job = self.jobs.submit(function, *arguments, time_limit=OPEN_SECONDS)
        self._opening.add(job)
        try:
            return job.result()
        finally:
            self._opening.discard(job)

    def _open_plan(self, path: Path) -> Document:
        document = plan_file.read(path)
        graph, devices, settings = plan_file.parts(document, path)
        return self._create(graph, [dict(d.entry) for d in devices], settings)

    def _create(self, graph: Graph, devices: list[dict[str, Any]], settings: Settings) -> Document:
        answers = self._ask(graph, devices)
        table = load_devices(devices)
        solve(graph, table, settings, [answers[d.name] for d in table])  # fails before anything is stored
        first = Revision("open", first_decisions(settings, devices))
        record = self.store.create(graph.path.name, str(graph.path), graph.sha256, graph.define, first)
        return self._keep(Document(self.store, record, graph, answers))

    def _load(self, path: Path, define: Mapping[str, int]) -> Graph:
        if not str(path).strip() or str(path) == ".":
            raise ModelError("Name an .onnx file first.")
        asked = (str(path.absolute()), dict(define))
        early = self._head_start
        graph = early.graph(*asked, OPEN_SECONDS) if early is not None else None
        if graph is None:
            graph = self._wait(tasks.load_graph, *asked)
        assert graph is not None
        if graph.unbound:
            raise UnboundSymbolError(f"The inputs of {graph.path.name} have sizes that are chosen at run time: "
                                     f"{', '.join(graph.unbound)}.", graph.unbound)
        return graph

    def _ask(self, graph: Graph, devices: Spec) -> dict[str, Capability]:
        table = load_devices(devices)
        entries = [dict(d.entry) for d in table]
        early = self._head_start
        if early is not None:  # while the devices are asked: what the page needs of the graph, and then remembers
            first_detail(graph)
            op_flops(graph)
        answers = early.capabilities(graph, entries, OPEN_SECONDS) if early is not None else None
        if answers is None:
            answers = self._wait(tasks.ask_capabilities, str(graph.path), dict(graph.define), entries)
        return {d.name: a for d, a in zip(table, answers, strict=True)}

    def _keep(self, document: Document) -> Document:
        with self._lock:
            document = self._open.setdefault(document.id, document)
            while len(self._open) > _MAX_OPEN:
                self._open.popitem(last=False)
            return document


__all__ = ["AppState", "BenchmarkState", "OpenRequest"]
