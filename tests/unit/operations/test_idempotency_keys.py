"""Every call that makes one commit takes an idempotency key: with it that commit is made once."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest
from core_tables import SCHEMA, ids_of, make_table, pyiceberg_catalog, rows, store_of
from keyed_calls import CALLS, Call, drop_of_view, files_beside, jointly

import icecore
from icecore.engine.catalog.catalog import Catalog
from icecore.engine.commit.dry_run import CatalogDryRun
from icecore.engine.errors import ReusedKeyError, TableAlreadyExistsError, ValidationError
from icecore.engine.log.store import EventStore
from icecore.engine.table.table import Table
from icecore.engine.view.view import View

KEY = "idempotency_key"
# What has no key, with the reason.
WITHOUT: Mapping[tuple[type, str], str] = {
    (Catalog, "create_table_transaction"): "is a transaction's",
    **{(c, "forget"): "finds nothing the second time" for c in (Catalog, Table)},
    (Catalog, "register_folder"): "finds nothing the second time",
    (Catalog, "forget_text"): "finds nothing the second time",
    (Catalog, "materialize"): "finds nothing the second time",
    (Catalog, "create_or_replace_table"): "hands its options on",
    **{
        (Table, n): "may make several commits, of files as they are then"
        for n in (
            "maintain",
            "rewrite_data_files",
            "rewrite_position_delete_files",
            "rewrite_manifests",
            "remove_dangling_deletes",
        )
    },
    **{(Table, n): "is computed of what there is" for n in ("compute_statistics", "compute_partition_statistics")},
}


def before_the_lock(monkeypatch: pytest.MonkeyPatch, call: Callable[[], Any]) -> None:
    """Has a call made just before the next one takes the write lock."""
    begun = EventStore._begun

    def later(store: EventStore, *args: Any, **how: Any) -> Any:
        monkeypatch.setattr(EventStore, "_begun", begun)
        call()
        return begun(store, *args, **how)

    monkeypatch.setattr(EventStore, "_begun", later)


@pytest.fixture
def lake(catalog: icecore.Catalog) -> icecore.Catalog:
    catalog.create_namespace("empty")
    catalog.create_namespace("above.below")
    for name in ("t", "u", "gone"):
        make_table(catalog, name)
    make_table(catalog, "counted").append(rows(1))
    for name in ("v", "past"):
        catalog.create_view(f"ns.{name}", "SELECT id FROM t")
    catalog.drop_table("ns.gone")
    catalog.drop_view("ns.past")
    return catalog


@pytest.mark.parametrize("name", CALLS)
def test_a_call_with_a_key_is_made_once(lake: Catalog, name: str) -> None:
    """The first of its events has the key; called again, also after its change was undone, it does nothing."""
    call, meanwhile = CALLS[name]
    position = lake.position
    call(lake, "k")
    made = list(store_of(lake).events(position))
    assert [e.provenance.idempotency_key for e in made] == ["k", *[None] * (len(made) - 1)]
    call(lake, "k")
    assert lake.position == made[-1].position
    meanwhile(lake, "")
    position = lake.position
    call(lake, "k")
    assert lake.position == position


def test_a_change_of_a_branch_that_is_gone_is_not_made_again(lake: Catalog) -> None:
    """It was published, and then removed."""
    table, path = lake.load_table("ns.t"), f"{files_beside(lake)}/a.parquet"
    table.append(rows(1, 2))
    changes: list[Callable[[str], Any]] = [
        lambda k: table.append(rows(3), branch="dev", idempotency_key=k),
        lambda k: table.overwrite(rows(4), "id = 3", branch="dev", idempotency_key=k),
        lambda k: table.upsert(rows(4, 5), ["id"], branch="dev", idempotency_key=k),
        lambda k: table.delete("id = 2", branch="dev", idempotency_key=k),
        lambda k: table.add_files([path], branch="dev", idempotency_key=k),
    ]
    for n, change in enumerate(changes):
        change(f"k{n}")
        table.manage_snapshots().fast_forward("main", "dev").remove_branch("dev").commit()
        position, found = lake.position, ids_of(table)
        change(f"k{n}")
        assert lake.position == position
    assert found == [1, 1, 4, 5]


@pytest.mark.parametrize(
    ("ref", "change"),
    [
        ("main", lambda t, s, k: t.overwrite(rows(4), "id = 1", base_snapshot_id=s, idempotency_key=k)),
        ("main", lambda t, s, k: t.upsert(rows(1, 4), ["id"], base_snapshot_id=s, idempotency_key=k)),
        ("main", lambda t, s, k: t.delete("id = 1", base_snapshot_id=s, idempotency_key=k)),
        ("dev", lambda t, s, k: t.manage_snapshots(idempotency_key=k).cherry_pick(s).commit()),
    ],
)
def test_a_change_of_a_snapshot_that_is_gone_is_not_made_again(
    lake: Catalog, ref: str, change: Callable[[Table, int, str], Any]
) -> None:
    """It was the base, or was picked, and then expired."""
    table = lake.load_table("ns.t")
    table.append(rows(1))
    table.append(rows(2), branch="dev")
    table.append(rows(3))
    named = table.metadata.refs[ref].snapshot_id
    change(table, named, "k")
    table.manage_snapshots().remove_branch("dev").commit()
    table.append(rows(5))
    table.maintenance.expire_snapshots().by_id(named).commit()
    position = lake.position
    change(table, named, "k")
    assert lake.position == position


@pytest.mark.parametrize("name", ["create_namespace", "purge_table", "Table.append"])
def test_a_call_that_another_made_meanwhile_is_made_once(
    lake: Catalog, open_again: Callable[[], Catalog], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """It looks for its key again inside of the write lock, where nobody else can make it any more."""
    position = lake.position
    before_the_lock(monkeypatch, lambda: CALLS[name][0](open_again(), "k"))
    CALLS[name][0](lake, "k")
    [made] = store_of(lake).events(position)
    assert made.provenance.actor == "somebody else"


@pytest.mark.parametrize("name", CALLS)
def test_the_key_of_another_call_is_refused(lake: Catalog, name: str) -> None:
    """Nothing is done then. A commit to another table has it here, or the creation of another namespace."""
    position = lake.position
    lake.load_table("ns.u").set_properties({"b": "1"}, idempotency_key="table")
    lake.create_namespace("other", idempotency_key="namespace")
    for key in ("table", "namespace"):
        with pytest.raises(ReusedKeyError, match=rf"the idempotency key '{key}' was used for the"):
            CALLS[name][0](lake, key)
    assert lake.position == position + 2


@pytest.mark.parametrize("name", ["create_namespace", "purge_table", "Table.append"])
def test_the_key_of_another_call_that_was_made_meanwhile_is_refused(
    lake: Catalog, open_again: Callable[[], Catalog], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """What it did not do is not taken for done."""
    position = lake.position
    before_the_lock(
        monkeypatch, lambda: open_again().load_table("ns.u").set_properties({"b": "1"}, idempotency_key="k")
    )
    with pytest.raises(ReusedKeyError):
        CALLS[name][0](lake, "k")
    assert lake.position == position + 1


def test_a_key_is_of_a_table_or_of_a_view(lake: Catalog) -> None:
    lake.drop_table("ns.t", idempotency_key="k")
    lake.create_view("ns.t", "SELECT id FROM u")
    with pytest.raises(ReusedKeyError):
        lake.drop_view("ns.t", idempotency_key="k")
    assert lake.view_exists("ns.t")


def test_a_key_is_of_a_table_not_of_its_name(lake: Catalog) -> None:
    """A table that has the name since never had the commit."""
    lake.load_table("ns.t").append(rows(1), idempotency_key="k")
    lake.drop_table("ns.t")
    table = make_table(lake, "t")
    with pytest.raises(ReusedKeyError):
        table.append(rows(1), idempotency_key="k")
    assert ids_of(table) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda c, k: c.load_view("ns.v").set_properties({"a": "1"}, idempotency_key=k),
        lambda c, k: jointly(c, k, lambda changes: changes.view("ns.v")),
    ],
)
def test_a_key_is_of_a_view_not_of_its_name(lake: Catalog, change: Call) -> None:
    change(lake, "k")
    lake.drop_view("ns.v")
    lake.create_view("ns.v", "SELECT id FROM u")
    with pytest.raises(ReusedKeyError):
        change(lake, "k")
    assert lake.load_view("ns.v").properties == {}


@pytest.mark.parametrize(
    ("rename", "change"),
    [
        (Catalog.rename_table, lambda c, k: c.load_table("ns.t").append(rows(1), idempotency_key=k)),
        (Catalog.rename_table, lambda c, k: jointly(c, k, lambda changes: changes.table("ns.t"))),
        (Catalog.rename_view, lambda c, k: jointly(c, k, lambda changes: changes.view("ns.v"))),
    ],
)
def test_the_key_of_a_rename_is_of_no_commit(lake: Catalog, rename: Callable[..., Any], change: Call) -> None:
    name = "ns.t" if rename is Catalog.rename_table else "ns.v"
    rename(lake, name, "ns.x", idempotency_key="k")
    rename(lake, "ns.x", name)
    with pytest.raises(ReusedKeyError):
        change(lake, "k")


def test_a_created_table_is_given_again(lake: Catalog) -> None:
    """Also while another name is asked for: nobody else's table is given."""
    first = lake.create_table("ns.new", SCHEMA, idempotency_key="k")
    lake.rename_table("ns.new", "ns.renamed")
    assert lake.create_table("ns.new", SCHEMA, idempotency_key="k").state.stream == first.state.stream
    with pytest.raises(TableAlreadyExistsError):
        lake.create_table("ns.renamed", SCHEMA, idempotency_key="k2")


