"""A workspace opens whatever wrote it before, and says what is wrong with it in words."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import EXAMPLES, ROOT, python
from documents import documents_of_one_record, paint_at_once
from pages import free_port

from editor.errors import EditorError, WorkspaceError
from editor.placement.placement import Settings
from editor.workspace.history import Store
from editor.workspace.solver import first_decisions

MODEL = str(EXAMPLES / "models" / "mobilenetv2.onnx")
TABLE = [{"name": "A", "backendName": "CPU"}, {"name": "B", "backendName": "openvino"}]


def decisions(**changed: object) -> dict[str, object]:
    return first_decisions(Settings(), TABLE) | changed


def write_old_workspace(file: Path, with_version: bool) -> None:
    """The tables as versions before 0.3 made them: a document with three steps, the last undo_target."""
    with sqlite3.connect(file) as db:
        version = ", version INTEGER NOT NULL DEFAULT 0" if with_version else ""
        db.execute(
            "CREATE TABLE documents (id VARCHAR(32) NOT NULL PRIMARY KEY, title VARCHAR NOT NULL, "
            "model VARCHAR NOT NULL, sha256 VARCHAR(64) NOT NULL, define JSON NOT NULL, cursor INTEGER NOT NULL, "
            f"updated VARCHAR NOT NULL{version})"
        )
        db.execute(
            "CREATE TABLE revisions (document VARCHAR(32) NOT NULL REFERENCES documents (id), number INTEGER NOT NULL, "
            "label VARCHAR NOT NULL, decisions BLOB NOT NULL, PRIMARY KEY (document, number))"
        )
        db.execute(
            "CREATE TABLE layouts (document VARCHAR(32) NOT NULL, name VARCHAR(80) NOT NULL, decisions BLOB NOT NULL, "
            "PRIMARY KEY (document, name))"
        )
        db.execute(
            "CREATE TABLE runs (number INTEGER PRIMARY KEY AUTOINCREMENT, document VARCHAR(32) NOT NULL, "
            '"when" VARCHAR NOT NULL, figures JSON NOT NULL)'
        )
        db.execute(
            "INSERT INTO documents VALUES ('a', 'old', '/m.onnx', 'ff', '{}', 1, '2026'"
            + (", 4)" if with_version else ")")
        )
        for number, label in enumerate(("open", "first", "second")):
            blob = zlib.compress(json.dumps({"step": number}).encode())
            db.execute("INSERT INTO revisions VALUES ('a', ?, ?, ?)", (number, label, blob))


@pytest.mark.parametrize("with_version", [False, True])
def test_a_workspace_of_an_earlier_version_opens_with_its_history(
    tmp_path: Path, with_version: bool
) -> None:
    write_old_workspace(tmp_path / "workspace.db", with_version)
    for _ in range(2):
        store = Store(str(tmp_path))
        record = store.get("a")
        assert record is not None
        assert (record.title, record.cursor, record.tip, record.version) == (
            "old",
            1,
            2,
            4 if with_version else 0,
        )
        assert [(step.number, step.parent, step.label) for step in store.steps("a")] == [
            (0, None, "open"),
            (1, 0, "first"),
            (2, 1, "second"),
        ]
        assert store.decisions("a", 2) == {"step": 2}
    store.append("a", 1, "third", {}, record.version)


_OPENED_AT_ONCE = """
import sys
from editor.errors import EditorError
from editor.workspace.history import Store
import alembic.command  # then the processes differ by less
print("ready", flush=True)
sys.stdin.readline()
try:
    print(len(Store(sys.argv[1]).recent()))
except EditorError as error:
    print(error)
"""


def opened_at_once(place: str, processes: int = 4) -> list[str]:
    """What each of several processes says that open a workspace at the same moment."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", _OPENED_AT_ONCE, place],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for _ in range(processes)
    ]
    for process in started:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    return [process.communicate(timeout=60)[0].strip() for process in started]


@pytest.mark.parametrize("with_version", [None, False, True], ids=["new", "oldest", "older"])
def test_servers_that_open_a_workspace_at_once_all_open_it(
    tmp_path: Path, with_version: bool | None
) -> None:
    for attempt in range(2):  # one round would pass by chance
        folder = tmp_path / str(attempt)
        if with_version is not None:
            folder.mkdir()
            write_old_workspace(folder / "workspace.db", with_version)
        assert opened_at_once(str(folder)) == ["0" if with_version is None else "1"] * 4


def test_servers_that_open_a_workspace_in_postgresql_at_once_all_open_it(postgres: str) -> None:
    import sqlalchemy as sa

    engine = sa.create_engine(postgres.replace("postgresql", "postgresql+pg8000", 1))
    for _ in range(3):
        with engine.begin() as connection:
            connection.execute(sa.text("DROP SCHEMA public CASCADE"))
            connection.execute(sa.text("CREATE SCHEMA public"))
        assert opened_at_once(postgres) == ["0"] * 4
    engine.dispose()


