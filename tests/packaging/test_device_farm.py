"""What docs/device-farm.md tells to type, typed: certificates, a scheduler and a worker with them, the unit, the container."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import EXAMPLES, ROOT
from pages import free_port

from editor.__main__ import _parser

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs" / "device-farm.md").read_text()
SCHEDULER = "192.168.1.10:8786"


def blocks(section: str) -> list[str]:
    """The indented blocks of a section."""
    text = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    assert text, section
    found = re.findall(r"(?:^    .*\n(?:\n(?=    ))?)+", text, re.M)
    return [re.sub(r"^    ", "", block, flags=re.M) for block in found]


def lines(block: str) -> list[str]:
    """Commands, with continued lines joined."""
    return [
        line
        for line in block.replace("\\\n", " ").splitlines()
        if line.strip() and not line.startswith("#")
    ]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the lines about certificates were run."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl")
    folder = tmp_path_factory.mktemp("certificates")
    done = subprocess.run(
        ["sh", "-eu", "-c", blocks("Certificates")[0]],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("machine", ["scheduler", "editor", "edge", "server"])
def test_certificates_hold_by_the_strict_rules_that_newer_pythons_apply(
    certificates: Path, machine: str
) -> None:
    check = re.search(r"`(openssl verify [^`]*)`", PAGE)
    assert check is not None
    said = subprocess.run(
        shlex.split(check[1].replace("edge", machine)),
        cwd=certificates,
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    context = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
    context.load_cert_chain(certificates / f"{machine}.pem", certificates / f"{machine}.key")
    assert (certificates / f"{machine}.key").stat().st_mode & 0o077 == 0, (
        "nobody else may read a key"
    )


def test_scheduler_worker_and_editor_meet_with_these_certificates(
    certificates: Path, tmp_path: Path
) -> None:
    scheduler, worker, bench = lines(blocks("Certificates")[1])
    address = f"127.0.0.1:{free_port()}"
    port = address.rpartition(":")[2]
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "XDG_CACHE_HOME": str(tmp_path),
    }
    running: list[subprocess.Popen[str]] = []

    def start(command: str, ready: str) -> None:
        command = command.replace(SCHEDULER, address).replace(
            "--port 8786", f"--host 127.0.0.1 --port {port}"
        )
        process = subprocess.Popen(
            f"exec {command} 2>&1",
            shell=True,
            cwd=certificates,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        running.append(process)
        assert process.stdout is not None and any(ready in line for line in process.stdout), (
            f"{command} has ended"
        )

    credentials = bench[bench.index("--scheduler") :].replace(SCHEDULER, address)
    try:
        start(scheduler, "Scheduler at")
        start(worker, "edge offers its devices")
        for command in (
            f"python -m editor devices {credentials}",
            f"python -m editor partition {EXAMPLES}/models/mobilenetv2.onnx --devices HETERO:edge/CPU --out out "
            f"{credentials}",
            f"{bench.replace(SCHEDULER, address)} --seconds 0.3",
        ):
            done = subprocess.run(
                command,
                shell=True,
                cwd=certificates,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            assert "edge/CPU" in done.stdout, command
        without = subprocess.run(
            f"python -m editor devices --scheduler tcp://{address}",
            shell=True,
            cwd=certificates,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert "edge/CPU" not in without.stdout, "without a certificate nobody gets in"
    finally:
        for process in running[::-1]:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(20)


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze")
    (unit,) = blocks("As a service")
    assert "/opt/hetero/.venv/bin/python" in unit
    path = tmp_path / "hetero-worker.service"
    path.write_text(unit.replace("/opt/hetero/.venv/bin/python", sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(path)], capture_output=True, text=True, check=False
    )
    assert "hetero-worker" not in done.stderr and done.returncode == 0, done.stderr
    path.write_text(path.read_text().replace("RestartSec=5", "RestartSeconds=5"))
    wrong = subprocess.run(
        ["systemd-analyze", "verify", str(path)], capture_output=True, text=True, check=False
    )
    assert "RestartSeconds" in wrong.stderr, "it would have said so"


def test_every_command_of_the_page_is_one_that_the_editor_takes() -> None:
    commands = [
        command
        for name in ("On one machine, to try it", "Certificates", "Containers")
        for block in blocks(name)
        for command in re.findall(r"python -m editor ([^&\n]*)", block.replace("\\\n", " "))
    ]
    commands += re.findall(r"-m editor (worker .*)", blocks("As a service")[0].replace("\\\n", " "))
    assert len(commands) >= 9
    for command in commands:
        _parser().parse_args(shlex.split(command))


def test_docker_takes_the_options_and_the_image_has_the_folder() -> None:
    (block,) = blocks("Containers")
    words = shlex.split(block.replace("\\\n", " "))
    volume = words[words.index("hetero-data:/data")].partition(":")[2]
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert f'VOLUME ["{volume}"]' in dockerfile, "a folder that its user may write to"
    assert f"XDG_CACHE_HOME={volume}/" in dockerfile, "where weights are kept"
    assert "--uid 1000" in dockerfile and "user 1000" in PAGE
    if shutil.which("docker") is None:
        pytest.skip("there is no docker; its options were not checked")
    environment = {**os.environ, "DOCKER_HOST": "unix:///nowhere/docker.sock"}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    assert "daemon" in done.stderr and "unknown" not in done.stderr, done.stderr
    words.insert(2, "--no-such-option")
    wrong = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    assert "unknown" in wrong.stderr, "it would have said so"
