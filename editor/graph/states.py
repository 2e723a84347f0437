"""The state of a model: outputs that are inputs of the next step, such as the cache of a decoder."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from editor.errors import EditorError, ModelError
from editor.files import parse_json, read_text
from editor.graph.graph import Graph

Source = Literal["genai_config.json", "names", "given", "layers"]


@dataclass(frozen=True)
class State:
    """A value that a step leaves to the next one."""

    output: str
    """The output, or the tensor that an ``Assign`` of OpenVINO keeps"""
    input: str
    """The input, or the tensor that a ``ReadValue`` gives"""
    axis: int
    """Along which it grows; -1 where its size is fixed"""
    source: Source
    """How it is known"""

    @property
    def inside(self) -> bool:
        """Whether the model keeps it itself, and no run takes or returns it."""
        return self.source == "layers"


TOKEN_INPUTS = ("input_ids", "decoder_input_ids", "tokens", "ids")
"""Names of inputs that take tokens."""
MASKS = ("attention_mask",)
POSITIONS = ("position_ids", "cache_position")
TOKENS_PER_SECOND = "tokens/s"
TOKENS_OF_REQUESTS = (
    "Each request makes one token: requests/s are the tokens/s of all sequences in flight together"
)
BEAMS = ("beam_idx",)
"""The sequence that each one goes on from, in a search over several."""
_RENAMED = (
    ("past_key_values", "present"),
    ("past_key_values", "present_key_values"),
    ("past_key_self", "present_key_self"),
    ("past_value_self", "present_value_self"),
    ("past", "present"),
    ("input_state", "output_state"),
    ("state_in", "state_out"),
    ("_in", "_out"),
)
"""Parts of the names of an input and of the output that it comes from, as exporters write them."""


def states_of(graph: Graph, given: Mapping[str, str] | None = None) -> tuple[State, ...]:
    """The state of a model, in the order of its inputs.

    Args:
        graph: the model, with all its sizes.
        given: output -> input, which win over what is known otherwise.

    Raises:
        ModelError: a pair names a tensor that the model does not have, or tensors of different types.
    """
    pairs: dict[str, tuple[str, Source]] = {
        name: (output, "names") for output, name in _named(graph)
    }
    pairs |= {name: (output, "genai_config.json") for output, name in _configured(graph)}
    for output, name in (given or {}).items():
        _check(graph, output, name, f"--state {output}={name}")
        pairs[name] = output, "given"
    pairs |= {name: (output, "layers") for output, name in _kept_inside(graph)}
    order = [*graph.input_names, *pairs]
    return tuple(
        State(output, name, _growing_axis(graph, output, name), source)
        for name in dict.fromkeys(order)
        if name in pairs
        for output, source in [pairs[name]]
    )


def parse_states(texts: list[str]) -> dict[str, str]:
    """``present.0.key=past.0.key`` of the command line, as output -> input.

    Raises:
        ModelError: a text has another form.
    """
    found = {}
    for text in texts:
        output, mark, name = text.partition("=")
        if not mark or not output or not name:
            raise ModelError(
                f"--state {text}: write OUTPUT=INPUT, such as present.0.key=past.0.key"
            )
        found[output] = name
    return found


def _named(graph: Graph) -> Iterator[tuple[str, str]]:
    """(output, input) of those whose names and types go together."""
    outputs = set(graph.output_names)
    for tensor in graph.inputs.tolist():
        name = graph.tensor_names[tensor]
        for mine, theirs in _RENAMED:
            output = name.replace(mine, theirs, 1)
            if mine in name and output in outputs and _fit(graph, output, name):
                yield output, name
                break
        else:
            if name == "state" and "stateN" in outputs and _fit(graph, "stateN", name):
                yield "stateN", name


def _kept_inside(graph: Graph) -> Iterator[tuple[str, str]]:
    """(what is set, what is read) of the states that OpenVINO's layers keep."""
    for read, kept in graph.state_pairs:
        tensors = graph.op_inputs[kept][0], graph.op_outputs[read][0]
        output, name = (graph.tensor_names[int(t)] for t in tensors)
        yield output, name


