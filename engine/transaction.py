"""Several changes to one table as one commit."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from icecore.engine.changes import changed_properties, evolved_schema, evolved_sort_order, evolved_spec
from icecore.engine.data.incoming import to_arrow
from icecore.engine.data.write import write_data_files
from icecore.engine.decide import ChangeMetadata, Command, ProduceSnapshot
from icecore.engine.equality_deletes import write_key_deletes
from icecore.engine.errors import ValidationError
from icecore.engine.events import Provenance
from icecore.engine.existing_files import describe_existing_files
from icecore.engine.expression.nodes import TRUE, Expression
from icecore.engine.formats.entry_arrow import files_to_arrow
from icecore.engine.ids import new_snapshot_id
from icecore.engine.manage_snapshots import ManageSnapshots
from icecore.engine.metadata_builder import MetadataBuilder, Update
from icecore.engine.removal import FilterRemoval, plan_removal
from icecore.engine.repository import Repository
from icecore.engine.requirements import Requirement, requirements_for
from icecore.engine.rewrite_manifests import plan_rewrite
from icecore.engine.schema_update import SchemaOp, UpdateSchema
from icecore.engine.sort_update import UpdateSortOrder
from icecore.engine.spec.content_file import ContentFile, DataFileContent, ManifestEntryStatus
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.name_mapping import DEFAULT_NAME_MAPPING, NameMapping
from icecore.engine.spec.snapshot import MAIN_BRANCH, Operation, SnapshotRefType
from icecore.engine.spec_update import SpecOp, UpdateSpec
from icecore.engine.state import TableState, data_folder
from icecore.engine.storage import Storage
from icecore.engine.terms import SortTerm
from icecore.engine.update_statistics import UpdateStatistics
from icecore.projections.planner import Planner

Prepared = Callable[[TableState], Command | None]
# Updates that give out the ids of columns, partition fields and orders, which files written after them carry.
RESHAPING = frozenset(
    {"add-schema", "set-current-schema", "add-spec", "set-default-spec", "add-sort-order", "set-default-sort-order"}
)


class Transaction:
    """Gathers changes; `commit()`, or the end of a `with` block, makes them one event: all or nothing.

    Data files are written when the call is made, the log is touched at the end. Later changes see the schema and spec
    that earlier ones leave.
    """

    def __init__(
        self,
        repository: Repository,
        planner: Planner,
        state: TableState,
        provenance: Provenance,
        committed: Callable[[TableState], None],
    ) -> None:
        self._repository = repository
        self._planner = planner
        self._stream = state.stream
        self._provenance = provenance
        self._committed = committed
        self._state = repository.live_state(state.stream)
        self._metadata = self._state.metadata
        self._commands: list[Prepared] = []
        # The event of an earlier call with the same idempotency key: then nothing is done again.
        self._answered = repository.already(provenance)
        self._snapshot_ids: set[int] = set()
        self._reshaping: list[Update] = []
        self._requirements: list[Requirement] = []

    @property
    def metadata(self) -> TableMetadata:
        """The metadata as the changes so far leave it; snapshots of this transaction are not in it yet."""
        return self._metadata

    # Rows

    def append(
        self,
        data: Any,
        *,
        branch: str = MAIN_BRANCH,
        snapshot_properties: Mapping[str, str] | None = None,
    ) -> None:
        """Writes the data into new files, to be appended. Raises ValidationError where it does not fit the schema."""
        self._check_branch(branch)
        self.append_files(self._write(data), branch=branch, snapshot_properties=snapshot_properties)

    def append_files(
        self,
        files: Iterable[ContentFile],
        *,
        branch: str = MAIN_BRANCH,
        snapshot_properties: Mapping[str, str] | None = None,
    ) -> None:
        """Appends data files that were written already."""
        self._check_branch(branch)
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
        self._check_branch(branch)
        if DEFAULT_NAME_MAPPING not in self._metadata.properties:
            mapping = NameMapping.of_fields(self._metadata.schema().fields)
            self.set_properties({DEFAULT_NAME_MAPPING: mapping.to_json()})
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
        self._check_branch(branch)
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
        self._check_branch(branch)
        files = [] if self._answered else write_key_deletes(keys, key_columns, self._metadata, self._storage)
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
        self._check_branch(branch)
        self._remove(overwrite_filter or TRUE, self._write(data), branch, snapshot_properties)

    def _remove(
        self,
        row_filter: str | Expression,
        added: Sequence[ContentFile],
        branch: str,
        snapshot_properties: Mapping[str, str] | None,
    ) -> None:
        self._check_branch(branch)
        if self._snapshot_ids:
            raise ValidationError(
                "a delete or overwrite must be the first change of rows in a transaction: it can't see the others yet"
            )
        removal = FilterRemoval(
            row_filter, branch, self._new_snapshot_id(), tuple(added), dict(snapshot_properties or {})
        )
        self._rely_on_shape()
        metadata = self._metadata if self._reshaping else None
        self._commands.append(
            lambda state: plan_removal(
                self._repository, self._planner, state, metadata or state.metadata, removal, self._storage
            )
        )

    def rewrite_manifests(self, *, branch: str = MAIN_BRANCH) -> None:
        """Puts the live data files of a branch into manifests sorted by partition, of the target size."""
        self._check_branch(branch)
        if self._snapshot_ids:
            raise ValidationError("manifests can't be rewritten in a transaction that has changed rows before")
        snapshot_id = self._new_snapshot_id()
        self._commands.append(lambda state: plan_rewrite(self._repository, state, branch, snapshot_id))

    def _write(self, data: Any) -> list[ContentFile]:
        metadata = self._metadata
        if self._answered is not None:
            return []
        self._rely_on_shape()
        if is_spark(data):
            from icecore.engine.spark.write import write_data_files as write_with_spark

            return write_with_spark(
                data,
                schema=metadata.schema(),
                spec=metadata.spec(),
                sort_order=metadata.sort_order(),
                location=data_folder(metadata.location, metadata.properties),
                properties=metadata.properties,
                file_prefix=str(uuid.uuid4()),
                storage=self._storage,
            )
        return write_data_files(
            to_arrow(data),
            schema=metadata.schema(),
            spec=metadata.spec(),
            location=data_folder(metadata.location, metadata.properties),
            storage=self._storage,
            properties=metadata.properties,
            file_prefix=f"00000-0-{uuid.uuid4()}",
            sort_order=metadata.sort_order(),
        )

    def _rely_on_shape(self) -> None:
        """Notes that files have the ids which this transaction gave out: another writer must not take them meanwhile."""
        self._requirements = requirements_for(self._state.metadata, self._reshaping)

    @property
    def _storage(self) -> Storage:
        return self._repository.storage_of(self._state)

    def _new_snapshot_id(self) -> int:
        taken = {s.snapshot_id for s in self._metadata.snapshots} | self._snapshot_ids
        snapshot_id = new_snapshot_id(taken)
        self._snapshot_ids.add(snapshot_id)
        return snapshot_id

    def _check_branch(self, branch: str) -> None:
        self._metadata.snapshot_by_ref(branch)
        ref = self._metadata.refs.get(branch)
        if ref is not None and ref.type is SnapshotRefType.TAG:
            raise ValidationError(f"{branch!r} is a tag; commits go to branches")

    # Metadata

    def update_schema(self, *, allow_incompatible_changes: bool = False) -> UpdateSchema:
        return UpdateSchema(lambda ops: self.change_schema(ops, allow_incompatible_changes=allow_incompatible_changes))

    def update_spec(self) -> UpdateSpec:
        return UpdateSpec(self.change_spec)

    def update_sort_order(self) -> UpdateSortOrder:
        return UpdateSortOrder(self.change_sort_order)

    def update_statistics(self) -> UpdateStatistics:
        return UpdateStatistics(self.change_statistics)

    def manage_snapshots(self) -> ManageSnapshots:
        return ManageSnapshots(self.change_refs)

    def set_properties(self, updates: Mapping[str, str]) -> None:
        self.add(changed_properties(updates, ()))

    def remove_properties(self, *keys: str) -> None:
        self.add(changed_properties({}, keys))

    def change_schema(self, ops: Sequence[SchemaOp], *, allow_incompatible_changes: bool = False) -> None:
        self.add(evolved_schema(ops, allow_incompatible_changes=allow_incompatible_changes))

    def change_spec(self, ops: Sequence[SpecOp]) -> None:
        self.add(evolved_spec(ops))

    def change_sort_order(self, terms: Sequence[SortTerm | str]) -> None:
        self.add(evolved_sort_order(terms))

    def change_refs(self, ops: Sequence[ChangeMetadata]) -> None:
        for op in ops:
            self.add(op)

    def change_statistics(self, ops: Sequence[ChangeMetadata]) -> None:
        for op in ops:
            self.add(op)

    def add(self, command: ChangeMetadata) -> None:
        """Adds a change of metadata. Raises ValidationError at once where it does not fit what is there."""
        updates = command.updates_for(self._metadata)
        builder = MetadataBuilder(self._metadata)
        builder.apply(updates, self._metadata.last_updated_ms)
        self._metadata = builder.build()
        self._reshaping += [u for u in updates if u["action"] in RESHAPING]
        self._commands.append(lambda _: command)

    # The end

    def commit(self) -> None:
        """Makes the commit. Raises CommitConflictError, ValidationError, NoSuchTableError; nothing is changed then."""
        if self._answered is not None:
            self._committed(self._repository.state(self._answered.stream))
            return
        if not self._commands:
            return
        prepared = self._commands
        result = self._repository.commit(
            self._stream,
            lambda state: [command for prepare in prepared if (command := prepare(state)) is not None],
            self._provenance,
            requirements=self._requirements,
        )
        self._commands, self._snapshot_ids, self._reshaping, self._requirements = [], set(), [], []
        self._committed(result.state)

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.commit()


def is_spark(data: Any) -> bool:
    """Whether the data is a Spark DataFrame, told without importing Spark."""
    return any(c.__module__.startswith("pyspark.sql") and c.__name__ == "DataFrame" for c in type(data).__mro__)
