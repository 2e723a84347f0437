"""The page's own scripts and styles as one file each, and which of Dash's scripts a page starts with.

A page that fetches sixty files waits for them longer than it takes to run them.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import Response

_SCRIPT = re.compile(r'<script src="([^"]+)"></script>')
_LATER = {"after-graph": ("/polyfill@", "/dash_core_components"), "tables": ("/dash_ag_grid/",)}
"""Scripts that wait, by what they wait for: that the graph is on the screen, or the first table. The polyfill is what browsers
of before 2020 lack, and Plotly asks for; it also replaces parts that every browser has by slower ones. Charts, uploads and
downloads are Dash's core components."""
_NEVER = "/dash_table/"
"""Dash's own tables, which no page has."""
_FONT = "/assets/fonts/inter-latin.woff2"
BUNDLED = r"^inline_|\.(js|css)$"
"""Files of the assets that Dash must not link to by itself."""


def scoped(script: Path) -> str:
    """A script in a function of its own, so that its names are not those of others: `editor` there is `window.hetero`, and
    `page` the state of the page."""
    text = script.read_text(encoding="utf-8")
    return (
        f'((editor, page) => {{\n"use strict";\n{text}\n}})(window.hetero, window.hetero?.page);\n'
    )


@dataclass(frozen=True)
class Bundle:
    """A number of files behind each other."""

    files: tuple[Path, ...]
    kind: str
    """"js" or "css"."""

    @cached_property
    def content(self) -> bytes:
        """All files, each with its name, which errors and the browser's tools then show."""

        def text(file: Path) -> str:
            return scoped(file) if self.kind == "js" else file.read_text(encoding="utf-8")

        parts = [f"/* {file.name} */\n{text(file)}" for file in self.files]
        return "\n".join(parts).encode()

    @cached_property
    def address(self) -> str:
        """Changes with the content, so that browsers may keep it."""
        return f"/_bundle/{hashlib.sha256(self.content).hexdigest()[:16]}.{self.kind}"

    async def answer(self) -> Response:
        """To a request for it."""
        media = {"js": "text/javascript", "css": "text/css"}[self.kind]
        return Response(
            self.content,
            media_type=media,
            headers={"cache-control": "public, max-age=31536000, immutable"},
        )


class Bundles:
    """The scripts and styles in a folder of assets, in the order of their names."""

    def __init__(self, folder: Path) -> None:
        def files(suffix: str) -> tuple[Path, ...]:
            return tuple(
                sorted(
                    path
                    for path in folder.rglob(f"*{suffix}")
                    if not path.name.startswith("inline_")
                )
            )

        self.scripts, self.styles = Bundle(files(".js"), "js"), Bundle(files(".css"), "css")

    def serve(self, server: FastAPI) -> None:
        """Adds their addresses."""
        for bundle in (self.scripts, self.styles):
            server.add_api_route(bundle.address, bundle.answer, include_in_schema=False)

    def styles_element(self) -> str:
        """Links to the styles, and to the font, which would else be asked for when the first text is drawn."""
        font = f'<link rel="preload" href="{_FONT}" as="font" type="font/woff2" crossorigin>'
        return f'{font}<link rel="stylesheet" href="{self.styles.address}">'

    def divide(self, scripts: str) -> tuple[str, str]:
        """Elements of the scripts that a page starts with, ours at their end; and templates of those that wait.

        Args:
            scripts: the elements that Dash would put into its page.
        """
        addresses = [address for address in _SCRIPT.findall(scripts) if _NEVER not in address]
        later = {
            name: [a for a in addresses if any(part in a for part in parts)]
            for name, parts in _LATER.items()
        }
        now = [a for a in addresses if not any(a in each for each in later.values())]
        return (
            "".join(map(_element, [*now, self.scripts.address])) + _SCRIPT.sub("", scripts),
            "".join(
                f'<template id="scripts-{name}">{"".join(map(_element, each))}</template>'
                for name, each in later.items()
            ),
        )


def _element(address: str) -> str:
    return f'<script src="{address}"></script>'
