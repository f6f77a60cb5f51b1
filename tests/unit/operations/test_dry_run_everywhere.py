"""Every public call that commits has a `dry_run`, which foretells the commit and leaves no trace of itself."""

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
from core_tables import SCHEMA, make_table, pyiceberg_catalog, rows, store_of

import icecore
from icecore.engine.catalog.catalog import Catalog
from icecore.engine.catalog.catalog_transaction import CatalogTransaction
from icecore.engine.commit.dry_run import CatalogDryRun, DryRun, ViewDryRun
from icecore.engine.common.ids import now_ms
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
from icecore.engine.forget.forget import Forgotten
from icecore.engine.log.store import WriteTransaction
from icecore.engine.maintenance.maintenance import ExpireSnapshots, Maintenance
from icecore.engine.spec.updates.metadata_update import SetProperties
from icecore.engine.spec.updates.requirement import AssertRefSnapshotId
from icecore.engine.table.table import Table
from icecore.engine.table.transaction import Transaction
from icecore.engine.view.view import View
from icecore.engine.view.view_changes import ViewTransaction

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
# What changes something and has no dry run, with the reason.
EXCEPTIONS: Mapping[tuple[type, str], str] = {
    (Catalog, "materialize"): "writes the files of commits that are in the log already",
    (Catalog, "rebuild"): "makes again what follows from the log, and commits nothing",
    (Catalog, "checkpoint"): "notes what follows from the log, and commits nothing",
    (Catalog, "archive"): "moves events to another file, and commits nothing",
    (Catalog, "create_table_transaction"): "is a part of `transaction`, which has one",
    (Maintenance, "expire_snapshots"): "begins what its `commit()` ends",
    (ExpireSnapshots, "commit"): "has `dry_run()` beside it",
    (ExpireSnapshots, "dry_run"): "is the dry run",
}
# What can't be part of a larger commit, with the reason.
ALONE: Mapping[tuple[type, str], str] = {
    (Catalog, "transaction"): "is the larger commit",
    (Catalog, "create_or_replace_table"): "is create_table or replace_table, as the caller finds",
    (Catalog, "create_table_if_not_exists"): "is create_table, or nothing, as the caller finds",
    (Catalog, "create_namespace_if_not_exists"): "is create_namespace, or nothing, as the caller finds",
    (Catalog, "commit_table"): "is the updates that a transaction comes to",
    (Catalog, "create_table_transaction"): "is the larger commit",
    (Catalog, "unregister_table"): "hands on a metadata file, which has to be written before",
    (Catalog, "revert"): "is about commits that were made",
    (Catalog, "undo"): "is about a commit that was made",
    (Catalog, "restore"): "is about all that was done, what it would be with in one commit too",
    (Catalog, "migrate_table"): "is create_table and add_files, of what it finds in a folder",
    (Catalog, "snapshot_table"): "is create_table and add_files, of what it finds in a folder",
    (Catalog, "register_folder"): "is register_table and register_view, of what it finds in a folder",
    (Catalog, "forget"): "changes the log, and nothing of the table",
    (Catalog, "forget_text"): "changes the log, and nothing that it is about",
    (Catalog, "purge_table"): "deletes files, which no commit can take back",
    (Catalog, "resolve"): "settles with another engine what the log holds, before anything else can be committed",
    (Table, "transaction"): "is the larger commit",
    (Table, "forget"): "changes the log, and nothing of the table",
    (Table, "maintain"): "is several commits, and deletes files",
    (Table, "upgrade"): "is before whatever needs the new version",
    (Table, "compute_statistics"): "is of a snapshot that was made",
    (Table, "compute_partition_statistics"): "is of a snapshot that was made",
    (View, "transaction"): "is the larger commit",
}


def calls(cls: type) -> dict[str, Any]:
    return {n: f for n, f in inspect.getmembers(cls, callable) if not n.startswith("_")}


def takes_dry_run(cls: type) -> set[str]:
    return {n for n, f in calls(cls).items() if "dry_run" in inspect.signature(f).parameters}


@pytest.mark.parametrize("cls", READS)
def test_every_call_that_commits_takes_dry_run(cls: type) -> None:
    """A new call is one of those that can be tried, or is said here to commit nothing."""
    excepted = {n for c, n in EXCEPTIONS if c is cls}
    assert calls(cls).keys() - takes_dry_run(cls) - excepted == READS[cls]
    for name in READS[cls]:
        told = inspect.signature(calls(cls)[name]).parameters.keys() & {"message", "author", "idempotency_key"}
        assert not told, f"{cls.__name__}.{name} looks like a commit"


