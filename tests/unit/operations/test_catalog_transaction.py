"""Transactions over several tables: all or nothing, in one SQLite transaction."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from core_tables import ids_of, local, make_table, peer_ids, rows, store_of

import icecore
from icecore.engine.errors import CommitFailedError, NoSuchTableError, ValidationError
from icecore.engine.joint_commit import joint_commit
from icecore.engine.joint_commit.joint_commit import CommitTargets


def test_all_tables_change_with_one_transaction_id(catalog: icecore.Catalog) -> None:
    """One event for each changed table, one after another, under one transaction id, message and author."""
    a, b = make_table(catalog, "a"), make_table(catalog, "b")
    make_table(catalog, "c")
    b.append(rows(5, 6))
    position = catalog.position
    with catalog.transaction(message="both", author="ann") as transaction:
        transaction.table("ns.a").append(rows(1))
        with transaction.table("ns.b") as inner:
            inner.delete("id = 5")
        transaction.table("ns.b").set_properties({"k": "v"})
        transaction.table("ns.c")
        assert catalog.position == position
    events = list(store_of(catalog).events(position))
    assert [e.stream for e in events] == [a.state.stream, b.state.stream]
    assert {e.transaction_id for e in events} == {events[0].event_id}
    assert {(e.provenance.message, e.provenance.actor) for e in events} == {("both", "ann")}
    assert (ids_of(a.refresh()), ids_of(b.refresh())) == ([1], [6])
    assert (peer_ids(catalog.path, "ns.a"), peer_ids(catalog.path, "ns.b")) == ([1], [6])
    assert b.properties["k"] == "v"
    assert catalog.verify().problems == ()


@pytest.mark.parametrize("scheme", ["metastore", "filesystem"])
def test_one_refused_table_keeps_all_from_changing(
    catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog], scheme: str
) -> None:
    """A part that is refused leaves no event, and no version file of the part before it."""
    a = make_table(catalog, "a", properties={"icecore.commit-scheme": scheme})
    b = make_table(catalog, "b")
    other = open_again()
    transaction = catalog.transaction()
    transaction.table("ns.a").append(rows(1))
    changing = transaction.table("ns.b")
    changing.update_schema().add_column("x", "long").commit()
    changing.append(rows(2))
    other.load_table("ns.b").update_schema().add_column("y", "long").commit()
    position = catalog.position
    versions = {p.name for p in local(a.metadata_location).parent.glob("*.metadata.json")}
    with pytest.raises(CommitFailedError, match="somebody else"):
        transaction.commit()
    assert catalog.position == position
    assert {p.name for p in local(a.metadata_location).parent.glob("*.metadata.json")} == versions
    assert (ids_of(a.refresh()), ids_of(b.refresh())) == ([], [])
    a.append(rows(3))
    assert ids_of(a) == [3]
    assert catalog.verify().problems == ()


@pytest.mark.parametrize("races", [1, 9])
def test_a_lost_race_plans_all_again(
    catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog], races: int
) -> None:
    """What another process added after a delete was asked for is deleted too, and the other table changes once.

    However often it is faster, one retry is enough.
    """
    a, b = make_table(catalog, "a"), make_table(catalog, "b", properties={"commit.retry.num-retries": "1"})
    b.append(rows(1, 2))
    other = open_again().load_table("ns.b")
    raced: list[int] = []
    try_all = joint_commit._try

    def racing(*args: object) -> object:
        if len(raced) < races:
            raced.append(1)
            other.append(rows(1, 3))
        return try_all(*args)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch, catalog.transaction() as transaction:
        patch.setattr(joint_commit, "_try", racing)
        transaction.table("ns.a").append(rows(7))
        transaction.table("ns.b").delete("id = 1")
        transaction.commit()
    assert len(raced) == min(races, 2)
    assert (ids_of(a.refresh()), ids_of(b.refresh())) == ([7], [2, *[3 for _ in raced]])
    assert len(a.snapshots()) == 1


def test_a_dry_run_comes_through_beside_writers_who_are_always_faster(
    catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It tells of the table as the last of them left it, and of all tables."""
    a, b = make_table(catalog, "a"), make_table(catalog, "b", properties={"commit.retry.num-retries": "1"})
    b.append(rows(1, 2))
    other = open_again().load_table("ns.b")
    raced: list[int] = []
    to_the_lock = CommitTargets.rolled_back

    def racing(desk: CommitTargets) -> CommitTargets:
        raced.append(1)
        other.append(rows(1, 3))
        return to_the_lock(desk)

    monkeypatch.setattr(CommitTargets, "rolled_back", racing)
    with catalog.transaction(dry_run=True) as transaction:
        transaction.table("ns.a").append(rows(7))
        transaction.table("ns.b").delete("id = 1")
    outcome = transaction.outcome
    assert outcome is not None and outcome.conflicts == () and len(raced) == 2
    assert [p.totals["total-records"] for p in outcome.parts] == [1, 3]
    assert (ids_of(a.refresh()), ids_of(b.refresh())) == ([], [1, 1, 1, 2, 3, 3])


def test_an_error_in_the_block_changes_nothing(catalog: icecore.Catalog) -> None:
    a = make_table(catalog, "a")
    position = catalog.position
    with pytest.raises(NoSuchTableError), catalog.transaction() as transaction:
        transaction.table("ns.a").append(rows(1))
        transaction.table("ns.nope").append(rows(1))
    with pytest.raises(ValidationError), catalog.transaction() as transaction:
        transaction.table("ns.a").append([{"nope": 1}])
    assert catalog.position == position
    assert ids_of(a.refresh()) == []


def test_a_dropped_table_refuses_all(catalog: icecore.Catalog) -> None:
    a, _ = make_table(catalog, "a"), make_table(catalog, "b")
    transaction = catalog.transaction()
    transaction.table("ns.a").append(rows(1))
    transaction.table("ns.b").append(rows(1))
    catalog.drop_table("ns.b")
    with pytest.raises(NoSuchTableError):
        transaction.commit()
    assert ids_of(a.refresh()) == []


def test_idempotent(catalog: icecore.Catalog) -> None:
    """A second call with the same key writes nothing and changes no table."""
    a, b = make_table(catalog, "a"), make_table(catalog, "b")
    for _ in range(2):
        with catalog.transaction(idempotency_key="k") as transaction:
            transaction.table("ns.a").append(rows(1))
            transaction.table("ns.b").append(rows(2))
    assert (ids_of(a.refresh()), ids_of(b.refresh())) == ([1], [2])
