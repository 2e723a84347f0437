"""The page and the server declare the same messages."""

from __future__ import annotations

import re
from typing import NotRequired, get_args, get_origin, get_type_hints, is_typeddict

import pytest
from conftest import ROOT

from editor.errors import EditorError
from editor.placement.filter import EXPANSIONS
from editor.web import messages
from editor.web.drawing import cytoscape_types
from editor.web.panels.devices import GROW
from editor.web.validation import require

_DECLARED = re.compile(r"^  interface (\w+) \{\n(.*?)^  \}", re.M | re.S)
_FIELD = re.compile(r"^    (\w+)(\??):", re.M)


def test_the_scripts_declare_the_messages_of_the_server() -> None:
    text = (ROOT / "types" / "messages.d.ts").read_text()
    scripts = {
        name: {field: not optional for field, optional in _FIELD.findall(body)}
        for name, body in _DECLARED.findall(text)
    }
    server = {}
    for name, kind in (vars(messages) | vars(cytoscape_types)).items():
        if is_typeddict(kind) and not name.startswith("_"):
            hints = get_type_hints(kind, include_extras=True)
            server[name] = {
                field: get_origin(hint) is not NotRequired for field, hint in hints.items()
            }
    assert len(server) > 40
    assert scripts == server


def test_the_page_names_every_way_to_grow_a_selection() -> None:
    assert (
        get_args(get_type_hints(messages.Grow)["how"])
        == EXPANSIONS
        == tuple(how for how, *_ in GROW)
    )


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ({"do": "paint", "ops": [1], "device": 0, "force": False}, ""),
        ({"do": "paint", "ops": [1], "device": 0, "force": False, "sequence": 3}, ""),
        ({"do": "paint", "ops": [1], "device": 0}, "“force” is missing"),
        (
            {"do": "paint", "ops": ["1"], "device": 0, "force": False},
            "in “ops” '1' is of another type",
        ),
        ({"do": "paint", "ops": [1], "device": True, "force": False}, "in “device”"),
        ({"do": "paint", "ops": 1, "device": 0, "force": False}, "a list is missing"),
        ({"do": "unpin", "ops": [1], "device": 0, "force": False}, "'unpin' is unknown"),
        (
            {"do": "paint", "ops": [1], "device": 0, "force": False, "colour": 1},
            "“colour” is unknown",
        ),
        (["paint"], "its fields are missing"),
    ],
)
def test_a_message_that_does_not_fit_is_refused_with_its_field(message: object, fault: str) -> None:
    if not fault:
        require(message, messages.Paint, "a stroke")
        return
    with pytest.raises(EditorError, match="a stroke that does not fit") as error:
        require(message, messages.Paint, "a stroke")
    assert fault in str(error.value)
