"""Decisions on a base: what of another commit is a conflict, under which isolation level, and what it says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from attrs import frozen
from core_tables import ids_of, local, make_table, peer_ids, rows
from pinned_files import position_deletes, rewritten, vector

import icecore
from icecore.engine.commit.decide import ProduceSnapshot
from icecore.engine.errors import CommitConflictError, ConflictingCommitsError, NoSuchSnapshotError, ValidationError
from icecore.engine.operations.action import PlanContext, SnapshotTarget
from icecore.engine.operations.file_effects import FileEffects, produce

Open = Callable[[], icecore.Catalog]
MERGE_ON_READ = {"write.delete.mode": "merge-on-read", "write.update.mode": "merge-on-read"}


def base_of(table: icecore.Table) -> int:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return snapshot.snapshot_id


def files_in(table: icecore.Table) -> list[str]:
    return sorted(p.name for p in (local(table.location()) / "data").rglob("*") if p.is_file())


def append_and_rewrite_manifests(table: icecore.Table) -> None:
    table.append(rows(2))
    table.rewrite_manifests()


CHANGES: list[tuple[str, Callable[[icecore.Table], Any], bool, bool]] = [
    ("new rows of the filter", lambda t: t.append(rows(6)), True, False),
    ("new rows of no concern", lambda t: t.append(rows(2)), False, False),
    ("a delete in the file", lambda t: t.delete("id = 8"), True, True),
    ("a delete in another file", lambda t: t.delete("id = 1"), False, False),
    ("an overwrite that adds", lambda t: t.overwrite(rows(1, 7), "id = 1"), True, False),
    ("compaction of the file", lambda t: t.rewrite_data_files("id > 5", options={"rewrite-all": True}), True, True),
    ("compaction of another", lambda t: t.rewrite_data_files("id < 5", options={"rewrite-all": True}), False, False),
    ("manifests", append_and_rewrite_manifests, False, False),
    ("a property", lambda t: t.set_properties({"a": "b"}), False, False),
    ("all rows replaced", lambda t: t.overwrite(rows(3)), True, True),
]


# The versions in which each change meets a delete, files that are replaced, and a row delta, which v1 has none of:
# each change meets every version, and so does each operation.
VERSIONS = [(1, 2, 3), (2, 1, 3), (1, 3, 2), (3, 1, 2)]
CASES = [
    pytest.param(*change, operation, version, id=f"{operation}-{version}-{name}")
    for place, (name, *change) in enumerate(CHANGES)
    for operation, version in zip(("delete", "overwrite_files", "row_delta"), VERSIONS[place % 4], strict=True)
]


@pytest.mark.parametrize(("change", "serializable", "snapshot", "operation", "version"), CASES)
def test_c5_what_is_a_conflict(
    catalog: icecore.Catalog,
    change: Callable[[icecore.Table], Any],
    serializable: bool,
    snapshot: bool,
    operation: str,
    version: int,
) -> None:
    """New rows of the filter matter where it is serializable only, changes of the same files always."""
    properties = {} if version == 1 else MERGE_ON_READ
    table = make_table(catalog, format_version=version, properties=properties)
    table.append(rows(1, 2))
    table.append(rows(8, 9, 10))
    base = base_of(table)
    deletes = position_deletes(table, "id > 5") if operation == "row_delta" else []
    gone, _ = rewritten(table, "id > 5") if operation == "overwrite_files" else ([], [])
    change(catalog.load_table("ns.t"))
    after = ids_of(table.refresh())
    kept = [i for i in after if i not in (8, 9, 10)]
    for level, is_conflict in (("serializable", serializable), ("snapshot", snapshot)):

        def commit(dry_run: bool, level: str = level) -> Any:
            pin: dict[str, Any] = {"base_snapshot_id": base, "isolation_level": level, "dry_run": dry_run}
            match operation:
                case "delete":
                    return table.delete("id > 5", **pin)
                case "row_delta":
                    return table.row_delta((), deletes, conflict_filter="id > 5", **pin)
                case _:
                    return table.overwrite_files(gone, conflict_filter="id > 5", **pin)

        assert bool(commit(True).conflicts) == is_conflict, level
        if is_conflict:
            before = files_in(table)
            with pytest.raises(ConflictingCommitsError, match=r"position \d+ at 20.* by tester"):
                commit(False)
            assert files_in(table) == before, "what was written for it is deleted"
            assert ids_of(table.refresh()) == after
        elif level == "snapshot" or not snapshot:
            commit(False)
            assert ids_of(table.refresh()) == kept
            break
    if version == 2:
        assert peer_ids(catalog.path) == ids_of(table)


def test_c5_deletes_for_a_file_that_was_only_read(catalog: icecore.Catalog) -> None:
    """Where it is serializable they matter though the commit doesn't touch the file, and for no other file."""
    table = make_table(catalog, format_version=3, properties=MERGE_ON_READ)
    table.append(rows(1, 2))
    table.append(rows(8, 9))
    base = base_of(table)
    gone, _ = rewritten(table, "id < 5")
    catalog.load_table("ns.t").delete("id = 8")
    with pytest.raises(ConflictingCommitsError, match=r"delete file .* that may have rows of id > 5 was added"):
        table.overwrite_files(gone, base_snapshot_id=base, conflict_filter="id > 5")
    table.overwrite_files(gone, base_snapshot_id=base, conflict_filter="id < 5")
    assert ids_of(table) == [9]


