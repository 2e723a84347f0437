"""Texts that are cut can still be told apart."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from editor.text import (
    human_bytes,
    human_seconds,
    percent,
    rough_percent,
    roughly,
    shorten_distinct,
    shortened_name,
    shortened_path,
)


def test_names_that_begin_alike_keep_their_ends() -> None:
    names = ["accelerator-card-0", "accelerator-card-1", "CPU", "a-very-long-other-name"]
    shown = [shorten_distinct(name, names, 12) for name in names]
    assert (
        len(set(shown)) == len(names) and shown[2] == "CPU" and shown[3].startswith("a-very-long")
    )
    assert shown[0].endswith("card-0") and shown[1].endswith("card-1")


def test_a_path_that_is_cut_keeps_its_layer() -> None:
    name = "/m/vit/encoder/layer.11/attention/attention/MatMul_output_0"
    assert (
        shortened_path(name, 30) == "layer.11…ntion/MatMul_output_0"
        and shortened_path(name, 80) == name
    )
    assert shortened_path("no-layer-in-this-name-of-an-op/MatMul", 12) == "…n-op/MatMul"


@given(st.text(max_size=40), st.lists(st.text(max_size=40), max_size=4), st.integers(4, 20))
def test_what_is_cut_has_the_length_that_it_was_given(
    text: str, others: list[str], length: int
) -> None:
    for cut in (
        shorten_distinct(text, others, length),
        shortened_name(text, length),
        shortened_path(text, length),
    ):
        assert len(cut) == min(len(text), length)
    assert shortened_name(text, length).removeprefix("…") in text or text.startswith("…")


def test_a_share_that_is_not_nothing_is_not_called_so() -> None:
    assert [percent(share) for share in (0, 0.004, 0.006, 0.424, 1)] == [
        *("0 %", "< 1 %", "1 %", "42 %", "100 %")
    ]
    assert [percent(share, 1) for share in (0.0004, 0.0006, 0.0157)] == [
        "< 0.1 %",
        "0.1 %",
        "1.6 %",
    ]


def test_a_rough_share_is_about_a_figure_but_not_about_all_or_next_to_nothing() -> None:
    assert [rough_percent(share) for share in (0, 0.0004, 0.42449, 0.9996, 1)] == [
        *("0 %", "< 1 %", "about 42 %", "100 %", "100 %")
    ]


def test_numbers_that_round_up_take_the_next_unit() -> None:
    assert [human_seconds(s) for s in (0.9996, 999.51e-6, 999.6, 999.4, 0.5, 3e-6, 12345)] == [
        "1 s",
        "1 ms",
        "1,000 s",
        "999 s",
        "500 ms",
        "3 µs",
        "12,345 s",
    ]
    assert [
        human_bytes(n) for n in (999, 1000, 999_949, 999_999, 999_999_999, 10**12, 5 * 10**15, -1)
    ] == ["999 B", "1 kB", "999.9 kB", "1 MB", "1 GB", "1 TB", "5,000 TB", "?"]


@given(st.floats(1e-9, 1e6))
def test_seconds_are_shown_without_exponents_and_almost_as_they_are(seconds: float) -> None:
    number, unit = human_seconds(seconds).replace(",", "").split()
    shown = float(number) * {"µs": 1e-6, "ms": 1e-3, "s": 1}[unit]
    assert abs(shown - seconds) <= 0.005 * seconds + 1e-12 and not (
        unit != "s" and float(number) >= 1000
    )
    assert "e+" not in number


@given(st.integers(0, 10**15))
def test_bytes_are_shown_without_exponents_and_almost_as_they_are(size: int) -> None:
    number, unit = human_bytes(size).replace(",", "").split()
    shown = float(number) * 1000 ** ["B", "kB", "MB", "GB", "TB"].index(unit)
    assert (
        abs(shown - size) <= 0.0005 * size
        and not (unit != "TB" and float(number) >= 1000)
        and "e" not in number
    )


@given(st.floats(1e-9, 1e9))
def test_a_rough_figure_is_within_a_twentieth_and_has_two_digits(value: float) -> None:
    digits = f"{roughly(value):e}".partition("e")[0].rstrip("0").rstrip(".")
    assert abs(roughly(value) / value - 1) <= 0.0501
    assert len(digits) in (1, 3)
    assert roughly(roughly(value)) == roughly(value)
