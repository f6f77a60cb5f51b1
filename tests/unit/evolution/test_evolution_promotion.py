"""T7: which types may widen, what that does to partitions and to defaults."""

from __future__ import annotations

import pytest
from pyiceberg.schema import promote
from pyiceberg.types import PrimitiveType as PyPrimitive

from icecore.engine.errors import ValidationError
from icecore.engine.spec.promotion import can_promote, promote_value, promotion_keeps_partitions
from icecore.engine.spec.transform import parse_transform
from icecore.engine.spec.types import (
    DateType,
    IntegerType,
    StructType,
    TimestampNanoType,
    TimestampType,
    UnknownType,
    parse_primitive,
)

ALLOWED_ALWAYS = {("int", "long"), ("float", "double"), ("decimal(9, 2)", "decimal(12, 2)")}
ALLOWED_V3 = {("date", "timestamp"), ("date", "timestamp_ns")}
NAMES = [
    *("boolean", "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz", "timestamp_ns"),
    *("timestamptz_ns", "string", "uuid", "binary", "fixed[4]", "fixed[8]", "unknown", "variant", "geometry"),
    *("geography", "decimal(9, 2)", "decimal(12, 2)", "decimal(12, 3)"),
]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_t7_the_table_of_promotions_is_the_whole_of_it(version: int) -> None:
    for source in NAMES:
        for target in NAMES:
            expected = source == target or (source, target) in ALLOWED_ALWAYS
            if version == 3:
                expected = expected or source == "unknown" or (source, target) in ALLOWED_V3
            assert can_promote(parse_primitive(source), parse_primitive(target), version) is expected, (source, target)


def test_t7_no_primitive_becomes_a_struct_except_unknown_in_v3() -> None:
    struct = StructType(())
    assert not can_promote(IntegerType(), struct, 3)
    assert not can_promote(struct, IntegerType(), 3)
    assert can_promote(UnknownType(), struct, 3)
    assert not can_promote(UnknownType(), struct, 2)


def test_t7_what_v2_allows_pyiceberg_allows_too() -> None:
    for source, target in ALLOWED_ALWAYS:
        py_target = PyPrimitive.model_validate(target)
        assert promote(PyPrimitive.model_validate(source), py_target) == py_target


@pytest.mark.parametrize("transform", ["identity", "bucket[4]", "truncate[2]", "void"])
def test_t7_an_int_that_becomes_long_keeps_its_partitions(transform: str) -> None:
    t = parse_transform(transform)
    source, target = parse_primitive("int"), parse_primitive("long")
    assert promotion_keeps_partitions(source, target, t)
    for value in (-7, 0, 34, 2**31 - 1):
        assert t.apply(source, value) == t.apply(target, value)


@pytest.mark.parametrize("target", [TimestampType(), TimestampNanoType()])
@pytest.mark.parametrize(
    ("transform", "keeps"),
    [("year", True), ("month", True), ("day", True), ("void", True), ("identity", False), ("bucket[4]", False)],
)
def test_t7_a_date_that_becomes_a_timestamp_keeps_year_month_and_day_only(
    target: TimestampType | TimestampNanoType, transform: str, keeps: bool
) -> None:
    t = parse_transform(transform)
    days = (-25567, -1, 0, 17486, 20000)
    as_dates = [t.apply(DateType(), d) for d in days]
    as_timestamps = [t.apply(target, promote_value(DateType(), target, d)) for d in days]
    assert promotion_keeps_partitions(DateType(), target, t) is keeps
    assert (as_dates == as_timestamps) is keeps


def test_t7_an_unknown_transform_lets_no_promotion_through() -> None:
    assert not promotion_keeps_partitions(IntegerType(), parse_primitive("long"), parse_transform("zorder[3]"))


def test_t7_defaults_move_along_with_the_type() -> None:
    assert promote_value(DateType(), TimestampType(), 2) == 172_800_000_000
    assert promote_value(DateType(), TimestampNanoType(), 2) == 172_800_000_000_000
    assert promote_value(IntegerType(), parse_primitive("long"), 2) == 2
    assert promote_value(DateType(), TimestampType(), None) is None
    with pytest.raises(ValidationError, match="outside of the range of timestamp_ns"):
        promote_value(DateType(), TimestampNanoType(), 200_000)