def _configured(graph: Graph) -> Iterator[tuple[str, str]]:
    """(output, input) as the file says that onnxruntime-genai reads."""
    path = graph.path.parent / "genai_config.json"
    if not path.is_file():
        return
    try:
        decoder = parse_json(read_text(path, ModelError))["model"]["decoder"]
        if decoder.get("filename", graph.path.name) != graph.path.name:
            return
        inputs, outputs = decoder.get("inputs", {}), decoder.get("outputs", {})
        layers = min(int(decoder.get("num_hidden_layers", 0)), 10_000)
    except (EditorError, json.JSONDecodeError, ValueError, KeyError, TypeError, AttributeError):
        return  # the file is not about this model
    for kind in ("key", "value"):
        past, present = inputs.get(f"past_{kind}_names"), outputs.get(f"present_{kind}_names")
        if not (isinstance(past, str) and isinstance(present, str)):
            continue
        for layer in range(layers):
            output, name = _numbered(present, layer), _numbered(past, layer)
            _check(graph, output, name, str(path))
            yield output, name


def _numbered(template: str, layer: int) -> str:
    return re.sub(r"%d", str(layer), template, count=1)


def _check(graph: Graph, output: str, name: str, where: str) -> None:
    if output not in graph.output_names:
        raise ModelError(f"{where}: the model has no output {output!r}")
    if name not in graph.input_names:
        raise ModelError(f"{where}: the model has no input {name!r}")
    if not _fit(graph, output, name):
        kinds = [_described(graph, each) for each in (output, name)]
        raise ModelError(
            f"{where}: {output} is {kinds[0]} and {name} is {kinds[1]}: they cannot be one state"
        )


def _described(graph: Graph, name: str) -> str:
    tensor = graph.tensor_index[name]
    return f"{graph.tensor_types[tensor]} {graph.shape_label(tensor)}"


def _fit(graph: Graph, output: str, name: str) -> bool:
    """Whether two tensors have one type and rank, and sizes that differ along one axis at most."""
    one, other = graph.tensor_index[output], graph.tensor_index[name]
    first, second = graph.tensor_shapes[one], graph.tensor_shapes[other]
    if graph.tensor_types[one] != graph.tensor_types[other]:
        return False
    if first is None or second is None:
        return True
    if len(first) != len(second):
        return False
    known = [
        (a, b)
        for a, b in zip(first, second, strict=True)
        if isinstance(a, int) and isinstance(b, int)
    ]
    return sum(a != b for a, b in known) <= 1


def _growing_axis(graph: Graph, output: str, name: str) -> int:
    first = graph.tensor_shapes[graph.tensor_index[output]] or ()
    second = graph.tensor_shapes[graph.tensor_index[name]] or ()
    different = [axis for axis, (a, b) in enumerate(zip(first, second, strict=False)) if a != b]
    return different[0] if different else -1


def sizes_at_context(graph: Graph, context: int) -> dict[str, int]:
    """Sizes of open dimensions for a step that ends with a context of this many tokens.

    Args:
        graph: the model, whose sizes may be open; those that are defined stay.
        context: tokens, those of the step among them.

    Raises:
        ModelError: no open dimension of a state grows with the context, or a step alone is longer.
    """
    known, sequence = dict(graph.sizes), sequence_dim(graph)
    new = known.get(sequence, 1)
    if context < new:
        raise ModelError(
            f"{graph.path}: a step has {new} tokens, more than the context of {context}; choose fewer with "
            f"--define {sequence}=1"
        )
    sizes = sizes_of_step(graph, new, context - new)
    return {name: size for name, size in sizes.items() if name not in known}


def sizes_of_step(graph: Graph, new: int, past: int) -> dict[str, int]:
    """Sizes of open dimensions for a step of some tokens after some others.

    Args:
        graph: the model, whose sizes may be open.
        new: tokens of the step.
        past: tokens before it.

    Raises:
        ModelError: no open dimension of a state grows with the context.
    """
    dims = graph.input_dims
    grown = {
        dim: past
        for state in states_of(graph)
        if state.axis >= 0
        for dim in dims.get(state.input, ())[state.axis : state.axis + 1]
        if isinstance(dim, str)
    }
    if not grown:
        raise ModelError(
            f"{graph.path}: "
            + (
                "its layers keep the state inside, so that each plan is of the first step; memory is told for any context"
                if graph.state_pairs
                else "no state with an open size grows with the context"
            )
        )
    sequence = sequence_dim(graph)
    sizes = grown | ({sequence: new} if sequence else {})
    total = next((d for d in dims.get("attention_mask", ())[-1:] if isinstance(d, str)), "")
    if total and total not in sizes and not re.search(r"[+*]", total):
        sizes[total] = past + new
    return sizes


