"""Transactions that evolve a table and change its rows, while others change its schema, specs or format version."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from attrs import evolve
from client_writes import commit_updates
from core_tables import ids_of, local, make_table, repository_of, rows
from pinned_files import position_deletes

import icecore
from icecore.engine.commit.manifest_summary import summarize
from icecore.engine.errors import CommitConflictError, CommitFailedError, ValidationError
from icecore.engine.evolution.manage_snapshots import ManageSnapshots
from icecore.engine.formats.entry_arrow import files_to_arrow
from icecore.engine.formats.manifest_avro import write_manifest
from icecore.engine.formats.manifest_list_avro import read_manifest_list, write_manifest_list
from icecore.engine.operations.copy_on_write import write_again
from icecore.engine.operations.replace_files import DecidedRows
from icecore.engine.properties.table_properties import UPDATE_ISOLATION
from icecore.engine.spec.content_file import ContentFile, ManifestContent, ManifestEntryStatus
from icecore.engine.spec.snapshot import Snapshot, SnapshotRef, SnapshotRefType
from icecore.engine.spec.types import LongType
from icecore.engine.spec.updates.table_update import AddSnapshot, SetSnapshotRef
from icecore.engine.table.deciding_transaction import DecidingTransaction
from icecore.engine.table.transaction import Transaction

MERGE_ON_READ = {"write.delete.mode": "merge-on-read"}
Change = Callable[[Transaction], object]
EVOLVED: dict[str, Change] = {
    "schema": lambda tx: tx.update_schema().add_column("w", LongType()).commit(),
    "spec": lambda tx: tx.update_spec().add_field("name").commit(),
    "order": lambda tx: tx.update_sort_order().asc("id").commit(),
}
CHANGED: dict[str, Change] = {
    "delete": lambda tx: tx.delete("id = 4"),
    "overwrite": lambda tx: tx.overwrite(rows(6), "id = 4"),
    "upsert": lambda tx: tx.upsert(pa.table({"id": [4], "name": ["other"]}), ["id"]),
}


@pytest.fixture
def table(catalog: icecore.Catalog) -> icecore.Table:
    made = make_table(catalog)
    made.append(rows(1, 2))
    return made


@pytest.mark.parametrize("evolved", ["spec", "order"])
@pytest.mark.parametrize("changed", CHANGED)
def test_values_of_a_column_that_came_meanwhile_are_kept(table: icecore.Table, evolved: str, changed: str) -> None:
    """Rows that are written again keep all columns that the table has at commit."""
    other = table.refresh().transaction()
    EVOLVED[evolved](other)
    CHANGED[changed](other)
    table.update_schema().add_column("w", LongType()).commit()
    table.append(pa.table({"id": [3, 4, 5], "name": ["a", "b", "c"], "w": [30, 40, 50]}))
    other.commit()
    found = table.refresh().scan("id = 3 OR id = 5").to_arrow()
    assert dict(zip(found["id"].to_pylist(), found["w"].to_pylist(), strict=True)) == {3: 30, 5: 50}


@pytest.mark.parametrize("changed", CHANGED)
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_files_of_a_spec_that_came_meanwhile_are_changed(catalog: icecore.Catalog, mode: str, changed: str) -> None:
    table = make_table(catalog, properties={"write.delete.mode": mode, "write.update.mode": mode})
    other = table.transaction()
    EVOLVED["schema"](other)
    CHANGED[changed](other)
    table.update_spec().add_field("bucket(1, id)").commit()
    table.append(rows(3, 4))
    other.commit()
    left = {"delete": [3], "overwrite": [3, 6], "upsert": [3, 4]}
    assert ids_of(table.refresh(), row_filter="name != 'n4'") == left[changed]


def test_d2_a_delete_beside_an_upgrade_is_not_undone(catalog: icecore.Catalog) -> None:
    """D2: a vector that came meanwhile and the transaction's deletes become one vector."""
    table = make_table(catalog, properties=MERGE_ON_READ)
    table.append(rows(1, 2, 3))
    other = table.transaction()
    EVOLVED["schema"](other)
    other.delete("id = 1")
    table.upgrade(3)
    table.delete("id = 2")
    other.commit()
    assert ids_of(table.refresh()) == [3]
    assert table.inspect.delete_files()["file_format"].to_pylist() == ["PUFFIN"]


