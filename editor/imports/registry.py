"""Reads any import by the first format that its file is of."""

from __future__ import annotations

from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from editor.errors import PlanError
from editor.files import parse_json, read_text
from editor.imports.formats import FORMATS, MAPPINGS, ImportFormat
from editor.yaml_text import load_yaml

_BINARY = (".onnx",)


def read(path: Path, times: bool, asked: bool = False) -> Any:
    """What a file holds, as the reader of its format returns it; None where it is of none.

    Args:
        path: of the file.
        times: whether times of layers are looked for, and not affinities.
        asked: whether somebody said that it has times, which a table without a header leaves open.

    Raises:
        PlanError: the file cannot be read or is damaged.
    """
    suffix = path.suffix.lower() if times else path.suffix
    forms = [
        form
        for form in FORMATS.values()
        if form.times == times and suffix in form.suffixes and (asked or not form.asked)
    ]
    if not forms:
        return None
    content: Any = None if suffix in _BINARY else read_text(path, PlanError)
    if suffix in MAPPINGS:
        try:
            content = parse_json(content) if suffix == ".json" else load_yaml(content)[1]
        except ValueError as error:  # a YamlError is one
            raise PlanError(f"{path}: not valid {suffix[1:].upper()} ({error})") from error
    form = next((form for form in forms if _is_of(form, path, content)), None)
    return resolve_name(form.reader)(path, content) if form is not None else None


def _is_of(form: ImportFormat, path: Path, content: Any) -> bool:
    if form.marks is not None:
        return isinstance(content, dict) and any(
            key in content and str(content[key] if start else "").startswith(start)
            for key, start in form.marks.items()
        )
    return not form.sniff or bool(resolve_name(form.sniff)(path, content))
