"""Column metrics of written data. Spec: Manifests, data_file fields (M4, M5); Java's metrics modes."""

from __future__ import annotations

import math
import struct
from typing import Any

import pyarrow as pa
import pytest

from icecore.engine.data.file.column_metrics import Metrics, MetricsCollector
from icecore.engine.data.file.metrics_mode import (
    Counts,
    Full,
    NoMetrics,
    Truncate,
    metrics_modes,
    parse_mode,
    truncated_lower,
    truncated_upper,
)
from icecore.engine.data.write.conform import conform
from icecore.engine.errors import ValidationError
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.sort import SortField, SortOrder
from icecore.engine.spec.transform import BucketTransform, IdentityTransform
from icecore.engine.spec.types import (
    BinaryType,
    DoubleType,
    FloatType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    UnknownType,
)

SCHEMA = Schema(
    (
        NestedField(1, "f", FloatType()),
        NestedField(2, "s", StringType()),
        NestedField(3, "st", StructType((NestedField(6, "x", LongType()), NestedField(7, "b", BinaryType())))),
        NestedField(4, "l", ListType(8, DoubleType())),
        NestedField(5, "m", MapType(9, StringType(), 10, StructType((NestedField(11, "z", LongType()),)))),
        NestedField(12, "nothing", UnknownType()),
    )
)
F = struct.Struct("<f")
Q = struct.Struct("<q")


def measured(rows: list[dict[str, Any]], properties: dict[str, str] | None = None, parts: int = 1) -> Metrics:
    collector = MetricsCollector(SCHEMA, metrics_modes(SCHEMA, properties or {}))
    step = max(1, len(rows) // parts)
    plain = pa.schema(
        [
            ("f", pa.float32()),
            ("s", pa.string()),
            ("st", pa.struct([("x", pa.int64()), ("b", pa.binary())])),
            ("l", pa.list_(pa.float64())),
            ("m", pa.map_(pa.string(), pa.struct([("z", pa.int64())]))),
        ]
    )
    for start in range(0, len(rows), step):
        collector.add(conform(pa.Table.from_pylist(rows[start : start + step], schema=plain), SCHEMA))
    return collector.finish({})


ROWS: list[dict[str, Any]] = [
    {"f": 1.5, "s": "b", "st": {"x": 5, "b": b"\xff"}, "l": [1.0, math.nan], "m": [("k", {"z": 1})]},
    {"f": math.nan, "s": None, "st": None, "l": None, "m": None},
    {"f": -2.0, "s": "a", "st": {"x": None, "b": b"\x01"}, "l": [], "m": [("k", None), ("j", {"z": None})]},
    {"f": None, "s": "", "st": {"x": -7, "b": None}, "l": [None], "m": []},
]


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_m5_counts_and_bounds(parts: int) -> None:
    """Counts are of values at their own level, bounds leave out nulls and NaN, batches don't matter."""
    m = measured(ROWS, parts=parts)
    assert m.record_count == 4
    assert m.value_counts == {1: 4, 2: 4, 6: 4, 7: 4, 8: 3, 9: 3, 11: 3}
    assert m.null_value_counts == {1: 1, 2: 1, 6: 2, 7: 2, 8: 1, 9: 0, 11: 2}
    assert m.nan_value_counts == {1: 1, 8: 1}
    assert m.lower_bounds == {1: F.pack(-2.0), 2: b"", 6: Q.pack(-7), 7: b"\x01"}
    assert m.upper_bounds == {1: F.pack(1.5), 2: b"b", 6: Q.pack(5), 7: b"\xff"}


def test_m5_nan_is_never_a_bound() -> None:
    m = measured([{"f": math.nan}, {"f": None}])
    assert 1 not in m.lower_bounds
    assert 1 not in m.upper_bounds
    assert m.nan_value_counts[1] == 1


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_m5_zero_bounds_cover_both_zeros(zero: float) -> None:
    """A lower bound of zero is written as -0.0 and an upper one as +0.0."""
    m = measured([{"f": zero}])
    assert m.lower_bounds[1] == F.pack(-0.0)
    assert m.upper_bounds[1] == F.pack(0.0)


def test_long_strings_are_truncated_to_16_code_points() -> None:
    m = measured([{"s": "🧊" * 20, "st": {"x": 1, "b": b"\xff" * 20}}])
    assert m.lower_bounds[2].decode() == "🧊" * 16
    assert m.upper_bounds[2].decode() == "🧊" * 15 + chr(ord("🧊") + 1)
    assert m.lower_bounds[7] == b"\xff" * 16
    assert 7 not in m.upper_bounds
    assert measured([{"s": "🧊" * 16}]).upper_bounds[2].decode() == "🧊" * 16


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("abcd", "abd"),
        ("ab\U0010ffff!", "ac"),
        ("\U0010ffff\U0010ffff\U0010ffff!", None),
        ("ab\ud7ff!", "ab\ue000"),
        ("abc", "abc"),
        (b"\x01\xff\xff\x00", b"\x02"),
        (b"\xff\xff\xff\xff", None),
        (b"abcd", b"abd"),
        (5, 5),
        (None, None),
    ],
)
def test_upper_bounds_are_rounded_up(value: Any, expected: Any) -> None:
    """The truncated upper bound is the least value of that length above; a surrogate is never made."""
    assert truncated_upper(value, Truncate(3)) == expected


def test_lower_bounds_are_cut_off() -> None:
    assert truncated_lower("abcd", Truncate(3)) == "abc"
    assert truncated_lower("abcd", Full()) == "abcd"


def test_modes_by_property() -> None:
    default, column = "write.metadata.metrics.default", "write.metadata.metrics.column."
    m = measured(ROWS, {default: "counts", column + "s": "full", column + "st.x": "none", column + "gone": "full"})
    assert m.lower_bounds == {2: b""}
    assert 6 not in m.value_counts
    assert m.value_counts[1] == 4
    assert metrics_modes(SCHEMA, {column + "m.value.z": "none"})[11] == NoMetrics()
    long = measured([{"s": "x" * 40}], {column + "s": "truncate(2)"})
    assert (long.lower_bounds[2], long.upper_bounds[2]) == (b"xx", b"xy")


def test_wide_schemas_have_metrics_of_their_first_columns_only() -> None:
    fields = tuple(NestedField(i, f"c{i}", LongType()) for i in range(1, 151))
    schema = Schema(fields)
    modes = metrics_modes(schema, {})
    assert [i for i, mode in modes.items() if mode == Truncate(16)] == list(range(1, 101))
    assert set(metrics_modes(schema, {"write.metadata.metrics.default": "full"}).values()) == {Full()}
    few = metrics_modes(schema, {"write.metadata.metrics.max-inferred-column-defaults": "3"})
    assert [i for i, mode in few.items() if mode == Truncate(16)] == [1, 2, 3]


def test_sorted_columns_keep_bounds() -> None:
    order = SortOrder((SortField((1,), IdentityTransform()), SortField((2,), BucketTransform(4))), 1)
    modes = metrics_modes(SCHEMA, {"write.metadata.metrics.default": "none"}, order)
    assert (modes[1], modes[2]) == (Truncate(16), NoMetrics())


def test_mode_names() -> None:
    assert parse_mode(" Counts ", "p") == Counts()
    for wrong in ("truncate(0)", "truncate", "all"):
        with pytest.raises(ValidationError, match="property p: expected none"):
            parse_mode(wrong, "p")
