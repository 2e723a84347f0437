"""The history of documents: revisions, branches and layouts."""

from __future__ import annotations

import json
import uuid
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from editor.errors import EditorError, WorkspaceError
from editor.workspace.database import (
    Database,
    accuracies,
    changes,
    documents,
    layouts,
    revisions,
    runs,
    set_models,
    sets,
)
from editor.workspace.folders import Author, current_author


class HistoryTree:
    """Steps, the current one, and the branch that it is on. Immutable."""

    def __init__(self, steps: Sequence[Step], cursor: int, tip: int) -> None:
        """A tree.

        Args:
            steps: by number, from 0.
            cursor: number of the current step.
            tip: last step of the current branch.
        """
        self.steps, self.cursor, self.tip = list(steps), cursor, tip
        self.branch = self._path(tip)
        """Numbers of the steps from the first to the tip."""

    @property
    def current(self) -> Step:
        """The step that the plan shows."""
        return self.steps[self.cursor]

    @property
    def undo_target(self) -> int | None:
        """The step that undo goes to."""
        return self.current.parent

    @property
    def redo_target(self) -> int | None:
        """The step that redo goes to."""
        place = self.branch.index(self.cursor) + 1
        return self.branch[place] if place < len(self.branch) else None

    def newest_called(self, label: str) -> Step | None:
        """The present step, where it is the newest one and was made under this label."""
        now = self.current
        return now if now.label == label and now.number == len(self.steps) - 1 else None

    def moved(self, number: int) -> HistoryTree:
        """The tree with another current step; a step of another branch brings that branch's latest end with it."""
        return HistoryTree(
            self.steps, number, self.tip if number in self.branch else self._latest_end(number)
        )

    def grown(self, step: Step) -> HistoryTree:
        """The tree with one step more, which is the current one."""
        return HistoryTree([*self.steps, step], step.number, step.number)

    def words(self, number: int) -> str:
        """Names the way from the current step to another."""
        if number == self.undo_target:
            return f"undo {self.current.label}"
        label = self.steps[number].label
        return f"redo {label}" if number == self.redo_target else f"go to step {number}: {label}"

    def _path(self, number: int) -> list[int]:
        path = [number]
        while (parent := self.steps[path[-1]].parent) is not None:
            path.append(parent)
        return path[::-1]

    def _latest_end(self, number: int) -> int:
        """The newest step below a step, or itself; a child has a greater number than its parent."""
        below = {number}
        for step in self.steps[number + 1 :]:
            if step.parent in below:
                below.add(step.number)
        return max(below)


_CHANGES_KEPT = 1000


@dataclass(frozen=True)
class Record:
    """The summary of a document."""

    id: str
    title: str
    model: str
    sha256: str
    define: dict[str, int]
    cursor: int
    updated: str
    version: int
    """Increases with every change of the history by any writer."""
    tip: int
    """Last revision of the branch that ``cursor`` is on."""


@dataclass(frozen=True)
class Step:
    """A revision in the tree of a history, without its decisions."""

    number: int
    parent: int | None
    label: str
    author: str
    """The name of the writer, for people; "" outside the page."""


@dataclass(frozen=True)
class Change:
    """The change that made a version of a document."""

    version: int
    author: Author
    what: str


@dataclass(frozen=True)
class Run:
    """One stored benchmark or accuracy."""

    when: str
    figures: dict[str, Any]
    """Of a benchmark, seconds: median, p99, baselines by device; and layout, subgraphs, throughput, estimated."""

    @property
    def disturbances(self) -> list[str]:
        """What disturbed it, in words; empty on a quiet machine."""
        own, report = self.figures.get("disturbances"), self.figures.get("report", {})
        return list(own or report.get("disturbances") or ())


@dataclass(frozen=True)
class SetModel:
    """A model of a set."""

    name: str
    document: str
    """Id of its document"""
    runs: float
    """Runs for one answer"""
    source: str
    """Of ``runs``: given or assumed"""


@dataclass(frozen=True)
class SetRecord:
    """A set of models on one device table."""

    id: str
    title: str
    origin: str
    devices: list[dict[str, Any]]
    updated: str
    models: tuple[SetModel, ...]


