"""The entries of tables in DuckDB: when they are loaded, and specs that disagree about a partition field."""

from __future__ import annotations

import pyarrow as pa
from core_tables import ids_of, make_table, rows

import icecore

SCHEMA = pa.schema([("id", pa.int64()), ("s", pa.string())])


def test_PT1_v1_specs_may_give_a_field_id_two_types(catalog: icecore.Catalog) -> None:
    """v1 counts partition field ids from 1000 in each spec; such a column can't prune, and no row is lost by it."""
    table = catalog.create_table("ns.t", SCHEMA, partition_spec=["bucket(2, s)", "id"], format_version=1)
    table.append(pa.table({"id": [1, 2], "s": ["a", None]}, schema=SCHEMA))
    with table.update_spec() as update:
        update.remove_field("s_bucket_2").remove_field("id")
    table.append(pa.table({"id": [3], "s": ["a"]}, schema=SCHEMA))
    with table.update_spec() as update:
        update.add_field("s", partition_field_name="by_s")
    table.append(pa.table({"id": [4, 5], "s": ["a", "b"]}, schema=SCHEMA))
    assert len(table.specs()) == 3
    for condition, expected in {"s = 'a'": [1, 3, 4], "s IS NULL": [2], "id >= 2": [2, 3, 4, 5], "id = 1": [1]}.items():
        assert sorted(table.scan(condition).to_arrow()["id"].to_pylist()) == expected, condition


def test_a_commit_starts_no_duckdb(catalog: icecore.Catalog) -> None:
    """Opening and appending plan nothing; the first plan starts DuckDB."""
    table = make_table(catalog)
    table.append(rows(1))
    assert catalog._warehouse.planning._planner is None
    assert ids_of(table) == [1]
    assert catalog._warehouse.planning.planner._tables._instance is not None
