"""Commands for the upkeep of a table: maintain, compact, expire, orphans and the like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import click

from icecore.engine.cli.changes.found_snapshot import find_snapshot
from icecore.engine.cli.settings import Settings, common_options, pass_settings
from icecore.engine.cli.texts import milliseconds, names, pairs
from icecore.engine.cli.verbs import (
    agree,
    change_command,
    dry_run_option,
    examples,
    key_option,
    risk_options,
    where_option,
)
from icecore.engine.common.text import abbreviated, counted
from icecore.engine.display.output import waiting
from icecore.engine.maintenance.rewrite_strategy import BINPACK

if TYPE_CHECKING:
    from icecore.engine.maintenance.maintenance import Expired, Maintained, OrphanFiles
    from icecore.engine.maintenance.rewrite_data_files import RewriteResult

SHOWN = 5


@change_command(shown=("icecore maintain shop.orders --dry-run", "icecore maintain shop.orders --yes -m nightly"))
@click.argument("table")
@risk_options
def maintain(settings: Settings, table: str, dry_run: bool, yes: bool, message: str | None, author: str | None) -> None:
    """Do all the upkeep that a table's properties ask for.

    Compact what is small, merge deletes, rewrite manifests, expire snapshots (history.expire.*), and delete orphan
    files older than three days. What it would do is said first.
    """
    with settings.write() as catalog:
        loaded = catalog.load_table(table)
        with waiting(f"planning the upkeep of {table}"):
            found = loaded.maintain(dry_run=True)
        if not dry_run:
            agree([f"would maintain {table}", *_maintained(found, "would")], yes=yes)
            with waiting(f"maintaining {table}"):
                found = loaded.maintain(message=message, author=author)
    head = f"would maintain {table}" if dry_run else f"maintained {table}"
    settings.print_record(_record(table, found, dry_run), head, *_maintained(found, "would" if dry_run else "did"))


@change_command(
    shown=(
        "icecore compact shop.orders --dry-run",
        "icecore compact shop.orders --sort city --option min-input-files=2 -m nightly",
    )
)
@click.argument("table")
@where_option("Only files that may have rows of this SQL predicate.")
@click.option("--sort", metavar="TERM", multiple=True, help="Sort by this; may be repeated.")
@click.option("--zorder", metavar="A,B", callback=names, help="Sort by columns that count alike.")
@click.option("--option", "options", metavar="KEY=VALUE", multiple=True, callback=pairs, help="As Java names them.")
@dry_run_option
def compact(
    settings: Settings,
    table: str,
    where: str | None,
    sort: tuple[str, ...],
    zorder: tuple[str, ...] | None,
    options: dict[str, str],
    dry_run: bool,
    message: str | None,
    author: str | None,
) -> None:
    """Write small data files again as few large ones.

    And those with many deletes. No row changes. The options are those of Java's rewrite_data_files.
    """
    strategy = "sort" if sort else "zorder" if zorder else BINPACK
    with settings.write() as catalog, waiting(f"compacting {table}"):
        done = catalog.load_table(table).rewrite_data_files(
            where,
            strategy=strategy,
            sort_order=sort or zorder,
            options=options,
            message=message,
            author=author,
            dry_run=dry_run,
        )
    head = f"{'would compact' if dry_run else 'compacted'} {table}: "
    settings.print_record(_record(table, done, dry_run), head + _rewrite(done))


@change_command(shown=("icecore rewrite-deletes shop.orders --dry-run", "icecore rewrite-deletes shop.orders"))
@click.argument("table")
@dry_run_option
def rewrite_deletes(settings: Settings, table: str, dry_run: bool, message: str | None, author: str | None) -> None:
    """Merge position deletes, and remove those that apply to no file."""
    with settings.write() as catalog, waiting(f"merging deletes of {table}"):
        loaded = catalog.load_table(table)
        done = loaded.rewrite_position_delete_files(message=message, author=author, dry_run=dry_run)
        done += loaded.remove_dangling_deletes(message=message, author=author, dry_run=dry_run)
    removed, added = (counted(n, "delete file") for n in (done.removed_delete_files, done.added_delete_files))
    head = f"{'would replace' if dry_run else 'replaced'} {removed} of {table} by {added}"
    settings.print_record(_record(table, done, dry_run), head)


@change_command(shown=("icecore rewrite-manifests shop.orders --dry-run", "icecore rewrite-manifests shop.orders"))
@click.argument("table")
@dry_run_option
def rewrite_manifests(settings: Settings, table: str, dry_run: bool, message: str | None, author: str | None) -> None:
    """Write manifests again, by partition."""
    with settings.write() as catalog:
        loaded = catalog.load_table(table)
        before, head = len(loaded.manifests()), loaded.metadata.current_snapshot_id
        outcome = loaded.rewrite_manifests(message=message, author=author, dry_run=dry_run)
        changed = loaded.metadata.current_snapshot_id != head if outcome is None else not outcome.is_empty
        after = len(loaded.refresh().manifests())
    record = {"table": table, "dry_run": dry_run, "rewrites": changed, "manifests": after}
    text = f"{counted(before, 'manifest')} of {table} are good as they are"
    if changed:
        text = f"would rewrite {counted(before, 'manifest')} of {table}"
        text = text if dry_run else f"rewrote {counted(before, 'manifest')} of {table} as {after}"
    settings.print_record(record, text)


@change_command(
    shown=(
        "icecore expire shop.orders --older-than 2024-01-01 --retain-last 5 --dry-run",
        "icecore expire shop.orders --yes -m 'as agreed'",
    )
)
@click.argument("table")
@click.option("--older-than", metavar="TIME", callback=milliseconds, help="Those from before it; by retention else.")
@click.option("--retain-last", type=click.IntRange(min=1), help="At least so many of each branch stay.")
@click.option("--snapshot", "snapshots", metavar="ID", multiple=True, help="Only this one; may be repeated.")
@click.option("--keep-files", is_flag=True, help="Delete no file.")
@key_option
@risk_options
def expire(
    settings: Settings,
    table: str,
    older_than: int | None,
    retain_last: int | None,
    snapshots: tuple[str, ...],
    keep_files: bool,
    key: str | None,
    dry_run: bool,
    yes: bool,
    message: str | None,
    author: str | None,
) -> None:
    """Let old snapshots go, with the files that only they need.

    Without an option by the table's properties, history.expire.*.
    """
    with settings.write() as catalog:
        loaded = catalog.load_table(table)
        expiry = loaded.maintenance.expire_snapshots(message=message, author=author, idempotency_key=key)
        if older_than is not None:
            expiry.older_than(older_than)
        if retain_last is not None:
            expiry.retain_last(retain_last)
        if snapshots:
            expiry.by_ids([find_snapshot(loaded.metadata, s) for s in snapshots])
        expiry.clean_files(not keep_files)
        found = expiry.dry_run()
        if not dry_run:
            agree([f"would expire {_expired(found)} of {table}", *_first(found.deleted_files)], yes=yes)
            with waiting(f"expiring snapshots of {table}"):
                found = expiry.commit()
    head = f"{'would expire' if dry_run else 'expired'} {_expired(found)} of {table}"
    settings.print_record(_record(table, found, dry_run), head)


@change_command(shown=("icecore orphans shop.orders --dry-run", "icecore orphans shop.orders --yes -m 'crashed loads'"))
@click.argument("table")
@click.option("--older-than", metavar="TIME", callback=milliseconds, help="Last written before it; 3 days ago else.")
@click.option("--location", metavar="FOLDER", help="Another folder to search.")
@key_option
@risk_options
def orphans(
    settings: Settings,
    table: str,
    older_than: int | None,
    location: str | None,
    key: str | None,
    dry_run: bool,
    yes: bool,
    message: str | None,
    author: str | None,
) -> None:
    """Delete files in a table's folders that nothing needs.

    Crashed writers leave such. Only files named as a table's files are, and older than three days.
    """
    with settings.write() as catalog:
        upkeep = catalog.load_table(table).maintenance
        with waiting(f"searching the folders of {table}"):
            found = upkeep.remove_orphan_files(older_than, location=location, dry_run=True)
        if not dry_run:
            agree([f"would delete {_orphans(found)} of {table}", *_first(found.orphan_file_locations)], yes=yes)
            with waiting(f"deleting orphan files of {table}"):
                found = upkeep.remove_orphan_files(
                    older_than, location=location, message=message, author=author, idempotency_key=key
                )
    lines = [f"{'would delete' if dry_run else 'deleted'} {_orphans(found)} of {table}"]
    if dry_run:
        lines += _first(found.orphan_file_locations)
    if found.passed_over:
        lines.append(f"left, as not named like files of a table: {abbreviated(found.passed_over, SHOWN)}")
    settings.print_record(_record(table, found, dry_run), *lines)


@change_command(shown=("icecore compute-statistics shop.orders --partitions",))
@click.argument("table")
@click.option("--columns", metavar="A,B", callback=names, help="All else.")
@click.option("--partitions", is_flag=True, help="Rows and files by partition, not distinct values of columns.")
@click.option("--snapshot", metavar="ID|NAME", help="Of another snapshot than main's.")
@dry_run_option
def compute_statistics(
    settings: Settings,
    table: str,
    columns: tuple[str, ...] | None,
    partitions: bool,
    snapshot: str | None,
    dry_run: bool,
    message: str | None,
    author: str | None,
) -> None:
    """Compute the statistics of a snapshot and commit them.

    The numbers of distinct values of columns, which need the extra stats; or the sums of partitions.
    """
    with settings.write() as catalog:
        loaded = catalog.load_table(table)
        at = None if snapshot is None else find_snapshot(loaded.metadata, snapshot)
        with waiting(f"computing statistics of {table}"):
            made: Any
            if partitions:
                made = loaded.compute_partition_statistics(
                    snapshot_id=at, message=message, author=author, dry_run=dry_run
                )
            else:
                made = loaded.compute_statistics(
                    columns, snapshot_id=at, message=message, author=author, dry_run=dry_run
                )
    path = None if dry_run or made is None else made.statistics_path
    text = f"would compute statistics of {table}" if dry_run else f"computed statistics of {table}: {path}"
    settings.print_record({"table": table, "dry_run": dry_run, "statistics_path": path}, text)


@change_command(shown=("icecore materialize", "icecore materialize shop.orders"))
@click.argument("table", required=False)
def materialize(settings: Settings, table: str | None, message: str | None, author: str | None) -> None:
    """Write the metadata files of tables by hand.

    Of all tables and views with the property icecore.materialize = manual, or of one TABLE.
    """
    with settings.write() as catalog:
        catalog.materialize(table, message=message, author=author)
    what = table or "all tables and views"
    settings.print_record({"table": table}, f"the metadata files of {what} are written")


@click.command(epilog=examples("icecore checkpoint"))
@common_options
@pass_settings
def checkpoint(settings: Settings) -> None:
    """Note the state of all tables in the log's file, so that a long log opens sooner."""
    with settings.write() as catalog:
        written = catalog.checkpoint()
    settings.print_record({"states": written}, f"noted {counted(written, 'state')}")


