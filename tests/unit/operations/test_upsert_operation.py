"""Upserts: matched rows are updated, others inserted, and nothing else is touched."""

from __future__ import annotations

import math
import uuid
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from core_tables import ids_of, make_table, peer_ids, rows, sorted_rows

import icecore
from icecore.engine.errors import ValidationError
from icecore.engine.operations.upsert import UpsertResult

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("v", pa.float64())])
MODES = ["copy-on-write", "merge-on-read"]


def data(*given: tuple[Any, ...]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, r, strict=True)) for r in given], schema=SCHEMA)


def found(table: icecore.Table) -> list[tuple[Any, ...]]:
    return sorted_rows(table.scan().to_arrow())


def test_a_file_whose_rows_were_all_deleted_matches_nothing(catalog: icecore.Catalog) -> None:
    """Keys were deleted that it held: its bounds still have them, and the row that comes is a new one."""
    table = catalog.create_table("ns.t", SCHEMA, format_version=2)
    table.append(data((1, "a", 1.0)))
    table.delete_keys(pa.table({"id": pa.array([1], pa.int64())}), ["id"])
    assert len(table.scan("id = 1").plan_files()) == 1 and found(table) == []
    assert table.upsert(data((1, "a", 2.0)), ["id"]) == UpsertResult(rows_updated=0, rows_inserted=1)
    assert found(table) == [(1, "a", 2.0)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_rows_are_updated_and_inserted(catalog: icecore.Catalog, version: int, mode: str) -> None:
    """One snapshot; counts as PyIceberg's; a file none of whose rows changes stays."""
    table = catalog.create_table(
        "ns.t", SCHEMA, partition_spec=["part"], format_version=version, properties={"write.update.mode": mode}
    )
    table.append(data((1, "a", 1.0), (2, "a", 2.0), (3, "b", 3.0)))
    table.append(data((4, "b", 4.0)))
    untouched = {t.file.file_path for t in table.scan("part = 'b'").plan_files()}
    result = table.upsert(data((1, "a", 1.5), (3, "b", 3.0), (9, "c", 9.0)), ["id"])
    assert result == UpsertResult(rows_updated=1, rows_inserted=1)
    assert found(table) == [(1, "a", 1.5), (2, "a", 2.0), (3, "b", 3.0), (4, "b", 4.0), (9, "c", 9.0)]
    assert untouched == {t.file.file_path for t in table.scan("part = 'b'").plan_files()}
    assert len(table.snapshots()) == 3
    summary = (table.current_snapshot() or table.snapshots()[0]).summary or {}
    assert summary["operation"] == "overwrite"
    if version < 3:
        assert peer_ids(catalog.path) == [1, 2, 3, 4, 9]


def test_a_struct_without_columns_has_rows(catalog: icecore.Catalog) -> None:
    """Once all that it had were dropped, rows that are as they were change nothing; no file can store others."""
    schema = pa.schema([("id", pa.int64()), ("s", pa.struct([("a", pa.int64())]))])
    table = catalog.create_table("ns.t", schema)
    table.append([{"id": 1, "s": {"a": 1}}])
    table.update_schema().delete_column(("s", "a")).commit()
    assert table.upsert([{"id": 1, "s": {}}], ["id"]).rows_updated == 0
    with pytest.raises(ValidationError, match="'s' has no column that a data file can store"):
        table.upsert([{"id": 2, "s": {}}], ["id"])


def test_delete_mode_counts_where_no_update_mode_is_set(catalog: icecore.Catalog) -> None:
    table = make_table(catalog, properties={"write.delete.mode": "merge-on-read"})
    table.append(rows(1, 2))
    table.upsert([{"id": 1, "name": "x"}], ["id"])
    assert [len(t.delete_files) for t in table.scan("id = 2").plan_files()] == [1]


@pytest.mark.parametrize("mode", MODES)
def test_rl6_an_updated_row_keeps_its_row_id(catalog: icecore.Catalog, mode: str) -> None:
    """RL6: an update copies the row id and takes a new sequence number; an insert gets a row id of its own."""
    table = make_table(catalog, format_version=3, properties={"write.update.mode": mode})
    table.append(rows(1, 2))
    fields = ("id", "_row_id", "_last_updated_sequence_number")
    before = {r["id"]: r for r in table.scan(selected_fields=fields).to_arrow().to_pylist()}
    table.upsert([{"id": 2, "name": "new"}, {"id": 3, "name": "n3"}], ["id"])
    after = {r["id"]: r for r in table.scan(selected_fields=fields).to_arrow().to_pylist()}
    assert after[1] == before[1]
    assert after[2] == {"id": 2, "_row_id": before[2]["_row_id"], "_last_updated_sequence_number": 2}
    assert after[3]["_row_id"] not in {r["_row_id"] for r in before.values()}
    assert len({r["_row_id"] for r in after.values()}) == 3


@pytest.mark.parametrize("version", [2, 3])
def test_l4_an_overwrite_by_position_is_no_append(catalog: icecore.Catalog, version: int) -> None:
    """L4: a snapshot that adds data and deletes is an overwrite, else readers of appends would miss the deletes."""
    table = make_table(catalog, format_version=version, properties={"write.delete.mode": "merge-on-read"})
    table.append(rows(1, 2))
    table.overwrite(rows(3), "id = 1")
    assert table.snapshots()[-1].operation == "overwrite"


def test_identifier_fields_are_the_keys(catalog: icecore.Catalog) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])
    table = catalog.create_table("ns.t", schema)
    with pytest.raises(ValidationError, match="identifier"):
        table.upsert(pa.table({"id": [1], "name": ["a"]}, schema=schema))
    table.update_schema().set_identifier_fields("id").commit()
    assert table.upsert(pa.table({"id": [1], "name": ["a"]}, schema=schema)) == UpsertResult(0, 1)
    assert table.upsert(pa.table({"id": [1], "name": ["b"]}, schema=schema)) == UpsertResult(1, 0)


