"""Single values in binary and JSON, and bucket hashes, by the tables of the spec (Appendices B and D)."""

from __future__ import annotations

import struct
import uuid
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icecore.engine.errors import ValidationError
from icecore.engine.spec import single_value
from icecore.engine.spec.transform import (
    BucketTransform,
    DayTransform,
    HourTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    UnknownTransform,
    YearTransform,
    bucket_hash,
    parse_transform,
)
from icecore.engine.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeometryType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    Type,
    UnknownType,
    UUIDType,
)

UUID = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
US = 1_510_871_468_000_000  # 2017-11-16T22:31:08
TIME = (22 * 3600 + 31 * 60 + 8) * 1_000_000


def ts(text: str, zone: bool = False, per_second: int = 1_000_000) -> int:
    return single_value.parse_timestamp(text, with_zone=zone, per_second=per_second)


HASHES: list[tuple[PrimitiveType, Any, int]] = [
    (IntegerType(), 34, 2017239379),
    (LongType(), 34, 2017239379),
    (DecimalType(9, 2), Decimal("14.20"), -500754589),
    (DateType(), single_value.parse_date("2017-11-16"), -653330422),
    (TimeType(), TIME, -662762989),
    (TimestampType(), ts("2017-11-16T22:31:08"), -2047944441),
    (TimestampType(), ts("2017-11-16T22:31:08.000001"), -1207196810),
    (TimestamptzType(), ts("2017-11-16T14:31:08-08:00", True), -2047944441),
    (TimestamptzType(), ts("2017-11-16T14:31:08.000001-08:00", True), -1207196810),
    (TimestampNanoType(), ts("2017-11-16T22:31:08", per_second=10**9), -2047944441),
    (TimestampNanoType(), ts("2017-11-16T22:31:08.000001001", per_second=10**9), -1207196810),
    (TimestamptzNanoType(), ts("2017-11-16T14:31:08-08:00", True, 10**9), -2047944441),
    (TimestamptzNanoType(), ts("2017-11-16T14:31:08.000001001-08:00", True, 10**9), -1207196810),
    (StringType(), "iceberg", 1210000089),
    (UUIDType(), UUID, 1488055340),
    (FixedType(4), bytes([0, 1, 2, 3]), -188683207),
    (BinaryType(), bytes([0, 1, 2, 3]), -188683207),
]


@pytest.mark.parametrize(("kind", "value", "expected"), HASHES)
def test_pt4_appendix_b(kind: PrimitiveType, value: Any, expected: int) -> None:
    """PT4: the test values of Appendix B, and the bucket that follows from them."""
    assert bucket_hash(kind, value) == expected
    assert BucketTransform(16).apply(kind, value) == (expected & 0x7FFFFFFF) % 16
    assert BucketTransform(16).apply(kind, None) is None


def test_pt4_a_decimal_hashes_without_its_scale() -> None:
    """PT4: the hash of a decimal looks at the unscaled value only."""
    assert bucket_hash(DecimalType(9, 2), Decimal("14.20")) == bucket_hash(DecimalType(38, 0), Decimal("1420"))


@pytest.mark.parametrize("kind", [BooleanType(), FloatType(), DoubleType(), GeometryType(), UnknownType()])
def test_pt3_types_that_have_no_bucket(kind: PrimitiveType) -> None:
    """PT3: boolean, float, double and others can't be bucketed."""
    assert not BucketTransform(4).can_transform(kind)
    with pytest.raises(ValidationError):
        bucket_hash(kind, True)


BINARY: list[tuple[PrimitiveType, Any, str]] = [
    (BooleanType(), False, "00"),
    (BooleanType(), True, "01"),
    (IntegerType(), 34, "22000000"),
    (IntegerType(), -1, "ffffffff"),
    (LongType(), 34, "2200000000000000"),
    (LongType(), -(2**63), "0000000000000080"),
    (FloatType(), 1.0, "0000803f"),
    (DoubleType(), -0.0, "0000000000000080"),
    (DateType(), -1, "ffffffff"),
    (TimeType(), TIME, TIME.to_bytes(8, "little").hex()),
    (TimestampType(), US, US.to_bytes(8, "little").hex()),
    (TimestamptzType(), -1, "ffffffffffffffff"),
    (TimestampNanoType(), 1, "0100000000000000"),
    (TimestamptzNanoType(), 256, "0001000000000000"),
    (StringType(), "é🧊", "c3a9f09fa78a"),
    (StringType(), "", ""),
    (UUIDType(), UUID, "f79c3e09677c4bbda4793f349cb785e7"),
    (FixedType(3), b"\x00\xff\x01", "00ff01"),
    (BinaryType(), b"", ""),
    (DecimalType(9, 2), Decimal("14.20"), "058c"),
    (DecimalType(9, 2), Decimal("-1.28"), "80"),
    (DecimalType(9, 2), Decimal("1.28"), "0080"),
    (DecimalType(9, 2), Decimal("0.00"), "00"),
    (DecimalType(38, 0), Decimal(10**38 - 1), (10**38 - 1).to_bytes(16, "big").hex()),
]


