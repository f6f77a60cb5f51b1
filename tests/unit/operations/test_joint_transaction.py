"""Tables, views and names in one transaction: all or nothing, one transaction id, and what it would be (dry run)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from core_tables import SCHEMA, files_below, ids_of, local, make_table, peer_ids, repository_of, rows, store_of

import icecore
from icecore.engine.catalog.catalog_transaction import CatalogTransaction
from icecore.engine.commit.dry_run import ViewDryRun
from icecore.engine.errors import (
    CommitFailedError,
    NoSuchTableError,
    NoSuchViewError,
    TableAlreadyExistsError,
    ValidationError,
)


def everything(transaction: CatalogTransaction) -> None:
    """Every kind of change that there is."""
    transaction.table("ns.a").append(rows(1))
    transaction.create_table("ns.new", SCHEMA, properties={"k": "v"}).append(rows(7, 8))
    transaction.table("ns.new").set_properties({"l": "w"})
    transaction.create_view("ns.over", "SELECT id FROM new")
    transaction.view("ns.v").replace("SELECT name FROM a").set_properties({"k": "v"})
    transaction.rename_table("ns.b", "ns.c")
    transaction.rename_view("ns.w", "ns.b")
    transaction.drop_table("ns.gone")
    transaction.drop_view("ns.away")


def prepared(catalog: icecore.Catalog, scheme: str = "metastore") -> None:
    for name in ("a", "b", "gone"):
        make_table(catalog, name, properties={"icecore.commit-scheme": scheme})
    for name in ("v", "w", "away"):
        catalog.create_view(("ns", name), "SELECT id FROM a")


KINDS = [
    "table.committed",
    "table.created",
    "table.committed",
    "view.created",
    "view.committed",
    "table.renamed",
    "view.renamed",
    "table.dropped",
    "view.dropped",
]


@pytest.mark.parametrize("scheme", ["metastore", "filesystem"])
def test_all_is_made_at_once(catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog], scheme: str) -> None:
    prepared(catalog, scheme)
    position = catalog.position
    with catalog.transaction(message="all", author="ann", idempotency_key="k") as transaction:
        everything(transaction)
        assert catalog.position == position and not catalog.table_exists("ns.new")
    events = list(store_of(catalog).events(position))
    assert [e.kind for e in events] == KINDS
    assert {e.transaction_id for e in events} == {events[0].event_id}
    assert [e.provenance.idempotency_key for e in events] == ["k"] + [None] * (len(KINDS) - 1)
    for seen in (catalog, open_again()):
        assert ids_of(seen.load_table("ns.a")) == [1]
        new = seen.load_table("ns.new")
        assert ids_of(new) == [7, 8] and new.properties == {"k": "v", "l": "w"}
        assert sorted(seen.load_view("ns.over").to_arrow()["id"].to_pylist()) == [7, 8]
        assert seen.load_view("ns.v").properties == {"k": "v"}
        assert [f.name for f in seen.load_view("ns.v").schema().fields] == ["name"]
        assert seen.list_tables("ns") == [("ns", n) for n in ("a", "c", "new")]
        assert seen.list_views("ns") == [("ns", n) for n in ("b", "over", "v")]
    assert peer_ids(catalog.path, "ns.new") == [7, 8]
    with catalog.transaction(idempotency_key="k") as transaction:
        transaction.table("ns.a").append(rows(2))
    assert ids_of(catalog.load_table("ns.a")) == [1]
    before = files_below(catalog.path)
    catalog.rebuild()
    assert catalog.verify().ok and before == files_below(catalog.path)


@pytest.mark.parametrize("scheme", ["metastore", "filesystem"])
def test_a_dry_run_tells_all_and_makes_nothing(catalog: icecore.Catalog, scheme: str) -> None:
    prepared(catalog, scheme)
    catalog.load_table("ns.a").append(rows(5))
    position, files = catalog.position, files_below(catalog.path)
    with catalog.transaction(dry_run=True) as transaction:
        everything(transaction)
        transaction.table("ns.a").set_properties({"x": "y"})
    outcome = transaction.outcome
    assert outcome is not None and not outcome.is_empty and outcome.conflicts == () and not outcome.is_done
    assert [p.kind for p in outcome.parts] == KINDS
    assert outcome.parts[0].totals["total-records"] == 2 and len(outcome.parts[0].added_files) == 1
    assert outcome.parts[2].totals["total-records"] == 2
    assert (catalog.position, files_below(catalog.path)) == (position, files)
    assert not catalog.table_exists("ns.new") and catalog.verify().ok
    with catalog.transaction() as transaction:
        everything(transaction)
    assert [e.kind for e in store_of(catalog).events(position)] == KINDS


@pytest.mark.parametrize("wrong", ["a name that is taken", "a table that is not there", "a view that is not there"])
def test_one_refused_part_refuses_all(catalog: icecore.Catalog, wrong: str) -> None:
    prepared(catalog, "filesystem")
    position = catalog.position
    versions = {p for p in files_below(catalog.path) if p.name.endswith(".metadata.json")}
    states = [t.state for t in catalog.tables()], [v.state for v in catalog.views()]
    errors = (TableAlreadyExistsError, NoSuchTableError, NoSuchViewError)
    with pytest.raises(errors), catalog.transaction() as transaction:
        everything(transaction)
        match wrong:
            case "a name that is taken":
                transaction.create_view("ns.a", "SELECT 1 AS x")
            case "a table that is not there":
                transaction.drop_table("ns.nobody")
            case _:
                transaction.rename_view("ns.nobody", "ns.somebody")
    assert catalog.position == position
    assert {p for p in files_below(catalog.path) if p.name.endswith(".metadata.json")} == versions
    assert ([t.state for t in catalog.tables()], [v.state for v in catalog.views()]) == states
    with catalog.transaction() as transaction:
        everything(transaction)
    assert catalog.verify().ok


def test_names_change_in_the_order_of_the_calls(catalog: icecore.Catalog) -> None:
    """A table takes the place of another: nobody ever sees none or both."""
    old, new = make_table(catalog, "t"), make_table(catalog, "next")
    new.append(rows(3))
    with catalog.transaction() as transaction:
        transaction.rename_table("ns.t", "ns.before")
        transaction.rename_table("ns.next", "ns.t")
    assert ids_of(catalog.load_table("ns.t")) == [3]
    with catalog.transaction() as transaction:
        transaction.drop_table("ns.t")
        transaction.create_table("ns.t", SCHEMA).append(rows(4))
    assert ids_of(catalog.load_table("ns.t")) == [4]
    assert catalog.load_table("ns.before").state.stream == old.state.stream
    assert catalog.verify().ok


def test_a_view_over_a_column_that_the_same_transaction_adds(catalog: icecore.Catalog) -> None:
    prepared(catalog)
    with catalog.transaction() as transaction:
        transaction.table("ns.a").update_schema().add_column("x", "long").commit()
        transaction.view("ns.v").replace("SELECT x FROM a")
    assert [f.name for f in catalog.load_view("ns.v").schema().fields] == ["x"]
    assert catalog.load_view("ns.v").to_arrow().num_rows == 0


def test_a_conflict_is_among_a_dry_runs_outcomes(
    catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog]
) -> None:
    prepared(catalog)
    transaction = catalog.transaction(dry_run=True)
    changing = transaction.table("ns.a")
    changing.update_schema().add_column("x", "long").commit()
    changing.append(rows(2))
    transaction.view("ns.v").set_properties({"k": "v"})
    open_again().load_table("ns.a").update_schema().add_column("y", "long").commit()
    position, files = catalog.position, files_below(catalog.path)
    transaction.commit()
    assert transaction.outcome is not None
    assert [p.kind for p in transaction.outcome.parts] == [None, "view.committed"]
    assert "somebody else" in transaction.outcome.conflicts[0]
    assert catalog.position == position and files_below(catalog.path) < files


def test_an_abandoned_new_table_leaves_no_trace(catalog: icecore.Catalog) -> None:
    with pytest.raises(ZeroDivisionError), catalog.transaction() as transaction:
        part = transaction.create_table("ns.new", SCHEMA)
        stream = part.metadata.table_uuid
        raise ZeroDivisionError
    with pytest.raises(NoSuchTableError):
        repository_of(catalog).state(f"table:{stream}")
    make_table(catalog, "new")
    assert catalog.verify().ok


def test_a_views_own_transaction_and_its_dry_run(catalog: icecore.Catalog) -> None:
    prepared(catalog)
    view = catalog.load_view("ns.v")
    position, files = catalog.position, files_below(catalog.path)
    with view.transaction(dry_run=True) as trial:
        trial.replace("SELECT name FROM a", comment="names").set_properties({"k": "v"}).remove_properties("nothing")
    assert isinstance(trial.outcome, ViewDryRun) and not trial.outcome.is_empty
    assert trial.outcome.metadata.properties == {"comment": "names", "k": "v"}
    assert (catalog.position, files_below(catalog.path), view.properties) == (position, files, {})
    with view.transaction(message="why", idempotency_key="once") as change:
        change.replace("SELECT name FROM a", comment="names").set_properties({"k": "v"})
    assert catalog.position == position + 1 and view.metadata.current_version_id == 2
    assert view.properties == trial.outcome.metadata.properties
    made = store_of(catalog).event_at(catalog.position).payload
    assert [u["action"] for u in made["updates"]] == [u["action"] for u in trial.outcome.payload["updates"]]
    with view.transaction(dry_run=True) as trial:
        trial.set_properties({"k": "v"})
    assert trial.outcome is not None and trial.outcome.is_empty
    with pytest.raises(ValidationError), view.transaction(dry_run=True) as trial:
        trial.set_current_version(9)


def test_a_lost_requirement_is_retryable_and_nothing_stays(
    catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog]
) -> None:
    prepared(catalog)
    transaction = catalog.transaction()
    transaction.create_table("ns.new", SCHEMA).append(rows(1))
    changing = transaction.table("ns.a")
    changing.update_schema().add_column("x", "long").commit()
    changing.append(rows(2))
    open_again().load_table("ns.a").update_schema().add_column("y", "long").commit()
    with pytest.raises(CommitFailedError):
        transaction.commit()
    assert not catalog.table_exists("ns.new")
    assert not list((local(catalog.load_table("ns.a").location()).parent / "new").glob("metadata/*"))
