"""A folder for onnxruntime-genai: a part of the decoder for each subgraph, with open sizes, and a pipeline of them.

`genai_config.json` with the type `decoder-pipeline` runs the parts one after the other, each with the session options of its
device. Tokenizer and other files are copied. Facts: onnxruntime-genai's `config.h`.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from editor.devices.device import Device
from editor.errors import ExecutionError, ExportError
from editor.execution.cut import open_submodels
from editor.exports.kept_off import shortfall
from editor.exports.model_copy import write_submodel
from editor.exports.onnxruntime import runs_on
from editor.files import copy_atomic, json_text, parse_json, read_text, write_atomic
from editor.graph.graph import Graph
from editor.graph.states import states_of
from editor.groups import grouped
from editor.placement.placement import Placement
from editor.placement.prompt_room import known_prompt, prompt_in_words
from editor.placement.state_memory import content_of, extra_weights, state_memory
from editor.runtimes.base import SubModel
from editor.runtimes.onnxruntime.providers import CPU, SELECTS_BY_UNIT, index_of, provider_of
from editor.text import joined, markdown_cell, pluralize

CONFIG, README = "genai_config.json", "README.md"
_MODELS = (".onnx", ".data", ".bin", ".onnx_data")
_MOST_COPIED = 256 << 20
"""Bytes of a file beside the model; larger ones are weights."""
_NAMES = {
    "CUDAExecutionProvider": "cuda",
    "DmlExecutionProvider": "DML",
    "QNNExecutionProvider": "QNN",
    "OpenVINOExecutionProvider": "OpenVINO",
    "WebGpuExecutionProvider": "WebGPU",
    "ROCMExecutionProvider": "rocm",
}
"""Names of providers in ``provider_options``."""


def unfit(graph: Graph) -> str:
    """Why onnxruntime-genai cannot run a model; "" where it can."""
    if not (graph.path.parent / CONFIG).is_file():
        return (
            f"{graph.path}: there is no {CONFIG} beside the model, which onnxruntime-genai needs (its model builder writes "
            "it)"
        )
    if not states_of(graph):
        return f"{graph.path}: no output is known to be an input of the next step"
    return ""


def write_genai(
    placement: Placement, out_dir: Path, stamp: str = "", prompt: Placement | None = None
) -> list[Path]:
    """Writes ``part_<n>.onnx``, ``genai_config.json`` and what else the folder of the model has.

    ``context_length`` and ``max_length`` of the configuration are at most the tokens that the plan has room for.

    Args:
        placement: the plan.
        out_dir: the folder.
        stamp: origin of the export.
        prompt: the placement of the prompt, where it has one of its own: its parts, ``prompt_<n>.onnx``, run on prompts only,
            and the others on tokens only, but for those that both have alike.

    Raises:
        ExportError: the model has no ``genai_config.json`` beside it, keeps no state, or cannot be cut with open sizes.
    """
    graph = placement.graph
    source = graph.path.parent / CONFIG
    if out_dir.exists() and out_dir.samefile(graph.path.parent):
        raise ExportError(f"{out_dir}: that is the folder of the model itself; choose another")
    try:
        config = parse_json(read_text(source, ExportError))
        decoder = config["model"]["decoder"]
    except (ValueError, KeyError, TypeError) as error:
        raise ExportError(
            f"{source}: not a configuration of onnxruntime-genai ({error})"
        ) from error
    parts, written = _pipeline(placement, prompt, out_dir, stamp)
    used = [*placement.used_devices, *(prompt.used_devices if prompt is not None else ())]
    said = notes(list({device.name: device for device in used}.values()))
    said += filter(None, [limits(placement, prompt)])
    config["model"]["type"] = "decoder-pipeline"
    decoder["pipeline"] = [part.entry(phases) for part, phases in parts]
    decoder.pop("filename", None)
    if (room := _room(placement, prompt)) is not None:
        _limit(config, room[0])
    if prompt is not None and (note := limits(placement, prompt)):
        warnings.warn(note, stacklevel=2)
    written.append(write_atomic(out_dir / CONFIG, json_text(config)))
    written.append(write_atomic(out_dir / README, _readme(graph, parts, said, stamp)))
    for file in sorted(graph.path.parent.iterdir()):
        is_other = file.is_file() and not file.name.endswith(_MODELS)
        is_other = is_other and file.name not in (CONFIG, README)
        if is_other and file != graph.path and file.stat().st_size <= _MOST_COPIED:
            written.append(copy_atomic(file, out_dir / file.name))
    return written


@dataclass(frozen=True)
class _Part:
    """A subgraph as a stage of the pipeline."""

    name: str
    model: SubModel
    device: Device
    content: tuple[str, frozenset[str]]
    ops: int
    """Of the plan: constants that were copied into it are none"""
    is_last: bool

    def entry(self, phases: Mapping[str, bool]) -> dict[str, Any]:
        """What ``genai_config.json`` says of it; ``phases``: on which it runs, where there are two placements."""
        stage: dict[str, Any] = {
            "filename": f"{self.name}.onnx",
            "inputs": list(self.model.inputs),
            "outputs": list(self.model.outputs),
            "session_options": _options(self.device),
            **({"is_lm_head": False} if self.is_last else {}),
            **phases,
        }
        return {self.name: stage}


def _pipeline(
    placement: Placement, prompt: Placement | None, out_dir: Path, stamp: str
) -> tuple[list[tuple[_Part, dict[str, bool]]], list[Path]]:
    """The stages of the pipeline in the order of the run, each with the phases that it runs on, and their files.

    A subgraph that both placements have is written once, and runs on prompts and tokens, so that its weights are there once.
    """
    tokens = _parts(placement, "part")
    if prompt is None:
        stages = [(part, dict[str, bool]()) for part in tokens]
    else:
        stages = [
            (part, {"run_on_prompt": on_prompt, "run_on_token_gen": on_tokens})
            for part, on_prompt, on_tokens in _merged(_parts(prompt, "prompt"), tokens)
        ]
    written: list[Path] = []
    for part, _ in stages:
        path = out_dir / f"{part.name}.onnx"
        written += write_submodel(part.model.model, part.model.folder, path, stamp)
    return stages, written


def _merged(prompt: Sequence[_Part], tokens: Sequence[_Part]) -> list[tuple[_Part, bool, bool]]:
    """The parts of both phases in an order that suits both, each with the phases that it runs on."""
    of_prompt, of_tokens = ([part.content for part in parts] for parts in (prompt, tokens))
    found: list[tuple[_Part, bool, bool]] = []
    matched = SequenceMatcher(a=of_prompt, b=of_tokens, autojunk=False)
    for same, a, b, c, d in matched.get_opcodes():
        if same != "equal":
            found += [(part, True, False) for part in prompt[a:b]]
        found += [(part, same == "equal", True) for part in tokens[c:d]]
    return found


def _parts(placement: Placement, prefix: str) -> list[_Part]:
    """The subgraphs of a placement in the order of the run, with open sizes.

    Raises:
        ExportError: the model cannot be cut so.
    """
    try:
        models = open_submodels(placement.graph, placement.ops_of_subgraphs())
    except ExecutionError as error:
        raise ExportError(str(error)) from error
    parts = []
    for number, model in enumerate(models):
        subgraph = placement.subgraphs[int(model.label.rpartition(" ")[2])]
        device, is_last = placement.by_name[subgraph.device], number == len(models) - 1
        name = f"{prefix}_{number}"
        parts.append(_Part(name, model, device, content_of(subgraph), subgraph.size, is_last))
    return parts


def notes(used: list[Device]) -> list[str]:
    """What the folder does not keep of a plan: devices that ONNX Runtime does not have."""
    by_options = grouped((json_text(_options(d)), d.name) for d in used if _is_own(d))
    return [
        f"the CPU runs the ops of {d.name}: onnxruntime-genai has no provider for it"
        for d in used
        if not _is_own(d)
    ] + [
        f"{joined(names)} are one device to onnxruntime-genai, with one memory: their parts have the same session options"
        for names in by_options.values()
        if len(names) > 1
    ]


def _is_own(device: Device) -> bool:
    return provider_of(device) in (CPU, *_NAMES)


def limits(placement: Placement, prompt: Placement | None = None) -> str:
    """Which lengths of the configuration are shorter in the folder, and which prompt fits; "" where nothing limits them."""
    lengths = _limited(placement, prompt)
    at_once = prompt_in_words(placement) if prompt is None else ""
    return "; ".join(filter(None, (lengths, at_once)))


def _limited(placement: Placement, prompt: Placement | None) -> str:
    """Which lengths of the configuration are shorter in the folder, as the plan has no room for them; "" where none are."""
    room = _room(placement, prompt)
    if room is None:
        return ""
    tokens, device = room
    if not tokens:
        return f"{device} has no room for any context (estimate); {CONFIG} keeps its lengths"
    try:
        config = parse_json(read_text(placement.graph.path.parent / CONFIG, ExportError))
    except (ValueError, ExportError):  # writing the folder says so
        return ""
    names = _limit(config, tokens)
    if not names:
        return ""
    is_open = prompt is None and known_prompt(placement) is None
    at_once = "; a long prompt, which runs at once, may need more" if is_open else ""
    return (
        f"{joined(names)} of {CONFIG} {'is' if len(names) == 1 else 'are'} limited to {pluralize(tokens, 'token')}, at which "
        f"the memory of {device} is full (estimate){at_once}"
    )


def _room(placement: Placement, prompt: Placement | None) -> tuple[int, str] | None:
    """Tokens of the context that a plan has room for, and the device that is full then; None where no memory is limited."""
    more = {} if prompt is None else extra_weights(prompt, placement)
    found = [
        (replace(each, rest=each.rest + more.get(each.device, 0)).roomy_until, each.device)
        for each in state_memory(placement)
    ]
    return min(((until, device) for until, device in found if until is not None), default=None)


def _limit(config: Any, tokens: int) -> list[str]:
    """Shortens the lengths of a configuration to so many tokens, and returns the names of those that were longer."""
    found = []
    for group, name in (("model", "context_length"), ("search", "max_length")):
        entry = config.get(group) if isinstance(config, dict) else None
        if not isinstance(entry, dict):
            continue
        length = entry.get(name)
        if tokens and isinstance(length, int) and length > tokens:
            entry[name] = tokens
            found.append(name)
    return found


def left_out(placement: Placement) -> str:
    """What the folder does not keep of a plan, in a line."""
    return shortfall(
        placement, lambda d: runs_on(d) if _is_own(d) else "the CPU", _is_own, parts=True
    )


_TEXT = """# {model} in {count}, for onnxruntime-genai