@pytest.mark.parametrize(("updates", "inserts", "expected"), [(True, False, (1, 0)), (False, True, (0, 1))])
def test_only_one_of_both(catalog: icecore.Catalog, updates: bool, inserts: bool, expected: tuple[int, int]) -> None:
    table = make_table(catalog)
    table.append(rows(1))
    result = table.upsert(
        [{"id": 1, "name": "x"}, {"id": 2, "name": "y"}],
        ["id"],
        when_matched_update_all=updates,
        when_not_matched_insert_all=inserts,
    )
    assert result == UpsertResult(*expected)
    assert found(table) == ([(1, "x")] if updates else [(1, "n1"), (2, "y")])
    with pytest.raises(ValidationError, match="update, insert or both"):
        table.upsert(rows(1), ["id"], when_matched_update_all=False, when_not_matched_insert_all=False)


def test_a_key_that_comes_twice_is_refused(catalog: icecore.Catalog) -> None:
    """In the data at once, in the table where it is to be updated; nothing is stored and no file is left."""
    table = make_table(catalog)
    table.append(rows(1, 2))
    table.append(rows(1))
    position = catalog.position
    files = set((catalog.path / "ns").rglob("*.parquet"))
    with pytest.raises(ValidationError, match=r"id=2 more than once"):
        table.upsert(rows(2, 2), ["id"])
    with pytest.raises(ValidationError, match=r"table has the key id=1 more than once"):
        table.upsert([{"id": 1, "name": "x"}, {"id": 2, "name": "y"}], ["id"])
    assert catalog.position == position
    assert set((catalog.path / "ns").rglob("*.parquet")) == files
    assert table.upsert(rows(1, 3), ["id"], when_matched_update_all=False) == UpsertResult(0, 1)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("version", [2, 3])
def test_a_key_of_a_file_that_is_listed_twice_comes_twice(catalog: icecore.Catalog, mode: str, version: int) -> None:
    """Who adds files without a check may add one twice; both of its rows are rows, and none of them is lost."""
    table = make_table(catalog, format_version=version, properties={"write.update.mode": mode})
    path = catalog.path / "ns" / "x.parquet"
    path.parent.mkdir(exist_ok=True)
    pq.write_table(rows(1, 2), path)
    for _ in range(2):
        table.add_files([path.as_uri()], check_duplicate_files=False)
    with pytest.raises(ValidationError, match=r"table has the key id=1 more than once"):
        table.upsert([{"id": 1, "name": "x"}], ["id"])
    assert ids_of(table) == [1, 1, 2, 2]
    assert table.upsert(rows(1, 3), ["id"], when_matched_update_all=False) == UpsertResult(0, 1)


@pytest.mark.parametrize("mode", MODES)
def test_keys_are_null_safe(catalog: icecore.Catalog, mode: str) -> None:
    """Null equals null, NaN equals NaN, -0.0 equals 0.0, in keys of several columns."""
    table = catalog.create_table("ns.t", SCHEMA, properties={"write.update.mode": mode})
    table.append(data((1, None, math.nan), (None, "a", 0.0), (None, None, 1.0), (4, "a", 2.0)))
    before = len(table.snapshots())
    result = table.upsert(data((1, None, math.nan), (None, "a", -0.0), (None, None, 1.0)), ["id", "part", "v"])
    assert result == UpsertResult(0, 0)
    assert len(table.snapshots()) == before
    assert table.upsert(data((None, "a", 7.0), (None, None, 1.0)), ["id", "part"]) == UpsertResult(1, 0)
    assert (None, "a", 7.0) in found(table)
    assert len(found(table)) == 4