@pytest.mark.parametrize(("kind", "value", "data"), BINARY)
def test_m9_binary_values(kind: PrimitiveType, value: Any, data: str) -> None:
    """M9: the binary form of each type, both ways."""
    assert single_value.to_bytes(kind, value).hex() == data
    back = single_value.from_bytes(kind, bytes.fromhex(data))
    assert back == value and type(back) is type(value)
    assert str(back) == str(value), "signs of zeros and scales count"


def test_m9_any_non_zero_byte_is_true() -> None:
    """M9: a boolean is false for 0x00 only."""
    assert single_value.from_bytes(BooleanType(), b"\x7f") is True


@pytest.mark.parametrize(
    ("kind", "data", "expected"),
    [
        (LongType(), struct.pack("<i", -5), -5),
        (DoubleType(), struct.pack("<f", 1.5), 1.5),
        (TimestampType(), struct.pack("<i", -1), -86_400_000_000),
        (TimestampNanoType(), struct.pack("<i", 1), 86_400_000_000_000),
        (DecimalType(18, 2), b"\x05\x8c", Decimal("14.20")),
    ],
)
def test_t10_bounds_of_promoted_columns(kind: PrimitiveType, data: bytes, expected: Any) -> None:
    """T10: bounds that were written before a promotion are told by their length."""
    assert single_value.from_bytes(kind, data) == expected


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (BooleanType(), b""),
        (BooleanType(), b"\x00\x01"),
        (IntegerType(), b"\x00" * 3),
        (IntegerType(), b"\x00" * 8),
        (LongType(), b"\x00" * 7),
        (FloatType(), b"\x00" * 8),
        (DoubleType(), b""),
        (DateType(), b"\x00"),
        (TimestampType(), b"\x00" * 9),
        (DecimalType(9, 2), b""),
        (StringType(), b"\xff"),
        (UUIDType(), b"\x00" * 15),
    ],
)
def test_bytes_of_a_wrong_length_are_refused(kind: PrimitiveType, data: bytes) -> None:
    """Bytes that are no value of the type are an error of ours."""
    with pytest.raises(ValidationError):
        single_value.from_bytes(kind, data)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (IntegerType(), 2**31),
        (IntegerType(), "1"),
        (LongType(), 2**63),
        (LongType(), None),
        (FloatType(), 1e300),
        (UUIDType(), "f79c3e09"),
        (DecimalType(9, 2), Decimal("0.001")),
        (DecimalType(9, 2), Decimal("NaN")),
        (BinaryType(), "text"),
        (UnknownType(), 1),
    ],
)
def test_values_that_do_not_fit_are_refused(kind: PrimitiveType, value: Any) -> None:
    """A value that the type can't hold is an error of ours."""
    with pytest.raises(ValidationError):
        single_value.to_bytes(kind, value)


@pytest.mark.parametrize("value", [1e-30, 0.1, 3e38, 16777217])
def test_a_float_from_json_is_the_nearest_float(value: float) -> None:
    """MD9: Java writes `0.1` where the float is 0.100000001490116; both must be one partition value (SP5)."""
    read = single_value.from_json(FloatType(), value)
    assert single_value.from_bytes(FloatType(), single_value.to_bytes(FloatType(), read)) == read
    assert single_value.from_json(FloatType(), read) == read


@pytest.mark.parametrize("value", [1e39, -1e300, 10**400])
def test_a_float_from_json_that_no_float_holds_is_refused(value: float) -> None:
    with pytest.raises(ValidationError):
        single_value.from_json(FloatType(), value)


