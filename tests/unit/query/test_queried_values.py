"""Rows that a query finds, whatever values, names and kinds of files they are in."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import icecore
from icecore.engine.errors import CorruptFileError, MissingFileError, ValidationError
from icecore.engine.spec.types import LongType, StringType

pytestmark = pytest.mark.usefixtures("few_files")


def test_uuids_in_lists_and_maps_are_read_in_every_way(tmp_path: Path) -> None:
    """Arrow makes no empty table of nested extension types, which each of these ways starts from."""
    one = uuid.UUID(int=1)
    inside = pa.struct([("many", pa.list_(pa.uuid())), ("map", pa.map_(pa.uuid(), pa.uuid()))])
    with icecore.open(tmp_path) as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table("ns.t", pa.schema([("id", pa.int64()), ("s", inside)]))
        table.append([{"id": 1, "s": {"many": [one], "map": {one: one}}}, {"id": 2, "s": None}])
        table.delete("id = 2")
        table.append([{"id": 2, "s": None}])
        expected = table.scan().to_arrow().sort_by("id").to_pylist()
        assert catalog.query("SELECT * FROM ns.t ORDER BY id").to_arrow().to_pylist() == expected
        assert table.scan().to_polars().collect().height == 2
        changes = table.incremental_changelog_scan().to_arrow()
        assert changes["_change_type"].to_pylist() == ["INSERT", "INSERT", "DELETE", "INSERT"]
        assert table.blame("id = 1")["id"].to_pylist() == [1]


def test_what_only_duckdb_has_is_readable_at_any_depth(tmp_path: Path) -> None:
    """Sums are of a type that Arrow has not."""
    with icecore.open(tmp_path) as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table("ns.t", pa.schema([("id", pa.int64()), ("city", pa.string())]))
        table.append([{"id": 1, "city": "Oslo"}, {"id": 2, "city": "Rome"}])
        for sql, wanted in (
            ("SELECT list(s ORDER BY s) FROM (SELECT sum(id) AS s FROM ns.t GROUP BY city)", [1, 2]),
            ("SELECT {'all': sum(id), 'late': sum(id) FILTER (id > 2)} FROM ns.t", {"all": 3, "late": None}),
            ("SELECT map {1::HUGEINT: [sum(id)]} FROM ns.t", [(1, [3])]),
            ("SELECT [sum(id), NULL]::HUGEINT[2] FROM ns.t", [3, None]),
            ("SELECT ['101'::BIT, NULL]", ["101", None]),
            ("SELECT TIMETZ '12:00:00+01'", "12:00:00+01"),
            ("SELECT 12::UHUGEINT", "12"),
        ):
            answer = catalog.query(sql)
            assert answer.to_arrow().column(0).to_pylist() == [wanted]
            assert answer.arrow_reader().read_all().schema == answer.schema == answer.to_arrow().schema
        view = catalog.create_view("ns.v", "SELECT {'all': sum(id)} AS sums FROM t")
        assert view.to_arrow()["sums"].to_pylist() == [{"all": 3}]


def test_rows_with_nan_are_found(tmp_path: Path) -> None:
    """NaN is no bound of a file, and DuckDB takes it for greater than all numbers."""
    values = [float("nan"), 0.0, None, 1.0]
    fields = pa.struct([("x", pa.float32()), ("many", pa.list_(pa.float64()))])
    inside = pa.array([{"x": v, "many": [v]} for v in values], fields)
    with icecore.open(tmp_path) as catalog:
        catalog.create_namespace("ns")
        schema = pa.schema([("id", pa.int64()), ("x", pa.float32()), ("y", pa.float64()), ("inside", fields)])
        table = catalog.create_table("ns.t", schema, properties={"write.delete.mode": "merge-on-read"})
        rows = pa.table({"id": [1, 2, 3, 4], "x": values, "y": values, "inside": inside}, schema=schema)
        table.append(rows)
        table.append(rows)
        table.delete("id = 4")
        connection = table.scan().to_duckdb("found")
        for column in ("x", "y", "inside.x", "inside.many[1]"):
            for condition in (
                "{} > 5",
                "isnan({})",
                "{} = 'nan'",
                "NOT {} <= 1",
                "{} > 5 OR {} < -5",
                "{} NOT IN (0, 1)",
            ):
                where = condition.replace("{}", column)
                found = catalog.query(f"SELECT id FROM ns.t WHERE {where}").fetchall()
                assert found == [(1,), (1,)], where
                view = connection.sql(f"SELECT id FROM found WHERE {where}")
                assert view.fetchall() == [(1,), (1,)], where


def test_rows_are_counted_by_footers_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where DuckDB reads the files; columns that nobody needs have their types all the same."""
    monkeypatch.setattr("icecore.engine.query.query_sources.FEW_FILES", -1)
    with icecore.open(tmp_path) as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table(
            "ns.t", pa.schema([("id", pa.int64()), ("day", pa.date32()), ("p", pa.decimal128(9, 2))])
        )
        table.append(pa.table({"id": range(1000)}).append_column("p", pa.nulls(1000, pa.decimal128(9, 2))))
        [task] = table.scan().plan_files()
        path = Path(task.file.file_path.removeprefix("file://"))
        found = catalog.query("SELECT count(*), (SELECT typeof(day) || typeof(p) FROM ns.t LIMIT 1) FROM ns.t")
        assert found.fetchall() == [(1000, "DATEDECIMAL(9,2)")]
        data = path.read_bytes()
        path.write_bytes(data[:4] + bytes(100) + data[104:])
        assert catalog.query("SELECT count(*) FROM ns.t").fetchall() == [(1000,)]
        with pytest.raises(ValidationError, match="the query can't be run"):
            catalog.query("SELECT sum(id) FROM ns.t").fetchall()


