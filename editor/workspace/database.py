"""The workspace's database and its schema."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import sqlalchemy as sa

from editor.errors import WorkspaceError
from editor.workspace.folders import file_of, folder_of, make_private

SCHEMA = "0005"
"""The newest step in ``migrations/versions``."""

metadata = sa.MetaData()

documents = sa.Table(
    "documents",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("title", sa.String, nullable=False),
    sa.Column("model", sa.String, nullable=False),
    sa.Column("sha256", sa.String(64), nullable=False),
    sa.Column("define", sa.JSON, nullable=False),
    sa.Column("cursor", sa.Integer, nullable=False),
    sa.Column("updated", sa.String, nullable=False),
    sa.Column("version", sa.Integer, nullable=False, server_default="0"),
    sa.Column("tip", sa.Integer, nullable=False, server_default="0"),
)
"""``cursor`` is the current revision, ``tip`` the last one of its branch: redo walks towards it."""

revisions = sa.Table(
    "revisions",
    metadata,
    sa.Column("document", sa.String(32), sa.ForeignKey("documents.id"), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("label", sa.String, nullable=False),
    sa.Column("decisions", sa.LargeBinary, nullable=False),
    sa.Column("parent", sa.Integer, nullable=True),
    sa.Column("author", sa.String, nullable=False, server_default=""),
)
"""Revisions form a tree and are never changed or deleted: a change after undo begins a branch."""

changes = sa.Table(
    "changes",
    metadata,
    sa.Column("document", sa.String(32), sa.ForeignKey("documents.id"), primary_key=True),
    sa.Column("version", sa.Integer, primary_key=True),
    sa.Column("page", sa.String(64), nullable=False),
    sa.Column("sequence", sa.Integer, nullable=False),
    sa.Column("name", sa.String, nullable=False),
    sa.Column("server", sa.String, nullable=False),
    sa.Column("what", sa.String, nullable=False),
)
"""Who made each of the last versions of a document, and what it was."""

layouts = sa.Table(
    "layouts",
    metadata,
    sa.Column("document", sa.String(32), primary_key=True),
    sa.Column("name", sa.String(80), primary_key=True),
    sa.Column("decisions", sa.LargeBinary, nullable=False),
)

runs = sa.Table(
    "runs",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("document", sa.String(32), nullable=False, index=True),
    sa.Column("when", sa.String, nullable=False),
    sa.Column("figures", sa.JSON, nullable=False),
)

accuracies = sa.Table(
    "accuracies",
    metadata,
    sa.Column("document", sa.String(32), primary_key=True),
    sa.Column("plan", sa.String(64), primary_key=True),
    sa.Column("when", sa.String, nullable=False),
    sa.Column("figures", sa.LargeBinary, nullable=False),
)
"""The last accuracy of each plan, by the plan's fingerprint."""

sets = sa.Table(
    "sets",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("title", sa.String, nullable=False),
    sa.Column("origin", sa.String(64), nullable=False, index=True),
    sa.Column("devices", sa.JSON, nullable=False),
    sa.Column("updated", sa.String, nullable=False),
)
"""Sets of models; ``origin`` is a digest of what a set was made of, ``devices`` the table that its models share."""

set_models = sa.Table(
    "set_models",
    metadata,
    sa.Column("set", sa.String(32), sa.ForeignKey("sets.id"), primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True),
    sa.Column("name", sa.String, nullable=False),
    sa.Column("document", sa.String(32), nullable=False, index=True),
    sa.Column("runs", sa.Float, nullable=False),
    sa.Column("source", sa.String(16), nullable=False),
)
"""The models of each set: a document each, and how often it runs for one answer."""

steps_applied = sa.Table(
    "alembic_version", metadata, sa.Column("version_num", sa.String(32), primary_key=True)
)
"""Alembic's own table: the newest step that was applied. Created here because loading Alembic takes a start 0.3 s."""


LOCK_SECONDS = 2
"""Longest wait for another program that uses the same SQLite file."""
_SCHEMA_SECONDS = 10
"""Longest wait for another server that creates or updates the tables."""
_SCHEMA_LOCK = 0x68657465726F
"""The key of PostgreSQL's advisory lock for that: an arbitrary number."""
_TURN_SECONDS = 5
"""Longest wait of a thread for the others of this process, of whom one may wait for another program."""
_MIGRATIONS = Path(__file__).parent / "migrations"
_FIRST_SCHEMA, _WITH_VERSION = "0001", "0002"
_REASONS = (
    ("locked", "another program holds its database"),
    ("readonly", "its database file cannot be written (read-only)"),
    ("read-only", "its database file cannot be written (read-only)"),
    ("disk is full", "the disk is full"),
    ("disk I/O error", "the disk is full, or fails"),
    ("malformed", "its database is damaged; move the file away to begin with an empty workspace"),
    ("not a database", "the file is not a database; move it away to begin with an empty workspace"),
    ("unable to open", "its database file cannot be opened"),
)


