"""Finds the libraries of plugin execution providers: those of installed packages, and local builds.

No package of an execution provider has entry points. What they have in common are functions in ``__init__.py`` that give
the path of the library and the names of its providers. So that text is looked for in the installed packages,
without importing them; asking the metadata of every distribution would take 0.2 to 0.5 s.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

from editor.startup import installed_folders

LIBRARIES_VARIABLE = "HETERO_EDITOR_EP_LIBRARIES"
"""Environment variable: ``name=path`` of local builds, separated as in ``PATH``. No other file is loaded because a table
names it: a device table may come from a stranger."""
_MAX_INIT_BYTES = 1 << 16
_GIVES_PATH = re.compile(rb"^def (?:get_)?library_path\b", re.MULTILINE)
_GIVES_NAME = re.compile(rb"\bget_ep_names?\b|\bEP_NAMES?\b")
_VIRTUAL = ".virtual"
"""A registration under a name that ends so adds devices that only compile."""


@dataclass(frozen=True)
class PluginLibrary:
    """A library of execution providers, or the package that knows its path."""

    name: str
    """Of the package, or the name that the environment variable gives it."""
    module: str = ""
    """The package; "" for a local build."""
    path: str = ""
    """Of a local build."""

    @property
    def stamp(self) -> tuple[object, ...]:
        """Changes with the files of the library."""
        folder = Path(self.module).parent if self.module else Path(self.path).parent
        try:
            files = [(e.name, e.stat().st_size, e.stat().st_mtime_ns) for e in os.scandir(folder) if e.is_file()]
        except OSError:
            files = []
        return self.name, self.module, self.path, sorted(files)


def plugin_libraries() -> tuple[PluginLibrary, ...]:
    """Every library that this machine has: local builds first, then those of installed packages."""
    return (*local_builds(), *_packages(installed_folders()))


def local_builds() -> tuple[PluginLibrary, ...]:
    """Libraries of the environment variable."""
    found = []
    for part in os.environ.get(LIBRARIES_VARIABLE, "").split(os.pathsep):
        name, given, path = part.strip().partition("=")
        if name:
            found.append(PluginLibrary(name if given else Path(name).stem, path=path if given else name))
    return tuple(found)


@cache
def _packages(folders: tuple[str, ...]) -> tuple[PluginLibrary, ...]:
    return tuple(_packages_in(folders))


def _packages_in(folders: Iterable[str]) -> Iterator[PluginLibrary]:
    seen: set[str] = set()
    for folder in folders:
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            if entry.name in seen or not entry.name.isidentifier():
                continue
            init = Path(entry.path, "__init__.py")
            if _is_plugin(init):
                seen.add(entry.name)
                yield PluginLibrary(entry.name, module=str(init))


def _is_plugin(init: Path) -> bool:
    try:
        with init.open("rb") as file:
            text = file.read(_MAX_INIT_BYTES)
    except OSError:
        return False
    return bool(_GIVES_PATH.search(text) and _GIVES_NAME.search(text))


def path_and_names(library: PluginLibrary) -> tuple[str, list[str]]:
    """The file of a library, and the names of its providers as far as it says so.

    Imports the package, so call it only where that may fail.

    Raises:
        Exception: whatever the package raises.
    """
    if not library.module:
        if not Path(library.path).is_file():
            raise FileNotFoundError(f"{library.path}: no such file ({LIBRARIES_VARIABLE})")
        return str(Path(library.path).resolve()), [library.name]
    module = import_module(library.name)
    path = getattr(module, "get_library_path", None) or module.library_path
    names = getattr(module, "get_ep_names", None) or getattr(module, "get_ep_name", None) or getattr(
        module, "EP_NAMES", None) or getattr(module, "EP_NAME", None)
    listed = names() if callable(names) else names
    given = [listed] if isinstance(listed, str) else list(listed or [library.name])
    return str(path() if callable(path) else path), [name for name in given if not name.endswith(_VIRTUAL)]
