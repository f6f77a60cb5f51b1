"""Changes that are planned in the write lock: what is read there, and what is written before."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from core_tables import ids_of, make_table, repository_of, rows
from lost_races import Open, count_calls, files_in, files_of, note_locks, table_of_files

import icecore
from icecore.engine.maintenance import rewrite_data_files, rewrite_delete_files
from icecore.engine.operations import action, copy_on_write, delete_by_filter, upsert
from icecore.engine.table.table_maintenance import compact, merge_deletes
from icecore.projections.plan import planner as planner_module


@pytest.mark.parametrize("kind", ["delete", "compaction"])
def test_much_is_read_before_others_have_to_wait(
    catalog: icecore.Catalog,
    open_again: Open,
    losing: list[Callable[[], Any]],
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    """What came meanwhile is read outside of the write lock where it is too much; what was written stays of use."""
    monkeypatch.setattr(action, "LOCKED_BYTES", 0)
    table = make_table(catalog, format_version=3, properties={"write.delete.mode": "merge-on-read"})
    for _ in range(2):
        table.append(rows(1, 2, 3, 4))
    other, of_delete = open_again().load_table("ns.t"), kind == "delete"
    read = (delete_by_filter, "select_rows") if of_delete else (rewrite_data_files, "write_group")
    locked = note_locks(catalog, monkeypatch, *read)

    def race(change: Callable[[], Any]) -> Callable[[], Any]:
        def run() -> None:
            before = len(locked)
            change()
            del locked[before:]

        return run

    losing += [race(lambda: other.append(rows(1, 2))) if of_delete else race(lambda: other.delete("id = 4"))]
    losing += [race(lambda: other.delete("id = 3"))]
    if of_delete:
        table.delete("id = 1")
    else:
        table.rewrite_data_files(options={"rewrite-all": "true"})
    assert ids_of(table) == ([2, 2, 2, 4, 4] if of_delete else [1, 1, 2, 2])
    assert locked and not any(locked)
    assert files_in(table) == files_of(table)


@pytest.mark.parametrize("meanwhile", ["append", "delete"])
def test_an_upsert_reads_again_what_it_read_quickly(
    catalog: icecore.Catalog,
    open_again: Open,
    losing: list[Callable[[], Any]],
    monkeypatch: pytest.MonkeyPatch,
    meanwhile: str,
) -> None:
    """While others wait it reads files again whose deletes are others than in the attempt before, and few more."""
    monkeypatch.setattr(action, "LOCKED_BYTES", 0)
    table = make_table(catalog, format_version=3, properties={"write.delete.mode": "merge-on-read"})
    table.append(rows(*range(9)))
    other = open_again().load_table("ns.t")
    locked = note_locks(catalog, monkeypatch, copy_on_write, "read_task")
    if meanwhile == "append":
        losing += [lambda: other.append(rows(-1, 10)), lambda: other.append(rows(-2, 11))]
    else:
        losing += [lambda: other.delete("id = 1"), lambda: other.delete("id = 2")]
    changed = rows(5).set_column(1, "name", [["new"]])
    assert table.upsert(changed, ["id"]).rows_updated == 1
    assert table.scan("name = 'new'").to_arrow()["id"].to_pylist() == [5]
    assert table.scan().to_arrow().num_rows == (13 if meanwhile == "append" else 7)
    assert any(locked) == (meanwhile == "delete")
    assert files_in(table) == files_of(table)


@pytest.mark.parametrize("meanwhile", ["append", "delete"])
@pytest.mark.parametrize(("version", "mode"), [(2, "copy-on-write"), (2, "merge-on-read"), (3, "merge-on-read")])
def test_an_upsert_reads_and_writes_once_what_nobody_touched(
    catalog: icecore.Catalog,
    open_again: Open,
    losing: list[Callable[[], Any]],
    monkeypatch: pytest.MonkeyPatch,
    version: int,
    mode: str,
    meanwhile: str,
) -> None:
    """Its second plan is quick, however long the first took; the rows that come are written again for others only."""
    properties = {"write.update.mode": mode, "write.delete.mode": "merge-on-read"}
    table = table_of_files(catalog, 0, 10, 20, 30, format_version=version, properties=properties)
    reads = count_calls(monkeypatch, copy_on_write, "read_task")
    rewrites = count_calls(monkeypatch, copy_on_write.LiveRows, "write_without")
    written = count_calls(monkeypatch, upsert, "write_again")
    other = open_again().load_table("ns.t")
    losing.append(lambda: other.append(rows(40)) if meanwhile == "append" else other.delete("id = 10"))
    changed = rows(0, 10, 20, 99).set_column(1, "name", [["new"] * 4])
    result = table.upsert(changed, ["id"])
    assert (result.rows_updated, result.rows_inserted) == ((3, 1) if meanwhile == "append" else (2, 2))
    assert sorted(table.scan("name = 'new'").to_arrow()["id"].to_pylist()) == [0, 10, 20, 99]
    assert table.scan().to_arrow().num_rows == (14 if meanwhile == "append" else 13)
    touched = int(meanwhile == "delete")
    assert len(reads) == 3 + touched and len(written) == 1 + touched
    assert len(rewrites) == (3 if mode == "copy-on-write" else 0)
    assert files_in(table) == files_of(table)
    assert catalog.verify().problems == ()


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_an_overwrite_of_partitions_reads_and_writes_once_what_nobody_touched(
    catalog: icecore.Catalog,
    open_again: Open,
    losing: list[Callable[[], Any]],
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
) -> None:
    """Rows of the partitions may lie in files of other specs, which were all read in each attempt, in the lock too."""
    monkeypatch.setattr(action, "LOCKED_BYTES", 0)
    table = table_of_files(catalog, 0, 10, 20, format_version=3, properties={"write.delete.mode": mode})
    table.update_spec().add_identity("id").commit()
    reads = count_calls(monkeypatch, copy_on_write, "read_task")
    rewrites = count_calls(monkeypatch, copy_on_write.LiveRows, "write_without")
    other = open_again().load_table("ns.t")
    losing += [lambda: other.append(rows(30)), lambda: other.append(rows(31))]
    changed = rows(0, 10, 30).set_column(1, "name", [["new"] * 3])
    table.dynamic_partition_overwrite(changed)
    assert ids_of(table) == [0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31]
    assert sorted(table.scan("name = 'new'").to_arrow()["id"].to_pylist()) == [0, 10, 30]
    assert len(reads) == 2 and len(rewrites) == (2 if mode == "copy-on-write" else 0)
    assert files_in(table) == files_of(table)
    assert catalog.verify().problems == ()


def test_an_upsert_does_not_write_many_rows_again_while_others_wait(
    catalog: icecore.Catalog, open_again: Open, losing: list[Callable[[], Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempt before was quick because it wrote none, so it says nothing of how long that takes."""
    monkeypatch.setattr(upsert, "ROWS_TO_FILES", 1e-9)
    table = make_table(catalog, format_version=3, properties={"write.delete.mode": "merge-on-read"})
    table.append(rows(1, 2, 3))
    other = open_again().load_table("ns.t")
    locked = note_locks(catalog, monkeypatch, upsert, "write_again")
    losing += [lambda: other.append(rows(9)), lambda: other.delete("id = 2")]
    changed = rows(2, 3).set_column(1, "name", [["new", "new"]])
    assert table.upsert(changed, ["id"]) == upsert.UpsertResult(rows_updated=1, rows_inserted=1)
    assert locked == [False, False]
    assert table.scan("name = 'new'").to_arrow().num_rows == 2 and ids_of(table) == [1, 2, 3, 9]
    assert files_in(table) == files_of(table)


