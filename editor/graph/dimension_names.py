"""What people call the dimensions of inputs, by the names that exporters give them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

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