def test_a_file_that_is_gone_or_broken_says_so(tmp_path: Path) -> None:
    with icecore.open(tmp_path) as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table(
            "ns.t", pa.schema([("id", pa.int64())]), properties={"write.format.default": "avro"}
        )
        table.append(pa.table({"id": [1]}))
        [task] = table.scan().plan_files()
        path = Path(task.file.file_path.removeprefix("file://"))
        path.write_bytes(b"Obj\x01 broken")
        with pytest.raises(CorruptFileError):
            catalog.query("SELECT * FROM ns.t").fetchall()
        plain = catalog.create_table("ns.p", pa.schema([("id", pa.int64())]))
        plain.append(pa.table({"id": [1]}))
        [task] = plain.scan().plan_files()
        Path(task.file.file_path.removeprefix("file://")).unlink()
        with pytest.raises(MissingFileError):
            catalog.query("SELECT * FROM ns.p").fetchall()


def test_files_of_all_kinds_are_one_table(tmp_path: Path) -> None:
    """Of three formats, with equality deletes, defaults and partition values that the files lack, without field ids."""
    with icecore.open(tmp_path / "lake") as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table(
            "ns.t", pa.schema([("id", pa.int64()), ("city", pa.string())]), partition_spec=["city"], format_version=3
        )
        for number, kind in enumerate(("avro", "orc", "parquet")):
            table.set_properties({"write.format.default": kind})
            table.append([{"id": number * 2, "city": kind}, {"id": number * 2 + 1, "city": kind}])
        table.delete_keys(pa.table({"id": [3], "city": ["orc"]}), ["id", "city"])
        (tmp_path / "city=hive").mkdir()
        given = str(tmp_path / "city=hive" / "a.parquet")
        pq.write_table(pa.table({"id": pa.array([8, 9], pa.int32())}), given)
        table.add_files([given])
        table.update_schema().rename_column("id", "number").commit()
        table.update_schema().add_column("id", StringType()).commit()
        with table.update_schema() as update:
            update.add_column("late", LongType(), default_value=7)
        table.append([{"number": 10, "city": "new", "id": "x", "late": 1}])
        answer = catalog.query("SELECT number, id, city, late FROM ns.t ORDER BY number")
        scanned = table.scan(selected_fields=("number", "id", "city", "late")).to_arrow()
        assert answer.to_arrow() == scanned.sort_by("number")
        assert [r[0] for r in answer.fetchall()] == [0, 1, 2, 4, 5, 8, 9, 10]
        assert catalog.query("SELECT city FROM ns.t WHERE number = 8").fetchall() == [("hive",)]
        connection = table.scan("number > 4", limit=2).to_duckdb("found")
        assert connection.sql("SELECT count(*), min(number) > 4 FROM found").fetchall() == [(2, True)]


def test_columns_that_differ_in_case_alone_are_not_taken_for_each_other(tmp_path: Path) -> None:
    """By the name of another than the first DuckDB would give the first."""
    with icecore.open(tmp_path) as catalog:
        catalog.create_namespace("ns")
        rows = pa.table({"id": [1], "ID": [2], "x": [3]})
        catalog.create_table("ns.t", rows.schema).append(rows)
        catalog.create_table("ns.u", rows.schema.remove(1)).append(rows.drop_columns(["ID"]))
        for sql in ('SELECT "ID" FROM ns.t', "SELECT t.Id FROM ns.t", "SELECT x FROM ns.t WHERE ns.t.ID = 2"):
            with pytest.raises(ValidationError, match="id, ID; 'id' is the first"):
                catalog.query(sql)
        for sql, wanted in (
            ("SELECT * FROM ns.t", (1, 2, 3)),
            ("SELECT id, ID_1, X FROM ns.t WHERE ID_1 = 2", (1, 2, 3)),
            ("SELECT ID FROM ns.u", (1,)),
            ("SELECT x AS ID FROM ns.t ORDER BY ID", (3,)),
            ("SELECT k.ID FROM ns.t AS k(a, ID, b)", (2,)),
            ("SELECT list_transform([1], lambda ID: ID + 1) FROM ns.t", ([2],)),
            ("SELECT (SELECT max(ID) FROM ns.u WHERE u.x = t.x) FROM ns.t", (1,)),
        ):
            assert catalog.query(sql).fetchall() == [wanted]
