"""Each call that takes an idempotency key, and what stands in the way of a second one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow.parquet as pq
from core_tables import SCHEMA, make_table, rows, store_of

from icecore.engine.catalog.catalog import Catalog
from icecore.engine.spec.snapshot import StatisticsFile
from icecore.engine.spec.updates.metadata_update import SetProperties

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
