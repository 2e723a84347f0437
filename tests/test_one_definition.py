"""What a key, a policy, an option or a format needs is one entry: command line, page, docs and Python see it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from conftest import ROOT

ENTRIES = {
    "editor/devices/keys.py": (
        '        Key("name", ',
        """        Key(
            "rack",
            "number of the rack that has it",
            lambda text: int(text) if text.isdigit() else None,
            "a whole number",
            form=FormField("Rack", "7"),
        ),
""",
    ),
    "editor/placement/choices.py": (
        '    "priority": PolicyEntry(',
        '    "last": PolicyEntry("added:last", {"": "Last capable device"}, ("pace",)),\n',
    ),
    "editor/placement/choices.py#option": (
        '    "objective": OptionEntry(',
        '    "pace": OptionEntry("how fast", {"slow": "Slowly", "fast": "Fast"}),\n',
    ),
    "editor/exports/formats.py": (
        '    "plan": Format(',
        '    "names": Format("names of ops", "added:write_names", "Names", options=(Option("case", "of letters", ("as is", '
        '"upper")),)),\n',
    ),
    "editor/imports/formats.py": (
        '    "plan": ImportFormat(',
        '    "pairs": ImportFormat("pairs of op and device", (".pairs",), "added:read_pairs"),\n',
    ),
    "editor/environment.py": (
        "    TRUST,\n    LIBRARIES,",
        '    Variable("HETERO_EDITOR_ADDED", "Is there."),\n',
    ),
}
"""File -> where an entry is put before, and the entry."""
ADDED = """
from editor.files import write_atomic
from editor.imports.affinity_files import ImportedAffinities
from editor.placement.policies.task import Assignment


def last(task):
    allowed = task.constraints.allowed
    return Assignment(allowed.shape[1] - 1 - allowed[:, ::-1].argmax(axis=1), lambda _op: "the last device")


def write_names(placement, out_dir, stamp="", case="as is"):
    text = "\\n".join(placement.graph.op_names)
    return [write_atomic(out_dir / "names.txt", text.upper() if case == "upper" else text)]


def read_pairs(path, text):
    return ImportedAffinities("pairs", dict(line.split("=") for line in text.splitlines()))
"""
LOOK = """
import pathlib, sys
import editor, tables
from editor.web.device_fields import changed_entry, shown
from editor.web.panels.device_form import device_form_panel
from editor.web.panels.export_menu import exports
from editor.web.panels.devices import tools_panel
from editor.web.panels.rules_panel import rules_panel
from editor.workspace.document import Document
from editor.workspace.history import Store
from editor.workspace.solver import Solver, first_decisions


def refused(what, *parts):
    try:
        what()
    except editor.EditorError as error:
        assert all(part in str(error) for part in parts), error
    else:
        raise AssertionError(parts)


model, out = sys.argv[1], pathlib.Path(sys.argv[2])
table = [{"name": "A", "backendName": "CPU", "rack": 3}, {"name": "B", "backendName": "CPU"}]
plan = editor.partition(model, table, policy="last", policy_options={"pace": "slow"})

# Python
assert set(plan.affinity.values()) == {"B"} and plan.devices[0].entry["rack"] == 3
refused(lambda: editor.load_devices([{**table[0], "rack": "top"}]), "rack must be a whole number, not 'top'")
refused(lambda: editor.partition(model, table, policy_options={"pace": "no"}), "pace", "slow, fast")
(path,) = plan.export("names", out, case="upper")
assert path.read_text() == path.read_text().upper() != ""
refused(lambda: plan.export("names", out, case="lower"), "case cannot be 'lower'", "as is, upper")
key = plan.graph.op_keys[plan.placement.placed_ops[0]]
(out / "x.pairs").write_text(f"{key}=A")
moved, report = plan.import_affinities(out / "x.pairs")
assert moved.affinity[key] == "A" and report.kind == "pairs"

# The page
assert ("bundle:names", "Names") in exports(plan.placement)["Other formats"]
assert "pairs of op and device" in str(rules_panel())
assert shown(plan.devices[0])["rack"] == "3" and changed_entry(table[1], "rack", "4")["rack"] == "4"
store = Store(str(out / "workspace"))
record = store.create("net", model, plan.graph.sha256, {}, first_decisions(plan.settings, table))
document = Document(store, record, Solver(plan.graph, store.decisions(record.id, 0), {}))
form = str(device_form_panel(document))
assert "'field': 'rack'" in form and "label='Rack'" in form and "e.g. 7" in form
assert "Last capable device" in str(tools_panel(document))
document.set_devices([{**table[0], "rack": 4}, table[1]])
assert document.history.current.label == "devices: A: rack 4"

# The docs and the schema
texts = {path.name: text for path, text in tables.texts().items()}
assert "`rack` | number of the rack that has it |" in texts["device-tables.md"]
assert '"rack": {' in texts["devices.schema.json"]
assert "| `names` | names of ops | `case=as is\\\\|upper`: of letters |" in texts["exports-imports.md"]
assert "| `.pairs` | pairs of op and device |" in texts["exports-imports.md"]
assert "`pace` | `last` | how fast (`slow`, `fast`) |" in texts["policies.md"]
assert "## HETERO_EDITOR_ADDED" in texts["environment.md"]
"""


def test_one_entry_is_enough(tmp_path: Path) -> None:
    """Before, a key stood in five files, a policy in five, a format in three."""
    tree = tmp_path / "tree"
    shutil.copytree(ROOT / "editor", tree / "editor", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "docs", tree / "docs")
    for name in ("app.py", "assets", "examples"):
        (tree / name).symlink_to(ROOT / name)
    for name, (before, entry) in ENTRIES.items():
        path = tree / name.partition("#")[0]
        text = path.read_text()
        assert text.count(before) == 1, name
        path.write_text(text.replace(before, entry + before))
    (tree / "added.py").write_text(ADDED)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (tree, tree / "docs" / "_tools"))),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }

    def python(*arguments: object) -> str:
        done = subprocess.run(
            [sys.executable, *map(str, arguments)],
            cwd=tree,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    model = ROOT / "examples" / "models" / "mobilenetv2.onnx"
    (tmp_path / "out").mkdir()
    python("-c", LOOK, model, tmp_path / "out")
    command = ("-m", "editor")
    partition = python(*command, "partition", "--help")
    assert (
        "last" in partition
        and "--pace {slow,fast}" in partition
        and "for last: how fast" in partition
    )
    assert "names: case=as is|upper" in " ".join(python(*command, "export", "--help").split())
    assert "pairs of op and device (.pairs)" in " ".join(
        python(*command, "import", "--help").split()
    )
    devices = ("--devices", "HETERO:CPU,Interpreter", "--policy", "last", "--pace", "fast")
    python(*command, "partition", model, *devices, "--out", tmp_path / "cli")
    plan = tmp_path / "cli" / "plan.json"
    python(*command, "export", plan, "--to", "names", "--out", tmp_path / "cli")
    assert (tmp_path / "cli" / "names.txt").exists()
