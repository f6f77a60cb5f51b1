"""Commits that lose a race: how often and after which wait they are made again, and what is not done twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from attrs import evolve
from core_tables import ids_of, make_table, peer_ids, rows
from lost_races import Open, count_calls, files_in, files_of, table_of_files

import icecore
from icecore.engine.errors import CommitConflictError, CommitStateUnknownError, ValidationError
from icecore.engine.operations import delete_by_filter
from icecore.engine.operations.copy_on_write import LiveRows
from icecore.engine.operations.reusable_files import ReusableFiles
from icecore.engine.repository import retry_policy
from icecore.engine.repository.repository import Repository
from icecore.engine.repository.retry_policy import RetryPolicy
from icecore.engine.spec.content_file import DataFileContent


def test_the_policy_is_that_of_the_properties() -> None:
    """The waits grow from the least to the most, at random; a value that is no number counts as not set."""
    policy = RetryPolicy.of(
        {
            "commit.retry.num-retries": "3",
            "commit.retry.min-wait-ms": "100",
            "commit.retry.max-wait-ms": "250",
            "commit.retry.total-timeout-ms": "5000",
        }
    )
    assert policy == RetryPolicy(3, 100, 250, 5000)
    waits = [[policy.wait_ms(retry) for _ in range(50)] for retry in range(3)]
    assert all(100 <= w <= 200 for w in waits[0]) and all(100 <= w <= 250 for w in waits[1] + waits[2])
    assert len({round(w, 6) for w in waits[0]}) > 1 and max(waits[2]) > 200
    assert RetryPolicy.of({"commit.retry.num-retries": "often"}) == RetryPolicy()
    assert RetryPolicy.most_patient([evolve(policy, retries=0), evolve(policy, retries=2)]) == evolve(policy, retries=2)
    assert list(evolve(policy, retries=0).attempts()) == [0]
    assert list(RetryPolicy(2, 0, 0, 1000).attempts()) == [0, 1, 2]
    assert list(RetryPolicy(9, 1000, 1000, 0).attempts()) == [0]


@pytest.mark.parametrize(
    ("retries", "is_quick", "wins"), [(0, True, False), (1, False, False), (1, True, True), (2, False, True)]
)
def test_as_many_retries_as_the_table_says(
    catalog: icecore.Catalog,
    open_again: Open,
    losing: list[Callable[[], Any]],
    monkeypatch: pytest.MonkeyPatch,
    retries: int,
    is_quick: bool,
    wins: bool,
) -> None:
    """With fewer retries than races it is a conflict that says how often it was tried, else it comes through.

    No race is lost by a retry whose plan was quick: it is planned again while nobody else can commit.
    """
    if not is_quick:
        monkeypatch.setattr(retry_policy, "LOCKED_S", -1)
    table = make_table(catalog, properties={"commit.retry.num-retries": str(retries), "commit.retry.min-wait-ms": "1"})
    table.append(rows(1))
    other = open_again().load_table("ns.t")
    other_append = other.append
    raced = [0]

    def race() -> None:
        raced[0] += 1
        other_append(rows(10 + raced[0]))

    losing += [race, race]
    if not wins:
        with pytest.raises(CommitConflictError, match=f"during {retries + 1} attempts"):
            table.delete("id = 1")
        assert 1 in ids_of(table.refresh())
    else:
        table.delete("id = 1")
        assert ids_of(table) == [11, 12]


@pytest.mark.parametrize(("version", "mode"), [(2, "copy-on-write"), (2, "merge-on-read"), (3, "merge-on-read")])
def test_files_that_nobody_touched_are_read_and_written_once(
    catalog: icecore.Catalog,
    open_again: Open,
    losing: list[Callable[[], Any]],
    monkeypatch: pytest.MonkeyPatch,
    version: int,
    mode: str,
) -> None:
    """A second attempt takes what the first wrote, but for the file that was changed meanwhile; no orphan is left."""
    properties = {"write.delete.mode": mode, "write.delete.granularity": "file"}
    table = table_of_files(catalog, 0, 10, 20, 30, format_version=version, properties=properties)
    reads = count_calls(monkeypatch, delete_by_filter, "select_rows")
    writes = count_calls(monkeypatch, LiveRows, "write_without")
    other = open_again().load_table("ns.t")

    def race() -> None:
        before = len(reads), len(writes)
        other.delete("id = 12")
        del reads[before[0] :], writes[before[1] :]

    losing.append(race)
    table.delete("id IN (0, 10, 20, 30)")
    assert ids_of(table) == [1, 2, 11, 21, 22, 31, 32]
    assert len(reads) == 5, "four files, one of them again"
    assert len(writes) == (5 if mode == "copy-on-write" else 0)
    assert files_in(table) == files_of(table)
    assert peer_ids(catalog.path) == ids_of(table) if version < 3 else True
    assert catalog.verify().problems == ()


def test_deletes_of_a_file_are_used_again_where_all_of_them_are_in_one(catalog: icecore.Catalog) -> None:
    """A delete file of a whole partition that got too large ends within the deletes of a data file."""
    table = make_table(catalog)
    table.append(rows(1))
    [task] = table.scan().plan_files()
    rest = evolve(task.file, content=DataFileContent.POSITION_DELETES, referenced_data_file=task.file.file_path)
    known = ReusableFiles()
    known.note_deletes([task], [evolve(rest, referenced_data_file=None), rest])
    assert not known.deletes
    known.note_deletes([task], [rest])
    assert list(known.deletes.values()) == [rest]


def test_a_commit_that_is_given_up_leaves_no_file(
    catalog: icecore.Catalog, open_again: Open, losing: list[Callable[[], Any]]
) -> None:
    """What was written for a commit that is refused in the end is deleted."""
    table = make_table(catalog, properties={"commit.retry.num-retries": "0"})
    table.append(rows(1, 2))
    other = open_again().load_table("ns.t")
    losing.append(lambda: other.append(rows(3)))
    with pytest.raises(CommitConflictError):
        table.delete("id = 1")
    table.refresh()
    assert files_in(table) == files_of(table)


def test_files_of_an_unknown_outcome_stay(catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody knows whether the commit was made, its files may be in it: none is deleted, also not later."""
    table = make_table(catalog)
    table.append(rows(1, 2))
    original = Repository._try_commit

    def unknown(self: Repository, *args: Any) -> Any:
        original(self, *args)
        raise CommitStateUnknownError("the machine went away")

    monkeypatch.setattr(Repository, "_try_commit", unknown)
    transaction = table.transaction()
    transaction.delete("id = 1")
    with pytest.raises(CommitStateUnknownError):
        transaction.commit()
    monkeypatch.undo()
    with pytest.raises(ValidationError, match="committed already"):
        transaction.commit()
    table.refresh()
    assert ids_of(table) == [2]
    assert files_in(table) == files_of(table)


