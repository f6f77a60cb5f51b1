"""Transforms over Arrow arrays and tables split by partition. Spec: Partition Transforms, Appendix B (PT3 to PT5)."""

from __future__ import annotations

import math
import struct
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from icecore.engine.data.arrow.arrow_partitions import partition_batches
from icecore.engine.data.arrow.arrow_schema import schema_to_arrow
from icecore.engine.data.arrow.arrow_transforms import apply_transform
from icecore.engine.data.arrow.arrow_values import from_array, to_array
from icecore.engine.data.arrow.murmur3 import hash_each, hash_longs
from icecore.engine.errors import ValidationError
from icecore.engine.spec.partition import UNPARTITIONED, PartitionField, PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.single_value import parse_date, parse_timestamp
from icecore.engine.spec.transform import (
    INT_MAX,
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    UnknownTransform,
    VoidTransform,
    YearTransform,
)
from icecore.engine.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)


def applied(transform: Transform, t: PrimitiveType, *values: Any) -> list[Any]:
    return from_array(transform.result_type(t), apply_transform(transform, t, to_array(t, list(values))))


APPENDIX_B = [
    (IntegerType(), 34, 2017239379),
    (LongType(), 34, 2017239379),
    (DecimalType(9, 2), Decimal("14.20"), -500754589),
    (DateType(), parse_date("2017-11-16"), -653330422),
    (TimeType(), (22 * 3600 + 31 * 60 + 8) * 1_000_000, -662762989),
    (TimestampType(), parse_timestamp("2017-11-16T22:31:08", with_zone=False), -2047944441),
    (TimestampType(), parse_timestamp("2017-11-16T22:31:08.000001", with_zone=False), -1207196810),
    (TimestamptzType(), parse_timestamp("2017-11-16T14:31:08-08:00", with_zone=True), -2047944441),
    (TimestamptzType(), parse_timestamp("2017-11-16T14:31:08.000001-08:00", with_zone=True), -1207196810),
    (
        TimestampNanoType(),
        parse_timestamp("2017-11-16T22:31:08.000001001", with_zone=False, per_second=10**9),
        -1207196810,
    ),
    (
        TimestamptzNanoType(),
        parse_timestamp("2017-11-16T14:31:08.000001001-08:00", with_zone=True, per_second=10**9),
        -1207196810,
    ),
    (StringType(), "iceberg", 1210000089),
    (UUIDType(), uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"), 1488055340),
    (FixedType(4), b"\x00\x01\x02\x03", -188683207),
    (BinaryType(), b"\x00\x01\x02\x03", -188683207),
]


@pytest.mark.parametrize(("t", "value", "expected"), APPENDIX_B)
def test_pt4_bucket_of_the_specs_hash_values(t: PrimitiveType, value: Any, expected: int) -> None:
    """The hash values of Appendix B, seen through a bucket count that keeps every bit but the sign."""
    assert applied(BucketTransform(INT_MAX), t, value, None) == [(expected & INT_MAX) % INT_MAX, None]


def test_pt4_hashes_of_the_spec() -> None:
    assert hash_longs(to_array(LongType(), [34]).to_numpy()).tolist() == [2017239379]
    assert hash_each(["iceberg", b"\x00\x01\x02\x03"]).tolist() == [1210000089, -188683207]


@pytest.mark.parametrize(
    ("transform", "t", "value", "expected"),
    [
        (TruncateTransform(10), IntegerType(), -1, -10),
        (TruncateTransform(10), LongType(), 11, 10),
        (TruncateTransform(50), DecimalType(9, 2), Decimal("10.65"), Decimal("10.50")),
        (TruncateTransform(10), DecimalType(3, 2), Decimal("-9.90"), Decimal("-9.90")),
        (TruncateTransform(3), StringType(), "ice🧊berg", "ice"),
        (TruncateTransform(4), StringType(), "ice🧊berg", "ice🧊"),
        (TruncateTransform(2), BinaryType(), b"\x01\x02\x03", b"\x01\x02"),
        (YearTransform(), DateType(), parse_date("1969-12-31"), -1),
        (MonthTransform(), DateType(), parse_date("1969-12-31"), -1),
        (MonthTransform(), DateType(), parse_date("1968-12-31"), -13),
        (DayTransform(), TimestampType(), -1, -1),
        (DayTransform(), TimestampNanoType(), -1, -1),
        (HourTransform(), TimestamptzType(), -1, -1),
        (HourTransform(), TimestampNanoType(), 3_600_000_000_000, 1),
        (YearTransform(), DateType(), parse_date("123456-01-01"), 123456 - 1970),
        (VoidTransform(), LongType(), 5, None),
    ],
)
def test_pt5_values(transform: Transform, t: PrimitiveType, value: Any, expected: Any) -> None:
    assert applied(transform, t, value, None) == [expected, None]
    assert transform.apply(t, value) == expected


@pytest.mark.parametrize(
    ("transform", "t"),
    [
        (BucketTransform(4), BooleanType()),
        (BucketTransform(4), DoubleType()),
        (TruncateTransform(4), DateType()),
        (HourTransform(), DateType()),
        (UnknownTransform("zorder"), LongType()),
    ],
)
def test_pt3_transforms_not_defined_for_a_type_are_refused(transform: Transform, t: PrimitiveType) -> None:
    with pytest.raises(ValidationError, match="can't be applied"):
        apply_transform(transform, t, to_array(t, [None]))


@pytest.mark.parametrize(
    "transform, t, value, message",
    [
        (HourTransform(), TimestampType(), 2**63 - 1, "hour gives 2562047788, .* outside of the range of int"),
        (
            TruncateTransform(70),
            DecimalType(2, 1),
            Decimal("-9.9"),
            r"truncate\[70\] of -9.9 is below the range of decimal\(2, 1\), and manifests have 1 bytes",
        ),
    ],
)
def test_pt5_results_out_of_range_are_refused(transform: Transform, t: PrimitiveType, value: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        applied(transform, t, value)


@pytest.mark.parametrize(
    "t, value, expected",
    [
        (IntegerType(), -(2**31), 2**31 - 2),
        (LongType(), -(2**63), 2**63 - 2),
        (DecimalType(3, 2), Decimal("-9.99"), Decimal("-10.00")),
        (DecimalType(38, 0), Decimal("-" + "9" * 38), Decimal("-1" + "0" * 38)),
    ],
)
def test_pt5_the_least_values_wrap_around_as_in_java(t: PrimitiveType, value: Any, expected: Any) -> None:
    """Integers come in again at the other end of their range; a decimal gets a digit more than its type has."""
    assert applied(TruncateTransform(10), t, value, None) == [expected, None]


@pytest.mark.parametrize(
    "t, values",
    [
        (IntegerType(), [-(2**31) + 9, -(2**31), 0, -(2**31) + 1]),
        (LongType(), [-(2**63) + 9, -(2**63), 0, -(2**63) + 1]),
        (DecimalType(3, 2), [Decimal("-9.90"), Decimal("-9.99"), Decimal("0.00"), Decimal("-9.98")]),
    ],
)
def test_so1_truncated_values_below_the_range_come_first(t: PrimitiveType, values: list[Any]) -> None:
    """Sorting needs no value of the range: what can't be truncated is less than all that can."""
    order = apply_transform(TruncateTransform(10), t, to_array(t, values), for_order=True)
    low, lower, zero, lower_too = from_array(t, order)
    assert lower == lower_too < low < zero


SCHEMA = Schema(
    (
        NestedField(1, "id", LongType()),
        NestedField(2, "f", DoubleType()),
        NestedField(3, "s", StructType((NestedField(4, "x", StringType()),))),
    )
)


def table(rows: list[tuple[int, float | None, str | None]]) -> pa.Table:
    items = [{"id": i, "f": f, "s": None if x is None else {"x": x}} for i, f, x in rows]
    return pa.Table.from_pylist(items, schema=schema_to_arrow(SCHEMA))


def test_pt1_split_by_a_field_inside_a_struct() -> None:
    """Rows go to their partitions in their own order; a null struct has a null partition value."""
    spec = PartitionSpec(
        (
            PartitionField((4,), 1000, IdentityTransform(), "x"),
            PartitionField((1,), 1001, TruncateTransform(10), "id_trunc"),
        )
    )
    data = table([(1, None, "a"), (2, None, None), (3, None, "b"), (4, None, "a"), (15, None, "a")])
    split = partition_batches(data, spec, SCHEMA)
    assert [(p, t.column("id").to_pylist()) for p, t in split] == [
        (("a", 0), [1, 4]),
        ((None, 0), [2]),
        (("b", 0), [3]),
        (("a", 10), [15]),
    ]


def test_sp5_nan_is_one_partition_and_zeros_are_two() -> None:
    spec = PartitionSpec((PartitionField((2,), 1000, IdentityTransform(), "f"),))
    other_nan = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000001))[0]
    data = table([(1, math.nan, None), (2, -0.0, None), (3, other_nan, None), (4, 0.0, None), (5, None, None)])
    split = partition_batches(data, spec, SCHEMA)
    assert [t.column("id").to_pylist() for _, t in split] == [[1, 3], [2], [4], [5]]
    assert [str(p[0]) for p, _ in split] == ["nan", "-0.0", "0.0", "None"]


def test_unpartitioned_and_dropped_fields_split_nothing() -> None:
    data = table([(1, 1.0, "a"), (2, 2.0, "b")])
    assert partition_batches(data, UNPARTITIONED, SCHEMA) == [((), data)]
    dropped = PartitionSpec((PartitionField((99,), 1000, VoidTransform(), "gone"),))
    assert partition_batches(data, dropped, SCHEMA) == [((None,), data)]
    assert partition_batches(data.slice(0, 0), UNPARTITIONED, SCHEMA) == []
