"""Transactions of changes whose files are written from the rows of a base, before the commit begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

from icecore.engine.commit.dry_run import summaries_of
from icecore.engine.common.keyword_options import takes_options
from icecore.engine.expression.nodes import FALSE, TRUE
from icecore.engine.operations.action import PlanContext
from icecore.engine.operations.conflict_validation import CommitBase, isolation_level
from icecore.engine.operations.delete_by_filter import DeleteByFilter
from icecore.engine.operations.replace_files import DecidedChange, DecidedRows
from icecore.engine.properties.table_properties import UPDATE_ISOLATION, KnownProperty
from icecore.engine.spark.change.session_audit import audited_rows
from icecore.engine.spec.snapshot import Snapshot
from icecore.engine.table.commit_options import CommitOptions, PinnedChangeOptions, provenance_of
from icecore.engine.table.table_handle import TableHandle
from icecore.engine.table.transaction import Transaction


class DecidingTransaction(Transaction):
    """A transaction whose change of rows is decided by the caller."""

    @classmethod
    def of(cls, table: TableHandle, options: CommitOptions) -> DecidingTransaction:
        """A transaction on a table. Raises ReadOnlyError, NoSuchTableError."""
        table._repository.check_writable()
        who = provenance_of(table._actor, options)
        dry_run = options.get("dry_run", False)
        return cls(table._repository, table._planning, table._state, who, table._committed, dry_run)

    @takes_options(PinnedChangeOptions)
    def decide(
        self,
        decide: Callable[[PlanContext, Snapshot | None], DecidedRows],
        isolation: KnownProperty[str],
        **options: Unpack[PinnedChangeOptions],
    ) -> DecidedRows:
        """Adds the change that `decide` makes on a base: the snapshot that is named, else the head of the branch.

        `decide` is called at once, and must delete its files if it raises; after an earlier call with the same
        idempotency key that call's summary is given again instead. The commit raises ConflictingCommitsError where
        rows or files that `decide` read or touched have changed. `isolation` is the property of the isolation level.
        """
        pending, branch = self._pending, self._pending.first_branch(options)
        if pending.answered is not None:
            made = summaries_of(pending.answered.payload)
            return DecidedRows(summary=made[-1] if made else {})
        base, at = self._base(branch, options, isolation), pending.context
        snapshot_id = base.base_snapshot_id
        rows = decide(at, None if snapshot_id is None else at.metadata.find_snapshot(snapshot_id))
        pending.take_written(rows.added)
        pending.rely_on_columns(rows.added)
        pending.add_writing(DecidedChange(pending.target(branch, options), base, at.metadata.format_version, rows))
        return rows

    @takes_options(PinnedChangeOptions)
    def replace_only_partition(self, df: Any, **options: Unpack[PinnedChangeOptions]) -> None:
        """Replaces all rows of a table without partitions by the data; data without rows replaces nothing."""
        options = audited_rows(df, self.metadata, options)
        pending, branch = self._pending, self._pending.first_branch(options)
        base = pending.base_if_named(branch, options, UPDATE_ISOLATION)
        added, target = tuple(pending.write(df)), pending.target(branch, options)
        pending.add_writing(DeleteByFilter(target, TRUE if added else FALSE, added, base, pending.reusable))

    def _base(self, branch: str, options: PinnedChangeOptions, known: KnownProperty[str]) -> CommitBase:
        if options.get("base_snapshot_id") is not None:
            return self._pending.base(branch, options, known)
        head = self.metadata.head_for_commit(branch)
        level = isolation_level(self.metadata.properties, known, options.get("isolation_level"))
        return CommitBase(None if head is None else head.snapshot_id, level)
