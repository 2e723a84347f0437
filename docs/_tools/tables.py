"""Writes what the documentation repeats of the editor's registries, between marks, and the JSON Schema of device tables.

`python docs/_tools/tables.py` after a registry has changed; a test says when that was forgotten.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))

from pydantic import TypeAdapter  # noqa: E402

from editor.devices.keys import KEYS, schema  # noqa: E402
from editor.environment import LIMITS, VARIABLES  # noqa: E402
from editor.execution.measure.figures import BenchmarkResult  # noqa: E402
from editor.exports.formats import FORMATS as EXPORTS  # noqa: E402
from editor.imports.formats import FORMATS as IMPORTS  # noqa: E402
from editor.placement.choices import OPTIONS, POLICIES  # noqa: E402
from editor.placement.rules import schema as rules_schema  # noqa: E402
from editor.web.panels.words import WORDS  # noqa: E402
from editor.workspace.plan_file import schema as plan_schema  # noqa: E402

REFERENCE = ROOT / "docs" / "reference"
_MARKED = re.compile(r"(<!-- (\w+): [^>]*-->\n).*?(\n<!-- end -->)", re.DOTALL)


def table(head: str, rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    columns = head.split(",")
    cells = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def sections() -> dict[str, str]:
    """Name of a mark -> what stands there."""
    return {
        "keys": table("key,meaning", ((f'<a id="key-{key.name}"></a>`{key.name}`', key.text) for key in KEYS.values())),
        "exports": table(
            "format,for,options,of devices",
            (
                (
                    f"`{name}`",
                    form.text,
                    "; ".join(f"`{option.usage}`: {option.text}".replace("|", "\\|") for option in form.options),
                    ", ".join(f"`{which}`" for which in form.devices) or "any",
                )
                for name, form in EXPORTS.items()
            ),
        ),
        "imports": table(
            "file,is",
            (
                (", ".join(f"`{suffix}`" for suffix in form.suffixes), form.text)
                for form in IMPORTS.values()
                if not form.times
            ),
        ),
        "options": table(
            "option,policies,what it is",
            (
                (
                    f'<a id="option-{name}"></a>`{name}`',
                    ", ".join(f"`{policy}`" for policy, entry in POLICIES.items() if name in entry.options),
                    option.text + (f" ({', '.join(f'`{value}`' for value in option.values)})" if option.values else ""),
                )
                for name, option in OPTIONS.items()
            ),
        ),
        "limits": table(
            "environment variable,limit,default",
            ((f"[`{one.name}`](environment.md#{one.name.lower()})", one.text, one.default) for one in LIMITS.values()),
        ),
        "variables": "\n".join(
            f"## {one.name}\n\n{one.text}{f' Default: {one.default}.' if one.default else ''}\n" for one in VARIABLES
        ),
        "words": "\n".join(f"## {word}\n\n{text}\n" for word, text in sorted(WORDS.items())),
        "routes": "\n".join(routes()),
        "commands": table("key,what it does", shortcuts()),
    }  # fmt: skip


def shortcuts() -> Iterable[tuple[str, str]]:
    """Keys of the page, from the table of its commands."""
    text = (ROOT / "assets" / "commands.js").read_text(encoding="utf-8")
    for words, keys, shown in re.findall(
        r'words: "([^"]+)",\s*keys: \[((?:"[^"]*",? ?)+)\](?:,\s*shown: "([^"]+)")?', text
    ):
        names = ["Space" if key == " " else key for key in re.findall(r'"([^"]+)"', keys)]
        yield f"`{shown or ', '.join(names)}`", words


def routes() -> Iterable[str]:
    """A section for each HTTP route, from the OpenAPI file."""
    api = json.loads((REFERENCE / "openapi.json").read_text(encoding="utf-8"))
    for path, methods in api["paths"].items():
        for method, route in methods.items():
            text = " ".join(route["description"].replace("``", "`").split())
            query = [
                f"`{one['name']}`" for one in route.get("parameters", ()) if one["in"] == "query"
            ]
            taken = [f"`{name}`" for name in _schemas(route.get("requestBody", {}))]
            given = [
                f"`{name}`"
                for code, one in route["responses"].items()
                if code == "200"
                for name in _schemas(one)
            ]
            lines = [("Query", query), ("Body", taken), ("Answer", given)]
            yield f"### {method.upper()} {path}\n\n{text}\n\n" + "".join(
                f"- {name}: {', '.join(names)}.\n" for name, names in lines if names
            )


def _schemas(part: object) -> list[str]:
    """Names of the schemas of a body."""
    return sorted(set(re.findall(r"#/components/schemas/(\w+)", json.dumps(part))))


def texts() -> dict[Path, str]:
    """Each file that is written, wholly or between marks -> its text as it should be."""
    parts = sections()
    pages = {
        path: _MARKED.sub(lambda m: f"{m[1]}\n{parts[m[2]]}\n{m[3]}", path.read_text(encoding="utf-8"))
        for path in sorted(REFERENCE.glob("*.md"))
    }  # fmt: skip
    schemas = {
        "devices": schema(),
        "rules": rules_schema(),
        "plan": plan_schema(),
        "results": results_schema(),
    }
    return pages | {
        REFERENCE / f"{name}.schema.json": json.dumps(each, indent=1) + "\n"
        for name, each in schemas.items()
    }


def results_schema() -> dict[str, object]:
    """Of what ``bench --json`` writes: a list of results."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Benchmark results of Hetero Editor, times in seconds",
        **TypeAdapter(list[BenchmarkResult]).json_schema(mode="serialization"),
    }


if __name__ == "__main__":
    for path, text in texts().items():
        path.write_text(text, encoding="utf-8")
