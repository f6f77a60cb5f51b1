"""The maintenance of a table as single calls: rewrites of files, which change no row, and forgetting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from attrs import evolve

from icecore.engine.common.keyword_options import options_of, takes_options
from icecore.engine.expression.sql.parse import FilterLike
from icecore.engine.maintenance.rewrite_strategy import BINPACK, SortTerms
from icecore.engine.properties.table_properties import GC_ENABLED
from icecore.engine.spec.snapshot import MAIN_BRANCH
from icecore.engine.table import table_commits
from icecore.engine.table.commit_options import MetadataOptions, RewriteCommitOptions, RowChangeOptions
from icecore.engine.table.table_handle import TableHandle

if TYPE_CHECKING:
    from icecore.engine.commit.dry_run import DryRun
    from icecore.engine.forget.forget import Forgotten
    from icecore.engine.maintenance.maintenance import Maintained
    from icecore.engine.maintenance.rewrite_data_files import GroupWriter, RewriteResult
    from icecore.engine.maintenance.rewrite_delete_files import DeletesWriter


@takes_options(RewriteCommitOptions)
def rewrite_data_files(
    table: TableHandle,
    row_filter: FilterLike = None,
    *,
    strategy: str = BINPACK,
    sort_order: SortTerms | None = None,
    options: Mapping[str, Any] | None = None,
    case_sensitive: bool = True,
    **rewrite: Unpack[RewriteCommitOptions],
) -> RewriteResult:
    """Rewrites data files, with their deletes applied, as few large ones (`binpack`) or sorted (`sort`, `zorder`).

    Files that may have rows of the filter are rewritten if they are of a wrong size or have many deletes, where a
    partition has enough of them. The options are Java's: `target-file-size-bytes`, `min-file-size-bytes`,
    `max-file-size-bytes`, `min-input-files`, `max-file-group-size-bytes`, `max-file-group-input-files`,
    `max-files-to-rewrite`, `delete-file-threshold`, `delete-ratio-threshold`, `rewrite-all`, `output-spec-id`,
    `use-starting-sequence-number`, `remove-dangling-deletes`, `partial-progress.enabled` (several commits) and
    `partial-progress.max-commits`. `sort` sorts by `sort_order`, else by the table's order; `zorder` by columns
    that `sort_order` names, which count alike: by the bits of their first 8 bytes in turn, as Java does. Rows keep
    their ids (v3); what others change meanwhile is taken in. A dry run writes the files to know their sizes, deletes
    them again, and tells of each commit as if it were the only one. Raises ValidationError.
    """
    return compact(
        table,
        row_filter,
        strategy=strategy,
        sort_order=sort_order,
        options=options,
        case_sensitive=case_sensitive,
        **rewrite,
    )


def compact(
    table: TableHandle,
    row_filter: FilterLike,
    *,
    options: Mapping[str, Any] | None,
    strategy: str,
    sort_order: SortTerms | None,
    case_sensitive: bool = True,
    writer: GroupWriter | None = None,
    **rewrite: Unpack[RewriteCommitOptions],
) -> RewriteResult:
    """Rewrites data files as `rewrite_data_files` says, by a writer of groups where one is given."""
    from icecore.engine.maintenance.compaction_groups import CompactionOptions
    from icecore.engine.maintenance.rewrite_data_files import RewriteResult
    from icecore.engine.maintenance.rewrite_strategy import order_for

    commit, change = options_of(MetadataOptions, rewrite), options_of(RowChangeOptions, rewrite)
    planning = table_commits.transaction(table, **commit)
    chosen = CompactionOptions.of(options or {}, planning.metadata)
    order_for(strategy, sort_order, planning.metadata)
    groups = planning.file_groups(row_filter, chosen, change.get("branch", MAIN_BRANCH), case_sensitive)
    per_commit = -(-len(groups) // chosen.max_commits) if chosen.partial_progress else len(groups)
    result = RewriteResult()
    for start in range(0, len(groups), max(1, per_commit)):
        with table_commits.transaction(table, **commit) as transaction:
            compaction = transaction.rewrite_data_files(
                strategy=strategy,
                sort_order=sort_order,
                options=options,
                groups=groups[start : start + per_commit],
                **change,
            )
            if writer is not None:
                compaction.writer = writer
                # Before the commit, as the time for its attempts is limited.
                transaction._pending.part().prepare(transaction._pending.state)
        result += compaction.result.after(transaction.outcome)
    if chosen.remove_dangling_deletes:
        result += remove_dangling_deletes(table, **rewrite)
    return result


@takes_options(RewriteCommitOptions)
def rewrite_position_delete_files(
    table: TableHandle, *, options: Mapping[str, Any] | None = None, **rewrite: Unpack[RewriteCommitOptions]
) -> RewriteResult:
    """Merges the position delete files of each data file into one; in v3 into a deletion vector.

    The options are `partial-progress.enabled` (several commits), `partial-progress.max-commits` and
    `remove-dangling-deletes`, as of `rewrite_data_files`. Raises ValidationError for others, MissingFileError,
    CorruptFileError, StorageError.
    """
    return merge_deletes(table, options=options, **rewrite)


def merge_deletes(
    table: TableHandle,
    *,
    options: Mapping[str, Any] | None,
    writer: DeletesWriter | None = None,
    **rewrite: Unpack[RewriteCommitOptions],
) -> RewriteResult:
    """Merges delete files as `rewrite_position_delete_files` says, by a writer where one is given."""
    from icecore.engine.maintenance.rewrite_data_files import RewriteResult
    from icecore.engine.maintenance.rewrite_delete_files import DeleteRewriteOptions

    commit, change = options_of(MetadataOptions, rewrite), options_of(RowChangeOptions, rewrite)
    chosen, result = DeleteRewriteOptions.of(options or {}), RewriteResult()
    parts: Sequence[frozenset[str] | None] = [None]
    if chosen.partial_progress:
        planning = table_commits.transaction(table, **commit)
        parts = planning.delete_groups(change.get("branch", MAIN_BRANCH), chosen.max_commits)
    for paths in parts:
        with table_commits.transaction(table, **commit) as transaction:
            merge = transaction.rewrite_position_delete_files(**change)
            merge.paths = paths
            if writer is not None:
                merge.writer = writer
                # Before the commit, as the time for its attempts is limited.
                transaction._pending.part().prepare(transaction._pending.state)
        result += merge.result.after(transaction.outcome)
    if chosen.remove_dangling_deletes:
        result += remove_dangling_deletes(table, **rewrite)
    return result


@takes_options(RewriteCommitOptions)
def remove_dangling_deletes(table: TableHandle, **options: Unpack[RewriteCommitOptions]) -> RewriteResult:
    """Removes delete files that apply to no live data file, as rewrites and overwrites may leave them."""
    with table_commits.transaction(table, **options_of(MetadataOptions, options)) as transaction:
        removal = transaction.remove_dangling_deletes(**options_of(RowChangeOptions, options))
    return removal.result.after(transaction.outcome)


@takes_options(RewriteCommitOptions)
def rewrite_manifests(table: TableHandle, **options: Unpack[RewriteCommitOptions]) -> DryRun | None:
    """Rewrites manifests sorted by partition, of `commit.manifest.target-size-bytes`.

    No commit is made where the manifests are few and clean already. Raises NoSuchSnapshotError.
    """
    change = options_of(RowChangeOptions, options)
    return table_commits.commit_with(
        table, lambda t: t.rewrite_manifests(**change), **options_of(MetadataOptions, options)
    )


@takes_options(MetadataOptions)
def maintain(table: TableHandle, **options: Unpack[MetadataOptions]) -> Maintained:
    """All upkeep that a table's properties ask for, step by step, each a commit of its own where it changes something.

    Position deletes are merged, dangling ones removed, small data files, and those with many deletes, rewritten
    (`write.target-file-size-bytes`), manifests rewritten (`commit.manifest.target-size-bytes`), snapshots expired
    (`history.expire.*`), and orphan files older than three days deleted. Where `gc.enabled` is false the last two are
    skipped. Raises what the steps raise; those before are done then.
    """
    from icecore.engine.maintenance.maintenance import Maintained, Maintenance

    dry_run = options.get("dry_run", False)
    done = Maintained()
    if table.metadata.current_snapshot() is not None:
        deletes = rewrite_position_delete_files(table, **options) + remove_dangling_deletes(table, **options)
        done = evolve(
            done,
            compacted=_to_compact(table) if dry_run else rewrite_data_files(table, **options),
            deletes=deletes,
            rewrote_manifests=_rewrites_manifests(table, options),
        )
    if not GC_ENABLED.of(table.metadata.properties):
        return evolve(done, skipped=(f"expiry and orphan files: {GC_ENABLED.name} is false",))
    upkeep = Maintenance(table._state.stream, table._repository, table._committed, table._actor)
    message, author = options.get("message"), options.get("author")
    expiry = upkeep.expire_snapshots(message=message, author=author)
    expired = expiry.dry_run() if dry_run else expiry.commit()
    orphans = upkeep.remove_orphan_files(message=message, author=author, dry_run=dry_run)
    return evolve(done, expired=expired, orphans=orphans)


def _to_compact(table: TableHandle) -> RewriteResult:
    """The files that compaction would read, without reading them."""
    from icecore.engine.maintenance.compaction_groups import CompactionOptions
    from icecore.engine.maintenance.rewrite_data_files import RewriteResult

    planning = table_commits.transaction(table, dry_run=True)
    groups = planning.file_groups(None, CompactionOptions.of({}, planning.metadata), MAIN_BRANCH)
    return RewriteResult(rewritten_data_files=sum(len(g.paths) for g in groups))


def _rewrites_manifests(table: TableHandle, options: MetadataOptions) -> bool:
    """Rewrites manifests, or would in a dry run; returns whether there was something to rewrite."""
    before = table.metadata.current_snapshot_id
    outcome = rewrite_manifests(table, **options)
    if outcome is not None:
        return not outcome.is_empty
    # Without a commit of its own the table is as another process left it by then.
    after = table.metadata.current_snapshot()
    return after is not None and after.snapshot_id != before and "manifests-created" in (after.summary or {})


@takes_options(MetadataOptions)
def forget(
    table: TableHandle,
    *,
    columns: Sequence[str] | None = None,
    files: Sequence[str] | None = None,
    **options: Unpack[MetadataOptions],
) -> Forgotten:
    """Removes the bounds of column values from the log for good, of content files that no snapshot holds any more.

    Of all columns and files, or of those named: columns by their present or former names, with all nested in them,
    files by their paths. Positions, hashes and counts stay, so that the log verifies, can be replayed and read as of
    any position: plans of the past have a few files more. Archives are written anew; caches, free pages of the database
    and its WAL are emptied, or at the next open if others are reading the log. No other commit is made meanwhile.

    Out of reach are logs that were exported before, other copies, what other processes hold in memory, files that are
    still in storage (`left_files`), and bounds that snapshots hold (`held`). Partition values and paths stay. So do
    hashes, which also cover random bytes that are removed with the bounds; earlier releases wrote none, and the hashes
    of their events can confirm a right guess of forgotten bounds. Raises ValidationError for a named file that a
    snapshot holds, a column that the table is partitioned by, and one that it never had; ForeignCommitError,
    MissingArchiveError, StorageError; nothing is forgotten then.
    """
    from icecore.engine.events.provenance import provenance
    from icecore.engine.forget.forget import Forgetter

    table._repository.check_writable()
    who = provenance(table._actor, message=options.get("message"), author=options.get("author"))
    forgetter = Forgetter(table._repository, table._planner)
    return forgetter.bounds(table._state.stream, columns, files, who, dry_run=options.get("dry_run", False))
