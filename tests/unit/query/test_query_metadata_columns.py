"""`catalog.query` by the metadata columns of rows: `_file`, `_pos` and the like."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from attrs import evolve

import icecore
from icecore.engine.errors import MissingFileError

pytestmark = pytest.mark.usefixtures("few_files")


def test_metadata_columns_are_those_of_a_scan(tmp_path: Path) -> None:
    """With deletes, row ids stored in files and inherited, files of two formats, and a changed partition spec."""
    columns = ("id", "_file", "_pos", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number")
    with icecore.open(tmp_path) as catalog:
        catalog.create_namespace("ns")
        schema = pa.schema([("id", pa.int64()), ("city", pa.string())])
        table = catalog.create_table("ns.t", schema, partition_spec=["city"], format_version=3)
        table.append([{"id": i, "city": "ab"[i % 2]} for i in range(8)])
        table.delete("id IN (2, 5)")
        with table.update_spec() as spec:
            spec.remove_field("city")
            spec.add_field("id", "bucket[4]", "bucket")
        table.set_properties({"write.delete.mode": "merge-on-read", "write.format.default": "avro"})
        table.append([{"id": i, "city": "c"} for i in (8, 9)])
        table.set_properties({"write.format.default": "parquet"})
        table.append([{"id": i, "city": None} for i in range(10, 20)])
        table.delete("id IN (4, 11, 13)")
        for version in [s.snapshot_id for s in table.history()]:
            answer = catalog.query(f"SELECT {', '.join(columns)} FROM ns.t AT (VERSION => {version}) ORDER BY id")
            scan = table.scan(snapshot_id=version, selected_fields=columns)
            assert answer.to_arrow().to_pylist() == scan.to_arrow().sort_by("id").to_pylist()


def test_rl5_a_file_without_a_first_row_id_has_no_row_ids(tmp_path: Path) -> None:
    """Whatever it stores: snapshots from before version 3 have no row ids."""
    columns = ("id", "_row_id", "_last_updated_sequence_number")
    with icecore.open(tmp_path) as catalog:
        catalog.create_namespace("ns")
        schema = pa.schema([("id", pa.int64())])
        ours = catalog.create_table("ns.t", schema, format_version=3, properties={"write.delete.mode": "copy-on-write"})
        ours.append([{"id": i} for i in range(4)])
        ours.delete("id = 1")
        [stored] = [t.file for t in ours.scan().plan_files()]
        older = catalog.create_table("ns.older", schema)
        older.append_files([evolve(stored, first_row_id=None)])
        older.upgrade(3)
        wanted = [{"id": i, "_row_id": None, "_last_updated_sequence_number": None} for i in (0, 2, 3)]
        assert older.scan(selected_fields=columns).to_arrow().sort_by("id").to_pylist() == wanted
        answer = catalog.query(f"SELECT {', '.join(columns)} FROM ns.older ORDER BY id")
        assert answer.to_arrow().to_pylist() == wanted


def test_conditions_on_metadata_columns_leave_files_out(tmp_path: Path) -> None:
    """A file that is not read may be missing. Rows of several scans of a table come from what each needs."""
    with icecore.open(tmp_path) as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table("ns.t", pa.schema([("id", pa.int64())]))
        for number in range(3):
            table.append(pa.table({"id": [number, number + 10]}))
        paths = dict(catalog.query("SELECT id, _file FROM ns.t WHERE _pos = 0").fetchall())
        Path(paths[2].removeprefix("file://")).unlink()
        one = "SELECT id FROM ns.t WHERE _file = $path AND _spec_id = 0 AND _pos + id > 0"
        assert catalog.query(one, {"path": paths[1]}).fetchall() == [(1,), (11,)]
        two = "WITH c AS (SELECT id, _file AS f FROM ns.t) FROM c WHERE f = $a UNION FROM c WHERE f = $b"
        found = catalog.query(f"SELECT id FROM ({two}) ORDER BY id", {"a": paths[0], "b": paths[1]}).fetchall()
        assert found == [(0,), (1,), (10,), (11,)]
        assert catalog.query("SELECT id FROM ns.t WHERE _spec_id = 1").fetchall() == []
        with pytest.raises(MissingFileError):
            catalog.query("SELECT id FROM ns.t WHERE _file <> $path", {"path": paths[1]}).fetchall()


@pytest.mark.parametrize("format_version", [2, 3])
def test_deleted_rows_come_to_all_parts_of_a_query_that_names_them(tmp_path: Path, format_version: int) -> None:
    """Also where DuckDB finds that the query needs only other columns."""
    with icecore.open(tmp_path) as catalog:
        catalog.create_namespace("ns")
        schema, properties = pa.schema([("id", pa.int64())]), {"write.delete.mode": "merge-on-read"}
        table = catalog.create_table("ns.t", schema, format_version=format_version, properties=properties)
        table.append([{"id": i} for i in range(3)])
        table.delete("id = 1")
        for sql in ("SELECT id, _deleted FROM ns.t", "SELECT id FROM ns.t WHERE _deleted IS NOT NULL"):
            for columns in ("count(*)", "count(id)", "sum(id)"):
                assert catalog.query(f"SELECT {columns} FROM ({sql})").fetchall() == [(3,)]
