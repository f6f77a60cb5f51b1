"""Data files written again as fewer or sorted ones, and delete files merged or dropped: no row changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from core_tables import SCHEMA, ids_of, make_table, peer_ids, rows, sorted_rows
from pinned_files import storage_of

import icecore
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.data.write.position_delete_writer import write_position_deletes
from icecore.engine.errors import ValidationError
from icecore.engine.maintenance.compaction_groups import CompactionOptions
from icecore.engine.maintenance.rewrite_data_files import RewriteResult
from icecore.engine.spec.content_file import ContentFile

MERGE_ON_READ = {"write.delete.mode": "merge-on-read"}
ALL = {"rewrite-all": "true"}


def tasks_of(table: icecore.Table) -> list[FileScanTask]:
    return table.scan().plan_files()


def lineage(table: icecore.Table) -> list[tuple[Any, ...]]:
    return sorted_rows(table.scan(selected_fields=("id", "_row_id", "_last_updated_sequence_number")).to_arrow())


def options(table: icecore.Table, **given: Any) -> CompactionOptions:
    return CompactionOptions.of({k.replace("_", "-"): v for k, v in given.items()}, table.metadata)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_many_small_files_become_one(catalog: icecore.Catalog, version: int) -> None:
    """Five files are enough, four are not; the snapshot is a replace and rows keep their ids."""
    table = make_table(catalog, format_version=version)
    for i in range(4):
        table.append(rows(2 * i, 2 * i + 1))
    snapshots = len(table.snapshots())
    assert table.rewrite_data_files() == RewriteResult()
    assert len(table.snapshots()) == snapshots
    table.append(rows(8, 9))
    before = lineage(table) if version == 3 else []
    result = table.rewrite_data_files(message="fewer files")
    assert (result.rewritten_data_files, result.added_data_files) == (5, 1)
    assert result.rewritten_bytes > 0
    assert ids_of(table) == list(range(10))
    if version == 3:
        assert lineage(table) == before
    current = table.current_snapshot()
    assert current is not None and current.operation == "replace"
    assert (current.summary or {})["total-records"] == "10"
    assert [t.file.record_count for t in tasks_of(table)] == [10]
    assert table.rewrite_data_files() == RewriteResult()
    assert catalog.verify().problems == ()
    if version < 3:
        assert peer_ids(catalog.path) == list(range(10))


@pytest.mark.parametrize(
    ("given", "rewritten"),
    [
        ({}, 0),
        ({"min-input-files": 3}, 3),
        ({"min-input-files": 4}, 0),
        ({"rewrite-all": True}, 3),
        ({"rewrite-all": True, "max-files-to-rewrite": 2}, 2),
        ({"min-input-files": 2, "max-file-group-input-files": 2}, 2),
        ({"target-file-size-bytes": 100, "min-file-size-bytes": 10, "max-file-size-bytes": 200}, 3),
        ({"target-file-size-bytes": 10**9, "min-file-size-bytes": 1, "min-input-files": 1}, 0),
        ({"delete-file-threshold": 1, "min-file-size-bytes": 0}, 1),
        ({"delete-file-threshold": 2, "min-file-size-bytes": 0}, 0),
        ({"delete-ratio-threshold": 0.5}, 0),
        ({"delete-ratio-threshold": 0.2, "min-file-size-bytes": 0}, 1),
        ({"delete-ratio-threshold": 0.2}, 3),
    ],
)
def test_which_files_are_worth_it(catalog: icecore.Catalog, given: Mapping[str, Any], rewritten: int) -> None:
    """Java's rules: size, number of files, deletes, and how many at most."""
    table = make_table(catalog, format_version=2, properties=MERGE_ON_READ)
    for start in (0, 10, 20):
        table.append(rows(*range(start, start + 5)))
    table.delete("id = 11")
    result = table.rewrite_data_files(options=given)
    assert result.rewritten_data_files == rewritten
    assert ids_of(table) == [i for s in (0, 10, 20) for i in range(s, s + 5) if i != 11]
    assert peer_ids(catalog.path) == ids_of(table)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"target-file-size": 1}, "unknown options"),
        ({"min-input-files": 0}, "min-input-files must be a whole number from 1 on, found 0"),
        ({"min-input-files": "9" * 5000}, "min-input-files must be a whole number from 1 on"),
        ({"delete-ratio-threshold": 2}, "at most 1"),
        ({"rewrite-all": "maybe"}, "true or false"),
        ({"target-file-size-bytes": 10, "min-file-size-bytes": 20}, "must be above"),
        ({"output-spec-id": 7}, "no partition spec 7"),
    ],
)
def test_options_that_make_no_sense(catalog: icecore.Catalog, given: Mapping[str, Any], text: str) -> None:
    """They are refused by name before anything is read."""
    table = make_table(catalog)
    with pytest.raises(ValidationError, match=text):
        table.rewrite_data_files(options=given)


