"""The changes of rows that a table offers, each a commit of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import evolve

from icecore.engine.expression.nodes import Expression
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.spec.snapshot import MAIN_BRANCH
from icecore.engine.table.table_reads import TableReads

if TYPE_CHECKING:
    from icecore.engine.commit.dry_run import DryRun
    from icecore.engine.operations.upsert import UpsertResult

Filter = str | Expression | None


class TableRows(TableReads):
    """Changes of a table's rows.

    With `dry_run` nothing is stored, and the result says what the commit would be. A change that is given a base
    snapshot (what the caller read) or an isolation level ("serializable" or "snapshot") is of the rows of that base,
    and raises ConflictingCommitsError where another commit got in its way: see `operations/conflict_validation.py`.
    """

    def append(
        self,
        data: Any,
        *,
        message: str | None = None,
        author: str | None = None,
        branch: str = MAIN_BRANCH,
        snapshot_properties: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> DryRun | None:
        """Appends Arrow, pandas, polars or Spark data as one commit. Columns are matched by name.

        Raises ValidationError where the data does not fit the schema, NoSuchSnapshotError for an unknown branch.
        """
        with self._transaction(message, author, idempotency_key, dry_run) as transaction:
            transaction.append(data, branch=branch, snapshot_properties=snapshot_properties)
        return transaction.outcome

    def overwrite(
        self,
        data: Any,
        overwrite_filter: Filter = None,
        *,
        base_snapshot_id: int | None = None,
        isolation_level: str | None = None,
        message: str | None = None,
        author: str | None = None,
        branch: str = MAIN_BRANCH,
        snapshot_properties: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> DryRun | None:
        """Replaces the rows that match the filter, all rows without one, by the data, in one commit."""
        with self._transaction(message, author, idempotency_key, dry_run) as transaction:
            transaction.overwrite(
                data,
                overwrite_filter,
                base_snapshot_id=base_snapshot_id,
                isolation_level=isolation_level,
                branch=branch,
                snapshot_properties=snapshot_properties,
            )
        return transaction.outcome

    def dynamic_partition_overwrite(
        self,
        data: Any,
        *,
        base_snapshot_id: int | None = None,
        isolation_level: str | None = None,
        message: str | None = None,
        author: str | None = None,
        branch: str = MAIN_BRANCH,
        snapshot_properties: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> DryRun | None:
        """Replaces the partitions that the data has, and leaves all others as they are, in one commit.

        Raises ValidationError for an unpartitioned table.
        """
        with self._transaction(message, author, idempotency_key, dry_run) as transaction:
            transaction.dynamic_partition_overwrite(
                data,
                base_snapshot_id=base_snapshot_id,
                isolation_level=isolation_level,
                branch=branch,
                snapshot_properties=snapshot_properties,
            )
        return transaction.outcome

    def upsert(
        self,
        data: Any,
        join_cols: Sequence[str] | None = None,
        *,
        when_matched_update_all: bool = True,
        when_not_matched_insert_all: bool = True,
        base_snapshot_id: int | None = None,
        isolation_level: str | None = None,
        message: str | None = None,
        author: str | None = None,
        branch: str = MAIN_BRANCH,
        snapshot_properties: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> UpsertResult:
        """Updates the rows whose keys the data has and inserts the others, in one commit.

        The keys are `join_cols`, else the identifier fields; null equals null. Rows that would stay the same are not
        written again. A dry run is told of in the result's `outcome`. Raises ValidationError where a key is twice in
        the data, or a key to update twice in the table.
        """
        with self._transaction(message, author, idempotency_key, dry_run) as transaction:
            upsert = transaction.upsert(
                data,
                join_cols,
                when_matched_update_all=when_matched_update_all,
                when_not_matched_insert_all=when_not_matched_insert_all,
                base_snapshot_id=base_snapshot_id,
                isolation_level=isolation_level,
                branch=branch,
                snapshot_properties=snapshot_properties,
            )
        return evolve(upsert.result, outcome=transaction.outcome)

    def delete(
        self,
        delete_filter: str | Expression,
        *,
        base_snapshot_id: int | None = None,
        isolation_level: str | None = None,
        message: str | None = None,
        author: str | None = None,
        branch: str = MAIN_BRANCH,
        snapshot_properties: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> DryRun | None:
        """Deletes the rows that match the filter: whole files where all their rows do, else the file is rewritten."""
        with self._transaction(message, author, idempotency_key, dry_run) as transaction:
            transaction.delete(
                delete_filter,
                base_snapshot_id=base_snapshot_id,
                isolation_level=isolation_level,
                branch=branch,
                snapshot_properties=snapshot_properties,
            )
        return transaction.outcome

    def delete_keys(
        self,
        keys: Any,
        key_columns: Sequence[str] = (),
        *,
        message: str | None = None,
        author: str | None = None,
        branch: str = MAIN_BRANCH,
        snapshot_properties: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> DryRun | None:
        """Deletes the rows that equal one of `keys` in the key columns, the identifier fields unless named.

        Equality delete files are written and nothing is read, so this is quick to write and slow to read. Raises
        ValidationError for a v1 table, and where the keys don't tell the partition.
        """
        with self._transaction(message, author, idempotency_key, dry_run) as transaction:
            transaction.delete_keys(keys, key_columns, branch=branch, snapshot_properties=snapshot_properties)
        return transaction.outcome

    def add_files(
        self,
        file_paths: Iterable[str],
        *,
        message: str | None = None,
        author: str | None = None,
        branch: str = MAIN_BRANCH,
        check_duplicate_files: bool = True,
        snapshot_properties: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> DryRun | None:
        """Adds Parquet files that lie somewhere already, as they are.

        Columns that only the path has, as in `city=Oslo/a.parquet`, are those of an identity partition (P1).
        Raises ValidationError where a file's schema or partition does not fit, or it is in the table already.
        """
        with self._transaction(message, author, idempotency_key, dry_run) as transaction:
            transaction.add_files(
                file_paths,
                branch=branch,
                check_duplicate_files=check_duplicate_files,
                snapshot_properties=snapshot_properties,
            )
        return transaction.outcome

    def append_files(
        self,
        files: Iterable[ContentFile],
        *,
        message: str | None = None,
        author: str | None = None,
        branch: str = MAIN_BRANCH,
        snapshot_properties: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> DryRun | None:
        """Appends data files that a writer described already."""
        with self._transaction(message, author, idempotency_key, dry_run) as transaction:
            transaction.append_files(files, branch=branch, snapshot_properties=snapshot_properties)
        return transaction.outcome

    def row_delta(
        self,
        data_files: Iterable[ContentFile] = (),
        delete_files: Iterable[ContentFile] = (),
        *,
        base_snapshot_id: int | None = None,
        conflict_filter: Filter = None,
        isolation_level: str | None = None,
        message: str | None = None,
        author: str | None = None,
        branch: str = MAIN_BRANCH,
        snapshot_properties: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> DryRun | None:
        """Adds data files and delete files that were written already; see `Transaction.row_delta`.

        Raises ConflictingCommitsError where files with deleted rows are not as they were at the base.
        """
        with self._transaction(message, author, idempotency_key, dry_run) as transaction:
            transaction.row_delta(
                data_files,
                delete_files,
                base_snapshot_id=base_snapshot_id,
                conflict_filter=conflict_filter,
                isolation_level=isolation_level,
                branch=branch,
                snapshot_properties=snapshot_properties,
            )
        return transaction.outcome

    def overwrite_files(
        self,
        delete: Iterable[str | ContentFile] = (),
        add: Iterable[ContentFile] = (),
        *,
        base_snapshot_id: int | None = None,
        conflict_filter: Filter = None,
        isolation_level: str | None = None,
        message: str | None = None,
        author: str | None = None,
        branch: str = MAIN_BRANCH,
        snapshot_properties: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> DryRun | None:
        """Removes data files and adds others that were written already; see `Transaction.overwrite_files`.

        Raises ConflictingCommitsError where the files that go are not as they were at the base.
        """
        with self._transaction(message, author, idempotency_key, dry_run) as transaction:
            transaction.overwrite_files(
                delete,
                add,
                base_snapshot_id=base_snapshot_id,
                conflict_filter=conflict_filter,
                isolation_level=isolation_level,
                branch=branch,
                snapshot_properties=snapshot_properties,
            )
        return transaction.outcome

    def rewrite_files(
        self,
        delete_files: Iterable[str | ContentFile],
        add_files: Iterable[ContentFile] = (),
        *,
        base_snapshot_id: int | None = None,
        data_sequence_number: int | None = None,
        message: str | None = None,
        author: str | None = None,
        branch: str = MAIN_BRANCH,
        snapshot_properties: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> DryRun | None:
        """Replaces data files by others that hold the same rows; see `Transaction.rewrite_files`.

        Raises ConflictingCommitsError where the files that go are not as they were at the base.
        """
        with self._transaction(message, author, idempotency_key, dry_run) as transaction:
            transaction.rewrite_files(
                delete_files,
                add_files,
                base_snapshot_id=base_snapshot_id,
                data_sequence_number=data_sequence_number,
                branch=branch,
                snapshot_properties=snapshot_properties,
            )
        return transaction.outcome

    def rewrite_manifests(
        self,
        *,
        message: str | None = None,
        author: str | None = None,
        branch: str = MAIN_BRANCH,
        dry_run: bool = False,
    ) -> DryRun | None:
        """Puts the live data files into manifests sorted by partition, of `commit.manifest.target-size-bytes`.

        No commit is made where the manifests are few and clean already. Raises NoSuchSnapshotError.
        """
        return self._commit_with(message, author, lambda t: t.rewrite_manifests(branch=branch), dry_run)