STRUCT = StructType((NestedField(1, "a", IntegerType()), NestedField(2, "b", StringType())))
JSON: list[tuple[Type, Any, Any]] = [
    (BooleanType(), True, True),
    (IntegerType(), 34, 34),
    (LongType(), 2**62, 2**62),
    (FloatType(), 1.0, 1.0),
    (DoubleType(), 1.0, 1.0),
    (DecimalType(9, 2), Decimal("14.20"), "14.20"),
    (DecimalType(9, -20), Decimal("2E+20"), "2E+20"),
    (DateType(), single_value.parse_date("2017-11-16"), "2017-11-16"),
    (TimeType(), TIME + 123456, "22:31:08.123456"),
    (TimestampType(), US + 123456, "2017-11-16T22:31:08.123456"),
    (TimestamptzType(), US + 123456, "2017-11-16T22:31:08.123456+00:00"),
    (TimestampNanoType(), US * 1000 + 123456789, "2017-11-16T22:31:08.123456789"),
    (TimestamptzNanoType(), US * 1000 + 123456789, "2017-11-16T22:31:08.123456789+00:00"),
    (StringType(), "iceberg", "iceberg"),
    (UUIDType(), UUID, "f79c3e09-677c-4bbd-a479-3f349cb785e7"),
    (FixedType(4), bytes.fromhex("000102ff"), "000102ff"),
    (BinaryType(), bytes.fromhex("000102ff"), "000102ff"),
    (STRUCT, {1: 1, 2: "bar"}, {"1": 1, "2": "bar"}),
    (ListType(3, IntegerType()), [1, None, 3], [1, None, 3]),
    (
        MapType(4, StringType(), 5, IntegerType()),
        [("a", 1), ("b", None)],
        {"keys": ["a", "b"], "values": [1, None]},
    ),
]


@pytest.mark.parametrize(("kind", "value", "json"), JSON)
def test_md9_json_values(kind: Type, value: Any, json: Any) -> None:
    """MD9: the JSON form of each type, both ways; null stays null."""
    assert single_value.to_json(kind, value) == json
    back = single_value.from_json(kind, json)
    assert back == value and str(back) == str(value)
    assert single_value.to_json(kind, None) is None
    assert single_value.from_json(kind, None) is None


@pytest.mark.parametrize(
    ("kind", "json"),
    [
        (BooleanType(), 1),
        (IntegerType(), True),
        (IntegerType(), 2**31),
        (IntegerType(), 1.5),
        (LongType(), "1"),
        (FloatType(), "1.0"),
        (DecimalType(9, 2), 14.2),
        (DecimalType(9, 2), "abc"),
        (DecimalType(9, 2), "0.001"),
        (DateType(), "2017-13-01"),
        (DateType(), "2017-02-29"),
        (DateType(), 1),
        (TimeType(), "24:00:00"),
        (TimeType(), "22:31:08.1234567"),
        (TimestampType(), "2017-11-16T22:31:08+00:00"),
        (TimestampType(), "yesterday"),
        (TimestamptzType(), "2017-11-16T22:31:08"),
        (StringType(), 1),
        (UUIDType(), "f79c3e09"),
        (UUIDType(), 1),
        (FixedType(4), "0001"),
        (BinaryType(), "0g"),
        (UnknownType(), 1),
        (STRUCT, [1]),
        (ListType(3, IntegerType()), {"1": 1}),
        (MapType(4, StringType(), 5, IntegerType()), {"keys": ["a"], "values": []}),
        (MapType(4, StringType(), 5, IntegerType()), [["a", 1]]),
    ],
)
def test_md9_json_of_another_type_is_refused(kind: Type, json: Any) -> None:
    """JSON that is no value of the type is an error of ours."""
    with pytest.raises(ValidationError):
        single_value.from_json(kind, json)


@given(st.integers(-(10**9), 10**9))
def test_dates_of_any_year_come_back(days: int) -> None:
    """Dates far outside of Python's calendar are written and read; the format sorts into ISO within four digits."""
    assert single_value.parse_date(single_value.format_date(days)) == days


@given(st.integers(-(2**63), 2**63 - 1), st.booleans(), st.sampled_from([10**6, 10**9]))
def test_timestamps_of_any_time_come_back(value: int, zone: bool, per_second: int) -> None:
    """Every 64-bit timestamp is written and read, in both units."""
    text = single_value.format_timestamp(value, with_zone=zone, per_second=per_second)
    assert single_value.parse_timestamp(text, with_zone=zone, per_second=per_second) == value