def test_what_was_undone_under_a_key_is_told_again(lake: Catalog) -> None:
    """The position of the first time, where there was nothing to do too; the key is of that request alone."""
    at = drop_of_view(lake)
    first = lake.revert(at, idempotency_key="k")
    nothing = lake.restore(first, idempotency_key="k2")
    lake.load_table("ns.u").set_properties({"a": "1"})
    assert (lake.revert(at, idempotency_key="k"), lake.restore(first, idempotency_key="k2")) == (first, nothing)
    with pytest.raises(ReusedKeyError):
        lake.revert(at - 1, idempotency_key="k")
    with pytest.raises(ReusedKeyError):
        lake.undo(idempotency_key="k")
    with pytest.raises(ValidationError):
        lake.revert(10_000, idempotency_key="k3")
    assert lake.revert(lake.position, idempotency_key="k3") == lake.position, "a refusal is not kept"


def test_a_dry_run_says_that_it_was_done(lake: Catalog) -> None:
    for is_done in (False, True):
        outcome = lake.create_table("ns.new", SCHEMA, idempotency_key="k", dry_run=True)
        assert isinstance(outcome, CatalogDryRun) and outcome.is_done == is_done
        lake.create_table("ns.new", SCHEMA, idempotency_key="k")
    with pytest.raises(ReusedKeyError):
        lake.drop_table("ns.u", idempotency_key="k", dry_run=True)


