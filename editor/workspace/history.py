"""Stores documents and their history in a database, so that a killed server loses nothing."""

from __future__ import annotations

import json
import os
import uuid
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from editor.errors import EditorError

_metadata = sa.MetaData()

_documents = sa.Table(
    "documents", _metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("title", sa.String, nullable=False),
    sa.Column("model", sa.String, nullable=False),
    sa.Column("sha256", sa.String(64), nullable=False),
    sa.Column("define", sa.JSON, nullable=False),
    sa.Column("cursor", sa.Integer, nullable=False),
    sa.Column("updated", sa.String, nullable=False),
    sa.Column("version", sa.Integer, nullable=False, server_default="0"))

_revisions = sa.Table(
    "revisions", _metadata,
    sa.Column("document", sa.String(32), sa.ForeignKey("documents.id"), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("label", sa.String, nullable=False),
    sa.Column("decisions", sa.LargeBinary, nullable=False))


_layouts = sa.Table(
    "layouts", _metadata, sa.Column("document", sa.String(32), primary_key=True),
    sa.Column("name", sa.String(80), primary_key=True), sa.Column("decisions", sa.LargeBinary, nullable=False))


_runs = sa.Table(
    "runs", _metadata, sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("document", sa.String(32), nullable=False, index=True), sa.Column("when", sa.String, nullable=False),
    sa.Column("figures", sa.JSON, nullable=False))


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


@dataclass(frozen=True)
class Revision:
    """One step of a history: its label, and all decisions after it."""

    label: str
    decisions: Mapping[str, Any]


@dataclass(frozen=True)
class Run:
    """One stored benchmark."""

    when: str
    figures: dict[str, Any]
    """Seconds: median, p99, baselines by device; and layout, subgraphs, throughput, estimated."""


def default_folder() -> Path:
    """Default path of the workspace (XDG base directory specification)."""
    base = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(base) / "hetero-editor"


def _private(folder: Path) -> Path:
    """Creates a folder that only its owner can read; one that exists stays as it is.

    Raises:
        EditorError: it cannot be created, or is a file.
    """
    try:
        if not folder.exists():
            folder.mkdir(parents=True, mode=0o700)
        elif not folder.is_dir():
            raise EditorError(f"the workspace {folder} is a file; name a folder or a database URL")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise EditorError(f"the workspace {str(folder)!r} cannot be created: {reason}") from error
    return folder


class StaleDocumentError(EditorError):
    """Another writer has changed the document since it was read."""


class Store:
    """All documents of one workspace."""

    def __init__(self, url: str | None = None) -> None:
        """Opens a workspace.

        Args:
            url: of a database, as SQLAlchemy writes it, or a folder; default: SQLite in the user's data folder.

        Raises:
            EditorError: the database cannot be opened.
        """
        self.folder = default_folder()
        if url is None or "://" not in url:
            self.folder = Path(url) if url else self.folder
            url = f"sqlite:///{_private(self.folder) / 'workspace.db'}"
        elif url.startswith("sqlite:///") and url != "sqlite:///:memory:":
            self.folder = _private(Path(url.removeprefix("sqlite:///")).parent)
        try:
            if url.startswith("sqlite:///") and url != "sqlite:///:memory:":
                Path(url.removeprefix("sqlite:///")).touch(mode=0o600)
            self._engine = sa.create_engine(url)
            _metadata.create_all(self._engine)
            self._add_missing_columns()
        except (sa.exc.SQLAlchemyError, ImportError, OSError) as error:
            raise EditorError(f"the workspace {url} cannot be opened: {str(error).splitlines()[0]}") from error

    def create(self, title: str, model: str, sha256: str, define: Mapping[str, int], first: Revision) -> Record:
        """A new document with one revision."""
        record = Record(uuid.uuid4().hex[:12], title, model, sha256, dict(define), 0, _now(), 0)
        with self._engine.begin() as db:
            db.execute(_documents.insert().values(**vars(record)))
            db.execute(_revisions.insert().values(document=record.id, number=0, label=first.label,
                                                  decisions=_pack(first.decisions)))
        return record

    def get(self, document: str) -> Record | None:
        """The record of a document; None when it does not exist."""
        with self._engine.connect() as db:
            row = db.execute(sa.select(_documents).where(_documents.c.id == document)).first()
        return Record(**row._mapping) if row else None

    def recent(self, limit: int = 8) -> list[Record]:
        """The most recently used documents."""
        with self._engine.connect() as db:
            rows = db.execute(sa.select(_documents).order_by(_documents.c.updated.desc()).limit(limit))
            return [Record(**row._mapping) for row in rows]

    def find(self, model: str, sha256: str, define: Mapping[str, int], devices: list[dict[str, Any]]) -> Record | None:
        """The latest document of a model that was opened with the same device table."""
        with self._engine.connect() as db:
            rows = db.execute(sa.select(_documents).where(_documents.c.model == model, _documents.c.sha256 == sha256)
                              .order_by(_documents.c.updated.desc()).limit(20)).all()
        for row in rows:
            record = Record(**row._mapping)
            first = self.history(record.id)[0]
            if record.define == dict(define) and first.decisions["devices"] == json.loads(json.dumps(devices)):
                return record
        return None

    def history(self, document: str) -> list[Revision]:
        """All revisions, the undone ones included."""
        with self._engine.connect() as db:
            rows = db.execute(sa.select(_revisions).where(_revisions.c.document == document)
                              .order_by(_revisions.c.number))
            return [Revision(row.label, _unpack(row.decisions)) for row in rows]

    def append(self, document: str, number: int, revision: Revision, version: int) -> int:
        """Adds a revision at a position and deletes undone revisions from there on.

        Args:
            document: its id.
            number: of the revision.
            revision: what was done.
            version: of the document that the revision was made from.

        Returns:
            The new version.

        Raises:
            StaleDocumentError: somebody else changed the document since; nothing is written.
        """
        with self._engine.begin() as db:
            self._advance(db, document, number, version)
            db.execute(_revisions.delete().where(_revisions.c.document == document, _revisions.c.number >= number))
            db.execute(_revisions.insert().values(document=document, number=number, label=revision.label,
                                                  decisions=_pack(revision.decisions)))
        return version + 1

    def keep_layout(self, document: str, name: str, decisions: Mapping[str, Any] | None) -> None:
        """Stores decisions under a name, replacing earlier ones; None deletes them."""
        with self._engine.begin() as db:
            db.execute(_layouts.delete().where(_layouts.c.document == document, _layouts.c.name == name))
            if decisions is not None:
                db.execute(_layouts.insert().values(document=document, name=name, decisions=_pack(decisions)))

    def layouts(self, document: str) -> dict[str, dict[str, Any]]:
        """Name -> stored decisions, sorted by name."""
        with self._engine.connect() as db:
            rows = db.execute(sa.select(_layouts.c.name, _layouts.c.decisions).where(_layouts.c.document == document)
                              .order_by(_layouts.c.name)).all()
        return {row.name: _unpack(row.decisions) for row in rows}

    def keep_run(self, document: str, figures: Mapping[str, Any]) -> None:
        """Stores a benchmark of a document."""
        with self._engine.begin() as db:
            db.execute(_runs.insert().values(document=document, when=_now(), figures=dict(figures)))

    def runs(self, document: str, limit: int = 30) -> list[Run]:
        """Benchmarks of a document, newest first."""
        with self._engine.connect() as db:
            rows = db.execute(sa.select(_runs.c.when, _runs.c.figures).where(_runs.c.document == document)
                              .order_by(_runs.c.number.desc()).limit(limit)).all()
        return [Run(row.when, row.figures) for row in rows]

    def move(self, document: str, number: int, version: int) -> int:
        """Makes another revision current (undo, redo). Arguments, result and errors as for ``append``."""
        with self._engine.begin() as db:
            self._advance(db, document, number, version)
        return version + 1

    def _advance(self, db: sa.Connection, document: str, number: int, version: int) -> None:
        """Compare-and-swap: first in a transaction, so that two writers cannot both succeed."""
        changed = db.execute(_documents.update().where(_documents.c.id == document, _documents.c.version == version)
                             .values(cursor=number, updated=_now(), version=version + 1))
        if changed.rowcount != 1:
            raise StaleDocumentError("the document was changed elsewhere (another tab or server); look at it, and try again")

    def _add_missing_columns(self) -> None:
        """Workspaces of versions before 0.3 have no version of documents."""
        if "version" not in {column["name"] for column in sa.inspect(self._engine).get_columns("documents")}:
            with self._engine.begin() as db:
                db.execute(sa.text("ALTER TABLE documents ADD COLUMN version INTEGER NOT NULL DEFAULT 0"))


def _pack(decisions: Mapping[str, Any]) -> bytes:
    return zlib.compress(json.dumps(decisions).encode())


def _unpack(blob: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(zlib.decompress(blob))
    return found


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
