"""Commits that lose a race: how often and after which wait they are made again, and what is not done twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from attrs import evolve
from core_tables import ids_of, local, make_table, peer_ids, repository_of, rows

import icecore
from icecore.engine.errors import CommitConflictError, CommitStateUnknownError, ValidationError
from icecore.engine.maintenance import rewrite_data_files, rewrite_delete_files
from icecore.engine.operations import action, delete_by_filter, upsert
from icecore.engine.operations.copy_on_write import LiveRows
from icecore.engine.repository import retry_policy
from icecore.engine.repository.repository import Repository
from icecore.engine.repository.retry_policy import RetryPolicy
from icecore.engine.table.table_maintenance import compact, merge_deletes

Open = Callable[[], icecore.Catalog]


def files_in(table: icecore.Table) -> set[str]:
    """The data and delete files that lie in the table's folder."""
    return {p.name for p in (local(table.location()) / "data").rglob("*") if p.is_file()}


def files_of(table: icecore.Table) -> set[str]:
    """The data and delete files that some snapshot knows."""
    paths = set()
    for snapshot in table.snapshots():
        for task in table.scan(snapshot_id=snapshot.snapshot_id).plan_files():
            paths |= {f.file_path.rsplit("/", 1)[-1] for f in (task.file, *task.delete_files)}
    return paths


@pytest.fixture
def losing(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Callable[[], Any]]]:
    """Actions of others; each is done before one attempt to commit, after what it commits was planned."""
    actions: list[Callable[[], Any]] = []
    original = Repository._try_commit

    def delayed(self: Repository, *args: Any) -> Any:
        if actions:
            actions.pop(0)()
        return original(self, *args)

    monkeypatch.setattr(Repository, "_try_commit", delayed)
    yield actions


def count_calls(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, noting: Callable[[], Any] = lambda: None
) -> list[Any]:
    calls: list[Any] = []
    original = getattr(module, name)

    def counted(*args: Any, **kwargs: Any) -> Any:
        calls.append(args[0])
        noting()
        return original(*args, **kwargs)

    monkeypatch.setattr(module, name, counted)
    return calls


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
        losing.insert(0, lambda: None)
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
    table = make_table(catalog, format_version=version, properties=properties)
    for start in (0, 10, 20, 30):
        table.append(rows(start, start + 1, start + 2))
    reads = count_calls(monkeypatch, delete_by_filter, "select_rows")
    writes = count_calls(monkeypatch, LiveRows, "write_without")
    other = open_again().load_table("ns.t")

    def race() -> None:
        before = len(reads), len(writes)
        other.delete("id = 12")
        del reads[before[0] :], writes[before[1] :]
        losing.insert(0, lambda: None)

    losing.append(race)
    table.delete("id IN (0, 10, 20, 30)")
    assert ids_of(table) == [1, 2, 11, 21, 22, 31, 32]
    assert len(reads) == 5, "four files, one of them again"
    assert len(writes) == (5 if mode == "copy-on-write" else 0)
    assert files_in(table) == files_of(table)
    assert peer_ids(catalog.path) == ids_of(table) if version < 3 else True
    assert catalog.verify().problems == ()


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
    other, locked = open_again().load_table("ns.t"), list[bool]()
    connection = repository_of(catalog).store.connection()
    of_delete = kind == "delete"
    count_calls(
        monkeypatch,
        delete_by_filter if of_delete else rewrite_data_files,
        "select_rows" if of_delete else "write_group",
        lambda: locked.append(connection.in_transaction),
    )

    def race(change: Callable[[], Any]) -> Callable[[], Any]:
        def run() -> None:
            losing.insert(0, lambda: None)
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
    """It keeps nothing between its attempts: while others wait it reads the files of the one before, and few more."""
    monkeypatch.setattr(action, "LOCKED_BYTES", 0)
    table = make_table(catalog, format_version=3, properties={"write.delete.mode": "merge-on-read"})
    table.append(rows(*range(9)))
    other, locked = open_again().load_table("ns.t"), list[bool]()
    connection = repository_of(catalog).store.connection()
    count_calls(monkeypatch, upsert, "LiveRows", lambda: locked.append(connection.in_transaction))

    def race(number: int) -> Callable[[], Any]:
        def run() -> None:
            losing.insert(0, lambda: None)
            other.append(rows(-number, 9 + number)) if meanwhile == "append" else other.delete(f"id = {number}")

        return run

    losing += [race(1), race(2)]
    changed = rows(5).set_column(1, "name", [["new"]])
    assert table.upsert(changed, ["id"]).rows_updated == 1
    assert table.scan("name = 'new'").to_arrow()["id"].to_pylist() == [5]
    assert table.scan().to_arrow().num_rows == (13 if meanwhile == "append" else 7)
    assert any(locked) == (meanwhile == "delete")
    assert files_in(table) == files_of(table)


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

    def race(gone: int) -> Callable[[], Any]:
        def run() -> None:
            losing.insert(0, lambda: None)
            other.delete(f"id = {gone}")

        return run

    losing += [race(3), race(4)]
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