def test_output_files_divide_the_input_evenly(catalog: icecore.Catalog) -> None:
    """As in Java a remainder that is too small for a file of its own is spread over the others."""
    found = options(make_table(catalog), target_file_size_bytes=1000_000)
    assert found.output_file_size(500_000) == 1000_000
    assert found.output_file_size(10_100_000) == 1010_000 + 5 * 1024
    assert found.output_file_size(10_900_000) == 1000_000
    assert found.output_file_size(1_050_000) == 1050_000 + 5 * 1024


def test_a_group_is_full_at_its_size(catalog: icecore.Catalog) -> None:
    """As in Java a group may be as large as the option says, and no larger."""
    table = make_table(catalog)
    for _ in range(4):
        table.append(rows(1))
    [size] = {t.file.file_size_in_bytes for t in tasks_of(table)}
    result = table.rewrite_data_files(options={**ALL, "max-file-group-size-bytes": 2 * size})
    assert (result.rewritten_data_files, result.added_data_files) == (4, 2)
    assert ids_of(table) == [1] * 4


def test_sorted_by_the_order_that_is_asked_for(catalog: icecore.Catalog) -> None:
    """The table's order is noted in the files, another one is not; without any there is nothing to sort by."""
    table = make_table(catalog)
    for i in (5, 3, 9, 1, 7):
        table.append(rows(i))
    with pytest.raises(ValidationError, match="needs a sort order"):
        table.rewrite_data_files(strategy="sort")
    with pytest.raises(ValidationError, match="binpack, sort or zorder"):
        table.rewrite_data_files(strategy="hilbert")
    table.rewrite_data_files(strategy="sort", sort_order=["id desc"])
    assert table.scan().to_arrow()["id"].to_pylist() == [9, 7, 5, 3, 1]
    assert [t.file.sort_order_id for t in tasks_of(table)] == [None]
    table.update_sort_order().asc("id").commit()
    table.rewrite_data_files(strategy="sort", options=ALL)
    assert table.scan().to_arrow()["id"].to_pylist() == [1, 3, 5, 7, 9]
    assert [t.file.sort_order_id for t in tasks_of(table)] == [table.sort_order().order_id]


def test_files_of_an_older_spec_move_to_the_default_one(catalog: icecore.Catalog) -> None:
    """Partitions are not mixed, and what an older spec partitioned is put where it belongs now."""
    table = make_table(catalog, format_version=2)
    table.append(rows(1, 2))
    table.append(rows(1, 3))
    table.update_spec().add_field("id").commit()
    table.append(rows(1))
    table.append(rows(2))
    result = table.rewrite_data_files("id <> 2 OR id = 2", options={"min-input-files": 2})
    assert (result.rewritten_data_files, result.added_data_files) == (2, 3)
    assert {t.file.spec_id for t in tasks_of(table)} == {table.spec().spec_id}
    assert ids_of(table) == [1, 1, 1, 2, 2, 3]
    result = table.rewrite_data_files("id = 1", options={"min-input-files": 2})
    assert (result.rewritten_data_files, result.added_data_files) == (2, 1)
    assert ids_of(table) == [1, 1, 1, 2, 2, 3]


def test_deletes_are_applied_and_go_with_their_files(catalog: icecore.Catalog) -> None:
    """Vectors go with their data file, equality deletes once they apply to nothing."""
    table = make_table(catalog, format_version=3, properties=MERGE_ON_READ)
    for i in range(3):
        table.append(rows(10 * i, 10 * i + 1, 10 * i + 2))
    table.delete("id = 11")
    table.delete_keys(rows(20).select(["id"]), ["id"])
    before = lineage(table)
    result = table.rewrite_data_files(options={**ALL, "remove-dangling-deletes": "true"})
    assert (result.rewritten_data_files, result.added_data_files, result.removed_delete_files) == (3, 1, 2)
    assert lineage(table) == before
    assert (table.metadata.snapshots[-1].summary or {})["total-delete-files"] == "0"
    assert [t.delete_files for t in tasks_of(table)] == [()]
    assert catalog.verify().problems == ()


def test_a_group_without_a_live_row_leaves_no_file(catalog: icecore.Catalog) -> None:
    """Files of which every row was deleted by key are replaced by nothing."""
    table = make_table(catalog, format_version=2)
    table.append(rows(1, 2))
    table.append(rows(1, 2))
    table.delete_keys(rows(1, 2).select(["id"]), ["id"])
    result = table.rewrite_data_files(options=ALL)
    assert (result.rewritten_data_files, result.added_data_files) == (2, 0)
    assert ids_of(table) == [] and tasks_of(table) == []
    assert table.remove_dangling_deletes().removed_delete_files == 1
    assert table.remove_dangling_deletes() == RewriteResult()