class StaleDocumentError(EditorError):
    """Another writer has changed the document since it was read."""


_MOST_RUNS = 30
"""Benchmarks of a document that are read"""
_MOST_KNOWN = 16
"""Documents whose benchmarks are remembered"""


class Store:
    """All documents of one workspace. Every method raises ``WorkspaceError`` when the database does not answer."""

    def __init__(self, place: str | None = None) -> None:
        """Opens a workspace.

        Args:
            place: a folder, or the URL of a database as SQLAlchemy writes it; default: the user's data folder.

        Raises:
            EditorError: it cannot be opened.
        """
        self._database = Database(place)
        # Each figure of the page asks for them; reading thirty takes 2 ms.
        self._runs_until = lru_cache(_MOST_KNOWN)(self._read_runs)
        self.folder = self._database.folder

    def create(
        self,
        title: str,
        model: str,
        sha256: str,
        define: Mapping[str, int],
        decisions: Mapping[str, Any],
    ) -> Record:
        """A new document with one revision."""
        record = Record(uuid.uuid4().hex[:12], title, model, sha256, dict(define), 0, _now(), 0, 0)
        with self._database.write() as db:
            db.execute(documents.insert().values(**vars(record)))
            db.execute(
                revisions.insert().values(
                    document=record.id,
                    number=0,
                    parent=None,
                    label="open",
                    author=current_author().name,
                    decisions=_pack(decisions),
                )
            )
        return record

    def create_beside(
        self,
        document: str,
        define: Mapping[str, int],
        adapted: Callable[[dict[str, Any]], Mapping[str, Any]],
        without: Step | None = None,
    ) -> Record:
        """A new document of the model of another one, at other sizes, with its history and kept layouts.

        Args:
            document: the other one.
            define: sizes.
            adapted: makes decisions of the other one those of the new one.
            without: the other one's present and last step, where that is about its sizes alone.

        Raises:
            WorkspaceError: the other document was removed.
        """
        origin = self.get(document)
        if origin is None:
            raise WorkspaceError("The document is not in the workspace any more.")
        identity = uuid.uuid4().hex[:12]
        record = replace(origin, id=identity, define=dict(define), updated=_now(), version=0)
        left_out = None
        if without is not None and without.parent is not None:
            left_out = without.number
            record = replace(record, cursor=without.parent, tip=without.parent)
        with self._database.write() as db:
            db.execute(documents.insert().values(**vars(record)))
            for table in (revisions, layouts):
                for row in db.execute(sa.select(table).where(table.c.document == document)).all():
                    if table is revisions and row.number == left_out:
                        continue
                    kept = _unpack(row.decisions, f"the history of document {document}")
                    own = {"document": record.id, "decisions": _pack(adapted(kept))}
                    db.execute(table.insert().values(**{**row._mapping, **own}))
        return record

    def get(self, document: str) -> Record | None:
        """The record of a document; None when it does not exist."""
        with self._database.read() as db:
            row = db.execute(sa.select(documents).where(documents.c.id == document)).first()
        return Record(**row._mapping) if row else None

    def version(self, document: str) -> int | None:
        """The version of a document; None when it does not exist."""
        with self._database.read() as db:
            return db.execute(
                sa.select(documents.c.version).where(documents.c.id == document)
            ).scalar()

    def recent(self, limit: int | None = 8) -> list[Record]:
        """The most recently used documents, or with None all, the latest first."""
        with self._database.read() as db:
            rows = db.execute(
                sa.select(documents).order_by(documents.c.updated.desc()).limit(limit)
            )
            return [Record(**row._mapping) for row in rows]

    def remove(self, document: str) -> None:
        """Removes a document with its history, layouts and benchmarks, and takes it out of sets; an empty set goes."""
        with self._database.write() as db:
            db.execute(set_models.delete().where(set_models.c.document == document))
            db.execute(sets.delete().where(sets.c.id.not_in(sa.select(set_models.c.set))))
            for table in (changes, revisions, layouts, runs, accuracies):
                db.execute(table.delete().where(table.c.document == document))
            db.execute(documents.delete().where(documents.c.id == document))

    def find(
        self, model: str, sha256: str, define: Mapping[str, int], devices: list[dict[str, Any]]
    ) -> Record | None:
        """The latest document of a model that was opened with the same device table."""
        table = json.loads(json.dumps(devices))
        return next(
            (
                record
                for record in self._of_model(model, sha256)
                if record.define == dict(define)
                and self.decisions(record.id, 0)["devices"] == table
            ),
            None,
        )

    def find_at(
        self, model: str, sha256: str, define: Mapping[str, int], decisions: Mapping[str, Any]
    ) -> Record | None:
        """The latest document of a model whose present step has these decisions."""
        wanted = json.loads(json.dumps(decisions))

        def stands(record: Record) -> bool:
            now = self.decisions(record.id, record.cursor)
            return record.define == dict(define) and {key: now.get(key) for key in wanted} == wanted

        return next(filter(stands, self._of_model(model, sha256)), None)

    def at_other_sizes(
        self, model: str, sha256: str, define: Mapping[str, int], limit: int = 3
    ) -> list[Record]:
        """The latest document of a model for each of its other sizes, the latest sizes first."""
        found: dict[str, Record] = {}
        for record in self._of_model(model, sha256):
            if record.define != dict(define):
                found.setdefault(json.dumps(record.define, sort_keys=True), record)
        return list(found.values())[:limit]

    def _of_model(self, model: str, sha256: str) -> list[Record]:
        """The latest documents of a model, the latest first."""
        with self._database.read() as db:
            rows = db.execute(
                sa.select(documents)
                .where(documents.c.model == model, documents.c.sha256 == sha256)
                .order_by(documents.c.updated.desc())
                .limit(20)
            ).all()
        return [Record(**row._mapping) for row in rows]

    def steps(self, document: str, after: int = -1) -> list[Step]:
        """All revisions of a document whose number is above ``after``, in the order in which they were made."""
        with self._database.read() as db:
            rows = db.execute(
                sa.select(
                    revisions.c.number, revisions.c.parent, revisions.c.label, revisions.c.author
                )
                .where(revisions.c.document == document, revisions.c.number > after)
                .order_by(revisions.c.number)
            )
            return [Step(**row._mapping) for row in rows]

    def decisions(self, document: str, number: int) -> dict[str, Any]:
        """All decisions after a revision.

        Raises:
            WorkspaceError: there is no such revision, or what is stored is damaged.
        """
        with self._database.read() as db:
            blob = db.execute(
                sa.select(revisions.c.decisions).where(
                    revisions.c.document == document, revisions.c.number == number
                )
            ).scalar()
        if blob is None:
            raise WorkspaceError(f"Step {number} of this document is not in the workspace.")
        return _unpack(blob, f"step {number} of document {document}")

    def append(
        self, document: str, parent: int, label: str, decisions: Mapping[str, Any], version: int
    ) -> Step:
        """Adds a revision and makes it current; the document's version becomes ``version + 1``.

        Args:
            document: its id.
            parent: number of the revision that was changed.
            label: what was done.
            decisions: all, after it.
            version: of the document that the revision was made from.

        Raises:
            StaleDocumentError: another writer changed the document since; nothing is written.
        """
        author = current_author()
        with self._database.write() as db:
            _advance(db, document, version, label)
            number = (
                db.execute(
                    sa.select(sa.func.max(revisions.c.number)).where(
                        revisions.c.document == document
                    )
                ).scalar_one()
                + 1
            )
            step = Step(number, parent, label, author.name)
            db.execute(
                documents.update()
                .where(documents.c.id == document)
                .values(cursor=number, tip=number)
            )
            db.execute(
                revisions.insert().values(
                    document=document, decisions=_pack(decisions), **vars(step)
                )
            )
        return step

    def move(self, document: str, number: int, tip: int, what: str, version: int) -> None:
        """Makes another revision current (undo, redo); the document's version becomes ``version + 1``.

        Args:
            document: its id.
            number: of the revision.
            tip: last revision of the branch to be on.
            what: was done, in words.
            version: of the document that was looked at.

        Raises:
            StaleDocumentError: as for ``append``.
        """
        with self._database.write() as db:
            _advance(db, document, version, what)
            db.execute(
                documents.update().where(documents.c.id == document).values(cursor=number, tip=tip)
            )

    def changes(self, document: str, after: int) -> list[Change]:
        """Returns the changes that made a document's versions after ``after``, oldest first; the oldest are forgotten."""
        with self._database.read() as db:
            rows = db.execute(
                sa.select(changes)
                .where(changes.c.document == document, changes.c.version > after)
                .order_by(changes.c.version)
            )
            return [
                Change(row.version, Author(row.page, row.sequence, row.name, row.server), row.what)
                for row in rows
            ]

    def last_sequence(self, page: str) -> int:
        """Number of the last stroke of a page that changed something; 0 where there is none."""
        with self._database.read() as db:
            return (
                db.execute(
                    sa.select(sa.func.max(changes.c.sequence)).where(changes.c.page == page)
                ).scalar()
                or 0
            )

    def keep_layout(self, document: str, name: str, decisions: Mapping[str, Any] | None) -> None:
        """Stores decisions under a name, replacing earlier ones; None deletes them."""
        with self._database.write() as db:
            db.execute(
                layouts.delete().where(layouts.c.document == document, layouts.c.name == name)
            )
            if decisions is not None:
                db.execute(
                    layouts.insert().values(
                        document=document, name=name, decisions=_pack(decisions)
                    )
                )

    def layouts(self, document: str) -> dict[str, dict[str, Any]]:
        """Name -> stored decisions, sorted by name."""
        with self._database.read() as db:
            rows = db.execute(
                sa.select(layouts.c.name, layouts.c.decisions)
                .where(layouts.c.document == document)
                .order_by(layouts.c.name)
            ).all()
        return {row.name: _unpack(row.decisions, f"layout {row.name!r}") for row in rows}

    def keep_run(self, document: str, figures: Mapping[str, Any]) -> None:
        """Stores a benchmark of a document."""
        with self._database.write() as db:
            db.execute(runs.insert().values(document=document, when=_now(), figures=dict(figures)))

    def runs(self, document: str) -> tuple[Run, ...]:
        """The last benchmarks of a document, newest first; do not change their figures."""
        newest = sa.select(sa.func.max(runs.c.number)).where(runs.c.document == document)
        with self._database.read() as db:
            number = db.execute(newest).scalar()
        return self._runs_until(document, number) if number is not None else ()

    def _read_runs(self, document: str, number: int) -> tuple[Run, ...]:
        with self._database.read() as db:
            rows = db.execute(
                sa.select(runs.c.when, runs.c.figures)
                .where(runs.c.document == document, runs.c.number <= number)
                .order_by(runs.c.number.desc())
                .limit(_MOST_RUNS)
            ).all()
        return tuple(Run(row.when, row.figures) for row in rows)

    def keep_accuracy(self, document: str, plan: str, figures: Mapping[str, Any]) -> None:
        """Stores the accuracy of a plan, by its fingerprint, in place of an earlier one."""
        same = (accuracies.c.document == document) & (accuracies.c.plan == plan)
        with self._database.write() as db:
            db.execute(accuracies.delete().where(same))
            db.execute(
                accuracies.insert().values(
                    document=document, plan=plan, when=_now(), figures=_pack(figures)
                )
            )

    def accuracy(self, document: str, plan: str = "") -> Run | None:
        """The accuracy of a plan; default: the newest of any plan of the document."""
        found = sa.select(accuracies.c.when, accuracies.c.figures).where(
            accuracies.c.document == document
        )
        if plan:
            found = found.where(accuracies.c.plan == plan)
        with self._database.read() as db:
            row = db.execute(found.order_by(accuracies.c.when.desc()).limit(1)).first()
        return Run(row.when, _unpack(row.figures, "an accuracy")) if row else None

    def create_set(
        self,
        title: str,
        origin: str,
        devices: Sequence[Mapping[str, Any]],
        models: Sequence[SetModel],
    ) -> SetRecord:
        """A new set of documents."""
        table = [dict(entry) for entry in devices]
        made = SetRecord(uuid.uuid4().hex[:12], title, origin, table, _now(), tuple(models))
        values = {key: value for key, value in vars(made).items() if key != "models"}
        with self._database.write() as db:
            db.execute(sets.insert().values(**values))
            for position, model in enumerate(models):
                db.execute(
                    set_models.insert().values(set=made.id, position=position, **vars(model))
                )
        return made

    def get_set(self, identity: str) -> SetRecord | None:
        """A set by its id; None when it does not exist."""
        return next(iter(self._sets(sets.c.id == identity)), None)

    def find_set(self, origin: str) -> SetRecord | None:
        """The latest set that was made of the same; None where there is none."""
        return next(iter(self._sets(sets.c.origin == origin)), None)

    def set_of(self, document: str) -> SetRecord | None:
        """The set that a document is a model of; None where it is in none."""
        mine = sa.select(set_models.c.set).where(set_models.c.document == document)
        return next(iter(self._sets(sets.c.id.in_(mine))), None)

    def recent_sets(self, limit: int) -> list[SetRecord]:
        """The most recently used sets, the latest first."""
        return self._sets(sa.true(), limit)

    def _sets(self, where: sa.ColumnElement[bool], limit: int = 1) -> list[SetRecord]:
        found = sa.select(sets).where(where).order_by(sets.c.updated.desc()).limit(limit)
        with self._database.read() as db:
            rows = db.execute(found).all()
            models = db.execute(
                sa.select(set_models)
                .where(set_models.c.set.in_([row.id for row in rows]))
                .order_by(set_models.c.position)
            ).all()
        return [
            SetRecord(
                **row._mapping,
                models=tuple(
                    SetModel(m.name, m.document, m.runs, m.source)
                    for m in models
                    if m.set == row.id
                ),
            )
            for row in rows
        ]

    def keep_set_devices(self, identity: str, table: Sequence[Mapping[str, Any]]) -> None:
        """Stores the device table that the models of a set share."""
        with self._database.write() as db:
            db.execute(
                sets.update()
                .where(sets.c.id == identity)
                .values(updated=_now(), devices=[dict(entry) for entry in table])
            )

    def keep_set_runs(self, identity: str, runs_of: Mapping[str, float]) -> None:
        """Stores how often some models of a set run for one answer; from now on these are given."""
        with self._database.write() as db:
            for name, count in runs_of.items():
                db.execute(
                    set_models.update()
                    .where(set_models.c.set == identity, set_models.c.name == name)
                    .values(runs=count, source="given")
                )
            db.execute(sets.update().where(sets.c.id == identity).values(updated=_now()))