class Database:
    """Connections to one database, whose errors are ``WorkspaceError``."""

    def __init__(self, place: str | None) -> None:
        """Opens a database and brings its schema up to date.

        Args:
            place: a folder, or a URL as SQLAlchemy writes it; default: the user's data folder.

        Raises:
            EditorError: the place cannot be used.
            WorkspaceError: the database cannot be opened, or was written by a newer version of the editor.
        """
        self.folder = folder_of(place)
        if place is None or "://" not in place:
            file: Path | None = make_private(self.folder) / "workspace.db"
            self.url = sa.URL.create(
                "sqlite", database=str(file)
            )  # as text, a name with "?" or "%" would be another file
        else:
            self.url = sa.make_url(place)  # ``folder_of`` has parsed it
            file = file_of(self.url)
            if file is not None:
                make_private(self.folder)
        self.name = self.url.render_as_string(hide_password=True)
        try:
            if file is not None and not file.exists():
                file.touch(mode=0o600)
            self._turns: AbstractContextManager[None] = (
                _Turns() if _is_sqlite(self.url) else nullcontext()
            )
            self._engine = _engine(self.url)
        except (sa.exc.SQLAlchemyError, ImportError, OSError) as error:
            raise WorkspaceError(
                f"The workspace {self.name} cannot be opened: {_first_line(error)}."
            ) from error
        with self._in_words():
            _update_schema(self._engine, self.name)

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A connection to read with.

        Raises:
            WorkspaceError: the database does not answer.
        """
        with self._in_words(), self._turns, self._engine.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """A transaction: everything in it is stored, or nothing.

        Raises:
            WorkspaceError: nothing was stored.
        """
        with self._in_words(), self._turns, self._engine.begin() as connection:
            yield connection

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except (sa.exc.SQLAlchemyError, _TurnError) as error:
            text = _first_line(error)
            reason = next((words for part, words in _REASONS if part in text), text)
            raise WorkspaceError(f"The workspace {self.name} cannot be used: {reason}.") from error


class _TurnError(Exception):
    """A thread did not get its turn in time."""


class _Turns:
    """Lets one thread of this process at a time use an SQLite file.

    SQLite's busy handler sleeps up to 0.1 s per retry and is not fair: with many pages, threads of one server then wait
    for each other for seconds.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        if not self._lock.acquire(timeout=_TURN_SECONDS):
            raise _TurnError("locked")

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def _is_sqlite(url: sa.URL) -> bool:
    return url.get_backend_name() == "sqlite"


def _engine(url: sa.URL) -> sa.Engine:
    if _is_sqlite(url):
        return sa.create_engine(url, connect_args={"timeout": LOCK_SECONDS})
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+pg8000")
    return sa.create_engine(
        url, pool_pre_ping=True, connect_args={"timeout": 5} if "pg8000" in url.drivername else {}
    )


def _update_schema(engine: sa.Engine, name: str) -> None:
    """Creates the tables of a new workspace, or applies the steps that an older one lacks."""
    with engine.connect() as connection:
        _set_patience(connection, _SCHEMA_SECONDS)
        try:
            if _stamp(connection) != SCHEMA:
                connection.rollback()  # ends the look, so that the next one is at what others have committed since
                with connection.begin():
                    _lock_schema(connection)
                    if _stamp(connection) != SCHEMA:
                        _apply_steps(connection, name)
        finally:
            connection.rollback()
            _set_patience(connection, LOCK_SECONDS)


def _apply_steps(connection: sa.Connection, name: str) -> None:
    """Alembic is imported only where there is something to do: it costs a start 0.2 s."""
    tables = sa.inspect(connection).get_table_names()
    if "documents" not in tables:
        metadata.create_all(connection)
        if connection.execute(sa.select(steps_applied)).first() is None:
            connection.execute(steps_applied.insert().values(version_num=SCHEMA))
        return
    from alembic import command
    from alembic.config import Config
    from alembic.util.exc import CommandError

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    if "alembic_version" not in tables:
        columns = {column["name"] for column in sa.inspect(connection).get_columns("documents")}
        command.stamp(config, _WITH_VERSION if "version" in columns else _FIRST_SCHEMA)
    try:
        command.upgrade(config, SCHEMA)
    except CommandError as error:
        raise WorkspaceError(
            f"The workspace {name} was written by a newer version of Hetero Editor. Install that "
            "version, or name another workspace (--workspace)."
        ) from error


def _stamp(connection: sa.Connection) -> str | None:
    """The newest step that was applied to a database; None for one without Alembic's table."""
    if not sa.inspect(connection).has_table(steps_applied.name):
        return None
    return connection.execute(sa.select(steps_applied.c.version_num)).scalar()


def _set_patience(connection: sa.Connection, seconds: int) -> None:
    if _is_sqlite(connection.engine.url):
        connection.exec_driver_sql(f"PRAGMA busy_timeout = {seconds * 1000}")


def _lock_schema(connection: sa.Connection) -> None:
    """Waits until no other server changes the tables, and keeps others from doing so until the transaction ends."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    elif connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_SCHEMA_LOCK)))


def _first_line(error: BaseException) -> str:
    original = getattr(error, "orig", None) or error
    lines = str(original).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