def test_deletes_by_key_that_apply_still_are_not_dangling(catalog: icecore.Catalog) -> None:
    """They are needed as long as there is an earlier data file."""
    table = make_table(catalog, format_version=2, properties=MERGE_ON_READ)
    table.append(rows(1, 2, 3))
    table.delete_keys(rows(1).select(["id"]), ["id"])
    table.delete("id = 2")
    assert table.remove_dangling_deletes() == RewriteResult()
    assert ids_of(table) == [3]
    table.delete("id = 3")
    table.append(rows(4))
    assert table.remove_dangling_deletes().removed_delete_files == 1
    assert ids_of(table) == [4]


def test_equality_deletes_after_a_rewrite_that_keeps_the_number(catalog: icecore.Catalog) -> None:
    """A key that was deleted and inserted again before the rewrite stays; a later delete still takes it."""
    table = make_table(catalog, format_version=2)
    table.append(rows(1, 2))
    table.delete_keys(rows(1).select(["id"]), ["id"])
    table.append(rows(1))
    table.rewrite_data_files(options=ALL)
    assert ids_of(table) == [1, 2]
    [task] = tasks_of(table)
    assert task.data_sequence_number == 3
    table.delete_keys(rows(1).select(["id"]), ["id"])
    assert ids_of(table) == [2]
    table.rewrite_data_files(options={**ALL, "use-starting-sequence-number": "false"})
    assert [t.data_sequence_number for t in tasks_of(table)] == [6]
    assert ids_of(table) == [2]


def test_equality_deletes_that_a_revert_takes_or_brings_back_meanwhile(catalog: icecore.Catalog) -> None:
    """They keep their old number, so that files which were written before have to be written again."""
    table = make_table(catalog, format_version=2)
    table.append(rows(1, 2))
    table.delete_keys(rows(1).select(["id"]), ["id"])
    last = catalog.position
    for left in ([1, 2], [2]):
        with table.transaction() as transaction:
            transaction.rewrite_data_files(options=ALL)
            transaction._pending.part().prepare(transaction._pending.state)
            last = catalog.revert(last)
        assert ids_of(table) == left
        catalog.revert(catalog.position)
        assert ids_of(table.refresh()) == left


def test_partial_progress_makes_several_commits(catalog: icecore.Catalog) -> None:
    """Groups are spread over at most the commits that are asked for."""
    table = make_table(catalog, partition_spec=["id"])
    for _ in range(2):
        table.append(rows(1, 2, 3, 4, 5))
    snapshots = len(table.snapshots())
    given = {"min-input-files": 2, "partial-progress.enabled": "true", "partial-progress.max-commits": 2}
    result = table.rewrite_data_files(options=given)
    assert (result.rewritten_data_files, result.added_data_files) == (10, 5)
    assert len(table.snapshots()) == snapshots + 2
    assert ids_of(table) == sorted([1, 2, 3, 4, 5] * 2)


def test_row_ids_of_a_table_that_was_upgraded(catalog: icecore.Catalog) -> None:
    """Files from before v3 get row ids, those after it keep theirs, also in one group (RL5, RL7)."""
    table = make_table(catalog, format_version=2)
    table.append(rows(1, 2))
    table.upgrade(3)
    table.rewrite_data_files(options=ALL)
    assert ids_of(table) == [1, 2]
    table.append(rows(3))
    before = lineage(table)
    table.rewrite_data_files(options=ALL)
    assert lineage(table) == before
    assert len({r[1] for r in before}) == 3 and None not in {r[1] for r in before}


def test_position_deletes_are_merged(catalog: icecore.Catalog) -> None:
    """Several delete files of one data file become one; those shared with other files are merged for these too."""
    table = make_table(catalog, format_version=2, properties=MERGE_ON_READ)
    table.append(rows(0, 1, 2, 3))
    table.append(rows(10, 11, 12, 13))
    first, second = (t.file for t in sorted(tasks_of(table), key=lambda t: t.data_sequence_number))
    table.row_delta((), shared_deletes(table, {first.file_path: [0], second.file_path: [0]}))
    table.delete("id = 1")
    assert sorted(len(t.delete_files) for t in tasks_of(table)) == [1, 2]
    result = table.rewrite_position_delete_files()
    assert (result.removed_delete_files, result.added_delete_files) == (2, 2)
    assert ids_of(table) == [2, 3, 11, 12, 13]
    table.delete("id = 11")
    result = table.rewrite_position_delete_files()
    assert (result.removed_delete_files, result.added_delete_files) == (2, 1)
    assert ids_of(table) == [2, 3, 12, 13]
    assert peer_ids(catalog.path) == [2, 3, 12, 13]
    assert [len(t.delete_files) for t in tasks_of(table)] == [1, 1]
    assert table.rewrite_position_delete_files() == RewriteResult()


