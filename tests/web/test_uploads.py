"""Uploads reach the disk as they come, whatever they hold."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import random
import select
import socket
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import numpy as np
import onnx
import psutil
import pytest
from conftest import EXAMPLES, write_dag
from hypothesis import example, given
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from pages import Server

import editor
from editor.errors import EditorError
from editor.graph.external_data import missing_data
from editor.graph.model_file import read_model
from editor.web.app_state import AppState
from editor.web.open_request import OpenRequest
from editor.web.request_limits import MAX_BODY
from editor.web.uploads import Uploads, safe_path


async def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


def put(uploads: Uploads, name: str, content: bytes, upload: str = "abcdef0123") -> None:
    asyncio.run(uploads.receive(upload, name, chunks(content[:7], content[7:])))


def model_with_weights(folder: Path, location: str = "net.onnx.data") -> dict[str, bytes]:
    """File names and contents of a model whose weights lie beside it."""
    weights = numpy_helper.from_array(np.ones((64, 64), np.float32), "w")
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], "mm")],
        "g",
        [value("x", 1, [1, 64])],
        [value("y", 1, [1, 64])],
        [weights],
    )
    (folder / location).parent.mkdir(exist_ok=True)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        folder / "net.onnx",
        save_as_external_data=True,
        location=location,
        size_threshold=0,
    )
    return {name: (folder / name).read_bytes() for name in ("net.onnx", location)}


def test_a_folder_with_weights_is_a_model_that_opens(tmp_path: Path) -> None:
    uploads, files = Uploads(tmp_path / "uploads"), model_with_weights(tmp_path)
    for name, content in files.items():
        put(uploads, f"export/{name}", content)
    path = uploads.finish("abcdef0123")
    assert path.relative_to(tmp_path / "uploads").parts[1:] == ("export", "net.onnx")
    assert editor.load_model(path).op_types == ("MatMul",)
    for name, content in files.items():
        put(uploads, f"export/{name}", content)
    assert uploads.finish("abcdef0123") == path, (
        "the same files again are the same place, and find the same document"
    )
    assert not list((tmp_path / "uploads" / "incoming").iterdir())
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_zip_file_is_unpacked(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in model_with_weights(tmp_path).items():
            archive.writestr(f"deep/er/{name}", content)
    uploads = Uploads(tmp_path / "uploads")
    put(uploads, "export.zip", packed.getvalue())
    assert len(editor.load_model(uploads.finish("abcdef0123"))) == 1


@pytest.mark.parametrize(
    ("names", "fault"),
    [
        ([], "no model that opens"),
        (["a.txt"], "no model that opens"),
        (["a.txt", "a/b.gguf"], "a/b.gguf: a GGUF file holds weights"),
        (["a.json", "b.json"], "2 .json files"),
    ],
)
def test_an_upload_without_one_model_is_a_message_and_is_removed(
    tmp_path: Path, names: list[str], fault: str
) -> None:
    uploads = Uploads(tmp_path)
    for name in names:
        put(uploads, name, b"content")
    with pytest.raises(EditorError, match=fault):
        uploads.finish("abcdef0123")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_several_models_are_a_set(tmp_path: Path) -> None:
    uploads = Uploads(tmp_path)
    for name in ("a.onnx", "b.onnx"):
        put(uploads, name, b"content")
    folder = uploads.finish("abcdef0123")
    assert sorted(path.name for path in folder.iterdir()) == ["a.onnx", "b.onnx"]


def zip_of(*entries: tuple[zipfile.ZipInfo | str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return packed.getvalue()


def link() -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo("weights.data")
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    return entry


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (zip_of(("../../evil.onnx", b"x")), "cannot be used"),
        (zip_of((link(), b"/etc/passwd")), "is a link"),
        (zip_of(("bomb.onnx", bytes(50_000_000))), "may have"),
        (b"PK\x03\x04 no zip", "cannot be read"),
        (zip_of(("a.onnx", b"x"))[:-30], "cannot be read"),
    ],
    ids=["parent", "link", "bomb", "no zip", "cut off"],
)
def test_a_hostile_zip_file_is_a_message_and_leaves_nothing(
    tmp_path: Path, content: bytes, fault: str
) -> None:
    uploads = Uploads(tmp_path / "uploads", max_bytes=10_000_000)
    put(uploads, "a.zip", content)
    with pytest.raises(EditorError, match=fault):
        uploads.finish("abcdef0123")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    "method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
def test_a_damaged_zip_file_is_a_message_wherever_it_is_damaged(
    tmp_path: Path, method: int
) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        archive.writestr("net.onnx", random.Random(0).randbytes(300) + bytes(300))
        archive.writestr("net.data", b"weights")
    whole, uploads, said = packed.getvalue(), Uploads(tmp_path / "uploads"), set()
    for place in range(len(whole)):
        for changed in (
            whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :],
            whole[:place] + whole[place + 1 :],
        ):
            put(uploads, "a.zip", changed)
            try:
                uploads.finish("abcdef0123")
            except EditorError as error:
                said.add(str(error).split(":")[0])
    assert "the zip file cannot be read" in said
    assert not any("stored" in text for text in said), "the disk is not at fault"
    assert not list((tmp_path / "uploads" / "incoming").iterdir())


def test_what_killed_servers_left_is_removed_after_a_day(tmp_path: Path) -> None:
    incoming = tmp_path / "incoming"
    (incoming / "oldfolder1" / "deep").mkdir(parents=True)
    for name in ("oldfolder1/deep/net.onnx", "oldupload1.zip", "newupload1.zip"):
        (incoming / name).write_bytes(b"content")
    (incoming / "oldlink001").symlink_to(tmp_path / "nowhere")
    for path in incoming.iterdir():
        if path.name.startswith("old"):
            os.utime(path, (0, 0), follow_symlinks=False)
    Uploads(tmp_path)
    assert [path.name for path in incoming.iterdir()] == ["newupload1.zip"]


WEIGHTS = (
    "encoder.layers.0:weight",
    ".weights",
    ".hidden/w",
    "w" * 255,
    "ä" * 127,
    'a b?*|<>"',
    "trailing. ",
    "~",
    "-w",
)


@pytest.mark.parametrize("packed", [False, True], ids=["folder", "zip"])
@pytest.mark.parametrize("name", WEIGHTS)
def test_files_of_weights_keep_the_names_that_the_model_has_for_them(
    tmp_path: Path, name: str, packed: bool
) -> None:
    uploads, model = Uploads(tmp_path / "uploads"), model_with_weights(tmp_path, name)
    if packed:
        put(uploads, "a.zip", zip_of(*model.items()))
    else:
        for file, content in model.items():
            put(uploads, file, content)
    path = uploads.finish("abcdef0123")
    assert (
        not missing_data(read_model(path), path)
        and (path.parent / name).read_bytes() == model[name]
    )


def test_a_model_with_a_long_name_is_found(tmp_path: Path) -> None:
    uploads = Uploads(tmp_path)
    put(uploads, f"{'m' * 200}.onnx", b"content")
    assert uploads.finish("abcdef0123").name == f"{'m' * 200}.onnx"


def test_an_upload_is_counted_as_it_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("editor.web.uploads.MAX_FILES", 5)
    uploads = Uploads(tmp_path, max_bytes=1000)
    for _ in range(20):
        put(uploads, "a/net.onnx", bytes(900))  # the same file again
    put(uploads, "a/b/c", bytes(100))
    with pytest.raises(EditorError, match="may have"):
        put(Uploads(tmp_path, max_bytes=1000), "d", b"1")  # a server that was started meanwhile
    assert not list((tmp_path / "incoming").iterdir())
    uploads = Uploads(tmp_path, max_bytes=1000)
    for name in ("a/1", "a/2", "b/1"):
        put(uploads, name, b"")
    with pytest.raises(EditorError, match="5 files"):
        put(uploads, "b/2", b"")
    put(uploads, "b/2", b"")  # another upload of that name


def test_an_upload_whose_files_still_come_in_is_not_finished(tmp_path: Path) -> None:
    uploads = Uploads(tmp_path)

    async def slow() -> AsyncIterator[bytes]:
        yield b"first"
        with pytest.raises(EditorError, match="still coming in"):
            uploads.finish("abcdef0123")
        yield b" second"

    asyncio.run(uploads.receive("abcdef0123", "net.onnx", slow()))
    assert uploads.finish("abcdef0123").read_bytes() == b"first second"


def test_an_upload_beyond_the_limit_is_a_message_and_is_removed(tmp_path: Path) -> None:
    uploads = Uploads(tmp_path, max_bytes=1000)
    with pytest.raises(EditorError, match="may have"):
        put(uploads, "a.onnx", bytes(2000))
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@given(st.text(max_size=60) | st.text("/\\.a0", max_size=12))
@example("\\\\0")
def test_no_name_leads_out_of_the_folder(name: str) -> None:
    try:
        path = safe_path(name)
    except EditorError:
        return
    assert not path.is_absolute() and ".." not in path.parts and path.parts


def test_pages_open_files_of_the_roots_only(tmp_path: Path) -> None:
    from editor.sandbox.jobs import JobService
    from editor.workspace.history import Store

    inside, outside = tmp_path / "models", tmp_path / "private"
    for folder in (inside, outside):
        folder.mkdir()
        write_dag(folder / "net.onnx", [[], [0]])
    (inside / "link.onnx").symlink_to(outside / "net.onnx")
    state = AppState(Store(str(tmp_path / "workspace")), JobService(), None, EXAMPLES)
    try:
        state.limit_paths([str(inside)])
        for path in (
            outside / "net.onnx",
            inside / ".." / "private" / "net.onnx",
            inside / "link.onnx",
            Path("/etc/passwd"),
        ):
            with pytest.raises(EditorError, match="outside the folders"):
                state.open(OpenRequest(str(path), "HETERO:CPU"))
        with pytest.raises(EditorError, match="outside the folders"):
            state.open(OpenRequest(str(inside / "net.onnx"), "/etc/passwd"))
        editor.partition(editor.load_model(outside / "net.onnx"), "HETERO:CPU").save(
            inside / "plan.json"
        )
        with pytest.raises(EditorError, match="outside the folders"):
            state.open(OpenRequest(str(inside / "plan.json"), "HETERO:CPU"))
        assert len(state.open(OpenRequest(str(inside / "net.onnx"), "HETERO:CPU")).graph) == 2
    finally:
        state.close()


def test_missing_weights_go_where_the_model_looks_for_them(tmp_path: Path) -> None:
    uploads, files = Uploads(tmp_path / "uploads"), model_with_weights(tmp_path, "deep/w.bin")
    weights = tmp_path / "deep" / "w.bin"
    weights.unlink()
    graph = editor.load_model(tmp_path / "net.onnx")
    assert list(graph.missing) == ["deep/w.bin"]
    put(uploads, "other.bin", b"12345678")
    with pytest.raises(EditorError, match=r"the model does not lack other\.bin"):
        uploads.deliver("abcdef0123", tmp_path, list(graph.missing))
    put(uploads, "w.bin", files["deep/w.bin"])
    uploads.deliver("abcdef0123", tmp_path, list(graph.missing))
    assert weights.read_bytes() == files["deep/w.bin"]
    assert (graph.missing, graph.notes) == ({}, ()), "the graph that is open says so at once"
    put(uploads, "w.bin", b"12345678")
    with pytest.raises(EditorError, match=r"the model does not lack w\.bin"):
        uploads.deliver("abcdef0123", tmp_path, ["deep/w.bin"])
    assert weights.read_bytes() == files["deep/w.bin"], "no file is replaced"
    assert not list((tmp_path / "uploads" / "incoming").iterdir())


def test_pages_of_a_server_with_roots_write_into_uploads_only(tmp_path: Path) -> None:
    from editor.sandbox.jobs import JobService
    from editor.workspace.history import Store

    files = model_with_weights(tmp_path, "w.bin")
    (tmp_path / "w.bin").unlink()
    state = AppState(Store(str(tmp_path / "workspace")), JobService(), None, EXAMPLES)
    try:
        state.limit_paths([str(tmp_path)])
        put(state.uploads, "net.onnx", files["net.onnx"])
        of_the_page = state.uploads.finish("abcdef0123")
        for path, may in ((tmp_path / "net.onnx", False), (of_the_page, True)):
            document = state.open(OpenRequest(str(path), "HETERO:CPU")).id
            put(state.uploads, "w.bin", files["w.bin"])
            if may:
                state.add_weights(document, "abcdef0123")
                assert state.document(document).graph.notes == ()
            else:
                with pytest.raises(EditorError, match="put the file beside the model"):
                    state.add_weights(document, "abcdef0123")
            assert (path.parent / "w.bin").exists() == may
    finally:
        state.close()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("workspace"))
    made.start()
    yield made
    made.stop()


def test_memory_stays_flat_while_two_gigabytes_go_up(running: Server) -> None:
    assert running.process is not None
    process, most = psutil.Process(running.process.pid), 0
    urllib.request.urlopen(running.url).read()
    before, block, total = process.memory_info().rss, bytes(1 << 20), 2048
    with socket.create_connection(("127.0.0.1", running.port)) as connection:
        connection.sendall(
            f"PUT /models/abcdef0123?name=big.onnx HTTP/1.1\r\nHost: 127.0.0.1:{running.port}\r\n"
            f"Content-Length: {total << 20}\r\n\r\n".encode()
        )
        for number in range(total):
            connection.sendall(block)
            if number % 64 == 0:
                most = max(most, process.memory_info().rss)
        assert b"204" in connection.recv(1000)
    assert most - before < 100e6
    file = running.workspace / "uploads" / "incoming" / "abcdef0123" / "big.onnx"
    assert file.stat().st_size == total << 20
    file.unlink()


def test_a_large_body_elsewhere_is_refused_without_reading_it(running: Server) -> None:
    request = urllib.request.Request(
        f"{running.url}/_dash-update-component",
        bytes(MAX_BODY + 1),
        {"Content-Type": "application/json"},
    )
    with pytest.raises((urllib.error.HTTPError, ConnectionError, urllib.error.URLError)) as error:
        urllib.request.urlopen(request, timeout=20)
    if isinstance(error.value, urllib.error.HTTPError):
        assert error.value.code == 413
    with socket.create_connection(("127.0.0.1", running.port)) as connection:
        connection.sendall(
            f"POST /_dash-update-component HTTP/1.1\r\nHost: 127.0.0.1:{running.port}\r\nContent-Type: "
            "application/json\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        )
        piece = b"100000\r\n" + bytes(0x100000) + b"\r\n"
        with pytest.raises(OSError):
            for _ in range(200):
                connection.sendall(piece)
                if connection in select.select([connection], [], [], 0)[0]:
                    assert b" 413 " in connection.recv(1000)
                    raise OSError("answered")


_SLOW = """
import asyncio, sys
from editor.web import request_limits
request_limits.HEADER_SECONDS = 0.5
import uvicorn
async def app(scope, receive, send):
    if scope["type"] == "http":
        message = await receive()
        while message.get("more_body"):
            message = await receive()
        if message["type"] == "http.disconnect":
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})
config = uvicorn.Config(request_limits.BodyLimit(app, pause=0.5), port=int(sys.argv[1]), log_level="warning",
                        http=request_limits.PatientProtocol, timeout_keep_alive=1)
