"""The types of the page's scripts are made from the messages of the server; lint checks that they are made anew."""

from __future__ import annotations

import json
from typing import get_args, get_type_hints

from conftest import ROOT

from editor.placement.filter import EXPANSIONS
from editor.web import messages
from editor.web.panels.devices import GROW


def test_the_page_names_every_way_to_grow_a_selection() -> None:
    assert (
        get_args(get_type_hints(messages.Grow)["how"])
        == EXPANSIONS
        == tuple(how for how, *_ in GROW)
    )


def test_the_documented_routes_have_texts_and_are_explained() -> None:
    described = json.loads((ROOT / "docs" / "reference" / "openapi.json").read_text())
    guide = (ROOT / "docs" / "reference" / "http.md").read_text()
    for path, methods in described["paths"].items():
        for method, what in methods.items():
            assert what["description"], path
            assert f"### {method.upper()} {path}\n" in guide, f"{method} {path} is not in http.md"
