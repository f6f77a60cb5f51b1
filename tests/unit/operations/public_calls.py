"""All public calls: those that make no commit, and cases of each other one, in one warehouse for all."""

from __future__ import annotations

import hashlib
import inspect
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from core_tables import SCHEMA, make_table, rows, store_of

import icecore
from icecore.engine.catalog.catalog import Catalog
from icecore.engine.common.ids import now_ms
from icecore.engine.maintenance.maintenance import ExpireSnapshots, Maintenance
from icecore.engine.spec.updates.metadata_update import SetProperties
from icecore.engine.spec.updates.requirement import AssertRefSnapshotId
from icecore.engine.table.table import Table
from icecore.engine.view.view import View

Call = Callable[[Any, bool], Any]


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# What makes no commit: it reads, or it gathers changes that only the end of a transaction commits.
READS: Mapping[type, frozenset[str]] = {
    Catalog: words(
        "all_namespaces archives at audit audit_rules blame close diff diff_table export_log list_namespaces "
        "list_tables list_views load_namespace_properties load_table load_view log namespace_exists new_location "
        "query report show_commit sql table_exists tables verify view_exists views "
        "find_value"
    ),
    Table: words(
        "blame current_snapshot diff drop_named_plan files history incremental_append_scan "
        "incremental_changelog_scan last_partition_id live_entries location manifests name name_mapping "
        "named_plan named_plans partition_statistics partitions prefetch refresh refs scan schema schemas "
        "snapshot_as_of_timestamp snapshot_by_id snapshot_by_name snapshots sort_order sort_orders spec specs "
        "statistics to_daft to_polars"
    ),
    View: words(
        "current_version current_version_updates definition_of history location name query refresh schema schemas "
        "scope sql_for take to_arrow to_duckdb to_pandas to_spark version versions"
    ),
    Maintenance: frozenset({"rewrite_table_path"}),
    ExpireSnapshots: frozenset({"by_id", "by_ids", "clean_files", "older_than", "retain_last"}),
}


def calls(cls: type) -> dict[str, Any]:
    return {n: f for n, f in inspect.getmembers(cls, callable) if not n.startswith("_")}


def takes_dry_run(cls: type) -> set[str]:
    return {n for n, f in calls(cls).items() if "dry_run" in inspect.signature(f).parameters}


# One warehouse, which is put back for each case where it lies: metadata holds absolute paths.


def build(folder: Path) -> None:
    with icecore.open(folder, actor="tester") as catalog:
        catalog.create_namespace("ns")
        catalog.create_namespace("free", {"k": "v"})
        make_table(catalog, "gone").append(rows(1))
        catalog.drop_table("ns.gone")
        table = make_table(
            catalog, properties={"write.delete.mode": "merge-on-read", "commit.manifest-merge.enabled": "false"}
        )
        table.append(rows(1, 2, 3))
        table.append(rows(4, 5))
        table.delete("id = 1")
        make_table(catalog, "other").append(rows(8, 9))
        old = make_table(catalog, "old")
        old.append(rows(1))
        old.overwrite(rows(2))
        old.rewrite_manifests()
        old.maintenance.expire_snapshots().older_than(now_ms() + 1).retain_last(1).commit()
        make_table(catalog, "p", partition_spec=["bucket(2, id)"]).append(rows(1, 2))
        make_table(catalog, "empty", partition_spec=["id"], format_version=3)
        make_table(catalog, "files", properties={"icecore.commit-scheme": "filesystem"})
        catalog.create_view("ns.v", "SELECT id FROM t").replace("SELECT name FROM t")
        catalog.create_view("ns.lost", "SELECT 1 AS x")
        catalog.create_namespace("said", message="zoe said so")
        catalog.drop_view("ns.lost")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("everywhere")
    build(folder / "lake")
    shutil.copytree(folder / "lake", folder / "kept")
    return folder / "lake", folder / "kept"


@pytest.fixture
def lake(kept: tuple[Path, Path]) -> Iterator[Catalog]:
    folder, copy = kept
    shutil.rmtree(folder)
    shutil.copytree(copy, folder)
    with icecore.open(folder, actor="tester") as catalog:
        yield catalog


