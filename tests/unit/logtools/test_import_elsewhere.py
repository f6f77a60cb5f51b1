"""A log that is imported into another folder than its own is read as a copy is; put back in its place it is at home."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from core_tables import digests, ids_of, make_table, rows, store_of

import icecore
from icecore.engine.errors import MissingFileError, MovedWarehouseError, MovedWarehouseWarning, ValidationError


@pytest.fixture
def original(warehouse: Path, catalog: icecore.Catalog) -> Path:
    """A warehouse with deletes, a dropped table and a view; closed."""
    table = make_table(catalog, format_version=3, properties={"write.delete.mode": "merge-on-read"})
    table.append(rows(1, 2))
    table.append(rows(3))
    table.delete("id = 2")
    make_table(catalog, "gone").append(rows(9))
    catalog.drop_table("ns.gone")
    make_table(catalog, "later", properties={"icecore.materialize": "manual"}).append(rows(4))
    catalog.create_view("ns.v", "SELECT id FROM t")
    catalog.close()
    return warehouse


def exported(warehouse: Path, file: Path, form: str = "jsonl", *, by_an_earlier_release: bool = False) -> Path:
    """The log of a warehouse; that of an earlier release doesn't name its folder."""
    with icecore.open(warehouse, read_only=True, create=False) as catalog:
        catalog.export_log(file, form)
    if by_an_earlier_release and form == "parquet":
        pq.write_table(pq.read_table(file).replace_schema_metadata(None), file)
    elif by_an_earlier_release:
        lines = [json.loads(line) for line in file.read_bytes().splitlines()]
        assert all(line.pop("warehouse") == f"file://{warehouse}" for line in lines)
        file.write_text("\n".join(json.dumps(line) for line in lines))
    return file


def imported(file: Path, folder: Path) -> icecore.Catalog:
    """A catalog of the log in a folder that is not its own."""
    with pytest.warns(MovedWarehouseWarning, match="icecore move.*icecore clone"):
        icecore.import_log(file, folder)
    with pytest.warns(MovedWarehouseWarning):
        return icecore.open(folder, actor="bob")


@pytest.fixture
def copy(original: Path, tmp_path: Path) -> Iterator[icecore.Catalog]:
    made = imported(exported(original, tmp_path / "log"), tmp_path / "copy")
    yield made
    made.close()


CHANGES: list[Callable[[icecore.Catalog], object]] = [
    lambda c: c.load_table("ns.t").append(rows(7)),
    lambda c: c.load_table("ns.t").delete("id = 1"),
    lambda c: c.load_table("ns.t").maintenance.expire_snapshots().older_than(dt.datetime.now()).retain_last(1).commit(),
    lambda c: c.load_table("ns.t").maintenance.remove_orphan_files(allow_recent=True),
    lambda c: c.purge_table("ns.gone"),
    lambda c: c.undrop_table("ns.gone"),
    lambda c: c.rebuild(),
    lambda c: c.materialize(),
    lambda c: c.create_namespace("more"),
]


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_a_log_imported_elsewhere_changes_nothing_of_its_original(
    original: Path, tmp_path: Path, form: str, older: bool
) -> None:
    """Neither the import, nor a commit, nor a deletion; also where the export doesn't name the folder."""
    file = exported(original, tmp_path / "log", form, by_an_earlier_release=older)
    before = digests(original)
    with imported(file, tmp_path / "copy") as copy:
        for change in CHANGES:
            with pytest.raises(MovedWarehouseError, match=r"copied or moved from .*icecore move.*icecore clone"):
                change(copy)
    assert digests(original) == before
    assert [p.name for p in (tmp_path / "copy").iterdir() if p.name != ".icecore"] == ["icecore.db"]


def test_a_log_alone_tells_all_that_stands_in_it(original: Path, copy: icecore.Catalog) -> None:
    """An auditor who has no data reads names, history, metadata and plans; only rows need the files."""
    shutil.rmtree(original)
    table = copy.load_table("ns.t")
    assert [str(t) for t in copy.list_tables("ns")] == [str(t) for t in (("ns", "later"), ("ns", "t"))]
    assert copy.log("ns.t")["kind"].to_pylist() == ["table.created", *["table.committed"] * 3]
    assert [(s.summary or {})["operation"] for s in table.snapshots()] == ["append", "append", "delete"]
    assert (table.location(), table.state.metadata_location is not None) == (f"file://{original}/ns/t", True)
    assert len(table.scan("id = 3").plan_files()) == 1
    assert len(table.history()) == 3
    assert table.scan("id = 3").explain().files.num_rows == 2
    assert copy.at(3).load_table("ns.t").scan().count() == 2
    assert copy.diff(2, 5).objects and copy.load_view("ns.v").metadata.current_version_id == 1
    assert copy.sql("SELECT count(*) AS n FROM files WHERE name = 't'")["n"].to_pylist() == [3]
    assert not [p for p in copy.verify().problems if "file" not in p]
    with pytest.raises(MissingFileError, match=f"no such file at file://{copy.path}/ns/t/data"):
        ids_of(table)


def test_rows_are_read_where_they_were_copied_to(original: Path, copy: icecore.Catalog) -> None:
    shutil.copytree(original / "ns", copy.path / "ns")
    original.rename(original.with_name("hidden"))
    assert ids_of(copy.load_table("ns.t")) == [1, 3]
    assert copy.verify().problems == ()


