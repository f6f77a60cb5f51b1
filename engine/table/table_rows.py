"""The changes of a table's rows, each as one commit; what their options mean is in `table/commit_options.py`.

With `dry_run` nothing is stored, and the result says what the commit would be. A change that is given a
`base_snapshot_id` (what the caller read) or an `isolation_level` ("serializable" or "snapshot") is of the rows of that
base, and raises ConflictingCommitsError where another commit got in its way: see
`operations/conflict_validation.py`. `message` and `author` are for the log, `branch` is main unless given,
`snapshot_properties` go into the snapshot's summary, and with the same `idempotency_key` nothing is done twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from attrs import evolve

from icecore.engine.common.keyword_options import options_of, takes_options
from icecore.engine.expression.sql.parse import FilterLike
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.table import table_commits
from icecore.engine.table.commit_options import (
    RENAMED,
    BasedChangeOptions,
    BasedOptions,
    CommitOptions,
    PinnedChangeOptions,
    PinnedOptions,
    RowChangeOptions,
    RowOptions,
)
from icecore.engine.table.table_handle import TableHandle

if TYPE_CHECKING:
    from icecore.engine.commit.dry_run import DryRun
    from icecore.engine.operations.upsert import UpsertResult
    from icecore.engine.table.transaction import Transaction


@takes_options(RowOptions, RENAMED)
def append(table: TableHandle, df: Any, *, merge_schema: bool = False, **options: Unpack[RowOptions]) -> DryRun | None:
    """Appends Arrow, pandas, polars or Spark data as one commit. Columns are matched by name.

    With `merge_schema` the commit adds the columns that only the data has, as optional ones, and promotes types that
    the data's are wider than, where the spec allows it (T7). Raises ValidationError where the data does not fit the
    schema, NoSuchSnapshotError for an unknown branch.
    """
    with table_commits.transaction(table, **options_of(CommitOptions, options)) as transaction:
        transaction.append(_fitting(transaction, df, merge_schema), **options_of(RowChangeOptions, options))
    return transaction.outcome


@takes_options(PinnedOptions, RENAMED)
def overwrite(
    table: TableHandle,
    df: Any,
    overwrite_filter: FilterLike = None,
    *,
    case_sensitive: bool = True,
    merge_schema: bool = False,
    **options: Unpack[PinnedOptions],
) -> DryRun | None:
    """Replaces the rows that match the filter, all rows without one, by the data, in one commit.

    With `merge_schema` the table gets what only the data has, as by `append`; the filter may name it.
    """
    with table_commits.transaction(table, **options_of(CommitOptions, options)) as transaction:
        df = _fitting(transaction, df, merge_schema)
        transaction.overwrite(
            df, overwrite_filter, case_sensitive=case_sensitive, **options_of(PinnedChangeOptions, options)
        )
    return transaction.outcome


@takes_options(PinnedOptions, RENAMED)
def dynamic_partition_overwrite(table: TableHandle, df: Any, **options: Unpack[PinnedOptions]) -> DryRun | None:
    """Replaces the partitions that the data has, and leaves all others as they are, in one commit.

    Raises ValidationError for an unpartitioned table.
    """
    with table_commits.transaction(table, **options_of(CommitOptions, options)) as transaction:
        transaction.dynamic_partition_overwrite(df, **options_of(PinnedChangeOptions, options))
    return transaction.outcome


@takes_options(PinnedOptions, RENAMED)
def upsert(
    table: TableHandle,
    df: Any,
    join_cols: Sequence[str] | None = None,
    *,
    when_matched_update_all: bool = True,
    when_not_matched_insert_all: bool = True,
    case_sensitive: bool = True,
    **options: Unpack[PinnedOptions],
) -> UpsertResult:
    """Updates the rows whose keys the data has and inserts the others, in one commit.

    The keys are `join_cols`, else the identifier fields; null equals null. Rows that would stay the same are not
    written again; with a base or an isolation level the keys are looked up there. A dry run is told of in the result's
    `outcome`. Raises ValidationError where a key is twice in the data, or a key to update twice in the table.
    """
    with table_commits.transaction(table, **options_of(CommitOptions, options)) as transaction:
        upsert = transaction.upsert(
            df,
            join_cols,
            when_matched_update_all=when_matched_update_all,
            when_not_matched_insert_all=when_not_matched_insert_all,
            case_sensitive=case_sensitive,
            **options_of(PinnedChangeOptions, options),
        )
    return evolve(upsert.result, outcome=transaction.outcome)


@takes_options(PinnedOptions)
def delete(
    table: TableHandle,
    delete_filter: FilterLike = None,
    *,
    case_sensitive: bool = True,
    **options: Unpack[PinnedOptions],
) -> DryRun | None:
    """Deletes the rows that match the filter: whole files where all their rows do, else as `write.delete.mode` says."""
    with table_commits.transaction(table, **options_of(CommitOptions, options)) as transaction:
        transaction.delete(delete_filter, case_sensitive=case_sensitive, **options_of(PinnedChangeOptions, options))
    return transaction.outcome


@takes_options(RowOptions)
def delete_keys(
    table: TableHandle, keys: Any, key_columns: Sequence[str] = (), **options: Unpack[RowOptions]
) -> DryRun | None:
    """Deletes the rows that equal one of `keys` in the key columns, the identifier fields unless named.

    Equality delete files are written and nothing is read, so this is quick to write and slow to read. Raises
    ValidationError for a v1 table, and where the keys don't tell the partition.
    """
    with table_commits.transaction(table, **options_of(CommitOptions, options)) as transaction:
        transaction.delete_keys(keys, key_columns, **options_of(RowChangeOptions, options))
    return transaction.outcome


@takes_options(RowOptions)
def add_files(
    table: TableHandle, file_paths: Iterable[str], *, check_duplicate_files: bool = True, **options: Unpack[RowOptions]
) -> DryRun | None:
    """Adds existing Parquet files as they are.

    A column of an identity partition that a file lacks is read from its path, as in `city=Oslo/a.parquet` (P1).
    Raises ValidationError where a file's schema or partition does not fit, or it is in the table already.
    """
    with table_commits.transaction(table, **options_of(CommitOptions, options)) as transaction:
        transaction.add_files(
            file_paths, check_duplicate_files=check_duplicate_files, **options_of(RowChangeOptions, options)
        )
    return transaction.outcome


@takes_options(RowOptions)
def append_files(table: TableHandle, files: Iterable[ContentFile], **options: Unpack[RowOptions]) -> DryRun | None:
    """Appends data files that a writer described already. Raises ValidationError."""
    with table_commits.transaction(table, **options_of(CommitOptions, options)) as transaction:
        transaction.append_files(files, **options_of(RowChangeOptions, options))
    return transaction.outcome


@takes_options(PinnedOptions)
def row_delta(
    table: TableHandle,
    data_files: Iterable[ContentFile] = (),
    delete_files: Iterable[ContentFile] = (),
    *,
    conflict_filter: FilterLike = None,
    **options: Unpack[PinnedOptions],
) -> DryRun | None:
    """Adds data files and delete files that were written already; see `Transaction.row_delta`.

    Raises ConflictingCommitsError where files with deleted rows are not as they were at the base.
    """
    with table_commits.transaction(table, **options_of(CommitOptions, options)) as transaction:
        transaction.row_delta(
            data_files, delete_files, conflict_filter=conflict_filter, **options_of(PinnedChangeOptions, options)
        )
    return transaction.outcome


@takes_options(PinnedOptions)
def overwrite_files(
    table: TableHandle,
    delete: Iterable[str | ContentFile] = (),
    add: Iterable[ContentFile] = (),
    *,
    conflict_filter: FilterLike = None,
    **options: Unpack[PinnedOptions],
) -> DryRun | None:
    """Removes data files and adds others that were written already; see `Transaction.overwrite_files`.

    Raises ConflictingCommitsError where the files to remove have changed since the base.
    """
    with table_commits.transaction(table, **options_of(CommitOptions, options)) as transaction:
        transaction.overwrite_files(
            delete, add, conflict_filter=conflict_filter, **options_of(PinnedChangeOptions, options)
        )
    return transaction.outcome


@takes_options(BasedOptions)
def rewrite_files(
    table: TableHandle,
    delete_files: Iterable[str | ContentFile],
    add_files: Iterable[ContentFile] = (),
    *,
    data_sequence_number: int | None = None,
    **options: Unpack[BasedOptions],
) -> DryRun | None:
    """Replaces data files by others that hold the same rows; see `Transaction.rewrite_files`.

    Raises ConflictingCommitsError where the files to remove have changed since the base.
    """
    with table_commits.transaction(table, **options_of(CommitOptions, options)) as transaction:
        transaction.rewrite_files(
            delete_files,
            add_files,
            data_sequence_number=data_sequence_number,
            **options_of(BasedChangeOptions, options),
        )
    return transaction.outcome


def _fitting(transaction: Transaction, df: Any, merge_schema: bool) -> Any:
    """The data; with `merge_schema` once the transaction's schema has its columns."""
    if not merge_schema:
        return df
    from icecore.engine.table.merged_schema import taken_in

    return taken_in(transaction, df)
