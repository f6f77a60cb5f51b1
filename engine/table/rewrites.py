"""Rewrites of files that change no row: what a transaction can make of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from icecore.engine.common.keyword_options import takes_options
from icecore.engine.errors import ValidationError
from icecore.engine.evolution.update_sort_order import evolve_sort_order
from icecore.engine.expression.bind import bind
from icecore.engine.expression.nodes import Expression
from icecore.engine.expression.sql.parse import parse_filter
from icecore.engine.maintenance.compaction_groups import CompactionOptions, FileGroup, groups_of
from icecore.engine.maintenance.rewrite_data_files import Compaction, plan_compaction
from icecore.engine.maintenance.rewrite_delete_files import DeleteRewrite, plan_dangling_removal, plan_delete_rewrite
from icecore.engine.maintenance.rewrite_strategy import BINPACK, SORT, SortTerms
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.snapshot import MAIN_BRANCH
from icecore.engine.spec.sort import SortOrder
from icecore.engine.table.commit_options import RowChangeOptions
from icecore.engine.table.row_changes import RowChanges


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

    @takes_options(RowChangeOptions)
    def rewrite_data_files(
        self,
        row_filter: str | Expression | None = None,
        *,
        strategy: str = BINPACK,
        sort_order: SortTerms | None = None,
        options: Mapping[str, Any] | None = None,
        groups: Sequence[FileGroup] | None = None,
        **change: Unpack[RowChangeOptions],
    ) -> Compaction:
        """Writes data files again as larger ones, or sorted; the answer's `result` is set at commit.

        `groups` says which, else the options do: see `Table.rewrite_data_files`.
        """
        self._check_first_change()
        branch = self._branch(change)
        found = CompactionOptions.of(options or {}, self._metadata)
        order = order_for(strategy, sort_order, self._metadata)
        chosen = self.file_groups(row_filter, found, branch) if groups is None else groups
        target = self._target(branch, change)
        compaction = Compaction.of(target, found, order, chosen)
        if chosen:
            self._plan(
                lambda state, metadata: plan_compaction(
                    self._repository, self._planner, state, metadata, compaction, self._storage
                )
            )
        return compaction

    @takes_options(RowChangeOptions)
    def rewrite_position_delete_files(self, **options: Unpack[RowChangeOptions]) -> DeleteRewrite:
        """Merges the position delete files of each data file: see `Table.rewrite_position_delete_files`."""
        rewrite = self._delete_rewrite(options)
        self._plan(
            lambda state, metadata: plan_delete_rewrite(
                self._repository, self._planner, state, metadata, rewrite, self._storage
            )
        )
        return rewrite

    @takes_options(RowChangeOptions)
    def remove_dangling_deletes(self, **options: Unpack[RowChangeOptions]) -> DeleteRewrite:
        """Drops the delete files that apply to no live data file."""
        rewrite = self._delete_rewrite(options)
        self._plan(
            lambda state, metadata: plan_dangling_removal(self._repository, self._planner, state, metadata, rewrite)
        )
        return rewrite

    def _delete_rewrite(self, options: RowChangeOptions) -> DeleteRewrite:
        self._check_first_change()
        return DeleteRewrite(self._target(self._branch(options), options))


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
