"""A table: what it is now, and how to change and read it. The names are PyIceberg's where it has one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from icecore.engine.changelog import IncrementalChangelogScan
from icecore.engine.changes import changed_properties, upgraded
from icecore.engine.decide import ChangeMetadata
from icecore.engine.dry_run import DryRun
from icecore.engine.errors import CommitConflictError
from icecore.engine.expression.nodes import Expression
from icecore.engine.incremental import IncrementalAppendScan
from icecore.engine.log.read_models import dotted
from icecore.engine.maintenance import Maintenance
from icecore.engine.manage_snapshots import ManageSnapshots
from icecore.engine.manifest_changes import ListedManifest
from icecore.engine.provenance import provenance
from icecore.engine.repository import Repository
from icecore.engine.rewrites import TableRewrites
from icecore.engine.scan import DataScan
from icecore.engine.schema_update import UpdateSchema
from icecore.engine.snapshot_range import SnapshotRange
from icecore.engine.sort_update import UpdateSortOrder
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.snapshot import (
    MAIN_BRANCH,
    PartitionStatisticsFile,
    Snapshot,
    SnapshotLogEntry,
    SnapshotRef,
    StatisticsFile,
)
from icecore.engine.spec.sort import SortOrder
from icecore.engine.spec_update import UpdateSpec
from icecore.engine.state import Identifier, TableState, metadata_folder
from icecore.engine.statistics import distinct_values, sketched_columns, write_statistics
from icecore.engine.transaction import Transaction
from icecore.engine.update_statistics import UpdateStatistics
from icecore.engine.upsert import UpsertResult
from icecore.projections.planner import Planner

if TYPE_CHECKING:
    from icecore.engine.named_plan import NamedPlan

Filter = str | Expression | None


class Table(TableRewrites):
    """One table at one version. It stays as it was loaded until `refresh()` or a commit through it."""

    def __init__(self, repository: Repository, planner: Planner, state: TableState, actor: str | None) -> None:
        self._repository = repository
        self._planner = planner
        self._state = state
        self._actor = actor

    # What it is

    def name(self) -> Identifier:
        """The identifier as a tuple."""
        return self._state.identifier

    @property
    def metadata(self) -> TableMetadata:
        return self._state.metadata

    @property
    def metadata_location(self) -> str | None:
        """The latest metadata file; None where none was written yet."""
        return self._state.metadata_location

    @property
    def state(self) -> TableState:
        return self._state

    @property
    def properties(self) -> Mapping[str, str]:
        return self.metadata.properties

    @property
    def format_version(self) -> int:
        return self.metadata.format_version

    def location(self) -> str:
        return self.metadata.location

    def schema(self) -> Schema:
        return self.metadata.schema()

    def schemas(self) -> dict[int, Schema]:
        return {s.schema_id: s for s in self.metadata.schemas}

    def spec(self) -> PartitionSpec:
        return self.metadata.spec()

    def specs(self) -> dict[int, PartitionSpec]:
        return dict(self.metadata.specs)

    def sort_order(self) -> SortOrder:
        return self.metadata.sort_order()

    def sort_orders(self) -> dict[int, SortOrder]:
        return {o.order_id: o for o in self.metadata.sort_orders}

    def snapshots(self) -> list[Snapshot]:
        return list(self.metadata.snapshots)

    def current_snapshot(self) -> Snapshot | None:
        return self.metadata.current_snapshot()

    def snapshot_by_id(self, snapshot_id: int) -> Snapshot | None:
        return self.metadata.snapshot_by_id(snapshot_id)

    def refs(self) -> dict[str, SnapshotRef]:
        return dict(self.metadata.refs)

    def history(self) -> list[SnapshotLogEntry]:
        """Which snapshot was the current one since when."""
        return list(self.metadata.snapshot_log)

    def refresh(self) -> Table:
        """Takes in what was committed since. Raises NoSuchTableError where the table was dropped."""
        self._state = self._repository.live_state(self._state.stream)
        return self

    def __repr__(self) -> str:
        return f"Table({dotted(self.name())!r}, version {self._state.stream_version})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and other._state == self._state

    __hash__ = None  # type: ignore[assignment]  # a table changes with refresh()

    # Reading

    def scan(
        self,
        row_filter: Filter = None,
        *,
        selected_fields: Sequence[str] = ("*",),
        snapshot_id: int | None = None,
        ref: str | None = None,
        as_of: int | None = None,
        case_sensitive: bool = True,
        limit: int | None = None,
        parameters: Mapping[str, Any] | Sequence[Any] | None = None,
    ) -> DataScan:
        """A scan of the current snapshot, of one by id, a branch or tag, or a time (`as_of`, ms since the epoch).

        Raises ExpressionError, NoSuchSnapshotError, ValidationError.
        """
        return DataScan.of(
            self._planner,
            self._state,
            row_filter,
            selected_fields=tuple(selected_fields),
            snapshot_id=snapshot_id,
            ref=ref,
            as_of=as_of,
            case_sensitive=case_sensitive,
            limit=limit,
            parameters=parameters,
        )

    def incremental_append_scan(
        self,
        row_filter: Filter = None,
        *,
        from_snapshot_id_exclusive: int | None = None,
        from_snapshot_id_inclusive: int | None = None,
        to_snapshot_id_inclusive: int | None = None,
        branch: str | None = None,
        selected_fields: Sequence[str] = ("*",),
        case_sensitive: bool = True,
        limit: int | None = None,
        parameters: Mapping[str, Any] | Sequence[Any] | None = None,
    ) -> IncrementalAppendScan:
        """A scan of the rows that appends brought after one snapshot, up to another, by the table's current schema.

        Overwrites, deletes and compactions are passed over. Without a start it begins at the oldest snapshot, without
        an end it ends at the head of the branch. Raises what `SnapshotRange.of` and `scan` raise.
        """
        snapshots = SnapshotRange.of(
            self.metadata,
            from_exclusive=from_snapshot_id_exclusive,
            from_inclusive=from_snapshot_id_inclusive,
            to_inclusive=to_snapshot_id_inclusive,
            branch=branch,
        )
        return IncrementalAppendScan.between(
            self._planner,
            self._state,
            snapshots,
            row_filter,
            selected_fields=tuple(selected_fields),
            case_sensitive=case_sensitive,
            limit=limit,
            parameters=parameters,
        )

    def incremental_changelog_scan(
        self,
        row_filter: Filter = None,
        *,
        from_snapshot_id_exclusive: int | None = None,
        from_snapshot_id_inclusive: int | None = None,
        to_snapshot_id_inclusive: int | None = None,
        branch: str | None = None,
        selected_fields: Sequence[str] = ("*",),
        case_sensitive: bool = True,
        compute_updates: bool = False,
        identifier_columns: Sequence[str] | None = None,
        parameters: Mapping[str, Any] | Sequence[Any] | None = None,
    ) -> IncrementalChangelogScan:
        """The rows that commits deleted and inserted after one snapshot, up to another; files written again are none.

        `_row_id` can be selected too. With `compute_updates` a row that a commit changed comes as UPDATE_BEFORE and
        UPDATE_AFTER: the row of the same `identifier_columns`, by default the identifier fields, else of the same row
        id. Raises what `SnapshotRange.of` and `scan` raise; reading raises ValidationError where an identifier is not
        unique, or a snapshot's parent was expired.
        """
        snapshots = SnapshotRange.of(
            self.metadata,
            from_exclusive=from_snapshot_id_exclusive,
            from_inclusive=from_snapshot_id_inclusive,
            to_inclusive=to_snapshot_id_inclusive,
            branch=branch,
        )
        return IncrementalChangelogScan.between(
            self._planner,
            self._state,
            snapshots,
            row_filter,
            selected_fields=tuple(selected_fields),
            case_sensitive=case_sensitive,
            compute_updates=compute_updates,
            identifier_columns=identifier_columns,
            parameters=parameters,
        )

    def partitions(self, row_filter: Filter = None, *, snapshot_id: int | None = None) -> pa.Table:
        """The partitions of a snapshot, by default the current one, with their files, rows and deletes, from metadata.

        The columns are those of PyIceberg's `inspect.partitions`. With a filter only partitions of which a scan by it
        would read a file. Raises ExpressionError, NoSuchSnapshotError.
        """
        from icecore.projections.partitions import partitions

        scan = self.scan(row_filter, snapshot_id=snapshot_id)
        return partitions(self._planner, self._state, scan.snapshot, scan.row_filter, scan.schema)

    def prefetch(
        self,
        row_filter: Filter = None,
        *,
        name: str,
        selected_fields: Sequence[str] = ("*",),
        ref: str | None = None,
        case_sensitive: bool = True,
        parameters: Mapping[str, Any] | Sequence[Any] | None = None,
    ) -> NamedPlan:
        """Plans a scan and keeps the plan under a name, in the place of one that had it.

        `named_plan` gives it again, in any process, brought up to date at the cost of what was committed since. With a
        `ref` it is of that branch or tag. Raises ExpressionError, NoSuchSnapshotError, ValidationError, StorageError
        where it can't be kept.
        """
        from icecore.engine.named_plan import prefetch

        scan = self.scan(
            row_filter,
            selected_fields=selected_fields,
            ref=ref,
            case_sensitive=case_sensitive,
            parameters=parameters,
        )
        return prefetch(self._planner, self._state, scan, name, ref)

    def named_plan(self, name: str) -> NamedPlan:
        """The plan of that name, for the table as it is loaded here. Only what changed is looked into.

        Raises NoSuchPlanError, ValidationError where a column of it is gone, NoSuchSnapshotError where its branch is.
        """
        from icecore.engine.named_plan import load

        return load(self._planner, self._state, name, lambda **options: self.scan(**options))

    def named_plans(self) -> list[str]:
        """The names of the plans that are kept, sorted."""
        from icecore.engine.named_plan import store_of

        return store_of(self._planner, self._state).names()

    def drop_named_plan(self, name: str) -> None:
        """Forgets a plan. Raises NoSuchPlanError."""
        from icecore.engine.named_plan import drop

        drop(self._planner, self._state, name)

    def manifests(self) -> tuple[ListedManifest, ...]:
        """The manifests of the current snapshot, in the order of its list."""
        snapshot = self.current_snapshot()
        return () if snapshot is None else self._repository.list_manifests(self._state, snapshot)

    def live_entries(self) -> Iterator[pa.Table]:
        """The live entries of each manifest of the current snapshot, canonical, with all that they inherit."""
        storage = self._repository.storage_of(self._state)
        for listed in self.manifests():
            if listed.manifest.has_live_files:
                yield self._repository.entries.live(self._state.stream, listed, storage)

    # Changing rows. With `dry_run` nothing is stored, and the result says what the commit would be. A change that is
    # given a base snapshot (what the caller read) or an isolation level ("serializable" or "snapshot") is of the rows
    # of that base, and raises ConflictingCommitsError where another commit got in its way: see engine/conflicts.py.

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
    ) -> UpsertResult:
        """Updates the rows whose keys the data has and inserts the others, in one commit.

        The keys are `join_cols`, else the identifier fields; null equals null. Rows that would stay the same are not
        written again. Raises ValidationError where a key is twice in the data, or a key to update twice in the table.
        """
        with self._transaction(message, author, idempotency_key) as transaction:
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
        return upsert.result

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

    # Changing metadata

    def update_schema(
        self,
        *,
        allow_incompatible_changes: bool = False,
        message: str | None = None,
        author: str | None = None,
        dry_run: bool = False,
    ) -> UpdateSchema:
        return UpdateSchema(
            lambda ops: self._commit_with(
                message,
                author,
                lambda t: t.change_schema(ops, allow_incompatible_changes=allow_incompatible_changes),
                dry_run,
            )
        )

    def update_spec(
        self, *, message: str | None = None, author: str | None = None, dry_run: bool = False
    ) -> UpdateSpec:
        return UpdateSpec(lambda ops: self._commit_with(message, author, lambda t: t.change_spec(ops), dry_run))

    def update_sort_order(
        self, *, message: str | None = None, author: str | None = None, dry_run: bool = False
    ) -> UpdateSortOrder:
        return UpdateSortOrder(
            lambda terms: self._commit_with(message, author, lambda t: t.change_sort_order(terms), dry_run)
        )

    def manage_snapshots(
        self, *, message: str | None = None, author: str | None = None, dry_run: bool = False
    ) -> ManageSnapshots:
        return ManageSnapshots(lambda ops: self._commit_with(message, author, lambda t: t.change_refs(ops), dry_run))

    def update_statistics(
        self, *, message: str | None = None, author: str | None = None, dry_run: bool = False
    ) -> UpdateStatistics:
        """Sets and removes the statistics files of snapshots."""
        return UpdateStatistics(
            lambda ops: self._commit_with(message, author, lambda t: t.change_statistics(ops), dry_run)
        )

    def compute_statistics(
        self,
        columns: Iterable[str] | None = None,
        *,
        snapshot_id: int | None = None,
        message: str | None = None,
        author: str | None = None,
    ) -> StatisticsFile | None:
        """Computes and commits how many distinct values columns have, by default all primitive top-level ones.

        Reads the rows of the snapshot, by default the current one; None where there is none. The file takes the place
        of an earlier one of the snapshot. Raises ValidationError for columns without statistics, NoSuchSnapshotError,
        and MissingDependencyError without the extra `stats`.
        """
        self._repository.check_writable()
        snapshot = self.current_snapshot() if snapshot_id is None else self.metadata.find_snapshot(snapshot_id)
        if snapshot is None:
            return None
        names = sketched_columns(self.scan(snapshot_id=snapshot.snapshot_id).schema, columns)
        scan = self.scan(snapshot_id=snapshot.snapshot_id, selected_fields=names)
        folder = metadata_folder(self.location(), self.properties)
        file = write_statistics(scan, names, self._repository.storage_of(self._state), folder)
        self.update_statistics(message=message, author=author).set_statistics(file).commit()
        return file

    def statistics(self, snapshot_id: int | None = None) -> dict[str, int]:
        """The estimated number of distinct values by column, of a snapshot, by default the current one.

        Empty where nobody computed any. Raises NoSuchSnapshotError, and what reading a Puffin file raises where table
        metadata does not tell the numbers.
        """
        return distinct_values(self.metadata, self._repository.storage_of(self._state), snapshot_id)

    def compute_partition_statistics(
        self, *, snapshot_id: int | None = None, message: str | None = None, author: str | None = None
    ) -> PartitionStatisticsFile | None:
        """Computes and commits what each partition of a snapshot holds, by default of the current one.

        Reads metadata only; None where there is no snapshot or it never had a file. Raises ValidationError where the
        table was never partitioned, NoSuchSnapshotError.
        """
        from icecore.projections.partition_stats import write_partition_stats

        self._repository.check_writable()
        snapshot = self.current_snapshot() if snapshot_id is None else self.metadata.find_snapshot(snapshot_id)
        file = None if snapshot is None else write_partition_stats(self._planner, self._state, snapshot)
        if file is not None:
            self.update_statistics(message=message, author=author).set_partition_statistics(file).commit()
        return file

    def partition_statistics(self, snapshot_id: int | None = None) -> pa.Table | None:
        """The rows of a snapshot's partition statistics file, by default the current one's; None without a file."""
        from icecore.projections.partition_stats import read_partition_stats

        wanted = self.metadata.current_snapshot_id if snapshot_id is None else snapshot_id
        for file in self.metadata.partition_statistics:
            if file.snapshot_id == wanted:
                return read_partition_stats(file, self.metadata, self._repository.storage_of(self._state))
        return None

    @property
    def maintenance(self) -> Maintenance:
        """Expiring snapshots, removing orphan files. Raises ReadOnlyError where the warehouse was opened read-only."""
        self._repository.check_writable()

        def commit(command: ChangeMetadata) -> TableState:
            self._commit_with(None, None, lambda t: t.add(command))
            return self._state

        return Maintenance(self._state.stream, self._repository, commit, provenance(self._actor))

    def set_properties(
        self,
        updates: Mapping[str, str],
        *,
        message: str | None = None,
        author: str | None = None,
        dry_run: bool = False,
    ) -> DryRun | None:
        return self._commit_with(message, author, lambda t: t.add(changed_properties(updates, ())), dry_run)

    def remove_properties(
        self, *keys: str, message: str | None = None, author: str | None = None, dry_run: bool = False
    ) -> DryRun | None:
        return self._commit_with(message, author, lambda t: t.add(changed_properties({}, keys)), dry_run)

    def upgrade(
        self, format_version: int, *, message: str | None = None, author: str | None = None, dry_run: bool = False
    ) -> DryRun | None:
        """Raises the format version. Raises ValidationError for a lower one, or one above 3."""
        return self._commit_with(message, author, lambda t: t.add(upgraded(format_version)), dry_run)

    def transaction(
        self,
        *,
        message: str | None = None,
        author: str | None = None,
        idempotency_key: str | None = None,
        dry_run: bool = False,
    ) -> Transaction:
        """Several changes as one commit and one event: all or nothing, made when the `with` block ends well.

        A dry run stores nothing, and says in `outcome` what the commit would be.
        """
        return self._transaction(message, author, idempotency_key, dry_run)

    def _transaction(
        self, message: str | None, author: str | None, idempotency_key: str | None, dry_run: bool = False
    ) -> Transaction:
        self._repository.check_writable()
        who = provenance(self._actor, message=message, author=author, idempotency_key=idempotency_key)
        return Transaction(self._repository, self._planner, self._state, who, self._committed, dry_run)

    def _commit_with(
        self, message: str | None, author: str | None, change: Callable[[Transaction], None], dry_run: bool = False
    ) -> DryRun | None:
        with self._transaction(message, author, None, dry_run) as transaction:
            change(transaction)
        return transaction.outcome

    def _committed(self, state: TableState) -> None:
        if state.stream != self._state.stream:
            raise CommitConflictError(
                f"the idempotency key was used for a commit to {dotted(state.identifier)} before, not to this table"
            )
        self._state = state