`genai_config.json` names the parts in the order of the run, each with the session options of the device that the plan has its
ops on. In this folder, after `pip install onnxruntime-genai` (`-cuda` and `-directml` are packages of their own):

    import onnxruntime_genai as og

    model = og.Model(".")
    settings = og.GeneratorParams(model)
    settings.set_search_options(max_length=64)
    generator = og.Generator(model, settings)
    generator.append_tokens([1, 2, 3])  # a prompt; og.Tokenizer(model) makes such numbers of a text
    while not generator.is_done():
        generator.generate_next_token()
    print(generator.get_sequence(0))

| part | device | ops | on | provider |
| --- | --- | --- | --- | --- |
{rows}

{notes}Made by {stamp}.
"""


def _readme(
    graph: Graph, stages: Sequence[tuple[_Part, dict[str, bool]]], notes: list[str], stamp: str
) -> str:
    rows = []
    for part, phases in stages:
        on = [
            word for word, runs in zip(("prompts", "tokens"), phases.values(), strict=False) if runs
        ]
        provider = provider_of(part.device) if _is_own(part.device) else CPU
        cells = f"`{part.name}.onnx`", markdown_cell(part.device.name), f"{part.ops:,}"
        rows.append(f"| {' | '.join(cells)} | {joined(on) or 'all steps'} | {provider} |")
    return _TEXT.format(
        model=markdown_cell(graph.name),
        count=pluralize(len(stages), "part"),
        rows="\n".join(rows),
        notes="".join(f"Note: {note}.\n\n" for note in notes),
        stamp=stamp or "Hetero Editor",
    )


def _options(device: Device) -> dict[str, Any]:
    """Session options of a stage, as ``genai_config.json`` has them."""
    provider = provider_of(device) or CPU
    if provider not in _NAMES:
        return {"provider_options": []}
    settings = {k: v for k, v in device.properties.items() if "." not in k}
    if provider in SELECTS_BY_UNIT:
        settings.setdefault("device_id", str(index_of(device)))
    return {"provider_options": [{_NAMES[provider]: settings}]}