def trace(folder: Path) -> dict[str, Any]:
    """Every file of the warehouse by what is in it, and every row of every table of the log's file."""
    found: dict[str, Any] = {}
    for path in folder.rglob("*"):
        if path.is_file() and not path.name.startswith("icecore.db"):
            found[str(path.relative_to(folder))] = hashlib.sha256(path.read_bytes()).hexdigest()
    connection = sqlite3.connect(f"file:{folder}/icecore.db?mode=ro", uri=True)
    try:
        names = [n for (n,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for name in names:
            found[f"table {name}"] = connection.execute(f'SELECT * FROM "{name}"').fetchall()
    finally:
        connection.close()
    assert {"table event", "table event_content", "table namespace", "table iceberg_namespace_properties"} <= set(found)
    return found


def t(change: Call, name: str = "ns.t") -> Call:
    return lambda c, dry: change(c.load_table(name), dry)


def v(change: Call) -> Call:
    return lambda c, dry: change(c.load_view("ns.v"), dry)


def own(table: Table) -> str:
    """The path of one of the table's files."""
    return next(iter(table.scan().plan_files())).file.file_path


def other(table: Table) -> Any:
    """A file with the columns of the table that is one of another."""
    repository = table._repository
    state = repository.state(repository.models.table_stream(("ns", "other")))
    [task] = Table(repository, table._planning, state, None).scan().plan_files()
    return task.file


def last_actor(catalog: Catalog) -> object:
    return catalog.log(limit=1)["actor"].to_pylist()[0]


def revert_of(*kinds: str) -> Call:
    """Undoes the latest event of one of these kinds."""

    def call(catalog: Catalog, dry: bool) -> Any:
        found = [e.position for e in store_of(catalog).events() if e.kind in kinds]
        return catalog.revert(found[-1], dry_run=dry)

    return call


def parquet_folder(catalog: Catalog) -> str:
    """A folder of Parquet files beside the warehouse."""
    folder = tempfile.mkdtemp(dir=catalog.path.parent)
    pq.write_table(rows(1), Path(folder) / "a.parquet")
    return folder


def tables_folder(catalog: Catalog) -> str:
    """A folder of tables and views beside the warehouse."""
    folder = tempfile.mkdtemp(dir=catalog.path.parent)
    with icecore.open(folder) as other:
        other.create_namespace("ns")
        make_table(other).append(rows(1))
        other.create_view("ns.v", "SELECT id FROM t")
    return folder


def transaction(catalog: Catalog, dry: bool) -> Any:
    with catalog.transaction(dry_run=dry) as change:
        change.create_namespace("new")
        change.create_table("new.t", SCHEMA).append(rows(1))
        change.drop_table("ns.other")
    return change.outcome


def with_outcome(make: Call, change: Callable[[Any], object]) -> Call:
    def call(where: Any, dry: bool) -> Any:
        with make(where, dry) as transaction:
            change(transaction)
        return transaction.outcome

    return call


def metadata_of(catalog: Catalog, name: str) -> str:
    location = catalog.load_table(name).metadata_location
    assert location is not None
    return location


CASES: dict[tuple[type, str], list[Call]] = {
    (Catalog, "create_namespace"): [lambda c, d: c.create_namespace("new", {"a": "b"}, dry_run=d)],
    (Catalog, "update_namespace_properties"): [
        lambda c, d: c.update_namespace_properties("free", ["k"], {"a": "b"}, dry_run=d)
    ],
    (Catalog, "drop_namespace"): [lambda c, d: c.drop_namespace("free", dry_run=d)],
    (Catalog, "create_table"): [
        lambda c, d: c.create_table("free.t", SCHEMA, dry_run=d),
        lambda c, d: c.create_table("free.t", SCHEMA, properties={"icecore.commit-scheme": "filesystem"}, dry_run=d),
    ],
    (Catalog, "replace_table"): [lambda c, d: c.replace_table("ns.t", SCHEMA, partition_spec=["id"], dry_run=d)],
    (Catalog, "create_or_replace_table"): [
        lambda c, d: c.create_or_replace_table("free.t", SCHEMA, dry_run=d),
        lambda c, d: c.create_or_replace_table("ns.t", SCHEMA, sort_order=["id"], dry_run=d),
    ],
    (Catalog, "create_table_if_not_exists"): [
        lambda c, d: c.create_table_if_not_exists("free.t", SCHEMA, dry_run=d),
    ],
    (Catalog, "create_namespace_if_not_exists"): [
        lambda c, d: c.create_namespace_if_not_exists("new", {"a": "b"}, dry_run=d),
    ],
    (Catalog, "rename_table"): [
        lambda c, d: c.rename_table("ns.t", "free.u", dry_run=d),
        lambda c, d: c.rename_table("ns.files", "free.u", dry_run=d),
    ],
    (Catalog, "drop_table"): [
        lambda c, d: c.drop_table(identifier="ns.t", dry_run=d),
        lambda c, d: c.drop_table("ns.p", purge=True, dry_run=d),
    ],
    (Catalog, "unregister_table"): [lambda c, d: c.unregister_table("ns.t", dry_run=d)],
    (Catalog, "purge_table"): [lambda c, d: c.purge_table("ns.gone", dry_run=d)],
    (Catalog, "undrop_table"): [lambda c, d: c.undrop_table("ns.gone", dry_run=d)],
    (Catalog, "register_table"): [lambda c, d: c.register_table("free.r", metadata_of(c, "ns.t"), dry_run=d)],
    (Catalog, "commit_table"): [
        lambda c, d: c.commit_table(
            "ns.t", (AssertRefSnapshotId("none", None),), [SetProperties({"a": "b"})], dry_run=d
        ),
    ],
    (Catalog, "register_folder"): [lambda c, d: c.register_folder(tables_folder(c), "new", dry_run=d).outcome],
    (Catalog, "migrate_table"): [lambda c, d: c.migrate_table(parquet_folder(c), "free.m", dry_run=d)],
    (Catalog, "snapshot_table"): [lambda c, d: c.snapshot_table(parquet_folder(c), "free.m", dry_run=d)],
    (Catalog, "create_view"): [
        lambda c, d: c.create_view("free.v", "SELECT 1 AS x", dry_run=d),
        lambda c, d: c.create_view("ns.v", "SELECT 1 AS x", replace=True, dry_run=d),
        lambda c, d: c.create_view("ns.v", "SELECT name FROM t", replace=True, dry_run=d),
    ],
    (Catalog, "rename_view"): [lambda c, d: c.rename_view("ns.v", "free.w", dry_run=d)],
    (Catalog, "drop_view"): [lambda c, d: c.drop_view("ns.v", dry_run=d)],
    (Catalog, "undrop_view"): [lambda c, d: c.undrop_view("ns.lost", dry_run=d)],
    (Catalog, "register_view"): [
        lambda c, d: c.register_view("free.r", c.load_view("ns.v").metadata_location, dry_run=d)
    ],
    (Catalog, "undo"): [lambda c, d: c.undo(actor=str(last_actor(c)), dry_run=d)],
    (Catalog, "restore"): [
        lambda c, d: c.restore(c.position - 3, dry_run=d),
        lambda c, d: c.restore(c.position - 3, namespace="ns", dry_run=d),
    ],
    (Catalog, "revert"): [
        revert_of("namespace.created"),
        revert_of("table.created"),
        revert_of("table.dropped"),
        revert_of("table.committed"),
        revert_of("view.committed"),
        revert_of("view.dropped"),
    ],
    (Catalog, "forget"): [lambda c, d: c.forget("ns.old", columns=["id"], dry_run=d)],
    (Catalog, "forget_text"): [lambda c, d: c.forget_text("zoe", dry_run=d)],
    (Catalog, "transaction"): [transaction],
    (Table, "append"): [
        t(lambda x, d: x.append(rows(7), dry_run=d)),
        t(lambda x, d: x.append(rows(7), dry_run=d), "ns.files"),
    ],
    (Table, "overwrite"): [t(lambda x, d: x.overwrite(rows(7), "id = 2", dry_run=d))],
    (Table, "dynamic_partition_overwrite"): [t(lambda x, d: x.dynamic_partition_overwrite(rows(7), dry_run=d), "ns.p")],
    (Table, "upsert"): [t(lambda x, d: x.upsert(rows(2, 7), ["id"], dry_run=d))],
    (Table, "delete"): [t(lambda x, d: x.delete("id = 2", dry_run=d))],
    (Table, "delete_keys"): [t(lambda x, d: x.delete_keys([{"id": 2}], ["id"], dry_run=d))],
    (Table, "add_files"): [t(lambda x, d: x.add_files([other(x).file_path], dry_run=d))],
    (Table, "append_files"): [t(lambda x, d: x.append_files([other(x)], dry_run=d))],
    (Table, "row_delta"): [t(lambda x, d: x.row_delta([other(x)], dry_run=d))],
    (Table, "overwrite_files"): [t(lambda x, d: x.overwrite_files([own(x)], [other(x)], dry_run=d))],
    (Table, "rewrite_files"): [t(lambda x, d: x.rewrite_files([own(x)], [other(x)], dry_run=d))],
    (Table, "rewrite_manifests"): [t(lambda x, d: x.rewrite_manifests(dry_run=d))],
    (Table, "rewrite_data_files"): [t(lambda x, d: x.rewrite_data_files(options={"rewrite-all": True}, dry_run=d))],
    (Table, "rewrite_position_delete_files"): [t(lambda x, d: x.rewrite_position_delete_files(dry_run=d))],
    (Table, "remove_dangling_deletes"): [t(lambda x, d: x.remove_dangling_deletes(dry_run=d))],
    (Table, "compute_statistics"): [
        t(lambda x, d: x.compute_statistics(dry_run=d)),
        t(lambda x, d: x.compute_statistics(["id"], snapshot_id=x.snapshots()[0].snapshot_id, dry_run=d)),
        t(lambda x, d: x.compute_statistics(dry_run=d), "ns.empty"),
    ],
    (Table, "compute_partition_statistics"): [
        t(lambda x, d: x.compute_partition_statistics(dry_run=d), "ns.p"),
        t(lambda x, d: x.compute_partition_statistics(dry_run=d), "ns.empty"),
    ],
    (Table, "set_properties"): [t(lambda x, d: x.set_properties({"a": "b"}, dry_run=d))],
    (Table, "remove_properties"): [t(lambda x, d: x.remove_properties("write.delete.mode", dry_run=d))],
    (Table, "upgrade"): [t(lambda x, d: x.upgrade(3, dry_run=d))],
    (Table, "update_schema"): [t(lambda x, d: x.update_schema(dry_run=d).add_column("x", "long").commit())],
    (Table, "update_spec"): [t(lambda x, d: x.update_spec(dry_run=d).add_field("bucket(2, id)").commit())],
    (Table, "update_sort_order"): [t(lambda x, d: x.update_sort_order(dry_run=d).asc("id").commit())],
    (Table, "update_statistics"): [t(lambda x, d: x.update_statistics(dry_run=d).remove_statistics(1).commit())],
    (Table, "manage_snapshots"): [
        t(lambda x, d: x.manage_snapshots(dry_run=d).create_tag(x.snapshots()[0].snapshot_id, "v").commit())
    ],
    (Table, "transaction"): [
        t(with_outcome(lambda x, d: x.transaction(dry_run=d), lambda change: change.append(rows(7))))
    ],
    (Table, "forget"): [t(lambda x, d: x.forget(dry_run=d), "ns.old")],
    (View, "replace"): [v(lambda x, d: x.replace("SELECT 2 AS y", dry_run=d))],
    (View, "set_current_version"): [v(lambda x, d: x.set_current_version(1, dry_run=d))],
    (View, "set_properties"): [v(lambda x, d: x.set_properties({"a": "b"}, dry_run=d))],
    (View, "remove_properties"): [v(lambda x, d: x.remove_properties("nothing", dry_run=d))],
    (View, "set_location"): [v(lambda x, d: x.set_location(x.location() + "-2", dry_run=d))],
    (View, "transaction"): [
        v(with_outcome(lambda x, d: x.transaction(dry_run=d), lambda change: change.set_properties({"a": "b"})))
    ],
    (Maintenance, "remove_orphan_files"): [t(lambda x, d: x.maintenance.remove_orphan_files(dry_run=d))],
}
