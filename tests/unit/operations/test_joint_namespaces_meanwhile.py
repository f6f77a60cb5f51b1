"""Namespaces in one transaction with what is in them, where another process or engine changes them meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from core_tables import SCHEMA, ids_of, make_table, peer_ids, pyiceberg_catalog, rows, shared_properties

import icecore
from icecore.engine.catalog.catalog_transaction import CatalogTransaction
from icecore.engine.errors import (
    CommitConflictError,
    ForeignCommitError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from icecore.engine.foreign.adopter import ForeignCommitWarning
from icecore.engine.joint_commit import joint_commit

Open = Callable[[], icecore.Catalog]
Wrong = Callable[[CatalogTransaction], object]

MEANWHILE: dict[str, tuple[Callable[[icecore.Catalog], object], Wrong, type[Exception]]] = {
    "made": (lambda c: c.create_namespace("new"), lambda t: t.create_namespace("new"), NamespaceAlreadyExistsError),
    "filled": (
        lambda c: c.create_table("other.t", SCHEMA),
        lambda t: t.drop_namespace("other"),
        NamespaceNotEmptyError,
    ),
    "dropped": (
        lambda c: c.drop_namespace("other"),
        lambda t: t.create_table("other.t", SCHEMA),
        NoSuchNamespaceError,
    ),
    "dropped, and to be changed": (
        lambda c: c.drop_namespace("other"),
        lambda t: t.update_namespace_properties("other", updates={"a": "b"}),
        NoSuchNamespaceError,
    ),
    "undropped": (
        lambda c: c.undrop_table("ns.gone"),
        lambda t: t.undrop_table("ns.gone"),
        NoSuchTableError,
    ),
    "its name taken": (
        lambda c: c.create_table("ns.gone", SCHEMA),
        lambda t: t.undrop_table("ns.gone"),
        TableAlreadyExistsError,
    ),
}


@pytest.mark.parametrize("what", MEANWHILE)
def test_changed_by_another_process_between_begin_and_commit(
    catalog: icecore.Catalog, open_again: Open, what: str
) -> None:
    """The commit is refused, whatever was true when the transaction was begun, and leaves nothing."""
    catalog.create_namespace("other")
    table = make_table(catalog, "t")
    make_table(catalog, "gone")
    catalog.drop_table("ns.gone")
    theirs, ours, error = MEANWHILE[what]
    transaction = catalog.transaction()
    transaction.table("ns.t").append(rows(1))
    ours(transaction)
    theirs(open_again())
    position, shared = catalog.position, shared_properties(catalog)
    with pytest.raises(error):
        transaction.commit()
    assert catalog.position == position and shared_properties(catalog) == shared
    assert ids_of(table.refresh()) == [] and catalog.verify().ok


def raced(monkeypatch: pytest.MonkeyPatch, race: Callable[[], object]) -> list[int]:
    """Another engine is quicker between the preparation and the write lock of the first attempt."""
    attempts: list[int] = []
    try_all = joint_commit._try

    def racing(*arguments: Any) -> object:
        attempts.append(1)
        if len(attempts) == 1:
            race()
        return try_all(*arguments)

    monkeypatch.setattr(joint_commit, "_try", racing)
    return attempts


def test_another_engine_changes_the_namespace_meanwhile(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it did is taken in, and the transaction made on top: neither change is lost."""
    peer = pyiceberg_catalog(catalog.path)
    attempts = raced(monkeypatch, lambda: peer.update_namespace_properties("ns", updates={"theirs": "1"}))
    with catalog.transaction() as transaction:
        transaction.update_namespace_properties("ns", updates={"ours": "2"})
        transaction.create_table("ns.t", SCHEMA)
    peer.close()
    assert len(attempts) == 2 and catalog.load_namespace_properties("ns") == {"theirs": "1", "ours": "2"}
    assert shared_properties(catalog)["ns"] == {"exists": "true", "theirs": "1", "ours": "2"}
    assert catalog.verify().ok


