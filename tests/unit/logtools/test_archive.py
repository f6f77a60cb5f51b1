"""Archiving the oldest part of the log: with the file all reads through, without it the present works."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from busy_log import busy
from clean_processes import exit_codes_of
from core_tables import ids_of, local, make_table, peer_ids, pyiceberg_catalog, rows, store_of

import icecore
from icecore.engine.archive import write_archive
from icecore.engine.errors import (
    CorruptLogError,
    MissingArchiveError,
    MovedWarehouseWarning,
    ReadOnlyError,
    ValidationError,
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """A warehouse that is made once, with the position in its middle; a copy beside it stays as it was made."""
    folder = tmp_path_factory.mktemp("busy") / "warehouse"
    with icecore.open(folder, actor="tester") as catalog:
        catalog.create_namespace("ns")
        cut = busy(catalog)
    shutil.copytree(folder, folder.with_name("kept"))
    return folder, cut


@pytest.fixture
def cut(made: tuple[Path, int]) -> int:
    return made[1]


def put_back(folder: Path) -> Path:
    """The warehouse as it was made, in the folder that it was made in, since the log knows it."""
    shutil.rmtree(folder, ignore_errors=True)
    return Path(shutil.copytree(folder.with_name("kept"), folder))


@pytest.fixture
def warehouse(made: tuple[Path, int]) -> Path:
    return put_back(made[0])


@pytest.fixture
def catalog(warehouse: Path) -> Iterator[icecore.Catalog]:
    with icecore.open(warehouse, actor="tester") as opened:
        yield opened


@pytest.fixture(scope="module")
def before(made: tuple[Path, int]) -> tuple[object, object]:
    """What there is in the warehouse as it was made, and was at each position."""
    with icecore.open(put_back(made[0])) as catalog:
        return facts(catalog), history(catalog)


def facts(catalog: icecore.Catalog) -> object:
    """What there is now, read in every way."""
    names = [("ns", n) for n in ("t", "idle")]
    tables = [catalog.load_table(n) for n in names]
    return (
        [(t.state, ids_of(t)) for t in tables],
        [ids_of(tables[0], snapshot_id=s.snapshot_id) for s in tables[0].snapshots()],
        [v.state for v in catalog.views()],
        catalog.all_namespaces(),
        catalog.sql("SELECT count(*) FROM files").to_pylist(),
    )


def history(catalog: icecore.Catalog) -> object:
    """What there was at each position, and the whole log."""
    at = [catalog.at(p) for p in range(catalog.position + 1)]
    exported = io.BytesIO()
    catalog.export_log(exported)
    return (
        [(a.list_tables(), a.list_views(), a.list_namespaces()) for a in at],
        [[a.load_table(n).state for n in a.list_tables()] for a in at],
        [[a.load_view(n).state for n in a.list_views()] for a in at],
        catalog.log().to_pylist(),
        catalog.log("ns.t", limit=2).to_pylist(),
        exported.getvalue(),
    )


def test_with_the_archive_nothing_changes(
    cut: int, catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog]
) -> None:
    """The same states, history, export and rebuild, for this process, another that was open, and a new one."""
    peer = open_again()
    peer.load_table("ns.t")
    before = facts(catalog), history(catalog)
    found = catalog.archive(cut)
    assert found is not None and (found.first_position, found.last_position, found.events) == (1, cut - 1, cut - 1)
    assert found.path.parent == catalog.path and found.path.exists()
    assert store_of(catalog).connection().execute("SELECT min(position) FROM event").fetchone()[0] == cut
    for seen in (catalog, peer, open_again()):
        assert (facts(seen), history(seen)) == before
        report = seen.verify()
        assert report.ok, report
    assert catalog.archive(cut) is None
    second = catalog.archive(cut + 2)
    assert second is not None and second.first_position == cut
    assert [a.last_position for a in catalog.archives()] == [cut - 1, cut + 1]
    for seen in (catalog, peer, open_again()):
        assert (facts(seen), history(seen)) == before
    files = {p: p.read_bytes() for p in local(catalog.load_table("ns.t").location()).rglob("*.*") if p.is_file()}
    catalog.rebuild()
    assert {p: p.read_bytes() for p in files} == files
    assert (facts(catalog), history(catalog)) == before and catalog.verify().ok
    assert catalog.undrop_table("ns.gone").scan().count() == 1
    peer.load_table("ns.t").append(rows(9))
    assert ids_of(catalog.load_table("ns.t")) == [1, 3, 4, 5, 6, 9] == peer_ids(catalog.path)
    assert catalog.verify().ok


def test_without_the_archive_the_present_works(
    cut: int, catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog]
) -> None:
    before = facts(catalog)
    then = catalog.at(cut).load_table("ns.t").state
    found = catalog.archive(cut, path=catalog.path / "old" / "log.db")
    assert found is not None
    hidden = found.path.rename(found.path.with_suffix(".away"))
    for seen in (catalog, open_again()):
        assert facts(seen) == before
        assert seen.at(cut).load_table("ns.t").state == then
        assert seen.at(cut - 1).load_view("ns.v").properties["k"] == "1"
        with pytest.raises(MissingArchiveError, match="positions 1 to"):
            seen.at(cut - 3).load_table("ns.t")
        with pytest.raises(MissingArchiveError, match="positions 1 to"):
            seen.log()
        assert len(seen.log(after=cut - 1)) == seen.position - cut + 1
        with pytest.raises(MissingArchiveError):
            seen.export_log(io.BytesIO())
    fresh = open_again()
    table = fresh.load_table("ns.t")
    position = fresh.position
    table.append(rows(99), idempotency_key="once")
    assert fresh.position == position and 99 not in ids_of(table)
    fresh.load_table("ns.idle").delete("id = 7")
    fresh.load_view("ns.still").set_properties({"k": "3"})
    table.update_schema().add_column("x", "long").commit()
    table.maintenance.expire_snapshots().older_than(2**53).commit()
    fresh.undrop_table("ns.gone")
    fresh.drop_table("ns.idle")
    assert ids_of(fresh.load_table("ns.gone")) == [8]
    assert fresh.load_view("ns.v").to_arrow().num_rows == 5
    problems = fresh.verify().problems
    assert len(problems) == 1 and "can't be read" in problems[0], problems
    with pytest.raises(CorruptLogError, match="nothing is rebuilt"):
        fresh.rebuild()
    hidden.rename(found.path)
    report = open_again().verify()
    assert report.ok, report
    fresh.rebuild()
    assert fresh.verify().ok


def test_without_the_archive_the_last_commits_are_undone_and_shown(catalog: icecore.Catalog) -> None:
    """A revert is passed over, also where what it undid is lost; a call that is repeated has its answer."""
    table = make_table(catalog, "undone")
    for number in (1, 2):
        table.append(rows(number))
    last = catalog.position
    found = catalog.archive(last)
    catalog.revert(last - 1)
    assert found is not None and ids_of(table.refresh()) == [2]
    found.path.unlink()
    with pytest.warns(UserWarning, match="can't be read"):
        assert catalog.show_commit(last).together == (last,)
    catalog.undo("ns.undone")
    assert ids_of(table.refresh()) == []
    with pytest.raises(MissingArchiveError):
        catalog.undo("ns.undone")
    calls = [table.maintenance.expire_snapshots(idempotency_key="k").older_than(2**53).commit() for _ in range(2)]
    assert calls[0].deleted_files == calls[1].deleted_files != ()


def test_a_range_that_was_undone_and_begins_in_a_lost_archive_is_passed_over(catalog: icecore.Catalog) -> None:
    table = make_table(catalog, "undone")
    table.append(rows(1))
    first = catalog.position + 1
    for number in (2, 3, 4):
        table.append(rows(number))
    table.append(rows(5))
    found = catalog.archive(first + 1)
    catalog.revert(first, through=first + 2)
    assert found is not None and ids_of(table.refresh()) == [1, 5]
    found.path.unlink()
    catalog.undo("ns.undone")
    assert ids_of(table.refresh()) == [1]
    with pytest.raises(MissingArchiveError):
        catalog.undo("ns.undone")


@pytest.mark.parametrize("damage", ["a byte", "an event", "cut short", "another file"])
def test_a_changed_archive_is_named(cut: int, catalog: icecore.Catalog, damage: str) -> None:
    found = catalog.archive(cut)
    assert found is not None
    match damage:
        case "a byte":
            data = bytearray(found.path.read_bytes())
            data[-1] ^= 1
            found.path.write_bytes(data)
        case "an event":
            with sqlite3.connect(found.path) as connection:
                connection.execute("UPDATE event SET actor = 'mallory' WHERE position = 2")
            connection.close()
        case "cut short":
            os.truncate(found.path, found.path.stat().st_size // 2)
        case _:
            shutil.copy(catalog.path / "icecore.db", found.path)
    problems = catalog.verify().problems
    assert problems and all("archive" in p for p in problems[:1]), problems


def test_what_can_not_be_archived(cut: int, catalog: icecore.Catalog, tmp_path: Path) -> None:
    manual = make_table(catalog, "manual", properties={"icecore.materialize": "manual"})
    manual.append(rows(1))
    make_table(catalog, "last")
    head = store_of(catalog).head()
    taken = tmp_path / "taken"
    taken.write_bytes(b"mine")
    wrong_calls: tuple[Callable[[], object], ...] = (
        lambda: catalog.archive(),
        lambda: catalog.archive(3, before_timestamp=3),
        lambda: catalog.archive(catalog.position + 1),
        lambda: catalog.archive(catalog.position),
        lambda: catalog.archive(cut, path=taken),
        lambda: catalog.archive(cut, path=catalog.path / "icecore.db"),
    )
    for wrong in wrong_calls:
        with pytest.raises(ValidationError):
            wrong()
    assert taken.read_bytes() == b"mine" and store_of(catalog).head() == head and catalog.archives() == []
    assert catalog.archive(1) is None and catalog.archive(before_timestamp=0) is None
    with icecore.open(catalog.path, read_only=True) as reader, pytest.raises(ReadOnlyError):
        reader.archive(cut)
    catalog.materialize("ns.manual")
    assert catalog.archive(before_timestamp=store_of(catalog).event_at(cut).recorded_at_ms) is not None
    assert catalog.archives()[0].last_position == cut - 1
    assert catalog.verify().ok


def test_events_of_the_log_itself_are_still_never_deleted(cut: int, catalog: icecore.Catalog) -> None:
    catalog.archive(cut)
    connection = store_of(catalog).connection()
    for table in ("event", "event_content"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(f"DELETE FROM {table}")
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute("UPDATE event SET actor = 'x'")
    assert catalog.verify().ok


def die(*_: object, **__: object) -> None:
    os._exit(9)


def die_archiving(folder: Path, before: int, step: str) -> None:
    """Archives until a step of it."""
    catalog, patch = icecore.open(folder), pytest.MonkeyPatch()
    match step:
        case "filling":
            patch.setattr(write_archive, "sync_path", die)
        case "before the name":
            patch.setattr(os, "replace", die)
        case "before the move":
            patch.setattr(write_archive, "_move", die)
        case "in the move":
            moving = write_archive._move
            patch.setattr(write_archive, "_move", lambda *given: die(moving(*given)))
        case _:
            patch.setattr(write_archive, "Archived", die)
            patch.setattr(contextlib, "suppress", die)
    catalog.archive(before)


@pytest.mark.parametrize("step", ["filling", "before the name", "before the move", "in the move", "before the vacuum"])
def test_a_crash_leaves_one_state_or_the_other(
    cut: int, before: tuple[object, object], warehouse: Path, step: str
) -> None:
    assert exit_codes_of(lambda: die_archiving(warehouse, cut, step)) == [9]
    with icecore.open(warehouse) as catalog:
        assert (facts(catalog), history(catalog)) == before
        assert catalog.verify().ok
        is_done = step == "before the vacuum"
        assert (catalog.archive(cut) is None) == is_done
        assert facts(catalog) == before[0] and catalog.verify().ok


def test_an_archived_log_comes_whole_out_of_an_export(cut: int, catalog: icecore.Catalog, tmp_path: Path) -> None:
    catalog.archive(cut)
    catalog.export_log(tmp_path / "log.parquet", "parquet")
    with pytest.warns(MovedWarehouseWarning, match="copied or moved"):
        found = icecore.import_log(tmp_path / "log.parquet", tmp_path / "new", materialize=False)
    assert (found.events, found.head) == (catalog.position, store_of(catalog).head()[1])


def test_commits_of_others_are_adopted_without_the_archive(cut: int, catalog: icecore.Catalog) -> None:
    """A table and a view that another engine changed after their first events were archived and the file was lost."""
    found = catalog.archive(cut)
    assert found is not None
    hidden = found.path.rename(found.path.with_suffix(".away"))
    before = local(catalog.load_view("ns.still").state.metadata_location)
    theirs = before.with_name("00001-theirs.metadata.json")
    theirs.write_bytes(before.read_bytes())
    with contextlib.closing(sqlite3.connect(catalog.path / "icecore.db")) as connection, connection:
        connection.execute(
            "UPDATE iceberg_tables SET previous_metadata_location = metadata_location, metadata_location = ? "
            "WHERE table_name = 'still'",
            [f"file://{theirs}"],
        )
    peer = pyiceberg_catalog(catalog.path)
    peer.load_table("ns.idle").append(rows(11))
    peer.close()
    with icecore.open(catalog.path) as again:
        assert again.load_view("ns.still").state.metadata_location == f"file://{theirs}"
        again.load_view("ns.still").set_properties({"k": "4"})
        assert ids_of(again.load_table("ns.idle")) == [7, 11]
        again.load_table("ns.idle").append(rows(12))
        assert peer_ids(again.path, "ns.idle") == [7, 11, 12]
        hidden.rename(found.path)
        report = again.verify()
        assert report.ok, report
