"""Checks the locks against pyproject.toml, and that what users install has a permissive licence or MPL-2.0."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
LICENCES = frozenset(
    {
        "0BSD",
        "3-Clause BSD License",
        "Apache Software License",
        "Apache-2.0",
        "BSD",
        "BSD License",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "CC0-1.0",
        "ISC",
        "MIT",
        "MIT License",
        "MIT-0",
        "MPL-2.0",
        "Mozilla Public License 2.0 (MPL 2.0)",
        "PSF-2.0",
        "Zlib",
    }
)
"""Any other needs the decision of a person."""
_OWN = "hetero-editor (pyproject.toml"


def faults_of_lock(name: str, lock: str, wanted: list[str]) -> list[str]:
    """What is missing in a lock, or does not fit, in words."""
    faults, versions = [], {}
    required = {canonicalize_name(r.name): r for r in map(Requirement, wanted)}
    for block in re.split(r"^(?=[a-z0-9])", lock, flags=re.M)[1:]:
        package, version = re.match(r"([a-z0-9._-]+)==([^\s;\\]+)", block).groups()
        package = canonicalize_name(package)
        versions.setdefault(package, []).append(version)
        if "--hash=sha256:" not in block:
            faults.append(f"{package} {version} has no hash")
        if _OWN in block and package not in required:
            faults.append(f"{package} is not in pyproject.toml")
    for package, requirement in required.items():
        if package not in versions:
            faults.append(f"{package} is missing")
        faults += [
            f"{package} {version} does not fit {requirement.specifier}"
            for version in versions.get(package, ())
            if not requirement.specifier.contains(version)
        ]
    return [f"{name}: {fault}; run `make lock`" for fault in faults]


def faults_of_licences(packages: list[dict[str, str]]) -> list[str]:
    """Packages whose licence is not in the list; of ``A OR B`` one must be, of ``A AND B`` and ``A; B`` all."""

    def permitted(text: str) -> bool:
        return any(
            all(part in LICENCES for part in re.split(r" AND |; ", choice))
            for choice in text.split(" OR ")
        )

    return [
        f"{p['Name']}: the licence {p['License']!r} is not in the list of .ci/dependencies.py"
        for p in packages
        if not permitted(p["License"])
    ]


def main() -> int:
    """Prints the faults; 1 when there are any."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    locks = {
        "requirements.txt": project["project"]["dependencies"],
        **{
            f"requirements-{name}.txt": listed
            for name, listed in project["dependency-groups"].items()
        },
    }
    faults = [
        fault
        for name, wanted in locks.items()
        for fault in faults_of_lock(name, (ROOT / name).read_text(), wanted)
    ]
    names = re.findall(r"^([a-z0-9._-]+)==", (ROOT / "requirements.txt").read_text(), re.M)
    listed = subprocess.run(
        [
            sys.executable,
            "-m",
            "piplicenses",
            "--from=mixed",
            "--format=json",
            "--packages",
            *names,
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    faults += faults_of_licences(json.loads(listed))
    print("\n".join(faults))
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
