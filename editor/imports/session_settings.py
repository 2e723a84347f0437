"""Reads how a session is configured: a JSON file of session options, and the ``genai_config.json`` of onnxruntime-genai.

Both come from strangers: what names a file, holds an address or loads code is left out and said, unless the person trusts it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from editor.devices.device import Property, property_problem
from editor.errors import EditorError, PlanError
from editor.files import inside, read_json
from editor.runtimes.onnxruntime.properties import BY_PROVIDER, EVERY_PROVIDER, NOT_PASSED, SESSION
from editor.runtimes.onnxruntime.providers import CPU, full_name
from editor.runtimes.onnxruntime.recorded import SessionSettings
from editor.text import shortened

_LEVELS = {
    "ORT_DISABLE_ALL": 0,
    "ORT_ENABLE_BASIC": 1,
    "ORT_ENABLE_EXTENDED": 2,
    "ORT_ENABLE_LAYOUT": 3,
    "ORT_ENABLE_ALL": 99,
}
_MODES = {"ORT_SEQUENTIAL": 0, "ORT_PARALLEL": 1}
_MOST_THREADS = 1024
_LOGS = frozenset(
    {
        "log_id",
        "logid",
        "log_severity_level",
        "log_verbosity_level",
        "enable_profiling",
        "profile_file_prefix",
        "use_env_allocators",
        "provider_options",
        "providers",
    }
)
"""Options without a say in where ops run, and those that are read on their own."""
_CONTAINERS = frozenset({"config_entries", "free_dimension_overrides"})
_GENAI = "genai_config.json"
_GENAI_NAMES = {
    "cuda": "CUDAExecutionProvider",
    "rocm": "ROCMExecutionProvider",
    "dml": "DmlExecutionProvider",
    "web": "JsExecutionProvider",
    "openvino": "OpenVINOExecutionProvider",
    "nvtensorrtrtx": "NvTensorRTRTXExecutionProvider",
}
"""Names that genai has for providers beside those that people use."""
_MOST_FILES = 64
_PARTS = ("decoder", "encoder", "embedding", "vision", "speech", "audio")


@dataclass(frozen=True)
class Configuration:
    """The providers of a session, in order, and its options."""

    providers: tuple[tuple[str, Mapping[str, str]], ...] = ()
    """Full name, options."""
    settings: SessionSettings = field(default_factory=SessionSettings)
    left_out: tuple[str, ...] = ()
    """What is not passed on, and why."""


def read_options(path: Path) -> Configuration:
    """The configuration in a file of session options.

    Raises:
        PlanError: the file is not such JSON.
    """
    return configuration(_mapping(read_json(path, PlanError), str(path)), str(path))


def configuration(data: Mapping[str, Any], where: str) -> Configuration:
    """The configuration that a mapping states.

    Names are those of ``onnxruntime.SessionOptions``; a name with a dot is a configuration entry, and so is each of
    ``config_entries``. ``provider_options`` is a list of ``{"cuda": {...}}`` as in genai, or one mapping.

    Raises:
        PlanError: a value is not of its type.
    """
    attributes: dict[str, int | bool] = {}
    left_out: list[str] = []
    given = {k: v for k, v in data.items() if "." in k}
    given |= _mapping(data.get("config_entries") or {}, f"{where}: config_entries")
    for name, value in data.items():
        if name in _LOGS | _CONTAINERS or "." in name:
            continue
        if name in _READERS:
            attributes[name] = _READERS[name](value, f"{where}: {name}")
        else:
            left_out.append(f"the session option {shortened(name, 80)!r} is not passed on")
    texts = {name: _text(value, f"{where}: {name}") for name, value in given.items()}
    entries = _passed(texts, SESSION, "ONNX Runtime", "on", left_out)
    found = _mapping(data.get("free_dimension_overrides") or {}, f"{where}: sizes")
    sizes = {name: _number(1, 2**31, v, f"{where}: {name}") for name, v in found.items()}
    providers = tuple(_providers(data, where, left_out))
    return Configuration(providers, SessionSettings(attributes, entries, sizes), tuple(left_out))


def _providers(
    data: Mapping[str, Any], where: str, left_out: list[str]
) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The providers of ``providers`` and ``provider_options``, with the options that may be passed."""
    named = data.get("provider_options") or []
    pairs = named.items() if isinstance(named, Mapping) else _entries(named, where)
    options = {provider_of_name(str(k)): _mapping(v or {}, f"{where}: {k}") for k, v in pairs}
    order = data.get("providers") or []
    if not isinstance(order, list) or not all(isinstance(name, str) for name in order):
        raise PlanError(f"{where}: providers must be a list of names")
    for provider in dict.fromkeys([*map(provider_of_name, order), *options]):
        texts = {
            name: _text(value, f"{where}: {name}")
            for name, value in options.get(provider, {}).items()
            if name not in NOT_PASSED - {"device_id"}
        }
        known = BY_PROVIDER.get(provider, EVERY_PROVIDER)
        yield provider, _passed(texts, known, provider, f"to {provider}", left_out)


