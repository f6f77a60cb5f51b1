"""Frames of pandas and Polars as they come: categories, indexes and schemas of theirs."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import icecore
from icecore.engine.errors import ValidationError

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string())])
ROWS = [{"id": 1, "city": "Oslo"}, {"id": 2, "city": None}, {"id": 3, "city": "Oslo"}]


@pytest.fixture
def table(catalog: icecore.Catalog) -> icecore.Table:
    return catalog.create_table("ns.frames", SCHEMA)


@pytest.mark.parametrize("kind", [pl.String(), pl.Categorical(), pl.Enum(["Rome", "Oslo"])])
def test_categories_of_polars_are_their_texts(table: icecore.Table, kind: pl.DataType) -> None:
    table.append(pl.DataFrame(ROWS, schema={"id": pl.Int64(), "city": kind}).slice(1))
    assert table.scan().to_arrow().to_pylist() == ROWS[1:]


def test_dictionaries_of_binary_views_are_their_bytes(catalog: icecore.Catalog) -> None:
    table = catalog.create_table("ns.bytes", pa.schema([("b", pa.binary())]))
    values = pa.DictionaryArray.from_arrays(
        pa.array([1, None, 0], pa.uint8()), pa.array([b"x", b"y"], pa.binary_view())
    )
    table.append(pa.table({"b": values}))
    assert table.scan().to_arrow()["b"].to_pylist() == [b"y", None, b"x"]


def test_a_pandas_index_without_a_name_is_no_column(table: icecore.Table) -> None:
    """A frame that was filtered or sorted has one that is no plain range any more; Arrow knows not all others."""
    frame = pd.DataFrame(ROWS)
    table.append(frame[frame["id"] > 1], merge_schema=True)
    table.append(frame[frame["id"] > 3])
    table.append(frame[:0].set_axis(pd.Index([], dtype=complex)))
    assert table.scan().to_arrow().to_pylist() == ROWS[1:]


def test_a_pandas_index_with_a_name_is_a_column(table: icecore.Table) -> None:
    """A plain range too, of which Arrow makes none by itself."""
    for index in (pd.Index([5, 7], name="id"), pd.RangeIndex(5, 9, 2, name="id")):
        table.overwrite(pd.DataFrame({"city": ["Oslo", "Rome"]}, index=index))
        assert table.scan().to_arrow().to_pylist() == [{"id": 5, "city": "Oslo"}, {"id": 7, "city": "Rome"}]
    with pytest.raises(ValidationError, match="no column 'row'"):
        table.append(pd.DataFrame(ROWS).rename_axis("row"))


@pytest.mark.parametrize("column", [pd.Series([1], name="id"), pl.Series("id", [1]), pa.chunked_array([[1]])], ids=type)
def test_a_column_alone_is_refused(table: icecore.Table, column: Any) -> None:
    with pytest.raises(ValidationError, match=rf"rows must be .*, found {type(column).__name__}"):
        table.append(column)


def test_the_schema_of_a_polars_frame_is_one_of_a_table(catalog: icecore.Catalog) -> None:
    frame = pl.DataFrame({"id": [1], "tags": [["a"]]})
    with pytest.raises(ValidationError, match="found DataFrame: give its schema"):
        catalog.create_table("ns.polars", frame)
    table = catalog.create_table("ns.polars", frame.schema)
    table.append(frame)
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "tags": ["a"]}]
    for wrong in (pa.int64(), pa.table({"id": [1]})):
        with pytest.raises(ValidationError, match=r"is no schema|give its schema"):
            catalog.create_table("ns.wrong", wrong)


TIMES = [dt.datetime(2020, 1, 1, 5), dt.datetime(1960, 2, 3, 4)]


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        (pa.timestamp("us"), pa.array(TIMES, pa.timestamp("ns"))),
        (pa.timestamp("us"), pa.array(TIMES, pa.timestamp("s"))),
        (pa.decimal128(9, 2), pa.array([Decimal("1.5"), Decimal(7)], pa.decimal128(5, 1))),
        (pa.string(), pa.array(["a", None]).dictionary_encode()),
        (pa.uuid(), pa.array([str(uuid.UUID(int=1)), None])),
    ],
)
@pytest.mark.parametrize("transform", ["k", "bucket(16, k)"])
def test_keys_to_delete_find_their_partitions_whatever_arrow_type_they_have(
    catalog: icecore.Catalog, kind: pa.DataType, keys: pa.Array, transform: str
) -> None:
    schema = pa.schema([("k", kind)])
    table = catalog.create_table("ns.keys", schema, partition_spec=[transform])
    table.append(pa.table({"k": keys}))
    table.delete_keys(pa.table({"k": keys}), ["k"])
    assert table.scan().count() == 0
