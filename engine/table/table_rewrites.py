"""The rewrites of files that a table offers; they change no row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

from icecore.engine.common.keyword_options import takes_options
from icecore.engine.expression.nodes import Expression
from icecore.engine.maintenance.rewrite_strategy import BINPACK, SortTerms
from icecore.engine.spec.snapshot import MAIN_BRANCH
from icecore.engine.table.commit_options import MetadataOptions
from icecore.engine.table.table_statistics import TableStatistics

if TYPE_CHECKING:
    from icecore.engine.maintenance.rewrite_data_files import RewriteResult


class TableRewrites(TableStatistics):
    """The rewrites that a table offers, each as one commit."""

    @takes_options(MetadataOptions)
    def rewrite_data_files(
        self,
        row_filter: str | Expression | None = None,
        *,
        strategy: str = BINPACK,
        sort_order: SortTerms | None = None,
        options: Mapping[str, Any] | None = None,
        branch: str = MAIN_BRANCH,
        snapshot_properties: Mapping[str, str] | None = None,
        **commit: Unpack[MetadataOptions],
    ) -> RewriteResult:
        """Rewrites data files, with their deletes applied, as few large ones (`binpack`) or sorted (`sort`).

        Of the files that may have rows of the filter these are the ones of a wrong size, or with many deletes, where a
        partition has enough of them. The options are Java's: `target-file-size-bytes`, `min-file-size-bytes`,
        `max-file-size-bytes`, `min-input-files`, `max-file-group-size-bytes`, `max-file-group-input-files`,
        `max-files-to-rewrite`, `delete-file-threshold`, `delete-ratio-threshold`, `rewrite-all`, `output-spec-id`,
        `use-starting-sequence-number`, `remove-dangling-deletes`, `partial-progress.enabled` (several commits) and
        `partial-progress.max-commits`. `sort` sorts by `sort_order`, else by the table's order. Rows keep their ids
        (v3); what others change meanwhile is taken in. A dry run writes the files to know their sizes, deletes
        them again, and tells of each commit as if it were the only one. Raises ValidationError.
        """

        from icecore.engine.maintenance.compaction_groups import CompactionOptions
        from icecore.engine.maintenance.rewrite_data_files import RewriteResult
        from icecore.engine.maintenance.rewrite_strategy import order_for

        planning = self.transaction(**commit)
        chosen = CompactionOptions.of(options or {}, planning.metadata)
        order_for(strategy, sort_order, planning.metadata)
        groups = planning.file_groups(row_filter, chosen, branch)
        per_commit = -(-len(groups) // chosen.max_commits) if chosen.partial_progress else len(groups)
        result = RewriteResult()
        for start in range(0, len(groups), max(1, per_commit)):
            with self.transaction(**commit) as transaction:
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
            result += self.remove_dangling_deletes(branch=branch, **commit)
        return result

    @takes_options(MetadataOptions)
    def rewrite_position_delete_files(
        self, *, branch: str = MAIN_BRANCH, **options: Unpack[MetadataOptions]
    ) -> RewriteResult:
        """Merges the position delete files of each data file into one; in v3 into a deletion vector."""
        with self.transaction(**options) as transaction:
            rewrite = transaction.rewrite_position_delete_files(branch=branch)
        return rewrite.result.after(transaction.outcome)

    @takes_options(MetadataOptions)
    def remove_dangling_deletes(
        self, *, branch: str = MAIN_BRANCH, **options: Unpack[MetadataOptions]
    ) -> RewriteResult:
        """Removes delete files that apply to no live data file, as rewrites and overwrites may leave them."""
        with self.transaction(**options) as transaction:
            rewrite = transaction.remove_dangling_deletes(branch=branch)
        return rewrite.result.after(transaction.outcome)
