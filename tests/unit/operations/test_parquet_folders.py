"""Folders of Parquet files that become tables where they lie, or beside them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import icecore
from icecore.engine.errors import CorruptFileError, TableAlreadyExistsError, ValidationError


@pytest.fixture
def folder(catalog: icecore.Catalog, tmp_path: Path) -> Path:
    """Three partitions, one of nulls, of which one has a wider type and one more column."""
    root = tmp_path / "old=1"
    parts: dict[str, dict[str, Any]] = {
        "day=2024-01-01/city=Oslo%20S": {"id": pa.array([1], pa.int32())},
        "day=2024-01-02/city=007": {"id": pa.array([2], pa.int64()), "x": ["a"]},
        "day=__HIVE_DEFAULT_PARTITION__/city=Rome": {"id": pa.array([3], pa.int32())},
    }
    for part, columns in parts.items():
        (root / part).mkdir(parents=True)
        pq.write_table(pa.table(columns), root / part / "a.parquet")
    for hidden in ("_SUCCESS", ".part.crc", "_temporary/0/b.parquet"):
        (root / hidden).parent.mkdir(parents=True, exist_ok=True)
        (root / hidden).write_bytes(b"no Parquet file")
    return root


ROWS = [
    {"id": 1, "day": dt.date(2024, 1, 1), "city": "Oslo S", "x": None},
    {"id": 2, "day": dt.date(2024, 1, 2), "city": "007", "x": "a"},
    {"id": 3, "day": None, "city": "Rome", "x": None},
]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def by_id(table: Any) -> list[dict[str, Any]]:
    return sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])


def test_migrated_at_its_place(catalog: icecore.Catalog, folder: Path) -> None:
    before, position = contents(folder), catalog.position
    table = catalog.migrate_table(str(folder), "ns.t", message="ours now", author="bob")
    assert isinstance(table, icecore.Table)
    assert by_id(table) == ROWS
    assert table.location() == f"file://{folder}"
    assert [str(f.transform) for f in table.spec().fields] == ["identity", "identity"]
    assert before.items() <= contents(folder).items()
    told = catalog.log().slice(position).to_pylist()
    assert {(e["actor"], e["message"]) for e in told} == {("bob", "ours now")}
    assert len({e["transaction_id"] for e in told}) == 1
    assert table.scan("day = '2024-01-02'").plan().to_arrow().num_rows == 1
    table.append([{"id": 4, "day": dt.date(2024, 1, 3), "city": "Nice"}])
    assert (table.scan().count(), catalog.verify().ok) == (4, True)
    with pytest.raises(ValidationError, match="is an Iceberg table: register it"):
        catalog.migrate_table(str(folder), "ns.again")
    with pytest.raises(ValidationError, match=f"holds the Iceberg table file://{folder}: register that"):
        catalog.migrate_table(str(folder.parent), "ns.again")


def test_a_snapshot_never_deletes_a_file_of_the_folder(catalog: icecore.Catalog, folder: Path) -> None:
    before = contents(folder)
    table = catalog.snapshot_table(str(folder), "ns.t")
    assert isinstance(table, icecore.Table)
    assert by_id(table) == ROWS
    table.delete("id < 3")
    table.append([{"id": 5, "city": "Bern"}])
    with pytest.raises(ValidationError, match=r"gc\.enabled"):
        table.maintenance.expire_snapshots().older_than(2**50).retain_last(1).commit()
    with pytest.raises(ValidationError, match=r"gc\.enabled"):
        catalog.drop_table("ns.t", purge=True)
    assert [row["id"] for row in by_id(catalog.load_table("ns.t"))] == [3, 5]
    assert contents(folder) == before


def test_one_folder_twice_as_snapshots(catalog: icecore.Catalog, folder: Path) -> None:
    """And a name that is taken is refused before anything is written."""
    for name in ("ns.a", "ns.b"):
        assert by_id(catalog.snapshot_table(str(folder), name)) == ROWS
    position = catalog.position
    with pytest.raises(TableAlreadyExistsError):
        catalog.migrate_table(str(folder), "ns.a")
    assert catalog.position == position
    assert not (folder / "metadata").exists()


def test_what_fits_no_table_is_refused(catalog: icecore.Catalog, folder: Path, tmp_path: Path) -> None:
    position = catalog.position
    with pytest.raises(ValidationError, match="has no Parquet file"):
        catalog.migrate_table(str(tmp_path / "none"), "ns.t")
    (folder / "flat.parquet").write_bytes((folder / "day=2024-01-01/city=Oslo%20S/a.parquet").read_bytes())
    with pytest.raises(ValidationError, match="is partitioned by"):
        catalog.migrate_table(str(folder), "ns.t")
    (folder / "flat.parquet").unlink()
    wrong = folder / "day=2024-01-02/city=007/b.parquet"
    pq.write_table(pa.table({"id": ["text"]}), wrong)
    with pytest.raises(ValidationError, match="'id'"):
        catalog.migrate_table(str(folder), "ns.t")
    wrong.write_bytes(b"no Parquet file")
    with pytest.raises(CorruptFileError, match="is not a Parquet file"):
        catalog.migrate_table(str(folder), "ns.t")
    assert (catalog.position, catalog.table_exists("ns.t")) == (position, False)


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["1", "20", "-3"], "long"),
        (["1", "02"], "string"),
        (["9" * 30], "string"),
        (["2024-02-01"], "date"),
        (["2024-02-01", "2024-2-1"], "string"),
        (["2024-02-30"], "string"),
        (["true"], "string"),
    ],
)
def test_a_column_of_paths_reads_as_it_is_written(
    catalog: icecore.Catalog, tmp_path: Path, texts: list[str], kind: str
) -> None:
    for text in texts:
        (tmp_path / "f" / f"k={text}").mkdir(parents=True)
        pq.write_table(pa.table({"id": [1]}), tmp_path / "f" / f"k={text}" / "a.parquet")
    table = catalog.snapshot_table(str(tmp_path / "f"), "ns.t")
    assert isinstance(table, icecore.Table)
    assert str(table.schema().find_field("k").field_type) == kind
    assert sorted(map(str, table.scan().to_arrow()["k"].to_pylist())) == sorted(texts)


@pytest.mark.parametrize("linked", ["day=2024-01-01", "day=2024-01-01/city=Oslo%20S/a.parquet"])
def test_links_are_refused_not_passed_over(catalog: icecore.Catalog, folder: Path, tmp_path: Path, linked: str) -> None:
    """A listing follows none, so their rows would be missing; hidden ones hold no rows."""
    (folder / "_linked").symlink_to(tmp_path)
    assert by_id(catalog.snapshot_table(str(folder), "ns.whole")) == ROWS
    (folder / linked).rename(tmp_path / "elsewhere")
    (folder / linked).symlink_to(tmp_path / "elsewhere")
    for take_in in (catalog.migrate_table, catalog.snapshot_table):
        with pytest.raises(ValidationError, match="is a symbolic link"):
            take_in(str(folder), "ns.t")
    assert not catalog.table_exists("ns.t")
