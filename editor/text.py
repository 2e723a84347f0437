"""Numbers, sizes and lists as text, and back."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Sequence

_MAX_CHARACTERS = 24
_MOST_BYTES = 2.0**60
_NUMBER = r"\s*(\d+(?:\.\d*)?(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?)\s*"
_FLAGS = re.IGNORECASE | re.ASCII
_SIZE = re.compile(_NUMBER + r"([kmgt]?)(i?)(?:b|bytes?)?\s*", _FLAGS)
_RATE = re.compile(_NUMBER + r"([kmgt]?)(i?)(?:b|bytes?)?(?:/s|ps)?\s*", _FLAGS)
_BIT_RATE = re.compile(_NUMBER + r"([kmgt]?)(i?)b(?:its?)?(?:/s|ps)?\s*", _FLAGS)
_OF_BITS = re.compile(r"[KMGT]i?b(?:/s|ps|\s*$)|[kmgt]i?bps|(?i:bit)", re.ASCII)
"""A small b after a prefix, as bits are written: Gb/s, Mbps; ``gb/s`` in small letters is taken for bytes."""
_WORK = re.compile(_NUMBER + r"([kmgtp]?)(?:fl)?(?:ops?)?(?:/s)?\s*", _FLAGS)
_WATTS = re.compile(_NUMBER + r"([uµμmk]?)(?:[wW](?:atts?)?)?\s*", re.ASCII)
"""With the letter's case: mW and MW are far apart."""
_WATTS_OF = {"": 1.0, "k": 1e3, "m": 1e-3, "u": 1e-6, "µ": 1e-6, "μ": 1e-6}
_SECONDS = re.compile(_NUMBER + r"(|s|ms|us|µs|μs|ns)\s*", _FLAGS)
_SECONDS_OF = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}
_PREFIXES = " kmgtp"


def parse_bytes(text: str) -> int | None:
    """Bytes of ``8GiB``, ``500 MB``, ``500 Mb`` (memory is never counted in bits) or ``1000``; None where it is not a size."""
    match = _matching(_SIZE, text)
    size = float(match[1]) * _factor(match[2], match[3]) if match else float("inf")
    return int(size) if size < _MOST_BYTES else None


def parse_bytes_per_second(text: str) -> float | None:
    """Bytes per second of ``30 GB/s`` or ``3e10``; None where it is not such a rate, or 0. ``96 Gb/s``, ``10Gbps`` are bits."""
    bits = _OF_BITS.search(text)
    match = _matching(_BIT_RATE if bits else _RATE, text)
    return (
        _positive(float(match[1]) * _factor(match[2], match[3]) / (8 if bits else 1))
        if match
        else None
    )


def parse_work_per_second(text: str) -> float | None:
    """Operations per second of ``4 TFLOPS``, ``26 TOPS`` or ``1e13``; None where it is not such a rate, or 0."""
    match = _matching(_WORK, text)
    return _positive(float(match[1]) * _factor(match[2])) if match else None


def parse_seconds(text: str) -> float | None:
    """Seconds of ``50us``, ``1 ms`` or ``2e-5``; None where it is not a time."""
    match = _matching(_SECONDS, text)
    seconds = float(match[1]) * _SECONDS_OF[match[2].lower()] if match else float("inf")
    return seconds if seconds < float("inf") else None


def parse_watts(text: str) -> float | None:
    """Watts of ``15 W``, ``350mW`` or ``2.5``; None where it is not a power, or 0."""
    match = _matching(_WATTS, text)
    return _positive(float(match[1]) * _WATTS_OF[match[2]]) if match else None


