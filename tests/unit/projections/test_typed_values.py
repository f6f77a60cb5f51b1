"""Binary single values as typed columns, and the bytes that tell values apart (M9, T10, SP5)."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from budgets import examples
from hypothesis import given
from hypothesis import strategies as st
from wide_values import TYPES, plain

from icecore.engine.formats.binary_columns import Places
from icecore.engine.formats.typed_values import arrow_type, identity_bytes, typed_values
from icecore.engine.spec import single_value
from icecore.engine.spec.types import (
    BooleanType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeometryType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimeType,
    UnknownType,
    UUIDType,
)


@examples(80, new=1050)
@given(data=st.data(), iceberg_type=st.sampled_from(list(TYPES)))
def test_M9_binary_values_become_typed_ones(data: st.DataObject, iceberg_type: PrimitiveType) -> None:
    values = data.draw(st.lists(st.none() | TYPES[iceberg_type]))
    encoded = [None if v is None else single_value.to_bytes(iceberg_type, v) for v in values]
    found = typed_values(iceberg_type, pa.array(encoded, pa.binary()))
    found.validate(full=True)
    assert found.type == arrow_type(iceberg_type)
    # repr tells -0.0 from 0.0 and makes NaN equal to itself.
    assert [repr(v) for v in found.to_pylist()] == [repr(plain(v)) for v in values]


@given(data=st.data(), iceberg_type=st.sampled_from(list(TYPES)))
def test_values_at_places_are_the_values_there(data: st.DataObject, iceberg_type: PrimitiveType) -> None:
    values = data.draw(st.lists(TYPES[iceberg_type] | st.none(), min_size=1, max_size=6))
    encoded = pa.array(
        [None if v is None else single_value.to_bytes(iceberg_type, v) for v in values], pa.binary()
    ).slice(data.draw(st.integers(0, 1)))
    count = data.draw(st.integers(0, 8))
    rows = sorted(data.draw(st.sets(st.integers(0, max(count - 1, 0)), max_size=count))) if len(encoded) else []
    everywhere = len(rows) == count and data.draw(st.booleans())
    positions = [data.draw(st.integers(0, len(encoded) - 1)) for _ in rows]
    places = Places(np.array(positions, np.int64), None if everywhere else np.array(rows, np.int64), count)
    found = typed_values(iceberg_type, encoded, places)
    found.validate(full=True)
    expected = dict(zip(rows, positions, strict=True))
    picked = [encoded[expected[i]].as_py() if i in expected else None for i in range(count)]
    assert places.take(encoded).to_pylist() == picked
    assert places.null_count(encoded) == picked.count(None)
    assert repr(found.to_pylist()) == repr(typed_values(iceberg_type, pa.array(picked, pa.binary())).to_pylist())


@examples(80, new=1050)
@given(data=st.data(), iceberg_type=st.sampled_from(list(TYPES)))
def test_SP5_identity_bytes_are_equal_exactly_where_the_values_are(
    data: st.DataObject, iceberg_type: PrimitiveType
) -> None:
    values = data.draw(st.lists(TYPES[iceberg_type] | st.none(), min_size=1, max_size=6))
    encoded = [None if v is None else single_value.to_bytes(iceberg_type, v) for v in values]
    found = identity_bytes(typed_values(iceberg_type, pa.array(encoded, pa.binary()))).to_pylist()
    for i, a in enumerate(values):
        for j, b in enumerate(values):
            same = repr(plain(a)) == repr(plain(b)) if a is None or b is None or a != b or a == 0 else True
            assert (found[i] == found[j]) == same


@pytest.mark.parametrize(
    ("iceberg_type", "data", "expected"),
    [
        (LongType(), struct.pack("<i", -7), -7),
        (TimeType(), struct.pack("<i", 7), 7),
        (DoubleType(), struct.pack("<f", 1.5), 1.5),
        (TimestampType(), struct.pack("<i", 2), 2 * 86_400_000_000),
        (TimestampNanoType(), struct.pack("<i", -2), -2 * 86_400_000_000_000),
        (TimestampNanoType(), struct.pack("<i", 2**31 - 1), None),
        (DecimalType(9, 2), b"\xff", Decimal("-0.01")),
        (DecimalType(9, 2), b"\x00" * 9 + b"\x05", Decimal("0.05")),
        (DecimalType(2, 0), b"\x64", None),
        (DecimalType(38, 0), b"\x7f" + b"\xff" * 15, None),
        (DecimalType(38, 0), b"\x00" * 17, None),
        (DecimalType(9, 2), b"", None),
        (IntegerType(), struct.pack("<q", 7), None),
        (LongType(), b"123", None),
        (BooleanType(), b"", None),
        (BooleanType(), b"\x02", True),
        (FloatType(), struct.pack("<d", 1.5), None),
        (StringType(), b"\xff", None),
        (UUIDType(), b"short", None),
        (FixedType(3), b"ab", b"ab"),
        (GeometryType(), b"xy", b"xy"),
        (UnknownType(), b"xy", None),
    ],
    ids=str,
)
def test_T10_values_from_before_a_promotion_and_values_that_fit_no_reading(
    iceberg_type: PrimitiveType, data: bytes, expected: Any
) -> None:
    found = typed_values(iceberg_type, pa.array([data, None], pa.binary()))
    found.validate(full=True)
    assert found.to_pylist() == [expected, None]


def test_values_that_fit_no_reading_leave_the_others_alone() -> None:
    longs = pa.array([struct.pack("<q", 2**40), b"123", struct.pack("<i", 7), b""], pa.binary())
    assert typed_values(LongType(), longs).to_pylist() == [2**40, None, 7, None]
    texts = pa.array([b"ok", b"\xff", None, "ä".encode()], pa.binary())
    assert typed_values(StringType(), texts).to_pylist() == ["ok", None, None, "ä"]
    uuids = pa.array([bytes(16), b"short", None], pa.binary())
    assert typed_values(UUIDType(), uuids).to_pylist() == [bytes(16), None, None]
    decimals = pa.array([b"\x09", b"\x0a", b"\xf7", b"\xf6"], pa.binary())
    assert typed_values(DecimalType(1, 0), decimals).to_pylist() == [Decimal(9), None, Decimal(-9), None]
