"""The changes of rows that a transaction can make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from icecore.engine.changes import changed_properties
from icecore.engine.decide import ProduceSnapshot
from icecore.engine.dynamic_overwrite import PartitionOverwrite, plan_dynamic_overwrite
from icecore.engine.equality_deletes import write_key_deletes
from icecore.engine.errors import ValidationError
from icecore.engine.existing_files import describe_existing_files
from icecore.engine.expression.nodes import TRUE, Expression
from icecore.engine.formats.entry_arrow import files_to_arrow
from icecore.engine.gathering import Gathering
from icecore.engine.removal import FilterRemoval, Target, plan_removal
from icecore.engine.rewrite_manifests import plan_rewrite
from icecore.engine.spec.content_file import ContentFile, DataFileContent, ManifestEntryStatus
from icecore.engine.spec.name_mapping import DEFAULT_NAME_MAPPING, NameMapping
from icecore.engine.spec.snapshot import MAIN_BRANCH, Operation
from icecore.engine.upsert import Upsert, plan_upsert, result_of


class RowChanges(Gathering):
    """Gathers changes of rows. Data files are written when the call is made."""

    def append(
        self,
        data: Any,
        *,
        branch: str = MAIN_BRANCH,
        snapshot_properties: Mapping[str, str] | None = None,
    ) -> None:
        """Writes the data into new files, to be appended. Raises ValidationError where it does not fit the schema."""
        branch = self._branch(branch, snapshot_properties)
        self.append_files(self._write(data), branch=branch, snapshot_properties=snapshot_properties)

    def append_files(
        self,
        files: Iterable[ContentFile],
        *,
        branch: str = MAIN_BRANCH,
        snapshot_properties: Mapping[str, str] | None = None,
    ) -> None:
        """Appends data files that were written already."""
        branch = self._branch(branch, snapshot_properties)
        added = files_to_arrow(files, self._metadata.specs, self._metadata.all_fields, status=ManifestEntryStatus.ADDED)
        command = ProduceSnapshot(
            Operation.APPEND, self._new_snapshot_id(), branch, added=added, summary=snapshot_properties or {}
        )
        self._commands.append(lambda _: command)

    def add_files(
        self,
        file_paths: Iterable[str],
        *,
        branch: str = MAIN_BRANCH,
        check_duplicate_files: bool = True,
        snapshot_properties: Mapping[str, str] | None = None,
    ) -> None:
        """Appends Parquet files that lie somewhere already, with metrics read from them.

        The table gets a name mapping where it has none, since such files may lack field ids.
        """
        branch = self._branch(branch, snapshot_properties)
        if DEFAULT_NAME_MAPPING not in self._metadata.properties:
            mapping = NameMapping.of_fields(self._metadata.schema().fields)
            self.add(changed_properties({DEFAULT_NAME_MAPPING: mapping.to_json()}, ()))
        files = describe_existing_files(
            self._repository, self._state, self._metadata, tuple(file_paths), branch, check_duplicate_files
        )
        self.append_files(files, branch=branch, snapshot_properties=snapshot_properties)

    def row_delta(
        self,
        data_files: Iterable[ContentFile] = (),
        delete_files: Iterable[ContentFile] = (),
        *,
        branch: str = MAIN_BRANCH,
        snapshot_properties: Mapping[str, str] | None = None,
    ) -> None:
        """Adds data files and equality delete files that were written already, in one snapshot.

        The deletes apply to what is there before, not to the data files that come with them. Raises ValidationError for
        deletes by position: those name files that another commit may replace, so they come from `delete`.
        """
        branch = self._branch(branch, snapshot_properties)
        deletes, added = tuple(delete_files), tuple(data_files)
        for f in deletes:
            if f.content is not DataFileContent.EQUALITY_DELETES:
                raise ValidationError(f"{f.file_path}: only equality deletes can be added, found {f.content.name}")
        files = files_to_arrow(
            (*added, *deletes), self._metadata.specs, self._metadata.all_fields, status=ManifestEntryStatus.ADDED
        )
        if added:
            operation = Operation.OVERWRITE if deletes else Operation.APPEND
        else:
            operation = Operation.DELETE
        command = ProduceSnapshot(
            operation, self._new_snapshot_id(), branch, added=files, summary=snapshot_properties or {}
        )
        self._commands.append(lambda _: command)

    def delete_keys(
        self,
        keys: Any,
        key_columns: Sequence[str] = (),
        *,
        branch: str = MAIN_BRANCH,
        snapshot_properties: Mapping[str, str] | None = None,
    ) -> None:
        """Deletes the rows that equal one of `keys` in the key columns, by equality delete files: nothing is read."""
        branch = self._branch(branch, snapshot_properties)
        files = [] if self._answered else write_key_deletes(keys, key_columns, self._metadata, self._storage)
        self._written += [f.file_path for f in files]
        self.row_delta((), files, branch=branch, snapshot_properties=snapshot_properties)

    def delete(
        self,
        delete_filter: str | Expression,
        *,
        branch: str = MAIN_BRANCH,
        snapshot_properties: Mapping[str, str] | None = None,
    ) -> None:
        """Deletes the rows that match: whole files where all rows do, else the file is rewritten without them."""
        self._remove(delete_filter, (), branch, snapshot_properties)

    def overwrite(
        self,
        data: Any,
        overwrite_filter: str | Expression | None = None,
        *,
        branch: str = MAIN_BRANCH,
        snapshot_properties: Mapping[str, str] | None = None,
    ) -> None:
        """Replaces the rows that match, all rows without a filter, by the data."""
        branch = self._branch(branch, snapshot_properties)
        self._remove(overwrite_filter or TRUE, self._write(data), branch, snapshot_properties)

    def dynamic_partition_overwrite(
        self,
        data: Any,
        *,
        branch: str = MAIN_BRANCH,
        snapshot_properties: Mapping[str, str] | None = None,
    ) -> None:
        """Replaces the partitions that the data has, by the default spec, and leaves all others as they are.

        Raises ValidationError for an unpartitioned table.
        """
        branch = self._branch(branch, snapshot_properties)
        if self._metadata.spec().is_unpartitioned:
            raise ValidationError(
                "a dynamic partition overwrite needs a partitioned table; overwrite() replaces it all"
            )
        self._check_first_change()
        added = tuple(self._write(data))
        overwrite = PartitionOverwrite(Target(branch, self._new_snapshot_id(), dict(snapshot_properties or {})), added)
        self._plan(
            lambda state, metadata: plan_dynamic_overwrite(
                self._repository, self._planner, state, metadata, overwrite, self._storage
            )
        )

    def upsert(
        self,
        data: Any,
        join_cols: Sequence[str] | None = None,
        *,
        when_matched_update_all: bool = True,
        when_not_matched_insert_all: bool = True,
        branch: str = MAIN_BRANCH,
        snapshot_properties: Mapping[str, str] | None = None,
    ) -> Upsert:
        """Updates the rows whose keys the data has and inserts the others; the answer's `result` is set at commit.

        The keys are `join_cols`, else the identifier fields. Rows that would stay the same are not written. Raises
        ValidationError where a key comes twice in the data, and at commit where a key to update is twice in the table.
        """
        branch = self._branch(branch, snapshot_properties)
        self._check_first_change()
        target = Target(branch, self._new_snapshot_id(), dict(snapshot_properties or {}))
        upsert = Upsert.of(
            data, join_cols, self._metadata.schema(), target, when_matched_update_all, when_not_matched_insert_all
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
        branch: str,
        snapshot_properties: Mapping[str, str] | None,
    ) -> None:
        branch = self._branch(branch, snapshot_properties)
        self._check_first_change()
        removal = FilterRemoval(
            row_filter, branch, self._new_snapshot_id(), tuple(added), dict(snapshot_properties or {})
        )
        self._plan(
            lambda state, metadata: plan_removal(
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
