"""Writes a device table as YAML; what a person wrote into the file that it came from stays: order of keys, quotes, comments."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.util import load_yaml_guess_indent

from editor.yaml_text import YamlError, load_yaml

Entry = Mapping[str, Any]


def table_text(entries: Sequence[Entry], original: str = "") -> str:
    """A device table as YAML.

    Args:
        entries: the devices, as in ``Device.entry``.
        original: the text of the file that the table came from. Entries are matched by their names: the text of one that
            is the same stays to the letter, in one that changed only the changed keys are written; comments directly above
            an entry move with it.
    """
    wanted = [dict(entry) for entry in entries]
    head, parts = _parts(original)
    written = head + "".join(_entry_text(entry, parts) for entry in wanted)
    return written if parts and _says(written, wanted) else _plain(wanted)


def _says(text: str, entries: list[dict[str, Any]]) -> bool:
    try:
        return bool(load_yaml(text)[1] == entries)
    except YamlError:
        return False  # for example: an anchor stood in an entry that was removed


def _entry_text(entry: Entry, parts: Mapping[str, tuple[Entry, str]]) -> str:
    before, text = parts.get(str(entry.get("name")), (None, ""))
    if before is None:
        return _plain([entry])
    return text if before == entry else _changed(text, before, entry)


def _plain(entries: Sequence[Entry]) -> str:
    plain = [dict(entry) for entry in entries]
    text = str(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True))
    if _says(text, plain):
        return text
    return str(
        yaml.safe_dump(plain, sort_keys=False)
    )  # PyYAML does not escape U+0085, which it reads as a line break


def _parts(text: str) -> tuple[str, dict[str, tuple[Entry, str]]]:
    """The text before the first entry, and by name: each entry with its text, which begins with the comments above it."""
    try:
        node, data = load_yaml(text)
    except YamlError:
        return "", {}
    if not isinstance(node, yaml.SequenceNode) or node.flow_style:
        return "", {}
    lines = (text if text.endswith("\n") else text + "\n").splitlines(keepends=True)
    starts = [_with_comments(lines, item.start_mark.line) for item in node.value] + [len(lines)]
    if node.value and not any(line.lstrip().startswith("#") for line in lines[: starts[0]]):
        starts[0] = node.value[
            0
        ].start_mark.line  # the only comment at the top is about the whole table
    return "".join(lines[: starts[0]]), {
        str(entry.get("name")): (entry, "".join(lines[start:end]))
        for entry, start, end in zip(data, starts, starts[1:], strict=False)
        if isinstance(entry, dict)
    }


def _with_comments(lines: Sequence[str], start: int) -> int:
    """The first line of the comments directly above a line."""
    while start and lines[start - 1].lstrip().startswith("#"):
        start -= 1
    return start


def _changed(text: str, before: Entry, after: Entry) -> str:
    """The text of an entry with the keys that differ written anew."""
    editor = YAML()
    editor.preserve_quotes, editor.width = True, 10_000
    try:
        _, indent, offset = load_yaml_guess_indent(text)
        editor.indent(mapping=2, sequence=indent or 2, offset=offset or 0)
        (entry,) = editor.load(text)
        for key in before:
            if key not in after:
                del entry[key]
        entry.update({k: v for k, v in after.items() if k not in before or before[k] != v})
        out = io.StringIO()
        editor.dump([entry], out)
    except (YAMLError, ValueError, TypeError, KeyError):
        return _plain([after])
    above = re.match(r"(?:[ \t]*#.*\n)*", text)
    return (above[0] if above else "") + out.getvalue()
