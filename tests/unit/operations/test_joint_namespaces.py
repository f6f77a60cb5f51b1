"""Namespaces in one transaction with what is in them: all or nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from core_tables import (
    SCHEMA,
    files_below,
    ids_of,
    local,
    make_table,
    peer_ids,
    rows,
    shared_properties,
    store_of,
)

import icecore
from icecore.engine.catalog.catalog_transaction import CatalogTransaction
from icecore.engine.commit.dry_run import CatalogDryRun
from icecore.engine.errors import (
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    ValidationError,
)

Open = Callable[[], icecore.Catalog]


@pytest.mark.parametrize("scheme", ["metastore", "filesystem"])
def test_a_namespace_comes_with_its_table_and_view(catalog: icecore.Catalog, open_again: Open, scheme: str) -> None:
    """All events have one transaction id, and PyIceberg sees namespace and table."""
    position = catalog.position
    with catalog.transaction(message="new", author="ann", idempotency_key="k") as transaction:
        transaction.create_namespace("shop", {"owner": "ann"})
        new = transaction.create_table("shop.t", SCHEMA, properties={"icecore.commit-scheme": scheme})
        new.append(rows(1, 2))
        transaction.create_view("shop.v", "SELECT id FROM t")
        transaction.update_namespace_properties("shop", ["owner"], {"team": "data"})
        assert catalog.position == position and ("shop",) not in catalog.all_namespaces()
    events = list(store_of(catalog).events(position))
    kinds = ["namespace.created", "table.created", "table.committed", "view.created", "namespace.properties-updated"]
    assert [e.kind for e in events] == kinds
    assert {e.transaction_id for e in events} == {events[0].event_id}
    assert [e.provenance.idempotency_key for e in events] == ["k", *[None] * 4]
    for seen in (catalog, open_again()):
        assert seen.load_namespace_properties("shop") == {"team": "data"}
        assert ids_of(seen.load_table("shop.t")) == [1, 2]
        assert sorted(seen.load_view("shop.v").to_arrow()["id"].to_pylist()) == [1, 2]
    assert peer_ids(catalog.path, "shop.t") == [1, 2]
    assert shared_properties(catalog)["shop"] == {"exists": "true", "team": "data"}
    with catalog.transaction(idempotency_key="k") as transaction:
        transaction.create_namespace("shop", {"owner": "ann"})
    assert catalog.position == position + 5
    before = files_below(catalog.path)
    catalog.rebuild()
    assert catalog.verify().ok and files_below(catalog.path) == before


def test_a_namespace_goes_with_what_was_in_it(catalog: icecore.Catalog) -> None:
    """Dropped and moved out first, in the order of the calls; the new name's pointer is the one that others read."""
    catalog.create_namespace("old")
    for name in ("t", "moved"):
        catalog.create_table(("old", name), SCHEMA).append(rows(1))
    catalog.create_view("old.v", "SELECT id FROM t")
    with catalog.transaction() as transaction:
        transaction.table("old.moved").append(rows(2))
        transaction.drop_table("old.t")
        transaction.drop_view("old.v")
        transaction.rename_table("old.moved", "ns.moved")
        transaction.drop_namespace("old")
    assert catalog.all_namespaces() == [("ns",)] and peer_ids(catalog.path, "ns.moved") == [1, 2]
    assert list(shared_properties(catalog)) == ["ns"]
    with catalog.transaction() as transaction:
        transaction.create_namespace("old")
        transaction.undrop_table("old.t")
        transaction.undrop_view("old.v")
    assert catalog.load_view("old.v").to_arrow()["id"].to_pylist() == [1]
    assert peer_ids(catalog.path, "old.t") == [1] and catalog.verify().ok


def test_inner_namespaces_in_the_order_of_the_calls(catalog: icecore.Catalog) -> None:
    with catalog.transaction() as transaction:
        transaction.create_namespace("a")
        transaction.create_namespace("a.b")
        transaction.create_table("a.b.t", SCHEMA)
    with pytest.raises(NamespaceNotEmptyError, match=r"'a\.b'"), catalog.transaction() as transaction:
        transaction.drop_table("a.b.t")
        transaction.drop_namespace("a")
        transaction.drop_namespace("a.b")
    with catalog.transaction() as transaction:
        transaction.drop_table("a.b.t")
        transaction.drop_namespace("a.b")
        transaction.drop_namespace("a")
    assert catalog.all_namespaces() == [("ns",)] and catalog.verify().ok