@pytest.mark.parametrize(
    ("cls", "larger"), [(Catalog, CatalogTransaction), (Table, Transaction), (View, ViewTransaction)]
)
def test_every_change_can_be_part_of_a_transaction(cls: type, larger: type) -> None:
    """Whose own changes commit nothing, so that its one `dry_run` is that of all of them."""
    alone = {n for c, n in ALONE if c is cls}
    assert takes_dry_run(cls) - alone <= calls(larger).keys()
    assert takes_dry_run(larger) == set()


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
# `resolve` needs another engine's conflict: see `test_a_resolution_can_be_tried`. `maintain` is several commits.
ELSEWHERE = {(Catalog, "resolve"), (Table, "maintain")}


def test_every_dry_run_is_tried_here() -> None:
    assert {(cls, name) for cls in READS for name in takes_dry_run(cls)} == CASES.keys() | ELSEWHERE


def foretold(outcome: Any) -> list[tuple[str | None, list[str]]]:
    """The kinds and updates of the events that an outcome tells of; a table's or view's tells the updates only."""
    match outcome:
        case CatalogDryRun():
            assert outcome.conflicts == ()
            return [(p.kind, actions(p.payload)) for p in outcome.parts]
        case DryRun() | ViewDryRun():
            assert outcome.conflicts == ()
            return [] if outcome.is_empty else [(None, actions(outcome.payload))]
        case Forgotten():
            assert outcome.position is None
            return [("log.forgotten", ["identifier: ['ns', 'old']"] if outcome.files else [])]
        case _ if hasattr(outcome, "outcomes"):
            return [told for each in outcome.outcomes for told in foretold(each)]
        case _:
            return foretold(outcome.outcome)


def actions(payload: Mapping[str, Any]) -> list[str]:
    """What an event changes, in words that do not hold ids."""
    if "updates" in payload and isinstance(payload["updates"], list):
        return [u["action"] for u in payload["updates"]]
    names = ("namespace", "identifier", "from", "to", "properties", "updates", "removals")
    return [f"{k}: {payload[k]}" for k in names if k in payload]


@pytest.mark.parametrize(
    "case", [pytest.param(c, id=f"{k[0].__name__}.{k[1]}-{i}") for k, cs in CASES.items() for i, c in enumerate(cs)]
)
def test_it_leaves_no_trace_and_foretells_the_commit(lake: Catalog, case: Call) -> None:
    """The log, every row of its file and every file of the warehouse are as before; the commit is as it was told."""
    before, position = trace(lake.path), lake.position
    outcome = case(lake, True)
    assert lake.position == position
    assert trace(lake.path) == before
    if not hasattr(outcome, "deleted_files"):
        told = foretold(outcome)
        case(lake, False)
        made = list(store_of(lake).events(position))
        assert [a for _, a in told] == [actions(e.payload) for e in made]
        assert all(kind in (None, e.kind) for (kind, _), e in zip(told, made, strict=True))
    assert lake.verify().problems == ()


# What stands in the way


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


def test_a_revert_of_rows_tells_totals_and_files(lake: Catalog) -> None:
    """An append is taken back: its file is among those that would be removed, and the totals are those after it."""
    table = lake.load_table("ns.t")
    table.append(rows(6, 7))
    outcome = lake.revert(lake.position, dry_run=True)
    assert isinstance(outcome, CatalogDryRun)
    [part] = outcome.parts
    assert part.identifier == ("ns", "t") and part.kind == "table.committed"
    assert len(part.removed_files) == 1 and part.added_files == ()
    lake.revert(lake.position)
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None and snapshot.summary is not None
    assert part.totals["total-records"] == int(snapshot.summary["total-records"]) == 5


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


def test_another_engine_in_the_middle_of_a_trial(lake: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it commits after the first look is taken in for good by the trial, and the trial goes on."""
    peer = pyiceberg_catalog(lake.path)
    theirs = peer.load_table("ns.t")
    position = lake.position
    taken_in = Adopter.adopt_all_if_changed

    def late(adopter: Adopter) -> None:
        taken_in(adopter)
        if not raced:
            raced.append(1)
            theirs.append(rows(9))

    raced: list[int] = []
    monkeypatch.setattr(Adopter, "adopt_all_if_changed", late)
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


def test_what_is_cached_is_not_what_was_tried(lake: Catalog) -> None:
    """After a trial this catalog and its handles show, and commit on, what there is."""
    table, view = lake.load_table("ns.t"), lake.load_view("ns.v")
    lake.drop_table("ns.t", dry_run=True)
    lake.drop_view("ns.v", dry_run=True)
    lake.replace_table("ns.t", SCHEMA, dry_run=True)
    lake.revert(lake.position, dry_run=True)
    table.append(rows(11))
    view.set_properties({"a": "b"})
    assert 11 in table.refresh().scan().to_arrow()["id"].to_pylist()
    assert view.refresh().properties == {"a": "b"}
    lake.rebuild()
    assert lake.verify().ok
