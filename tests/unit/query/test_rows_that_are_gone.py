"""Rows whose files are deleted: whoever reads them is told by whom, DuckDB or the reader of this engine."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from core_tables import local

import icecore
from icecore.engine.catalog.catalog_at import CatalogAt
from icecore.engine.errors import MissingFileError
from icecore.engine.query import query_sources


@pytest.fixture
def one_row(tmp_path: Path) -> Iterator[icecore.Catalog]:
    with icecore.open(tmp_path, actor="ann") as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table("ns.t", pa.schema([("id", pa.int64())]))
        table.append(pa.table({"id": [1]}))
        yield catalog


def check_told(past: CatalogAt, said: str) -> None:
    for read in (past.query("SELECT * FROM ns.t").fetchall, past.load_table("ns.t").scan().to_arrow):
        with pytest.raises(MissingFileError, match=said):
            read()


def test_rows_of_an_expired_snapshot_say_who_expired_it(one_row: icecore.Catalog) -> None:
    past, table = one_row.at(one_row.position), one_row.load_table("ns.t")
    table.delete("id = 1")
    expiry = table.maintenance.expire_snapshots(message="space", author="bob")
    expiry.older_than(datetime.now(UTC) + timedelta(days=1)).retain_last(1).commit()
    check_told(past, r"was expired at position \d+, 20.* UTC, by bob \('space'\)")


def test_rows_of_a_purged_table_say_who_purged_it(one_row: icecore.Catalog) -> None:
    past = one_row.at(one_row.position)
    one_row.drop_table("ns.t")
    one_row.purge_table("ns.t", message="space", author="bob")
    check_told(past, rf"; ns\.t was purged at position {one_row.position}, 20.* UTC, by bob \('space'\)")


def test_rows_of_a_file_that_no_commit_let_go_say_what_finds_the_others(one_row: icecore.Catalog) -> None:
    """Somebody deleted it by hand, and hardly it alone."""
    table = one_row.load_table("ns.t")
    [task] = table.scan().plan_files()
    local(task.file.file_path).unlink()
    said = "; no commit let it go: `icecore verify` tells all files that are gone"
    check_told(one_row.at(one_row.position), said)
    for read in (table.blame, one_row.show_commit(one_row.position).rows):
        with pytest.raises(MissingFileError, match=said):
            read()


@pytest.mark.parametrize("version", [2, 3])
def test_a_count_needs_no_data_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    """Manifests tell how many rows there were, deletes by position how many are left."""
    monkeypatch.setattr(query_sources, "FEW_FILES", -1)
    with icecore.open(tmp_path) as catalog:
        catalog.create_namespace("ns")
        properties = {"write.delete.mode": "merge-on-read"}
        schema = pa.schema([("id", pa.int64())])
        table = catalog.create_table("ns.t", schema, properties=properties, format_version=version)
        for start in (0, 10):
            table.append(pa.table({"id": range(start, start + 10)}))
        table.delete("id IN (3, 5, 12)")
        for task in table.scan().plan_files():
            local(task.file.file_path).unlink()
        assert catalog.query("SELECT count(*) FROM ns.t").fetchall() == [(17,)]
        assert catalog.query("SELECT count(*) FROM ns.t AS a, ns.t AS b").fetchall() == [(289,)]
        assert (table.scan().count(), table.scan(limit=11).count()) == (17, 11)
        for query in ("SELECT count(id) FROM ns.t", "SELECT count(*) FROM ns.t WHERE id > 3"):
            with pytest.raises(MissingFileError):
                catalog.query(query).fetchall()
        with pytest.raises(MissingFileError):
            table.scan(selected_fields=("_deleted",)).count()


@pytest.mark.parametrize("version", [2, 3])
def test_a_count_that_lacks_a_delete_file_says_who_expired_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """As the rows do."""
    monkeypatch.setattr(query_sources, "FEW_FILES", -1)
    with icecore.open(tmp_path) as catalog:
        catalog.create_namespace("ns")
        properties = {"write.delete.mode": "merge-on-read"}
        schema = pa.schema([("id", pa.int64())])
        table = catalog.create_table("ns.t", schema, properties=properties, format_version=version)
        table.append(pa.table({"id": range(10)}))
        table.delete("id = 3")
        past = catalog.at(catalog.position)
        table.overwrite(pa.table({"id": [1]}))
        expiry = table.maintenance.expire_snapshots(message="space", author="bob")
        expiry.older_than(datetime.now(UTC) + timedelta(days=1)).retain_last(1).commit()
        for read in (past.query("SELECT count(*) FROM ns.t").fetchall, past.load_table("ns.t").scan().count):
            with pytest.raises(MissingFileError, match=r"was expired at position \d+, 20.* UTC, by bob \('space'\)"):
                read()
