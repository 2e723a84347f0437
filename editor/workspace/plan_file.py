"""``plan.json``: format ``hetero-editor/plan``, version 1."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from editor.devices.device import Device
from editor.devices.keys import schema as devices_schema
from editor.devices.table import load_devices
from editor.errors import ModelError, PlanError
from editor.files import file_state, read_json
from editor.graph.graph import Graph
from editor.graph.loading import load_model
from editor.graph.model_file import MODEL_SUFFIXES
from editor.graph.states import states_of
from editor.placement.choices import POLICIES, SUBGRAPH_RULES
from editor.placement.placement import Placement, Settings
from editor.placement.rules import parse_rules
from editor.placement.rules import schema as rules_schema

FORMAT, VERSION = "hetero-editor/plan", 1
_REQUIRED = ("model", "devices", "policy", "pins", "affinities")


def to_dict(
    placement: Placement, path: Path | None, prompt: Placement | None = None
) -> dict[str, Any]:
    """The content of ``plan.json``.

    Args:
        placement: the plan.
        path: of the file; None keeps the model's path absolute.
        prompt: the placement of a language model's prompt, where the plan is of its tokens.
    """
    graph, settings = placement.graph, placement.settings
    document: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "model": {
            "path": stored_path(graph.path, path),
            "name": graph.name,
            "format": graph.source,
            "sha256": graph.sha256,
            "define": dict(graph.define),
        },
        "devices": [dict(d.entry) for d in placement.devices],
        "policy": {"name": settings.policy, "options": dict(settings.policy_options)},
        "subgraph_rule": settings.subgraphs,
        "rules": [rule.to_dict() for rule in settings.rules],
        "pins": dict(settings.pins),
        "affinities": placement.affinity,
        "subgraphs": [
            {
                "id": s.id,
                "device": s.device,
                "ops": list(s.ops),
                "inputs": list(s.inputs),
                "outputs": list(s.outputs),
                "depends_on": list(s.depends_on),
                "memory": asdict(s.memory) | {"logical_devices": list(s.memory.logical_devices)},
            }
            for s in placement.subgraphs
        ],
    }
    if states := states_of(graph):
        document["state"] = [asdict(state) for state in states]
    if prompt is not None:
        document["prompt"] = {"define": dict(prompt.graph.define), "affinities": prompt.affinity}
    if settings.forced:
        document["forced"] = sorted(settings.forced & settings.pins.keys())
    return document


def schema() -> dict[str, Any]:
    """The JSON Schema of ``plan.json``."""
    texts, names, count = (
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "array", "items": {"type": "string"}},
        {"type": "integer", "minimum": 0},
    )
    sizes = {"type": "object", "additionalProperties": {"type": "integer"}}
    subgraph = {
        "type": "object",
        "required": ["id", "device", "ops", "inputs", "outputs", "depends_on", "memory"],
        "properties": {
            "id": count,
            "device": {"type": "string"},
            "ops": {"description": "keys of ops, in the order of a run", **names},
            "inputs": {"description": "names of tensors", **names},
            "outputs": {"description": "names of tensors", **names},
            "depends_on": {"type": "array", "items": count},
            "memory": {"description": "bytes, as in partition.log", "type": "object"},
        },
    }
    state = {
        "type": "object",
        "required": ["output", "input", "axis", "source"],
        "properties": {
            "output": {"type": "string"},
            "input": {"type": "string"},
            "axis": {"description": "along which it grows, -1 for none", "type": "integer"},
            "source": {"enum": ["genai_config.json", "names", "given"]},
        },
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Plan of Hetero Editor",
        "type": "object",
        "required": ["format", "version", *_REQUIRED],
        "properties": {
            "format": {"const": FORMAT},
            "version": {"const": VERSION},
            "model": {
                "type": "object",
                "required": ["path"],
                "properties": {
                    "path": {"description": "relative to the plan", "type": "string"},
                    "name": {"type": "string"},
                    "format": {
                        "description": "of the file: onnx, openvino, tflite …",
                        "type": "string",
                    },
                    "sha256": {"type": "string"},
                    "define": {"description": "sizes of open dimensions", **sizes},
                },
            },
            "devices": {key: value for key, value in devices_schema().items() if key[0] != "$"},
            "policy": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"enum": list(POLICIES)},
                    "options": {"type": ["object", "null"]},
                },
            },
            "subgraph_rule": {"enum": list(SUBGRAPH_RULES)},
            "rules": {key: value for key, value in rules_schema().items() if key[0] != "$"},
            "pins": {"description": "op key -> device or label", **texts},
            "forced": {"description": "keys whose pin holds although refused", **names},
            "affinities": {"description": "op key -> device", **texts},
            "subgraphs": {"type": "array", "items": subgraph},
            "state": {"type": "array", "items": state},
            "prompt": {
                "description": "the placement of a language model's prompt",
                "type": "object",
                "required": ["define", "affinities"],
                "properties": {"define": sizes, "affinities": texts},
            },
            "totals": {
                "type": "object",
                "properties": {"subgraphs": count, "bytes_moved": count},
            },
            "made_by": {"type": "string"},
        },
    }


def read(path: Path) -> dict[str, Any]:
    """Reads a plan file and checks its format and version.

    Raises:
        PlanError: with the path and what is wrong.
    """
    if path.suffix.lower() in (*MODEL_SUFFIXES, ".onnxtxt") and path.is_file():
        raise PlanError(
            f"{path}: a model, not a plan; make one with `python -m editor partition {path} --out DIR`"
        )
    document = read_json(path, PlanError)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise PlanError(f'{path}: not a plan of Hetero Editor (its "format" is not "{FORMAT}")')
    if document.get("version") != VERSION:
        raise PlanError(
            f"{path}: plan version {repr(document.get('version'))[:40]}; this program reads version {VERSION}"
        )
    missing = [key for key in _REQUIRED if key not in document]
    if missing:
        raise PlanError(f"{path}: the plan lacks {', '.join(missing)}")
    return document


def totals(path: Path) -> dict[str, int | None]:
    """Number of subgraphs and bytes moved per run that a plan had when it was written; its model may have changed since.

    Raises:
        PlanError: it is not a plan, or one of an older version of this program, which did not store them.
    """
    stored = read(path).get("totals")
    if not isinstance(stored, dict) or not all(
        isinstance(stored.get(k), int) for k in ("subgraphs", "bytes_moved")
    ):
        raise PlanError(
            f"{path}: the plan does not say its totals; save it again with this version"
        )
    return {"subgraphs": stored["subgraphs"], "bytes_moved": stored["bytes_moved"]}


def model_path(document: Mapping[str, Any], path: Path) -> Path:
    """Path of a plan's model; a relative one begins at the plan's folder.

    Raises:
        PlanError: the plan has none.
    """
    try:
        stored = Path(document["model"]["path"])
        if "\0" in str(stored):
            raise ValueError("a path has no NUL")
    except (TypeError, KeyError, ValueError) as error:
        raise PlanError(f"{path}: damaged plan (no path of a model)") from error
    return stored if stored.is_absolute() else path.resolve().parent / stored


def decisions(
    document: Mapping[str, Any], path: Path
) -> tuple[dict[str, int], list[dict[str, Any]], Settings]:
    """Sizes, entries of the device table, and settings of a document, whatever its model is now.

    Raises:
        PlanError: an entry has the wrong type.
    """
    try:
        policy = document["policy"]
        define = {str(k): int(v) for k, v in document["model"].get("define", {}).items()}
        pins = {str(k): str(v) for k, v in document["pins"].items()}
        settings = Settings(
            str(policy["name"]),
            dict(policy.get("options") or {}),
            pins,
            frozenset(map(str, document.get("forced", ()))),
            str(document.get("subgraph_rule", "minimal")),
            parse_rules(document.get("rules") or [], f"{path}, rules"),
        )
        entries = [dict(entry) for entry in document["devices"]]
        if not isinstance(document["affinities"], Mapping):
            raise TypeError("affinities must map op keys to device names")
    except (TypeError, KeyError, AttributeError, ValueError, OverflowError) as error:
        raise PlanError(
            f"{path}: damaged plan ({type(error).__name__}: {str(error)[:200]})"
        ) from error
    return define, entries, settings


def parts(document: Mapping[str, Any], path: Path) -> tuple[Graph, tuple[Device, ...], Settings]:
    """Model, devices and decisions of a document.

    Raises:
        PlanError: the model is gone or not the one the plan was made for, or an entry has the wrong type.
    """
    model_file = model_path(document, path)
    define, entries, settings = decisions(document, path)
    pins, digest = settings.pins, str(document["model"].get("sha256", ""))
    devices = load_devices(entries)  # whose libraries of custom ops say what these return
    if file_state(model_file) is None:
        raise PlanError(
            f'{path}: its model {model_file} is not there; put it back or edit "path" in the plan'
        )
    try:
        graph = load_model(model_file, define)
    except ModelError as error:
        raise PlanError(f"{path}: its model cannot be opened: {error}") from error
    if digest and graph.sha256 != digest:
        gone = [key for key in pins if key not in graph.key_index]
        lost = (
            f"; {len(gone)} of its {len(pins)} pins name ops that are gone ({', '.join(gone[:3])})"
            if gone
            else ""
        )
        raise PlanError(
            f"{path}: the model {model_file} changed since the plan was made (sha256 "
            f"{graph.sha256[:12]}… instead of {digest[:12]}…){lost}; partition it again"
        )
    return graph, devices, settings


def prompt_of(
    document: Mapping[str, Any], path: Path
) -> tuple[dict[str, int], dict[str, str]] | None:
    """Sizes and affinities (op key -> device name) of the prompt; None where the plan has one phase.

    Raises:
        PlanError: the entry has the wrong type.
    """
    stored = document.get("prompt")
    if stored is None:
        return None
    try:
        define = {str(name): int(size) for name, size in stored["define"].items()}
        return define, {str(key): str(device) for key, device in stored["affinities"].items()}
    except (TypeError, KeyError, AttributeError, ValueError, OverflowError) as error:
        raise PlanError(
            f"{path}: damaged plan (prompt: {type(error).__name__}: {str(error)[:200]})"
        ) from error


def stored_path(model: Path, file: Path | None) -> str:
    """The path of a model as a file names it: relative to that file; absolute where there is none, or on another drive."""
    whole = model.absolute().parent.resolve() / model.name
    if file is not None:
        with suppress(ValueError):  # another drive
            return Path(os.path.relpath(whole, file.resolve().parent)).as_posix()
    return whole.as_posix()
