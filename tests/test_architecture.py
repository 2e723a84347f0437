"""How the packages stand to each other."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import get_args

from conftest import ROOT

import editor

PACKAGE = ROOT / "editor"
LAYERS = (
    "graph",
    "devices",
    "runtimes",
    "placement",
    "execution",
    "exports",
    "imports",
    "advice",
    "workspace",
    "web",
    "commands",
)
"""Each may import those before it. ``exports`` and ``imports`` stand side by side."""
SHARED = frozenset(
    {
        "arguments",
        "custom_ops",
        "environment",
        "errors",
        "files",
        "groups",
        "kinds",
        "limits",
        "operating_system",
        "sandbox",
        "startup",
        "terminal",
        "text",
        "version",
        "yaml_text",
    }
)
"""Small modules that everybody may import, and that import nothing but each other."""


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        if "runners" not in path.parts:
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports_of(path: Path, deferred: bool) -> Iterator[str]:
    """Modules of the editor that a file imports: when it is loaded, or with ``deferred`` those inside functions too."""
    tree = ast.parse(path.read_text())
    guards = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    ]
    typing_only = {id(inner) for guard in guards for inner in ast.walk(guard)}
    inside = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only or (not deferred and id(node) in inside):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("editor."))
        elif (
            isinstance(node, ast.ImportFrom)
            and node.module
            and node.module.split(".")[0] == "editor"
        ):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def resolved(name: str, known: dict[str, Path]) -> str:
    """The module that an imported name comes from."""
    while name not in known:
        name = name.rpartition(".")[0]
    return name


def test_imports_between_packages_run_one_way() -> None:
    known, wrong = modules(), []
    for name, path in known.items():
        layer = name.split(".")[1] if "." in name else ""
        for imported in imports_of(path, deferred=True):
            target = resolved(imported, known)
            other = target.split(".")[1] if "." in target else ""
            if other in SHARED or not other or layer in ("", "__main__"):
                continue
            if layer in SHARED or LAYERS.index(other) > LAYERS.index(layer):
                wrong.append(f"{name} imports {target}")
    assert not wrong


def test_no_modules_import_each_other_in_a_circle() -> None:
    known = modules()
    edges = {
        name: {resolved(i, known) for i in imports_of(path, deferred=True)} - {name, "editor"}
        for name, path in known.items()
    }
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join((*trail[trail.index(name) :], name))
        if name not in done:
            for target in sorted(edges[name]):
                visit(target, (*trail, name))
            done.add(name)

    for name in sorted(known):
        visit(name, ())


def test_graph_and_devices_know_no_runtimes_but_the_name_of_their_registry() -> None:
    lower = [
        path
        for name, path in modules().items()
        if name.startswith(("editor.graph", "editor.devices"))
    ]
    assert not [
        path
        for path in lower
        if any("editor.runtimes" in i for i in imports_of(path, deferred=True))
    ]
    named = [path.name for path in lower if "editor.runtimes" in path.read_text()]
    assert named == ["discovery.py"]


def test_protobuf_is_known_to_few() -> None:
    """Above ``graph``, only what cuts, compiles and exports models touches protobuf."""
    may = (
        "editor.graph",
        "editor.runtimes",
        "editor.execution",
        "editor.exports",
        "editor.devices.vocabulary",
        "editor.imports.affinity_files",
    )
    wrong = [
        name
        for name, path in modules().items()
        if not name.startswith(may)
        and any(
            isinstance(n, ast.Import | ast.ImportFrom)
            and "onnx" in ast.unparse(n).split()[1].split(".")[:1]
            for n in ast.walk(ast.parse(path.read_text()))
        )
    ]
    assert not wrong


def test_modules_can_be_read_in_one_sitting() -> None:
    assert not [
        f"{path}: {n} lines"
        for path in modules().values()
        if (n := len(path.read_text().splitlines())) > 800
    ]


def test_help_reads_neither_onnx_nor_numpy() -> None:
    code = (
        "import sys; sys.argv = ['editor', '--help']; from editor.__main__ import main\n"
        "try: main()\nexcept SystemExit: assert not {'onnx', 'numpy', 'onnxruntime', 'dash'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def test_the_public_api_exports_what_it_returns_and_raises() -> None:
    """Names in the annotations of public functions and methods, and every error."""
    from editor import errors

    assert {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.EditorError)
    } <= set(editor.__all__)
    words = {
        word
        for name in editor.__all__
        for annotation in annotations_of(getattr(editor, name))
        for word in re.findall(r"\b[A-Z]\w+", re.sub(r"Literal\[[^]]*\]", "", str(annotation)))
    }
    assert {word for word in words - OF_PYTHON if not hasattr(editor, word)} <= INSIDE


def annotations_of(value: object) -> Iterator[object]:
    """Types of what a public function takes and returns; of a class, those of its fields and its public methods."""
    if not isinstance(value, type):
        yield from getattr(value, "__annotations__", {}).values()
        return
    if is_dataclass(value):
        yield from (field.type for field in fields(value) if not field.name.startswith("_"))
    for name, member in vars(value).items():
        if not name.startswith("_"):
            function = getattr(member, "fget", None) or getattr(member, "func", member)
            function = getattr(function, "__func__", function)
            yield from getattr(function, "__annotations__", {}).values()


OF_PYTHON = {
    *(
        "None",
        "Any",
        "Path",
        "Mapping",
        "Sequence",
        "Iterator",
        "Callable",
        "Collection",
        "PathLike",
    ),
    *("Self", "True", "False", "NDArray", "Literal"),
}
INSIDE = {
    *("Attributes", "Bools", "Ints", "Rows", "Shape", "Floats"),
    *("Deadline", "Expression", "Lack", "OpFields", "OpName", "Placement", "PlanWidget", "RanOn"),
}
"""Arrays and plain values by other names, and what nobody has to name."""


def test_the_public_names_are_complete_and_sorted() -> None:
    assert list(editor.__all__) == sorted(editor.__all__)
    assert all(getattr(editor, name) is not None for name in editor.__all__)
    assert set(editor.__all__) <= set(dir(editor))


def test_names_to_choose_from_are_those_of_the_registries() -> None:
    from editor.exports.formats import FORMATS, ExportForm
    from editor.placement.choices import (
        OPTIONS,
        POLICIES,
        SUBGRAPH_RULES,
        PolicyName,
        SubgraphRuleName,
        grouping_of,
        policy_of,
    )

    assert all(callable(policy_of(name)) for name in POLICIES)
    assert all(callable(grouping_of(name)) for name in SUBGRAPH_RULES)
    homes = [
        home for form in FORMATS.values() for home in (form.writer, form.notes, form.needs) if home
    ]
    assert all(callable(resolve_name(home)) for home in homes)
    assert {name for entry in POLICIES.values() for name in entry.options} == set(OPTIONS)
    assert [set(get_args(one)) for one in (ExportForm, PolicyName, SubgraphRuleName)] == [
        set(FORMATS),
        set(POLICIES),
        set(SUBGRAPH_RULES),
    ]


def test_one_module_uses_what_only_linux_has() -> None:
    only_there = re.compile(
        r"\bfcntl\b|\"/proc\b|\bprctl\b|\bpidfd|os\.(fork|sysconf|getuid)\b|\.SIG(KILL|STOP|CONT)\b|"
        r"\bpthread_sigmask\b|import resource\b"
    )
    found = {p.stem for p in modules().values() if only_there.search(p.read_text())}
    assert found <= {"operating_system", "security"}


def test_private_parts_of_libraries_are_used_in_one_place() -> None:
    private = re.compile(r"\._(sess|iobinding|get_client|get_c_device)\b")
    assert {p.name for p in modules().values() if private.search(p.read_text())} == {"values.py"}
