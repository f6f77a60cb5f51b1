"""Rewrites and row deltas of files that the caller names. Spec: C2, M3, D1, D2, SP7."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from core_tables import ids_of, make_table, peer_ids, respec, rows
from pinned_files import position_deletes, rewritten, storage_of, vector

import icecore
from icecore.engine.errors import ConflictingCommitsError, ValidationError
from icecore.engine.operations.equality_deletes import write_key_deletes

MERGE_ON_READ = {"write.delete.mode": "merge-on-read", "write.update.mode": "merge-on-read"}


def test_c2_a_rewrite_that_lost_its_files_or_got_deletes(catalog: icecore.Catalog) -> None:
    """Deletes for the rewritten files are conflicts; equality deletes are not where the sequence number is kept."""
    table = make_table(catalog, format_version=2)
    table.append(rows(1, 2))
    table.append(rows(3))
    base = table.current_snapshot()
    assert base is not None
    gone, again = rewritten(table, "TRUE")
    table.delete_keys(rows(2).select(["id"]), ["id"])
    with pytest.raises(ConflictingCommitsError, match="got or lost deletes"):
        table.rewrite_files(gone, again, base_snapshot_id=base.snapshot_id)
    table.rewrite_files(gone, again, base_snapshot_id=base.snapshot_id, data_sequence_number=base.sequence_number)
    assert ids_of(table) == [1, 3]
    current = table.current_snapshot()
    assert current is not None and current.operation == "replace"
    with pytest.raises(ConflictingCommitsError, match="was removed"):
        table.rewrite_files(gone, again, base_snapshot_id=base.snapshot_id)
    assert ids_of(table.refresh()) == [1, 3]


def test_c2_sp6_later_equality_deletes_must_apply_to_all_files_of_a_rewrite(catalog: icecore.Catalog) -> None:
    """A kept sequence number is of no help where these are of other partitions."""
    table = make_table(catalog, format_version=2, partition_spec=["name"])
    table.append(rows(1, 2))
    deletes = write_key_deletes(rows(1), ["id"], table.metadata, storage_of(table))
    same = rewritten(table, "id = 1")
    respec(table, ["bucket(2, id)"])
    other, base = rewritten(table, "id = 1"), table.current_snapshot()
    assert base is not None
    table.row_delta((), deletes)
    kept: dict[str, Any] = {"base_snapshot_id": base.snapshot_id, "data_sequence_number": base.sequence_number}
    with pytest.raises(ConflictingCommitsError, match="got or lost deletes"):
        table.rewrite_files(*other, **kept)
    table.rewrite_files(*same, **kept)
    assert ids_of(table) == [2]


@pytest.mark.parametrize("number", [0, 1, 3, 99])
def test_m3_a_sequence_number_that_would_lose_or_bring_back_rows(catalog: icecore.Catalog, number: int) -> None:
    """It lies between that of the newest rewritten file and that of the base."""
    table = make_table(catalog, format_version=2)
    table.append(rows(1, 2))
    table.append(rows(3))
    gone, again = rewritten(table, "TRUE")
    with pytest.raises(ValidationError, match="must be from 2"):
        table.rewrite_files(gone, again, data_sequence_number=number)
    assert ids_of(table.refresh()) == [1, 2, 3]


def test_files_that_were_never_there(catalog: icecore.Catalog) -> None:
    """What names a file that the base did not have is an error, not a conflict."""
    table = make_table(catalog, format_version=3)
    table.append(rows(1, 2))
    [task] = table.scan().plan_files()
    other = evolve(task.file, file_path=f"{task.file.file_path}.other")
    stray = evolve(vector(table, task, 0), referenced_data_file=other.file_path)
    with pytest.raises(ValidationError, match="not in the snapshot"):
        table.overwrite_files([other])
    with pytest.raises(ValidationError, match="not in the snapshot"):
        table.rewrite_files([other], [task.file])
    with pytest.raises(ValidationError, match="not in the snapshot"):
        table.row_delta((), [stray])
    with pytest.raises(ValidationError, match="named twice"):
        table.rewrite_files([task.file], [task.file])
    with pytest.raises(ValidationError, match="needs files"):
        table.rewrite_files([], [])


def test_d2_a_vector_takes_in_what_was_deleted_before(catalog: icecore.Catalog) -> None:
    """A vector that lacks earlier deletes is completed, one that has them is taken as it is; one is left per file."""
    table = make_table(catalog, format_version=3)
    table.append(rows(0, 1, 2, 3, 4))
    [task] = table.scan().plan_files()
    table.row_delta((), [vector(table, task, 1)])
    assert ids_of(table) == [0, 2, 3, 4]
    table.row_delta((), [vector(table, task, 3)])
    assert ids_of(table) == [0, 2, 4]
    whole = vector(table, task, 0, 1, 3)
    table.row_delta((), [whole])
    assert ids_of(table) == [2, 4]
    [task] = table.scan().plan_files()
    assert [d.file_path for d in task.delete_files] == [whole.file_path]
    summary = table.metadata.snapshots[-1].summary or {}
    assert (summary["added-dvs"], summary["removed-dvs"]) == ("1", "1")
    with pytest.raises(ValidationError, match="5 rows"):
        table.row_delta((), [vector(table, task, 9)])


def test_d1_delete_files_that_do_not_fit_the_version(catalog: icecore.Catalog) -> None:
    """v1 has none, v2 no vectors, v3 no new position delete files, and a file has one vector."""
    three = make_table(catalog, "three", format_version=3)
    three.append(rows(1, 2))
    [task] = three.scan().plan_files()
    dv = vector(three, task, 0)
    again = evolve(dv, referenced_data_file=task.file.file_path.removeprefix("file://"))
    two = make_table(catalog, "two", format_version=2, properties=MERGE_ON_READ)
    two.append(rows(1, 2))
    positions = position_deletes(two, "id = 1")
    one = make_table(catalog, "one", format_version=1)
    equality = write_key_deletes(rows(1), ["id"], two.metadata, storage_of(two))
    for table, files, text in (
        (one, equality, "v1"),
        (two, [dv], "v2"),
        (three, positions, "v3"),
        (three, [dv, again], "D2"),
        (three, [task.file], "data file"),
        (three, [evolve(dv, referenced_data_file=None)], "names its data file"),
    ):
        with pytest.raises(ValidationError, match=text):
            table.row_delta((), files)


def test_sp7_deletes_of_another_partition(catalog: icecore.Catalog) -> None:
    """A delete by position lies in the partition of the file that it names."""
    table = make_table(catalog, format_version=3, partition_spec=["id"])
    table.append(rows(1, 2))
    tasks = table.scan().plan_files()
    delete = vector(table, tasks[0], 0)
    # Of the other spec the values are the same.
    respec(table, ["truncate(id, 1)"])
    for wrong in (
        evolve(delete, partition=tasks[1].file.partition),
        evolve(delete, spec_id=table.spec().spec_id),
    ):
        with pytest.raises(ValidationError, match="SP7"):
            table.row_delta((), [wrong])


@pytest.mark.parametrize("version", [2, 3])
def test_a_file_whose_path_is_written_otherwise(catalog: icecore.Catalog, version: int) -> None:
    """A delete that names its file by another form of the path is committed under the path that the table has."""
    table = make_table(catalog, format_version=version, properties=MERGE_ON_READ)
    table.append(rows(1, 2))
    [task] = table.scan().plan_files()
    [delete] = position_deletes(table, "id = 1")
    plain = task.file.file_path.removeprefix("file://")
    assert plain != task.file.file_path
    table.row_delta((), [evolve(delete, referenced_data_file=plain)])
    assert ids_of(table) == [2]


def test_a_row_delta_that_updates(catalog: icecore.Catalog) -> None:
    """Deletes by position and the rows that take their place are one snapshot, here and for PyIceberg."""
    table = make_table(catalog, format_version=2, properties=MERGE_ON_READ)
    table.append(rows(1, 2, 3))
    deletes = position_deletes(table, "id = 2")
    _, added = rewritten(table, "id = 2", keep=True)
    table.row_delta(added, position_deletes(table, "TRUE"))
    assert ids_of(table) == [1, 2, 3]
    with pytest.raises(ConflictingCommitsError):
        table.row_delta((), deletes, base_snapshot_id=table.metadata.snapshots[0].snapshot_id)
    assert peer_ids(catalog.path) == [1, 2, 3]
    assert (table.metadata.snapshots[-1].summary or {})["operation"] == "overwrite"


def test_deletes_of_files_that_come_with_them(catalog: icecore.Catalog) -> None:
    """By position they apply to new files too, which the table can't know yet."""
    table = make_table(catalog, format_version=3)
    table.append(rows(1, 2, 3))
    [task] = table.scan().plan_files()
    [added] = rewritten(table, "TRUE")[1]
    delete = evolve(vector(table, task, 0), referenced_data_file=added.file_path)
    table.row_delta([added], [delete])
    assert ids_of(table) == [1, 2, 2, 3, 3]
