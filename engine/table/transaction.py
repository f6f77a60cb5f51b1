"""Transactions: several changes to one table as one commit."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Self, Unpack, assert_never

from icecore.engine.commit.decide import ChangeMetadata
from icecore.engine.commit.dry_run import DryRun
from icecore.engine.commit.single_use import OnceInBlock
from icecore.engine.common.identifiers import names_of
from icecore.engine.common.keyword_options import takes_options
from icecore.engine.data.write.describe_files import Describer, describe_files
from icecore.engine.errors import IcecoreError, ValidationError
from icecore.engine.events.event import Provenance
from icecore.engine.evolution import metadata_commands
from icecore.engine.evolution.manage_snapshots import CherryPick, ManageSnapshots, RefChange
from icecore.engine.evolution.schema_ops import SchemaOp
from icecore.engine.evolution.terms import SortTerm
from icecore.engine.evolution.update_schema import UpdateSchema
from icecore.engine.evolution.update_sort_order import UpdateSortOrder
from icecore.engine.evolution.update_spec import SpecOp, UpdateSpec
from icecore.engine.expression.given.exact_names import exact_name, with_exact_names
from icecore.engine.expression.nodes import TRUE
from icecore.engine.expression.sql.parse import FilterLike, check_given, parse_filter
from icecore.engine.metadata.fold import TableState
from icecore.engine.operations.add_files import AppendFiles, describe_existing_files
from icecore.engine.operations.delete_by_filter import DeleteByFilter
from icecore.engine.operations.replace_files import FileChange
from icecore.engine.operations.replace_partitions import ReplacePartitions, check_partitioned
from icecore.engine.operations.row_delta import DeltaFiles, RowDelta
from icecore.engine.operations.upsert import Upsert, result_of
from icecore.engine.properties.table_properties import DELETE_ISOLATION, MERGE_ISOLATION, NAME_MAPPING, UPDATE_ISOLATION
from icecore.engine.repository.repository import Repository
from icecore.engine.spark.change.session_audit import audited_rows
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.statistics.update_statistics import UpdateStatistics
from icecore.engine.table import transaction_rewrites
from icecore.engine.table.commit_options import RENAMED, PinnedChangeOptions, RowChangeOptions, is_pinned
from icecore.engine.table.method_names import methods_named
from icecore.engine.table.pending_commit import PendingCommit
from icecore.engine.table.table_handle import TableHandle
from icecore.projections.plan.planning import Planning


@methods_named
class Transaction(OnceInBlock):
    """The changes of one commit so far; `commit()`, or the end of a `with` block, makes them one event: all or nothing.

    Data files are written when the call is made, the log is touched at the end. Later changes see the schema and spec
    that earlier ones leave. Changes of rows go to `branch`, with `snapshot_properties` in the snapshot's summary; with
    a `base_snapshot_id` or an `isolation_level` they are of the rows of that base, and what changed since may be a
    conflict. What the options mean is in `table/commit_options.py`.
    """

    def __init__(
        self,
        repository: Repository,
        planning: Planning,
        state: TableState,
        provenance: Provenance,
        committed: Callable[[TableState], None],
        dry_run: bool = False,
        table: TableHandle | None = None,
    ) -> None:
        self._pending = PendingCommit(repository, planning, state, provenance, self._check_open)
        self._describe: Describer = describe_files
        self._committed = committed
        self._is_dry = dry_run
        self._outcome: DryRun | None = None
        self._table = table

    def __repr__(self) -> str:
        return self._shown(self._pending.state.identifier, self._pending.told())

    @property
    def outcome(self) -> DryRun | None:
        """The outcome of a dry run, once it ended; None unless this is one."""
        return self._outcome

    @property
    def metadata(self) -> TableMetadata:
        """The metadata as the changes so far leave it; snapshots of this transaction are not in it yet."""
        return self._pending.metadata

    table_metadata = metadata  # PyIceberg's name

    # Metadata

    def add(self, command: ChangeMetadata) -> None:
        """Adds a change of metadata. Raises ValidationError at once where it does not fit what is there."""
        self._pending.add(command)

    def update_schema(self, allow_incompatible_changes: bool = False, case_sensitive: bool = True) -> UpdateSchema:
        """An update of the schema, as part of this transaction."""
        self._check_open()
        how = {"allow_incompatible_changes": allow_incompatible_changes, "case_sensitive": case_sensitive}
        return UpdateSchema(lambda ops: self.change_schema(ops, **how), self._pending.state.identifier)

    def update_spec(self, case_sensitive: bool = True) -> UpdateSpec:
        """An update of the partition spec, as part of this transaction."""
        self._check_open()
        return UpdateSpec(partial(self.change_spec, case_sensitive=case_sensitive), self._pending.state.identifier)

    def update_sort_order(self, case_sensitive: bool = True) -> UpdateSortOrder:
        """An update of the sort order, as part of this transaction."""
        self._check_open()
        change = partial(self.change_sort_order, case_sensitive=case_sensitive)
        return UpdateSortOrder(change, self._pending.state.identifier)

    def update_statistics(self) -> UpdateStatistics:
        """An update of statistics files, as part of this transaction."""
        self._check_open()
        return UpdateStatistics(self.change_statistics, self._pending.state.identifier)

    def manage_snapshots(self) -> ManageSnapshots:
        """An update of branches and tags, as part of this transaction."""
        self._check_open()
        return ManageSnapshots(self.change_refs, self._pending.state.identifier)

    def set_properties(self, properties: Mapping[str, str] | None = None, **named: str) -> Self:
        """Sets properties, of a mapping or as keywords. Raises ValidationError."""
        self.add(metadata_commands.changed_properties({**(properties or {}), **named}, ()))
        return self

    def remove_properties(self, *removals: str) -> Self:
        """Removes properties; missing ones are ignored."""
        self.add(metadata_commands.changed_properties({}, removals))
        return self

    def update_location(self, location: str) -> Self:
        """Changes where new files of the table go; those that are there stay. Raises ValidationError."""
        self.add(metadata_commands.relocated(location))
        return self

    def upgrade_table_version(self, format_version: int) -> Self:
        """Raises the format version. Raises ValidationError for a lower one, or one above 3."""
        self.add(metadata_commands.upgraded(format_version))
        return self

    def change_schema(self, ops: Sequence[SchemaOp], **how: bool) -> None:
        """Adds operations on the schema; `how` as in `evolved_schema`. Raises ValidationError."""
        self.add(metadata_commands.evolved_schema(ops, **how))

    def change_spec(self, ops: Sequence[SpecOp], *, case_sensitive: bool = True) -> None:
        """Adds operations on the partition spec. Raises ValidationError."""
        self.add(metadata_commands.evolved_spec(ops, case_sensitive=case_sensitive))

    def change_sort_order(self, terms: Sequence[SortTerm | str], *, case_sensitive: bool = True) -> None:
        """Replaces the sort order by terms. Raises ValidationError."""
        self.add(metadata_commands.evolved_sort_order(terms, case_sensitive=case_sensitive))

    def change_refs(self, ops: Sequence[RefChange]) -> None:
        """Adds changes of refs. Raises ValidationError, NoSuchSnapshotError."""
        self._check_open()
        for op in ops:
            match op:
                case ChangeMetadata():
                    self.add(op)
                case CherryPick():
                    if self._pending.answered is None:
                        op.source(self.metadata)
                    self._pending.add_cherry_pick(op)
                case _:
                    assert_never(op)

    def change_statistics(self, ops: Sequence[ChangeMetadata]) -> None:
        """Adds changes of statistics files. Raises NoSuchSnapshotError."""
        self._check_open()
        for op in ops:
            self.add(op)

    # Rows

    @takes_options(RowChangeOptions, RENAMED)
    def append(self, df: Any, **options: Unpack[RowChangeOptions]) -> None:
        """Writes the data into new files, to be appended. Raises ValidationError where it does not fit the schema."""
        options = audited_rows(df, self.metadata, options)
        self._append(self._pending.branch(options), self._pending.write(df), options)

    @takes_options(RowChangeOptions)
    def append_files(self, files: Iterable[ContentFile], **options: Unpack[RowChangeOptions]) -> None:
        """Appends data files that were written already; rows get new row ids, whatever their files had elsewhere.

        Raises ValidationError where a description can't be written to the table's manifests, or misleads readers.
        """
        self._append_given(self._pending.branch(options), tuple(files), options)

    def _append_given(self, branch: str, files: Sequence[ContentFile], options: RowChangeOptions) -> None:
        self._pending.rely_on_columns(files)
        self._append(branch, files, options)

    def _append(self, branch: str, files: Iterable[ContentFile], options: RowChangeOptions) -> None:
        self._pending.add_action(AppendFiles.of(self._pending.target(branch, options), files, self.metadata))

    @takes_options(RowChangeOptions)
    def add_files(
        self, file_paths: Iterable[str], *, check_duplicate_files: bool = True, **options: Unpack[RowChangeOptions]
    ) -> None:
        """Appends existing Parquet files, with metrics read from them.

        The table gets a name mapping where it has none, since such files may lack field ids.
        """
        pending, branch = self._pending, self._pending.branch(options)
        if NAME_MAPPING.name not in self.metadata.properties:
            self.add(metadata_commands.mapped_names(self.metadata.schema()))
        paths = names_of(file_paths, "file_paths") if pending.answered is None else ()  # They may be gone by then.
        pending.check_new(paths, branch, check_duplicate_files)
        self._append_given(branch, describe_existing_files(pending.context, paths, self._describe), options)

    @takes_options(PinnedChangeOptions)
    def row_delta(
        self,
        data_files: Iterable[ContentFile] = (),
        delete_files: Iterable[ContentFile] = (),
        *,
        conflict_filter: FilterLike = None,
        **options: Unpack[PinnedChangeOptions],
    ) -> None:
        """Adds data files and delete files that were written already, in one snapshot.

        Equality deletes apply to rows from before, not to those of the data files added with them; without a base they
        never conflict. Deletes by position were decided on a base, by default the snapshot that the table showed: the
        files that they name must be as they were then, and so, if serializable, must all rows that the conflict filter
        selects, all rows without one. The level is by default that of `write.delete.isolation-level`, with data files
        `write.update.isolation-level`. Raises ValidationError for files that don't fit the table.
        """
        pending, branch = self._pending, self._pending.branch(options)
        files = DeltaFiles.of(data_files, delete_files, self.metadata)
        if not files.has_positions and conflict_filter is None and not is_pinned(options):
            pending.rely_on_columns(files.data_files)
            pending.add_action(AppendFiles(pending.target(branch, options), files.entries, files.operation))
            return
        pending.check_first_change()
        level = UPDATE_ISOLATION if files.data_files else DELETE_ISOLATION
        base = pending.base(branch, options, level, conflict_filter)
        pending.rely_on_columns(files.data_files)
        delta = RowDelta(pending.target(branch, options), base, files, pending.reusable)
        pending.add_writing(delta, given=files.all)

    @takes_options(PinnedChangeOptions)
    def overwrite_files(
        self,
        delete: Iterable[str | ContentFile] = (),
        add: Iterable[ContentFile] = (),
        *,
        conflict_filter: FilterLike = None,
        **options: Unpack[PinnedChangeOptions],
    ) -> None:
        """Removes data files, by path or as they are described, and adds others that were written already.

        The change was decided on the base, by default the snapshot that the table showed: the removed files must still
        be there and have no new deletes, and if serializable, no row that the conflict filter selects (all rows without
        one) may have changed. The level is by default that of `write.update.isolation-level`.
        """
        pending, branch = self._pending, self._pending.first_branch(options)
        base = pending.base(branch, options, UPDATE_ISOLATION, conflict_filter)
        change = FileChange.of(pending.target(branch, options), base, delete, add)
        pending.rely_on_columns(change.added)
        pending.add_writing(change, given=change.added)

    @takes_options(RowChangeOptions)
    def delete_keys(self, keys: Any, key_columns: Sequence[str] = (), **options: Unpack[RowChangeOptions]) -> None:
        """Deletes the rows that equal one of `keys` in the key columns, by equality delete files: nothing is read."""
        self._pending.branch(options)
        self.row_delta((), self._pending.write_keys(keys, key_columns), **options)

    @takes_options(PinnedChangeOptions)
    def delete(
        self, delete_filter: FilterLike = None, *, case_sensitive: bool = True, **options: Unpack[PinnedChangeOptions]
    ) -> None:
        """Deletes the rows that match: whole files where all their rows do, else as `write.delete.mode` says."""
        pending, branch = self._pending, self._pending.first_branch(options)
        check_given(delete_filter)
        base, target = pending.base_if_named(branch, options, DELETE_ISOLATION), pending.target(branch, options)
        condition = self._condition(delete_filter, case_sensitive)
        pending.add_writing(DeleteByFilter(target, condition, (), base, pending.reusable))

    @takes_options(PinnedChangeOptions, RENAMED)
    def overwrite(
        self,
        df: Any,
        overwrite_filter: FilterLike = None,
        *,
        case_sensitive: bool = True,
        **options: Unpack[PinnedChangeOptions],
    ) -> None:
        """Replaces the rows that match, all rows without a filter, by the data."""
        options = audited_rows(df, self.metadata, options)
        pending, branch = self._pending, self._pending.first_branch(options)
        base = pending.base_if_named(branch, options, UPDATE_ISOLATION)
        condition = self._condition(overwrite_filter, case_sensitive)
        added, target = tuple(pending.write(df)), pending.target(branch, options)
        pending.add_writing(DeleteByFilter(target, condition, added, base, pending.reusable))

    @takes_options(PinnedChangeOptions, RENAMED)
    def dynamic_partition_overwrite(self, df: Any, **options: Unpack[PinnedChangeOptions]) -> None:
        """Replaces the partitions that the data has, by the default spec, and leaves all others as they are.

        With a base or an isolation level a change of these partitions since may be a conflict. Raises ValidationError
        for an unpartitioned table.
        """
        options = audited_rows(df, self.metadata, options)
        pending, branch = self._pending, self._pending.branch(options)
        check_partitioned(self.metadata)
        pending.check_first_change()
        base = pending.base_if_named(branch, options, UPDATE_ISOLATION)
        added = tuple(pending.write(df))
        pending.add_writing(ReplacePartitions(pending.target(branch, options), added, base, pending.reusable))

    @takes_options(PinnedChangeOptions, RENAMED)
    def upsert(
        self,
        df: Any,
        join_cols: Sequence[str] | None = None,
        *,
        when_matched_update_all: bool = True,
        when_not_matched_insert_all: bool = True,
        case_sensitive: bool = True,
        **options: Unpack[PinnedChangeOptions],
    ) -> Upsert:
        """Updates the rows whose keys the data has and inserts the others, as `Table.upsert` does, which says how.

        The answer's `result` is set at commit. Raises ValidationError, at commit for a key twice in the table.
        """
        options = audited_rows(df, self.metadata, options)
        pending, branch = self._pending, self._pending.first_branch(options)
        base, schema = pending.base_if_named(branch, options, MERGE_ISOLATION), self.metadata.schema()
        if join_cols is not None and not case_sensitive:
            join_cols = [exact_name(n, schema) for n in names_of(join_cols, "join_cols")]
        which = when_matched_update_all, when_not_matched_insert_all
        upsert = Upsert.of(df, join_cols, schema, pending.target(branch, options), *which, base, pending.reusable)
        if pending.answered is not None:
            upsert.result = result_of(pending.answered)
        pending.add_writing(upsert)
        return upsert

    # Rewrites, which change no row; each must be the first change of rows in its transaction

    rewrite_files = transaction_rewrites.rewrite_files
    rewrite_manifests = transaction_rewrites.rewrite_manifests
    file_groups = transaction_rewrites.file_groups
    rewrite_data_files = transaction_rewrites.rewrite_data_files
    delete_groups = transaction_rewrites.delete_groups
    rewrite_position_delete_files = transaction_rewrites.rewrite_position_delete_files
    remove_dangling_deletes = transaction_rewrites.remove_dangling_deletes

    # The end

    def commit(self) -> None:
        """Commits the changes. Raises CommitConflictError, ValidationError, NoSuchTableError; nothing is changed then.

        A dry run makes none: it sets `outcome`, and deletes the files that it wrote. Either uses the transaction up.
        """
        self._use_up()
        if self._is_dry:
            self._outcome = self._pending.dry_run()
        elif (state := self._pending.make_commit()) is not None:
            self._committed(state)

    def commit_transaction(self) -> Any:
        """Commits as `commit`, and gives the table. Raises ValidationError where it is committed with others."""
        self.commit()
        if self._table is None:
            raise ValidationError("the table is committed with others: commit the catalog's transaction instead")
        return self._table

    @property
    def has_changes(self) -> bool:
        """Whether there is anything to commit."""
        return self._pending.has_changes

    def _condition(self, row_filter: FilterLike, case_sensitive: bool) -> FilterLike:
        if case_sensitive:
            return TRUE if row_filter is None else row_filter
        return with_exact_names(parse_filter(row_filter), self.metadata.schema())

    def _abandon(self) -> None:
        super()._abandon()
        with contextlib.suppress(IcecoreError):
            self._pending.forget_files()