def _matching(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    return pattern.fullmatch(text) if len(text) <= _MAX_CHARACTERS else None


def _factor(prefix: str, binary: str = "") -> float:
    return float((1024 if binary else 1000) ** _PREFIXES.index(prefix.lower() or " "))


def _positive(value: float) -> float | None:
    return value if 0 < value < float("inf") else None


def human_bytes(size: int) -> str:
    """ "602.1 kB", "14.56 MB": decimal units, four digits; "?" for an unknown size."""
    if size < 0:
        return "?"
    if size < 1000:
        return f"{size} B"
    value = float(size)
    for unit in ("kB", "MB", "GB", "TB"):
        value /= 1000
        if float(f"{value:.4g}") < 1000:  # as it is shown: 999,999 bytes are 1 MB
            return f"{value:.4g} {unit}"
    return f"{value:,.0f} TB"


def human_seconds(seconds: float) -> str:
    """ "12.7 ms", "384 µs", "1.84 s", "2,310 s"."""
    return "< 0.001 µs" if 0 < seconds < 1e-9 else _human(seconds, "s")


def roughly(value: float) -> float:
    """A figure that rests on assumed speeds: two digits, which parts need to add up to the whole, and no more."""
    return float(f"{value:.1e}")


_MISLEADING = 1.5
"""Times that a measurement is off what was worked out, from which on it is said"""


def off_by(factor: float) -> str:
    """How far what was worked out is from what was measured, by their ratio; "" where that is near."""
    if 1 / _MISLEADING < factor < _MISLEADING:
        return ""
    return f"{by_times(factor)} too {'high' if factor > 1 else 'low'}"


def by_times(factor: float) -> str:
    """A ratio or its inverse, whichever is more than one: "1.6x"."""
    return f"{roughly(max(factor, 1 / factor)):g}x"


def rough_seconds(seconds: float) -> str:
    """ "about 13 ms", "about 420 µs": of a time that rests on assumed speeds."""
    return f"about {human_seconds(roughly(seconds))}"


def in_words(seconds: float, rough: bool) -> str:
    """A time, in rough figures where it rests on assumed speeds."""
    return rough_seconds(seconds) if rough else human_seconds(seconds)


def human_rate(rate: float, unit: str = "requests/s") -> str:
    """ "43.6 requests/s"."""
    return f"{rate:.1f} {unit}"


def rough_rate(rate: float, unit: str = "requests/s") -> str:
    """ "about 1,300 requests/s": as ``rough_seconds`` has it."""
    return f"about {roughly(rate):,.10g} {unit}"


def human_joules(joules: float) -> str:
    """ "12.7 mJ", "384 µJ", "1.84 J", "2,310 J"."""
    return _human(joules, "J")


def _human(value: float, unit: str) -> str:
    for scaled, prefix in ((value * 1e6, "µ"), (value * 1e3, "m"), (value, "")):
        if float(f"{scaled:.3g}") < 1000:  # as it is shown: 0.9996 seconds are 1 s
            return f"{scaled:.3g} {prefix}{unit}"
    return f"{value:,.0f} {unit}"


def is_utf8(text: str) -> bool:
    """Whether a text can be stored and sent; a file name of other bytes, or half a character of JSON, cannot."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def as_utf8(text: str) -> str:
    """A text with escapes in place of what is not valid Unicode: it can be shown and sent."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def shortened(text: str, length: int) -> str:
    """A text cut to a length, with an ellipsis."""
    return text if len(text) <= length else text[: length - 1] + "…"


def shortened_name(text: str, length: int) -> str:
    """A name cut to a length at its beginning: names of one model are paths, which differ at their ends."""
    return text if len(text) <= length else "…" + text[len(text) - length + 1 :]


def end_of_name(name: str, length: int) -> str:
    """A name cut to a length at its beginning, between words where these are short. As ``ending`` of `assets/looks.js`."""
    if len(name) <= length:
        return name
    end = name[len(name) - length + 1 :].lstrip("./ _")
    words = re.sub(r"^[^./ _]+[./ _]+", "", end)
    return f"…{words if len(words) >= 0.6 * length else end}"


def shortened_path(text: str, length: int) -> str:
    """A name cut to a length that keeps the last numbered part of its path: "layer.11…attention/MatMul_output_0"."""
    if len(text) <= length:
        return text
    layer = next((part for part in reversed(text.split("/")[:-1]) if re.search(r"\d", part)), "")
    room = length - len(layer) - 1
    end = text[len(text) - max(room, 1) :]
    return (
        f"{layer}…{end}"
        if layer and room >= length // 3 and layer not in end
        else shortened_name(text, length)
    )


def shorten_distinct(text: str, others: Iterable[str], length: int) -> str:
    """A text cut to a length, at its beginning where another text would look the same. As ``apart`` of `assets/graph.js`."""
    start = text[: length - 1]
    alike = any(other != text and other.startswith(start) for other in others)
    return shortened_name(text, length) if alike else shortened(text, length)


def percent(share: float, digits: int = 0) -> str:
    """ "42 %"; a share that is not nothing is not called 0."""
    least = 10.0**-digits
    return f"< {least:g} %" if 0 < 100 * share < least / 2 else f"{100 * share:.{digits}f} %"


def rough_percent(share: float) -> str:
    """ "about 42 %"; what is less than one per cent, and all of it, is not said to be about that."""
    words = percent(roughly(share))
    return words if words in ("0 %", "< 1 %", "100 %") else f"about {words}"


def joined(texts: Sequence[str], word: str = "and") -> str:
    """Texts as a list in words: "a", "a and b", "a, b and c"."""
    return f" {word} ".join(filter(None, (", ".join(texts[:-1]), *texts[-1:])))


def pluralize(number: int, what: str) -> str:
    """ "1 subgraph", "3,000 ops"."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def counted(names: Iterable[str], most: int, more: str = "more type") -> str:
    """How often each name comes, the commonest first, and how many others there are: "52 Conv, 1 Gemm and 2 more types"."""
    counts = sorted(Counter(names).items(), key=lambda each: (-each[1], each[0]))
    said = ", ".join(f"{number:,} {name}" for name, number in counts[:most])
    rest = len(counts) - most
    return f"{said} and {pluralize(rest, more)}" if rest > 0 else said


_FORMULA = re.compile(r"'*[=+\-@\t\r]")


def spreadsheet_cell(value: object) -> object:
    """A cell of a CSV file. Text that a spreadsheet would run as a formula gets an apostrophe in front."""
    return (
        f"'{value}"
        if isinstance(value, str) and _FORMULA.match(value) and not is_number(value)
        else value
    )


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """The text of a CSV file; strangers chose what is in its cells."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([spreadsheet_cell(cell) for cell in row] for row in rows)
    return text.getvalue()


def from_spreadsheet_cell(cell: str) -> str:
    """The text of which `spreadsheet_cell` made a cell."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def is_number(text: str) -> bool:
    """Whether Python reads a text as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def markdown_cell(text: str) -> str:
    """A text of a model as code in a cell of a table in Markdown."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("`", "'").replace("\n", " ")