def test_rl6_rows_keep_ids_that_they_got_meanwhile(table: icecore.Table) -> None:
    other = table.refresh().transaction()
    EVOLVED["spec"](other)
    other.delete("id = 1")
    table.upgrade(3)
    table.append(rows(3))
    before = row_ids(table)
    other.commit()
    assert row_ids(table.refresh()) == {i: before[i] for i in (2, 3)}


def row_ids(table: icecore.Table) -> dict[int, int]:
    found = table.scan(selected_fields=("id", "_row_id")).to_arrow()
    return dict(zip(found["id"].to_pylist(), found["_row_id"].to_pylist(), strict=True))


def test_d1_a_delete_after_an_upgrade_in_its_transaction_is_a_vector(catalog: icecore.Catalog) -> None:
    table = make_table(catalog, properties=MERGE_ON_READ)
    table.append(rows(1, 2))
    with table.transaction() as transaction:
        transaction.upgrade_table_version(3).delete("id = 1")
    assert ids_of(table) == [2]
    assert table.inspect.delete_files()["file_format"].to_pylist() == ["PUFFIN"]


def add_new_file(path: Path) -> Change:
    pq.write_table(rows(7), path)
    return lambda tx: tx.add_files([str(path)])


@pytest.mark.parametrize(
    ("evolved", "meanwhile"),
    [
        ("spec", lambda t: t.update_spec().add_field("truncate(1, name)").commit()),
        ("schema", lambda t: t.update_schema().add_column("z", LongType()).commit()),
    ],
)
@pytest.mark.parametrize("changed", ["add_files", "append_files", "delete_keys"])
def test_ids_that_were_given_out_meanwhile_refuse_files_under_them(
    table: icecore.Table, tmp_path: Path, evolved: str, meanwhile: Callable[[icecore.Table], object], changed: str
) -> None:
    """Files name columns and partition fields by ids: under those of another writer they would mean something else."""
    changes: dict[str, Any] = {
        "add_files": add_new_file(tmp_path / "new.parquet"),
        "append_files": lambda tx: tx.append_files(()),
        "delete_keys": lambda tx: tx.delete_keys(rows(1), ["id", "name"]),
    }
    other = table.refresh().transaction()
    EVOLVED[evolved](other)
    changes[changed](other)
    meanwhile(table)
    with pytest.raises(CommitFailedError, match="last assigned"):
        other.commit()


PLANNED: dict[str, Change] = {
    "delete": CHANGED["delete"],
    "upsert": CHANGED["upsert"],
    "merge": lambda tx: tx.rewrite_position_delete_files(),
}


@pytest.mark.parametrize("change", PLANNED)
def test_d1_an_upgrade_after_the_planning_makes_it_plan_again(
    catalog: icecore.Catalog, losing: list[Callable[[], Any]], change: str
) -> None:
    """D1: no position delete file comes into a v3 table, though the upgrade moves no branch."""
    table = make_table(catalog, properties=MERGE_ON_READ)
    for ids in ((1, 2, 3, 4), (5, 6)):
        table.append(rows(*ids))
    for gone in (2, 3):
        table.delete(f"id = {gone}")
    losing.append(lambda: catalog.load_table("ns.t").upgrade(3))
    with table.transaction() as transaction:
        PLANNED[change](transaction)
    assert ids_of(table) == {"delete": [1, 5, 6]}.get(change, [1, 4, 5, 6])
    assert table.inspect.delete_files()["file_format"].to_pylist() == ["PUFFIN"]


def test_d1_position_delete_files_that_are_given_are_refused_after_an_upgrade(
    table: icecore.Table, losing: list[Callable[[], Any]]
) -> None:
    deletes = position_deletes(table, "id = 1")
    other = table.refresh().transaction()
    other.row_delta((), deletes)
    losing.append(lambda: table.upgrade(3))
    with pytest.raises(ValidationError, match="takes deletion vectors"):
        other.commit()
    assert ids_of(table.refresh()) == [1, 2]


def replace_name(catalog: icecore.Catalog) -> None:
    catalog.load_table("ns.t").update_schema().delete_column("name").commit()
    catalog.load_table("ns.t").update_schema().add_column("name", "string").commit()


def require_name(catalog: icecore.Catalog) -> None:
    update = catalog.load_table("ns.t").update_schema(allow_incompatible_changes=True)
    update.update_column("name", required=True).commit()


def replace_table(catalog: icecore.Catalog) -> None:
    catalog.replace_table("ns.t", pa.schema([pa.field("id", pa.int64()), pa.field("more", pa.int64(), nullable=False)]))


