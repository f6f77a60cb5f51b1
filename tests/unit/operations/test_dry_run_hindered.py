"""What stands in the way of a dry run: refusals and conflicts are those of the commit, others' commits are taken in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from core_tables import SCHEMA, make_table, pyiceberg_catalog, rows, store_of
from public_calls import Call, kept, lake, t, trace, v

import icecore
from icecore.engine.catalog.catalog import Catalog
from icecore.engine.commit.dry_run import CatalogDryRun
from icecore.engine.errors import (
    CommitConflictError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchSnapshotError,
    NoSuchTableError,
    ReadOnlyError,
    TableAlreadyExistsError,
    ValidationError,
)
from icecore.engine.foreign.adopter import Adopter, ForeignCommitWarning
from icecore.engine.joint_commit.joint_commit import CommitTargets
from icecore.engine.log.store import WriteTransaction

__all__ = ["kept", "lake"]


def test_a_revert_that_is_blocked_names_what_blocks_it(lake: Catalog) -> None:
    table = lake.load_table("ns.t")
    table.set_properties({"k": "1"})
    blocked = lake.position
    table.set_properties({"k": "2"}, author="bob")
    before = trace(lake.path)
    outcome = lake.revert(blocked, dry_run=True)
    assert isinstance(outcome, CatalogDryRun) and outcome.is_empty
    assert len(outcome.conflicts) == 1 and "bob" in outcome.conflicts[0]
    assert outcome.parts[0].identifier == ("ns", "t")
    with pytest.raises(CommitConflictError):
        lake.revert(blocked)
    assert trace(lake.path) == before


REFUSED: dict[str, tuple[Call, type[icecore.IcecoreError]]] = {
    "a namespace that is there": (lambda c, d: c.create_namespace("ns", dry_run=d), NamespaceAlreadyExistsError),
    "a namespace that is not empty": (lambda c, d: c.drop_namespace("ns", dry_run=d), NamespaceNotEmptyError),
    "a namespace that is not there": (
        lambda c, d: c.update_namespace_properties("no", updates={"a": "b"}, dry_run=d),
        NoSuchNamespaceError,
    ),
    "a table that was never dropped": (lambda c, d: c.undrop_table("ns.t", dry_run=d), NoSuchTableError),
    "a name that is taken": (lambda c, d: c.rename_table("ns.t", "ns.v", dry_run=d), TableAlreadyExistsError),
    "a position that is not there": (lambda c, d: c.revert(10**6, dry_run=d), ValidationError),
    "statistics of no snapshot": (t(lambda x, d: x.compute_statistics(snapshot_id=5, dry_run=d)), NoSuchSnapshotError),
    "partitions of no partitioned table": (t(lambda x, d: x.compute_partition_statistics(dry_run=d)), ValidationError),
    "a view's version that is not there": (v(lambda x, d: x.set_current_version(9, dry_run=d)), ValidationError),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_can_not_be_is_refused_as_the_commit_is(lake: Catalog, what: str) -> None:
    """The same error from both, and neither leaves a trace."""
    call, error = REFUSED[what]
    before = trace(lake.path)
    for dry_run in (True, False):
        with pytest.raises(error):
            call(lake, dry_run)
        assert trace(lake.path) == before


def test_a_warehouse_that_is_only_read_can_not_be_tried(lake: Catalog) -> None:
    """As no commit can be made to it."""
    with icecore.open(lake.path, read_only=True) as reader, pytest.raises(ReadOnlyError):
        reader.create_namespace("new", dry_run=True)


def test_what_another_engine_did_is_taken_in_and_is_none_of_the_outcome(lake: Catalog) -> None:
    """A look takes it in, as loading a table does; the outcome tells of the call alone."""
    peer = pyiceberg_catalog(lake.path)
    peer.create_namespace("theirs")
    peer.load_table("ns.t").append(rows(9))
    peer.close()
    position = lake.position
    outcome = lake.drop_namespace("theirs", dry_run=True)
    assert outcome is not None and [p.kind for p in outcome.parts] == ["namespace.dropped"]
    kinds = [e.kind for e in store_of(lake).events(position)]
    assert sorted(kinds) == ["namespace.created", "table.adopted"]
    assert ("theirs",) in lake.all_namespaces() and lake.verify().ok


@pytest.mark.parametrize(
    "late", [(Adopter, "adopt_all_if_changed"), (CommitTargets, "rolled_back")], ids=["before it", "before the lock"]
)
def test_another_engine_in_the_middle_of_a_trial(
    lake: Catalog, monkeypatch: pytest.MonkeyPatch, late: tuple[type, str]
) -> None:
    """What it commits after the first look is taken in for good by the trial, and the trial goes on."""
    peer = pyiceberg_catalog(lake.path)
    theirs = peer.load_table("ns.t")
    position = lake.position
    looked = getattr(*late)

    def raced(self: Any) -> Any:
        done = looked(self)
        if not races:
            races.append(1)
            theirs.append(rows(9))
        return done

    races: list[int] = []
    monkeypatch.setattr(*late, raced)
    outcome = lake.rename_table("ns.t", "ns.u", dry_run=True)
    peer.close()
    assert isinstance(outcome, CatalogDryRun)
    assert [p.kind for p in outcome.parts] == ["table.renamed"]
    assert [e.kind for e in store_of(lake).events(position)] == ["table.adopted"]
    assert lake.table_exists("ns.t") and lake.verify().ok


@pytest.mark.parametrize("keep", ["log", "foreign"])
def test_a_resolution_can_be_tried(lake: Catalog, keep: str) -> None:
    """It tells of the events of both sides, and the conflict is still there."""
    table = make_table(lake, "c", properties={"icecore.materialize": "manual"})
    table.append(rows(1))
    lake.materialize("ns.c")
    table.append(rows(2))
    peer = pyiceberg_catalog(lake.path)
    peer.load_table("ns.c").append(rows(3))
    peer.close()
    with pytest.warns(ForeignCommitWarning):
        lake.load_table("ns.c")
    before, position = trace(lake.path), lake.position
    outcome = lake.resolve("ns.c", keep, dry_run=True)
    assert isinstance(outcome, CatalogDryRun)
    assert (trace(lake.path), lake.position) == (before, position)
    lake.resolve("ns.c", keep)
    assert [p.kind for p in outcome.parts] == [e.kind for e in store_of(lake).events(position)]
    assert lake.verify().ok


def test_statistics_that_are_refused_leave_no_file(lake: Catalog) -> None:
    """The snapshot is let go while its rows are read: the commit is refused, and its file taken back."""
    table = lake.load_table("ns.t")
    old = table.snapshots()[0].snapshot_id
    lake.load_table("ns.t").maintenance.expire_snapshots().by_id(old).clean_files(False).commit()
    before = trace(lake.path)
    with pytest.raises(NoSuchSnapshotError):
        table.compute_statistics(snapshot_id=old)
    assert trace(lake.path) == before


CALLS: dict[str, Callable[[Catalog], Any]] = {
    "revert": lambda c: c.revert(message="x", position=c.position - 1, dry_run=True),
    "rename": lambda c: c.rename_table(message="x", to_identifier="ns.another", from_identifier="ns.t", dry_run=True),
    "drop": lambda c: c.drop_table(message="x", identifier=("ns", "t"), dry_run=True),
    "create": lambda c: c.create_table(location="/x", schema=SCHEMA, identifier="ns.new", dry_run=True),
    "namespace": lambda c: c.create_namespace(properties={}, namespace=("ns", "t"), dry_run=True),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_refusal_is_under_the_name_of_what_the_call_is_about(
    call: str, lake: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the order in which the arguments are given."""
    table = make_table(lake, "s")
    table.append(rows(1))
    table.delete("id = 1")

    def refused(*_: Any, **__: Any) -> None:
        raise CommitConflictError("there was somebody else")

    monkeypatch.setattr(WriteTransaction, "append", refused)
    outcome = CALLS[call](lake)
    name = {"revert": "s", "create": "new"}.get(call, "t")
    assert [(p.identifier, p.kind, len(p.conflicts)) for p in outcome.parts] == [(("ns", name), None, 1)]
