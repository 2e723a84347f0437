"""What the dimensions of a model's inputs stand for, by their names, their places, and the ops that read them; in words."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum

from editor.graph.graph import Graph
from editor.groups import firsts
from editor.text import pluralize

_NEW, _PAST, _TOTAL = "sequence length", "past tokens", "total tokens"
_CALLED = {
    "batch": ("batch_size", "batchsize"),
    _NEW: ("sequence", "sequence_length", "seq", "seq_len", "seq_length", "seqlen"),
    _PAST: ("past_sequence_length", "past_seq_len", "past_length", "past_len", "past"),
    _TOTAL: (
        *("total_sequence_length", "total_seq_len", "total_length", "past_sequence_length + 1"),
        "past_sequence_length + sequence_length",
    ),
    "encoder length": ("encoder_sequence_length", "encoder_length", "source_sequence_length"),
    "decoder length": ("decoder_sequence_length", "decoder_length", "target_sequence_length"),
    "longest sequence": ("max_sequence_length", "max_seq_len", "max_length"),
    "channels": ("num_channels",),
    "height": ("image_height",),
    "width": ("image_width",),
    "images": ("num_images",),
    "beams": ("num_beams", "beam_width"),
    "samples": ("num_samples", "audio_length"),
    "frames": ("num_frames",),
}
"""Words -> names, in small letters; a dimension may be named by the words themselves, too."""
_WORDS = {name: words for words, names in _CALLED.items() for name in (words, *names)}


def words_of_dimension(name: str) -> str:
    """Plain words for a usual name, "" for others: "past tokens" for ``past_sequence_length``."""
    return _WORDS.get(name.strip().lower(), "")


def with_names(text: str, names: Collection[str]) -> str:
    """A text of sizes with the names of dimensions, where it calls them by words: "past tokens=1" becomes "past_len=1"."""
    words = [words_of_dimension(name) for name in names]
    for name, called in zip(names, words, strict=True):
        if called and called != name and words.count(called) == 1:
            shown = name.replace("\\", r"\\")
            text = re.sub(rf"(?<!\S){called}\s*=\s*", f"{shown}=", text, flags=re.IGNORECASE)
    return text


def sizes_in_words(sizes: Mapping[str, int]) -> str:
    """E.g. "batch 1, sequence length 128" and "batch 1, 1 token after 127".

    A name that is not known stays as it is, as do two that are called the same.
    """
    words = {name: words_of_dimension(name) or name for name in sizes}
    called = list(words.values())
    named = {
        words[name] if called.count(words[name]) == 1 else name: size
        for name, size in sizes.items()
    }
    new, past = named.get(_NEW), named.get(_PAST)
    if new is None or past is None:
        return ", ".join(f"{name} {size:,}" for name, size in named.items())
    step = (
        f"{pluralize(new, 'token')} after {past:,}"
        if past
        else f"{pluralize(new, 'token')} at once"
    )
    named.pop(_PAST)
    if named.get(_TOTAL) == new + past:
        named.pop(_TOTAL)
    return ", ".join(step if name == _NEW else f"{name} {size:,}" for name, size in named.items())


def sizes_apart(sizes: Mapping[str, int], others: Iterable[Mapping[str, int]]) -> str:
    """The words of sizes that some others do not have: "1 token after 2,048"; "" where all have all of them."""
    lists = [sizes_in_words(other).split(", ") for other in others]
    words = sizes_in_words(sizes).split(", ")
    return ", ".join(each for each in words if any(each not in other for other in lists))


class Meaning(StrEnum):
    """What a dimension stands for; what may follow from others is last."""

    BATCH = "batch"
    SOURCE = "source"
    """Of a sequence that an encoder has read"""
    SEQUENCE = "sequence"
    SAMPLES = "samples"
    """Of a sound"""
    IMAGE = "image"
    CHANNELS = "channels"
    UNKNOWN = "unknown"
    PAST = "past"
    """What a decoder has seen before"""
    TOTAL = "total"
    """The past and what is new"""


_NAMES = (
    (r"past.*\+|total|kv_?len|max_?len", Meaning.TOTAL),
    (r"past|cache|memory_?len", Meaning.PAST),
    (r"batch|^b$|^n$|^none$|num_?images|beam", Meaning.BATCH),
    (r"height|width|^h$|^w$|image_?size|pixels", Meaning.IMAGE),
    (r"channel|^c$", Meaning.CHANNELS),
    (r"samples|^audio|^wave?", Meaning.SAMPLES),
    (r"encoder|source|^src", Meaning.SOURCE),
    (r"seq|len|tokens?|^t$|^s$|^l$|time|frames", Meaning.SEQUENCE),
)
_SOUND = re.compile(r"audio|wav|sound|speech|pcm", re.IGNORECASE)
_CACHE = re.compile(r"past|cache|kv", re.IGNORECASE)
_STATE = re.compile(r"state|hidden|cell|^[hc]_?\d*$", re.IGNORECASE)
_KEEPS_SOUND = frozenset(
    {
        "Add",
        "Cast",
        "Concat",
        "Div",
        "Identity",
        "Mul",
        "Pad",
        "Reshape",
        "Slice",
        "Squeeze",
        "Sub",
        "Unsqueeze",
    }
)
_READS_SOUND = frozenset({"Conv", "DFT", "STFT"})
_MOST_OPS = 50
_UNNAMED = re.compile(r".*\[\d+\]", re.DOTALL)


def meanings(graph: Graph) -> dict[str, Meaning]:
    """Open dimension of the inputs -> what it stands for; the first input that has it counts."""
    found: dict[str, Meaning] = {}
    for tensor in graph.inputs.tolist():
        dims = graph.input_dims.get(graph.tensor_names[tensor], ())
        for axis, dim in enumerate(dims):
            if isinstance(dim, str) and dim not in found:
                found[dim] = _meaning(graph, tensor, dims, axis)
    return found


def lengths_note(graph: Graph) -> str:
    """What is odd about the chosen lengths of a decoder's step; "" where nothing is."""
    of = firsts(
        (meaning, (name, graph.define[name]))
        for name, meaning in meanings(graph).items()
        if name in graph.define
    )
    three = [of.get(m) for m in (Meaning.TOTAL, Meaning.PAST, Meaning.SEQUENCE)]
    if None in three:
        return ""
    (total, size), (past, seen), (new, tokens) = (each for each in three if each is not None)
    if size >= seen + tokens:
        return ""
    return (
        f"{pluralize(size, 'token')} in total ({total}) is less than {seen:,} past ({past}) and {tokens:,} new ({new}) "
        "together, which is right only for a cache that has room for more tokens than it holds"
    )