def test_another_engine_makes_the_namespace_meanwhile(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = pyiceberg_catalog(catalog.path)
    raced(monkeypatch, lambda: peer.create_namespace("new", {"theirs": "1"}))
    with pytest.raises(NamespaceAlreadyExistsError), catalog.transaction() as transaction:
        transaction.create_namespace("new")
        transaction.create_table("new.t", SCHEMA)
    peer.close()
    assert catalog.load_namespace_properties("new") == {"theirs": "1"} and catalog.verify().ok
    assert catalog.list_tables("new") == []


@pytest.mark.parametrize("ours", ["rename", "drop"])
def test_another_engine_commits_to_what_gets_another_name_meanwhile(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch, ours: str
) -> None:
    """Its commit is taken in before the name goes: it is in the table that was renamed, or dropped."""
    make_table(catalog, "t").append(rows(1))
    peer = pyiceberg_catalog(catalog.path)
    theirs = peer.load_table("ns.t")
    attempts = raced(monkeypatch, lambda: theirs.append(rows(2)))
    with catalog.transaction() as transaction:
        transaction.create_namespace("new")
        if ours == "rename":
            transaction.rename_table("ns.t", "new.t")
        else:
            transaction.drop_table("ns.t")
    peer.close()
    assert len(attempts) == 2 and catalog.list_tables("ns") == []
    table = catalog.load_table("new.t") if ours == "rename" else catalog.undrop_table("ns.t")
    assert ids_of(table) == peer_ids(catalog.path, ".".join(table.name())) == [1, 2]
    assert catalog.verify().ok


def test_a_conflict_with_another_engine_is_named_when_no_retry_helps(catalog: icecore.Catalog) -> None:
    """A commit that does not follow the log stays where it is, and nothing of the transaction is made."""
    table = make_table(catalog, "t", properties={"icecore.materialize": "manual"})
    table.append(rows(1))
    catalog.materialize("ns.t")
    table.append(rows(2))
    peer = pyiceberg_catalog(catalog.path)
    peer.load_table("ns.t").append(rows(3))
    peer.close()
    position = catalog.position
    transaction = catalog.transaction()
    transaction.create_namespace("new")
    with pytest.warns(ForeignCommitWarning):
        transaction.rename_table("ns.t", "new.t")
    with pytest.raises(ForeignCommitError, match=r"ns\.t"):
        transaction.commit()
    assert catalog.position == position and peer_ids(catalog.path) == [1, 3]


@pytest.mark.parametrize("joint", [True, False])
def test_a_namespace_with_a_table_of_another_engine_is_not_empty(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch, joint: bool
) -> None:
    """Also where nobody looked since it was made."""
    catalog.create_namespace("shared")
    peer = pyiceberg_catalog(catalog.path)
    with pytest.raises(NamespaceNotEmptyError, match=r"shared.*t'"):
        if joint:
            raced(monkeypatch, lambda: peer.create_table("shared.t", SCHEMA))
            with catalog.transaction() as transaction:
                transaction.drop_namespace("shared")
        else:
            peer.create_table("shared.t", SCHEMA)
            catalog.drop_namespace("shared")
    peer.close()
    assert catalog.list_tables("shared") == [("shared", "t")] and catalog.verify().ok


def test_a_lost_race_of_a_table_makes_the_namespace_once(
    catalog: icecore.Catalog, open_again: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part that has to be planned again takes the namespace back with it, and both are made in the second attempt."""
    table = make_table(catalog, "t")
    table.append(rows(1, 2))
    other = open_again().load_table("ns.t")
    attempts = raced(monkeypatch, lambda: other.append(rows(1, 3)))
    with catalog.transaction() as transaction:
        transaction.create_namespace("new")
        transaction.table("ns.t").delete("id = 1")
    assert len(attempts) == 2 and ids_of(table.refresh()) == [2, 3]
    assert ("new",) in catalog.all_namespaces() and catalog.verify().ok


def test_a_conflict_of_a_table_leaves_no_namespace(catalog: icecore.Catalog, open_again: Open) -> None:
    make_table(catalog, "t")
    transaction = catalog.transaction()
    transaction.create_namespace("new")
    changing = transaction.table("ns.t")
    changing.update_schema().add_column("x", "long").commit()
    changing.append(rows(2))
    open_again().load_table("ns.t").update_schema().add_column("y", "long").commit()
    with pytest.raises(CommitConflictError):
        transaction.commit()
    assert catalog.all_namespaces() == [("ns",)] and list(shared_properties(catalog)) == ["ns"]
