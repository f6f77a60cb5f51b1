"""The transactions of a table, and its changes of metadata, each as one commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Unpack

from icecore.engine.common.keyword_options import takes_options
from icecore.engine.table.commit_options import CommitOptions, provenance_of
from icecore.engine.table.table_handle import TableHandle

if TYPE_CHECKING:
    from icecore.engine.commit.dry_run import DryRun
    from icecore.engine.evolution.manage_snapshots import ManageSnapshots
    from icecore.engine.evolution.schema_ops import SchemaOp
    from icecore.engine.evolution.update_schema import UpdateSchema
    from icecore.engine.evolution.update_sort_order import UpdateSortOrder
    from icecore.engine.evolution.update_spec import UpdateSpec
    from icecore.engine.table.transaction import Transaction


@takes_options(CommitOptions)
def transaction(table: TableHandle, **options: Unpack[CommitOptions]) -> Transaction:
    """Several changes as one commit and one event: all or nothing, made when the `with` block ends well.

    With `message` and `author` for the log; with an `idempotency_key` it is made once. With `dry_run` nothing is
    stored, and `outcome` says what the commit would be. Raises ReadOnlyError, NoSuchTableError.
    """
    from icecore.engine.table.transaction import Transaction

    table._repository.check_writable()
    who = provenance_of(table._actor, options)
    dry_run = options.get("dry_run", False)
    return Transaction(table._repository, table._planning, table._state, who, table._committed, dry_run, table)


def commit_with(
    table: TableHandle, change: Callable[[Transaction], object], **options: Unpack[CommitOptions]
) -> DryRun | None:
    """Makes one change as a commit, or says what it would be."""
    with transaction(table, **options) as changes:
        change(changes)
    return changes.outcome


@takes_options(CommitOptions)
def update_schema(
    table: TableHandle,
    allow_incompatible_changes: bool = False,
    case_sensitive: bool = True,
    **options: Unpack[CommitOptions],
) -> UpdateSchema:
    """An update of the schema, committed by its `commit()` or the end of a `with` block."""
    from icecore.engine.evolution.update_schema import UpdateSchema

    def change(ops: Sequence[SchemaOp]) -> DryRun | None:
        how = {"allow_incompatible_changes": allow_incompatible_changes, "case_sensitive": case_sensitive}
        return commit_with(table, lambda t: t.change_schema(ops, **how), **options)

    return UpdateSchema(change, table._state.identifier)


@takes_options(CommitOptions)
def update_spec(table: TableHandle, case_sensitive: bool = True, **options: Unpack[CommitOptions]) -> UpdateSpec:
    """An update of the partition spec, committed by its `commit()` or the end of a `with` block."""
    from icecore.engine.evolution.update_spec import UpdateSpec

    return UpdateSpec(
        lambda ops: commit_with(table, lambda t: t.change_spec(ops, case_sensitive=case_sensitive), **options),
        table._state.identifier,
    )


@takes_options(CommitOptions)
def update_sort_order(
    table: TableHandle, case_sensitive: bool = True, **options: Unpack[CommitOptions]
) -> UpdateSortOrder:
    """An update of the sort order, committed by its `commit()` or the end of a `with` block."""
    from icecore.engine.evolution.update_sort_order import UpdateSortOrder

    return UpdateSortOrder(
        lambda terms: commit_with(
            table, lambda t: t.change_sort_order(terms, case_sensitive=case_sensitive), **options
        ),
        table._state.identifier,
    )


@takes_options(CommitOptions)
def manage_snapshots(table: TableHandle, **options: Unpack[CommitOptions]) -> ManageSnapshots:
    """An update of branches and tags, committed by its `commit()` or the end of a `with` block."""
    from icecore.engine.evolution.manage_snapshots import ManageSnapshots

    return ManageSnapshots(
        lambda ops: commit_with(table, lambda t: t.change_refs(ops), **options), table._state.identifier
    )


@takes_options(CommitOptions)
def set_properties(table: TableHandle, updates: Mapping[str, str], **options: Unpack[CommitOptions]) -> DryRun | None:
    """Sets properties. Raises ValidationError for a reserved one, or a value that it can't have."""
    from icecore.engine.evolution.metadata_commands import changed_properties

    return commit_with(table, lambda t: t.add(changed_properties(updates, ())), **options)


@takes_options(CommitOptions)
def remove_properties(table: TableHandle, *keys: str, **options: Unpack[CommitOptions]) -> DryRun | None:
    """Removes properties; missing ones are ignored."""
    from icecore.engine.evolution.metadata_commands import changed_properties

    return commit_with(table, lambda t: t.add(changed_properties({}, keys)), **options)


@takes_options(CommitOptions)
def upgrade(table: TableHandle, format_version: int, **options: Unpack[CommitOptions]) -> DryRun | None:
    """Raises the format version. Raises ValidationError for a lower one, or one above 3."""
    from icecore.engine.evolution.metadata_commands import upgraded

    return commit_with(table, lambda t: t.add(upgraded(format_version)), **options)