def own_files(tx: Transaction) -> list[ContentFile]:
    """A file that the caller writes and describes."""
    return write_again(rows(9), tx.metadata, tx._pending.storage)


def add_own_file(tx: Transaction) -> None:
    path = tx.metadata.location.removeprefix("file://") + "-own.parquet"
    pq.write_table(rows(9), path)
    tx.add_files([path])


WRITTEN: dict[str, Change] = {
    "append": lambda tx: tx.append(rows(9)),
    "overwrite": lambda tx: tx.overwrite(rows(9), "id = 1"),
    "add_files": add_own_file,
    "append_files": lambda tx: tx.append_files(own_files(tx)),
    "row_delta": lambda tx: tx.row_delta(own_files(tx)),
    "overwrite_files": lambda tx: tx.overwrite_files((), own_files(tx), isolation_level="snapshot"),
}


@pytest.mark.parametrize("meanwhile", [replace_name, require_name, replace_table])
@pytest.mark.parametrize("change", WRITTEN)
@pytest.mark.parametrize("is_planned", [False, True])
def test_rows_that_were_written_for_other_columns_are_refused(
    catalog: icecore.Catalog,
    table: icecore.Table,
    losing: list[Callable[[], Any]],
    meanwhile: Callable[[icecore.Catalog], object],
    change: str,
    is_planned: bool,
) -> None:
    """Values would be lost or read as missing, whether the columns changed before the commit was planned or after."""
    other = table.transaction()
    WRITTEN[change](other)
    losing.append(lambda: meanwhile(catalog)) if is_planned else meanwhile(catalog)
    # After a replacement there is nothing left of a base either.
    with pytest.raises(CommitConflictError, match=r"columns changed since '(name|more)' was written|moved elsewhere"):
        other.commit()


@pytest.mark.parametrize(
    ("meanwhile", "row"),
    [
        (lambda t: t.update_schema().rename_column("name", "other").commit(), {"id": 9, "other": "n9"}),
        (lambda t: t.update_schema().delete_column("name").commit(), {"id": 9}),
        (lambda t: t.update_schema().add_column("w", LongType()).commit(), {"id": 9, "name": "n9", "w": None}),
    ],
)
def test_rows_are_appended_though_columns_came_went_or_were_renamed(
    table: icecore.Table, meanwhile: Callable[[icecore.Table], object], row: dict[str, Any]
) -> None:
    other = table.refresh().transaction()
    other.append(rows(9))
    meanwhile(table)
    other.commit()
    assert table.refresh().scan("id = 9").to_arrow().to_pylist() == [row]


def test_an_upsert_is_planned_again_for_a_column_that_took_a_name(
    catalog: icecore.Catalog, table: icecore.Table, losing: list[Callable[[], Any]]
) -> None:
    losing.append(lambda: replace_name(catalog))
    table.upsert(rows(9), ["id"])
    assert table.refresh().scan("name = 'n9'").to_arrow()["id"].to_pylist() == [9]


def test_a_dry_run_tells_of_columns_that_changed(catalog: icecore.Catalog, table: icecore.Table) -> None:
    dry = table.transaction(dry_run=True)
    dry.append(rows(9))
    replace_name(catalog)
    dry.commit()
    assert dry.outcome is not None and "columns changed since 'name' was written" in dry.outcome.conflicts[0]


def test_rows_that_were_decided_are_refused_for_a_column_that_took_a_name(
    catalog: icecore.Catalog, table: icecore.Table
) -> None:
    """As those of a MERGE by Spark, whose files are written before the commit begins."""
    other = DecidingTransaction.of(table, {})
    write = lambda at, _: DecidedRows(added=tuple(write_again(rows(9), at.metadata, at.storage)))
    other.decide(write, UPDATE_ISOLATION)
    replace_name(catalog)
    with pytest.raises(CommitFailedError, match="columns changed since 'name' was written"):
        other.commit()


