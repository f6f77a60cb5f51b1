"""Rewrites of files that change no row: what a transaction can make of them, and what a table offers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from icecore.engine.compaction import CompactionOptions, FileGroup, groups_of
from icecore.engine.errors import ValidationError
from icecore.engine.expression.bind import bind
from icecore.engine.expression.nodes import Expression
from icecore.engine.expression.parse import parse_filter
from icecore.engine.removal import Target
from icecore.engine.rewrite_data_files import Compaction, RewriteResult, plan_compaction
from icecore.engine.rewrite_deletes import DeleteRewrite, plan_dangling_removal, plan_delete_rewrite
from icecore.engine.row_changes import RowChanges
from icecore.engine.sort_update import evolve_sort_order
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.snapshot import MAIN_BRANCH
from icecore.engine.spec.sort import SortOrder
from icecore.engine.terms import SortTerm

if TYPE_CHECKING:
    from icecore.engine.transaction import Transaction

SortTerms = Sequence[str | SortTerm] | SortOrder
BINPACK = "binpack"
SORT = "sort"


class Rewrites(RowChanges):
    """Gathers rewrites; each must be the first change of rows in its transaction."""

    def file_groups(
        self, row_filter: str | Expression | None, options: CompactionOptions, branch: str = MAIN_BRANCH
    ) -> list[FileGroup]:
        """The groups of data files that are worth being written again, of those that may have rows of the filter."""
        snapshot = self._metadata.snapshot_by_ref(branch)
        schema = self._metadata.schema()
        bound = bind(parse_filter(row_filter), schema)
        return groups_of(self._planner.plan(self._state, snapshot, bound, schema), options)

    def rewrite_data_files(
        self,
        row_filter: str | Expression | None = None,
        *,
        strategy: str = BINPACK,
        sort_order: SortTerms | None = None,
        options: Mapping[str, Any] | None = None,
        branch: str = MAIN_BRANCH,
        snapshot_properties: Mapping[str, str] | None = None,
        groups: Sequence[FileGroup] | None = None,
    ) -> Compaction:
        """Writes data files again as larger ones, or sorted; the answer's `result` is set at commit.

        `groups` says which, else the options do: see `Table.rewrite_data_files`.
        """
        self._check_first_change()
        branch = self._branch(branch, snapshot_properties)
        found = CompactionOptions.of(options or {}, self._metadata)
        order = order_for(strategy, sort_order, self._metadata)
        chosen = self.file_groups(row_filter, found, branch) if groups is None else groups
        target = Target(branch, self._new_snapshot_id(), dict(snapshot_properties or {}))
        compaction = Compaction.of(target, found, order, chosen)
        if chosen:
            self._plan(
                lambda state, metadata: plan_compaction(
                    self._repository, self._planner, state, metadata, compaction, self._storage
                )
            )
        return compaction

    def rewrite_position_delete_files(
        self, *, branch: str = MAIN_BRANCH, snapshot_properties: Mapping[str, str] | None = None
    ) -> DeleteRewrite:
        """Merges the position delete files of each data file: see `Table.rewrite_position_delete_files`."""
        rewrite = self._delete_rewrite(branch, snapshot_properties)
        self._plan(
            lambda state, metadata: plan_delete_rewrite(
                self._repository, self._planner, state, metadata, rewrite, self._storage
            )
        )
        return rewrite

    def remove_dangling_deletes(
        self, *, branch: str = MAIN_BRANCH, snapshot_properties: Mapping[str, str] | None = None
    ) -> DeleteRewrite:
        """Drops the delete files that apply to no live data file."""
        rewrite = self._delete_rewrite(branch, snapshot_properties)
        self._plan(
            lambda state, metadata: plan_dangling_removal(self._repository, self._planner, state, metadata, rewrite)
        )
        return rewrite

    def _delete_rewrite(self, branch: str, snapshot_properties: Mapping[str, str] | None) -> DeleteRewrite:
        self._check_first_change()
        branch = self._branch(branch, snapshot_properties)
        return DeleteRewrite(Target(branch, self._new_snapshot_id(), dict(snapshot_properties or {})))


class TableRewrites:
    """The rewrites that a table offers, each as one commit."""

    def _transaction(
        self, message: str | None, author: str | None, idempotency_key: str | None, dry_run: bool = False
    ) -> Transaction:
        raise NotImplementedError

    def rewrite_data_files(
        self,
        row_filter: str | Expression | None = None,
        *,
        strategy: str = BINPACK,
        sort_order: SortTerms | None = None,
        options: Mapping[str, Any] | None = None,
        message: str | None = None,
        author: str | None = None,
        branch: str = MAIN_BRANCH,
        snapshot_properties: Mapping[str, str] | None = None,
        dry_run: bool = False,
    ) -> RewriteResult:
        """Writes data files again, with their deletes applied, as few large ones (`binpack`) or sorted (`sort`).

        Of the files that may have rows of the filter these are the ones of a wrong size, or with many deletes, where a
        partition has enough of them. The options are Java's: `target-file-size-bytes`, `min-file-size-bytes`,
        `max-file-size-bytes`, `min-input-files`, `max-file-group-size-bytes`, `max-file-group-input-files`,
        `max-files-to-rewrite`, `delete-file-threshold`, `delete-ratio-threshold`, `rewrite-all`, `output-spec-id`,
        `use-starting-sequence-number`, `remove-dangling-deletes`, `partial-progress.enabled` (several commits) and
        `partial-progress.max-commits`. `sort` sorts by `sort_order`, else by the table's order. Rows keep their ids
        (v3); what others change meanwhile is taken in. A dry run writes the files to know their sizes, deletes
        them again, and tells of each commit as if it were the only one. Raises ValidationError.
        """
        planning = self._transaction(message, author, None)
        chosen = CompactionOptions.of(options or {}, planning.metadata)
        order_for(strategy, sort_order, planning.metadata)
        groups = planning.file_groups(row_filter, chosen, branch)
        per_commit = -(-len(groups) // chosen.max_commits) if chosen.partial_progress else len(groups)
        result = RewriteResult()
        for start in range(0, len(groups), max(1, per_commit)):
            with self._transaction(message, author, None, dry_run) as transaction:
                compaction = transaction.rewrite_data_files(
                    strategy=strategy,
                    sort_order=sort_order,
                    options=options,
                    branch=branch,
                    snapshot_properties=snapshot_properties,
                    groups=groups[start : start + per_commit],
                )
            result += compaction.result.after(transaction.outcome)
        if chosen.remove_dangling_deletes:
            result += self.remove_dangling_deletes(message=message, author=author, branch=branch, dry_run=dry_run)
        return result

    def rewrite_position_delete_files(
        self,
        *,
        message: str | None = None,
        author: str | None = None,
        branch: str = MAIN_BRANCH,
        dry_run: bool = False,
    ) -> RewriteResult:
        """Puts one position delete file in the place of several about one data file; in v3 a deletion vector."""
        with self._transaction(message, author, None, dry_run) as transaction:
            rewrite = transaction.rewrite_position_delete_files(branch=branch)
        return rewrite.result.after(transaction.outcome)

    def remove_dangling_deletes(
        self,
        *,
        message: str | None = None,
        author: str | None = None,
        branch: str = MAIN_BRANCH,
        dry_run: bool = False,
    ) -> RewriteResult:
        """Drops the delete files that apply to no live data file, as they may be left by rewrites and overwrites."""
        with self._transaction(message, author, None, dry_run) as transaction:
            rewrite = transaction.remove_dangling_deletes(branch=branch)
        return rewrite.result.after(transaction.outcome)


def order_for(strategy: str, terms: SortTerms | None, metadata: TableMetadata) -> SortOrder | None:
    """The order to sort by, None for `binpack`. Raises ValidationError for another strategy, or without any order."""
    if strategy not in (BINPACK, SORT):
        raise ValidationError(f"the strategy must be {BINPACK} or {SORT}, found {strategy!r}")
    if strategy == BINPACK:
        if terms is not None:
            raise ValidationError(f"a sort order is for the strategy {SORT}")
        return None
    order = (
        metadata.sort_order() if terms is None else evolve_sort_order(metadata.sort_orders, terms, metadata.schema())
    )
    if order.is_unsorted:
        raise ValidationError(f"the strategy {SORT} needs a sort order: the table has none")
    return order