def test_data_of_a_refused_commit_goes(catalog: icecore.Catalog, open_again: Open) -> None:
    """The files of an overwrite that is refused are deleted, of one table and of several; committed ones stay."""
    table = make_table(catalog)
    table.append(rows(1))
    base = table.metadata.current_snapshot_id
    open_again().load_table("ns.t").append(rows(2))
    before = files_in(table)
    with pytest.raises(CommitConflictError):
        table.overwrite(rows(3), base_snapshot_id=base)
    assert files_in(table) == before
    with pytest.raises(CommitConflictError), catalog.transaction() as change:
        change.table("ns.t").overwrite(rows(3), base_snapshot_id=base)
    assert files_in(table) == before
    with pytest.raises(CommitConflictError), table.transaction() as transaction:
        transaction.overwrite(rows(5), base_snapshot_id=base)
    with pytest.raises(ZeroDivisionError), table.transaction() as transaction:
        transaction.append(rows(4))
        raise ZeroDivisionError
    assert ids_of(table.refresh()) == [1, 2]
    assert files_in(table) == files_of(table)


def test_a_snapshot_that_is_picked_takes_the_place_of_no_commit(
    catalog: icecore.Catalog, open_again: Open, losing: list[Callable[[], Any]]
) -> None:
    """It was to be the head of main as it is; once another commit came, its files are added to that one's."""
    table = make_table(catalog)
    table.append(rows(1))
    table.manage_snapshots().create_branch(table.snapshots()[0].snapshot_id, "audit").commit()
    table.append(rows(2), branch="audit")
    audited = table.refs()["audit"].snapshot_id
    losing.append(lambda: open_again().load_table("ns.t").append(rows(3)))
    table.manage_snapshots().cherry_pick(audited).commit()
    assert ids_of(table) == [1, 2, 3]


def test_a_file_that_another_added_meanwhile_is_not_added_twice(
    catalog: icecore.Catalog, open_again: Open, losing: list[Callable[[], Any]], tmp_path: Path
) -> None:
    table = make_table(catalog)
    table.append(rows(1))
    pq.write_table(rows(2), tmp_path / "given.parquet")
    losing.append(lambda: open_again().load_table("ns.t").add_files([str(tmp_path / "given.parquet")]))
    with pytest.raises(ValidationError, match="files are in the table already"):
        table.add_files([str(tmp_path / "given.parquet")])
    assert ids_of(table.refresh()) == [1, 2]