@pytest.mark.parametrize("cls", [Catalog, Table, View])
def test_every_call_that_makes_one_commit_takes_a_key(cls: type) -> None:
    for name, call in inspect.getmembers(cls, callable):
        names = inspect.signature(call).parameters.keys() if not name.startswith("_") else ()
        if "message" in names or (cls, name) in WITHOUT:
            assert (KEY in names) != ((cls, name) in WITHOUT), f"{cls.__name__}.{name}"


def resolvable(lake: Catalog) -> str:
    """A table with a conflict: another engine's commit does not follow what the log has."""
    table = make_table(lake, "torn", properties={"icecore.materialize": "manual"})
    table.append(rows(1))
    with contextlib.closing(pyiceberg_catalog(lake.path)) as peer:
        peer.load_table("ns.torn").append(rows(2))
    return "ns.torn"


DRY: Mapping[str, Callable[[Catalog], Callable[..., Any]]] = {
    "resolve": lambda c: partial(c.resolve, resolvable(c), "log"),
    "revert": lambda c: partial(c.revert, drop_of_view(c)),
    "restore": lambda c: partial(c.restore, drop_of_view(c) - 1, table="ns.past"),
    "undo": lambda c: partial(c.undo, "ns.u"),
    "migrate_table": lambda c: partial(c.migrate_table, files_beside(c), "ns.new"),
    "snapshot_table": lambda c: partial(c.snapshot_table, files_beside(c), "ns.new"),
}


@pytest.mark.filterwarnings("ignore::icecore.engine.foreign.adopter.ForeignCommitWarning")
@pytest.mark.parametrize("name", DRY)
def test_a_dry_run_under_a_key_says_what_the_call_would(lake: Catalog, name: str) -> None:
    """That it is done, or that the key is another call's; it takes no key itself."""
    call = DRY[name](lake)
    assert not call(idempotency_key="k", dry_run=True).is_done
    call(idempotency_key="k")
    position = lake.position
    assert call(idempotency_key="k", dry_run=True).is_done
    lake.load_table("ns.t").append(rows(1), idempotency_key="other")
    with pytest.raises(ReusedKeyError):
        call(idempotency_key="other", dry_run=True)
    assert lake.position == position + 1
