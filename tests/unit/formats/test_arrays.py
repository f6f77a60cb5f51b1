"""Arrays from buffers and back are what pyarrow makes of the same values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from icecore.engine.formats import arrays

LONGS = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(LONGS))
def test_numbers(values: list[int]) -> None:
    assert arrays.numbers(values).equals(pa.array(values, pa.int64()))
    assert arrays.numbers(np.array(values, np.int64)[::-1]).to_pylist() == values[::-1]
    assert arrays.numbers([v % 1000 for v in values], np.int32).equals(pa.array([v % 1000 for v in values], pa.int32()))


@given(st.lists(st.none() | LONGS))
def test_optional_numbers(values: list[int | None]) -> None:
    made = arrays.optional_numbers(values)
    made.validate(full=True)
    assert made.equals(pa.array(values, pa.int64()))


@given(st.lists(st.none() | st.booleans()))
def test_booleans(values: list[bool | None]) -> None:
    made = arrays.optional_booleans(values)
    made.validate(full=True)
    assert made.equals(pa.array(values, pa.bool_()))


@given(st.lists(st.text()))
def test_texts(values: list[str]) -> None:
    made = arrays.texts(values)
    made.validate(full=True)
    assert made.equals(pa.array(values, pa.string()))


@given(st.lists(st.none() | st.binary()))
def test_optional_bytes(values: list[bytes | None]) -> None:
    made = arrays.optional_bytes(values)
    made.validate(full=True)
    assert made.equals(pa.array(values, pa.binary()))


@given(st.lists(st.lists(LONGS), max_size=4), st.integers(0, 3))
def test_to_numbers(chunks: list[list[int]], start: int) -> None:
    """In pieces, cut, and empty; of every type that there is a use for."""
    column = pa.chunked_array([pa.array(c, pa.int64()) for c in chunks], pa.int64()).slice(start)
    assert arrays.to_numbers(column).tolist() == column.to_pylist()
    for kind in (pa.uint8(), pa.int32(), pa.int64(), pa.float32(), pa.float64()):
        array = pa.array([1, 2, 3, 4], kind)[start:]
        assert arrays.to_numbers(array).tolist() == array.to_pylist()
        assert arrays.to_numbers(array).dtype == array.to_numpy().dtype


@given(st.lists(st.booleans()), st.integers(0, 20))
def test_to_mask(values: list[bool], start: int) -> None:
    column = pa.array(values, pa.bool_())[start:]
    assert arrays.to_mask(column).tolist() == column.to_pylist()
    chunked = pa.chunked_array([column, column], pa.bool_())
    assert arrays.to_mask(chunked).tolist() == chunked.to_pylist()
    assert arrays.to_mask(pa.chunked_array([], pa.bool_())).tolist() == []


def test_dates_and_times_are_their_numbers() -> None:
    for kind in (pa.date32(), pa.time64("us"), pa.timestamp("us", "UTC"), pa.timestamp("ns")):
        array = pa.array([1, 2, 3], pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
        assert arrays.to_numbers(array[1:]).tolist() == [2, 3]


def test_missing() -> None:
    missing = np.array([False, True, False])
    assert arrays.numbers([1, 2, 3], missing=missing).to_pylist() == [1, None, 3]
    assert arrays.booleans(np.array([True, True, False]), missing=missing).to_pylist() == [True, None, False]
