"""Every public call that commits has a `dry_run`, which foretells the commit and leaves no trace of itself."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import pytest
from core_tables import SCHEMA, rows, store_of
from public_calls import CASES, READS, Call, calls, kept, lake, takes_dry_run, trace

from icecore.engine.catalog.catalog import Catalog
from icecore.engine.catalog.catalog_transaction import CatalogTransaction
from icecore.engine.commit.dry_run import CatalogDryRun, DryRun, ViewDryRun
from icecore.engine.forget.forget import Forgotten
from icecore.engine.maintenance.maintenance import ExpireSnapshots, Maintenance
from icecore.engine.table.table import Table
from icecore.engine.table.transaction import Transaction
from icecore.engine.view.view import View
from icecore.engine.view.view_changes import ViewTransaction

__all__ = ["kept", "lake"]

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
