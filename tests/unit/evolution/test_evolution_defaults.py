"""T2, T9: what may be the default of a column, and the internal value it becomes."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import pandas as pd
import pytest

from icecore.engine.errors import ValidationError
from icecore.engine.spec import single_value
from icecore.engine.spec.default_value import check_struct_default, default_value
from icecore.engine.spec.types import (
    IntegerType,
    ListType,
    MapType,
    NestedField,
    StringType,
    StructType,
    Type,
    parse_primitive,
)

UUID_TEXT = "f79c3e09-677c-4bbd-a479-3f349cb785e7"
ZONE = dt.timezone(dt.timedelta(hours=2))


@pytest.mark.parametrize(
    ("type_name", "value", "internal"),
    [
        ("boolean", True, True),
        ("int", 34, 34),
        ("long", 2**40, 2**40),
        ("float", 1, 1.0),
        ("double", 1.5, 1.5),
        ("decimal(9, 2)", Decimal("14.2"), Decimal("14.20")),
        ("decimal(9, 2)", "14.2", Decimal("14.20")),
        ("decimal(9, 2)", 14, Decimal("14.00")),
        ("decimal(9, 2)", 0.1, Decimal("0.10")),
        ("date", dt.date(1970, 1, 3), 2),
        ("date", "1969-12-31", -1),
        ("date", 2, 2),
        ("time", dt.time(0, 0, 1), 1_000_000),
        ("time", "00:00:01", 1_000_000),
        ("timestamp", dt.datetime(1970, 1, 1, 0, 0, 1), 1_000_000),
        ("timestamp", dt.datetime(1969, 12, 31, 23, 59, 59, 999999), -1),
        ("timestamp", "1970-01-01T00:00:01", 1_000_000),
        ("timestamptz", dt.datetime(1970, 1, 1, 2, tzinfo=ZONE), 0),
        ("timestamptz", "1970-01-01T00:00:01+00:00", 1_000_000),
        ("timestamp_ns", dt.datetime(1970, 1, 1, 0, 0, 1), 1_000_000_000),
        ("timestamptz_ns", dt.datetime(1970, 1, 1, 2, 0, 1, tzinfo=ZONE), 1_000_000_000),
        ("timestamp_ns", pd.Timestamp(1_000_000_001), 1_000_000_001),
        ("timestamp_ns", pd.Timestamp(-1), -1),
        ("timestamp", pd.Timestamp(1_000_000_000), 1_000_000),
        ("string", "x", "x"),
        ("uuid", UUID_TEXT, uuid.UUID(UUID_TEXT)),
        ("uuid", uuid.UUID(UUID_TEXT), uuid.UUID(UUID_TEXT)),
        ("fixed[2]", b"ab", b"ab"),
        ("binary", b"abc", b"abc"),
    ],
)
def test_t9_a_python_value_becomes_the_internal_one_and_survives_json(
    type_name: str, value: Any, internal: Any
) -> None:
    t = parse_primitive(type_name)
    found = default_value(t, value)
    assert (found, type(found)) == (internal, type(internal))
    assert single_value.from_json(t, single_value.to_json(t, found)) == internal
    assert default_value(t, found) == internal


@pytest.mark.parametrize(
    ("type_name", "value"),
    [
        ("boolean", 1),
        ("int", True),
        ("int", 2**31),
        ("int", "1"),
        ("int", 1.0),
        ("float", float("nan")),
        ("double", float("inf")),
        ("decimal(4, 2)", Decimal("100.00")),
        ("decimal(4, 2)", Decimal("1.001")),
        ("decimal(4, 2)", "abc"),
        ("decimal(4, 2)", True),
        ("date", dt.datetime(1970, 1, 1)),
        ("date", "yesterday"),
        ("time", 86_400_000_000),
        ("timestamp", dt.datetime(1970, 1, 1, tzinfo=dt.UTC)),
        ("timestamptz", dt.datetime(1970, 1, 1)),
        ("timestamp_ns", dt.datetime(9999, 1, 1)),
        ("timestamp", pd.Timestamp(1_000_000_001)),
        ("string", 1),
        ("uuid", "nope"),
        ("fixed[2]", b"abc"),
        ("binary", "abc"),
        ("unknown", 1),
        ("variant", b"x"),
        ("geometry", b"x"),
        ("geography", b"x"),
    ],
)
def test_t2_t9_a_value_that_does_not_fit_the_type_is_refused(type_name: str, value: Any) -> None:
    with pytest.raises(ValidationError):
        default_value(parse_primitive(type_name), value)


def test_t9_null_is_a_default_of_every_type() -> None:
    assert default_value(parse_primitive("variant"), None) is None


def test_t9_lists_and_maps_hold_converted_values() -> None:
    date = parse_primitive("date")
    assert default_value(ListType(1, date), ["1970-01-02", None]) == [1, None]
    assert default_value(MapType(1, StringType(), 2, date), {"a": "1970-01-02"}) == [("a", 1)]
    with pytest.raises(ValidationError, match="null is not allowed"):
        default_value(ListType(1, date, element_required=True), [None])


def test_t9_a_struct_defaults_to_the_empty_struct_or_null() -> None:
    def field(inner: NestedField, default: Any) -> NestedField:
        return NestedField(1, "s", StructType((inner,)), initial_default=default)

    struct: Type = StructType((NestedField(2, "x", IntegerType()),))
    assert default_value(struct, {}) == {}
    with pytest.raises(ValidationError, match="its fields have their own"):
        default_value(struct, {"x": 1})
    check_struct_default(field(NestedField(2, "x", IntegerType()), {}))
    check_struct_default(field(NestedField(2, "x", IntegerType(), True, None, 0, 0), {}))
    check_struct_default(field(NestedField(2, "x", IntegerType(), True), None))
    with pytest.raises(ValidationError, match="required field 'x' has no default"):
        check_struct_default(field(NestedField(2, "x", IntegerType(), True), {}))