uvicorn.run(config.app, port=config.port, log_level="warning", http=request_limits.PatientProtocol, timeout_keep_alive=1)
"""


@pytest.fixture
def impatient() -> Iterator[int]:
    """The port of a server with the editor's limits of time, made short."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    process = subprocess.Popen([sys.executable, "-c", _SLOW, str(port)], cwd=EXAMPLES.parent)
    for _ in range(200):
        with socket.socket() as attempt:
            if attempt.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.1)
    yield port
    process.terminate()
    process.wait(10)


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HT",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HT",
    ],
    ids=["nothing", "half a head", "half a body", "no second request", "half a second head"],
)
def test_connections_that_say_nothing_or_stop_are_closed(impatient: int, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", impatient)) as connection:
        connection.sendall(sent)
        connection.settimeout(20)
        answer = b""
        while part := connection.recv(1000):
            answer += part
    if sent.startswith(b"POST"):
        assert b" 408 " in answer
    elif sent.endswith(b"\r\n\r\n"):
        assert b" 200 " in answer


def answer_to(port: int, *pieces: bytes) -> bytes:
    """All that a server sends until it closes the connection."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.settimeout(20)
        with contextlib.suppress(ConnectionError):  # it may close while more is sent
            for piece in pieces:
                connection.sendall(piece)
        answer = b""
        with contextlib.suppress(ConnectionError):
            while part := connection.recv(1000):
                answer += part
    return answer


_CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n"


@pytest.mark.parametrize(
    "pieces",
    [
        [b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 70_000 + b"\r\n\r\n"],
        [b"GET / HTTP/1.1\r\nHost: x\r\nA: ", *[b"a" * 1000] * 100],
        [b"GET / HTTP/1.1\r\nHost: x\r\nA", *[b"a" * 1000] * 100],
        [b"GET / HTTP/1.1\r\nHost: x\r\n", *[b"a: b\r\n"] * 200, b"\r\n"],
        [b"GET / HTTP/1.1\r\nHost: x\r\n", *[b"a: " + b"b" * 1000 + b"\r\n"] * 70],
        [b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n"],
        [b"GET /?", *[b"a" * 1000] * 100],
        [_CHUNKED, b"0\r\n", *[b"a: b\r\n"] * 200, b"\r\n"],
        [_CHUNKED, b"0\r\na: ", *[b"a" * 1000] * 100],
        [_CHUNKED, b"1;", *[b"a" * 1000] * 100],
        [b"\r\n" * 1000] * 50,
        [b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 70_000],
    ],
    ids=[
        "one long field",
        "in pieces",
        "long name",
        "many fields",
        "many long fields",
        "long path",
        "long query",
        "many trailers",
        "a long trailer",
        "a long extension of a chunk",
        "empty lines",
        "a second request",
    ],
)
def test_a_head_that_is_too_large_is_answered_at_once_and_closed(
    impatient: int, pieces: list[bytes]
) -> None:
    assert b"HTTP/1.1 431 " in answer_to(impatient, *pieces)


def test_a_head_within_the_limits_is_answered(impatient: int) -> None:
    fields = b"".join(b"a%d: %s\r\n" % (n, b"b" * 600) for n in range(90))
    last = b"Host: x\r\nConnection: close\r\n\r\n"
    assert b" 200 " in answer_to(impatient, b"GET / HTTP/1.1\r\n" + fields + last)
    assert b" 200 " in answer_to(impatient, b"GET /?" + b"a" * 60_000 + b" HTTP/1.1\r\n" + last)
    body = b"".join(b"%x\r\n%s\r\n" % (100_000, bytes(100_000)) for _ in range(20))
    closing = _CHUNKED.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1)
    assert b" 200 " in answer_to(impatient, closing, body, b"0\r\nafter: this\r\n\r\n")


def test_a_connection_that_sends_requests_without_end_is_closed(impatient: int) -> None:
    with socket.create_connection(("127.0.0.1", impatient)) as connection:
        connection.settimeout(20)
        end = time.monotonic() + 20
        with pytest.raises(ConnectionError):
            while time.monotonic() < end:
                connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 1000)


def test_one_connection_takes_no_memory_and_others_are_served(running: Server) -> None:
    assert running.process is not None
    process = psutil.Process(running.process.pid)
    urllib.request.urlopen(running.url).read()
    before = process.memory_info().rss
    small = b"".join(b"a%d: b\r\n" % n for n in range(10_000))
    for piece in (b"a" * 1_000_000, small):
        answer = answer_to(running.port, b"GET / HTTP/1.1\r\nHost: x\r\nb: ", *[piece] * 50)
        assert answer.startswith(b"HTTP/1.1 431 ") or not answer, (
            "the answer is lost where the client only sends"
        )
    assert urllib.request.urlopen(running.url, timeout=20).status == 200
    assert process.memory_info().rss - before < 30e6


def test_messages_do_not_name_the_place_of_an_uploaded_file(tmp_path: Path) -> None:
    uploads = Uploads(tmp_path / "uploads")
    place = uploads.folder / ("a" * 24) / "net.onnx"
    assert uploads.shown(f"{place}: damaged; see {place}") == "net.onnx: damaged; see net.onnx"
    assert (
        uploads.shown(f"{tmp_path}/other/net.onnx: damaged")
        == f"{tmp_path}/other/net.onnx: damaged"
    )


def test_an_ir_is_the_model_of_an_upload_with_its_weights(tmp_path: Path) -> None:
    uploads = Uploads(tmp_path)
    for name in ("net.bin", "net.xml"):
        put(uploads, name, b"<net></net>")
    assert uploads.finish("abcdef0123").name == "net.xml"