def test_delete_files_are_merged_in_parts(catalog: icecore.Catalog) -> None:
    """Data files that share a delete file are in one part, and a part is one commit; dangling ones go where asked."""
    table = make_table(catalog, format_version=2, properties=MERGE_ON_READ)
    for i in range(3):
        table.append(rows(*range(10 * i, 10 * i + 5)))
    found = table.scan(selected_fields=("id", "_file")).to_arrow().to_pylist()
    # The bounds of shared deletes are about all data files whose paths lie between.
    first, second, third = sorted({r["_file"] for r in found})
    table.row_delta((), shared_deletes(table, {first: [0], second: [0]}))
    table.delete("id IN (1, 11, 21)")
    table.delete(f"id = {max(r['id'] for r in found if r['_file'] == third)}")
    parts = table.transaction().delete_groups("main", 10)
    assert sorted(map(len, parts)) == [1, 2] and {first, second} in parts
    snapshots, left = len(table.snapshots()), ids_of(table)
    options = {"partial-progress.enabled": True, "remove-dangling-deletes": True}
    result = table.rewrite_position_delete_files(options=options)
    assert (result.removed_delete_files, result.added_delete_files) == (5, 3)
    assert len(table.snapshots()) == snapshots + 2
    assert [len(t.delete_files) for t in tasks_of(table) if t.delete_files] == [1, 1, 1]
    assert ids_of(table) == left
    with pytest.raises(ValidationError, match="unknown options"):
        table.rewrite_position_delete_files(options={"rewrite-all": True})


def test_deletes_of_a_partition_that_are_to_be_in_one_file_are_merged_in_one_part(catalog: icecore.Catalog) -> None:
    """By the granularity `partition`; a vector is of one file whatever that says."""
    by_partition = {**MERGE_ON_READ, "write.delete.granularity": "partition"}
    table = make_table(catalog, format_version=2, partition_spec=["name"], properties=by_partition)
    for i in (1, 2, 3):
        table.append(pa.table({"id": [i, 10 * i, 100 * i], "name": [f"n{i % 2}"] * 3}, schema=SCHEMA))
    for factor in (1, 10):
        for i in (1, 2, 3):
            table.delete(f"id = {factor * i}")
    assert sorted(map(len, table.transaction().delete_groups("main", 10))) == [1, 2]
    table.upgrade(3)
    assert sorted(map(len, table.transaction().delete_groups("main", 10))) == [1, 1, 1]


def test_d1_position_deletes_become_vectors_in_v3(catalog: icecore.Catalog) -> None:
    """After an upgrade each data file with position delete files gets one vector in their place."""
    table = make_table(catalog, format_version=2, properties=MERGE_ON_READ)
    table.append(rows(0, 1, 2, 3))
    table.append(rows(10, 11, 12, 13))
    table.delete("id IN (0, 10)")
    table.upgrade(3)
    table.delete("id = 1")
    result = table.rewrite_position_delete_files()
    assert (result.removed_delete_files, result.added_delete_files) == (1, 1)
    assert [[d.is_deletion_vector for d in t.delete_files] for t in tasks_of(table)] == [[True], [True]]
    assert ids_of(table) == [2, 3, 11, 12, 13]
    assert catalog.verify().problems == ()


def test_a_rewrite_goes_with_a_transaction(catalog: icecore.Catalog) -> None:
    """It is the first change of rows; nothing happens where the transaction fails."""
    table = make_table(catalog)
    table.append(rows(1))
    table.append(rows(2))
    with table.transaction() as transaction:
        compaction = transaction.rewrite_data_files(options=ALL)
        transaction.append(rows(3))
    assert compaction.result.rewritten_data_files == 2
    assert ids_of(table) == [1, 2, 3]
    with pytest.raises(ValidationError, match="first"), table.transaction() as transaction:
        transaction.append(rows(4))
        transaction.rewrite_data_files(options=ALL)
    assert ids_of(table.refresh()) == [1, 2, 3]
    outcome = table.transaction(dry_run=True)
    with outcome as transaction:
        transaction.rewrite_data_files(options=ALL)
    assert outcome.outcome is not None and len(outcome.outcome.removed_files) == 2


def shared_deletes(table: icecore.Table, positions: Mapping[str, list[int]]) -> list[ContentFile]:
    """One position delete file about several data files."""
    files: list[ContentFile] = write_position_deletes(
        storage_of(table),
        f"{table.location()}/data",
        positions,
        spec=table.spec(),
        partition=(),
        schema=table.metadata.all_fields,
        properties=table.properties,
        file_prefix="shared",
        format_version=2,
        granularity="partition",
    )
    assert len(files) == 1 and files[0].referenced_data_file is None
    assert isinstance(table.scan().to_arrow(), pa.Table)
    return files
