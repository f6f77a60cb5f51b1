"""The changes of rows that a transaction can make."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Unpack

from icecore.engine.commit.added_files import added_entries, check_data_files
from icecore.engine.commit.decide import ProduceSnapshot
from icecore.engine.common.identifiers import names_of
from icecore.engine.common.keyword_options import takes_options
from icecore.engine.errors import ValidationError
from icecore.engine.evolution.metadata_commands import changed_properties
from icecore.engine.expression.nodes import TRUE, Expression
from icecore.engine.operations.add_files import describe_existing_files
from icecore.engine.operations.conflict_validation import CommitBase
from icecore.engine.operations.delete_by_filter import DeleteByFilter, SnapshotTarget, plan_delete_by_filter
from icecore.engine.operations.equality_deletes import write_key_deletes
from icecore.engine.operations.replace_files import FileChange, plan_file_change
from icecore.engine.operations.replace_partitions import ReplacePartitions, plan_dynamic_overwrite
from icecore.engine.operations.rewrite_manifests import plan_rewrite
from icecore.engine.operations.row_delta import RowDelta, check_delete_files, plan_row_delta
from icecore.engine.operations.upsert import Upsert, plan_upsert, result_of
from icecore.engine.properties.table_properties import (
    DELETE_ISOLATION,
    MERGE_ISOLATION,
    NAME_MAPPING,
    UPDATE_ISOLATION,
)
from icecore.engine.spec.content_file import ContentFile, DataFileContent
from icecore.engine.spec.name_mapping import NameMapping
from icecore.engine.spec.snapshot import MAIN_BRANCH, Operation
from icecore.engine.table.commit_options import PinnedChangeOptions, RowChangeOptions, is_pinned
from icecore.engine.table.pending_commit import PendingCommit

Filter = str | Expression | None


class RowChanges(PendingCommit):
    """Gathers changes of rows. Data files are written when the call is made."""

    @takes_options(RowChangeOptions)
    def append(self, data: Any, **options: Unpack[RowChangeOptions]) -> None:
        """Writes the data into new files, to be appended. Raises ValidationError where it does not fit the schema."""
        self._branch(options)
        self.append_files(self._write(data), **options)

    @takes_options(RowChangeOptions)
    def append_files(self, files: Iterable[ContentFile], **options: Unpack[RowChangeOptions]) -> None:
        """Appends data files that were written already; rows get new row ids, whatever their files had elsewhere.

        Raises ValidationError where a description can't be written to the table's manifests, or misleads readers.
        """
        branch = self._branch(options)
        added = added_entries(check_data_files(files), self._metadata)
        command = ProduceSnapshot(
            Operation.APPEND,
            self._new_snapshot_id(),
            branch,
            added=added,
            summary=options.get("snapshot_properties") or {},
        )
        self._commands.append(lambda _: command)

    @takes_options(RowChangeOptions)
    def add_files(
        self, file_paths: Iterable[str], *, check_duplicate_files: bool = True, **options: Unpack[RowChangeOptions]
    ) -> None:
        """Appends Parquet files that lie somewhere already, with metrics read from them.

        The table gets a name mapping where it has none, since such files may lack field ids.
        """
        branch = self._branch(options)
        if NAME_MAPPING.name not in self._metadata.properties:
            mapping = NameMapping.of_fields(self._metadata.schema().fields)
            self.add(changed_properties({NAME_MAPPING.name: mapping.to_json()}, ()))
        files = describe_existing_files(
            self._repository,
            self._state,
            self._metadata,
            names_of(file_paths, "file_paths"),
            branch,
            check_duplicate_files,
        )
        self.append_files(files, **options)

    @takes_options(PinnedChangeOptions)
    def row_delta(
        self,
        data_files: Iterable[ContentFile] = (),
        delete_files: Iterable[ContentFile] = (),
        *,
        conflict_filter: Filter = None,
        **options: Unpack[PinnedChangeOptions],
    ) -> None:
        """Adds data files and delete files that were written already, in one snapshot.

        Equality deletes apply to what is there before, not to the data files that come with them; without a base they
        never conflict. Deletes by position were decided on a base, by default the snapshot that the table showed: the
        files that they name must be as they were, and where it is serializable no row may have changed that the
        conflict filter selects, all rows without one. The level is by default that of `write.delete.isolation-level`,
        with data files `write.update.isolation-level`. Raises ValidationError for files that don't fit the table.
        """
        branch = self._branch(options)
        deletes, added = tuple(delete_files), check_data_files(data_files)
        check_delete_files(deletes, self._metadata)
        entries = added_entries((*added, *deletes), self._metadata)
        if (
            is_pinned(options)
            or conflict_filter is not None
            or any(f.content is DataFileContent.POSITION_DELETES for f in deletes)
        ):
            self._check_first_change()
            key = UPDATE_ISOLATION if added else DELETE_ISOLATION
            pin = self._pin(branch, options, key, conflict_filter)
            target = self._target(branch, options)
            delta = RowDelta(target, pin, added, deletes, self._before)
            self._plan(
                lambda state, metadata: plan_row_delta(
                    self._repository, self._planner, state, metadata, delta, self._storage
                ),
                (*added, *deletes),
            )
            return
        if added:
            operation = Operation.OVERWRITE if deletes else Operation.APPEND
        else:
            operation = Operation.DELETE
        command = ProduceSnapshot(
            operation, self._new_snapshot_id(), branch, added=entries, summary=options.get("snapshot_properties") or {}
        )
        self._commands.append(lambda _: command)

    @takes_options(PinnedChangeOptions)
    def overwrite_files(
        self,
        delete: Iterable[str | ContentFile] = (),
        add: Iterable[ContentFile] = (),
        *,
        conflict_filter: Filter = None,
        **options: Unpack[PinnedChangeOptions],
    ) -> None:
        """Removes data files, by path or as they are described, and adds others that were written already.

        It was decided on the base, by default the snapshot that the table showed: the files that go must still be there
        and have no new deletes, and where it is serializable no row may have changed that the conflict filter selects,
        all rows without one. The level is by default that of `write.update.isolation-level`.
        """
        branch = self._branch(options)
        self._check_first_change()
        pin = self._pin(branch, options, UPDATE_ISOLATION, conflict_filter)
        target = self._target(branch, options)
        self._change_files(FileChange.of(target, pin, delete, add))

    @takes_options(RowChangeOptions)
    def rewrite_files(
        self,
        delete_files: Iterable[str | ContentFile],
        add_files: Iterable[ContentFile] = (),
        *,
        base_snapshot_id: int | None = None,
        data_sequence_number: int | None = None,
        **options: Unpack[RowChangeOptions],
    ) -> None:
        """Replaces data files by others that hold the same rows; delete files among `delete_files` are dropped.

        The files that go must be as they were at the base, by default the snapshot that the table showed. With the data
        sequence number of the base new equality deletes are no conflict, since they apply to the new files too. In a
        v3 table the new files must bring the rows' lineage (RL6).
        """
        branch = self._branch(options)
        self._check_first_change()
        pin = self._pin(branch, {"base_snapshot_id": base_snapshot_id}, UPDATE_ISOLATION)
        target = self._target(branch, options)
        change = FileChange.of(
            target, pin, delete_files, add_files, is_rewrite=True, data_sequence_number=data_sequence_number
        )
        self._change_files(change)

    def _change_files(self, change: FileChange) -> None:
        self._plan(
            lambda state, metadata: plan_file_change(self._repository, self._planner, state, metadata, change),
            change.added,
        )

    @takes_options(RowChangeOptions)
    def delete_keys(self, keys: Any, key_columns: Sequence[str] = (), **options: Unpack[RowChangeOptions]) -> None:
        """Deletes the rows that equal one of `keys` in the key columns, by equality delete files: nothing is read."""
        self._branch(options)
        files = [] if self._answered else write_key_deletes(keys, key_columns, self._metadata, self._storage)
        self._written += [f.file_path for f in files]
        self.row_delta((), files, **options)

    @takes_options(PinnedChangeOptions)
    def delete(self, delete_filter: str | Expression, **options: Unpack[PinnedChangeOptions]) -> None:
        """Deletes the rows that match: whole files where all rows do, else the file is rewritten without them.

        With a base or an isolation level these are the rows of the base, and what changed since may be a conflict.
        """
        branch = self._branch(options)
        pin = self._pin_if_asked(branch, options, DELETE_ISOLATION)
        self._check_first_change()
        self._remove(delete_filter, (), self._target(branch, options), pin)

    @takes_options(PinnedChangeOptions)
    def overwrite(
        self, data: Any, overwrite_filter: str | Expression | None = None, **options: Unpack[PinnedChangeOptions]
    ) -> None:
        """Replaces the rows that match, all rows without a filter, by the data.

        With a base or an isolation level these are the rows of the base, and what changed since may be a conflict.
        """
        branch = self._branch(options)
        pin = self._pin_if_asked(branch, options, UPDATE_ISOLATION)
        self._check_first_change()
        added = self._write(data)
        self._remove(overwrite_filter or TRUE, added, self._target(branch, options), pin)

    @takes_options(PinnedChangeOptions)
    def dynamic_partition_overwrite(self, data: Any, **options: Unpack[PinnedChangeOptions]) -> None:
        """Replaces the partitions that the data has, by the default spec, and leaves all others as they are.

        With a base or an isolation level a change of these partitions since may be a conflict. Raises ValidationError
        for an unpartitioned table.
        """
        branch = self._branch(options)
        if self._metadata.spec().is_unpartitioned:
            raise ValidationError(
                "a dynamic partition overwrite needs a partitioned table; overwrite() replaces it all"
            )
        self._check_first_change()
        added = tuple(self._write(data))
        pin = self._pin_if_asked(branch, options, UPDATE_ISOLATION)
        target = self._target(branch, options)
        overwrite = ReplacePartitions(target, added, pin)
        self._plan(
            lambda state, metadata: plan_dynamic_overwrite(
                self._repository, self._planner, state, metadata, overwrite, self._storage
            )
        )

    @takes_options(PinnedChangeOptions)
    def upsert(
        self,
        data: Any,
        join_cols: Sequence[str] | None = None,
        *,
        when_matched_update_all: bool = True,
        when_not_matched_insert_all: bool = True,
        **options: Unpack[PinnedChangeOptions],
    ) -> Upsert:
        """Updates the rows whose keys the data has and inserts the others; the answer's `result` is set at commit.

        The keys are `join_cols`, else the identifier fields. Rows that would stay the same are not written. With a base
        or an isolation level the keys are looked up there, and what changed since may be a conflict. Raises
        ValidationError where a key comes twice in the data, and at commit where a key to update is twice in the table.
        """
        branch = self._branch(options)
        self._check_first_change()
        target = self._target(branch, options)
        upsert = Upsert.of(
            data,
            join_cols,
            self._metadata.schema(),
            target,
            when_matched_update_all,
            when_not_matched_insert_all,
            self._pin_if_asked(branch, options, MERGE_ISOLATION),
        )
        if self._answered is not None:
            upsert.result = result_of(self._answered.payload)
        self._plan(
            lambda state, metadata: plan_upsert(self._repository, self._planner, state, metadata, upsert, self._storage)
        )
        return upsert

    def _remove(
        self,
        row_filter: str | Expression,
        added: Sequence[ContentFile],
        target: SnapshotTarget,
        pin: CommitBase | None,
    ) -> None:
        removal = DeleteByFilter(
            row_filter, target.branch, target.snapshot_id, tuple(added), target.summary, pin, self._before
        )
        self._plan(
            lambda state, metadata: plan_delete_by_filter(
                self._repository, self._planner, state, metadata, removal, self._storage
            )
        )

    def rewrite_manifests(self, *, branch: str = MAIN_BRANCH) -> None:
        """Puts the live data files of a branch into manifests sorted by partition, of the target size."""
        self._check_branch(branch)
        if self._snapshot_ids:
            raise ValidationError("manifests can't be rewritten in a transaction that has changed rows before")
        snapshot_id = self._new_snapshot_id()
        self._commands.append(lambda state: plan_rewrite(self._repository, state, branch, snapshot_id))
