"""Texts that are cut can still be told apart."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from editor.text import apart, shortened_name, shortened_path


def test_names_that_begin_alike_keep_their_ends() -> None:
    names = ["accelerator-card-0", "accelerator-card-1", "CPU", "a-very-long-other-name"]
    shown = [apart(name, names, 12) for name in names]
    assert len(set(shown)) == len(names) and shown[2] == "CPU" and shown[3].startswith("a-very-long")
    assert shown[0].endswith("card-0") and shown[1].endswith("card-1")


def test_a_path_that_is_cut_keeps_its_layer() -> None:
    name = "/m/vit/encoder/layer.11/attention/attention/MatMul_output_0"
    assert shortened_path(name, 30) == "layer.11…ntion/MatMul_output_0" and shortened_path(name, 80) == name
    assert shortened_path("no-layer-in-this-name-of-an-op/MatMul", 12) == "…n-op/MatMul"


@given(st.text(max_size=40), st.lists(st.text(max_size=40), max_size=4), st.integers(4, 20))
def test_what_is_cut_has_the_length_that_it_was_given(text: str, others: list[str], length: int) -> None:
    for cut in (apart(text, others, length), shortened_name(text, length), shortened_path(text, length)):
        assert len(cut) == min(len(text), length)
    assert shortened_name(text, length).removeprefix("…") in text or text.startswith("…")
