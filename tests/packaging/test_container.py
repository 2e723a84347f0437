"""The Dockerfile names what exists, as far as that can be checked without a daemon."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase

import yaml
from conftest import ROOT, python


def _instructions() -> list[tuple[str, str]]:
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.M).replace("\\\n", " ")
    return [
        (line.split(None, 1)[0], line.split(None, 1)[1])
        for line in text.splitlines()
        if line.strip()
    ]


def _is_ignored(path: str) -> bool:
    """Whether .dockerignore keeps a top-level path out of the build; the last line that matches decides."""
    ignored = False
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        pattern = line.strip().removeprefix("!")
        if pattern and not pattern.startswith("#") and fnmatchcase(path, pattern):
            ignored = not line.startswith("!")
    return ignored


def test_what_is_copied_exists_and_is_sent_to_the_daemon() -> None:
    copies = [rest.split()[:-1] for name, rest in _instructions() if name == "COPY"]
    assert copies
    for source in (one for sources in copies for one in sources):
        assert (ROOT / source).exists(), source
        assert not _is_ignored(source.rstrip("/")), source


def test_files_of_the_repository_are_not_sent_to_the_daemon() -> None:
    for path in (".git", ".venv", "tests", "docs", "build", "dist"):
        assert _is_ignored(path)


def test_everything_that_the_editor_imports_is_copied() -> None:
    copied = " ".join(rest for name, rest in _instructions() if name == "COPY")
    for name in ("editor", "assets", "examples", "app.py", "requirements.txt"):
        assert name in copied


def test_requirements_are_installed_with_hashes_and_the_server_is_not_root() -> None:
    steps = _instructions()
    assert any(
        name == "RUN" and "--require-hashes -r requirements.txt" in rest for name, rest in steps
    )
    names = [name for name, _ in steps]
    assert names.index("USER") < names.index("CMD")


def test_the_command_of_the_container_is_one_that_app_takes() -> None:
    command = json.loads(dict(_instructions())["CMD"])
    assert command[:2] == ["python", "app.py"]
    text = python("app.py", "--help", cwd=ROOT, check=True).stdout
    for option in (part for part in command if part.startswith("--")):
        assert option in text
    assert "EXPOSE 8050" in (ROOT / "Dockerfile").read_text()


def test_every_line_of_the_locks_has_a_hash() -> None:
    for path in sorted(ROOT.glob("requirements*.txt")):
        pins = re.split(r"^(?=[a-z0-9])", path.read_text(), flags=re.M)[1:]
        assert pins
        for pin in pins:
            assert re.match(r"[a-z0-9._-]+==\S+", pin) and "--hash=sha256:" in pin, (
                f"{path.name}: {pin.splitlines()[0]}"
            )


def test_hooks_before_a_commit_call_tools_that_exist() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    assert [hook["id"] for hook in hooks] == ["ruff", "mypy", "lint-web"]
    assert all(hook["language"] == "system" for hook in hooks)
