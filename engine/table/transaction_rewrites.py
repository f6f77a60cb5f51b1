"""The rewrites of a transaction: of files by name, manifests, data files and delete files. They change no row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, Unpack

from icecore.engine.common.keyword_options import takes_options
from icecore.engine.errors import ValidationError
from icecore.engine.expression.bind import bind
from icecore.engine.expression.nodes import TRUE
from icecore.engine.expression.sql.parse import FilterLike, parse_filter
from icecore.engine.maintenance.compaction_groups import CompactionOptions, FileGroup, groups_of
from icecore.engine.maintenance.rewrite_data_files import Compaction
from icecore.engine.maintenance.rewrite_delete_files import (
    DanglingDeletes,
    DeleteRewrite,
    sharing_deletes,
    worth_merging,
)
from icecore.engine.maintenance.rewrite_strategy import BINPACK, SortTerms, order_for
from icecore.engine.operations.replace_files import FileChange
from icecore.engine.operations.rewrite_manifests import RewriteManifests
from icecore.engine.properties.table_properties import UPDATE_ISOLATION
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.snapshot import MAIN_BRANCH
from icecore.engine.table.commit_options import BasedChangeOptions, RowChangeOptions
from icecore.engine.table.pending_commit import PendingCommit


class TransactionHandle(Protocol):
    """A transaction as its rewrites take it."""

    _pending: PendingCommit

    @property
    def metadata(self) -> TableMetadata: ...

    def file_groups(
        self,
        row_filter: FilterLike,
        options: CompactionOptions,
        branch: str = MAIN_BRANCH,
        case_sensitive: bool = True,
    ) -> list[FileGroup]: ...


@takes_options(BasedChangeOptions)
def rewrite_files(
    transaction: TransactionHandle,
    delete_files: Iterable[str | ContentFile],
    add_files: Iterable[ContentFile] = (),
    *,
    data_sequence_number: int | None = None,
    **options: Unpack[BasedChangeOptions],
) -> None:
    """Replaces data files by others that hold the same rows; delete files among `delete_files` are dropped.

    The replaced files must be as they were at the base, by default the snapshot that the table showed; as no row
    changes, there is no isolation level. With the data sequence number of the base new equality deletes are
    no conflict where they apply to all of the new files too. In a v3 table the new files must bring the rows' lineage
    (RL6).
    """
    pending, branch = transaction._pending, transaction._pending.first_branch(options)
    base = pending.base(branch, {"base_snapshot_id": options.get("base_snapshot_id")}, UPDATE_ISOLATION)
    target = pending.target(branch, options)
    change = FileChange.of(
        target, base, delete_files, add_files, is_rewrite=True, data_sequence_number=data_sequence_number
    )
    pending.add_writing(change, given=change.added)


@takes_options(RowChangeOptions)
def rewrite_manifests(transaction: TransactionHandle, **options: Unpack[RowChangeOptions]) -> None:
    """Rewrites a branch's manifests sorted by partition, of the target size. Raises ValidationError."""
    branch = _branch(transaction, options)
    if transaction._pending.has_snapshots:
        raise ValidationError("manifests can't be rewritten in a transaction that has changed rows before")
    transaction._pending.add_action(RewriteManifests(transaction._pending.target(branch, options)))


def file_groups(
    transaction: TransactionHandle,
    row_filter: FilterLike,
    options: CompactionOptions,
    branch: str = MAIN_BRANCH,
    case_sensitive: bool = True,
) -> list[FileGroup]:
    """The groups of data files that are worth rewriting, of those that may have rows of the filter."""
    snapshot, schema = transaction.metadata.snapshot_by_ref(branch), transaction.metadata.schema()
    bound = bind(parse_filter(row_filter), schema, case_sensitive)
    return groups_of(
        transaction._pending.planning.planner.plan(transaction._pending.state, snapshot, bound, schema), options
    )


@takes_options(RowChangeOptions)
def rewrite_data_files(
    transaction: TransactionHandle,
    row_filter: FilterLike = None,
    *,
    strategy: str = BINPACK,
    sort_order: SortTerms | None = None,
    options: Mapping[str, Any] | None = None,
    case_sensitive: bool = True,
    groups: Sequence[FileGroup] | None = None,
    **change: Unpack[RowChangeOptions],
) -> Compaction:
    """Rewrites data files as larger ones, or sorted; the answer's `result` is set at commit.

    `groups` says which, else the options do: see `Table.rewrite_data_files`.
    """
    branch = _first_branch(transaction, change)
    parsed = CompactionOptions.of(options or {}, transaction.metadata)
    order = order_for(strategy, sort_order, transaction.metadata)
    chosen = transaction.file_groups(row_filter, parsed, branch, case_sensitive) if groups is None else groups
    compaction = Compaction.of(transaction._pending.target(branch, change), parsed, order, chosen)
    if chosen:
        transaction._pending.add_writing(compaction)
    return compaction


def delete_groups(transaction: TransactionHandle, branch: str, most: int) -> list[frozenset[str]]:
    """The data files whose position deletes are to be merged, in up to so many parts that share no delete file."""
    metadata, snapshot = transaction.metadata, transaction.metadata.snapshot_by_ref(branch)
    if snapshot is None:
        return []
    planner, state = transaction._pending.planning.planner, transaction._pending.state
    tasks = planner.tasks(state, snapshot, TRUE, metadata.schema())
    groups = sharing_deletes(worth_merging(tasks, metadata), metadata)
    parts = [groups[len(groups) * i // most : len(groups) * (i + 1) // most] for i in range(most)]
    return [frozenset(t.file.file_path for group in part for t in group) for part in parts if part]


@takes_options(RowChangeOptions)
def rewrite_position_delete_files(transaction: TransactionHandle, **options: Unpack[RowChangeOptions]) -> DeleteRewrite:
    """Merges the position delete files of each data file: see `Table.rewrite_position_delete_files`."""
    rewrite = DeleteRewrite(transaction._pending.target(_first_branch(transaction, options), options))
    transaction._pending.add_writing(rewrite)
    return rewrite


@takes_options(RowChangeOptions)
def remove_dangling_deletes(transaction: TransactionHandle, **options: Unpack[RowChangeOptions]) -> DanglingDeletes:
    """Removes delete files that apply to no live data file."""
    removal = DanglingDeletes(transaction._pending.target(_first_branch(transaction, options), options))
    transaction._pending.add_writing(removal)
    return removal


def _branch(transaction: TransactionHandle, options: RowChangeOptions) -> str:
    """The branch of a rewrite, which must be there: one that is made from main has nothing of its own to rewrite.

    Raises NoSuchSnapshotError, ValidationError.
    """
    if transaction._pending.answered is None:
        transaction._pending.check_branch(options.get("branch", MAIN_BRANCH))
    return transaction._pending.branch(options)


def _first_branch(transaction: TransactionHandle, options: RowChangeOptions) -> str:
    """As `_branch`, for a rewrite that must be the transaction's first change of rows."""
    transaction._pending.check_first_change()
    return _branch(transaction, options)
