"""The embedded cluster serves the process that started it, and leaves nothing behind."""

from __future__ import annotations

import signal
import socket
import ssl
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from conftest import ROOT
from distributed import Security

from editor.execution.jobs.client import JobClient
from editor.execution.jobs.credentials import PrivateFolder, write_credentials
from editor.execution.jobs.service import JobService


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("jobs")


@pytest.fixture(scope="module")
def jobs(folder: Path) -> Iterator[JobService]:
    made = JobService(folder=folder)
    made.start()
    yield made
    made.close()


def _ports() -> set[int]:
    here = psutil.Process()
    return {
        connection.laddr.port
        for process in (here, *here.children(recursive=True))
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }


def test_whoever_has_no_credentials_or_others_cannot_connect(
    jobs: JobService, tmp_path: Path
) -> None:
    address = jobs._client.scheduler.address
    assert address.startswith("tls://127.0.0.1:")
    certificate, key = map(str, write_credentials(tmp_path))
    others = Security(
        tls_ca_file=certificate,
        tls_client_cert=certificate,
        tls_client_key=key,
        require_encryption=True,
    )
    with pytest.raises(OSError, match="certificate does not match|Timed out"):
        JobClient(address, security=others, timeout=2, set_as_default=False)
    with pytest.raises((OSError, TypeError)):
        JobClient(address, timeout=2, set_as_default=False)
    with pytest.raises(OSError):
        JobClient(address.replace("tls", "tcp"), timeout=2, set_as_default=False)


def test_a_client_that_cannot_connect_leaves_nothing_for_the_garbage_collector_to_close() -> None:
    before = {thread.ident for thread in threading.enumerate()}
    with pytest.raises(OSError) as failed:
        JobClient("tcp://127.0.0.1:1", timeout=1, set_as_default=False)
    (client,) = (
        entry.frame.f_locals["self"]
        for entry in failed.traceback
        if entry.name == "start" and entry.path.name == "client.py" and "jobs" in entry.path.parts
    )
    assert client.status == "closed"
    assert not [
        t.name for t in threading.enumerate() if t.ident not in before and t.name == "IO loop"
    ]


def test_every_port_wants_a_certificate_and_none_speaks_http(jobs: JobService) -> None:
    ports = _ports()
    assert len(ports) >= 3, "the scheduler, the nanny and the worker"
    for port in ports:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as plain:
            plain.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            try:
                assert b"HTTP" not in plain.recv(100)
            except ConnectionResetError:
                pass
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with pytest.raises((ssl.SSLError, ConnectionError)):
            _ask_without_certificate(context, port)


def _ask_without_certificate(context: ssl.SSLContext, port: int) -> None:
    with (
        socket.create_connection(("127.0.0.1", port), timeout=5) as raw,
        context.wrap_socket(raw) as nobody,
    ):
        nobody.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        if not nobody.recv(100):
            raise ConnectionError("closed")


def test_only_the_owner_reads_the_credentials(jobs: JobService, folder: Path) -> None:
    (private,) = folder.iterdir()
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    for name in ("certificate.pem", "key.pem", "lock"):
        assert stat.S_IMODE((private / name).stat().st_mode) == 0o600


def test_a_closed_service_leaves_no_folder_and_no_process(tmp_path: Path) -> None:
    before = set(psutil.Process().children(recursive=True))
    jobs = JobService(folder=tmp_path)
    jobs.start()
    (private,) = tmp_path.iterdir()
    assert (private / "dask-scratch-space").is_dir()
    jobs.close()
    left = {
        p: " ".join(p.cmdline()) for p in set(psutil.Process().children(recursive=True)) - before
    }
    _, alive = psutil.wait_procs(
        [p for p, command in left.items() if "resource_tracker" not in command], timeout=20
    )
    assert not [left[p] for p in alive]
    assert list(tmp_path.iterdir()) == []


def test_the_next_start_removes_what_a_killed_process_left_and_nothing_of_a_living_one(
    tmp_path: Path,
) -> None:
    code = (
        "import os, pathlib, signal, sys\nfrom editor.execution.jobs.credentials import PrivateFolder\n"
        "made = PrivateFolder(pathlib.Path(sys.argv[1]))\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 1
    living = PrivateFolder(tmp_path)
    assert list(tmp_path.iterdir()) == [living.path]
    second = PrivateFolder(tmp_path)
    assert set(tmp_path.iterdir()) == {living.path, second.path}
    for each in (living, second):
        each.remove()
    assert list(tmp_path.iterdir()) == []