def test_a_conflict_names_the_commit_and_the_file(catalog: icecore.Catalog, open_again: Open) -> None:
    """Position, time, author and message of each commit in the way, what it did, and to which files."""
    table = make_table(catalog)
    table.append(rows(1, 2))
    [task] = table.scan().plan_files()
    base = base_of(table)
    other = open_again().load_table("ns.t")
    other.append(rows(3), message="late load")
    other.delete("id = 1", author="ann")
    with pytest.raises(ConflictingCommitsError) as caught:
        table.delete("id < 9", base_snapshot_id=base)
    head = catalog.position
    assert len(caught.value.conflicts) == 3
    [appended] = (c for c in caught.value.conflicts if f"was added by position {head - 1} at 20" in c)
    [removed] = (c for c in caught.value.conflicts if "was removed by" in c)
    assert "by somebody else ('late load'): append" in appended
    assert task.file.file_path.rsplit("/", 1)[-1] in removed and f"position {head} at " in removed
    assert "by ann: " in removed
    outcome = table.delete("id < 9", base_snapshot_id=base, dry_run=True)
    assert outcome is not None and outcome.conflicts == caught.value.conflicts


@pytest.mark.parametrize(
    ("key", "commit"),
    [
        ("write.delete.isolation-level", lambda t, base: t.delete("id = 1", base_snapshot_id=base)),
        ("write.update.isolation-level", lambda t, base: t.overwrite(rows(1), "id = 1", base_snapshot_id=base)),
        ("write.merge.isolation-level", lambda t, base: t.upsert(rows(1), ["id"], base_snapshot_id=base)),
    ],
)
def test_the_level_is_a_property_of_the_table(
    catalog: icecore.Catalog, key: str, commit: Callable[[icecore.Table, int], Any]
) -> None:
    """Where a call says nothing the property holds, and serializable without one; a wrong level is refused."""
    table = make_table(catalog)
    table.append(rows(1, 2))
    base = base_of(table)
    table.append(rows(1, 5))
    with pytest.raises(ConflictingCommitsError):
        commit(table, base)
    table.set_properties({key: "Snapshot"})
    commit(table, base)
    with pytest.raises(ValidationError, match=f"{key} must be serializable or snapshot, found 'chaos'"):
        table.set_properties({key: "chaos"})


def test_a_level_alone_pins_to_what_the_table_showed(catalog: icecore.Catalog, open_again: Open) -> None:
    """The base is the snapshot of the handle, not the latest one; without base and level nothing is a conflict."""
    table = make_table(catalog)
    table.append(rows(1))
    other = open_again().load_table("ns.t")
    other.append(rows(1, 2))
    with pytest.raises(ConflictingCommitsError):
        table.delete("id = 1", isolation_level="serializable")
    table.delete("id = 1", isolation_level="snapshot")
    assert ids_of(table) == [1, 2]
    other.append(rows(1))
    table.delete("id = 1")
    assert ids_of(table) == [2]


def test_an_empty_branch_is_a_base_too(catalog: icecore.Catalog, open_again: Open) -> None:
    """What was decided on an empty table does not hold once rows came."""
    table = make_table(catalog)
    open_again().load_table("ns.t").append(rows(1))
    with pytest.raises(ConflictingCommitsError, match="an empty branch"):
        table.upsert(rows(1), ["id"], isolation_level="serializable")
    table.upsert(rows(2), ["id"], isolation_level="serializable")
    assert ids_of(table) == [1, 2]


def test_a_base_that_is_not_there(catalog: icecore.Catalog) -> None:
    """A base that never was is an error; one that was rolled back or expired is a conflict."""
    table = make_table(catalog)
    table.append(rows(1))
    first = base_of(table)
    table.append(rows(2))
    second = base_of(table)
    with pytest.raises(NoSuchSnapshotError):
        table.delete("id = 1", base_snapshot_id=77)
    table.manage_snapshots().set_current_snapshot(first).commit()
    with pytest.raises(CommitConflictError, match=f"since snapshot {second} can't be told"):
        table.delete("id = 1", base_snapshot_id=second)
    assert ids_of(table.refresh()) == [1]


