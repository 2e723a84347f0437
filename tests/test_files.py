"""Writing files: whole or not at all, and never in the place of a device, a pipe, a socket or a folder."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from conftest import EXAMPLES, PLAIN_FORMATS, ROOT, run, write_dag
from hypothesis import given
from hypothesis import strategies as st

import editor
from editor.errors import EditorError, ExportError
from editor.files import copy_atomic, inside, read_text, write_atomic

MODEL = EXAMPLES / "models" / "mobilenetv2.onnx"


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    write_dag(tmp_path / "m.onnx", [[], [0], [1]])
    return editor.partition(editor.load_model(tmp_path / "m.onnx"), "HETERO:CPU").save(
        tmp_path / "plan.json"
    )


def special(folder: Path) -> dict[str, Path]:
    """Things of every kind that are not regular files, and links to them."""
    folder.mkdir()
    os.mkfifo(folder / "fifo")
    (folder / "folder").mkdir()
    server = socket.socket(socket.AF_UNIX)
    server.bind(os.path.relpath(folder / "socket"))
    server.close()
    found = {name: folder / name for name in ("fifo", "folder", "socket")}
    if os.geteuid() == 0:
        os.mknod(folder / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        found["null"] = folder / "null"
    for name in list(found):
        (folder / f"link to {name}").symlink_to(folder / name)
        found[f"link to {name}"] = folder / f"link to {name}"
    return found


def kinds(paths: dict[str, Path]) -> dict[str, tuple[int, int]]:
    return {
        name: (path.lstat().st_ino, stat.S_IFMT(path.lstat().st_mode))
        for name, path in paths.items()
    }


def options(plan: Path, folder: Path) -> dict[str, list[str]]:
    """Every option of the command line that names a file to write; ``{}`` is the file."""
    return {
        "bench --json": ["bench", str(plan), "--seconds", "0.1", "--json", "{}"],
        "sizes --json": ["sizes", str(plan), "--size", "n=1", "--json", "{}"],
        "run --outputs": ["run", str(plan), "--outputs", "{}"],
        "tune --out": ["tune", str(plan), "--seconds", "0.1", "--out", "{}"],
        "import --out": ["import", str(plan), str(plan), "--out", "{}"],
    }


@pytest.mark.parametrize("option", ["bench --json", "run --outputs", "import --out"])
def test_what_is_not_a_regular_file_is_written_to_in_place_or_refused(
    option: str, plan: Path, tmp_path: Path
) -> None:
    paths = special(tmp_path / "special")
    before = kinds(paths)
    for name, path in paths.items():
        done = run(*(part.replace("{}", str(path)) for part in options(plan, tmp_path)[option]))
        assert "Traceback" not in done.stderr, (name, done.stderr)
        assert done.returncode == (0 if "null" in name else 1), (name, done.stderr)
        assert "null" in name or path.name in done.stderr
    assert kinds(paths) == before
    assert sorted(p.name for p in (tmp_path / "special").iterdir()) == sorted(paths)


def test_a_pipe_with_a_reader_gets_the_text(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    got: list[bytes] = []
    opened = threading.Event()

    def read() -> None:
        handle = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
        opened.set()
        os.set_blocking(handle, True)
        with os.fdopen(handle, "rb") as file:
            done.wait()
            got.append(file.read())

    done = threading.Event()
    thread = threading.Thread(target=read)
    thread.start()
    opened.wait()
    write_atomic(tmp_path / "fifo", "all of it")
    done.set()
    thread.join()
    assert got == [b"all of it"] and (tmp_path / "fifo").is_fifo()


@pytest.mark.parametrize("target", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
@pytest.mark.parametrize("redirected", [True, False])
def test_standard_output_may_be_named_as_a_file(
    target: str, redirected: bool, plan: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "editor", "import", str(plan), str(plan), "--out", target]
    before = os.stat("/dev/stdout", follow_symlinks=False)
    if redirected:
        with open(tmp_path / "printed", "wb") as file:
            subprocess.run(command, stdout=file, check=True, cwd=ROOT)
        printed = (tmp_path / "printed").read_text()
    else:
        printed = subprocess.run(
            command, capture_output=True, text=True, check=True, cwd=ROOT
        ).stdout
    assert '"format": "hetero-editor/plan"' in printed
    assert os.stat("/dev/stdout", follow_symlinks=False).st_ino == before.st_ino


@pytest.mark.parametrize("form", PLAIN_FORMATS)
def test_an_export_replaces_no_device_folder_or_pipe(form: str, plan: Path, tmp_path: Path) -> None:
    """Each file that an export writes, where something else is already."""
    document = editor.load_plan(plan)
    names = [
        path.relative_to(tmp_path / "first") for path in document.export(form, tmp_path / "first")
    ]
    for i, name in enumerate(names):
        out = tmp_path / f"out{i}"
        (out / name).parent.mkdir(parents=True)
        os.mkfifo(out / name)
        with pytest.raises(EditorError, match="pipe"):
            document.export(form, out)
        assert (out / name).is_fifo()
        (out / name).unlink()
        (out / name).mkdir()
        with pytest.raises(EditorError, match="folder"):
            document.export(form, out)


def test_a_kit_replaces_no_pipe(plan: Path, tmp_path: Path) -> None:
    (tmp_path / "kit").mkdir()
    os.mkfifo(tmp_path / "kit" / "weights.bin")
    done = run("kit", str(plan), "--device", "CPU", "--out", str(tmp_path / "kit"))
    assert done.returncode == 1 and "weights.bin" in done.stderr and "Traceback" not in done.stderr
    assert [path.name for path in (tmp_path / "kit").iterdir()] == ["weights.bin"]


def test_a_folder_that_cannot_be_written_to_is_said(plan: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for command in options(plan, tmp_path).values():
        if command[0] in ("bench", "import", "run"):
            done = run(*(part.replace("{}", str(tmp_path / "file" / "x")) for part in command))
            assert (
                done.returncode == 1
                and "cannot be written" in done.stderr
                and "Traceback" not in done.stderr
            )


def test_a_file_that_fails_half_way_leaves_the_old_one_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "x"
    target.write_text("old")
    with pytest.raises(ExportError, match="cannot be written"):
        copy_atomic(tmp_path / "missing", target)
    assert target.read_text() == "old" and list(tmp_path.iterdir()) == [target]


def test_files_have_the_mode_that_the_person_chose_whatever_other_threads_do(
    tmp_path: Path,
) -> None:
    """The umask is of the whole process: reading it by setting it gave files of other threads the wrong mode."""
    code = (
        "import os, threading; os.umask(0o077); from pathlib import Path; from editor.files import write_atomic\n"
        f"folder = Path({str(tmp_path)!r})\n"
        "def write(n):\n    for i in range(300): write_atomic(folder / f'{n}-{i}', 'x')\n"
        "threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]\n"
        "[t.start() for t in threads]\n"
        "for i in range(2000): os.close(os.open(folder / f'other-{i}', os.O_CREAT | os.O_WRONLY, 0o666))\n"
        "[t.join() for t in threads]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


@given(
    st.lists(st.sampled_from(["..", ".", "a", "b", "", "/"]), min_size=1, max_size=5).map("/".join)
)
def test_a_name_inside_a_folder_never_leads_out(name: str) -> None:
    folder = Path("/tmp/some-folder")
    try:
        found = inside(folder, name)
    except EditorError:
        return
    assert found.resolve().is_relative_to(folder)


def test_a_missing_file_whose_name_has_other_case_is_named(tmp_path: Path) -> None:
    (tmp_path / "Plan.json").write_text("{}")
    with pytest.raises(EditorError, match=r"no such file; there is .*Plan\.json"):
        read_text(tmp_path / "plan.json", EditorError)
    with pytest.raises(EditorError, match=r"no such file$"):
        read_text(tmp_path / "other.json", EditorError)