def test_unchanged_values_of_any_type(catalog: icecore.Catalog) -> None:
    """NaN, nulls and nested values that are the same are no change; a uuid can be a key."""
    schema = pa.schema(
        [
            ("k", pa.uuid()),
            ("f", pa.float32()),
            ("l", pa.list_(pa.float64())),
            ("s", pa.struct([("a", pa.int32())])),
            ("b", pa.binary()),
        ]
    )
    table = catalog.create_table("ns.t", schema)
    keys = [uuid.UUID(int=i) for i in range(3)]
    given: list[dict[str, Any]] = [
        {"k": keys[0].bytes, "f": math.nan, "l": [math.nan], "s": {"a": 1}, "b": None},
        {"k": keys[1].bytes, "f": None, "l": None, "s": None, "b": b"x"},
    ]
    table.append(pa.Table.from_pylist(given, schema=schema))
    assert table.upsert(pa.Table.from_pylist(given, schema=schema), ["k"]) == UpsertResult(0, 0)
    given[1] |= {"s": {"a": None}}
    given.append({"k": keys[2].bytes, "f": 1.0, "l": [], "s": None, "b": b""})
    assert table.upsert(pa.Table.from_pylist(given, schema=schema), ["k"]) == UpsertResult(1, 1)
    for zero in (0.0, -0.0, -0.0):
        given[2] |= {"f": zero, "l": [zero]}
        result = table.upsert(pa.Table.from_pylist(given, schema=schema), ["k"])
    assert result == UpsertResult(0, 0)
    given[2] |= {"l": [0.0]}
    assert table.upsert(pa.Table.from_pylist(given, schema=schema), ["k"]) == UpsertResult(1, 0)


def test_a_column_that_the_data_lacks_keeps_its_value(catalog: icecore.Catalog) -> None:
    table = catalog.create_table("ns.t", SCHEMA)
    table.append(data((1, "a", 1.0), (2, "b", 2.0)))
    assert table.upsert([{"id": 1, "v": 5.0}, {"id": 3, "v": 3.0}], ["id"]) == UpsertResult(1, 1)
    assert found(table) == [(1, "a", 5.0), (2, "b", 2.0), (3, None, 3.0)]


def test_it_is_planned_again_on_a_moved_branch(catalog: icecore.Catalog) -> None:
    """What another commit inserted meanwhile is updated, not inserted a second time."""
    table = make_table(catalog)
    with table.transaction() as transaction:
        upsert = transaction.upsert([{"id": 1, "name": "mine"}], ["id"])
        catalog.load_table("ns.t").append(rows(1))
    assert upsert.result == UpsertResult(1, 0)
    assert found(table) == [(1, "mine")]


def test_idempotent(catalog: icecore.Catalog) -> None:
    """A second call with the same key changes nothing and gives the same answer."""
    table = make_table(catalog)
    table.append(rows(1))
    for _ in range(2):
        answer = table.upsert([{"id": 1, "name": "x"}, {"id": 2, "name": "y"}], ["id"], idempotency_key="k")
        assert answer == UpsertResult(1, 1)
    assert found(table) == [(1, "x"), (2, "y")]


def test_many_keys(catalog: icecore.Catalog) -> None:
    """More keys than an IN may have values: a range finds the files, and only files in it are read."""
    table = make_table(catalog)
    table.append(rows(*range(1000)))
    table.append(rows(*range(5000, 5010)))
    far = {t.file.file_path for t in table.scan("id >= 5000").plan_files()}
    result = table.upsert([{"id": i, "name": "x"} for i in range(500, 1500)], ["id"])
    assert result == UpsertResult(500, 500)
    assert far == {t.file.file_path for t in table.scan("id >= 5000").plan_files()}
    assert table.scan("name = 'x'").count() == 1000


@pytest.mark.parametrize(("keys", "text"), [(["nope"], "nope"), ([], "identifier"), (["name"], "lacks")])
def test_bad_keys(catalog: icecore.Catalog, keys: list[str], text: str) -> None:
    table = make_table(catalog)
    with pytest.raises(ValidationError, match=text):
        table.upsert([{"id": 1}], keys)


@pytest.mark.parametrize("mode", MODES)
def test_a_column_that_is_called_as_row_ids_are(catalog: icecore.Catalog, mode: str) -> None:
    """It is one like others before rows have ids; from then on rows can't be changed until it is renamed."""
    schema = pa.schema([("id", pa.int64()), ("_row_id", pa.int64())])
    table = catalog.create_table("ns.t", schema, properties={"write.update.mode": mode})
    table.append([{"id": 1, "_row_id": 5}, {"id": 2, "_row_id": 6}])
    assert table.upsert([{"id": 1, "_row_id": 7}, {"id": 3, "_row_id": 8}], ["id"]) == UpsertResult(1, 1)
    assert found(table) == [(1, 7), (2, 6), (3, 8)]
    with table.transaction() as transaction:
        transaction.upgrade_table_version(3)
    with pytest.raises(ValidationError, match=r"'_row_id' has the name of a metadata column .* rename it first"):
        table.upsert([{"id": 2, "_row_id": 9}], ["id"])
    table.update_schema().rename_column("_row_id", "own").commit()
    assert table.upsert([{"id": 2, "own": 9}], ["id"]) == UpsertResult(1, 0)
    assert found(table) == [(1, 7), (2, 9), (3, 8)]
