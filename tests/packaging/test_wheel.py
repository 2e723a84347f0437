"""The wheel, installed in an empty environment, does what the checkout does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT
from pages import free_port

pytestmark = pytest.mark.slow

OURS = dict(os.environ)
"""The environment before the tests moved the caches; without the cache every run downloads half a gigabyte."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source distribution as `make wheel` builds it."""
    out = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)],
        check=True,
        capture_output=True,
    )
    assert len(list(out.glob("*.tar.gz"))) == 1
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` folder of an environment that holds the wheel and its dependencies, at the versions of the lock."""
    folder = tmp_path_factory.mktemp("installed")
    pins = folder / "constraints.txt"
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    pinned = [line.removesuffix(" \\") for line in lines if re.match("[a-z0-9].*==", line)]
    pins.write_text("\n".join(pinned))
    uv = [sys.executable, "-m", "uv", "--quiet"]
    subprocess.run(
        [*uv, "venv", "--python", sys.executable, str(folder / "venv")], check=True, env=OURS
    )
    subprocess.run(
        [
            *uv,
            "pip",
            "install",
            "--python",
            str(folder / "venv" / "bin" / "python"),
            "-c",
            str(pins),
            str(wheel),
        ],
        check=True,
        env=OURS,
    )
    return folder / "venv" / "bin"


def _environment(home: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return {**kept, "XDG_DATA_HOME": str(home / "data"), "XDG_CACHE_HOME": str(home / "cache")}


def _run(installed: Path, folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [installed / "hetero-editor", *arguments],
        check=False,
        cwd=folder,
        env=_environment(folder),
        text=True,
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _site_packages(installed: Path) -> Path:
    return next((installed.parent / "lib").glob("python3*/site-packages"))


def test_the_wheel_holds_every_file_that_the_editor_reads(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder, inside in (
        ("assets", "editor/assets"),
        ("examples", "editor/examples"),
        ("editor", "editor"),
    ):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert f"{inside}/{path.relative_to(ROOT / folder).as_posix()}" in names
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert not [name for name in names if name.endswith(".pyc") or name.startswith("tests/")]


def test_help_names_the_commands(installed: Path, tmp_path: Path) -> None:
    assert "partition" in _run(installed, tmp_path, "--help")


def test_devices_are_listed(installed: Path, tmp_path: Path) -> None:
    assert "ONNX Runtime" in _run(installed, tmp_path, "devices")


def test_a_bundled_model_is_partitioned(installed: Path, tmp_path: Path) -> None:
    examples = _site_packages(installed) / "editor" / "examples"
    _run(
        installed,
        tmp_path,
        "partition",
        str(examples / "models" / "mobilenetv2.onnx"),
        "--devices",
        str(examples / "devices" / "runtimes.yaml"),
        "--out",
        "out",
    )
    assert (tmp_path / "out" / "plan.json").is_file()


def test_the_types_of_the_api_are_published(installed: Path) -> None:
    assert (_site_packages(installed) / "editor" / "py.typed").is_file()


@pytest.fixture
def address(installed: Path, tmp_path: Path) -> Iterator[str]:
    """A server of the installed editor."""
    port = free_port()
    process = subprocess.Popen(
        [
            installed / "hetero-editor",
            "open",
            "--no-browser",
            "--no-token",
            "--port",
            str(port),
            "--workspace",
            str(tmp_path / "workspace"),
        ],
        cwd=tmp_path,
        env=_environment(tmp_path),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def test_the_page_and_its_files_are_served(address: str) -> None:
    page = _get(address + "/", seconds=60)
    assert "Hetero Editor" in page
    assets = re.findall(r'(?:src|href)="(/_bundle/[^"]+)"', page)
    assert {path[-3:] for path in assets} == {".js", "css"}, (
        "the page names its own scripts and styles"
    )
    for path in assets:
        assert _get(address + path.replace("&amp;", "&"), seconds=10)


def _get(url: str, seconds: float) -> str:
    end = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(url, timeout=20) as answer:
                assert answer.status == 200
                return str(answer.read().decode())
        except (urllib.error.URLError, ConnectionError):
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


def test_the_command_is_not_what_debian_starts_to_edit_files(installed: Path) -> None:
    """Debian's `git commit`, `crontab -e` and `visudo` start a program called `editor`, found by PATH."""
    assert (installed / "hetero-editor").is_file()
    assert not [name for name in ("editor", "vi", "nano", "pager") if (installed / name).exists()]