@pytest.mark.parametrize("meanwhile", [require_name, replace_table])
@pytest.mark.parametrize("is_ahead", [True, False])
@pytest.mark.parametrize("is_planned", [True, False])
def test_staged_rows_without_what_is_required_by_now_are_not_published(
    catalog: icecore.Catalog,
    table: icecore.Table,
    losing: list[Callable[[], Any]],
    meanwhile: Callable[[icecore.Catalog], object],
    is_ahead: bool,
    is_planned: bool,
) -> None:
    """As rows are that were written and wait for their commit: main would have nulls there, or none could read it."""
    table.set_properties({"write.wap.enabled": "true"})
    table.append(pa.table({"id": [9], "name": [None]}), snapshot_properties={"wap.id": "w"})
    if not is_ahead:
        table.append(rows(3))
    losing.append(lambda: meanwhile(catalog)) if is_planned else meanwhile(catalog)
    with pytest.raises(ValidationError, match=r"can't be (on main: column '(name|more)' is required|picked)"):
        table.manage_snapshots().publish("w").commit()
    assert 9 not in (ids_of(table.refresh()) if table.refresh().current_snapshot() else [])


def test_main_is_not_set_to_rows_that_lack_a_required_column(catalog: icecore.Catalog, table: icecore.Table) -> None:
    """No reader of main could read them; a transaction that makes the column optional may do it."""
    before = table.refresh().snapshots()[0].snapshot_id
    table.delete("TRUE")
    update = table.update_schema(allow_incompatible_changes=True)
    update.add_column("more", "long", required=True).commit()
    table.append(pa.table({"id": [3], "name": ["n3"], "more": [3]}))
    table.manage_snapshots().create_branch(before, "old").commit()
    moves: list[Callable[[ManageSnapshots], ManageSnapshots]] = [
        lambda m: m.set_current_snapshot(before),
        lambda m: m.rollback_to_snapshot(before),
        lambda m: m.replace_branch("main", ref_name="old"),
        lambda m: m.replace_branch("main", before),
    ]
    for moved in moves:
        with pytest.raises(ValidationError, match="column 'more' is required, and was not when its rows were written"):
            moved(table.manage_snapshots()).commit()
    assert ids_of(table.refresh()) == [3]
    with table.transaction() as changes:
        changes.update_schema().make_column_optional("more").commit()
        changes.manage_snapshots().rollback_to_snapshot(before).commit()
    assert ids_of(table.refresh()) == [1, 2] and catalog.verify().ok


def test_d1_position_deletes_of_a_client_are_refused_after_an_upgrade(catalog: icecore.Catalog) -> None:
    """D1: it wrote them for version 2, and lists them as a table of version 3 has its lists."""
    table = make_table(catalog, properties=MERGE_ON_READ)
    table.append(rows(1, 2))
    written = position_deletes(table, "id = 1")
    table.upgrade(3)
    table.append(rows(3))
    head, metadata = table.current_snapshot(), table.metadata
    assert head is not None and head.manifest_list is not None
    folder = head.manifest_list.rsplit("/", 1)[0]
    entries = files_to_arrow(written, metadata.specs, metadata.all_fields, status=ManifestEntryStatus.ADDED)
    of_deletes: dict[str, Any] = {"spec": table.spec(), "content": ManifestContent.DELETES}
    data = write_manifest(
        entries,
        schema=table.schema(),
        format_version=2,
        sync_marker=bytes(16),
        all_fields=metadata.all_fields,
        **of_deletes,
    )
    made = summarize(
        entries,
        manifest_path=f"{folder}/own.avro",
        schema=table.schema(),
        sequence_number=9,
        snapshot_id=77,
        **of_deletes,
    )
    known = read_manifest_list(local(head.manifest_list).read_bytes(), head.manifest_list)
    numbers: dict[str, Any] = {"snapshot_id": 77, "parent_snapshot_id": head.snapshot_id, "sequence_number": 9}
    first_row_id = metadata.next_row_id
    listed = write_manifest_list(
        [*known, evolve(made, manifest_length=len(data))],
        format_version=3,
        sync_marker=bytes(16),
        first_row_id=first_row_id,
        **numbers,
    )
    local(made.manifest_path).write_bytes(data)
    local(f"{folder}/own-list.avro").write_bytes(listed)
    snapshot = Snapshot(
        timestamp_ms=metadata.last_updated_ms,
        manifest_list=f"{folder}/own-list.avro",
        summary={"operation": "delete"},
        first_row_id=first_row_id,
        added_rows=0,
        **numbers,
    )
    given = [AddSnapshot(snapshot, True), SetSnapshotRef("main", SnapshotRef(77, SnapshotRefType.BRANCH))]
    with pytest.raises(ValidationError, match="a v3 table takes deletion vectors for deletes by position"):
        commit_updates(repository_of(catalog), table.state.stream, [u.to_dict() for u in given])
    assert ids_of(table.refresh()) == [1, 2, 3]
