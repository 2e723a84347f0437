"""Changes real files at random: bytes, words of text, and fields of protobuf messages."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from google.protobuf.descriptor import FieldDescriptor as Field
from google.protobuf.message import DecodeError, Message
from onnx import ModelProto

NUMBERS = (
    "0",
    "-1",
    "1",
    "2",
    "1e999",
    "NaN",
    "-0.0",
    "9" * 30,
    "9" * 5000,
    "1099511627776",
    "9223372036854775807",
    "-9223372036854775808",
    "0x7f",
    "1_0",
    "٣",
    "1e-400",
    "2147483648",
    "255",
)
WORDS = (
    "null",
    "true",
    "[]",
    "{}",
    '""',
    "a\\u0000b",
    "\0",
    "\n",
    "\t",
    "&a",
    "*a",
    "<<: *a",
    "!!python/object:os.system",
    "..",
    "/dev/zero",
    "~",
    "?",
    "- ",
    ": ",
    "[" * 40,
    "{" * 40,
    "(" * 40,
    "x" * 5000,
    "GPU",
    "CPU",
    "OpenVINO",
    "Conv",
    "2020-13-45",
    "%s",
    "\\",
    '"',
    "'",
    "#",
    ",",
    ";",
    "=",
    "**",
    "é",
    "\u2028",
    "(.*)*x!",
)
INTEGERS = (
    0,
    1,
    -1,
    2,
    3,
    7,
    16,
    127,
    255,
    1 << 15,
    1 << 20,
    (1 << 31) - 1,
    1 << 31,
    1 << 40,
    (1 << 63) - 1,
    -(1 << 63),
)
FLOATS = (0.0, -1.0, 1e38, float("inf"), float("nan"), 1e-45)
_TOKEN = re.compile(r"[\w.+-]+|[^\w\s]")
_INTEGER_KINDS = frozenset(
    {Field.CPPTYPE_INT32, Field.CPPTYPE_INT64, Field.CPPTYPE_UINT32, Field.CPPTYPE_UINT64}
)


def mutated_bytes(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """A few bytes changed, removed, repeated, or taken from another file."""
    result = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 12))):
        at = rng.randrange(len(result) + 1)
        length = rng.choice((1, 1, 2, 4, 16, 200))
        kind = rng.randrange(6)
        if kind == 0 and result:
            result[min(at, len(result) - 1)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            result[at : at + length] = rng.randbytes(length)
        elif kind == 2:
            del result[at : at + length]
        elif kind == 3:
            result[at:at] = result[at : at + length] * rng.choice((1, 2, 50))
        elif kind == 4:
            other = rng.choice(others)
            start = rng.randrange(len(other) + 1)
            result[at : at + length] = other[start : start + length]
        else:
            del result[at:]
    return bytes(result)


def mutated_text(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """A few words replaced, removed, repeated, or taken from another file; sometimes bytes."""
    if rng.random() < 0.2:
        return mutated_bytes(rng, data, others)
    text = data.decode("utf-8", "replace")
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        tokens = list(_TOKEN.finditer(text))
        if not tokens:
            break
        first = rng.choice(tokens)
        start, end = first.span()
        kind = rng.randrange(7)
        if kind <= 2:
            text = text[:start] + rng.choice(NUMBERS if kind else WORDS) + text[end:]
        elif kind == 3:
            text = text[:start] + rng.choice(WORDS) + text[start:]
        elif kind == 4:
            end = rng.choice(tokens).end()
            text = text[:start] + text[end:] if end > start else text[:end] + text[start:]
        elif kind == 5:
            words = _TOKEN.findall(rng.choice(others).decode("utf-8", "replace")) or [""]
            text = text[:start] + rng.choice(words) + text[end:]
        else:
            text = text[:start] + text[start:end] * rng.choice((2, 40)) + text[end:]
    return text.encode("utf-8", "surrogatepass")


def mutated_model(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """A few fields of a model changed; sometimes bytes."""
    model = ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError:
        return mutated_bytes(rng, data, others)
    if rng.random() < 0.15:
        return mutated_bytes(rng, data, others)
    names = sorted(
        {name for node in model.graph.node for name in (*node.input, *node.output)} - {""}
    ) or ["x"]
    types = sorted({node.op_type for node in model.graph.node}) or ["Add"]
    for _ in range(rng.choice((1, 1, 2, 3, 6))):
        message = _some_message(rng, model)
        fields = [f for f in message.DESCRIPTOR.fields if f.is_repeated or message.HasField(f.name)]
        field = rng.choice(
            fields if fields and rng.random() < 0.8 else list(message.DESCRIPTOR.fields)
        )
        _change(rng, message, field, [*names, *types])
    try:
        return model.SerializeToString()
    except (ValueError, DecodeError):
        return data


def _some_message(rng: random.Random, root: Message) -> Message:
    """A part of a message: walks down by chance, mostly to the end."""
    message = root
    for _ in range(12):
        below = [
            value
            for field, value in message.ListFields()
            if field.cpp_type == Field.CPPTYPE_MESSAGE
        ]
        if not below or (message is not root and rng.random() < 0.25):
            break
        chosen = rng.choice(below)
        message = chosen if isinstance(chosen, Message) else rng.choice(chosen)
    return message


def _change(rng: random.Random, message: Message, field: Field, names: Sequence[str]) -> None:
    try:
        if field.is_repeated:
            _change_list(rng, getattr(message, field.name), field, names)
        elif field.cpp_type == Field.CPPTYPE_MESSAGE:
            message.ClearField(field.name) if rng.random() < 0.5 else getattr(
                message, field.name
            ).SetInParent()
        else:
            setattr(message, field.name, _value(rng, field, names))
    except (ValueError, TypeError):
        message.ClearField(field.name)


def _change_list(rng: random.Random, items: object, field: Field, names: Sequence[str]) -> None:
    values = items  # a protobuf list
    kind = rng.randrange(4)
    if field.cpp_type == Field.CPPTYPE_MESSAGE:
        if kind == 0 or not values:
            values.add()  # type: ignore[attr-defined]
        elif kind == 1:
            del values[rng.randrange(len(values))]  # type: ignore[attr-defined, arg-type]
        else:
            values.add().CopyFrom(rng.choice(values))  # type: ignore[attr-defined, arg-type]
    elif kind == 0 and values:
        del values[rng.randrange(len(values))]  # type: ignore[attr-defined, arg-type]
    elif kind == 1 and values:
        values[rng.randrange(len(values))] = _value(rng, field, names)  # type: ignore[index, arg-type]
    else:
        values.extend([_value(rng, field, names)] * rng.choice((1, 1, 1, 3, 300)))  # type: ignore[attr-defined]


def _value(rng: random.Random, field: Field, names: Sequence[str]) -> object:
    if field.cpp_type == Field.CPPTYPE_STRING:
        text = rng.choice(
            (rng.choice(names), rng.choice(names), rng.choice(WORDS), rng.choice(NUMBERS))
        )
        return text.encode() if field.type == Field.TYPE_BYTES else text
    if field.cpp_type in (Field.CPPTYPE_FLOAT, Field.CPPTYPE_DOUBLE):
        return rng.choice(FLOATS)
    if field.cpp_type == Field.CPPTYPE_ENUM:
        return rng.randrange(30)
    return rng.choice(INTEGERS)
