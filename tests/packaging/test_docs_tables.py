"""The documentation says of keys, formats, options and variables what the registries say."""

from __future__ import annotations

import ast
import json
import re
import sys
from dataclasses import fields
from pathlib import Path

import jsonschema
import pytest
import yaml
from conftest import EXAMPLES, ROOT
from decoders import plain_decoder

import editor
from editor.devices.published import preset_names
from editor.environment import LIMITS, VARIABLES
from editor.files import json_text
from editor.limits import Limits
from editor.placement.choices import POLICIES, SUBGRAPH_RULES

sys.path.append(str(ROOT / "docs" / "_tools"))

import tables

REFERENCE = ROOT / "docs" / "reference"
SCHEMA = json.loads((REFERENCE / "devices.schema.json").read_text())


def test_pages_and_schema_are_those_of_the_registries() -> None:
    old = [p.name for p, text in tables.texts().items() if p.read_text(encoding="utf-8") != text]
    assert not old, "python docs/_tools/tables.py"


def test_every_part_is_in_a_page() -> None:
    pages = "".join(path.read_text() for path in REFERENCE.glob("*.md"))
    assert all(f"<!-- {name}: " in pages for name in tables.sections())


def test_policies_and_rules_of_subgraphs_have_a_row() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", (REFERENCE / "policies.md").read_text(), re.M)
    assert {*POLICIES, *SUBGRAPH_RULES} <= set(rows)


@pytest.mark.parametrize(
    "path", sorted((EXAMPLES / "devices").glob("*.yaml")), ids=lambda p: p.name
)
def test_the_schema_takes_the_example_tables(path: object) -> None:
    jsonschema.validate(yaml.safe_load(path.read_text()), SCHEMA)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", preset_names())
def test_the_schema_takes_the_presets(name: str) -> None:
    keys = yaml.safe_load((EXAMPLES / "devices" / "presets" / f"{name}.yaml").read_text())
    keys = {k: v.isoformat() if hasattr(v, "isoformat") else v for k, v in keys.items()}
    jsonschema.validate([{"name": "NPU", **keys}], SCHEMA)


@pytest.mark.parametrize(
    "entry", [{"nam": "A"}, {"static": "yes"}, {"link": {"speed": 1}}, {"name": []}]
)
def test_the_schema_refuses_what_is_no_table(entry: dict[str, object]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate([entry], SCHEMA)


def schema_of(name: str) -> dict[str, object]:
    return dict(json.loads((REFERENCE / f"{name}.schema.json").read_text()))


def test_the_schemas_take_what_is_written(tmp_path: Path) -> None:
    rules = [{"type": "MatMul", "nth": "0:2", "to": "B"}, {"layer": 1, "to": "A"}]
    table = [{"name": "A", "backendName": "CPU"}, {"name": "B", "backendName": "CPU"}]
    jsonschema.validate(rules, schema_of("rules"))
    path = plain_decoder(tmp_path / "decoder.onnx")
    plan = editor.partition(path, table, "optimal", {"logits": "A"}, rules)
    plan = plan.phases(16, 4)[0]
    assert plan.prompt is not None
    stored = json.loads(plan.to_json())
    jsonschema.validate(stored, schema_of("plan"))
    assert set(stored) <= set(schema_of("plan")["properties"])  # type: ignore[call-overload]
    result = plan.benchmark(seconds=0.2)
    jsonschema.validate(json.loads(json_text([result.to_dict()])), schema_of("results"))


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("rules", [{"type": "Conv"}]),
        ("rules", [{"kind": "Conv", "to": "A"}]),
        ("plan", {"format": "hetero-editor/plan", "version": 1}),
        ("results", [{"plan": "a"}]),
    ],
)
def test_the_schemas_refuse_what_is_none(name: str, wrong: object) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, schema_of(name))


def test_environment_variables_are_read_from_their_list_alone() -> None:
    """Names of variables are in the list, and elsewhere in texts at most."""
    stated = {name: one.default for name, one in LIMITS.items() if name != "memory"}
    assert stated == {f.name: f"{f.default:,.0f}" for f in fields(Limits) if f.name != "memory"}
    names, homes = {one.name for one in VARIABLES}, set()
    for path in (ROOT / "editor").rglob("*.py"):
        text = path.read_text()
        found = set(re.findall(r"\bHETERO_\w*[A-Z]\b", text))
        assert found <= names, path
        homes |= {
            path.name
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and re.fullmatch(r"HETERO_\w+", node.value)
        }
    assert homes == {"environment.py"}
