"""Partition keys: equal exactly where spec and tuple are, and what can be read of them (SP5)."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import pytest
from budgets import examples
from hypothesis import given
from hypothesis import strategies as st
from wide_values import TYPES, entries, identity_spec, key_of

from icecore.engine.errors import ValidationError
from icecore.engine.formats.entry_arrow import decode_partition
from icecore.engine.spec import single_value
from icecore.engine.spec.types import (
    BooleanType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
)
from icecore.projections.entries.partition_key import partition_of_key
from icecore.projections.entries.wide_entries import widen


def test_SP5_partition_keys_tell_values_apart_as_the_spec_does() -> None:
    zero, minus_zero, quiet, other = (struct.pack("<d", v) for v in (0.0, -0.0, math.nan, math.nan))
    other = other[:-1] + b"\xff"
    assert key_of(DoubleType(), zero) != key_of(DoubleType(), minus_zero)
    assert key_of(DoubleType(), quiet) == key_of(DoubleType(), other)
    assert key_of(StringType(), None) != key_of(StringType(), b"")
    assert key_of(LongType(), struct.pack("<i", 5)) == key_of(LongType(), struct.pack("<q", 5))
    assert key_of(LongType(), struct.pack("<q", 5), spec_id=1) != key_of(LongType(), struct.pack("<q", 5))
    assert key_of(DecimalType(9, 2), b"\x05") == key_of(DecimalType(9, 2), b"\x00\x05")


def test_SP5_values_that_can_not_be_read_still_count_in_partition_equality() -> None:
    assert len({key_of(LongType(), v) for v in (b"123", b"124", None, struct.pack("<q", 5))}) == 4


def test_SP5_where_values_of_several_fields_end_matters() -> None:
    schema, spec = identity_spec(StringType(), StringType())
    pairs = [(b"ab", b"c"), (b"a", b"bc"), (b"ab", None), (b"a\x01b", b"c"), (b"a", b"b\x01c"), (None, b"ab")]
    table = entries(*({"partition": [(1000, a), (1001, b)]} for a, b in pairs))
    found = widen(table, schema=schema, specs={0: spec}).table["partition_key"].to_pylist()
    assert len(set(found)) == len(pairs)


@examples(80, new=1400)
@given(data=st.data(), types=st.lists(st.sampled_from(list(TYPES)), min_size=1, max_size=3))
def test_SP5_a_partition_key_tells_its_values(data: st.DataObject, types: list[PrimitiveType]) -> None:
    schema, spec = identity_spec(*types, spec_id=data.draw(st.sampled_from([0, 7, 2**31 - 1])))
    encoded = [
        None if v is None else single_value.to_bytes(t, v)
        for t, v in ((t, data.draw(TYPES[t] | st.none())) for t in types)
    ]
    partition = [(1000 + i, v) for i, v in enumerate(encoded)]
    (key,) = (
        widen(entries({"spec_id": spec.spec_id, "partition": partition}), schema=schema, specs={spec.spec_id: spec})
        .table["partition_key"]
        .to_pylist()
    )
    # repr tells -0.0 from 0.0 and makes NaN equal to itself.
    assert repr(partition_of_key(key, types)) == repr(decode_partition(spec, schema, partition))


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (LongType(), struct.pack("<i", -7)),
        (DoubleType(), struct.pack("<f", 0.1)),
        (TimestampType(), struct.pack("<i", -2)),
        (TimestampNanoType(), struct.pack("<i", 2**31 - 1)),
        (DecimalType(9, 2), b"\x00\x00\x05"),
        (BooleanType(), b"\x02"),
        (IntegerType(), struct.pack("<q", 2**40)),
        (FloatType(), struct.pack("<d", 1e300)),
        (LongType(), b"123"),
        (StringType(), b"\xff"),
    ],
    ids=str,
)
def test_T10_a_partition_key_of_another_length(kind: PrimitiveType, data: bytes) -> None:
    """Values from before a promotion are the same; what can't be read is refused as it is elsewhere."""
    schema, spec = identity_spec(kind)

    def answer(read: Callable[[], Any]) -> str:
        try:
            return repr(read())
        except ValidationError as e:
            return str(e)

    key = key_of(kind, data)
    expected = answer(lambda: decode_partition(spec, schema, [(1000, data)]))
    assert answer(lambda: partition_of_key(key, [kind])) == expected


def test_SP5_partition_keys_outlive_promotions() -> None:
    assert key_of(IntegerType(), struct.pack("<i", -5)) == key_of(LongType(), struct.pack("<q", -5))
    assert key_of(FloatType(), struct.pack("<f", 0.1)) == key_of(DoubleType(), struct.pack("<f", 0.1))
    assert key_of(DecimalType(4, 2), b"\x05") == key_of(DecimalType(9, 2), b"\x05")