def test_a_plan_in_the_lock_knows_what_plans_before_it_read(
    catalog: icecore.Catalog, open_again: Open, losing: list[Callable[[], Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is made with the entries that are loaded and by the log that is open, however much there is of both."""
    table = make_table(catalog)
    for i in range(3):
        table.append(rows(i))
    other = open_again().load_table("ns.t")
    connection, locked = repository_of(catalog).store.connection(), list[bool]()
    losing += [lambda: other.append(rows(8)), lambda: other.append(rows(9))]
    planners = count_calls(
        monkeypatch, planner_module.Planner, "tasks", lambda: locked.append(connection.in_transaction)
    )
    table.delete("id = 1")
    assert locked == [False, False, True]
    assert len({id(p._tables) for p in planners}) == len({id(p.repository) for p in planners}) == 1
    assert ids_of(table) == [0, 2, 8, 9]


@pytest.mark.parametrize("comes", ["before the plan", "as it begins"])
def test_nobody_waits_in_the_lock_for_another_threads_plan(
    catalog: icecore.Catalog,
    open_again: Open,
    losing: list[Callable[[], Any]],
    monkeypatch: pytest.MonkeyPatch,
    comes: str,
) -> None:
    """A reader that expands many manifests is waited for outside of it, where others commit meanwhile."""
    monkeypatch.setattr(action, "LOCKED_WAIT_S", 0.01)
    table = make_table(catalog, properties={"commit.retry.min-wait-ms": "1"})
    table.append(rows(1, 2))
    planner, other, reading = table._planning.planner, open_again().load_table("ns.t"), threading.Event()
    connection, plans = repository_of(catalog).store.connection(), list[bool]()

    def read() -> None:
        with planner._tables.lock:
            reading.set()
            read_until.wait(60)

    read_until, reader = threading.Event(), threading.Thread(target=read)

    def slow_reader() -> None:
        reader.start()
        reading.wait(60)

    def planned() -> None:
        plans.append(connection.in_transaction)
        if plans[-1] and comes == "as it begins":
            slow_reader()
        elif not plans[-1] and reading.is_set():
            # Whoever waited for it in the lock would have waited for long.
            read_until.set()

    def second_loss() -> None:
        other.append(rows(4))
        if comes == "before the plan":
            slow_reader()

    count_calls(monkeypatch, planner_module.Planner, "tasks", planned)
    losing += [lambda: other.append(rows(3)), second_loss]
    table.delete("id = 1")
    reader.join()
    assert ids_of(table) == [2, 3, 4]
    assert plans == [False, False, True, False]


@pytest.mark.parametrize("kind", ["data files", "delete files"])
def test_nobody_waits_for_what_is_written_elsewhere(
    catalog: icecore.Catalog, open_again: Open, losing: list[Callable[[], Any]], kind: str
) -> None:
    """However little it is: Spark may not even begin with it."""
    table = make_table(catalog, format_version=2, properties={"write.delete.mode": "merge-on-read"})
    table.append(rows(1, 2, 3, 4, 5, 6, 7))
    table.append(rows(8, 9))
    for gone in (1, 2):
        table.delete(f"id = {gone}")
    other, locked = open_again().load_table("ns.t"), list[bool]()
    connection = repository_of(catalog).store.connection()
    here: Any = rewrite_data_files.write_groups if kind == "data files" else rewrite_delete_files.write_merged

    def elsewhere(*args: Any) -> Any:
        locked.append(connection.in_transaction)
        return here(*args)

    losing += [lambda: other.delete("id = 3"), lambda: other.delete("id = 4")]
    if kind == "data files":
        what: dict[str, Any] = {"row_filter": None, "strategy": "binpack", "sort_order": None}
        result = compact(
            table, **what, options={"rewrite-all": "true"}, branch="main", snapshot_properties=None, writer=elsewhere
        )
    else:
        result = merge_deletes(table, options=None, branch="main", snapshot_properties=None, writer=elsewhere)
    assert locked == [False, False, False]
    assert result.rewritten_data_files + result.removed_delete_files > 1
    assert ids_of(table.refresh()) == [5, 6, 7, 8, 9]
    assert files_in(table) == files_of(table)