def test_a_name_made_renamed_and_dropped_at_once(catalog: icecore.Catalog) -> None:
    """What never had a name outside leaves no row that others read, and can come back."""
    with catalog.transaction() as transaction:
        transaction.create_namespace("short")
        transaction.create_table("short.t", SCHEMA).append(rows(1))
        transaction.rename_table("short.t", "short.u")
        transaction.drop_table("short.u")
        transaction.drop_namespace("short")
    assert catalog.all_namespaces() == [("ns",)] and catalog.verify().ok
    catalog.create_namespace("short")
    assert ids_of(catalog.undrop_table("short.u")) == [1] and peer_ids(catalog.path, "short.u") == [1]


Wrong = Callable[[CatalogTransaction], object]
REFUSED: dict[str, tuple[Wrong, type[Exception]]] = {
    "it is there": (lambda t: t.create_namespace("ns"), NamespaceAlreadyExistsError),
    "it is made twice": (lambda t: t.create_namespace("new"), NamespaceAlreadyExistsError),
    "it is not empty": (lambda t: t.drop_namespace("new"), NamespaceNotEmptyError),
    "it is not there": (lambda t: t.drop_namespace("nobody"), NoSuchNamespaceError),
    "none has these properties": (
        lambda t: t.update_namespace_properties("nobody", updates={"a": "b"}),
        NoSuchNamespaceError,
    ),
    "a table in none": (lambda t: t.create_table("nobody.t", SCHEMA), NoSuchNamespaceError),
    "a table that never was": (lambda t: t.undrop_table("ns.nobody"), NoSuchTableError),
    "a name with a NUL": (lambda t: t.create_namespace("a\0b"), ValidationError),
    "both removed and updated": (lambda t: t.update_namespace_properties("ns", ["a"], {"a": "b"}), ValidationError),
    "removals that are a string": (lambda t: t.update_namespace_properties("ns", "ab"), ValidationError),
}


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("wrong", REFUSED)
def test_a_refused_namespace_refuses_all(catalog: icecore.Catalog, wrong: str, dry_run: bool) -> None:
    """An error of ours that names it, and nothing of the transaction is there: no event, file or row."""
    make_table(catalog, "t")
    change, error = REFUSED[wrong]
    position, files, shared = catalog.position, files_below(catalog.path), shared_properties(catalog)
    with pytest.raises(error), catalog.transaction(dry_run=dry_run) as transaction:
        transaction.create_namespace("new", {"k": "v"})
        transaction.create_table("new.t", SCHEMA).append(rows(1))
        transaction.table("ns.t").append(rows(1))
        change(transaction)
    assert catalog.position == position and shared_properties(catalog) == shared
    assert files_below(catalog.path) == files and catalog.all_namespaces() == [("ns",)]
    assert catalog.verify().ok


def test_a_refused_namespace_leaves_no_data_file(catalog: icecore.Catalog) -> None:
    """The rows that were written for it are deleted where the end says that it can't be."""
    files = files_below(catalog.path)
    with pytest.raises(NoSuchNamespaceError), catalog.transaction() as transaction:
        transaction.create_table("nobody.t", SCHEMA).append(rows(1))
    assert files_below(catalog.path) == files