def _advance(db: sa.Connection, document: str, version: int, what: str) -> None:
    """Compare-and-swap: first in a transaction, so that two writers cannot both succeed."""
    changed = db.execute(
        documents.update()
        .where(documents.c.id == document, documents.c.version == version)
        .values(updated=_now(), version=version + 1)
    )
    if changed.rowcount != 1:
        if db.execute(sa.select(documents.c.id).where(documents.c.id == document)).first() is None:
            raise EditorError("the document was removed from the workspace; open the model again")
        raise StaleDocumentError(
            "the document was changed elsewhere (another tab or server); look at it, and try again"
        )
    author = current_author()
    db.execute(
        changes.insert().values(document=document, version=version + 1, what=what, **vars(author))
    )
    db.execute(
        changes.delete().where(
            changes.c.document == document, changes.c.version <= version - _CHANGES_KEPT
        )
    )


def _pack(decisions: Mapping[str, Any]) -> bytes:
    return zlib.compress(json.dumps(decisions).encode())


def _unpack(blob: bytes, what: str) -> dict[str, Any]:
    try:
        decisions = json.loads(zlib.decompress(blob))
        if not isinstance(decisions, dict):
            raise ValueError("no decisions")
    except (zlib.error, ValueError) as error:
        raise WorkspaceError(
            f"The workspace is damaged at {what}; go to another step of the history."
        ) from error
    return decisions


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