@pytest.mark.parametrize("name", ["what?a", "p%20x", "a#b", "a b", "file:x?mode=memory", "ü;&=+"])
def test_a_workspace_may_have_any_name_and_is_private(tmp_path: Path, name: str) -> None:
    umask = os.umask(0o022)
    try:
        first = Store(str(tmp_path / name))
        first.create("m", "/m.onnx", "ff", {}, decisions())
        other = Store(str(tmp_path / f"{name}2"))
    finally:
        os.umask(umask)
    assert len(Store(str(tmp_path / name)).recent()) == 1 and not other.recent()
    assert sorted(
        path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()
    ) == sorted(Path(each, "workspace.db") for each in (name, f"{name}2"))
    assert stat.S_IMODE((tmp_path / name / "workspace.db").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o700


def test_the_url_of_a_file_names_that_file(tmp_path: Path) -> None:
    for url in (
        f"sqlite:///{tmp_path}/a/my%20file.db",
        f"sqlite+pysqlite:///{tmp_path}/b/file.db?timeout=3",
    ):
        store = Store(url)
        file = next(store.folder.iterdir())
        assert (
            str(file) == store._database.url.database and stat.S_IMODE(file.stat().st_mode) == 0o600
        )


@pytest.mark.parametrize("place", ["a\nb", "sqlite:///a\nb/x.db", "://", "sqlite://x:y/z"])
def test_a_workspace_that_cannot_be_used_is_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(EditorError, match="line break|neither a folder"):
        Store(place)
    assert not list(tmp_path.iterdir())


def test_a_migrated_workspace_has_the_same_tables_as_a_new_one(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    write_old_workspace(old / "workspace.db", with_version=False)
    columns = []
    for folder in (old, new):
        Store(str(folder))
        with sqlite3.connect(folder / "workspace.db") as db:
            tables = [
                name
                for (name,) in db.execute(
                    "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
                )
            ]
            columns.append(
                {
                    table: {row[1] for row in db.execute(f"PRAGMA table_info({table})")}
                    for table in tables
                }
            )
    assert columns[0] == columns[1]


def test_a_workspace_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    Store(str(tmp_path))
    with sqlite3.connect(tmp_path / "workspace.db") as db:
        db.execute("UPDATE alembic_version SET version_num = '9999'")
    before = (tmp_path / "workspace.db").read_bytes()
    with pytest.raises(WorkspaceError, match="newer version of Hetero Editor"):
        Store(str(tmp_path))
    assert (tmp_path / "workspace.db").read_bytes() == before


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "workspace.db").write_bytes(b"not a database at all" * 100)
    with pytest.raises(WorkspaceError, match="is not a database; move it away"):
        Store(str(tmp_path))


def test_a_damaged_step_is_named_and_the_others_can_be_used(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    record = store.create("m", "/m.onnx", "ff", {}, decisions())
    store.append(record.id, 0, "first", decisions(policy="optimal"), 0)
    with sqlite3.connect(tmp_path / "workspace.db") as db:
        db.execute("UPDATE revisions SET decisions = ? WHERE number = 1", (b"foreign bytes",))
    with pytest.raises(WorkspaceError, match="damaged at step 1"):
        store.decisions(record.id, 1)
    assert store.decisions(record.id, 0)["policy"] == "priority"


def test_a_locked_database_is_a_message_and_work_goes_on_when_it_is_free(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    record = store.create("m", "/m.onnx", "ff", {}, decisions())
    other = sqlite3.connect(tmp_path / "workspace.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(WorkspaceError, match="another program holds its database"):
        store.append(record.id, 0, "first", {}, 0)
    other.execute("COMMIT")
    store.append(record.id, 0, "first", {}, 0)
    assert [step.label for step in store.steps(record.id)] == ["open", "first"]


def test_threads_of_one_server_do_not_tell_each_other_to_wait(tmp_path: Path) -> None:
    """SQLite lets whoever finds a file locked try again at random; of 20 threads one or another then waits for seconds."""
    store = Store(str(tmp_path))
    records = [store.create("m", "/m.onnx", "ff", {}, decisions()) for _ in range(20)]
    refused: list[str] = []

    def edit(document: str) -> None:
        try:
            for n in range(60):
                store.append(document, n, f"step {n}", decisions(), n)
                store.changes(document, n)
        except WorkspaceError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=edit, args=(record.id,)) for record in records]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not refused
    assert all(len(store.steps(record.id)) == 61 for record in records)


def run(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return python("-B", "-c", program, folder, cwd=ROOT, timeout=60)


_FULL = """
import resource, sys
from editor.errors import EditorError, WorkspaceError
from editor.workspace.history import Store
store = Store(sys.argv[1])
record = store.create("m", "/m.onnx", "ff", {}, {"n": 0})
size = __import__("os").path.getsize(sys.argv[1] + "/workspace.db")
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 8192, resource.RLIM_INFINITY))
import random
version = 0
try:
    for n in range(100):
        store.append(record.id, n, f"step {n}", {"n": [random.random() for _ in range(400)]}, n)
        version = n + 1
except WorkspaceError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert [s.number for s in store.steps(record.id)] == list(range(version + 1)), "what was stored is safe"
store.append(record.id, version, "goes on", {}, version)
print(version)
"""


def test_a_full_disk_is_a_message_and_what_was_stored_is_safe(tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk."""
    done = run(_FULL, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "the disk is full" in done.stdout and int(done.stdout.splitlines()[-1]) < 100


_READ_ONLY = """
import os, sys
from editor.errors import EditorError, WorkspaceError
from editor.workspace.history import Store
Store(sys.argv[1] + "/other").recent()  # all modules are loaded: the user may be unable to read them
os.setuid(65534)
try:
    store = Store(sys.argv[1])
    print(store.recent()[0].title)
    store.create("m", "/m.onnx", "ff", {}, {})
except WorkspaceError as error:
    print(error)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become a user who may only read")
def test_a_file_that_may_only_be_read_is_a_message(tmp_path: Path) -> None:
    Store(str(tmp_path)).create("kept", "/m.onnx", "ff", {}, decisions())
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(0o755)
    (tmp_path / "workspace.db").chmod(0o644)
    done = run(_READ_ONLY, tmp_path)
    assert "kept" in done.stdout and "cannot be written" in done.stdout, done.stdout + done.stderr


def test_a_url_without_a_driver_is_a_message() -> None:
    with pytest.raises(WorkspaceError, match="cannot be opened"):
        Store("oracle://somewhere/else")


_POSTGRES = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a PostgreSQL server that is made for these tests, by its own user: it refuses to run as root."""
    if not _POSTGRES:
        pytest.skip("PostgreSQL is not installed (Debian: apt install postgresql)")
    folder, binaries = Path("/tmp") / f"hetero-postgres-{os.getpid()}", _POSTGRES[-1].parent
    folder.mkdir(mode=0o700)
    as_user: list[str] = []
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
        as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    data = folder / "data"
    subprocess.run(
        [*as_user, binaries / "initdb", "-D", data, "-U", "editor", "--auth=trust", "--no-sync"],
        check=True,
        capture_output=True,
        cwd="/tmp",
        timeout=120,
    )
    port = (
        free_port()
    )  # only now: making the database takes seconds, in which another test could take it
    server = subprocess.Popen(
        [
            *as_user,
            binaries / "postgres",
            "-D",
            data,
            "-p",
            str(port),
            "-k",
            folder,
            "-c",
            "listen_addresses=127.0.0.1",
            "-c",
            "fsync=off",
        ],
        stderr=subprocess.DEVNULL,
        cwd="/tmp",
    )
    try:
        end = time.monotonic() + 60
        while subprocess.run(
            [binaries / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)], check=False
        ).returncode:
            assert server.poll() is None and time.monotonic() < end, "PostgreSQL did not start"
            time.sleep(0.2)
        yield f"postgresql://editor@127.0.0.1:{port}/postgres"
    finally:
        server.send_signal(signal.SIGINT)  # ends connections too
        server.wait(20)
        shutil.rmtree(folder)


def test_a_team_shares_a_workspace_in_postgresql(postgres: str, tmp_path: Path) -> None:
    members = documents_of_one_record(postgres, tmp_path, TABLE, 40)
    paint_at_once(members, 40)
    for member in members:
        assert len(member.placement.settings.pins) == 40 and len(member.history.steps) == 41
        assert member.undo() and member.redo()
    members[0].keep_layout("ours")
    assert list(members[1].store.layouts(members[1].id)) == ["ours"]
    assert (
        Store(postgres).find(str(tmp_path / "net.onnx"), members[0].graph.sha256, {}, TABLE)
        is not None
    )


def test_a_postgresql_that_is_gone_is_a_message() -> None:
    with pytest.raises(WorkspaceError, match="workspace postgresql"):
        Store("postgresql://editor@127.0.0.1:1/postgres")


def test_what_takes_long_to_load_is_loaded_where_it_is_needed_only(tmp_path: Path) -> None:
    """Alembic for workspaces of older versions, the solver for searches: each would take every start 0.2 to 0.3 s."""
    script = (
        "import sys, editor; from editor.workspace.history import Store\n"
        f"Store({str(tmp_path)!r}); editor.partition(editor.load_model({MODEL!r}), 'HETERO:CPU')\n"
        "print([name for name in ('alembic', 'ortools.sat', 'pandas') if name in sys.modules])"
    )
    done = python("-c", script, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"
