"""Writes the OpenAPI file of the page's routes, and the JSON Schema of its messages for `json2ts`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, cast

from fastapi import FastAPI

import editor
from editor.web.app_state import AppState
from editor.web.routes import canvas_routes


def main(openapi: Path, messages: Path) -> None:
    """Writes both."""
    server = FastAPI(
        title="Hetero Editor",
        version=editor.__version__.partition("+")[0],
        summary="What the page's scripts ask of the server; see http.md.",
    )
    server.include_router(canvas_routes(cast(AppState, None)))
    described = server.openapi()
    openapi.write_text(json.dumps(described, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    schemas = {
        name: each
        for name, each in described["components"]["schemas"].items()
        if "Validation" not in name
    }
    text = json.dumps(
        {"definitions": _without_titles(schemas), "title": "Definitions", "type": "object"}
    )
    messages.parent.mkdir(exist_ok=True)
    messages.write_text(text.replace("#/components/schemas/", "#/definitions/"), encoding="utf-8")


def _without_titles(schema: Any) -> Any:
    """A schema whose fields have no names of their own: each would become a type."""
    if isinstance(schema, list):
        return [_without_titles(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _without_titles(value)
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str))
        and key not in ("minimum", "exclusiveMaximum", "discriminator")
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