def sequence_dim(graph: Graph) -> str:
    """The open dimension that counts the tokens of a step; "" where their number is fixed."""
    ids = next((name for name in TOKEN_INPUTS if name in graph.input_names), "")
    return next((d for d in graph.input_dims.get(ids, ())[-1:] if isinstance(d, str)), "")


def tokens_of_step(graph: Graph) -> int:
    """Tokens of each step at the sizes of a model that keeps a state; 0 where it keeps none or takes no tokens."""
    if not states_of(graph):
        return 0
    ids = next((name for name in TOKEN_INPUTS if name in graph.input_names), None)
    shape = (None if ids is None else graph.tensor_shapes[graph.tensor_index[ids]]) or ()
    return shape[-1] if shape and isinstance(shape[-1], int) else 0


def makes_one_token(graph: Graph) -> bool:
    """Whether a step of a model makes one token, and needs nothing else than tokens before it: no encoder's values."""
    return tokens_of_step(graph) == 1 and _needs_only_tokens(graph)


def prompt_of_step(graph: Graph) -> int:
    """Tokens of a step that takes a whole prompt and makes the first token; 0 of other steps."""
    before = _before(graph)
    is_first = bool(before) and not any(before)
    tokens = tokens_of_step(graph)
    return tokens if tokens > 1 and is_first and _needs_only_tokens(graph) else 0


def prompt_at(graph: Graph) -> int:
    """Tokens of the prompt by the sizes of a step: those before it, or its own where it takes them all; 0 where none say."""
    return max(_before(graph), default=0) or prompt_of_step(graph)


def what_a_run_makes(graph: Graph) -> str:
    """What stands after the time of a run of a language model: " a token"; "" of other models."""
    if makes_one_token(graph):
        return " a token"
    return " to the first token" if prompt_of_step(graph) else ""


def past_of_step(graph: Graph) -> int | None:
    """Tokens before a step that takes one; None of other steps, and where no size says."""
    return max(_before(graph), default=None) if tokens_of_step(graph) == 1 else None


def _before(graph: Graph) -> list[int]:
    """Tokens before a step, by each state that grows."""
    sizes = [
        (graph.tensor_shapes[graph.tensor_index[state.input]] or ())[state.axis]
        for state in states_of(graph)
        if state.axis >= 0 and not state.inside
    ]
    return [size for size in sizes if isinstance(size, int)]


def _needs_only_tokens(graph: Graph) -> bool:
    known = {*(s.input for s in states_of(graph)), *TOKEN_INPUTS, *MASKS, *POSITIONS, *BEAMS}
    return known.issuperset(graph.input_names)


def unit_of_rate(graph: Graph) -> str:
    """What the runs of a model in a second are: "tokens/s" where each makes the next token of one sequence."""
    return TOKENS_PER_SECOND if makes_one_token(graph) and _one_sequence(graph) else "requests/s"


def _one_sequence(graph: Graph) -> bool:
    given = [name for name in graph.input_names if name in TOKEN_INPUTS]
    shapes = (graph.tensor_shapes[graph.tensor_index[name]] for name in given)
    return all(size == 1 for size in next(shapes, None) or ())


@dataclass(frozen=True)
class Lengths:
    """How long an answer is."""

    prompt: int
    """Tokens of the prompt"""
    new: int
    """Tokens that are generated, the first one with the prompt"""

    @property
    def before_last(self) -> int:
        """How many tokens come before the step that makes the last one."""
        return self.prompt + max(self.new - 2, 0)

    @property
    def context(self) -> str:
        """How many tokens come before the steps of one token: before the first and before the last step."""
        first, last = self.prompt, self.before_last
        return f"{first:,}" if first == last else f"{first:,} to {last:,}"


def parse_lengths(text: str, option: str) -> Lengths:
    """Reads ``prompt=512,new=64``, the value of an option.

    Raises:
        ModelError: the text has another form, or a number below 1.
    """
    found = dict(re.findall(r"(prompt|new)\s*=\s*(\d{1,7})(?:,|$)", text.replace(" ", "")))
    if set(found) != {"prompt", "new"} or min(map(int, found.values())) < 1:
        raise ModelError(f"{option} {text}: write prompt=512,new=64")
    return Lengths(int(found["prompt"]), int(found["new"]))
