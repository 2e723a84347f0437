"""Quantities with units, as people write them in device tables: ``8GiB``, ``30 GB/s``, ``4 TFLOPS``, ``50us``."""

from __future__ import annotations

import re

_MAX_CHARACTERS = 24
_MOST_BYTES = 2.0 ** 60
_NUMBER = r"\s*(\d+(?:\.\d*)?(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?)\s*"
_FLAGS = re.IGNORECASE | re.ASCII
_SIZE = re.compile(_NUMBER + r"([kmgt]?)(i?)(?:b|bytes?)?\s*", _FLAGS)
_RATE = re.compile(_NUMBER + r"([kmgt]?)(i?)(?:b|bytes?)?(?:/s|ps)?\s*", _FLAGS)
_BIT_RATE = re.compile(_NUMBER + r"([kmgt]?)(i?)b(?:its?)?(?:/s|ps)?\s*", _FLAGS)
_OF_BITS = re.compile(r"[KMGT]i?b(?:/s|ps|\s*$)|[kmgt]i?bps|(?i:bit)", re.ASCII)
"""A small b after a prefix, as bits are written: Gb/s, Mbps; ``gb/s`` in small letters is taken for bytes."""
_WORK = re.compile(_NUMBER + r"([kmgtp]?)(?:fl)?(?:ops?)?(?:/s)?\s*", _FLAGS)
_SECONDS = re.compile(_NUMBER + r"(|s|ms|us|µs|μs|ns)\s*", _FLAGS)
_SECONDS_OF = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}
_PREFIXES = " kmgtp"


def parse_bytes(text: str) -> int | None:
    """Bytes of ``8GiB``, ``500 MB``, ``500 Mb`` (nobody counts memory in bits) or ``1000``; None where it is no size."""
    match = _matching(_SIZE, text)
    size = float(match[1]) * _factor(match[2], match[3]) if match else float("inf")
    return int(size) if size < _MOST_BYTES else None


def parse_bytes_per_second(text: str) -> float | None:
    """Bytes per second of ``30 GB/s`` or ``3e10``; None where it is no such rate, or 0. ``96 Gb/s``, ``10Gbps`` are bits."""
    bits = _OF_BITS.search(text)
    match = _matching(_BIT_RATE if bits else _RATE, text)
    return _positive(float(match[1]) * _factor(match[2], match[3]) / (8 if bits else 1)) if match else None


def parse_work_per_second(text: str) -> float | None:
    """Operations per second of ``4 TFLOPS``, ``26 TOPS`` or ``1e13``; None where it is no such rate, or 0."""
    match = _matching(_WORK, text)
    return _positive(float(match[1]) * _factor(match[2])) if match else None


def parse_seconds(text: str) -> float | None:
    """Seconds of ``50us``, ``1 ms`` or ``2e-5``; None where it is no time."""
    match = _matching(_SECONDS, text)
    seconds = float(match[1]) * _SECONDS_OF[match[2].lower()] if match else float("inf")
    return seconds if seconds < float("inf") else None


def _matching(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    return pattern.fullmatch(text) if len(text) <= _MAX_CHARACTERS else None


def _factor(prefix: str, binary: str = "") -> float:
    return float((1024 if binary else 1000) ** _PREFIXES.index(prefix.lower() or " "))


def _positive(value: float) -> float | None:
    return value if 0 < value < float("inf") else None
