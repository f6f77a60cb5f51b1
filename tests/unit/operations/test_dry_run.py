"""A dry run says what a commit would be, and leaves no trace in the log, in metadata or among the data files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from core_tables import files_below, ids_of, local, make_table, rows, store_of

import icecore
from icecore.engine.commit.dry_run import DryRun
from icecore.engine.errors import CommitFailedError, ValidationError
from icecore.engine.table.transaction import Transaction

Change = Callable[[icecore.Table, bool], object]

CHANGES: dict[str, Change] = {
    "append": lambda t, dry: t.append(rows(9), dry_run=dry),
    "overwrite": lambda t, dry: t.overwrite(rows(8), "id = 1", dry_run=dry),
    "delete": lambda t, dry: t.delete("id = 1", dry_run=dry),
    "delete_keys": lambda t, dry: t.delete_keys([{"id": 1}], ["id"], dry_run=dry),
}


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("change", CHANGES)
def test_a_dry_run_stores_nothing_and_foretells_the_commit(
    catalog: icecore.Catalog, change: str, version: int, mode: str
) -> None:
    """The totals, the operation and the requirements are those of the commit that is made after it."""
    table = make_table(catalog, format_version=version, properties={"write.delete.mode": mode})
    table.append(rows(1, 2, 3))
    position, files, before = catalog.position, files_below(local(table.location())), table.state
    outcome = CHANGES[change](table, True)
    assert isinstance(outcome, DryRun)
    assert (catalog.position, files_below(local(table.location())), table.refresh().state) == (position, files, before)
    assert outcome.conflicts == ()
    assert not outcome.is_empty
    CHANGES[change](table, False)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    made = store_of(catalog).event_at(catalog.position).payload
    assert outcome.summaries == (snapshot.summary,)
    assert outcome.totals["total-records"] == int(snapshot.summary["total-records"])
    assert outcome.payload["requirements"] == made["requirements"]
    assert len(outcome.metadata.snapshots) == len(table.metadata.snapshots)


def test_totals_are_those_of_the_spec(catalog: icecore.Catalog) -> None:
    """A property of one's own may begin like them, whatever its value."""
    table = make_table(catalog)
    outcome = table.append(rows(1, 2), snapshot_properties={"total-cost": "3 EUR"}, dry_run=True)
    assert outcome is not None
    assert "total-cost" not in outcome.totals and outcome.totals["total-records"] == 2 and repr(outcome)
    with pytest.raises(ValidationError, match="isolation_level must be serializable or snapshot, found 3"):
        table.delete("id = 1", isolation_level=cast(Any, 3))


def test_it_leaves_no_folder(catalog: icecore.Catalog) -> None:
    """A folder may have a value as its name, and a table whose folder is taken gets another one."""
    table = make_table(catalog, partition_spec=["name"])
    before = sorted(catalog.path.rglob("*"))
    table.append(rows(1, 2), dry_run=True)
    with catalog.transaction(dry_run=True) as changes:
        changes.create_table("ns.new", table.schema())
        changes.table("ns.new").append(rows(1))
    assert sorted(catalog.path.rglob("*")) == before
    assert make_table(catalog, "new").location().endswith("/ns/new")


def test_files_of_others_stay(catalog: icecore.Catalog) -> None:
    """A dry run of adding files that lie there already deletes none of them."""
    table = make_table(catalog)
    table.append(rows(1))
    [task] = table.scan().plan_files()
    other = make_table(catalog, "other")
    outcome = other.add_files([task.file.file_path], dry_run=True)
    assert outcome is not None
    assert outcome.added_files == (task.file.file_path,)
    assert ids_of(table) == [1]


def test_file_system_table_claims_no_version(catalog: icecore.Catalog) -> None:
    """MD7: the next version's file, which other writers would see, is not made."""
    table = make_table(catalog, properties={"icecore.commit-scheme": "filesystem"})
    before = files_below(local(table.location()))
    assert table.append(rows(1), dry_run=True) is not None
    assert files_below(local(table.location())) == before
    table.append(rows(1))
    assert ids_of(table) == [1]


def test_a_transaction_tells_conflicts(catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog]) -> None:
    """What the commit would be refused for is in the outcome, naming the commit in the way; the commit is refused."""
    table = make_table(catalog)

    def change(dry: bool) -> Transaction:
        transaction = table.transaction(dry_run=dry)
        transaction.update_schema().add_column("a", "long").commit()
        transaction.append(rows(1))
        return transaction

    dry, real = change(True), change(False)
    mine = open_again().load_table("ns.t")
    mine.update_schema(message="needs b").add_column("b", "long").commit()
    assert len({p for p in files_below(local(table.location())) if p.suffix == ".parquet"}) == 2
    dry.commit()
    assert dry.outcome is not None
    assert any("needs b" in c and "somebody else" in c for c in dry.outcome.conflicts)
    with pytest.raises(CommitFailedError, match=r"position \d+ by somebody else \('needs b'\): add-schema"):
        real.commit()
    assert not {p for p in files_below(local(table.location())) if p.suffix == ".parquet"}, "nobody goes on with either"


def test_an_error_leaves_no_file(catalog: icecore.Catalog) -> None:
    """A dry run that fails half-way deletes what it wrote."""
    table = make_table(catalog)
    before = files_below(local(table.location()))
    with pytest.raises(ValidationError), table.transaction(dry_run=True) as transaction:
        transaction.append(rows(1))
        transaction.delete("id = 1")
    assert files_below(local(table.location())) == before


def test_nothing_to_change(catalog: icecore.Catalog) -> None:
    """A delete that matches nothing is an empty outcome."""
    table = make_table(catalog)
    table.append(rows(1))
    outcome = table.delete("id = 7", dry_run=True)
    assert outcome is not None
    assert outcome.is_empty
    assert outcome.totals == {}