def test_a_clone_of_it_is_a_warehouse_of_its_own(original: Path, copy: icecore.Catalog) -> None:
    shutil.copytree(original / "ns", copy.path / "ns")
    before = digests(original)
    copy.close()
    with pytest.raises(ValidationError, match=r"still at .* clone"):
        icecore.move_warehouse(copy.path)
    assert icecore.clone_warehouse(copy.path).problems == ()
    with icecore.open(copy.path) as clone:
        clone.load_table("ns.t").append(rows(5))
        assert ids_of(clone.load_table("ns.t")) == [1, 3, 5] and clone.verify().problems == ()
    assert digests(original) == before


def test_it_is_moved_where_its_original_is_gone(original: Path, copy: icecore.Catalog) -> None:
    copy.close()
    (original / "ns").rename(copy.path / "ns")
    shutil.rmtree(original)
    assert icecore.move_warehouse(copy.path).problems == ()
    with icecore.open(copy.path) as moved:
        moved.load_table("ns.t").append(rows(5))
        assert ids_of(moved.load_table("ns.t")) == [1, 3, 5] and moved.verify().problems == ()


@pytest.mark.parametrize("older", [False, True])
def test_a_log_put_back_in_its_place_is_at_home(original: Path, tmp_path: Path, older: bool) -> None:
    """The log was lost, the data is there: the warehouse goes on, with the identity that it had."""
    with icecore.open(original) as catalog:
        identity = store_of(catalog).warehouse_value("warehouse-uuid")
    file = exported(original, tmp_path / "log", by_an_earlier_release=older)
    for name in ("icecore.db", "icecore.db-wal", "icecore.db-shm"):
        (original / name).unlink(missing_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        icecore.import_log(file, original)
        with icecore.open(original) as catalog:
            assert store_of(catalog).warehouse_value("warehouse-uuid") == identity
            catalog.load_table("ns.t").append(rows(5))
            assert ids_of(catalog.load_table("ns.t")) == [1, 3, 5] and catalog.verify().problems == ()


def test_files_that_were_deleted_stay_away_when_the_log_is_put_back(original: Path, tmp_path: Path) -> None:
    with icecore.open(original) as catalog:
        catalog.purge_table("ns.gone")
        table = catalog.load_table("ns.t")
        table.overwrite(rows(6))
        later = dt.datetime.now() + dt.timedelta(hours=1)
        table.maintenance.expire_snapshots().older_than(later).retain_last(1).commit()
    before = {k: v for k, v in digests(original).items() if k.startswith("ns/")}
    file = exported(original, tmp_path / "log")
    (original / "icecore.db").unlink()
    icecore.import_log(file, original)
    assert {k: v for k, v in digests(original).items() if k.startswith("ns/")} == before
    with icecore.open(original) as catalog:
        assert ids_of(catalog.load_table("ns.t")) == [6] and catalog.verify().problems == ()


@pytest.mark.parametrize("older", [False, True])
def test_the_folder_after_a_move_is_the_one_that_counts(original: Path, tmp_path: Path, older: bool) -> None:
    new = tmp_path / "new"
    icecore.move_warehouse(original, new)
    file = exported(new, tmp_path / "log", by_an_earlier_release=older)
    imported(file, original).close()
    (new / "icecore.db").unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        icecore.import_log(file, new)


def test_the_log_of_a_clone_that_shares_data_is_put_back_as_one(original: Path, tmp_path: Path) -> None:
    """It writes and deletes nothing in the folders of the original, as before."""
    with icecore.open(original) as catalog:
        make_table(catalog, "outside", location=str(tmp_path / "outside")).append(rows(8))
    clone = tmp_path / "clone"
    icecore.clone_warehouse(original, clone, metadata_only=True)
    file = exported(clone, tmp_path / "log")
    (clone / "icecore.db").unlink()
    shutil.rmtree(tmp_path / "outside" / "metadata")
    before = digests(original), digests(tmp_path / "outside")
    icecore.import_log(file, clone)
    with icecore.open(clone) as catalog:
        with pytest.raises(MovedWarehouseError, match="cloned from"):
            catalog.load_table("ns.outside").append(rows(5))
        table = catalog.load_table("ns.t")
        table.overwrite(rows(6))
        later = dt.datetime.now() + dt.timedelta(hours=1)
        table.maintenance.expire_snapshots().older_than(later).retain_last(1).commit()
        catalog.drop_table("ns.t")
        catalog.purge_table("ns.t")
    assert (digests(original), digests(tmp_path / "outside")) == before


def test_a_mapping_of_something_else_makes_no_second_owner(original: Path, tmp_path: Path) -> None:
    file = exported(original, tmp_path / "log")
    with pytest.warns(MovedWarehouseWarning):
        icecore.import_log(file, tmp_path / "copy", location_mapping={"s3://bucket": str(tmp_path / "bucket")})
    with pytest.warns(MovedWarehouseWarning), icecore.open(tmp_path / "copy") as copy:
        table = copy.load_table("ns.t")
        with pytest.raises(MovedWarehouseError):
            table.append(rows(5))