@given(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(0, 38))
def test_decimals_of_any_precision_come_back(unscaled: int, scale: int) -> None:
    """Decimals are exact to 38 digits, in binary and in JSON."""
    kind = DecimalType(38, scale)
    value = single_value.unscaled_to_decimal(unscaled, scale)
    for back in (
        single_value.from_bytes(kind, single_value.to_bytes(kind, value)),
        single_value.from_json(kind, single_value.to_json(kind, value)),
    ):
        assert back.as_tuple() == value.as_tuple() or (back == value == 0)
    data = single_value.to_bytes(kind, value)
    assert len(data) == 1 or data[0] not in (0x00, 0xFF) or (data[0] == 0x00) == (data[1] >= 0x80), "minimal length"


TRANSFORMED: list[tuple[Transform, PrimitiveType, Any, Any]] = [
    (YearTransform(), DateType(), single_value.parse_date("2017-11-16"), 47),
    (YearTransform(), DateType(), -1, -1),
    (MonthTransform(), DateType(), single_value.parse_date("2017-11-16"), 574),
    (MonthTransform(), TimestampType(), -1, -1),
    (DayTransform(), TimestampType(), US, 17486),
    (DayTransform(), TimestamptzType(), -1, -1),
    (DayTransform(), TimestampNanoType(), -1, -1),
    (HourTransform(), TimestampType(), US, 419686),
    (HourTransform(), TimestampType(), -1, -1),
    (HourTransform(), TimestamptzNanoType(), US * 1000 + 999, 419686),
    (TruncateTransform(10), IntegerType(), 1, 0),
    (TruncateTransform(10), IntegerType(), -1, -10),
    (TruncateTransform(10), LongType(), 19, 10),
    (TruncateTransform(50), DecimalType(9, 2), Decimal("10.65"), Decimal("10.50")),
    (TruncateTransform(50), DecimalType(9, 2), Decimal("-0.01"), Decimal("-0.50")),
    (TruncateTransform(3), StringType(), "iceberg", "ice"),
    (TruncateTransform(2), StringType(), "🧊é!", "🧊é"),
    (TruncateTransform(3), BinaryType(), bytes([1, 2, 3, 4, 5]), bytes([1, 2, 3])),
    (parse_transform("void"), LongType(), 5, None),
    (parse_transform("identity"), LongType(), 5, 5),
]


@pytest.mark.parametrize(("transform", "kind", "value", "expected"), TRANSFORMED)
def test_pt3_pt5_transforms(transform: Transform, kind: PrimitiveType, value: Any, expected: Any) -> None:
    """PT3, PT5: the values of each transform, rounded down also before 1970; null stays null."""
    assert transform.apply(kind, value) == expected
    assert transform.apply(kind, None) is None
    assert transform.can_transform(kind)


def test_pt3_day_is_a_date_and_the_others_are_ints() -> None:
    """PT3: the result types."""
    assert DayTransform().result_type(TimestampType()) == DateType()
    for transform in (YearTransform(), MonthTransform(), HourTransform(), BucketTransform(3)):
        assert transform.result_type(TimestampType()) == IntegerType()
    assert TruncateTransform(3).result_type(StringType()) == StringType()


@pytest.mark.parametrize("text", ["identity", "bucket[16]", "truncate[4]", "year", "month", "day", "hour", "void"])
def test_transforms_are_written_as_they_are_read(text: str) -> None:
    """The JSON string of a transform, both ways, whatever its case."""
    assert str(parse_transform(text)) == text
    assert parse_transform(text.upper()) == parse_transform(text)


@pytest.mark.parametrize("text", ["zorder", "bucket", "bucket[x]", "truncate[-1]", ""])
def test_pt6_unknown_transforms_are_kept(text: str) -> None:
    """PT6: what is not known is kept as it is written, and nothing can be written with it."""
    transform = parse_transform(text)
    assert isinstance(transform, UnknownTransform)
    assert str(transform) == text
    with pytest.raises(ValidationError):
        transform.apply(LongType(), 1)


@pytest.mark.parametrize("text", ["bucket[0]", "truncate[0]", "bucket[2147483648]"])
def test_transforms_of_no_width_are_refused(text: str) -> None:
    """A width of zero, or above 32 bits, is an error."""
    with pytest.raises(ValidationError):
        parse_transform(text)