def _record(table: str, found: Any, dry_run: bool) -> dict[str, Any]:
    """A result for programs, without the outcomes of dry runs, which hold whole events."""
    kept = attrs.asdict(found, filter=lambda field, _: field.name != "outcomes")
    return {"table": table, "dry_run": dry_run, **kept}


def _maintained(found: Maintained, how: str) -> list[str]:
    done = {"would": ("would rewrite", "would replace", "would be", "would expire", "would delete")}.get(
        how, ("rewrote", "replaced", "are", "expired", "deleted")
    )
    compacted, deletes = found.compacted, found.deletes
    return [
        f"  {done[0]} {counted(compacted.rewritten_data_files, 'data file')}",
        f"  {done[1]} {counted(deletes.removed_delete_files, 'delete file')} by {deletes.added_delete_files}",
        f"  manifests {done[2]} {'rewritten' if found.rewrote_manifests else 'left as they are'}",
        f"  {done[3]} {_expired(found.expired)}",
        f"  {done[4]} {_orphans(found.orphans)}",
        *(f"  left out: {text}" for text in found.skipped),
    ]


def _rewrite(done: RewriteResult) -> str:
    if not done.rewritten_data_files:
        return "nothing is small, or has many deletes"
    sizes = f"{done.rewritten_bytes:,} bytes"
    return f"{counted(done.rewritten_data_files, 'file')} with {sizes} as {counted(done.added_data_files, 'file')}"


def _expired(found: Expired) -> str:
    refs = f", {counted(len(found.refs), 'branch or tag')}" if found.refs else ""
    files = counted(len(found.deleted_files), "file")
    return f"{counted(len(found.snapshot_ids), 'snapshot')}{refs} with {files}"


def _orphans(found: OrphanFiles) -> str:
    return f"{counted(len(found.orphan_file_locations), 'orphan file')}, {found.total_bytes:,} bytes"


def _first(files: tuple[str, ...]) -> list[str]:
    more = [f"  and {len(files) - SHOWN:,} more"] if len(files) > SHOWN else []
    return [*(f"  {f}" for f in files[:SHOWN]), *more]
