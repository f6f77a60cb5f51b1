"""Every builder and transaction is used up by its commit, or by the end of its block: found by walking the API."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pyarrow as pa
import pytest
from core_tables import SCHEMA, local, make_table, rows

import icecore.engine
from icecore.engine.catalog.catalog import Catalog
from icecore.engine.catalog.catalog_transaction import CatalogTransaction
from icecore.engine.commit.single_use import OnceInBlock, UsedOnce
from icecore.engine.errors import CommitConflictError, TableAlreadyExistsError, ValidationError
from icecore.engine.maintenance.maintenance import Maintenance
from icecore.engine.spec.snapshot import PartitionStatisticsFile, StatisticsFile
from icecore.engine.table.table import Table
from icecore.engine.table.transaction import Transaction
from icecore.engine.view.view import View
from icecore.engine.view.view_changes import ViewChanges

Make = Callable[[Catalog], Any]


def on_table(name: str) -> Make:
    return lambda c: getattr(c.load_table("ns.t"), name)()


def in_transaction(name: str) -> Make:
    """A builder of a transaction of one table, which is not committed."""
    return lambda c: getattr(c.load_table("ns.t").transaction(), name)()


# By the class that makes it and the method's name.
BUILDERS: dict[tuple[type, str], Make] = {
    (Catalog, "transaction"): lambda c: c.transaction(),
    (View, "transaction"): lambda c: c.load_view("ns.v").transaction(),
    (Maintenance, "expire_snapshots"): lambda c: c.load_table("ns.t").maintenance.expire_snapshots(),
    **{
        (Table, name): on_table(name)
        for name in (
            "transaction",
            "update_schema",
            "update_spec",
            "update_sort_order",
            "update_statistics",
            "manage_snapshots",
        )
    },
    **{
        (Transaction, name): in_transaction(name)
        for name in ("update_schema", "update_spec", "update_sort_order", "update_statistics", "manage_snapshots")
    },
}
# Their `commit` only ends with that of the catalog's transaction, which is tried itself.
PARTS = {(CatalogTransaction, n) for n in ("table", "view", "create_table", "replace_table", "register_table")}
# They make a table even where nothing more is asked for.
NEW_TABLES = {(Catalog, "create_table_transaction"), (CatalogTransaction, "create_alone")}
MAKERS = (Catalog, Table, View, Maintenance, Transaction, CatalogTransaction)
# What only looks, or is no call.
READS = {
    "outcome",
    "ops",
    "metadata",
    "has_changes",
    "file_groups",
    "delete_groups",
    "part",
    "end",
    "discard",
    "keep_planned",
}
ENDED = "was committed already, or its block has ended"


def engine_classes() -> Iterator[type]:
    for module in pkgutil.walk_packages(icecore.engine.__path__, "icecore.engine."):
        if ".spark" not in module.name and ".demo" not in module.name:
            for _, found in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
                if found.__module__ == module.name:
                    yield found


def committing() -> set[type]:
    """What has a `commit` that people call: a method, and one without arguments."""
    found = ((c, getattr(c, "commit", None)) for c in engine_classes() if not c.__name__.startswith("_"))
    return {c for c, commit in found if inspect.isfunction(commit) and len(inspect.signature(commit).parameters) == 1}


def test_all_that_commits_is_used_once() -> None:
    found = committing()
    assert {Transaction, CatalogTransaction} < found and len(found) > 9
    assert [c.__name__ for c in found if not issubclass(c, UsedOnce)] == []


def test_every_builder_of_the_api_is_tried_here() -> None:
    """By what public methods say that they give."""
    names = {c.__name__ for c in committing()} | {"ViewChanges"}
    given = {
        (maker, name)
        for maker in MAKERS
        for name, method in inspect.getmembers(maker, inspect.isfunction)
        if not name.startswith("_") and method.__annotations__.get("return") in names
    }
    assert given == BUILDERS.keys() | PARTS | NEW_TABLES


@pytest.fixture
def lake(catalog: Catalog) -> Catalog:
    make_table(catalog).append(rows(1, 2))
    catalog.create_view("ns.v", "SELECT 1 AS x")
    return catalog


def arguments(lake: Catalog, method: Callable[..., Any]) -> dict[str, Any]:
    """Values for all that a method needs, by the names of its parameters."""
    table = lake.load_table("ns.t")
    current = table.current_snapshot()
    assert current is not None and table.metadata_location is not None
    known: dict[str, Any] = {
        **dict.fromkeys(("snapshot_id", "from_snapshot_id"), current.snapshot_id),
        "snapshot_ids": [current.snapshot_id],
        **dict.fromkeys(("branch", "branch_name", "ref_name", "to"), "main"),
        **dict.fromkeys(("tag_name", "new_name", "new_branch", "column_name", "new_column_name", "sql"), "new"),
        **dict.fromkeys(
            ("path", "path_from", "term", "source_column_name", "name", "before_path"),
            "id",
        ),
        **dict.fromkeys(("after_path", "after_name", "field_name"), "name"),
        **dict.fromkeys(("count", "most", "version_id", "when", "timestamp_ms", "position"), 1),
        **dict.fromkeys(("min_snapshots_to_keep", "max_snapshot_age_ms", "max_ref_age_ms"), 1),
        "clean": True,
        "wap_id": "w",
        "field_type": "int",
        "default_value": 1,
        "df": rows(1),
        "format_version": 3,
        "keys": pa.table({"id": [1]}),
        "key_columns": ["id"],
        **{n: [] for n in ("files", "file_paths", "delete_files", "ops", "terms", "add", "delete")},
        "delete_filter": "id = 1",
        "updates": {"a": "b"},
        "schema": SCHEMA,
        "new_schema": SCHEMA,
        "location": "file:///x",
        **dict.fromkeys(("identifier", "from_identifier"), "ns.t"),
        "to_identifier": "ns.u",
        "namespace": "ns",
        "metadata_location": table.metadata_location,
        "command": None,
        "statistics_file": StatisticsFile(current.snapshot_id, "file:///x", 1, 1, ()),
        "partition_statistics_file": PartitionStatisticsFile(current.snapshot_id, "file:///x", 1),
    }
    needed = inspect.signature(method).parameters.values()
    return {
        p.name: known[p.name]
        for p in needed
        if (p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD))
        or p.name in ("snapshot_id", "sql")
    }


def refused(lake: Catalog, builder: Any) -> None:
    """Every public call refuses what was used up, and says so."""
    tried = 0
    for name, method in inspect.getmembers(builder, inspect.ismethod):
        if not name.startswith("_") and name not in READS:
            with pytest.raises(ValidationError, match=ENDED):
                method(**arguments(lake, method))
            tried += 1
    assert tried > 3


@pytest.mark.parametrize("maker", BUILDERS, ids=lambda m: f"{m[0].__name__}.{m[1]}")
def test_what_was_committed_refuses_everything(maker: tuple[type, str], lake: Catalog) -> None:
    builder = BUILDERS[maker](lake)
    builder.commit()
    position = lake.position
    refused(lake, builder)
    assert lake.position == position


@pytest.mark.parametrize("maker", BUILDERS, ids=lambda m: f"{m[0].__name__}.{m[1]}")
def test_a_block_ends_it_too(maker: tuple[type, str], lake: Catalog) -> None:
    """An empty one, and one that raises, make no event."""
    if not isinstance(BUILDERS[maker](lake), AbstractContextManager):
        assert not isinstance(BUILDERS[maker](lake), OnceInBlock)
        return
    position = lake.position
    with BUILDERS[maker](lake) as empty:
        pass
    refused(lake, empty)
    with pytest.raises(ZeroDivisionError), BUILDERS[maker](lake) as broken:
        raise ZeroDivisionError
    refused(lake, broken)
    with pytest.raises(ValidationError, match=ENDED), empty:
        raise AssertionError("it was entered")
    with BUILDERS[maker](lake) as inside:
        inside.commit()
    assert lake.position == position


def test_parts_of_a_transaction_end_with_it(lake: Catalog) -> None:
    """Of tables and views; until then their own commit only waits for it."""
    transaction = lake.transaction()
    with transaction.table("ns.t") as table:
        table.append(rows(3))
        table.commit()
    table.append(rows(4))
    view = transaction.view("ns.v").set_properties({"a": "b"})
    inner = table.update_schema()
    transaction.commit()
    assert lake.load_table("ns.t").scan().count() == 4
    for part in (table, view):
        assert isinstance(part, (Transaction, ViewChanges))
        with pytest.raises(ValidationError, match=ENDED):
            part.set_properties({"c": "d"})
    with pytest.raises(ValidationError, match=ENDED):
        inner.add_column("x", "int").commit()


def test_a_new_table_with_its_changes_is_one_commit(catalog: Catalog) -> None:
    """Made by its own end; a block that raises leaves nothing."""
    catalog.create_namespace_if_not_exists("ns")
    position = catalog.position
    with pytest.raises(ZeroDivisionError), catalog.create_table_transaction("ns.t", SCHEMA) as broken:
        broken.append(rows(1))
        raise ZeroDivisionError
    assert (catalog.position, catalog.table_exists("ns.t")) == (position, False)
    with catalog.create_table_transaction("ns.t", SCHEMA, message="new", author="bob") as changes:
        changes.append(rows(1, 2))
        changes.update_schema().add_column("x", "int").commit()
    table = catalog.load_table("ns.t")
    assert (table.scan().count(), table.schema().has_name("x")) == (2, True)
    told = catalog.log().slice(position).to_pylist()
    assert {(e["actor"], e["message"]) for e in told} == {("bob", "new")}
    assert len({e["transaction_id"] for e in told}) == 1
    for ended in (broken, changes):
        with pytest.raises(ValidationError, match=ENDED):
            ended.append(rows(3))
    made = catalog.create_table_transaction("ns.u", SCHEMA).set_properties(a="b").commit_transaction()
    assert (made.name(), made.properties["a"]) == (("ns", "u"), "b")
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table_transaction("ns.u", SCHEMA).commit()


def test_a_table_of_a_larger_commit_can_t_be_handed_out(lake: Catalog) -> None:
    with lake.transaction() as transaction, pytest.raises(ValidationError, match="is committed with others"):
        transaction.table("ns.t").commit_transaction()


def data_files(table: Table) -> list[str]:
    return [p.name for p in (local(table.location()) / "data").rglob("*") if p.is_file()]


def test_a_commit_that_was_refused_uses_it_up_and_leaves_no_file(
    lake: Catalog, open_again: Callable[[], Catalog]
) -> None:
    """What it was decided on is gone, so that it would be refused again."""
    table = lake.load_table("ns.t")
    before = data_files(table)
    change = table.transaction()
    change.overwrite(rows(7), base_snapshot_id=table.snapshots()[0].snapshot_id)
    open_again().load_table("ns.t").append(rows(3))
    with pytest.raises(CommitConflictError):
        change.commit()
    refused(lake, change)
    assert len(data_files(table)) == len(before) + 1