METADATA_CHANGES: dict[str, Change] = {
    "properties": lambda t, dry: t.set_properties({"k": "v"}, dry_run=dry),
    "no properties": lambda t, dry: t.remove_properties("write.delete.mode", dry_run=dry),
    "upgrade": lambda t, dry: t.upgrade(3, dry_run=dry),
    "schema": lambda t, dry: t.update_schema(dry_run=dry).add_column("x", "long").commit(),
    "spec": lambda t, dry: t.update_spec(dry_run=dry).add_field("bucket(2, id)").commit(),
    "order": lambda t, dry: t.update_sort_order(dry_run=dry).asc("id").commit(),
    "refs": lambda t, dry: t.manage_snapshots(dry_run=dry).create_tag(t.snapshots()[0].snapshot_id, "v").commit(),
    "manifests": lambda t, dry: t.rewrite_manifests(dry_run=dry),
}


@pytest.mark.parametrize("change", METADATA_CHANGES)
def test_changes_of_metadata_can_be_tried_too(catalog: icecore.Catalog, change: str) -> None:
    table = make_table(catalog, properties={"write.delete.mode": "copy-on-write"})
    table.append(rows(1))
    table.append(rows(2))
    position, files, before = catalog.position, files_below(local(table.location())), table.state
    outcome = METADATA_CHANGES[change](table, True)
    assert isinstance(outcome, DryRun) and not outcome.is_empty
    assert (catalog.position, files_below(local(table.location())), table.refresh().state) == (position, files, before)
    assert METADATA_CHANGES[change](table, False) is None
    made = store_of(catalog).event_at(catalog.position).payload
    assert catalog.position == position + 1
    assert [u["action"] for u in outcome.payload["updates"]] == [u["action"] for u in made["updates"]]


def test_an_expiry_can_be_tried_too(catalog: icecore.Catalog) -> None:
    table = make_table(catalog)
    table.append(rows(1))
    table.delete("id = 1")
    table.append(rows(2))
    position, files = catalog.position, files_below(local(table.location()))
    expiry = table.maintenance.expire_snapshots().older_than(2**53)
    outcome = expiry.dry_run()
    assert (catalog.position, files_below(local(table.location()))) == (position, files)
    assert len(outcome.snapshot_ids) == 2 and outcome.deleted_files
    found = expiry.commit()
    assert found.snapshot_ids == outcome.snapshot_ids and sorted(found.deleted_files) == sorted(outcome.deleted_files)


def test_an_upsert_can_be_tried_too(catalog: icecore.Catalog) -> None:
    """The result counts rows as after the commit, and tells what the commit would be."""
    table = make_table(catalog)
    table.append(rows(1, 2))
    position, files = catalog.position, files_below(local(table.location()))
    renamed = rows(2, 3).set_column(1, "name", [["b", "c"]])
    tried = table.upsert(renamed, ["id"], dry_run=True)
    assert (catalog.position, files_below(local(table.location())), ids_of(table)) == (position, files, [1, 2])
    assert tried.outcome is not None
    assert tried.outcome.totals["total-records"] == 3
    done = table.upsert(renamed, ["id"])
    assert (done.outcome, ids_of(table)) == (None, [1, 2, 3])
    assert (tried.rows_updated, tried.rows_inserted) == (done.rows_updated, done.rows_inserted) == (1, 1)


@pytest.mark.parametrize("commits", [1, 2])
def test_rewrites_can_be_tried_too(catalog: icecore.Catalog, commits: int) -> None:
    """The same counts as those of the rewrite itself, with an outcome for each commit; nothing is left behind."""
    table = make_table(
        catalog,
        partition_spec=["name"],
        properties={"write.delete.mode": "merge-on-read", "commit.manifest-merge.enabled": "false"},
    )
    for _ in range(3):
        table.append(rows(1, 2))
    options = {
        "min-input-files": 2,
        "partial-progress.enabled": commits > 1,
        "partial-progress.max-commits": commits,
        "remove-dangling-deletes": True,
    }
    position, files, before = catalog.position, files_below(local(table.location())), table.state
    tried = table.rewrite_data_files(options=options, dry_run=True)
    assert (catalog.position, files_below(local(table.location())), table.refresh().state) == (position, files, before)
    done = table.rewrite_data_files(options=options)
    assert (done.outcomes, catalog.position) == ((), position + commits)
    assert (tried.rewritten_data_files, tried.added_data_files) == (6, 2)
    assert (done.rewritten_data_files, done.added_data_files) == (6, 2)
    assert [o.totals["total-data-files"] for o in tried.outcomes if not o.is_empty] == [2] if commits == 1 else [4, 4]


@pytest.mark.parametrize("rewrite", ["rewrite_position_delete_files", "remove_dangling_deletes"])
def test_rewrites_of_deletes_can_be_tried_too(catalog: icecore.Catalog, rewrite: str) -> None:
    """Their counts too are those of the rewrite itself."""
    table = make_table(catalog, properties={"write.delete.mode": "merge-on-read"})
    table.append(rows(1, 2, 3, 4))
    for number in (1, 2):
        table.delete(f"id = {number}")
    if rewrite == "remove_dangling_deletes":
        table.rewrite_data_files(options={"rewrite-all": True})
    position, files = catalog.position, files_below(local(table.location()))
    tried = getattr(table, rewrite)(dry_run=True)
    assert (catalog.position, files_below(local(table.location()))) == (position, files)
    done = getattr(table, rewrite)()
    assert (tried.removed_delete_files, tried.added_delete_files) == (
        done.removed_delete_files,
        done.added_delete_files,
    )
    assert [o.is_empty for o in tried.outcomes] == [catalog.position == position]
    assert ids_of(table) == [3, 4]