def _passed(
    texts: Mapping[str, str],
    known: Sequence[Property],
    what: str,
    way: str,
    left_out: list[str],
) -> dict[str, str]:
    """The options that may be passed; why others may not is added to what is left out."""
    problems = {name: property_problem(name, text, known, what) for name, text in texts.items()}
    left_out += [f"not passed {way}: {problem}" for problem in problems.values() if problem]
    return {name: text for name, text in texts.items() if not problems[name]}


def _entries(named: Any, where: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(named, list):
        raise PlanError(
            f"{where}: provider_options must be a list of mappings, such as {{cuda: {{}}}}"
        )
    for entry in named:
        yield from _mapping(entry, f"{where}: provider_options").items()


def provider_of_name(name: str) -> str:
    """The full name of a provider, from a name that people, ONNX Runtime or genai have for it."""
    return _GENAI_NAMES.get(name.lower(), full_name(name.strip()))


@dataclass(frozen=True)
class GenaiModel:
    """A model file of a folder of onnxruntime-genai."""

    part: str
    """Such as ``decoder``, or ``decoder.pipeline.prompt``."""
    path: Path
    configuration: Configuration


def read_genai(folder: Path) -> list[GenaiModel]:
    """The models of a folder with a ``genai_config.json``, each with its session options.

    Raises:
        PlanError: there is no such file, it names a file outside the folder, or no model.
    """
    path = folder / _GENAI
    model = _mapping(_mapping(read_json(path, PlanError), str(path)).get("model"), f"{path}: model")
    found = [
        each
        for part in _PARTS
        if isinstance(given := model.get(part), Mapping)
        for each in _models(given, part, folder, path, {})
    ]
    if not found:
        raise PlanError(f"{path}: it names no model file (model.decoder.filename)")
    if len(found) > _MOST_FILES:
        raise PlanError(f"{path}: {len(found)} model files; the limit is {_MOST_FILES}")
    return found


def _models(
    given: Mapping[str, Any], part: str, folder: Path, path: Path, inherited: Mapping[str, Any]
) -> Iterator[GenaiModel]:
    own = given.get("session_options")
    options = inherited if own is None else _mapping(own, f"{path}: {part}.session_options")
    name = given.get("filename")
    if isinstance(name, str) and name:
        try:
            file = inside(folder, name)
        except EditorError as error:
            raise PlanError(f"{path}: {part}.filename: {error}") from error
        made = configuration(options, f"{path}: {part}")
        if all(provider != CPU for provider, _ in made.providers):
            made = replace(made, providers=(*made.providers, (CPU, {})))
        yield GenaiModel(part, file, made)
    stages = given.get("pipeline")
    for stage in stages if isinstance(stages, list) else ():
        for name, each in _mapping(stage, f"{path}: {part}.pipeline").items():
            yield from _models(
                _mapping(each, f"{path}: {part}.pipeline.{name}"),
                f"{part}.pipeline.{shortened(str(name), 80)}",
                folder,
                path,
                options,
            )


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise PlanError(f"{where}: must be a mapping")
    return value


def _text(value: Any, where: str) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    if not isinstance(value, str | int | float):
        raise PlanError(f"{where}: must be text or a number")
    return str(value)


def _number(least: int, most: int, value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise PlanError(f"{where}: must be a whole number from {least} to {most}")
    return value


def _switch(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise PlanError(f"{where}: must be true or false")
    return value


def _choice(known: Mapping[str, int], value: Any, where: str) -> int:
    if isinstance(value, str) and value in known:
        return known[value]
    if isinstance(value, int) and not isinstance(value, bool) and value in known.values():
        return value
    raise PlanError(f"{where}: must be one of {', '.join(known)}")


_READERS: Mapping[str, Callable[[Any, str], int | bool]] = {
    "intra_op_num_threads": partial(_number, 0, _MOST_THREADS),
    "inter_op_num_threads": partial(_number, 0, _MOST_THREADS),
    "enable_cpu_mem_arena": _switch,
    "enable_mem_pattern": _switch,
    "enable_mem_reuse": _switch,
    "use_deterministic_compute": _switch,
    "graph_optimization_level": partial(_choice, _LEVELS),
    "execution_mode": partial(_choice, _MODES),
}
"""Option -> what reads its value, by which message a faulty one is named."""
