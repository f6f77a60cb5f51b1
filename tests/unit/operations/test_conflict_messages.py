"""A conflict says which commit is in the way: where it is in the log, by whom, why, and what it touched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from core_tables import ids_of, make_table, rows, store_of

import icecore
from icecore.engine.commit.conflict_text import describe
from icecore.engine.errors import (
    CommitConflictError,
    CommitFailedError,
    NamespaceAlreadyExistsError,
    TableAlreadyExistsError,
)
from icecore.engine.repository.repository import Repository


def test_a_branch_that_keeps_moving(
    catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the last attempt the error names the commit that moved the branch, and nothing is stored."""
    table = make_table(catalog, properties={"commit.retry.num-retries": "0"})
    table.append(rows(1, 2))
    other = open_again().load_table("ns.t")
    try_commit = Repository._try_commit
    mine = catalog._warehouse.repository

    def racing(self: Repository, *args: Any) -> Any:
        if self is mine:
            other.append(rows(7), message="nightly load")
        return try_commit(self, *args)

    monkeypatch.setattr(Repository, "_try_commit", racing)
    with pytest.raises(CommitConflictError) as caught:
        table.delete("id = 1")
    monkeypatch.undo()
    text = str(caught.value)
    last = store_of(catalog).event_at(catalog.position)
    added = other.scan("id = 7").plan_files()
    assert f"position {last.position} by somebody else ('nightly load'): append; added " in text
    assert any(t.file.file_path.rsplit("/", 1)[-1] in text for t in added)
    assert ids_of(table.refresh()) == [1, 2, 7]


def test_the_commit_that_changed_what_was_relied_on(catalog: icecore.Catalog) -> None:
    """Of several commits since, the one that changed the schema is named, not the latest."""
    table = make_table(catalog)
    transaction = table.transaction()
    transaction.update_schema().add_column("a", "long").commit()
    transaction.append(rows(1))
    other = catalog.load_table("ns.t")
    other.update_schema(message="the cause", author="ann").add_column("b", "long").commit()
    cause = catalog.position
    other.append(rows(2), message="no cause")
    with pytest.raises(CommitFailedError, match=rf"in ns\.t; .*position {cause} by ann \('the cause'\): add-schema"):
        transaction.commit()


def test_another_table_of_the_name_is_told_of(catalog: icecore.Catalog) -> None:
    """Whether it was made, or got the name of the one that went."""
    table = make_table(catalog)
    asserted = [{"type": "assert-table-uuid", "uuid": table.metadata.table_uuid}]

    def refused(since: str) -> None:
        with pytest.raises(
            CommitFailedError, match=rf"UUID does not match: .* in ns\.t; the table has that name {since}"
        ):
            catalog.commit_table("ns.t", asserted, [{"action": "set-properties", "updates": {"a": "b"}}])

    catalog.drop_table("ns.t")
    other = make_table(catalog)
    made = catalog.position
    other.append(rows(1))
    refused(rf"since position {made} by tester: table\.created$")
    catalog.rename_table("ns.t", "ns.u")
    catalog.rename_table("ns.u", "ns.t", message="it goes on here", author="ann")
    refused(rf"since position {catalog.position} by ann \('it goes on here'\): table\.renamed$")


def test_who_gave_a_name_that_is_taken_is_told(catalog: icecore.Catalog) -> None:
    """Whether what has it was made, or got it by a rename, an undrop or after another of the name was dropped."""
    catalog.create_namespace("of", message="first", author="ann")
    catalog.drop_namespace("of")
    catalog.create_namespace("of", message="again", author="ben")
    with pytest.raises(
        NamespaceAlreadyExistsError,
        match=rf"^Namespace already exists: of; it was created at position {catalog.position} by ben \('again'\)$",
    ):
        catalog.create_namespace("of")
    make_table(catalog).append(rows(1))
    catalog.rename_table("ns.t", "of.t", message="it goes on here", author="ann")
    given = catalog.position
    told = rf"^Table already exists: of\.t; it was given that name at position {given} by ann \('it goes on here'\)$"
    with pytest.raises(TableAlreadyExistsError, match=told):
        catalog.create_table("of.t", "id int")
    catalog.drop_table("of.t")
    catalog.undrop_table("of.t")
    told = rf"^Table already exists: of\.t; it was undropped at position {catalog.position} by tester$"
    with pytest.raises(TableAlreadyExistsError, match=told):
        catalog.create_table("of.t", "id int")


def test_many_files_are_counted(catalog: icecore.Catalog) -> None:
    """A few files are named, the others counted; what was removed is told apart from what was added."""
    table = make_table(catalog, partition_spec=["id"])
    table.append(rows(*range(10)))
    table.overwrite(rows(1), "id < 5")
    store, entries = store_of(catalog), catalog._warehouse.repository.entries
    event = store.event_at(catalog.position)
    text = describe(event, entries.beside(event.position))
    assert "by tester: overwrite; added " in text
    assert text.endswith("and 2 more files")
    assert text.count("removed") == 1
    assert describe(store.event_at(1), None) == "position 1 by tester: namespace.created"