def test_a_commit_that_is_given_up_leaves_no_file(
    catalog: icecore.Catalog, open_again: Open, losing: list[Callable[[], Any]]
) -> None:
    """What was written for a commit that is refused in the end is deleted."""
    table = make_table(catalog, properties={"commit.retry.num-retries": "0"})
    table.append(rows(1, 2))
    other = open_again().load_table("ns.t")

    def race() -> None:
        losing.insert(0, lambda: None)
        other.append(rows(3))

    losing.append(race)
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


def test_groups_that_nobody_touched_are_compacted_once(
    catalog: icecore.Catalog, open_again: Open, losing: list[Callable[[], Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a compaction that lost the race only the partition that changed is written again; its deletes hold."""
    table = make_table(
        catalog, format_version=3, partition_spec=["name"], properties={"write.delete.mode": "merge-on-read"}
    )
    for _ in range(2):
        table.append(rows(1, 2, 3))
    table.append(rows(1).set_column(0, "id", [[7]]))
    written = count_calls(monkeypatch, rewrite_data_files, "write_group")
    other = open_again().load_table("ns.t")

    def race() -> None:
        losing.insert(0, lambda: None)
        losing.insert(0, lambda: None)
        other.delete("id = 7")
        other.append(rows(1, 2, 3, 4))

    losing.append(race)
    result = table.rewrite_data_files(options={"rewrite-all": "true"})
    assert ids_of(table) == [1, 1, 1, 2, 2, 2, 3, 3, 3, 4]
    assert len(written) == 4, "three partitions, one of them again"
    assert (result.rewritten_data_files, result.added_data_files) == (6, 3)
    assert files_in(table) == files_of(table)


@pytest.mark.parametrize(
    ("meanwhile", "holds"),
    {
        "append": True,
        "two appends": True,
        "rollback and append": True,
        "append, and delete of it": True,
        "append that merges manifests": False,
        "delete of a file": False,
        "delete by position": False,
        "delete by key": False,
        "compaction": False,
        "rewrite of manifests": False,
        "rollback": False,
    }.items(),
)
def test_a_compaction_outlives_appends(
    catalog: icecore.Catalog, open_again: Open, losing: list[Callable[[], Any]], meanwhile: str, holds: bool
) -> None:
    """It needs no second attempt where others added data files, and has one where they did anything else to files."""
    table = make_table(catalog, format_version=3, properties={"write.delete.mode": "merge-on-read"})
    for start in (0, 10, 20):
        table.append(rows(start, start + 1))
    table.delete("id = 0")
    if "merges" in meanwhile:
        table.set_properties({"commit.manifest.min-count-to-merge": "2"})
    before = ids_of(table)
    snapshot_ids = [s.snapshot_id for s in table.snapshots()]
    other = open_again().load_table("ns.t")
    do: dict[str, list[Callable[[], Any]]] = {
        "two appends": [lambda: other.append(rows(40)), lambda: other.append(rows(41))],
        "rollback and append": [
            lambda: other.append(rows(50)),
            lambda: other.manage_snapshots().rollback_to_snapshot(snapshot_ids[-1]).commit(),
            lambda: other.append(rows(40)),
        ],
        "append, and delete of it": [lambda: other.append(rows(50, 51)), lambda: other.delete("id >= 50")],
        "delete of a file": [lambda: other.delete("id < 2")],
        "delete by position": [lambda: other.delete("id = 10")],
        "delete by key": [lambda: other.delete_keys(rows(10).select(["id"]), ["id"])],
        "compaction": [lambda: other.rewrite_data_files(options={"rewrite-all": "true"})],
        "rewrite of manifests": [lambda: other.rewrite_manifests()],
        "rollback": [lambda: other.manage_snapshots().rollback_to_snapshot(snapshot_ids[-2]).commit()],
    }
    came = {
        "append": [40],
        "two appends": [40, 41],
        "rollback and append": [40],
        "append that merges manifests": [40],
        "rollback": [0],
    }
    gone = {"delete of a file": [1], "delete by position": [10], "delete by key": [10]}
    tries: list[int] = []

    def race() -> None:
        changes = do.get(meanwhile, [lambda: other.append(rows(40))])
        losing[:0] = [lambda: None for _ in changes]
        for change in changes:
            change()
        losing[:0] = [lambda: tries.append(1)]

    losing.append(race)
    table.rewrite_data_files(options={"rewrite-all": "true"})
    assert len(tries) == (0 if holds else 1)
    assert ids_of(table) == sorted({*before, *came.get(meanwhile, [])} - {*gone.get(meanwhile, [])})
    assert files_in(table) == files_of(table)
    assert catalog.verify().problems == ()


@pytest.mark.parametrize("change", ["compaction", "compaction of some", "delete"])
def test_rows_keep_the_ids_that_they_got_meanwhile(
    catalog: icecore.Catalog, open_again: Open, losing: list[Callable[[], Any]], change: str
) -> None:
    """The first commit after an upgrade to v3 gives row ids to what is there; what was planned before knows none."""
    table = make_table(catalog, format_version=2, properties={"write.delete.mode": "copy-on-write"})
    for start in (1, 3):
        table.append(rows(start, start + 1))
    table.rewrite_manifests()
    table.upgrade(3)
    other, ids = open_again().load_table("ns.t"), dict[int, int]()

    def row_ids(of: icecore.Table) -> dict[int, int]:
        found = of.scan(selected_fields=("id", "_row_id")).to_arrow().to_pydict()
        return dict(zip(found["id"], found["_row_id"], strict=True))

    def race() -> None:
        losing.insert(0, lambda: None)
        other.append(rows(5))
        ids.update(row_ids(other))

    losing.append(race)
    if change == "delete":
        table.delete("id = 1")
    else:
        table.rewrite_data_files(None if change == "compaction" else "id < 3", options={"rewrite-all": "true"})
    assert row_ids(table.refresh()) == {i: row_id for i, row_id in ids.items() if i != 1 or change != "delete"}
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


@pytest.mark.parametrize("keeps_number", ["true", "false"])
def test_a_compaction_does_not_keep_what_a_rollback_took_back(
    catalog: icecore.Catalog, open_again: Open, losing: list[Callable[[], Any]], keeps_number: str
) -> None:
    """Rows that an equality delete took are there again after a rollback, so files written without them are not used.

    Nor do rows come back that the deletes of another branch took, which the new files' number would be above.
    """
    table = make_table(catalog, format_version=2)
    for i in range(5):
        table.append(rows(2 * i, 2 * i + 1))
    before = table.metadata.current_snapshot_id
    assert before is not None
    table.delete_keys(rows(3).select(["id"]), ["id"])
    deleted = table.metadata.current_snapshot_id
    assert deleted is not None
    other = open_again().load_table("ns.t")
    options = {"use-starting-sequence-number": keeps_number}
    losing.append(lambda: other.manage_snapshots().rollback_to_snapshot(before).commit())
    assert table.rewrite_data_files(options=options).rewritten_data_files == 5
    assert ids_of(table) == list(range(10))
    assert files_in(table) == files_of(table)

    other.refresh().manage_snapshots().set_current_snapshot(before).commit()
    other.append(rows(10))
    table.refresh()
    losing.append(lambda: other.manage_snapshots().set_current_snapshot(deleted).commit())
    table.rewrite_data_files(options=options)
    assert ids_of(table) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert files_in(table) == files_of(table)
