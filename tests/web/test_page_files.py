"""What a page starts with."""

from __future__ import annotations

import re
from pathlib import Path

from editor.files import resource_dir
from editor.web import controls
from editor.web.page_files import Bundles

ROOT = Path(__file__).resolve().parents[2]
OF_DASH = (
    '<script src="/_dash-component-suites/dash/deps/polyfill@7.min.js"></script>'
    '<script src="/_dash-component-suites/dash/deps/react@18.min.js"></script>\n'
    '<script src="/_dash-component-suites/dash_ag_grid/dash_ag_grid.min.js"></script>'
    '<script src="/_dash-component-suites/dash/dash_table/bundle.js"></script>'
    '<script src="/_dash-component-suites/dash/dcc/dash_core_components.js"></script>'
    '<script src="/_dash-component-suites/dash/dcc/dash_core_components-shared.js"></script>'
    "<script>var inline = 1;</script>"
)


def test_a_page_starts_with_dash_s_scripts_and_then_ours_but_not_with_those_of_tables() -> None:
    bundles = Bundles(resource_dir("assets"))
    now, later = bundles.divide(OF_DASH)
    assert re.findall(r'src="([^"]+)"', now) == [
        "/_dash-component-suites/dash/deps/react@18.min.js",
        bundles.scripts.address,
    ]
    waiting = {
        name: re.findall(r'<script src="/_dash-component-suites/([^"]+)"></script>', scripts)
        for name, scripts in re.findall(r'<template id="scripts-([a-z-]+)">(.*?)</template>', later)
    }
    assert waiting == {
        "after-graph": [
            "dash/deps/polyfill@7.min.js",
            "dash/dcc/dash_core_components.js",
            "dash/dcc/dash_core_components-shared.js",
        ],
        "tables": ["dash_ag_grid/dash_ag_grid.min.js"],
    }
    assert "<script>var inline = 1;</script>" in now, "Dash's own lines stay"


def test_a_bundle_holds_every_file_but_those_that_stand_in_the_page(tmp_path: Path) -> None:
    (tmp_path / "styles").mkdir()
    for name, text in (
        ("b.js", "two"),
        ("_a.js", "one"),
        ("inline_c.js", "no"),
        ("styles/x.css", "look"),
    ):
        (tmp_path / name).write_text(text)
    bundles = Bundles(tmp_path)
    text = bundles.scripts.content.decode()
    assert text.index("one") < text.index("two") and "no" not in text
    assert "look" in bundles.styles.content.decode()


def test_an_address_changes_with_what_stands_there(tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text("1")
    first = Bundles(tmp_path).scripts.address
    (tmp_path / "a.js").write_text("2")
    assert Bundles(tmp_path).scripts.address != first
    (tmp_path / "a.js").write_text("1")
    assert Bundles(tmp_path).scripts.address == first


def test_controls_have_the_same_properties_in_python_and_in_the_browser() -> None:
    types = (ROOT / "types" / "controls.d.ts").read_text()
    common = {"id"}
    for name, body in re.findall(r"interface (\w+)Props extends Common \{(.*?)\n  \}", types, re.S):
        there = set(re.findall(r"^    (\w+)\??:", body, re.M)) | common
        assert set(getattr(controls, name)._prop_names) == there, name
