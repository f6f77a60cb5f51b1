"""Equality deletes outlive the columns that they look at: rows stay deleted when a key column is dropped (D4)."""

from __future__ import annotations

import pyarrow as pa
import pytest
from core_tables import ids_of, make_table

import icecore
from icecore.engine.spec.types import LongType, StructType


def with_default(catalog: icecore.Catalog) -> icecore.Table:
    """Rows 1 and 2 have the default 7 of a column that came after them, 3 has it written, 4 has another value."""
    table = make_table(catalog, format_version=3)
    table.append(pa.table({"id": [1, 2]}))
    table.update_schema().add_column("k", LongType(), default_value=7).commit()
    table.append(pa.table({"id": [3, 4], "k": [7, 8]}))
    return table


def keys(*values: int | None) -> pa.Table:
    return pa.table({"k": pa.array(values, pa.int64())})


def test_D4_P1_a_default_is_still_the_key_after_its_column_is_dropped(catalog: icecore.Catalog) -> None:
    """What the data file lacks is read by the last schema that had it, and not as null."""
    table = with_default(catalog)
    table.delete_keys(keys(7), ["k"])
    assert ids_of(table) == [4]
    table.update_schema().delete_column("k").commit()
    assert ids_of(table) == [4]
    assert table.scan().count() == 1
    table.rewrite_data_files(options={"rewrite-all": "true", "remove-dangling-deletes": "true"})
    assert ids_of(table) == [4]


def test_D4_a_null_key_does_not_match_a_default_once_its_column_is_dropped(catalog: icecore.Catalog) -> None:
    table = with_default(catalog)
    table.delete_keys(keys(None), ["k"])
    table.update_schema().delete_column("k").commit()
    assert ids_of(table) == [1, 2, 3, 4]


def test_D4_P1_a_default_inside_a_struct(catalog: icecore.Catalog) -> None:
    table = catalog.create_table(
        "ns.s", pa.schema([("id", pa.int64()), ("s", pa.struct([("a", pa.int64())]))]), format_version=3
    )
    table.append(pa.table({"id": [1, 2], "s": [{"a": 1}, None]}))
    table.update_schema().add_column(("s", "k"), LongType(), default_value=7).commit()
    found = table.schema().find_field("s").field_type
    assert isinstance(found, StructType)
    table.append(pa.table({"id": [3, 4], "s": [{"a": 1, "k": 7}, {"a": 1, "k": 8}]}))
    table.delete_keys(pa.table({"s": [{"k": 7}]}), ["s.k"])
    assert ids_of(table) == [2, 4]
    table.update_schema().delete_column("s.k").commit()
    assert ids_of(table) == [2, 4]
    table.update_schema().delete_column("s").commit()
    assert ids_of(table) == [2, 4]


@pytest.mark.parametrize("format_version", [2, 3])
def test_D4_T7_keys_of_a_column_that_was_promoted_and_dropped(catalog: icecore.Catalog, format_version: int) -> None:
    """Data and deletes of either type meet in the last one, whichever comes first."""
    schema = pa.schema([("id", pa.int64()), ("x", pa.int32())])
    table = catalog.create_table("ns.p", schema, format_version=format_version)
    table.append(pa.table({"id": [1, 2, 3], "x": pa.array([1, 5, 9], pa.int32())}))
    table.delete_keys(pa.table({"x": pa.array([1], pa.int32())}), ["x"])
    table.update_schema().update_column("x", LongType()).commit()
    table.append(pa.table({"id": [4, 5], "x": [2**40, 5]}))
    table.delete_keys(pa.table({"x": [2**40, 5]}), ["x"])
    assert ids_of(table) == [3]
    table.update_schema().delete_column("x").commit()
    assert ids_of(table) == [3]
