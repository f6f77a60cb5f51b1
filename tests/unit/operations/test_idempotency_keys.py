"""Every call that makes one commit takes an idempotency key: with it that commit is made once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow.parquet as pq
import pytest
from core_tables import SCHEMA, ids_of, make_table, rows, store_of

import icecore
from icecore.engine.catalog.catalog import Catalog
from icecore.engine.commit.dry_run import CatalogDryRun
from icecore.engine.errors import ReusedKeyError, TableAlreadyExistsError, ValidationError
from icecore.engine.log.store import EventStore
from icecore.engine.spec.snapshot import StatisticsFile
from icecore.engine.spec.updates.metadata_update import SetProperties
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
Call = Callable[[Any, str], Any]
# A call under a key, and what stands in the way of a second one, or would make it another change.
CALLS: Mapping[str, tuple[Call, Call]] = {
    "create_namespace": (
        lambda c, k: c.create_namespace("n", {"a": "1"}, idempotency_key=k),
        lambda c, _: c.drop_namespace("n"),
    ),
    "create_namespace_if_not_exists": (
        lambda c, k: c.create_namespace_if_not_exists("n", idempotency_key=k),
        lambda c, _: c.drop_namespace("n"),
    ),
    "update_namespace_properties": (
        lambda c, k: c.update_namespace_properties("ns", ["b"], {"a": "1"}, idempotency_key=k),
        lambda c, _: c.update_namespace_properties("ns", [], {"a": "2"}),
    ),
    "update_namespace_properties, implied": (
        lambda c, k: c.update_namespace_properties("above", [], {"a": "1"}, idempotency_key=k),
        lambda c, _: c.update_namespace_properties("above", [], {"a": "2"}),
    ),
    "drop_namespace": (
        lambda c, k: c.drop_namespace("empty", idempotency_key=k),
        lambda c, _: c.create_namespace("empty"),
    ),
    "create_table": (lambda c, k: c.create_table("ns.new", SCHEMA, idempotency_key=k), lambda c, _: None),
    "create_table, dropped": (
        lambda c, k: c.create_table("ns.new", SCHEMA, idempotency_key=k),
        lambda c, _: c.drop_table("ns.new"),
    ),
    "create_or_replace_table": (
        lambda c, k: c.create_or_replace_table("ns.new", SCHEMA, idempotency_key=k),
        lambda c, _: c.load_table("ns.new").append(rows(1)),
    ),
    "replace_table": (
        lambda c, k: c.replace_table("ns.t", SCHEMA, properties={"a": "1"}, idempotency_key=k),
        lambda c, _: c.load_table("ns.t").append(rows(1)),
    ),
    "rename_table": (lambda c, k: c.rename_table("ns.t", "ns.z", idempotency_key=k), lambda c, _: make_table(c, "t")),
    "drop_table": (lambda c, k: c.drop_table("ns.t", idempotency_key=k), lambda c, _: make_table(c, "t")),
    "drop_table, purged": (
        lambda c, k: c.drop_table("ns.t", purge=True, idempotency_key=k),
        lambda c, _: make_table(c, "t"),
    ),
    "unregister_table": (lambda c, k: c.unregister_table("ns.t", idempotency_key=k), lambda c, _: make_table(c, "t")),
    "undrop_table": (lambda c, k: c.undrop_table("ns.gone", idempotency_key=k), lambda c, _: c.drop_table("ns.gone")),
    "purge_table": (
        lambda c, k: c.purge_table("ns.gone", idempotency_key=k),
        lambda c, _: (make_table(c, "gone"), c.drop_table("ns.gone")),
    ),
    "register_table": (
        lambda c, k: c.register_table("ns.copy", c.load_table("ns.t").metadata_location, idempotency_key=k),
        lambda c, _: None,
    ),
    "register_table, overwrite": (
        lambda c, k: c.register_table("ns.u", c.load_table("ns.t").metadata_location, True, idempotency_key=k),
        lambda c, _: c.load_table("ns.u").append(rows(1)),
    ),
    "commit_table": (
        lambda c, k: c.commit_table("ns.t", (), [SetProperties({"a": "1"})], idempotency_key=k),
        lambda c, _: c.load_table("ns.t").append(rows(1)),
    ),
    "create_view": (
        lambda c, k: c.create_view("ns.w", "SELECT id FROM t", idempotency_key=k),
        lambda c, _: c.drop_view("ns.w"),
    ),
    "create_view, replaced": (
        lambda c, k: c.create_view("ns.v", "SELECT name FROM t", replace=True, idempotency_key=k),
        lambda c, _: c.load_view("ns.v").replace("SELECT id FROM t"),
    ),
    "register_view": (
        lambda c, k: c.register_view("ns.w", c.load_view("ns.v").metadata_location, idempotency_key=k),
        lambda c, _: None,
    ),
    "rename_view": (
        lambda c, k: c.rename_view("ns.v", "ns.w", idempotency_key=k),
        lambda c, _: c.create_view("ns.v", "SELECT id FROM t"),
    ),
    "drop_view": (
        lambda c, k: c.drop_view("ns.v", idempotency_key=k),
        lambda c, _: c.create_view("ns.v", "SELECT id FROM t"),
    ),
    "undrop_view": (lambda c, k: c.undrop_view("ns.past", idempotency_key=k), lambda c, _: c.drop_view("ns.past")),
    "View.set_properties": (
        lambda c, k: c.load_view("ns.v").set_properties({"a": "1"}, idempotency_key=k),
        lambda c, _: c.load_view("ns.v").set_properties({"a": "2"}),
    ),
    "Table.set_properties": (
        lambda c, k: c.load_table("ns.t").set_properties({"a": "1"}, idempotency_key=k),
        lambda c, _: c.load_table("ns.t").set_properties({"a": "2"}),
    ),
    "Table.update_schema": (
        lambda c, k: c.load_table("ns.t").update_schema(idempotency_key=k).add_column("more", "long").commit(),
        lambda c, _: None,
    ),
    "Table.update_statistics": (
        lambda c, k: (
            c.load_table("ns.counted").update_statistics(idempotency_key=k).set_statistics(statistics(c)).commit()
        ),
        lambda c, _: (
            c.load_table("ns.counted").update_statistics().remove_statistics(statistics(c).snapshot_id).commit()
        ),
    ),
    "Table.append": (lambda c, k: c.load_table("ns.t").append(rows(1), idempotency_key=k), lambda c, _: None),
    "migrate_table": (
        lambda c, k: c.migrate_table(files_beside(c), "ns.new", idempotency_key=k),
        lambda c, _: c.drop_table("ns.new"),
    ),
    "snapshot_table": (
        lambda c, k: c.snapshot_table(files_beside(c), "ns.new", idempotency_key=k),
        lambda c, _: c.rename_table("ns.new", "ns.other"),
    ),
    "revert": (
        lambda c, k: c.revert(drop_of_view(c), idempotency_key=k),
        lambda c, _: c.drop_view("ns.past"),
    ),
    "undo": (lambda c, k: c.undo("ns.u", idempotency_key=k), lambda c, _: make_table(c, "u")),
    "restore": (
        lambda c, k: c.restore(drop_of_view(c) - 1, table="ns.past", idempotency_key=k),
        lambda c, _: c.drop_view("ns.past"),
    ),
    "transaction": (lambda c, k: both(c, k), lambda c, _: c.drop_table("ns.new")),
}


def both(catalog: Catalog, key: str) -> None:
    """A table and what is done to another, as one commit."""
    with catalog.transaction(idempotency_key=key) as changes:
        changes.table("ns.t").set_properties({"a": "1"})
        changes.create_table("ns.new", SCHEMA)
        changes.create_view("ns.new_view", "SELECT id FROM new")


def jointly(catalog: Catalog, key: str, find: Callable[[Any], Any]) -> None:
    with catalog.transaction(idempotency_key=key) as changes:
        find(changes).set_properties({"a": "1"})


def before_the_lock(monkeypatch: pytest.MonkeyPatch, call: Callable[[], Any]) -> None:
    """Has a call made just before the next one takes the write lock."""
    begun = EventStore._begun

    def later(store: EventStore, *args: Any, **how: Any) -> Any:
        monkeypatch.setattr(EventStore, "_begun", begun)
        call()
        return begun(store, *args, **how)

    monkeypatch.setattr(EventStore, "_begun", later)


def files_beside(catalog: Catalog) -> str:
    """A folder of a Parquet file."""
    folder = catalog.path.parent / "parquet"
    folder.mkdir(exist_ok=True)
    pq.write_table(rows(1), folder / "a.parquet")
    return str(folder)


def statistics(catalog: Catalog) -> StatisticsFile:
    """The statistics file of a snapshot of the fixture's table."""
    table = catalog.load_table("ns.counted")
    return StatisticsFile(table.snapshots()[0].snapshot_id, f"{table.location()}/metadata/s.puffin", 3, 1, ())


def drop_of_view(catalog: Catalog) -> int:
    """The position of the fixture's last drop."""
    return next(e.position for e in store_of(catalog).events() if e.kind == "view.dropped")


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
