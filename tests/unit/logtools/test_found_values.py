"""Values of all types, and which of what is stored is one of them."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from core_tables import make_table, rows

import icecore
from icecore.engine.forget.value_matches import Wanted


def test_bytes_that_are_no_text_do_not_hold_every_value(catalog: icecore.Catalog) -> None:
    """Of a digest in a bound little was left as text, with which anything begins."""
    table = catalog.create_table("ns.t", pa.schema([("digest", pa.binary())]))
    table.append([{"digest": bytes(range(0xF0, 0x100)) * 2}])
    assert catalog.find_value("nobody at all", table="ns.t").is_nowhere


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_values_that_no_bound_tells_of_are_found_in_rows(catalog: icecore.Catalog, file_format: str) -> None:
    table = make_table(catalog, properties={"write.format.default": file_format})
    table.append(rows(1, 5, 9))
    for found in (catalog.find_value(5, table="ns.t", column="id"), catalog.find_value("n5", table="ns.t")):
        [place] = found.places
        assert place.where.endswith(file_format) and place.count == 1, place
    assert catalog.find_value(6, table="ns.t", column="id").is_nowhere


def test_values_of_all_types_match() -> None:
    """What the text says in each type; text by part, unless it is to be exact."""
    columns = [
        (pa.array(["a 12 b", "12", None]), 2, "12"),
        (pa.array([12, 13], pa.int8()), 1, "12"),
        (pa.array([12, 13], pa.int8()), 0, "1200"),
        (pa.array([1.5]), 1, "1.5"),
        (pa.array([b"\x0012", b"2"]), 1, "12"),
        (pa.array([{"x": "12"}, None], pa.struct([("x", pa.string())])), 1, "12"),
        (pa.array([[("k12", 1)]], pa.map_(pa.string(), pa.int32())), 1, "12"),
        (pa.array(["12", "12"]).dictionary_encode(), 2, "12"),
        (pa.array([dt.datetime(2020, 1, 2)], pa.timestamp("us", "UTC")), 1, "2020-01-02"),
        (pa.array([True]), 0, "12"),
    ]
    for column, expected, text in columns:
        assert Wanted(text).count(column) == expected, column
    assert Wanted("12", exact=True).count(columns[0][0]) == 1


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (pa.float64(), float("nan"), "nan"),
        (pa.float32(), float("nan"), "NaN"),
        (pa.bool_(), True, "true"),
        (pa.bool_(), False, "False"),
        (pa.timestamp("ns"), 1_700_000_000_123_456_789, "2023-11-14 22:13:20.123456789"),
        (pa.timestamp("ns", "UTC"), 1_700_000_000_123_456_789, "2023-11-14T22:13:20.123456789Z"),
        (pa.timestamp("ns", "UTC"), 1_700_000_000_123_456_000, "2023-11-14T22:13:20.123456"),
    ],
)
def test_values_that_python_says_otherwise_are_found(kind: pa.DataType, value: object, text: str) -> None:
    column = pa.array([None, value, value], kind)
    assert Wanted(text).count(column) == 2
    assert Wanted(text).count(pa.array([None], kind)) == 0
