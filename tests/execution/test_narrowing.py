"""Tensors that travel as float16 or int8."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from editor.devices.device import WIRE_TYPES
from editor.execution.machines.dataflow import narrow, widened

SHAPES = arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=6)
FINITE = arrays.arrays(np.float32, SHAPES, elements=st.floats(-60_000, 60_000, width=32))
ANY = arrays.arrays(np.float32, SHAPES, elements=st.floats(width=32))
HALF = arrays.arrays(
    np.float16, SHAPES, elements=st.floats(width=16, allow_nan=False, allow_infinity=False)
)


@given(FINITE)
def test_float16_is_off_by_half_its_last_digit_at_most(values: np.ndarray) -> None:
    travels = narrow(values, "float16")
    back = widened(travels)
    assert travels.travels_as == "float16" and travels.bytes * 2 == values.nbytes
    assert back.dtype == values.dtype and back.shape == values.shape
    wide = values.astype(np.float64)
    assert (np.abs(back - wide) <= np.maximum(np.abs(wide) * 2.0**-11, 2.0**-25)).all()


@given(FINITE)
def test_int8_is_off_by_half_a_step_at_most(values: np.ndarray) -> None:
    largest = float(np.abs(values).max(initial=0.0))
    travels = narrow(values, "int8")
    if 0.0 < largest < 1e-30:
        assert travels.data is values
        return
    back = widened(travels)
    assert travels.travels_as == "int8" and travels.bytes * 4 == values.nbytes
    assert back.dtype == values.dtype and back.shape == values.shape
    assert (np.abs(back.astype(np.float64) - values) <= largest / 254 * (1 + 1e-4)).all()
    assert (
        np.array_equal(back == 0, np.abs(values) <= largest / 254)
        or largest == 0.0
        or near_a_tie(values, largest)
    )


def near_a_tie(values: np.ndarray, largest: float) -> bool:
    """Whether a value is so close to half a step that rounding may go either way."""
    return bool(np.isclose(np.abs(values), largest / 254, rtol=1e-3).any())


@given(ANY, st.sampled_from(WIRE_TYPES))
def test_infinities_and_nan_arrive_as_they_were(values: np.ndarray, wire_type: str) -> None:
    back = widened(narrow(values, wire_type))
    assert np.array_equal(np.isnan(back), np.isnan(values))
    assert np.array_equal(back[np.isinf(values)], values[np.isinf(values)])
    assert np.array_equal(np.isfinite(back), np.isfinite(values)), (
        "what was finite has not become infinite"
    )


@given(HALF)
def test_float16_may_travel_as_int8_and_is_float16_again(values: np.ndarray) -> None:
    back = widened(narrow(values, "int8"))
    assert back.dtype == np.float16 and back.shape == values.shape
    largest = float(np.abs(values).max(initial=0.0))
    bound = largest / 254 * (1 + 1e-4) + np.maximum(
        np.abs(values).astype(np.float64) * 2.0**-10, 2.0**-24
    )
    assert (np.abs(back.astype(np.float64) - values.astype(np.float64)) <= bound).all()
    assert narrow(values, "float16").data is values


@pytest.mark.parametrize("wire_type", [*WIRE_TYPES, ""])
@pytest.mark.parametrize(
    "value",
    [
        np.arange(5),
        np.array([True]),
        np.array(["a"], object),
        np.ones(3),
        [np.ones(2, np.float32)],
        np.array([1 + 2j], np.complex64),
        None,
    ],
)
def test_others_travel_as_they_are(value: object, wire_type: str) -> None:
    travels = narrow(value, wire_type)
    assert travels.data is value and widened(travels) is value and travels.travels_as == ""


def test_values_beyond_float16_travel_as_they_are() -> None:
    values = np.array([1.0, 70_000.0], np.float32)
    assert narrow(values, "float16").data is values
    assert narrow(values, "int8").travels_as == "int8"