def with_total(graph: Graph, sizes: Mapping[str, int]) -> dict[str, int]:
    """Other sizes of a model, with total tokens of a decoder's step that remain past and new ones together, where they are now.

    Args:
        graph: the model with its present sizes.
        sizes: by open dimension. If only the total is another one, the past tokens follow it.
    """
    if (names := _tokens_in_step(graph)) is None:
        return dict(sizes)
    (total, past, new), now = names, graph.define
    if sizes[total] == now[total]:
        return {**sizes, total: sizes[past] + sizes[new]}
    if sizes[past] == now[past] and sizes[new] < sizes[total]:
        return {**sizes, past: sizes[total] - sizes[new]}
    return dict(sizes)


def total_that_follows(graph: Graph) -> str:
    """The open dimension of the total tokens, where these are past and new ones together; else ""."""
    names = _tokens_in_step(graph)
    return names[0] if names else ""


def context_dim(graph: Graph) -> str:
    """The open dimension that says how long the context of a decoder's step is: the past, else all tokens; else ""."""
    known = {meaning: name for name, meaning in reversed(meanings(graph).items())}
    found = (known.get(meaning) for meaning in (Meaning.PAST, Meaning.TOTAL))
    return next((name for name in found if name and name in graph.define), "")


def _tokens_in_step(graph: Graph) -> tuple[str, str, str] | None:
    """The dimensions of total, past and new tokens, where the first is the sum of the others at the sizes of a model."""
    now = graph.define
    found = {meaning: name for name, meaning in reversed(meanings(graph).items()) if name in now}
    total, past, new = (found.get(m) for m in (Meaning.TOTAL, Meaning.PAST, Meaning.SEQUENCE))
    if not (total and past and new) or now[total] != now[past] + now[new]:
        return None
    return total, past, new


def _meaning(graph: Graph, tensor: int, dims: tuple[int | str, ...], axis: int) -> Meaning:
    by_name = _by_name(str(dims[axis]))
    may_be_sound = by_name in (None, Meaning.SEQUENCE) and 0 < axis == len(dims) - 1
    if may_be_sound and _is_sound(graph, tensor, dims):
        return Meaning.SAMPLES
    return by_name or _by_place(graph, tensor, dims, axis)


def _by_name(name: str) -> Meaning | None:
    if _UNNAMED.fullmatch(name):
        return None
    text = name.lower().removesuffix("_size").removesuffix("_dim")
    return next((what for pattern, what in _NAMES if re.search(pattern, text)), None)


def _by_place(graph: Graph, tensor: int, dims: tuple[int | str, ...], axis: int) -> Meaning:
    """Images have four axes; token ids are whole numbers with two."""
    rank, name, kind = len(dims), graph.tensor_names[tensor], graph.tensor_types[tensor]
    if rank == 3 and axis < 2 and _reads(graph, tensor, {"GRU", "LSTM", "RNN"}):
        return Meaning.BATCH if axis else Meaning.SEQUENCE
    if axis == 0 or (axis == 1 and rank == 3 and _STATE.search(name)):
        return Meaning.BATCH
    if rank > 2 and _CACHE.search(name):
        return Meaning.PAST if axis == rank - 2 else Meaning.UNKNOWN
    if rank == 4:
        channels = 3 if dims[3] in (1, 3, 4) else 1
        return Meaning.CHANNELS if axis == channels else Meaning.IMAGE
    is_counted = kind.startswith("int") or "mask" in name or _reads(graph, tensor, {"Cast"})
    if (rank == 2 and is_counted) or (rank == 3 and (axis == 1 or isinstance(dims[1], int))):
        return Meaning.SEQUENCE
    return Meaning.UNKNOWN


def _is_sound(graph: Graph, tensor: int, dims: tuple[int | str, ...]) -> bool:
    """Whether an input is one row of numbers for each item of the batch, which a window moves over."""
    if "float" not in graph.tensor_types[tensor] or not (
        len(dims) == 2 or (len(dims) == 3 and dims[1] in (1, 2))
    ):
        return False
    if _SOUND.search(graph.tensor_names[tensor]):
        return True
    waiting, seen = [tensor], {tensor}
    for _ in range(_MOST_OPS):
        if not waiting:
            break
        for op in graph.readers[waiting.pop(0)].tolist():
            if graph.op_types[op] in _READS_SOUND or graph.op_is_atomic[op]:
                return True
            result = int(graph.op_outputs[op][0])
            if graph.op_types[op] in _KEEPS_SOUND and result not in seen:
                seen.add(result)
                waiting.append(result)
    return False


def _reads(graph: Graph, tensor: int, kinds: set[str]) -> bool:
    return any(graph.op_types[op] in kinds for op in graph.readers[tensor].tolist())
