"""Frames of pandas and Polars as they come: categories, indexes and schemas of theirs."""

from __future__ import annotations

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