def test_a_failure_at_the_last_statement_leaves_nothing(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of the namespace in both tables go with the events, where SQLite fails after all were appended."""
    shared, position = shared_properties(catalog), catalog.position
    store = store_of(catalog)
    execute = store.execute

    def failing(file: str, query_name: str, /, **parameters: Any) -> sqlite3.Cursor:
        if query_name == "put_materialized":
            raise sqlite3.OperationalError("disk I/O error")
        return execute(file, query_name, **parameters)

    with monkeypatch.context() as patch:
        patch.setattr(store, "execute", failing)
        with pytest.raises(icecore.IcecoreError), catalog.transaction() as transaction:
            transaction.create_namespace("new", {"k": "v"})
            transaction.create_table("new.t", SCHEMA, properties={"icecore.commit-scheme": "filesystem"})
    assert (shared_properties(catalog), catalog.position) == (shared, position)
    assert catalog.all_namespaces() == [("ns",)] and catalog.verify().ok
    assert not [p for p in files_below(catalog.path) if p.name.endswith(".metadata.json")]


def test_a_dry_run_tells_of_namespaces_too(catalog: icecore.Catalog) -> None:
    position, files, shared = catalog.position, files_below(catalog.path), shared_properties(catalog)
    with catalog.transaction(dry_run=True) as transaction:
        transaction.create_namespace("new", {"k": "v"})
        transaction.create_table("new.t", SCHEMA).append(rows(1, 2))
        transaction.update_namespace_properties("ns", updates={"a": "b"})
    outcome = transaction.outcome
    assert outcome is not None and outcome.conflicts == ()
    assert [p.kind for p in outcome.parts] == [
        "namespace.created",
        "table.created",
        "table.committed",
        "namespace.properties-updated",
    ]
    assert [p.identifier for p in outcome.parts] == [("new",), ("new", "t"), ("new", "t"), ("ns",)]
    assert outcome.parts[0].payload["properties"] == {"k": "v"} and outcome.parts[2].totals["total-records"] == 2
    assert (catalog.position, files_below(catalog.path), shared_properties(catalog)) == (position, files, shared)


def test_a_registered_table_in_a_new_namespace_is_changed_at_once(catalog: icecore.Catalog, tmp_path: Path) -> None:
    """Its file stays as it is, and the commit on top of it is published with it."""
    with icecore.open(tmp_path / "elsewhere") as other:
        other.create_namespace("ns")
        table = other.create_table("ns.t", SCHEMA)
        table.append(rows(1))
        location = table.metadata_location
        view = other.create_view("ns.v", "SELECT 1 AS x").metadata_location
    assert location is not None
    data = local(location).read_bytes()
    with catalog.transaction() as transaction:
        transaction.create_namespace("adopted")
        transaction.register_table("adopted.t", location).append(rows(2))
        transaction.register_table("adopted.again", location)
        transaction.register_view("adopted.v", view)
    assert ids_of(catalog.load_table("adopted.t")) == [1, 2] and peer_ids(catalog.path, "adopted.t") == [1, 2]
    assert ids_of(catalog.load_table("adopted.again")) == [1]
    assert catalog.load_view("adopted.v").to_arrow()["x"].to_pylist() == [1]
    assert local(location).read_bytes() == data and catalog.verify().ok


def test_a_table_is_replaced_with_another_change(catalog: icecore.Catalog) -> None:
    table, other = make_table(catalog, "t"), make_table(catalog, "other")
    table.append(rows(1))
    with catalog.transaction() as transaction:
        transaction.replace_table("ns.t", SCHEMA, properties={"k": "v"}).append(rows(5))
        transaction.table("ns.other").append(rows(6))
    assert ids_of(table.refresh()) == [5] and table.properties["k"] == "v" and ids_of(other.refresh()) == [6]
    assert len(table.snapshots()) == 2 and catalog.verify().ok


def test_names_mean_what_they_mean_after_the_changes_so_far(catalog: icecore.Catalog) -> None:
    """What was renamed here is found under its new name, by changes and by a view's SQL, and not under the old one."""
    make_table(catalog, "t").append(rows(1))
    catalog.create_view("ns.v", "SELECT id FROM t")
    with catalog.transaction() as transaction:
        transaction.create_namespace("new")
        transaction.rename_table("ns.t", "new.u")
        with pytest.raises(NoSuchTableError, match=r"ns\.t"):
            transaction.table("ns.t")
        transaction.table("new.u").append(rows(2))
        transaction.create_table("ns.made", SCHEMA).append(rows(8))
        transaction.rename_table("ns.made", "ns.t")
        transaction.table("ns.t").append(rows(9))
        transaction.rename_view("ns.v", "new.v")
        transaction.view("new.v").replace("SELECT id FROM u", default_namespace="new")
        transaction.create_view("new.w", "SELECT id FROM ns.t")
        transaction.create_table("ns.x", SCHEMA)
        transaction.drop_table("ns.x")
        with pytest.raises(NoSuchTableError, match=r"ns\.x"):
            transaction.table("ns.x")
        with pytest.raises(NoSuchTableError):
            transaction.create_view("ns.y", "SELECT id FROM ns.x")
        with pytest.raises(NoSuchViewError, match=r"ns\.v"):
            transaction.view("ns.v")
    assert ids_of(catalog.load_table("new.u")) == [1, 2] and ids_of(catalog.load_table("ns.t")) == [8, 9]
    assert sorted(catalog.load_view("new.v").to_arrow()["id"].to_pylist()) == [1, 2]
    assert sorted(catalog.load_view("new.w").to_arrow()["id"].to_pylist()) == [8, 9]
    assert peer_ids(catalog.path, "ns.t") == [8, 9] and peer_ids(catalog.path, "new.u") == [1, 2]
    assert not catalog.view_exists("ns.y") and catalog.verify().ok


def test_a_dry_run_of_properties_has_no_totals(catalog: icecore.Catalog) -> None:
    """Its updates are of properties, and none of a table's."""
    outcome = catalog.update_namespace_properties("ns", updates={"owner": "ann"}, dry_run=True)
    assert isinstance(outcome, CatalogDryRun)
    assert [(part.kind, part.totals) for part in outcome.parts] == [("namespace.properties-updated", {})]