@pytest.mark.parametrize("level", ["serializable", "snapshot"])
def test_c5_partitions_that_are_replaced(catalog: icecore.Catalog, level: str) -> None:
    """Only commits to the same partitions matter; removals always, additions where it is serializable."""
    table = make_table(catalog, partition_spec=["id"])
    table.append(rows(1, 2, 3))
    base = base_of(table)
    pin: dict[str, Any] = {"base_snapshot_id": base, "isolation_level": level}
    table.append(rows(2))
    table.delete("id = 3")
    table.dynamic_partition_overwrite(rows(1), **pin)
    with pytest.raises(ConflictingCommitsError):
        table.dynamic_partition_overwrite(rows(3), **pin)
    if level == "serializable":
        with pytest.raises(ConflictingCommitsError):
            table.dynamic_partition_overwrite(rows(2), **pin)
        assert ids_of(table) == [1, 2, 2]
    else:
        table.dynamic_partition_overwrite(rows(2), **pin)
        assert ids_of(table) == [1, 2]


def test_c5_two_vectors_for_one_file(catalog: icecore.Catalog, open_again: Open) -> None:
    """A vector that came meanwhile is a conflict even where the rows are others; never is one lost."""
    table = make_table(catalog, format_version=3, properties=MERGE_ON_READ)
    table.append(rows(0, 1, 2))
    [task] = table.scan().plan_files()
    deletes = [vector(table, task, 0)]
    open_again().load_table("ns.t").delete("id = 1", message="first")
    table_now = catalog.load_table("ns.t")
    table_now.row_delta((), [vector(table, task, 2)])
    with pytest.raises(ConflictingCommitsError, match="got or lost deletes"):
        table.row_delta((), deletes, isolation_level="snapshot", base_snapshot_id=base_of(table))


def test_c5_rows_of_a_file_that_was_rewritten_are_not_deleted_by_position(catalog: icecore.Catalog) -> None:
    table = make_table(catalog, properties=MERGE_ON_READ)
    table.append(rows(1, 2))
    base = base_of(table)
    catalog.load_table("ns.t").rewrite_data_files(options={"rewrite-all": "true"})
    with pytest.raises(ConflictingCommitsError, match="was removed"):
        table.delete("id = 1", base_snapshot_id=base, isolation_level="snapshot")


@frozen
class Restoring:
    """Takes delete files back, as no call of a table does."""

    target: SnapshotTarget
    effects: FileEffects

    def plan(self, at: PlanContext) -> ProduceSnapshot:
        return produce(at, self.target, (), self.effects)


def test_deletes_that_were_taken_back(catalog: icecore.Catalog) -> None:
    """A file whose deletes went meanwhile has more rows than were read: a rewrite of it would lose them."""
    table = make_table(catalog, format_version=3, properties=MERGE_ON_READ)
    table.append(rows(1, 2, 3))
    table.delete("id = 2")
    base = base_of(table)
    [task] = table.scan().plan_files()
    gone, again = rewritten(table, "TRUE")
    effects = FileEffects(False, dropped=[(d.file_path, d.content_offset) for d in task.delete_files])
    with table.transaction() as transaction:
        pending = transaction._pending
        pending.add_writing(Restoring(SnapshotTarget("main", pending.new_snapshot_id()), effects))
    assert ids_of(table.refresh()) == [1, 2, 3]
    with pytest.raises(ConflictingCommitsError):
        table.rewrite_files(gone, again, base_snapshot_id=base)
    assert ids_of(table.refresh()) == [1, 2, 3]


def test_branches_have_their_own_history(catalog: icecore.Catalog) -> None:
    """Commits to another branch are no conflict, and a branch made of an older main is based on that."""
    table = make_table(catalog)
    table.append(rows(1))
    base = base_of(table)
    table.manage_snapshots().create_branch(base, "dev").commit()
    table.append(rows(1))
    table.delete("id = 1", branch="dev", base_snapshot_id=base)
    assert ids_of(table, ref="dev") == [] and ids_of(table) == [1, 1]
    with pytest.raises(CommitConflictError):
        table.delete("id = 1", branch="dev", base_snapshot_id=base_of(table))


def test_files_of_the_caller_are_never_deleted(catalog: icecore.Catalog) -> None:
    """Neither a refused commit nor a dry run deletes files that it was given."""
    table = make_table(catalog, format_version=3)
    table.append(rows(1, 2))
    base = base_of(table)
    gone, again = rewritten(table, "TRUE")
    [task] = table.scan().plan_files()
    dv = vector(table, task, 0)
    table.rewrite_files(gone, again, dry_run=True)
    table.row_delta(again, [dv], dry_run=True)
    table.delete("id = 1")
    with pytest.raises(ConflictingCommitsError):
        table.rewrite_files(gone, again, base_snapshot_id=base)
    with pytest.raises(ConflictingCommitsError):
        table.row_delta(again, [dv], base_snapshot_id=base)
    assert all(local(f.file_path).exists() for f in (*gone, *again, dv))
    assert pa.concat_tables([table.scan().to_arrow()])["id"].to_pylist() == [2]
